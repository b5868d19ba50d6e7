// Published results: rows of the record, decoded from columns of numbers and lists of texts -------------

const make = (tag, attributes = {}, ...children) => {
  const node = Object.assign(document.createElement(tag), attributes);
  node.append(...children);
  return node;
};

function decoded({ texts, kinds, links, columns }) {
  const names = Object.keys(columns).filter(name => name !== "findings");
  return columns.printed.map((_, i) => {
    const row = Object.fromEntries(names.map(name => [name, name in texts ? texts[name][columns[name][i]] : columns[name][i]]));
    row.link = links[columns.where[i]];
    row.findings = columns.findings[i].map(k => ({ text: texts.findings[k], kind: kinds[k] }));
    return row;
  });
}

// The number that is printed: one comma is a decimal point, and others group digits, as in evenrank.published.
const numberOf = ({ printed }) => Number(/,.*[,.]/.test(printed) ? printed.replaceAll(",", "") : printed.replace(",", "."));

// A printed value of at most eight letters; the details have all of its digits.
const shown = row => (row.printed.length <= 8 ? row.printed : figure(numberOf(row))) + (row.percent ? " %" : "");

const kindOf = row => (row.candidates === "all" ? "all" : row.candidates.startsWith("top") ? "top" : "sampled");
const negativesOf = row => (row.candidates.endsWith(" sampled") ? Number.parseInt(row.candidates, 10) : 0);
const amongWords = ({ candidates }) => {
  if (candidates === "all") return "all entities";
  if (candidates === "sampled") return "sampled candidates";
  return candidates.startsWith("top ") ? `${candidates.replace(" ", "-")} lists` : `${candidates} negatives`;
};
const quoted = row => row.origin === "quoted" || row.origin === "copied";

const protocolOf = row => [row.split, row.sides === "both" ? "both sides" : `${row.sides} only`,
  { none: "raw", all: "filtered", unknown: "filter not stated" }[row.filter] ?? `filtered by ${row.filter}`].join(", ");

const linked = (row, words) => (row.link ? make("a", { href: row.link, target: "_blank", rel: "noreferrer" }, words) : words);

const MARKS = { sources: ["≠", "another text of the same work prints a different value"] };
const FLAG = ["⚑", "cannot come from one set of ranks"];

// The source, which opens to the protocol, the place where the value is printed, and what the audit finds.
function sourceOf(row) {
  const kinds = new Set(row.findings.map(found => MARKS[found.kind] ?? FLAG));
  const marks = [...kinds].map(([sign, words]) => make("span", { className: "flag", title: words }, ` ${sign}`));
  const tags = quoted(row) ? [" ", make("span", { className: "tag" }, row.origin)] : [];
  const unseen = { keep: "kept", drop: "dropped" }[row.unseen] ?? "not stated";
  const lines = [
    [`${protocolOf(row)}, ${amongWords(row)}; ties: ${row.ties}; unseen entities: ${unseen}`],
    [`${row.origin}; printed as ${row.printed} in `, linked(row, row.where)],
    row.approximate ? ["The numbers of candidates are approximate."] : [], [row.note]];
  return make("details", {}, make("summary", {}, row.source, ...tags, ...marks),
    ...lines.filter(line => line[0]).map(line => make("p", { className: "small" }, ...line)),
    ...row.findings.map(found => make("p", { className: "small flag" }, found.text)));
}

// Published results: rows of the record, decoded from columns of numbers and lists of texts -------------

const make = (tag, attributes = {}, ...children) => {
  const node = Object.assign(document.createElement(tag), attributes);
  node.append(...children);
  return node;
};

function decoded({ texts, columns }) {
  const names = Object.keys(columns);
  return columns.printed.map((_, i) => {
    const row = Object.fromEntries(names.map(name => [name, columns[name][i]]));
    for (const name of Object.keys(texts)) {
      const at = row[name];
      row[name] = Array.isArray(at) ? at.map(k => texts[name][k]) : texts[name][at];
    }
    return row;
  });
}

const sampledOf = row => (row.candidates.endsWith(" sampled") ? Number.parseInt(row.candidates, 10) : 0);
const quoted = row => row.origin === "quoted" || row.origin === "copied";

const protocolOf = row => [row.split, row.sides === "both" ? "both sides" : `${row.sides} only`,
  row.filter === "none" ? "raw" : row.filter === "all" ? "filtered" : `filter: ${row.filter}`,
  ...(row.candidates === "all" ? [] : [row.candidates])].join(", ");

// The source, which opens to the protocol, the place where the value is printed, and what the audit finds.
function sourceCell(row) {
  const flag = row.findings.length ? [make("span", { className: "flag", title: "cannot come from one set of ranks" }, " ⚑")] : [];
  const line = (text, className = "small") => make("p", { className }, text);
  return make("details", {}, make("summary", {}, row.source, ...flag),
    line(`${protocolOf(row)}; ties ${row.ties}`),
    line(`${row.origin}; printed as ${row.printed}${row.percent ? " (in percent)" : ""} in ${row.where}`),
    ...row.findings.map(text => line(text, "small flag")));
}

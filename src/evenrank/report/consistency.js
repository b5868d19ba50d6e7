// Whether values of one model can belong to the same ranks, as in evenrank.published.contradictions ----
//
// A value is {name, printed, shape, low, high}: its metric without adjustment, and the smallest and the largest value
// that are rounded to the printed one.

const SLACK = 1e-9, SINGLE = 1e-6;  // for rounding errors, and for values in single precision

// The ends of rounding, in decimal: 0.48 is 0.475 to 0.485.
function roundedFrom({ digits, places, percent }) {
  const end = sign => Number(`${BigInt(digits) * 10n + sign * 5n}e${-places - 1 - (percent ? 2 : 0)}`);
  return [end(-1n), end(1n)];
}

// Widened by what single precision may change, and cut off at the range of the metric.
function widened(ends, [least, most]) {
  const [low, high] = ends.sort((a, b) => a - b), middle = (low + high) / 2;
  const error = SINGLE * Math.max(Math.abs(low), Math.abs(high));
  return [Math.max(Math.min(low, middle - error), least), Math.min(Math.max(high, middle + error), most)];
}

const inverse = x => (x ? 1 / x : Infinity);

// The metric, or one over it, whichever has the outer power q.
function toPower(one, q) {
  if (one.shape.q === q) return one;
  const name = one.name.startsWith("1/") ? one.name.slice(2) : `1 / ${one.name}`;
  return { ...one, name, shape: { ...one.shape, q }, low: inverse(one.high), high: inverse(one.low) };
}

// So many significant digits, as Python's format .6g.
function general(x, digits = 6) {
  if (!Number.isFinite(x)) return x < 0 ? "-inf" : "inf";
  const [head, power] = Math.abs(x).toExponential(digits - 1).split("e").map(Number), sign = x < 0 ? "-" : "";
  if (power < -4 || power >= digits) {
    return `${sign}${head}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
  }
  return sign + String(Number(`${head}e${power}`));
}

function contradictions(values, most) {
  const found = [];

  function check(relation, of, left, right, wholeRanks = false) {
    if (!(left > right * (1 + SLACK) + SLACK)) return;
    const printed = of.map(one => one.printed), last = printed.pop();
    found.push(`${printed.join(", ")} and ${last} contradict each other: ${relation}, but even with rounding `
      + `${general(left)} > ${general(right)}${wholeRanks ? ", unless ties have fractional ranks" : ""}`);
  }

  function inOrder(a, b) {
    [a, b] = a.shape.q === -1 && b.shape.q === -1 ? [b, a] : [toPower(a, 1), toPower(b, 1)];
    check(`${a.name} <= ${b.name}`, [a, b], a.low, b.high);
  }

  // A mean, if all ranks are at the best, or the worst, ends of the bins that hits@k make.
  function bin(mean, hits, end, atBest, step, wholeRanks = false) {
    const { f, p } = mean.shape, ks = hits.map(one => one.shape.k), limit = f === "rank" ? Infinity : 0;
    const ranks = (atBest ? [1, ...ks.map(k => k + step)] : [...ks, end]).map(rank => Math.min(rank, end));
    const terms = ranks.map(rank => (Number.isFinite(rank) ? transforms[f]()(rank) : limit) ** p);
    if (!terms.every(Number.isFinite)) return;
    const shares = [0, ...hits.map(one => (atBest ? one.high : one.low)), 1];
    const bound = terms.reduce((sum, term, i) => sum + term * (shares[i + 1] - shares[i]), 0);
    const names = hits.map(one => one.name);
    const parts = [names[0], ...names.slice(1).map((name, i) => `(${name} - ${names[i]})`), `(1 - ${names.at(-1)})`];
    const divided = f === "rank" && p === -1;
    const text = parts.map((part, i) => (!terms[i] ? "" : divided ? (ranks[i] === 1 ? part : `${part} / ${general(ranks[i])}`)
      : terms[i] === 1 ? part : `${general(terms[i], 4)} ${part}`)).filter(Boolean).join(" + ");
    const falling = (f !== "rank") === (p > 0), of = [...hits, mean];
    if (atBest === falling) check(`${mean.name} <= ${text}`, of, mean.low, bound, wholeRanks);
    else check(`${text} <= ${mean.name}`, of, bound, mean.high, wholeRanks);
  }

  function finds(look) {
    const before = found.length;
    look();
    return found.splice(before);
  }

  function bins(mean, hits, atBest) {
    for (const way of [...hits.map(one => [one]), ...(hits.length > 1 ? [hits] : [])]) {
      for (const end of most === Infinity ? [Infinity] : [Infinity, most]) {
        let here = finds(() => bin(mean, way, end, atBest, 1));
        if (here.length && atBest && !finds(() => bin(mean, way, end, atBest, .5)).length) {
          here = finds(() => bin(mean, way, end, atBest, 1, true));
        }
        found.push(...here);
        if (here.length) return;
      }
    }
  }

  const isHits = one => one.shape.f === "hits";
  const means = values.filter(one => !isHits(one));
  const hits = values.filter(one => isHits(one) && one.shape.p === 1).map(one => toPower(one, 1));
  hits.sort((a, b) => a.shape.k - b.shape.k);
  const ofRanks = means.filter(one => one.shape.f === "rank").sort((a, b) => a.shape.p - b.shape.p);
  const pairs = list => list.flatMap((a, i) => list.slice(i + 1).map(b => [a, b]));
  const same = (a, b) => a.name === b.name;
  const origin = one => (one.printed.startsWith(`${one.name}=`) ? one.name : `${one.name} from ${one.printed.split("=")[0]}`);
  for (const [a, b] of pairs(values)) {
    if (!same(a, b)) continue;
    check(`${origin(a)} <= ${origin(b)}`, [a, b], a.low, b.high);
    check(`${origin(b)} <= ${origin(a)}`, [b, a], b.low, a.high);
  }
  for (const [a, b] of pairs(ofRanks)) {
    if (same(a, b)) continue;
    inOrder(a, b);
    if (a.shape.p === b.shape.p) inOrder(b, a);
    if (a.shape.p === -1 && b.shape.p === 1 && most !== Infinity) {  // 1/r is convex in r
      const mrr = toPower(a, -1), mr = toPower(b, 1);
      check(`${mrr.name} <= 1 - (${mr.name} - 1) / ${most}`, [a, b], mrr.low, 1 - (mr.low - 1) / most);
    }
  }
  for (const [a, b] of pairs(hits)) if (!same(a, b)) check(`${a.name} <= ${b.name}`, [a, b], a.low, b.high);
  for (const mean of means) {
    if (Math.abs(mean.shape.p) !== 1) continue;
    for (const atBest of [false, true]) bins(toPower(mean, mean.shape.p), hits, atBest);
  }
  return found;
}

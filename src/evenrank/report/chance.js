// Null distributions of tasks with equal numbers of candidates, as in evenrank.metrics.chance ---------
//
// Sums over ranks are added one by one up to DIRECT, and by Gregory's formula beyond: an integral, and differences at
// both ends. Means of powers are integrals over the Laplace transform of the sum of independent ranks, by the
// trapezoidal rule on a logarithmic scale, which converges exponentially.

const DIRECT = 512, STEP = .25, REACH = 80;
const GREGORY = [1 / 12, 1 / 24, 19 / 720, 3 / 160, 863 / 60480];

// Nodes and weights of Gauss and Legendre on [0, 1], by Newton's method.
const GAUSS = Array.from({ length: 20 }, (_, i) => {
  let x = Math.cos(Math.PI * (i + .75) / 20.5), slope = 0;
  for (let round = 0; round < 100; round++) {
    let [before, now] = [1, x];
    for (let k = 2; k <= 20; k++) [before, now] = [now, ((2 * k - 1) * x * now - (k - 1) * before) / k];
    slope = 20 * (before - x * now) / (1 - x * x);
    x -= now / slope;
    if (Math.abs(now / slope) < 1e-16) break;
  }
  return [(1 + x) / 2, 1 / ((1 - x * x) * slope * slope)];
});

function integral(g, from, to) {
  const low = Math.log(from), panels = Math.ceil(2 * Math.log(to / from)), width = Math.log(to / from) / panels;
  let sum = 0;
  for (let i = 0; i < panels; i++) {
    for (const [node, weight] of GAUSS) {
      const x = Math.exp(low + (i + node) * width);
      sum += weight * width * x * g(x);
    }
  }
  return sum;
}

// The mean of g over the ranks 1 to N.
function meanOver(N, g) {
  const last = N <= 2 * DIRECT ? N : DIRECT - 1;
  let sum = 0, lost = 0;
  for (let rank = last; rank >= 1; rank--) {  // with compensation, so that no digits are lost
    const term = g(rank) - lost, next = sum + term;
    lost = next - sum - term;
    sum = next;
  }
  if (last === N) return sum / N;
  sum += integral(g, DIRECT, N) + (g(DIRECT) + g(N)) / 2;
  for (const [end, inwards] of [[DIRECT, 1], [N, -1]]) {
    let differences = [0, 1, 2, 3, 4, 5].map(k => g(end + inwards * k));
    for (const weight of GREGORY) {  // differences of rising order, whose signs alternate
      differences = differences.slice(1).map((value, k) => differences[k] - value);
      sum += weight * differences[0];
    }
  }
  return sum / N;
}

// exp(t) - 1 - t without cancellation.
function excess(t) {
  if (Math.abs(t) > .5) return Math.expm1(t) - t;
  let term = t, sum = 0;
  for (let k = 2; k < 20; k++) sum += term *= t / k;
  return sum;
}

// Mean and second moment of S^e, the power of the mean S of n independent f(rank): e is -1 or 1/2.
function momentsOfPower(e, N, n, f) {
  const mean = meanOver(N, f);
  // the logarithm of the transform; where it is near 1, from its difference to 1
  const log = t => {
    const lost = meanOver(N, rank => Math.expm1(-t * f(rank) / (n * mean)));
    return n * (lost > -.5 ? Math.log1p(lost) : Math.log(meanOver(N, rank => Math.exp(-t * f(rank) / (n * mean)))));
  };
  let first = 0, second = 0;
  for (let v = e < 0 ? -REACH / 2 : -REACH; v <= REACH; v += STEP) {
    const t = Math.exp(v), power = log(t), left = Math.exp(power);
    first += e < 0 ? t * left : -Math.expm1(power) / Math.sqrt(t);
    second += t * t * left;
    if (e < 0 && left === 0) break;
  }
  if (e < 0) return [first * STEP / mean, second * STEP / mean ** 2];
  return [first * STEP * Math.sqrt(mean / Math.PI) / 2, mean];
}

const transforms = { rank: () => r => r, discount: () => r => 1 / Math.log2(1 + r), hits: k => r => (r <= k ? 1 : 0) };

// Mean, standard deviation and worst value of a metric for n tasks with N candidates each; or why they are unknown.
function nullOf({ name, best, shape }, N, n) {
  const unknown = `Chance levels of ${name} are not computed in this page: evenrank chance "${name}" --sizes ${N}x${n}`;
  if (!shape) return unknown;
  const { k, p, q } = shape, f = transforms[shape.f](k), raised = r => f(r) ** p, worst = f(N) ** q;
  if (N === 1) return [best, 0, best];
  if (shape.f === "hits") {
    if (p !== q) return unknown;
    const share = Math.min(1, k / N);
    return [share, Math.sqrt(share * (1 - share) / n), worst];
  }
  if (p === q) {
    const plain = shape.f === "rank" && p === 1;
    const mean = plain ? (N + 1) / 2 : meanOver(N, raised);
    const variance = plain ? (N * N - 1) / 12 : meanOver(N, r => (raised(r) - mean) ** 2);
    return [mean, Math.sqrt(variance / n), worst];
  }
  if (p === 0) {  // exp of a mean: the moments are powers of those of one rank
    const middle = meanOver(N, r => Math.log(f(r)));
    const log = by => n * Math.log1p(meanOver(N, r => excess(by * q / n * (Math.log(f(r)) - middle))));
    const mean = Math.exp(q * middle + log(1));
    return [mean, mean * Math.sqrt(Math.expm1(log(2) - 2 * log(1))), worst];
  }
  const e = q / p;
  if (e !== -1 && e !== .5) return unknown;
  const [mean, square] = momentsOfPower(e, N, n, raised);
  return [mean, Math.sqrt(Math.max(0, square - mean ** 2)), worst];
}

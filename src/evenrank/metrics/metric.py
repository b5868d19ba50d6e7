"""Metrics as values: `M = g(mean_p(f(rank)))`, and the statistics that stand beside that family.

A metric is a transform `f` of the rank, a power mean `p` and an outer power `g(x) = x^q`, `q = 1, -1`:

    M = (sum_i w_i f(r_i)^p)^(q/p),    p = 0: exp(q sum_i w_i log f(r_i)),    p = +-inf: max, min

with weights `w_i` normalised to one. That is the whole family: MR is `(r, 1, 1)`, MRR is
`(r, -1, -1)`, hits@k is `([r <= k], 1, 1)`, GMR is `(r, 0, 1)`. Metrics are frozen, equal by value,
hashable, picklable, and print as they are written: `str(1 / HMR) == "mrr"`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, inf, isnan, log
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from evenrank._internal.arrays import Floats, Function, Ints
from evenrank.errors import InputError
from evenrank.metrics.tally import Tallied, Tally, as_tally
from evenrank.metrics.ties import Ties, check_ties

# the 75 % point of the normal law makes the MAD an estimate of sigma, as scipy's and PyKEEN's is
NORMAL_QUARTILE = 0.6744897501960817

_BORDES = "Bordes et al. 2013"
_HOYT = "Hoyt et al. 2022"


@dataclass(frozen=True)
class Transform:
    """A named, vectorised, monotone, non-negative function of the rank.

    `falling` tells whether better ranks get larger values; it is read off the function. `limit` is
    the value for a rank that grows without end (0 when falling, infinity when rising, unless given).

    >>> gain = Transform("rbp", lambda r: 0.8 ** (r - 1), formula="0.8^(r-1)")
    >>> gain.falling, gain.limit
    (True, 0.0)
    """

    name: str
    function: Function
    formula: str = field(default="", compare=False)
    reference: str = field(default="user-defined", compare=False)
    limit: float = field(default=float("nan"), compare=False)
    falling: bool = field(default=False, init=False, compare=False)

    def __post_init__(self) -> None:
        """Probe the function once, so that later failures are impossible rather than surprising."""
        probe = np.concatenate([np.arange(1.0, 65.0), np.exp2(np.arange(7.0, 31.0))])
        values = np.asarray(self.function(probe), dtype=float)
        if values.shape != probe.shape:
            raise InputError(
                f"transform {self.name!r} must map an array of ranks to an array of the same shape",
                got=f"shape {values.shape} for {probe.shape}",
                do="write it with NumPy functions, e.g. lambda r: 1 / np.log2(1 + r)",
            )
        if not np.isfinite(values).all() or values.min() < 0:
            bad = probe[~np.isfinite(values) | (values < 0)][0]
            raise InputError(
                f"transform {self.name!r} must be finite and non-negative",
                got=f"{self.at(bad)} at rank {bad:.0f}",
            )
        steps = np.diff(values)
        if (steps > 0).any() and (steps < 0).any():
            raise InputError(
                f"transform {self.name!r} must be monotone in the rank",
                got="a function that both rises and falls",
                do="choose one that only rises or only falls as ranks get worse",
            )
        object.__setattr__(self, "falling", bool((steps < 0).any()))
        if isnan(self.limit):
            object.__setattr__(self, "limit", 0.0 if self.falling else inf)
        if not self.formula:
            object.__setattr__(self, "formula", f"{self.name}(r)")

    @property
    def k(self) -> int | None:
        """The k of hits@k; None for other transforms."""
        return self.function.k if isinstance(self.function, _Hit) else None

    def __call__(self, rank: Floats) -> Floats:
        """Apply the function."""
        return np.asarray(self.function(rank), dtype=float)

    def at(self, rank: float) -> float:
        """Apply the function to one rank."""
        return float(self(np.array([float(rank)]))[0])

    def __repr__(self) -> str:
        """Name it; the function has no useful text."""
        return f"Transform({self.name!r})"


def _identity(rank: Floats) -> Floats:
    return rank


def _gain(rank: Floats) -> Floats:
    return np.asarray(1.0 / np.log2(1.0 + rank))


@dataclass(frozen=True)
class _Hit:
    """`[r <= k]`; a class and not a closure, so that two of them are equal and can be pickled."""

    k: int

    def __call__(self, rank: Floats) -> Floats:
        return np.asarray(rank <= self.k, dtype=float)


RANK = Transform("rank", _identity, "r", _BORDES)
GAIN = Transform("ndcg", _gain, "1/log2(1+r)", "Järvelin & Kekäläinen 2002")


def hit(k: float) -> Transform:
    """Whether the rank is at most k.

    >>> hit(3)(np.array([1.0, 3.0, 4.0])).tolist()
    [1.0, 1.0, 0.0]
    """
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k <= 10**15:
        raise InputError(
            "hits@k needs a whole number k >= 1",
            got=repr(k)[:40],
            allowed="1 to 10^15",
            do="e.g. hits@10",
        )
    return Transform(f"hits@{k}", _Hit(int(k)), f"[r <= {k}]", _BORDES, limit=0.0)


@dataclass(frozen=True)
class Metric:
    """The power mean `M_p` of `f(rank)`, raised to `q`.

    >>> MRR == 1 / HMR, str(MRR), str(Metric(RANK, p=2))
    (True, 'mrr', 'mean(2)')
    >>> HITS(10).increasing, MR.increasing, MRR.best
    (True, False, 1.0)
    """

    f: Transform = RANK
    p: float = 1.0
    q: int = 1

    def __post_init__(self) -> None:
        """Refuse what is not of the family."""
        if isnan(self.p):
            raise InputError("the power p of a mean must be a number", got=self.p)
        if self.q not in (1, -1):
            raise InputError("the outer power q must be 1 or -1", got=self.q)
        object.__setattr__(self, "p", float(self.p) + 0.0)  # + 0.0 turns -0.0 into 0.0

    def __rtruediv__(self, one: object) -> Metric:
        """Invert: `1 / HMR` is MRR."""
        if one != 1:
            return NotImplemented
        return Metric(self.f, self.p, -self.q)

    @property
    def increasing(self) -> bool:
        """Whether larger is better."""
        return self.f.falling == (self.q == 1)

    @property
    def additive(self) -> bool:
        """Whether the metric is a plain mean over tasks (p = q)."""
        return self.p == self.q

    @property
    def best(self) -> float:
        """The value when every rank is 1."""
        best = self.f.at(1)
        return best if self.q == 1 else (1.0 / best if best else inf)

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and largest value over all ranks and sizes (the limit included)."""
        limit = self.f.limit
        worst = limit if self.q == 1 else (inf if limit == 0 else 1.0 / limit)
        return (worst, self.best) if self.increasing else (self.best, worst)

    @property
    def formula(self) -> str:
        """The formula in plain text.

        >>> MRR.formula, GMR.formula, Metric(RANK, 2, -1).formula
        ('mean(1/r)', 'exp(mean(log r))', '1 / mean(r^2)^(1/2)')
        """
        f, one_over = self.f.formula, "1 / " if self.q == -1 else ""
        base = f if f.isalnum() or f.startswith("[") else f"({f})"
        if self.p == 1:
            return f"{one_over}mean({f})"
        if self.p == -1:
            return f"{'1 / ' if self.q == 1 else ''}mean(1/{base})"
        if self.p == 0:
            return f"{one_over}exp(mean(log {base}))"
        if abs(self.p) == inf:
            return f"{one_over}{'max' if self.p > 0 else 'min'}({f})"
        power = f"{self.p:g}" if self.p > 0 else f"({self.p:g})"
        return f"{one_over}mean({base}^{power})^(1/{power})"

    @property
    def reference(self) -> str:
        """Where the metric comes from."""
        if self.f == RANK and (self.p, self.q) == (-1, -1):
            return "Voorhees 1999 (TREC-8)"
        if self.f != RANK or (self.p, self.q) == (1, 1):
            return self.f.reference
        if self.p in (-1, 0, 1):
            return _HOYT
        return "power mean (Hölder)"

    def __str__(self) -> str:
        """Write it as the grammar reads it."""
        if self.f == RANK:
            named = _NAMED.get((self.p, self.q))
            if named:
                return named
            inner = _NAMED.get((self.p, 1)) or f"mean({_number(self.p)})"
        else:
            inner = self.f.name if self.p == 1 else f"mean({_number(self.p)}, {self.f.name})"
        return inner if self.q == 1 else f"1/{inner}"

    def __repr__(self) -> str:
        """Print as it is written."""
        return f"Metric({str(self)!r})"

    def term(self, low: float, high: float) -> tuple[Function, float]:
        """Give `X(r) = (f(r)/ref)^p` (`log f(r)` for p = 0) and the reference value it is scaled by.

        The reference is 1 unless `f^p` could leave the range of floats between `low` and `high`.
        """
        f, p = self.f, self.p
        if p == 0:
            return lambda r: np.log(f(r)), 1.0
        ends = f(np.array([low, high], dtype=float))
        extreme = float(ends.max() if p > 0 else ends.min())
        if extreme <= 0 or abs(p * log(extreme)) < 100:
            return (f if p == 1 else lambda r: f(r) ** p), 1.0
        return lambda r: (f(r) / extreme) ** p, extreme

    def __call__(self, ranks: Tally | Tallied | ArrayLike, ties: Ties = "expected") -> float:
        """Compute the metric.

        Parameters
        ----------
        ranks : Ranks, Tally or array_like
            What was ranked; plain ranks start at 1.
        ties : str
            The tie-breaking rule. Under "expected", `f(r)^p` is averaged over the ranks a tie allows.

        Returns
        -------
        float
            The value.

        Examples
        --------
        >>> MRR([1, 2, 4])
        0.5833333333333334
        """
        rows = as_tally(ranks).rows(ties)
        p, q = self.p, self.q
        if abs(p) == inf:
            ends = np.concatenate([self.f(rows.low), self.f(rows.high)])
            mean = float(ends.max() if p > 0 else ends.min())
        else:
            x, ref = self.term(float(rows.low.min()), float(rows.high.max()))
            with np.errstate(divide="ignore"):  # f = 0 under p <= 0: the mean is 0, as it should be
                total = float((rows.mass * rows.mean(x)).sum() / rows.mass.sum())
            if p == 0:
                return exp(q * total) if total > -inf else (0.0 if q == 1 else inf)
            if p == q and ref == 1.0:
                return total
            mean = ref * (total ** (1.0 / p) if total > 0 or p > 0 else inf)
        return mean if q == 1 else (1.0 / mean if mean > 0 else inf)


_NAMED: dict[tuple[float, int], str] = {
    (1.0, 1): "mr",
    (1.0, -1): "imr",
    (0.0, 1): "gmr",
    (0.0, -1): "igmr",
    (-1.0, 1): "hmr",
    (-1.0, -1): "mrr",
    (inf, 1): "max",
    (-inf, 1): "min",
}


def _number(x: float) -> str:
    return repr(x) if abs(x) == inf or x != int(x) else str(int(x))


@dataclass(frozen=True)
class Statistic:
    """A description of the ranks outside the power-mean family: quantiles, spread, count.

    Quantiles of equally weighted ranks interpolate linearly between order statistics, as
    `numpy.quantile` does, so the median of an even number of ranks is the mean of the middle two.
    Under unequal weights they invert the weighted distribution function, averaging at a jump.
    Where ties make a rank uncertain, `expected` uses its expected value, like `realistic`.

    >>> str(MEDIAN), str(1 / MEDIAN), str(Statistic("quantile", at=0.9))
    ('median', '1/median', 'quantile(0.9)')
    """

    kind: Literal["quantile", "std", "var", "mad", "count"]
    at: float | None = None
    q: int = 1

    def __post_init__(self) -> None:
        """Refuse a quantile outside [0, 1]."""
        if self.kind == "quantile" and not (self.at is not None and 0 <= self.at <= 1):
            raise InputError("quantile(x) needs x between 0 and 1", got=self.at)

    def __rtruediv__(self, one: object) -> Statistic:
        """Invert; only quantiles have a meaningful inverse."""
        if one != 1:
            return NotImplemented
        if self.kind != "quantile":
            raise InputError(f"1/{self} is not a metric", do="invert a mean or a quantile instead")
        return Statistic(self.kind, self.at, -self.q)

    @property
    def increasing(self) -> bool | None:
        """Whether larger is better; None where neither is (spread, count)."""
        return self.q == -1 if self.kind == "quantile" else None

    @property
    def best(self) -> float:
        """The value when every rank is 1 (no spread; a count has no best value)."""
        return {"quantile": 1.0, "count": float("nan")}.get(self.kind, 0.0)

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and largest value over all ranks and sizes (the limit included)."""
        if self.kind == "quantile":
            return (1.0, inf) if self.q == 1 else (0.0, 1.0)
        return (0.0, inf)

    @property
    def formula(self) -> str:
        """The formula in plain text."""
        if self.kind == "quantile":
            inner = "median(r)" if self.at == 0.5 else f"quantile(r, {self.at:g})"
            return inner if self.q == 1 else f"1 / {inner}"
        return {
            "std": "sqrt(mean((r - MR)^2))",
            "var": "mean((r - MR)^2)",
            "mad": "median(|r - median(r)|) / 0.6745",
            "count": "number of ranked targets",
        }[self.kind]

    @property
    def reference(self) -> str:
        """Where it comes from."""
        return "descriptive statistic"

    def __str__(self) -> str:
        """Write it as the grammar reads it."""
        name: str = self.kind
        if self.kind == "quantile":
            name = "median" if self.at == 0.5 else f"quantile({_number(self.at or 0.0)})"
        return name if self.q == 1 else f"1/{name}"

    def __repr__(self) -> str:
        """Print as it is written."""
        return f"Statistic({str(self)!r})"

    def __call__(self, ranks: Tally | Tallied | ArrayLike, ties: Ties = "expected") -> float:
        """Compute the statistic of ranks, a tally, or plain ranks."""
        check_ties(ties)
        tally = as_tally(ranks)
        rows = tally.rows("realistic" if ties == "expected" else ties)
        if self.kind == "count":
            return float(tally.count)
        return self.of(rows.low, rows.mass, tally.equal_weights)

    def of(self, rank: Floats, mass: Floats, equal_weights: bool) -> float:
        """Describe ranks with their mass, which is a count where all weights are equal."""
        if self.kind == "quantile":
            value = quantile(rank, mass, self.at or 0.0, equal_weights)
            return value if self.q == 1 else 1.0 / value
        if self.kind == "mad":
            middle = quantile(rank, mass, 0.5, equal_weights)
            return quantile(np.abs(rank - middle), mass, 0.5, equal_weights) / NORMAL_QUARTILE
        mean = (mass * rank).sum() / mass.sum()
        variance = float((mass * (rank - mean) ** 2).sum() / mass.sum())
        return variance if self.kind == "var" else variance**0.5


def quantile_position(at: float, n: int) -> tuple[int, float]:
    """Index of the order statistic below a quantile, and how far it lies towards the next.

    >>> quantile_position(0.29, 101), quantile_position(0.5, 4)  # 0.29 * 100 is 28.999999999999996
    ((29, 0.0), (1, 0.5))
    """
    position = at * (n - 1)
    if abs(position - round(position)) <= 1e-12 * n:
        return round(position), 0.0
    return int(position), position - int(position)


def quantile(values: Floats, mass: Floats, at: float, equal_weights: bool) -> float:
    """Quantile of a histogram: `values[i]` occurs with `mass[i]` (a count if weights are equal)."""
    order = np.argsort(values, kind="stable")
    values, mass = values[order], mass[order]
    if equal_weights:
        ends: Ints = np.cumsum(mass.astype(np.int64))
        below, between = quantile_position(at, int(ends[-1]))
        lower, upper = values[np.searchsorted(ends, [below, min(below + 1, ends[-1] - 1)], "right")]
        return float(lower + between * (upper - lower))
    cumulated = np.cumsum(mass) / mass.sum()
    i = int(np.searchsorted(cumulated, at - 1e-12))
    i = min(i, len(values) - 1)
    j = min(i + 1, len(values) - 1) if abs(cumulated[i] - at) <= 1e-12 else i
    return float(values[i] + values[j]) / 2.0


def HITS(k: int) -> Metric:  # noqa: N802 - reads like the named metrics beside it
    """Share of targets ranked k or better."""
    return Metric(hit(k))


MR = Metric(RANK, 1, 1)
IMR = Metric(RANK, 1, -1)
GMR = Metric(RANK, 0, 1)
IGMR = Metric(RANK, 0, -1)
HMR = Metric(RANK, -1, 1)
MRR = Metric(RANK, -1, -1)
NDCG = Metric(GAIN)
MEDIAN = Statistic("quantile", 0.5)

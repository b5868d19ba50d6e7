"""Rank-based metrics: power means of a function of the rank, and descriptive statistics.

A metric is a transform `f` of the rank, a power mean `p` and an outer power `g(x) = x^q`, `q = 1, -1`:

    M = (sum_i w_i f(r_i)^p)^(q/p),    p = 0: exp(q sum_i w_i log f(r_i)),    p = +-inf: max, min

with weights `w_i` normalised to one. MR is `(r, 1, 1)`, MRR is `(r, -1, -1)`, hits@k is
`([r <= k], 1, 1)`, GMR is `(r, 0, 1)`. Metrics are frozen, hashable and picklable, compare by value,
and print as metric expressions: `str(1 / HMR) == "mrr"`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from math import copysign, exp, inf, isnan, log, log1p
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from evenrank._internal.arrays import Floats, Function, Ints
from evenrank.errors import InputError
from evenrank.metrics.tally import Tallied, Tally, as_tally
from evenrank.metrics.ties import Ranges, Ties, check_ties

# the upper quartile of the normal distribution scales the MAD to an estimate of sigma (SciPy, PyKEEN)
NORMAL_QUARTILE = 0.6744897501960817

PROBED = 4096  # ranks at which a transform is evaluated when it is defined, besides larger ones
MOST_PROBED = 1 << 20  # and at most when it is used
NEAR_ZERO = 0.1  # powers p closer to 0 are computed from expm1(p log f)
TINY = 1e-30  # powers p closer to 0 give the same as this one, and could underflow

_BORDES = "Bordes et al. 2013"
_HOYT = "Hoyt et al. 2022"


@dataclass(frozen=True)
class Transform:
    """A named, vectorised, monotone, non-negative function of the rank.

    Parameters
    ----------
    name : str
        Name in metric expressions.
    function : callable
        Maps an array of ranks to an array of the same shape.
    formula, reference : str
        Formula and source, for lists of metrics.
    limit : float
        The limit for large ranks; by default 0 for falling and infinity for rising functions.

    Attributes
    ----------
    falling : bool
        Whether better ranks have larger values.

    Examples
    --------
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
    _checked: int = field(default=0, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Evaluate the function at many ranks, to find errors early."""
        low = np.arange(1.0, PROBED + 1.0)
        high = np.rint(np.geomspace(PROBED, 2.0**40, 2000))
        high = np.sort(np.concatenate([high, high + 1.0]))  # np.unique would import numpy.ma
        steps = self._steps(np.concatenate([low, high[np.diff(high, prepend=PROBED) > 0]]))
        object.__setattr__(self, "falling", bool((steps < 0).any()))
        if isnan(self.limit):
            object.__setattr__(self, "limit", 0.0 if self.falling else inf)
        if not self.formula:
            object.__setattr__(self, "formula", f"{self.name}(r)")

    def _steps(self, probe: Floats) -> Floats:
        """Evaluate the function at ascending ranks, check the values, and return their differences."""
        try:
            values = np.asarray(self.function(probe), dtype=float)
        except Exception as error:  # the function is the user's
            raise InputError(
                f"transform {self.name!r} must be a function of an array of ranks",
                got=f"{type(error).__name__}: {error}".splitlines()[0],
                do="write it with NumPy functions, e.g. lambda r: 1 / np.log2(1 + r)",
            ) from None
        if values.shape != probe.shape:
            raise InputError(
                f"transform {self.name!r} must map an array of ranks to an array of the same shape",
                got=f"shape {values.shape} for {probe.shape}",
                do="write it with NumPy functions, e.g. lambda r: 1 / np.log2(1 + r)",
            )
        bad = ~np.isfinite(values) | (values < 0)
        if bad.any():
            raise InputError(
                f"transform {self.name!r} must be finite and non-negative",
                got=f"{values[bad][0]} at rank {probe[bad][0]:.0f}",
            )
        steps = np.diff(values)
        steps[np.abs(steps) <= 1e-14 * values[1:]] = 0.0  # rounding
        up, down = np.flatnonzero(steps > 0), np.flatnonzero(steps < 0)
        if len(up) and len(down):
            raise InputError(
                f"transform {self.name!r} must be monotone in the rank",
                got=f"a function that rises from rank {probe[up[0]]:.0f} to {probe[up[0] + 1]:.0f} and "
                f"falls from {probe[down[0]]:.0f} to {probe[down[0] + 1]:.0f}",
                do="use a function that only rises or only falls with the rank",
            )
        return steps

    def check(self, sizes: Ints) -> None:
        """Check a user-defined function at the ranks that these numbers of candidates allow.

        Parameters
        ----------
        sizes : ndarray of int
            Distinct numbers of candidates.

        Raises
        ------
        InputError
            If the function is not finite, non-negative and monotone.
        """
        largest = int(sizes.max())
        ours = self.function in (_identity, _gain) or self.k is not None or self.cut is not None
        if largest <= self._checked or ours:
            return
        most = min(largest, MOST_PROBED)
        every = np.arange(1.0, most + 1.0) if most > self._checked else np.ones(1)
        ends = sizes[sizes > MOST_PROBED].astype(float)
        self._steps(np.unique(np.concatenate([every, ends - 1.0, ends])))
        object.__setattr__(self, "_checked", max(most, self._checked))

    @property
    def k(self) -> int | None:
        """The k of hits@k, or None."""
        return self.function.k if isinstance(self.function, _Hit) else None

    @property
    def cut(self) -> tuple[Literal["mrr", "ndcg"], int] | None:
        """The metric and the k of mrr@k and ndcg@k, or None."""
        return (self.function.of, self.function.k) if isinstance(self.function, _Cut) else None

    def __call__(self, rank: Floats) -> Floats:
        """Apply the function."""
        return np.asarray(self.function(rank), dtype=float)

    def at(self, rank: float) -> float:
        """Apply the function to one rank."""
        return float(self(np.array([float(rank)]))[0])

    def __repr__(self) -> str:
        """Return the name."""
        return f"Transform({self.name!r})"


def _identity(rank: Floats) -> Floats:
    return rank


def _gain(rank: Floats) -> Floats:
    return np.asarray(1.0 / np.log2(1.0 + rank))


@dataclass(frozen=True)
class _Hit:
    """`[r <= k]`: a class instead of a closure, to compare and to pickle."""

    k: int

    def __call__(self, rank: Floats) -> Floats:
        return np.asarray(rank <= self.k, dtype=float)


@dataclass(frozen=True)
class _Cut:
    """`[r <= k] 1/r` or `[r <= k] 1/log2(1 + r)`: a class, to compare and to pickle."""

    of: Literal["mrr", "ndcg"]
    k: int

    def __call__(self, rank: Floats) -> Floats:
        value = 1.0 / rank if self.of == "mrr" else _gain(rank)
        return np.where(rank <= self.k, value, 0.0)


RANK = Transform("rank", _identity, "r", _BORDES)
GAIN = Transform("ndcg", _gain, "1/log2(1+r)", "Järvelin & Kekäläinen 2002")


def check_cutoff(name: str, k: object) -> int:
    """Check the cutoff of a metric: a whole number from 1 on."""
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k <= 10**15:
        raise InputError(
            f"{name}@k needs a whole number k >= 1",
            got=repr(k)[:40],
            allowed="1 to 10^15",
            do=f"e.g. {name}@10",
        )
    return int(k)


def hit(k: float) -> Transform:
    """Return the transform `[rank <= k]`.

    >>> hit(3)(np.array([1.0, 3.0, 4.0])).tolist()
    [1.0, 1.0, 0.0]
    """
    return _hit(check_cutoff("hits", k))


@lru_cache(maxsize=256)  # defining a transform takes a third of a millisecond
def _hit(k: int) -> Transform:
    return Transform(f"hits@{k}", _Hit(k), f"[r <= {k}]", _BORDES, limit=0.0)


def truncated(of: Literal["mrr", "ndcg"], k: float) -> Metric:
    """Return mrr@k or ndcg@k, in which ranks below k add nothing.

    >>> truncated("mrr", 3)([1, 2, 10]), str(truncated("ndcg", 10))
    (0.5, 'ndcg@10')
    """
    k = check_cutoff(of, k)
    formula = f"[r <= {k}] {'1/r' if of == 'mrr' else GAIN.formula}"
    reference = MRR.reference if of == "mrr" else GAIN.reference
    return Metric(Transform(f"{of}@{k}", _Cut(of, k), formula, reference, limit=0.0))


@dataclass(frozen=True)
class Metric:
    """The power mean with exponent `p` of `f(rank)`, raised to the power `q`.

    Parameters
    ----------
    f : Transform
        The function of the rank; by default the rank itself.
    p : float
        Exponent of the mean: 1 is arithmetic, 0 geometric, -1 harmonic, `inf` the maximum.
    q : {1, -1}
        Outer power: -1 inverts the mean.

    Examples
    --------
    >>> MRR == 1 / HMR, str(MRR), str(Metric(RANK, p=2))
    (True, 'mrr', 'mean(2)')
    >>> HITS(10).increasing, MR.increasing, MRR.best
    (True, False, 1.0)
    """

    f: Transform = RANK
    p: float = 1.0
    q: int = 1

    def __post_init__(self) -> None:
        """Check the parameters."""
        if not isinstance(self.f, Transform):
            raise InputError(
                "f must be a transform of the rank",
                got=repr(self.f)[:40],
                do='use er.parse("mrr"), er.HITS(10) or er.define',
            )
        if not _is_number(self.p):
            raise InputError("the power p of a mean must be a number", got=repr(self.p)[:40])
        if not _is_number(self.q) or self.q not in (1, -1):
            raise InputError("the outer power q must be 1 or -1", got=repr(self.q)[:40])
        object.__setattr__(self, "p", float(self.p) + 0.0)  # + 0.0 turns -0.0 into 0.0

    def __rtruediv__(self, one: object) -> Metric:
        """Return the inverse: `1 / HMR` is MRR."""
        if one != 1:
            return NotImplemented
        return Metric(self.f, self.p, -self.q)

    @property
    def increasing(self) -> bool:
        """Whether larger values are better."""
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
        """Infimum and supremum over all ranks and numbers of candidates."""
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
        """The publication that introduced the metric."""
        if self.f == RANK and (self.p, self.q) == (-1, -1):
            return "Voorhees 1999 (TREC-8)"
        if self.f != RANK or (self.p, self.q) == (1, 1):
            return self.f.reference
        if self.p in (-1, 0, 1):
            return _HOYT
        return "power mean (Hölder)"

    def __str__(self) -> str:
        """Return the metric expression."""
        if self.f == RANK:
            named = _NAMED.get((self.p, self.q))
            if named:
                return named
            inner = _NAMED.get((self.p, 1)) or f"mean({_number(self.p)})"
        else:
            inner = self.f.name if self.p == 1 else f"mean({_number(self.p)}, {self.f.name})"
        return inner if self.q == 1 else f"1/{inner}"

    def __repr__(self) -> str:
        """Return the metric expression with the name of the class."""
        return f"Metric({str(self)!r})"

    def term(self, low: float, high: float) -> tuple[Function, float]:
        """Return `X(r) = (f(r)/ref)^p`, or `log f(r)` for p = 0, and the scale `ref`.

        Parameters
        ----------
        low, high : float
            The smallest and the largest rank.

        Returns
        -------
        callable, float
            `X`, and the scale, which is 1 unless `f^p` could overflow.
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
            The ranks; plain ranks start at 1.
        ties : str
            The tie-breaking rule; "expected" averages `f(r)^p` over the possible ranks of a tie.

        Returns
        -------
        float
            The value of the metric.

        Raises
        ------
        InputError
            If there are no ranks, or invalid ones.

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
        elif 0 < abs(p) < NEAR_ZERO:
            mean = self._near_geometric(rows)
        else:
            x, ref = self.term(float(rows.low.min()), float(rows.high.max()))
            with np.errstate(divide="ignore"):  # f = 0 with p <= 0 makes the mean 0
                total = float((rows.mass * rows.mean(x)).sum() / rows.mass.sum())
            if p == 0:
                return exp(q * total) if total > -inf else (0.0 if q == 1 else inf)
            if p == q and ref == 1.0:
                return total
            mean = ref * (total ** (1.0 / p) if total > 0 or p > 0 else inf)
        return mean if q == 1 else (1.0 / mean if mean > 0 else inf)

    def _near_geometric(self, rows: Ranges) -> float:
        """Compute the mean for a tiny p, where f^p differs from 1 in a few digits only.

        With c = log f of the largest value, log mean = c + log(1 + mean of expm1(p (log f - c))) / p.
        """
        f, p = self.f, copysign(max(abs(self.p), TINY), self.p)
        largest = float(f(np.array([rows.low.min(), rows.high.max()], dtype=float)).max())
        if largest == 0:
            return 0.0
        with np.errstate(divide="ignore", over="ignore"):
            excess = rows.mean(lambda rank: np.expm1(p * np.log(f(rank) / largest)))
            total = float((rows.mass * excess).sum() / rows.mass.sum())
        return largest * exp(log1p(total) / p) if -1 < total < inf else 0.0


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isnan(value)


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
    """A descriptive statistic of the ranks: a quantile, a measure of spread, or the count.

    Parameters
    ----------
    kind : {"quantile", "std", "var", "mad", "count"}
        The statistic.
    at : float, optional
        The level of a quantile, from 0 to 1.
    q : {1, -1}
        -1 inverts a quantile.

    Notes
    -----
    Quantiles of equally weighted ranks interpolate linearly between order statistics, as
    `numpy.quantile` does, so the median of an even number of ranks is the mean of the middle two.
    With unequal weights they invert the weighted distribution function, averaging at a jump.
    For tied ranks, "expected" uses the expected rank, as "realistic" does.

    Examples
    --------
    >>> str(MEDIAN), str(1 / MEDIAN), str(Statistic("quantile", at=0.9))
    ('median', '1/median', 'quantile(0.9)')
    """

    kind: Literal["quantile", "std", "var", "mad", "count"]
    at: float | None = None
    q: int = 1

    def __post_init__(self) -> None:
        """Check the level of a quantile."""
        if self.kind == "quantile" and not (_is_number(self.at) and 0 <= (self.at or 0) <= 1):
            raise InputError("quantile(x) needs x between 0 and 1", got=self.at)

    def __rtruediv__(self, one: object) -> Statistic:
        """Return the inverse of a quantile."""
        if one != 1:
            return NotImplemented
        if self.kind != "quantile":
            raise InputError(f"1/{self} is not a metric", do="only means and quantiles can be inverted")
        return Statistic(self.kind, self.at, -self.q)

    @property
    def increasing(self) -> bool | None:
        """Whether larger values are better; None for spread and count."""
        return self.q == -1 if self.kind == "quantile" else None

    @property
    def best(self) -> float:
        """The value when every rank is 1; NaN for the count."""
        return {"quantile": 1.0, "count": float("nan")}.get(self.kind, 0.0)

    @property
    def range(self) -> tuple[float, float]:
        """Infimum and supremum over all ranks and numbers of candidates."""
        if self.kind == "quantile":
            return (1.0, inf) if self.q == 1 else (0.0, 1.0)
        return (0.0, inf)

    @property
    def formula(self) -> str:
        """The formula as plain text."""
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
        """The publication that introduced the statistic."""
        return "descriptive statistic"

    def __str__(self) -> str:
        """Return the metric expression."""
        name: str = self.kind
        if self.kind == "quantile":
            name = "median" if self.at == 0.5 else f"quantile({_number(self.at or 0.0)})"
        return name if self.q == 1 else f"1/{name}"

    def __repr__(self) -> str:
        """Return the metric expression with the name of the class."""
        return f"Statistic({str(self)!r})"

    def __call__(self, ranks: Tally | Tallied | ArrayLike, ties: Ties = "expected") -> float:
        """Compute the statistic.

        Parameters
        ----------
        ranks : Ranks, Tally or array_like
            The ranks; plain ranks start at 1.
        ties : str
            The tie-breaking rule.

        Returns
        -------
        float
            The value of the statistic.
        """
        check_ties(ties)
        tally = as_tally(ranks)
        rows = tally.rows("realistic" if ties == "expected" else ties)
        if self.kind == "count":
            return float(tally.count)
        return self.of(rows.low, rows.mass, tally.equal_weights)

    def of(self, rank: Floats, mass: Floats, equal_weights: bool) -> float:
        """Compute the statistic of ranks with their mass.

        Parameters
        ----------
        rank, mass : ndarray of float
            Distinct ranks and their mass, which is a count if all weights are equal.
        equal_weights : bool
            Whether all weights are equal.

        Returns
        -------
        float
            The value of the statistic.
        """
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
    """Return the index of the order statistic below a quantile, and the fraction towards the next.

    >>> quantile_position(0.29, 101), quantile_position(0.5, 4)  # 0.29 * 100 is 28.999999999999996
    ((29, 0.0), (1, 0.5))
    """
    position = at * (n - 1)
    if abs(position - round(position)) <= 1e-12 * n:
        return round(position), 0.0
    return int(position), position - int(position)


def quantile(values: Floats, mass: Floats, at: float, equal_weights: bool) -> float:
    """Return a quantile of a histogram; `mass` is a count if weights are equal."""
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
    """Return hits@k, the share of targets ranked k or better.

    Parameters
    ----------
    k : int
        The largest rank that counts as a hit.

    Returns
    -------
    Metric
        The metric.

    Raises
    ------
    InputError
        If k is no whole number from 1 on.

    Examples
    --------
    >>> HITS(10)([1, 4, 12])
    0.6666666666666666
    """
    return Metric(hit(k))


MR = Metric(RANK, 1, 1)
IMR = Metric(RANK, 1, -1)
GMR = Metric(RANK, 0, 1)
IGMR = Metric(RANK, 0, -1)
HMR = Metric(RANK, -1, 1)
MRR = Metric(RANK, -1, -1)
NDCG = Metric(GAIN)
MEDIAN = Statistic("quantile", 0.5)

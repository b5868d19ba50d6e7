"""Metrics of torchmetrics whose state is a tally: any number of processes returns the same bits.

    RankingMetric     a single target per query: scores and the column of the target
    AnswersMetric     several answers per query: scores and which candidates are relevant

The state of a `RankingMetric` is two vectors of int64: the rows of the tally's histograms, `(better,
equal, weight, count)` and `(candidates, weight, count)`, one after the other, weights by their bits.
Processes gather these vectors and merge equal rows, so the result does not depend on batches, shards or
their order, as a mean of means does. That of an `AnswersMetric` is exact sums of the values of queries,
and counts of their shapes (`evenrank.metrics.answers.tally`).
"""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from evenrank._internal import columns
from evenrank._internal.arrays import Ints, complex_error, nan_error
from evenrank._internal.checks import check_choice
from evenrank._internal.optional import need
from evenrank.errors import InputError
from evenrank.metrics.answers.metric import for_answers
from evenrank.metrics.answers.tally import QueryTally
from evenrank.metrics.answers.values import AnswerTies
from evenrank.metrics.answers.values import check_ties as check_answer_ties
from evenrank.metrics.grammar import Metrics, listed, parse
from evenrank.metrics.tally import Histogram, Tally
from evenrank.metrics.ties import Ties, check_ties
from evenrank.ranks.evaluation import bare, evaluate, usual_metrics
from evenrank.ranks.rankings import Empty, Rankings
from evenrank.ranks.ranks import Ranks

need("torchmetrics")  # before it is imported: says what to install

import torch  # noqa: E402
from torch import Tensor  # noqa: E402
from torchmetrics import Metric  # noqa: E402

__all__ = ["AnswersMetric", "RankingMetric"]

MERGED = 64  # vectors of tallies that are kept before they are added up


class RankingMetric(Metric):  # type: ignore[misc]  # untyped where torchmetrics is absent
    """Rank-based metrics over all batches and processes, chance-adjusted on request.

    Parameters
    ----------
    *metrics : str, Metric or list of these
        The metrics; by default those of the default table.
    ties : str, default "expected"
        The tie-breaking rule.
    **options
        Options of every torchmetrics metric.

    Raises
    ------
    InputError
        If the tie-breaking rule is unknown.

    Examples
    --------
    >>> metric = RankingMetric("mrr", "index(hits@1)")
    >>> metric.update(torch.tensor([[0.1, 0.9, 0.5], [0.2, 0.3, 0.4]]), torch.tensor([1, 0]))
    >>> {name: round(value.item(), 3) for name, value in metric.compute().items()}
    {'mrr': 0.667, 'index_hits_at_1': 0.25}
    """

    full_state_update = False
    is_differentiable = False
    ranks: Any  # vectors of counts, a list until processes are synchronised
    sizes: Any

    def __init__(self, *metrics: Metrics, ties: Ties = "expected", **options: Any) -> None:
        super().__init__(**options)
        check_ties(ties)
        self.ties = ties
        self.metrics = tuple(dict.fromkeys(map(parse, listed(metrics))))
        self.add_state("ranks", default=[], dist_reduce_fx="cat")
        self.add_state("sizes", default=[], dist_reduce_fx="cat")
        super().set_dtype(torch.int64)  # for processes without batches, which gather empty vectors

    def update(
        self,
        scores: Tensor | Ranks,
        target: Tensor | None = None,
        known: Tensor | None = None,
        weights: Tensor | None = None,
    ) -> None:
        """Add a batch.

        Parameters
        ----------
        scores : Tensor, shape (queries, candidates), or Ranks
            Scores; higher is better. `Ranks` are added as they are, without further arguments.
        target : Tensor, shape (queries,)
            The column of each target.
        known : Tensor of bool, shape (queries, candidates), optional
            Known true answers to leave out; the target always stays.
        weights : Tensor, shape (queries,), optional
            Weights of the queries.

        Raises
        ------
        InputError
            If shapes do not match, a target is not a column, or scores contain NaN.
        """
        if not isinstance(scores, Ranks):
            mass = None if weights is None else _host(_tensor("weights", weights).double())
            more = Tally.of(*_counted(_tensor("scores", scores), target, known), mass)
        elif target is known is weights is None:
            more = scores.tally()
        else:
            raise InputError("ranks include targets and weights", do="update(ranks)")
        tally = self.tally + more
        self.ranks, self.sizes = [self._state(tally.ranks)], [self._state(tally.sizes)]

    def compute(self) -> Tensor | dict[str, Tensor]:
        """Evaluate the batches of all processes.

        Returns
        -------
        Tensor or dict of str to Tensor
            A scalar in float64, or scalars by plain name for several metrics.
        """
        return _tensors(evaluate([self.tally], self.metrics, ties=self.ties), self.device)

    def set_dtype(self, dst_type: str | torch.dtype) -> Metric:  # noqa: ARG002  # torchmetrics' name
        """Keep the state in int64, whatever the requested type: weights are stored as their bits."""
        return self

    @property
    def higher_is_better(self) -> bool | None:
        """Whether higher is better; None for several metrics, which may differ."""
        return self.metrics[0].increasing if len(self.metrics) == 1 else None

    @property
    def tally(self) -> Tally:
        """The tally of this process, or within `sync_context` that of all processes."""
        return Tally(
            _histogram(self.ranks, "better", "equal", "weight"),
            _histogram(self.sizes, "candidates", "weight"),
        )

    def _state(self, histogram: Histogram) -> Tensor:
        rows = [*histogram.columns.values(), histogram.counts]
        integers = [c.view(np.int64) if c.dtype.kind == "f" else c.astype(np.int64) for c in rows]
        return torch.from_numpy(np.stack(integers, axis=1).ravel()).to(self.device)


class AnswersMetric(Metric):  # type: ignore[misc]  # untyped where torchmetrics is absent
    """Metrics of queries with several answers over all batches and processes.

    Parameters
    ----------
    *metrics : str, Metric or list of these
        The metrics, such as "map" or "index(ndcg@10)"; by default those of the default table.
    ties : {"expected", "optimistic", "pessimistic"}
        The tie-breaking rule; "expected" averages each metric over all orders of tied candidates.
    empty : {"skip", "zero"}
        Whether queries without relevant candidates are left out, or have the value 0.
    **options
        Options of every torchmetrics metric.

    Raises
    ------
    InputError
        If a choice is unknown, or a metric is one of single targets.

    Examples
    --------
    >>> metric = AnswersMetric("map", "index(ndcg@2)")
    >>> scores = torch.tensor([[0.1, 0.9, 0.5], [0.2, 0.3, 0.4]])
    >>> metric.update(scores, torch.tensor([[0, 1, 1], [1, 0, 0]]))
    >>> {name: round(value.item(), 3) for name, value in metric.compute().items()}
    {'map': 0.667, 'index_ndcg_at_2': -0.266}
    """

    full_state_update = False
    is_differentiable = False
    sums: Any  # vectors of tallies, a list until processes are synchronised

    def __init__(
        self,
        *metrics: Metrics,
        ties: AnswerTies = "expected",
        empty: Empty = "skip",
        **options: Any,
    ) -> None:
        super().__init__(**options)
        check_answer_ties(ties)
        check_choice("value of empty", empty, get_args(Empty))
        self.ties, self.empty = ties, empty
        self.metrics = tuple(dict.fromkeys(map(parse, listed(metrics))))
        wanted = self.metrics or tuple(map(parse, usual_metrics(wide=False)))
        self._added = tuple(dict.fromkeys(for_answers(bare(one)) for one in wanted))
        self.add_state("sums", default=[], dist_reduce_fx="cat")
        super().set_dtype(torch.int64)  # for processes without batches, which gather empty vectors

    def update(
        self,
        scores: Tensor | Rankings,
        relevant: Tensor | None = None,
        known: Tensor | None = None,
        weights: Tensor | None = None,
    ) -> None:
        """Add a batch of queries.

        Parameters
        ----------
        scores : Tensor, shape (queries, candidates), or Rankings
            Scores; higher is better. `Rankings` are added as they are, without further arguments.
        relevant : Tensor, shape (queries, candidates)
            Whether a candidate is relevant, or its gain.
        known : Tensor of bool, shape (queries, candidates), optional
            Candidates to leave out, such as items seen in training; relevant ones always stay.
        weights : Tensor, shape (queries,), optional
            Weights of the queries.

        Raises
        ------
        InputError
            If shapes do not match, gains are negative, or scores contain NaN.
        """
        if not isinstance(scores, Rankings):
            mass = None if weights is None else _host(_tensor("weights", weights).double())
            found = Rankings.flat(*_ranked(_tensor("scores", scores), relevant, known), weights=mass)
        elif relevant is known is weights is None:
            found = scores
        else:
            raise InputError("rankings include answers and weights", do="update(rankings)")
        self._append(found.tally(*self._added, empty=self.empty))
        if len(self.sums) > MERGED:
            merged, self.sums = self.tally, []
            self._append(merged)

    def _append(self, tally: QueryTally) -> None:
        self.sums.append(torch.from_numpy(tally.to_integers()).to(self.device))

    def compute(self) -> Tensor | dict[str, Tensor]:
        """Evaluate the batches of all processes.

        Returns
        -------
        Tensor or dict of str to Tensor
            A scalar in float64, or scalars by plain name for several metrics.
        """
        default = usual_metrics(wide=False)
        zero = self.empty == "zero"
        result = evaluate([self.tally], self.metrics, ties=self.ties, default=default, zero=zero)
        return _tensors(result, self.device)

    def set_dtype(self, dst_type: str | torch.dtype) -> Metric:  # noqa: ARG002  # torchmetrics' name
        """Keep the state in int64, whatever the requested type."""
        return self

    @property
    def higher_is_better(self) -> bool:
        """Whether higher is better, which holds for all of these metrics."""
        return True

    @property
    def tally(self) -> QueryTally:
        """The tally of this process, or within `sync_context` that of all processes."""
        vectors = [self.sums] if isinstance(self.sums, Tensor) else self.sums
        flat = np.concatenate([np.zeros(0, np.int64), *map(_host, vectors)])
        return QueryTally.of_integers(self._added, flat)


def _tensors(result: Any, device: Any) -> Tensor | dict[str, Tensor]:
    """Return the values of an evaluation; of a single metric a scalar."""
    values = {
        name: torch.tensor(value, dtype=torch.float64, device=device)
        for name, value in result.to_dict(plain=True).items()
    }
    return values if len(values) > 1 else values.popitem()[1]


def _ranked(
    scores: Tensor, relevant: Tensor | None, known: Tensor | None
) -> tuple[Ints, Ints, Ints, Ints, NDArray[Any]]:
    """Rank relevant candidates on the device of the scores: the columns of `Rankings.flat`."""
    if relevant is None:
        raise InputError("scores need answers", do="update(scores, relevant), or update(rankings)")
    _check_matrix(scores)
    gains = _tensor("relevant", relevant).to(scores.device)
    if gains.shape != scores.shape:
        raise InputError(
            "relevant must have the shape of scores",
            got=f"{tuple(gains.shape)} and {tuple(scores.shape)}",
        )
    there = torch.ones_like(scores, dtype=torch.bool)
    if known is not None:
        there = ~_others(known, scores) | (gains != 0)
    if scores.dtype not in (torch.float32, torch.float64):
        scores = scores.double() if not scores.is_floating_point() else scores.float()
    undefined = scores.isnan().any(1)
    if undefined.any():
        raise nan_error(f"query {int(undefined.nonzero()[0])}")
    many = there.sum(1)
    # in ascending order, left out candidates stand at the end, as equals of infinity at most
    ordered = scores.masked_fill(~there, torch.inf).sort(dim=1).values
    query, column = gains.nonzero(as_tuple=True)
    count = torch.bincount(query, minlength=len(scores))
    first = torch.cat([count.new_zeros(1), count.cumsum(0)])
    place = torch.arange(len(query), device=query.device) - first[query]
    own = scores.new_zeros((len(scores), int(count.max()) if len(count) else 0))
    own[query, place] = scores[query, column]
    low = torch.searchsorted(ordered, own)[query, place]
    high = torch.searchsorted(ordered, own, right=True)[query, place].minimum(many[query])
    worth = _host(gains[query, column])
    counts = [first, many[query] - high, high - low - 1, many]
    offsets, better, equal, candidates = (_host(one).astype(np.int64) for one in counts)
    return offsets, better, equal, candidates, worth


def _histogram(state: list[Tensor] | Tensor, *names: str) -> Histogram:
    """Read vectors of counts, merging equal rows."""
    vectors = [state] if isinstance(state, Tensor) else state
    flat = np.concatenate([np.zeros(0, np.int64), *map(_host, vectors)])
    *values, counts = np.ascontiguousarray(flat.reshape(-1, len(names) + 1).T)
    named = dict(zip(names, values, strict=True))
    return Histogram.of(counts, **{**named, "weight": named["weight"].view(np.float64)})


def _counted(scores: Tensor, target: Tensor | None, known: Tensor | None) -> tuple[Ints, Ints, Ints]:
    """Count better, equal and all candidates on the device of the scores, as `Ranks.from_scores`."""
    if target is None:
        raise InputError("scores need a target", do="update(scores, target), or update(ranks)")
    _check_matrix(scores)
    goal = columns.repeat(
        "target", columns.integers("target", _host(_tensor("target", target)), 0), len(scores)
    )
    columns.reject(goal >= scores.shape[1], goal, "a target is not among the candidates (columns)")
    others = torch.ones_like(scores, dtype=torch.bool)
    if known is not None:
        others = ~_others(known, scores)
    at = torch.as_tensor(goal.copy(), device=scores.device)[:, None]
    others = others.scatter(1, at, value=False)
    score = scores.gather(1, at)
    marked = [(scores > score) & others, (scores == score) & others, others]
    counts = [marks.sum(1, dtype=torch.int32) for marks in marked]  # int64 takes twice as long
    undefined = scores.amax(1).isnan()  # the maximum in torch is NaN if there is one
    better, equal, rest, nan = _host(torch.stack([*counts, undefined])).astype(np.int64)
    if nan.any():
        raise nan_error(f"query {np.flatnonzero(nan)[0]}")
    return better, equal, rest + 1


def _check_matrix(scores: Tensor) -> None:
    if scores.ndim != 2:
        raise InputError(
            "scores must be a matrix, a row per query and a column per candidate",
            got=f"shape {tuple(scores.shape)}",
        )


def _others(known: Any, scores: Tensor) -> Tensor:
    """Return the mask of known candidates."""
    mask = _tensor("known", known).to(scores.device).bool()
    if mask.shape != scores.shape:
        raise InputError(
            "known and scores differ in shape", got=f"{tuple(mask.shape)} and {tuple(scores.shape)}"
        )
    return mask


def _tensor(name: str, values: Any) -> Tensor:
    """Convert to a tensor."""
    try:
        tensor = torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"{name} must be a tensor of numbers", got=type(values).__name__) from None
    if tensor.is_complex():
        raise complex_error(name)
    return tensor


def _host(tensor: Tensor) -> NDArray[Any]:
    return np.asarray(tensor.detach().cpu().numpy())

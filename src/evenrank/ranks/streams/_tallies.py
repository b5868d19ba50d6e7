"""Histograms that add, and what is evaluated from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from evenrank._internal import columns
from evenrank.errors import InputError
from evenrank.metrics.grammar import Metrics
from evenrank.metrics.tally import Histogram, Tally
from evenrank.metrics.ties import Ties
from evenrank.ranks.evaluation import Evaluation, evaluate
from evenrank.ranks.files import key_array
from evenrank.ranks.protocol import Protocol, shared
from evenrank.ranks.ranks import average_name, one_rule

if TYPE_CHECKING:
    import polars as pl

RANKS = ("better", "equal", "weight")
SIZES = ("candidates", "weight")
COUNT, GROUP = "how often", "number of the group"  # beside keys of the user's, so named like none
WAIT = 2**20  # distinct rows that wait to be added, at least
SLICES = 8  # in which many are added
NAMED = 5  # things that a note names


@dataclass(frozen=True)
class Question:
    """What files are counted for: keys to split by, an average, and what to do about damage."""

    by: tuple[str, ...] = ()
    average: str = "micro"
    candidates: int | None = None
    skip_damaged: bool = False

    @classmethod
    def of(
        cls,
        by: str | Sequence[str],
        average: str | Sequence[str],
        candidates: int | None,
        skip_damaged: bool,
    ) -> Self:
        """Take what users write."""
        keys = tuple(by.split(",")) if isinstance(by, str) and by else tuple(by)
        return cls(keys, average_name(average), candidates, skip_damaged)


class Origin(NamedTuple):
    """What a file says of its ranks: how they were made, how ties rank, whether there are weights."""

    protocol: Protocol
    ties: Ties
    weighted: bool


@dataclass(frozen=True, eq=False, repr=False)
class Tallies:
    """What files hold, counted: a tally for each group; iterate over (labels, tally), or evaluate them.

    The histograms are polars frames, a row for each distinct row of keys and counts. So they grow with
    what is distinct (ranks, weights, and the groups of an average), and not with the files.
    """

    question: Question
    ranks: pl.DataFrame | None = None  # None where nothing is counted yet
    sizes: pl.DataFrame | None = None
    origins: tuple[Origin, ...] = ()  # those that differ, of the files that were looked at
    left_out: Mapping[str, str] = field(default_factory=dict)  # damaged files, and why

    @property
    def protocol(self) -> Protocol:
        """What the protocols of all files share."""
        return shared(origin.protocol for origin in self.origins)

    @cached_property
    def count(self) -> int:
        """Number of ranked targets."""
        return 0 if self.ranks is None else int(self.ranks[COUNT].sum())

    @cached_property
    def tally(self) -> Tally:
        """All groups in one tally."""
        return sum((tally for _, tally in self), Tally())

    def __len__(self) -> int:
        """Number of groups."""
        return len(self.labels)

    def __repr__(self) -> str:
        """Say how much it holds."""
        by = f", by {', '.join(self.question.by)}" if self.question.by else ""
        return f"Tallies({self.count:,} ranked{by})"

    def __iter__(self) -> Iterator[tuple[tuple[str, ...], Tally]]:
        """Give each group's labels and tally."""
        pairs = zip(self._histograms(RANKS), self._histograms(SIZES), strict=True)
        yield from zip(self.labels, (Tally(ranks, sizes) for ranks, sizes in pairs), strict=True)

    @property
    def labels(self) -> tuple[tuple[str, ...], ...]:
        """Labels of the groups, sorted."""
        return self._numbered[1] if self.question.by else ((),)

    def evaluate(self, *metrics: Metrics, ties: Ties | None = None) -> Evaluation[Any]:
        """Evaluate metrics, as `Ranks` and its groups do."""
        labels, tallies = zip(*self, strict=True)
        made = evaluate(
            tallies,
            metrics,
            ties=one_rule((origin.ties for origin in self.origins), ties),
            labels=labels,
            label_names=self.question.by,
            protocol=replace(self.protocol, average=self.question.average),
        )
        return replace(made, notes=(*made.notes, *self.notes))

    @property
    def notes(self) -> list[str]:
        """What there is to say of files that differ, and of those that were left out."""
        files = [f"left out, as it is damaged: {why}" for why in self.left_out.values()]
        more = len(files) - NAMED
        rest = [f"and {more} more damaged files were left out"] if more > 0 else []
        return [*self._differences, *files[:NAMED], *rest]

    @property
    def _differences(self) -> list[str]:
        """Say in what the files differ, which are counted as one all the same."""
        every = [
            {**one.protocol.to_dict(), "weights": "given" if one.weighted else ""}
            for one in self.origins
        ]
        found = []
        for name in dict.fromkeys(name for one in every for name in one):
            values = sorted({one.get(name) or "(none)" for one in every})
            more = ["..."] if len(values) > NAMED else []
            if len(values) > 1:
                found.append(f"{name} ({', '.join(values[:NAMED] + more)})")
        return [f"the files, counted as one, differ in {', '.join(found)}"] if found else []

    def checked(self) -> Self:
        """Refuse what has no metrics: nothing left, no weights, or weights no stream can average."""
        if self.ranks is None:
            reasons = list(self.left_out.values())
            raise InputError("every file is damaged", got=reasons[0] if reasons else "no file")
        if self.question.by and not len(self.ranks):
            raise InputError("no ranks to split", do="rank at least one target")
        if "weight" not in self.ranks.columns:
            return self
        weights = self.ranks["weight"]
        if len(weights) and not (weights > 0).any():
            raise InputError("at least one weight must be positive", got="only zeros")
        if self.question.average != "micro" and (weights != 1).any():
            # their sums would depend on the order in which they are added
            raise InputError(
                "targets with weights cannot be averaged by group in a stream",
                got=f"average {self.question.average}, and weights",
                do="load the ranks (er.Ranks.load), or average over targets (micro)",
            )
        return self

    @cached_property
    def _numbered(self) -> tuple[pl.DataFrame, tuple[tuple[str, ...], ...]]:
        """Number the groups, and label them, as `Ranks` does."""
        import polars as pl

        assert self.sizes is not None
        keys = self.sizes.select(*dict.fromkeys(self.question.by)).unique()
        arrays = [columns.key(name, key_array(keys[name]), len(keys)) for name in self.question.by]
        numbers, distinct = columns.encode(arrays)
        labels = tuple(zip(*(map(str, column) for column in distinct), strict=True))
        return keys.with_columns(pl.Series(GROUP, numbers, pl.UInt32)), labels

    def _histograms(self, names: tuple[str, ...]) -> Iterator[Histogram]:
        """Cut a frame into the histograms of its groups; what weighs nothing is not in them."""
        import polars as pl

        frame, groups = self._weighed(names), list[pl.DataFrame]()
        if self.question.by:
            keys = self._numbered[0]
            frame = frame.join(keys, on=keys.columns[:-1], nulls_equal=True).select(GROUP, *names, COUNT)
            groups = frame.partition_by(GROUP)
        for group in sorted(groups, key=lambda one: one[GROUP][0]) or [frame]:
            weigh = group.filter(pl.col("weight") > 0).cast({pl.Int32: pl.Int64})
            yield Histogram.of(
                weigh[COUNT].to_numpy(), **{name: weigh[name].to_numpy() for name in names}
            )

    def _weighed(self, names: tuple[str, ...]) -> pl.DataFrame:
        """Give a frame with the weights that the average asks for."""
        import polars as pl

        frame = self.ranks if names == RANKS else self.sizes
        assert frame is not None
        keys = [name for name in frame.columns if name not in (*names, COUNT)]
        if self.question.average == "micro" or not len(frame):
            return weighed(frame)
        return frame.with_columns(weight=1.0 / pl.col(COUNT).sum().over(keys))


def merged(tallies: Sequence[Tallies]) -> Tallies:
    """Add tallies up."""
    origins = {str(origin): origin for one in tallies for origin in one.origins}
    return Tallies(
        tallies[0].question,
        _added([one.ranks for one in tallies if one.ranks is not None]),
        _added([one.sizes for one in tallies if one.sizes is not None]),
        tuple(origins.values()),
        {file: why for one in tallies for file, why in one.left_out.items()},
    )


def of_one_file(parts: Sequence[Tallies]) -> Tallies:
    """Add the parts of a file up; where one is damaged, the file is."""
    damaged = [part for part in parts if part.left_out]
    return damaged[0] if damaged else merged(parts)


def added(tallies: Iterable[Tallies], add: Callable[[list[Tallies]], Tallies]) -> Tallies:
    """Add up as they come; a large sum waits until there is as much to add to it."""
    total: list[Tallies] = []
    waiting: list[Tallies] = []
    for one in tallies:
        waiting.append(one)
        if sum(map(_size, waiting)) > max(WAIT, sum(map(_size, total))):
            total, waiting = [add([*total, *waiting])], []
    return add([*total, *waiting])


def _size(tallies: Tallies) -> int:
    return 0 if tallies.ranks is None else len(tallies.ranks)


def _added(frames: Sequence[pl.DataFrame]) -> pl.DataFrame | None:
    """Add histograms up."""
    import polars as pl

    if len(frames) < 2:
        return frames[0] if frames else None
    kinds = dict.fromkeys(tuple(name for name in frame.columns if name != "weight") for frame in frames)
    if len(kinds) > 1:
        raise InputError(
            "the files tell queries by different keys",
            got=" and ".join(", ".join(columns[: columns.index(COUNT)]) for columns in kinds),
            do="have all do so alike",
        )
    if any("weight" in frame.columns for frame in frames):
        frames = [weighed(frame) for frame in frames]
    # a key that is a number here and text there is text
    both = pl.concat(frames, how="diagonal_relaxed").with_columns(pl.col(pl.String).fill_null(""))
    names = [name for name in both.columns if name != COUNT]
    if not {*names} <= {*RANKS, *SIZES}:
        # the streaming engine takes a third of the time, and slice by slice, half the memory
        slices = range(SLICES if len(both) > WAIT else 1)
        some = pl.col("better" if "better" in names else "candidates") % len(slices)
        parts = (both.lazy().filter(some == i).group_by(names).agg(pl.col(COUNT).sum()) for i in slices)
        return pl.concat([part.collect(engine="streaming") for part in parts])
    # numbers without keys: NumPy takes a twentieth of the time
    arrays = {name: both[name].to_numpy() for name in names}
    sums = Histogram.of(both[COUNT].to_numpy(), **arrays)
    return pl.DataFrame({**sums.columns, COUNT: sums.counts})


def weighed(frame: pl.DataFrame) -> pl.DataFrame:
    """Give a histogram with its weights; without a column of them, all are 1."""
    import polars as pl

    return frame if "weight" in frame.columns else frame.with_columns(weight=pl.lit(1.0))


def side_by_side(
    named: Sequence[tuple[str, Tallies]],
    metrics: Sequence[Metrics] = (),
    *,
    ties: Ties | None = None,
    what: str = "ranks",
) -> Evaluation[Any]:
    """Evaluate several, a row for each (and each group); the protocol is what all agree on."""
    every = [one for _, one in named]
    rows = [((name, *label), tally) for name, one in named for label, tally in one]
    made = evaluate(
        [tally for _, tally in rows],
        metrics,
        ties=one_rule((origin.ties for one in every for origin in one.origins), ties),
        labels=[label for label, _ in rows],
        label_names=(what, *every[0].question.by),
        protocol=replace(shared(one.protocol for one in every), average=every[0].question.average),
    )
    notes = (f"{name}: {note}" for name, one in named for note in one.notes)
    return replace(made, notes=(*made.notes, *notes))

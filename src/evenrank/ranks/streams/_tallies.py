"""Adds and evaluates the histograms of streamed files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from evenrank._internal import columns
from evenrank.errors import InputError
from evenrank.metrics.chance import Chance
from evenrank.metrics.grammar import Metrics
from evenrank.metrics.tally import Histogram, Tally
from evenrank.metrics.ties import Ties
from evenrank.ranks.evaluation import Evaluation, evaluate
from evenrank.ranks.files import key_array
from evenrank.ranks.protocol import Protocol, differences, shared
from evenrank.ranks.rows import average_name, one_rule
from evenrank.ranks.streams import _dense
from evenrank.ranks.streams._dense import COUNT, GROUP, Dense

if TYPE_CHECKING:
    import polars as pl

RANKS = ("better", "equal", "weight")
SIZES = ("candidates", "weight")
WAIT = 2**20  # distinct rows to collect before adding, at least
SLICES = 8  # slices in which large histograms are added
IN_PARTS = "they are read in parts, which does not show the targets that share scores"
NAMED = 5  # items listed in a note


@dataclass(frozen=True)
class Question:
    """How files are counted: keys to group by, average, candidates, and treatment of damage."""

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
        """Check the arguments of `stream`."""
        none = isinstance(by, str | Sequence) and not len(by)
        keys = () if none else tuple(columns.column_names("by", by))
        if candidates is not None:
            candidates = columns.integer("candidates", candidates, 1)
        return cls(keys, average_name(average), candidates, skip_damaged)


class Origin(NamedTuple):
    """Protocol, tie-breaking rule and presence of weights of a file."""

    protocol: Protocol
    ties: Ties
    weighted: bool


@dataclass(frozen=True, eq=False, repr=False)
class Tallies:
    """Counts of files of ranks: a tally per group; iteration yields labels and tallies.

    The histograms are polars data frames with a row per distinct combination of ranks, weights, keys and
    groups of the average, or the tables `dense`. Memory therefore depends on the number of these, not on
    the size of the files.

    Attributes
    ----------
    left_out : mapping of str to str
        Damaged files that were left out, and the reason.
    """

    question: Question
    ranks: pl.DataFrame | None = None  # None before anything is counted
    sizes: pl.DataFrame | None = None
    origins: tuple[Origin, ...] = ()  # the distinct ones
    left_out: Mapping[str, str] = field(default_factory=dict)  # damaged files and reasons
    dense: Dense | None = None  # in place of ranks and sizes

    @property
    def protocol(self) -> Protocol:
        """The common protocol of all files."""
        return shared(origin.protocol for origin in self.origins)

    @cached_property
    def count(self) -> int:
        """The number of targets."""
        if self.dense is not None:
            return self.dense.count
        return 0 if self.ranks is None else int(self.ranks[COUNT].sum())

    @cached_property
    def tally(self) -> Tally:
        """The tally of all groups."""
        return sum((tally for _, tally in self), Tally())

    def __len__(self) -> int:
        """The number of groups."""
        return len(self.labels)

    def __repr__(self) -> str:
        """Summarise the counts in one line."""
        by = f"; {len(self):,} groups by {', '.join(self.question.by)}" if self.question.by else ""
        return f"Tallies({self.count:,} targets{by})"

    def __iter__(self) -> Iterator[tuple[tuple[str, ...], Tally]]:
        """Iterate over labels and tallies of the groups."""
        pairs = zip(self._histograms(RANKS), self._histograms(SIZES), strict=True)
        yield from zip(self.labels, (Tally(ranks, sizes) for ranks, sizes in pairs), strict=True)

    @property
    def labels(self) -> tuple[tuple[str, ...], ...]:
        """The labels of the groups, sorted."""
        return self._numbered[1] if self.question.by else ((),)

    def evaluate(
        self, *metrics: Metrics, ties: Ties | None = None, chance: Chance | None = None
    ) -> Evaluation[Any]:
        """Evaluate metrics, as `Ranks.evaluate` and `Groups.evaluate` do.

        z-scores take ranks as independent: those of a random scorer require all ranks in memory.

        Parameters
        ----------
        *metrics : str or Metric, or list of them
            The metrics; by default a selection with chance levels, adjusted indices and z-scores.
        ties : str, optional
            The tie-breaking rule.
        chance : {"independent"}, optional
            Asks for what is the only choice here, and so omits the note on it.

        Returns
        -------
        Evaluation
            Values, by group if there are groups.
        """
        if chance not in (None, "independent"):
            raise InputError(
                "ranks that are read in parts can only be taken as independent",
                got=f"chance={chance!r}",
                do="load them with er.Ranks.load",
            )
        labels, tallies = zip(*self, strict=True)
        made = evaluate(
            tallies,
            metrics,
            ties=one_rule((origin.ties for origin in self.origins), ties),
            labels=labels,
            label_names=self.question.by,
            protocol=replace(self.protocol, average=self.question.average),
            chance=chance,
            independent=IN_PARTS,
        )
        return replace(made, notes=(*made.notes, *self.notes))

    @property
    def notes(self) -> list[str]:
        """Remarks on files that differ, and on those that were left out."""
        return notes_on_files(self.origins, self.left_out)

    def checked(self) -> Self:
        """Check that metrics are defined: intact files, positive weights, a supported average.

        Returns
        -------
        Tallies
            These tallies.

        Raises
        ------
        InputError
            If metrics are not defined.
        """
        if self.dense is not None:
            return self  # it has no weights
        if self.ranks is None:
            reasons = list(self.left_out.values())
            raise InputError("every file is damaged", got=reasons[0] if reasons else "no file")
        if self.question.by and not len(self.ranks):
            raise InputError("no ranks to group")
        if "weight" not in self.ranks.columns:
            return self
        weights = self.ranks["weight"]
        if len(weights):
            columns.check_weights(weights.to_numpy())
        if self.question.average != "micro" and (weights != 1).any():
            # sums of weights would depend on their order
            raise InputError(
                "macro averages of weighted targets cannot be streamed",
                got=f"average {self.question.average}, and weights",
                do="load the ranks with er.Ranks.load, or use the micro average",
            )
        return self

    @cached_property
    def _numbered(self) -> tuple[pl.DataFrame, tuple[tuple[str, ...], ...]]:
        """Number and label the groups as `Ranks` does."""
        import polars as pl

        if self.dense is not None:
            keys = self.dense.keys
        else:
            assert self.sizes is not None
            keys = self.sizes.select(*dict.fromkeys(self.question.by)).unique()
        arrays = [columns.key(name, key_array(keys[name]), len(keys)) for name in self.question.by]
        numbers, distinct = columns.encode(arrays)
        labels = tuple(zip(*(map(str, column) for column in distinct), strict=True))
        return keys.with_columns(pl.Series(GROUP, numbers, pl.UInt32)), labels

    def _histograms(self, names: tuple[str, ...]) -> Iterator[Histogram]:
        """Split a data frame into the histograms of its groups, without rows of weight zero."""
        import polars as pl

        if self.dense is not None:
            numbers = self._numbered[0][GROUP].to_numpy()
            yield from self.dense.histograms(numbers, of_sizes=names == SIZES)
            return
        frame, groups = self._weighed(names), list[pl.DataFrame]()
        if self.question.by:
            keys = self._numbered[0]
            frame = frame.join(keys, on=keys.columns[:-1], nulls_equal=True).select(GROUP, *names, COUNT)
            groups = frame.partition_by(GROUP)
        for group in sorted(groups, key=lambda one: one[GROUP][0]) or [frame]:
            positive = group.filter(pl.col("weight") > 0).cast({pl.Int32: pl.Int64})
            yield Histogram.of(
                positive[COUNT].to_numpy(), **{name: positive[name].to_numpy() for name in names}
            )

    def _weighed(self, names: tuple[str, ...]) -> pl.DataFrame:
        """Return a data frame with the weights of the average."""
        import polars as pl

        frame = self.ranks if names == RANKS else self.sizes
        assert frame is not None
        keys = [name for name in frame.columns if name not in (*names, COUNT)]
        if self.question.average == "micro" or not len(frame):
            return weighed(frame)
        return frame.with_columns(weight=1.0 / pl.col(COUNT).sum().over(keys))


def differing(origins: Iterable[Origin]) -> list[str]:
    """Note the entries in which files differ."""
    every = [{**one.protocol.to_dict(), "weights": "given" if one.weighted else ""} for one in origins]
    found = []
    for name in dict.fromkeys(name for one in every for name in one):
        values = sorted({one.get(name) or "(none)" for one in every})
        more = ["..."] if len(values) > NAMED else []
        if len(values) > 1:
            found.append(f"{name} ({', '.join(values[:NAMED] + more)})")
    return [f"the files, evaluated as one, differ in {', '.join(found)}"] if found else []


def notes_on_files(origins: Iterable[Origin], left_out: Mapping[str, str]) -> list[str]:
    """Note how files differ, and which were left out."""
    files = [f"left out as damaged: {why}" for why in left_out.values()]
    more = len(files) - NAMED
    rest = [f"and {more} more damaged files were left out"] if more > 0 else []
    return [*differing(origins), *files[:NAMED], *rest]


def merged(tallies: Sequence[Tallies]) -> Tallies:
    """Add tallies."""
    origins = {str(origin): origin for one in tallies for origin in one.origins}
    ranks = sizes = None
    dense = _added_in_tables(tallies)
    if dense is None:
        frames = [(one.ranks, one.sizes) if one.dense is None else one.dense.frames() for one in tallies]
        ranks = _added([some for some, _ in frames if some is not None])
        sizes = _added([some for _, some in frames if some is not None])
    return Tallies(
        tallies[0].question,
        ranks,
        sizes,
        tuple(origins.values()),
        {file: why for one in tallies for file, why in one.left_out.items()},
        dense,
    )


def _added_in_tables(tallies: Sequence[Tallies]) -> Dense | None:
    """Add tallies in tables, if one of them is, and the sum fits."""
    if all(one.dense is None for one in tallies):
        return None
    parts: list[Any] = []
    for one in tallies:
        if one.dense is not None:
            parts.append(one.dense)
        elif one.ranks is not None:
            parts.append((one.ranks, one.sizes))
    return parts[0] if len(parts) == 1 else _dense.added(parts)


def of_one_file(parts: Sequence[Tallies]) -> Tallies:
    """Add the parts of a file; the file is damaged if one of them is."""
    damaged = [part for part in parts if part.left_out]
    return damaged[0] if damaged else merged(parts)


def added(tallies: Iterable[Tallies], add: Callable[[list[Tallies]], Tallies]) -> Tallies:
    """Add tallies as they come, in batches as large as the sum so far."""
    total: list[Tallies] = []
    waiting: list[Tallies] = []
    for one in tallies:
        waiting.append(one)
        if sum(map(_size, waiting)) > max(WAIT, sum(map(_size, total))):
            total, waiting = [add([*total, *waiting])], []
    return add([*total, *waiting])


def _size(tallies: Tallies) -> int:
    if tallies.dense is not None:
        return len(tallies.dense)
    return 0 if tallies.ranks is None else len(tallies.ranks)


def _added(frames: Sequence[pl.DataFrame]) -> pl.DataFrame | None:
    """Add histograms."""
    import polars as pl

    if len(frames) < 2:
        return frames[0] if frames else None
    kinds = dict.fromkeys(tuple(name for name in frame.columns if name != "weight") for frame in frames)
    if len(kinds) > 1:
        raise InputError(
            "the files identify queries by different keys",
            got=" and ".join(", ".join(names[: names.index(COUNT)]) for names in kinds),
            do="use the same keys in all files",
        )
    if any("weight" in frame.columns for frame in frames):
        frames = [weighed(frame) for frame in frames]
    # a key that is text in one file is text in all
    both = pl.concat(frames, how="diagonal_relaxed").with_columns(pl.col(pl.String).fill_null(""))
    names = [name for name in both.columns if name != COUNT]
    if not {*names} <= {*RANKS, *SIZES}:
        # the streaming engine takes a third of the time, and slices take half the memory
        slices = range(SLICES if len(both) > WAIT else 1)
        some = pl.col("better" if "better" in names else "candidates") % len(slices)
        parts = (both.lazy().filter(some == i).group_by(names).agg(pl.col(COUNT).sum()) for i in slices)
        return pl.concat([part.collect(engine="streaming") for part in parts])
    # NumPy is twenty times as fast for numbers without keys
    arrays = {name: both[name].to_numpy() for name in names}
    sums = Histogram.of(both[COUNT].to_numpy(), **arrays)
    return pl.DataFrame({**sums.columns, COUNT: sums.counts})


def weighed(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a histogram with weights, which are 1 by default."""
    import polars as pl

    return frame if "weight" in frame.columns else frame.with_columns(weight=pl.lit(1.0))


def side_by_side(
    named: Sequence[tuple[str, Tallies]],
    metrics: Sequence[Metrics] = (),
    *,
    ties: Ties | None = None,
    chance: Chance | None = None,
    what: str = "ranks",
) -> Evaluation[Any]:
    """Evaluate several sets of ranks, with a row for each and for each of its groups."""
    every = [one for _, one in named]
    rows = [((name, *label), tally) for name, one in named for label, tally in one]
    made = evaluate(
        [tally for _, tally in rows],
        metrics,
        ties=one_rule((origin.ties for one in every for origin in one.origins), ties),
        labels=[label for label, _ in rows],
        label_names=(what, *every[0].question.by),
        protocol=replace(shared(one.protocol for one in every), average=every[0].question.average),
        chance=chance,
        independent=IN_PARTS,
    )
    notes = (f"{name}: {note}" for name, one in named for note in one.notes)
    apart = differences(
        (origin.protocol for one in every for origin in one.origins), "files", made.label_names
    )
    return replace(made, notes=(*made.notes, *apart, *notes))

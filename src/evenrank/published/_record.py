"""Values of the record of published results, each with its protocol and source, and their adjustment.

A row is one value as it was printed, with the protocol that its source states.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cache
from math import isfinite, nan
from typing import Any, Literal, NamedTuple, TypeAlias, get_args
from urllib.parse import quote

import numpy as np

from evenrank._internal.checks import check_choice
from evenrank._internal.table import Shown, Table, figure
from evenrank.errors import EvenrankError, InputError
from evenrank.graphs import atlas
from evenrank.metrics.adjusted import Adjusted
from evenrank.metrics.chance import read_sizes
from evenrank.published._models import ModelName
from evenrank.published._setting import Candidates, Setting
from evenrank.published._value import PublishedValue
from evenrank.ranks.evaluation import bare, cell
from evenrank.ranks.protocol import Protocol

SHOWN = 30  # rows that are printed; all are exported
DIGITS = 8  # characters of a printed value in a table; longer ones are only exported in full
SPLITS = ("train", "valid", "test")
GITHUB = "https://github.com/"
By: TypeAlias = Literal["index", "z", "value", "year"]
# places: a file of a repository at a commit, with a line or a section of it; a file of PyKEEN's package
_FILE = re.compile(
    r"(?P<repository>[\w.-]+/[\w.-]+)@(?P<commit>[0-9a-f]{7,40}): "
    r"(?P<path>[^,]+?)(?: line (?P<line>\d+))?(?:,.*)?"
)
_PYKEEN = re.compile(r"PyPI pykeen (?P<version>[\d.]+): (?P<path>\S+)")


@dataclass(frozen=True, slots=True)
class Recorded:
    """One published value, its protocol and its source: a row of the record.

    Parameters
    ----------
    data : str
        The data set, by its name in the atlas or the list of benchmarks, if it has one.
    model, variant : str
        The model, in one spelling, and its size or setting.
    metric : str
        The metric.
    printed : str
        The value, with the digits of the source.
    percent : bool
        Whether it is in percent.
    split : str
        The split that was ranked.
    sides : str
        The sides that were predicted: both, tail or head.
    filter : str
        Known true answers that were filtered: all, none (raw), "train, valid" (without those of the test
        split), or unknown.
    candidates : str
        What targets were ranked among: all entities; "50 sampled" negatives; "top 10": lists of the best
        10, in which other targets count as missed.
    ties : str
        The tie-breaking rule, or unknown.
    unseen : str
        Whether entities not seen in training were kept: keep, drop or unknown.
    source : str
        The paper, or the authors of the repository.
    year : int or None
        When it was published.
    where : str
        The file in which the value is printed.
    origin : str
        Origin of the value. own: of the source's own experiments. computed: from ranks that the source
        published. copied: a paper's own value, in a copy. quoted: a value of others.
    run : int
        Rows with the same number are values of one evaluation: one row of a table in the source.
    note : str
        Remarks.
    called : str
        The name of the model in the source.
    """

    data: str
    model: str
    variant: str
    metric: str
    printed: str
    percent: bool
    split: str
    sides: str
    filter: str
    candidates: str
    ties: str
    unseen: str
    source: str
    year: int | None
    where: str
    origin: str
    run: int
    note: str
    called: str

    @property
    def name(self) -> str:
        """The model with its variant."""
        return str(ModelName(self.model, self.variant))

    @property
    def value(self) -> float:
        """The value, as a fraction where it was printed in percent."""
        return self.given.fraction

    @property
    def given(self) -> PublishedValue:
        """The value with its unit and its digits."""
        one = PublishedValue.of(self.metric, self.printed)
        return replace(one, percent=self.percent)

    @property
    def link(self) -> str:
        """The address of the text in which the value is printed; empty if it is not known."""
        if self.where.startswith(("https://", "http://")):
            return self.where
        if found := _FILE.fullmatch(self.where):
            line = f"?plain=1#L{found['line']}" if found["line"] else ""
            return f"{GITHUB}{found['repository']}/blob/{found['commit']}/{quote(found['path'])}{line}"
        if found := _PYKEEN.fullmatch(self.where):
            return f"{GITHUB}pykeen/pykeen/blob/v{found['version']}/src/{quote(found['path'])}"
        return ""

    @property
    def protocol(self) -> tuple[str, ...]:
        """What must be equal for two values to be comparable."""
        return (self.data, self.split, self.sides, self.filter, self.candidates, self.unseen)


@dataclass(frozen=True, slots=True)
class Chances:
    """The chance level of a published value, and the value adjusted for it.

    Parameters
    ----------
    chance : float
        The expected value under random ranking.
    index, z : float
        The adjusted index and the z-score.
    approximate : bool
        Whether the numbers of candidates were approximated by the number of entities.
    """

    chance: float = nan
    index: float = nan
    z: float = nan
    approximate: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class Record(Shown):
    """Published results; prints as a table, of which `SHOWN` rows are shown and all are exported.

    Parameters
    ----------
    values : tuple of Recorded
        The values.
    adjusted : tuple of Chances, optional
        Their adjusted values, one each.
    notes : tuple of str
        Remarks.
    shown : int, optional
        The number of rows to print.

    Examples
    --------
    >>> from evenrank.published import results
    >>> found = results(data="wn18rr", model="ComplEx-N3", metric="mrr")
    >>> len(found), sorted({one.source for one in found})
    (10, ['Chami et al. 2020 (KGEmb README)', 'Lacroix et al. 2018 (kbc)'])
    """

    values: tuple[Recorded, ...]
    adjusted: tuple[Chances, ...] = ()
    notes: tuple[str, ...] = ()
    shown: int | None = SHOWN

    def __len__(self) -> int:
        """Number of values."""
        return len(self.values)

    def __iter__(self) -> Iterator[Recorded]:
        """Iterate over the values."""
        return iter(self.values)

    def rows(self) -> list[dict[str, Any]]:
        """List one dictionary per value: the columns of the record, its value, and adjusted forms."""
        names = [field.name for field in fields(Recorded)]
        made = []
        for i, one in enumerate(self.values):
            row: dict[str, Any] = {}
            for name in names:
                row[name] = getattr(one, name)
                if name == "percent":
                    row["value"] = one.value
                if name == "where":
                    row["link"] = one.link
            if self.adjusted:
                also = self.adjusted[i]
                row |= {field.name: getattr(also, field.name) for field in fields(Chances)}
            made.append(row)
        return made

    def content(self) -> dict[str, Any]:
        """Collect all values, with notes."""
        return {"rows": self.rows(), "notes": list(self.notes)}

    def tables(self) -> list[Table]:
        """Build the table."""
        most = len(self.values) if self.shown is None else self.shown
        rows = []
        for i, one in enumerate(self.values[:most]):
            printed = one.printed if len(one.printed) <= DIGITS else f"{one.given.value:.6g}"
            row = [one.data, one.metric, one.name, printed + "%" * one.percent]
            if self.adjusted:
                also = self.adjusted[i]
                z = Adjusted("z", bare(one.given.expression))
                row += [figure(also.chance), figure(also.index), cell(z, also.z)]
            row += ["" if one.year is None else str(one.year), _tale(one), one.source]
            rows.append(row)
        forms = ["chance", "index", "z"] if self.adjusted else []
        header = ["data", "metric", "model", "value", *forms, "year", "protocol", "source"]
        notes = list(self.notes)
        if len(self.values) > most:
            notes.insert(0, f"{most:,} of {len(self.values):,} values; files, CSV and JSON have all")
        optional = ("source", "protocol", "chance", "year", "z")
        return [Table(header, rows, notes, labels=3, optional=optional)]

    def adjust(self) -> Record:
        """Adjust the values for chance, where the candidates are known.

        These are the values that were ranked among all entities, filtered or raw, on a data set of the
        atlas; and those with a known number of sampled negatives, whose chance level depends on nothing
        else. Z-scores also need the number of targets, and thus the data set.

        Returns
        -------
        Record
            With the chance level, the adjusted index and the z-score of each value.

        Examples
        --------
        >>> from evenrank.published import results
        >>> one, = results(data="nations", metric="mrr").adjust().rows()
        >>> one["model"], one["printed"], round(one["chance"], 4), round(one["index"], 4)
        ('ConvE', '0.82', 0.3844, 0.7076)
        """
        found, why = [], _Reasons()
        for one in self.values:
            known = candidates_of(one.protocol)
            found.append(Chances())
            if known.candidates is None:
                why.add(known.why, known.name)
                continue
            given = one.given
            try:
                forms = known.candidates.adjusted(given.metric, known.candidates.raw(given))
            except EvenrankError as error:
                why.add(error.what)
                continue
            by = {form.adjustment: value for form, value in forms.items()}
            z = by["z"] if known.tasks else nan
            found[-1] = Chances(by["chance"], by["index"], z, known.approximate)
        notes = [*self.notes]
        assumed = sum(
            one.unseen == "unknown" and one.candidates == "all" and isfinite(two.index)
            for one, two in zip(self.values, found, strict=True)
        )
        if assumed:
            notes.append(f"unseen entities: not stated for {assumed:,} values, and assumed to be kept")
        pairs = zip(self.values, found, strict=True)
        approximate = sorted({one.data for one, two in pairs if two.approximate})
        if approximate:
            notes.append(f"approximate numbers of candidates: {', '.join(approximate)}")
        return replace(self, adjusted=tuple(found), notes=(*notes, *why.notes()))

    def sort(self, by: By, *, descending: bool = True) -> Record:
        """Sort the values; those without this number come last.

        Parameters
        ----------
        by : {"index", "z", "value", "year"}
            What to sort by. The index is comparable across data sets and metrics; the value is not.
        descending : bool, default True
            Whether the largest come first.

        Returns
        -------
        Record
            The same values in another order.
        """
        check_choice("by", by, get_args(By))
        made = self if self.adjusted or by in ("value", "year") else self.adjust()
        if by in ("index", "z"):
            numbers = [float(getattr(one, by)) for one in made.adjusted]
        else:
            given = (getattr(one, by) for one in made)
            numbers = [nan if x is None else float(x) for x in given]
        keys = np.array([-x if descending else x for x in numbers])
        order = np.argsort(keys, kind="stable")  # NaN last
        adjusted = tuple(made.adjusted[i] for i in order) if made.adjusted else ()
        return replace(made, values=tuple(made.values[i] for i in order), adjusted=adjusted)

    def with_shown(self, most: int | None) -> Record:
        """Return the same values, printed in another number of rows.

        Parameters
        ----------
        most : int or None
            The number of rows to print; None prints all.

        Returns
        -------
        Record
            The values.
        """
        return replace(self, shown=most)


class _Reasons:
    """Why values were not adjusted, and how many."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, int]] = {}

    def add(self, why: str, name: str = "") -> None:
        names = self._found.setdefault(why, {})
        names[name] = names.get(name, 0) + 1

    def notes(self) -> list[str]:
        """Write one note for each reason, which lists what it is about once each."""
        made = []
        for why, names in self._found.items():
            about = f": {', '.join(sorted(names))}" if "" not in names else ""
            made.append(f"not adjusted: {sum(names.values()):,} values, {why}{about}")
        return made


class Known(NamedTuple):
    """The candidates behind a value of the record, or why they are not known.

    Parameters
    ----------
    candidates : Candidates or None
        The candidates.
    tasks : bool
        Whether the number of targets, which z-scores need, is known as well.
    approximate : bool
        Whether the atlas only approximates their numbers.
    why, name : str
        Why the candidates are not known, and the name that this concerns, such as that of the data set.
    """

    candidates: Candidates | None
    tasks: bool = False
    approximate: bool = False
    why: str = ""
    name: str = ""


@cache
def candidates_of(protocol: tuple[str, ...]) -> Known:
    """Find the candidates behind a value.

    Parameters
    ----------
    protocol : tuple of str
        Its `Recorded.protocol`.

    Returns
    -------
    Known
        The candidates, or why they are not known.
    """
    data, split, sides, filter_, chosen, unseen = protocol
    kept: Any = "drop" if unseen == "drop" else "keep"
    try:
        counted = split in atlas.splits(data, unseen=kept)
        tasks = atlas.facts(data, unseen=kept).triples[split] if counted else None
    except InputError:
        tasks = None
    if chosen.endswith(" sampled"):
        size = int(chosen.split()[0]) + 1
        count = (tasks or 1) * (2 if sides == "both" else 1)
        named = Protocol(data=data, split=split)
        return Known(Candidates(read_sizes([size], [count]), named), tasks is not None)
    if chosen != "all":
        if chosen.startswith("top"):
            return Known(None, why="ranks below the cutoff are unknown", name=f"lists of the {chosen}")
        return Known(None, why="sampled candidates, whose number is not stated")
    if filter_ not in ("all", "none"):
        asked = "filter not stated" if filter_ == "unknown" else "filtered by other splits"
        return Known(None, why=asked, name="" if filter_ == "unknown" else filter_)
    if tasks is None:
        return Known(None, why="not in the atlas", name=data if split in SPLITS else f"{data} ({split})")
    setting = Setting(data, split, sides, "all" if filter_ == "all" else None, kept)  # type: ignore[arg-type]
    limits = atlas.bounds(data, filter=setting.filter, unseen=kept)
    return Known(setting.candidates(), True, limits is not None)


def _tale(one: Recorded) -> str:
    """Describe what differs from the usual protocol, and whether the value is quoted."""
    parts = [one.split if one.split != "test" else "", one.sides if one.sides != "both" else ""]
    parts += [{"all": "", "none": "raw", "unknown": "filter?"}.get(one.filter, f"filter {one.filter}")]
    parts += [one.candidates if one.candidates != "all" else ""]
    parts += [one.origin if one.origin in ("quoted", "copied") else ""]
    return ", ".join(filter(None, parts))

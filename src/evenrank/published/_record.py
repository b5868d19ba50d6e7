"""The record of published results: values from papers and their repositories, each with its source.

A row is one value as it was printed, with the protocol that its source states. `record.parquet` has
these rows; `record.csv` in the user's data folder has the user's own, in the same columns.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from functools import cache, partial
from importlib.resources import as_file, files
from math import isfinite, nan
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from evenrank._internal.checks import check_choice
from evenrank._internal.files import expanded, locked, replacing
from evenrank._internal.reading import read_parquet
from evenrank._internal.table import Shown, Table, as_csv, figure
from evenrank.errors import EvenrankError, InputError, UnknownMetricError
from evenrank.graphs import atlas, registry
from evenrank.metrics.adjusted import Adjusted
from evenrank.metrics.chance import read_sizes
from evenrank.metrics.grammar import Metrics, listed
from evenrank.published._models import ModelName, key, model_name
from evenrank.published._read import located, table_of
from evenrank.published._setting import Candidates, Setting
from evenrank.published._value import PublishedValue, adjustable, decide_percent
from evenrank.ranks.evaluation import bare, cell
from evenrank.ranks.protocol import Protocol

FILE = "record.parquet"
FOLDER = "EVENRANK_RECORD"
OWN_FILE = "record.csv"
SHOWN = 30  # rows that are printed; all are exported
DIGITS = 8  # letters of a printed value; more digits are only exported
NEEDED = ("data", "model", "metric", "source")
SPLITS = ("train", "valid", "test")
FILTERS = ("all", "none", "train, valid", "unknown")
UNSEEN = ("keep", "drop", "unknown")
ORIGINS = ("own", "computed", "copied", "quoted")
CANDIDATES = re.compile(r"all|sampled|[1-9]\d* sampled|top [1-9]\d*")
Origin: TypeAlias = Literal["own", "computed", "copied", "quoted"]
Ranked: TypeAlias = Literal["all", "sampled", "top", "any"]
By: TypeAlias = Literal["index", "z", "value", "year"]

# spellings of columns and of words in files that others wrote
COLUMNS = {
    "as_printed": "printed",
    "side": "sides",
    "filtered": "filter",
    "where_found": "where",
    "own_or_quoted": "origin",
}
WORDS = {
    "filter": {
        "filtered": "all",
        "raw": "none",
        "filtered (train, valid)": "train, valid",
        "filtered?": "unknown",
        "": "all",
    },
    "ties": {"realistic (PyKEEN)": "realistic", "": "unknown"},
    "unseen": {"": "unknown"},
    "candidates": {"": "all"},
    "split": {"": "test"},
    "sides": {"": "both"},
    "origin": {
        "own (PyKEEN team)": "own",
        "computed from published ranks": "computed",
        "copied by PyKEEN from the paper": "copied",
        "quoted from the paper, protocol not stated": "quoted",
        "quoted from papers": "quoted",
        "": "own",
    },
}
# filters that say how candidates were chosen as well
CHOSEN = {
    "filtered, 500 sampled negatives a side": ("all", "500 sampled"),
    "filtered, 50 sampled negatives": ("all", "50 sampled"),
    "filtered, top-100 lists": ("all", "top 100"),
    "filtered, all entities, tails only, top-10 lists": ("all", "top 10"),
    "sampled candidates (DGL-KE script)": ("unknown", "sampled"),
}


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
        Whose it is. own: of the source's own experiments. computed: from ranks that the source
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
            notes.insert(0, f"{most:,} of {len(self.values):,} values; all are exported")
        optional = ("source", "protocol", "chance", "year", "z")
        return [Table(header, rows, notes, labels=3, optional=optional)]

    def adjust(self) -> Record:
        """Adjust the values for chance, where the candidates are known.

        These are the values that were ranked among all entities, filtered or raw, on a data set of the
        atlas; and those with a known number of sampled negatives, whose chance level depends on nothing
        else. The z-score needs the number of tasks, and thus the data set.

        Returns
        -------
        Record
            With the chance level, the adjusted index and the z-score of each value.

        Examples
        --------
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
            notes.append(f"unseen entities: not stated for {assumed:,} values, and taken as kept")
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
        Whether the number of tasks is known as well, as z-scores need.
    approximate : bool
        Whether the atlas only approximates their numbers.
    why, name : str
        Why the candidates are not known, and what of the value says so.
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
            return Known(None, why="ranks of misses unknown", name=f"lists of the {chosen}")
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
    """Say what of the protocol is unusual, and whether the value is quoted."""
    parts = [one.split if one.split != "test" else "", one.sides if one.sides != "both" else ""]
    parts += [{"all": "", "none": "raw", "unknown": "filter?"}.get(one.filter, f"filter {one.filter}")]
    parts += [one.candidates if one.candidates != "all" else ""]
    parts += [one.origin if one.origin in ("quoted", "copied") else ""]
    return ", ".join(filter(None, parts))


# Selecting ----------------------------------------------------------------------------------------


def results(
    *,
    data: str | Sequence[str] | None = None,
    model: str | Sequence[str] | None = None,
    metric: Metrics | None = None,
    year: int | tuple[int, int] | None = None,
    split: str | None = None,
    sides: str | None = None,
    filter: str | None = "any",  # noqa: A002  # the field's word
    candidates: Ranked = "all",
    own: bool | None = None,
    source: str | None = None,
) -> Record:
    """Select from the record of published results, the package's and your own.

    Parameters
    ----------
    data : str or sequence of str, optional
        Data sets, in any usual spelling.
    model : str or sequence of str, optional
        Models, in any usual spelling. "ComplEx" selects all its variants, and "ComplEx (100dim)" one.
    metric : str, Metric or sequence of these, optional
        Metrics.
    year : int or (int, int), optional
        The year of publication, or the first and the last one.
    split : str, optional
        The split that was ranked.
    sides : str, optional
        The sides that were predicted: "both", "tail" or "head".
    filter : {"any", "all", "train, valid", "unknown", None}, default "any"
        Filtered by the known true answers of all splits, or of those named; None, or "none", is raw.
    candidates : {"all", "sampled", "top", "any"}, default "all"
        Ranked among all entities, among sampled ones, or in lists of the best k only. Their values are
        not comparable, so that only full rankings are selected by default.
    own : bool, optional
        Only a source's own results, or only those that it quotes.
    source : str, optional
        Part of the name of the source, or of the file in which the value is printed.

    Returns
    -------
    Record
        The values, in the order of the record.

    Raises
    ------
    InputError
        If the record has no such data set, model, metric or word.

    Examples
    --------
    >>> found = results(data="FB15k-237", model="RotatE", metric="mrr", source="Sun et al. 2019")
    >>> print(found.adjust().text())
    data      metric  model   value    chance   index       z  year  protocol                    source
    --------  ------  ------  -----  --------  ------  ------  ----  --------  ------------------------
    fb15k237  mrr     RotatE  0.338  7.11e-04  0.3375  +4,691  2019    copied  Sun et al. 2019 (RotatE)
    fb15k237  mrr     RotatE   .337  7.11e-04  0.3365  +4,677  2019            Sun et al. 2019 (RotatE)
    unseen entities: not stated for 2 values, and taken as kept
    """
    check_choice("candidates", candidates, get_args(Ranked))
    filter_ = "none" if filter is None else filter
    check_choice("filter", filter_, ("any", *FILTERS))
    every = (*_bundled(), *_own())
    wanted: list[Callable[[Recorded], bool]] = []
    if data is not None:
        there = dict.fromkeys(one.data for one in every)
        names = {registry.key(name): name for name in there}
        chosen = _chosen("data", data, names, lambda name: registry.key(data_name(name)))
        wanted.append(lambda one: one.data in chosen)
    if model is not None:
        models = {key(str(name)): str(name) for one in every for name in (one.name, one.model)}
        chosen_models = _chosen("model", model, models, lambda name: key(str(model_name(name))))
        wanted.append(lambda one: one.name in chosen_models or one.model in chosen_models)
    if metric is not None:
        asked = [str(adjustable(name)) for name in listed((metric,))]
        metrics = {name: name for name in dict.fromkeys(one.metric for one in every)}
        chosen_metrics = _chosen("metric", asked, metrics, str)
        wanted.append(lambda one: one.metric in chosen_metrics)
    if year is not None:
        first, last = _years(year)
        wanted.append(lambda one: one.year is not None and first <= one.year <= last)
    for name, word in (("split", split), ("sides", sides)):
        if word is not None:
            check_choice(name, word, tuple(dict.fromkeys(getattr(one, name) for one in every)))
            wanted.append(partial(_has, name, word))
    if filter_ != "any":
        wanted.append(lambda one: one.filter == filter_)
    if candidates != "any":
        wanted.append(
            lambda one: one.candidates.split()[0 if candidates != "sampled" else -1] == candidates
        )
    if own is not None:
        wanted.append(lambda one: (one.origin in ("own", "computed")) == own)
    if source is not None:
        part = source.casefold()
        wanted.append(lambda one: part in one.source.casefold() or part in one.where.casefold())
    return Record(tuple(one for one in every if all(test(one) for test in wanted)))


def _years(year: Any) -> tuple[int, int]:
    """Return the first and the last year."""
    pair = (year, year) if isinstance(year, int) else year
    if not (isinstance(pair, Sequence) and len(pair) == 2 and all(isinstance(x, int) for x in pair)):
        raise InputError("year must be a number, or the first and the last", got=repr(year))
    return pair[0], pair[1]


def _has(name: str, word: str, one: Recorded) -> bool:
    return bool(getattr(one, name) == word)


def _chosen(
    what: str, asked: Any, known: Mapping[str, str], fold: Callable[[str], str]
) -> dict[str, None]:
    """Find names among those of the record; list all that it lacks, once each."""
    several = isinstance(asked, Iterable) and not isinstance(asked, str)
    names = list(asked) if several else [asked]
    odd = [name for name in names if not isinstance(name, str)]
    if odd:
        raise InputError(f"{what} must be a name, or several", got=type(odd[0]).__name__)
    missing = [name for name in dict.fromkeys(names) if fold(name) not in known]
    if missing:
        close = [near for name in missing for near in get_close_matches(fold(name), known, 2, 0.6)]
        do = (
            f"did you mean {' or '.join(dict.fromkeys(known[one] for one in close))}?" if close else None
        )
        raise InputError(f"the record has no such {what}", got=", ".join(missing), do=do)
    return dict.fromkeys(known[fold(name)] for name in names)


@cache
def _bundled() -> tuple[Recorded, ...]:
    """Read the record of the package."""
    with as_file(files("evenrank.published") / FILE) as path:
        return tuple(Recorded(**row) for row in read_parquet(path, path).iter_rows(named=True))


def _own() -> tuple[Recorded, ...]:
    """Read the user's own record; its runs are numbered after those of the package."""
    path = own_file()
    if not path.exists():
        return ()
    start = max(one.run for one in _bundled()) + 1
    return tuple(replace(one, run=one.run + start) for one in read(path))


def own_file() -> Path:
    """Return the path of the user's own record: in EVENRANK_RECORD, else in the user's data folder.

    Returns
    -------
    Path
        The file, which may not exist.
    """
    folder = os.environ.get(FOLDER)
    if folder:
        return expanded(folder) / OWN_FILE
    from platformdirs import user_data_path

    return user_data_path("evenrank", appauthor=False) / OWN_FILE


# Reading ------------------------------------------------------------------------------------------


def is_record(columns: Iterable[str]) -> bool:
    """Check whether a table has columns that only the record has."""
    own = {"printed", "candidates", "origin", *COLUMNS}
    return bool(own & {column.strip().lower() for column in columns})


def read(
    source: str | os.PathLike[str] | Iterable[Mapping[str, Any]], *, sourced: bool = True
) -> list[Recorded]:
    """Read and check rows in the columns of the record.

    Parameters
    ----------
    source : path-like, or iterable of mappings
        A CSV file, or rows in memory. Needed are data, model, metric, source, and printed or value.
        Other columns have defaults: the test split, both sides, filtered, all entities, an own result.
    sourced : bool, default True
        Whether every row must name its source.

    Returns
    -------
    list of Recorded
        The rows; models and data sets in the spelling of the record.

    Raises
    ------
    InputError
        If a row is incomplete or a word is unknown; the message names the line. Unknown metrics are
        listed once each.

    Examples
    --------
    >>> row = {"data": "WN18RR", "model": "complex n3", "metric": "MRR", "printed": "47,8 %"}
    >>> one, = read([row | {"source": "me"}])
    >>> one.data, one.model, one.metric, one.printed, one.percent, one.value
    ('wn18rr', 'ComplEx-N3', 'mrr', '47,8', True, 0.478)
    """
    name, columns, rows = table_of(source)
    folded = [COLUMNS.get(column.strip().lower(), column.strip().lower()) for column in columns]
    with located(name):
        for needed in NEEDED if sourced else NEEDED[:-1]:
            if needed not in folded:
                got = ", ".join(columns) or "nothing"
                raise InputError(f"no column {needed}", got=got, allowed=", ".join(_names()))
        if "printed" not in folded and "value" not in folded:
            raise InputError(
                "no column printed", got=", ".join(columns), do="add it: the value as printed"
            )
        odd = next((c for c in folded if c not in (*_names(), "value")), None)
        if odd is not None:
            raise InputError("unknown column", got=repr(odd), allowed=", ".join(_names()))
    cells = [
        (where, {fold: str(row[column]) for fold, column in zip(folded, columns, strict=True)})
        for where, row in rows
    ]
    _check_metrics(name, [row["metric"] for _, row in cells])
    made = []
    for where, row in cells:
        with located(where):
            made.append(_recorded(row, NEEDED if sourced else NEEDED[:-1]))
    units = _units(cells, made)
    return _numbered([replace(one, percent=unit) for one, unit in zip(made, units, strict=True)])


def _names() -> list[str]:
    return [field.name for field in fields(Recorded)]


def _check_metrics(name: str, metrics: Iterable[str]) -> None:
    """List the metrics that are unknown, once each."""
    unknown = []
    for metric in dict.fromkeys(metrics):
        try:
            adjustable(metric)
        except UnknownMetricError as error:
            unknown.append(metric)
            alone = error
    if len(unknown) == 1:
        raise alone.at(name)
    if unknown:
        raise UnknownMetricError(
            f"{name}: unknown metrics", got=", ".join(unknown), do="see `evenrank evaluate --list`"
        )


def _recorded(row: Mapping[str, str], needed: Sequence[str]) -> Recorded:
    """Check one row."""
    words = {"note": "", "where": "", "year": "", "called": "", "variant": "", "run": "0"} | dict(row)
    words |= {name: words.get(name, "") for name in WORDS}
    words.setdefault("source", "")
    for name in needed:
        if not words[name]:
            raise InputError(f"no {name}", do="fill in the cell, or delete the line")
    filter_, chosen = CHOSEN.get(words["filter"], (words["filter"], words["candidates"]))
    words |= {"filter": filter_, "candidates": chosen}
    for name, known in WORDS.items():
        words[name] = known.get(words[name], words[name])
    _check_word("sides", words["sides"], get_args(atlas.Sides))
    _check_word("filter", words["filter"], FILTERS)
    _check_word("unseen", words["unseen"], UNSEEN)
    _check_word("origin", words["origin"], ORIGINS)
    if not CANDIDATES.fullmatch(words["candidates"]):
        allowed = "all, sampled, '50 sampled', 'top 10'"
        raise InputError("unknown candidates", got=repr(words["candidates"]), allowed=allowed)
    year = words["year"]
    if year and not (year.isdecimal() and 1900 <= int(year) <= 2100):
        raise InputError("a year must have four digits", got=repr(year))
    printed = words.get("printed") or words.get("value", "")
    if not printed:
        raise InputError("no value", do="fill in the cell, or delete the line")
    given = PublishedValue.of(words["metric"], printed)
    model, variant = model_name(words["model"])
    return Recorded(
        data=data_name(words["data"]),
        model=model,
        variant=words["variant"] or variant,
        metric=str(given.expression),
        printed=printed.rstrip(" %"),
        percent=given.percent,
        split=words["split"],
        sides=words["sides"],
        filter=words["filter"],
        candidates=words["candidates"],
        ties=words["ties"],
        unseen=words["unseen"],
        source=words["source"],
        year=int(year) if year else None,
        where=words["where"],
        origin=words["origin"],
        run=0,
        note=words["note"],
        called=words["called"] or words["model"],
    )


def _check_word(name: str, word: str, known: Sequence[str]) -> None:
    if word not in known:
        raise InputError(f"unknown word in column {name}", got=repr(word), allowed=", ".join(known))


def _units(cells: Sequence[tuple[str, Mapping[str, str]]], made: Sequence[Recorded]) -> list[bool]:
    """Decide which values are in percent: as the file says, as its column value shows, or by detection.

    The values of one source have one unit for each kind of metric.
    """
    units: dict[int, bool] = {}
    groups: dict[tuple[str, str], list[int]] = {}
    for i, ((where, row), one) in enumerate(zip(cells, made, strict=True)):
        said = row.get("percent", "").lower()
        if said:
            with located(where):
                _check_word("percent", said, ("true", "false"))
            units[i] = said == "true"
        elif one.percent:
            units[i] = True
        elif row.get("printed") and row.get("value"):
            with located(where):
                units[i] = _in_percent(one.given, PublishedValue.of(one.metric, row["value"]))
        else:
            groups.setdefault((one.source, one.where), []).append(i)
    for group in groups.values():
        named = [f"{made[i].given} ({cells[i][0]})" for i in group]
        read = decide_percent([made[i].given for i in group], named, None)
        units |= {i: given.percent for i, given in zip(group, read, strict=True)}
    return [units[i] for i in range(len(made))]


def _in_percent(printed: PublishedValue, value: PublishedValue) -> bool:
    """Compare a printed value with the number beside it."""
    for percent in (False, True):
        if abs(replace(printed, percent=percent).fraction - value.fraction) <= 1e-9:
            return percent
    raise InputError("printed and value differ", got=f"{printed.value:g} and {value.value:g}")


def _numbered(rows: Iterable[Recorded]) -> list[Recorded]:
    """Number the evaluations: a metric that occurs again begins another one."""
    latest: dict[tuple[Any, ...], tuple[int, set[str]]] = {}
    made, following = [], 0
    for one in rows:
        about = (one.name, *one.protocol, one.ties, one.source, one.where, one.note, one.called)
        run, metrics = latest.get(about, (-1, set[str]()))
        if run < 0 or one.metric in metrics:
            run, metrics, following = following, set[str](), following + 1
        latest[about] = (run, {*metrics, one.metric})
        made.append(replace(one, run=run))
    return made


def data_name(name: str) -> str:
    """Find the name of a data set in the list of benchmarks or the atlas.

    Parameters
    ----------
    name : str
        A name in any usual spelling; an unknown one is kept.

    Returns
    -------
    str
        The name.

    Examples
    --------
    >>> data_name("FB15k-237"), data_name("my graph")
    ('fb15k237', 'my graph')
    """
    entry = registry.lookup(name)
    if entry is not None:
        return entry.name
    known = {registry.key(one): one for one in atlas.names()}
    return known.get(registry.key(name), name)


# Writing ------------------------------------------------------------------------------------------


def build(source: str | os.PathLike[str] | Iterable[Mapping[str, Any]], path: Path) -> int:
    """Write the record of the package.

    Parameters
    ----------
    source : path-like, or iterable of mappings
        Rows, as `read` takes them.
    path : Path
        The Parquet file.

    Returns
    -------
    int
        The number of rows.
    """
    import polars as pl

    rows = read(source)
    schema = {"percent": pl.Boolean, "year": pl.Int16, "run": pl.Int32}
    columns = {name: [getattr(one, name) for one in rows] for name in _names()}
    typed = {name: schema.get(name, pl.String) for name in columns}
    with replacing(path) as file:
        pl.DataFrame(columns, schema=typed).write_parquet(file, compression="zstd", compression_level=19)
    return len(rows)


def add(source: str | os.PathLike[str] | Iterable[Mapping[str, Any]]) -> Path:
    """Add rows to your own record, which `results` reads beside that of the package.

    Parameters
    ----------
    source : path-like, or iterable of mappings
        Rows, as `read` takes them. All are checked before any is written.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    InputError
        If a row is invalid or already there, or the file cannot be written.
    """
    new, path = read(source), own_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path.parent):  # no other process may write between reading and writing
            kept = read(path) if path.exists() else []
            there = {replace(one, run=0) for one in kept}
            again = next((one for one in new if replace(one, run=0) in there), None)
            if again is not None:
                got = f"{again.metric}={again.printed} of {again.name} on {again.data}, {again.source}"
                raise InputError(
                    "your record has this row already", got=got, do="remove it from the file"
                )
            with replacing(path) as file:
                file.write_text(as_csv([_plain(one) for one in (*kept, *new)]) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"cannot write to {path.parent}", got=error.strerror, do=f"set {FOLDER} to another folder"
        ) from None
    return path


def _plain(one: Recorded) -> dict[str, Any]:
    """Write a row as text; runs are numbered again when it is read."""
    row = {name: getattr(one, name) for name in _names() if name != "run"}
    return row | {"percent": str(one.percent).lower(), "year": "" if one.year is None else one.year}

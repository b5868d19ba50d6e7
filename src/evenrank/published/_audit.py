"""Audit published results: check whether the values of each evaluation can belong to one set of ranks.

Values are read as printed, so that 0.48 stands for 0.475 to 0.485. A finding means that no set of ranks
has these values, whatever the tie-breaking rule, and whether they are micro or macro averages.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from math import inf, isfinite
from typing import Any, Literal, TypeAlias

from evenrank._internal.table import Shown, Table
from evenrank._internal.terminal import clean, wrapped
from evenrank.errors import InputError
from evenrank.graphs import Graph, Unseen, atlas, registry
from evenrank.metrics.adjusted import Adjusted
from evenrank.published._consistency import Contradiction
from evenrank.published._joint import (
    LAST_DIGIT,
    Limit,
    cut_off,
    listed_in_words,
    misfits,
    values_of,
)
from evenrank.published._read import Unknown, located, table_of
from evenrank.published._read import lines as read_lines
from evenrank.published._record import Record, Recorded, candidates_of
from evenrank.published._rows import is_record, read
from evenrank.published._select import results
from evenrank.published._setting import Candidates, Setting
from evenrank.published._value import SLACK, PublishedValue, check_percent

Kind: TypeAlias = Literal["contradiction", "impossible", "unit", "sources"]
# rules that give whole ranks; other libraries' names for them are in the record
WHOLE = ("optimistic", "pessimistic", "nondeterministic", "sort order", "rounded (LibKGE)")


@dataclass(frozen=True)
class Finding:
    """What is wrong with published values.

    Parameters
    ----------
    kind : {"contradiction", "impossible", "unit", "sources"}
        Values that contradict each other; a value that is impossible by itself; values in two units; or
        two sources that print different values for the same work.
    data, model : str
        The data set and the model.
    text : str
        One sentence: the inequality, and the numbers that violate it.
    given : tuple of PublishedValue
        The values in it.
    source, where : str
        The source, and the file or line in which they are printed.
    last_digit : bool
        Whether the values would fit, if they were off by one in the last digit, as where further digits
        are cut off instead of rounded.
    """

    kind: Kind
    data: str
    model: str
    text: str
    given: tuple[PublishedValue, ...]
    source: str = ""
    where: str = ""
    last_digit: bool = False

    def __str__(self) -> str:
        """Return the sentence."""
        return f"{self.text}{LAST_DIGIT * self.last_digit}"


@dataclass(frozen=True)
class Run:
    """The values of one evaluation of a model.

    Parameters
    ----------
    data, model : str
        The data set and the model.
    given : tuple of PublishedValue
        The values.
    most : float
        The largest number of candidates; infinite if unknown.
    candidates : tuple of Candidates
        The candidates; none if unknown, and several if the protocol is not fully known. A finding holds
        for all of them.
    whole : bool
        Whether the tie-breaking rule is known to give whole ranks.
    source, where : str
        The source, and the file or line.
    decided : bool
        Whether the units of the values are known.
    percent : set of str
        The kinds of metrics that other evaluations of the same table print in percent.
    """

    data: str
    model: str
    given: tuple[PublishedValue, ...]
    most: float = inf
    candidates: tuple[Candidates, ...] = ()
    whole: bool = False
    source: str = ""
    where: str = ""
    decided: bool = True
    percent: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False, repr=False)
class Audit(Shown):
    """The findings of an audit; prints as a list.

    Parameters
    ----------
    findings : tuple of Finding
        The findings, in the order of the table.
    runs, values : int
        The number of evaluations and of values that were checked.
    notes : tuple of str
        What was not checked.
    """

    findings: tuple[Finding, ...]
    runs: int
    values: int
    notes: tuple[str, ...] = ()
    _names = ("kind", "data", "model", "finding", "values", "source", "where")

    def __len__(self) -> int:
        """Number of findings."""
        return len(self.findings)

    def __iter__(self) -> Iterator[Finding]:
        """Iterate over the findings."""
        return iter(self.findings)

    def rows(self) -> list[dict[str, Any]]:
        """List one dictionary per finding."""
        return [
            {
                "kind": one.kind,
                "data": one.data,
                "model": one.model,
                "finding": str(one),
                "values": " ".join(value.printed for value in one.given),
                "source": one.source,
                "where": one.where,
            }
            for one in self.findings
        ]

    def content(self) -> dict[str, Any]:
        """Collect the findings, with notes."""
        counts = {"evaluations": self.runs, "values": self.values}
        return {**counts, "findings": self.rows(), "notes": list(self.notes)}

    def tables(self) -> list[Table]:
        """Build the table."""
        rows = [[one.data, one.model, str(one), one.source, one.where] for one in self.findings]
        header = ["data", "model", "finding", "source", "where"]
        return [Table(header, rows, self._remarks(), labels=len(header))]

    def text(self, width: int | None = None, *, verbose: bool = False) -> str:
        """Write the findings as paragraphs.

        Parameters
        ----------
        width : int, optional
            The width to fit. By default, a paragraph is one line.
        verbose : bool
            Has no effect.

        Returns
        -------
        str
            The findings, then what was checked.
        """
        del verbose
        lines = []
        for one in self.findings:
            place = "; ".join(filter(None, (one.source, one.where)))
            lines += [f"{one.model} on {one.data} ({place})", f"  {one}", ""]
        lines = [clean(line) for line in (*lines, *self._remarks())]
        if width is not None:
            lines = [
                part
                for line in lines
                for part in (wrapped(line, width, indent=_indent(line), names=False) if line else [""])
            ]
        return "\n".join(lines)

    def _remarks(self) -> list[str]:
        """Say how much was checked and what was not."""
        many = len(self.findings)
        values = f"{self.values:,} value{'s' * (self.values != 1)}"
        runs = f"{self.runs:,} evaluation{'s' * (self.runs != 1)}"
        found = f"{many:,} finding{'s' * (many != 1)}" if many else "no findings"
        return [f"checked {values} of {runs}: {found}", *self.notes]


def _indent(line: str) -> str:
    """Indent what follows a place more than its finding."""
    return "  " if line.startswith("  ") else "    "


def audit(
    source: Record | str | os.PathLike[str] | Iterable[Mapping[str, Any]] | None = None,
    *,
    split: str = "test",
    sides: atlas.Sides = "both",
    filter: atlas.Filter = "all",  # noqa: A002  # the field's word
    unseen: Unseen | None = None,
    percent: bool | None = None,
) -> Audit:
    """Check whether published values are possible and consistent.

    Hits@k must not decrease with k, and the MRR must lie between the bounds that hits@k, MR, GMR and the
    candidates of the data set imply together. Values that were computed from ranks and rounded never
    have findings, whatever the tie-breaking rule, and for micro and macro averages alike.

    Parameters
    ----------
    source : Record, path-like, or iterable of mappings, optional
        Values of the record; a CSV file, or rows in memory, in the columns of `adjust_table` or of the
        record. By default the whole record of published results.
    split : str, default "test"
        The split that was ranked, where a file does not say.
    sides : {"both", "tail", "head"}, default "both"
        The sides that were predicted, where a file does not say.
    filter : {"all", None}, default "all"
        Filtered by the known true answers of all splits, or raw, where a file does not say.
    unseen : {"keep", "drop"}, optional
        Whether entities not seen in training were kept, where a file does not say. By default either is
        possible.
    percent : bool, optional
        Whether metrics with maximum 1 are in percent. By default a percent sign or a value above 1
        decides. Where small values fit in percent only, a finding says so.

    Returns
    -------
    Audit
        The findings. Notes list unknown data sets, whose number of candidates is not used, and metrics
        that are unknown or have no null distribution, which are not checked, once each.

    Raises
    ------
    InputError
        If a line cannot be read; the message names it.

    Examples
    --------
    >>> rows = [{"model": "A", "data": "wn18rr", "mrr": "0.48", "hits@1": "0.52", "hits@10": "0.57"}]
    >>> for finding in audit(rows):
    ...     print(finding)
    hits@1=0.52 and mrr=0.48 contradict each other: hits@1 <= mrr, but even with rounding
    0.515 > 0.485
    """
    check_percent(percent)
    if source is None:
        source = results(candidates="any")
    if isinstance(source, Record):
        return audit_record(source.values)
    if not isinstance(source, str | os.PathLike):
        source = list(source) if isinstance(source, Iterable) else source
    if is_record(table_of(source)[1]):
        return audit_record(read(source, sourced=False))
    unknown = Unknown({}, {})
    default = Setting("", split, sides, filter, unseen or "keep")
    runs = list(_runs_of_lines(source, default, unknown, percent, stated=unseen is not None))
    notes = []
    if unknown.data:
        notes.append(f"not in the atlas, checked without candidates: {', '.join(unknown.data)}")
    if unknown.metrics:
        notes.append(f"metrics not checked: {', '.join(unknown.metrics)}")
    return _audited(runs, [], notes)


def with_findings(found: Record, most: int | None = None) -> Record:
    """Add a note for each finding about the first values of a selection from the record.

    Parameters
    ----------
    found : Record
        The selection.
    most : int, optional
        How many values to audit, each with the other values of its evaluation. By default all.

    Returns
    -------
    Record
        The same values.

    Examples
    --------
    >>> print(*with_findings(results(data="wn18rr", model="ComplEx-N3 (rank 8)")).notes)
    warning: ComplEx-N3 (rank 8) on wn18rr: hits@1=0.38 and mrr=0.36 contradict each other: ...
    """
    values = found.values[:most]
    made = audit_record(results(candidates="any").values, {one.run for one in values})
    there = {(one.data, one.name, one.where, one.given) for one in values}
    notes = []
    for one in made:
        if any((one.data, one.model, one.where, given) in there for given in one.given):
            kind = "note" if one.kind == "sources" else "warning"
            notes.append(f"{kind}: {one.model} on {one.data}: {one}")
    return replace(found, notes=(*found.notes, *notes))


def audit_record(values: Sequence[Recorded], only: Container[int] | None = None) -> Audit:
    """Audit rows of the record.

    Parameters
    ----------
    values : sequence of Recorded
        The rows.
    only : container of int, optional
        The numbers of the evaluations to audit; by default all.

    Returns
    -------
    Audit
        The findings.
    """
    groups: dict[int, list[Recorded]] = {}
    for one in values:
        if only is None or one.run in only:
            groups.setdefault(one.run, []).append(one)
    runs = []
    for rows in groups.values():
        first = rows[0]
        runs.append(
            Run(
                first.data,
                first.name,
                tuple(one.given for one in rows),
                _most(first),
                _possible(first),
                first.ties in WHOLE,
                first.source,
                first.where,
            )
        )
    return _audited(runs, _disagreements(values, groups), [])


def _audited(runs: Sequence[Run], others: Sequence[Finding], notes: Sequence[str]) -> Audit:
    findings = [found for run in runs for found in audit_run(run)]
    return Audit((*findings, *others), len(runs), sum(len(run.given) for run in runs), tuple(notes))


# One evaluation -----------------------------------------------------------------------------------


def audit_run(run: Run) -> list[Finding]:
    """Check the values of one evaluation.

    Parameters
    ----------
    run : Run
        The values.

    Returns
    -------
    list of Finding
        What is wrong with them.
    """
    given = [one for one in run.given if not _by_deviation(one)]

    def wrong(values: Sequence[PublishedValue]) -> list[Finding]:
        return [_finding(one, run) for one in _misfits(values, run)]

    if run.decided:
        return wrong(given)
    likely, *others = _readings(given)
    first = wrong(likely)
    if not first:
        return []
    fitting = [other for other in others if not wrong(other)]
    changed = [_changed(likely, other) for other in fitting]
    if any({one.kind for one in values} <= run.percent for values in changed):
        return []
    mixed = _mixed(given)
    if mixed and not wrong(mixed):
        kinds = {one.kind for one in mixed if one.percent}
        small = [one.printed for one in mixed if one.kind in kinds and not one.percent]
        large = listed_in_words([one.printed for one in mixed if one.percent])
        noun = "a fraction" if len(small) == 1 else "fractions"
        text = f"{listed_in_words(small)} can only be {noun}, next to {large}"
        return [Finding("unit", run.data, run.model, text, tuple(mixed), run.source, run.where)]
    if changed:
        names = listed_in_words([str(one.expression) for one in min(changed, key=len)])
        verb = "is" if len(min(changed, key=len)) == 1 else "are"
        first = [replace(one, text=f"{one.text}, unless {names} {verb} in percent") for one in first]
    return first


def _misfits(values: Sequence[PublishedValue], run: Run) -> tuple[Contradiction | Limit, ...]:
    """Explain why values do not fit together, whichever of the possible candidates were ranked."""
    found: tuple[Contradiction | Limit, ...] = ()
    for candidates in run.candidates or (None,):
        found = misfits(values, candidates, most=run.most, whole=run.whole)
        if not found:
            break
    return found


def _changed(values: Sequence[PublishedValue], others: Sequence[PublishedValue]) -> list[PublishedValue]:
    """Return the values that two readings have in different units."""
    return [one for one, other in zip(values, others, strict=True) if one.percent != other.percent]


def _by_deviation(given: PublishedValue) -> bool:
    """Whether a value is a z-score, whose standard deviation programs compute in different ways."""
    return isinstance(given.expression, Adjusted) and given.expression.adjustment == "z"


def _finding(one: Contradiction | Limit, run: Run) -> Finding:
    alone = isinstance(one, Limit) and not one.others
    given = values_of(one)
    fits = not _misfits(cut_off(given), run)
    kind: Kind = "impossible" if alone else "contradiction"
    return Finding(kind, run.data, run.model, str(one), given, run.source, run.where, fits)


def _large(given: PublishedValue) -> bool:
    """Whether a value can only be in percent."""
    return given.ends_at_one and (given.percent or 1 + SLACK < given.value <= 100)


def _readings(given: Sequence[PublishedValue]) -> Iterator[list[PublishedValue]]:
    """Read values in every possible unit, one for each kind of metric; the most likely reading first.

    A percent sign, or a value above 1, means percent; small values are most likely fractions.
    """
    kinds = dict.fromkeys(one.kind for one in given if one.ends_at_one)
    large = {
        one.kind for one in given if one.ends_at_one and (one.percent or 1 + SLACK < one.value <= 100)
    }
    choices = [[True] if kind in large else [False, True] for kind in kinds]
    for units in product(*choices):
        unit = dict(zip(kinds, units, strict=True))
        yield [replace(one, percent=unit[one.kind]) if one.kind in unit else one for one in given]


def _mixed(given: Sequence[PublishedValue]) -> list[PublishedValue]:
    """Read small values as fractions beside percent, a mistake in a table; empty if there are none."""
    made = [replace(one, percent=_large(one)) if one.ends_at_one else one for one in given]
    kinds = {one.kind for one in made if one.percent}
    return made if any(one.kind in kinds and not one.percent for one in made) else []


# Files --------------------------------------------------------------------------------------------


def _runs_of_lines(
    source: Any, default: Setting, unknown: Unknown, percent: bool | None, *, stated: bool
) -> Iterator[Run]:
    """Read the evaluations of a table in the columns of `adjust_table`.

    Unless it is stated that unseen entities were kept, they may have been dropped.
    """
    groups: dict[tuple[Any, ...], list[PublishedValue]] = {}
    places: dict[tuple[Any, ...], tuple[str, str, str]] = {}
    for line in read_lines(source, default, unknown):
        if not isfinite(line.given.value):
            with located(line.where):
                raise InputError("a value must be finite", got=str(line.given))
        key: tuple[Any, ...] = (line.model, line.setting, line.source, "unseen" in line.stated)
        metrics = {one.expression for one in groups.get((*key, 0), ())}
        again = 0
        while line.given.expression in metrics:  # another evaluation of the same model
            again += 1
            metrics = {one.expression for one in groups.get((*key, again), ())}
        groups.setdefault((*key, again), []).append(line.given)
        places.setdefault((*key, again), (line.where, line.model, line.source))
    kinds = frozenset(one.kind for given in groups.values() for one in given if _large(one))
    for key, given in groups.items():
        setting: Setting = key[1]
        where, model, called = places[key]
        named = setting.data.name if isinstance(setting.data, Graph) else setting.data
        candidates: tuple[Candidates, ...] = ()
        if named not in unknown.data:
            with located(where):
                candidates = (setting.candidates(),)
            if not (stated or key[3]):
                candidates += _dropping(setting)
        most = max(
            (float(one.sizes["candidates"].max()) for one in candidates), default=_entities(named)
        )
        if percent is not None:
            given = [
                replace(one, percent=percent or one.percent) if one.ends_at_one else one for one in given
            ]
        yield Run(
            *(named, model, tuple(given), most, candidates, False, called, where),
            decided=percent is not None,
            percent=kinds,
        )


def _possible(one: Recorded) -> tuple[Candidates, ...]:
    """Return the candidates that a row of the record leaves possible."""
    if one.candidates != "all":
        return ()
    kept = ("keep", "drop") if one.unseen == "unknown" else (one.unseen,)
    known = [candidates_of((*one.protocol[:-1], unseen)).candidates for unseen in kept]
    return tuple(candidates for candidates in known if candidates is not None)


def _most(one: Recorded) -> float:
    """Find the largest number of candidates of a row of the record."""
    if one.candidates.startswith("top"):
        return inf  # targets that are not in the list count as missed
    if one.candidates.endswith(" sampled"):
        return float(one.candidates.split()[0]) + 1
    known = candidates_of(one.protocol).candidates
    return _entities(one.data) if known is None else float(known.sizes["candidates"].max())


def _dropping(setting: Setting) -> tuple[Candidates, ...]:
    """Return the candidates of a setting without unseen entities, if they are known."""
    try:
        return (setting._replace(unseen="drop").candidates(),)
    except InputError:
        return ()


@cache
def _entities(data: str) -> float:
    """Return the number of entities of a data set, or infinity."""
    try:
        return float(atlas.facts(data).entities)
    except InputError:
        entry = registry.lookup(data)
        return inf if entry is None else float(entry.entities)


# Sources ------------------------------------------------------------------------------------------

_AUTHORED = re.compile(r"([A-Z][\w'-]+)(?: et al\.?| and (?:[A-Z][\w'-]+ ?)+)?,? (\d{4})")


def _work(source: str) -> tuple[str, str] | None:
    """Find the first author and the year that a source names, or None.

    >>> _work("Sun et al. 2019 (RotatE)"), _work("ConvKB (Nguyen et al., 2018)")
    (('Sun', '2019'), ('Nguyen', '2018'))
    """
    found = None if source.startswith("quoted by") else _AUTHORED.search(source)
    return (found[1], found[2]) if found else None


def _disagreements(values: Sequence[Recorded], runs: Container[int]) -> list[Finding]:
    """Find values of these evaluations that are quoted or copied from a work that prints other ones."""
    works: dict[tuple[Any, ...], list[Recorded]] = {}
    for one in values:
        work = _work(one.source)
        if work is not None:
            about = (work, one.model, one.variant, one.metric, *one.protocol[:-1])
            works.setdefault(about, []).append(one)
    pairs: dict[tuple[int, str], list[tuple[Recorded, Recorded]]] = {}
    for rows in works.values():
        own = [one for one in rows if one.origin == "own"]
        for one in rows:
            differs = own and not any(_agree(one.given, other.given) for other in own)
            if one.origin in ("quoted", "copied") and differs and one.run in runs:
                pairs.setdefault((one.run, own[0].where), []).append((one, own[0]))
    return [_disagreement(*zip(*both, strict=True)) for both in pairs.values()]


def _disagreement(theirs: Sequence[Recorded], own: Sequence[Recorded]) -> Finding:
    """Describe values of one evaluation that two texts print differently."""
    here, there = (", ".join(one.given.printed for one in rows) for rows in (theirs, own))
    first, other = theirs[0], own[0]
    text = f"{here}, but {other.where} of the same work prints {there}"
    given = tuple(one.given for one in (*theirs, *own))
    return Finding("sources", first.data, first.name, text, given, first.source, first.where)


def _agree(a: PublishedValue, b: PublishedValue) -> bool:
    """Whether some number is printed as both."""
    (low, high), (least, most) = a.rounded_from, b.rounded_from
    return low <= most * (1 + SLACK) and least <= high * (1 + SLACK)

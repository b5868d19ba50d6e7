"""Select from the record of published results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from typing import Any, Literal, TypeAlias, get_args

from evenrank._internal.checks import check_choice
from evenrank.errors import InputError
from evenrank.graphs import registry
from evenrank.metrics.grammar import Metrics, listed
from evenrank.published._models import key, model_name
from evenrank.published._record import Record, Recorded
from evenrank.published._rows import FILTERS, bundled, data_name, own_rows
from evenrank.published._value import adjustable

Ranked: TypeAlias = Literal["all", "sampled", "top", "any"]


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
    """Select from the record of published results: that of the package, and your own.

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
        Ranked among all entities, among sampled ones, or in top-k lists. Values of these are not
        comparable, so only full rankings are selected by default.
    own : bool, optional
        True selects only a source's own results, False only those that it copies or quotes.
    source : str, optional
        Part of the name of the source, or of the file in which the value is printed.

    Returns
    -------
    Record
        The values, in the order of the record.

    Raises
    ------
    InputError
        If the record has no such data set, model or metric, or an argument is invalid.

    Examples
    --------
    >>> found = results(data="FB15k-237", model="RotatE", metric="mrr", source="Sun et al. 2019")
    >>> print(found.adjust().text())
    data      metric  model   value    chance   index       z  year  protocol                    source
    --------  ------  ------  -----  --------  ------  ------  ----  --------  ------------------------
    fb15k237  mrr     RotatE  0.338  7.11e-04  0.3375  +4,691  2019    copied  Sun et al. 2019 (RotatE)
    fb15k237  mrr     RotatE   .337  7.11e-04  0.3365  +4,677  2019            Sun et al. 2019 (RotatE)
    unseen entities: not stated for 2 values, and assumed to be kept
    """
    check_choice("candidates", candidates, get_args(Ranked))
    filter_ = "none" if filter is None else filter
    check_choice("filter", filter_, ("any", *FILTERS))
    every = (*bundled(), *own_rows())
    wanted: list[Callable[[Recorded], bool]] = []
    if data is not None:
        there = dict.fromkeys(one.data for one in every)
        names = {registry.key(name): name for name in there}
        chosen = _chosen("data set", data, names, lambda name: registry.key(data_name(name)))
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
    if not isinstance(own, bool | None):
        raise InputError("own must be True, False or None", got=repr(own))
    if not isinstance(source, str | None):
        raise InputError("source must be a part of a name", got=repr(source))
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
    if pair[0] > pair[1]:
        raise InputError("the first year is after the last", got=f"{pair[0]} and {pair[1]}")
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
        what = "data set" if what == "data" else what
        raise InputError(f"the record has no such {what}", got=", ".join(missing), do=do)
    return dict.fromkeys(known[fold(name)] for name in names)

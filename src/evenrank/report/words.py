"""The summary of a report in words: what the numbers show, and no more than they show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isnan

from evenrank._internal.table import figure
from evenrank.report.contest import Contest
from evenrank.report.findings import Findings, best
from evenrank.stats import Comparison, Pair

FAR = 0.1  # of the way from chance to perfect; below it nobody is far from chance
MANY_TIES = 0.01


def title(contests: Sequence[Contest]) -> str:
    """Name a report by what it compares."""
    models = list(dict.fromkeys(model for contest in contests for model in contest.models))
    data = [contest.data for contest in contests]
    return f"{_some(models, 'models')} on {_some(data, 'data sets')}"


def summary(findings: Findings) -> list[str]:
    """Say what a report shows, a few sentences for each data set and some across them."""
    lines = [" ".join(_contest(findings, contest)) for contest in findings.contests]
    tests = [f"The p-values are of {findings.tested}."] if findings.comparisons else []
    return [*lines, *_across(findings), *_ties(findings), *tests]


def _contest(findings: Findings, contest: Contest) -> Iterator[str]:
    data, lead = contest.data, str(findings.lead)
    models = list(contest.models)
    values = [findings.value("", data, model) for model in models]
    tops = [models[i] for i in sorted(best(values, increasing=findings.lead.increasing))]
    if not tops:
        yield f"On {data}, {lead} is undefined for every model."
        return
    top, value = tops[0], values[models.index(tops[0])]
    index = findings.value("index", data, top)
    told = f"{lead} {figure(value)}{_interval(findings, data, top)}"
    told += "" if isnan(index) else f", index {figure(index)}"
    if len(models) == 1:
        yield f"On {data}, {top} gets {told}."
    else:
        yield f"On {data}, {join(tops)} {'share the lead' if len(tops) > 1 else 'leads'} with {told}."
        yield from _beats(tops, findings.comparisons.get(data))
    yield from _near_chance(findings, contest, top, index)


def _interval(findings: Findings, data: str, model: str) -> str:
    _, low, high, *_ = findings.interval(findings.lead, data, model)
    return "" if isnan(low) else f" ({findings.sure} interval {figure(low)} to {figure(high)})"


def _beats(tops: Sequence[str], compared: Comparison | None) -> Iterator[str]:
    """Say whom the best models beat, each of them, and whom they are not shown to beat."""
    if compared is None:
        return
    duels: dict[str, list[Pair]] = {}
    for pair in compared.pairs:
        others = [name for name in (pair.first, pair.second) if name not in tops]
        if len(others) == 1:
            duels.setdefault(others[0], []).append(pair)
    p = {name: max(pair.p_corrected for pair in pairs) for name, pairs in duels.items()}
    beaten = [
        name
        for name, pairs in duels.items()
        if all(pair.better(compared.level) in tops for pair in pairs)
    ]
    rest = [name for name in duels if name not in beaten]
    it, beat, are = ("They", "beat", "they are") if len(tops) > 1 else ("It", "beats", "it is")
    if beaten:
        whom = "every other model" if len(beaten) == len(duels) > 2 else join(beaten)
        most = probability(max(p[name] for name in beaten))
        yield f"{it} {beat} {whom} (p {most if most.startswith('<') else f'≤ {most}'})."
    if rest:
        least = probability(min(p[name] for name in rest))
        sign = "≥" if len(rest) > 1 else "="
        yield f"That {are} better than {join(rest, 'or')} is not shown (p {sign} {least})."


def _near_chance(findings: Findings, contest: Contest, top: str, index: float) -> Iterator[str]:
    """Say where nobody is far above chance, and which models chance would often enough do as well as."""
    if isnan(index):
        if not isnan(findings.value("chance", contest.data, top)):
            yield "Chance always gets the best value there, so nothing is above it."
        return
    if index < FAR:
        alone = len(contest.models) == 1
        above = "above" if index <= 0 else "far above"
        yield f"{'That is not' if alone else 'Nobody is'} {above} chance, where the index is 0."
    chances = {model: findings.surprise(contest, model) for model in contest.models}
    lucky = {model: p for model, p in chances.items() if p > 1 - findings.level}
    if lucky:
        ends = dict.fromkeys(probability(end(lucky.values())) for end in (min, max))
        yield (
            f"{join([*lucky])} {'do' if len(lucky) > 1 else 'does'} no better there than chance may: it "
            f"gets that far with probability {' to '.join(ends)}."
        )


def _across(findings: Findings) -> Iterator[str]:
    """Compare across data sets: by the raw metric, which misleads, and by the index."""
    contests, lead = findings.contests, str(findings.lead)
    if len(contests) < 2:
        return
    labels = [(contest.data, model) for contest in contests for model in contest.models]

    def first(form: str, increasing: bool | None) -> list[tuple[str, str]]:
        values = [findings.value(form, *label) for label in labels]
        return [labels[i] for i in sorted(best(values, increasing=increasing))]

    raw, index = first("", findings.lead.increasing), first("index", True)
    if not raw or not index:
        return

    def told(form: str, found: list[tuple[str, str]]) -> str:
        value = figure(findings.value(form, *found[0]))
        return f"{join([f'{model} on {data}' for data, model in found])} ({value})"

    has = "has" if len(raw) == 1 else "have"
    if raw == index:
        yield (
            f"Across data sets, {told('', raw)} {has} the best {lead}, and with chance taken into "
            f"account the best index too ({figure(findings.value('index', *index[0]))})."
        )
    else:
        yield (
            f"Across data sets, {told('', raw)} {has} the best {lead}; with chance taken into account "
            f"it is {told('index', index)}, by index."
        )


def _ties(findings: Findings) -> Iterator[str]:
    """Warn of ties, which leave a metric open."""
    rates = dict(zip(findings.paper.labels, findings.paper.tie_rates, strict=True))
    for (data, model), (low, high) in findings.ranges().items():
        if rates[data, model] >= MANY_TIES:
            yield (
                f"On {data}, {rates[data, model]:.0%} of {model}'s targets tie with another candidate: "
                f"its {findings.lead} is {figure(low)} to {figure(high)}, by how ties are ranked."
            )


def join(names: Sequence[str], word: str = "and") -> str:
    """Write names as a sentence does.

    >>> join(["a", "b", "c"]), join(["a", "b"], "or")
    ('a, b and c', 'a or b')
    """
    *most, last = names
    return f"{', '.join(most)} {word} {last}" if most else last


def probability(p: float) -> str:
    """Write a probability with about two figures, and tiny ones as a bound.

    >>> [probability(p) for p in (0.2345, 0.034, 0.0012, 1e-9)]
    ['0.23', '0.034', '0.0012', '< 0.0001']
    """
    return "< 0.0001" if p < 1e-4 else f"{p:.2g}"


def _some(names: Sequence[str], what: str) -> str:
    return join(names) if len(names) <= 3 else f"{len(names)} {what}"

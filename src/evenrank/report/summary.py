"""The summary of a report in sentences, which claim only what the tests support."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isnan

from evenrank._internal.table import figure
from evenrank.report.benchmark import Benchmark
from evenrank.report.findings import Findings, best
from evenrank.stats import Comparison, Pair

FAR = 0.1  # an index below this is not far above chance level
MANY_TIES = 0.01  # rate of tied targets that deserves a warning


def title(benchmarks: Sequence[Benchmark]) -> str:
    """Return the title of a report: models and data sets."""
    models = list(dict.fromkeys(model for benchmark in benchmarks for model in benchmark.models))
    data = [benchmark.data for benchmark in benchmarks]
    return f"{_some(models, 'models')} on {_some(data, 'data sets')}"


def summary(findings: Findings) -> list[str]:
    """Summarize a report in a few sentences per data set and some across data sets."""
    lines = [" ".join(_benchmark(findings, benchmark)) for benchmark in findings.benchmarks]
    tests = [f"All p-values are from {findings.tested}."] if findings.comparisons else []
    return [*lines, *_across(findings), *_ties(findings), *tests]


def _benchmark(findings: Findings, benchmark: Benchmark) -> Iterator[str]:
    data, lead = benchmark.data, str(findings.lead)
    models = list(benchmark.models)
    values = [findings.value("", data, model) for model in models]
    tops = [models[i] for i in sorted(best(values, increasing=findings.lead.increasing))]
    if not tops:
        yield f"On {data}, {lead} is undefined for every model."
        return
    top, value = tops[0], values[models.index(tops[0])]
    index = findings.value("index", data, top)
    result = f"{lead} {figure(value)}{_interval(findings, data, top)}"
    result += "" if isnan(index) else f", index {figure(index)}"
    if len(models) == 1:
        yield f"On {data}, {top} has {result}."
    else:
        verb = "are tied for the best result" if len(tops) > 1 else "is best"
        yield f"On {data}, {join(tops)} {verb}, with {result}."
        yield from _beats(tops, findings.comparisons.get(data))
    yield from _near_chance(findings, benchmark, top, index)


def _interval(findings: Findings, data: str, model: str) -> str:
    _, low, high, *_ = findings.interval(findings.lead, data, model)
    return (
        ""
        if isnan(low)
        else f" ({findings.percent} confidence interval {figure(low)} to {figure(high)})"
    )


def _beats(tops: Sequence[str], compared: Comparison | None) -> Iterator[str]:
    """State which models the best ones are significantly better than, and which not."""
    if compared is None:
        return
    against: dict[str, list[Pair]] = {}
    for pair in compared.pairs:
        others = [name for name in (pair.first, pair.second) if name not in tops]
        if len(others) == 1:
            against.setdefault(others[0], []).append(pair)
    p = {name: max(pair.p_corrected for pair in pairs) for name, pairs in against.items()}
    beaten = [
        name
        for name, pairs in against.items()
        if all(pair.better(compared.level) in tops for pair in pairs)
    ]
    rest = [name for name in against if name not in beaten]
    if beaten:
        whom = "all other models" if len(beaten) == len(against) > 2 else join(beaten)
        most = probability(max(p[name] for name in beaten))
        p_value = most if most.startswith("<") else f"≤ {most}"
        subject = "They are" if len(tops) > 1 else "It is"
        yield f"{subject} significantly better than {whom} (p {p_value})."
    if rest:
        least = probability(min(p[name] for name in rest))
        sign = "≥" if len(rest) > 1 else "="
        yield f"The difference from {join(rest, 'or')} is not significant (p {sign} {least})."


def _near_chance(findings: Findings, benchmark: Benchmark, top: str, index: float) -> Iterator[str]:
    """State where no model is far above chance level, or significantly above it."""
    if isnan(index):
        if not isnan(findings.value("chance", benchmark.data, top)):
            yield "Random ranking always has the best value there, so the index is undefined."
        return
    if index < FAR:
        alone = len(benchmark.models) == 1
        above = "above" if index <= 0 else "far above"
        yield f"{'That is not' if alone else 'No model is'} {above} chance level (index 0)."
    chances = {model: findings.p_value(benchmark, model) for model in benchmark.models}
    lucky = {model: p for model, p in chances.items() if p > 1 - findings.level}
    if lucky:
        ends = dict.fromkeys(probability(end(lucky.values())) for end in (min, max))
        yield (
            f"{join([*lucky])} {'are' if len(lucky) > 1 else 'is'} not significantly better than random "
            f"ranking (p = {' to '.join(ends)})."
        )


def _across(findings: Findings) -> Iterator[str]:
    """Compare across data sets, by the plain metric and by the index."""
    benchmarks, lead = findings.benchmarks, str(findings.lead)
    if len(benchmarks) < 2:
        return
    labels = [(benchmark.data, model) for benchmark in benchmarks for model in benchmark.models]

    def first(form: str, increasing: bool | None) -> list[tuple[str, str]]:
        values = [findings.value(form, *label) for label in labels]
        return [labels[i] for i in sorted(best(values, increasing=increasing))]

    raw, index = first("", findings.lead.increasing), first("index", True)
    if not raw or not index:
        return

    def written(form: str, found: list[tuple[str, str]]) -> str:
        value = figure(findings.value(form, *found[0]))
        return f"{join([f'{model} on {data}' for data, model in found])} ({value})"

    has = "has" if len(raw) == 1 else "have"
    if raw == index:
        yield (
            f"Across data sets, {written('', raw)} {has} the best {lead} and, after chance adjustment, "
            f"the best index as well ({figure(findings.value('index', *index[0]))})."
        )
    else:
        yield (
            f"Across data sets, {written('', raw)} {has} the best {lead}; after chance adjustment, "
            f"{written('index', index)} {'has' if len(index) == 1 else 'have'} the best index."
        )


def _ties(findings: Findings) -> Iterator[str]:
    """Warn of ties that make a metric depend on the tie-breaking rule."""
    rates = dict(zip(findings.paper.labels, findings.paper.tie_rates, strict=True))
    for (data, model), (low, high) in findings.ranges().items():
        if rates[data, model] >= MANY_TIES:
            yield (
                f"On {data}, {rates[data, model]:.0%} of {model}'s targets tie with another candidate: "
                f"its {findings.lead} is {figure(low)} to {figure(high)}, depending on the tie-breaking "
                "rule."
            )


def join(names: Sequence[str], word: str = "and") -> str:
    """Join names in a sentence.

    >>> join(["a", "b", "c"]), join(["a", "b"], "or")
    ('a, b and c', 'a or b')
    """
    *most, last = names
    return f"{', '.join(most)} {word} {last}" if most else last


def probability(p: float) -> str:
    """Write a probability with two significant digits, and tiny ones as a bound.

    >>> [probability(p) for p in (0.2345, 0.034, 0.0012, 1e-9)]
    ['0.23', '0.034', '0.0012', '< 0.0001']
    """
    return "< 0.0001" if p < 1e-4 else f"{p:.2g}"


def _some(names: Sequence[str], what: str) -> str:
    return join(names) if len(names) <= 3 else f"{len(names)} {what}"

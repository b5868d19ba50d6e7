"""The summary of a report in sentences, which claim only what the tests support."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Sized
from math import isnan

from evenrank._internal.table import figure
from evenrank.ranks.selection import rows_of
from evenrank.report.benchmark import Benchmark
from evenrank.report.findings import Findings, best
from evenrank.stats import Comparison, Pair

FAR = 0.1  # an index below this is not far above chance level
FEW = 5  # with fewer data sets, the Friedman test has hardly any power
MANY_TIES = 0.01  # rate of tied targets that deserves a warning


def title(benchmarks: Sequence[Benchmark]) -> str:
    """Return the title of a report: models and data sets."""
    models = list(dict.fromkeys(model for benchmark in benchmarks for model in benchmark.models))
    data = [benchmark.data for benchmark in benchmarks]
    return f"{_some(models, 'models')} on {_some(data, 'data sets')}"


def summary(findings: Findings) -> list[str]:
    """Summarize a report: which model is best, over all data sets and on each, and by which tests."""
    lines = [" ".join(_benchmark(findings, benchmark)) for benchmark in findings.benchmarks]
    return [
        *_winners(findings),
        *_ranked(findings),
        *lines,
        *_across(findings),
        *_ties(findings),
        *_tests(findings),
    ]


def _winners(findings: Findings) -> Iterator[str]:
    """State on how many data sets each model is significantly better than all others."""
    several = [benchmark for benchmark in findings.benchmarks if len(benchmark.models) > 1]
    if len(several) < 2 or not findings.comparisons:
        return
    won: dict[str, list[str]] = {}
    open_: dict[str, list[str]] = {}
    for benchmark in several:
        contenders = findings.contenders(benchmark)
        if len(contenders) == 1:
            won.setdefault(contenders[0], []).append(benchmark.data)
        else:
            open_[benchmark.data] = contenders
    every = len(several)
    parts = []
    for model, data in sorted(won.items(), key=lambda one: -len(one[1])):
        if len(data) == every:
            parts.append(f"{model} is best on {'both' if every == 2 else f'all {every}'} data sets")
        elif parts:
            parts.append(f"{model} on {join(data)}")
        else:
            parts.append(f"{model} is best on {len(data)} of {every} data sets ({join(data)})")
    if not parts:
        parts = [f"No model is best on any of the {every} data sets"]
    undecided = [f"{data} is undecided {_between(models)}" for data, models in open_.items()]
    yield f"{'; '.join([', '.join(parts), *undecided])}."


def _of(models: Sequence[str], others: Sized) -> str:
    """Name some of the other models, or count them if they are many."""
    if len(models) == len(others) > 2:
        return "all other models"
    return join(models) if len(models) <= 3 else f"{len(models)} of the {len(others)} other models"


def _between(models: Sequence[str]) -> str:
    """Write among which models a data set is undecided.

    >>> _between(["a", "b"]), _between(["a", "b", "c"]), _between(["a", "b", "c", "d"])
    ('between a and b', 'among a, b and c', 'among 4 models')
    """
    if len(models) > 3:
        return f"among {len(models)} models"
    return f"{'between' if len(models) == 2 else 'among'} {join(models)}"


def _ranked(findings: Findings) -> Iterator[str]:
    """Report the test across data sets, on the average ranks of the models."""
    across = findings.across
    if across is None:
        return
    least = across.average_ranks[0].rank
    tops = [m.model for m in across.average_ranks if m.rank == least]
    others = [m for m in across.average_ranks if m.rank > least]
    test = f"Friedman test, p {equals(across.p)}"
    has, subject, whose = ("have", "They are", "Their") if len(tops) > 1 else ("has", "It is", "Its")
    place = f"{join(tops)} {has} the best average rank ({least:.3g} of {len(across.average_ranks)})"
    if across.p > 1 - across.level:
        count = len(findings.benchmarks)
        few = f"; {count} data sets are few for this test" * (count < FEW)
        yield f"Over all data sets, {place}, but the order of the models is undecided ({test}{few})."
        return
    worse = [m.model for m in others if m.rank - least >= across.critical_difference]
    rest = [m.model for m in others if m.model not in worse]
    said = f" {subject} significantly better than {_of(worse, others)} (Nemenyi test)." if worse else ""
    said += f" {whose} lead over {_of(rest, others)} is undecided." if rest else ""
    yield f"Over all data sets, the models differ ({test}); {place}.{said}"


def _tests(findings: Findings) -> Iterator[str]:
    """State what the p-values are, and which words depend on them."""
    if findings.comparisons:
        yield (
            "Best means significantly better than every other model on the data set; undecided means "
            f"that the corrected p-value exceeds {1 - findings.level:.3g}. Corrected p-values are from "
            f"{findings.tested}."
        )


def equals(p: float) -> str:
    """Write a probability after its sign."""
    written = probability(p)
    return written if written.startswith("<") else f"= {written}"


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
        won = data in findings.comparisons and len(findings.contenders(benchmark)) == 1
        verb = "are tied for the best result" if len(tops) > 1 else "is best" if won else "comes first"
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
        most = probability(max(p[name] for name in beaten))
        p_value = most if most.startswith("<") else f"≤ {most}"
        subject = "They are" if len(tops) > 1 else "It is"
        yield f"{subject} significantly better than {_of(beaten, against)} (corrected p {p_value})."
    if rest:
        least = probability(min(p[name] for name in rest))
        sign = "≥" if len(rest) > 1 else "="
        whose = "Their" if len(tops) > 1 else "Its"
        yield f"{whose} lead over {_of(rest, against)} is undecided (corrected p {sign} {least})."


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
            f"ranking (p = {' to '.join(ends)} from the null distribution, not corrected)."
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
    rows = rows_of(findings.benchmarks[0].row_name)
    rates = dict(zip(findings.paper.labels, findings.paper.tie_rates, strict=True))
    for (data, model), (low, high) in findings.ranges().items():
        if rates[data, model] >= MANY_TIES:
            yield (
                f"On {data}, {rates[data, model]:.0%} of {model}'s {rows} tie with another candidate: "
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

"""Write a page per metric from the tables of metric names: formula, null distribution, example.

Pages appear for every name in the tables; the texts here add what the tables do not hold. All numbers
are computed when the pages are written, and each closed form is compared with `er.chance`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from math import comb, inf, isclose, isnan, log2, prod
from pathlib import Path

import evenrank as er
from evenrank.errors import NullDistributionError
from evenrank.metrics.adjusted import Adjusted, Expression
from evenrank.metrics.answers.metric import QueryMetric
from evenrank.metrics.chance import Chance
from evenrank.metrics.grammar import ALIASES, HITS_NAMES, NAMES, QUERY_ALIASES, QUERY_NAMES, parse
from evenrank.metrics.metric import Metric

DATA = ("nations", "kinships", "fb15k237", "wn18rr")
KINDS: tuple[Chance, ...] = ("scorer", "independent")
RANKS, CANDIDATES = [1, 3, 1, 12], 100
POSITIONS, SIZES = [[1, 4], [2]], [10, 8]
QUERY = (1000, 5)  # candidates and answers of the queries whose chance level is shown
EXAMPLES = "hits@10 mrr@10 ndcg@10 mean(2) quantile(0.9) rbp(0.8)"
ADJUSTED_EXAMPLES = "phi(mrr) chance(mrr) index(hits@10) z(hits@10)"

TEXTS = tomllib.loads((Path(__file__).parent / "metrics.toml").read_text(encoding="utf-8"))
ADJUSTED = {
    "ratio": r"\frac{M}{E[M]}",
    "index": r"\frac{M - E[M]}{M^* - E[M]}",
    "z": r"\pm\frac{M - E[M]}{\sigma[M]}",
    "phi": r"\Phi\left(\pm\frac{M - E[M]}{\sigma[M]}\right)",
    "chance": r"E[M]",
}
# expected values under random ranking: as a formula, and as a function of the numbers of candidates
Closed = tuple[str, Callable[[list[int]], float]]
CLOSED: dict[str, Closed] = {
    "mr": (r"\frac{1}{n}\sum_i \frac{N_i+1}{2}", lambda s: mean((n + 1) / 2 for n in s)),
    "mrr": (
        r"\frac{1}{n}\sum_i \frac{1}{N_i}\sum_{r=1}^{N_i}\frac{1}{r}",
        lambda s: mean(over(n, lambda r: 1 / r) for n in s),
    ),
    "hits@10": (
        r"\frac{1}{n}\sum_i \frac{\min(k, N_i)}{N_i}",
        lambda s: mean(min(10, n) / n for n in s),
    ),
    "ndcg": (
        r"\frac{1}{n}\sum_i \frac{1}{N_i}\sum_{r=1}^{N_i}\frac{1}{\log_2(1+r)}",
        lambda s: mean(over(n, lambda r: 1 / log2(1 + r)) for n in s),
    ),
    "gmr": (
        r"\prod_i \frac{1}{N_i}\sum_{r=1}^{N_i} r^{1/n}",
        lambda s: prod(over(n, lambda r: r ** (1 / len(s))) for n in s),
    ),
    "igmr": (
        r"\prod_i \frac{1}{N_i}\sum_{r=1}^{N_i} r^{-1/n}",
        lambda s: prod(over(n, lambda r: r ** (-1 / len(s))) for n in s),
    ),
    "min": (
        r"\sum_{x=0}^{\min N_i} \prod_i \left(1 - \frac{x}{N_i}\right)",
        lambda s: sum(prod(1 - x / n for n in s) for x in range(min(s))),
    ),
    "max": (
        r"\sum_{x=0}^{\max N_i} \left(1 - \prod_i \min\left(\frac{x}{N_i}, 1\right)\right)",
        lambda s: sum(1 - prod(min(x / n, 1) for n in s) for x in range(max(s))),
    ),
}
# and of the number of candidates N and of answers m, for metrics of several answers
Answers = tuple[str, Callable[[int, int], float]]
ANSWERS: dict[str, Answers] = {
    "auc": (r"\frac{1}{2}", lambda n, m: 0.5),  # noqa: ARG005
    "precision@10": (r"\frac{m}{N}", lambda n, m: m / n),
    "recall@10": (r"\frac{k}{N}", lambda n, m: 10 / n),  # noqa: ARG005
    "r_precision": (r"\frac{m}{N}", lambda n, m: m / n),
    "f1@10": (r"\frac{2 m k}{N (m + k)}", lambda n, m: 2 * m * 10 / (n * (m + 10))),
    "success@10": (
        r"1 - \frac{\binom{N-m}{k}}{\binom{N}{k}}",
        lambda n, m: 1 - comb(n - m, 10) / comb(n, 10),
    ),
    "rbp(0.8)": (r"\frac{m}{N} (1 - p^N)", lambda n, m: m / n * (1 - 0.8**n)),
    "dcg_bin": (
        r"\frac{m}{N} \sum_{r=1}^{N} \frac{1}{\log_2(1+r)}",
        lambda n, m: m * over(n, lambda r: 1 / log2(1 + r)),
    ),
}


def mean(values: object) -> float:
    """Return the mean of an iterable."""
    found = list(values)  # type: ignore[call-overload]
    return float(sum(found) / len(found))


def over(n: int, function: Callable[[int], float]) -> float:
    """Return the mean of a function over the ranks 1 to n.

    >>> over(4, lambda r: r)
    2.5
    """
    return sum(map(function, range(1, n + 1))) / n


def everything() -> list[Expression]:
    """Return the metrics that have a page: all names, and examples of those with a parameter."""
    with_cutoff = set(QUERY_ALIASES.values()) - {*QUERY_NAMES, "mrr", "ndcg"}
    cut_off = " ".join(f"{name}@10" for name in sorted(with_cutoff))
    examples = map(parse, f"{EXAMPLES} {ADJUSTED_EXAMPLES} {cut_off}".split())
    found = [*NAMES.values(), *examples, *ALIASES.values(), *QUERY_NAMES.values()]
    return list(dict.fromkeys(found))


def slug(expression: Expression) -> str:
    """Return the file name of a page.

    >>> slug(er.parse("index(hits@10)")), slug(er.parse("1/median"))
    ('index-hits-10', '1-median')
    """
    return re.sub(r"[^a-z0-9_.]+", "-", str(expression)).strip("-")


def aliases(expression: Expression) -> list[str]:
    """Return what else a metric is called, in evenrank and in other libraries."""
    found = [name for name, target in ALIASES.items() if target == expression]
    hits = {"hits@10": None, "index(hits@10)": "index", "z(hits@10)": "z"}
    if str(expression) in hits:
        found += [f"{name}@10" for name, kind in HITS_NAMES.items() if kind == hits[str(expression)]]
    stem, _, k = str(expression).partition("@")
    if isinstance(expression, QueryMetric) and not stem.startswith("map_min@"):
        found += [name + f"@{k}" * bool(k) for name, target in QUERY_ALIASES.items() if target == stem]
    return [name for name in dict.fromkeys(found) if name != str(expression)]


def latex(metric: Metric) -> str:
    r"""Write a metric of ranks as a formula.

    >>> print(latex(er.MRR))
    M = \frac{1}{n}\sum_i \frac{1}{r_i}
    >>> print(latex(er.parse("mean(2)")))
    M = \left(\frac{1}{n}\sum_i r_i^{2}\right)^{1/2}
    """
    name, p = metric.f.name, metric.p
    term = {"rank": "r_i", "ndcg": r"\frac{1}{\log_2(1+r_i)}"}.get(name, r"f(r_i)")
    if metric.f.k is not None:
        term = r"[r_i \le k]"
    elif metric.f.cut is not None:
        term = r"[r_i \le k]\," + (
            r"\frac{1}{r_i}" if metric.f.cut[0] == "mrr" else r"\frac{1}{\log_2(1+r_i)}"
        )
    total = r"\frac{1}{n}\sum_i "
    if abs(p) == inf:
        inner, power = rf"\{'max' if p > 0 else 'min'}_i {term}", "1"
    elif p == 0:
        sign = "-" * (metric.q == -1)
        return rf"M = \exp\left({sign}{total}\log {term}\right)"
    elif p == -1:
        inner, power = total + r"\frac{1}{r_i}", "-1"
    elif p == 1:
        inner, power = total + term, "1"
    else:
        inner, power = f"{total}{term}^{{{p:g}}}", f"1/{p:g}"
    if metric.q == -1:
        power = {"1": "-1", "-1": "1"}.get(power, f"-{power}")
    return f"M = {inner}" if power == "1" else rf"M = \left({inner}\right)^{{{power}}}"


def number(value: float) -> str:
    """Write a number with four digits."""
    if value != 0 and abs(value) < 1e-3:
        return f"{value:.2e}"
    return f"{value:,.4f}" if abs(value) < 10 else f"{value:,.1f}"


def checked(expression: Metric | QueryMetric) -> str:
    """Return the closed form of the expected value, after comparing it with `er.chance`."""
    name = str(expression)
    if name in ANSWERS:
        formula, function = ANSWERS[name]
        pairs = [(function(n, m), er.chance(name, [n], answers=m).mean()) for n, m in ((30, 3), QUERY)]
    elif name in CLOSED:
        formula, of_sizes = CLOSED[name]
        pairs = [(of_sizes(s), er.chance(name, s).mean()) for s in ([13, 40, 25], [200])]
    else:
        return ""
    for ours, theirs in pairs:
        if not isclose(ours, theirs, rel_tol=1e-9):
            raise ValueError(f"closed form of E[{name}] is {ours!r}, er.chance has {theirs!r}")
    return formula


def null_distribution(expression: Expression) -> str:
    """Write the section on the distribution under random ranking."""
    if isinstance(expression, Adjusted):
        return _adjusted(expression)
    name = str(expression)
    text = ""
    if formula := checked(expression):  # type: ignore[arg-type]
        text += f"The expected value under random ranking is\n\n$$\nE[M] = {formula}\n$$\n\n"
        text += (
            "with $N$ candidates and $m$ answers per query.\n\n"
            if name in ANSWERS
            else "with $N_i$ candidates for target $i = 1, \\ldots, n$"
            + (" and independent ranks.\n\n" if name in ("gmr", "igmr", "min", "max") else ".\n\n")
        )
    try:
        if isinstance(expression, QueryMetric):
            n, m = QUERY
            null = er.chance(name, [n] * 50, answers=m)
            text += "| queries | expected value | standard deviation |\n| --- | ---: | ---: |\n"
            text += f"| 50 queries with {m} answers among {n:,} candidates "
            text += f"| {number(null.mean())} | {number(null.std())} |\n\n"
            call = f"[{n}] * 50, answers={m}"
        else:
            text += _on_benchmarks(name)
            call = 'er.atlas("wn18rr")'
    except NullDistributionError as error:
        return f"{text}{str(error)[0].upper()}{str(error)[1:]}.\n"
    text += f'`er.chance("{name}", {call})` returns the distribution'
    return f"{text} ([chance levels](../chance.md)).\n"


def _on_benchmarks(name: str) -> str:
    """Tabulate the expected value and both standard deviations on a few data sets."""
    columns = ("test split, both sides", "expected value", "standard deviation", "of independent ranks")
    text = f"| {' | '.join(columns)} |\n| --- | ---: | ---: | ---: |\n"
    differ = False
    for data in DATA:
        scorer, alone = (er.chance(name, er.atlas(data), chance=kind) for kind in KINDS)
        deviations = number(scorer.std()), number(alone.std())
        differ |= deviations[0] != deviations[1]
        text += f"| {data} | {number(scorer.mean())} | {deviations[0]} | {deviations[1]} |\n"
    page = "a [random scorer](../random-scorer.md)"
    known = f"The first standard deviation is that of {page}."
    unknown = f"There is no formula for {page}: both standard deviations are those of independent ranks."
    return f"{text}\n{known if differ else unknown}\n"


def _adjusted(expression: Adjusted) -> str:
    """Show the same value of the metric, adjusted on several data sets."""
    base = expression.metric
    value = 0.4 if base.increasing else 5.0
    text = {
        "chance": "",
        "ratio": "Its expected value under random ranking is 1.\n\n",
        "index": "Its expected value under random ranking is 0.\n\n",
        "z": "Under random ranking its expected value is 0 and its standard deviation 1.\n\n",
        "phi": "Its value at the chance level is 0.5.\n\n",
    }[expression.adjustment]
    text += f"`{base}` = {value:g} on the test splits of four data sets "
    text += "(both sides, filtered; standard deviations of a [random scorer](../random-scorer.md)):\n\n"
    text += f"| data | E[{base}] | standard deviation | {expression} |\n| --- | ---: | ---: | ---: |\n"
    for data in DATA:
        null = er.chance(base, er.atlas(data))
        adjusted = expression.map(null)(value)
        text += f"| {data} | {number(null.mean())} | {number(null.std())} | {number(adjusted)} |\n"
    return text


def example(expression: Expression) -> str:
    """Compute the metric for a few ranks, as users do."""
    name = str(expression)
    if isinstance(expression, QueryMetric):
        rankings = er.Rankings.of(POSITIONS, candidates=SIZES)
        value = rankings.evaluate(name)[name]
        made = f"rankings = er.Rankings.of({POSITIONS}, candidates={SIZES})  # positions of the answers"
        call = f'rankings.evaluate("{name}")["{name}"]'
    else:
        value = er.Ranks.of(RANKS, candidates=CANDIDATES).evaluate(name)[name]
        made = f"ranks = er.Ranks.of({RANKS}, candidates={CANDIDATES})"
        call = f'ranks.evaluate("{name}")["{name}"]'
    return f"```python\n>>> import evenrank as er\n>>> {made}\n>>> {call}\n{value!r}\n```\n"


def definition(expression: Expression) -> str:
    """Say in words what a metric is."""
    if not isinstance(expression, Adjusted):
        return TEXTS.get(str(expression), {}).get("text", f"The metric `{expression}`.")
    page = f"[{title(expression.metric)}]({slug(expression.metric)}.md)"
    return f"{TEXTS['kinds'][expression.adjustment]['text']} The metric $M$ is {page}."


def title(expression: Expression) -> str:
    """Return the title of a page."""
    return str(TEXTS.get(str(expression), {}).get("title", expression))


def formula(expression: Expression) -> str:
    """Write the formula for reading, where there is one, and as the tables have it."""
    if isinstance(expression, Metric):
        shown = latex(expression)
    elif isinstance(expression, Adjusted):
        shown = ADJUSTED[expression.adjustment]
    else:
        return ""
    notes = {
        "z": "The sign is negative for metrics of which smaller values are better.",
        "phi": "The sign is negative for metrics of which smaller values are better; $\\Phi$ is the "
        "distribution function of the normal distribution.",
        "index": "$M^*$ is the value of a perfect ranking.",
    }
    note = notes.get(expression.adjustment, "") if isinstance(expression, Adjusted) else ""
    return f"$$\n{shown}\n$$\n\n{note}\n\n"


def facts(expression: Expression) -> str:
    """List what the tables of metrics hold."""
    low, high = expression.range
    best = expression.best
    per_query = " (per query; the mean over queries counts)" * isinstance(expression, QueryMetric)
    rows = {
        "formula in text": f"`{expression.formula}`{per_query}",
        "better values": {True: "larger", False: "smaller", None: "no direction"}[expression.increasing],
        "range": expression.span if isinstance(expression, Adjusted) else f"{low:g} to {high:g}",
        "best value": "depends on the candidates"
        if best is None
        else "none"
        if isnan(best)
        else f"{best:g}",
        "reference": expression.reference,
        "other names": ", ".join(f"`{name}`" for name in aliases(expression)) or "none",
    }
    cells = "".join(f"| {key} | {value.replace('|', chr(92) + '|')} |\n" for key, value in rows.items())
    return f"| | `{expression}` |\n| --- | --- |\n{cells}"


def page(expression: Expression) -> str:
    """Write the page of a metric."""
    related = "(../metrics.md), its place in the [glossary](../glossary.md)"
    return (
        f"# {title(expression)}\n\n{definition(expression)}\n\n"
        f"{formula(expression)}{facts(expression)}\n"
        f"## Null distribution\n\n{null_distribution(expression)}\n"
        f"## Example\n\n{example(expression)}\n"
        f"More: how metrics are [named, averaged and adjusted]{related}.\n"
    )


def write(out: Path) -> None:
    """Write all pages and their index.

    Parameters
    ----------
    out : Path
        The folder of the pages.
    """
    out.mkdir(parents=True)
    kinds: dict[str, list[Expression]] = {
        "Ranks of single targets": [],
        "Chance-adjusted metrics": [],
        "Several answers per query": [],
    }
    for expression in everything():
        (out / f"{slug(expression)}.md").write_text(page(expression), encoding="utf-8")
        kinds[list(kinds)[_kind(expression)]].append(expression)
    text = "# Metrics, one by one\n\nFormula, range, null distribution and an example of every metric.\n"
    for kind, expressions in kinds.items():
        rows = "".join(
            f"| [{title(e)}]({slug(e)}.md) | `{e}` | {definition(e).partition(' The metric $M$')[0]} |\n"
            for e in expressions
        )
        pages = "\n".join(map(slug, expressions))
        text += f"\n## {kind}\n\n| metric | name | |\n| --- | --- | --- |\n{rows}\n"
        text += f"```{{toctree}}\n:hidden:\n\n{pages}\n```\n"
    (out / "index.md").write_text(text, encoding="utf-8")


def _kind(expression: Expression) -> int:
    return 1 if isinstance(expression, Adjusted) else 2 * isinstance(expression, QueryMetric)

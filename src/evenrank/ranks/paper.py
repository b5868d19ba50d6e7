"""Tables for papers: evaluations in LaTeX, with models, data sets and metrics in rows and columns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf, isfinite, isinf, isnan
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypedDict, get_args

from evenrank._internal.arrays import Floats
from evenrank._internal.checks import check_choice, check_type
from evenrank._internal.latex import Grid, escape
from evenrank._internal.spelling import data_name, model_name
from evenrank.errors import InputError
from evenrank.metrics.adjusted import Adjusted, Expression
from evenrank.metrics.metric import Metric

if TYPE_CHECKING:
    from evenrank.ranks.evaluation import Evaluation

Layout: TypeAlias = Literal["models", "data", "long", "metrics"]
Percent: TypeAlias = Literal["hits", "all"]
Hits: TypeAlias = Literal["H@k", "Hits@k"]
MODEL, DATA = ("model", "ranks"), "data"  # names of labels
DEFAULT = ("mrr", "hits@1", "hits@3", "hits@10")  # metrics of most papers
ANSWERS = ("map", "mrr", "ndcg@10", "recall@10")  # of queries with several answers
DATA_SET = "Data set"  # the title of a column
WIDEST = 12  # columns of values in the default layout
SMALL = 1e-3  # chance levels below it are in scientific notation where decimals would show zero
DAGGER = r"\rlap{$^\dagger$}"
METRICS = {
    "ndcg": "nDCG",
    "median": "Median",
    "min": "Min",
    "max": "Max",
    "std": "SD",
    "count": "Targets",
}
STEMS = {  # of metrics of several answers, before a cutoff
    "map": "MAP",
    "map_min": "MAP(min)",
    "mrr": "MRR",
    "ndcg": "nDCG",
    "ndcg_exp": "nDCG(exp)",
    "ndcg_bin": "nDCG(bin)",
    "dcg": "DCG",
    "dcg_exp": "DCG(exp)",
    "dcg_bin": "DCG(bin)",
    "precision": "P",
    "recall": "Recall",
    "f1": "F1",
    "success": "Success",
    "r_precision": "R-Prec",
    "err": "ERR",
    "auc": "AUC",
}
USUAL = {  # of adjusted metrics; hits have a prefix
    "ratio(mr)": "AMR",
    "index(mr)": "AMRI",
    "index(mrr)": "AMRR",
    "index(gmr)": "AGMRI",
    "z(mr)": "ZMR",
    "z(mrr)": "ZMRR",
    "z(gmr)": "ZGMR",
}
PREFIXES = {"index": "A", "z": "Z"}
HITS = re.compile(r"hits@(\d+)")


class Style(TypedDict, total=False):
    """Options of a table for a paper; see `evenrank.latex`."""

    layout: Layout | None
    digits: int
    percent: Percent | None
    hits: Hits
    names: Mapping[str, str] | None
    caption: str | None
    label: str | None


@dataclass(frozen=True)
class Options:
    """The options, checked."""

    layout: Layout | None = None
    digits: int = 3
    percent: Percent | None = None
    hits: Hits = "H@k"
    names: Mapping[str, str] | None = None
    caption: str | None = None
    label: str | None = None

    def __post_init__(self) -> None:
        """Check the values."""
        for name, kind in (("layout", Layout), ("percent", Percent), ("hits", Hits)):
            value = getattr(self, name)
            if value is not None:
                check_choice(name, value, get_args(kind))
        digits: Any = self.digits
        if isinstance(digits, bool) or not isinstance(digits, int) or not 0 <= digits <= 9:
            raise InputError("digits must be a whole number from 0 to 9", got=repr(digits))
        check_type(self.names or {}, Mapping, "names must map names to those to print")
        if self.caption is not None and not _balanced(self.caption):
            raise InputError(
                "the braces or dollar signs of the caption do not match", got=repr(self.caption)[:60]
            )
        if self.label is not None and not re.fullmatch(r"[^\s\\{}%#~$^&,]+", self.label):
            got = repr(self.label)
            raise InputError("a label has letters, digits and signs such as : and - only", got=got)

    def own(self, name: str) -> str | None:
        """Return the name to print, if it is given."""
        return (self.names or {}).get(name)

    def titled(self, usual: str, notes: Iterable[str] = ()) -> str:
        """Return the caption: that given, in LaTeX, otherwise the usual one; then the notes."""
        given = usual if self.caption is None else self.caption
        text = " ".join(re.sub(r"(?<!\\)%", r"\\%", given).split())  # a percent sign is no comment
        end = "" if not text or text[-1] in ".!?:;}" else "."
        return " ".join([*([text + end] if text else []), *notes])


def _balanced(caption: str) -> bool:
    """Whether a caption is complete: LaTeX could not read on after it."""
    depth = 0
    for sign in re.sub(r"\\.", "", caption):
        depth += (sign == "{") - (sign == "}")
        if depth < 0:
            return False
    return depth == 0 and not caption.endswith("\\") and caption.count("$") % 2 == 0


class Axis(NamedTuple):
    """One of models, groups (data sets, sides, ...) and metrics: their title, keys and names."""

    title: str
    keys: Sequence[Any]
    names: Mapping[Any, str]

    @property
    def several(self) -> bool:
        """Whether there is more than one."""
        return len(self.keys) > 1

    @property
    def named(self) -> bool:
        """Whether any of them has a name."""
        return any(self.names.values())


def paper(
    made: Evaluation[Any],
    style: Style,
    marks: Collection[tuple[int, int]] = (),
    note: str = "",
    spreads: Floats | None = None,
) -> str:
    """Write a table for a paper.

    Parameters
    ----------
    made : Evaluation
        The values.
    style : Style
        The options.
    marks : collection of (int, int)
        The rows and columns of values that have a dagger.
    note : str
        What daggers or spreads mean, in LaTeX, for the caption.
    spreads : ndarray, optional
        A standard deviation for each value.

    Returns
    -------
    str
        A LaTeX table with its caption; comments above it say what it needs, those below are notes.
    """
    given = Options(**style)
    models, groups, rows = _axes(made, given)
    metrics = Axis("Metric", range(len(made.expressions)), _metric_names(made.expressions, given))
    layout = given.layout or _layout(models, groups, metrics)
    cells: dict[tuple[Any, Any, int], str] = {}
    styles = {1: r"\textbf{%s}", 2: r"\underline{%s}", 0: "%s"}
    used: set[int] = set()
    for group in groups.keys:
        there = [model for model in models.keys if (group, model) in rows]
        for column, expression in enumerate(made.expressions):
            values = [float(made.values_by_group[rows[group, model], column]) for model in there]
            texts = numbers(expression, values, given)
            places = _places(expression, texts)
            used |= {*places}
            for model, text, place in zip(there, texts, places, strict=True):
                at = rows[group, model], column
                scale = 100.0 if in_percent(expression, given.percent) else 1.0
                value = float(made.values_by_group[at]) * scale
                small = isinstance(expression, Adjusted) and expression.adjustment == "chance"
                small = small and 0.0 < value < SMALL * scale and _is_zero(text)
                shown = _scientific(value) if small else _maths(text)
                written = styles[place] % shown + DAGGER * (at in marks)
                if spreads is not None:
                    written += _spread(float(spreads[at]) * scale, text)
                cells[group, model, column] = written
    caption = _caption(models, groups, made, layout, given)
    best = "Best values are bold"
    notes = [f"{best}, second best are underlined." if 2 in used else f"{best}."] * (1 in used)
    notes += [note] * bool(note) + percent_note(made.expressions, given)
    grid = _grid(layout, models, groups, metrics, cells)
    return grid.float(given.titled(caption, notes), given.label, made.footer())


# Layout -------------------------------------------------------------------------------------------


def _layout(models: Axis, groups: Axis, metrics: Axis) -> Layout:
    """Choose the first layout that is narrow enough.

    Models are not the rows if there is only one, or more groups of a data set, such as relations.
    """
    m, g, e = (len(axis.keys) for axis in (models, groups, metrics))
    columns: dict[Layout, int] = {"models": g * e, "data": m * e, "long": e, "metrics": m * g}
    order: list[Layout] = ["models", "data", "long", "metrics"]
    parts = groups.title != DATA_SET
    if m == g == 1 and not (models.named or parts):
        return "metrics"
    if (m == 1 and (g > 1 or parts)) or (parts and g > m):
        order.remove("models")
    return next((layout for layout in order if columns[layout] <= WIDEST), "long")


# Names --------------------------------------------------------------------------------------------


def _axes(made: Evaluation[Any], given: Options) -> tuple[Axis, Axis, dict[tuple[Any, Any], int]]:
    """Return models, groups, and the row of each group and model."""
    at = [i for i, name in enumerate(made.label_names) if name in MODEL][-1:]
    others = [i for i in range(len(made.label_names)) if i not in at]
    rows: dict[tuple[Any, Any], int] = {}
    for row, label in enumerate(made.labels):
        group = tuple(label[i] for i in others) if others else (made.protocol.data or "",)
        rows[group, label[at[0]] if at else made.protocol.model or ""] = row
    models = list(dict.fromkeys(model for _, model in rows))
    groups = list(dict.fromkeys(group for group, _ in rows))
    kinds = [made.label_names[i] for i in others] or [DATA]
    title = " and ".join(DATA_SET.lower() if kind == DATA else kind for kind in kinds)
    parts = [
        called([group[i] for group in groups], given, data_name if kind == DATA else str)
        for i, kind in enumerate(kinds)
    ]
    joined = {
        group: ", ".join(part[one] for part, one in zip(parts, group, strict=True)) for group in groups
    }
    return (
        Axis("Model", models, called(models, given)),
        Axis(title[:1].upper() + title[1:], groups, joined),
        rows,
    )


def called(
    names: Iterable[str], given: Options, usual: Callable[[str], str] = model_name
) -> dict[str, str]:
    """Name models or data sets: as asked, otherwise as usual, unless two would have the same name."""
    own = {name: given.own(name) or usual(name) for name in names}
    count = Counter(own.values())
    return {name: escape(name if count[text] > 1 else text) for name, text in own.items()}


def _metric_names(expressions: Sequence[Expression], given: Options) -> dict[int, str]:
    """Name metrics, with arrows if they have different directions."""
    arrows = {True: r"\,$\uparrow$", False: r"\,$\downarrow$", None: ""}
    mixed = any(expression.increasing is False for expression in expressions)
    return {
        i: escape(given.own(str(e)) or metric_name(e, given.hits)) + arrows[e.increasing] * mixed
        for i, e in enumerate(expressions)
    }


def metric_name(expression: Expression, hits: Hits = "H@k") -> str:
    """Write the name of a metric as papers do.

    Parameters
    ----------
    expression : Metric, Statistic or Adjusted
        The metric.
    hits : {"H@k", "Hits@k"}, default "H@k"
        How hits are written.

    Returns
    -------
    str
        The name.

    Examples
    --------
    >>> from evenrank import parse
    >>> [metric_name(parse(m)) for m in ("mrr", "hits@10", "amri", "ah@10", "zmrr", "amr")]
    ['MRR', 'H@10', 'AMRI', 'AH@10', 'ZMRR', 'AMR']
    >>> metric_name(parse("hits@10"), "Hits@k"), metric_name(parse("index(ndcg)"))
    ('Hits@10', 'index(nDCG)')
    >>> [metric_name(parse(m)) for m in ("map", "ndcg@10", "index(recall@20)", "precision@5")]
    ['MAP', 'nDCG@10', 'index(Recall@20)', 'P@5']
    """
    if isinstance(expression, Adjusted):
        inner = metric_name(expression.metric, hits)
        prefix = PREFIXES.get(expression.adjustment) if HITS.fullmatch(str(expression.metric)) else None
        other = f"{prefix}{inner}" if prefix else f"{expression.adjustment}({inner})"
        return USUAL.get(str(expression), other)
    text = str(expression)
    if found := HITS.fullmatch(text):
        return f"{hits.removesuffix('k')}{found[1]}"
    stem, at, cutoff = text.partition("@")
    if stem in STEMS:
        return f"{STEMS[stem]}{at}{cutoff}"
    return METRICS.get(text) or (text.upper() if text.isalpha() else text)


# Numbers ------------------------------------------------------------------------------------------


def _bounded(expression: Expression) -> bool:
    return expression.range[1] <= 1.0


def in_percent(expression: Expression, percent: Percent | None) -> bool:
    """Whether a metric is printed in percent."""
    hits = isinstance(expression, Metric) and HITS.fullmatch(str(expression)) is not None
    return hits if percent == "hits" else percent == "all" and _bounded(expression)


def numbers(expression: Expression, values: Sequence[float], given: Options) -> list[str]:
    """Write the values of all models alike: `digits` decimals, or fewer for large numbers.

    >>> from evenrank import MR
    >>> numbers(MR, [3384.2, 12345.6], Options()), numbers(MR, [2.25], Options())
    (['3384', '12,346'], ['2.25'])
    """
    scale, decimals = 1.0, given.digits
    if in_percent(expression, given.percent):
        scale, decimals = 100.0, max(0, decimals - 2)
    elif str(expression) == "count":
        decimals = 0
    elif not _bounded(expression):
        most = max((abs(value) for value in values if isfinite(value)), default=0.0)
        decimals = max(0, decimals - (len(str(int(most))) if most >= 1 else 0))
    return [_number(value * scale, decimals) for value in values]


def _number(value: float, decimals: int) -> str:
    """Write a number; undefined ones are empty.

    >>> _number(-0.0001, 3), _number(float("nan"), 3), _number(-2.5, 1)
    ('0.000', '', '-2.5')
    """
    if isnan(value) or isinf(value):
        return "" if isnan(value) else str(value)
    text = f"{value:,.{decimals}f}" if abs(value) >= 1e4 else f"{value:.{decimals}f}"
    return text.removeprefix("-") if not text.strip("-0.") else text


def _is_zero(text: str) -> bool:
    return bool(text) and not text.strip("0.")


def _scientific(value: float) -> str:
    r"""Write a number that decimals would show as zero.

    >>> print(_scientific(0.000274))
    $2.7 \times 10^{-4}$
    """
    digits, exponent = f"{value:.1e}".split("e")
    return rf"${digits} \times 10^{{{int(exponent)}}}$"


def _spread(value: float, text: str) -> str:
    """Write a standard deviation with as many decimals as the mean."""
    return "" if isnan(value) else rf" $\pm$ {_number(value, len(text.partition('.')[2]))}"


def _maths(text: str) -> str:
    """Write a number as LaTeX; an undefined one is a dash."""
    if "inf" in text:
        return "$" + text.replace("inf", r"\infty") + "$"
    text = text.replace(",", "{,}")
    return f"${text}$" if text.startswith("-") else text or "--"


def _places(expression: Expression, texts: Sequence[str]) -> list[int]:
    """Return 1 for the best values, 2 for the second best of three or more, 0 for others, as printed.

    >>> from evenrank import parse
    >>> _places(parse("mrr"), ["0.35", "0.30", "0.35", "0.29", ""])
    [1, 2, 1, 0, 0]
    """
    sign = {True: 1.0, False: -1.0, None: 0.0}[expression.increasing]
    scores = [sign * float(text.replace(",", "")) if text else -inf for text in texts]
    defined = [score for score in scores if score > -inf]
    if not sign or len(defined) < 2:
        return [0] * len(texts)
    order = sorted(set(defined), reverse=True)[: 1 + (len(defined) > 2)]
    places = {score: place for place, score in enumerate(order, 1)}
    return [places.get(score, 0) for score in scores]


# Rows, columns and caption ------------------------------------------------------------------------


def _grid(
    layout: Layout, models: Axis, groups: Axis, metrics: Axis, cells: Mapping[tuple[Any, Any, int], str]
) -> Grid:
    """Lay out the cells."""
    left, top = {
        "models": ([models], [groups, metrics]),
        "data": ([groups], [models, metrics]),
        "long": ([groups, models], [metrics]),
        "metrics": ([metrics], [groups, models]),
    }[layout]
    if len(left) > 1 and not left[0].several:
        left = left[1:]
    elif len(left) > 1 and not left[1].named:
        left = left[:1]

    def found(row: Sequence[Any], column: Sequence[Any]) -> str | None:
        where = {id(axis): key for axis, key in zip((*left, *top), (*row, *column), strict=True)}
        group = where.get(id(groups), groups.keys[0])
        model = where.get(id(models), models.keys[0])
        return cells.get((group, model, where[id(metrics)]))

    rows, columns = list(product(*(axis.keys for axis in left))), list(product(*(a.keys for a in top)))
    rows = [row for row in rows if any(found(row, column) for column in columns)]
    columns = [column for column in columns if any(found(row, column) for row in rows)]
    body: list[list[str]] = []
    blocks: list[int] = []
    for i, row in enumerate(rows):
        titles = [axis.names[key] for axis, key in zip(left, row, strict=True)]
        if len(left) > 1 and i:
            again = row[0] == rows[i - 1][0]
            titles[0] = "" if again else titles[0]
            blocks += [] if again else [i]
        body.append([*titles, *(found(row, column) or "--" for column in columns)])
    corner = [axis.title for axis in left]
    lines = [i for i, axis in enumerate(top) if axis.several] or [len(top) - 1]
    header = [[*[""] * len(left), *(top[i].names[column[i]] for column in columns)] for i in lines]
    header[-1][: len(left)] = corner
    if not any(header[-1][len(left) :]):  # one model without a name
        header[-1][len(left) :] = ["Value"] * len(columns)
    return Grid(header, body, len(left), blocks)


def _caption(models: Axis, groups: Axis, made: Evaluation[Any], layout: Layout, given: Options) -> str:
    """Say what the table shows, unless the caption is given."""
    shown = layout in ("models", "long") or models.several
    alone = made.expressions[0] if len(made.expressions) == 1 else None
    words = ["Results" if alone is None else given.own(str(alone)) or metric_name(alone, given.hits)]
    words = [escape(word) for word in words]
    if not shown and models.keys[0]:
        words.append(f"of {models.names[models.keys[0]]}")
    kinds = [name for name in made.label_names if name not in (*MODEL, DATA)]
    if kinds or not made.label_names or DATA not in made.label_names:
        data = [escape(data_name(made.protocol.data))] if made.protocol.data else []
    else:
        data = [groups.names[key] for key in groups.keys]
    if data:
        *most, last = data
        listed = f"{', '.join(most)} and {last}" if most else last
        words.append(f"on {listed}" if len(data) <= 4 else f"on {len(data)} data sets")
    if kinds:
        words.append(f"by {escape(' and '.join(kinds))}")
    return f"{' '.join(words)}."


def percent_note(expressions: Sequence[Expression], given: Options) -> list[str]:
    """Say which metrics are in percent."""
    inside = [e for e in expressions if in_percent(e, given.percent)]
    if not inside:
        return []
    if len(inside) == len(expressions):
        return ["Values in percent."]
    *most, last = (escape(given.own(str(e)) or metric_name(e, given.hits)) for e in inside)
    return [f"{', '.join(most)} and {last} in percent." if most else f"{last} in percent."]

"""Tables for papers: names, numbers, marks, layouts, captions."""

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tex import cells, flat, number

import evenrank as er
from evenrank._internal.spelling import data_name
from evenrank.graphs import registry
from evenrank.metrics.grammar import parse
from evenrank.ranks.evaluation import Evaluation
from evenrank.ranks.paper import metric_name


def made(values, metrics=("mrr",), labels=None, names=("model",), **protocol):
    """An evaluation of made-up values."""
    values = np.array(values, dtype=float)
    labels = labels or [(chr(ord("a") + i),) for i in range(len(values))]
    expressions = tuple(map(parse, metrics))
    return Evaluation(expressions, values, tuple(labels), names, protocol=er.Protocol(**protocol))


def on_two_data_sets():
    values = [[0.35, 0.5], [0.33, 0.6], [0.48, 0.55], [0.47, 0.57]]
    labels = [
        ("fb15k237", "transe"),
        ("fb15k237", "complex"),
        ("wn18rr", "transe"),
        ("wn18rr", "complex"),
    ]
    return made(values, ("mrr", "hits@10"), labels, ("data", "model"))


@pytest.mark.parametrize(
    ("metric", "name"),
    [
        ("mrr", "MRR"),
        ("mr", "MR"),
        ("hits@1", "H@1"),
        ("index(mr)", "AMRI"),
        ("index(mrr)", "AMRR"),
        ("ratio(mr)", "AMR"),
        ("z(mr)", "ZMR"),
        ("z(mrr)", "ZMRR"),
        ("index(hits@3)", "AH@3"),
        ("z(hits@3)", "ZH@3"),
        ("median", "Median"),
        ("ndcg", "nDCG"),
        ("count", "Targets"),
        ("index(igmr)", "index(IGMR)"),
        ("chance(mrr)", "chance(MRR)"),
        ("1/median", "1/median"),
    ],
)
def test_metrics_have_the_names_of_papers(metric, name):
    assert metric_name(parse(metric)) == name


@pytest.mark.parametrize(
    "metric", ["mr", "mrr", "hits@5", "amri", "amrr", "amr", "zmrr", "zmr", "ah@5", "zh@5"]
)
def test_names_of_metrics_can_be_read_again(metric):
    """What a paper prints is what the grammar reads."""
    assert parse(metric_name(parse(metric))) == parse(metric)


SHORT = {
    "Clinical Knowledge Graph": "CKG",
    "ConceptNet 5": "ConceptNet",
    "Global Biotic Interactions": "GloBI",
}


def test_every_benchmark_has_the_name_of_papers():
    """It is the title without what describes the files; sizes are part of the name."""
    sizes = {
        "(S1)": "-S1",
        "(S2)": "-S2",
        "(S3)": "-S3",
        "(small)": "-S",
        "(medium)": "-M",
        "(large)": "-L",
    }
    for entry in registry.entries().values():
        title, _, rest = entry.title.partition(" (")
        plain = {title + sizes.get(f"({rest}", ""), entry.title.partition(",")[0]}
        named = data_name(entry.name)
        assert named == data_name(entry.name.upper())
        assert named in plain | {SHORT.get(entry.title)}


def test_models_are_rows_and_data_sets_are_groups_of_columns():
    lines = on_two_data_sets().to_latex().splitlines()
    assert lines[0] == r"% in the preamble: \usepackage{booktabs}"
    assert r"\caption{Results on FB15k-237 and WN18RR. Best values are bold.}" in lines
    assert r"   & \multicolumn{2}{c}{FB15k-237} & \multicolumn{2}{c}{WN18RR} \\" in lines
    assert r"  \cmidrule(lr){2-3} \cmidrule(lr){4-5}" in lines
    assert r"  Model & MRR & H@10 & MRR & H@10 \\" in lines
    assert cells("\n".join(lines)) == [
        ["TransE", r"\textbf{0.350}", "0.500", r"\textbf{0.480}", "0.550"],
        ["ComplEx", "0.330", r"\textbf{0.600}", "0.470", r"\textbf{0.570}"],
    ]


def test_every_layout_has_the_same_cells():
    result = on_two_data_sets()
    tables = {
        name: cells(result.to_latex(layout=name)) for name in ("models", "data", "long", "metrics")
    }
    assert tables["data"] == [
        ["FB15k-237", r"\textbf{0.350}", "0.500", "0.330", r"\textbf{0.600}"],
        ["WN18RR", r"\textbf{0.480}", "0.550", "0.470", r"\textbf{0.570}"],
    ]
    assert tables["long"][2:] == [
        ["WN18RR", "TransE", r"\textbf{0.480}", "0.550"],
        ["", "ComplEx", "0.470", r"\textbf{0.570}"],
    ]
    assert tables["metrics"][0] == ["MRR", r"\textbf{0.350}", "0.330", r"\textbf{0.480}", "0.470"]
    values = [sorted(cell for row in rows for cell in row if "0." in cell) for rows in tables.values()]
    assert values == [values[0]] * 4


def test_the_default_layout_fits_a_page():
    labels = [(data, model) for data in "defgh" for model in ("m", "n")]
    wide = made([[0.1] * 4] * 10, ("mrr", "hits@1", "hits@3", "hits@10"), labels, ("data", "model"))
    assert "Data set & MRR" in wide.to_latex()  # 20 columns by model, 8 by data set
    assert "Model & MRR" in wide.to_latex(layout="models")
    many = made([[0.1] * 4] * 20, wide, [(d, m) for d in "defgh" for m in "mnop"], ("data", "model"))
    assert "Data set & Model & MRR" in many.to_latex()
    alone = made([[0.1] * 4] * 5, wide, [(d, "m") for d in "defgh"], ("data", "model")).to_latex()
    assert "Data set & MRR" in alone
    assert "Results of m on 5 data sets." in alone


def test_a_single_model_has_its_groups_as_rows():
    ranks = er.Ranks.of(
        [1, 2, 3], candidates=9, keys={"relation": ["r", "s", "s"]}, protocol={"data": "umls"}
    )
    table = ranks.with_protocol(model="rotate").by("relation").evaluate("mrr").to_latex()
    assert "MRR of RotatE on UMLS by relation." in table
    assert cells(table) == [["r", "1.000"], ["s", "0.417"]]
    rows = cells(ranks.evaluate("mrr", "mr").to_latex())  # without a name of the model
    assert rows == [[r"MRR\,$\uparrow$", "0.611"], [r"MR\,$\downarrow$", "2.00"]]


def test_more_groups_than_models_are_rows():
    labels = [(model, group) for model in ("transe", "rotate") for group in ("r", "s", "t")]
    result = made([[0.1], [0.2], [0.3], [0.3], [0.2], [0.1]], labels=labels, names=("model", "relation"))
    assert cells(result.to_latex())[0] == ["r", "0.100", r"\textbf{0.300}"]
    assert "Relation & TransE & RotatE" in result.to_latex()
    assert "Model & r & s & t" in result.to_latex(layout="models")
    assert "MRR by relation. Best values" in result.to_latex()


def test_a_missing_model_is_a_dash():
    table = made(
        [[0.4], [0.5], [0.6]], labels=[("d", "a"), ("d", "b"), ("e", "a")], names=("data", "model")
    )
    assert cells(table.to_latex()) == [["a", "0.400", "0.600"], ["b", r"\textbf{0.500}", "--"]]


# Marks --------------------------------------------------------------------------------------------

floats = st.one_of(st.floats(0, 1), st.sampled_from([0.1234, 0.12341, 0.1235, float("nan")]))


@given(
    st.lists(floats, min_size=1, max_size=7),
    st.sampled_from(["mrr", "mr", "chance(mrr)"]),
    st.integers(0, 5),
)
def test_the_best_printed_value_is_bold_and_the_second_underlined(values, metric, digits):
    """Equal numbers on paper are marked alike, whatever lies beneath."""
    scale = 1 if metric != "mr" else 1000
    rows = cells(made([[scale * v] for v in values], (metric,)).to_latex(digits=digits, layout="models"))
    printed = [number(row[1]) for row in rows]
    known = sorted({x for x in printed if not math.isnan(x)}, reverse=metric == "mrr")
    defined = sum(not math.isnan(x) for x in printed)
    bold = known[:1] if defined > 1 and metric != "chance(mrr)" else []
    second = known[1:2] if defined > 2 and metric != "chance(mrr)" else []
    for (_, cell), x, value in zip(rows, printed, values, strict=True):
        assert cell.startswith(r"\textbf") == (x in bold)
        assert cell.startswith(r"\underline") == (x in second)
        assert math.isnan(x) == math.isnan(value)
        if not math.isnan(value):
            last = 10.0 ** -len(re.sub(r"[^\d.]", "", cell).partition(".")[2])
            assert abs(x - scale * value) <= last / 2 + 1e-9


def test_values_that_are_equal_on_paper_are_marked_alike():
    rows = cells(made([[0.35041], [0.35049], [0.3499], [0.1]]).to_latex())
    assert [row[1] for row in rows] == [r"\textbf{0.350}"] * 3 + [r"\underline{0.100}"]
    rows = cells(made([[0.35041], [0.35049], [0.3499], [0.1]]).to_latex(digits=4))
    assert [row[1] for row in rows] == [r"\underline{0.3504}", r"\textbf{0.3505}", "0.3499", "0.1000"]


def test_small_ranks_are_best():
    rows = cells(made([[244.3], [178.0], [1200.0]], ("mr",)).to_latex())
    assert [row[1] for row in rows] == [r"\underline{244}", r"\textbf{178}", "1200"]


def test_arrows_show_directions_only_where_they_differ():
    assert "MRR & H@1" in made([[0.1, 0.2]], ("mrr", "hits@1")).to_latex()
    both = made([[0.1, 2, 0.3]], ("mrr", "mr", "chance(mrr)")).to_latex()
    assert r"MRR\,$\uparrow$ & MR\,$\downarrow$ & chance(MRR) \\" in both


# Numbers ------------------------------------------------------------------------------------------


def test_numbers_have_as_many_digits_as_papers_print():
    values = [[0.5, 3384.4, 2.345, 61234.5, -0.0004, 101.26]]
    metrics = ("mrr", "mr", "median", "count", "index(mr)", "z(mrr)")
    (row,) = cells(made(values, metrics).to_latex())
    assert row[1:] == ["0.500", "3384", "2.35", "61{,}234", "0.000", "101"]  # 61,234.5 rounds to even
    (row,) = cells(made(values, metrics).to_latex(digits=5))
    assert row[1:] == ["0.50000", "3384.4", "2.3450", "61{,}234", "$-0.00040$", "101.26"]


def test_percent_as_papers_print_it():
    result = made([[0.3567, 0.5432, -0.01]], ("mrr", "hits@10", "index(mr)"), labels=[("m",)])
    assert cells(result.to_latex(percent="hits"))[0][1:] == ["0.357", "54.3", "$-0.010$"]
    assert "H@10 in percent." in result.to_latex(percent="hits")
    assert cells(result.to_latex(percent="all", digits=4))[0][1:] == ["35.67", "54.32", "$-1.00$"]
    assert "Values in percent." in result.to_latex(percent="all")
    mixed = made([[0.35, 12.0, 0.5]], ("mrr", "mr", "hits@1")).to_latex(percent="all", hits="Hits@k")
    assert "MRR and Hits@1 in percent." in mixed


def test_standard_deviations_have_the_decimals_of_their_means():
    runs = [
        er.Ranks.of(r, candidates=50, protocol={"model": "a"}) for r in ([1, 2, 9], [1, 3, 4], [2, 2, 5])
    ]
    result = er.summarize_runs({"transe": runs, "rotate": runs[:2]}, "mrr", "mr")
    (first, second) = cells(result.to_latex())
    spread = {(s.model, str(s.metric)): s for s in result.spreads}
    one = spread["transe", "mrr"]
    assert first[1] == rf"{one.mean:.3f} $\pm$ {one.sd:.3f}"
    one = spread["rotate", "mr"]
    assert second[2] == rf"{one.mean:.2f} $\pm$ {one.sd:.2f}"
    assert r"Mean $\pm$ standard deviation of 2 to 3 runs." in flat(result.to_latex())
    single = er.summarize_runs(runs[:1], "mrr").to_latex(percent="all")
    assert "pm" not in single
    assert cells(single) == [["a", "53.7"]]


# Names and captions -------------------------------------------------------------------------------


def test_names_are_those_asked_for():
    table = on_two_data_sets().to_latex(
        names={"complex": "ComplEx (ours)", "wn18rr": "WordNet", "mrr": "m_r"},
        caption="A 5% gain",
        label="tab:a",
    )
    assert [row[0] for row in cells(table)] == ["TransE", "ComplEx (ours)"]
    assert r"{WordNet}" in table
    assert r"Model & m\_r & H@10" in table
    assert r"\caption{A 5\% gain. Best values are bold.}\label{tab:a}" in table


def test_two_names_never_become_one():
    labels = [("wn18rr-v1", "TransE"), ("wn18rr-v1-ind", "transe"), ("wn18rr-v1", "transe")]
    table = made([[0.1], [0.2], [0.3]], labels=labels, names=("data", "model")).to_latex()
    assert [row[0] for row in cells(table)] == ["TransE", "transe"]
    assert "Model & wn18rr-v1 & wn18rr-v1-ind" in table


@pytest.mark.parametrize(
    ("style", "message"),
    [
        ({"layout": "wide"}, "unknown layout; got 'wide'; allowed: models, data, long, metrics"),
        ({"digits": -1}, "digits must be a whole number from 0 to 9; got -1"),
        ({"digits": True}, "digits must be a whole number from 0 to 9; got True"),
        ({"percent": "mrr"}, "unknown percent; got 'mrr'; allowed: hits, all"),
        ({"hits": "hits"}, "unknown hits; got 'hits'; allowed: H@k, Hits@k"),
        ({"names": ["a"]}, "names must map names to those to print; got list"),
        ({"caption": "a } b"}, "the braces or dollar signs of the caption do not match; got 'a } b'"),
        ({"caption": "5$"}, "the braces or dollar signs of the caption do not match; got '5$'"),
        ({"label": "a b"}, "a label has letters, digits and signs such as : and - only; got 'a b'"),
    ],
)
def test_invalid_options_are_errors(style, message):
    with pytest.raises(er.errors.InputError) as error:
        made([[0.1]]).to_latex(**style)
    assert str(error.value) == message


def test_one_result_without_a_name_has_its_metrics_as_rows():
    made = er.adjust({"mrr": 0.476, "hits@10": 0.571}, data="wn18rr")
    text = made.to_latex()
    lines = [line.strip() for line in text.splitlines()]
    assert r"Metric & Value \\" in lines
    assert r"MRR & 0.476 \\" in lines
    assert "Model" not in text
    named = er.adjust({"mrr": 0.476}, data="wn18rr").to_latex(layout="models")
    assert "Model & MRR" in named


def test_small_chance_levels_are_not_printed_as_zero():
    made = er.adjust({"mrr": 0.476}, data="wn18rr")
    level = er.chance("mrr", er.atlas("wn18rr")).mean()
    for options, scale in (({}, 1.0), ({"percent": "all", "digits": 2}, 100.0)):
        text = made.to_latex(**options)
        digits, power = re.search(r"chance\(MRR\) & \$(.*) \\times 10\^\{(.*)\}\$ ", text).groups()
        assert float(f"{digits}e{power}") == pytest.approx(float(level) * scale, rel=0.05)
    assert r"\times" not in er.adjust({"mrr": 0.5}, data="nations").to_latex()

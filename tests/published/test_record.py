"""The record of published results: its content, names, selection, adjustment, and your own rows."""

import json
import runpy
from collections import Counter
from math import isfinite, isnan
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from shared import needs, path
from shell import run

import evenrank as er
from evenrank.graphs import atlas
from evenrank.published import Record, add, audit, model_name, own_file, read_record, results
from evenrank.published import _rows as stored
from evenrank.published._models import key, spellings

ROW = {"data": "nations", "model": "A", "metric": "mrr", "printed": "0.81", "source": "B et al. 2020"}


@pytest.fixture(autouse=True)
def own(tmp_path, monkeypatch):
    """An own record that is empty, whatever the user's data folder holds."""
    monkeypatch.setenv("EVENRANK_RECORD", str(tmp_path / "own"))
    return tmp_path / "own"


def raises(match):
    return pytest.raises(er.errors.EvenrankError, match=match)


def test_findings_stand_below_the_values_that_they_concern():
    every = results(candidates="any")
    noted = [note.split(": ", 2) for note in er.published.with_findings(every).notes]
    found = audit()
    kinds = {"note" if one.kind == "sources" else "warning" for one in found}
    assert {(kind, about, text) for kind, about, text in noted} == {
        ("note" if one.kind == "sources" else "warning", f"{one.model} on {one.data}", str(one))
        for one in found
    }
    assert kinds == {"note", "warning"}
    # one metric of an evaluation brings the findings about it, and the first rows only theirs
    rank_8 = {"data": "wn18rr", "model": "ComplEx-N3 (rank 8)"}
    notes = er.published.with_findings(results(metric="mrr", **rank_8)).notes
    assert [note.split(" contradict")[0] for note in notes] == [
        "warning: ComplEx-N3 (rank 8) on wn18rr: hits@1=0.38 and mrr=0.36"
    ]
    assert er.published.with_findings(results(metric="hits@3", **rank_8)).notes == ()
    assert er.published.with_findings(every, 1).notes == ()


def test_your_own_values_are_audited_where_they_are_shown():
    pair = [ROW, {**ROW, "metric": "hits@1", "printed": "0.85"}]
    add(pair)
    text = run("published", "--data", "nations", "--model", "A")
    assert "warning: A on nations: hits@1=0.85 and mrr=0.81 contradict each other" in text
    content = json.loads(run("published", "--model", "A", "--limit", "1", "--format", "json"))
    assert any(note.startswith("warning: A on nations") for note in content["notes"])


# Content ------------------------------------------------------------------------------------------


@needs("published/results.csv")
def test_the_record_is_rebuilt_from_its_source(tmp_path):
    built = tmp_path / "record.parquet"
    rows = stored.build(path("published/results.csv"), built)
    package = stored.files("evenrank.published") / stored.FILE
    assert pl.read_parquet(built).equals(pl.read_parquet(package.read_bytes()))
    assert rows == len(results(candidates="any")) == 6359
    assert len(package.read_bytes()) < 300_000


@needs("published/results.csv")
def test_values_units_and_sources_are_those_of_the_source():
    told = pl.read_csv(path("published/results.csv"), infer_schema=False)
    every = results(candidates="any")
    for one, row in zip(every, told.iter_rows(named=True), strict=True):
        assert one.value == float(row["value"])
        assert one.printed == row["as_printed"]
        assert (one.source, one.where, str(one.year)) == (row["source"], row["where_found"], row["year"])
        assert one.called == row["model"]
    quoted = {"quoted", "quoted from papers", "quoted from the paper, protocol not stated"}
    assert sum(one.origin == "quoted" for one in every) == told["own_or_quoted"].is_in(quoted).sum()


def test_every_row_has_its_provenance_and_a_protocol_of_known_words():
    for one in results(candidates="any"):
        assert all((one.source, one.where, one.year, one.printed, one.called))
        assert one.filter in stored.FILTERS
        assert one.origin in stored.ORIGINS
        assert one.unseen in stored.UNSEEN
        assert stored.CANDIDATES.fullmatch(one.candidates)
        assert stored.data_name(one.data) == one.data


def test_sampled_candidates_and_lists_are_kept_apart_from_full_rankings():
    full, sampled, top = (results(candidates=kind) for kind in ("all", "sampled", "top"))
    assert len(full) + len(sampled) + len(top) == len(results(candidates="any"))
    assert {one.candidates for one in full} == {"all"}
    assert {one.candidates for one in sampled} == {"sampled", "50 sampled", "500 sampled"}
    assert {one.candidates for one in top} == {"top 10", "top 100"}
    assert {one.data for one in sampled} >= {
        "ogbl-wikikg2",
        "ogbl-biokg",
        "fb237-v1-ind",
        "freebase-86m",
    }


def test_an_evaluation_has_each_metric_once():
    runs = Counter((one.run, one.metric) for one in results(candidates="any"))
    assert max(runs.values()) == 1


# Names --------------------------------------------------------------------------------------------


def test_every_model_of_the_record_is_in_the_table_of_names():
    known = {model_name(name).model for name in spellings().values()}
    assert {one.model for one in results(candidates="any")} <= known


def test_the_table_of_names_has_no_spelling_twice_and_is_stable():
    import tomllib

    table = tomllib.loads(
        (stored.files("evenrank.published") / "models.toml").read_text(encoding="utf-8")
    )
    every = [key(name) for known, others in table.items() for name in (known, *others)]
    assert [name for name, many in Counter(every).items() if many > 1] == []
    for name in spellings().values():
        assert str(model_name(str(model_name(name)))) == str(model_name(name))


@pytest.mark.parametrize(
    ("called", "name"),
    [
        ("ComplEx (N3)", "ComplEx-N3"),
        ("complex n3", "ComplEx-N3"),
        ("ComplEx-N3 (rank 8)", "ComplEx-N3 (rank 8)"),
        ("ComplEx (N3) (rank 8)", "ComplEx-N3 (rank 8)"),
        ("My Model (small) (seed 1)", "My Model (small; seed 1)"),
        ("()", "()"),
        ("Distmult", "DistMult"),
        ("KBAT", "KBGAT"),
        ("RGCN", "R-GCN"),
        ("TransE_l2", "TransE (L2)"),
        ("TransE_l1 (Hinge, pairwise True)", "TransE (L1; Hinge, pairwise True)"),
        ("Ensemble of ConEx", "ConEx (ensemble)"),
        ("Keci-AllvsAll-ASWA", "Keci (AllvsAll-ASWA)"),
        ("InterHT+ (256dim)", "InterHT+ (256dim)"),
        ("HypE", "HypE"),
        ("HypER", "HypER"),
        ("ComplEx^2", "ComplEx^2"),
        ("My Model v2", "My Model v2"),
    ],
)
def test_models_have_one_name(called, name):
    assert str(model_name(called)) == name


# Selecting ----------------------------------------------------------------------------------------


def test_results_are_selected_by_what_they_are():
    found = results(data="FB15k-237", model="RotatE", metric="MRR", year=2019, own=True, filter="all")
    assert {one.data for one in found} == {"fb15k237"}
    assert {(one.model, one.metric, one.year, one.filter) for one in found} == {
        ("RotatE", "mrr", 2019, "all")
    }
    assert ".337" in {one.printed for one in found if one.source == "Sun et al. 2019 (RotatE)"}
    assert len(results(own=True)) + len(results(own=False)) == len(results())
    assert len(results(year=(2013, 2016))) == sum(len(results(year=y)) for y in range(2013, 2017)) > 0
    assert {one.filter for one in results(filter=None)} == {"none"}
    assert {one.sides for one in results(sides="tail")} == {"tail"}
    assert {one.split for one in results(split="valid")} == {"valid"}
    assert {one.data for one in results(data=["wn18", "WN18RR"])} == {"wn18", "wn18rr"}


def test_a_model_selects_its_variants_and_a_variant_itself():
    every = results(model="ComplEx-N3", data="wn18rr")
    assert {"rank 8", "rank 100"} <= {one.variant for one in every}
    assert {one.variant for one in results(model="complex-n3 (rank 8)")} == {"rank 8"}
    assert "ComplEx" not in {one.model for one in every}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"data": "wn18r"}, "the record has no such data set; got wn18r; did you mean wn18rr or wn18"),
        ({"data": ["foo", "bar", "foo"]}, "the record has no such data set; got foo, bar"),
        ({"model": "TransX"}, "the record has no such model; got TransX; did you mean Tran"),
        ({"metric": "hits@7"}, "the record has no such metric; got hits@7; did you mean hits@"),
        ({"metric": "quality"}, "unknown metric"),
        ({"filter": "some"}, "filter.*got 'some'; allowed: any, all, none"),
        ({"candidates": "most"}, "candidates.*got 'most'; allowed: all, sampled, top, any"),
        ({"split": "dev"}, "split.*got 'dev'; allowed:"),
        ({"data": 5}, "data set must be a name, or several; got int"),
        ({"year": "2019"}, "year must be a number, or the first and the last; got '2019'"),
        ({"year": (2020, 2018)}, "the first year is after the last; got 2020 and 2018"),
        ({"own": "yes"}, "own must be True, False or None; got 'yes'"),
        ({"source": 5}, "source must be a part of a name; got 5"),
    ],
)
def test_what_the_record_lacks_is_named(options, message):
    with raises(message):
        results(**options)


# Adjusting ----------------------------------------------------------------------------------------


def test_all_full_rankings_of_both_sides_on_data_sets_of_the_atlas_are_adjusted():
    wanted = [
        one
        for one in results(sides="both")
        if one.filter in ("all", "none")
        and one.data in atlas.names()
        and one.split in atlas.splits(one.data)
    ]
    made = Record(tuple(wanted)).adjust()
    assert len(wanted) > 4000
    assert all(isfinite(one.index) and isfinite(one.z) for one in made.adjusted)
    assert not any(note.startswith("not adjusted") for note in made.notes)


def test_adjusted_values_are_those_of_adjust():
    made = results(data="nations").adjust()
    values = {one.metric: one.printed for one in made}
    want = er.adjust(values, data="nations")
    for row in made.rows():
        assert row["index"] == pytest.approx(want[f"index({row['metric']})"], rel=1e-12)
        assert row["z"] == pytest.approx(want[f"z({row['metric']})"], rel=1e-12)


def test_hits_among_fifty_negatives_are_adjusted_by_ten_of_fifty_one():
    made = results(candidates="sampled", metric="hits@10", data="fb237-v1-ind").adjust()
    for row in made.rows():
        assert row["candidates"] == "50 sampled"
        assert row["chance"] == pytest.approx(10 / 51, rel=1e-12)
        assert row["index"] == pytest.approx((row["value"] - 10 / 51) / (1 - 10 / 51), rel=1e-9)


def test_what_cannot_be_adjusted_says_why_and_names_each_data_set_once():
    made = results(candidates="any").adjust()
    left = [note for note in made.notes if note.startswith("not adjusted")]
    many = [int(note.split()[2].replace(",", "")) for note in left]
    assert sum(many) == sum(isnan(one.index) for one in made.adjusted)
    (outside,) = (note for note in left if "not in the atlas" in note)
    assert outside.count("freebase-86m") == 1
    (approximate,) = (note for note in made.notes if note.startswith("approximate"))
    assert approximate.count("yago310") == 1
    marked = {row["data"] for row in made.rows() if row["approximate"]}
    assert marked == set(approximate.partition(": ")[2].split(", "))
    assert any("filter not stated" in note for note in left)
    assert any("whose number is not stated" in note for note in left)


def test_results_are_sorted_with_what_is_unknown_last():
    index = [
        row["index"]
        for row in results(data=["nations", "freebase-86m"], metric="mrr").sort("index").rows()
    ]
    known = [x for x in index if isfinite(x)]
    assert known == sorted(known, reverse=True)
    assert index[: len(known)] == known
    years = [one.year for one in results(data="wn18").sort("year", descending=False)]
    assert years == sorted(years)
    with raises("by.*got 'rank'"):
        results(data="nations").sort("rank")


def test_a_record_prints_at_80_columns_and_exports_all():
    made = results(data="wn18rr").adjust()
    text = made.text(80)
    assert max(map(len, text.splitlines())) <= 80
    assert f"30 of {len(made):,} values; files, CSV and JSON have all" in text
    assert made.to_polars().height == len(made)
    assert json.loads(made.to_json())["rows"][0]["where"]
    assert made.with_shown(None).text().count("\n") > len(made)


# Your own rows ------------------------------------------------------------------------------------


def test_own_rows_are_added_beside_those_of_the_package(own):
    before = len(results())
    assert (
        add([ROW, ROW | {"metric": "hits@1", "printed": "70.1 %"}]) == own_file() == own / "record.csv"
    )
    assert len(results()) == before + 2
    one, two = results(source="B et al. 2020")
    assert (one.value, two.value, two.percent, one.run == two.run) == (0.81, 0.701, True, True)
    assert one.run not in {row.run for row in stored.bundled()}
    add([ROW | {"model": "C"}])
    assert {one.model for one in results(source="B et al. 2020")} == {"A", "C"}
    with raises("your record has this row already; got mrr=0.81 of A on nations, B et al. 2020"):
        add([ROW])
    assert len(results(source="B et al. 2020")) == 3


def test_a_file_in_the_columns_of_the_record_can_be_read_back(tmp_path):
    made = results(data="nations")
    file = tmp_path / "rows.csv"
    pl.DataFrame(made.rows()).drop("value", "run").write_csv(file)
    again = read_record(file)
    assert [(o.data, o.name, o.metric, o.value, o.source) for o in again] == [
        (o.data, o.name, o.metric, o.value, o.source) for o in made
    ]


@pytest.mark.parametrize("options", [("--format", "csv"), ("--limit", "1", "--format", "spreadsheet")])
def test_what_the_shell_exports_can_be_checked_and_audited(tmp_path, options):
    file = tmp_path / "rows.csv"
    file.write_text(run("published", "--data", "nations", "--sort", "index", *options))
    assert "5 rows, all complete" in run("record", "check", str(file))
    assert audit(file).values == 5


@pytest.mark.parametrize(
    ("where", "link"),
    [
        (
            "facebookresearch/kbc@248e931364: README.md",
            "https://github.com/facebookresearch/kbc/blob/248e931364/README.md",
        ),
        (
            "uma-pi1/kge-iclr20@31a117e0b3: data_dumps/best-trials.csv line 10",
            "https://github.com/uma-pi1/kge-iclr20/blob/31a117e0b3/data_dumps/best-trials.csv?plain=1#L10",
        ),
        (
            "awslabs/dgl-ke@e00bccfc46: examples/READ ME.md, 8-GPU, loss comparison",
            "https://github.com/awslabs/dgl-ke/blob/e00bccfc46/examples/READ%20ME.md",
        ),
        (
            "PyPI pykeen 1.11.1: pykeen/experiments/boxe/abboud2020_boxe_wn18rr.yaml",
            "https://github.com/pykeen/pykeen/blob/v1.11.1/src/pykeen/experiments/boxe/"
            "abboud2020_boxe_wn18rr.yaml",
        ),
        ("https://example.org/paper.pdf", "https://example.org/paper.pdf"),
        ("javascript:alert(1)", ""),
        ("table 3", ""),
        ("", ""),
    ],
)
def test_a_value_links_to_the_text_in_which_it_is_printed(where, link):
    (one,) = read_record([ROW | {"where": where}])
    assert one.link == link


def test_every_value_of_the_record_has_a_link():
    every = results(candidates="any")
    assert all(one.link.startswith("https://github.com/") and " " not in one.link for one in every)
    assert results(data="nations").rows()[0]["link"].endswith("/README.md")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"source": ""}, "row 0: no source; fill in the cell"),
        ({"printed": ""}, "row 0: no value"),
        ({"printed": "good"}, "row 0: a value must be a number; got 'good'"),
        (
            {"sides": "left"},
            "row 0: unknown value in column sides; got 'left'; allowed: head, tail, both",
        ),
        ({"candidates": "some"}, "row 0: unknown candidates; got 'some'"),
        ({"year": "19"}, "row 0: a year must have four digits; got '19'"),
        (
            {"origin": "mine"},
            "row 0: unknown value in column origin; got 'mine'; allowed: own,",
        ),
        ({"metric": "quality"}, "rows: unknown metric; got 'quality'"),
        ({"printed": "57.1", "value": "0.6"}, "row 0: printed and value differ; got 57.1 and 0.6"),
        ({"percent": "yes"}, "row 0: unknown value in column percent; got 'yes'; allowed: true, false"),
        ({"colour": "red"}, "unknown column; got 'colour'; allowed: data, model"),
    ],
)
def test_rows_that_are_incomplete_raise_an_error_that_names_the_line(change, message):
    with raises(message):
        add([ROW | change])
    assert not own_file().exists()


def test_unknown_metrics_of_rows_are_listed_once_each():
    with raises("rows: unknown metrics; got quality, score; see"):
        read_record([ROW | {"metric": name} for name in ("quality", "mrr", "score", "quality")])


# In the shell -------------------------------------------------------------------------------------


def test_the_shell_selects_sorts_and_exports():
    text = run("published", "--data", "wn18rr", "-m", "mrr", "--sort", "index", "--limit", "3")
    assert text.splitlines()[2].split()[0] == "wn18rr"
    assert "3 of " in text
    rows = json.loads(run("published", "--data", "nations", "--format", "json"))["rows"]
    assert len(rows) == 5
    assert "index" in rows[0]


def test_the_shell_checks_and_adds_rows(tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text(",".join(ROW) + "\n" + ",".join(ROW.values()) + "\n")
    assert "1 row, all complete" in run("record", "check", str(file))
    assert "1 rows" in run("record", "add", str(file))
    assert "B et al. 2020" in run("published", "--source", "B et al", "--format", "csv")


# Beside PyKEEN ------------------------------------------------------------------------------------


RUNS = {"kinships": 579, "wn18rr": 276, "fb15k237": 274, "yago310": 91}  # of the 1,220 of the file


@needs("published/pykeen_ablation.csv.gz")
@pytest.mark.parametrize("data", RUNS)
@pytest.mark.parametrize("side", ["both", "tail", "head"])
def test_the_runs_of_pykeen_ranked_as_many_tasks_as_the_atlas_counts(data, side):
    """Hits of n tasks are whole numbers over n, and sums of realistic ranks are halves, in all digits.

    Where entities not seen in training were kept, there are other numbers of tasks, which do not fit.
    """
    frame = pl.read_csv(
        path("published/pykeen_ablation.csv.gz"), schema_overrides={"value": pl.Float64}
    ).filter(pl.col("data") == data, pl.col("side") == side)
    hits = frame.filter(pl.col("metric").str.starts_with("hits"))["value"].to_numpy()
    ranks = frame.filter(pl.col("metric") == "mr")["value"].to_numpy()
    assert len(hits) == 4 * len(ranks)
    assert len(ranks) == RUNS[data]

    def off(unseen):
        tasks = er.atlas(data, "test", side, unseen=unseen).total
        return [abs(x - np.rint(x)).max() for x in (hits * tasks, 2 * ranks * tasks)]

    assert max(off("drop")) < 1e-6
    if data != "kinships":  # which has no such entities
        assert min(off("keep")) > 0.4


# Pages --------------------------------------------------------------------------------------------

ROOT = Path(__file__).parents[2]


def test_the_page_of_the_record_shows_the_largest_changes_of_order():
    page = (ROOT / "docs" / "record.md").read_text(encoding="utf-8")
    script = runpy.run_path(str(ROOT / "examples" / "record.py"))
    lines = script["order_lines"]()
    assert len(lines) == 12
    assert "\n".join(lines) in page
    data = {one.data for metric in script["METRICS"] for *_, one, _ in script["moves"](metric)}
    assert f"{', '.join(sorted(data))}.\n" in page
    assert not any(map(atlas.bounds, data))


def test_the_page_of_the_audit_shows_its_findings_as_printed():
    page = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
    lines = [line for line in page.splitlines() if line.startswith("| ")]
    found = er.published.audit()
    assert f"{found.values:,} values of {found.runs:,} evaluations were checked" in page
    for one in found:
        digits = [value.printed.partition("=")[2] for value in one.given]
        model = one.model.partition(" (")[0]
        assert any(model in line and all(text in line for text in digits) for line in lines), str(one)
    assert sum(one.kind == "contradiction" for one in found) == 4
    assert sum(one.kind == "sources" for one in found) == 10

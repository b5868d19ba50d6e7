"""Data sets that were not counted: bounds that contain the truth, labels, and what makes them exact."""

import json
import re

import pytest
from shell import run

import evenrank as er
from evenrank.graphs import approximate, atlas, registry
from evenrank.published import adjust_table, approximate_notes

METRICS = ("mrr", "hits@1", "hits@10", "hits@100", "mr", "1/gmr")
COUNTED = [
    name
    for name in atlas.names()
    if not name.endswith(atlas.AGNOSTIC)
    and registry.find(name).candidates is None
    and atlas.facts(name).entities >= 1000
]


@pytest.mark.parametrize("name", COUNTED)
def test_bounds_contain_the_chance_levels_of_every_data_set_that_was_counted(name):
    """As if it had not been: from its sizes alone."""
    limits = approximate.bounds(registry.find(name))
    for split in atlas.splits(name):
        for side in ("head", "tail"):
            sizes = er.atlas(name, split, side)
            assert limits.least <= sizes["candidates"].min()
            assert sizes["candidates"].max() <= limits.most
            if split == "test":
                for metric in METRICS:
                    low, high = sorted(float(null.mean()) for null in limits.nulls(metric, sizes.total))
                    exact = er.chance(metric, sizes).mean()
                    assert low * (1 - 1e-12) <= exact <= high * (1 + 1e-12), metric


@pytest.mark.parametrize("name", COUNTED)
def test_limits_below_values_contain_their_index_and_z(name, monkeypatch):
    """As if it had not been counted; z-scores of independent ranks."""
    limits = approximate.bounds(registry.find(name))
    monkeypatch.setattr(atlas, "bounds", lambda *_, **__: limits)
    exact = er.adjust({"mrr": 0.2, "hits@10": 0.3, "mr": 180}, data=name, chance="independent")
    values = {er.parse(metric): exact[metric] for metric in ("mrr", "hits@10", "mr")}
    lines = approximate_notes(name, values, er.atlas(name).total)[1:]
    for (metric, _), line in zip(values.items(), lines, strict=True):
        said = re.findall(r"(chance|index|z) (\S+) to ([^\s,]+(?:,\d{3})*)", line)
        assert [form for form, _, _ in said] == ["chance", "index", "z"], line
        for form, low, high in said:
            low, high = (float(text.replace(",", "")) for text in (low, high))
            slack = 5e-5 + 5e-4 * max(abs(low), abs(high))  # of the digits that are shown
            assert low - slack <= exact[f"{form}({metric})"] <= high + slack, line


def test_raw_and_sampled_ranking_need_no_approximation():
    """All entities are candidates, or as many negatives as the protocol says."""
    raw = er.adjust({"mrr": 0.54}, data="YAGO3-10", filter=None)
    assert raw.protocol.data == "yago310"
    assert not [note for note in raw.notes if "approximate" in note]
    assert run("atlas", "show", "yago310", "--filter", "none").splitlines()[-3].startswith("yago310: ")
    assert atlas.label("yago310", protocol="grail") == "yago310"
    assert "approximate" not in run("adjust", "hits@10=0.8", "--data", "yago310", "--protocol", "grail")
    assert "from" not in run("chance", "mrr", "--data", "yago310", "--filter", "none")
    assert atlas.label("yago310", protocol="libkge") == "yago310 (approximate)"


def test_sizes_with_and_without_unseen_entities():
    """PyKEEN publishes those without; others are taken, and said, where one of them is not known."""
    assert atlas.facts("yago310", unseen="drop")[1:] == (
        123_143,
        37,
        {"train": 1_079_040, "valid": 4_978, "test": 4_982},
    )
    assert atlas.bounds("yago310", unseen="drop").most == 123_143
    assert er.atlas("yago310", protocol="pykeen").total == 2 * 4_982
    for name, unseen, words in (
        ("pharmkg8k", "keep", " (without those not seen in training)"),
        ("pharmkg8k", "drop", ""),
        ("codexlarge", "keep", ""),
        ("codexlarge", "drop", " (with those not seen in training)"),
    ):
        (note,) = (
            note
            for note in er.adjust({"mrr": 0.3}, data=name, unseen=unseen).notes
            if note.startswith("approximate")
        )
        assert f" entities{words} are taken instead. If up to 80%" in note
    raw = er.adjust({"mrr": 0.3}, data="pharmkg8k", filter=None)  # with unknown entities
    assert raw.notes[-1].endswith(" entities (without those not seen in training) are taken instead.")


def test_a_metric_that_is_always_best_with_the_fewest_candidates():
    notes = er.adjust({"hits@5000": 0.8}, data="pharmkg8k").notes
    assert notes[-1] == "hits@5000: chance 0.6899 to 1.000"


def test_for_the_mrr_at_123_thousand_candidates_the_bounds_are_tight():
    """0.54 is 0.54 above any chance level that YAGO3-10 can have, to three digits."""
    levels = [float(null.mean()) for null in atlas.bounds("yago3-10").nulls("mrr")]
    indices = [(0.54 - level) / (1 - level) for level in levels]
    assert max(levels) < 5e-4
    assert max(indices) - min(indices) < 2e-4
    assert all(round(one, 3) == 0.54 for one in indices)


def test_approximations_are_labelled_wherever_their_name_is_shown():
    made = er.adjust({"mrr": 0.54}, data="YAGO3-10")
    assert made.protocol.data == "yago310 (approximate)"
    assert "(approximate)" in str(made)
    assert er.atlas("yago310 (approximate)") == er.atlas("yago3-10")
    assert atlas.facts("YAGO3-10").data == "yago310 (approximate)"
    assert atlas.facts("YAGO3-10").triples == {"train": 1_079_040, "valid": 5_000, "test": 5_000}
    assert atlas.splits("YAGO3-10") == ["valid", "test"]
    assert atlas.bounds("wn18rr") is None
    rows = [{"model": m, "data": "CoDEx-L", "mrr": v} for m, v in (("A", 0.3), ("B", 0.2))]
    assert "codexlarge (approximate)" in str(adjust_table(rows))
    assert len(atlas.approximations()) == len(set(atlas.approximations())) > 20
    assert not set(atlas.approximations()) & set(atlas.names())


def test_the_shell_says_how_far_off_an_approximation_may_be():
    text = " ".join(run("adjust", "mrr=0.54", "--data", "yago3-10").split())
    assert "the candidates of YAGO3-10 were not counted, and all of its 123,182 entities are" in text
    assert "mrr: chance 9.98e-05 to 4.34e-04, index 0.5398 to 0.5400" in text
    # a mean rank beyond the fewest candidates is no contradiction
    text = " ".join(run("adjust", "mr=30000", "--data", "hetionet").split())
    assert "mr: chance 4,517 to 22,580, index -5.643 to -0.3287" in text
    said = json.loads(run("chance", "mrr", "--data", "yago310", "--format", "json"))
    assert said["candidates"] == "approximate: 24,638 to 123,182"
    assert said["mean_from"] == said["mean"] < said["mean_to"]
    said = json.loads(run("atlas", "show", "yago310", "--format", "json"))
    assert said["bounds"] == {"least": 24_638, "most": 123_182}
    assert "24,638 to 123,182 candidates" in run("atlas", "show", "yago310")
    assert "not known for the split train" in run("atlas", "show", "fb15k")


def test_files_at_hand_make_it_exact(tmp_path, monkeypatch):
    """In EVENRANK_DATA, the graph is loaded and counted; it must be the published one."""
    folder = tmp_path / "tiny-set"
    folder.mkdir()
    (folder / "train.txt").write_text("a\tr\tb\na\tr\tc\nb\tr\ta\n")
    (folder / "test.txt").write_text("a\tr\td\n")
    entry = registry.Entry(
        "tinyset",
        "Tiny set",
        entities=4,
        relations=1,
        splits={"train": 3, "test": 1},
        counts="counted by hand",
        source="https://example.org",
        reference="Nobody, Nothing, 2026",
    )
    monkeypatch.setattr(registry, "entries", lambda: {"tinyset": entry})
    registry._keys.cache_clear()
    monkeypatch.setenv("EVENRANK_ATLAS", str(tmp_path / "own"))
    assert atlas.facts("Tiny set").data == "tinyset (approximate)"
    assert er.atlas("tiny-set")["candidates"].tolist() == [4]
    monkeypatch.setenv("EVENRANK_DATA", str(tmp_path))
    assert atlas.facts("Tiny set").data == "tinyset"
    assert atlas.bounds("tinyset") is None
    assert er.atlas("tiny-set")["candidates"].tolist() == [2, 4]
    assert er.adjust({"mrr": 0.5}, data="tiny-set").protocol.data == "tinyset"
    (folder / "test.txt").write_text("a\tr\td\nd\tr\td\n")
    atlas._loaded.cache_clear()
    with pytest.raises(er.errors.InputError, match=r"is not Tiny set as published; got test 2"):
        er.atlas("tiny-set")
    # one's own counts come before an approximation
    monkeypatch.delenv("EVENRANK_DATA")
    atlas.add([atlas.build(er.Graph.of([[0, 0, 1]], test=[[0, 0, 2]]), "tinyset")])
    assert atlas.facts("tinyset").data == "tinyset"
    assert er.atlas("tinyset")["candidates"].tolist() == [2, 3]
    registry._keys.cache_clear()


def test_sizes_without_unseen_entities_are_compared_without_them(tmp_path):
    graph = er.Graph.of([[0, 0, 1]], test=[[0, 0, 1], [0, 0, 2]], name="made")
    entry = registry.Entry(
        "made",
        "Made",
        entities=2,
        relations=1,
        splits={"train": 1, "test": 1},
        counts="a library that drops the others",
        source="https://example.org",
        reference="Nobody, Nothing, 2026",
        unseen="drop",
    )
    registry.check(entry, graph, tmp_path)
    with pytest.raises(er.errors.InputError, match="is not Made as published; got entities 4"):
        registry.check(entry, er.Graph.of([[0, 0, 1], [2, 0, 3]], test=[[0, 0, 1]]), tmp_path)


def test_data_sets_known_by_name_only_say_how_to_go_on():
    message = run("adjust", "mrr=0.54", "--data", "wikikg90m-v2", code=2)
    assert message.endswith(
        "only the number of entities of this data set is known; got WikiKG90Mv2, with 91,230,610 "
        "entities; adjust and chance take --sizes 91230610x1000 for that many candidates of each of "
        "1,000 targets; for exact numbers, get the files from https://ogb.stanford.edu/docs/lsc/wikikg90mv2/"
        " and count them by `evenrank atlas build FOLDER`"
    )
    with pytest.raises(er.errors.InputError, match=r"take sizes=\{91230610: 1000\} for that many"):
        er.adjust({"mrr": 0.54}, data="wikikg90m-v2")
    assert er.adjust({"mrr": 0.54}, sizes={91230610: 1000})["index(mrr)"] == pytest.approx(
        0.54, rel=1e-6
    )
    assert "0.54" in run("adjust", "mrr=0.54", "--sizes", "91230610x1000")
    message = run("adjust", "mrr=0.54", "--data", "cn-dbpedia", code=2)
    assert "the atlas has no such data set; got 'cn-dbpedia'; did you mean dbpedia50 or" in message
    assert message.endswith(
        "Or count the files of a graph by `evenrank atlas build FOLDER`; adjust and chance also take "
        "numbers of candidates, as in --sizes 14541x40932"
    )

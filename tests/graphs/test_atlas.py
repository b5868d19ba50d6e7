"""The atlas: its counts computed in four ways, the paper's data sets, user data sets, and files."""

import gzip
import io
import itertools
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import shared
import strategies
import substitute
from hypothesis import given
from hypothesis import strategies as st

import evenrank as er
from evenrank.graphs import approximate, atlas, packed, registry, sources, structure
from evenrank.metrics.chance import NullDistribution, read_sizes
from evenrank.metrics.tally import Histogram

LARGE = ("fb15k237", "wn18rr", "codexsmall") if shared.PRESENT else (*substitute.MADE, *substitute.PAIR)
DOCS = Path(__file__).parents[2] / "docs" / "datasets.md"
SIDES = ("head", "tail", "both")
RULES = ("keep", "drop")
TOY = er.Graph.of([[0, 0, 1], [0, 0, 2], [0, 0, 2]], test=[[0, 0, 3], [1, 0, 2]], name="toy")


@pytest.fixture(autouse=True)
def own(tmp_path, monkeypatch):
    """Use an empty user atlas."""
    monkeypatch.setenv("EVENRANK_ATLAS", str(tmp_path / "own"))
    return tmp_path / "own" / "atlas.parquet"


def counted(sizes: Histogram) -> dict[int, int]:
    """A histogram as a mapping; every weight is one."""
    assert sizes["weight"].tolist() == [1.0] * len(sizes)
    return dict(zip(sizes["candidates"].tolist(), sizes.counts.tolist(), strict=True))


# The counts, by other ways ------------------------------------------------------------------------


def by_hand(graph, split, side, filter_, unseen):
    """Count the candidates in sets of plain Python: every entity but the other known answers."""
    splits = {name: [tuple(map(int, t)) for t in triples] for name, triples in graph.splits.items()}
    entities = set(range(len(graph.entities)))
    if unseen == "drop":
        entities = {e for h, _, t in splits["train"] for e in (h, t)}
        relations = {r for _, r, _ in splits["train"]}
        splits = {
            name: [(h, r, t) for h, r, t in triples if {h, t} <= entities and r in relations]
            for name, triples in splits.items()
        }
    known = {triple for triples in splits.values() for triple in triples} if filter_ else set()
    counts = Counter()
    for h, r, t in splits[split]:
        heads = {e for e in entities if e == h or (e, r, t) not in known}
        tails = {e for e in entities if e == t or (h, r, e) not in known}
        counts.update([len(heads)] * (side != "tail") + [len(tails)] * (side != "head"))
    return dict(counts)


@given(
    graph=strategies.graphs(),
    split=st.sampled_from(("train", "valid", "test")),
    side=st.sampled_from(SIDES),
    filter_=st.sampled_from(("all", None)),
    unseen=st.sampled_from(RULES),
)
def test_counts_agree_with_sets(graph, split, side, filter_, unseen):
    """Duplicates, triples in several splits, unseen entities and relations, raw and filtered."""
    wanted = by_hand(graph, split, side, filter_, unseen)
    options = dict(filter=filter_, unseen=unseen)
    if wanted:
        assert counted(er.atlas(graph, split, side, **options)) == wanted
    else:
        with pytest.raises(er.errors.InputError, match="has no triples in this split"):
            er.atlas(graph, split, side, **options)


@pytest.mark.parametrize("name", ["nations", "kinships", "umls"])
@pytest.mark.parametrize("unseen", RULES)
def test_shipped_counts_are_those_of_tasks(name, unseen):
    """`Graph.task` has the numbers of candidates of the atlas, for every split, side and filter."""
    check_tasks(er.load(name, unseen=unseen), name, ("train", "valid", "test"))


@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("unseen", RULES)
def test_counts_of_large_graphs_are_those_of_tasks(name, unseen):
    folder = shared.path(f"datasets/{name}")
    if name not in NAMES:
        atlas.add([atlas.build(er.load(folder), name)])
    check_tasks(er.load(folder, unseen=unseen), name, ("valid", "test"))


@pytest.mark.parametrize("name", substitute.NAMES)
def test_counts_agree_for_graphs_in_every_layout(name):
    """Without unseen entities and relations, against sets and loops in plain Python."""
    graph = er.load(substitute.folder() / name, unseen="drop")
    for side in ("tail", "head"):
        wanted = Counter(substitute.candidates(name, "test", side))
        assert counted(er.atlas(graph, "test", side)) == wanted


def check_tasks(graph, name, splits):
    for split in splits:
        for side in SIDES:
            for filter_ in ("all", None):
                task = graph.task(split, sides=side, filter=filter_)
                sizes = er.atlas(name, split, side, filter=filter_, unseen=graph.unseen)
                assert sizes == read_sizes(task.candidates), (split, side, filter_)


def test_both_sides_are_the_sum_and_raw_is_all_entities():
    for name in atlas.names():
        for unseen in RULES:
            facts = atlas.facts(name, unseen=unseen)
            for split in atlas.splits(name, unseen=unseen):
                triples = facts.triples[split]
                head, tail, both = (er.atlas(name, split, side, unseen=unseen) for side in SIDES)
                assert head + tail == both
                assert (head.total, tail.total) == (triples, triples)
                raw = er.atlas(name, split, filter=None, unseen=unseen)
                candidates = 10_500 if name == "dbp15k-zh-en" else facts.entities
                assert counted(raw) == {candidates: 2 * triples}


def test_large_ids_do_not_overflow():
    """A billion entities squared times their relations is more than 64 bits hold."""
    many = 10**9
    graph = er.Graph.of(
        [[0, many - 1, 1], [many - 1, many - 1, many - 1]], entities=many, relations=many
    )
    assert counted(er.atlas(graph, "train")) == {many: 4}


# Every shipped row, from the files ----------------------------------------------------------------


def folders() -> dict[str, Path]:
    """The folders of data sets in the shared folder, by the names the registry has for them."""
    roots = ("datasets", "benchmarks") if shared.PRESENT else ("datasets",)
    every = sorted({file.parent for root in roots for file in shared.path(root).rglob("*.gz")})
    known = [folder for folder in every if registry.lookup(folder.name)]
    assert known == every if shared.PRESENT else len(known) == len(substitute.BUNDLED)
    return {registry.find(folder.name).name: folder for folder in known}


NAMES = (
    *("codexmedium", "codexsmall", "conceptnet100k", "countries-s1", "countries-s2", "countries-s3"),
    *("dbp15k-zh-en", "dbpedia50", "family", "fb122", "fb13", "fb15k", "fb15k237", "fb15k237-10"),
    *("fb237-v1", "fb237-v1-ind", "fb237-v2", "fb237-v2-ind", "fb237-v3", "fb237-v3-ind", "icews14"),
    *("icews14-agnostic", "icews14-forecasting", "icews14-forecasting-agnostic", "ilpc2022-small"),
    *("kinships", "nations", "nell-v1", "nell-v1-ind", "nell-v2", "nell-v2-ind", "nell-v3"),
    *("nell-v3-ind", "nell23k", "nell995", "nell995-h100", "nell995-h25", "nell995-h50", "nell995-q2b"),
    *("umls", "wd50k", "wd50k-100", "wd50k-33", "wdsinger", "wikidata12k", "wikidata12k-agnostic"),
    *("wn11", "wn18", "wn18rr", "wn18rr-v1", "wn18rr-v1-ind", "wn18rr-v2", "wn18rr-v2-ind"),
    *("wn18rr-v3", "wn18rr-v3-ind", "wn18rr-v4", "wn18rr-v4-ind", "yago-renet", "yago-renet-agnostic"),
)
SETS = [name for name in NAMES if not name.endswith(atlas.AGNOSTIC)]


def test_names():
    assert tuple(atlas.names()) == NAMES
    assert len(SETS) == 55


@pytest.mark.parametrize("name", SETS)
def test_every_shipped_row_can_be_built_again(name):
    if name not in folders():
        pytest.skip(f"not part of the repository: the files of {registry.find(name).title}")
    built = sources.counts(folders()[name])
    assert built == {each: packed.packaged()[each] for each in built}
    assert built.keys() == {one for one in NAMES if one.removesuffix(atlas.AGNOSTIC) == name}


# one of every setting, of every kind of file, and with and without unseen entities
DESCRIBED = ("nations", "kinships", "wn18rr-v3-ind", "nell-v1-ind", "wd50k-100", "family")


@pytest.mark.parametrize("name", DESCRIBED)
def test_shipped_dependences_can_be_found_again(name):
    """The same standard deviations of random scorers; the bytes may differ by rounding errors."""
    if name not in folders():
        pytest.skip(f"not part of the repository: the files of {registry.find(name).title}")
    for each, kinds in sources.dependences(folders()[name]).items():
        assert kinds.keys() == structure._stored()[each].keys()
        for unseen, splits in kinds.items():
            assert splits.keys() == structure._stored()[each][unseen].keys()
            for split, side, filter_ in itertools.product(splits, SIDES, ("all", None)):
                sizes = er.atlas(each, split, side, filter=filter_, unseen=unseen)
                stored = structure.of_benchmark(each, split, side, filter_, unseen)
                found = structure.of_stored(splits[split][filter_ or "raw"], side)
                for metric in ("mrr", "mr", "hits@10"):
                    one, other = (
                        NullDistribution(er.parse(metric), sizes=sizes, dependence=known).std()
                        for known in (stored, found)
                    )
                    assert one == pytest.approx(float(other), rel=1e-9)


LACKS = {  # protocols whose numbers of candidates do not follow from the atlas
    "nations": {"grail"},
    "umls": {"grail"},
    "kinships": set(),
    "nell-v1-ind": set(),
    "dbpedia50": {"pykeen"},
    "nell995-h50": {"pykeen"},
    "wn11": {"pykeen"},
    "family": {"pykeen", "libkge"},
}


@pytest.mark.parametrize("name", LACKS)
def test_counts_of_a_protocol_are_those_of_its_task(name):
    """Or the atlas says that it lacks them: duplicate test triples, further splits, few negatives."""
    if name not in folders():
        pytest.skip(f"not part of the repository: the files of {registry.find(name).title}")
    kept = er.load(folders()[name])
    lacks = set()
    for protocol in ("pykeen", "libkge", "grail"):
        graph = kept.drop_unseen() if protocol == "pykeen" else kept
        wanted = read_sizes(graph.task("test", protocol=protocol).candidates)
        assert er.atlas(kept, protocol=protocol) == wanted
        try:
            assert er.atlas(name, protocol=protocol) == wanted, protocol
        except er.errors.InputError:
            lacks.add(protocol)
    assert lacks == LACKS[name]


def test_one_command_builds_the_shipped_files(tmp_path):
    """From a few folders, the same content; `make atlas` gives it all of them."""
    some = [folders()[name] for name in ("nations", "umls", "kinships")]
    sources.write_package(some, tmp_path)
    counts = packed.unpack((tmp_path / packed.FILE).read_bytes())
    assert counts == {name: packed.packaged()[name] for name in ("kinships", "nations", "umls")}
    known = json.loads(gzip.decompress((tmp_path / structure.FILE).read_bytes()))
    assert known.keys() == counts.keys()
    assert all(known[name].keys() == structure._stored()[name].keys() for name in known)


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(1, 10**6)), min_size=1, unique_by=lambda r: r[0])
)
def test_packed_counts_are_unpacked_unchanged(rows):
    one = packed.Counts("made", 50, 3, {"test": {"head": sorted(rows), "tail": [(50, 7)]}})
    other = one._replace(entities=60, raw=12)
    data = {"made": {"keep": one, "drop": one}}
    assert packed.unpack(packed.pack(data)) == data
    data = {"made": {"keep": one, "drop": other}}
    assert packed.unpack(packed.pack(data)) == data


def test_the_files_of_the_package_are_small():
    folder = Path(packed.__file__).parent
    assert (folder / packed.FILE).stat().st_size < 50_000
    assert (folder / structure.FILE).stat().st_size < 220_000


@pytest.mark.parametrize("name", SETS)
def test_sizes_agree_with_the_registry(name):
    entry, facts = registry.find(name), atlas.facts(name)
    assert facts == (name, entry.entities, entry.relations, dict(entry.splits))


def test_no_query_has_more_answers_than_approximations_allow():
    """The bounds of approximations rest on this."""
    shares = {}
    for name in SETS:
        facts = atlas.facts(name)
        if facts.entities >= 1000 and name != "dbp15k-zh-en":  # whose candidates are fewer
            least = min(int(er.atlas(name, split)["candidates"].min()) for split in atlas.splits(name))
            shares[name] = (facts.entities - least + 1) / facts.entities
    assert len(shares) > 40
    assert max(shares, key=shares.get) == "fb13"
    assert 0.75 < max(shares.values()) < approximate.MOST_ANSWERS


def test_any_usual_spelling():
    assert er.atlas("FB15k-237") == er.atlas("fb15k237") == er.atlas("FB15K_237")
    assert atlas.facts("WN18-OpenKE").data == "wn18"
    assert er.atlas("ICEWS14 (agnostic)") == er.atlas("icews14-temp", time="agnostic")
    for written in ("NELL-995 h25", "nell995-h25", "NELL-995-h25"):
        assert atlas.facts(written).data == "nell995-h25"


# The paper's data sets ----------------------------------------------------------------------------

TABLE = {  # entities, relations, training triples, as printed; without unseen entities
    "nations": (14, 55, 1_592),
    "kinships": (104, 25, 8_544),
    "fb15k237": (14_505, 237, 272_115),
    "wn18rr": (40_559, 11, 86_835),
}


def test_the_paper_s_table_of_data_sets():
    for name, row in TABLE.items():
        facts = atlas.facts(name, unseen="drop")
        assert (facts.entities, facts.relations, facts.triples["train"]) == row


@pytest.mark.parametrize("name", TABLE)
def test_the_paper_s_expected_mean_ranks(name):
    """MR / AMR is the expectation behind a published row; ours agrees to single precision, theirs.

    Candidate sets one too small, which the published z columns need, are told apart.
    """
    told = shared.expected_mean_ranks(name)
    assert {side for side, _, _ in told} == {*SIDES}
    for side, count, mean in told:
        sizes = er.atlas(name, "test", side, unseen="drop")
        smaller = read_sizes(sizes["candidates"] - 1, sizes.counts)
        assert count == sizes.total
        assert er.chance("mr", sizes).mean() == pytest.approx(mean, rel=2.0**-22)
        assert er.chance("mr", smaller).mean() != pytest.approx(mean, rel=1e-5)


@pytest.mark.parametrize("name", TABLE)
def test_the_paper_s_expected_hits(name):
    """(hits - index) / (1 - index) is the expected hits@k behind a published row; all digits agree."""
    sizes = er.atlas(name, unseen="drop")
    told = shared.expected_hits(name)
    assert {k for k, _ in told} == {1, 3, 5, 10}
    for k, expected in told:
        assert er.chance(f"hits@{k}", sizes).mean() == pytest.approx(expected, abs=1e-12)


# Bad input ----------------------------------------------------------------------------------------

BAD = [
    (dict(data="fb15k238"), "the atlas has no such data set; got 'fb15k238'; did you mean fb15k237"),
    (
        dict(data="?"),
        "the atlas has no such data set; got '?'; see `evenrank atlas list`, or count the files of a "
        "graph by `evenrank atlas build FOLDER`; adjust and chance also take numbers of candidates, as "
        "in sizes={14541: 40932}",
    ),
    (
        dict(data="WikiKG90Mv2"),
        "only the number of entities of this data set is known; got WikiKG90Mv2, with 91,230,610 "
        "entities; adjust and chance take sizes={91230610: 1000} for that many candidates of each of",
    ),
    (dict(data="nations", time="now"), "unknown time; got 'now'; allowed: aware, agnostic"),
    (
        dict(data="nations", time="aware"),
        "the atlas has no counts by time for this data set; got nations; leave out time",
    ),
    (
        dict(data="nations", protocol="ogb"),
        "the protocol ogb ranks among candidates that come with the data; got nations; pass their num",
    ),
    (
        dict(data="nations", split="valid", protocol="libkge"),
        "the protocol libkge filters valid by train, valid, the atlas by all splits; got split valid of "
        "nations, which has train, valid, test; count a graph by graph.task(split, protocol=...).cand",
    ),
    (
        dict(data="family", protocol="pykeen"),
        "the protocol pykeen filters test by train, valid, test, the atlas by all splits; got split "
        "test of family, which has train, valid, test, facts",
    ),
    (
        dict(data="wn11", protocol="pykeen"),
        "the protocol pykeen ranks duplicate triples once, the atlas each of them; got 38 in wn11; "
        "leave out the protocol, and pass unseen='drop'; or count a graph",
    ),
    (
        dict(data="umls", protocol="grail"),
        "the protocol grail samples 50 negatives, and some targets may have fewer; got 1 for a target",
    ),
    (
        dict(data="icews14-agnostic", protocol="tkbc"),
        "the protocol tkbc filters known answers at the time of the query; got icews14-agnostic; name i",
    ),
    (dict(data="nations", protocol="mine"), "unknown protocol; got 'mine'; allowed: pykeen, libkge"),
    (
        dict(data="fb15k", split="train"),
        "fb15k has no triples in this split; got 'train'; allowed: valid, test",
    ),
    (dict(data=7), "not a data set; got int; allowed: a name, or a Graph"),
    (
        dict(data="nations", split="dev"),
        "nations has no triples in this split; got 'dev'; allowed: train, valid, test",
    ),
    (
        dict(data=TOY, split="valid"),
        "toy has no triples in this split; got 'valid'; allowed: train, t",
    ),
    (dict(data="nations", sides="left"), "unknown sides; got 'left'; allowed: head, tail, both"),
    (dict(data="nations", filter="none"), "unknown filter; got 'none'; allowed: 'all', or None for raw"),
    (dict(data="nations", unseen="no"), "unknown value of unseen; got 'no'; allowed: 'keep', 'drop'"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_bad_input(arguments, message):
    with pytest.raises(er.errors.InputError) as error:
        er.atlas(**arguments)
    assert str(error.value).startswith(message)


def test_a_folder_is_not_a_name(tmp_path):
    with pytest.raises(er.errors.InputError, match=r"; add your own graph by `evenrank atlas build .*`"):
        er.atlas(str(tmp_path))
    with pytest.raises(er.errors.InputError, match="no such data set; got 'aaa"):
        er.atlas("a" * 5000)


# The user's own -----------------------------------------------------------------------------------


def test_user_data_sets_are_added_to_the_atlas(own):
    assert atlas.add([atlas.build(TOY)]) == own
    assert atlas.names() == [*NAMES, "toy"]
    assert er.atlas("Toy") == er.atlas(TOY)
    assert atlas.facts("toy") == ("toy", 4, 1, {"train": 3, "test": 2})
    assert atlas.facts("toy", unseen="drop") == ("toy", 3, 1, {"train": 3, "test": 1})


def test_building_again_replaces_the_entry(own):
    atlas.add([atlas.build(TOY, "My graph"), atlas.build(TOY, "other")])
    atlas.add([atlas.build(er.load("nations"), "my-graph")])
    assert atlas.names() == [*NAMES, "my-graph", "other"]
    assert er.atlas("my graph") == er.atlas("nations")
    assert er.atlas("other") == er.atlas(TOY)
    assert sorted(os.listdir(own.parent)) == [".lock", own.name]  # nothing else is left behind


def test_concurrent_additions_are_all_kept():
    script = "from evenrank.graphs import atlas, load\nimport sys\n"
    script += "for i in range(5): atlas.add([atlas.build(load('nations'), f'{sys.argv[1]}{i}')])"
    started = [subprocess.Popen([sys.executable, "-c", script, name]) for name in "abc"]
    assert [one.wait(60) for one in started] == [0, 0, 0]
    assert len(atlas.names()) == len(NAMES) + 15


def test_a_failed_write_keeps_the_old_file(own, monkeypatch):
    atlas.add([atlas.build(TOY)])
    before = own.read_bytes()

    def fail(frame, file, **options):
        file.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", fail)
    with pytest.raises(er.errors.InputError, match=r"cannot write .*; got No space left on device"):
        atlas.add([atlas.build(TOY, "other")])
    assert own.read_bytes() == before
    assert sorted(os.listdir(own.parent)) == [".lock", own.name]


def test_a_registered_name_without_bundled_counts_can_be_added():
    atlas.add([atlas.build(TOY, "YAGO3-10")])
    assert atlas.facts("yago310").data == "yago310"


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (
            ["FB15K_237"],
            "the atlas of the package has a data set of this name; got 'fb15k237'; choose another n",
        ),
        (["--"], "a data set needs a name; got '--'; allowed: letters and digits"),
        (["toy", "toy"], "two data sets have the same name; got toy, toy"),
        (["Toy", "to-y"], "two data sets have the same name; got Toy, to-y"),
    ],
)
def test_names_that_cannot_be_added(own, names, message):
    with pytest.raises(er.errors.InputError) as error:
        atlas.add([atlas.build(TOY, name) for name in names])
    assert str(error.value).startswith(message)
    assert not own.exists()


def test_a_graph_without_its_unseen_entities_cannot_be_added():
    with pytest.raises(
        er.errors.InputError, match="with and without entities not seen in training; got a graph w"
    ):
        atlas.build(er.load("nations", unseen="drop"))


def damaged():
    def parquet(frame):
        frame.write_parquet(file := io.BytesIO())
        return file.getvalue()

    shipped = parquet(atlas.build(TOY))
    rows = atlas.build(TOY).head(3)

    return {
        "truncated": shipped[: len(shipped) // 2],
        "empty": b"",
        "text": b"data,split\n",
        "columns": parquet(rows.drop("count")),
        "types": parquet(rows.with_columns(pl.col("count").cast(pl.Float64))),
        "none": parquet(rows.with_columns(count=pl.lit(None, pl.Int64))),
        "negative": parquet(rows.with_columns(count=-pl.col("count"))),
        "too many": parquet(rows.with_columns(candidates=pl.col("entities") + 1)),
    }


@pytest.mark.parametrize(("kind", "content"), damaged().items())
def test_a_damaged_own_file_is_named(own, kind, content):
    own.parent.mkdir()
    own.write_bytes(content)
    for use in (atlas.names, lambda: er.atlas("mine"), lambda: atlas.add([atlas.build(TOY)])):
        with pytest.raises(er.errors.InputError) as error:
            use()
        assert str(error.value).startswith(f"cannot read {own}; got "), kind
        assert str(error.value).endswith("delete it, and build its data sets again")
        assert "\n" not in str(error.value)
    assert own.read_bytes() == content
    assert er.atlas("nations").total == 402  # what comes with the package does not need it


def test_a_folder_that_cannot_be_created(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EVENRANK_ATLAS", str(tmp_path / "file" / "folder"))
    with pytest.raises(
        er.errors.InputError, match=r"cannot write to .*; got Not a directory; set EVENRANK"
    ):
        atlas.add([atlas.build(TOY)])


def test_the_default_place_is_the_data_folder_of_the_user(monkeypatch):
    import platformdirs

    monkeypatch.delenv("EVENRANK_ATLAS")
    assert atlas.own_file().parent == platformdirs.user_data_path("evenrank", appauthor=False)
    monkeypatch.setenv("EVENRANK_ATLAS", "~/somewhere")
    assert atlas.own_file() == Path.home() / "somewhere" / "atlas.parquet"


# The shell ----------------------------------------------------------------------------------------


def run(*arguments, code=0):
    """Run the command; on failure, return the line on stderr."""
    command = [sys.executable, "-m", "evenrank", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stderr
    return done.stderr.removeprefix("evenrank: ").strip() if code else done.stdout


def test_list_and_its_table_in_the_docs():
    """The docs show the output of the command, which equals the library's values."""
    printed = run("atlas", "list", "--format", "markdown")
    assert printed in DOCS.read_text()
    rows = json.loads(run("atlas", "list", "--format", "json"))
    every = [*NAMES, *atlas.approximations()]
    assert list(dict.fromkeys(row["data"] for row in rows)) == [
        atlas.facts(name).data
        for name in sorted(every, key=lambda name: (atlas.facts(name).entities, every.index(name)))
    ]
    count = Counter(row["data"] for row in rows)
    twice = {name for name, times in count.items() if times == 2}
    assert {"fb15k237", "wn18rr", "wd50k", "icews14", "yago310 (approximate)"} < twice
    assert not twice & {"nations", "umls", "fb15k", "codexlarge (approximate)"}
    # whether all entities are seen in training is unknown where they were not counted
    assert {row["unseen"] for row in rows if "approximate" in row["data"]} == {"keep", "drop"}
    for row in rows:
        rule = "drop" if row["unseen"] == "drop" else "keep"
        sizes = er.atlas(row["data"], unseen=rule)
        assert row["chance(mrr)"] == er.chance("mrr", sizes).mean()
        assert row["chance(hits@10)"] == er.chance("hits@10", sizes).mean()
        assert row["candidates"] == np.repeat(sizes["candidates"], sizes.counts).sum() / sizes.total
        facts = atlas.facts(row["data"], unseen=rule)
        splits = {"train": None, "valid": None, **facts.triples}
        assert {split: row[split] for split in ("train", "valid", "test")} == {
            split: splits[split] for split in ("train", "valid", "test")
        }


def test_list_writes_csv_and_the_user_s_own(tmp_path):
    atlas.add([atlas.build(er.Graph.of([[0, 0, 1]]), "tiny")])  # without a test split
    row = pl.read_csv(run("atlas", "list", "--format", "csv").encode()).row(0, named=True)
    assert {name: value for name, value in row.items() if value is not None} == {
        "data": "tiny",
        "unseen": "either",
        "entities": 2,
        "relations": 1,
        "train": 1,
    }
    assert "tiny" in run("atlas", "list").splitlines()[2]


def test_show(tmp_path):
    lines = run("atlas", "show", "Nations").splitlines()
    header, row = lines[0].split(), lines[10].split()
    assert dict(zip(header, row, strict=True)) == {
        "split": "test",
        "side": "both",
        "targets": "402",
        "sizes": "13",
        "least": "2",
        "mean": "7.955",
        "most": "14",
        "chance(mrr)": "0.3844",
        "chance(hits@10)": "0.9469",
        "chance(mr)": "4.478",
    }
    assert lines[11:] == [
        "nations: 14 entities, 55 relations",
        "filter: all; unseen: keep; candidates include the target",
    ]
    raw = json.loads(
        run("atlas", "show", "wn18rr", "--filter", "none", "--unseen", "drop", "--format", "json")
    )
    assert raw["entities"] == 40_559
    assert (raw["filter"], raw["unseen"]) == ("none", "drop")
    assert {row["chance(mr)"] for row in raw["rows"]} == {20_280.0}
    assert [(row["split"], row["side"], row["targets"]) for row in raw["rows"]] == [
        (split, side, n * (2 if side == "both" else 1))
        for split, n in raw["triples"].items()
        for side in SIDES
    ]


def test_build_adds_a_folder(tmp_path, own):
    folder = tmp_path / "some-graph"
    folder.mkdir()
    (folder / "train.txt").write_text("a\tr\tb\na\tr\tc\n")
    (folder / "test.txt").write_text("b\tr\td\n")
    assert run("atlas", "build", folder, "--name", "mygraph") == f"mygraph: saved in {own}\n"
    assert run("atlas", "build", folder) == f"some-graph: saved in {own}\n"
    said = json.loads(run("atlas", "build", folder, "--format", "json"))
    assert said == {"data": ["some-graph"], "file": str(own)}
    assert counted(er.atlas("mygraph")) == {4: 2}
    assert "some-graph: 3 entities" in run("atlas", "show", "some-graph", "--unseen", "drop")
    many = run("atlas", "build", folder, folder, "--name", "one", code=2)
    assert many == "names and folders do not match; got 1 names for 2 folders"
    assert "of the package has a data set of this name" in run(
        "atlas", "build", "kinships", "--name", "kinships", code=2
    )
    wrong = run("atlas", "build", folder, "--name", "yago3-10", code=2)
    assert "is not YAGO3-10 as published" in wrong
    assert "no such data set; got 'fb15k238'" in run("atlas", "show", "fb15k238", code=2)
    own.write_bytes(b"")
    assert run("atlas", "list", code=2).startswith(f"cannot read {own}; got ")

"""Graphs: every layout gives the same graph, and errors in files name their place."""

import csv
import gzip
import io
import pickle
import subprocess
import sys
from functools import cache
from hashlib import sha256

import numpy as np
import polars as pl
import pytest
import shared
import substitute
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import evenrank as er
from evenrank.errors import InputError
from evenrank.graphs import Graph, load, registry
from evenrank.graphs.graph import LARGEST

# names of any script, with spaces, quotes and commas; 'zoë' and 'new' are never in train
TRIPLES = {
    "train": [
        ("北京", "首都 of", "中国"),
        ("القاهرة", "capital", "مصر"),
        ("🦊", 'says "what"', "New York"),
        ("a,b", "capital", '"quoted"'),
        ("中国", "capital", "🦊"),
    ],
    "valid": [("北京", "capital", "🦊"), ("zoë", "capital", "🦊")],
    "test": [("🦊", "new", "中国")],
}
ENTITIES = [*sorted({name for h, _, t in TRIPLES["train"] for name in (h, t)}), "zoë"]
RELATIONS = [*sorted({r for _, r, _ in TRIPLES["train"]}), "new"]
IDS = {
    split: np.array([(ENTITIES.index(h), RELATIONS.index(r), ENTITIES.index(t)) for h, r, t in rows])
    for split, rows in TRIPLES.items()
}
GRAPH = Graph.of(IDS, entities=ENTITIES, relations=RELATIONS)
PARTS = ["head", "relation", "tail"]


def raises(message):
    return pytest.raises(InputError, match=message)


def lines(rows, separator="\t", end="\n"):
    return "".join(separator.join(map(str, row)) + end for row in rows)


def as_csv(rows, header=None):
    file = io.StringIO(newline="")
    csv.writer(file).writerows([header, *rows] if header else rows)
    return file.getvalue()


def put(folder, **files):
    """Write files; `__` in a name stands for the dot."""
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        raw = text if isinstance(text, bytes) else text.encode()
        name = name.replace("__", ".")
        (folder / name).write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    return folder


def test_a_folder_of_ranks_does_not_hide_the_benchmark_of_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "nations"
    folder.mkdir()
    assert load("nations").hash == load("Nations").hash  # an empty folder, as for files to come
    er.Ranks.of([1, 2], candidates=9).save(folder / "transe.parquet")
    assert load("nations").num_entities == 14
    with raises("has no triples"):
        load(folder)
    (folder / "train.txt").write_text("a\tr\tb\n", encoding="utf-8")
    assert load("nations").num_entities == 2  # a folder with splits comes first
    (folder / "transe.parquet").unlink()
    (folder / "train.txt").unlink()
    rows = {"head": ["a"], "relation": ["r"], "tail": ["b"], "Split": ["train"]}
    pl.DataFrame(rows).write_parquet(folder / "all.parquet")
    assert load("nations").num_entities == 2


def text(ending, **options):
    return {f"{split}__{ending}": lines(rows, **options) for split, rows in TRIPLES.items()}


def openke(rows=IDS, end="\n", separator=" "):
    def counted(rows, sep):
        return f"{len(rows)}{end}" + lines(rows, sep, end)

    files = {
        f"{s}2id__txt": counted(array[:, [0, 2, 1]].tolist(), separator) for s, array in rows.items()
    }
    names = [(name, i) for i, name in enumerate(ENTITIES)]
    files["entity2id__txt"] = counted(names[::-1], "\t")  # in any order of lines
    files["relation2id__txt"] = counted([(name, i) for i, name in enumerate(RELATIONS)], "\t")
    return files


def gzipped(files):
    return {f"{name}__gz": raw for name, raw in files.items()}


def parquet(frame):
    file = io.BytesIO()
    frame.write_parquet(file)
    return file.getvalue()


def frames(rows, schema=None):
    return {s: pl.DataFrame(rows[s], schema=schema or PARTS, orient="row") for s in rows}


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def whole(names=TRIPLES):
    return pl.concat([f.with_columns(split=pl.lit(split)) for split, f in frames(names).items()])


DICTS = {
    "entities__dict": lines(enumerate(ENTITIES)),
    "relations__dict": lines(enumerate(RELATIONS)),
}
SWAPPED = [(t, h, r) for h, r, t in TRIPLES["test"]]
LAYOUTS = {
    "txt": text("txt"),
    "tsv": text("tsv"),
    "gz": gzipped(text("txt")),
    "crlf": text("txt", end="\r\n"),
    "bom": {name: b"\xef\xbb\xbf" + raw.encode() for name, raw in text("txt").items()},
    "no newline at the end": {name: raw.removesuffix("\n") for name, raw in text("txt").items()},
    "csv": {f"{split}__csv": as_csv(rows) for split, rows in TRIPLES.items()},
    "csv gz": gzipped({f"{split}__csv": as_csv(rows) for split, rows in TRIPLES.items()}),
    "csv with header": {
        "train__csv": as_csv(TRIPLES["train"], ["Head", "Relation", "Tail"]),
        "valid__csv": as_csv(TRIPLES["valid"], ["subject", "predicate", "object"]),
        "test__csv": as_csv(SWAPPED, ["T", "H", "R"]),
    },
    "tsv with header": {
        "train__tsv": "source\trelation\ttarget\n" + lines(TRIPLES["train"]),
        "valid__txt": lines(TRIPLES["valid"]),
        "test__tsv": "tail\thead\trelation\n" + lines(SWAPPED),
    },
    "other stems": {
        "training__txt": lines(TRIPLES["train"]),
        "dev__txt__gz": lines(TRIPLES["valid"]),
        "Testing__TXT": lines(TRIPLES["test"]),
        "readme__md": "nothing",
    },
    "openke": openke(),
    "openke gz": gzipped(openke()),
    "openke crlf, tabs": openke(end="\r\n", separator="\t"),
    "rotate": text("txt") | DICTS,
    "rotate gz": gzipped(text("txt") | DICTS),
    "parquet": {f"{s}__parquet": parquet(frame) for s, frame in frames(TRIPLES).items()},
    "parquet, categories": {
        f"{s}__parquet": parquet(f.with_columns(pl.all().cast(pl.Categorical)))
        for s, f in frames(TRIPLES, ["subject", "Relation", "object"]).items()
    },
    "one parquet": {"graph__parquet": parquet(whole())},
    "one parquet, named train": {"train__parquet": parquet(whole().select("split", "tail", *PARTS[:2]))},
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_is_the_same_graph(layout, tmp_path):
    graph = load(put(tmp_path / "a graph", **LAYOUTS[layout]))
    assert graph.name == "a graph"
    assert graph.hash == GRAPH.hash
    assert graph.vocabulary == GRAPH.vocabulary
    assert (graph.entities, graph.relations) == (tuple(ENTITIES), tuple(RELATIONS))
    assert list(graph.splits) == ["train", "valid", "test"]
    for split, triples in graph.splits.items():
        assert triples.tolist() == IDS[split].tolist()
        assert triples.dtype == np.int64
        assert triples.flags.c_contiguous
        assert not triples.flags.writeable


@pytest.mark.parametrize(
    "files",
    [
        {f"{s}__npy": npy(a.astype(np.int32)) for s, a in IDS.items()},
        {f"{s}__parquet": parquet(pl.DataFrame(a, schema=PARTS)) for s, a in IDS.items()},
        {"all__parquet": parquet(whole(IDS))},
        {name: raw for name, raw in openke().items() if name[:2] not in ("en", "re")},
    ],
    ids=["npy", "parquet", "one parquet", "openke without names"],
)
def test_ids_without_names(files, tmp_path):
    graph, same = load(put(tmp_path, **files)), Graph.of(IDS)
    assert (graph.entities, graph.relations) == (range(len(ENTITIES)), range(len(RELATIONS)))
    assert all((graph.splits[split] == IDS[split]).all() for split in IDS)
    assert (graph.hash, graph.vocabulary) == (same.hash, same.vocabulary)
    assert graph.hash != GRAPH.hash


def test_commas_and_spaces(tmp_path):
    plain = [("a", "likes", "b"), ("b", "likes", "c'\"")]
    graphs = [
        load(put(tmp_path / "comma", train__txt=as_csv(plain))),
        load(put(tmp_path / "unquoted", train__csv='a,likes,b\nb,likes,"c\'"""\n')),
        load(put(tmp_path / "space", train__txt=lines(plain, " "))),
        load(put(tmp_path / "tab", train__txt=lines(plain))),
    ]
    assert graphs[0].entities == ("a", "b", "c'\"")
    assert len({graph.hash for graph in graphs}) == 1


def test_a_file_and_a_name(tmp_path):
    file = tmp_path / "mine.parquet"
    whole().write_parquet(file)
    assert load(file).name == "mine"
    assert load(str(file), name="yours").name == "yours"
    assert load(file).hash == load(tmp_path).hash == GRAPH.hash
    other = whole().with_columns(pl.col("split").replace({"valid": "Dev", "test": "hard"}))
    other.write_parquet(file)
    assert list(load(file).splits) == ["train", "valid", "hard"]


def test_bundled_graphs():
    graph = load("nations")
    assert (graph.name, len(graph.entities), len(graph.relations)) == ("nations", 14, 55)
    assert [len(triples) for triples in graph.splits.values()] == [1592, 199, 201]


@pytest.mark.parametrize("name", ["kinships", "nations", "umls"])
def test_bundled_graphs_are_the_published_ones(name):
    published = load(shared.path(f"datasets/{name}"))
    assert load(name).hash == published.hash == registry.find(name).hash


@pytest.mark.parametrize("name", ["kinships", "nations", "umls"])
def test_bundled_rows_reproduce_the_published_files(name):
    """In their order, too: written as text, they have the checksums of the files."""
    for file, text in substitute.texts(name).items():
        assert sha256(text.encode()).hexdigest() == registry.find(name).files[file]


names = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\r\0\ufeff"), min_size=1, max_size=5
).filter(lambda name: name.strip() == name and not name.startswith("#"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    train=st.lists(st.tuples(names, names, names), min_size=1, max_size=9),
    test=st.lists(st.tuples(names, names, names), min_size=1, max_size=3),
    crlf=st.booleans(),
)
def test_any_names_are_preserved(train, test, crlf, tmp_path):
    words = [{cell.strip().lower() for cell in rows[0]} for rows in (train, test)]
    assume(not any(w & {"r", "p", "rel", "type"} for w in words))  # may be the words of a header
    end = "\r\n" if crlf else "\n"
    files = put(tmp_path, train__tsv=lines(train, end=end), test__tsv=lines(test, end=end))
    graph = load(files, columns="hrt")  # a few triples of any names may look like any order
    for split, rows in {"train": train, "test": test}.items():
        named = [
            (graph.entities[h], graph.relations[r], graph.entities[t])
            for h, r, t in graph.splits[split].tolist()
        ]
        assert named == rows
    seen = {name for h, _, t in train for name in (h, t)}
    others = {name for h, _, t in test for name in (h, t)} - seen
    assert graph.entities == (*sorted(seen), *sorted(others))


@pytest.mark.parametrize("name", ["x\x01", "xچ", "\x1f", "#", "'", '"', "null", "1e5", "a b"])
def test_names_that_resemble_headers_or_ids_are_names(name, tmp_path):
    graph = load(put(tmp_path, train__txt=lines([(name, name, "b"), ("b", name, name)])))
    assert graph.relations == (name,)
    assert set(graph.entities) == {name, "b"}


# Graph.of -----------------------------------------------------------------------------------


def test_of_arrays():
    graph = Graph.of([[0, 0, 1], [1, 1, 4]], test=np.array([[2.0, 0, 1]]), relations=3, name="g")
    assert (graph.entities, graph.relations, graph.name) == (range(5), range(3), "g")
    assert list(graph.splits) == ["train", "test"]
    more = Graph.of({"hard": [[0, 0, 1]], "train": [[0, 0, 1]]}, valid=[], entities=graph.entities)
    assert list(more.splits) == ["train", "valid", "hard"]
    assert more.splits["valid"].shape == (0, 3)
    assert more.entities == range(5)


def test_of_takes_what_numpy_takes_and_copies():
    class Tensor:  # as torch's: converts to an array on the CPU only
        def __init__(self, device):
            self.device = device

        def __array__(self, dtype=None, copy=None):
            if self.device != "cpu":
                raise TypeError("can't convert cuda:0 device type tensor to numpy.\nUse .cpu()")
            return np.array([[0, 0, 1]])

    assert Graph.of(Tensor("cpu")).splits["train"].tolist() == [[0, 0, 1]]
    with raises("train is not an array of ids; got a Tensor on device cuda; move it to the CPU$"):
        Graph.of(Tensor("cuda"))
    mine = np.array([[0, 0, 1]])
    graph = Graph.of(mine)
    mine[0, 2] = 0
    assert graph.splits["train"].tolist() == [[0, 0, 1]]
    with pytest.raises(ValueError, match="read-only"):
        graph.splits["train"][0] = 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(train=[[0, 0]]), r"train must be an array of ids.*got shape \(1, 2\) of int64"),
        (dict(train=[["a", "b", "c"]]), "train must be an array of ids.*got shape .* of <U1"),
        (dict(train=[[0, 0, 1], [0, 0]]), "train is not an array of ids; got rows of different lengths"),
        (dict(train=[]), "the train split has no triples"),
        (dict(train={"test": [[0, 0, 0]]}), "a graph needs a train split; got test"),
        (dict(train={}), "a graph needs a train split; got no splits"),
        (dict(train=[[0, 0, 0], [0, -1, 0]]), "train row 1: not the id of a relation; got -1"),
        (dict(train=[[0, 0, 0.5]]), "train row 0: not the id of a tail; got 0.5"),
        (dict(train=[[np.nan, 0, 0]]), "train row 0: not the id of a head; got nan"),
        (dict(train=[[LARGEST, 0, 0]]), "not the id of a head; got 1000000000; allowed: .* 999,999,999"),
        (
            dict(train=[[0, 0, 0]], test=[[0, 0, 2]], entities=["a", "b"]),
            "test row 0: not the id of a tail; got 2; allowed: whole numbers from 0 to 1",
        ),
        (dict(train=[[0, 1, 0]], relations=1), "train row 0: not the id of a relation; got 1"),
        (
            dict(train=[[0, 0, 0]], entities=["a", "b", "a"]),
            "the names of entities must be distinct; got 'a' 2",
        ),
        (dict(train=[[0, 0, 0]], relations="abc"), "relations must be a number or a list.*'abc'"),
        (dict(train=[[0, 0, 0]], entities=[1, 2]), r"entities must be a number or a list.*\[1, 2\]"),
        (dict(train=[[0, 0, 0]], entities=0), "impossible number of entities; got 0; allowed: 1 to"),
        (dict(train=[[0, 0, 0]], unseen="skip"), "unknown value of unseen; got 'skip'; allowed"),
    ],
)
def test_bad_arrays(arguments, message):
    with raises(message) as caught:
        Graph.of(**arguments)
    assert "\n" not in str(caught.value)


# Hash, representation and findings --------------------------------------------------------------


def renumbered(graph, seed):
    """The same graph with other ids, rows in another order, splits too."""
    random = np.random.default_rng(seed)
    orders = [random.permutation(len(graph.entities)), random.permutation(len(graph.relations))]
    places = [np.argsort(order) for order in orders]
    return Graph.of(
        {
            split: random.permutation(np.stack([places[i][t[:, j]] for j, i in enumerate((0, 1, 0))], 1))
            for split, t in reversed(graph.splits.items())
        },
        entities=[graph.entities[i] for i in orders[0]],
        relations=[graph.relations[i] for i in orders[1]],
    )


def test_hash_depends_on_the_content_only():
    for seed in range(5):
        other = renumbered(GRAPH, seed)
        assert other.hash == GRAPH.hash
        assert (other.vocabulary == GRAPH.vocabulary) == (other.entities == GRAPH.entities)
    named = dict(entities=ENTITIES, relations=RELATIONS)
    changed = [
        Graph.of(IDS | {"test": IDS["test"][:, ::-1] % 3}, **named),
        Graph.of(IDS | {"test": np.concatenate([IDS["test"]] * 2)}, **named),
        Graph.of({s: a for s, a in IDS.items() if s != "test"} | {"hard": IDS["test"]}, **named),
        Graph.of(IDS, entities=[*ENTITIES, "unused"], relations=RELATIONS),
        Graph.of(IDS, entities=[*ENTITIES[:-1], "zoe"], relations=RELATIONS),
        Graph.of(IDS),
    ]
    assert len({graph.hash for graph in [GRAPH, *changed]}) == 1 + len(changed)
    assert changed[0].vocabulary == GRAPH.vocabulary != changed[-1].vocabulary


def test_pickle():
    copy = pickle.loads(pickle.dumps(Graph.of(IDS, entities=ENTITIES, unseen="drop", name="p")))
    assert repr(copy) == repr(Graph.of(IDS, entities=ENTITIES, unseen="drop", name="p"))
    assert not copy.splits["train"].flags.writeable


def test_repr():
    train = np.zeros((1234, 3), int)
    assert repr(Graph.of(train, test=[[0, 0, 0]], name="big")).splitlines() == [
        "big",
        "  entities       1",
        "  relations      1",
        "  train      1,234",
        "  test           1",
        f"  hash       {Graph.of(train, test=[[0, 0, 0]]).hash}",
        "  note       train: 1,233 of 1,234 triples are duplicates",
        "  warning    test: 1 of 1 triples are also in train",
    ]


def test_unseen():
    what = "triples have an entity or relation not seen in training"
    notes = [
        f"valid: 1 of 2 {what} (1 entity, 0 relations)",
        f"test: 1 of 1 {what} (0 entities, 1 relation)",
    ]
    assert GRAPH.unseen == "keep"
    assert GRAPH.notes == tuple(f"{note}; drop them with unseen='drop'" for note in notes)
    graph = Graph.of(IDS, entities=ENTITIES, relations=RELATIONS, unseen="drop")
    assert graph.unseen == "drop"
    assert (graph.entities, graph.relations) == (tuple(ENTITIES[:-1]), tuple(RELATIONS[:-1]))
    assert (graph.splits["train"] == IDS["train"]).all()  # ids of train do not depend on `unseen`
    assert graph.splits["valid"].tolist() == IDS["valid"][:1].tolist()
    assert graph.splits["test"].shape == (0, 3)
    assert graph.notes == (
        *(f"{note}; left out (unseen: drop)" for note in notes),
        "1 entities and 1 relations not seen in training were removed",
    )


def test_drop_renumbers_in_order():
    train, test = [[5, 2, 1], [1, 0, 5]], [[1, 0, 5], [1, 1, 5], [3, 0, 1], [1, 0, 9]]
    graph = Graph.of(train, test=test, unseen="drop", entities=[f"e{i}" for i in range(12)])
    assert (graph.entities, graph.relations) == (("e1", "e5"), ("0", "2"))
    assert graph.splits["train"].tolist() == [[1, 1, 0], [0, 0, 1]]
    assert graph.splits["test"].tolist() == [[0, 0, 1]]
    assert Graph.of([[0, 0, 1]], test=[[0, 0, 2]], unseen="drop").entities == range(2)


def test_findings():
    graph = Graph.of(
        [[0, 0, 1], [0, 0, 1], [1, 0, 1], [0, 0, 1]],
        valid=[[0, 0, 1], [1, 0, 0]],
        test=[[1, 0, 0], [1, 0, 0], [2, 1, 2]],
        entities=["a", "b", "c", "d", "e"],
        relations=2,
    )
    assert graph.findings() == [
        ("ok", "5 entities, 2 relations"),
        ("ok", "train: 4 triples"),
        ("ok", "valid: 2 triples"),
        ("ok", "test: 3 triples"),
        ("note", "train: 2 of 4 triples are duplicates"),
        ("note", "test: 1 of 3 triples are duplicates"),
        ("warning", "valid: 1 of 2 triples are also in train"),
        ("warning", "test: 2 of 3 triples are also in valid"),
        (
            "note",
            "test: 1 of 3 triples have an entity or relation not seen in training "
            "(1 entity, 1 relation); drop them with unseen='drop'",
        ),
        ("note", "2 entities and 0 relations are in no triple"),
        ("ok", "2 triples have the same head and tail"),
    ]
    assert graph.notes == tuple(text for severity, text in graph.findings() if severity != "ok")
    assert {severity for severity, _ in Graph.of([[0, 0, 1]], test=[[1, 0, 0]]).findings()} == {"ok"}
    assert Graph.of([[0, 0, 1]], valid=[], test=[[1, 0, 0]]).notes == ()


def test_keys_do_not_overflow():
    """A single key of head, relation and tail would need 10^27 numbers here, and wrap around."""
    random = np.random.default_rng(0)
    few = [random.choice(LARGEST // 1000, 4) * 1000 + 999 for _ in range(3)]
    triples = np.stack([random.choice(ids, 300) for ids in few], 1)
    graph = Graph(
        "huge", range(LARGEST), range(LARGEST), {"train": triples[:200], "test": triples[200:]}
    )
    keys = graph._keys()
    assert len(np.unique(keys["train"])) == len({*map(tuple, triples[:200].tolist())})
    common = {*map(tuple, triples[:200].tolist())} & {*map(tuple, triples[200:].tolist())}
    assert len(np.intersect1d(keys["train"], keys["test"])) == len(common)
    assert (keys["train"] >= 0).all()


def test_numbers_as_names(tmp_path):
    rows = [(i, 0, (i + 1) % 11) for i in range(11)]
    graph = load(put(tmp_path, train__txt=lines(rows)))
    assert graph.entities[:3] == ("0", "1", "10")
    assert "entities are named 0, 1, 2, ... but have other ids" in graph.notes[0]
    assert load(put(tmp_path / "ten", train__txt=lines([(i, 0, i) for i in range(10)]))).notes == ()


# Invalid files ------------------------------------------------------------------

GOOD = "a\tr\tb\n" * 3
TRUNCATED = gzip.compress(np.random.default_rng(0).bytes(999))[:500]
BAD = {
    "nothing there": ({}, "folder: no splits; got an empty folder; allowed: train, valid, test as .txt"),
    "no splits": (
        dict(readme__md="x"),
        "folder: no splits; got readme.md; allowed: train, valid, test as",
    ),
    "no train": (dict(test__txt=GOOD), "folder: no train split; got test.txt; allowed"),
    "two files": (
        dict(train__txt=GOOD, train__txt__gz=GOOD),
        "two files for train; got train.txt and train",
    ),
    "two stems": (dict(train__txt=GOOD, val__txt=GOOD, dev__txt=GOOD), "valid; got dev.txt and val.txt"),
    "two kinds": (openke() | text("txt"), "two files for test; got test.txt and test2id.txt; keep one"),
    "two layouts": (
        dict(train__txt=GOOD, test__npy=b""),
        r"more than one layout; got test.npy \(NumPy\) and train.txt \(text\)",
    ),
    "ragged": (dict(train__txt=GOOD + "a\tb\n"), "train.txt:4: expected 3 fields; got 2 fields; fix"),
    "too many": (
        dict(train__txt=GOOD + "a\tb\tc\td\n" + GOOD),
        "train.txt:4: expected 3 fields; got 4 fields",
    ),
    "it evens out": (dict(train__txt=GOOD + "a\tb\nc\td\te\tf\n"), "train.txt:4: .*got 2 fields"),
    "first line": (dict(train__txt="a b\n"), "train.txt:1: expected 3 fields; got 2 fields"),
    "first, comma": (dict(train__txt="a,b,c,d\n"), "train.txt:1: expected 3 fields; got 4 fields"),
    "ragged after a blank line": (
        dict(train__txt="\n" + GOOD + "a\tb\n"),
        "train.txt:5: expected 3 fields; got 2 fields",
    ),
    "only comments": (dict(train__txt="# nothing\n#\n"), "train.txt: an empty file; got only comments"),
    "blank name": (dict(train__txt=GOOD + " \tr\tb\n"), "train.txt:4: no head; got None"),
    "ragged csv": (dict(train__csv='"a",r,b\na,b\n'), "train.csv:2: expected 3 fields; got 2 fields"),
    "bad csv": (dict(train__csv='a,r,b\n"a"x,r,b\n'), "train.csv:2: not CSV; got ',' expected after"),
    "empty name": (dict(train__txt=GOOD + "a\t\tb\n"), "train.txt:4: no relation; got None"),
    "empty name, csv": (dict(train__csv='h,r,t\n"a",r,b\n,r,"c"\n'), "train.csv:3: no head"),
    "empty": (dict(train__txt=""), "train.txt: an empty file"),
    "only header": (dict(train__csv="head,relation,tail\n"), "train.csv: no triples, only a header"),
    "binary": (dict(train__txt=b"a\tr\tb\n\0\1\2"), "train.txt: a binary file, not text"),
    "latin": (
        dict(train__txt=(GOOD + "zoë\tr\tb").encode("latin1")),
        "train.txt:4: not UTF-8; got byte 0xeb",
    ),
    "not OpenKE's": (openke() | dict(train2id__txt="0 1 0\n"), "train2id.txt: an empty file"),
    "no count": (
        openke() | dict(train2id__txt="0 1 0\n0 1 0\n"),
        "txt:1: wrong count .* got '0 1 0' before 1 l",
    ),
    "wrong count": (
        openke() | dict(test2id__txt="2\n0 1 0\n"),
        "test2id.txt:1: wrong count of lines",
    ),
    "word for id": (
        openke() | dict(test2id__txt="1\n0 x 0\n"),
        "test2id.txt:2: tail must be a whole.*'x'",
    ),
    "id too large": (
        openke() | dict(test2id__txt="2\n0 1 0\n0 99 0\n"),
        "test2id.txt:3: not the id of a tail; got 99; allowed: whole numbers from 0 to 8",
    ),
    "name twice": (
        openke() | dict(relation2id__txt="2\na b\t0\na b\t1\n"),
        "n2id.txt:3: duplicate name",
    ),
    "id twice": (
        openke() | dict(relation2id__txt="2\na\t0\nb\t0\n"),
        "relation2id.txt:3: duplicate id",
    ),
    "ids with holes": (
        text("txt") | dict(entities__dict="0\ta\n2\tb\n"),
        "t:2: ids must run from 0 to 1; got",
    ),
    "id is a word": (
        text("txt") | dict(entities__dict="a\t0\n"),
        "entities.dict:1: id must be a whole number",
    ),
    "no name": (text("txt") | dict(entities__dict="0\t\n"), "entities.dict:1: empty name"),
    "not in the dict": (
        text("txt") | DICTS | dict(entities__dict="0\t北京\n1\t中国\n"),
        "train.txt:2: head is not in entities.dict; got 'القاهرة'",
    ),
    "truncated": (
        dict(train__txt=TRUNCATED),
        "cannot read .*train.txt; got an end before all was read; it may be damaged",
    ),
    "no Parquet": (dict(train__parquet=b"PAR1"), "cannot read .*train.parquet"),
    "no NumPy": (dict(train__npy=b"1 2 3"), "cannot read .*train.npy"),
    "pickle": (
        dict(train__npy=npy(np.array([[{}] * 3]))),
        "cannot read .*train.npy; got an array of type object",
    ),
    "no triples": (
        dict(train__parquet=parquet(pl.DataFrame({"head": ["a"], "b": [1]}))),
        r"train.parquet has no triples; got columns head, b; allowed: head, relation, tail\[, split\]",
    ),
    "floats": (
        dict(train__parquet=parquet(pl.DataFrame({"head": ["a"], "relation": [0.5], "tail": ["b"]}))),
        "relation must be text or whole numbers; got Float64",
    ),
    "mixed": (
        dict(train__parquet=parquet(pl.DataFrame({"head": ["a"], "relation": ["r"], "tail": [1]}))),
        "the entities mix names and ids; got Int64 and String",
    ),
    "empty cell": (
        dict(train__parquet=parquet(pl.DataFrame({"head": ["a", ""], "relation": "r", "tail": "b"}))),
        "train.parquet row 1: no head; got None",
    ),
    "no split column": (
        dict(all__parquet=parquet(whole().drop("split"))),
        "all.parquet has no column split",
    ),
    "no train in it": (dict(all__parquet=parquet(whole()[5:])), "no train split; got valid, test"),
    "no split in a row": (
        dict(all__parquet=parquet(whole().with_columns(split=pl.lit(None, pl.String)))),
        "all.parquet row 0: no split",
    ),
    "split twice": (
        dict(all__parquet=parquet(whole().with_columns(pl.col("split").replace("test", "dev")))),
        "two names of the split valid; got 'dev'",
    ),
    "negative id": (
        {f"{s}__parquet": parquet(pl.DataFrame(-a, schema=PARTS)) for s, a in IDS.items()},
        "train.parquet row 0: not the id of a head; got -",
    ),
    "shape": (dict(train__npy=npy(np.zeros((3, 2), int))), r"train must be an array of ids.*\(3, 2\)"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files(case, tmp_path):
    files, message = BAD[case]
    folder = put(tmp_path / "folder", **files)
    with raises(message) as caught:
        load(folder)
    assert "\n" not in str(caught.value)


def test_bad_paths(tmp_path):
    with raises(
        "no such folder or benchmark; got 'nowhere'; allowed: a folder, a Parquet file, or .*nations"
    ):
        load("nowhere")
    with raises("no such folder or benchmark; got .*missing"):
        load(tmp_path / "missing")
    put(tmp_path, train__txt=GOOD)
    with raises("a graph is loaded from a folder or a Parquet file; got .*train.txt; pass its folder"):
        load(tmp_path / "train.txt")
    put(tmp_path / "zip", train__txt="").joinpath("train.txt").rename(tmp_path / "zip" / "train.txt.gz")
    (tmp_path / "zip" / "train.txt.gz").write_text(GOOD)
    with raises("cannot read .*train.txt.gz; got no gzipped file, or a damaged one; it may be"):
        load(tmp_path / "zip")


def test_data_needs_polars_only_to_read():
    code = (
        "import sys, evenrank.graphs as d; d.Graph.of([[0, 0, 1]]).hash; print('polars' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"


# Real graphs ---------------------------------------------------------------------------------

ROOT = shared.FOLDER / "datasets" if shared.PRESENT else substitute.folder()
SHARED = sorted(file.parent for file in ROOT.rglob("train*.txt.gz"))


@pytest.mark.parametrize("folder", SHARED, ids=[folder.name for folder in SHARED])
def test_shared_graphs_load(folder):
    graph = load(folder)
    assert list(graph.splits) == ["train", "valid", "test"]
    assert graph.name == folder.name
    for split, triples in graph.splits.items():
        with gzip.open(next(folder.glob(f"{split}*"))) as file:
            assert len(triples) == sum(1 for _ in file) - graph.name.endswith("openke")


@pytest.mark.parametrize("name", substitute.NAMES)
def test_graphs_of_every_layout_have_what_was_written(name):
    """Names, triples and hash, against sets and loops of plain Python."""
    graph, about = load(substitute.folder() / name), substitute.facts(name)
    assert (sorted(graph.entities), sorted(graph.relations)) == (about.entities, about.relations)
    for split, rows in substitute.splits(name).items():
        assert [
            (graph.entities[h], graph.relations[r], graph.entities[t]) for h, r, t in graph.splits[split]
        ] == [*rows]
    assert graph.hash == about.hash
    shown = load(substitute.folder() / name, unseen="drop")
    assert (sorted(shown.entities), sorted(shown.relations)) == (
        about.kept_entities,
        about.kept_relations,
    )
    for side in ("tail", "head"):
        wanted = substitute.candidates(name, "valid", side)
        assert shown.task("valid", sides=side).candidates.tolist() == wanted


def test_layouts_of_the_same_triples_are_the_same_graph():
    graphs = [load(substitute.folder() / name) for name in substitute.MADE]
    assert len({graph.hash for graph in graphs}) == 1
    assert load(substitute.folder() / substitute.PAIR[0]).hash != graphs[0].hash


def test_an_inference_graph_has_the_relations_and_none_of_the_entities():
    graph, inference = (load(substitute.folder() / name) for name in substitute.PAIR)
    assert {*graph.relations} == {*inference.relations}
    assert {*graph.entities}.isdisjoint(inference.entities)


COUNTS = (
    [
        ("fb15k237", 14_505, 237, [272_115, 17_526, 20_438]),
        ("wn18rr", 40_559, 11, [86_835, 2_824, 2_924]),
        ("wn18-openke", 40_943, 18, [141_442, 5_000, 5_000]),
        ("wd50k", 40_107, 473, [164_631, 22_429, 45_284]),
    ]
    if shared.PRESENT
    else [
        (name, len(about.kept_entities), len(about.kept_relations), [*about.kept_counts.values()])
        for name in substitute.NAMES
        for about in [substitute.facts(name)]
    ]
)


@pytest.mark.parametrize(("name", "entities", "relations", "counts"), COUNTS)
def test_shared_counts(name, entities, relations, counts):
    graph = load(shared.path(f"datasets/{name}"), unseen="drop")
    assert (len(graph.entities), len(graph.relations)) == (entities, relations)
    assert [len(triples) for triples in graph.splits.values()] == counts


def test_shared_notes():
    name, every, asked, unseen = "fb15k237", 14_541, 20_466, (28, 29, 0)
    if not shared.PRESENT:
        name, about = "made", substitute.facts("made")
        every, asked, unseen = len(about.entities), about.counts["test"], about.unseen["test"]
    graph = load(shared.path(f"datasets/{name}"))
    assert len(graph.entities) == every
    triples, entities, relations = unseen
    kinds = "1 relation" if relations == 1 else f"{relations} relations"
    assert graph.notes[-1] == (
        f"test: {triples} of {asked:,} triples have an entity or relation not seen in training "
        f"({entities} entities, {kinds}); drop them with unseen='drop'"
    )


LARGE = ("fb15k237", "wn18rr", "codexsmall") if shared.PRESENT else ("made", *substitute.PAIR)


@pytest.mark.parametrize("name", [*LARGE, "kinships", "nations", "umls"])
def test_ids_are_those_of_pykeen(name):
    theirs, ours = shared.graph(name), load(shared.path(f"datasets/{name}"), unseen="drop")
    assert (list(ours.entities), list(ours.relations)) == (theirs.entities, theirs.relations)
    for split, triples in ours.splits.items():
        assert (triples == getattr(theirs, split)).all()
    kept = load(shared.path(f"datasets/{name}"))
    assert kept.entities[: len(theirs.entities)] == ours.entities
    assert (kept.splits["train"] == theirs.train).all()


WRONG = [
    None,
    3,
    3.5,
    True,
    [],
    [None],
    {},
    {1: 2},
    object(),
    b"x",
    (),
    "nope",
    np.zeros((2, 2)),
    -1,
    len,
]


@pytest.mark.parametrize(
    ("call", "fine"),
    [
        (er.load, ()),
        (lambda x: er.load("nations", unseen=x), ()),
        (lambda x: er.load("nations", name=x), (None, "nope")),
        (er.Graph.of, ()),
        (lambda x: er.Graph.of({"train": x}), ()),
        (lambda x: er.Graph.of([[0, 0, 1]], valid=x), (None, [], ())),
        (lambda x: er.Graph.of([[0, 0, 1]], entities=x), (None, 3)),
        (lambda x: er.Graph.of([[0, 0, 1]], name=x), ("nope",)),
        (lambda x: er.Graph.of([[0, 0, 1]], unseen=x), ()),
        (lambda x: nations().task(x), ()),
        (lambda x: nations().task(sides=x), ()),
        (lambda x: nations().task(filter=x), (None, [], {}, ())),
        (lambda x: nations().task(candidates=x), (3,)),
        (lambda x: nations().task(candidates={"tail": x, "head": x}), ()),
        (lambda x: nations().task(candidates=3, seed=x), (3,)),
        (lambda x: nations().task(outside=x), ()),
        (lambda x: nations().task(protocol=x), (None,)),
        (lambda x: nations().types(x), ()),
        (er.atlas, ()),
        (lambda x: er.atlas("nations", x), ()),
        (lambda x: er.atlas("nations", sides=x), ()),
        (lambda x: er.atlas("nations", filter=x), (None,)),
        (lambda x: er.atlas("nations", unseen=x), ()),
        (lambda x: er.strata(x, nations()), ()),
        (lambda x: er.strata(er.Ranks.of([1], 2), x), ()),
        (lambda x: er.strata(er.Ranks.of([1], 2), nations(), x), ()),
        (lambda x: er.strata(er.Ranks.of([1], 2), nations(), bins=x), ()),
    ],
)
def test_arguments_of_the_wrong_type(call, fine):
    """An InputError of one line, not a TypeError from internal code."""
    for x in WRONG:
        if any(x is value or (type(x) is type(value) and x == value) for value in fine):
            call(x)
        else:
            with pytest.raises(InputError, match=r"^[^\n]+$"):
                call(x)


@cache
def nations():
    return er.load("nations")


def test_sizes_and_triples_by_name():
    graph = er.load("nations")
    assert (graph.num_entities, graph.num_relations) == (len(graph.entities), len(graph.relations))
    assert graph.triples("test") is graph.splits["test"]
    with pytest.raises(
        er.errors.InputError, match="nations has no such split; got 'dev'; allowed: train"
    ):
        graph.triples("dev")

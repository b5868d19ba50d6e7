"""Temporal graphs: filters by time against loops in plain Python, files of times, and their mistakes."""

import datetime
import gzip
import itertools
import pickle
import random

import numpy as np
import pytest
import shared
from hypothesis import given
from hypothesis import strategies as st
from shell import run

import evenrank as er
from evenrank.errors import InputError
from evenrank.graphs import Graph, atlas, times
from evenrank.metrics.chance import NullDistribution, read_sizes

SPLITS = ("train", "valid", "test")
COLUMNS = {"tail": (0, 2), "head": (2, 0)}  # the given one, the one that is asked for


def raises(message):
    return pytest.raises(InputError, match=message)


@st.composite
def temporal(draw, *, width=None):
    """A small graph with a time, or two, in each row."""
    entities, instants = draw(st.integers(2, 5)), draw(st.integers(1, 4))
    width = width or draw(st.sampled_from((4, 5)))
    entity, time = st.integers(0, entities - 1), st.integers(0, instants - 1)
    row = st.tuples(entity, st.integers(0, 1), entity, *[time] * (width - 3))
    splits = {name: draw(st.lists(row, min_size=1, max_size=9)) for name in SPLITS}
    graph = Graph.of(splits, entities=entities, relations=2)
    return graph, {
        name: [(h, r, t, when[0], when[-1]) for h, r, t, *when in rows] for name, rows in splits.items()
    }


def others(splits, fact, side, kind):
    """The known answers, other than the target itself, that are filtered from a query, by loops."""
    given, asked = COLUMNS[side]
    found = set()
    for known in itertools.chain(*splits.values()):
        same = known[1] == fact[1] and known[given] == fact[given] and known[asked] != fact[asked]
        meets = {
            "aware": known[3:] == fact[3:],
            "overlap": fact[3] <= known[4] and known[3] <= fact[4],
            "agnostic": True,
        }
        if same and meets[kind]:
            found.add(known[asked])
    return found


@given(
    made=temporal(),
    side=st.sampled_from(("tail", "head")),
    kind=st.sampled_from(("aware", "overlap", "agnostic")),
    split=st.sampled_from(SPLITS),
)
def test_filters_by_time_agree_with_loops(made, side, kind, split):
    graph, splits = made
    entities = len(graph.entities)
    wanted = [entities - len(others(splits, fact, side, kind)) for fact in splits[split]]
    assert graph.task(split, sides=side, time=kind).candidates.tolist() == wanted
    assert graph.task(split, sides=side, filter=None).candidates.tolist() == [entities] * len(wanted)
    if kind != "overlap":
        sizes = er.atlas(graph, split, side, time=kind)
        assert dict(zip(sizes["candidates"].tolist(), sizes.counts.tolist(), strict=True)) == {
            size: wanted.count(size) for size in set(wanted)
        }


@given(temporal(width=4))
def test_at_points_of_time_overlap_is_the_same_time(made):
    graph, _ = made
    aware, overlap = (graph.task("test", time=kind) for kind in ("aware", "overlap"))
    assert aware.candidates.tolist() == overlap.candidates.tolist()
    assert not graph.intervals
    assert graph.task("test").candidates.tolist() == aware.candidates.tolist()  # the default


@given(made=temporal(), kind=st.sampled_from(("aware", "agnostic", "overlap")))
def test_ranks_of_a_temporal_scorer_agree_with_loops(made, kind):
    """The scorer sees the time of the query, so that equal triples at two times have two ranks."""
    graph, splits = made
    entities = len(graph.entities)
    table = np.random.default_rng(3).permutation(entities * entities * 2 * 4 * 4)
    table = table.reshape(entities, 2, entities, 4, 4).astype(float)

    def score(queries, candidates):
        ids = np.broadcast_to(np.arange(entities)[candidates], (len(queries), entities))
        h, r, t = (np.where(column == -1, ids, column) for column in queries[:, :3].T[:, :, None])
        first, last = queries[:, 3], queries[:, -1]
        return table[h, r, t, first[:, None], last[:, None]]

    ranks = er.rank(score, graph.task("test", time=kind), progress=False)
    wanted = []
    for side in ("tail", "head"):
        _, asked = COLUMNS[side]
        for fact in splits["test"]:

            def value(entity, fact=fact, asked=asked):
                triple = [*fact]
                triple[asked] = entity
                return table[tuple(triple)]

            left = set(range(entities)) - others(splits, fact, side, kind)
            wanted.append(1 + sum(value(e) > value(fact[asked]) for e in left))
    assert (ranks.better + 1).tolist() == wanted
    assert set(ranks.keys) >= {"head", "relation", "tail", "side", "time"}


def test_z_scores_know_that_queries_at_different_times_share_nothing():
    """The variance under random scorers, from the task and from its ranks, against simulation."""
    draw = np.random.default_rng(5)
    rows = np.column_stack([draw.integers(0, n, 120) for n in (8, 2, 8, 3)])
    graph = Graph.of(rows[:60], test=rows[60:], entities=8, relations=2)
    task = graph.task("test")
    for metric in (er.MRR, er.MR):
        exact = NullDistribution(metric, read_sizes(task.candidates), dependence=task.dependence()).std()
        simulated = task.simulated(metric, 20_000, 0).std()
        assert float(exact) == pytest.approx(simulated, rel=0.03)
    ranks = er.rank(lambda q, c: np.zeros((len(q), 8))[:, c], task, progress=False)
    known = NullDistribution(er.MR, read_sizes(task.candidates), dependence=ranks.dependence()).std()
    assert float(known) == pytest.approx(simulated, rel=0.05)  # shared triples are estimated


def test_the_tkbc_preset_ranks_as_its_loop_does():
    """Filtered at the time of the query, by all splits; every tie is above the target."""
    draw = np.random.default_rng(1)
    rows = np.column_stack([draw.integers(0, n, 90) for n in (6, 2, 6, 2)])
    graph = Graph.of(rows[:40], rows[40:60], rows[60:], entities=6, relations=2)
    table = draw.integers(0, 3, (6, 2, 6, 2)).astype(float)

    def score(queries, candidates):
        ids = np.broadcast_to(np.arange(6)[candidates], (len(queries), 6))
        h, r, t = (np.where(column == -1, ids, column) for column in queries[:, :3].T[:, :, None])
        return table[h, r, t, queries[:, 3:4]]

    ranks = er.rank(score, graph.task("test", sides="tail", protocol="tkbc"), progress=False)
    wanted = []
    for h, r, t, when in rows[60:].tolist():
        scores = table[h, r, :, when].copy()
        target = scores[t]
        out = {o for a, b, o, c in rows.tolist() if (a, b, c) == (h, r, when)}
        scores[[*out, t]] = -1e6
        wanted.append(1 + int((scores >= target).sum()))
    assert ranks.evaluate("mr")["mr"] == pytest.approx(np.mean(wanted), rel=1e-12)
    assert ranks.evaluate("mr").protocol.ties == "pessimistic"


def test_static_models_ignore_the_time():
    draw = np.random.default_rng(2)
    table = draw.normal(size=(9, 4))
    model = er.Factored("dot", table, lambda queries: table[np.maximum(queries[:, 0], queries[:, 2])])
    rows = np.column_stack([draw.integers(0, n, 30) for n in (9, 2, 9, 3)])
    graph = Graph.of(rows, test=rows[:10], entities=9)
    embedded = er.models.DistMult(entity=table, relation=draw.normal(size=(2, 4)))
    for one in (model, embedded):
        assert len(er.rank(one, graph.task("test"), progress=False)) == 20


def test_the_shell_chooses_the_filter_by_time(tmp_path):
    rows = [[0, 0, 1, 0], [0, 0, 2, 1], [3, 0, 1, 1], [0, 0, 3, 1]]
    folder = write(tmp_path / "g", train="".join("\t".join(map(str, r)) + "\n" for r in rows))
    table = np.random.default_rng(2).normal(size=(5, 4))
    model = er.models.DistMult(entity=table[:4], relation=table[4:])
    er.models.save(model, tmp_path / "m.safetensors")
    graph = er.load(folder)
    for time in ("aware", "overlap", "agnostic"):
        file = tmp_path / f"{time}.parquet"
        said = ("--split", "train", "--time", time, "--quiet", "-o", file)
        run("rank", tmp_path / "m.safetensors", "--data", folder, *said)
        ranks = er.Ranks.load(file)
        assert ranks.candidates.tolist() == graph.task("train", time=time).candidates.tolist()
        assert ranks.protocol.extra["time"] == f"{time} filter"


def test_times_belong_to_the_graph():
    rows = [[0, 0, 1, 2], [0, 0, 1, 3], [1, 0, 0, 2]]
    graph = Graph.of(rows, test=[[0, 0, 2, 2]])
    other = Graph.of([[0, 0, 1, 2], [0, 0, 1, 2], [1, 0, 0, 2]], test=[[0, 0, 2, 2]])
    assert graph.hash != other.hash
    assert not [note for note in graph.notes if "duplicate" in note]  # at two times
    assert "train: 1 of 3 triples are duplicates" in other.notes
    assert graph.temporal
    assert not Graph.of([[0, 0, 1]]).temporal
    again = pickle.loads(pickle.dumps(graph))
    assert again.hash == graph.hash
    assert again.times["train"].tolist() == [[2, 2], [3, 3], [2, 2]]
    assert not again.times["train"].flags.writeable
    kept = Graph.of(rows, test=[[0, 0, 2, 2], [1, 0, 0, 1]]).drop_unseen()
    assert kept.times["test"].tolist() == [[1, 1]]
    assert "times" in str(graph)
    assert graph.task().protocol.extra["time"] == "aware filter"
    assert graph.task(time="agnostic").protocol.extra["time"] == "agnostic filter"
    assert graph.task(filter=None).protocol.extra["time"] == "no filter"


def test_arrays_and_filters_that_cannot_be_used():
    with raises(r"the splits have different numbers of columns; got train 4, test 3"):
        Graph.of([[0, 0, 1, 2]], test=[[0, 0, 1]])
    for wrong in (-1, 0.5, 2**53):
        with raises(
            rf"train row 0: not the id of a time; got {wrong}.*; allowed: a whole number from 0 to"
        ):
            Graph.of([[0, 0, 1, wrong]])
    with raises(r"train must be an array of ids, a row per triple; got shape \(1, 6\) of int64"):
        Graph.of([[0, 0, 1, 2, 3, 4]])
    with raises(r"the triples of graph have no times; leave out time='aware'"):
        Graph.of([[0, 0, 1]]).task("train", time="aware")
    temporal_graph = Graph.of([[0, 0, 1, 2]])
    with raises(
        r"the protocol tkbc filters known answers at the time of the query; got 'agnostic'; leave"
    ):
        temporal_graph.task("train", protocol="tkbc", time="agnostic")
    assert len(temporal_graph.task("train", protocol="tkbc", time="aware")) == 2
    with raises(r"unknown filter by time; got 'never'; allowed: aware, overlap, agnostic"):
        Graph.of([[0, 0, 1, 2]]).task("train", time="never")


# Files --------------------------------------------------------------------------------------------


def write(folder, **files):
    folder.mkdir(exist_ok=True, parents=True)
    for name, text in files.items():
        (folder / f"{name}.txt").write_text(text)
    return folder


def test_points_of_time_as_numbers_and_as_dates_are_the_same(tmp_path):
    numbers = "0\t1\t1\t3\n1\t0\t2\t5\n2\t0\t0\t3\n"
    dates = numbers.replace("\t3\n", "\t2014-05-30\n").replace("\t5\n", "\t2014-05-31\n")
    first = er.load(write(tmp_path / "numbers", train=numbers, test="0\t0\t2\t5\n"))
    second = er.load(write(tmp_path / "dates", train=dates, test="0\t0\t2\t2014-05-31\n"))
    assert first.instants == range(6)
    assert second.instants == ("2014-05-30", "2014-05-31")
    assert first.times["train"].tolist() == [[3, 3], [5, 5], [3, 3]]
    assert second.times["train"].tolist() == [[0, 0], [1, 1], [0, 0]]
    assert (first.entities, first.relations) == (range(3), range(2))  # whole numbers are ids
    assert first.task().candidates.tolist() == second.task().candidates.tolist()
    assert second.task().keys["time"].tolist() == ["2014-05-31"] * 2


def test_names_separators_and_headers(tmp_path):
    lines = "head,relation,tail,time\nBonn,capital of,Germany,1985\nBerlin,capital of,Germany,1995\n"
    graph = er.load(write(tmp_path, train=lines))
    assert graph.entities == ("Berlin", "Bonn", "Germany")
    assert [graph.instants[i] for i in graph.times["train"][:, 0]] == [1985, 1995]
    assert er.load(tmp_path).task("train", sides="head").candidates.tolist() == [3, 3]
    assert er.load(tmp_path).task("train", sides="head", time="agnostic").candidates.tolist() == [2, 2]


def test_intervals_with_unknown_ends(tmp_path):
    rows = [
        "0\t0\t1\t1990-##-##\t1999-##-##",
        "0\t0\t2\t1999-12-31\t####-##-##",
        "0\t0\t3\t####-##-##\t1989-##-##",
        "0\t0\t4\t19##-##-##\t2001-02-##",
    ]
    graph = er.load(write(tmp_path, train="\n".join(rows) + "\n"))
    assert graph.intervals
    named = [[graph.instants[i] for i in row] for row in graph.times["train"].tolist()]
    assert named == [
        ["1990-01-01", "1999-12-31"],
        ["1999-12-31", "open end"],
        ["open start", "1989-12-31"],
        ["1900-01-01", "2001-02-28"],
    ]
    # the first and the second share one day; the third ends before them; the fourth meets all
    task = graph.task("train", sides="tail", time="overlap")
    assert task.candidates.tolist() == [5 - 2, 5 - 2, 5 - 1, 5 - 3]
    assert graph.task("train", sides="tail").candidates.tolist() == [5] * 4
    assert graph.task("train", sides="tail").keys["time"][0] == "1990-01-01 to 1999-12-31"


def test_a_constant_fifth_column_is_no_end_of_an_interval(tmp_path):
    """RE-NET's files end with a column of 0 or -1."""
    for constant in ("0", "-1"):
        train = f"0\t0\t1\t0\t{constant}\n1\t0\t0\t24\t{constant}\n"
        graph = er.load(write(tmp_path / constant, train=train, test=f"0\t0\t1\t48\t{constant}\n"))
        assert graph.times["train"].tolist() == [[0, 0], [24, 24]]
        assert graph.remarks == (f"the fifth column is {constant} in all lines, and is left out",)


def test_dictionaries_name_ids(tmp_path):
    names = {"entity2id": "Bonn\t1\nUlm\t0\n", "relation2id": "near\t0\n"}
    ids = er.load(write(tmp_path / "ids", train="0\t0\t1\t7\n", **names))
    assert (ids.entities, ids.relations) == (("Ulm", "Bonn"), ("near",))
    counted = {name: f"{text.count(chr(10))}\n{text}" for name, text in names.items()}
    again = er.load(write(tmp_path / "counted", train="Ulm\tnear\tBonn\t7\n", **counted))
    assert again.hash == ids.hash


BAD = (
    *(
        "2014-02-30",
        "2014-13-01",
        "31.05.2014",
        "2014/05/31",
        "2014-05-31T12",
        "####-05-##",
        "-",
        "None",
    ),
    "12345",  # an id, unless others are dates
)


@pytest.mark.parametrize("text", BAD)
def test_a_bad_date_is_named_by_file_and_line(text, tmp_path):
    train = "a\tr\tb\t2014-01-01\nb\tr\tc\t2014-01-02\n"
    folder = write(tmp_path, train=train, test=f"a\tr\tc\t2014-01-01\nc\tr\ta\t{text}\n")
    with raises(
        rf"test.txt:2: not a time; got {text!r}; allowed: dates such as 2014-05-31, with # for unknown "
        "digits; or whole numbers in all lines; correct the line, or remove the columns after the third "
    ):
        er.load(folder)


@pytest.mark.parametrize("ends", ["None", "-", "unknown\t2014", "2014\t-"])
def test_a_bad_date_in_the_first_line_is_named_too(ends, tmp_path):
    """Rather than the number of columns, if others of the first lines have times."""
    other = "2015\t2016" if "\t" in ends else "2015"
    folder = write(tmp_path, train=f"a\tr\tb\t{ends}\nb\tr\tc\t{other}\n")
    wrong = next(part for part in ends.split("\t") if part != "2014")
    with raises(rf"train.txt:1: not a time; got {wrong!r}; allowed"):
        er.load(folder)


def test_seconds_since_1970_are_ids_of_times(tmp_path):
    """Without an array of all ids up to them."""
    train = "a\tr\tb\t1388534400\nb\tr\tc\t1401494400000\n"
    graph = er.load(write(tmp_path, train=train, test="a\tr\tc\t1388534400\n"))
    assert "times      2" in str(graph)  # that occur, not all ids
    assert any(text == "2 times; triples hold at time points" for _, text in graph.findings())
    task = graph.task("test", sides="tail")
    assert task.candidates.tolist() == [2]
    assert task.keys["time"].tolist() == [1388534400]
    assert er.atlas(graph)["candidates"].tolist() == [2, 3]
    spans = Graph.of([[0, 0, 1, 1388534400, 1401494400]], test=[[0, 0, 2, 1388534400, 1388534401]])
    assert spans.task("test", sides="tail", time="overlap").candidates.tolist() == [2]
    assert spans.task("test", sides="tail").keys["time"].tolist() == ["1388534400 to 1388534401"]


def test_days_whose_year_may_come_last_are_noted(tmp_path):
    graph = er.load(write(tmp_path, train="a\tr\tb\t31-05-14\nb\tr\tc\t30-06-14\n"))
    assert graph.remarks == ("30-06-14 is read as a day of the year 30",)
    assert graph.instants == ("0030-06-14", "0031-05-14")


def test_a_missing_time_and_splits_of_different_width_are_named(tmp_path):
    folder = write(tmp_path / "empty", train="a\tr\tb\t2014\nb\tr\tc\t\n")
    with raises(r"train.txt:2: not a time; got no time; allowed"):
        er.load(folder)
    folder = write(tmp_path / "widths", train="a\tr\tb\t2014\n", test="a\tr\tb\n")
    with raises(r"widths: the files have different numbers of columns; got train 4, test 3"):
        er.load(folder)
    folder = write(tmp_path / "ragged", train="a\tr\tb\t2014\nb\tr\tc\n")
    with raises(r"train.txt:2: expected 4 fields; got 3 fields"):
        er.load(folder)
    folder = write(tmp_path / "pair", train="a\tr\tb\t2014\n", inference="c\tr\td\t2014\n")
    with raises("an inference graph with times is not supported"):
        er.load(folder)


@given(st.dates(min_value=datetime.date(1, 1, 1)))
def test_days_are_numbered_as_the_calendar_does(day):
    first = times._number(1, 1, 1)
    assert times._number(day.year, day.month, day.day) - first == day.toordinal() - 1
    assert (
        times._iso(times._number(day.year, day.month, day.day)) == f"{day.year:04}{day.isoformat()[4:]}"
    )
    assert times._days(day.isoformat()) == (times._number(day.year, day.month, day.day),) * 2


def test_unknown_digits_are_all_days_that_fit():
    """Against a search through all days of some years."""
    draw = random.Random(4)
    span = [datetime.date(1995, 1, 1) + datetime.timedelta(days=i) for i in range(365 * 8)]
    for _ in range(300):
        text = draw.choice(span).isoformat()
        hidden = [i for i in range(3, 10) if text[i] != "-" and draw.random() < 0.3]
        masked = "".join("#" if i in hidden else c for i, c in enumerate(text))
        if "#" in masked[5:7] and int(masked[8:].replace("#", "0")) > 28:
            continue  # a day that some of the months lack
        fits = [
            day
            for day in (datetime.date(1990, 1, 1) + datetime.timedelta(days=i) for i in range(7305))
            if all(c in ("#", d) for c, d in zip(masked, day.isoformat(), strict=True))
        ]
        first, last = times._days(masked)
        found = times._iso(first), times._iso(last)
        assert found == (fits[0].isoformat(), fits[-1].isoformat()), masked


def test_times_before_the_year_one():
    first, last = times._days("-044-03-##")
    assert (times._iso(first), times._iso(last)) == ("-0044-03-01", "-0044-03-31")
    assert times._number(-1, 12, 31) + 1 == times._number(0, 1, 1)
    assert times._number(0, 12, 31) + 1 == times._number(1, 1, 1)


# The published files ------------------------------------------------------------------------------


@shared.needs("benchmarks/temporal")
@pytest.mark.parametrize("name", ["icews14-temp", "wikidata12k-atise"])
def test_published_counts_agree_with_sets(name):
    """The atlas, and dictionaries of sets over the lines of the files."""
    folder = shared.path(f"benchmarks/temporal/{name}")
    rows = {
        split: [
            tuple(line.split("\t"))
            for line in gzip.decompress((folder / f"{split}.txt.gz").read_bytes()).decode().split("\n")
            if line
        ]
        for split in SPLITS
    }
    graph = er.load(folder)
    for side, time in itertools.product(("tail", "head"), ("aware", "agnostic")):
        given, asked = COLUMNS[side]
        known = {}
        for row in itertools.chain(*rows.values()):
            key = (row[1], row[given], *(row[3:] if time == "aware" else ()))
            known.setdefault(key, set()).add(row[asked])
        wanted = {}
        for row in rows["test"]:
            key = (row[1], row[given], *(row[3:] if time == "aware" else ()))
            size = len(graph.entities) - len(known[key]) + 1
            wanted[size] = wanted.get(size, 0) + 1
        sizes = er.atlas(name, "test", side, time=time)
        assert dict(zip(sizes["candidates"].tolist(), sizes.counts.tolist(), strict=True)) == wanted


def test_own_temporal_graphs_have_two_names_in_the_atlas(tmp_path, monkeypatch):
    monkeypatch.setenv("EVENRANK_ATLAS", str(tmp_path))
    graph = Graph.of([[0, 0, 1, 0], [0, 0, 2, 1]], test=[[0, 0, 3, 1]], name="mine")
    atlas.add([atlas.build(graph)])
    assert er.atlas("mine") == er.atlas(graph)
    assert er.atlas("mine", time="agnostic") == er.atlas("mine-agnostic")
    assert er.atlas("mine-agnostic") == er.atlas(graph, time="agnostic")
    assert er.atlas("mine-agnostic") != er.atlas("mine")

"""Protocols: each preset gives the ranks of its library; and each rule by itself, counted in loops."""

import itertools
import json
import math
import pickle
import sys
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import evenrank as er
from evenrank.cli import app
from evenrank.ranks import presets as protocols
from evenrank.ranks.presets import PRESETS
from reference import protocols as reference

KEPT = reference.read()
PROBLEM = reference.problem(KEPT)
LIBRARIES = tuple(name for name in PRESETS if name in KEPT)  # other settings: test_temporal, test_grail
RANKED = [(name, split) for name in LIBRARIES for split in ("test", "valid") if split in KEPT[name]]


def raises(*parts):
    """Expect an error of one line with all of these parts."""
    return pytest.raises(
        er.errors.InputError, match="(?s)^(?!.*\n)" + "".join(f"(?=.*{p})" for p in parts)
    )


def table(scores):
    """Look triples up: scores[relation, head, tail]."""

    def scorer(queries, candidates):
        ids = candidates
        if isinstance(candidates, slice):
            ids = np.arange(candidates.start, candidates.stop)
        ids = np.broadcast_to(ids, (len(queries), ids.shape[-1]))
        h, r, t = (np.where(column == -1, ids, column) for column in queries.T[:, :, None])
        return scores[r, h, t]

    return scorer


def ranked(name, split="test", problem=PROBLEM, **options):
    """Rank the reference problem by a preset."""
    unseen = PRESETS[name].unseen
    graph = er.Graph.of(problem.splits, entities=problem.entities, unseen=unseen)
    entities = np.array(list(graph.entities), dtype=int)  # those that are left, by their old numbers
    if name == "ogb":
        options = {"candidates": problem.negatives, **options}
    task = graph.task(split, protocol=name, **options)
    return er.rank(table(problem.scores[:, entities][:, :, entities]), task, progress=False)


def settled(ranks):
    """The ranks that the tie rule gives, tails first."""
    low, high = ranks.better + 1, ranks.better + ranks.equal + 1
    rules = {"optimistic": low, "pessimistic": high, "realistic": (low + high) / 2}
    return {**rules, "rounded": np.ceil((low + high) / 2)}[ranks.ties].tolist()


# The libraries ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "split"), RANKED)
def test_each_preset_equals_its_library(name, split):
    """Rank by rank, as the library's own code gave them (see reference/protocols.py)."""
    ranks, said = ranked(name, split), KEPT[name][split]
    want = np.array([*said["tail"], *said["head"]], dtype=float)
    if name == "rotate":  # ties stand as the sort left them, see below
        assert ((ranks.better + 1 <= want) & (want <= ranks.better + ranks.equal + 1)).all()
        assert (ranks.equal > 0).any()
        return
    assert settled(ranks) == want.tolist()
    got = ranks.evaluate("mrr", "mr", "hits@3")
    assert got["mrr"] == pytest.approx((1 / want).mean(), rel=1e-12)
    assert got["mr"] == pytest.approx(want.mean(), rel=1e-12)
    assert got["hits@3"] == pytest.approx((want <= 3).mean(), rel=1e-12)
    assert got.protocol.ties == PRESETS[name].ties


def test_presets_differ():
    """The same scores on the same triples: eight libraries, eight numbers."""
    values = {name: ranked(name).evaluate("mrr")["mrr"] for name in LIBRARIES}
    assert len({round(value, 9) for value in values.values()}) == len(LIBRARIES) == 8
    assert max(values.values()) / min(values.values()) > 1.2


def test_openke_with_types():
    """Types are what all splits show, as in the files that come with OpenKE."""
    ranks, said = ranked("openke", candidates="typed"), KEPT["openke"]["typed"]
    assert settled(ranks) == [*said["tail"], *said["head"]]
    assert settled(ranks) != settled(ranked("openke"))
    assert str(ranks.protocol.candidates) == "typed, as seen in train, valid, test, targets added"


@pytest.mark.parametrize(
    ("kept", "splits"), [("typed", ("train", "valid", "test")), ("narrow", ("train",))]
)
def test_openke_with_a_file_of_types(tmp_path, kept, splits):
    """Targets that are not of their type are ranked among those that are nevertheless."""
    path = tmp_path / "type_constrain.txt"
    path.write_text(reference.type_constrain(PROBLEM, splits))
    said = KEPT["openke"][kept]
    assert settled(ranked("openke", candidates=path)) == [*said["tail"], *said["head"]]
    assert KEPT["openke"]["typed"] != KEPT["openke"]["narrow"]


def test_rotate_over_all_numberings():
    """Its sort is not stable: what is defined is the mean over all ways to number the entities."""
    small = reference.problem(KEPT, "small")
    ranks, said = ranked("rotate", problem=small), KEPT["rotate"]["mean"]
    want = [*said["tail"], *said["head"]]
    got = [ranks[i].evaluate("mrr")["mrr"] for i in range(len(ranks))]
    assert (ranks.equal > 0).any()
    assert got == pytest.approx(want, rel=1e-12)


@pytest.mark.parametrize("name", ["pykeen", "torchkge", "ogb", "dgl-ke"])
@pytest.mark.filterwarnings("ignore")
def test_the_reference_agrees_with_the_installed_library(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "outdated", None)  # by it OGB asks the network for newer versions
    if any(find_spec(package) is None for package in ("torch", name.replace("-", ""))):
        pytest.skip(f"{name} is not installed (extra: peers)")
    assert reference.run(name, KEPT) == KEPT[name]


def test_pykeen_ranks_a_triple_once():
    """Its factories drop duplicate triples; the other libraries rank each duplicate."""
    twice = {
        **PROBLEM.splits,
        "test": np.concatenate([PROBLEM.splits["test"][:5], PROBLEM.splits["test"]]),
    }
    graph = er.Graph.of(twice, entities=PROBLEM.entities, unseen="drop")
    assert len(graph.task(protocol="pykeen")) == len(ranked("pykeen")) < len(graph.task())
    factories = pytest.importorskip("pykeen.triples", reason="PyKEEN is not installed (see `peers`)")
    factory = factories.TriplesFactory.from_labeled_triples(twice["test"].astype(str))
    assert factory.num_triples == len(PROBLEM.splits["test"])


@pytest.mark.filterwarnings("ignore")
def test_closeness_equals_that_of_torch():
    torch = pytest.importorskip("torch", reason="torch is not installed (extra: peers)")
    rng = np.random.default_rng(0)
    goal = np.concatenate([scale * rng.normal(size=4000) for scale in (1e-6, 1e-5, 1e-3, 1, 50)])
    goal = goal.astype(np.float32)
    low, high = protocols.close(goal)

    def close(x):
        return torch.isclose(torch.as_tensor(x), torch.as_tensor(goal), rtol=1e-4, atol=1e-5).numpy()

    assert close(low).all()
    assert close(high).all()
    assert not close(np.nextafter(low, np.float32(-np.inf))).any()
    assert not close(np.nextafter(high, np.float32(np.inf))).any()


# The rules by themselves --------------------------------------------------------------------------

FLOATS = st.floats(-1024, 1024, width=32) | st.floats(-(2**-16), 2**-16, width=32)


@given(st.lists(FLOATS, min_size=1, max_size=30))
@settings(max_examples=300)
def test_the_boundaries_of_closeness(values):
    """Differences are rounded to float32, as torch's; beyond either end the next float is not close."""
    goal = np.array(values, dtype=np.float32)
    reach = np.float32(1e-5) + np.abs(np.float32(1e-4) * goal)
    low, high = protocols.close(goal)
    assert low.dtype == high.dtype == np.float32
    for end, beyond in ((low, -np.inf), (high, np.inf)):
        assert (np.abs(end - goal) <= reach).all()
        assert (np.abs(np.nextafter(end, np.float32(beyond)) - goal) > reach).all()


def test_equal_infinities_are_close():
    goal = np.array([np.inf, -np.inf], dtype=np.float32)
    for end in protocols.close(goal):
        assert end.tolist() == goal.tolist()


def test_thousandths_are_truncated_like_int32():
    scores = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    want = (scores * np.float32(1000)).astype(np.int32)
    assert protocols.thousandths(scores).tolist() == want.tolist()


def test_log_sigmoid():
    scores = np.linspace(-80, 80, 321)
    want = [-math.log1p(math.exp(-x)) if x > 0 else x - math.log1p(math.exp(x)) for x in scores]
    got = protocols.log_sigmoid(scores)
    assert got.dtype == np.float32
    assert got.tolist() == pytest.approx(want, rel=3e-7)


def counted(name, scores, target, known, candidates):
    """Better and equal by a preset's rule, in a loop."""
    yardstick = PRESETS[name].yardstick
    key = yardstick.keys(scores)
    goal, better, equal = key[target], 0, 0
    for c in candidates:
        value = key[c]
        if c == target:
            continue
        if c in known:
            if yardstick.handicap == math.inf:
                continue
            value = value - np.float32(yardstick.handicap)
        tied = value == goal
        if name == "libkge":
            tied = abs(value - goal) <= np.float32(1e-5) + abs(np.float32(1e-4) * goal)
        better, equal = better + (value > goal and not tied), equal + tied
    return better, equal


@st.composite
def cases(draw):
    """Scores with near-ties, targets, known answers, perhaps lists of candidates."""
    size, queries = draw(st.integers(1, 9)), draw(st.integers(1, 3))
    score = st.sampled_from([-2.0, -1.0, -0.0004, 0.0, 0.0004, 1.0, 1.000003, 1.00009, 1.0004, 2.0, 4.0])
    matrix = np.array([[draw(score) for _ in range(size)] for _ in range(queries)], dtype=np.float32)
    answer = st.integers(0, size - 1)
    rows = draw(st.lists(st.tuples(st.integers(0, queries - 1), answer), min_size=1, max_size=9))
    known = draw(st.lists(st.tuples(st.integers(0, queries - 1), answer), max_size=9))
    lists = draw(st.none() | st.lists(st.lists(answer, max_size=9), min_size=queries, max_size=queries))
    return matrix, rows, known, lists


@given(cases(), st.sampled_from(["libkge", "ampligraph", "dgl-ke"]))
@settings(max_examples=300)
def test_comparisons_are_counted(case, name):
    """Among all candidates, and among lists."""
    matrix, rows, known, lists = case
    query, targets = np.array(rows).T
    task = er.Task.of(
        query[:, None],
        targets,
        size=matrix.shape[1],
        known=([[q] for q, _ in known], [a for _, a in known]) if known else None,
        candidates=None if lists is None else [lists[q] for q in query],
        outside="add",
        protocol={"protocol": name},
    )

    def scorer(queries, candidates):
        if isinstance(candidates, np.ndarray) and candidates.ndim == 2:
            return np.take_along_axis(matrix[queries[:, 0]], candidates, axis=1)
        return matrix[queries[:, 0]][:, candidates]

    ranks = er.rank(scorer, task, progress=False)
    others = {q: {a for p, a in known if p == q} for q in range(len(matrix))}
    among = [range(matrix.shape[1]) if lists is None else set(lists[q]) for q in query]
    want = [counted(name, matrix[q], t, others[q], c) for (q, t), c in zip(rows, among, strict=True)]
    assert list(zip(ranks.better.tolist(), ranks.equal.tolist(), strict=True)) == want
    stay = name == "dgl-ke"
    sizes = [
        len(set(c) - (set() if stay else others[q]) - {t}) + 1
        for (q, t), c in zip(rows, among, strict=True)
    ]
    assert ranks.candidates.tolist() == sizes


@pytest.mark.parametrize("name", ["libkge", "ampligraph", "dgl-ke"])
def test_comparisons_are_counted_in_pieces(name):
    """A row that is longer than the memory comes in pieces."""
    size = 70_001
    rng = np.random.default_rng(0)
    scores = (rng.integers(-9, 9, size) / 4 + rng.choice([0, 3e-6, 4e-4], size)).astype(np.float32)
    targets, known = rng.integers(0, size, 5), rng.integers(0, size, 200)
    task = er.Task.of(
        [[0]] * 5,
        targets,
        size=size,
        known=([[0]] * 200, known),
        protocol={"protocol": name},
    )
    asked = []

    def scorer(queries, candidates):
        asked.append(candidates)
        return np.broadcast_to(scores[candidates], (len(queries), candidates.stop - candidates.start))

    ranks = er.rank(scorer, task, progress=False, memory="1MiB")
    assert len(set(map(str, asked))) == 2
    want = [counted(name, scores, t, set(known.tolist()), range(size)) for t in targets.tolist()]
    assert list(zip(ranks.better.tolist(), ranks.equal.tolist(), strict=True)) == want


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=8),
    st.data(),
)
def test_repeated_candidates_count_repeatedly(rows, data):
    """With repeats, a candidate counts as often as it is listed, the target's own place aside."""
    lists = [[*data.draw(st.lists(st.integers(0, 4), max_size=7)), target] for _, target in rows]
    score = [3.0, 1.0, 1.0, 0.0, 3.0]
    task = er.Task.of(
        [[q] for q, _ in rows], [t for _, t in rows], size=5, candidates=lists, repeats=True
    )

    def scorer(queries, candidates):
        return np.broadcast_to(np.array(score)[candidates], (len(queries), np.shape(candidates)[-1]))

    ranks = er.rank(scorer, task, progress=False)
    goals = [score[t] for _, t in rows]
    above = [sum(score[c] > goal for c in some) for some, goal in zip(lists, goals, strict=True)]
    level = [sum(score[c] == goal for c in some) - 1 for some, goal in zip(lists, goals, strict=True)]
    assert ranks.better.tolist() == above
    assert ranks.equal.tolist() == level
    assert ranks.candidates.tolist() == [len(some) for some in lists]


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=9))
def test_rounded_ties(rows):
    """The mean of the ranks a tie allows, rounded up: better + equal // 2 in LibKGE's own counts."""
    better, equal = np.array(rows).T
    got = er.Ranks(better, equal, 20).evaluate("mr", "hits@3", "median", ties="rounded")
    want = [b + (e + 1) // 2 + 1 for b, e in rows]
    assert got["mr"] == pytest.approx(np.mean(want))
    assert got["hits@3"] == pytest.approx(np.mean([rank <= 3 for rank in want]))
    assert got["median"] == pytest.approx(np.median(want))


# Models that factor -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["libkge", "ampligraph", "dgl-ke"])
@pytest.mark.parametrize("kind", ["TransE-1", "TransE-2", "RotatE", "DistMult"])
def test_models_have_the_scale_of_the_library(name, kind):
    """Distances are roots, and DGL-KE's have their margin; an l2 score is a square elsewhere here."""
    rng = np.random.default_rng(1)
    entity, relation = rng.integers(-2, 3, (20, 4)) / 4, rng.integers(-2, 3, (3, 4)) / 4
    if kind == "RotatE":
        model = er.models.RotatE(entity, relation[:, :2] * 2 * np.pi)  # quarters of a turn
    elif kind == "DistMult":
        model = er.models.DistMult(entity, relation)
    else:
        model = er.models.TransE(entity, relation, p=int(kind[-1]))
    triples = rng.integers(0, [20, 3, 20], (60, 3))
    loops = [(i, i % 3, i) for i in range(20)]  # so that train shows everything
    graph = er.Graph.of([*triples[:40], *loops], test=triples[40:])
    task = graph.task(protocol=name)
    for gamma in (None, 2.0):

        def scores(queries, candidates, gamma=gamma):
            plain = model.score(queries, candidates)
            plain = -np.sqrt(-plain) if kind == "TransE-2" else plain
            margin = (12.0 if gamma is None else gamma) if name == "dgl-ke" else 0.0
            return (plain + margin * (kind != "DistMult")).astype(np.float32)

        own = model if kind == "DistMult" else replace(model, gamma=gamma)
        ranks, boxed = (er.rank(one, task, progress=False) for one in (own, scores))
        yardstick = replace(PRESETS[name].yardstick, margin=12.0 if gamma is None else gamma)
        assert ranks.protocol.scores == yardstick.describe(distances=kind != "DistMult")
        assert ranks.better.tolist() == boxed.better.tolist()
        assert ranks.equal.tolist() == boxed.equal.tolist()
    exact = er.rank(model, graph.task(), progress=False)
    assert exact.protocol.scores == "float64, certified"


@pytest.mark.parametrize("name", ["libkge", "ampligraph", "dgl-ke"])
def test_normalised_models_have_the_scale_of_triples(name):
    """Heads too: what TuckER's last shift adds to all of them orders nothing, but is not near zero."""
    rng = np.random.default_rng(1)
    entity, relation, core = (rng.integers(-2, 3, shape) / 4 for shape in ((20, 4), (3, 2), (4, 2, 4)))
    entity += rng.integers(-2, 3, entity.shape) / 2**9  # so little that it depends on the shift who ties
    norms = [rng.integers(-8, 9, (2, 4)) * scale for scale in (1 / 4, [[1 / 4], [4]])]
    model = er.models.TuckER(entity, relation, 8 * core, *norms)
    triples = rng.integers(0, [20, 3, 20], (60, 3))
    loops = [(i, i % 3, i) for i in range(20)]  # so that train shows everything
    task = er.Graph.of([*triples[:40], *loops], test=triples[40:]).task(protocol=name)

    def scores(queries, candidates):
        filled = np.repeat(queries[:, None], 20, axis=1)
        filled[filled == -1] = np.tile(np.arange(20), len(queries))
        flat = model.triples(*filled.reshape(-1, 3).T)
        return flat.reshape(len(queries), 20)[:, candidates].astype(np.float32)

    ranks, boxed = (er.rank(one, task, progress=False) for one in (model, scores))
    assert ranks.better.tolist() == boxed.better.tolist()
    assert ranks.equal.tolist() == boxed.equal.tolist()


@pytest.mark.parametrize("name", ["pykeen", "rotate", "openke", "torchkge"])
def test_plain_comparisons_stay_exact_and_fast(name):
    """Where a library just compares, so does the engine, as always."""
    graph = er.load("nations", unseen=PRESETS[name].unseen)
    rng = np.random.default_rng(0)
    model = er.models.DistMult(rng.normal(size=(14, 8)), rng.normal(size=(55, 8)))
    asked, ours = graph.task(protocol=name), graph.task()
    ranks, plain = (er.rank(model, task, progress=False) for task in (asked, ours))
    assert ranks.better.tolist() == plain.better.tolist()
    assert ranks.candidates.tolist() == plain.candidates.tolist()
    assert ranks.protocol.scores == "float64, certified"


# Stored protocols -------------------------------------------------------------------------------


def test_ranks_store_their_protocol(tmp_path):
    ranks = ranked("libkge")
    assert ranks.protocol.preset == "libkge"
    assert ranks.protocol.filter == ("train", "valid", "test")
    path = tmp_path / "ranks.parquet"
    ranks.save(path)
    again = er.Ranks.load(path)
    assert again.ties == "rounded"
    assert again.evaluate("mrr")["mrr"] == ranks.evaluate("mrr", ties="rounded")["mrr"]
    by_side = again.by("side").evaluate("mrr")
    assert by_side.protocol.ties == "rounded"
    assert by_side["mrr"].mean() == pytest.approx(again.evaluate("mrr")["mrr"])
    assert again.evaluate("mrr", ties="optimistic").protocol.ties == "optimistic"


def elsewhere(ranks):
    """The same ranks, of another data set."""
    return ranks.with_protocol(content="another")


def judged(ranks):
    """All results of ranks that have a tie-breaking rule."""
    from evenrank.report.document import Report

    others = ranks.with_protocol(model="other")
    yield ranks.evaluate("mrr")
    yield ranks.by("side").evaluate("mrr")
    yield er.averages(ranks, "mrr")
    yield er.intervals(ranks, "mrr")
    yield er.intervals({"a": ranks, "b": others.by("side").ranks}, "mrr")
    yield er.compare(a=ranks, b=others).values
    yield er.summarize_runs([ranks, others], "mrr")
    two = {"a": elsewhere(ranks), "b": elsewhere(others)}
    yield er.across_datasets({"one": {"a": ranks, "b": others}, "two": two})
    yield Report(ranks, others).evaluation


@pytest.mark.parametrize("name", ["libkge", "openke"])
def test_results_follow_the_protocol_of_their_ranks(name):
    ranks = ranked(name)
    for made in judged(ranks):
        assert made.protocol.ties == PRESETS[name].ties
    assert er.intervals(ranks, "mrr")["mrr"].value == ranks.evaluate("mrr")["mrr"]
    assert er.intervals(ranks, "mrr", ties="expected").evaluation.protocol.ties == "expected"
    assert er.averages(ranks, "mrr")["mrr"][0] == ranks.evaluate("mrr")["mrr"]


@pytest.mark.parametrize("other", ["rotate", "torchkge", None])
def test_tie_rules_are_not_mixed_silently(other):
    """Neither those of two libraries, nor a library's with that of none."""
    from evenrank.report.document import Report

    a, b = ranked("openke"), ranked(other or "rotate")
    if other is None:
        b = b.with_protocol(preset=None)
    for mix in (
        lambda: er.intervals({"a": a, "b": b}, "mrr"),
        lambda: er.compare(a=a, b=b, mixed=True),
        lambda: er.summarize_runs([a, b]),
        lambda: er.across_datasets(
            {"one": {"x": a, "y": a}, "two": {"x": elsewhere(b), "y": elsewhere(b)}}
        ),
        lambda: Report(a, b),
    ):
        with raises("the protocols of these ranks have different tie-breaking rules", b.ties, "ties="):
            mix()
    with raises(
        "ranks with different tie-breaking rules cannot be concatenated", f"optimistic and {b.ties}"
    ):
        a + b
    assert er.compare(a=a, b=b, mixed=True, ties="realistic").protocol.ties == "realistic"
    assert (a + a[:3]).ties == "optimistic"


def test_presets_are_not_compared_silently():
    """Not even where they rank ties alike."""
    with raises("ranked under different protocols", "preset: dgl-ke .a. and torchkge .b."):
        er.compare(a=ranked("dgl-ke"), b=ranked("torchkge"))


def test_reports_keep_presets_apart(tmp_path):
    """They are different contests, named by what differs; a page that is read back still knows."""
    from evenrank.report.document import Report, reload

    report = Report(ranked("dgl-ke"), ranked("torchkge"))
    names = {label for label, _ in report.evaluation.labels}
    assert {name.partition("preset: ")[2].rstrip(")") for name in names} == {"dgl-ke", "torchkge"}
    report.save(tmp_path / "page.html")
    assert reload(tmp_path / "page.html").findings.ties == "pessimistic"


def test_estimates_follow_the_protocol_or_raise():
    graph = er.load("nations")
    model = er.models.DistMult(*(np.random.default_rng(0).integers(-1, 2, (n, 3)) for n in (14, 55)))
    worst, mean = (
        er.rank(model, graph.task(protocol=name, candidates=6), progress=False)
        for name in ("torchkge", "libkge")
    )
    assert er.estimate_full(worst, "mr").evaluation.protocol.ties == "pessimistic"
    with raises("the mean rank of a tie cannot be estimated", "got ties='rounded'", "allowed: expected"):
        er.estimate_full(mean, "mr")


def test_a_run_is_resumed_with_its_own_protocol_only(tmp_path):
    """Even where another one asks and compares in the same way."""
    graph = er.load("nations")
    model = er.models.DistMult(*(np.random.default_rng(0).normal(size=(n, 3)) for n in (14, 55)))
    er.rank(model, graph.task(protocol="rotate"), progress=False, checkpoint=tmp_path / "run")
    with raises("is the checkpoint of another ranking", "got preset rotate there, torchkge here;"):
        er.rank(model, graph.task(protocol="torchkge"), progress=False, checkpoint=tmp_path / "run")


def test_tasks_of_one_protocol_are_joined():
    tasks = [er.load("nations").task(protocol=name) for name in ("rotate", "rotate", "openke")]
    assert er.Task.join(tasks[:2]).protocol.preset == "rotate"
    with raises("tasks with different presets cannot be joined", "got rotate and openke"):
        er.Task.join(tasks)
    with raises("tasks with different presets cannot be joined", "got rotate and none"):
        er.Task.join([tasks[0], er.load("nations").task()])


def test_tasks_without_a_preset_store_none():
    graph = er.load("nations")
    assert graph.task().protocol.preset is None
    ranks = er.Ranks.of([1, 2.5], candidates=9)
    assert ranks.ties == ranks.evaluate("mrr").protocol.ties == "expected"
    foreign = er.Ranks.of([1, 2.5], candidates=9, protocol={"preset": "of some other tool"})
    assert foreign.ties == "expected"


def test_tasks_keep_their_protocol_when_pickled():
    graph = er.Graph.of(PROBLEM.splits, entities=PROBLEM.entities)
    task = pickle.loads(pickle.dumps(graph.task(protocol="dgl-ke")))
    ranks = er.rank(table(PROBLEM.scores), task, progress=False)
    assert settled(ranks) == [*KEPT["dgl-ke"]["test"]["tail"], *KEPT["dgl-ke"]["test"]["head"]]


@pytest.mark.parametrize(
    ("name", "valid"),
    [
        ("pykeen", ("train", "valid")),
        ("libkge", ("train", "valid")),
        ("rotate", ("train", "valid", "test")),
    ],
)
def test_which_splits_filter(name, valid):
    graph = er.load("nations")
    assert graph.task("valid", protocol=name).protocol.filter == valid
    assert graph.task("test", protocol=name).protocol.filter == ("train", "valid", "test")


def test_ogb_samples_no_known_answers():
    task = er.load("nations").task(protocol="ogb", candidates=3, seed=1)
    plain = er.load("nations").task(candidates=3, seed=1)
    assert task.candidates.tolist() == plain.candidates.tolist()
    assert task.protocol.filter == ("train", "valid", "test")


# Bad input ----------------------------------------------------------------------------------------


def test_unknown_protocol():
    with raises("unknown protocol", "got 'keras'", "allowed: pykeen, libkge, rotate, openke, ampli"):
        er.load("nations").task(protocol="keras")


@pytest.mark.parametrize("name", [3, {"protocol": "libkge"}, "", "PyKEEN"])
def test_a_preset_is_one_of_eight_names(name):
    with raises("unknown protocol", "allowed: pykeen"):
        er.load("nations").task(protocol=name)


def test_protocols_in_ranks_and_tasks_are_validated():
    words = (
        "a protocol must be a mapping of entries; got 'libkge'",
        "graph.task",
        "{'preset': 'libkge'}",
    )
    with raises(*words):
        er.Ranks.of([1], 9, protocol="libkge")
    with raises(*words):
        er.Task.of([[0]], [1], size=9, protocol="libkge")
    for name in ("preset", "protocol"):  # as files had it before
        assert er.Ranks.of([1], 9, protocol={name: "libkge"}).ties == "rounded"


def test_a_preset_determines_the_filter():
    with raises("the protocol libkge determines the filter", "got filter=None"):
        er.load("nations").task(protocol="libkge", filter=None)


@pytest.mark.parametrize("name", ["pykeen", "ampligraph"])
def test_presets_that_require_dropping_unseen_entities(name):
    graph = er.Graph.of(PROBLEM.splits, entities=PROBLEM.entities)
    with raises(
        f"the protocol {name} drops entities and relations not seen in training", "unseen='drop'"
    ):
        graph.task(protocol=name)


def test_unseen_relations_must_be_dropped_too():
    graph = er.Graph.of([[0, 0, 1]], test=[[1, 0, 0]], relations=2)
    with raises("the protocol pykeen drops"):
        graph.task(protocol="pykeen")


@pytest.mark.parametrize("name", sorted(set(PRESETS) - {"pykeen", "ampligraph"}))
def test_presets_that_require_keeping_unseen_entities(name):
    graph = er.Graph.of(PROBLEM.splits, entities=PROBLEM.entities, unseen="drop")
    with raises(
        f"the protocol {name} keeps entities and relations not seen in training", "unseen='keep'"
    ):
        graph.task(protocol=name)


def test_ogb_needs_candidates():
    for candidates in ("all", "typed"):
        with raises("the protocol ogb ranks among candidates that come with each triple", candidates):
            er.load("nations").task(protocol="ogb", candidates=candidates)


def test_dgl_ke_is_not_sampled():
    with raises(
        "the protocol dgl-ke keeps known true answers", "got 5 sampled candidates", "rank among all"
    ):
        er.load("nations").task(protocol="dgl-ke", candidates=5)


# The shell ----------------------------------------------------------------------------------------


@pytest.fixture
def model(tmp_path):
    graph = er.load("nations")
    rng = np.random.default_rng(0)
    coarse = er.models.DistMult(rng.integers(-1, 2, (14, 3)) / 4, rng.integers(-1, 2, (55, 3)) / 4)
    path = tmp_path / "model.safetensors"
    er.models.save(coarse, path, graph=graph)
    return path


def run(*args):
    result = CliRunner().invoke(app, [*map(str, args)], catch_exceptions=True)
    if isinstance(result.exception, er.errors.EvenrankError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_rank_by_a_protocol(model, tmp_path):
    """The command drops or keeps as the library does, and the ranks go on remembering."""
    files = {}
    for name in ("openke", "torchkge", "pykeen"):
        files[name] = tmp_path / f"{name}.parquet"
        options = ("--data", "nations", "--protocol", name, "-m", "mrr", "--format", "json", "--quiet")
        said = run("rank", model, *options, "-o", files[name])
        assert said["protocol"]["ties"] == PRESETS[name].ties
        assert said["protocol"]["unseen"] == PRESETS[name].unseen
        again = run("evaluate", files[name], "-m", "mrr", "--format", "json")
        assert again["protocol"]["ties"] == PRESETS[name].ties
        assert er.Ranks.load(files[name]).evaluate("mrr").content() == again == said
    with raises(
        "the protocols of these ranks have different tie-breaking rules", "optimistic, pess", "ties="
    ) as caught:
        run("evaluate", files["openke"], files["torchkge"], "--format", "json")
    assert caught.value.in_shell().endswith("choose one for all with --ties")
    beside = tmp_path / "beside.parquet"
    beside.write_bytes(files["openke"].read_bytes())
    for command in (("evaluate",), ("evaluate", "--interval", "delta"), ("compare",)):
        said = run(*command, files["openke"], beside, "-m", "mrr", "--format", "json")
        assert said["protocol"]["ties"] == "optimistic"
    assert "; ties: pessimistic [" in run("report", files["torchkge"], "--format", "json")["notes"][-1]
    both = run("evaluate", *itertools.islice(files.values(), 2), "--ties", "rounded", "--format", "json")
    assert both["protocol"]["ties"] == "rounded"


def test_rank_without_a_protocol(model):
    said = run("rank", model, "--data", "nations", "-m", "mrr", "--format", "json", "--quiet")
    assert said["protocol"]["unseen"] == "keep"
    assert said["protocol"]["ties"] == "expected"
    assert "preset" not in said["protocol"]

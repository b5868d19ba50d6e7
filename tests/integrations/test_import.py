"""Imported ranks and scores of other libraries have the metrics of these libraries."""

import json
from pathlib import Path

import numpy as np
import pytest
from foreign import NATIONS, PARTS, TASK, same, shell, shell_error, truth

import evenrank as er
from evenrank.integrations import dumps, ogb

# OGB ------------------------------------------------------------------------------------------------


def scores(seed=0, n=200, k=30):
    """Scores with ties."""
    rng = np.random.default_rng(seed)
    return np.round(rng.normal(1, 1, n), 1), np.round(rng.normal(0, 1, (n, k)), 1)


def test_ogb_counts_as_a_matrix_of_scores_does(monkeypatch):
    positive, negative = scores()
    expected = er.Ranks.from_scores(np.column_stack([positive, negative]), 0)
    predictions = {"y_pred_pos": positive, "y_pred_neg": negative}
    assert same(ogb.ranks(predictions), expected)
    monkeypatch.setattr(ogb, "SCORES_AT_ONCE", 100)
    assert same(ogb.ranks(predictions), expected)
    shared = np.broadcast_to(negative[0], negative.shape)
    expected = er.Ranks.from_scores(np.column_stack([positive, shared]), 0)
    assert same(ogb.ranks({"y_pred_pos": positive, "y_pred_neg": negative[0]}), expected)


def test_ogb_agrees_with_its_evaluator():
    torch = pytest.importorskip("torch", reason="OGB is compared with by `make peers`")
    link = pytest.importorskip("ogb.linkproppred", reason="OGB is compared with by `make peers`")
    positive, negative = scores()
    given = {"y_pred_pos": torch.tensor(positive), "y_pred_neg": torch.tensor(negative)}
    ranks = ogb.ranks(given)
    theirs = link.Evaluator("ogbl-wikikg2").eval(given)
    ours = ogb.result(ranks)
    assert ours.keys() == theirs.keys()
    for name, values in theirs.items():
        assert ours[name].dtype == np.float32
        np.testing.assert_array_equal(ours[name], values.numpy())
    for name in ("mrr", "hits@1", "hits@3", "hits@10"):
        value = ranks.evaluate(name, ties="realistic")[name]
        assert value == pytest.approx(float(theirs[f"{name}_list"].mean()))
    for name, metric in (("ogbl-ddi", "hits@20"), ("ogbl-ppa", "hits@100"), ("ogbl-vessel", "rocauc")):
        given = {"y_pred_pos": positive, "y_pred_neg": negative[0]}
        theirs = link.Evaluator(name).eval(given)
        assert ogb.result(ogb.ranks(given), metric) == pytest.approx(theirs)


def test_nan_is_the_best_score_for_ogb_and_an_error_for_evenrank():
    with pytest.raises(er.errors.InputError, match=r"^scores contain NaN \(y_pred_pos\[1\]\)"):
        ogb.ranks({"y_pred_pos": [1.0, np.nan], "y_pred_neg": [[1.0], [2.0]]})
    with pytest.raises(er.errors.InputError, match=r"NaN \(y_pred_neg\[0, 1\]\)"):
        ogb.ranks({"y_pred_pos": [1.0], "y_pred_neg": [[1.0, np.nan]]})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "^no y_pred_pos; got nothing$"),
        ({1: 2}, "^no y_pred_pos; got 1$"),
        ([1, 2], "^predictions must be a dictionary; got list; allowed: y_pred_pos and y_pred_neg$"),
        ({"y_pred_pos": [1]}, "^no y_pred_neg; got y_pred_pos$"),
        (
            {"y_pred_pos": [1], "y_pred_neg": [[1], [2]]},
            r"got shapes \(1,\) and \(2, 1\); allowed: y_pred_p",
        ),
        ({"y_pred_pos": [[1]], "y_pred_neg": [[1]]}, "^positives and negatives differ in shape"),
        ({"y_pred_pos": [1], "y_pred_neg": [[[1]]]}, r"got shapes \(1,\) and \(1, 1, 1\)"),
        *(
            (
                {"y_pred_pos": [1.0, 2.0], "y_pred_neg": np.zeros((2, 3))} | {name: values},
                f"^{name} must be real numbers; got complex numbers, which have no order; pass their",
            )
            for name, shape in (("y_pred_pos", 2), ("y_pred_neg", (2, 3)), ("y_pred_neg", 3))
            for values in (
                np.ones(shape, dtype=np.complex64),
                np.ones(shape, dtype=complex).tolist(),
            )
        ),
        ({"y_pred_pos": ["1"], "y_pred_neg": [[1]]}, "^y_pred_pos must be numbers; got type <U1$"),
        (
            {"y_pred_pos": [1], "y_pred_neg": np.array([["2020-01-01"]], dtype="datetime64[D]")},
            "^y_pred_neg must be numbers; got type datetime",
        ),
        ({"y_pred_pos": [{}], "y_pred_neg": [[1]]}, "^y_pred_pos must be numbers; got type object$"),
    ],
)
def test_invalid_ogb_files_raise(given, message):
    with pytest.raises(er.errors.InputError, match=message):
        ogb.ranks(given)


def test_complex_tensors_raise():
    torch = pytest.importorskip("torch")
    for name in ("y_pred_pos", "y_pred_neg"):
        given = {"y_pred_pos": torch.ones(2), "y_pred_neg": torch.ones(2, 3)}
        given[name] = given[name].to(torch.complex64)
        with pytest.raises(er.errors.InputError, match=f"^{name} must be real numbers; got complex"):
            ogb.ranks(given)


def test_ogb_reports_what_it_reports_only():
    with pytest.raises(
        er.errors.InputError, match=r"^not a metric of OGB; got mr; allowed: mrr, hits@k, roc"
    ):
        ogb.result(er.Ranks.of([1], 5), "mr")


def test_ogb_in_the_shell(tmp_path):
    for seed, side in enumerate(("head", "tail")):
        positive, negative = scores(seed)
        np.savez(tmp_path / f"{side}.npz", y_pred_pos=positive, y_pred_neg=negative)
    out = tmp_path / "ranks.csv"
    shell("import", "ogb", tmp_path / "head.npz", tmp_path / "tail.npz", "-o", out, "--model", "mine")
    ranks = er.Ranks.load(out)
    assert ranks.protocol.to_dict() == {"candidates": "30 given per target", "model": "mine"}
    assert [label for label, _ in ranks.by("file")] == [("head",), ("tail",)]
    positive, negative = scores(1)
    assert same(ranks[200:], er.Ranks.from_scores(np.column_stack([positive, negative]), 0))
    twice = shell_error("import", "ogb", tmp_path / "head.npz", tmp_path / "head.npz")
    assert twice.startswith("the same file of predictions twice; got")
    assert (
        shell_error("import", "ogb", tmp_path / "none.npz") == f"no such file; got {tmp_path}/none.npz"
    )
    assert shell_error("import", "ogb", tmp_path / "none.pt") == f"no such file; got {tmp_path}/none.pt"
    (tmp_path / "bad.npz").write_text("no")
    assert shell_error("import", "ogb", tmp_path / "bad.npz").startswith(
        f"cannot read {tmp_path}/bad.npz"
    )
    np.savez_compressed(tmp_path / "bad.npz", y_pred_pos=positive, y_pred_neg=negative)
    damaged = bytearray((tmp_path / "bad.npz").read_bytes())
    damaged[200:260] = b"\xff" * 60
    (tmp_path / "bad.npz").write_bytes(damaged)
    assert shell_error("import", "ogb", tmp_path / "bad.npz").startswith(
        f"cannot read {tmp_path}/bad.npz"
    )
    (tmp_path / "other").mkdir()
    np.savez(tmp_path / "other/head.npz", y_pred_pos=positive, y_pred_neg=negative)
    both = tmp_path / "head.npz", tmp_path / "other/head.npz"
    shell("import", "ogb", *both, "-o", out)  # two files of one name stay two
    assert [label for label, _ in er.Ranks.load(out).by("file")] == [(str(path),) for path in both]
    assert shell_error("import", "ogb", out, "--sides", "tail").startswith("no such option; got --sides")
    assert shell_error("import", "ogb", out, "--lenient").startswith("no such option; got --lenient")


def test_ogb_from_files_of_torch(tmp_path):
    torch = pytest.importorskip("torch", reason="torch is compared with by `make peers`")
    positive, negative = scores()
    expected = er.Ranks.from_scores(np.column_stack([positive, negative]), 0)
    file, out = tmp_path / "a.pt", tmp_path / "ranks.csv"
    torch.save({"y_pred_pos": torch.tensor(positive), "y_pred_neg": torch.tensor(negative)}, file)
    shell("import", "ogb", file, "-o", out)
    assert same(er.Ranks.load(out), expected)
    torch.save({"y_pred_pos": positive, "y_pred_neg": negative}, file)  # NumPy's arrays are pickled
    assert shell_error("import", "ogb", file).endswith("use trust_pickle=True")
    shell("import", "ogb", file, "-o", out, "--trust-pickle")
    assert same(er.Ranks.load(out), expected)
    torch.save({0: torch.ones(2)}, file)
    assert shell_error("import", "ogb", file) == "no y_pred_pos; got 0"


# Ranks of other libraries --------------------------------------------------------------------------


@pytest.mark.parametrize("corrupted", ["s,o", "s", "o"])
def test_ampligraph_gives_its_own_metrics(corrupted):
    """Values of the library are in tests/reference, with the script that computed them."""
    frozen = json.loads((Path(__file__).parents[1] / "reference" / "ampligraph_ranks.json").read_text())[
        corrupted
    ]
    sides = {"s,o": "both", "s": "head", "o": "tail"}[corrupted]
    ranks = dumps.ampligraph(frozen["ranks"], NATIONS.task("test", sides=sides))
    for metric in ("mr", "mrr", "hits@3"):
        assert ranks.evaluate(metric)[metric] == pytest.approx(frozen[metric], rel=1e-12)
    table = np.array(frozen["ranks"])
    for part, column in (("head", 0), ("tail", -1)):
        if part in sides or sides == "both":
            mine = ranks[ranks.keys["side"] == part]
            assert (mine.better + 1).tolist() == table[:, column].tolist()
    first = NATIONS.splits["test"][0]
    assert ranks.keys["head"][0] == NATIONS.entities[first[0]]
    assert ranks.protocol.extra["settled"] == "worst"


@pytest.mark.parametrize(
    ("array", "task", "message"),
    [
        (
            [[[1]]],
            9,
            r"^ranks must be a row per triple, with one .* or two; got an array of shape \(1, 1, 1\)$",
        ),
        (
            [[1, 0]],
            9,
            "^ranks start at 1; got 0; rank again with ranking_strategy='worst': with a filter",
        ),
        (
            [[1, 2]],
            "both",
            "^ranks and task differ in length; got 2 ranks for 402 targets; use the split",
        ),
        ([1, 2], "both", "^ranks and task differ in sides; got 1 columns for tail, head; make"),
        (
            [1, 2],
            "relation",
            "^ranks and task differ in sides; got 1 columns for relation; make",
        ),
        ([["a", "b"]], 9, "^ranks must be a column of numbers; got"),
        ([1, 10], 9, "^a rank is above its number of candidates"),
    ],
)
def test_invalid_ampligraph_ranks_raise(array, task, message):
    asked = NATIONS.task("test", sides=task) if isinstance(task, str) else task
    with pytest.raises(er.errors.InputError, match=message):
        dumps.ampligraph(array, asked)


def test_ampligraph_in_the_shell(tmp_path):
    np.save(tmp_path / "ranks.npy", np.array([[1, 2], [3, 4]]))
    out = tmp_path / "ranks.parquet"
    shell(
        "import", "ampligraph", tmp_path / "ranks.npy", "--candidates", 9, "--settled", "best", "-o", out
    )
    ranks = er.Ranks.load(out)
    assert (ranks.better + 1).tolist() == [2, 4, 1, 3]
    assert ranks.keys["side"].tolist() == ["tail", "tail", "head", "head"]
    assert ranks.protocol.extra["settled"] == "best"
    assert shell_error("import", "ampligraph", tmp_path / "ranks.npy") == (
        "the number of candidates is not known; name the graph that was ranked with --data, or the "
        "number with --candidates"
    )
    np.savez(tmp_path / "two.npz", a=[1], b=[2])
    assert shell_error("import", "ampligraph", tmp_path / "two.npz", "--candidates", 9) == (
        f"{tmp_path}/two.npz has more than one array; got a, b"
    )
    array = tmp_path / "ranks.npy"
    assert shell_error("import", "ampligraph", array, "--candidates", 9, "--filter", "none") == (
        "--filter needs a graph; name the graph with --data NAME_OR_FOLDER"
    )
    assert shell_error("import", "ampligraph", array, "--candidates", 9, "--data", "nations") == (
        "--data excludes --candidates; leave one of them out"
    )
    many = (tmp_path / "ranks.npy", tmp_path / "two.npz")
    assert shell_error("import", "ampligraph", *many, "--candidates", 9).startswith(
        f"too many arguments; got {tmp_path}/two.npz"
    )


def held(truth):
    """The arrays of a PyKEEN evaluator that has counted these ranks, of triples that PyKEEN sorted."""
    arrays = {}
    for side in ("tail", "head"):
        mine = truth[truth.keys["side"] == side]
        mine = mine[np.lexsort([mine.keys[part] for part in reversed(PARTS)])]
        arrays["triples"] = np.stack([mine.keys[part].astype(str) for part in PARTS], axis=1)
        arrays[f"{side}.optimistic"] = (mine.better + 1).astype(float)
        arrays[f"{side}.pessimistic"] = (mine.better + mine.equal + 1).astype(float)
        arrays[f"{side}.candidates"] = mine.candidates
    return arrays


def test_pykeen_arrays(tmp_path):
    arrays = held(truth())
    found = dumps.pykeen(arrays, TASK)
    assert same(found, truth())
    for name, column in truth().keys.items():
        assert found.keys[name].tolist() == column.tolist()
    plain = dumps.pykeen(arrays)
    assert plain.evaluate("mrr").to_dict() == truth().evaluate("mrr").to_dict()
    rows = [
        tuple(zip(*(ranks.keys[part].tolist() for part in PARTS), strict=True))
        for ranks in (plain, found)
    ]
    assert rows[0] != rows[1]
    assert sorted(rows[0]) == sorted(rows[1])
    np.savez(tmp_path / "ranks.npz", **arrays)
    out = tmp_path / "ranks.parquet"
    shell("import", "pykeen", tmp_path / "ranks.npz", "--data", "nations", "-o", out)
    assert same(er.Ranks.load(out), truth())
    assert er.Ranks.load(out).keys["head"].tolist() == truth().keys["head"].tolist()


def test_pykeen_evaluator():
    pytest.importorskip("pykeen", reason="PyKEEN is compared with by `make peers`")
    import torch
    from pykeen.datasets import Nations
    from pykeen.evaluation import RankBasedEvaluator
    from pykeen.models import ComplEx

    data = Nations()
    torch.manual_seed(0)
    model = ComplEx(triples_factory=data.training, embedding_dim=4, random_seed=0)
    evaluator = RankBasedEvaluator(clear_on_finalize=False)
    known = [data.training.mapped_triples, data.validation.mapped_triples]
    theirs = evaluator.evaluate(
        model, data.testing.mapped_triples, additional_filter_triples=known, use_tqdm=False
    )
    ranks = dumps.pykeen(evaluator, TASK, data.testing.triples)  # sorted there, and not in the graph
    ours = er.rank(er.integrations.pykeen.scorer(model), TASK, progress=False)
    assert same(ranks, ours)
    splits = (data.training, data.validation, data.testing)
    by_ids = er.Graph.of(*(factory.mapped_triples.numpy() for factory in splits)).task("test")
    for task in (by_ids, er.integrations.pykeen.graph(data).task("test"), TASK):  # numbered alike
        found = dumps.pykeen(evaluator, task, data.testing.mapped_triples)
        assert same(found, er.rank(er.integrations.pykeen.scorer(model), task, progress=False))
    for metric in ("mean_reciprocal_rank", "hits_at_3", "adjusted_mean_rank_index"):
        assert ranks.evaluate(metric, ties="realistic")[metric] == pytest.approx(
            theirs.get_metric(metric)
        )
    with pytest.raises(
        er.errors.InputError,
        match=r"^PyKEEN and the task differ in the number of candidates; got .* in row",
    ):
        dumps.pykeen(evaluator, NATIONS.task("test", filter=None), data.testing.triples)
    evaluator.clear()
    with pytest.raises(
        er.errors.InputError, match=r"^the evaluator holds no ranks; got nothing; create it as Rank"
    ):
        dumps.pykeen(evaluator)


@pytest.mark.parametrize("wrong", [1 + 2j, "1", True, None, np.datetime64("2020-01-01")])
@pytest.mark.parametrize("kind", ["optimistic", "pessimistic", "candidates"])
@pytest.mark.parametrize("task", [TASK, None])
def test_pykeen_arrays_of_other_types_raise(wrong, kind, task):
    arrays = held(truth())
    arrays[f"tail.{kind}"] = np.full(len(arrays[f"tail.{kind}"]), wrong)
    arrays[f"head.{kind}"] = np.full(len(arrays[f"head.{kind}"]), wrong)
    what = "candidates" if kind == "candidates" else f"{kind} ranks"
    with pytest.raises(er.errors.InputError, match=f"^{what} must be a column of whole numbers; got"):
        dumps.pykeen(arrays, task)


def test_inconsistent_pykeen_arrays_raise():
    arrays = held(truth())
    del arrays["head.candidates"]
    with pytest.raises(
        er.errors.InputError,
        match=r"^the evaluator holds no head.candidates; got triples, tail.optimistic,",
    ):
        dumps.pykeen(arrays, TASK)
    ids = held(truth())
    numbers = {str(name): i for i, name in enumerate((*NATIONS.entities, *NATIONS.relations))}
    ids["triples"] = np.vectorize(numbers.get)(ids["triples"]) - np.array([0, 14, 0])
    found = dumps.pykeen(ids, TASK)  # the graph has names, but numbers will do
    assert same(found, truth())
    assert found.keys["head"].tolist() == truth().keys["head"].tolist()
    arrays = {name: values[:5] for name, values in held(truth()).items()}
    with pytest.raises(
        er.errors.InputError,
        match=r"^PyKEEN's evaluation and the task differ in triples; got 392 only in the "
        r"task, 0 only in PyKEEN's evaluation; use the split and the sides that PyKEEN ranked; triples "
        "must be names, or ids of the graph$",
    ):
        dumps.pykeen(arrays, TASK)
    for triples in (arrays["triples"][:4], arrays["triples"][:, :2], "x"):
        with pytest.raises(
            er.errors.InputError, match=r"^triples and ranks differ in number; got .* for 5 ranks$"
        ):
            dumps.pykeen(arrays, TASK, triples)
    del arrays["triples"]
    with pytest.raises(
        er.errors.InputError, match=r"^the triples of the ranks are missing.*testing.tripl"
    ):
        dumps.pykeen(arrays, TASK)


def trace(path, truth, *, split="test", filters="train, valid, test", epoch=20, dumped=False):
    """Write ranks as LibKGE traces them, with numbers of its own; a tie gets the rounded mean rank."""
    entities, relations = NATIONS.entities[::-1], NATIONS.relations[::-1]
    number = {name: i for i, name in enumerate(entities)} | {name: i for i, name in enumerate(relations)}
    for what, names in (("entity", entities), ("relation", relations)):
        text = "".join(f"{i}\t{name}\n" for i, name in enumerate(names))
        (path.parent / f"{what}_ids.del").write_text(text)
    keys = {name: column.tolist() for name, column in truth.keys.items()}
    rows = zip(*(keys[name] for name in (*PARTS, "side")), truth.better, truth.equal, strict=True)
    with path.open("a") as file:
        file.write("{epoch: 20, job: train, job_id: 1a, scope: epoch, type: KvsAll}\n")
        for h, r, t, side, better, equal in sorted(rows):
            line = (
                f"batch: 0, batches: 1, epoch: {epoch}, event: example_rank, "
                f"filter_splits: [{filters}], job: eval, job_id: 2b, o: {number[t]}, p: {number[r]}, "
                f"rank: 99, rank_filtered: {better + (equal + 1) // 2 + 1}, s: {number[h]}, "
                f"scope: example, size: 100, split: {split}, "
                f"task: {'sp' if side == 'tail' else 'po'}, type: entity_ranking"
            )
            file.write(f"{line}\n" if dumped else f"{{{line}}}\n")


@pytest.mark.parametrize("dumped", [False, True])
def test_libkge_traces(tmp_path, dumped):
    path = tmp_path / "trace.yaml"
    trace(path, truth(), dumped=dumped)
    for given in (path, tmp_path):
        ranks = dumps.libkge(given, TASK, names=tmp_path)
        assert ranks.keys["head"].tolist() == TASK.keys["head"].tolist()
        assert ranks.candidates.tolist() == TASK.candidates.tolist()
        for metric in ("mrr", "mr", "hits@3"):
            assert ranks.evaluate(metric)[metric] == pytest.approx(
                truth().evaluate(metric, ties="rounded")[metric]
            )
    assert ranks.protocol.extra["settled"].startswith("rounded mean")
    plain = dumps.libkge(path, 14)
    assert plain.keys["head"].dtype == np.int64
    assert sorted(plain.better) == sorted(ranks.better)
    out = tmp_path / "ranks.parquet"
    shell("import", "libkge", tmp_path, "--data", "nations", "--names", tmp_path, "-o", out)
    assert same(er.Ranks.load(out), ranks)


def test_libkge_counts_the_last_evaluation(tmp_path):
    path = tmp_path / "trace.yaml"
    trace(path, truth()[:3], epoch=10)
    trace(path, truth()[:7], split="valid")
    trace(path, truth())
    with pytest.warns(UserWarning, match=r"^2 evaluations of test in .*: the last one counts$"):
        assert len(dumps.libkge(path, TASK, names=tmp_path)) == len(truth())
    assert len(dumps.libkge(path, 14, split="valid")) == 7


def test_libkge_filters_must_agree(tmp_path):
    path = tmp_path / "trace.yaml"
    trace(path, truth(), filters="train, valid")
    with pytest.raises(
        er.errors.InputError, match=r"trace.yaml has no rank_filtered_with_test; got 402 such examp"
    ):
        dumps.libkge(path, TASK, names=tmp_path)
    with pytest.raises(
        er.errors.InputError, match=r"^a rank is above its number of candidates; got rank 99 of 14"
    ):
        dumps.libkge(path, NATIONS.task("test", filter=None), names=tmp_path)
    text = path.read_text().replace("rank_filtered: ", "rank_filtered: 99, rank_filtered_with_test: ")
    path.write_text(text)
    with_test = dumps.libkge(path, TASK, names=tmp_path)
    assert with_test.evaluate("mr")["mr"] == pytest.approx(truth().evaluate("mr", ties="rounded")["mr"])
    with pytest.raises(
        er.errors.InputError,
        match=r"^the task and LibKGE are filtered differently; got train in the task, train, valid",
    ):
        dumps.libkge(path, NATIONS.task("test", filter="train"), names=tmp_path)


def test_invalid_libkge_traces_raise(tmp_path):
    path = tmp_path / "trace.yaml"
    path.write_text("{scope: epoch}\n")
    with pytest.raises(
        er.errors.InputError, match=r"trace.yaml has no ranks of examples of test; evaluate with Lib"
    ):
        dumps.libkge(path, TASK)
    trace(path, truth())
    with pytest.raises(
        er.errors.InputError,
        match=r"^the trace and the task differ in triples; got 402 only in the task, 402 "
        r"only in the trace; .*; a graph with names needs LibKGE",
    ):
        dumps.libkge(path, TASK)
    with pytest.raises(
        er.errors.InputError, match=r"got 0 only in the task, 201 only in the trace; .* ranked$"
    ):
        dumps.libkge(path, NATIONS.task("test", sides="head"), names=tmp_path)
    good = path.read_text()
    for old, new, message in (
        (
            "rank_filtered: ",
            "rank_filtered: x",
            "rank_filtered of an example must be a whole number; got 'x",
        ),
        ("s: ", "s: -", r"s of an example must be a whole number; got '-\d+'"),
        ("p: ", "q: ", "p of an example must be a whole number; got 'nothing'"),
        ("task: sp", "task: so", "an example of another task; got so; allowed: sp, po"),
        ("task: sp", "tusk: sp", "an example of another task; got none; allowed: sp, po"),
    ):
        path.write_text(good.replace(f" {old}", f" {new}"))
        with pytest.raises(er.errors.InputError, match=rf"trace.yaml: {message}"):
            dumps.libkge(path, TASK, names=tmp_path)
    path.write_text(good)
    (tmp_path / "entity_ids.del").write_text("0\ta\n")
    with pytest.raises(er.errors.InputError, match=r"lacks names of the trace; got number 13 of 1 name"):
        dumps.libkge(path, TASK, names=tmp_path)

"""Top-k lists: bounds of ranks agree with brute force, with the engine, and with OGB-LSC."""

import gzip
import itertools
import json
import subprocess
import sys
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
import strategies
from foreign import NATIONS, NOTES, PARTS, TASK, said, same, scored, shell, shell_error, truth
from hypothesis import given, settings
from hypothesis import strategies as st

import evenrank as er
from evenrank.integrations import _blocks, _lines, topk
from evenrank.ranks.task import HOLE


def best(scores, k):
    """The k best ids of each row, best first."""
    return np.argsort(-scores, axis=1, kind="stable")[:, :k]


# Lists of ids ---------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(strategies.tasks(), st.data())
def test_lists_count_as_brute_force_does(made, data):
    task, rows = made
    answers, scores = [], []
    for row in rows:
        size = next(part.size for part in task.parts if part.side == row.side)
        ids = data.draw(st.lists(st.integers(0, size - 1), unique=True, max_size=6))
        answers.append(ids)
        scores.append([data.draw(st.sampled_from((-np.inf, 0.0, 0.5, 1.0))) for _ in ids])
    with_scores, in_order = [], []
    for row, ids, own in zip(rows, answers, scores, strict=True):
        for result, values in ((with_scores, own), (in_order, range(0, -len(ids), -1))):
            score = dict(zip(ids, values, strict=True))
            rivals = set(ids) & row.candidates - row.known - {row.target}
            rest = len(row.candidates - row.known - {row.target}) - len(rivals)
            goal = score.get(row.target)
            higher = sum(goal is None or score[i] > goal for i in rivals)
            result.append((higher, rest if goal is None else sum(score[i] == goal for i in rivals)))
    if not any(answers):
        return
    for expected, found in (
        (with_scores, topk.ranks(task, answers, scores)),
        (in_order, topk.ranks(task, answers)),
    ):
        assert list(zip(found.better.tolist(), found.equal.tolist(), strict=True)) == expected
        assert found.candidates.tolist() == task.candidates.tolist()


def test_unlisted_targets_have_bounds_and_the_mean_over_all_orders():
    task = er.Task.of([[0]], [4], size=7, known=([[0]], [1]))
    ranks = topk.ranks(task, [[1, 6, 2]])
    rest = [0, 3, 4, 5]
    orders = [[6, 2, *order].index(4) + 1 for order in itertools.permutations(rest)]
    for name, value in (("mrr", lambda r: 1 / r), ("hits@3", lambda r: float(r <= 3)), ("mr", float)):
        values = [value(rank) for rank in orders]
        assert ranks.evaluate(name)[name] == pytest.approx(np.mean(values))
        bounds = sorted(ranks.evaluate(name, ties=rule)[name] for rule in ("optimistic", "pessimistic"))
        assert bounds == pytest.approx([min(values), max(values)])


def test_full_lists_give_the_engines_ranks():
    order = best(scored()[1], 14)
    found = topk.ranks(TASK, order, np.take_along_axis(scored()[1], order, axis=1), model="ComplEx")
    assert same(found, truth())
    assert (found.equal > 0).any()
    assert found.keys.keys() == truth().keys.keys()
    assert found.protocol.model == "ComplEx"
    assert found.protocol.scores == (
        "lists of answers, by score, equal ones tied; 0.0% of targets not listed, anywhere among the "
        "rest"
    )
    er.compare(lists=found, model=truth())  # the same task: what differs is the model's own


def test_short_lists_bound_the_engines_ranks():
    order = best(scored()[1], 4)
    found = topk.ranks(TASK, order, np.take_along_axis(scored()[1], order, axis=1))
    unlisted = found.equal == found.candidates - 1 - found.better
    assert 0.1 < unlisted.mean() < 0.9
    for metric in ("mrr", "hits@3", "1/mr"):
        low, high = (found.evaluate(metric, ties=t)[metric] for t in ("pessimistic", "optimistic"))
        assert low < truth().evaluate(metric)[metric] < high


def test_a_matrix_is_padded_with_minus_one_and_counted_in_blocks(monkeypatch):
    order = best(scored()[1], 6)
    order[::3, 2:] = HOLE
    ragged = [row[row != HOLE] for row in order]
    whole = topk.ranks(TASK, ragged)
    monkeypatch.setattr(topk, "MOST", 50)
    assert same(topk.ranks(TASK, order), whole)


def test_lenient_lists_drop_unknown_ids_and_use_the_best_position():
    task = er.Task.of([[0], [1]], [3, 4], size=10)
    with pytest.warns(UserWarning, match=NOTES) as notes:
        found = topk.ranks(task, [[99, 5, 5, 3], [12, 4]], lenient=True)
    assert said(notes) == ["2 unknown answers: left out", "1 repeated answers: left out"]
    assert found.better.tolist() == [1, 0]
    with pytest.warns(UserWarning, match=r"1 repeated"):
        found = topk.ranks(task, [[3, 5, 3], [4]], [[0.1, 0.5, 0.7], [1]], lenient=True)
    assert found.better.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("lists", "scores", "message"),
    [
        (
            [[1]],
            None,
            "^there must be a list for each target, .*; got 1 lists of 1 answers for 2 targets$",
        ),
        ([[1], [2]], [[1], []], "; got 2 lists of 2 answers for 2 targets, with 1 scores$"),
        (
            [[1], [2, 2]],
            None,
            r"^list 1: an answer is listed twice; got 2; correct .*lenient=True",
        ),
        ([[10], [2]], None, "^list 0: an answer is not a candidate; got 10; allowed: 0 to 9; correct"),
        ([[1], [2]], [[1], [np.nan]], r"^scores contain NaN \(list 1, candidate 2\); check the list"),
        ([[-2], [2]], None, "^answers must be at least -1; got -2 in row 0$"),
        ([[1.5], [2]], None, "^answers must be whole; got 1.5 in row 0$"),
        ([["a"], [2]], None, "^answers must be lists of numbers, or a matrix with a row per target$"),
    ],
)
def test_invalid_lists_raise(lists, scores, message):
    task = er.Task.of([[0], [1]], [3, 4], size=10)
    with pytest.raises(er.errors.InputError, match=message):
        topk.ranks(task, lists, scores)


# WikiKG90M ------------------------------------------------------------------------------------------


def wikikg90m(rng, size):
    """Predictions without repeats, in some of which the answer is."""
    top = np.array([rng.permutation(60)[:10] for _ in range(300)])
    return top, np.where(rng.random(300) < 0.6, top[np.arange(300), rng.integers(0, 10, 300)], size - 1)


def reciprocal(ranks):
    """Theirs: nothing for what is not listed."""
    listed = ranks.equal == 0
    return float(np.where(listed, 1 / (ranks.better + 1), 0).mean())


def test_wikikg90m_agrees_with_its_evaluators():
    lsc = pytest.importorskip("ogb.lsc", reason="OGB is compared with by `make peers`")
    rng = np.random.default_rng(0)
    top, target = wikikg90m(rng, 91_230_610)
    given = {"h,r->t": {"t_pred_top10": top, "t": target}}
    ranks = topk.wikikg90m(given)
    assert set(ranks.candidates.tolist()) == {91_230_610}
    assert reciprocal(ranks) == pytest.approx(lsc.WikiKG90Mv2Evaluator().eval(given)["mrr"])
    top, target = wikikg90m(rng, 1001)
    given = {"h,r->t": {"t_pred_top10": top, "t_correct_index": target}}
    ranks = topk.wikikg90m(given)
    assert set(ranks.candidates.tolist()) == {1001}
    assert reciprocal(ranks) == pytest.approx(lsc.WikiKG90MEvaluator().eval(given)["mrr"])


def test_wikikg90m_by_hand_and_in_the_shell(tmp_path):
    top, target = wikikg90m(np.random.default_rng(1), 1001)
    given = {"h,r->t": {"t_pred_top10": top, "t_correct_index": target}}
    ranks = topk.wikikg90m(given)
    for row, right, better, equal in zip(top, target, ranks.better, ranks.equal, strict=True):
        at = row.tolist().index(right) if right in row else None
        assert (better, equal) == ((10, 990) if at is None else (at, 0))
    np.savez(tmp_path / "t_pred.npz", t_pred_top10=top)
    np.save(tmp_path / "val_t_correct_index.npy", target)
    out = tmp_path / "ranks.parquet"
    shell(
        "import", "wikikg90m", tmp_path / "t_pred.npz", tmp_path / "val_t_correct_index.npy", "-o", out
    )
    assert same(er.Ranks.load(out), ranks)
    np.save(tmp_path / "hr.npy", target)
    message = shell_error("import", "wikikg90m", tmp_path / "hr.npy")
    assert message == (
        f"{tmp_path}/hr.npy: unknown array; got hr; allowed: t_pred_top10, t_correct_index, t"
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"hrt": {}},
            "^no predictions, or no targets; got hrt; allowed: 'h,r->t': t_pred_top10",
        ),
        ({"h,r->t": {"t": [1]}}, "^no predictions, or no targets; got t; allowed"),
        ({"h,r->t": {"t": [1, 2], "t_pred_top10": [[1, 2]]}}, "^there must be a list for each target"),
        (
            {"h,r->t": {"t": [1, 2], "t_pred_top10": [1, 2]}},
            "^answers must be lists of numbers, or a mat",
        ),
        (
            {"h,r->t": {"t": [1], "t_pred_top10": [[1, 2, 2]]}},
            "^list 0: an answer is listed twice",
        ),
        ({"h,r->t": {"t": 1, "t_pred_top10": []}}, "^there must be a list for each target"),
    ],
)
def test_invalid_wikikg90m_files_raise(given, message):
    with pytest.raises(er.errors.InputError, match=message):
        topk.wikikg90m(given)


def test_targets_without_candidates_are_not_ranked_among_all_entities():
    with pytest.raises(er.errors.InputError, match=r"^size must be at least 1; got 0"):
        topk.wikikg90m({"h,r->t": {"t": [1], "t_pred_top10": [[1]]}}, candidates=0)


# Lists of names: AnyBURL and JSON lines -----------------------------------------------------------


def anyburl(path, task, scores, k=14, *, skip=None, separator=" "):
    """Write what AnyBURL would: a block per triple, with both lists; those that are known left out."""
    names = np.array(NATIONS.entities)
    half = len(task) // 2
    rows = list(zip(*(task.keys[part].tolist() for part in PARTS), strict=True))
    with path.open("w") as file:
        for i in range(half):
            file.write(separator.join(rows[i]) + "\n")
            for word, row in (("Heads", half + i), ("Tails", i)):
                order = best(scores[row : row + 1], len(names))[0]
                order = [e for e in order if skip is None or not skip(row, e)][:k]
                pairs = (f"{names[e]}\t{scores[row, e]}\t" for e in order)
                file.write(f"{word}: {''.join(pairs)}\n")


def known(task):
    """Say of a row of the task and an entity whether it is another right answer."""
    triples = {tuple(t) for split in NATIONS.splits.values() for t in split.tolist()}
    ids = {name: i for i, name in enumerate(NATIONS.entities)}
    relations = {name: i for i, name in enumerate(NATIONS.relations)}
    keys = {name: column.tolist() for name, column in task.keys.items()}

    def is_known(row, entity):
        h, r, t = ids[keys["head"][row]], relations[keys["relation"][row]], ids[keys["tail"][row]]
        side = keys["side"][row]
        triple = (entity, r, t) if side == "head" else (h, r, entity)
        return triple != (h, r, t) and triple in triples

    return is_known


@pytest.mark.parametrize("filtered", [False, True])
@pytest.mark.parametrize("separator", [" ", "\t"])
def test_anyburl_gives_the_engines_ranks(tmp_path, filtered, separator):
    path = tmp_path / "preds"
    anyburl(path, TASK, scored()[1], skip=known(TASK) if filtered else None, separator=separator)
    found = topk.anyburl(path, NATIONS)
    assert same(found, truth())
    assert found.protocol.model == "AnyBURL"
    assert found.protocol.content == NATIONS.hash


def test_anyburl_by_order_and_one_side_and_zipped(tmp_path):
    path = tmp_path / "preds"
    anyburl(path, TASK, scored()[1], k=3)
    both = topk.anyburl(path, NATIONS, order="listed")
    assert same(both, topk.ranks(TASK, best(scored()[1], 3)))
    assert "in the order listed" in both.protocol.scores
    zipped = tmp_path / "preds.gz"
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    heads = topk.anyburl(zipped, NATIONS, NATIONS.task("test", sides="head"), order="listed")
    assert same(heads, both[len(both) // 2 :])


def test_large_files_take_little_memory(tmp_path, monkeypatch):
    path = tmp_path / "preds"
    anyburl(path, TASK, scored()[1])
    content = path.read_bytes()
    twice = er.Graph.of(
        {**NATIONS.splits, "test": np.concatenate([NATIONS.splits["test"]] * 20)},
        entities=NATIONS.entities,
        relations=NATIONS.relations,
    )
    path.write_bytes(content * 20)  # each triple is in the split and in the file twenty times
    asked = twice.task("test")
    monkeypatch.setattr(_blocks, "MOST", 2**12)
    tracemalloc.start()
    found = topk.anyburl(path, twice, asked)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(found) == 20 * len(TASK)
    assert peak < path.stat().st_size
    assert found.evaluate("mrr")["mrr"] == pytest.approx(
        topk.anyburl(path, twice).evaluate("mrr")["mrr"]
    )


@pytest.fixture
def people(tmp_path):
    """A graph whose names have spaces."""
    names = ["Ada Lovelace", "Ada", "Lovelace knows", "New York", "York", "Bo"]
    graph = er.Graph.of(
        [[0, 0, 3], [1, 1, 4], [2, 0, 5], [5, 1, 0]],
        test=[[0, 0, 4], [5, 0, 0]],
        entities=names,
        relations=["knows well", "knows"],
    )
    return graph, tmp_path / "preds.txt"


def test_names_with_spaces(people):
    graph, path = people
    path.write_text(
        "Ada Lovelace knows well York\nTails: New York\t0.9\tBo\t0.5\t\nHeads: \n"
        "\nBo\tknows well\tAda Lovelace\nHeads: Bo\t1\nTails: York\t0.3\tAda Lovelace\t0.3\tAda\t0.2\n"
    )
    found = topk.anyburl(path, graph)
    # (Ada Lovelace, knows well, ?): New York is known, Bo is listed, York is not
    assert found.better.tolist() == [1, 0, 0, 0]
    assert found.equal.tolist() == [3, 1, 5, 0]
    assert found.candidates.tolist() == [5, 6, 6, 6]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "Ada likes York\nHeads: \nTails: \n",
            "^none of the lists is for a query of the task; got 2 lists for quer",
        ),
        (
            "",
            "^none of the lists is for a query of the task; got no lists; check the data set, the split",
        ),
        (
            "Ada likes New York\n",
            r"preds.txt:1: not a triple; got 'Ada likes New York'; separate head, r",
        ),
        ("Bo knows\n", "preds.txt:1: not a triple; got 'Bo knows'"),
        (
            "Bo\tknows well\tAda Lovelace\n",
            "preds.txt:1, the last line: not a line of predictions; got ''",
        ),
        (
            "Bo\tknows well\tAda Lovelace\nHeads: Bo\t0.5\nYork knows Bo\n",
            "preds.txt:3: not a line of predictions; got 'York knows Bo'; allowed: a triple, 'Heads",
        ),
        (
            "Bo\tknows well\tAda Lovelace\nHeads: Bo\tAda\n",
            "preds.txt:2: names and confidences must alter",
        ),
        (
            "Bo\tknows well\tAda Lovelace\nHeads: Bo\t1\tAda\n",
            "preds.txt:2: names and confidences must al",
        ),
        (
            "Bo\tknows well\tAda Lovelace\nHeads: Bo\t1\tEve\t1\n",
            "preds.txt:2: an answer is not in the graph; got 'Eve'; correct the list, or leave",
        ),
        (
            "Bo\tknows well\tAda Lovelace\nHeads: Bo\t1\tBo\t1\nTails: \n",
            r"preds.txt:2: an answer is listed twice; got 'Bo'; correct .*lenient=True$",
        ),
        (
            "Bo\tknows well\tAda Lovelace\nHeads: Bo\tnan\nTails: \n",
            r"scores contain NaN \(.*preds.txt:2, candidate 'Bo'\); check the list",
        ),
        (
            "Bo\tknows well\tAda Lovelace\nHeads: \nHeads: \n",
            "preds.txt:3: a second list for one query; got Bo knows well Ada Lovelace; keep one of them",
        ),
    ],
)
def test_invalid_blocks_raise(people, text, message):
    graph, path = people
    path.write_text(text)
    with pytest.raises(er.errors.InputError, match=message):
        topk.anyburl(path, graph)


WORDS = st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map(" ".join)


@settings(max_examples=200)
@given(
    st.sets(WORDS, min_size=1), st.sets(WORDS, min_size=1), st.lists(st.sampled_from("abc"), max_size=8)
)
def test_triples_of_names_with_spaces_are_split_as_by_trying_all_places(entities, relations, words):
    names = SimpleNamespace(
        of={"head": dict.fromkeys(entities, 0), "relation": dict.fromkeys(relations, 0)}
    )
    names.most_words = lambda part, separator: _blocks.Vocabulary.most_words.__wrapped__(
        names, part, separator
    )
    cuts = [
        (" ".join(words[:i]), " ".join(words[i:j]), " ".join(words[j:]))
        for i, j in itertools.combinations(range(1, len(words)), 2)
    ]
    found = [cut for cut in cuts if {cut[0], cut[2]} <= entities and cut[1] in relations]
    if len(words) == 3 or len(found) == 1:
        assert (
            tuple(topk._triple("here", " ".join(words), names))
            == (cuts if len(words) == 3 else found)[0]
        )
    else:
        with pytest.raises(er.errors.InputError, match="ambiguous triple" if found else "not a triple"):
            topk._triple("here", " ".join(words), names)


def test_a_line_of_many_words_is_refused_at_once():
    names = _blocks.Vocabulary(er.load("nations"))
    with pytest.raises(er.errors.InputError, match=r"here: not a triple; got 'usa usa"):
        topk._triple("here", "usa " * 300_000, names)  # trying all places would take years


def test_a_line_without_an_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(_lines, "LONGEST", 1000)
    with gzip.open(tmp_path / "bomb.gz", "wb") as file:
        file.write(b"a" * 10**6)
    with pytest.raises(er.errors.InputError, match=r"bomb.gz:1: a line of more than 1,000 bytes"):
        list(_lines.lines(tmp_path / "bomb.gz"))


def test_ambiguous_triples_raise():
    graph = er.Graph.of([[0, 0, 1], [2, 1, 1]], entities=["a", "c", "a b"], relations=["b r", "r"])
    with pytest.raises(er.errors.InputError, match=r"^here: an ambiguous triple; got 'a b r c'"):
        topk._triple("here", "a b r c", _blocks.Vocabulary(graph))


def test_lenient_blocks(people):
    graph, path = people
    path.write_text(
        "Bo\tknows well\tAda Lovelace\nHeads: Eve\t1\tBo\t1\tBo\t0.5\nHeads: Ada\t1\n"
        "Ada\tknows\tBo\nHeads: \nTails: \n"
    )
    with pytest.warns(UserWarning, match=NOTES) as notes:
        found = topk.anyburl(path, graph, lenient=True)
    assert said(notes) == [
        "1 unknown answers: left out",
        "1 second lists for one query: left out",
        "2 lists for queries that are not in the task: left out",
        "1 repeated answers: left out",
        "3 of 4 targets have no list: they may rank anywhere",
    ]
    assert found.better.tolist() == [0, 0, 0, 0]
    assert found.equal.tolist() == [4, 5, 5, 0]


def test_notes_count_lists_and_point_at_the_caller(people):
    """A list that serves several targets is one list."""
    _, path = people
    graph = er.Graph.of([[0, 0, 1]], test=[[0, 0, 1], [0, 0, 2], [1, 0, 2]], entities=4, relations=1)
    ids = {"head": "0", "relation": "0", "tail": None}
    path.write_text(json.dumps({**ids, "answers": ["1", "2", "1"]}) + "\n")
    with pytest.warns(UserWarning, match=NOTES) as notes:
        topk.jsonl(path, graph, graph.task(sides="tail"), lenient=True)
    assert said(notes)[0] == "1 repeated answers: left out"
    path.write_text("0\t0\t1\nHeads: \nTails: 2\t1\t2\t1\n")
    with pytest.warns(UserWarning, match=NOTES) as more:
        topk.anyburl(path, graph, lenient=True)
    given = {topk.TAILS: {"t_pred_top10": [[4, 4]], "t": [9]}}
    with pytest.warns(UserWarning, match=NOTES) as last:
        topk.wikikg90m(given, lenient=True)
    with pytest.warns(UserWarning, match=NOTES) as ids:
        topk.ranks(graph.task(sides="tail"), [[2, 2], [], [1, 1]], lenient=True)
    assert said(ids) == ["2 repeated answers: left out"]
    assert {note.filename for note in (*notes, *more, *last, *ids)} == {__file__}


def test_the_task_must_belong_to_the_graph(people):
    with pytest.raises(
        er.errors.InputError, match=r"^the task is not of this graph; make it with graph.task"
    ):
        topk.anyburl(people[1], people[0], TASK)
    with pytest.raises(
        er.errors.InputError, match=r"^unknown order of lists; got 'best'; allowed: scores, listed$"
    ):
        topk.anyburl(people[1], people[0], order="best")


def records(task, scored, k):
    """A record per distinct query, as a script around a model writes them."""
    queries, scores = scored
    seen = set()
    for query, row in zip(queries.tolist(), scores, strict=True):
        if tuple(query) in seen:
            continue
        seen.add(tuple(query))
        h, r, t = query
        names = (
            None if h == HOLE else NATIONS.entities[h],
            NATIONS.relations[r],
            None if t == HOLE else NATIONS.entities[t],
        )
        order = best(row[None], k)[0]
        answers = [NATIONS.entities[e] for e in order]
        yield dict(zip(PARTS, names, strict=True)) | {"answers": answers, "scores": row[order].tolist()}


def write(path, content):
    path.write_text("".join(json.dumps(record) + "\n" for record in content))
    return path


def test_json_lines_give_the_engines_ranks(tmp_path):
    path = write(tmp_path / "llm.jsonl", records(TASK, scored(), 14))
    found = topk.jsonl(path, NATIONS)
    assert same(found, truth())
    assert found.protocol.model == "llm.jsonl"
    path = write(tmp_path / "short.jsonl", records(TASK, scored(), 5))
    order = best(scored()[1], 5)
    assert same(
        topk.jsonl(path, NATIONS),
        topk.ranks(TASK, order, np.take_along_axis(scored()[1], order, axis=1)),
    )


def test_json_lines_for_single_targets_and_relations(people):
    graph, path = people
    triple = {"head": "Bo", "relation": "knows well", "tail": "Ada Lovelace"}
    write(path, [triple | {"side": "tail", "answers": ["York", "Ada Lovelace"]}])
    with pytest.warns(UserWarning, match=r"1 of 2 targets have no list"):
        found = topk.jsonl(path, graph, graph.task("test", sides="tail"))
    assert found.better.tolist() == [0, 1]
    assert found.equal.tolist() == [4, 0]
    write(path, [triple | {"relation": None, "answers": ["knows"]}])
    with pytest.warns(UserWarning, match=r"1 of 2 targets have no list"):
        found = topk.jsonl(path, graph, graph.task("test", sides="relation", filter=None))
    assert found.better.tolist() == [0, 1]
    assert found.equal.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "preds.txt:1: not JSON; got .{"),
        (
            "[]",
            r'preds.txt:1: not a list of answers; got \[\]; allowed: {"head": "a", "relation": "r", "ta',
        ),
        (
            '{"head": "Bo", "answers": []}',
            "the side that is asked for is not clear; got side None, without relat",
        ),
        (
            '{"head": "Bo", "relation": "knows", "tail": "Bo", "answers": []}',
            "got side None, without a null; set the part that is asked for to null, or add its side",
        ),
        (
            '{"head": "Bo", "relation": "knows", "side": "head", "answers": []}',
            "got side head, without tail",
        ),
        (
            '{"head": "Bo", "relation": "knows", "answers": ["Bo"], "scores": []}',
            "preds.txt:1: scores must be numbers, one for each answer",
        ),
        (
            '{"head": "Bo", "relation": "knows", "answers": ["Bo"], "scores": ["x"]}',
            "scores must be numbe",
        ),
        (
            '{"head": "Bo", "relation": "knows well", "answers": ["Bo"], "scores": [NaN]}',
            r"scores contain NaN \(.*preds.txt:1, candidate 'Bo'\)",
        ),
        (
            '{"head": "Bo", "relation": "knows well", "answers": ["Mars"]}',
            "is not in the graph; got 'Mars'",
        ),
        pytest.param("[" * 100_000, "preds.txt:1: not JSON; got .....", id="deep"),
        pytest.param("1" * 5_000, "preds.txt:1: not JSON; got .1111", id="long"),
        pytest.param(
            '{"head": "Bo", "relation": "knows", "answers": ["Bo"], "scores": [1' + 400 * "0" + "]}",
            "scores must be numbers",
            id="huge",
        ),
    ],
)
def test_invalid_json_lines_raise(people, line, message):
    graph, path = people
    path.write_text(line + "\n")
    with pytest.raises(er.errors.InputError, match=message):
        topk.jsonl(path, graph)


def test_files_that_cannot_be_read(people):
    graph, path = people
    with pytest.raises(er.errors.InputError, match=r"^no such file; got .*preds.txt$"):
        topk.jsonl(path, graph)
    path.write_bytes(b"a\n\xff\n")
    with pytest.raises(er.errors.InputError, match=r"preds.txt:1: not JSON"):
        topk.jsonl(path, graph)
    path.write_bytes(b"\xff\n")
    with pytest.raises(er.errors.InputError, match=r"preds.txt:1: not UTF-8; save it as UTF-8"):
        topk.jsonl(path, graph)
    path.write_bytes(gzip.compress(b"\n" * 99)[:-9])
    with pytest.raises(
        er.errors.InputError, match=r"^cannot read .*preds.txt; got .*; it may be damaged"
    ):
        topk.jsonl(path, graph, lenient=True)


def test_lists_in_the_shell(tmp_path):
    path = tmp_path / "preds"
    anyburl(path, TASK, scored()[1], k=4)
    out = tmp_path / "rules.parquet"
    text = shell("import", "anyburl", path, "--data", "nations", "-m", "mrr", "-o", out)
    found = er.Ranks.load(out)
    assert text == f"{found.evaluate('mrr')}\n"
    assert same(found, topk.anyburl(path, NATIONS))
    assert "of targets not listed, anywhere among the rest" in found.protocol.scores
    lists = write(tmp_path / "lists.jsonl", records(TASK, scored(), 4))
    text = shell("import", "lists", lists, "--data", "nations", "--sides", "head", "-m", "mrr")
    assert (
        text.splitlines()[2]
        == str(
            topk.jsonl(lists, NATIONS, NATIONS.task("test", sides="head")).evaluate("mrr")
        ).splitlines()[2]
    )
    assert shell_error("import", "lists", lists) == (
        "the names of entities need a graph; name the graph with --data NAME_OR_FOLDER"
    )
    assert shell_error("import", "anyburl", path, "--names", path).startswith(
        "no such option; got --names"
    )


def test_the_shell_reports_unlisted_targets(people):
    graph, path = people
    folder = path.parent / "people"
    folder.mkdir()
    for split, triples in graph.splits.items():
        names = [(graph.entities[h], graph.relations[r], graph.entities[t]) for h, r, t in triples]
        (folder / f"{split}.txt").write_text("".join("\t".join(triple) + "\n" for triple in names))
    path.write_text("Bo\tknows well\tAda Lovelace\nHeads: Eve\t1\tYork\t1\nTails: \n")
    command = [sys.executable, "-m", "evenrank", "import", "anyburl", path, "--data", folder]
    done = subprocess.run([*command, "--lenient"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        "note: 1 unknown answers: left out",
        "note: 2 of 4 targets have no list: they may rank anywhere",
        "note: lists of answers, by score, equal ones tied; 100.0% of targets not listed, anywhere "
        "among the rest",
    ]
    assert "optimistic" in done.stdout.splitlines()[0]
    quiet = subprocess.run(
        [*command, "--lenient", "--quiet"], capture_output=True, text=True, timeout=120
    )
    assert (quiet.stdout, quiet.stderr) == (done.stdout, "")
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stderr.startswith(f"evenrank: {path}:2: an answer is not in the graph; got 'Eve'")

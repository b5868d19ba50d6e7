"""TREC's runs: ranks by hand, and the numbers of trec_eval and ir_measures."""

import numpy as np
import pytest
from foreign import NOTES, said, same, shell, shell_error

import evenrank as er
from evenrank.integrations import trec

# TREC -----------------------------------------------------------------------------------------------


@pytest.fixture
def retrieval(tmp_path):
    """A run over 60 documents without ties, and judgements with one to four relevant ones."""
    rng = np.random.default_rng(0)
    run, judged = tmp_path / "run.txt", tmp_path / "qrels.txt"
    with run.open("w") as lists, judged.open("w") as right:
        for query in range(40):
            order = rng.permutation(60)
            for place, document in enumerate(order):
                lists.write(f"q{query} Q0 d{document} {place} {10 - place / 7:.4f} bm25\n")
            for i, document in enumerate(rng.permutation(60)[: 6 + query % 4]):
                right.write(f"q{query} 0 d{document} {int(i <= query % 4)}\n")
    return run, judged


def shortened(run, k):
    """Keep the first k lines of each query."""
    lines = run.read_text().splitlines()
    short = run.with_name("short.txt")
    short.write_text("".join(f"{line}\n" for i, line in enumerate(lines) if i % 60 < k))
    return short


def test_trec_by_hand(retrieval):
    run, judged = retrieval
    lists, right = {}, {}
    for line in run.read_text().splitlines():
        lists.setdefault(line.split()[0], []).append(line.split()[2])
    for line in judged.read_text().splitlines():
        query, _, document, relevance = line.split()
        right.setdefault(query, set()).update([document] * (relevance == "1"))
    ranks = trec.ranks(run, judged, candidates=60)
    short = trec.ranks(shortened(run, 20), judged, candidates=60)
    assert len(ranks) == len(short) == sum(map(len, right.values()))
    rows = zip(
        ranks.keys["query"], ranks.keys["answer"], ranks.better, short.better, short.equal, strict=True
    )
    for query, answer, better, listed, equal in rows:
        order = [document for document in lists[query] if document not in right[query] - {answer}]
        assert order.index(answer) == better
        cut = [document for document in lists[query][:20] if document not in right[query]]
        found = answer in lists[query][:20]
        assert (listed, equal) == ((better, 0) if found else (len(cut), len(order) - 1 - len(cut)))
    assert ranks.candidates.tolist() == [61 - len(right[query]) for query in ranks.keys["query"]]
    assert ranks.protocol.model == "bm25"
    assert ranks.protocol.extra["relevant"] == "judged 1 or more"


def test_trec_agrees_with_trec_eval(retrieval):
    pytrec_eval = pytest.importorskip("pytrec_eval", reason="trec_eval is compared with by `make peers`")
    run, judged = retrieval
    with judged.open() as right, run.open() as lists:
        truth, full = pytrec_eval.parse_qrel(right), pytrec_eval.parse_run(lists)
    with shortened(run, 20).open() as lists:
        short = pytrec_eval.parse_run(lists)
    evaluator = pytrec_eval.RelevanceEvaluator(truth, {"recip_rank", "success"})
    names = {"recip_rank": "mrr", "success_1": "hits@1", "success_5": "hits@5", "success_10": "hits@10"}
    theirs = evaluator.evaluate(full).values()
    ranks = trec.ranks(run, judged, candidates=60, targets="first")
    for name, metric in names.items():
        assert ranks.evaluate(metric)[metric] == pytest.approx(np.mean([row[name] for row in theirs]))
    theirs = evaluator.evaluate(short).values()
    ranks = trec.ranks(shortened(run, 20), judged, candidates=60, targets="first")
    listed = ranks.equal == 0
    assert not listed.all()
    assert np.where(listed, 1 / (ranks.better + 1), 0).mean() == pytest.approx(
        np.mean([row["recip_rank"] for row in theirs])
    )
    assert f"{(~listed).mean():.1%} of targets not listed" in ranks.protocol.scores


def test_trec_agrees_with_ir_measures(retrieval):
    ir = pytest.importorskip("ir_measures", reason="ir_measures is compared with by `make peers`")
    run, judged = retrieval
    theirs = ir.calc_aggregate(
        [ir.RR, ir.Success @ 3],
        list(ir.read_trec_qrels(str(judged))),
        list(ir.read_trec_run(str(run))),
    )
    ranks = trec.ranks(run, judged, candidates=60, targets="first")
    assert ranks.evaluate("mrr")["mrr"] == pytest.approx(theirs[ir.RR])
    assert ranks.evaluate("hits@3")["hits@3"] == pytest.approx(theirs[ir.Success @ 3])


def test_ties_in_a_run_bound_the_value_of_trec_eval(retrieval):
    run, judged = retrieval
    lines = [line.split() for line in run.read_text().splitlines()]
    coarse = [[*line[:4], f"{float(line[4]):.0f}", line[5]] for line in lines]
    run.write_text("".join(" ".join(line) + "\n" for line in coarse))
    ranks = trec.ranks(run, judged, candidates=60, targets="first")
    assert (ranks.equal > 0).all()
    pytrec_eval = pytest.importorskip("pytrec_eval", reason="trec_eval is compared with by `make peers`")
    with judged.open() as right, run.open() as lists:
        evaluator = pytrec_eval.RelevanceEvaluator(pytrec_eval.parse_qrel(right), {"recip_rank"})
        theirs = evaluator.evaluate(pytrec_eval.parse_run(lists))
    mrr = np.mean([row["recip_rank"] for row in theirs.values()])
    low, high = (ranks.evaluate("mrr", ties=rule)["mrr"] for rule in ("pessimistic", "optimistic"))
    assert low < mrr < high


def test_a_document_listed_twice_is_one_repeat(tmp_path):
    """However many documents are relevant."""
    run, judged = tmp_path / "run", tmp_path / "qrels"
    run.write_text("".join(f"q Q0 {name} 1 {9 - i} x\n" for i, name in enumerate("abca")))
    judged.write_text("q 0 a 1\nq 0 b 1\n")
    with pytest.warns(UserWarning, match="left out") as notes:
        ranks = trec.ranks(run, judged, candidates=9, lenient=True)
    assert [str(note.message) for note in notes] == ["1 repeated answers: left out"]
    assert notes[0].filename == __file__
    assert ranks.better.tolist() == [0, 0]


def test_queries_without_judgements_are_left_out(retrieval):
    run, judged = retrieval
    with run.open("a") as lists, judged.open("a") as right:
        lists.write("q99 Q0 d1 1 1 bm25\n")
        right.write("q98 0 d1 0\nq97 0 d1 1\n")
    with pytest.warns(UserWarning, match=NOTES) as notes:
        ranks = trec.ranks(run, judged, candidates=60)
    assert said(notes) == [
        "1 queries without a relevant document: left out",
        "1 queries of the run that are not judged: left out",
        "1 of 101 targets have no list: they may rank anywhere",
    ]
    assert (ranks.better[-1], ranks.equal[-1]) == (0, 59)


@pytest.mark.parametrize(
    ("run", "judged", "options", "message"),
    [
        ("q Q0 d 1 x t\n", "q 0 d 1\n", {}, "run.txt:1: not a number; got 'x'"),
        ("q Q0 d 1 nan t\n", "q 0 d 1\n", {}, r"NaN \(.*run.txt:1, candidate d\); check the list"),
        (
            "q d 1\n",
            "q 0 d 1\n",
            {},
            "run.txt:1: not a line in TREC format; got 'q d 1'; allowed: query Q0 docum",
        ),
        (
            "",
            "q d 1\n",
            {},
            "qrels.txt:1: not a line in TREC format; got 'q d 1'; allowed: query 0 document re",
        ),
        ("", "q 0 d 1\nq 0 d 0\n", {}, "qrels.txt:2: a document is judged twice; got d for query q"),
        ("", "q 0 d 0\n", {}, "qrels.txt: no document is judged 1 or more"),
        ("", "q 0 d 1\n", {}, "^none of the lists is for a query of the task; got no lists"),
        (
            "q Q0 d 1 1 t\nq Q0 d 2 0 t\n",
            "q 0 d 1\n",
            {},
            "run.txt:1: an answer is listed twice; go",
        ),
        (
            "q Q0 d 1 1 t\np Q0 d 1 1 t\nq Q0 e 2 0 t\n",
            "q 0 d 1\n",
            {},
            "run.txt:3: the lines of a query must be adjacent; got query q again; sort the run",
        ),
        (
            "q Q0 d 1 1 t\nq Q0 e 2 0 t\nq Q0 f 2 0 t\n",
            "q 0 d 1\n",
            {"candidates": 2},
            "run.txt:1: more docum",
        ),
        (
            "",
            "q 0 d 1\nq 0 e 1\n",
            {"candidates": 1},
            "^there are fewer candidates than relevant documents",
        ),
        ("", "", {"targets": "best"}, "^unknown targets; got 'best'; allowed: every, first$"),
    ],
)
def test_invalid_trec_files_raise(tmp_path, run, judged, options, message):
    (tmp_path / "run.txt").write_text(run)
    (tmp_path / "qrels.txt").write_text(judged)
    with pytest.raises(er.errors.InputError, match=message):
        trec.ranks(tmp_path / "run.txt", tmp_path / "qrels.txt", **{"candidates": 9} | options)


def test_trec_in_the_shell(tmp_path, retrieval):
    lists, judged = retrieval
    out = tmp_path / "ranks.parquet"
    options = ("--qrels", judged, "--candidates", 60, "--targets", "first")
    shell("import", "trec", lists, *options, "-o", out)
    assert same(er.Ranks.load(out), trec.ranks(lists, judged, candidates=60, targets="first"))
    assert shell_error("import", "trec", lists, judged, "--candidates", 60).startswith(
        "--qrels is missing: file of judgements: query, 0, document, judgement; see"
    )
    assert shell_error("import", "trec", lists, "--qrels", judged).startswith(
        "the number of candidates is not known"
    )

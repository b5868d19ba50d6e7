"""TREC's runs: ranks by hand, and the numbers of trec_eval and ir_measures."""

import gzip
import json

import numpy as np
import polars as pl
import pytest
from foreign import said, same, shell, shell_error

import evenrank as er
from evenrank.integrations import _lines, trec

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


def by_hand(run, judged, candidates=None, relevant=1):
    """Positions of the relevant documents of each query: counts of better and equal documents."""
    lists, right = {}, {}
    for line in run.read_text().splitlines():
        query, _, document, _, score, _ = line.split()
        lists.setdefault(query, {})[document] = float(score)
    for line in judged.read_text().splitlines():
        query, _, document, relevance = line.split()
        right.setdefault(query, {})[document] = float(relevance)
    rows = {}
    for query, documents in right.items():
        scores = lists.get(query, {})
        for document, gain in documents.items():
            if gain < relevant:
                continue
            if document in scores:
                own = scores[document]
                better = sum(score > own for score in scores.values())
                equal = sum(score == own for score in scores.values()) - 1
            elif candidates is None:
                better, equal = -1, 0
            else:
                better, equal = len(scores), candidates - len(scores) - 1
            rows[query, document] = (better, equal, gain)
    return rows


def in_rows(rankings):
    """The rows of `by_hand`, from rankings."""
    owner = np.repeat(rankings.keys["query"], np.diff(rankings.first))
    gains = np.ones(len(owner)) if rankings.gains is None else rankings.gains
    values = zip(rankings.better.tolist(), rankings.equal.tolist(), gains.tolist(), strict=True)
    return dict(zip(zip(owner, rankings.answers, strict=True), values, strict=True))


@pytest.mark.parametrize("candidates", [None, 75])
def test_rankings_of_a_run_are_counts_of_better_and_equal_documents(retrieval, candidates):
    run, judged = retrieval
    coarsen(run)
    graded = judged.read_text().replace(" 1\n", " 3\n", 30).replace("0\n", "-2\n", 5)
    judged.write_text(graded)
    for file in (run, shortened(run, 20)):
        rankings = trec.rankings(file, judged, candidates=candidates)
        assert in_rows(rankings) == by_hand(file, judged, candidates)
        assert set(rankings.candidates) == {candidates or 0}
    assert rankings.gains.max() == 3.0
    assert in_rows(trec.rankings(run, judged, relevant=2)) == by_hand(run, judged, relevant=2)


def coarsen(run):
    """Round the scores, so that many documents tie."""
    lines = [line.split() for line in run.read_text().splitlines()]
    coarse = [[*line[:4], f"{float(line[4]):.0f}", line[5]] for line in lines]
    run.write_text("".join(" ".join(line) + "\n" for line in coarse))


def test_ranks_of_a_run_are_those_of_its_rankings_one_by_one(retrieval):
    run, judged = retrieval
    coarsen(run)
    file = shortened(run, 20)
    together = trec.rankings(file, judged, candidates=60, queries="judged")
    assert same(together.ranks(), trec.ranks(file, judged, candidates=60))


def test_files_tables_and_mappings_give_the_same_rankings(retrieval):
    run, judged = retrieval
    lists, right = {}, {}
    for line in run.read_text().splitlines():
        query, _, document, _, score, _ = line.split()
        lists.setdefault(query, {})[document] = float(score)
    for line in judged.read_text().splitlines():
        query, _, document, relevance = line.split()
        right.setdefault(query, {})[document] = int(relevance)
    of_files = trec.rankings(run, judged, candidates=60)
    scores = [(q, d, s) for q, each in lists.items() for d, s in each.items()]
    gains = [(q, d, g) for q, each in right.items() for d, g in each.items()]
    names = [("query", "document", "score"), ("query", "document", "relevance")]
    frames = [
        pl.DataFrame(rows, schema=n, orient="row")
        for rows, n in zip((scores, gains), names, strict=True)
    ]
    users = [
        frame.to_pandas().set_axis(["userID", "itemID", last], axis=1)
        for frame, last in zip(frames, ("prediction", "rating"), strict=True)
    ]
    for one, other in ((lists, right), frames, users):
        found = trec.rankings(one, other, candidates=60)
        assert in_rows(found) == in_rows(of_files)
        assert found.keys["query"].tolist() == of_files.keys["query"].tolist()


def test_lines_may_come_in_any_order_with_blanks_comments_and_more_after_the_tag(retrieval, tmp_path):
    run, judged = retrieval
    rng = np.random.default_rng(1)
    mixed = rng.permutation(run.read_text().splitlines()).tolist()
    other = tmp_path / "mixed.gz"
    text = "".join(line.replace(" ", "\t  ") + " and more\r\n\n# a comment\n" for line in mixed)
    other.write_bytes(gzip.compress(("\ufeff" + text).encode()))
    assert in_rows(trec.rankings(other, judged)) == in_rows(trec.rankings(run, judged))


def test_equal_scores_are_ordered_by_name_descending_under_the_ties_of_trec_eval():
    run = {"q": {"a": 1.0, "b": 1.0, "é": 1.0, "z": 1.0, "B": 2.0}}
    for name, position in {"B": 0, "é": 1, "z": 2, "b": 3, "a": 4}.items():
        found = trec.rankings(run, {"q": {name: 1}}, ties="trec_eval")
        assert (found.better.tolist(), found.equal.tolist()) == ([position], [0])


def test_trec_eval_compares_scores_in_single_precision_up_to_version_9():
    run, qrels = {"q": {"a": 1.0 + 1e-9, "b": 1.0}}, {"q": {"a": 1}}
    assert trec.rankings(run, qrels, ties="trec_eval").better.tolist() == [1]
    assert trec.rankings(run, qrels, ties="trec_eval_10").better.tolist() == [0]
    assert trec.rankings(run, qrels).better.tolist() == [0]


def test_judged_queries_that_are_not_in_the_run_are_left_out_or_count():
    run, qrels = {"a": {"x": 1.0, "y": 0.5}}, {"a": {"y": 1}, "b": {"x": 1}, "c": {"x": 0}}
    with pytest.warns(UserWarning, match="2 judged queries that are not in the run: left out"):
        few = trec.rankings(run, qrels)
    assert few.evaluate("map")["map"] == 0.5
    with pytest.warns(UserWarning, match="2 judged queries are not in the run: .* never retrieved"):
        every = trec.rankings(run, qrels, queries="judged")
    assert every.evaluate("map")["map"] == 0.25
    assert every.evaluate("map", empty="zero")["map"] == pytest.approx(0.5 / 3)
    with pytest.warns(UserWarning, match="may rank anywhere"):
        anywhere = trec.rankings(run, qrels, queries="judged", candidates=4)
    assert anywhere.evaluate("mrr")["mrr"] == pytest.approx((0.5 + (1 + 1 / 2 + 1 / 3 + 1 / 4) / 4) / 2)


def test_relevant_documents_that_are_not_in_the_run_are_tied_or_never_retrieved(retrieval):
    run, judged = retrieval
    file = shortened(run, 20)
    never = trec.rankings(file, judged, candidates=60, unretrieved="never")
    tied = trec.rankings(file, judged, candidates=60)
    for metric in ("map", "ndcg", "mrr"):
        low, expected, high = (
            tied.evaluate(metric, ties=rule)[metric]
            for rule in ("pessimistic", "expected", "optimistic")
        )
        assert never.evaluate(metric)[metric] < low < expected < high
    full = trec.rankings(run, judged, candidates=60)
    for metric in ("map", "ndcg", "mrr"):
        assert (
            tied.evaluate(metric, ties="pessimistic")[metric]
            <= full.evaluate(metric)[metric]
            <= tied.evaluate(metric, ties="optimistic")[metric]
        )
    assert "not listed, anywhere among the rest" in tied.protocol.scores
    assert "not listed, never retrieved" in never.protocol.scores


def test_the_chance_level_of_the_first_relevant_document_counts_all_of_them():
    """The best of three documents among 1,000 at random, and not the best of one."""
    names = [f"d{i}" for i in range(1000)]
    run = {"q": {name: -float(i) for i, name in enumerate(names)}}
    found = trec.rankings(run, {"q": {"d9": 1, "d500": 1, "d700": 1}}, candidates=1000)
    chance = found.evaluate("mrr", "chance(mrr)")["chance(mrr)"]
    shuffled = np.random.default_rng(0).permuted(np.tile(np.arange(1000), (4000, 1)), axis=1)[:, :3]
    simulated = 1 / (shuffled.min(axis=1) + 1)
    assert chance == pytest.approx(0.0180, abs=5e-5)
    assert chance == pytest.approx(simulated.mean(), abs=4 * simulated.std() / 4000**0.5)


def test_a_document_listed_twice_is_one_repeat(tmp_path):
    """However many documents are relevant."""
    run, judged = tmp_path / "run", tmp_path / "qrels"
    run.write_text("".join(f"q Q0 {name} 1 {9 - i} x\n" for i, name in enumerate("abca")))
    judged.write_text("q 0 a 1\nq 0 b 1\n")
    with pytest.warns(UserWarning, match="left out") as notes:
        ranks = trec.ranks(run, judged, candidates=9, lenient=True)
    assert [str(note.message) for note in notes] == ["1 repeated documents: left out"]
    assert notes[0].filename == __file__
    assert ranks.better.tolist() == [0, 0]


def test_queries_without_judgements_are_left_out(retrieval):
    run, judged = retrieval
    with run.open("a") as lists, judged.open("a") as right:
        lists.write("q99 Q0 d1 1 1 bm25\n")
        right.write("q98 0 d1 0\nq97 0 d1 1\n")
    with pytest.warns(UserWarning, match="left out|may rank anywhere") as notes:
        ranks = trec.ranks(run, judged, candidates=60)
    assert said(notes) == [
        "2 judged queries are not in the run: their answers may rank anywhere",
        "1 queries of the run that are not judged: left out",
    ]
    assert {note.filename for note in notes} == {__file__}
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
            "q Q0 d 1 1 t\n",
            "q 0 d 1\n\nq d 1\n",
            {},
            "qrels.txt:3: not a line in TREC format; got 'q d 1'; allowed: query 0 document re",
        ),
        ("q Q0 d 1 1 t\n", "q 0 d 1 7\n", {}, "qrels.txt:1: not a line in TREC format"),
        ("q Q0 d 1 1 t\n", "q 0 d nan\n", {}, "relevance is NaN; got .*qrels.txt:1, candidate d"),
        ("", "q 0 d 1\nq 0 d 0\n", {}, "qrels.txt:2: a document is judged twice; got d for query q"),
        ("", "q 0 d 0\n", {}, "qrels.txt: no document is judged 1 or more"),
        ("", "q 0 d 1\n", {}, "^the run and the judgements share no query; got queries none in "),
        (
            "p Q0 d 1 1 t\n",
            "q 0 d 1\n",
            {},
            "^the run and the judgements share no query; got queries p in .*, and q in .*; check",
        ),
        (
            "q Q0 d 1 1 t\nq Q0 d 2 0 t\n",
            "q 0 d 1\n",
            {},
            "run.txt:2: a document is listed twice; got d for query q; .* lenient=True",
        ),
        (
            "q Q0 d 1 1 t\nq Q0 e 2 0 t\nq Q0 f 2 0 t\n",
            "q 0 d 1\n",
            {"candidates": 2},
            "^there are fewer candidates than listed and relevant ones; got 2, and 3 for query q; set",
        ),
        ("q Q0 d 1 1 t\n", "q 0 d 1\nq 0 e 1\n", {"candidates": 1}, "^there are fewer candidates"),
        ("q Q0 d 1 1 t\n", "q 0 d 1\n", {"candidates": 0}, "^candidates must be at least 1"),
        ("q Q0 d 1 1 t\n", "q 0 d 1\n", {"relevant": 0}, "^relevant must be a number above 0.*; got 0"),
        ("q Q0 d 1 1 t\n", "q 0 d 1\n", {"relevant": "1"}, "^relevant must be a number above 0"),
        ("q Q0 d 1 1 t\n", "q 0 d 1\n", {"order": "rank"}, "^unknown order of lists; got 'rank'"),
    ],
)
def test_invalid_trec_files_raise(tmp_path, run, judged, options, message):
    (tmp_path / "run.txt").write_text(run)
    (tmp_path / "qrels.txt").write_text(judged)
    for read in (trec.ranks, trec.rankings):
        with pytest.raises(er.errors.InputError, match=message):
            read(tmp_path / "run.txt", tmp_path / "qrels.txt", **{"candidates": 9} | options)


@pytest.mark.parametrize(
    ("run", "qrels", "options", "message"),
    [
        (
            {"q": {"d": 1.0}},
            {"q": {"d": 1}},
            {"ties": "trec"},
            "^unknown ties of a run; got 'trec'; all",
        ),
        ({"q": {"d": 1.0}}, {"q": {"d": 1}}, {"queries": "all"}, "^unknown value of queries; got 'all'"),
        ({"q": {"d": 1.0}}, {"q": {"d": 1}}, {"unretrieved": "no"}, "^unknown value of unretrieved"),
        (
            {"q": {"d": 1.0}},
            {"q": {"d": 1, "e": 1}},
            {"unretrieved": "tied"},
            "requires the number of candidates; got 1 such answers; pass candidates=, or unr",
        ),
        ({"q": {"d": "high"}}, {"q": {"d": 1}}, {}, "^run: scores must be numbers; got"),
        ({"q": {"d": None}}, {"q": {"d": 1}}, {}, "^run, row 0: no score; correct it"),
        (
            {"q": {"d": 1.0}},
            7,
            {},
            "^judgements must be a file, a table or a mapping of mappings; got int",
        ),
        ({"q": {"d": 1.0}}, {"query": ["q"], "docs": ["d"]}, {}, "^judgements: no column document; got"),
    ],
)
def test_invalid_tables_and_choices_raise(run, qrels, options, message):
    with pytest.raises(er.errors.InputError, match=message):
        trec.rankings(run, qrels, **options)


def test_trec_in_the_shell(tmp_path, retrieval):
    run, judged = retrieval
    coarsen(run)
    file, out = shortened(run, 20), tmp_path / "run.parquet"
    for options in ({}, {"ties": "trec_eval", "relevant": 1}, {"candidates": 60}):
        flags = [text for name, value in options.items() for text in (f"--{name}", value)]
        text = shell("import", "trec", file, "--qrels", judged, *flags, "-o", out, "-m", "map,mrr")
        expected = trec.rankings(file, judged, **options)
        loaded = er.Rankings.load(out)
        assert in_rows(loaded) == in_rows(expected)
        assert loaded.protocol == expected.protocol
        assert text == f"{expected.evaluate('map', 'mrr')}\n"
    apart = ("--answers", "apart")
    shell("import", "trec", file, "--qrels", judged, "--candidates", 60, *apart, "-o", out)
    assert same(er.Ranks.load(out), trec.ranks(file, judged, candidates=60))
    text = shell(
        "import", "trec", file, "--qrels", judged, "-m", "map,ndcg@10", "--format", "json", "-q"
    )
    assert (
        json.loads(text)["rows"][0]["values"]["map"]
        == trec.rankings(file, judged).evaluate("map")["map"]
    )
    assert shell_error("import", "trec", run, judged, "--candidates", 60).startswith(
        "--qrels is missing: file of judgements: query, 0, document, judgement; see"
    )
    assert shell_error("import", "trec", run, "--qrels", judged, *apart).startswith(
        "the number of candidates is not known"
    )
    assert shell_error(
        "import", "trec", run, "--qrels", judged, *apart, "--ties", "trec_eval"
    ).startswith("--ties is for documents that are ranked together; leave --answers apart out")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"q Q0 d 1 1 t\n\xff\n", "run.txt:2: not UTF-8; save it as UTF-8"),
        (gzip.compress(b"q Q0 d 1 1 t\n" * 99)[:-9], "cannot read .*run.txt; got .*; it may be damaged"),
        (b"q Q0 d 1 1 t\n" + b"x" * 40, "run.txt:2: a line of more than 30 bytes"),
    ],
    ids=["not UTF-8", "truncated", "long"],
)
def test_files_that_cannot_be_read_are_named(tmp_path, monkeypatch, content, message):
    monkeypatch.setattr(_lines, "LONGEST", 30)
    monkeypatch.setattr(_lines, "BLOCK", 16)
    (tmp_path / "run.txt").write_bytes(content)
    with pytest.raises(er.errors.InputError, match=message):
        trec.rankings(tmp_path / "run.txt", {"q": {"d": 1}})


def test_files_are_read_alike_in_blocks_of_any_size(retrieval, monkeypatch):
    run, judged = retrieval
    expected = trec.rankings(run, judged)
    run.write_bytes(b"\xef\xbb\xbf" + run.read_bytes().rstrip(b"\n").replace(b"\n", b"\r\n\r\n"))
    for size in (7, 100, 4096):
        monkeypatch.setattr(_lines, "BLOCK", size)
        assert in_rows(trec.rankings(run, judged)) == in_rows(expected)

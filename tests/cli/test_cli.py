"""The shell commands, run as subprocesses: stdout, stderr and exit codes."""

import json
import pickle
import re
import signal
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from drawn import drawn
from shell import MODELS, NATIONS, run

import evenrank as er
from evenrank.errors import for_shell


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "model.parquet"
    keys = {"relation": ["r", "r", "s", "s"], "side": ["head", "tail"] * 2}
    er.Ranks([0, 1, 4, 0], [0, 0, 1, 0], [50, 60, 50, 20], keys=keys, protocol={"data": "toy"}).save(
        path
    )
    return path


def test_evaluate_prints_the_default_table(file):
    text = run("evaluate", file)
    assert text == str(er.Ranks.load(file).evaluate()) + "\n"
    assert "mrr ↑" in text
    assert "data: toy" in text


def test_evaluate_groups_and_averages(file):
    ranks = er.Ranks.load(file)
    text = run(
        "evaluate", file, "-m", "mrr", "-m", "z(hits@3)", "--by", "relation,side", "--ties", "realistic"
    )
    want = ranks.by("relation", "side").evaluate("mrr", "z(hits@3)", ties="realistic")
    assert text == f"{want}\n"
    content = json.loads(run("evaluate", file, "-m", "mr", "--average", "relation", "--format", "json"))
    assert content["rows"][0]["values"]["mr"] == ranks.evaluate("mr", average="relation")["mr"]
    assert content["protocol"]["average"] == "relation"


def test_evaluate_formats(file):
    frame = pl.read_csv(run("evaluate", file, "--format", "csv").encode())
    assert frame["mrr"][0] == er.Ranks.load(file).evaluate("mrr")["mrr"]
    assert "| mrr ↑ |" in run("evaluate", file, "--format", "markdown")
    assert r"\begin{tabular}" in run("evaluate", file, "--format", "latex")


def test_evaluate_several_files(file, tmp_path):
    other = tmp_path / "other.csv"
    other.write_text("rank,candidates\n1,10\n2.5,10\n")
    text = run("evaluate", file, other, "-m", "mr", "--format", "csv")
    assert pl.read_csv(text.encode())["ranks"].to_list() == ["model", "other"]
    twice = run("evaluate", file, file, "--by", "side", "-m", "mr", "--format", "csv", code=2)
    assert twice == f"two columns would have the same ranks; got {str(file)!r}"


def test_evaluate_a_file_without_candidates(tmp_path):
    bare = tmp_path / "bare.csv"
    bare.write_text("rank\n1\n3\n")
    assert "mrr" in run("evaluate", bare, "--candidates", 20)
    assert "no chance levels: the number of candidates is unknown" in run("evaluate", bare)


def test_evaluate_lists_all_metrics():
    text = run("evaluate", "--list")
    for name in (
        "mrr",
        "hits@10",
        "igmr",
        "median",
        "index(mrr)",
        "z(hits@10)",
        "Hoyt et al. 2022",
        "amri",
    ):
        assert name in text
    rows = json.loads(run("evaluate", "--list", "--format", "json"))
    fields = {"metric", "formula", "better", "range", "optimum", "reference", "aliases", "of"}
    assert all(set(row) == fields for row in rows)
    assert len(run("evaluate", "--list", "--format", "csv").splitlines()) == len(rows) + 1
    assert r"\toprule" in run("evaluate", "--list", "--format", "latex")


def test_chance(file, tmp_path):
    content = json.loads(
        run("chance", "1/gmr", "--sizes", "14541x40932", "--format", "json", "--value", "0.02")
    )
    null = er.chance("igmr", {14_541: 40_932})
    assert content["mean"] == null.mean()
    assert content["std"] == null.std()
    assert content["log_p"] == null.logsf(0.02)
    assert content["method"] == "formula"
    never = run("chance", "mrr", "--sizes", "10x10", "--value", "2", "--format", "json")
    assert json.loads(never, parse_constant=pytest.fail)["log_p"] is None  # strict JSON has no infinity
    assert "quadrature" in run("chance", "hmr", "--sizes", "100,200,300")
    ranks = json.loads(run("chance", "mr", "--sizes", file, "--format", "json"))
    assert ranks["tasks"] == 4
    table = tmp_path / "sizes.csv"
    table.write_text("size,count,weight\n10,3,1\n20,1,0.5\n")
    assert json.loads(run("chance", "mr", "--sizes", table, "--format", "json"))[
        "mean"
    ] == pytest.approx((3 * 5.5 + 0.5 * 10.5) / 3.5)
    lines = tmp_path / "sizes.txt"
    lines.write_text("10\n20\n")
    assert json.loads(run("chance", "mr", "--sizes", lines, "--format", "json"))["mean"] == 8.0
    sampled = json.loads(
        run("chance", "std", "--sizes", "9x5", "--method", "sample", "--format", "json")
    )
    assert sampled["method"] == "sample"
    assert sampled["mean_error"] > 0


@pytest.mark.parametrize("name", ["many.parquet", "many.csv"])
def test_chance_of_a_file_of_rankings_counts_its_answers(name, tmp_path):
    path = tmp_path / name
    rankings = er.Rankings.of([[1, 4, 5], [2]], candidates=[9, 7], keys={"query": ["a", "b"]})
    rankings.save(path)
    content = json.loads(run("chance", "mrr", "--sizes", path, "--format", "json"))
    assert content["queries"] == 2
    assert content["mean"] == er.chance("mrr", rankings).mean()
    assert content["mean"] != er.chance("mrr", [9, 7]).mean()
    message = run("adjust", "mrr=0.5", "--sizes", path, code=2)
    assert f"queries with one answer each; got {path}, a file of rankings" in message


def test_adjust():
    text = run("adjust", "mrr=0.43", "hits@10=0.5", "--sizes", "14541x40932")
    assert text.strip() == str(er.adjust({"mrr": 0.43, "hits@10": 0.5}, sizes={14_541: 40_932}))
    content = json.loads(run("adjust", "amrr=0.2", "--sizes", "100x10", "--format", "json"))
    assert content["rows"][0]["values"]["index(mrr)"] == pytest.approx(0.2)


def test_demo_shows_the_effect_of_adjusting():
    content = json.loads(run("demo", "--format", "json"))
    rows = {(r["data"], r["model"]): r["values"] for r in content["rows"]}
    assert len(rows) == 16
    bundled = [er.rank(er.models.load(path), er.load(path.stem.split("-")[0]).task()) for path in MODELS]
    for ranks in bundled:  # the values of the demo are those of ranking
        values = rows[ranks.protocol.data, ranks.protocol.model]
        assert values["mrr"] == ranks.evaluate("mrr")["mrr"]
    assert len(bundled) == 12
    # TransE has twice the hits@10 on Nations as on WN18RR, but not twice the index
    small, large = rows["nations", "TransE"], rows["wn18rr", "TransE"]
    assert small["hits@10"] > 1.9 * large["hits@10"]
    assert small["chance(hits@10)"] > 0.9
    assert small["index(hits@10)"] < 1.1 * large["index(hits@10)"]
    assert small["z(mrr)"] < large["z(mrr)"]
    assert "The index is 0 at chance level" in run("demo")


def test_rank_prints_the_table_and_saves_the_ranks(tmp_path):
    out = tmp_path / "ranks.parquet"
    command = [sys.executable, "-m", "evenrank", "rank", NATIONS, "--data", "nations", "-o", out]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    kept = er.Ranks.load(out)
    assert done.stdout == f"{kept.evaluate()}\n"
    assert kept.evaluate().fingerprint in done.stdout
    assert "4,032 scores in " in done.stderr
    assert re.search(r"4,032 scores in \d+\.\d\d s: [\d,.]+( million| billion)?/s \(", done.stderr)
    again = er.rank(er.models.load(NATIONS), er.load("nations").task())
    assert kept.better.tolist() == again.better.tolist()
    assert kept.keys["head"].tolist() == again.keys["head"].tolist()
    assert list(tmp_path.iterdir()) == [out]


def test_rank_takes_the_protocol_from_its_options():
    content = json.loads(
        run(
            *("rank", NATIONS, "--data", "nations", "--split", "valid", "--filter", "train,valid"),
            *(
                "--sides",
                "tail",
                "--candidates",
                "sampled:4",
                "--seed",
                "3",
                "-m",
                "mr",
                "--format",
                "json",
                "-q",
            ),
            *("--memory", "8MiB", "--threads", "1", "--unseen", "drop"),
        )
    )
    graph = er.load("nations", unseen="drop")
    task = graph.task("valid", sides="tail", filter=("train", "valid"), candidates=4, seed=3)
    want = er.rank(er.models.load(NATIONS), task).evaluate("mr")
    assert content["rows"][0]["values"]["mr"] == want["mr"]
    assert content["protocol"]["candidates"] == "4 sampled per query, seed 3"
    assert content["protocol"]["filter"] == "train, valid"
    raw = run("rank", NATIONS, "--data", "nations", "--filter", "none", "--no-exact", "--by", "side")
    assert "filter: none" in raw
    assert "scores: float32" in raw
    assert "head" in raw
    typed = run("rank", NATIONS, "--data", "nations", "--candidates", "typed", "--outside", "add")
    assert "typed, as seen in train" in typed


def test_rank_ranks_answers_together(tmp_path):
    out = tmp_path / "rankings.parquet"
    options = ("--data", "nations", "--answers", "together", "-q", "--format", "json")
    content = json.loads(run("rank", NATIONS, *options, "-o", out, "-m", "map,z(ndcg@10)"))
    want = er.rank(er.models.load(NATIONS), er.load("nations").task(), answers="together")
    kept = er.Rankings.load(out)
    assert kept.better.tolist() == want.better.tolist()
    assert kept.answers.tolist() == want.answers.tolist()
    assert content["rows"][0]["values"] == kept.evaluate("map", "z(ndcg@10)").to_dict()
    assert content["protocol"]["answers"] == "together"
    several = json.loads(run("rank", NATIONS, "nations/complex", *options, "-m", "map", "--by", "side"))
    assert [row["side"] for row in several["rows"]] == ["head", "tail"]
    assert [row["complex"]["map"] > row["nations-transe"]["map"] for row in several["rows"]] == [
        True,
        True,
    ]


def test_rank_notes_unseen_entities(tmp_path):
    (tmp_path / "train.txt").write_text("a\tr\tb\nb\tr\tc\n")
    (tmp_path / "test.txt").write_text("a\tr\td\n")
    model = er.models.DistMult([[1.0], [2.0], [3.0], [4.0]], [[1.0]])
    er.models.save(model, tmp_path / "model.safetensors")
    command = ["rank", tmp_path / "model.safetensors", "--data", tmp_path]
    done = subprocess.run(
        [sys.executable, "-m", "evenrank", *map(str, command)], capture_output=True, text=True
    )
    assert done.returncode == 0
    assert "note: test: 1 of 1 triples have an entity or relation not seen in training" in done.stderr
    assert "; drop them with --unseen drop\n" in done.stderr
    assert "has no triples" in run(*command, "--unseen", "drop", code=2)


@pytest.mark.parametrize(
    ("option", "resume"), [("-o", ""), ("--checkpoint", "; run the same command again to resume")]
)
def test_rank_is_interrupted_cleanly(tmp_path, option, resume):
    """Ctrl-C: one line, exit code 130, nothing written."""
    entities = 200_000
    er.models.save(
        er.models.TransE(np.ones((entities, 64), dtype=np.float32), np.ones((1, 64), dtype=np.float32)),
        tmp_path / "model.safetensors",
    )
    triples = np.stack([np.arange(entities), np.zeros(entities), np.arange(entities)[::-1]], axis=1)
    for split in ("train", "test"):
        np.save(tmp_path / f"{split}.npy", triples.astype(np.int64))
    out = tmp_path / ("ranks.parquet" if option == "-o" else "run")
    process = subprocess.Popen(
        [
            *(sys.executable, "-c", "import evenrank.cli as c; print('up', flush=True); c.main()"),
            *("rank", str(tmp_path / "model.safetensors"), "--data", str(tmp_path), option, str(out)),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "up\n"
    while not process.poll() and "note:" not in process.stderr.readline():  # the graph has been read
        pass
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.splitlines()[-1] == f"evenrank: interrupted; no incomplete file was written{resume}"
    assert "Traceback" not in errors
    assert not (out if option == "-o" else out / "ranks.parquet").exists()


def test_data_show_and_check(tmp_path):
    assert run("data", "show", "nations").startswith(repr(er.load("nations")))
    content = json.loads(run("data", "show", "umls", "--format", "json"))
    assert content["splits"] == {"train": 5_216, "valid": 652, "test": 661}
    (tmp_path / "train.csv").write_text("a,r,b\na,r,b\n")
    (tmp_path / "test.csv").write_text("a,r,b\n")
    text = run("data", "check", tmp_path)
    assert "note     train: 1 of 2 triples are duplicates" in text
    assert "warning  test: 1 of 1 triples are also in train" in text
    assert {"severity": "ok", "finding": "train: 2 triples"} in json.loads(
        run("data", "check", tmp_path, "--format", "json")
    )


def fails(*args):
    return run(*args, code=2)


def test_notes_about_a_graph_fit_the_terminal_and_name_options_of_the_shell(tmp_path, monkeypatch):
    (tmp_path / "train.txt").write_text("a\tr\tb\nb\tr\tc\n")
    (tmp_path / "test.txt").write_text("a\tr\td\n")
    monkeypatch.setenv("COLUMNS", "60")
    for command in ("show", "check"):
        text = run("data", command, tmp_path)
        assert max(map(len, text.splitlines())) <= 60
        assert "(1 entity, 0 relations); drop them with --unseen drop" in " ".join(text.split())
    kept = json.loads(run("data", "show", tmp_path, "--format", "json"))["notes"]
    assert kept[-1].endswith("drop them with --unseen drop")
    found = json.loads(run("data", "check", tmp_path, "--format", "json"))
    assert kept[-1] in [one["finding"] for one in found]
    graph = er.load(tmp_path)
    assert graph.notes[-1].endswith("drop them with unseen='drop'")
    copied = pickle.loads(pickle.dumps(graph.notes))
    assert [for_shell(note) for note in copied] == kept


def test_every_command_that_reads_a_graph_takes_the_order_of_its_columns(tmp_path):
    graph, folder = er.load("nations"), tmp_path / "htr"
    folder.mkdir()
    for split, triples in graph.splits.items():
        rows = [(graph.entities[h], graph.entities[t], graph.relations[r]) for h, r, t in triples]
        (folder / f"{split}.txt").write_text("".join("\t".join(row) + "\n" for row in rows))
    question = "which column is the relation"
    for command in (
        ["data", "show", folder],
        ["data", "check", folder],
        ["atlas", "build", folder, "-o", tmp_path / "atlas.parquet"],
        ["rank", "nations/transe", "--data", folder, "-m", "mrr"],
    ):
        assert question in fails(*command)
        assert run(*command, "--columns", "htr")
    assert (
        json.loads(run("data", "show", folder, "--columns", "htr", "--format", "json"))["hash"]
        == graph.hash
    )
    ranks = tmp_path / "ranks.parquet"
    run("rank", "nations/transe", "--data", folder, "--columns", "htr", "-o", ranks)
    by = ["evaluate", ranks, "--by", "cardinality", "--data", folder, "-m", "mrr"]
    assert question in fails(*by)
    of_name = run("evaluate", ranks, "--by", "cardinality", "--data", "nations", "-m", "mrr")
    assert run(*by, "--columns", "htr") == of_name
    assert "--columns needs a graph" in fails("evaluate", ranks, "--columns", "htr")
    assert "--columns needs a graph" in fails("report", ranks, "--columns", "htr")
    lists = tmp_path / "lists.jsonl"
    lists.write_text(json.dumps({"head": "usa", "relation": "embassy", "tail": None, "answers": ["uk"]}))
    given = ["import", "lists", lists, "--sides", "tail", "-m", "mrr"]
    assert question in fails(*given, "--data", folder)
    assert run(*given, "--data", folder, "--columns", "htr")
    assert "--columns needs a graph" in fails(
        "import", "libkge", folder, "--candidates", "9", "--columns", "htr"
    )


def test_help_and_version():
    assert "evaluate" in run("--help")
    assert run() == run("-h") == run("--help")
    assert run("data") == run("data", "-h")
    assert "--average" in run("evaluate", "--help")
    assert run("--version").strip() == f"evenrank {er.__version__}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["evaluate"], "no file of ranks; run evenrank evaluate FILE"),
        (["evaluate", "nothing.parquet"], "no such file; got nothing.parquet"),
        (["evaluate", "FILE", "-m", "mmr"], "unknown metric; got 'mmr'; did you mean"),
        (
            ["evaluate", "FILE", "--ties", "middle"],
            "unknown value of --ties; got 'middle'",
        ),
        (
            ["evaluate", "FILE", "--by", "head"],
            "no such key column; got 'head'; allowed: relation, side",
        ),
        (
            ["evaluate", "FILE", "--format", "xml"],
            "unknown value of --format; got 'xml'",
        ),
        (["evaluate", "FILE", "-m", "z(1/hits@3)"], "infinite"),
        (["chance", "mrr"], "needs either a data set or numbers of candidates; got neither; use --data"),
        (["chance", "mrr", "--data", "nations", "--sizes", "5"], "numbers of candidates; got both"),
        (["chance", "mrr", "--sizes", "abc"], "neither a file nor numbers of candidates; got 'abc'"),
        (["chance", "mrr", "--sizes", "0"], "numbers of candidates must be at least 1; got 0"),
        (["chance", "hits@0", "--sizes", "5"], "k >= 1"),
        (["chance", "1/hits@10", "--sizes", "50x3"], "infinite"),
        (["chance", "count", "--sizes", "5"], "no chance level"),
        (["adjust", "mrr", "--sizes", "5"], "must look like mrr=0.43; got 'mrr'"),
        (["adjust", "mrr=x", "--sizes", "5"], "a value must be a number; got 'x'"),
        (["adjust", "mrr=0.3", "mrr=0.4", "--sizes", "50x3"], "the same metric twice"),
        (
            ["adjust", "mr=101", "--sizes", "100x3"],
            "impossible value of mr; got mr=101; allowed: 1 to 100",
        ),
        (["chance", "hits@1e400", "--sizes", "50"], "k >= 1"),
        (["chance", "hits@" + "9" * 100, "--sizes", "50"], "k >= 1"),
        (
            ["adjust", "mrr=430", "--sizes", "50x3"],
            "impossible value of mrr; got mrr=430; allowed: 0.02 to 1",
        ),
        (
            ["rank", "no.safetensors", "--data", "nations"],
            "no such file, folder or bundled model; got no.safetensors",
        ),
        (["rank", "FILE", "--data", "nations"], "the format of this checkpoint is not recognised"),
        (["rank", "MODEL"], "--data is missing: graph: a folder"),
        (["rank", "MODEL", "--data", "nowhere"], "no such folder or benchmark; got 'nowhere'"),
        (
            ["rank", "MODEL", "--data", "umls"],
            "model and graph number entities and relations differently",
        ),
        (["rank", "MODEL", "--data", "nations", "--split", "dev"], "no such split; got 'dev'"),
        (["rank", "MODEL", "--data", "nations", "--filter", "dev"], "no such split; got 'dev'"),
        (["rank", "MODEL", "--data", "nations", "--candidates", "few"], "unknown candidates; got 'few'"),
        (["rank", "MODEL", "--data", "nations", "--candidates", "sampled:x"], "write e.g. sampled:500"),
        (["rank", "MODEL", "--data", "nations", "--candidates", "typed"], "not among the candidates"),
        (
            ["rank", "MODEL", "--data", "nations", "--candidates", "typed"],
            "got head usa, relation accusation",
        ),
        (
            ["rank", "MODEL", "--data", "nations", "--candidates", "typed"],
            "each to its own with --outside add",
        ),
        (
            ["compare", "FOLDER"],
            "a folder is not a file of ranks; got FOLDER; pass a file, or read all with er.stream('",
        ),
        (
            ["report", "FOLDER"],
            "a folder is not a file of ranks; got FOLDER; pass a file, or read all with er.stream('",
        ),
        (["rank", "MODEL", "--data", "nations", "--memory", "many"], "memory must be a size"),
        (["rank", "MODEL", "--data", "nations", "--threads", "0"], "threads must be"),
        (["rank", "MODEL", "--data", "nations", "-o", "no/where/r.parquet"], "got no such folder"),
        (["data", "show", "nowhere"], "no such folder or benchmark; got 'nowhere'"),
        (["data", "check", "FILE"], "has no triples"),
        (["nonsense"], "no such command; got 'nonsense'"),
        (["evaluate", "--nonsense"], "no such option; got --nonsense"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, message, file):
    given = {"FILE": file, "MODEL": NATIONS, "FOLDER": file.parent}
    line = run(*(given.get(a, a) for a in arguments), code=2)
    assert message in line.replace(str(file.parent), "FOLDER")


def test_bad_size_files(tmp_path):
    for name, content, message in [
        ("a.txt", "10\nx\n", "every line must be a number of candidates; got 'x'"),
        ("b.txt", "", "every line must be a number of candidates; got nothing"),
        ("c.csv", "a,b\n1,2\n", "has no column of candidates; got columns a, b"),
        ("d.parquet", "PAR1", "cannot read"),
    ]:
        (tmp_path / name).write_text(content)
        assert message in run("chance", "mrr", "--sizes", tmp_path / name, code=2)


# Comparing ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(nations, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    paths = [folder / f"{name}.parquet" for name in nations]
    for path, ranks in zip(paths, nations.values(), strict=True):
        ranks.save(path)
    return paths


def test_compare(files, nations):
    assert run("compare", *files) == f"{er.compare(nations)}\n"
    options = ["-m", "mrr", "-m", "hits@1", "--baseline", "transe", "--test", "t", "--correction", "bh"]
    want = er.compare(
        nations,
        metrics=("mrr", "hits@1"),
        baseline="transe",
        test="t",
        correction="bh",
        level=0.9,
        unit="query",
    )
    got = run("compare", *files, *options, "--level", 0.9, "--unit", "query", "--format", "json")
    assert json.loads(got) == json.loads(want.to_json())
    for form in ("csv", "markdown", "latex"):
        assert run("compare", *files[:2], "--format", form).startswith(
            {"csv": "metric,first", "markdown": "| model |", "latex": "% in the preamble"}[form]
        )


def test_evaluate_with_intervals(files, nations):
    assert run("evaluate", files[0], "--interval", "delta") == f"{er.intervals(nations['transe'])}\n"
    got = run(
        *("evaluate", *files, "-m", "mrr", "--interval", "bootstrap", "--samples", 500, "--seed", 3),
        *("--by", "side", "--unit", "target", "--level", 0.8, "--format", "csv"),
    )
    groups = {name: ranks.by("side") for name, ranks in nations.items()}
    want = er.intervals(groups, "mrr", method="bootstrap", samples=500, seed=3, unit="target", level=0.8)
    assert got == f"{want.to_csv()}\n"


def test_evaluate_with_averages(files, nations):
    want = er.intervals(nations["transe"], averages=True)
    assert run("evaluate", files[0], "--averages", "--interval", "delta") == f"{want}\n"
    groups = {name: ranks.by("side") for name, ranks in nations.items()}
    options = ("-m", "index(mrr)", "--by", "side", "--interval", "bootstrap", "--samples", 200)
    want = er.intervals(groups, "index(mrr)", method="bootstrap", samples=200, averages=True)
    got = run("evaluate", *files, "--averages", *options, "--format", "json")
    assert json.loads(got) == json.loads(want.to_json())


def test_compare_errors(files, tmp_path):
    assert "the same model twice" in run("compare", files[0], files[0], code=2)
    assert "comparing needs two models or more" in run("compare", files[0], code=2)
    er.Ranks.load(files[0])[5:].save(tmp_path / "rotate.parquet")
    message = run("compare", files[0], tmp_path / "rotate.parquet", code=2)
    assert "the models have different targets; got 5 only in transe and 0 only in rotate" in message
    assert "unknown baseline" in run("compare", *files, "--baseline", "x", code=2)
    message = run("evaluate", files[0], "--level", "0.95", "--seed", 1, code=2)
    assert "need --interval; got --level, --seed; add --interval delta" in message
    assert "the seed must not be negative; got -1" in run("compare", *files, "--seed", "-1", code=2)
    names = run("compare", files[1], tmp_path / "rotate.parquet", code=2)
    assert str(files[1]) in names  # files of the same name are named by their paths


# Runs, and several data sets ---------------------------------------------------------------------------


def kept(folder, ranks):
    """Save ranks in a folder by name."""
    folder.mkdir(exist_ok=True)
    for name, one in ranks.items():
        one.save(folder / f"{name}.parquet")
    return [folder / f"{name}.parquet" for name in ranks]


def of(data, model, seed, shift=0.0):
    """Ranks whose protocol has the names of model and data set only."""
    one = drawn(seed=seed, shift=shift)
    protocol = {name: text for name, text in (("data", data), ("model", model)) if text}
    return er.Ranks(one.better, 0, candidates=100, keys=one.keys, protocol=protocol)


def test_evaluate_runs(tmp_path):
    runs = {f"{model}-{seed}": of("d1", model, seed) for seed in range(3) for model in ("A", "B")}
    files = kept(tmp_path, runs)
    models = {model: [runs[f"{model}-{seed}"] for seed in range(3)] for model in ("A", "B")}
    assert run("evaluate", *files, "--runs") == f"{er.summarize_runs(models)}\n"
    options = ("-m", "mr", "-m", "index(mrr)", "--average", "relation", "--ties", "realistic")
    want = er.summarize_runs(models, "mr", "index(mrr)", average="relation", ties="realistic")
    for form in ("json", "csv", "markdown", "latex"):
        text = getattr(want, f"to_{form}")()
        assert run("evaluate", *files, "--runs", *options, "--format", form) == f"{text}\n"
    nameless = kept(tmp_path / "nameless", {str(seed): of("d1", "", seed) for seed in range(3)})
    loaded = [er.Ranks.load(file) for file in nameless]
    assert run("evaluate", *nameless, "--runs") == f"{er.summarize_runs(loaded)}\n"  # of one model, then
    message = run("evaluate", *files, nameless[1], "--runs", code=2)
    assert f"some files of runs name no model; got {nameless[1]}; name" in message


def test_evaluate_runs_errors(tmp_path):
    files = kept(tmp_path, {"a": of("d1", "A", 0), "b": of("d1", "A", 1)})
    assert "the same run twice; got " in run("evaluate", files[0], files[0], "--runs", code=2)
    assert "--runs needs all ranks in memory" in run("evaluate", tmp_path, "--runs", code=2)
    what = "--runs summarizes whole files; got "
    for given in ("--by side", "--averages", "--interval delta", "--level 0.9", "--dask local"):
        option, *_ = given.split()
        assert run("evaluate", *files, "--runs", *given.split(), code=2) == f"{what}{option}"
    message = run("evaluate", *files, "--runs", "--seed", 0, "--unit", "query", code=2)
    assert message == f"{what}--unit, --seed"


def test_compare_across_data_sets(tmp_path):
    data = {
        name: {model: of(name, model, seed, shift) for model, shift in (("A", 0), ("B", 0.3), ("C", 1))}
        for seed, name in enumerate(("d1", "d2", "d3"))
    }
    files = [
        file
        for name, models in data.items()
        for file in kept(tmp_path, {f"{name}-{model}": ranks for model, ranks in models.items()})
    ]
    assert run("compare", *files, "--across") == f"{er.across_datasets(data)}\n"
    options = ("-m", "hits@10", "--level", 0.9, "--average", "query", "--ties", "optimistic")
    want = er.across_datasets(data, "hits@10", level=0.9, average="query", ties="optimistic")
    for form in ("json", "csv", "markdown", "latex"):
        text = getattr(want, f"to_{form}")()
        assert run("compare", *files, "--across", *options, "--format", form) == f"{text}\n"


def test_unnamed_data_sets_and_models_are_named_by_folders_and_files(tmp_path):
    said = {name: {m: of("", "", seed) for m in "ab"} for seed, name in enumerate(("d1", "d2"))}
    files = [file for name, models in said.items() for file in kept(tmp_path / name, models)]
    assert run("compare", *files, "--across") == f"{er.across_datasets(said)}\n"
    variants = {
        name: {f"same-{k}": of(name, "Same", seed, k) for k in (1, 2)}
        for seed, name in enumerate(("d1", "d2"))
    }
    files = [file for name, models in variants.items() for file in kept(tmp_path / name, models)]
    assert run("compare", *files, "--across") == f"{er.across_datasets(variants)}\n"
    again = kept(tmp_path / "again", {"same-1": variants["d1"]["same-1"]})
    message = run("compare", *files, *again, "--across", code=2)
    assert message.startswith("the same model twice on one data set; got same-1 on d1; name one file")


def test_compare_across_data_sets_errors(tmp_path):
    files = kept(tmp_path, {f"{d}-{m}": of(d, m, 0) for d in ("d1", "d2") for m in ("A", "B")})
    message = run("compare", *files[:3], "--across", code=2)
    assert "every model needs ranks on every data set; got no ranks of B on d2" in message
    message = run("compare", *files, "--across", "-m", "mrr", "-m", "hits@10", code=2)
    assert message == "--across orders models by one metric; got mrr, hits@10; run it once per metric"
    message = run("compare", *files, "--across", "--mixed", "--baseline", "A", code=2)
    assert message == (
        "--across compares the order of models on each data set, not their targets; "
        "got --baseline, --mixed"
    )

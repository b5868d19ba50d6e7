"""The help of every command: its panels, its width, and its examples, which are run."""

import json
import re
import shlex
from functools import partial

import numpy as np
import pytest
import typer
from shell import NATIONS, called

import evenrank as er
from evenrank.cli import COMMANDS, _help, app
from evenrank.cli._shell import split_metrics
from evenrank.graphs import registry

ONLINE = ("evenrank data fetch",)


def commands():
    """Every command and group, by its words."""
    found = {"evenrank": typer.main.get_command(app)}
    for entries in COMMANDS.values():
        for name in entries:
            loaded = found["evenrank"].commands[name].load()
            found[f"evenrank {name}"] = loaded
            for sub, one in getattr(loaded, "commands", {}).items():
                found[f"evenrank {name} {sub}"] = one
    return found


EVERY = commands()


def examples(text):
    return [line.strip() for line in text.partition("\nExamples:\n")[2].splitlines()]


@pytest.mark.parametrize("words", EVERY)
@pytest.mark.parametrize("width", [80, 60])
def test_help_fits_the_terminal(words, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    code, text, err = called([*words.split(), "--help"], monkeypatch)
    assert (code, err) == (0, "")
    assert called([*words.split(), "-h"], monkeypatch)[1] == text
    body = text.partition("\nExamples:\n")[0]
    assert max(map(len, body.splitlines())) <= width
    if width == 80:
        assert max(map(len, text.splitlines())) <= width
    assert not re.search(r"<\w+|\.\.\. *$|\bTEXT\b.*\bTEXT\b", body, re.MULTILINE)
    assert text.startswith(f"Usage: {words}")


@pytest.mark.parametrize("words", EVERY)
def test_every_option_is_explained_in_a_panel(words):
    for param in EVERY[words].params:
        assert param.help, param.name
        if param.param_type_name == "option":
            assert param.rich_help_panel or param.name in _help.PANEL, param.name


def test_summaries_of_the_root_are_those_of_the_commands():
    for entries in COMMANDS.values():
        for name, (_, summary) in entries.items():
            assert _help.summary(EVERY[f"evenrank {name}"]) == summary


def test_groups_show_their_help_without_a_command(monkeypatch):
    for words, one in EVERY.items():
        if hasattr(one, "commands"):
            assert called(words.split(), monkeypatch) == called([*words.split(), "-h"], monkeypatch)


def named(graph, triple):
    head, relation, tail = triple
    return graph.entities[head], graph.relations[relation], graph.entities[tail]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The files of ours that the examples name."""
    folder = tmp_path_factory.mktemp("examples")
    nations = er.load("nations")
    transe = er.models.load("nations/transe")
    for kind in ("transe", "rotate"):
        er.rank(er.models.load(f"nations/{kind}"), nations.task()).save(folder / f"{kind}.parquet")
    er.rank(transe, nations.task()).save(folder / "ranks.parquet")
    er.rank(transe, nations.task(candidates=5)).save(folder / "sampled.parquet")
    (folder / "model.safetensors").write_bytes(NATIONS.read_bytes())
    (folder / "results.csv").write_text("model,data,mrr,hits@1\nA,nations,0.81,0.69\n")
    for name in ("rows", "more-rows"):
        row = f"nations,{name},mrr,0.81,the authors\n"
        (folder / f"{name}.csv").write_text(f"data,model,metric,printed,source\n{row}")
    (folder / "FOLDER").mkdir()
    for split, triples in nations.splits.items():
        lines = ["\t".join(named(nations, triple)) for triple in triples]
        (folder / "FOLDER" / f"{split}.txt").write_text("\n".join(lines))
    return folder


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    """The files of other libraries that the examples of `evenrank import` name."""
    folder = tmp_path_factory.mktemp("foreign")
    nations, rng = er.load("nations"), np.random.default_rng(0)
    triples = nations.splits["test"]
    arrays = {"triples": np.array([named(nations, triple) for triple in triples])}
    for side in ("head", "tail"):
        arrays[f"{side}.optimistic"] = arrays[f"{side}.pessimistic"] = np.ones(len(triples))
        arrays[f"{side}.candidates"] = nations.task(sides=side).candidates
        np.savez(folder / f"{side}.npz", y_pred_pos=rng.random(9), y_pred_neg=rng.random((9, 4)))
    np.savez(folder / "ranks.npz", **arrays)
    np.savez(folder / "scores.npz", y_pred_pos=rng.random(9), y_pred_neg=rng.random((9, 4)))
    np.save(folder / "ranks.npy", np.ones((len(triples), 2), dtype=int))
    blocks, answers = [], {}
    for h, r, t in map(partial(named, nations), triples):
        blocks.append(f"{h} {r} {t}\nHeads: {h}\t0.9\t\nTails: {t}\t0.8\t\n")
        answers[h, r, None], answers[None, r, t] = [t], [h]
    (folder / "predictions").write_text("".join(dict.fromkeys(blocks)))
    lines = [
        json.dumps({"head": h, "relation": r, "tail": t, "answers": found})
        for (h, r, t), found in answers.items()
    ]
    (folder / "answers.jsonl").write_text("\n".join(lines))
    (folder / "run.txt").write_text("q Q0 d 1 2.0 me\nq Q0 e 2 1.0 me\n")
    (folder / "qrels.txt").write_text("q 0 d 1\nq 0 e 0\n")
    top = np.argsort(rng.random((5, 1001)))[:, :10]
    np.savez(folder / "t_pred.npz", t_pred_top10=top)
    np.save(folder / "val_t_correct_index.npy", top[:, 3])
    np.save(folder / "val_t.npy", top[:, 3])
    for name in ("ids", "run"):
        (folder / name).mkdir()
    for kind, names in (("entity", nations.entities), ("relation", nations.relations)):
        lines = [f"{i}\t{name}\n" for i, name in enumerate(names)]
        (folder / "ids" / f"{kind}_ids.del").write_text("".join(lines))
    lines = [
        f"{{epoch: 1, event: example_rank, filter_splits: [train, valid, test], job: eval, job_id: 1a, "
        f"o: {o}, p: {p}, rank: 9, rank_filtered: 1, s: {s}, scope: example, split: test, "
        f"task: {task}}}\n"
        for s, p, o in triples
        for task in ("sp", "po")
    ]
    for place in (folder, folder / "run"):
        (place / "trace.yaml").write_text("".join(lines))
    return folder


@pytest.mark.filterwarnings("default")  # notes for the user
@pytest.mark.parametrize("words", EVERY)
def test_examples_run(words, folder, foreign, monkeypatch, tmp_path):
    lines = examples(called([*words.split(), "--help"], monkeypatch)[1])
    assert len(lines) == 2
    monkeypatch.chdir(foreign if words.startswith("evenrank import") else folder)
    monkeypatch.setenv("EVENRANK_ATLAS", str(tmp_path))
    monkeypatch.setenv("EVENRANK_RECORD", str(tmp_path))
    for line in lines:
        spread = line.replace("*.parquet", "transe.parquet rotate.parquet")
        if line.startswith(ONLINE):
            assert [registry.find(name) for name in spread.split()[3:] if name != "--quiet"]
            continue
        code, out, err = called(shlex.split(spread), monkeypatch)
        assert code == 0, err
        assert out or "-o" in line


def test_a_result_is_written_in_the_format_of_the_suffix(folder, monkeypatch):
    monkeypatch.chdir(folder)
    base = ["evenrank", "evaluate", "ranks.parquet", "-m", "mrr"]
    for suffix, form in (("json", "json"), ("csv", "csv"), ("md", "markdown"), ("tex", "latex")):
        verbose = ["-v"] * (form == "markdown")  # tables in files say everything
        want = called([*base, "--format", form, *verbose], monkeypatch)[1]
        code, out, err = called([*base, "-o", f"result.{suffix}"], monkeypatch)
        assert (code, out) == (0, "")
        assert err.startswith(f"result.{suffix}: ")
        assert (folder / f"result.{suffix}").read_text() == want
    assert called([*base, "-q", "-o", "result.txt"], monkeypatch) == (0, "", "")
    assert (folder / "result.txt").read_text() == called([*base, "-v"], monkeypatch)[1]
    called([*base, "-o", "result.csv", "--format", "json"], monkeypatch)  # the option decides
    assert (folder / "result.csv").read_text() == called([*base, "--format", "json"], monkeypatch)[1]


def test_a_failed_command_leaves_the_file_as_it_was(folder, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "kept.txt").write_text("before")
    code, out, _ = called(["evenrank", "evaluate", "none.parquet", "-o", "kept.txt"], monkeypatch)
    assert (code, out) == (2, "")
    assert (folder / "kept.txt").read_text() == "before"


def test_lists_of_metrics():
    assert split_metrics(None) is None
    assert split_metrics(["mrr,hits@10", "mr"]) == ["mrr", "hits@10", "mr"]
    nested = "mean(2, ndcg),z(mean(2, z(mrr))), mrr"
    assert split_metrics([nested]) == ["mean(2, ndcg)", "z(mean(2, z(mrr)))", "mrr"]


def test_metrics_are_given_by_commas_or_repeated(folder, monkeypatch):
    monkeypatch.chdir(folder)
    base = ["evenrank", "evaluate", "ranks.parquet"]
    commas = called([*base, "-m", "mrr,mean(2, ndcg)"], monkeypatch)
    assert commas == called([*base, "-m", "mrr", "-m", "mean(2, ndcg)"], monkeypatch)
    assert commas[1] == f"{er.Ranks.load(folder / 'ranks.parquet').evaluate('mrr', 'mean(2, ndcg)')}\n"


def completed(line, monkeypatch):
    """What TAB completes at the end of a line in bash."""
    monkeypatch.setenv("_EVENRANK_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
    _, out, err = called(["evenrank"], monkeypatch)
    monkeypatch.delenv("_EVENRANK_COMPLETE")
    assert err == ""
    return out.split()


def test_completion(monkeypatch):
    assert completed("evenrank eval", monkeypatch) == ["evaluate"]
    assert {"pykeen", "trec", "lists"} < set(completed("evenrank import ", monkeypatch))
    assert "--average" in completed("evenrank evaluate x.parquet --av", monkeypatch)
    assert completed("evenrank evaluate --ties opt", monkeypatch) == ["optimistic"]
    assert "hits@10" in completed("evenrank evaluate x.parquet -m hi", monkeypatch)
    assert "mrr,hits@10" in completed("evenrank evaluate x.parquet -m mrr,hi", monkeypatch)
    assert "wn18rr" in completed("evenrank adjust mrr=0.4 --data wn", monkeypatch)
    assert "nations" in completed("evenrank data show na", monkeypatch)


def test_a_result_of_any_command_can_be_written():
    for words, one in EVERY.items():
        names = {param.name for param in one.params}
        assert "form" not in names or "out" in names, words

"""Good files of every format that evenrank reads, and the commands that read them."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
import tarfile
import types
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

import evenrank as er
from evenrank.graphs import atlas as atlas_of

N, R, D = 6, 3, 4
ENTITIES, RELATIONS = [f"e{i}" for i in range(N)], [f"r{i}" for i in range(R)]
BUNDLED = Path(er.__file__).parent / "models" / "bundled"
REFERENCE = Path(__file__).parents[1] / "reference" / "pykeen_models.tar.xz"
METRICS = ("-m", "mr,mrr,hits@3", "--format", "json", "-q")
OF_ANSWERS = ("-m", "map,ndcg@3,recall@3,index(mrr)", "--format", "json", "-q")
TORCH = find_spec("torch") is not None
rng = np.random.default_rng(0)


class Case(NamedTuple):
    """A folder with a good input, the files in it that are mutated, and the command that reads it.

    In the arguments of the command, {0} is the folder.
    """

    mutated: tuple[str, ...]
    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Reader:
    """How to write a good input of some format into a folder.

    `strict` readers may never return another result than that of the good file.
    """

    write: Callable[[Path], Case]
    strict: bool = False


READERS: dict[str, Reader] = {}


def reader(name: str, *, strict: bool = False, needs: bool = True):
    def register(write: Callable[[Path], Case]) -> Callable[[Path], Case]:
        if needs:
            READERS[name] = Reader(write, strict)
        return write

    return register


def variants(names, **options):
    """Register a function for several values of its first argument."""

    def register(write):
        for name in names:
            reader(f"{write.__name__.replace('_', ' ')} {name}", **options)(
                lambda folder, name=name: write(name, folder)
            )
        return write

    return register


def triples(seed=0):
    """Triples of ids in which all entities and relations occur."""
    own = np.random.default_rng(seed)
    train = np.stack([np.arange(12) % N, np.arange(12) % R, (np.arange(12) * 5 + 1) % N], axis=1)
    return {
        "train": train,
        "valid": np.stack([own.integers(0, n, 4) for n in (N, R, N)], axis=1),
        "test": np.stack([own.integers(0, n, 6) for n in (N, R, N)], axis=1),
    }


def graph(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "entities.dict").write_text("".join(f"{i}\t{name}\n" for i, name in enumerate(ENTITIES)))
    (folder / "relations.dict").write_text("".join(f"{i}\t{name}\n" for i, name in enumerate(RELATIONS)))
    for split, rows in triples().items():
        (folder / f"{split}.txt").write_text("".join(f"e{h}\tr{r}\te{t}\n" for h, r, t in rows))
    return folder


def ranks(rows=200) -> er.Ranks:
    own = np.random.default_rng(1)
    return er.Ranks(
        own.integers(0, 10, rows),
        own.integers(0, 3, rows),
        14,
        weights=own.uniform(0.5, 2, rows),
        keys={
            "side": own.choice(["head", "tail"], rows),
            "relation": own.choice(["a", "b c", "ü"], rows),
        },
        protocol={"data": "toy", "model": "TransE", "sides": "both", "candidates": "all", "note": "x"},
    )


# Ranks --------------------------------------------------------------------------------------------


@variants(["parquet", "csv", "tsv"])
def ranks_streamed(ending, folder):
    ranks().save(folder / f"r.{ending}")
    return Case((f"r.{ending}",), ("evaluate", f"{{0}}/r.{ending}", "--by", "side", *METRICS))


@variants(["parquet", "csv"])
def ranks_loaded(ending, folder):
    ranks().save(folder / f"r.{ending}")
    command = ("evaluate", f"{{0}}/r.{ending}", "--interval", "delta", *METRICS)
    return Case((f"r.{ending}",), command)


@variants(["rank", "optimistic"])
def ranks_of_others(column, folder):
    own = np.random.default_rng(2)
    low = own.integers(1, 9, 60)
    columns = {"rank": low} if column == "rank" else {"optimistic": low, "pessimistic": low + 1}
    pl.DataFrame({**columns, "candidates": 14, "relation": "a"}).write_csv(folder / "r.csv")
    return Case(("r.csv",), ("evaluate", "{0}/r.csv", *METRICS))


@variants(["parquet", "csv"])
def protocol(ending, folder):
    ranks(20).save(folder / f"r.{ending}")
    return Case((f"r.{ending}#protocol",), ("evaluate", f"{{0}}/r.{ending}", *METRICS))


@variants(["txt", "csv"])
def sizes(ending, folder):
    text = "14\n100\n7\n" if ending == "txt" else "size,count,weight\n14,3,1\n100,5,0.5\n"
    (folder / f"s.{ending}").write_text(text)
    return Case((f"s.{ending}",), ("chance", "mrr", "--sizes", f"{{0}}/s.{ending}", "--format", "json"))


@reader("report")
def report(folder):
    er.report(folder / "r.html", ranks(40), metrics=["mrr"])
    return Case(("r.html#kept",), ("report", "{0}/r.html", "-m", "mrr", "-o", "{0}/out.json"))


# Graphs -------------------------------------------------------------------------------------------


def show(files):
    return Case(tuple(files), ("data", "show", "{0}", "--format", "json"))


@variants(["txt", "tsv", "csv", "txt.gz", "quoted.csv"])
def graph_of_text(ending, folder):
    separator = "," if "csv" in ending else "\t"
    quote = '"' if "quoted" in ending else ""
    for split, rows in triples().items():
        lines = [separator.join((f"{quote}e{h}{quote}", f"r{r}", f"e{t}")) for h, r, t in rows]
        if split == "train":
            lines.insert(0, separator.join(("head", "relation", "tail")))
        text = ("\n".join(lines) + "\n").encode()
        name = f"{split}.{ending.removeprefix('quoted.')}"
        (folder / name).write_bytes(gzip.compress(text) if ending.endswith("gz") else text)
    return show(path.name for path in folder.iterdir())


@reader("graph of RotatE")
def graph_of_rotate(folder):
    graph(folder)
    return show(path.name for path in folder.iterdir())


@reader("graph of OpenKE")
def graph_of_openke(folder):
    for split, rows in triples().items():
        lines = [str(len(rows)), *(f"{h} {t} {r}" for h, r, t in rows)]
        (folder / f"{split}2id.txt").write_text("\n".join(lines) + "\n")
    for name, words in (("entity", ENTITIES), ("relation", RELATIONS)):
        lines = [str(len(words)), *(f"{word}\t{i}" for i, word in enumerate(words))]
        (folder / f"{name}2id.txt").write_text("\n".join(lines) + "\n")
    return show(path.name for path in folder.iterdir())


@reader("graph of LibKGE")
def graph_of_libkge(folder):
    for split, rows in triples().items():
        (folder / f"{split}.del").write_text("".join(f"{h}\t{r}\t{t}\n" for h, r, t in rows))
    for name, words in (("entity", ENTITIES), ("relation", RELATIONS)):
        lines = "".join(f"{i}\t{word}\n" for i, word in enumerate(words))
        (folder / f"{name}_ids.del").write_text(lines)
    return show(path.name for path in folder.iterdir())


@variants(["names", "ids", "splits"])
def graph_of_parquet(kind, folder):
    tables = {
        split: pl.DataFrame(rows if kind == "ids" else [(f"e{h}", f"r{r}", f"e{t}") for h, r, t in rows],
                            schema=["head", "relation", "tail"], orient="row")
        for split, rows in triples().items()
    }  # fmt: skip
    if kind == "splits":
        whole = pl.concat([table.with_columns(split=pl.lit(name)) for name, table in tables.items()])
        whole.write_parquet(folder / "all.parquet")
    else:
        for split, table in tables.items():
            table.write_parquet(folder / f"{split}.parquet")
    return show(path.name for path in folder.iterdir())


@reader("graph of NumPy")
def graph_of_numpy(folder):
    for split, rows in triples().items():
        np.save(folder / f"{split}.npy", rows)
    return show(path.name for path in folder.iterdir())


@reader("type constraints")
def type_constraints(folder):
    graph(folder / "g")
    lines = [str(R)]
    for r in range(R):
        lines += [f"{r} 3 0 1 2", f"{r} 4 1 2 3 5"]
    (folder / "types.txt").write_text("\n".join(lines) + "\n")
    model(folder / "m.safetensors")
    command = ("rank", "{0}/m.safetensors", "--data", "{0}/g", "--candidates", "{0}/types.txt")
    command += ("--outside", "add")
    return Case(("types.txt",), (*command, *METRICS))


@reader("atlas")
def atlas(folder):
    graph(folder / "g")
    table = atlas_of.build(er.load(folder / "g"), "toy")
    atlas_of.write([table], folder / "atlas.parquet")
    command = ("atlas", "show", "toy", "--format", "json")
    return Case(("atlas.parquet",), command, (("EVENRANK_ATLAS", "{0}"),))


@variants(["long", "wide"])
def published(layout, folder):
    text = {
        "long": "model,data,metric,value,source\nTransE,fb15k237,mrr,0.294,x\n"
        "RotatE,fb15k237,hits@10,53.3%,y\n",
        "wide": "model;data;mrr;hits@10\nTransE;wn18rr;0.226;50.1\nRotatE;wn18rr;0.476;57.1\n",
    }[layout]
    (folder / "p.csv").write_text(text)
    return Case(("p.csv",), ("adjust", "{0}/p.csv", "--format", "json"))


# Models -------------------------------------------------------------------------------------------


def model(path):
    own = np.random.default_rng(3)
    graph = er.Graph.of(triples(), entities=ENTITIES, relations=RELATIONS)
    made = er.models.TransE(own.normal(size=(N, D)), own.normal(size=(R, D)))
    er.models.save(made, path, graph=graph)


def ranked(files, name):
    command = ("rank", f"{{0}}/{name}", "--data", "{0}/g", *METRICS)
    return Case(tuple(files), command)


@reader("model of evenrank")
def model_of_evenrank(folder):
    graph(folder / "g")
    model(folder / "m.safetensors")
    return ranked(["m.safetensors"], "m.safetensors")


@reader("checkpoint folder", strict=True)
def checkpoint_folder(folder):
    """The folder of an interrupted ranking: what is damaged must not change the result."""
    graph(folder / "g")
    model(folder / "m.safetensors")
    command = (
        "rank",
        folder / "m.safetensors",
        "--data",
        folder / "g",
        "--checkpoint",
        folder / "run",
        "-q",
    )
    run(*command)
    whole = er.Ranks.load(folder / "run" / "ranks.parquet")
    _unfinish(folder / "run", whole)
    files = [f"run/{path.relative_to(folder / 'run')}" for path in (folder / "run").rglob("*.*")]
    files = [name for name in files if not name.endswith(".lock")]
    command = ("rank", "{0}/m.safetensors", "--data", "{0}/g", "--checkpoint", "{0}/run", *METRICS)
    return Case(tuple(files), command)


def run(*words):
    subprocess.run([sys.executable, "-m", "evenrank", *map(str, words)], check=True, capture_output=True)


def _unfinish(run, whole):
    """Turn a finished folder into one whose blocks are finished but for the last one."""
    from evenrank.ranking import resume

    path = run / "manifest.json"
    manifest = json.loads(path.read_text())
    for name in (resume.OWN, resume.RESULT):
        manifest.pop(name, None)
    manifest[resume.PARTS] = {}
    folder = resume._Folder(run, manifest)
    task = er.load(run.parent / "g").task("test")
    blocks = resume.Blocks(task, manifest["queries"])
    protocol = er.Protocol.from_dict(manifest["protocol"])
    for i in range(len(blocks) - 1):
        folder.write_block(i, whole[blocks.rows(i)], protocol)
    (run / "ranks.parquet").unlink()


def rows(*shape):
    return rng.normal(size=shape).astype(np.float32)


@variants(["RotatE", "TransE"])
def model_of_the_rotate_code(kind, folder):
    graph(folder / "g")
    run = folder / "run"
    run.mkdir()
    config = {"model": kind, "gamma": 9.0, "hidden_dim": D, "double_entity_embedding": kind == "RotatE",
              "double_relation_embedding": False, "data_path": "data/x"}  # fmt: skip
    (run / "config.json").write_text(json.dumps(config))
    np.save(run / "entity_embedding.npy", rows(N, D * (2 if kind == "RotatE" else 1)))
    np.save(run / "relation_embedding.npy", rows(R, D))
    for name in ("entities.dict", "relations.dict"):
        shutil.copy(folder / "g" / name, run)
    return ranked((f"run/{path.name}" for path in run.iterdir()), "run")


@reader("model of DGL-KE")
def model_of_dglke(folder):
    graph(folder / "g")
    run = folder / "run"
    run.mkdir()
    config = {"dataset": "toy", "model": "DistMult", "emb_size": D, "gamma": 9.0, "double_ent": False,
              "emap_file": "entities.tsv", "rmap_file": "relations.tsv"}  # fmt: skip
    (run / "config.json").write_text(json.dumps(config))
    np.save(run / "toy_DistMult_entity.npy", rows(N, D))
    np.save(run / "toy_DistMult_relation.npy", rows(R, D))
    for name in ("entities", "relations"):
        shutil.copy(folder / "g" / f"{name}.dict", run / f"{name}.tsv")
    return ranked((f"run/{path.name}" for path in run.iterdir()), "run")


STATES = {
    "openke transe": ("ent_embeddings.weight", "rel_embeddings.weight"),
    "torchkge transe": ("ent_emb.weight", "rel_emb.weight"),
    "pyg distmult": ("node_emb.weight", "rel_emb.weight"),
}


def _state(name):
    import torch

    return {table: torch.from_numpy(rows(n, D)) for table, n in zip(STATES[name], (N, R), strict=True)}


@variants(STATES, needs=TORCH)
def state_of(name, folder):
    import torch

    graph(folder / "g")
    library, kind = name.split()
    torch.save(_state(name), folder / f"{kind}.pt")
    case = ranked([f"{kind}.pt"], f"{kind}.pt")
    return case._replace(command=(*case.command, "--model-format", library))


@reader("state of torch before 1.6", needs=TORCH)
def old_state(folder):
    import torch

    graph(folder / "g")
    torch.save(_state("openke transe"), folder / "transe.ckpt", _use_new_zipfile_serialization=False)
    case = ranked(["transe.ckpt"], "transe.ckpt")
    return case._replace(command=(*case.command, "--model-format", "openke"))


@reader("model of LibKGE", needs=TORCH)
def model_of_libkge(folder):
    import torch

    graph(folder / "g")
    config = type("Config", (), {"__module__": "kge.config"})
    made = config()
    made.options = {"model": "m", "m": {"class_name": "TransE", "l_norm": 1.0}}
    state = {f"_{part}_embedder._embeddings.weight": torch.from_numpy(rows(n, D))
             for part, n in (("entity", N), ("relation", R))}  # fmt: skip
    content = {"type": "train", "epoch": 3, "model": (state, {}), "config": made,
               "valid_trace": [{"mrr": np.float64(0.3)}]}  # fmt: skip
    sys.modules |= {"kge": types.ModuleType("kge"), "kge.config": types.SimpleNamespace(Config=config)}
    try:
        torch.save(content, folder / "checkpoint_best.pt")
    finally:
        del sys.modules["kge"], sys.modules["kge.config"]
    return ranked(["checkpoint_best.pt"], "checkpoint_best.pt")


@variants(["1.6.0/TransE", "1.10.2/ComplEx", "1.11.1/TuckER"], needs=TORCH and REFERENCE.exists())
def model_of_pykeen(name, folder):
    graph(folder / "g")
    with tarfile.open(REFERENCE) as archive:
        (folder / "trained_model.pkl").write_bytes(archive.extractfile(f"{name}.pkl").read())
    names = folder / "training_triples"
    names.mkdir()
    for file, words in (("entity", ENTITIES), ("relation", RELATIONS)):
        lines = "".join(f"{i}\t{word}\n" for i, word in enumerate(words))
        (names / f"{file}_to_id.tsv.gz").write_bytes(gzip.compress(f"id\tlabel\n{lines}".encode()))
    files = ["trained_model.pkl", *(f"training_triples/{path.name}" for path in names.iterdir())]
    return ranked(files, "trained_model.pkl")


# Imports ------------------------------------------------------------------------------------------


def imported(files, *command):
    return Case(tuple(files), ("import", *command, *METRICS))


@variants(["npz", "pt"], needs=TORCH)
def import_ogb(ending, folder):
    arrays = {"y_pred_pos": rows(20), "y_pred_neg": rows(20, 9)}
    if ending == "npz":
        np.savez(folder / "p.npz", **arrays)
    else:
        import torch

        torch.save({name: torch.from_numpy(a) for name, a in arrays.items()}, folder / "p.pt")
    return imported([f"p.{ending}"], "ogb", f"{{0}}/p.{ending}")


@reader("import ampligraph")
def import_ampligraph(folder):
    np.save(folder / "r.npy", rng.integers(1, 14, (20, 2)))
    return imported(["r.npy"], "ampligraph", "{0}/r.npy", "--candidates", "14")


@reader("import pykeen")
def import_pykeen(folder):
    arrays = {}
    for side in ("tail", "head"):
        low = rng.integers(1, 6, 20)
        arrays |= {f"{side}.optimistic": low, f"{side}.pessimistic": low + 1,
                   f"{side}.candidates": np.full(20, 14)}  # fmt: skip
    np.savez_compressed(folder / "r.npz", **arrays)
    return imported(["r.npz"], "pykeen", "{0}/r.npz")


def rankings() -> er.Rankings:
    own = np.random.default_rng(4)
    scores, gains = own.integers(0, 9, (40, 14)), own.integers(0, 4, (40, 14))
    gains[:, 0] = 1
    keys = {"user": [f"u {i}" for i in range(40)], "side": own.choice(["a", "ü"], 40)}
    protocol = {"data": "toy", "model": "ALS", "note": "x"}
    return er.Rankings.from_scores(
        scores, gains, weights=own.uniform(0.5, 2, 40), keys=keys, protocol=protocol
    )


@variants(["parquet", "csv"])
def rankings_of(ending, folder):
    rankings().save(folder / f"r.{ending}")
    return Case((f"r.{ending}",), ("evaluate", f"{{0}}/r.{ending}", "--by", "side", *OF_ANSWERS))


@reader("import trec")
def import_trec(folder):
    files = trec_files(folder)
    command = ("{0}/run.txt", "--qrels", "{0}/qrels.txt", "--candidates", "60", *OF_ANSWERS)
    return Case(files, ("import", "trec", *command))


@reader("import trec apart")
def import_trec_apart(folder):
    files = trec_files(folder)
    command = ("{0}/run.txt", "--qrels", "{0}/qrels.txt", "--candidates", "60", "--answers", "apart")
    return imported(files, "trec", *command)


def trec_files(folder):
    run = [f"q{i // 9} Q0 d{i % 9} {i % 9 + 1} {9 - i % 9 / 2} tag" for i in range(45)]
    (folder / "run.txt").write_text("\n".join(run) + "\n")
    judged = [f"q{i // 4} 0 d{i * 7 % 9} {i % 3}" for i in range(20)]
    (folder / "qrels.txt").write_text("\n".join(dict.fromkeys(judged)) + "\n")
    return "run.txt", "qrels.txt"


@reader("import anyburl")
def import_anyburl(folder):
    graph(folder / "g")
    blocks = [
        f"e{h} r{r} e{t}\nHeads: e{(h + 1) % N}\t0.9\te{h}\t0.5\t\n"
        f"Tails: e{t}\t0.8\te{(t + 2) % N}\t0.2\t\n"
        for h, r, t in dict.fromkeys(map(tuple, triples()["test"].tolist()))
    ]
    (folder / "p.txt").write_text("".join(blocks))
    return imported(["p.txt"], "anyburl", "{0}/p.txt", "--data", "{0}/g", "--lenient")


@reader("import lists")
def import_lists(folder):
    graph(folder / "g")
    queries = dict.fromkeys((h, r) for h, r, _ in triples()["test"].tolist())
    lists = {"tail": None, "answers": ["e1", "e4"], "scores": [2, 0.5]}
    lines = [json.dumps({"head": f"e{h}", "relation": f"r{r}", **lists}) for h, r in queries]
    (folder / "a.jsonl").write_text("\n".join(lines) + "\n")
    command = ("lists", "{0}/a.jsonl", "--data", "{0}/g", "--sides", "tail", "--lenient")
    return imported(["a.jsonl"], *command)


@reader("import libkge")
def import_libkge(folder):
    lines = [
        f"{{task: {task}, rank: 99, rank_filtered: {i % 9 + 1}, "
        f"s: {i % N}, p: {i % R}, o: {(i + 1) % N}, "
        f"scope: example, size: 100, split: test, filter_splits: [train, valid, test], "
        f"job_id: a, epoch: 3, entry_id: {i}}}"
        for i in range(12)
        for task in ("sp", "po")
    ]
    (folder / "trace.yaml").write_text("\n".join(lines) + "\n")
    return imported(["trace.yaml"], "libkge", "{0}/trace.yaml", "--candidates", "14")


@reader("import wikikg90m")
def import_wikikg90m(folder):
    np.savez(folder / "t_pred.npz", t_pred_top10=np.tile(np.arange(10), (20, 1)))
    np.save(folder / "val_t_correct_index.npy", np.arange(20) % 13)
    files = ["t_pred.npz", "val_t_correct_index.npy"]
    return imported(files, "wikikg90m", "{0}/t_pred.npz", "{0}/val_t_correct_index.npy")

"""Small graphs in the layouts of the shared folder, used if there is no shared folder.

`folder` writes them once per process, into a temporary folder:

    nations, kinships, umls     h r t text: the bundled graphs
    made                        h r t text: duplicates, leaks, triples with unseen entities or relations
    made-commas                 the same triples, comma-separated
    made-openke                 the same as ids: counts on line one, columns h t r, dictionaries
    inductive/made_v1, ..._ind  two graphs with relations in common and no entity

`facts` counts their contents with sets and loops in plain Python, without the library.
"""

from __future__ import annotations

import atexit
import gzip
import hashlib
import json
import random
import shutil
import struct
import tempfile
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

import polars as pl

Triple = tuple[str, str, str]
Splits = dict[str, list[Triple]]

BUNDLED = ("nations", "kinships", "umls")
MADE = ("made", "made-commas", "made-openke")
PAIR = ("inductive/made_v1", "inductive/made_v1_ind")
NAMES = (*BUNDLED, *MADE, *PAIR)
SPLITS = ("train", "valid", "test")
KINDS = ("1-1", "1-n", "n-1", "n-n")  # what relations of `made` are called


# Contents ------------------------------------------------------------------------------------


@cache
def splits(name: str) -> Splits:
    """Return the triples of a graph in the order of its files."""
    if name in BUNDLED:
        file = files("evenrank.graphs") / "bundled" / f"{name}.parquet"
        rows = pl.read_parquet(file.read_bytes())  # type: ignore[attr-defined]
        return {
            split: rows.filter(pl.col("split") == split).select("head", "relation", "tail").rows()
            for split in SPLITS
        }
    if name in MADE:
        return _made()
    return _inductive(name.endswith("_ind"))


@cache
def _made() -> Splits:
    """Draw relations of every kind among 400 entities, and errors like those of published files."""
    draw = random.Random(20)
    names = [f"{word} {i}" for word in ("été", "北京", "o'clock", "Plain") for i in range(100)]
    draw.shuffle(names)
    one, other = names[:200], names[200:]
    triples = [(a, "1-1", b) for a, b in zip(one, other, strict=True)]
    for i, b in enumerate(other):
        triples.append((one[i // 10], "1-n", b))  # ten tails to a head, and one head to a tail
        triples.append((b, "n-1", one[i // 10]))
    triples += [(a, "n-n", b) for a in one[:40] for b in other[:40] if draw.random() < 0.4]
    draw.shuffle(triples)
    cut = len(triples) // 8
    valid, test, train = triples[:cut], triples[cut : 2 * cut], triples[2 * cut :]
    train += train[:5]  # duplicates
    test += train[10:13]  # leak
    valid += [("nowhere", "1-1", one[0]), (one[1], "1-1", "nowhere")]
    test += [("nowhere", "n-n", "nobody"), (one[2], "never", other[2]), (one[3], "n-n", "nobody")]
    return {"train": train, "valid": valid, "test": test}


def _inductive(inference: bool) -> Splits:
    """Draw a graph with its own entities and shared relations."""
    draw = random.Random(31 + inference)
    names = [f"{'new' if inference else 'old'}:{i}" for i in range(60)]
    triples: list[Triple] = []
    while len(triples) < 300:
        head, tail = draw.sample(names, 2)
        triple = (head, f"concept:{draw.randrange(6)}", tail)
        if triple not in triples:
            triples.append(triple)
    return {"train": triples[:240], "valid": triples[240:270], "test": triples[270:]}


# Facts, counted without the library --------------------------------------------


@dataclass(frozen=True)
class Facts:
    """Sizes of a graph, with (`keep`) and without (`drop`) unseen entities and relations."""

    entities: list[str]
    relations: list[str]
    counts: dict[str, int]
    kept_entities: list[str]
    kept_relations: list[str]
    kept_counts: dict[str, int]
    unseen: dict[str, tuple[int, int, int]]  # by split: triples, entities, relations
    hash: str


@cache
def facts(name: str) -> Facts:
    """Count."""
    graph = splits(name)
    shown, used = _names(graph["train"])
    entities, relations = _names([triple for triples in graph.values() for triple in triples])
    unseen = {}
    for split, triples in graph.items():
        bad = [(h, r, t) for h, r, t in triples if h not in shown or t not in shown or r not in used]
        strange, odd = _names(bad)
        unseen[split] = (len(bad), len(strange - shown), len(odd - used))
    return Facts(
        sorted(entities),
        sorted(relations),
        {split: len(triples) for split, triples in graph.items()},
        sorted(shown),
        sorted(used),
        {split: len(triples) - unseen[split][0] for split, triples in graph.items()},
        unseen,
        _hash(graph, sorted(entities), sorted(relations)),
    )


def _names(triples: list[Triple]) -> tuple[set[str], set[str]]:
    entities, relations = set(), set()
    for h, r, t in triples:
        entities |= {h, t}
        relations.add(r)
    return entities, relations


def _hash(graph: Splits, entities: list[str], relations: list[str]) -> str:
    """Give `Graph.hash` by its definition: sorted names, then sorted rows of their places by split."""
    entity, relation = ({name: i for i, name in enumerate(names)} for names in (entities, relations))
    digest = hashlib.sha256(json.dumps([entities, relations]).encode())
    for split in sorted(graph):
        digest.update(json.dumps([split, len(graph[split])]).encode())
        for row in sorted((entity[h], relation[r], entity[t]) for h, r, t in graph[split]):
            digest.update(struct.pack("<3q", *row))
    return digest.hexdigest()[:16]


def candidates(name: str, split: str, side: str) -> list[int]:
    """Count the candidates of each seen triple: all entities but other known true answers."""
    graph, about = splits(name), facts(name)
    shown, used = set(about.kept_entities), set(about.kept_relations)
    whole = {
        which: [(h, r, t) for h, r, t in triples if h in shown and t in shown and r in used]
        for which, triples in graph.items()
    }
    known = {triple for triples in whole.values() for triple in triples}
    if side == "tail":
        return [sum(e == t or (h, r, e) not in known for e in shown) for h, r, t in whole[split]]
    return [sum(e == h or (e, r, t) not in known for e in shown) for h, r, t in whole[split]]


# The files ------------------------------------------------------------------------------------------


def texts(name: str) -> dict[str, str]:
    """Return the contents of the files of a graph."""
    graph = splits(name)
    if name != "made-openke":
        separator = "," if name == "made-commas" else "\t"
        return {
            f"{split}.txt": "".join(f"{separator.join(row)}\n" for row in rows)
            for split, rows in graph.items()
        }
    about = facts(name)
    draw = random.Random(5)
    entities = draw.sample(about.entities, len(about.entities))  # ids in no order of the names
    relations = draw.sample(about.relations, len(about.relations))
    entity, relation = ({label: i for i, label in enumerate(names)} for names in (entities, relations))
    content = {
        f"{split}2id.txt": "".join(f"{entity[h]} {entity[t]} {relation[r]}\n" for h, r, t in rows)
        for split, rows in graph.items()
    }
    for what, names in (("entity", entities), ("relation", relations)):
        content[f"{what}2id.txt"] = "".join(f"{label}\t{i}\n" for i, label in enumerate(names))
    return {file: f"{text.count(chr(10))}\n{text}" for file, text in content.items()}


@cache
def folder() -> Path:
    """Write all files, and return the folder used as `datasets`."""
    root = Path(tempfile.mkdtemp(prefix="evenrank-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    for name in NAMES:
        (root / "datasets" / name).mkdir(parents=True)
        for file, text in texts(name).items():
            (root / "datasets" / name / f"{file}.gz").write_bytes(gzip.compress(text.encode(), 1))
    return root / "datasets"

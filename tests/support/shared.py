"""The shared folder of published values and benchmark graphs, if there is one.

It is named by the environment variable EVENRANK_SHARED, or lies beside the repository. Nothing of it
is part of the repository. Where it is absent, tests of data sets run on small graphs in the same layouts
(see `substitute`), and a test that needs published numbers or the published files skips and names them.
"""

from __future__ import annotations

import gzip
import json
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import substitute
from numpy.typing import NDArray

Ints = NDArray[np.int64]

FOLDER = Path(os.environ.get("EVENRANK_SHARED") or Path(__file__).resolve().parents[3] / "shared")
PRESENT = FOLDER.is_dir()


def needs(*names: str) -> pytest.MarkDecorator:
    """Skip a test if files of the shared folder are missing, and name them."""
    missing = [name for name in names if not (FOLDER / name).exists()]
    return pytest.mark.skipif(bool(missing), reason=_missing(", ".join(missing)))


def _missing(what: str) -> str:
    if PRESENT:
        return f"the shared folder has no {what} (is EVENRANK_SHARED set right?)"
    return f"not part of the repository: {what} (of the folder that EVENRANK_SHARED names)"


def path(name: str) -> Path:
    """Return a file of the shared folder, or of the substitute, or skip the test that asks for it."""
    inside = name.removeprefix("datasets").removeprefix("/")
    if not PRESENT and name.startswith("datasets"):
        found = substitute.folder() / inside
    else:
        found = FOLDER / name
    if not found.exists():
        pytest.skip(_missing(name))
    return found


@cache
def table(name: str) -> pl.DataFrame:
    """Read a tab-separated file."""
    return pl.read_csv(path(name), separator="\t")


@cache
def content(name: str) -> Any:
    """Read a gzipped JSON file."""
    with gzip.open(path(name)) as file:
        return json.load(file)


@dataclass(frozen=True)
class Graph:
    """A benchmark: triples of ids, and the queries of the test split."""

    entities: list[str]
    relations: list[str]
    train: Ints
    valid: Ints
    test: Ints

    def candidates(self, side: str) -> Ints:
        """Count the candidates of each test triple: every entity but the other known answers."""
        given, answer = {"head": (2, 0), "tail": (0, 2)}[side]
        entities = len(self.entities)

        def query(triples: Ints) -> Ints:
            return triples[:, 1] * entities + triples[:, given]

        known = np.concatenate([self.train, self.valid, self.test])
        # distinct: a triple repeated in the files is one known true answer
        distinct = np.unique(query(known) * entities + known[:, answer])
        queries, answers = np.unique(distinct // entities, return_counts=True)
        return entities - answers[np.searchsorted(queries, query(self.test))] + 1

    def known(self, side: str) -> NDArray[np.bool_]:
        """Mark every known answer of each test query (dense, for small graphs)."""
        cube = np.zeros((len(self.entities), len(self.relations), len(self.entities)), dtype=bool)
        for h, r, t in np.concatenate([self.train, self.valid, self.test]):
            cube[h, r, t] = True
        h, r, t = self.test.T
        return cube[:, r, t].T if side == "head" else cube[h, r, :]


@cache
def graph(name: str) -> Graph:
    """Read a data set; entities and relations are those of the training split, in sorted order.

    Validation and test triples with an entity or relation not seen in training are dropped, as
    PyKEEN does: a transductive model has nothing to score them with.
    """
    splits = {split: _triples(path(f"datasets/{name}/{split}.txt.gz")) for split in _SPLITS}
    train = splits["train"]
    entities = pl.concat([train["h"], train["t"]]).unique().sort()
    relations = train["r"].unique().sort()
    numbered = {}
    for split, frame in splits.items():
        columns = [
            frame[name].replace_strict(
                labels, np.arange(len(labels)), default=None, return_dtype=pl.Int64
            )
            for name, labels in (("h", entities), ("r", relations), ("t", entities))
        ]
        numbered[split] = pl.DataFrame(columns).drop_nulls().to_numpy()
    return Graph(entities.to_list(), relations.to_list(), **numbered)


_SPLITS = ("train", "valid", "test")


def _triples(file: Path) -> pl.DataFrame:
    return pl.read_csv(
        gzip.decompress(file.read_bytes()),
        separator="\t",
        has_header=False,
        new_columns=["h", "r", "t"],
        schema_overrides=[pl.String] * 3,
        quote_char=None,
    )


def expected_mean_ranks(dataset: str) -> list[tuple[str, int, float]]:
    """Return side, targets and published expected mean rank (MR / AMR) of each model and tie rule.

    Without the shared folder, those of one model, stored in `reference`.
    """
    if not PRESENT:
        return [(side, count, mean) for side, (count, mean) in _written()[dataset]["mean_rank"].items()]
    name = "paper/case_study_metrics_by_side.json.gz"
    return [
        (side, metrics["count"], metrics["arithmetic_mean_rank"] / metrics[AMR])
        for model in ("complex", "rotate", "transe", "tucker")
        for side, rules in content(name)[f"{dataset}/{model}"]["metrics"].items()
        for metrics in rules.values()
    ]


def expected_hits(dataset: str) -> list[tuple[int, float]]:
    """Return k and (hits - index) / (1 - index) of each model: the expected hits@k, as published."""
    if not PRESENT:
        return [(int(k), value) for k, value in _written()[dataset]["hits"].items()]
    rows = table("paper/case_study_results.tsv").filter(pl.col("dataset") == dataset)
    return [
        (k, (row[f"hits_at_{k}"] - row[f"adjusted_hits_at_{k}"]) / (1 - row[f"adjusted_hits_at_{k}"]))
        for row in rows.rows(named=True)
        for k in (1, 3, 5, 10)
    ]


AMR = "adjusted_arithmetic_mean_rank"


@cache
def _written() -> dict[str, Any]:
    file = Path(__file__).parents[1] / "reference" / "paper_expectations.json"
    return dict(json.loads(file.read_text()))

"""Reads checkpoints of LibKGE: `checkpoint_best.pt`, packaged models, and the folders they are in.

Read in `kge/model/`, `kge/config.py`, `kge/dataset.py` and `kge/job/train.py` of uma-pi1/kge. Rows are
numbered by the data set's `entity_ids.del` and `relation_ids.del` (id, tab, name); packaged models
include the names. Complex rows hold all real parts, then all imaginary parts; phases are radians. With
`reciprocal_relations_model` the second half of the relations are the inverses. CP's and SimplE's rows
hold the vector as a head, then the vector as a tail; SimplE's relations forward, then backward.

The configuration in these files is a pickled object of LibKGE. It is read as a plain record: no code
runs, and LibKGE need not be installed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from evenrank._internal.arrays import array, host, wide
from evenrank.errors import InputError
from evenrank.models import CP, RESCAL, ComplEx, DistMult, Inverse, RotatE, SimplE, TransE, TuckER
from evenrank.models.readers._alike import folded, halves
from evenrank.models.readers._beside import fitting, mentions, named
from evenrank.models.readers._scorers import NOTE, Projected, hyperplanes
from evenrank.models.readers.checkpoint import Checkpoint, called, torch_file

RECIPROCAL = ("reciprocal_relations_model", "inverse_relations_model")  # the second until 2019
SETTINGS = "config.yaml"  # what training writes first
DICTIONARIES = ("entity_ids.del", "relation_ids.del")
TRACES = ("trace.yaml", "kge.log", *DICTIONARIES)  # and what may be beside it
ASK = "give er.rank a function of queries and candidates that calls score_sp and score_po"
Make = Callable[[Any, Any, int, Inverse | None], Any]


def _trans_h(entity: Any, relation: Any, p: int, inverse: Inverse | None) -> Projected:
    if inverse:
        raise InputError("LibKGE's TransH with reciprocal relations is not supported")
    shift, normal = halves(wide(relation))
    return Projected("TransH", hyperplanes(entity, normal), shift, p, len(entity))


MODELS: Mapping[str, Make] = {
    "TransE": lambda e, r, p, inverse: TransE(e, r, p=p, inverse=inverse),
    "RotatE": lambda e, r, p, inverse: RotatE(e, r, p=p, inverse=inverse),
    "DistMult": lambda e, r, _, inverse: DistMult(e, r, inverse=inverse),
    "ComplEx": lambda e, r, _, inverse: ComplEx(e, r, inverse=inverse),
    "Rescal": lambda e, r, _, inverse: RESCAL(e, folded(r, e.shape[1]), inverse=inverse),
    "CP": lambda e, r, _, inverse: CP(*halves(e), r, inverse=inverse),
    "SimplE": lambda e, r, _, inverse: SimplE(*halves(e), *halves(r), inverse=inverse),
    "TransH": _trans_h,
}
BLACK_BOXES = {"TransH": (NOTE.format("TransH"),)}


class Options:
    """Stand-in for LibKGE's `Config`: its attributes without its methods."""

    options: Mapping[str, Any]


def recognises(path: Path) -> bool:
    """Recognise a file by its tables, a folder by its checkpoints or by what training writes."""
    if path.is_dir():
        traces = any((path / name).is_file() for name in TRACES)
        return bool(_checkpoints(path)) or (traces and (path / SETTINGS).is_file())
    return mentions(path, b"_entity_embedder.")


def read(path: Path, *, trust_pickle: bool = False) -> Checkpoint:
    """Read a checkpoint; of a folder the best one, or else the last."""
    file = _chosen(path) if path.is_dir() else path
    content = _content(file, trust_pickle)
    options = content["config"].options
    inverse: Inverse | None = "stacked" if options["model"] in RECIPROCAL else None
    outer = options[options["model"]]
    own = outer["base_model"] if inverse else outer  # options set for this model
    default = options.get(own.get("type", options["model"]), {})  # and the defaults
    name = str(default.get("class_name"))
    tables = {_key(key): host(array(key, rows)) for key, rows in content["model"][0].items()}
    entity = tables.get("_entity_embedder._embeddings.weight")
    relation = tables.get("_relation_embedder._embeddings.weight")
    model: Any
    notes: tuple[str, ...]
    if name == "RelationalTucker3":
        model, notes = called(name, _tucker(file, tables, inverse))
    elif name in MODELS and entity is not None and relation is not None:
        norm = own.get("l_norm", default.get("l_norm", 1))
        if norm not in (1, 2):
            raise InputError(f"{file}: {name} does not factor", got=f"l_norm {norm}", do=ASK)
        model, notes = MODELS[name](entity, relation, norm, inverse), BLACK_BOXES.get(name, ())
    else:
        raise InputError(
            f"{file}: this LibKGE model is not supported",
            got=f"{name}, with {', '.join(tables)}",
            allowed=f"{', '.join(MODELS)}, RelationalTucker3, with lookup embedders",
            do=ASK,
        )
    packaged = (content.get("dataset") or {}).get("meta") or {}
    if "entity_ids" not in packaged:
        return Checkpoint(model, *named(model, [file.parent], DICTIONARIES), notes)
    return Checkpoint(
        model,
        fitting(packaged["entity_ids"], model.entities, "entities", file),
        fitting(packaged["relation_ids"], model.relations, "relations", file),
        notes,
    )


def _tucker(file: Path, tables: Mapping[str, Any], inverse: Inverse | None) -> TuckER:
    """Relational Tucker3: RESCAL whose matrices are a linear map of short relation vectors."""
    embedder = "_relation_embedder"
    try:
        entity = tables["_entity_embedder._embeddings.weight"]
        short = tables[f"{embedder}.base_embedder._embeddings.weight"]
        matrix = tables[f"{embedder}.projection.weight"]
    except KeyError as error:
        raise InputError(f"{file}: Relational Tucker3 without {error}", got=", ".join(tables)) from None
    core = folded(matrix.T, entity.shape[1])  # by relation dimension, head, tail
    return TuckER(entity, short, core.swapaxes(0, 1), inverse=inverse)


def _key(name: str) -> str:
    """Return the name of a table as in today's LibKGE, whether the model is a base model or not."""
    return name.removeprefix("_base_model.").replace("embedder.embeddings.", "embedder._embeddings.")


def _content(file: Path, trust_pickle: bool) -> dict[str, Any]:
    content = torch_file(file, trust_pickle=trust_pickle, records={"kge.config.Config": Options})
    if not isinstance(content, dict) or not {"model", "config"} <= content.keys():
        got = ", ".join(map(str, content)) if isinstance(content, dict) else type(content).__name__
        raise InputError(f"{file} is not a checkpoint of LibKGE", got=got, allowed="model, config, ...")
    return content


def _chosen(folder: Path) -> Path:
    found = _checkpoints(folder)
    if not found:
        raise InputError(
            f"incomplete checkpoint {folder}: missing checkpoint_best.pt or any other checkpoint_*.pt",
            got=", ".join(sorted(file.name for file in folder.iterdir())[:9]),
        )
    best = folder / "checkpoint_best.pt"
    return best if best in found else found[-1]


def _checkpoints(folder: Path) -> list[Path]:
    """List the checkpoints of a folder in the order of their epochs."""
    return sorted(folder.glob("checkpoint_*.pt"))

"""`load`: a model from any checkpoint that evenrank can read, or a bundled one by name."""

from __future__ import annotations

import os
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenrank.errors import InputError

if TYPE_CHECKING:
    from evenrank.graphs.graph import Graph


def load(
    path: str | os.PathLike[str],
    graph: Graph | None = None,
    *,
    format: str = "auto",  # noqa: A002  # the word of the command line
    trust_pickle: bool = False,
    mapped: bool = False,
) -> Any:
    """Load a trained model from a checkpoint, or one of the bundled models by name.

    Checkpoints of evenrank (safetensors), PyKEEN, LibKGE, DGL-KE, OpenKE, TorchKGE, PyTorch Geometric,
    and the RotatE code are recognised by their content.

    Parameters
    ----------
    path
        A checkpoint (a file or a folder), or the name of a bundled model such as ``"nations/complex"``;
        `bundled` lists these.
    graph
        The graph to rank on. The rows of the model are reordered to match it: by name, where the
        checkpoint has names; otherwise the counts have to agree. Without a graph, rows stay as they are.
    format
        The library that wrote the checkpoint, where it is not recognised: "pykeen", "libkge", ... Files
        that do not say which model they hold need that as well: ``"openke:TransE(p=2)"``.
    trust_pickle
        Whether the file may be unpickled, which can run code in it. Most checkpoints do not need this.
    mapped
        Whether to memory-map the arrays of evenrank's own files instead of reading them.

    Returns
    -------
    Model or scorer
        A model of `evenrank.models` where the score factors, otherwise a scorer. `evenrank.rank` takes
        both; `notes` lists what was assumed.

    Raises
    ------
    InputError
        If there is no such file or model, the file cannot be read, or model and graph do not match.

    Examples
    --------
    >>> load("nations/complex")
    ComplEx(14 entities, 55 relations)
    """
    from evenrank.models.readers import read
    from evenrank.models.readers.checkpoint import fit

    if not isinstance(path, str | os.PathLike):
        raise InputError(
            "a model is loaded from a path or by name",
            got=type(path).__name__,
            do="er.rank takes models that are in memory as they are",
        )
    found = _bundled(path) if isinstance(path, str) and not os.path.exists(path) else None
    if found is not None:
        with as_file(found) as file:
            return fit(read(file), graph, str(path))
    checkpoint = read(path, format=format, trust_pickle=trust_pickle, mapped=mapped)
    return fit(checkpoint, graph, Path(path).name)


def bundled() -> list[str]:
    """List the names of the bundled models.

    Returns
    -------
    list of str
        Names that `load` takes: a bundled graph and a model trained on it.

    Examples
    --------
    >>> bundled()[:2]
    ['kinships/complex', 'kinships/rotate']
    """
    names = (file.name for file in _folder().iterdir() if file.name.endswith(ENDING))
    return sorted(name.removesuffix(ENDING).replace("-", "/") for name in names)


ENDING = ".safetensors"


def _folder() -> Any:
    return files("evenrank.models") / "bundled"


def _bundled(name: str) -> Any:
    """Find the file of a bundled model; None if there is none of that name."""
    name = name.lower()
    return _folder() / f"{name.replace('/', '-')}{ENDING}" if name in bundled() else None

"""`load`: read a model from a checkpoint of any supported library, or a bundled one by name."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from difflib import get_close_matches
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenrank._internal.checks import check_type
from evenrank.errors import InputError

if TYPE_CHECKING:
    from evenrank.graphs.graph import Graph, Unseen
    from evenrank.models.readers.checkpoint import Checkpoint


def load(
    path: str | os.PathLike[str],
    graph: Graph | None = None,
    *,
    format: str = "auto",  # noqa: A002  # as the shell option
    trust_pickle: bool = False,
    mapped: bool = False,
) -> Any:
    """Load a trained model from a checkpoint, or one of the bundled models by name.

    Checkpoints of evenrank (safetensors), PyKEEN, LibKGE, DGL-KE, OpenKE, TorchKGE, PyTorch Geometric,
    and the RotatE code are recognised by their content.

    Parameters
    ----------
    path : path-like
        A checkpoint (a file or a folder), or the name of a bundled model such as ``"nations/complex"``,
        in upper or lower case; `bundled` lists these. A file or folder of that name takes precedence.
    graph : Graph, optional
        The graph to rank on. The rows of the model are reordered to match it: by name, if the
        checkpoint has names; otherwise the counts have to agree. Without a graph, rows stay as they are.
    format : str, default "auto"
        The library that wrote the checkpoint, if it is not recognised: ``"evenrank"``, ``"rotate"``,
        ``"dgl-ke"``, ``"libkge"``, ``"openke"``, ``"torchkge"``, ``"pyg"`` or ``"pykeen"``. State
        dictionaries that fit several models need the model as well: ``"openke:TransE(p=2)"``.
    trust_pickle : bool, default False
        Whether the file may be unpickled, which can run code in it. Most checkpoints do not need this.
    mapped : bool, default False
        Whether to memory-map the arrays of evenrank's own files instead of reading them.

    Returns
    -------
    Model or scorer
        A model of `evenrank.models` if the score factors, otherwise a black-box scorer. `evenrank.rank`
        accepts both; `notes` lists what was assumed.

    Raises
    ------
    InputError
        If there is no such file or model, the file cannot be read, or model and graph do not match.

    Examples
    --------
    >>> load("nations/complex")
    ComplEx(14 entities, 55 relations, stacked inverse relations)
    """
    from evenrank.models.readers.checkpoint import fit

    checkpoint = _read(path, format, trust_pickle, mapped)
    return fit(checkpoint, graph, Path(path).name)


def load_pair(
    path: str | os.PathLike[str],
    graph: Graph,
    *,
    unseen: Unseen | None = None,
    format: str = "auto",  # noqa: A002  # as the shell option
    trust_pickle: bool = False,
    mapped: bool = False,
) -> tuple[Any, Graph]:
    """Load a trained model together with the graph it can be ranked on.

    As `load`, but if the model has exactly the entities and relations seen in training, the graph is
    returned without the others, as with ``unseen="drop"``. The models of PyKEEN are such. The names in
    the checkpoint decide; without names, the numbers of entities and relations of a PyKEEN model.

    Parameters
    ----------
    path : path-like
        A checkpoint, or the name of a bundled model.
    graph : Graph
        The graph to rank on.
    unseen : {"keep", "drop"}, optional
        Whether the graph keeps what is not seen in training. By default, the model decides.
    format : str, default "auto"
        The library that wrote the checkpoint, as for `load`.
    trust_pickle : bool, default False
        Whether the file may be unpickled, as for `load`.
    mapped : bool, default False
        Whether to memory-map the arrays, as for `load`.

    Returns
    -------
    model : Model or scorer
        The model; its `notes` say what was left out.
    graph : Graph
        The graph, or `graph.drop_unseen()`.

    Raises
    ------
    InputError
        As by `load`.

    Examples
    --------
    >>> from evenrank.graphs import load as load_graph
    >>> load_pair("nations/complex", load_graph("nations"))[0]
    ComplEx(14 entities, 55 relations, stacked inverse relations)
    """
    from evenrank.models.readers.checkpoint import pair

    return pair(_read(path, format, trust_pickle, mapped), graph, unseen, Path(path).name)


def _read(path: str | os.PathLike[str], format: str, trust_pickle: bool, mapped: bool) -> Checkpoint:  # noqa: A002
    from evenrank.models.readers import read

    check_type(
        path,
        str | os.PathLike,
        "path must be a path, or the name of a bundled model",
        do="models in memory need no loading: er.rank(model, task)",
    )
    check_type(format, str, "format must be a string")
    with _located(path) as file:
        return read(file, format=format, trust_pickle=trust_pickle, mapped=mapped)


def bundled() -> list[str]:
    """List the names of the bundled models.

    Returns
    -------
    list of str
        Names for `load`: a bundled graph and a model trained on it.

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


def _located(path: str | os.PathLike[str]) -> AbstractContextManager[Path]:
    """Return the file or folder of a checkpoint, or the file of a bundled model."""
    from evenrank.models.readers import READERS

    if os.path.exists(path):
        return nullcontext(Path(path))
    name, names = os.fspath(path).lower(), bundled()
    if name in names:
        return as_file(_folder() / f"{name.replace('/', '-')}{ENDING}")
    near = get_close_matches(name, names, cutoff=0.8)
    raise InputError(
        "no such file, folder or bundled model",
        got=os.fspath(path),
        allowed=f"a checkpoint of {', '.join(READERS)}; a bundled model: {', '.join(names)}",
        do=f"did you mean {' or '.join(near)}?" if near else None,
    )

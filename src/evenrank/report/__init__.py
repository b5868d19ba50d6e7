"""Reports for people: single HTML files that work offline, and tables and charts for papers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable
    from pathlib import Path

    from evenrank.graphs import Graph
    from evenrank.metrics.grammar import Metrics
    from evenrank.metrics.ties import Ties
    from evenrank.report.document import Given
    from evenrank.stats import On

__all__ = ["explore", "report"]


def report(
    path: str | os.PathLike[str],
    *ranks: Given,
    metrics: Metrics = (),
    ties: Ties | None = None,
    graphs: Graph | Iterable[Graph] = (),
    level: float = 0.95,
    on: On = None,
    candidates: int | None = None,
    keep: bool = True,
) -> Path:
    """Write a report that compares models: a page (.html), or its tables (.tex, .md, .csv, .json).

    Parameters
    ----------
    path : path-like
        File to write; the suffix selects the format.
    *ranks : Ranks, path-like, mapping or iterable
        `Ranks`, files of ranks, earlier reports (.html), lists of these, or mappings from names of
        models to these. Otherwise models and data sets are named by the protocols of the ranks; a model
        that its file does not name is named after the file.
    metrics : str, Metric or iterable of these, optional
        Metrics to show. The first plain metric is used in tests, charts and groups.
    ties : str, optional
        Tie-breaking rule. By default that of the protocols.
    graphs : Graph or iterable of Graph, optional
        Graphs that were ranked. Results are also grouped by the kind of target, see `evenrank.strata`.
    level : float, default 0.95
        Level of confidence intervals and tests.
    on : str or sequence of str, optional
        Key columns that identify a target, or "row", as in `evenrank.compare`.
    candidates : int, optional
        Number of candidates, for files without that column.
    keep : bool, default True
        Whether to store the ranks in the page. Such a page can be passed as `ranks`.

    Returns
    -------
    Path
        The path of the file.

    Raises
    ------
    InputError
        If ranks cannot be read or compared, or the file cannot be written.

    Examples
    --------
    >>> import evenrank as er
    >>> ranks = er.rank(er.models.load("nations/complex"), er.load("nations").task("test"))
    >>> report("/tmp/nations.md", ranks).name
    'nations.md'
    """
    from evenrank.report.document import Report

    made = Report(
        *ranks, metrics=metrics, ties=ties, graphs=graphs, level=level, on=on, candidates=candidates
    )
    return made.save(path, keep=keep)


def explore(path: str | os.PathLike[str], *metrics: Metrics, progress: bool = True) -> Path:
    """Write a page that adjusts published values for chance interactively, offline.

    The page has all data sets of the atlas, including your own.

    Parameters
    ----------
    path : path-like
        File to write (.html).
    *metrics : str or Metric
        Metrics to offer instead of the default ones. Medians and quantiles are not among the defaults,
        because their null distributions take longest to compute.
    progress : bool, default True
        Whether to show a progress bar, if stderr is a terminal.

    Returns
    -------
    Path
        The path of the file.

    Raises
    ------
    InputError
        If a metric is unknown or adjusted, or the file cannot be written.
    """
    from evenrank.report.explorer import write

    return write(path, *metrics, progress=progress)

"""Pages and tables for people: single files that open anywhere, without a server or a network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from evenrank.report.document import Given

__all__ = ["explore", "report"]


def report(path: str | os.PathLike[str], *ranks: Given, **options: Any) -> Path:
    """Write a report that compares models: a page (.html), or its tables (.tex, .md, .csv, .json).

    Parameters
    ----------
    path : path-like
        Where to write; the ending of the name chooses the format.
    *ranks : Ranks or path-like
        `Ranks`, files of ranks, or reports to be read again. Their protocols name data set and model; a
        file without them is named by its file name.
    **options
        Options of `evenrank.report.document.Report`: `metrics`, `ties`, `graphs`, `level`, `on`,
        `candidates`; and ``keep=False`` to leave the ranks out of the page, which then cannot be read
        again.

    Returns
    -------
    Path
        The file that was written.

    Raises
    ------
    InputError
        If ranks cannot be compared, or the file cannot be written.

    Examples
    --------
    >>> import evenrank as er
    >>> ranks = er.rank(er.models.load("nations/complex"), er.load("nations").task("test"))
    >>> report("/tmp/nations.md", ranks).name
    'nations.md'
    """
    from evenrank.report.document import Report

    keep = options.pop("keep", True)
    return Report(*ranks, **options).save(path, keep=keep)


def explore(path: str | os.PathLike[str], *metrics: str, **options: Any) -> Path:
    """Write a page on which published values can be read against chance, without a network.

    Parameters
    ----------
    path : path-like
        Where to write (.html).
    *metrics : str
        Metrics to offer instead of the usual ones.
    **options
        ``progress``: False shows no progress bar.

    Returns
    -------
    Path
        The file that was written.

    Raises
    ------
    InputError
        If a metric is unknown or adjusted, or the file cannot be written.
    """
    from evenrank.report.explorer import explore as write

    return write(path, *metrics, **options)

"""Reports for people: single HTML files that work offline, and tables and charts for papers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from evenrank.graphs import Graph
    from evenrank.metrics.chance import Chance
    from evenrank.metrics.grammar import Metrics
    from evenrank.metrics.ties import Ties
    from evenrank.ranks.paper import Hits, Layout, Percent
    from evenrank.report.document import Given
    from evenrank.stats import On

__all__ = ["explore", "latex", "leaderboard", "report"]


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
    chance: Chance | None = None,
) -> Path:
    """Write a report that compares models: a page (.html), or its tables (.tex, .md, .csv, .json).

    Parameters
    ----------
    path : path-like
        File to write; the suffix selects the format.
    *ranks : Ranks, Rankings, path-like, mapping or iterable
        `Ranks` or `Rankings`, files of these, earlier reports (.html), lists of these, or mappings from
        names of models to these. Otherwise models and data sets are named by the protocols of the ranks;
        a model that its file does not name is named after the file.
    metrics : str, Metric or iterable of these, optional
        Metrics to show. The first plain metric is used in tests, charts and groups.
    ties : str, optional
        Tie-breaking rule. By default that of the protocols.
    graphs : Graph or iterable of Graph, optional
        The graphs that were ranked. With these, results are also grouped by `evenrank.strata`, such as
        relation cardinality.
    level : float, default 0.95
        Level of confidence intervals and tests.
    on : str or sequence of str, optional
        Key columns that identify a target, or "row", as in `evenrank.compare`.
    candidates : int, optional
        Number of candidates, for files without that column.
    keep : bool, default True
        Whether to store the ranks in the page. Such a page can be passed as `ranks`.
    chance : {"scorer", "independent"}, optional
        The null distribution of z-scores, as in `Ranks.evaluate`. By default that of the protocols.

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
        *ranks,
        metrics=metrics,
        ties=ties,
        graphs=graphs,
        level=level,
        on=on,
        candidates=candidates,
        chance=chance,
    )
    return made.save(path, keep=keep)


def latex(
    *ranks: Given,
    metrics: Metrics = (),
    layout: Layout | None = None,
    digits: int = 3,
    percent: Percent | None = None,
    hits: Hits = "H@k",
    names: Mapping[str, str] | None = None,
    caption: str | None = None,
    label: str | None = None,
    ties: Ties | None = None,
    level: float = 0.95,
    on: On = None,
    candidates: int | None = None,
) -> str:
    r"""Write a table of results for a paper, in LaTeX, followed by a table of paired tests.

    The best value of each metric on each data set is bold, the second best of three or more models is
    underlined, both as they are printed: equal numbers are marked alike. A dagger marks best values that
    are significantly better than the second best; the caption states the test.

    Parameters
    ----------
    *ranks : Ranks, Rankings, path-like, mapping or iterable
        What `evenrank.report` takes: `Ranks` or `Rankings`, files of these, earlier reports, lists of
        these, or mappings from names of models to these.
    metrics : str, Metric or iterable of these, optional
        Metrics to show; by default mrr, hits@1, hits@3 and hits@10, or of rankings map, mrr, ndcg@10 and
        recall@10. The first one that is not adjusted for chance is tested.
    layout : {"models", "data", "long", "metrics"}, optional
        What the rows are: models, with the metrics of each data set side by side; data sets, with the
        metrics of each model side by side; pairs of a data set and a model, with one column per metric
        ("long"); or metrics. By default the first of these with at most 12 columns of values.
    digits : int, default 3
        Decimals of values between 0 and 1; larger values have fewer, and percentages two fewer.
    percent : {"hits", "all"}, optional
        Values to print in percent: those of Hits@k, or of all metrics with maximum 1.
    hits : {"H@k", "Hits@k"}, default "H@k"
        How to write Hits@k.
    names : mapping of str to str, optional
        Names to print instead of those of models, data sets and metrics. By default known ones are
        written as in papers: FB15k-237 for fb15k237, ComplEx for complex, AMRI for index(mr).
    caption : str, optional
        The caption, in LaTeX; the notes on bold values, daggers and percentages are added. By default it
        names the data sets.
    label : str, optional
        The label for references, such as "tab:results".
    ties : str, optional
        Tie-breaking rule. By default that of the protocols.
    level : float, default 0.95
        Confidence level of the tests.
    on : str or sequence of str, optional
        Key columns that identify a target, or "row", as in `evenrank.compare`.
    candidates : int, optional
        Number of candidates, for files without that column.

    Returns
    -------
    str
        LaTeX text. Comments at the top name the packages it needs.

    Raises
    ------
    InputError
        If ranks cannot be read or compared, or an option is invalid.

    Examples
    --------
    >>> import evenrank as er
    >>> task = er.load("nations").task("test")
    >>> models = [er.rank(er.models.load(f"nations/{name}"), task) for name in ("transe", "tucker")]
    >>> print(latex(*models, metrics=["mrr", "hits@10", "amri"], percent="hits", label="tab:nations"))
    % in the preamble: \usepackage{booktabs}
    \begin{table}[t]
    \centering
    \caption{Results on Nations. Best values are bold. ... H@10 in percent.}\label{tab:nations}
    \smallskip
    \begin{tabular}{lrrr}
      \toprule
      Model & MRR & H@10 & AMRI \\
      \midrule
      TransE & 0.522 & 97.3 & 0.395 \\
      TuckER & \textbf{0.791}\rlap{$^\dagger$} & \textbf{99.8} & \textbf{0.735} \\
      \bottomrule
    \end{tabular}
    \end{table}
    ...
    """
    from evenrank.report.document import Report

    made = Report(
        *ranks, metrics=metrics, ties=ties, level=level, on=on, candidates=candidates, of_paper=True
    )
    return made.to_latex(
        layout=layout,
        digits=digits,
        percent=percent,
        hits=hits,
        names=names,
        caption=caption,
        label=label,
    )


def explore(path: str | os.PathLike[str], *metrics: Metrics, progress: bool = True) -> Path:
    """Write an interactive page that adjusts published values for chance, and works offline.

    The page has all data sets of the atlas, including those that you added.

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


def leaderboard(path: str | os.PathLike[str]) -> Path:
    """Write a page with the record of published results, adjusted for chance.

    Results can be selected by data set, metric, protocol, origin and year, and sorted by value, adjusted
    index or z-score. The page plots them over the years together with the chance level, compares models
    across data sets, links to the source of every value, and marks values that, as printed, cannot come
    from one set of ranks. It works offline.

    Parameters
    ----------
    path : path-like
        File to write (.html).

    Returns
    -------
    Path
        The path of the file.

    Raises
    ------
    InputError
        If the file cannot be written.

    See Also
    --------
    evenrank.published.results : The record of published results.
    """
    from evenrank.report.board import write

    return write(path)

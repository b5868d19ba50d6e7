"""Notes on how far chance levels may be off if the candidates of a data set were not counted."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from evenrank._internal.table import figure
from evenrank.errors import DegenerateError
from evenrank.graphs import Unseen, atlas, registry
from evenrank.graphs.approximate import MOST_ANSWERS, SUFFIX, Bounds, has_sizes
from evenrank.metrics.adjusted import index
from evenrank.metrics.metric import Metric
from evenrank.ranks import presets


def approximate_notes(
    data: str,
    values: Mapping[Metric, float],
    targets: int,
    *,
    filter: atlas.Filter = "all",  # noqa: A002  # the field's word
    unseen: Unseen = "keep",
    protocol: presets.Name | None = None,
) -> tuple[str, ...]:
    """Describe the limits between which chance levels, indices and z-scores lie.

    Parameters
    ----------
    data : str
        The name of a data set.
    values : mapping of Metric to float
        The value of each metric.
    targets : int
        The number of targets.
    filter, unseen, protocol
        As in `evenrank.atlas`.

    Returns
    -------
    tuple of str
        Lines for the user; none if the numbers of candidates are exact.
    """
    limits = atlas.bounds(data, filter=filter, unseen=unseen, protocol=protocol)
    if limits is None:
        return ()
    entry = registry.find(data.removesuffix(SUFFIX))
    kept = unseen if protocol is None else presets.preset(protocol).unseen
    other = f" ({'without' if entry.unseen == 'drop' else 'with'} those not seen in training)"
    about = (
        f"approximate: the candidates of {entry.title} were not counted, and all of its {limits.most:,} "
        f"entities{'' if has_sizes(entry, kept) else other} are taken instead"
    )
    if filter is None and protocol is None:
        return (f"{about}.",)
    about += f". If up to {MOST_ANSWERS:.0%} of them were known answers and filtered:"
    return (about, *(_line(metric, value, limits, targets) for metric, value in values.items()))


def _line(metric: Metric, value: float, limits: Bounds, targets: int) -> str:
    nulls = limits.nulls(metric, targets)
    levels = sorted(float(null.mean()) for null in nulls)
    line = f"{metric}: chance {figure(levels[0])} to {figure(levels[1])}"
    try:
        indices = sorted(index(null)(value) for null in nulls)
    except DegenerateError:  # with the fewest candidates, every ranking has the best value
        return line
    line += f", index {figure(indices[0])} to {figure(indices[1])}"
    # means and standard deviations lie between those of the limits, but not in step
    spread = [float(null.std()) for null in nulls]
    scores = [(value - level) / std for level, std in product(levels, spread) if std > 0]
    scores = sorted(score if metric.increasing else -score for score in scores)
    if len(scores) < len(levels) * len(spread):
        return line
    return f"{line}, z {_signed(scores[0])} to {_signed(scores[-1])}"


def _signed(z: float) -> str:
    return ("+" if z >= 0 else "") + figure(z)

"""Statistics of ranks: confidence intervals, paired tests, several runs, several data sets.

A test set is a sample: other test triples would have given other values. `intervals` quantifies this
uncertainty. Two models are usually tested on the same triples, and triples that are hard for one are
often hard for the other; `compare` tests the differences triple by triple, which has far more power than
two separate intervals. Neither measures the variation between training runs (`summarize_runs`), nor
whether a model that is better on one data set is better on others (`across_datasets`).

- `_units`         resampling units, and which targets each joins
- `_terms`         metrics as smooth functions of a mean over targets
- `_sample`        the influence of each unit on a metric, and its standard error
- `_bounds`        the delta method, order statistics and the bootstrap
- `_intervals`     metrics with confidence intervals
- `_evaluate`      metrics of several models
- `_join`          naming models, and joining their targets
- `_significance`  permutation test, t-test, Wilcoxon; corrections for multiple tests
- `_paired`        comparisons of models in pairs
- `_several`       several runs; models across data sets
- `averages`       micro and macro averages side by side
- `sampled`        full rankings estimated from sampled candidates
"""

from evenrank.stats._bounds import Bounds, bounds_by_group, values_by_group
from evenrank.stats._evaluate import evaluate
from evenrank.stats._intervals import Interval, Intervals, Method, check_level, intervals, plural
from evenrank.stats._join import (
    On,
    candidate_range,
    joined,
    one_kind,
    query_keys,
    target_keys,
    with_targets,
)
from evenrank.stats._paired import Comparison, Pair, compare, signed
from evenrank.stats._sample import ROUNDING, Sample, StandardError
from evenrank.stats._several import (
    AcrossDatasets,
    AverageRank,
    RunSummary,
    across_datasets,
    summarize_runs,
)
from evenrank.stats._significance import Correction, Test
from evenrank.stats._terms import Terms
from evenrank.stats._units import names_of, unit_name
from evenrank.stats.averages import averages

__all__ = [
    "ROUNDING",
    "AcrossDatasets",
    "AverageRank",
    "Bounds",
    "Comparison",
    "Correction",
    "Interval",
    "Intervals",
    "Method",
    "On",
    "Pair",
    "RunSummary",
    "Sample",
    "StandardError",
    "Terms",
    "Test",
    "across_datasets",
    "averages",
    "bounds_by_group",
    "candidate_range",
    "check_level",
    "compare",
    "evaluate",
    "intervals",
    "joined",
    "names_of",
    "one_kind",
    "plural",
    "query_keys",
    "signed",
    "summarize_runs",
    "target_keys",
    "unit_name",
    "values_by_group",
    "with_targets",
]

"""From ranks to what may be said of them: intervals, paired comparisons, seeds, several data sets.

A test set is a sample. Had other triples been held out, every metric would have come out a little
different; `intervals` says how much. Two models were mostly tested on the same triples, and what is hard
for one is hard for the other; `compare` takes the difference triple by triple, which is far sharper than
two intervals side by side. Neither says anything about training: that varies with the seed (`seeds`).
And a model that is better on one data set need not be so on the next (`across`).

- `_sample`        targets that move together, and how each pulls on a metric
- `_bounds`        the delta method, order statistics and the bootstrap
- `_intervals`     metrics with intervals
- `_join`          the same targets, ranked in the same way, or a reason why not
- `_significance`  sign flips, t, Wilcoxon; corrections for many tests
- `_paired`        models in pairs
- `_several`       seeds and folds; models across data sets
"""

from evenrank.stats._intervals import Interval, Intervals, Method, intervals, plural
from evenrank.stats._join import On, joined, target_keys
from evenrank.stats._paired import Comparison, Pair, compare, signed
from evenrank.stats._several import AcrossDatasets, RunSummary, Standing, across_datasets, summarize_runs
from evenrank.stats._significance import Correction, Test

__all__ = [
    "AcrossDatasets",
    "Comparison",
    "Correction",
    "Interval",
    "Intervals",
    "Method",
    "On",
    "Pair",
    "RunSummary",
    "Standing",
    "Test",
    "across_datasets",
    "compare",
    "intervals",
    "joined",
    "plural",
    "summarize_runs",
    "signed",
    "target_keys",
]

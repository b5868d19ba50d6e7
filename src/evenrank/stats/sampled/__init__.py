"""Estimate the metrics of a full ranking from ranks among sampled candidates, with error bounds.

For a target of rank `R` among `N` candidates, the number `x` of better candidates among `k` others drawn
without replacement is hypergeometric:

    x ~ Hypergeometric(N - 1 others, R - 1 of them better, k drawn)

and a metric is a mean of `X(R)` over targets (`1/R`, `[R <= 10]`, `R`). An estimate of it is a mean of
some `T(x)`, whose expectation `E_R T` is a polynomial in `R` of degree at most `k`. So

- `X = R` (mr) and other polynomials have an unbiased `T`, for every distribution of ranks: it yields a
  *confidence interval*.
- `1/R`, `[R <= 10]`, `log R` have no unbiased `T`, but there is one whose expectation is never too
  small, `E_R T >= X(R)` for every rank, and one whose expectation is never too large. Their means, with
  a margin of error, are *bounds* that hold for every distribution of ranks; the narrowest such bounds
  are found by linear programming.

The bounds are wide because a sample contains little information: among 100 of 14,541 candidates, rank 1
and rank 50 mostly look the same. A `T` that is close to `X` under an assumed distribution of ranks
(`em`, `bv`, `cls`) is a point estimate between them; its bias depends on the true distribution, which is
unknown.

- `_design`       the sampling distribution, and the ranks at which it is computed
- `_corrections`  unbiased T, and T under an assumed distribution of ranks
- `_bounds`       T whose expectation is never too small, or never too large
- `_targets`      the targets of one or more samples, grouped by design
- `_variance`     the variance of a mean of T over candidates, or over targets and candidates
- `_means`        the mean of a metric's terms, with an interval or bounds
- `_estimate`     `estimate_full`
- `_result`       its result
"""

from evenrank.stats.sampled._estimate import estimate_full
from evenrank.stats.sampled._result import Estimated, Estimator, FullEstimate, Vary

__all__ = ["Estimated", "Estimator", "FullEstimate", "Vary", "estimate_full"]

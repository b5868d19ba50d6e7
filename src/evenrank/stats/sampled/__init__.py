"""What a full ranking would have given, from ranks among sampled candidates: estimated, with bounds.

A target of rank `R` among `N` candidates, ranked against `k` of the others drawn without replacement,
is beaten by `x` of them:

    x ~ Hypergeometric(N - 1 others, R - 1 of them better, k drawn)

and a metric is a mean of `X(R)` over targets (`1/R`, `[R <= 10]`, `R`). An estimate of it is a mean of
some `T(x)`, whose expectation `E_R T` is a polynomial in `R` of degree at most `k`. So

- `X = R` (mr) and other polynomials have a `T` without bias, whatever the ranks are: an *interval*;
- `1/R`, `[R <= 10]`, `log R` have none. What can be had is a `T` that is never too small on average,
  `E_R T >= X(R)` for every rank, and one that is never too large. Their means, a margin of error
  outwards, are *bounds* that hold for every distribution of ranks; among all such `T` the narrowest are
  found by linear programming.

The bounds are wide because so little is known: among 100 of 14,541 candidates, rank 1 and rank 50 mostly
look the same. A `T` that is chosen to be near `X` for some supposed distribution of ranks (`em`, `bv`,
`cls`) gives one number between them; how far it is off depends on that distribution, which is unknown.

- `_design`       the law of what is sampled, and where it is computed
- `_corrections`  T without bias, and T that supposes a distribution
- `_bounds`       T that is never too small, or never too large
- `_targets`      the targets of one sample or several, by design
- `_variance`     how much a mean of T varies with the candidates drawn, or with the targets too
- `_means`        a value for the mean of a metric's terms, and an interval or bounds around it
- `_estimate`     all of it together
- `_result`       and how it is shown
"""

from evenrank.stats.sampled._estimate import estimate_full
from evenrank.stats.sampled._result import Estimated, Estimator, FullEstimate, Vary

__all__ = ["FullEstimate", "Estimated", "Estimator", "Vary", "estimate_full"]

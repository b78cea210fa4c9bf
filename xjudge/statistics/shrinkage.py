"""Shares of many raters with few trials each, drawn towards their common mean: empirical Bayes.

The model is beta-binomial: rater i succeeds in ``x_i`` of ``n_i`` trials, with a share ``theta_i`` of his own
that comes from a beta distribution with mean ``mu`` and strength ``s = a + b``. The prior is estimated by
moments with empirical weights [1]_; given it, ``theta_i`` has the beta distribution with parameters
``mu s + x_i`` and ``(1 - mu) s + n_i - x_i``, whose mean is

    theta_i = (s mu + x_i) / (s + n_i),

the rater's own share with weight ``n_i / (s + n_i)`` and the common mean with the rest, as in [2]_. Intervals
are quantiles of that distribution. They take the prior as known: with few raters they are too short [3]_.

.. [1] J. C. Kleinman, "Proportions with extraneous variance: single and independent samples", J. Am. Stat.
   Assoc. 68:46-54, 1973.
.. [2] B. Efron and C. Morris, "Data analysis using Stein's estimator and its generalizations", J. Am. Stat.
   Assoc. 70:311-319, 1975.
.. [3] C. N. Morris, "Parametric empirical Bayes inference: theory and applications", J. Am. Stat. Assoc.
   78:47-55, 1983.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.statistics.resample import wilson_interval

__all__ = ["BetaPrior", "Shrunk", "beta_prior", "shrink"]

Floats = npt.NDArray[np.float64]

_MOST_STEPS = 100


class BetaPrior(NamedTuple):
    """What raters have in common."""

    mean: float
    """In [0, 1]; NaN without a rater with trials."""
    strength: float
    """``a + b``, as many trials the prior is worth: in [0, inf]; inf where raters differ no more than chance
    explains, NaN where fewer than two have trials, or nobody has more than one."""


class Shrunk(NamedTuple):
    """Shares drawn towards the mean."""

    value: Floats
    """Shape (rater,), in [0, 1]."""
    lower: Floats
    """Shape (rater,)."""
    upper: Floats
    """Shape (rater,)."""


def beta_prior(successes: npt.ArrayLike, trials: npt.ArrayLike) -> BetaPrior:
    """Mean and strength of the beta distribution that shares of raters come from.

    Parameters
    ----------
    successes : array-like, shape (rater,)
        Between 0 and the trials; need not be whole (a trial may succeed in part).
    trials : array-like, shape (rater,)
        Raters without trials do not count.

    Returns
    -------
    BetaPrior

    Notes
    -----
    With ``p_i = x_i / n_i``, weights ``w_i`` of sum w, ``mu = sum w_i p_i / w`` and
    ``S = sum w_i (p_i - mu)^2``, the intraclass correlation ``rho = 1 / (s + 1)`` solves

        E[S] = mu (1 - mu) [(1 - rho) A + rho B],
        A = sum w_i (1 - w_i / w) / n_i,   B = sum w_i (1 - w_i / w);

    the weights are ``n_i`` at first, then ``n_i / (1 + rho (n_i - 1))`` until rho no longer moves. Negative
    solutions become 0: an infinite strength. Cost: linear in the raters, some ten times.

    Examples
    --------
    >>> prior = beta_prior([9, 8, 10, 3, 9], [10, 10, 10, 10, 10])
    >>> round(prior.mean, 4), round(prior.strength, 4)
    (0.78, 1.5809)
    """
    n = np.asarray(trials, dtype=np.float64)
    x = np.asarray(successes, dtype=np.float64)[n > 0]
    n = n[n > 0]
    if not len(n):
        return BetaPrior(np.nan, np.nan)
    p = x / n
    rho, mean = -1.0, float(x.sum() / n.sum())
    if len(n) < 2:
        return BetaPrior(mean, np.nan)
    weights = n
    for _ in range(_MOST_STEPS):
        total = weights.sum()
        mean = float((weights * p).sum() / total)
        apart = weights * (1 - weights / total)
        within, between = float((apart / n).sum()), float(apart.sum())
        chance = mean * (1 - mean)
        spread = float((weights * (p - mean) ** 2).sum())
        if between - within <= 1e-12 * between:
            return BetaPrior(mean, np.nan)  # of one trial each, nothing tells spread from chance
        if chance <= 0:
            return BetaPrior(mean, np.inf)
        last, rho = rho, min(max((spread / chance - within) / (between - within), 0.0), 1.0)
        if abs(rho - last) < 1e-12:
            break
        weights = n / (1 + rho * (n - 1))
    return BetaPrior(mean, 1 / rho - 1 if rho > 0 else np.inf)


def shrink(
    successes: npt.ArrayLike, trials: npt.ArrayLike, prior: BetaPrior, *, level: float = 0.95
) -> Shrunk:
    """Shares of raters given what they have in common, with intervals.

    Parameters
    ----------
    successes, trials : array-like, shape (rater,)
        As in :func:`beta_prior`.
    prior : BetaPrior
    level : float
        Of the intervals, in (0, 1).

    Returns
    -------
    Shrunk
        A rater without trials has the mean and the interval of the prior. With infinite strength everybody
        has the common mean, with the Wilson interval of all trials together. NaN where the prior has no
        strength; where the prior has strength 0, the share itself, and its ends are those of a beta
        distribution with the rater's own counts.

    Examples
    --------
    >>> found = shrink([9, 1], [10, 1], BetaPrior(0.75, 4.0))
    >>> found.value
    array([0.85714286, 0.8       ])
    """
    from scipy.stats import beta

    x, n = np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    if np.isnan(prior.strength):
        nothing = np.full(x.shape, np.nan)
        return Shrunk(nothing, nothing, nothing)
    if np.isinf(prior.strength):
        ends = wilson_interval(prior.mean * n.sum(), n.sum(), level)
        return Shrunk(*(np.full(x.shape, float(one)) for one in (prior.mean, *ends)))
    a, b = prior.mean * prior.strength + x, (1 - prior.mean) * prior.strength + n - x
    known = a + b > 0
    value = np.divide(a, a + b, out=np.full(x.shape, np.nan), where=known)
    inner = known & (a > 0) & (b > 0)
    tail = (1 - level) / 2
    out = []
    for share in (tail, 1 - tail):
        end = value.copy()
        end[inner] = beta.ppf(share, a[inner], b[inner])
        out.append(end)
    return Shrunk(value, *out)

"""Intervals: ends from bootstrap replicates, from a standard error, and Wilson's for a proportion.

Replicates stand on the first axis, ``(replicate, ...)``; a replicate in which the statistic is undefined is
NaN, is left out of the ends, and is counted (:func:`undefined_share`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError, listing

__all__ = [
    "TRANSFORMS",
    "Interval",
    "acceleration",
    "bca_interval",
    "delta_interval",
    "normal_quantile",
    "percentile_interval",
    "studentized_interval",
    "undefined_share",
    "wilson_interval",
]

Float = npt.NDArray[np.float64]


class Interval(NamedTuple):
    """The two ends of an interval, each of the shape of the estimate; NaN where there is none."""

    lower: Float
    upper: Float


def undefined_share(replicates: npt.ArrayLike) -> Float:
    """Share of the replicates in which the statistic is undefined.

    Parameters
    ----------
    replicates : array-like, shape (replicate, ...)

    Returns
    -------
    ndarray, shape (...)
        In [0, 1]; NaN without replicates.

    Examples
    --------
    >>> undefined_share([0.2, np.nan, 0.4, 0.3]).item()
    0.25
    """
    values = _replicates(replicates)
    if not len(values):
        return np.full(values.shape[1:], np.nan)
    return np.asarray(np.isnan(values).mean(0))


def percentile_interval(replicates: npt.ArrayLike, level: float = 0.95) -> Interval:
    """Quantiles of the replicates, interpolated linearly between order statistics.

    Parameters
    ----------
    replicates : array-like, shape (replicate, ...)
        NaN where undefined.
    level : float
        Confidence level, in (0, 1).

    Returns
    -------
    Interval
        NaN where no replicate is defined.

    Raises
    ------
    ProtocolError
        A level outside (0, 1).

    Examples
    --------
    >>> percentile_interval(np.arange(101) / 100, level=0.9)
    Interval(lower=array(0.05), upper=array(0.95))
    """
    tail = _tail(level)
    ordered, defined = _ordered(_replicates(replicates))
    return Interval(
        _quantile(ordered, defined, np.full(defined.shape, tail)),
        _quantile(ordered, defined, np.full(defined.shape, 1 - tail)),
    )


def bca_interval(
    estimate: npt.ArrayLike, replicates: npt.ArrayLike, accelerate: npt.ArrayLike = 0.0, level: float = 0.95
) -> Interval:
    r"""Bias-corrected and accelerated interval (Efron 1987).

    Quantiles of the replicates at :math:`\Phi(z_0 + (z_0 + z)/(1 - a (z_0 + z)))`, with :math:`z_0` the
    normal score of the share of replicates below the estimate (ties count half) and a the acceleration.

    Parameters
    ----------
    estimate : array-like, shape (...)
    replicates : array-like, shape (replicate, ...)
        NaN where undefined.
    accelerate : array-like, shape (...)
        From :func:`acceleration`; NaN is read as 0 (a statistic that no item moves).
    level : float
        Confidence level, in (0, 1).

    Returns
    -------
    Interval
        NaN where no replicate is defined, the estimate is NaN, or it lies outside all replicates (no normal
        score exists there).

    Raises
    ------
    ProtocolError
        A level outside (0, 1).

    Examples
    --------
    Without bias and acceleration it is the percentile interval:

    >>> bca_interval(0.5, np.arange(101) / 100, level=0.9)
    Interval(lower=array(0.05), upper=array(0.95))
    """
    from scipy.special import ndtr, ndtri

    tail = _tail(level)
    center = np.asarray(estimate, dtype=np.float64)
    ordered, defined = _ordered(_replicates(replicates))
    a = np.nan_to_num(np.asarray(accelerate, dtype=np.float64), nan=0.0)
    below = (ordered < center).sum(0) + (ordered == center).sum(0) / 2
    some = (defined > 0) & ~np.isnan(center)
    share = np.divide(below, defined, out=np.full(defined.shape, np.nan), where=some)
    inside = some & (share > 0) & (share < 1)
    bias = ndtri(np.where(inside, share, 0.5))
    ends = []
    for z in (ndtri(tail), ndtri(1 - tail)):
        moved = bias + z
        slack = 1 - a * moved
        # beyond the pole of the correction the quantile is the extreme one
        corrected = np.divide(moved, slack, out=np.where(moved > 0, np.inf, -np.inf), where=slack > 0)
        end = _quantile(ordered, defined, ndtr(bias + corrected))
        ends.append(np.where(inside, end, np.nan))
    return Interval(*ends)


def studentized_interval(
    estimate: npt.ArrayLike,
    standard_error: npt.ArrayLike,
    replicates: npt.ArrayLike,
    replicate_errors: npt.ArrayLike,
    level: float = 0.95,
) -> Interval:
    r"""Bootstrap-t interval: quantiles of :math:`(\hat\theta^* - \hat\theta)/\widehat{se}^*`, turned round.

    Parameters
    ----------
    estimate, standard_error : array-like, shape (...)
    replicates, replicate_errors : array-like, shape (replicate, ...)
        The statistic and its standard error in each resample. A replicate without a positive standard error
        is undefined here, even where its value is not.
    level : float
        Confidence level, in (0, 1).

    Returns
    -------
    Interval
        Ends may lie outside the range of the statistic. NaN where no replicate is defined or the estimate
        or its standard error is NaN.

    Raises
    ------
    ProtocolError
        A level outside (0, 1).

    Examples
    --------
    >>> errors = np.full(101, 0.1)
    >>> interval = studentized_interval(0.5, 0.2, 0.5 + np.linspace(-1, 1, 101) / 10, errors, level=0.9)
    >>> interval.lower.round(4).item(), interval.upper.round(4).item()
    (0.32, 0.68)
    """
    tail = _tail(level)
    center = np.asarray(estimate, dtype=np.float64)
    scale = np.asarray(standard_error, dtype=np.float64)
    values, errors = _replicates(replicates), _replicates(replicate_errors)
    t = np.full(np.broadcast_shapes(values.shape, errors.shape), np.nan)
    np.divide(values - center, errors, out=t, where=errors > 0)
    ordered, defined = _ordered(t)
    low, high = (_quantile(ordered, defined, np.full(defined.shape, q)) for q in (1 - tail, tail))
    return Interval(np.asarray(center - low * scale), np.asarray(center - high * scale))


def acceleration(influence: npt.ArrayLike, weights: npt.ArrayLike | None = None, axis: int = -1) -> Float:
    r"""Acceleration of the BCa interval, :math:`\sum \psi_i^3 / [6 (\sum \psi_i^2)^{3/2}]`.

    Parameters
    ----------
    influence : array-like
        Influence of each sampling unit; or, for the jackknife form, the values with each unit left out,
        subtracted from their mean.
    weights : array-like, optional
        Multiplicities of the units.
    axis : int
        Axis of the units.

    Returns
    -------
    ndarray
        NaN where no unit has an influence.

    Examples
    --------
    >>> acceleration([0.2, -0.1, -0.1]).round(4).item()
    0.068
    """
    psi = np.asarray(influence, dtype=np.float64)
    w = np.ones(1) if weights is None else np.asarray(weights, dtype=np.float64)
    second = np.asarray((w * psi**2).sum(axis))
    third = np.asarray((w * psi**3).sum(axis))
    out = np.full(second.shape, np.nan)
    np.divide(third, 6 * second**1.5, out=out, where=second > 0)
    return out


TRANSFORMS: Final = ("identity", "fisher", "logit", "complement", "log")
"""Scales of :func:`delta_interval`."""


def delta_interval(
    estimate: npt.ArrayLike,
    standard_error: npt.ArrayLike,
    level: float = 0.95,
    *,
    transform: str = "identity",
    degrees: npt.ArrayLike | None = None,
) -> Interval:
    r"""Interval from a standard error, on the scale itself or on one without limits.

    The ends are :math:`g^{-1}(g(\hat\theta) \pm z\, g'(\hat\theta) \widehat{se})`, so they stay within the
    limits of the transformation.

    Parameters
    ----------
    estimate, standard_error : array-like, shape (...)
    level : float
        Confidence level, in (0, 1).
    transform : {"identity", "fisher", "logit", "complement", "log"}
        ``"fisher"`` is the inverse hyperbolic tangent, for statistics in (-1, 1); ``"logit"`` for (0, 1);
        ``"complement"`` is :math:`-\log(1 - x)`, for coefficients that are at most 1 without a lower limit;
        ``"log"`` for positive numbers.
    degrees : array-like, optional
        Degrees of freedom; the t quantile in place of the normal one.

    Returns
    -------
    Interval
        At a limit of the transformation, where g is infinite, the estimate alone if its standard error is
        0 and NaN otherwise. NaN where the estimate or the standard error is, or degrees are below 1.

    Raises
    ------
    ProtocolError
        A level outside (0, 1), an unknown transformation.

    Examples
    --------
    >>> interval = delta_interval(0.9, 0.08, transform="complement")
    >>> interval.lower.round(3).item(), interval.upper.round(3).item()
    (0.52, 0.979)
    """
    center = np.asarray(estimate, dtype=np.float64)
    se = np.asarray(standard_error, dtype=np.float64)
    half = normal_quantile(level, degrees) * se
    if transform == "identity":
        return Interval(np.asarray(center - half), np.asarray(center + half))
    if transform not in TRANSFORMS:
        raise ProtocolError(f"`transform` must be one of {listing(TRANSFORMS, most=5)}; got {transform!r}.")
    low = {"fisher": -1.0, "logit": 0.0, "complement": -np.inf, "log": 0.0}[transform]
    inside = (center > low) & (center < (np.inf if transform == "log" else 1.0))
    x = np.where(inside, center, 0.5)
    if transform == "fisher":
        middle, slope = np.arctanh(x), 1 / (1 - x * x)
    elif transform == "logit":
        middle, slope = np.log(x) - np.log1p(-x), 1 / (x * (1 - x))
    elif transform == "log":
        middle, slope = np.log(x), 1 / x
    else:
        middle, slope = -np.log1p(-x), 1 / (1 - x)
    alone = np.where((half == 0) & ~np.isnan(center), center, np.nan)
    ends = []
    for end in (middle - slope * half, middle + slope * half):
        if transform == "fisher":
            back = np.tanh(end)
        elif transform == "logit":
            back = (1 + np.tanh(end / 2)) / 2
        else:
            with np.errstate(over="ignore"):  # an infinite end is what it says
                back = np.exp(end) if transform == "log" else -np.expm1(-end)
        ends.append(np.where(inside, back, alone))
    return Interval(*ends)


def wilson_interval(successes: npt.ArrayLike, n: npt.ArrayLike, level: float = 0.95) -> Interval:
    """Wilson's score interval for a proportion.

    Parameters
    ----------
    successes, n : array-like, shape (...)
        Numbers of successes and of trials; not necessarily integers (an effective number of trials).
    level : float
        Confidence level, in (0, 1).

    Returns
    -------
    Interval
        In [0, 1]; NaN without trials.

    Raises
    ------
    ProtocolError
        A level outside (0, 1); more successes than trials, or fewer than 0.

    References
    ----------
    .. [1] E. B. Wilson, "Probable inference, the law of succession, and statistical inference", 1927.

    Examples
    --------
    >>> interval = wilson_interval(9, 10)
    >>> interval.lower.round(4).item(), interval.upper.round(4).item()
    (0.5958, 0.9821)
    """
    z = float(normal_quantile(level))
    k, total = np.broadcast_arrays(np.asarray(successes, dtype=np.float64), np.asarray(n, dtype=np.float64))
    if ((k < 0) | (k > total)).any():
        raise ProtocolError("`successes` must lie between 0 and `n`.")
    some = total > 0
    safe = np.where(some, total, 1.0)
    share = k / safe
    middle = share + z * z / (2 * safe)
    half = z * np.sqrt(share * (1 - share) / safe + (z / (2 * safe)) ** 2)
    scale = 1 + z * z / safe
    lower = np.where(k == 0, 0.0, (middle - half) / scale)
    upper = np.where(k == total, 1.0, (middle + half) / scale)
    return Interval(np.where(some, lower, np.nan), np.where(some, upper, np.nan))


def _tail(level: float) -> float:
    if not 0 < level < 1:
        raise ProtocolError(f"`level` must lie between 0 and 1; got {level!r}.")
    return (1 - level) / 2


def normal_quantile(level: float, degrees: npt.ArrayLike | None = None) -> Float:
    """Two-sided normal quantile at a level; of t where there are degrees of freedom, NaN below 1."""
    from scipy.special import ndtri, stdtrit

    tail = _tail(level)
    if degrees is None:
        return np.asarray(ndtri(1 - tail), dtype=np.float64)
    df = np.asarray(degrees, dtype=np.float64)
    return np.where(df >= 1, stdtrit(np.where(df >= 1, df, 1.0), 1 - tail), np.nan)


def _replicates(values: npt.ArrayLike) -> Float:
    replicates = np.asarray(values, dtype=np.float64)
    if replicates.ndim < 1:
        raise ProtocolError("Replicates stand on the first axis; got a single number.")
    return replicates


def _ordered(replicates: Float) -> tuple[Float, npt.NDArray[np.int64]]:
    """Replicates in increasing order, undefined ones last, and how many are defined."""
    return np.sort(replicates, axis=0), (~np.isnan(replicates)).sum(0, dtype=np.int64)


def _quantile(ordered: Float, defined: npt.NDArray[np.int64], q: Float) -> Float:
    """Linear interpolation between order statistics, with a q of its own for every column."""
    if not len(ordered):
        return np.full(defined.shape, np.nan)
    position = q * np.maximum(defined - 1, 0)
    below = np.floor(position).astype(np.intp)
    above = np.minimum(below + 1, np.maximum(defined - 1, 0))
    low = np.take_along_axis(ordered, below[None], axis=0)[0]
    high = np.take_along_axis(ordered, above[None], axis=0)[0]
    return np.asarray(low + (high - low) * (position - below))

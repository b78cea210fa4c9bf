"""Intervals for a value that data pin down only to a range: Imbens and Manski's, as Stoye states it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError
from xjudge.statistics.resample import Interval

__all__ = ["critical_value", "identified_interval"]

Floats = npt.NDArray[np.float64]

_HALVINGS = 60


def critical_value(width: npt.ArrayLike, level: float = 0.95) -> Floats:
    r"""Return the number of standard errors beyond the ends of a range that cover every value in it.

    Parameters
    ----------
    width : array-like
        Width of the range in standard errors, 0 to infinity; NaN gives NaN.
    level : float
        Confidence level in (0, 1).

    Returns
    -------
    ndarray, same shape
        The solution c of :math:`\Phi(c + w) - \Phi(-c) = \gamma`: the two-sided normal quantile at width 0
        (1.960 at level .95), falling to the one-sided one (1.645).

    Raises
    ------
    ProtocolError
        A level outside (0, 1).

    Examples
    --------
    >>> critical_value([0, 1, float("inf")]).round(3).tolist()
    [1.96, 1.681, 1.645]
    """
    from scipy.special import ndtr, ndtri

    if not 0 < level < 1:
        raise ProtocolError(f"`level` must lie between 0 and 1; got {level!r}.")
    w = np.asarray(width, dtype=np.float64)
    low, high = np.full(w.shape, ndtri(level)), np.full(w.shape, ndtri((1 + level) / 2))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        short = ndtr(middle + w) - ndtr(-middle) < level
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    return np.where(np.isnan(w), np.nan, high)


def identified_interval(
    lower: npt.ArrayLike,
    upper: npt.ArrayLike,
    se_lower: npt.ArrayLike,
    se_upper: npt.ArrayLike,
    level: float = 0.95,
) -> Interval:
    r"""Interval that covers the value itself, wherever in its identification range it lies.

    Parameters
    ----------
    lower, upper : array-like
        Estimated ends of the range.
    se_lower, se_upper : array-like
        Their standard errors.
    level : float
        Confidence level in (0, 1).

    Returns
    -------
    Interval
        ``lower - c se_lower`` and ``upper + c se_upper`` with ``c`` of :func:`critical_value` at the width in
        units of the larger standard error. NaN where anything is NaN and where both errors are 0, so that
        there is nothing to go on.

    Raises
    ------
    ProtocolError
        A level outside (0, 1).

    Notes
    -----
    Imbens and Manski (2004), Econometrica 72, 1845-1857, equation 7; Stoye (2009), Econometrica 77,
    1299-1315: valid because the ends cannot cross (the upper is nowhere below the lower). It is shorter than
    an interval for the whole range: the value cannot be beyond both ends.

    Examples
    --------
    >>> found = identified_interval(0.5, 0.7, 0.02, 0.02)
    >>> found.lower.round(3).item(), found.upper.round(3).item()
    (0.467, 0.733)
    """
    low, high, below, above = np.broadcast_arrays(
        *(np.asarray(x, dtype=np.float64) for x in (lower, upper, se_lower, se_upper))
    )
    largest = np.maximum(below, above)
    known = largest > 0
    width = np.divide(np.maximum(high - low, 0.0), largest, out=np.full(low.shape, np.nan), where=known)
    c = critical_value(width, level)
    return Interval(low - c * below, high + c * above)

"""Prediction-powered estimates of a positive rate, and what all such estimates have in common.

Everything is a function of counts: of the labelled pairs ``(..., 2, 2)`` (rows human, columns judge, both
ordered negative, positive) and of the judge's verdicts on unlabelled cases ``(..., 2)``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError, Reason
from xjudge.statistics._adjust_moments import (
    best_tuning,
    counts,
    imputed,
    middle_and_spread,
    moments,
    quantile,
    ratio,
)

__all__ = ["Prevalence", "finished", "labelled_only", "ppi", "ppi_plus_plus"]

Float = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int8]


class Prevalence(NamedTuple):
    """An estimated positive rate; arrays of shape (...).

    Parameters
    ----------
    estimate : ndarray
        In [0, 1]; NaN where ``reason`` says so.
    standard_error : ndarray
    lower, upper : ndarray
        Confidence interval, in [0, 1].
    unclipped : ndarray
        The estimate as the formula gives it, which may lie outside [0, 1].
    clipped : ndarray of bool
        Whether it does.
    hurts : ndarray of bool
        Whether the interval is wider than the one from the labelled cases alone: the correction costs more
        than the judge's verdicts bring.
    tuning : ndarray
        The weight lambda of the judge's verdicts, NaN where the method has none.
    reason : ndarray of int8
        Members of :class:`xjudge.errors.Reason`.
    """

    estimate: Float
    standard_error: Float
    lower: Float
    upper: Float
    unclipped: Float
    clipped: npt.NDArray[np.bool_]
    hurts: npt.NDArray[np.bool_]
    tuning: Float
    reason: Codes


def labelled_only(labelled: npt.ArrayLike, *, level: float = 0.95) -> Prevalence:
    """Positive rate of the labelled cases: what one has without the judge.

    Parameters
    ----------
    labelled : array-like of int, shape (..., 2, 2)
        Counts of labelled pairs; rows human, columns judge, both ordered negative, positive.
    level : float
        Confidence level, in (0, 1).

    Returns
    -------
    Prevalence
        The interval is the one of :func:`ppi_plus_plus` at lambda 0, with which the others are compared.

    Examples
    --------
    >>> found = labelled_only([[50, 10], [10, 30]])
    >>> float(found.estimate), float(found.standard_error.round(4))
    (0.4, 0.0492)
    """
    table, _ = counts(labelled, None)
    return _powered(table, np.zeros((*table.shape[:-2], 2)), np.zeros(table.shape[:-2]), level)


def ppi(labelled: npt.ArrayLike, unlabelled: npt.ArrayLike, *, level: float = 0.95) -> Prevalence:
    r"""Prediction-powered estimate: judge's rate on unlabelled cases plus the mean error on labelled ones.

    :math:`\hat\theta = \bar j_N + \overline{(h - j)}_n`, unbiased whatever the judge does.

    Parameters
    ----------
    labelled : array-like of int, shape (..., 2, 2)
        Counts of labelled pairs; rows human, columns judge, both ordered negative, positive.
    unlabelled : array-like of int, shape (..., 2)
        The judge's verdicts on unlabelled cases: negative, positive.
    level : float
        Confidence level, in (0, 1).

    Returns
    -------
    Prevalence
        As :func:`ppi_plus_plus` with lambda 1.

    References
    ----------
    .. [1] A. N. Angelopoulos et al., "Prediction-powered inference", Science, 2023.

    Examples
    --------
    >>> found = ppi([[54, 6], [4, 36]], [580, 320])
    >>> float(found.estimate.round(4)), float(found.standard_error.round(4))
    (0.3356, 0.0355)
    """
    table, rest = counts(labelled, unlabelled)
    return _powered(table, rest, np.ones(table.shape[:-2]), level)


def ppi_plus_plus(
    labelled: npt.ArrayLike,
    unlabelled: npt.ArrayLike,
    *,
    level: float = 0.95,
    tuning: npt.ArrayLike | None = None,
) -> Prevalence:
    r"""Prediction-powered estimate that gives the judge's verdicts the weight they deserve.

    :math:`\hat\theta = \lambda \bar j_N + \overline{(h - \lambda j)}_n`: the labelled rate at
    :math:`\lambda = 0`, :func:`ppi` at 1.

    Parameters
    ----------
    labelled : array-like of int, shape (..., 2, 2)
        Counts of labelled pairs; rows human, columns judge, both ordered negative, positive.
    unlabelled : array-like of int, shape (..., 2)
        The judge's verdicts on unlabelled cases: negative, positive.
    level : float
        Confidence level, in (0, 1).
    tuning : array-like, optional
        Lambda in [0, 1]; by default the one that minimises the variance.

    Returns
    -------
    Prevalence
        Standard error :math:`\sqrt{\lambda^2 v_j / N + \mathrm{Var}(h - \lambda j) / n}`, with n - 1 in the
        variances. The interval is normal, with half a pseudo-pair in each labelled cell, which shifts its
        middle and keeps it from collapsing where a judge makes few errors on few labels.

    Raises
    ------
    ProtocolError
        A lambda outside [0, 1].

    Notes
    -----
    The default is :math:`\lambda = \mathrm{Cov}(h, j) / ((1 + n / N) \mathrm{Var}(j))`, cut to [0, 1], with
    the covariance of the labelled pairs and the variance of all verdicts; 0 for a judge that never varies or
    without unlabelled verdicts.

    References
    ----------
    .. [1] A. N. Angelopoulos, J. C. Duchi and T. Zrnic, "PPI++: Efficient prediction-powered
       inference", 2023.

    Examples
    --------
    >>> found = ppi_plus_plus([[54, 6], [4, 36]], [580, 320])
    >>> float(found.estimate.round(4)), float(found.tuning.round(3)), bool(found.hurts)
    (0.3518, 0.748, False)
    """
    table, rest = counts(labelled, unlabelled)
    if tuning is None:
        weight = best_tuning(table, rest)
    else:
        weight = np.broadcast_to(np.asarray(tuning, dtype=np.float64), table.shape[:-2])
        if not ((weight >= 0) & (weight <= 1)).all():
            raise ProtocolError(f"`tuning` (lambda) lies in [0, 1]; got {tuning!r}.")
    return _powered(table, rest, weight, level)


# ---------------------------------------------------------------------------------------------------- helpers


def _powered(table: Float, rest: Float, weight: Float, level: float) -> Prevalence:
    """The prediction-powered estimate at a given lambda."""
    z = quantile(level)
    n = table.sum((-2, -1))
    reason = np.select(
        [n == 0, n < 2, (rest.sum(-1) == 0) & (weight > 0)],
        [Reason.NO_LABELLED_CASE, Reason.FEW_LABELLED_CASES, Reason.NO_UNLABELLED_VERDICT],
        Reason.OK,
    )
    fine = reason == Reason.OK
    mean, variance = moments(table, weight)
    part, noise = imputed(rest, weight)
    raw = np.where(fine, part + mean, np.nan)
    se = np.where(fine, np.sqrt(noise + ratio(variance, n - 1)), np.nan)
    middle, spread = middle_and_spread(table, rest, weight)
    lower = np.where(fine, np.clip(middle - z * spread, 0, 1), np.nan)
    upper = np.where(fine, np.clip(middle + z * spread, 0, 1), np.nan)
    return finished(table, raw, se, lower, upper, weight, reason, level)


def finished(
    table: Float,
    raw: Float,
    se: Float,
    lower: Float,
    upper: Float,
    weight: Float,
    reason: npt.NDArray[np.integer],
    level: float,
) -> Prevalence:
    """Cut to [0, 1], and compare the interval with that of the labelled cases alone."""
    none = np.zeros(table.shape[:-2])
    middle, spread = middle_and_spread(table, np.zeros((*none.shape, 2)), none)
    z = quantile(level)
    own = np.clip(middle + z * spread, 0, 1) - np.clip(middle - z * spread, 0, 1)
    clipped = (raw < 0) | (raw > 1)
    hurts = (upper - lower) > own * (1 + 1e-12)
    return Prevalence(
        np.clip(raw, 0, 1), se, lower, upper, raw, clipped, hurts, np.asarray(weight), reason.astype(np.int8)
    )

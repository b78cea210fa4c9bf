"""The positive rate of all cases from a labelled sample and the judge's verdicts on the rest.

Everything is a function of counts: of the labelled pairs ``(..., 2, 2)`` (rows human, columns judge, both
ordered negative, positive) and of the judge's verdicts on unlabelled cases ``(..., 2)``.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError, Reason, StructureError
from xjudge.statistics._adjust_moments import (
    best_tuning,
    check_level,
    counts,
    fieller,
    imputed,
    lang_reiczigel,
    middle_and_spread,
    moments,
    quantile,
    ratio,
    variance_of_ratio,
)
from xjudge.statistics.resample import wilson_interval

__all__ = [
    "Prevalence",
    "labelled_only",
    "naive",
    "ppi",
    "ppi_plus_plus",
    "rogan_gladen",
    "stratified",
]

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


def naive(labelled: npt.ArrayLike | None, unlabelled: npt.ArrayLike, *, level: float = 0.95) -> Prevalence:
    """Positive rate of the judge's verdicts, uncorrected: biased unless errors cancel.

    Parameters
    ----------
    labelled : array-like of int, shape (..., 2, 2), optional
        Counts of labelled pairs; their verdicts count too.
    unlabelled : array-like of int, shape (..., 2)
        The judge's verdicts on unlabelled cases: negative, positive.
    level : float
        Confidence level, in (0, 1).

    Returns
    -------
    Prevalence
        With Wilson's interval, which is about the judge's own rate; it never ``hurts``, it misleads.

    Examples
    --------
    >>> float(naive([[50, 10], [10, 30]], [580, 320]).estimate)
    0.36
    """
    check_level(level)
    table, rest = counts(labelled, unlabelled)
    verdicts = table.sum(-2) + rest
    total = verdicts.sum(-1)
    value = ratio(verdicts[..., 1], total)
    interval = wilson_interval(verdicts[..., 1], total, level)
    reason = np.where(total > 0, Reason.OK, Reason.NO_UNLABELLED_VERDICT)
    no = np.zeros(value.shape, dtype=bool)
    se = np.sqrt(ratio(value * (1 - value), total))
    nothing = np.full(value.shape, np.nan)
    return Prevalence(
        value, se, interval.lower, interval.upper, value, no, no, nothing, reason.astype(np.int8)
    )


def rogan_gladen(
    labelled: npt.ArrayLike,
    unlabelled: npt.ArrayLike,
    *,
    level: float = 0.95,
    interval: Literal["fieller", "lang_reiczigel"] = "fieller",
) -> Prevalence:
    r"""Judge's positive rate corrected by its sensitivity and specificity.

    :math:`\hat\theta = (q + c - 1) / (s + c - 1)` with the judge's positive rate q on unlabelled cases and
    its sensitivity s and specificity c on the labelled ones.

    Parameters
    ----------
    labelled : array-like of int, shape (..., 2, 2)
        Counts of labelled pairs; rows human, columns judge, both ordered negative, positive.
    unlabelled : array-like of int, shape (..., 2)
        The judge's verdicts on unlabelled cases: negative, positive.
    level : float
        Confidence level, in (0, 1).
    interval : {"fieller", "lang_reiczigel"}
        All values that a test does not reject, or a shifted normal interval.

    Returns
    -------
    Prevalence
        The standard error is the delta method's, :math:`\sqrt{q(1-q)/N + \theta^2 s(1-s)/n_1 +
        (1-\theta)^2 c(1-c)/n_0} / (s + c - 1)`.

    Raises
    ------
    ProtocolError
        Another interval.

    Notes
    -----
    Fieller's interval is the values :math:`\theta` with :math:`|q + c - 1 - \theta (s + c - 1)|` at most z of
    its standard errors, with half a pseudo-pair in each cell; all of [0, 1] where s + c is not clearly above
    1. That of Lang and Reiczigel, with other pseudo-counts and a shift, covers too much for weak judges
    (98 % at s = c = .7, a rate of .1 and 200 labels).

    Lee et al. bring this correction to judges. The labelled cases' own positive rate is not used, so it is
    the method for labelled cases that were chosen with an eye on the human's label. Undefined without
    labelled cases of both categories, and where s + c - 1 is not positive.

    References
    ----------
    .. [1] W. J. Rogan and B. Gladen, "Estimating prevalence from the results of a screening test", 1978.
    .. [2] Z. Lang and J. Reiczigel, "Confidence limits for prevalence of disease adjusted for estimated
       sensitivity and specificity", 2014.
    .. [3] C. Lee et al., "How to correctly report LLM-as-a-judge evaluations", 2026.

    Examples
    --------
    >>> found = rogan_gladen([[54, 6], [4, 36]], [580, 320])
    >>> float(found.estimate.round(4)), bool(found.hurts)
    (0.3194, False)
    """
    z = quantile(level)
    if interval not in ("fieller", "lang_reiczigel"):
        raise ProtocolError(f"`interval` is 'fieller' or 'lang_reiczigel'; got {interval!r}.")
    table, rest = counts(labelled, unlabelled)
    human, total = table.sum(-1), rest.sum(-1)
    rates = ratio(table[..., [0, 1], [0, 1]], human)  # specificity, sensitivity
    rate = ratio(rest[..., 1], total)
    power = rates.sum(-1) - 1
    reason = np.select(
        [table.sum((-2, -1)) == 0, total == 0, human[..., 1] == 0, human[..., 0] == 0, ~(power > 0)],
        [
            Reason.NO_LABELLED_CASE,
            Reason.NO_UNLABELLED_VERDICT,
            Reason.NO_LABELLED_POSITIVE,
            Reason.NO_LABELLED_NEGATIVE,
            Reason.UNINFORMATIVE_JUDGE,
        ],
        Reason.OK,
    )
    fine = reason == Reason.OK
    safe = np.where(fine, power, np.nan)
    raw = (rate + rates[..., 0] - 1) / safe
    se = np.sqrt(variance_of_ratio(rate, total, rates, human, raw)) / safe
    lower, upper = (fieller if interval == "fieller" else lang_reiczigel)(table, rest, z)
    lower, upper = np.where(fine, lower, np.nan), np.where(fine, upper, np.nan)
    return _finished(table, raw, se, lower, upper, np.full(raw.shape, np.nan), reason, level)


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


def stratified(
    labelled: npt.ArrayLike,
    unlabelled: npt.ArrayLike,
    *,
    level: float = 0.95,
    tuning: npt.ArrayLike | None = None,
) -> Prevalence:
    r"""Prediction-powered estimate within strata, joined by the strata's shares of all cases.

    Parameters
    ----------
    labelled : array-like of int, shape (..., S, 2, 2)
        Counts of labelled pairs per stratum; rows human, columns judge.
    unlabelled : array-like of int, shape (..., S, 2)
        The judge's verdicts on unlabelled cases per stratum.
    level : float
        Confidence level, in (0, 1).
    tuning : array-like, shape (..., S), optional
        Lambda per stratum; by default each stratum's own best.

    Returns
    -------
    Prevalence
        Shapes (...), ``tuning`` (..., S). A stratum with cases and fewer than two labelled ones leaves the
        estimate undefined; a stratum without cases counts nothing. ``hurts`` compares with the labelled cases
        taken within the same strata.

    Notes
    -----
    :math:`\hat\theta = \sum_s W_s \hat\theta_s` with :math:`W_s` the stratum's share of labelled and
    unlabelled cases, taken as known; labelling may be denser in some strata than in others, at random
    within each.

    References
    ----------
    .. [1] A. Fisch et al., "Stratified prediction-powered inference for hybrid language model evaluation",
       2024.

    Examples
    --------
    >>> found = stratified([[[40, 2], [2, 6]], [[8, 2], [3, 37]]], [[400, 100], [100, 400]])
    >>> float(found.estimate.round(3)), float(found.standard_error.round(4))
    (0.497, 0.029)
    """
    table, rest = counts(labelled, unlabelled)
    if table.ndim < 3:
        raise StructureError(f"Strata stand on an axis before the tables, (..., S, 2, 2); got {table.shape}.")
    size = table.sum((-2, -1)) + rest.sum(-1)
    weight = ratio(size, size.sum(-1)[..., None])
    share = np.where(size > 0, weight, 0.0)
    each = ppi_plus_plus(table, rest, level=level, tuning=tuning)
    alone = labelled_only(table, level=level)

    def joined(values: Float) -> Float:
        return np.asarray(np.where(size > 0, share * values, 0.0).sum(-1))

    def half(found: Prevalence) -> tuple[Float, Float]:
        middle, spread = middle_and_spread(table, rest, found.tuning)
        return joined(middle), np.sqrt(np.where(size > 0, (share * spread) ** 2, 0.0).sum(-1))

    raw = joined(each.unclipped)
    se = np.sqrt(np.where(size > 0, (share * each.standard_error) ** 2, 0.0).sum(-1))
    z = quantile(level)
    middle, spread = half(each)
    lacking = ((size > 0) & (table.sum((-2, -1)) < 2)).any(-1)
    reason = np.select(
        [table.sum((-3, -2, -1)) == 0, lacking],
        [Reason.NO_LABELLED_CASE, Reason.STRATUM_WITHOUT_LABELS],
        Reason.OK,
    )
    fine = reason == Reason.OK
    ends = [np.where(fine, np.clip(middle + sign * z * spread, 0, 1), np.nan) for sign in (-1, 1)]
    raw, se = np.where(fine, raw, np.nan), np.where(fine, se, np.nan)
    _, own = half(alone)
    return Prevalence(
        np.clip(raw, 0, 1),
        se,
        ends[0],
        ends[1],
        raw,
        (raw < 0) | (raw > 1),
        fine & (spread > own * (1 + 1e-12)),
        each.tuning,
        reason.astype(np.int8),
    )


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
    return _finished(table, raw, se, lower, upper, weight, reason, level)


def _finished(
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

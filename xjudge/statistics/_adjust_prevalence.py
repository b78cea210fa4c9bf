"""The positive rate of all cases by other routes: uncorrected, by sensitivity and specificity, by strata.

Everything is a function of counts: of the labelled pairs ``(..., 2, 2)`` (rows human, columns judge, both
ordered negative, positive) and of the judge's verdicts on unlabelled cases ``(..., 2)``.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError, Reason, StructureError
from xjudge.statistics._adjust_moments import (
    check_level,
    counts,
    fieller,
    lang_reiczigel,
    middle_and_spread,
    quantile,
    ratio,
    variance_of_ratio,
)
from xjudge.statistics._adjust_powered import Prevalence, finished, labelled_only, ppi_plus_plus
from xjudge.statistics.resample import wilson_interval

__all__ = ["naive", "rogan_gladen", "stratified"]

Float = npt.NDArray[np.float64]


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
    (97 % at s = c = .7, a rate of .1 and 200 labels).

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
    return finished(table, raw, se, lower, upper, np.full(raw.shape, np.nan), reason, level)


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

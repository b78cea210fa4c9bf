"""Agreement of two raters in numbers: correlations, concordance, errors, limits of agreement.

The same statistics from three kinds of input:

* count tables ``(..., L, L)`` (rows reference, columns rater) with a number for each category: the functions
  by name, :func:`evaluate_scores` and :func:`score_gradient`;
* additive moments of real-valued pairs, which merge over parts of the data: :func:`moments_of_pairs`,
  :func:`merge_moments`, :func:`evaluate_moments`, :func:`moment_gradient`; all but the rank correlations;
* held pairs of numbers, with multiplicities or resampling weights: :class:`HeldPairs`.

Rank correlations depend on the order of the numbers alone. On two categories Pearson, Spearman and Kendall
are one number, phi. The error of a rater is the rater's number less the reference's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError, StructureError, listing
from xjudge.statistics._pair_held import HeldPairs
from xjudge.statistics._pair_moments import (
    LIMIT_FACTOR,
    N_FEATURES,
    OF_MOMENTS,
    PairMoments,
    evaluate_moments,
    merge_moments,
    moment_gradient,
    moments_of_pairs,
    near,
    pair_features,
    shift_matrix,
    table_gradient,
    table_moments,
)
from xjudge.statistics._pair_ranks import OF_RANKS, evaluate_ranks, rank_gradient
from xjudge.statistics.coefficients import Evaluated

__all__ = [
    "LIMIT_FACTOR",
    "N_FEATURES",
    "OF_MOMENTS",
    "OF_RANKS",
    "SCORE_STATISTICS",
    "HeldPairs",
    "PairMoments",
    "ScoreStatistic",
    "concordance",
    "evaluate_moments",
    "evaluate_scores",
    "kendall_tau_b",
    "limits_of_agreement",
    "mean_absolute_error",
    "mean_error",
    "merge_moments",
    "moment_gradient",
    "moments_of_pairs",
    "near",
    "pair_features",
    "pearson",
    "rmse",
    "score_gradient",
    "shift_matrix",
    "spearman",
]

Float = npt.NDArray[np.float64]
Scores = npt.ArrayLike | None


@dataclass(frozen=True)
class ScoreStatistic:
    """What the labelled rooms need to know of a statistic of numbers.

    Parameters
    ----------
    name : str
    ranks : bool
        Whether it is a function of ranks, and so needs the pairs (or their table) and not their moments.
    least : float
        The least value it can take.
    """

    name: str
    ranks: bool = False
    least: float = -np.inf


SCORE_STATISTICS: Final[dict[str, ScoreStatistic]] = {
    s.name: s
    for s in (
        ScoreStatistic("pearson", least=-1.0),
        ScoreStatistic("spearman", ranks=True, least=-1.0),
        ScoreStatistic("kendall_tau_b", ranks=True, least=-1.0),
        ScoreStatistic("concordance", least=-1.0),
        ScoreStatistic("mean_error"),
        ScoreStatistic("mean_absolute_error", least=0.0),
        ScoreStatistic("rmse", least=0.0),
        ScoreStatistic("lower_limit_of_agreement"),
        ScoreStatistic("upper_limit_of_agreement"),
    )
}
"""The statistics of two raters in numbers, by name."""


# ------------------------------------------------------------------------------------------------- the tables


def evaluate_scores(name: str, table: npt.ArrayLike, scores: Scores = None) -> Evaluated:
    """Evaluate a statistic of numbers on count tables, with the reason where it is undefined.

    Parameters
    ----------
    name : str
        A key of :data:`SCORE_STATISTICS`.
    table : array-like, shape (..., L, L)
        Counts; rows reference, columns rater.
    scores : array-like of float, shape (L,), optional
        The number each category stands for, in increasing order; by default the positions ``0 .. L-1``.

    Returns
    -------
    value : ndarray, shape (...)
    reason : ndarray of int8, shape (...)
        Members of :class:`xjudge.errors.Reason`.

    Raises
    ------
    ProtocolError
        An unknown name; scores that are not one finite number for each category, increasing.
    StructureError
        A table that is not square, or has negative or non-finite counts.

    Examples
    --------
    >>> evaluate_scores("mean_error", [[1, 3], [0, 4]]).value.item()
    0.375
    """
    counts, numbers = _checked(name, table, scores)
    if name in OF_RANKS:
        return Evaluated(*evaluate_ranks(name, counts))
    return Evaluated(*evaluate_moments(name, table_moments(counts, numbers)))


def score_gradient(name: str, table: npt.ArrayLike, scores: Scores = None) -> Float:
    """Gradient of a statistic of numbers by each count of the table.

    Parameters
    ----------
    name, table, scores
        As :func:`evaluate_scores`.

    Returns
    -------
    ndarray, shape (..., L, L)
        NaN where the statistic is undefined. Orthogonal to the counts, so the influence of an item with
        counts c is ``sum_ab c_ab dT/dn_ab``, and the delta-method variance ``sum_ab n_ab (dT/dn_ab)^2``.

    Raises
    ------
    ProtocolError, StructureError
        As :func:`evaluate_scores`.

    Examples
    --------
    >>> score_gradient("mean_error", [[1, 3], [0, 4]])
    array([[-0.046875,  0.078125],
           [-0.171875, -0.046875]])
    """
    counts, numbers = _checked(name, table, scores)
    if name in OF_RANKS:
        return rank_gradient(name, counts)
    moments = table_moments(counts, numbers)
    return table_gradient(moment_gradient(name, moments), numbers, moments.shift)


def pearson(table: npt.ArrayLike, scores: Scores = None) -> Float:
    r"""Pearson's correlation, :math:`s_{xy} / \sqrt{s_{xx} s_{yy}}`.

    Parameters
    ----------
    table : array-like, shape (..., L, L)
        Counts; rows reference, columns rater.
    scores : array-like of float, shape (L,), optional
        The number each category stands for, increasing; by default the positions.

    Returns
    -------
    ndarray, shape (...)
        In [-1, 1]; NaN where a side is constant. Phi on two categories.

    Raises
    ------
    ProtocolError, StructureError
        As :func:`evaluate_scores`.

    Examples
    --------
    >>> pearson([[2, 1, 0], [0, 2, 0], [0, 1, 2]]).round(4).item()
    0.8165
    """
    return evaluate_scores("pearson", table, scores).value


def spearman(table: npt.ArrayLike) -> Float:
    """Spearman's rank correlation: Pearson's of the mid-ranks.

    Parameters
    ----------
    table : array-like, shape (..., L, L)
        Counts; rows reference, columns rater; categories in increasing order.

    Returns
    -------
    ndarray, shape (...)
        In [-1, 1]; NaN where a side is constant. Phi on two categories.

    Raises
    ------
    StructureError
        As :func:`evaluate_scores`.

    Examples
    --------
    >>> spearman([[2, 1, 0], [0, 2, 0], [0, 1, 2]]).round(4).item()
    0.8165
    """
    return evaluate_scores("spearman", table).value


def kendall_tau_b(table: npt.ArrayLike) -> Float:
    r"""Kendall's tau-b, :math:`2 (P - Q) / \sqrt{(N^2 - \sum n_{a.}^2)(N^2 - \sum n_{.b}^2)}`.

    P and Q count the pairs of items that both sides put in the same, and in opposite order.

    Parameters
    ----------
    table : array-like, shape (..., L, L)
        Counts; rows reference, columns rater; categories in increasing order.

    Returns
    -------
    ndarray, shape (...)
        In [-1, 1]; NaN where a side is constant. Phi on two categories.

    Raises
    ------
    StructureError
        As :func:`evaluate_scores`.

    Examples
    --------
    >>> kendall_tau_b([[2, 1, 0], [0, 2, 0], [0, 1, 2]]).round(4).item()
    0.7807
    """
    return evaluate_scores("kendall_tau_b", table).value


def concordance(table: npt.ArrayLike, scores: Scores = None) -> Float:
    r"""Lin's concordance correlation, :math:`2 s_{xy} / (s_{xx} + s_{yy} + (\bar x - \bar y)^2)`.

    Pearson's times a factor of at most 1 for differences of mean and of spread. Variances are those of Lin,
    divided by n.

    Parameters
    ----------
    table, scores
        As :func:`pearson`.

    Returns
    -------
    ndarray, shape (...)
        In [-1, 1]; 0 where one side is constant, NaN where all numbers of both sides are equal.

    Raises
    ------
    ProtocolError, StructureError
        As :func:`evaluate_scores`.

    References
    ----------
    .. [1] L. I.-K. Lin, "A concordance correlation coefficient to evaluate reproducibility", 1989.

    Examples
    --------
    >>> concordance([[2, 1, 0], [0, 2, 0], [0, 1, 2]]).round(4).item()
    0.8
    """
    return evaluate_scores("concordance", table, scores).value


def mean_error(table: npt.ArrayLike, scores: Scores = None) -> Float:
    """Mean of the rater's numbers less the reference's: the bias.

    Parameters
    ----------
    table, scores
        As :func:`pearson`.

    Returns
    -------
    ndarray, shape (...)
        In the unit of the scores; NaN for an empty table.

    Raises
    ------
    ProtocolError, StructureError
        As :func:`evaluate_scores`.

    Examples
    --------
    >>> mean_error([[2, 1, 0], [0, 2, 0], [0, 1, 2]]).item()
    0.0
    """
    return evaluate_scores("mean_error", table, scores).value


def mean_absolute_error(table: npt.ArrayLike, scores: Scores = None) -> Float:
    """Mean distance of the rater's numbers from the reference's.

    Parameters
    ----------
    table, scores
        As :func:`pearson`.

    Returns
    -------
    ndarray, shape (...)
        At least 0, in the unit of the scores; NaN for an empty table.

    Raises
    ------
    ProtocolError, StructureError
        As :func:`evaluate_scores`.

    Examples
    --------
    >>> mean_absolute_error([[2, 1, 0], [0, 2, 0], [0, 1, 2]]).item()
    0.25
    """
    return evaluate_scores("mean_absolute_error", table, scores).value


def rmse(table: npt.ArrayLike, scores: Scores = None) -> Float:
    """Root of the mean squared difference of the rater's numbers from the reference's.

    Parameters
    ----------
    table, scores
        As :func:`pearson`.

    Returns
    -------
    ndarray, shape (...)
        At least 0, in the unit of the scores; NaN for an empty table.

    Raises
    ------
    ProtocolError, StructureError
        As :func:`evaluate_scores`.

    Examples
    --------
    >>> rmse([[2, 1, 0], [0, 2, 0], [0, 1, 2]]).item()
    0.5
    """
    return evaluate_scores("rmse", table, scores).value


def limits_of_agreement(table: npt.ArrayLike, scores: Scores = None) -> tuple[Float, Float]:
    """Limits of agreement of Bland and Altman: mean error less and plus 1.96 standard deviations.

    The standard deviation of the differences divides by ``n - 1``.

    Parameters
    ----------
    table, scores
        As :func:`pearson`.

    Returns
    -------
    lower, upper : ndarray, shape (...)
        In the unit of the scores; NaN with fewer than two pairs.

    Raises
    ------
    ProtocolError, StructureError
        As :func:`evaluate_scores`.

    References
    ----------
    .. [1] J. M. Bland and D. G. Altman, "Statistical methods for assessing agreement between two methods of
       clinical measurement", 1986.

    Examples
    --------
    >>> [limit.round(4).item() for limit in limits_of_agreement([[2, 1, 0], [0, 2, 0], [0, 1, 2]])]
    [-1.0477, 1.0477]
    """
    lower, upper = (
        evaluate_scores(f"{end}_limit_of_agreement", table, scores).value for end in ("lower", "upper")
    )
    return lower, upper


def _known(name: str) -> None:
    if name not in SCORE_STATISTICS:
        raise ProtocolError(
            f"There is no statistic of numbers {name!r}; there are {listing(SCORE_STATISTICS, most=9)}."
        )


def _checked(name: str, table: npt.ArrayLike, scores: Scores) -> tuple[Float, Float]:
    """Counts and numbers as float64, refused where they are none."""
    _known(name)
    try:
        counts: npt.NDArray[Any] = np.asarray(table)
    except ValueError:
        raise StructureError("A table has shape (..., L, L); got rows of different lengths.") from None
    if counts.ndim < 2 or counts.shape[-1] != counts.shape[-2] or counts.dtype.kind not in "iufb":
        raise StructureError(
            f"A table holds counts of shape (..., L, L); got {counts.dtype} of shape {counts.shape}."
        )
    if counts.size and not (counts.min() >= 0 and counts.max() < np.inf):
        raise StructureError("A table holds counts: no cell is negative, infinite or NaN.")
    L = counts.shape[-1]
    if scores is None:
        return counts.astype(np.float64), np.arange(L, dtype=np.float64)
    try:
        numbers = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError):
        raise ProtocolError("`scores` must hold numbers only.") from None
    if numbers.shape != (L,) or not np.isfinite(numbers).all() or (np.diff(numbers) <= 0).any():
        raise ProtocolError(
            f"`scores` are {L} finite numbers, one for each category, increasing; got {scores!r}."
        )
    return counts.astype(np.float64), numbers

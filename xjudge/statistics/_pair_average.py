"""Coefficients of many raters that are means over pairs of raters."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.errors import Reason, StructureError
from xjudge.statistics._items import Weights
from xjudge.statistics._terms import Float, first_reason
from xjudge.statistics.coefficients import Evaluated, evaluate
from xjudge.statistics.weights import weight_matrix

__all__ = ["PairAverage", "light_kappa", "mean_pairwise_kappa"]


class PairAverage(NamedTuple):
    """A mean over pairs of raters and how many pairs entered it."""

    value: Float
    reason: npt.NDArray[np.int8]
    n_included: npt.NDArray[np.int64]
    n_total: int


def mean_pairwise_kappa(
    tables: npt.ArrayLike, weights: Weights = None, *, scores: npt.ArrayLike | None = None
) -> PairAverage:
    """Mean of Cohen's kappa over the pairs of raters for which it is defined.

    Parameters
    ----------
    tables : array-like, shape (..., R, R, L, L)
        Joint counts of every two raters; only pairs r < s are read.
    weights : str or (L, L) array, optional
        Agreement weights, diagonal 1.
    scores : array-like of float, optional
        Numbers the categories stand for.

    Returns
    -------
    value, reason : ndarray, shape (...)
        NaN where no pair has a value.
    n_included : ndarray of int64, shape (...)
        Pairs with a value.
    n_total : int
        ``R (R - 1) / 2``.

    Raises
    ------
    ProtocolError, StructureError
        As :func:`xjudge.statistics.coefficients.kappa`; tables of another shape.

    Examples
    --------
    Three raters, of which the last is constant and never meets the first:

    >>> tables = np.zeros((3, 3, 2, 2), dtype=int)
    >>> tables[0, 1], tables[1, 2] = [[4, 1], [1, 4]], [[5, 0], [5, 0]]
    >>> result = mean_pairwise_kappa(tables)
    >>> result.value.round(4).item(), result.n_included.item(), result.n_total
    (0.3, 2, 3)
    """
    kappas = _pair_kappas(tables, weights, scores)
    defined = kappas.reason == 0
    included = defined.sum(-1)
    n_total = kappas.reason.shape[-1]
    value = np.full(included.shape, np.nan)
    total = np.where(defined, kappas.value, 0.0).sum(-1)
    np.divide(total, included, out=value, where=included > 0)
    one = np.full(included.shape, n_total == 0)
    reason = first_reason((one, Reason.ONE_RATER), (included == 0, Reason.NO_RATER_PAIR))
    return PairAverage(value, reason, included.astype(np.int64), n_total)


def light_kappa(
    tables: npt.ArrayLike, weights: Weights = None, *, scores: npt.ArrayLike | None = None
) -> PairAverage:
    """Light's kappa: the mean of Cohen's kappa over all pairs of raters.

    Unlike :func:`mean_pairwise_kappa` it is a statement about every pair, so one pair without a value
    leaves it undefined. With labels missing, kappa of a pair is that of the items both labelled.

    Parameters
    ----------
    tables, weights, scores
        As for :func:`mean_pairwise_kappa`.

    Returns
    -------
    PairAverage
        As :func:`mean_pairwise_kappa`; NaN unless ``n_included == n_total``.

    Raises
    ------
    ProtocolError, StructureError
        As :func:`mean_pairwise_kappa`.

    References
    ----------
    .. [1] R. J. Light, "Measures of response agreement for qualitative data", 1971.

    Examples
    --------
    >>> tables = np.broadcast_to([[4, 1], [1, 4]], (3, 3, 2, 2))
    >>> light_kappa(tables).value.round(4).item()
    0.6
    """
    mean = mean_pairwise_kappa(tables, weights, scores=scores)
    missing = mean.n_included < mean.n_total
    reason = np.where((mean.reason == 0) & missing, np.int8(Reason.UNDEFINED_PAIR), mean.reason).astype(
        np.int8
    )
    return mean._replace(value=np.where(missing, np.nan, mean.value), reason=reason)


def _pair_kappas(tables: npt.ArrayLike, weights: Weights, scores: npt.ArrayLike | None) -> Evaluated:
    counts = np.asarray(tables)
    if counts.ndim < 4 or counts.shape[-4] != counts.shape[-3] or counts.shape[-2] != counts.shape[-1]:
        raise StructureError(f"Pair tables have shape (..., R, R, L, L); got {counts.shape}.")
    first, second = np.triu_indices(counts.shape[-4], k=1)
    matrix = None if weights is None else weight_matrix(weights, counts.shape[-1], scores)
    return evaluate("kappa", counts[..., first, second, :, :], matrix)

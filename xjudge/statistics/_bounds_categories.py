"""Identification ranges of accuracy and kappa for any number of categories."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError, Reason, StructureError
from xjudge.statistics._bounds_binary import complete
from xjudge.statistics._bounds_cells import (
    CertifiedRange,
    Float,
    cells_of,
    checked_counts,
    evaluate_completed,
)
from xjudge.statistics._bounds_multi import kappa_range
from xjudge.statistics.weights import Matrix, cost_matrix, weight_matrix, weights_from_costs

__all__ = [
    "accuracy_or_kappa",
    "category_bounds",
    "category_weights",
    "observed_agreement_range",
    "one_versus_rest",
]


def category_bounds(
    table: npt.ArrayLike,
    statistic: str = "accuracy",
    *,
    weights: str | Matrix | None = None,
    costs: str | Matrix | None = None,
    max_work: int = 2_000_000,
) -> CertifiedRange:
    r"""Identification range of accuracy or kappa for any number of categories, weighted or not.

    Parameters
    ----------
    table : array-like of int, shape (..., L+1, L+1)
        Counts; rows reference, columns rater, the categories and then CA on both.
    statistic : {"accuracy", "kappa"}
        Observed agreement ``sum w_ab p_ab``, or Cohen's kappa.
    weights, costs : str or (L, L) array, optional
        Agreement weights (diagonal 1) or disagreement costs (diagonal 0), as for
        :func:`xjudge.statistics.kappa`; at most one of them.
    max_work : int
        Up to how many numbers are compared in one pass for one table: about 0.25 s a million.
        Decides where kappa's range goes from sharp to outer.

    Returns
    -------
    lower, upper : ndarray, shape (...)
        NaN where no completion defines the statistic. An outer lower end of weighted kappa may be ``-inf``.
    kind : ndarray of str, shape (...)
        ``"sharp"``: completions attain both ends. ``"outer"``: no completion lies outside.
    reason : ndarray of int8, shape (...)
        Members of :class:`xjudge.errors.Reason`.

    Raises
    ------
    ProtocolError
        An unknown statistic, weights and costs together, matrices that do not fit.
    StructureError
        A table that is not square, or has cells that are not counts.

    Notes
    -----
    *Accuracy* is linear in the completion: each open verdict goes where its weight is greatest, or least.
    Always sharp.

    *Kappa* with two categories has the closed form of :func:`sharp_bounds`. With more it is not monotone
    along moves to agreement. At a fixed margin of one side it is linear-fractional in what the other side's
    open verdicts become, so all of a row (or column) go to one category; these choices are tried for one side
    and solved for the other, together with every split of (CA, CA) over the rows, at a cost of
    ``L^k C(n_CC + L - 1, L - 1) L^2`` with ``k`` categories in which that side is open. By default that is
    sharp with one side open for any L; with both sides open but no (CA, CA) up to L = 6; with L = 3 for
    ``n_CC`` up to 126, with L = 4 up to 12. Beyond, a certified outer range.

    For other statistics give the tables of :func:`one_versus_rest` to :func:`sharp_bounds`.

    Examples
    --------
    >>> table = [[20, 3, 1, 2], [2, 15, 4, 3], [0, 3, 18, 1], [2, 1, 0, 4]]
    >>> found = category_bounds(table, "kappa", weights="linear")
    >>> found.lower.round(4).item(), found.upper.round(4).item(), str(found.kind)
    (0.5014, 0.8032, 'sharp')
    """
    counts = checked_counts(table)
    L = counts.shape[-1] - 1
    accuracy_or_kappa(statistic)
    w = category_weights(L, weights, costs)
    empty = counts.sum((-2, -1)) == 0
    if statistic == "accuracy":
        lower, upper = observed_agreement_range(counts, w)
        return CertifiedRange(
            lower, upper, np.full(empty.shape, "sharp"), np.where(empty, Reason.NO_OVERLAP, 0).astype(np.int8)
        )
    flat = counts.reshape(-1, L + 1, L + 1)
    ends, sharp = np.full((2, len(flat)), np.nan), np.ones(len(flat), dtype=np.bool_)
    if L == 2 and w[0, 1] < 1:
        cells, _ = cells_of(flat)
        for k, upper_end in enumerate((False, True)):
            ends[k] = evaluate_completed("kappa", complete(cells, "kappa", upper=upper_end))
    else:
        for i, one in enumerate(flat):
            ends[0, i], ends[1, i], sharp[i] = kappa_range(one, w, max_work)
    ends = ends.reshape(2, *empty.shape)
    reason = np.where(np.isnan(ends[0]), Reason.ONE_CATEGORY, 0)
    return CertifiedRange(
        ends[0],
        ends[1],
        np.where(sharp, "sharp", "outer").reshape(empty.shape),
        np.where(empty, Reason.NO_OVERLAP, reason).astype(np.int8),
    )


def accuracy_or_kappa(statistic: str) -> None:
    """Refuse other statistics."""
    if statistic not in ("accuracy", "kappa"):
        raise ProtocolError(
            f'For any number of categories `statistic` must be "accuracy" or "kappa"; got {statistic!r}. '
            "Others need two: give the tables of `one_versus_rest` to `sharp_bounds`."
        )


def category_weights(n_categories: int, weights: str | Matrix | None, costs: str | Matrix | None) -> Float:
    """Agreement weights (L, L) from a name, a matrix or costs."""
    if weights is not None and costs is not None:
        raise ProtocolError("Give `weights` (agreement, diagonal 1) or `costs` (disagreement, diagonal 0).")
    if costs is None:
        return weight_matrix(weights, n_categories)
    return weights_from_costs(cost_matrix(costs, n_categories))


def one_versus_rest(table: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Binary tables of each category against the others, CA kept, for :func:`sharp_bounds`.

    Every completion of the binary table comes from one of the full table and the other way round, so sharp
    ranges stay sharp.

    Parameters
    ----------
    table : array-like of int, shape (..., L+1, L+1)
        Counts; rows reference, columns rater, the categories and then CA on both; L at least 2.

    Returns
    -------
    ndarray of int64, shape (..., L, 3, 3)
        Ordered rest, category, CA.

    Raises
    ------
    StructureError
        A table with fewer than two categories, or cells that are not counts.

    Examples
    --------
    >>> one_versus_rest([[20, 3, 1, 2], [2, 15, 4, 3], [0, 3, 18, 1], [2, 1, 0, 4]])[2]
    array([[40,  5,  5],
           [ 3, 18,  1],
           [ 3,  0,  4]])
    """
    counts = checked_counts(table)
    L = counts.shape[-1] - 1
    if L < 2:
        raise StructureError("One category has no rest: a table needs two categories or more beside CA.")
    merge = np.zeros((L, L + 1, 3), dtype=np.int64)
    merge[:, :L, 0] = 1 - np.eye(L, dtype=np.int64)
    merge[:, :L, 1] = np.eye(L, dtype=np.int64)
    merge[:, L, 2] = 1
    merged: npt.NDArray[np.int64] = np.swapaxes(merge, 1, 2) @ counts[..., None, :, :] @ merge
    return merged


def observed_agreement_range(counts: npt.NDArray[Any], weights: Float) -> tuple[Float, Float]:
    """Ends of ``sum w_ab n_ab / N``: linear, so open verdicts go where the weight is least or greatest."""
    n_categories = counts.shape[-1] - 1
    cells = counts.astype(np.float64)
    fixed = (cells[..., :n_categories, :n_categories] * weights).sum((-2, -1))
    rows, columns = cells[..., :n_categories, -1], cells[..., -1, :n_categories]
    both, total = cells[..., -1, -1], cells.sum((-2, -1))
    ends = []
    for pick in (np.min, np.max):
        reached = rows @ pick(weights, axis=1) + columns @ pick(weights, axis=0) + both * pick(weights)
        ends.append(np.divide(fixed + reached, total, out=np.full(total.shape, np.nan), where=total > 0))
    return ends[0], ends[1]

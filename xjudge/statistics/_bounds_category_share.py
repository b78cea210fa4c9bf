"""Ranges between ignorable and worst case, and breakdown, for any number of categories.

As :mod:`xjudge.statistics._bounds_share` for two: at share ``s`` a part ``s`` of every open cell is free
and the rest follows the covered cases. Everything here is real-valued, except at share 1.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError, Reason
from xjudge.statistics._bounds_breakdown import Breakdown
from xjudge.statistics._bounds_categories import (
    accuracy_or_kappa,
    category_bounds,
    category_weights,
    observed_agreement_range,
)
from xjudge.statistics._bounds_cells import CertifiedRange, Float, checked_counts
from xjudge.statistics._bounds_multi import kappa_range
from xjudge.statistics._bounds_share import together
from xjudge.statistics.weights import Matrix

__all__ = ["category_breakdown", "category_range_at_share"]

_WORK = 20_000
_HALVINGS = 32
_NEAR = 1e-12


def category_range_at_share(
    table: npt.ArrayLike,
    statistic: str = "accuracy",
    share: npt.ArrayLike = 1.0,
    *,
    weights: str | Matrix | None = None,
    costs: str | Matrix | None = None,
    max_work: int = _WORK,
) -> CertifiedRange:
    r"""Range of accuracy or kappa when a share of every unresolved cell is adversarial.

    Parameters
    ----------
    table : array-like of int, shape (..., L+1, L+1)
        Counts; rows reference, columns rater, the categories and then CA on both.
    statistic : {"accuracy", "kappa"}
    share : array-like of float, broadcast against the leading dims of ``table``
        In [0, 1]. The part :math:`1 - s` of the cases whose reference is :math:`a` and whose rater is open
        follows :math:`n_{ab} / n_{a\cdot}` of the covered cases, likewise the other side, and (CA, CA) the
        covered table.
    weights, costs, max_work
        As in :func:`category_bounds`; ``max_work`` is less by default, since curves ask for many ranges.

    Returns
    -------
    lower, upper : ndarray
        At share 1 the range over whole cases. NaN where nothing defines the statistic and, below 1, where an
        unresolved cell has no covered case to follow.
    kind : ndarray of str
        ``"sharp"``, or ``"outer"`` for kappa where the search is too large and, below share 1, with more than
        two categories wherever cases are open on both sides (their split then is real-valued).
    reason : ndarray of int8

    Raises
    ------
    ProtocolError
        An unknown statistic, a share outside [0, 1], weights and costs together.
    StructureError
        A table that is not square, or has cells that are not counts.

    Notes
    -----
    Accuracy is linear in the completion, so its ends are ``1 - s`` times the ignorable value plus ``s`` times
    the sharp ends. Kappa's search (:func:`category_bounds`) nowhere needs whole cases but in the split of
    (CA, CA).

    Examples
    --------
    >>> table = [[20, 3, 1, 2], [2, 15, 4, 3], [0, 3, 18, 1], [2, 1, 0, 0]]
    >>> found = category_range_at_share([table], "kappa", [0, 0.5, 1])
    >>> found.lower.round(3).tolist(), found.upper.round(3).tolist()
    ([0.704, 0.631, 0.559], [0.704, 0.722, 0.74])
    """
    counts = checked_counts(table)
    accuracy_or_kappa(statistic)
    w = category_weights(counts.shape[-1] - 1, weights, costs)
    shares = np.asarray(share, dtype=np.float64)
    if not ((shares >= 0) & (shares <= 1)).all():
        raise ProtocolError(
            "`share` must lie in [0, 1]: the part of the unresolved cases that is adversarial."
        )
    shape = together(counts.shape[:-2], shares.shape, "share")
    tables = np.broadcast_to(counts, (*shape, *counts.shape[-2:])).reshape(-1, *counts.shape[-2:])
    flat = np.broadcast_to(shares, shape).reshape(-1)
    ends, reason = np.full((2, len(flat)), np.nan), np.zeros(len(flat), dtype=np.int8)
    sharp = np.ones(len(flat), dtype=np.bool_)
    whole = flat == 1
    if whole.any():
        found = category_bounds(tables[whole], statistic, weights=w, max_work=max_work)
        ends[:, whole], reason[whole], sharp[whole] = found[:2], found.reason, found.kind == "sharp"
    part = ~whole
    below = _below_one(tables[part], statistic, flat[part], w, max_work)
    ends[:, part], reason[part], sharp[part] = below[:2], below.reason, below.kind == "sharp"
    return CertifiedRange(
        ends[0].reshape(shape),
        ends[1].reshape(shape),
        np.where(sharp, "sharp", "outer").reshape(shape),
        reason.reshape(shape),
    )


def _below_one(
    counts: npt.NDArray[np.int64], statistic: str, share: Float, weights: Float, max_work: int
) -> CertifiedRange:
    """Ranges over real-valued completions, one for each table and share."""
    masses = mixed(counts, share)
    sharp, reason = np.ones(len(share), dtype=np.bool_), np.zeros(len(share), dtype=np.int8)
    if statistic == "accuracy":
        ends = np.stack(observed_agreement_range(masses, weights))
    else:
        ends = np.full((2, len(share)), np.nan)
        for k, one in enumerate(masses):
            ends[0, k], ends[1, k], sharp[k] = kappa_range(one, weights, max_work)
        reason[np.isnan(ends[0])] = Reason.ONE_CATEGORY
    reason[counts.sum((-2, -1)) == 0] = Reason.NO_OVERLAP
    uncovered = _follows_nothing(counts)
    reason[uncovered] = Reason.NO_COVERED_CASE
    ends = np.where(uncovered, np.nan, ends)
    return CertifiedRange(ends[0], ends[1], np.where(sharp, "sharp", "outer"), reason)


def mixed(counts: npt.NDArray[np.int64], share: Float) -> Float:
    """Tables of masses: what follows the covered cases is resolved, a share of each open cell is not."""
    cells, s = counts.astype(np.float64), share[:, None, None]
    covered = cells[:, :-1, :-1]
    by_row, by_column, both = cells[:, :-1, -1], cells[:, -1, :-1], cells[:, -1, -1]
    follows = _parts(by_row[:, :, None] * covered, covered.sum(2)[:, :, None])
    follows = follows + _parts(by_column[:, None, :] * covered, covered.sum(1)[:, None, :])
    follows = follows + _parts(both[:, None, None] * covered, covered.sum((1, 2))[:, None, None])
    out = s * cells
    out[:, :-1, :-1] = covered + (1 - s) * follows
    return np.asarray(out)


def _parts(above: Float, below: Float) -> Float:
    shape = np.broadcast_shapes(above.shape, below.shape)
    return np.divide(above, below, out=np.zeros(shape), where=below > 0)


def _follows_nothing(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Whether an open cell is not empty while the covered cases it would follow are."""
    covered = counts[:, :-1, :-1]
    rows = (counts[:, :-1, -1] > 0) & (covered.sum(2) == 0)
    columns = (counts[:, -1, :-1] > 0) & (covered.sum(1) == 0)
    neither = (counts[:, -1, -1] > 0) & (covered.sum((1, 2)) == 0)
    return np.asarray(rows.any(1) | columns.any(1) | neither)


def category_breakdown(
    table: npt.ArrayLike,
    statistic: str,
    threshold: npt.ArrayLike,
    *,
    weights: str | Matrix | None = None,
    costs: str | Matrix | None = None,
    max_work: int = _WORK,
) -> Breakdown:
    """Least adverse share of the unresolved cases that overturns ``statistic >= threshold``.

    Parameters
    ----------
    table : array-like of int, shape (..., L+1, L+1)
        Counts; rows reference, columns rater, the categories and then CA on both.
    statistic : {"accuracy", "kappa"}
    threshold : array-like of float, broadcast against the leading dims of ``table``
    weights, costs, max_work
        As in :func:`category_range_at_share`.

    Returns
    -------
    share : ndarray
        As :func:`breakdown`. For kappa where the range is an outer one the claim may hold longer than it
        says.
    reason : ndarray of int8

    Raises
    ------
    ProtocolError, StructureError
        As :func:`category_range_at_share`; a threshold that is NaN.

    Notes
    -----
    Accuracy solves a linear equation, a near tie in fractions with the threshold read as the decimal that is
    written. Kappa's lower end on real masses, share 1 included, is bisected 32 times.

    Examples
    --------
    >>> table = [[20, 3, 1, 2], [2, 15, 4, 3], [0, 3, 18, 1], [2, 1, 0, 0]]
    >>> category_breakdown(table, "kappa", [0.5, 0.6, 0.9]).share.round(3).tolist()
    [inf, 0.715, nan]
    """
    counts = checked_counts(table)
    accuracy_or_kappa(statistic)
    w = category_weights(counts.shape[-1] - 1, weights, costs)
    thresholds = np.asarray(threshold, dtype=np.float64)
    if np.isnan(thresholds).any():
        raise ProtocolError("`threshold` must be a number; got NaN.")
    shape = together(counts.shape[:-2], thresholds.shape, "threshold")
    tables = np.broadcast_to(counts, (*shape, *counts.shape[-2:])).reshape(-1, *counts.shape[-2:])
    cut = np.broadcast_to(thresholds, shape).reshape(-1)
    zero, one = np.zeros(len(cut)), np.ones(len(cut))
    start = _below_one(tables, statistic, zero, w, max_work)
    worst = _below_one(tables, statistic, one, w, max_work)
    if statistic == "accuracy":
        margin, last = _margins(tables, start.lower, worst.lower, cut, w)
        false, stands = margin < 0, last >= 0
        share = np.divide(margin, margin - last, out=np.full(len(cut), np.nan), where=margin > last)
    else:
        false, stands = start.lower < cut, worst.lower >= cut
        share = np.full(len(cut), np.nan)
        search = np.flatnonzero(~false & ~stands & (start.reason == 0))
        share[search] = _bisect(tables[search], cut[search], w, max_work)
    uncovered = start.reason == Reason.NO_COVERED_CASE
    reason = start.reason.copy()
    reason[(reason == 0) & false] = Reason.ALREADY_FALSE
    reason[(reason == 0) & stands] = Reason.CANNOT_BE_OVERTURNED
    if uncovered.any():  # with everything adversarial nothing follows the covered cases
        at_one = category_bounds(tables[uncovered], statistic, weights=w, max_work=max_work).lower
        reason[np.flatnonzero(uncovered)[at_one >= cut[uncovered]]] = Reason.CANNOT_BE_OVERTURNED
    share = np.where(reason == Reason.CANNOT_BE_OVERTURNED, np.inf, np.where(reason == 0, share, np.nan))
    return Breakdown(share.reshape(shape), reason.reshape(shape))


def _margins(
    counts: npt.NDArray[np.int64], start: Float, worst: Float, cut: Float, weights: Float
) -> tuple[Float, Float]:
    """How far accuracy is above the threshold at shares 0 and 1; near ties from fractions."""
    margin, last = start - cut, worst - cut
    near = np.minimum(np.abs(margin), np.abs(last)) <= _NEAR
    for k in np.flatnonzero(near):
        table = [[Fraction(int(n)) for n in row] for row in counts[k]]
        exact = [_agreement(table, weights, end) for end in ("follows", "worst")]
        margin[k], last[k] = (float(value - Fraction(str(cut[k]))) for value in exact)
    return margin, last


def _agreement(table: list[list[Fraction]], weights: Float, end: str) -> Fraction:
    """Weighted agreement of one table where open cases follow the covered ones, or are all adverse."""
    L = len(table) - 1
    w = [[Fraction(str(float(weights[a, b]))) for b in range(L)] for a in range(L)]
    groups = [[(a, b) for b in range(L)] for a in range(L)]  # open columns of a row
    groups += [[(a, b) for a in range(L)] for b in range(L)]
    groups += [[(a, b) for a in range(L) for b in range(L)]]
    open_ = [table[a][L] for a in range(L)] + [table[L][b] for b in range(L)] + [table[L][L]]
    total = sum((table[a][b] * w[a][b] for a, b in groups[-1]), Fraction(0))
    for cells, amount in zip(groups, open_, strict=True):
        covered = sum((table[a][b] for a, b in cells), Fraction(0))
        if end == "worst":
            total += amount * min(w[a][b] for a, b in cells)
        elif amount and covered:
            total += amount * sum((table[a][b] * w[a][b] for a, b in cells), Fraction(0)) / covered
    return total / sum((n for row in table for n in row), Fraction(0))


def _bisect(counts: npt.NDArray[np.int64], cut: Float, weights: Float, max_work: int) -> Float:
    low, high = np.zeros(len(cut)), np.ones(len(cut))
    for _ in range(_HALVINGS if len(cut) else 0):
        middle = (low + high) / 2
        below = _below_one(counts, "kappa", middle, weights, max_work).lower < cut
        low, high = np.where(below, low, middle), np.where(below, middle, high)
    return high

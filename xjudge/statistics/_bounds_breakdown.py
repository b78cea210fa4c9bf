"""The least adverse share of the unresolved cases that overturns a claim."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError, Reason
from xjudge.statistics._bounds_binary import complete
from xjudge.statistics._bounds_cells import Array, Bool, Cells, Completed, Float, cells_of, check_statistic
from xjudge.statistics._bounds_share import at_share, end_of, ends_at_share, spread_over, together

__all__ = ["Breakdown", "breakdown", "breakdown_with_reason"]

_HALVINGS = 54  # of [0, 1]: down to the spacing of floats below 1
_NEAR = 1e-12  # relative; nearer than this a comparison is made in fractions


class Breakdown(NamedTuple):
    """The least overturning share and, where it is NaN or infinite, the reason."""

    share: Float
    reason: npt.NDArray[np.int8]


def breakdown(table: npt.ArrayLike, statistic: str, threshold: npt.ArrayLike) -> Float:
    """Least adverse share of the unresolved cases that overturns ``statistic >= threshold``.

    Parameters
    ----------
    table : array-like of int, shape (..., 3, 3)
        Counts; rows reference, columns rater, both ordered negative, positive, CA.
    statistic : str
        As in :func:`sharp_bounds`.
    threshold : array-like of float, broadcast against the leading dims of ``table``
        The claim is ``statistic >= threshold``.

    Returns
    -------
    ndarray
        In [0, 1]: the share at which the lower end of the real-valued range (:func:`range_at_share`, share 1
        included) crosses the threshold. NaN where the claim is false already at share 0, where the statistic
        is undefined there, and where an unresolved cell has no covered case to follow. ``inf`` where the
        claim holds even at share 1. :func:`breakdown_with_reason` says which.

    Raises
    ------
    ProtocolError
        An unknown statistic, a threshold that is not a number.
    StructureError
        A table of another shape, or cells that are not counts.

    Notes
    -----
    At share 0 the unresolved cases follow the covered ones given the side that answered. That value is the
    one an assumption of ignorable abstention gives, and it can differ from the value on the covered cases.

    The lower end does not rise with the share and is continuous in it. For statistics with one worst corner
    the crossing solves a linear equation; kappa, phi and balanced accuracy are bisected to the spacing of
    floats. Ties are decided in fractions for the former, the threshold read as the decimal that is written.

    Examples
    --------
    >>> table = [[40, 5, 10], [5, 40, 10], [0, 0, 0]]
    >>> breakdown(table, "accuracy", 0.8).round(4).item()
    0.55
    >>> breakdown(table, "accuracy", [0.7, 0.95]).tolist()
    [inf, nan]
    """
    return breakdown_with_reason(table, statistic, threshold).share


def breakdown_with_reason(table: npt.ArrayLike, statistic: str, threshold: npt.ArrayLike) -> Breakdown:
    """Least overturning share as :func:`breakdown`, with the reason where it is NaN or infinite.

    Parameters
    ----------
    table : array-like of int, shape (..., 3, 3)
        Counts; rows reference, columns rater, both ordered negative, positive, CA.
    statistic : str
        As in :func:`sharp_bounds`.
    threshold : array-like of float, broadcast against the leading dims of ``table``

    Returns
    -------
    share : ndarray
    reason : ndarray of int8
        Members of :class:`xjudge.errors.Reason`; ``ALREADY_FALSE`` and ``CANNOT_BE_OVERTURNED`` among them.

    Examples
    --------
    >>> from xjudge.errors import reason_text
    >>> found = breakdown_with_reason([[40, 5, 10], [5, 40, 10], [0, 0, 0]], "kappa", [0.2, 0.5, 0.9])
    >>> found.share.round(3).tolist(), reason_text(found.reason).tolist()
    ([inf, 0.859, nan], ['cannot be overturned', 'ok', 'already false'])
    """
    check_statistic(statistic)
    thresholds = np.asarray(threshold, dtype=np.float64)
    if np.isnan(thresholds).any():
        raise ProtocolError("`threshold` must be a number; got NaN.")
    cells, leading = cells_of(table)
    shape = together(leading, thresholds.shape, "threshold")
    flat = np.broadcast_to(thresholds, shape).reshape(-1)
    share, reason = breakdown_of(spread_over(cells, leading, shape), statistic, flat)
    return Breakdown(share.reshape(shape), reason.reshape(shape))


def breakdown_of(cells: Cells, statistic: str, threshold: Float) -> tuple[Float, npt.NDArray[np.int8]]:
    """Return the least share at which the lower end falls below the threshold, or a reason.

    Where the statistic is defined at share 0 it is defined at every completion of every share (the covered
    cases alone define it), so the lower end is continuous in the share, and it does not rise.
    """
    shape = threshold.shape
    zero, one = np.zeros(shape), np.ones(shape)
    start, worst = ends_at_share(cells, statistic, zero), ends_at_share(cells, statistic, one)
    if statistic in ("kappa", "phi", "balanced_accuracy"):
        false, holds = start.lower < threshold, worst.lower >= threshold
        share = np.full(shape, np.nan)
        search = ~false & ~holds & (start.reason == 0)
        share[search] = _bisect(Cells(*(n[search] for n in cells)), statistic, threshold[search])
    else:
        false, holds, share = _linear_crossing(cells, statistic, threshold)
    reason = start.reason.copy()
    reason[(reason == 0) & false] = Reason.ALREADY_FALSE
    holds = holds & ((reason == 0) | (start.reason == Reason.NO_COVERED_CASE)) & ~np.isnan(worst.lower)
    reason[holds] = Reason.CANNOT_BE_OVERTURNED
    share = np.where(holds, np.inf, np.where(reason == 0, share, np.nan))
    return share, reason


def _bisect(cells: Cells, statistic: str, threshold: Float) -> Float:
    low, high = np.zeros(threshold.shape), np.ones(threshold.shape)
    for _ in range(_HALVINGS if threshold.size else 0):
        middle = (low + high) / 2
        below = end_of(at_share(cells, middle), statistic, upper=False) < threshold
        high = np.where(below, middle, high)
        low = np.where(below, low, middle)
    return high


def _linear_crossing(cells: Cells, statistic: str, threshold: Float) -> tuple[Bool, Bool, Float]:
    """Crossing for statistics whose worst completion is one corner, whatever the share.

    The worst table at share ``s`` then is ``(1 - s)`` times the ignorable one plus ``s`` times the corner,
    and numerator less threshold times denominator is linear in ``s``. Near ties are decided in fractions,
    with the threshold read as the decimal that is written.
    """
    ignorable = at_share(cells, np.zeros(threshold.shape))
    resolved = Completed(ignorable.n00, ignorable.n01, ignorable.n10, ignorable.n11)
    corner = complete(Cells(*(n.astype(np.float64) for n in cells)), statistic, upper=False)
    start, start_scale = _excess(statistic, resolved, threshold)
    end, _ = _excess(statistic, corner, threshold)
    near = np.minimum(np.abs(start), np.abs(end)) <= _NEAR * start_scale
    for i in np.flatnonzero(near & (start_scale > 0)):
        start[i], end[i] = _exact_excess(
            Cells(*(n[i : i + 1] for n in cells)), statistic, float(threshold[i])
        )
    share = np.divide(start, start - end, out=np.full(threshold.shape, np.nan), where=start > end)
    return start < 0, end >= 0, share


def _excess(statistic: str, done: Completed, threshold: Float) -> tuple[Float, Float]:
    above, below = _fraction_of(statistic, done)
    return above - threshold * below, below


def _fraction_of(statistic: str, done: Completed) -> tuple[Array, Array]:
    n00, n01, n10, n11 = done
    total = n00 + n01 + n10 + n11
    pairs = {
        "accuracy": (n00 + n11, total),
        "precision": (n11, n01 + n11),
        "recall": (n11, n10 + n11),
        "specificity": (n00, n00 + n01),
        "f1": (2 * n11, 2 * n11 + n01 + n10),
        "rate_reference": (n10 + n11, total),
        "rate_rater": (n01 + n11, total),
    }
    return pairs[statistic]


def _exact_excess(cells: Cells, statistic: str, threshold: float) -> tuple[float, float]:
    """Return the excess at share 0 and at the worst corner of one table, in fractions."""
    cut = Fraction(str(threshold))
    n00, n01, n0c, n10, n11, n1c, nc0, nc1, ncc = (Fraction(int(n[0])) for n in cells)

    def split(amount: Fraction, one: Fraction, other: Fraction) -> tuple[Fraction, Fraction]:
        first = amount * one / (one + other) if amount and one + other else Fraction(0)
        return first, amount - first

    a0, b0 = split(n0c, n00, n01)
    c0, d0 = split(n1c, n10, n11)
    a1, c1 = split(nc0, n00, n10)
    b1, d1 = split(nc1, n01, n11)
    covered = n00 + n01 + n10 + n11
    both = ncc / covered if ncc and covered else Fraction(0)
    resolved = (
        n00 + a0 + a1 + both * n00,
        n01 + b0 + b1 + both * n01,
        n10 + c0 + c1 + both * n10,
        n11 + d0 + d1 + both * n11,
    )
    corner = complete(cells, statistic, upper=False)
    excesses = []
    for done in (resolved, tuple(Fraction(int(n[0])) for n in corner)):
        above, below = _fraction_of(statistic, cast("Completed", done))
        excesses.append(float(cast("Fraction", above - cut * below)))
    return excesses[0], excesses[1]

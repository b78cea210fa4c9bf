"""Ranges between ignorable and worst case: a share of the unresolved cases is adversarial.

At share ``s`` a part ``s`` of every unresolved cell is free, and ``1 - s`` of it follows the covered cases:
given the side that answered, or as the covered table where neither did. Everything here is real-valued.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError, Reason, StructureError
from xjudge.statistics._bounds_binary import complete, limit_of
from xjudge.statistics._bounds_cells import (
    Bool,
    Cells,
    Float,
    Range,
    cells_of,
    check_statistic,
    denominator_is_zero,
    evaluate_completed,
    reason_of,
)

__all__ = [
    "at_share",
    "end_of",
    "ends_at_share",
    "range_at_share",
    "range_at_share_with_reason",
    "spread_over",
    "together",
]


def range_at_share(
    table: npt.ArrayLike, statistic: str = "accuracy", share: npt.ArrayLike = 1.0
) -> tuple[Float, Float]:
    r"""Range of a binary statistic when a share of every unresolved cell is adversarial.

    Between ignorable abstention (share 0: one value) and the worst case (share 1). The part :math:`1 - s` of
    every unresolved cell follows the covered cases: the rater's labels where the reference answered
    :math:`a` as :math:`n_{ab} / (n_{a0} + n_{a1})`, likewise the other side, and (CA, CA) as the covered
    table. The part :math:`s` is free. For :math:`s < 1` cells are real-valued.

    Parameters
    ----------
    table : array-like of int, shape (..., 3, 3)
        Counts; rows reference, columns rater, both ordered negative, positive, CA.
    statistic : str
        As in :func:`sharp_bounds`.
    share : array-like of float, broadcast against the leading dims of ``table``
        In [0, 1]. For a curve, give ``table[..., None, :, :]`` and a vector.

    Returns
    -------
    lower, upper : ndarray
        Infimum and supremum over the completions that define the statistic; nested in ``share``. At share 1
        the sharp range over whole cases, which the limit of the others contains. NaN where nothing defines
        the statistic and, below 1, where an unresolved cell has no covered case to follow.

    Raises
    ------
    ProtocolError
        An unknown statistic, a share outside [0, 1].
    StructureError
        A table of another shape, or cells that are not counts.

    Notes
    -----
    The completions of :func:`sharp_bounds` with masses for counts: nothing in the argument needs whole cases.

    Examples
    --------
    >>> import numpy as np
    >>> table = np.array([[97, 420, 0], [181, 1003, 0], [64, 242, 0]])
    >>> lower, upper = range_at_share(table[None], share=[0, 0.5, 1])
    >>> lower.round(3).tolist(), upper.round(3).tolist()
    ([0.644, 0.596, 0.548], [0.644, 0.672, 0.701])
    """
    lower, upper, _ = range_at_share_with_reason(table, statistic, share)
    return lower, upper


def range_at_share_with_reason(
    table: npt.ArrayLike, statistic: str = "accuracy", share: npt.ArrayLike = 1.0
) -> Range:
    """Range at a share of adversarial cases as :func:`range_at_share`, with the reason where it is NaN.

    Parameters
    ----------
    table : array-like of int, shape (..., 3, 3)
        Counts; rows reference, columns rater, both ordered negative, positive, CA.
    statistic : str
        As in :func:`sharp_bounds`.
    share : array-like of float, broadcast against the leading dims of ``table``
        In [0, 1].

    Returns
    -------
    lower, upper : ndarray
    reason : ndarray of int8
        Members of :class:`xjudge.errors.Reason`.

    Examples
    --------
    >>> from xjudge.errors import reason_text
    >>> found = range_at_share_with_reason([[0, 0, 2], [1, 4, 0], [0, 0, 0]], share=0.5)
    >>> str(reason_text(found.reason))
    'an unresolved cell without a covered case to follow'
    """
    check_statistic(statistic)
    shares = np.asarray(share, dtype=np.float64)
    if not ((shares >= 0) & (shares <= 1)).all():
        raise ProtocolError(
            "`share` must lie in [0, 1]: the part of the unresolved cases that is adversarial."
        )
    cells, leading = cells_of(table)
    shape = together(leading, shares.shape, "share")
    flat_shares = np.broadcast_to(shares, shape).reshape(-1)
    flat_cells = spread_over(cells, leading, shape)
    ends = ends_at_share(flat_cells, statistic, flat_shares)
    worst = flat_shares == 1
    if worst.any():
        ends = _whole_cases_at(ends, flat_cells, statistic, worst)
    return Range(ends.lower.reshape(shape), ends.upper.reshape(shape), ends.reason.reshape(shape))


def _whole_cases_at(ends: Range, cells: Cells, statistic: str, where: npt.NDArray[np.bool_]) -> Range:
    """Put the sharp range over whole cases where the share is 1."""
    chosen = Cells(*(n[where] for n in cells))
    done = complete(chosen, statistic, upper=True)
    ends.lower[where] = evaluate_completed(statistic, complete(chosen, statistic, upper=False))
    ends.upper[where] = evaluate_completed(statistic, done)
    ends.reason[where] = reason_of(statistic, done)
    return ends


def together(leading: tuple[int, ...], other: tuple[int, ...], name: str) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(leading, other)
    except ValueError:
        raise StructureError(
            f"`{name}` of shape {other} does not broadcast against the leading dims {leading} of the tables."
        ) from None


def spread_over(cells: Cells, leading: tuple[int, ...], shape: tuple[int, ...]) -> Cells:
    if leading == shape:
        return cells
    return Cells(*(np.broadcast_to(n.reshape(leading), shape).reshape(-1) for n in cells))


def ends_at_share(cells: Cells, statistic: str, share: Float) -> Range:
    """Infimum and supremum over the real-valued completions at a share, one per table.

    The masses that follow the covered cases are added to the resolved ones and the rest is free, so the
    ends are those of :func:`xjudge.statistics._bounds_binary.complete` with masses for counts; its arguments
    nowhere use that the counts are whole.
    """
    mixed = at_share(cells, share)
    lower = end_of(mixed, statistic, upper=False)
    upper = end_of(mixed, statistic, upper=True)
    reason = np.where(np.isnan(lower), reason_of(statistic, complete(mixed, statistic, upper=True)), 0)
    uncovered = _follows_nothing(cells) & (share < 1)
    reason[uncovered] = Reason.NO_COVERED_CASE
    return Range(
        np.where(uncovered, np.nan, lower), np.where(uncovered, np.nan, upper), reason.astype(np.int8)
    )


def end_of(cells: Cells, statistic: str, *, upper: bool) -> Float:
    done = complete(cells, statistic, upper=upper)
    value = evaluate_completed(statistic, done)
    undefined = denominator_is_zero(statistic, done)
    if undefined.any():
        value[undefined] = limit_of(cells, done, statistic, upper=upper)[undefined]
    return value


def at_share(cells: Cells, share: Float) -> Cells:
    """Cells as masses: what follows the covered cases is resolved, a share of each unresolved cell is not."""
    n00, n01, n0c, n10, n11, n1c, nc0, nc1, ncc = (values.astype(np.float64) for values in cells)
    rest = 1.0 - share
    p0, p1 = _part(n01, n00), _part(n11, n10)  # rater positive, given the reference
    q0, q1 = _part(n10, n00), _part(n11, n01)  # reference positive, given the rater
    all_ = n00 + n01 + n10 + n11
    joint = [np.divide(n, all_, out=np.zeros_like(all_), where=all_ > 0) for n in (n00, n01, n10, n11)]
    return Cells(
        n00=n00 + rest * (n0c * (1 - p0) + nc0 * (1 - q0) + ncc * joint[0]),
        n01=n01 + rest * (n0c * p0 + nc1 * (1 - q1) + ncc * joint[1]),
        n10=n10 + rest * (n1c * (1 - p1) + nc0 * q0 + ncc * joint[2]),
        n11=n11 + rest * (n1c * p1 + nc1 * q1 + ncc * joint[3]),
        n0c=share * n0c,
        n1c=share * n1c,
        nc0=share * nc0,
        nc1=share * nc1,
        ncc=share * ncc,
    )


def _part(some: Float, rest: Float) -> Float:
    both = some + rest
    return np.divide(some, both, out=np.zeros_like(both), where=both > 0)


def _follows_nothing(cells: Cells) -> Bool:
    """Whether an unresolved cell is not empty while the covered cases it would follow are."""
    n00, n01, n0c, n10, n11, n1c, nc0, nc1, ncc = cells
    pairs = (
        (n0c, n00 + n01),
        (n1c, n10 + n11),
        (nc0, n00 + n10),
        (nc1, n01 + n11),
        (ncc, n00 + n01 + n10 + n11),
    )
    out = np.zeros(n00.shape, dtype=np.bool_)
    for unresolved, covered in pairs:
        out |= (unresolved > 0) & (covered == 0)
    return out

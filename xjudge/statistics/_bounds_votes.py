"""Ranges of binary statistics where the reference is a vote that open labels may turn, or leave undecided.

A case may come to some of: reference negative, reference positive, no reference (it leaves the table). What
it comes to is settled case by case, so a table is a histogram over kinds of cases, and a completion chooses
for every case. Cases that may leave make it more than a 3 x 3 table; which of them leave is decided here, and
the rest is :func:`xjudge.statistics._bounds_binary.complete`.

Statistics but kappa do not fall as the cells they like grow, nor rise as the others do. (For phi, with
``ad = n00 n11`` and ``bc = n01 n10``: where ``ad > bc`` the derivative of its logarithm along ``n00`` is
``n11 / (ad - bc)``, at least ``1 / n00``, less halves of 1 over its row and its column, each at most that;
where ``ad < bc`` both terms raise it.) So a case that may leave does so where all else that it may come to
does harm, and otherwise stays.

Kappa does not fall as ``n00`` or ``n11`` grow either, but along ``n01`` at a fixed rest it falls, and then
may rise: its derivative has the sign of ``c b^2 - 2 ad b - K`` with ``b = n01``, ``c = n10``. So of the
errors that may leave all do or none does at the upper end. At the lower end the smaller of ``b`` and ``c``
grows as far as it can, their balance is best, and where they cannot be balanced the greater lies at the root.
"""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from xjudge.errors import Reason, StructureError
from xjudge.statistics._bounds_binary import complete
from xjudge.statistics._bounds_cells import (
    Cells,
    Completed,
    Float,
    Range,
    check_statistic,
    evaluate_completed,
    reason_of,
)

__all__ = ["VOTE_KINDS", "vote_bounds"]

Ints = npt.NDArray[np.int64]

VOTE_KINDS = 24
"""Kinds of cases: ``3 bits + said``, bits of (negative 1, positive 2, may leave 4), said 0, 1 or 2 (open)."""

_LIKED = {"rate_reference": ((1, 0), (1, 1)), "rate_rater": ((0, 1), (1, 1))}
_AGREEMENT = ((0, 0), (1, 1))
_KEPT = (0, 1, 2, None)  # of the cases that leave: none, as few as may define the statistic, all


def vote_bounds(kinds: npt.ArrayLike, statistic: str = "accuracy") -> Range:
    """Range of a binary statistic over what cases under a vote may come to.

    Parameters
    ----------
    kinds : array-like of int, shape (..., 24)
        Cases of each kind. Kind ``3 * bits + said``: bits add 1 where the reference may become negative, 2
        where it may become positive and 4 where the case may end without a reference and leave the table;
        said is the rater's verdict, 0, 1 or 2 (open, either).
    statistic : str
        As in :func:`sharp_bounds`.

    Returns
    -------
    lower, upper : ndarray, shape (...)
        The best defined choices; NaN where none defines the statistic.
    reason : ndarray of int8, shape (...)

    Raises
    ------
    ProtocolError
        An unknown statistic.
    StructureError
        Counts of another shape, or that are not counts.

    Examples
    --------
    Three agreements, two errors, and a verdict 1 under a vote that may turn or end in a tie:

    >>> kinds = np.zeros(24, dtype=int)
    >>> kinds[[3 * 1 + 0, 3 * 2 + 1, 3 * 1 + 1, 3 * 7 + 1]] = 1, 2, 2, 1
    >>> found = vote_bounds(kinds, "recall")
    >>> found.lower.item(), found.upper.item()
    (1.0, 1.0)
    >>> found = vote_bounds(kinds, "precision")
    >>> found.lower.item(), found.upper.item()
    (0.4, 0.6)
    """
    check_statistic(statistic)
    counts = np.asarray(kinds)
    if counts.ndim < 1 or counts.shape[-1] != VOTE_KINDS or counts.dtype.kind not in "iufb":
        raise StructureError(f"Kinds of cases are counts of shape (..., {VOTE_KINDS}); got {counts.shape}.")
    if not ((counts >= 0) & (counts == np.floor(counts))).all():
        raise StructureError("Kinds of cases are counted: whole numbers, none negative.")
    flat = counts.reshape(-1, VOTE_KINDS).astype(np.int64)
    ends = []
    for upper in (False, True):
        values = [evaluate_completed(statistic, done) for done in _choices(flat, statistic, upper=upper)]
        ends.append(_best(np.stack(values), upper=upper))
    every = _table(flat, np.zeros(VOTE_KINDS, dtype=bool), [])
    reason = reason_of(statistic, complete(every, statistic, upper=True))
    reason = np.where(np.isnan(ends[1]), np.where(reason > 0, reason, Reason.NO_OVERLAP), 0).astype(np.int8)
    shape = counts.shape[:-1]
    return Range(ends[0].reshape(shape), ends[1].reshape(shape), reason.reshape(shape))


def _best(values: Float, *, upper: bool) -> Float:
    """Best defined value along the first axis; NaN where none is."""
    worst = -np.inf if upper else np.inf
    known = np.where(np.isnan(values), worst, values)
    found = known.max(0) if upper else known.min(0)
    return np.where(np.isinf(found), np.nan, found)


def _cells_of_kind(kind: int) -> list[tuple[int, int]]:
    """Cells (reference, rater) that a case of a kind may come to, but for leaving."""
    bits, said = divmod(kind, 3)
    references = [a for a in (0, 1) if bits >> a & 1]
    return [(a, b) for a in references for b in ((0, 1) if said == 2 else (said,))]


def _choices(counts: Ints, statistic: str, *, upper: bool) -> list[Completed]:
    """Completed tables among which the end is, some of them undefined."""
    liked = _LIKED.get(statistic, _AGREEMENT)
    leaves = np.zeros(VOTE_KINDS, dtype=bool)
    for kind in range(3 * 5, VOTE_KINDS):
        leaves[kind] = not any((cell in liked) == upper for cell in _cells_of_kind(kind))
    groups = [kind for kind in np.flatnonzero(leaves).tolist() if counts[:, kind].any()]
    out = []
    for kept in itertools.product(_KEPT, repeat=len(groups)):
        table = _table(counts, leaves, list(zip(groups, kept, strict=True)))
        out.append(complete(table, statistic, upper=upper))
    if statistic == "kappa" and not upper:
        out += _unbalanced(counts)
    return out


def _table(counts: Ints, leaves: npt.NDArray[np.bool_], kept: list[tuple[int, int | None]]) -> Cells:
    """3 x 3 tables of the cases that stay, with so many of those that leave (``None``: all of them)."""
    table = np.zeros((3, 3, len(counts)), dtype=np.int64)
    most = {kind: counts[:, kind] if n is None else np.minimum(counts[:, kind], n) for kind, n in kept}
    for kind in range(3, VOTE_KINDS):
        bits, said = divmod(kind, 3)
        if bits & 3:
            stay = most.get(kind, np.zeros(len(counts), dtype=np.int64)) if leaves[kind] else counts[:, kind]
            table[(bits & 3) - 1, said] += stay
    return Cells(*table.reshape(9, -1))


def _unbalanced(counts: Ints) -> list[Completed]:
    """Tables of least kappa: agreement only where nothing else is reached, errors as the room says."""

    def total(bits: tuple[int, ...], said: int) -> Ints:
        return np.asarray(counts[:, [3 * bit + said for bit in bits]].sum(-1), dtype=np.int64)

    a, d = total((1,), 0), total((2,), 1)
    least = total((1, 3), 1) + total((1,), 2), total((2, 3), 0) + total((2,), 2)
    most = least[0] + total((5, 7), 1) + total((5,), 2), least[1] + total((6, 7), 0) + total((6,), 2)
    forced = total((3,), 2)
    free = forced + total((7,), 2)
    b = np.clip((most[0] + most[1] + free) // 2, most[0], most[0] + free)
    c = most[0] + most[1] + free - b
    out = [Completed(a, b, c, d)]
    # fewer of the greater: one less where that balances them, or as many as the root says
    fewest = (
        least[0] + np.maximum(forced - (c - least[1]), 0),
        least[1] + np.maximum(forced - (b - least[0]), 0),
    )
    for b_fewer in (b - 1, _root(a, d, c), _root(a, d, c) + 1):
        out.append(Completed(a, np.where(b > c, np.clip(b_fewer, np.minimum(fewest[0], b), b), b), c, d))
    for c_fewer in (c - 1, _root(a, d, b), _root(a, d, b) + 1):
        out.append(Completed(a, b, np.where(c > b, np.clip(c_fewer, np.minimum(fewest[1], c), c), c), d))
    return out


def _root(a: Ints, d: Ints, smaller: Ints) -> Ints:
    """Where kappa stops falling as the greater kind of errors grows, rounded down."""
    x, y, c = a.astype(np.float64), d.astype(np.float64), smaller.astype(np.float64)
    product = x * y
    constant = c * c * (x + c + y) + 2 * x * y * c + product * (x + y)
    above = product + np.sqrt(product * product + c * constant)
    root = np.divide(above, c, out=np.full(c.shape, 2.0**52), where=c > 0)
    return np.asarray(np.minimum(root, 2.0**52), dtype=np.int64)

"""Votes of the leave-one-out rule, decided in integers (LOO.md section 1)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError

__all__ = ["Decimal", "Votes", "count_votes", "exact_wins", "read_decimal", "votes_needed"]

Float = npt.NDArray[np.float64]

Decimal: TypeAlias = float | str | Fraction


class Votes(NamedTuple):
    """The count of votes of the rule; shapes (...).

    Attributes
    ----------
    wins, n_available, needed : ndarray of int64
        Comparisons won; comparisons with any overlap; wins that accept.
    omega : ndarray of float
        ``wins / n_available``; NaN without any comparison.
    tie : ndarray of bool
        Whether omega is exactly the threshold.
    accept_point : ndarray of float
        1 or 0; NaN without any comparison.
    """

    wins: npt.NDArray[np.int64]
    n_available: npt.NDArray[np.int64]
    needed: npt.NDArray[np.int64]
    omega: Float
    tie: npt.NDArray[np.bool_]
    accept_point: Float


def read_decimal(value: Decimal, name: str) -> Fraction:
    """Read a number as the decimal that is written: ``0.05`` is 1/20, not the double next to it.

    Parameters
    ----------
    value : float, str or Fraction
    name : str
        The argument, for the message.

    Returns
    -------
    Fraction

    Raises
    ------
    ProtocolError
        Where it is not a finite number.

    Examples
    --------
    >>> read_decimal(0.05, "eps")
    Fraction(1, 20)
    """
    try:
        return Fraction(str(value))
    except (ValueError, ZeroDivisionError):
        raise ProtocolError(f"`{name}` must be a finite number; got {value!r}.") from None


def votes_needed(n_available: npt.ArrayLike, threshold: Decimal = 0.5, *, strict: bool = False) -> Any:
    """How many wins accept: the smallest ``c`` with ``c / n_available >= threshold`` (``>`` if strict).

    Parameters
    ----------
    n_available : array-like of int
        Comparisons with any overlap.
    threshold : float
        In (0, 1], or in [0, 1) where strict; read as the decimal that is written.
    strict : bool

    Returns
    -------
    ndarray of int64, same shape

    Raises
    ------
    ProtocolError
        Where the threshold would accept, or reject, every judge.

    Examples
    --------
    >>> votes_needed([3, 4, 5]), votes_needed([3, 4, 5], strict=True)
    (array([2, 2, 3]), array([2, 3, 3]))
    """
    share = read_decimal(threshold, "threshold")
    if not (0 <= share < 1 if strict else 0 < share <= 1):
        raise ProtocolError(
            f"`threshold` must lie in {'[0, 1)' if strict else '(0, 1]'}"
            f"{' for a strict rule' if strict else ''}, else every judge has one answer; got {threshold!r}."
        )
    available = np.asarray(n_available, dtype=np.int64)
    # In Python integers, once for each number of comparisons that occurs.
    scaled = np.arange(int(available.max(initial=0)) + 1).astype(object) * share.numerator
    whole = scaled // share.denominator
    needed = whole + 1 if strict else -(-scaled // share.denominator)
    return np.asarray(needed, dtype=np.int64)[available]


def exact_wins(
    difference: npt.ArrayLike, overlap: npt.ArrayLike, eps: Decimal
) -> tuple[Float, npt.NDArray[np.bool_]]:
    """Decide ``(A - H) / W + eps >= 0`` in integers.

    Parameters
    ----------
    difference, overlap : array-like of int
        ``A_k - H_k`` and ``W_k``, any shape.
    eps : float
        Read as the decimal that is written.

    Returns
    -------
    win : ndarray of float
        1 or 0; NaN where there is no overlap.
    tie : ndarray of bool
        Whether the margin is exactly zero, which is a win.

    Examples
    --------
    Three of twenty against four of twenty less 0.05 is a tie, though ``3/20 >= 4/20 - 0.05`` is false in
    doubles:

    >>> exact_wins([-1], [20], 0.05)
    (array([1.]), array([ True]))
    """
    tolerance = read_decimal(eps, "eps")
    d, w = np.asarray(difference, dtype=np.int64), np.asarray(overlap, dtype=np.int64)
    largest = max(int(np.abs(d).max(initial=0)), int(w.max(initial=0)))
    if largest * (tolerance.denominator + abs(tolerance.numerator)) >= 2**62:
        d, w = d.astype(object), w.astype(object)
    scaled = tolerance.denominator * d + tolerance.numerator * w
    available = np.asarray(w > 0, dtype=bool)
    win = np.where(available, np.asarray(scaled >= 0, dtype=np.float64), np.nan)
    return win, np.asarray(scaled == 0, dtype=bool) & available


def count_votes(win: Float, threshold: Decimal = 0.5, *, strict: bool = False) -> Votes:
    """Count the wins of each judge and apply the threshold.

    Parameters
    ----------
    win : ndarray of float, shape (..., K)
        1, 0 or NaN (no vote).
    threshold, strict
        As in :func:`votes_needed`.

    Returns
    -------
    Votes

    Examples
    --------
    >>> votes = count_votes(np.array([1.0, 1.0, 0.0, 0.0, np.nan]))
    >>> votes.omega, votes.tie, votes.accept_point
    (array(0.5), np.True_, array(1.))
    """
    share = read_decimal(threshold, "threshold")
    available = np.isfinite(win)
    n_available = np.count_nonzero(available, axis=-1).astype(np.int64)
    wins = np.count_nonzero(available & (win > 0), axis=-1).astype(np.int64)
    needed = votes_needed(n_available, threshold, strict=strict)
    some = n_available > 0
    omega = np.divide(wins, n_available, out=np.full(np.shape(wins), np.nan), where=some)
    whole = [
        divmod(n * share.numerator, share.denominator) for n in range(int(n_available.max(initial=0)) + 1)
    ]
    exact = np.array([quotient if rest == 0 else -1 for quotient, rest in whole], dtype=np.int64)
    tie = some & (wins == exact[n_available])
    accept = np.where(some, (wins >= needed).astype(np.float64), np.nan)
    return Votes(wins, n_available, needed, omega, tie, accept)

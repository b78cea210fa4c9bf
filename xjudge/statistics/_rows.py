"""Distinct rows of whole numbers, and how often each occurs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["Ints", "Rows", "distinct_rows", "row_histogram"]

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.integer]

_WORD = 62
"""Bits of a row that are packed into one number."""

_BLOCK = 1 << 16
"""Rows whose numbers are held at a time."""

_LARGEST_TABLE, _SMALL_TABLE = 1 << 22, 1 << 16
"""Bins of a table in which rows are counted: at most so many; above the smaller, no more than rows."""


def row_histogram(rows: Rows) -> tuple[Rows, Ints]:
    """Distinct rows in lexicographic order, and how often each occurs.

    Parameters
    ----------
    rows : ndarray of int, shape (n, W)
        In any layout.

    Returns
    -------
    distinct : ndarray, shape (U, W)
    counts : ndarray of int64, shape (U,)

    Notes
    -----
    Where all rows that could be are few, a row is one number and those are counted in a table, block by
    block; otherwise they are sorted.

    Examples
    --------
    >>> row_histogram(np.array([[1, 0], [0, 2], [1, 0]]))
    (array([[0, 2],
           [1, 0]]), array([1, 2]))
    """
    n, width = rows.shape
    if not n or not width:
        return distinct_rows(rows)[:2]
    low = int(rows.min())
    radix = int(rows.max()) - low + 1
    bins = radix**width if width * radix.bit_length() < _WORD else _LARGEST_TABLE + 1
    if bins > min(_LARGEST_TABLE, max(_SMALL_TABLE, n)):
        return distinct_rows(rows)[:2]
    totals = np.zeros(bins, dtype=np.int64)
    dtype: np.dtype[np.signedinteger] = np.dtype(np.int32 if rows.dtype.itemsize < 4 else np.int64)
    for start in range(0, n, _BLOCK):
        block = np.ascontiguousarray(rows[start : start + _BLOCK].T)
        number = np.zeros(block.shape[1], dtype=dtype)
        for column in block:
            number *= radix
            number += np.subtract(column, low, dtype=dtype)
        totals += np.bincount(number, minlength=bins)
    present = np.flatnonzero(totals)
    distinct = np.empty((len(present), width), dtype=rows.dtype)
    rest = present
    for place in reversed(range(width)):
        rest, digit = np.divmod(rest, radix)
        distinct[:, place] = digit + low
    return distinct, totals[present]


def distinct_rows(rows: Rows, counts: Ints | None = None) -> tuple[Rows, Ints, npt.NDArray[np.intp]]:
    """Distinct rows in lexicographic order.

    Parameters
    ----------
    rows : ndarray of int, shape (n, W)
    counts : ndarray of int64, shape (n,), optional
        How often each row counts; ones by default.

    Returns
    -------
    distinct : ndarray, shape (U, W)
    counts : ndarray of int64, shape (U,)
    place : ndarray of int, shape (n,)
        Where each row went.

    Examples
    --------
    >>> distinct_rows(np.array([[1, 0], [0, 2], [1, 0]]))[:2]
    (array([[0, 2],
           [1, 0]]), array([1, 2]))
    """
    if not len(rows) or not rows.shape[1]:
        total = np.array([len(rows) if counts is None else counts.sum()], dtype=np.int64)
        return rows[:1], total[: len(rows[:1])], np.zeros(len(rows), dtype=np.intp)
    words = _packed(rows)
    if len(words) == 1:
        _, first, place = np.unique(words[0], return_index=True, return_inverse=True)
    else:
        order = np.lexsort(words[::-1])
        changed = np.zeros(len(order), dtype=bool)
        for word in words:
            ordered = word[order]
            changed[1:] |= ordered[1:] != ordered[:-1]
        changed[0] = True
        first = order[changed]
        place = np.empty(len(order), dtype=np.intp)
        place[order] = np.cumsum(changed) - 1
    found = np.bincount(place, weights=counts, minlength=len(first)).astype(np.int64)
    return rows[first], found, place


def _packed(rows: Rows) -> list[Ints]:
    """Rows as few numbers each; comparing those one after the other compares the rows."""
    low = int(rows.min())
    radix = int(rows.max()) - low + 1
    digits = max(1, _WORD // max(1, radix.bit_length()))
    words = []
    for start in range(0, rows.shape[1], digits):
        word = np.zeros(len(rows), dtype=np.int64)
        for column in rows[:, start : start + digits].T:
            word *= radix
            word += column
            word -= low
        words.append(word)
    return words

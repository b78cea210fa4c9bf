"""Compiled counting of labels class by class of items (the ``fast`` extra); imported inside functions only.

Items are put in the order of their classes, a stretch that stays in a cache at a time, and counted as bit
planes: the numpy way of :mod:`xjudge.statistics._class_tables` gives the same integers and is the oracle.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from xjudge.statistics._fast import _equal, _label, _ones, _raise, _turn_rows

__all__ = ["count_classes"]

_WORD = 64

_ITEMS = 1 << 15
"""Items that are put in order at a time: the labels of 32 raters fill the second-level cache."""

_PLANES = 1 << 13
"""Words of all bit planes of a stretch of items."""

_NOBODY = -128
"""What stands after the last item of a stretch: no code that is counted."""


@njit(cache=True, nogil=True, inline="always")
def _byte(address: int) -> Any:
    """The label at an address, without its sign."""
    return np.uint64(np.uint8(_label(address)))


@njit(cache=True, nogil=True, inline="always")
def _sort(
    side: Any,
    columns: Any,
    weights: Any,
    classes: Any,
    first: int,
    last: int,
    of_item: Any,
    ends: Any,
) -> Any:
    """Items of a stretch, those of a class one after the other; ``ends`` says where each class ends."""
    n = last - first
    base, stride = side[0] + first * side[1], side[1]
    of_item[:n] = 0
    by_four = len(columns) // 4 * 4
    for k in range(0, by_four, 4):
        c0, c1, c2, c3 = columns[k], columns[k + 1], columns[k + 2], columns[k + 3]
        w0, w1, w2, w3 = weights[k], weights[k + 1], weights[k + 2], weights[k + 3]
        for i in range(n):
            row = base + i * stride
            two = w0[_byte(row + c0)] + w1[_byte(row + c1)]
            of_item[i] += two + w2[_byte(row + c2)] + w3[_byte(row + c3)]
    for k in range(by_four, len(columns)):
        for i in range(n):
            of_item[i] += weights[k, _byte(base + i * stride + columns[k])]
    ends[:] = 0
    for i in range(n):  # numbers have no sign, so that places are read without a look at it
        place = np.uint32(classes[np.uint32(of_item[i])] + 1)
        of_item[i] = place
        ends[place] += 1
    for c in range(1, len(ends)):
        ends[c] += ends[c - 1]
    order = np.empty(n, np.int32)
    for i in range(n - 1, -1, -1):
        place = np.uint32(of_item[i])
        ends[place] -= 1
        order[np.uint64(ends[place])] = first + i
    for c in range(len(ends) - 1):
        ends[c] = ends[c + 1]
    ends[len(ends) - 1] = n
    return order


@njit(cache=True, nogil=True, inline="always")
def _gather(side: Any, columns: Any, order: Any, n_items: int, rows: Any) -> None:
    """Copy chosen items of a side (item, column) to rows (column, item), up to a whole word of items."""
    base, stride, width, _ = side
    n = len(order)
    if stride == 1:
        for j in range(len(columns)):
            for i in range(n):
                rows[j, i] = _label(base + columns[j] + order[i])
    else:
        address, pitch = rows.ctypes.data, rows.shape[1]
        tiled = n // 8 * 8
        if width < 8:  # a tile reads beyond its rows, but never beyond the array
            while tiled and order[tiled - 1] > n_items - 16:
                tiled -= 8
        for i in range(0, tiled, 8):
            eight = (
                base + stride * order[i],
                base + stride * order[i + 1],
                base + stride * order[i + 2],
                base + stride * order[i + 3],
                base + stride * order[i + 4],
                base + stride * order[i + 5],
                base + stride * order[i + 6],
                base + stride * order[i + 7],
            )
            for place in range(0, width, 8):
                c = max(0, min(place, width - 8))
                _turn_rows(eight, c, address + c * pitch + i, pitch)
        for i in range(tiled, n):
            for c in range(width):
                rows[c, i] = _label(base + order[i] * stride + c)
    for c in range(len(rows)):
        for i in range(n, (n + _WORD - 1) // _WORD * _WORD):
            rows[c, i] = _NOBODY


@njit(cache=True, nogil=True, inline="always")
def _used(planes: Any, complete: bool, n_words: int) -> int:
    """Items with a label, or with all of them: the planes then keep no other item."""
    total = 0
    for word in range(n_words):
        mask = ~np.uint64(0) if complete else np.uint64(0)
        for j in range(planes.shape[0]):
            answered = np.uint64(0)
            for x in range(planes.shape[1]):
                answered |= planes[j, x, word]
            if complete:
                mask &= answered
            else:
                mask |= answered
        total += _ones(mask)
        if complete:
            for j in range(planes.shape[0]):
                for x in range(planes.shape[1]):
                    planes[j, x, word] &= mask
    return total


@njit(cache=True, nogil=True)
def count_classes(
    first_side: Any,
    first_columns: npt.NDArray[np.int64],
    weights: npt.NDArray[np.int32],
    classes: npt.NDArray[np.int32],
    side: Any,
    columns: npt.NDArray[np.int64],
    codes: npt.NDArray[np.int8],
    complete: bool,
    n_items: int,
    joint: npt.NDArray[np.int64],
    margins: npt.NDArray[np.int64],
    used: npt.NDArray[np.int64],
    seen: npt.NDArray[np.int64],
) -> int:
    """Add up counts of the codes of columns, class by class of items.

    The class of an item is ``classes[sum of weights[k, byte]]`` over the bytes of the columns of the first
    side, negative for none. ``joint`` (class, A, B, code, code) has the pairs A < B, or no class at all;
    ``margins`` (class, A, code) the single columns, ``used`` (class,) the items with a label (with all of
    them where ``complete``, and then other items count in neither), ``seen`` all items of as many classes
    as it is long. Returned is the greatest code of the columns. Sides are those of
    :func:`xjudge.statistics._fast.count_joint`.
    """
    k, n_codes = len(columns), len(codes)
    n_words = max(8, min(256, _PLANES // max(1, k * n_codes)))
    at_once = _WORD * n_words
    height = k if side[1] == 1 else side[2]
    rows = np.empty((max(8, height), _WORD * (n_words + 1)), np.int8)
    planes = np.empty((k, n_codes, n_words), np.uint64)
    of_item = np.empty(_ITEMS, np.int32)
    ends = np.empty(len(seen) + 1, np.int64)
    most = np.full(_WORD, _NOBODY, np.int8)
    for first in range(0, n_items, _ITEMS):
        last = min(n_items, first + _ITEMS)
        order = _sort(first_side, first_columns, weights, classes, first, last, of_item, ends)
        for c in range(len(seen)):
            seen[c] += ends[c + 1] - ends[c]
        for c in range(len(used)):
            for start in range(ends[c], ends[c + 1], at_once):
                chosen = order[start : min(start + at_once, ends[c + 1])]
                filled = (len(chosen) + _WORD - 1) // _WORD
                _gather(side, columns, chosen, n_items, rows)
                for j in range(k):
                    place = j if side[1] == 1 else columns[j]
                    address = rows.ctypes.data + place * rows.shape[1]
                    for word in range(filled):
                        _raise(most.ctypes.data, address + _WORD * word)
                    for x in range(n_codes):
                        for word in range(filled):
                            planes[j, x, word] = _equal(address + _WORD * word, codes[x])
                used[c] += _used(planes, complete, filled)
                for i in range(k):
                    for x in range(n_codes):
                        total = 0
                        for word in range(filled):
                            total += _ones(planes[i, x, word])
                        margins[c, i, x] += total
                if len(joint):
                    for i in range(k):
                        for j in range(i + 1, k):
                            for x in range(n_codes):
                                for y in range(n_codes):
                                    total = 0
                                    for word in range(filled):
                                        total += _ones(planes[i, x, word] & planes[j, y, word])
                                    joint[c, i, j, x, y] += total
    return most.max()

"""Labels counted class by class of items: what the other labels of an item are decides its class.

Sums over items of anything that depends on a pair of labels and on the class of the item are products of
these tables with the values of the classes. The tables are integers, so that they add up over blocks of items
to the same numbers whatever the blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.codes import N_OUTCOMES
from xjudge.statistics._kernels import Side, compiled, side_of
from xjudge.statistics.counts import Axes, Request, count_block, margins
from xjudge.statistics.counts import pairs as pairs_of

__all__ = ["ClassTables", "Classes", "class_tables"]

Codes = npt.NDArray[np.signedinteger]
Bytes = npt.NDArray[np.int8]
Counts = npt.NDArray[np.int64]

_BEYOND = -100
"""Stands for codes that do not fit a byte: neither category nor outcome."""


class Classes(NamedTuple):
    """How the class of an item follows from some of its labels.

    Attributes
    ----------
    weights : ndarray of int32, shape (column, 256)
        What each label, read as a byte without sign, adds to the number of its item.
    classes : ndarray of int32, shape (number,)
        Class of each number, negative for none.
    n_tables : int
        Classes whose labels are counted: the first ones.
    n_classes : int
        Classes whose items are counted.
    """

    weights: npt.NDArray[np.int32]
    classes: npt.NDArray[np.int32]
    n_tables: int
    n_classes: int


class ClassTables(NamedTuple):
    """Counts that add up over disjoint items.

    Attributes
    ----------
    joint : ndarray (table, A, B, code, code)
        Joint counts of the columns A < B, zeros elsewhere; no table where pairs were not asked for.
    margins : ndarray (table, A, code)
        Counts of single columns.
    used : ndarray (table,)
        Items with a label; with a label in every column where only complete ones count.
    seen : ndarray (class,)
        Items.
    """

    joint: Counts
    margins: Counts
    used: Counts
    seen: Counts


def class_tables(
    first: Codes, codes: Codes, classes: Classes, kept: Sequence[int], *, pairs: bool, complete: bool = False
) -> tuple[ClassTables, int]:
    """Count the labels of columns, class by class.

    Parameters
    ----------
    first : ndarray of int, shape (item, K)
        Codes that decide the class.
    codes : ndarray of int, shape (item, k)
        Codes that are counted.
    classes : Classes
    kept : sequence of int
        The codes to count, in the order of the tables; they fit a byte. Any other is no label.
    pairs : bool
        Whether pairs of columns are counted.
    complete : bool
        Count only items with a label in every column.

    Returns
    -------
    ClassTables
    int
        The greatest code of the columns, on items of the classes that are counted.

    Notes
    -----
    Items are sorted by class and each class is counted as one set of pair tables: the cost of these, and of
    one copy of the labels.
    """
    k, n_kept = codes.shape[1], len(kept)
    out = ClassTables(
        np.zeros((classes.n_tables if pairs else 0, k, k, n_kept, n_kept), dtype=np.int64),
        np.zeros((classes.n_tables, k, n_kept), dtype=np.int64),
        np.zeros(classes.n_tables, dtype=np.int64),
        np.zeros(classes.n_classes, dtype=np.int64),
    )
    first, codes = _bytes(first), _bytes(codes)
    if not codes.size or compiled(codes.size) is None:
        _count(first, codes, classes, kept, complete, out)
        return out, int(codes.max(initial=_BEYOND))
    return out, _count_compiled(first, codes, classes, kept, complete, out)


def _bytes(codes: Codes) -> Bytes:
    """The same codes as bytes."""
    if codes.dtype == np.int8:
        return codes
    ends = np.iinfo(np.int8)
    return np.where((codes < ends.min) | (codes > ends.max), _BEYOND, codes).astype(np.int8)


def _count_compiled(
    first: Bytes, codes: Bytes, classes: Classes, kept: Sequence[int], complete: bool, out: ClassTables
) -> int:
    """Fill tables by compiled bit planes."""
    from xjudge.statistics._fast_classes import count_classes

    a, b = _side(first), _side(codes)
    greatest: int = count_classes(
        *(a.layout, a.columns, classes.weights, classes.classes),
        *(b.layout, b.columns, np.array(kept, dtype=np.int8)),
        *(complete, len(codes), *out),
    )
    return greatest


def _side(codes: Bytes) -> Side:
    """Labels where they stand, or copied."""
    found = side_of(codes[:, :, None])
    if found is not None:
        return found
    rows = np.ascontiguousarray(codes)
    k = rows.shape[1]
    return Side((rows.__array_interface__["data"][0], k, k, 1), np.arange(k), rows)


def _count(
    first: Bytes, codes: Bytes, classes: Classes, kept: Sequence[int], complete: bool, out: ClassTables
) -> None:
    """Fill tables with numpy, one class after the other."""
    number = np.zeros(len(first), dtype=np.int32)
    for column, weights in zip(first.T, classes.weights, strict=True):
        number += weights[column.view(np.uint8)]
    of_item = classes.classes[number]
    # of 16 bits, where they do: such are sorted in time linear in the items
    small = of_item.astype(np.int16) if classes.n_classes <= np.iinfo(np.int16).max else of_item
    order = np.argsort(small, kind="stable")
    ends = np.searchsorted(small[order], np.arange(classes.n_classes + 1))
    out.seen[:] = np.diff(ends)
    is_kept = np.zeros(256, dtype=np.bool_)
    is_kept[np.array(kept, dtype=np.int8).view(np.uint8)] = True
    request = _request(kept, pairs=len(out.joint) > 0)
    own, places = np.arange(codes.shape[1]), np.arange(len(kept))
    for c in np.flatnonzero(out.seen[: classes.n_tables]):
        labels = codes[order[ends[c] : ends[c + 1]]]
        answered = is_kept[labels.view(np.uint8)]
        if complete:
            labels, answered = labels[answered.all(1)], answered[:0]
        out.used[c] = len(labels) if complete else np.count_nonzero(answered.any(1))
        ((counted,),) = count_block([request], Axes(), {"codes": labels[:, :, None]})[0]
        if len(out.joint):
            out.margins[c] = counted[0, own[:, None], own[:, None], places, places]
            out.joint[c] = counted[0] * (own[:, None] < own)[:, :, None, None]
        else:
            out.margins[c] = counted[0][:, [_axis(max(kept) + 1).index(code) for code in kept]]


def _request(kept: Sequence[int], *, pairs: bool) -> Request:
    """What is counted of the labels of a class."""
    n = max((-1, *kept)) + 1
    if not pairs:
        return margins(n)
    places = {code: place for place, code in enumerate(kept)}
    return pairs_of(n, right=None, left_targets=[places.get(code, -1) for code in _axis(n)])


def _axis(n_categories: int) -> list[int]:
    """Codes of the raw axis."""
    return [*range(n_categories), *(-1 - outcome for outcome in range(N_OUTCOMES))]

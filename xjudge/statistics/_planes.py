"""Pair tables as products of indicator columns: bit planes, compiled bit planes, and sparse columns.

A column of labels with ``K`` codes is ``K - 1`` columns of zeros and ones; the code that is left out follows
from the margins, whatever its place. What two columns have in common is counted 64 items at a time, by AND
and population counts, or item by item where few labels differ from the code that is left out (hundreds of
raters, each of whom saw few items).
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from xjudge.statistics._columns import Columns, Tables
from xjudge.statistics._kernels import Side, side_of

__all__ = [
    "SPARSE_ITEMS",
    "by_compiled_planes",
    "by_planes",
    "by_sparse_columns",
    "common_codes",
    "compiled_margins",
]

_WORD = 64

_PLANE_WORDS = 1 << 16
"""Words of the bit planes that are held at a time, so that they stay in a cache."""

_COPIED_ITEMS = 1 << 16
"""Items whose labels are copied for a compiled kernel that cannot read them where they stand."""

SPARSE_ITEMS = 1 << 15
"""Items whose indicator columns are held at a time."""

_SAMPLED_ITEMS = 256


def by_planes(counts: Tables, left: Columns, right: Columns | None) -> None:
    """Fill counts (cell, A, B, radix, radix) by numpy bit planes."""
    other = left if right is None else right
    n_items = len(left.codes)
    n_planes = left.n_columns * left.radix + (0 if right is None else other.n_columns * other.radix)
    step = _WORD * max(1, _PLANE_WORDS // max(1, n_planes))
    margins = _margins(left, right)
    for start in range(0, n_items, step):
        items = slice(start, start + step)
        for cell, joint in enumerate(counts):
            a = _planes(left, items, cell, margins[0][cell])
            b = a if right is None else _planes(right, items, cell, margins[1][cell])
            for i, planes in enumerate(a):
                first = i + 1 if right is None else 0
                for x, plane in enumerate(planes):
                    met = np.bitwise_count(b[first:] & plane).sum(-1, dtype=np.int64)
                    joint[i, first:, x + 1, 1:] += met
    _complete(counts, *margins, n_items, (0, 0), each_other=right is None)


def _planes(columns: Columns, items: slice, cell: int, margins: Tables) -> npt.NDArray[np.uint64]:
    """Bit planes (column, code, word) of all codes but the least; their bits are added to the margins."""
    (rows,) = columns.block(items, slice(cell, cell + 1))
    out = np.zeros((len(rows), columns.radix - 1, -(-rows.shape[1] // _WORD)), dtype=np.uint64)
    packed = out.view(np.uint8)
    for x in range(columns.radix - 1):
        bits = np.packbits(rows == columns.bounds[0] + 1 + x, axis=-1)
        packed[:, x, : bits.shape[1]] = bits
    margins[:, 1:] += np.bitwise_count(out).sum(-1, dtype=np.int64)
    return out


def by_compiled_planes(counts: Tables, left: Columns, right: Columns | None, *, fast: ModuleType) -> None:
    """Fill counts (cell, A, B, radix, radix) by compiled bit planes; codes fit a byte."""
    other = left if right is None else right
    margins = _margins(left, right)
    codes = _bytes(left), _bytes(other)
    joint = np.zeros((*counts.shape[:3], len(codes[0]), len(codes[1])), dtype=np.int64)
    a_counts = np.zeros((*margins[0].shape[:2], len(codes[0])), dtype=np.int64)
    b_counts = a_counts if right is None else np.zeros((*margins[1].shape[:2], len(codes[1])), dtype=np.int64)
    for n, a, b in _sides(left, right):
        fast.count_joint(
            *(a.layout, a.columns, codes[0]),
            *(b.layout, b.columns, codes[1]),
            *(right is None, n, joint, a_counts, b_counts),
        )
    counts[..., 1:, 1:] = joint
    margins[0][..., 1:], margins[1][..., 1:] = a_counts, b_counts
    _complete(counts, *margins, len(left.codes), (0, 0), each_other=right is None)


def compiled_margins(counts: Tables, columns: Columns, fast: ModuleType) -> None:
    """Fill counts (cell, column, radix) of single columns by compiled bit planes; codes fit a byte."""
    codes = _bytes(columns)
    n_cells, n_columns, _ = counts.shape
    kept = np.zeros((n_cells, n_columns, len(codes)), dtype=np.int64)
    joint = np.zeros((n_cells, n_columns, 0, len(codes), 0), dtype=np.int64)
    nobody = np.zeros((n_cells, 0, 0), dtype=np.int64)
    for n, a, _ in _sides(columns, None):
        fast.count_joint(
            a.layout, a.columns, codes, a.layout, a.columns[:0], codes[:0], False, n, joint, kept, nobody
        )
    counts[..., 1:] = kept
    counts[..., 0] = len(columns.codes) - kept.sum(-1)


def _bytes(columns: Columns) -> npt.NDArray[np.int8]:
    """All codes but the least."""
    return np.arange(columns.bounds[0] + 1, columns.bounds[1] + 1).astype(np.int8)


def _sides(left: Columns, right: Columns | None) -> Iterator[tuple[int, Side, Side]]:
    """Stretches of items: how many, and the labels of both sides; all at once where nothing is copied."""
    n_items = len(left.codes)
    copied = any(_in_place(side, slice(None)) is None for side in (left, right) if side is not None)
    step = _COPIED_ITEMS if copied else n_items
    for start in range(0, n_items, step):
        items = slice(start, start + step)
        a = _side(left, items)
        yield min(n_items - start, step), a, a if right is None else _side(right, items)


def _in_place(columns: Columns, items: slice) -> Side | None:
    """How labels are read where they stand; ``None`` where codes beyond the scale must be gathered first."""
    return side_of(columns.codes[items], columns.chosen) if columns.inside else None


def _side(columns: Columns, items: slice) -> Side:
    """Labels of some items, where they stand or copied."""
    found = _in_place(columns, items)
    if found is not None:
        return found
    rows = np.ascontiguousarray(columns.block(items).astype(np.int8, copy=False))
    n_columns, n_items = rows.shape[1:]
    address = rows.__array_interface__["data"][0]
    return Side((address, 1, 0, n_columns * n_items), np.arange(n_columns) * n_items, rows)


# --------------------------------------------------------------------------------------------- sparse columns


def common_codes(columns: Columns) -> tuple[int, npt.NDArray[np.float64]]:
    """The most frequent code, and per item of a sample how many labels differ from it (item,).

    The sample is a few items at equal distances; on it depends only which kernel counts.
    """
    sample = columns.codes[:: max(1, len(columns.codes) // _SAMPLED_ITEMS)]
    if columns.chosen is not None:
        sample = sample[:, list(columns.chosen)]
    sample = sample.clip(*columns.bounds)
    values, counts = np.unique(sample, return_counts=True)
    common = int(values[counts.argmax()]) if len(values) else columns.bounds[0]
    return common, (sample != common).sum(1).mean(-1)


def by_sparse_columns(
    counts: Tables, left: Columns, right: Columns | None, *, common: tuple[int, int]
) -> None:
    """Fill counts (cell, A, B, radix, radix) by products of sparse columns, ``common`` codes left out."""
    other = left if right is None else right
    n_items = len(left.codes)
    margins = _margins(left, right)
    left_out = common[0] - left.bounds[0], common[1] - other.bounds[0]
    for start in range(0, n_items, SPARSE_ITEMS):
        items = slice(start, start + SPARSE_ITEMS)
        for cell, joint in enumerate(counts):
            a = _indicators(left, items, cell, common[0], margins[0][cell])
            b = a if right is None else _indicators(right, items, cell, common[1], margins[1][cell])
            shape = (*joint.shape[:1], left.radix, other.n_columns, other.radix)
            joint += (a.T @ b).toarray().reshape(shape).swapaxes(1, 2)
    _complete(counts, *margins, n_items, left_out, each_other=False)


def _indicators(columns: Columns, items: slice, cell: int, common: int, margins: Tables) -> Any:
    """Sparse indicator columns (item, column x code); their sums are added to the margins."""
    from scipy.sparse import csr_array

    part = columns.codes[items, :, cell]
    part = part if columns.chosen is None else part[:, list(columns.chosen)]
    part = part if columns.inside else part.clip(*columns.bounds)
    n_items, n_columns = part.shape
    found = np.flatnonzero(part != common)
    column = found % max(1, n_columns)
    place = column * columns.radix + (part.ravel()[found].astype(np.int64) - columns.bounds[0])
    ends = np.searchsorted(found, np.arange(n_items + 1) * n_columns)
    margins += np.bincount(place, minlength=margins.size).reshape(margins.shape)
    ones = np.ones(len(found), dtype=np.int64)
    return csr_array((ones, place, ends), shape=(n_items, n_columns * columns.radix))


# ------------------------------------------------------------------------------------------- what is left out


def _margins(left: Columns, right: Columns | None) -> tuple[Tables, Tables]:
    """Places for the counts (cell, column, radix) of both sides: one array where there is one side."""
    n_cells = left.codes.shape[2]
    a = np.zeros((n_cells, left.n_columns, left.radix), dtype=np.int64)
    return a, (a if right is None else np.zeros((n_cells, right.n_columns, right.radix), dtype=np.int64))


def _complete(
    counts: Tables,
    of_left: Tables,
    of_right: Tables,
    n_items: int,
    left_out: tuple[int, int],
    *,
    each_other: bool,
) -> None:
    """Fill in what concerns the codes that were left out; with ``each_other``, all pairs but A < B too."""
    a, b = left_out
    of_left[..., a] = n_items - (of_left.sum(-1) - of_left[..., a])
    if of_right is not of_left:
        of_right[..., b] = n_items - (of_right.sum(-1) - of_right[..., b])
    if each_other:
        i, j = np.triu_indices(counts.shape[1], 1)
        own = np.arange(counts.shape[1])
        counts[:, own, own] = of_left[..., None] * np.eye(counts.shape[-1], dtype=np.int64)
        counts[:, own, own, a] = counts[:, own, own, :, b] = 0
    counts[..., a, :] = of_right[:, None] - counts.sum(-2)
    counts[..., :, b] = of_left[:, :, None] - (counts.sum(-1) - counts[..., b])
    if each_other:
        counts[:, j, i] = counts[:, i, j].swapaxes(-1, -2)

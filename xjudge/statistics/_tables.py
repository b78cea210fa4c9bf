"""Kernels that count codes: from columns of small integers to tables of int64.

All kernels give the same integers; which one counts depends on the numbers of items n and of columns R, on
the codes that occur (K of them), on how the array lies in memory, on how many labels differ from the most
frequent code, and on whether numba is present. The rule is the least of stated costs, in nanoseconds:

* *one bincount* over every pair, up to 65,536 pairs of labels: least Python.
* *groups of raters*: the codes of several raters, digits of a number in a mixed radix, make one code; one
  bincount over the joint code of two groups counts all their joint patterns, and the pair tables are margins
  of that histogram: about ``n R / 3`` and ``1.4 n`` for each two groups, which hold as many raters as fit
  65,536 patterns. The best of numpy for 3 to some 60 raters.
* *bit planes* in numpy: ``n R K / 10 + n P K^2 / 47`` for P pairs of columns and K codes but one. The best of
  numpy for two raters and for very many.
* *compiled bit planes* (numba), from half a million labels on: ``n R K / 40 + n P K^2 / 450``. Labels are
  read where they stand: rater-major arrays, whose items are next to each other, without a copy, item-major
  ones turned within a cache; anything else (wide integers, criteria between raters) is copied block by
  block. 3 to 10 times as fast as the best of numpy unless there are dozens of codes.
* *sparse columns*, from 64 columns on: ``3 n R + 5 m`` with m the products of labels that differ from the
  most frequent code, estimated from 256 items at equal distances, and 6 for each cell of the tables a block.

One-hot matrix products never win, are much slower under a threaded BLAS, and are silently wrong in int8. The
compiled kernels release Python's lock; ``bincount`` keeps it, about half of the work of the groups.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType

import numpy as np
import numpy.typing as npt

from xjudge.statistics._columns import Codes, Columns, Tables, places_of
from xjudge.statistics._kernels import compiled

__all__ = ["Columns", "column_counts", "pair_tables", "places_of"]

_SMALL_CELL, _SMALL = 1 << 16, 1 << 15
"""Pairs of a cell up to which one bincount over them is the quickest, and pairs of all the cells it takes."""

_BLOCK_ITEMS, _BLOCK_LABELS = 1 << 17, 1 << 25
"""Items and labels counted at a time, so that a block stays in a cache."""

_LARGEST_HISTOGRAM = 1 << 16
"""Bins of a histogram of joint patterns: its codes fit 16 bits, its counts the second-level cache."""

_LARGEST_TOTAL = 1 << 24
"""Bins of all histograms together, for memory's sake."""

_LANES = 4
"""Copies of a histogram at which neighbouring items take turns: one bin again and again is slow to count."""

_COST_CALL, _COST_MARGIN = 4000, 4
"""Cost of a histogram, where an item costs 1: of a block, and of each bin when its margins are taken."""

_NOBODY = range(0)

_MANY_COLUMNS = 64
"""Columns from which on sparse columns are worth an estimate."""


def pair_tables(left: Columns, right: Columns | None = None) -> Tables:
    """Joint counts of every column on the left with every column on the right.

    Parameters
    ----------
    left, right : Columns
        Of the same items and cells. Without ``right``, the columns of ``left`` with each other (and with
        themselves).

    Returns
    -------
    ndarray of int64, shape (cell, A, B, places, places)
    """
    other = left if right is None else right
    n_items, _, n_cells = left.codes.shape
    counts = np.zeros((n_cells, left.n_columns, other.n_columns, left.radix, other.radix), dtype=np.int64)
    n_pairs = n_items * left.n_columns * other.n_columns
    if n_pairs <= _SMALL_CELL:
        step = max(1, _SMALL // max(1, n_pairs))
        for cell in range(0, n_cells, step):
            _one_bincount(counts[cell : cell + step], left, right, slice(cell, cell + step))
    elif n_cells:
        _kernel(left, right)(counts, left, right)
    return left.at_places(other.at_places(counts, -1), -2)


def column_counts(columns: Columns) -> Tables:
    """Counts of single columns.

    Parameters
    ----------
    columns : Columns

    Returns
    -------
    ndarray of int64, shape (cell, column, place)
    """
    n_items, _, n_cells = columns.codes.shape
    n, radix = columns.n_columns, columns.radix
    counts = np.zeros((n_cells, n, radix), dtype=np.int64)
    if n_items * n_cells * n <= _SMALL_CELL:
        column = np.arange(0, counts.size, radix).reshape(n_cells, n, 1)
        joint = columns.block(slice(None)) - np.int64(columns.bounds[0]) + column
        counts = np.bincount(joint.ravel(), minlength=counts.size).reshape(counts.shape)
    elif (fast := _compiled_for(columns)) is not None:
        from xjudge.statistics._planes import compiled_margins

        compiled_margins(counts, columns, fast)
    else:
        size = min(_sizes(n), key=lambda size: _cost(-(-n // size), radix**size, columns, columns))
        groups = _groups(n, size)
        for cell in range(n_cells):
            patterns = _histograms(columns, None, cell, [(group, _NOBODY) for group in groups])
            for x in range(size):
                of_column = patterns.reshape(len(groups), radix**x, radix, -1).sum((1, 3))
                counts[cell, [group[x] for group in groups]] = of_column
    return columns.at_places(counts, -1)


# ------------------------------------------------------------------------------------------------- the rule

_Kernel = Callable[[Tables, Columns, Columns | None], None]


def _kernel(left: Columns, right: Columns | None) -> _Kernel:
    """The cheapest kernel that fills counts (cell, A, B, radix, radix)."""
    from xjudge.statistics._planes import (
        SPARSE_ITEMS,
        by_compiled_planes,
        by_planes,
        by_sparse_columns,
        common_codes,
    )

    other = left if right is None else right
    n_items = len(left.codes)
    n_columns = left.n_columns + (0 if right is None else other.n_columns)
    n_labels = n_items * n_columns
    n_codes = max(left.radix, other.radix) - 1
    pairs = left.n_columns * (other.n_columns - 1) // 2 if right is None else left.n_columns * other.n_columns
    met = n_items * pairs * (left.radix - 1) * (other.radix - 1)
    offers: list[tuple[float, _Kernel]] = [
        (n_labels / 3 + 1.4 * _cost_of_groups(left, right), _by_groups),
        (n_labels * n_codes / 10 + met / 47, by_planes),
    ]
    if (fast := _compiled_for(left, other)) is not None:
        cost = n_labels * n_codes / 40 + met / 450
        offers.append((cost, partial(by_compiled_planes, fast=fast)))
    if n_columns >= _MANY_COLUMNS:
        a, mine = common_codes(left)
        b, theirs = (a, mine) if right is None else common_codes(other)
        cost = 3 * n_labels + 5 * n_items * float((mine * theirs).mean())
        cost += 6 * left.n_columns * left.radix * other.n_columns * other.radix * -(-n_items // SPARSE_ITEMS)
        offers.append((cost, partial(by_sparse_columns, common=(a, b))))
    return min(offers, key=lambda offer: offer[0])[1]


def _compiled_for(*sides: Columns) -> ModuleType | None:
    """Compiled kernels, where they are worth it and the codes fit a byte."""
    largest = np.iinfo(np.int8).max
    if any(side.bounds[1] > largest for side in sides):
        return None
    return compiled(sum(side.codes.shape[0] * side.codes.shape[2] * side.n_columns for side in sides))


def _one_bincount(tables: Tables, left: Columns, right: Columns | None, cells: slice) -> None:
    """Fill tables (cell, A, B, radix, radix) of some cells."""
    rows = left.block(slice(None), cells) - np.int64(left.bounds[0])
    columns = rows if right is None else right.block(slice(None), cells) - np.int64(right.bounds[0])
    *pairs, radix_a, radix_b = tables.shape
    table = np.arange(0, tables.size, radix_a * radix_b).reshape(*pairs, 1)
    joint = (rows * radix_b)[:, :, None] + columns[:, None] + table
    tables[...] = np.bincount(joint.ravel(), minlength=tables.size).reshape(tables.shape)


# --------------------------------------------------------------------------------------- groups of raters


def _by_groups(counts: Tables, left: Columns, right: Columns | None) -> None:
    """Fill counts (cell, A, B, radix, radix) by groups of raters."""
    for cell, tables in enumerate(counts):
        if right is None:
            _count_each_other(tables, left, cell)
        else:
            _count_across(tables, left, right, cell)


def _cost_of_groups(left: Columns, right: Columns | None) -> float:
    if right is None:
        return min(_cost_each_other(left, size) for size in _sizes(left.n_columns))
    sizes = itertools.product(_sizes(left.n_columns), _sizes(right.n_columns))
    return min(_cost_across(left, right, *size) for size in sizes)


def _cost_each_other(columns: Columns, size: int) -> float:
    n, radix = columns.n_columns, columns.radix
    if size == n:
        return _cost(1, radix**n, columns, columns)
    n_groups = -(-n // size)
    return _cost(n_groups * (n_groups - 1) // 2, radix ** (2 * size), columns, columns)


def _cost_across(left: Columns, right: Columns, a: int, b: int) -> float:
    n_histograms = -(-left.n_columns // a) * -(-right.n_columns // b)
    return _cost(n_histograms, left.radix**a * right.radix**b, left, right)


def _count_each_other(tables: Tables, columns: Columns, cell: int) -> None:
    """Fill tables (A, A, radix, radix) of one cell with the pairs of columns of one side."""
    n, radix = columns.n_columns, columns.radix
    size = min(_sizes(n), key=lambda size: _cost_each_other(columns, size))
    groups = _groups(n, size)
    joint = list(itertools.combinations(groups, 2)) or [(groups[0], _NOBODY)]
    patterns = _histograms(columns, None, cell, joint)
    _fill_across(tables, joint, patterns, radix, radix)
    alone = {b: square.sum(0) for (_, b), square in zip(joint, patterns, strict=True)}
    alone |= {a: square.sum(1) for (a, _), square in zip(joint, patterns, strict=True)}
    _fill_each_other(tables, groups, np.stack([alone[group] for group in groups]), radix)
    i, j = np.triu_indices(n, 1)
    tables[j, i] = tables[i, j].swapaxes(1, 2)


def _count_across(tables: Tables, left: Columns, right: Columns, cell: int) -> None:
    """Fill tables (A, B, radix, radix) of one cell with the pairs of columns of two sides."""
    n_a, n_b = left.n_columns, right.n_columns
    sizes = itertools.product(_sizes(n_a), _sizes(n_b))
    size_a, size_b = min(sizes, key=lambda sizes: _cost_across(left, right, *sizes))
    joint = list(itertools.product(_groups(n_a, size_a), _groups(n_b, size_b)))
    _fill_across(tables, joint, _histograms(left, right, cell, joint), left.radix, right.radix)


def _histograms(
    left: Columns, right: Columns | None, cell: int, joint: Sequence[tuple[range, range]]
) -> Tables:
    """Counts of the joint patterns of pairs of groups: shape (pair of groups, pattern, pattern)."""
    other = left if right is None else right
    span_a, span_b = left.radix ** len(joint[0][0]), other.radix ** len(joint[0][1])
    n_lanes = _n_lanes(span_a * span_b)
    dtype: np.dtype[np.integer] = np.dtype(np.uint16 if span_a * span_b < _LARGEST_HISTOGRAM else np.int64)
    firsts, seconds = dict.fromkeys(a for a, _ in joint), dict.fromkeys(b for _, b in joint if b)
    out = np.zeros((len(joint), n_lanes * span_a * span_b), dtype=np.int64)
    step = _block_items(left, other)
    for start in range(0, len(left.codes), step):
        items, cells = slice(start, start + step), slice(cell, cell + 1)
        rows = left.block(items, cells)[0]
        if right is None:
            codes_a = codes_b = {group: _joint_code(rows, group, left, dtype) for group in firsts | seconds}
        else:
            codes_a = {group: _joint_code(rows, group, left, dtype) for group in firsts}
            rows = right.block(items, cells)[0]
            codes_b = {group: _joint_code(rows, group, right, dtype) for group in seconds}
        lane = np.arange(rows.shape[1]).astype(dtype) % n_lanes * span_a
        shifted = {a: (codes_a[a] + lane) * dtype.type(span_b) for a in firsts}
        code = np.empty_like(lane)
        for (a, b), counts in zip(joint, out, strict=True):
            pattern = np.add(shifted[a], codes_b[b], out=code) if b else shifted[a]
            counts += np.bincount(pattern, minlength=len(counts))
    return out.reshape(len(joint), n_lanes, span_a, span_b).sum(1)


def _joint_code(
    rows: Codes, group: range, columns: Columns, dtype: np.dtype[np.integer]
) -> npt.NDArray[np.integer]:
    """One number per item for the codes of a group: digits from 0, the first column most significant."""
    signed = np.dtype(f"i{dtype.itemsize}")
    code = rows[group[0]].astype(signed)  # may wrap around until the least code is taken away
    for column in group[1:]:
        code *= signed.type(columns.radix)
        code += rows[column]
    least = columns.bounds[0] * sum(columns.radix**digit for digit in range(len(group)))
    code = code.view(dtype)
    code -= np.array(least).astype(dtype)
    return code


def _fill_across(
    tables: Tables, joint: Sequence[tuple[range, range]], patterns: Tables, radix_a: int, radix_b: int
) -> None:
    """Fill in the pairs across groups from the histograms (pair of groups, pattern, pattern)."""
    n, _, span_b = patterns.shape
    size_a, size_b = len(joint[0][0]), len(joint[0][1])
    of_row = np.stack(
        [patterns.reshape(n, radix_a**x, radix_a, -1, span_b).sum((1, 3)) for x in range(size_a)]
    )
    rows = [[a[x] for a, _ in joint] for x in range(size_a)]
    for y in range(size_b):
        of_pair = of_row.reshape(size_a, n, radix_a, radix_b**y, radix_b, -1).sum((3, 5))
        tables[rows, [b[y] for _, b in joint]] = of_pair


def _fill_each_other(tables: Tables, groups: Sequence[range], patterns: Tables, radix: int) -> None:
    """Fill in the pairs within groups from the histograms (group, pattern), half by half."""
    size = len(groups[0])
    if size == 1:
        columns = [[group[0]] for group in groups]
        tables[columns, columns, range(radix), range(radix)] = patterns
        return
    half = size // 2
    joint = [(group[:half], group[half:]) for group in groups]
    square = patterns.reshape(len(groups), radix**half, -1)
    _fill_across(tables, joint, square, radix, radix)
    _fill_each_other(tables, [a for a, _ in joint], square.sum(2), radix)
    _fill_each_other(tables, [b for _, b in joint], square.sum(1), radix)


def _block_items(left: Columns, right: Columns) -> int:
    return max(1, min(_BLOCK_ITEMS, _BLOCK_LABELS // (left.n_columns + right.n_columns)))


def _cost(n_histograms: int, bins: int, left: Columns, right: Columns) -> float:
    """Cost of counting joint patterns, about one nanosecond a unit; infinite where there is no room."""
    all_bins = bins * _n_lanes(bins)
    if bins > _LARGEST_HISTOGRAM or n_histograms * all_bins > _LARGEST_TOTAL:
        return math.inf
    n_items = len(left.codes)
    n_blocks = -(-n_items // _block_items(left, right))
    return n_histograms * (n_items + n_blocks * (all_bins + _COST_CALL) + _COST_MARGIN * all_bins)


def _n_lanes(bins: int) -> int:
    return max(1, min(_LANES, _LARGEST_HISTOGRAM // bins))


def _sizes(n_columns: int) -> list[int]:
    """Sizes of groups worth a look, the least first: for every number of groups the smallest."""
    return sorted({-(-n_columns // n_groups) for n_groups in range(1, n_columns + 1)})


def _groups(n_columns: int, size: int) -> list[range]:
    """Columns in groups of one size; the last one reaches back into the one before where it has to."""
    starts = [min(start, n_columns - size) for start in range(0, n_columns, size)]
    return [range(start, start + size) for start in starts]

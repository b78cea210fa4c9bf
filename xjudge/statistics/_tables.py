"""Kernels that count codes: from columns of small integers to tables of int64.

Codes are counted as they are: categories ``>= 0``, outcomes ``-1, -2, -3``. Only the finished counts, small
as they are, are moved to the places of the caller; translating labels (:func:`places_of`) would cost more
than counting them.

Two kernels give the same integers. *One bincount* over every pair, for small arrays: least Python. *Groups
of raters* for the others: the codes of several raters, digits of a number in a mixed radix, make one code;
one bincount over the joint code of two groups counts all their joint patterns, and the pair tables are
margins of that histogram, so its cost hardly depends on how many pairs it holds.

Bit planes and one-hot matrix products were measured and are slower on one core (the latter much slower under
a threaded BLAS, and silently wrong in int8). ``bincount`` keeps Python's lock while it counts, about half of
the work; the rest runs beside other threads.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from xjudge.codes import N_OUTCOMES

__all__ = ["Columns", "column_counts", "pair_tables", "places_of"]

Codes = npt.NDArray[np.signedinteger]
Tables = npt.NDArray[np.int64]

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


@dataclass(frozen=True)
class Columns:
    """Columns of codes, and the place at which each code is counted.

    Parameters
    ----------
    codes : ndarray of signed int, shape (item, column, cell)
    targets : sequence of int
        Place of each code: of category ``c`` at ``c``, of outcome ``-1 - j`` at ``n_categories + j``, the
        number of categories being ``len(targets) - 3``. A place that is negative or not below
        ``n_places`` means "count nowhere"; codes that are neither category nor outcome go nowhere too.
    n_places : int
        Number of places.
    chosen : sequence of int, optional
        Which columns, in which order; all by default.
    """

    codes: Codes
    targets: Sequence[int]
    n_places: int
    chosen: Sequence[int] | None = None

    @property
    def n_columns(self) -> int:
        """Number of columns that are counted."""
        return self.codes.shape[1] if self.chosen is None else len(self.chosen)

    @property
    def n_categories(self) -> int:
        """Number of categories of the codes."""
        return len(self.targets) - N_OUTCOMES

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """Least and greatest code; all codes beyond an end of the scale are taken as the next one there."""
        if not self.codes.size:
            return 0, 0
        below, above = -N_OUTCOMES - 1, self.n_categories
        low, high = (min(max(int(code), below), above) for code in (self.codes.min(), self.codes.max()))
        return low, high

    @property
    def radix(self) -> int:
        """How many codes there are within the bounds."""
        return self.bounds[1] - self.bounds[0] + 1

    @cached_property
    def runs(self) -> list[tuple[int, int, int]]:
        """Codes that are counted: (code, place, length) of each run where code and place go up together."""
        low, high = self.bounds
        runs: list[tuple[int, int, int]] = []
        for code in range(max(low, -N_OUTCOMES), min(high + 1, self.n_categories)):
            place = self.targets[code if code >= 0 else self.n_categories - 1 - code]
            if not 0 <= place < self.n_places:
                continue
            if runs and (code - runs[-1][0], place - runs[-1][1]) == (runs[-1][2],) * 2:
                runs[-1] = (*runs[-1][:2], runs[-1][2] + 1)
            else:
                runs.append((code, place, 1))
        return runs

    def block(self, items: slice, cells: slice = slice(None)) -> Codes:
        """Codes of some items and cells, within the bounds: shape (cell, column, item), contiguous."""
        part = self.codes[items, :, cells]
        if self.chosen is None:
            rows = np.ascontiguousarray(part.transpose(2, 1, 0))
        else:
            rows = np.empty((part.shape[2], len(self.chosen), part.shape[0]), dtype=part.dtype)
            for row, column in enumerate(self.chosen):
                rows[:, row] = part[:, column].T
        low, high = self.bounds
        return rows.clip(low, high) if low < -N_OUTCOMES or high >= self.n_categories else rows

    def counted(self, items: slice) -> npt.NDArray[np.bool_]:
        """Which codes of some items are counted at some place: shape (cell, column, item)."""
        rows = self.block(items)
        out = np.zeros(rows.shape, dtype=np.bool_)
        for code, _, length in self.runs:
            out |= (rows >= code) & (rows < code + length)
        return out

    def at_places(self, counts: Tables, axis: int) -> Tables:
        """Move an axis of counts from the codes within the bounds to their places."""
        axis %= counts.ndim
        out = np.zeros((*counts.shape[:axis], self.n_places, *counts.shape[axis + 1 :]), dtype=np.int64)
        before = (slice(None),) * axis
        for code, place, length in self.runs:
            start = code - self.bounds[0]
            out[(*before, slice(place, place + length))] += counts[(*before, slice(start, start + length))]
        return out


def places_of(codes: Codes, targets: npt.NDArray[np.intp], n_places: int) -> npt.NDArray[np.unsignedinteger]:
    """Places at which codes are counted, label by label.

    Parameters
    ----------
    codes : ndarray of signed int, any shape
    targets : ndarray of int, shape (n_categories + 3,)
        As in :class:`Columns`, with ``n_places`` for "count nowhere".
    n_places : int
        Number of places.

    Returns
    -------
    ndarray of uint8 or uint16, same shape
        The place, ``n_places`` for codes that are counted nowhere (masked, or outside the scale).
    """
    dtype: np.dtype[np.unsignedinteger] = np.dtype(np.uint8 if n_places < 255 else np.uint16)
    n_categories = len(targets) - N_OUTCOMES
    if codes.dtype.itemsize == 1:
        table = np.full(256, n_places, dtype=dtype)
        reachable = min(n_categories, 128)  # int8 labels of a longer scale
        table[:reachable] = targets[:reachable]
        table[[255, 254, 253]] = targets[n_categories:]
        return table[codes.view(np.uint8)]
    shifted = np.where(codes >= 0, codes, n_categories - 1 - codes.astype(np.int64))
    inside = (codes < n_categories) & (codes >= -N_OUTCOMES)
    extended = np.append(targets, n_places).astype(dtype)
    return extended[np.where(inside, shifted, len(targets))]


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
    step = max(1, _SMALL // max(1, n_pairs)) if n_pairs <= _SMALL_CELL else 1
    for cell in range(0, n_cells, step):
        if n_pairs <= _SMALL_CELL:
            _one_bincount(counts[cell : cell + step], left, right, slice(cell, cell + step))
        elif right is None:
            _count_each_other(counts[cell], left, cell)
        else:
            _count_across(counts[cell], left, right, cell)
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
    else:
        size = min(_sizes(n), key=lambda size: _cost(-(-n // size), radix**size, columns, columns))
        groups = _groups(n, size)
        for cell in range(n_cells):
            patterns = _histograms(columns, None, cell, [(group, _NOBODY) for group in groups])
            for x in range(size):
                of_column = patterns.reshape(len(groups), radix**x, radix, -1).sum((1, 3))
                counts[cell, [group[x] for group in groups]] = of_column
    return columns.at_places(counts, -1)


def _one_bincount(tables: Tables, left: Columns, right: Columns | None, cells: slice) -> None:
    """Fill tables (cell, A, B, radix, radix) of some cells."""
    rows = left.block(slice(None), cells) - np.int64(left.bounds[0])
    columns = rows if right is None else right.block(slice(None), cells) - np.int64(right.bounds[0])
    *pairs, radix_a, radix_b = tables.shape
    table = np.arange(0, tables.size, radix_a * radix_b).reshape(*pairs, 1)
    joint = (rows * radix_b)[:, :, None] + columns[:, None] + table
    tables[...] = np.bincount(joint.ravel(), minlength=tables.size).reshape(tables.shape)


# --------------------------------------------------------------------------------------- groups of raters


def _count_each_other(tables: Tables, columns: Columns, cell: int) -> None:
    """Fill tables (A, A, radix, radix) of one cell with the pairs of columns of one side."""
    n, radix = columns.n_columns, columns.radix

    def cost(size: int) -> float:
        if size == n:
            return _cost(1, radix**n, columns, columns)
        n_groups = -(-n // size)
        return _cost(n_groups * (n_groups - 1) // 2, radix ** (2 * size), columns, columns)

    size = min(_sizes(n), key=cost)
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

    def cost(sizes: tuple[int, int]) -> float:
        a, b = sizes
        return _cost(-(-n_a // a) * -(-n_b // b), left.radix**a * right.radix**b, left, right)

    size_a, size_b = min(itertools.product(_sizes(n_a), _sizes(n_b)), key=cost)
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

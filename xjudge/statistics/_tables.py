"""Kernels that count pairs of codes: from two blocks of small integers to tables of int64.

Three kernels give the same integers; :func:`pair_tables` chooses by estimated cost.

* *one bincount* over the joint place of every pair, for small blocks: least Python.
* *rater groups*: the places of several raters make one mixed-radix code, one bincount counts all their
  joint patterns, and pair tables are margins of that histogram. Cheap while ``places ** raters`` is small.
* *bit planes*: one bit per (rater, place, item); a cell is the population count of the AND of two planes.
  Cost grows with raters^2 but hardly with anything else. No matrix product: threaded BLAS on skinny
  one-hot matrices can be much slower than the counting itself, and int8 products overflow silently.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["pair_tables", "places_of"]

Places = npt.NDArray[np.unsignedinteger]
Tables = npt.NDArray[np.int64]

_BLOCK = 1 << 15
"""Items counted at a time: planes and group codes of a block stay in the second-level cache."""

_SMALL = 1 << 16
"""Pairs up to which one bincount over everything is the quickest."""

_LARGEST_HISTOGRAM = 1 << 14
"""Bins of a group histogram, so that it stays in the second-level cache and codes fit 16 bits."""

_LARGEST_GRAM = 1 << 17
"""Words of one AND at a time, so that the intermediate stays in the second-level cache."""

# Costs in nanoseconds an item on one core; only their ratios matter, for the choice of a kernel.
_COST_HISTOGRAM, _COST_RADIX = 2.0, 0.3
_COST_PLANE, _COST_CELL, _COST_CALL = 0.3, 0.03, 0.7


def places_of(codes: npt.NDArray[np.signedinteger], targets: npt.NDArray[np.intp], n_places: int) -> Places:
    """Places at which codes are counted.

    Parameters
    ----------
    codes : ndarray of signed int, any shape
        Categories ``>= 0``; outcomes ``-1, -2, ...``.
    targets : ndarray of int, shape (n_categories + n_outcomes,)
        Place of each code: of category ``c`` at ``c``, of outcome ``-1 - j`` at ``n_categories + j``; the
        value ``n_places`` means "count nowhere". Here only its length and values matter; the split
        into categories and outcomes is ``len(targets) - 3``.
    n_places : int
        Number of places.

    Returns
    -------
    ndarray of uint8 or uint16, same shape
        The place, ``n_places`` for codes that are counted nowhere (masked, or outside the scale).
    """
    dtype: np.dtype[np.unsignedinteger] = np.dtype(np.uint8 if n_places < 255 else np.uint16)
    n_categories = len(targets) - 3
    if codes.dtype.itemsize == 1:
        table = np.full(256, n_places, dtype=dtype)
        table[np.arange(n_categories)] = targets[:n_categories]
        table[[255, 254, 253]] = targets[n_categories:]
        return table[codes.view(np.uint8)]
    shifted = np.where(codes >= 0, codes, n_categories - 1 - codes.astype(np.int64))
    inside = (codes < n_categories) & (codes >= -3)
    extended = np.append(targets, n_places).astype(dtype)
    return extended[np.where(inside, shifted, len(targets))]


def pair_tables(left: Places, right: Places | None, n_left: int, n_right: int) -> Tables:
    """Joint counts of every column of ``left`` with every column of ``right``.

    Parameters
    ----------
    left : ndarray of uint, shape (item, A)
        Places below ``n_left``; anything else is counted nowhere.
    right : ndarray of uint, shape (item, B), or None
        ``None`` pairs the columns of ``left`` with each other (and with themselves).
    n_left, n_right : int
        Numbers of places.

    Returns
    -------
    ndarray of int64, shape (A, B, n_left, n_right)
    """
    n_items, n_a = left.shape
    other = left if right is None else right
    n_b = other.shape[1]
    if n_items * n_a * n_b <= _SMALL:
        return _one_bincount(left, other, n_left, n_right)
    out = np.zeros((n_a, n_b, n_left, n_right), dtype=np.int64)
    histograms: dict[_Joint, npt.NDArray[np.int64]] = {}
    for start in range(0, n_items, _BLOCK):
        a = _Block.of(left[start : start + _BLOCK], n_left)
        b = a if right is None else _Block.of(right[start : start + _BLOCK], n_right)
        joint = _joint_groups(a, b, symmetric=right is None)
        if joint is not None and _groups_are_cheaper(a, b, joint, symmetric=right is None):
            _count_groups(histograms, a, b, joint)
        else:
            _add_planes(out, a, b, symmetric=right is None)
    _add_margins(out, histograms, symmetric=right is None)
    if right is None:
        for i, j in itertools.combinations(range(n_a), 2):
            out[j, i] = out[i, j].T
    return out


def _one_bincount(left: Places, right: Places, n_left: int, n_right: int) -> Tables:
    n_a, n_b = left.shape[1], right.shape[1]
    width, height = n_left + 1, n_right + 1
    row = left.astype(np.int64) + np.arange(n_a) * (n_b * width)
    column = right.astype(np.int64) + np.arange(n_b) * (width * height)
    joint = (row * height)[:, :, None] + column[:, None, :]
    counts = np.bincount(joint.ravel(), minlength=n_a * n_b * width * height)
    return counts.reshape(n_a, n_b, width, height)[:, :, :n_left, :n_right].astype(np.int64)


@dataclass(frozen=True)
class _Block:
    """Some items, rater-major, and the places that occur in them."""

    places: Places  # (rater, item)
    used: npt.NDArray[np.intp]
    complete: bool  # every code is counted somewhere

    @classmethod
    def of(cls, places: Places, n_places: int) -> _Block:
        block: Places = np.ascontiguousarray(places.T)
        low, high = (int(block.min()), int(block.max())) if block.size else (0, -1)
        inside = range(low + 1, min(high, n_places))
        used = [place for place in inside if (block == place).any()]
        if low < n_places and high >= 0:
            used = sorted({low, *used} | ({high} if high < n_places else set()))
        return cls(block, np.array(used, dtype=np.intp), high < n_places)

    @property
    def n_raters(self) -> int:
        return len(self.places)

    @property
    def radix(self) -> int:
        return len(self.used) + (not self.complete)

    @property
    def counted(self) -> npt.NDArray[np.intp]:
        """Places that get a bit plane: the last one follows from the others where nothing is left out."""
        return self.used[:-1] if self.complete else self.used

    def compact(self) -> Places:
        """Places renumbered over those in use; the last number is "count nowhere" where it occurs."""
        if self.complete and len(self.used) == self.used[-1] - self.used[0] + 1:
            return self.places if self.used[0] == 0 else self.places - self.places.dtype.type(self.used[0])
        table = np.full(int(np.iinfo(self.places.dtype).max) + 1, len(self.used), dtype=self.places.dtype)
        table[self.used] = np.arange(len(self.used))
        return table[self.places]

    def planes(self) -> npt.NDArray[np.uint64]:
        """One bit per (rater, counted place, item), in words of 64 items."""
        n_raters, n_items = self.places.shape
        planes = np.zeros((n_raters, len(self.counted), -(-n_items // 64) * 8), dtype=np.uint8)
        for position, place in enumerate(self.counted):
            packed = np.packbits(self.places == place, axis=1)
            planes[:, position, : packed.shape[1]] = packed
        return planes.view(np.uint64)


def _groups_are_cheaper(
    a: _Block, b: _Block, joint: Sequence[tuple[list[int], list[int]]], *, symmetric: bool
) -> bool:
    n_pairs = a.n_raters * (a.n_raters + 1) / 2 if symmetric else a.n_raters * b.n_raters
    cells = len(a.counted) * len(b.counted)
    n_planes = a.n_raters * len(a.counted) + (0 if symmetric else b.n_raters * len(b.counted))
    by_groups = sum(_COST_HISTOGRAM + _COST_RADIX * (len(x) + len(y)) for x, y in joint)
    by_planes = _COST_PLANE * n_planes + _COST_CELL * n_pairs * cells + _COST_CALL * a.n_raters
    return by_groups < by_planes


def _joint_groups(a: _Block, b: _Block, *, symmetric: bool) -> list[tuple[list[int], list[int]]] | None:
    """Pairs of groups of raters whose joint patterns make one histogram each; ``None`` where none fits."""
    if not len(a.used) or not len(b.used) or a.radix * b.radix > _LARGEST_HISTOGRAM:
        return None
    if symmetric and a.radix**a.n_raters <= _LARGEST_HISTOGRAM:
        return [(list(range(a.n_raters)), [])]
    size = 1
    while (a.radix * b.radix) ** (size + 1) <= _LARGEST_HISTOGRAM:
        size += 1
    groups_a, groups_b = (
        [list(range(n))[start : start + size] for start in range(0, n, size)]
        for n in (a.n_raters, b.n_raters)
    )
    return list(itertools.combinations(groups_a, 2) if symmetric else itertools.product(groups_a, groups_b))


@dataclass(frozen=True)
class _Joint:
    """Which raters and places a histogram counts jointly."""

    raters_a: tuple[int, ...]
    raters_b: tuple[int, ...]
    used_a: tuple[int, ...]
    used_b: tuple[int, ...]
    shape: tuple[int, ...]


def _count_groups(
    histograms: dict[_Joint, npt.NDArray[np.int64]],
    a: _Block,
    b: _Block,
    joint: Sequence[tuple[list[int], list[int]]],
) -> None:
    """Add the joint patterns of each pair of groups to its histogram."""
    small_a, small_b = a.compact(), b.compact()
    for group_a, group_b in joint:
        columns = [(small_a[r], a.radix) for r in group_a] + [(small_b[r], b.radix) for r in group_b]
        code = np.zeros(a.places.shape[1], dtype=np.uint16)
        for column, radix in columns:
            code *= np.uint16(radix)
            code += column
        shape = tuple(radix for _, radix in columns)
        key = _Joint(tuple(group_a), tuple(group_b), tuple(a.used), tuple(b.used), shape)
        counts = np.bincount(code, minlength=int(np.prod(shape)))
        if key in histograms:
            histograms[key] += counts
        else:
            histograms[key] = counts.astype(np.int64)


def _add_margins(out: Tables, histograms: dict[_Joint, npt.NDArray[np.int64]], *, symmetric: bool) -> None:
    """Add the two-rater margins of the histograms to the pair tables."""
    done: set[tuple[tuple[int, int], tuple[int, ...], int]] = set()
    for key, counts in histograms.items():
        axes = range(len(key.shape))
        raters = key.raters_a + key.raters_b
        split = len(key.raters_a)
        pairs = (
            itertools.combinations_with_replacement(axes, 2)
            if symmetric
            else itertools.product(axes[:split], axes[split:])
        )
        for x, y in pairs:
            pair = raters[x], raters[y]
            if symmetric:
                seen = pair, key.used_a, key.shape[0]
                if seen in done:
                    continue  # two raters of one group meet in several histograms
                done.add(seen)
            others = tuple(axis for axis in axes if axis not in (x, y))
            table = counts.reshape(key.shape).sum(others)
            table = np.diag(table) if x == y else table
            cells = table[: len(key.used_a), : len(key.used_b)]
            out[pair][np.ix_(key.used_a, key.used_b)] += cells


def _add_planes(out: Tables, a: _Block, b: _Block, *, symmetric: bool) -> None:
    """Add population counts of the AND of planes to the pair tables."""
    n_items = a.places.shape[1]
    planes_a = a.planes()
    planes_b = planes_a if symmetric else b.planes()
    margin_a, margin_b = _popcount(planes_a), _popcount(planes_b)
    words = max(1, planes_a.shape[1] * planes_b.shape[1] * planes_a.shape[2])
    step = max(1, _LARGEST_GRAM // words)
    for i in range(a.n_raters):
        for first in range(i if symmetric else 0, b.n_raters, step):
            last = min(first + step, b.n_raters)
            cells = _popcount(planes_a[i][None, :, None] & planes_b[first:last, None])
            table = np.zeros((last - first, len(a.used), len(b.used)), dtype=np.int64)
            n_a, n_b = len(a.counted), len(b.counted)
            table[:, :n_a, :n_b] = cells
            if n_b < len(b.used):
                table[:, :n_a, n_b] = margin_a[i] - cells.sum(2)
            if n_a < len(a.used):
                table[:, n_a, :n_b] = margin_b[first:last] - cells.sum(1)
            if n_a < len(a.used) and n_b < len(b.used):
                table[:, n_a, n_b] = n_items - margin_a[i].sum() - table[:, n_a, :n_b].sum(1)
            rows = np.arange(first, last)
            out[i][np.ix_(rows, a.used, b.used)] += table


def _popcount(planes: npt.NDArray[np.uint64]) -> Tables:
    return np.bitwise_count(planes).sum(-1, dtype=np.uint32).astype(np.int64)

"""Count records for sampling variability: what items, patterns of items, and clusters of items contribute.

A *unit* (an item, or a cluster of items) contributes a vector of counts to each pair table: the cells of its
pairs, summed over what the protocol pools. Second moments of these vectors give delta-method variances from
sums alone; merged patterns and cluster sums give resampled replicates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.statistics._rows import distinct_rows, row_histogram
from xjudge.statistics.counts import MASKED, Block, Count, Options, Request, places_of

__all__ = [
    "CLUSTER_SUMS",
    "PATTERNS",
    "SECOND_MOMENTS",
    "Cells",
    "Patterns",
    "cluster_sums",
    "contributions",
    "patterns",
    "second_moments",
    "sides_of",
    "units_options",
]

Ints = npt.NDArray[np.int64]

_BLOCK = 1 << 14
"""Items whose contribution vectors are held at a time."""

_LARGEST = 1 << 20
"""Distinct patterns up to which they are merged; beyond, there are as good as none."""


class Cells(NamedTuple):
    """Which cells a unit contributes to.

    Parameters
    ----------
    left_targets, right_targets : tuple of int
        Per raw place the category of the protocol's table, negative where the pair is not used.
    n_categories : pair of int
        Categories of the table's rows and columns, L and R.
    n_criteria : int
        Criteria of the cells; they vary slowest.
    joined : bool
        Whether criteria are pooled into one table, or stand side by side.
    pooled : bool
        Whether the left columns are pooled into one table.
    """

    left_targets: tuple[int, ...]
    right_targets: tuple[int, ...]
    n_categories: tuple[int, int]
    n_criteria: int
    joined: bool
    pooled: bool

    @property
    def n_cells(self) -> int:
        """Length D of a contribution vector."""
        return self.n_categories[0] * self.n_categories[1] * (1 if self.joined else self.n_criteria)


def contributions(
    cells: Cells, left: npt.NDArray[np.signedinteger], right: npt.NDArray[np.signedinteger]
) -> npt.NDArray[np.float64]:
    """Counts that each item contributes to the table of one judged column.

    Parameters
    ----------
    cells : Cells
    left : ndarray of int, shape (item, A, criterion)
        Raw codes of the left columns that are pooled (A = 1 where they are not).
    right : ndarray of int, shape (item, criterion)

    Returns
    -------
    ndarray of float64, shape (item, D)
        Small whole numbers.
    """
    n_left, n_right = cells.n_categories
    size = n_left * n_right
    rows = np.arange(len(right))
    out = np.zeros((len(right), cells.n_cells + 1))  # the last column takes what is not used
    b = _categories(right, cells.right_targets, n_right)
    for column in range(left.shape[1]):
        a = _categories(left[:, column], cells.left_targets, n_left)
        used = (a < n_left) & (b < n_right)
        cell = np.where(used, a.astype(np.intp) * n_right + b, cells.n_cells)
        for criterion in range(cells.n_criteria):
            shift = 0 if cells.joined else criterion * size
            out[rows, np.where(used[:, criterion], cell[:, criterion] + shift, cells.n_cells)] += 1
    return out[:, :-1]


def _categories(
    codes: npt.NDArray[np.signedinteger], targets: tuple[int, ...], n: int
) -> npt.NDArray[np.unsignedinteger]:
    places = np.array([target if target >= 0 else n for target in targets], dtype=np.intp)
    return places_of(codes, places, n)


def sides_of(options: Options, block: Block) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Codes (item, column, criterion, other) of both sides."""
    out = []
    for side in ("left", "right"):
        codes = block[options[side]]
        columns = options[f"{side}_columns"]
        codes = codes if columns is None else codes[:, list(columns)]
        n_criteria = options["cells"].n_criteria
        out.append(codes.reshape((*codes.shape[:2], n_criteria, codes.shape[2] // n_criteria)))
    return out[0], out[1]


def _add(partials: Sequence[Ints]) -> Ints:
    total = partials[0].copy()
    for partial in partials[1:]:
        total += partial
    return total


def _as_counted(_: Options, partial: Any) -> Any:
    return partial


def units_options(
    cells: Cells,
    left: str,
    left_columns: Sequence[int] | None,
    right: str,
    right_columns: Sequence[int] | None,
) -> dict[str, Any]:
    """Options of a request for contributions."""
    return {
        "cells": cells,
        "left": left,
        "left_columns": None if left_columns is None else tuple(int(c) for c in left_columns),
        "right": right,
        "right_columns": None if right_columns is None else tuple(int(c) for c in right_columns),
    }


# ---------------------------------------------------------------------------------------- second moments


def _count_moments(options: Options, block: Block) -> Ints:
    cells: Cells = options["cells"]
    left, right = sides_of(options, block)
    n_left = 1 if cells.pooled else left.shape[1]
    out = np.zeros((left.shape[3], n_left, right.shape[1], cells.n_cells, cells.n_cells), dtype=np.int64)
    for start in range(0, len(left), _BLOCK):
        a, b = left[start : start + _BLOCK], right[start : start + _BLOCK]
        for other, column, judged in np.ndindex(out.shape[:3]):
            voters = a[:, :, :, other] if cells.pooled else a[:, column : column + 1, :, other]
            counts = contributions(cells, voters, b[:, judged, :, other])
            # whole numbers below 2^53: exact in any order of summation
            out[other, column, judged] += (counts.T @ counts).astype(np.int64)
    return out


SECOND_MOMENTS = Count("second moments of item contributions", _count_moments, _add, _as_counted)
"""Sums over items of ``c c'`` (other, A, B, D, D); see :func:`second_moments`."""


def second_moments(
    cells: Cells,
    *,
    left: str,
    left_columns: Sequence[int] | None,
    right: str,
    right_columns: Sequence[int] | None,
) -> Request:
    """Ask for the second moments of the items' contribution vectors, per pair of columns."""
    return Request(SECOND_MOMENTS, units_options(cells, left, left_columns, right, right_columns))


# ---------------------------------------------------------------------------------------------- patterns


class Patterns(NamedTuple):
    """Distinct items: raw codes and how many items have them; empty where there are too many.

    Parameters
    ----------
    left : ndarray, shape (pattern, A, cell)
    right : ndarray, shape (pattern, B, cell)
    multiplicities : ndarray of int64, shape (pattern,)
    complete : bool
        False where there were too many to merge.
    """

    left: npt.NDArray[Any]
    right: npt.NDArray[Any]
    multiplicities: Ints
    complete: bool


def _count_patterns(options: Options, block: Block) -> tuple[npt.NDArray[Any], Ints, bool]:
    both = []
    for side in ("left", "right"):
        codes, columns = block[options[side]], options[f"{side}_columns"]
        codes = codes if columns is None else codes[:, list(columns)]
        both.append(codes.reshape(len(codes), math.prod(codes.shape[1:])))  # of no items too
    rows = np.concatenate(both, axis=1)
    if rows.size and rows.min() <= MASKED:
        rows = rows[(rows != MASKED).any(1)]
    return _if_few(*row_histogram(rows))


def _if_few(rows: npt.NDArray[Any], counts: Ints) -> tuple[npt.NDArray[Any], Ints, bool]:
    if len(rows) > _LARGEST:
        return rows[:0], counts[:0], False
    return rows, counts, True


def _merge_patterns(
    partials: Sequence[tuple[npt.NDArray[Any], Ints, bool]],
) -> tuple[npt.NDArray[Any], Ints, bool]:
    if not all(complete for _, _, complete in partials):
        return partials[0][0][:0], partials[0][1][:0], False
    dtype = np.result_type(*(rows.dtype for rows, _, _ in partials))
    rows = np.concatenate([rows.astype(dtype) for rows, _, _ in partials])
    return _if_few(*distinct_rows(rows, np.concatenate([counts for _, counts, _ in partials]))[:2])


def _finish_patterns(options: Options, partial: tuple[npt.NDArray[Any], Ints, bool]) -> Patterns:
    rows, counts, complete = partial
    n_left, n_right = options["n_columns"]
    n_cells = rows.shape[1] // max(1, n_left + n_right)
    apart = rows.reshape(len(rows), n_left + n_right, n_cells)
    return Patterns(apart[:, :n_left], apart[:, n_left:], counts, complete)


PATTERNS = Count("label patterns of items", _count_patterns, _merge_patterns, _finish_patterns, stacked=False)
"""Distinct items with their multiplicities (:class:`Patterns`); see :func:`patterns`."""


def patterns(
    *,
    left: str,
    left_columns: Sequence[int] | None,
    right: str,
    right_columns: Sequence[int] | None,
    n_columns: tuple[int, int],
) -> Request:
    """Ask for the distinct items over some columns; ``n_columns`` says how many on each side."""
    cells = Cells((), (), (0, 0), 1, True, False)
    options = units_options(cells, left, left_columns, right, right_columns) | {"n_columns": n_columns}
    return Request(PATTERNS, options)


# ----------------------------------------------------------------------------------------------- clusters


def _count_clusters(options: Options, block: Block) -> Ints:
    cells: Cells = options["cells"]
    left, right = sides_of(options, block)
    cluster = block["cluster"]
    n_left = 1 if cells.pooled else left.shape[1]
    shape = (options["n_clusters"], left.shape[3], n_left, right.shape[1], cells.n_cells)
    out = np.zeros(shape, dtype=np.int64)
    for start in range(0, len(left), _BLOCK):
        stop = start + _BLOCK
        member = cluster[start:stop] >= 0
        for other, column, judged in np.ndindex(shape[1:4]):
            voters = left[start:stop, :, :, other]
            voters = voters if cells.pooled else voters[:, column : column + 1]
            counts = contributions(cells, voters, right[start:stop, judged, :, other])
            np.add.at(
                out[:, other, column, judged],
                cluster[start:stop][member],
                counts[member].astype(np.int64),
            )
    return out


CLUSTER_SUMS = Count("contributions of clusters", _count_clusters, _add, _as_counted)
"""Contributions summed within clusters (cluster, other, A, B, D); see :func:`cluster_sums`."""


def cluster_sums(
    cells: Cells,
    n_clusters: int,
    *,
    left: str,
    left_columns: Sequence[int] | None,
    right: str,
    right_columns: Sequence[int] | None,
) -> Request:
    """Ask for the contributions of each cluster; the pass has an array ``cluster`` (item,) of numbers."""
    options = units_options(cells, left, left_columns, right, right_columns)
    return Request(CLUSTER_SUMS, options | {"n_clusters": n_clusters})

"""Contributions of items to pair tables under Poisson weights: resamples from a pass, where items are many.

A bootstrap that draws merged patterns needs few of them. Where there are as good as none, every item gets a
weight of its own for each resample, drawn by its position (:func:`xjudge.statistics.poisson_weights`), and
what the items contribute is summed with these weights, block by block: the same sums whatever the blocks.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from xjudge.statistics.counts import Block, Count, Options, Request
from xjudge.statistics.resample import poisson_weights
from xjudge.statistics.units import Cells, contributions, sides_of, units_options

__all__ = ["POISSON_SUMS", "add_weighted", "added", "as_counted", "poisson_sums", "weighted_items"]

Ints = npt.NDArray[np.int64]

_BLOCK = 1 << 12
"""Positions whose weights are held at a time."""

_RESAMPLES = 1 << 8
"""Resamples whose weights are held as floats."""


def weighted_items(
    position: npt.NDArray[np.integer], n_resamples: int, seed: int
) -> Iterator[tuple[npt.NDArray[np.intp], npt.NDArray[np.uint8]]]:
    """Poisson weights of some items at a time; they depend on the positions and the seed alone.

    Parameters
    ----------
    position : ndarray of int, shape (item,)
        In the whole data, in order; negative outside a population, where items contribute nothing.
    n_resamples : int
        B.
    seed : int

    Yields
    ------
    rows : ndarray of int, shape (n,)
        Which items.
    weights : ndarray of uint8, shape (B, n)
    """
    known = np.flatnonzero(position >= 0)
    number = position[known] // _BLOCK
    ends = np.flatnonzero(np.diff(number, prepend=-1, append=-1))
    for first, last in itertools.pairwise(ends):
        rows = known[first:last]
        start, stop = int(position[rows[0]]), int(position[rows[-1]]) + 1
        weights = poisson_weights(start, stop, n_resamples, seed)
        yield rows, weights if len(rows) == stop - start else weights[:, position[rows] - start]


def add_weighted(
    out: npt.NDArray[Any], weights: npt.NDArray[np.uint8], amounts: npt.NDArray[np.float64]
) -> None:
    """Add ``weights @ amounts`` (B, D) to ``out``, some resamples at a time."""
    for drawn in range(0, len(weights), _RESAMPLES):
        part = slice(drawn, drawn + _RESAMPLES)
        out[part] += (weights[part].astype(np.float64) @ amounts).astype(out.dtype)


def _count(options: Options, block: Block) -> Ints:
    cells: Cells = options["cells"]
    left, right = sides_of(options, block)
    n_left = 1 if cells.pooled else left.shape[1]
    shape = (left.shape[3], n_left, right.shape[1], options["n_resamples"], cells.n_cells)
    out = np.zeros(shape, dtype=np.int64)
    for rows, weights in weighted_items(block["position"], options["n_resamples"], options["seed"]):
        for other, column, judged in np.ndindex(shape[:3]):
            voters = left[rows, :, :, other]
            voters = voters if cells.pooled else voters[:, column : column + 1]
            counts = contributions(cells, voters, right[rows, judged, :, other])
            # whole numbers below 2^53: exact in any order of summation
            add_weighted(out[other, column, judged], weights, counts)
    return out


def added(partials: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Sums of several blocks."""
    total = partials[0].copy()
    for partial in partials[1:]:
        total += partial
    return total


def as_counted(_: Options, partial: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Sums as they are."""
    return partial


POISSON_SUMS = Count("contributions under Poisson weights", _count, added, as_counted)
"""Weighted contributions (other, A, B, resample, D); see :func:`poisson_sums`."""


def poisson_sums(
    cells: Cells,
    n_resamples: int,
    seed: int,
    *,
    left: str,
    left_columns: Sequence[int] | None,
    right: str,
    right_columns: Sequence[int] | None,
) -> Request:
    """Ask for the sums of the items' contributions under Poisson weights, for every pair of columns.

    Parameters
    ----------
    cells : Cells
        Criteria side by side.
    n_resamples : int
        B.
    seed : int
    left, left_columns, right, right_columns
        As for :func:`xjudge.statistics.units.second_moments`.

    Returns
    -------
    Request
        Counts of shape (other, A or 1, B, resample, D), int64. The pass has an array ``position`` (item,).

    Notes
    -----
    ``n B`` draws, and ``n B D`` products for each pair of columns. Items come in the order of positions.
    """
    options = units_options(cells, left, left_columns, right, right_columns)
    return Request(POISSON_SUMS, options | {"n_resamples": n_resamples, "seed": seed})

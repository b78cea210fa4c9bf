"""Count records for numbers: moments of pairs and of the items that hold them, held items, bad numbers.

Numbers stand in arrays ``(item, rater, cell)``, NaN where there is none. Sums of their products are kept
about shifts near the means, so they merge without losing digits; which blocks are added to which changes the
last bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.statistics.counts import MASKED, Block, Count, Options, Request
from xjudge.statistics.scores import (
    N_FEATURES,
    PairMoments,
    merge_moments,
    moments_of_pairs,
    pair_features,
    shift_matrix,
)

__all__ = [
    "NOT_FINITE",
    "SCORE_MOMENTS",
    "SCORE_ROWS",
    "ScoreMoments",
    "ScoreRows",
    "not_finite",
    "score_moments",
    "score_rows",
]

Float = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_BLOCK = 1 << 14
"""Items whose features are held at a time."""


# ---------------------------------------------------------------------------------------------- bad numbers


def _count_not_finite(options: Options, block: Block) -> Ints:
    bad = np.isinf(block[options["left"]]).sum(0)
    rater, cell = np.nonzero(bad)
    return np.column_stack([rater, cell, bad[rater, cell]]).astype(np.int64)


def _merge_not_finite(partials: Sequence[Ints]) -> Ints:
    rows = np.concatenate(partials)
    unique, place = np.unique(rows[:, :2], axis=0, return_inverse=True)
    counts = np.zeros(len(unique), dtype=np.int64)
    np.add.at(counts, place.ravel(), rows[:, 2])
    return np.column_stack([unique, counts])


def _as_counted(_: Options, partial: Any) -> Any:
    return partial


NOT_FINITE = Count(
    "answers without a number", _count_not_finite, _merge_not_finite, _as_counted, per_slot=False
)
"""Rows (rater, cell, count) of infinite numbers, merged over blocks; see :func:`not_finite`."""


def not_finite(array: str) -> Request:
    """Ask for the infinite numbers of an array."""
    return Request(NOT_FINITE, {"left": array})


# ------------------------------------------------------------------------------------------------- moments


class ScoreMoments(NamedTuple):
    """Moments of pairs, and second moments of what each sampling unit adds to them.

    The axes (..., G) are (criterion or 1, other, A or 1, B, part): a part is a criterion whose statistic is
    averaged with others, otherwise there is one.
    """

    moments: PairMoments
    """Of shape (..., G)."""
    second: Float
    """Shape (..., 8 G, 8 G): products of the features that a unit adds, summed over units."""


def _finite(numbers: npt.NDArray[Any]) -> Float:
    """Numbers with NaN for infinite ones, which are reported and end in an error."""
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _sides(options: Options, block: Block) -> tuple[Float, Float]:
    """Numbers (item, column, criterion, other) of both sides."""
    array, n_criteria = _finite(block[options["left"]]), options["n_criteria"]
    out = []
    for side in ("left", "right"):
        columns = options[f"{side}_columns"]
        numbers = array[:, list(columns)]
        out.append(numbers.reshape((*numbers.shape[:2], n_criteria, numbers.shape[2] // n_criteria)))
    return out[0], out[1]


def _count_moments(options: Options, block: Block) -> ScoreMoments:
    left, right = _sides(options, block)
    parts = [
        _moments_of_block(options, left[start : start + _BLOCK], right[start : start + _BLOCK])
        for start in range(0, max(1, len(left)), _BLOCK)
    ]
    return parts[0] if len(parts) == 1 else _merge_moments(parts)


def _moments_of_block(options: Options, left: Float, right: Float) -> ScoreMoments:
    pooled, aggregate = options["pooled"], options["aggregate"]
    n_items, n_left, n_criteria, n_others = left.shape
    n_right = right.shape[1]
    n_slots = 1 if aggregate in ("micro", "macro") else n_criteria
    n_parts = n_criteria if aggregate == "macro" else 1
    shape = (n_slots, n_others, 1 if pooled else n_left, n_right)
    sums = np.zeros((*shape, n_parts, N_FEATURES))
    ends = [np.zeros((*shape, n_parts, 2)) for _ in range(3)]
    second = np.zeros((*shape, n_parts * N_FEATURES, n_parts * N_FEATURES))
    for at in np.ndindex(shape):
        slot, other, a, b = at
        voters = left[:, :, :, other] if pooled else left[:, a : a + 1, :, other]
        x, y = np.broadcast_arrays(voters, right[:, b, :, other][:, None])  # (item, voter, criterion)
        if n_slots == n_criteria and aggregate is None:
            x, y = x[..., slot : slot + 1], y[..., slot : slot + 1]
        # (part, item, pair of the item)
        flat = 1, n_items, math.prod(x.shape[1:])
        x, y = (v.transpose(2, 0, 1) if n_parts > 1 else v.reshape(flat) for v in (x, y))
        features = np.zeros((n_parts, *x.shape[1:], N_FEATURES))
        for part in range(n_parts):
            moments = moments_of_pairs(x[part].ravel(), y[part].ravel())
            sums[(*at, part)] = moments.sums
            for end, value in zip(ends, moments[1:], strict=True):
                end[(*at, part)] = value
            used = ~(np.isnan(x[part]) | np.isnan(y[part]))
            own = pair_features(
                np.where(used, x[part], 0.0), np.where(used, y[part], 0.0), moments.shift[None]
            )
            features[part] = np.where(used[..., None], own, 0.0)
        units = features if options["pairs_apart"] else features.sum(2, keepdims=True)
        rows = units.transpose(1, 2, 0, 3)
        rows = rows.reshape((rows.shape[0] * rows.shape[1], n_parts * N_FEATURES))
        second[at] = rows.T @ rows
        if options["pairs_apart"]:  # pairs of different criteria are different units
            second[at] *= np.kron(np.eye(n_parts), np.ones((N_FEATURES, N_FEATURES)))
    return ScoreMoments(PairMoments(sums, *ends), second)


def _merge_moments(parts: Sequence[ScoreMoments]) -> ScoreMoments:
    merged = merge_moments([part.moments for part in parts])
    n_parts = merged.sums.shape[-2]
    total = np.zeros_like(parts[0].second)
    for part in parts:
        move = shift_matrix(part.moments.shift - merged.shift)  # (..., G, 8, 8)
        blocks = part.second.reshape((*part.second.shape[:-2], n_parts, N_FEATURES, n_parts, N_FEATURES))
        moved = np.einsum("...gst,...gthu,...hvu->...gshv", move, blocks, move)
        total += moved.reshape(part.second.shape)
    return ScoreMoments(merged, total)


def _finish_moments(_: Options, partial: ScoreMoments) -> list[ScoreMoments]:
    return [partial]


SCORE_MOMENTS = Count(
    "moments of pairs of numbers", _count_moments, _merge_moments, _finish_moments, stacked=False
)
"""One :class:`ScoreMoments` in a list; see :func:`score_moments`."""


def score_moments(
    *,
    array: str,
    left_columns: Sequence[int],
    right_columns: Sequence[int],
    n_criteria: int,
    aggregate: str | None,
    pooled: bool,
    pairs_apart: bool,
) -> Request:
    """Ask for the moments of the pairs of two sets of columns.

    Parameters
    ----------
    array : str
        Name of an array of numbers (item, column, cell); criteria vary slowest along the cells.
    left_columns, right_columns : sequence of int
        References and raters.
    n_criteria : int
    aggregate : {None, "micro", "macro", "item"}
        ``"micro"`` adds up the criteria of an item, ``"macro"`` keeps them side by side.
    pooled : bool
        Whether the references are pooled: the axis A has length 1.
    pairs_apart : bool
        Whether every pair is a sampling unit of its own, and not the item.

    Returns
    -------
    Request
    """
    options = {
        "left": array,
        "left_columns": tuple(int(c) for c in left_columns),
        "right_columns": tuple(int(c) for c in right_columns),
        "n_criteria": n_criteria,
        "aggregate": None if aggregate == "item" else aggregate,
        "pooled": pooled,
        "pairs_apart": pairs_apart,
    }
    return Request(SCORE_MOMENTS, options)


# ---------------------------------------------------------------------------------------------- held numbers


class ScoreRows(NamedTuple):
    """The numbers of every item, in an order of their own."""

    data: Float
    """Shape (item, column, criterion, other), NaN where there is none."""
    cluster: Ints | None
    """Shape (item,): number of the cluster, where clusters were asked for."""


def _count_held(options: Options, block: Block) -> tuple[Float, Ints]:
    numbers = _finite(block[options["scores"]])
    columns = options["columns"]
    chosen = numbers if columns is None else numbers[:, list(columns)]
    rows = chosen.reshape((len(numbers), math.prod(chosen.shape[1:])))
    cluster = block["cluster"] if options["clusters"] else np.zeros(len(rows), dtype=np.int64)
    kept = (block[options["left"]] != MASKED).any((1, 2))  # items of the population
    return rows[kept], cluster[kept]


def _merge_held(partials: Sequence[tuple[Float, Ints]]) -> tuple[Float, Ints]:
    return np.concatenate([p[0] for p in partials]), np.concatenate([p[1] for p in partials])


def _finish_held(options: Options, partial: tuple[Float, Ints]) -> ScoreRows:
    rows, cluster = partial
    # in an order that does not depend on that of the items; NaN last
    order = np.lexsort((*rows.T[::-1], cluster))
    n_columns, n_criteria = options["n_columns"], options["n_criteria"]
    n_others = rows.shape[1] // max(1, n_columns * n_criteria)
    data = rows[order].reshape((len(rows), n_columns, n_criteria, n_others))
    return ScoreRows(data, cluster[order] if options["clusters"] else None)


SCORE_ROWS = Count("numbers of items", _count_held, _merge_held, _finish_held, stacked=False)
"""All numbers as they are (:class:`ScoreRows`): what ranks and resamples need; see :func:`score_rows`."""


def score_rows(
    *, array: str, codes: str, columns: Sequence[int], n_criteria: int, clusters: bool = False
) -> Request:
    """Ask for the numbers of some columns.

    Parameters
    ----------
    array, codes : str
        Names of the array of numbers (item, column, cell) and of the labels beside it, which tell items
        outside the population.
    columns : sequence of int
    n_criteria : int
    clusters : bool
        Whether the items come with their number in the array ``cluster`` (item,).

    Returns
    -------
    Request
        A :class:`ScoreRows` for each slot; its memory is that of the numbers.
    """
    chosen = tuple(int(c) for c in columns)
    options = {
        "left": codes,
        "scores": array,
        "columns": chosen,
        "n_columns": len(chosen),
        "n_criteria": n_criteria,
        "clusters": clusters,
    }
    return Request(SCORE_ROWS, options)

"""Rank correlations of tables and of held pairs: Spearman's rho and Kendall's tau-b.

Both are functions of who stands before whom, so they need the pairs themselves, or their table. Held pairs
are sorted once; any number of weightings (multiplicities, resamples) are then evaluated together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from xjudge.errors import Reason

__all__ = ["OF_RANKS", "RankedPairs", "evaluate_ranks", "rank_gradient"]

Float = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int8]
Bools = npt.NDArray[np.bool_]
Places = npt.NDArray[np.intp]

OF_RANKS: Final = ("spearman", "kendall_tau_b")
"""Names of the statistics of this room."""


def _reasons(empty: Bools, constant_x: Bools, constant_y: Bools) -> Codes:
    out = np.where(constant_y, np.int8(Reason.CONSTANT_RATER), np.int8(0))
    out = np.where(constant_x, np.int8(Reason.CONSTANT_REFERENCE), out)
    out = np.where(constant_x & constant_y, np.int8(Reason.CONSTANT_BOTH), out)
    return np.where(empty, np.int8(Reason.NO_JOINT_ANSWERS), out)


def _correlation(cross: Float, one: Float, other: Float, reason: Codes) -> Float:
    spread = np.where(one == other, one, np.sqrt(one) * np.sqrt(other))
    value = np.full(reason.shape, np.nan)
    np.divide(cross, spread, out=value, where=reason == 0)
    return np.clip(value, -1.0, 1.0)  # but for rounding it is inside


def _slope(value: Float, cross: Float, one: Float, other: Float, slopes: tuple[Float, Float, Float]) -> Float:
    """Slope of ``cross / sqrt(one other)`` from the slopes of the three, along the last axes."""
    lead = (..., *(None,) * (slopes[0].ndim - value.ndim))
    relative = slopes[1] / one[lead] + slopes[2] / other[lead]
    return slopes[0] / (np.sqrt(one) * np.sqrt(other))[lead] - value[lead] * relative / 2


# ----------------------------------------------------------------------------------------------------- tables


def _before_less_after(counts: Float) -> Float:
    """Along the last axis, what stands before each place less what stands after it."""
    return 2 * np.cumsum(counts, -1) - counts - counts.sum(-1, keepdims=True)


def _turn(amounts: Float) -> Float:
    """``sum_c amounts_c d rank_c / d n_a``: the later places less the earlier ones."""
    return -_before_less_after(amounts)


def _table_ranks(table: Float) -> tuple[Float, Float, Float, Float]:
    """Margins and centred mid-ranks, in units of half a rank."""
    row, column = table.sum(-1), table.sum(-2)
    return row, column, _before_less_after(row), _before_less_after(column)


def _spearman_parts(table: Float) -> tuple[Float, Float, Float]:
    row, column, x, y = _table_ranks(table)
    cross = np.einsum("...ab,...a,...b->...", table, x, y)
    return cross, (row * x * x).sum(-1), (column * y * y).sum(-1)


def _excess(table: Float) -> Float:
    """Pairs that a pair in each cell is concordant with, less those it is discordant with (..., L, L)."""
    # before less after, on both axes: same side counts once, opposite side minus once, ties not at all
    half = 2 * np.cumsum(table, -1) - table - table.sum(-1, keepdims=True)
    return 2 * np.cumsum(half, -2) - half - half.sum(-2, keepdims=True)


def _kendall_parts(table: Float) -> tuple[Float, Float, Float]:
    row, column, total = table.sum(-1), table.sum(-2), table.sum((-2, -1))
    cross = (table * _excess(table)).sum((-2, -1))
    # N^2 - sum n^2 as a sum of products of different places, which has nothing to cancel
    return (
        cross,
        (row * (total[..., None] - row)).sum(-1),
        (column * (total[..., None] - column)).sum(-1),
    )


def evaluate_ranks(name: str, table: Float) -> tuple[Float, Codes]:
    """Value and reason of a rank correlation from tables (..., L, L), categories in increasing order."""
    cross, one, other = _spearman_parts(table) if name == "spearman" else _kendall_parts(table)
    reason = _reasons(
        table.sum((-2, -1)) == 0,
        np.asarray((table.sum(-1) > 0).sum(-1) < 2),
        np.asarray((table.sum(-2) > 0).sum(-1) < 2),
    )
    return _correlation(cross, one, other, reason), reason


def rank_gradient(name: str, table: Float) -> Float:
    """Gradient of a rank correlation by the counts (..., L, L); NaN where it is undefined."""
    value, reason = evaluate_ranks(name, table)
    row, column, x, y = _table_ranks(table)
    if name == "spearman":
        parts = _spearman_parts(table)
        of_row, of_column = (table @ y[..., None])[..., 0], (x[..., None, :] @ table)[..., 0, :]
        cross = x[..., :, None] * y[..., None, :]
        cross = cross + _turn(of_row)[..., :, None] + _turn(of_column)[..., None, :]
        one = (x * x + 2 * _turn(row * x))[..., :, None]
        other = (y * y + 2 * _turn(column * y))[..., None, :]
    else:
        parts = _kendall_parts(table)
        total = table.sum((-2, -1))[..., None]
        cross = 2 * _excess(table)
        one, other = (2 * (total - row))[..., :, None], (2 * (total - column))[..., None, :]
    with np.errstate(divide="ignore", invalid="ignore"):  # undefined tables are blanked
        out = _slope(value, *parts, (cross, one, other))
    return np.where((reason == 0)[..., None, None], out, np.nan)


# ------------------------------------------------------------------------------------------------- held pairs


@dataclass(frozen=True, eq=False)
class _Grouped:
    """Numbers in increasing order, and where each distinct one starts."""

    order: Places
    starts: Places
    place: Places  # of each pair, among the distinct numbers

    @classmethod
    def of(cls, *keys: Float) -> _Grouped:
        order = np.lexsort(keys[::-1])
        changed = np.zeros(len(order), dtype=bool)
        for key in keys:
            ordered = key[order]
            changed[1:] |= ordered[1:] != ordered[:-1]
        if len(order):
            changed[0] = True
        place = np.empty(len(order), dtype=np.intp)
        place[order] = np.cumsum(changed) - 1
        return cls(order, np.flatnonzero(changed), place)

    def totals(self, weights: Float) -> Float:
        """Weights (..., pair) summed over equal numbers: (..., distinct)."""
        if not len(self.starts):
            return np.zeros((*weights.shape[:-1], 0))
        return np.add.reduceat(weights[..., self.order], self.starts, axis=-1)

    def before(self, weights: Float) -> Float:
        """Weight (..., pair) that stands strictly before each pair."""
        totals = self.totals(weights)
        return (np.cumsum(totals, -1) - totals)[..., self.place]

    def beside(self, weights: Float) -> Float:
        """Weight (..., pair) of equal numbers, the pair's own included."""
        return self.totals(weights)[..., self.place]


class RankedPairs:
    """Pairs of numbers, sorted once for any number of weightings.

    Parameters
    ----------
    x, y : ndarray of float, shape (pair,)
        Finite.

    Notes
    -----
    Spearman takes O(n) a weighting; Kendall O(n log n), one sorted merge for each doubling of the block.
    """

    def __init__(self, x: Float, y: Float) -> None:
        self.n_pairs = len(x)
        self._x, self._y = _Grouped.of(x), _Grouped.of(y)
        self._both, self._swapped = _Grouped.of(x, y), _Grouped.of(y, x)
        # by x upwards and, within equal x, by y downwards: whoever comes earlier and has less y has less x
        order = np.lexsort((-self._y.place, self._x.place))
        self._merges = _merges(order, self._y.place)

    def evaluate(self, name: str, weights: Float) -> tuple[Float, Codes]:
        """Value and reason (...) for weights (..., pair)."""
        cross, one, other = self._parts(name, weights)
        reason = _reasons(
            weights.sum(-1) == 0,
            np.asarray((self._x.totals(weights) > 0).sum(-1) < 2),
            np.asarray((self._y.totals(weights) > 0).sum(-1) < 2),
        )
        return _correlation(cross, one, other, reason), reason

    def influence(self, name: str, weights: Float) -> Float:
        """Derivative (..., pair) of the value by each pair's weight; NaN where it is undefined."""
        value, reason = self.evaluate(name, weights)
        parts = self._parts(name, weights)
        if name == "spearman":
            x, y = self._ranks(self._x, weights), self._ranks(self._y, weights)
            turn = self._turn(self._x, weights * y) + self._turn(self._y, weights * x)
            slopes = (
                x * y + turn,
                x * x + 2 * self._turn(self._x, weights * x),
                y * y + 2 * self._turn(self._y, weights * y),
            )
        else:
            total = weights.sum(-1, keepdims=True)
            slopes = (
                2 * self._excess(weights),
                2 * (total - self._x.beside(weights)),
                2 * (total - self._y.beside(weights)),
            )
        with np.errstate(divide="ignore", invalid="ignore"):
            out = _slope(value, *parts, slopes)
        return np.where((reason == 0)[..., None], out, np.nan)

    def _parts(self, name: str, weights: Float) -> tuple[Float, Float, Float]:
        if name == "spearman":
            x, y = self._ranks(self._x, weights), self._ranks(self._y, weights)
            return (weights * x * y).sum(-1), (weights * x * x).sum(-1), (weights * y * y).sum(-1)
        total = weights.sum(-1, keepdims=True)
        return (
            (weights * self._excess(weights)).sum(-1),
            (weights * (total - self._x.beside(weights))).sum(-1),
            (weights * (total - self._y.beside(weights))).sum(-1),
        )

    @staticmethod
    def _ranks(side: _Grouped, weights: Float) -> Float:
        """Centred mid-ranks, in units of half a rank."""
        return 2 * side.before(weights) + side.beside(weights) - weights.sum(-1, keepdims=True)

    @staticmethod
    def _turn(side: _Grouped, amounts: Float) -> Float:
        """What comes later less what came earlier."""
        return amounts.sum(-1, keepdims=True) - side.beside(amounts) - 2 * side.before(amounts)

    def _excess(self, weights: Float) -> Float:
        """Weight concordant with each pair less weight discordant with it (..., pair)."""
        below = self._both_below(weights)
        in_x, in_y, in_both = (g.beside(weights) for g in (self._x, self._y, self._both))
        x_below, y_below = self._x.before(weights), self._y.before(weights)
        # within equal x, those with less y; within equal y, those with less x
        y_below_in_x = self._both.before(weights) - x_below
        x_below_in_y = self._swapped.before(weights) - y_below
        total = weights.sum(-1, keepdims=True)
        x_below_y_above = x_below - below - x_below_in_y
        x_above_y_below = y_below - below - y_below_in_x
        x_above_y_equal = in_y - x_below_in_y - in_both
        both_above = total - x_below - in_x - x_above_y_below - x_above_y_equal
        return below + both_above - x_below_y_above - x_above_y_below

    def _both_below(self, weights: Float) -> Float:
        """Weight of the pairs with less x and less y than each pair."""
        out = np.zeros(weights.shape)
        for sources, found, targets in self._merges:
            summed = np.zeros((*weights.shape[:-1], len(sources) + 1))
            np.cumsum(weights[..., sources], -1, out=summed[..., 1:])
            # `found` counts over all blocks up to here, so the blocks before are taken off again
            out[..., targets[0]] += summed[..., found] - summed[..., targets[1]]
        return out


def _merges(order: Places, rank: Places) -> list[tuple[Places, Places, tuple[Places, Places]]]:
    """For each doubling of the block, how left halves add to right halves of the order.

    Entries are: pairs of the left halves, sorted by rank within their block; for each pair of a right half
    how many of them stand before it; those pairs, and how many stand in earlier blocks.
    """
    n = len(order)
    out = []
    for level in range(max(n - 1, 0).bit_length()):
        half = 1 << level
        position = np.arange(n)
        block, right = position >> (level + 1), (position & half) > 0
        key = block * (n + 1) + rank[order]  # one increasing key over all blocks
        left_positions = position[~right]
        sorted_left = left_positions[np.argsort(key[left_positions], kind="stable")]
        found = np.searchsorted(key[sorted_left], key[right], side="left")
        start = np.searchsorted(block[sorted_left], block[right], side="left")
        out.append((order[sorted_left], found, (order[right], start)))
    return out

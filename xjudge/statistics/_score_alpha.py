"""Krippendorff's alpha of real-valued scores, by sorting and moments instead of a matrix of distinct values.

With U distinct values a coincidence matrix has U^2 cells: 600 items and 2 raters of distinct numbers already
need gigabytes. But the disagreement expected by chance is a sum over all pairs of values, which has a closed
form for every metric but the ratio one, and ordinal distances are interval distances of mid-ranks. What
remains is one sort and sums over items.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError, Reason, StructureError, listing
from xjudge.statistics._items import checked_item_weights
from xjudge.statistics._terms import Float
from xjudge.statistics.coefficients import Evaluated
from xjudge.statistics.weights import METRICS

__all__ = ["alpha_of_scores", "evaluate_alpha_of_scores", "influence_of_scores"]

_BLOCK = 1 << 20
"""Pairs of values whose ratio distances are formed at a time."""


def alpha_of_scores(
    scores: npt.ArrayLike,
    metric: str = "interval",
    *,
    period: float | None = None,
    item_weights: npt.ArrayLike | None = None,
) -> Float:
    r"""Krippendorff's alpha of real numbers.

    The same number as :func:`xjudge.statistics.raters.alpha` with every distinct value a category.

    Parameters
    ----------
    scores : array-like of float, shape (..., item, rater)
        NaN where a rater gave none. Values that are equal as floats are ties.
    metric : {"nominal", "ordinal", "interval", "ratio", "circular"}
        Squared differences between values x and y: :math:`[x \ne y]`, that of mid-ranks, :math:`(x-y)^2`,
        :math:`[(x-y)/(x+y)]^2`, :math:`\sin^2(\pi (x-y)/period)`.
    period : float, optional
        Length of the circle; needed for, and only for, ``"circular"``.
    item_weights : array-like, shape (..., item), optional
        Multiplicities, or one row per resample.

    Returns
    -------
    ndarray, shape (...)
        At most 1. NaN where no item has two scores or all scores are equal.

    Raises
    ------
    ProtocolError
        An unknown metric, a negative score on the ratio metric, a period that does not fit the metric.
    StructureError
        Scores that are not numbers, are infinite, or not of that shape.

    Notes
    -----
    One sort of the n scores, then O(n) for each weighting; the ratio metric takes U^2 evaluations for U
    distinct values, in blocks of a few megabytes.

    Examples
    --------
    >>> alpha_of_scores([[1.0, 1.5], [2.0, 2.5], [4.0, 3.5]]).round(4).item()
    0.9068
    >>> alpha_of_scores([[1.0, 1.5], [2.0, 2.5], [4.0, 3.5]], "ordinal").round(4).item()
    0.8571
    """
    return evaluate_alpha_of_scores(scores, metric, period=period, item_weights=item_weights).value


def evaluate_alpha_of_scores(
    scores: npt.ArrayLike,
    metric: str = "interval",
    *,
    period: float | None = None,
    item_weights: npt.ArrayLike | None = None,
) -> Evaluated:
    """Evaluate :func:`alpha_of_scores`, with the reason where it is undefined.

    Parameters
    ----------
    scores, metric, period, item_weights
        As for :func:`alpha_of_scores`.

    Returns
    -------
    value : ndarray, shape (...)
    reason : ndarray of int8, shape (...)

    Raises
    ------
    ProtocolError, StructureError
        As :func:`alpha_of_scores`.

    Examples
    --------
    >>> Reason(evaluate_alpha_of_scores([[1.0, 1.0], [1.0, 1.0]]).reason).text
    'all scores are equal'
    """
    slices, weights, lead = _broadcast(scores, metric, period, item_weights)
    value = np.empty(len(weights))
    reason = np.empty(len(weights), dtype=np.int8)
    for place, (position, row) in enumerate(weights):
        value[place], reason[place] = slices[position].evaluate(row)
    return Evaluated(value.reshape(lead), reason.reshape(lead))


def influence_of_scores(
    scores: npt.ArrayLike,
    metric: str = "interval",
    *,
    period: float | None = None,
    item_weights: npt.ArrayLike | None = None,
) -> Float:
    """Influence of every item on :func:`alpha_of_scores`: the derivative of the value by the item's weight.

    Parameters
    ----------
    scores, metric, period, item_weights
        As for :func:`alpha_of_scores`.

    Returns
    -------
    ndarray of float64, shape (..., item)
        NaN throughout where alpha is undefined; 0 for items that carry no pairs. The variance of alpha is
        ``n / (n - 1) sum psi^2`` over the n pairable items.

    Raises
    ------
    ProtocolError, StructureError
        As :func:`alpha_of_scores`.

    Examples
    --------
    >>> influence_of_scores([[1.0, 1.5], [2.0, 2.5], [4.0, 3.5], [9.0, np.nan]]).round(4)
    array([ 0.0023, -0.0348,  0.0138,  0.    ])
    """
    slices, weights, lead = _broadcast(scores, metric, period, item_weights)
    n_items = np.asarray(scores).shape[-2]
    out = np.empty((len(weights), n_items))
    for place, (position, row) in enumerate(weights):
        out[place] = slices[position].influence(row)
    return out.reshape(*lead, n_items)


@dataclass(frozen=True, eq=False)
class _Sorted:
    """The pairable scores of one set of items, sorted once for any number of weightings."""

    metric: str
    period: float
    n_items: int
    size: Float  # labels of an item, 0 where it carries no pairs
    item: npt.NDArray[np.intp]  # of each score
    distinct: Float
    place: npt.NDArray[np.intp]  # of each score among the distinct values
    within: Float  # disagreement inside an item over m - 1; of no use to the ordinal metric

    @classmethod
    def of(cls, scores: Float, metric: str, period: float) -> _Sorted:
        given = ~np.isnan(scores)
        given &= (given.sum(-1) >= 2)[:, None]
        size = given.sum(-1).astype(np.float64)
        item = np.nonzero(given)[0]
        values = scores[given] % period if metric == "circular" else scores[given]
        distinct, place = np.unique(values, return_inverse=True)
        sorted_scores = cls(metric, period, len(scores), size, item, distinct, place, np.zeros(len(scores)))
        if metric == "ordinal":
            return sorted_scores
        if metric == "interval":
            within = sorted_scores._squares_within(values)
        else:
            within = _pairs_within(scores, given, metric, period) / np.maximum(size - 1, 1)
        return cls(metric, period, len(scores), size, item, distinct, place, within)

    def evaluate(self, weights: Float) -> tuple[float, int]:
        n, observed, expected, reason = self._sums(weights)[:4]
        return (np.nan if reason else 1.0 - (n - 1.0) * observed / expected), reason

    def influence(self, weights: Float) -> Float:
        n, observed, expected, reason, used, within, pull = self._sums(weights)
        if reason:
            return np.full(self.n_items, np.nan)
        by_observed = -(n - 1.0) / expected
        by_expected = (n - 1.0) * (observed / expected) / expected  # the square of a small one is 0
        line = by_expected * 2.0 * pull - observed / expected
        if self.metric == "ordinal":
            rank = np.cumsum(used) - used / 2
            own = _tally(self.item, rank[self.place], self.n_items)[self.item] - rank[self.place]
            partner = weights[self.item] * own / (self.size[self.item] - 1.0)
            met = _tally(self.place, partner, len(self.distinct))
            turn = 4.0 * (used * rank - met)
            turn_expected = 4.0 * used * (n * rank - used @ rank)
            line = line + by_observed * _after(turn) + by_expected * _after(turn_expected)
        return by_observed * within + _tally(self.item, line[self.place], self.n_items)

    def _sums(self, weights: Float) -> tuple[float, float, float, int, Float, Float, Float]:
        used = _tally(self.place, weights[self.item], len(self.distinct))
        n = float(used.sum())
        within, pull = self.within, np.zeros_like(used)
        if n == 0:
            return n, 0.0, 0.0, int(Reason.NO_PAIRABLE_ITEM), used, within, pull
        if np.count_nonzero(used) < 2:
            return n, 0.0, 0.0, int(Reason.NO_VARIATION), used, within, pull
        if self.metric == "ordinal":
            rank = np.cumsum(used) - used / 2
            within = self._squares_within(rank[self.place])
            pull = _interval_pull(rank, used)
        elif self.metric == "interval":
            pull = _interval_pull(self.distinct, used)
        elif self.metric == "nominal":
            pull = n - used
        elif self.metric == "ratio":
            pull = _ratio_pull(self.distinct, used)
        else:
            pull = _circular_pull(self.distinct, used, self.period)
        return n, float(weights @ within), float(used @ pull), 0, used, within, pull

    def _squares_within(self, values: Float) -> Float:
        """``sum_jk (x_j - x_k)^2 / (m - 1)`` of each item: 2 m / (m - 1) times its sum of squares."""
        size = np.maximum(self.size, 1.0)
        mean = _tally(self.item, values, self.n_items) / size
        squares = _tally(self.item, (values - mean[self.item]) ** 2, self.n_items)
        return 2.0 * self.size / np.maximum(self.size - 1.0, 1.0) * squares


def _tally(places: npt.NDArray[np.intp], amounts: Float, n: int) -> Float:
    """Sum of the amounts at each of n places."""
    return np.bincount(places, weights=amounts, minlength=n).astype(np.float64, copy=False)


def _after(turn: Float) -> Float:
    """Derivative through mid-ranks: all of the later values and half of the value itself."""
    return np.cumsum(turn[::-1])[::-1] - turn / 2


def _interval_pull(values: Float, used: Float) -> Float:
    """``sum_b n_b (x_a - x_b)^2`` for every a, from the mean and the sum of squares about it."""
    n = used.sum()
    deviation = values - used @ values / n
    return n * deviation**2 + used @ deviation**2 - 2 * deviation * (used @ deviation)


def _circular_pull(values: Float, used: Float, period: float) -> Float:
    """``sum_b n_b sin^2(pi (x_a - x_b) / period)`` for every a, from the mean direction."""
    angle = 2.0 * np.pi * values / period
    mean = np.arctan2(used @ np.sin(angle), used @ np.cos(angle))
    half = np.sin((angle - mean) / 2) ** 2
    lost = 2.0 * (used @ half)  # n minus the resultant length, without cancellation
    return lost / 2 + (used.sum() - lost) * half


def _ratio_pull(values: Float, used: Float) -> Float:
    pull = np.empty_like(used)
    step = max(1, _BLOCK // len(values))
    for start in range(0, len(values), step):
        pull[start : start + step] = _ratio(values[start : start + step, None], values) @ used
    return pull


def _ratio(x: Float, y: Float) -> Float:
    total = x + y
    return np.divide(x - y, total, out=np.zeros_like(total), where=total > 0) ** 2


def _pairs_within(scores: Float, given: npt.NDArray[np.bool_], metric: str, period: float) -> Float:
    """``sum_jk d(x_j, x_k)`` of each item, two raters at a time."""
    out = np.zeros(len(scores))
    filled = np.where(given, scores, 0.0)
    for j in range(scores.shape[1]):
        for k in range(j):
            x, y = filled[:, j], filled[:, k]
            if metric == "nominal":
                distance = (x != y).astype(np.float64)
            elif metric == "ratio":
                distance = _ratio(x, y)
            else:
                distance = np.sin(np.pi * (x - y) / period) ** 2
            out += 2.0 * np.where(given[:, j] & given[:, k], distance, 0.0)
    return out


def _broadcast(
    scores: npt.ArrayLike, metric: str, period: float | None, item_weights: npt.ArrayLike | None
) -> tuple[list[_Sorted], list[tuple[int, Float]], tuple[int, ...]]:
    """Sorted scores of each set of items, and which set and weights make each value."""
    values = _checked_scores(scores, metric, period)
    n_items = values.shape[-2]
    checked = checked_item_weights(item_weights, values)
    weights = np.ones(n_items) if checked is None else checked.astype(np.float64)
    lead = np.broadcast_shapes(values.shape[:-2], weights.shape[:-1])
    n_sets = math.prod(values.shape[:-2])
    slices = [
        _Sorted.of(block, metric, 1.0 if period is None else float(period))
        for block in values.reshape(n_sets, *values.shape[-2:])
    ]
    position = np.broadcast_to(np.arange(n_sets).reshape(values.shape[:-2]), lead).ravel()
    rows = np.broadcast_to(weights, (*lead, n_items)).reshape(len(position), n_items)
    return slices, list(zip(position.tolist(), rows, strict=True)), lead


def _checked_scores(scores: npt.ArrayLike, metric: str, period: float | None) -> Float:
    if metric not in METRICS:
        raise ProtocolError(f"`metric` of scores must be one of {listing(METRICS, most=5)}; got {metric!r}.")
    values = np.asarray(scores)
    if values.ndim < 2 or values.dtype.kind not in "iuf":
        raise StructureError(
            f"Scores are numbers of shape (..., item, rater); got {values.dtype} of shape {values.shape}."
        )
    values = values.astype(np.float64)
    if np.isinf(values).any():
        raise StructureError("Scores must be finite; NaN means that there is none.")
    if metric == "ratio" and (values < 0).any():
        raise ProtocolError(
            f"The ratio metric needs scores that are not negative; got {np.nanmin(values):g}."
        )
    if (period is not None) != (metric == "circular"):
        raise ProtocolError("`period` goes with metric='circular': the length of the circle.")
    if period is not None and not 0 < period < np.inf:
        raise ProtocolError(f"`period` must be positive and finite; got {period!r}.")
    return values

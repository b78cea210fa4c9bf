"""Intervals where nobody disagrees: what the data cannot rule out, by Wilson's argument.

The delta method has nothing to go on there: no unit moves the estimate, and its standard error is 0. But n
units without a disagreement say how rare disagreements are: a share of :math:`z^2 / (n + z^2)` of disagreeing
units is the largest that a score test at the level does not reject, Wilson's upper end at 0 of n. That is the
share in a sample with :math:`z^2` more units, all of which disagree. The far end of the interval is the
statistic of that sample; the near end is the estimate.

For accuracy (and F1, a function of a share) this is Wilson's interval to the last digit; for kappa it is near
the goodness-of-fit interval of Donner and Eliasziw, with which it coincides where both categories are equally
frequent. How units disagree is not in the data: pairs of categories differ as chance would have it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from xjudge.statistics._intervals import normal_quantile
from xjudge.statistics._items import summed_terms
from xjudge.statistics._terms import Float, ItemStatistic

__all__ = ["disagreeing_item", "disagreeing_pair", "unseen_units"]


def unseen_units(level: float = 0.95) -> float:
    r"""Disagreeing units that a sample without any may have missed: :math:`z^2`, by Wilson's score test.

    Parameters
    ----------
    level : float
        Confidence level, in (0, 1).

    Returns
    -------
    float

    Raises
    ------
    ProtocolError
        A level outside (0, 1).

    References
    ----------
    .. [1] E. B. Wilson, "Probable inference, the law of succession, and statistical inference", 1927.
    .. [2] A. Donner and M. Eliasziw, "A goodness-of-fit approach to inference procedures for the kappa
       statistic", 1992.

    Examples
    --------
    Twenty pairs that agree: how low may the share of agreeing pairs be?

    >>> from xjudge.statistics import wilson_interval
    >>> round(20 / (20 + unseen_units(0.95)), 4), wilson_interval(20, 20).lower.round(4).item()
    (0.8389, 0.8389)
    """
    return float(normal_quantile(level) ** 2)


def disagreeing_pair(table: npt.ArrayLike, apart: npt.ArrayLike | None = None) -> Float:
    """One pair that disagrees, spread over the cells of a table as chance would have it.

    Parameters
    ----------
    table : array-like, shape (..., L, L)
        Counts; rows reference, columns rater.
    apart : array-like of bool, shape (L, L), optional
        Cells that disagree; by default all off the diagonal.

    Returns
    -------
    ndarray of float64, shape (..., L, L)
        Sums to 1: proportional to the product of the shares of both categories among all labels, one label
        of every category added, so that categories nobody used are possible. Zeros where no cell disagrees.

    Examples
    --------
    >>> disagreeing_pair([[20, 0, 0], [0, 5, 0], [0, 0, 0]]).round(3)
    array([[0.   , 0.448, 0.041],
           [0.448, 0.   , 0.011],
           [0.041, 0.011, 0.   ]])
    """
    counts = np.asarray(table, dtype=np.float64)
    n_categories = counts.shape[-1]
    off = ~np.eye(n_categories, dtype=bool) if apart is None else np.asarray(apart, dtype=bool)
    return _as_by_chance(counts.sum(-1) + counts.sum(-2), off)


def _as_by_chance(labels: Float, apart: npt.NDArray[np.bool_]) -> Float:
    """Chances (..., L, L) of two categories that are apart, from labels (..., L)."""
    used = labels + 1.0
    product = np.where(apart, used[..., :, None] * used[..., None, :], 0.0)
    total = product.sum((-2, -1), keepdims=True)
    return np.divide(product, total, out=np.zeros_like(product), where=total > 0)


def disagreeing_item(
    statistic: ItemStatistic, data: npt.NDArray[Any], item_weights: npt.ArrayLike
) -> Float | None:
    """Terms of one item whose raters are split evenly between two categories, drawn as chance would.

    Parameters
    ----------
    statistic : ItemStatistic
    data : ndarray
        What the statistic is computed from: counts (item, L), or label codes (item, rater).
    item_weights : array-like, shape (item,)
        Multiplicities.

    Returns
    -------
    ndarray of float64, shape (T,), or None
        Added to the summed terms of the data it is one further item. The item has as many labels as a
        pairable item has on average; which raters are on which side goes round. ``None`` where numbers are
        not categories.

    Examples
    --------
    >>> from xjudge.statistics.raters import item_statistic, item_terms
    >>> counts = np.array([[3, 0], [3, 0], [0, 3], [0, 3]])
    >>> fleiss = item_statistic("fleiss_kappa", 2)
    >>> once = disagreeing_item(fleiss, counts, np.ones(4))
    >>> value, _ = fleiss.value(item_terms(fleiss, counts).sum(0) + unseen_units(0.95) * once)
    >>> value.round(3).item()
    0.347
    """
    L, weights = statistic.n_categories, np.asarray(item_weights, dtype=np.float64)
    if L == 0:
        return None
    size = np.asarray(statistic.n_labels(data))
    pairable = weights * (size >= 2)
    n_labels = max(2, round(float(pairable @ size / max(pairable.sum(), 1.0))))
    off = ~np.eye(L, dtype=bool) if statistic.disagreement is None else statistic.disagreement > 0
    if statistic.needs == "counts":
        chance = _as_by_chance(weights @ data, off)
        first, second = np.nonzero(off)
        rows = np.zeros((len(first), L))
        rows[np.arange(len(first)), first] = n_labels // 2
        rows[np.arange(len(first)), second] += n_labels - n_labels // 2
        return summed_terms(statistic, rows, chance[first, second])
    used = np.stack([weights @ (data == category).sum(1) for category in range(L)])
    return _split_raters(statistic, data, _as_by_chance(used, off))


def _split_raters(statistic: ItemStatistic, data: npt.NDArray[Any], chance: Float) -> Float:
    """Terms of an item on which one half of the raters says one category and the other half another."""
    active = np.nonzero((data >= 0).any(0))[0]
    first, second = np.nonzero(chance)
    n = len(active)
    total = np.zeros(0)
    for turn in range(n):
        side = (np.arange(n) + turn) % n < n // 2
        rows = np.full((len(first), data.shape[1]), -1, dtype=np.int64)
        rows[:, active] = np.where(side, first[:, None], second[:, None])
        part = summed_terms(statistic, rows, chance[first, second] / n)
        total = part if not total.size else total + part
    return total

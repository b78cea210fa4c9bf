"""Coefficients of many raters as functions of sums over items.

Every coefficient here is ``f(sum_i t_i)``: an item adds a short vector of *terms* ``t_i``, and nothing but
their sum enters the value. An :class:`ItemStatistic` holds the two halves, ``terms`` and ``value``, and the
gradient of ``f``. From these follow, without another formula per coefficient:

* a chunked pass: chunks add up their terms (or, exact in integers, merge their count-vector histograms);
* a histogram of count vectors: terms of the few distinct vectors, weighted by their multiplicities;
* the item bootstrap: a matrix of resampling weights times the matrix of terms;
* the influence of an item, ``gradient . t_i``, hence delta-method and clustered variances;
* the jackknife, ``f(sum - t_i)``.

Values are formed from *disagreements* ``1 - w_ab`` (or distances), which are never negative: so expected
disagreement is exactly zero where chance leaves no room for it, and no tolerance decides what is undefined.

Items with fewer than two labels carry no pairs. Coefficients whose chance term averages the shares within
items (Gwet's, and Fleiss' in that convention) still count them there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.errors import Reason
from xjudge.statistics.weights import Matrix

__all__ = [
    "BrennanPrediger",
    "CongerKappa",
    "Expected",
    "FleissKappa",
    "GwetAC",
    "ItemStatistic",
    "PairMean",
    "PercentAgreement",
    "by_sums",
    "first_reason",
    "normalised",
    "safe_divide",
]

Float = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int8]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class ItemStatistic(ABC):
    """A statistic of many raters that is a function of sums over items.

    Parameters
    ----------
    n_categories : int
        L, the number of declared categories.
    disagreement : ndarray of float64, shape (L, L), or None
        ``1 - w_ab``, or the distances of alpha; ``None`` is 1 off the diagonal.
    """

    n_categories: int
    disagreement: Matrix | None

    needs: ClassVar[Literal["counts", "labels"]] = "counts"
    """Whether terms are made of item-by-category counts or of label codes with the raters told apart."""

    @property
    def singletons(self) -> bool:
        """Whether items with a single label enter the value."""
        return False

    def width(self, n_columns: int) -> int:
        """Numbers that the terms of one item take, about, for data of so many columns."""
        return n_columns * self.n_categories

    @abstractmethod
    def terms(self, counts: npt.NDArray[Any]) -> Float:
        """Terms (..., item, T) of items from their counts (..., item, L), or what ``needs`` says."""

    @abstractmethod
    def value(self, sums: Float) -> tuple[Float, Codes]:
        """Value and reason (...) from summed terms (..., T)."""

    @abstractmethod
    def gradient(self, sums: Float) -> Float:
        """Derivative (..., T) of the value by the summed terms; NaN where the value is undefined."""

    def n_labels(self, data: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Labels of each item (..., item)."""
        return data.sum(-1)

    def published_influence(self, data: npt.NDArray[Any], multiplicity: Float) -> Float | None:
        """Influence (item,) in the form in which Gwet prints it; ``None`` where there is none in print."""
        return None

    def spread(self, counts: Float) -> Float:
        """``sum_ab n_a n_b D_ab`` (...) of vectors (..., L): disagreeing ordered pairs, never negative."""
        # D n is formed first: a square less a sum of squares would cancel where one category prevails
        return np.einsum("...a,...a->...", counts, self.pull(counts))

    def pull(self, vector: Float) -> Float:
        """``D v`` (..., L) of vectors (..., L)."""
        if self.disagreement is None:
            return (vector @ np.ones(self.n_categories))[..., None] - vector
        return vector @ self.disagreement

    def certain(self, shares: Float) -> Codes:
        """Reason (...) why chance leaves no room for disagreement; 0 where it does."""
        used = shares > 0
        one = used.sum(-1) < 2
        impossible = self.spread(used.astype(np.float64)) == 0
        return first_reason(
            (one, Reason.ONE_CATEGORY),
            (impossible, Reason.NO_POSSIBLE_DISAGREEMENT),
        )


class Expected(NamedTuple):
    """Disagreement expected by chance, its derivative by the summed shares, and why it is zero."""

    value: Float
    gradient: Float
    reason: Codes


class PairMean(ItemStatistic):
    """``1 - D_o / D_e``, with ``D_o`` the mean over pairable items of the disagreement within the item.

    Terms: ``[m >= 2]``, the item's share of disagreeing pairs, and what the chance term needs.
    """

    @abstractmethod
    def shares(self, counts: Float, size: Float) -> Float:
        """Further terms (..., item, K), of which the chance term is made."""

    @abstractmethod
    def expected(self, sums: Float) -> Expected:
        """Chance term from the sums (..., K) of those further terms."""

    def terms(self, counts: npt.NDArray[Any]) -> Float:
        counts = counts.astype(np.float64, copy=False)
        size = counts @ np.ones(self.n_categories)
        pairable = size >= 2
        further = self.shares(counts, size)
        out = np.empty((*size.shape, 2 + further.shape[-1]))
        out[..., 0] = pairable
        out[..., 1] = self.spread(counts) / np.maximum(size * (size - 1), 1.0) * pairable
        out[..., 2:] = further
        return out

    def value(self, sums: Float) -> tuple[Float, Codes]:
        observed, expected, reason = self._parts(sums)
        value = np.full(reason.shape, np.nan)
        np.subtract(1.0, safe_divide(observed, expected.value, reason == 0), out=value, where=reason == 0)
        return value, reason

    def gradient(self, sums: Float) -> Float:
        observed, expected, reason = self._parts(sums)
        defined = reason == 0
        ratio = safe_divide(observed, expected.value, defined)
        scale = safe_divide(np.ones_like(ratio), sums[..., 0] * expected.value, defined)
        out = np.empty_like(sums)
        out[..., 0] = observed * scale
        out[..., 1] = -scale
        out[..., 2:] = safe_divide(ratio, expected.value, defined)[..., None] * expected.gradient
        out[~defined] = np.nan
        return out

    def _parts(self, sums: Float) -> tuple[Float, Expected, Codes]:
        some = sums[..., 0] > 0
        observed = safe_divide(sums[..., 1], sums[..., 0], some)
        expected = self.expected(sums[..., 2:])
        return observed, expected, np.where(some, expected.reason, np.int8(Reason.NO_PAIRABLE_ITEM))

    def published_influence(self, data: npt.NDArray[Any], multiplicity: Float) -> Float | None:
        """Influence (item,) in the form in which Gwet prints it.

        An item with one label gets the agreement term 0 instead of none, so the share of such items counts
        as noise: variances are at least those of the delta method, and equal without such items.
        """
        terms = self.terms(data)
        labelled = self.n_labels(data) >= 1
        sums = multiplicity @ terms
        value, reason = self.value(sums)
        if reason != 0:
            return np.full(len(data), np.nan)
        expected = self.expected(sums[2:])
        n_labelled = float(multiplicity[labelled].sum())
        agreement = n_labelled / sums[0] * (terms[:, 0] * expected.value - terms[:, 1]) / expected.value
        # ``gradient`` is that of the sums over items; an item's own chance term deviates by n times it
        chance = -n_labelled * (terms[:, 2:] @ expected.gradient)
        influence = (agreement - (1 - value) * chance / expected.value - value) / n_labelled
        return np.where(labelled, influence, 0.0)


class PercentAgreement(PairMean):
    """Mean over items of the weighted share of agreeing pairs."""

    def shares(self, counts: Float, size: Float) -> Float:
        return counts[..., :0]

    def expected(self, sums: Float) -> Expected:
        lead = sums.shape[:-1]
        return Expected(np.ones(lead), np.zeros((*lead, 0)), np.zeros(lead, dtype=np.int8))


class BrennanPrediger(PairMean):
    """Chance is uniform over the declared categories: ``D_e = sum_ab D_ab / L^2``."""

    def shares(self, counts: Float, size: Float) -> Float:
        return counts[..., :0]

    def expected(self, sums: Float) -> Expected:
        lead = sums.shape[:-1]
        uniform = np.full(self.n_categories, 1.0 / self.n_categories)
        value = np.full(lead, self.spread(uniform))
        reason = np.full(lead, self.certain(uniform), dtype=np.int8)
        return Expected(value, np.zeros((*lead, 0)), reason)


@dataclass(frozen=True, eq=False)
class FleissKappa(PairMean):
    """Chance from the category shares of all raters together: ``D_e = sum_ab D_ab pi_a pi_b``.

    Parameters
    ----------
    item_mean : bool
        Shares averaged over items with a label (as irrCAC) instead of over labels of pairable items.
    """

    item_mean: bool = False

    @property
    def singletons(self) -> bool:
        return self.item_mean

    def shares(self, counts: Float, size: Float) -> Float:
        if self.item_mean:
            return counts / np.maximum(size, 1.0)[..., None]
        return counts * (size >= 2)[..., None]

    def published_influence(self, data: npt.NDArray[Any], multiplicity: Float) -> Float | None:
        return super().published_influence(data, multiplicity) if self.item_mean else None

    def expected(self, sums: Float) -> Expected:
        share, total = normalised(sums)
        slope = 2 * self.pull(share)
        return Expected(self.spread(share), by_sums(slope, share, total), self.certain(sums))


class GwetAC(PairMean):
    """Gwet's AC1 and AC2: ``p_e = T_w / (L (L - 1)) sum_a pi_a (1 - pi_a)``, ``T_w`` the sum of weights."""

    @property
    def singletons(self) -> bool:
        return True

    def shares(self, counts: Float, size: Float) -> Float:
        return counts / np.maximum(size, 1.0)[..., None]

    def expected(self, sums: Float) -> Expected:
        L = self.n_categories
        share, total = normalised(sums)
        every = self.spread(np.ones(L))  # the sum of disagreements, L^2 - T_w
        factor = (L * L - every) / (L * max(L - 1, 1))
        value = 1.0 - factor * (share * (1.0 - share)).sum(-1)
        slope = -factor * (1.0 - 2.0 * share)
        # p_e <= T_w / L^2, so it is 1 only where every weight is: one category, or a scale without distances
        reason = np.full(value.shape, self.certain(np.ones(L)), dtype=np.int8)
        return Expected(value, by_sums(slope, share, total), reason)


class CongerKappa(PairMean):
    """Chance from each rater's own category shares, averaged over pairs of raters; needs label codes.

    Terms hold one count for each rater and category. Raters without a label are not counted.
    """

    needs = "labels"

    @property
    def singletons(self) -> bool:
        return True

    def n_labels(self, data: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return (data >= 0).sum(-1)

    def terms(self, counts: npt.NDArray[Any]) -> Float:
        """Terms (..., item, 2 + R L) from label codes (..., item, rater), negative where missing."""
        given = counts[..., None] == np.arange(self.n_categories)  # (..., item, rater, L)
        head = PairMean.terms(self, given.sum(-2, dtype=np.float64))
        return np.concatenate(
            [head, given.reshape(*given.shape[:-2], given.shape[-2] * self.n_categories)],
            axis=-1,
            dtype=np.float64,
        )

    def shares(self, counts: Float, size: Float) -> Float:
        return counts[..., :0]

    def expected(self, sums: Float) -> Expected:
        n_raters = sums.shape[-1] // self.n_categories
        by_rater = sums.reshape(*sums.shape[:-1], n_raters, self.n_categories)
        share, total = normalised(by_rater)
        n_active = (total[..., 0] > 0).sum(-1)
        n_pairs = (n_active * (n_active - 1)).astype(np.float64)
        some = n_pairs > 0
        others = share.sum(-2, keepdims=True) - share
        pulled = self.pull(others)
        value = safe_divide((share * pulled).sum((-2, -1)), n_pairs, some)
        slope = safe_divide(2 * pulled, n_pairs[..., None, None], some[..., None, None])
        return Expected(
            value, by_sums(slope, share, total).reshape(sums.shape), self._certain_pairs(by_rater, some)
        )

    def _certain_pairs(self, by_rater: Float, some: Bools) -> Codes:
        used = (by_rater > 0).astype(np.float64)  # zeros and ones: differences are exact
        others = used.sum(-2, keepdims=True) - used
        room = (used * self.pull(others)).sum((-2, -1)) > 0
        one = (used.sum(-2) > 0).sum(-1) < 2
        return first_reason(
            (~some, Reason.ONE_RATER),
            (one, Reason.ONE_CATEGORY),
            (~room, Reason.NO_POSSIBLE_DISAGREEMENT),
        )


def safe_divide(numerator: Float, denominator: Float, where: Bools) -> Float:
    """Quotient where ``where`` holds, otherwise 0."""
    shape = np.broadcast_shapes(np.shape(numerator), np.shape(denominator), np.shape(where))
    return np.divide(numerator, denominator, out=np.zeros(shape), where=where)


def normalised(sums: Float) -> tuple[Float, Float]:
    """Shares (..., L) of sums (..., L), zeros where there is nothing, and the totals (..., 1)."""
    total = sums.sum(-1, keepdims=True)
    return safe_divide(sums, total, total > 0), total


def by_sums(slope: Float, share: Float, total: Float) -> Float:
    """Derivative by sums from the derivative by shares."""
    return safe_divide(slope - (slope * share).sum(-1, keepdims=True), total, total > 0)


def first_reason(*pairs: tuple[Bools, Reason]) -> Codes:
    """The first reason that holds, in the order given; 0 where none does."""
    out = np.zeros(np.shape(pairs[0][0]), dtype=np.int8)
    for holds, reason in reversed(pairs):
        out = np.where(holds, np.int8(reason), out)
    return out

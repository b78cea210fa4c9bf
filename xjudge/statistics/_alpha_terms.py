"""Krippendorff's alpha as a function of sums over items: fixed distances, and the ordinal metric."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from xjudge.errors import Reason
from xjudge.statistics._terms import Codes, Float, ItemStatistic, first_reason, safe_divide
from xjudge.statistics.weights import ordinal_distances

__all__ = ["Alpha", "OrdinalAlpha"]


class Alpha(ItemStatistic):
    """Krippendorff's alpha for distances that do not depend on the labels.

    Terms: ``sum_ab n_ia n_ib d_ab / (m_i - 1)`` and the counts of pairable items.
    """

    def terms(self, counts: npt.NDArray[Any]) -> Float:
        counts = counts.astype(np.float64, copy=False)
        size = counts @ np.ones(self.n_categories)
        pairable = (size >= 2).astype(np.float64)
        out = np.empty((*size.shape, 1 + self.n_categories))
        out[..., 0] = self.spread(counts) / np.maximum(size - 1, 1.0) * pairable
        np.multiply(counts, pairable[..., None], out=out[..., 1:])
        return out

    def value(self, sums: Float) -> tuple[Float, Codes]:
        within, marginal = sums[..., 0], sums[..., 1:]
        n = marginal.sum(-1)
        reason = np.where(n > 0, self.certain(marginal), np.int8(Reason.NO_PAIRABLE_ITEM))
        value = np.full(reason.shape, np.nan)
        ratio = safe_divide((n - 1) * within, self.spread(marginal), reason == 0)
        np.subtract(1.0, ratio, out=value, where=reason == 0)
        return value, reason

    def gradient(self, sums: Float) -> Float:
        within, marginal = sums[..., 0], sums[..., 1:]
        n = marginal.sum(-1)
        _, reason = self.value(sums)
        defined = reason == 0
        expected = self.spread(marginal)
        one = safe_divide(np.ones_like(n), expected, defined)
        out = np.empty_like(sums)
        out[..., 0] = -(n - 1) * one
        by_expected = (n - 1) * within * one * one
        out[..., 1:] = -(within * one)[..., None] + 2 * by_expected[..., None] * self.pull(marginal)
        out[~defined] = np.nan
        return out

    def published_influence(self, data: npt.NDArray[Any], multiplicity: Float) -> Float | None:
        """Influence (item,) in the form in which Gwet prints it for alpha.

        It treats alpha as agreement over the mean number of labels, and leaves its small-sample factor
        ``(n - 1)/n`` out of the derivative.
        """
        terms = self.terms(data)
        sums = multiplicity @ terms
        if self.value(sums)[1] != 0:
            return np.full(len(data), np.nan)
        size = terms[:, 1:].sum(-1)
        n = sums[1:].sum()
        n_items = float(multiplicity[size > 0].sum())
        mean_size = n / n_items
        largest = 1.0 if self.disagreement is None else float(self.disagreement.max())
        share = sums[1:] / n
        d_expected = self.spread(share) / largest
        excess = (size - mean_size) / mean_size
        raw_disagreement = sums[0] / (n * largest)
        agreement = 1.0 - (1.0 - 1.0 / n) * raw_disagreement
        raw_value = 1.0 - raw_disagreement / d_expected
        own = (size - terms[:, 0] / largest) / mean_size - agreement * excess
        expected = 1.0 - d_expected
        own_expected = (size - terms[:, 1:] @ self.pull(share) / largest) / mean_size - expected * excess
        influence = (
            (own - expected) / d_expected
            - 2 * (1 - raw_value) * (own_expected - expected) / d_expected
            - raw_value
        ) / n_items
        return np.where(size > 0, influence, 0.0)


class OrdinalAlpha(ItemStatistic):
    """Krippendorff's alpha with the ordinal metric, whose distances depend on all labels together.

    Terms: the upper triangle of the coincidences ``n_ia (n_ib - [a=b]) / (m_i - 1)``, whose row sums are the
    counts of pairable items. The distances are squared differences of mid-ranks.
    """

    def terms(self, counts: npt.NDArray[Any]) -> Float:
        counts = counts.astype(np.float64, copy=False)
        size = counts @ np.ones(self.n_categories)
        scale = (size >= 2) / np.maximum(size - 1, 1.0)
        upper = np.triu_indices(self.n_categories)
        product = counts[..., upper[0]] * (counts[..., upper[1]] - (upper[0] == upper[1]))
        return product * scale[..., None]

    def value(self, sums: Float) -> tuple[Float, Codes]:
        coincidences = self._unpacked(sums)
        marginal = coincidences.sum(-1)
        n = marginal.sum(-1)
        distances = ordinal_distances(safe_divide(marginal, n[..., None], n[..., None] > 0))
        reason = np.where(n > 0, self._certain_ranks(marginal), np.int8(Reason.NO_PAIRABLE_ITEM))
        observed = (coincidences * distances).sum((-2, -1))
        expected = (marginal[..., None] * marginal[..., None, :] * distances).sum((-2, -1))
        value = np.full(reason.shape, np.nan)
        np.subtract(1.0, safe_divide((n - 1) * observed, expected, reason == 0), out=value, where=reason == 0)
        return value, reason

    def gradient(self, sums: Float) -> Float:
        coincidences = self._unpacked(sums)
        marginal = coincidences.sum(-1)
        n = marginal.sum(-1)
        defined = self.value(sums)[1] == 0
        rank = np.cumsum(marginal, -1) - marginal / 2
        distances = (rank[..., :, None] - rank[..., None, :]) ** 2
        observed = (coincidences * distances).sum((-2, -1))
        expected = (marginal[..., None] * marginal[..., None, :] * distances).sum((-2, -1))
        # through the ranks: d rank_c / d n_a = 1 for a < c, 1/2 for a = c
        turn = 4 * (marginal * rank - (coincidences @ rank[..., None])[..., 0])
        turn_expected = 4 * marginal * (n[..., None] * rank - (marginal * rank).sum(-1)[..., None])
        by_marginal = _after(turn)
        expected_by_marginal = _after(turn_expected) + 2 * (distances @ marginal[..., None])[..., 0]
        one = safe_divide(np.ones_like(n), expected, defined)
        slope_observed = -(n - 1) * one
        slope_expected = (n - 1) * observed * one * one
        line = (
            slope_observed[..., None] * by_marginal
            + slope_expected[..., None] * expected_by_marginal
            - (observed * one)[..., None]
        )
        full = slope_observed[..., None, None] * distances + (line[..., :, None] + line[..., None, :]) / 2
        upper = np.triu_indices(self.n_categories)
        out = full[..., upper[0], upper[1]] * np.where(upper[0] == upper[1], 1.0, 2.0)
        out[~defined] = np.nan
        return out

    def _unpacked(self, sums: Float) -> Float:
        L = self.n_categories
        out = np.empty((*sums.shape[:-1], L, L))
        upper = np.triu_indices(L)
        out[..., upper[0], upper[1]] = sums
        out[..., upper[1], upper[0]] = sums
        return out

    def _certain_ranks(self, marginal: Float) -> Codes:
        return first_reason(((marginal > 0).sum(-1) < 2, Reason.ONE_CATEGORY))


def _after(turn: Float) -> Float:
    """``sum_c turn_c d rank_c / d n_a`` (..., L): all of the later categories and half of its own."""
    return np.flip(np.cumsum(np.flip(turn, -1), -1), -1) - turn / 2

"""Intervals of the sizes of a panel from resampled items: on which scale, and what chance adds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.statistics import panel
from xjudge.statistics.resample import percentile_interval, studentized_interval

__all__ = ["Ends", "Estimate", "Products"]

Floats = npt.NDArray[np.float64]
Products = dict[tuple[str, str], Floats]
"""Variances and covariances; see :func:`xjudge.statistics.panel.influence_products`."""


class Estimate(NamedTuple):
    """What an interval stands on: values, their variances and covariances, chance correlations, judges."""

    values: Mapping[str, Any]
    products: Products
    noise: float
    n_judges: int


class _Scale(NamedTuple):
    """Where an interval is made: the value with an influence, and whether it is the size's reciprocal."""

    base: str
    reciprocal: bool


_SCALES = {
    "participation_ratio": _Scale("squared_correlation", reciprocal=True),
    "nu_h": _Scale("squared_correlation", reciprocal=True),
    "mean_squared_correlation": _Scale("squared_correlation", reciprocal=False),
    "n_eff": _Scale("signed_correlation", reciprocal=True),
    "mean_error_correlation": _Scale("signed_correlation", reciprocal=False),
}
"""Sizes and means that are functions of one mean over all pairs of judges; others stand as they are."""


_RANGES = {
    "participation_ratio": (1.0, np.inf),
    "mean_squared_correlation": (0.0, 1.0),
    "mean_error_correlation": (-1.0, 1.0),
    "gamma_co": (0.0, 1.0),
}
"""Where ends may lie; sizes, errors and variances are not negative."""


class Ends:
    """Ends of intervals of one table.

    Bootstrap-t: quantiles of ``(replicate - estimate) / standard error of the replicate``, turned round.
    Chance correlations enlarge ``sum_ab C_ab^2``: once in the estimate, twice in a resample. What is taken
    out is the panel's own noise, not the delta of simulated humans, who may disagree on other items than
    judges err on. Without standard errors the ends are percentiles, for ``sum_ab C_ab^2`` reflected about the
    estimate.

    Parameters
    ----------
    estimate : Estimate
        Of the sample.
    drawn : dict of str to ndarray (B,)
        Values in the resamples.
    products : dict
        Variances and covariances in the resamples; empty for percentiles.
    level : float
    """

    def __init__(
        self, estimate: Estimate, drawn: Mapping[str, Floats], products: Products, level: float
    ) -> None:
        self.values, self.own, self.noise, self.k = estimate
        self.drawn, self.products, self.level = drawn, products, level

    def of(self, name: str) -> Floats:
        """Both ends of a value; NaN where it is undefined."""
        if np.isnan(self.values[name]):
            return np.full(2, np.nan)
        scale = _SCALES.get(name, _Scale(name, reciprocal=False))
        ends = self._of_ratio(name) if name in panel.RATIOS else self._on_scale(scale.base)
        if scale.reciprocal:
            ends = np.divide(1.0, ends, out=np.full(2, np.inf), where=~(ends <= 0))[::-1]
        elif name != scale.base:
            ends = (self.k * ends - 1.0) / (self.k - 1)
        low, high = _RANGES.get(name, (0.0, np.inf))
        return np.clip(ends, low, self.k if name == "participation_ratio" else high)

    def _on_scale(self, base: str) -> Floats:
        """Both ends of a value with an influence."""
        estimate, drawn = self._base(self.values, base), self._base(self.drawn, base)
        correlations = base == "squared_correlation"
        if (base, base) in self.products and self.own[base, base] > 0:
            shift = self.noise if correlations else 0.0
            own, errors = np.sqrt(self.own[base, base]), np.sqrt(self.products[base, base])
            ends = studentized_interval(estimate - shift, own, drawn - 2.0 * shift, errors, self.level)
            return np.stack(ends, axis=-1)
        found = np.stack(percentile_interval(drawn, self.level), axis=-1)
        return 2.0 * estimate - found[::-1] if correlations else found

    def _of_ratio(self, name: str) -> Floats:
        """Both ends of a ratio; the error of a panel, unlike its limit, comes near zero in no resample."""
        sides = panel.RATIOS[name]
        if not self.products or not all(self.own[side, side] > 0 for side in sides):
            return np.stack(percentile_interval(self.drawn[name], self.level), axis=-1)
        own, drawn = self._sides(sides, self.values, self.own), self._sides(sides, self.drawn, self.products)
        if name != "nu_mse":
            return panel.ratio_interval(own, drawn, self.level)
        errors = []
        for side, ratio in ((own, self.values[name]), (drawn, self.drawn[name])):
            variance = side.above_variance - 2.0 * ratio * side.covariance + ratio**2 * side.below_variance
            errors.append(np.sqrt(np.maximum(variance, 0.0)) / np.where(side.below > 0, side.below, np.nan))
        ends = studentized_interval(self.values[name], errors[0], self.drawn[name], errors[1], self.level)
        return np.stack(ends, axis=-1)

    def _sides(
        self, sides: tuple[str, str], values: Mapping[str, Any], products: Products
    ) -> panel.RatioSide:
        above, below = sides
        return panel.RatioSide(
            self._base(values, above),
            self._base(values, below),
            products[above, above],
            products[below, below],
            products[sides],
        )

    def _base(self, values: Mapping[str, Any], base: str) -> Floats:
        """Values on the scale of the interval."""
        if base == "squared_correlation":
            return 1.0 / np.asarray(values["participation_ratio"])
        if base == "signed_correlation":
            mean = np.asarray(values["mean_error_correlation"])
            return (1.0 + (self.k - 1) * mean) / self.k if self.k > 1 else 1.0 / np.asarray(values["n_eff"])
        if base == "error_limit":
            shared = values["mean_member_variance"] * values["mean_member_correlation"]
            return np.asarray(values["mean_residual_sq"] + shared)
        return np.asarray(values[base])

"""How far each sampling unit moves the sizes of a panel: standard errors of sizes, also of resampled ones.

Every size is a function of sums over items that does not change when all weights change alike. Adding a
little weight to a unit moves the size by the unit's influence, and the sum over units of weight times
squared influence is the variance of the size under resampling (the delta method): bootstrap-t intervals
divide by its root.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.statistics._panel_inputs import Floats
from xjudge.statistics._panel_residuals import PanelSums

__all__ = [
    "INFLUENCES",
    "RATIOS",
    "RatioSide",
    "correlation_noise",
    "influence_products",
    "ratio_interval",
    "size_influences",
]

INFLUENCES = (
    "squared_correlation",
    "signed_correlation",
    "gamma_co",
    "distributional_error",
    "error_limit",
    "human_variance",
    "distributional_error_corrected",
    "human_variance_corrected",
)
"""Values with an influence. ``squared_correlation`` is ``sum_ab C_ab^2 / k^2``, the reciprocal of PR, and
``signed_correlation`` is ``sum_ab phi_ab / k^2`` of binary errors, the reciprocal of Kish's votes;
``error_limit`` is the error of an endless panel, ``mu2 + vbar rhobar``."""

RATIOS = {
    "nu_mse": ("human_variance", "distributional_error"),
    "nu_mse_limit": ("human_variance", "error_limit"),
    "nu_mse_corrected": ("human_variance_corrected", "distributional_error_corrected"),
}
"""Sizes that are ratios of two of these values."""

Products = dict[tuple[str, str], Floats]


def influence_products(terms: PanelSums, sums: PanelSums, weights: npt.ArrayLike) -> Products:
    """Weighted sums of products of influences: variances of values of a panel, and covariances in ratios.

    Parameters
    ----------
    terms : PanelSums
        What each unit adds to the sums, (n, ...), incomplete items dropped.
    sums : PanelSums
        The sums at each weighting, (b, ...): of all units, of which ``terms`` may be some.
    weights : array-like (b, n)

    Returns
    -------
    dict of (str, str) to ndarray (b,)
        For each of :data:`INFLUENCES` under ``(name, name)`` its variance, for each of :data:`RATIOS` the
        covariance of its two sides. Parts of the units add. NaN where a value is undefined.

    Notes
    -----
    Cost ``b n k^2``. With ``G`` the sums of inner products and ``S = sum_ab C_ab^2``,
    ``dS = 2 sum_ab (C_ab / sqrt(G_aa G_bb)) dG_ab - 2 sum_a (sum_b C_ab^2 / G_aa) dG_aa``.
    """
    w = np.asarray(weights, dtype=np.float64)
    psi = _influences(terms, sums)
    pairs = [*((name, name) for name in INFLUENCES), *RATIOS.values()]
    with np.errstate(invalid="ignore", over="ignore"):
        return {(a, b): np.einsum("bn,bn,bn->b", w, psi[a], psi[b]) for a, b in pairs}


def size_influences(
    terms: PanelSums, sums: PanelSums, values: Mapping[str, Floats], shift: float = 0.0
) -> dict[str, Floats]:
    """Influences of sampling units on sizes themselves, for differences of panels.

    Parameters
    ----------
    terms, sums : PanelSums
        As for :func:`influence_products`.
    values : mapping of str to ndarray (b,)
        Of :func:`effective_size`.
    shift : float
        Chance part of ``squared_correlation`` that is taken out before its reciprocal.

    Returns
    -------
    dict of str to ndarray (b, n)
        ``participation_ratio``, ``nu_h`` (the same), ``nu_mse``, ``n_eff``, ``gamma_co``,
        ``distributional_error``; not ``nu_mse_limit``, whose denominator may come near zero.
    """
    psi = _influences(terms, sums)
    column = {name: np.asarray(value)[:, None] for name, value in values.items() if np.ndim(value) == 1}
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        spectral = -psi["squared_correlation"] / (1.0 / column["participation_ratio"] - shift) ** 2
        out = {"participation_ratio": spectral, "nu_h": spectral}
        out["n_eff"] = -psi["signed_correlation"] * column["n_eff"] ** 2
        above, below = RATIOS["nu_mse"]
        out["nu_mse"] = (psi[above] - column["nu_mse"] * psi[below]) / column[below]
        return out | {name: psi[name] for name in ("gamma_co", "distributional_error")}


def _influences(terms: PanelSums, sums: PanelSums) -> dict[str, Floats]:
    """Influence (b, n) of every unit on every value of :data:`INFLUENCES`."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # undefined values stay NaN
        psi = {"squared_correlation": _of_correlations(terms, sums)}
        return psi | _of_errors(terms, sums) | {"signed_correlation": _of_votes(terms, sums)}


def _linear(coefficients: Floats, features: Floats) -> Floats:
    """Coefficients (b, ...) times features (n, ...): (b, n)."""
    return coefficients.reshape(len(coefficients), -1) @ features.reshape(len(features), -1).T


def _of_correlations(terms: PanelSums, sums: PanelSums) -> Floats:
    """Influence on the mean squared entry of C."""
    gram = sums.gram
    k = gram.shape[-1]
    energy = np.diagonal(gram, axis1=-2, axis2=-1)
    scaled = gram / (energy[:, :, None] * energy[:, None, :])
    coefficients = 2.0 * scaled
    place = np.arange(k)
    coefficients[:, place, place] -= 2.0 * (gram * scaled).sum(-1) / energy
    return _linear(coefficients, terms.gram) / k**2


def _of_errors(terms: PanelSums, sums: PanelSums) -> dict[str, Floats]:
    """Influences on errors, on variances of the human side, and on the consensus share."""
    k = sums.gram.shape[-1]
    n, units = sums.n_items[:, None], terms.n_items

    def mean(total: Floats, added: Floats) -> tuple[Floats, Floats]:
        """Return a mean over items (b, 1) and its influence (b, n)."""
        value = total[:, None] / n
        return value, (added - value * units) / n

    error = mean(sums.gram.sum((1, 2)) / k**2, terms.gram.sum((1, 2)) / k**2)
    energy = mean(np.trace(sums.gram, axis1=1, axis2=2), np.trace(terms.gram, axis1=1, axis2=2))
    variance = mean(sums.human[:, 1], terms.human[:, 1])
    unbiased = mean(sums.human[:, 3], terms.human[:, 3])
    excess = mean(sums.human[:, 4], terms.human[:, 4])
    few = np.where(sums.human[:, 5] > 0, np.nan, 0.0)[:, None]
    # the squared mean residual of the panel, and the sum of those of its members
    own = sums.reach[..., 0] / n[..., None]
    panel = own.mean(-1)
    mu2 = (panel**2).sum(-1)[:, None]
    members = (own**2).sum((1, 2))[:, None]
    reach = terms.reach[..., 0]
    moved = 2.0 * (_linear(panel, reach.mean(-1)) - mu2 * units) / n
    own_moved = 2.0 * (_linear(own, reach) - members * units) / n
    shared = k * (error[0] - mu2), k * (error[1] - moved)
    spread = energy[0] - members, energy[1] - own_moved
    others = k - 1 if k > 1 else np.nan  # one judge has no limit
    return {
        "distributional_error": error[1],
        "error_limit": moved + (shared[1] - spread[1] / k) / others,
        "human_variance": variance[1],
        "gamma_co": (shared[1] - shared[0] / spread[0] * spread[1]) / spread[0],
        "distributional_error_corrected": error[1] - excess[1] + few,
        "human_variance_corrected": unbiased[1] + few,
    }


def _of_votes(terms: PanelSums, sums: PanelSums) -> Floats:
    """Influence on the mean entry of the correlations of binary errors."""
    k = sums.gram.shape[-1]
    n = sums.error_joint[:, 0, 0, None]
    rate = sums.error_reach[..., 0] / n
    variance = rate * (1.0 - rate)
    root = 1.0 / np.sqrt(variance)
    covariance = sums.error_cross / n[..., None] - rate[:, :, None] * rate[:, None, :]
    phi = covariance * root[:, :, None] * root[:, None, :]
    own = phi.sum(-1) / variance
    reach, scored = terms.error_reach[..., 0], terms.error_joint[:, 0, 0]
    centre = (rate * root).sum(-1)[:, None]
    moved = _linear(root[:, :, None] * root[:, None, :], terms.error_cross)
    moved = moved - 2.0 * centre * _linear(root, reach) + centre**2 * scored
    moved = moved - _linear(own * (1.0 - 2.0 * rate), reach) - (own * rate**2).sum(-1)[:, None] * scored
    return moved / (n * k**2)


def correlation_noise(terms: PanelSums, sums: PanelSums, weights: npt.ArrayLike) -> float:
    """Part of ``sum_ab C_ab^2 / k^2`` that is chance: the variances of the ``C_ab`` under resampling.

    Parameters
    ----------
    terms : PanelSums
        What each unit adds to the sums, (n, ...), incomplete items dropped.
    sums : PanelSums
        Of all units.
    weights : array-like (n,)

    Returns
    -------
    float
        Parts of the units add. For independent simulated humans it is ``(1 - 1/m) delta`` on average.

    Notes
    -----
    ``dC_ab = dG_ab / sqrt(G_aa G_bb) - (C_ab / 2) (dG_aa / G_aa + dG_bb / G_bb)``.
    """
    gram = sums.gram
    energy = np.diagonal(gram)
    with np.errstate(divide="ignore", invalid="ignore"):
        root = 1.0 / np.sqrt(energy)
        scale = root[:, None] * root
        own = np.diagonal(terms.gram, axis1=-2, axis2=-1) / energy
        moved = terms.gram * scale - 0.5 * gram * scale * (own[:, :, None] + own[:, None, :])
    return float(np.asarray(weights, dtype=np.float64) @ (moved**2).sum((1, 2))) / gram.shape[-1] ** 2


class RatioSide(NamedTuple):
    """Both sides of a ratio with their variances and covariance, one value each or one a resample."""

    above: Floats
    below: Floats
    above_variance: Floats
    below_variance: Floats
    covariance: Floats


def ratio_interval(estimate: RatioSide, drawn: RatioSide, level: float = 0.95) -> Floats:
    """Bootstrap-t interval of a ratio whose denominator may come near zero (Fieller's argument).

    Parameters
    ----------
    estimate : RatioSide
        Of the sample, each ().
    drawn : RatioSide
        Of the resamples, each (B,).
    level : float

    Returns
    -------
    ndarray (2,)
        The values t at which ``(above - t below) / standard error of it`` lies between its quantiles in the
        resamples. The upper end is infinite where the denominator may be zero; NaN where nothing is defined.
    """
    a, b, var_a, var_b, cov = (float(value) for value in estimate)
    ratio = a / b if b else np.nan
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = drawn.above_variance - 2.0 * ratio * drawn.covariance + ratio**2 * drawn.below_variance
        t = (drawn.above - ratio * drawn.below) / np.sqrt(variance)
    t = t[np.isfinite(t)]
    if not len(t) or np.isnan([a, b, var_a, var_b, cov]).any():
        return np.full(2, np.nan)
    ends = []
    for q in np.quantile(t, [(1.0 + level) / 2.0, (1.0 - level) / 2.0]).tolist():
        # (a - t b)^2 = q^2 (var_a - 2 t cov + t^2 var_b), on the side of the sign of q
        square, middle, rest = b * b - q * q * var_b, a * b - q * q * cov, a * a - q * q * var_a
        if square <= 0:  # the denominator is not distinguished from zero
            ends.append(0.0 if q > 0 else np.inf)
            continue
        ends.append((middle - np.sign(q) * np.sqrt(max(middle**2 - square * rest, 0.0))) / square)
    return np.array(ends)

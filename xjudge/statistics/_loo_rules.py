"""Probability that a decision rule accepts a judge whose margins are Gaussian in a design (LOO.md 6)."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError
from xjudge.statistics._loo_cells import item_gains
from xjudge.statistics._loo_design import DesignMargins, design_margins, further_members
from xjudge.statistics._loo_gaussian import accept_probability, gaussian_cuts, gaussian_draws
from xjudge.statistics._loo_model import NoiseModel, Patterns
from xjudge.statistics._loo_population import Population
from xjudge.statistics._loo_votes import Decimal, Float, read_decimal

__all__ = ["PlannedJudge", "Rule", "acceptance", "by_probability", "refusal", "rule_margins", "sign_margins"]

Rule = Literal["omega", "partial_conjunction", "alt_test"]

RULES = ("omega", "partial_conjunction", "alt_test")

# Below so many items a comparison is judged by t, as it will be when the labels are in.
_SMALL_SAMPLE = 50

# Label patterns times label masks that the alternative-annotator test is enumerated over.
_MOST_CELLS = 1 << 20


class PlannedJudge(NamedTuple):
    """A judge to plan for.

    Attributes
    ----------
    population : Population
        Moments of its pairs.
    model : Patterns, NoiseModel or None
        What to simulate from, where there is something.
    shift : ndarray of float, shape (K,)
        Added to every margin, so that its dense margins are where the plan wants them.
    sign_shift : float or None
        Where the plan wants the margins of the alternative-annotator test; None leaves them.
    labels_per_item : float
        Criteria on which a pair meets; they are pooled.
    """

    population: Population
    model: Patterns | NoiseModel | None
    shift: Float
    sign_shift: float | None
    labels_per_item: float = 1.0


def rule_margins(
    judge: PlannedJudge, rule: str, design: str, points: Float, n_items: int, eps: Decimal
) -> DesignMargins:
    """Margins that the rule looks at, for ``points`` items per further human.

    Parameters
    ----------
    judge : PlannedJudge
    rule : {"omega", "partial_conjunction", "alt_test"}
    design : str
    points : ndarray of float, shape (G,)
    n_items : int
    eps : float

    Returns
    -------
    DesignMargins
        Leading dim of ``points``.

    Raises
    ------
    ProtocolError
        Where the alternative-annotator test has no joint distribution of labels small enough.
    """
    share = points / n_items
    if rule != "alt_test":
        found = design_margins(judge.population, design, share, n_items, eps)
        return found._replace(mu=found.mu + judge.shift)
    if not isinstance(judge.model, Patterns):
        raise ProtocolError(
            "Planning for the alternative-annotator test needs the joint distribution of an item's labels: "
            "fewer raters and categories, or a pilot with items that everybody labelled."
        )
    found = sign_margins(judge.model, design, share, n_items, eps)
    if judge.sign_shift is None:
        return found
    dense = sign_margins(judge.model, "shared", np.asarray(1.0), n_items, eps)
    return found._replace(mu=found.mu + judge.sign_shift - dense.mu)


def sign_margins(
    patterns: Patterns, design: str, share: npt.ArrayLike, n_items: int, eps: Decimal
) -> DesignMargins:
    """Mean and covariance of the per-item advantages that the alternative-annotator test averages.

    Parameters
    ----------
    patterns : Patterns
        Joint distribution of labels.
    design, share, n_items, eps
        As for :func:`xjudge.statistics.loo.design_margins`.

    Returns
    -------
    DesignMargins
        Of ``mean_i sign(score of judge - score of human k) + eps``; ``overlap`` counts items.

    Notes
    -----
    A human's items carry one, two or more other humans, so all ``2^(K-1)`` masks are summed over. Strata are
    not taken off: with them the covariance is an upper bound.
    """
    rho = np.asarray(share, dtype=np.float64)
    codes, probability = patterns
    K = codes.shape[1] - 1
    members = further_members(K)
    if design != "random":
        members = members[[0, -1]]
    if len(members) * len(codes) > _MOST_CELLS:
        raise ProtocolError(
            f"{len(codes)} label patterns and {len(members)} masks are too many to plan for the "
            f"alternative-annotator test: leave humans out."
        )
    weight, gain = np.zeros((*rho.shape, K)), np.zeros((*rho.shape, K))
    ee, ed, dd = (np.zeros((*rho.shape, K, K)) for _ in range(3))
    for row in members[1:]:
        further = int(row.sum()) - 1
        chance = rho if design != "random" else rho**further * (1 - rho) ** (K - 1 - further)
        sign = np.sign(item_gains(codes, row)).astype(np.float64)
        mean, square = probability @ sign, (sign * probability[:, None]).T @ sign
        there = row.astype(np.float64)
        weight += chance[..., None] * there
        gain += chance[..., None] * mean
        grid = chance[..., None, None]
        ee += grid * square
        ed += grid * (mean[:, None] * there)
        dd += grid * (there[:, None] * there)
    delta = gain / weight
    a, b = delta[..., :, None], delta[..., None, :]
    products = ee - b * ed - a * np.swapaxes(ed, -1, -2) + a * b * dd
    covariance = products / (weight[..., :, None] * weight[..., None, :]) / n_items
    return DesignMargins(delta + float(read_decimal(eps, "eps")), covariance, weight * n_items)


def acceptance(
    rule: str,
    margins: DesignMargins,
    needed: int,
    points: Float,
    *,
    level: float,
    q: float,
    log2_points: int = 12,
) -> Float:
    """Probability that the rule accepts, along a grid.

    Parameters
    ----------
    rule : {"omega", "partial_conjunction", "alt_test"}
    margins : DesignMargins
        Leading dim G.
    needed : int
        Wins that accept.
    points : ndarray of float, shape (G,)
        Items per further human: below 50 critical values are those of t.
    level, q : float
        Of the verdict; of the alternative-annotator test.
    log2_points : int
        Of the quasi-Monte Carlo points.

    Returns
    -------
    ndarray of float, shape (G,)
    """
    K = margins.mu.shape[-1]
    if rule == "omega":
        return _enough(margins.mu, margins.covariance, needed, log2_points)
    if rule == "alt_test":
        return by_probability(margins.mu, margins.covariance, needed, points, q=q, log2_points=log2_points)
    alpha = (1 - level) / (K - needed + 1)
    shifted = margins.mu - _critical(alpha, points)[:, None] * _sd(margins.covariance)
    return _enough(shifted, margins.covariance, needed, log2_points)


def refusal(
    margins: DesignMargins, needed: int, points: Float, *, level: float, log2_points: int = 12
) -> Float:
    """Probability of the verdict "reject", along a grid; arguments as for :func:`acceptance`.

    Returns
    -------
    ndarray of float, shape (G,)
    """
    K = margins.mu.shape[-1]
    alpha = (1 - level) / needed
    shifted = -margins.mu - _critical(alpha, points)[:, None] * _sd(margins.covariance)
    return _enough(shifted, margins.covariance, K - needed + 1, log2_points)


def by_probability(
    mu: Float, covariance: Float, needed: int, points: Float, *, q: float = 0.05, log2_points: int = 12
) -> Float:
    """Probability that Benjamini-Yekutieli finds at least ``needed`` margins above zero, along a grid.

    Parameters
    ----------
    mu : ndarray of float, shape (G, K)
    covariance : ndarray of float, shape (G, K, K)
    needed : int
    points : ndarray of float, shape (G,)
        Items of a comparison, for the critical values.
    q : float
        False discovery rate.
    log2_points : int

    Returns
    -------
    ndarray of float, shape (G,)
    """
    from scipy.special import ndtr

    K = mu.shape[-1]
    steps = np.arange(1, K + 1)
    levels = steps * q / (K * (1 / steps).sum())
    out = np.empty(len(mu))
    for g in range(len(mu)):
        sd = _sd(covariance[g])
        critical = np.array([_critical(level, points[[g]])[0] for level in levels])
        # At least i p-values below the i-th level, for some i of at least `needed`.
        enough = [(i, critical[i - 1] * sd) for i in range(needed, K + 1)]
        cuts = [gaussian_cuts(mu[g] - bar, covariance[g], log2_points=log2_points) for _, bar in enough]
        if any(cut is None for cut in cuts):
            draws = gaussian_draws(mu[g], covariance[g], log2_points=log2_points + 3)
            found = [(draws >= bar[:, None]).sum(axis=0) >= i for i, bar in enough]
            out[g] = np.mean(np.any(found, axis=0))
        else:
            first = [
                np.sort(cut, axis=0)[i - 1]
                for (i, _), cut in zip(enough, cuts, strict=True)
                if cut is not None
            ]
            out[g] = np.mean(ndtr(-np.min(first, axis=0)))
    return out


# ---------------------------------------------------------------------------------------------- private


def _enough(mu: Float, covariance: Float, needed: int, log2_points: int) -> Float:
    return np.asarray(accept_probability(mu, covariance, needed, log2_points=log2_points))


def _sd(covariance: Float) -> Float:
    return np.sqrt(np.maximum(np.diagonal(covariance, axis1=-2, axis2=-1), 1e-300))


def _critical(alpha: float, points: Float) -> Float:
    """Upper quantile: normal, or t below 50 items."""
    from scipy.special import ndtri, stdtrit

    normal = np.full(len(points), -float(ndtri(alpha)))
    small = points < _SMALL_SAMPLE
    normal[small] = -stdtrit(np.maximum(points[small] - 1, 1), alpha)
    return normal

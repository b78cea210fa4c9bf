"""Margins that a labelling design will give: mean, covariance and overlap without simulation (LOO.md 3).

The first human labels every item. ``random``: every further human an independent share. ``shared``: one
random subset for all of them. ``strat`` and ``strat_judge``: the shared subset drawn in proportion from
strata of the first human's label (and of whether the judge agrees with it).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError
from xjudge.statistics._loo_counts import LooCounts, PairMoments
from xjudge.statistics._loo_population import Population
from xjudge.statistics._loo_votes import Decimal, Float, read_decimal

__all__ = [
    "Design",
    "DesignMargins",
    "check_design",
    "design_margins",
    "expected_pairs",
    "further_members",
    "joint_margins",
    "matrix_margins",
    "pair_degrees",
]

Design = Literal["random", "shared", "strat", "strat_judge"]

_DESIGNS = ("random", "shared", "strat", "strat_judge")


class DesignMargins(NamedTuple):
    """Margins in a design, for a grid of shares.

    Attributes
    ----------
    mu : ndarray of float, shape (..., K)
        Expected margins, tolerance included; under ``random`` they drift from the dense ones.
    covariance : ndarray of float, shape (..., K, K)
    overlap : ndarray of float, shape (..., K)
        Expected pairs ``W_k``.
    """

    mu: Float
    covariance: Float
    overlap: Float


def check_design(design: str, allowed: Sequence[str] = _DESIGNS) -> None:
    """Refuse an unknown design.

    Raises
    ------
    ProtocolError
    """
    if design not in allowed:
        names = ", ".join(repr(name) for name in allowed)
        raise ProtocolError(f"`design` must be one of {names}; got {design!r}.")


def further_members(K: int) -> npt.NDArray[np.bool_]:
    """All masks of an item: the first human, and every set of further ones; shape (2 ** (K - 1), K).

    The first row is the first human alone, the last everybody.
    """
    masks = np.indices((2,) * (K - 1)).reshape(K - 1, 2 ** (K - 1)).T.astype(bool)
    return np.concatenate([np.ones((len(masks), 1), dtype=bool), masks], axis=1)


def design_margins(
    population: Population, design: str, share: npt.ArrayLike, n_items: int, eps: Decimal
) -> DesignMargins:
    """Mean and covariance of the margins that a design will give, items being a sample of a population.

    Parameters
    ----------
    population : Population
    design : {"random", "shared", "strat", "strat_judge"}
    share : array-like of float, any shape
        In (0, 1]: share of the items that every further human labels.
    n_items : int
    eps : float

    Returns
    -------
    DesignMargins
        Leading dims of ``share``.

    Notes
    -----
    ``mu_k = sum_q pi_kq E[e_kq] / pi_k. + eps`` and
    ``Sigma_kl = sum pi_kqlr E[(e_kq - delta_k)(e_lr - delta_l)] / (n pi_k. pi_l.)`` with ``pi`` the share to
    the power of the further humans concerned (``random``), or the share if there is any (``shared``). With
    strata, ``(1/m - 1/n) Cov(E[g | stratum])`` is taken off.

    Examples
    --------
    Unequal humans: at 5 % overlap the second one's margin drifts from -0.0067 to -0.0355.

    >>> from xjudge.statistics.loo import accuracy_population
    >>> population = accuracy_population([0.95, 0.85, 0.75, 0.65], 0.75, [0.5, 0.5])
    >>> design_margins(population, "random", [0.05, 1.0], 500, 0.05).mu[:, 1].round(4)
    array([-0.0355, -0.0067])
    """
    check_design(design)
    rho = np.asarray(share, dtype=np.float64)
    K = population.pairs.difference.shape[-1]
    weight, delta = _first_order(population.pairs, design, rho)
    joint = pair_degrees(K, design)[1]
    products = _second_order(population.pairs, joint, rho, delta, delta)
    covariance = products / (weight[..., :, None] * weight[..., None, :]) / n_items
    if design.startswith("strat"):
        inside = population.strata_gain - delta[..., None, :]
        spread = np.einsum("s,...sk,...sl->...kl", population.strata_share, inside, inside)
        centre = np.einsum("s,...sk->...k", population.strata_share, inside)
        spread = spread - centre[..., :, None] * centre[..., None, :]
        covariance = covariance - (1 / rho - 1)[..., None, None] / n_items * spread
    return DesignMargins(delta + float(read_decimal(eps, "eps")), covariance, weight * n_items)


def expected_pairs(K: int, design: str, share: npt.ArrayLike, n_items: int) -> Float:
    """Pairs of each comparison that a design gives on average; shape (..., K), leading dims of ``share``."""
    own = pair_degrees(K, design)[0]
    pi = np.asarray(share, dtype=np.float64)[..., None, None] ** own
    return np.asarray((pi * ~np.eye(K, dtype=bool)).sum(axis=-1) * n_items)


def joint_margins(
    population: Population, design: str, share: float, n_items: int, eps: Decimal
) -> tuple[Float, Float]:
    """Margins of a design together with those of the dense matrix of the same items.

    Parameters
    ----------
    population, design, share, n_items, eps
        As in :func:`design_margins`, for one share.

    Returns
    -------
    mu : ndarray of float, shape (2 K,)
        The design's margins, then the dense ones.
    covariance : ndarray of float, shape (2 K, 2 K)
    """
    rho = np.asarray(share, dtype=np.float64)
    pairs = population.pairs
    K = pairs.difference.shape[-1]
    sparse = design_margins(population, design, rho, n_items, eps)
    dense = design_margins(population, "shared", 1.0, n_items, eps)
    weight, delta = _first_order(pairs, design, rho)
    dense_weight, dense_delta = _first_order(pairs, "shared", np.asarray(1.0))
    own = np.broadcast_to(pair_degrees(K, design)[0][:, :, None, None], (K, K, K, K))
    products = _second_order(pairs, own, rho, delta, dense_delta)
    cross = products / (weight[:, None] * dense_weight) / n_items
    covariance = np.block([[sparse.covariance, cross], [cross.T, dense.covariance]])
    return np.concatenate([sparse.mu, dense.mu]), covariance


def matrix_margins(
    pairs: PairMoments,
    design: str,
    share: float,
    eps: Decimal,
    *,
    strata: Sequence[LooCounts] | None = None,
) -> DesignMargins:
    """Margins after masking a given matrix of labels: the matrix is fixed, only the mask is random.

    Parameters
    ----------
    pairs : PairMoments
        Of the matrix and one judge; it may be incomplete.
    design, share, eps
        As in :func:`design_margins`.
    strata : sequence of LooCounts
        Counts of every stratum, for the stratified designs.

    Returns
    -------
    DesignMargins

    Raises
    ------
    ProtocolError
        Where a stratified design comes without strata.
    """
    check_design(design)
    rho = np.asarray(share, dtype=np.float64)
    K, n = pairs.difference.shape[-1], int(pairs.n_items)
    overlap, delta = _first_order(pairs, design, rho)
    scale = overlap[:, None] * overlap
    own, joint = pair_degrees(K, design)
    if design.startswith("strat"):
        if strata is None:
            raise ProtocolError(f"design={design!r} needs the counts of the strata (`strata`).")
        products = sum((_within(part, rho, delta) for part in strata), start=np.zeros((K, K)))
    else:
        products = _second_order(pairs, joint, rho, delta, delta)
        products = products - _second_order(pairs, own[:, :, None, None] + own, rho, delta, delta)
        if design == "shared":
            products = products * (n / max(n - 1, 1))
    covariance = np.divide(products, scale, out=np.full((K, K), np.nan), where=scale > 0)
    return DesignMargins(delta + float(read_decimal(eps, "eps")), covariance, overlap)


@lru_cache(maxsize=4)
def pair_degrees(K: int, design: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Number of further humans in a pair, and in two pairs; under a shared subset, whether there is any.

    Returns
    -------
    own : ndarray of int64, shape (K, K)
    joint : ndarray of int64, shape (K, K, K, K)
        Read-only: both are kept for the next call.
    """
    k, q = np.indices((K, K))
    own, joint = np.zeros((K, K), np.int64), np.zeros((K, K, K, K), np.int64)
    for s in range(1, K):
        inside = (k == s) | (q == s)
        own += inside
        joint += inside[:, :, None, None] | inside
    if design != "random":
        own, joint = np.minimum(own, 1), np.minimum(joint, 1)
    own.setflags(write=False)
    joint.setflags(write=False)
    return own, joint


# ---------------------------------------------------------------------------------------------- private


def _first_order(pairs: PairMoments, design: str, rho: Float) -> tuple[Float, Float]:
    """``sum_q pi_kq d_kq`` and the mean gain ``delta_k``."""
    own = pair_degrees(pairs.difference.shape[-1], design)[0]
    pi = rho[..., None, None] ** own
    weight = (pi * pairs.overlap).sum(axis=-1)
    gain = (pi * pairs.difference).sum(axis=-1)
    return weight, np.divide(gain, weight, out=np.full(weight.shape, np.nan), where=weight > 0)


def _second_order(
    pairs: PairMoments, degree: npt.NDArray[np.int64], rho: Float, left: Float, right: Float
) -> Float:
    """``sum_qr rho^degree (e_kq - left_k d_kq)(e_lr - right_l d_lr)``, for every share at once."""
    out = np.zeros((*rho.shape, *pairs.difference.shape))
    a, b = left[..., :, None], right[..., None, :]
    for power in range(int(degree.max()) + 1):
        here = (degree == power).astype(np.float64)
        ee, ed, de, dd = (
            np.einsum("kqlr,kqlr->kl", here, moment)
            for moment in (pairs.second, pairs.mixed, np.moveaxis(pairs.mixed, (0, 1), (2, 3)), pairs.joint)
        )
        out += (rho**power)[..., None, None] * (ee - b * ed - a * de + a * b * dd)
    return out


def _within(part: LooCounts, rho: Float, delta: Float) -> Float:
    """Covariance of the sums of one stratum of ``N`` items when ``rho N`` of them are drawn.

    The sums are those of the sample: ``rho^2 N^2 (1 / (rho N) - 1 / N) Cov``.
    """
    K = len(delta)
    size = int(part.moments[0, 0])
    if size < 2:
        return np.zeros((K, K))
    change = np.zeros((K, part.moments.shape[0]))
    change[:, 1 : 1 + K] = np.eye(K)
    change[:, 1 + K : 1 + 2 * K] = -np.diag(delta)
    first = change @ part.moments[0]
    second = change @ part.moments @ change.T
    spread = (second - first[:, None] * first / size) / (size - 1)
    return np.asarray(rho * (1 - rho) * size * spread)

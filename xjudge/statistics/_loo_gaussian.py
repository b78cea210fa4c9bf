"""Probabilities of Gaussian margins without simulation: quasi-Monte Carlo with a fixed seed (LOO.md 4)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from xjudge.statistics._loo_votes import Decimal, Float, read_decimal

__all__ = [
    "accept_probability",
    "gaussian_cuts",
    "gaussian_draws",
    "gaussian_root",
    "lattice_tolerance",
    "normal_scores",
    "principal_axes",
    "win_distribution",
]

# Smallest loading on the first principal axis, relative to the largest, at which cuts along it are used.
_FLAT = 1e-6


@lru_cache(maxsize=32)
def normal_scores(n_dims: int, log2_points: int = 13, seed: int = 0) -> Float:
    """Standard normal scores of a scrambled Sobol sequence; the same for the same arguments.

    Parameters
    ----------
    n_dims : int
    log2_points : int
        There are ``2 ** log2_points`` points.
    seed : int

    Returns
    -------
    ndarray of float, shape (n_dims, 2 ** log2_points)
        Read-only: it is kept for the next call.
    """
    from scipy.special import ndtri
    from scipy.stats import qmc

    if n_dims == 0:
        return np.zeros((0, 1))
    uniform = qmc.Sobol(n_dims, scramble=True, seed=seed).random_base2(log2_points)
    scores = np.ascontiguousarray(ndtri(np.clip(uniform, 2.0**-40, 1 - 2.0**-40)).T)
    scores.setflags(write=False)
    return scores


def gaussian_root(covariance: Float) -> Float:
    """Factor of a covariance from its eigenvectors, the largest first (it gets the best Sobol dimension).

    Parameters
    ----------
    covariance : ndarray of float, shape (K, K)
        Negative eigenvalues are taken as zero.

    Returns
    -------
    ndarray of float, shape (K, K)
    """
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0)))[:, ::-1], dtype=np.float64)


def gaussian_draws(mu: Float, covariance: Float, *, log2_points: int = 16, seed: int = 0) -> Float:
    """Quasi-random draws of ``N(mu, covariance)``.

    Parameters
    ----------
    mu : ndarray of float, shape (K,)
    covariance : ndarray of float, shape (K, K)
        May be singular.
    log2_points, seed : int

    Returns
    -------
    ndarray of float, shape (K, 2 ** log2_points)
    """
    return gaussian_root(covariance) @ normal_scores(len(mu), log2_points, seed) + mu[:, None]


def gaussian_cuts(mu: Float, covariance: Float, *, log2_points: int = 13, seed: int = 0) -> Float | None:
    """Where along its first principal axis a Gaussian crosses zero, given all other axes.

    Margins that share their items are correlated, so the first axis moves all of them up. Given the rest,
    margin ``k`` is at least zero exactly where the standard normal on that axis is at least the cut
    ``tau_k``: a probability of counts then is a smooth mean of normal tails instead of a mean of jumps.

    Parameters
    ----------
    mu : ndarray of float, shape (K,)
    covariance : ndarray of float, shape (K, K)
    log2_points, seed : int
        Of the quasi-random points on the other axes.

    Returns
    -------
    ndarray of float, shape (K, 2 ** log2_points), or None
        None where the first axis does not move all margins one way.
    """
    axes = principal_axes(covariance)
    if axes is None:
        return None
    first, others = axes
    rest = others @ normal_scores(len(mu) - 1, log2_points, seed)
    return -(rest + mu[:, None]) / first[:, None]


def principal_axes(covariance: Float) -> tuple[Float, Float] | None:
    """Loadings on the first principal axis, all positive, and on the others; None where signs differ.

    Parameters
    ----------
    covariance : ndarray of float, shape (K, K)

    Returns
    -------
    first : ndarray of float, shape (K,)
    others : ndarray of float, shape (K, K - 1)
    """
    root = gaussian_root(covariance)
    first = root[:, 0] * (1.0 if root[:, 0].sum() >= 0 else -1.0)
    return (first, root[:, 1:]) if first.min() > _FLAT * first.max() else None


def win_distribution(
    mu: npt.ArrayLike, covariance: npt.ArrayLike, *, log2_points: int = 13, seed: int = 0
) -> Float:
    """Distribution of the number of wins ``#{D_k >= 0}`` where ``D ~ N(mu, covariance)``.

    Parameters
    ----------
    mu : array-like of float, shape (..., K)
        NaN where a comparison does not exist: it has no vote.
    covariance : array-like of float, shape (..., K, K)
        May be singular; negative eigenvalues are taken as zero.
    log2_points, seed : int
        Of the quasi-Monte Carlo points. Error against exact orthants below 2e-4 with the default for up to
        five comparisons; where margins are not all correlated positively the points are eight times as
        many, and the error below 2e-3.

    Returns
    -------
    ndarray of float, shape (..., K + 1)
        Probability of 0, 1, ..., K wins; NaN where no comparison exists.

    Examples
    --------
    >>> win_distribution([0.0, 0.0], [[1.0, 0.5], [0.5, 1.0]]).round(3)
    array([0.333, 0.333, 0.333])
    """
    from scipy.special import ndtr

    means, covariances = np.asarray(mu, dtype=np.float64), np.asarray(covariance, dtype=np.float64)
    K = means.shape[-1]
    out = np.full((*means.shape[:-1], K + 1), np.nan)
    for place in np.ndindex(*means.shape[:-1]):
        used = np.isfinite(means[place]) & np.isfinite(np.diagonal(covariances[place]))
        if not used.any():
            continue
        mean, matrix = means[place][used], covariances[place][np.ix_(used, used)]
        out[place] = 0.0
        cuts = gaussian_cuts(mean, matrix, log2_points=log2_points, seed=seed)
        if cuts is None:
            draws = gaussian_draws(mean, matrix, log2_points=log2_points + 3, seed=seed)
            wins = (draws >= 0).sum(axis=0, dtype=np.int16)
            out[place] = np.bincount(wins, minlength=K + 1) / len(wins)
        else:
            at_least = ndtr(-np.sort(cuts, axis=0)).mean(axis=1)
            out[place][: len(mean) + 1] = -np.diff(np.concatenate([[1.0], at_least, [0.0]]))
    return out


def accept_probability(
    mu: npt.ArrayLike,
    covariance: npt.ArrayLike,
    needed: npt.ArrayLike,
    *,
    log2_points: int = 13,
    seed: int = 0,
) -> Any:
    """Probability of at least ``needed`` wins.

    Parameters
    ----------
    mu, covariance, log2_points, seed
        As in :func:`win_distribution`.
    needed : array-like of int, shape (...)

    Returns
    -------
    ndarray of float, shape (...)

    Examples
    --------
    >>> accept_probability([0.0, 0.0, 0.0, 0.0], 0.5 + 0.5 * np.eye(4), 2).round(3)
    np.float64(0.6)
    """
    shares = win_distribution(mu, covariance, log2_points=log2_points, seed=seed)
    enough = np.arange(shares.shape[-1]) >= np.asarray(needed)[..., None]
    return np.where(enough, shares, 0.0).sum(axis=-1) + np.where(np.isnan(shares[..., 0]), np.nan, 0.0)


def lattice_tolerance(eps: Decimal, overlap: npt.ArrayLike, span: int = 1) -> Any:
    """Tolerance that corrects a Gaussian for margins on a lattice, for given numbers of pairs.

    A margin of ``W`` pairs moves in steps of ``h / W`` (``h`` the span); ``D >= 0`` then means
    ``A - H >= h ceil(-eps W / h)``, and half a step below that is where the Gaussian has to be cut.

    Parameters
    ----------
    eps : float
        Read as the decimal that is written.
    overlap : array-like of int
        ``W``, at least 1.
    span : int
        1; 2 for binary labels where every item has the same even number of other humans.

    Returns
    -------
    ndarray of float
        To stand in for ``eps`` in the mean.

    Examples
    --------
    >>> lattice_tolerance(0.05, [20, 30, 75]).round(4)
    array([0.075 , 0.05  , 0.0467])
    """
    tolerance = read_decimal(eps, "eps")
    pairs = np.asarray(overlap, dtype=np.int64)
    scaled = pairs.astype(object) * tolerance.numerator
    steps = np.asarray(-(scaled // (tolerance.denominator * span)), dtype=np.float64)
    return (span / 2 - span * steps) / pairs

"""Logistic regression for the adjustments: maximum likelihood with a small ridge on the slopes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Design", "Logistic", "designed", "fitted"]

Float = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_CLOSE = 1e-8  # slope of the mean loss at which a fit has arrived
_STEPS = 30


class Design(NamedTuple):
    """Standardised features behind a column of ones.

    Parameters
    ----------
    matrix : ndarray, shape (n, F + 1)
    scale : ndarray, shape (F,)
        Standard deviation of each feature; 0 where it never varies (its column is then 0).
    """

    matrix: Float
    scale: Float


class Logistic(NamedTuple):
    """A fitted model of a category given features.

    Parameters
    ----------
    shares : ndarray, shape (n, K)
        Fitted probability of each category at each row.
    slopes : ndarray, shape (K - 1, F + 1)
        Of categories 1 to K - 1 against category 0.
    inverse : ndarray, shape ((K - 1)(F + 1),) * 2
        Inverse of the curvature of the mean loss, ridge included.
    """

    shares: Float
    slopes: Float
    inverse: Float


def designed(features: Float) -> Design:
    """Standardise features, so that one ridge suits all."""
    n = len(features)
    ones = np.ones((n, 1))
    if n == 0 or features.shape[1] == 0:
        return Design(np.hstack([ones, features]), np.zeros(features.shape[1]))
    # in units of the order of the largest number, whose square may be beyond what a float holds
    unit = np.ldexp(1.0, np.frexp(np.abs(features).max(0))[1] - 1)
    apart = features / unit
    apart -= apart.mean(0)
    scale = np.sqrt((apart * apart).mean(0))
    # a constant column of large numbers leaves rounding, not variation
    varies = (np.ptp(apart, axis=0) > 0) & (scale > 0)
    scale = np.where(varies, scale, 0.0)
    columns = np.where(varies, apart / np.where(varies, scale, 1.0), 0.0)
    return Design(np.hstack([ones, columns]), scale * unit)


def fitted(design: Float, said: Ints, n_categories: int, ridge: float) -> Logistic:
    """Fit a multinomial logistic regression.

    Parameters
    ----------
    design : ndarray, shape (n, P)
        A column of ones first.
    said : ndarray of int, shape (n,)
        Categories 0 to K - 1, each of which occurs.
    n_categories : int
        K, at least 2.
    ridge : float
        The loss is minus the log likelihood plus half of this times the sum of the squared slopes, the
        intercepts left free.

    Returns
    -------
    Logistic
    """
    from scipy.optimize import minimize

    n, width = design.shape
    k = n_categories - 1
    penalty = np.tile(np.r_[0.0, np.full(width - 1, ridge)], k) / n
    hit = (said[:, None] == np.arange(1, n_categories)).astype(np.float64)

    def loss(flat: Float) -> tuple[float, Float]:
        scores = design @ flat.reshape(k, width).T
        top = np.maximum(scores.max(1), 0.0)
        norm = top + np.log(np.exp(-top) + np.exp(scores - top[:, None]).sum(1))
        value = (norm - (hit * scores).sum(1)).mean() + (penalty * flat * flat).sum() / 2
        slope = ((np.exp(scores - norm[:, None]) - hit).T @ design).ravel() / n + penalty * flat
        return float(value), slope

    def curvature(flat: Float) -> Float:
        share = _shares(design, flat.reshape(k, width))[:, 1:]
        out = np.empty((k, width, k, width))
        for a in range(k):
            for b in range(a, k):
                weight = share[:, a] * ((a == b) - share[:, b])
                out[a, :, b] = out[b, :, a] = (design * weight[:, None]).T @ design
        return np.asarray(out.reshape(k * width, k * width) / n + np.diag(penalty))

    start = np.zeros((k, width))
    counts = np.bincount(said, minlength=n_categories)
    start[:, 0] = np.log(counts[1:] / counts[0])
    flat, inverse = _newton(loss, curvature, start.ravel())
    if np.abs(loss(flat)[1]).max() > _CLOSE:  # steps that Newton's rule takes too far, as under separation
        found = minimize(loss, flat, jac=True, hess=curvature, method="trust-exact", options={"gtol": _CLOSE})
        flat, inverse = _newton(loss, curvature, np.asarray(found.x, dtype=np.float64))
    slopes = flat.reshape(k, width)
    return Logistic(_shares(design, slopes), slopes, inverse)


def _newton(
    loss: Callable[[Float], tuple[float, Float]], curvature: Callable[[Float], Float], flat: Float
) -> tuple[Float, Float]:
    """Newton's steps as long as they make the slope smaller; the point, and the inverse curvature there."""
    size = np.abs(loss(flat)[1]).max()
    inverse = _inverse(curvature(flat))
    for _ in range(_STEPS):
        step = flat - inverse @ loss(flat)[1]
        smaller = np.abs(loss(step)[1]).max()
        if not smaller < size:
            break
        flat, size, inverse = step, smaller, _inverse(curvature(step))
    return flat, inverse


def _inverse(curvature: Float) -> Float:
    """Inverse, 0 in directions that the loss does not depend on."""
    return np.asarray(np.linalg.pinv(curvature, hermitian=True), dtype=np.float64)


def _shares(design: Float, slopes: Float) -> Float:
    scores = np.hstack([np.zeros((len(design), 1)), design @ slopes.T])
    scores -= scores.max(1, keepdims=True)
    raised = np.exp(scores)
    return np.asarray(raised / raised.sum(1, keepdims=True))

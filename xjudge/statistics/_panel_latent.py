"""Latent-label aggregation (Dawid and Skene), and weights judged on held-out items."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError
from xjudge.statistics._panel_aggregate import checked_codes, minimum_error_weights, soft_distribution
from xjudge.statistics._panel_inputs import Codes, Floats, checked_items
from xjudge.statistics._panel_residuals import residual_gram

__all__ = ["DawidSkene", "cross_fitted_distribution", "dawid_skene"]


class DawidSkene(NamedTuple):
    """Fit of the Dawid-Skene model; see :func:`dawid_skene`.

    Attributes
    ----------
    posterior : ndarray (n, L)
        Probability of each true label; NaN where nobody answered.
    prior : ndarray (L,)
    confusion : ndarray (k, L, L)
        Rows: true label; columns: probability of each answer of the judge.
    log_likelihood : float
        Of the observed answers, at the parameters of the last step.
    n_iterations : int
    converged : bool
    """

    posterior: Floats
    prior: Floats
    confusion: Floats
    log_likelihood: float
    n_iterations: int
    converged: bool


def dawid_skene(
    judges: npt.ArrayLike,
    n_categories: int,
    *,
    smoothing: float = 0.01,
    tolerance: float = 1e-8,
    max_iterations: int = 500,
) -> DawidSkene:
    """Latent true labels with a confusion matrix for each judge, by expectation-maximisation.

    Parameters
    ----------
    judges : array-like of int (n, k)
        Category codes; negative codes are ignored.
    n_categories : int
    smoothing : float
        Added to each expected count of a confusion matrix and of the prior, so that no probability is zero;
        0 gives maximum likelihood.
    tolerance : float
        Stop when the (penalised) log likelihood rises by no more than this per item.
    max_iterations : int

    Returns
    -------
    DawidSkene

    Notes
    -----
    Dawid and Skene, Applied Statistics 28 (1979). Starts from label frequencies. The model takes errors as
    independent given the true label, which panels of similar models violate: compare its score with the
    plain vote's. Cost ``n k L`` for each iteration.
    """
    if smoothing < 0 or max_iterations < 1:
        raise ProtocolError("dawid_skene needs smoothing >= 0 and at least one iteration.")
    codes = checked_codes(judges, n_categories)
    start = soft_distribution(codes, n_categories)
    answered = ~np.isnan(start).any(1)
    onehot = (codes[answered][:, :, None] == np.arange(n_categories)).astype(np.float64)
    posterior = start[answered]
    prior, confusion = _maximise(posterior, onehot, smoothing)
    before, n_steps, converged = -np.inf, 0, False
    while not converged and n_steps < max_iterations:
        posterior, likelihood = _expect(prior, confusion, onehot)
        n_steps += 1
        # With smoothing the steps climb the likelihood plus the logarithm of a Dirichlet prior.
        height = likelihood + smoothing * (_log(prior).sum() + _log(confusion).sum())
        converged = height - before <= tolerance * max(len(onehot), 1)
        if not converged and n_steps < max_iterations:
            before = height
            prior, confusion = _maximise(posterior, onehot, smoothing)
    out = np.full(start.shape, np.nan)
    out[answered] = posterior
    return DawidSkene(out, prior, confusion, likelihood, n_steps, bool(converged))


def _log(probability: Floats) -> Floats:
    """Logarithm, finite at zero."""
    return np.log(np.maximum(probability, np.finfo(np.float64).tiny))


def _maximise(posterior: Floats, onehot: Floats, smoothing: float) -> tuple[Floats, Floats]:
    """Prior (L,) and confusion matrices (k, L, L) from expected labels; even where nothing is expected."""
    counts = np.einsum("nt,nka->kta", posterior, onehot)
    return _shares(posterior.sum(0) + smoothing), _shares(counts + smoothing)


def _shares(counts: Floats) -> Floats:
    """Counts over their sum along the last axis."""
    total = counts.sum(-1, keepdims=True)
    even = np.full(counts.shape, 1.0 / max(counts.shape[-1], 1))
    return np.divide(counts, total, out=even, where=total > 0)


def _expect(prior: Floats, confusion: Floats, onehot: Floats) -> tuple[Floats, float]:
    """Posterior of true labels (n, L) and the log likelihood of the answers."""
    logs = np.einsum("nka,kta->nt", onehot, _log(confusion))
    # A label that nothing speaks for stays out altogether.
    logs += np.where(prior > 0, _log(prior), -np.inf)
    top = logs.max(1, keepdims=True, initial=-np.inf)
    weights = np.exp(logs - top)
    total = weights.sum(1, keepdims=True)
    return weights / total, float((np.log(total) + top).sum())


def cross_fitted_distribution(
    judges: npt.ArrayLike,
    h: npt.ArrayLike,
    folds: npt.ArrayLike,
    *,
    nonnegative: bool = True,
) -> Floats:
    """Weighted label frequencies with weights fitted without the item's own fold.

    Parameters
    ----------
    judges : array-like of int (n, k)
        Items that some judge did not answer are left out of the fit; where others answered, their weights
        are renormalised.
    h : array-like (n, L)
        Human distributions.
    folds : array-like (n,)
        Fold of each item; at least two.
    nonnegative : bool
        See :func:`minimum_error_weights`.

    Returns
    -------
    ndarray (n, L)
        Score it with :func:`score_aggregate`: unlike weights fitted on the same items, it is honest.
    """
    items = checked_items(judges, h)
    codes: Codes = items.codes
    names, fold = np.unique(np.asarray(folds), return_inverse=True)
    if fold.reshape(-1).shape != codes.shape[:1] or len(names) < 2:
        raise ProtocolError(f"folds must name at least two folds for the {codes.shape[0]} items.")
    out = np.full(items.h.shape, np.nan)
    for number in range(len(names)):
        inside = fold.reshape(-1) == number
        gram = residual_gram(codes[~inside], items.h[~inside])
        weights = minimum_error_weights(gram, nonnegative=nonnegative).weights
        out[inside] = soft_distribution(codes[inside], items.h.shape[1], weights)
    return out

"""Effective sizes of a panel from sums over items: spectral, error-matched, binary-error, and their limits.

Formulas are those of "How Many Humans Are 32 LLM Judges Worth?" (sections 3.2 to 3.5, appendices A.7 and C).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.errors import StructureError
from xjudge.statistics._panel_inputs import Flags, Floats

__all__ = [
    "SpectralIdentity",
    "distributional_error",
    "mean_off_diagonal",
    "mean_squared_correlation",
    "normalised_gram",
    "nu_h",
    "nu_mse",
    "nu_mse_limit",
    "participation_ratio",
    "spectral_identity",
]

Reasons = npt.NDArray[np.int64]

ROUNDING = 1e-12
"""A variance below this share of the energy that it is a difference of is rounding, and counts as none."""


# ---------------------------------------------------------------------------------------- of a Gram matrix


def square_matrix(matrix: npt.ArrayLike) -> Floats:
    """Return a matrix (..., k, k) of floats."""
    array = np.asarray(matrix, dtype=np.float64)
    if array.ndim < 2 or array.shape[-1] != array.shape[-2]:
        raise StructureError(f"A Gram matrix has shape (..., k, k); got {array.shape}.")
    return array


def normalised_gram(gram: npt.ArrayLike) -> Floats:
    """Gram matrix scaled to unit diagonal, ``C_ab = K_ab / sqrt(K_aa K_bb)``.

    Parameters
    ----------
    gram : array-like (..., k, k)

    Returns
    -------
    ndarray (..., k, k)
        In [-1, 1] for a positive semidefinite ``gram``; NaN in rows and columns of a member without energy.

    Examples
    --------
    >>> normalised_gram([[4.0, 1.0], [1.0, 1.0]])
    array([[1. , 0.5],
           [0.5, 1. ]])
    """
    K = square_matrix(gram)
    energy = np.diagonal(K, axis1=-2, axis2=-1)
    energy = np.where(energy > 0, energy, np.nan)
    # One root of the product, not a product of roots: the diagonal is exactly one.
    return K / np.sqrt(energy[..., :, None] * energy[..., None, :])


def participation_ratio(gram: npt.ArrayLike) -> Floats:
    """Spectral dimension of a panel, ``PR = k^2 / sum_ab C_ab^2``.

    Parameters
    ----------
    gram : array-like (..., k, k)
        Residual Gram matrix, scaled or not.

    Returns
    -------
    ndarray (...,)
        In [1, k]: 1 where all members are parallel, k where all are orthogonal. NaN where a member has no
        residual energy.

    Examples
    --------
    >>> participation_ratio([[1.0, 0.5], [0.5, 1.0]])
    array(1.6)
    """
    C = normalised_gram(gram)
    k = C.shape[-1]
    total = (C**2).sum((-1, -2))
    return np.divide(k**2, total, out=np.full(total.shape, np.nan), where=total > 0)


def mean_squared_correlation(gram: npt.ArrayLike) -> Floats:
    """Mean squared off-diagonal entry of the scaled Gram matrix, ``qbar``; NaN for a single judge.

    Examples
    --------
    >>> mean_squared_correlation([[1.0, 0.5], [0.5, 1.0]]).item()
    0.25
    """
    return mean_off_diagonal(normalised_gram(gram) ** 2)


def distributional_error(gram: npt.ArrayLike) -> Floats:
    """Squared distance of the panel's label frequencies from ``h``, ``E = sum_ab K_ab / k^2``.

    Examples
    --------
    >>> distributional_error([[0.5, 0.5], [0.5, 0.5]])
    array(0.5)
    """
    K = square_matrix(gram)
    k = K.shape[-1]
    error = K.sum((-1, -2)) / k**2 if k else np.full(K.shape[:-2], np.nan)
    energy = np.diagonal(K, axis1=-2, axis2=-1).sum(-1) / max(k, 1)
    return np.where(np.abs(error) <= ROUNDING * energy, 0.0, error)


def mean_off_diagonal(matrix: Floats) -> Floats:
    """Mean over ordered pairs of different judges; NaN for fewer than two."""
    k = matrix.shape[-1]
    if k < 2:
        return np.full(matrix.shape[:-2], np.nan)
    return np.where(np.eye(k, dtype=bool), 0.0, matrix).sum((-1, -2)) / (k * (k - 1))


class SpectralIdentity(NamedTuple):
    """Parts of ``E = (energy / k^2) sum_j eigenvalue_j alignment_j``; see :func:`spectral_identity`."""

    energy: Floats
    eigenvalues: Floats
    alignment: Floats
    error: Floats


def spectral_identity(gram: npt.ArrayLike) -> SpectralIdentity:
    """Distributional error from the spectrum of ``C`` and its alignment with equal-weight averaging.

    Parameters
    ----------
    gram : array-like (..., k, k)

    Returns
    -------
    SpectralIdentity
        ``energy`` (...,): ``Omega = sum_a K_aa``; ``eigenvalues`` (..., k): of C, descending, sum k;
        ``alignment`` (..., k): ``b_j = (w_j' d)^2 / Omega`` with ``d_a = sqrt(K_aa)``, sum 1; ``error``
        (...,): their combination. NaN where a member has no residual energy. Eigenvectors of a repeated
        eigenvalue are not unique: there only the sum of their alignments means something.

    Notes
    -----
    Section 3.4 of the source: PR depends on the eigenvalues alone, the error also on energy and alignment.
    """
    K = square_matrix(gram)
    C = normalised_gram(K)
    defined: Flags = np.asarray(~np.isnan(C).any((-1, -2)))
    values, vectors = np.linalg.eigh(np.where(defined[..., None, None], C, np.eye(C.shape[-1])))
    values, vectors = values[..., ::-1], vectors[..., ::-1]
    energies = np.diagonal(K, axis1=-2, axis2=-1)
    energy = np.where(defined, energies.sum(-1), np.nan)
    root = np.sqrt(np.where(defined[..., None], energies, np.nan))
    alignment = (vectors * root[..., :, None]).sum(-2) ** 2 / energy[..., None]
    values = np.where(defined[..., None], values, np.nan)
    error = energy / max(K.shape[-1], 1) ** 2 * (values * alignment).sum(-1)
    return SpectralIdentity(energy, values, alignment, error)


# ------------------------------------------------------------------------------------------ effective sizes


def nu_h(participation_ratio: npt.ArrayLike, finite_n_delta: npt.ArrayLike) -> Floats:
    """Human-referenced effective size: how many independent humans have this participation ratio.

    Parameters
    ----------
    participation_ratio : array-like
        PR of the panel.
    finite_n_delta : array-like, broadcast
        From :func:`finite_n_delta`.

    Returns
    -------
    ndarray
        ``PR (1 - delta) / (1 - PR delta)``, the inverse of ``m / (1 + (m - 1) delta)``; NaN where
        ``PR delta >= 1``.

    Examples
    --------
    >>> nu_h(4.228177055434585, 0.0007797693359029985).round(6)
    np.float64(4.238856)
    """
    ratio, delta = np.asarray(participation_ratio, float), np.asarray(finite_n_delta, float)
    below = 1.0 - ratio * delta
    above = ratio * (1.0 - delta)
    return np.divide(above, below, out=np.full(above.shape, np.nan), where=below > ROUNDING)


def nu_mse(human_variance: npt.ArrayLike, distributional_error: npt.ArrayLike) -> Floats:
    """Error-matched effective size, ``J / E``: how many independent humans err as much.

    Returns
    -------
    ndarray
        Positive; NaN where humans agree on every item or the panel has no error.

    Examples
    --------
    >>> nu_mse(0.4, 0.1)
    array(4.)
    """
    J, E = np.broadcast_arrays(np.asarray(human_variance, float), np.asarray(distributional_error, float))
    return np.divide(J, E, out=np.full(J.shape, np.nan), where=(E > 0) & (J > 0))


def nu_mse_limit(
    human_variance: npt.ArrayLike,
    distributional_error: npt.ArrayLike,
    mean_residual_sq: npt.ArrayLike,
    gamma_co: npt.ArrayLike,
    n_judges: npt.ArrayLike,
) -> Floats:
    """Error-matched size of an endless panel with the same moments (the fixed-pool asymptote).

    Parameters
    ----------
    human_variance, distributional_error : array-like
        J and E of the panel.
    mean_residual_sq : array-like
        Squared length of the mean residual over items and judges, ``mu2``.
    gamma_co : array-like
        Consensus share.
    n_judges : array-like
        k.

    Returns
    -------
    ndarray
        ``J / (mu2 + vbar rhobar)`` with ``vbar = (E - mu2) / gamma_co`` and
        ``rhobar = (k gamma_co - 1) / (k - 1)``; NaN for one judge, for ``gamma_co <= 0``, for a limit of
        the error that is not positive, and where humans agree on every item.

    Examples
    --------
    >>> nu_mse_limit(0.4537506, 0.1969113531250003, 0.022278477462500036, 0.43846980952389825, 32).round(6)
    np.float64(2.391976)
    """
    J, E, mu2, gamma, k = np.broadcast_arrays(
        *(np.asarray(value, float) for value in (human_variance, distributional_error, mean_residual_sq)),
        np.asarray(gamma_co, float),
        np.asarray(n_judges, float),
    )
    able = (k > 1) & (gamma > 0) & (J > 0)
    limit = mu2 + _shared_variance(E, mu2, gamma, k)
    able &= limit > ROUNDING * E
    return np.divide(J, limit, out=np.full(J.shape, np.nan), where=able)


def _shared_variance(E: Floats, mu2: Floats, gamma: Floats, k: npt.ArrayLike) -> Floats:
    """Mean covariance of members, ``vbar rhobar``; NaN where it has no meaning."""
    size = np.asarray(k, dtype=np.float64)
    rho = rho_bar(gamma, size)
    vbar = np.divide(E - mu2, gamma, out=np.full(np.shape(gamma), np.nan), where=gamma > 0)
    return vbar * rho


def rho_bar(gamma: Floats, k: npt.ArrayLike) -> Floats:
    """Mean normalised covariance of members, ``(k gamma - 1) / (k - 1)``; NaN for one judge."""
    size = np.asarray(k, dtype=np.float64)
    rho = np.full(np.broadcast_shapes(gamma.shape, size.shape), np.nan)
    return np.divide(size * gamma - 1.0, size - 1.0, out=rho, where=(size > 1) & (gamma > 0))

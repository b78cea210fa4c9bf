"""Binary errors of judges against a gold label: correlations, effective votes, joint errors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.codes import to_codes
from xjudge.errors import StructureError
from xjudge.statistics._panel_inputs import Flags, Floats
from xjudge.statistics._panel_size import ROUNDING, mean_off_diagonal, normalised_gram, square_matrix

__all__ = [
    "CrossedSummaries",
    "JointErrors",
    "crossed_summaries",
    "error_correlation",
    "expected_all_wrong",
    "joint_error_counts",
    "joint_errors",
    "kish_n_eff",
]

Counts = npt.NDArray[np.int64]


def error_correlation(judges: npt.ArrayLike, gold: npt.ArrayLike) -> Floats:
    """Pearson correlations of binary errors against the gold label.

    Parameters
    ----------
    judges : array-like of int, shape (..., n, k)
        Category codes; items with a negative code or gold label are left out.
    gold : array-like of int, shape (..., n)

    Returns
    -------
    ndarray (..., k, k)
        Diagonal 1; NaN in rows and columns of a judge whose errors are constant.

    Examples
    --------
    >>> error_correlation([[0, 0], [0, 1], [1, 0], [1, 1]], [0, 0, 0, 0])
    array([[1., 0.],
           [0., 1.]])
    """
    errors, scored = _binary_errors(judges, gold)
    mask = scored[..., None].astype(np.float64)
    wrong = errors * mask
    return phi_of(mask.sum(-2)[..., None, :], np.swapaxes(wrong, -1, -2) @ wrong, wrong.sum(-2)[..., :, None])


def _binary_errors(judges: npt.ArrayLike, gold: npt.ArrayLike) -> tuple[Floats, Flags]:
    """Return errors (..., n, k) and which items are scored (..., n)."""
    codes, labels = to_codes(np.asarray(judges)), to_codes(np.asarray(gold))
    if codes.ndim < 2 or codes.shape[:-1] != labels.shape:
        raise StructureError(
            "Errors need judges of shape (..., item, judge) and gold of shape (..., item); "
            f"got {codes.shape} and {labels.shape}."
        )
    scored = (codes >= 0).all(-1) & (labels >= 0)
    return (codes != labels[..., None]).astype(np.float64), scored


def phi_of(joint: Floats, cross: Floats, reach: Floats) -> Floats:
    """Pearson correlations of indicators from joint counts; NaN for a constant one."""
    other = np.swapaxes(reach, -1, -2)
    variance = reach * (joint - reach)
    product = variance * np.swapaxes(variance, -1, -2)
    above = joint * cross - reach * other
    phi = np.full(np.broadcast_shapes(above.shape, product.shape), np.nan)
    np.divide(above, np.sqrt(np.maximum(product, 0.0)), out=phi, where=product > 0)
    return phi


def kish_n_eff(judges: npt.ArrayLike, gold: npt.ArrayLike) -> Floats:
    """Binary-error effective votes, ``k / (1 + (k - 1) phibar)``.

    Parameters
    ----------
    judges : array-like of int, shape (..., n, k)
        Category codes; items with a negative code or gold label are left out.
    gold : array-like of int, shape (..., n)

    Returns
    -------
    ndarray (...,)
        Above k where errors offset each other. NaN where some judge's errors are constant or the
        denominator is not positive.

    References
    ----------
    Kish, "Survey Sampling" (1965); appendix A.7 of the source. ``phibar`` is the mean pairwise Pearson
    correlation of the errors.

    Examples
    --------
    >>> kish_n_eff([[0, 0], [0, 1], [1, 0], [1, 1]], [0, 0, 0, 0])
    array(2.)
    """
    return kish_of(error_correlation(judges, gold))[0]


def kish_of(phi: Floats) -> tuple[Floats, Floats]:
    """Effective votes and mean pairwise correlation from error correlations."""
    k = phi.shape[-1]
    mean = mean_off_diagonal(phi)
    # One judge has no pairs and is worth itself; no judge is worth nothing that could be said.
    used = mean if k > 1 else np.where(np.isnan(phi).any((-1, -2)) | (k < 1), np.nan, 0.0)
    below = 1.0 + (k - 1) * used
    return np.divide(k, below, out=np.full(below.shape, np.nan), where=below > ROUNDING), mean


class CrossedSummaries(NamedTuple):
    """Means of the entries of two matrices and of their squares, as sizes; see :func:`crossed_summaries`."""

    error_signed: Floats
    error_squared: Floats
    residual_signed: Floats
    residual_squared: Floats


def crossed_summaries(error_correlation: npt.ArrayLike, gram: npt.ArrayLike) -> CrossedSummaries:
    """Two representations by two summaries: ``k / (1 + (k - 1) mean)`` of entries and of their squares.

    Parameters
    ----------
    error_correlation : array-like (..., k, k)
        From :func:`error_correlation`.
    gram : array-like (..., k, k)
        Residual Gram matrix.

    Returns
    -------
    CrossedSummaries
        ``error_signed`` is Kish's n_eff, ``residual_squared`` the participation ratio. NaN for one judge
        and where a mean or a positive denominator is missing.

    Notes
    -----
    Appendix C.1 of the source. The signed summary of C is descriptive, not a human-equivalent size.
    """
    phi, C = square_matrix(error_correlation), normalised_gram(gram)

    def size(matrix: Floats) -> Floats:
        k = matrix.shape[-1]
        below = 1.0 + (k - 1) * mean_off_diagonal(matrix)
        return np.divide(k, below, out=np.full(below.shape, np.nan), where=below > ROUNDING)

    return CrossedSummaries(size(phi), size(phi**2), size(C), size(C**2))


class JointErrors(NamedTuple):
    """Items that all judges miss, and how many independence would predict; see :func:`joint_errors`."""

    n_items: npt.NDArray[np.int64]
    n_all_wrong: npt.NDArray[np.int64]
    expected: Floats


def joint_errors(judges: npt.ArrayLike, gold: npt.ArrayLike) -> JointErrors:
    """Items on which every judge errs, against the product of the judges' error rates.

    Parameters
    ----------
    judges : array-like of int, shape (..., n, k)
        Category codes; items with a negative code or gold label are left out.
    gold : array-like of int, shape (..., n)

    Returns
    -------
    JointErrors
        Items scored, items that all miss, and ``n prod_a (error rate of a)``. An excess speaks against
        unconditional independence; it does not name its source.

    Examples
    --------
    >>> joint_errors([[1, 1], [1, 1], [0, 0], [0, 0]], [0, 0, 0, 0])
    JointErrors(n_items=array(4), n_all_wrong=array(2), expected=array(1.))
    """
    n, all_wrong, wrong = joint_error_counts(judges, gold)
    return JointErrors(n, all_wrong, expected_all_wrong(n, wrong))


def joint_error_counts(judges: npt.ArrayLike, gold: npt.ArrayLike) -> tuple[Counts, Counts, Counts]:
    """Items scored (...,), items that all judges miss (...,), and those that each misses (..., k).

    Counts of chunks of items add; the arguments are those of :func:`joint_errors`.
    """
    errors, scored = _binary_errors(judges, gold)
    wrong = (errors > 0) & scored[..., None]
    all_wrong = (scored & wrong.all(-1)).sum(-1)
    return np.asarray(scored.sum(-1)), np.asarray(all_wrong), np.asarray(wrong.sum(-2))


def expected_all_wrong(n_items: npt.ArrayLike, n_wrong: npt.ArrayLike) -> Floats:
    """Items that independent judges would all miss, ``n prod_a (error rate of a)``; NaN without an item.

    Examples
    --------
    >>> expected_all_wrong(4, [2, 2])
    array(1.)
    """
    n, wrong = np.asarray(n_items, dtype=np.float64), np.asarray(n_wrong, dtype=np.float64)
    some = np.broadcast_to(n[..., None] > 0, wrong.shape)
    rate = np.divide(wrong, n[..., None], out=np.full(wrong.shape, np.nan), where=some)
    return np.asarray(n * rate.prod(-1))

"""P-values of paired comparisons, and what many of them at once require."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError

__all__ = ["benjamini_yekutieli", "holm", "mcnemar_exact", "probability_best"]

Float = npt.NDArray[np.float64]


def mcnemar_exact(only_a: npt.ArrayLike, only_b: npt.ArrayLike) -> Float:
    """Exact two-sided McNemar test: the discordant pairs against a fair coin.

    Parameters
    ----------
    only_a, only_b : array-like of int, shape (...)
        Pairs in which only the first, only the second is right.

    Returns
    -------
    ndarray, shape (...)
        Twice the smaller binomial tail, at most 1; 1 where no pair is discordant.

    Raises
    ------
    ProtocolError
        Numbers that are negative or not whole.

    References
    ----------
    .. [1] Q. McNemar, "Note on the sampling error of the difference between correlated proportions", 1947.

    Examples
    --------
    >>> mcnemar_exact(118, 108).round(4).item()
    0.5495
    """
    from scipy.special import bdtr

    a, b = np.broadcast_arrays(np.asarray(only_a), np.asarray(only_b))
    for counts in (a, b):
        if counts.dtype.kind not in "iuf" or (counts < 0).any() or (counts != np.rint(counts)).any():
            raise ProtocolError("McNemar's test takes numbers of pairs: whole and not negative.")
    n = (a + b).astype(np.int64)
    tail = bdtr(np.minimum(a, b).astype(np.float64), n, 0.5)
    return np.minimum(1.0, 2 * np.asarray(tail, dtype=np.float64))


def holm(p_values: npt.ArrayLike, axis: int = -1) -> Float:
    """P-values adjusted by Holm's step-down method: control of any false rejection, whatever the dependence.

    Parameters
    ----------
    p_values : array-like
        NaN where there is no test; such entries are not counted.
    axis : int
        Axis along which the tests form a family.

    Returns
    -------
    ndarray, same shape
        In [0, 1]; NaN stays NaN.

    References
    ----------
    .. [1] S. Holm, "A simple sequentially rejective multiple test procedure", 1979.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    ordered, back, rank, n = _family(p_values, axis)
    raised = np.minimum(1.0, ordered * np.maximum(n - rank, 1))
    return back(np.maximum.accumulate(raised, axis=-1))


def benjamini_yekutieli(p_values: npt.ArrayLike, axis: int = -1) -> Float:
    r"""P-values adjusted by Benjamini and Yekutieli: the false discovery rate, whatever the dependence.

    The step-up method with :math:`p_{(i)} \cdot n \sum_{j=1}^{n} j^{-1} / i`.

    Parameters
    ----------
    p_values : array-like
        NaN where there is no test; such entries are not counted.
    axis : int
        Axis along which the tests form a family.

    Returns
    -------
    ndarray, same shape
        In [0, 1]; NaN stays NaN.

    References
    ----------
    .. [1] Y. Benjamini and D. Yekutieli, "The control of the false discovery rate in multiple testing under
       dependency", 2001.

    Examples
    --------
    >>> benjamini_yekutieli([0.01, 0.04, 0.03]).round(4)
    array([0.055 , 0.0733, 0.0733])
    """
    ordered, back, rank, n = _family(p_values, axis)
    harmonic = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, ordered.shape[-1] + 1))])
    raised = np.minimum(1.0, ordered * n * harmonic[n] / (rank + 1))
    # from the largest down; NaN are last and must not reach the others
    filled = np.where(np.isnan(raised), np.inf, raised)
    least = np.minimum.accumulate(filled[..., ::-1], axis=-1)[..., ::-1]
    return back(np.where(np.isnan(ordered), np.nan, least))


def probability_best(replicates: npt.ArrayLike, axis: int = -1) -> Float:
    """Share of joint replicates in which each candidate has the largest value; ties are split evenly.

    Parameters
    ----------
    replicates : array-like, shape (replicate, ...)
        Values of all candidates from shared resamples. Replicates in which a candidate is undefined (NaN)
        say nothing about who is best and are left out.
    axis : int
        Axis of the candidates.

    Returns
    -------
    ndarray, shape (...)
        Sums to 1 over the candidates; NaN where no replicate has all of them.

    Examples
    --------
    >>> probability_best([[0.8, 0.7], [0.6, 0.7], [0.8, 0.8], [0.9, np.nan]])
    array([0.5, 0.5])
    """
    values = np.moveaxis(np.asarray(replicates, dtype=np.float64), axis, -1)
    if values.ndim < 2:
        raise ProtocolError("`probability_best` needs an axis of replicates and one of candidates.")
    complete = ~np.isnan(values).any(-1, keepdims=True)
    filled = np.where(complete, values, 0.0)
    best = filled == filled.max(-1, keepdims=True)
    share = np.where(complete, best / best.sum(-1, keepdims=True), 0.0).sum(0)
    n = complete.sum(0)
    out = np.full(share.shape, np.nan)
    np.divide(share, n, out=out, where=n > 0)
    return np.moveaxis(out, -1, axis if axis < 0 else axis - 1)


def _family(
    p_values: npt.ArrayLike, axis: int
) -> tuple[Float, Callable[[Float], Float], npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """P-values in increasing order along the last axis, the way back, their ranks from 0, and how many."""
    p = np.moveaxis(np.asarray(p_values, dtype=np.float64), axis, -1)
    if ((p < 0) | (p > 1)).any():
        raise ProtocolError("P-values lie between 0 and 1.")
    order = np.argsort(p, axis=-1, kind="stable")
    ordered = np.take_along_axis(p, order, axis=-1)
    n = (~np.isnan(p)).sum(-1, keepdims=True)

    def back(adjusted: Float) -> Float:
        out = np.empty_like(adjusted)
        np.put_along_axis(out, order, adjusted, axis=-1)
        return np.moveaxis(out, -1, axis)

    return ordered, back, np.arange(p.shape[-1]), n

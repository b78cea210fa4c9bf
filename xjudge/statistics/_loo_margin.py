"""Leave-one-out margins and their covariance from the influence of items (LOO.md sections 1 and 3)."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError, Reason
from xjudge.statistics._loo_counts import LooCounts, PairMoments
from xjudge.statistics._loo_votes import Decimal, Float, Votes, count_votes, exact_wins, read_decimal

__all__ = ["LooMargins", "Pooling", "Target", "finish_margins", "loo_margins", "pair_covariance", "ratio"]

Pooling = Literal["items", "pairs"]

Target = Literal["population", "matrix"]

# Below this a margin in doubles may have the wrong sign and is decided in integers.
_NEAR = 1e-9

# A sum of squares below this share of its terms is zero up to rounding.
_ROUNDING = 1e-14


class LooMargins(NamedTuple):
    """Margins of one judge, or of several along the leading dims.

    Attributes
    ----------
    margin, se : ndarray of float, shape (..., K)
        ``D_k`` (tolerance included) and its standard error; NaN where undefined.
    covariance : ndarray of float, shape (..., K, K)
    overlap, n_items : ndarray of int64, shape (..., K)
        Pairs ``W_k`` and items of the comparison.
    judge_agreement, human_agreement : ndarray of float, shape (..., K)
        In [0, 1]; both over the same pairs.
    win : ndarray of float, shape (..., K)
        1, 0, or NaN without overlap.
    margin_tie : ndarray of bool, shape (..., K)
        Whether the margin is exactly zero (a win).
    reason, se_reason : ndarray of int8, shape (..., K)
        Members of :class:`xjudge.errors.Reason`.
    votes : Votes
    """

    margin: Float
    se: Float
    covariance: Float
    overlap: npt.NDArray[np.int64]
    n_items: npt.NDArray[np.int64]
    judge_agreement: Float
    human_agreement: Float
    win: Float
    margin_tie: npt.NDArray[np.bool_]
    reason: npt.NDArray[np.int8]
    se_reason: npt.NDArray[np.int8]
    votes: Votes


def loo_margins(
    counts: LooCounts,
    *,
    eps: Decimal = 0.05,
    threshold: Decimal = 0.5,
    strict: bool = False,
    pooling: Pooling = "items",
    target: Target = "population",
    pairs: PairMoments | None = None,
) -> LooMargins:
    """Margins, their covariance, wins and votes from the counts.

    Parameters
    ----------
    counts : LooCounts
    eps : float
        Tolerance on the scale of agreement; read as the decimal that is written.
    threshold, strict
        As in :func:`votes_needed`.
    pooling : {"items", "pairs"}
        ``"items"`` is the ratio of sums over pairs; ``"pairs"`` the mean over the other humans of the
        agreement with each. They aim at different numbers unless all pairs overlap equally.
    target : {"population", "matrix"}
        What the standard error is about: future items, or only the labels of this corpus not yet given
        (each product of pairs is scaled by ``1 - w_kq w_lr / (n w_kqlr)``, the estimate of
        ``1 - pi pi' / pi_joint``; with one shared sample of ``m`` items this is ``1 - m/n``).
    pairs : PairMoments, optional
        Needed for ``pooling="pairs"`` and for ``target="matrix"``.

    Returns
    -------
    LooMargins

    Notes
    -----
    ``psi_ik = sum_q d_ik d_iq X_ikq / W_k`` and ``Sigma_kl = sum_i psi_ik psi_il`` (LOO.md section 3),
    evaluated from the moments, so that one pass over the items suffices.

    Raises
    ------
    ProtocolError
        For an unknown option, or where ``pairs`` is needed and missing.

    Examples
    --------
    >>> from xjudge.statistics.loo import loo_counts
    >>> humans = [[0, 0, 0], [0, 0, 1], [1, 1, 1], [1, 0, 1], [0, 1, 0], [1, 1, 0], [0, 0, 0], [1, 1, 1]]
    >>> found = loo_margins(loo_counts(humans, [0, 1, 1, 1, 0, 0, 0, 0]))
    >>> found.margin.round(3), found.votes.wins, found.votes.n_available
    (array([-0.075,  0.175, -0.075]), np.int64(1), np.int64(3))
    """
    if pooling not in ("items", "pairs") or target not in ("population", "matrix"):
        raise ProtocolError(
            f"`pooling` must be 'items' or 'pairs' and `target` 'population' or 'matrix'; "
            f"got {pooling!r} and {target!r}."
        )
    if pairs is None and (pooling == "pairs" or target == "matrix"):
        raise ProtocolError("pooling='pairs' and target='matrix' need the second moments of pairs (`pairs`).")
    tolerance = read_decimal(eps, "eps")
    overlap = counts.overlap.sum(axis=-1)
    if pooling == "items":
        difference = (counts.judge_hits - counts.human_hits).sum(axis=-1)
        win, tie = exact_wins(difference, overlap, tolerance)
        judge, human = (ratio(hits.sum(axis=-1), overlap) for hits in (counts.judge_hits, counts.human_hits))
        margin = ratio(difference, overlap) + float(tolerance)
    else:
        judge, human = (mean_ratio(hits, counts.overlap) for hits in (counts.judge_hits, counts.human_hits))
        margin = mean_ratio(counts.judge_hits - counts.human_hits, counts.overlap) + float(tolerance)
        win, tie = _pair_wins(counts, margin, tolerance)
    if pairs is None:
        covariance = _item_covariance(counts.moments, margin - float(tolerance), overlap)
    else:
        covariance = pair_covariance(pairs, pooling=pooling, target=target)
    votes = count_votes(win, threshold, strict=strict)
    complete = target == "matrix" and _complete(pairs)
    return finish_margins(
        margin, covariance, win, tie, judge, human, overlap, counts.n_items, votes, complete
    )


def finish_margins(
    margin: Float,
    covariance: Float,
    win: Float,
    tie: npt.NDArray[np.bool_],
    judge: Float,
    human: Float,
    overlap: npt.NDArray[np.int64],
    n_items: npt.NDArray[np.int64],
    votes: Votes,
    complete: npt.NDArray[np.bool_] | bool = False,
) -> LooMargins:
    """Add standard errors and reasons.

    One item has no standard error; none varies where all agree; and a comparison with every label of its
    matrix (``complete``) has nothing left to vary.
    """
    single = n_items == 1
    covariance = np.where(single[..., :, None] | single[..., None, :], np.nan, covariance)
    variance = np.maximum(np.diagonal(covariance, axis1=-2, axis2=-1), 0.0)
    se = np.sqrt(variance)
    reason = np.where(overlap > 0, np.int8(Reason.OK), np.int8(Reason.NO_OVERLAP))
    se_reason = np.where(single, np.int8(Reason.ONE_ITEM), reason)
    constant = (reason == Reason.OK) & ~single & (se == 0) & ~complete
    se_reason = np.where(constant, np.int8(Reason.NO_VARIANCE), se_reason)
    return LooMargins(
        margin, se, covariance, overlap, n_items, judge, human, win, tie, reason, se_reason, votes
    )


def pair_covariance(
    pairs: PairMoments, *, pooling: Pooling = "items", target: Target = "population"
) -> Float:
    """Sandwich covariance of the margins from moments of single pairs.

    Parameters
    ----------
    pairs : PairMoments
    pooling, target
        As in :func:`loo_margins`.

    Returns
    -------
    ndarray of float, shape (..., K, K)
        NaN rows and columns for comparisons without overlap.
    """
    overlap = pairs.overlap.astype(np.float64)
    if pooling == "items":
        total = overlap.sum(axis=-1, keepdims=True)
        centre = np.broadcast_to(ratio(pairs.difference.sum(axis=-1, keepdims=True), total), overlap.shape)
        weight = np.broadcast_to(ratio(np.ones_like(total), total), overlap.shape)
    else:
        n_pairs = (overlap > 0).sum(axis=-1, keepdims=True)
        centre = ratio(pairs.difference, overlap)
        weight = ratio(np.ones_like(overlap), overlap * n_pairs)
    none = overlap.sum(axis=-1) == 0
    centre, weight = np.nan_to_num(centre), np.nan_to_num(weight)
    left, right = centre[..., :, :, None, None], centre[..., None, None, :, :]
    products = (
        pairs.second
        - right * pairs.mixed
        - left * np.moveaxis(pairs.mixed, (-4, -3), (-2, -1))
        + left * right * pairs.joint
    )
    if target == "matrix":
        expected = overlap[..., :, :, None, None] * overlap[..., None, None, :, :]
        size = np.asarray(pairs.n_items, dtype=np.float64)[..., None, None, None, None]
        products = products * (1.0 - np.nan_to_num(ratio(expected, size * pairs.joint)))
    size = np.abs(pairs.second) + left * right * pairs.joint + np.abs(right * pairs.mixed)
    covariance, scale = (np.einsum("...kq,...kqlr,...lr->...kl", weight, x, weight) for x in (products, size))
    covariance = _without_rounding(covariance, scale)
    return np.where(none[..., :, None] | none[..., None, :], np.nan, covariance)


def ratio(numerator: npt.ArrayLike, denominator: npt.ArrayLike) -> Float:
    """Divide with broadcasting; NaN where the denominator is zero."""
    top, bottom = np.asarray(numerator, dtype=np.float64), np.asarray(denominator, dtype=np.float64)
    shape = np.broadcast_shapes(top.shape, bottom.shape)
    return np.divide(top, bottom, out=np.full(shape, np.nan), where=np.broadcast_to(bottom != 0, shape))


def mean_ratio(hits: npt.NDArray[np.number], overlap: npt.NDArray[np.number]) -> Float:
    """Mean over the other humans with overlap of hits / overlap; NaN with none."""
    shares = np.nan_to_num(ratio(hits, overlap))
    return ratio(shares.sum(axis=-1), (overlap > 0).sum(axis=-1))


# ---------------------------------------------------------------------------------------------- private


def _complete(pairs: PairMoments | None) -> npt.NDArray[np.bool_] | bool:
    """Whether a comparison has every pair on every item: nothing of the matrix is unknown to it."""
    if pairs is None:
        return False
    size = np.asarray(pairs.n_items)[..., None, None]
    own = np.eye(pairs.overlap.shape[-1], dtype=bool)
    return np.asarray(np.all((pairs.overlap >= size) | own, axis=-1), dtype=bool)


def _pair_wins(counts: LooCounts, margin: Float, tolerance: Fraction) -> tuple[Float, npt.NDArray[np.bool_]]:
    """Signs of the pair-averaged margins; those next to zero are decided by exact fractions."""
    win = np.where(np.isfinite(margin), (margin >= 0).astype(np.float64), np.nan)
    tie = np.zeros(margin.shape, dtype=bool)
    for place in zip(*np.nonzero(np.abs(np.nan_to_num(margin, nan=1.0)) < _NEAR), strict=True):
        used = np.nonzero(counts.overlap[place])[0]
        difference = (counts.judge_hits - counts.human_hits)[place]
        total = sum((Fraction(int(difference[q]), int(counts.overlap[place][q])) for q in used), Fraction(0))
        exact = total / len(used) + tolerance
        win[place], tie[place] = float(exact >= 0), exact == 0
    return win, tie


def _item_covariance(moments: npt.NDArray[np.int64], centre: Float, overlap: npt.NDArray[np.int64]) -> Float:
    """``sum_i psi_ik psi_il`` from the moments of ``(z, w)``."""
    K = overlap.shape[-1]
    z, w = slice(1, 1 + K), slice(1 + K, 1 + 2 * K)
    zz, zw, ww = (moments[..., a, b].astype(np.float64) for a, b in ((z, z), (z, w), (w, w)))
    left, right = centre[..., :, None], centre[..., None, :]
    products = zz - right * zw - left * np.swapaxes(zw, -1, -2) + left * right * ww
    size = zz + np.abs(right * zw) + np.abs(left * np.swapaxes(zw, -1, -2)) + left * right * ww
    scale = overlap.astype(np.float64)
    return ratio(_without_rounding(products, size), scale[..., :, None] * scale[..., None, :])


def _without_rounding(products: Float, size: Float) -> Float:
    """Set variances that are nothing but rounding to zero: they would look like certainty."""
    K = products.shape[-1]
    variance, scale = (np.diagonal(array, axis1=-2, axis2=-1) for array in (products, size))
    products[..., range(K), range(K)] = np.where(variance <= _ROUNDING * scale, 0.0, variance)
    return products

"""Residuals of judges against human label distributions, as sums over items.

Judge ``a`` answers label ``l(a, i)`` on item ``i`` and humans give the distribution ``h_i``; the residual is
``r_ai = onehot(l(a, i)) - h_i``. Whatever a panel's size is read from (Gram matrix, mean residual, joint
errors, human variance) is a sum over items, collected in :class:`PanelSums`: sums of chunks add
(:func:`combine_sums`), and a weighted sum is a resample.

The Gram matrix is summed in one-hot coordinates, which are exact for simple shares. Residuals sum to zero
over labels, so channels of variation are ``L - 1`` orthonormal contrasts of them, with the same total.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError, StructureError
from xjudge.statistics._panel_inputs import (
    Codes,
    Flags,
    Floats,
    Items,
    checked_anchor,
    checked_basis,
    checked_items,
    known_rows,
)

__all__ = [
    "PanelSums",
    "combine_sums",
    "panel_sums",
    "residual_gram",
    "subpanel_sums",
]

BLOCK_ELEMENTS = 2_000_000
"""Floats in the largest temporary array of a pass over items."""


class PanelSums(NamedTuple):
    """Sums over items that every size of a panel is read from; leading dims first.

    With ``T`` contrasts and ``k`` judges. Where incomplete items are dropped all pairs of judges share
    their items, and the axes marked ``1|k`` have length one; pairwise they have length ``k``.

    Attributes
    ----------
    n_items : ndarray (...,)
        Items used (total weight).
    n_dropped : ndarray (...,)
        Items left out: no human distribution, or an unanswered label (pairwise: no answered label).
    joint : ndarray (..., 1|k, 1|k)
        Items that both judges of a pair answered.
    gram : ndarray (..., k, k)
        Sum of inner products of the two judges' residuals.
    cross : ndarray (..., T, k, k)
        Sum of products of the two judges' residual contrasts.
    reach : ndarray (..., T, k, 1|k)
        Sum of judge a's residual contrast over the items of the pair.
    human : ndarray (..., 6)
        Items with a human distribution; ``sum (1 - s2)``; ``sum w^2 (s2 - 2 s3 + s2^2)``;
        ``sum (1 - s2) m/(m-1)``; ``sum (1 - s2)/(m-1)`` over the items of the panel; items without two
        known human labels. ``s2``, ``s3`` are the sums of squares and cubes of ``h_i``.
    error_joint, error_cross, error_reach : ndarray (..., 1|k, 1|k), (..., k, k), (..., k, 1|k)
        The same for binary errors against the gold label, over items that have one.
    """

    n_items: Floats
    n_dropped: Floats
    joint: Floats
    gram: Floats
    cross: Floats
    reach: Floats
    human: Floats
    error_joint: Floats
    error_cross: Floats
    error_reach: Floats


# ------------------------------------------------------------------------------------------------ the pass


def panel_sums(
    judges: npt.ArrayLike,
    h: npt.ArrayLike,
    gold: npt.ArrayLike | None = None,
    *,
    n_humans: npt.ArrayLike | None = None,
    weights: npt.ArrayLike | None = None,
    incomplete: str = "drop",
    basis: npt.ArrayLike | None = None,
) -> PanelSums:
    """Sums over items for all sizes of a panel, for chunks of items or weighted items.

    Parameters
    ----------
    judges : array-like of int, shape (..., n, k)
        Category codes; negative where there is no answer.
    h : array-like, shape (..., n, L)
        Human distributions; NaN rows are items without one.
    gold : array-like of int, shape (..., n), optional
        Gold codes for binary errors; negative where there is none. Without it the error sums are empty.
    n_humans : array-like, shape (..., n), optional
        Human labels behind each row of ``h``, for the finite-annotation correction.
    weights : array-like, shape (B, n) or (n,), optional
        Item weights, such as counts of a resample; B becomes the first axis of every sum.
    incomplete : {"drop", "pairwise"}
        Items that some judge did not answer are left out, or used for the pairs of judges that did.
    basis : array-like, shape (L, T), optional
        Contrast channels; default :func:`contrasts`.

    Returns
    -------
    PanelSums

    Raises
    ------
    StructureError, VocabularyError, ProtocolError
        Shapes that do not fit, codes outside the categories, an unknown policy.

    Notes
    -----
    Cost ``n k^2 L`` for one pass, ``B n k^2 L`` for ``B`` weightings; items go in blocks.
    """
    if incomplete not in ("drop", "pairwise"):
        raise ProtocolError(
            f"incomplete={incomplete!r}: items are dropped ('drop') or used pairwise ('pairwise')."
        )
    items = checked_items(judges, h, gold, n_humans)
    channels = checked_basis(basis, items.h.shape[-1])
    n, k = items.codes.shape[-2:]
    scale = None if weights is None else np.asarray(weights, dtype=np.float64)
    if scale is not None and scale.shape[-1:] != (n,):
        raise StructureError(f"weights have shape {scale.shape}; the last axis must be the {n} items.")
    # The largest temporary of an item: its residuals, or with weights the products of pairs of them.
    width = int(np.prod(items.codes.shape[:-2])) * (sum(channels.shape) + 1) * k * (1 if scale is None else k)
    step = max(1, BLOCK_ELEMENTS // max(1, width))
    parts = [
        _block_sums(
            _cut(items, slice(start, start + step)), channels, scale, start, pairwise=incomplete != "drop"
        )
        for start in range(0, max(n, 1), step)
    ]
    return combine_sums(*parts)


def _cut(items: Items, part: slice) -> Items:
    """Return the same items, only those of ``part``."""
    gold = None if items.gold is None else items.gold[..., part]
    humans = None if items.n_humans is None else items.n_humans[..., part]
    return Items(items.codes[..., part, :], items.h[..., part, :], gold, humans)


def residual_coordinates(codes: Codes, h: Floats, channels: Floats) -> Floats:
    """Residual contrasts (..., T, n, k); zero where there is no answer or no distribution."""
    answered = (codes >= 0) & known_rows(h)[..., None]
    humans = np.nan_to_num(h) @ channels
    # One row of zeros more: negative codes index it from the end.
    table = np.concatenate([channels, np.zeros((1, channels.shape[1]))])
    residual = table[np.where(answered, codes, -1)] - humans[..., None, :]
    return np.moveaxis(np.where(answered[..., None], residual, 0.0), -1, -3)


def _block_sums(
    items: Items, channels: Floats, weights: Floats | None, start: int, *, pairwise: bool
) -> PanelSums:
    """Return the sums of one block of items."""
    codes, h, gold, n_humans = items
    n = codes.shape[-2]
    part = None if weights is None else weights[..., start : start + n]
    answered = (codes >= 0) & known_rows(h)[..., None]
    complete = np.asarray(answered.all(-1))
    used = np.asarray(answered.any(-1)) if pairwise else complete
    mask = (answered if pairwise else complete[..., None]).astype(np.float64)
    coordinates = residual_coordinates(codes, h, channels) * mask[..., None, :, :]
    onehot = residual_coordinates(codes, h, np.eye(h.shape[-1])) * mask[..., None, :, :]
    if gold is None:
        scored, errors = np.zeros_like(mask), np.zeros(codes.shape)
    else:
        scored = mask * (gold >= 0)[..., None]
        errors = (codes != gold[..., None]) * scored
    return PanelSums(
        n_items=_total(used, part),
        n_dropped=_total(~used, part),
        joint=_products(mask, mask, part),
        gram=_inner_products(onehot, part),
        cross=_products(coordinates, coordinates, part),
        reach=_products(coordinates, mask[..., None, :, :], part),
        human=_human_terms(h, n_humans, used, part),
        error_joint=_products(scored, scored, part),
        error_cross=_products(errors, errors, part),
        error_reach=_products(errors, scored, part),
    )


def _total(values: npt.NDArray[np.generic], weights: Floats | None) -> Floats:
    """Sum over the last axis (items), or weighted sums with the weightings as a new first axis."""
    numbers = values.astype(np.float64)
    if weights is None:
        return numbers.sum(-1)
    return np.tensordot(weights, numbers, axes=([-1], [-1]))


def _products(left: Floats, right: Floats, weights: Floats | None) -> Floats:
    """Sum over items of the outer products of rows: (..., n, p), (..., n, q) -> (..., p, q).

    Weightings come as a new first axis.
    """
    if weights is None:
        return np.swapaxes(left, -1, -2) @ right
    outer = left[..., :, None] * right[..., None, :]
    return np.tensordot(weights, outer, axes=([-1], [outer.ndim - 3]))


def _inner_products(residuals: Floats, weights: Floats | None) -> Floats:
    """Sum over items of inner products of residuals (..., L, n, k) -> (..., k, k)."""
    if weights is None:
        return _products(residuals, residuals, None).sum(-3)
    inner = np.einsum("...lna,...lnb->...nab", residuals, residuals)
    return np.tensordot(weights, inner, axes=([-1], [inner.ndim - 3]))


def _human_terms(h: Floats, n_humans: Floats | None, used: Flags, weights: Floats | None) -> Floats:
    """Return the sums over the human side of the used items; see :class:`PanelSums`."""
    shares = np.where(used[..., None], np.nan_to_num(h), 0.0)
    s2, s3 = (shares**2).sum(-1), (shares**3).sum(-1)
    spread = np.where(used, 1.0 - s2, 0.0)
    excess = np.maximum(s2 - 2.0 * s3 + s2**2, 0.0)
    m = np.full(used.shape, np.nan) if n_humans is None else n_humans
    enough = used & (m >= 2)
    less = np.where(enough, m - 1.0, 1.0)
    terms = [
        (used, weights),
        (spread, weights),
        # A weighted mean of products has the variance of its squared weights: a resample's own finite n.
        (excess, None if weights is None else weights**2),
        (np.where(enough, spread * (1.0 + 1.0 / less), 0.0), weights),
        (np.where(enough, spread / less, 0.0), weights),
        (used & ~enough, weights),
    ]
    return np.stack([_total(values, part) for values, part in terms], axis=-1)


# ------------------------------------------------------------------------------------------- using the sums


def combine_sums(*parts: PanelSums) -> PanelSums:
    """Add the sums of chunks of items.

    Raises
    ------
    StructureError
        Where the chunks have different judges, categories or policies.
    """
    shapes = {tuple(field.shape for field in part) for part in parts}
    if len(shapes) != 1:
        raise StructureError("Panel sums to add need the same judges, categories and policy for gaps.")
    return PanelSums(*(cast(Floats, sum(fields[1:], start=fields[0])) for fields in zip(*parts, strict=True)))


def subpanel_sums(sums: PanelSums, members: npt.ArrayLike) -> PanelSums:
    """Sums of a subpanel over the items of the whole panel.

    Parameters
    ----------
    sums : PanelSums
    members : array-like of int or bool, shape (m,) or (k,)
        Positions of the members, or a mask.
    """
    k = sums.cross.shape[-1]
    index = np.arange(k)[np.asarray(members)]

    def take(array: Floats, *axes: int) -> Floats:
        for axis in axes:
            if array.shape[axis] == k:
                array = np.take(array, index, axis=axis)
        return array

    return sums._replace(
        joint=take(sums.joint, -1, -2),
        gram=take(sums.gram, -1, -2),
        cross=take(sums.cross, -1, -2),
        reach=take(sums.reach, -1, -2),
        error_joint=take(sums.error_joint, -1, -2),
        error_cross=take(sums.error_cross, -1, -2),
        error_reach=take(sums.error_reach, -1, -2),
    )


def residual_gram(
    judges: npt.ArrayLike, h: npt.ArrayLike, *, incomplete: str = "drop", anchor: npt.ArrayLike | None = None
) -> Floats:
    """Gram matrix of residuals, ``K_ab = mean_i <r_ai, r_bi>``.

    Parameters
    ----------
    judges : array-like of int, shape (..., n, k)
        Category codes; negative where there is no answer.
    h : array-like, shape (..., n, L)
        Human distributions; NaN rows are items without one.
    incomplete : {"drop", "pairwise"}
        What becomes of items that some judge did not answer.
    anchor : array-like, shape (..., n, L), optional
        What is subtracted in the place of ``h``, such as the human mode; see :func:`anchor_mode`.

    Returns
    -------
    ndarray (..., k, k)
        Symmetric, diagonal the member energies in [0, 2]; positive semidefinite unless pairwise. NaN where
        no item is left.

    Raises
    ------
    StructureError, VocabularyError, ProtocolError

    References
    ----------
    "How Many Humans Are 32 LLM Judges Worth?", section 3.2. Cost ``n k^2 L``.

    Examples
    --------
    >>> residual_gram([[0, 0], [0, 1], [1, 0], [1, 1]], [[0.5, 0.5]] * 4)
    array([[0.5, 0. ],
           [0. , 0.5]])
    """
    sums = panel_sums(judges, h if anchor is None else _where_known(anchor, h), incomplete=incomplete)
    return gram_of(sums)


def _where_known(anchor: npt.ArrayLike, h: npt.ArrayLike) -> Floats:
    """Return the anchor on the items that have a human distribution, NaN elsewhere."""
    shares = np.asarray(h, dtype=np.float64)
    return np.where(known_rows(shares)[..., None], checked_anchor(anchor, shares), np.nan)


def gram_of(sums: PanelSums) -> Floats:
    """Gram matrix from sums; NaN where a pair shares no item."""
    gram = np.full(np.broadcast_shapes(sums.gram.shape, sums.joint.shape), np.nan)
    np.divide(sums.gram, sums.joint, out=gram, where=sums.joint > 0)
    return gram

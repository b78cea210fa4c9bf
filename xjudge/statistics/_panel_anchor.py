"""Anchors other than the human distribution, and sizes read off simulated human panels.

A residual may subtract another anchor than ``h``: the human mode, the uniform distribution, or a few of the
human labels. Judges and simulated humans then subtract the same anchor, and simulated labels always come
from ``h``: each anchor has a reference curve of its own, the mean participation ratio of ``m`` simulated
humans, and a size is read off by inverting it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError, Reason, StructureError
from xjudge.statistics._panel_inputs import (
    Floats,
    checked_anchor,
    checked_items,
    complete_items,
    draw_labels,
    known_rows,
)
from xjudge.statistics._panel_size import Reasons, participation_ratio

__all__ = [
    "AnchoredSize",
    "InvertedCurve",
    "ReferenceCurve",
    "anchor_mode",
    "anchor_partial",
    "anchor_uniform",
    "anchored_size",
    "invert_curve",
    "reference_curve",
]


# --------------------------------------------------------------------------------------------------- anchors


def anchor_mode(h: npt.ArrayLike) -> Floats:
    """Human mode as a one-hot anchor, the first category among ties.

    Parameters
    ----------
    h : array-like (..., n, L)
        Human distributions; NaN rows stay NaN.

    Examples
    --------
    >>> anchor_mode([[0.2, 0.8], [0.5, 0.5]])
    array([[0., 1.],
           [1., 0.]])
    """
    shares = np.asarray(h, dtype=np.float64)
    known = known_rows(shares)[..., None]
    mode = np.where(known, shares, 0.0).argmax(-1)
    return np.where(known, np.eye(shares.shape[-1])[mode], np.nan)


def anchor_uniform(h: npt.ArrayLike) -> Floats:
    """Uniform distribution on the items that have a human one.

    Examples
    --------
    >>> anchor_uniform([[0.2, 0.8]])
    array([[0.5, 0.5]])
    """
    shares = np.asarray(h, dtype=np.float64)
    return np.where(
        known_rows(shares)[..., None], 1.0 / max(shares.shape[-1], 1), np.full(shares.shape, np.nan)
    )


def anchor_partial(
    counts: npt.ArrayLike, n_labels: int, n_replicates: int = 200, *, seed: int | None = 0
) -> Floats:
    """Distributions of a few human labels of each item, drawn without replacement.

    Parameters
    ----------
    counts : array-like of int, shape (n, L)
        Human label counts.
    n_labels : int
        M, how many labels of each item are drawn.
    n_replicates : int
        Independent draws.
    seed : int or None

    Returns
    -------
    ndarray (n_replicates, n, L)
        Shares; NaN rows where an item has no human label at all.

    Raises
    ------
    ProtocolError
        Where an item has human labels but fewer than ``n_labels``.

    Examples
    --------
    >>> anchor_partial([[3, 0], [0, 2]], 2, 1)
    array([[[1., 0.],
            [0., 1.]]])
    """
    table = np.asarray(counts)
    if table.ndim != 2 or not (np.asarray(table) == np.rint(table)).all() or (table < 0).any():
        raise StructureError(f"A partial anchor draws from whole counts (item, category); got {table.shape}.")
    if n_labels < 1 or n_replicates < 1:
        raise ProtocolError(f"partial({n_labels}, n_replicates={n_replicates}): both must be at least 1.")
    table = table.astype(np.int64)
    pool = table.sum(-1)
    short = int(((pool > 0) & (pool < n_labels)).sum())
    if short:
        raise ProtocolError(
            f"partial({n_labels}) draws {n_labels} human labels of each item, and {short} of {len(pool)} "
            "items have fewer; use a smaller number or leave those items out."
        )
    generator = np.random.default_rng(seed)
    drawn = np.zeros((n_replicates, *table.shape), dtype=np.int64)
    rest = np.where(pool > 0, n_labels, 0) * np.ones((n_replicates, 1), dtype=np.int64)
    behind = np.broadcast_to(pool, rest.shape).copy()
    # Multivariate hypergeometric, one category after the other, over all items at once.
    for category in range(table.shape[1]):
        behind = behind - table[:, category]
        take = generator.hypergeometric(np.broadcast_to(table[:, category], rest.shape), behind, rest)
        drawn[..., category] = take
        rest = rest - take
    return np.where(pool[:, None] > 0, drawn / n_labels, np.nan)


# ------------------------------------------------------------------------------------------ reference curves


class ReferenceCurve(NamedTuple):
    """Participation ratio of simulated human panels; see :func:`reference_curve`.

    Attributes
    ----------
    grid : ndarray of int (G,)
        Sizes m, increasing.
    values : ndarray (..., n_replicates, G)
        Participation ratio of the m first simulated humans of each replicate.
    strictly_increasing : ndarray of bool (...,)
        Whether the mean curve is; where it is not, it is inverted through its running maximum.
    """

    grid: npt.NDArray[np.int64]
    values: Floats
    strictly_increasing: npt.NDArray[np.bool_]


def reference_curve(
    h: npt.ArrayLike,
    grid: npt.ArrayLike,
    *,
    anchor: npt.ArrayLike | None = None,
    n_replicates: int = 12,
    seed: int | None = 0,
) -> ReferenceCurve:
    """Participation ratio of m simulated humans who draw their labels itemwise from ``h``.

    Parameters
    ----------
    h : array-like (n, L)
        Human distributions; NaN rows are left out.
    grid : array-like of int
        Sizes m; at least 1, increasing.
    anchor : array-like (..., n, L), optional
        What residuals subtract; default ``h``. Several anchors share the simulated labels.
    n_replicates : int
        Simulated populations. Sizes of one replicate are nested, so curves are smooth.
    seed : int or None

    Returns
    -------
    ReferenceCurve
        NaN where a simulated human has no residual energy (humans agree on every item).

    Notes
    -----
    Sections 3.3 and A.3 of the source. Cost ``n_replicates n L M^2`` with M the largest size.
    """
    sizes = np.asarray(grid, dtype=np.int64)
    if sizes.ndim != 1 or sizes.size < 1 or sizes[0] < 1 or (np.diff(sizes) <= 0).any():
        raise ProtocolError(f"grid={grid!r}: sizes of simulated panels must increase and start at 1 or more.")
    if n_replicates < 1:
        raise ProtocolError(f"n_replicates={n_replicates}: at least one simulated population is needed.")
    shares = np.asarray(h, dtype=np.float64)
    if shares.ndim != 2:
        raise StructureError(f"A reference curve needs h of shape (item, category); got {shares.shape}.")
    known = known_rows(shares)
    anchors = checked_anchor(anchor, shares)[..., known, :]
    shares = shares[known]
    values = np.full((*anchors.shape[:-2], n_replicates, sizes.size), np.nan)
    if len(shares):
        for replicate in range(n_replicates):
            # A stream per replicate: a longer grid or more replicates leave the earlier draws as they are.
            generator = np.random.default_rng(None if seed is None else (seed, replicate))
            labels = draw_labels(generator, shares, int(sizes[-1]))
            values[..., replicate, :] = _nested_ratios(_anchored_gram(labels, anchors), sizes)
    rising = np.asarray((np.diff(values.mean(-2), axis=-1) > 0).all(-1))
    return ReferenceCurve(sizes, values, rising)


def _anchored_gram(labels: npt.NDArray[np.int64], anchors: Floats) -> Floats:
    """Gram matrix (..., k, k) of ``onehot(label) - anchor`` from agreements and supports.

    ``<e_a - A, e_b - A> = [a = b] - A[a] - A[b] + |A|^2``: agreements are counted once for all anchors.
    """
    n, n_categories = anchors.shape[-2:]
    onehot = (labels[:, None, :] == np.arange(n_categories)[:, None]).astype(np.float64)
    flat = onehot.reshape(n * n_categories, -1)
    agreement = flat.T @ flat
    support = anchors.reshape(*anchors.shape[:-2], n * n_categories) @ flat
    square = (anchors**2).sum((-1, -2))
    return (agreement - support[..., :, None] - support[..., None, :] + square[..., None, None]) / n


def _nested_ratios(gram: Floats, sizes: npt.NDArray[np.int64]) -> Floats:
    """Participation ratios of the leading blocks of a Gram matrix, shape (..., G)."""
    energy = np.diagonal(gram, axis1=-2, axis2=-1)
    root = np.sqrt(np.where(energy > 0, energy, np.nan))
    squares = (gram / (root[..., :, None] * root[..., None, :])) ** 2
    total = squares.cumsum(-1).cumsum(-2)[..., sizes - 1, sizes - 1]
    return sizes**2 / total


class InvertedCurve(NamedTuple):
    """Sizes read off a reference curve; see :func:`invert_curve`.

    Attributes
    ----------
    value : ndarray (...,)
        Size on the mean curve; NaN beyond its ends.
    reason : ndarray of int (...,)
        ``BELOW_GRID`` ("<= first grid point"), ``BEYOND_GRID``, or why there is no curve.
    replicates : ndarray (..., n_replicates)
        Sizes on the curve of each replicate; -inf and inf beyond the ends.
    spread : ndarray (...,)
        Standard deviation over replicates: simulation error only. NaN where a replicate is beyond the ends
        or there is only one.
    """

    value: Floats
    reason: Reasons
    replicates: Floats
    spread: Floats


def invert_curve(participation_ratio: npt.ArrayLike, curve: ReferenceCurve) -> InvertedCurve:
    """Size m at which simulated humans have this participation ratio, linear between grid points.

    Parameters
    ----------
    participation_ratio : array-like (...,)
        PR of the panel under the curve's anchor.
    curve : ReferenceCurve
        With leading dims like those of ``participation_ratio``, or none.

    Returns
    -------
    InvertedCurve
    """
    ratio = np.asarray(participation_ratio, dtype=np.float64)
    shape, (n_runs, n_sizes) = ratio.shape, curve.values.shape[-2:]
    all_runs = np.broadcast_to(curve.values, (*shape, n_runs, n_sizes)).reshape(-1, n_runs, n_sizes)
    size, reason = np.full(ratio.size, np.nan), np.zeros(ratio.size, dtype=np.int64)
    replicates = np.full((ratio.size, n_runs), np.nan)
    for place, (target, runs) in enumerate(zip(ratio.reshape(-1).tolist(), all_runs, strict=True)):
        if np.isnan(runs).any():
            reason[place] = Reason.NO_HUMAN_VARIANCE
        elif np.isnan(target):
            reason[place] = Reason.NO_RESIDUAL_ENERGY
        else:
            replicates[place] = [_invert_one(target, run, curve.grid) for run in runs]
            size[place] = _invert_one(target, runs.mean(0), curve.grid)
    reason = np.where(size == -np.inf, int(Reason.BELOW_GRID), reason)
    reason = np.where(size == np.inf, int(Reason.BEYOND_GRID), reason)
    inside = np.asarray(np.isfinite(replicates).all(-1)) & (n_runs > 1)
    spread = np.where(inside[:, None], replicates, 0.0).std(-1, ddof=min(1, n_runs - 1))
    return InvertedCurve(
        np.where(np.isfinite(size), size, np.nan).reshape(shape),
        reason.reshape(shape),
        replicates.reshape(*shape, n_runs),
        np.where(inside, spread, np.nan).reshape(shape),
    )


def _invert_one(ratio: float, curve: Floats, grid: npt.NDArray[np.int64]) -> float:
    """Size on one curve; -inf below its first value, inf above its last."""
    rising = np.maximum.accumulate(curve)
    if ratio < rising[0]:
        return -np.inf
    if ratio > rising[-1]:
        return np.inf
    return float(np.interp(ratio, rising, grid.astype(np.float64)))


class AnchoredSize(NamedTuple):
    """Size of a panel under an anchor; see :func:`anchored_size`."""

    value: Floats
    reason: Reasons
    interval: Floats
    participation_ratio: Floats
    inverted: InvertedCurve
    curve: ReferenceCurve


def anchored_size(
    judges: npt.ArrayLike,
    h: npt.ArrayLike,
    *,
    anchor: npt.ArrayLike | None = None,
    grid: npt.ArrayLike | None = None,
    n_replicates: int = 12,
    seed: int | None = 0,
    share: float = 0.9,
) -> AnchoredSize:
    """Monte Carlo effective size of a panel under an anchor, with the anchor's own reference curve.

    Parameters
    ----------
    judges : array-like of int (n, k)
        Category codes; items that some judge did not answer are left out.
    h : array-like (n, L)
        Human distributions; NaN rows are left out.
    anchor : array-like (n, L) or (R, n, L), optional
        What residuals subtract: default ``h``; :func:`anchor_mode`, :func:`anchor_uniform`, or the R
        replicates of :func:`anchor_partial`.
    grid : array-like of int, optional
        Sizes of the reference curve; default every size from 2 to ``max(2 k, 8)``.
    n_replicates : int
        Simulated populations for each curve.
    seed : int or None
    share : float
        Central share of the anchor's replicates that ``interval`` spans.

    Returns
    -------
    AnchoredSize
        ``value``: the size, or its median over the replicates of the anchor; NaN with ``reason`` beyond the
        ends of the curve. ``interval`` (2,): quantiles over the replicates of a partial anchor (of the
        draw of labels, not of items); NaN for one anchor and where an end is beyond the curve.
        ``participation_ratio`` (..., ), ``inverted`` and ``curve`` have the anchor's leading dim.
    """
    items = checked_items(judges, h)
    if items.codes.ndim != 2:
        raise StructureError(
            f"An anchored size is of one panel (item, judge); got shape {items.codes.shape}."
        )
    keep = complete_items(items.codes, items.h)
    shares = items.h[keep]
    anchors = checked_anchor(anchor, items.h)[..., keep, :]
    k = items.codes.shape[1]
    sizes = np.arange(2, max(2 * k, 8) + 1) if grid is None else grid
    curve = reference_curve(shares, sizes, anchor=anchors, n_replicates=n_replicates, seed=seed)
    if len(shares) == 0:
        ratio = np.full(anchors.shape[:-2], np.nan)
    else:
        ratio = participation_ratio(_anchored_gram(items.codes[keep].astype(np.int64), anchors))
    found = invert_curve(ratio, curve)
    if ratio.ndim == 0:
        reason = found.reason if len(shares) else np.asarray(int(Reason.NO_ITEMS))
        return AnchoredSize(found.value, reason, np.full(2, np.nan), ratio, found, curve)
    ordered = np.where(found.reason == Reason.BELOW_GRID, -np.inf, found.value)
    ordered = np.where(found.reason == Reason.BEYOND_GRID, np.inf, ordered)
    value, reason = _median(ordered, found.reason)
    ends = np.array([_quantile(ordered, (1 - share) / 2), _quantile(ordered, (1 + share) / 2)])
    ends = np.where(np.isfinite(ends), ends, np.nan)
    return AnchoredSize(value, reason, ends, ratio, found, curve)


def _quantile(values: Floats, q: float) -> float:
    """Quantile that may be infinite: an order statistic next to an infinite one is not interpolated."""
    if np.isnan(values).any():
        return float("nan")
    return float(np.quantile(values, q, method="closest_observation"))


def _median(values: Floats, reasons: Reasons) -> tuple[Floats, Reasons]:
    """Median over replicates, NaN with the reason where it lies beyond the curve."""
    undefined = np.isnan(values)
    if undefined.any():
        return np.asarray(np.nan), np.asarray(reasons[undefined][0])
    ordered = np.sort(values)
    low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    if np.isfinite(low) and np.isfinite(high):
        return np.asarray((low + high) / 2), np.asarray(int(Reason.OK))
    beyond = low if not np.isfinite(low) else high
    return np.asarray(np.nan), np.asarray(int(Reason.BELOW_GRID if beyond < 0 else Reason.BEYOND_GRID))

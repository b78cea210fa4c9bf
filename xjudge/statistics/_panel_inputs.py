"""What a panel is measured from: label distributions, gold labels, checked codes, contrast channels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.codes import to_codes
from xjudge.errors import ProtocolError, StructureError, VocabularyError

__all__ = [
    "Items",
    "checked_anchor",
    "checked_basis",
    "checked_items",
    "complete_items",
    "contrasts",
    "draw_labels",
    "finite_n_delta",
    "gold_mode",
    "human_distribution",
    "human_variance",
    "known_rows",
]

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.signedinteger]


def known_rows(h: Floats) -> Flags:
    """Items with a human distribution: (..., n, L) -> (..., n)."""
    return np.asarray(~np.isnan(h).any(-1))


def human_distribution(counts: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Human label distribution of each item from label counts.

    Parameters
    ----------
    counts : array-like of int or float, shape (..., n, L)
        Nonnegative counts of each category.

    Returns
    -------
    h : ndarray (..., n, L)
        ``counts / n_humans``; NaN where an item has no human label.
    n_humans : ndarray (..., n)
        Human labels of each item.

    Raises
    ------
    StructureError
        Where a count is negative or not finite, or there is no category axis.

    Examples
    --------
    >>> human_distribution([[3, 1], [0, 2]])[0]
    array([[0.75, 0.25],
           [0.  , 1.  ]])
    """
    table = np.asarray(counts, dtype=np.float64)
    if table.ndim < 2:
        raise StructureError(f"Human counts need axes (..., item, category); got shape {table.shape}.")
    if not (np.isfinite(table).all() and (table >= 0).all()):
        raise StructureError("Human counts must be finite and not negative.")
    n_humans = table.sum(-1)
    shares = np.full(table.shape, np.nan)
    np.divide(table, n_humans[..., None], out=shares, where=n_humans[..., None] > 0)
    return shares, n_humans


def gold_mode(h: npt.ArrayLike, ties: str = "first") -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Gold label of each item: the category with the largest human share.

    Parameters
    ----------
    h : array-like, shape (..., n, L)
        Human distributions or counts; a row with NaN has no gold label.
    ties : {"first", "drop"}
        Among tied categories the first in category order, or no gold label (tie-free items only).

    Returns
    -------
    gold : ndarray of int (..., n)
        Category codes; -1 where there is none.
    n_ties : ndarray of int (...,)
        Items whose largest share is tied, whatever becomes of them.

    Examples
    --------
    >>> gold_mode([[0.2, 0.8], [0.5, 0.5]])
    (array([1, 0]), array(1))
    >>> gold_mode([[0.2, 0.8], [0.5, 0.5]], ties="drop")[0]
    array([ 1, -1])
    """
    if ties not in ("first", "drop"):
        raise ProtocolError(f"ties={ties!r}: gold ties go to the 'first' category or are dropped ('drop').")
    shares = np.asarray(h, dtype=np.float64)
    if shares.ndim < 2 or shares.shape[-1] == 0:
        raise StructureError(f"h needs axes (..., item, category); got shape {shares.shape}.")
    known = known_rows(shares)
    filled = np.where(known[..., None], shares, 0.0)
    gold = filled.argmax(-1)
    tied = known & ((filled == filled.max(-1, keepdims=True)).sum(-1) > 1)
    usable = known & ~tied if ties == "drop" else known
    return np.where(usable, gold, -1).astype(np.int64), np.asarray(tied.sum(-1))


def human_variance(h: npt.ArrayLike) -> Floats:
    """Expected squared error of one human label, ``J = mean_i (1 - |h_i|^2)``.

    Parameters
    ----------
    h : array-like (..., n, L)
        Human distributions; NaN rows are left out.

    Returns
    -------
    ndarray (...,) in [0, 1 - 1/L]; NaN without items. ``m`` independent human labels have error ``J / m``.

    Examples
    --------
    >>> human_variance([[0.5, 0.5], [1.0, 0.0]])
    array(0.25)
    """
    known, s2, _ = _powers(h)
    total, n = np.where(known, 1.0 - s2, 0.0).sum(-1), known.sum(-1)
    return np.divide(total, n, out=np.full(total.shape, np.nan), where=n > 0)


def finite_n_delta(h: npt.ArrayLike) -> Floats:
    """Expected squared correlation of two independent human labellers on finitely many items.

    Parameters
    ----------
    h : array-like (..., n, L)
        Human distributions; NaN rows are left out.

    Returns
    -------
    ndarray (...,)
        ``mean_i(s2 - 2 s3 + s2^2) / (n mean_i(1 - s2)^2)``, positive; NaN where humans agree on every item.

    Examples
    --------
    >>> finite_n_delta([[0.5, 0.5]] * 10)
    array(0.1)
    """
    known, s2, s3 = _powers(h)
    excess = np.where(known, np.maximum(s2 - 2.0 * s3 + s2**2, 0.0), 0.0).sum(-1)
    spread = np.where(known, 1.0 - s2, 0.0).sum(-1)
    return np.divide(excess, spread**2, out=np.full(spread.shape, np.nan), where=spread > 0)


def _powers(h: npt.ArrayLike) -> tuple[Flags, Floats, Floats]:
    """Return which rows are known, and sums of squares and cubes (0 where unknown)."""
    shares = np.asarray(h, dtype=np.float64)
    if shares.ndim < 2:
        raise StructureError(f"h needs axes (..., item, category); got shape {shares.shape}.")
    known = known_rows(shares)
    filled = np.where(known[..., None], shares, 0.0)
    return known, (filled**2).sum(-1), (filled**3).sum(-1)


def draw_labels(generator: np.random.Generator, h: Floats, n_raters: int) -> npt.NDArray[np.int64]:
    """Labels (n, n_raters), each drawn from its item's distribution; raters are drawn one by one."""
    ladder = np.cumsum(h, axis=-1)[:, :-1]
    uniform = generator.random((n_raters, len(h))).T
    return np.asarray((uniform[:, :, None] >= ladder[:, None, :]).sum(-1))


def contrasts(n_categories: int) -> Floats:
    """Orthonormal contrasts of the label coordinates (Helmert), shape (L, L - 1).

    Channel ``t`` sets the mean of the first ``t + 1`` categories against category ``t + 1``.

    Examples
    --------
    >>> contrasts(3).round(3)
    array([[ 0.707,  0.408],
           [-0.707,  0.408],
           [ 0.   , -0.816]])
    """
    basis = np.zeros((n_categories, max(n_categories - 1, 0)))
    for channel in range(1, n_categories):
        basis[:channel, channel - 1] = 1.0 / channel
        basis[channel, channel - 1] = -1.0
        basis[:, channel - 1] /= np.sqrt(1.0 + 1.0 / channel)
    return basis


class Items(NamedTuple):
    """What the pass reads, checked: codes (..., n, k), distributions (..., n, L), gold, humans a label."""

    codes: Codes
    h: Floats
    gold: Codes | None
    n_humans: Floats | None


def complete_items(judges: npt.ArrayLike, h: npt.ArrayLike) -> Flags:
    """Items with a human distribution that every judge answered.

    Parameters
    ----------
    judges : array-like of int, shape (..., n, k)
        Category codes; negative where there is no answer.
    h : array-like, shape (..., n, L)
        Human distributions; a row with NaN is none.

    Returns
    -------
    ndarray of bool (..., n)
    """
    items = checked_items(judges, h)
    return (items.codes >= 0).all(-1) & known_rows(items.h)


def checked_items(
    judges: npt.ArrayLike,
    h: npt.ArrayLike,
    gold: npt.ArrayLike | None = None,
    n_humans: npt.ArrayLike | None = None,
) -> Items:
    """Inputs of a panel measurement as arrays, or one sentence about what is wrong with them."""
    codes = to_codes(np.asarray(judges))
    shares = np.asarray(h, dtype=np.float64)
    if codes.ndim < 2 or shares.ndim < 2 or codes.shape[:-1] != shares.shape[:-1]:
        raise StructureError(
            "A panel needs judges of shape (..., item, judge) and human distributions of shape "
            f"(..., item, category) over the same items; got {codes.shape} and {shares.shape}."
        )
    n_categories = shares.shape[-1]
    if codes.size and codes.max() >= n_categories:
        raise VocabularyError(
            f"A judge's code {codes.max()} is outside the {n_categories} categories of the humans."
        )
    known = known_rows(shares)
    rows = shares[known]
    if rows.size and (rows.min() < 0 or np.abs(rows.sum(-1) - 1.0).max() > 1e-6):
        raise StructureError(
            "Human distributions must be shares that sum to 1 on each item (NaN where there is none); "
            "turn counts into shares with `human_distribution`."
        )
    labels = None if gold is None else to_codes(np.asarray(gold))
    humans = None if n_humans is None else np.asarray(n_humans, dtype=np.float64)
    for name, array in (("gold", labels), ("n_humans", humans)):
        if array is not None and array.shape != codes.shape[:-1]:
            raise StructureError(f"{name} has shape {array.shape}; the items have shape {codes.shape[:-1]}.")
    if labels is not None and labels.size and labels.max() >= n_categories:
        raise VocabularyError(f"The gold code {labels.max()} is outside the {n_categories} categories.")
    return Items(codes, shares, labels, humans)


def checked_anchor(anchor: npt.ArrayLike | None, h: Floats) -> Floats:
    """What residuals subtract, (..., n, L); the human distribution where nothing else is given."""
    if anchor is None:
        return h
    array = np.asarray(anchor, dtype=np.float64)
    if array.shape[-2:] != h.shape[-2:]:
        raise StructureError(f"The anchor has shape {array.shape}; h has shape {h.shape}.")
    return array


def checked_basis(basis: npt.ArrayLike | None, n_categories: int) -> Floats:
    """Contrast channels, checked to carry all of a residual and nothing else."""
    if basis is None:
        return contrasts(n_categories)
    channels = np.asarray(basis, dtype=np.float64)
    centre = np.eye(n_categories) - 1.0 / max(n_categories, 1)
    if channels.ndim != 2 or channels.shape[0] != n_categories:
        raise StructureError(f"basis has shape {channels.shape}; it needs ({n_categories}, channels).")
    if not np.allclose(centre @ channels @ channels.T @ centre, centre, atol=1e-9):
        raise ProtocolError(
            "basis must keep the length of every residual: orthonormal contrasts, or one-hot."
        )
    return channels

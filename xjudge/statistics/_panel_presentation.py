"""What changes when the same options are presented in another order.

One judge at a time is replaced by its re-ordered answers (section 4.7, appendices A.5 and D.4 of the source).
Observed changes hold the order and whatever else varies between two calls: they cannot be told apart here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.codes import to_codes
from xjudge.errors import StructureError
from xjudge.statistics._panel_inputs import (
    Flags,
    Floats,
    checked_items,
    complete_items,
    contrasts,
    finite_n_delta,
)
from xjudge.statistics._panel_residuals import residual_coordinates
from xjudge.statistics._panel_score import Integers
from xjudge.statistics._panel_size import nu_h

__all__ = ["FlipCounts", "PresentationEffects", "presentation_effects"]


class FlipCounts(NamedTuple):
    """Where changed answers went; counts, each (k,) by judge. Sums over judges pool them.

    Attributes
    ----------
    flips : ndarray of int
        Answers that changed.
    originally_wrong : ndarray of int
        Flips whose original answer was not gold.
    to_supported : ndarray of int
        Flips to the label with the largest human share once the original is left out (first among ties).
    to_supported_wrong : ndarray of int
        Those of them whose original answer was not gold.
    to_first : ndarray of int
        Flips to the option presented first; -1 where that is not known.
    wrong : ndarray of int
        Original answers that were not gold, changed or not.
    """

    flips: Integers
    originally_wrong: Integers
    to_supported: Integers
    to_supported_wrong: Integers
    to_first: Integers
    wrong: Integers


class PresentationEffects(NamedTuple):
    """Effects of a presentation, by judge; see :func:`presentation_effects`.

    Attributes
    ----------
    n_items, n_dropped : int
    flip_rate : ndarray (k,)
    counts : FlipCounts
    wrong_ratio : ndarray (k,)
        Share of originally wrong answers among flips over the judge's error rate; NaN without flips, errors.
    first_option_rate : ndarray (k,)
        Share of flips that go to the option presented first; NaN without flips or where unknown.
    mean_squared_correlation : float
        Of the original panel, ``qbar``.
    change : ndarray (k,)
        Of qbar when the judge is replaced; negative: less shared error.
    change_nu_h : ndarray (k,)
    reference_mean : ndarray (k,)
        Mean change if each answer moved independently with the judge's own transition rates.
    reference_band : ndarray (k, 2)
        2.5th and 97.5th percentiles of that change; no correction for looking at k judges.
    change_ratio : ndarray (k,)
        ``|reference_mean / change|``; NaN where nothing changed.
    """

    n_items: int
    n_dropped: int
    flip_rate: Floats
    counts: FlipCounts
    wrong_ratio: Floats
    first_option_rate: Floats
    mean_squared_correlation: float
    change: Floats
    change_nu_h: Floats
    reference_mean: Floats
    reference_band: Floats
    change_ratio: Floats


class _Pair(NamedTuple):
    """Complete items in both presentations."""

    original: npt.NDArray[np.signedinteger]
    reordered: npt.NDArray[np.signedinteger]
    h: Floats
    gold: npt.NDArray[np.signedinteger]


def presentation_effects(
    original: npt.ArrayLike,
    reordered: npt.ArrayLike,
    h: npt.ArrayLike,
    gold: npt.ArrayLike,
    *,
    first_option: npt.ArrayLike | None = None,
    n_replicates: int = 200,
    seed: int | None = 0,
) -> PresentationEffects:
    """Compare a panel's answers with its answers to re-ordered options.

    Parameters
    ----------
    original, reordered : array-like of int (n, k)
        Category codes, mapped back to the same categories; negative where there is no answer. Items are
        used where all judges answered both.
    h : array-like (n, L)
        Human distributions; NaN rows are left out.
    gold : array-like of int (n,)
        Items without gold (negative) are left out.
    first_option : array-like of int (n, k) or (n,), optional
        Category presented first in the re-ordered version; negative where unknown.
    n_replicates : int
        Draws of the independent-transition reference for each judge.
    seed : int or None

    Returns
    -------
    PresentationEffects
    """
    items = checked_items(original, h, gold)
    second = checked_items(reordered, h)
    if items.codes.ndim != 2 or items.gold is None or items.codes.shape != second.codes.shape:
        raise StructureError(
            f"The two presentations have shapes {items.codes.shape} and {second.codes.shape}; they must be "
            "one panel (item, judge) on the same items."
        )
    keep = complete_items(items.codes, items.h) & (second.codes >= 0).all(1) & (items.gold >= 0)
    pair = _Pair(items.codes[keep], second.codes[keep], items.h[keep], items.gold[keep])
    n, k = pair.original.shape
    counts = _count_flips(pair, _first_shown(first_option, items.codes.shape, keep))
    basis = contrasts(pair.h.shape[1])
    base = residual_coordinates(pair.original, pair.h, basis)
    squares, energy = _squares(base, base)
    total = squares.sum() - np.trace(squares)
    moved = residual_coordinates(pair.reordered, pair.h, basis)
    observed = np.array([_replaced(base, energy, moved[..., [judge]], judge)[0] for judge in range(k)])
    own = squares.sum(1) - np.diagonal(squares)
    pairs = max(k * (k - 1), 1)
    # In the sum over ordered pairs the judge occurs twice: as row and as column.
    change = 2.0 * (observed - own) / pairs if k > 1 else np.full(k, np.nan)
    # Without a flip the two sums differ in the order of summation only.
    change = np.where(counts.flips == 0, 0.0 * change + 0.0, change)
    draws = np.full((k, n_replicates), np.nan)
    for judge in range(k if n and k > 1 else 0):
        generator = np.random.default_rng(None if seed is None else (seed, judge))
        labels = _transitions(generator, pair, judge, n_replicates)
        simulated = _replaced(base, energy, residual_coordinates(labels, pair.h, basis), judge)
        draws[judge] = 2.0 * (simulated - own[judge]) / pairs
    reference = draws.mean(1) if n_replicates else np.full(k, np.nan)
    delta = finite_n_delta(pair.h)
    ratio = nu_h(k**2 / (k + total + change * pairs), delta) - nu_h(k**2 / (k + total), delta)
    return PresentationEffects(
        n,
        len(keep) - n,
        _share(counts.flips, np.full(k, n)),
        counts,
        _share(counts.originally_wrong * n, counts.flips * counts.wrong),
        np.where(counts.to_first < 0, np.nan, _share(counts.to_first, counts.flips)),
        float(total / pairs) if k > 1 else float("nan"),
        change,
        ratio,
        reference,
        np.quantile(draws, [0.025, 0.975], axis=1).T if n_replicates else np.full((k, 2), np.nan),
        np.divide(np.abs(reference), np.abs(change), out=np.full(k, np.nan), where=np.abs(change) > 0),
    )


def _first_shown(first_option: npt.ArrayLike | None, shape: tuple[int, ...], keep: Flags) -> Integers | None:
    """Return the category shown first (items used, k)."""
    if first_option is None:
        return None
    shown = to_codes(np.asarray(first_option))
    shown = shown[:, None] if shown.ndim == 1 else shown
    if shown.ndim != 2 or shown.shape[0] != shape[0] or shown.shape[1] not in (1, shape[1]):
        raise StructureError(f"first_option has shape {np.shape(shown)}; the panel has {shape}.")
    return np.broadcast_to(shown, shape)[keep].astype(np.int64)


def _count_flips(pair: _Pair, first: Integers | None) -> FlipCounts:
    """Flips, and where they went."""
    n, k = pair.original.shape
    flipped = pair.original != pair.reordered
    wrong = pair.original != pair.gold[:, None]
    # Human shares with the original answer left out: (n, k, L).
    others = np.where(pair.original[:, :, None] == np.arange(pair.h.shape[1]), -1.0, pair.h[:, None, :])
    supported = flipped & (pair.reordered == others.argmax(-1)) if others.size else flipped
    unknown = np.full(k, -1, dtype=np.int64)
    to_first = unknown
    if first is not None:
        known = (first >= 0).all(0) if n else np.ones(k, dtype=bool)
        to_first = np.where(known, (flipped & (pair.reordered == first)).sum(0), unknown)
    return FlipCounts(
        flips=flipped.sum(0),
        originally_wrong=(flipped & wrong).sum(0),
        to_supported=supported.sum(0),
        to_supported_wrong=(supported & wrong).sum(0),
        to_first=to_first,
        wrong=wrong.sum(0),
    )


def _share(above: Integers, below: Integers) -> Floats:
    """Return ``above / below``, NaN where ``below`` is zero."""
    return np.divide(above, below, out=np.full(above.shape, np.nan), where=below > 0)


def _squares(left: Floats, right: Floats) -> tuple[Floats, Floats]:
    """Squared normalised inner products (k, k) of residual contrasts (T, n, k), and root energies (k,)."""
    cross = np.einsum("tna,tnb->ab", left, right)
    energy = (right**2).sum((0, 1))
    root = np.sqrt(np.where(energy > 0, energy, np.nan))
    return (cross / (root[:, None] * root[None, :])) ** 2, root


def _replaced(base: Floats, root: Floats, moved: Floats, judge: int) -> Floats:
    """Sum of squared correlations with the other judges when one is replaced by each of R versions."""
    flat = moved.reshape(-1, moved.shape[-1])
    cross = flat.T @ base.reshape(-1, base.shape[-1])
    energy = (flat**2).sum(0)
    own = np.sqrt(np.where(energy > 0, energy, np.nan))
    squares = (cross / (own[:, None] * root)) ** 2
    return np.delete(squares, judge, axis=1).sum(1)


def _transitions(generator: np.random.Generator, pair: _Pair, judge: int, n_replicates: int) -> Integers:
    """Labels (n, R): each answer redrawn from the judge's empirical transitions from that answer."""
    n_categories = pair.h.shape[1]
    before, after = pair.original[:, judge], pair.reordered[:, judge]
    table = np.zeros((n_categories, n_categories))
    np.add.at(table, (before, after), 1.0)
    ladder = np.cumsum(table, axis=1) / np.maximum(table.sum(1, keepdims=True), 1.0)
    uniform = generator.random((len(before), n_replicates))
    return (uniform[:, :, None] >= ladder[before][:, None, :-1]).sum(-1)

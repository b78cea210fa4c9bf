"""Simulated leave-one-out trials: matrices of labels drawn from a model, and masked."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.statistics._loo_cells import Cells
from xjudge.statistics._loo_counts import loo_pair_counts
from xjudge.statistics._loo_design import check_design
from xjudge.statistics._loo_mask import Mask, subsets
from xjudge.statistics._loo_model import NoiseModel, Patterns, noise_patterns
from xjudge.statistics._loo_population import strata_of

__all__ = ["Trials", "simulate_trials"]

Counts = npt.NDArray[np.int64]

# Patterns and cells up to which trials are simulated by cells rather than by labels.
_MOST_PATTERNS = 1 << 13

_MOST_CELLS = 1 << 18

# Labels held at a time where trials are simulated one by one.
_LABELS = 1 << 22


class Trials(NamedTuple):
    """Simulated margins in counts.

    Attributes
    ----------
    difference, overlap : ndarray of int64, shape (T, K)
        ``A_k - H_k`` and ``W_k`` of the masked matrix of every trial.
    dense_difference : ndarray of int64, shape (T, K)
        ``A_k - H_k`` of the full matrix of the same trial; empty (T, 0) where it was not asked for.
    dense_overlap : int
        ``(K - 1) n``.
    """

    difference: Counts
    overlap: Counts
    dense_difference: Counts
    dense_overlap: int


def simulate_trials(
    model: Patterns | NoiseModel,
    design: str,
    share: float,
    n_items: int,
    n_trials: int,
    *,
    mask: Mask = "bernoulli",
    dense: bool = False,
    seed: int | np.random.Generator = 0,
) -> Trials:
    """Draw matrices of labels and masks, and count the margins of each.

    Parameters
    ----------
    model : Patterns or NoiseModel
        Items are independent draws of it.
    design : {"random", "shared", "strat", "strat_judge"}
        The first human labels everything.
    share : float
        In (0, 1]: share of the items that each further human labels.
    n_items, n_trials : int
    mask : {"bernoulli", "exact"}
        Under ``random``: each item with probability ``share``, or exactly ``round(share n)`` of them. The
        other designs always draw exactly so many.
    dense : bool
        Also count the full matrix of every trial.
    seed : int or Generator

    Returns
    -------
    Trials

    Notes
    -----
    With few label patterns, cost is a few draws per cell and trial, whatever ``n_items`` is; otherwise
    labels are drawn and packed, ``K^2 n / 64`` words per trial.

    Examples
    --------
    >>> model = NoiseModel(np.full(3, 0.85), 0.8, np.array([0.5, 0.5]))
    >>> simulate_trials(model, "shared", 0.1, 200, 2).overlap
    array([[40, 40, 40],
           [40, 40, 40]])
    """
    check_design(design)
    rng = np.random.default_rng(seed)
    patterns = _as_patterns(model)
    if patterns is not None:
        K = patterns.codes.shape[1] - 1
        n_masks = 2 ** (K - 1) if design == "random" else 1
        if n_masks * len(patterns.codes) <= _MOST_CELLS:
            sums = Cells(patterns, n_items, n_trials, dense, rng).simulate(
                design, share, exact=mask == "exact"
            )
            return Trials(sums[:, :K], sums[:, K : 2 * K], sums[:, 2 * K :], (K - 1) * n_items)
    return _simulate_labels(model, patterns, design, share, n_items, n_trials, mask, dense, rng)


# ---------------------------------------------------------------------------------------------- private


def _as_patterns(model: Patterns | NoiseModel) -> Patterns | None:
    if isinstance(model, Patterns):
        return model
    if len(model.prevalence) ** (len(model.human_accuracy) + 1) > _MOST_PATTERNS:
        return None
    return noise_patterns(*model)


def _simulate_labels(
    model: Patterns | NoiseModel,
    patterns: Patterns | None,
    design: str,
    share: float,
    n: int,
    n_trials: int,
    mask: Mask,
    dense: bool,
    rng: np.random.Generator,
) -> Trials:
    """Draw every label: for many raters or categories."""
    K = len(model.human_accuracy) if isinstance(model, NoiseModel) else model.codes.shape[1] - 1
    sparse, overlap, full = [], [], []
    block = max(1, _LABELS // max(1, n * (K + 1)))
    for start in range(0, n_trials, block):
        size = min(block, n_trials - start)
        codes = _draw_labels(rng, model, patterns, (size, n))
        humans, judge = codes[..., :K], codes[..., K]
        if dense:
            hits, same, _ = loo_pair_counts(humans, judge)
            full.append((hits - same).sum(axis=-1))
        shown = np.ones((size, n, K), dtype=bool)
        if design == "random" and mask == "bernoulli":
            shown[..., 1:] = rng.random((size, n, K - 1)) < share
        elif design == "random":
            shown[..., 1:] = np.stack(
                [subsets(rng, size, n, round(share * n), None) for _ in range(K - 1)], axis=-1
            )
        else:
            for t in range(size):
                agreeing = judge[t] if design == "strat_judge" else None
                groups = strata_of(humans[t, :, 0], agreeing) if design != "shared" else None
                shown[t, :, 1:] = subsets(rng, 1, n, round(share * n), groups)[0][:, None]
        hits, same, pairs = loo_pair_counts(np.where(shown, humans, -1), judge)
        sparse.append((hits - same).sum(axis=-1))
        overlap.append(pairs.sum(axis=-1))
    nothing = np.zeros((n_trials, 0), np.int64)
    return Trials(
        np.concatenate(sparse),
        np.concatenate(overlap),
        np.concatenate(full) if dense else nothing,
        (K - 1) * n,
    )


def _draw_labels(
    rng: np.random.Generator, model: Patterns | NoiseModel, patterns: Patterns | None, shape: tuple[int, int]
) -> npt.NDArray[np.integer]:
    if patterns is not None:
        cumulative = np.cumsum(patterns.probability)
        drawn = np.searchsorted(cumulative / cumulative[-1], rng.random(shape), side="right")
        return patterns.codes[drawn]
    assert isinstance(model, NoiseModel)
    L = len(model.prevalence)
    accuracy = np.append(model.human_accuracy, model.judge_accuracy)
    truth = rng.choice(L, size=shape, p=model.prevalence)[..., None]
    wrong = (truth + rng.integers(1, max(L, 2), (*shape, len(accuracy)))) % L
    return np.where(rng.random((*shape, len(accuracy))) < accuracy, truth, wrong)

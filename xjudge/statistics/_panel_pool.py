"""A pool of judges prepared for selection: quantities of panels, constraints, the accuracy-top baseline."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.errors import OverlapError, ProtocolError, StructureError
from xjudge.statistics._panel_errors import error_correlation
from xjudge.statistics._panel_inputs import (
    Flags,
    Floats,
    checked_items,
    complete_items,
    finite_n_delta,
    human_variance,
)
from xjudge.statistics._panel_residuals import residual_gram
from xjudge.statistics._panel_score import Integers, Votes, score_panels, score_scale, vote_planes
from xjudge.statistics._panel_size import ROUNDING, normalised_gram, nu_h, nu_mse

__all__ = [
    "Constraints",
    "PanelQuantities",
    "Pool",
    "baseline_panel",
    "candidate_counts",
    "constraints_of",
    "prepare_pool",
    "quantities_of",
    "quantities_of_sums",
    "swap_candidates",
]


class PanelQuantities(NamedTuple):
    """What a selection rule may look at, one value a panel, each array (p,).

    Attributes
    ----------
    accuracy : ndarray
        Of the majority vote against gold, a tie as the chance of uniform tie-breaking.
    score : ndarray of int
        ``accuracy * n_items * score_scale``: exact.
    participation_ratio, mean_squared_correlation, nu_h : ndarray
        Spectral size; NaN with a member without residual energy (nu_h also where ``PR delta >= 1``).
    distributional_error, nu_mse : ndarray
        Error of the label frequencies, and ``J / E``.
    n_eff : ndarray
        Kish's effective votes; NaN with a member whose errors are constant.
    mean_energy : ndarray
        Mean residual energy of members.
    cost : ndarray
        Sum of the members' costs; 0 without costs.
    """

    accuracy: Floats
    score: Integers
    participation_ratio: Floats
    mean_squared_correlation: Floats
    nu_h: Floats
    distributional_error: Floats
    nu_mse: Floats
    n_eff: Floats
    mean_energy: Floats
    cost: Floats


class Pool(NamedTuple):
    """Complete items of a pool, as what panels need of them; see :func:`prepare_pool`."""

    votes: Votes
    correct: Integers
    matrices: Floats
    delta: float
    human_variance: float
    n_items: int
    n_dropped: int


BLOCK_ELEMENTS = 4_000_000
"""Floats in the largest temporary array over panels."""

MATRICES = ("squares", "gram", "errors", "energy", "cost")
"""Matrices of a pool, in order: squared C, K, error correlations, and diagonals of energies and costs."""


def prepare_pool(
    judges: npt.ArrayLike, h: npt.ArrayLike, gold: npt.ArrayLike, costs: npt.ArrayLike | None = None
) -> Pool:
    """Prepare a pool for selection on the items that every judge answered.

    Parameters
    ----------
    judges : array-like of int (n, N)
    h : array-like (n, L)
    gold : array-like of int (n,)
        Items without gold (negative) are left out: accuracy and sizes are of the same items.
    costs : array-like (N,), optional

    Raises
    ------
    OverlapError
        Where no item is left.
    """
    items = checked_items(judges, h, gold)
    if items.codes.ndim != 2 or items.gold is None:
        raise StructureError(f"A pool is one panel of shape (item, judge); got {items.codes.shape}.")
    keep = complete_items(items.codes, items.h) & (items.gold >= 0)
    n_items, n_judges = int(keep.sum()), items.codes.shape[1]
    if n_items == 0:
        raise OverlapError(
            f"No item has a gold label, a human distribution and an answer of all {n_judges} judges; "
            "exclude judges with few answers."
        )
    codes, shares, labels = items.codes[keep], items.h[keep], items.gold[keep]
    gram = residual_gram(codes, shares)
    price = np.zeros(n_judges) if costs is None else np.asarray(costs, dtype=np.float64)
    if price.shape != (n_judges,) or not np.isfinite(price).all():
        raise StructureError(
            f"costs must be {n_judges} finite numbers, one a judge; got shape {price.shape}."
        )
    matrices = np.stack(
        [
            normalised_gram(gram) ** 2,
            gram,
            error_correlation(codes, labels),
            np.diag(np.diagonal(gram)),
            np.diag(price),
        ]
    )
    return Pool(
        vote_planes(codes, labels, shares.shape[1]),
        (codes == labels[:, None]).sum(0, dtype=np.int64),
        matrices,
        float(finite_n_delta(shares)),
        float(human_variance(shares)),
        n_items,
        len(keep) - n_items,
    )


def quantities_of(pool: Pool, members: Integers) -> PanelQuantities:
    """Quantities of given panels, members (p, k)."""
    index = np.asarray(members, dtype=np.int64)
    k, n_judges = index.shape[1], pool.votes.n_judges
    step = max(1, BLOCK_ELEMENTS // max(k * k, n_judges))
    blocks = [index[start : start + step] for start in range(0, max(len(index), 1), step)]
    # Small panels of a large pool: entries are gathered; otherwise a product with flags is faster.
    add = _gathered_sums if 16 * k * k < n_judges * n_judges else _flag_sums
    sums = np.concatenate([add(pool.matrices, block) for block in blocks], axis=1)
    return quantities_of_sums(pool, k, score_panels(pool.votes, index), sums)


def _gathered_sums(matrices: Floats, members: Integers) -> Floats:
    """Sums of matrices over the pairs of each panel, (M, p)."""
    return np.stack([matrix[members[:, :, None], members[:, None, :]].sum((1, 2)) for matrix in matrices])


def _flag_sums(matrices: Floats, members: Integers) -> Floats:
    """Sums of matrices over the pairs of each panel, (M, p), as products with flags of members."""
    flags = np.zeros((len(members), matrices.shape[1]))
    np.put_along_axis(flags, members, 1.0, axis=1)
    # A judge without a value has none with anybody: left out of the products, and put back as NaN.
    absent = np.isnan(np.diagonal(matrices, axis1=1, axis2=2))
    sums = ((flags @ np.nan_to_num(matrices)) * flags).sum(-1)
    sums[absent.astype(np.float64) @ flags.T > 0] = np.nan
    return sums


def quantities_of_sums(pool: Pool, k: int, scores: Integers, sums: Floats) -> PanelQuantities:
    """Quantities of panels of size k from exact scores (p,) and matrix sums (5, p)."""
    squares, gram, errors, energy, cost = sums
    ratio = k**2 / squares
    error = np.where(gram <= ROUNDING * np.nan_to_num(energy) * k, 0.0, gram) / k**2
    pairs = k * (k - 1)
    correlation = (squares - k) / pairs if pairs else np.full(len(scores), np.nan)
    # k / (1 + (k - 1) phibar), with k phibar's diagonal ones: k^2 / sum of correlations.
    votes = np.divide(k**2, errors, out=np.full(len(scores), np.nan), where=errors > ROUNDING)
    return PanelQuantities(
        scores / (pool.n_items * score_scale(pool.votes.n_categories, k)),
        scores,
        ratio,
        correlation,
        nu_h(ratio, pool.delta),
        error,
        nu_mse(pool.human_variance, error),
        votes,
        energy / k,
        cost,
    )


# ----------------------------------------------------------------------------------------------- constraints


class Constraints(NamedTuple):
    """Which panels are allowed: positions that must be in, and ``weights @ members <= limits``.

    Families with a cap of m are rows of zeros and ones with limit m, the first ``n_caps`` rows; a budget is
    a row of costs behind them.
    """

    must: Integers
    weights: Floats
    limits: Floats
    n_caps: int

    def allows(self, members: Integers) -> Flags:
        """Which panels (p, k) are allowed."""
        index = np.asarray(members, dtype=np.int64)
        there = (index[:, :, None] == self.must).any(1).all(1)
        return there & self.within(self.weights[:, index].sum(-1))

    def within(self, loads: Floats) -> Flags:
        """Whether loads (R, p) stay within the limits, up to rounding of the sums."""
        limits = self.limits[:, None]
        return np.asarray((loads <= limits + 1e-9 * np.maximum(1.0, np.abs(limits))).all(0))


def constraints_of(
    n_judges: int,
    k: int,
    must: Sequence[int] = (),
    families: npt.ArrayLike | None = None,
    family_cap: int | None = None,
    costs: npt.ArrayLike | None = None,
    budget: float | None = None,
) -> Constraints:
    """Constraints of a selection, checked.

    Raises
    ------
    ProtocolError
        A cap without families, a budget without costs, or more fixed members than places.
    """
    rows, limits = [], []
    if family_cap is not None:
        if families is None:
            raise ProtocolError("family_cap needs `families`: the family of each judge.")
        names = np.asarray(families)
        if names.shape != (n_judges,):
            raise StructureError(f"families has shape {names.shape}; the pool has {n_judges} judges.")
        for family in np.unique(names):
            if (names == family).sum() > family_cap:
                rows.append((names == family).astype(np.float64))
                limits.append(float(family_cap))
    n_caps = len(rows)
    if budget is not None:
        if costs is None:
            raise ProtocolError("budget needs `costs`: the cost of each judge.")
        rows.append(np.asarray(costs, dtype=np.float64))
        limits.append(float(budget))
    if len(must) > k:
        raise ProtocolError(f"{len(must)} judges must be in a panel of {k}.")
    weights = np.array(rows).reshape(len(rows), n_judges)
    return Constraints(np.asarray(must, dtype=np.int64), weights, np.asarray(limits), n_caps)


def baseline_panel(pool: Pool, k: int, constraints: Constraints) -> Integers:
    """S0: the k most accurate single judges, ties by position; positions in the pool, increasing.

    Under constraints, judges are taken from the most accurate on, each if the panel can still be completed.

    Raises
    ------
    ProtocolError
        Where no panel of size k is allowed.
    """
    ranked = [int(judge) for judge in np.lexsort((np.arange(len(pool.correct)), -pool.correct))]
    chosen = [int(judge) for judge in constraints.must]
    open_judges = [judge for judge in ranked if judge not in chosen]
    if not _can_complete(chosen, open_judges, k, constraints):
        raise ProtocolError(f"No panel of {k} judges satisfies the constraints; relax a cap or the budget.")
    while len(chosen) < k:
        judge = open_judges.pop(0)
        if _can_complete([*chosen, judge], open_judges, k, constraints):
            chosen.append(judge)
    return np.array(sorted(chosen), dtype=np.int64)


def _can_complete(chosen: list[int], rest: list[int], k: int, constraints: Constraints) -> bool:
    """Whether some k - len(chosen) of the rest keep to the limits.

    Families do not overlap, so the cheapest judges that fit the caps make the cheapest panel.
    """
    caps, limits = constraints.weights[: constraints.n_caps], constraints.limits[: constraints.n_caps]
    price = constraints.weights[constraints.n_caps :].sum(0)
    load = caps[:, chosen].sum(1)
    if (load > limits).any():
        return False
    taken = list(chosen)
    for judge in sorted(rest, key=lambda judge: price[judge]):
        if len(taken) < k and (load + caps[:, judge] <= limits).all():
            load = load + caps[:, judge]
            taken.append(judge)
    if len(taken) < k:
        return False
    return bool(constraints.within(constraints.weights[:, taken].sum(1, keepdims=True))[0])


def swap_candidates(
    baseline: Integers,
    n_judges: int,
    constraints: Constraints,
    position: Integers | None = None,
    sizes: Sequence[int] = (1, 2),
) -> tuple[Integers, Integers]:
    """Panels within two swaps of a baseline, in the documented order.

    One swap before two; within each by the members removed, then by those added.

    Parameters
    ----------
    baseline : ndarray of int (k,)
    n_judges : int
    constraints : Constraints
    position : ndarray of int (N,), optional
        Place of each judge in the order of names; default the order of the pool.
    sizes : sequence of int
        Numbers of swaps.

    Returns
    -------
    members : ndarray of int (p, k)
    n_swaps : ndarray of int (p,)
    """
    place = np.arange(n_judges) if position is None else position
    inside = sorted((int(judge) for judge in baseline), key=lambda judge: place[judge])
    removable = [judge for judge in inside if judge not in set(constraints.must.tolist())]
    outside = sorted(set(range(n_judges)) - set(inside), key=lambda judge: place[judge])
    k = len(inside)
    panels: list[Integers] = [np.zeros((0, k), dtype=np.int64)]
    swaps: list[Integers] = [np.zeros(0, dtype=np.int64)]
    for size in sizes:
        added = np.array(list(itertools.combinations(outside, size)), dtype=np.int64).reshape(-1, size)
        for removed in itertools.combinations(removable, size):
            kept = np.array([judge for judge in inside if judge not in removed], dtype=np.int64)
            panels.append(np.concatenate([np.broadcast_to(kept, (len(added), len(kept))), added], axis=1))
            swaps.append(np.full(len(added), size))
    members, n_swaps = np.concatenate(panels), np.concatenate(swaps)
    allowed = constraints.allows(members)
    return np.sort(members[allowed], axis=1), n_swaps[allowed]


def candidate_counts(n_judges: int, k: int) -> tuple[int, int]:
    """Panels one and two swaps away from a panel of k, without constraints.

    Examples
    --------
    >>> candidate_counts(32, 5), candidate_counts(32, 7)
    ((135, 3510), (175, 6300))
    """
    outside = n_judges - k
    return k * outside, math.comb(k, 2) * math.comb(outside, 2)

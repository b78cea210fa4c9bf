"""How the sizes of a panel grow with its members, and how diversity and error agree between panels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError, Reason, StructureError
from xjudge.statistics._panel_draws import (
    SubpanelQuantities,
    draw_subpanels,
    grown_quantities,
    subpanel_quantities,
)
from xjudge.statistics._panel_effective import EffectiveSize, effective_size
from xjudge.statistics._panel_inputs import Flags, Floats
from xjudge.statistics._panel_residuals import PanelSums, combine_sums, gram_of, subpanel_sums
from xjudge.statistics._panel_score import Integers
from xjudge.statistics._panel_size import nu_h, nu_mse

__all__ = [
    "AdditionConflicts",
    "PanelCurve",
    "addition_conflicts",
    "leave_one_member_out",
    "panel_curve",
    "rank_correlation",
]


def rank_correlation(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Spearman correlation with average ranks for ties; NaN for a constant side or fewer than two values.

    Values that differ by rounding alone (12 significant digits) are tied: what was summed in another order
    ranks the same.

    Examples
    --------
    >>> rank_correlation([1, 2, 3], [1, 4, 9])
    1.0
    """
    ranks = [_average_ranks(np.asarray(values, dtype=np.float64).reshape(-1)) for values in (x, y)]
    if len(ranks[0]) != len(ranks[1]):
        raise StructureError(f"Cannot rank {len(ranks[0])} values against {len(ranks[1])}.")
    if len(ranks[0]) < 2 or np.isnan(ranks[0]).any() or np.isnan(ranks[1]).any():
        return float("nan")
    a, b = (rank - rank.mean() for rank in ranks)
    scale = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / scale if scale > 0 else float("nan")


def _average_ranks(values: Floats) -> Floats:
    """Ranks from 1, ties averaged; NaN throughout if a value is NaN."""
    if np.isnan(values).any():
        return np.full(values.shape, np.nan)
    mantissa, exponent = np.frexp(values)
    rounded = np.ldexp(np.round(mantissa, 12), exponent)
    _, inverse, counts = np.unique(rounded, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2.0)[inverse.reshape(-1)]


class PanelCurve(NamedTuple):
    """Sizes of subpanels by number of members; see :func:`panel_curve`.

    Attributes
    ----------
    sizes : ndarray of int (S,)
    n_panels : ndarray of int (S,)
        Different panels measured at each size.
    quantiles : ndarray (Q,)
    values : dict of str to ndarray (S, Q)
        Quantiles over panels of ``nu_h``, ``nu_mse``, ``participation_ratio``, ``distributional_error``,
        ``mean_energy``; NaN where a panel's value is undefined.
    rank_correlation, rank_correlation_scaled : ndarray (S,)
        Spearman correlation of PR with ``-E``, and with ``-E`` over the members' mean energy.
    half_rank_correlation : ndarray (S, 2)
        Of PR, and of E, between two halves of the items; NaN without halves.
    nu_mse_limit : ndarray ()
        Fixed-pool asymptote of the whole pool.
    """

    sizes: Integers
    n_panels: Integers
    quantiles: Floats
    values: dict[str, Floats]
    rank_correlation: Floats
    rank_correlation_scaled: Floats
    half_rank_correlation: Floats
    nu_mse_limit: Floats


def panel_curve(
    sums: PanelSums | tuple[PanelSums, PanelSums],
    sizes: npt.ArrayLike | None = None,
    *,
    n_draws: int = 2000,
    design: str = "random",
    families: npt.ArrayLike | None = None,
    quantiles: npt.ArrayLike = (0.05, 0.25, 0.5, 0.75, 0.95),
    seed: int | None = 0,
) -> PanelCurve:
    """Measure drawn subpanels of each size.

    Parameters
    ----------
    sums : PanelSums or pair of PanelSums
        Of the pool, or of two halves of its items: then rankings are compared between them.
    sizes : array-like of int, optional
        Default every size from 1 to the pool's, for designs by family as far as they go.
    n_draws, design, families, seed
        See :func:`draw_subpanels`; repeats are dropped.
    quantiles : array-like

    Returns
    -------
    PanelCurve

    Notes
    -----
    Sections 4.3 and 4.6, appendices A.4 and D.5 of the source. Cost ``S n_draws N^2``.
    """
    halves = () if isinstance(sums, PanelSums) else tuple(sums)
    whole = sums if isinstance(sums, PanelSums) else combine_sums(*sums)
    if whole.cross.ndim != 3:
        raise StructureError(f"A curve is of one pool; the sums have leading dims {whole.cross.shape[:-3]}.")
    gram = gram_of(whole)
    n_judges = gram.shape[-1]
    full = effective_size(whole)
    wanted = np.arange(1, n_judges + 1) if sizes is None else np.asarray(sizes, dtype=np.int64).reshape(-1)
    if sizes is None and design == "one_per_family" and families is not None:
        wanted = wanted[: len(np.unique(np.asarray(families)))]
    levels = np.asarray(quantiles, dtype=np.float64).reshape(-1)
    names = ("nu_h", "nu_mse", "participation_ratio", "distributional_error", "mean_energy")
    values = {name: np.full((len(wanted), len(levels)), np.nan) for name in names}
    counts = np.zeros(len(wanted), dtype=np.int64)
    ranks = np.full((len(wanted), 4), np.nan)
    for row, size in enumerate(wanted.tolist()):
        member = draw_subpanels(n_judges, size, n_draws, design=design, families=families, seed=seed)
        found = subpanel_quantities(gram, member)
        counts[row] = len(member)
        measured = {
            "nu_h": nu_h(found.participation_ratio, full.values["finite_n_delta"]),
            "nu_mse": nu_mse(full.values["human_variance"], found.distributional_error),
            "participation_ratio": found.participation_ratio,
            "distributional_error": found.distributional_error,
            "mean_energy": found.mean_energy,
        }
        for name in names:
            values[name][row] = np.quantile(measured[name], levels)
        ranks[row] = _rankings(found, [subpanel_quantities(gram_of(half), member) for half in halves])
    return PanelCurve(
        wanted, counts, levels, values, ranks[:, 0], ranks[:, 1], ranks[:, 2:], full.values["nu_mse_limit"]
    )


def _rankings(whole: SubpanelQuantities, halves: list[SubpanelQuantities]) -> list[float]:
    """Rank correlations of diversity and error over panels, and of each between halves of the items."""
    ratio, error = whole.participation_ratio, whole.distributional_error
    scaled = np.divide(
        error, whole.mean_energy, out=np.full(error.shape, np.nan), where=whole.mean_energy > 0
    )
    out = [rank_correlation(ratio, -error), rank_correlation(ratio, -scaled)]
    if not halves:
        return [*out, float("nan"), float("nan")]
    one, other = halves
    return [
        *out,
        rank_correlation(one.participation_ratio, other.participation_ratio),
        rank_correlation(one.distributional_error, other.distributional_error),
    ]


class AdditionConflicts(NamedTuple):
    """Member additions that move diversity and error in opposite directions; see :func:`addition_conflicts`.

    ``n_additions``: panels times absent judges. ``n_conflicts``: on all items, above the least change.
    ``n_stable``: the same on both halves; of these ``n_more_diverse_worse`` raise PR and error, and
    ``n_less_diverse_better`` lower both.
    """

    n_additions: int
    n_conflicts: int
    n_stable: int
    n_more_diverse_worse: int
    n_less_diverse_better: int


def addition_conflicts(
    halves: tuple[PanelSums, PanelSums], member: npt.ArrayLike, *, min_change: float = 0.01
) -> AdditionConflicts:
    """Count additions of a judge that conflict on all items and, in the same way, on both halves.

    Parameters
    ----------
    halves : pair of PanelSums
        Of two halves of the items of a pool.
    member : array-like of bool (p, N)
        Panels to which each absent judge is added.
    min_change : float
        Both relative changes must reach this on every set of items.

    Returns
    -------
    AdditionConflicts

    Notes
    -----
    Section 4.3.2 and appendix D.5 of the source. Changes up to 1e-10 (PR) or 1e-12 (error) are ties.
    Additions overlap in judges and items: the counts are descriptive.
    """
    flags = np.asarray(member, dtype=bool)
    directions = [_direction(gram_of(part), flags, min_change) for part in (combine_sums(*halves), *halves)]
    whole = directions[0]
    stable = np.where((whole == directions[1]) & (whole == directions[2]), whole, 0)
    return AdditionConflicts(
        int((~flags).sum()),
        int((whole != 0).sum()),
        int((stable != 0).sum()),
        int((stable > 0).sum()),
        int((stable < 0).sum()),
    )


def _direction(gram: Floats, member: Flags, min_change: float) -> Integers:
    """1 where adding a judge raises PR and error, -1 where it lowers both, else 0; (p, N)."""
    old, new = subpanel_quantities(gram, member), grown_quantities(gram, member)
    before, wrong = old.participation_ratio[:, None], old.distributional_error[:, None]
    ratio, error = new.participation_ratio - before, new.distributional_error - wrong
    enough = (np.abs(ratio) > 1e-10) & (np.abs(ratio) >= min_change * before)
    enough &= (np.abs(error) > 1e-12) & (np.abs(error) >= min_change * wrong)
    conflict = enough & (np.sign(ratio) == np.sign(error)) & ~member
    return np.where(conflict, np.sign(ratio), 0.0).astype(np.int64)


def leave_one_member_out(sums: PanelSums) -> EffectiveSize:
    """Sizes of the panel without each of its members.

    Parameters
    ----------
    sums : PanelSums
        Leading dims pass through.

    Returns
    -------
    EffectiveSize
        As :func:`effective_size`, each scalar with a last axis for the member left out (..., k); values that
        have an axis of their own (energies, channels) are left out. NaN for a panel of one judge.
    """
    k = sums.cross.shape[-1]
    if k < 1:
        raise ProtocolError("A panel without members has none to leave out.")
    without = [effective_size(subpanel_sums(sums, np.arange(k) != member)) for member in range(k)]
    leading = sums.cross.ndim - 3
    values = {
        name: np.stack([one.values[name] for one in without], axis=-1)
        for name, value in without[0].values.items()
        if value.ndim == leading
    }
    reasons = {name: np.stack([one.reasons[name] for one in without], axis=-1) for name in without[0].reasons}
    if k == 1:
        sizes = set(reasons) - {"human_variance", "finite_n_delta", "human_variance_corrected"}
        for name in sizes:
            values[name] = np.full(values[name].shape, np.nan)
            reasons[name] = np.full(values[name].shape, int(Reason.ONE_JUDGE))
    return EffectiveSize(values, reasons)

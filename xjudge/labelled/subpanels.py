"""How the sizes of a panel grow with its members: subpanels of a pool by size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from xjudge._arguments import check_arguments
from xjudge.errors import ProtocolError
from xjudge.labelled._panel_pass import VOTES, OpenedPanel, Units, flat_units
from xjudge.protocol import Protocol
from xjudge.statistics import panel

__all__ = ["panel_curve"]

Ints = npt.NDArray[np.int64]

_OF_PANELS = ("nu_h", "nu_mse", "participation_ratio", "distributional_error", "mean_energy")
_WITHOUT = ("participation_ratio", "nu_h", "nu_mse", "distributional_error", "n_eff")
_CONFLICTS = ("n_additions", "n_conflicts", "n_stable", "n_more_diverse_worse", "n_less_diverse_better")


def panel_curve(
    data: xr.Dataset | xr.DataArray,
    *,
    sizes: Sequence[int] | None = None,
    n_draws: int = 2000,
    design: str = "random",
    quantiles: Sequence[float] = (0.05, 0.25, 0.5, 0.75, 0.95),
    min_change: float = 0.01,
    n_starts: int = 20,
    human: str = "observed",
    gold: str = "mode",
    protocol: Protocol | None = None,
    by: str | None = None,
    judges: Any = None,
    humans: Any = None,
    seed: int = 0,
    compute: bool = True,
) -> xr.Dataset:
    """Measure subpanels of each size: how effective sizes grow, and whether diversity and error agree.

    Parameters
    ----------
    data : Dataset or DataArray
        A judge dataset; its judges are the pool.
    sizes : sequence of int, optional
        Members; by default every size from 1 to the pool's, for ``"one_per_family"`` to the number of
        families.
    n_draws : int
        Subpanels drawn at each size; repeats are dropped.
    design : {"random", "balanced", "one_per_family"}
        All subpanels alike; members spread evenly over, or at most one of, each ``family(rater)``.
    quantiles : sequence of float
        Of the values over subpanels.
    min_change : float
        Relative change of diversity and of error from which an added judge counts as a conflict.
    n_starts : int
        Random starts of the search for the most diverse panel of each size.
    human, gold
        As in :func:`xjudge.effective_size`.
    protocol, by, judges, humans
        As in :func:`xjudge.effective_size`.
    seed : int
        Of subpanels, halves of the items, starts and drawn labels.
    compute : bool
        On lazy labels, whether to compute now; the votes are held in one task.

    Returns
    -------
    Dataset
        On dims ``size`` and ``quantile``: ``nu_h``, ``nu_mse``, ``participation_ratio``,
        ``distributional_error``, ``mean_energy``; a value that some subpanel does not have is NaN. By
        ``size``: ``n_panels``; ``rank_correlation`` of the participation ratio with minus the error, and
        ``rank_correlation_scaled`` with the error over the members' energy;
        ``half_rank_correlation(size, quantity)`` of either between two random halves of the items;
        ``n_additions`` of an absent judge, of which ``n_conflicts`` raise or lower diversity and error
        together, ``n_stable`` do so on both halves too (``n_more_diverse_worse``,
        ``n_less_diverse_better``); ``searched_member(size, rater)`` and ``searched_participation_ratio``, a
        panel that no swap makes more diverse. ``nu_mse_limit`` of the pool, and by ``rater`` the sizes of
        the pool without that judge: ``participation_ratio_without``, ``nu_h_without``, ``nu_mse_without``,
        ``distributional_error_without``, ``n_eff_without``. ``n_items``, ``n_dropped``.

    Raises
    ------
    ProtocolError, StructureError
        Sizes outside the pool; a design by family without the coordinate.

    Warns
    -----
    DroppedWarning
        Units left out.

    Notes
    -----
    MATH.md section 7. Holds the votes in memory: one compute. All subpanels are measured on the items that
    every judge of the pool answered. Subpanels overlap, so that counts of conflicts are descriptive.

    Examples
    --------
    >>> import warnings
    >>> import xjudge as xj
    >>> ds = xj.load_example()
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", xj.DroppedWarning)
    ...     curve = xj.panel_curve(ds, protocol=xj.Protocol(aggregate="micro"))
    >>> curve["n_panels"].values.tolist()
    [4, 6, 4, 1]
    """
    check_arguments(panel_curve, locals())
    opened = OpenedPanel(
        data,
        "panel_curve",
        protocol,
        human=human,
        gold=gold,
        by=by,
        judges=judges,
        humans=humans,
        seed=seed,
    )
    if n_starts < 0:
        raise ProtocolError(f"`n_starts` is a number of random starts, 0 or more; got {n_starts!r}.")
    n_judges = len(opened.judges)
    families = None
    if design != "random" or "family" in opened.view.data.coords:
        families = opened.rater_values("family", f"`design={design!r}`").astype(str)
    drawn = {"n_draws": n_draws, "design": design, "families": families, "seed": seed}
    wanted = _checked_sizes(sizes, n_judges, families if design == "one_per_family" else None)
    opened.request(VOTES)

    def finish(counted: list[Any]) -> dict[str, Any]:
        measure = _Measure(wanted, np.asarray(quantiles, dtype=np.float64), drawn, min_change, n_starts)
        found = [[measure.of(units) for units in tables] for tables in opened.slots(counted, 1)]
        return opened.stacked(found)

    arrays = opened.counting.run(finish, compute)
    result = opened.result(
        "panel_curve",
        arrays,
        _dims(arrays),
        {
            "size": ("size", wanted),
            "quantile": ("quantile", np.asarray(quantiles, dtype=np.float64)),
            "quantity": ("quantity", ["participation_ratio", "distributional_error"]),
        },
        n_draws=n_draws,
        design=design,
        min_change=min_change,
        n_starts=n_starts,
        seed=seed,
    )
    gap = "no human label, or no answer of a judge of the pool that is a category"
    opened.told(result, gap, compute)
    return result


def _checked_sizes(sizes: Sequence[int] | None, n_judges: int, families: npt.NDArray[Any] | None) -> Ints:
    largest = n_judges if families is None else len(np.unique(families))
    wanted = np.asarray(range(1, largest + 1) if sizes is None else sizes, dtype=np.int64)
    if wanted.ndim != 1 or not len(wanted) or (np.diff(wanted) <= 0).any():
        raise ProtocolError(f"`sizes` holds increasing numbers of members; got {sizes!r}.")
    if wanted[0] < 1 or wanted[-1] > largest:
        what = "judges" if families is None else "families"
        raise ProtocolError(f"`sizes` lie between 1 and the {largest} {what}; got {wanted.tolist()}.")
    return wanted


class _Measure:
    """The curve of one table."""

    def __init__(
        self,
        sizes: Ints,
        quantiles: npt.NDArray[np.float64],
        drawn: dict[str, Any],
        min_change: float,
        n_starts: int,
    ) -> None:
        self.sizes, self.quantiles, self.drawn = sizes, quantiles, drawn
        self.min_change, self.n_starts, self.seed = min_change, n_starts, drawn["seed"]

    def of(self, units: Units) -> dict[str, Any]:
        """Values by name."""
        halves = self._halves(units)
        curve = panel.panel_curve(halves, self.sizes, quantiles=self.quantiles, **self.drawn)
        whole = panel.combine_sums(*halves)
        out: dict[str, Any] = {name: curve.values[name] for name in _OF_PANELS}
        out |= {"n_panels": curve.n_panels, "rank_correlation": curve.rank_correlation}
        out["rank_correlation_scaled"] = curve.rank_correlation_scaled
        out["half_rank_correlation"] = curve.half_rank_correlation
        out |= self._conflicts(halves)
        out |= self._searched(whole)
        out["nu_mse_limit"] = curve.nu_mse_limit
        without = panel.leave_one_member_out(whole).values
        out |= {f"{name}_without": without[name] for name in _WITHOUT}
        counts = {"n_items": whole.n_items, "n_dropped": whole.n_dropped}
        return out | {name: np.asarray(value, dtype=np.int64) for name, value in counts.items()}

    def _halves(self, units: Units) -> tuple[panel.PanelSums, panel.PanelSums]:
        """Sums over two random halves of the items that count; units of one item are in one half."""
        used = units.used("drop")
        some = np.flatnonzero(used.any(1))
        first = np.zeros(len(used), dtype=bool)
        first[np.random.default_rng(self.seed).permutation(some)[: len(some) // 2]] = True
        parts = []
        for chosen in (first, ~first):
            judges, h, gold, n_humans = flat_units(units, units.inside & chosen[:, None])
            parts.append(panel.panel_sums(judges, h, gold, n_humans=n_humans))
        return parts[0], parts[1]

    def _conflicts(self, halves: tuple[panel.PanelSums, panel.PanelSums]) -> dict[str, Ints]:
        """Additions to the drawn subpanels that move diversity and error together, by size."""
        n_judges = halves[0].cross.shape[-1]
        found = []
        for size in self.sizes.tolist():
            member = panel.draw_subpanels(n_judges, size, **self.drawn)
            found.append(panel.addition_conflicts(halves, member, min_change=self.min_change))
        return {name: np.array([getattr(one, name) for one in found], dtype=np.int64) for name in _CONFLICTS}

    def _searched(self, whole: panel.PanelSums) -> dict[str, Any]:
        """A diverse panel of each size; none where too few judges have residual energy."""
        n_judges = whole.cross.shape[-1]
        out = {
            "searched_member": np.zeros((len(self.sizes), n_judges), dtype=bool),
            "searched_participation_ratio": np.full(len(self.sizes), np.nan),
        }
        usable = int((np.diagonal(whole.gram) > 0).sum())
        rows = self.sizes <= usable
        if rows.any():
            found = panel.search_sizes(whole.gram, self.sizes[rows], n_starts=self.n_starts, seed=self.seed)
            out["searched_member"][rows] = found.member
            out["searched_participation_ratio"][rows] = found.participation_ratio
        return out


def _dims(arrays: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """Dims beyond those of the data, by variable."""
    trailing: dict[str, tuple[str, ...]] = dict.fromkeys(_OF_PANELS, ("size", "quantile"))
    by_size = ("n_panels", "rank_correlation", "rank_correlation_scaled", *_CONFLICTS)
    trailing |= dict.fromkeys((*by_size, "searched_participation_ratio"), ("size",))
    trailing |= {"half_rank_correlation": ("size", "quantity"), "searched_member": ("size", "rater")}
    return trailing | {name: ("rater",) for name in arrays if name.endswith("_without")}

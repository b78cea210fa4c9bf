"""Which panel of judges to take: selection of a panel of a given size from a pool."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from xjudge._arguments import check_arguments
from xjudge.errors import OverlapError, ProtocolError, StructureError, listing
from xjudge.labelled._panel_pass import VOTES, OpenedPanel, Units, flat_units
from xjudge.protocol import Protocol
from xjudge.statistics import panel

__all__ = ["select_panel"]

Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

_MEASURED = (
    "accuracy",
    "nu_h",
    "nu_mse",
    "mean_squared_correlation",
    "participation_ratio",
    "distributional_error",
    "n_eff",
    "mean_energy",
)
_HELD_OUT = ("accuracy", "nu_h", "nu_mse", "mean_squared_correlation", "distributional_error")
_GUARANTEE = np.dtype("U160")
"""Width of a statement, so that a lazy result has one before it is known."""

_ON_FRONT = ("accuracy", "nu_h", "nu_mse", "mean_squared_correlation")


def select_panel(
    data: xr.Dataset | xr.DataArray,
    k: int,
    *,
    rule: Any = "A",
    search: str = "swaps",
    folds: int | str | Sequence[Any] | None = None,
    must_include: Any = (),
    exclude: Any = (),
    family_cap: int | None = None,
    budget: float | None = None,
    human: str = "observed",
    gold: str = "mode",
    max_nodes: int = 200_000,
    protocol: Protocol | None = None,
    by: str | None = None,
    judges: Any = None,
    humans: Any = None,
    seed: int = 0,
    compute: bool = True,
) -> xr.Dataset:
    """Take the best panel of ``k`` judges under a rule, beside the accuracy-top panel S0.

    Parameters
    ----------
    data : Dataset or DataArray
        A judge dataset; its judges are the pool.
    k : int
        Members of the panel.
    rule : {"A", "D", "E"}, callable, or a list of these
        A: the largest ``nu_h`` among candidates more accurate than S0. D: the largest accuracy, then
        ``nu_h``. E: the least distributional error among candidates more accurate than S0. A callable takes
        :class:`xjudge.statistics.panel.PanelQuantities` and returns a number for each panel, the greatest
        is best.
    search : {"swaps", "all", "bounded"}
        Candidates: panels within two swaps of S0; all panels of the size; or a search over all panels that
        says what it guarantees, beyond enumeration.
    folds : int, item coordinate or sequence, optional
        Also select without each fold of the items, and measure on the fold.
    must_include, exclude : names
        Judges that must be in, or stay out.
    family_cap : int, optional
        Most members of one ``family(rater)``.
    budget : float, optional
        Most that the members' ``cost(rater)`` may add up to.
    human, gold
        As in :func:`xjudge.effective_size`.
    max_nodes : int
        Nodes that ``search="bounded"`` may visit for each rule.
    protocol, by, judges, humans
        As in :func:`xjudge.effective_size`.
    seed : int
        Of random folds and drawn labels.
    compute : bool
        On lazy labels, whether to compute now; the votes are held in one task. ``search="all"`` is computed
        now: the length of its front is not known before.

    Returns
    -------
    Dataset
        On dim ``panel`` (``"S0"`` and the rules): ``member(panel, rater)``, ``found``, ``n_swaps`` from S0,
        ``guarantee`` (text), ``accuracy`` of the majority vote against gold (a tie is the chance of uniform
        tie-breaking), ``nu_h``, ``nu_mse``, ``mean_squared_correlation``, ``participation_ratio``,
        ``distributional_error``, ``n_eff``, ``mean_energy``, ``total_cost``. ``n_items``, ``n_dropped``;
        over the candidates within two swaps ``n_candidates``, ``n_one_swap``, ``n_two_swaps``,
        ``n_more_accurate`` and ``n_dominating`` (more accurate than S0 with a greater ``nu_h``). A rule
        without a feasible candidate has ``found`` False, no member and NaN; so have all panels of a slice or
        criterion without an item that every judge answered.

        ``search="all"``: ``n_panels``, ``n_panels_more_accurate``, ``n_panels_dominating``,
        ``percentile_accuracy`` and ``percentile_nu_h`` of S0, and the Pareto front of accuracy and ``nu_h``
        on dim ``front``, the most accurate first: ``front_member(front, rater)``, ``front_accuracy`` and
        the like; ``baseline_on_front``. ``folds``: on dim ``fold`` ``fold_member``, ``fold_found``,
        ``fold_n_items`` and ``training_x``, ``held_out_x``.

    Raises
    ------
    ProtocolError, StructureError, OverlapError
        Constraints that no panel satisfies; no item at all that every judge answered.

    Warns
    -----
    DroppedWarning
        Units left out.

    Notes
    -----
    MATH.md section 7: ties after a rule's comparisons go to the first candidate, one swap before two, then
    by the members removed and added, by name. Holds the votes in memory: one compute. A panel selected and
    measured on the same items looks better than it is; ``folds`` says by how much.

    Examples
    --------
    >>> import warnings
    >>> import xjudge as xj
    >>> ds = xj.load_example()
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", xj.DroppedWarning)
    ...     m = xj.select_panel(ds, 3, rule="D", protocol=xj.Protocol(aggregate="micro"))
    >>> m["panel"].values.tolist(), m["member"].sum("rater").values.tolist()
    (['S0', 'D'], [3, 3])
    """
    check_arguments(select_panel, locals())
    opened = OpenedPanel(
        data,
        "select_panel",
        protocol,
        human=human,
        gold=gold,
        by=by,
        judges=judges,
        humans=humans,
        seed=seed,
    )
    later = opened.view.lazy and not compute
    if later and search == "all":
        raise ProtocolError(
            "`select_panel(search='all')` has a Pareto front whose length only the answers tell: take "
            "compute=True or another search."
        )
    options = _options(opened, must_include, exclude, family_cap, budget)
    options |= {"rule": rule, "search": search, "max_nodes": max_nodes, "seed": seed}
    fold = _fold_of_items(opened, folds, seed)
    opened.request(VOTES)

    def finish(counted: list[Any]) -> dict[str, Any]:
        slots = opened.slots(counted, 1)
        some = any(_usable(units, options).any() for tables in slots for units in tables)
        if not some and not (later and not len(slots[0][0].judges)):
            raise OverlapError(
                f"No item has a gold label, a human label and an answer of all {len(opened.judges)} judges; "
                "exclude judges with few answers."
            )
        chosen = [[_chosen(units, k, fold, options) for units in tables] for tables in slots]
        arrays = _arranged(opened, chosen)
        seen.update(panels=arrays.pop("panels"), front=arrays.pop("front"))
        return arrays

    seen: dict[str, Any] = {}
    arrays = opened.counting.run(finish, compute)
    trailing, coords = _dims(arrays, seen["panels"], seen["front"])
    words = [one if isinstance(one, str) else "callable" for one in _as_list(rule)]
    result = opened.result(
        "select_panel",
        arrays,
        trailing,
        coords,
        k=k,
        rule=words,
        search=search,
        folds=folds if isinstance(folds, int | str) else None if folds is None else "given",
        family_cap=family_cap,
        budget=budget,
        max_nodes=max_nodes,
        must_include=opened.judges[options["must_include"]],
        exclude=opened.judges[options["exclude"]],
        seed=seed,
    )
    gap = "no human or gold label, or no answer of a judge of the pool that is a category"
    opened.told(result, gap, compute)
    return result


def _as_list(rule: Any) -> list[Any]:
    return list(rule) if isinstance(rule, list | tuple) else [rule]


def _options(
    opened: OpenedPanel, must_include: Any, exclude: Any, family_cap: int | None, budget: float | None
) -> dict[str, Any]:
    """Constraints by position in the pool, and the names that ties go by."""
    pool = opened.view.judges.tolist()

    def positions(chosen: Any, what: str) -> list[int]:
        if chosen is None:
            return []
        names = [chosen] if isinstance(chosen, str) or not isinstance(chosen, Iterable) else list(chosen)
        found = [opened.view.position(name, what) for name in names]
        wrong = [name for name, p in zip(names, found, strict=True) if p not in pool]
        if wrong:
            raise StructureError(f"`{what}`: {listing(wrong)} is not a judge of the pool.")
        return [pool.index(p) for p in found]

    out: dict[str, Any] = {
        "names": [str(name) for name in opened.judges],
        "must_include": positions(must_include, "must_include"),
        "exclude": positions(exclude, "exclude"),
    }
    if family_cap is not None:
        family = opened.rater_values("family", "`family_cap`")
        out |= {"families": family.astype(str), "family_cap": family_cap}
    if budget is not None or "cost" in opened.view.data.coords:
        costs = opened.rater_values("cost", "`budget`").astype(np.float64)
        out |= {"costs": costs, "budget": budget}
    return out


def _fold_of_items(opened: OpenedPanel, folds: Any, seed: int) -> Ints | int | None:
    """Number of the fold of each item; a number of folds where it has to be drawn slice by slice."""
    if folds is None:
        return None
    n = opened.view.n_items
    if isinstance(folds, int | np.integer):
        if isinstance(folds, bool) or not 2 <= folds <= max(n, 2):
            raise ProtocolError(f"`folds={folds}`: at least 2, and no more than the {n} items.")
        return int(folds)
    if opened.by is not None:
        raise ProtocolError("`by` goes with a number of folds; given folds are of all items.")
    names = opened.view.item_values(folds, "folds") if isinstance(folds, str) else np.asarray(folds)
    if names.shape != (n,):
        raise StructureError(f"`folds` names a fold for each of the {n} items; it has shape {names.shape}.")
    return np.unique(names, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _example_fold(fold: Ints | int | None) -> Ints | int | None:
    """Folds of the items of :func:`_example`."""
    return fold if fold is None or isinstance(fold, int) else np.repeat(np.unique(fold), 2)


def _example(units: Units, fold: Ints | int | None) -> Units:
    """Two items a fold that everybody answered, in the shapes of a table without items."""
    n = 2 if fold is None else 2 * (fold if isinstance(fold, int) else len(np.unique(fold)))
    n_criteria, k = units.judges.shape[1:]
    answers = np.broadcast_to((np.arange(k) + np.arange(n)[:, None, None]) % 2, (n, n_criteria, k))
    human = np.full((n, n_criteria, units.human.shape[2]), 1.0 / units.human.shape[2])
    gold = np.zeros((n, n_criteria), dtype=np.int64)
    return Units(answers, human, gold, np.ones((n, n_criteria), dtype=bool), shares=True)


def _usable(units: Units, options: dict[str, Any]) -> Flags:
    """Which items have a unit with gold, a human label and an answer of every judge not excluded."""
    pool = np.delete(units.judges, options["exclude"], axis=2)
    known = ~np.isnan(units.distribution[0]).any(-1)
    return np.asarray((units.inside & known & (units.gold >= 0) & (pool >= 0).all(-1)).any(1))


def _chosen(units: Units, k: int, fold: Ints | int | None, options: dict[str, Any]) -> panel.Selection:
    """The selection on one table; nothing is found where no unit is usable, or on folds without one."""
    usable = _usable(units, options)
    if usable.any() and fold is None:
        return _selected(units, k, None, options)
    if usable.any() and fold is not None:
        items = _folds(fold, len(usable), options["seed"])
        cut = [usable[items == number].any() and usable[items != number].any() for number in np.unique(items)]
        if len(cut) > 1 and all(cut):
            return _selected(units, k, fold, options)
        example = _selected(_example(units, fold), k, _example_fold(fold), options)
        whole = _selected(units, k, None, options)
        return whole._replace(held_out=_blank(example.held_out))
    found = _selected(_example(units, fold), k, _example_fold(fold), options)
    nothing = _blank(found)
    guarantee = ("no item that every judge answered",) * len(found.panels)
    return nothing._replace(guarantee=guarantee, panels=found.panels, n_dropped=int(units.inside.sum()))


def _blank(values: Any) -> Any:
    """The same arrays and counts, all undefined: NaN, zero, and -1 for scores and numbers of swaps."""
    if isinstance(values, panel.Enumeration):
        front = panel.PanelQuantities._make(field[:0] for field in values.front)
        return panel.Enumeration(0, 0, 0, np.nan, np.nan, False, values.front_member[:0], front)
    if isinstance(values, np.ndarray):
        fill = {"f": np.nan, "b": False}.get(values.dtype.kind, -1)
        return np.full(values.shape, fill, dtype=values.dtype)
    if hasattr(values, "_fields"):
        counts = ("n_items", "n_dropped")
        return values._make(
            np.zeros_like(value) if name in counts else _blank(value)
            for name, value in zip(values._fields, values, strict=True)
        )
    return 0 if isinstance(values, int) else values


def _folds(fold: Ints | int, n_items: int, seed: int) -> Ints:
    """Number of the fold of each item."""
    if isinstance(fold, int):
        return np.random.default_rng(seed).permutation(np.arange(n_items) % fold)
    return fold


def _selected(units: Units, k: int, fold: Ints | int | None, options: dict[str, Any]) -> panel.Selection:
    """The selection on one table; units of one item are in one fold."""
    keep = units.inside
    judges, h, gold, _ = flat_units(units, keep)
    folds = None
    if fold is not None:
        items = _folds(fold, len(keep), options["seed"])
        folds = np.broadcast_to(items[:, None], keep.shape)[keep]
    return panel.select_panel(judges, h, gold, k, folds=folds, **options)


def _arranged(opened: OpenedPanel, chosen: list[list[panel.Selection]]) -> dict[str, Any]:
    """Selections of all tables as arrays on the dims of the data; fronts are filled up to the longest."""
    every = [one for tables in chosen for one in tables]
    fronts = [len(one.enumeration.front_member) for one in every if one.enumeration is not None]
    n_front = max(fronts, default=0)
    flat = [_flat(one, n_front) for one in every]
    out: dict[str, Any] = {"panels": every[0].panels, "front": n_front if fronts else None}
    for name in flat[0]:
        stacked = np.stack([np.asarray(one[name]) for one in flat])
        apart = stacked.reshape((len(chosen), len(every) // len(chosen), *stacked.shape[1:]))
        out[name] = opened.on_dims(apart)
    return out


def _flat(one: panel.Selection, n_front: int) -> dict[str, Any]:
    """A selection as named arrays."""
    out: dict[str, Any] = {"member": one.member, "found": one.found}
    out |= {name: getattr(one.quantities, name) for name in _MEASURED}
    out["total_cost"] = one.quantities.cost
    out |= {"n_swaps": one.n_swaps, "guarantee": np.array(one.guarantee, dtype=_GUARANTEE)}
    out |= {"n_items": one.n_items, "n_dropped": one.n_dropped}
    counts = one.candidates
    out |= {"n_candidates": counts.n_panels, "n_one_swap": counts.n_one_swap}
    out |= {"n_two_swaps": counts.n_two_swaps, "n_more_accurate": counts.n_more_accurate}
    out |= {"n_dominating": counts.n_dominating, "n_dominating_one_swap": counts.n_dominating_one_swap}
    if one.enumeration is not None:
        out |= _flat_front(one.enumeration, n_front)
    if one.held_out is not None:
        held = one.held_out
        out |= {"fold_member": held.member, "fold_found": held.found, "fold_n_items": held.n_items}
        out |= {f"training_{name}": getattr(held.training, name) for name in _HELD_OUT}
        out |= {f"held_out_{name}": getattr(held.held_out, name) for name in _HELD_OUT}
    return out


def _flat_front(found: panel.Enumeration, n_front: int) -> dict[str, Any]:
    """What all panels of the size say."""
    more = n_front - len(found.front_member)
    out: dict[str, Any] = {
        "n_panels": found.n_panels,
        "n_panels_more_accurate": found.n_more_accurate,
        "n_panels_dominating": found.n_dominating,
        "percentile_accuracy": found.percentile_accuracy,
        "percentile_nu_h": found.percentile_nu_h,
        "baseline_on_front": found.baseline_on_front,
        "front_member": np.pad(found.front_member, ((0, more), (0, 0))),
    }
    for name in _ON_FRONT:
        values = getattr(found.front, name)
        out[f"front_{name}"] = np.pad(values, (0, more), constant_values=np.nan)
    return out


def _dims(
    arrays: dict[str, Any], panels: Sequence[str], n_front: int | None
) -> tuple[dict[str, tuple[str, ...]], dict[str, Any]]:
    """Dims beyond those of the data, by variable, and their coordinates."""
    trailing: dict[str, tuple[str, ...]] = dict.fromkeys(_MEASURED, ("panel",))
    trailing |= {"member": ("panel", "rater"), "found": ("panel",), "n_swaps": ("panel",)}
    trailing |= {"guarantee": ("panel",), "total_cost": ("panel",)}
    coords: dict[str, Any] = {"panel": ("panel", np.array(panels, dtype=str))}
    if n_front is not None:
        trailing |= {f"front_{name}": ("front",) for name in _ON_FRONT}
        trailing["front_member"] = ("front", "rater")
        coords["front"] = ("front", np.arange(n_front))
    if "fold_member" in arrays:
        trailing |= {"fold_member": ("fold", "panel", "rater"), "fold_found": ("fold", "panel")}
        trailing["fold_n_items"] = ("fold",)
        for name in _HELD_OUT:
            trailing |= {f"training_{name}": ("fold", "panel"), f"held_out_{name}": ("fold", "panel")}
    return trailing, coords

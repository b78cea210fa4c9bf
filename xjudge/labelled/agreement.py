"""Agreement of raters under protocols, from one pass over items: `tables`, `agreement` and `sweep`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from xjudge.codes import MISSING, raw_names
from xjudge.columns import criterion_weights
from xjudge.errors import ProtocolError, Reason
from xjudge.labelled._common import (
    agreement_weights,
    chosen_statistics,
    texts,
    warn_recoded,
    warn_undefined,
)
from xjudge.labelled._intervals import Intervals, coefficient
from xjudge.labelled._pass import Pass, Plan
from xjudge.labelled._results import named_result, placed, result_attrs, share
from xjudge.labelled._sampling import Sampling
from xjudge.labelled._sides import Sides
from xjudge.protocol import Protocol
from xjudge.statistics.coefficients import evaluate
from xjudge.view import View

__all__ = ["agreement", "sweep", "tables"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Weights = Mapping[str, Floats | None]
"""Agreement weights by the name of the costs; one nameless entry where the result has no dim ``costs``."""

# -------------------------------------------------------------------------------------------------- tables


def tables(
    data: xr.Dataset | xr.DataArray,
    *,
    reference: str = "each",
    raters: Any = None,
    protocol: Protocol | None = None,
    by: str | None = None,
    judges: Any = None,
    humans: Any = None,
    compute: bool = True,
) -> xr.Dataset:
    """Confusion tables, with CA, invalid and missing on both sides.

    Parameters
    ----------
    data : Dataset or DataArray
        A judge dataset.
    reference : {"each", "pooled", "majority"} or name
        Each human, the sum over humans, the humans' vote, or one rater.
    raters : list of names, "humans", "judges" or "all", optional
        Compare raters with each other instead: dims ``rater_a`` (rows), ``rater_b`` (columns). With
        ``reference="majority"``, whom to judge by the vote; a human's own vote is then left out.
    protocol : Protocol, optional
        Its scale map, handling and population are applied; ``"micro"`` sums over criteria, ``"item"``
        counts item verdicts. Without one the tables are raw.
    by : str, optional
        An item coordinate to slice on.
    judges, humans : list of names or boolean array, optional
        Restrict the raters.
    compute : bool
        On lazy labels, whether to compute now.

    Returns
    -------
    Dataset
        ``count`` of dims (reference, rater[, criterion], reference_label, rater_label), int64. Labels are
        the categories, then ``missing``, ``ca``, ``invalid`` (and ``excluded``, where a protocol leaves
        out ties); of a majority also ``no vote`` and ``tied``. Every case is in one cell, so a table sums
        to the number of cases.

    Notes
    -----
    One pass (sums).

    Examples
    --------
    >>> import xjudge as xj
    >>> t = xj.tables(xj.load_example(), reference="pooled", protocol=xj.Protocol(aggregate="micro"))
    >>> t["count"].dims
    ('rater', 'reference_label', 'rater_label')
    """
    view = View.of(data, humans=humans, judges=judges)
    chosen = Protocol() if protocol is None else protocol
    if chosen.aggregate == "macro":
        raise ProtocolError(
            "`tables` are counts, and 'macro' averages statistics; use None, 'micro' or 'item'."
        )
    resolved = chosen.resolve(view.scale)
    sides = Sides.of(view, reference, raters)
    counting = Pass(view, [resolved], sides, by)
    (plan,) = counting.plans
    left, right = _whole_axis(plan, plan.left_targets), _whole_axis(plan, plan.right_targets)
    if sides.kind == "majority":
        left = left[0], [*raw_names(plan.scale.categories)[:-2], "no vote", "tied"]

    def finish(counted: list[Any]) -> dict[str, Any]:
        raw = counting.raw(plan, counted)
        if plan.aggregate is not None:
            raw = raw.sum(-6, keepdims=True)
        whole = left[0].T @ raw @ right[0]
        return {"count": placed(view, sides, whole, criterion=plan.per_criterion, trailing=2)}

    arrays = counting.run(finish, compute)
    crossed = sides.kind == "raters"
    ends = ("label_a", "label_b") if crossed else ("reference_label", "rater_label")
    result = named_result(
        view, sides, counting.cases, arrays, criterion=plan.per_criterion, trailing={"": ends}
    )
    labels = {end: (end, np.array(names)) for end, (_, names) in zip(ends, (left, right), strict=True)}
    result = result.assign_coords(labels)
    result.attrs = result_attrs("tables", view, sides, protocol=chosen, by=by)
    warn_recoded([resolved])
    return result


def _whole_axis(plan: Plan, targets: Sequence[int]) -> tuple[Ints, list[str]]:
    """The collapse that keeps every case: categories of the table, then the outcomes that remain."""
    names = raw_names(plan.scale.categories)
    places = [target if target >= 0 else plan.scale.n_categories + MISSING - target for target in targets]
    if max(places) >= len(names):
        names.append("excluded")
    matrix = np.zeros((len(places), len(names)), dtype=np.int64)
    matrix[np.arange(len(places)), places] = 1
    return matrix, names


# ----------------------------------------------------------------------------------------------- agreement


def agreement(
    data: xr.Dataset | xr.DataArray,
    *,
    statistic: str | Sequence[str] | None = None,
    reference: str = "each",
    raters: Any = None,
    weights: Any = None,
    costs: Any = None,
    min_overlap: int = 1,
    protocol: Protocol | None = None,
    by: str | None = None,
    judges: Any = None,
    humans: Any = None,
    interval: str | None = "auto",
    resample: str = "items",
    level: float = 0.95,
    n_resamples: int = 2000,
    seed: int = 0,
    compute: bool = True,
) -> xr.Dataset:
    """Agreement of judges with a reference under a stated protocol.

    Parameters
    ----------
    data : Dataset or DataArray
        A judge dataset.
    statistic : str or list of str, optional
        Names of :data:`xjudge.statistics.COEFFICIENTS`. By default accuracy, kappa, and phi (two
        categories) or mcc.
    reference : {"each", "pooled", "majority"} or name
        Each human (dim ``reference``), the sum over humans, the humans' vote (mapped and handled first;
        ties leave the table and are counted; CA votes only where it is a category), or one rater.
    raters : list of names, "humans", "judges" or "all", optional
        Compare raters with each other instead: dims ``rater_a`` (rows), ``rater_b`` (columns). With
        ``reference="majority"``, whom to judge by the vote; a human's own vote is then left out.
    weights, costs : str or matrix, optional
        Agreement weights (diagonal 1) or disagreement costs (diagonal 0) over the protocol's categories,
        for the statistics that take them; one of the two. A mapping of costs by name gives a dim
        ``costs`` (see :func:`xjudge.costs_from_scores`).
    min_overlap : int
        Pairs below which a value is NaN, with the reason ``below min_overlap``; also the least support
        of a slice.
    protocol : Protocol, optional
        ``Protocol()``: per criterion, by exclusion.
    by : str, optional
        An item coordinate to slice on; a dim of that name in the result.
    judges, humans : list of names or boolean array, optional
        Restrict the raters.
    interval : {"auto", "delta", "percentile", "bca", "studentized", "wilson"}, optional
        Sampling interval: ``"delta"`` on a scale without limits, with a t quantile at ``n_items - 1``;
        ``"wilson"`` for shares, at the effective number of pairs; the others from multinomial resamples.
        ``"auto"`` is Wilson for shares and delta for the rest; ``None`` gives none.
    resample : {"items", "clusters", "criteria", "items+criteria", "decisions"}
        The sampling unit. Items with all their criteria and references by default; ``"clusters"`` by the
        coordinate ``cluster``; ``"criteria"`` for micro and macro; ``"items+criteria"`` in two stages;
        ``"decisions"`` ignores that pairs of one item belong together.
    level : float
        Confidence level.
    n_resamples, seed : int
        Of resampled intervals; same seed, same interval, whatever the chunks.
    compute : bool
        On lazy labels, whether to compute now (one compute) or return lazy values.

    Returns
    -------
    Dataset
        Per statistic ``x``: the value ``x``, ``x_reason``, ``x_se``, ``x_interval(bound)`` and, from
        resamples, ``x_undefined``, the share of resamples in which it is undefined. ``n`` pairs used,
        ``n_items`` items they come from, ``n_eligible`` pairs where neither label is missing,
        ``coverage = n / n_eligible``. Where they exist: ``rate_reference`` and ``rate_rater``, the positive
        rates on the pairs used; under ``"macro"`` ``n_criteria`` and ``n_criteria_included(statistic)``; of
        a majority ``n_reference_ties``; under an extraction rule ``n_extraction_changed``, verdicts that
        differ from those of the label in the data. Attributes suffice to recompute
        (:func:`xjudge.rebuild`).

    Raises
    ------
    ProtocolError
        What the scale cannot carry.
    StructureError, OverlapError
        Data that are no judge dataset; nobody to compare.
    VocabularyError
        Labels outside the scale.

    Notes
    -----
    One pass (sums); its cost grows with items x raters, everything after it does not. Formulas: the
    functions of :mod:`xjudge.statistics`.

    Examples
    --------
    >>> import xjudge as xj
    >>> ds = xj.load_example()
    >>> protocol = xj.Protocol(ca="negative", aggregate="micro")
    >>> result = ds.judge.agreement(statistic="kappa", reference="pooled", protocol=protocol)
    >>> result["kappa"].dims
    ('rater',)
    """
    chosen = Protocol() if protocol is None else protocol
    return _agreement(
        "agreement",
        data,
        [chosen],
        statistic=statistic,
        reference=reference,
        raters=raters,
        weights=weights,
        costs=costs,
        min_overlap=min_overlap,
        by=by,
        judges=judges,
        humans=humans,
        sampling=Sampling(interval, resample, level, n_resamples, seed),
        compute=compute,
    )


def sweep(
    data: xr.Dataset | xr.DataArray,
    protocols: Sequence[Protocol],
    *,
    statistic: str | Sequence[str] | None = None,
    reference: str = "each",
    raters: Any = None,
    weights: Any = None,
    costs: Any = None,
    min_overlap: int = 1,
    by: str | None = None,
    judges: Any = None,
    humans: Any = None,
    interval: str | None = "auto",
    resample: str = "items",
    level: float = 0.95,
    n_resamples: int = 2000,
    seed: int = 0,
    compute: bool = True,
) -> xr.Dataset:
    """Agreement under many protocols, from one pass.

    Parameters
    ----------
    data : Dataset or DataArray
        A judge dataset.
    protocols : sequence of Protocol
        For instance ``Protocol.grid(...)``; all with ``aggregate=None``, or none.
    statistic, reference, raters, weights, costs, min_overlap, by, judges, humans
        As in :func:`xjudge.agreement`.
    interval, resample, level, n_resamples, seed
        As in :func:`xjudge.agreement`.
    compute : bool
        On lazy labels, whether to compute now (one compute for all protocols).

    Returns
    -------
    Dataset
        What :func:`xjudge.agreement` gives for each protocol, along dim ``protocol``, whose labels are
        short and readable, with the coordinates ``scale_map``, ``ca``, ``invalid``, ``tie``,
        ``aggregate``, ``population`` and ``extraction``. Where any protocol is ``"macro"``, the others
        count as one criterion. :func:`xjudge.spread` says how far each statistic moves, and by what.

    Raises
    ------
    ProtocolError
        No protocol, the same one twice, per-criterion ones mixed with aggregated ones, or what a scale
        cannot carry.

    Notes
    -----
    One pass (sums), whatever the number of protocols: raw tables are counted once and collapsed.

    Examples
    --------
    >>> import xjudge as xj
    >>> grid = xj.Protocol.grid(ca=["exclude", "negative", "category"], aggregate=["micro", "macro"])
    >>> result = xj.load_example().judge.sweep(grid, statistic="accuracy", reference="pooled")
    >>> result["accuracy"].dims, result.sizes["protocol"]
    (('protocol', 'rater'), 6)
    """
    chosen = [protocols] if isinstance(protocols, Protocol) else list(protocols)
    if not chosen:
        raise ProtocolError("`sweep` needs at least one protocol; see xj.Protocol.grid.")
    repeated = [p for n, p in enumerate(chosen) if p in chosen[:n]]
    if repeated:
        raise ProtocolError(f"`sweep` got the same protocol twice: {repeated[0]!r}.")
    Protocol.check_together(chosen)
    return _agreement(
        "sweep",
        data,
        chosen,
        statistic=statistic,
        reference=reference,
        raters=raters,
        weights=weights,
        costs=costs,
        min_overlap=min_overlap,
        by=by,
        judges=judges,
        humans=humans,
        sampling=Sampling(interval, resample, level, n_resamples, seed),
        compute=compute,
    )


def _agreement(
    verb: str,
    data: xr.Dataset | xr.DataArray,
    protocols: Sequence[Protocol],
    *,
    statistic: str | Sequence[str] | None,
    reference: str,
    raters: Any,
    weights: Any,
    costs: Any,
    min_overlap: int,
    by: str | None,
    judges: Any,
    humans: Any,
    sampling: Sampling,
    compute: bool,
) -> xr.Dataset:
    """Agreement under one protocol, or along dim ``protocol`` under many."""
    view = View.of(data, humans=humans, judges=judges)
    resolved = [protocol.resolve(view.scale) for protocol in protocols]
    sides = Sides.of(view, reference, raters)
    counting = Pass(view, resolved, sides, by, sampling.seed)
    names = chosen_statistics(statistic, [(plan.resolved.protocol, plan.scale) for plan in counting.plans])
    matrices = [_matrices(weights, costs, plan) for plan in counting.plans]
    sampling.check(names, [plan.aggregate for plan in counting.plans])
    intervals = Intervals(counting, sampling)
    many = verb == "sweep"
    macro = any(plan.aggregate == "macro" for plan in counting.plans)

    def finish(counted: list[Any]) -> dict[str, Any]:
        found = [
            _evaluated(intervals, plan, counted, names, matrix, min_overlap, macro=macro)
            for plan, matrix in zip(counting.plans, matrices, strict=True)
        ]
        return _stacked(found) if many else found[0]

    arrays = counting.run(finish, compute)
    ends: dict[str, tuple[str, ...]] = {"n_criteria_included": ("statistic",)}
    by_costs = isinstance(costs, Mapping)
    if by_costs:
        ends |= {name + end: ("costs",) for name in names for end in ("", "_reason", "_se", "_undefined")}
        ends["n_criteria_included"] = ("costs", "statistic")
    ends |= {f"{name}_interval": (*ends.get(name, ()), "bound") for name in names}
    lead = ["protocol"] if many else []
    result = named_result(
        view,
        sides,
        counting.cases,
        arrays,
        lead=lead,
        criterion=counting.plans[0].per_criterion,
        trailing=ends,
    )
    coords: dict[str, Any] = _protocol_coordinates(protocols) if many else {}
    if macro:
        coords["statistic"] = ("statistic", np.array(names))
    if sampling.method is not None:
        coords["bound"] = ("bound", np.array(["lower", "upper"]))
    if by_costs:
        coords["costs"] = ("costs", np.array([str(name) for name in costs]))
    result = result.assign_coords(coords)
    stated = {"protocols": [p.to_json() for p in protocols]} if many else {"protocol": protocols[0]}
    result.attrs = result_attrs(
        verb,
        view,
        sides,
        **stated,
        by=by,
        statistic=names,
        weights=weights,
        costs=dict(costs) if isinstance(costs, Mapping) else costs,
        min_overlap=min_overlap,
        **_sampling_attrs(sampling, names),
    )
    warn_recoded(resolved)
    if compute or not view.lazy:
        warn_undefined(result, names)
    return result


def _sampling_attrs(sampling: Sampling, names: Sequence[str]) -> dict[str, Any]:
    """What was asked of intervals, the method for each statistic, and the law of the resamples."""
    asked: dict[str, Any] = {"interval": sampling.method or "none", "seed": sampling.seed}
    if sampling.method is None:
        return asked
    methods = {name: sampling.of(name) for name in names}
    asked |= {"interval_methods": methods, "resample": sampling.resample, "level": sampling.level}
    if sampling.resamples:
        asked |= {"n_resamples": sampling.n_resamples, "law": "multinomial"}
    return asked


def _protocol_coordinates(protocols: Sequence[Protocol]) -> dict[str, Any]:
    """The readable label of each protocol, and its choices as text."""
    labels = [protocol.label for protocol in protocols]
    labels = [
        repr(p) if labels.count(label) > 1 else label for p, label in zip(protocols, labels, strict=True)
    ]
    coords = {"protocol": labels}
    for name in ("scale_map", "ca", "invalid", "tie", "aggregate", "population", "extraction"):
        coords[name] = [_word(getattr(protocol, name)) for protocol in protocols]
    return {name: ("protocol", np.array(words)) for name, words in coords.items()}


def _word(choice: Any) -> str:
    if choice is None:
        return "none"
    if isinstance(choice, tuple):
        return ", ".join(f"{name}={'|'.join(map(str, values))}" for name, values in choice)
    return str(choice)


def _stacked(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Results of several protocols along a first axis; what only some have is NaN for the others."""
    names = list(dict.fromkeys(name for one in found for name in one))
    out = {}
    for name in names:
        like = next(one[name] for one in found if name in one)
        out[name] = np.stack([one.get(name, np.full(like.shape, np.nan)) for one in found])
    return out


def _matrices(weights: Any, costs: Any, plan: Plan) -> Weights:
    if not isinstance(costs, Mapping):
        return {"": agreement_weights(weights, costs, plan.scale, plan.outcomes)}
    if not costs:
        raise ProtocolError("`costs` is an empty mapping; name at least one cost matrix.")
    return {
        str(name): agreement_weights(weights, one, plan.scale, plan.outcomes) for name, one in costs.items()
    }


def _evaluated(
    intervals: Intervals,
    plan: Plan,
    counted: list[Any],
    names: Sequence[str],
    weights: Weights,
    min_overlap: int,
    *,
    macro: bool,
) -> dict[str, Any]:
    """Values, reasons and counts of one protocol."""
    counting = intervals.counting
    view, sides = counting.view, counting.sides
    raw, items = counting.raw(plan, counted), counting.items(plan, counted)
    apart = plan.collapse(raw)
    if plan.aggregate == "micro":
        raw = raw.sum(-6, keepdims=True)
    averaged = plan.aggregate == "macro"
    table, eligible = plan.collapse(raw), plan.eligible(raw)
    used = table.sum((-2, -1))

    def over_criteria(counts: Ints) -> Ints:
        return counts.sum(-4, keepdims=True) if averaged else counts

    def on_dims(array: npt.NDArray[Any], trailing: int = 0) -> npt.NDArray[Any]:
        return placed(view, sides, array, criterion=plan.per_criterion, trailing=trailing)

    out: dict[str, npt.NDArray[Any]] = {}
    estimates: dict[str, Floats] = {}
    included = []
    for name in names:
        value, reason, n_included = _value(
            counting, plan, name, weights, table=table, used=used, eligible=eligible, min_overlap=min_overlap
        )
        by_costs = value.ndim - used.ndim
        estimates[name] = np.where(reason == 0, value, np.nan)
        out[name] = on_dims(estimates[name], by_costs)
        out[f"{name}_reason"] = texts(on_dims(reason, by_costs))
        included.append(on_dims(n_included, by_costs))
    n_items = over_criteria(used) if items is None else items
    if intervals.sampling.method is not None:
        totals = over_criteria(raw.sum((-2, -1)))
        out |= _sampled(intervals, plan, counted, names, estimates, apart, weights, n_items, totals, on_dims)
    out["n"] = on_dims(over_criteria(used))
    out["n_items"] = on_dims(n_items)
    out["n_eligible"] = on_dims(over_criteria(eligible))
    out["coverage"] = share(out["n"], out["n_eligible"])
    changed = counting.changed(plan, counted)
    if changed is not None:
        changed = changed if plan.aggregate is None else changed.sum(-4, keepdims=True)
        each_pair = (*changed.shape[:-2], *used.shape[-2:])
        out["n_extraction_changed"] = on_dims(np.broadcast_to(changed, each_pair))
    if sides.kind == "majority":
        out["n_reference_ties"] = on_dims(over_criteria(raw[..., plan.tied, :].sum(-1)))
    if plan.scale.kind == "binary":
        cells = table.sum(-6, keepdims=True) if averaged else table
        total = cells.sum((-2, -1))
        out["rate_reference"] = on_dims(share(cells[..., 1, :].sum(-1), total))
        out["rate_rater"] = on_dims(share(cells[..., :, 1].sum(-1), total))
    if macro:
        out["n_criteria"] = np.full_like(out["n"], table.shape[-6])
        out["n_criteria_included"] = np.stack(included, axis=-1)
    return out


def _sampled(
    intervals: Intervals,
    plan: Plan,
    counted: list[Any],
    names: Sequence[str],
    estimates: Mapping[str, Floats],
    apart: Ints,
    weights: Weights,
    n_items: Ints,
    totals: Ints,
    on_dims: Callable[[npt.NDArray[Any], int], npt.NDArray[Any]],
) -> dict[str, Floats]:
    """Standard errors and intervals on the result's dims; along the costs too where they have names."""
    found = []
    for position, matrix in enumerate(weights.values()):
        own = {name: estimates[name] if "" in weights else estimates[name][..., position] for name in names}
        statistics = {name: coefficient(name, matrix) for name in names}
        found.append(intervals.of(plan, counted, own, apart, statistics, n_items, totals))
    if "" in weights:
        return {name: on_dims(array, int(name.endswith("_interval"))) for name, array in found[0].items()}
    out = {}
    for name in found[0]:
        bound = int(name.endswith("_interval"))
        out[name] = on_dims(np.stack([one[name] for one in found], axis=-1 - bound), 1 + bound)
    return out


def _value(
    counting: Pass,
    plan: Plan,
    name: str,
    weights: Weights,
    *,
    table: Ints,
    used: Ints,
    eligible: Ints,
    min_overlap: int,
) -> tuple[Floats, npt.NDArray[np.int8], Ints]:
    """One statistic, its reasons, and the criteria it includes; with a last axis where costs have names."""
    view, sides = counting.view, counting.sides
    found = []
    for matrix in weights.values():
        value, reason = evaluate(name, table, matrix)
        reason = np.where(eligible == 0, np.int8(Reason.NO_OVERLAP), reason)
        thin = (reason == 0) & (used < min_overlap)
        reason = np.where(thin, np.int8(Reason.BELOW_MIN_OVERLAP), reason)
        n_included = (reason == 0).astype(np.int64)
        if plan.aggregate == "macro":
            value, reason, n_included = _macro(criterion_weights(view, plan.resolved.protocol), value, reason)
        if sides.kind == "raters":
            same = np.array(sides.left)[:, None] == np.array(sides.right)
            reason = np.where(same, np.int8(Reason.SAME_RATER), reason)
        found.append((value, reason, n_included))
    if "" in weights:
        return found[0]
    value, reason, n_included = (np.stack(parts, axis=-1) for parts in zip(*found, strict=True))
    return value, reason, n_included


def _macro(
    weights: Floats, value: Floats, reason: npt.NDArray[np.int8]
) -> tuple[Floats, npt.NDArray[np.int8], Ints]:
    """Weighted mean over the criteria where the statistic is defined; weights are renormalised over them."""
    weight = weights[:, None, None, None] * (reason == 0)
    total = weight.sum(-4, keepdims=True)
    mean = share((weight * np.where(reason == 0, value, 0)).sum(-4, keepdims=True), total)
    out = np.where(total > 0, np.int8(0), np.int8(Reason.NO_CRITERION))
    nowhere = (reason == Reason.NO_OVERLAP).all(-4, keepdims=True)
    out = np.where(nowhere, np.int8(Reason.NO_OVERLAP), out)
    return mean, out, (weight > 0).sum(-4, keepdims=True)

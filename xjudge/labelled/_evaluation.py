"""The numbers of one protocol from what the pass counted: values, reasons, counts, intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from xjudge.columns import criterion_weights
from xjudge.errors import ProtocolError, Reason
from xjudge.labelled._common import agreement_weights, texts
from xjudge.labelled._estimate import coefficient
from xjudge.labelled._intervals import Intervals
from xjudge.labelled._numbers import Numbers
from xjudge.labelled._pass import Pass, Plan
from xjudge.labelled._results import placed, share
from xjudge.labelled._sampling import Sampling

__all__ = ["Weights", "averaged", "evaluated", "sampling_attrs", "weight_matrices"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Weights = Mapping[str, Floats | None]
"""Agreement weights by the name of the costs; one nameless entry where the result has no dim ``costs``."""


def sampling_attrs(sampling: Sampling, names: Sequence[str]) -> dict[str, Any]:
    """What was asked of intervals, the method for each statistic, and the law of the resamples."""
    asked: dict[str, Any] = {"interval": sampling.method or "none", "seed": sampling.seed}
    if sampling.method is None:
        return asked
    methods = {name: sampling.of(name) for name in names}
    asked |= {"interval_methods": methods, "resample": sampling.resample, "level": sampling.level}
    if sampling.resamples:
        asked |= {"n_resamples": sampling.n_resamples, "law": "multinomial"}
    return asked


def weight_matrices(weights: Any, costs: Any, plan: Plan) -> Weights:
    """Agreement weights of one protocol; none are taken where its scale has scores instead of categories."""
    if plan.scores is not None:
        if weights is not None or costs is not None:
            raise ProtocolError(
                f"`weights` and `costs` are of categories, and under {plan.resolved.protocol!r} the scale is "
                f"{plan.scale!r}."
            )
        return {"": None}
    if not isinstance(costs, Mapping):
        return {"": agreement_weights(weights, costs, plan.scale, plan.outcomes)}
    if not costs:
        raise ProtocolError("`costs` is an empty mapping; name at least one cost matrix.")
    return {
        str(name): agreement_weights(weights, one, plan.scale, plan.outcomes) for name, one in costs.items()
    }


def evaluated(
    intervals: Intervals,
    plan: Plan,
    counted: list[Any],
    names: Sequence[str],
    weights: Weights,
    min_overlap: int,
    *,
    macro: bool,
    numbers: Numbers | None = None,
) -> dict[str, Any]:
    """Values, reasons and counts of one protocol; its statistics are of ``numbers`` on a continuous scale."""
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
    in_numbers = {} if numbers is None else numbers.evaluated(counted)

    def of(name: str, matrix: Floats | None) -> tuple[Floats, npt.NDArray[np.int8]]:
        if name in in_numbers:
            return in_numbers[name]
        return coefficient(name, matrix, plan.scale.scores).value(table)

    for name in names:
        value, reason, n_included = _value(
            counting, plan, name, weights, of=of, used=used, eligible=eligible, min_overlap=min_overlap
        )
        by_costs = value.ndim - used.ndim
        estimates[name] = np.where(reason == 0, value, np.nan)
        out[name] = on_dims(estimates[name], by_costs)
        out[f"{name}_reason"] = texts(on_dims(reason, by_costs))
        included.append(on_dims(n_included, by_costs))
    n_items = over_criteria(used) if items is None else items
    if intervals.sampling.method is not None and numbers is not None:
        found = numbers.sampled(counted, estimates, n_items)
        out |= {name: on_dims(array, int(name.endswith("_interval"))) for name, array in found.items()}
    elif intervals.sampling.method is not None:
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
        statistics = {name: coefficient(name, matrix, plan.scale.scores) for name in names}
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
    of: Callable[[str, Floats | None], tuple[Floats, npt.NDArray[np.int8]]],
    used: Ints,
    eligible: Ints,
    min_overlap: int,
) -> tuple[Floats, npt.NDArray[np.int8], Ints]:
    """One statistic, its reasons, and the criteria it includes; with a last axis where costs have names."""
    view, sides = counting.view, counting.sides
    found = []
    for matrix in weights.values():
        value, reason = of(name, matrix)
        reason = np.where(eligible == 0, np.int8(Reason.NO_OVERLAP), reason)
        thin = (reason == 0) & (used < min_overlap)
        reason = np.where(thin, np.int8(Reason.BELOW_MIN_OVERLAP), reason)
        n_included = (reason == 0).astype(np.int64)
        if plan.aggregate == "macro":
            value, reason, n_included = averaged(
                criterion_weights(view, plan.resolved.protocol), value, reason
            )
        if sides.kind == "raters":
            same = np.array(sides.left)[:, None] == np.array(sides.right)
            reason = np.where(same, np.int8(Reason.SAME_RATER), reason)
        found.append((value, reason, n_included))
    if "" in weights:
        return found[0]
    value, reason, n_included = (np.stack(parts, axis=-1) for parts in zip(*found, strict=True))
    return value, reason, n_included


def averaged(
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

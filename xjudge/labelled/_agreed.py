"""The engine of `agreement` and `sweep`: one protocol, or many along dim ``protocol``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from xjudge.labelled._common import chosen_statistics, warn_recoded, warn_undefined
from xjudge.labelled._evaluation import check_weights, evaluated, sampling_attrs, weight_matrices
from xjudge.labelled._intervals import Intervals
from xjudge.labelled._level import warn_intervals
from xjudge.labelled._numbers import Numbers
from xjudge.labelled._pass import Pass
from xjudge.labelled._results import named_result, result_attrs
from xjudge.labelled._sampling import Sampling
from xjudge.labelled._sides import Sides, told_apart
from xjudge.protocol import Protocol
from xjudge.view import View

__all__ = ["agreed"]


def agreed(
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
    """Result of a verb; the arguments are those of :func:`xjudge.agreement`."""
    view = View.of(data, humans=humans, judges=judges, **told_apart(reference, raters))
    resolved = [protocol.resolve(view.scale) for protocol in protocols]
    sides = Sides.of(view, reference, raters)
    counting = Pass(view, resolved, sides, by, sampling.seed)
    plans = counting.plans
    names = chosen_statistics(statistic, [(plan.resolved.protocol, plan.scale) for plan in plans])
    matrices = [weight_matrices(weights, costs, plan) for plan in plans]
    check_weights(names, weights, costs)
    sampling.check(names, [plan.aggregate for plan in plans])
    intervals = Intervals(counting, sampling)
    numbers = [None if plan.scores is None else Numbers(counting, plan, sampling, names) for plan in plans]
    many = verb == "sweep"
    macro = any(plan.aggregate == "macro" for plan in plans)

    def finish(counted: list[Any]) -> dict[str, Any]:
        found = [
            evaluated(intervals, plan, counted, names, matrix, min_overlap, macro=macro, numbers=own)
            for plan, matrix, own in zip(plans, matrices, numbers, strict=True)
        ]
        return _stacked(found) if many else found[0]

    arrays = counting.run(finish, compute)
    result = named_result(
        view,
        sides,
        counting.cases,
        arrays,
        lead=["protocol"] if many else [],
        criterion=plans[0].per_criterion,
        trailing=_ends(names, by_costs=isinstance(costs, Mapping)),
    )
    coords: dict[str, Any] = _protocol_coordinates(protocols) if many else {}
    if macro:
        coords["statistic"] = ("statistic", np.array(names))
    if sampling.method is not None:
        coords["bound"] = ("bound", np.array(["lower", "upper"]))
    if isinstance(costs, Mapping):
        coords["costs"] = ("costs", np.array([str(name) for name in costs]))
    result = result.assign_coords(coords)
    stated: dict[str, Any] = {"protocol": protocols[0]}
    if many:
        stated = {"protocols": [p.to_json() for p in protocols]}
    stated |= {"by": by, "statistic": names, "weights": weights, "min_overlap": min_overlap}
    stated["costs"] = dict(costs) if isinstance(costs, Mapping) else costs
    result.attrs = result_attrs(verb, view, sides, **stated, **sampling_attrs(sampling, names, intervals.law))
    warn_recoded(resolved)
    if compute or not view.lazy:
        warn_undefined(result, names)
        warn_intervals(result, names)
    return result


def _ends(names: Sequence[str], *, by_costs: bool) -> dict[str, tuple[str, ...]]:
    """Dims after those of the sides, by variable."""
    ends: dict[str, tuple[str, ...]] = {"n_criteria_included": ("statistic",)}
    if by_costs:
        each = ("", "_reason", "_se", "_undefined", "_interval_reason")
        ends |= {name + end: ("costs",) for name in names for end in each}
        ends["n_criteria_included"] = ("costs", "statistic")
    return ends | {f"{name}_interval": (*ends.get(name, ()), "bound") for name in names}


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

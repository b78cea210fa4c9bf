"""The numbers of one protocol from what the pass counted: values, reasons, counts, intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from xjudge.columns import criterion_weights
from xjudge.errors import ProtocolError, Reason, listing
from xjudge.labelled._common import agreement_weights, texts
from xjudge.labelled._estimate import OfTable, coefficient
from xjudge.labelled._intervals import Intervals
from xjudge.labelled._level import few, interval_reasons, rare_and_apart
from xjudge.labelled._numbers import Numbers
from xjudge.labelled._pass import Pass, Plan
from xjudge.labelled._results import placed, share
from xjudge.labelled._sampling import Sampling
from xjudge.statistics.coefficients import COEFFICIENTS

__all__ = [
    "Placing",
    "Tables",
    "Weights",
    "averaged",
    "check_weights",
    "evaluated",
    "matrix_of",
    "sampling_attrs",
    "weight_matrices",
]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int8]
Weights = Mapping[str, Floats | None]
"""Agreement weights by the name of the costs; one nameless entry where the result has no dim ``costs``."""


def sampling_attrs(sampling: Sampling, names: Sequence[str], law: str = "multinomial") -> dict[str, Any]:
    """What was asked of intervals, the method for each statistic, and the law of the resamples."""
    asked: dict[str, Any] = {"interval": sampling.method or "none", "seed": sampling.seed}
    if sampling.method is None:
        return asked
    methods = {name: sampling.of(name) for name in names}
    asked |= {"interval_methods": methods, "resample": sampling.resample, "level": sampling.level}
    if sampling.resamples:
        asked |= {"n_resamples": sampling.n_resamples, "law": law}
    return asked


def matrix_of(weights: Any, costs: Any, plan: Plan) -> Floats | None:
    """Agreement weights of one protocol; none are taken where its scale has numbers instead of categories."""
    if plan.scores is not None and (weights is not None or costs is not None):
        raise ProtocolError(
            f"`weights` and `costs` are of categories, and under {plan.resolved.protocol!r} the scale is "
            f"{plan.scale!r}."
        )
    if isinstance(costs, Mapping):
        raise ProtocolError(
            "Costs by name make a dim `costs` in `agreement` and `sweep`; here `costs` is one name or matrix."
        )
    if plan.scores is not None:
        return None
    return agreement_weights(weights, costs, plan.scale, plan.outcomes)


def check_weights(names: Sequence[str], weights: Any, costs: Any) -> None:
    """Refuse weights that nothing of what is asked for takes."""
    if weights is None and costs is None:
        return
    takes = [name for name, known in COEFFICIENTS.items() if known.weighted]
    if not set(names) & set(takes):
        word = "weights" if weights is not None else "costs"
        raise ProtocolError(
            f"`{word}` do not act on {listing(names, most=9)}; they do on {', '.join(takes)}."
        )


def weight_matrices(weights: Any, costs: Any, plan: Plan) -> Weights:
    """Agreement weights of one protocol, by the name of the costs where they are a mapping."""
    if not isinstance(costs, Mapping) or plan.scores is not None:
        return {"": matrix_of(weights, costs, plan)}
    if not costs:
        raise ProtocolError("`costs` is an empty mapping; name at least one cost matrix.")
    return {str(name): matrix_of(weights, one, plan) for name, one in costs.items()}


class Placing:
    """Where the numbers of one protocol stand in the result, and how its criteria come together.

    Parameters
    ----------
    counting : Pass
    plan : Plan
    """

    def __init__(self, counting: Pass, plan: Plan) -> None:
        self.counting, self.plan = counting, plan
        self.macro = plan.aggregate == "macro"

    def joined(self, apart: Ints) -> Ints:
        """Tables (..., criterion, other, A, B, L, R) as they are evaluated: summed under ``"micro"``."""
        return apart.sum(-6, keepdims=True) if self.plan.aggregate == "micro" else apart

    def over_criteria(self, counts: Ints) -> Ints:
        """Counts (..., criterion, other, A, B) as they are reported: summed where criteria are pooled."""
        return counts if self.plan.aggregate is None else counts.sum(-4, keepdims=True)

    def averaged(self, value: Floats, reason: Codes) -> tuple[Floats, Codes, Ints]:
        """The mean over criteria under ``"macro"``, and how many it includes."""
        if not self.macro:
            return value, reason, (reason == 0).astype(np.int64)
        return averaged(criterion_weights(self.counting.view, self.plan.resolved.protocol), value, reason)

    def on_dims(self, array: npt.NDArray[Any], trailing: int = 0) -> npt.NDArray[Any]:
        """An array (..., criterion or 1, other, A, B, *trailing) on the dims of the result."""
        counting = self.counting
        return placed(
            counting.view, counting.sides, array, criterion=self.plan.per_criterion, trailing=trailing
        )


class Tables(Placing):
    """What the pass counted for one protocol, as statistics are evaluated on it.

    Parameters
    ----------
    counting : Pass
    plan : Plan
    counted : list
        What the pass counted.

    Attributes
    ----------
    eligible : ndarray
        Eligible pairs (..., criterion or 1, other, A, B) by the criteria that are evaluated.
    raw, table, apart : ndarray
        Raw tables and tables of the protocol (..., criterion, other, A, B, L, R): criteria summed under
        ``"micro"``, and never summed.
    n, n_items, n_eligible, totals : ndarray
        Counts (..., criterion or 1, other, A, B): pairs, items with a pair, eligible pairs, and all cases.
    """

    def __init__(self, counting: Pass, plan: Plan, counted: list[Any]) -> None:
        super().__init__(counting, plan)
        self.counted = counted
        raw, items = counting.raw(plan, counted), counting.items(plan, counted)
        self.apart = plan.collapse(raw)
        self.raw = self.joined(raw)
        self.table = plan.collapse(self.raw)
        self._pairs, self.eligible = self.table.sum((-2, -1)), plan.eligible(self.raw)
        self.n, self.n_eligible = self.over_criteria(self._pairs), self.over_criteria(self.eligible)
        self.n_items = self.n if items is None else items
        self.totals = self.over_criteria(self.raw.sum((-2, -1)))

    def counts(self) -> dict[str, npt.NDArray[Any]]:
        """What every result says of its size, on the result's dims."""
        out = {name: self.on_dims(getattr(self, name)) for name in ("n", "n_items", "n_eligible")}
        return out | {"coverage": share(out["n"], out["n_eligible"])}

    def rates(self) -> dict[str, npt.NDArray[Any]]:
        """The positive rates of both sides of a binary scale, of all used pairs."""
        if self.plan.scale.kind != "binary":
            return {}
        cells = self.table.sum(-6, keepdims=True) if self.macro else self.table
        total = cells.sum((-2, -1))
        sums = {"rate_reference": cells[..., 1, :].sum(-1), "rate_rater": cells[..., :, 1].sum(-1)}
        return {name: self.on_dims(share(one, total)) for name, one in sums.items()}

    def ties(self) -> dict[str, npt.NDArray[Any]]:
        """Cases that a majority reference leaves out, as its vote is tied."""
        if self.counting.sides.kind != "majority":
            return {}
        ties = self.raw[..., self.plan.tied, :].sum(-1)
        return {"n_reference_ties": self.on_dims(self.over_criteria(ties))}

    def settled(self, value: Floats, reason: Codes, min_overlap: int = 1) -> tuple[Floats, Codes, Ints]:
        """Values that stand, NaN for the others, with reasons and the criteria they include.

        From values (..., criterion, other, A, B) by criterion, which are averaged where the protocol says so.
        """
        sides = self.counting.sides
        reason = np.where(self.eligible == 0, np.int8(Reason.NO_OVERLAP), reason)
        thin = (reason == 0) & (self._pairs < min_overlap)
        reason = np.where(thin, np.int8(Reason.BELOW_MIN_OVERLAP), reason)
        value, reason, n_included = self.averaged(value, reason)
        if sides.kind == "raters":
            same = np.array(sides.left)[:, None] == np.array(sides.right)
            reason = np.where(same, np.int8(Reason.SAME_RATER), reason)
        return np.where(reason == 0, value, np.nan), reason, n_included

    def sampled(
        self,
        intervals: Intervals,
        values: Mapping[str, Floats],
        reasons: Mapping[str, Codes],
        statistics: Mapping[str, OfTable],
        numbers: Numbers | None = None,
    ) -> dict[str, npt.NDArray[Any]]:
        """Standard errors, ends, and why an end is missing or to be read with care (codes)."""
        none = np.zeros(self.n.shape, dtype=np.int8)
        found: dict[str, npt.NDArray[Any]]
        if numbers is not None:
            found = {**numbers.sampled(self.counted, values, self.n_items)}
            for name, reason in reasons.items():
                ends = found[f"{name}_interval"]
                found[f"{name}_interval_reason"] = interval_reasons(reason, ends, self.n_items, none, none)
            return found
        n_units = intervals.n_units(self.plan, self.counted, self.n_items, self.n)
        of_units = intervals.of(self.plan, self.counted, values, self.apart, statistics, n_units, self.totals)
        found = {**of_units}
        counted: dict[Any, tuple[Floats, Floats]] = {}  # most statistics are of the same tables
        for name, reason in reasons.items():
            ends, unseen = found[f"{name}_interval"], found.pop(f"{name}_unseen")
            sides = statistics[name].sides
            if sides not in counted:
                counted[sides] = rare_and_apart(self._two_sided(statistics[name]), n_units)
            rare, apart = counted[sides]
            level = few(statistics[name].name, rare, apart, pooled=self.n > n_units)
            found[f"{name}_interval_reason"] = interval_reasons(reason, ends, n_units, level, unseen)
        return found

    def _two_sided(self, statistic: OfTable) -> list[npt.NDArray[Any]]:
        """Tables (..., criterion or 1, other, A, B, part, L, L) behind a statistic."""
        if self.macro:
            return [np.expand_dims(np.moveaxis(one, -6, -3), -7) for one in statistic.sides(self.table)]
        return [one[..., None, :, :] for one in statistic.sides(self.table)]

    def named(self, found: Mapping[str, npt.NDArray[Any]], trailing: int = 0) -> dict[str, npt.NDArray[Any]]:
        """What :meth:`sampled` gave, on the result's dims and with reasons as text."""
        out = {}
        for name, array in found.items():
            placed_array = self.on_dims(array, trailing + int(name.endswith("_interval")))
            out[name] = texts(placed_array) if name.endswith("_reason") else placed_array
        return out


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
    tables = Tables(intervals.counting, plan, counted)
    in_numbers = {} if numbers is None else numbers.evaluated(counted)
    of_costs: list[dict[str, tuple[Floats, Codes, Ints]]] = []
    sampled: list[dict[str, npt.NDArray[Any]]] = []
    for matrix in weights.values():
        statistics = {name: coefficient(name, matrix, plan.scale.scores) for name in names}
        found = {}
        for name, statistic in statistics.items():
            value, reason = in_numbers[name] if name in in_numbers else statistic.value(tables.table)
            found[name] = tables.settled(value, reason, min_overlap)
        of_costs.append(found)
        if intervals.sampling.method is not None:
            values = {name: value for name, (value, _, _) in found.items()}
            reasons = {name: reason for name, (_, reason, _) in found.items()}
            sampled.append(tables.sampled(intervals, values, reasons, statistics, numbers))
    by_costs = int("" not in weights)
    out: dict[str, Any] = {}
    included = []
    for name in names:
        parts = zip(*(found[name] for found in of_costs), strict=True)
        value, reason, n_included = (_beside(part, by_costs) for part in parts)
        out[name] = tables.on_dims(value, by_costs)
        out[f"{name}_reason"] = texts(tables.on_dims(reason, by_costs))
        included.append(tables.on_dims(n_included, by_costs))
    for name in sampled[0] if sampled else ():
        array = _beside([one[name] for one in sampled], by_costs, before=int(name.endswith("_interval")))
        out |= tables.named({name: array}, by_costs)
    out |= tables.counts() | _of_the_protocol(tables)
    if macro:
        out["n_criteria"] = np.full_like(out["n"], tables.table.shape[-6])
        out["n_criteria_included"] = np.stack(included, axis=-1)
    return out


def _beside(parts: Sequence[npt.NDArray[Any]], by_costs: int, before: int = 0) -> npt.NDArray[Any]:
    """Along the costs where they have names, before so many last axes; otherwise the only part."""
    return np.stack(parts, axis=-1 - before) if by_costs else parts[0]


def _of_the_protocol(tables: Tables) -> dict[str, npt.NDArray[Any]]:
    """Counts and rates that exist under some protocols, scales and references only."""
    counting, plan, counted = tables.counting, tables.plan, tables.counted
    out: dict[str, npt.NDArray[Any]] = {}
    changed = counting.changed(plan, counted)
    if changed is not None:
        changed = changed if plan.aggregate is None else changed.sum(-4, keepdims=True)
        each_pair = (*changed.shape[:-2], *tables.n.shape[-2:])
        out["n_extraction_changed"] = tables.on_dims(np.broadcast_to(changed, each_pair))
    return out | tables.ties() | tables.rates()


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

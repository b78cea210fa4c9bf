"""The numbers of ranges from what the pass counted: values, ends, counts, intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from xjudge.columns import criterion_weights
from xjudge.errors import Reason
from xjudge.labelled._bounds_ranges import Ends, Route, covered, n_open
from xjudge.labelled._common import texts
from xjudge.labelled._evaluation import Placing, Tables, averaged
from xjudge.labelled._intervals import Intervals
from xjudge.labelled._pass import Pass, Plan
from xjudge.labelled._sampling import Sampling
from xjudge.statistics.bounds import (
    Range,
    breakdown_with_reason,
    category_breakdown,
    category_range_at_share,
    range_at_share_with_reason,
)
from xjudge.statistics.identified import resampled_intervals
from xjudge.statistics.resample import undefined_share

__all__ = ["Bounds", "overturned"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int8]


def _counts_and_values(
    tables: Tables, names: Sequence[str], weights: Floats | None, open_cases: Ints
) -> dict[str, Any]:
    """Counts, and the statistics on covered cases."""
    out: dict[str, Any] = {}
    for name in names:
        value, reason, _ = tables.settled(*covered(name, weights).value(tables.table))
        out[name] = tables.on_dims(value)
        out[f"{name}_reason"] = texts(tables.on_dims(reason))
    out |= tables.counts()
    out["n_unresolved"] = tables.on_dims(tables.over_criteria(open_cases))
    for name, rate in tables.rates().items():
        out.setdefault(name, rate)  # of all covered pairs; a statistic of that name may be an average
    return out | tables.ties()


class _Merged(Intervals):
    """Units that contribute alike are one, with the sum of their multiplicities.

    A multinomial over units is one over the merged units, so the law is the same; there are few of them,
    however many items there are, and their order does not depend on that of the items.
    """

    instead = "interval=None or resample='clusters' (coordinate `cluster`)"

    def _rows(
        self, plan: Plan, source: str, slot: Any, place: tuple[int, int, int, int], own: Ints, total: int
    ) -> tuple[Floats, Ints]:
        rows, multiplicities = super()._rows(plan, source, slot, place, own, total)
        if source != "units":
            return rows, multiplicities
        if plan.aggregate == "micro" and self.sampling.resample != "items+criteria":
            rows = rows.sum(1, keepdims=True)  # which is what a replicate does, too late to merge
        alike, which = np.unique(rows.reshape(len(rows), -1), axis=0, return_inverse=True)
        merged = np.zeros(len(alike), dtype=np.int64)
        np.add.at(merged, which.ravel(), multiplicities)
        return alike.reshape(-1, *rows.shape[1:]), merged


class Bounds:
    """Ranges of statistics at shares, with what sampling does to them.

    Parameters
    ----------
    counting : Pass
    plan, opened : Plan
        By exclusion, and with the unresolved cases.
    routes : mapping
        Where the range of each statistic comes from.
    weights : ndarray, optional
        Of kappa.
    shares : sequence of float
        Shares of the unresolved cases that are adversarial.
    sampling : Sampling
    drawn : sequence of str
        The statistics whose ends are resampled.
    many : bool
        Whether shares are a dim of the result.
    """

    def __init__(
        self,
        counting: Pass,
        plan: Plan,
        opened: Plan,
        routes: Mapping[str, Route],
        weights: Floats | None,
        shares: Sequence[float],
        sampling: Sampling,
        drawn: Sequence[str],
        *,
        many: bool,
    ) -> None:
        self.counting, self.plan, self.opened, self.routes = counting, plan, opened, routes
        self.weights, self.shares, self.sampling, self.many = weights, shares, sampling, many
        self.drawn = [] if sampling.method is None else list(drawn)
        self.place = Placing(counting, plan)
        made: dict[Plan, _Merged] = {}
        self.intervals: dict[str, _Merged] = {}
        in_clusters = self.drawn and sampling.resample == "clusters"
        self.n_clusters = len(counting.view.groups("cluster")[1]) if in_clusters else 0
        for name in self.drawn:
            route = routes[name]
            if route.plan not in made:
                made[route.plan] = _Merged(route.counting, sampling)
            self.intervals[name] = made[route.plan]

    @property
    def law(self) -> str:
        """Of the resamples; of all of them, as any that has too many distinct items draws for all."""
        return next((one.law for one in self.intervals.values() if one.law != "multinomial"), "multinomial")

    def trailing(self, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Dims after those of the sides, by variable."""
        by_share = ("max_share",) if self.many else ()
        out: dict[str, tuple[str, ...]] = {"n_criteria_included": ("statistic",)}
        for name in names:
            out |= {f"{name}_{end}": by_share for end in ("range_kind", "range_reason", "undefined")}
            out |= {
                f"{name}_{end}": (*by_share, "bound") for end in ("range", "range_interval", "value_interval")
            }
        return out

    def made(self, counted: list[Any]) -> dict[str, Any]:
        """Everything of the result, by variable."""
        by_vote = self.counting.sides.kind == "majority"
        names = list(self.routes)
        route = self.routes[names[0]] if by_vote else Route(self.counting, self.opened, _no_ends)
        tables = Tables(self.counting, self.plan, counted)
        out = _counts_and_values(tables, names, self.weights, n_open(route, counted))
        included = []
        for name in names:
            found, n_included = self._ranges(name, counted, tables.eligible)
            out |= found
            included.append(n_included)
        if self.plan.aggregate == "macro":
            out["n_criteria"] = np.full_like(out["n"], self.plan.n_criteria)
            out["n_criteria_included"] = np.stack(included, axis=-1)
        return out

    def _ranges(self, name: str, counted: list[Any], eligible: Ints) -> tuple[dict[str, Any], Ints]:
        """The range of one statistic at every share, with intervals where it is drawn."""
        route, place = self.routes[name], self.place
        raw = route.counting.raw(route.plan, counted)
        apart = route.plan.collapse(raw)
        table = place.joined(apart)
        at_shares = [self._at_share(route, table, one, eligible) for one in self.shares]
        lower, upper, sharp, reason = (
            np.stack(part, axis=-1) for part in zip(*(e for e, _ in at_shares), strict=True)
        )
        out = {
            f"{name}_range": np.stack([lower, upper], axis=-1),
            f"{name}_range_kind": np.where(sharp, "sharp", "outer"),
            f"{name}_range_reason": texts(reason),
        }
        if name in self.drawn:
            totals = place.over_criteria(raw.sum((-2, -1)))
            units = np.broadcast_to(self._n_units(counted, eligible), lower.shape[:-1])
            out |= self._sampled(name, counted, apart, totals, lower, upper, units)
        n_included = at_shares[int(np.argmax(self.shares))][1]
        return {key: self._on_dims(key, array) for key, array in out.items()}, place.on_dims(n_included)

    def _on_dims(self, key: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Place an array (..., criterion, other, A, B, share[, bound])."""
        bound = int(key.endswith(("_range", "_interval")))
        if self.many:
            return self.place.on_dims(array, 1 + bound)
        return self.place.on_dims(array[..., 0, :] if bound else array[..., 0], bound)

    def _at_share(self, route: Route, table: Ints, one: float, eligible: Ints) -> tuple[Ends, Ints]:
        ends = route.ends(table, one)
        reason = np.where(
            (ends.reason == Reason.NO_OVERLAP) & (eligible > 0), np.int8(Reason.NO_JOINT_ANSWERS), ends.reason
        )
        lower, _, _ = self.place.averaged(ends.lower, reason)
        upper, mean_reason, included = self.place.averaged(ends.upper, reason)
        sharp = ends.sharp
        if self.plan.aggregate == "macro":
            sharp = (sharp | (reason != 0)).all(-4, keepdims=True)
            # a criterion that cannot say what follows the covered cases is not just left out
            unknown = (reason == Reason.NO_COVERED_CASE).any(-4, keepdims=True)
            mean_reason = np.where(unknown, np.int8(Reason.NO_COVERED_CASE), mean_reason)
        defined = mean_reason == 0
        return (
            Ends(np.where(defined, lower, np.nan), np.where(defined, upper, np.nan), sharp, mean_reason),
            included,
        )

    def _n_units(self, counted: list[Any], eligible: Ints) -> Ints:
        """Sampling units behind the ends; where criteria are pooled those with a covered pair."""
        if self.sampling.resample == "criteria":
            return np.array(self.plan.n_criteria)
        if self.sampling.resample == "clusters":
            return np.array(self.n_clusters)
        cases = self.place.over_criteria(eligible)
        items = self.counting.items(self.plan, counted)
        return cases if items is None or self.sampling.resample == "decisions" else np.minimum(items, cases)

    def _sampled(
        self,
        name: str,
        counted: list[Any],
        apart: Ints,
        totals: Ints,
        lower: Floats,
        upper: Floats,
        units: Ints,
    ) -> dict[str, Floats]:
        """Intervals of the ends at every share, from resamples that both ends share."""
        route, level = self.routes[name], self.sampling.level
        statistics, values = {}, {}
        for position, one in enumerate(self.shares):
            for end, value in (("lower", lower), ("upper", upper)):
                statistics[f"{end} {position}"] = route.end(one, upper=end == "upper")
                values[f"{end} {position}"] = value[..., position]
        drawn = self.intervals[name].replicates(route.plan, counted, values, apart, statistics, totals)
        whole, single, undefined = [], [], []
        for position in range(len(self.shares)):
            low, high = drawn[f"lower {position}"], drawn[f"upper {position}"]
            none = np.isnan(lower[..., position])
            found = resampled_intervals(lower[..., position], upper[..., position], low, high, units, level)
            whole.append(np.stack(found.of_range, axis=-1))
            single.append(np.stack(_reachable(name, self.weights, *found.of_value), axis=-1))
            undefined.append(np.where(none, np.nan, undefined_share(low)))
        return {
            f"{name}_range_interval": np.stack(whole, axis=-2),
            f"{name}_value_interval": np.stack(single, axis=-2),
            f"{name}_undefined": np.stack(undefined, axis=-1),
        }


def _no_ends(table: npt.NDArray[Any], share: float) -> Ends:
    raise TypeError("only the counts of this route are of use")


def _reachable(name: str, weights: Floats | None, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """Cut an interval where the statistic ends: weighted kappa has no lower limit."""
    least = {"kappa": -1.0 if weights is None else -np.inf, "phi": -1.0}.get(name, 0.0)
    return np.maximum(lower, least), np.minimum(upper, 1.0)


# -------------------------------------------------------------------------------------------------- breakdown


def overturned(
    counting: Pass,
    plan: Plan,
    opened: Plan,
    counted: list[Any],
    statistic: str,
    weights: Floats | None,
    thresholds: Floats,
    *,
    many: bool,
) -> dict[str, Any]:
    """Breakdown shares at thresholds, with counts and the statistic on the covered cases."""
    place = Tables(counting, plan, counted)
    route = Route(counting, opened, _no_ends)
    out = _counts_and_values(place, [statistic], weights, n_open(route, counted))
    table = place.joined(opened.collapse(counting.raw(opened, counted)))
    if plan.aggregate == "macro":
        shares = criterion_weights(counting.view, plan.resolved.protocol)
        least, reason = _of_the_mean(table, statistic, weights, thresholds, shares)
        nothing = (place.eligible == 0).all(-4, keepdims=True)
    else:
        cells = table[..., None, :, :]
        if plan.scale.n_categories == 2:
            least, reason = breakdown_with_reason(cells, statistic, thresholds)
        else:
            own = weights if statistic == "kappa" else None
            least, reason = category_breakdown(cells, statistic, thresholds, weights=own)
        nothing = place.eligible == 0
    reason = np.where(nothing[..., None], np.int8(Reason.NO_OVERLAP), reason)
    if not many:
        return {
            "breakdown": place.on_dims(least[..., 0]),
            "breakdown_reason": texts(place.on_dims(reason[..., 0])),
        } | out
    return {
        "breakdown": place.on_dims(least, 1),
        "breakdown_reason": texts(place.on_dims(reason, 1)),
    } | out


_HALVINGS = 54
_FEWER_HALVINGS = 30
"""Where each takes a search."""
_WHOLE = float(np.nextafter(1.0, 0.0))
"""The share at which everything is adversarial and still real-valued."""


def _real_valued(table: Ints, statistic: str, weights: Floats | None, share: Floats) -> Range:
    """Range at shares below 1, for any number of categories."""
    if table.shape[-1] == 3:
        return range_at_share_with_reason(table, statistic, share)
    found = category_range_at_share(
        table, statistic, share, weights=weights if statistic == "kappa" else None
    )
    return Range(found.lower, found.upper, found.reason)


def _of_the_mean(
    table: Ints, statistic: str, own: Floats | None, thresholds: Floats, weights: Floats
) -> tuple[Floats, Codes]:
    """Breakdown of a mean over criteria: its lower end falls with the one share that all of them have.

    The criteria are those with a value where no case is adversarial; ``table`` is (..., criterion, other, A,
    B, L + 1, L + 1), what comes back (..., 1, other, A, B, threshold).
    """
    start = _real_valued(table, statistic, own, np.zeros(1))
    mean, reason, _ = averaged(weights, start.lower, start.reason)
    uncovered = (start.reason == Reason.NO_COVERED_CASE).any(-4, keepdims=True)
    reason = np.where(uncovered, np.int8(Reason.NO_COVERED_CASE), reason)[..., None]
    spread_out = table[None]

    def lower(share_: Floats) -> Floats:
        """Lower ends (threshold, ..., 1, other, A, B) at as many shares."""
        found = _real_valued(spread_out, statistic, own, share_).lower
        return averaged(weights, found, np.broadcast_to(start.reason, found.shape))[0]

    claim = thresholds.reshape((-1, *(1,) * mean.ndim))
    low, high = np.zeros((len(thresholds), *mean.shape)), np.full((len(thresholds), *mean.shape), _WHOLE)
    false, stands = ~(mean >= claim), lower(high) >= claim
    for _ in range(_HALVINGS if table.shape[-1] == 3 else _FEWER_HALVINGS):
        middle = (low + high) / 2
        holds = lower(middle) >= claim
        low, high = np.where(holds, middle, low), np.where(holds, high, middle)
    share_found = np.moveaxis(np.where(false, np.nan, np.where(stands, np.inf, high)), 0, -1)
    false, stands = (np.moveaxis(x, 0, -1) for x in (false, stands))
    answer = np.where(false, Reason.ALREADY_FALSE, np.where(stands, Reason.CANNOT_BE_OVERTURNED, 0))
    reason = np.where(reason == 0, answer, reason).astype(np.int8)
    told = (reason == 0) | (reason == Reason.CANNOT_BE_OVERTURNED)
    return np.where(told, share_found, np.nan), reason

"""Standard errors and sampling intervals of agreement, by method and sampling unit.

Three sources of variability, each from what the pass counted:

* *cells*: one pair per unit and table, so the table is the sample; its cells are resampled or linearised.
* *moments*: pairs of one item are pooled, so items are the units; delta-method variances from sums of
  squares of the items' influences, which are quadratic forms in the second moments of their contributions.
* *units*: patterns of whole items, clusters, or criteria, with their contributions; they are resampled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from xjudge.columns import criterion_weights
from xjudge.errors import ProtocolError
from xjudge.labelled._pass import Pass, Plan
from xjudge.labelled._results import share
from xjudge.labelled._sampling import Sampling, transform
from xjudge.statistics.coefficients import evaluate
from xjudge.statistics.gradients import gradient
from xjudge.statistics.resample import (
    Interval,
    acceleration,
    bca_interval,
    delta_interval,
    multinomial_blocks,
    percentile_interval,
    studentized_interval,
    two_stage_weights,
    undefined_share,
    wilson_interval,
)
from xjudge.statistics.scores import SCORE_STATISTICS, evaluate_scores, score_gradient
from xjudge.statistics.units import Cells, Patterns, cluster_sums, contributions, patterns, second_moments

__all__ = ["Intervals", "OfTable", "coefficient"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_HELD = 1 << 22
"""Two-stage weights held at a time."""


@dataclass(frozen=True)
class OfTable:
    """A statistic of tables (..., L, R), as intervals need it.

    Parameters
    ----------
    value : callable
        From tables to values and reasons, both (...).
    slope : callable
        From tables to the derivatives by each count (..., L, R); unchanged by a common factor of the counts.
    """

    value: Callable[[npt.ArrayLike], tuple[Floats, npt.NDArray[np.int8]]]
    slope: Callable[[npt.ArrayLike], Floats]


def coefficient(name: str, weights: Floats | None, scores: Floats | None = None) -> OfTable:
    """A coefficient of two raters with its agreement weights, or a statistic of the categories' scores."""
    if name in SCORE_STATISTICS:
        return OfTable(
            lambda table: evaluate_scores(name, table, scores),
            lambda table: score_gradient(name, table, scores),
        )
    return OfTable(lambda table: evaluate(name, table, weights), lambda table: gradient(name, table, weights))


class Intervals:
    """Asks the pass for what intervals need, and makes them of it.

    Parameters
    ----------
    counting : Pass
        Requests are added to it.
    sampling : Sampling
    joint : bool
        Whether all estimates must share their resamples, so that they can be compared: whole items are
        then drawn even where a table alone would do.
    """

    def __init__(self, counting: Pass, sampling: Sampling, *, joint: bool = False) -> None:
        self.counting, self.sampling, self.joint = counting, sampling, joint
        self._asked: dict[Any, int] = {}
        if sampling.method is None:
            return
        if sampling.resample == "clusters":
            self.n_clusters = counting.clusters()
        for plan in counting.plans:
            if plan.scores is None:
                self._ask(plan)

    # ----------------------------------------------------------------------------------------- what is needed

    def _source(self, plan: Plan) -> str:
        sampling = self.sampling
        if sampling.resample == "clusters":
            return "clusters"
        if sampling.resample == "criteria":
            return "criteria"
        if sampling.resample == "items+criteria" or (self.joint and sampling.resample == "items"):
            return "units"
        pooled = plan.aggregate == "macro" or (plan.aggregate == "micro" and plan.n_criteria > 1)
        if sampling.resample == "decisions" and plan.aggregate != "macro":
            return "cells"
        if not pooled and self.counting.sides.kind != "pooled":
            return "cells"
        return "units" if sampling.resamples else "moments"

    def _cells(self, plan: Plan) -> Cells:
        return Cells(
            plan.left_targets,
            plan.right_targets,
            (plan.n_left, plan.n_right),
            plan.n_criteria,
            plan.aggregate == "micro" and self.sampling.resample != "clusters",
            self.counting.sides.kind == "pooled",
        )

    def _key(self, plan: Plan) -> tuple[Any, ...]:
        source = self._source(plan)
        if source == "units":  # patterns hold raw codes, whatever the protocol
            return source, plan.left, plan.right
        return source, plan.left, plan.right, self._cells(plan)

    def _ask(self, plan: Plan) -> None:
        source, key = self._source(plan), self._key(plan)
        if source in ("cells", "criteria") or key in self._asked:
            return
        counting = self.counting
        sides: dict[str, Any] = {"left": plan.left, "right": plan.right, **counting.columns()}
        if source == "moments":
            request = second_moments(self._cells(plan), **sides)
        elif source == "clusters":
            request = cluster_sums(self._cells(plan), self.n_clusters, **sides)
        else:
            n = [
                counting.arrays[plan.left].shape[1] if columns is None else len(columns)
                for columns in (sides["left_columns"], sides["right_columns"])
            ]
            request = patterns(**sides, n_columns=(n[0], n[1]))
        self._asked[key] = len(counting.requests)
        counting.requests.append(request)

    # --------------------------------------------------------------------------------------- what is made

    def of(
        self,
        plan: Plan,
        counted: list[Any],
        values: Mapping[str, Floats],
        apart: Ints,
        statistics: Mapping[str, OfTable],
        n_units: Ints,
        totals: Ints,
    ) -> dict[str, Floats]:
        """Standard errors, ends and undefined shares of one protocol.

        Parameters
        ----------
        plan : Plan
        counted : list
            What the pass counted.
        values : mapping
            Estimates by name (..., criterion or 1, other, A, B), NaN where undefined.
        apart : ndarray
            Tables (..., criterion, other, A, B, L, R) of the protocol, criteria apart.
        statistics : mapping
            What each name stands for.
        n_units : ndarray
            Items behind each estimate, for the degrees of freedom.
        totals : ndarray
            All items (or decisions) that may be drawn, with a pair or without.

        Returns
        -------
        dict
            By ``(name, "se" | "interval" | "undefined")`` joined with an underscore; the last axis of
            ``interval`` is the bound.
        """
        table = apart.sum(-6, keepdims=True) if plan.aggregate == "micro" else apart
        source = self._source(plan)
        if source in ("cells", "moments") and not self.sampling.resamples:
            out: dict[str, Floats] = {}
            for name, value in values.items():
                slope = statistics[name].slope(table)
                square = (
                    self._square(plan, counted, slope)
                    if source == "moments"
                    else (table * slope**2).sum((-2, -1))
                )
                se = np.sqrt(np.where(np.isnan(value), np.nan, np.maximum(square, 0)))
                out |= self.from_se(name, value, se, table, n_units)
            return out
        return self._by_units(plan, counted, values, apart, statistics, totals)

    def from_se(
        self, name: str, value: Floats, se: Floats, table: Ints, n_units: npt.ArrayLike
    ) -> dict[str, Floats]:
        """Ends from a standard error; NaN where it is 0 and the method has nothing to go on."""
        if self.sampling.of(name) == "wilson":
            ends = _wilson(value, se, _denominator(name, table, value.shape), self.sampling.level)
        else:
            ends = delta_interval(
                value,
                np.where(se > 0, se, np.nan),
                self.sampling.level,
                transform=transform(name),
                degrees=np.asarray(n_units) - 1,
            )
        return {f"{name}_se": se, f"{name}_interval": _bounds(ends)}

    def _square(self, plan: Plan, counted: list[Any], slope: Floats) -> Floats:
        """Sum over items of the squared influence, from second moments."""
        moments = self._counted(plan, counted).astype(np.float64)  # (..., other, A, B, D, D)
        known = np.where(np.isnan(slope), 0.0, slope)
        if plan.aggregate == "macro":
            known = known * self._portions(plan, slope)[..., None, None]
        by_criterion = np.moveaxis(known, -6, -3)  # (..., other, A, B, criterion, L, L)
        flat = by_criterion.reshape((*by_criterion.shape[:-2], -1))
        if plan.aggregate is None:  # every criterion with its own block of the moments
            n, size = flat.shape[-2:]
            blocks = moments.reshape((*moments.shape[:-2], n, size, n, size))
            own = np.einsum("...gcgd->...gcd", blocks)
            return np.moveaxis(np.einsum("...c,...cd,...d->...", flat, own, flat), -1, -4)
        whole = flat.reshape((*flat.shape[:-2], -1))
        return np.einsum("...c,...cd,...d->...", whole, moments, whole)[..., None, :, :, :]

    def _portions(self, plan: Plan, slope: Floats) -> Floats:
        """Share of each criterion (..., criterion, other, A, B) in a macro average."""
        weight = criterion_weights(self.counting.view, plan.resolved.protocol)[:, None, None, None]
        weight = weight * ~np.isnan(slope).any((-2, -1))
        portion = share(weight, weight.sum(-4, keepdims=True))
        return np.where(np.isnan(portion), 0.0, portion)

    def _counted(self, plan: Plan, counted: list[Any]) -> Any:
        return self.counting.cases.of(plan.resolved.protocol, counted[self._asked[self._key(plan)]])

    # --------------------------------------------------------------------------------------------- by units

    def _by_units(
        self,
        plan: Plan,
        counted: list[Any],
        values: Mapping[str, Floats],
        apart: Ints,
        statistics: Mapping[str, OfTable],
        totals: Ints,
    ) -> dict[str, Floats]:
        """Estimate by estimate: its units, and what the method makes of them."""
        shape = next(iter(values.values())).shape
        ends = ("se", "undefined") if self.sampling.resamples else ("se",)
        out = {f"{name}_{end}": np.full(shape, np.nan) for name in values for end in ends}
        out |= {f"{name}_interval": np.full((*shape, 2), np.nan) for name in values}
        for at, estimate, rows, multiplicities in self._estimates(
            plan, counted, values, apart, statistics, totals
        ):
            for key, value in estimate.made(rows, multiplicities).items():
                out[key][at] = value
        return out

    def _estimates(
        self,
        plan: Plan,
        counted: list[Any],
        values: Mapping[str, Floats],
        apart: Ints,
        statistics: Mapping[str, OfTable],
        totals: Ints,
    ) -> Iterator[tuple[tuple[int, ...], _Estimate, Floats, Ints]]:
        """Every estimate that is defined: where it stands, and the units behind it."""
        shape = next(iter(values.values())).shape
        source = self._source(plan)
        held = None if source in ("cells", "criteria") else self._counted(plan, counted)
        for index in np.ndindex(shape[:-4]):
            for criterion, other, a, b in np.ndindex(shape[-4:]):
                at = (*index, criterion, other, a, b)
                known = {name: float(value[at]) for name, value in values.items()}
                if all(np.isnan(value) for value in known.values()):
                    continue
                own = apart[index][:, other, a, b]
                own = own[criterion : criterion + 1] if plan.aggregate is None else own
                slot = None if held is None else held[index]
                place = criterion, other, a, b
                rows, multiplicities = self._rows(plan, source, slot, place, own, int(totals[at]))
                yield at, _Estimate(self, plan, own, statistics, known), rows, multiplicities

    def replicates(
        self,
        plan: Plan,
        counted: list[Any],
        values: Mapping[str, Floats],
        apart: Ints,
        statistics: Mapping[str, OfTable],
        totals: Ints,
    ) -> dict[str, Floats]:
        """Replicates (replicate, ...) of every estimate; jointly drawn where ``joint`` was asked for."""
        shape = next(iter(values.values())).shape
        out = {name: np.full((self.sampling.n_resamples, *shape), np.nan) for name in values}
        for at, estimate, rows, multiplicities in self._estimates(
            plan, counted, values, apart, statistics, totals
        ):
            for name, drawn in estimate.replicates(rows, multiplicities).items():
                np.moveaxis(out[name], 0, -1)[at] = drawn
        return out

    def _rows(
        self, plan: Plan, source: str, slot: Any, place: tuple[int, int, int, int], own: Ints, total: int
    ) -> tuple[Floats, Ints]:
        """Contributions (unit, criterion, L L) and multiplicities of the units behind one estimate.

        Criteria stay apart here even where they are pooled: what is pooled is summed in the replicate.
        """
        criterion, other, a, b = place
        size = own.shape[-2] * own.shape[-1]
        if source == "cells":
            cells = own.sum(0).reshape(-1)  # and the units without a pair, which may be drawn too
            rows = np.concatenate([np.eye(size), np.zeros((1, size))])[:, None]
            return rows, np.append(cells, total - cells.sum())
        if source == "criteria":
            n = len(own)
            rows = np.zeros((n, n, size))
            rows[np.arange(n), np.arange(n)] = own.reshape(n, size)
            return rows, np.ones(n, dtype=np.int64)
        if source == "clusters":
            sums = slot[:, other, a, b].astype(np.float64)
            rows = sums.reshape((len(sums), -1, size))
            multiplicities = np.ones(len(sums), dtype=np.int64)
        else:
            held: Patterns = slot
            if not held.complete:
                raise ProtocolError(
                    "There are too many distinct items to resample; interval='delta' needs sums only."
                )
            cells = self._cells(plan)._replace(joined=False)
            left, right = (x.reshape((*x.shape[:2], plan.n_criteria, -1))[..., other] for x in held[:2])
            if self.counting.sides.kind == "majority":
                left = left[:, [self.counting.sides.column_of()[b]]]
            elif not cells.pooled:
                left = left[:, a : a + 1]
            counts = contributions(cells, left, right[:, b])
            rows, multiplicities = counts.reshape((len(counts), -1, size)), held.multiplicities
        return (rows[:, criterion : criterion + 1] if plan.aggregate is None else rows), multiplicities


class _Estimate:
    """One estimate of every statistic, and its sampling distribution."""

    def __init__(
        self,
        intervals: Intervals,
        plan: Plan,
        table: Ints,
        statistics: Mapping[str, OfTable],
        values: Mapping[str, float],
    ) -> None:
        self.intervals, self.sampling = intervals, intervals.sampling
        self.table, self.statistics, self.values = table, statistics, values
        self.macro = plan.aggregate == "macro"
        self.criterion_weights = np.ones(len(table))
        if self.macro:
            self.criterion_weights = criterion_weights(intervals.counting.view, plan.resolved.protocol)

    def made(self, rows: Floats, multiplicities: Ints) -> dict[str, Any]:
        """Standard error, ends and undefined share of every statistic."""
        out: dict[str, Any] = {}
        if not self.sampling.resamples:  # clusters, by the delta method
            for name, value in self.values.items():
                influence = self._influence(name, rows)
                se = np.sqrt((multiplicities * influence**2).sum())
                n_units = int(multiplicities.sum())
                out |= self.intervals.from_se(name, np.array(value), se, self.table.sum(0), n_units)
            return out
        replicates: dict[str, list[Floats]] = {name: [] for name in self.values}
        errors: dict[str, list[Floats]] = {name: [] for name in self.values}
        for drawn, tables in self._drawn(rows, multiplicities):
            for name in self.values:
                drawn_values, portion = self._replicate(name, tables)
                replicates[name].append(drawn_values)
                if self.sampling.method == "studentized":
                    errors[name].append(self._error(name, tables, portion, drawn, rows))
        for name in self.values:
            out |= self._ends(name, np.concatenate(replicates[name]), errors[name], rows, multiplicities)
        return out

    def replicates(self, rows: Floats, multiplicities: Ints) -> dict[str, Floats]:
        """Replicates (B,) of every statistic."""
        out: dict[str, list[Floats]] = {name: [] for name in self.values}
        for _, tables in self._drawn(rows, multiplicities):
            for name in self.values:
                out[name].append(self._replicate(name, tables)[0])
        return {name: np.concatenate(parts) for name, parts in out.items()}

    def _drawn(self, rows: Floats, multiplicities: Ints) -> Iterator[tuple[Ints, Floats]]:
        """Blocks of weights (b, unit) and of the tables (b, criterion, L, L) that they add up to."""
        cells = self.table.shape[-2:]
        sampling = self.sampling
        if sampling.resample != "items+criteria":
            flat = rows.reshape((len(rows), -1))
            for drawn in multinomial_blocks(multiplicities, sampling.n_resamples, sampling.seed):
                yield drawn, (drawn @ flat).reshape((len(drawn), -1, *cells))
            return
        items = np.repeat(rows, multiplicities, axis=0)
        present = np.ones(items.shape[:2], dtype=bool)
        size = max(1, _HELD // max(1, present.size))
        seeds = np.random.SeedSequence(sampling.seed).spawn(-(-sampling.n_resamples // size))
        left = sampling.n_resamples
        for seed in seeds:
            drawn = two_stage_weights(present, min(size, left), seed)
            left -= len(drawn)
            yield drawn, np.einsum("big,igc->bgc", drawn, items).reshape((len(drawn), -1, *cells))

    def _replicate(self, name: str, tables: Floats) -> tuple[Floats, Floats]:
        """Values (b,) of resampled tables, and the share (b, criterion) of each criterion in them."""
        if not self.macro:
            value, _ = self.statistics[name].value(tables.sum(1))
            return value, np.ones(tables.shape[:2])
        value, reason = self.statistics[name].value(tables)
        weight = self.criterion_weights * (reason == 0)
        if self.sampling.resample == "criteria":  # a criterion drawn twice counts twice
            own = self.table.sum((-2, -1))
            weight = weight * share(tables.sum((-2, -1)), np.broadcast_to(own, tables.shape[:2]))
            weight = np.where(np.isnan(weight), 0.0, weight)
        portion = share(weight, weight.sum(1, keepdims=True))
        mean = (np.where(reason == 0, value, 0.0) * np.where(np.isnan(portion), 0.0, portion)).sum(1)
        return np.where(np.isnan(portion).all(1), np.nan, mean), portion

    def _slope(self, name: str, tables: Floats, portion: Floats) -> Floats:
        """Slope (b, criterion, L L) of the estimate by each criterion's cells; 0 where undefined."""
        if not self.macro:
            slope = self.statistics[name].slope(tables.sum(1))[:, None]
            slope = np.broadcast_to(slope, tables.shape)
        else:
            slope = self.statistics[name].slope(tables) * portion[..., None, None]
        return np.where(np.isnan(slope), 0.0, slope).reshape((*tables.shape[:2], -1))

    def _influence(self, name: str, rows: Floats) -> Floats:
        tables = self.table[None].astype(np.float64)
        _, portion = self._replicate(name, tables)
        return np.einsum("ugc,gc->u", rows, self._slope(name, tables, portion)[0])

    def _error(self, name: str, tables: Floats, portion: Floats, drawn: Ints, rows: Floats) -> Floats:
        """Standard error (b,) of each replicate, from the influences of its own units."""
        slope = self._slope(name, tables, portion).reshape((len(tables), -1))
        influence = slope @ rows.reshape((len(rows), -1)).T
        return np.sqrt((drawn * influence**2).sum(1))

    def _ends(
        self, name: str, replicates: Floats, errors: list[Floats], rows: Floats, multiplicities: Ints
    ) -> dict[str, Any]:
        level, method, value = self.sampling.level, self.sampling.method, self.values[name]
        defined = replicates[~np.isnan(replicates)]
        se = float(defined.std(ddof=1)) if len(defined) > 1 else np.nan
        if method == "bca":
            accelerate = acceleration(self._influence(name, rows), multiplicities)
            ends = bca_interval(value, replicates, accelerate, level)
        elif method == "studentized":
            se = float(np.sqrt((multiplicities * self._influence(name, rows) ** 2).sum()))
            ends = studentized_interval(value, se, replicates, np.concatenate(errors), level)
        else:
            ends = percentile_interval(replicates, level)
        if np.isnan(value):
            ends = Interval(np.array(np.nan), np.array(np.nan))
        return {
            f"{name}_se": np.nan if np.isnan(value) else se,
            f"{name}_interval": _bounds(ends),
            f"{name}_undefined": undefined_share(replicates),
        }


def _bounds(ends: Interval) -> Floats:
    return np.stack([np.asarray(ends.lower), np.asarray(ends.upper)], axis=-1)


def _denominator(name: str, table: Ints, shape: tuple[int, ...]) -> Floats:
    """Pairs that a share is a share of."""
    if name == "precision":
        total = table[..., 1].sum(-1)
    elif name == "accuracy":
        total = table.sum((-2, -1))
    else:
        total = table[..., int(name == "recall"), :].sum(-1)
    return np.asarray(total if total.shape == shape else total.sum(-4, keepdims=True), dtype=np.float64)


def _wilson(value: Floats, se: Floats, n: Floats, level: float) -> Interval:
    """Wilson interval at the effective number of pairs ``p (1 - p) / se^2``: n itself for simple samples."""
    spread = value * (1 - value)
    effective = np.divide(spread, se**2, out=n.copy(), where=(se > 0) & (spread > 0))
    usable = ~np.isnan(value) & (effective > 0)
    size = np.where(usable, effective, 0.0)
    hits = np.minimum(np.where(usable, value, 0.0) * size, size)
    ends = wilson_interval(hits, size, level)
    return Interval(np.where(usable, ends.lower, np.nan), np.where(usable, ends.upper, np.nan))

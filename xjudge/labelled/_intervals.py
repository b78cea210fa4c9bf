"""Standard errors and sampling intervals of agreement, by method and sampling unit.

Three sources of variability, each from what the pass counted:

* *cells*: one pair per unit and table, so the table is the sample; its cells are resampled or linearised.
* *moments*: pairs of one item are pooled, so items are the units; delta-method variances from sums of
  squares of the items' influences, which are quadratic forms in the second moments of their contributions.
* *units*: patterns of whole items, clusters, or criteria, with their contributions; they are resampled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from xjudge.columns import criterion_weights
from xjudge.labelled._estimate import Estimate, OfTable, from_standard_error
from xjudge.labelled._labels import TooManyItemsError
from xjudge.labelled._pass import Pass, Plan
from xjudge.labelled._results import share
from xjudge.labelled._sampling import Sampling
from xjudge.labelled._together import Placed, made, mirror, replicates
from xjudge.statistics._poisson_sums import poisson_sums
from xjudge.statistics.units import Cells, Patterns, cluster_sums, contributions, patterns, second_moments

__all__ = ["Intervals"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


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

    instead = "interval='delta'"
    """What needs no resamples."""

    def __init__(self, counting: Pass, sampling: Sampling, *, joint: bool = False) -> None:
        self.counting, self.sampling, self.joint = counting, sampling, joint
        self._asked: dict[Any, int] = {}
        self.law = "multinomial"
        if sampling.method is None:
            return
        if sampling.resample == "clusters":
            self.n_clusters = counting.clusters()
        for plan in counting.plans:
            if plan.scores is None:
                self._ask(plan)
        drawn = sampling.method == "percentile" and sampling.resample == "items"
        if drawn and any(self._source(plan) == "units" for plan in counting.plans):
            counting.if_too_many.append(self._draw_by_position)

    def _draw_by_position(self) -> None:
        """Ask for resamples under Poisson weights in the place of patterns."""
        self.law = "poisson"
        self.counting.draw_by_position()
        places = [place for key, place in self._asked.items() if key[0] == "units"]
        for plan in self.counting.plans:
            key = self._key(plan)
            if plan.scores is not None or key[0] != "poisson" or key in self._asked:
                continue
            sides: dict[str, Any] = {"left": plan.left, "right": plan.right, **self.counting.columns()}
            cells, sampling = key[-1], self.sampling
            request = poisson_sums(cells, sampling.n_resamples, sampling.seed, **sides)
            if places:  # patterns are not counted again
                self._asked[key] = places.pop()
                self.counting.requests[self._asked[key]] = request
            else:
                self._asked[key] = len(self.counting.requests)
                self.counting.requests.append(request)

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
        if source == "units" and self.law == "poisson":
            return self.law, plan.left, plan.right, self._cells(plan)._replace(joined=False)
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
            Sampling units behind each estimate (:meth:`n_units`), for the degrees of freedom.
        totals : ndarray
            All items (or decisions) that may be drawn, with a pair or without.

        Returns
        -------
        dict
            By ``(name, "se" | "interval" | "unseen" | "undefined")`` joined with an underscore; the last axis
            of ``interval`` is the bound, and ``unseen`` says where it bounds what was not seen.
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
                out |= from_standard_error(
                    self.sampling,
                    name,
                    statistics[name],
                    value,
                    se,
                    table,
                    n_units,
                    self._macro_weights(plan),
                )
            return out
        return self._by_units(plan, counted, values, apart, statistics, totals)

    def n_units(self, plan: Plan, counted: list[Any], n_items: Ints, pairs: Ints) -> Ints:
        """Sampling units behind each estimate (..., criterion or 1, other, A, B).

        Items with a pair as a rule, clusters with a pair where those are drawn, pairs where decisions are.
        """
        if self.sampling.method is None or self._source(plan) not in ("clusters", "cells"):
            return n_items
        if self._source(plan) == "cells":
            return pairs if self.sampling.resample == "decisions" else n_items
        held = np.asarray(self._counted(plan, counted))  # (..., cluster, other, A, B, D)
        some = held.reshape((*held.shape[:-1], -1, plan.n_left * plan.n_right)).any(-1)
        if plan.aggregate is not None:
            some = some.any(-1, keepdims=True)
        return np.asarray(np.moveaxis(some.sum(-5), -1, -4))

    def _square(self, plan: Plan, counted: list[Any], slope: Floats) -> Floats:
        """Sum over items of the squared influence, from second moments."""
        moments = self._counted(plan, counted).astype(np.float64)  # (..., other, A, B, D, D)
        known = np.where(np.isnan(slope), 0.0, slope)
        weights = self._macro_weights(plan)
        if weights is not None:
            known = known * self._portions(weights, slope)[..., None, None]
        by_criterion = np.moveaxis(known, -6, -3)  # (..., other, A, B, criterion, L, L)
        flat = by_criterion.reshape((*by_criterion.shape[:-2], -1))
        if plan.aggregate is None:  # every criterion with its own block of the moments
            n, size = flat.shape[-2:]
            blocks = moments.reshape((*moments.shape[:-2], n, size, n, size))
            own = np.einsum("...gcgd->...gcd", blocks)
            return np.moveaxis(np.einsum("...c,...cd,...d->...", flat, own, flat), -1, -4)
        whole = flat.reshape((*flat.shape[:-2], -1))
        return np.einsum("...c,...cd,...d->...", whole, moments, whole)[..., None, :, :, :]

    def _macro_weights(self, plan: Plan) -> Floats | None:
        """Weights of the criteria where the protocol averages over them."""
        if plan.aggregate != "macro":
            return None
        return criterion_weights(self.counting.view, plan.resolved.protocol)

    def _portions(self, weights: Floats, slope: Floats) -> Floats:
        """Share of each criterion (..., criterion, other, A, B) in a macro average."""
        weight = weights[:, None, None, None] * ~np.isnan(slope).any((-2, -1))
        portion = share(weight, weight.sum(-4, keepdims=True))
        return np.where(np.isnan(portion), 0.0, portion)

    def _counted(self, plan: Plan, counted: list[Any]) -> Any:
        found = self.counting.cases.of(plan.resolved.protocol, counted[self._asked[self._key(plan)]])
        n_last = {"moments": 2, "clusters": 1}.get(self._source(plan))
        if n_last is None or self.counting.sides.kind != "majority":
            return found
        columns = self.counting.sides.column_of()  # a judged human's own vote is left out of the reference
        sums = np.moveaxis(
            np.asarray(found), (-2 - n_last, -1 - n_last), (0, 1)
        )  # (A, B, ..., other, D[, D])
        own = sums[columns, np.arange(len(columns))][None]
        return np.moveaxis(own, (0, 1), (-2 - n_last, -1 - n_last))

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
        out |= {f"{name}_unseen": np.zeros(shape, dtype=bool) for name in values}
        for at, found in made(self._estimates(plan, counted, values, apart, statistics, totals)):
            for key, value in found.items():
                out[key][at] = value
        if self.counting.sides.kind == "raters":
            for name in values:
                if statistics[name].symmetric:
                    for end in (*ends, "interval", "unseen"):
                        mirror(out[f"{name}_{end}"], -3 if end == "interval" else -2)
        return out

    def _estimates(
        self,
        plan: Plan,
        counted: list[Any],
        values: Mapping[str, Floats],
        apart: Ints,
        statistics: Mapping[str, OfTable],
        totals: Ints,
    ) -> Iterator[Placed]:
        """Every estimate that is defined: where it stands, and the units behind it.

        Of two raters compared with each other, the one after the other is enough: their tables the other way
        round are the transposed ones, and only what is not the same of them is estimated again.
        """
        shape = next(iter(values.values())).shape
        source = self._source(plan)
        held = None if source in ("cells", "criteria") else self._counted(plan, counted)
        macro = self._macro_weights(plan)
        both = self.counting.sides.kind == "raters"
        again = [name for name in values if not statistics[name].symmetric]
        for index in np.ndindex(shape[:-4]):
            for criterion, other, a, b in np.ndindex(shape[-4:]):
                if both and a > b:
                    continue
                at = (*index, criterion, other, a, b)
                back = (*index, criterion, other, b, a) if both else at
                if all(np.isnan(value[at]) and np.isnan(value[back]) for value in values.values()):
                    continue
                own = apart[index][:, other, a, b]
                own = own[criterion : criterion + 1] if plan.aggregate is None else own
                slot = None if held is None else held[index]
                place = criterion, other, a, b
                weighted = None
                if source == "units" and self.law == "poisson":
                    weighted = self._weighted(plan, slot, place, own)
                    rows, multiplicities = np.empty((0, *own.shape)), np.empty(0, dtype=np.int64)
                else:
                    rows, multiplicities = self._rows(plan, source, slot, place, own, int(totals[at]))
                known = {name: float(value[at]) for name, value in values.items()}
                estimate = Estimate(self.sampling, own, statistics, known, macro, weighted)
                one = Placed(at, estimate, rows, multiplicities)
                if not np.isnan([*known.values()]).all():
                    yield one
                known = {name: float(value[back]) for name, value in values.items()}
                if both and a < b and again and not np.isnan([*known.values()]).all():
                    yield one.transposed(back, {name: known[name] for name in again})

    def _weighted(self, plan: Plan, slot: Any, place: tuple[int, int, int, int], own: Ints) -> Floats:
        """Tables (resample, criterion, L, R) that a pass has drawn for one estimate."""
        criterion, other, a, b = place
        majority = self.counting.sides.kind == "majority"
        drawn = slot[other, self.counting.sides.column_of()[b] if majority else a, b]
        tables = drawn.reshape((len(drawn), plan.n_criteria, *own.shape[-2:])).astype(np.float64)
        return tables[:, criterion : criterion + 1] if plan.aggregate is None else tables

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
        for at, found in replicates(self._estimates(plan, counted, values, apart, statistics, totals)):
            for name, drawn in found.items():
                np.moveaxis(out[name], 0, -1)[at] = drawn
        if self.counting.sides.kind == "raters":
            for name in values:
                if statistics[name].symmetric:
                    mirror(out[name], -2)
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
                raise TooManyItemsError.saying(self.instead)
            cells = self._cells(plan)._replace(joined=False)
            left, right = (x.reshape((*x.shape[:2], plan.n_criteria, -1))[..., other] for x in held[:2])
            if self.counting.sides.kind == "majority":
                left = left[:, [self.counting.sides.column_of()[b]]]
            elif not cells.pooled:
                left = left[:, a : a + 1]
            counts = contributions(cells, left, right[:, b])
            rows, multiplicities = counts.reshape((len(counts), -1, size)), held.multiplicities
        return (rows[:, criterion : criterion + 1] if plan.aggregate is None else rows), multiplicities

"""Every estimate of agreement among many raters from what the pass counted: values, counts, intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.columns import criterion_weights
from xjudge.errors import Reason
from xjudge.labelled._common import texts
from xjudge.labelled._ends import from_standard_error
from xjudge.labelled._evaluation import averaged
from xjudge.labelled._level import few, interval_reasons
from xjudge.labelled._rater_intervals import Spread, f_interval, shared_error, unseen_value, value_of
from xjudge.labelled._rater_measures import Measure
from xjudge.labelled._rater_units import Asked
from xjudge.labelled._results import share
from xjudge.statistics.raters import PairKappas, sizes, summed_terms

__all__ = ["Estimates"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int8]


class _Estimated(NamedTuple):
    """What is known of one coefficient before its intervals, each (..., criterion or 1, other)."""

    value: Floats
    reason: Codes
    by_criterion: Floats
    """Values with criteria apart."""
    n: Ints
    n_items: Ints


class Estimates:
    """Every estimate of the call, from what the pass counted."""

    def __init__(
        self,
        asked: Asked,
        measures: Sequence[Measure],
        methods: dict[str, str | None],
        convention: str,
        n_raters: int,
    ) -> None:
        self.asked, self.measures, self.methods, self.convention = asked, measures, methods, convention
        self.n_raters = n_raters
        view = asked.labels.view
        self.n_others = int(np.prod(list(view.others.values())))
        self.aggregate = asked.protocol.aggregate
        self.per_criterion = self.aggregate is None and "criterion" in view.rest
        self.apart = asked.columns.n_criteria if self.aggregate in (None, "macro") else 1
        self.weights = criterion_weights(view, asked.protocol) if self.aggregate == "macro" else np.ones(1)

    def of(self, counted: list[Any]) -> dict[str, Any]:
        """Values, reasons, intervals and counts, on the dims of the result."""
        slots = self.asked.slots(counted).shape
        shape = (*slots, self.apart, self.n_others)
        sized = {name: np.zeros(shape, dtype=np.int64) for name in _COUNTS}
        values = {m.name: np.full(shape, np.nan) for m in self.measures}
        reasons = {m.name: np.zeros(shape, dtype=np.int8) for m in self.measures}
        pairs = np.zeros(shape, dtype=np.int64)
        for index in np.ndindex(slots):
            for criterion, other in np.ndindex(shape[-2:]):
                at = (*index, criterion, other)
                self._count(counted, at, sized)
                for measure in self.measures:
                    cells = self._chosen(self.asked.rows(measure, counted, index, other), criterion)
                    value, reason = value_of(measure, cells)
                    if self.n_raters < 2:
                        reason = int(Reason.ONE_RATER)
                    elif sized["n_eligible"][at] == 0:
                        reason = int(Reason.NO_OVERLAP)
                    values[measure.name][at] = value if reason == 0 else np.nan
                    reasons[measure.name][at] = reason
                    if isinstance(measure.coefficient, PairKappas):
                        pairs[at] = _included(measure.coefficient, cells)
        return self._assembled(counted, slots, values, reasons, sized, pairs)

    def _chosen(self, cells: list[Any], criterion: int) -> list[Any]:
        """Rows behind an estimate: of one criterion, or of all."""
        return cells[criterion : criterion + 1] if self.apart > 1 or self.aggregate is None else cells

    def _count(self, counted: list[Any], at: tuple[int, ...], sized: dict[str, Ints]) -> None:
        *index, criterion, other = at
        for rows in self._chosen(self.asked.units(counted, tuple(index), other), criterion):
            size = sizes(rows.data[:, 0], rows.multiplicities)
            sized["n"][at] += size.n
            sized["n_labels"][at] += size.n_labels
            sized["n_single"][at] += size.n_single
            sized["n_eligible"][at] += rows.n_eligible

    def _assembled(
        self,
        counted: list[Any],
        slots: tuple[int, ...],
        values: dict[str, Floats],
        reasons: dict[str, Codes],
        sized: dict[str, Ints],
        pairs: Ints,
    ) -> dict[str, Any]:
        macro = self.aggregate == "macro"
        counts = {name: count.sum(-2, keepdims=True) if macro else count for name, count in sized.items()}
        n_items = self._items(counted, slots, counts["n"])
        out: dict[str, Any] = {}
        included = []
        for measure in self.measures:
            name = measure.name
            value, reason = values[name], reasons[name]
            if macro:
                mean, why, n_included = averaged(
                    self.weights, value[..., None, None], reason[..., None, None]
                )
                reason = why[..., 0, 0]
                value = np.where(reason == 0, mean[..., 0, 0], np.nan)
                included.append(self._placed(n_included[..., 0, 0]))
            out[name], out[f"{name}_reason"] = self._placed(value), texts(self._placed(reason))
            if self.asked.sampling.method is not None:
                of_one = _Estimated(value, reason, values[name], counts["n"], n_items)
                for end, array in self._intervals(measure, counted, slots, of_one).items():
                    out[f"{name}_{end}"] = self._placed(array, int(end == "interval"))
                out[f"{name}_interval_reason"] = texts(out[f"{name}_interval_reason"])
        out |= {name: self._placed(count) for name, count in counts.items()}
        out["n_items"] = self._placed(n_items)
        out["coverage"] = share(out["n"], out["n_eligible"])
        if any(isinstance(measure.coefficient, PairKappas) for measure in self.measures):
            n_pairs = self.n_raters * (self.n_raters - 1) // 2
            every = np.full(pairs.shape, n_pairs, dtype=np.int64)
            for name, array in (("n_rater_pairs", every), ("n_rater_pairs_included", pairs)):
                out[name] = self._placed(array.sum(-2, keepdims=True) if macro else array)
        if macro:
            out["n_criteria"] = np.full_like(out["n"], self.apart)
            out["n_criteria_included"] = np.stack(included, axis=-1)
        return out

    def _items(self, counted: list[Any], slots: tuple[int, ...], n: Ints) -> Ints:
        """Items with a pairable unit; where nothing is pooled, the pairable units."""
        if not self.asked.pooled:
            return n
        out = np.zeros(n.shape, dtype=np.int64)
        for index in np.ndindex(slots):
            for other in range(self.n_others):
                out[(*index, 0, other)] = self.asked.support(counted, index, other)[1]
        return out

    # ---------------------------------------------------------------------------------------------- intervals

    def _intervals(
        self, measure: Measure, counted: list[Any], slots: tuple[int, ...], known: _Estimated
    ) -> dict[str, npt.NDArray[Any]]:
        """Standard errors, ends, undefined shares and reasons (..., criterion or 1, other)."""
        method = str(self.methods[measure.name])
        shape = known.value.shape
        ends = ("se",) if method in ("delta", "f") else ("se", "undefined")
        out: dict[str, npt.NDArray[Any]] = {end: np.full(shape, np.nan) for end in ends}
        out["interval"] = np.full((*shape, 2), np.nan)
        level, unseen = np.zeros(shape, dtype=np.int8), np.zeros(shape, dtype=bool)
        n_units = known.n_items.copy()
        for index in np.ndindex(slots):
            for criterion, other in np.ndindex(shape[-2:]):
                at = (*index, criterion, other)
                if np.isnan(known.value[at]):
                    continue
                found = self._of_one(measure, method, counted, at, known)
                n_units[at] = found.pop("n_units")
                for key, array in found.items():
                    out[key.removeprefix(f"{measure.name}_")][at] = array
                if known.value[at] == 1 and method in ("delta", "f"):
                    bound = self._bound(measure, counted, at, known, int(n_units[at]))
                    if bound is not None:
                        out["interval"][at], unseen[at] = (bound, 1.0), True
                level[at] = self._level(measure, counted, at, int(n_units[at]))
        out["interval_reason"] = interval_reasons(known.reason, out["interval"], n_units, level, unseen)
        return out

    def _of_one(
        self, measure: Measure, method: str, counted: list[Any], at: tuple[int, ...], known: _Estimated
    ) -> dict[str, Any]:
        """One estimate's standard error and ends, and the sampling units that it has."""
        asked, value = self.asked, float(known.value[at])
        *slot, criterion, other = at
        index = tuple(slot)
        one = criterion if self.aggregate is None else None
        source = asked.source(measure, method)
        # an item is a unit where nothing else is drawn; under "decisions" it is each of its criteria
        n_units = int(known.n[at] if source in ("units", "decisions") else known.n_items[at])
        if method == "f":
            cells = self._chosen(asked.rows(measure, counted, index, other), criterion)
            return f_interval(measure, cells, value, asked.sampling.level) | {"n_units": n_units}
        if source == "shared":
            n_items = asked.support(counted, index, other)
            se, n = shared_error(
                measure,
                asked.shared(counted, index, other),
                (int(n_items[0]), int(n_items[1])),
                self._portion(known, at) if asked.macro else np.empty(0),
                self.convention,
            )
            found = from_standard_error(measure.name, np.array(value), np.array(se), n, asked.sampling)
            return found | {"n_units": n_units}
        sample = asked.sample(measure, source, counted, index, other, one)
        weights = self.weights if asked.macro else np.ones(1)
        spread = Spread(measure, sample, weights, asked.sampling, self.convention)
        if source == "clusters":
            n_units = spread.entering()
        return spread.ends(value, method) | {"n_units": n_units}

    def _portion(self, known: _Estimated, at: tuple[int, ...]) -> Floats:
        """Share of each criterion in a macro average."""
        portion = self.weights * ~np.isnan(known.by_criterion[at[:-2]][:, at[-1]])
        return np.asarray(portion / portion.sum())

    def _bound(
        self, measure: Measure, counted: list[Any], at: tuple[int, ...], known: _Estimated, n_units: int
    ) -> float | None:
        """Lower end where nobody disagrees; ``None`` where numbers are not categories."""
        cells = self.asked.rows(measure, counted, at[:-2], at[-1])
        level = self.asked.sampling.level
        if not self.asked.macro:
            cells = self._chosen(cells, at[-2])
            data, counts = (np.concatenate(part) for part in zip(*cells, strict=True))
            return unseen_value(measure, [(data, counts)], np.ones(1), n_units, level)
        return unseen_value(measure, cells, self._portion(known, at), n_units, level)

    def _level(self, measure: Measure, counted: list[Any], at: tuple[int, ...], n_units: int) -> int:
        """Why an interval may miss its level, from the labels in each category; 0 where it holds."""
        if measure.data == "scores":
            return 0
        rare = apart = n = labels = 0
        cells = self.asked.units(counted, at[:-2], at[-1])
        for rows in cells if self.asked.macro else self._chosen(cells, at[-2]):
            vectors = rows.data[:, 0].astype(np.int64)
            pairable = rows.multiplicities * (vectors.sum(1) >= 2)
            used = pairable @ vectors
            rare, labels = rare + int(used.sum() - used.max()), labels + int(used.sum())
            apart, n = apart + int(pairable @ ((vectors > 0).sum(1) > 1)), n + int(pairable.sum())
        in_units = (rare * n_units / max(labels, 1), apart * n_units / max(n, 1))
        return int(few(measure.name, *in_units, pooled=n > n_units))

    def _placed(self, array: npt.NDArray[Any], trailing: int = 0) -> npt.NDArray[Any]:
        """From (..., criterion or 1, other, *trailing) to the dims of the result."""
        axis = array.ndim - trailing - 1
        others = tuple(self.asked.labels.view.others.values())
        array = array.reshape((*array.shape[:axis], *others, *array.shape[axis + 1 :]))
        return array if self.per_criterion else array.squeeze(axis - 1)


_COUNTS = ("n", "n_labels", "n_single", "n_eligible")


def _included(coefficient: PairKappas, cells: list[tuple[npt.NDArray[Any], Ints]]) -> int:
    """Pairs of raters with a defined kappa."""
    data = np.concatenate([rows for rows, _ in cells])
    counts = np.concatenate([count for _, count in cells])
    return int(coefficient.included(summed_terms(coefficient, data, counts)))

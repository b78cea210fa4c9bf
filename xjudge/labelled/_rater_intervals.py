"""Standard errors and intervals of coefficients of many raters, from samples of units."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from xjudge.labelled._ends import bounds, from_standard_error, resampled_ends
from xjudge.labelled._rater_measures import Measure
from xjudge.labelled._rater_units import Part, Sample
from xjudge.labelled._results import share
from xjudge.labelled._sampling import Sampling
from xjudge.statistics.rater_counts import SharedItems
from xjudge.statistics.raters import (
    ItemStatistic,
    disagreeing_item,
    entering,
    evaluate_alpha_of_scores,
    evaluate_raters,
    from_terms,
    icc,
    influence,
    influence_of_scores,
    summed_terms,
    unseen_units,
)
from xjudge.statistics.resample import Interval, multinomial_blocks, two_stage_weights

__all__ = ["Spread", "f_interval", "shared_error", "unseen_value", "value_of"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_HELD = 1 << 21
"""Weights of rows held at a time."""

_TERMS = 1 << 23
"""Terms of units that are kept from one block of resamples to the next."""


def value_of(measure: Measure, cells: list[tuple[npt.NDArray[Any], Ints]]) -> tuple[float, int]:
    """Value and reason of a coefficient from the rows of some criteria together."""
    data = np.concatenate([rows for rows, _ in cells])
    counts = np.concatenate([count for _, count in cells])
    statistic = measure.of(data)
    if statistic is None:
        value, reason = evaluate_alpha_of_scores(
            data, str(measure.metric), period=measure.period, item_weights=counts
        )
    else:
        value, reason = evaluate_raters(statistic, data, item_weights=counts)
    return float(value), int(reason)


def f_interval(
    measure: Measure, cells: list[tuple[npt.NDArray[Any], Ints]], value: float, level: float
) -> dict[str, Any]:
    """Interval of an intraclass correlation from F distributions, units being independent."""
    data = np.concatenate([rows for rows, _ in cells])
    counts = np.concatenate([count for _, count in cells])
    numbers = data
    if measure.scores is not None:
        numbers = np.where(data >= 0, measure.scores[np.maximum(data, 0)], np.nan)
    found = icc(numbers, str(measure.form), level=level, item_weights=counts)
    ends = Interval(found.lower, found.upper) if not np.isnan(value) else Interval(*np.full((2,), np.nan))
    return {f"{measure.name}_se": np.nan, f"{measure.name}_interval": bounds(ends)}


def unseen_value(
    measure: Measure,
    cells: list[tuple[npt.NDArray[Any], Ints]],
    portion: Floats,
    n_units: int,
    level: float,
) -> float | None:
    """Value with the disagreeing units that a sample without any may have missed.

    Parameters
    ----------
    measure : Measure
    cells : list of (rows, multiplicities)
        One table, or one for each criterion of an average.
    portion : ndarray, shape (cell,)
        Share of each table in the average.
    n_units : int
        Sampling units behind the estimate; one that disagrees does so in all that it has.
    level : float

    Returns
    -------
    float or None
        ``None`` where numbers are not categories.
    """
    total = 0.0
    for (data, counts), part in zip(cells, portion.tolist(), strict=True):
        if part == 0:
            continue
        statistic = measure.of(data)
        once = None if statistic is None else disagreeing_item(statistic, data, counts)
        if statistic is None or once is None:
            return None
        n = float(counts @ (statistic.n_labels(data) >= 2))
        amount = unseen_units(level) * n / max(n_units, 1)
        sums = summed_terms(statistic, data, counts.astype(np.float64)) + amount * once
        total += part * float(statistic.value(sums)[0])
    return total


def shared_error(
    measure: Measure, shared: SharedItems, n_items: tuple[int, int], portion: Floats, convention: str
) -> tuple[float, int]:
    """Standard error with items as units whose criteria are pooled, and how many items enter.

    ``portion`` is the share of each criterion in a macro average, empty where criteria are one table.
    """
    statistic = measure.coefficient
    assert statistic is not None
    psi = np.zeros(len(shared.data))
    groups = [shared.criterion == g for g in range(len(portion))] if len(portion) else [slice(None)]
    for place, group in enumerate(groups):
        own = influence(
            statistic, shared.data[group], item_weights=shared.multiplicities[group], convention=convention
        )
        part = portion[place] if len(portion) else 1.0
        psi[group] = np.where(part > 0, own * part, 0.0)
    single = bool(entering(statistic, np.eye(1, shared.data.shape[1], dtype=np.int64), convention).any())
    n = n_items[0] if single else n_items[1]
    square = float((shared.n_pairs * psi[shared.first] * psi[shared.second]).sum())
    return _root(square, n), n


def _root(square: float, n: int) -> float:
    """Standard error from a sum of squared influences of n units."""
    if n < 2 or np.isnan(square):
        return np.nan
    return float(np.sqrt(max(square, 0.0) * n / (n - 1)))


class Spread:
    """The sampling distribution of one estimate.

    Parameters
    ----------
    measure : Measure
    sample : Sample
    weights : ndarray, shape (part,)
        Of the criteria that are averaged; one where there is one table.
    sampling : Sampling
    convention : {"delta", "gwet"}
    """

    def __init__(
        self, measure: Measure, sample: Sample, weights: Floats, sampling: Sampling, convention: str
    ) -> None:
        self.measure, self.sample, self.sampling = measure, sample, sampling
        self.weights, self.convention = weights, convention
        self.parts = [_PartOf(measure, part, len(sample.multiplicities)) for part in sample.parts]

    def ends(self, value: float, method: str) -> dict[str, Any]:
        """Standard error, ends and undefined share of the estimate."""
        name, sampling = self.measure.name, self.sampling
        psi = self._influence() if method != "percentile" else None
        if method == "delta":
            assert psi is not None
            n = self.entering()
            square = float((self.sample.multiplicities * psi**2).sum())
            return from_standard_error(name, np.array(value), np.array(_root(square, n)), n, sampling)
        replicates, errors = [], []
        if self.sample.sums is not None:
            statistic = self.measure.coefficient
            assert statistic is not None
            found = np.stack([from_terms(statistic, sums).value for sums in self.sample.sums], axis=1)
            replicates.append(self._mean(found, self.weights * ~np.isnan(found))[0])
        for drawn in self._drawn():
            weights = drawn.astype(np.float64)
            found, portion = self._averaged(weights)
            replicates.append(found)
            if method == "studentized":
                own = np.zeros(weights.shape)
                for part, share_of in zip(self.parts, portion.T, strict=True):
                    own += np.where(share_of[:, None] > 0, part.influence(weights), 0.0) * share_of[:, None]
                errors.append(np.sqrt((drawn * np.where(np.isnan(own), 0.0, own) ** 2).sum(1)))
        return resampled_ends(
            name,
            method,
            value,
            np.concatenate(replicates),
            np.concatenate(errors) if errors else None,
            psi,
            self.sample.multiplicities,
            sampling,
        )

    def _drawn(self) -> Iterator[Ints]:
        """Blocks of weights (b, unit)."""
        sampling, sample = self.sampling, self.sample
        if sample.sums is not None:
            return
        n_rows = sum(len(part.data) for part in sample.parts)
        size = max(1, _HELD // max(1, n_rows, len(sample.multiplicities)))
        if sample.cells is None:
            yield from multinomial_blocks(
                sample.multiplicities, sampling.n_resamples, sampling.seed, block=size
            )
            return
        present = np.ones(sample.cells, dtype=bool)
        seeds = np.random.SeedSequence(sampling.seed).spawn(-(-sampling.n_resamples // size))
        left = sampling.n_resamples
        for seed in seeds:
            drawn = two_stage_weights(present, min(size, left), seed)
            left -= len(drawn)
            yield drawn.reshape((len(drawn), present.size))

    def _averaged(self, weights: Floats) -> tuple[Floats, Floats]:
        """Values (b,) for weights (b, unit), and the share (b, part) of each part in them."""
        whole_criteria = self.sampling.resample == "criteria" and len(self.parts) > 1
        drawn = np.ones((1, weights.shape[1])) if whole_criteria else weights
        value = np.stack([part.value(drawn) for part in self.parts], axis=1)
        weight = self.weights * ~np.isnan(value)
        if whole_criteria:  # one that is drawn twice is the same twice, and counts twice
            value, weight = np.broadcast_to(value, weights.shape), weight * weights
        return self._mean(value, weight)

    @staticmethod
    def _mean(value: Floats, weight: Floats) -> tuple[Floats, Floats]:
        """Weighted means (b,) of values (b, part), and the share of each part in them."""
        portion = share(weight, np.broadcast_to(weight.sum(1, keepdims=True), weight.shape))
        portion = np.where(np.isnan(portion), 0.0, portion)
        mean = (portion * np.where(np.isnan(value), 0.0, value)).sum(1)
        return np.where(weight.sum(1) > 0, mean, np.nan), portion

    def _influence(self) -> Floats:
        """Influence (unit,) of one unit of each kind."""
        whole = self.sample.multiplicities[None].astype(np.float64)
        _, portion = self._averaged(whole)
        out = np.zeros(len(self.sample.multiplicities))
        for part, of_part in zip(self.parts, portion[0], strict=True):
            if of_part > 0:
                out += of_part * part.own_influence(self.sample.multiplicities, self.convention)
        return out

    def entering(self) -> int:
        """Sampling units that enter the coefficient."""
        enters = np.zeros(len(self.sample.multiplicities), dtype=bool)
        for part in self.parts:
            enters |= part.entering(self.convention)
        return int(self.sample.multiplicities[enters].sum())


class _PartOf:
    """One table's coefficient as a function of the weights of the sampling units."""

    def __init__(self, measure: Measure, part: Part, n_units: int) -> None:
        self.measure, self.part, self.n_units = measure, part, n_units
        self.statistic = measure.of(part.data)
        self._kept: Floats | None = None

    def value(self, weights: Floats) -> Floats:
        """Values (b,) for weights (b, unit); NaN where undefined."""
        if self.statistic is None:
            rows = weights[:, self.part.unit] * self.part.count
            return evaluate_alpha_of_scores(
                self.part.data, str(self.measure.metric), period=self.measure.period, item_weights=rows
            ).value
        return from_terms(self.statistic, self._sums(self.statistic, weights)).value

    def influence(self, weights: Floats) -> Floats:
        """Influence (b, unit) of the sampling units for weights (b, unit)."""
        if self.statistic is None:
            rows = weights[:, self.part.unit] * self.part.count
            own = influence_of_scores(
                self.part.data, str(self.measure.metric), period=self.measure.period, item_weights=rows
            )
            return self._by_unit(own.T).T
        gradient = self.statistic.gradient(self._sums(self.statistic, weights))
        out = np.zeros(weights.shape)
        for terms, places in self._terms(self.statistic):
            own = gradient @ terms.T
            if places is None:
                out += own
            else:
                for row, added in zip(out, own, strict=True):
                    row += np.bincount(places, weights=added, minlength=self.n_units)
        return out

    def own_influence(self, multiplicities: Ints, convention: str) -> Floats:
        """Influence (unit,) in the sample itself, by the convention."""
        rows = multiplicities[self.part.unit] * self.part.count
        if self.statistic is None:
            own = influence_of_scores(
                self.part.data, str(self.measure.metric), period=self.measure.period, item_weights=rows
            )
        else:
            own = influence(self.statistic, self.part.data, item_weights=rows, convention=convention)
        return self._by_unit(own)

    def entering(self, convention: str) -> npt.NDArray[np.bool_]:
        """Units (unit,) with a row that enters the coefficient."""
        if self.statistic is None:
            enters = (~np.isnan(self.part.data)).sum(1) >= 2
        else:
            enters = entering(self.statistic, self.part.data, convention)
        out = np.zeros(self.n_units, dtype=bool)
        out[self.part.unit[enters & (self.part.count > 0)]] = True
        return out

    def _by_unit(self, rows: Floats) -> Floats:
        """Rows (row, ...), times how often they stand in it, summed over the rows of each unit."""
        from scipy.sparse import csr_array

        n = len(self.part.unit)
        into = csr_array(
            (self.part.count.astype(np.float64), (self.part.unit, np.arange(n))), shape=(self.n_units, n)
        )
        return np.asarray(into @ rows)

    def _sums(self, statistic: ItemStatistic, weights: Floats) -> Floats:
        total: Floats | None = None
        for terms, places in self._terms(statistic):
            own = (weights if places is None else weights[:, places]) @ terms
            total = own if total is None else total + own
        assert total is not None
        return total

    def _terms(self, statistic: ItemStatistic) -> Iterator[tuple[Floats, npt.NDArray[np.intp] | None]]:
        """Terms (unit, T) summed over the rows of units; or of some rows, and whose they are."""
        data, unit, count = self.part.data, self.part.unit, self.part.count
        width = max(1, statistic.width(data.shape[1]))
        if self._kept is not None:
            yield self._kept, None
        elif max(len(data), self.n_units) * width <= _TERMS:
            self._kept = self._by_unit(statistic.terms(data))
            yield self._kept, None
        else:  # row by row, a block at a time
            step = max(1, _TERMS // width)
            for start in range(0, len(data), step):
                rows = slice(start, start + step)
                yield statistic.terms(data[rows]) * count[rows, None], unit[rows]

"""One estimate and its sampling distribution: standard error and ends of what its units add up to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

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

__all__ = ["Estimate", "OfTable", "coefficient", "from_standard_error"]

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


class Estimate:
    """One estimate of every statistic, and its sampling distribution.

    Parameters
    ----------
    sampling : Sampling
    table : ndarray
        Tables (criterion, L, R) behind the estimate.
    statistics : mapping
        What each name stands for.
    values : mapping
        The estimates, NaN where undefined.
    macro_weights : ndarray, optional
        Weights (criterion,) where the estimate is the mean over criteria.
    """

    def __init__(
        self,
        sampling: Sampling,
        table: Ints,
        statistics: Mapping[str, OfTable],
        values: Mapping[str, float],
        macro_weights: Floats | None,
    ) -> None:
        self.sampling, self.table, self.statistics, self.values = sampling, table, statistics, values
        self.macro_weights = macro_weights

    def made(self, rows: Floats, multiplicities: Ints) -> dict[str, Any]:
        """Standard error, ends and undefined share of every statistic."""
        out: dict[str, Any] = {}
        if not self.sampling.resamples:  # clusters, by the delta method
            for name, value in self.values.items():
                influence = self._influence(name, rows)
                se = np.sqrt((multiplicities * influence**2).sum())
                n_units = int(multiplicities.sum())
                out |= from_standard_error(
                    self.sampling, name, np.array(value), se, self.table.sum(0), n_units
                )
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
        if self.macro_weights is None:
            value, _ = self.statistics[name].value(tables.sum(1))
            return value, np.ones(tables.shape[:2])
        value, reason = self.statistics[name].value(tables)
        weight = self.macro_weights * (reason == 0)
        if self.sampling.resample == "criteria":  # a criterion drawn twice counts twice
            own = self.table.sum((-2, -1))
            weight = weight * share(tables.sum((-2, -1)), np.broadcast_to(own, tables.shape[:2]))
            weight = np.where(np.isnan(weight), 0.0, weight)
        portion = share(weight, weight.sum(1, keepdims=True))
        mean = (np.where(reason == 0, value, 0.0) * np.where(np.isnan(portion), 0.0, portion)).sum(1)
        return np.where(np.isnan(portion).all(1), np.nan, mean), portion

    def _slope(self, name: str, tables: Floats, portion: Floats) -> Floats:
        """Slope (b, criterion, L L) of the estimate by each criterion's cells; 0 where undefined."""
        if self.macro_weights is None:
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


def from_standard_error(
    sampling: Sampling, name: str, value: Floats, se: Floats, table: Ints, n_units: npt.ArrayLike
) -> dict[str, Floats]:
    """Ends from a standard error; NaN where it is 0 and the method has nothing to go on."""
    if sampling.of(name) == "wilson":
        ends = _wilson(value, se, _denominator(name, table, value.shape), sampling.level)
    else:
        ends = delta_interval(
            value,
            np.where(se > 0, se, np.nan),
            sampling.level,
            transform=transform(name),
            degrees=np.asarray(n_units) - 1,
        )
    return {f"{name}_se": se, f"{name}_interval": _bounds(ends)}


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

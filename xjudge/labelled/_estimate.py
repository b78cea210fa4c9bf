"""One estimate and its sampling distribution: standard error and ends of what its units add up to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.labelled._results import share
from xjudge.labelled._sampling import PROPORTIONS, Sampling, transform
from xjudge.statistics.coefficients import evaluate
from xjudge.statistics.gradients import gradient
from xjudge.statistics.raters import disagreeing_pair, unseen_units
from xjudge.statistics.resample import (
    Interval,
    acceleration,
    bca_interval,
    delta_interval,
    percentile_interval,
    studentized_interval,
    undefined_share,
    wilson_interval,
)
from xjudge.statistics.scores import SCORE_STATISTICS, evaluate_scores, score_gradient

__all__ = ["Estimate", "OfTable", "Unseen", "coefficient", "from_standard_error"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class Unseen(NamedTuple):
    """Whether a table is silent on how far an estimate may lie, and what one more unit could say."""

    holds: Bools
    """Shape (...): nothing in the table moves the estimate, for want of a disagreement."""
    units: Callable[[], tuple[Floats, ...]]
    """Makes a unit more towards each end that may move, as cells (..., L, R) that sum to 1."""


def _itself(table: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
    return [table]


@dataclass(frozen=True)
class OfTable:
    """A statistic of tables (..., L, R), as intervals need it.

    Parameters
    ----------
    value : callable
        From tables to values and reasons, both (...).
    slope : callable
        From tables to the derivatives by each count (..., L, R); unchanged by a common factor of the counts.
    name : str
        Of the coefficient that it is, or compares.
    unseen : callable, optional
        From tables to :class:`Unseen`, where a table without a disagreement is the extreme.
    sides : callable, optional
        From tables to the tables (..., L, L) of two raters behind it; by default the table itself.
    symmetric : bool
        Whether it is the same of the transposed table.
    """

    value: Callable[[npt.ArrayLike], tuple[Floats, npt.NDArray[np.int8]]]
    slope: Callable[[npt.ArrayLike], Floats]
    name: str = ""
    unseen: Callable[[npt.NDArray[Any]], Unseen] | None = None
    sides: Callable[[npt.NDArray[Any]], list[npt.NDArray[Any]]] = _itself
    symmetric: bool = False


_NOT_EXTREME = frozenset(
    {
        "class_recall_gap",
        "marginal_mismatch",
        "mean_error",
        "lower_limit_of_agreement",
        "upper_limit_of_agreement",
    }
)
"""Statistics that a table without a disagreement does not bring to an end of their range."""


_OF_ONE_SIDE = frozenset(
    {
        "precision",
        "recall",
        "specificity",
        "balanced_accuracy",
        "class_recall_gap",
        "mean_error",
        "lower_limit_of_agreement",
        "upper_limit_of_agreement",
    }
)
"""Coefficients that are others of the transposed table."""


def coefficient(name: str, weights: Floats | None, scores: Floats | None = None) -> OfTable:
    """A coefficient of two raters with its agreement weights, or a statistic of the categories' scores."""

    def unseen(table: npt.NDArray[Any]) -> Unseen:
        off = ~np.eye(table.shape[-1], dtype=bool) if weights is None else weights < 1
        return Unseen((table * off).sum((-2, -1)) == 0, lambda: (disagreeing_pair(table, off),))

    def slope(table: npt.ArrayLike) -> Floats:
        in_scores = name in SCORE_STATISTICS
        return score_gradient(name, table, scores) if in_scores else gradient(name, table, weights)

    def value(table: npt.ArrayLike) -> tuple[Floats, npt.NDArray[np.int8]]:
        in_scores = name in SCORE_STATISTICS
        return evaluate_scores(name, table, scores) if in_scores else evaluate(name, table, weights)

    return OfTable(
        value,
        slope,
        name,
        None if name in _NOT_EXTREME else unseen,
        symmetric=name not in _OF_ONE_SIDE,  # weights are symmetric
    )


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
    weighted : ndarray, optional
        Tables (resample, criterion, L, R) of resamples that a pass has drawn.
    """

    def __init__(
        self,
        sampling: Sampling,
        table: Ints,
        statistics: Mapping[str, OfTable],
        values: Mapping[str, float],
        macro_weights: Floats | None,
        weighted: Floats | None = None,
    ) -> None:
        self.sampling, self.table, self.statistics, self.values = sampling, table, statistics, values
        self.macro_weights, self.weighted = macro_weights, weighted

    def linear(self, rows: Floats, multiplicities: Ints) -> dict[str, Any]:
        """Standard error and ends of every statistic by the delta method."""
        out: dict[str, Any] = {}
        for name, value in self.values.items():
            influence = self._influence(name, rows)
            se = np.sqrt((multiplicities * influence**2).sum())
            n_units = int(multiplicities[rows.any((1, 2))].sum())
            table = self.table if self.macro_weights is not None else self.table.sum(0, keepdims=True)
            found = from_standard_error(
                self.sampling,
                name,
                self.statistics[name],
                np.full((1, 1, 1, 1), value),
                np.full((1, 1, 1, 1), se),
                table[:, None, None, None],
                np.full((1, 1, 1, 1), n_units),
                self.macro_weights,
            )
            out |= {key: array[0, 0, 0, 0] for key, array in found.items()}
        return out

    def replicate(self, name: str, tables: Floats) -> tuple[Floats, Floats]:
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
        _, portion = self.replicate(name, tables)
        return np.einsum("ugc,gc->u", rows, self._slope(name, tables, portion)[0])

    def error(self, name: str, tables: Floats, portion: Floats, drawn: Ints, rows: Floats) -> Floats:
        """Standard error (b,) of each replicate, from the influences of its own units."""
        slope = self._slope(name, tables, portion).reshape((len(tables), -1))
        influence = slope @ rows.reshape((len(rows), -1)).T
        return np.sqrt((drawn * influence**2).sum(1))

    def ends(
        self, name: str, replicates: Floats, errors: Floats | None, rows: Floats, multiplicities: Ints
    ) -> dict[str, Any]:
        """Standard error, ends and undefined share of a statistic from its replicates."""
        level, method, value = self.sampling.level, self.sampling.method, self.values[name]
        defined = replicates[~np.isnan(replicates)]
        se = float(defined.std(ddof=1)) if len(defined) > 1 else np.nan
        if method == "bca":
            accelerate = acceleration(self._influence(name, rows), multiplicities)
            ends = bca_interval(value, replicates, accelerate, level)
        elif method == "studentized":
            assert errors is not None
            se = float(np.sqrt((multiplicities * self._influence(name, rows) ** 2).sum()))
            ends = studentized_interval(value, se, replicates, errors, level)
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
    sampling: Sampling,
    name: str,
    statistic: OfTable,
    value: Floats,
    se: Floats,
    table: Ints,
    n_units: npt.NDArray[Any],
    macro_weights: Floats | None,
) -> dict[str, Any]:
    """Ends from a standard error; where it is 0, what is not in the sample says how far they may lie.

    Parameters
    ----------
    sampling : Sampling
    name : str
        Of the statistic in the result.
    statistic : OfTable
    value, se, n_units : ndarray, shape (..., criterion or 1, other, A, B)
        Estimates, standard errors, and the sampling units behind them.
    table : ndarray, shape (..., criterion, other, A, B, L, R)
        Criteria apart only where they are averaged or results.
    macro_weights : ndarray, optional
        Weights (criterion,) where the estimate is the mean over criteria.

    Returns
    -------
    dict
        ``se``, ``interval`` and ``unseen``, each after the name and an underscore; the last says where the
        ends are a bound on what was not seen.
    """
    unseen = np.zeros(value.shape, dtype=bool)
    if sampling.of(name) == "wilson":
        ends = _wilson(value, se, _units_of_share(name, table, value.shape, n_units), sampling.level)
        return {f"{name}_se": se, f"{name}_interval": _bounds(ends), f"{name}_unseen": unseen}
    ends = delta_interval(
        value, np.where(se > 0, se, np.nan), sampling.level, transform=transform(name), degrees=n_units - 1
    )
    other = ends
    if name in PROPORTIONS:
        unseen |= np.isfinite(value) & (se == 0) & (n_units > 0)
        if unseen.any():
            other = _wilson(value, se, _units_of_share(name, table, value.shape, n_units), sampling.level)
    elif statistic.unseen is not None:
        silent = statistic.unseen(table)
        holds = silent.holds if macro_weights is None else silent.holds.all(-4, keepdims=True)
        unseen |= np.isfinite(value) & holds & (n_units > 0)
        if unseen.any():
            units = silent.units()
            other = _bound(statistic, units, value, table, n_units, macro_weights, sampling.level)
    ends = Interval(*(np.where(unseen, b, a) for a, b in zip(ends, other, strict=True)))
    return {f"{name}_se": se, f"{name}_interval": _bounds(ends), f"{name}_unseen": unseen}


def _bound(
    statistic: OfTable,
    units: tuple[Floats, ...],
    value: Floats,
    table: Ints,
    n_units: npt.NDArray[Any],
    macro_weights: Floats | None,
    level: float,
) -> Interval:
    """Ends with the units that a sample in which nothing disagrees may have missed."""
    pairs = table.sum((-2, -1))
    each = np.divide(pairs, n_units, out=np.zeros(pairs.shape), where=np.asarray(n_units) > 0)
    amount = unseen_units(level) * each[..., None, None]
    moved = [statistic.value(table + amount * unit)[0] for unit in units]
    if macro_weights is not None:
        defined = statistic.value(table)[1] == 0
        weight = macro_weights[:, None, None, None] * defined
        portion = share(weight, weight.sum(-4, keepdims=True))
        moved = [np.where(defined, portion * one, 0.0).sum(-4, keepdims=True) for one in moved]
    every = np.stack([value, *moved])
    return Interval(every.min(0), every.max(0))


def _bounds(ends: Interval) -> Floats:
    return np.stack([np.asarray(ends.lower), np.asarray(ends.upper)], axis=-1)


def _units_of_share(name: str, table: Ints, shape: tuple[int, ...], n_units: npt.NDArray[Any]) -> Floats:
    """Sampling units that a share is a share of: as many as the same part of the pairs."""
    if name == "precision":
        part = table[..., 1].sum(-1)
    elif name == "accuracy":
        part = table.sum((-2, -1))
    else:
        part = table[..., int(name == "recall"), :].sum(-1)
    total = table.sum((-2, -1))
    if total.shape != shape:
        part, total = part.sum(-4, keepdims=True), total.sum(-4, keepdims=True)
    return np.asarray(np.divide(part * n_units, total, out=np.zeros(shape), where=total > 0))


def _wilson(value: Floats, se: Floats, n: Floats, level: float) -> Interval:
    """Wilson interval at the effective number of pairs ``p (1 - p) / se^2``: n itself for simple samples.

    Where all pairs are alike there is no standard error to tell, and each of the n units counts once.
    """
    spread = value * (1 - value)
    effective = np.divide(spread, se**2, out=n.copy(), where=(se > 0) & (spread > 0))
    usable = ~np.isnan(value) & (effective > 0)
    size = np.where(usable, effective, 0.0)
    hits = np.minimum(np.where(usable, value, 0.0) * size, size)
    ends = wilson_interval(hits, size, level)
    return Interval(np.where(usable, ends.lower, np.nan), np.where(usable, ends.upper, np.nan))

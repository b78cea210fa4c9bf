"""Numbers held in memory: one estimate of them, and its sampling distribution."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from xjudge.labelled._ends import from_standard_error, resampled_ends
from xjudge.labelled._results import share
from xjudge.labelled._sampling import Sampling
from xjudge.statistics.resample import multinomial_blocks, two_stage_weights
from xjudge.statistics.scores import HeldPairs

__all__ = ["Held", "TwoPairs"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_AT_ONCE = 1 << 21
"""Weights of pairs held at a time."""


class TwoPairs:
    """Two judges against one reference on the same cases: their statistics, and the differences.

    Names end in ``_a``, ``_b`` or ``_difference``.

    Parameters
    ----------
    x, a, b : ndarray of float64, shape (pair,)
    """

    def __init__(self, x: Floats, a: Floats, b: Floats) -> None:
        self.n_pairs = len(x)
        self._judges = {"a": HeldPairs(x, a), "b": HeldPairs(x, b)}

    def evaluate(self, name: str, weights: Floats | None = None) -> tuple[Floats, npt.NDArray[np.int8]]:
        """Value and reason; of a difference the first reason."""
        stem, _, word = name.rpartition("_")
        if word != "difference":
            return self._judges[word].evaluate(stem, weights)
        first, second = (judge.evaluate(stem, weights) for judge in self._judges.values())
        return first.value - second.value, np.where(first.reason != 0, first.reason, second.reason)

    def influence(self, name: str, weights: Floats | None = None) -> Floats:
        """Derivative by each pair's weight."""
        stem, _, word = name.rpartition("_")
        if word != "difference":
            return self._judges[word].influence(stem, weights)
        first, second = (judge.influence(stem, weights) for judge in self._judges.values())
        return first - second


@dataclass(frozen=True, eq=False)
class Held:
    """One estimate from held pairs: parts that are averaged, and the sampling unit of every pair.

    Parameters
    ----------
    parts : list of HeldPairs or TwoPairs
        One, or one for each criterion that is averaged.
    units : list of ndarray of int
        Sampling unit of the pairs of each part.
    n_units : int
        Units that may be drawn, with a pair or without.
    cells : tuple of int
        Items and criteria, for draws in two stages.
    weights : ndarray, shape (part,)
    sampling : Sampling
    """

    parts: list[HeldPairs | TwoPairs]
    units: list[npt.NDArray[np.intp]]
    n_units: int
    cells: tuple[int, int]
    weights: Floats
    sampling: Sampling

    @classmethod
    def of(
        cls,
        left: Floats,
        right: Floats,
        cluster: Ints | None,
        sampling: Sampling,
        weights: Floats,
        macro: bool,
        other: Floats | None = None,
    ) -> Held:
        """From numbers (item, voter, criterion) and (item, 1, criterion); ``other`` is a second judge's."""
        x, y = np.broadcast_arrays(left, right)
        z = y if other is None else np.broadcast_to(other, x.shape)
        n_items, n_voters, n_criteria = x.shape
        item, voter, criterion = (np.asarray(index) for index in np.indices(x.shape))
        if sampling.resample == "criteria":
            unit, n_units = criterion, n_criteria
        elif sampling.resample == "items+criteria":
            unit, n_units = item * n_criteria + criterion, n_items * n_criteria
        elif sampling.resample == "decisions":
            unit, n_units = (item * n_voters + voter) * n_criteria + criterion, x.size
        elif cluster is not None:
            distinct, place = np.unique(cluster, return_inverse=True)
            unit, n_units = np.asarray(place[item]), len(distinct)
        else:
            unit, n_units = item, n_items
        used = ~(np.isnan(x) | np.isnan(y) | np.isnan(z))
        chosen = [used & (criterion == g) for g in range(n_criteria)] if macro else [used]
        parts: list[HeldPairs | TwoPairs] = [
            HeldPairs(x[kept], y[kept]) if other is None else TwoPairs(x[kept], y[kept], z[kept])
            for kept in chosen
        ]
        return cls(parts, [unit[kept] for kept in chosen], n_units, (n_items, n_criteria), weights, sampling)

    def values(self, name: str) -> list[tuple[float, int]]:
        """Value and reason of each part."""
        found = [pairs.evaluate(name) for pairs in self.parts]
        return [(float(value), int(reason)) for value, reason in found]

    def ends(self, name: str, value: float, n_units: int) -> dict[str, Any]:
        """Standard error, ends and undefined share of the estimate."""
        sampling = self.sampling
        method = sampling.of(name)
        whole = np.ones((1, self.n_units))
        _, portion = self._averaged(name, whole)
        influence = self._influence(name, whole, portion)[0]
        if not sampling.resamples:
            n_units = self.n_units if sampling.resample == "clusters" else n_units
            se = np.sqrt((influence**2).sum())
            return from_standard_error(name, np.array(value), se, n_units, sampling)
        replicates, errors = [], []
        for drawn in self._drawn():
            found, portion = self._averaged(name, drawn.astype(np.float64))
            replicates.append(found)
            if method == "studentized":
                own = self._influence(name, drawn.astype(np.float64), portion)
                errors.append(np.sqrt((drawn * np.nan_to_num(own, nan=0.0) ** 2).sum(1)))
        return resampled_ends(
            name,
            method,
            value,
            np.concatenate(replicates),
            np.concatenate(errors) if errors else None,
            influence,
            np.ones(self.n_units, dtype=np.int64),
            sampling,
        )

    def replicates(self, name: str) -> Floats:
        """Values (B,) in the resamples, NaN where undefined."""
        found = [self._averaged(name, drawn.astype(np.float64))[0] for drawn in self._drawn()]
        return np.concatenate(found)

    def _drawn(self) -> Iterator[Ints]:
        """Blocks of weights (b, unit)."""
        sampling = self.sampling
        n_pairs = sum(pairs.n_pairs for pairs in self.parts)
        size = max(1, _AT_ONCE // max(1, n_pairs, self.n_units))
        if sampling.resample != "items+criteria":
            ones = np.ones(self.n_units, dtype=np.int64)
            yield from multinomial_blocks(ones, sampling.n_resamples, sampling.seed, block=size)
            return
        present = np.ones(self.cells, dtype=bool)
        seeds = np.random.SeedSequence(sampling.seed).spawn(-(-sampling.n_resamples // size))
        left = sampling.n_resamples
        for seed in seeds:
            drawn = two_stage_weights(present, min(size, left), seed)
            left -= len(drawn)
            yield drawn.reshape((len(drawn), self.n_units))

    def _averaged(self, name: str, weights: Floats) -> tuple[Floats, Floats]:
        """Values (b,) for weights (b, unit), and the share (b, part) of each part in them."""
        whole_criteria = self.sampling.resample == "criteria" and len(self.parts) > 1
        drawn = np.ones((1, weights.shape[1])) if whole_criteria else weights
        found = [
            pairs.evaluate(name, drawn[:, unit]) for pairs, unit in zip(self.parts, self.units, strict=True)
        ]
        value = np.stack([one for one, _ in found], axis=1)
        weight = self.weights * ~np.isnan(value)
        if whole_criteria:  # one that is drawn twice is the same twice, and counts twice
            value, weight = np.broadcast_to(value, weights.shape), weight * weights
        portion = share(weight, weight.sum(1, keepdims=True))
        portion = np.where(np.isnan(portion), 0.0, portion)
        mean = (portion * np.nan_to_num(value, nan=0.0)).sum(1)
        return np.where(weight.sum(1) > 0, mean, np.nan), portion

    def _influence(self, name: str, weights: Floats, portion: Floats) -> Floats:
        """Influence (b, unit) of the sampling units for weights (b, unit)."""
        from scipy.sparse import csr_array

        out = np.zeros(weights.shape)
        for place, (pairs, unit) in enumerate(zip(self.parts, self.units, strict=True)):
            if not pairs.n_pairs:
                continue
            own = pairs.influence(name, weights[:, unit])
            own = np.where(portion[:, place, None] > 0, own * portion[:, place, None], 0.0)
            into = csr_array(
                (np.ones(len(unit)), (unit, np.arange(len(unit)))), shape=(self.n_units, len(unit))
            )
            out += np.asarray(into @ own.T).T
        return out

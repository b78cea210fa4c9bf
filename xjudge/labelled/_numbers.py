"""Agreement in numbers on a continuous scale: values, standard errors and intervals of one protocol.

Two sources, chosen by what is asked: *moments* of the pairs, sums over items, for all statistics but the
rank correlations with delta intervals; otherwise the numbers are *held*, as they are, and resampled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from xjudge.columns import criterion_weights
from xjudge.labelled._ends import from_standard_error, resampled_ends
from xjudge.labelled._pass import Pass, Plan
from xjudge.labelled._results import share
from xjudge.labelled._sampling import Sampling
from xjudge.statistics.resample import multinomial_blocks, two_stage_weights
from xjudge.statistics.score_counts import ScoreMoments, ScoreRows, score_moments, score_rows
from xjudge.statistics.scores import (
    SCORE_STATISTICS,
    HeldPairs,
    PairMoments,
    evaluate_moments,
    moment_gradient,
)

__all__ = ["Numbers"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Reasons = npt.NDArray[np.int8]

_HELD = 1 << 21
"""Weights of pairs held at a time."""


class Numbers:
    """The statistics of one protocol on a continuous scale.

    Parameters
    ----------
    counting : Pass
        Requests are added to it.
    plan : Plan
    sampling : Sampling
    names : sequence of str
        Statistics of numbers.
    """

    def __init__(self, counting: Pass, plan: Plan, sampling: Sampling, names: Sequence[str]) -> None:
        self.counting, self.plan, self.sampling, self.names = counting, plan, sampling, names
        ranks = any(SCORE_STATISTICS[name].ranks for name in names)
        self.held = ranks or sampling.resamples or sampling.resample == "clusters"
        sides = counting.sides
        assert plan.scores is not None
        if self.held:
            request = score_rows(
                array=plan.scores,
                codes=plan.left,
                columns=(*sides.left, *sides.right),
                n_criteria=plan.n_criteria,
                clusters=sampling.resample == "clusters",
            )
        else:
            request = score_moments(
                array=plan.scores,
                left_columns=sides.left,
                right_columns=sides.right,
                n_criteria=plan.n_criteria,
                aggregate=plan.aggregate,
                pooled=sides.kind == "pooled",
                pairs_apart=sampling.resample == "decisions",
            )
        self._place = len(counting.requests)
        counting.requests.append(request)

    def _counted(self, counted: list[Any]) -> npt.NDArray[np.object_]:
        found = self.counting.cases.of(self.plan.resolved.protocol, counted[self._place])
        return np.asarray(found, dtype=object) if isinstance(found, np.ndarray) else _one(found)

    def evaluated(self, counted: list[Any]) -> dict[str, tuple[Floats, Reasons]]:
        """Value and reason (..., criterion or 1, other, A, B) of every statistic; criteria apart."""
        slots = self._counted(counted)
        if self.held:
            return self._from_rows(slots)
        moments = _stacked(slots)
        out = {}
        for name in self.names:
            value, reason = evaluate_moments(name, moments)
            out[name] = self._parts_apart(value), self._parts_apart(reason)
        return out

    def sampled(self, counted: list[Any], values: Mapping[str, Floats], n_units: Ints) -> dict[str, Floats]:
        """Standard errors, ends and undefined shares (..., criterion or 1, other, A, B)."""
        slots = self._counted(counted)
        if not self.held:
            return self._from_moments(slots, values, n_units)
        shape = next(iter(values.values())).shape
        ends = ("se", "undefined") if self.sampling.resamples else ("se",)
        out = {f"{name}_{end}": np.full(shape, np.nan) for name in values for end in ends}
        out |= {f"{name}_interval": np.full((*shape, 2), np.nan) for name in values}
        for at, estimate in self._estimates(slots, shape):
            for name, value in values.items():
                if np.isnan(value[at]):
                    continue
                for key, found in estimate.ends(name, float(value[at]), int(n_units[at])).items():
                    out[key][at] = found
        return out

    # ------------------------------------------------------------------------------------------------ moments

    def _parts_apart(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """From (..., slot, other, A, B, part) to (..., criterion, other, A, B)."""
        if self.plan.aggregate == "macro":
            return np.moveaxis(array[..., 0, :, :, :, :], -1, -4)
        return array[..., 0]

    def _from_moments(
        self, slots: npt.NDArray[np.object_], values: Mapping[str, Floats], n_units: Ints
    ) -> dict[str, Floats]:
        moments = _stacked(slots)
        second = np.stack([slot[0].second for slot in slots.ravel()])
        second = second.reshape((*slots.shape, *second.shape[1:]))
        out: dict[str, Floats] = {}
        for name, value in values.items():
            slope = moment_gradient(name, moments)  # (..., slot, other, A, B, part, 8)
            slope = self._portions(slope)[..., None] * np.where(np.isnan(slope), 0.0, slope)
            flat = slope.reshape((*slope.shape[:-2], slope.shape[-2] * slope.shape[-1]))
            square = np.einsum("...s,...st,...t->...", flat, second, flat)
            se = np.sqrt(np.where(np.isnan(value), np.nan, np.maximum(square, 0.0)))
            out |= from_standard_error(name, value, se, n_units, self.sampling)
        return out

    def _portions(self, slope: Floats) -> Floats:
        """Share of each part in the average of the parts that are defined; 1 where there is one part."""
        defined = ~np.isnan(slope).any(-1)
        if self.plan.aggregate != "macro":
            return np.asarray(defined, dtype=np.float64)
        weight = self._weights() * defined
        total = np.asarray(weight.sum(-1, keepdims=True))
        return np.asarray(np.where(total > 0, weight / np.where(total > 0, total, 1.0), 0.0))

    def _weights(self) -> Floats:
        return criterion_weights(self.counting.view, self.plan.resolved.protocol)

    # --------------------------------------------------------------------------------------------------- held

    def _from_rows(self, slots: npt.NDArray[np.object_]) -> dict[str, tuple[Floats, Reasons]]:
        sides, n_others = self.counting.sides, int(np.prod(list(self.counting.view.others.values())))
        n_left = 1 if sides.kind == "pooled" else len(sides.left)
        apart = 1 if self.plan.aggregate == "micro" else self.plan.n_criteria
        shape = (*slots.shape, apart, n_others, n_left, len(sides.right))
        out = {name: (np.full(shape, np.nan), np.zeros(shape, dtype=np.int8)) for name in self.names}
        one = (*slots.shape, 1, *shape[-3:]) if self.plan.aggregate == "macro" else shape
        for at, estimate in self._estimates(slots, one):
            for name in self.names:
                for part, (value, reason) in enumerate(estimate.values(name)):
                    place = (*at[:-4], at[-4] + part, *at[-3:])
                    out[name][0][place], out[name][1][place] = value, reason
        return out

    def _estimates(
        self, slots: npt.NDArray[np.object_], shape: tuple[int, ...]
    ) -> Iterator[tuple[tuple[int, ...], _Held]]:
        """Every estimate: where it stands, and the pairs behind it."""
        sides = self.counting.sides
        weights = self._weights() if self.plan.aggregate == "macro" else np.ones(1)
        for index in np.ndindex(slots.shape):
            rows = cast(ScoreRows, slots[index])
            for criterion, other, a, b in np.ndindex(shape[-4:]):
                voters = list(range(len(sides.left))) if sides.kind == "pooled" else [a]
                own = rows.data[..., other]
                left, right = own[:, voters], own[:, [len(sides.left) + b]]
                if self.plan.aggregate is None or self.plan.aggregate == "item":
                    chosen = slice(criterion, criterion + 1)
                    left, right = left[..., chosen], right[..., chosen]
                estimate = _Held.of(
                    left, right, rows.cluster, self.sampling, weights, self.plan.aggregate == "macro"
                )
                yield (*index, criterion, other, a, b), estimate


@dataclass(frozen=True, eq=False)
class _Held:
    """One estimate from held pairs: parts that are averaged, and the sampling unit of every pair.

    Parameters
    ----------
    parts : list of HeldPairs
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

    parts: list[HeldPairs]
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
    ) -> _Held:
        """From numbers (item, voter, criterion) and (item, 1, criterion)."""
        x, y = np.broadcast_arrays(left, right)
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
        used = ~(np.isnan(x) | np.isnan(y))
        chosen = [used & (criterion == g) for g in range(n_criteria)] if macro else [used]
        return cls(
            [HeldPairs(x[kept], y[kept]) for kept in chosen],
            [unit[kept] for kept in chosen],
            n_units,
            (n_items, n_criteria),
            weights,
            sampling,
        )

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

    def _drawn(self) -> Iterator[Ints]:
        """Blocks of weights (b, unit)."""
        sampling = self.sampling
        n_pairs = sum(pairs.n_pairs for pairs in self.parts)
        size = max(1, _HELD // max(1, n_pairs, self.n_units))
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
        value = np.stack([one.value for one in found], axis=1)
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


def _one(content: Any) -> npt.NDArray[np.object_]:
    out = np.empty((), dtype=object)
    out[()] = content
    return out


def _stacked(slots: npt.NDArray[np.object_]) -> PairMoments:
    """Moments of all slots along leading axes."""
    every: list[ScoreMoments] = [slot[0] for slot in slots.ravel()]
    stacked = [np.stack(fields) for fields in zip(*(one.moments for one in every), strict=True)]
    return PairMoments(*(field.reshape((*slots.shape, *field.shape[1:])) for field in stacked))

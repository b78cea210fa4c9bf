"""Agreement in numbers on a continuous scale: values, standard errors and intervals of one protocol.

Two sources, chosen by what is asked: *moments* of the pairs, sums over items, for all statistics but the
rank correlations with delta intervals; otherwise the numbers are *held*, as they are, and resampled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from xjudge.columns import criterion_weights
from xjudge.labelled._ends import from_standard_error
from xjudge.labelled._held import Held
from xjudge.labelled._pass import Pass, Plan
from xjudge.labelled._sampling import Sampling
from xjudge.statistics.score_counts import ScoreMoments, ScoreRows, score_moments, score_rows
from xjudge.statistics.scores import (
    SCORE_STATISTICS,
    PairMoments,
    evaluate_moments,
    moment_gradient,
)

__all__ = ["Numbers"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Reasons = npt.NDArray[np.int8]


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
        sides = counting.sides
        ranks = not sides.pairs and any(SCORE_STATISTICS[name].ranks for name in names)
        clusters = sampling.method is not None and sampling.resample == "clusters"
        self.held = bool(sides.pairs) or ranks or sampling.resamples or clusters
        assert plan.scores is not None
        if self.held:
            right = sides.right
            if sides.pairs:  # a baseline stands where its judge does, and is filled in
                right = tuple(judge for a, b, _ in sides.pairs for judge in (a, a if b is None else b))
            request = score_rows(
                array=plan.scores,
                codes=plan.left,
                columns=(*sides.left, *right),
                n_criteria=plan.n_criteria,
                clusters=clusters,
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

    def replicates(self, counted: list[Any], values: Mapping[str, Floats]) -> dict[str, Floats]:
        """Replicates (replicate, ...) of every estimate; all of them share their resamples."""
        shape = next(iter(values.values())).shape
        out = {name: np.full((self.sampling.n_resamples, *shape), np.nan) for name in values}
        for at, estimate in self._estimates(self._counted(counted), shape):
            for name, value in values.items():
                if not np.isnan(value[at]):
                    np.moveaxis(out[name], 0, -1)[at] = estimate.replicates(name)
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
    ) -> Iterator[tuple[tuple[int, ...], Held]]:
        """Every estimate: where it stands, and the pairs behind it."""
        sides = self.counting.sides
        weights = self._weights() if self.plan.aggregate == "macro" else np.ones(1)
        for index in np.ndindex(slots.shape):
            rows = cast(ScoreRows, slots[index])
            for criterion, other, a, b in np.ndindex(shape[-4:]):
                voters = list(range(len(sides.left))) if sides.kind == "pooled" else [a]
                chosen = slice(None)
                if self.plan.aggregate is None or self.plan.aggregate == "item":
                    chosen = slice(criterion, criterion + 1)
                own = rows.data[..., chosen, other]
                right, second = self._judged(own[:, len(sides.left) :], b)
                estimate = Held.of(
                    own[:, voters],
                    right,
                    rows.cluster,
                    self.sampling,
                    weights,
                    self.plan.aggregate == "macro",
                    second,
                )
                yield (*index, criterion, other, a, b), estimate

    def _judged(self, columns: Floats, place: int) -> tuple[Floats, Floats | None]:
        """Numbers (item, 1, criterion) of the judge at a place, and of whom it is compared with."""
        pairs = self.counting.sides.pairs
        if not pairs:
            return columns[:, [place]], None
        first, second = columns[:, [2 * place]], columns[:, [2 * place + 1]]
        if pairs[place][1] is None:
            second = np.full(first.shape, float(cast(float, pairs[place][2])))
        return first, second


def _one(content: Any) -> npt.NDArray[np.object_]:
    out = np.empty((), dtype=object)
    out[()] = content
    return out


def _stacked(slots: npt.NDArray[np.object_]) -> PairMoments:
    """Moments of all slots along leading axes."""
    every: list[ScoreMoments] = [slot[0] for slot in slots.ravel()]
    stacked = [np.stack(fields) for fields in zip(*(one.moments for one in every), strict=True)]
    return PairMoments(*(field.reshape((*slots.shape, *field.shape[1:])) for field in stacked))

"""Estimates of the same sampling units share their resamples: weights are drawn once for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.labelled._estimate import Estimate
from xjudge.statistics.resample import multinomial_blocks, two_stage_weights

__all__ = ["Placed", "made", "mirror", "replicates"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
At = tuple[int, ...]

_HELD = 1 << 22
"""Two-stage weights held at a time."""

_ROWS = 1 << 27
"""Bytes of contributions that are multiplied side by side; for further estimates weights are drawn again."""

_UNITS = 1 << 14
"""Units whose weights and contributions are multiplied at a time."""


class Placed(NamedTuple):
    """An estimate with its place in the result and what its sampling units contribute.

    Parameters
    ----------
    at : tuple of int
        Where it stands.
    estimate : Estimate
    rows : ndarray, shape (unit, criterion, L R)
        Contributions; without units where a pass has drawn the tables.
    multiplicities : ndarray of int64, shape (unit,)
    """

    at: At
    estimate: Estimate
    rows: Floats
    multiplicities: Ints

    def transposed(self, at: At, values: dict[str, float]) -> Placed:
        """Estimates of the same tables with the raters the other way round."""
        one = self.estimate
        weighted = None if one.weighted is None else one.weighted.swapaxes(-1, -2)
        estimate = Estimate(
            one.sampling, one.table.swapaxes(-1, -2), one.statistics, values, one.macro_weights, weighted
        )
        apart = self.rows.reshape((*self.rows.shape[:2], *one.table.shape[-2:])).swapaxes(-1, -2)
        return Placed(at, estimate, apart.reshape(self.rows.shape), self.multiplicities)


def made(placed: Iterable[Placed]) -> Iterator[tuple[At, dict[str, Any]]]:
    """Standard errors, ends and undefined shares of every estimate, with its place."""
    for group in _groups(placed):
        if not group[0].estimate.sampling.resamples:
            for one in group:
                yield one.at, one.estimate.linear(one.rows, one.multiplicities)
            continue
        taken = _taken(group)
        for one, (values, errors) in zip(group, taken, strict=True):
            found: dict[str, Any] = {}
            for name in one.estimate.values:
                found |= one.estimate.ends(name, values[name], errors[name], one.rows, one.multiplicities)
            yield one.at, found


def replicates(placed: Iterable[Placed]) -> Iterator[tuple[At, dict[str, Floats]]]:
    """Replicates (B,) of every statistic of every estimate, with its place."""
    for group in _groups(placed):
        for one, (values, _) in zip(group, _taken(group), strict=True):
            yield one.at, values


def mirror(array: npt.NDArray[Any], axis: int) -> None:
    """Copy what stands for raters a and b, on ``axis`` and the next, to b and a."""
    apart = np.moveaxis(array, (axis, axis + 1), (0, 1))
    a, b = np.triu_indices(len(apart), k=1)
    apart[b, a] = apart[a, b]


def _groups(placed: Iterable[Placed]) -> Iterator[list[Placed]]:
    """Estimates one after the other that have the same units, as many as are held together."""
    group: list[Placed] = []
    for one in placed:
        if group and not (_alike(group[-1], one) and (len(group) + 1) * one.rows.nbytes <= _ROWS):
            yield group
            group = []
        group.append(one)
    if group:
        yield group


def _alike(first: Placed, second: Placed) -> bool:
    """Whether two estimates have the same sampling units."""
    return (
        second.estimate.weighted is None
        and first.rows.shape == second.rows.shape
        and np.array_equal(first.multiplicities, second.multiplicities)
    )


_Taken = tuple[dict[str, Floats], dict[str, Floats | None]]


def _taken(group: list[Placed]) -> list[_Taken]:
    """Values and, where ends are studentised, standard errors (B,) of every estimate in the resamples."""
    studentized = group[0].estimate.sampling.method == "studentized"
    parts = [({name: [] for name in one.estimate.values}, {}) for one in group]  # type: list[Any]
    for drawn, tables in _drawn(group):
        for one, own, (values, errors) in zip(group, tables, parts, strict=True):
            for name in one.estimate.values:
                value, portion = one.estimate.replicate(name, own)
                values[name].append(value)
                if studentized:
                    error = one.estimate.error(name, own, portion, drawn, one.rows)
                    errors.setdefault(name, []).append(error)
    return [
        (
            {name: np.concatenate(blocks) for name, blocks in values.items()},
            {name: np.concatenate(errors[name]) if name in errors else None for name in values},
        )
        for values, errors in parts
    ]


def _drawn(group: list[Placed]) -> Iterator[tuple[Ints, list[Floats]]]:
    """Blocks of weights (b, unit), and for each estimate the tables (b, criterion, L, R) they add up to."""
    first = group[0]
    sampling = first.estimate.sampling
    if first.estimate.weighted is not None:
        weighted = first.estimate.weighted
        yield np.empty((len(weighted), 0), dtype=np.int64), [weighted]
        return
    cells = [one.estimate.table.shape[-2:] for one in group]
    if sampling.resample != "items+criteria":
        rows = np.concatenate([one.rows.reshape((len(one.rows), -1)) for one in group], axis=1)
        for drawn in multinomial_blocks(first.multiplicities, sampling.n_resamples, sampling.seed):
            tables = np.split(_product(drawn, rows), len(group), axis=1)
            yield (
                drawn,
                [own.reshape((len(drawn), -1, *cell)) for own, cell in zip(tables, cells, strict=True)],
            )
        return
    items = [np.repeat(one.rows, one.multiplicities, axis=0) for one in group]
    present = np.ones(items[0].shape[:2], dtype=bool)
    size = max(1, _HELD // max(1, present.size))
    seeds = np.random.SeedSequence(sampling.seed).spawn(-(-sampling.n_resamples // size))
    left = sampling.n_resamples
    for seed in seeds:
        drawn = two_stage_weights(present, min(size, left), seed)
        left -= len(drawn)
        sums = [np.einsum("big,igc->bgc", drawn, own) for own in items]
        yield (
            drawn,
            [own.reshape((len(drawn), -1, *cell)) for own, cell in zip(sums, cells, strict=True)],
        )


def _product(weights: Ints, rows: Floats) -> Floats:
    """``weights @ rows``, whole numbers, some units at a time."""
    out = np.zeros((len(weights), rows.shape[1]))
    for start in range(0, len(rows), _UNITS):
        part = slice(start, start + _UNITS)
        out += weights[:, part].astype(np.float64) @ rows[part]
    return out

"""Ranges of weighted kappa over the completions of tables with any number of categories.

With disagreement ``d = 1 - w``, kappa is ``1 - Q``, ``Q = N D / E``: ``D = sum d_ab n_ab`` is linear in the
completed table and ``E = sum d_ab r_a c_b`` is bilinear in its margins. ``Q`` is at least ``lam`` on every
completion that defines it iff ``F = N D - lam E`` is nowhere negative (where ``E`` is 0, so is ``D``). Hold
the row margins: ``F`` then is linear in what the rater's open verdicts become, so it is least where all of
those in a row go to one category; likewise the reference's, given the columns. What is left to search:

* the reference's open verdicts (the side with fewer such tables): one category for each column,
* how many of (CA, CA) go to each row; their columns follow like those of the row's other open verdicts.

Where these are few all are tried, and the range is sharp. Where only (CA, CA) is too large its split is put
on a coarse lattice, and ``F`` is bounded between lattice points by its Bernstein coefficients: for a
quadratic on a simplex, the symmetric bilinear form at pairs of corners. Beyond that, the rows that the
reference's open verdicts go to are set apart from what they cost; ``F`` then is concave in the row margins
and its least value lies at one of ``L`` corners. Both give a certified outer range.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["compositions", "kappa_range", "lattice_steps"]

Float = npt.NDArray[np.float64]

_CHUNK = 1 << 18  # entries of the arrays of options held at a time
_SLACK = 1e-12  # what an outer range is widened by, for rounding


class _Open(NamedTuple):
    """A table with unresolved cases taken apart; ``d`` are disagreement costs."""

    fixed: Float  # (L, L)
    by_row: Float  # (L,) rater open, the reference's category known
    by_column: Float  # (L,) reference open, the rater's category known
    both: float
    d: Float

    @property
    def total(self) -> float:
        return float(self.fixed.sum() + self.by_row.sum() + self.by_column.sum() + self.both)

    def swapped(self) -> _Open:
        return _Open(self.fixed.T, self.by_column, self.by_row, self.both, self.d.T)


class _Options(NamedTuple):
    """Points of the search: constants of ``N D`` and ``E``, and what each row adds by category chosen."""

    above: Float  # (points,)
    below: Float  # (points,)
    row_above: Float  # (points, rows, L)
    row_below: Float  # (points, rows, L)


_Chunks = Callable[[], Iterator[_Options]]


def kappa_range(counts: npt.NDArray[Any], weights: Float, max_work: int) -> tuple[float, float, bool]:
    """Both ends of weighted kappa for one table ``(L+1, L+1)``, and whether they are sharp.

    Cells are whole cases, or masses where they are floats: (CA, CA) then is split in real parts.
    """
    L = counts.shape[-1] - 1
    cells = counts.astype(np.float64)
    table = _Open(cells[:L, :L], cells[:L, -1], cells[-1, :L], float(counts[-1, -1]), 1.0 - weights)
    if np.count_nonzero(table.by_column) > np.count_nonzero(table.by_row):
        table = table.swapped()
    entries = L ** np.count_nonzero(table.by_column) * L * L
    splits = _n_splits(table.both, L, whole=np.issubdtype(counts.dtype, np.integer))
    if entries * splits <= max_work:
        every = _every_split(table)
        least, greatest = _extreme_ratio(every, least=True), _extreme_ratio(every, least=False)
        return _kappa_at(greatest), _kappa_at(least), True
    sides = (table, table.swapped())
    below = [_extreme_ratio(_corners_of(side, least=True), least=True) for side in sides]
    above = [_extreme_ratio(_corners_of(side, least=False), least=False) for side in sides]
    steps = lattice_steps(L, max_work // (entries << (L - 1)))
    if steps:
        lattice = _lattice(table, steps)
        below.append(_extreme_ratio(lattice, least=True))
        above.append(_extreme_ratio(lattice, least=False))
    if below[0][1] == 0:  # a corner has the greatest E of all: no completion defines kappa
        return math.nan, math.nan, True
    lower, upper = max(map(_kappa_at, above)), min(map(_kappa_at, below))
    floor = -1.0 if _is_nominal(table.d) else -math.inf
    return max(lower - _SLACK, floor), min(upper + _SLACK, 1.0), False


def _n_splits(both: float, parts: int, *, whole: bool) -> float:
    if both == 0:
        return 1
    return math.comb(int(both) + parts - 1, parts - 1) if whole else math.inf


def _is_nominal(d: Float) -> bool:
    """Whether costs are equal off the diagonal: kappa then is at least -1, since ``p_o >= 2 p_e - 1``."""
    off = d[~np.eye(len(d), dtype=np.bool_)]
    return bool(off.size and (off == off[0]).all() and off[0] > 0)


def _kappa_at(ends: tuple[float, float]) -> float:
    above, below = ends
    return (below - above) / below if below > 0 else (-math.inf if above > 0 else math.nan)


# ------------------------------------------------------------------------------------------ three searches


def _every_split(table: _Open) -> _Chunks:
    """Every vertex of the reference's open verdicts with every split of (CA, CA) over the rows."""
    splits = compositions(int(table.both), len(table.by_row))

    def chunks() -> Iterator[_Options]:
        for rows, cost, free in _rows_reached(table, splits):
            yield _options(table, cost, free, free, rows, rows)

    return chunks


def _lattice(table: _Open, steps: int) -> _Chunks:
    """The same with the split of (CA, CA) real, and pairs of neighbours on a lattice for the points.

    In cumulative counts the lattice is triangulated by simplices whose corners differ by 0 or 1 in each
    coordinate, in one direction (Freudenthal), so every pair of corners of a simplex is tried.
    """
    L = len(table.by_row)
    unit = table.both / steps
    lattice = compositions(steps, L)

    def chunks() -> Iterator[_Options]:
        for step in itertools.product((0, 1), repeat=L - 1):
            shift = np.diff(np.array([0, *step, 0]))
            corner = lattice[(lattice + shift >= 0).all(1)]
            for rows, cost, free in _rows_reached(table, corner * unit):
                moved = shift * unit
                yield _options(table, cost, free, free + moved, rows, rows + moved)

    return chunks


def _rows_reached(table: _Open, splits: Float) -> Iterator[tuple[Float, Float, Float]]:
    """Row margins, cost and cases per row with a free column: vertices crossed with splits, in blocks."""
    L = len(table.by_row)
    moved, cost = _reference_vertices(table)
    base = table.fixed.sum(1) + table.by_row
    at_a_time = max(_CHUNK // (L * L), 1)
    few = max(at_a_time // max(len(splits), 1), 1)
    for i in range(0, len(moved), few):
        for k in range(0, len(splits), at_a_time):
            part = splits[k : k + at_a_time]
            n, m = len(moved[i : i + few]), len(part)
            rows = (base + moved[i : i + few, None] + part).reshape(n * m, L)
            free = np.broadcast_to(table.by_row + part, (n, m, L)).reshape(n * m, L)
            yield rows, np.repeat(cost[i : i + few], m), free


def _options(
    table: _Open, cost: Float, free_v: Float, free_w: Float, rows_v: Float, rows_w: Float
) -> _Options:
    """``N D`` and ``E`` as symmetric bilinear forms of pairs of row margins; of equal ones, the values."""
    N = table.total
    share_v, share_w = rows_v @ table.d, rows_w @ table.d  # what a case in each column adds to E
    return _Options(
        N * ((table.fixed * table.d).sum() + cost),
        (share_v + share_w) / 2 @ (table.fixed.sum(0) + table.by_column),
        N * ((free_v + free_w) / 2)[:, :, None] * table.d,
        (free_v[:, :, None] * share_w[:, None, :] + free_w[:, :, None] * share_v[:, None, :]) / 2,
    )


def _corners_of(table: _Open, *, least: bool) -> _Chunks:
    """Row margins at the corners of what they can be, the cost of getting there set apart."""
    L, N = len(table.by_row), table.total
    reached = float(table.by_column.sum() + table.both)
    rows = table.fixed.sum(1) + table.by_row + reached * np.eye(L)
    share = rows @ table.d
    cheapest = table.d.min(0) if least else table.d.max(0)  # of a case of each column, over the rows
    above = N * ((table.fixed * table.d).sum() + table.by_column @ cheapest)
    row_above = np.concatenate([table.by_row[:, None] * table.d, table.both * cheapest[None]])
    weight = np.append(table.by_row, table.both)
    options = _Options(
        np.full(L, above),
        share @ (table.fixed.sum(0) + table.by_column),
        np.broadcast_to(N * row_above, (L, L + 1, L)),
        weight[None, :, None] * share[:, None, :],
    )
    return lambda: iter((options,))


def _reference_vertices(table: _Open) -> tuple[Float, Float]:
    """Row counts and cost of the reference's open verdicts, all of a column going to one row."""
    L = len(table.by_row)
    moved, cost = np.zeros((1, L)), np.zeros(1)
    for column in np.flatnonzero(table.by_column):
        amount = table.by_column[column]
        moved = (moved[:, None] + amount * np.eye(L)).reshape(-1, L)
        cost = (cost[:, None] + amount * table.d[:, column]).reshape(-1)
    return moved, cost


def compositions(amount: int, parts: int) -> Float:
    """Every way to write ``amount`` as ``parts`` ordered counts, ``(n, parts)``."""
    if parts == 1:
        return np.array([[float(amount)]])
    if parts == 2:
        first = np.arange(amount + 1.0)
        return np.column_stack([first, amount - first])
    blocks = [np.insert(compositions(amount - k, parts - 1), 0, k, axis=1) for k in range(amount + 1)]
    return np.concatenate(blocks)


def lattice_steps(parts: int, most: int) -> int:
    """Return the finest lattice on the simplex with at most so many points; 0 where the corners are more."""
    steps = 0
    while math.comb(steps + parts, parts - 1) <= most:
        steps += 1
    return steps


def _extreme_ratio(chunks: _Chunks, *, least: bool) -> tuple[float, float]:
    """Numerator and denominator of the least or greatest ratio over points and over one option a row.

    Dinkelbach's iteration on all points at once: at the ratio so far, the options and the point that beat it
    most give the next, until none does. A ratio that is undefined at every point comes back as 0 over 0.
    """
    sign = 1.0 if least else -1.0
    best = _first_ratio(chunks, sign)
    while best[1] > 0:
        ratio = best[0] / best[1]
        _, above, below = min(_most_beaten(options, ratio, sign) for options in chunks())
        if below <= 0:
            return (above, 0.0) if above > 0 and not least else best
        if not sign * (above / below) < sign * ratio:
            return best
        best = above, below
    return best


def _most_beaten(options: _Options, ratio: float, sign: float) -> tuple[float, float, float]:
    """Excess, numerator and denominator of the point that beats a ratio most."""
    excess = sign * (options.row_above - ratio * options.row_below)
    chosen = excess.argmin(-1)[..., None]
    constant = sign * (options.above - ratio * options.below)
    reached = constant + np.take_along_axis(excess, chosen, -1).sum((1, 2))
    point = int(reached.argmin())
    above = options.above[point] + np.take_along_axis(options.row_above[point], chosen[point], -1).sum()
    below = options.below[point] + np.take_along_axis(options.row_below[point], chosen[point], -1).sum()
    return float(reached[point]), float(above), float(below)


def _first_ratio(chunks: _Chunks, sign: float) -> tuple[float, float]:
    """Where the search starts: the best of the ratios with the greatest denominator each point has."""
    best = (0.0, 0.0)
    for options in chunks():
        chosen = options.row_below.argmax(-1)[..., None]
        above = options.above + np.take_along_axis(options.row_above, chosen, -1).sum((1, 2))
        below = options.below + np.take_along_axis(options.row_below, chosen, -1).sum((1, 2))
        ratio = np.divide(above, below, out=np.full(above.shape, sign * np.inf), where=below > 0)
        point = int((sign * ratio).argmin())
        if below[point] > 0 and (best[1] == 0 or sign * ratio[point] < sign * best[0] / best[1]):
            best = float(above[point]), float(below[point])
    return best

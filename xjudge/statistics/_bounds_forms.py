"""Ranges of coefficients of many raters over the completions of item-by-category counts.

Every coefficient here is ``1 - Q`` with ``Q = k F / (t' M t)``. ``F = sum_i f_i`` adds up what the raters of
each item disagree, ``t = sum_i b_i n_i`` the labels of all items, with fixed weights: open verdicts change
neither how many labels an item has nor the factor ``k``.

Where the possible ``t`` are few, the least and the greatest ``F`` for each of them is found by adding item
after item (dynamic programming over ``t``), and the range is sharp. Where they are many, ``F`` is bounded by
affine functions of ``t`` (``F >= p't + min_x sum_i (f_i - b_i p'x_i)`` for every price ``p``, a sum over
items of independent choices), ``t' M t`` by its bilinear form on the cells of a lattice, and for the upper
end, where ``t' M t`` is concave, by its tangents: a certified outer range.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from xjudge.statistics._bounds_multi import compositions, lattice_steps
from xjudge.statistics.weights import ordinal_distances

__all__ = ["Form", "form_of", "ordinal_alpha_range", "range_of_form"]

Float = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]

_SLACK = 1e-12  # what an outer range is widened by, for rounding
_LATTICE_POINTS = 400
_LARGEST_SCALE = 2**20  # more label sizes than that: totals become floats, and ranges outer
_TANGENTS = 200
_PRICE_LEVELS = {2: 33, 3: 9, 4: 5, 5: 3, 6: 3}


class _Pattern(NamedTuple):
    """Items with the same counts and as many open verdicts: what each way to close them gives."""

    multiplicity: int
    weight: float  # of a label in ``t``, in units of ``1 / scale``
    added: Int  # (options, L) labels added
    done: Float  # (options, L) labels then
    pairs: int  # what the sum over pairs of labels is divided by

    def within(self, d: Float) -> Float:
        """``f_i`` of each option, (..., options), for distances (..., L, L)."""
        return np.einsum("oa,...ab,ob->...o", self.done, d, self.done) / self.pairs


@dataclass(frozen=True)
class Form:
    """``1 - factor F / (t' M t)``: what is fixed of ``F`` and ``t``, and the patterns that are not.

    ``t`` and its parts are whole in units of ``1 / scale``; ``factor`` takes that into account. Where items
    have too many sizes for such a unit, they are floats, and there is no search.
    """

    factor: float
    matrix: Float
    d: Float
    coincidences: Float  # (L, L) of the items without open verdicts: their part of F is sum(d * it)
    totals: npt.NDArray[Any]
    patterns: tuple[_Pattern, ...]

    @property
    def constant(self) -> bool:
        """Whether ``t' M t`` is the same for every completion."""
        return bool((self.matrix == self.matrix[0, 0]).all())

    @property
    def open_total(self) -> float:
        """Sum of ``t`` over categories that is not fixed."""
        return sum(p.multiplicity * p.weight * int(p.added[0].sum()) for p in self.patterns)

    @property
    def states(self) -> float:
        """How many ``t`` there may be."""
        if not np.issubdtype(self.totals.dtype, np.integer) and not self.constant:
            return math.inf
        return 1 if self.constant else (self.open_total + 1) ** (len(self.totals) - 1)

    @property
    def work(self) -> float:
        """Steps of the dynamic programme, at most."""
        return self.states * max(sum(p.multiplicity * len(p.added) for p in self.patterns), 1)


def form_of(counts: Int, unresolved: Int, statistic: str, d: Float, shares: str) -> Form:
    """Form of a coefficient for one set of items ``(item, L)``, of which one or more has two labels."""
    L = counts.shape[1]
    size = counts.sum(1) + unresolved
    n_pairable = int((size >= 2).sum())
    by_item = statistic == "gwet_ac" or (statistic == "fleiss_kappa" and shares == "item_mean")
    used = size >= (1 if by_item else 2)
    counts, unresolved, size = counts[used], unresolved[used], size[used]
    weight: npt.NDArray[Any] = np.ones(len(size), dtype=np.int64)
    if by_item:
        scale = math.lcm(*(int(m) for m in np.unique(size)))
        weight = scale // size if scale <= _LARGEST_SCALE else 1.0 / size
    total = float((weight * size).sum())  # of t over categories, the same in every completion
    if statistic == "alpha":
        factor, pairs = total - 1.0, np.maximum(size - 1, 1)
    else:
        factor, pairs = total * total / n_pairable, np.maximum(size * (size - 1), 1)
    closed = unresolved == 0
    certain = counts[closed].astype(np.float64)
    patterns = []
    keys, first, multiplicity = np.unique(
        np.column_stack([counts[~closed], unresolved[~closed]]), axis=0, return_index=True, return_counts=True
    )
    for key, i, times in zip(keys, np.flatnonzero(~closed)[first], multiplicity, strict=True):
        added = compositions(int(key[-1]), L).astype(np.int64)
        done = (key[:-1] + added).astype(np.float64)
        patterns.append(_Pattern(int(times), weight[i].item(), added, done, int(pairs[i])))
    return Form(
        factor,
        _expected_form(statistic, d),
        d,
        np.einsum("ia,ib->ab", certain / pairs[closed, None], certain),
        (weight[:, None] * counts).sum(0),
        tuple(patterns),
    )


def _expected_form(statistic: str, d: Float) -> Float:
    """Return ``M`` such that ``t' M t / (sum t)^2`` is the disagreement expected by chance."""
    L = len(d)
    if statistic == "gwet_ac":
        return cast("Float", 1.0 - (L * L - d.sum()) / max(L * (L - 1), 1) * (1.0 - np.eye(L)))
    if statistic == "percent_agreement":
        return np.ones((L, L))
    if statistic == "brennan_prediger":
        return np.full((L, L), float(d.mean()))
    return d


def range_of_form(form: Form, max_work: int) -> tuple[float, float, bool]:
    """Both ends of the coefficient, and whether they are sharp; NaN where no completion defines it."""
    if form.work <= max_work:
        least, greatest, totals = _reachable(form)
        expected = _quadratic(form.matrix, totals)
        use = np.isfinite(least) & (expected > 0)
        if not use.any():
            return math.nan, math.nan, True
        low = form.factor * (least[use] / expected[use]).min()
        high = form.factor * (greatest[use] / expected[use]).max()
        return float(1.0 - high), float(1.0 - low), True
    highest, lowest = _lattice_ends(form, (form.d, form.d), (form.matrix, form.matrix))
    if math.isnan(lowest):
        return math.nan, math.nan, True
    if _concave(form.matrix):
        lowest = max(lowest, _tangent_end(form))
    return 1.0 - highest - _SLACK, min(1.0 - lowest + _SLACK, 1.0), False


def ordinal_alpha_range(counts: Int, unresolved: Int, max_work: int) -> tuple[float, float, bool]:
    """Range of alpha with the ordinal metric, whose distances depend on ``t``.

    Few ``t``: for each, the distances are known and so is the range of ``F``. Many: distances rise with every
    count, so those at the least and the greatest counts of a cell of the lattice bound ``F`` there.
    """
    L = counts.shape[1]
    form = form_of(counts, unresolved, "alpha", 1.0 - np.eye(L), "pooled")
    if L == 2:  # one distance, which cancels
        return range_of_form(form, max_work)
    if form.work * form.states > max_work:
        corners = form.totals + _lattice_cells(form)
        near = ordinal_distances(np.maximum(corners.min(1), form.totals))
        far = ordinal_distances(np.minimum(corners.max(1), form.totals + form.open_total))
        highest, lowest = _lattice_ends(form, (near, far), (near, far))
        if math.isnan(lowest):
            return math.nan, math.nan, True
        return 1.0 - highest - _SLACK, min(1.0 - lowest + _SLACK, 1.0), False
    reached, _, totals = _reachable(form)
    lower, upper = math.nan, math.nan
    for place in zip(*np.nonzero(np.isfinite(reached)), strict=True):
        d = ordinal_distances(totals[place])
        expected = float(_quadratic(d, totals[place]))
        if expected > 0:
            least, greatest, _ = _reachable(replace(form, matrix=d, d=d))
            lower = np.fmin(lower, 1.0 - form.factor * greatest[place] / expected)
            upper = np.fmax(upper, 1.0 - form.factor * least[place] / expected)
    return float(lower), float(upper), True


def _quadratic(matrix: Float, totals: npt.NDArray[np.number]) -> Float:
    t = totals.astype(np.float64)
    value: Float = ((t @ matrix) * t).sum(-1)
    return value


def _reachable(form: Form) -> tuple[Float, Float, Int]:
    """Least and greatest ``F`` for each ``t`` (its first L - 1 categories span the axes), and these ``t``.

    Infinite where no completion has that ``t``. A constant denominator needs no axes.
    """
    L = len(form.totals)
    axes = max(L - 1, 1)
    fixed = float((form.coincidences * form.d).sum())
    least, greatest = np.full((1,) * axes, fixed), np.full((1,) * axes, fixed)
    for pattern in form.patterns:
        shifts = (
            0 * pattern.added[:, :axes] if form.constant else int(pattern.weight) * pattern.added[:, :axes]
        )
        further = int(shifts.max(initial=0))
        options = list(zip(shifts, pattern.within(form.d), strict=True))
        for _ in range(pattern.multiplicity):
            shape = tuple(n + further for n in least.shape)
            down, up = np.full(shape, np.inf), np.full(shape, -np.inf)
            for shift, within in options:
                part = tuple(slice(s, s + n) for s, n in zip(shift, least.shape, strict=True))
                np.minimum(down[part], least + within, out=down[part])
                np.maximum(up[part], greatest + within, out=up[part])
            least, greatest = down, up
    if form.constant:
        anywhere = form.totals + form.open_total * np.eye(1, L, dtype=np.int64)
        return least, greatest, anywhere.reshape(*least.shape, L)
    steps = [axis.astype(np.int64) for axis in np.indices(least.shape)]
    first = form.totals[:-1] + np.stack(steps, axis=-1)
    last = form.totals.sum() + form.open_total - first.sum(-1, keepdims=True)
    return least, greatest, np.concatenate([first, last], axis=-1)


# ----------------------------------------------------------------------------------------------- outer ranges


def _concave(matrix: Float) -> bool:
    """Whether ``t' M t`` is concave among ``t`` with one sum (distances of negative type)."""
    centred = np.eye(len(matrix)) - 1.0 / len(matrix)
    largest = np.linalg.eigvalsh(centred @ matrix @ centred).max()
    return bool(largest <= 1e-12 * np.abs(matrix).max())


def _tangent_end(form: Form) -> float:
    """Return a lower bound of ``Q`` from tangents: with ``s`` any total, ``t'Mt <= 2 s'Mt - s'Ms``.

    The bound so has an affine denominator and is minimised item by item; ``s`` moves toward the minimiser.
    """
    direction = form.totals + form.open_total / len(form.totals)
    best = 0.0
    for step in range(_TANGENTS):
        slope = form.matrix @ direction
        constant = -float(direction @ slope)
        ratio, reached = _least_affine_ratio(form, 2 * slope, constant)
        best = max(best, form.factor * ratio)
        direction = direction + (reached - direction) * 2 / (step + 3)
    return best


def _least_affine_ratio(form: Form, slope: Float, constant: float) -> tuple[float, Float]:
    """Least ``F / (slope't + constant)`` by Dinkelbach's iteration, and the ``t`` that has it.

    The denominator is a tangent of ``t' M t >= 0`` from above, so it is nowhere negative.
    """
    ratio, reached = math.inf, form.totals.astype(np.float64)
    while True:
        above, t = float((form.coincidences * form.d).sum()), form.totals.astype(np.float64)
        for pattern in form.patterns:
            gain = pattern.weight * (pattern.added @ slope)
            within = pattern.within(form.d)
            option = int((-gain if math.isinf(ratio) else within - ratio * gain).argmin())
            above += pattern.multiplicity * float(within[option])
            t = t + pattern.multiplicity * pattern.weight * pattern.added[option]
        below = float(t @ slope) + constant
        if below <= 0 or above / below >= ratio:
            return (0.0 if math.isinf(ratio) else ratio), reached
        ratio, reached = above / below, t


def _lattice_cells(form: Form) -> Float:
    """Cells of a lattice on what can be added to the fixed totals: ``(cells, corners, L)``.

    A cell is a cube in cumulative counts: its corners are further along by 0 or 1 step in each.
    """
    L = len(form.totals)
    steps = max(lattice_steps(L, _LATTICE_POINTS), 1)
    shifts = [np.diff(np.array([0, *step, 0])) for step in itertools.product((0, 1), repeat=L - 1)]
    return (compositions(steps, L)[:, None] + np.array(shifts)) * (form.open_total / steps)


def _lattice_ends(
    form: Form, distances: tuple[Float, Float], expected: tuple[Float, Float]
) -> tuple[float, float]:
    """Bounds above and below of ``Q``, cell by cell, with ``d`` and ``M`` between two matrices.

    The matrices are the same for all cells, or one for each. An affine function is extreme at a corner of a
    cell; ``t' M t`` lies between the extremes of its bilinear form over pairs of corners.
    """
    near, far = distances
    moved = _lattice_cells(form)
    corners = form.totals + moved
    turned = np.swapaxes(corners, 1, 2)
    least_expected = ((corners @ expected[0]) @ turned).min((1, 2))
    greatest_expected = ((corners @ expected[1]) @ turned).max((1, 2))
    if not (greatest_expected > 0).any():
        return math.nan, math.nan
    prices = _prices(form, far)
    at_corners = moved @ prices.T  # (cells, corners, prices)
    below = (form.coincidences * near).sum((-2, -1))[..., None]  # (cells or none, prices)
    above = (form.coincidences * far).sum((-2, -1))[..., None]
    for pattern in form.patterns:
        paid = pattern.weight * (pattern.added @ prices.T)
        below = below + pattern.multiplicity * (pattern.within(near)[..., None] - paid).min(-2)
        above = above + pattern.multiplicity * (pattern.within(far)[..., None] - paid).max(-2)
    least = np.maximum((at_corners.min(1) + below).max(1), 0.0)
    greatest = (at_corners.max(1) + above).min(1)
    low = np.divide(least, greatest_expected, out=np.full(len(least), np.inf), where=greatest_expected > 0)
    high = np.divide(greatest, least_expected, out=np.full(len(least), np.inf), where=least_expected > 0)
    high[greatest <= 0] = 0.0
    return form.factor * float(high.max()), form.factor * float(low.min())


def _prices(form: Form, d: Float) -> Float:
    """Slopes to try for the affine bounds of ``F``, none at all among them; the last category has price 0."""
    L = len(form.totals)
    levels = _PRICE_LEVELS.get(L, 1)
    steepest = max((float(np.ptp(p.within(d), axis=-1).max()) / p.weight for p in form.patterns), default=0.0)
    grid = np.linspace(-steepest, steepest, levels) if levels > 1 else np.zeros(1)
    return np.array([(*price, 0.0) for price in itertools.product(grid, repeat=L - 1)])

"""Subpanels of a pool: random ones, ones balanced over families, and searched ones.

The designs are those of appendix A.4 of the source.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError, StructureError
from xjudge.statistics._panel_inputs import Flags, Floats
from xjudge.statistics._panel_score import Integers
from xjudge.statistics._panel_size import ROUNDING, normalised_gram

__all__ = [
    "SearchedPanels",
    "SubpanelQuantities",
    "draw_subpanels",
    "grown_quantities",
    "search_sizes",
    "subpanel_quantities",
]

DESIGNS = ("random", "balanced", "one_per_family")


class SubpanelQuantities(NamedTuple):
    """Quantities of subpanels, each (..., p); see :func:`subpanel_quantities`."""

    size: Integers
    participation_ratio: Floats
    distributional_error: Floats
    mean_energy: Floats


def subpanel_quantities(gram: npt.ArrayLike, member: npt.ArrayLike) -> SubpanelQuantities:
    """Participation ratio, error and mean member energy of subpanels of a pool.

    Parameters
    ----------
    gram : array-like (..., N, N)
        Residual Gram matrix of the pool; leading dims may be resamples.
    member : array-like of bool (p, N)

    Returns
    -------
    SubpanelQuantities
        ``size`` (p,), the others (..., p). The ratio is NaN with a member without residual energy.
        Cost ``p N^2`` for each Gram matrix.

    Examples
    --------
    >>> subpanel_quantities([[1.0, 0.5], [0.5, 1.0]], [[True, True]]).participation_ratio
    array([1.6])
    """
    parts = _parts(gram, member)
    return _quantities(
        parts.flags.sum(1),
        _pair_sums(parts.squares, parts.flags),
        _pair_sums(parts.gram, parts.flags),
        np.diagonal(parts.gram, axis1=-2, axis2=-1) @ parts.flags.T,
        parts.still.astype(np.float64) @ parts.flags.T > 0,
    )


def grown_quantities(gram: npt.ArrayLike, member: npt.ArrayLike) -> SubpanelQuantities:
    """Quantities of subpanels with one judge more, for every judge: each (..., p, N), ``size`` (p, 1).

    What they are for a judge who is a member already means nothing. Cost ``p N^2`` for each Gram matrix, as
    without the judge: the sums over pairs grow by the judge's row.
    """
    parts = _parts(gram, member)
    grown = []
    for matrix in (parts.squares, parts.gram):
        row, own = parts.flags @ matrix, np.diagonal(matrix, axis1=-2, axis2=-1)
        grown.append((row * parts.flags).sum(-1)[..., None] + 2.0 * row + own[..., None, :])
    energy = np.diagonal(parts.gram, axis1=-2, axis2=-1)
    undefined = (parts.still.astype(np.float64) @ parts.flags.T > 0)[..., None] | parts.still[..., None, :]
    total = (energy @ parts.flags.T)[..., None] + energy[..., None, :]
    return _quantities(parts.flags.sum(1)[:, None] + 1.0, grown[0], grown[1], total, undefined)


class _Parts(NamedTuple):
    """Flags of members (p, N), the Gram matrix, squared correlations, and judges without energy (..., N)."""

    flags: Floats
    gram: Floats
    squares: Floats
    still: Flags


def _parts(gram: npt.ArrayLike, member: npt.ArrayLike) -> _Parts:
    K = np.asarray(gram, dtype=np.float64)
    flags = np.asarray(member, dtype=np.float64)
    if flags.ndim != 2 or K.shape[-2:] != (flags.shape[1], flags.shape[1]):
        raise StructureError(f"Subpanels of shape {flags.shape} do not fit a Gram matrix of shape {K.shape}.")
    squares = normalised_gram(K) ** 2
    return _Parts(flags, K, np.nan_to_num(squares), np.asarray(np.isnan(squares).all(-1)))


def _quantities(
    size: Floats, squares: Floats, gram: Floats, energies: Floats, undefined: Flags
) -> SubpanelQuantities:
    """Quantities from sums over the pairs, and over the members, of each panel."""
    some = np.broadcast_to(size > 0, squares.shape)
    ratio = np.divide(size**2, squares, out=np.full(squares.shape, np.nan), where=some & ~undefined)
    error = np.divide(gram, size**2, out=np.full(squares.shape, np.nan), where=some)
    energy = np.divide(energies, size, out=np.full(squares.shape, np.nan), where=some)
    return SubpanelQuantities(
        size.astype(np.int64), ratio, np.where(error <= ROUNDING * energy, 0.0, error), energy
    )


def _pair_sums(matrix: Floats, flags: Floats) -> Floats:
    """Sum of a matrix over all pairs of members, diagonal included: (..., p)."""
    return ((flags @ matrix) * flags).sum(-1)


def draw_subpanels(
    n_judges: int,
    size: int,
    n_draws: int = 2000,
    *,
    design: str = "random",
    families: npt.ArrayLike | None = None,
    seed: int | None = 0,
    unique: bool = True,
) -> Flags:
    """Draw subpanels of one size.

    Parameters
    ----------
    n_judges : int
        N of the pool.
    size : int
        Members of each.
    n_draws : int
        Panels drawn, with repeats.
    design : {"random", "balanced", "one_per_family"}
        ``random``: every panel alike. ``one_per_family``: at most one member of a family. ``balanced``:
        members spread over families as evenly as their sizes allow (for no more members than families, the
        same as ``one_per_family``). All are uniform over the panels they allow.
    families : array-like (N,)
        Family of each judge, for the latter two.
    seed : int or None
    unique : bool
        Drop repeats and sort.

    Returns
    -------
    ndarray of bool (p, N)

    Examples
    --------
    >>> draw_subpanels(3, 2, 50).astype(int)
    array([[0, 1, 1],
           [1, 0, 1],
           [1, 1, 0]])
    """
    if not 1 <= size <= n_judges or n_draws < 1:
        raise ProtocolError(f"Cannot draw {n_draws} panels of {size} from {n_judges} judges.")
    if design not in DESIGNS:
        raise ProtocolError(f"design={design!r}: use one of {', '.join(map(repr, DESIGNS))}.")
    generator = np.random.default_rng(None if seed is None else (seed, size))
    if design == "random":
        quota = np.full((n_draws, 1), size)
        group = np.zeros(n_judges, dtype=np.int64)
    else:
        if families is None or np.shape(families) != (n_judges,):
            raise ProtocolError(f"design={design!r} needs `families`, one for each of the {n_judges} judges.")
        group = np.unique(np.asarray(families), return_inverse=True)[1].reshape(-1)
        n_families = int(group.max()) + 1
        if design == "one_per_family" and size > n_families:
            raise ProtocolError(
                f"{size} members of different families cannot come from {n_families} families."
            )
        quota = _balanced_quotas(np.bincount(group), size, n_draws, generator)
    # Within a family a uniform subset: the members with the smallest of independent uniform marks.
    mark = generator.random((n_draws, n_judges))
    member = np.zeros((n_draws, n_judges), dtype=bool)
    for family in range(quota.shape[1]):
        inside = np.flatnonzero(group == family)
        rank = mark[:, inside].argsort(1).argsort(1)
        member[:, inside] = rank < quota[:, family, None]
    return np.unique(member, axis=0) if unique else member


def _balanced_quotas(
    family_sizes: Integers, size: int, n_draws: int, generator: np.random.Generator
) -> Integers:
    """Members of each family in each draw: allocations that minimise the pairs within families.

    Those fill all families to a level and give one more to some; an allocation has as many panels as the
    product of binomials, so families get the extra member with weights ``(s - level)``.
    """
    level = 0
    while np.minimum(family_sizes, level + 1).sum() <= size and level < family_sizes.max():
        level += 1
    base = np.minimum(family_sizes, level)
    open_families = np.flatnonzero(family_sizes > level)
    quota = np.tile(base, (n_draws, 1))
    extra = size - int(base.sum())
    if extra:
        weights = (family_sizes[open_families] - level).astype(np.float64)
        quota[:, open_families] += _weighted_subsets(weights, extra, n_draws, generator)
    return quota


def _weighted_subsets(weights: Floats, size: int, n_draws: int, generator: np.random.Generator) -> Flags:
    """Subsets of a size with probability proportional to the product of their weights, (n_draws, n)."""
    n = len(weights)
    # total[j, r]: sum over r-subsets of weights j .. n - 1 of their products.
    total = np.zeros((n + 1, size + 1))
    total[:, 0] = 1.0
    for j in range(n - 1, -1, -1):
        total[j, 1:] = total[j + 1, 1:] + weights[j] * total[j + 1, :-1]
    left = np.full(n_draws, size)
    chosen = np.zeros((n_draws, n), dtype=bool)
    for j in range(n):
        open_draws = left > 0
        chance = np.zeros(n_draws)
        rest = left[open_draws]
        chance[open_draws] = weights[j] * total[j + 1, rest - 1] / total[j, rest]
        chosen[:, j] = generator.random(n_draws) < chance
        left = left - chosen[:, j]
    return chosen


# ------------------------------------------------------------------------------------------ search over sizes


class SearchedPanels(NamedTuple):
    """Searched panel of each size; see :func:`search_sizes`."""

    sizes: Integers
    member: Flags
    participation_ratio: Floats


def search_sizes(
    gram: npt.ArrayLike, sizes: npt.ArrayLike, *, n_starts: int = 20, seed: int | None = 0
) -> SearchedPanels:
    """Search panels with a large participation ratio at each size.

    From the judge with the smallest sum of squared correlations and from random starts, members are added by
    the least increase of ``Q = sum_{a != b} C_ab^2``; then one-for-one swaps while they lower Q. The best
    candidate of each size is kept.

    Parameters
    ----------
    gram : array-like (N, N)
    sizes : array-like of int (S,)
        From 1 to the number of judges with residual energy.
    n_starts : int
        Random starts.
    seed : int or None

    Returns
    -------
    SearchedPanels
        ``member`` (S, N) and ``participation_ratio`` (S,). A local optimum: no swap improves it.
    """
    C = normalised_gram(gram)
    usable = np.flatnonzero(~np.isnan(np.diagonal(C)))
    wanted = np.asarray(sizes, dtype=np.int64).reshape(-1)
    if len(wanted) and not 1 <= wanted.min() <= wanted.max() <= len(usable):
        raise ProtocolError(f"sizes must lie between 1 and the {len(usable)} judges with residual energy.")
    squares = C[np.ix_(usable, usable)] ** 2
    np.fill_diagonal(squares, 0.0)
    n = len(usable)
    generator = np.random.default_rng(seed)
    starts = [int(squares.sum(1).argmin()), *generator.integers(0, n, n_starts).tolist()] if n else []
    orders = [_greedy_order(squares, start) for start in dict.fromkeys(starts)]
    member = np.zeros((len(wanted), C.shape[0]), dtype=bool)
    ratio = np.full(len(wanted), np.nan)
    for row, size in enumerate(wanted.tolist()):
        panels = [_swap_down(squares, order[:size]) for order in orders]
        values = [float(squares[np.ix_(panel, panel)].sum()) for panel in panels]
        best = panels[int(np.argmin(values))]
        member[row, usable[best]] = True
        ratio[row] = size**2 / (size + min(values))
    return SearchedPanels(wanted, member, ratio)


def _greedy_order(squares: Floats, start: int) -> list[int]:
    """All judges in the order in which they are added."""
    order = [start]
    increase = squares[start].copy()
    increase[start] = np.inf
    while len(order) < len(squares):
        judge = int(increase.argmin())
        order.append(judge)
        increase += squares[judge]
        increase[judge] = np.inf
    return order


def _swap_down(squares: Floats, panel: list[int]) -> list[int]:
    """Swap one member for one other judge, the best such swap first, while that lowers the sum."""
    inside = list(panel)
    while True:
        outside = [judge for judge in range(len(squares)) if judge not in inside]
        if not outside:
            return inside
        row = squares[:, inside].sum(1)
        # Without member a and with judge b: row_b - C_ab^2 comes, row_a goes.
        change = row[outside][None, :] - squares[np.ix_(inside, outside)] - row[inside][:, None]
        place = int(change.argmin())
        a, b = divmod(place, len(outside))
        if change[a, b] >= -ROUNDING * max(1.0, float(row[inside].sum())):
            return inside
        inside[a] = outside[b]

"""Resampling: one law, weights for it, and what is made of replicates.

**The law is multinomial**: a resample of n items gives the items the weights of n draws with replacement. A
statistic that is a function of weighted sums over items needs nothing but the weights, and items with equal
labels may be counted together: their weights are multinomial over the distinct label *patterns*. Patterns
are few and stand in an order of their own, so the same data in another order give the same replicates.

**Seeds.** Streams come from ``numpy.random.SeedSequence(seed)``. One replicate after the other is drawn from
one stream, so a replicate does not depend on how many follow, nor on the blocks in which they are drawn.
:func:`poisson_weights`, for data that pass by once, draws by the position of an item and so does not depend
on how the data are cut.

Replicates stand on the first axis. Undefined ones are NaN and are counted: :func:`undefined_share`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError
from xjudge.statistics._intervals import (
    TRANSFORMS,
    Interval,
    acceleration,
    bca_interval,
    delta_interval,
    percentile_interval,
    studentized_interval,
    undefined_share,
    wilson_interval,
)
from xjudge.statistics._multinomial import multinomial_rows, pays
from xjudge.statistics._significance import (
    benjamini_yekutieli,
    holm,
    mcnemar_exact,
    probability_best,
)

__all__ = [
    "TRANSFORMS",
    "Interval",
    "acceleration",
    "bca_interval",
    "benjamini_yekutieli",
    "delta_interval",
    "holm",
    "mcnemar_exact",
    "multinomial_blocks",
    "multinomial_weights",
    "percentile_interval",
    "poisson_weights",
    "probability_best",
    "resampled",
    "studentized_interval",
    "two_stage_weights",
    "undefined_share",
    "wilson_interval",
]

Float = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Seed = int | np.random.SeedSequence

_BLOCK: Final = 1 << 21
"""Weights drawn at a time."""

_ITEMS_PER_PATTERN: Final = 8
"""Below so many items a pattern, drawing items is cheaper than drawing pattern totals."""

_POISSON_BLOCK: Final = 1 << 12
"""Items whose Poisson weights come from one stream."""


def multinomial_weights(multiplicities: npt.ArrayLike, n_resamples: int, seed: Seed) -> Integers:
    """Draw how often each pattern occurs in resamples of the items.

    Parameters
    ----------
    multiplicities : array-like of int, shape (pattern,)
        Items with each pattern, in canonical order; ones where every item is a pattern of its own.
    n_resamples : int
        B, at least 0.
    seed : int or SeedSequence

    Returns
    -------
    ndarray of int64, shape (B, pattern)
        Each row sums to the number of items; patterns without items stay at 0.

    Raises
    ------
    ProtocolError
        Multiplicities that are negative, not whole or not one-dimensional; a negative ``n_resamples``; a
        seed that is neither a number nor a SeedSequence.

    Notes
    -----
    With n items and U patterns a resample costs 7 ns an item where items are drawn (``n <= 8 U``), 20 to 45
    ns a pattern where there are many (``64 <= U`` and ``n <= U^2``), drawn as Poisson totals and the items
    that are missing to their sum, and 50 to 140 ns a pattern otherwise. The law is the same, and which way
    is taken depends on n and U only.

    Examples
    --------
    >>> multinomial_weights([3, 0, 1], 2, seed=0)
    array([[3, 0, 1],
           [4, 0, 0]])
    """
    counts = _checked_multiplicities(multiplicities)
    blocks = list(multinomial_blocks(counts, n_resamples, seed))
    return np.concatenate(blocks) if blocks else np.empty((0, len(counts)), dtype=np.int64)


def multinomial_blocks(
    multiplicities: npt.ArrayLike, n_resamples: int, seed: Seed, *, block: int | None = None
) -> Iterator[Integers]:
    """Rows of :func:`multinomial_weights`, a block of resamples at a time.

    Parameters
    ----------
    multiplicities, n_resamples, seed
        As for :func:`multinomial_weights`.
    block : int, optional
        Resamples at a time; by default as many as make about two million weights. The rows do not depend
        on it.

    Yields
    ------
    ndarray of int64, shape (b, pattern)

    Raises
    ------
    ProtocolError
        As :func:`multinomial_weights`; a block below 1.

    Examples
    --------
    >>> rows = list(multinomial_blocks([3, 0, 1], 3, seed=0, block=2))
    >>> [len(row) for row in rows]
    [2, 1]
    """
    counts = _checked_multiplicities(multiplicities)
    if n_resamples < 0:
        raise ProtocolError(f"`n_resamples` must not be negative; got {n_resamples}.")
    size = max(1, _BLOCK // max(1, len(counts))) if block is None else block
    if size < 1:
        raise ProtocolError(f"`block` must be at least 1; got {block}.")
    return _drawn_blocks(counts, n_resamples, size, _generator(seed))


def resampled(
    function: Callable[[Integers], npt.ArrayLike], multiplicities: npt.ArrayLike, n_resamples: int, seed: Seed
) -> Float:
    """Replicates of a statistic that is a function of the weights of patterns.

    Parameters
    ----------
    function : callable
        Takes weights (b, pattern), returns values (b, ...), NaN where undefined.
    multiplicities, n_resamples, seed
        As for :func:`multinomial_weights`.

    Returns
    -------
    ndarray of float64, shape (B, ...)

    Raises
    ------
    ProtocolError
        As :func:`multinomial_weights`; ``n_resamples`` below 1.

    Notes
    -----
    Weights are made and used in blocks of about two million, so the extra memory is bounded.

    Examples
    --------
    The share of ones among three ones and one zero:

    >>> resampled(lambda weights: weights[:, 1] / 4, [1, 3], n_resamples=5, seed=0)
    array([1.  , 0.25, 0.75, 1.  , 1.  ])
    """
    if n_resamples < 1:
        raise ProtocolError(f"`n_resamples` must be at least 1; got {n_resamples}.")
    blocks = multinomial_blocks(multiplicities, n_resamples, seed)
    return np.concatenate([np.asarray(function(weights), dtype=np.float64) for weights in blocks])


def two_stage_weights(present: npt.ArrayLike, n_resamples: int, seed: Seed) -> Integers:
    """Weights of the criteria of items when items are drawn first, then criteria within each drawn item.

    Parameters
    ----------
    present : array-like of bool, shape (item, criterion)
        Which criteria an item has. As many are drawn, with replacement, among those.
    n_resamples : int
        B, at least 0.
    seed : int or SeedSequence

    Returns
    -------
    ndarray of int64, shape (B, item, criterion)

    Raises
    ------
    ProtocolError
        As :func:`multinomial_weights`; ``present`` of another shape.

    Examples
    --------
    >>> weights = two_stage_weights([[True, True], [True, False]], 100, seed=0)
    >>> weights.shape, int(weights[:, 1, 1].max())
    ((100, 2, 2), 0)
    """
    cells = np.asarray(present, dtype=bool)
    if cells.ndim != 2:
        raise ProtocolError(f"`present` has shape (item, criterion); got {cells.shape}.")
    if n_resamples < 0:
        raise ProtocolError(f"`n_resamples` must not be negative; got {n_resamples}.")
    generator = _generator(seed)
    n_items, n_criteria = cells.shape
    of_item = cells.sum(1)
    out = np.zeros((n_resamples, n_items, n_criteria), dtype=np.int64)
    if not n_items:
        return out
    # drawn among positions 0 .. of_item - 1, then put at the criteria that are there
    shares = np.arange(n_criteria) < of_item[:, None]
    chances = shares / np.maximum(of_item, 1)[:, None]
    place = np.argsort(~cells, axis=1, kind="stable")
    some = of_item > 0
    for row in out:
        items = _draw(np.ones(n_items, dtype=np.int64), 1, generator)[0]
        drawn = np.zeros((n_items, n_criteria), dtype=np.int64)
        drawn[some] = generator.multinomial((items * of_item)[some], chances[some])
        np.put_along_axis(row, place, drawn, axis=1)
    return out


def poisson_weights(start: int, stop: int, n_resamples: int, seed: Seed) -> npt.NDArray[np.uint8]:
    """Independent Poisson(1) weights of the items from ``start`` up to ``stop - 1``, drawn by position.

    For data that pass by once and have neither few patterns nor few items: the number of items in a resample
    then varies by its square root, which a statistic of shares does not notice. Weights depend on the seed
    and the positions alone, whatever the chunks.

    Parameters
    ----------
    start, stop : int
        Positions in the whole data, ``0 <= start <= stop``.
    n_resamples : int
        B.
    seed : int or SeedSequence

    Returns
    -------
    ndarray of uint8, shape (B, stop - start)

    Raises
    ------
    ProtocolError
        Positions out of order, a negative ``n_resamples``.

    Examples
    --------
    >>> whole = poisson_weights(0, 10_000, 3, seed=0)
    >>> parts = [poisson_weights(a, b, 3, seed=0) for a, b in ((0, 4_000), (4_000, 10_000))]
    >>> bool((np.concatenate(parts, axis=1) == whole).all())
    True
    """
    if not 0 <= start <= stop or n_resamples < 0:
        raise ProtocolError("Poisson weights need 0 <= start <= stop and a number of resamples.")
    base = _sequence(seed)
    out = np.empty((n_resamples, stop - start), dtype=np.uint8)
    for index in range(start // _POISSON_BLOCK, -(-stop // _POISSON_BLOCK)):
        first = index * _POISSON_BLOCK
        child = np.random.SeedSequence(base.entropy, spawn_key=(*base.spawn_key, index))
        drawn = np.random.default_rng(child).poisson(1.0, size=(n_resamples, _POISSON_BLOCK))
        low, high = max(start, first), min(stop, first + _POISSON_BLOCK)
        out[:, low - start : high - start] = drawn[:, low - first : high - first]
    return out


def _drawn_blocks(
    counts: Integers, n_resamples: int, size: int, generator: np.random.Generator
) -> Iterator[Integers]:
    used = np.flatnonzero(counts)
    take = _draws(counts[used], generator)
    for first in range(0, n_resamples, size):
        drawn = take(min(size, n_resamples - first))
        if len(used) == len(counts):
            yield drawn
            continue
        weights = np.zeros((len(drawn), len(counts)), dtype=np.int64)
        weights[:, used] = drawn
        yield weights


def _draws(counts: Integers, generator: np.random.Generator) -> Callable[[int], Integers]:
    """Return a function that draws the next so many resamples of positive counts from the stream."""
    n_items, n_patterns = int(counts.sum()), len(counts)
    if n_items <= _ITEMS_PER_PATTERN * n_patterns or not pays(n_items, n_patterns):
        return lambda n_resamples: _draw(counts, n_resamples, generator)
    groups = multinomial_rows(counts, generator)
    held = [np.empty((0, n_patterns), dtype=np.int64)]

    def take(n_resamples: int) -> Integers:
        while sum(map(len, held)) < n_resamples:
            held.append(next(groups))
        rows = np.concatenate(held)
        held[:] = [rows[n_resamples:]]
        return rows[:n_resamples]

    return take


def _draw(counts: Integers, n_resamples: int, generator: np.random.Generator) -> Integers:
    """Resamples of positive counts, one row after the other from the stream."""
    n_patterns = len(counts)
    n_items = int(counts.sum())
    out = np.zeros((n_resamples, n_patterns), dtype=np.int64)
    if not n_items:
        return out
    if n_items > _ITEMS_PER_PATTERN * n_patterns:
        return generator.multinomial(n_items, counts / n_items, size=n_resamples)
    pattern = np.repeat(np.arange(n_patterns), counts)
    for row in out:
        row += np.bincount(pattern[generator.integers(0, n_items, n_items)], minlength=n_patterns)
    return out


def _checked_multiplicities(multiplicities: npt.ArrayLike) -> Integers:
    counts = np.asarray(multiplicities)
    if counts.ndim != 1 or counts.dtype.kind not in "iuf":
        raise ProtocolError(
            f"`multiplicities` are whole numbers of shape (pattern,); got {counts.dtype} of shape "
            f"{counts.shape}."
        )
    if counts.size and (counts.min() < 0 or (counts != np.rint(counts)).any()):
        raise ProtocolError("`multiplicities` must be whole and not negative.")
    return counts.astype(np.int64)


def _sequence(seed: Any) -> np.random.SeedSequence:
    if isinstance(seed, np.random.SeedSequence):
        # a fresh one: drawing must not depend on what was drawn from it before
        return np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key, pool_size=seed.pool_size)
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ProtocolError(f"`seed` must be a whole number from 0 up or a SeedSequence; got {seed!r}.")
    return np.random.SeedSequence(int(seed))


def _generator(seed: Seed) -> np.random.Generator:
    return np.random.default_rng(_sequence(seed))

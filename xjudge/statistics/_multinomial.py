"""Multinomial weights of many patterns, a group of resamples at a time.

Independent Poisson totals, given their sum, are multinomial. So a resample of n items over U patterns may be
drawn in two steps: a Poisson total for each pattern, of mean a little below what it is in a resample, and, as
the sum then falls a little short of n, the items that are missing one by one. Whatever the sum was, the
weights are multinomial; a resample whose Poisson totals exceed n is drawn again. The law is the same as that
of ``Generator.multinomial``, which draws a binomial number for each pattern at three to five times the cost:
every resample has the same means, so most totals are read off tables made once.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

__all__ = ["multinomial_rows", "pays"]

Integers = npt.NDArray[np.int64]
Float = npt.NDArray[np.float64]

_MANY_PATTERNS = 64
"""Patterns below which one call of numpy's generator for all resamples is as quick."""

_GROUP, _GROUP_WEIGHTS = 32, 1 << 18
"""Resamples that are drawn together, and weights at the most (but one resample at the least)."""

_SHORT = 2.0
"""By how many standard deviations the mean of the Poisson sum falls short of n: 2 % are drawn again."""

_TABLED, _LONGEST = 64, 200
"""Items of a pattern up to which its totals are read off a table, and totals in a table: all that occur."""

_GUIDES = 512
"""Equal stretches of the unit interval for each of which the least total in a table is known."""

_BUCKETS = 1 << 16
"""Stretches of items for each of which the first pattern is known."""


def pays(n_items: int, n_patterns: int) -> bool:
    """Whether this way of drawing is the quicker one; it depends on these two numbers only."""
    return n_patterns >= _MANY_PATTERNS and n_items <= n_patterns**2


def multinomial_rows(counts: Integers, generator: np.random.Generator) -> Iterator[Integers]:
    """Weights of patterns in one resample after the other, without end.

    Parameters
    ----------
    counts : ndarray of int64, shape (pattern,)
        Items with each pattern, at least 1.
    generator : Generator
        Groups of resamples are drawn whole: a resample depends on its place in the sequence only.

    Yields
    ------
    ndarray of int64, shape (group, pattern)
        Each row sums to the number of items.
    """
    n_items, n_patterns = int(counts.sum()), len(counts)
    size = max(1, min(_GROUP, _GROUP_WEIGHTS // n_patterns))
    totals = _PoissonTotals(counts, 1 - _SHORT / np.sqrt(n_items))
    pattern_of = _PatternOf(counts)
    while True:
        weights = np.empty((size, n_patterns), dtype=np.int64)
        again = np.arange(size)
        while len(again):
            drawn = totals.drawn(len(again), generator)
            weights[again] = drawn
            again = again[drawn.sum(1) > n_items]
        missing = n_items - weights.sum(1)
        patterns = pattern_of(generator.integers(0, n_items, int(missing.sum())))
        patterns += np.repeat(np.arange(0, size * n_patterns, n_patterns), missing)
        weights += np.bincount(patterns, minlength=weights.size).reshape(weights.shape)
        yield weights


class _PoissonTotals:
    """Independent Poisson totals of means ``rate * counts``."""

    def __init__(self, counts: Integers, rate: float) -> None:
        self.tabled = np.flatnonzero(counts <= _TABLED)
        self.others = np.flatnonzero(counts > _TABLED)
        self.means = rate * counts[self.others]
        sizes, table = np.unique(counts[self.tabled], return_inverse=True)
        total = np.arange(_LONGEST)
        log_factorial = np.concatenate([[0.0], np.cumsum(np.log(total[1:]))])
        mean = rate * sizes[:, None]
        chances = np.exp(total * np.log(mean) - mean - log_factorial)
        below = np.cumsum(chances, axis=1)
        below[:, -1] = 1.0  # the rest is less than rounding
        ends = np.arange(_GUIDES) / _GUIDES
        guides = [np.searchsorted(row, ends, side="right") for row in below]
        self.least = np.array(guides, dtype=np.uint8).ravel()
        self.below = below.ravel()
        self.guide_start, self.start = table * _GUIDES, table * _LONGEST

    def drawn(self, n_rows: int, generator: np.random.Generator) -> Integers:
        """Totals (row, pattern)."""
        out = np.empty((n_rows, len(self.tabled) + len(self.others)), dtype=np.int64)
        uniform = generator.random((n_rows, len(self.tabled)))
        guide = (uniform * _GUIDES).astype(np.intp)
        guide += self.guide_start
        place = (self.least.take(guide) + self.start).ravel()
        uniform = uniform.ravel()
        behind = np.flatnonzero(uniform >= self.below.take(place))
        while len(behind):
            place[behind] += 1
            behind = behind[uniform[behind] >= self.below[place[behind]]]
        out[:, self.tabled] = place.reshape(guide.shape) - self.start
        out[:, self.others] = generator.poisson(self.means, size=(n_rows, len(self.others)))
        return out


class _PatternOf:
    """Which pattern an item has, items standing in the order of their patterns."""

    def __init__(self, counts: Integers) -> None:
        self.ends = np.cumsum(counts)
        self.shift = max(0, int(self.ends[-1]).bit_length() - _BUCKETS.bit_length() + 1)
        firsts = np.arange(-(-int(self.ends[-1]) >> self.shift)) << self.shift
        self.first = np.searchsorted(self.ends, firsts, side="right")

    def __call__(self, items: Integers) -> Integers:
        patterns = self.first.take(items >> self.shift)
        later = np.flatnonzero(self.ends.take(patterns) <= items)
        patterns[later] = np.searchsorted(self.ends, items[later], side="right")
        return patterns

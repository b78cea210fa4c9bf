"""Simulated trials by cell counts: what items of a kind add to the margins, and how many there are.

Items are exchangeable and a margin is a sum over them, so a trial is decided by how many items fall into
each cell (who labelled the item, who agrees with whom). Cells that score alike are merged first; then either
their counts are drawn, or items are drawn one by one from a lookup table, whichever is cheaper.
"""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np
import numpy.typing as npt

from xjudge.statistics._loo_design import further_members
from xjudge.statistics._loo_model import Patterns
from xjudge.statistics._loo_population import strata_of
from xjudge.statistics._loo_votes import Float

__all__ = ["item_gains", "largest_remainder"]

Counts = npt.NDArray[np.int64]

# Cost of one item drawn from the table, relative to one cell count drawn from a binomial: between compiled
# draws (1 / 100) and numpy's (1 / 15). The choice changes the numbers, so it is the same for both.
_DRAW_COST = 1 / 40

_COMPILED = "xjudge.statistics._loo_fast"

# Items drawn in a process after which compiling pays: by then numpy has taken as long as numba takes to load.
_WORTH_COMPILING = 1 << 26

# Items drawn at a time: few enough to stay in the cache.
_DRAWS = 1 << 15


def largest_remainder(total: int, sizes: npt.ArrayLike) -> Counts:
    """Split ``total`` in proportion to sizes, rounded by largest remainder (the first on ties).

    Parameters
    ----------
    total : int
        At most the sum of the sizes.
    sizes : array-like of int, shape (..., S)

    Returns
    -------
    ndarray of int64, shape (..., S)
        Sums to ``total``; never above the sizes.

    Examples
    --------
    >>> largest_remainder(10, [50, 30, 19])
    array([5, 3, 2])
    """
    counts = np.asarray(sizes, dtype=np.int64)
    size = np.maximum(counts.sum(axis=-1, keepdims=True), 1)
    parts, rest = np.divmod(counts * total, size)
    short = total - parts.sum(axis=-1, keepdims=True)
    rank = np.argsort(np.argsort(-rest, axis=-1, kind="stable"), axis=-1, kind="stable")
    return np.asarray(parts + (rank < short), dtype=np.int64)


def item_gains(codes: npt.NDArray[np.integer], members: npt.NDArray[np.bool_]) -> Counts:
    """``sum_q [judge = q] - [k = q]`` over the members ``q``, for members ``k``.

    Parameters
    ----------
    codes : ndarray of int, shape (P, K + 1)
        Label patterns, the judge last.
    members : ndarray of bool, shape (K,)
        Who labelled the item.

    Returns
    -------
    ndarray of int64, shape (P, K)
        Zero for others.
    """
    humans, judge = codes[:, :-1], codes[:, -1:]
    agreed = (humans == judge) & members
    same = ((humans[:, :, None] == humans[:, None, :]) & members).sum(axis=2)
    # Both sums count the member itself: once if the judge agrees with it, and once always.
    gains = agreed.sum(axis=1, keepdims=True) - agreed - (same - 1)
    return np.where(members, gains, 0)


class Cells:
    """Trials by cell counts: sums of merged scores over a given number of items of a kind."""

    def __init__(
        self, patterns: Patterns, n_items: int, n_trials: int, dense: bool, rng: np.random.Generator
    ) -> None:
        self.codes, self.probability = patterns
        self.K = self.codes.shape[1] - 1
        self.n_items, self.n_trials, self.dense, self.rng = n_items, n_trials, dense, rng
        self.everybody = np.ones(self.K, dtype=bool)

    def simulate(self, design: str, share: float, *, exact: bool) -> Counts:
        """Sums of ``(z, w[, dense z])`` of every trial, shape (T, 2 K) or (T, 3 K)."""
        m = round(share * self.n_items)
        if design != "random":
            return self._shared(m, design)
        return self._exact(m) if exact else self._bernoulli(share)

    def scores(self, members: npt.NDArray[np.bool_]) -> Counts:
        """Per pattern ``(z, w[, dense z])`` where ``members`` labelled the item."""
        w = np.where(members, members.sum() - 1, 0)
        columns = [item_gains(self.codes, members), np.broadcast_to(w, (len(self.codes), self.K))]
        if self.dense:
            columns.append(item_gains(self.codes, self.everybody))
        return np.concatenate(columns, axis=1)

    def _bernoulli(self, share: float) -> Counts:
        """Items are independent draws of (mask, pattern): those of the first human alone, and the others."""
        alone, *members = further_members(self.K)
        nobody = (1 - share) ** (self.K - 1)
        single = self.rng.binomial(self.n_items, nobody, self.n_trials)
        scores = np.concatenate([self.scores(row) for row in members])
        chance = [share ** (row.sum() - 1) * (1 - share) ** (self.K - row.sum()) for row in members]
        probability = np.concatenate([p * self.probability for p in chance])
        total = _sum_scores(self.rng, self.n_items - single, probability, scores)
        if self.dense:
            total += _sum_scores(self.rng, single, self.probability, self.scores(alone))
        return total

    def _exact(self, m: int) -> Counts:
        """Exactly ``m`` items each: sizes of the mask cells are nested hypergeometric."""
        cells = [np.full(self.n_trials, self.n_items)]
        for _ in range(self.K - 1):
            cells = _split(self.rng, cells, m)
        total = self._nothing()
        for row, size in zip(further_members(self.K), cells, strict=True):
            total += _sum_scores(self.rng, size, self.probability, self.scores(row))
        return total

    def _shared(self, m: int, design: str) -> Counts:
        agreeing = self.codes[:, self.K] if design == "strat_judge" else None
        groups = strata_of(self.codes[:, 0], agreeing)
        if design == "shared":
            groups = np.zeros_like(groups)
        share = np.bincount(groups, weights=self.probability)
        sizes = self.rng.multinomial(self.n_items, share / share.sum(), self.n_trials)
        drawn = largest_remainder(m, sizes)
        inside = self.scores(self.everybody)
        outside = self.scores(np.arange(self.K) == 0)
        total = self._nothing()
        for s in range(len(share)):
            probability = np.where(groups == s, self.probability, 0.0)
            if share[s] > 0:
                total += _sum_scores(self.rng, drawn[:, s], probability, inside)
                if self.dense:
                    total += _sum_scores(self.rng, sizes[:, s] - drawn[:, s], probability, outside)
        return total

    def _nothing(self) -> Counts:
        return np.zeros((self.n_trials, (3 if self.dense else 2) * self.K), np.int64)


# ---------------------------------------------------------------------------------------------- private


def _split(rng: np.random.Generator, cells: list[Counts], m: int) -> list[Counts]:
    """Divide every cell into items that a further human did not, and did, label; he labels ``m`` in all."""
    left = np.full(cells[0].shape, m)
    behind = sum(cells, start=np.zeros_like(cells[0]))
    out = []
    for cell in cells:
        behind = behind - cell
        taken = rng.hypergeometric(cell, behind, left)
        left = left - taken
        out += [cell - taken, taken]
    return out


def _sum_scores(rng: np.random.Generator, counts: Counts, probability: Float, scores: Counts) -> Counts:
    """Sum the scores of ``counts[t]`` independent items in every trial; shape (T, S)."""
    merged, chance = _merged(scores[probability > 0], probability[probability > 0])
    zero = ~merged.any(axis=1)
    if zero.any():
        counts = rng.binomial(counts, min(1.0, float(chance[~zero].sum())))
        merged, chance = merged[~zero], chance[~zero] / max(float(chance[~zero].sum()), 1e-300)
    if not len(merged):
        return np.zeros((len(counts), scores.shape[1]), np.int64)
    order = np.argsort(-chance, kind="stable")
    merged, chance = merged[order], chance[order]
    if counts.sum() * _DRAW_COST < len(counts) * (len(merged) - 1):
        return _draw_sums(rng, counts, chance, merged)
    drawn = rng.multinomial(counts, chance)
    return np.rint(drawn.astype(np.float64) @ merged.astype(np.float64)).astype(np.int64)


def _merged(scores: Counts, probability: Float) -> tuple[Counts, Float]:
    """Distinct rows of scores, and the probability of each."""
    order = np.lexsort(scores.T)
    rows = scores[order]
    first = np.concatenate([[True], (rows[1:] != rows[:-1]).any(axis=1)])
    chance = np.add.reduceat(probability[order], np.nonzero(first)[0])
    return rows[first], chance / chance.sum()


def _draw_sums(rng: np.random.Generator, counts: Counts, chance: Float, scores: Counts) -> Counts:
    """Draw item by item from a table of equal slices; a slice with an edge inside is resolved exactly."""
    bits = 12
    cumulative = np.cumsum(chance)
    cumulative /= cumulative[-1]
    edges = np.arange(2**bits + 1) / 2**bits
    cells = np.searchsorted(cumulative, edges[:-1], side="right")
    mixed = cells != np.searchsorted(cumulative, edges[1:], side="left")
    unclear = len(cumulative)
    cells = np.where(mixed, unclear, cells).astype(np.uint32)
    largest = int(counts.max(initial=0))
    packed = _pack(scores, largest)
    words = np.stack([word for word, _, _ in packed], axis=1)
    sums = np.empty((len(counts), len(packed)), np.int64)
    kernel = _compiled(int(counts.sum()))
    step = max(1, _DRAWS // max(1, largest))
    for start in range(0, len(counts), step):
        ends = np.cumsum(counts[start : start + step])
        # four draws of 16 bits from one word
        raw = rng.integers(0, 2**64, -(-int(ends[-1]) // 4), dtype=np.uint64).view(np.uint16)[: ends[-1]]
        part = sums[start : start + step]
        if kernel is None:
            _words_by_numpy(rng, raw, 16 - bits, cells, unclear, cumulative, words, ends, part)
        else:
            trials, draws = np.empty(len(raw), np.int64), np.empty(len(raw), np.uint16)
            n = kernel.draw_words(raw, 16 - bits, cells, unclear, words, ends, part, trials, draws)
            kernel.resolve(trials, draws, rng.random(n), cumulative, words, part)
    out = np.zeros((len(counts), scores.shape[1]), np.int64)
    for place, (_, columns, width) in enumerate(packed):
        out[:, columns] = _unpack(sums[:, place], width, len(columns))
    return out


def _words_by_numpy(
    rng: np.random.Generator,
    raw: npt.NDArray[np.uint16],
    shift: int,
    cells: npt.NDArray[np.uint32],
    unclear: int,
    cumulative: Float,
    words: Counts,
    ends: Counts,
    out: Counts,
) -> None:
    """Packed scores of the items of every trial, summed: as ``_loo_fast.draw_words``."""
    drawn = cells.take(raw >> np.uint16(shift))
    open_places = np.nonzero(drawn == unclear)[0]
    exact = (raw[open_places] + rng.random(len(open_places))) / 2**16
    drawn[open_places] = np.searchsorted(cumulative, exact, side="right")
    starts = np.concatenate([[0], ends[:-1]])
    # One more place at the end: the sum of a trial without items starts there, and is put to zero.
    values = np.zeros(len(raw) + 1, np.int64)
    for place, word in enumerate(words.T):
        values[:-1] = word.take(drawn)
        out[:, place] = np.where(ends > starts, np.add.reduceat(values, starts), 0)


class _Drawn:
    """Items drawn so far in this process, and the compiled kernel once there are enough."""

    items = 0
    absent = False


def _compiled(n_items: int) -> ModuleType | None:
    """Compiled draws, where numba loads and is worth loading; otherwise ``None``."""
    if _COMPILED not in sys.modules:
        _Drawn.items += n_items
        if _Drawn.items < _WORTH_COMPILING or _Drawn.absent:
            return None
    try:
        from xjudge.statistics import _loo_fast
    except (ImportError, RuntimeError, AttributeError):  # absent, or it does not load
        _Drawn.absent = True
        return None
    return _loo_fast


def _pack(scores: Counts, n_items: int) -> list[tuple[Counts, list[int], int]]:
    """Several signed scores in one integer, wide enough for the sum of ``n_items`` of them.

    Columns without a score stay out.
    """
    width = int(2 * np.abs(scores).max(initial=1) * max(n_items, 1) + 1).bit_length()
    per_word = max(1, 63 // width)
    used = np.nonzero(scores.any(axis=0))[0].tolist()
    packed = []
    for first in range(0, len(used), per_word):
        columns = used[first : first + per_word]
        word = np.zeros(len(scores), np.int64)
        for place, column in enumerate(columns):
            word += scores[:, column] << (place * width)
        packed.append((word, columns, width))
    return packed


def _unpack(sums: Counts, width: int, n: int) -> Counts:
    """Signed digits of packed sums: (trials, n)."""
    half, places = 1 << (width - 1), width * np.arange(n)
    biased = sums + sum(half << int(place) for place in places)
    return ((biased[:, None] >> places) & ((1 << width) - 1)) - half

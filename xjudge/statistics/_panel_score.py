"""Exact accuracies of many panels: votes as bit planes.

The accuracy of a majority vote scores a tie as the chance of uniform tie-breaking: an item is worth
``1 / |modes|`` if gold is a mode. Scores are multiplied by the least common multiple of the possible
``|modes|``, so they are integers and compare exactly.

An item is one bit; a judge's answers are one plane of bits for each label, gold being label 0. Votes are
counted in binary planes and compared bitwise, 64 items an instruction, and panels that share their first
members share those counters.
"""

from __future__ import annotations

import math
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt

from xjudge.codes import to_codes
from xjudge.errors import StructureError

__all__ = [
    "Plan",
    "Votes",
    "batch_scores",
    "gold_outcomes",
    "mode_counts",
    "panel_members",
    "panel_rank",
    "panel_subsets",
    "score_panels",
    "score_plan",
    "score_scale",
    "vote_counters",
    "vote_planes",
]

Words = npt.NDArray[np.uint64]
Integers = npt.NDArray[np.int64]

BATCH_WORDS = 1 << 15
"""Words of one bit plane over a batch of prefixes: a dozen such planes fit the second-level cache."""


class Votes(NamedTuple):
    """Answers of a pool as bit planes; see :func:`vote_planes`.

    Attributes
    ----------
    planes : ndarray of uint64 (N, L, W)
        Bit ``i`` of ``planes[j, l]``: judge j gives the item's label l. Labels are numbered within each
        item: 0 is gold, others in the order in which judges first give them.
    valid : ndarray of uint64 (W,)
        Bits that are items.
    n_items : int
    n_categories : int
        L of the scale, which bounds the number of modes.
    """

    planes: Words
    valid: Words
    n_items: int
    n_categories: int

    @property
    def n_judges(self) -> int:
        """Number of judges in the pool, N."""
        return self.planes.shape[0]


def vote_planes(judges: npt.ArrayLike, gold: npt.ArrayLike, n_categories: int | None = None) -> Votes:
    """Pack the answers of a pool for exact scores.

    Parameters
    ----------
    judges : array-like of int (n, N)
        Category codes; items with a negative code or gold label are left out.
    gold : array-like of int (n,)
    n_categories : int, optional
        L of the scale; default one more than the largest code.

    Returns
    -------
    Votes
    """
    codes, labels = to_codes(np.asarray(judges)), to_codes(np.asarray(gold))
    if codes.ndim != 2 or labels.shape != codes.shape[:1]:
        raise StructureError(
            f"Votes need judges (item, judge) and gold (item,); got {codes.shape}, {labels.shape}."
        )
    keep = (codes >= 0).all(1) & (labels >= 0)
    codes, labels = codes[keep].astype(np.int64), labels[keep].astype(np.int64)
    highest = int(max(codes.max(initial=0), labels.max(initial=0)))
    size = highest + 1 if n_categories is None else n_categories
    if size <= highest:
        raise StructureError(f"Code {highest} is outside the {size} categories.")
    local = _label_within_item(codes, labels, size)
    n_labels = int(local.max(initial=0)) + 1
    # Words come in fours, so that vectors of the compiled loop leave no remainder.
    n_words = 4 * max(1, -(-len(codes) // 256))
    bits = np.zeros((codes.shape[1], n_labels, 64 * n_words), dtype=bool)
    for label in range(n_labels):
        bits[:, label, : len(codes)] = (local == label).T
    valid = np.arange(64 * n_words) < len(codes)
    return Votes(_packed(bits), _packed(valid), len(codes), size)


def _packed(bits: npt.NDArray[np.bool_]) -> Words:
    """Bits of the last axis in 64-bit words, the first item in the lowest bit."""
    return cast(Words, np.packbits(bits, axis=-1, bitorder="little").view("<u8").astype(np.uint64))


def _label_within_item(codes: Integers, gold: Integers, n_categories: int) -> Integers:
    """Codes renumbered within each item: gold 0, then by first appearance; scores do not change."""
    rows = np.arange(len(codes))
    number = np.full((len(codes), n_categories), -1, dtype=np.int64)
    number[rows, gold] = 0
    following = np.ones(len(codes), dtype=np.int64)
    out = np.empty_like(codes)
    for judge in range(codes.shape[1]):
        label = codes[:, judge]
        new = number[rows, label] < 0
        number[rows[new], label[new]] = following[new]
        following += new
        out[:, judge] = number[rows, label]
    return out


def mode_counts(n_categories: int, k: int) -> tuple[int, ...]:
    """How many modes k votes over L labels can have.

    Examples
    --------
    >>> mode_counts(3, 7), mode_counts(3, 6), mode_counts(2, 5)
    ((1, 2), (1, 2, 3), (1,))
    """
    return tuple(
        t
        for t in range(1, min(n_categories, k) + 1)
        # t labels with c votes each; the rest spreads over the other labels, less than c on each.
        if any(k - t * c <= (n_categories - t) * (c - 1) for c in range(1, k // t + 1))
    )


def score_scale(n_categories: int, k: int) -> int:
    """Integer that a score of 1 stands for: the least common multiple of the possible mode counts.

    Examples
    --------
    >>> score_scale(3, 7), score_scale(3, 6)
    (2, 6)
    """
    return math.lcm(1, *mode_counts(n_categories, k))


class Plan(NamedTuple):
    """Constants of an enumeration: modes that occur, credit for each, bits of a counter."""

    sizes: tuple[int, ...]
    credit: tuple[int, ...]
    n_bits: int


def score_plan(votes: Votes, k: int) -> Plan:
    """Constants for panels of size k; refuses scores beyond 64 bits."""
    scale = score_scale(votes.n_categories, k)
    if scale * max(votes.n_items, 1) >= 2**62:
        raise StructureError(f"Scores of {votes.n_items} items at scale {scale} do not fit 64 bits.")
    n_labels = votes.planes.shape[1]
    sizes = tuple(size for size in mode_counts(votes.n_categories, k) if size <= n_labels)
    return Plan(sizes, tuple(scale // size for size in sizes), k.bit_length())


# ------------------------------------------------------------------------------------- panels and their ranks


def panel_members(ranks: npt.ArrayLike, n_judges: int, k: int) -> Integers:
    """Members of panels by their lexicographic rank among all k-subsets of the pool.

    Examples
    --------
    >>> panel_members([0, 5], 4, 2)
    array([[0, 1],
           [2, 3]])
    """
    rest = np.asarray(ranks, dtype=np.int64).copy()
    out = np.zeros((*rest.shape, k), dtype=np.int64)
    first = np.zeros(rest.shape, dtype=np.int64)
    for depth in range(k):
        before = _panels_before(n_judges, k - depth - 1)
        rest += before[first]
        out[..., depth] = np.searchsorted(before, rest, side="right") - 1
        rest -= before[out[..., depth]]
        first = out[..., depth] + 1
    return out


def panel_rank(members: npt.ArrayLike, n_judges: int) -> Integers:
    """Lexicographic rank of panels (..., k) with increasing members; inverse of :func:`panel_members`.

    Examples
    --------
    >>> panel_rank([[0, 1], [2, 3]], 4)
    array([0, 5])
    """
    index = np.asarray(members, dtype=np.int64)
    k = index.shape[-1]
    rank = np.zeros(index.shape[:-1], dtype=np.int64)
    first = np.zeros(index.shape[:-1], dtype=np.int64)
    for depth in range(k):
        before = _panels_before(n_judges, k - depth - 1)
        rank += before[index[..., depth]] - before[first]
        first = index[..., depth] + 1
    return rank


def _panels_before(n_judges: int, n_more: int) -> Integers:
    """Cumulative number of ways to choose ``n_more`` members behind each first member."""
    ways = [math.comb(n_judges - 1 - member, n_more) for member in range(n_judges)]
    return np.concatenate([[0], np.cumsum(ways, dtype=np.int64)]).astype(np.int64)


def panel_subsets(low: int, high: int, k: int) -> Integers:
    """All k-subsets of ``low .. high - 1`` in lexicographic order, shape (p, k)."""
    n = high - low
    if k > n:
        return np.zeros((0, k), dtype=np.int64)
    return panel_members(np.arange(math.comb(n, k)), n, k) + low


# ------------------------------------------------------------------------------------------- given panels


def vote_counters(planes: Words, members: Integers, n_bits: int) -> list[list[Words]]:
    """Votes of each label as ``n_bits`` binary planes (W, B) over a batch of panels (B, d)."""
    n_labels, n_words = planes.shape[:2]
    zero = np.zeros((n_words, len(members)), dtype=np.uint64)
    counters = [[zero] * n_bits for _ in range(n_labels)]
    for depth in range(members.shape[1]):
        for label in range(n_labels):
            carry = planes[label][:, members[:, depth]]
            # After d votes a counter has no bits beyond those of d.
            for bit in range((depth + 1).bit_length()):
                old = counters[label][bit]
                counters[label][bit] = old ^ carry
                carry = old & carry
    return counters


def gold_outcomes(counters: list[list[Words]], valid: Words, sizes: tuple[int, ...]) -> list[list[Words]]:
    """Items on which a last vote makes gold one of ``sizes[t]`` modes: ``[t][vote]`` of planes (W, B)."""
    n_labels = len(counters)
    ones = np.broadcast_to(valid[:, None], counters[0][0].shape)
    order = [_compare(counters[0], counters[label], ones) for label in range(1, n_labels)]
    outcome: list[list[Words]] = [[] for _ in sizes]
    for vote in range(n_labels):
        modes: dict[int, Words] = {1: ones}
        for label, (more, same, less_by_one, more_by_one) in enumerate(order, start=1):
            if vote == 0:
                above, level = more | same, less_by_one
            elif vote == label:
                above, level = more & ~more_by_one, more_by_one
            else:
                above, level = more, same
            grown: dict[int, Words] = {}
            for size, plane in modes.items():
                grown[size] = plane & above if size not in grown else grown[size] | (plane & above)
                if size < sizes[-1]:
                    grown[size + 1] = plane & level
            modes = grown
        for t, size in enumerate(sizes):
            outcome[t].append(modes.get(size, np.zeros_like(ones)))
    return outcome


def _compare(gold: list[Words], other: list[Words], ones: Words) -> tuple[Words, Words, Words, Words]:
    """Where gold has more votes, as many, one less, one more than another label."""
    more = np.zeros_like(ones)
    same = less_by_one = more_by_one = ones
    carry_gold = carry_other = ~np.zeros_like(ones)
    for a, b in zip(gold, other, strict=True):
        different = a ^ b
        more = (more & ~different) | (a & ~b)
        same = same & ~different
        less_by_one = less_by_one & ~(different ^ carry_gold)
        more_by_one = more_by_one & ~(different ^ carry_other)
        carry_gold = carry_gold & a
        carry_other = carry_other & b
    return more, same, less_by_one, more_by_one


def batch_scores(outcome: list[list[Words]], votes_of: list[Words], credit: tuple[int, ...]) -> Integers:
    """Scores (B,) of a batch completed by one vote; ``votes_of[label]`` is (W, 1) or (W, B)."""
    total = np.zeros(outcome[0][0].shape[1], dtype=np.int64)
    for planes, worth in zip(outcome, credit, strict=True):
        hit = planes[0] & votes_of[0]
        for plane, vote in zip(planes[1:], votes_of[1:], strict=True):
            hit |= plane & vote
        total += worth * np.bitwise_count(hit).sum(0, dtype=np.int32)
    return total


def score_panels(votes: Votes, members: npt.ArrayLike) -> Integers:
    """Exact scores of given panels.

    Parameters
    ----------
    votes : Votes
        From :func:`vote_planes`.
    members : array-like of int (p, k)
        Different positions in the pool, any order.

    Returns
    -------
    ndarray of int (p,)
        Accuracy times ``n_items * score_scale(L, k)``.

    Examples
    --------
    >>> votes = vote_planes([[0, 0, 1], [0, 1, 1]], [0, 0])
    >>> score_panels(votes, [[0, 1, 2]]), score_scale(2, 3)
    (array([1]), 1)
    """
    index = np.asarray(members, dtype=np.int64)
    if index.ndim != 2 or index.shape[1] < 1:
        raise StructureError(f"Panels have shape (panel, member); got {index.shape}.")
    plan = score_plan(votes, index.shape[1])
    planes = np.ascontiguousarray(votes.planes.transpose(1, 2, 0))
    step = max(1, BATCH_WORDS // planes.shape[1])
    out = np.zeros(len(index), dtype=np.int64)
    for start in range(0, len(index), step):
        part = index[start : start + step]
        outcome = gold_outcomes(vote_counters(planes, part[:, :-1], plan.n_bits), votes.valid, plan.sizes)
        last = [plane[:, part[:, -1]] for plane in planes]
        out[start : start + step] = batch_scores(outcome, last, plan.credit)
    return out

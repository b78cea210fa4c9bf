"""Compiled enumeration of panels (the ``fast`` extra); imported inside functions only.

The numpy path in ``_panel_score`` and a brute force are its oracles. Helpers are inlined before types are
inferred: called as functions they cost the loop 70 %.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit, types
from numba.extending import intrinsic

__all__ = ["enumerate_chunk"]


@intrinsic
def _popcount(typing_context: Any, word: Any) -> Any:
    """Bits set in a 64-bit word."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), generate


@njit(cache=True, nogil=True, inline="always")
def _add_votes(counters: Any, planes: Any, depth: int, judge: int, labels: Any, bits: Any) -> None:
    """Counters of ``depth + 1`` members: those of ``depth`` plus one judge's votes, by ripple carry."""
    for label in range(len(labels)):
        for word in range(planes.shape[2]):
            carry = planes[judge, label, word]
            for bit in range(len(bits)):
                old = counters[depth, label, bit, word]
                counters[depth + 1, label, bit, word] = old ^ carry
                carry = old & carry


@njit(cache=True, nogil=True, inline="always")
def _compare(counters: Any, valid: Any, order: Any, labels: Any, bits: Any) -> None:
    """Compare gold's counter (label 0) with every other label's, bit by bit.

    ``order[q, l]``: q = 0 gold has more votes; 1 as many; 2 one less; 3 one more.
    """
    for label in range(1, len(labels)):
        for word in range(valid.shape[0]):
            more = np.uint64(0)
            same = less_by_one = more_by_one = valid[word]
            carry_gold = carry_other = ~np.uint64(0)
            for bit in range(len(bits)):
                gold = counters[0, bit, word]
                other = counters[label, bit, word]
                more = (more & ~(gold ^ other)) | (gold & ~other)
                same &= ~(gold ^ other)
                less_by_one &= ~(gold ^ carry_gold ^ other)
                more_by_one &= ~(gold ^ other ^ carry_other)
                carry_gold &= gold
                carry_other &= other
            order[0, label, word] = more
            order[1, label, word] = same
            order[2, label, word] = less_by_one
            order[3, label, word] = more_by_one


@njit(cache=True, nogil=True, inline="always")
def _outcomes(order: Any, valid: Any, modes: Any, outcome: Any, labels: Any, sizes: Any, most: Any) -> None:
    """Items on which a last vote for ``vote`` makes gold one of ``sizes[t]`` modes: ``outcome[t, vote]``.

    ``modes[s]``: gold has as many votes as s of the labels seen so far, and no fewer than the others.
    """
    n_labels, n_words = len(labels), valid.shape[0]
    for vote in range(n_labels):
        for word in range(n_words):
            modes[0, word] = valid[word]
            for size in range(1, len(most)):
                modes[size, word] = np.uint64(0)
        for label in range(1, n_labels):
            for word in range(n_words):
                if vote == 0:
                    above = order[0, label, word] | order[1, label, word]
                    level = order[2, label, word]
                elif vote == label:
                    above = order[0, label, word] & ~order[3, label, word]
                    level = order[3, label, word]
                else:
                    above = order[0, label, word]
                    level = order[1, label, word]
                for size in range(len(most) - 1, 0, -1):
                    modes[size, word] = (modes[size, word] & above) | (modes[size - 1, word] & level)
                modes[0, word] &= above
        for t in range(len(sizes)):
            for word in range(n_words):
                outcome[t, vote, word] = modes[sizes[t] - 1, word]


@njit(cache=True, nogil=True, inline="always")
def _last_member(
    planes: Any, outcome: Any, first: int, position: int, labels: Any, sizes: Any, credit: Any, scores: Any
) -> None:
    """Scores of the panels that complete a prefix with each judge from ``first`` on."""
    n_judges, _, n_words = planes.shape
    for judge in range(first, n_judges):
        total = 0
        for t in range(len(sizes)):
            items = 0
            for word in range(n_words):
                hit = np.uint64(0)
                for vote in range(len(labels)):
                    hit |= planes[judge, vote, word] & outcome[t, vote, word]
                items += _popcount(hit)
            total += items * credit[t]
        scores[position + judge - first] = total


@njit(cache=True, nogil=True)
def enumerate_chunk(
    planes: npt.NDArray[np.uint64],
    valid: npt.NDArray[np.uint64],
    head: npt.NDArray[np.int64],
    k: int,
    labels: Any,
    bits: Any,
    sizes: Any,
    credit: Any,
    most: Any,
    matrices: npt.NDArray[np.float64],
    diagonals: npt.NDArray[np.float64],
    scores: npt.NDArray[np.int64],
    sums: npt.NDArray[np.float64],
) -> int:
    """Scores and matrix sums of all k-panels that begin with ``head``, in lexicographic order.

    Depth-first over members; the counters of votes are bit planes (64 items a word), shared by all panels
    with the same first members. ``labels``, ``bits``, ``sizes``, ``credit`` and ``most`` (as long as the
    largest number of modes) are tuples: their lengths are constants of the compiled code, so loops over them
    are unrolled.
    """
    n_judges, _, n_words = planes.shape
    n_labels, n_head = len(labels), len(head)
    counters = np.zeros((k, n_labels, len(bits), n_words), np.uint64)
    order = np.zeros((4, n_labels, n_words), np.uint64)
    modes = np.zeros((len(most), n_words), np.uint64)
    outcome = np.zeros((len(sizes), n_labels, n_words), np.uint64)
    n_sums = matrices.shape[0]
    rows = np.zeros((k, n_sums, n_judges))
    base = np.zeros((k, n_sums))
    member = np.zeros(k, np.int64)
    depth = position = 0
    if n_head:
        member[0] = head[0]
    while True:
        if depth == k - 1:
            first = member[depth - 1] + 1 if depth else 0
            _compare(counters[depth], valid, order, labels, bits)
            _outcomes(order, valid, modes, outcome, labels, sizes, most)
            _last_member(planes, outcome, first, position, labels, sizes, credit, scores)
            for m in range(n_sums):
                for judge in range(first, n_judges):
                    sums[m, position + judge - first] = (
                        base[depth, m] + 2.0 * rows[depth, m, judge] + diagonals[m, judge]
                    )
            position += n_judges - first
        elif member[depth] <= n_judges - (k - depth):
            judge = member[depth]
            _add_votes(counters, planes, depth, judge, labels, bits)
            for m in range(n_sums):
                base[depth + 1, m] = base[depth, m] + 2.0 * rows[depth, m, judge] + diagonals[m, judge]
                for other in range(n_judges):
                    rows[depth + 1, m, other] = rows[depth, m, other] + matrices[m, judge, other]
            depth += 1
            member[depth] = head[depth] if depth < n_head else judge + 1
            continue
        depth -= 1
        if depth < n_head:
            return position
        member[depth] += 1

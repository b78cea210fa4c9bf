"""Compiled sums of items drawn from a table (the ``fast`` extra); imported inside functions only.

The numpy path in ``_loo_cells`` draws with the same random numbers and gives the same integers: it is the
oracle.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

__all__ = ["draw_words", "resolve"]


@njit(cache=True, nogil=True)
def draw_words(
    raw: Any, shift: int, cells: Any, unclear: int, words: Any, ends: Any, out: Any, trials: Any, draws: Any
) -> int:
    """Add the packed scores of the items of every trial, but for those whose cell is not clear yet.

    Parameters
    ----------
    raw : ndarray of uint16, shape (items,)
        ``raw >> shift`` is the slice.
    shift : int
    cells : ndarray of uint32, shape (slices,)
        The cell of each slice; ``unclear`` where it has an edge inside.
    unclear : int
    words : ndarray of int64, shape (cells, packed)
    ends : ndarray of int64, shape (trials,)
        Items of the trials up to each.
    out : ndarray of int64, shape (trials, packed)
        Filled.
    trials, draws : ndarray of int64 and uint16, shape (items,)
        Filled with the unclear items: their trial and draw.

    Returns
    -------
    int
        How many are not clear.
    """
    n_words = words.shape[1]
    start = n = 0
    for t in range(len(ends)):
        # up to three words stay in registers
        one = two = three = np.int64(0)
        for w in range(3, n_words):
            out[t, w] = 0
        for i in range(start, ends[t]):
            cell = cells[raw[i] >> shift]
            if cell == unclear:
                trials[n], draws[n] = t, raw[i]
                n += 1
                continue
            one += words[cell, 0]
            if n_words > 1:
                two += words[cell, 1]
                if n_words > 2:
                    three += words[cell, 2]
                    for w in range(3, n_words):
                        out[t, w] += words[cell, w]
        out[t, 0] = one
        if n_words > 1:
            out[t, 1] = two
        if n_words > 2:
            out[t, 2] = three
        start = ends[t]
    return n


@njit(cache=True, nogil=True)
def resolve(trials: Any, draws: Any, fine: Any, cumulative: Any, words: Any, out: Any) -> None:
    """Add the items that were not clear: ``fine`` says where in its slice each falls."""
    for i in range(len(fine)):
        exact = (draws[i] + fine[i]) / 65536.0
        low, high = 0, len(cumulative)
        while low < high:
            middle = (low + high) // 2
            if cumulative[middle] <= exact:
                low = middle + 1
            else:
                high = middle
        for w in range(words.shape[1]):
            out[trials[i], w] += words[low, w]

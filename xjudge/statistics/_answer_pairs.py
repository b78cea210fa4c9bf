"""Pairs of answers of one unit, and how often each kind comes: what a crowd's pair tables are made of."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["counted", "pair_blocks", "pair_meetings"]

Ints = npt.NDArray[np.int64]

_PAIRS_AT_A_TIME = 1 << 21
_LARGEST_TABLE = 1 << 24
"""Cells up to which pairs of raters are counted in a table; above, their keys are sorted."""


def counted(keys: Ints, counts: Ints | None = None) -> tuple[Ints, Ints]:
    """Distinct keys in order, and how often each comes."""
    if counts is None:
        distinct, found = np.unique(keys, return_counts=True)
        return distinct, found.astype(np.int64)
    order = np.argsort(keys, kind="stable")
    keys, counts = keys[order], counts[order]
    starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[: len(keys)])
    return keys[starts], np.add.reduceat(counts, starts) if len(starts) else counts


def pair_meetings(
    unit: npt.NDArray[np.integer[Any]],
    rater: npt.NDArray[np.integer[Any]],
    place: npt.NDArray[np.integer[Any]],
    n_raters: int,
    n_places: int,
    *,
    n_cells: int = 1,
) -> tuple[Ints, Ints]:
    """What pairs of raters say of the units they share.

    Parameters
    ----------
    unit, rater, place : ndarray of int, shape (answer,)
        In any order; one answer of a rater for a unit.
    n_raters, n_places : int
    n_cells : int
        Tables are kept apart by the remainder of the unit.

    Returns
    -------
    key, count : ndarray of int64, shape (found,)
        In increasing order of ``key = ((a R + b) C + cell) P^2 + place_a P + place_b``, ``a < b``.

    Notes
    -----
    Units with the same number of raters are matrices (unit, rank), whose pairs of columns are counted: by
    ``bincount`` where all keys fit a small table, otherwise by sorting what was found.

    Examples
    --------
    >>> import numpy as np
    >>> pair_meetings(np.array([0, 0, 1]), np.array([2, 1, 1]), np.array([0, 1, 1]), 3, 2)
    (array([22]), array([1]))
    """
    if n_raters**2 * n_cells * n_places**2 > np.iinfo(np.int64).max:
        raise OverflowError(f"{n_raters} raters have too many pairs to number.")
    n_keys = n_raters**2 * n_cells * n_places**2
    size = n_cells * n_places**2
    table = np.zeros(n_keys, dtype=np.int64) if n_keys <= _LARGEST_TABLE else None
    keys: list[Ints] = []
    n_held = 0
    found: list[tuple[Ints, Ints]] = []
    for whose, pair, said in pair_blocks(unit, rater, place, n_raters, n_places):
        key = pair * size + said
        if n_cells > 1:
            key += whose % n_cells * n_places**2
        keys.append(key)
        n_held += len(key)
        if n_held >= _PAIRS_AT_A_TIME:
            _flush(keys, table, found)
            n_held = 0
    _flush(keys, table, found)
    if table is not None:
        at = np.flatnonzero(table)
        return at, table[at]
    if not found:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    return counted(*(np.concatenate(arrays) for arrays in zip(*found, strict=True)))


def _flush(keys: list[Ints], table: Ints | None, found: list[tuple[Ints, Ints]]) -> None:
    """Count the keys gathered so far, and forget them."""
    if not keys:
        return
    gathered = np.concatenate(keys)
    keys.clear()
    if table is not None:
        table += np.bincount(gathered, minlength=len(table))
    else:
        found.append(counted(gathered))


def pair_blocks(
    unit: npt.NDArray[np.integer[Any]],
    rater: npt.NDArray[np.integer[Any]],
    place: npt.NDArray[np.integer[Any]],
    n_raters: int,
    n_places: int,
) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Blocks of pairs of answers: the unit, ``a R + b``, ``place_a P + place_b``."""
    place_bits, rater_bits = (n_places - 1).bit_length(), (n_raters - 1).bit_length()
    high = place_bits + rater_bits
    if int(unit.max(initial=0)).bit_length() + high > 62:
        values, unit = np.unique(unit, return_inverse=True)
    else:
        values = None
    # one number for each answer sorts several times faster than positions by several columns
    packed = (unit.astype(np.int64) << high) | (rater.astype(np.int64) << place_bits) | place.astype(np.int64)
    if (packed[1:] < packed[:-1]).any():
        packed.sort()
    unit = packed >> high
    starts = np.flatnonzero(np.append(True, unit[1:] != unit[:-1])[: len(unit)])
    sizes = np.diff(np.append(starts, len(unit)))
    for m in np.unique(sizes[sizes > 1]).tolist():
        of_size = starts[sizes == m]
        step = max(1, _PAIRS_AT_A_TIME // m)
        for at in range(0, len(of_size), step):
            rows = packed[of_size[at : at + step][None, :] + np.arange(m)[:, None]]
            whose = rows[0] >> high
            said = rows & ((1 << place_bits) - 1)
            who = (rows >> place_bits) & ((1 << rater_bits) - 1)
            whose = whose if values is None else values[whose]
            first, before = who * n_raters, said * n_places
            if len(whose) >= m:  # many units: pair of ranks by pair of ranks
                for i, j in itertools.combinations(range(m), 2):
                    yield whose, first[i] + who[j], before[i] + said[j]
            else:  # many raters: one against all behind him
                for i in range(m - 1):
                    pair, both = first[i] + who[i + 1 :], before[i] + said[i + 1 :]
                    yield np.broadcast_to(whose, pair.shape).ravel(), pair.ravel(), both.ravel()

"""Codes of a protocol in a block of items, and distinct rows of whole numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from xjudge.codes import to_codes, translate
from xjudge.statistics.counts import MASKED, Block, Options

__all__ = ["Codes", "Ints", "Rows", "as_they_are", "codes_of", "distinct_rows", "inside_of", "options_of"]

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.signedinteger]
Rows = npt.NDArray[np.integer]

_WORD = 62
"""Bits of a row that are packed into one number."""


# ---------------------------------------------------------------------------------------------- distinct rows


def distinct_rows(rows: Rows, counts: Ints | None = None) -> tuple[Rows, Ints, npt.NDArray[np.intp]]:
    """Distinct rows in lexicographic order.

    Parameters
    ----------
    rows : ndarray of int, shape (n, W)
    counts : ndarray of int64, shape (n,), optional
        How often each row counts; ones by default.

    Returns
    -------
    distinct : ndarray, shape (U, W)
    counts : ndarray of int64, shape (U,)
    place : ndarray of int, shape (n,)
        Where each row went.

    Examples
    --------
    >>> distinct_rows(np.array([[1, 0], [0, 2], [1, 0]]))[:2]
    (array([[0, 2],
           [1, 0]]), array([1, 2]))
    """
    if not len(rows) or not rows.shape[1]:
        total = np.array([len(rows) if counts is None else counts.sum()], dtype=np.int64)
        return rows[:1], total[: len(rows[:1])], np.zeros(len(rows), dtype=np.intp)
    words = _packed(rows)
    if len(words) == 1:
        _, first, place = np.unique(words[0], return_index=True, return_inverse=True)
    else:
        order = np.lexsort(words[::-1])
        changed = np.zeros(len(order), dtype=bool)
        for word in words:
            ordered = word[order]
            changed[1:] |= ordered[1:] != ordered[:-1]
        changed[0] = True
        first = order[changed]
        place = np.empty(len(order), dtype=np.intp)
        place[order] = np.cumsum(changed) - 1
    found = np.bincount(place, weights=counts, minlength=len(first)).astype(np.int64)
    return rows[first], found, place


def _packed(rows: Rows) -> list[Ints]:
    """Rows as few numbers each; comparing those one after the other compares the rows."""
    low = int(rows.min())
    radix = int(rows.max()) - low + 1
    digits = max(1, _WORD // max(1, radix.bit_length()))
    words = []
    for start in range(0, rows.shape[1], digits):
        word = np.zeros(len(rows), dtype=np.int64)
        for column in rows[:, start : start + digits].T:
            word *= radix
            word += column
            word -= low
        words.append(word)
    return words


# -------------------------------------------------------------------------------------------------- the codes


def codes_of(options: Options, block: Block) -> Codes:
    """Protocol codes (item, rater, criterion, other): categories, or negative where there is no label."""
    codes = to_codes(block[options["left"]])
    columns = options["left_columns"]
    if columns is not None and tuple(columns) != tuple(range(codes.shape[1])):
        codes = codes[:, list(columns)]
    if not as_they_are(options) or (codes.size and codes.max() >= options["n_categories"]):
        codes = translate(codes, options["targets"])
    n_criteria = options["n_criteria"]
    return codes.reshape((*codes.shape[:2], n_criteria, codes.shape[2] // n_criteria))


def as_they_are(options: Options) -> bool:
    """Whether the codes are those of the protocol, its outcomes negative too."""
    targets, n_categories = options["targets"], options["n_categories"]
    same = targets[:n_categories] == tuple(range(n_categories))
    return same and all(target < 0 for target in targets[n_categories:])


def inside_of(options: Options, block: Block) -> npt.NDArray[np.bool_] | None:
    """Which units (item, criterion, other) are in the population; ``None`` where all are."""
    codes = block[options["left"]]
    if codes.dtype.kind != "i" or not codes.size or codes.min() > MASKED:
        return None
    n_criteria = options["n_criteria"]
    kept = np.asarray(codes[:, 0] != MASKED)  # a unit is masked for every rater, or for none
    return kept.reshape((len(codes), n_criteria, codes.shape[2] // n_criteria))


def options_of(
    array: str,
    columns: Sequence[int] | None,
    targets: Sequence[int],
    n_categories: int,
    n_criteria: int,
) -> dict[str, Any]:
    return {
        "left": array,
        "left_columns": None if columns is None else tuple(int(c) for c in columns),
        "targets": tuple(int(target) for target in targets),
        "n_categories": n_categories,
        "n_criteria": n_criteria,
    }

"""Leave-one-out counts of equal items at once: what an item adds depends on its label row alone.

With K humans and L categories there are ``(L + 1)^K`` rows of human labels; where these are few, one joint
count of row and verdict for every judge says all, and sums over items are products with a small table.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from xjudge.statistics._class_tables import Classes, class_tables

__all__ = ["merged_counts"]

Counts = npt.NDArray[np.int64]
Codes = npt.NDArray[np.signedinteger]

_MOST_ROWS = 1 << 12
"""Rows of human labels up to which they are told apart."""

_MOST_CATEGORIES = 100

_FIRST_ITEMS = 1 << 12
"""Items that are read for the number of categories before all are."""

_ITEMS_A_CELL = 8
"""Items for each joint value of row and verdict from which counting them together pays."""


def merged_counts(humans: Codes, judges: Codes) -> tuple[Counts, Counts, Counts, Counts, Counts] | None:
    """The fields of :class:`xjudge.statistics.loo.LooCounts`; ``None`` where rows are many or items few.

    Parameters
    ----------
    humans : ndarray of int, shape (item, K)
        Codes; negative = not answered.
    judges : ndarray of int, shape (item, J)

    Notes
    -----
    One count of verdicts for each row. An item that the judge did not label adds nothing.
    """
    n, K = humans.shape
    if not n or not judges.size:
        return None
    few = slice(_FIRST_ITEMS if humans.dtype == judges.dtype == np.int8 else None)
    L = _n_categories(humans[few], judges[few])  # most often of all items
    while _is_worth_it(n, K, L):
        counted, greatest = class_tables(humans, judges, _rows(K, L), range(L), pairs=False)
        if greatest < L and not counted.seen[-1]:
            return _fields(counted.margins, K, L)
        L = _n_categories(humans, judges)
    return None


def _n_categories(humans: Codes, judges: Codes) -> int:
    return int(max(humans.max(), judges.max(), 0)) + 1


def _is_worth_it(n: int, K: int, L: int) -> bool:
    n_rows = (L + 1) ** K
    return n_rows <= _MOST_ROWS and L <= _MOST_CATEGORIES and n >= _ITEMS_A_CELL * n_rows * L


def _fields(margins: Counts, K: int, L: int) -> tuple[Counts, Counts, Counts, Counts, Counts]:
    """The fields from counts (row, judge, verdict)."""
    J, V = margins.shape[1], 2 * K + 1
    joint = margins.swapaxes(0, 1).reshape(J, -1)
    # not by `@`: of so small matrices a threaded BLAS makes slow work; below 2^53 all sums are exact
    found = np.einsum("jr,rf->jf", joint.astype(np.float64), _values(K, L)).astype(np.int64)
    ends = np.cumsum([K * K, K * K, K * K, K])
    hits, same, overlap, some, moments = np.split(found, ends, axis=1)
    return (
        hits.reshape(J, K, K),
        same.reshape(J, K, K),
        overlap.reshape(J, K, K),
        some,
        moments.reshape(J, V, V),
    )


@lru_cache(maxsize=16)
def _rows(K: int, L: int) -> Classes:
    """Classes of items: the rows of labels of K humans, digits from 0 (no answer), the first the highest.

    The last class is that of rows with a code beyond the L categories, which are not counted.
    """
    n_rows = (L + 1) ** K
    weights = np.zeros((K, 256), dtype=np.int32)
    weights[:, :128] = n_rows
    weights[:, :L] = np.arange(1, L + 1) * (L + 1) ** np.arange(K)[::-1, None]
    numbers = np.arange((K + 1) * n_rows, dtype=np.int32)
    return Classes(weights, np.minimum(numbers, n_rows), n_rows, n_rows + 1)


@lru_cache(maxsize=16)
def _values(K: int, L: int) -> npt.NDArray[np.float64]:
    """What one item with each joint value of row and verdict adds to the fields, one after the other."""
    n_rows = (L + 1) ** K
    rows = np.indices((L + 1,) * K).reshape(K, n_rows).T - 1
    labels, verdict = np.repeat(rows, L, axis=0), np.tile(np.arange(L), n_rows)
    answered = labels >= 0
    both = answered[:, :, None] & answered[:, None, :] & ~np.eye(K, dtype=bool)
    agreed = both & (labels == verdict[:, None])[:, None, :]
    same = both & (labels[:, :, None] == labels[:, None, :])
    n_pairs = both.sum(2)
    z = agreed.sum(2) - same.sum(2)
    v = np.concatenate([np.ones((len(labels), 1), dtype=np.int64), z, n_pairs], axis=1)
    fields = (agreed, same, both, n_pairs > 0, v[:, :, None] * v[:, None, :])
    return np.concatenate([field.reshape(len(labels), -1) for field in fields], axis=1, dtype=np.float64)

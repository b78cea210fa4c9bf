"""Leave-one-out counts of equal items at once: what an item adds depends on its label row alone.

With K humans and L categories there are ``(L + 1)^K`` rows of human labels; where these are few, one joint
count of row and verdict for every judge says all, and sums over items are products with a small table.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from xjudge.codes import N_OUTCOMES
from xjudge.statistics.counts import Axes, count_block, pairs

__all__ = ["merged_counts"]

Counts = npt.NDArray[np.int64]
Codes = npt.NDArray[np.signedinteger]

_MOST_ROWS = 1 << 12
"""Rows of human labels up to which they are told apart."""

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
    One joint count for each judge. An item that the judge did not label adds nothing.
    """
    n, K = humans.shape
    if not n or not judges.size:
        return None
    L = int(max(humans.max(), judges.max(), 0)) + 1
    n_rows = (L + 1) ** K
    if n_rows > _MOST_ROWS or n < _ITEMS_A_CELL * n_rows * L:
        return None
    row = np.zeros(n, dtype=np.int16)
    for k in range(K):
        row *= np.int16(L + 1)
        row += np.maximum(humans[:, k], -1).astype(np.int16)
        row += np.int16(1)
    nowhere = (-1,) * N_OUTCOMES
    request = pairs(
        n_rows,
        left="rows",
        left_targets=(*range(n_rows), *nowhere),
        right="verdicts",
        right_targets=(*range(L), *nowhere),
        n_right_categories=L,
    )
    block = {"rows": row[:, None, None], "verdicts": judges[:, :, None]}
    ((counted,),) = count_block([request], Axes(), block)[0]
    joint = counted[0, 0].reshape(judges.shape[1], n_rows * L)
    labels = np.indices((L + 1,) * K).reshape(K, n_rows).T - 1
    found = (joint @ table for table in _tables(np.repeat(labels, L, axis=0), np.tile(np.arange(L), n_rows)))
    hits, same, overlap, some, moments = found
    square = (judges.shape[1], K, K)
    V = 2 * K + 1
    return (
        hits.reshape(square),
        same.reshape(square),
        overlap.reshape(square),
        some,
        moments.reshape(-1, V, V),
    )


def _tables(labels: npt.NDArray[np.intp], verdict: npt.NDArray[np.intp]) -> list[Counts]:
    """What one item with each joint value adds to each field, as rows."""
    K = labels.shape[1]
    answered = labels >= 0
    both = answered[:, :, None] & answered[:, None, :] & ~np.eye(K, dtype=bool)
    agreed = both & (labels == verdict[:, None])[:, None, :]
    same = both & (labels[:, :, None] == labels[:, None, :])
    n_pairs = both.sum(2)
    z = agreed.sum(2) - same.sum(2)
    v = np.concatenate([np.ones((len(labels), 1), dtype=np.int64), z, n_pairs], axis=1)
    fields = (agreed, same, both, n_pairs > 0, v[:, :, None] * v[:, None, :])
    return [field.reshape(len(labels), -1).astype(np.int64) for field in fields]

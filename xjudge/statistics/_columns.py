"""Columns of codes, as kernels read them: bounds, blocks of items, and the places at which codes are counted.

Codes are counted as they are: categories ``>= 0``, outcomes ``-1, -2, -3``. Only the finished counts, small
as they are, are moved to the places of the caller; translating labels (:func:`places_of`) would cost more
than counting them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from xjudge.codes import N_OUTCOMES, to_codes

__all__ = ["Columns", "extent", "places_of"]

Codes = npt.NDArray[np.signedinteger]
Tables = npt.NDArray[np.int64]


_READ_LABELS = 1 << 20
"""Labels that are read for the least and again for the greatest code while they are in a cache."""


def extent(codes: Codes) -> tuple[int, int]:
    """Least and greatest of some codes, 0 and 0 where there are none; memory is read once.

    Floats that ``where`` left behind are read as the codes they stand for.
    """
    if not codes.size:
        return 0, 0
    step = max(1, _READ_LABELS * len(codes) // codes.size)
    parts = [to_codes(codes[start : start + step]) for start in range(0, len(codes), step)]
    ends = [(int(part.min()), int(part.max())) for part in parts]
    return min(low for low, _ in ends), max(high for _, high in ends)


@dataclass(frozen=True)
class Columns:
    """Columns of codes, and the place at which each code is counted.

    Parameters
    ----------
    codes : ndarray of signed int, shape (item, column, cell)
    targets : sequence of int
        Place of each code: of category ``c`` at ``c``, of outcome ``-1 - j`` at ``n_categories + j``, the
        number of categories being ``len(targets) - 3``. A place that is negative or not below
        ``n_places`` means "count nowhere"; codes that are neither category nor outcome go nowhere too.
    n_places : int
        Number of places.
    chosen : sequence of int, optional
        Which columns, in which order; all by default.
    ends : pair of int, optional
        Least and greatest of the codes, where they are known.
    """

    codes: Codes
    targets: Sequence[int]
    n_places: int
    chosen: Sequence[int] | None = None
    ends: tuple[int, int] | None = None

    @property
    def n_columns(self) -> int:
        """Number of columns that are counted."""
        return self.codes.shape[1] if self.chosen is None else len(self.chosen)

    @property
    def n_categories(self) -> int:
        """Number of categories of the codes."""
        return len(self.targets) - N_OUTCOMES

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """Least and greatest code; all codes beyond an end of the scale are taken as the next one there."""
        below, above = -N_OUTCOMES - 1, self.n_categories
        low, high = extent(self.codes) if self.ends is None else self.ends
        return min(max(low, below), above), min(max(high, below), above)

    @property
    def radix(self) -> int:
        """How many codes there are within the bounds."""
        return self.bounds[1] - self.bounds[0] + 1

    @property
    def inside(self) -> bool:
        """Whether no code lies beyond the scale and its outcomes."""
        low, high = self.bounds
        return low >= -N_OUTCOMES and high < self.n_categories

    @cached_property
    def runs(self) -> list[tuple[int, int, int]]:
        """Codes that are counted: (code, place, length) of each run where code and place go up together."""
        low, high = self.bounds
        runs: list[tuple[int, int, int]] = []
        for code in range(max(low, -N_OUTCOMES), min(high + 1, self.n_categories)):
            place = self.targets[code if code >= 0 else self.n_categories - 1 - code]
            if not 0 <= place < self.n_places:
                continue
            if runs and (code - runs[-1][0], place - runs[-1][1]) == (runs[-1][2],) * 2:
                runs[-1] = (*runs[-1][:2], runs[-1][2] + 1)
            else:
                runs.append((code, place, 1))
        return runs

    def block(self, items: slice, cells: slice = slice(None)) -> Codes:
        """Codes of some items and cells, within the bounds: shape (cell, column, item), contiguous."""
        part = self.codes[items, :, cells]
        if self.chosen is None:
            rows = np.ascontiguousarray(part.transpose(2, 1, 0))
        else:
            rows = np.empty((part.shape[2], len(self.chosen), part.shape[0]), dtype=part.dtype)
            for row, column in enumerate(self.chosen):
                rows[:, row] = part[:, column].T
        return rows if self.inside else rows.clip(*self.bounds)

    def counted(self, items: slice) -> npt.NDArray[np.bool_]:
        """Which codes of some items are counted at some place: shape (cell, column, item)."""
        rows = self.block(items)
        out = np.zeros(rows.shape, dtype=np.bool_)
        for code, _, length in self.runs:
            out |= (rows >= code) & (rows < code + length)
        return out

    def at_places(self, counts: Tables, axis: int) -> Tables:
        """Move an axis of counts from the codes within the bounds to their places."""
        axis %= counts.ndim
        out = np.zeros((*counts.shape[:axis], self.n_places, *counts.shape[axis + 1 :]), dtype=np.int64)
        before = (slice(None),) * axis
        for code, place, length in self.runs:
            start = code - self.bounds[0]
            out[(*before, slice(place, place + length))] += counts[(*before, slice(start, start + length))]
        return out


def places_of(codes: Codes, targets: npt.NDArray[np.intp], n_places: int) -> npt.NDArray[np.unsignedinteger]:
    """Places at which codes are counted, label by label.

    Parameters
    ----------
    codes : ndarray of signed int, any shape
    targets : ndarray of int, shape (n_categories + 3,)
        As in :class:`Columns`, with ``n_places`` for "count nowhere".
    n_places : int
        Number of places.

    Returns
    -------
    ndarray of uint8 or uint16, same shape
        The place, ``n_places`` for codes that are counted nowhere (masked, or outside the scale).
    """
    dtype: np.dtype[np.unsignedinteger] = np.dtype(np.uint8 if n_places < 255 else np.uint16)
    n_categories = len(targets) - N_OUTCOMES
    if codes.dtype.itemsize == 1:
        table = np.full(256, n_places, dtype=dtype)
        reachable = min(n_categories, 128)  # int8 labels of a longer scale
        table[:reachable] = targets[:reachable]
        table[[255, 254, 253]] = targets[n_categories:]
        return table[codes.view(np.uint8)]
    shifted = np.where(codes >= 0, codes, n_categories - 1 - codes.astype(np.int64))
    inside = (codes < n_categories) & (codes >= -N_OUTCOMES)
    extended = np.append(targets, n_places).astype(dtype)
    return extended[np.where(inside, shifted, len(targets))]

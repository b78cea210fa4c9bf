"""Sums of many small tables, several times as fast as numpy's reductions, which pay for each short axis.

Of float64 arrays; of booleans ``einsum`` would make an "or".
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["along_last", "column_sums", "row_sums", "table_sums"]

Float = npt.NDArray[np.float64]


def along_last(values: Float) -> Float:
    """Sum over the last axis."""
    return np.einsum("...i->...", values)


def row_sums(table: Float) -> Float:
    """Margin of the rows, ``(..., L, M)`` to ``(..., L)``."""
    return np.einsum("...ij->...i", table)


def column_sums(table: Float) -> Float:
    """Margin of the columns, ``(..., L, M)`` to ``(..., M)``."""
    return np.einsum("...ij->...j", table)


def table_sums(table: Float) -> Float:
    """Sum of all cells, ``(..., L, M)`` to ``(...)``."""
    return np.einsum("...ij->...", table)

"""Whether compiled kernels are taken, and how they read an array."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Side", "compiled", "side_of"]

_COMPILED = "xjudge.statistics._fast"

_FEW, _FEW_ONCE_LOADED = 1 << 19, 1 << 15
"""Labels below which numpy is quicker: before numba is loaded, which takes some 0.3 s, and after."""

_WIDE = 4
"""Columns of an array, as a multiple of those that are read, from which those are copied out first."""


class Side(NamedTuple):
    """Where labels (item, column, cell) of one byte stand in memory.

    Parameters
    ----------
    layout : tuple of int
        Address of the first label; bytes from an item to the next; bytes that an item has side by side;
        bytes from a cell to the next.
    columns : ndarray of int64
        Bytes from the first column to each.
    held : ndarray
        What must outlive the addresses.
    """

    layout: tuple[int, int, int, int]
    columns: npt.NDArray[np.int64]
    held: npt.NDArray[np.integer]


def compiled(n_labels: int) -> ModuleType | None:
    """Compiled kernels, where numba is present and so many labels are worth it; otherwise ``None``."""
    return None if n_labels < (_FEW_ONCE_LOADED if _COMPILED in sys.modules else _FEW) else _loaded()


@cache
def _loaded() -> ModuleType | None:
    if importlib.util.find_spec("numba") is None:
        return None
    try:
        from xjudge.statistics import _fast
    except (ImportError, RuntimeError):  # a numba for another numpy, or no folder for what it compiles
        return None
    return _fast


def side_of(codes: npt.NDArray[np.integer], chosen: Sequence[int] | None = None) -> Side | None:
    """How compiled kernels read labels (item, column, cell) where they stand.

    Returns
    -------
    Side or None
        ``None`` where labels have to be copied first: they are no bytes, neither the items nor the columns
        are next to each other, or few of many columns are read.
    """
    if codes.dtype != np.int8 or not codes.size:
        return None
    _, n_columns, n_cells = codes.shape
    by_item, by_column, by_cell = codes.strides
    places = np.arange(n_columns) if chosen is None else np.array(chosen, dtype=np.int64)
    address = codes.__array_interface__["data"][0]
    if by_item == 1:
        return Side((address, 1, 0, by_cell), places * by_column, codes)
    dense = (n_cells == 1 or by_cell == 1) and (n_columns == 1 or by_column == n_cells)
    if not dense or by_item < 1 or _WIDE * len(places) < n_columns:
        return None
    return Side((address, by_item, n_columns * n_cells, 1), places * n_cells, codes)

"""Item coordinates as columns of numbers, for the models of abstention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from xjudge.errors import ProtocolError, StructureError
from xjudge.view import View

__all__ = ["feature_columns"]

_FEW_LEVELS = 8


def feature_columns(
    view: View, features: str | Sequence[str], used: npt.NDArray[np.bool_]
) -> tuple[list[str], npt.NDArray[np.float64]]:
    """Columns of numbers from item coordinates.

    Parameters
    ----------
    view : View
    features : str or sequence of str
        Coordinates or variables along ``item``.
    used : ndarray of bool, shape (item,)
        Items that need a value.

    Returns
    -------
    names : list of str
        Of the columns: the coordinate, or ``coordinate=level`` for each level of text but the first.
    columns : ndarray, shape (item, column)
        0 in items that are not used.

    Raises
    ------
    StructureError
        No such coordinate; a value that is missing or not finite; something that is neither numbers nor text.
    ProtocolError
        A name given twice; text with nearly as many levels as items.
    """
    given = [features] if isinstance(features, str) else list(features)
    if len(set(given)) != len(given):
        raise ProtocolError(f"`features` names a coordinate twice: {given!r}.")
    names: list[str] = []
    columns: list[npt.NDArray[np.float64]] = [np.empty((view.n_items, 0))]
    for name in given:
        values = view.item_values(name, "features")
        lost = int((pd.isna(values) & used).sum())
        if lost:
            raise StructureError(
                f"`features`: {name!r} is missing on {lost} items; fill it, or leave them out by a "
                "population."
            )
        found, block = _columns(name, values, used)
        names += found
        columns.append(np.where(used[:, None], block, 0.0))
    return names, np.concatenate(columns, axis=1)


def _columns(
    name: str, values: npt.NDArray[Any], used: npt.NDArray[np.bool_]
) -> tuple[list[str], npt.NDArray[np.float64]]:
    """One coordinate: as it is, or an indicator for each level but the first."""
    if values.dtype.kind == "O":
        present = [value for value in values[used] if not isinstance(value, bool | np.bool_)]
        if all(isinstance(value, int | float | np.number) for value in present):
            values = pd.to_numeric(pd.Series(values), errors="coerce").to_numpy(dtype=np.float64)
    if values.dtype.kind in "biuf":
        numbers = values.astype(np.float64)
        if not np.isfinite(numbers[used]).all():
            raise StructureError(f"`features`: {name!r} is infinite on some items.")
        return [name], numbers[:, None]
    if values.dtype.kind not in "OUST":
        raise StructureError(
            f"`features`: {name!r} holds {values.dtype}; features are numbers, booleans or text."
        )
    text = values.astype(str).astype(object)
    levels = sorted(set(text[used]))
    if len(levels) > _FEW_LEVELS and 2 * len(levels) > used.sum():
        raise ProtocolError(
            f"`features`: {name!r} has {len(levels)} levels on {int(used.sum())} items, which tells nothing "
            "about items alike; group its values first."
        )
    # the first level is what the others are compared with; alone it has its column, which is constant
    kept = levels[1:] if len(levels) > 1 else levels
    block = (text[:, None] == np.array(kept, dtype=object)).astype(np.float64)
    return [f"{name}={level}" for level in kept], block.reshape(len(text), len(kept))

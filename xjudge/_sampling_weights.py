"""Items that were drawn at unequal rates, and results that count every item once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from xjudge.errors import XJudgeWarning, warn
from xjudge.view import View

__all__ = ["WEIGHT", "unequal", "warn_unequal"]

WEIGHT = "sampling_weight"
"""Coordinate along items: how many a drawn one stands for, as :func:`xjudge.allocate` leaves it."""

_ROUNDING = 1e-9


def unequal(view: View, group: npt.NDArray[np.integer] | None = None) -> tuple[float, float] | None:
    """The least and the greatest weight of items that are counted together.

    Parameters
    ----------
    view : View
    group : ndarray of int, shape (item,), optional
        Slices, which are not counted together; negative where an item is in none.

    Returns
    -------
    tuple of float, or None
        ``None`` without the coordinate, and where all that are drawn weigh alike: 0 and NaN are not drawn.
    """
    if WEIGHT not in view.data.variables:
        return None
    variable = view.data[WEIGHT]
    if variable.dims != ("item",) or variable.dtype.kind not in "iufO":
        return None
    values = pd.Series(view.item_values(WEIGHT, WEIGHT))
    weight = pd.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    slices = np.zeros(len(weight), dtype=np.intp) if group is None else np.asarray(group)
    drawn = (weight > 0) & np.isfinite(weight) & (slices >= 0)
    weight, slices = weight[drawn], slices[drawn]
    if not len(weight):
        return None
    least, most = np.full(int(slices.max()) + 1, np.inf), np.zeros(int(slices.max()) + 1)
    np.minimum.at(least, slices, weight)
    np.maximum.at(most, slices, weight)
    if not (most - least > _ROUNDING * most).any():
        return None
    return float(weight.min()), float(weight.max())


def warn_unequal(ends: Sequence[float] | None) -> None:
    """Say that a result counts items alike that do not stand for equally many."""
    if ends is None:
        return
    warn(
        f"Items were drawn at unequal rates (`{WEIGHT}` from {ends[0]:g} to {ends[1]:g}), and this result "
        "counts every item once: it is of the items that were drawn, not of those they stand for. Estimate "
        "by stratum (`by='stratum'`, or a selection) and weigh the strata by their items; "
        f"xj.loo_validate honours the weights. If they are not meant, `ds.drop_vars({WEIGHT!r})`.",
        XJudgeWarning,
    )

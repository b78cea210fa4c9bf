"""From finished arrays to labelled results: axes placed and named, attributes that suffice to recompute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from xjudge.labelled._common import flat_attrs, version
from xjudge.labelled._sides import Sides
from xjudge.outcomes import Cases
from xjudge.view import View

__all__ = ["named_result", "placed", "result_attrs", "share"]

Floats = npt.NDArray[np.float64]


def share(part: npt.NDArray[Any], whole: npt.NDArray[Any]) -> Floats:
    """Quotient, NaN where the denominator is 0."""
    shape = np.broadcast_shapes(np.shape(part), np.shape(whole))
    return np.divide(part, whole, out=np.full(shape, np.nan), where=np.asarray(whole) > 0)


def placed(
    view: View, sides: Sides, array: npt.NDArray[Any], *, criterion: bool, trailing: int = 0
) -> npt.NDArray[Any]:
    """From (..., criterion, other, A, B, *trailing) to (..., *sides[, criterion], *others, *trailing)."""
    axis = array.ndim - trailing - 4
    array = np.moveaxis(array, (axis, axis + 1), (axis + 2, axis + 3))
    shape = array.shape
    array = array.reshape((*shape[: axis + 3], *view.others.values(), *shape[axis + 4 :]))
    kept = sides.left_is_dim, sides.right_is_dim, criterion
    drop = [axis + place for place, keep in enumerate(kept) if not keep]
    return array.squeeze(tuple(drop)) if drop else array


def named_result(
    view: View,
    sides: Sides,
    cases: Cases,
    arrays: dict[str, Any],
    *,
    lead: Sequence[str] = (),
    criterion: bool,
    trailing: dict[str, tuple[str, ...]] | None = None,
) -> xr.Dataset:
    """Name the axes of finished arrays.

    Parameters
    ----------
    lead : sequence of str
        Dims before all others.
    criterion : bool
        Whether the results are per criterion.
    trailing : dict, optional
        Dims after all others, by variable; ``""`` stands for every other variable.
    """
    rest = [dim for dim in view.rest if criterion or dim != "criterion"]
    slices = [] if cases.by is None else [cases.by]
    dims = [*lead, *slices, *sides.dims, *rest]
    ends = {"": ()} if trailing is None else {"": (), **trailing}
    variables = {name: ([*dims, *ends.get(name, ends[""])], array) for name, array in arrays.items()}
    coords: dict[str, Any] = dict(view.coordinates(*rest))
    if cases.by is not None:
        coords[cases.by] = (cases.by, cases.slices)
    left, right = np.array(sides.left, dtype=np.intp), np.array(sides.right, dtype=np.intp)
    if "rater" in sides.dims:
        for name, variable in view.coordinates("rater").items():
            coords[name] = variable.isel(rater=right) if variable.dims else variable
        coords["rater"] = ("rater", view.named(right))
    elif not sides.pairs:
        coords |= {"rater_a": ("rater_a", view.named(left)), "rater_b": ("rater_b", view.named(right))}
    if sides.kind == "each":
        coords["reference"] = ("reference", view.named(left))
    elif sides.kind != "raters":
        coords["reference"] = view.named(left)[0] if sides.kind == "one" else sides.kind
    return xr.Dataset(variables, coords=coords)


def result_attrs(verb: str, view: View, sides: Sides, **more: Any) -> dict[str, str | int | float]:
    """Attributes that suffice to recompute the result from the dataset; ``None`` is left out."""
    known: dict[str, Any] = {"verb": verb, "scale": view.scale}
    left = view.named(np.array(sides.left, dtype=np.intp))
    if sides.kind == "raters":
        known["raters"] = left
    else:
        known["reference"] = left[0] if sides.kind == "one" else sides.kind
        if not sides.pairs:  # a human judged by the vote is named among `raters`
            word = "raters" if sides.kind == "majority" and set(sides.right) & set(sides.left) else "judges"
            known[word] = view.named(np.array(sides.right, dtype=np.intp))
        if sides.kind != "one":
            known["humans"] = view.stated(np.array(sides.left, dtype=np.intp), "humans")
    known |= more
    known = {name: value for name, value in known.items() if value is not None}
    return flat_attrs(known | {"xjudge_version": version()})

"""Match the ids of two sides, and move everything to the places of the result.

Ids are matched once, by kind and value. Labels move with the fill -1, so that codes stay integers, lazily
where they are lazy; coordinates of both sides become one where they do not contradict each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from xjudge._ingest import Problems, kind_of, plain
from xjudge.codes import MISSING, to_codes
from xjudge.errors import OverlapError, StructureError, listing
from xjudge.lazy import metadata_values

__all__ = ["Coord", "Match", "integer_codes", "match_ids", "merged_coords", "moved", "moved_coords"]

_FILLS: Final = {"label": MISSING, "count": 0}


@dataclass(frozen=True)
class Match:
    """Ids of two sides along one dim, those of the result, and where each side has them.

    Parameters
    ----------
    dim : str
    ids : pandas.Index
        Ids of the result.
    positions : pair of ndarray of int or None
        Per side and id of the result, the position on that side, -1 where it is not there; ``None`` where
        the side stays as it is.
    n_matched : int
    left_only, right_only : pandas.Index
    """

    dim: str
    ids: pd.Index[Any]
    positions: tuple[npt.NDArray[np.intp] | None, npt.NDArray[np.intp] | None]
    n_matched: int
    left_only: pd.Index[Any]
    right_only: pd.Index[Any]


def match_ids(dim: str, left: Any, right: Any, how: str, *, may_be_empty: bool = False) -> Match:
    """Match ids along one dim.

    Raises
    ------
    StructureError
        Ids of different types, or repeated ids.
    OverlapError
        No id in common, unless ``may_be_empty``.
    """
    here, there = _index(left), _index(right)
    for name, ids in (("dataset", here), ("other", there)):
        if not ids.is_unique:
            repeated = ids[ids.duplicated()].unique()
            raise StructureError(f"The {name} repeats ids along `{dim}`: {listing(repeated.tolist())}.")
    first, second = here[:1].tolist(), there[:1].tolist()
    if first and second and kind_of(first[0]) != kind_of(second[0]):
        raise StructureError(
            f"The {dim} ids are of different types, {first[0]!r} in the dataset and {second[0]!r} in the "
            "other: they would never match. Make them one type first, e.g. `df[column].astype(str)`."
        )
    in_other, in_dataset = there.get_indexer(here), here.get_indexer(there)
    matched = np.flatnonzero(in_other >= 0)
    new = np.flatnonzero(in_dataset < 0)
    if not len(matched) and not may_be_empty:
        raise OverlapError(
            f"No {dim} is in both: the dataset has {listing(here.tolist())}, the other "
            f"{listing(there.tolist())}."
        )
    alone = np.flatnonzero(in_other < 0)
    ids, at = {
        "left": (here, (None, in_other)),
        "inner": (here[matched], (matched, in_other[matched])),
        "outer": (
            here.append(there[new]),
            (np.append(np.arange(len(here)), np.full(len(new), -1)), np.append(in_other, new)),
        ),
        "right": (there, (in_dataset, None)),
    }[how]
    return Match(dim, ids, at, len(matched), here[alone], there[new])


def _index(values: Any) -> pd.Index[Any]:
    """Ids as an index; text as objects, whatever array holds it."""
    array = np.asarray(values)
    return pd.Index(array.astype(object), dtype=object) if array.dtype.kind in "OUT" else pd.Index(array)


def integer_codes(label: xr.DataArray) -> xr.DataArray:
    """Labels as integer codes, lazily where they are lazy."""
    if label.dtype.kind == "i":
        return label
    return xr.apply_ufunc(to_codes, label, dask="parallelized", output_dtypes=[np.int32], keep_attrs=True)


def moved(ds: xr.Dataset, places: Mapping[str, Match], side: int) -> dict[str, xr.DataArray]:
    """Variables at the places of the result, holes with the right fill; no coordinates."""
    variables = {str(name): ds[name].variable for name in ds.data_vars} | {
        "label": integer_codes(ds["label"]).variable
    }
    out = {}
    for name, variable in variables.items():
        fill = variable.dtype.type(_FILLS[name]) if name in _FILLS else np.nan
        array = xr.DataArray(variable)
        for dim in map(str, variable.dims):
            at = places[dim].positions[side] if dim in places else None
            if at is not None:
                array = _taken(array, dim, at, fill)
        out[name] = array
    return out


def _taken(array: xr.DataArray, dim: str, at: npt.NDArray[np.intp], fill: Any) -> xr.DataArray:
    """Values at positions along a dim, ``fill`` where the position is -1."""
    if not array.sizes[dim]:  # nothing to take from: all is fill
        shape = [len(at) if name == dim else size for name, size in array.sizes.items()]
        return xr.DataArray(np.full(shape, fill, dtype=np.result_type(array.dtype, fill)), dims=array.dims)
    taken = array.isel({dim: np.maximum(at, 0)})
    held = at >= 0
    return taken if held.all() else xr.where(xr.DataArray(held, dims=dim), taken, fill).transpose(*array.dims)


# ----------------------------------------------------------------------------------------------- coordinates


@dataclass(frozen=True)
class Coord:
    """A coordinate at the places of the result, and where it has a value."""

    dims: tuple[str, ...]
    values: npt.NDArray[Any]
    held: npt.NDArray[np.bool_]


def moved_coords(ds: xr.Dataset, places: Mapping[str, Match], side: int) -> dict[str, Coord]:
    """Coordinates other than ids, at the places of the result, in memory."""
    at_places = {}
    for name, coord in ds.coords.items():
        if name in ds.dims:
            continue
        values = metadata_values(coord.variable.data)
        held = ~_null(values)
        for axis, dim in enumerate(map(str, coord.dims)):
            at = places[dim].positions[side] if dim in places else None
            if at is None:
                continue
            if not values.shape[axis]:  # nothing to take from: any value will do, since none is held
                shape = [max(size, 1) for size in values.shape]
                values, held = np.zeros(shape, dtype=values.dtype), np.zeros(shape, dtype=bool)
            values, held = values.take(at, axis=axis), held.take(at, axis=axis)
            held = held & (at >= 0).reshape([-1 if k == axis else 1 for k in range(held.ndim)])
        at_places[str(name)] = Coord(tuple(map(str, coord.dims)), values, held)
    return at_places


def _null(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    if values.dtype.kind in "OUT":
        return np.asarray(pd.isna(values.astype(object)) | (values.astype(object) == ""))
    return np.asarray(pd.isna(values))


def merged_coords(sides: list[dict[str, Coord]], places: Mapping[str, Match]) -> dict[str, Any]:
    """Coordinates of both sides; where both have a value it is the same, or an error."""
    merged: dict[str, Any] = {dim: (dim, _as_ids(match.ids)) for dim, match in places.items()}
    problems = Problems()
    for name in [*sides[0], *(name for name in sides[1] if name not in sides[0])]:
        have = [side[name] for side in sides if name in side]
        if len(have) == 1:
            merged[name] = (have[0].dims, _filled(have[0]))
            continue
        left, right = have
        if left.dims != right.dims:
            problems.add(f"The coordinate {name!r} lives on {left.dims} here and on {right.dims} there.")
            continue
        if _is_text(left) != _is_text(right):
            problems.add(f"The coordinate {name!r} holds text on one side alone; make it one type.")
            continue
        differ = left.held & right.held & np.asarray(left.values != right.values)
        if differ.any():
            problems.add(_difference(name, left, right, differ, places))
            continue
        values = np.where(left.held, left.values, right.values)
        merged[name] = (left.dims, _filled(Coord(left.dims, values, left.held | right.held)))
    problems.raise_if_any()
    return merged


def _difference(
    name: str, left: Coord, right: Coord, differ: npt.NDArray[np.bool_], places: Mapping[str, Match]
) -> str:
    shown = []
    for place in np.argwhere(differ)[:3]:
        at = ", ".join(
            f"{dim} {plain(places[dim].ids[k])!r}" for dim, k in zip(left.dims, place, strict=True)
        )
        shown.append(f"{at}: {plain(left.values[tuple(place)])!r} and {plain(right.values[tuple(place)])!r}")
    more = f"; and {int(differ.sum()) - 3} more" if differ.sum() > 3 else ""
    return (
        f"The coordinate {name!r} differs between the two: {'; '.join(shown)}{more}. Correct it, or drop or "
        "rename it on one side."
    )


def _is_text(coord: Coord) -> bool:
    return coord.values.dtype.kind in "OUT"


def _filled(coord: Coord) -> npt.NDArray[Any]:
    """Values of a coordinate, holes as files keep them: empty text, NaN, NaT."""
    values, held = coord.values, coord.held
    if values.dtype.kind in "OUT":
        return np.where(held, values.astype(object), "")
    if held.all():
        return values
    if values.dtype.kind in "mM":
        return np.where(held, values, np.array("NaT", dtype=values.dtype))
    return np.where(held, values.astype(np.float64), np.nan)


def _as_ids(ids: pd.Index[Any]) -> npt.NDArray[Any]:
    values = np.asarray(ids)
    return values.astype(object) if values.dtype.kind in "UT" and len(values) else values

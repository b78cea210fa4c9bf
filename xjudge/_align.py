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

__all__ = ["Coord", "Match", "match_ids", "merged_coords", "moved", "moved_coords"]

_FILLS: Final = {"label": MISSING, "count": 0}


@dataclass(frozen=True)
class Match:
    """Ids of two sides along one dim, and those of the result."""

    dim: str
    ids: pd.Index[Any]
    n_matched: int
    left_only: pd.Index[Any]
    right_only: pd.Index[Any]


def match_ids(dim: str, left: Any, right: Any, how: str) -> Match:
    """Match ids along one dim.

    Raises
    ------
    StructureError
        Ids of different types, or repeated ids.
    OverlapError
        No id in common.
    """
    sides = {"dataset": pd.Index(left), "other": pd.Index(right)}
    kinds = {}
    for name, ids in sides.items():
        if not ids.is_unique:
            repeated = ids[ids.duplicated()].unique()
            raise StructureError(f"The {name} repeats ids along `{dim}`: {listing(repeated.tolist())}.")
        kinds[name] = {kind_of(value) for value in ids[:1].tolist()}
    here, there = sides.values()
    if kinds["dataset"] and kinds["other"] and kinds["dataset"] != kinds["other"]:
        raise StructureError(
            f"The {dim} ids are of different types, {here[:1].tolist()[0]!r} in the dataset and "
            f"{there[:1].tolist()[0]!r} in the other: they would never match. Make them one type first, e.g. "
            "`df[column].astype(str)`."
        )
    matched = here[here.isin(there)]
    left_only, right_only = here[~here.isin(there)], there[~there.isin(here)]
    if not len(matched):
        raise OverlapError(
            f"No {dim} is in both: the dataset has {listing(here.tolist())}, the other "
            f"{listing(there.tolist())}."
        )
    ids = {"left": here, "inner": matched, "outer": here.append(right_only), "right": there}[how]
    return Match(dim, ids, len(matched), left_only, right_only)


def _integer_codes(label: xr.DataArray) -> xr.DataArray:
    """Labels as integer codes, lazily where they are lazy."""
    if label.dtype.kind == "i":
        return label
    return xr.apply_ufunc(to_codes, label, dask="parallelized", output_dtypes=[np.int32], keep_attrs=True)


def moved(ds: xr.Dataset, places: Mapping[str, pd.Index[Any]]) -> xr.Dataset:
    """Variables at the places of the result, holes with the right fill; coordinates of dims alone."""
    data = ds.drop_vars([name for name in ds.coords if name not in ds.dims])
    data = data.assign(label=_integer_codes(data["label"]))
    moving = {
        dim: ids
        for dim, ids in places.items()
        if dim in data.dims and not pd.Index(data[dim].values).equals(ids)
    }
    fills = {
        name: variable.dtype.type(_FILLS[str(name)]) if name in _FILLS else np.nan
        for name, variable in data.data_vars.items()
    }
    return data.reindex(moving, fill_value=fills) if moving else data


# ----------------------------------------------------------------------------------------------- coordinates


@dataclass(frozen=True)
class Coord:
    """A coordinate at the places of the result, and where it has a value."""

    dims: tuple[str, ...]
    values: npt.NDArray[Any]
    held: npt.NDArray[np.bool_]


def moved_coords(ds: xr.Dataset, places: Mapping[str, pd.Index[Any]]) -> dict[str, Coord]:
    at_places = {}
    for name, coord in ds.coords.items():
        if name in ds.dims:
            continue
        values = metadata_values(coord.variable.data)
        held = ~_null(values)
        for axis, dim in enumerate(map(str, coord.dims)):
            if dim not in places:
                continue
            at = pd.Index(ds[dim].values).get_indexer(places[dim])
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


def merged_coords(sides: list[dict[str, Coord]], places: Mapping[str, pd.Index[Any]]) -> dict[str, Any]:
    """Coordinates of both sides; where both have a value it is the same, or an error."""
    merged: dict[str, Any] = {dim: (dim, _as_ids(ids)) for dim, ids in places.items()}
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
    name: str, left: Coord, right: Coord, differ: npt.NDArray[np.bool_], places: Mapping[str, pd.Index[Any]]
) -> str:
    shown = []
    for place in np.argwhere(differ)[:3]:
        at = ", ".join(f"{dim} {plain(places[dim][k])!r}" for dim, k in zip(left.dims, place, strict=True))
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

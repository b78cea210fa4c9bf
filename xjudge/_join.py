"""Put two judge datasets, or a judge dataset and covariates, together on their ids.

What is in one side alone is counted, and what the join leaves out is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from xjudge._align import Match, match_ids, merged_coords, moved, moved_coords
from xjudge._covariates import coordinate_values, covariate
from xjudge._ids import DIMS, RESERVED, Ids
from xjudge._ingest import NULL, Encoded, Problems, counted, plain, text_array
from xjudge._table import Table
from xjudge.codes import MISSING, OUTCOMES
from xjudge.errors import DroppedWarning, ProtocolError, StructureError, listing, warn
from xjudge.lazy import materialise
from xjudge.scale import Scale
from xjudge.schema import column_names

__all__ = ["HOWS", "holds_labels", "join_columns", "join_datasets", "joined_dims", "options_from"]

HOWS: Final = ("left", "inner", "outer", "right")


def joined_dims(on: Any) -> tuple[str, ...]:
    """Dims that `on` names, in the order of the data model."""
    named = (on,) if isinstance(on, str) or not isinstance(on, Iterable) else tuple(on)
    wrong = [name for name in named if name not in DIMS[:3]]
    if wrong or not named:
        raise StructureError(f"`on` is 'item', 'rater', 'criterion' or a list of these; got {on!r}.")
    return tuple(dim for dim in DIMS if dim in named)


# ------------------------------------------------------------------------------------------------- datasets


def join_datasets(
    left: xr.Dataset, right: xr.Dataset, *, on: tuple[str, ...], how: str, duplicates: str
) -> xr.Dataset:
    """Raters of both datasets side by side; see :func:`xjudge.build.join`."""
    _check_pair(left, right, on)
    left, right = _named_identity(left), _named_identity(right)
    matches = _matches(left, right, on, how)
    places = {match.dim: match for match in matches}
    for dim in map(str, left["label"].dims):
        if dim not in places and dim in left.coords:  # raters, replicates: all of both, nothing is lost
            places[dim] = match_ids(dim, left[dim].values, right[dim].values, "outer", may_be_empty=True)
    sides = [moved(ds, places, side) for side, ds in enumerate((left, right))]
    swap = _settle(sides, places, Scale.from_attrs(left["label"].attrs), duplicates)
    coords = merged_coords([moved_coords(ds, places, side) for side, ds in enumerate((left, right))], places)
    for ds in (right, left):  # further dims, such as `category`, keep their coordinate
        coords |= {str(dim): ds[dim].variable for dim in ds.indexes if dim not in places}
    joined = xr.Dataset(_merged_variables(sides, swap), coords=coords)
    joined["label"].attrs = dict(left["label"].attrs)
    joined.attrs = dict(left.attrs) | {
        f"join_{name}": value for name, value in right.attrs.items() if str(name).startswith("rows_")
    }
    return _reported(joined, matches, on, how)


def _check_pair(left: xr.Dataset, right: xr.Dataset, on: tuple[str, ...]) -> None:
    problems = Problems()
    if "item" not in on or "rater" in on:
        problems.add(f"Labels are joined on 'item' or ['item', 'criterion']; got {list(on)}.")
    for name, ds in (("dataset", left), ("other", right)):
        if "answer" in ds["label"].dims:
            problems.add(
                f"The {name} has the sparse layout; join takes the dense one. Put the long tables together "
                "before from_long, or build with `layout='dense'`."
            )
        if "role" not in ds.coords:
            problems.add(
                f"The {name} has no coordinate `role`: say who is human and who is judge with "
                '`ds.assign_coords(role=("rater", [...]))`.'
            )
    dims, others = set(left["label"].dims), set(right["label"].dims)
    if dims != others and not problems:
        told = [", ".join(map(str, ds["label"].dims)) for ds in (left, right)]
        problems.add(
            f"The labels of the dataset live on ({told[0]}) and those of the other on ({told[1]}). Say "
            "`criterion=` (or `replicate=`), or select one first, so that both have the same dims."
        )
    sizes = {dim: (left.sizes[dim], right.sizes.get(dim)) for dim in dims if dim not in left.coords}
    for dim, (size, other) in sizes.items():
        if dims == others and size != other:
            problems.add(f"The dim {dim!r} has no coordinate and is {size} long here and {other} there.")
    if "criterion" in on and "criterion" not in dims:
        problems.add("`on` names 'criterion', and the dataset has no such dim.")
    problems.raise_if_any()
    scales = [Scale.from_attrs(ds["label"].attrs) for ds in (left, right)]
    if scales[0] != scales[1]:
        raise ProtocolError(
            f"The scales differ: {scales[0]!r} in the dataset and {scales[1]!r} in the other. Labels are not "
            "recoded by a join; read both with one scale."
        )


def _named_identity(ds: xr.Dataset) -> xr.Dataset:
    """A dataset that says nothing else has its raters' names."""
    if "identity" in ds.coords:
        return ds
    return ds.assign_coords(identity=("rater", text_array("named" for _ in range(ds.sizes["rater"]))))


def _matches(left: xr.Dataset, right: xr.Dataset, on: tuple[str, ...], how: str) -> list[Match]:
    matches = [match_ids(dim, left[dim].values, right[dim].values, how) for dim in on]
    if "criterion" in left["label"].dims and "criterion" not in on:
        match = match_ids("criterion", left["criterion"].values, right["criterion"].values, "left")
        if len(match.right_only):
            raise StructureError(
                f"The other has criteria that the dataset has not: {listing(match.right_only.tolist())}. Use "
                "`on=['item', 'criterion']` with `how='outer'` to add them, or 'left' to leave them out."
            )
        matches.append(match)
    return matches


def _settle(
    sides: list[dict[str, xr.DataArray]], places: Mapping[str, Match], scale: Scale, duplicates: str
) -> bool:
    """Decide cells that both sides answer; whether the other side is the one that counts."""
    raters = places["rater"]
    common = np.flatnonzero(_held(raters, 0) & _held(raters, 1))
    if not len(common):
        return False
    labels = [side["label"].isel(rater=common) for side in sides]
    dims = [str(dim) for dim in labels[0].dims]
    ours, theirs = materialise(labels[0].data, labels[1].transpose(*dims).data)
    both = (ours != MISSING) & (theirs != MISSING)
    if duplicates == "majority":
        both &= ours != theirs
    if not both.any() or duplicates in ("first", "last"):
        return duplicates == "last"
    shown = []
    ids: list[tuple[str, Any]] = [
        (dim, places[dim].ids if dim in places else range(ours.shape[axis])) for axis, dim in enumerate(dims)
    ]
    ids = [(dim, values[common] if dim == "rater" else values) for dim, values in ids]
    for place in np.argwhere(both)[:5]:
        names = [f"{dim} {plain(values[at])!r}" for (dim, values), at in zip(ids, place, strict=True)]
        codes = [int(side[tuple(place)]) for side in (ours, theirs)]
        shown.append(f"{', '.join(names)}: {listing(_words(scale, codes), show='str')}")
    n = int(both.sum())
    more = f"; and {n - 5} more" if n > 5 else ""
    can = "`duplicates='first'` keeps the dataset's, 'last' the other's"
    if duplicates == "majority":
        told = f"Two different labels have no majority in {counted(n, 'cell')}"
    else:
        told = f"{counted(n, 'cell')} {'has' if n == 1 else 'have'} a label in the dataset and in the other"
    raise StructureError(f"{told}: {'; '.join(shown)}{more}. {can}.")


def _words(scale: Scale, codes: Sequence[int]) -> list[str]:
    outcomes = {code: name for name, code in OUTCOMES.items()}
    return [
        outcomes[code] if code < 0 else repr(scale.categories[code]) if scale.categories else "a score"
        for code in codes
    ]


def _held(match: Match, side: int) -> npt.NDArray[np.bool_]:
    """Which ids of the result a side has."""
    at = match.positions[side]
    return np.ones(len(match.ids), dtype=bool) if at is None else at >= 0


def _merged_variables(sides: list[dict[str, xr.DataArray]], swap: bool) -> dict[str, xr.Variable]:
    """Variables of both sides; along the labels, one fills what the other misses."""
    first, second = sides[::-1] if swap else sides
    dims = sides[0]["label"].dims
    lacking = first["label"] == MISSING
    merged = {}
    for name in {**sides[0], **sides[1]}:
        have = [side[name] for side in sides if name in side]
        if not set(dims) <= set(have[0].dims):
            if len(have) > 1:
                raise StructureError(f"Both have a variable {name!r} beside the labels; drop it on one side.")
            merged[name] = have[0].variable
            continue
        if name not in first:
            value = second[name].where(lacking) if name != "prob" else second[name]
        elif name not in second:
            value = first[name]
        else:
            wanted = lacking if name == "label" else lacking & ~np.isnan(second[name])
            value = xr.where(wanted, second[name], first[name])
        rest = [dim for dim in value.dims if dim not in dims]
        merged[name] = value.transpose(*dims, *rest).variable
    return merged


# ------------------------------------------------------------------------------------------------ covariates


def _join_covariates(
    ds: xr.Dataset, ids: Mapping[str, Ids], columns: Mapping[str, Encoded], *, how: str
) -> xr.Dataset:
    """Columns of a frame as coordinates on the dims of its ids; see :func:`xjudge.build.join`."""
    problems = Problems()
    clash = [name for name in columns if name in ds.variables or name in RESERVED]
    if clash:
        problems.add(
            f"The dataset has {listing(clash)} already, or gives the name a meaning; rename the column."
        )
    if how != "left" and (len(ids) > 1 or "answer" in ds["label"].dims):
        problems.add(
            "Covariates of pairs, and covariates in the sparse layout, are joined with `how='left'`."
        )
    cells = np.zeros(len(next(iter(ids.values())).codes), dtype=np.int64)
    for one in ids.values():
        cells = cells * len(one) + one.codes
    repeated = pd.Index(cells).duplicated()
    if repeated.any():
        told = [
            ", ".join(f"{dim} {plain(one.values[one.codes[row]])!r}" for dim, one in ids.items())
            for row in np.flatnonzero(repeated)[:100]
        ]
        problems.add(
            f"Covariates have one row per {' and '.join(ids)}; {counted(int(repeated.sum()), 'row')} "
            f"too many: {listing(dict.fromkeys(told), show='str')}."
        )
    problems.raise_if_any()
    matches = [match_ids(dim, ds[dim].values, one.values, how) for dim, one in ids.items()]
    if how != "left":
        places = {match.dim: match for match in matches}
        kept = {dim: ds[dim].variable for dim in ds.indexes if dim not in places}
        coords = merged_coords([moved_coords(ds, places, 0), {}], places)
        at_places = xr.Dataset(moved(ds, places, 0), coords=kept | coords, attrs=ds.attrs)
        at_places["label"].attrs = dict(ds["label"].attrs)
        ds = at_places
    coords = {}
    for name, column in columns.items():
        codes = np.full([len(one) for one in ids.values()], NULL, dtype=np.int64)
        codes[tuple(one.codes for one in ids.values())] = column.codes
        for axis, match in enumerate(matches):
            if (at := match.positions[1]) is not None:
                held = (at >= 0).reshape([-1 if k == axis else 1 for k in range(codes.ndim)])
                codes = np.where(held, codes.take(at, axis=axis), NULL)
        values = coordinate_values(Encoded(column.kind, codes.ravel(), column.values))
        coords[name] = (tuple(ids), values.reshape(codes.shape))
    return _reported(ds.assign_coords(coords), matches, tuple(ids), how)


# -------------------------------------------------------------------------------------------- reading a table


def holds_labels(frame: pd.DataFrame, on: tuple[str, ...], options: Mapping[str, Any]) -> bool:
    """Whether a frame is a table of labels: it has a rater and a label column; one alone is an error."""
    known = {*frame.columns, *frame.index.names}
    if "rater" in on:
        if options.get("label", "label") in known:
            raise StructureError(
                "Labels are joined on 'item' or ['item', 'criterion']; this table has labels."
            )
        return False
    found = {
        argument: set(column_names(options.get(argument, argument))) <= known
        for argument in ("rater", "label")
    }
    if all(found.values()) or options.keys() & {"rater", "label"}:
        return True
    if any(found.values()):
        have, lack = sorted(found, key=lambda argument: not found[argument])
        raise StructureError(
            f"The table has a column {have!r} and none called {lack!r}: for labels say `{lack}=`, for "
            f"covariates rename {have!r}. It has {listing(frame.columns, most=12)}."
        )
    return False


def options_from(data: xr.Dataset, frame: pd.DataFrame, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options for reading a table of labels: the scale, criterion and known roles of the dataset."""
    filled = {"scale": Scale.from_attrs(data["label"].attrs), **options}
    if "criterion" in data["label"].dims and "criterion" in {*frame.columns, *frame.index.names}:
        filled.setdefault("criterion", "criterion")
    if not filled.keys() & {"role", "judges", "humans"} and "role" in data.coords:
        raters = pd.Index(data["rater"].values)
        column = filled.get("rater", "rater")
        if isinstance(column, str) and column in frame.columns and frame[column].isin(raters).all():
            filled["role"] = dict(zip(raters.tolist(), data["role"].values.tolist(), strict=True))
    return filled


def join_columns(
    data: xr.Dataset, frame: pd.DataFrame, dims: tuple[str, ...], how: str, options: Mapping[str, Any]
) -> xr.Dataset:
    """Join a table of covariates."""
    problems = Problems()
    wrong = options.keys() - set(dims)
    if wrong:
        problems.add(
            f"Options for labels are given ({listing(sorted(wrong))}), and the table has no rater and label "
            f"columns: it has {listing(frame.columns, most=12)}."
        )
    absent = [dim for dim in dims if dim not in data.dims]
    if absent:
        problems.add(f"`on` names {listing(absent)}, and the dataset has no such dim.")
    table = Table(frame, {dim: options.get(dim, dim) for dim in dims}, {}, problems)
    names = [name for name in frame.columns if name not in table.used]
    if not names:
        problems.add(f"The table has nothing to join beside {listing(table.used)}.")
    columns = {}
    for name in names:
        column = covariate(frame[name])
        if column is None:
            problems.add(f"Column {name!r} is not of one plain type (text, numbers, booleans, times).")
        else:
            columns[str(name)] = column
    if problems or not table.complete:
        problems.fail()
    return _join_covariates(data, table.ids, columns, how=how)


# ---------------------------------------------------------------------------------------------------- report


def _reported(ds: xr.Dataset, matches: list[Match], on: tuple[str, ...], how: str) -> xr.Dataset:
    """Counts of the match in attrs, and a warning about what the join leaves out."""
    attrs: dict[str, Any] = {"join_on": ",".join(on), "join_how": how}
    dropped = []
    for match in matches:
        if match.dim not in on:
            continue
        end = "" if match.dim == on[0] else f"_{match.dim}"
        attrs[f"join_matched{end}"] = match.n_matched
        attrs[f"join_left_only{end}"] = len(match.left_only)
        attrs[f"join_right_only{end}"] = len(match.right_only)
        for whose, lost, kept in (
            ("the dataset", match.left_only, ("left", "outer")),
            ("the other", match.right_only, ("right", "outer")),
        ):
            if len(lost) and how not in kept:
                ids = counted(len(lost), f"{match.dim} id")
                dropped.append(f"{ids} of {whose} alone, {listing(lost.tolist())}")
    if dropped:
        warn(
            f"`how={how!r}` leaves out {'; '.join(dropped)} ({matches[0].n_matched} matched). "
            "`how='outer'` keeps all.",
            DroppedWarning,
        )
    return ds.assign_attrs(attrs)

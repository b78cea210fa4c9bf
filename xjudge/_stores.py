"""Judge datasets that grow in a zarr store."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import pandas as pd
import xarray as xr

from xjudge.errors import DependencyError, StructureError, listing
from xjudge.lazy import is_lazy, materialise
from xjudge.scale import Scale
from xjudge.view import checked_dataset

__all__ = ["append_to_zarr"]

_CHUNK: Final = 1 << 24


def append_to_zarr(
    ds: xr.Dataset | xr.DataArray,
    store: Any,
    *,
    group: str | None = None,
    storage_options: dict[str, Any] | None = None,
) -> xr.Dataset:
    """Append the items of a judge dataset to a zarr store.

    xarray's own ``ds.to_zarr(store, append_dim="item")`` compares neither raters nor scales, and writes the
    names of the new ones over those of the store. Here everything is compared before anything is written.

    Parameters
    ----------
    ds : Dataset or DataArray
        A judge dataset in the dense layout; may be lazy.
    store : path, URL or zarr store
        Where a judge dataset was written by this function or by ``to_zarr``. A store that does not exist is
        written, with chunks along ``item`` alone.
    group : str, optional
        Group within the store.
    storage_options : dict, optional
        Of the file system of a URL.

    Returns
    -------
    Dataset
        The whole store, opened lazily. The attributes ``rows_*`` account for all that was written.

    Raises
    ------
    StructureError
        The store and the dataset differ in scale, raters, criteria, roles or any other coordinate beside
        the items, in their variables, dtypes or dims, or an item stands in both; the sparse layout; a zip
        file, whose members cannot be written again. Nothing is written then.
    DependencyError
        Without zarr.

    Notes
    -----
    Raters and criteria that stand in another order are put in that of the store. Cost: the item ids of the
    store are read, its labels are not; lazy labels are computed once, in the chunks of the store. Appending
    is not atomic: a run that is killed while it writes leaves some variables longer than others.

    Examples
    --------
    >>> import pandas as pd, tempfile, warnings
    >>> from xjudge.build import from_long
    >>> def week(items):
    ...     frame = pd.DataFrame({"item": items, "rater": "ann", "label": ["no", "yes"]})
    ...     return from_long(frame, humans=["ann"], scale=Scale.binary("no", "yes"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = append_to_zarr(week([1, 2]), f"{folder}/labels.zarr")
    ...     ds = append_to_zarr(week([3, 4]), f"{folder}/labels.zarr")
    ...     print(ds["item"].values, ds.attrs["rows_answered"])
    [1 2 3 4] 4
    """
    data = checked_dataset(ds).drop_encoding()
    if "answer" in data["label"].dims:
        raise StructureError(
            "Items are appended in the dense layout; this dataset has the sparse one, whose answers and item "
            'ids grow along two dims. Build it with layout="dense".'
        )
    if str(store).endswith(".zip"):
        raise StructureError(
            "Nothing is appended to a zip file, whose members cannot be written again: append to a folder, "
            "and zip it afterwards."
        )
    mixed = [str(name) for name, variable in data.variables.items() if _is_mixed(variable)]
    if mixed:
        raise StructureError(
            f"{listing(mixed)} holds values of different types, which no store takes: make them one type, "
            f'e.g. `ds.assign_coords({mixed[0]}=ds["{mixed[0]}"].astype(str))`.'
        )
    if importlib.util.find_spec("zarr") is None:
        raise DependencyError(
            'A zarr store is written by zarr, which is not there: `pip install "xjudge[io]"`.'
        )
    data = _names_in_memory(data)
    where: dict[str, Any] = {"group": group, "storage_options": storage_options}
    with _zarr_quiet():
        try:
            there = xr.open_dataset(store, engine="zarr", chunks=None, backend_kwargs=where)
        except FileNotFoundError:
            data = _uniform(data)
            data.to_zarr(store, mode="w-", encoding=_encoding(data), **where)
        else:
            data = _like(data, checked_dataset(there))
            data.to_zarr(store, append_dim="item", **where)
        return xr.open_dataset(store, engine="zarr", chunks={}, backend_kwargs=where)


@contextmanager
def _zarr_quiet() -> Iterator[None]:
    """Without what zarr 3 says of the text and the metadata of every store."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Consolidated metadata is currently not part")
        warnings.filterwarnings("ignore", message="The data type .* does not have a Zarr V3 specification")
        warnings.filterwarnings("ignore", message="Failed to open Zarr store with consolidated metadata")
        yield


def _names_in_memory(data: xr.Dataset) -> xr.Dataset:
    """Coordinates as values: chunking a dataset makes them lazy too, and lazy text cannot be written."""
    names = [name for name, held in data.coords.items() if is_lazy(held.data)]
    arrays = materialise(*(data[name].data for name in names))
    return data.assign_coords(
        {name: (data[name].dims, array, data[name].attrs) for name, array in zip(names, arrays, strict=True)}
    )


def _is_mixed(variable: xr.Variable) -> bool:
    """Whether values are of several types, text and numbers for example."""
    if variable.dtype.kind != "O" or is_lazy(variable.data):
        return False
    values = np.asarray(variable.values).ravel()
    return len({type(value) for value in values[~pd.isna(values)].tolist()}) > 1


def _uniform(data: xr.Dataset) -> xr.Dataset:
    """Lazy variables in chunks along items that are all of one size but the last, as a store has them."""
    out = {}
    for name, variable in data.data_vars.items():
        if "item" in variable.dims and is_lazy(variable.data):
            sizes = dict.fromkeys(map(str, variable.dims), -1)
            out[name] = variable.chunk(sizes | {"item": max(variable.chunksizes["item"], default=1) or 1})
    return data.assign(out)


def _encoding(data: xr.Dataset) -> dict[Any, Any]:
    """Chunks along items alone for variables in memory; lazy ones have theirs."""
    encoding: dict[Any, Any] = {}
    for name, variable in data.data_vars.items():
        if "item" in variable.dims and not is_lazy(variable.data):
            beside = max(variable.size // max(variable.sizes["item"], 1), 1)
            items = max(min(variable.sizes["item"], _CHUNK // beside), 1)
            encoding[name] = {
                "chunks": tuple(items if d == "item" else variable.sizes[d] for d in variable.dims)
            }
    return encoding


def _like(data: xr.Dataset, there: xr.Dataset) -> xr.Dataset:
    """The dataset as it goes on after the store; raises all that keeps it from doing so in one message."""
    data = _in_order(data, there)
    problems = _scale_problems(data, there) + _variable_problems(data, there)
    if not problems:
        problems = _coordinate_problems(data, there) + _item_problems(data, there)
    if problems:
        raise StructureError(f"This dataset does not go on after the store. {' '.join(problems)}")
    out: dict[Any, xr.Variable] = {}
    for name, variable in data.variables.items():
        if "item" not in variable.dims:
            continue
        held = variable.transpose(*there[name].dims)
        if there[name].dtype.kind == "U":
            held = held.astype(there[name].dtype)  # a store of texts takes its own length alone
        if is_lazy(held.data):
            axis = held.dims.index("item")
            held = held.chunk({"item": _chunks(there[name], axis, held.shape[axis])})
        out[name] = held
    attrs = dict(there.attrs)
    for name, value in data.attrs.items():
        if str(name).startswith("rows_") and name in attrs:
            attrs[name] = int(attrs[name]) + int(value)
    coords = {name: held for name, held in out.items() if name in data.coords}
    return xr.Dataset({name: held for name, held in out.items() if name not in coords}, coords, attrs)


def _in_order(data: xr.Dataset, there: xr.Dataset) -> xr.Dataset:
    """The same raters and criteria in the order of the store, where they are the same."""
    for dim in data["label"].dims:
        if dim == "item" or dim not in data.indexes or dim not in there.indexes:
            continue
        ours, theirs = data.indexes[dim], there.indexes[dim]
        if ours.is_unique and len(ours) == len(theirs) and not ours.equals(theirs):
            place = ours.get_indexer(pd.Index(theirs.tolist()))
            if (place >= 0).all():
                data = data.isel({dim: place})
    return data


def _scale_problems(data: xr.Dataset, there: xr.Dataset) -> list[str]:
    ours, theirs = Scale.from_attrs(data["label"].attrs), Scale.from_attrs(there["label"].attrs)
    return [] if ours == theirs else [f"Its scale is {ours!r}, and that of the store is {theirs!r}."]


def _variable_problems(data: xr.Dataset, there: xr.Dataset) -> list[str]:
    """Names, dims and dtypes."""
    problems = []
    lacking = [str(name) for name in there.variables if name not in data.variables]
    further = [str(name) for name in data.variables if name not in there.variables]
    if lacking:
        problems.append(f"It lacks {listing(lacking)}, which the store has.")
    if further:
        problems.append(f"It has {listing(further)}, which the store has not: leave out or rename.")
    for name in data.variables:
        if name not in there.variables:
            continue
        ours, theirs = data[name], there[name]
        if set(ours.dims) != set(theirs.dims):
            told = [", ".join(map(str, one.dims)) for one in (ours, theirs)]
            problems.append(f"`{name}` lives on ({told[0]}), and in the store on ({told[1]}).")
        elif _kind(ours.dtype) != _kind(theirs.dtype):
            problems.append(f"`{name}` holds {ours.dtype}, and in the store {theirs.dtype}.")
        elif theirs.dtype.kind == "U" and _longest(ours) > theirs.dtype.itemsize // 4:
            problems.append(
                f"`{name}` has texts of up to {_longest(ours)} characters, and the store was made for "
                f"{theirs.dtype.itemsize // 4}."
            )
    return problems


def _kind(dtype: np.dtype[Any]) -> str:
    """What must agree for values to be written unchanged: the dtype, or that it is text."""
    return "text" if dtype.kind in "OUT" else "time" if dtype.kind == "M" else dtype.str[1:]


def _longest(variable: xr.DataArray) -> int:
    return max((len(str(value)) for value in variable.values.ravel().tolist()), default=0)


def _coordinate_problems(data: xr.Dataset, there: xr.Dataset) -> list[str]:
    """Everything that does not live on the items is the same; raters and criteria are named."""
    problems = []
    for name, ours in data.variables.items():
        theirs = there.variables[name]
        if "item" in ours.dims:
            continue
        held, stored = (np.asarray(one.values).ravel().tolist() for one in (ours, theirs))
        if ours.dims == theirs.dims and ours.shape == theirs.shape and ours.equals(theirs):
            continue
        if name in ("rater", "criterion"):
            more = [value for value in held if value not in set(stored)]
            fewer = [value for value in stored if value not in set(held)]
            told = [f"has {listing(more)}, whom the store does not know"] if more else []
            told += [f"lacks {listing(fewer)}, whom the store has"] if fewer else []
            hint = (
                f' Give it all of them, e.g. `ds.reindex({name}=[...], fill_value={{"label": -1}})`.'
                if fewer and not more
                else ""
            )
            problems.append(f"Along `{name}` it {' and '.join(told)}.{hint}")
        else:
            problems.append(f"`{name}` is {listing(held)}, and in the store {listing(stored)}.")
    return problems


def _item_problems(data: xr.Dataset, there: xr.Dataset) -> list[str]:
    problems: list[str] = []
    if "item" not in data.indexes:
        return problems
    index = data.indexes["item"]
    if not index.is_unique:
        problems.append(f"Items are repeated: {listing(index[index.duplicated()].unique().tolist())}.")
    both = index[index.isin(pd.Index(there["item"].values.tolist()))]
    if len(both):
        problems.append(f"Items that stand in the store already: {listing(both.tolist())}.")
    return problems


def _chunks(stored: xr.DataArray, axis: int, length: int) -> tuple[int, ...]:
    """Sizes that fill the last chunk of the store, and then are its own."""
    size = int(stored.encoding["chunks"][axis])
    first = min(-stored.shape[axis] % size, length)
    whole, last = divmod(length - first, size)
    return tuple(n for n in (first, *[size] * whole, last) if n) or (0,)

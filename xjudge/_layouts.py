"""From the sparse layout to the dense one, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from xjudge._sparse import DIMS, Answers, code_attrs, ranks, sealed
from xjudge.codes import MISSING, to_codes
from xjudge.errors import StructureError, listing
from xjudge.lazy import materialise, metadata_values
from xjudge.view import View, checked_dataset

__all__ = ["to_dense", "to_sparse"]


def to_dense(data: xr.Dataset | xr.DataArray, *, raters: Any = None) -> xr.Dataset:
    """Judge dataset in the dense layout: a cube ``label(item, rater[, criterion])``.

    Parameters
    ----------
    data : Dataset or DataArray
        A judge dataset in either layout.
    raters : list of names, "humans", "judges" or "all", optional
        Whom to take along, in the order in which they are named; by default everybody.

    Returns
    -------
    Dataset
        What :func:`xjudge.from_long` gives with ``layout="dense"``. Items that none of the raters answered
        stay, without a label. Lazy where the answers are.

    Raises
    ------
    StructureError
        Unknown raters; answers that are not sorted by item or repeat each other; a cube beyond 2^34 cells.

    Notes
    -----
    One scatter; memory is that of the cube, and above 2^28 cells it is made block by block when computed.

    Examples
    --------
    >>> import pandas as pd, xjudge as xj
    >>> frame = pd.DataFrame(
    ...     {"item": ["a", "a", "b"], "rater": ["ann", "gpt", "gpt"], "label": ["yes", "yes", "no"]}
    ... )
    >>> ds = xj.from_long(frame, judges=["gpt"], layout="sparse")
    >>> to_dense(ds)["label"].values
    array([[ 1,  1],
           [-1,  0]], dtype=int8)
    """
    ds = checked_dataset(data)
    if "answer" not in ds["label"].dims:
        if raters is None:
            return ds
        return ds.isel(rater=list(View.of(ds).members(raters)))
    answers = Answers.of(ds)
    chosen = range(answers.n_raters) if raters is None else View.of_crowd(answers).members(raters)
    names = [name for name, variable in ds.variables.items() if variable.dims[:1] == ("answer",)]
    kept = [name for name in names if name not in {f"{dim}_code" for dim in DIMS}]
    return answers.columns(chosen, names=kept)[0]


def to_sparse(data: xr.Dataset | xr.DataArray, *, chunks: int | None = None) -> xr.Dataset:
    """Judge dataset in the sparse layout: one entry for each label, ``label(answer)``, sorted by item.

    Parameters
    ----------
    data : Dataset or DataArray
        A judge dataset in either layout.
    chunks : int, optional
        Answers of a chunk, about: chunks end where items do, as every verb needs them. Without it a dataset
        that has the sparse layout comes back as it is.

    Returns
    -------
    Dataset
        What :func:`xjudge.from_long` gives with ``layout="sparse"``: labels that are missing are left out.

    Raises
    ------
    StructureError
        Dims beyond item, rater, criterion and replicate; fewer than one answer a chunk.

    Notes
    -----
    Lazy labels are computed: how many answers there are is in the values.

    Examples
    --------
    >>> import xjudge as xj
    >>> ds = xj.load_example()
    >>> sparse = to_sparse(ds)
    >>> sparse["label"].dims, to_dense(sparse)["label"].equals(ds["label"])
    (('answer',), True)
    """
    ds = checked_dataset(data)
    if "answer" not in ds["label"].dims:
        ds = _as_answers(ds)
    if chunks is None:
        return ds
    given: Any = chunks
    whole = isinstance(given, int | np.integer) and not isinstance(given, bool)
    if not whole or chunks < 1:
        raise StructureError(f"`chunks` is a number of answers, at least 1; got {chunks!r}.")
    codes = metadata_values(ds.variables["item_code"].data)
    cuts = np.searchsorted(codes, codes[min(chunks, len(codes)) :: min(chunks, max(len(codes), 1))])
    sizes = np.diff(np.unique([0, *cuts.tolist(), len(codes)]))
    return ds.chunk(answer=tuple(sizes.tolist()))


def _as_answers(ds: xr.Dataset) -> xr.Dataset:
    """The dense layout listed."""
    dims: list[str] = [dim for dim in DIMS if dim in ds["label"].dims]
    further = [dim for dim in ds["label"].dims if dim not in dims]
    if further:
        raise StructureError(
            f"The sparse layout has answers of {listing(DIMS, most=4, show='str')}, and `label` has the dims "
            f"{listing(further)} too; select from them first, `ds.isel(...)`."
        )
    listed = _listed(ds, dims)
    named = list(listed)
    values = dict(zip(named, materialise(*(listed[name] for name in named)), strict=True))
    codes = to_codes(values["label"])
    stated = codes != MISSING
    if "prob" in values:  # probabilities without a label say something too
        stated |= ~np.isnan(values["prob"]).all(-1)
    at = np.nonzero(stated)
    bare = ds.drop_vars(named)
    variables: dict[Any, Any] = {}
    for name in named:
        taken = codes[at].astype(codes.dtype) if name == "label" else values[name][at]
        rest = [dim for dim in ds[name].dims if dim not in dims]
        variables[name] = (("answer", *rest), taken, ds[name].attrs)
    coords: dict[str, Any] = {
        f"{dim}_code": ("answer", place.astype(_dtype(ds.sizes[dim])), _attrs(ds, dim, at))
        for dim, place in zip(dims, at, strict=True)
    }
    for dim in dims:
        if dim not in bare.coords:
            coords[dim] = (dim, np.arange(ds.sizes[dim]))
    return sealed(bare.assign(variables).assign_coords(coords))


def _listed(ds: xr.Dataset, dims: list[str]) -> dict[Any, Any]:
    """Arrays on all dims of the labels, in their order: labels, scores, probabilities and the like."""
    out = {}
    for name, variable in ds.variables.items():
        if set(dims) <= set(map(str, variable.dims)):
            rest = [dim for dim in variable.dims if dim not in dims]
            out[name] = variable.transpose(*dims, *rest).data
    return out


def _dtype(n_ids: int) -> np.dtype[np.signedinteger]:
    return np.dtype(np.int32 if n_ids < 2**31 else np.int64)


def _attrs(ds: xr.Dataset, dim: str, at: tuple[npt.NDArray[np.intp], ...]) -> dict[str, Any]:
    if dim != "item":
        return code_attrs(dim, ds.sizes[dim])
    most = int(ranks(at[0], at[1])[0].max(initial=-1)) + 1
    return code_attrs(dim, ds.sizes[dim], most)

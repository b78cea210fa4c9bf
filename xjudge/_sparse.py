"""The sparse layout: labels listed one by one, and how raters become the columns that verbs count.

A crowd is never made dense. Raters who are told apart get a column each; all others of a group are told apart
within an item alone: their labels fill *places*, as many as the item with the most raters has. A place holds
what one rater said about all criteria of an item, and the next item may have another rater there, so counts
that are the same whoever said what are the same from places as from columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from xjudge._answer_blocks import (
    PLACE,
    Cells,
    Checked,
    InGroups,
    Pack,
    Sizes,
    Within,
    check_order,
    check_within,
    ranks,
)
from xjudge.codes import MISSING, to_codes
from xjudge.errors import StructureError
from xjudge.lazy import (
    answers_to_items,
    in_chunks,
    is_lazy,
    map_items,
    metadata_values,
    whole_items,
)

__all__ = [
    "DIMS",
    "FEW_RATERS",
    "Answers",
    "answer_problems",
    "check_within",
    "code_attrs",
    "ranks",
    "sealed",
]

Ints = npt.NDArray[np.int64]

FEW_RATERS: Final = 64
"""Raters up to which each gets a column of its own."""

DIMS: Final = ("item", "rater", "criterion", "replicate")
"""The dims of an answer."""

_HELD: Final = 1 << 28
"""Cells of columns and places that are held in memory; above, they are made block by block."""
_BLOCK: Final = 1 << 24
_LISTED: Final = 1 << 20
"""Answers in memory up to which they are counted at once; more are counted block by block."""
_LARGEST: Final = 1 << 34
_LOOKED_AT: Final = 1 << 12
"""Ids of a table whose order every call looks at, evenly spaced; all of a smaller table."""


def code_attrs(dim: str, n_ids: int, raters_per_item: int | None = None) -> dict[str, Any]:
    """Attributes of the codes along answers: the table of ids they point into, as CF names it, and its size.

    The size shows whether somebody has selected from the table and left the codes as they were.
    """
    attrs: dict[str, Any] = {"instance_dimension": dim, "n_instances": int(n_ids)}
    if raters_per_item is not None:
        attrs["raters_per_item"] = int(raters_per_item)
    return attrs


def sealed(ds: xr.Dataset) -> xr.Dataset:
    """The dataset with a mark of every table of ids beside the codes that point into it.

    The mark shows whether somebody has sorted the table and left the codes as they were.
    """
    marks = {
        f"{dim}_code": {"instances": f"{_order_mark(ds, dim)} {_member_mark(ds, dim)}"}
        for dim in _dims(ds)
        if f"{dim}_code" in ds.variables and _is_known(ds, dim)
    }
    return ds.assign_coords({name: ds[name].assign_attrs(mark) for name, mark in marks.items()})


def _is_known(ds: xr.Dataset, dim: str) -> bool:
    return dim in ds.coords and not is_lazy(ds.variables[dim].data)


def _order_mark(ds: xr.Dataset, dim: str) -> str:
    """Of some ids at their places."""
    n = ds.sizes[dim]
    places = np.linspace(0, max(n - 1, 0), min(n, _LOOKED_AT)).astype(np.intp)
    odd = 2 * np.arange(len(places), dtype=np.uint64) + 1
    return f"{int((_hashed(ds, dim, places) * odd).sum()):016x}"


def _member_mark(ds: xr.Dataset, dim: str) -> str:
    """Of all ids, whatever their order."""
    return f"{int(_hashed(ds, dim, slice(None)).sum()):016x}"


def _hashed(ds: xr.Dataset, dim: str, places: Any) -> npt.NDArray[np.uint64]:
    """A number for each id, the same before and after a file."""
    held = ds.indexes[dim][places] if dim in ds.indexes else ds.variables[dim].data[places]
    values = np.asarray(held)
    if values.dtype.kind in "iu":
        values = values.astype(np.int64)
    elif values.dtype.kind in "OUT":
        values = values.astype(object)
    return pd.util.hash_array(values, categorize=False)


@dataclass(frozen=True, eq=False)
class Answers:
    """A dataset in the sparse layout, opened.

    Parameters
    ----------
    data : Dataset
    codes : dict of dim to array
        Per answer the place in the table of ids: item, rater, then the dims of cells.
    cells : dict
        Sizes of the dims beyond item and rater.
    """

    data: xr.Dataset
    codes: dict[str, Any]
    cells: dict[str, int]

    @classmethod
    def of(cls, ds: xr.Dataset) -> Answers:
        """Check the structure and open the dataset; computes nothing.

        Raises
        ------
        StructureError
            Everything that is wrong with codes and tables, in one message.
        """
        dims = ["item", "rater", *(dim for dim in DIMS[2:] if f"{dim}_code" in ds.variables)]
        problems = [problem for dim in dims for problem in _code_problems(ds, dim)]
        if ds["label"].dims != ("answer",):
            problems.append(
                f"`label` lives on {ds['label'].dims}; in the sparse layout it lives on `answer`."
            )
        if problems:
            raise StructureError(" ".join(problems))
        codes = {dim: ds.variables[f"{dim}_code"].data for dim in dims}
        return cls(ds, codes, {dim: int(ds.sizes[dim]) for dim in dims[2:]})

    @property
    def n_items(self) -> int:
        """Items in the table, with answers or without."""
        return int(self.data.sizes["item"])

    @property
    def n_raters(self) -> int:
        """Raters in the table."""
        return int(self.data.sizes["rater"])

    @property
    def n_cells(self) -> int:
        """Cells of an item and rater: criteria times replicates."""
        return math.prod(self.cells.values())

    @property
    def lazy(self) -> bool:
        """Whether labels or codes are computed only when asked."""
        return is_lazy(self.data.variables["label"].data) or any(map(is_lazy, self.codes.values()))

    def arrays(self, *values: Any) -> list[Any]:
        """Codes of item, rater and cells, then the values, in chunks of whole items."""
        return whole_items([*self.codes.values(), *values], self.codes["item"])

    def listed(
        self,
        population: npt.NDArray[np.bool_] | None = None,
        members: npt.NDArray[np.bool_] | None = None,
        group: npt.NDArray[np.int64] | None = None,
    ) -> dict[str, Any]:
        """Arrays ``item``, ``rater``, ``cell`` and ``label`` (codes), checked when they are counted.

        Lazy where the answers are, or where they are many.
        ``population`` (item,) and ``members`` (rater,) say what counts; other labels become missing. With a
        ``group`` (item,) every group has raters of its own: number ``group R + rater``.
        """
        arrays = self.arrays(self.data.variables["label"].data)
        if len(arrays[0]) > _LISTED and not any(map(is_lazy, arrays)):
            check_order(arrays[0])
            starts = np.arange(_LISTED, len(arrays[0]), _LISTED)
            arrays = in_chunks(arrays, np.searchsorted(arrays[0], arrays[0][starts]))
        *codes, label = [array.astype(np.int64) if array.dtype.kind == "u" else array for array in arrays]
        dtype = to_codes(np.empty(0, dtype=label.dtype)).dtype
        label = _along(Checked(self.n_items, self.n_raters, self.cells), [*codes, label], dtype)
        if population is not None:
            label = _along(Within(population), [codes[0], label], dtype)
        if members is not None and not members.all():
            label = _along(Within(members), [codes[1], label], dtype)
        if group is not None:
            codes[1] = _along(InGroups(group, self.n_raters), codes[:2], np.dtype(np.int64))
        cell = _along(Cells(list(self.cells.values())), [codes[0], *codes[2:]], np.dtype(np.int32))
        return {"item": codes[0], "rater": codes[1], "cell": cell, "label": label}

    def raters_per_item(self, pool: npt.NDArray[np.bool_]) -> int:
        """Most raters of a pool that an item has; not less, where codes are lazy and attributes say it."""
        arrays = self.arrays()[:2]
        told = self.data.variables["item_code"].attrs.get("raters_per_item")
        if told is not None and any(map(is_lazy, arrays)):
            return int(min(int(told), pool.sum()))
        found = answers_to_items(Sizes(pool), arrays, self.n_items, shape=(), dtype=np.dtype(np.int64))
        return int(metadata_values(found.max())) if self.n_items else 0

    def columns(
        self,
        own: Sequence[int],
        pool: Sequence[int] = (),
        role: str = "human",
        names: Sequence[Any] = ("label", "score", "prob", "confidence"),
    ) -> tuple[xr.Dataset, int]:
        """The dataset with a column for each of some raters, and places for a pool of others.

        Parameters
        ----------
        own : sequence of int
            Raters with columns, in their order.
        pool : sequence of int
            Raters whose labels fill places.
        role : {"human", "judge"}
            Of the places.
        names : sequence
            Variables along answers that are taken along.

        Returns
        -------
        data : Dataset
            In the dense layout; lazy where the answers are, or where it is too large to be held.
        n_places : int
            How many columns at the end are places: at least two where two raters share them.
        """
        of_pool = np.zeros(self.n_raters, dtype=bool)
        of_pool[list(pool)] = True
        n_places = max(self.raters_per_item(of_pool), min(len(pool), 2)) if len(pool) else 0
        column = np.full(self.n_raters, -1, dtype=np.int32)
        column[list(own)] = np.arange(len(own), dtype=np.int32)
        column[of_pool] = PLACE
        width = len(own) + n_places
        n_cells = self.n_items * width * self.n_cells
        if n_cells > _LARGEST:
            raise StructureError(
                f"{self.n_items:,} items with {width:,} columns ({len(own):,} raters told apart, and up to "
                f"{n_places:,} further raters on one item) are {n_cells:,} cells, more than are counted from "
                "the sparse layout. Take the items with very many raters apart, or name fewer raters."
            )
        taken = [*own, *([pool[0]] * n_places if n_places else [])]
        data = self.data.drop_dims("answer").isel(rater=np.array(taken, dtype=np.intp))
        pack = Pack(column, len(own), n_places, self.cells)
        variables = {
            name: self._packed(name, pack, held=n_cells <= _HELD)
            for name in names
            if name in self.data.variables and self.data.variables[name].dims[:1] == ("answer",)
        }
        if n_places:
            data = data.drop_vars("rater", errors="ignore").assign_coords(
                _names_of(self.data, taken, len(own), role)
            )
        return data.assign(variables), n_places

    def _packed(self, name: Any, pack: Pack, *, held: bool) -> xr.Variable:
        """A variable along answers as one along items and columns."""
        variable = self.data.variables[name]
        arrays = self.arrays(variable.data)
        shape = (pack.width, *self.cells.values(), *variable.shape[1:])
        if not held and not any(map(is_lazy, arrays)):
            items = max(1, _BLOCK // max(1, math.prod(shape)))
            arrays = in_chunks(arrays, np.searchsorted(arrays[0], np.arange(items, self.n_items, items)))
        dtype = variable.dtype if name == "label" or variable.dtype.kind == "f" else np.dtype(object)
        fill = MISSING if name == "label" else np.nan
        packed = answers_to_items(pack.filled(fill, dtype), arrays, self.n_items, shape=shape, dtype=dtype)
        return xr.Variable(("item", "rater", *self.cells, *variable.dims[1:]), packed, variable.attrs)


def answer_problems(ds: xr.Dataset) -> list[str]:
    """Return what is wrong with codes and tables of the sparse layout, as far as no value tells it."""
    problems = [problem for dim in _dims(ds) for problem in _code_problems(ds, dim)]
    if ds["label"].dims != ("answer",):
        problems.append(f"`label` lives on {ds['label'].dims}; the sparse layout has it on `answer`.")
    return problems


def _dims(ds: xr.Dataset) -> list[str]:
    return ["item", "rater", *(dim for dim in DIMS[2:] if f"{dim}_code" in ds.variables)]


def _code_problems(ds: xr.Dataset, dim: str) -> list[str]:
    name = f"{dim}_code"
    if name not in ds.variables:
        return [f"The sparse layout needs `{name}(answer)`; there is none."]
    held = ds.variables[name]
    if dim not in ds.sizes:
        return [f"The sparse layout needs the table of ids along `{dim}`, which `{name}` points into."]
    if held.dims != ("answer",) or held.dtype.kind not in "iu":
        return [f"`{name}` holds {held.dtype} on {held.dims}; it should be integers on `answer`."]
    told = held.attrs.get("n_instances")
    if told is not None and int(told) != ds.sizes[dim]:
        return [
            f"The table of ids along `{dim}` has {ds.sizes[dim]} entries, and `{name}` points into one of "
            f"{int(told)}: select answers, `ds.isel(answer=...)`, and leave the tables whole."
        ]
    order, _, members = str(held.attrs.get("instances", "")).partition(" ")
    if not order or not _is_known(ds, dim) or order == _order_mark(ds, dim):
        return []
    if members != _member_mark(ds, dim):  # other names in the same places
        return []
    return [
        f"The ids along `{dim}` stand in another order than those `{name}` points into, so that labels would "
        "be taken for those of others. Leave the tables as they were built; sort what xj.to_long(ds) gives."
    ]


def _names_of(data: xr.Dataset, taken: Sequence[int], n_own: int, role: str) -> dict[str, Any]:
    """Coordinates that places cannot have from a rater: names, roles, identities."""
    names = np.empty(len(taken), dtype=object)
    known = metadata_values(data["rater"].data) if "rater" in data.coords else np.arange(data.sizes["rater"])
    names[:n_own] = known[list(taken[:n_own])].tolist()
    names[n_own:] = [f"(crowd, place {place})" for place in range(len(taken) - n_own)]
    coords: dict[str, Any] = {"rater": ("rater", names)}
    for name, word in (("role", role), ("identity", "unknown")):
        if name in data.coords:
            words = metadata_values(data[name].data)[list(taken)].astype(object)
            words[n_own:] = word
            coords[name] = ("rater", words)
    return coords


def _along(function: Any, arrays: Sequence[Any], dtype: Any) -> Any:
    """A function of answers, in one go where they are in memory: no item is cut."""
    if any(map(is_lazy, arrays)):
        return map_items(function, arrays, shape=(), dtype=dtype)
    return function(*arrays)

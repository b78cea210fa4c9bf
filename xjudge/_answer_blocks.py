"""Answers of one block of items: checked, ranked, packed into columns.

The callables are classes and not closures, so that schedulers can send them to other processes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from xjudge.codes import MISSING, to_codes
from xjudge.errors import StructureError

__all__ = [
    "PLACE",
    "Cells",
    "Checked",
    "InGroups",
    "Pack",
    "Sizes",
    "Within",
    "check_order",
    "check_within",
    "ranks",
]

Ints = npt.NDArray[np.int64]

PLACE: Final = -2
"""Column of a rater who shares places with others; -1 is that of one who has none."""


def ranks(item: npt.NDArray[Any], rater: npt.NDArray[Any]) -> tuple[Ints, bool]:
    """Place of each rater among those of the item, from 0, and whether answers were in order of raters.

    ``item`` is sorted; a rater who answers an item several times (its criteria) has one place.
    """
    if not len(item):
        return np.zeros(0, dtype=np.int64), True
    key = item.astype(np.int64) * (int(rater.max()) + 1) + rater
    ordered = bool((key[1:] >= key[:-1]).all())
    order = None if ordered else np.argsort(key, kind="stable")
    key = key if order is None else key[order]
    group = np.cumsum(np.append(False, key[1:] != key[:-1]))
    of_item = item if order is None else item[order]
    is_first = np.append(True, of_item[1:] != of_item[:-1])
    found = group - np.maximum.accumulate(np.where(is_first, group, 0))
    if order is not None:
        back = np.empty_like(found)
        back[order] = found
        found = back
    return found, ordered


class Sizes:
    """How many raters of a pool each item has."""

    def __init__(self, pool: npt.NDArray[np.bool_]) -> None:
        self.pool = pool

    def __call__(self, start: int, stop: int, item: npt.NDArray[Any], rater: npt.NDArray[Any]) -> Ints:
        _check_codes((start, stop), item, {"rater": (rater, len(self.pool))})
        keep = self.pool[rater]
        item, rater = item[keep].astype(np.int64) - start, rater[keep]
        out = np.zeros(stop - start, dtype=np.int64)
        np.maximum.at(out, item, ranks(item, rater)[0] + 1)
        return out


class Pack:
    """Answers of a block of items as an array (item, column, *cells)."""

    def __init__(
        self, column: npt.NDArray[np.int32], n_own: int, n_places: int, cells: Mapping[str, int]
    ) -> None:
        self.column, self.n_own, self.n_places, self.cells = column, n_own, n_places, cells
        self.fill: Any = MISSING
        self.dtype: Any = np.dtype(np.int8)

    @property
    def width(self) -> int:
        """Columns and places."""
        return self.n_own + self.n_places

    def filled(self, fill: Any, dtype: Any) -> Pack:
        """The same for another variable: what stands where there is no answer."""
        out = Pack(self.column, self.n_own, self.n_places, self.cells)
        out.fill, out.dtype = fill, dtype
        return out

    def __call__(self, start: int, stop: int, *arrays: npt.NDArray[Any]) -> npt.NDArray[Any]:
        item, rater, *cells, values = arrays
        _check_codes((start, stop), item, _tables(rater, len(self.column), cells, self.cells))
        column = self.column[rater].astype(np.int64)
        local = item.astype(np.int64) - start
        shared = column == PLACE
        if shared.any():
            place = ranks(local[shared], rater[shared])[0]
            if len(place) and place.max() >= self.n_places:
                raise StructureError(
                    f"An item has {int(place.max()) + 1} raters, and `item_code.attrs['raters_per_item']` "
                    f"says {self.n_places}; remove the attribute, so that they are counted."
                )
            column[shared] = self.n_own + place
        at = local * self.width + column
        for code, size in zip(cells, self.cells.values(), strict=True):
            at = at * size + code
        if not (column >= 0).all():
            keep = column >= 0
            at, values, local, rater = at[keep], values[keep], local[keep], rater[keep]
        size = (stop - start) * self.width * math.prod(self.cells.values())
        _check_distinct(at, local + start, rater)
        out = np.full((size, *values.shape[1:]), self.fill, dtype=self.dtype)
        out[at] = values
        return out.reshape((stop - start, self.width, *self.cells.values(), *values.shape[1:]))


def _tables(
    rater: npt.NDArray[Any], n_raters: int, cells: Sequence[npt.NDArray[Any]], sizes: Mapping[str, int]
) -> dict[str, tuple[npt.NDArray[Any], int]]:
    """Codes and sizes of the tables that they point into, by dim."""
    pairs = zip(cells, sizes.values(), strict=True)
    return {"rater": (rater, n_raters)} | dict(zip(sizes, pairs, strict=True))


class Checked:
    """Labels of a block of answers as codes, once the codes beside them are found to be in order."""

    def __init__(self, n_items: int, n_raters: int, cells: Mapping[str, int]) -> None:
        self.n_items, self.n_raters, self.cells = n_items, n_raters, cells

    def __call__(self, *arrays: npt.NDArray[Any]) -> npt.NDArray[np.signedinteger]:
        item, rater, *cells, label = arrays
        _check_codes((0, self.n_items), item, _tables(rater, self.n_raters, cells, self.cells))
        at = item.astype(np.int64) * self.n_raters + rater
        for code, size in zip(cells, self.cells.values(), strict=True):
            at = at * size + code
        _check_distinct(at, item, rater)
        return to_codes(label)


class Cells:
    """Number of the cell of each answer."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = tuple(sizes)

    def __call__(self, item: npt.NDArray[Any], *cells: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
        out = np.zeros(len(item), dtype=np.int32)
        for code, size in zip(cells, self.sizes, strict=True):
            out = out * size + code.astype(np.int32)
        return out


class Within:
    """Labels of the items, or raters, that count; the others become missing."""

    def __init__(self, kept: npt.NDArray[np.bool_]) -> None:
        self.kept = kept

    def __call__(self, code: npt.NDArray[Any], label: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.where(self.kept[code], label, label.dtype.type(MISSING))


class InGroups:
    """Numbers of raters that are others in every group of items; without a group, those of the first."""

    def __init__(self, group: npt.NDArray[np.int64], n_raters: int) -> None:
        self.group, self.n_raters = group, n_raters

    def __call__(self, item: npt.NDArray[Any], rater: npt.NDArray[Any]) -> Ints:
        return np.maximum(self.group[item], 0) * self.n_raters + rater.astype(np.int64)


def check_order(item: npt.NDArray[Any]) -> None:
    """Refuse answers that are not sorted by item."""
    if (item[1:] < item[:-1]).any():
        raise StructureError('The answers are not sorted by item: use `ds.sortby("item_code")`.')


def check_within(dim: str, codes: npt.NDArray[Any], low: int, high: int) -> None:
    """Refuse codes that point outside their table, or outside the part of it that goes from low to high."""
    if len(codes) and (codes.min() < low or codes.max() >= high):
        raise StructureError(
            f"`{dim}_code` points outside the table of ids along `{dim}`: it goes from {codes.min()} to "
            f"{codes.max()}, and the table from {low} to {high - 1}."
        )


def _check_codes(
    items: tuple[int, int], item: npt.NDArray[Any], others: dict[str, tuple[npt.NDArray[Any], int]]
) -> None:
    """Refuse answers that are not sorted by item, and codes that point outside their table."""
    check_order(item)
    for dim, (codes, low, high) in {
        "item": (item, *items),
        **{dim: (codes, 0, size) for dim, (codes, size) in others.items()},
    }.items():
        check_within(dim, codes, low, high)


def _check_distinct(at: Ints, item: npt.NDArray[Any], rater: npt.NDArray[Any]) -> None:
    if (at[1:] > at[:-1]).all():
        return
    ordered = np.sort(at)
    n_repeated = int(np.count_nonzero(ordered[1:] == ordered[:-1]))
    if n_repeated:
        order = np.argsort(at, kind="stable")
        twice = order[1:][at[order][1:] == at[order][:-1]][0]
        raise StructureError(
            f"{n_repeated} answers repeat an item, rater and criterion that has one already, the first at "
            f"item_code {int(item[twice])}, rater_code {int(rater[twice])}. Keep one of each: build the "
            "dataset with `duplicates='first'`, 'last', 'majority' or 'replicate'."
        )

"""Count records: what one pass over items can count, and how blocks of items are counted and combined.

Nearly every statistic is a function of a few small arrays that are sums (or merges) over items. A
:class:`Count` says how: ``chunk`` counts one block of items, ``combine`` adds partial counts, ``finish``
makes the final array. A :class:`Request` is a count with its options. :func:`count_block` counts all
requests of a pass over one block, with leading axes ``population`` and ``group``;
:func:`xjudge.lazy.reduce_items` runs it over numpy or dask.

A block is a mapping from names to arrays whose first axis is the item. The array ``codes`` has shape
``(item, rater, cell)``, a cell being a criterion (times any further dims). The names ``group`` (item,) and
``population`` (item, P) or (item, P, cell) are reserved for the leading axes; arrays whose name begins with
``score`` hold numbers, NaN where there is none, and all others hold codes.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from xjudge.codes import N_OUTCOMES, n_raw, smallest_dtype, to_codes
from xjudge.statistics._columns import Columns, extent, places_of
from xjudge.statistics._tables import column_counts, pair_tables

__all__ = [
    "ITEM_SUPPORT",
    "MARGINS",
    "OUTSIDE",
    "PAIR_TABLES",
    "Axes",
    "Count",
    "Request",
    "combine_blocks",
    "count_block",
    "extent_of",
    "finish_block",
    "item_support",
    "margins",
    "outside",
    "pairs",
    "places_of",
]

Block = Mapping[str, npt.NDArray[Any]]
Partial = Any
Options = Mapping[str, Any]

_COPIED_LABELS = 1 << 22
"""Labels translated or masked at a time, where they have to be: bounds the memory of a pass."""

_SUPPORT_ITEMS = 1 << 16

MASKED = np.iinfo(np.int8).min
"""Code of a cell outside the population: counted nowhere, and not reported as unknown."""


@dataclass(frozen=True)
class Count:
    """A record of something that can be counted in one pass.

    Parameters
    ----------
    name : str
    chunk : callable
        ``(options, block) -> partial``: the counts of one block.
    combine : callable
        ``(list of partials) -> partial``: associative and commutative up to the order of merges.
    finish : callable
        ``(options, partial) -> array``.
    per_slot : bool
        Whether it is counted per population and group; otherwise once over all items.
    stacked : bool
        Whether what is finished per population and group has one shape; otherwise the axes are those of an
        array of objects.
    """

    name: str
    chunk: Callable[[Options, Block], Partial]
    combine: Callable[[Sequence[Partial]], Partial]
    finish: Callable[[Options, Partial], Any]
    per_slot: bool = True
    stacked: bool = True


@dataclass(frozen=True)
class Request:
    """A count with its options."""

    count: Count
    options: Options = field(default_factory=dict)


@dataclass(frozen=True)
class Axes:
    """The leading axes of a pass: how many populations and groups; ``0`` where there is no such axis."""

    n_populations: int = 0
    n_groups: int = 0


# ------------------------------------------------------------------------------------------------ the pass


class _Arrays(dict[str, npt.NDArray[Any]]):
    """Arrays of a block, and the ends of their codes once they were asked for: requests share them."""

    def __init__(self, arrays: Block, known: dict[str, tuple[int, int]] | None = None) -> None:
        super().__init__(arrays)
        self.known: dict[str, tuple[int, int]] = {} if known is None else known


def extent_of(block: Block, name: str) -> tuple[int, int]:
    """Least and greatest code of an array of a block, 0 and 0 where it is empty; read once in a pass."""
    if not isinstance(block, _Arrays):
        return extent(block[name])
    if name not in block.known:
        block.known[name] = extent(block[name])
    return block.known[name]


def count_block(requests: Sequence[Request], axes: Axes, block: Block) -> list[Partial]:
    """Count every request over one block of items.

    Parameters
    ----------
    requests : sequence of Request
    axes : Axes
    block : mapping
        Arrays with the item as first axis; labels may be integral floats with NaN.

    Returns
    -------
    list
        A partial per request; those counted per slot are nested lists ``[population][group]``.
    """
    n_items = min(len(array) for array in block.values())
    step = _items_at_a_time(axes, block)
    if n_items > step:
        parts = ({name: a[i : i + step] for name, a in block.items()} for i in range(0, n_items, step))
        return combine_blocks(requests, [count_block(requests, axes, part) for part in parts])
    arrays = _Arrays({name: _readable(name, array) for name, array in block.items()})
    out: list[Partial] = [
        [] if request.count.per_slot else request.count.chunk(request.options, arrays) for request in requests
    ]
    for groups in _slots(axes, arrays):
        for request, partial in zip(requests, out, strict=True):
            if request.count.per_slot:
                partial.append([request.count.chunk(request.options, slot) for slot in groups])
    return out


def _items_at_a_time(axes: Axes, block: Block) -> int:
    """Items whose labels are copied at once; all of them where no label is copied."""
    labels = [array for name, array in block.items() if name not in ("group", "population")]
    if axes == Axes() and all(array.dtype.kind == "i" for array in labels):
        return sys.maxsize
    return max(1, _COPIED_LABELS // max(1, sum(math.prod(array.shape[1:]) for array in labels)))


def combine_blocks(requests: Sequence[Request], partials: Sequence[list[Partial]]) -> list[Partial]:
    """Combine the partials of several blocks, request by request."""
    if len(partials) == 1:
        return partials[0]
    out: list[Partial] = []
    for position, request in enumerate(requests):
        parts = [partial[position] for partial in partials]
        if request.count.per_slot:
            out.append(
                [
                    [request.count.combine([part[p][g] for part in parts]) for g in range(len(parts[0][p]))]
                    for p in range(len(parts[0]))
                ]
            )
        else:
            out.append(request.count.combine(parts))
    return out


def finish_block(requests: Sequence[Request], axes: Axes, partial: list[Partial]) -> list[Any]:
    """Final arrays, with the leading axes (population, group) that the axes has."""
    out: list[Any] = []
    for request, counted in zip(requests, partial, strict=True):
        if not request.count.per_slot:
            out.append(request.count.finish(request.options, counted))
            continue
        slots = [[request.count.finish(request.options, slot) for slot in groups] for groups in counted]
        finished = (
            np.stack([np.stack(groups) for groups in slots]) if request.count.stacked else _objects(slots)
        )
        drop = tuple(axis for axis, size in enumerate((axes.n_populations, axes.n_groups)) if size == 0)
        out.append(finished.squeeze(drop) if drop else finished)
    return out


def _objects(slots: list[list[Any]]) -> npt.NDArray[np.object_]:
    out = np.empty((len(slots), len(slots[0])), dtype=object)
    for p, groups in enumerate(slots):
        for g, slot in enumerate(groups):
            out[p, g] = slot
    return out


def _readable(name: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Labels as codes; numbers (arrays whose name begins with ``score``) as they are."""
    return array if name in ("group", "population") or name.startswith("score") else to_codes(array)


def _slots(axes: Axes, arrays: _Arrays) -> Iterator[list[Block]]:
    """The block restricted to each group, for one population after the other."""
    plain = {name: array for name, array in arrays.items() if name not in ("group", "population")}
    data = _Arrays(plain, arrays.known)
    for p in range(max(1, axes.n_populations)):
        kept = _Arrays(_masked(data, arrays["population"][:, p])) if axes.n_populations else data
        if axes.n_groups:
            rows = _rows_of_groups(arrays["group"], axes.n_groups)
            yield [_Arrays({name: array[row] for name, array in kept.items()}) for row in rows]
        else:
            yield [kept]


def _rows_of_groups(group: npt.NDArray[np.signedinteger], n_groups: int) -> list[npt.NDArray[np.intp]]:
    """Items of each group, in order; whatever is no group is in none."""
    group = np.clip(group, -1, n_groups).astype(smallest_dtype(n_groups + 1))
    order = np.argsort(group, kind="stable")  # linear in the items, where 16 bits do
    ends = np.searchsorted(group[order], np.arange(n_groups + 1))
    return [order[start:stop] for start, stop in itertools.pairwise(ends)]


def _masked(data: Block, keep: npt.NDArray[np.bool_]) -> dict[str, npt.NDArray[Any]]:
    """Labels outside the population become :data:`MASKED`, which is counted nowhere."""
    out = {}
    for name, array in data.items():
        if array.ndim == 1 < keep.ndim:
            out[name] = array  # says something of the item, and not of its cells
            continue
        mask = keep.reshape(keep.shape[0], *(1,) * (array.ndim - keep.ndim), *keep.shape[1:])
        out[name] = np.where(mask, array, array.dtype.type(MASKED if array.dtype.kind == "i" else np.nan))
    return out


def _add(partials: Sequence[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    total = partials[0].copy()
    for partial in partials[1:]:
        total += partial
    return total


def _as_counted(_: Options, partial: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return partial


def _columns(options: Options, block: Block, side: str) -> Columns:
    """One side of a count."""
    name, chosen = options[side], options[f"{side}_columns"]
    return Columns(
        block[name], options[f"{side}_targets"], options[f"n_{side}"], chosen, extent_of(block, name)
    )


# --------------------------------------------------------------------------------------------- pair tables


def _count_pairs(options: Options, block: Block) -> npt.NDArray[np.int64]:
    left = _columns(options, block, "left")
    return pair_tables(left, None if options["right"] is None else _columns(options, block, "right"))


PAIR_TABLES = Count("pair tables", _count_pairs, _add, _as_counted)
"""Joint counts ``(cell, A, B, place, place)`` of two sets of columns; see :func:`pairs`."""


def pairs(
    n_categories: int,
    *,
    left: str = "codes",
    left_columns: Sequence[int] | None = None,
    left_targets: Sequence[int] | None = None,
    right: str | None = "codes",
    right_columns: Sequence[int] | None = None,
    right_targets: Sequence[int] | None = None,
    n_right_categories: int | None = None,
) -> Request:
    """Ask for the pair tables of two sets of columns.

    Parameters
    ----------
    n_categories : int
        Categories of the left array (and of the right one, unless ``n_right_categories`` says otherwise).
    left, right : str
        Names of arrays of codes (item, column, cell). ``right=None`` pairs the left columns with
        each other.
    left_columns, right_columns : sequence of int, optional
        Which columns; all by default.
    left_targets, right_targets : sequence of int, optional
        Place of each raw code, negative for "count nowhere"; the raw axis itself by default.

    Returns
    -------
    Request
        Counts of shape (cell, A, B, places, places), int64.
    """
    other = n_categories if n_right_categories is None else n_right_categories
    options: dict[str, Any] = {"left": left, "right": right}
    for side, n, columns, targets in (
        ("left", n_categories, left_columns, left_targets),
        ("right", other, right_columns, right_targets),
    ):
        places = tuple(range(n_raw(n))) if targets is None else tuple(int(t) for t in targets)
        n_places = max(places) + 1
        options[f"{side}_columns"] = None if columns is None else tuple(int(c) for c in columns)
        options[f"{side}_targets"] = tuple(place if place >= 0 else n_places for place in places)
        options[f"n_{side}"] = n_places
    if right is None:
        options["n_right"] = options["n_left"]
    return Request(PAIR_TABLES, options)


# ------------------------------------------------------------------------------------------------- margins


def _count_margins(options: Options, block: Block) -> npt.NDArray[np.int64]:
    return column_counts(_columns(options, block, "left"))


MARGINS = Count("margins", _count_margins, _add, _as_counted)
"""Counts ``(cell, column, place)`` of single columns; see :func:`margins`."""


def margins(n_categories: int, *, array: str = "codes", columns: Sequence[int] | None = None) -> Request:
    """Ask for the label counts of single columns on the raw axis: shape (cell, column, place)."""
    return Request(
        MARGINS,
        {
            "left": array,
            "left_columns": None if columns is None else tuple(int(c) for c in columns),
            "left_targets": tuple(range(n_raw(n_categories))),
            "n_left": n_raw(n_categories),
        },
    )


# -------------------------------------------------------------------------------------------- item support


def _count_support(options: Options, block: Block) -> npt.NDArray[np.int64]:
    left, right = (_columns(options, block, side) for side in ("left", "right"))
    n_items, _, n_cells = left.codes.shape
    join, pooled = options["join"], options["pooled"]
    n_joined = n_cells // join
    out = np.zeros((n_joined, 1 if pooled else left.n_columns, right.n_columns), dtype=np.int64)
    for start in range(0, n_items, _SUPPORT_ITEMS):
        a, b = (_words(side.counted(slice(start, start + _SUPPORT_ITEMS))) for side in (left, right))
        if pooled:
            a = np.bitwise_or.reduce(a, axis=1, keepdims=True)
        for column in range(right.n_columns):
            both = a & b[:, column, None]
            either = np.bitwise_or.reduce(both.reshape(join, n_joined, *both.shape[1:]), axis=0)
            out[:, :, column] += np.bitwise_count(either).sum(-1, dtype=np.int64)
    return out


def _words(flags: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint64]:
    """One bit per flag of the last axis, in words of 64."""
    packed = np.packbits(flags, axis=-1)
    words = np.zeros((*packed.shape[:-1], -(-packed.shape[-1] // 8)), dtype=np.uint64)
    words.view(np.uint8)[..., : packed.shape[-1]] = packed
    return words


ITEM_SUPPORT = Count("item support", _count_support, _add, _as_counted)
"""Items ``(cell, A or 1, B)`` on which a pair of columns is usable; see :func:`item_support`."""


def item_support(
    usable_left: Sequence[bool],
    usable_right: Sequence[bool] | None = None,
    *,
    left: str = "codes",
    left_columns: Sequence[int] | None = None,
    right: str = "codes",
    right_columns: Sequence[int] | None = None,
    pooled: bool = False,
    join: int = 1,
) -> Request:
    """Ask on how many items a pair of columns is usable.

    Parameters
    ----------
    usable_left, usable_right : sequence of bool
        Per raw place, whether the code is usable; the right side like the left by default.
    pooled : bool
        Any of the left columns will do: the axis A has length 1.
    join : int
        Any of this many criteria will do; the criterion varies slowest along the cells.

    Returns
    -------
    Request
        Counts of shape (cell / join, A or 1, B), int64.
    """
    sides = {"left": usable_left, "right": usable_left if usable_right is None else usable_right}
    options: dict[str, Any] = {"left": left, "right": right, "pooled": pooled, "join": join}
    for side, columns in (("left", left_columns), ("right", right_columns)):
        options[f"{side}_columns"] = None if columns is None else tuple(int(c) for c in columns)
        options[f"{side}_targets"] = tuple(0 if usable else 1 for usable in sides[side])
        options[f"n_{side}"] = 1
    return Request(ITEM_SUPPORT, options)


# ------------------------------------------------------------------------------------- codes outside a scale


def _count_outside(options: Options, block: Block) -> npt.NDArray[np.int64]:
    """Rows (rater, cell, code, count) of codes that are neither a category nor an outcome."""
    codes, n_categories = block["codes"], options["n_categories"]
    rows = [np.empty((0, 4), dtype=np.int64)]
    low, high = extent_of(block, "codes")
    if codes.size and (low < -N_OUTCOMES or high >= n_categories):
        for rater, cell in itertools.product(*map(range, codes.shape[1:])):
            column = codes[:, rater, cell]
            strange, counts = np.unique(
                column[(column < -N_OUTCOMES) | (column >= n_categories)], return_counts=True
            )
            place = np.full((2, len(strange)), [[rater], [cell]])
            rows.append(np.column_stack([*place, strange.astype(np.int64), counts]))
    return np.concatenate(rows)


def _merge_outside(partials: Sequence[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    rows = np.concatenate(partials)
    unique, inverse = np.unique(rows[:, :3], axis=0, return_inverse=True)
    counts = np.zeros(len(unique), dtype=np.int64)
    np.add.at(counts, inverse.ravel(), rows[:, 3])
    return np.column_stack([unique, counts])


OUTSIDE = Count("codes outside the scale", _count_outside, _merge_outside, _as_counted, per_slot=False)
"""The bucket for codes outside the scale: rows (rater, cell, code, count), merged over blocks."""


def outside(n_categories: int) -> Request:
    """Ask for the codes of ``codes`` that are neither a category nor an outcome."""
    return Request(OUTSIDE, {"n_categories": n_categories})

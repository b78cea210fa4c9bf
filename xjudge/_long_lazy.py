"""A lazy long table to a lazy judge dataset, one block of items for each partition.

The table is thinned (see ``_thin``) in one compute, and the builder reads what is left of it: ids, scale,
roles, covariates, every problem. What remains are the labels of single cells. Where no item stands in two
partitions each partition is a block of items and scatters its own labels, lazily; otherwise the rows are
brought together by a hash of their item first. Where cells have several labels, or items were spread, a
second compute says which rows count.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from xjudge._assemble import (
    Decided,
    Tally,
    answer_list,
    answers,
    attributes,
    coordinates,
    cube,
    decide,
    described,
    is_dense,
    outcome_counts,
    rule_within,
    stacked_prob,
    warn_of,
)
from xjudge._block_readers import Lookup, PartitionReader, Regroup, RegroupedReader, block_of
from xjudge._blocks import Reader, Scatter, Tallied, TallyBlock
from xjudge._duplicates import Kept, repeat_problem
from xjudge._from_long import LongColumns, read_long
from xjudge._ids import Ids
from xjudge._ingest import Problems
from xjudge._labels import declare
from xjudge._lazy_frames import (
    arrays_of,
    by_block,
    compute_blocks,
    concat_frames,
    empty_like,
    partitions,
    reduce_partitions,
)
from xjudge._reading import Options, Reading, label_kinds
from xjudge._sparse import code_attrs, sealed
from xjudge._thin import Thinned, Thinner
from xjudge.errors import StructureError
from xjudge.scale import Scale
from xjudge.schema import column_problems, frame_problems

__all__ = ["from_lazy_long"]

_SMALLEST_CHUNK: Final = 1 << 20
_LARGEST_CHUNK: Final = 1 << 26


def from_lazy_long(df: Any, columns: LongColumns, options: Options, problems: Problems) -> xr.Dataset:
    """Lazy judge dataset from a lazy frame; see :func:`xjudge.build.from_long`."""
    parts = partitions(df)
    thinned = _thinned(df.columns, parts, columns, options)
    reading = read_long(thinned.frame, columns, problems, thinned)
    decided = decide(reading, options, problems)
    blocks = _blocks(df, parts, thinned, reading, decided, columns, bool(problems))
    tallied = blocks.tally(thinned, reading, options)
    problem = repeat_problem(
        tallied.repeated,
        tallied.tied,
        rule=rule_within(reading, options.duplicates),
        continuous=decided.scale.kind == "continuous",
        describe=lambda rows, n: _described(parts, thinned, columns, rows, n),
    )
    if problem:
        problems.add(problem)
    problems.raise_if_any()

    ids = dict(reading.ids)
    if tallied.n_replicates is not None:
        none = np.array([], dtype=np.intp)
        ids["replicate"] = Ids("replicate", none, np.arange(tallied.n_replicates), "number")
    dense = _is_dense(ids, blocks, tallied, options, problems)
    coords, dropped = coordinates(reading, ids, decided)
    variables, codes = blocks.variables(dense, reading, ids, tallied, options)
    if blocks.order is not None:
        items = {name: (dim, values[blocks.order]) for name, (dim, values) in coords.items() if dim == "item"}
        coords |= items
    ds = sealed(xr.Dataset(variables, coords=coords | codes))
    tally = Tally(thinned.n_rows, tallied.n_present, tallied.counts, tallied.n_kept, tallied.repeated.n_cells)
    ds.attrs = attributes(reading, options, decided, tally)
    warn_of(decided.matched, tally, options, dropped)
    return ds


def _thinned(columns: pd.Index[Any], parts: list[Any], named: LongColumns, options: Options) -> Thinned:
    """The rows that decide, in one compute."""
    problems = column_problems(columns)
    if problems:
        raise StructureError(" ".join(problems))
    declared = declare(options.ca, options.invalid, options.missing, options.normalise, Problems())
    scale = options.scale if isinstance(options.scale, Scale) else None
    thinner = Thinner(named.ids, named.others, declared, scale, options.layout)
    thinned: Thinned = reduce_partitions(parts, thinner, thinner.together)
    problems = frame_problems(thinned.frame)
    if problems:
        raise StructureError(" ".join(problems))
    return thinned


def _is_dense(
    ids: dict[str, Ids], blocks: _Blocks, tallied: Tallied, options: Options, problems: Problems
) -> bool:
    """Whether a cube is built; a lazy one may have any size, as long as each block can be held."""
    held = dict(ids)
    if options.layout == "dense":
        held["item"] = replace(ids["item"], values=ids["item"].values[: max(blocks.n_items)])
    return is_dense(held, tallied.n_kept, options.layout, problems)


def _described(parts: list[Any], thinned: Thinned, columns: LongColumns, rows: Sequence[int], n: int) -> str:
    """The answers of one cell as they are written; reads the partitions that hold them once more."""
    starts = _starts(thinned)
    place = np.searchsorted(starts, rows, side="right") - 1
    places = np.unique(place).tolist()
    take = _Take({at: (np.asarray(rows)[place == at] - starts[at]).tolist() for at in places})
    frame = concat_frames(compute_blocks(parts, take, places))
    return described(read_long(frame, columns, Problems(), None), range(len(rows)), n)


@dataclass(frozen=True)
class _Take:
    rows: dict[int, list[int]]

    def __call__(self, frame: pd.DataFrame, place: int) -> pd.DataFrame:
        return frame.iloc[self.rows[place]]


def _starts(thinned: Thinned) -> npt.NDArray[np.int64]:
    """The number of the first row of every partition."""
    return np.cumsum([0, *(part.n_rows for part in thinned.parts[:-1])], dtype=np.int64)


# ---------------------------------------------------------------------------------------------------- blocks


@dataclass(frozen=True)
class _Blocks:
    """Lazy frames that hold one block of items each, and how to read them.

    Parameters
    ----------
    parts : list of lazy frames
    reader : PartitionReader or RegroupedReader
    decided : Decided
    n_items : list of int
        For each block.
    order : ndarray of int, optional
        Of the items, where they do not stand in order of first appearance.
    """

    parts: list[Any]
    reader: Reader
    decided: Decided
    n_items: list[int]
    order: npt.NDArray[np.intp] | None = None

    def tally(self, thinned: Thinned, reading: Reading, options: Options) -> Tallied:
        """Which rows count; known already where no cell has several labels, else in one more compute."""
        if self.order is not None or thinned.repeated:
            tally = TallyBlock(self.reader, options.duplicates)
            tallied: Tallied = reduce_partitions(self.parts, tally, Tallied.together)
            return tallied
        present = [part.n_present for part in thinned.parts]
        counts = outcome_counts(self.decided.matched.labels, thinned.weights)
        counts["missing"] -= thinned.n_rows - sum(present)
        replicates = 1 if rule_within(reading, options.duplicates) == "replicate" else None
        n_raters = max(part.n_raters for part in thinned.parts)
        return Tallied(sum(present), present, counts, n_replicates=replicates, n_raters=n_raters)

    def variables(
        self, dense: bool, reading: Reading, ids: dict[str, Ids], tallied: Tallied, options: Options
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Lazy variables of the cube or of the list of answers, and the lazy coordinates beside them."""
        matched, scale = self.decided.matched, self.decided.scale
        none = Kept(np.array([], dtype=np.intp), np.array([], dtype=np.int64), 0)
        data = answers(reading, matched, none, stacked_prob(reading, self.decided))
        axes = ids | {"item": replace(ids["item"], values=ids["item"].values[:0])} if dense else ids
        variables, codes = (cube if dense else answer_list)(data, none, axes, scale)
        if not dense:
            told = code_attrs("item", len(ids["item"]), tallied.n_raters)
            codes["item_code"] = (*codes["item_code"][:2], told)
        templates = {name: empty_like(variable[1]) for name, variable in (variables | codes).items()}
        first_item = np.cumsum([0, *self.n_items[:-1]]).tolist()
        scatter = Scatter(self.reader, options.duplicates, tallied.n_replicates, dense, first_item, templates)
        arrays = arrays_of(self.parts, scatter, templates, self.n_items if dense else tallied.kept)
        if dense:
            size = _chunk_items(self.n_items, math.prod(len(one) for one in ids.values()))
            arrays = {name: array.rechunk({0: size}) for name, array in arrays.items()}

        def lazily(held: dict[str, Any]) -> dict[str, Any]:
            return {name: (one[0], arrays[name], *one[2:]) for name, one in held.items()}

        return lazily(variables), lazily(codes)


def _chunk_items(n_items: Sequence[int], n_cells: int) -> int:
    """Items of every chunk but the last, which stores ask to be one number: about those of a partition."""
    per_item = max(n_cells // max(sum(n_items), 1), 1)
    return max(min(max(*n_items, _SMALLEST_CHUNK // per_item), _LARGEST_CHUNK // per_item), 1)


def _blocks(
    df: Any,
    parts: list[Any],
    thinned: Thinned,
    reading: Reading,
    decided: Decided,
    columns: LongColumns,
    faulty: bool,
) -> _Blocks:
    """The partitions themselves where their items are their own; otherwise what a shuffle brings together."""
    lookups = {dim: Lookup.of(one) for dim, one in reading.ids.items() if dim != "item"}
    kinds = label_kinds(reading, decided.matched.vocabulary)
    n_items = [part.n_items for part in thinned.parts]
    reader = PartitionReader(
        columns, lookups, decided.bare(), kinds, n_items, _starts(thinned).tolist(), faulty
    )
    if not thinned.spread:
        return _Blocks(parts, reader, decided, n_items)
    item = Lookup.of(reading.ids["item"]).parts
    block = block_of(item, len(parts))
    sizes = np.bincount(block, minlength=len(parts)).tolist()
    regroup = Regroup(reader, tuple(map(empty_like, item)), len(parts))
    meta = Regroup(replace(reader, n_items=[0], first_row=[0]), regroup.item, 1)(thinned.frame.iloc[:0], 0)
    held = {dim: len(one) for dim, one in reading.ids.items() if dim != "item"}
    regrouped = RegroupedReader(decided.bare(), held, sizes, len(item))
    order = np.argsort(block, kind="stable")
    return _Blocks(by_block(df, regroup, meta, len(parts)), regrouped, decided, sizes, order)

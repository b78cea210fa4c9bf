"""Count records for many raters: what distinguishes items, merged, and what the units of an item share.

A *unit* is an item under a criterion. A coefficient of many raters sees of a unit either its *count vector*
(labels in each category) or, where raters are told apart, its *label row*. There are few distinct ones, so
a pass leaves them with their multiplicities: :func:`unit_rows`. Where the units of an item are pooled, items
are the sampling units: their delta-method variance needs only how often two count vectors stand in one item
(:func:`shared_items`), resampling needs whole items (:func:`unit_rows` with ``whole``).

Everything is in whole numbers, so it does not depend on how the items are cut into blocks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.codes import MISSING
from xjudge.statistics._rater_codes import Codes, as_they_are, codes_of, inside_of, options_of
from xjudge.statistics._rows import Ints, Rows, distinct_rows, row_histogram
from xjudge.statistics.counts import MASKED, Block, Count, Options, Request, extent_of
from xjudge.statistics.raters import count_vector_histogram, count_vectors

__all__ = [
    "SHARED_ITEMS",
    "SUPPORT",
    "UNIT_ROWS",
    "SharedItems",
    "UnitRows",
    "distinct_rows",
    "shared_items",
    "support",
    "unit_rows",
]

_BLOCK = 1 << 14
"""Items whose count vectors are held at a time."""

_LARGEST_TABLE = 1 << 22
"""Cells up to which rows, or pairs of count vectors, are counted in a table; above, they are sorted."""


class UnitRows(NamedTuple):
    """Distinct units, or whole items, in an order of their own."""

    data: Rows
    """Shape (row, criterion, F): count vectors (F = L) or labels (F = R, -1 where there is none). One
    criterion unless whole items were asked for."""
    multiplicities: Ints
    """Shape (row,): how many items have that row, at least 1."""
    cluster: Ints | None
    """Shape (row,): number of the cluster, where clusters were asked for."""
    n_eligible: int
    """Units that two raters or more were asked for; counted for plain count vectors, otherwise 0."""


class SharedItems(NamedTuple):
    """How often two count vectors stand in one item."""

    data: Ints
    """Shape (vector, L): the distinct count vectors."""
    criterion: Ints
    """Shape (vector,): the criterion of each; 0 where criteria are pooled."""
    multiplicities: Ints
    """Shape (vector,): units with that vector."""
    first: Ints
    second: Ints
    """Shape (pair,): which two vectors; both orders are listed."""
    n_pairs: Ints
    """Shape (pair,): pairs of units of one item, a unit with itself included."""


# -------------------------------------------------------------------------------------------------- unit rows

_Partial = list[tuple[Rows, Ints, int]]


def _count_rows(options: Options, block: Block) -> _Partial:
    codes, inside = codes_of(options, block), inside_of(options, block)
    out: _Partial = []
    if options["whole"]:
        for other in range(codes.shape[3]):
            kept = None if inside is None else np.asarray(inside[:, :, other].any(1))
            out.append((*_rows_of_items(options, block, codes[..., other], kept), 0))
        return out
    plain = options["counts"] and not options["clusters"]
    for criterion, other in np.ndindex(codes.shape[2:]):
        kept = None if inside is None else np.asarray(inside[:, criterion, other])
        rows, counts = _rows_of_items(options, block, codes[:, :, criterion : criterion + 1, other], kept)
        n_eligible = 0
        if plain:
            cell = criterion * codes.shape[3] + other
            n_eligible = _eligible(options, block, cell, rows, counts)
        out.append((rows, counts, n_eligible))
    return out


def _eligible(options: Options, block: Block, cell: int, rows: Rows, counts: Ints) -> int:
    """Units of a cell with two raters or more that are not missing."""
    codes, columns = block[options["left"]], options["left_columns"]
    if as_they_are(options) and codes.size and extent_of(block, options["left"])[0] >= MISSING:
        return int(counts[rows.sum(1) >= 2].sum())  # whoever was asked has answered
    asked = np.zeros(len(codes), dtype=np.int32)
    for column in range(codes.shape[1]) if columns is None else columns:
        one = codes[:, column, cell]
        asked += (one != MISSING) & (one != MASKED)
    return int((asked >= 2).sum())


def _rows_of_items(
    options: Options, block: Block, codes: Codes, kept: npt.NDArray[np.bool_] | None
) -> tuple[Rows, Ints]:
    """Distinct rows of some items (item, rater, criterion)."""
    codes = codes if kept is None else codes[kept]
    n_categories = options["n_categories"]
    if options["counts"] and not options["whole"] and not options["clusters"]:
        found = count_vector_histogram(codes[:, :, 0], n_categories)
        return found.patterns, found.multiplicities
    if not options["counts"] and not options["clusters"]:
        rows = codes.transpose(0, 2, 1).reshape((len(codes), math.prod(codes.shape[1:])))
        return row_histogram(rows if not rows.size or rows.min() >= MISSING else np.maximum(rows, MISSING))
    parts: list[Rows] = []
    totals: list[Ints] = []
    cluster = None
    if options["clusters"]:
        cluster = block["cluster"] if kept is None else block["cluster"][kept]
    for start in range(0, max(1, len(codes)), _BLOCK):
        part = codes[start : start + _BLOCK].transpose(0, 2, 1)
        rows = count_vectors(part, n_categories) if options["counts"] else np.maximum(part, MISSING)
        rows = rows.reshape((len(rows), math.prod(rows.shape[1:])))
        rows = rows.astype(np.int16 if rows.size and rows.max() < 1 << 15 else np.int32)
        if cluster is not None:
            rows = np.column_stack([cluster[start : start + _BLOCK], rows])
        distinct, counts, _ = distinct_rows(rows)
        parts.append(distinct)
        totals.append(counts)
    return _merge_two(parts, totals)


def _merge_two(parts: Sequence[Rows], totals: Sequence[Ints]) -> tuple[Rows, Ints]:
    if len(parts) == 1:
        return parts[0], totals[0]
    return distinct_rows(np.concatenate(parts), np.concatenate(totals))[:2]


def _merge_rows(partials: Sequence[_Partial]) -> _Partial:
    return [
        (
            *_merge_two([part[slot][0] for part in partials], [part[slot][1] for part in partials]),
            sum(part[slot][2] for part in partials),
        )
        for slot in range(len(partials[0]))
    ]


def _finish_rows(options: Options, partial: _Partial) -> list[UnitRows]:
    n_criteria = options["n_criteria"] if options["whole"] else 1
    out = []
    for rows, counts, n_eligible in partial:
        cluster = rows[:, 0].astype(np.int64) if options["clusters"] else None
        data = rows[:, 1:] if options["clusters"] else rows
        width = data.shape[1] // n_criteria
        out.append(UnitRows(data.reshape((len(data), n_criteria, width)), counts, cluster, n_eligible))
    return out


UNIT_ROWS = Count("distinct units or items", _count_rows, _merge_rows, _finish_rows, stacked=False)
"""Lists of :class:`UnitRows`: one for each cell, or each other dim; see :func:`unit_rows`."""


def unit_rows(
    *,
    array: str,
    columns: Sequence[int] | None,
    targets: Sequence[int],
    n_categories: int,
    n_criteria: int,
    counts: bool,
    whole: bool = False,
    clusters: bool = False,
) -> Request:
    """Ask for the distinct units of each cell, or for the distinct items.

    Parameters
    ----------
    array : str
        Name of an array of codes (item, column, cell); criteria vary slowest along the cells.
    columns : sequence of int, optional
        The raters; all by default.
    targets : sequence of int
        Per raw place the category, negative where there is no label.
    n_categories, n_criteria : int
    counts : bool
        Count vectors; otherwise labels with the raters told apart.
    whole : bool
        Items with the rows of all their criteria, for each other dim, in place of units for each cell.
    clusters : bool
        Rows are kept apart by the number in the array ``cluster`` (item,).

    Returns
    -------
    Request
        A list of :class:`UnitRows` for each slot.
    """
    options = options_of(array, columns, targets, n_categories, n_criteria)
    return Request(UNIT_ROWS, options | {"counts": counts, "whole": whole, "clusters": clusters})


# ----------------------------------------------------------------------------------------------- shared items

_Shared = list[tuple[Rows, Ints, Ints, Ints]]
"""For each other dim: rows (criterion, vector), multiplicities, pairs ``a * 2^31 + b``, their counts."""

_PAIR = 1 << 31


def _count_shared(options: Options, block: Block) -> _Shared:
    codes = codes_of(options, block)
    out = []
    for other in range(codes.shape[3]):
        parts = [
            _shared_of_block(options, codes[start : start + _BLOCK, :, :, other])
            for start in range(0, max(1, len(codes)), _BLOCK)
        ]
        out.append(parts[0] if len(parts) == 1 else _merged_shared(parts))
    return out


def _shared_of_block(options: Options, codes: Codes) -> tuple[Rows, Ints, Ints, Ints]:
    n_items, _, n_criteria = codes.shape
    vectors = count_vectors(codes.transpose(0, 2, 1), options["n_categories"])
    own = np.zeros(n_criteria, dtype=np.int64) if options["joined"] else np.arange(n_criteria)
    criterion = np.broadcast_to(own[:, None], (n_items, n_criteria, 1))
    rows = np.concatenate([criterion, vectors], axis=2)
    rows = rows.reshape((n_items * n_criteria, rows.shape[2]))
    distinct, multiplicities, place = distinct_rows(rows)
    apart = place.reshape((n_items, n_criteria)).astype(np.int64)
    n = len(distinct)
    first, second = np.triu_indices(n_criteria)
    if n * n <= _LARGEST_TABLE:
        table = np.zeros(n * n, dtype=np.int64)
        for g, h in zip(first, second, strict=True):
            found = np.bincount(apart[:, g] * n + apart[:, h], minlength=n * n)
            table += found if g == h else found + found.reshape(n, n).T.ravel()
        pairs = np.flatnonzero(table)
        return distinct, multiplicities, pairs // max(n, 1) * _PAIR + pairs % max(n, 1), table[pairs]
    every = (apart[:, :, None] * _PAIR + apart[:, None, :]).ravel()
    pairs, counts = np.unique(every, return_counts=True)
    return distinct, multiplicities, pairs, counts.astype(np.int64)


def _merged_shared(parts: Sequence[tuple[Rows, Ints, Ints, Ints]]) -> tuple[Rows, Ints, Ints, Ints]:
    rows = np.concatenate([part[0] for part in parts])
    distinct, multiplicities, place = distinct_rows(rows, np.concatenate([part[1] for part in parts]))
    codes, start = [], 0
    for part in parts:
        own = place[start : start + len(part[0])]
        start += len(part[0])
        codes.append(own[part[2] // _PAIR] * _PAIR + own[part[2] % _PAIR])
    pairs, where = np.unique(np.concatenate(codes), return_inverse=True)
    counts = np.bincount(where, weights=np.concatenate([part[3] for part in parts]), minlength=len(pairs))
    return distinct, multiplicities, pairs, counts.astype(np.int64)


def _merge_shared(partials: Sequence[_Shared]) -> _Shared:
    return [_merged_shared([part[other] for part in partials]) for other in range(len(partials[0]))]


def _finish_shared(_: Options, partial: _Shared) -> list[SharedItems]:
    return [
        SharedItems(
            rows[:, 1:].astype(np.int64),
            rows[:, 0].astype(np.int64),
            own,
            codes // _PAIR,
            codes % _PAIR,
            counts,
        )
        for rows, own, codes, counts in partial
    ]


SHARED_ITEMS = Count("count vectors of one item", _count_shared, _merge_shared, _finish_shared, stacked=False)
"""Lists of :class:`SharedItems`, one for each other dim; see :func:`shared_items`."""


def shared_items(
    *,
    array: str,
    columns: Sequence[int] | None,
    targets: Sequence[int],
    n_categories: int,
    n_criteria: int,
    joined: bool,
) -> Request:
    """Ask how often two count vectors stand in one item.

    With influences ``psi_u`` of the vectors, the influence of an item is the sum over its units, and
    ``sum_i psi_i^2 = sum_uv n_uv psi_u psi_v``: clustered variances from sums, for every coefficient of
    counts at once.

    Parameters
    ----------
    array, columns, targets, n_categories, n_criteria
        As :func:`unit_rows`.
    joined : bool
        Whether the criteria are pooled; otherwise vectors of different criteria are different.

    Returns
    -------
    Request
        A list of :class:`SharedItems`, one for each other dim.
    """
    options = options_of(array, columns, targets, n_categories, n_criteria)
    return Request(SHARED_ITEMS, options | {"joined": joined})


# ---------------------------------------------------------------------------------------------------- support


def _count_support(options: Options, block: Block) -> Ints:
    codes = codes_of(options, block)
    out = np.zeros((codes.shape[3], 2), dtype=np.int64)
    for start in range(0, len(codes), _BLOCK):
        size = (codes[start : start + _BLOCK] >= 0).sum(1, dtype=np.int32).max(1, initial=0)
        out += np.stack([(size >= 1).sum(0), (size >= 2).sum(0)], axis=1)
    return out


def _add(partials: Sequence[Ints]) -> Ints:
    return np.sum(partials, axis=0, dtype=np.int64)


def _as_counted(_: Options, partial: Ints) -> Ints:
    return partial


SUPPORT = Count("items with labels of several raters", _count_support, _add, _as_counted)
"""Items ``(other, 2)`` with a unit that has a label, and with a unit that has two; see :func:`support`."""


def support(
    *,
    array: str,
    columns: Sequence[int] | None,
    targets: Sequence[int],
    n_categories: int,
    n_criteria: int,
) -> Request:
    """Ask on how many items some unit has one label, or two.

    Parameters
    ----------
    array, columns, targets, n_categories, n_criteria
        As :func:`unit_rows`.

    Returns
    -------
    Request
        Counts of shape (other, 2), int64.
    """
    return Request(SUPPORT, options_of(array, columns, targets, n_categories, n_criteria))

"""Counts of labels listed one by one: of crowds, whose cube of items and raters is nearly empty.

An *answer* is a label with the numbers of its item, rater and cell (a criterion times any further dims).
Answers are sorted by item, and a block holds whole items, so that what the raters of an item say together is
counted within the block. A *unit* is an item and cell. Cost grows with the answers, and with the pairs of
raters that meet where these are counted; nothing here has the size of raters times items.

A block is a mapping of ``item``, ``rater``, ``cell`` and ``label`` to arrays (answer,). Labels come to
*places* by a table ``targets`` over the raw axis: a place from 0 on, or a negative number for "nowhere".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.codes import MISSING, N_OUTCOMES, n_raw, translate
from xjudge.statistics._answer_pairs import counted, pair_blocks, pair_meetings
from xjudge.statistics.counts import MARGINS, OUTSIDE, Block, Count, Options, Request

__all__ = [
    "MEETINGS",
    "PARTS",
    "RATER_COUNTS",
    "REST_TABLES",
    "UNKNOWN",
    "Meetings",
    "item_category_counts",
    "meetings",
    "pair_meetings",
    "parts",
    "rater_counts",
    "rest_tables",
    "unknown",
]

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.signedinteger]


def _places(options: Options, block: Block) -> tuple[npt.NDArray[np.bool_], Codes]:
    """Which answers count, and the places of those."""
    place = translate(block["label"], options["targets"])
    keep = place >= 0
    return keep, place[keep]


def _units(item: npt.NDArray[np.integer[Any]], cell: npt.NDArray[np.integer[Any]], n_cells: int) -> Ints:
    """Numbers of the units of a block, from 0 and not many more than there are."""
    if not len(item):
        return np.zeros(0, dtype=np.int64)
    unit = (item.astype(np.int64) - int(item.min())) * n_cells + cell
    if int(unit.max()) <= 4 * len(unit):
        return unit
    return np.asarray(np.unique(unit, return_inverse=True)[1], dtype=np.int64)


def _as_counted(_: Options, partial: Any) -> Any:
    return partial


# -------------------------------------------------------------------------------------- counts of categories


def item_category_counts(
    item: npt.NDArray[np.integer[Any]], label: npt.NDArray[np.integer[Any]], n_items: int, n_categories: int
) -> Ints:
    """How many labels of each category every item has.

    Parameters
    ----------
    item : ndarray of int, shape (answer,)
        Item of each answer, in any order.
    label : ndarray of int, shape (answer,)
        Category of each answer; a negative one is not counted.
    n_items, n_categories : int

    Returns
    -------
    ndarray of int64, shape (item, L)
        What :func:`xjudge.statistics.alpha` and its kin take.

    Examples
    --------
    >>> import numpy as np
    >>> item_category_counts(np.array([0, 0, 2]), np.array([1, 1, 0]), 3, 2).tolist()
    [[0, 2], [0, 0], [1, 0]]
    """
    known = label >= 0
    key = item[known].astype(np.int64) * n_categories + label[known]
    counts = np.bincount(key, minlength=n_items * n_categories)
    return counts.astype(np.int64, copy=False).reshape(n_items, n_categories)


# ------------------------------------------------------------------------------------------ counts of raters


def _count_raters(options: Options, block: Block) -> Ints:
    keep, place = _places(options, block)
    n_raters, n_cells, n_places = options["n_raters"], options["n_cells"], max(options["targets"]) + 1
    key = block["cell"][keep].astype(np.int64) * n_raters + block["rater"][keep]
    counts = np.bincount(key * n_places + place, minlength=n_cells * n_raters * n_places)
    return counts.astype(np.int64, copy=False).reshape(n_cells, n_raters, n_places)


RATER_COUNTS = Count("labels of each rater", _count_raters, MARGINS.combine, _as_counted)
"""Counts ``(cell, rater, place)``; see :func:`rater_counts`."""


def rater_counts(n_raters: int, n_cells: int, n_categories: int) -> Request:
    """Ask for the label counts of each rater on the raw axis: shape (cell, rater, place), int64."""
    targets = tuple(range(n_raw(n_categories)))
    return Request(RATER_COUNTS, {"n_raters": n_raters, "n_cells": n_cells, "targets": targets})


def _count_unknown(options: Options, block: Block) -> Ints:
    label = block["label"]
    strange = (label >= options["n_categories"]) | (label < -N_OUTCOMES)
    rows = np.stack([block[name][strange].astype(np.int64) for name in ("rater", "cell", "label")], axis=1)
    distinct, counts = np.unique(rows, axis=0, return_counts=True)
    return np.column_stack([distinct, counts]).astype(np.int64)


UNKNOWN = Count("labels outside the scale", _count_unknown, OUTSIDE.combine, _as_counted, per_slot=False)
"""Rows (rater, cell, code, count) of codes that are neither a category nor an outcome."""


def unknown(n_categories: int) -> Request:
    """Ask for the codes that are neither a category nor an outcome."""
    return Request(UNKNOWN, {"n_categories": n_categories})


# --------------------------------------------------------------------------------------------- overlap graph


def _count_parts(options: Options, block: Block) -> Ints:
    keep = block["label"] != MISSING
    case = _units(block["item"][keep], block["cell"][keep], options["n_cells"])
    return _joined(options["n_raters"], block["rater"][keep], case)


def _joined(n_raters: int, rater: npt.NDArray[np.integer[Any]], case: npt.NDArray[np.integer[Any]]) -> Ints:
    """Number of the part of each rater, where raters of one case belong together."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n = n_raters + int(case.max(initial=-1)) + 1
    ones = np.ones(len(rater), dtype=np.int8)
    graph = coo_array((ones, (rater.astype(np.int64), n_raters + case)), shape=(n, n))
    return connected_components(graph, directed=False)[1][:n_raters].astype(np.int64)


def _merge_parts(partials: Sequence[Ints]) -> Ints:
    n_raters = len(partials[0])
    sizes = np.cumsum([0, *(int(part.max(initial=-1)) + 1 for part in partials)])
    cases = np.concatenate([part + start for part, start in zip(partials, sizes[:-1], strict=True)])
    return _joined(n_raters, np.tile(np.arange(n_raters), len(partials)), cases)


def _finish_parts(_: Options, partial: Ints) -> Ints:
    """Parts numbered by their first member."""
    first, where = np.unique(partial, return_index=True, return_inverse=True)[1:]
    return np.asarray(np.argsort(np.argsort(first))[where], dtype=np.int64)


PARTS = Count("parts of the overlap graph", _count_parts, _merge_parts, _finish_parts)
"""Per rater the number of the connected part; see :func:`parts`."""


def parts(n_raters: int, n_cells: int) -> Request:
    """Ask for the connected parts of the overlap graph: raters who were asked about one case meet.

    Returns
    -------
    Request
        Number of the part of each rater (rater,), by first member; a rater who meets nobody is a part alone.
    """
    return Request(PARTS, {"n_raters": n_raters, "n_cells": n_cells})


# ------------------------------------------------------------------------------------------- pairs of raters


class Meetings(NamedTuple):
    """Pairs of raters that meet, with what they said, in increasing order of ``key``.

    ``key = ((a R + b) C + cell) P^2 + place_a P + place_b`` for raters ``a < b`` and C tables kept apart.
    """

    key: Ints
    """Shape (found,)."""
    n_cases: Ints
    """Shape (found,): how often."""
    pair: Ints
    """Shape (pair,): ``(a R + b) C + cell`` of pairs with a case that both put in one of the other places."""
    n_items: Ints
    """Shape (pair,): on how many items."""


def _count_meetings(options: Options, block: Block) -> Meetings:
    keep, place = _places(options, block)
    item, rater = block["item"][keep].astype(np.int64), block["rater"][keep].astype(np.int64)
    cell = block["cell"][keep].astype(np.int64) if options["n_cells"] > 1 else np.zeros(len(item), np.int64)
    n_places = max(options["targets"]) + 1
    found = pair_meetings(
        item * options["n_cells"] + cell,
        rater,
        place.astype(np.int64),
        options["n_raters"],
        n_places,
        n_cells=options["n_tables"],
    )
    if not options["by_item"]:
        return Meetings(*found, np.zeros(0, np.int64), np.zeros(0, np.int64))
    usable = place < n_places - 1
    return Meetings(*found, *_items_of_pairs(item[usable], cell[usable], rater[usable], options))


def _items_of_pairs(item: Ints, cell: Ints, rater: Ints, options: Options) -> tuple[Ints, Ints]:
    """Pairs with a usable case in common, and on how many items."""
    n_pairs, n_tables = options["n_raters"] ** 2, options["n_tables"]
    local = np.unique(item, return_inverse=True)[1]
    seen = [np.zeros(0, dtype=np.int64)]
    unit = local * options["n_cells"] + cell
    for whose, pair, _ in pair_blocks(unit, rater, np.zeros(len(unit), np.int64), options["n_raters"], 1):
        key = (whose // options["n_cells"] * n_pairs + pair) * n_tables + whose % n_tables
        seen.append(np.unique(key))
    return counted(np.unique(np.concatenate(seen)) % (n_pairs * n_tables))


def _merge_meetings(partials: Sequence[Meetings]) -> Meetings:
    if len(partials) == 1:
        return partials[0]
    keys, counts, pair, n_items = (np.concatenate(arrays) for arrays in zip(*partials, strict=True))
    return Meetings(*counted(keys, counts), *counted(pair, n_items))


MEETINGS = Count("pairs of raters that meet", _count_meetings, _merge_meetings, _as_counted, stacked=False)
"""A :class:`Meetings`; see :func:`meetings`."""


def meetings(
    n_raters: int,
    n_cells: int,
    targets: Sequence[int],
    *,
    n_tables: int = 1,
    by_item: bool = False,
) -> Request:
    """Ask for the pairs of raters that meet, and what they said.

    Parameters
    ----------
    n_raters, n_cells : int
    targets : sequence of int
        Per raw place the place in the tables; the last place is for answers that no coefficient uses.
    n_tables : int
        Tables of a pair: cells with the same remainder are added up.
    by_item : bool
        Whether to count the items of each pair too, which differ from its cases where cells are pooled.

    Returns
    -------
    Request
        :class:`Meetings`, as many as there are pairs with something in common.
    """
    options = {"n_raters": n_raters, "n_cells": n_cells, "targets": tuple(targets)}
    return Request(MEETINGS, options | {"n_tables": n_tables, "by_item": by_item})


# ------------------------------------------------------------------------------------- each against the rest


def _count_rest(options: Options, block: Block) -> Ints:
    keep, place = _places(options, block)
    item, rater = block["item"][keep].astype(np.int64), block["rater"][keep].astype(np.int64)
    cell, place = block["cell"][keep].astype(np.int64), place.astype(np.int64)
    n_categories, n_raters, n_cells = max(options["targets"]) + 1, options["n_raters"], options["n_cells"]
    unit = _units(item, cell, n_cells)
    n_units = int(unit.max(initial=-1)) + 1
    votes = np.asarray(options["voters"], dtype=bool)[rater]
    counts = item_category_counts(unit[votes], place[votes], n_units, n_categories)
    judged = np.asarray(options["judged"], dtype=bool)[rater]
    unit, rater, cell, place, votes = unit[judged], rater[judged], cell[judged], place[judged], votes[judged]
    rest = counts[unit]
    rest[np.arange(len(rest)), place] -= votes
    total = rest.sum(1)
    met = total > 0
    key = cell * n_raters + rater
    n = n_cells * n_raters
    out = np.zeros((n, n_categories**2 + 2), dtype=np.int64)
    if options["majority"]:
        most = rest.max(1, initial=0)
        tied = met & ((rest == most[:, None]).sum(1) > 1)
        used = met & ~tied
        winner = rest.argmax(1)
        flat = (key[used] * n_categories + winner[used]) * n_categories + place[used]
        table = np.bincount(flat, minlength=n * n_categories**2).reshape(n, n_categories**2)
        out[:, -1] = np.bincount(key[tied], minlength=n)
    else:
        used = met
        table = np.zeros((n, n_categories, n_categories), dtype=np.int64)
        for said in range(n_categories):
            own = key[used & (place == said)]
            for other in range(n_categories):
                weights = rest[used & (place == said), other]
                table[:, other, said] = _summed(own, weights, n)
        table = table.reshape(n, n_categories**2)
    out[:, :-2] = table
    out[:, -2] = np.bincount(key[used], minlength=n)
    return out.reshape(n_cells, n_raters, n_categories**2 + 2)


def _summed(place: Ints, weights: Ints, n: int) -> Ints:
    """Whole numbers added up by place; exact, as long as the sums are below 2^53."""
    return np.bincount(place, weights=weights, minlength=n).astype(np.int64)


REST_TABLES = Count("tables of each rater against the rest", _count_rest, MARGINS.combine, _as_counted)
"""Per (cell, rater) the L x L table, the units in it and the tied votes; see :func:`rest_tables`."""


def rest_tables(
    n_raters: int,
    n_cells: int,
    targets: Sequence[int],
    *,
    judged: npt.NDArray[np.bool_],
    voters: npt.NDArray[np.bool_],
    majority: bool,
) -> Request:
    """Ask for the table of each rater against the others who labelled the same units.

    Parameters
    ----------
    n_raters, n_cells : int
    targets : sequence of int
        Per raw place the category, negative where there is none.
    judged, voters : ndarray of bool, shape (rater,)
        Who is compared, and with whom; nobody with himself.
    majority : bool
        Against the plurality vote of the others, ties left out and counted; otherwise against each of them.

    Returns
    -------
    Request
        Counts (cell, rater, L L + 2), int64: the table (rows the others, columns the rater), then the units
        that it was made of, then those left out for a tie.
    """
    options = {"n_raters": n_raters, "n_cells": n_cells, "targets": tuple(targets)}
    return Request(REST_TABLES, options | {"judged": judged, "voters": voters, "majority": majority})

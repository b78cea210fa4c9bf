"""Counts from answers one by one, against plain loops over them."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xjudge.codes import N_OUTCOMES
from xjudge.statistics import answers as room
from xjudge.statistics._answer_pairs import _LARGEST_TABLE
from xjudge.statistics.counts import Axes, Request, combine_blocks, count_block, finish_block

R, C, L = 6, 2, 3
RAW = (0, 1, 2, -1, -2, -3)  # categories, then missing, CA, invalid


@st.composite
def listed(draw: st.DrawFn, items: int = 6) -> dict[str, np.ndarray]:
    """Answers sorted by item, each item, rater and cell at most once, in any order within an item."""
    cells = st.tuples(st.integers(0, items - 1), st.integers(0, R - 1), st.integers(0, C - 1))
    found = draw(st.dictionaries(cells, st.integers(-3, L - 1), max_size=40))
    order = draw(st.permutations(list(found)))
    order.sort(key=lambda at: at[0])
    block = {name: np.array([at[k] for at in order], dtype=np.int32) for k, name in enumerate(NAMES)}
    return block | {"label": np.array([found[at] for at in order], dtype=np.int8)}


NAMES = ("item", "rater", "cell")


def rows(block: dict[str, np.ndarray]) -> list[tuple[int, int, int, int]]:
    return list(zip(*(block[name].tolist() for name in (*NAMES, "label")), strict=True))


def counted(request: Request, block: dict[str, np.ndarray]) -> Any:
    """Counted at once, and item by item and merged: the same."""
    whole = finish_block([request], Axes(), count_block([request], Axes(), block))[0]
    parts = []
    for item in [None, *np.unique(block["item"]).tolist()]:
        own = block["item"] == item
        parts.append(count_block([request], Axes(), {name: array[own] for name, array in block.items()}))
    merged = finish_block([request], Axes(), combine_blocks([request], parts))[0]
    for one, other in zip(as_arrays(whole), as_arrays(merged), strict=True):
        np.testing.assert_array_equal(one, other)
    return whole.item() if isinstance(whole, np.ndarray) and whole.dtype.kind == "O" else whole


def as_arrays(found: Any) -> list[np.ndarray]:
    found = found.item() if isinstance(found, np.ndarray) and found.dtype.kind == "O" else found
    return list(found) if isinstance(found, tuple) else [found]


# ----------------------------------------------------------------------------------------------------- pairs


@given(listed(), st.sampled_from([1, C]))
def test_pairs_that_meet_by_loops(block: dict[str, np.ndarray], n_tables: int) -> None:
    targets = [0, 1, 2, -1, 3, 3]
    found = counted(room.meetings(R, C, targets, n_tables=n_tables, by_item=True), block)
    tables: Counter[int] = Counter()
    items = defaultdict(set)
    for one, two in itertools.permutations(rows(block), 2):
        (item, a, cell, x), (other, b, same, y) = one, two
        if item == other and cell == same and a < b and x != -1 and y != -1:
            pair = (a * R + b) * n_tables + cell % n_tables
            place = [targets[said] if said >= 0 else 3 for said in (x, y)]
            tables[pair * 16 + place[0] * 4 + place[1]] += 1
            if x >= 0 and y >= 0:
                items[pair].add(item)
    assert dict(zip(found.key.tolist(), found.n_cases.tolist(), strict=True)) == tables
    assert found.key.tolist() == sorted(tables)
    assert dict(zip(found.pair.tolist(), found.n_items.tolist(), strict=True)) == {
        pair: len(of) for pair, of in items.items()
    }


@pytest.mark.parametrize("n_raters", [40, 1_000_000_000])
def test_pairs_of_few_raters_and_of_a_billion(n_raters: int) -> None:
    """In a table of all pairs, and by sorting what was found; the largest names are the last ones."""
    assert (n_raters**2 * 9 > _LARGEST_TABLE) == (n_raters > 40)
    rng = np.random.default_rng(0)
    unit = np.repeat(np.arange(300), rng.integers(1, 7, 300))
    rater = np.concatenate([rng.permutation(40)[: int(n)] for n in np.unique(unit, return_counts=True)[1]])
    rater = rater + n_raters - 40
    place = rng.integers(0, 3, len(unit))
    key, count = room.pair_meetings(unit, rater, place, n_raters, 3)
    slow: Counter[int] = Counter()
    for u in range(300):
        own = sorted(zip(rater[unit == u].tolist(), place[unit == u].tolist(), strict=True))
        for (a, x), (b, y) in itertools.combinations(own, 2):
            slow[(a * n_raters + b) * 9 + x * 3 + y] += 1
    assert dict(zip(key.tolist(), count.tolist(), strict=True)) == slow
    mixed = rng.permutation(len(unit))
    again = room.pair_meetings(unit[mixed], rater[mixed], place[mixed], n_raters, 3)
    np.testing.assert_array_equal(again, (key, count))
    far = room.pair_meetings(
        unit + (1 << 40), rater, place, n_raters, 3
    )  # units that leave no bits for raters
    np.testing.assert_array_equal(far, (key, count))


def test_more_raters_than_pairs_can_be_numbered() -> None:
    with pytest.raises(OverflowError, match="too many pairs to number"):
        room.pair_meetings(np.zeros(1), np.zeros(1), np.zeros(1), 1 << 31, 3)


def test_many_raters_of_one_item() -> None:
    """Every pair of a long item, over several blocks."""
    key, count = room.pair_meetings(np.zeros(700, np.int64), np.arange(700), np.zeros(700, np.int64), 700, 1)
    assert len(key) == 700 * 699 // 2
    assert (count == 1).all()


def test_nobody_meets() -> None:
    nothing = np.zeros(0, dtype=np.int64)
    assert [array.tolist() for array in room.pair_meetings(nothing, nothing, nothing, 5, 2)] == [[], []]
    one = np.array([3])
    assert [a.tolist() for a in room.pair_meetings(one, one, one * 0, 5000, 200)] == [[], []]


# -------------------------------------------------------------------------------------------------- the rest


@given(
    listed(),
    st.lists(st.booleans(), min_size=R, max_size=R),
    st.lists(st.booleans(), min_size=R, max_size=R),
    st.booleans(),
)
def test_each_rater_against_the_rest_by_loops(
    block: dict[str, np.ndarray], judged: list[bool], voters: list[bool], majority: bool
) -> None:
    request = room.rest_tables(R, C, RAW, judged=np.array(judged), voters=np.array(voters), majority=majority)
    found = counted(request, block)
    slow = np.zeros((C, R, L * L + 2), dtype=np.int64)
    for item, rater, cell, said in rows(block):
        if said < 0 or not judged[rater]:
            continue
        others = [
            y for i, r, c, y in rows(block) if i == item and c == cell and r != rater and voters[r] and y >= 0
        ]
        if not others:
            continue
        votes = Counter(others).most_common()
        if majority and len(votes) > 1 and votes[0][1] == votes[1][1]:
            slow[cell, rater, -1] += 1
            continue
        slow[cell, rater, -2] += 1
        for other in [votes[0][0]] if majority else others:
            slow[cell, rater, other * L + said] += 1
    np.testing.assert_array_equal(found, slow)


# ----------------------------------------------------------------------------------- counts of single raters


@given(listed())
def test_labels_of_each_rater_by_loops(block: dict[str, np.ndarray]) -> None:
    found = counted(room.rater_counts(R, C, L), block)
    slow = np.zeros((C, R, L + N_OUTCOMES), dtype=np.int64)
    for _, rater, cell, said in rows(block):
        slow[cell, rater, said if said >= 0 else L - 1 - said] += 1
    np.testing.assert_array_equal(found, slow)


@given(listed())
def test_labels_of_each_category_by_loops(block: dict[str, np.ndarray]) -> None:
    found = room.item_category_counts(block["item"], block["label"], 6, L)
    slow = np.zeros((6, L), dtype=np.int64)
    for item, _, _, said in rows(block):
        if said >= 0:
            slow[item, said] += 1
    np.testing.assert_array_equal(found, slow)
    assert found.dtype == np.int64


@given(listed())
def test_connected_parts_by_flooding(block: dict[str, np.ndarray]) -> None:
    found = counted(room.parts(R, C), block).tolist()
    part = list(range(R))
    for _ in range(R):
        for (i, a, c, x), (j, b, d, y) in itertools.permutations(rows(block), 2):
            if i == j and c == d and x != -1 and y != -1:
                part[a] = part[b] = min(part[a], part[b])
    first = list(dict.fromkeys(part))
    assert found == [first.index(one) for one in part]


def test_labels_outside_the_scale() -> None:
    block = {
        "item": np.array([0, 0, 1, 2]),
        "rater": np.array([4, 1, 4, 4]),
        "cell": np.array([1, 0, 1, 0]),
        "label": np.array([7, -9, 7, 2]),
    }
    assert counted(room.unknown(L), block).tolist() == [[1, 0, -9, 1], [4, 1, 7, 2]]

"""Labels counted class by class, and the panel sums from them, against loops and against item by item."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xjudge.codes import translate
from xjudge.statistics import _class_tables as room
from xjudge.statistics import _panel_classes as classes
from xjudge.statistics import panel

MASKED = -128
KERNELS = ["numpy", "compiled"] if importlib.util.find_spec("numba") else ["numpy"]


@contextmanager
def kernel(name: str) -> Iterator[None]:
    """Counting by one kernel whatever the number of labels."""
    fast = importlib.import_module("xjudge.statistics._fast") if name == "compiled" else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(room, "compiled", lambda n_labels: fast)
        yield


def parity_classes(n_columns: int) -> room.Classes:
    """The class of an item is the number of its codes 1, modulo 3; code 7 puts it in none, 2 is uncounted."""
    weights = np.zeros((n_columns, 256), dtype=np.int32)
    weights[:, 1] = 1
    weights[:, 7] = n_columns + 1
    numbers = np.arange(n_columns * (n_columns + 1) + 1)
    numbers = np.where(numbers <= n_columns, numbers % 3, -1).astype(np.int32)
    return room.Classes(weights, numbers, 2, 3)


def by_loops(first: Any, codes: Any, kept: tuple[int, ...], complete: bool) -> list[Any]:
    k, X = codes.shape[1], len(kept)
    joint, margins = np.zeros((2, k, k, X, X), dtype=int), np.zeros((2, k, X), dtype=int)
    used, seen = np.zeros(2, dtype=int), np.zeros(3, dtype=int)
    for said, row in zip(first.tolist(), codes.tolist(), strict=True):
        if 7 in said:
            continue
        c = said.count(1) % 3
        seen[c] += 1
        places = [kept.index(code) if code in kept else None for code in row]
        answered = [place is not None for place in places]
        if c == 2 or not (all(answered) if complete else any(answered)):
            continue
        used[c] += 1
        for a, x in enumerate(places):
            if x is None:
                continue
            margins[c, a, x] += 1
            for b in range(a + 1, k):
                if places[b] is not None:
                    joint[c, a, b, x, places[b]] += 1
    return [joint, margins, used, seen]


@pytest.mark.parametrize("complete", [False, True])
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("k", [1, 3, 8, 11])
@pytest.mark.parametrize("kept", [(0, 1), (1,), (2, 0, -2)])
def test_against_loops(name: str, k: int, kept: tuple[int, ...], complete: bool) -> None:
    rng = np.random.default_rng(k)
    first = rng.choice(np.array([-1, 0, 1, 1, 7], dtype=np.int8), (700, 3))
    codes = rng.choice(np.array([-128, -3, -2, -1, 0, 1, 2, 3], dtype=np.int8), (700, k))
    codes[::2] = np.where(codes[::2] < 0, kept[0], codes[::2])
    for n in (0, 1, 7, 63, 64, 65, 700):
        with kernel(name):
            found, greatest = room.class_tables(
                first[:n], codes[:n], parity_classes(3), kept, pairs=True, complete=complete
            )
            alone, _ = room.class_tables(
                first[:n], codes[:n], parity_classes(3), kept, pairs=False, complete=complete
            )
        expected = by_loops(first[:n], codes[:n], kept, complete)
        for one, other in zip(found, expected, strict=True):
            assert one.dtype == np.int64
            np.testing.assert_array_equal(one, other)
        for one, other in zip(alone[1:], expected[1:], strict=True):
            np.testing.assert_array_equal(one, other)
        assert len(alone.joint) == 0
        assert greatest <= codes[:n].max(initial=-100)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("layout", ["C", "F", "columns", "items", "int64", "wide"])
def test_layouts(name: str, layout: str) -> None:
    """Wherever labels stand, also read-only ones, and the last ones of an array."""
    rng = np.random.default_rng(1)
    labels = rng.integers(-3, 3, (40_011, 12)).astype(np.int8)
    with kernel("numpy"):
        expected = room.class_tables(labels[:, :2], labels[:, 2:6], parity_classes(2), (0, 1), pairs=True)
    first, codes = labels[:, :2], labels[:, 2:6]
    if layout in "CF":
        first, codes = (np.array(a, order="C" if layout == "C" else "F") for a in (first, codes))
    elif layout == "columns":
        first, codes = (np.repeat(a, 2, axis=1)[:, ::2] for a in (first, codes))
    elif layout == "items":
        first, codes = (np.repeat(a[::-1], 3, axis=0)[::-3] for a in (first, codes))
    elif layout == "int64":
        first, codes = first.astype(np.int64), codes.astype(np.int64)
        codes[codes == -3] = -129 - (1 << 40)  # no answer, though its last byte could be
    first.flags.writeable = codes.flags.writeable = False
    with kernel(name):
        found = room.class_tables(first, codes, parity_classes(2), (0, 1), pairs=True)
    for one, other in zip(found[0], expected[0], strict=True):
        np.testing.assert_array_equal(one, other)
    assert found[1] == expected[1] == 2


# ------------------------------------------------------------------------------------------------ panel sums


def item_by_item(said: classes.Said, humans: Any, judges: Any, pairwise: bool) -> tuple[panel.PanelSums, int]:
    """The sums of `panel_sums` of the same labels."""
    inside = humans[:, 0] != MASKED
    labels = translate(humans, said.targets)
    counts = np.stack([(labels[:, : said.n_humans] == c).sum(1) for c in range(said.n_categories)], 1)
    h, n_humans = panel.human_distribution(counts)
    gold, ties = labels[:, -1], 0
    verdicts = translate(judges, said.targets)
    if said.gold != "column":
        gold = np.where(counts.sum(1) > 0, panel.gold_mode(counts, ties=said.gold)[0], -1)
        answered = (verdicts >= 0).any(1) if pairwise else (verdicts >= 0).all(1)
        ties = int(panel.gold_mode(counts[inside & answered & (counts.sum(1) > 0)])[1])
    sums = panel.panel_sums(
        verdicts[inside],
        h[inside],
        gold[inside],
        n_humans=n_humans[inside],
        incomplete="pairwise" if pairwise else "drop",
    )
    return sums, ties


TARGETS = {
    "as they are": lambda n: (*range(n), -1, -2, -3),
    "merged": lambda n: (*(min(code, 1) for code in range(n)), -1, -2, -3),
    "one left out": lambda n: (-1, *range(n - 1), -1, -2, -3) if n > 1 else (0, -1, -2, -3),
    "CA is a category": lambda n: (*range(n), -1, n, -3),
    "invalid is the first": lambda n: (*range(n), -1, -2, 0),
}


@given(
    seed=st.integers(0, 10**6),
    n=st.sampled_from([0, 1, 2, 60, 300]),
    n_humans=st.integers(1, 4),
    n_judges=st.integers(1, 4),
    n_categories=st.integers(1, 3),
    targets=st.sampled_from(sorted(TARGETS)),
    gold=st.sampled_from(["first", "drop", "column"]),
    pairwise=st.booleans(),
    gaps=st.sampled_from([0.0, 0.3, 1.0]),
    name=st.sampled_from(KERNELS),
)
def test_classes_are_items_one_by_one(
    seed: int,
    n: int,
    n_humans: int,
    n_judges: int,
    n_categories: int,
    targets: str,
    gold: str,
    pairwise: bool,
    gaps: float,
    name: str,
) -> None:
    """Ties, gaps, humans that are missing, items outside the population, outcomes that are categories."""
    rng = np.random.default_rng(seed)
    raw = rng.integers(0, n_categories, (n, n_humans + 1 + n_judges)).astype(np.int8)
    raw = np.where(rng.random(raw.shape) < gaps, rng.integers(-3, 0, raw.shape), raw).astype(np.int8)
    raw[rng.random(n) < 0.1] = MASKED
    axis = TARGETS[targets](n_categories)
    said = classes.Said(n_humans, axis, max(axis) + 1, gold, MASKED)
    humans, judges = raw[:, : n_humans + (gold == "column")], raw[:, n_humans + 1 :]
    with kernel(name):
        cuts = sorted(rng.integers(0, n + 1, 2).tolist())
        parts = [
            classes.count_classes(said, humans[a:b], judges[a:b], complete=not pairwise)
            for a, b in ((0, cuts[0]), (cuts[0], cuts[1]), (cuts[1], n))
        ]
        whole = classes.count_classes(said, humans, judges, complete=not pairwise)
    found, ties = classes.class_sums(said, whole, pairwise=pairwise)
    added, _ = classes.class_sums(said, classes.add_tables(parts), pairwise=pairwise)
    expected, n_ties = item_by_item(said, humans, judges, pairwise)
    assert ties == n_ties
    for field in expected._fields:
        one, other = getattr(found, field), getattr(expected, field)
        assert np.shape(one) == np.shape(other), field
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12 * max(n, 1), err_msg=field)
        np.testing.assert_array_equal(one, getattr(added, field))


def test_when_classes_are_told_apart() -> None:
    def cells(n_humans: int, n_categories: int, gold: str = "first", n_items: int = 10**9) -> int | None:
        axis = (*range(n_categories), -1, -2, -3)
        return classes.n_cells(classes.Said(n_humans, axis, n_categories, gold, MASKED), 28, n_items)

    assert cells(4, 2) == 15 * 28**2 * 2**2  # C(6, 2) vectors of counts
    assert cells(4, 2, "column") == 3 * 15 * 28**2 * 2**2
    assert cells(3, 3) == 20 * 28**2 * 3**2
    assert cells(0, 2) is None  # nobody to tell them apart
    assert cells(4, 2, n_items=15 * 64 - 1) is None  # few items
    assert cells(9, 8) is None  # 10^8 numbers
    assert cells(1, 120) is None  # codes beyond a byte

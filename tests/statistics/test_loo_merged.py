"""Counts of equal items at once, against counts item by item and against loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xjudge.statistics import _loo_merged as merged
from xjudge.statistics.loo import loo_counts


def labels(seed: int, n: int, n_raters: int, n_categories: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-3, n_categories, (n, n_raters)).astype(np.int8)


def by_loops(humans: np.ndarray, judge: np.ndarray) -> list[np.ndarray]:
    """The definitions (LOO.md section 1), item by item."""
    K = humans.shape[1]
    hits, same, overlap = (np.zeros((K, K), dtype=int) for _ in range(3))
    n_items, moments = np.zeros(K, dtype=int), np.zeros((2 * K + 1, 2 * K + 1), dtype=int)
    for row, verdict in zip(humans.tolist(), judge.tolist(), strict=True):
        if verdict < 0:
            continue
        z, w = [0] * K, [0] * K
        for k in range(K):
            for q in range(K):
                if q != k and row[k] >= 0 and row[q] >= 0:
                    overlap[k, q] += 1
                    hits[k, q] += verdict == row[q]
                    same[k, q] += row[k] == row[q]
                    z[k] += (verdict == row[q]) - (row[k] == row[q])
                    w[k] += 1
            n_items[k] += w[k] > 0
        v = np.array([1, *z, *w])
        moments += np.outer(v, v)
    return [hits, same, overlap, n_items, moments]


@pytest.mark.parametrize(
    ("n_humans", "n_categories"), [(1, 2), (2, 2), (3, 2), (4, 2), (3, 3), (2, 5), (2, 1)]
)
def test_against_loops(n_humans: int, n_categories: int) -> None:
    n = 8 * (n_categories + 1) ** n_humans * n_categories
    humans, judges = (labels(seed, n, m, n_categories) for seed, m in ((0, n_humans), (1, 3)))
    found = merged.merged_counts(humans, judges)
    assert found is not None
    for j in range(3):
        for one, expected in zip(found, by_loops(humans, judges[:, j]), strict=True):
            assert one.dtype == np.int64
            np.testing.assert_array_equal(one[j], expected)


@given(
    st.integers(0, 10_000),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(1, 3),
    st.sampled_from(["i1", "i8"]),
)
def test_merged_or_not(seed: int, n_humans: int, n_categories: int, n_judges: int, dtype: str) -> None:
    """Also through the public function, in parts, and with codes that no label has."""
    humans, judges = (labels(seed + m, 3000, m, n_categories).astype(dtype) for m in (n_humans, n_judges))
    found = loo_counts(humans, judges)
    parts = [loo_counts(humans[a:b], judges[a:b]) for a, b in ((0, 5), (5, 3000))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merged, "_ITEMS_A_CELL", 1 << 40)
        apart = loo_counts(humans, judges)
    for name in found._fields:
        np.testing.assert_array_equal(getattr(found, name), getattr(apart, name))
        np.testing.assert_array_equal(sum(getattr(part, name) for part in parts), getattr(apart, name))
    one = loo_counts(humans, judges[:, 0])
    for name in found._fields:
        np.testing.assert_array_equal(getattr(one, name), getattr(found, name)[0])


def test_nothing_to_merge() -> None:
    assert merged.merged_counts(labels(0, 0, 2, 2), labels(0, 0, 2, 2)) is None
    assert merged.merged_counts(labels(0, 50, 2, 2), labels(0, 50, 0, 2)) is None
    assert merged.merged_counts(labels(0, 20, 3, 2), labels(0, 20, 2, 2)) is None  # few items
    assert merged.merged_counts(labels(0, 500, 9, 2), labels(0, 500, 2, 2)) is None  # many rows


@pytest.mark.parametrize(("dtype", "late"), [("i1", 2), ("i2", 2), ("i2", 200)])
@pytest.mark.parametrize("side", ["humans", "judges"])
def test_a_category_that_only_a_late_item_has(side: str, dtype: str, late: int) -> None:
    """Categories are read off the first items; 200 does not fit a byte."""
    humans, judges = (labels(seed, 6000, 2, 2).astype(dtype) for seed in (0, 1))
    humans[-1], judges[-1] = 1, 1
    (humans if side == "humans" else judges)[-1] = late
    found, expected = loo_counts(humans, judges), by_loops(humans, judges[:, 0])
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one[0], other)


def test_nobody_answers() -> None:
    nothing = np.full((500, 2), -1, dtype=np.int8)
    for humans, judges in (
        (nothing, labels(0, 500, 2, 2)),
        (labels(0, 500, 2, 2), nothing),
        (nothing, nothing),
    ):
        found = loo_counts(humans, judges)
        assert not found.overlap.any()
        answered = (judges >= 0).sum(0)
        np.testing.assert_array_equal(found.moments[:, 0, 0], answered)


def test_inputs_stay_as_they_are() -> None:
    humans, judges = labels(0, 500, 3, 2), labels(1, 500, 2, 2)
    copies = humans.copy(), judges.copy()
    humans.flags.writeable = judges.flags.writeable = False
    loo_counts(humans, judges)
    np.testing.assert_array_equal(humans, copies[0])
    np.testing.assert_array_equal(judges, copies[1])

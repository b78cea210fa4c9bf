"""Moments of pairs of numbers, held numbers and bad numbers: against plain loops, however items are cut."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xjudge.statistics.counts import MASKED, Axes, Request, combine_blocks, count_block, finish_block
from xjudge.statistics.score_counts import not_finite, score_moments, score_rows
from xjudge.statistics.scores import pair_features

WHOLE = Axes()


def counted(request: Request, cuts: list[int], axes: Axes = WHOLE, **arrays: Any) -> Any:
    """The finished count of one request, from blocks of items."""
    n = len(next(iter(arrays.values())))
    edges = [0, *sorted(min(cut, n) for cut in cuts), n]
    parts = [
        count_block([request], axes, {name: a[start:stop] for name, a in arrays.items()})
        for start, stop in itertools.pairwise(edges)
    ]
    (found,) = finish_block([request], axes, combine_blocks([request], parts))
    return found


def random_scores(seed: int, n_items: int, n_cells: int, offset: float = 0.0) -> Any:
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n_items, 4, n_cells)) + offset
    scores[rng.random(scores.shape) < 0.25] = np.nan
    return scores


@pytest.mark.parametrize("aggregate", [None, "micro", "macro"])
@pytest.mark.parametrize("pooled", [True, False])
@pytest.mark.parametrize("pairs_apart", [True, False])
@given(
    seed=st.integers(0, 10**6),
    n_items=st.integers(0, 12),
    cuts=st.lists(st.integers(0, 12), max_size=3),
    offset=st.sampled_from([0.0, 1e4]),
)
def test_moments_in_plain_loops(
    aggregate: Any, pooled: bool, pairs_apart: bool, seed: int, n_items: int, cuts: list[int], offset: float
) -> None:
    scores = random_scores(seed, n_items, 6, offset)  # three criteria, two others
    request = score_moments(
        array="score",
        left_columns=[0, 1],
        right_columns=[3, 2],
        n_criteria=3,
        aggregate=aggregate,
        pooled=pooled,
        pairs_apart=pairs_apart,
    )
    (found,) = counted(request, cuts, score=scores)[()]
    n_slots, n_parts = (3 if aggregate is None else 1), (3 if aggregate == "macro" else 1)
    assert found.moments.sums.shape == (n_slots, 2, 1 if pooled else 2, 2, n_parts, 8)
    for slot, other, a, b in np.ndindex(found.moments.sums.shape[:4]):
        shift = found.moments.shift[slot, other, a, b]
        units: dict[Any, Any] = {}
        numbers: list[list[Any]] = [[] for _ in range(n_parts)]
        for item, voter, g in itertools.product(range(n_items), [0, 1] if pooled else [a], range(3)):
            if aggregate is None and g != slot:
                continue
            x, y = scores[item, voter, 2 * g + other], scores[item, [3, 2][b], 2 * g + other]
            if np.isnan(x) or np.isnan(y):
                continue
            part = g if aggregate == "macro" else 0
            unit = units.setdefault((item, voter, g) if pairs_apart else item, np.zeros((n_parts, 8)))
            unit[part] += pair_features(x, y, shift[part])
            numbers[part].append((x, y))
        every = np.array(list(units.values())).reshape(-1, n_parts, 8)
        place = slot, other, a, b
        np.testing.assert_allclose(found.moments.sums[place], every.sum(0), rtol=1e-7, atol=1e-7)
        flat = every.reshape(-1, 8 * n_parts)
        np.testing.assert_allclose(found.second[place], flat.T @ flat, rtol=1e-6, atol=1e-6)
        for part, own in enumerate(numbers):
            if own:
                np.testing.assert_array_equal(found.moments.low[place][part], np.min(own, axis=0))
                np.testing.assert_array_equal(found.moments.high[place][part], np.max(own, axis=0))


@given(seed=st.integers(0, 10**6), n_items=st.integers(0, 12), cuts=st.lists(st.integers(0, 12), max_size=3))
def test_held_numbers_do_not_know_their_order(seed: int, n_items: int, cuts: list[int]) -> None:
    scores = random_scores(seed, n_items, 4)
    codes = np.where(np.isnan(scores), -1, 0).astype(np.int8)
    cluster = np.random.default_rng(seed).integers(0, 3, n_items)
    order = np.random.default_rng(seed + 1).permutation(n_items)
    request = score_rows(array="score", codes="codes", columns=[2, 0], n_criteria=2, clusters=True)
    one = counted(request, cuts, score=scores, codes=codes, cluster=cluster)[()]
    other = counted(request, [], score=scores[order], codes=codes[order], cluster=cluster[order])[()]
    assert one.data.shape == (n_items, 2, 2, 2)
    np.testing.assert_array_equal(one.data, other.data)
    np.testing.assert_array_equal(one.cluster, other.cluster)
    given_rows = zip(cluster.tolist(), scores[:, [2, 0]].reshape(n_items, 8).tolist(), strict=True)
    found_rows = zip(one.cluster.tolist(), one.data.reshape(n_items, 8).tolist(), strict=True)
    assert sorted(map(repr, given_rows)) == sorted(map(repr, found_rows))


def test_items_outside_the_population_are_not_held() -> None:
    scores = np.array([[[1.0], [2.0]], [[np.nan], [3.0]], [[5.0], [6.0]]])
    codes = np.array([[[0], [0]], [[-1], [0]], [[0], [0]]], dtype=np.int8)
    keep = np.array([[True], [True], [False]])
    request = score_rows(array="score", codes="codes", columns=[0, 1], n_criteria=1)
    found = counted(request, [], Axes(1, 0), score=scores, codes=codes, population=keep)[0]
    assert found.data[:, :, 0, 0].tolist()[0] == [1.0, 2.0]
    assert len(found.data) == 2
    assert found.cluster is None
    assert MASKED not in codes


@given(seed=st.integers(0, 10**6), cuts=st.lists(st.integers(0, 9), max_size=3))
def test_numbers_that_are_none_are_counted(seed: int, cuts: list[int]) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.choice([1.0, np.nan, np.inf, -np.inf], (9, 3, 2))
    rows = counted(not_finite("score"), cuts, score=scores)
    found = {(rater, cell): count for rater, cell, count in rows.tolist()}
    expected = {
        (r, c): int(np.isinf(scores[:, r, c]).sum())
        for r, c in np.ndindex(3, 2)
        if np.isinf(scores[:, r, c]).any()
    }
    assert found == expected
    moments = score_moments(
        array="score",
        left_columns=[0],
        right_columns=[1],
        n_criteria=2,
        aggregate=None,
        pooled=False,
        pairs_apart=False,
    )
    (sums,) = counted(moments, cuts, score=scores)[()]
    assert np.isfinite(sums.moments.sums).all()

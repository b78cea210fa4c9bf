"""Selective judges: hand curves, slow oracles, the guarantee by simulation."""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xjudge.errors import ProtocolError, StructureError
from xjudge.statistics import selective as room

CASES = st.lists(st.tuples(st.integers(0, 10), st.booleans()), min_size=1, max_size=60)


def split(cases: Any) -> tuple[Any, Any]:
    return np.array([c / 10 for c, _ in cases]), np.array([r for _, r in cases])


@given(CASES)
def test_the_curve_by_counting(cases: Any) -> None:
    sure, right = split(cases)
    found = room.risk_coverage(sure, right)
    assert found.threshold.tolist() == sorted(set(sure.tolist()), reverse=True)
    area = 0.0
    for t, coverage, error in zip(found.threshold, found.coverage, found.error, strict=True):
        kept = [r for c, r in zip(sure, right, strict=True) if c >= t]
        assert coverage == pytest.approx(len(kept) / len(cases))
        assert error == pytest.approx(1 - sum(kept) / len(kept))
        area += sum(c == t for c in sure) * error / len(cases)
    assert found.area == pytest.approx(area)
    assert found.coverage[-1] == 1


def slow_threshold(sure: Any, right: Any, target: float, level: float, grid: Any, n_starts: int) -> Any:
    """Fixed-sequence tests from each start, with binomial tails summed term by term."""
    certified = []
    for s in range(n_starts):
        for t in grid[s * len(grid) // n_starts :]:
            kept = [r for c, r in zip(sure, right, strict=True) if c >= t]
            n, k = len(kept), sum(not r for r in kept)
            tail = sum(comb(n, i) * target**i * (1 - target) ** (n - i) for i in range(k + 1))
            if n == 0 or tail > (1 - level) / n_starts:
                break
            certified.append(t)
    return min(certified) if certified else None


@given(CASES, st.sampled_from([0.1, 0.3, 0.6]), st.integers(1, 4))
def test_the_threshold_by_testing_one_after_the_other(cases: Any, target: float, n_starts: int) -> None:
    sure, right = split(cases * 3)
    grid = [0.95, 0.85, 0.65, 0.45, 0.25, 0.0]
    found = room.selective_threshold(sure, right, target, level=0.9, grid=grid, n_starts=n_starts)
    slow = slow_threshold(sure, right, target, 0.9, grid, n_starts)
    if slow is None:
        assert np.isnan(found.threshold)
        assert found.n == 0
    else:
        assert found.threshold == slow
        assert found.n == (sure >= slow).sum()
        assert found.coverage == pytest.approx((sure >= slow).mean())
        assert found.error == pytest.approx(1 - right[sure >= slow].mean())


@given(CASES, st.randoms(use_true_random=False))
def test_the_order_of_cases_does_not_matter(cases: Any, random: Any) -> None:
    turned = list(cases)
    random.shuffle(turned)
    one, other = (room.selective_threshold(*split(c), 0.4, level=0.8) for c in (cases, turned))
    np.testing.assert_equal(tuple(one), tuple(other))


def test_the_error_stays_below_the_target_as_often_as_said() -> None:
    # confidence uniform on (.5, 1), right with that probability: error above t is (1 - t) / 2
    rng = np.random.default_rng(4)
    misses, found_any, trials = 0, 0, 1000
    for _ in range(trials):
        sure = rng.uniform(0.5, 1, 1000)
        found = room.selective_threshold(sure, rng.random(1000) < sure, 0.15, level=0.9)
        if not np.isnan(found.threshold):
            found_any += 1
            misses += (1 - max(found.threshold, 0.5)) / 2 > 0.15
    assert found_any > 0.9 * trials
    assert misses / trials <= 0.1


def test_the_level_is_kept_and_used_where_every_threshold_is_just_bad() -> None:
    # the error is a hair above the target at every threshold, so any threshold found is a miss
    rng = np.random.default_rng(5)
    trials = 2000
    found = [
        room.selective_threshold(rng.random(300), rng.random(300) > 0.201, 0.2, level=0.9).n > 0
        for _ in range(trials)
    ]
    assert 0.02 < np.mean(found) <= 0.1


def test_nothing_certified_without_cases_or_without_skill() -> None:
    assert np.isnan(room.selective_threshold([], [], 0.1).threshold)
    assert np.isnan(room.selective_threshold([0.9] * 50, [False] * 50, 0.1).threshold)
    assert np.isnan(room.risk_coverage([], []).area)
    # all right: certified down to the end of the grid once there are enough cases
    assert room.selective_threshold([0.9] * 51, [True] * 51, 0.1).threshold == 0
    assert np.isnan(room.selective_threshold([0.9] * 50, [True] * 50, 0.1).threshold)  # .9^50 = .00515 > .005


def test_splits_differ_and_repeat_with_the_seed() -> None:
    rng = np.random.default_rng(1)
    sure = rng.uniform(0.5, 1, 800)
    right = rng.random(800) < sure
    found = room.split_stability(sure, right, 0.2, 400, n_splits=40, seed=3)
    again = room.split_stability(sure, right, 0.2, 400, n_splits=40, seed=3)
    np.testing.assert_array_equal(found, again)
    assert len(found.coverage) == 40
    assert np.nanmax(found.coverage) - np.nanmin(found.coverage) > 0.05
    # the first split by hand
    order = np.random.default_rng(3).permutation(800)
    threshold = room.selective_threshold(sure[order[:400]], right[order[:400]], 0.2).threshold
    kept = sure[order[400:]] >= threshold
    assert found.threshold[0] == threshold
    assert found.coverage[0] == pytest.approx(kept.mean())
    assert found.error[0] == pytest.approx(1 - right[order[400:]][kept].mean())
    # no skill: no threshold in any split
    assert np.isnan(room.split_stability(sure, np.zeros(800), 0.1, 400, n_splits=3)).all()


def test_a_cascade_asks_in_order() -> None:
    sure = np.array([[0.9, 0.9], [0.1, 0.7], [np.nan, 0.7], [0.1, np.nan]])
    assert room.cascade(sure, [0.8, 0.6]).tolist() == [0, 1, 1, -1]
    assert room.cascade(sure[None], [0.8, 0.6]).shape == (1, 4)


@pytest.mark.parametrize(
    "options", [{"target": 0.0}, {"level": 1.0}, {"grid": [0.1, 0.9]}, {"grid": []}, {"n_starts": 0}]
)
def test_thresholds_need_sound_options(options: Any) -> None:
    with pytest.raises(ProtocolError):
        room.selective_threshold([0.5], [True], **{"target": 0.1, **options})


def test_shapes_are_checked() -> None:
    with pytest.raises(StructureError, match="per case"):
        room.risk_coverage([0.5, 0.6], [True])
    with pytest.raises(StructureError, match="NaN"):
        room.risk_coverage([np.nan], [True])
    with pytest.raises(StructureError, match="judge"):
        room.cascade([[0.5, 0.6]], [0.5])
    with pytest.raises(ProtocolError, match="both sides"):
        room.split_stability([0.5, 0.6], [True, True], 0.1, 2)

"""Intervals for partially identified values: limits, monotonicity, coverage against an exact calculation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

import xjudge as xj
from xjudge.statistics.identified import critical_value, identified_interval, resampled_intervals


def test_critical_values_are_between_one_sided_and_two_sided() -> None:
    assert float(critical_value(0.0)) == pytest.approx(1.959963984540054, abs=1e-12)
    assert float(critical_value(np.inf)) == pytest.approx(1.6448536269514722, abs=1e-12)
    assert float(critical_value(0.0, 0.9)) == pytest.approx(1.6448536269514722, abs=1e-12)
    assert np.isnan(critical_value(np.nan))


@given(st.floats(0, 30), st.floats(0.5, 0.999))
def test_the_equation_is_solved(width: float, level: float) -> None:
    c = float(critical_value(width, level))
    assert norm.cdf(c + width) - norm.cdf(-c) == pytest.approx(level, abs=1e-12)
    assert c >= float(critical_value(width + 0.5, level))


@given(st.floats(0, 1), st.floats(0, 1), st.floats(1e-4, 0.3), st.floats(1e-4, 0.3), st.floats(0.5, 0.99))
def test_it_contains_the_range_and_is_inside_the_interval_of_both_ends(
    start: float, width: float, below: float, above: float, level: float
) -> None:
    found = identified_interval(start, start + width, below, above, level)
    two_sided = norm.ppf((1 + level) / 2)
    assert start - two_sided * below - 1e-9 <= found.lower <= start
    assert start + width <= found.upper <= start + width + two_sided * above + 1e-9


@pytest.mark.parametrize("width", [0.0, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("place", [0.0, 0.5, 1.0])
def test_it_covers_every_value_of_the_range(width: float, place: float) -> None:
    """Both ends estimated with one and the same error: Phi(c + (1 - p) w) - Phi(-c - p w) at place p."""
    interval = identified_interval(0.0, width, 1.0, 1.0)
    c = -float(interval.lower)
    cover = norm.cdf(c + (1 - place) * width) - norm.cdf(-c - place * width)
    assert cover >= 0.95 - 1e-12
    if place in (0.0, 1.0):
        assert cover == pytest.approx(0.95, abs=1e-12)


def test_nothing_to_go_on() -> None:
    found = identified_interval(
        [0.5, 0.5, np.nan, 0.2], [0.5, 0.7, 0.7, 0.8], [0, 0, 0.1, 0.1], [0, 0, 0.1, 0.0]
    )
    assert np.isnan(found.lower).tolist() == [True, True, True, False]
    assert np.isnan(found.upper).tolist() == [True, True, True, False]
    assert float(found.upper[3]) == 0.8


@pytest.mark.parametrize("level", [0.0, 1.0, np.nan])
def test_levels_outside_are_refused(level: float) -> None:
    with pytest.raises(xj.ProtocolError, match="between 0 and 1"):
        critical_value(1.0, level)


# -------------------------------------------------------------------------------------------------- resamples


def _of_shares(n: int, low: float, high: float, n_resamples: int = 4000, seed: int = 0):
    rng = np.random.default_rng(seed)
    cells = rng.multinomial(n, [low, high - low, 1 - high], size=n_resamples)
    return cells[:, 0] / n, cells[:, :2].sum(1) / n


def test_ends_of_a_wide_range_are_one_sided_and_those_of_a_point_two_sided() -> None:
    n = 10**6  # where neither skewness nor whole cases matter
    for low, high, z in ((0.4, 0.4, 1.959964), (0.4, 0.6, 1.644854)):
        found = resampled_intervals(low, high, *_of_shares(n, low, high, 40_000), n)
        spread = np.sqrt(low * (1 - low) / n)
        assert float(found.of_value.lower) == pytest.approx(low - z * spread, abs=0.05 * spread)
        spread = np.sqrt(high * (1 - high) / n)
        assert float(found.of_value.upper) == pytest.approx(high + z * spread, abs=0.05 * spread)
        assert float(found.of_range.upper) == pytest.approx(high + 1.959964 * spread, abs=0.05 * spread)


@pytest.mark.parametrize(("n", "p"), [(40, 0.5), (40, 0.85), (200, 0.8), (200, 0.95), (1000, 0.9)])
def test_a_share_is_covered_by_exact_calculation(n: int, p: float) -> None:
    """Every count that may come up, with its probability: the interval of a share without open cases."""
    from scipy.stats import binom

    counts = np.arange(n + 1)
    weight = binom.pmf(counts, n, p)
    some = weight > 1e-7
    shares = counts[some] / n
    drawn = np.random.default_rng(1).binomial(n, shares, size=(4000, len(shares))) / n
    found = resampled_intervals(shares, shares, drawn, drawn, n)
    hits = (found.of_value.lower <= p) & (p <= found.of_value.upper)
    assert 0.945 <= weight[some] @ hits <= 0.985
    both = (found.of_range.lower <= p) & (p <= found.of_range.upper)
    assert 0.945 <= weight[some] @ both <= 0.985


@given(st.integers(2, 200), st.floats(0, 1), st.floats(0, 1), st.integers(0, 1000))
def test_intervals_are_ordered_and_that_of_the_value_is_inside(
    n: int, one: float, other: float, seed: int
) -> None:
    low, high = sorted((round(one * n), round(other * n)))
    drawn = _of_shares(n, low / n, high / n, 200, seed)
    found = resampled_intervals(low / n, high / n, *drawn, n)
    assert found.of_range.lower <= found.of_range.upper
    if drawn[0].std() > 0 or drawn[1].std() > 0:
        assert found.of_range.lower <= found.of_value.lower + 1e-12
        assert found.of_value.upper <= found.of_range.upper + 1e-12
    else:
        assert np.isnan(found.of_value.lower)


def test_replicates_that_do_not_vary_or_are_not_there() -> None:
    nan = np.nan
    low = np.array([[0.5, nan, 0.2, nan], [0.5, nan, 0.4, 0.1], [0.5, nan, 0.3, nan]])
    found = resampled_intervals([0.5, 0.5, 0.3, nan], [0.5, 0.6, 0.3, nan], low, low, 3)
    np.testing.assert_allclose(found.of_range.lower, [0.5, nan, 0.2, nan], atol=1e-6)
    np.testing.assert_allclose(found.of_range.upper, [0.5, nan, 0.4, nan], atol=1e-6)
    assert np.isnan(found.of_value.lower).tolist() == [True, True, False, True]
    empty = resampled_intervals(np.zeros(0), np.zeros(0), np.zeros((5, 0)), np.zeros((5, 0)), 3)
    assert empty.of_range.lower.shape == (0,)
    with pytest.raises(xj.ProtocolError, match="between 0 and 1"):
        resampled_intervals(0.1, 0.2, [0.1, 0.2], [0.2, 0.3], 2, level=1.0)

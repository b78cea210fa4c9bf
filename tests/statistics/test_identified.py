"""Intervals for partially identified values: limits, monotonicity, coverage against an exact calculation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

import xjudge as xj
from xjudge.statistics.identified import critical_value, identified_interval


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

"""Shares of adversarial cases and breakdown with any number of categories, against vertices and masses."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xjudge.errors import ProtocolError, Reason, StructureError
from xjudge.statistics import bounds
from xjudge.statistics.coefficients import accuracy, kappa

SHARES = (0.0, 0.3, 0.7, 0.99)


def random_table(rng: Any, L: int, *, both: bool = False, most: int = 7) -> Any:
    table = rng.integers(0, most, (L + 1, L + 1))
    table[rng.random(table.shape) < 0.3] = 0
    table[:L, :L] += np.eye(L, dtype=int)  # every open cell has covered cases to follow
    if not both:
        table[L, L] = 0
    return table


def slow_masses(table: Any, share: float) -> tuple[list[list[float]], list[tuple[list[Any], float]]]:
    """Resolved masses at a share, and the free ones with the cells they may go to; plain loops."""
    L = len(table) - 1
    covered = [[float(table[a][b]) for b in range(L)] for a in range(L)]
    groups = [([(a, b) for b in range(L)], table[a][L]) for a in range(L)]
    groups += [([(a, b) for a in range(L)], table[L][b]) for b in range(L)]
    groups += [([(a, b) for a in range(L) for b in range(L)], table[L][L])]
    masses = [row[:] for row in covered]
    for cells, amount in groups:
        total = sum(covered[a][b] for a, b in cells)
        for a, b in cells:
            if amount:
                masses[a][b] += (1 - share) * amount * covered[a][b] / total
    return masses, [(cells, share * amount) for cells, amount in groups if amount]


def vertices(table: Any, share: float) -> Any:
    """Tables in which each free mass goes to one cell as a whole."""
    masses, free = slow_masses(table, share)
    out = []
    for chosen in itertools.product(*(cells for cells, _ in free)):
        done = np.array(masses)
        for cell, (_, amount) in zip(chosen, free, strict=True):
            done[cell] += amount
        out.append(done)
    return np.array(out)


def inside(rng: Any, table: Any, share: float, n: int) -> Any:
    """Tables in which free masses are spread at random."""
    masses, free = slow_masses(table, share)
    out = np.broadcast_to(np.array(masses), (n, *np.shape(masses))).copy()
    for cells, amount in free:
        parts = rng.dirichlet(np.full(len(cells), 0.3), size=n) * amount
        for k, cell in enumerate(cells):
            out[(slice(None), *cell)] += parts[:, k]
    return out


STATISTICS: dict[str, Any] = {"accuracy": lambda t, w: accuracy(t), "kappa": lambda t, w: kappa(t, weights=w)}


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("weights", [None, "linear", "quadratic"])
def test_kappa_with_one_open_side_lies_between_vertices(share: float, weights: Any) -> None:
    rng = np.random.default_rng(1)
    for _ in range(25):
        table = random_table(rng, 3)
        found = bounds.category_range_at_share(table, "kappa", share, weights=weights)
        values = kappa(vertices(table, share), weights=weights)
        assert found.kind == "sharp"
        assert found.lower == pytest.approx(values.min(), abs=1e-12)
        assert found.upper == pytest.approx(values.max(), abs=1e-12)


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("L", [3, 4])
def test_accuracy_lies_between_vertices(share: float, L: int) -> None:
    rng = np.random.default_rng(2)
    for _ in range(10):
        table = random_table(rng, 3, both=True) if L == 3 else random_table(rng, 4)
        if L == 4:
            table[:, 4] *= np.array([1, 1, 0, 0, 0])
        found = bounds.category_range_at_share(table, "accuracy", share)
        values = accuracy(vertices(table, share))
        assert found.kind == "sharp"
        assert (found.lower, found.upper) == pytest.approx((values.min(), values.max()), abs=1e-12)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.sampled_from(["accuracy", "kappa"]), st.sampled_from([3, 4]))
def test_completions_lie_inside_and_ranges_are_nested(seed: int, statistic: str, L: int) -> None:
    rng = np.random.default_rng(seed)
    table = random_table(rng, L, both=bool(rng.integers(2)))
    shares = np.array([0.0, 0.25, 0.5, 0.75, 1 - 1e-9])
    found = bounds.category_range_at_share(table[None], statistic, shares, max_work=20_000)
    for k, share in enumerate(shares):
        values = STATISTICS[statistic](inside(rng, table, share, 200), None)
        assert found.lower[k] <= np.nanmin(values) + 1e-9
        assert np.nanmax(values) - 1e-9 <= found.upper[k]
    sharp = found.kind == "sharp"
    if sharp.all():
        assert (np.diff(found.lower) <= 1e-12).all()
        assert (np.diff(found.upper) >= -1e-12).all()
    # the limit holds the range over whole cases
    whole = bounds.category_range_at_share(table, statistic, 1.0)
    assert found.lower[-1] <= whole.lower + 1e-6
    assert whole.upper - 1e-6 <= found.upper[-1]


@pytest.mark.parametrize("statistic", ["accuracy", "kappa"])
def test_two_categories_equal_the_closed_form(statistic: str) -> None:
    rng = np.random.default_rng(3)
    tables = np.stack([random_table(rng, 2) for _ in range(200)])
    shares = rng.choice([0.0, 0.2, 0.6, 1.0], 200)
    found = bounds.category_range_at_share(tables, statistic, shares)
    lower, upper, reason = bounds.range_at_share_with_reason(tables, statistic, shares)
    np.testing.assert_allclose(found.lower, lower, atol=1e-12)
    np.testing.assert_allclose(found.upper, upper, atol=1e-12)
    np.testing.assert_array_equal(found.reason, reason)
    cut = rng.uniform(0.2, 0.9, 200).round(2)
    one = bounds.category_breakdown(tables, statistic, cut)
    other = bounds.breakdown_with_reason(tables, statistic, cut)
    np.testing.assert_array_equal(one.reason, other.reason)
    np.testing.assert_allclose(one.share, other.share, atol=1e-9)


@pytest.mark.parametrize("statistic", ["accuracy", "kappa"])
def test_the_claim_falls_at_its_breakdown(statistic: str) -> None:
    rng = np.random.default_rng(4)
    crossed = 0
    for _ in range(40):
        table = random_table(rng, 3, most=12)
        start = float(bounds.category_range_at_share(table, statistic, 0.0).lower)
        worst = float(STATISTICS[statistic](vertices(table, 1.0), None).min())
        cut = worst + float(rng.uniform(-0.3, 1.3)) * (start - worst)
        share, reason = bounds.category_breakdown(table, statistic, cut)
        if reason == Reason.ALREADY_FALSE:
            assert start < cut
            assert np.isnan(share)
        elif reason == Reason.CANNOT_BE_OVERTURNED:
            assert worst >= cut
            assert share == np.inf
        else:
            crossed += 1
            assert bounds.category_range_at_share(table, statistic, max(share - 1e-6, 0)).lower >= cut - 1e-12
            assert bounds.category_range_at_share(table, statistic, min(share + 1e-6, 1)).lower < cut + 1e-9
    assert crossed > 5


def test_ties_are_those_of_the_decimals_that_are_written() -> None:
    # 3 of 10 at share 1, exactly; the float 0.3 is below 3/10
    table = [[1, 1, 1, 0], [1, 1, 1, 1], [0, 1, 1, 0], [0, 0, 0, 1]]
    at_one = Fraction(3, 10)
    assert float(at_one) == 0.3
    assert bounds.category_breakdown(table, "accuracy", 0.3).share == np.inf
    # ignorable: 3 + 1/3 + 3/8 of 10
    start = float((3 + Fraction(1, 3) + Fraction(3, 8)) / 10)
    share = bounds.category_breakdown(table, "accuracy", 0.31).share
    assert share == pytest.approx((start - 0.31) / (start - 0.3), abs=1e-12)
    found = bounds.category_range_at_share(table, "accuracy", 0.0)
    assert found.lower == pytest.approx(start, abs=1e-15)
    assert bounds.category_breakdown(table, "accuracy", 0.372).reason == Reason.ALREADY_FALSE


def test_cells_that_follow_nothing_and_empty_tables() -> None:
    table = [[0, 0, 0, 2], [1, 3, 1, 0], [0, 1, 4, 0], [0, 0, 0, 0]]
    found = bounds.category_range_at_share(np.array([table]), "kappa", [0.5, 1.0])
    assert found.reason.tolist() == [Reason.NO_COVERED_CASE, Reason.OK]
    assert np.isnan(found.lower).tolist() == [True, False]
    down = bounds.category_breakdown(table, "accuracy", [0.2, 0.9])
    assert down.reason.tolist() == [Reason.CANNOT_BE_OVERTURNED, Reason.NO_COVERED_CASE]
    empty = bounds.category_range_at_share(np.zeros((2, 4, 4), dtype=int), "kappa", 0.5)
    assert empty.reason.tolist() == [Reason.NO_OVERLAP] * 2
    constant = np.zeros((4, 4), dtype=int)
    constant[0, 0] = 5
    assert bounds.category_range_at_share(constant, "kappa", 0.5).reason == Reason.ONE_CATEGORY
    assert bounds.category_breakdown(constant, "kappa", 0.5).reason == Reason.ONE_CATEGORY
    assert bounds.category_range_at_share(np.zeros((0, 4, 4), dtype=int), "kappa", 0.5).lower.shape == (0,)


def test_open_on_both_sides_is_outer_below_one() -> None:
    rng = np.random.default_rng(5)
    table = random_table(rng, 3)
    table[3, 3] = 4
    found = bounds.category_range_at_share(table[None], "kappa", [0.5, 1.0])
    assert found.kind.tolist() == ["outer", "sharp"]


def test_what_makes_no_sense_is_refused() -> None:
    table = np.ones((4, 4), dtype=int)
    with pytest.raises(ProtocolError, match="share"):
        bounds.category_range_at_share(table, "kappa", 1.5)
    with pytest.raises(ProtocolError, match="accuracy"):
        bounds.category_range_at_share(table, "f1", 0.5)
    with pytest.raises(ProtocolError, match="NaN"):
        bounds.category_breakdown(table, "kappa", float("nan"))
    with pytest.raises(ProtocolError, match="costs"):
        bounds.category_breakdown(table, "kappa", 0.5, weights="linear", costs="linear")
    with pytest.raises(StructureError, match="broadcast"):
        bounds.category_breakdown(np.ones((3, 4, 4), dtype=int), "kappa", [0.1, 0.2])

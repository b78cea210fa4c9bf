"""Statistics of two raters in numbers: literal values, plain loops, scipy, gradients, merging, held pairs."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import assume, given
from hypothesis import strategies as st

from xjudge.errors import ProtocolError, Reason, StructureError
from xjudge.statistics.scores import (
    SCORE_STATISTICS,
    HeldPairs,
    concordance,
    evaluate_moments,
    evaluate_scores,
    kendall_tau_b,
    limits_of_agreement,
    mean_absolute_error,
    mean_error,
    merge_moments,
    moment_gradient,
    moments_of_pairs,
    pair_features,
    pearson,
    rmse,
    score_gradient,
    spearman,
)

NAMES = list(SCORE_STATISTICS)
OF_SUMS = [name for name in NAMES if not SCORE_STATISTICS[name].ranks]


def table_of(x: Any, y: Any, n: int) -> Any:
    out = np.zeros((n, n), dtype=np.int64)
    np.add.at(out, (np.asarray(x), np.asarray(y)), 1)
    return out


def pairs_of(table: Any, scores: Any) -> tuple[Any, Any]:
    rows, columns = np.indices(table.shape)
    repeat = table.ravel()
    return np.repeat(scores[rows.ravel()], repeat), np.repeat(scores[columns.ravel()], repeat)


# ------------------------------------------------------------------------------ plain loops, from definitions


def slow_mean(values: Any) -> Any:
    return sum(values) / len(values)


def slow_covariance(x: Any, y: Any) -> Any:
    a, b = slow_mean(x), slow_mean(y)
    return sum((p - a) * (q - b) for p, q in zip(x, y, strict=True)) / len(x)


def slow_ranks(values: Any) -> list[Fraction]:
    return [sum(v < w for v in values) + Fraction(sum(v == w for v in values) + 1, 2) for w in values]


def slow_correlation(x: Any, y: Any) -> float | None:
    one, other = slow_covariance(x, x), slow_covariance(y, y)
    if one == 0 or other == 0:
        return None
    return float(slow_covariance(x, y)) / math.sqrt(float(one) * float(other))


def slow_tau_b(x: Any, y: Any) -> float | None:
    excess = tied_x = tied_y = 0
    n = len(x)
    for i in range(n):
        for j in range(i):
            excess += ((x[i] > x[j]) - (x[i] < x[j])) * ((y[i] > y[j]) - (y[i] < y[j]))
            tied_x += x[i] == x[j]
            tied_y += y[i] == y[j]
    pairs = n * (n - 1) // 2
    if tied_x == pairs or tied_y == pairs:
        return None
    return excess / math.sqrt((pairs - tied_x) * (pairs - tied_y))


def slow(name: str, x: list[Fraction], y: list[Fraction]) -> float | None:
    difference = [q - p for p, q in zip(x, y, strict=True)]
    if name == "pearson":
        return slow_correlation(x, y)
    if name == "spearman":
        return slow_correlation(slow_ranks(x), slow_ranks(y))
    if name == "kendall_tau_b":
        return slow_tau_b(x, y)
    if name == "concordance":
        gap = slow_mean(x) - slow_mean(y)
        bottom = slow_covariance(x, x) + slow_covariance(y, y) + gap**2
        return None if bottom == 0 else float(2 * slow_covariance(x, y) / bottom)
    if name == "mean_error":
        return float(slow_mean(difference))
    if name == "mean_absolute_error":
        return float(slow_mean([abs(d) for d in difference]))
    if name == "rmse":
        return math.sqrt(slow_mean([d * d for d in difference]))
    if len(x) < 2:
        return None
    spread = math.sqrt(slow_covariance(difference, difference) * Fraction(len(x), len(x) - 1))
    sign = 1 if name.startswith("upper") else -1
    return float(slow_mean(difference)) + sign * 1.96 * spread


PAIRS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=25)
SCORES = st.sampled_from([(0, 1, 2, 3, 4), (-7, 0, 1, 2, 100), (1000000, 1000001, 1000003, 1000004, 1000010)])


@given(pairs=PAIRS, scores=SCORES)
def test_tables_against_plain_loops(pairs: list[tuple[int, int]], scores: tuple[int, ...]) -> None:
    x, y = zip(*pairs, strict=True)
    table = table_of(x, y, 5)
    numbers = ([Fraction(scores[a]) for a in x], [Fraction(scores[b]) for b in y])
    held = HeldPairs([float(v) for v in numbers[0]], [float(v) for v in numbers[1]])
    for name in NAMES:
        expected = slow(name, *numbers)
        for value, reason in (evaluate_scores(name, table, scores), held.evaluate(name)):
            if expected is None:
                assert np.isnan(value)
                assert reason != 0
            else:
                assert reason == 0
                assert float(value) == pytest.approx(expected, rel=1e-11, abs=1e-11), name


# --------------------------------------------------------------------------------------------- literal values


def test_the_shifted_ratings_of_the_text() -> None:
    # y = 1 2 3 4, yhat = 2 3 4 5: every correlation is 1 and no label agrees
    table = table_of([0, 1, 2, 3], [1, 2, 3, 4], 5)
    scores = [1, 2, 3, 4, 5]
    assert float(pearson(table, scores)) == 1.0
    assert float(spearman(table)) == 1.0
    assert float(kendall_tau_b(table)) == 1.0
    assert float(mean_error(table, scores)) == 1.0
    assert float(mean_absolute_error(table, scores)) == 1.0
    assert float(rmse(table, scores)) == 1.0
    assert [float(limit) for limit in limits_of_agreement(table, scores)] == [1.0, 1.0]
    assert float(concordance(table, scores)) == pytest.approx(5 / 7, abs=1e-15)  # quadratic kappa


def test_three_valued_vectors() -> None:
    table = table_of([0, 1, 2, 2, 0, 2], [0, 2, 1, 2, 2, 0], 3)
    assert float(pearson(table)) == pytest.approx(-0.03448275862069, abs=1e-13)
    assert float(spearman(table)) == pytest.approx(-0.083333333333333, abs=1e-13)
    assert float(kendall_tau_b(table)) == pytest.approx(-0.090909090909091, abs=1e-13)


@pytest.mark.parametrize("name", ["pearson", "spearman", "kendall_tau_b"])
def test_on_two_categories_correlations_are_phi(name: str) -> None:
    value = evaluate_scores(name, [[118, 160], [108, 1852]]).value
    assert float(value) == pytest.approx(0.40432462772752, abs=1e-13)


@pytest.mark.parametrize("name", ["pearson", "spearman", "kendall_tau_b"])
@pytest.mark.parametrize(
    ("cells", "variance"),
    [
        ((4, 1, 1, 4), Fraction(16, 25)),
        ((3, 2, 1, 4), Fraction(13, 16)),
        ((1, 2, 2, 5), Fraction(200600, 194481)),
        ((1, 2, 1, 6), Fraction(2675, 2352)),
        ((1, 0, 2, 7), Fraction(400, 729)),
    ],
)
def test_delta_variances_of_phi(name: str, cells: tuple[int, ...], variance: Fraction) -> None:
    table = np.array(cells).reshape(2, 2)
    slope = score_gradient(name, table)
    assert 10 * float((table * slope**2).sum()) == pytest.approx(float(variance), abs=1e-12)


def test_bland_and_altman_by_hand() -> None:
    # differences 1, -1, 2, 0: mean 1/2, variance 5/3
    held = HeldPairs([10.0, 20.0, 30.0, 40.0], [11.0, 19.0, 32.0, 40.0])
    spread = 1.96 * math.sqrt(5 / 3)
    assert float(held.evaluate("lower_limit_of_agreement").value) == pytest.approx(0.5 - spread, abs=1e-14)
    assert float(held.evaluate("upper_limit_of_agreement").value) == pytest.approx(0.5 + spread, abs=1e-14)
    assert float(held.evaluate("rmse").value) == pytest.approx(math.sqrt(6 / 4), abs=1e-15)


def test_standard_errors_that_are_in_every_textbook() -> None:
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(2, 50))
    held = HeldPairs(x, y)
    difference = y - x
    influence = held.influence("mean_error")
    assert (influence**2).sum() == pytest.approx(difference.var() / 50, rel=1e-12)
    influence = held.influence("mean_absolute_error")
    assert (influence**2).sum() == pytest.approx(np.abs(difference).var() / 50, rel=1e-12)


# ------------------------------------------------------------------------------------------------------ scipy


@given(seed=st.integers(0, 10**6), n=st.integers(3, 40), digits=st.integers(0, 2))
def test_correlations_of_held_pairs_against_scipy(seed: int, n: int, digits: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n).round(digits)
    y = (x + rng.normal(size=n)).round(digits)
    weights = np.concatenate([np.ones((1, n), dtype=np.int64), rng.integers(0, 3, (3, n))])
    held = HeldPairs(x, y)
    # sums of a weighting are taken about the mean of all pairs: two near pairs far out lose some digits
    for row, close in zip(weights, (1e-12, 1e-9, 1e-9, 1e-9), strict=True):
        a, b = np.repeat(x, row), np.repeat(y, row)
        assume(len(set(a)) > 1 and len(set(b)) > 1)
        expected = {
            "pearson": scipy.stats.pearsonr(a, b).statistic,
            "spearman": scipy.stats.spearmanr(a, b).statistic,
            "kendall_tau_b": scipy.stats.kendalltau(a, b).statistic,
        }
        for name, value in expected.items():
            assert float(held.evaluate(name, row).value) == pytest.approx(value, abs=close)
    for name in NAMES:
        together = held.evaluate(name, weights)
        apart = [held.evaluate(name, row) for row in weights]
        np.testing.assert_allclose(together.value, [one.value for one in apart], rtol=1e-9, atol=1e-9)


# -------------------------------------------------------------------------------------------------- gradients


@given(seed=st.integers(0, 10**6), scores=SCORES)
def test_gradients_are_slopes(seed: int, scores: tuple[int, ...]) -> None:
    table = np.random.default_rng(seed).integers(0, 6, (5, 5)).astype(np.float64)
    step = 1e-4
    for name in NAMES:
        slope = score_gradient(name, table, scores)
        assert np.isfinite(slope).all()
        size = max(1.0, float(np.abs(slope).max()))
        assert float((slope * table).sum()) == pytest.approx(0, abs=1e-9 * size)
        if name.endswith("limit_of_agreement"):
            continue  # the factor n / (n - 1) is held fixed
        for a, b in ((0, 0), (1, 3), (4, 2)):
            up, down = table.copy(), table.copy()
            up[a, b] += step
            down[a, b] = abs(down[a, b] - step)
            width = up[a, b] - down[a, b] if table[a, b] else step
            below = evaluate_scores(name, down if table[a, b] else table, scores).value
            found = float((evaluate_scores(name, up, scores).value - below) / width)
            assert found == pytest.approx(float(slope[a, b]), abs=2e-3 * size), name


def test_gradient_of_a_limit_with_its_factor_fixed() -> None:
    table = np.array([[3.0, 1, 0], [2, 4, 1], [0, 1, 5]])
    n = table.sum()

    def limit(counts: Any) -> float:
        x, y = np.indices((3, 3))
        mean = (counts * (y - x)).sum() / counts.sum()
        square = (counts * (y - x - mean) ** 2).sum() / counts.sum()
        return float(mean + 1.96 * math.sqrt(square * n / (n - 1)))

    slope = score_gradient("upper_limit_of_agreement", table)
    for a, b in np.ndindex(3, 3):
        up = table.copy()
        up[a, b] += 1e-6
        assert (limit(up) - limit(table)) / 1e-6 == pytest.approx(float(slope[a, b]), abs=1e-5)


@given(pairs=PAIRS, scores=SCORES)
def test_influence_of_held_pairs_is_the_gradient_of_their_cell(
    pairs: list[tuple[int, int]], scores: tuple[int, ...]
) -> None:
    x, y = (np.array(side) for side in zip(*pairs, strict=True))
    numbers = np.array(scores, dtype=np.float64)
    held = HeldPairs(numbers[x], numbers[y])
    table = table_of(x, y, 5)
    for name in NAMES:
        slope = score_gradient(name, table, scores)
        np.testing.assert_allclose(held.influence(name), slope[x, y], rtol=1e-7, atol=1e-8)


def test_influence_with_multiplicities_is_that_of_the_repeated_pairs() -> None:
    rng = np.random.default_rng(8)
    x, y = rng.normal(size=(2, 30)).round(1)
    weights = rng.integers(0, 4, 30)
    for name in NAMES:
        once = HeldPairs(x, y).influence(name, weights)[weights > 0]
        repeated = HeldPairs(np.repeat(x, weights), np.repeat(y, weights)).influence(name)
        np.testing.assert_allclose(np.repeat(once, weights[weights > 0]), repeated, rtol=1e-9, atol=1e-12)


# ---------------------------------------------------------------------------------------------------- moments


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 60),
    cuts=st.lists(st.integers(0, 60), max_size=4),
    offset=st.sampled_from([0.0, 1e6, -1e9]),
)
def test_moments_of_parts_merge(seed: int, n: int, cuts: list[int], offset: float) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n) + offset
    y = x + rng.normal(size=n)
    x[rng.random(n) < 0.2] = np.nan
    edges = [0, *sorted(min(cut, n) for cut in cuts), n]
    parts = [moments_of_pairs(x[a:b], y[a:b]) for a, b in itertools.pairwise(edges)]
    used = ~np.isnan(x)
    held = HeldPairs(x[used], y[used])
    for name in OF_SUMS:
        merged, whole = evaluate_moments(name, merge_moments(parts)), held.evaluate(name)
        assert merged[1] == whole.reason
        np.testing.assert_allclose(merged[0], whole.value, rtol=1e-6, atol=1e-7)
    if offset == 0.0:
        moments = merge_moments(parts)
        features = pair_features(x[used], y[used], moments.shift)
        for name in OF_SUMS:
            np.testing.assert_allclose(
                features @ moment_gradient(name, moments), held.influence(name), rtol=1e-7, atol=1e-9
            )


def test_large_numbers_close_together_keep_their_digits() -> None:
    x = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    y = np.array([1.0, 3.0, 2.0, 5.0, 4.0])
    for offset in (0.0, 1e9, -(2.0**52)):
        value = HeldPairs(x + offset, y + offset).evaluate("pearson").value
        assert float(value) == 0.8
        parts = [
            moments_of_pairs(x[:2] + offset, y[:2] + offset),
            moments_of_pairs(x[2:] + offset, y[2:] + offset),
        ]
        assert float(evaluate_moments("pearson", merge_moments(parts))[0]) == 0.8


# ------------------------------------------------------------------------------------------------- invariance


@given(pairs=PAIRS, a=st.sampled_from([0.5, 3.0]), b=st.integers(-5, 5))
def test_units_of_the_scores(pairs: list[tuple[int, int]], a: float, b: int) -> None:
    x, y = zip(*pairs, strict=True)
    table = table_of(x, y, 5)
    numbers = np.array([1.0, 2, 3, 5, 8])
    for name in NAMES:
        plain, changed = (evaluate_scores(name, table, s) for s in (numbers, a * numbers + b))
        assert plain.reason == changed.reason
        factor = 1.0 if name in ("pearson", "spearman", "kendall_tau_b", "concordance") else a
        np.testing.assert_allclose(changed.value, factor * plain.value, rtol=1e-12, atol=1e-12)


@given(pairs=PAIRS)
def test_exchanging_the_sides(pairs: list[tuple[int, int]]) -> None:
    x, y = zip(*pairs, strict=True)
    table = table_of(x, y, 5)
    for name in ("pearson", "spearman", "kendall_tau_b", "concordance", "mean_absolute_error", "rmse"):
        one, other = evaluate_scores(name, table), evaluate_scores(name, table.T)
        np.testing.assert_allclose(one.value, other.value, rtol=1e-13)
    np.testing.assert_allclose(mean_error(table), -mean_error(table.T))
    lower, upper = limits_of_agreement(table)
    other_lower, other_upper = limits_of_agreement(table.T)
    np.testing.assert_allclose([lower, upper], [-other_upper, -other_lower])


@given(pairs=PAIRS)
def test_ranks_know_the_order_alone(pairs: list[tuple[int, int]]) -> None:
    x, y = (np.array(side, dtype=np.float64) for side in zip(*pairs, strict=True))
    for name in ("spearman", "kendall_tau_b"):
        plain, bent = HeldPairs(x, y).evaluate(name), HeldPairs(np.exp(x), y**3).evaluate(name)
        np.testing.assert_array_equal(plain.value, bent.value)


def test_leading_dims_and_read_only_arrays() -> None:
    rng = np.random.default_rng(0)
    tables = rng.integers(0, 9, (2, 3, 4, 4))
    tables.flags.writeable = False
    for name in NAMES:
        together, slopes = evaluate_scores(name, tables), score_gradient(name, tables)
        assert together.value.shape == (2, 3)
        assert slopes.shape == (2, 3, 4, 4)
        for at in np.ndindex(2, 3):
            assert float(together.value[at]) == pytest.approx(float(evaluate_scores(name, tables[at]).value))
            np.testing.assert_allclose(slopes[at], score_gradient(name, tables[at]))


def test_huge_counts_do_not_overflow() -> None:
    table = np.array([[4, 1], [1, 4]], dtype=np.int64) * 10**17
    for name in ("pearson", "spearman", "kendall_tau_b"):
        assert float(evaluate_scores(name, table).value) == pytest.approx(0.6, abs=1e-12)


# ------------------------------------------------------------------------------------------------- degenerate


@pytest.mark.parametrize(
    ("table", "name", "reason"),
    [
        ([[0, 0], [0, 0]], "pearson", Reason.NO_JOINT_ANSWERS),
        ([[0, 0], [0, 0]], "kendall_tau_b", Reason.NO_JOINT_ANSWERS),
        ([[0, 0], [0, 0]], "mean_error", Reason.NO_JOINT_ANSWERS),
        ([[3, 0], [0, 0]], "pearson", Reason.CONSTANT_BOTH),
        ([[3, 1], [0, 0]], "spearman", Reason.CONSTANT_REFERENCE),
        ([[3, 0], [1, 0]], "kendall_tau_b", Reason.CONSTANT_RATER),
        ([[3, 0], [0, 0]], "concordance", Reason.NO_VARIATION),
        ([[0, 1], [0, 0]], "upper_limit_of_agreement", Reason.FEW_PAIRS),
    ],
)
def test_undefined_has_a_reason(table: Any, name: str, reason: Reason) -> None:
    value, found = evaluate_scores(name, table)
    assert np.isnan(value)
    assert found == reason
    assert np.isnan(score_gradient(name, table)).all()


def test_one_constant_side_has_no_concordance() -> None:
    assert float(concordance([[3, 2], [0, 0]])) == 0.0
    assert float(concordance([[0, 3], [0, 0]])) == 0.0  # both constant, and apart
    assert float(HeldPairs([0.1, 0.1, 0.1], [0.3, 0.2, 0.7]).evaluate("concordance").value) == 0.0


def test_constant_numbers_that_are_no_binary_fraction() -> None:
    held = HeldPairs(np.full(7, 0.1), np.linspace(0, 1, 7))
    assert held.evaluate("pearson").reason == Reason.CONSTANT_REFERENCE
    merged = merge_moments([moments_of_pairs([0.1, 0.1], [1.0, 2.0]), moments_of_pairs([0.1], [3.0])])
    assert evaluate_moments("pearson", merged)[1] == Reason.CONSTANT_REFERENCE


def test_no_pairs_and_one_pair() -> None:
    none, one = HeldPairs([], []), HeldPairs([2.0], [3.5])
    for name in NAMES:
        assert none.evaluate(name).reason == Reason.NO_JOINT_ANSWERS
        assert none.influence(name).shape == (0,)
    assert float(one.evaluate("mean_error").value) == 1.5
    assert one.evaluate("lower_limit_of_agreement").reason == Reason.FEW_PAIRS
    assert one.evaluate("kendall_tau_b").reason == Reason.CONSTANT_BOTH
    empty = moments_of_pairs(np.empty((2, 0)), np.empty((2, 0)))
    assert empty.sums.shape == (2, 8)
    assert (evaluate_moments("rmse", empty)[1] == Reason.NO_JOINT_ANSWERS).all()


def test_perfect_agreement_has_no_spread() -> None:
    table = np.diag([3, 0, 2, 4])
    assert float(rmse(table)) == 0.0
    assert float(concordance(table)) == 1.0
    assert (score_gradient("rmse", table) == 0).all()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: evaluate_scores("kapa", [[1, 0], [0, 1]]), ProtocolError, "no statistic of numbers 'kapa'"),
        (lambda: pearson([[1, 0], [0, 1]], [1, 1]), ProtocolError, "increasing"),
        (lambda: pearson([[1, 0], [0, 1]], [2, 1]), ProtocolError, "increasing"),
        (lambda: pearson([[1, 0], [0, 1]], ["a", "b"]), ProtocolError, "numbers only"),
        (lambda: pearson([[1, 0], [0, 1]], [1, 2, 3]), ProtocolError, "2 finite numbers"),
        (lambda: pearson([[1, 0, 0], [0, 1, 0]]), StructureError, r"\(\.\.\., L, L\)"),
        (lambda: pearson([[1, -1], [0, 1]]), StructureError, "no cell is negative"),
        (lambda: pearson([[1], [0, 1]]), StructureError, "different lengths"),
        (lambda: HeldPairs([1.0], [1.0, 2.0]), StructureError, "one length"),
        (lambda: HeldPairs([np.nan], [1.0]), StructureError, "finite"),
        (lambda: HeldPairs([0.0], [1.0]).evaluate("kapa"), ProtocolError, "'kapa'"),
        (lambda: HeldPairs([0.0], [1.0]).evaluate("rmse", [1, 2]), ProtocolError, "one weight for each"),
        (lambda: HeldPairs([0.0], [1.0]).evaluate("rmse", [-1]), ProtocolError, "not negative"),
    ],
)
def test_errors(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()

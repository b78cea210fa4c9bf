"""Prevalence and adjustment for abstention: closed forms, slow oracles, limits, recovery, degenerate."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xjudge.errors import ProtocolError, Reason, StructureError
from xjudge.statistics import COEFFICIENTS, evaluate
from xjudge.statistics import adjust as room

COUNT = st.integers(0, 30)
TABLE = st.lists(COUNT, min_size=4, max_size=4).map(lambda c: np.reshape(c, (2, 2)))
REST = st.lists(st.integers(0, 300), min_size=2, max_size=2).map(np.array)
HAND, HAND_REST = np.array([[54, 6], [4, 36]]), np.array([580, 320])
Z = 1.959963984540054


def pairs_of(table: Any) -> list[tuple[int, int]]:
    """Labelled (human, judge) pairs one by one."""
    return [(h, j) for h, j in product((0, 1), (0, 1)) for _ in range(int(table[h][j]))]


def slow_power(table: Any, rest: Any, weight: float) -> tuple[float, float]:
    """Estimate and standard error from the single cases."""
    pairs, verdicts = pairs_of(table), [0] * int(rest[0]) + [1] * int(rest[1])
    errors = [h - weight * j for h, j in pairs]
    n, total = len(errors), len(verdicts)
    mean = sum(errors) / n
    variance = sum((e - mean) ** 2 for e in errors) / (n - 1) / n
    if weight:
        rate = sum(verdicts) / total
        mean += weight * rate
        variance += weight**2 * sum((v - rate) ** 2 for v in verdicts) / total**2
    return mean, math.sqrt(variance)


# ------------------------------------------------------------------------------------------------- prevalence


def test_prediction_powered_estimates_of_a_hand_table() -> None:
    # bar j on unlabelled 320/900; h = 40/100, j = 42/100 on labelled ones
    found = room.ppi(HAND, HAND_REST)
    assert found.estimate == pytest.approx(320 / 900 + 0.40 - 0.42, abs=1e-15)
    # lambda = Cov / ((1 + n/N) Var): .36 - .4 * .42 and 362/1000
    best = (0.36 - 0.40 * 0.42) / ((1 + 100 / 900) * 0.362 * 0.638)
    found = room.ppi_plus_plus(HAND, HAND_REST)
    assert found.tuning == pytest.approx(best, abs=1e-15)
    assert found.estimate == pytest.approx(0.40 + best * (320 / 900 - 0.42), abs=1e-15)


def test_rogan_gladen_of_a_hand_table() -> None:
    found = room.rogan_gladen(HAND, HAND_REST)
    value = (320 / 900 + 0.9 - 1) / (0.9 + 0.9 - 1)
    variance = (
        (320 / 900) * (580 / 900) / 900 + (1 - value) ** 2 * 0.9 * 0.1 / 60 + value**2 * 0.9 * 0.1 / 40
    ) / 0.8**2
    assert found.estimate == pytest.approx(value, abs=1e-15)
    assert found.standard_error == pytest.approx(math.sqrt(variance), abs=1e-15)


def test_rogan_gladen_interval_is_lang_and_reiczigel() -> None:
    found = room.rogan_gladen(HAND, HAND_REST, interval="lang_reiczigel")
    n, n1, n0 = 900 + Z**2, 42, 62
    rate, se, sp = (320 + Z**2 / 2) / n, 37 / n1, 55 / n0
    value = (rate + sp - 1) / (se + sp - 1)
    shift = 2 * Z**2 * (value * se * (1 - se) / n1 - (1 - value) * sp * (1 - sp) / n0)
    half = Z * math.sqrt(
        rate * (1 - rate) / n + value**2 * se * (1 - se) / n1 + (1 - value) ** 2 * sp * (1 - sp) / n0
    )
    half /= se + sp - 1
    assert (found.lower, found.upper) == pytest.approx(
        (value + shift - half, value + shift + half), abs=1e-13
    )


@pytest.mark.parametrize(
    ("sensitivity", "specificity", "positive", "total", "printed"),
    [
        # the two examples of Lang and Reiczigel (2014), with their printed intervals
        ((178, 179), (358, 359), 4060, 11281, (0.349, 0.372)),
        ((32, 33), (20, 20), 51, 2971, (0.0, 0.053)),
    ],
)
def test_the_examples_of_lang_and_reiczigel(
    sensitivity: Any, specificity: Any, positive: int, total: int, printed: Any
) -> None:
    table = [
        [specificity[0], specificity[1] - specificity[0]],
        [sensitivity[1] - sensitivity[0], sensitivity[0]],
    ]
    found = room.rogan_gladen(table, [total - positive, positive], interval="lang_reiczigel")
    assert (round(float(found.lower), 3), round(float(found.upper), 3)) == printed


@pytest.mark.parametrize(("table", "rest"), [(HAND, HAND_REST), ([[40, 9], [11, 35]], [50, 70])])
def test_fiellers_interval_ends_where_the_test_rejects(table: Any, rest: Any) -> None:
    found = room.rogan_gladen(table, rest)
    (n00, n01), (n10, n11) = (np.array(table) + 0.5).tolist()
    n = rest[0] + rest[1] + 1
    rate, se, sp = (rest[1] + 0.5) / n, n11 / (n10 + n11), n00 / (n00 + n01)
    assert 0 < found.lower < found.estimate < found.upper < 1
    for end in (float(found.lower), float(found.upper)):
        variance = rate * (1 - rate) / n + end**2 * se * (1 - se) / (n10 + n11)
        variance += (1 - end) ** 2 * sp * (1 - sp) / (n00 + n01)
        apart = rate - (end * se + (1 - end) * (1 - sp))
        assert abs(apart) == pytest.approx(Z * math.sqrt(variance), rel=1e-10)


def test_a_judge_not_clearly_better_than_a_coin_pins_nothing_down() -> None:
    found = room.rogan_gladen([[6, 5], [4, 5]], [50, 50])
    assert found.reason == Reason.OK
    assert (found.lower, found.upper) == (0, 1)


@given(TABLE, REST)
def test_both_intervals_lie_in_the_unit_interval(table: Any, rest: Any) -> None:
    for interval in ("fieller", "lang_reiczigel"):
        found = room.rogan_gladen(table, rest, interval=interval)
        if found.reason == Reason.OK:
            assert 0 <= found.lower <= found.upper <= 1
        else:
            assert np.isnan([found.lower, found.upper]).all()


def test_naive_is_the_judges_rate_with_wilsons_interval() -> None:
    found = room.naive(HAND, HAND_REST)
    assert found.estimate == pytest.approx(0.362)
    middle, half = 0.362 + Z**2 / 2000, Z * math.sqrt(0.362 * 0.638 / 1000 + Z**2 / 4e6)
    assert found.lower == pytest.approx((middle - half) / (1 + Z**2 / 1000), abs=1e-14)
    assert not found.hurts
    assert room.naive(None, HAND_REST).estimate == pytest.approx(320 / 900)


@given(TABLE, REST, st.sampled_from([0.0, 0.3, 1.0]))
def test_any_lambda_is_the_mean_over_cases(table: Any, rest: Any, weight: float) -> None:
    found = room.ppi_plus_plus(table, rest, tuning=weight)
    if table.sum() < 2 or (weight and rest.sum() == 0):
        assert np.isnan(found.estimate)
        assert found.reason != Reason.OK
        return
    mean, se = slow_power(table, rest, weight)
    assert found.unclipped == pytest.approx(mean, abs=1e-12)
    assert found.standard_error == pytest.approx(se, abs=1e-12)
    assert found.estimate == pytest.approx(min(max(mean, 0), 1), abs=1e-12)
    assert bool(found.clipped) == (not 0 <= found.unclipped <= 1)
    assert 0 <= found.lower <= found.upper <= 1


@given(TABLE, REST)
def test_lambda_zero_is_the_labelled_rate_and_one_is_ppi(table: Any, rest: Any) -> None:
    for got, expected in (
        (room.ppi_plus_plus(table, rest, tuning=0.0), room.labelled_only(table)),
        (room.ppi_plus_plus(table, rest, tuning=1.0), room.ppi(table, rest)),
    ):
        for one, other in zip(got, expected, strict=True):
            np.testing.assert_array_equal(one, other)


@given(TABLE, REST)
def test_the_tuned_lambda_is_in_the_unit_interval(table: Any, rest: Any) -> None:
    found = room.ppi_plus_plus(table, rest)
    assert 0 <= found.tuning <= 1
    if rest.sum() == 0:
        assert found.tuning == 0


@given(TABLE, REST)
def test_reading_both_labels_the_other_way_round_turns_the_rate(table: Any, rest: Any) -> None:
    for method in (room.ppi, room.ppi_plus_plus, room.rogan_gladen, room.naive):
        one, other = method(table, rest), method(table[::-1, ::-1], rest[::-1])
        assert one.estimate == pytest.approx(1 - other.estimate, abs=1e-9, nan_ok=True)
        assert one.lower == pytest.approx(1 - other.upper, abs=1e-9, nan_ok=True)
        assert one.standard_error == pytest.approx(other.standard_error, abs=1e-9, nan_ok=True)


@given(TABLE, REST)
def test_one_stratum_is_no_stratum(table: Any, rest: Any) -> None:
    got, expected = room.stratified(table[None], rest[None]), room.ppi_plus_plus(table, rest)
    if got.reason == 0:
        assert got.estimate == pytest.approx(expected.estimate, abs=1e-12)
        assert got.standard_error == pytest.approx(expected.standard_error, abs=1e-12)
        assert got.lower == pytest.approx(expected.lower, abs=1e-12)
        assert got.upper == pytest.approx(expected.upper, abs=1e-12)
    else:
        assert np.isnan(got.estimate)


def test_strata_are_weighed_by_their_share_of_all_cases() -> None:
    tables, rest = np.array([HAND, [[8, 2], [3, 37]]]), np.array([HAND_REST, [100, 250]])
    each = [room.ppi_plus_plus(t, r) for t, r in zip(tables, rest, strict=True)]
    share = np.array([1000, 400]) / 1400
    found = room.stratified(tables, rest)
    assert found.estimate == pytest.approx(share @ [float(e.estimate) for e in each], abs=1e-14)
    spread = math.sqrt(sum((w * float(e.standard_error)) ** 2 for w, e in zip(share, each, strict=True)))
    assert found.standard_error == pytest.approx(spread, abs=1e-14)
    # a stratum without cases counts nothing, one without labels leaves the rate undefined
    more = np.concatenate([tables, np.zeros((1, 2, 2))])
    same = room.stratified(more, np.concatenate([rest, [[0, 0]]]))
    assert same.estimate == pytest.approx(float(found.estimate), abs=1e-15)
    lost = room.stratified(more, np.concatenate([rest, [[1, 0]]]))
    assert lost.reason == Reason.STRATUM_WITHOUT_LABELS
    assert np.isnan([lost.estimate, lost.standard_error, lost.lower, lost.upper]).all()


@pytest.mark.parametrize(
    ("method", "table", "rest", "reason"),
    [
        (room.rogan_gladen, [[0, 0], [0, 0]], [5, 5], Reason.NO_LABELLED_CASE),
        (room.rogan_gladen, [[3, 1], [1, 3]], [0, 0], Reason.NO_UNLABELLED_VERDICT),
        (room.rogan_gladen, [[3, 1], [0, 0]], [5, 5], Reason.NO_LABELLED_POSITIVE),
        (room.rogan_gladen, [[0, 0], [1, 3]], [5, 5], Reason.NO_LABELLED_NEGATIVE),
        (room.rogan_gladen, [[1, 3], [1, 3]], [5, 5], Reason.UNINFORMATIVE_JUDGE),
        (room.rogan_gladen, [[0, 4], [0, 4]], [0, 9], Reason.UNINFORMATIVE_JUDGE),
        (room.ppi, [[0, 0], [0, 0]], [5, 5], Reason.NO_LABELLED_CASE),
        (room.ppi, [[1, 0], [0, 0]], [5, 5], Reason.FEW_LABELLED_CASES),
        (room.ppi, [[3, 1], [1, 3]], [0, 0], Reason.NO_UNLABELLED_VERDICT),
        (room.ppi_plus_plus, [[0, 0], [0, 0]], [5, 5], Reason.NO_LABELLED_CASE),
        (room.naive, [[0, 0], [0, 0]], [0, 0], Reason.NO_UNLABELLED_VERDICT),
    ],
)
def test_undefined_rates_have_a_reason(method: Any, table: Any, rest: Any, reason: Reason) -> None:
    found = method(table, rest)
    assert found.reason == reason
    assert np.isnan([found.estimate, found.standard_error, found.lower, found.upper]).all()
    assert not found.hurts
    assert not found.clipped


def test_a_constant_judge_leaves_the_labelled_rate() -> None:
    table, rest = [[0, 6], [0, 4]], [0, 90]
    own = room.labelled_only(table)
    for method in (room.ppi, room.ppi_plus_plus):
        found = method(table, rest)
        assert found.estimate == pytest.approx(0.4)
        assert found.standard_error == pytest.approx(float(own.standard_error))
        assert not room.ppi_plus_plus(table, rest).hurts


def test_clipping_is_told() -> None:
    found = room.rogan_gladen([[90, 10], [1, 9]], [990, 10])
    assert found.unclipped < 0
    assert found.clipped
    assert found.estimate == 0 == found.lower


def test_it_says_when_correction_hurts() -> None:
    # a judge close to a coin: dividing by .1 blows the interval up, and PPI adds its errors' variance
    table, rest = [[44, 36], [9, 11]], [480, 420]
    assert room.rogan_gladen(table, rest).hurts
    assert room.ppi(table, rest).hurts
    assert not room.ppi_plus_plus(table, rest).hurts
    assert not room.rogan_gladen([[58, 2], [1, 39]], [580, 320]).hurts


def test_leading_dims_are_kept() -> None:
    tables = np.arange(24).reshape(2, 3, 2, 2)
    rest = np.array([30, 20])
    for method in (room.naive, room.ppi, room.ppi_plus_plus, room.rogan_gladen):
        found = method(tables, rest)
        for place in np.ndindex(2, 3):
            alone = method(tables[place], rest)
            for many, one in zip(found, alone, strict=True):
                np.testing.assert_array_equal(many[place], one)


@pytest.mark.parametrize(
    ("table", "rest", "options"),
    [
        ([[1, 2, 3]], [1, 2], {}),
        ([[1, 2], [3, 4]], [1, 2, 3], {}),
        ([[1, -2], [3, 4]], [1, 2], {}),
        ([[1, np.inf], [3, 4]], [1, 2], {}),
        ([[1, 2], [3, 4]], [1, 2], {"level": 1.0}),
        ([[1, 2], [3, 4]], [1, 2], {"tuning": 1.5}),
    ],
)
def test_arguments_that_make_no_sense(table: Any, rest: Any, options: Any) -> None:
    with pytest.raises((ProtocolError, StructureError)):
        room.ppi_plus_plus(table, rest, **options)


def test_an_unknown_interval_is_refused() -> None:
    with pytest.raises(ProtocolError, match="fieller"):
        room.rogan_gladen(HAND, HAND_REST, interval="delta")  # type: ignore[arg-type]


def test_strata_need_an_axis() -> None:
    with pytest.raises(StructureError, match="Strata"):
        room.stratified([[1, 2], [3, 4]], [1, 2])


@pytest.mark.parametrize("method", [room.ppi, room.ppi_plus_plus, room.rogan_gladen])
def test_intervals_cover(method: Any) -> None:
    rng = np.random.default_rng(5)
    cells = np.array([[0.7 * 0.9, 0.7 * 0.1], [0.3 * 0.2, 0.3 * 0.8]])
    tables = rng.multinomial(200, cells.ravel(), size=4000).reshape(-1, 2, 2)
    found = method(tables, rng.multinomial(9800, cells.sum(0), size=4000))
    assert 0.935 <= ((found.lower <= 0.3) & (found.upper >= 0.3)).mean() <= 0.965
    assert found.estimate.mean() == pytest.approx(0.3, abs=0.004)
    assert found.standard_error.mean() == pytest.approx(found.unclipped.std(), rel=0.05)


# ------------------------------------------------------------------------------------------------- abstention


def cases(seed: int, n: int, *, coverage: tuple[float, float] = (0.9, 0.4), n_categories: int = 2) -> Any:
    """A binary feature on which both coverage and accuracy depend: feature, full and covered labels."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 2, n)
    human = rng.integers(0, n_categories, n)
    right = rng.random(n) < np.where(x == 0, 0.9, 0.6)
    judge = np.where(right, human, (human + 1) % n_categories)
    open_ = rng.random(n) > np.asarray(coverage)[x]
    return x[:, None].astype(float), human, judge, np.where(open_, -2, judge)


def by_strata(x: Any, a: Any, b: Any, size: int) -> Any:
    """Covered tables of the groups, weighted by the groups' share of all eligible cases."""
    out = np.zeros((size, size))
    keep = (a != -1) & (b != -1)
    for value in np.unique(x[keep, 0]):
        here = keep & (x[:, 0] == value)
        known = here & (a >= 0) & (b >= 0)
        for i in np.flatnonzero(known):
            out[a[i], b[i]] += here.sum() / keep.sum() / known.sum()
    return out


@pytest.mark.parametrize("method", room.METHODS)
@pytest.mark.parametrize("n_categories", [2, 3])
def test_one_binary_feature_is_post_stratification(method: str, n_categories: int) -> None:
    # saturated models: all three are the strata's tables weighed by the strata's sizes
    x, human, _, judge = cases(1, 300, n_categories=n_categories)
    judge = judge.copy()
    judge[::17], human[::23] = -1, -3
    got = room.adjusted_table(x, human, judge, n_categories, method=method, ridge=0)
    np.testing.assert_allclose(got, by_strata(x, human, judge, n_categories), atol=1e-9)


@pytest.mark.parametrize("method", room.METHODS)
def test_no_features_is_the_covered_value(method: str) -> None:
    _, human, _, judge = cases(2, 200)
    known = judge >= 0
    table = np.zeros((2, 2))
    np.add.at(table, (human[known], judge[known]), 1)
    got = room.adjusted_table(np.empty((200, 0)), human, judge, 2, method=method)
    np.testing.assert_allclose(got, table / known.sum(), atol=1e-9)


@pytest.mark.parametrize("method", room.METHODS)
def test_nothing_changes_where_all_are_covered(method: str) -> None:
    x, human, judge, _ = cases(3, 150)
    x = np.hstack([x, np.random.default_rng(3).normal(size=(150, 2))])
    names = list(COEFFICIENTS)
    table = np.zeros((2, 2))
    np.add.at(table, (human, judge), 1)
    found = room.adjusted_coefficient(names, x, human, judge, 2, method=method)
    for place, name in enumerate(names):
        assert found.value[place] == pytest.approx(float(evaluate(name, table).value), abs=1e-8)
    assert found.positivity == room.Positivity(1.0, 150.0, 1.0)
    # and the standard error is that of items (delta method over single pairs, divisor n - 1)
    accuracy = float(evaluate("accuracy", table).value)
    own = math.sqrt(accuracy * (1 - accuracy) / 149)
    assert found.standard_error[names.index("accuracy")] == pytest.approx(own, abs=1e-8)


def jackknife(statistic: str, method: str, x: Any, a: Any, b: Any, groups: Any) -> float:
    """Standard error from leaving out one group at a time."""
    values = []
    for g in np.unique(groups):
        keep = groups != g
        found = room.adjusted_coefficient(statistic, x[keep], a[keep], b[keep], 2, method=method)
        values.append(float(found.value[0]))
    n = len(values)
    return math.sqrt((n - 1) / n * sum((v - np.mean(values)) ** 2 for v in values))


@pytest.mark.parametrize("method", room.METHODS)
@pytest.mark.parametrize("statistic", ["accuracy", "kappa"])
def test_the_sandwich_is_close_to_the_jackknife(method: str, statistic: str) -> None:
    x, human, _, judge = cases(4, 240)
    x = np.hstack([x, np.random.default_rng(4).normal(size=(240, 1))])
    groups = np.arange(240) // 2
    found = room.adjusted_coefficient(statistic, x, human, judge, 2, method=method, groups=groups)
    slow = jackknife(statistic, method, x, human, judge, groups)
    assert found.standard_error[0] == pytest.approx(slow, rel=0.06)


@pytest.mark.parametrize("method", room.METHODS)
def test_adjustment_recovers_what_the_covered_cases_miss(method: str) -> None:
    values, errors, naive = [], [], []
    for seed in range(150):
        x, human, _, judge = cases(1000 + seed, 300)
        found = room.adjusted_coefficient("accuracy", x, human, judge, 2, method=method)
        values.append(found.value[0])
        errors.append(found.standard_error[0])
        naive.append((human == judge)[judge >= 0].mean())
    assert np.mean(values) == pytest.approx(0.75, abs=0.008)
    assert np.mean(naive) > 0.79  # 0.808 in the long run
    assert np.mean(errors) == pytest.approx(np.std(values), rel=0.15)
    covers = np.abs(np.array(values) - 0.75) <= Z * np.array(errors)
    assert 0.90 <= covers.mean() <= 0.985


def test_doubly_robust_survives_a_wrong_coverage_model() -> None:
    # coverage depends on |x|, which a line in x misses; the cell model, with x alone, is right
    rng = np.random.default_rng(8)
    x = rng.normal(size=(40_000, 1))
    human = rng.integers(0, 2, len(x))
    right = rng.random(len(x)) < 1 / (1 + np.exp(-1 - x[:, 0]))
    judge = np.where(right, human, 1 - human)
    shift = np.where(x[:, 0] > 1, 0.2, 0.9)
    judge = np.where(rng.random(len(x)) < shift, judge, -2)
    truth = right.mean()
    apart = {
        m: float(room.adjusted_coefficient("accuracy", x, human, judge, 2, method=m).value[0]) - truth
        for m in room.METHODS
    }
    assert abs(apart["doubly_robust"]) < 0.01
    assert abs(apart["standardised"]) < 0.01


@given(st.integers(0, 200), st.sampled_from(room.METHODS))
@settings(max_examples=15, deadline=None)
def test_order_units_and_coding_of_features_do_not_matter(seed: int, method: str) -> None:
    x, human, _, judge = cases(seed, 60)
    rng = np.random.default_rng(seed)
    x = np.hstack([x, rng.normal(size=(60, 1))])
    expected = room.adjusted_coefficient("accuracy", x, human, judge, 2, method=method)
    order = rng.permutation(60)
    for other in (x[order] * [-3.0, 1e4] + [5.0, -1e3], x[order][:, ::-1]):
        got = room.adjusted_coefficient("accuracy", other, human[order], judge[order], 2, method=method)
        assert got.value[0] == pytest.approx(expected.value[0], abs=1e-6)
        assert got.standard_error[0] == pytest.approx(expected.standard_error[0], abs=1e-6)


@given(st.integers(0, 100))
@settings(max_examples=10, deadline=None)
def test_a_table_adds_to_one_and_has_no_negative_cell(seed: int) -> None:
    x, human, _, judge = cases(seed, 12, n_categories=3)
    for method in room.METHODS:
        got = room.adjusted_table(x, human, judge, 3, method=method)
        if (judge >= 0).any():
            assert got.sum() == pytest.approx(1)
            assert (got >= 0).all()


def test_separation_is_reported_and_stays_finite() -> None:
    x, human, judge, _ = cases(6, 100)
    judge = np.where(x[:, 0] == 1, -2, judge)  # the whole second group is open
    for method in room.METHODS:
        found = room.adjusted_coefficient("accuracy", x, human, judge, 2, method=method)
        assert np.isfinite(found.value[0])
        assert found.positivity.least_coverage < 0.01
    told = room.association(x, judge >= 0)
    assert told.coefficient[0] > 5
    assert told.standard_error[0] > 2
    assert told.p_value[0] < 1e-9


@pytest.mark.parametrize(
    ("human", "judge", "reason"),
    [
        ([-2, -2, -2], [0, 1, 1], Reason.NO_JOINT_ANSWERS),
        ([-1, -1, -1], [0, 1, 1], Reason.NO_OVERLAP),
        ([], [], Reason.NO_OVERLAP),
    ],
)
def test_nothing_to_adjust_from(human: Any, judge: Any, reason: Reason) -> None:
    for method in room.METHODS:
        found = room.adjusted_coefficient(
            ["accuracy", "kappa"], np.zeros((len(human), 1)), human, judge, 2, method=method
        )
        assert (found.reason == reason).all()
        assert np.isnan(found.value).all()
        assert np.isnan(found.table).all()


def test_a_coefficient_keeps_its_own_reason() -> None:
    found = room.adjusted_coefficient("kappa", np.zeros((4, 0)), [1, 1, 1, -2], [1, 1, 1, 1], 2)
    assert found.reason[0] == evaluate("kappa", [[0, 0], [0, 3]]).reason
    assert np.isnan(found.value[0])
    assert found.table.tolist() == [[0, 0], [0, 1]]


# ------------------------------------------------------------------------------------ positivity, association


def test_weights_of_one_are_no_weights() -> None:
    covered = np.array([True, True, False, True])
    assert room.positivity(np.full(4, 0.75), covered) == pytest.approx((0.75, 3.0, 1.0))
    assert np.isnan(room.positivity([0.0, 0.0], [False, False]).least_coverage)


def test_association_of_a_fourfold_table() -> None:
    # open 5 of 20 and 12 of 30: log odds ratio and Woolf's standard error, with n / (n - 1) in the sandwich
    x = np.repeat([0.0, 1.0], [20, 30])[:, None]
    covered = np.r_[np.arange(20) >= 5, np.arange(30) >= 12]
    found = room.association(x, covered, ridge=0)
    assert found.coefficient[0] == pytest.approx(math.log((12 / 18) / (5 / 15)), abs=1e-9)
    woolf = math.sqrt(1 / 5 + 1 / 15 + 1 / 12 + 1 / 18)
    assert found.standard_error[0] == pytest.approx(woolf * math.sqrt(50 / 49), abs=1e-9)
    # score: open minus expected times x minus its mean, case by case
    scores = [((not c) - 17 / 50) * (v - 0.6) for c, v in zip(covered, x[:, 0], strict=True)]
    chi2 = sum(scores) ** 2 / sum(u * u for u in scores)
    assert found.p_value[0] == pytest.approx(math.erfc(math.sqrt(chi2 / 2)), abs=1e-9)
    # in other units
    half = room.association(2 * x, covered, ridge=0)
    assert half.coefficient[0] == pytest.approx(found.coefficient[0] / 2, abs=1e-9)
    assert half.p_value[0] == pytest.approx(found.p_value[0], abs=1e-9)


def test_p_values_are_uniform_without_an_association() -> None:
    # the first feature decides, the second has nothing to do with it; cases come in pairs
    rng = np.random.default_rng(11)
    found = []
    for _ in range(400):
        x = np.repeat(rng.normal(size=(60, 2)), 2, axis=0)
        covered = np.repeat(rng.random(60) < 1 / (1 + np.exp(-x[::2, 0])), 2)
        found.append(room.association(x, covered, groups=np.arange(120) // 2).p_value[1])
    assert np.mean(np.array(found) < 0.05) == pytest.approx(0.05, abs=0.025)
    assert np.mean(found) == pytest.approx(0.5, abs=0.05)


def test_repeated_cases_of_an_item_are_one() -> None:
    x, _, _, judge = cases(9, 80)
    once = room.association(x, judge >= 0, ridge=0)
    twice = room.association(
        np.repeat(x, 2, 0), np.repeat(judge >= 0, 2), groups=np.repeat(np.arange(80), 2), ridge=0
    )
    assert twice.coefficient == pytest.approx(once.coefficient, abs=1e-9)
    assert twice.standard_error == pytest.approx(once.standard_error, abs=1e-9)


def test_associations_that_do_not_exist() -> None:
    x = np.array([[0.0, 7.0], [1.0, 7.0], [2.0, 7.0], [5.0, 7.0]])
    some = room.association(x, [True, False, True, False])
    assert some.reason.tolist() == [Reason.OK, Reason.CONSTANT_FEATURE]
    assert np.isnan([some.coefficient[1], some.standard_error[1], some.p_value[1]]).all()
    twice = room.association(np.array([[0, 0], [1, 2], [2, 4], [5, 10]]), [True, False, True, False])
    assert (twice.reason == Reason.CONSTANT_FEATURE).all()
    assert (room.association(x, [True] * 4).reason == Reason.NO_OPEN_CASE).all()
    assert (room.association(x, [False] * 4).reason == Reason.NO_JOINT_ANSWERS).all()


@pytest.mark.parametrize("features", [[0.0, 1.0, 2.0], [[np.nan], [1.0], [2.0]], [[1.0], [2.0]]])
def test_features_are_numbers_a_row_each(features: Any) -> None:
    with pytest.raises(StructureError, match=r"[Ff]eatures"):
        room.adjusted_table(features, [0, 1, 1], [0, 1, -2], 2)


def test_other_arguments_are_checked() -> None:
    with pytest.raises(ProtocolError, match="doubly_robust"):
        room.adjusted_table([[0.0]], [0], [0], 2, method="magic")
    with pytest.raises(StructureError, match="below 2"):
        room.adjusted_table([[0.0]], [2], [0], 2)
    with pytest.raises(StructureError, match="groups"):
        room.adjusted_coefficient("accuracy", [[0.0]], [1], [0], 2, groups=[1, 2])

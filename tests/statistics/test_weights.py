"""Agreement weights, costs and metrics against hand-made matrices and plain loops."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xjudge.errors import ProtocolError
from xjudge.statistics.weights import (
    COST_NAMES,
    METRICS,
    ORDERED_METRICS,
    ORDERED_WEIGHTS,
    WEIGHT_NAMES,
    cost_matrix,
    distance_matrix,
    ordinal_distances,
    weight_matrix,
    weights_from_costs,
)

distinct_scores = st.lists(st.integers(1, 60), min_size=2, max_size=7, unique=True).map(
    lambda xs: [x / 4 for x in xs]
)


def plain_weight(name, x, a, b):
    """Gwet's definitions, an entry at a time."""
    L, low, high = len(x), min(x), max(x)
    pairs = list(product(range(L), repeat=2))
    step = min(abs(x[i] - x[j]) for i, j in pairs if i != j)

    def circular(i, j):
        return math.sin(math.pi * (x[i] - x[j]) / (high - low + step)) ** 2

    def bipolar(i, j):
        if i == j:
            return 0.0
        return (x[i] - x[j]) ** 2 / ((x[i] + x[j] - 2 * low) * (2 * high - x[i] - x[j]))

    if name == "identity":
        return float(a == b)
    if name == "linear":
        return 1 - abs(x[a] - x[b]) / (high - low)
    if name == "quadratic":
        return 1 - (x[a] - x[b]) ** 2 / (high - low) ** 2
    if name == "radical":
        return 1 - math.sqrt(abs(x[a] - x[b])) / math.sqrt(high - low)
    if name == "ratio":
        return 1 - ((x[a] - x[b]) / (x[a] + x[b])) ** 2 / ((high - low) / (high + low)) ** 2
    if name == "ordinal":
        return 1 - math.comb(abs(a - b) + 1, 2) / math.comb(L, 2)
    kind = circular if name == "circular" else bipolar
    return 1 - kind(a, b) / max(kind(i, j) for i, j in pairs)


@given(distinct_scores, st.sampled_from(WEIGHT_NAMES))
def test_every_name_is_its_definition(scores, name):
    got = weight_matrix(name, len(scores), scores)
    want = [[plain_weight(name, scores, a, b) for b in range(len(scores))] for a in range(len(scores))]
    np.testing.assert_allclose(got, want, atol=1e-12)


@given(distinct_scores, st.sampled_from(WEIGHT_NAMES))
def test_every_name_is_an_agreement_matrix(scores, name):
    w = weight_matrix(name, len(scores), scores)
    assert (np.diag(w) == 1).all()
    assert w.min() == pytest.approx(0)
    np.testing.assert_array_equal(w, w.T)
    np.testing.assert_array_equal(weight_matrix(w, len(scores)), w)


@given(distinct_scores, st.sampled_from(sorted(ORDERED_WEIGHTS - {"ratio"})), st.integers(-9, 9))
def test_weights_do_not_depend_on_unit_and_origin_of_the_scores(scores, name, shift):
    moved = [2.5 * x + shift for x in scores]
    np.testing.assert_allclose(
        weight_matrix(name, len(scores), moved), weight_matrix(name, len(scores), scores), atol=1e-9
    )


def test_matrices_written_out():
    third = 1 / 3
    np.testing.assert_allclose(weight_matrix("ordinal", 4)[0], [1, 5 / 6, 1 / 2, 0])
    np.testing.assert_allclose(weight_matrix("linear", 4)[1], [2 * third, 1, 2 * third, third])
    np.testing.assert_allclose(weight_matrix("quadratic", 4)[0], [1, 8 / 9, 5 / 9, 0])
    np.testing.assert_allclose(weight_matrix("radical", 5)[0], [1, 1 / 2, 1 - 2**-0.5, 1 - 0.75**0.5, 0])
    # scores 1, 2, 3: squares of 1/3, 1/2 and 1/5 against 1/4
    np.testing.assert_allclose(
        weight_matrix("ratio", 3), [[1, 5 / 9, 0], [5 / 9, 1, 21 / 25], [0, 21 / 25, 1]]
    )
    # four steps on the circle: a quarter turn has sin^2 = 1/2, half a turn 1
    np.testing.assert_allclose(weight_matrix("circular", 4)[0], [1, 0.5, 0, 0.5], atol=1e-15)
    # distances 1/3, 1, 1/3 off the diagonal
    np.testing.assert_allclose(
        weight_matrix("bipolar", 3), [[1, 2 / 3, 0], [2 / 3, 1, 2 / 3], [0, 2 / 3, 1]], atol=1e-15
    )


def test_circle_closes_one_step_after_the_last_score():
    np.testing.assert_allclose(
        weight_matrix("circular", 4, [0, 90, 180, 270]), weight_matrix("circular", 4), atol=1e-15
    )


@pytest.mark.parametrize("name", WEIGHT_NAMES)
def test_two_categories_leave_nothing_to_weigh(name):
    np.testing.assert_allclose(weight_matrix(name, 2), np.eye(2), atol=1e-15)


@pytest.mark.parametrize("name", WEIGHT_NAMES)
def test_one_category(name):
    np.testing.assert_array_equal(weight_matrix(name, 1), [[1.0]])


def test_ordinal_weights_depend_on_positions_only():
    np.testing.assert_array_equal(weight_matrix("ordinal", 3, [1, 2, 50]), weight_matrix("ordinal", 3))


def test_ratio_counts_positions_from_one():
    np.testing.assert_array_equal(weight_matrix("ratio", 3), weight_matrix("ratio", 3, [1, 2, 3]))
    np.testing.assert_array_equal(distance_matrix("ratio", 3), distance_matrix("ratio", 3, [1, 2, 3]))


def test_costs_by_name():
    np.testing.assert_array_equal(cost_matrix("nominal", 3), 1 - np.eye(3))
    np.testing.assert_array_equal(cost_matrix("linear", 3), [[0, 1, 2], [1, 0, 1], [2, 1, 0]])
    # MATH.md: UNMET 0, cannot assess 1/2, MET 1
    np.testing.assert_array_equal(
        cost_matrix("quadratic", 3, [0, 1, 0.5]), [[0, 1, 0.25], [1, 0, 0.25], [0.25, 0.25, 0]]
    )


@given(distinct_scores, st.sampled_from([("nominal", "identity"), ("linear",) * 2, ("quadratic",) * 2]))
def test_costs_and_weights_of_one_name_say_the_same(scores, names):
    costs = cost_matrix(names[0], len(scores), scores)
    np.testing.assert_allclose(
        weights_from_costs(costs), weight_matrix(names[1], len(scores), scores), atol=1e-12
    )


def test_weights_from_no_costs():
    np.testing.assert_array_equal(weights_from_costs(np.zeros((1, 1))), [[1.0]])


def test_metrics_written_out():
    np.testing.assert_array_equal(distance_matrix("nominal", 2), [[0, 1], [1, 0]])
    np.testing.assert_array_equal(distance_matrix("interval", 3, [0, 1, 5])[0], [0, 1, 25])
    np.testing.assert_allclose(
        distance_matrix("ratio", 3, [0, 1, 3]), [[0, 1, 1], [1, 0, 0.25], [1, 0.25, 0]]
    )
    np.testing.assert_allclose(distance_matrix("circular", 4)[0], [0, 0.5, 1, 0.5], atol=1e-15)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6))
def test_ordinal_metric_is_krippendorffs_sum(used):
    want = [
        [(sum(used[min(a, b) : max(a, b) + 1]) - (used[a] + used[b]) / 2) ** 2 for b in range(len(used))]
        for a in range(len(used))
    ]
    np.testing.assert_allclose(ordinal_distances(used), want)


def test_ordinal_metric_keeps_leading_axes():
    used = np.array([[[4, 2, 2]], [[0, 1, 3]]])
    got = ordinal_distances(used)
    assert got.shape == (2, 1, 3, 3)
    np.testing.assert_array_equal(got[1, 0], ordinal_distances([0, 1, 3]))


def test_names_of_ordered_scales():
    assert {"linear", "quadratic", "ordinal", "radical", "ratio", "circular", "bipolar"} == ORDERED_WEIGHTS
    assert {"ordinal", "interval", "ratio", "circular"} == ORDERED_METRICS
    assert set(COST_NAMES) == {"nominal", "linear", "quadratic"}
    assert set(METRICS) == {"nominal", "ordinal", "interval", "ratio", "circular"}


def test_none_is_identity():
    np.testing.assert_array_equal(weight_matrix(None, 3), np.eye(3))


def test_own_matrices_are_copied():
    own = np.eye(2)
    own.setflags(write=False)
    for got in (weight_matrix(own, 2), cost_matrix(1 - own, 2), distance_matrix(1 - own, 2)):
        got[0, 1] = 0.5
    np.testing.assert_array_equal(own, np.eye(2))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: weight_matrix("cubic", 3), "'identity', .* or an own matrix; got 'cubic'"),
        (lambda: weight_matrix(np.eye(2), 3), r"3 x 3 matrix.*\(2, 2\)"),
        (lambda: weight_matrix([1, 2, 3], 3), r"3 x 3 matrix.*\(3,\)"),
        (lambda: weight_matrix([["a", "b"], ["b", "a"]], 2), "`weights` must hold numbers"),
        (lambda: weight_matrix([[1, 0], [0]], 2), "regular shape"),
        (lambda: weight_matrix(1 - np.eye(2), 2), "1 on the diagonal.*`costs`"),
        (lambda: weight_matrix([[1, 0.5], [0.2, 1]], 2), "symmetric; row 0"),
        (lambda: weight_matrix([[1, -0.5], [-0.5, 1]], 2), r"\[0, 1\]; row 0"),
        (lambda: weight_matrix([[1, 1.5], [1.5, 1]], 2), r"\[0, 1\]; row 0"),
        (lambda: weight_matrix([[1, np.nan], [np.nan, 1]], 2), "finite; row 0"),
        (lambda: weight_matrix("linear", 0), "`n_categories` must be at least 1; got 0"),
        (lambda: weight_matrix("linear", 3, [0, 1]), r"each of the 3 categories; got shape \(2,\)"),
        (lambda: weight_matrix("linear", 3, [0, 1, 1]), "distinct finite numbers; got 0.0, 1.0, 1.0"),
        (lambda: weight_matrix("linear", 2, [0, np.inf]), "distinct finite numbers"),
        (lambda: weight_matrix("linear", 2, ["low", "high"]), "`scores` must hold numbers"),
        (lambda: weight_matrix("ratio", 2, [-1, 1]), "not negative; got -1"),
        (lambda: cost_matrix("cubic", 3), "'nominal', 'linear', 'quadratic' or an own matrix"),
        (lambda: cost_matrix(np.eye(2), 2), "`costs` must have 0 on the diagonal.*`weights`"),
        (lambda: cost_matrix([[0, 1], [2, 0]], 2), "`costs` must be symmetric"),
        (lambda: cost_matrix([[0, -1], [-1, 0]], 2), "`costs` must not be negative; row 0"),
        (lambda: cost_matrix(np.zeros((2, 2)), 2), "zero throughout"),
        (lambda: cost_matrix([[0, np.inf], [np.inf, 0]], 2), "finite"),
        (lambda: distance_matrix("cubic", 3), "'circular' or an own matrix; got 'cubic'"),
        (lambda: distance_matrix("ordinal", 3), "`ordinal_distances`"),
        (lambda: distance_matrix(np.eye(2), 2), "`metric` must have 0 on the diagonal"),
    ],
)
def test_what_does_not_fit_is_one_sentence(call, words):
    with pytest.raises(ProtocolError, match=words):
        call()

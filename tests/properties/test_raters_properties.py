"""What must hold of coefficients of many raters on any labels, and agreement with plain loops."""

from fractions import Fraction

import numpy as np
import pytest
import slow_raters
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from xjudge.errors import Reason
from xjudge.statistics.raters import (
    alpha,
    alpha_of_scores,
    conger_kappa,
    count_vector_histogram,
    count_vectors,
    evaluate_alpha_of_scores,
    evaluate_raters,
    fleiss_kappa,
    influence,
    merge_histograms,
    percent_agreement,
    sizes,
)
from xjudge.statistics.weights import WEIGHT_NAMES, weight_matrix

OF_COUNTS = ["alpha", "fleiss_kappa", "scott_pi", "gwet_ac", "brennan_prediger", "percent_agreement"]
NOMINAL = [("alpha", {}), ("fleiss_kappa", {"shares": "item_mean"}), *((name, {}) for name in OF_COUNTS[1:])]


@st.composite
def labelled(draw, least=-1, max_items=8, max_raters=5):
    """Codes (item, rater), -1 where missing, and the number of declared categories."""
    n_categories = draw(st.integers(2, 4))
    shape = draw(st.integers(1, max_items)), draw(st.integers(1, max_raters))
    codes = draw(arrays(np.int64, shape, elements=st.integers(least, n_categories - 1)))
    return codes, n_categories


def items_of(codes):
    return [[None if code < 0 else int(code) for code in row] for row in codes]


def agree(got, want, tolerance=1e-10):
    """NaN on both sides, or equal up to rounding."""
    assert got == pytest.approx(np.nan if want is None else float(want), abs=tolerance, nan_ok=True)


@given(labelled())
def test_plain_loops_nominal(data):
    codes, L = data
    items, w, counts = items_of(codes), slow_raters.identity(L), count_vectors(codes, L)
    agree(percent_agreement(counts), slow_raters.percent_agreement(items, w))
    agree(fleiss_kappa(counts), slow_raters.fleiss_kappa(items, w))
    agree(fleiss_kappa(counts, shares="item_mean"), slow_raters.fleiss_kappa(items, w, "item_mean"))
    agree(evaluate_raters("gwet_ac", counts).value, slow_raters.gwet_ac(items, w))
    agree(evaluate_raters("brennan_prediger", counts).value, slow_raters.brennan_prediger(items, w))
    agree(conger_kappa(codes, L), slow_raters.conger_kappa(items, w))
    agree(alpha(counts), slow_raters.alpha(items, [[int(a != b) for b in range(L)] for a in range(L)]))
    agree(alpha(counts, "ordinal"), slow_raters.alpha(items, "ordinal"))
    agree(
        alpha(counts, "interval"),
        slow_raters.alpha(items, [[(a - b) ** 2 for b in range(L)] for a in range(L)]),
    )
    agree(
        alpha(counts, "ratio"),
        slow_raters.alpha(items, [[Fraction(a - b, a + b + 2) ** 2 for b in range(L)] for a in range(L)]),
    )


@given(labelled(), st.sampled_from(WEIGHT_NAMES))
def test_plain_loops_weighted(data, name):
    codes, L = data
    items, counts = items_of(codes), count_vectors(codes, L)
    w = [[Fraction(float(x)) for x in row] for row in weight_matrix(name, L)]
    d = [[1 - x for x in row] for row in w]
    agree(percent_agreement(counts, name), slow_raters.percent_agreement(items, w))
    agree(fleiss_kappa(counts, name), slow_raters.fleiss_kappa(items, w))
    agree(fleiss_kappa(counts, name, shares="item_mean"), slow_raters.fleiss_kappa(items, w, "item_mean"))
    agree(evaluate_raters("gwet_ac", counts, weights=name).value, slow_raters.gwet_ac(items, w))
    agree(
        evaluate_raters("brennan_prediger", counts, weights=name).value,
        slow_raters.brennan_prediger(items, w),
    )
    agree(conger_kappa(codes, L, name), slow_raters.conger_kappa(items, w))
    agree(alpha(counts, weights=name), slow_raters.alpha(items, d))


@given(labelled())
def test_a_value_or_a_reason(data):
    codes, L = data
    counts = count_vectors(codes, L)
    for name in OF_COUNTS:
        value, reason = evaluate_raters(name, counts)
        assert np.isnan(value) == (reason != Reason.OK)
        assert np.isnan(value) or value <= 1 + 1e-12


@given(labelled(), st.randoms(use_true_random=False))
def test_order_of_items_and_raters(data, random):
    codes, L = data
    rows, columns = list(range(codes.shape[0])), list(range(codes.shape[1]))
    random.shuffle(rows)
    random.shuffle(columns)
    shuffled = codes[rows][:, columns]
    for name, choices in [*NOMINAL, ("alpha", {"metric": "ordinal"}), ("alpha", {"metric": "ratio"})]:
        want = evaluate_raters(name, count_vectors(codes, L), **choices).value
        agree(evaluate_raters(name, count_vectors(shuffled, L), **choices).value, want)
    agree(conger_kappa(shuffled, L), conger_kappa(codes, L))
    got, want = count_vector_histogram(shuffled, L), count_vector_histogram(codes, L)
    np.testing.assert_array_equal(got.patterns, want.patterns)
    np.testing.assert_array_equal(got.multiplicities, want.multiplicities)


@given(labelled(), st.randoms(use_true_random=False))
def test_names_of_nominal_categories(data, random):
    codes, L = data
    new = list(range(L))
    random.shuffle(new)
    renamed = np.where(codes < 0, codes, np.array(new)[codes])
    for name, choices in NOMINAL:
        want = evaluate_raters(name, count_vectors(codes, L), **choices).value
        agree(evaluate_raters(name, count_vectors(renamed, L), **choices).value, want)
    agree(conger_kappa(renamed, L), conger_kappa(codes, L))


@given(labelled())
def test_an_ordered_scale_turned_round(data):
    codes, L = data
    turned = np.where(codes < 0, codes, L - 1 - codes)
    for metric in ("ordinal", "interval", "circular"):
        agree(alpha(count_vectors(turned, L), metric), alpha(count_vectors(codes, L), metric))
    for weights in ("linear", "quadratic", "ordinal", "radical", "circular", "bipolar"):
        agree(fleiss_kappa(count_vectors(turned, L), weights), fleiss_kappa(count_vectors(codes, L), weights))


@given(labelled())
def test_weights_of_one_are_no_weights(data):
    codes, L = data
    counts = count_vectors(codes, L)
    one = np.ones(len(codes), dtype=int)
    for name, choices in [*NOMINAL, ("alpha", {"metric": "ordinal"})]:
        want = evaluate_raters(name, counts, **choices)
        got = evaluate_raters(name, counts, item_weights=one, **choices)
        assert got.reason == want.reason
        agree(got.value, want.value, 1e-12)
        agree_all = influence(name, counts, item_weights=one, **choices), influence(name, counts, **choices)
        np.testing.assert_allclose(*agree_all, atol=1e-10)


@given(labelled(), st.data())
def test_weights_are_multiplicities_and_their_unit_matters_to_alpha_only(data, draw):
    codes, L = data
    weights = draw.draw(arrays(np.int64, len(codes), elements=st.integers(0, 3)))
    counts = count_vectors(codes, L)
    for name, choices in [*NOMINAL, ("alpha", {"metric": "interval"})]:
        want = evaluate_raters(name, np.repeat(counts, weights, axis=0), **choices).value
        agree(evaluate_raters(name, counts, item_weights=weights, **choices).value, want)
        if name != "alpha":
            agree(evaluate_raters(name, counts, item_weights=0.1 * weights, **choices).value, want)


@given(labelled())
def test_the_histogram_is_the_data(data):
    codes, L = data
    counts = count_vectors(codes, L)
    patterns, multiplicities = count_vector_histogram(codes, L)
    for name, choices in [*NOMINAL, ("alpha", {"metric": "ordinal"})]:
        want = evaluate_raters(name, counts, **choices)
        got = evaluate_raters(name, patterns, item_weights=multiplicities, **choices)
        assert got.reason == want.reason
        agree(got.value, want.value)
    for got, want in zip(sizes(patterns, multiplicities), sizes(counts), strict=True):
        assert got == want


@given(labelled(), st.integers(0, 8))
def test_histograms_of_parts_merge(data, cut):
    codes, L = data
    whole = count_vector_histogram(codes, L)
    merged = merge_histograms(
        [count_vector_histogram(part, L) for part in (codes[:cut], codes[cut:])], n_categories=L
    )
    np.testing.assert_array_equal(merged.patterns, whole.patterns)
    np.testing.assert_array_equal(merged.multiplicities, whole.multiplicities)


@given(labelled())
def test_items_without_pairs_do_not_touch_what_pools_labels(data):
    codes, L = data
    more = np.vstack([codes, np.full((2, codes.shape[1]), -1)])
    more[-1, 0] = 0
    for name in ("alpha", "fleiss_kappa", "brennan_prediger", "percent_agreement"):
        want = evaluate_raters(name, count_vectors(codes, L)).value
        agree(evaluate_raters(name, count_vectors(more, L)).value, want, 1e-12)


@given(labelled())
def test_a_category_nobody_uses(data):
    codes, L = data
    few, more = count_vectors(codes, L), count_vectors(codes, L + 1)
    for name in ("alpha", "fleiss_kappa", "percent_agreement"):
        agree(evaluate_raters(name, more).value, evaluate_raters(name, few).value)
    agree(alpha(more, "ordinal"), alpha(few, "ordinal"))
    agree(alpha(more, "interval"), alpha(few, "interval"))
    agree(conger_kappa(codes, L + 1), conger_kappa(codes, L))


@given(labelled(least=0, max_raters=6))
def test_alpha_is_fleiss_with_a_small_sample_term(data):
    codes, L = data
    assume(codes.shape[1] >= 2)
    counts = count_vectors(codes, L)
    kappa = fleiss_kappa(counts)
    agree(alpha(counts), kappa + (1 - kappa) / codes.size)
    agree(fleiss_kappa(counts, shares="item_mean"), kappa)


@given(labelled(least=0))
def test_two_raters_of_one_mind(data):
    codes, L = data
    counts = count_vectors(np.column_stack([codes[:, 0], codes[:, 0]]), L)
    for name in OF_COUNTS:
        value, reason = evaluate_raters(name, counts)
        assert reason in (Reason.OK, Reason.ONE_CATEGORY)
        agree(value, 1 if reason == Reason.OK else None)


@given(labelled())
def test_influences_of_what_does_not_depend_on_n_sum_to_zero(data):
    codes, L = data
    for name, choices in NOMINAL[1:]:
        psi = influence(name, count_vectors(codes, L), **choices)
        assert np.isnan(psi).all() or psi.sum() == pytest.approx(0, abs=1e-9)


@st.composite
def scored(draw):
    shape = draw(st.integers(1, 8)), draw(st.integers(1, 4))
    return draw(arrays(np.float64, shape, elements=st.sampled_from([np.nan, 0.0, 0.25, 1.0, 3.0, 7.5])))


@given(scored(), st.sampled_from([0.5, 4.0, -2.0]), st.integers(-8, 8))
def test_interval_alpha_does_not_depend_on_unit_and_origin(scores, unit, origin):
    agree(alpha_of_scores(unit * scores + origin), alpha_of_scores(scores))


@given(scored(), st.sampled_from([0.5, 4.0]))
def test_ratio_alpha_does_not_depend_on_the_unit(scores, unit):
    agree(alpha_of_scores(unit * scores, "ratio"), alpha_of_scores(scores, "ratio"))


@given(scored())
def test_ordinal_alpha_sees_the_order_only(scores):
    agree(alpha_of_scores(np.exp(scores), "ordinal"), alpha_of_scores(scores, "ordinal"))
    agree(alpha_of_scores(-scores, "ordinal"), alpha_of_scores(scores, "ordinal"))


@given(scored(), st.sampled_from(["nominal", "ordinal", "interval", "ratio"]))
def test_scores_are_categories(scores, metric):
    values = np.array([0.0, 0.25, 1.0, 3.0, 7.5])
    codes = np.where(np.isnan(scores), -1, np.searchsorted(values, np.nan_to_num(scores)))
    counts = count_vectors(codes, 5)
    got, reason = evaluate_alpha_of_scores(scores, metric)
    agree(got, alpha(counts, metric, scores=values))
    assert np.isnan(got) == (reason != Reason.OK)

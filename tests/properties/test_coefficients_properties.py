"""Coefficients of two raters: slow oracles, scikit-learn, and what must not change them."""

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
import slow_coefficients as slow
from hypothesis import assume, given, note
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn import metrics

import xjudge.statistics as xs
from xjudge.errors import Reason
from xjudge.statistics.coefficients import COEFFICIENTS, evaluate

TWO = list(slow.TWO_BY_TWO)
ANY = list(slow.ANY_SIZE)
WEIGHTED = list(slow.WEIGHTED)
IN_01 = ("accuracy", "f1", "precision", "recall", "specificity", "balanced_accuracy", "marginal_mismatch")

# small counts meet zeros and ties, large ones cancellation
counts = st.one_of(st.integers(0, 3), st.integers(0, 60), st.integers(0, 10**12))
probabilities = st.one_of(
    st.just(0.0), st.floats(0, 1, allow_subnormal=False), st.sampled_from([0.1, 0.2, 0.3, 0.7, 1e-17, 1e-9])
)


def tables(L, elements=counts, dtype=np.int64):
    return hnp.arrays(dtype, (L, L), elements=elements)


two_by_two = tables(2)
square = st.integers(1, 5).flatmap(tables)
shares_two = tables(2, probabilities, np.float64)
shares_square = st.integers(1, 5).flatmap(lambda L: tables(L, probabilities, np.float64))
small_square = st.integers(2, 5).flatmap(lambda L: tables(L, st.integers(0, 12)))


def quietly(name, table, **options):
    """Value and reason; a warning of numpy is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = evaluate(name, table, **options)
    assert (np.isnan(found.value) == (found.reason != 0)).all()
    return found


def value(name, table, **options):
    return quietly(name, table, **options).value.item()


def same(one, other, rel=1e-12, near=1e-13):
    """Equal up to rounding, or both undefined."""
    assert math.isnan(one) == math.isnan(other), (one, other)
    if not math.isnan(one):
        assert one == pytest.approx(other, rel=rel, abs=near)


# -------------------------------------------------------------------------------------------- the slow oracle


@given(two_by_two)
def test_two_categories_against_fractions(table):
    for name in TWO:
        note(name)
        same(value(name, table), slow.as_float(slow.TWO_BY_TWO[name](table.tolist())), rel=1e-13, near=1e-15)


@given(square)
def test_any_number_of_categories_against_fractions(table):
    for name in ANY:
        note(name)
        # a difference of large sums: the numerator of mcc is right to the last digits of N^2
        same(value(name, table), slow.as_float(slow.ANY_SIZE[name](table.tolist())), rel=1e-12, near=1e-14)


@given(shares_two)
def test_shares_of_two_categories_against_fractions(table):
    for name in TWO:
        note(name)
        exact = [[Fraction(share) for share in row] for row in table.tolist()]
        same(value(name, table), slow.as_float(slow.TWO_BY_TWO[name](exact)), rel=1e-12, near=1e-14)


@given(shares_square)
def test_shares_of_any_number_of_categories_against_fractions(table):
    for name in ANY:
        note(name)
        exact = [[Fraction(share) for share in row] for row in table.tolist()]
        same(value(name, table), slow.as_float(slow.ANY_SIZE[name](exact)), rel=1e-12, near=1e-14)


@given(st.integers(2, 5).flatmap(tables), st.sampled_from(["linear", "quadratic", "ordinal"]))
def test_named_weights_against_fractions(table, weights):
    for name in WEIGHTED:
        note(name)
        w = getattr(slow, weights)(len(table))
        exact = slow.as_float(slow.WEIGHTED[name](table.tolist(), w))
        same(value(name, table, weights=weights), exact, rel=1e-12, near=1e-14)


@st.composite
def weighted_tables(draw):
    """A table and an own weight matrix in sixty-fourths, under which something disagrees."""
    L = draw(st.integers(2, 4))
    upper = draw(st.lists(st.integers(0, 64), min_size=L * (L - 1) // 2, max_size=L * (L - 1) // 2))
    assume(min(upper) < 64)
    weights = np.eye(L)
    weights[np.triu_indices(L, 1)] = np.array(upper) / 64
    return draw(tables(L)), np.triu(weights) + np.triu(weights, 1).T


@given(weighted_tables())
def test_own_weights_against_fractions(case):
    for name in WEIGHTED:
        note(name)
        table, weights = case
        exact = slow.as_float(slow.WEIGHTED[name](table.tolist(), slow.own(weights.tolist())))
        same(value(name, table, weights=weights), exact, rel=1e-12, near=1e-14)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=25))
def test_from_labels_to_coefficients_item_by_item(pairs):
    """Straight from two lists of labels, without a table."""
    table = np.zeros((3, 3), dtype=np.int64)
    for reference, rater in pairs:
        table[reference, rater] += 1
    n = len(pairs)
    if n == 0:
        assert Reason(int(quietly("kappa", table).reason)) is Reason.NO_JOINT_ANSWERS
        return
    agree = Fraction(sum(a == b for a, b in pairs), n)
    by_chance = Fraction(sum(a == b for a, _ in pairs for _, b in pairs), n * n)
    same(value("accuracy", table), float(agree))
    exact = math.nan if by_chance == 1 else float((agree - by_chance) / (1 - by_chance))
    same(value("kappa", table), exact)
    apart = Fraction(sum(abs(a - b) for a, b in pairs), n)
    apart_by_chance = Fraction(sum(abs(a - b) for a, _ in pairs for _, b in pairs), n * n)
    exact = math.nan if apart_by_chance == 0 else float(1 - apart / apart_by_chance)
    same(value("kappa", table, weights="linear"), exact)
    labels = [label for pair in pairs for label in pair]
    by_pool = Fraction(sum(a == b for a in labels for b in labels), len(labels) ** 2)
    exact = math.nan if by_pool == 1 else float((agree - by_pool) / (1 - by_pool))
    same(value("scott_pi", table), exact)


# ----------------------------------------------------------------------------------------------- scikit-learn


def labels_of(table):
    """Reference labels, rater labels and how often, as scikit-learn takes them."""
    L = len(table)
    reference, rater = np.divmod(np.arange(L * L), L)
    return reference, rater, table.ravel()


def by_sklearn(function, table, **options):
    reference, rater, weight = labels_of(table)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its warnings about undefined values
        return float(function(reference, rater, sample_weight=weight, **options))


@given(small_square, st.sampled_from([None, "linear", "quadratic"]))
def test_kappa_is_that_of_scikit_learn(table, weights):
    ours = value("kappa", table, weights=weights)
    assume(not math.isnan(ours))
    theirs = by_sklearn(metrics.cohen_kappa_score, table, weights=weights, labels=list(range(len(table))))
    assert ours == pytest.approx(theirs, abs=1e-12)


@given(small_square)
def test_mcc_is_that_of_scikit_learn(table):
    ours = value("mcc", table)
    assume(not math.isnan(ours))  # where ours is undefined theirs is 0
    assert ours == pytest.approx(by_sklearn(metrics.matthews_corrcoef, table), abs=1e-12)


@given(small_square)
def test_accuracy_is_that_of_scikit_learn(table):
    assume(table.sum() > 0)
    assert value("accuracy", table) == pytest.approx(by_sklearn(metrics.accuracy_score, table), abs=1e-12)


@given(tables(2, st.integers(0, 12)))
@pytest.mark.parametrize(
    ("name", "theirs", "options"),
    [
        ("f1", metrics.f1_score, {}),
        ("precision", metrics.precision_score, {}),
        ("recall", metrics.recall_score, {}),
        ("specificity", metrics.recall_score, {"pos_label": 0}),
    ],
)
def test_scores_of_the_positive_class_are_those_of_scikit_learn(name, theirs, options, table):
    assume(table.sum() > 0)
    ours = value(name, table)
    found = by_sklearn(theirs, table, zero_division=np.nan, **options)
    same(ours, found)


@given(small_square)
def test_balanced_accuracy_is_that_of_scikit_learn(table):
    ours = value("balanced_accuracy", table)
    assume(not math.isnan(ours))
    # scikit-learn is given the items that are there: a class of weight 0 would count as present
    reference, rater, weight = labels_of(table)
    there = weight > 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a single class is nothing to warn about
        theirs = metrics.balanced_accuracy_score(reference[there], rater[there], sample_weight=weight[there])
    assert ours == pytest.approx(theirs, abs=1e-12)


@given(tables(2, st.integers(0, 12)))
def test_phi_is_the_pearson_correlation_of_the_labels(table):
    ours = value("phi", table)
    assume(not math.isnan(ours))
    reference, rater, weight = labels_of(table)
    theirs = np.corrcoef(np.repeat(reference, weight), np.repeat(rater, weight))[0, 1]
    assert ours == pytest.approx(theirs, abs=1e-12)


# ----------------------------------------------------------------------------------------------- many at once


def stack_of(L, elements, dtype):
    shapes = hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4)
    return shapes.flatmap(lambda shape: hnp.arrays(dtype, (*shape, L, L), elements=elements))


@given(st.integers(1, 4).flatmap(lambda L: stack_of(L, counts.filter(lambda n: n < 10**6), np.int64)))
def test_a_stack_of_tables_is_a_loop_over_tables(stack):
    for name in ANY:
        note(name)
        stack.flags.writeable = False
        found = quietly(name, stack)
        for place in np.ndindex(stack.shape[:-2]):
            alone = quietly(name, stack[place])
            np.testing.assert_array_equal(found.value[place], alone.value)  # bit for bit: counts are exact
            assert found.reason[place] == alone.reason


@given(stack_of(2, counts.filter(lambda n: n < 10**6), np.int64))
def test_a_stack_of_binary_tables_is_a_loop_over_tables(stack):
    for name in [name for name in TWO if name not in ANY]:
        note(name)
        found = quietly(name, stack)
        for place in np.ndindex(stack.shape[:-2]):
            alone = quietly(name, stack[place])
            np.testing.assert_array_equal(found.value[place], alone.value)
            assert found.reason[place] == alone.reason


@given(stack_of(3, probabilities, np.float64), st.sampled_from([None, "linear", "quadratic", "radical"]))
def test_a_stack_of_weighted_shares_is_a_loop_over_tables(stack, weights):
    for name in WEIGHTED:
        note(name)
        found = quietly(name, stack, weights=weights)
        for place in np.ndindex(stack.shape[:-2]):
            alone = quietly(name, stack[place], weights=weights)
            same(found.value[place].item(), alone.value.item())
            assert found.reason[place] == alone.reason


@given(square)
def test_neighbours_in_a_stack_do_not_matter(table):
    for name in ANY:
        note(name)
        zeros, ones = np.zeros_like(table), np.ones_like(table)
        with_neighbours = quietly(name, np.stack([zeros, table, ones * 10**12]))
        np.testing.assert_array_equal(with_neighbours.value[1], quietly(name, table).value)


# ----------------------------------------------------------------------------------------------------- ranges


@given(st.one_of(two_by_two, shares_two))
def test_two_by_two_ranges(table):
    for name in TWO:
        note(name)
        found = value(name, table)
        if not math.isnan(found):
            low = 0 if name in IN_01 else -1
            if name in ("kappa", "scott_pi", "gwet_ac1", "brennan_prediger"):
                low = -math.inf  # Cohen's least value depends on the margins
            assert low <= found <= 1


@given(st.one_of(square, shares_square))
def test_ranges(table):
    for name in ANY:
        note(name)
        found = value(name, table)
        if not math.isnan(found):
            assert found <= 1
            if name in ("accuracy", "balanced_accuracy"):
                assert found >= 0
            if name in ("mcc", "kappa"):
                assert found >= -1  # unweighted kappa too: p_o >= 0 and p_e <= 1/2 where p_o = 0


@given(square)
def test_no_coefficient_but_those_of_fixed_chance_is_defined_where_all_is_constant(table):
    kept = np.zeros_like(table)
    kept[-1, -1] = table[-1, -1]
    for name in ("kappa", "scott_pi", "mcc"):
        assert math.isnan(value(name, kept))
    expected = math.nan if kept.sum() == 0 else 1.0
    same(value("accuracy", kept), expected)


# ------------------------------------------------------------------------------------------------ invariances


@given(square, st.data())
def test_relabelling(table, data):
    order = data.draw(st.permutations(range(len(table))))
    for name in ANY:
        note(name)
        one, other = quietly(name, table), quietly(name, table[np.ix_(order, order)])
        same(other.value.item(), one.value.item())
        if name != "balanced_accuracy" or len(table) > 2:  # of two, the positive one is named in the reason
            assert other.reason == one.reason


@given(square)
def test_the_two_raters_may_change_places(table):
    for name in ["accuracy", "kappa", "mcc", "scott_pi", "gwet_ac1", "brennan_prediger"]:
        note(name)
        same(value(name, table.T), value(name, table))


@given(st.integers(2, 5).flatmap(tables), st.sampled_from(["linear", "quadratic", "ordinal", "circular"]))
def test_the_two_raters_may_change_places_under_weights(table, weights):
    for name in WEIGHTED:
        note(name)
        same(value(name, table.T, weights=weights), value(name, table, weights=weights))


@given(two_by_two)
def test_precision_of_one_is_recall_of_the_other(table):
    same(value("precision", table), value("recall", table.T))
    for name in ("f1", "phi", "marginal_mismatch"):
        same(value(name, table), value(name, table.T))


@given(two_by_two)
def test_the_negative_class_seen_as_the_positive_one(table):
    other = table[::-1, ::-1]
    same(value("recall", table), value("specificity", other))
    same(value("balanced_accuracy", table), value("balanced_accuracy", other))
    same(value("class_recall_gap", table), -value("class_recall_gap", other))
    for name in ("accuracy", "kappa", "phi", "marginal_mismatch"):
        same(value(name, table), value(name, other))


@given(two_by_two)
def test_answering_the_opposite(table):
    same(value("phi", table[:, ::-1]), -value("phi", table))
    same(value("accuracy", table[:, ::-1]), 1 - value("accuracy", table))
    same(value("class_recall_gap", table[:, ::-1]), value("class_recall_gap", np.fliplr(table)))
    same(value("balanced_accuracy", table[:, ::-1]), 1 - value("balanced_accuracy", table))


@given(square, st.integers(1, 10**6))
def test_scaling_the_table(table, factor):
    for name in ANY:
        note(name)
        # in floats: the product with a count may leave int64
        same(value(name, table.astype(np.float64) * factor), value(name, table))
        assert quietly(name, table.astype(np.float64) * factor).reason == quietly(name, table).reason


@given(two_by_two, st.integers(-900, 900))
def test_scaling_by_a_power_of_two_changes_no_digit(table, exponent):
    for name in TWO:
        note(name)
        one = value(name, table.astype(np.float64))
        other = value(name, np.ldexp(table.astype(np.float64), exponent))
        assert one == other or (math.isnan(one) and math.isnan(other))


@given(square)
def test_integers_and_floats_are_the_same_counts(table):
    for name in ANY:
        note(name)
        same(value(name, table.astype(np.float64)), value(name, table), rel=1e-13, near=1e-15)


@given(st.integers(2, 4).flatmap(tables))
def test_a_category_that_nobody_uses(table):
    for name in ["accuracy", "kappa", "mcc", "scott_pi", "balanced_accuracy"]:
        note(name)
        L = len(table)
        padded = np.zeros((L + 1, L + 1), dtype=table.dtype)
        padded[:L, :L] = table
        if name == "balanced_accuracy" and L == 2 and math.isnan(value(name, table)):
            continue  # with two, an unused class leaves recall undefined
        same(value(name, padded), value(name, table))


@given(st.integers(2, 4).flatmap(tables))
def test_chance_by_the_number_of_categories_counts_the_unused_one(table):
    assume(0 < np.trace(table) < table.sum())
    L = len(table)
    padded = np.zeros((L + 1, L + 1), dtype=table.dtype)
    padded[:L, :L] = table
    assert value("brennan_prediger", padded) > value("brennan_prediger", table)


# ------------------------------------------------------------------------------------------------- identities


@given(st.one_of(two_by_two, shares_two))
def test_kappa_is_q_times_phi(table):
    kappa, q, phi = (value(name, table) for name in ("kappa", "marginal_mismatch", "phi"))
    if math.isnan(phi):
        # one rater constant: kappa is 0, as is q; both constant in one category: neither has a value
        assert (kappa, q) == (0, 0) or (math.isnan(kappa) and math.isnan(q))
    else:
        assert kappa == pytest.approx(q * phi, rel=1e-12, abs=1e-13)


@given(st.one_of(two_by_two, shares_two))
def test_phi_is_mcc_of_two(table):
    one, other = quietly("phi", table), quietly("mcc", table)
    np.testing.assert_array_equal(one.value, other.value)
    assert one.reason == other.reason


@given(two_by_two)
def test_kappa_and_phi_have_the_sign_of_the_determinant(table):
    (tn, fp), (fn, tp) = table.tolist()
    determinant = tp * tn - fp * fn
    phi = value("phi", table)
    assume(not math.isnan(phi) and abs(determinant) * 10**12 > int(table.sum()) ** 2)
    assert (phi > 0) == (value("kappa", table) > 0) == (determinant > 0)


@given(two_by_two)
def test_balanced_accuracy_and_gap_are_made_of_the_two_recalls(table):
    found, left = value("recall", table), value("specificity", table)
    same(value("balanced_accuracy", table), (found + left) / 2)
    same(value("class_recall_gap", table), found - left)


@given(two_by_two)
def test_f1_is_the_harmonic_mean(table):
    p, r = value("precision", table), value("recall", table)
    assume(not math.isnan(p + r) and p + r > 0)
    same(value("f1", table), 2 * p * r / (p + r))


@given(two_by_two)
def test_brennan_prediger_of_two_is_twice_accuracy_less_one(table):
    same(value("brennan_prediger", table), 2 * value("accuracy", table) - 1)


@given(tables(2, st.integers(0, 60)).filter(lambda table: (table.sum(0) == table.sum(1)).all()))
def test_where_the_margins_agree_kappa_scott_and_phi_do(table):
    same(value("scott_pi", table), value("kappa", table))
    same(value("phi", table), value("kappa", table))
    if not math.isnan(value("phi", table)):
        assert value("marginal_mismatch", table) == 1


@given(square)
def test_scott_pi_is_at_most_kappa(table):
    kappa, pi = value("kappa", table), value("scott_pi", table)
    assume(not math.isnan(kappa))
    assert pi <= kappa + 1e-12


@given(tables(3))
def test_recoding_ca_to_negative_leaves_f1(table):
    """Categories 0, 1, C: merging C into 0 on both sides against one-versus-rest of category 1."""
    merge = np.array([[1, 0], [0, 1], [1, 0]])
    hits, missed, found = table[1, 1], table[1].sum() - table[1, 1], table[:, 1].sum() - table[1, 1]
    denominator = 2 * int(hits) + int(missed) + int(found)
    exact = float(Fraction(2 * int(hits), denominator)) if denominator else math.nan
    same(value("f1", merge.T @ table @ merge), exact)


# ----------------------------------------------------------------------------------------- weights and costs


@given(square)
def test_identity_weights_are_no_weights(table):
    for name in WEIGHTED:
        note(name)
        L = len(table)
        plain = quietly(name, table)
        forms = [{"weights": "identity"}, {"weights": np.eye(L)}]
        forms += [{"costs": "nominal"}, {"costs": 3.0 * (1 - np.eye(L))}] if L > 1 else []
        for options in forms:
            found = quietly(name, table, **options)
            np.testing.assert_array_equal(found.value, plain.value)
            assert found.reason == plain.reason


@given(weighted_tables(), st.floats(0.01, 1000))
def test_costs_are_weights_of_one_less_their_share_of_the_largest(case, unit):
    for name in WEIGHTED:
        note(name)
        table, weights = case
        costs = (1 - weights) * unit
        by_costs = quietly(name, table, costs=costs)
        by_weights = quietly(name, table, weights=1 - costs / costs.max())
        same(by_costs.value.item(), by_weights.value.item())
        assert by_costs.reason == by_weights.reason


@given(weighted_tables())
def test_the_unit_of_the_costs_does_not_matter(case):
    for name in ["kappa", "scott_pi", "brennan_prediger"]:
        note(name)
        # one less weights that do not reach 0 are costs in another unit; Gwet's chance term depends on T_w
        table, weights = case
        costs = 1 - weights
        same(value(name, table, costs=costs), value(name, table, weights=weights))


@given(st.integers(2, 5).flatmap(tables))
@pytest.mark.parametrize("form", ["linear", "quadratic"])
def test_named_costs_are_the_weights_of_that_name(form, table):
    for name in WEIGHTED:
        note(name)
        same(value(name, table, costs=form), value(name, table, weights=form))


@given(tables(2), st.sampled_from(["linear", "quadratic", "ordinal", "radical", "ratio"]))
def test_with_two_categories_every_named_weight_is_identity(table, weights):
    for name in WEIGHTED:
        note(name)
        same(value(name, table, weights=weights), value(name, table))


@given(st.integers(2, 5).flatmap(tables))
def test_an_order_may_be_turned_round(table):
    for name in WEIGHTED:
        note(name)
        for weights in ("linear", "quadratic", "ordinal", "radical"):
            turned = table[::-1, ::-1]
            same(value(name, turned, weights=weights), value(name, table, weights=weights))


@given(small_square)
def test_quadratic_kappa_of_positions_against_its_moments(table):
    """Quadratic kappa is 2 cov / (var + var + (difference of means)^2)."""
    reference, rater, weight = labels_of(table)
    n = int(weight.sum())
    assume(n > 0)
    x, y = np.repeat(reference, weight), np.repeat(rater, weight)
    expected = np.mean((x - x.mean()) ** 2) + np.mean((y - y.mean()) ** 2) + (x.mean() - y.mean()) ** 2
    found = value("kappa", table, weights="quadratic")
    assert math.isnan(found) == (len(set(x.tolist() + y.tolist())) < 2)
    if not math.isnan(found):
        covariance = np.mean((x - x.mean()) * (y - y.mean()))
        assert found == pytest.approx(2 * covariance / expected, abs=1e-12)


# ------------------------------------------------------------------------------------------------- undefined


@given(square)
def test_reasons_fit_the_table(table):
    for name in ANY:
        note(name)
        reason = Reason(int(quietly(name, table).reason))
        row, column = table.sum(1) > 0, table.sum(0) > 0
        L = len(table)
        if table.sum() == 0:
            assert reason is Reason.NO_JOINT_ANSWERS
        elif name in ("kappa", "scott_pi"):
            assert (reason is Reason.ONE_CATEGORY) == ((row | column).sum() == 1)
            assert reason in (Reason.OK, Reason.ONE_CATEGORY)
        elif name == "mcc":
            constant = {
                (True, True): Reason.CONSTANT_BOTH,
                (True, False): Reason.CONSTANT_REFERENCE,
                (False, True): Reason.CONSTANT_RATER,
                (False, False): Reason.OK,
            }
            assert reason is constant[bool(row.sum() == 1), bool(column.sum() == 1)]
        elif name in ("gwet_ac1", "brennan_prediger"):
            assert (reason is Reason.ONE_CATEGORY) == (L == 1)
        elif name == "balanced_accuracy" and L != 2:
            assert (reason is Reason.CLASS_WITHOUT_REFERENCE) == bool((column & ~row).any())
        else:
            assert (reason is Reason.OK) == (name == "accuracy" or bool(row.all()))


def test_every_coefficient_is_tested_here():
    assert set(TWO) == set(COEFFICIENTS)
    assert all(hasattr(xs, name) for name in COEFFICIENTS)

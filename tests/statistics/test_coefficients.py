"""Coefficients of two raters: printed and exact values, undefined cases and why, inputs of every kind."""

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
import slow_coefficients as slow
from shared import needs_shared, oracle

import xjudge.statistics as xs
from xjudge.errors import ProtocolError, Reason, StructureError
from xjudge.statistics.coefficients import COEFFICIENTS, check_names, evaluate

TWO = list(slow.TWO_BY_TWO)
ANY = list(slow.ANY_SIZE)
WEIGHTED = list(slow.WEIGHTED)

WATAOKA = [[118, 160], [108, 1852]]
TABLE_5 = [[97, 420, 0], [181, 1003, 0], [64, 242, 0]]  # human 0, 1, C in rows, judge in columns
SHIFT = np.diag([1, 1, 1, 1], k=1).tolist()  # y = 1 2 3 4, yhat = 2 3 4 5 on a scale of five


def value(name, table, **options):
    return evaluate(name, table, **options).value.item()


def why(name, table, **options):
    """Reason where undefined; the value is NaN exactly there."""
    found = evaluate(name, table, **options)
    assert math.isnan(found.value) == (found.reason != 0)
    return Reason(int(found.reason))


def table_of(pairs, L):
    """Counts of (reference, rater) codes."""
    out = np.zeros((L, L), dtype=np.int64)
    for reference, rater in pairs:
        out[reference, rater] += 1
    return out


# --------------------------------------------------------------------------------- closed_form.json: wataoka


@pytest.mark.parametrize(
    ("name", "exact"),
    [
        ("accuracy", Fraction(985, 1119)),
        ("precision", Fraction(463, 503)),
        ("recall", Fraction(463, 490)),
        ("specificity", Fraction(59, 139)),
        ("f1", Fraction(926, 993)),
        ("kappa", Fraction(50314, 125287)),
        ("balanced_accuracy", Fraction(93267, 136220)),
    ],
)
def test_wataoka_exact(name, exact):
    assert value(name, WATAOKA) == float(exact)


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("phi", 0.40432462772752),
        ("mcc", 0.40432462772752),
        ("scott_pi", 0.40078166211097),
        ("gwet_ac1", 0.85034209147391),
        ("brennan_prediger", 0.76050044682752),  # pabak: the same for two categories
        ("marginal_mismatch", 0.99323642918591),  # q_factor
        ("class_recall_gap", 0.520437527529),  # recall_gap
        ("kappa", 0.401589949476),
        ("specificity", 0.42446043165468),
    ],
)
def test_wataoka_stored(name, stored):
    assert value(name, WATAOKA) == pytest.approx(stored, abs=1e-13)


def test_wataoka_phi_squared_is_exact():
    assert value("phi", WATAOKA) ** 2 == pytest.approx(float(Fraction(632874649, 3871304290)), abs=1e-15)


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("accuracy", 0.88),
        ("f1", 0.933),
        ("phi", 0.404),
        ("kappa", 0.402),
        ("specificity", 0.424),
        ("recall", 0.945),
    ],
)
def test_wataoka_printed(name, printed):
    assert round(value(name, WATAOKA), 3) == printed


def test_always_positive_baseline():
    table = [[0, 278], [0, 1960]]
    assert value("accuracy", table) == value("precision", table) == 1960 / 2238
    assert value("f1", table) == pytest.approx(0.93377798951882, abs=1e-13)
    assert [value(name, table) for name in ("recall", "specificity", "kappa", "balanced_accuracy")] == [
        1,
        0,
        0,
        0.5,
    ]
    assert why("phi", table) is why("mcc", table) is Reason.CONSTANT_RATER
    assert value("marginal_mismatch", table) == 0


# ----------------------------------------------------------------------- closed_form.json: the short examples


def test_ordinal_shift():
    assert value("kappa", SHIFT) == float(Fraction(-3, 13))
    assert value("kappa", SHIFT, weights="linear") == pytest.approx(1 / 3, abs=1e-15)
    assert value("kappa", SHIFT, weights="quadratic") == pytest.approx(5 / 7, abs=1e-15)
    assert value("accuracy", SHIFT) == 0


def test_three_valued_vectors_have_an_mcc_and_no_phi():
    # Pearson -1/29, Spearman -1/12 and tau-b -1/11 of these vectors differ: there is no one phi to report
    y, yhat = [0, 1, 2, 2, 0, 2], [0, 2, 1, 2, 2, 0]
    table = table_of(zip(y, yhat, strict=True), 3)
    with pytest.raises(ProtocolError, match="two categories"):
        evaluate("phi", table)
    assert value("mcc", table) == pytest.approx(-1 / 11, abs=1e-15)  # (6 2 - 14) / (36 - 14)
    assert value("kappa", table) == pytest.approx(-1 / 11, abs=1e-15)
    assert np.corrcoef(y, yhat)[0, 1] == pytest.approx(-0.03448275862069, abs=1e-13)


@pytest.mark.parametrize(
    ("cells", "kappa", "phi"),
    # p11, p10, p01, p00: shares, not counts
    [
        ((0.4, 0.1, 0.1, 0.4), Fraction(3, 5), 0.6),
        ((0.4, 0.1, 0.2, 0.3), Fraction(2, 5), 0.40824829046386),
        ((0.5, 0.2, 0.2, 0.1), Fraction(1, 21), 0.047619047619048),
        ((0.6, 0.1, 0.2, 0.1), Fraction(4, 19), 0.21821789023599),
        ((0.7, 0.2, 0.0, 0.1), Fraction(7, 17), 0.50917507721732),
    ],
)
def test_tables_of_shares(cells, kappa, phi):
    p11, p10, p01, p00 = cells
    table = [[p00, p01], [p10, p11]]
    assert value("kappa", table) == pytest.approx(float(kappa), abs=1e-15)
    assert value("phi", table) == pytest.approx(phi, abs=1e-13)


@pytest.mark.parametrize(
    ("counts", "merged"),
    [
        ([[7, 2, 1], [3, 9, 2], [1, 2, 1]], [[10, 4], [5, 9]]),
        ([[9, 0, 4], [2, 6, 3], [5, 1, 2]], [[20, 1], [5, 6]]),
    ],
)
def test_f1_of_recoded_tables(counts, merged):
    # one-versus-rest F1 of MET straight from the three classes: CA is just "not MET"
    counts = np.array(counts)
    hits, met_by_human, met_by_judge = counts[1, 1], counts[1].sum(), counts[:, 1].sum()
    assert value("f1", merged) == 2 * hits / (met_by_human + met_by_judge) == 2 / 3


@pytest.mark.parametrize(
    ("table", "kappa", "alpha"),
    # alpha_fleiss_identity, the panel of two raters: kappa_F = -1, alpha = -3/4, by pooled margins Scott's pi
    [([[0, 2], [2, 0]], Fraction(-1), Fraction(-3, 4))],
)
def test_scott_pi_is_fleiss_kappa_of_two(table, kappa, alpha):
    n = np.sum(table)
    pi = value("scott_pi", table)
    assert pi == float(kappa)
    assert pi + (1 - pi) / (2 * n) == float(alpha)


# ----------------------------------------------------------------------------------------- llm_rubric.json


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (
            [[97, 420], [181, 1003]],  # exclusion
            {
                "accuracy": 0.6466784244562,
                "precision": 0.70484891075193,
                "recall": 0.84712837837838,
                "specificity": 0.18762088974855,
                "f1": 0.76946682009973,
                "kappa": 0.039951429459554,
                "balanced_accuracy": 0.51737463406346,
                "phi": 0.043225690231388,
            },
        ),
        (
            [[161, 662], [181, 1003]],  # recoding
            {
                "accuracy": 0.57997010463378,
                "precision": 0.6024024024024,
                "recall": 0.84712837837838,
                "specificity": 0.19562575941677,
                "f1": 0.7041067041067,
                "kappa": 0.046936075073385,
                "balanced_accuracy": 0.52137706889757,
                "phi": 0.055928574402573,
            },
        ),
        (TABLE_5, {"accuracy": 0.548081714001, "kappa": 0.03166487133453}),
        # sharp bounds of kappa and f1, at the tables that attain them
        (
            [[97, 662], [245, 1003]],
            {"kappa": float(Fraction(-14422, 187839)), "f1": float(Fraction(2006, 2913))},
        ),
        (
            [[161, 420], [181, 1245]],
            {"kappa": float(Fraction(27650, 161673)), "f1": float(Fraction(2490, 3091))},
        ),
    ],
)
def test_table_5(table, expected):
    for name, stored in expected.items():
        assert value(name, table) == pytest.approx(stored, abs=1e-13), name


@pytest.mark.parametrize(
    ("costs", "kappa"),
    [("nominal", 0.03166487133453), ("linear", 0.03784705532285), ("quadratic", 0.041941323998947)],
)
def test_table_5_with_three_classes_needs_costs(costs, kappa):
    # scores UNMET 0, MET 1, CA 1/2
    matrix = xs.cost_matrix(costs, 3, scores=[0, 1, 0.5])
    assert value("kappa", TABLE_5, costs=matrix) == pytest.approx(kappa, abs=1e-13)


@needs_shared
def test_every_criterion_of_the_rubric_under_both_handlings():
    names = ["accuracy", "precision", "recall", "specificity", "f1", "kappa", "balanced_accuracy", "phi"]
    undefined = compared = 0
    for by_criterion in oracle("llm_rubric")["per_criterion"].values():
        for criterion in by_criterion.values():
            for expected in (criterion, criterion["recoded"]):
                counts = expected["table"]
                table = [[counts["tn"], counts["fp"]], [counts["fn"], counts["tp"]]]
                for name in names:
                    compared += 1
                    if expected[name] is None:
                        undefined += 1
                        assert why(name, table) is not Reason.OK
                    else:
                        assert value(name, table) == pytest.approx(expected[name], abs=1e-12)
    # 2 extractions x 3 thresholds x 9 criteria x 2 handlings x 8 statistics
    assert compared == 864
    assert undefined == 68


# ---------------------------------------------------------------------------------------------- cases.json


def test_s01_both_raters_give_one_label_throughout():
    table = [[0, 0], [0, 5]]
    assert value("accuracy", table) == value("brennan_prediger", table) == value("gwet_ac1", table) == 1
    assert why("kappa", table) is Reason.ONE_CATEGORY
    assert why("phi", table) is Reason.CONSTANT_BOTH


def test_s02_a_judge_that_passes_everything():
    table = [[0, 1], [0, 9]]
    assert value("accuracy", table) == 0.9
    assert value("kappa", table) == 0
    assert why("phi", table) is Reason.CONSTANT_RATER
    assert value("f1", table) == float(Fraction(18, 19))
    assert value("gwet_ac1", table) == float(Fraction(161, 181))


@pytest.mark.parametrize(
    ("weights", "kappa", "without_the_unused_category"),
    [
        (None, Fraction(1, 3), None),
        ("linear", Fraction(3, 7), 0.4),
        ("quadratic", Fraction(79, 159), 39 / 79),
    ],
)
def test_s03_nobody_used_the_middle_category(weights, kappa, without_the_unused_category):
    human, judge = [1, 2, 5, 5, 1, 2, 4, 5], [1, 5, 5, 2, 2, 2, 4, 4]
    table = table_of([(a - 1, b - 1) for a, b in zip(human, judge, strict=True)], 5)
    assert value("kappa", table, weights=weights) == pytest.approx(float(kappa), abs=1e-15)
    if without_the_unused_category is not None:
        used = np.delete(np.delete(table, 2, 0), 2, 1)
        wrong = value("kappa", used, weights=weights)
        assert wrong == pytest.approx(without_the_unused_category, abs=1e-12)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ([[3, 1], [1, 5]], {"accuracy": Fraction(4, 5), "kappa": Fraction(7, 12)}),
        (
            [[6, 2], [3, 5]],
            {"accuracy": Fraction(11, 16), "kappa": Fraction(3, 8), "f1": Fraction(2, 3)},
        ),
        ([[3, 1, 2], [1, 5, 2], [0, 1, 1]], {"accuracy": Fraction(9, 16), "kappa": Fraction(27, 83)}),
    ],
)
def test_s09_one_set_of_verdicts_under_three_rules(table, expected):
    for name, exact in expected.items():
        assert value(name, table) == float(exact), name


@pytest.mark.parametrize(
    ("weights", "kappa"), [("quadratic", Fraction(38, 45)), ("linear", Fraction(23, 37))]
)
def test_s12_zero_means_not_applicable(weights, kappa):
    human, judge = [4, 5, 2, 5, 1, 4, 2], [4, 4, 2, 5, 2, 5, 3]
    table = table_of([(a - 1, b - 1) for a, b in zip(human, judge, strict=True)], 5)
    assert value("kappa", table, weights=weights) == pytest.approx(float(kappa), abs=1e-15)


def test_s14_four_criteria_one_without_variation():
    clear, saved, polite, complete = [[2, 1], [1, 2]], [[0, 0], [0, 6]], [[0, 1], [0, 5]], [[2, 1], [0, 3]]
    tables = np.array([clear, saved, polite, complete])
    kappa, phi = evaluate("kappa", tables), evaluate("phi", tables)
    np.testing.assert_allclose(kappa.value, [1 / 3, np.nan, 0, 2 / 3], atol=1e-15)
    np.testing.assert_allclose(phi.value, [1 / 3, np.nan, np.nan, math.sqrt(1 / 2)], atol=1e-15)
    assert kappa.reason.tolist() == [0, Reason.ONE_CATEGORY, 0, 0]
    assert phi.reason.tolist() == [0, Reason.CONSTANT_BOTH, Reason.CONSTANT_RATER, 0]
    pooled = tables.sum(0)
    assert value("kappa", pooled) == float(Fraction(61, 109))
    assert value("phi", pooled) == pytest.approx(0.5737128161373645, abs=1e-15)
    assert value("accuracy", pooled) == 5 / 6


# ------------------------------------------------------------------------------------------- where undefined

EMPTY, ONE, BOTH = Reason.NO_JOINT_ANSWERS, Reason.ONE_CATEGORY, Reason.CONSTANT_BOTH
REF, RATER = Reason.CONSTANT_REFERENCE, Reason.CONSTANT_RATER
NO_POS_REF, NO_NEG_REF = Reason.NO_POSITIVE_REFERENCE, Reason.NO_NEGATIVE_REFERENCE
NO_POS_RATER, NO_POS = Reason.NO_POSITIVE_RATER, Reason.NO_POSITIVE_EITHER


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ([[0, 0], [0, 0]], dict.fromkeys(TWO, EMPTY)),
        (
            [[7, 0], [0, 0]],  # both always negative
            {
                "kappa": ONE,
                "scott_pi": ONE,
                "marginal_mismatch": ONE,
                "phi": BOTH,
                "mcc": BOTH,
                "f1": NO_POS,
                "precision": NO_POS_RATER,
                "recall": NO_POS_REF,
                "balanced_accuracy": NO_POS_REF,
                "class_recall_gap": NO_POS_REF,
            },
        ),
        (
            [[0, 0], [0, 7]],  # both always positive
            {
                "kappa": ONE,
                "scott_pi": ONE,
                "marginal_mismatch": ONE,
                "phi": BOTH,
                "mcc": BOTH,
                "specificity": NO_NEG_REF,
                "balanced_accuracy": NO_NEG_REF,
                "class_recall_gap": NO_NEG_REF,
            },
        ),
        (
            [[0, 7], [0, 0]],  # always opposite: chance agreement is 0, kappa 0
            {
                "phi": BOTH,
                "mcc": BOTH,
                "recall": NO_POS_REF,
                "balanced_accuracy": NO_POS_REF,
                "class_recall_gap": NO_POS_REF,
            },
        ),
        (
            [[0, 0], [7, 0]],
            {
                "phi": BOTH,
                "mcc": BOTH,
                "precision": NO_POS_RATER,
                "specificity": NO_NEG_REF,
                "balanced_accuracy": NO_NEG_REF,
                "class_recall_gap": NO_NEG_REF,
            },
        ),
        (
            [[3, 4], [0, 0]],  # the reference is always negative
            {
                "phi": REF,
                "mcc": REF,
                "recall": NO_POS_REF,
                "balanced_accuracy": NO_POS_REF,
                "class_recall_gap": NO_POS_REF,
            },
        ),
        (
            [[0, 0], [3, 4]],
            {
                "phi": REF,
                "mcc": REF,
                "specificity": NO_NEG_REF,
                "balanced_accuracy": NO_NEG_REF,
                "class_recall_gap": NO_NEG_REF,
            },
        ),
        ([[3, 0], [4, 0]], {"phi": RATER, "mcc": RATER, "precision": NO_POS_RATER}),  # the rater is negative
        ([[0, 3], [0, 4]], {"phi": RATER, "mcc": RATER}),
        ([[3, 0], [0, 4]], {}),
        ([[0, 3], [4, 0]], {}),
        ([[1, 1], [1, 1]], {}),
    ],
)
@pytest.mark.parametrize("name", TWO)
def test_undefined_exactly_where_it_is_and_why(table, expected, name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert why(name, table) is expected.get(name, Reason.OK)
        assert math.isnan(slow.as_float(slow.TWO_BY_TWO[name](table))) == (name in expected)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (np.zeros((3, 3)), dict.fromkeys(ANY, EMPTY)),
        (np.diag([0, 4, 0]), {"kappa": ONE, "scott_pi": ONE, "mcc": BOTH}),
        (np.diag([2, 4, 0]), {}),
        (
            [[0, 4, 0], [0, 0, 0], [0, 0, 0]],
            {"mcc": BOTH, "balanced_accuracy": Reason.CLASS_WITHOUT_REFERENCE},
        ),
        (
            [[1, 4, 0], [0, 0, 0], [0, 0, 0]],
            {"mcc": REF, "balanced_accuracy": Reason.CLASS_WITHOUT_REFERENCE},
        ),
        ([[1, 0, 0], [3, 0, 0], [1, 0, 0]], {"mcc": RATER}),
        ([[1, 0, 0], [3, 2, 0], [1, 0, 0]], {}),
        ([[1, 0, 2], [3, 2, 0], [0, 0, 0]], {"balanced_accuracy": Reason.CLASS_WITHOUT_REFERENCE}),
        ([[5]], {"kappa": ONE, "scott_pi": ONE, "gwet_ac1": ONE, "brennan_prediger": ONE, "mcc": BOTH}),
        ([[0]], dict.fromkeys(ANY, EMPTY)),
    ],
)
@pytest.mark.parametrize("name", ANY)
def test_undefined_with_other_numbers_of_categories(table, expected, name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert why(name, table) is expected.get(name, Reason.OK)


def test_an_unused_category_is_no_reason():
    for name in ANY:
        assert why(name, [[3, 1, 0], [2, 5, 0], [0, 0, 0]]) is Reason.OK


@pytest.mark.parametrize("name", WEIGHTED)
@pytest.mark.parametrize("table", [[[1, 2], [3, 4]], [[2, 1], [1, 2]], [[5, 0], [0, 5]], [[0, 5], [5, 0]]])
def test_weights_under_which_nothing_can_disagree(name, table):
    assert why(name, table, weights=np.ones((2, 2))) is Reason.NO_POSSIBLE_DISAGREEMENT


@pytest.mark.parametrize("name", ["kappa", "scott_pi"])
def test_margins_and_weights_that_leave_no_room(name):
    # the two categories in use count as equal; the third, which would disagree, is unused
    near = [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    assert why(name, [[3, 1, 0], [2, 5, 0], [0, 0, 0]], weights=near) is Reason.NO_POSSIBLE_DISAGREEMENT
    assert value(name, [[3, 1, 0], [2, 5, 0], [0, 0, 1]], weights=near) == 1
    assert why(name, np.diag([4, 0, 0]), weights=near) is Reason.ONE_CATEGORY


def test_kappa_of_two_constants_that_count_as_equal_has_no_room():
    near = [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    assert why("kappa", [[0, 4, 0], [0, 0, 0], [0, 0, 0]], weights=near) is Reason.NO_POSSIBLE_DISAGREEMENT


def test_kappa_of_two_different_constants_is_zero():
    assert value("kappa", [[0, 4], [0, 0]]) == 0
    assert value("scott_pi", [[0, 4], [0, 0]]) == -1
    assert value("brennan_prediger", [[0, 4], [0, 0]]) == -1
    assert value("gwet_ac1", [[0, 4], [0, 0]]) == -1


# ------------------------------------------------------------------------------------------------ huge counts

HUGE = [
    [[10**9, 3], [7, 10**9]],
    [[10**12, 10**11], [10**10, 10**12]],
    [[1, 1], [1, 10**12]],
    [[1, 2], [3, 10**15]],
    [[10**12, 1], [0, 1]],
    [[0, 10**9], [1, 10**9]],
    [[2 * 10**9, 10**9], [4 * 10**9, 2 * 10**9]],  # independent: kappa, phi and mcc are 0
    [[2**62, 2**61], [2**60, 2**62]],  # row sums beyond int64
]


@pytest.mark.parametrize("table", HUGE, ids=str)
@pytest.mark.parametrize("name", TWO)
@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.float64])
def test_huge_counts(name, table, dtype):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = value(name, np.array(table, dtype=dtype))
    assert got == pytest.approx(slow.as_float(slow.TWO_BY_TWO[name](table)), rel=1e-14, abs=1e-15)


@pytest.mark.parametrize("name", WEIGHTED)
@pytest.mark.parametrize("weights", ["linear", "quadratic", "ordinal"])
def test_huge_weighted_counts(name, weights):
    table = [[10**12, 10**9, 0], [1, 10**12, 5], [10**6, 0, 3 * 10**12]]
    exact = slow.WEIGHTED[name](table, getattr(slow, weights)(3))
    assert value(name, table, weights=weights) == pytest.approx(float(exact), rel=1e-14)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16])
@pytest.mark.parametrize("name", TWO)
def test_small_dtypes_do_not_overflow(name, dtype):
    table = [[100, 90], [80, 120]]
    assert value(name, np.array(table, dtype=dtype)) == value(name, table)


# ----------------------------------------------------------------------------------------- kinds of input


@pytest.mark.parametrize("name", TWO)
@pytest.mark.parametrize(
    "as_given",
    [
        np.array,
        lambda table: [list(row) for row in table],
        lambda table: tuple(tuple(row) for row in table),
        lambda table: np.array(table, dtype=np.float32),
        lambda table: np.array(table, dtype=np.uint16),
        lambda table: np.asfortranarray(table),
        lambda table: np.array(table)[::-1][::-1],
    ],
)
def test_every_kind_of_input_gives_one_answer(name, as_given):
    table = [[5, 2], [3, 11]]
    assert value(name, as_given(table)) == value(name, table)


@pytest.mark.parametrize("name", TWO)
def test_a_read_only_table_is_read_and_kept(name):
    for dtype in (np.int64, np.float64):
        table = np.array([[5, 2], [3, 11]], dtype=dtype)
        table.flags.writeable = False
        before = table.copy()
        assert math.isfinite(value(name, table))
        assert (table == before).all()


def test_a_writable_table_is_not_written():
    for dtype in (np.int64, np.float64):
        table = np.array([[5, 2], [3, 11]], dtype=dtype)
        for name in TWO:
            evaluate(name, table)
        assert table.tolist() == [[5, 2], [3, 11]]


def test_booleans_are_counts_of_one_item():
    assert value("accuracy", [[True, False], [False, True]]) == 1


@pytest.mark.parametrize("name", TWO)
@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 5)])
def test_no_tables_give_no_values(name, shape):
    found = evaluate(name, np.zeros((*shape, 2, 2), dtype=np.int64))
    assert found.value.shape == found.reason.shape == shape
    assert evaluate(name, np.zeros((*shape, 2, 2))).value.shape == shape


@pytest.mark.parametrize("name", TWO)
def test_shapes_and_dtypes_of_what_comes_back(name):
    for shape in ((), (1,), (4,), (2, 3), (2, 1, 3)):
        found = evaluate(name, np.full((*shape, 2, 2), 3))
        assert found.value.shape == found.reason.shape == shape
        assert found.value.dtype == np.float64
        assert found.reason.dtype == np.int8


def test_the_public_functions_are_the_values_of_evaluate():
    rng = np.random.default_rng(5)
    tables = rng.integers(0, 4, (50, 2, 2))
    for name in COEFFICIENTS:
        np.testing.assert_array_equal(getattr(xs, name)(tables), evaluate(name, tables).value)
    for name in WEIGHTED:
        given = {"weights": "linear"}
        np.testing.assert_array_equal(
            getattr(xs, name)(tables, **given), evaluate(name, tables, **given).value
        )
        given = {"costs": [[0, 2], [2, 0]]}
        np.testing.assert_array_equal(
            getattr(xs, name)(tables, **given), evaluate(name, tables, **given).value
        )


def test_extreme_shares_neither_overflow_nor_underflow():
    table = np.array([[5.0, 2.0], [3.0, 11.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for factor in (2.0**-1000, 2.0**-600, 2.0**600, 2.0**1000):
            for name in TWO:
                assert value(name, table * factor) == value(name, table), name
        for tiny in (1e-17, 1e-160, 1e-300):
            for name in TWO:
                exact = slow.as_float(slow.TWO_BY_TWO[name]([[Fraction(tiny), 0], [0, 1]]))
                assert value(name, [[tiny, 0.0], [0.0, 1.0]]) == exact, name


# -------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (3, ["(..., L, L)", "()"]),
        ([1, 2], ["(..., L, L)", "(2,)"]),
        ([[1, 2, 3], [4, 5, 6]], ["(..., L, L)", "(2, 3)"]),
        ([[1, 2], [3]], ["(..., L, L)", "different lengths"]),
        (np.zeros((0, 0)), ["(..., L, L)", "(0, 0)"]),
        (np.zeros((3, 0, 0)), ["(..., L, L)"]),
        ([["1", "2"], ["3", "4"]], ["counts", "dtype"]),
        ([[1, None], [2, 3]], ["counts", "object"]),
        ([[1j, 0], [0, 1]], ["counts", "complex"]),
        ([[1, -1], [2, 3]], ["negative"]),
        ([[1, float("nan")], [2, 3]], ["NaN"]),
        ([[1, float("inf")], [2, 3]], ["infinite"]),
        ([[[1, 1], [1, 1]], [[1, -1], [1, 1]]], ["negative"]),
    ],
)
@pytest.mark.parametrize("name", ["accuracy", "kappa", "phi", "gwet_ac1"])
def test_what_is_no_table(name, table, says):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(StructureError) as caught:
            evaluate(name, table)
    assert [part for part in says if part not in str(caught.value)] == []


@pytest.mark.parametrize("name", [name for name, c in COEFFICIENTS.items() if c.needs != "categories"])
@pytest.mark.parametrize("L", [1, 3, 5])
def test_two_categories_are_needed(name, L):
    with pytest.raises(ProtocolError, match=f"`{name}` is defined for two categories; the table has {L}"):
        evaluate(name, np.ones((L, L)))


def test_unknown_names():
    with pytest.raises(ProtocolError, match=r"no coefficient 'kapa'.*kappa"):
        evaluate("kapa", [[1, 2], [3, 4]])
    check_names(["kappa", "f1"])
    with pytest.raises(ProtocolError, match=r"no statistic 'kapa', 'F1'.*kappa"):
        check_names(["kapa", "accuracy", "F1"])


def test_weights_and_costs_are_one_or_the_other():
    with pytest.raises(ProtocolError, match=r"`weights` .*`costs`"):
        xs.kappa([[1, 2], [3, 4]], weights="linear", costs="linear")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"weights": "square"}, "'square'"),
        ({"costs": "cubic"}, "'cubic'"),
        ({"weights": np.eye(3)}, "2 x 2"),
        ({"costs": np.ones((2, 2))}, "diagonal"),
        ({"weights": [[0, 1], [1, 0]]}, "diagonal"),
    ],
)
@pytest.mark.parametrize("name", WEIGHTED)
def test_weights_that_do_not_fit(name, given, says):
    with pytest.raises(ProtocolError, match=says):
        evaluate(name, [[1, 2], [3, 4]], **given)


def test_the_registry_says_what_each_coefficient_needs():
    assert set(COEFFICIENTS) == set(slow.TWO_BY_TWO)
    assert {name for name, c in COEFFICIENTS.items() if c.needs == "categories"} == set(slow.ANY_SIZE)
    assert {name for name, c in COEFFICIENTS.items() if c.needs == "two"} == {"phi", "marginal_mismatch"}
    assert {name for name, c in COEFFICIENTS.items() if c.weighted} == set(slow.WEIGHTED)
    assert all(name == c.name for name, c in COEFFICIENTS.items())


# ---------------------------------------------------------------------------------------------- exactness


def test_perfect_agreement_is_exactly_one():
    rng = np.random.default_rng(11)
    for L in (2, 3, 4, 5):
        for draw in (rng.integers(1, 10**6, (300, L)), rng.random((300, L))):
            tables = np.zeros((300, L, L), dtype=draw.dtype)
            tables[:, range(L), range(L)] = draw
            for name in ANY:
                assert (evaluate(name, tables).value == 1).all(), (name, L)


def test_equal_margins_make_q_exactly_one():
    rng = np.random.default_rng(12)
    tables = rng.integers(1, 10**6, (500, 2, 2))
    tables[:, 1, 0] = tables[:, 0, 1]
    assert (xs.marginal_mismatch(tables) == 1).all()


def test_q_is_at_most_one_where_the_margins_nearly_agree():
    table = [[0.0625, 1e-17], [0.0, 0.5]]
    assert value("marginal_mismatch", table) == 1


def test_chance_agreement_is_exactly_zero():
    for row, column in (([3, 5], [7, 2]), ([1, 1, 4], [6, 1, 3]), ([10**3, 7], [11, 10**4])):
        table = np.outer(row, column)
        assert value("kappa", table) == 0
        assert value("mcc", table) == 0


def test_small_integer_tables_give_the_correctly_rounded_quotient():
    rng = np.random.default_rng(13)
    for table in rng.integers(0, 60, (400, 2, 2)).tolist():
        for name in ("accuracy", "kappa", "scott_pi", "gwet_ac1", "brennan_prediger", "f1", "recall"):
            exact = slow.TWO_BY_TWO[name](table)
            if exact is not None:
                assert value(name, table) == float(exact), (name, table)

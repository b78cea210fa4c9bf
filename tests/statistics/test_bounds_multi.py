"""Ranges for more than two categories and many raters against plain enumeration of the completions."""

import itertools

import numpy as np
import pytest

from xjudge.errors import ProtocolError, Reason, StructureError, reason_text
from xjudge.statistics import bounds, coefficients, raters
from xjudge.statistics.weights import distance_matrix, weight_matrix

THREE = [[20, 3, 1, 2], [2, 15, 4, 3], [0, 3, 18, 1], [2, 1, 0, 4]]


# ------------------------------------------------------------------------------------------- slow oracle


def completions(table):
    """Every completed table (n, L, L): case by case, each open verdict to every category."""
    L = len(table) - 1
    cases = []
    for i in range(L):
        cases += [[i * L + j for j in range(L)]] * table[i][L]
        cases += [[j * L + i for j in range(L)]] * table[L][i]
    cases += [list(range(L * L))] * table[L][L]
    reached = {tuple(n for row in table[:L] for n in row[:L])}
    for cells in cases:
        reached = {(*done[:k], done[k] + 1, *done[k + 1 :]) for done in reached for k in cells}
    return np.array(sorted(reached)).reshape(-1, L, L)


def kappas(reached, weights):
    """Weighted kappa of completed tables (n, L, L), where chance agreement is not certain."""
    total = reached[0].sum()
    rows, columns = reached.sum(2), reached.sum(1)
    observed = (weights * reached).sum((1, 2)) * total
    expected = (weights * (rows[:, :, None] * columns[:, None])).sum((1, 2))
    room = total * total - expected
    return ((observed - expected)[room > 1e-9] / room[room > 1e-9]) if total else np.empty(0)


def ends(values):
    return (min(values), max(values)) if len(values) else (np.nan, np.nan)


def random_table(rng, L, most=6, most_open=2):
    table = rng.integers(1, most + 1, size=(L + 1, L + 1))
    table[rng.random(table.shape) < rng.choice([0.4, 0.65])] = 0
    table[:, L] = table[:, L].clip(max=most_open)
    table[L] = table[L].clip(max=most_open)
    return table


WEIGHTS = {
    "identity": np.eye(3),
    "linear": np.array([[1, 0.5, 0], [0.5, 1, 0.5], [0, 0.5, 1]]),
    "quadratic": np.array([[1, 0.75, 0], [0.75, 1, 0.75], [0, 0.75, 1]]),
    "own": np.array([[1, 0.25, 1], [0.25, 1, 0], [1, 0, 1]]),  # two categories that do not disagree
}


@pytest.fixture(scope="module")
def enumerated():
    rng = np.random.default_rng(0)
    tables = [random_table(rng, 3) for _ in range(40)]
    return [(table, completions(table.tolist())) for table in tables]


@pytest.mark.parametrize("name", WEIGHTS)
def test_three_categories_equal_plain_enumeration(name, enumerated):
    weights = name if name != "own" else WEIGHTS[name]
    n_outer = 0
    for table, reached in enumerated:
        expected = ends(kappas(reached, WEIGHTS[name]))
        found = bounds.category_bounds(table, "kappa", weights=weights, max_work=10**7)
        assert found.kind == "sharp"
        np.testing.assert_allclose([found.lower, found.upper], expected, rtol=1e-12, atol=1e-13)
        accuracy = bounds.category_bounds(table, weights=weights)
        assert accuracy.kind == "sharp"
        total = max(table.sum(), 1)
        share = ends((reached * WEIGHTS[name]).sum((1, 2)) / total if table.any() else [])
        np.testing.assert_allclose([accuracy.lower, accuracy.upper], share, rtol=1e-13, atol=1e-15)
        for work in (0, 200, 2000):
            wide = bounds.category_bounds(table, "kappa", weights=weights, max_work=work)
            n_outer += wide.kind == "outer"
            if np.isnan(expected[0]):
                assert np.isnan(wide.lower)
            else:
                assert wide.lower <= expected[0] + 1e-12
                assert wide.upper >= expected[1] - 1e-12
    assert n_outer > 40


def test_four_categories_equal_plain_enumeration():
    rng = np.random.default_rng(1)
    weights = 1 - np.abs(np.subtract.outer(range(4), range(4))) / 3
    for _ in range(8):
        table = random_table(rng, 4, most_open=1)
        expected = ends(kappas(completions(table.tolist()), weights))
        found = bounds.category_bounds(table, "kappa", weights="linear")
        assert found.kind == "sharp"
        np.testing.assert_allclose([found.lower, found.upper], expected, rtol=1e-12, atol=1e-13)


def test_two_categories_equal_the_closed_form_and_the_search():
    rng = np.random.default_rng(2)
    tables = np.array([random_table(rng, 2, 9, 9) for _ in range(300)])
    closed = bounds.sharp_bounds(tables, "kappa")
    found = bounds.category_bounds(tables, "kappa", weights=[[1, 0.25], [0.25, 1]])
    np.testing.assert_array_equal(found[:2], closed)
    assert set(found.kind.tolist()) == {"sharp"}
    # a third category that nobody can use but by completion widens, one against the rest does not change
    np.testing.assert_array_equal(bounds.category_bounds(tables).lower, bounds.sharp_bounds(tables)[0])
    np.testing.assert_array_equal(bounds.category_bounds(tables).upper, bounds.sharp_bounds(tables)[1])


def test_agreement_is_not_the_best_with_three_categories():
    # both open verdicts to agreement give kappa -4/17; with two categories nothing could be better
    table = [[0, 4, 6, 1], [0, 0, 0, 0], [2, 0, 0, 0], [1, 0, 0, 0]]
    agreed = [[2, 4, 6], [0, 0, 0], [2, 0, 0]]
    assert coefficients.kappa(agreed) == pytest.approx(-4 / 17, abs=1e-15)
    upper = bounds.category_bounds(table, "kappa").upper
    assert upper == pytest.approx(-17 / 74, abs=1e-15)
    assert upper == pytest.approx(max(kappas(completions(table), np.eye(3))), abs=1e-15)


def test_nothing_unresolved_is_the_coefficient():
    rng = np.random.default_rng(3)
    tables = rng.integers(0, 30, size=(20, 5, 5))
    tables[:, 4] = tables[:, :, 4] = 0
    found = bounds.category_bounds(tables, "kappa", costs="quadratic")
    value = coefficients.kappa(tables[:, :4, :4], costs="quadratic")
    np.testing.assert_allclose(found.lower, value, rtol=1e-12)
    np.testing.assert_allclose(found.upper, value, rtol=1e-12)


def test_one_side_open_is_sharp_for_many_categories():
    rng = np.random.default_rng(5)
    table = rng.integers(0, 40, size=(9, 9))
    table[8] = 0
    for turned in (table, table.T):
        found = bounds.category_bounds(turned, "kappa", weights="linear")
        assert found.kind == "sharp"
        assert -1 < found.lower < found.upper < 1
    reversed_ = bounds.category_bounds(table.T, "kappa", weights="linear")
    assert (found.lower, found.upper) == (reversed_.lower, reversed_.upper)


@pytest.mark.parametrize("weights", ["identity", "quadratic"])
def test_less_work_gives_a_wider_range_at_real_size(weights):
    rng = np.random.default_rng(6)
    table = rng.integers(20, 90, size=(4, 4)) + np.diag([200, 150, 180, 0])
    table[3, 3] = 60
    sharp = bounds.category_bounds(table, "kappa", weights=weights)
    assert sharp.kind == "sharp"
    widths = [sharp.upper - sharp.lower]
    for work in (100_000, 0):
        outer = bounds.category_bounds(table, "kappa", weights=weights, max_work=work)
        assert outer.kind == "outer"
        assert outer.lower <= sharp.lower + 1e-12
        assert outer.upper >= sharp.upper - 1e-12
        widths.append(outer.upper - outer.lower)
    assert widths[0] <= widths[1] + 2.1e-12
    assert widths[1] <= widths[2] + 1e-12
    assert widths[1] - widths[0] < 0.002


def test_range_of_one_table_by_literal_value():
    # 15 open verdicts, 89,349 completed tables: enumerated once by another program
    found = bounds.category_bounds(THREE, "kappa")
    assert found.lower == pytest.approx(0.5033849129593811, abs=1e-12)
    assert found.upper == pytest.approx(0.753243632868813, abs=1e-12)


def test_undefined_ranges_have_a_reason():
    empty = bounds.category_bounds(np.zeros((2, 4, 4), int), "kappa")
    assert reason_text(empty.reason).tolist() == ["no overlap"] * 2
    assert np.isnan(empty.lower).all()
    one = bounds.category_bounds([[5, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]], "kappa")
    assert (np.isnan(one.upper), str(reason_text(one.reason))) == (True, "only one category in use")
    assert bounds.category_bounds([[5, 2], [1, 1]]).lower == 1  # one category: always agreed
    assert np.isnan(bounds.category_bounds([[5, 2], [1, 1]], "kappa").lower)
    assert bounds.category_bounds(np.zeros((0, 4, 4), int), "kappa").kind.shape == (0,)


def test_large_counts():
    scale = 10**8
    table = np.array(THREE) * scale
    table[3, 3] = 0
    base = np.array(THREE)
    base[3, 3] = 0
    for weights in ("identity", "quadratic"):
        a = bounds.category_bounds(table, "kappa", weights=weights)
        b = bounds.category_bounds(base, "kappa", weights=weights)
        np.testing.assert_allclose([a.lower, a.upper], [b.lower, b.upper], rtol=1e-12)


# -------------------------------------------------------------------------------------- one against the rest


def test_one_against_the_rest_keeps_sharpness(enumerated):
    for table, reached in enumerated[:15]:
        binary = bounds.one_versus_rest(table)
        assert binary.shape == (3, 3, 3)
        assert (binary.sum((1, 2)) == table.sum()).all()
        lower, upper = bounds.sharp_bounds(binary, "f1")
        for k in range(3):
            below = reached[:, k].sum(1) + reached[:, :, k].sum(1)
            values = 2 * reached[below > 0, k, k] / below[below > 0]
            np.testing.assert_allclose([lower[k], upper[k]], ends(values), rtol=1e-14)


def test_one_against_the_rest_of_two_categories():
    table = np.array([[7, 2, 1], [3, 9, 2], [1, 2, 1]])
    binary = bounds.one_versus_rest(table)
    assert binary[1].tolist() == table.tolist()
    assert binary[0].tolist() == [[9, 3, 2], [2, 7, 1], [2, 1, 1]]


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: bounds.category_bounds(THREE, "mcc"), ProtocolError, "one_versus_rest"),
        (lambda: bounds.category_bounds(THREE, weights="linear", costs="linear"), ProtocolError, "diagonal"),
        (lambda: bounds.category_bounds(THREE, weights=np.eye(4)), ProtocolError, "3 x 3"),
        (lambda: bounds.category_bounds([1, 2]), StructureError, "shape"),
        (lambda: bounds.one_versus_rest([[1, 2], [3, 4]]), StructureError, "no rest"),
        (lambda: bounds.rater_bounds([[1, 2]], [1], "icc"), ProtocolError, "must be one of"),
        (lambda: bounds.rater_bounds([[1, 2]], [1], "fleiss_kappa", shares="x"), ProtocolError, "`shares`"),
        (lambda: bounds.rater_bounds([[1, 2]], [1, 2]), StructureError, r"\(1, 2\) and \(2,\)"),
        (lambda: bounds.rater_bounds([[1, -2]], [1]), StructureError, "none negative"),
        (lambda: bounds.rater_bounds([[1, 0.5]], [1]), StructureError, "whole"),
        (lambda: bounds.rater_bounds([[1, 2]], [1], metric="cubic"), ProtocolError, "metric"),
    ],
)
def test_messages(call, error, match):
    with pytest.raises(error, match=match):
        call()


# ------------------------------------------------------------------------------------------------ many raters


def panels(counts, unresolved):
    """Every completed panel: labels of each item closed in every way."""
    L = len(counts[0])
    ways = []
    for row, u in zip(counts, unresolved, strict=True):
        closed = itertools.combinations_with_replacement(range(L), u)
        ways.append([[n + labels.count(a) for a, n in enumerate(row)] for labels in closed])
    return np.array(list(itertools.product(*ways)))


CASES = {
    "alpha": ({"statistic": "alpha"}, lambda p: raters.alpha(p)),
    "alpha interval": ({"statistic": "alpha", "metric": "interval"}, lambda p: raters.alpha(p, "interval")),
    "alpha ordinal": ({"statistic": "alpha", "metric": "ordinal"}, lambda p: raters.alpha(p, "ordinal")),
    "alpha weighted": (
        {"statistic": "alpha", "weights": "linear"},
        lambda p: raters.alpha(p, weights="linear"),
    ),
    "fleiss pooled": ({"statistic": "fleiss_kappa"}, lambda p: raters.fleiss_kappa(p)),
    "fleiss item_mean": (
        {"statistic": "fleiss_kappa", "shares": "item_mean", "weights": "quadratic"},
        lambda p: raters.fleiss_kappa(p, "quadratic", shares="item_mean"),
    ),
    "gwet": ({"statistic": "gwet_ac"}, lambda p: raters.gwet_ac(p)),
    "brennan_prediger": ({"statistic": "brennan_prediger"}, lambda p: raters.brennan_prediger(p)),
    "agreement": ({"statistic": "percent_agreement"}, lambda p: raters.percent_agreement(p)),
}


@pytest.fixture(scope="module")
def small_panels():
    rng = np.random.default_rng(7)
    out = []
    for _ in range(50):
        n_items, L = rng.integers(1, 5), rng.choice([2, 3])
        counts = rng.integers(0, 3, size=(n_items, L))
        unresolved = rng.integers(0, 3, size=n_items) * (rng.random(n_items) < 0.7)
        out.append((counts, unresolved, panels(counts.tolist(), unresolved.tolist())))
    for counts, unresolved in (([[1, 0], [0, 0]], [0, 1]), ([[3, 0], [2, 0]], [0, 0]), ([[2, 0, 0]], [1])):
        out.append((np.array(counts), np.array(unresolved), panels(counts, unresolved)))
    return out


@pytest.mark.parametrize("case", CASES)
def test_many_raters_equal_plain_enumeration(case, small_panels):
    options, coefficient = CASES[case]
    n_undefined = 0
    for counts, unresolved, completed in small_panels:
        value = coefficient(completed)
        value = value[~np.isnan(value)]
        found = bounds.rater_bounds(counts, unresolved, max_work=10**8, **options)
        outer = bounds.rater_bounds(counts, unresolved, max_work=0, **options)
        assert found.kind == "sharp"
        if not value.size:
            n_undefined += 1
            assert np.isnan([found.lower, found.upper, outer.lower, outer.upper]).all()
            assert found.reason in (Reason.NO_PAIRABLE_ITEM, Reason.ONE_CATEGORY)
            continue
        np.testing.assert_allclose(
            [found.lower, found.upper], [value.min(), value.max()], rtol=1e-11, atol=1e-12
        )
        assert outer.lower <= value.min() + 1e-12
        assert outer.upper >= value.max() - 1e-12
    assert n_undefined >= 1


def test_nothing_unresolved_on_any_item_is_the_coefficient():
    rng = np.random.default_rng(8)
    counts = rng.integers(0, 4, size=(60, 4))
    for metric in ("nominal", "ordinal", "ratio"):
        found = bounds.rater_bounds(counts, np.zeros(60, int), metric=metric)
        assert found.lower == pytest.approx(float(raters.alpha(counts, metric)), abs=1e-12)
        assert found.upper == pytest.approx(float(found.lower), abs=1e-13)
        assert found.kind == "sharp"


@pytest.mark.parametrize(("metric", "gap"), [("nominal", 0.006), ("interval", 0.02)])
def test_outer_range_of_alpha_is_close_where_both_can_be_had(metric, gap):
    rng = np.random.default_rng(9)
    truth = rng.integers(0, 3, 80)
    labels = np.where(rng.random((80, 4)) < 0.75, truth[:, None], rng.integers(0, 3, (80, 4)))
    open_ = rng.random((80, 4)) < 0.12
    counts = np.stack([((labels == a) & ~open_).sum(1) for a in range(3)], axis=1)
    sharp = bounds.rater_bounds(counts, open_.sum(1), metric=metric)
    outer = bounds.rater_bounds(counts, open_.sum(1), metric=metric, max_work=1000)
    assert (str(sharp.kind), str(outer.kind)) == ("sharp", "outer")
    assert 0 <= sharp.lower - outer.lower + 1e-11 < gap
    assert 0 <= outer.upper - sharp.upper + 1e-11 < gap


def test_items_of_very_different_sizes():
    sizes = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]  # no common unit of 1 / size within reason
    counts = np.array([[m // 2, m - m // 2 - 1] for m in sizes])
    unresolved = np.ones(10, int)
    found = bounds.rater_bounds(counts, unresolved, "fleiss_kappa", shares="item_mean")
    assert found.kind == "outer"
    values = [
        float(raters.fleiss_kappa(counts + np.array(way), shares="item_mean"))
        for way in itertools.product([[1, 0], [0, 1]], repeat=10)
    ]
    assert found.lower <= min(values)
    assert found.upper >= max(values)
    assert found.upper - found.lower < max(values) - min(values) + 0.02
    pooled = bounds.rater_bounds(counts, unresolved, "fleiss_kappa")
    assert pooled.kind == "sharp"


def test_leading_dims_and_empty_axes_of_raters():
    counts = np.random.default_rng(10).integers(0, 3, size=(2, 3, 5, 2))
    unresolved = np.ones((2, 3, 5), int)
    found = bounds.rater_bounds(counts, unresolved)
    assert found.lower.shape == found.kind.shape == found.reason.shape == (2, 3)
    one = bounds.rater_bounds(counts[1, 2], unresolved[1, 2])
    assert (one.lower, one.upper) == (found.lower[1, 2], found.upper[1, 2])
    none = bounds.rater_bounds(np.zeros((0, 2), int), np.zeros(0, int))
    assert (np.isnan(none.lower), str(reason_text(none.reason))) == (True, "no item with two labels")
    assert bounds.rater_bounds(np.zeros((0, 4, 2), int), np.zeros((0, 4), int)).lower.shape == (0,)


def test_two_raters_agree_with_pairwise_ranges():
    # two labels an item: alpha's range is that of the symmetrised table, up to its small-sample factor
    counts = np.array([[2, 0]] * 6 + [[0, 2]] * 5 + [[1, 1]] * 3 + [[1, 0]] * 2)
    unresolved = np.array([0] * 14 + [1] * 2)
    found = bounds.rater_bounds(counts, unresolved, "fleiss_kappa")
    values = [float(raters.fleiss_kappa(panel)) for panel in panels(counts.tolist(), unresolved.tolist())]
    assert (found.lower, found.upper) == (pytest.approx(min(values)), pytest.approx(max(values)))
    alpha = bounds.rater_bounds(counts, unresolved)
    n = 32
    assert alpha.upper == pytest.approx(found.upper + (1 - found.upper) / n, abs=1e-13)
    assert alpha.lower == pytest.approx(found.lower + (1 - found.lower) / n, abs=1e-13)


def test_own_distances_and_weights_are_the_named_ones():
    counts = [[2, 0, 1], [0, 1, 1], [1, 1, 0], [0, 0, 2]]
    unresolved = [1, 0, 1, 2]
    named = bounds.rater_bounds(counts, unresolved, metric="interval")
    own = bounds.rater_bounds(counts, unresolved, metric=distance_matrix("interval", 3))
    weighted = bounds.rater_bounds(counts, unresolved, weights=weight_matrix("quadratic", 3))
    np.testing.assert_allclose(own[:2], named[:2], rtol=1e-13)
    np.testing.assert_allclose(weighted[:2], named[:2], rtol=1e-13)

"""Intraclass correlations against published analyses and mean squares computed in plain loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from xjudge.errors import ProtocolError, Reason, StructureError
from xjudge.statistics.raters import ICC_FORMS, icc

# P. E. Shrout and J. L. Fleiss (1979), table 2: six targets, four judges
SHROUT_FLEISS = np.array(
    [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]], dtype=float
)


@pytest.mark.parametrize(
    ("form", "value", "lower", "upper"),
    [  # values as printed by Shrout and Fleiss; intervals as the R package psych prints them
        ("1", 0.17, -0.133, 0.72),
        ("A,1", 0.29, 0.019, 0.76),
        ("C,1", 0.71, 0.342, 0.95),
        ("1,k", 0.44, -0.884, 0.91),
        ("A,k", 0.62, 0.071, 0.93),
        ("C,k", 0.91, 0.676, 0.99),
    ],
)
def test_shrout_and_fleiss(form, value, lower, upper):
    got = icc(SHROUT_FLEISS, form)
    assert got.value == pytest.approx(value, abs=5e-3)
    assert got.lower == pytest.approx(lower, abs=5e-4)
    assert got.upper == pytest.approx(upper, abs=5.1e-3)
    assert got.reason == Reason.OK
    assert got.n_items == 6


def plain_squares(x):
    n, k = len(x), len(x[0])
    grand = sum(map(sum, x)) / (n * k)
    row = [sum(r) / k for r in x]
    column = [sum(x[i][j] for i in range(n)) / n for j in range(k)]
    rows = sum(k * (r - grand) ** 2 for r in row) / (n - 1)
    columns = sum(n * (c - grand) ** 2 for c in column) / (k - 1)
    error = sum((x[i][j] - row[i] - column[j] + grand) ** 2 for i in range(n) for j in range(k))
    within = sum((x[i][j] - row[i]) ** 2 for i in range(n) for j in range(k))
    return rows, columns, error / ((n - 1) * (k - 1)), within / (n * (k - 1))


def plain_icc(x, form):
    n, k = len(x), len(x[0])
    rows, columns, error, within = plain_squares(x)
    return {
        "1": (rows - within) / (rows + (k - 1) * within),
        "C,1": (rows - error) / (rows + (k - 1) * error),
        "A,1": (rows - error) / (rows + (k - 1) * error + k * (columns - error) / n),
        "1,k": (rows - within) / rows,
        "C,k": (rows - error) / rows,
        "A,k": (rows - error) / (rows + (columns - error) / n),
    }[form]


def plain_interval(x, form, level):
    """McGraw and Wong (1996), table 7, an F quantile at a time."""
    n, k = len(x), len(x[0])
    rows, columns, error, within = plain_squares(x)
    q = (1 + level) / 2
    if form.startswith(("1", "C")):
        noise, below = (within, n * (k - 1)) if form.startswith("1") else (error, (n - 1) * (k - 1))
        low = rows / noise / stats.f.ppf(q, n - 1, below)
        high = rows / noise * stats.f.ppf(q, below, n - 1)
        if form.endswith("k"):
            return 1 - 1 / low, 1 - 1 / high
        return (low - 1) / (low + k - 1), (high - 1) / (high + k - 1)
    rho = plain_icc(x, "A,1")
    a, b = k * rho / (n * (1 - rho)), 1 + k * rho * (n - 1) / (n * (1 - rho))
    v = (a * columns + b * error) ** 2 / (
        (a * columns) ** 2 / (k - 1) + (b * error) ** 2 / ((n - 1) * (k - 1))
    )
    f = stats.f.ppf(q, n - 1, v)
    lower = n * (rows - f * error) / (f * (k * columns + (k * n - k - n) * error) + n * rows)
    f = stats.f.ppf(q, v, n - 1)
    upper = n * (f * rows - error) / (k * columns + (k * n - k - n) * error + n * f * rows)
    if form.endswith("1"):
        return lower, upper
    return k * lower / (1 + (k - 1) * lower), k * upper / (1 + (k - 1) * upper)  # Spearman-Brown


@pytest.mark.parametrize("form", ICC_FORMS)
@pytest.mark.parametrize(("n", "k", "level"), [(6, 4, 0.95), (30, 2, 0.9), (12, 7, 0.99)])
def test_plain_loops(form, n, k, level):
    rng = np.random.default_rng(n)
    x = rng.normal(size=(n, 1)) + 0.3 * rng.normal(size=(1, k)) + rng.normal(size=(n, k))
    got = icc(x, form, level=level)
    assert got.value == pytest.approx(plain_icc(x.tolist(), form), abs=1e-12)
    assert (got.lower, got.upper) == pytest.approx(plain_interval(x.tolist(), form, level), abs=1e-9)


@pytest.mark.parametrize("form", ICC_FORMS)
def test_incomplete_items_are_left_out(form):
    missing = np.vstack([SHROUT_FLEISS, [[1, 2, np.nan, 3], [np.nan] * 4]])
    got, want = icc(missing, form), icc(SHROUT_FLEISS, form)
    assert (got.n_items, got.reason) == (6, Reason.OK)
    np.testing.assert_allclose(got[2:4], want[2:4], atol=1e-12)
    np.testing.assert_allclose(got.value, want.value, atol=1e-12)


@pytest.mark.parametrize("form", ICC_FORMS)
def test_weights_are_multiplicities(form):
    weights = np.array([[1, 2, 0, 3, 1, 1], [0, 0, 2, 2, 1, 1]])
    got = icc(SHROUT_FLEISS, form, item_weights=weights)
    for place, row in enumerate(weights):
        want = icc(np.repeat(SHROUT_FLEISS, row, axis=0), form)
        for field in ("value", "lower", "upper", "n_items"):
            assert getattr(got, field)[place] == pytest.approx(getattr(want, field), abs=1e-12)


def test_leading_axes():
    batch = np.stack([SHROUT_FLEISS, SHROUT_FLEISS[::-1] ** 2])
    got = icc(batch, "C,1")
    assert got.value.shape == got.lower.shape == (2,)
    assert got.value[1] == pytest.approx(icc(batch[1], "C,1").value)


@pytest.mark.parametrize("form", ICC_FORMS)
def test_perfect_agreement(form):
    got = icc([[0.1] * 3, [0.2] * 3, [0.7] * 3], form)
    assert (got.value, got.lower, got.upper) == pytest.approx((1, 1, 1))


@pytest.mark.parametrize("form", ["C,1", "C,k"])
def test_consistency_forgives_the_raters_level(form):
    shifted = np.array([[0.1, 1.1, 5.1], [0.2, 1.2, 5.2], [0.7, 1.7, 5.7]])
    got = icc(shifted, form)
    assert (got.value, got.lower, got.upper) == pytest.approx((1, 1, 1))
    assert icc(shifted, form.replace("C", "A")).value < 0.1


class TestUndefined:
    @pytest.mark.parametrize("form", ICC_FORMS)
    @pytest.mark.parametrize(
        ("scores", "reason"),
        [
            (np.zeros((0, 3)), Reason.FEW_COMPLETE_ITEMS),
            (np.zeros((3, 0)), Reason.ONE_RATER),
            ([[1.0], [2.0]], Reason.ONE_RATER),
            ([[1.0, 2.0]], Reason.FEW_COMPLETE_ITEMS),
            ([[1.0, np.nan], [np.nan, 2.0], [3.0, 4.0]], Reason.FEW_COMPLETE_ITEMS),
            (np.full((3, 3), 0.1), Reason.NO_VARIATION),
        ],
    )
    def test_reasons(self, form, scores, reason):
        got = icc(scores, form)
        assert np.isnan([got.value, got.lower, got.upper]).all()
        assert got.reason == reason

    @pytest.mark.parametrize("form", ["C,1", "C,k"])
    def test_items_that_do_not_differ(self, form):
        got = icc([[0.1, 0.7, 1.3]] * 4, form)
        assert np.isnan(got.value)
        assert got.reason == Reason.NO_VARIANCE

    def test_items_that_do_not_differ_in_the_other_forms(self):
        same = [[0.1, 0.7, 1.3]] * 4
        assert icc(same, "1").value == pytest.approx(-1 / 2)
        assert icc(same, "A,1").value == 0
        assert icc(same, "A,k").value == 0
        assert icc(same, "1,k").reason == Reason.NO_VARIANCE

    def test_read_only(self):
        scores = SHROUT_FLEISS.copy()
        scores.setflags(write=False)
        assert icc(scores) == icc(SHROUT_FLEISS.copy())
        np.testing.assert_array_equal(scores, SHROUT_FLEISS)

    @pytest.mark.parametrize(
        ("call", "error", "words"),
        [
            (lambda: icc(SHROUT_FLEISS, "2,1"), ProtocolError, "'A,1'.*; got '2,1'"),
            (lambda: icc(SHROUT_FLEISS, level=95), ProtocolError, "between 0 and 1; got 95"),
            (lambda: icc([1.0, 2.0]), StructureError, "item, rater"),
            (lambda: icc([["a", "b"]]), StructureError, "numbers"),
            (lambda: icc([[1.0, np.inf], [1.0, 2.0]]), StructureError, "finite"),
            (lambda: icc(SHROUT_FLEISS, item_weights=[1, 2]), ProtocolError, "each of the 6 items"),
            (lambda: icc(SHROUT_FLEISS, item_weights=[-1] * 6), ProtocolError, "not negative"),
        ],
    )
    def test_one_sentence(self, call, error, words):
        with pytest.raises(error, match=words):
            call()


score_matrices = st.tuples(st.integers(2, 8), st.integers(2, 4)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.integers(-5, 5).map(float))
)


@given(score_matrices, st.sampled_from(ICC_FORMS), st.integers(-3, 3), st.sampled_from([0.5, 2.0, -4.0]))
def test_unit_and_origin_do_not_matter(scores, form, shift, unit):
    got, want = icc(unit * scores + shift, form), icc(scores, form)
    assert got.reason == want.reason
    for field in ("value", "lower", "upper"):
        assert getattr(got, field) == pytest.approx(getattr(want, field), abs=1e-9, nan_ok=True)


@given(score_matrices, st.sampled_from(ICC_FORMS), st.randoms(use_true_random=False))
def test_order_of_items_and_raters_does_not_matter(scores, form, random):
    rows, columns = list(range(len(scores))), list(range(scores.shape[1]))
    random.shuffle(rows)
    random.shuffle(columns)
    got, want = icc(scores[rows][:, columns], form), icc(scores, form)
    assert got.reason == want.reason
    assert got.value == pytest.approx(want.value, abs=1e-9, nan_ok=True)


@given(score_matrices, st.sampled_from(ICC_FORMS))
def test_value_is_one_at_most_and_inside_its_interval(scores, form):
    got = icc(scores, form)
    if got.reason == Reason.OK:
        assert got.value <= 1 + 1e-12
        if not np.isnan(got.lower) and not form.startswith("A"):
            assert got.lower - 1e-9 <= got.value <= got.upper + 1e-9

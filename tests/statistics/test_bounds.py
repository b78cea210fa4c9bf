"""Binary identification ranges against the shared figures, the paper, and plain enumeration."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from shared import needs_shared, oracle

from xjudge.errors import ProtocolError, Reason, StructureError, reason_text
from xjudge.statistics import bounds, coefficients

RUBRIC = [[97, 420, 0], [181, 1003, 0], [64, 242, 0]]  # the paper's Table 5: only the human abstains
REAL_SIZE = [[900, 250, 400], [300, 1100, 300], [500, 200, 150]]  # 7e15 completions


# ------------------------------------------------------------------------------------------- slow oracle


def completions(table):
    """Every (n00, n01, n10, n11): the five free cells of section 5, sent every way."""
    (a, b, x), (c, d, y), (u, v, m) = table
    found = set()
    for x0, y0, u0, v0 in itertools.product(range(x + 1), range(y + 1), range(u + 1), range(v + 1)):
        for z00 in range(m + 1):
            for z01 in range(m + 1 - z00):
                for z10 in range(m + 1 - z00 - z01):
                    z11 = m - z00 - z01 - z10
                    found.add(
                        (
                            a + (x - x0) + (u - u0) + z00,
                            b + x0 + (v - v0) + z01,
                            c + (y - y0) + u0 + z10,
                            d + y0 + v0 + z11,
                        )
                    )
    return found


def square(statistic, tn, fp, fn, tp):
    """Value as an exact fraction, None where undefined; for phi the square with its sign."""
    n = tn + fp + fn + tp

    def ratio(above, below):
        return Fraction(above, below) if below else None

    if statistic == "accuracy":
        return ratio(tn + tp, n)
    if statistic == "precision":
        return ratio(tp, tp + fp)
    if statistic == "recall":
        return ratio(tp, tp + fn)
    if statistic == "specificity":
        return ratio(tn, tn + fp)
    if statistic == "balanced_accuracy":
        shares = ratio(tp, tp + fn), ratio(tn, tn + fp)
        return None if None in shares else sum(shares) / 2
    if statistic == "f1":
        return ratio(2 * tp, 2 * tp + fp + fn)
    if statistic == "rate_reference":
        return ratio(tp + fn, n)
    if statistic == "rate_rater":
        return ratio(tp + fp, n)
    excess = tp * tn - fp * fn
    if statistic == "kappa":
        return ratio(2 * excess, (tp + fn) * (fn + tn) + (tp + fp) * (fp + tn))
    return ratio(excess * abs(excess), (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))


def as_float(statistic, exact):
    if exact is None:
        return np.nan
    return float(exact) if statistic != "phi" else np.copysign(np.sqrt(float(abs(exact))), float(exact))


def random_tables(n, seed, largest):
    rng = np.random.default_rng(seed)
    tables = rng.integers(0, largest + 1, size=(n, 3, 3))
    tables[rng.random(tables.shape) < rng.choice([0.2, 0.5, 0.75], size=(n, 1, 1))] = 0
    return tables


TABLES = random_tables(1500, 20, 4)


@pytest.fixture(scope="module")
def enumerated():
    return [completions(table.tolist()) for table in TABLES]


@pytest.mark.parametrize("statistic", bounds.STATISTICS)
def test_both_ends_equal_plain_enumeration(statistic, enumerated):
    lower, upper, reason = bounds.sharp_bounds_with_reason(TABLES, statistic)
    at = [bounds.sharp_allocation(TABLES, statistic, end) for end in ("lower", "upper")]
    values = {}
    n_undefined = 0
    for i, reached in enumerate(enumerated):
        exact = [
            values.setdefault(completed, square(statistic, *completed))
            if completed not in values
            else values[completed]
            for completed in reached
        ]
        defined = [value for value in exact if value is not None]
        attained = [tuple(end[i].ravel().tolist()) for end in at]
        assert set(attained) <= reached
        if not defined:
            n_undefined += 1
            assert np.isnan(lower[i])
            assert np.isnan(upper[i])
            assert reason[i] != Reason.OK
            continue
        assert reason[i] == Reason.OK
        assert [square(statistic, *completed) for completed in attained] == [min(defined), max(defined)]
        assert lower[i] == pytest.approx(as_float(statistic, min(defined)), rel=1e-15, abs=0)
        assert upper[i] == pytest.approx(as_float(statistic, max(defined)), rel=1e-15, abs=0)
    assert n_undefined >= 15  # the degenerate tables are among them


@pytest.mark.parametrize("statistic", bounds.STATISTICS)
def test_every_table_of_zeros_and_ones(statistic):
    tables = np.array(list(itertools.product((0, 1), repeat=9))).reshape(-1, 3, 3)
    lower, upper = bounds.sharp_bounds(tables, statistic)
    for i, table in enumerate(tables.tolist()):
        exact = [square(statistic, *completed) for completed in completions(table)]
        defined = [value for value in exact if value is not None]
        ends = (min(defined), max(defined)) if defined else (None, None)
        np.testing.assert_allclose([lower[i], upper[i]], [as_float(statistic, e) for e in ends], rtol=1e-15)


# ----------------------------------------------------------------------------------------- published figures


@needs_shared
def test_bounds_small():
    for entry in oracle("bounds_small").values():
        for statistic, expected in entry["metrics"].items():
            found = bounds.sharp_bounds(entry["table"], statistic)
            for end, value in zip(("lower", "upper"), found, strict=True):
                assert value == pytest.approx(expected[end], abs=1e-10)
                if statistic != "phi":
                    assert value == pytest.approx(float(Fraction(expected[f"{end}_exact"])), rel=1e-15)
                completed = bounds.sharp_allocation(entry["table"], statistic, end).ravel()
                assert square(statistic, *completed.tolist()) == square(statistic, *expected[f"{end}_at"])


@needs_shared
def test_cebab_two_sided():
    for entry in oracle("cebab_two_sided_ca")["human_w1_sharp_bounds"].values():
        for statistic, expected in entry["sharp_bounds"].items():
            found = bounds.sharp_bounds(entry["table"], statistic)
            assert found == (
                pytest.approx(expected["lower"], abs=1e-9),
                pytest.approx(expected["upper"], abs=1e-9),
            )


@needs_shared
def test_cebab_pooled_accuracy():
    shared = oracle("cebab_two_sided_ca")
    entries = [
        *shared["pooled_all_human_judge_pairs"].values(),
        *(entry for judge in shared["pooled_by_aspect"].values() for entry in judge.values()),
    ]
    tables = np.array([entry["table"] for entry in entries])
    found = np.stack(bounds.sharp_bounds(tables), axis=-1)
    np.testing.assert_allclose(found, [entry["accuracy_bounds"] for entry in entries], atol=1e-10)


def test_cebab_one_human_by_literal_value():
    table = [[2, 4, 0], [15, 105, 5], [3, 4, 90]]  # cebab_two_sided_ca.json, human w1, gemini_flash
    assert bounds.sharp_bounds(table, "kappa") == (
        pytest.approx(-0.33352668213457, abs=1e-12),
        pytest.approx(0.83256029684601, abs=1e-12),
    )
    assert bounds.sharp_bounds(table, "balanced_accuracy") == (
        pytest.approx(0.29821428571429, abs=1e-12),
        pytest.approx(0.92435897435897, abs=1e-12),
    )


@pytest.mark.parametrize(
    ("statistic", "lower", "upper"),
    [
        ("accuracy", 0.5481, 0.7005),
        ("f1", 0.6886, 0.8056),
        ("kappa", -0.0768, 0.1710),
        ("phi", -0.0884, 0.1812),
    ],
)
def test_table_5_of_the_paper(statistic, lower, upper):
    found = bounds.sharp_bounds(RUBRIC, statistic)
    assert [round(float(end), 4) for end in found] == [lower, upper]


def test_table_5_in_fractions():
    assert bounds.sharp_bounds(RUBRIC, "kappa") == (-14422 / 187839, 27650 / 161673)
    assert bounds.sharp_bounds(RUBRIC, "precision") == (1003 / 1665, 83 / 111)
    assert bounds.sharp_bounds(RUBRIC, "specificity") == (97 / 759, 23 / 83)
    assert bounds.sharp_bounds(RUBRIC, "recall") == (1003 / 1248, 1245 / 1426)


@pytest.mark.parametrize(
    ("statistic", "lower", "upper"),
    [
        ("accuracy", 0.4878, 0.8659),
        ("f1", 0.5116, 0.8642),
        ("kappa", -0.0262, 0.7317),
        ("phi", -0.0263, 0.7319),
    ],
)
def test_real_size_table(statistic, lower, upper):
    found = bounds.sharp_bounds(REAL_SIZE, statistic)
    assert [round(float(end), 4) for end in found] == [lower, upper]


def test_cascade():
    # 4,718 pairs, 2,886 covered, 2,521 of them correct (closed_form.json); how they split does not matter
    table = [[1261, 200, 916], [165, 1260, 916], [0, 0, 0]]
    lower, upper = bounds.sharp_bounds(table)
    assert lower == pytest.approx(0.53433658329801, abs=1e-12)
    assert upper == pytest.approx(0.92263671047054, abs=1e-12)
    assert (lower, upper) == (2521 / 4718, (2521 + 1832) / 4718)


# ------------------------------------------------------------------------------------------------ degenerate


@pytest.mark.parametrize(
    ("table", "statistic", "text"),
    [
        ([[0, 0, 0], [0, 0, 0], [0, 0, 0]], "accuracy", "no overlap"),
        ([[0, 0, 0], [0, 0, 0], [0, 0, 0]], "phi", "no overlap"),
        ([[4, 0, 0], [2, 0, 0], [3, 0, 0]], "precision", "rater never positive"),
        ([[4, 1, 2], [0, 0, 0], [0, 0, 0]], "recall", "reference never positive"),
        ([[0, 0, 0], [3, 1, 2], [0, 0, 0]], "specificity", "reference never negative"),
        ([[0, 0, 0], [3, 1, 2], [0, 0, 0]], "balanced_accuracy", "reference never negative"),
        ([[3, 1, 2], [0, 0, 0], [0, 0, 0]], "balanced_accuracy", "reference never positive"),
        ([[5, 0, 0], [0, 0, 0], [0, 0, 0]], "f1", "no positive label on either side"),
        ([[5, 0, 0], [0, 0, 0], [0, 0, 0]], "kappa", "only one category in use"),
        ([[5, 0, 0], [0, 0, 0], [0, 0, 0]], "phi", "both raters are constant"),
        ([[5, 0, 3], [0, 0, 0], [0, 0, 0]], "phi", "reference is constant"),
        ([[5, 0, 0], [2, 0, 0], [1, 0, 0]], "phi", "rater is constant"),
    ],
)
def test_undefined_in_every_completion_has_a_reason(table, statistic, text):
    lower, upper, reason = bounds.sharp_bounds_with_reason(table, statistic)
    assert np.isnan(lower)
    assert np.isnan(upper)
    assert str(reason_text(reason)) == text
    completed = bounds.sharp_allocation(table, statistic, "upper")
    assert tuple(completed.ravel().tolist()) in completions(table)


def test_best_defined_completion_where_the_obvious_one_is_undefined():
    # all 9 agree on negative at the obvious upper end; one case off it gives kappa 0
    table = [[6, 0, 2], [0, 0, 0], [1, 0, 0]]
    assert bounds.sharp_bounds(table, "kappa") == (-4 / 23, 0.0)
    assert bounds.sharp_allocation(table, "kappa", "upper").tolist() == [[8, 1], [0, 0]]
    # phi needs a case in each off-diagonal cell: -sqrt(1 / (8 * 8)) at best
    assert bounds.sharp_bounds(table, "phi")[1] == -1 / 8
    assert bounds.sharp_allocation(table, "phi", "upper").tolist() == [[7, 1], [1, 0]]
    # the mirrored table: the lower end of phi where the obvious one is undefined
    assert bounds.sharp_bounds([[0, 6, 2], [0, 0, 0], [0, 1, 0]], "phi")[0] == 1 / 8


def test_one_case_that_neither_side_resolved():
    table = [[0, 0, 0], [0, 0, 0], [0, 0, 1]]
    assert bounds.sharp_bounds(table) == (0.0, 1.0)
    assert bounds.sharp_bounds(table, "kappa") == (0.0, 0.0)
    assert np.isnan(bounds.sharp_bounds(table, "phi")).all()
    assert bounds.sharp_bounds(table, "f1") == (0.0, 1.0)


def test_nothing_unresolved_is_the_coefficient():
    tables = random_tables(300, 3, 30)
    tables[:, 2] = tables[:, :, 2] = 0
    for statistic in bounds.STATISTICS[:8]:
        value = getattr(coefficients, statistic)(tables[:, :2, :2])
        lower, upper = bounds.sharp_bounds(tables, statistic)
        np.testing.assert_array_equal(lower, upper)
        np.testing.assert_allclose(lower, value, rtol=1e-13, atol=1e-16)


@pytest.mark.parametrize("statistic", bounds.STATISTICS)
def test_value_of_the_allocation_is_the_end(statistic):
    tables = random_tables(400, 4, 40)
    for end, value in zip(("lower", "upper"), bounds.sharp_bounds(tables, statistic), strict=True):
        completed = bounds.sharp_allocation(tables, statistic, end)
        if statistic.startswith("rate"):
            positive = completed[:, 1].sum(-1) if statistic == "rate_reference" else completed[..., 1].sum(-1)
            again = np.where(completed.any((-2, -1)), positive, np.nan) / completed.sum((-2, -1)).clip(1)
        else:
            again = getattr(coefficients, statistic)(completed)
        np.testing.assert_allclose(value, again, rtol=1e-13, atol=1e-16)


# ------------------------------------------------------------------------------------------ large counts


def moved_one(completed):
    """Tables one case away from a completed table."""
    for source, target in itertools.permutations(range(4), 2):
        other = list(completed)
        other[source] -= 1
        other[target] += 1
        yield tuple(other)


def is_completion(table, completed):
    """Whether a completed table is reachable: Hall's condition on the four cells."""
    (a, b, x), (c, d, y), (u, v, m) = table
    need = [completed[0] - a, completed[1] - b, completed[2] - c, completed[3] - d]
    if min(need) < 0 or sum(need) != x + y + u + v + m:
        return False
    supplies = [({0, 1}, x), ({2, 3}, y), ({0, 2}, u), ({1, 3}, v)]
    for size in (1, 2, 3):
        for cells in itertools.combinations(range(4), size):
            forced = sum(amount for reach, amount in supplies if reach <= set(cells))
            if forced > sum(need[k] for k in cells):
                return False
    return True


@pytest.mark.parametrize("scale", [10**9, 2**49 // 10])
@pytest.mark.parametrize("statistic", bounds.STATISTICS)
def test_counts_of_a_thousand_million(statistic, scale):
    rng = np.random.default_rng(11)
    tables = rng.integers(0, scale, size=(40, 3, 3))
    tables[:20][rng.random((20, 3, 3)) < 0.4] = 0
    tables[20:, 2, 2] = rng.integers(0, 3 * scale, size=20)
    for end, sign in (("lower", 1), ("upper", -1)):
        found = bounds.sharp_bounds(tables, statistic)[end == "upper"]
        at = bounds.sharp_allocation(tables, statistic, end)
        for table, completed, value in zip(tables.tolist(), at.reshape(-1, 4).tolist(), found, strict=True):
            assert is_completion(table, completed)
            exact = square(statistic, *completed)
            if exact is None:
                assert np.isnan(value)
                continue
            assert value == pytest.approx(as_float(statistic, exact), rel=1.2e-15, abs=0)
            for other in moved_one(completed):
                if is_completion(table, other) and square(statistic, *other) is not None:
                    assert sign * square(statistic, *other) >= sign * exact


def test_balanced_accuracy_splits_cc_exactly_where_floats_cannot_tell():
    # neighbouring splits differ by less than floats resolve: the better one is chosen all the same
    rng = np.random.default_rng(12)
    tables = np.zeros((300, 3, 3), dtype=np.int64)
    tables[:, [0, 1], [1, 0]] = rng.integers(1, 2**49, size=(300, 2))
    tables[:, 2, 2] = 2**49 - rng.integers(0, 2**40, size=300)
    at = bounds.sharp_allocation(tables, "balanced_accuracy", "upper").reshape(-1, 4).tolist()
    inside = 0
    for table, best in zip(tables.tolist(), at, strict=True):
        exact = square("balanced_accuracy", *best)
        for shift in (-1, 1):
            other = (best[0] + shift, best[1], best[2], best[3] - shift)
            if is_completion(table, other):
                assert square("balanced_accuracy", *other) <= exact
                inside += 1
    assert inside > 400


# -------------------------------------------------------------------------------------------------- the forms


def test_leading_dims_lists_floats_and_read_only():
    tables = random_tables(24, 5, 9).reshape(2, 3, 4, 3, 3)
    tables.setflags(write=False)
    lower, upper = bounds.sharp_bounds(tables, "kappa")
    assert lower.shape == upper.shape == (2, 3, 4)
    assert bounds.sharp_allocation(tables, "kappa").shape == (2, 3, 4, 2, 2)
    one = bounds.sharp_bounds(tables[1, 2, 3].tolist(), "kappa")
    np.testing.assert_array_equal(one, (lower[1, 2, 3], upper[1, 2, 3]))
    np.testing.assert_array_equal(bounds.sharp_bounds(tables.astype(np.float32), "kappa"), (lower, upper))
    np.testing.assert_array_equal(bounds.sharp_bounds(tables.astype(np.uint8), "kappa"), (lower, upper))
    assert bounds.sharp_bounds(np.zeros((0, 3, 3)), "f1")[0].shape == (0,)
    assert bounds.sharp_allocation(np.zeros((0, 5, 3, 3), int)).shape == (0, 5, 2, 2)


def test_more_tables_than_a_block():
    tables = random_tables(40_000, 6, 9)
    lower, upper, reason = bounds.sharp_bounds_with_reason(tables, "phi")
    for i in (0, 16_383, 16_384, 39_999):
        np.testing.assert_array_equal(
            bounds.sharp_bounds_with_reason(tables[i], "phi"), (lower[i], upper[i], reason[i])
        )


@pytest.mark.parametrize(
    ("table", "match"),
    [
        ([[1, 2], [3, 4]], "category_bounds"),
        (np.zeros((4, 4)), "category_bounds"),
        ([1, 2, 3], r"shape \(\.\.\., L\+1, L\+1\)"),
        ([[1, 2, 0], [0, -1, 0], [0, 0, 0]], "negative"),
        ([[1, 2, 0], [0, np.nan, 0], [0, 0, 0]], "NaN"),
        ([[1, 2, 0], [0, 0.5, 0], [0, 0, 0]], "whole"),
        ([[1, 2, 0], [0, 2**50, 0], [0, 0, 0]], r"2\*\*49"),
        ([["a", "b", "c"]] * 3, "dtype"),
    ],
)
def test_tables_that_are_not_counts(table, match):
    with pytest.raises(StructureError, match=match):
        bounds.sharp_bounds(table)


def test_arguments_that_do_not_exist():
    with pytest.raises(ProtocolError, match="no sharp bounds for 'auc'"):
        bounds.sharp_bounds(RUBRIC, "auc")
    with pytest.raises(ProtocolError, match="`end` must be"):
        bounds.sharp_allocation(RUBRIC, "f1", "middle")
    with pytest.raises(ProtocolError, match="`share` must lie in"):
        bounds.range_at_share(RUBRIC, "f1", [0.5, 1.1])
    with pytest.raises(ProtocolError, match="`share` must lie in"):
        bounds.range_at_share(RUBRIC, "f1", np.nan)
    with pytest.raises(StructureError, match="does not broadcast"):
        bounds.range_at_share([RUBRIC] * 3, "f1", [0.1, 0.2])
    with pytest.raises(ProtocolError, match="must be a number"):
        bounds.breakdown(RUBRIC, "f1", np.nan)


# ------------------------------------------------------------------------- between ignorable and worst case


def masses_at(table, share, rng):
    """A random completion at a share, by the definition of MATH.md section 5, in plain numbers."""
    n = np.asarray(table, dtype=float)
    covered = n[:2, :2]
    done = covered.copy()
    for a in range(2):
        free = rng.dirichlet([0.3, 0.3])
        if n[a, 2]:
            done[a] += n[a, 2] * ((1 - share) * covered[a] / covered[a].sum() + share * free)
        free = rng.dirichlet([0.3, 0.3])
        if n[2, a]:
            done[:, a] += n[2, a] * ((1 - share) * covered[:, a] / covered[:, a].sum() + share * free)
    if n[2, 2]:
        free = rng.dirichlet([0.2] * 4).reshape(2, 2)
        done += n[2, 2] * ((1 - share) * covered / covered.sum() + share * free)
    return done


def value_of(statistic, done):
    (tn, fp), (fn, tp) = done.tolist()
    n = tn + fp + fn + tp
    if statistic == "rate_reference":
        return (fn + tp) / n
    if statistic == "rate_rater":
        return (fp + tp) / n
    return float(getattr(coefficients, statistic)(done))


@pytest.mark.parametrize("statistic", bounds.STATISTICS)
def test_completions_at_a_share_lie_in_the_range_and_come_near_its_ends(statistic):
    rng = np.random.default_rng(8)
    for table in (
        [[30, 9, 6], [4, 22, 5], [7, 3, 8]],
        [[2, 5, 0], [6, 1, 9], [0, 4, 0]],
        [[9, 1, 0], [2, 8, 0], [0, 0, 12]],
    ):
        for share in (0.25, 0.8):
            lower, upper = bounds.range_at_share(table, statistic, share)
            values = [value_of(statistic, masses_at(table, share, rng)) for _ in range(1500)]
            assert lower - 1e-12 <= min(values)
            assert max(values) <= upper + 1e-12
            assert min(values) - lower < 0.12 * (upper - lower)
            assert upper - max(values) < 0.12 * (upper - lower)


@pytest.mark.parametrize("statistic", bounds.STATISTICS)
def test_share_zero_is_the_ignorable_completion(statistic):
    table = [[30, 9, 6], [4, 22, 5], [7, 3, 8]]
    done = masses_at(table, 0.0, np.random.default_rng(0))
    lower, upper = bounds.range_at_share(table, statistic, 0.0)
    assert lower == pytest.approx(upper, abs=1e-15)
    assert lower == pytest.approx(value_of(statistic, done), abs=1e-14)


@pytest.mark.parametrize("statistic", bounds.STATISTICS)
def test_share_one_is_the_sharp_range_and_the_limit_contains_it(statistic):
    tables = random_tables(400, 9, 5)
    sharp = bounds.sharp_bounds(tables, statistic)
    np.testing.assert_array_equal(bounds.range_at_share(tables, statistic, 1.0), sharp)
    lower, upper = bounds.range_at_share(tables, statistic, 1 - 1e-13)
    defined = ~np.isnan(lower)
    assert defined.sum() > 100
    assert (lower[defined] <= sharp[0][defined] + 1e-9).all()
    assert (upper[defined] >= sharp[1][defined] - 1e-9).all()


def test_odd_cc_makes_the_limit_wider_than_the_sharp_range():
    table = [[0, 2, 0], [2, 0, 0], [0, 0, 1]]  # whole cases cannot be halved
    sharp = bounds.sharp_bounds(table, "kappa")
    lower, upper = bounds.range_at_share(table, "kappa", 1 - 1e-12)
    assert upper == pytest.approx(1 - 5 * 4 / (2 * (2 * 3) + 2 * 0.5 * 0.5), abs=1e-9)
    assert upper > sharp[1] + 0.01
    assert lower < sharp[0] + 1e-9


def test_range_widens_with_the_share_and_broadcasts():
    shares = np.linspace(0, 1, 21)
    tables = random_tables(300, 10, 8)[:, None]
    for statistic in bounds.STATISTICS:
        lower, upper, reason = bounds.range_at_share_with_reason(tables, statistic, shares)
        assert lower.shape == (300, 21)
        real = ~np.isnan(lower[:, :-1]).any(1) & ~np.isnan(lower[:, -1])
        assert real.sum() > 60
        assert (np.diff(lower[real, :-1]) <= 1e-14).all()
        assert (np.diff(upper[real, :-1]) >= -1e-14).all()
        assert ((reason == 0) == ~np.isnan(lower)).all()


def test_no_covered_case_to_follow():
    table = [[0, 0, 2], [3, 4, 0], [0, 0, 0]]  # the reference's negatives are all unresolved
    lower, upper, reason = bounds.range_at_share_with_reason(table, "accuracy", [0, 0.5, 1])
    assert np.isnan(lower).tolist() == np.isnan(upper).tolist() == [True, True, False]
    assert reason.tolist() == [Reason.NO_COVERED_CASE, Reason.NO_COVERED_CASE, Reason.OK]
    # unresolved on the other side only: nothing to follow is missing
    assert bounds.range_at_share([[0, 0, 0], [3, 4, 2], [0, 0, 0]], "accuracy", 0.5)[0] < 1


def test_limits_that_no_completion_attains():
    # rater never positive among the covered; a trace of (0, C) turned positive gives precision 0
    precision = bounds.range_at_share([[5, 0, 2], [3, 0, 0], [0, 0, 0]], "precision", 0.5)
    assert precision == (0.0, 0.0)
    # covered all negative: kappa 0 at the best, below 0 once both sides have a trace
    lower, upper = bounds.range_at_share([[5, 0, 2], [0, 0, 0], [2, 0, 0]], "kappa", 0.5)
    assert upper == 0
    assert lower == pytest.approx(2 * -1 / (1 * 8 + 1 * 8), abs=1e-15)
    lower, upper = bounds.range_at_share([[5, 0, 2], [0, 0, 0], [2, 0, 0]], "phi", 0.5)
    assert (lower, upper) == (pytest.approx(-1 / 8, abs=1e-15), 0)
    # balanced accuracy: no reference positive among the covered, (C, 0) may hold a trace of them
    lower, upper = bounds.range_at_share([[4, 2, 0], [0, 0, 0], [2, 0, 0]], "balanced_accuracy", 0.5)
    assert upper == pytest.approx(0.5 * 6 / 8, abs=1e-15)
    assert lower == pytest.approx(0.5 * 5 / 7, abs=1e-15)


# ------------------------------------------------------------------------------------------------- breakdown


def test_breakdown_by_hand():
    # ignorable: 80 + 20 * 8/9 agree of 110, worst 80: 88 = 80 + (1 - s) 17.7...
    table = [[40, 5, 10], [5, 40, 10], [0, 0, 0]]
    assert bounds.breakdown(table, "accuracy", 0.8) == pytest.approx(0.55, abs=1e-15)
    # precision: ignorable d = 40 + 80/9, b = 5 + 10/9; worst d = 40, b = 15
    share = bounds.breakdown(table, "precision", 0.8)
    d, b = 40 + (1 - share) * 80 / 9, 5 + (1 - share) * 10 / 9 + share * 10
    assert d / (d + b) == pytest.approx(0.8, abs=1e-15)


@pytest.mark.parametrize("statistic", bounds.STATISTICS)
def test_breakdown_is_where_the_lower_end_crosses(statistic):
    rng = np.random.default_rng(12)
    tables = random_tables(400, 13, 20) + (rng.random((400, 1, 1)) < 0.8)
    start = bounds.range_at_share(tables, statistic, 0.0)[0]
    worst = bounds.range_at_share(tables, statistic, 1 - 1e-15)[0]
    threshold = np.where(np.isnan(start), 0.5, start + (worst - start) * rng.uniform(-0.3, 1.3, 400))
    share, reason = bounds.breakdown_with_reason(tables, statistic, threshold)
    inside = reason == 0
    assert inside.sum() > 120
    assert ((share[inside] >= 0) & (share[inside] <= 1)).all()
    cut, at = threshold[inside], share[inside]
    before = bounds.range_at_share(tables[inside], statistic, np.maximum(at - 1e-9, 0))[0]
    after = bounds.range_at_share(tables[inside], statistic, np.minimum(at + 1e-9, 1 - 1e-15))[0]
    assert (before >= cut - 1e-12).all()
    assert (after <= cut + 1e-12).all()
    false = reason == Reason.ALREADY_FALSE
    assert (start[false] <= threshold[false]).all()  # equal floats may differ as decimals
    holds = reason == Reason.CANNOT_BE_OVERTURNED
    assert np.isposinf(share[holds]).all()
    known = holds & ~np.isnan(worst)
    assert (worst[known] >= threshold[known] - 1e-12).all()
    assert np.isnan(share[~inside & ~holds]).all()


def test_ties_are_read_as_the_decimals_that_are_written():
    # worst accuracy is 55 of 100 and 0.55 * 100 in floats is 55.000000000000007
    holds = bounds.breakdown_with_reason([[30, 15, 10], [10, 25, 10], [0, 0, 0]], "accuracy", 0.55)
    assert (holds.share, holds.reason) == (np.inf, Reason.CANNOT_BE_OVERTURNED)
    # ignorable accuracy is (56 + 14) / 100 = 0.7: not false yet, overturned by any share
    table = [[28, 7, 10], [7, 28, 10], [4, 6, 0]]
    assert 0.8 * 70 + 0.8 * 30 == 80
    at_once = bounds.breakdown_with_reason(table, "accuracy", 0.8)
    assert (at_once.share, at_once.reason) == (0.0, Reason.OK)
    assert bounds.breakdown_with_reason(table, "accuracy", 0.8000001).reason == Reason.ALREADY_FALSE


def test_breakdown_without_an_answer():
    unfollowed = [[0, 0, 2], [3, 4, 0], [0, 0, 0]]
    found = bounds.breakdown_with_reason(unfollowed, "accuracy", [0.5, 0.4])
    assert reason_text(found.reason).tolist() == [
        "an unresolved cell without a covered case to follow",
        "cannot be overturned",  # 4 of 9 agree whatever the unresolved are
    ]
    undefined = bounds.breakdown_with_reason([[5, 0, 0], [0, 0, 0], [2, 0, 0]], "kappa", 0.5)
    assert str(reason_text(undefined.reason)) == "only one category in use"
    assert np.isnan(undefined.share)
    nothing = bounds.breakdown_with_reason([[5, 1, 0], [2, 4, 0], [0, 0, 0]], "f1", [0.7, 0.8])
    assert reason_text(nothing.reason).tolist() == ["cannot be overturned", "already false"]


def test_breakdown_broadcasts_tables_against_thresholds():
    tables = np.array([REAL_SIZE, [[40, 5, 10], [5, 40, 10], [0, 0, 0]]])
    found = bounds.breakdown(tables[:, None], "kappa", [0.1, 0.3, 0.4])
    assert found.shape == (2, 3)
    assert found[1, 2] == bounds.breakdown(tables[1], "kappa", 0.4)
    assert (np.diff(found[0]) <= 0).all()


# ------------------------------------------------------------------------------------------------ raw tables


def test_unresolved_outcomes_of_a_raw_table():
    # places: negative, positive, missing, CA, invalid
    raw = np.array([[5, 1, 9, 2, 1], [2, 6, 9, 0, 3], [9, 9, 9, 9, 9], [1, 0, 9, 4, 1], [0, 2, 9, 1, 2]])
    assert bounds.unresolved_table(raw).tolist() == [[5, 1, 3], [2, 6, 3], [1, 2, 8]]
    assert bounds.unresolved_table(raw, ["ca"]).tolist() == [[5, 1, 2], [2, 6, 0], [1, 0, 4]]
    assert bounds.unresolved_table(raw, "invalid").tolist() == [[5, 1, 1], [2, 6, 3], [0, 2, 2]]
    assert bounds.unresolved_table(raw, ()).tolist() == [[5, 1, 0], [2, 6, 0], [0, 0, 0]]
    assert bounds.unresolved_table(np.stack([raw, raw])).shape == (2, 3, 3)


def test_missing_never_is_unresolved():
    with pytest.raises(ProtocolError, match='may name "ca" and "invalid"; got \'missing\''):
        bounds.unresolved_table(np.zeros((5, 5), int), ["ca", "missing"])
    with pytest.raises(StructureError, match="raw table"):
        bounds.unresolved_table(np.zeros((3, 3), int))

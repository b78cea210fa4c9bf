"""Properties of identification ranges: they hold every completion, are attained, nested and symmetric."""

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from xjudge.statistics import bounds

STATISTICS = st.sampled_from(bounds.STATISTICS)
SYMMETRIC = st.sampled_from(["accuracy", "kappa", "phi"])


def tables(largest=12, size=3):
    few = st.one_of(st.just(0), st.integers(0, 2), st.integers(0, largest))
    return hnp.arrays(np.int64, (size, size), elements=few)


@st.composite
def completed(draw, size=3, largest=12):
    """A table with unresolved cases and one of its completions."""
    table = draw(tables(largest, size))
    L = size - 1
    done = table[:L, :L].copy()

    def send(amount, cells):
        for cell in cells[:-1]:
            some = draw(st.integers(0, amount))
            done[cell] += some
            amount -= some
        done[cells[-1]] += amount

    for k in range(L):
        send(int(table[k, L]), [(k, j) for j in range(L)])
        send(int(table[L, k]), [(i, k) for i in range(L)])
    send(int(table[L, L]), [(i, j) for i in range(L) for j in range(L)])
    return table, done


def value(statistic, done):
    """Value of a completed table: the range of a table with nothing unresolved."""
    table = np.zeros((3, 3), dtype=np.int64)
    table[:2, :2] = done
    lower, upper = bounds.sharp_bounds(table, statistic)
    np.testing.assert_array_equal(lower, upper)
    return float(lower)


@given(completed(), STATISTICS)
def test_every_completion_lies_inside(pair, statistic):
    table, done = pair
    lower, upper = bounds.sharp_bounds(table, statistic)
    x = value(statistic, done)
    if not np.isnan(x):
        assert lower - 1e-15 <= x <= upper + 1e-15


@given(tables(), STATISTICS)
def test_both_ends_are_attained(table, statistic):
    for end, expected in zip(("lower", "upper"), bounds.sharp_bounds(table, statistic), strict=True):
        done = bounds.sharp_allocation(table, statistic, end)
        assert (done >= table[:2, :2]).all()
        assert done.sum() == table.sum()
        assert (done.sum(1) >= table[:2].sum(1)).all()  # cases with a known reference keep it
        assert (done.sum(0) >= table[:, :2].sum(0)).all()
        np.testing.assert_array_equal(value(statistic, done), expected)


@given(tables(), STATISTICS, st.integers(0, 2), st.integers(0, 2))
def test_resolving_a_case_narrows(table, statistic, row, column):
    assume(table[row, column] > 0)
    assume(row == 2 or column == 2)
    lower, upper = bounds.sharp_bounds(table, statistic)
    ends = []
    for i in (0, 1) if row == 2 else (row,):
        for j in (0, 1) if column == 2 else (column,):
            resolved = table.copy()
            resolved[row, column] -= 1
            resolved[i, j] += 1
            ends.append(bounds.sharp_bounds(resolved, statistic))
    ends = np.array(ends)
    defined = ends[~np.isnan(ends[:, 0])]
    if np.isnan(lower):
        assert not defined.size
    else:  # the range is the union's hull of the ranges after any one case is resolved
        assert (defined[:, 0].min(), defined[:, 1].max()) == (lower, upper)


@given(tables(), SYMMETRIC)
def test_relabelling_and_transposition(table, statistic):
    expected = bounds.sharp_bounds(table, statistic)
    relabelled = table[np.ix_([1, 0, 2], [1, 0, 2])]
    np.testing.assert_allclose(bounds.sharp_bounds(relabelled, statistic), expected, rtol=1e-14)
    np.testing.assert_allclose(bounds.sharp_bounds(table.T, statistic), expected, rtol=1e-14)


@given(tables())
def test_precision_is_recall_of_the_transposed_and_recall_is_specificity_relabelled(table):
    recall = bounds.sharp_bounds(table, "recall")
    np.testing.assert_array_equal(bounds.sharp_bounds(table.T, "precision"), recall)
    relabelled = table[np.ix_([1, 0, 2], [1, 0, 2])]
    np.testing.assert_array_equal(bounds.sharp_bounds(relabelled, "specificity"), recall)
    np.testing.assert_array_equal(
        bounds.sharp_bounds(table.T, "rate_rater"), bounds.sharp_bounds(table, "rate_reference")
    )
    np.testing.assert_array_equal(bounds.sharp_bounds(table.T, "f1"), bounds.sharp_bounds(table, "f1"))


@given(tables())
def test_reading_the_rater_the_other_way_round_mirrors(table):
    mirrored = table[:, [1, 0, 2]]
    for statistic, about in (("accuracy", 1), ("balanced_accuracy", 1), ("phi", 0), ("rate_rater", 1)):
        lower, upper = bounds.sharp_bounds(table, statistic)
        np.testing.assert_allclose(
            bounds.sharp_bounds(mirrored, statistic), (about - upper, about - lower), atol=1e-14
        )


@given(tables(), STATISTICS, st.integers(2, 10**7))
def test_more_cases_in_proportion_only_widen(table, statistic, factor):
    lower, upper = bounds.sharp_bounds(table, statistic)
    low, high = bounds.sharp_bounds(table * factor, statistic)
    if not np.isnan(lower):  # a completion scales; more cases allow splits in between
        assert low <= lower + 1e-14
        assert high >= upper - 1e-14
    if statistic == "accuracy":
        np.testing.assert_allclose((low, high), (lower, upper), rtol=1e-15)


@given(tables(), STATISTICS, st.floats(0, 1), st.floats(0, 1))
def test_ranges_are_nested_in_the_share(table, statistic, one, other):
    small, large = sorted((one, other))
    assume(large < 1)
    lower, upper = bounds.range_at_share(np.broadcast_to(table, (2, 3, 3)), statistic, [small, large])
    if not np.isnan(lower[0]):
        assert lower[1] <= lower[0] + 1e-12
        assert upper[1] >= upper[0] - 1e-12
        assert lower[0] <= upper[0] + 1e-12


@given(tables(), STATISTICS)
def test_the_limit_of_the_shares_contains_the_sharp_range(table, statistic):
    lower, upper = bounds.range_at_share(table, statistic, 1 - 2**-50)
    low, high = bounds.sharp_bounds(table, statistic)
    if not np.isnan(lower):
        assert lower <= low + 1e-9
        assert upper >= high - 1e-9


@given(tables(), STATISTICS, st.integers(0, 100))
def test_breakdown_is_the_share_at_which_the_claim_fails(table, statistic, hundredths):
    threshold = hundredths / 100
    share, reason = bounds.breakdown_with_reason(table, statistic, threshold)
    assert (np.isfinite(share)) == (reason == 0)
    if not np.isfinite(share):
        return
    shares = np.array([max(share - 1e-7, 0.0), min(share + 1e-7, 1 - 2**-52)])
    before, after = bounds.range_at_share(table[None], statistic, shares)[0]
    assert before >= threshold - 1e-12
    assert after <= threshold + 1e-12


@given(tables(), STATISTICS, st.integers(0, 99))
def test_a_lower_threshold_takes_a_larger_share(table, statistic, hundredths):
    higher, lower = bounds.breakdown(table[None], statistic, [(hundredths + 1) / 100, hundredths / 100])
    if not np.isnan(higher):
        assert lower >= higher - 1e-12


@given(
    completed(size=4, largest=6),
    st.sampled_from(["identity", "linear", "quadratic"]),
    st.sampled_from([0, 500, 20_000]),
)
def test_every_completion_of_three_categories_lies_inside(pair, weights, work):
    table, done = pair
    resolved = np.zeros((4, 4), dtype=np.int64)
    resolved[:3, :3] = done
    for statistic in ("accuracy", "kappa"):
        found = bounds.category_bounds(table, statistic, weights=weights, max_work=work)
        x = float(bounds.category_bounds(resolved, statistic, weights=weights).lower)
        if not np.isnan(x):
            assert found.lower - 1e-12 <= x <= found.upper + 1e-12


@given(tables(5, 4), st.permutations([0, 1, 2]))
def test_category_order_and_sides_do_not_matter_to_nominal_kappa(table, order):
    expected = bounds.category_bounds(table, "kappa")
    assert expected.kind == "sharp"
    places = [*order, 3]
    for other in (table[np.ix_(places, places)], table.T):
        np.testing.assert_allclose(bounds.category_bounds(other, "kappa")[:2], expected[:2], atol=1e-12)


@given(
    hnp.arrays(np.int64, (5, 3), elements=st.integers(0, 3)),
    st.lists(st.integers(0, 2), min_size=5, max_size=5),
    st.sampled_from(bounds.RATER_STATISTICS),
    st.sampled_from([0, 10**7]),
    st.data(),
)
def test_every_completed_panel_lies_inside(counts, unresolved, statistic, work, data):
    found = bounds.rater_bounds(counts, unresolved, statistic, max_work=work)
    done = counts.copy()
    for i, u in enumerate(unresolved):
        for _ in range(u):
            done[i, data.draw(st.integers(0, 2))] += 1
    x = float(bounds.rater_bounds(done, np.zeros(5, int), statistic).lower)
    if not np.isnan(x):
        assert found.lower - 1e-12 <= x <= found.upper + 1e-12
    order = data.draw(st.permutations(range(5)))
    again = bounds.rater_bounds(counts[order], np.array(unresolved)[order], statistic, max_work=work)
    np.testing.assert_allclose(again[:2], found[:2], atol=1e-12)

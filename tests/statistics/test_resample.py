"""Resampling weights, interval ends, adjusted p-values: against scipy, exact fractions and plain loops."""

import math
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from xjudge.errors import ProtocolError
from xjudge.statistics import _multinomial, resample
from xjudge.statistics.raters import alpha, count_vector_histogram, evaluate_raters, influence, jackknife
from xjudge.statistics.resample import (
    acceleration,
    bca_interval,
    benjamini_yekutieli,
    delta_interval,
    holm,
    mcnemar_exact,
    multinomial_blocks,
    multinomial_weights,
    percentile_interval,
    poisson_weights,
    probability_best,
    resampled,
    studentized_interval,
    two_stage_weights,
    undefined_share,
    wilson_interval,
)

NAN = np.nan


class TestWeights:
    # 200 items in 3 patterns are drawn as totals; 12 items in 4 patterns one by one; 70 patterns, of 5 items
    # to 400, as Poisson totals, tabled and not, and the items that are missing
    laws = pytest.mark.parametrize(
        "counts", [[120, 0, 30, 50], [5, 0, 4, 2, 1], [5, 0, *[5, 12, 25] * 22, 64, 65, 400]]
    )

    @laws
    def test_rows_sum_to_the_items(self, counts):
        weights = multinomial_weights(counts, 50, seed=1)
        assert weights.shape == (50, len(counts))
        assert weights.dtype == np.int64
        assert (weights.sum(1) == sum(counts)).all()
        assert (weights >= 0).all()
        assert (weights[:, 1] == 0).all()

    @laws
    def test_same_seed_same_weights(self, counts):
        first = multinomial_weights(counts, 20, seed=3)
        np.testing.assert_array_equal(first, multinomial_weights(counts, 20, seed=3))
        assert (first != multinomial_weights(counts, 20, seed=4)).any()

    @laws
    def test_blocks_and_the_number_of_resamples_do_not_matter(self, counts):
        whole = multinomial_weights(counts, 20, seed=3)
        for block in (1, 7, 100):
            parts = list(multinomial_blocks(counts, 20, seed=3, block=block))
            np.testing.assert_array_equal(np.concatenate(parts), whole)
        np.testing.assert_array_equal(multinomial_weights(counts, 5, seed=3), whole[:5])

    @laws
    def test_moments_of_the_law(self, counts):
        n, share = sum(counts), np.array(counts) / sum(counts)
        weights = multinomial_weights(counts, 20_000, seed=0)
        covariance = n * (np.diag(share) - np.outer(share, share))
        spread = np.sqrt(np.diag(covariance))
        assert (np.abs(weights.mean(0) - n * share) <= 4.5 * spread / np.sqrt(20_000)).all()
        error = 4.5 * np.sqrt((np.outer(spread, spread) ** 2 + covariance**2) / 20_000)
        assert (np.abs(np.cov(weights.T) - covariance) <= error + 1e-12).all()

    def test_both_ways_of_drawing_have_one_law(self):
        # the same three patterns, once above and once below the switch from items to totals
        for n in (4, 40):
            counts = np.array([n // 4, n // 2, n // 4])
            weights = multinomial_weights(counts, 40_000, seed=5)
            observed = np.bincount(weights[:, 1], minlength=n + 1)
            expected = 40_000 * stats.binom.pmf(np.arange(n + 1), n, 0.5)
            keep = expected > 5
            statistic = ((observed - expected)[keep] ** 2 / expected[keep]).sum()
            assert statistic < stats.chi2.ppf(1 - 1e-4, keep.sum() - 1)

    def test_totals_of_many_patterns_have_the_binomial_law(self):
        # every value of a small, a tabled and an untabled pattern, and of two of them together
        counts = np.array([1, 30, 200, *[9] * 80])
        n = int(counts.sum())
        assert resample.pays(n, len(counts))
        weights = multinomial_weights(counts, 40_000, seed=6)
        for drawn, share in (
            *zip(weights.T[:3], counts[:3] / n, strict=True),
            (weights[:, :2].sum(1), 31 / n),
        ):
            observed = np.bincount(drawn, minlength=n + 1)
            expected = 40_000 * stats.binom.pmf(np.arange(n + 1), n, share)
            keep = expected > 5
            statistic = ((observed - expected)[keep] ** 2 / expected[keep]).sum()
            assert statistic < stats.chi2.ppf(1 - 1e-4, keep.sum() - 1)

    def test_all_patterns_together_have_the_multinomial_law(self):
        """Pearson's statistic of a resample has mean U - 1 exactly, and its own variance."""
        counts = np.arange(20, 120)
        n, U = int(counts.sum()), len(counts)
        weights = multinomial_weights(counts, 20_000, seed=7)
        pearson = ((weights - counts) ** 2 / counts).sum(1)
        variance = 2 * (U - 1) + ((n / counts).sum() - U**2 - 2 * U + 2) / n
        assert abs(pearson.mean() - (U - 1)) <= 4.5 * np.sqrt(variance / 20_000)
        assert abs(pearson.var() / variance - 1) < 0.06

    @pytest.mark.parametrize("n_items", [1, 7, 65_535, 65_536, 65_537, 10**6, 10**11])
    def test_pattern_of_an_item(self, n_items):
        rng = np.random.default_rng(n_items)
        ends = np.unique(np.append(rng.integers(1, n_items + 1, 300), n_items))
        counts = np.diff(ends, prepend=0)
        items = np.unique(np.concatenate([ends - 1, ends[:-1], [0], rng.integers(0, n_items, 1000)]))
        found = _multinomial._PatternOf(counts)(items)
        np.testing.assert_array_equal(found, [np.flatnonzero(ends > item)[0] for item in items])

    def test_seed_sequences(self):
        parent = np.random.SeedSequence(7)
        child = parent.spawn(2)
        one, two = (multinomial_weights([5, 5], 10, seed=c) for c in child)
        assert (one != two).any()
        np.testing.assert_array_equal(multinomial_weights([5, 5], 10, seed=child[0]), one)
        np.testing.assert_array_equal(
            multinomial_weights([5, 5], 10, seed=np.random.SeedSequence(3)),
            multinomial_weights([5, 5], 10, 3),
        )

    def test_nothing_to_draw(self):
        np.testing.assert_array_equal(multinomial_weights([0, 0], 3, seed=0), np.zeros((3, 2)))
        assert multinomial_weights([], 3, seed=0).shape == (3, 0)
        assert multinomial_weights([1, 2], 0, seed=0).shape == (0, 2)

    def test_order_of_the_items_does_not_matter(self):
        labels = np.random.default_rng(0).integers(-1, 3, size=(60, 4))
        results = []
        for data in (labels, labels[::-1]):
            patterns, multiplicities = count_vector_histogram(data, 3)
            results.append(
                resampled(lambda w, p=patterns: alpha(p, item_weights=w), multiplicities, 30, seed=1)
            )
        np.testing.assert_array_equal(*results)

    def test_replicates_of_several_values(self):
        patterns, multiplicities = [[2, 0], [1, 1], [0, 2]], [20, 10, 10]

        def both(weights):
            values = [evaluate_raters(n, patterns, item_weights=weights).value for n in ("alpha", "gwet_ac")]
            return np.stack(values, axis=-1)

        assert resampled(both, multiplicities, 25, seed=0).shape == (25, 2)


class TestTwoStages:
    present = np.array([[1, 1, 1], [1, 0, 1], [0, 0, 0], [0, 1, 0]], dtype=bool)

    def test_totals(self):
        weights = two_stage_weights(self.present, 500, seed=0)
        assert weights.shape == (500, 4, 3)
        assert (weights[:, ~self.present] == 0).all()
        # an item drawn w times has w times its number of criteria
        drawn = weights.sum(2)
        assert (drawn[:, 0] % 3 == 0).all()
        assert (drawn[:, 1] % 2 == 0).all()
        times = np.column_stack([drawn[:, 0] / 3, drawn[:, 1] / 2, drawn[:, 3]])
        assert times.sum(1).max() <= 4
        assert times.sum(1).min() < 4  # the item without criteria is drawn too

    def test_means(self):
        weights = two_stage_weights(self.present, 20_000, seed=1)
        np.testing.assert_allclose(weights.mean(0), self.present, atol=0.06)

    def test_same_seed(self):
        first = two_stage_weights(self.present, 10, seed=2)
        np.testing.assert_array_equal(first, two_stage_weights(self.present, 10, seed=2))
        np.testing.assert_array_equal(first[:4], two_stage_weights(self.present, 4, seed=2))

    def test_no_items(self):
        assert two_stage_weights(np.zeros((0, 3)), 2, seed=0).shape == (2, 0, 3)


class TestPoisson:
    @given(st.lists(st.integers(0, 9000), min_size=1, max_size=4))
    def test_cuts_do_not_matter(self, cuts):
        edges = [0, *sorted(cuts), 9000]
        whole = poisson_weights(0, 9000, 2, seed=1)
        parts = [poisson_weights(a, b, 2, seed=1) for a, b in pairwise(edges)]
        np.testing.assert_array_equal(np.concatenate(parts, axis=1), whole)

    def test_law(self):
        weights = poisson_weights(0, 50_000, 2, seed=0)
        assert weights.mean() == pytest.approx(1, abs=0.015)
        assert weights.var() == pytest.approx(1, abs=0.03)
        assert abs(np.corrcoef(weights)[0, 1]) < 0.02


class TestPercentile:
    def test_is_the_quantile_of_what_is_defined(self):
        rng = np.random.default_rng(0)
        replicates = rng.normal(size=(200, 3, 2))
        replicates[rng.random(replicates.shape) < 0.2] = NAN
        got = percentile_interval(replicates, 0.9)
        for place in product(range(3), range(2)):
            column = replicates[(slice(None), *place)]
            want = np.quantile(column[~np.isnan(column)], [0.05, 0.95])
            assert (got.lower[place], got.upper[place]) == pytest.approx(tuple(want))
        np.testing.assert_allclose(undefined_share(replicates), np.isnan(replicates).mean(0))

    def test_nothing_defined(self):
        got = percentile_interval(np.full((5, 2), NAN))
        assert np.isnan(got).all()
        assert (undefined_share(np.full((5, 2), NAN)) == 1).all()
        assert np.isnan(percentile_interval(np.empty((0, 2)))).all()
        assert np.isnan(undefined_share(np.empty((0, 2)))).all()

    def test_one_replicate_is_both_ends(self):
        assert percentile_interval([NAN, 0.3]) == (0.3, 0.3)

    def test_wataoka(self):
        # closed_form.json: 95 % interval of kappa; tolerance 4 x mc_sd at 10,000 replicates
        def kappa(w):
            tn, fp, fn, tp = w.T
            a, b = (tp + fn) * (fn + tn), (tp + fp) * (fp + tn)
            return 2 * (tp * tn - fp * fn) / (a + b)

        replicates = resampled(kappa, [118, 160, 108, 1852], 10_000, seed=0)
        got = percentile_interval(replicates)
        assert got.lower == pytest.approx(0.34231094879708, abs=4 * 0.00097277229529452)
        assert got.upper == pytest.approx(0.45896340627713, abs=4 * 0.00069113551970348)


class TestBca:
    @pytest.mark.parametrize("statistic", [np.mean, np.std])
    def test_scipy_on_the_same_replicates(self, statistic):
        data = np.random.default_rng(2).exponential(size=30)
        there = stats.bootstrap((data,), statistic, n_resamples=999, method="BCa", rng=0)
        left_out = np.array([statistic(np.delete(data, i)) for i in range(30)])
        a = acceleration(left_out.mean() - left_out)
        got = bca_interval(statistic(data), there.bootstrap_distribution, a)
        want = there.confidence_interval
        assert (got.lower, got.upper) == pytest.approx((want.low, want.high), rel=1e-9)

    def test_influence_and_jackknife_accelerate_alike(self):
        counts = np.random.default_rng(3).integers(0, 3, size=(400, 3))
        left_out = jackknife("alpha", counts).value
        by_jackknife = acceleration(left_out.mean() - left_out)
        assert acceleration(influence("alpha", counts)) == pytest.approx(by_jackknife, rel=0.1, abs=1e-4)

    def test_acceleration_with_multiplicities(self):
        psi, weights = np.array([0.3, -0.1, -0.2]), np.array([2, 4, 1])
        assert acceleration(psi, weights) == pytest.approx(acceleration(np.repeat(psi, weights)))
        assert np.isnan(acceleration([0.0, 0.0]))

    def test_ties_count_half(self):
        # half below, half equal, none above: share 3/4
        replicates = np.array([0.0] * 50 + [1.0] * 50)
        got = bca_interval(1.0, replicates, level=0.5)
        share = [stats.norm.cdf(2 * stats.norm.ppf(0.75) + z) for z in stats.norm.ppf([0.25, 0.75])]
        want = np.quantile(replicates, share)
        assert (got.lower, got.upper) == pytest.approx(tuple(want))

    def test_all_equal(self):
        assert bca_interval(1.0, np.ones(20), NAN) == (1, 1)

    def test_undefined(self):
        assert np.isnan(bca_interval(NAN, [0.1, 0.2])).all()
        assert np.isnan(bca_interval(0.1, [NAN, NAN])).all()
        assert np.isnan(bca_interval(0.5, [0.1, 0.2])).all()  # outside all replicates
        assert np.isnan(bca_interval(0.1, np.empty(0))).all()

    def test_beyond_the_pole(self):
        got = bca_interval(0.5, np.linspace(0, 1, 101), 0.9)
        assert 0 <= got.lower <= got.upper == 1

    def test_a_batch_is_its_columns(self):
        rng = np.random.default_rng(4)
        replicates = rng.normal(size=(300, 4))
        replicates[rng.random((300, 4)) < 0.1] = NAN
        estimate, a = np.array([0.1, -0.2, 0.0, 0.3]), np.array([0.05, 0, -0.1, NAN])
        got = bca_interval(estimate, replicates, a)
        for j in range(4):
            one = bca_interval(estimate[j], replicates[:, j], a[j])
            assert (got.lower[j], got.upper[j]) == (one.lower, one.upper)


class TestStudentized:
    def test_by_hand(self):
        replicates = np.array([0.4, 0.5, 0.6, 0.7, 0.9])
        errors = np.array([0.1, 0.2, 0.1, 0.1, 0.2])
        t = np.quantile((replicates - 0.55) / errors, [0.1, 0.9])
        got = studentized_interval(0.55, 0.15, replicates, errors, level=0.8)
        assert (got.lower, got.upper) == pytest.approx((0.55 - t[1] * 0.15, 0.55 - t[0] * 0.15))

    def test_replicates_without_an_error_are_left_out(self):
        replicates, errors = np.array([0.4, 0.6, 1.0, 0.5, NAN]), np.array([0.1, 0.1, 0.0, NAN, NAN])
        assert studentized_interval(0.5, 0.1, replicates, errors) == studentized_interval(
            0.5, 0.1, replicates[:2], errors[:2]
        )
        assert np.isnan(studentized_interval(0.5, 0.1, replicates[2:], errors[2:])).all()
        assert np.isnan(studentized_interval(0.5, NAN, replicates, errors)).all()


class TestDelta:
    def test_identity(self):
        got = delta_interval([0.2, 0.9], [0.1, NAN], level=0.9)
        half = stats.norm.ppf(0.95) * 0.1
        assert (got.lower[0], got.upper[0]) == pytest.approx((0.2 - half, 0.2 + half))
        assert np.isnan([got.lower[1], got.upper[1]]).all()

    def test_degrees_of_freedom(self):
        got = delta_interval(0.5, 0.1, degrees=[9, 0])
        assert got.upper[0] == pytest.approx(0.5 + stats.t.ppf(0.975, 9) * 0.1)
        assert np.isnan(got.upper[1])

    @pytest.mark.parametrize(
        ("transform", "forward", "inverse", "x"),
        [
            ("fisher", math.atanh, math.tanh, -0.7),
            ("logit", lambda p: math.log(p / (1 - p)), lambda y: 1 / (1 + math.exp(-y)), 0.93),
            ("complement", lambda c: -math.log(1 - c), lambda y: 1 - math.exp(-y), 0.85),
            ("log", math.log, math.exp, 2.5),
        ],
    )
    def test_transforms(self, transform, forward, inverse, x):
        h = 1e-6
        slope = (forward(x + h) - forward(x - h)) / (2 * h)
        half = stats.norm.ppf(0.975) * 0.05 * slope
        got = delta_interval(x, 0.05, transform=transform)
        want = inverse(forward(x) - half), inverse(forward(x) + half)
        assert (got.lower, got.upper) == pytest.approx(want, rel=1e-6)

    @given(
        st.floats(-0.999, 0.999),
        st.floats(0, 10),
        st.sampled_from(["fisher", "complement", "identity", "logit"]),
    )
    def test_ends_surround_the_estimate_and_keep_the_limits(self, x, se, transform):
        if transform == "logit":
            x = (x + 1) / 2
        got = delta_interval(x, se, transform=transform)
        assert got.lower <= x + 1e-12
        assert got.upper >= x - 1e-12
        if transform != "identity":
            assert got.upper <= 1
        if transform in ("fisher", "logit"):
            assert got.lower >= {"fisher": -1, "logit": 0}[transform]

    def test_positive_numbers_keep_positive_ends(self):
        ends = delta_interval(0.01, 0.5, transform="log")
        assert 0 <= ends.lower < 0.01 < ends.upper
        assert delta_interval(0.0, 0.0, transform="log") == (0, 0)
        assert np.isnan(delta_interval(0.0, 0.1, transform="log")).all()

    def test_an_end_without_bound(self):
        assert delta_interval(0.984375, 6.0, transform="complement") == (-np.inf, 1)

    def test_at_the_limit(self):
        for transform in ("fisher", "logit", "complement"):
            assert delta_interval(1.0, 0.0, transform=transform) == (1, 1)
            assert np.isnan(delta_interval(1.0, 0.1, transform=transform)).all()
            assert np.isnan(delta_interval(NAN, 0.0, transform=transform)).all()


class TestWilson:
    @pytest.mark.parametrize(("k", "n"), [(9, 10), (0, 7), (7, 7), (1, 1000), (50, 100)])
    def test_scipy(self, k, n):
        for level in (0.9, 0.95):
            want = stats.binomtest(k, n).proportion_ci(level, method="wilson")
            got = wilson_interval(k, n, level)
            assert (got.lower, got.upper) == pytest.approx((want.low, want.high), abs=1e-12)

    def test_vectorised_and_undefined(self):
        got = wilson_interval([1, 0], [2, 0])
        assert got.lower.shape == (2,)
        assert np.isnan([got.lower[1], got.upper[1]]).all()

    def test_ends_of_the_range_are_exact(self):
        assert wilson_interval(0, 13).lower == 0
        assert wilson_interval(13, 13).upper == 1


class TestMcNemar:
    def test_printed(self):
        # closed_form.json: Wataoka against the baseline, and marginal homogeneity
        assert mcnemar_exact(118, 108) == pytest.approx(0.549487657947, abs=1e-12)
        assert mcnemar_exact(108, 160) == pytest.approx(0.0017849283466972, abs=1e-12)

    @given(st.integers(0, 25), st.integers(0, 25))
    def test_exact_fractions(self, a, b):
        n = a + b
        tail = sum(Fraction(math.comb(n, i), 2**n) for i in range(min(a, b) + 1))
        assert mcnemar_exact(a, b) == pytest.approx(float(min(1, 2 * tail)), abs=1e-12)

    def test_no_discordant_pair(self):
        np.testing.assert_array_equal(mcnemar_exact([0, 3], [0, 3]), [1, 1])

    def test_large(self):
        assert mcnemar_exact(500_000, 501_500) == pytest.approx(stats.binomtest(500_000, 1_001_500).pvalue)


def plain_holm(p):
    order = sorted(range(len(p)), key=lambda i: p[i])
    out, running = [0.0] * len(p), 0.0
    for rank, i in enumerate(order):
        running = max(running, min(1.0, (len(p) - rank) * p[i]))
        out[i] = running
    return out


def plain_by(p):
    n = len(p)
    harmonic = sum(1 / j for j in range(1, n + 1))
    order = sorted(range(n), key=lambda i: p[i])
    out, running = [0.0] * n, 1.0
    for rank in reversed(range(n)):
        running = min(running, p[order[rank]] * n * harmonic / (rank + 1))
        out[order[rank]] = running
    return out


p_values = st.lists(st.floats(0, 1) | st.sampled_from([0.01, 0.05]), min_size=1, max_size=9)


class TestAdjusted:
    @given(p_values)
    def test_plain_loops(self, p):
        np.testing.assert_allclose(holm(p), plain_holm(p), atol=1e-12)
        np.testing.assert_allclose(benjamini_yekutieli(p), plain_by(p), atol=1e-12)
        np.testing.assert_allclose(
            benjamini_yekutieli(p), stats.false_discovery_control(p, method="by"), atol=1e-12
        )

    @given(p_values, st.integers(0, 3), st.randoms(use_true_random=False))
    def test_missing_tests_do_not_count(self, p, n_missing, random):
        mixed = [*p, *[NAN] * n_missing]
        random.shuffle(mixed)
        there = ~np.isnan(mixed)
        for adjust in (holm, benjamini_yekutieli):
            got = adjust(mixed)
            assert np.isnan(got[~there]).all()
            np.testing.assert_allclose(got[there], adjust(np.array(mixed)[there]), atol=1e-12)

    def test_axis(self):
        p = np.random.default_rng(0).random((4, 3))
        for adjust in (holm, benjamini_yekutieli):
            np.testing.assert_array_equal(adjust(p, axis=0), adjust(p.T).T)
            np.testing.assert_array_equal(adjust(p)[2], adjust(p[2]))

    def test_nothing(self):
        assert holm([]).shape == (0,)
        assert benjamini_yekutieli([]).shape == (0,)
        assert np.isnan(benjamini_yekutieli([NAN, NAN])).all()


class TestBest:
    def test_ties_are_split_and_incomplete_replicates_left_out(self):
        replicates = [[0.9, 0.8, 0.9], [0.5, 0.6, 0.1], [0.2, 0.2, 0.2], [1.0, NAN, 0.0]]
        np.testing.assert_allclose(
            probability_best(replicates), np.array([1 / 2 + 1 / 3, 1 + 1 / 3, 1 / 2 + 1 / 3]) / 3
        )

    def test_axis(self):
        replicates = np.random.default_rng(0).random((50, 4, 2))
        got = probability_best(replicates, axis=1)
        assert got.shape == (4, 2)
        np.testing.assert_allclose(got.sum(0), 1)
        np.testing.assert_array_equal(got[:, 1], probability_best(replicates[:, :, 1]))

    def test_nothing_complete(self):
        assert np.isnan(probability_best([[NAN, 1.0]])).all()


def test_intervals_of_alpha_cover_about_their_level():
    """A smoke test; the coverage study is benchmarks/coverage.py."""
    rng = np.random.default_rng(11)
    truth = rng.random((200_000, 1)) < 0.5

    def labels(n):
        own = truth[rng.integers(0, len(truth), n)]
        return np.where(rng.random((n, 3)) < 0.85, own, ~own).astype(np.int8)

    patterns, multiplicities = count_vector_histogram(labels(200_000), 2)
    target = alpha(patterns, item_weights=multiplicities)
    hits = np.zeros(3)
    for repeat in range(300):
        patterns, multiplicities = count_vector_histogram(labels(80), 2)
        estimate = alpha(patterns, item_weights=multiplicities)
        psi = influence("alpha", patterns, item_weights=multiplicities)
        se = np.sqrt((multiplicities * psi**2).sum())
        replicates = resampled(
            lambda w, p=patterns: alpha(p, item_weights=w), multiplicities, 300, seed=repeat
        )
        intervals = (
            percentile_interval(replicates),
            bca_interval(estimate, replicates, acceleration(psi, multiplicities)),
            delta_interval(estimate, se),
        )
        hits += [interval.lower <= target <= interval.upper for interval in intervals]
    assert (hits / 300 > 0.90).all()
    assert (hits / 300 < 0.985).all()


class TestErrors:
    @pytest.mark.parametrize(
        ("call", "words"),
        [
            (lambda: multinomial_weights([-1, 2], 1, 0), "whole and not negative"),
            (lambda: multinomial_weights([0.5, 2], 1, 0), "whole and not negative"),
            (lambda: multinomial_weights([[1, 2]], 1, 0), r"shape \(pattern,\)"),
            (lambda: multinomial_weights(["a"], 1, 0), "whole numbers"),
            (lambda: multinomial_weights([1, 2], -1, 0), "`n_resamples` must not be negative; got -1"),
            (lambda: multinomial_weights([1, 2], 1, None), "`seed` must be a whole number.*got None"),
            (lambda: multinomial_weights([1, 2], 1, -1), "got -1"),
            (lambda: multinomial_weights([1, 2], 1, True), "got True"),
            (lambda: multinomial_blocks([1, 2], 1, 0, block=0), "`block` must be at least 1"),
            (lambda: resampled(np.sum, [1, 2], 0, 0), "`n_resamples` must be at least 1"),
            (lambda: two_stage_weights([True], 1, 0), "item, criterion"),
            (lambda: two_stage_weights([[True]], -1, 0), "not be negative"),
            (lambda: poisson_weights(3, 2, 1, 0), "0 <= start <= stop"),
            (lambda: percentile_interval([0.1], 95), "`level` must lie between 0 and 1; got 95"),
            (lambda: bca_interval(0.1, [0.1], level=0), "between 0 and 1"),
            (lambda: studentized_interval(0.1, 0.1, [0.1], [0.1], level=1), "between 0 and 1"),
            (lambda: delta_interval(0.1, 0.1, level=2), "between 0 and 1"),
            (lambda: delta_interval(0.1, 0.1, transform="power"), "'log'; got 'power'"),
            (lambda: wilson_interval(3, 2), "between 0 and `n`"),
            (lambda: wilson_interval(-1, 2), "between 0 and `n`"),
            (lambda: percentile_interval(0.3), "first axis"),
            (lambda: mcnemar_exact(1.5, 2), "whole and not negative"),
            (lambda: mcnemar_exact(-1, 2), "whole and not negative"),
            (lambda: holm([0.5, 1.5]), "between 0 and 1"),
            (lambda: benjamini_yekutieli([-0.1]), "between 0 and 1"),
            (lambda: probability_best([0.1, 0.2]), "an axis of replicates"),
        ],
    )
    def test_one_sentence(self, call, words):
        with pytest.raises(ProtocolError, match=words):
            call()

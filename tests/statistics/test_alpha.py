"""Krippendorff's alpha: the textbook data, the identity with Fleiss' kappa, real numbers, another library."""

import time
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
import slow_raters
from shared import needs_shared, oracle

from xjudge.errors import ProtocolError, Reason, StructureError
from xjudge.statistics.raters import (
    alpha,
    alpha_of_scores,
    count_vectors,
    evaluate_alpha_of_scores,
    fleiss_kappa,
    influence,
    influence_of_scores,
)
from xjudge.statistics.weights import distance_matrix, ordinal_distances

NONE = np.nan

# K. Krippendorff, "Computing Krippendorff's alpha-reliability" (2011): 4 observers, 12 units
TEXTBOOK = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, NONE, NONE, NONE],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NONE, 3],
        [NONE, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NONE],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NONE],
    ]
).T

TEXTBOOK_ALPHA = {
    "nominal": 0.74342105263158,
    "ordinal": 0.81538750375488,
    "interval": 0.84910714285714,
    "ratio": 0.797,  # as printed
}


def codes_of(scores):
    return np.where(np.isnan(scores), 0, scores).astype(int) - 1


@pytest.mark.parametrize("metric", TEXTBOOK_ALPHA)
def test_textbook(metric):
    tolerance = 5e-4 if metric == "ratio" else 1e-12
    counts = count_vectors(codes_of(TEXTBOOK), 5)
    assert alpha(counts, metric) == pytest.approx(TEXTBOOK_ALPHA[metric], abs=tolerance)
    assert alpha_of_scores(TEXTBOOK, metric) == pytest.approx(TEXTBOOK_ALPHA[metric], abs=tolerance)


@needs_shared
def test_textbook_oracle_is_the_same_data():
    stored = oracle("closed_form")["krippendorff_textbook"]
    scores = np.array(stored["raters_by_units"], dtype=float).T
    np.testing.assert_array_equal(scores, TEXTBOOK)
    for metric in ("nominal", "ordinal", "interval"):
        assert stored[f"alpha_{metric}"] == TEXTBOOK_ALPHA[metric]


@pytest.mark.parametrize(
    ("ratings", "n_categories", "kappa", "want"),
    [  # closed_form.json, alpha_fleiss_identity
        ([[1, 1, 1], [1, 1, 0], [0, 0, 0], [1, 0, 1], [0, 1, 0], [1, 1, 1]], 2, (23, 77), (26, 77)),
        ([[0, 0, 0, 1], [1, 1, 1, 1], [1, 0, 1, 1], [0, 0, 0, 0], [1, 0, 0, 1]], 2, (1, 3), (11, 30)),
        (
            [[0, 1, 2], [2, 2, 2], [1, 1, 0], [0, 0, 0], [2, 1, 2], [1, 1, 1], [0, 2, 0]],
            3,
            (5, 14),
            (19, 49),
        ),
        ([[1, 0], [0, 1], [1, 0], [0, 1]], 2, (-1, 1), (-3, 4)),
    ],
)
def test_alpha_and_fleiss_on_complete_data(ratings, n_categories, kappa, want):
    counts = count_vectors(ratings, n_categories)
    kappa, want = float(Fraction(*kappa)), float(Fraction(*want))
    assert fleiss_kappa(counts) == pytest.approx(kappa, abs=1e-14)
    assert alpha(counts) == pytest.approx(want, abs=1e-14)
    assert want == pytest.approx(kappa + (1 - kappa) / np.size(ratings), abs=1e-14)


@pytest.mark.parametrize("metric", ["nominal", "ordinal", "interval", "ratio"])
@pytest.mark.parametrize("missing", [0.0, 0.5])
def test_another_library(metric, missing):
    krippendorff = pytest.importorskip("krippendorff")
    rng = np.random.default_rng(1)
    labels = rng.binomial(4, rng.random((60, 1)), size=(60, 5))
    labels[rng.random(labels.shape) < missing] = -1
    scores = np.where(labels < 0, np.nan, labels + 1.0)
    want = krippendorff.alpha(scores.T, level_of_measurement=metric)
    assert alpha(count_vectors(labels, 5), metric) == pytest.approx(want, abs=1e-12)
    assert alpha_of_scores(scores, metric) == pytest.approx(want, abs=1e-12)


def test_own_distances():
    counts = count_vectors(codes_of(TEXTBOOK), 5)
    assert alpha(counts, distance_matrix("interval", 5)) == alpha(counts, "interval")
    used = counts[counts.sum(1) >= 2].sum(0)
    assert alpha(counts, ordinal_distances(used)) == pytest.approx(alpha(counts, "ordinal"), abs=1e-12)


def test_scores_of_the_categories():
    # categories 1, 2, 3, 4, 5 spread out as 1, 2, 4, 8, 16
    spread = np.array([NONE, 1, 2, 4, 8, 16])
    scores = spread[codes_of(TEXTBOOK) + 1]
    counts = count_vectors(codes_of(TEXTBOOK), 5)
    for metric in ("interval", "ratio"):
        got = alpha(counts, metric, scores=[1, 2, 4, 8, 16])
        assert got == pytest.approx(alpha_of_scores(scores, metric), abs=1e-12)
        assert abs(got - alpha(counts, metric)) > 0.01
    assert alpha(counts, "ordinal", scores=[1, 2, 4, 8, 16]) == alpha(counts, "ordinal")


def test_an_unused_category_keeps_its_place():
    labels = np.array([[0, 1], [3, 3], [1, 1], [0, 3]])
    assert alpha(count_vectors(labels, 4), "interval") == pytest.approx(
        float(slow_raters.alpha(labels.tolist(), [[(a - b) ** 2 for b in range(4)] for a in range(4)]))
    )
    # but a place nobody uses has no rank
    squeezed = np.array([[0, 1], [2, 2], [1, 1], [0, 2]])
    assert alpha(count_vectors(labels, 4), "ordinal") == alpha(count_vectors(squeezed, 3), "ordinal")


class TestScores:
    rng = np.random.default_rng(7)
    truth = rng.normal(size=(50, 1))
    scores = np.exp(truth + 0.5 * rng.normal(size=(50, 4)))
    scores[rng.random(scores.shape) < 0.3] = np.nan
    scores[:5] = np.round(scores[:5])  # a few ties

    @staticmethod
    def as_counts(scores):
        distinct, place = np.unique(scores[~np.isnan(scores)], return_inverse=True)
        codes = np.full(scores.shape, -1)
        codes[~np.isnan(scores)] = place
        return distinct, count_vectors(codes, len(distinct))

    @pytest.mark.parametrize("metric", ["nominal", "ordinal", "interval", "ratio"])
    def test_every_distinct_value_a_category(self, metric):
        distinct, counts = self.as_counts(self.scores)
        want = alpha(counts, metric, scores=distinct)
        assert alpha_of_scores(self.scores, metric) == pytest.approx(want, abs=1e-12)

    def test_circular(self):
        # three o'clock twice, just before and just after midnight
        hours = np.array([[3.0, 3.0], [23.5, 0.5], [12.0, 11.0]])
        distances = np.array(
            [[np.sin(np.pi * (a - b) / 24) ** 2 for b in hours.ravel()] for a in hours.ravel()]
        )
        within = 2 * (distances[0, 1] + distances[2, 3] + distances[4, 5])
        want = 1 - 5 * within / distances.sum()
        assert alpha_of_scores(hours, "circular", period=24) == pytest.approx(want, abs=1e-12)
        assert alpha_of_scores(hours + 24, "circular", period=24) == pytest.approx(want, abs=1e-12)

    def test_a_full_turn_is_no_difference(self):
        value, reason = evaluate_alpha_of_scores([[0.0, 24.0], [48.0, 0.0]], "circular", period=24)
        assert np.isnan(value)
        assert reason == Reason.NO_VARIATION

    @pytest.mark.parametrize("metric", ["nominal", "ordinal", "interval", "ratio", "circular"])
    def test_influence_is_the_derivative(self, metric):
        period = {"period": 7.0} if metric == "circular" else {}
        weights = np.random.default_rng(3).integers(1, 4, size=50).astype(float)
        h = 1e-5
        got = influence_of_scores(self.scores, metric, item_weights=weights, **period)
        up, down = (
            alpha_of_scores(self.scores, metric, item_weights=weights + sign * h * np.eye(50), **period)
            for sign in (1, -1)
        )
        np.testing.assert_allclose(got, (up - down) / (2 * h), atol=1e-8)

    @pytest.mark.parametrize("metric", ["nominal", "ordinal", "interval", "ratio"])
    def test_influence_is_that_of_the_counts(self, metric):
        distinct, counts = self.as_counts(self.scores)
        want = influence("alpha", counts, metric=metric, scores=distinct)
        np.testing.assert_allclose(influence_of_scores(self.scores, metric), want, atol=1e-12)

    @pytest.mark.parametrize("metric", ["nominal", "ordinal", "interval", "ratio"])
    def test_weights_are_multiplicities(self, metric):
        weights = np.random.default_rng(4).multinomial(50, np.full(50, 0.02), size=4)
        got = alpha_of_scores(self.scores, metric, item_weights=weights)
        want = [alpha_of_scores(np.repeat(self.scores, w, axis=0), metric) for w in weights]
        np.testing.assert_allclose(got, want, atol=1e-12)

    def test_leading_axes(self):
        batch = self.scores.reshape(2, 25, 4)
        weights = np.random.default_rng(5).integers(0, 3, size=(3, 1, 25))
        got = alpha_of_scores(batch, item_weights=weights)
        assert got.shape == (3, 2)
        assert got[1, 1] == alpha_of_scores(batch[1], item_weights=weights[1, 0])
        assert influence_of_scores(batch, item_weights=weights).shape == (3, 2, 25)

    @pytest.mark.parametrize("metric", ["interval", "ordinal", "nominal"])
    def test_600_items_and_2_raters_of_distinct_numbers(self, metric):
        scores = np.random.default_rng(0).normal(size=(600, 2))
        alpha_of_scores(scores, metric)
        start = time.process_time()
        alpha_of_scores(scores, metric)
        seconds = time.process_time() - start
        tracemalloc.start()
        alpha_of_scores(scores, metric)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert seconds < 0.05  # about 0.5 ms
        assert peak < 2e6

    def test_ratio_goes_in_blocks(self):
        scores = np.random.default_rng(0).random((2000, 2))
        tracemalloc.start()
        got = alpha_of_scores(scores, "ratio")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 60e6  # 4,000 x 4,000 doubles would be 128 MB
        every = np.sort(scores.ravel())
        chance = sum((((every - x) / (every + x)) ** 2).sum() for x in every)
        within = 2 * (((scores[:, 0] - scores[:, 1]) / scores.sum(1)) ** 2).sum()
        assert got == pytest.approx(1 - 3999 * within / chance, abs=1e-12)

    def test_far_from_zero(self):
        # 1e9 + small: a sum of squares minus a square of sums would lose everything
        small = self.scores
        assert alpha_of_scores(small + 2.0**30) == pytest.approx(alpha_of_scores(small), abs=1e-6)


class TestScoresUndefined:
    @pytest.mark.parametrize("metric", ["nominal", "ordinal", "interval", "ratio"])
    @pytest.mark.parametrize(
        "scores",
        [
            np.zeros((0, 2)),
            np.zeros((3, 0)),
            [[1.0], [2.0]],
            [[1.0, NONE], [NONE, 2.0]],
            np.full((2, 2), NONE),
        ],
        ids=["no items", "no raters", "one rater", "no overlap", "nothing"],
    )
    def test_no_pairs(self, scores, metric):
        value, reason = evaluate_alpha_of_scores(scores, metric)
        assert np.isnan(value)
        assert reason == Reason.NO_PAIRABLE_ITEM
        assert np.isnan(influence_of_scores(scores, metric)).all()

    @pytest.mark.parametrize("metric", ["nominal", "ordinal", "interval", "ratio"])
    def test_all_equal(self, metric):
        value, reason = evaluate_alpha_of_scores(
            [[0.1, 0.1, 0.1], [0.1, NONE, 0.1], [7.0, NONE, NONE]], metric
        )
        assert np.isnan(value)
        assert reason == Reason.NO_VARIATION

    def test_a_resample_of_one_item(self):
        scores = [[0.1, 0.1], [0.2, 0.3]]
        value, reason = evaluate_alpha_of_scores(scores, item_weights=[[2, 0], [0, 0], [1, 1]])
        np.testing.assert_array_equal(np.isnan(value), [True, True, False])
        assert reason.tolist() == [Reason.NO_VARIATION, Reason.NO_PAIRABLE_ITEM, Reason.OK]

    def test_inputs_are_left_alone(self):
        scores = np.array([[1.0, 2.0], [3.0, NONE], [0.0, 0.5]])
        scores.setflags(write=False)
        before = scores.copy()
        for metric in ("nominal", "ordinal", "interval", "ratio"):
            assert alpha_of_scores(scores, metric) == alpha_of_scores(before.copy(), metric)
            np.testing.assert_array_equal(
                influence_of_scores(scores, metric), influence_of_scores(before.copy(), metric)
            )
        np.testing.assert_array_equal(scores, before)

    @pytest.mark.parametrize(
        ("call", "error", "words"),
        [
            (lambda: alpha_of_scores([[1.0, 2.0]], "cubic"), ProtocolError, "'circular'; got 'cubic'"),
            (lambda: alpha_of_scores([1.0, 2.0]), StructureError, "item, rater"),
            (lambda: alpha_of_scores([["a", "b"]]), StructureError, "Scores are numbers"),
            (lambda: alpha_of_scores([[1.0, np.inf]]), StructureError, "finite; NaN"),
            (lambda: alpha_of_scores([[1.0, -2.0]], "ratio"), ProtocolError, "not negative; got -2"),
            (lambda: alpha_of_scores([[1.0, 2.0]], "circular"), ProtocolError, "`period` goes with"),
            (lambda: alpha_of_scores([[1.0, 2.0]], period=3), ProtocolError, "`period` goes with"),
            (lambda: alpha_of_scores([[1.0, 2.0]], "circular", period=0), ProtocolError, "positive"),
            (
                lambda: alpha_of_scores([[1.0, 2.0]], item_weights=[1, 2]),
                ProtocolError,
                "each of the 1 items",
            ),
            (lambda: alpha_of_scores([[1.0, 2.0]], item_weights=[-1]), ProtocolError, "not negative"),
        ],
    )
    def test_one_sentence(self, call, error, words):
        with pytest.raises(error, match=words):
            call()

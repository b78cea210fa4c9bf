"""One answer from many, residual geometry, and the effects of presentation, against plain loops."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from xjudge.errors import ProtocolError, StructureError, VocabularyError
from xjudge.statistics import panel


def pool(seed: int = 0, n: int = 80, k: int = 5, L: int = 3):  # type: ignore[no-untyped-def]
    generator = np.random.default_rng(seed)
    h = generator.dirichlet(np.ones(L), n)
    gold = h.argmax(1)
    judges = np.where(generator.random((n, k)) < 0.6, gold[:, None], generator.integers(0, L, (n, k)))
    return judges, h, gold


# ------------------------------------------------------------------------------------------------------ votes


def modes(row: list[int], L: int) -> list[int]:
    counts = [row.count(label) for label in range(L)]
    return [label for label in range(L) if counts[label] == max(counts) and max(counts) > 0]


@pytest.mark.parametrize("ties", ["first", "uniform", "hash"])
def test_majority_by_hand(ties: str) -> None:
    judges, _, _ = pool(k=4)
    judges[0] = -1
    judges[1, :2] = -2
    found = panel.majority_vote(judges, 3, ties=ties)
    tied = 0
    for row, label in zip(judges.tolist(), found.label.tolist(), strict=True):
        allowed = modes(row, 3)
        tied += len(allowed) > 1
        if not allowed:
            assert label == -1
        elif ties == "first":
            assert label == allowed[0]
        else:
            assert label in allowed
    assert found.n_ties == tied > 5


def test_uniform_ties_are_uniform_and_seeded() -> None:
    judges = np.tile([0, 1, 2, 2, 1, 0], (6000, 1))
    found = panel.majority_vote(judges, 3, ties="uniform")
    shares = np.bincount(found.label, minlength=3) / 6000
    np.testing.assert_allclose(shares, 1 / 3, atol=0.03)
    again = panel.majority_vote(judges, 3, ties="uniform")
    np.testing.assert_array_equal(found.label, again.label)


def test_hashed_ties_do_not_depend_on_where_the_item_is() -> None:
    judges = np.tile([0, 1, 2], (600, 1))
    keys = [f"item{i}" for i in range(600)]
    found = panel.majority_vote(judges, 3, ties="hash", keys=keys).label
    order = np.random.default_rng(0).permutation(600)
    again = panel.majority_vote(judges[order], 3, ties="hash", keys=np.array(keys)[order]).label
    np.testing.assert_array_equal(found[order], again)
    np.testing.assert_allclose(np.bincount(found) / 600, 1 / 3, atol=0.08)
    # A literal: the pick must not change with versions or machines.
    assert found[:8].tolist() == panel.majority_vote(judges[:8], 3, ties="hash", keys=keys[:8]).label.tolist()
    assert len(set(panel.majority_vote(judges, 3, ties="hash").label.tolist())) == 1


def test_soft_distribution() -> None:
    judges = [[0, 1, 1, -1], [-1, -1, -2, -3], [2, 2, 2, 0]]
    found = panel.soft_distribution(judges, 3)
    np.testing.assert_allclose(found, [[1 / 3, 2 / 3, 0], [np.nan] * 3, [1 / 4, 0, 3 / 4]])
    weighted = panel.soft_distribution(judges, 3, weights=[0.5, 0.25, 0.25, 0.0])
    np.testing.assert_allclose(weighted, [[0.5, 0.5, 0], [np.nan] * 3, [0, 0, 1]])
    # Weights that cancel out leave nothing.
    assert np.isnan(panel.soft_distribution([[0, 1]], 2, weights=[1.0, -1.0])).all()


def test_scores_of_aggregates() -> None:
    judges, h, gold = pool(1, k=4)
    soft = panel.soft_distribution(judges, 3)
    unknown = gold.copy()
    unknown[:4] = -1
    found = panel.score_aggregate(soft, h, unknown)
    # The error of the label frequencies is the distributional error of the panel.
    gram = panel.residual_gram(judges, h)
    assert found.distributional_error == pytest.approx(float(panel.distributional_error(gram)))
    votes = panel.vote_planes(judges, unknown, 3)
    score = int(panel.score_panels(votes, [[0, 1, 2, 3]])[0])
    assert found.accuracy == pytest.approx(score / (76 * panel.score_scale(3, 4)))
    assert np.isnan(found.hit[:4]).all()
    for row, label, hit in zip(judges[4:].tolist(), gold[4:].tolist(), found.hit[4:].tolist(), strict=True):
        assert hit == pytest.approx((label in modes(row, 3)) / len(modes(row, 3)))
    empty = panel.score_aggregate(np.full((2, 2), np.nan), np.full((2, 2), 0.5), [0, 1])
    assert np.isnan(empty.accuracy)
    assert np.isnan(empty.distributional_error)
    assert np.isnan(panel.score_aggregate(soft, h).accuracy)


# ---------------------------------------------------------------------------------------------------- weights


@pytest.mark.parametrize("seed", range(6))
def test_minimum_error_weights_are_optimal(seed: int) -> None:
    judges, h, _ = pool(seed, n=60)
    gram = panel.residual_gram(judges, h)
    free = panel.minimum_error_weights(gram)
    closed = np.linalg.solve(gram, np.ones(5))
    np.testing.assert_allclose(free.weights, closed / closed.sum(), atol=1e-9)
    bounded = panel.minimum_error_weights(gram, nonnegative=True)
    for found in (free, bounded):
        assert found.weights.sum() == pytest.approx(1.0)
        assert found.distributional_error == pytest.approx(found.weights @ gram @ found.weights)
        assert found.distributional_error <= gram.mean() + 1e-12
    assert (bounded.weights >= 0).all()
    assert free.distributional_error <= bounded.distributional_error + 1e-12
    # Against every support by brute force: the best nonnegative solution.
    best = math.inf
    for size in range(1, 6):
        for support in map(list, itertools.combinations(range(5), size)):
            part = np.linalg.solve(gram[np.ix_(support, support)], np.ones(size))
            if (part >= 0).all():
                best = min(best, 1.0 / part.sum())
    assert bounded.distributional_error == pytest.approx(best)


def test_weights_of_duplicates_and_of_a_perfect_judge() -> None:
    twins = panel.minimum_error_weights(np.full((3, 3), 0.4))
    np.testing.assert_allclose(twins.weights, [1 / 3] * 3)
    gram = np.array([[0.0, 0.0], [0.0, 0.5]])
    for nonnegative in (False, True):
        found = panel.minimum_error_weights(gram, nonnegative=nonnegative)
        np.testing.assert_allclose(found.weights, [1.0, 0.0], atol=1e-9)
        assert found.distributional_error == pytest.approx(0.0, abs=1e-15)
    np.testing.assert_allclose(panel.minimum_error_weights([[0.0]]).weights, [1.0])
    with pytest.raises(StructureError, match="one complete"):
        panel.minimum_error_weights([[np.nan]])


def test_held_out_weights_use_no_item_of_their_own_fold() -> None:
    judges, h, _ = pool(2)
    fold = np.arange(80) % 4
    found = panel.cross_fitted_distribution(judges, h, fold, nonnegative=False)
    for number in range(4):
        inside = fold == number
        weights = panel.minimum_error_weights(panel.residual_gram(judges[~inside], h[~inside])).weights
        np.testing.assert_allclose(found[inside], panel.soft_distribution(judges[inside], 3, weights))
    with pytest.raises(ProtocolError, match="two folds"):
        panel.cross_fitted_distribution(judges, h, np.zeros(80))


# ------------------------------------------------------------------------------------------ Dawid and Skene


def slow_dawid_skene(judges, L: int, smoothing: float, n_steps: int):  # type: ignore[no-untyped-def]
    """Expectation-maximisation by plain loops; returns posterior, prior and confusion of each step."""
    n, k = len(judges), len(judges[0])
    posterior = [[sum(a == t for a in row) / sum(a >= 0 for a in row) for t in range(L)] for row in judges]
    for _ in range(n_steps):
        prior = [sum(posterior[i][t] for i in range(n)) + smoothing for t in range(L)]
        prior = [x / sum(prior) for x in prior]
        confusion = []
        for a in range(k):
            table = [
                [sum(posterior[i][t] for i in range(n) if judges[i][a] == s) + smoothing for s in range(L)]
                for t in range(L)
            ]
            confusion.append([[x / sum(line) for x in line] for line in table])
        for i in range(n):
            joint = [
                prior[t] * math.prod(confusion[a][t][judges[i][a]] for a in range(k) if judges[i][a] >= 0)
                for t in range(L)
            ]
            posterior[i] = [x / sum(joint) for x in joint]
    return posterior, prior, confusion


def test_dawid_skene_against_plain_loops() -> None:
    judges, _, _ = pool(3, n=40, k=4)
    judges[::7, 1] = -1
    found = panel.dawid_skene(judges, 3, smoothing=0.05, max_iterations=7, tolerance=-1.0)
    posterior, prior, confusion = slow_dawid_skene(judges.tolist(), 3, 0.05, 7)
    assert found.n_iterations == 7
    np.testing.assert_allclose(found.posterior, posterior, atol=1e-10)
    np.testing.assert_allclose(found.prior, prior, atol=1e-10)
    np.testing.assert_allclose(found.confusion, confusion, atol=1e-10)


def test_dawid_skene_recovers_its_own_model() -> None:
    generator = np.random.default_rng(0)
    prior = np.array([0.5, 0.3, 0.2])
    confusion = 0.25 * generator.dirichlet(np.ones(3), (6, 3)) + 0.75 * np.eye(3)
    truth = generator.choice(3, 4000, p=prior)
    cumulative = np.cumsum(confusion, axis=2)[np.arange(6), truth[:, None]]
    judges = (generator.random((4000, 6, 1)) >= cumulative[..., :-1]).sum(-1)
    found = panel.dawid_skene(judges, 3)
    assert found.converged
    np.testing.assert_allclose(found.prior, prior, atol=0.03)
    np.testing.assert_allclose(found.confusion, confusion, atol=0.06)
    vote = panel.majority_vote(judges, 3).label
    assert (found.posterior.argmax(1) == truth).mean() > (vote == truth).mean()


def test_dawid_skene_climbs_and_survives_gaps() -> None:
    judges, _, _ = pool(4, n=30, k=3)
    judges[0] = -1
    likelihoods = [
        panel.dawid_skene(judges, 3, smoothing=0.0, max_iterations=steps, tolerance=-1.0).log_likelihood
        for steps in (1, 2, 5, 20)
    ]
    assert (np.diff(likelihoods) >= -1e-9).all()
    found = panel.dawid_skene(judges, 3)
    assert np.isnan(found.posterior[0]).all()
    np.testing.assert_allclose(found.posterior[1:].sum(1), 1.0)
    unused = panel.dawid_skene([[0, 0], [0, 0]], 3, smoothing=0.0)
    np.testing.assert_allclose(unused.posterior, [[1, 0, 0]] * 2, atol=1e-300)
    np.testing.assert_allclose(unused.confusion[0][1:], 1 / 3)
    with pytest.raises(ProtocolError, match="smoothing"):
        panel.dawid_skene(judges, 3, smoothing=-1.0)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: panel.majority_vote([[0]], 2, ties="last"), ProtocolError),
        (lambda: panel.majority_vote([[0, 1]], 2, ties="hash", keys=["a", "b"]), StructureError),
        (lambda: panel.majority_vote([[2]], 2), VocabularyError),
        (lambda: panel.majority_vote([0], 2), StructureError),
        (lambda: panel.soft_distribution([[0]], 2, weights=[1.0, 1.0]), StructureError),
        (lambda: panel.score_aggregate([[1.0]], [[0.5, 0.5]]), StructureError),
        (lambda: panel.score_aggregate([[0.5, 0.5]], [[0.5, 0.5]], [0, 1]), StructureError),
    ],
)
def test_aggregation_errors(call, error: type[Exception]) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(error):
        call()


# --------------------------------------------------------------------------------------------------- geometry


def slow_shape(judge, h):  # type: ignore[no-untyped-def]
    """Anisotropy and axis by an eigendecomposition of the residual second moment."""
    basis = np.array([[1, -1, 0], [1, 1, -2]]) / np.sqrt([[2], [6]])
    moment = np.zeros((2, 2))
    for i in range(len(judge)):
        r = basis @ (np.eye(3)[judge[i]] - h[i])
        moment += np.outer(r, r) / len(judge)
    values, vectors = np.linalg.eigh(moment)
    return (values[1] - values[0]) / values.sum(), math.atan2(vectors[1, 1], vectors[0, 1])


def turn(angle: float) -> float:
    """Angle of an axis in (-pi/2, pi/2]."""
    while angle > math.pi / 2:
        angle -= math.pi
    while angle <= -math.pi / 2:
        angle += math.pi
    return angle


def test_geometry_by_eigenvectors() -> None:
    judges, h, gold = pool(5, n=150)
    found = panel.residual_geometry(judges, h, gold, n_simulated=400)
    basis = panel.contrasts(3)
    moment = basis.T @ np.mean([np.diag(row) - np.outer(row, row) for row in h], axis=0) @ basis
    values, vectors = np.linalg.eigh(moment)
    assert found.human_anisotropy == pytest.approx((values[1] - values[0]) / values.sum())
    axis = math.atan2(vectors[1, 1], vectors[0, 1])
    assert turn(float(found.human_axis) - axis) == pytest.approx(0.0, abs=1e-9)
    constructed = [gold, panel.majority_vote(judges, 3).label]
    for judge, ours in zip(
        [*judges.T, *constructed],
        [*zip(found.anisotropy, found.angle, strict=True), *found.constructed[:, :2]],
        strict=True,
    ):
        shape, angle = slow_shape(judge, h)
        assert ours[0] == pytest.approx(shape)
        assert turn(float(ours[1]) - turn(angle - axis)) == pytest.approx(0.0, abs=1e-9)
    inverse = np.linalg.inv(found.cloud_covariance)
    offset = np.array(
        [turn(float(found.angle[0] - found.cloud_centre[0])), found.anisotropy[0] - found.cloud_centre[1]]
    )
    assert found.distance[0] == pytest.approx(math.sqrt(offset @ inverse @ offset))
    expected = (found.constructed[0, 0] - found.cloud_centre[1]) / (
        found.anisotropy.mean() - found.cloud_centre[1]
    )
    assert found.gold_excess == pytest.approx(expected)


def test_simulated_humans_lie_in_their_own_cloud() -> None:
    """Squared distances of humans have the mean of a two-dimensional cloud; J_gold is far outside."""
    generator = np.random.default_rng(1)
    h = generator.dirichlet([4.0, 1.0, 1.0], 400)
    humans = (generator.random((400, 60, 1)) >= np.cumsum(h, axis=1)[:, None, :-1]).sum(-1)
    found = panel.residual_geometry(humans, h, h.argmax(1))
    assert (found.distance**2).mean() == pytest.approx(2.0, abs=0.9)
    assert abs(found.cloud_centre[0]) < 0.05
    assert found.cloud_centre[1] == pytest.approx(float(found.human_anisotropy), abs=0.02)
    assert found.constructed[0, 2] > 5


def test_geometry_without_an_axis() -> None:
    # Each label once, humans uniform: the moment is a multiple of the identity.
    h = np.full((3, 3), 1 / 3)
    found = panel.residual_geometry([[0], [1], [2]], h, [0, 1, 2], n_simulated=20)
    assert found.anisotropy[0] == pytest.approx(0.0, abs=1e-12)
    assert np.isnan(found.angle[0])
    assert np.isnan(found.distance[0])
    agreed = panel.residual_geometry([[0], [1], [2]], np.eye(3), [0, 1, 2], n_simulated=20)
    assert np.isnan(agreed.anisotropy).all()
    assert np.isnan(agreed.cloud_centre).all()
    with pytest.raises(StructureError, match="three labels"):
        panel.residual_geometry([[0]], [[0.5, 0.5]], [0])


# ----------------------------------------------------------------------------------------------- presentation


def test_presentation_by_hand() -> None:
    generator = np.random.default_rng(6)
    original, h, gold = pool(6, n=90)
    reordered = np.where(generator.random((90, 5)) < 0.25, generator.integers(0, 3, (90, 5)), original)
    first = generator.integers(0, 3, (90, 5))
    holes = reordered.copy()
    holes[0, 2] = -1
    found = panel.presentation_effects(original, holes, h, gold, first_option=first)
    assert (found.n_items, found.n_dropped) == (89, 1)
    original, reordered, h, gold, first = original[1:], reordered[1:], h[1:], gold[1:], first[1:]
    base = float(panel.mean_squared_correlation(panel.residual_gram(original, h)))
    delta = float(panel.finite_n_delta(h))
    assert found.mean_squared_correlation == pytest.approx(base)
    ratio = panel.participation_ratio(panel.residual_gram(original, h))
    for a in range(5):
        flips = original[:, a] != reordered[:, a]
        wrong = original[:, a] != gold
        assert found.flip_rate[a] == pytest.approx(flips.mean())
        assert found.counts.flips[a] == flips.sum()
        assert found.counts.wrong[a] == wrong.sum()
        assert found.counts.originally_wrong[a] == (flips & wrong).sum()
        assert found.wrong_ratio[a] == pytest.approx(wrong[flips].mean() / wrong.mean())
        assert found.first_option_rate[a] == pytest.approx((reordered[flips, a] == first[flips, a]).mean())
        supported = []
        for i in np.flatnonzero(flips):
            rest = [t for t in range(3) if t != original[i, a]]
            supported.append(reordered[i, a] == max(rest, key=lambda t: h[i][t]))
        assert found.counts.to_supported[a] == sum(supported)
        assert found.counts.to_supported_wrong[a] == sum(
            s for s, w in zip(supported, wrong[flips], strict=True) if w
        )
        replaced = original.copy()
        replaced[:, a] = reordered[:, a]
        gram = panel.residual_gram(replaced, h)
        assert found.change[a] == pytest.approx(float(panel.mean_squared_correlation(gram)) - base)
        change = panel.nu_h(panel.participation_ratio(gram), delta) - panel.nu_h(ratio, delta)
        assert found.change_nu_h[a] == pytest.approx(float(change))
        assert found.reference_band[a, 0] <= found.reference_mean[a] <= found.reference_band[a, 1]
        assert found.change_ratio[a] == pytest.approx(abs(found.reference_mean[a] / found.change[a]))


def test_independent_transitions_explain_independent_flips() -> None:
    """Answers that move at random lie within the band; answers that move to what others say lie above it."""
    generator = np.random.default_rng(7)
    original, h, gold = pool(7, n=200, k=20)
    reordered = np.where(generator.random((200, 20)) < 0.3, generator.integers(0, 3, (200, 20)), original)
    found = panel.presentation_effects(original, reordered, h, gold)
    inside = (found.change >= found.reference_band[:, 0]) & (found.change <= found.reference_band[:, 1])
    assert inside.sum() >= 16
    others = panel.majority_vote(original[:, 1:], 3).label
    follower = original.copy()
    follower[:, 0] = np.where(generator.random(200) < 0.6, others, original[:, 0])
    found = panel.presentation_effects(original, follower, h, gold)
    assert found.change[0] > found.reference_band[0, 1]
    np.testing.assert_array_equal(found.change[1:], 0.0)
    assert np.isnan(found.change_ratio[1:]).all()


def test_reference_keeps_the_transition_rates() -> None:
    """A judge that always turns 0 into 1 and nothing else does so in every draw."""
    original, h, gold = pool(8, n=60, k=4)
    reordered = original.copy()
    reordered[:, 0] = np.where(original[:, 0] == 0, 1, original[:, 0])
    found = panel.presentation_effects(original, reordered, h, gold, n_replicates=5)
    np.testing.assert_allclose(found.reference_band[0], found.change[0], atol=1e-12)
    np.testing.assert_array_equal(found.flip_rate[1:], 0.0)
    assert np.isnan(found.wrong_ratio[1:]).all()
    assert np.isnan(found.first_option_rate).all()


def test_presentation_of_one_judge_and_of_no_items() -> None:
    original, h, gold = pool(9, k=1)
    found = panel.presentation_effects(original, original, h, gold)
    assert np.isnan(found.mean_squared_correlation)
    assert np.isnan(found.change).all()
    assert found.flip_rate[0] == 0.0
    none = panel.presentation_effects(
        np.full((3, 2), -1), np.zeros((3, 2), int), np.full((3, 2), 0.5), [0, 0, 0]
    )
    assert np.isnan(none.flip_rate).all()
    assert np.isnan(none.change).all()
    with pytest.raises(StructureError, match="presentations"):
        panel.presentation_effects(original, np.zeros((80, 2), int), h, gold)
    with pytest.raises(StructureError, match="first_option"):
        panel.presentation_effects(original, original, h, gold, first_option=[0])

"""Leave-one-out counts, margins, votes and verdicts: hand-sized tables, real labels, plain loops."""

from fractions import Fraction
from typing import Any

import loo_slow as slow
import numpy as np
import pytest
from shared import needs_shared, oracle

from xjudge.errors import OverlapError, ProtocolError, Reason, StructureError, VocabularyError
from xjudge.statistics.loo import (
    LOO_STATISTICS,
    add_counts,
    control_margins,
    control_variance,
    count_votes,
    exact_wins,
    gamma_constant,
    influence,
    influence_moments,
    loo_counts,
    loo_margins,
    loo_pair_counts,
    loo_pair_moments,
    loo_tables,
    loo_validate,
    loo_verdict,
    pair_covariance,
    read_decimal,
    statistic_margins,
    statistic_value,
    stratified_margins,
    votes_needed,
)

EPS = Fraction(1, 20)
DENSE = np.array([[0, 0, 0], [0, 0, 1], [1, 1, 1], [1, 0, 1], [0, 1, 0], [1, 1, 0], [0, 0, 0], [1, 1, 1]])
DENSE_JUDGE = np.array([0, 1, 1, 1, 0, 0, 0, 0])


def sparse(seed: int, n: int = 30, K: int = 4, L: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    humans = np.where(rng.random((n, K)) < 0.6, rng.integers(0, L, (n, K)), -rng.integers(1, 4, (n, K)))
    return humans.astype(np.int8), np.where(rng.random(n) < 0.9, rng.integers(0, L, n), -3).astype(np.int8)


def noisy(rng: np.random.Generator, truth: np.ndarray, p: float) -> np.ndarray:
    return np.where(rng.random(len(truth)) < p, truth, 1 - truth)


# ---------------------------------------------------------------------------------------- votes and ties


@pytest.mark.parametrize(
    ("n", "threshold", "strict", "needed"),
    [
        (3, 0.5, False, 2),
        (4, 0.5, False, 2),
        (4, 0.5, True, 3),
        (4, 0.6, False, 3),
        (5, 0.5, True, 3),
        (5, 0.6, False, 3),
        (5, 0.6, True, 4),
        (10, 0.3, False, 3),  # 3/10 in doubles is below 0.3 times 10 rounded up
        (10, 0.7, False, 7),
        (3, 1, False, 3),
        (3, 0, True, 1),
        (7, "1/7", False, 1),
        (7, "1/7", True, 2),
    ],
)
def test_votes_needed(n: int, threshold: float, strict: bool, needed: int) -> None:
    assert votes_needed(n, threshold, strict=strict) == needed


@pytest.mark.parametrize(("threshold", "strict"), [(0, False), (1.01, False), (1, True), (-0.1, True)])
def test_a_threshold_with_one_answer_is_refused(threshold: float, strict: bool) -> None:
    with pytest.raises(ProtocolError, match="every judge has one answer"):
        votes_needed(4, threshold, strict=strict)


@pytest.mark.parametrize("eps", [float("nan"), float("inf"), "a lot", "1/0"])
def test_eps_must_be_a_number(eps: object) -> None:
    with pytest.raises(ProtocolError, match="`eps` must be a finite number"):
        exact_wins([1], [2], eps)  # type: ignore[arg-type]


def test_every_exact_tie_is_a_win() -> None:
    """LOO.md 1.4: 405 ties up to W = 120, of which doubles lose 45, the first at W = 20 with 3 against 4."""
    ties, lost = [], []
    for W in range(20, 121, 20):
        for a in range(W - W // 20 + 1):
            h = a + W // 20
            ties.append((a - h, W))
            if not a / W >= h / W - 0.05:
                lost.append((W, a, h))
    win, tie = exact_wins(*np.array(ties).T, 0.05)
    assert len(ties) == 405
    assert len(lost) == 45
    assert lost[0] == (20, 3, 4)
    assert win.all()
    assert tie.all()
    # one hit less loses every one of them, whatever the dtype of eps
    assert not exact_wins(np.array(ties)[:, 0] - 1, np.array(ties)[:, 1], np.float32(0.05))[0].any()


def test_wins_with_huge_counts_and_long_decimals() -> None:
    win, tie = exact_wins([-(10**17), -(10**17) - 1], [2 * 10**18] * 2, 0.05)
    assert win.tolist() == [1, 0]
    assert tie.tolist() == [True, False]
    win, tie = exact_wins([-1234567890123, -1234567890124], [10**14] * 2, "0.01234567890123")
    assert win.tolist() == [1, 0]
    assert tie.tolist() == [True, False]


def test_votes_and_their_tie() -> None:
    votes = count_votes(np.array([[1.0, 1, 0, 0], [1, 1, 1, np.nan], [np.nan] * 4]))
    assert votes.omega[:2].tolist() == [0.5, 1.0]
    assert np.isnan(votes.omega[2])
    assert votes.tie.tolist() == [True, False, False]
    assert votes.n_available.tolist() == [4, 3, 0]
    assert votes.accept_point[:2].tolist() == [1, 1]
    assert np.isnan(votes.accept_point[2])
    strict = count_votes(np.array([1.0, 1, 0, 0]), strict=True)
    assert strict.accept_point == 0
    assert strict.tie
    assert not count_votes(np.array([1.0, 0, 0]), "1/3", strict=True).accept_point
    assert count_votes(np.array([1.0, 0, 0]), "1/3").tie


# ------------------------------------------------------------------------------------ hand-sized matrices


@needs_shared
@pytest.mark.parametrize("case", ["dense_3x8", "sparse_zero_overlap", "exact_tie_float_trap", "tie_2_of_4"])
def test_tiny(case: str) -> None:
    expected = oracle("loo")["tiny"][case]
    humans = np.array([[-1 if label is None else label for label in row] for row in expected["labels"]])
    counts = loo_counts(humans, expected["judge"])
    found = loo_margins(counts, eps=expected["eps"])
    for k, one in enumerate(expected["comparisons"]):
        if one is None:
            assert np.isnan([found.margin[k], found.se[k], found.win[k], found.judge_agreement[k]]).all()
            assert found.reason[k] == Reason.NO_OVERLAP
            continue
        assert counts.overlap[k].sum() == one["overlap"]
        assert counts.judge_hits[k].sum() == one["judge_agree"]
        assert counts.human_hits[k].sum() == one["human_agree"]
        assert found.judge_agreement[k] == one["S_j"]
        assert found.human_agreement[k] == one["S_h"]
        assert found.margin[k] == pytest.approx(float(Fraction(one["margin_fraction"])), abs=1e-15)
        assert bool(found.win[k]) == one["win"]
        assert found.margin_tie[k] == (Fraction(one["margin_fraction"]) == 0)
    assert found.votes.wins == expected["wins"]
    assert found.votes.n_available == expected["available"]
    assert found.votes.omega == pytest.approx(expected["omega"], abs=1e-15)


def test_the_float_trap_without_the_files() -> None:
    humans = [[1, 1]] * 4 + [[1, 0]] * 16
    judge = [1, 1, 1, 0] + [1] * 16
    found = loo_margins(loo_counts(humans, judge))
    assert found.votes.omega == 1
    assert found.margin_tie.tolist() == [True, False]
    assert not 3 / 20 >= 4 / 20 - 0.05


def test_a_tie_of_votes_accepts_and_is_reported() -> None:
    rows = ["0000", "0011", "1111", "0001", "1100", "0010", "1110", "0000"]
    humans = np.array([[int(label) for label in row] for row in rows])
    found = loo_validate(humans, [0, 0, 1, 0, 1, 0, 1, 1])
    assert found.margins.votes.omega == 0.5
    assert found.margins.votes.tie
    assert found.margins.votes.accept_point == 1
    assert found.cautions.tie_accepts
    assert found.cautions.near_threshold
    assert found.verdict.verdict == "inconclusive"
    assert loo_validate(humans, [0, 0, 1, 0, 1, 0, 1, 1], strict=True).margins.votes.accept_point == 0


# --------------------------------------------------------------------------------------------- plain loops


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("pooling", ["items", "pairs"])
@pytest.mark.parametrize("target", ["population", "matrix"])
def test_against_plain_loops(seed: int, pooling: str, target: str) -> None:
    humans, judge = sparse(seed)
    a, h, w = slow.counts(humans.tolist(), judge.tolist())
    counts = loo_counts(humans, judge)
    np.testing.assert_array_equal(counts.judge_hits, a)
    np.testing.assert_array_equal(counts.human_hits, h)
    np.testing.assert_array_equal(counts.overlap, w)
    found = loo_margins(counts, pooling=pooling, target=target, pairs=loo_pair_moments(humans, judge))
    for k in range(humans.shape[1]):
        exact = slow.margin(humans.tolist(), judge.tolist(), k, EPS, pooling)
        assert exact is not None
        assert found.margin[k] == pytest.approx(float(exact), abs=1e-13)
        assert bool(found.win[k]) == (exact >= 0)
    expected = slow.covariance(humans.tolist(), judge.tolist(), pooling, target)
    np.testing.assert_allclose(found.covariance, expected, atol=1e-13)


def test_moments_of_pairs_and_of_items_give_one_covariance() -> None:
    humans, judge = sparse(7, n=200, K=5)
    plain = loo_margins(loo_counts(humans, judge))
    np.testing.assert_allclose(pair_covariance(loo_pair_moments(humans, judge)), plain.covariance, atol=1e-14)


def test_counts_add_over_blocks_of_items() -> None:
    humans, judge = sparse(3, n=100)
    judges = np.stack([judge, sparse(4, n=100)[1]], axis=1)
    humans[:, 0] = np.abs(humans[:, 0]) % 3
    blocks = [slice(0, 1), slice(1, 60), slice(60, 60), slice(60, 100)]
    for count, options in ((loo_counts, {}), (loo_counts, {"control": True}), (loo_pair_moments, {})):
        whole = count(humans, judges, **options)
        parts = add_counts(count(humans[block], judges[block], **options) for block in blocks)
        for one, other in zip(whole, parts, strict=True):
            np.testing.assert_array_equal(one, other)


def test_several_judges_are_single_judges() -> None:
    humans, judge = sparse(5)
    judges = np.stack([judge, sparse(6)[1]], axis=1)
    both = loo_counts(humans, judges)
    for j in range(2):
        for one, other in zip(loo_counts(humans, judges[:, j]), both, strict=True):
            np.testing.assert_array_equal(one, other[j])


def test_many_items_in_one_call_are_blocks() -> None:
    rng = np.random.default_rng(0)
    humans, judge = rng.integers(-1, 3, (70_000, 3), dtype=np.int8), rng.integers(0, 3, 70_000, dtype=np.int8)
    whole = loo_counts(humans, judge)
    parts = add_counts([loo_counts(humans[:9000], judge[:9000]), loo_counts(humans[9000:], judge[9000:])])
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(one, other)


def test_criteria_are_pooled_and_the_item_is_the_unit() -> None:
    rng = np.random.default_rng(1)
    humans, judge = rng.integers(-1, 2, (25, 3, 4)), rng.integers(-1, 2, (25, 3))
    pooled = loo_counts(humans, judge)
    units = loo_counts(humans.reshape(75, 4), judge.reshape(75))
    np.testing.assert_array_equal(pooled.judge_hits, units.judge_hits)
    np.testing.assert_array_equal(pooled.overlap, units.overlap)
    # psi of an item sums its criteria first
    found = loo_margins(pooled)
    K, delta = 4, found.margin - 0.05
    psi = np.zeros((25, K))
    for i in range(25):
        a, h, w = (table.sum(axis=1) for table in slow.counts(humans[i].tolist(), judge[i].tolist()))
        psi[i] = (a - h - delta * w) / found.overlap
    np.testing.assert_allclose(found.covariance, psi.T @ psi, atol=1e-14)
    assert (pooled.n_items <= 25).all()


def test_batches_of_matrices() -> None:
    rng = np.random.default_rng(2)
    humans, judge = rng.integers(-1, 2, (3, 2, 70, 4)), rng.integers(-1, 2, (3, 2, 70))
    batch = loo_pair_counts(humans, judge)
    for place in np.ndindex(3, 2):
        for one, other in zip(batch, slow.counts(humans[place].tolist(), judge[place].tolist()), strict=True):
            np.testing.assert_array_equal(one[place], other)


# --------------------------------------------------------------------------------------- published numbers


@needs_shared
@pytest.mark.parametrize(
    "task", ["wax", "cebab_aspects", "cebab_stars", "summeval", "mtbench", "10k_prompts", "framing"]
)
def test_real_labels_to_the_integer(task: str) -> None:
    data, expected = slow.matrix(task), oracle("alttest_loo")[task]
    counts = loo_counts(data.humans, data.judges)
    pairs = loo_pair_moments(data.humans, data.judges)
    found, other = loo_margins(counts), loo_margins(counts, pooling="pairs", pairs=pairs)
    assert set(expected["judges"]) == set(slow.JUDGES)
    for j, name in enumerate(slow.JUDGES):
        one = expected["judges"][name]
        assert [human["human"] for human in one["humans"]] != []
        for human in one["humans"]:
            k = data.names.index(human["human"])
            assert counts.judge_hits[j, k].sum() == human["judge_hits"]
            assert counts.human_hits[j, k].sum() == human["human_hits"]
            assert counts.overlap[j, k].sum() == human["pairs"]
            assert bool(found.win[j, k]) == human["win"]
        assert found.votes.omega[j] == pytest.approx(one["omega"], abs=1e-13)
        assert bool(found.votes.accept_point[j]) == one["accept"]
        assert found.margin_tie[j].sum() == one["exact_ties"]
        assert other.votes.omega[j] == pytest.approx(one["omega_if_mean_of_pairs"], abs=1e-13)


@needs_shared
def test_the_one_exact_tie_of_the_real_labels() -> None:
    data = slow.matrix("cebab_aspects")
    counts = loo_counts(data.humans, data.judges[:, slow.JUDGES.index("mistral-v03")])
    found = loo_margins(counts)
    (k,) = np.nonzero(found.margin_tie)[0]
    sums = [int(table[k].sum()) for table in (counts.judge_hits, counts.human_hits, counts.overlap)]
    assert sums == [784, 835, 1020]
    assert found.win[k] == 1
    assert found.votes.omega == 0.2


@needs_shared
def test_summeval_has_no_win_at_all() -> None:
    data = slow.matrix("summeval")
    found = loo_margins(loo_counts(data.humans, data.judges))
    assert (found.votes.omega == 0).all()


@needs_shared
@pytest.mark.parametrize("task", ["wax", "cebab_aspects", "summeval"])
def test_real_dense_verdicts(task: str) -> None:
    data, expected = slow.matrix(task).by_count(), oracle("loo")["real_dense"][task]
    assert data.names == expected["raters"]
    assert data.humans.shape == (expected["n"], expected["K"])
    assert (data.humans >= 0).sum(axis=0).tolist() == expected["n_labels"]
    found = loo_validate(data.humans, data.judges)
    for j, name in enumerate(slow.JUDGES):
        one = expected["judges"][name]
        np.testing.assert_allclose(found.margins.overlap[j], expected["overlap"])
        np.testing.assert_allclose(found.margins.human_agreement[j], expected["S_h"], atol=1e-7)
        np.testing.assert_allclose(found.margins.judge_agreement[j], expected["S_j"][name], atol=1e-7)
        np.testing.assert_allclose(found.margins.margin[j], one["margin"], atol=1e-7)
        np.testing.assert_allclose(found.margins.se[j], one["se"], atol=1e-7)
        assert found.margins.votes.omega[j] == pytest.approx(one["omega"])
        assert found.margins.votes.wins[j] == one["wins"]
        assert found.margins.votes.needed[j] == one["c"]
        assert found.verdict.p_accept[j] == pytest.approx(one["p_accept_stability"], abs=0.004)
        assert found.verdict.p_value_accept[j] == pytest.approx(one["pc_p_accept"], abs=1e-7)
        assert found.verdict.p_value_reject[j] == pytest.approx(one["pc_p_reject"], abs=1e-7)
        assert found.verdict.verdict[j] == one["verdict"]


SNIPPET_2 = {
    0.95: [6, 1, 0, 0],
    0.90: [45, 9, 0, 0],
    0.85: [215, 145, 44, 13],
    0.70: [673, 464, 188, 59],
    0.60: [218, 47, 4, 0],
}


@pytest.mark.parametrize("judge_accuracy", SNIPPET_2)
def test_the_second_snippet_of_the_note(judge_accuracy: float) -> None:
    """Wrong decisions out of 2000 in the stream of the note's generator, decided by our exact rule."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, (2000, 500))
    right = rng.random((2000, 500, 5)) < np.array([0.85] * 4 + [judge_accuracy])
    labels = np.where(right, truth[..., None], 1 - truth[..., None]).astype(np.int8)
    state = rng.bit_generator.state

    def accepts(shown: np.ndarray) -> np.ndarray:
        hits, same, pairs = loo_pair_counts(np.where(shown, labels[..., :4], -1), labels[..., 4])
        win = exact_wins((hits - same).sum(axis=-1), pairs.sum(axis=-1), 0.05)[0]
        return count_votes(win).accept_point

    dense = accepts(np.ones((2000, 500, 4), dtype=bool))
    found = []
    for share in (0.05, 0.10, 0.25, 0.50):
        rng.bit_generator.state = state
        shown = np.ones((2000, 500, 4), dtype=bool)
        shown[..., 1:] = rng.random((2000, 500, 3)) < share
        found.append(int((accepts(shown) != dense).sum()))
    assert found == SNIPPET_2[judge_accuracy]


# ------------------------------------------------------------------------------------------- degenerate


def test_no_overlap_is_no_vote() -> None:
    humans = np.array([[0, -1], [-1, 1], [1, -1]])
    found = loo_validate(humans, [0, 1, 1])
    assert np.isnan(found.margins.margin).all()
    assert np.isnan(found.margins.win).all()
    assert (found.margins.reason == Reason.NO_OVERLAP).all()
    assert np.isnan([found.margins.votes.omega, found.margins.votes.accept_point]).all()
    assert np.isnan([found.verdict.p_value_accept, found.verdict.p_accept, found.verdict.fr_at_margin]).all()
    assert found.verdict.verdict == "inconclusive"


@pytest.mark.parametrize(
    ("humans", "judge"),
    [
        (np.zeros((0, 3), int), np.zeros(0, int)),
        (np.zeros((5, 1), int), np.zeros(5, int)),
        (np.full((5, 3), -1), np.zeros(5, int)),
        (np.zeros((5, 3), int), np.full(5, -3)),
        (np.zeros((0, 2, 3), int), np.zeros((0, 2), int)),
    ],
)
def test_nothing_to_compare(humans: np.ndarray, judge: np.ndarray) -> None:
    found = loo_validate(humans, judge)
    assert found.margins.votes.n_available == 0
    assert np.isnan(found.margins.margin).all()
    assert found.verdict.verdict == "inconclusive"
    assert not found.cautions.tie_accepts


def test_one_item_has_a_margin_but_no_standard_error() -> None:
    found = loo_validate([[0, 0, 1]], [0])
    assert np.isfinite(found.margins.margin).all()
    assert np.isnan(found.margins.se).all()
    assert (found.margins.se_reason == Reason.ONE_ITEM).all()
    assert found.verdict.verdict == "inconclusive"
    assert np.isnan(found.verdict.p_value_accept)


def test_agreement_without_variance_is_not_certainty() -> None:
    """All agree always: the t statistic is infinite; the p-value is the bound for bounded gains instead."""
    for n, verdict in ((20, "inconclusive"), (200, "accept")):
        found = loo_validate(np.zeros((n, 3), int), np.zeros(n, int))
        assert (found.margins.se == 0).all()
        assert (found.margins.se_reason == Reason.NO_VARIANCE).all()
        # two of three needed: (3 - 2 + 1) times 0.95^n
        assert found.verdict.p_value_accept == pytest.approx(min(1, 2 * 0.95**n))
        assert found.verdict.verdict == verdict
    never = loo_validate(np.zeros((30, 3), int), np.ones(30, int))
    assert (never.margins.se_reason == Reason.NO_VARIANCE).all()
    # delta = -1: nothing but gains of -1, possible for a share (1 + 0.05) / (1 + 1) at most
    assert never.verdict.p_value_reject == pytest.approx(2 * 0.525**30)
    assert never.verdict.verdict == "reject"


def test_rounding_is_not_variance() -> None:
    """A margin of thirds on every item: the variance is zero although its terms are not."""
    humans = np.array([[0, 0, 1, 2]] * 60)
    found = loo_margins(loo_counts(humans, [0] * 60))
    assert (found.se == 0).all()
    pairs = loo_margins(
        loo_counts(humans, [0] * 60), pooling="pairs", pairs=loo_pair_moments(humans, [0] * 60)
    )
    assert (pairs.se == 0).all()


def test_a_complete_matrix_leaves_nothing_to_sample() -> None:
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 2, 40)
    humans = np.stack([noisy(rng, truth, p) for p in (0.9, 0.8, 0.7)], axis=1)
    found = loo_validate(humans, noisy(rng, truth, 0.75), target="matrix")
    assert (found.margins.se == 0).all()
    assert (found.margins.se_reason == Reason.OK).all()
    assert found.verdict.verdict == ("accept" if found.margins.votes.accept_point else "reject")


def test_a_shared_sample_of_a_matrix_has_the_finite_population_factor() -> None:
    rng = np.random.default_rng(4)
    humans, judge = rng.integers(0, 2, (200, 4)), rng.integers(0, 2, 200)
    humans[50:, 1:] = -1
    counts, pairs = loo_counts(humans, judge), loo_pair_moments(humans, judge)
    plain, finite = (loo_margins(counts, target=target, pairs=pairs) for target in ("population", "matrix"))
    np.testing.assert_allclose(finite.covariance, plain.covariance * (1 - 50 / 200), atol=1e-15)


def test_read_only_and_float_labels() -> None:
    humans, judge = sparse(8)
    expected = loo_counts(humans, judge)
    humans.setflags(write=False)
    floats = np.where(humans < 0, np.nan, humans)
    for labels in (humans, floats, humans.astype(np.int64), np.asfortranarray(humans)):
        for one, other in zip(loo_counts(labels, judge), expected, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("humans", "judge", "message"),
    [
        ([[0, 1]], [0, 1], "same items"),
        ([0, 1], [0, 1], "must be .item, human."),
        ([[0, 1]], 0, "must be .item, human."),
        (np.zeros((3, 0), int), [0, 1, 1], "at least one human"),
        ([["a", "b"]], [0], "integer codes"),
        (np.zeros((3, 2, 2), int), np.zeros((3, 3), int), "same items"),
    ],
)
def test_shapes_that_do_not_fit(humans: object, judge: object, message: str) -> None:
    with pytest.raises(StructureError, match=message):
        loo_counts(humans, judge)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pooling": "raters"}, "`pooling` must be"),
        ({"target": "future"}, "`target`"),
        ({"statistic": "f1"}, "`statistic` must be one of"),
        ({"statistic": "kappa"}, "needs `n_categories`"),
        ({"statistic": "kappa", "n_categories": 2, "pooling": "pairs"}, "pooling='items'"),
        ({"statistic": "kappa", "n_categories": 2, "control": True}, "no control variate"),
        ({"control": True, "target": "matrix"}, "target='population'"),
        ({"level": 1}, "`level` must lie in"),
        ({"at_margin": -0.05}, "`at_margin` be >= 0"),
        ({"combine": "fisher"}, "`combine` must be"),
        ({"eps": "x"}, "`eps` must be a finite number"),
        ({"statistic": "neg_mae", "n_categories": 2}, "`scores`"),
    ],
)
def test_options_are_checked(options: dict, message: str) -> None:
    with pytest.raises(ProtocolError, match=message):
        loo_validate(DENSE, DENSE_JUDGE, **options)


def test_labels_and_scores_beyond_the_categories() -> None:
    with pytest.raises(VocabularyError, match="code 1, but with 1 categories"):
        loo_validate(DENSE, DENSE_JUDGE, statistic="kappa", n_categories=1)
    tables = loo_tables(DENSE, DENSE_JUDGE, 2)
    with pytest.raises(VocabularyError, match="code 2"):
        influence_moments(DENSE + 1, DENSE_JUDGE, tables, "kappa")
    for scores in ([1.0], [1.0, np.nan]):
        with pytest.raises(ProtocolError, match="value for each of the 2 categories"):
            loo_validate(DENSE, DENSE_JUDGE, statistic="neg_mae", n_categories=2, scores=scores)


def test_pair_moments_are_asked_for() -> None:
    with pytest.raises(ProtocolError, match="second moments of pairs"):
        loo_margins(loo_counts(DENSE, DENSE_JUDGE), pooling="pairs")


def test_many_humans() -> None:
    rng = np.random.default_rng(19)
    humans, judge = rng.integers(0, 2, (60, 40)), rng.integers(0, 2, 60)
    humans[:, 5:] = np.where(rng.random((60, 35)) < 0.5, -1, humans[:, 5:])
    found = loo_validate(humans, judge, combine="max_t")
    assert np.isfinite(found.margins.se).all()
    assert found.margins.votes.needed == 20
    assert 0 < found.verdict.p_accept < 1
    with pytest.raises(StructureError, match="at most 32 humans"):
        loo_validate(humans, judge, target="matrix")


def test_cautions() -> None:
    rng = np.random.default_rng(5)
    truth = rng.integers(0, 2, 400)
    humans = np.stack([noisy(rng, truth, 0.85) for _ in range(4)], axis=1)
    judge = noisy(rng, truth, 0.95)
    even = loo_validate(humans, judge).cautions
    assert even.tie_accepts
    assert not even.thin.any()
    assert not even.unequal_pairs
    assert not even.near_threshold
    np.testing.assert_allclose(
        even.human_agreement_equal, loo_validate(humans, judge).margins.human_agreement
    )
    assert not loo_validate(humans, judge, strict=True).cautions.tie_accepts
    assert not loo_validate(humans, judge, threshold=0.6).cautions.tie_accepts
    assert not loo_validate(humans[:, :3], judge).cautions.tie_accepts
    humans[:, 1:][rng.random((400, 3)) < 0.95] = -1
    thin = loo_validate(humans, judge).cautions
    assert thin.unequal_pairs
    assert thin.thin[1:].any()


# ----------------------------------------------------------------------------------- other statistics


TABLES = np.array([[[30, 5], [10, 55]], [[12, 9], [3, 76]]], dtype=float)
TABLE_3 = np.array([[20, 5, 2], [4, 30, 6], [1, 7, 25]], dtype=float)


@pytest.mark.parametrize("statistic", LOO_STATISTICS)
@pytest.mark.parametrize("table", [TABLES[0], TABLES[1], TABLE_3])
def test_influence_is_the_derivative(statistic: str, table: np.ndarray) -> None:
    scores = [1.0, 2.5, 7.0][: len(table)]
    P = table / table.sum()
    phi = influence(table, statistic, scores)
    assert (P * phi).sum() == pytest.approx(0, abs=1e-12)
    name = "scott_pi" if statistic == "alpha" else statistic
    for a, b in np.ndindex(table.shape):
        point = np.zeros_like(P)
        point[a, b] = 1
        step = 1e-6
        up, down = (float(statistic_value((1 - t) * P + t * point, name, scores)[0]) for t in (step, -step))
        assert phi[a, b] == pytest.approx((up - down) / (2 * step), abs=1e-6)


@needs_shared
def test_gamma_constants() -> None:
    names = {"po": "accuracy", "kappa": "kappa", "pi_alpha": "alpha", "ac1": "gwet_ac1", "mcc": "mcc"}
    entries = oracle("loo")["gamma"]
    assert len(entries) == 12
    for entry in entries:
        for key, name in names.items():
            value_of = "scott_pi" if name == "alpha" else name
            assert statistic_value(entry["table"], value_of)[0] == pytest.approx(
                entry["value"][key], rel=1e-9
            )
            gamma = float(gamma_constant(entry["table"], name))
            assert gamma == pytest.approx(entry["gamma"][key], rel=1e-9)
            simulated = entry["mc_m_times_var"][key]["1000"]
            bias = 0.08 if "prev=0.9" in entry["name"] else 0.03
            assert abs(simulated["value"] - gamma) <= 4 * simulated["se"] + bias * gamma


def test_bloch_and_kraemer() -> None:
    """Closed form of the kappa variance for equal marginals, LOO.md section 2."""
    kappa = 0.6
    for prevalence, expected in ((0.5, 0.64), (0.8, 1.0180), (0.9, 1.8347), (0.98, 8.5394)):
        q = prevalence * (1 - prevalence)
        off = q * (1 - kappa)
        table = [[prevalence**2 + kappa * q, off], [off, (1 - prevalence) ** 2 + kappa * q]]
        closed = (1 - kappa) * ((1 - kappa) * (1 - 2 * kappa) + kappa * (2 - kappa) / (2 * q))
        assert gamma_constant(table, "kappa") == pytest.approx(closed, rel=1e-12)
        assert closed == pytest.approx(expected, abs=5e-5)


def test_accuracy_by_tables_is_accuracy_by_counts() -> None:
    humans, judge = sparse(9)
    plain = loo_margins(loo_counts(humans, judge))
    tables = loo_tables(humans, judge, 3)
    other = statistic_margins(tables, influence_moments(humans, judge, tables, "accuracy"), "accuracy")
    np.testing.assert_allclose(other.margin, plain.margin, atol=1e-14)
    np.testing.assert_allclose(other.covariance, plain.covariance, atol=1e-14)
    np.testing.assert_array_equal(other.n_items, plain.n_items)
    np.testing.assert_array_equal(other.overlap, plain.overlap)


@pytest.mark.parametrize("statistic", LOO_STATISTICS)
def test_margins_of_statistics_by_loops(statistic: str) -> None:
    humans, judge = sparse(10, n=40)
    scores = [0.0, 1.0, 4.0]
    n, K = humans.shape
    found = loo_validate(humans, judge, statistic=statistic, n_categories=3, scores=scores).margins
    psi = np.zeros((n, K))
    for k in range(K):
        tables = np.zeros((2, 3, 3))
        units = [(i, q) for i in range(n) for q in range(K) if q != k and slow.met(humans, judge, i, k, q)]
        for i, q in units:
            tables[0, judge[i], humans[i, q]] += 1
            tables[1, humans[i, k], humans[i, q]] += 1
        values = statistic_value(tables, statistic, scores)[0]
        assert found.margin[k] == pytest.approx(values[0] - values[1] + 0.05)
        phi = influence(tables, statistic, scores)
        for i, q in units:
            psi[i, k] += (phi[0][judge[i], humans[i, q]] - phi[1][humans[i, k], humans[i, q]]) / len(units)
    np.testing.assert_allclose(found.covariance, psi.T @ psi, atol=1e-13)


def test_minus_root_mean_squared_error_and_small_sample_alpha() -> None:
    table = [[3, 1], [2, 4]]
    assert statistic_value(table, "neg_rmse", [0, 2])[0] == pytest.approx(-np.sqrt(12 / 10))
    assert statistic_value(table, "neg_mae", [0, 2])[0] == pytest.approx(-0.6)
    pi = statistic_value(table, "scott_pi")[0]
    assert statistic_value(table, "alpha")[0] == pytest.approx(pi + (1 - pi) / 20)


def test_a_statistic_that_is_undefined_has_its_reason() -> None:
    found = loo_validate(np.zeros((30, 3), int), np.zeros(30, int), statistic="kappa", n_categories=2).margins
    assert np.isnan(found.margin).all()
    assert np.isnan(found.se).all()
    assert (found.reason != Reason.OK).all()
    assert (found.se_reason == found.reason).all()
    none = loo_validate([[0, -1], [-1, 1]], [0, 1], statistic="kappa", n_categories=2).margins
    assert (none.reason == Reason.NO_OVERLAP).all()


# -------------------------------------------------------------------------- strata and control variates


def stratified_by_loops(humans, judge, stratum, sizes, eps=0.05):  # type: ignore[no-untyped-def]
    K = humans.shape[1]
    parts = [np.nonzero((stratum == s) & (humans[:, 1:] >= 0).any(axis=1))[0] for s in range(len(sizes))]
    hits, pairs = np.zeros(K), np.zeros(K)
    for s, items in enumerate(parts):
        a, h, w = slow.counts(humans[items].tolist(), judge[items].tolist())
        hits += sizes[s] / len(items) * (a - h).sum(axis=1)
        pairs += sizes[s] / len(items) * w.sum(axis=1)
    return hits / pairs + eps


def test_stratified_margins_honour_the_weights() -> None:
    rng = np.random.default_rng(11)
    stratum = np.repeat([0, 1, 2], [60, 30, 10])
    humans, judge = rng.integers(0, 3, (100, 4)), rng.integers(0, 3, 100)
    hidden = np.ones(100, dtype=bool)
    hidden[np.r_[0:10, 60:75, 90:95]] = False
    humans[hidden, 1:] = -1
    parts = [loo_counts(humans[stratum == s], judge[stratum == s]) for s in range(3)]
    found = stratified_margins(parts, [60, 30, 10])
    np.testing.assert_allclose(found.margin, stratified_by_loops(humans, judge, stratum, [60, 30, 10]))
    assert np.isfinite(found.se).all()
    finite = stratified_margins(parts, [60, 30, 10], target="matrix")
    np.testing.assert_allclose(finite.margin, found.margin)
    assert (finite.se < found.se).all()


def test_one_stratum_is_a_simple_sample() -> None:
    rng = np.random.default_rng(12)
    humans, judge = rng.integers(0, 2, (80, 3)), rng.integers(0, 2, 80)
    humans[20:, 1:] = -1
    counts = loo_counts(humans, judge)
    found, plain = stratified_margins([counts], [80], target="matrix"), loo_margins(counts)
    np.testing.assert_allclose(found.margin, plain.margin)
    np.testing.assert_array_equal(found.win, plain.win)
    np.testing.assert_allclose(found.covariance, plain.covariance * 20 / 19 * (1 - 20 / 80))
    whole = stratified_margins([counts], [80])
    # n -> N adds the spread between items over N: within/20 (1 - 20/80) + (within (1 - 1/20))/80 in all
    np.testing.assert_allclose(
        np.diagonal(whole.covariance) / np.diagonal(found.covariance),
        1 + 20 / 60 * (1 - 1 / 20),
    )


def test_strata_with_one_sampled_item_are_taken_together() -> None:
    """Their variance is that of one stratum of all their items; a lone one goes with the smallest other."""
    rng = np.random.default_rng(17)
    humans, judge = rng.integers(0, 2, (60, 3)), rng.integers(0, 2, 60)
    stratum = np.repeat([0, 1, 2, 3], [30, 18, 7, 5])
    drawn = np.r_[0:8, 30:36, 48:49, 55:56]
    hidden = np.ones(60, dtype=bool)
    hidden[drawn] = False
    humans[hidden, 1:] = -1
    parts = [loo_counts(humans[stratum == s], judge[stratum == s]) for s in range(4)]

    def variance(found: Any, groups: list[tuple[list[int], int]], strata: list[int]) -> np.ndarray:
        sizes = np.bincount(stratum)
        u, w = np.zeros((60, 3)), np.zeros((60, 3))
        for i in drawn:
            _, h, pairs = slow.counts([humans[i].tolist()], [int(judge[i])])
            a = slow.counts([humans[i].tolist()], [int(judge[i])])[0]
            w[i] = pairs.sum(axis=1)
            u[i] = (a - h).sum(axis=1) - (found.margin - 0.05) * w[i]
        total = np.zeros(3)
        for items, size in groups:
            n = len(items)
            total += size**2 * (1 / n - 1 / size) * u[items].var(axis=0, ddof=1)
        counts = [np.count_nonzero(stratum[drawn] == s) for s in range(4)]
        whole = sum(sizes[s] / counts[s] * w[drawn][stratum[drawn] == s].sum(axis=0) for s in strata)
        return np.asarray(total / whole**2)

    two = stratified_margins(parts, [30, 18, 7, 5], target="matrix")
    groups = [(list(range(8)), 30), (list(range(30, 36)), 18), ([48, 55], 12)]
    np.testing.assert_allclose(two.se**2, variance(two, groups, [0, 1, 2, 3]))
    one = stratified_margins(parts[:3], [30, 18, 7], target="matrix")
    groups = [(list(range(8)), 30), ([*range(30, 36), 48], 25)]
    np.testing.assert_allclose(one.se**2, variance(one, groups, [0, 1, 2]))
    # nothing to go with
    assert np.isnan(stratified_margins(parts[2:3], [7], target="matrix").se).all()
    complete = stratified_margins([parts[0], loo_counts(humans[48:49], judge[48:49])], [30, 1])
    assert np.isfinite(complete.se).all()


def test_strata_that_do_not_fit() -> None:
    counts = loo_counts(DENSE, DENSE_JUDGE)
    with pytest.raises(StructureError, match="size for each stratum"):
        stratified_margins([counts], [8, 3])
    with pytest.raises(StructureError, match="more sampled items"):
        stratified_margins([counts], [7])
    with pytest.raises(ProtocolError, match="no sampled item"):
        stratified_margins([counts, loo_counts(DENSE[:0], DENSE_JUDGE[:0])], [8, 3])
    alone = stratified_margins([counts], [8])
    dropped = stratified_margins([counts, loo_counts(DENSE[:0], DENSE_JUDGE[:0])], [8, 3], unsampled="drop")
    np.testing.assert_array_equal(dropped.margin, alone.margin)
    np.testing.assert_array_equal(dropped.covariance, alone.covariance)


def test_neyman_weights_remove_the_bias_of_unequal_sampling() -> None:
    rng = np.random.default_rng(13)
    stratum = np.repeat([0, 1], [150, 50])
    humans = rng.integers(0, 2, (200, 3))
    judge = np.where(stratum == 1, 1 - humans[:, 0], humans[:, 0])
    full = loo_margins(loo_counts(humans, judge)).margin
    weighted, plain, ses = [], [], []
    for _ in range(300):
        hidden = np.ones(200, dtype=bool)
        hidden[np.r_[rng.permutation(150)[:10], 150 + rng.permutation(50)[:30]]] = False
        shown = humans.copy()
        shown[hidden, 1:] = -1
        parts = [loo_counts(shown[stratum == s], judge[stratum == s]) for s in range(2)]
        one = stratified_margins(parts, [150, 50], target="matrix")
        weighted.append(one.margin)
        ses.append(one.se)
        plain.append(loo_margins(add_counts(parts)).margin)
    sd = np.std(weighted, axis=0)
    assert (np.abs(np.mean(weighted, axis=0) - full) < 4 * sd / np.sqrt(300)).all()
    assert (np.abs(np.mean(plain, axis=0) - full)[1:] > 0.2).all()
    np.testing.assert_allclose(np.mean(ses, axis=0), sd, rtol=0.12)


@needs_shared
def test_control_variance_in_theory() -> None:
    for entry in oracle("loo")["ppi_margin_and_ceiling"]:
        p, j, m, n = entry["p_h"], entry["p_j"], entry["m"], entry["n"]
        # agreement of the judge (f) and of a human (h) with the first human, and of both at once
        f, h = p * j + (1 - p) * (1 - j), p * p + (1 - p) ** 2
        fh = p * p * j + (1 - p) ** 2 * (1 - j)
        var_f, var_h, cov = f * (1 - f), h * (1 - h), fh - f * h
        expected = entry["theory_var"]
        for key, variance, covariance, coefficient in (
            ("lam0", var_f + var_h - 2 * cov, var_f - cov, 0.0),
            ("lam1", var_f + var_h - 2 * cov, var_f - cov, 1.0),
            ("opt", var_f + var_h - 2 * cov, var_f - cov, None),
            ("hh_classical", var_h, cov, 0.0),
            ("hh_ppi1", var_h, cov, 1.0),
            ("hh_opt", var_h, cov, None),
        ):
            value, used = control_variance(variance, covariance, var_f, m, n, coefficient=coefficient)
            assert value == pytest.approx(expected[key], rel=1e-6)
            assert value == pytest.approx(entry["mc_var"][key], rel=0.04)
            if key == "opt":
                assert used == pytest.approx(expected["lambda_margin"], rel=1e-6)
            if key == "hh_opt":
                assert used == pytest.approx(expected["lambda_ceiling"], rel=1e-6)


@needs_shared
@pytest.mark.parametrize("task", ["wax", "cebab_aspects", "cebab_stars", "summeval"])
def test_control_of_real_ceilings(task: str) -> None:
    data, expected = slow.matrix(task).by_count(), oracle("loo")["ppi_ceiling_var_ratio"][task]
    for j, name in enumerate(slow.JUDGES):
        ratios, best = [], []
        for k in range(1, data.humans.shape[1]):
            shared = (data.humans[:, 0] >= 0) & (data.humans[:, k] >= 0)
            if shared.sum() < 30:
                continue
            f = (data.judges[shared, j] == data.humans[shared, 0]).astype(float)
            h = (data.humans[shared, k] == data.humans[shared, 0]).astype(float)
            cov = float(np.cov(f, h, ddof=0)[0, 1])
            value, used = control_variance(float(h.var()), cov, float(f.var()), 1.0, np.inf)
            ratios.append(value / h.var())
            best.append(used)
        assert np.mean(ratios) == pytest.approx(expected[name][0], abs=1e-3)
        assert np.mean(best) == pytest.approx(expected[name][1], abs=1e-3)


def test_control_margins_by_loops() -> None:
    rng = np.random.default_rng(14)
    truth = rng.integers(0, 2, 150)
    humans = np.stack([noisy(rng, truth, 0.85) for _ in range(3)], axis=1)
    judge = noisy(rng, truth, 0.8)
    humans[:, 1:][rng.random((150, 2)) < 0.7] = -1
    counts = loo_counts(humans, judge, control=True)
    found, plain = control_margins(counts), loo_margins(counts)
    f = (judge == humans[:, 0]).astype(float)
    psi, adjusted = np.zeros((150, 3)), np.zeros(3)
    for k in range(3):
        z, w = np.zeros(150), np.zeros(150)
        for i in range(150):
            a, h, pairs = slow.counts(humans[i : i + 1].tolist(), judge[i : i + 1].tolist())
            z[i], w[i] = (a - h)[k].sum(), pairs[k].sum()
        one = (z - z.sum() / w.sum() * w) / w.sum()
        mean = (w * f).sum() / w.sum()
        other = w * (f - mean) / w.sum() - (f - f.mean()) / 150
        coefficient = (one @ other) / (other @ other)
        adjusted[k] = z.sum() / w.sum() + 0.05 - coefficient * (mean - f.mean())
        psi[:, k] = one - coefficient * other
        assert found.coefficient[k] == pytest.approx(coefficient)
    np.testing.assert_allclose(found.margins.margin, adjusted)
    np.testing.assert_allclose(found.margins.covariance, psi.T @ psi, atol=1e-14)
    assert (found.margins.se < plain.se).all()


def test_a_control_that_is_constant_changes_nothing() -> None:
    humans = np.array([[0, 1, -1], [0, 0, 1], [1, 1, 1], [1, 0, -1], [0, -1, 1]])
    counts = loo_counts(humans, humans[:, 0], control=True)
    found, plain = control_margins(counts), loo_margins(counts)
    np.testing.assert_allclose(found.margins.margin, plain.margin)
    assert (found.coefficient == 0).all()
    assert (found.reason == Reason.CONSTANT_CONTROL).all()
    np.testing.assert_allclose(found.margins.se, plain.se)


def test_the_control_needs_the_first_human_and_its_counts() -> None:
    humans, judge = sparse(15)
    with pytest.raises(OverlapError, match="first human's label on every item"):
        loo_counts(humans, judge, control=True)
    with pytest.raises(StructureError, match="control=True"):
        control_margins(loo_counts(humans, judge))


def test_the_control_lowers_the_variance_and_its_standard_error() -> None:
    """Simulation, LOO.md 8.2: the variance of the margin falls to the predicted share, and the se follows."""
    rng = np.random.default_rng(16)
    margins, plain, ses = [], [], []
    for _ in range(400):
        truth = rng.integers(0, 2, 400)
        humans = np.stack([noisy(rng, truth, 0.85) for _ in range(2)], axis=1)
        judge = noisy(rng, truth, 0.7)
        humans[60:, 1] = -1
        counts = loo_counts(humans, judge, control=True)
        found = control_margins(counts).margins
        margins.append(found.margin[1])
        ses.append(found.se[1])
        plain.append(loo_margins(counts).margin[1])
    assert np.var(margins) / np.var(plain) < 0.75
    assert np.mean(ses) == pytest.approx(np.std(margins), rel=0.1)


def test_read_decimal() -> None:
    assert read_decimal(0.1, "x") == Fraction(1, 10)
    assert read_decimal(np.float64(0.05), "x") == EPS
    assert read_decimal(Fraction(1, 3), "x") == Fraction(1, 3)
    assert read_decimal(1e-7, "x") == Fraction(1, 10**7)


def test_verdicts_of_a_clear_judge() -> None:
    rng = np.random.default_rng(17)
    truth = rng.integers(0, 2, 600)
    humans = np.stack([noisy(rng, truth, 0.85) for _ in range(3)], axis=1)
    judges = np.stack([noisy(rng, truth, p) for p in (0.97, 0.5, 0.775)], axis=1)
    for combine in ("bonferroni", "max_t"):
        found = loo_validate(humans, judges, combine=combine).verdict
        assert found.verdict.tolist() == ["accept", "reject", "inconclusive"]
        assert found.p_accept[0] > 0.999
        assert found.p_accept[1] < 0.001
        assert ((found.fr_at_margin > 0) & (found.fr_at_margin < 0.1)).all()
        assert ((found.fa_at_margin > 0) & (found.fa_at_margin < 0.1)).all()


def test_max_t_where_four_or_more_are_tested_together() -> None:
    rng = np.random.default_rng(20)
    truth = rng.integers(0, 2, 300)
    humans = np.stack([noisy(rng, truth, 0.85) for _ in range(8)], axis=1)
    judge = noisy(rng, truth, 0.83)
    margins = loo_margins(loo_counts(humans, judge))
    plain, joined = loo_verdict(margins), loo_verdict(margins, combine="max_t")
    assert joined.p_value_accept < 0.97 * plain.p_value_accept
    few = loo_margins(loo_counts(humans[:, :4], judge))
    assert loo_verdict(few, combine="max_t").p_value_accept == loo_verdict(few).p_value_accept


def test_small_samples_use_t() -> None:
    rng = np.random.default_rng(18)
    truth = rng.integers(0, 2, 49)
    humans = np.stack([noisy(rng, truth, 0.8) for _ in range(3)], axis=1)
    margins = loo_margins(loo_counts(humans, noisy(rng, truth, 0.9)))
    from scipy import stats

    found = loo_verdict(margins)
    p = np.sort(stats.t.sf(margins.margin / margins.se, 48))
    assert found.p_value_accept == pytest.approx(min(1, 2 * p[1]))
    again = loo_verdict(margins._replace(n_items=np.full(3, 50)))
    assert again.p_value_accept == pytest.approx(
        min(1, 2 * np.sort(stats.norm.sf(margins.margin / margins.se))[1])
    )

"""The alternative-annotator test: the published figures, plain loops, and what must never be p = 0."""

import loo_slow as slow
import numpy as np
import pytest
from scipy import stats
from shared import needs_shared, oracle

from xjudge.errors import ProtocolError, Reason, StructureError
from xjudge.statistics.loo import (
    advantage_counts,
    alt_test,
    alt_test_counts,
    alt_test_scores,
    step_up,
)

TASKS = ["wax", "cebab_aspects", "cebab_stars", "summeval", "mtbench", "10k_prompts", "framing"]


@needs_shared
@pytest.mark.parametrize("task", TASKS)
def test_published_figures(task: str) -> None:
    data, expected = slow.matrix(task), oracle("alttest_alt")[task]
    score = expected["scoring"]
    values = [float(label) for label in data.labels] if score == "neg_rmse" else None
    assert set(expected["judges"]) == set(slow.JUDGES)
    for eps in (0.0, 0.1, 0.15, 0.2):
        found = alt_test(
            data.humans,
            data.judges,
            eps=eps,
            q=expected["q_fdr"],
            score=score,
            scores=values,
            min_items=expected["min_instances_per_human"],
            min_humans=expected["min_humans_per_instance"],
        )
        for j, name in enumerate(slow.JUDGES):
            one = expected["judges"][name]
            assert found.advantage_probability[j] == pytest.approx(one["rho"], abs=1e-12)
            assert found.omega[j] == pytest.approx(one["omega"][str(eps)], abs=1e-12)
            assert bool(found.passes[j]) == one["passes"][str(eps)]
            assert found.n_tested[j] == one["humans_tested"]
            for human in one["humans"]:
                k = data.names.index(human["human"])
                assert found.n_items[j, k] == human["n"]
                assert found.advantage_judge[j, k] == pytest.approx(human["rho_judge"], abs=1e-12)
                assert found.advantage_human[j, k] == pytest.approx(human["rho_human"], abs=1e-12)
                assert found.difference[j, k] == pytest.approx(human["d"], abs=1e-12)
                assert found.p_value[j, k] == pytest.approx(human["p"][str(eps)], abs=1e-10)


def example(seed: int, n: int = 60, K: int = 4, L: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    humans = np.where(rng.random((n, K)) < 0.7, rng.integers(0, L, (n, K)), -1)
    return humans, np.where(rng.random(n) < 0.95, rng.integers(0, L, n), -2)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("score", ["accuracy", "neg_rmse"])
def test_against_plain_loops(seed: int, score: str) -> None:
    humans, judge = example(seed)
    values = [1.0, 2.0, 5.0]
    found = alt_test(humans, judge, eps=0.2, score=score, scores=values, min_items=20)
    p = []
    for k in range(humans.shape[1]):
        pairs = slow.advantages(humans.tolist(), judge.tolist(), k, score, values)
        ours = np.array([a >= b - 1e-12 for a, b in pairs], float)
        theirs = np.array([b >= a - 1e-12 for a, b in pairs], float)
        assert found.n_items[k] == len(pairs)
        assert found.advantage_judge[k] == pytest.approx(ours.mean())
        assert found.advantage_human[k] == pytest.approx(theirs.mean())
        p.append(stats.ttest_1samp(theirs - ours, 0.2, alternative="less").pvalue)
    np.testing.assert_allclose(found.p_value, p, rtol=1e-10)
    significant = stats.false_discovery_control(p, method="by") <= 0.05
    np.testing.assert_array_equal(found.significant, significant)
    assert found.omega == pytest.approx(significant.mean())
    assert found.advantage_probability == pytest.approx(found.advantage_judge.mean())


def test_own_scores_are_the_same_test() -> None:
    humans, judge = example(5)
    ours, theirs = np.full((2, *humans.shape), np.nan)
    for i, k in np.ndindex(humans.shape):
        others = [label for q, label in enumerate(humans[i]) if q != k and label >= 0]
        if humans[i, k] >= 0 and judge[i] >= 0 and others:
            ours[i, k] = np.mean(np.array(others) == judge[i])
            theirs[i, k] = np.mean(np.array(others) == humans[i, k])
    found = alt_test_scores(ours, theirs, eps=0.15, min_items=10)
    for one, other in zip(found, alt_test(humans, judge, eps=0.15, min_items=10), strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(StructureError, match="must both be"):
        alt_test_scores(ours, theirs[:, :2])


def test_counts_add_and_judges_are_apart() -> None:
    humans, judge = example(6)
    judges = np.stack([judge, example(7)[1]], axis=1)
    ahead, n_items = advantage_counts(humans, judges)
    parts = [advantage_counts(humans[block], judges[block]) for block in (slice(0, 13), slice(13, 60))]
    np.testing.assert_array_equal(ahead, parts[0][0] + parts[1][0])
    np.testing.assert_array_equal(n_items, parts[0][1] + parts[1][1])
    both = alt_test(humans, judges, min_items=5)
    for j in range(2):
        one = alt_test(humans, judges[:, j], min_items=5)
        np.testing.assert_array_equal(both.p_value[j], one.p_value)
        assert both.omega[j] == one.omega
        np.testing.assert_array_equal(alt_test_counts(ahead[j], n_items[j], min_items=5).p_value, one.p_value)


def test_criteria_are_items_of_the_test() -> None:
    rng = np.random.default_rng(8)
    humans, judge = rng.integers(-1, 2, (40, 3, 3)), rng.integers(0, 2, (40, 3))
    pooled = alt_test(humans, judge)
    flat = alt_test(humans.reshape(120, 3), judge.reshape(120))
    np.testing.assert_array_equal(pooled.p_value, flat.p_value)


# --------------------------------------------------------------------------------------------- degenerate


def test_everybody_below_the_minimum_is_a_stated_result() -> None:
    humans, judge = example(9, n=20)
    found = alt_test(humans, judge)
    assert np.isnan(found.p_value).all()
    assert np.isnan(found.significant).all()
    assert (found.reason == Reason.BELOW_MIN_ITEMS).all()
    assert np.isnan([found.omega, found.passes, found.advantage_probability]).all()
    assert found.n_tested == 0
    assert found.passes_reason == Reason.BELOW_MIN_ITEMS
    assert np.isfinite(found.advantage_judge).all()


def test_no_variance_is_not_p_zero() -> None:
    """A judge always ahead, or always level: the t statistic is infinite and would give p = 0 or p = 1."""
    behind = np.array([[0, 1, 1, 1]] * 50)
    found = alt_test(behind, [1] * 50)
    # against the first human the judge is ahead on every item, against the others always level
    assert found.advantage_judge.tolist() == [1, 1, 1, 1]
    assert found.difference.tolist() == [-1, 0, 0, 0]
    assert (found.reason == Reason.NO_VARIANCE).all()
    assert np.isnan(found.p_value).all()
    assert np.isnan([found.omega, found.passes]).all()
    assert found.passes_reason == Reason.NO_VARIANCE
    # one item that differs and there is a test
    judge = np.array([1] * 49 + [0])
    again = alt_test(behind, judge)
    assert again.reason[0] == Reason.OK
    assert 0 < again.p_value[0] < 1e-10
    assert again.n_tested == 4


def test_thirds_do_not_make_variance() -> None:
    found = alt_test_counts([[30, 0]], [30])
    assert found.reason[0] == Reason.NO_VARIANCE
    assert alt_test_counts([[10, 20]], [30]).reason[0] == Reason.OK


def test_nobody_and_mixed_reasons() -> None:
    nobody = alt_test(np.full((5, 2), -1), np.zeros(5, int))
    assert (nobody.reason == Reason.NO_OVERLAP).all()
    assert nobody.passes_reason == Reason.NO_OVERLAP
    assert np.isnan(nobody.advantage_judge).all()
    mixed = alt_test_counts([[3, 2], [0, 0]], [10, 40])
    assert mixed.reason.tolist() == [Reason.BELOW_MIN_ITEMS, Reason.NO_VARIANCE]
    assert mixed.passes_reason == Reason.NOTHING_TO_COMPARE
    one = alt_test_counts([[1, 0]], [1], min_items=0)
    assert one.reason[0] == Reason.ONE_ITEM


def test_a_human_that_cannot_be_tested_has_no_vote() -> None:
    found = alt_test_counts([[30, 5], [30, 5], [2, 1]], [60, 60, 10])
    assert found.n_tested == 2
    assert found.omega == 1
    assert found.advantage_probability == pytest.approx(55 / 60)


def test_items_need_other_humans() -> None:
    humans = np.array([[0, -1, -1]] * 40 + [[0, 1, -1], [1, 0, 1]] * 20)
    assert alt_test(humans, np.zeros(80, int)).n_items.tolist() == [40, 40, 20]
    assert alt_test(humans, np.zeros(80, int), min_humans=3).n_items.tolist() == [20, 20, 20]
    assert alt_test(humans, np.zeros(80, int), min_humans=0).n_items.tolist() == [40, 40, 20]


def test_half_of_the_wins_pass() -> None:
    found = alt_test_counts([[[40, 2], [1, 40]]], [[60, 60]])
    assert found.omega[0] == 0.5
    assert found.passes[0] == 1


# ------------------------------------------------------------------------------------------------ step-up


@pytest.mark.parametrize("seed", range(5))
def test_step_up_against_scipy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p = rng.beta(0.3, 3, (20, 6))
    expected = stats.false_discovery_control(p, axis=1, method="by") <= 0.1
    np.testing.assert_array_equal(step_up(p, 0.1), expected)


def test_step_up_by_hand() -> None:
    """Four tests: levels i 0.05 / (4 (1 + 1/2 + 1/3 + 1/4)) = i 0.006; the last below takes all before."""
    assert step_up([0.024, 0.011, 0.0059, 0.5]).tolist() == [0, 1, 1, 0]
    assert step_up([0.0179, 0.0125, 0.0061, 0.5]).tolist() == [1, 1, 1, 0]
    nan = step_up([np.nan, 0.001, np.nan])
    assert nan[1] == 1
    assert np.isnan(nan[[0, 2]]).all()
    assert step_up(np.full(3, np.nan)).shape == (3,)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"score": "kappa"}, "`score` must be"),
        ({"q": 0}, "`q` must lie in"),
        ({"q": 1}, "`q` must lie in"),
        ({"min_items": -1}, "`min_items`"),
        ({"score": "neg_rmse", "scores": [1, 2]}, "value for every category"),
        ({"score": "neg_rmse", "scores": [1, 2, float("inf")]}, "value for every category"),
        ({"eps": float("nan")}, "`eps` must be a finite number"),
    ],
)
def test_options_are_checked(options: dict, message: str) -> None:
    with pytest.raises(ProtocolError, match=message):
        alt_test(*example(1), **options)


def test_large_counts() -> None:
    found = alt_test_counts(np.array([[10**9, 10**9 + 10**5]]), np.array([4 * 10**9]), eps=0.0001)
    assert found.reason[0] == Reason.OK
    assert 0 < found.p_value[0] < 0.01

"""Planning, allocation and ranking: required numbers of items, rule variants, who labels what."""

from functools import cache
from typing import Any

import loo_slow as slow
import numpy as np
import pytest
from scipy import stats
from shared import needs_shared, oracle

from xjudge.errors import ProtocolError, StructureError
from xjudge.statistics.loo import (
    NoiseModel,
    OverlapPlan,
    accuracy_population,
    allocate,
    alt_test,
    design_margins,
    finite_population_size,
    judge_accuracy_at,
    judge_scores,
    largest_remainder,
    loo_counts,
    loo_margins,
    loo_verdict,
    masked_counts,
    neyman_sizes,
    noise_patterns,
    plan_overlap,
    population_margin,
    score_covariance,
    strata_of,
    stratified_margins,
    stratified_variance_ratio,
    stratum_deviations,
    wrong_top_probability,
)

HALF = [0.5, 0.5]
GRID = [10, 15, 20, 25, 30, 40, 50, 60, 75, 100, 125, 150, 200, 250, 300]
GRID += [400, 500, 600, 800, 1000, 1200, 1600, 2000]
FOUR = {"n_humans": 4, "human_accuracy": 0.85}

# ------------------------------------------------------------------------------------------ published table


@needs_shared
def test_planning_table() -> None:
    expected = oracle("loo")["planning"]
    assert expected["grid"] == GRID
    assert len(expected["rows"]) == 17
    for row in expected["rows"]:
        plan = plan_overlap(**FOUR, design=row["design"], at_margin=abs(row["margin"]), grid=GRID)
        good = row["margin"] > 0
        error = plan.fr if good else plan.fa
        np.testing.assert_allclose(error, row["wrong_rate_gauss"], atol=0.004)
        some = [10, 25, 60, 150]
        simulated = plan_overlap(
            **FOUR, design=row["design"], at_margin=abs(row["margin"]), grid=some, method="monte_carlo"
        )
        for m, ours in zip(some, simulated.fr if good else simulated.fa, strict=True):
            theirs = row["wrong_rate_mc"][GRID.index(m)]
            if theirs is not None:
                variance = theirs * (1 - theirs) * (1 / expected["T"] + 1 / 2000)
                assert abs(ours - theirs) <= max(0.01, 4 * np.sqrt(variance))
        found = plan.m_fr if good else plan.m_fa
        assert abs(GRID.index(found) - GRID.index(row["m_grid_gauss"])) <= 1
        assert abs(GRID.index(found) - GRID.index(row["m_grid_mc"])) <= 1
        if row["m_continuous_gauss"] is not None:
            continuous = plan_overlap(**FOUR, design=row["design"], at_margin=abs(row["margin"]))
            value = continuous.m_fr_continuous if good else continuous.m_fa_continuous
            assert value == pytest.approx(row["m_continuous_gauss"], rel=0.05)


def test_the_four_fold_asymmetry() -> None:
    """About 52 against 215 items at +-0.05 before grid rounding: a ratio of 4.1."""
    plan = plan_overlap(**FOUR)
    assert plan.m_fr_continuous == pytest.approx(52, rel=0.02)
    assert plan.m_fa_continuous == pytest.approx(215, rel=0.02)
    assert plan.m_fa_continuous / plan.m_fr_continuous == pytest.approx(4.1, abs=0.15)
    assert (plan.m_fr, plan.m) == (np.ceil(plan.m_fr_continuous), plan.m_fa)
    assert plan.n_labels == 3 * plan.m
    # on the grids of LOO.md and of the note
    fine, coarse = plan_overlap(**FOUR, grid=GRID), plan_overlap(**FOUR, grid=[25, 50, 75, 150, 300, 600])
    assert (fine.m_fr, fine.m_fa) == (60, 250)
    assert (coarse.m_fr, coarse.m_fa) == (75, 300)


THRESHOLD = {(3, 2): 0.5, (4, 2): 0.5, (4, 3): 0.6, (5, 3): 0.5, (3, 3): 1, (4, 4): 1}


@cache
def plan_of(K: int, c: int, design: str, margin: float, **options: Any) -> OverlapPlan:
    plan = plan_overlap(
        n_humans=K,
        human_accuracy=0.85,
        design=design,
        at_margin=abs(margin),
        threshold=THRESHOLD[K, c],
        **options,
    )
    assert plan.needed == c
    return plan


@needs_shared
def test_required_items_of_every_rule() -> None:
    entries = oracle("loo")["rules_required_m"]
    assert len(entries) == 89
    for one in entries:
        plan = plan_of(one["K"], one["c"], one["design"], abs(one["margin"]))
        found = plan.m_fr_continuous if one["margin"] > 0 else plan.m_fa_continuous
        if one["m_required"] == "<4":
            assert found == 4
        elif one["m_required"] == ">2000":
            assert found == np.inf
        else:
            assert found == pytest.approx(one["m_required"], rel=0.05)


@needs_shared
def test_required_items_of_a_certificate() -> None:
    entries = oracle("loo")["three_way_required_m"]
    assert len(entries) == 43
    for one in entries:
        error = round(1 - one["power"], 6)
        options = {"n_items": 5000, "target_fr": error, "target_fa": error}
        plan = plan_of(
            one["K"], one["c"], one["design"], abs(one["margin"]), rule="partial_conjunction", **options
        )
        if one["margin"] > 0:
            assert plan.m_fr_continuous == pytest.approx(one["m_pc_acc"], rel=0.05)
        else:
            assert plan.m_fa_continuous == pytest.approx(one["m_pc_rej"], rel=0.05)


@needs_shared
def test_benjamini_yekutieli_needs_as_many() -> None:
    """The count of significant margins, known covariance: the probability reaches its power where stated."""
    from xjudge.statistics._loo_rules import by_probability

    for one in oracle("loo")["three_way_required_m"]:
        if "m_by" not in one:
            continue
        accuracy = judge_accuracy_at(one["margin"], [0.85] * one["K"], HALF, 0.05)
        population = accuracy_population([0.85] * one["K"], accuracy, HALF)
        points = np.array([0.95, 1.05]) * one["m_by"]
        margins = design_margins(population, one["design"], points / one["n"], one["n"], 0.05)
        low, high = by_probability(margins.mu, margins.covariance, one["c"], points)
        assert low <= one["power"] + 1e-3
        assert high >= one["power"] - 1e-3


@needs_shared
def test_recipe() -> None:
    """1.96^2 sigma0^2 / margin^2, with sigma0^2 the variance of [judge = r1] - [rk = r1]."""
    z = stats.norm.ppf(0.975)
    entries = oracle("loo")["recipe"]
    assert len(entries) == 12
    for one in entries:
        pairs = accuracy_population([0.85] * 4, one["p_j"], HALF).pairs
        sigma = pairs.second[1, 0, 1, 0] - pairs.difference[1, 0] ** 2
        assert sigma == pytest.approx(one["sigma0_sq"], rel=1e-6)
        assert z**2 * sigma / one["margin"] ** 2 == pytest.approx(one["m_recipe"], rel=1e-6)


# ----------------------------------------------------------------------------------------------- planning


def test_odd_numbers_and_strict_majorities_move_the_asymmetry() -> None:
    """LOO.md section 6: about 4.1 for 2 of 4, 1.5 for 2 of 3 and 3 of 5, 0.5 for 3 of 4."""
    ratios = {}
    for K, threshold in ((4, 0.5), (3, 0.5), (5, 0.5), (4, 0.6)):
        plan = plan_overlap(n_humans=K, human_accuracy=0.85, at_margin=0.1, threshold=threshold)
        ratios[K, threshold] = plan.m_fa_continuous / plan.m_fr_continuous
    assert ratios[4, 0.5] > 4
    assert ratios[4, 0.6] < 1
    assert 1 < ratios[3, 0.5] < 2.5
    assert 1 < ratios[5, 0.5] < 2.5
    strict = plan_overlap(n_humans=4, human_accuracy=0.85, at_margin=0.1, strict=True)
    assert strict.m_fa_continuous / strict.m_fr_continuous == ratios[4, 0.6]


def test_curves_and_verdicts() -> None:
    plan = plan_overlap(**FOUR, design="shared", grid=[50, 100, 400, 1000])
    np.testing.assert_allclose(plan.fr, 1 - plan.p_accept[0])
    np.testing.assert_allclose(plan.fa, plan.p_accept[1])
    assert (np.diff(plan.fr) < 0).all()
    assert (np.diff(plan.fa) < 0).all()
    np.testing.assert_allclose(plan.smallest_overlap, [150, 300, 1200, 3000])
    assert plan.trusted.all()
    np.testing.assert_allclose(plan.verdicts.sum(axis=1), 1)
    assert plan.verdicts[0, 0] > plan.verdicts[1, 0]
    assert plan.verdicts[1, 1] > plan.verdicts[0, 1]
    certificate = plan_overlap(**FOUR, rule="partial_conjunction", target_fr=0.2, target_fa=0.2)
    assert certificate.verdicts[0, 0] > 0.79
    assert certificate.verdicts[1, 1] > 0.79


def test_not_reachable_is_infinite() -> None:
    plan = plan_overlap(**FOUR, at_margin=0.01, n_items=300)
    assert plan.m == np.inf
    assert plan.n_labels == np.inf
    assert np.isnan(plan.verdicts).all()
    listed = plan_overlap(**FOUR, grid=[10, 20])
    assert listed.m_fr == np.inf


def test_thin_points_are_simulated_on_request() -> None:
    plan = plan_overlap(**FOUR, grid=[5, 8, 200], method="auto")
    assert plan.method.tolist() == ["monte_carlo", "monte_carlo", "gaussian"]
    gaussian = plan_overlap(**FOUR, grid=[5, 8, 200])
    assert gaussian.method.tolist() == ["gaussian"] * 3
    assert gaussian.trusted.tolist() == [False, False, True]
    assert np.abs(plan.fr[:2] - gaussian.fr[:2]).max() < 0.1
    simulated = plan_overlap(**FOUR, grid=[60, 250], method="monte_carlo", n_trials=4000)
    assert simulated.fr[0] == pytest.approx(0.030, abs=0.015)
    assert simulated.fa[1] == pytest.approx(0.039, abs=0.015)


def joint_of(human: list[float], judge: float, prevalence: list[float]) -> np.ndarray:
    codes, probability = noise_patterns(human, judge, prevalence)
    joint = np.zeros((len(prevalence),) * (len(human) + 1))
    joint[tuple(codes.T)] = probability
    return joint


def test_a_joint_distribution_and_a_pilot_plan_alike() -> None:
    joint = joint_of([0.9, 0.8, 0.7], 0.75, HALF)
    by_joint = plan_overlap(joint=joint, design="random")
    rng = np.random.default_rng(0)
    codes, probability = noise_patterns([0.9, 0.8, 0.7], 0.75, HALF)
    pilot = codes[rng.choice(len(codes), 20_000, p=probability)]
    by_pilot = plan_overlap(humans=pilot[:, :3], judge=pilot[:, 3], design="random")
    assert by_pilot.m_fr_continuous == pytest.approx(by_joint.m_fr_continuous, rel=0.15)
    assert by_pilot.m_fa_continuous == pytest.approx(by_joint.m_fa_continuous, rel=0.15)


def test_a_sparse_pilot_will_do() -> None:
    rng = np.random.default_rng(1)
    codes, probability = noise_patterns([0.85] * 4, 0.8, HALF)
    pilot = codes[rng.choice(len(codes), 3000, p=probability)]
    humans = pilot[:, :4].copy()
    humans[:, 1:][rng.random((3000, 3)) < 0.5] = -1
    plan = plan_overlap(humans=humans, judge=pilot[:, 4], design="shared")
    floats = plan_overlap(humans=np.where(humans < 0, np.nan, humans), judge=pilot[:, 4], design="shared")
    assert floats.m == plan.m
    complete = plan_overlap(humans=pilot[:, :4], judge=pilot[:, 4], design="shared")
    assert plan.m_fa_continuous == pytest.approx(complete.m_fa_continuous, rel=0.15)
    with pytest.raises(ProtocolError, match="share none"):
        plan_overlap(humans=[[0, 0, -1], [1, -1, 1]], judge=[0, 1])


def test_a_pilot_without_common_items_is_not_simulated() -> None:
    humans = np.array([[0, 1, -1], [1, -1, 1], [-1, 0, 0], [1, 1, -1], [0, -1, 1], [-1, 1, 0]] * 20)
    judge = np.array([0, 1, 0, 1, 1, 0] * 20)
    assert np.isfinite(plan_overlap(humans=humans, judge=judge, grid=[50, 100]).fr).all()
    with pytest.raises(ProtocolError, match="method='gaussian'"):
        plan_overlap(humans=humans, judge=judge, grid=[50], method="monte_carlo")
    with pytest.raises(ProtocolError, match="joint distribution of an item's labels"):
        plan_overlap(humans=humans, judge=judge, grid=[50], rule="alt_test")


def test_strata_of_label_and_judge_can_be_planned() -> None:
    plain, label, both = (
        plan_overlap(**FOUR, prevalence=[0.8, 0.2], design=design).m_fa_continuous
        for design in ("shared", "strat", "strat_judge")
    )
    assert both < label <= plain


def test_design_weighs_raters_by_overlap() -> None:
    """Unequal humans: random drifts, so that no number of items short of all keeps the target."""
    uneven = {"human_accuracy": [0.95, 0.9, 0.9, 0.6], "at_margin": 0.02, "threshold": 0.6}
    shared, random = (
        [plan_overlap(**uneven, design=design, n_items=n).m_fr for n in (50_000, 200_000)]
        for design in ("shared", "random")
    )
    assert max(shared) < 1300
    assert shared[1] == pytest.approx(shared[0], rel=0.05)
    # under random the drift fades with the share of the corpus, whatever the number of items
    assert random[0] > 10_000
    assert random[1] > 3 * random[0]


def test_alt_test_rule_against_simulation() -> None:
    plan = plan_overlap(**FOUR, n_items=400, rule="alt_test", at_margin=0.1, grid=[60, 120, 240])
    accuracy = judge_accuracy_at(0.1, [0.85] * 4, HALF, 0.05)
    rng = np.random.default_rng(2)
    codes, probability = noise_patterns([0.85] * 4, accuracy, HALF)
    for m, expected in zip((60, 120, 240), plan.p_accept[0], strict=True):
        passed = []
        for _ in range(250):
            labels = codes[rng.choice(len(codes), 400, p=probability)]
            humans = np.where(allocate(400, 4, m, design="random", seed=rng).assigned, labels[:, :4], -1)
            passed.append(alt_test(humans, labels[:, 4], eps=0.05).passes)
        assert np.mean(passed) == pytest.approx(expected, abs=4 * 0.5 / np.sqrt(250))


def test_partial_conjunction_rule_against_simulation() -> None:
    plan = plan_overlap(
        **FOUR, n_items=400, rule="partial_conjunction", at_margin=0.1, design="shared", grid=[40, 90]
    )
    accuracy = judge_accuracy_at(0.1, [0.85] * 4, HALF, 0.05)
    rng = np.random.default_rng(3)
    codes, probability = noise_patterns([0.85] * 4, accuracy, HALF)
    for m, expected in zip((40, 90), plan.p_accept[0], strict=True):
        found = []
        for _ in range(400):
            labels = codes[rng.choice(len(codes), m, p=probability)]
            margins = loo_margins(loo_counts(labels[:, :4], labels[:, 4]))
            found.append(loo_verdict(margins, log2_points=4).verdict == "accept")
        assert np.mean(found) == pytest.approx(expected, abs=0.11)


@needs_shared
@pytest.mark.parametrize(
    ("K", "c", "margin", "m"), [(3, 2, 0.05, 75), (4, 2, -0.1, 75), (4, 3, 0.05, 200), (5, 3, -0.05, 200)]
)
def test_operating_characteristics(K: int, c: int, margin: float, m: int) -> None:
    """A few of the stored settings (one shared sample); `benchmarks/loo_level.py` compares all 149."""
    entries = oracle("loo")["three_way_operating_characteristics"]
    key = (K, c, "shared", margin, m)
    (one,) = [e for e in entries if (e["K"], e["c"], e["design"], e["margin"], e["m"]) == key]
    codes, probability = noise_patterns([0.85] * K, judge_accuracy_at(margin, [0.85] * K, HALF, 0.05), HALF)
    rng = np.random.default_rng(9)
    T, threshold = 400, THRESHOLD[K, c]
    found: dict[str, list] = {key: [] for key in ("plain", "accept", "reject", "alt", "sd", "margin")}
    for _ in range(T):
        labels = codes[rng.choice(len(codes), m, p=probability)]
        margins = loo_margins(loo_counts(labels[:, :K], labels[:, K]), threshold=threshold)
        verdict = loo_verdict(margins, threshold=threshold, log2_points=3).verdict
        alt = alt_test(labels[:, :K], labels[:, K], eps=0.05)
        found["plain"].append(margins.votes.accept_point == 1)
        found["accept"].append(verdict == "accept")
        found["reject"].append(verdict == "reject")
        found["alt"].append(np.nansum(alt.significant) >= c)
        found["sd"].append(margins.se)
        found["margin"].append(margins.margin)
    expected = {"plain": one["plain_accept"], "accept": one["pc05"][0], "reject": one["pc05"][1]}
    expected["alt"] = one["alt_test_accept"]
    for name, p in expected.items():
        share = float(np.mean(found[name]))
        limit = 4 * np.sqrt(p * (1 - p) / one["T"] + share * (1 - share) / T)
        assert abs(share - p) <= max(0.015, limit), name
    np.testing.assert_allclose(np.mean(found["sd"], axis=0), one["mean_sand_sd"], rtol=0.03)
    np.testing.assert_allclose(np.std(found["margin"], axis=0), one["mc_sd"], rtol=0.17)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "got nothing"),
        ({"n_humans": 4, "joint": joint_of([0.8, 0.8], 0.8, HALF)}, "got joint, parameters"),
        ({"humans": [[0, 0]], "n_humans": 4}, "got pilot, parameters"),
        ({"humans": [[0, 0]]}, "both `humans` and `judge`"),
        (FOUR | {"at_margin": 0}, "`at_margin` must be positive"),
        (FOUR | {"at_margin": 0.3}, "No judge has a mean margin of 0.3"),
        (FOUR | {"target_fr": 0}, "`target_fr` must lie in"),
        (FOUR | {"target_fa": 1}, "`target_fa` must lie in"),
        (FOUR | {"level": 1}, "`level` must lie in"),
        (FOUR | {"rule": "majority"}, "`rule` must be one of"),
        (FOUR | {"method": "exact"}, "'monte_carlo' or 'auto'"),
        (FOUR | {"design": "census"}, "`design` must be one of"),
        (FOUR | {"n_items": 3}, "`n_items` must be at least 4"),
        (FOUR | {"grid": [10, 3000]}, "`grid` must hold whole numbers"),
        (FOUR | {"grid": [10.5]}, "`grid` must hold whole numbers"),
        (FOUR | {"grid": []}, "`grid` must hold whole numbers of items .* got none"),
        (FOUR | {"n_items": 100.5}, "a whole number; got 100.5"),
        ({"n_humans": "3"}, "`n_humans` must be a whole number; got '3'"),
        ({"n_humans": 3, "human_accuracy": 0.5}, "humans who guess"),
    ],
)
def test_options_are_checked(options: dict, message: str) -> None:
    with pytest.raises(ProtocolError, match=message):
        plan_overlap(**options)


def test_accuracy_of_the_planned_judge() -> None:
    """Margin = 0.7 p_j - 0.545 for four humans at 0.85 and two balanced labels."""
    for margin in (-0.1, -0.02, 0.05):
        accuracy = judge_accuracy_at(margin, [0.85] * 4, HALF, 0.05)
        assert accuracy == pytest.approx((margin + 0.545) / 0.7)
        found = population_margin(accuracy_population([0.85] * 4, accuracy, HALF), 0.05)
        np.testing.assert_allclose(found, margin, atol=1e-12)


# --------------------------------------------------------------------------------------------- allocation


STRATA = np.repeat([3, 7, 9], [50, 30, 20])


@pytest.mark.parametrize("design", ["shared", "random", "strat", "strat_judge", "neyman"])
def test_allocation(design: str) -> None:
    plan = allocate(100, 4, 20, design=design, strata=STRATA, deviations=[0.1, 0.4, 0.2], seed=1)
    assert plan.assigned.shape == (100, 4)
    assert plan.assigned[:, 0].all()
    assert plan.assigned[:, 1:].sum(axis=0).tolist() == [20] * 3
    sampled = plan.assigned[:, 1:].any(axis=1)
    assert plan.drawn.sum() == 20
    if design == "random":
        assert sampled.sum() > 30
        assert (plan.weight == sampled).all()
    else:
        assert sampled.sum() == 20
        assert (plan.assigned[:, 1:] == plan.assigned[:, [1]]).all()
        assert (plan.weight[~sampled] == 0).all()
        assert plan.weight.sum() == pytest.approx(100)
    if design.startswith("strat"):
        assert plan.drawn.tolist() == [10, 6, 4]
    if design == "neyman":
        # in proportion to 50 * 0.1, 30 * 0.4, 20 * 0.2
        assert plan.drawn.tolist() == [5, 11, 4]
    if design not in ("random", "shared"):
        assert np.bincount(plan.stratum[sampled]).tolist() == plan.drawn.tolist()
    again = allocate(100, 4, 20, design=design, strata=STRATA, deviations=[0.1, 0.4, 0.2], seed=1)
    np.testing.assert_array_equal(plan.assigned, again.assigned)
    other = allocate(100, 4, 20, design=design, strata=STRATA, deviations=[0.1, 0.4, 0.2], seed=2)
    assert (plan.assigned != other.assigned).any()


def test_everything_and_one() -> None:
    assert allocate(5, 3, 5).assigned.all()
    assert allocate(5, 3, 5, design="random").assigned.all()
    assert allocate(5, 2, 1).assigned.sum(axis=0).tolist() == [5, 1]


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((10, 3, 11), {}, ProtocolError, "from 1 to 10 items"),
        ((10, 3, 0), {}, ProtocolError, "from 1 to 10 items"),
        ((10, 3, 2.5), {}, ProtocolError, "from 1 to 10 items"),
        ((10, 1, 5), {}, ProtocolError, "two humans"),
        ((0, 3, 5), {}, ProtocolError, "at least one item"),
        ((10, 3, 5), {"design": "quota"}, ProtocolError, "`design` must be one of"),
        ((10, 3, 5), {"design": "strat"}, StructureError, "got none"),
        ((10, 3, 5), {"design": "strat", "strata": [0, 1]}, StructureError, "shape .2,."),
        ((100, 3, 5), {"design": "neyman", "strata": STRATA}, StructureError, "each of the 3 strata"),
        (
            (100, 3, 5),
            {"design": "neyman", "strata": STRATA, "deviations": [1, 1, 1]},
            ProtocolError,
            "possible are 6 to 100",
        ),
        (
            (100, 3, 50),
            {"design": "neyman", "strata": STRATA, "deviations": [1, -1, 1]},
            ProtocolError,
            "must be 0 or more",
        ),
    ],
)
def test_impossible_allocations(arguments: tuple, options: dict, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        allocate(*arguments, **options)


def test_allocations_are_fair() -> None:
    counts = sum(allocate(20, 3, 5, seed=s).assigned[:, 1].astype(int) for s in range(2000))
    statistic = ((counts - 500) ** 2 / 500).sum()
    assert statistic < stats.chi2.ppf(0.9999, 19)


@pytest.mark.parametrize(
    ("n", "sizes", "deviations", "expected"),
    [
        (20, [100, 100], [0.0, 0.0], [10, 10]),
        (20, [100, 100], [0.0, 1.0], [2, 18]),
        (60, [100, 10, 100], [0.1, 5.0, 0.1], [25, 10, 25]),
        (6, [10, 10, 10], [1, 2, 3], [2, 2, 2]),
        (30, [10, 10, 10], [1, 2, 3], [10, 10, 10]),
        (7, [1, 5, 40], [1, 0, 1], [1, 2, 4]),
    ],
)
def test_neyman_sizes(n: int, sizes: list, deviations: list, expected: list) -> None:
    assert neyman_sizes(n, sizes, deviations).tolist() == expected


def test_neyman_sizes_are_the_best_there_are() -> None:
    rng = np.random.default_rng(4)
    for _ in range(30):
        sizes, sigma = rng.integers(3, 30, 3), rng.uniform(0, 1, 3)
        n = int(rng.integers(6, sizes.sum() + 1))
        found = neyman_sizes(n, sizes, sigma)
        assert found.sum() == n
        assert ((found >= 2) & (found <= sizes)).all()

        def variance(drawn: np.ndarray, sizes: np.ndarray = sizes, sigma: np.ndarray = sigma) -> float:
            return float((sizes**2 * sigma**2 * (1 / drawn - 1 / sizes)).sum())

        for a in range(3):
            for b in range(3):
                other = found.copy()
                other[a] += 1
                other[b] -= 1
                if a != b and other[b] >= 2 and other[a] <= sizes[a]:
                    # rounding: no exchange of one item gains more than the step of rounding itself
                    assert variance(found) <= variance(other) * 1.05 + 1e-9


def test_largest_remainder() -> None:
    assert largest_remainder(10, [1, 1, 1]).tolist() == [4, 3, 3]
    assert largest_remainder(0, [5, 5]).tolist() == [0, 0]
    assert largest_remainder(10, [5, 5]).tolist() == [5, 5]
    rng = np.random.default_rng(5)
    sizes = rng.integers(0, 40, (50, 6))
    sizes[:, 0] += 1
    for total in (1, 7):
        found = largest_remainder(total, sizes)
        assert (found.sum(axis=1) == total).all()
        assert (found <= np.maximum(sizes, 1)).all()


def test_finite_population_size() -> None:
    assert finite_population_size(300, 10**12) == pytest.approx(300)
    m = finite_population_size(120, 500)
    assert 1 / m - 1 / 500 == pytest.approx(1 / 120)


@needs_shared
@pytest.mark.parametrize("task", ["wax", "cebab_aspects", "summeval"])
def test_what_strata_are_worth(task: str) -> None:
    data, expected = slow.matrix(task).by_count(), oracle("loo")["strata_variance_ratio"][task]
    known = data.humans[:, 0] >= 0
    humans = data.humans[known]
    assert len(expected) == 6
    for entry in expected:
        ((name, values),) = entry.items()
        judge = data.judges[known, slow.JUDGES.index(name)]
        for key, strata in (
            ("r1", strata_of(humans[:, 0])),
            ("agree", (judge == humans[:, 0]).astype(int)),
            ("r1xagree", strata_of(humans[:, 0], judge)),
        ):
            parts = [loo_counts(humans[strata == s], judge[strata == s]) for s in range(strata.max() + 1)]
            found = stratified_variance_ratio(*stratum_deviations(parts))
            assert found == pytest.approx(values[key], abs=1e-3)


def test_nothing_varies_within_or_between() -> None:
    parts = [loo_counts(np.zeros((4, 3), int), np.zeros(4, int)) for _ in range(2)]
    assert np.isnan(stratified_variance_ratio(*stratum_deviations(parts))).all()


def test_an_allocation_joins_back() -> None:
    """Allocate by strata of label and judge, label, estimate: unbiased, and better than a simple sample."""
    rng = np.random.default_rng(6)
    codes, probability = noise_patterns([0.85] * 3, 0.8, [0.7, 0.3])
    labels = codes[rng.choice(len(codes), 1500, p=probability)]
    humans, judge = labels[:, :3], labels[:, 3]
    full = loo_margins(loo_counts(humans, judge)).margin
    strata = strata_of(humans[:, 0], judge)
    pilot = [loo_counts(humans[strata == s][:60], judge[strata == s][:60]) for s in range(4)]
    deviations = stratum_deviations(pilot)[0]
    errors: dict[str, list] = {"shared": [], "neyman": []}
    for seed in range(150):
        for design in errors:
            plan = allocate(1500, 3, 150, design=design, strata=strata, deviations=deviations, seed=seed)
            shown = np.where(plan.assigned, humans, -1)
            parts = [
                loo_counts(shown[plan.stratum == s], judge[plan.stratum == s]) for s in range(len(plan.sizes))
            ]
            errors[design].append(stratified_margins(parts, plan.sizes, target="matrix").margin - full)
    simple, neyman = (np.array(errors[design]) for design in errors)
    assert (np.abs(neyman.mean(axis=0)) < 4.5 * neyman.std(axis=0) / np.sqrt(150)).all()
    assert neyman.var() < 0.8 * simple.var()


# ------------------------------------------------------------------------------------------------ ranking


@needs_shared
def test_ranking_of_real_judges() -> None:
    entries = oracle("loo")["ranking"]
    assert len(entries) == 18
    for one in entries:
        data = slow.matrix(one["dataset"]).by_count()
        found = wrong_top_probability(data.humans, data.judges, one["rho"], design=one["design"])
        assert found.probability == pytest.approx(one["gauss"], abs=0.006)
        assert found.probability == pytest.approx(one["mc"], abs=0.07)
        assert found.p_best.sum() == pytest.approx(1)


@needs_shared
@pytest.mark.parametrize("task", ["wax", "cebab_aspects"])
@pytest.mark.parametrize("place", [0, 4, 6, 11])
def test_ranking_by_masking(task: str, place: int) -> None:
    data, one = slow.matrix(task).by_count(), oracle("loo")["real_sparse"][task][place]
    for by, key in (("score", "wrong_top_meanSj"), ("omega", "wrong_top_omega")):
        found = wrong_top_probability(
            data.humans,
            data.judges,
            one["rho"],
            design=one["design"],
            method="monte_carlo",
            by=by,
            n_trials=500,
        )
        expected = one[key]
        limit = 4 * np.sqrt(expected * (1 - expected) / one["T"] + found.se**2)
        assert abs(found.probability - expected) <= max(0.03, limit)


def test_score_covariance_against_masks() -> None:
    rng = np.random.default_rng(7)
    model = NoiseModel(np.array([0.9, 0.8, 0.7]), 0.75, np.array(HALF))
    truth = rng.integers(0, 2, 200)
    people = np.stack([np.where(rng.random(200) < p, truth, 1 - truth) for p in model.human_accuracy], axis=1)
    judges = np.stack([np.where(rng.random(200) < p, truth, 1 - truth) for p in (0.8, 0.78, 0.6)], axis=1)
    for design in ("random", "shared"):
        mu, covariance = score_covariance(people, judges, design, 0.3)
        counts = masked_counts(people, judges, design, 0.3, 6000)
        scores = judge_scores(counts.judge_hits, counts.overlap)
        np.testing.assert_allclose(scores.mean(axis=0), mu, atol=0.005)
        scale = np.sqrt(np.diagonal(covariance))
        np.testing.assert_allclose(
            np.cov(scores.T) / np.outer(scale, scale), covariance / np.outer(scale, scale), atol=0.12
        )


def test_ranking_refuses() -> None:
    humans, judges = np.zeros((4, 2), int), np.zeros((4, 2), int)
    with pytest.raises(ProtocolError, match="two or more judges"):
        wrong_top_probability(humans, judges[:, :1], 0.5)
    with pytest.raises(ProtocolError, match="`method` must be"):
        wrong_top_probability(humans, judges, 0.5, method="exact")
    with pytest.raises(ProtocolError, match="no Gaussian form"):
        wrong_top_probability(humans, judges, 0.5, by="omega")
    with pytest.raises(ProtocolError, match="`design` must be one of"):
        wrong_top_probability(humans, judges, 0.5, design="strat")


def test_a_judge_without_labels_is_never_first() -> None:
    rng = np.random.default_rng(8)
    humans, judges = rng.integers(0, 2, (50, 3)), rng.integers(0, 2, (50, 3))
    judges[:, 0] = -1
    for method in ("gaussian", "monte_carlo"):
        found = wrong_top_probability(humans, judges, 0.5, method=method, n_trials=200)
        assert found.p_best[0] == 0
        assert np.isnan(found.score[0])


def test_scores_without_overlap() -> None:
    assert np.isnan(judge_scores([0, 0], [0, 0]))
    assert judge_scores([1, 0], [2, 0]) == 0.5


def test_a_plan_is_not_trusted_where_the_lattice_of_margins_moves_it() -> None:
    # Three humans of accuracy .85 on one shared sample of 60: 40,000 simulated trials give a false approval
    # of .236 and a false rejection of .118; the plan's Gaussian, without the lattice, is four points off.
    plan = plan_overlap(n_humans=3, human_accuracy=0.85, design="shared", grid=[60, 227])
    assert plan.fa[0] == pytest.approx(0.199, abs=0.002)
    assert plan.fr[0] == pytest.approx(0.148, abs=0.002)
    assert plan.trusted.tolist() == [False, True]
    simulated = plan_overlap(
        n_humans=3,
        human_accuracy=0.85,
        design="shared",
        grid=[60, 227],
        method="monte_carlo",
        n_trials=20_000,
    )
    assert simulated.fa == pytest.approx([0.236, plan.fa[1]], abs=0.015)
    assert simulated.fr == pytest.approx([0.118, plan.fr[1]], abs=0.015)

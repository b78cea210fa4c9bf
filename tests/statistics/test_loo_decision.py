"""Decision probabilities without simulation, verdict rules, and the simulations they stand in for."""

import importlib.util
import sys
from itertools import product

import loo_slow as slow
import numpy as np
import pytest
from scipy import stats
from shared import needs_shared, oracle

from xjudge.errors import ProtocolError, StructureError
from xjudge.statistics import _loo_cells
from xjudge.statistics.loo import (
    NoiseModel,
    PairMoments,
    Patterns,
    accept_probability,
    accuracy_population,
    count_votes,
    design_margins,
    exact_wins,
    gaussian_trusted,
    joint_margins,
    lattice_tolerance,
    loo_counts,
    loo_pair_moments,
    masked_counts,
    matrix_margins,
    max_t,
    noise_patterns,
    one_sided_p,
    partial_conjunction,
    pattern_margins,
    pattern_population,
    sign_margins,
    simulate_trials,
    strata_of,
    votes_needed,
    win_distribution,
    wrong_decision_rate,
)

HALF = np.array([0.5, 0.5])


def accepts(difference: np.ndarray, overlap: np.ndarray, threshold: float = 0.5) -> np.ndarray:
    return count_votes(exact_wins(difference, overlap, 0.05)[0], threshold).accept_point == 1


# --------------------------------------------------------------------------------------------- orthants


@pytest.mark.parametrize("rho", [-0.9, -0.3, 0.0, 0.4, 0.95])
def test_orthants_of_two_and_three(rho: float) -> None:
    """P(both >= 0) = 1/4 + asin(rho) / (2 pi); of three 1/8 + (sum of asin) / (4 pi)."""
    two = win_distribution([0, 0], [[1, rho], [rho, 1]])
    both = 0.25 + np.arcsin(rho) / (2 * np.pi)
    np.testing.assert_allclose(two, [both, 1 - 2 * both, both], atol=1e-3)
    if rho > -0.5:
        matrix = np.full((3, 3), rho) + (1 - rho) * np.eye(3)
        all_three = 1 / 8 + 3 * np.arcsin(rho) / (4 * np.pi)
        three = win_distribution(np.zeros(3), matrix)
        np.testing.assert_allclose(three[[0, 3]], all_three, atol=1e-3)
        assert three.sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("K", [1, 2, 5, 10])
def test_independent_and_one_factor_margins(K: int) -> None:
    mu = np.linspace(-0.5, 0.8, K)
    p = stats.norm.cdf(mu)
    expected = np.array([1.0])
    for one in p:
        expected = np.convolve(expected, [1 - one, one])
    np.testing.assert_allclose(win_distribution(mu, np.eye(K)), expected, atol=2e-3)
    # one common factor: given it, independent
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    mixture = np.zeros(K + 1)
    for node, weight in zip(nodes, weights / weights.sum(), strict=True):
        inner = np.array([1.0])
        for one in stats.norm.cdf((mu + np.sqrt(0.6) * node) / np.sqrt(0.4)):
            inner = np.convolve(inner, [1 - one, one])
        mixture += weight * inner
    np.testing.assert_allclose(win_distribution(mu, 0.6 + 0.4 * np.eye(K)), mixture, atol=1e-3)


def test_singular_and_missing_comparisons() -> None:
    np.testing.assert_allclose(
        win_distribution([0.3, 0.3], np.ones((2, 2))), [1 - 0.6179, 0, 0.6179], atol=1e-4
    )
    np.testing.assert_allclose(win_distribution([1.0, -1.0], np.zeros((2, 2))), [0, 1, 0])
    np.testing.assert_allclose(win_distribution([0.0, 0.0], np.zeros((2, 2))), [0, 0, 1])
    some = win_distribution([0.2, np.nan, 0.1], np.diag([1.0, np.nan, 1.0]))
    np.testing.assert_allclose(some[:3], win_distribution([0.2, 0.1], np.eye(2)))
    assert some[3] == 0
    assert np.isnan(win_distribution([np.nan], [[np.nan]])).all()
    assert np.isnan(accept_probability([np.nan], [[np.nan]], 1))
    batch = win_distribution(np.zeros((2, 3, 2)), np.broadcast_to(np.eye(2), (2, 3, 2, 2)))
    assert batch.shape == (2, 3, 3)
    np.testing.assert_allclose(batch, np.broadcast_to([0.25, 0.5, 0.25], (2, 3, 3)), atol=1e-3)


@needs_shared
def test_decision_probability() -> None:
    entries = oracle("loo")["decision_probability"]
    assert len(entries) == 8
    for one in entries:
        human = np.broadcast_to(one["p_h"], one["K"])
        population = accuracy_population(human, one["p_j"], one["prev"])
        found = design_margins(population, one["design"], one["m"] / one["n"], one["n"], one["eps"])
        np.testing.assert_allclose(found.mu, one["mu"], rtol=1e-5, atol=1e-8)
        np.testing.assert_allclose(found.covariance, one["Sigma"], rtol=1e-5)
        wins = win_distribution(found.mu, found.covariance)
        np.testing.assert_allclose(wins, one["gauss_win_dist"], atol=0.004)


@needs_shared
def test_gaussian_against_monte_carlo_grid() -> None:
    entries = oracle("loo")["gauss_vs_mc_grid"]
    assert len(entries) == 60
    for one in entries:
        K, n, m = one["K"], one["n"], one["m"]
        mask = "bernoulli" if one["design"] == "bernoulli" else "exact"
        design = "random" if one["design"] in ("bernoulli", "random") else one["design"]
        population = accuracy_population([one["p_h"]] * K, one["p_j"], one["prev"])
        found = design_margins(population, design, m / n, n, 0.05)
        sd = np.sqrt(np.diagonal(found.covariance))
        np.testing.assert_allclose(found.mu, one["mu"], atol=1e-5)
        np.testing.assert_allclose(sd, one["sd"], atol=1e-5)
        correlation = found.covariance / sd[:, None] / sd
        assert correlation[0, 1] == pytest.approx(one["corr01"], abs=1e-5)
        assert correlation[1, 2] == pytest.approx(one["corr12"], abs=1e-5)
        wins = win_distribution(found.mu, found.covariance)
        np.testing.assert_allclose(wins, one["gauss_win_dist"], atol=0.004)
        c = int(votes_needed(K))
        simulated = sum(one["mc_win_dist"][c:])
        se = 4 * np.sqrt(simulated * (1 - simulated) / one["T"])
        corrected = wrong_decision_rate(
            human_accuracy=[one["p_h"]] * K,
            judge_accuracy=one["p_j"],
            prevalence=one["prev"],
            n_items=n,
            overlap=m / n,
            design=design,
            mask=mask,
        ).p_accept
        assert abs(corrected - simulated) <= max(0.03 if m <= 25 else 0.02, se)
        if "gauss_cc_win_dist" in one:
            assert abs(corrected - sum(one["gauss_cc_win_dist"][c:])) <= 0.006


@needs_shared
def test_other_coefficients() -> None:
    names = {"po": "accuracy", "kappa": "kappa", "pi_alpha": "alpha", "ac1": "gwet_ac1", "mcc": "mcc"}
    entries = oracle("loo")["general_F_margin"]
    assert len(entries) == 80
    for one in entries:
        patterns = noise_patterns([one["p_h"]] * one["K"], one["p_j"], one["prev"])
        share = one["m"] / one["n"]
        found = pattern_margins(patterns, names[one["F"]], one["design"], share, one["n"], 0.05)
        np.testing.assert_allclose(found.mu, one["margin"], atol=1e-6)
        np.testing.assert_allclose(np.sqrt(np.diagonal(found.covariance)), one["sd"], rtol=1e-4)
        probability = accept_probability(found.mu, found.covariance, 2)
        assert probability == pytest.approx(one["gauss_p_accept"], abs=0.004)
        assert probability == pytest.approx(one["mc_p_accept"], abs=0.03)


@needs_shared
def test_estimand_drift() -> None:
    for one in oracle("loo")["heterogeneous_humans"]:
        population = accuracy_population(one["p_h"], one["p_j"], HALF)
        found = design_margins(population, one["design"], one["rho"], one["n"], 0.05)
        np.testing.assert_allclose(found.mu, one["mu"], atol=1e-6)
        np.testing.assert_allclose(np.sqrt(np.diagonal(found.covariance)), one["sd"], rtol=1e-5)
        probability = accept_probability(found.mu, found.covariance, 2)
        assert probability == pytest.approx(one["gauss_p_accept_2of4"], abs=0.004)


def test_drift_of_the_second_rater_in_the_text() -> None:
    """LOO.md section 1: -0.0067 dense, -0.0355 at 5 %, -0.0150 at 50 % under random, dense under shared."""
    population = accuracy_population([0.95, 0.85, 0.75, 0.65], 0.75, HALF)
    for design, share, expected in (
        ("random", 0.05, -0.0355),
        ("random", 0.5, -0.0150),
        ("shared", 0.05, -0.0067),
        ("random", 1.0, -0.0067),
    ):
        assert design_margins(population, design, share, 500, 0.05).mu[1] == pytest.approx(expected, abs=5e-5)


# -------------------------------------------------------------------------------- moments of populations


@pytest.mark.parametrize("seed", range(3))
def test_closed_form_is_the_sum_over_patterns(seed: int) -> None:
    rng = np.random.default_rng(seed)
    human, judge, prevalence = rng.uniform(0.4, 1, 4), rng.uniform(), rng.dirichlet([1, 1, 1])
    closed = accuracy_population(human, judge, prevalence)
    summed = pattern_population(noise_patterns(human, judge, prevalence))
    for one, other in zip(closed.pairs + closed[1:], summed.pairs + summed[1:], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_population_covariance_by_plain_loops() -> None:
    """``Sigma_kl`` summed over patterns and over who labelled the item, for Bernoulli masks."""
    human, share, n = [0.9, 0.7, 0.8], 0.3, 100
    codes, probability = noise_patterns(human, 0.75, [0.6, 0.4])
    found = design_margins(accuracy_population(human, 0.75, [0.6, 0.4]), "random", share, n, 0.05)
    z, w, chance = [], [], []
    for pattern, p in zip(codes, probability, strict=True):
        for further in product((False, True), repeat=2):
            shown = [True, *further]
            gain, pairs = np.zeros(3), np.zeros(3)
            for k, q in product(range(3), repeat=2):
                if k != q and shown[k] and shown[q]:
                    gain[k] += float(pattern[3] == pattern[q]) - float(pattern[k] == pattern[q])
                    pairs[k] += 1
            z.append(gain)
            w.append(pairs)
            chance.append(p * np.prod([share if one else 1 - share for one in further]))
    z, w, chance = np.array(z), np.array(w), np.array(chance)
    delta = chance @ z / (chance @ w)
    u = z - delta * w
    expected = (u * chance[:, None]).T @ u / np.outer(chance @ w, chance @ w) / n
    np.testing.assert_allclose(found.mu, delta + 0.05)
    np.testing.assert_allclose(found.covariance, expected)
    np.testing.assert_allclose(found.overlap, n * (chance @ w))


def test_too_many_patterns() -> None:
    with pytest.raises(ProtocolError, match="label patterns"):
        noise_patterns([0.8] * 12, 0.8, np.full(5, 0.2))


# ----------------------------------------------------------------------------------------------- lattice


def test_lattice_tolerance_by_enumeration() -> None:
    """The cut lies half a step below the smallest difference that wins."""
    for W in range(1, 130):
        for span in (1, 2):
            winning = min(d for d in range(-2 * W, 2 * W) if d % span == 0 and 20 * d + W >= 0)
            assert lattice_tolerance(0.05, W, span) == pytest.approx(-(winning - span / 2) / W)


def test_lattice_correction_helps() -> None:
    """15 shared items and a step of 2/30: the plain Gaussian is off by points."""
    options = {"n_humans": 3, "judge_accuracy": 0.78, "overlap": 0.03, "design": "shared", "n_items": 500}
    truth = wrong_decision_rate(**options, method="monte_carlo", n_trials=40_000)
    plain = wrong_decision_rate(**options, lattice=False).rate
    assert abs(wrong_decision_rate(**options).rate - truth.rate) < 0.5 * abs(plain - truth.rate)


def test_a_complete_matrix_has_its_lattice_too() -> None:
    """Five humans, two labels: margins move in steps of 2/400, whatever the design is called."""
    options = {"human_accuracy": [0.693, 0.743, 0.749, 0.677, 0.796], "judge_accuracy": 0.644, "n_items": 100}
    random, shared = (
        wrong_decision_rate(**options, overlap=1.0, design=d, mask="exact") for d in ("random", "shared")
    )
    truth = wrong_decision_rate(**options, overlap=1.0, method="monte_carlo", n_trials=40_000)
    assert random.p_accept == pytest.approx(shared.p_accept, abs=1e-12)
    assert abs(random.p_accept - truth.p_accept) <= 0.012


# ------------------------------------------------------------------------------ wrong decisions, Figure 2


@needs_shared
def test_figure_2() -> None:
    entries = oracle("loo")["fig2"]
    assert len(entries) == 13
    for one in entries:
        options = {"judge_accuracy": one["p_j"], "overlap": one["rho"]}
        plain = wrong_decision_rate(**options, lattice=False)
        assert plain.rate == pytest.approx(one["gauss_wrong"], abs=0.004)
        simulated = wrong_decision_rate(**options, method="monte_carlo", n_trials=10_000)
        limit = max(0.01, 4 * np.sqrt(one["se"] ** 2 + simulated.se**2))
        assert abs(simulated.rate - one["wrong_vs_population_mc"]) <= limit
        fast = wrong_decision_rate(**options)
        if fast.trusted:
            assert abs(fast.rate - simulated.rate) <= 0.015


def test_the_published_cells_against_the_matrix() -> None:
    """The note's own counts (2,000 trials, dense matrix of the same trial as the reference)."""
    for accuracy, share, wrong in ((0.85, 0.05, 215), (0.70, 0.05, 673), (0.70, 0.25, 188), (0.60, 0.10, 47)):
        options = {"judge_accuracy": accuracy, "overlap": share, "target": "matrix"}
        expected = wrong / 2000
        limit = 4 * np.sqrt(expected * (1 - expected) / 2000)
        assert abs(wrong_decision_rate(**options).rate - expected) <= max(limit, 0.015)
        simulated = wrong_decision_rate(**options, method="monte_carlo", n_trials=20_000)
        assert abs(simulated.rate - expected) <= limit + 4 * simulated.se
        assert simulated.method == "monte_carlo"


def test_four_times_as_often_at_equal_distance() -> None:
    """The note: 25 items each, judges 0.05 above and below the bar, 9.2 % and 37.0 % wrong."""
    common = {
        "n_items": 2000,
        "overlap": 25 / 2000,
        "mask": "exact",
        "method": "monte_carlo",
        "n_trials": 20_000,
    }
    good = wrong_decision_rate(judge_accuracy=0.85, **common)
    bad = wrong_decision_rate(judge_accuracy=0.495 / 0.7, **common)
    assert good.truth_accepts == 1
    assert bad.truth_accepts == 0
    assert good.rate == pytest.approx(0.092, abs=0.02)
    assert bad.rate == pytest.approx(0.370, abs=0.03)


def test_auto_simulates_where_overlap_is_thin() -> None:
    thin = wrong_decision_rate(overlap=0.02, method="auto")
    assert (thin.method, thin.trusted) == ("monte_carlo", False)
    assert thin.se > 0
    assert float(thin) == thin.rate
    thick = wrong_decision_rate(overlap=0.25, method="auto")
    assert (thick.method, thick.trusted) == ("gaussian", True)
    assert np.isnan(thick.se)
    assert gaussian_trusted(np.array([90.0] * 4), "random", 30)
    assert not gaussian_trusted(np.array([90.0] * 4), "shared", 30)


def test_a_joint_distribution_is_its_accuracies() -> None:
    codes, probability = noise_patterns([0.9, 0.8, 0.7], 0.75, [0.7, 0.3])
    joint = np.zeros((2,) * 4)
    joint[tuple(codes.T)] = probability
    for design in ("random", "shared", "strat", "strat_judge"):
        common = {"design": design, "overlap": 0.2}
        by_joint = wrong_decision_rate(joint=joint, **common)
        by_accuracy = wrong_decision_rate(
            human_accuracy=[0.9, 0.8, 0.7], judge_accuracy=0.75, prevalence=[0.7, 0.3], **common
        )
        assert by_joint.rate == pytest.approx(by_accuracy.rate, abs=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"design": "snowball"}, "`design` must be one of"),
        ({"method": "exact"}, "`method` must be one of"),
        ({"target": "all"}, "`target` must be one of"),
        ({"mask": "poisson"}, "`mask` must be one of"),
        ({"overlap": 0}, "in .0, 1."),
        ({"overlap": 25}, "a share of the items"),
        ({"overlap": 0.0001}, "label at least one"),
        ({"n_humans": 1}, "two or more humans"),
        ({"human_accuracy": [0.8, 0.9, 0.7], "n_humans": 4}, "3 accuracies"),
        ({"human_accuracy": 1.2}, "`human_accuracy` must lie in"),
        ({"judge_accuracy": -0.1}, "`judge_accuracy` must lie in"),
        ({"prevalence": [0.5, 0.6]}, "`prevalence` must be"),
        ({"n_categories": 1}, "`prevalence` must be"),
        ({"joint": np.full((2, 2, 2), 0.2)}, "`joint` must be"),
        ({"joint": np.full((2, 3, 2), 1 / 12)}, "`joint` must be"),
        ({"n_trials": 0}, "at least 1"),
        ({"threshold": 2}, "`threshold` must lie in"),
    ],
)
def test_options_are_checked(options: dict, message: str) -> None:
    with pytest.raises(ProtocolError, match=message):
        wrong_decision_rate(**options)


# --------------------------------------------------------------------------------------------- simulation


def exact_distribution(patterns: Patterns, n: int, share: float) -> dict[tuple, float]:
    """Distribution of ``(A - H, W)`` under Bernoulli masks by enumeration of all matrices."""
    K = patterns.codes.shape[1] - 1
    one: dict[tuple, float] = {}
    for pattern, p in zip(patterns.codes, patterns.probability, strict=True):
        for further in product((False, True), repeat=K - 1):
            shown = np.where([True, *further], pattern[:K], -1)
            a, h, w = (t.sum(axis=1) for t in slow.counts([shown.tolist()], [int(pattern[K])]))
            key = (*(a - h), *w)
            chance = p * np.prod([share if yes else 1 - share for yes in further])
            one[key] = one.get(key, 0.0) + float(chance)
    total = {tuple([0] * 2 * K): 1.0}
    for _ in range(n):
        grown: dict[tuple, float] = {}
        for (key, p), (add, q) in product(total.items(), one.items()):
            new = tuple(int(a + b) for a, b in zip(key, add, strict=True))
            grown[new] = grown.get(new, 0.0) + p * q
        total = grown
    return total


@pytest.mark.parametrize("n", [2, 3])
def test_simulation_has_the_exact_distribution(n: int) -> None:
    patterns = noise_patterns([0.9, 0.6, 0.7], 0.8, [0.7, 0.3])
    expected = exact_distribution(patterns, n, 0.4)
    T = 60_000
    trials = simulate_trials(patterns, "random", 0.4, n, T, seed=1)
    found = np.concatenate([trials.difference, trials.overlap], axis=1)
    keys, counts = np.unique(found, axis=0, return_counts=True)
    seen = {tuple(int(x) for x in key): count for key, count in zip(keys, counts, strict=True)}
    assert set(seen) <= set(expected)
    likely = {key: p for key, p in expected.items() if p * T > 20}
    statistic = sum((seen.get(key, 0) - p * T) ** 2 / (p * T) for key, p in likely.items())
    assert statistic < stats.chi2.ppf(0.9999, len(likely))


@pytest.mark.parametrize("design", ["random", "shared", "strat", "strat_judge"])
@pytest.mark.parametrize("mask", ["bernoulli", "exact"])
def test_cells_and_labels_simulate_alike(design: str, mask: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two engines: merged cells, and every label drawn and counted."""
    from xjudge.statistics import _loo_trials

    model = NoiseModel(np.array([0.9, 0.7, 0.8]), 0.75, np.array([0.6, 0.3, 0.1]))
    options = {"design": design, "share": 0.25, "n_items": 60, "n_trials": 4000, "mask": mask, "dense": True}
    cells = simulate_trials(model, **options, seed=1)
    monkeypatch.setattr(_loo_trials, "_MOST_PATTERNS", 0)
    labels = simulate_trials(model, **options, seed=2)
    assert cells.dense_overlap == labels.dense_overlap == 120
    for one, other in (
        (cells.difference, labels.difference),
        (cells.dense_difference, labels.dense_difference),
    ):
        se = np.sqrt((one.var(axis=0) + other.var(axis=0)) / 4000)
        assert (np.abs(one.mean(axis=0) - other.mean(axis=0)) < 4.5 * se).all()
        np.testing.assert_allclose(np.cov(one.T), np.cov(other.T), atol=0.12 * one.var(axis=0).max())
    # sparse and full matrix belong to the same trial
    np.testing.assert_allclose(
        np.corrcoef(cells.difference[:, 0], cells.dense_difference[:, 0])[0, 1],
        np.corrcoef(labels.difference[:, 0], labels.dense_difference[:, 0])[0, 1],
        atol=0.07,
    )
    if design != "random":
        assert (cells.overlap == 30).all()
        assert (labels.overlap == 30).all()
    elif mask == "exact":
        assert (cells.overlap[:, 0] == 30).all()
        assert (labels.overlap[:, 0] == 30).all()
    else:
        assert cells.overlap[:, 0].mean() == pytest.approx(30, abs=0.4)


@pytest.mark.skipif(importlib.util.find_spec("numba") is None, reason="numba is absent")
@pytest.mark.parametrize("L", [2, 3])
@pytest.mark.parametrize("K", [2, 3, 4, 6])
def test_compiled_draws_are_those_of_numpy(K: int, L: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same random numbers and the same integers, with one to several packed words."""
    from xjudge.statistics import _loo_fast

    model = NoiseModel(np.linspace(0.65, 0.9, K), 0.75, np.full(L, 1 / L))
    settings = [
        ("random", 0.05, 500, "bernoulli", True),
        ("random", 0.04, 900, "exact", False),
        ("random", 1.0, 40, "bernoulli", True),
        ("random", 0.01, 30, "bernoulli", False),
        ("shared", 0.02, 100, "exact", True),
        ("strat", 0.3, 60, "exact", True),
    ]
    # every item drawn from the table, whatever it costs
    monkeypatch.setattr(_loo_cells, "_DRAW_COST", 0.0)
    for design, share, n, mask, dense in settings:
        found = []
        for kernel in (None, _loo_fast):
            monkeypatch.setattr(_loo_cells, "_compiled", lambda n_items, kernel=kernel: kernel)
            found.append(simulate_trials(model, design, share, n, 300, mask=mask, dense=dense, seed=K + L))
        for one, other in zip(*found, strict=True):
            np.testing.assert_array_equal(one, other)


def test_packed_scores_come_apart() -> None:
    scores = np.array([[3, 0, -3, 0, 2, 1], [-3, 0, 3, 0, 0, 1], [1, 0, 1, 0, -2, 1]])
    for n in (1, 50, 10**6):
        packed = _loo_cells._pack(scores, n)
        assert sorted(column for _, columns, _ in packed for column in columns) == [0, 2, 4, 5]
        for times in np.random.default_rng(n).multinomial(n, [0.2, 0.3, 0.5], size=20):
            for word, columns, width in packed:
                apart = _loo_cells._unpack(np.array([times @ word]), width, len(columns))
                np.testing.assert_array_equal(apart[0], times @ scores[:, columns])


def test_kernels_are_loaded_once_they_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_loo_cells, "_COMPILED", "xjudge.statistics._no_such_room")
    monkeypatch.setattr(_loo_cells._Drawn, "items", 0)
    assert _loo_cells._compiled(1000) is None
    assert _loo_cells._Drawn.items == 1000
    # a numba that is not there, or does not load
    monkeypatch.setattr(_loo_cells._Drawn, "absent", False)
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.delitem(sys.modules, "xjudge.statistics._loo_fast", raising=False)
    monkeypatch.delattr("xjudge.statistics._loo_fast", raising=False)
    assert _loo_cells._compiled(1 << 40) is None
    assert _loo_cells._Drawn.absent


def test_simulation_of_everything_is_the_matrix() -> None:
    model = NoiseModel(np.full(4, 0.8), 0.7, HALF)
    for design, mask in (("random", "exact"), ("random", "bernoulli"), ("shared", "exact")):
        trials = simulate_trials(model, design, 1.0, 40, 200, mask=mask, dense=True)
        np.testing.assert_array_equal(trials.difference, trials.dense_difference)
        assert (trials.overlap == 120).all()


def test_many_humans_are_simulated_by_labels() -> None:
    model = NoiseModel(np.full(12, 0.8), 0.75, np.full(3, 1 / 3))
    trials = simulate_trials(model, "random", 0.2, 100, 300)
    population = accuracy_population(*model)
    expected = design_margins(population, "random", 0.2, 100, 0)
    margins = trials.difference / trials.overlap
    np.testing.assert_allclose(margins.mean(axis=0), expected.mu, atol=0.03)
    np.testing.assert_allclose(margins.std(axis=0), np.sqrt(np.diagonal(expected.covariance)), rtol=0.2)


def test_one_seed_one_answer() -> None:
    model = NoiseModel(np.full(3, 0.8), 0.7, HALF)
    one, two, other = (simulate_trials(model, "random", 0.1, 100, 50, seed=s) for s in (3, 3, 4))
    np.testing.assert_array_equal(one.difference, two.difference)
    assert (one.difference != other.difference).any()


@pytest.mark.parametrize(
    ("design", "mask"),
    [("random", "bernoulli"), ("random", "exact"), ("shared", "exact"), ("strat", "exact")],
)
def test_masks_of_a_matrix_by_plain_loops(design: str, mask: str) -> None:
    """Mean and covariance over masks; a mask of everything gives the matrix itself."""
    rng = np.random.default_rng(5)
    humans = np.where(rng.random((90, 4)) < 0.8, rng.integers(0, 3, (90, 4)), -1)
    judges = rng.integers(-1, 3, (90, 2))
    full = loo_counts(humans, judges)
    whole = masked_counts(humans, judges, design, 1.0, 3, mask=mask)
    np.testing.assert_array_equal(whole.judge_hits[1], full.judge_hits.sum(axis=-1))
    np.testing.assert_array_equal(whole.human_hits[2], full.human_hits.sum(axis=-1))
    np.testing.assert_array_equal(whole.overlap[0], full.overlap.sum(axis=-1))
    found = masked_counts(humans, judges, design, 0.4, 3000, mask=mask)
    for j in range(2):
        strata = strata_of(humans[:, 0])
        parts = [loo_counts(humans[strata == s], judges[strata == s, j]) for s in range(strata.max() + 1)]
        pairs = loo_pair_moments(humans, judges[:, j])
        expected = matrix_margins(pairs, design, 0.4, 0, strata=parts)
        np.testing.assert_allclose(found.overlap[:, j].mean(axis=0), expected.overlap, rtol=0.03)
        margins = (found.judge_hits - found.human_hits)[:, j] / found.overlap[:, j]
        np.testing.assert_allclose(margins.mean(axis=0), expected.mu, atol=0.02)
        np.testing.assert_allclose(margins.std(axis=0), np.sqrt(np.diagonal(expected.covariance)), rtol=0.12)


def test_masks_ask_for_what_they_need() -> None:
    humans, judges = np.zeros((4, 2), int), np.zeros((4, 1), int)
    with pytest.raises(StructureError, match="the same items"):
        masked_counts(humans, judges[:3], "random", 0.5, 2)
    with pytest.raises(ProtocolError, match="give its strata"):
        masked_counts(humans, judges, "strat_judge", 0.5, 2)
    with pytest.raises(ProtocolError, match="needs the counts of the strata"):
        matrix_margins(loo_pair_moments(humans, judges[:, 0]), "strat", 0.5, 0.05)


@needs_shared
@pytest.mark.parametrize(
    ("task", "place"),
    [(task, place) for task in ("wax", "cebab_aspects") for place in range(12)]
    + [("summeval", place) for place in (0, 1, 2)],
)
def test_real_labels_masked(task: str, place: int) -> None:
    data, one = slow.matrix(task).by_count(), oracle("loo")["real_sparse"][task][place]
    K = data.humans.shape[1]
    T = 300
    counts = masked_counts(data.humans, data.judges, one["design"], one["rho"], T)
    wins = exact_wins(counts.judge_hits - counts.human_hits, counts.overlap, 0.05)[0]
    found = np.nanmean(count_votes(wins).accept_point, axis=0)
    expected = np.array(one["p_accept"])
    limit = np.maximum(0.03, 4 * np.sqrt(np.array(one["se"]) ** 2 + found * (1 - found) / T))
    assert (np.abs(found - expected) <= limit).all()
    strata = strata_of(data.humans[:, 0])
    for j in range(len(slow.JUDGES)):
        judge = data.judges[:, j]
        parts = [loo_counts(data.humans[strata == s], judge[strata == s]) for s in range(strata.max() + 1)]
        pairs = loo_pair_moments(data.humans, judge)
        margins = matrix_margins(pairs, one["design"], one["rho"], 0.05, strata=parts)
        gauss = accept_probability(margins.mu, margins.covariance, votes_needed(K))
        assert gauss == pytest.approx(one["gauss_p_accept"][j], abs=0.009)


def test_matrix_and_population_forms_meet() -> None:
    """Masking a large matrix drawn from a population: population covariance less that of the matrix."""
    rng = np.random.default_rng(6)
    patterns = noise_patterns([0.9, 0.8, 0.7], 0.75, [0.6, 0.4])
    n = 20_000
    codes = patterns.codes[rng.choice(len(patterns.codes), n, p=patterns.probability)]
    pairs = loo_pair_moments(codes[:, :3], codes[:, 3])
    assert isinstance(pairs, PairMoments)
    population = pattern_population(patterns)
    whole = design_margins(population, "shared", 1.0, n, 0.05).covariance
    for design in ("random", "shared"):
        masked = matrix_margins(pairs, design, 0.2, 0.05)
        model = design_margins(population, design, 0.2, n, 0.05)
        np.testing.assert_allclose(
            np.diagonal(masked.covariance + whole), np.diagonal(model.covariance), rtol=0.06
        )


def test_joint_with_the_dense_matrix() -> None:
    rng = np.random.default_rng(7)
    model = NoiseModel(np.array([0.9, 0.8, 0.7]), 0.8, HALF)
    mu, covariance = joint_margins(accuracy_population(*model), "random", 0.3, 200, 0.05)
    trials = simulate_trials(model, "random", 0.3, 200, 20_000, dense=True, seed=rng)
    both = np.concatenate(
        [trials.difference / trials.overlap, trials.dense_difference / trials.dense_overlap], axis=1
    )
    np.testing.assert_allclose(both.mean(axis=0) + 0.05, mu, atol=0.003)
    scale = np.sqrt(np.diagonal(covariance))
    np.testing.assert_allclose(
        np.cov(both.T) / scale[:, None] / scale, covariance / scale[:, None] / scale, atol=0.06
    )


def test_sign_margins_by_simulation() -> None:
    """What the alternative-annotator test averages: signs of score differences per item."""
    patterns = noise_patterns([0.9, 0.7, 0.8], 0.75, [0.6, 0.4])
    n, T, share = 150, 1500, 0.4
    expected = sign_margins(patterns, "random", share, n, 0.1)
    rng = np.random.default_rng(8)
    found = np.zeros((T, 3))
    for t in range(T):
        codes = patterns.codes[rng.choice(len(patterns.codes), n, p=patterns.probability)]
        shown = np.concatenate([np.ones((n, 1), dtype=bool), rng.random((n, 2)) < share], axis=1)
        humans = np.where(shown, codes[:, :3], -1)
        agreed = ((humans == codes[:, [3]]) & shown).astype(int)
        same = ((humans[:, :, None] == humans[:, None, :]) & shown[:, :, None] & shown[:, None, :]).sum(
            axis=2
        ) - 1
        sign = np.sign(agreed.sum(axis=1, keepdims=True) - agreed - same)
        used = shown & (shown.sum(axis=1, keepdims=True) > 1)
        found[t] = (sign * used).sum(axis=0) / used.sum(axis=0)
    np.testing.assert_allclose(found.mean(axis=0) + 0.1, expected.mu, atol=0.012)
    scale = np.sqrt(np.diagonal(expected.covariance))
    np.testing.assert_allclose(
        np.cov(found.T) / np.outer(scale, scale), expected.covariance / np.outer(scale, scale), atol=0.15
    )


# --------------------------------------------------------------------------------------- verdict rules


@needs_shared
def test_error_at_the_boundary_in_the_gaussian_limit() -> None:
    entries = oracle("loo")["boundary_null"]
    assert len(entries) == 24
    rng = np.random.default_rng(9)
    T = 20_000
    for one in entries:
        K, c = one["K"], one["c"]
        z = np.sqrt(one["corr"]) * rng.standard_normal((T, 1)) + np.sqrt(
            1 - one["corr"]
        ) * rng.standard_normal((T, K))
        if one["case"] != "all at bar":
            z[:, : c - 1] += 8
        p = stats.norm.sf(z)
        pc = (partial_conjunction(p, np.full(T, c)) <= 0.05).mean()
        assert pc == pytest.approx(one["fa_pc05"], abs=0.02)
        assert pc <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / T)
        assert ((z >= 0).sum(axis=1) >= c).mean() == pytest.approx(one["fa_plain"], abs=0.02)
        assert (np.sort(p, axis=1)[:, c - 1] <= 0.05).mean() == pytest.approx(one["fa_iu05"], abs=0.02)
        covariance = one["corr"] + (1 - one["corr"]) * np.eye(K)
        stability = accept_probability(z[:1500], np.broadcast_to(covariance, (1500, K, K)), c, log2_points=7)
        assert (stability >= 0.95).mean() == pytest.approx(one["fa_pstar95"], abs=0.04)


def test_partial_conjunction_by_hand() -> None:
    p = [0.03, 0.001, 0.2, 0.04]
    assert partial_conjunction(p, 1) == pytest.approx(0.004)
    assert partial_conjunction(p, 2) == pytest.approx(0.09)
    assert partial_conjunction(p, 4) == pytest.approx(0.2)
    assert partial_conjunction([0.9, 0.8], 1) == 1
    assert partial_conjunction([0.03, np.nan, 0.001], 2) == pytest.approx(0.03)
    assert np.isnan(partial_conjunction([0.03, np.nan], 2))
    assert np.isnan(partial_conjunction([np.nan, np.nan], 1))
    np.testing.assert_allclose(partial_conjunction([p, p], [1, 2]), [0.004, 0.09])


def test_max_t_is_the_largest_intersection() -> None:
    # independent, two of three: sets {1,2}, {1,3}, {2,3}; P(max of two >= t) = 1 - Phi(t)^2
    z = np.array([2.5, 1.5, 0.5])
    p = [1 - stats.norm.cdf(t) ** 2 for t in (2.5, 2.5, 1.5)]
    assert max_t(z, np.eye(3), 2) == pytest.approx(max(p), abs=2e-3)
    # perfectly correlated: no price for more than one comparison
    assert max_t(z, np.ones((3, 3)), 1) == pytest.approx(stats.norm.sf(2.5), rel=0.05)
    assert max_t(z, np.ones((3, 3)), 1) < partial_conjunction(stats.norm.sf(z), 1)
    # t with few degrees of freedom
    assert max_t([1.5], [[1.0]], 1, df=5) == pytest.approx(stats.t.sf(1.5, 5), abs=1e-3)
    # many humans: the bound over all of them
    wide = max_t(np.linspace(3, -1, 16), 0.5 + 0.5 * np.eye(16), 8)
    assert wide <= partial_conjunction(stats.norm.sf(np.linspace(3, -1, 16)), 8) + 1e-12


def test_one_sided_p_values() -> None:
    from xjudge.statistics.loo import loo_margins

    rng = np.random.default_rng(10)
    humans, judge = rng.integers(0, 2, (100, 3)), rng.integers(0, 2, 100)
    margins = loo_margins(loo_counts(humans, judge))
    above, below = one_sided_p(margins, 0.05)
    np.testing.assert_allclose(above, stats.norm.sf(margins.margin / margins.se))
    np.testing.assert_allclose(above + below, 1)


def test_the_trusted_probability_is_within_a_point_and_a_half() -> None:
    """Random settings that the library calls trusted, against 20,000 trials (se at most 0.35 points)."""
    rng = np.random.default_rng(11)
    checked = 0
    while checked < 25:
        K, L = int(rng.integers(2, 6)), int(rng.integers(2, 4))
        n = int(rng.choice([200, 500, 2000]))
        options = {
            "human_accuracy": rng.uniform(0.6, 0.95, K),
            "judge_accuracy": float(rng.uniform(0.55, 0.95)),
            "prevalence": rng.dirichlet(np.full(L, 3.0)),
            "n_items": n,
            "overlap": float(min(1.0, rng.choice([30, 50, 100, 150]) / n)),
            "design": str(rng.choice(["random", "shared", "strat"])),
            "mask": str(rng.choice(["bernoulli", "exact"])),
        }
        fast = wrong_decision_rate(**options)
        if not fast.trusted:
            continue
        slow_one = wrong_decision_rate(**options, method="monte_carlo", n_trials=20_000)
        assert abs(fast.p_accept - slow_one.p_accept) <= 0.015 + 2 * slow_one.se, options
        checked += 1

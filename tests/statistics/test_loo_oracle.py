"""Every entry of the stored leave-one-out figures has a test; those that no other file asserts are here."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import loo_slow as slow
import numpy as np
import pytest
from shared import needs_shared, oracle

from xjudge.statistics.loo import (
    accept_probability,
    count_votes,
    exact_wins,
    loo_counts,
    loo_margins,
    masked_counts,
    noise_model,
    noise_patterns,
    one_sided_p,
    partial_conjunction,
    simulate_trials,
    votes_needed,
)

HALF = [0.5, 0.5]

# Which tests assert which entry.
ASSERTED = {
    "loo": {
        "seed_snippet_1": ["test_the_first_snippet_of_the_note"],
        "seed_snippet_2": ["test_the_second_snippet_of_the_note", "test_pairs_that_never_meet"],
        "tiny": ["test_tiny"],
        "fig2": ["test_figure_2"],
        "planning": ["test_planning_table"],
        "recipe": ["test_recipe"],
        "rules_required_m": ["test_required_items_of_every_rule"],
        "three_way_required_m": [
            "test_required_items_of_a_certificate",
            "test_benjamini_yekutieli_needs_as_many",
        ],
        "gamma": ["test_gamma_constants"],
        "decision_probability": ["test_decision_probability", "test_simulated_decision_probability"],
        "gauss_vs_mc_grid": ["test_gaussian_against_monte_carlo_grid"],
        "general_F_margin": ["test_other_coefficients"],
        "heterogeneous_humans": ["test_estimand_drift", "test_simulated_drift"],
        "three_way_operating_characteristics": ["test_operating_characteristics"],
        "boundary_null": ["test_error_at_the_boundary_in_the_gaussian_limit"],
        "boundary_null_finite": ["test_error_at_the_boundary_with_real_samples"],
        "ppi_margin_and_ceiling": ["test_control_variance_in_theory"],
        "real_dense": ["test_real_dense_verdicts"],
        "real_sparse": [
            "test_real_labels_masked",
            "test_ranking_by_masking",
            "test_thin_masks_of_real_labels",
        ],
        "ranking": ["test_ranking_of_real_judges"],
        "strata_variance_ratio": ["test_what_strata_are_worth"],
        "ppi_ceiling_var_ratio": ["test_control_of_real_ceilings"],
    },
    "alttest_loo": ["test_real_labels_to_the_integer", "test_doubles_would_decide_as_stored"],
    "alttest_alt": ["test_published_figures"],
}
TEXTS = {"meta", "rules_required_m_note", "real_note"}
TASKS = ("wax", "cebab_aspects", "cebab_stars", "summeval", "mtbench", "10k_prompts", "framing")


@needs_shared
def test_every_entry_has_a_test() -> None:
    source = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    known = set(re.findall(r"^def (test_\w+)", source, flags=re.MULTILINE))
    entries = ASSERTED["loo"]
    assert isinstance(entries, dict)
    assert set(oracle("loo")) - TEXTS == set(entries)
    named = [name for names in entries.values() for name in names]
    for name in ("alttest_loo", "alttest_alt"):
        assert set(oracle(name)) == set(TASKS)
        named += ASSERTED[name]
    assert set(named) <= known


# --------------------------------------------------------------------------------------------------- the note

# Wrong-decision rates of the note's tables at 5 % overlap, (random, strat): judges that pass or lie on the
# bar, ...
RATES_PASS = [
    [(0.130, 0.037), (0.113, 0.020), (0.153, 0.053), (0.233, 0.067), (0.270, 0.113), (0.247, 0.143),
     (0.287, 0.140), (0.423, 0.177), (0.503, 0.330)],
    [(0.370, 0.033), (0.553, 0.180), (0.637, 0.473), (0.540, 0.290), (0.583, 0.313), (0.783, 0.543),
     (0.733, 0.507)],
    [(0.097, 0.090), (0.163, 0.090), (0.147, 0.073), (0.203, 0.067), (0.230, 0.157), (0.213, 0.117),
     (0.217, 0.200), (0.367, 0.380)],
]  # fmt: skip
# ... and judges to reject: on stars, WAX and aspects; then ten on SummEval that are never mistaken.
RATES_REJECT = [
    (0.433, 0.567), (0.127, 0.457), (0.157, 0.517), (0.070, 0.330), (0.643, 0.727), (0.363, 0.150),
]  # fmt: skip
WRONG_TOP = (0.670, 0.887, 0.875, 0.177)


@needs_shared
def test_the_first_snippet_of_the_note() -> None:
    """The headline means recomputed from the printed rows: arithmetic, no simulation."""
    expected = oracle("loo")["seed_snippet_1"]
    passing = [row for task in RATES_PASS for row in task]
    rejected = RATES_REJECT + [(0.0, 0.0)] * 10
    assert (len(passing), len(rejected)) == (24, 16)
    assert expected["n_rows"] == {"pass_or_borderline": 24, "reject": 16}
    for place, design in enumerate(("random", "strat")):
        every = [row[place] for row in passing + rejected]
        means = {
            "WDR40": np.mean(every),
            "WDR30": np.mean(every[:30]),
            "FA6": np.mean([row[place] for row in RATES_REJECT]),
        }
        for name, value in means.items():
            assert value == pytest.approx(expected[design][name], abs=5e-4)
    assert np.mean(WRONG_TOP) == pytest.approx(expected["wrong_best_mean4"], abs=5e-4)
    assert np.mean(WRONG_TOP[:3]) == pytest.approx(expected["wrong_best_mean3_without_summeval"], abs=5e-4)


@needs_shared
def test_pairs_that_never_meet() -> None:
    """At 500 items and 5 % overlap: (1 - 0.05^2)^500 of the pairs of further humans."""
    share = oracle("loo")["seed_snippet_2"]["zero_overlap_share_of_secondary_pairs_rho05"]
    in_theory = (1 - 0.05**2) ** 500
    assert in_theory == pytest.approx(share, abs=4 * np.sqrt(0.289 * 0.711 / 6000))
    rng = np.random.default_rng(1)
    both = (rng.random((3000, 500)) < 0.05) & (rng.random((3000, 500)) < 0.05)
    assert np.mean(~both.any(axis=1)) == pytest.approx(share, abs=4 * np.sqrt(0.289 * 0.711 / 3000))


# ------------------------------------------------------------------------------------------------- simulation


def won(trials: tuple[np.ndarray, ...], eps: float = 0.05) -> np.ndarray:
    return np.nansum(exact_wins(trials[0], trials[1], eps)[0], axis=1).astype(int)


@needs_shared
def test_simulated_decision_probability() -> None:
    T = 8000
    for one in oracle("loo")["decision_probability"]:
        model = noise_model(one["K"], one["p_h"], one["p_j"], one["L"], one["prev"])
        trials = simulate_trials(
            model, one["design"], one["m"] / one["n"], one["n"], T, mask="exact", seed=one["m"]
        )
        found = np.bincount(won(trials, one["eps"]), minlength=one["K"] + 1) / T
        expected = np.array(one["mc_win_dist"])
        limit = np.maximum(0.01, 4 * np.sqrt(2 * expected * (1 - expected) / 8000))
        assert (np.abs(found - expected) <= limit).all()


@needs_shared
def test_simulated_drift() -> None:
    T = 4000
    for one in oracle("loo")["heterogeneous_humans"]:
        model = noise_model(None, one["p_h"], one["p_j"], 2, HALF)
        trials = simulate_trials(model, one["design"], one["rho"], one["n"], T, mask="exact", seed=3)
        margins = trials.difference / np.maximum(trials.overlap, 1) + 0.05
        se = margins.std(axis=0) * np.sqrt(2 / T)
        assert (np.abs(margins.mean(axis=0) - one["mc_mean"]) <= 4.5 * se + 1e-9).all()
        accepts = np.mean(won(trials) >= 2)
        p = one["mc_p_accept"]
        assert abs(accepts - p) <= max(0.01, 4 * np.sqrt(2 * p * (1 - p) / T))


def normal(margins: object) -> object:
    """The stored figures judge small samples by the normal distribution, the library by t."""
    return margins._replace(n_items=np.maximum(margins.n_items, 50))  # type: ignore[attr-defined]


@needs_shared
@pytest.mark.parametrize("place", range(6))
def test_error_at_the_boundary_with_real_samples(place: int) -> None:
    entries = oracle("loo")["boundary_null_finite"]
    assert len(entries) == 6
    one, T = entries[place], 500
    K, c, m, n = one["K"], one["c"], one["m"], one["n"]
    codes, probability = noise_patterns(one["p_h"], one["p_j"], HALF)
    rng = np.random.default_rng(place)
    found: dict[str, list[bool]] = {"plain": [], "iu05": [], "pc05": []}
    mu, covariance = [], []
    for _ in range(T):
        if one["design"] == "shared":
            labels = codes[rng.choice(len(codes), m, p=probability)]
        else:
            shown = np.zeros((n, K), dtype=bool)
            for k in range(1, K):
                shown[rng.permutation(n)[:m], k] = True
            shown = shown[shown.any(axis=1)]
            shown[:, 0] = True
            labels = codes[rng.choice(len(codes), len(shown), p=probability)]
            labels[:, :K][~shown] = -1
        margins = loo_margins(loo_counts(labels[:, :K], labels[:, K]))
        above, _ = one_sided_p(normal(margins), 0.05)  # type: ignore[arg-type]
        found["plain"].append(margins.votes.wins >= c)
        found["iu05"].append(np.sort(above)[c - 1] <= 0.05)
        found["pc05"].append(partial_conjunction(above, c) <= 0.05)
        mu.append(margins.margin)
        covariance.append(margins.covariance)
    rates = {name: float(np.mean(values)) for name, values in found.items()}
    stable = accept_probability(np.array(mu), np.array(covariance), np.full(T, c), log2_points=8)
    rates["pstar95"] = float(np.mean(stable >= 0.95))
    for name, rate in rates.items():
        p = one[name]
        limit = max(0.015, 4 * np.sqrt(p * (1 - p) / one["T"] + rate * (1 - rate) / T))
        assert abs(rate - p) <= limit, name


# ------------------------------------------------------------------------------------------------ real labels


@needs_shared
@pytest.mark.parametrize("task", ["wax", "cebab_aspects", "summeval"])
def test_thin_masks_of_real_labels(task: str) -> None:
    """Comparisons without a pair, mean margins, and wrong decisions against all labels."""
    data = slow.matrix(task).by_count()
    full = loo_counts(data.humans, data.judges)
    dense = loo_margins(full).votes.accept_point
    entries = oracle("loo")["real_sparse"][task]
    for one in entries if task != "summeval" else entries[::6]:
        T = 200
        counts = masked_counts(data.humans, data.judges, one["design"], one["rho"], T)
        zero = np.mean(counts.overlap == 0)
        p = one["zero_overlap"]
        assert abs(zero - p) <= max(0.003, 4 * np.sqrt(p * (1 - p) / (T * 4)))
        difference = counts.judge_hits - counts.human_hits
        margin = np.where(counts.overlap > 0, difference / np.maximum(counts.overlap, 1) + 0.05, np.nan)
        mean = np.nanmean(margin, axis=2)
        scatter = np.nanstd(mean, axis=0) * np.sqrt(1 / T + 1 / one["T"])
        assert (np.abs(np.nanmean(mean, axis=0) - one["mean_margin"]) <= 4.5 * scatter + 1e-3).all()
        votes = count_votes(exact_wins(difference, counts.overlap, 0.05)[0])
        wrong = np.mean(votes.accept_point != dense, axis=0)
        expected = np.array(one["wdr"])
        limit = 4 * np.sqrt(expected * (1 - expected) / one["T"] + wrong * (1 - wrong) / T)
        assert (np.abs(wrong - expected) <= np.maximum(0.03, limit)).all()


@needs_shared
@pytest.mark.parametrize("task", TASKS)
def test_doubles_would_decide_as_stored(task: str) -> None:
    """What a comparison in doubles makes of the same counts: the reason why ours is in integers."""
    data, expected = slow.matrix(task), oracle("alttest_loo")[task]
    counts = loo_counts(data.humans, data.judges)
    hits, same, pairs = (field.sum(axis=-1).astype(float) for field in counts[:3])
    for j, name in enumerate(slow.JUDGES):
        available = pairs[j] > 0
        wins = (hits[j] / pairs[j] >= same[j] / pairs[j] - expected["eps"])[available]
        assert np.mean(wins) == pytest.approx(expected["judges"][name]["float_compare_omega"], abs=1e-13)


@needs_shared
def test_thresholds_of_the_source_notebook() -> None:
    for task in TASKS:
        expected = oracle("alttest_alt")[task]
        assert 0.1 <= expected["epsilon_in_source_notebook"] <= 0.2
    assert votes_needed(8) == 4


# ---------------------------------------------------------------------------------- the level of the verdict


def test_false_accepts_of_the_stored_study() -> None:
    """Every cell of the study (20,000 trials each): 5 %, 6 % below 50 items, within its Monte Carlo error."""
    path = Path(__file__).resolve().parents[2] / "docs" / "data" / "loo_level.csv"
    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 72
    assert {int(row["trials"]) for row in rows} == {20_000}
    assert {(int(row["humans"]), int(row["needed"])) for row in rows} == {
        (3, 2), (4, 2), (4, 3), (5, 3), (8, 4), (10, 5),
    }  # fmt: skip
    for row in rows:
        bar = 0.06 if int(row["items"]) < 50 else 0.05
        limit = bar + 3 * np.sqrt(bar * (1 - bar) / 20_000)
        assert float(row["verdict"]) <= limit
        assert not row["max_t"] or float(row["verdict"]) <= float(row["max_t"]) <= limit
        assert abs(float(row["margin"])) < 1e-12  # on the bar, and no further
    # what is no test does not hold it
    assert max(float(row["stable"]) for row in rows) > 0.4
    assert max(float(row["single"]) for row in rows) > 0.13

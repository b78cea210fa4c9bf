"""Planning from pilots with criteria, and whether the best judge stays the best, on labelled data."""

from __future__ import annotations

import warnings
from typing import Any

import loo_slow as slow
import numpy as np
import pytest
import xarray as xr
from labels import BINARY, dataset, random_codes
from shared import needs_shared, oracle

import xjudge as xj
from xjudge.statistics import loo

MICRO = xj.Protocol(aggregate="micro")


def quiet(verb: Any, *arguments: Any, **options: Any) -> xr.Dataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XJudgeWarning)
        return verb(*arguments, **options)


def noisy(seed: int, n: int, shares: list[float], criteria: int = 1, common: bool = False) -> Any:
    """Labels (item, rater, criterion) of raters right with given shares; of one truth, or of one each."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, (n, 1 if common else criteria))
    right = rng.random((n, len(shares), 1 if common else criteria)) < np.array(shares)[:, None]
    labels = np.where(right, truth[:, None], 1 - truth[:, None])
    return np.repeat(labels, criteria, axis=2) if common else labels


ROLES = ["human", "human", "human", "judge"]
SHARES = [0.85, 0.85, 0.85, 0.8]


# ------------------------------------------------------------------------------------- pilots with criteria


def test_copies_of_a_criterion_are_no_further_items() -> None:
    """Four criteria that are one and the same: as many items as with one, and four times the labels."""
    one = dataset(noisy(0, 400, SHARES)[..., 0], ROLES)
    four = dataset(noisy(0, 400, SHARES, 4, common=True), ROLES)
    options: dict[str, Any] = {"judge": "j1", "n_items": 2000, "design": "shared"}
    plan, copies = (xj.plan_overlap(ds, **options) for ds in (one, four))
    for name in ("m", "m_fr", "m_fa", "fr", "fa", "p_accept"):
        xr.testing.assert_allclose(plan[name], copies[name])
    assert float(copies["n_labels"]) == 4 * float(plan["n_labels"])
    assert float(copies["smallest_overlap"][-1]) == pytest.approx(4 * float(plan["smallest_overlap"][-1]))
    # as decisions they look independent: as many decisions, a quarter of the items
    apart = xj.plan_overlap(four, unit="decisions", **options)
    assert float(apart["m"]) == pytest.approx(float(plan["m"]), rel=0.01)
    assert (copies.attrs["unit"], copies.attrs["n_pilot"], copies.attrs["labels_per_item"]) == (
        "items", 400, 4,
    )  # fmt: skip
    assert (apart.attrs["unit"], apart.attrs["n_pilot"], apart.attrs["labels_per_item"]) == (
        "decisions", 1600, 1,
    )  # fmt: skip


def test_independent_criteria_are_as_good_as_items() -> None:
    four = dataset(noisy(1, 3000, SHARES, 4), ROLES)
    options: dict[str, Any] = {"judge": "j1", "n_items": 3000, "design": "shared"}
    items = xj.plan_overlap(four, **options)
    decisions = xj.plan_overlap(four, unit="decisions", **options)
    for name in ("m_fr_continuous", "m_fa_continuous"):
        assert float(items[name]) == pytest.approx(float(decisions[name]) / 4, rel=0.12)


def test_a_plan_in_items_holds_when_items_are_drawn() -> None:
    """Correlated criteria: the error that the plan promises at m, against samples of the pilot's items."""
    rng = np.random.default_rng(3)
    n, criteria = 4000, 3
    hard = rng.random((n, 1, 1)) < 0.3  # everybody errs more often on all criteria of a hard item
    shares = np.array([0.85, 0.85, 0.85, 0.8])[:, None]
    truth = rng.integers(0, 2, (n, 1, criteria))
    right = rng.random((n, 4, criteria)) < np.where(hard, shares - 0.2, shares)
    labels = np.where(right, truth, 1 - truth).astype(np.int8)
    pilot = dataset(labels, ROLES)
    plan = xj.plan_overlap(pilot, judge="j1", n_items=100_000, design="shared", grid=[60], at_margin=0.04)
    T, m = 3000, 60
    drawn = labels[rng.integers(0, n, (T, m))]  # (T, m, rater, criterion)
    flat = drawn.transpose(0, 1, 3, 2).reshape(T, m * criteria, 4)
    hits, same, pairs = (c.sum(axis=-1) for c in loo.loo_pair_counts(flat[..., :3], flat[..., 3]))
    whole = loo.loo_pair_counts(labels.transpose(0, 2, 1).reshape(-1, 4)[:, :3], labels[:, 3].ravel())
    dense = (whole[0] - whole[1]).sum(axis=-1) / whole[2].sum(axis=-1)
    for margin, p in zip((0.04, -0.04), plan["p_accept"].isel(m_items=0).values, strict=True):
        wins = (hits - same) / pairs - dense + margin >= 0
        found = float(np.mean(wins.sum(axis=1) >= 2))
        assert abs(found - p) < 0.015 + 4 * np.sqrt(0.25 / T)


def test_what_a_pilot_with_criteria_cannot_plan() -> None:
    pilot = dataset(noisy(2, 100, SHARES, 2), ROLES)
    with pytest.raises(xj.ProtocolError, match="counts decisions, and an item of this pilot has 2"):
        xj.plan_overlap(pilot, judge="j1", rule="alt_test")
    assert np.isfinite(xj.plan_overlap(pilot, judge="j1", rule="alt_test", unit="decisions")["fa"]).all()
    with pytest.raises(xj.ProtocolError, match="and these items have 2: plan for one criterion"):
        xj.plan_overlap(pilot, judge="j1", design="strat")
    with pytest.raises(xj.ProtocolError, match="`unit` must be 'items' or 'decisions'; got 'labels'"):
        xj.plan_overlap(pilot, judge="j1", unit="labels")
    with pytest.raises(xj.ProtocolError, match="items that every human and the judge labelled"):
        xj.plan_overlap(pilot, judge="j1", method="monte_carlo")


def test_item_verdicts_have_one_label() -> None:
    pilot = dataset(noisy(2, 200, SHARES, 2), ROLES)
    protocol = xj.Protocol(aggregate="item", item_rule=xj.all_positive())
    plan = xj.plan_overlap(pilot, judge="j1", protocol=protocol, design="strat")
    assert (plan.attrs["labels_per_item"], plan.attrs["n_pilot"]) == (1, 200)


@pytest.mark.parametrize("rule", ["omega", "partial_conjunction", "alt_test"])
@pytest.mark.parametrize(("n_humans", "strict", "needed"), [(3, False, 2), (4, False, 2), (4, True, 3)])
def test_every_rule_from_parameters_and_from_a_pilot(
    rule: Any, n_humans: int, strict: bool, needed: int
) -> None:
    parameters = xj.plan_overlap(
        n_humans=n_humans, human_accuracy=0.85, n_items=3000, design="shared", rule=rule, strict=strict
    )
    pilot = dataset(noisy(4, 3000, [*[0.85] * n_humans, 0.85])[..., 0], ["human"] * n_humans + ["judge"])
    own = pilot.judge.plan_overlap(judge="j1", design="shared", rule=rule, strict=strict)
    assert int(parameters["n_needed"]) == int(own["n_needed"]) == needed
    if rule != "alt_test":  # there the pilot's margins are on the scale of advantages
        # the pilot's judge is the good one; the covariance of the bad one is its too
        assert float(own["m_fr"]) == pytest.approx(float(parameters["m_fr"]), rel=0.25)
    assert own["p_accept"].shape[0] == 2


def test_an_option_of_the_room_is_an_option_of_the_verb() -> None:
    plan = xj.plan_overlap(n_humans=4, rule="alt_test", q=0.2, grid=[50, 100], design="shared")
    right = loo.plan_overlap(n_humans=4, rule="alt_test", q=0.2, grid=[50, 100], design="shared")
    np.testing.assert_array_equal(plan["p_accept"], right.p_accept)
    simulated = xj.plan_overlap(n_humans=3, method="auto", n_trials=200, grid=[4, 500], design="shared")
    assert simulated["method"].values.tolist() == ["monte_carlo", "gaussian"]


# -------------------------------------------------------------------------------------------- the top judge


@needs_shared
@pytest.mark.parametrize("task", ["wax", "cebab_aspects"])
def test_the_top_judge_of_published_labels(task: str) -> None:
    data = slow.matrix(task).by_count()
    roles = ["human"] * data.humans.shape[1] + ["judge"] * data.judges.shape[1]
    scale = xj.Scale.nominal(data.labels)
    ds = dataset(np.concatenate([data.humans, data.judges], axis=1), roles, scale)
    entries = [one for one in oracle("loo")["ranking"] if one["dataset"] == task]
    for design in ("random", "shared"):
        some = [one for one in entries if one["design"] == design]
        found = xj.wrong_top_probability(ds, overlap=[one["rho"] for one in some], design=design)
        assert found["wrong_top"].dims == ("overlap",)
        for one, p in zip(some, found["wrong_top"].values, strict=True):
            assert p == pytest.approx(one["gauss"], abs=0.006)
    sparse = oracle("loo")["real_sparse"][task][2]
    assert sparse["design"] == "strat"
    one = xj.wrong_top_probability(ds, overlap=sparse["rho"], design="strat", n_trials=400)
    assert one.attrs["method"] == "monte_carlo"
    limit = max(0.03, 4 * float(np.hypot(one["wrong_top_se"], np.sqrt(0.25 / sparse["T"]))))
    assert abs(float(one["wrong_top"]) - sparse["wrong_top_meanSj"]) < limit
    omega = xj.wrong_top_probability(ds, overlap=sparse["rho"], design="strat", rank_by="omega", n_trials=400)
    assert abs(float(omega["wrong_top"]) - sparse["wrong_top_omega"]) < limit


def panel(seed: int, n: int, criteria: int, common: bool) -> xr.Dataset:
    shares = [0.9, 0.8, 0.8, 0.82, 0.8]
    return dataset(noisy(seed, n, shares, criteria, common), ["human"] * 3 + ["judge"] * 2)


@pytest.mark.parametrize("design", ["random", "shared"])
def test_criteria_of_an_item_are_masked_together(design: Any) -> None:
    """The normal form against masks, with criteria that are copies; and as with one criterion."""
    options: dict[str, Any] = {"overlap": [0.2, 0.5], "design": design, "protocol": MICRO}
    copies, single = panel(5, 200, 3, common=True), panel(5, 200, 1, common=True)
    smooth = xj.wrong_top_probability(copies, **options)
    xr.testing.assert_allclose(smooth["p_best"], xj.wrong_top_probability(single, **options)["p_best"])
    own = panel(6, 200, 3, common=False)
    for ds in (copies, own):
        smooth = xj.wrong_top_probability(ds, **options)
        masked = xj.wrong_top_probability(ds, **options, method="monte_carlo", n_trials=1500)
        assert (abs(smooth["wrong_top"] - masked["wrong_top"]) < 0.07).all()
        assert (masked["wrong_top_se"] < 0.014).all()


def test_tables_apart_are_tables_alone() -> None:
    ds = panel(7, 150, 2, common=False)
    both = xj.wrong_top_probability(ds, overlap=0.3)
    assert both["wrong_top"].dims == ("criterion",)
    assert both["p_best"].dims == ("criterion", "rater")
    for g in range(2):
        alone = xj.wrong_top_probability(ds.isel(criterion=g, drop=True), overlap=0.3)
        for name in ("wrong_top", "p_best", "score", "top"):
            xr.testing.assert_equal(
                both[name].isel(criterion=g, drop=True), alone[name].drop_vars("criterion", errors="ignore")
            )
    labels = ds["label"].isel(criterion=0).values
    right = loo.wrong_top_probability(labels[:, :3], labels[:, 3:], 0.3)
    assert float(both["wrong_top"][0]) == right.probability
    assert str(both["top"].values[0]) == ["j1", "j2"][right.top]
    frame = xj.tidy(both[["p_best"]])
    assert len(frame) == 4


@pytest.mark.filterwarnings("ignore:Labels are chunked")
def test_every_backend_ranks_alike(backend: Any) -> None:
    ds = panel(8, 90, 2, common=False)
    for options in ({"protocol": MICRO}, {"method": "monte_carlo", "n_trials": 50}):
        found = xj.wrong_top_probability(backend(ds), overlap=[0.2, 0.6], **options)
        xr.testing.assert_identical(found, xj.wrong_top_probability(ds, overlap=[0.2, 0.6], **options))


def test_judges_that_meet_nobody_have_no_order() -> None:
    codes = noisy(9, 40, [0.8] * 5)[..., 0]
    codes[:, 3:] = -1
    found = xj.wrong_top_probability(dataset(codes, ["human"] * 3 + ["judge"] * 2), overlap=0.5)
    assert np.isnan(found["wrong_top"])
    assert found["wrong_top_reason"].item() == "no overlap"


def test_all_labels_change_no_order() -> None:
    found = xj.wrong_top_probability(panel(10, 80, 1, common=True), overlap=1.0, protocol=MICRO)
    assert float(found["wrong_top"]) == 0.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"overlap": 0.0}, r"`share` in \(0, 1\]"),
        ({"overlap": []}, "`overlap` is one share of the items or a list"),
        ({"design": "strat_judge"}, "`design` must be 'random', 'shared' or 'strat'"),
        ({"method": "exact"}, "`method` must be"),
        ({"method": "gaussian", "design": "strat"}, "no normal form for strata"),
        ({"method": "gaussian", "rank_by": "omega"}, "no normal form"),
        ({"rank_by": "kappa"}, "'kappa'"),
        ({"judges": ["j1"]}, "two or more judges"),
        ({"design": "strat", "protocol": MICRO}, "an item has several here"),
    ],
)
def test_rankings_that_are_none(options: dict[str, Any], message: str) -> None:
    with pytest.raises(xj.XJudgeError, match=message):
        xj.wrong_top_probability(panel(11, 30, 2, common=False), **options)
    assert BINARY.n_categories == 2


def test_one_human_is_not_enough() -> None:
    ds = dataset(random_codes(0, (20, 3), 2), ["human", "judge", "judge"])
    with pytest.raises(xj.OverlapError, match="at least 2 humans"):
        xj.wrong_top_probability(ds)


@pytest.mark.parametrize(
    ("argument", "word"),
    [
        ({"judge": "orion-large"}, "judge"),
        ({"humans": ["ann"]}, "humans"),
        ({"protocol": xj.Protocol()}, "protocol"),
    ],
)
def test_how_to_read_a_pilot_needs_a_pilot(argument: dict[str, Any], word: str) -> None:
    with pytest.raises(xj.ProtocolError, match=f"^'{word}' say how a pilot is read, and there is none"):
        xj.plan_overlap(n_humans=3, human_accuracy=0.85, **argument)


def test_a_pilot_has_its_own_categories() -> None:
    with pytest.raises(xj.ProtocolError, match="not both; got 'n_categories' too"):
        xj.plan_overlap(xj.load_example(), judge="orion-large", n_categories=3)

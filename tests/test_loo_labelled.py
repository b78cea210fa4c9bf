"""Leave-one-out validation, the alternative-annotator test and planning on labelled data."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from labels import BINARY, dataset, random_codes
from panel_tasks import NUMERIC, TASKS, published, quiet
from shared import needs_shared, oracle

import xjudge as xj
from xjudge.statistics import loo

MICRO = xj.Protocol(aggregate="micro")


@pytest.fixture
def ds() -> xr.Dataset:
    codes = random_codes(11, (120, 5, 2), 2)
    codes[:60, 4] = codes[:60, 0]  # a judge that copies the first human on half of the items
    return dataset(codes, ["human", "human", "human", "judge", "judge"], system=["a", "b"] * 60)


# ------------------------------------------------------------------------------------------ published labels


@needs_shared
@pytest.mark.parametrize("task", TASKS)
def test_leave_one_out_on_published_labels(task: str) -> None:
    expected = oracle("alttest_loo")[task]["judges"]
    found = quiet(xj.loo_validate, published(task, ordered=True))
    for judge, right in expected.items():
        one = found.sel(rater=judge)
        assert float(one["omega"]) == pytest.approx(right["omega"], abs=1e-12)
        assert bool(one["accept_point"]) is right["accept"]
        assert int(one["margin_tie"].sum()) == right["exact_ties"]
        for human in right["humans"]:
            cell = one.sel(human=human["human"])
            assert int(cell["overlap"]) == human["pairs"]
            assert float(cell["judge_agreement"]) == human["judge_hits"] / human["pairs"]
            assert float(cell["human_agreement"]) == human["human_hits"] / human["pairs"]
            assert bool(cell["win"]) is human["win"]
            assert float(cell["margin"]) == pytest.approx(human["difference"] + 0.05, abs=1e-12)


@needs_shared
def test_no_judge_wins_on_summeval_and_one_tie_is_exact() -> None:
    assert (quiet(xj.loo_validate, published("summeval", ordered=True))["omega"] == 0).all()
    found = quiet(xj.loo_validate, published("cebab_aspects"), judges=["mistral-v03"])
    assert int(found["margin_tie"].sum()) == 1
    tied = found.where(found["margin_tie"], drop=True)
    assert (tied["win"] == 1).all()
    assert int(tied["overlap"].squeeze()) == 1020


@needs_shared
@pytest.mark.parametrize("pooling_task", ["wax", "cebab_aspects", "cebab_stars"])
def test_the_other_pooling(pooling_task: str) -> None:
    expected = oracle("alttest_loo")[pooling_task]["judges"]
    found = quiet(xj.loo_validate, published(pooling_task, ordered=True), pooling="pairs")
    for judge, right in expected.items():
        assert float(found["omega"].sel(rater=judge)) == pytest.approx(
            right["omega_if_mean_of_pairs"], abs=1e-12
        )


@needs_shared
@pytest.mark.parametrize("task", TASKS)
def test_alternative_annotator_test_on_published_labels(task: str) -> None:
    expected = oracle("alttest_alt")[task]["judges"]
    score = "neg_rmse" if task in NUMERIC else "accuracy"
    for eps, key in ((0.0, "0"), (0.1, "0.1"), (0.15, "0.15"), (0.2, "0.2")):
        found = quiet(xj.alt_test, published(task, ordered=True), eps=eps, score=score)
        for judge, right in expected.items():
            one = found.sel(rater=judge)
            known = {str(float(name)): value for name, value in right["omega"].items()}
            assert float(one["omega"]) == pytest.approx(known[str(float(key))], abs=1e-12)
            assert float(one["advantage_probability"]) == pytest.approx(right["rho"], abs=1e-10)


# ------------------------------------------------------------------------------------- the twin and the room


def test_it_is_the_room_on_protocol_codes(ds: xr.Dataset) -> None:
    labels = ds["label"].transpose("item", "criterion", "rater").values
    humans, judges = labels[..., :3], labels[..., 3:]
    for protocol, pick in ((MICRO, None), (xj.Protocol(), 1)):
        found = quiet(xj.loo_validate, ds, protocol=protocol)
        a, b = (humans, judges) if pick is None else (humans[:, pick], judges[:, pick])
        right = loo.loo_validate(np.where(a >= 0, a, -1), np.where(b >= 0, b, -1))
        one = found if pick is None else found.isel(criterion=pick)
        np.testing.assert_array_equal(one["margin"].transpose("rater", "human"), right.margins.margin)
        np.testing.assert_array_equal(one["se"].transpose("rater", "human"), right.margins.se)
        np.testing.assert_array_equal(one["omega"], right.margins.votes.omega)
        np.testing.assert_array_equal(one["verdict"], right.verdict.verdict)
        np.testing.assert_array_equal(one["p_accept"], right.verdict.p_accept)


def test_dims_and_names(ds: xr.Dataset) -> None:
    found = quiet(xj.loo_validate, ds)
    assert found["margin"].dims == ("rater", "human", "criterion")
    assert found["omega"].dims == ("rater", "criterion")
    assert found["human"].values.tolist() == ["h1", "h2", "h3"]
    assert found["rater"].values.tolist() == ["j1", "j2"]
    frame = xj.tidy(found)
    assert len(frame) == 2 * 3 * 2
    assert {"rater", "human", "criterion", "margin", "se", "win", "verdict"} <= set(frame.columns)


def test_ca_as_a_category_is_a_label_to_agree_on(ds: xr.Dataset) -> None:
    labels = ds["label"].transpose("item", "criterion", "rater").values
    recoded = np.where(labels == -2, 2, np.where(labels >= 0, labels, -1))
    found = quiet(xj.loo_validate, ds, protocol=xj.Protocol(ca="category", aggregate="micro"))
    right = loo.loo_validate(recoded[..., :3], recoded[..., 3:])
    np.testing.assert_array_equal(found["margin"].transpose("rater", "human"), right.margins.margin)


def test_slices_and_populations(ds: xr.Dataset) -> None:
    part = ds.isel(item=slice(0, None, 2))
    alone = quiet(xj.loo_validate, part, protocol=MICRO)
    sliced = quiet(xj.loo_validate, ds, protocol=MICRO, by="system").sel(system="a", drop=True)
    narrowed = quiet(xj.loo_validate, ds, protocol=xj.Protocol(population={"system": "a"}, aggregate="micro"))
    for other in (sliced, narrowed):
        for name in ("margin", "se", "overlap", "omega", "p_value_accept"):
            xr.testing.assert_equal(other[name], alone[name])


def test_item_verdicts(ds: xr.Dataset) -> None:
    protocol = xj.Protocol(aggregate="item", item_rule=xj.all_positive())
    found = quiet(xj.loo_validate, ds, protocol=protocol)
    assert found["margin"].dims == ("rater", "human")
    labels = ds["label"].transpose("item", "rater", "criterion").values
    both, none = (labels == 1).all(2), (labels == 0).any(2)
    items = np.where(both, 1, np.where(none, 0, -1))
    right = loo.loo_validate(items[:, :3], items[:, 3:])
    np.testing.assert_array_equal(found["overlap"].transpose("rater", "human"), right.margins.overlap)
    np.testing.assert_array_equal(found["margin"].transpose("rater", "human"), right.margins.margin)


CALLS: list[tuple[Any, dict[str, Any]]] = [
    (xj.loo_validate, {}),
    (xj.loo_validate, {"protocol": MICRO, "pooling": "pairs"}),
    (xj.loo_validate, {"protocol": MICRO, "target": "matrix", "strict": True, "threshold": 0.5}),
    (xj.loo_validate, {"by": "system", "protocol": MICRO}),
    (xj.alt_test, {"min_items": 5}),
    (xj.alt_test, {"min_items": 5, "score": "neg_rmse", "protocol": MICRO}),
]


@pytest.mark.filterwarnings("ignore:Labels are chunked")
@pytest.mark.parametrize(("verb", "options"), CALLS)
def test_every_backend_gives_the_same_bits(ds: xr.Dataset, backend: Any, verb: Any, options: Any) -> None:
    xr.testing.assert_identical(quiet(verb, backend(ds), **options), quiet(verb, ds, **options))


@pytest.mark.parametrize(("verb", "options"), CALLS)
def test_one_compute(ds: xr.Dataset, count_computes: Any, verb: Any, options: Any) -> None:
    lazy = ds.chunk(item=(50, 7, 63))
    with count_computes() as computes:
        later = quiet(verb, lazy, compute=False, **options)
        assert computes.n == 0
        now = quiet(verb, lazy, **options)
        assert computes.n == 1
    xr.testing.assert_identical(later.compute(), now)


@pytest.mark.parametrize("options", [{"statistic": "kappa"}, {"statistic": "gwet_ac1"}, {"control": True}])
def test_what_holds_the_labels_in_memory(ds: xr.Dataset, options: dict[str, Any]) -> None:
    if "control" in options:  # the first human labelled whatever the judges did
        first = ds["label"].isel(rater=0)
        ds = ds.assign(
            label=xr.where(ds["rater"] == "h1", abs(first), ds["label"]).transpose(*ds["label"].dims)
        )
        ds["label"].attrs = BINARY.to_attrs()
        ds = ds.assign(label=ds["label"].clip(max=1).astype(np.int8).assign_attrs(BINARY.to_attrs()))
    found = quiet(xj.loo_validate, ds, protocol=MICRO, **options)
    labels = ds["label"].transpose("item", "criterion", "rater").values
    labels = np.where(labels >= 0, labels, -1)
    more = {} if "control" in options else {"n_categories": 2}
    for position, judge in enumerate(("j1", "j2")):
        right = loo.loo_validate(labels[..., :3], labels[..., 3 + position], **options, **more)
        np.testing.assert_array_equal(found["margin"].sel(rater=judge), right.margins.margin)


def test_a_callable_score_is_the_built_in_one(ds: xr.Dataset) -> None:
    def share(label: Any, others: list[Any]) -> float:
        return sum(label == other for other in others) / len(others)

    own = quiet(xj.alt_test, ds, score=share, min_items=5, protocol=MICRO)
    built_in = quiet(xj.alt_test, ds, min_items=5, protocol=MICRO)
    for name in ("advantage_judge", "p_value", "significant", "omega", "advantage_probability"):
        np.testing.assert_allclose(own[name].values, built_in[name].values, rtol=1e-12)


# --------------------------------------------------------------------------------------------- awkward inputs


def test_zero_overlap_is_no_vote_and_an_exact_tie_is_a_win() -> None:
    rows = [[0, 0, -1, 0]] * 4 + [[1, 0, -1, 1]] * 16
    found = quiet(xj.loo_validate, dataset(rows, ["human", "human", "human", "judge"]))
    assert np.isnan(found["win"].sel(human="h3")).all()
    assert found["margin_reason"].sel(human="h3").values.tolist() == ["no overlap"]
    assert int(found["n_available"][0]) == 2
    # 3 of 20 against 4 of 20 with 0.05: the margin is exactly 0
    rows = [[0, 0, 0]] * 3 + [[0, 0, 1]] + [[0, 1, 1]] * 0 + [[1, 0, 1]] * 16
    tie = quiet(xj.loo_validate, dataset(rows, ["human", "human", "judge"]))
    assert bool(tie["margin_tie"].sel(human="h1").squeeze())
    assert float(tie["win"].sel(human="h1").squeeze()) == 1.0


def test_nobody_has_enough_items() -> None:
    found = quiet(xj.alt_test, dataset(random_codes(0, (10, 4), 2), ["human"] * 3 + ["judge"]))
    assert np.isnan(found["passes"]).all()
    assert str(found["passes_reason"].values[0]) != "ok"
    assert np.isnan(found["omega"]).all()


def test_the_warning_says_what_to_look_at() -> None:
    codes = random_codes(3, (60, 5), 2)
    with pytest.warns(xj.XJudgeWarning, match="accepts on a tie of votes"):
        xj.loo_validate(dataset(codes, ["human"] * 4 + ["judge"]))
    with pytest.warns(xj.XJudgeWarning, match="fewer than 30 pairs"):
        xj.loo_validate(dataset(abs(codes[:12, 1:]) % 2, ["human"] * 3 + ["judge"]))


def test_another_statistic_has_another_scale(ds: xr.Dataset) -> None:
    with pytest.warns(xj.XJudgeWarning, match="eps and at_margin are on the scale of kappa"):
        xj.loo_validate(ds, statistic="kappa", protocol=MICRO)


@pytest.mark.parametrize(
    ("n_humans", "options", "warns"),
    [
        (4, {}, True),  # two of four
        (4, {"strict": True}, False),
        (4, {"threshold": 0.75}, False),  # exactly three of four, but a majority
        (3, {"threshold": 1}, False),
        (3, {}, False),
        (5, {"threshold": 0.4}, True),  # two of five
    ],
)
def test_a_rule_that_accepts_without_a_majority(n_humans: int, options: dict[str, Any], warns: bool) -> None:
    codes = random_codes(5, (200, n_humans + 1), 2, outcomes=False)
    found = quiet(xj.loo_validate, dataset(codes, ["human"] * n_humans + ["judge"]), **options)
    assert found["tie_accepts"].values.tolist() == [warns]


def test_comparisons_without_a_margin_are_told_of() -> None:
    rows = [[0, 0, -1, 0]] * 4 + [[1, 0, -1, 1]] * 36
    with pytest.warns(xj.UndefinedWarning, match="margin: 1 x no overlap"):
        quiet_rest(xj.loo_validate, dataset(rows, ["human", "human", "human", "judge"]))
    with pytest.warns(xj.UndefinedWarning, match="p_value: 3 x fewer than min_items items"):
        xj.alt_test(dataset(random_codes(1, (12, 4), 2, outcomes=False), ["human"] * 3 + ["judge"]))


def quiet_rest(verb: Any, *arguments: Any, **options: Any) -> None:
    """Run a verb with its warnings but those about undefined values silenced."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Leave-one-out")
        verb(*arguments, **options)


def numbers_of(labels: np.ndarray, scale: xj.Scale | None = None) -> xr.Dataset:
    """Three humans and a judge who give numbers; NaN is missing."""
    frame = pd.DataFrame(
        {
            "item": np.repeat(np.arange(len(labels)), 4),
            "rater": list("abcj") * len(labels),
            "label": labels.ravel(),
        }
    )
    return xj.from_long(frame, judges=["j"], scale=xj.Scale.continuous() if scale is None else scale)


def test_the_alternative_annotator_test_of_numbers() -> None:
    """On whole numbers it is that of the interval scale with these values."""
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 5, size=(80, 4)).astype(float)
    labels[rng.random(labels.shape) < 0.2] = np.nan
    continuous, interval = (
        numbers_of(labels, scale) for scale in (xj.Scale.continuous(), xj.Scale.interval([0.0, 1, 2, 3, 4]))
    )
    assert "score" in continuous
    assert "score" not in interval

    def distance(label: float, others: list[float]) -> float:
        return -float(np.sqrt(np.mean((np.array(others) - label) ** 2).round(12)))

    expected = quiet(xj.alt_test, interval, score="neg_rmse", min_items=5)
    for data in (continuous, continuous.chunk(item=(30, 1, 49))):
        for score in ("neg_rmse", distance):
            found = quiet(xj.alt_test, data, score=score, min_items=5)
            xr.testing.assert_allclose(found, expected, rtol=1e-12)
    assert expected["n_items"].values.min() > 20


def test_the_alternative_annotator_test_of_measured_numbers() -> None:
    """Against the definition, in plain loops."""
    rng = np.random.default_rng(4)
    labels = rng.normal(size=(40, 4)) * 7 + 1000
    found = xj.alt_test(numbers_of(labels), score="neg_rmse", eps=0.2)
    for k in range(3):
        others = np.delete(labels[:, :3], k, axis=1)
        judge, human = (
            np.sqrt(np.mean((others - column[:, None]) ** 2, axis=1))
            for column in (labels[:, 3], labels[:, k])
        )
        one = found.isel(human=k, rater=0)
        assert float(one["advantage_judge"]) == np.mean(judge <= human)
        assert float(one["advantage_human"]) == np.mean(human <= judge)
    with pytest.raises(xj.ProtocolError, match="asks for equal labels, and here the scale is"):
        xj.alt_test(numbers_of(labels))


def test_numbers_that_nobody_gave() -> None:
    labels = np.full((6, 4), np.nan)
    labels[0, 3] = 2.5
    found = quiet(xj.alt_test, numbers_of(labels), score="neg_rmse")
    assert np.isnan(found["passes"]).all()


def test_numbers_are_no_categories() -> None:
    numbers = numbers_of(np.random.default_rng(0).normal(size=(40, 4)))
    for verb in (xj.loo_validate, xj.plan_overlap):
        with pytest.raises(xj.ProtocolError, match="compares categories, and here the scale is"):
            verb(numbers)
    with pytest.raises(xj.ProtocolError, match="compares categories"):
        xj.allocate(numbers, 5, design="strat")
    assert xj.allocate(numbers, 5)["assigned"].sum("item").values.tolist() == [40, 5, 5]


def test_a_pilot_names_the_humans_who_never_met(ds: xr.Dataset) -> None:
    codes = ds["label"].copy()
    codes[:, 2] = -1
    alone = ds.assign(label=codes)
    names = ds["rater"].values[:3].tolist()
    said = f"share none: '{names[0]} with {names[2]}', '{names[1]} with {names[2]}'. Leave humans out"
    for unit in ("items", "decisions"):
        with pytest.raises(xj.ProtocolError, match=said):
            xj.plan_overlap(alone, judge=ds["rater"].values[3], protocol=MICRO, unit=unit)


def test_an_own_score_that_is_no_number(ds: xr.Dataset) -> None:
    with pytest.raises(xj.ProtocolError, match="it gave 'good'"):
        xj.alt_test(ds, score=lambda label, others: "good", protocol=MICRO)
    empty = quiet(xj.alt_test, ds, score=lambda label, others: float("nan"), protocol=MICRO)
    assert np.isnan(empty["passes"]).all()


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda ds: ds.isel(rater=[0, 3]), {}, "at least 2 humans"),
        (lambda ds: ds.isel(rater=[0, 1, 2]), {}, "at least 1 judge"),
        (lambda ds: ds, {"protocol": xj.Protocol(aggregate="macro")}, "pools criteria"),
        (lambda ds: ds, {"statistic": "recall"}, "`statistic` must be one of"),
        (lambda ds: ds, {"pooling": "raters"}, "`pooling` must be"),
        (lambda ds: ds, {"threshold": 2}, "threshold"),
        (lambda ds: ds, {"level": 95}, "`level` must"),
        (
            lambda ds: ds.assign_coords(
                identity=("rater", ["named", "positional", "named", "named", "named"])
            ),
            {},
            "'h2' is a position",
        ),
    ],
)
def test_impossible_requests(ds: xr.Dataset, change: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(xj.XJudgeError, match=message):
        xj.loo_validate(change(ds), **options)


# --------------------------------------------------------------------------------------------------- planning


def test_planning_from_parameters_and_from_a_pilot(ds: xr.Dataset) -> None:
    plan = xj.plan_overlap(n_humans=3, human_accuracy=0.85, design="shared")
    right = loo.plan_overlap(n_humans=3, human_accuracy=0.85, design="shared")
    assert float(plan["m"]) == right.m == max(right.m_fr, right.m_fa)
    np.testing.assert_array_equal(plan["fr"], right.fr)
    assert plan["p_accept"].dims == ("margin", "m_items")
    one = ds.isel(criterion=0, drop=True)
    labels = np.where(one["label"].values >= 0, one["label"].values, -1)
    pilot = xj.plan_overlap(one, judge="j2", design="shared")
    from_room = loo.plan_overlap(humans=labels[:, :3], judge=labels[:, 4], n_items=120, design="shared")
    assert float(pilot["m"]) == from_room.m
    with pytest.raises(xj.ProtocolError, match="not both"):
        xj.plan_overlap(ds, n_humans=3)
    with pytest.raises(xj.ProtocolError, match="name it with `judge=`"):
        xj.plan_overlap(one)


def test_the_two_errors_need_very_different_numbers() -> None:
    """The note's asymmetry at four humans: about 52 items for a good judge, 215 for a bad one."""
    plan = xj.plan_overlap(n_humans=4, human_accuracy=0.85, n_items=2000, design="random")
    assert float(plan["m_fr_continuous"]) == pytest.approx(52, rel=0.05)
    assert float(plan["m_fa_continuous"]) == pytest.approx(215, rel=0.05)


def test_one_prevalence_is_that_of_the_positive_category() -> None:
    one = xj.plan_overlap(n_humans=3, human_accuracy=0.9, prevalence=0.2, n_items=400)
    xr.testing.assert_identical(
        one, xj.plan_overlap(n_humans=3, human_accuracy=0.9, prevalence=[0.8, 0.2], n_items=400)
    )
    with pytest.raises(xj.ProtocolError, match=r"`prevalence` is one share a category, 3 in all; got 0\.2"):
        xj.plan_overlap(n_humans=3, human_accuracy=0.9, n_categories=3, prevalence=0.2)

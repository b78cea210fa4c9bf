"""Where intervals may miss their level, what is said of it, and bounds where nobody disagrees."""

from __future__ import annotations

import csv
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from labels import dataset

import xjudge as xj
from xjudge.labelled._level import BY_MARGINS, FEW_APART, FEW_LABELS, OF_PAIRS, few
from xjudge.statistics import COEFFICIENTS, evaluate, wilson_interval
from xjudge.statistics.raters import RATER_COEFFICIENTS

Z2 = 1.959963984540054**2
MICRO, MACRO = xj.Protocol(aggregate="micro"), xj.Protocol(aggregate="macro")
FEW = "few labels beside the commonest category"
POOLED = "few disagreements, pooled within units"
NOBODY = "nobody disagrees: bound on what was not seen"
STILL = "no sampling unit moves the estimate"
BOUNDED = ["kappa", "phi", "scott_pi", "gwet_ac1", "brennan_prediger", "f1", "balanced_accuracy", "mcc"]


def of_table(table: Any, n_judges: int = 1) -> xr.Dataset:
    rows = [[a, *[b] * n_judges] for (a, b), n in np.ndenumerate(np.array(table)) for _ in range(n)]
    return dataset(rows, ["human", *["judge"] * n_judges])


def quiet(verb: Any, *arguments: Any, **options: Any) -> xr.Dataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XJudgeWarning)
        return verb(*arguments, **options)


# ---------------------------------------------------------------------------------------- nobody disagrees


@pytest.mark.parametrize("name", [n for n in BOUNDED if n != "mcc"])
def test_perfect_agreement_is_bounded_by_what_was_not_seen(name: str) -> None:
    result = xj.agreement(of_table([[20, 0], [0, 30]]), statistic=name).squeeze()
    low, high = result[f"{name}_interval"].values
    more = np.array([[20, Z2 / 2], [Z2 / 2, 30]])
    assert high == 1.0
    assert low == pytest.approx(float(evaluate(name, more).value), abs=1e-12)
    assert 0.5 < low < 1
    assert float(result[f"{name}_se"]) == 0
    assert str(result[f"{name}_interval_reason"].values) == NOBODY


def test_shares_have_wilsons_interval_whatever_the_method() -> None:
    for method in ("auto", "delta", "wilson"):
        result = xj.agreement(
            of_table([[20, 0], [0, 30]]), statistic=["accuracy", "recall"], interval=method
        ).squeeze()
        assert result["accuracy_interval"].values == pytest.approx(np.stack(wilson_interval(50, 50)))
        assert result["recall_interval"].values == pytest.approx(np.stack(wilson_interval(30, 30)))


def test_more_items_without_a_disagreement_say_more() -> None:
    lows = [
        float(xj.agreement(of_table(np.diag([n, n])), statistic="kappa")["kappa_interval"].values.min())
        for n in (10, 20, 40, 400)
    ]
    assert lows == sorted(lows)
    assert lows[-1] == pytest.approx(1 - 2 * Z2 / (800 + Z2), abs=1e-12)


def test_the_level_is_heard() -> None:
    wide, narrow = (
        xj.agreement(of_table(np.diag([20, 20])), statistic="kappa", level=level)["kappa_interval"].values
        for level in (0.99, 0.8)
    )
    assert wide.min() < narrow.min() < 1


def test_pooled_criteria_count_as_items() -> None:
    codes = np.repeat(np.array([0, 1] * 15)[:, None, None], 2, axis=1).repeat(9, axis=2)
    ds = dataset(codes, ["human", "judge"], cluster=np.arange(30) // 3)
    for protocol in (MICRO, MACRO):
        result = quiet(xj.agreement, ds, statistic=["accuracy", "kappa"], protocol=protocol).squeeze()
        assert result["accuracy_interval"].values == pytest.approx(np.stack(wilson_interval(30, 30)))
        more = np.array([[15, Z2 / 2], [Z2 / 2, 15]])
        assert result["kappa_interval"].values[0] == pytest.approx(float(evaluate("kappa", more).value))
    clustered = quiet(
        xj.agreement, ds, statistic=["accuracy", "kappa"], protocol=MICRO, resample="clusters"
    ).squeeze()
    assert clustered["accuracy_interval"].values == pytest.approx(np.stack(wilson_interval(10, 10)))
    more = np.array([[5, Z2 / 2], [Z2 / 2, 5]])
    assert clustered["kappa_interval"].values[0] == pytest.approx(float(evaluate("kappa", more).value))
    single = quiet(xj.agreement, ds, statistic="accuracy", protocol=MICRO, resample="decisions").squeeze()
    assert single["accuracy_interval"].values == pytest.approx(np.stack(wilson_interval(270, 270)))


def test_weights_decide_what_a_disagreement_is() -> None:
    """Neighbours that count as equal are no disagreement, and take no part in what was not seen."""
    near = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    table = [[12, 4, 0], [3, 11, 0], [0, 0, 15]]
    rows = [[a, b] for (a, b), n in np.ndenumerate(np.array(table)) for _ in range(n)]
    ds = dataset(rows, ["human", "judge"], xj.Scale.ordinal([1, 2, 3]))
    result = xj.agreement(ds, statistic="kappa", weights=near).squeeze()
    assert float(result["kappa"]) == 1
    labels = np.array([12 + 4 + 12 + 3, 3 + 11 + 4 + 11, 30]) + 1.0
    pair = np.outer(labels, labels) * (near == 0)
    more = np.array(table) + Z2 * pair / pair.sum()
    low, high = result["kappa_interval"].values
    assert high == 1
    assert low == pytest.approx(float(evaluate("kappa", more, near).value), abs=1e-12)


def test_errors_are_bounded_from_above() -> None:
    rows = [[a, a] for a in range(4) for _ in range(10)]
    ds = dataset(rows, ["human", "judge"], xj.Scale.interval([0, 1, 2, 5]))
    names = ["mean_absolute_error", "rmse", "pearson", "concordance", "kendall_tau_b", "mean_error"]
    result = xj.agreement(ds, statistic=names).squeeze()
    for name in ("mean_absolute_error", "rmse"):
        low, high = result[f"{name}_interval"].values
        assert low == 0
        assert 0 < high < 1
    for name in ("pearson", "concordance", "kendall_tau_b"):
        low, high = result[f"{name}_interval"].values
        assert 0.5 < low < high == 1
    # the bias may lie on either side, and nothing tells how far
    assert np.isnan(result["mean_error_interval"]).all()
    assert str(result["mean_error_interval_reason"].values) == STILL


@given(n=st.integers(2, 60), k=st.integers(1, 60))
def test_judges_who_never_differ(n: int, k: int) -> None:
    """A difference of 0 is bounded as in Tango's score interval without a discordant pair."""
    codes = [[0, 0, 0]] * n + [[1, 1, 1]] * k + [[1, 0, 0]]
    result = quiet(xj.compare, dataset(codes, ["human", "judge", "judge"]), "j1", "j2").squeeze()
    end = Z2 / (n + k + 1 + Z2)
    assert result["accuracy_difference_interval"].values == pytest.approx([-end, end], abs=1e-12)
    assert str(result["accuracy_difference_interval_reason"].values) == NOBODY


def test_what_cannot_be_bounded_says_why() -> None:
    constant = quiet(xj.agreement, of_table([[20, 0], [20, 0]]), statistic=["kappa", "f1"]).squeeze()
    for name in ("kappa", "f1"):
        assert float(constant[name]) == 0
        assert np.isnan(constant[f"{name}_interval"]).all()
        assert str(constant[f"{name}_interval_reason"].values) == STILL
    one = quiet(xj.agreement, of_table([[0, 1], [0, 0]]), statistic=["accuracy", "kappa"]).squeeze()
    assert str(one["kappa_interval_reason"].values) == "fewer than two sampling units"
    none = quiet(xj.agreement, dataset([[-1, 1]], ["human", "judge"]), statistic="kappa").squeeze()
    assert str(none["kappa_interval_reason"].values) == "no overlap"
    assert "kappa_interval_reason" not in quiet(xj.agreement, of_table(np.eye(2, dtype=int)), interval=None)


def test_resamples_that_are_all_alike_say_so() -> None:
    result = quiet(xj.agreement, of_table([[20, 0], [0, 30]]), statistic="kappa", interval="percentile")
    assert (result["kappa_interval"] == 1).all()
    assert (result["kappa_interval_reason"] == STILL).all()


# ---------------------------------------------------------------------------------------------- the warning


def test_one_warning_with_counts_and_names() -> None:
    ds = of_table([[90, 2], [1, 3]], 2)
    with pytest.warns(xj.IntervalWarning) as caught:
        result = xj.agreement(ds, statistic=["kappa", "phi", "accuracy", "gwet_ac1"])
    (one,) = caught
    text = str(one.message)
    assert "kappa 2 of 2, phi 2 of 2" in text
    assert "reference h1 / rater j1" in text
    assert "accuracy" not in text
    assert "gwet_ac1" not in text
    assert one.filename == __file__
    assert (result["kappa_interval_reason"] == FEW).all()
    assert (result["accuracy_interval_reason"] == "ok").all()


@pytest.mark.parametrize("interval", ["delta", "percentile", "bca", "studentized"])
def test_every_method_is_warned_of(interval: str) -> None:
    with pytest.warns(xj.IntervalWarning, match="beside the commonest"):
        xj.agreement(of_table([[90, 2], [1, 3]]), statistic="kappa", interval=interval, n_resamples=50)


def test_no_interval_no_warning() -> None:
    result = xj.agreement(
        of_table([[90, 2], [1, 3]]), statistic="kappa", interval=None
    )  # a warning is an error
    assert not {"kappa_interval", "kappa_interval_reason"} & set(result)
    with pytest.warns(xj.IntervalWarning):
        xj.agreement(of_table([[90, 2], [1, 3]]), statistic="kappa")


def test_healthy_data_give_no_warning() -> None:
    result = xj.agreement(of_table([[40, 10], [8, 42]]), statistic=["accuracy", "kappa", "phi", "f1"])
    for name in ("accuracy", "kappa", "phi", "f1"):
        assert (result[f"{name}_interval_reason"] == "ok").all()


@pytest.mark.parametrize("rare", [7, 8])
def test_the_rule_is_a_number_of_units(rare: int) -> None:
    table = [[92, 1], [0, rare]]  # the reference has `rare` positives, the judge one more
    found = quiet(xj.agreement, of_table(table), statistic="kappa")["kappa_interval_reason"].item()
    assert found == (FEW if rare < 8 else "ok")


def test_more_categories_count_together() -> None:
    rows = [[0, 0]] * 90 + [[1, 1]] * 3 + [[2, 2]] * 3 + [[3, 0], [3, 3], [1, 2]]
    ds = dataset(rows, ["human", "judge"], xj.Scale.nominal(["a", "b", "c", "d"]))
    assert quiet(xj.agreement, ds, statistic="kappa")["kappa_interval_reason"].item() == "ok"
    fewer = ds.isel(item=slice(0, 96))
    assert quiet(xj.agreement, fewer, statistic="kappa")["kappa_interval_reason"].item() == FEW


def test_pooled_pairs_count_in_items() -> None:
    """Twenty items of nine criteria with 36 rare labels are 4 items' worth: too few."""
    rng = np.random.default_rng(0)
    codes = (rng.random((20, 2, 9)) < 0.2).astype(int)
    codes[:, 1] = np.where(rng.random((20, 9)) < 0.9, codes[:, 0], 1 - codes[:, 1])
    ds = dataset(codes, ["human", "judge"])
    with pytest.warns(xj.IntervalWarning) as caught:
        result = xj.agreement(ds, statistic=["accuracy", "kappa"], protocol=MICRO)
    assert len(caught) == 1
    assert result["accuracy_interval_reason"].item() == POOLED
    assert result["kappa_interval_reason"].item() == FEW
    assert "accuracy 1 of 1 (reference h1 / rater j1)" in str(caught[0].message)


def test_a_lazy_result_carries_the_reasons() -> None:
    ds = of_table([[90, 2], [1, 3]]).chunk(item=20)
    with pytest.warns(xj.IntervalWarning):
        eager = xj.agreement(ds, statistic="kappa")
    lazy = xj.agreement(ds, statistic="kappa", compute=False)
    assert lazy["kappa_interval_reason"].dtype == eager["kappa_interval_reason"].dtype
    xr.testing.assert_identical(lazy.compute(), eager)


def test_comparisons_and_costs_have_reasons_too() -> None:
    ds = of_table([[90, 2], [1, 3]], 2)
    with pytest.warns(xj.IntervalWarning, match="kappa_difference 1 of 1"):
        result = xj.compare(ds, "j1", "j2", statistic="kappa")
    assert (result["kappa_a_interval_reason"] == FEW).all()
    costs = {"nominal": 1 - np.eye(2), "other": 2 * (1 - np.eye(2))}
    with pytest.warns(xj.IntervalWarning, match="kappa 4 of 4"):
        named = xj.agreement(ds, statistic="kappa", costs=costs)
    assert named["kappa_interval_reason"].dims == named["kappa"].dims
    assert named["kappa_interval"].dims == (*named["kappa"].dims, "bound")


def test_a_sweep_warns_once() -> None:
    codes = np.zeros((30, 2, 2), dtype=int)
    codes[:4], codes[0, 0] = 1, 0
    grid = xj.Protocol.grid(ca=["exclude", "negative"], aggregate=["micro", "macro"])
    with pytest.warns(xj.IntervalWarning) as caught:
        swept = xj.sweep(dataset(codes, ["human", "judge"]), grid, statistic="kappa")
    assert len(caught) == 1
    assert swept["kappa_interval_reason"].dims == swept["kappa"].dims
    assert not any("interval" in str(name) for name in xj.spread(swept).data_vars)


def test_tidy_has_a_column_of_them() -> None:
    frame = xj.tidy(quiet(xj.agreement, of_table([[90, 2], [1, 3]]), statistic="kappa"))
    assert frame["kappa_interval_reason"].tolist() == [FEW]
    assert {"kappa", "kappa_lower", "kappa_upper"} <= set(frame.columns)


# -------------------------------------------------------------------------------------------- many raters


def test_many_raters_are_bounded_as_two_are() -> None:
    """With z^2 items more, all of which disagree."""
    ds = dataset([[0, 0]] * 20 + [[1, 1]] * 15, ["human", "human"])
    names = {
        "fleiss_kappa": "scott_pi",
        "gwet_ac": "gwet_ac1",
        "brennan_prediger": "brennan_prediger",
        "percent_agreement": "accuracy",
        "conger_kappa": "kappa",
        "light_kappa": "kappa",
        "mean_pairwise_kappa": "kappa",
    }
    result = xj.reliability(ds, statistic=[*names, "alpha", "icc(A,1)"])
    more = np.diag([20.0, 15.0]) + Z2 / 2 * (1 - np.eye(2))
    for name, of_two in names.items():
        low, high = result[f"{name}_interval"].values
        assert high == 1.0
        assert low == pytest.approx(float(evaluate(of_two, more).value), abs=1e-9), name
        assert float(result[f"{name}_se"]) == 0.0
        assert str(result[f"{name}_interval_reason"].values) == NOBODY
    for name in ("alpha", "icc(A,1)"):
        low, high = result[f"{name}_interval"].values
        assert high == 1.0
        assert low == pytest.approx(float(evaluate("scott_pi", more).value), abs=0.02)


@pytest.mark.parametrize("protocol", [MICRO, MACRO], ids=["micro", "macro"])
def test_pooled_criteria_of_many_raters_count_as_items(protocol: xj.Protocol) -> None:
    codes = np.repeat(np.array([0, 1] * 20)[:, None, None], 3, axis=1).repeat(5, axis=2)
    ds = dataset(codes, ["human"] * 3, cluster=np.arange(40) // 4)
    one = xj.reliability(ds.isel(criterion=0, drop=True), statistic="fleiss_kappa")
    pooled = quiet(xj.reliability, ds, statistic="fleiss_kappa", protocol=protocol)
    assert pooled["fleiss_kappa_interval"].values == pytest.approx(one["fleiss_kappa_interval"].values)
    clustered = quiet(xj.reliability, ds, statistic="fleiss_kappa", protocol=protocol, resample="clusters")
    ten = quiet(xj.reliability, ds.isel(criterion=0, item=slice(10), drop=True), statistic="fleiss_kappa")
    assert clustered["fleiss_kappa_interval"].values == pytest.approx(ten["fleiss_kappa_interval"].values)


def test_rare_labels_of_many_raters_are_warned_of() -> None:
    codes = (np.random.default_rng(0).random((60, 4)) < 0.05).astype(int)
    ds = dataset(codes, ["human"] * 4)
    with pytest.warns(xj.IntervalWarning, match="alpha 1 of 1, fleiss_kappa 1 of 1, since fewer than 8"):
        result = xj.reliability(ds, statistic=["alpha", "fleiss_kappa", "gwet_ac"])
    assert str(result["gwet_ac_interval_reason"].values) == "ok"
    xj.reliability(ds, interval=None)


def test_numbers_that_all_agree_have_no_interval() -> None:
    """What numbers not seen would be is not known; an interval of one point says so."""
    rng = np.random.default_rng(0)
    scores = np.repeat(rng.normal(size=(20, 1)), 2, axis=1)
    ds = dataset(np.zeros((20, 2), dtype=int), ["human", "human"], xj.Scale.continuous())
    ds = ds.assign(score=(("item", "rater"), scores))
    result = quiet(xj.reliability, ds, statistic=["alpha", "icc(A,1)"])
    for name in ("alpha", "icc(A,1)"):
        assert float(result[name]) == pytest.approx(1)
        assert str(result[f"{name}_interval_reason"].values) == STILL


# ------------------------------------------------------------------------------------------- idle choices


IDLE = dataset(
    [[0, 1, 2], [1, 1, 0], [2, 2, 2], [0, 0, 1]], ["human", "judge", "judge"], xj.Scale.ordinal([1, 2, 3])
)


@pytest.mark.parametrize(
    "choice", [{"weights": "linear"}, {"costs": 1 - np.eye(3)}], ids=["weights", "costs"]
)
def test_weights_that_nothing_takes_are_an_error(choice: dict[str, Any]) -> None:
    with pytest.raises(xj.ProtocolError, match="do not act on 'accuracy', 'mcc'; they do on kappa"):
        xj.agreement(IDLE, statistic=["accuracy", "mcc"], **choice)
    with pytest.raises(xj.ProtocolError, match="do not act on 'mcc'"):
        xj.compare(IDLE, "j1", "j2", statistic="mcc", **choice)
    with pytest.raises(xj.ProtocolError, match="do not act on 'accuracy'"):
        xj.rank(IDLE, **choice)
    with pytest.raises(xj.ProtocolError, match="do not act on 'accuracy'"):
        xj.sweep(IDLE, [xj.Protocol()], statistic="accuracy", costs={"one": 1 - np.eye(3)})
    assert "kappa" in quiet(xj.agreement, IDLE, statistic=["accuracy", "kappa"], **choice)


def test_costs_by_name_are_for_agreement() -> None:
    costs = {"one": 1 - np.eye(3)}
    with pytest.raises(xj.ProtocolError, match="one name or matrix"):
        xj.compare(IDLE, "j1", "j2", statistic="kappa", costs=costs)
    with pytest.raises(xj.ProtocolError, match="one name or matrix"):
        xj.rank(IDLE, statistic="kappa", costs=costs)


# ------------------------------------------------------------------------------------ the rule and the study


def settings_of(pooled: bool) -> list[dict[str, float]]:
    """Settings of the coverage study with 50 items and more, items as units, by the rule they fall under."""
    file = Path(__file__).resolve().parents[1] / "docs" / "data" / "coverage.csv"
    numbers = ("auto", "none_auto", "undefined", "warned", "n")
    with file.open(newline="", encoding="utf-8") as opened:
        return [
            {name: float(row[name]) for name in numbers}
            for row in csv.DictReader(opened)
            if row["unit"] == "items"
            and int(row["n"]) >= 50
            and (row["statistic"] in OF_PAIRS if pooled else row["statistic"] in BY_MARGINS)
            and (row["criteria"] == "9" or not pooled)
        ]


def test_the_rule_tells_the_settings_that_fall_short() -> None:
    rows = settings_of(pooled=False)
    assert len(rows) == 126
    short = [r["auto"] < 0.935 or r["none_auto"] > 0.01 or r["undefined"] > 0.01 for r in rows]
    assert sum(short) == 27
    failing = [row["warned"] for row, falls in zip(rows, short, strict=True) if falls]
    others = [row["warned"] for row, falls in zip(rows, short, strict=True) if not falls]
    assert min(failing) > 0.9
    assert sum(others) / len(others) < 0.08
    assert sum(warned > 0.5 for warned in others) == 3  # all with 5 rare labels, and high agreement


def test_the_rule_of_pooled_shares() -> None:
    rows = settings_of(pooled=True)
    assert [round(r["warned"], 2) for r in rows if r["auto"] < 0.935] == [0.16, 1.0, 0.84, 1.0, 0.82]
    others = [row["warned"] for row in rows if row["auto"] >= 0.935]
    assert [round(warned, 2) for warned in others if warned > 0.0025] == [0.19]


def test_every_coefficient_has_its_rule_or_none() -> None:
    known = set(COEFFICIENTS) | set(RATER_COEFFICIENTS)
    assert known <= BY_MARGINS | OF_PAIRS
    assert not BY_MARGINS & OF_PAIRS
    assert few("rmse", 0, 0, pooled=True) == 0
    assert few("kappa", FEW_LABELS, 0, pooled=True) == 0
    assert few("accuracy", 0, FEW_APART, pooled=True) == 0

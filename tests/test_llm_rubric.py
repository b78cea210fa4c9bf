"""The published reanalysis of LLM-Rubric, rebuilt from the released labels: to the last printed digit."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from shared import SHARED, needs_shared, oracle

import xjudge as xj

pytestmark = needs_shared

ARGMAX, SAMPLED = "gpt-3.5-turbo-16k_argmax", "gpt-3.5-turbo-16k_sampled"
STATISTICS = ["accuracy", "precision", "recall", "specificity", "f1", "kappa", "balanced_accuracy", "phi"]


@cache
def _dataset() -> xr.Dataset:
    frame = pd.read_csv(SHARED / "data" / "llm_rubric_real.csv", dtype={"item": str, "rater": str})
    return xj.from_long(
        frame,
        criterion="criterion",
        role="rater_kind",
        role_names={"llm": "judge"},
        scale=xj.Scale.ordinal([1, 2, 3, 4]),
        ca=[0],
    )


def _quietly(verb: Any, *arguments: Any, **options: Any) -> xr.Dataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XJudgeWarning)
        return verb(*arguments, **options)


def _protocol(**choices: Any) -> xj.Protocol:
    return xj.Protocol(**{"scale_map": xj.at_least(3), "aggregate": "micro", **choices})


def test_table_5_counts() -> None:
    counts = _dataset().judge.tables(reference="human", protocol=_protocol(), judges=[ARGMAX])["count"][0]
    labels = ["<3", ">=3", "ca"]
    found = counts.sel(reference_label=labels, rater_label=labels)
    assert found.values.tolist() == [[97, 420, 0], [181, 1003, 0], [64, 242, 0]]
    assert int(counts.sum()) == 2007


@pytest.mark.parametrize(
    ("ca", "statistic", "printed"),
    [
        ("exclude", "accuracy", 0.647),
        ("exclude", "kappa", 0.040),
        ("exclude", "f1", 0.769),
        ("negative", "accuracy", 0.580),
        ("negative", "kappa", 0.047),
        ("negative", "f1", 0.704),
        ("category", "accuracy", 0.548),
        ("category", "kappa", 0.032),
    ],
)
def test_table_5_as_printed(ca: str, statistic: str, printed: float) -> None:
    result = xj.agreement(
        _dataset(), statistic=statistic, reference="human", judges=[ARGMAX], protocol=_protocol(ca=ca)
    )
    assert round(float(result[statistic][0]), 3) == printed


def test_table_5_denominators_and_coverage() -> None:
    result = xj.agreement(_dataset(), reference="human", judges=[ARGMAX], protocol=_protocol())
    assert int(result["n"][0]) == 1701
    assert int(result["n_eligible"][0]) == 2007
    assert float(result["coverage"][0]) == pytest.approx(0.847533632287, abs=1e-12)
    assert float(result["rate_reference"][0]) == pytest.approx(0.69606114050558, abs=1e-12)
    assert float(result["rate_rater"][0]) == pytest.approx(0.83656672545561, abs=1e-12)


def test_rates_of_abstention() -> None:
    found = xj.rates(_dataset(), protocol=_protocol())["ca"]
    assert found.values.tolist() == [pytest.approx(0.152466367713, abs=1e-12), 0.0, 0.0]


@pytest.mark.parametrize("extraction", ["argmax", "sampled"])
@pytest.mark.parametrize("threshold", [2, 3, 4])
def test_every_value_per_criterion(extraction: str, threshold: int) -> None:
    expected = oracle("llm_rubric")["per_criterion"][f"{extraction}_ge{threshold}"]
    for ca in ("exclude", "negative"):
        protocol = xj.Protocol(scale_map=xj.at_least(threshold), ca=ca)
        result = _quietly(
            xj.agreement, _dataset(), statistic=STATISTICS, reference="human", protocol=protocol
        )
        result = result.sel(rater=f"gpt-3.5-turbo-16k_{extraction}")
        assert set(result["criterion"].values) == set(expected)
        for criterion, values in expected.items():
            one, right = result.sel(criterion=criterion), values if ca == "exclude" else values["recoded"]
            assert int(one["n"]) == right["n"]
            for statistic in STATISTICS:
                known = np.nan if right[statistic] is None else right[statistic]
                assert float(one[statistic]) == pytest.approx(known, abs=1e-10, nan_ok=True)
            if ca == "exclude":
                assert float(one["coverage"]) == pytest.approx(values["coverage"], abs=1e-10)


def test_24_protocols_in_one_sweep() -> None:
    grid = xj.Protocol.grid(
        scale_map=[xj.at_least(k) for k in (2, 3, 4)],
        ca=["exclude", "negative"],
        aggregate=["micro", "macro"],
    )
    result = _quietly(xj.sweep, _dataset(), grid, statistic=STATISTICS, reference="human")
    rows = oracle("llm_rubric")["protocol_sweep_24"]
    assert len(rows) == result.sizes["protocol"] * result.sizes["rater"] == 24
    for row in rows:
        protocol = xj.Protocol(
            scale_map=xj.at_least(row["threshold"]),
            ca={"exclude": "exclude", "recode": "negative"}[row["handling"]],
            aggregate=row["aggregation"],
        )
        one = result.sel(protocol=protocol.label, rater=f"gpt-3.5-turbo-16k_{row['extraction']}")
        assert int(one["n"]) == row["n"]
        assert int(one["n_criteria"]) == row["groups"]
        for statistic in STATISTICS:
            known = np.nan if row[statistic] is None else row[statistic]
            assert float(one[statistic]) == pytest.approx(known, abs=1e-10, nan_ok=True)
            included = one["n_criteria_included"].sel(statistic=statistic)
            assert int(included) == row[f"{statistic}_included"]


def test_the_protocol_moves_accuracy_from_551_to_899() -> None:
    grid = xj.Protocol.grid(
        scale_map=[xj.at_least(k) for k in (2, 3, 4)],
        ca=["exclude", "negative"],
        aggregate=["micro", "macro"],
    )
    result = _quietly(xj.sweep, _dataset(), grid, statistic=["accuracy", "kappa"], reference="human")
    assert round(float(result["accuracy"].min()), 3) == 0.551
    assert round(float(result["accuracy"].max()), 3) == 0.899
    assert round(float(result["kappa"].min()), 3) == -0.067
    assert round(float(result["kappa"].max()), 3) == 0.068
    summary = xj.spread(result)
    assert float(summary["accuracy_max"].max() - summary["accuracy_min"].min()) == pytest.approx(
        0.348, abs=5e-4
    )
    assert set(summary["accuracy_most"].values.tolist()) == {"scale_map"}


def test_macro_values_with_what_they_include() -> None:
    result = _quietly(
        xj.agreement,
        _dataset(),
        statistic=["kappa", "accuracy", "phi", "f1"],
        reference="human",
        judges=[ARGMAX],
        protocol=_protocol(aggregate="macro"),
    ).isel(rater=0)
    assert float(result["kappa"]) == pytest.approx(0.0085765419961668, abs=1e-12)
    assert float(result["accuracy"]) == pytest.approx(0.65223683970229, abs=1e-12)
    assert float(result["phi"]) == pytest.approx(0.015636613255656, abs=1e-12)
    assert float(result["f1"]) == pytest.approx(0.73656590170688, abs=1e-12)
    assert result["n_criteria_included"].values.tolist() == [9, 9, 7, 9]
    assert int(result["n_criteria"]) == 9


def test_three_class_kappa_by_costs() -> None:
    result = xj.agreement(
        _dataset(),
        statistic="kappa",
        reference="human",
        judges=[ARGMAX],
        protocol=_protocol(ca="category"),
        costs=xj.costs_from_scores([0, 1, 0.5]),
    )
    expected = {"nominal": 0.03166487133453, "linear": 0.03784705532285, "quadratic": 0.041941323998947}
    for name, value in expected.items():
        assert float(result["kappa"].sel(costs=name)[0]) == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize(("scale_map", "differ"), [(None, 703), (2, 120), (3, 522), (4, 169)])
def test_extraction_difference_of_two_raters(scale_map: int | None, differ: int) -> None:
    protocol = _protocol(scale_map=None if scale_map is None else xj.at_least(scale_map))
    counts = xj.tables(_dataset(), raters=[ARGMAX, SAMPLED], protocol=protocol)["count"].values[0, 1]
    assert int(counts.sum() - np.trace(counts)) == differ


@cache
def _with_probabilities() -> xr.Dataset:
    """The sampled judge, with the released probabilities of its ratings."""
    frame = pd.read_csv(SHARED / "data" / "llm_rubric_real.csv", dtype={"item": str, "rater": str})
    released = pd.read_csv(SHARED / "data" / "llm_rubric_real_probs.csv.gz", dtype={"item": str})
    frame = frame[frame["rater"] != ARGMAX].merge(released, on=["item", "criterion"], how="left")
    columns = ["p1", "p2", "p3", "p4"]
    frame.loc[frame["rater"] == "human", columns] = np.nan
    return xj.from_long(
        frame.drop(columns=["annotator", "system"]),
        criterion="criterion",
        role="rater_kind",
        role_names={"llm": "judge"},
        scale=xj.Scale.ordinal([1, 2, 3, 4]),
        ca=[0],
        prob=dict(zip([1, 2, 3, 4], columns, strict=True)),
    )


@pytest.mark.parametrize(("threshold", "differ"), [(None, 703), (2, 120), (3, 522), (4, 169)])
def test_extraction_rules_read_the_released_probabilities(threshold: int | None, differ: int) -> None:
    scale_map = None if threshold is None else xj.at_least(threshold)
    read = xj.Protocol(scale_map=scale_map, extraction="argmax", aggregate="micro")
    plain = xj.Protocol(scale_map=scale_map, aggregate="micro")
    result = _quietly(
        xj.agreement, _with_probabilities(), statistic="accuracy", reference="human", protocol=read
    )
    assert int(result["n_extraction_changed"][0]) == differ
    released = _quietly(
        xj.agreement, _dataset(), statistic="accuracy", reference="human", judges=[ARGMAX], protocol=plain
    )
    assert float(result["accuracy"][0]) == float(released["accuracy"][0])
    assert int(result["n"][0]) == int(released["n"][0]) == 1701


def test_f1_of_met_does_not_move_when_ca_is_recoded() -> None:
    """MATH.md section 3: the one-versus-rest F1 of MET is the same with CA as a category and as UNMET."""
    ds = _dataset()
    recoded = xj.agreement(
        ds,
        statistic="f1",
        reference="human",
        judges=[ARGMAX],
        protocol=_protocol(ca="negative"),
        interval=None,
    )
    tables = xj.tables(ds, reference="human", judges=[ARGMAX], protocol=_protocol(ca="category"))["count"][0]
    met = int(tables.sel(reference_label=">=3", rater_label=">=3"))
    either = int(tables.sel(reference_label=">=3").sum() + tables.sel(rater_label=">=3").sum())
    assert float(recoded["f1"][0]) == pytest.approx(2 * met / either, abs=1e-15)

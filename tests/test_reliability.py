"""Reliability through the verb: published and stored figures, plain loops, sampling units, guard rails."""

from __future__ import annotations

import csv
import gzip
import itertools
import warnings
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import slow_raters as slow
import xarray as xr
from labels import BINARY, dataset, random_codes
from shared import SHARED, needs_shared, oracle

import xjudge as xj
from xjudge.statistics.raters import (
    count_vector_histogram,
    count_vectors,
    evaluate_raters,
    icc,
    item_statistic,
    item_terms,
    pair_statistic,
    standard_error,
)
from xjudge.statistics.resample import delta_interval, multinomial_weights, percentile_interval

OF_COUNTS = ["alpha", "fleiss_kappa", "scott_pi", "gwet_ac", "brennan_prediger", "percent_agreement"]
OF_LABELS = ["conger_kappa", "light_kappa", "mean_pairwise_kappa"]
ICCS = ["icc(1)", "icc(A,1)", "icc(C,1)", "icc(1,k)", "icc(A,k)", "icc(C,k)"]
EVERY = [*OF_COUNTS, *OF_LABELS, *ICCS]
MICRO, MACRO = xj.Protocol(aggregate="micro"), xj.Protocol(aggregate="macro")
ORDINAL = xj.Scale.ordinal([1, 2, 3])


def quiet(data: Any, **options: Any) -> xr.Dataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XJudgeWarning)
        return xj.reliability(data, **options)


def agreeing(seed: int, shape: tuple[int, int, int], n_categories: int = 3, missing: float = 0.15) -> Any:
    """Labels that agree more than by chance, some of them missing, CA or invalid."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, n_categories, (shape[0], 1, shape[2]))
    truth = np.where(rng.random(truth.shape) < 0.5, truth[:, :, :1], truth)  # criteria of an item are alike
    codes = np.where(rng.random(shape) < 0.6, truth, rng.integers(0, n_categories, shape))
    return np.where(rng.random(shape) < missing, rng.integers(-3, 0, shape), codes).astype(np.int8)


@pytest.fixture
def ds() -> xr.Dataset:
    codes = agreeing(0, (60, 5, 3))
    return dataset(
        codes,
        ["human", "human", "judge", "human", "judge"],
        ORDINAL,
        cluster=np.arange(60) // 4,
        system=["a", "b", "c"] * 20,
    )


# --------------------------------------------------------------------------------------------- stored figures

TASKS = {
    "wax": ("humans", "llms", "all", "humans_masked"),
    "mtbench": ("humans", "llms", "all", "humans_masked"),
    "summeval": ("humans", "llms", "all", "humans_masked"),
    "cebab_aspects": ("humans", "llms", "all"),
    "cebab_stars": ("humans", "llms", "all", "humans_masked"),
    "10k_prompts": ("humans", "llms", "all"),
    "framing": ("humans", "llms", "all"),
}
PANELS = [(task, panel) for task, panels in TASKS.items() for panel in panels]


@cache
def rows_of(task: str) -> list[dict[str, str]]:
    with gzip.open(SHARED / "data" / f"alttest_{task}.csv.gz", "rt", newline="") as file:
        return list(csv.DictReader(file))


@cache
def panel(task: str, name: str) -> xr.Dataset:
    """A panel of oracles/README.md as a judge dataset of (item, rater, criterion)."""
    kinds = {"all": {"human", "llm"}, "llms": {"llm"}}.get(name, {"human"})
    rows = [row for row in rows_of(task) if row["rater_kind"] in kinds]
    units = sorted({(row["item"], row.get("criterion", "")) for row in rows})
    raters = sorted({row["rater"] for row in rows})
    items, criteria = sorted({u[0] for u in units}), sorted({u[1] for u in units})
    categories = oracle("multirater")[task][name]["categories"]
    place = {str(category): code for code, category in enumerate(categories)}
    where = {unit: (items.index(unit[0]), criteria.index(unit[1])) for unit in units}
    rank = {unit: n for n, unit in enumerate(units)}
    codes = np.full((len(items), len(raters), len(criteria)), -1, dtype=np.int8)
    for row in rows:
        unit, rater = (row["item"], row.get("criterion", "")), raters.index(row["rater"])
        if name == "humans_masked" and (3 * rank[unit] + 5 * rater) % 7 < 3:
            continue
        item, criterion = where[unit]
        codes[item, rater, criterion] = place[row["label"]]
    roles = ["human" if name != "llms" else "judge"] * len(raters)
    return dataset(codes, roles, xj.Scale.ordinal(categories), raters=raters)


def asked(key: str) -> tuple[str, dict[str, Any]]:
    """Statistic and choices of an entry of the stored figures."""
    if key.startswith("alpha_weighted_"):
        return "alpha", {"weights": key.removeprefix("alpha_weighted_")}
    if key.startswith("alpha_"):
        return "alpha", {"metric": key.removeprefix("alpha_")}
    names = ("gwet_ac1", "gwet_ac2", "fleiss_kappa", "conger_kappa", "brennan_prediger")
    name = next(name for name in names if key.startswith(name))
    weights = key.removeprefix(name).removeprefix("_") or None
    return name, {"weights": weights} | ({"shares": "item_mean"} if name == "fleiss_kappa" else {})


@needs_shared
@pytest.mark.parametrize(("task", "name"), PANELS)
def test_values_and_printed_standard_errors_of_real_panels(task: str, name: str) -> None:
    expected = oracle("multirater")[task][name]
    ds = panel(task, name)
    options = {"raters": "all", "protocol": MICRO, "resample": "decisions", "convention": "gwet"}
    plain = {"alpha_nominal", "gwet_ac1", "fleiss_kappa", "conger_kappa", "brennan_prediger"}
    together = [key for key in expected["stats"] if key in plain and key != "fleiss_kappa"]
    found = quiet(ds, statistic=[asked(key)[0] for key in together] or "alpha", **options)
    for key, want in expected["stats"].items():
        statistic, choices = asked(key)
        if key in together:
            result = found
        else:
            printed = "se" in want
            own = options if printed else options | {"convention": "delta"}
            result = quiet(ds, statistic=statistic, **choices, **own)
        assert float(result[statistic]) == pytest.approx(want["value"], abs=1e-10), key
        if "se" in want:
            assert float(result[f"{statistic}_se"]) == pytest.approx(want["se"], abs=1e-10), key
    result = quiet(ds, statistic=["percent_agreement", "mean_pairwise_kappa"], interval=None, **options)
    assert float(result["percent_agreement"]) == pytest.approx(expected["percent_agreement"], abs=1e-10)
    assert int(result["n"]) == expected["n_units_paired"]
    assert int(result["n_labels"] + result["n_single"]) == expected["n_ratings"]
    if "mean_pairwise_kappa" in expected:
        value = float(result["mean_pairwise_kappa"])
        assert value == pytest.approx(expected["mean_pairwise_kappa"], abs=1e-10)
        assert int(result["n_rater_pairs"]) == expected["n_pairs"]
        assert int(result["n_rater_pairs_included"]) == expected["n_pairs_defined"]


KRIPPENDORFF = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
    [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
]


@pytest.mark.parametrize(
    ("metric", "expected"),
    [("nominal", 0.74342105263158), ("ordinal", 0.81538750375488), ("interval", 0.84910714285714)],
)
def test_the_textbook_table_of_krippendorff(metric: str, expected: float) -> None:
    codes = [[-1 if v is None else v - 1 for v in row] for row in KRIPPENDORFF]
    ds = dataset(np.array(codes).T, ["human"] * 4, xj.Scale.ordinal([1, 2, 3, 4, 5]))
    result = quiet(ds, metric=metric)
    assert float(result["alpha"]) == pytest.approx(expected, abs=1e-13)
    assert result.attrs["metric"] == metric
    assert (int(result["n"]), int(result["n_labels"]), int(result["n_single"])) == (11, 40, 1)


COMPLETE = [
    ([[1, 1, 1], [1, 1, 0], [0, 0, 0], [1, 0, 1], [0, 1, 0], [1, 1, 1]], 2, "23/77", "26/77"),
    ([[0, 0, 0, 1], [1, 1, 1, 1], [1, 0, 1, 1], [0, 0, 0, 0], [1, 0, 0, 1]], 2, "1/3", "11/30"),
    (
        [[0, 1, 2], [2, 2, 2], [1, 1, 0], [0, 0, 0], [2, 1, 2], [1, 1, 1], [0, 2, 0]],
        3,
        "5/14",
        "19/49",
    ),
    ([[1, 0], [0, 1], [1, 0], [0, 1]], 2, "-1", "-3/4"),
]


@pytest.mark.parametrize(("codes", "n", "kappa", "alpha"), COMPLETE)
def test_alpha_and_fleiss_on_complete_panels(codes: Any, n: int, kappa: str, alpha: str) -> None:
    ds = dataset(codes, ["human"] * len(codes[0]), xj.Scale.nominal(list("abc")[:n]))
    result = quiet(ds, statistic=["alpha", "fleiss_kappa", "scott_pi"], interval=None)
    assert float(result["fleiss_kappa"]) == pytest.approx(float(Fraction(kappa)), abs=1e-14)
    assert float(result["scott_pi"]) == pytest.approx(float(Fraction(kappa)), abs=1e-14)
    assert float(result["alpha"]) == pytest.approx(float(Fraction(alpha)), abs=1e-14)
    corrected = Fraction(kappa) + (1 - Fraction(kappa)) / (len(codes) * len(codes[0]))
    assert corrected == Fraction(alpha)


def test_two_raters_are_the_table_of_wataoka() -> None:
    codes = np.repeat([[0, 0], [0, 1], [1, 0], [1, 1]], [118, 160, 108, 1852], axis=0)
    result = quiet(dataset(codes, ["human", "human"]), statistic=["alpha", "scott_pi", "gwet_ac1"])
    assert float(result["scott_pi"]) == pytest.approx(0.40078166211097, abs=1e-13)
    assert float(result["alpha"]) == pytest.approx(0.40091553573427, abs=1e-13)
    assert float(result["gwet_ac1"]) == pytest.approx(0.85034209147391, abs=1e-13)


SHROUT_FLEISS = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]
PRINTED_ICC = {
    "icc(1)": (0.17, -0.13, 0.72),
    "icc(A,1)": (0.29, 0.02, 0.76),
    "icc(C,1)": (0.71, 0.34, 0.95),
    "icc(1,k)": (0.44, -0.88, 0.91),
    "icc(A,k)": (0.62, 0.07, 0.93),
    "icc(C,k)": (0.91, 0.68, 0.99),
}


def test_intraclass_correlations_of_shrout_and_fleiss() -> None:
    codes = np.array(SHROUT_FLEISS) - 1
    result = quiet(dataset(codes, ["human"] * 4, xj.Scale.interval(range(1, 11))), statistic=ICCS)
    for name, printed in PRINTED_ICC.items():
        ends = result[f"{name}_interval"].values
        assert (round(float(result[name]), 2), *ends.round(2).tolist()) == printed
    assert result["icc(A,1)_interval"].sel(bound="lower") < result["icc(A,1)"]


# ------------------------------------------------------------------------------------------------------ cases


def case(name: str) -> xr.Dataset:
    import json

    content = json.loads((SHARED / "cases" / "cases.json").read_text())["cases"]
    found = next(one for one in content if one["id"] == name)
    spec = found["scale"]
    if spec["type"] == "binary":
        (negative,) = [c for c in spec["categories"] if c != spec["positive"]]
        scale = xj.Scale.binary(negative=negative, positive=spec["positive"])
    else:
        scale = {"nominal": xj.Scale.nominal, "ordinal": xj.Scale.ordinal}[spec["type"]](spec["categories"])
    frame = pd.DataFrame(found["rows"], columns=found["columns"], dtype=object)
    roles = {"humans": found["humans"], "judges": found["judges"]}
    return xj.from_long(frame, criterion="criterion", scale=scale, **roles, **found["codes"])


@needs_shared
@pytest.mark.parametrize(
    ("name", "statistic", "options", "expected"),
    [
        ("s01", "brennan_prediger", {}, 1.0),
        ("s01", "gwet_ac", {}, 1.0),
        ("s02", "alpha", {}, 0.0),
        ("s02", "gwet_ac", {}, 161 / 181),
        ("s04", "alpha", {}, 19 / 45),
        ("s04", "percent_agreement", {}, 13 / 18),
        ("s05", "alpha", {"metric": "ordinal"}, 923 / 1098),
        ("s05", "alpha", {"metric": "nominal"}, 13 / 43),
        ("s07", "fleiss_kappa", {"shares": "pooled"}, 85 / 202),
        ("s07", "fleiss_kappa", {"shares": "item_mean"}, 999 / 2273),
        ("s07", "percent_agreement", {}, 23 / 36),
        ("s07", "alpha", {}, 50 / 101),
        ("s07", "gwet_ac", {}, 2235 / 4783),
        ("s08", "gwet_ac", {}, 43 / 61),
        ("s08", "brennan_prediger", {}, 2 / 3),
        ("s08", "fleiss_kappa", {}, 11 / 20),
        ("s08", "alpha", {}, 23 / 40),
        ("s12", "alpha", {"metric": "interval"}, 76 / 89),
    ],
)
def test_cases(name: str, statistic: str, options: dict[str, Any], expected: float) -> None:
    result = quiet(case(name), statistic=statistic, raters="all", protocol=MICRO, **options)
    assert float(result[statistic]) == pytest.approx(expected, abs=1e-13)
    if "shares" in options:
        assert result.attrs["shares"] == options["shares"]


@needs_shared
@pytest.mark.parametrize("statistic", ["alpha", "fleiss_kappa", "conger_kappa", "light_kappa"])
def test_a_case_without_variation_has_no_value(statistic: str) -> None:
    result = quiet(case("s01"), statistic=statistic, raters="all", protocol=MICRO)
    assert np.isnan(result[statistic])
    expected = (
        "only one category in use" if statistic != "light_kappa" else "no pair of raters with a defined value"
    )
    assert str(result[f"{statistic}_reason"].values) == expected


@needs_shared
@pytest.mark.parametrize(("name", "n"), [("s04", 6), ("s07", 6)])
def test_pairable_units_of_cases(name: str, n: int) -> None:
    assert int(quiet(case(name), raters="all", protocol=MICRO)["n"]) == n


# -------------------------------------------------------------------------------------- values in plain loops


def plain_items(codes: Any, handle: dict[int, int]) -> list[list[int | None]]:
    """Units as lists of labels; ``handle`` maps outcomes to categories."""
    return [
        [label if label >= 0 else handle.get(label) for label in row] for row in np.asarray(codes).tolist()
    ]


def plain_value(statistic: str, items: list[list[int | None]], n: int, shares: str = "pooled") -> Any:
    w = slow.identity(n)
    d = [[1 - w[a][b] for b in range(n)] for a in range(n)]
    if not slow.pairable(items):
        return None
    if statistic == "alpha":
        return slow.alpha(items, d)
    if statistic in ("fleiss_kappa", "scott_pi"):
        return slow.fleiss_kappa(items, w, shares if statistic == "fleiss_kappa" else "pooled")
    return {
        "gwet_ac": slow.gwet_ac,
        "brennan_prediger": slow.brennan_prediger,
        "percent_agreement": slow.percent_agreement,
        "conger_kappa": slow.conger_kappa,
    }[statistic](items, w)


LOOPED = [*OF_COUNTS, "conger_kappa"]
HANDLING: list[tuple[str, dict[int, int], int]] = [
    ("exclude", {}, 3),
    ("category", {-2: 3}, 4),
]


@pytest.mark.parametrize(("ca", "handle", "n"), HANDLING)
@pytest.mark.parametrize("shares", ["pooled", "item_mean"])
@pytest.mark.parametrize("aggregate", [None, "micro", "macro"])
def test_values_in_plain_loops(ca: str, handle: dict[int, int], n: int, shares: str, aggregate: Any) -> None:
    codes = agreeing(3, (14, 4, 3))
    codes[:, :, 2] = -1
    codes[:5, :2, 2] = [[0, 0], [0, 0], [0, 0], [0, 0], [-2, 0]]  # one category, or nothing to pair
    ds = dataset(codes, ["human"] * 4, xj.Scale.nominal(["a", "b", "c"]))
    protocol = xj.Protocol(ca=ca, aggregate=aggregate)
    result = quiet(ds, statistic=LOOPED, shares=shares, protocol=protocol)
    by_criterion = [plain_items(codes[:, :, g], handle) for g in range(3)]
    for name in LOOPED:
        if aggregate is None:
            expected = [plain_value(name, items, n, shares) for items in by_criterion]
            found = result[name].values
        elif aggregate == "micro":
            expected = [plain_value(name, list(itertools.chain(*by_criterion)), n, shares)]
            found = result[name].values[None]
        else:
            defined = [v for items in by_criterion if (v := plain_value(name, items, n, shares)) is not None]
            expected = [sum(defined) / len(defined)]
            found = result[name].values[None]
            assert int(result["n_criteria"]) == 3
            assert int(result["n_criteria_included"].sel(statistic=name)) == len(defined)
        for value, want in zip(found, expected, strict=True):
            if want is None:
                assert np.isnan(value)
            else:
                assert float(value) == pytest.approx(float(want), abs=1e-12), name


def test_counts_in_plain_loops(ds: xr.Dataset) -> None:
    codes = ds["label"].values[:, [0, 1, 3]]
    for protocol in (xj.Protocol(), MICRO, MACRO):
        result = quiet(ds, protocol=protocol, interval=None)
        size = (codes >= 0).sum(1)
        asked = (codes != -1).sum(1)
        over = (0,) if protocol.aggregate is None else (0, 1)
        np.testing.assert_array_equal(result["n"], (size >= 2).sum(over))
        np.testing.assert_array_equal(result["n_labels"], np.where(size >= 2, size, 0).sum(over))
        np.testing.assert_array_equal(result["n_single"], (size == 1).sum(over))
        np.testing.assert_array_equal(result["n_eligible"], (asked >= 2).sum(over))
        np.testing.assert_array_equal(result["coverage"], result["n"] / result["n_eligible"])
        items = (size >= 2).sum(0) if protocol.aggregate is None else (size >= 2).any(1).sum()
        np.testing.assert_array_equal(result["n_items"], items)


def test_item_verdicts_are_units() -> None:
    codes = agreeing(5, (40, 4, 3), 2)
    ds = dataset(codes, ["human"] * 4)
    rule = xj.Protocol(aggregate="item", item_rule=xj.all_positive())
    result = quiet(ds, protocol=rule, statistic=["alpha", "conger_kappa"])
    verdict = np.where((codes == 0).any(2), 0, np.where((codes == 1).all(2), 1, -1))
    for name in ("alpha", "conger_kappa"):
        expected = plain_value(name, plain_items(verdict, {}), 2)
        assert float(result[name]) == pytest.approx(float(expected), abs=1e-12)
    assert result["alpha"].dims == ()


def test_scale_map_population_and_recoding_act_first(ds: xr.Dataset) -> None:
    codes = ds["label"].values
    protocol = xj.Protocol(scale_map=xj.at_least(2), ca="negative", population={"system": ["a"]})
    result = quiet(ds, protocol=protocol, raters="judges", statistic=["alpha", "light_kappa"])
    part = codes[ds["system"].values == "a"][:, [2, 4], 1]
    mapped = np.where(part >= 0, (part >= 1).astype(int), np.where(part == -2, 0, -1))
    expected = plain_value("alpha", plain_items(mapped, {}), 2)
    assert float(result["alpha"].sel(criterion="c1")) == pytest.approx(float(expected), abs=1e-12)
    kappa = quiet_agreement(ds, protocol).sel(rater_a="j1", rater_b="j2", criterion="c1")
    assert float(result["light_kappa"].sel(criterion="c1")) == pytest.approx(float(kappa), abs=1e-13)


def quiet_agreement(ds: xr.Dataset, protocol: xj.Protocol) -> xr.DataArray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XJudgeWarning)
        return xj.agreement(ds, raters="judges", statistic="kappa", protocol=protocol, interval=None)["kappa"]


def test_mean_pairwise_kappa_is_the_mean_of_the_pairs(ds: xr.Dataset) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XJudgeWarning)
        pairs = xj.agreement(
            ds, raters="all", statistic="kappa", weights="linear", protocol=MICRO, interval=None
        )["kappa"].values
    result = quiet(
        ds, raters="all", statistic=["mean_pairwise_kappa", "light_kappa"], weights="linear", protocol=MICRO
    )
    expected = pairs[np.triu_indices(5, 1)].mean()
    for name in ("mean_pairwise_kappa", "light_kappa"):
        assert float(result[name]) == pytest.approx(float(expected), abs=1e-13)


def test_weights_metrics_and_matrices(ds: xr.Dataset) -> None:
    counts = count_vectors(ds["label"].values[:, [0, 1, 3], 0], 3)
    distance = np.array([[0, 1, 9], [1, 0, 2], [9, 2, 0]])
    agreement = 1 - distance / 9
    for options, own in (
        ({"weights": "quadratic"}, {"weights": "quadratic"}),
        ({"weights": "ratio"}, {"weights": "ratio"}),
        ({"weights": agreement}, {"weights": agreement}),
    ):
        result = quiet(ds, statistic=["fleiss_kappa", "gwet_ac2", "alpha"], **options)
        for name, full in (("fleiss_kappa", "fleiss_kappa"), ("gwet_ac2", "gwet_ac"), ("alpha", "alpha")):
            expected = evaluate_raters(full, counts, **own).value
            assert float(result[name][0]) == pytest.approx(float(expected), abs=1e-13)
        assert "metric" not in result.attrs
    for metric in ("ordinal", "interval", "ratio", "circular", distance):
        expected = evaluate_raters("alpha", counts, metric=metric).value
        found = quiet(ds, metric=metric)
        assert float(found["alpha"][0]) == pytest.approx(float(expected), abs=1e-13)
    both = quiet(ds, statistic=["alpha", "gwet_ac"], metric="ordinal", weights="linear")
    assert float(both["alpha"][0]) == float(quiet(ds, metric="ordinal")["alpha"][0])
    assert float(both["gwet_ac"][0]) == float(quiet(ds, statistic="gwet_ac", weights="linear")["gwet_ac"][0])


def test_an_interval_scale_has_its_own_distances() -> None:
    codes = agreeing(4, (30, 3, 1))[:, :, 0]
    ds = dataset(codes, ["human"] * 3, xj.Scale.interval([1, 2, 9]))
    expected = evaluate_raters("alpha", count_vectors(codes, 3), metric="interval", scores=[1, 2, 9]).value
    assert float(quiet(ds, metric="interval")["alpha"]) == pytest.approx(float(expected), abs=1e-13)
    numbers = np.where(codes >= 0, np.array([1.0, 2, 9])[np.maximum(codes, 0)], np.nan)
    found = quiet(ds, statistic="icc(C,1)")
    expected_icc = icc(numbers, "C,1")
    assert float(found["icc(C,1)"]) == pytest.approx(float(expected_icc.value), abs=1e-12)
    ends = found["icc(C,1)_interval"].values
    np.testing.assert_allclose(ends, [expected_icc.lower, expected_icc.upper], rtol=1e-12)


# -------------------------------------------------------------------------------------------- standard errors


def statistic_of(name: str, n_raters: int) -> Any:
    if name in ("light_kappa", "mean_pairwise_kappa"):
        return pair_statistic(name, 3, n_raters)
    return item_statistic({"gwet_ac1": "gwet_ac"}.get(name, name), 3)


def data_of(name: str, codes: Any) -> Any:
    return codes if name in OF_LABELS else count_vectors(codes, 3)


@pytest.mark.parametrize("name", [*OF_COUNTS, *OF_LABELS])
def test_standard_errors_by_unit(ds: xr.Dataset, name: str) -> None:
    codes = np.maximum(ds["label"].values[:, [0, 1, 3]], -1)
    statistic = statistic_of(name, 3)
    per = quiet(ds, statistic=name)
    for g in range(3):
        expected = standard_error(statistic, data_of(name, codes[:, :, g]))
        assert float(per[f"{name}_se"][g]) == pytest.approx(float(expected), rel=1e-10)
    units = codes.transpose(0, 2, 1).reshape(-1, 3)
    for resample, members in (
        ("items", np.repeat(np.arange(60), 3)),
        ("clusters", np.repeat(np.arange(60) // 4, 3)),
        ("decisions", np.arange(180)),
    ):
        found = quiet(ds, statistic=name, protocol=MICRO, resample=resample)
        expected = standard_error(statistic, data_of(name, units), clusters=members)
        assert float(found[f"{name}_se"]) == pytest.approx(float(expected), rel=1e-10), resample


@pytest.mark.parametrize("name", ["alpha", "gwet_ac", "conger_kappa", "light_kappa"])
@pytest.mark.parametrize("aggregate", ["micro", "macro"])
def test_standard_errors_are_the_jackknife_of_items(name: str, aggregate: str) -> None:
    # leave out one item with all its criteria; the two agree to terms of order 1/n
    codes = agreeing(8, (150, 3, 3), missing=0.05)
    ds = dataset(codes, ["human"] * 3, ORDINAL)
    protocol = xj.Protocol(aggregate=aggregate)
    found = float(quiet(ds, statistic=name, protocol=protocol)[f"{name}_se"])
    left = np.array(
        [
            float(
                quiet(ds.isel(item=np.arange(150) != i), statistic=name, protocol=protocol, interval=None)[
                    name
                ]
            )
            for i in range(0, 150, 3)
        ]
    )
    jackknife = np.sqrt(149 / 150 * 3 * ((left - left.mean()) ** 2).sum())
    assert found == pytest.approx(jackknife, rel=0.25)


@pytest.mark.parametrize("name", [*OF_COUNTS, "conger_kappa"])
def test_every_source_of_an_items_standard_error_agrees(ds: xr.Dataset, name: str) -> None:
    # items as clusters of one: the same variance from shared count vectors, and from rows of clusters
    alone = ds.assign_coords(cluster=("item", np.arange(60)))
    for aggregate in ("micro", "macro"):
        protocol = xj.Protocol(aggregate=aggregate)
        for convention in ("delta", "gwet"):
            if convention == "gwet" and name in ("fleiss_kappa", "scott_pi"):
                continue  # pooled shares have no printed form
            options = {"statistic": name, "protocol": protocol, "convention": convention}
            by_items = quiet(ds, **options)
            by_clusters = quiet(alone, resample="clusters", **options)
            one, other = by_items[f"{name}_se"], by_clusters[f"{name}_se"]
            assert float(one) == pytest.approx(float(other), rel=1e-10)


def test_gwets_printed_form_needs_one() -> None:
    ds = dataset(agreeing(0, (20, 3, 1))[:, :, 0], ["human"] * 3, ORDINAL)
    with pytest.raises(xj.ProtocolError, match="no printed form"):
        quiet(ds, statistic="fleiss_kappa", convention="gwet")
    with pytest.raises(xj.ProtocolError, match="`convention` is 'delta' or 'gwet'"):
        quiet(ds, convention="stata")


# -------------------------------------------------------------------------------------------------- intervals


@pytest.mark.parametrize("name", [*OF_COUNTS, *OF_LABELS])
def test_percentiles_are_those_of_the_resampled_patterns(ds: xr.Dataset, name: str) -> None:
    # the law of the house: multinomial over distinct rows in lexicographic order
    codes = np.maximum(ds["label"].values[:, [0, 1, 3], 1], -1)
    statistic = statistic_of(name, 3)
    if name in OF_LABELS:
        patterns, counts = np.unique(codes, axis=0, return_counts=True)
    else:
        patterns, counts = count_vector_histogram(codes, 3)
    weights = multinomial_weights(counts, 500, 7)
    replicates = statistic.value(weights @ item_terms(statistic, patterns))[0]
    expected = percentile_interval(replicates)
    found = quiet(ds, statistic=name, interval="percentile", n_resamples=500, seed=7)
    ends = found[f"{name}_interval"].sel(criterion="c1").values
    np.testing.assert_allclose(ends, [expected.lower, expected.upper], rtol=1e-12)
    assert float(found[f"{name}_undefined"].sel(criterion="c1")) == np.isnan(replicates).mean()
    assert float(found[f"{name}_se"].sel(criterion="c1")) == pytest.approx(np.nanstd(replicates, ddof=1))


@pytest.mark.parametrize("name", ["alpha", "gwet_ac", "conger_kappa", "light_kappa", "icc(A,1)"])
@pytest.mark.parametrize("aggregate", ["micro", "macro"])
@pytest.mark.parametrize("resample", ["items", "clusters", "decisions", "items+criteria", "criteria"])
def test_methods_agree_where_there_is_much(name: str, aggregate: str, resample: str) -> None:
    codes = agreeing(2, (600, 3, 3), missing=0.0)
    ds = dataset(codes, ["human"] * 3, ORDINAL, cluster=np.arange(600) // 2)
    options = {"statistic": name, "protocol": xj.Protocol(aggregate=aggregate), "resample": resample}
    resampled = quiet(ds, interval="percentile", n_resamples=400, **options)
    assert float(resampled[f"{name}_undefined"]) == 0
    assert resampled[f"{name}_interval"][0] < resampled[name] < resampled[f"{name}_interval"][1]
    if resample in ("items", "clusters", "decisions"):
        delta = quiet(ds, interval="delta", **options)
        assert float(resampled[f"{name}_se"]) == pytest.approx(float(delta[f"{name}_se"]), rel=0.2)
        for method in ("bca", "studentized"):
            other = quiet(ds, interval=method, n_resamples=400, **options)
            width = float(delta[f"{name}_se"])
            np.testing.assert_allclose(other[f"{name}_interval"], delta[f"{name}_interval"], atol=0.8 * width)


@pytest.mark.parametrize("name", ["alpha", "conger_kappa"])
def test_criteria_drawn_twice_count_twice(ds: xr.Dataset, name: str) -> None:
    per = quiet(ds, statistic=name, interval=None)[name].values
    drawn = multinomial_weights([1, 1, 1], 200, 5)
    weights = np.array([2.0, 1.0, 1.0])
    macro = xj.Protocol(aggregate="macro", criterion_weights={"c0": 2, "c1": 1, "c2": 1})
    result = quiet(
        ds, statistic=name, protocol=macro, resample="criteria", n_resamples=200, seed=5, level=0.9
    )
    expected = percentile_interval((drawn * weights) @ per / (drawn * weights).sum(1), 0.9)
    np.testing.assert_allclose(result[f"{name}_interval"], [expected.lower, expected.upper], rtol=1e-12)


def test_ends_take_the_t_quantile_of_the_units(ds: xr.Dataset) -> None:
    for resample, degrees in (("items", int(quiet(ds, protocol=MICRO)["n_items"]) - 1), ("clusters", 14)):
        result = quiet(ds, statistic="percent_agreement", protocol=MICRO, resample=resample)
        value, se = float(result["percent_agreement"]), float(result["percent_agreement_se"])
        expected = delta_interval(value, se, transform="logit", degrees=degrees)
        np.testing.assert_allclose(
            result["percent_agreement_interval"], [expected.lower, expected.upper], rtol=1e-12
        )


def test_clustered_units_are_not_independent_ones() -> None:
    rng = np.random.default_rng(0)
    truth = np.repeat(rng.integers(0, 2, (100, 1, 1)), 9, axis=2)
    wrong = rng.random((100, 3, 1)) < 0.25  # a rater errs on all criteria of an item, or on none
    ds = dataset(np.where(wrong, 1 - truth, truth), ["human"] * 3)
    by_items = quiet(ds, protocol=MICRO)
    flat = quiet(ds, protocol=MICRO, resample="decisions")
    assert float(by_items["alpha_se"]) == pytest.approx(3 * float(flat["alpha_se"]), rel=0.05)


def test_intraclass_correlations_choose_their_interval(ds: xr.Dataset) -> None:
    per = quiet(ds, statistic=["alpha", "icc(1)"])
    assert '"icc(1)": "f"' in per.attrs["interval_methods"]
    assert "n_resamples" not in per.attrs
    micro = quiet(ds, statistic="icc(1)", protocol=MICRO, n_resamples=50)
    assert '"icc(1)": "percentile"' in micro.attrs["interval_methods"]
    assert micro.attrs["n_resamples"] == 50
    flat = quiet(ds, statistic="icc(1)", protocol=MICRO, resample="decisions")
    assert '"icc(1)": "f"' in flat.attrs["interval_methods"]
    delta = quiet(ds, statistic="icc(A,1)", interval="delta")
    assert np.isfinite(delta["icc(A,1)_se"]).all()
    assert np.isnan(per["icc(1)_se"]).all()


def test_no_intervals(ds: xr.Dataset) -> None:
    result = quiet(ds, statistic=EVERY, interval=None)
    assert not [name for name in result.data_vars if str(name).endswith(("_se", "_interval"))]
    assert "bound" not in result.dims
    with_them = quiet(ds, statistic=EVERY)
    for name in EVERY:
        xr.testing.assert_identical(result[name], with_them[name])


# ----------------------------------------------------------------------------------------------- raters, dims


def test_whose_reliability(ds: xr.Dataset) -> None:
    humans = quiet(ds)
    assert humans.attrs["raters"] == '["h1", "h2", "h3"]'
    named = quiet(ds, raters=["h1", "h2", "h3"])
    xr.testing.assert_identical(humans, named)
    assert quiet(ds, raters="judges").attrs["raters"] == '["j1", "j2"]'
    assert float(quiet(ds, raters="all")["n_labels"][0]) > float(humans["n_labels"][0])
    fewer = quiet(ds, humans=["h3", "h1"])
    xr.testing.assert_identical(fewer["alpha"], quiet(ds, raters=["h1", "h3"])["alpha"])


def test_slices_and_further_dims(ds: xr.Dataset) -> None:
    result = quiet(ds, by="system", statistic=["alpha", "light_kappa"])
    assert result["alpha"].dims == ("system", "criterion")
    for system in "abc":
        part = quiet(ds.isel(item=ds["system"].values == system), statistic=["alpha", "light_kappa"])
        for name in part.data_vars:
            xr.testing.assert_allclose(result[name].sel(system=system, drop=True), part[name], rtol=1e-12)
    repeated = ds.rename(criterion="replicate")
    further = quiet(repeated, protocol=MICRO)
    assert further["alpha"].dims == ("replicate",)
    xr.testing.assert_equal(
        further["alpha"].drop_vars("replicate").rename(replicate="criterion"),
        quiet(ds)["alpha"].drop_vars("criterion"),
    )


def test_criteria_beside_another_dim(ds: xr.Dataset) -> None:
    reverse = ds.isel(rater=slice(None, None, -1)).assign_coords(rater=ds["rater"], role=ds["role"])
    twice = xr.concat([ds, reverse], "replicate", coords="different", compat="equals")
    twice["label"].attrs = ds["label"].attrs
    for options in (
        {"protocol": MICRO},
        {"protocol": MACRO},
        {},
        {"protocol": MICRO, "interval": "percentile"},
    ):
        both = quiet(twice, statistic=["alpha", "conger_kappa"], n_resamples=50, **options)
        for n, one in enumerate((ds, reverse)):
            alone = quiet(one, statistic=["alpha", "conger_kappa"], n_resamples=50, **options)
            for name in alone.data_vars:
                found = both[name].isel(replicate=n)
                xr.testing.assert_allclose(found, alone[name], rtol=1e-12)


# -------------------------------------------------------------------------------------------- degenerate data


def reasons(ds: xr.Dataset, **options: Any) -> dict[str, str]:
    result = quiet(ds, statistic=EVERY, **options)
    out = {}
    for name in EVERY:
        assert np.isnan(result[name]) == (str(result[f"{name}_reason"].values) != "ok")
        out[name] = str(result[f"{name}_reason"].values)
    return out


@pytest.mark.parametrize("interval", ["auto", "percentile", "bca", "studentized", None])
@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        (
            [[0, 0, 0]] * 4,
            {"alpha": "only one category in use", "gwet_ac": "ok", "icc(1)": "all scores are equal"},
        ),
        ([[0, 1, 2]], {"percent_agreement": "ok", "icc(1)": "fewer than two complete items"}),
        ([[0, -1, -1], [-1, 1, -1], [-1, -1, 2]], dict.fromkeys(EVERY, "no overlap")),
        (
            [[-2, -2, -2], [-2, -2, -2]],
            {"alpha": "no item with two labels", "gwet_ac": "no item with two labels"},
        ),
        (
            [[0, -2, -2], [1, -2, -2]],
            {"alpha": "no item with two labels", "light_kappa": "no pair of raters with a defined value"},
        ),
        (
            [[0, 0, -1], [1, 1, -1]],
            {
                "alpha": "ok",
                "light_kappa": "a pair of raters without a defined value",
                "mean_pairwise_kappa": "ok",
            },
        ),
        (np.empty((0, 3)), dict.fromkeys(EVERY, "no overlap")),
    ],
)
def test_degenerate_data(codes: Any, expected: dict[str, str], interval: Any) -> None:
    ds = dataset(codes, ["human"] * 3, ORDINAL)
    found = reasons(ds, interval=interval, n_resamples=20)
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize("resample", ["items", "decisions", "items+criteria", "criteria", "clusters"])
@pytest.mark.parametrize("aggregate", ["micro", "macro"])
def test_degenerate_criteria(resample: str, aggregate: str) -> None:
    codes = np.full((6, 3, 3), -1)
    codes[:, :, 0] = [[0, 0, 0]] * 6
    codes[0, :2, 1] = [1, 2]
    ds = dataset(codes, ["human"] * 3, ORDINAL, cluster=[0, 0, 1, 1, 2, 2])
    result = quiet(
        ds, statistic=EVERY, protocol=xj.Protocol(aggregate=aggregate), resample=resample, n_resamples=20
    )
    assert int(result["n"]) == 7
    assert int(result["n_items"]) == 6
    assert float(result["percent_agreement"]) == pytest.approx(6 / 7 if aggregate == "micro" else 1 / 2)


def test_one_rater_and_none() -> None:
    ds = dataset([[0], [1], [2]], ["human"], ORDINAL)
    assert set(reasons(ds).values()) == {"fewer than two raters"}
    with pytest.raises(xj.OverlapError, match="no rater to compare"):
        quiet(ds, raters="judges")


def test_undefined_is_told() -> None:
    with pytest.warns(xj.UndefinedWarning, match="alpha: 1 x only one category in use"):
        xj.reliability(dataset([[0, 0], [0, 0]], ["human", "human"]))


# ------------------------------------------------------------------------------------------------ guard rails

NOMINAL = dataset(agreeing(0, (20, 3, 1))[:, :, 0], ["human"] * 3, xj.Scale.nominal(["a", "b", "c"]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"statistic": "krippendorff"}, "no coefficient of many raters 'krippendorff'"),
        ({"statistic": "icc(B,1)"}, r"no coefficient of many raters 'icc\(B,1\)'"),
        ({"statistic": []}, "empty list"),
        ({"statistic": ["alpha", "alpha"]}, "twice"),
        ({"statistic": ["icc(1)", "ICC( 1 )"]}, "twice"),
        ({"metric": "ordinal"}, "needs an ordered scale"),
        ({"metric": "euclidean"}, "'euclidean'"),
        ({"metric": [[0, 1], [1, 0]]}, "3 x 3"),
        ({"weights": "linear"}, "needs an ordered scale"),
        ({"weights": np.ones((2, 2))}, "3 x 3"),
        ({"metric": "nominal", "weights": "identity"}, "`metric` or `weights`, not both"),
        ({"metric": "nominal", "statistic": "gwet_ac"}, "`metric` is a choice of alpha"),
        ({"shares": "item_mean"}, "`shares` is a choice of fleiss_kappa"),
        ({"shares": "mean", "statistic": "fleiss_kappa"}, "'pooled' or 'item_mean'"),
        ({"statistic": "icc(1)"}, "needs numbers"),
        ({"weights": "identity", "statistic": ["icc(1)"]}, "needs numbers"),
        ({"interval": "wilson"}, "shares of pairs"),
        ({"interval": "wald"}, "`interval` is None"),
        ({"resample": "criteria"}, "needs criteria to be pooled"),
        ({"resample": "clusters"}, "coordinate `cluster"),
        ({"level": 1.5}, "between 0 and 1"),
        ({"n_resamples": 0, "interval": "bca"}, "at least 1"),
        ({"raters": ["h9"]}, "no rater 'h9'"),
        ({"raters": ["h1", "h1"]}, "twice"),
        ({"by": "nowhere"}, "no 'nowhere'"),
    ],
)
def test_impossible_requests_are_one_clear_error(options: dict[str, Any], message: str) -> None:
    with pytest.raises(xj.XJudgeError, match=message) as error:
        quiet(NOMINAL, **options)
    assert isinstance(error.value, ValueError)
    assert "\n" not in str(error.value)


def test_distances_have_no_place_for_cannot_assess(ds: xr.Dataset) -> None:
    protocol = xj.Protocol(ca="category")
    for options in ({"metric": "ordinal"}, {"weights": "linear", "statistic": "gwet_ac"}):
        with pytest.raises(xj.ProtocolError, match="'CA' has no place"):
            quiet(ds, protocol=protocol, **options)
    with pytest.raises(xj.ProtocolError, match="needs numbers"):
        quiet(ds, protocol=protocol, statistic="icc(1)")
    own = np.array([[0, 1, 4, 1], [1, 0, 1, 1], [4, 1, 0, 1], [1, 1, 1, 0]])
    assert np.isfinite(quiet(ds, protocol=protocol, metric=own)["alpha"]).all()
    assert np.isfinite(quiet(ds, protocol=protocol)["alpha"]).all()


def test_other_scales_are_refused_where_they_must_be() -> None:
    pairwise = dataset([[0, 2], [1, 1], [2, 2]], ["human", "human"], xj.Scale.pairwise("A", "B", tie="tie"))
    assert np.isfinite(quiet(pairwise)["alpha"])
    with pytest.raises(xj.ProtocolError, match="ordered scale"):
        quiet(pairwise, metric="interval")
    assert np.isfinite(quiet(pairwise, protocol=xj.Protocol(tie="exclude"), statistic="gwet_ac")["gwet_ac"])


def test_the_sparse_layout_is_refused() -> None:
    sparse = xr.Dataset({"label": ("answer", np.zeros(3, dtype=np.int8), BINARY.to_attrs())})
    with pytest.raises(xj.StructureError, match="sparse layout"):
        xj.reliability(sparse)


def test_codes_outside_the_scale(ds: xr.Dataset, backend: Any) -> None:
    wrong = ds.copy(deep=True)
    wrong["label"].values[3, 1, 1] = 7
    with pytest.raises(xj.VocabularyError, match=r"code 7 \(rater h2, criterion c1: 1 labels\)"):
        quiet(backend(wrong), statistic=["alpha", "conger_kappa"])


def test_too_many_items_to_resample(ds: xr.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xjudge.labelled._rater_units._MOST_ITEMS", 10)
    with pytest.raises(xj.ProtocolError, match="too many distinct items"):
        quiet(ds, protocol=MICRO, interval="bca")
    assert np.isfinite(quiet(ds, protocol=MICRO)["alpha_se"])


def test_terms_of_many_units_are_made_block_by_block(ds: xr.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {
        "statistic": ["alpha", "light_kappa"],
        "protocol": MICRO,
        "interval": "studentized",
        "n_resamples": 50,
    }
    whole = quiet(ds, **options)
    monkeypatch.setattr("xjudge.labelled._rater_intervals._TERMS", 500)
    xr.testing.assert_allclose(quiet(ds, **options), whole, rtol=1e-9)


# ---------------------------------------------------------------------------------- backends, laziness, files

CALLS: list[dict[str, Any]] = [
    {"statistic": EVERY},
    {"statistic": EVERY, "protocol": MICRO, "n_resamples": 40},
    {"statistic": EVERY, "protocol": MACRO, "interval": "percentile", "n_resamples": 40},
    {"statistic": EVERY, "protocol": MICRO, "resample": "clusters"},
    {"statistic": EVERY, "by": "system", "raters": "all"},
    {"statistic": [*OF_COUNTS, *OF_LABELS], "protocol": xj.Protocol(ca="category", aggregate="micro")},
    {"protocol": xj.Protocol(scale_map=xj.at_least(2), aggregate="item", item_rule=xj.weighted_share(0.5))},
    {"protocol": xj.Protocol(population={"system": ["a", "b"]}), "raters": "judges", "interval": None},
]


@pytest.mark.filterwarnings("ignore:Labels are chunked")
@pytest.mark.parametrize("options", CALLS)
def test_every_backend_gives_the_same_bits(ds: xr.Dataset, backend: Any, options: dict[str, Any]) -> None:
    xr.testing.assert_identical(quiet(backend(ds), **options), quiet(ds, **options))


@pytest.mark.parametrize("options", CALLS)
def test_one_compute_and_none_before(ds: xr.Dataset, count_computes: Any, options: dict[str, Any]) -> None:
    lazy = ds.chunk(item=(20, 7, 33))
    with count_computes() as computes:
        later = quiet(lazy, compute=False, **options)
        assert computes.n == 0
        assert all(variable.chunks is not None for variable in later.data_vars.values())
        now = quiet(lazy, **options)
        assert computes.n == 1
        done = later.compute()
        assert computes.n == 2
    xr.testing.assert_identical(done, now)


@pytest.mark.parametrize(
    "options",
    [
        *CALLS,
        {"metric": [[0, 1, 4], [1, 0, 1], [4, 1, 0]]},
        {"weights": "linear", "statistic": "fleiss_kappa", "shares": "item_mean", "convention": "gwet"},
    ],
)
def test_results_are_rebuilt_from_their_attributes(ds: xr.Dataset, options: dict[str, Any]) -> None:
    result = quiet(ds, **options)
    assert all(isinstance(value, str | int | float) for value in result.attrs.values())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XJudgeWarning)
        again = xj.rebuild(result, ds)
    xr.testing.assert_identical(again, result)


def test_results_survive_files_and_frames(ds: xr.Dataset, tmp_path: Path) -> None:
    result = quiet(ds, statistic=["alpha", "icc(A,1)"], by="system")
    result.to_netcdf(tmp_path / "result.nc")
    with xr.open_dataset(tmp_path / "result.nc") as back:
        xr.testing.assert_equal(back.load(), result)
        assert back.attrs == result.attrs
    frame = xj.tidy(result)
    assert len(frame) == 9
    assert {"system", "criterion", "alpha", "alpha_lower", "alpha_upper", "alpha_reason", "n"} <= set(frame)


def test_the_accessor(ds: xr.Dataset) -> None:
    xr.testing.assert_identical(quiet(ds["label"]), quiet(ds))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XJudgeWarning)
        xr.testing.assert_identical(ds.judge.reliability(raters="all"), quiet(ds, raters="all"))
        tree = xr.DataTree.from_dict({"/one": ds, "/two": ds.isel(item=slice(30))})
        found = tree.judge.reliability(statistic="alpha")
    xr.testing.assert_identical(found["one"].to_dataset(), quiet(ds))


def test_random_labels_with_every_outcome_warn_of_nothing_numeric() -> None:
    for seed in range(20):
        ds = dataset(random_codes(seed, (6, 3, 2), 3), ["human"] * 3, ORDINAL)
        for protocol in (xj.Protocol(), MICRO, MACRO):
            found = quiet(ds, statistic=EVERY, protocol=protocol, n_resamples=10)
            for name in EVERY:
                assert (np.isnan(found[name]) == (found[f"{name}_reason"] != "ok")).all()

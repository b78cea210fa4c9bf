"""Ranges over unresolved cases, and breakdown: published figures, completions of labels one by one, dims."""

from __future__ import annotations

import itertools
import json
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import xarray as xr
from labels import BINARY, dataset, random_codes
from shared import SHARED, needs_shared, oracle

import xjudge as xj
from xjudge.statistics.bounds import (
    STATISTICS,
    category_breakdown,
    category_range_at_share,
    sharp_bounds,
    unresolved_table,
)

Codes = npt.NDArray[Any]
MICRO = xj.Protocol(aggregate="micro")
THREE = xj.Scale.nominal(["a", "b", "c"])


@pytest.fixture
def well_covered() -> xr.Dataset:
    """Every unresolved cell has covered cases to follow."""
    rng = np.random.default_rng(2)
    truth = rng.integers(0, 2, (150, 1, 2))
    codes = np.where(rng.random((150, 4, 2)) < 0.8, truth, 1 - truth)
    codes = np.where(rng.random(codes.shape) < 0.2, rng.choice([-1, -2, -3], codes.shape), codes)
    return dataset(codes, ["human", "human", "judge", "judge"])


def quiet(verb: Callable[..., xr.Dataset], *arguments: Any, **options: Any) -> xr.Dataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XJudgeWarning)
        return verb(*arguments, **options)


def ranges(ds: xr.Dataset, **options: Any) -> xr.Dataset:
    return quiet(xj.coverage_bounds, ds, **({"interval": None} | options))


def ends(result: xr.Dataset, statistic: str = "accuracy") -> list[float]:
    return [float(end) for end in result[f"{statistic}_range"].values.ravel()]


@pytest.fixture
def ds() -> xr.Dataset:
    codes = random_codes(1, (60, 5, 3), 2)
    return dataset(codes, ["human", "human", "judge", "human", "judge"], system=["a", "b", "c"] * 20)


# ------------------------------------------------------------------------------------------ published figures


@needs_shared
@pytest.mark.parametrize(
    ("statistic", "lower", "upper"),
    [
        ("accuracy", 0.5481, 0.7005),
        ("f1", 0.6886, 0.8056),
        ("kappa", -0.0768, 0.1710),
        ("phi", -0.0884, 0.1812),
    ],
)
def test_table_5_of_llm_rubric(statistic: str, lower: float, upper: float) -> None:
    frame = pd.read_csv(SHARED / "data" / "llm_rubric_real.csv", dtype={"item": str, "rater": str})
    ds = xj.from_long(
        frame,
        criterion="criterion",
        role="rater_kind",
        role_names={"llm": "judge"},
        scale=xj.Scale.ordinal([1, 2, 3, 4]),
        ca=[0],
    )
    found = ranges(
        ds,
        statistic=statistic,
        reference="human",
        judges=["gpt-3.5-turbo-16k_argmax"],
        protocol=xj.Protocol(scale_map=xj.at_least(3), aggregate="micro"),
    )
    assert [round(end, 4) for end in ends(found, statistic)] == [lower, upper]
    assert found[f"{statistic}_range_kind"].values.tolist() == ["sharp"]
    assert [int(found[name][0]) for name in ("n", "n_eligible", "n_unresolved")] == [1701, 2007, 306]


def _case(name: str) -> xr.Dataset:
    cases = json.loads((SHARED / "cases" / "cases.json").read_text())["cases"]
    (content,) = [case for case in cases if case["id"] == name]
    scale = xj.Scale.binary(negative="UNMET", positive="MET")
    if content["scale"]["type"] == "pairwise":
        scale = xj.Scale.pairwise("A", "B", tie="tie")
    frame = pd.DataFrame(content["rows"], columns=content["columns"], dtype=object)
    return xj.from_long(
        frame,
        criterion="criterion",
        humans=content["humans"],
        judges=content["judges"],
        scale=scale,
        **content["codes"],
    )


@needs_shared
@pytest.mark.parametrize(
    ("case", "statistic", "expected"),
    [
        ("s09", "accuracy", (1 / 2, 7 / 8)),
        ("s09", "kappa", (-1 / 63, 47 / 63)),
        ("s10", "accuracy", (0.6, 0.9)),
    ],
)
def test_small_cases(case: str, statistic: str, expected: tuple[float, float]) -> None:
    found = ranges(quiet(_case, case), statistic=statistic, protocol=MICRO)
    assert ends(found, statistic) == pytest.approx(expected, abs=1e-12)


@cache
def _cebab() -> xr.Dataset:
    frame = pd.read_csv(SHARED / "data" / "alttest_cebab_aspects.csv.gz", dtype=str)
    return xj.from_long(
        frame,
        criterion="criterion",
        role="rater_kind",
        role_names={"llm": "judge"},
        scale=xj.Scale.binary(negative="Negative", positive="Positive"),
        ca=["unknown"],
    )


@needs_shared
def test_two_sided_abstention_of_one_human() -> None:
    stored = oracle("cebab_two_sided_ca")["human_w1_sharp_bounds"]
    names = list(next(iter(stored.values()))["sharp_bounds"])
    found = ranges(_cebab(), statistic=names, reference="w1", protocol=MICRO, judges=list(stored))
    for judge, expected in stored.items():
        one = found.sel(rater=judge)
        assert float(one["coverage"]) == pytest.approx(expected["joint_coverage"], abs=1e-12)
        for name in names:
            least, most = (expected["sharp_bounds"][name][end] for end in ("lower", "upper"))
            assert ends(one, name) == pytest.approx([least, most], abs=1e-9), (judge, name)


@needs_shared
def test_two_sided_abstention_pooled() -> None:
    """The stored ranges take pairs as independent; item by item there is less to gain and to lose."""
    stored = oracle("cebab_two_sided_ca")["pooled_all_human_judge_pairs"]
    found = ranges(_cebab(), statistic=["accuracy", "kappa"], reference="pooled", protocol=MICRO)
    narrower = []
    for judge, expected in stored.items():
        one = found.sel(rater=judge)
        lower, upper = ends(one)
        least, most = expected["accuracy_bounds"]
        assert least - 1e-12 <= lower <= float(one["accuracy"]) <= upper <= most + 1e-12
        narrower.append(upper - lower < most - least - 1e-9)
        assert str(one["accuracy_range_kind"].values) == "sharp"
        assert ends(one, "kappa") == [float(e) for e in sharp_bounds(expected["table"], "kappa")]
        assert str(one["kappa_range_kind"].values) == "outer"
        assert int(one["n_eligible"]) == expected["n"]
    assert any(narrower)


# ------------------------------------------------------------------------------------ completions, one by one


def completions(codes: Codes, n_categories: int, unresolved: tuple[int, ...] = (-2, -3)) -> Iterator[Codes]:
    """Every way to give the unresolved labels a category."""
    places = np.argwhere(np.isin(codes, unresolved))
    for chosen in itertools.product(range(n_categories), repeat=len(places)):
        whole = codes.copy()
        whole[tuple(places.T)] = chosen
        yield whole


def pooled_accuracy(codes: Codes, humans: int) -> float | None:
    hits = [row[k] == row[humans] for row in codes for k in range(humans) if row[k] >= 0 and row[humans] >= 0]
    return sum(hits) / len(hits) if hits else None


def majority_accuracy(codes: Codes, humans: int) -> float | None:
    hits = []
    for row in codes:
        votes = Counter(int(label) for label in row[:humans] if label >= 0).most_common()
        tied = len(votes) > 1 and votes[0][1] == votes[1][1]
        if votes and not tied and row[humans] >= 0:
            hits.append(row[humans] == votes[0][0])
    return sum(hits) / len(hits) if hits else None


def few_open(seed: int, shape: tuple[int, ...], n_categories: int, most: int) -> Codes:
    """Random codes with missing ones, and at most so many unresolved."""
    rng = np.random.default_rng(seed)
    codes = rng.choice(
        np.arange(-1, n_categories), shape, p=[0.1, *[0.9 / n_categories] * n_categories]
    ).astype(np.int8)
    places = rng.permutation(codes.size)[: int(rng.integers(0, most + 1))]
    codes.ravel()[places] = rng.choice([-2, -3], len(places))
    return codes


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize(
    ("reference", "value"), [("pooled", pooled_accuracy), ("majority", majority_accuracy)]
)
def test_accuracy_over_every_completion_of_the_labels(
    reference: str, value: Callable[[Codes, int], float | None], seed: int
) -> None:
    n_categories = 2 + seed % 2
    humans = 1 + seed % 4
    codes = few_open(seed, (4, humans + 1), n_categories, 7 if n_categories == 2 else 5)
    unresolved = [("ca", "invalid"), ("ca",), ("invalid",)][seed % 3]
    reserved = tuple({"ca": -2, "invalid": -3}[name] for name in unresolved)
    reached = [value(whole, humans) for whole in completions(codes, n_categories, reserved)]
    defined = [one for one in reached if one is not None]
    ds = dataset(codes, ["human"] * humans + ["judge"], BINARY if n_categories == 2 else THREE)
    found = ranges(ds, reference=reference, unresolved=unresolved)
    if defined:
        assert ends(found) == [min(defined), max(defined)]
        assert found["accuracy_range_reason"].values.tolist() == ["ok"]
    else:
        assert np.isnan(ends(found)).all()
        assert found["accuracy_range_reason"].values.tolist() != ["ok"]
    covered = value(np.where(np.isin(codes, (-2, -3)), -1, codes), humans)
    assert found["accuracy"].values.tolist() == pytest.approx(
        [np.nan if covered is None else covered], nan_ok=True
    )


def majority_table(codes: Codes, humans: int) -> Codes:
    """Counts (3, 3) of the vote against the judge, nothing open."""
    table = np.zeros((3, 3), dtype=np.int64)
    for row in codes.tolist():
        ones, zeros = row[:humans].count(1), row[:humans].count(0)
        if ones != zeros and row[humans] >= 0:
            table[int(ones > zeros), row[humans]] += 1
    return table


@pytest.mark.parametrize("seed", range(40))
def test_every_statistic_of_a_vote_over_every_completion_of_the_labels(seed: int) -> None:
    humans = 1 + seed % 4
    codes = few_open(500 + seed, (5, humans + 1), 2, 8)
    tables = np.stack([majority_table(whole, humans) for whole in completions(codes, 2)])
    ds = dataset(codes, ["human"] * humans + ["judge"])
    found = ranges(ds, reference="majority", statistic=list(STATISTICS))
    accuracy = ranges(ds, reference="majority")
    for name in STATISTICS:
        reached = sharp_bounds(tables, name)[0]
        if np.isnan(reached).all():
            assert np.isnan(ends(found, name)).all()
            assert found[f"{name}_range_reason"].values.tolist() != ["ok"]
        else:
            assert ends(found, name) == pytest.approx([np.nanmin(reached), np.nanmax(reached)], abs=1e-12)
            assert found[f"{name}_range_kind"].values.tolist() == ["outer"]
    alone = ranges(ds, reference="majority", statistic="kappa")
    assert alone["n_unresolved"].equals(accuracy["n_unresolved"])


def test_a_tie_that_an_open_label_could_break_is_unresolved() -> None:
    codes = [[1, 0, -2, 1], [1, 0, -1, 1], [1, 1, -2, 1], [0, 0, 0, 0]]
    ds = dataset(codes, ["human"] * 3 + ["judge"])
    found = ranges(ds, reference="majority")
    assert ends(found) == [2 / 3, 1.0]
    assert int(found["n_unresolved"][0]) == 1
    assert int(found["n_reference_ties"][0]) == 2
    assert found["accuracy_range_kind"].values.tolist() == ["outer"]


def test_a_case_that_can_leave_does_so_unless_nothing_else_remains() -> None:
    # one human of four is open: (1, 1, 0, open) may tie or be 1
    ds = dataset([[1, 1, 0, -2, 0]], ["human"] * 4 + ["judge"])
    assert ends(ranges(ds, reference="majority")) == [0.0, 0.0]
    ds = dataset([[1, 1, 0, -2, 1]], ["human"] * 4 + ["judge"])
    assert ends(ranges(ds, reference="majority")) == [1.0, 1.0]


@pytest.mark.parametrize("seed", range(12))
def test_item_verdicts_over_every_completion_of_their_criteria(seed: int) -> None:
    codes = few_open(100 + seed, (4, 2, 3), 2, 7)
    ds = dataset(codes, ["human", "judge"])
    rules = [xj.weighted_share(0.6), xj.all_positive(), xj.weighted_share(0.3)]
    rule, cut = rules[seed % 3], (2, 3, 1)[seed % 3]
    found = ranges(ds, protocol=xj.Protocol(aggregate="item", item_rule=rule))
    reached = []
    for whole in completions(codes, 2):
        least, most = (whole == 1).sum(2), (whole != 0).sum(2)
        verdict = np.where(least >= cut, 1, np.where(most < cut, 0, -1))
        both = (verdict >= 0).all(1)
        if both.any():
            reached.append(float((verdict[both, 0] == verdict[both, 1]).mean()))
    # completing a criterion can settle an item that a missing one keeps open: those stay out of the range
    blank = (codes == -1).any((1, 2))
    if not blank.any():
        assert ends(found) == [min(reached), max(reached)]
    assert found["accuracy_range_kind"].values.tolist() == [["sharp"]]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("reference", ["pooled", "majority"])
def test_item_verdicts_of_several_humans_over_every_completion(reference: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 2, (3, 4, 2)).astype(np.int8)
    codes.ravel()[rng.permutation(24)[:5]] = -2
    roles = ["human"] * 3 + ["judge"]
    protocol = xj.Protocol(aggregate="item", item_rule=xj.weighted_share([0.5, 1.0][seed % 2]))
    options: dict[str, Any] = {"reference": reference, "protocol": protocol}
    reached = [
        quiet(xj.agreement, dataset(whole, roles), statistic="accuracy", interval=None, **options)[
            "accuracy"
        ].item()
        for whole in completions(codes, 2)
    ]
    assert ends(ranges(dataset(codes, roles), **options)) == [np.nanmin(reached), np.nanmax(reached)]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("statistic", ["accuracy", "kappa"])
def test_sums_of_criteria_have_an_outer_range(statistic: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 2, (5, 2, 2)).astype(np.int8)
    codes.ravel()[rng.permutation(20)[:5]] = -2
    protocol = xj.Protocol(aggregate="item", item_rule="sum")
    found = ranges(dataset(codes, ["human", "judge"]), statistic=statistic, protocol=protocol)
    assert found[f"{statistic}_range_kind"].values.tolist() == [["outer"]]
    lower, upper = ends(found, statistic)
    for whole in completions(codes, 2):
        value = quiet(
            xj.agreement,
            dataset(whole, ["human", "judge"]),
            statistic=statistic,
            protocol=protocol,
            interval=None,
        )[statistic].item()
        assert np.isnan(value) or lower - 1e-12 <= value <= upper + 1e-12


@pytest.mark.parametrize("statistic", ["accuracy", "kappa", "f1"])
def test_macro_averages_the_ends_of_criteria_with_a_defined_completion(statistic: str) -> None:
    # c0: half open; c1: constant and closed, so that kappa is undefined in every completion; c2: missing
    codes = np.array(
        [
            [[1, 1, -1], [1, 1, -1]],
            [[0, 1, -1], [-2, 1, -1]],
            [[-2, 1, -1], [1, 1, -1]],
            [[0, 1, -1], [0, 1, -1]],
        ]
    )
    ds = dataset(codes, ["human", "judge"])
    weights = {"c0": 3, "c1": 1, "c2": 5}
    found = ranges(
        ds, statistic=statistic, protocol=xj.Protocol(aggregate="macro", criterion_weights=weights)
    )
    mean: list[list[float]] = []
    for criterion in range(3):
        values = [
            quiet(xj.agreement, dataset(whole, ["human", "judge"]), statistic=statistic, interval=None)[
                statistic
            ].item()
            for whole in completions(codes[:, :, criterion], 2)
        ]
        known = [value for value in values if not np.isnan(value)]
        if known:
            mean.append([weights[f"c{criterion}"], min(known), max(known)])
    total = sum(weight for weight, _, _ in mean)
    expected = [sum(one[0] * one[place] for one in mean) / total for place in (1, 2)]
    assert ends(found, statistic) == pytest.approx(expected, abs=1e-12)
    assert found["n_criteria_included"].values.ravel().tolist() == [1 if statistic == "kappa" else 2]
    assert int(found["n_criteria"].item()) == 3


# ------------------------------------------------------------------------------------------- per table, micro


def test_each_human_has_the_range_of_the_table(ds: xr.Dataset) -> None:
    found = ranges(ds, statistic=["kappa", "rate_rater"])
    raw = quiet(xj.tables, ds)["count"].values
    for name in ("kappa", "rate_rater"):
        assert found[f"{name}_range"].dims == ("reference", "rater", "criterion", "bound")
        lower, upper = sharp_bounds(unresolved_table(raw), name)
        np.testing.assert_array_equal(found[f"{name}_range"].values, np.stack([lower, upper], -1))
    named = ranges(ds, statistic="kappa", reference="h2")
    xr.testing.assert_equal(
        named["kappa_range"], found["kappa_range"].sel(reference="h2").assign_coords(reference="h2")
    )


def test_what_is_said_of_covered_pairs_is_what_agreement_says(ds: xr.Dataset) -> None:
    for reference in ("each", "pooled", "majority", "h1"):
        for aggregate in (None, "micro", "macro"):
            options = {"reference": reference, "protocol": xj.Protocol(aggregate=aggregate)}
            found = ranges(ds, statistic="accuracy", **options)
            usual = quiet(xj.agreement, ds, statistic="accuracy", interval=None, **options)
            shared = [str(name) for name in usual.data_vars if str(name) != "n_criteria_included"]
            assert {"accuracy", "n", "n_items", "n_eligible", "coverage", "rate_rater"} <= set(shared)
            for name in shared:
                xr.testing.assert_equal(found[name], usual[name].drop_vars("statistic", errors="ignore"))


def test_results_survive_files(ds: xr.Dataset, tmp_path: Any) -> None:
    for number, result in enumerate(
        (
            quiet(xj.coverage_bounds, ds, n_resamples=20, max_share=[0.5, 1.0]),
            quiet(xj.breakdown, ds, "accuracy", [0.2, 0.9]),
        )
    ):
        path = tmp_path / f"{number}.nc"
        result.to_netcdf(path)
        with xr.open_dataset(path) as back:
            loaded = back.load()
        assert quiet(xj.rebuild, loaded, ds).equals(result)


def test_micro_sums_the_tables_of_criteria_first(ds: xr.Dataset) -> None:
    found = ranges(ds, statistic="phi", protocol=MICRO)
    raw = quiet(xj.tables, ds, protocol=MICRO)["count"].values
    lower, upper = sharp_bounds(unresolved_table(raw), "phi")
    np.testing.assert_array_equal(found["phi_range"].values, np.stack([lower, upper], -1))


def test_what_the_protocol_recodes_is_resolved() -> None:
    ds = dataset([[1, 1], [0, -2], [-3, 0]], ["human", "judge"])
    found = ranges(ds, protocol=xj.Protocol(ca="negative", invalid="category"))
    assert ends(found) == [2 / 3, 2 / 3]
    assert int(found["n_unresolved"].item()) == 0
    only_ca = ranges(ds, unresolved="ca")
    assert ends(only_ca) == [1 / 2, 1.0]
    assert [int(only_ca[name].item()) for name in ("n", "n_unresolved", "n_eligible")] == [1, 1, 3]


def test_missing_and_ties_left_out_are_not_unresolved() -> None:
    pairwise = xj.Scale.pairwise("A", "B", tie="tie")
    ds = dataset([[0, 0], [1, 0], [-1, 0], [2, 1], [1, -2]], ["human", "judge"], pairwise)
    found = ranges(ds, statistic=["accuracy", "kappa"], protocol=xj.Protocol(tie="exclude"))
    assert ends(found) == [1 / 3, 2 / 3]
    assert int(found["n_unresolved"].item()) == 1


def test_slices_and_populations(ds: xr.Dataset) -> None:
    for reference in ("each", "pooled", "majority"):
        whole = ranges(ds, reference=reference, by="system", protocol=MICRO)
        for system in "abc":
            part = ranges(ds.isel(item=ds["system"].values == system), reference=reference, protocol=MICRO)
            xr.testing.assert_equal(
                whole["accuracy_range"].sel(system=system, drop=True), part["accuracy_range"]
            )
            kept = xj.Protocol(aggregate="micro", population={"system": [system]})
            chosen = ranges(ds, reference=reference, protocol=kept)
            xr.testing.assert_equal(chosen["accuracy_range"], part["accuracy_range"])


def test_undefined_ranges_have_a_reason() -> None:
    ds = dataset([[-1, 0], [-1, 1]], ["human", "judge"])
    with pytest.warns(xj.UndefinedWarning, match="accuracy_range: 1 x no overlap"):
        found = xj.coverage_bounds(ds)
    assert np.isnan(ends(found)).all()
    assert np.isnan(found["accuracy_range_interval"]).all()
    unreadable = ranges(dataset([[-3, 0], [-3, 1]], ["human", "judge"]), unresolved="ca")
    assert unreadable["accuracy_range_reason"].values.tolist() == [["no joint answers"]]


# -------------------------------------------------------------------------------------------- more categories


def test_more_than_two_categories() -> None:
    codes = few_open(3, (12, 2), 3, 6)
    found = ranges(dataset(codes, ["human", "judge"], THREE), statistic=["accuracy", "kappa"])
    for name in ("accuracy", "kappa"):
        values = []
        for whole in completions(codes, 3):
            both = whole[(whole >= 0).all(1)]
            table = np.zeros((3, 3))
            np.add.at(table, tuple(both.T), 1)
            values.append(float(getattr(xj.statistics, name)(table)))
        assert ends(found, name) == pytest.approx([np.nanmin(values), np.nanmax(values)], abs=1e-12)
        assert found[f"{name}_range_kind"].values.tolist() == [["sharp"]]


def test_kappa_with_costs_on_an_ordered_scale() -> None:
    codes = few_open(5, (12, 2), 3, 5)
    ds = dataset(codes, ["human", "judge"], xj.Scale.ordinal([1, 2, 3]))
    found = ranges(ds, statistic="kappa", weights="quadratic")
    values = []
    for whole in completions(codes, 3):
        both = whole[(whole >= 0).all(1)]
        table = np.zeros((3, 3))
        np.add.at(table, tuple(both.T), 1)
        values.append(float(xj.statistics.kappa(table, weights="quadratic")))
    assert ends(found, "kappa") == pytest.approx([np.nanmin(values), np.nanmax(values)], abs=1e-12)
    with_interval = quiet(
        xj.coverage_bounds, ds, statistic="kappa", weights="quadratic", interval="percentile", n_resamples=5
    )
    assert np.isfinite(with_interval["kappa_range_interval"]).all()
    assert "kappa_range_interval" not in quiet(xj.coverage_bounds, ds, statistic="kappa")


# ----------------------------------------------------------------------------------------------------- shares


@pytest.mark.parametrize("reference", ["each", "pooled"])
@pytest.mark.parametrize("protocol", [None, MICRO, xj.Protocol(aggregate="macro")])
def test_ranges_are_nested_in_the_share(well_covered: xr.Dataset, reference: str, protocol: Any) -> None:
    ds = well_covered
    shares = [0.0, 0.25, 0.5, 1.0]
    found = ranges(
        ds, statistic=["accuracy", "kappa"], max_share=shares, reference=reference, protocol=protocol
    )
    assert found["accuracy_range"].dims[-2:] == ("max_share", "bound")
    assert found["max_share"].values.tolist() == shares
    for name in ("accuracy", "kappa"):
        lower, upper = (found[f"{name}_range"].sel(bound=bound) for bound in ("lower", "upper"))
        assert bool((lower.diff("max_share") <= 1e-12).all())
        assert bool((upper.diff("max_share") >= -1e-12).all())
        assert float(abs(upper - lower).isel(max_share=0).max()) < 1e-12
    one = ranges(ds, max_share=0.5, reference=reference, protocol=protocol)
    xr.testing.assert_equal(one["accuracy_range"], found["accuracy_range"].isel(max_share=2, drop=True))


def test_a_criterion_without_covered_cases_is_not_left_out_of_a_macro_average() -> None:
    codes = np.array([[[1, -2], [1, 1]], [[0, -2], [0, 1]]])
    found = ranges(dataset(codes, ["human", "judge"]), max_share=0.5, protocol=xj.Protocol(aggregate="macro"))
    assert "covered case" in str(found["accuracy_range_reason"].item())
    assert np.isnan(ends(found)).all()
    fallen = quiet(
        xj.breakdown,
        dataset(codes, ["human", "judge"]),
        "accuracy",
        0.1,
        protocol=xj.Protocol(aggregate="macro"),
    )
    assert "covered case" in str(fallen["breakdown_reason"].item())
    assert np.isnan(fallen["breakdown"].item())
    nothing = dataset(np.full((3, 2, 2), -1), ["human", "judge"])
    fallen = quiet(xj.breakdown, nothing, "accuracy", [0.1, 0.2], protocol=xj.Protocol(aggregate="macro"))
    assert fallen["breakdown_reason"].values.ravel().tolist() == ["no overlap"] * 2


# -------------------------------------------------------------------------------------------------- intervals


def test_intervals_contain_the_range_and_narrow_with_more_items(ds: xr.Dataset) -> None:
    for reference in ("each", "pooled", "majority"):
        few = quiet(xj.coverage_bounds, ds, reference=reference, protocol=MICRO, n_resamples=1500)
        more = xr.concat([ds] * 9, "item").assign_coords(item=np.arange(9 * ds.sizes["item"]))
        many = quiet(xj.coverage_bounds, more, reference=reference, protocol=MICRO, n_resamples=1500)
        for kind in ("range_interval", "value_interval"):
            lower, upper = (few[f"accuracy_{kind}"].sel(bound=b) for b in ("lower", "upper"))
            assert bool((lower <= few["accuracy_range"].sel(bound="lower")).all())
            assert bool((upper >= few["accuracy_range"].sel(bound="upper")).all())
            width = many[f"accuracy_{kind}"].diff("bound") - many["accuracy_range"].diff("bound")
            wide = few[f"accuracy_{kind}"].diff("bound") - few["accuracy_range"].diff("bound")
            # (1.96 + 1 / sqrt(9 n)) / (1.96 + 1 / sqrt(n)) of a third, at n = 60
            np.testing.assert_allclose(width / wide, 0.314, atol=0.08)


def test_the_interval_of_the_range_is_that_of_resampled_tables() -> None:
    rng = np.random.default_rng(0)
    codes = rng.choice([0, 1, -2], (200, 2), p=[0.35, 0.45, 0.2])
    found = quiet(xj.coverage_bounds, dataset(codes, ["human", "judge"]), statistic="f1", n_resamples=4000)
    lows, highs = [], []
    for _ in range(2000):
        drawn = codes[rng.integers(0, 200, 200)]
        table = np.zeros((3, 3), dtype=int)
        np.add.at(table, tuple(np.where(drawn < 0, 2, drawn).T), 1)
        low, high = sharp_bounds(table, "f1")
        lows.append(low)
        highs.append(high)
    expected = [np.quantile(lows, 0.025), np.quantile(highs, 0.975)]
    assert found["f1_range_interval"].values.ravel() == pytest.approx(expected, abs=0.012)


def test_without_open_cases_both_intervals_are_the_usual_ones() -> None:
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 2, (300, 2))
    found = quiet(xj.coverage_bounds, dataset(codes, ["human", "judge"]), n_resamples=4000)
    p = float(found["accuracy"].item())
    # Student's t with 299 degrees of freedom, and half a case
    half = (1.967930 + 1 / np.sqrt(300)) * np.sqrt(p * (1 - p) / 300)
    for kind in ("value", "range"):
        ends = found[f"accuracy_{kind}_interval"].values.ravel()
        assert ends == pytest.approx([p - half, p + half], abs=0.004)


@pytest.mark.parametrize("resample", ["items", "clusters", "criteria", "items+criteria", "decisions"])
@pytest.mark.parametrize("reference", ["each", "pooled", "majority"])
def test_every_sampling_unit(ds: xr.Dataset, reference: str, resample: str) -> None:
    clustered = ds.assign_coords(cluster=("item", np.repeat(np.arange(20), 3)))
    found = quiet(
        xj.coverage_bounds,
        clustered,
        reference=reference,
        resample=resample,
        protocol=MICRO,
        n_resamples=60,
    )
    low, high = (found["accuracy_range_interval"].sel(bound=b) for b in ("lower", "upper"))
    assert bool((low < high).all())


# -------------------------------------------------------------------------------------------------- breakdown


def test_breakdown_reaches_the_threshold_at_its_share(well_covered: xr.Dataset) -> None:
    ds, claims = well_covered, [-0.9, 0.1, 0.25, 0.9]
    found = quiet(xj.breakdown, ds, "kappa", claims)
    assert found["breakdown"].dims == ("reference", "rater", "criterion", "threshold")
    seen = set()
    for at in np.ndindex(found["breakdown"].shape):
        place = dict(zip(found["breakdown"].dims, at, strict=True))
        one = found.isel(place)
        share, reason = float(one["breakdown"]), str(one["breakdown_reason"].values)
        cell = {dim: place[dim] for dim in ("reference", "rater", "criterion")}
        kwargs: dict[str, Any] = {"statistic": "kappa"}
        seen.add(reason)
        claim = claims[place["threshold"]]
        if reason == "ok":
            reached = ranges(ds, max_share=min(share, 1 - 1e-12), **kwargs)["kappa_range"].isel(cell)
            assert float(reached.sel(bound="lower")) == pytest.approx(claim, abs=1e-9)
        elif reason == "cannot be overturned":
            assert share == np.inf
            assert float(ranges(ds, **kwargs)["kappa_range"].isel(cell).sel(bound="lower")) >= claim - 0.02
        else:
            assert reason == "already false"
            assert np.isnan(share)
            assert float(ranges(ds, max_share=0.0, **kwargs)["kappa_range"].isel(cell)[0]) < claim
    assert seen == {"ok", "cannot be overturned", "already false"}


def test_breakdown_of_a_small_table() -> None:
    # the table of statistics.bounds.breakdown: 40, 5, 10 / 5, 40, 10
    rows = [(0, 0)] * 40 + [(0, 1)] * 5 + [(0, -2)] * 10 + [(1, 0)] * 5 + [(1, 1)] * 40 + [(1, -2)] * 10
    ds = dataset(rows, ["human", "judge"])
    found = xj.breakdown(ds, "accuracy", 0.8)
    assert float(found["breakdown"].item()) == pytest.approx(0.55, abs=1e-12)
    assert float(found["accuracy"].item()) == 80 / 90
    assert [int(found[name].item()) for name in ("n", "n_eligible", "n_unresolved")] == [90, 110, 20]
    assert float(found["threshold"]) == 0.8
    pooled = xj.breakdown(ds, "accuracy", 0.8, reference="pooled")
    assert pooled["breakdown"].values.tolist() == found["breakdown"].values[0].tolist()


def test_breakdown_of_a_macro_average_is_where_its_lower_end_crosses(well_covered: xr.Dataset) -> None:
    weighted = xj.Protocol(aggregate="macro", criterion_weights={"c0": 3, "c1": 1})
    claims = [-0.9, 0.1, 0.3, 0.95]
    seen = set()
    for statistic in ("accuracy", "kappa"):
        found = quiet(xj.breakdown, well_covered, statistic, claims, protocol=weighted)
        assert found["breakdown"].dims == ("reference", "rater", "threshold")
        for human, judge, claim in itertools.product(["h1", "h2"], ["j1", "j2"], claims):
            place = {"reference": human, "rater": judge}
            one = found.sel({**place, "threshold": claim})
            share, reason = float(one["breakdown"]), str(one["breakdown_reason"].values)
            seen.add(reason)
            at = {"ok": share, "already false": 0.0, "cannot be overturned": 1.0}[reason]
            reached = ranges(
                well_covered, statistic=statistic, max_share=min(at, 1 - 1e-12), protocol=weighted
            )
            end = float(reached[f"{statistic}_range"].sel({**place, "bound": "lower"}))
            if reason == "ok":
                assert end == pytest.approx(claim, abs=1e-9)
            else:
                assert (end < claim) == (reason == "already false")
    assert seen == {"ok", "already false", "cannot be overturned"}


def test_breakdown_of_one_criterion_is_that_of_its_table(well_covered: xr.Dataset) -> None:
    one = well_covered.isel(criterion=[0])
    macro, alone = (
        quiet(xj.breakdown, one, "f1", [0.5, 0.8], protocol=xj.Protocol(aggregate=aggregate))
        for aggregate in ("macro", None)
    )
    np.testing.assert_allclose(macro["breakdown"], alone["breakdown"].squeeze("criterion"), atol=1e-12)
    same = alone["breakdown_reason"].squeeze("criterion", drop=True)
    assert macro["breakdown_reason"].values.tolist() == same.values.tolist()


def test_a_claim_that_stands_or_fell_is_no_undefined_value() -> None:
    ds = dataset([(0, 0), (1, 1), (0, -2), (1, 0)], ["human", "judge"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = xj.breakdown(ds, "accuracy", [0.1, 0.99])
    assert found["breakdown_reason"].values.ravel().tolist() == ["cannot be overturned", "already false"]


# ------------------------------------------------------------------------------------------ backends, records


OPTIONS: list[dict[str, Any]] = [
    {"statistic": ["accuracy", "kappa"], "protocol": MICRO},
    {"reference": "pooled", "statistic": ["accuracy", "phi"], "by": "system"},
    {"reference": "majority", "protocol": xj.Protocol(aggregate="macro")},
    {"reference": "majority", "statistic": ["kappa", "f1", "accuracy"], "protocol": MICRO},
    {"max_share": [0.2, 1.0], "reference": "h1"},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_same_on_every_backend(
    ds: xr.Dataset, backend: Callable[[xr.Dataset], xr.Dataset], options: dict[str, Any]
) -> None:
    expected = quiet(xj.coverage_bounds, ds, n_resamples=50, **options)
    found = quiet(xj.coverage_bounds, backend(ds), n_resamples=50, **options)
    xr.testing.assert_identical(found, expected)
    claim = {k: v for k, v in options.items() if k in ("by",)} | {"protocol": MICRO}
    xr.testing.assert_identical(
        quiet(xj.breakdown, backend(ds), "kappa", [0.1, 0.5], **claim),
        quiet(xj.breakdown, ds, "kappa", [0.1, 0.5], **claim),
    )


@pytest.mark.parametrize("options", OPTIONS)
def test_one_compute_or_none(
    ds: xr.Dataset,
    count_computes: Callable[[], AbstractContextManager[Any]],
    options: dict[str, Any],
) -> None:
    lazy = ds.chunk(item=7)
    with count_computes() as computes:
        eager = quiet(xj.coverage_bounds, lazy, n_resamples=50, **options)
    assert computes.n == 1
    with count_computes() as computes:
        later = quiet(xj.coverage_bounds, lazy, n_resamples=50, compute=False, **options)
    assert computes.n == 0
    with count_computes() as computes:
        loaded = later.compute()
    assert computes.n == 1
    xr.testing.assert_identical(loaded, eager)


@pytest.mark.parametrize("options", OPTIONS)
def test_rebuilt_from_attributes(ds: xr.Dataset, options: dict[str, Any]) -> None:
    found = quiet(xj.coverage_bounds, ds, n_resamples=50, level=0.9, seed=4, unresolved="ca", **options)
    assert all(isinstance(value, str | int | float) for value in found.attrs.values())
    assert quiet(xj.rebuild, found, ds).identical(found)
    for threshold in (0.6, [0.5, 0.7]):
        claim = quiet(xj.breakdown, ds, "accuracy", threshold, unresolved=["invalid"])
        assert quiet(xj.rebuild, claim, ds).identical(claim)


def test_tidy_has_both_ends(ds: xr.Dataset) -> None:
    frame = xj.tidy(quiet(xj.coverage_bounds, ds, n_resamples=50))
    expected = {
        f"accuracy_{kind}_{b}"
        for kind in ("range", "range_interval", "value_interval")
        for b in ("lower", "upper")
    }
    assert expected | {"human", "accuracy", "accuracy_range_kind"} <= set(frame.columns)
    assert len(frame) == 3 * 2 * 3


# --------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"statistic": "mcc"}, "names one or more of accuracy"),
        ({"statistic": []}, "names one or more of accuracy"),
        ({"unresolved": "missing"}, "a missing label never is unresolved"),
        ({"unresolved": ()}, "names one or both"),
        ({"max_share": 1.5}, r"in \[0, 1\]; got 1.5"),
        ({"max_share": []}, r"in \[0, 1\]"),
        ({"interval": "delta"}, "intervals from resamples only"),
        ({"reference": "majority", "max_share": 0.5}, "no meaning for a majority"),
        ({"resample": "criteria"}, "needs criteria to be pooled"),
    ],
)
def test_refusals_in_one_sentence(ds: xr.Dataset, options: dict[str, Any], message: str) -> None:
    with pytest.raises(xj.ProtocolError, match=message):
        xj.coverage_bounds(ds, **options)


def test_refusals_of_a_scale() -> None:
    ds = dataset(random_codes(0, (9, 2), 3), ["human", "judge"], THREE)
    with pytest.raises(xj.ProtocolError, match="carries ranges of accuracy, kappa, not of 'f1'"):
        xj.coverage_bounds(ds, statistic="f1")
    with pytest.raises(xj.ProtocolError, match="carries ranges of accuracy, kappa, not of 'f1'"):
        xj.breakdown(ds, "f1", 0.5)
    with pytest.raises(xj.ProtocolError, match="range for accuracy only"):
        xj.coverage_bounds(ds, statistic=["accuracy", "kappa"], reference="majority")
    two = dataset(random_codes(0, (9, 2), 2), ["human", "judge"], xj.Scale.nominal(["x", "y"]))
    with pytest.raises(xj.ProtocolError, match="not of 'recall'"):
        xj.coverage_bounds(two, statistic=["accuracy", "recall"])


def test_breakdown_refuses_what_is_no_table(ds: xr.Dataset) -> None:
    with pytest.raises(xj.ProtocolError, match="no meaning for a majority"):
        xj.breakdown(ds, "accuracy", 0.5, reference="majority")


@pytest.mark.parametrize("aggregate", [None, "micro", "macro"])
def test_shares_and_breakdown_on_three_categories(aggregate: Any, backend: Any) -> None:
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 3, (150, 1, 2))
    codes = np.where(rng.random((150, 2, 2)) < 0.75, truth, rng.integers(0, 3, (150, 2, 2)))
    codes[rng.random((150, 2, 2)) < 0.12] = -2
    ds = dataset(codes, ["human", "judge"], THREE)
    protocol = xj.Protocol(aggregate=aggregate)
    shares = [0.0, 0.5, 1.0]
    options = {"protocol": protocol, "statistic": ["accuracy", "kappa"], "interval": None}
    found = quiet(xj.coverage_bounds, backend(ds), max_share=shares, **options).isel(reference=0, rater=0)
    tables = [slow_open(codes[:, :, c]) for c in range(2)]
    if aggregate == "micro":
        tables = [tables[0] + tables[1]]
    for name in ("accuracy", "kappa"):
        ranges = [category_range_at_share(t[None], name, shares) for t in tables]
        for end, bound in enumerate(("lower", "upper")):
            expected = np.array([one[end] for one in ranges])
            expected = expected.mean(0) if aggregate == "macro" else expected.squeeze()
            got = found[f"{name}_range"].sel(bound=bound)
            got = got.transpose("criterion", ...) if aggregate is None else got
            np.testing.assert_allclose(got.values, expected, atol=1e-12)
        # the claim falls where the lower end reaches it
        middle = found[f"{name}_range"].sel(bound="lower", max_share=0.5)
        cut = round(float(middle.mean()), 6)
        fallen = quiet(xj.breakdown, backend(ds), name, cut, protocol=protocol).isel(reference=0, rater=0)
        if aggregate is None:
            each = [category_breakdown(t, name, cut).share for t in tables]
            np.testing.assert_allclose(fallen["breakdown"], each, atol=1e-9)
        else:
            assert float(fallen["breakdown"]) == pytest.approx(0.5, abs=1e-4)


@pytest.mark.parametrize("aggregate", ["micro", "macro"])
def test_breakdown_takes_weights(aggregate: Any) -> None:
    rng = np.random.default_rng(4)
    truth = rng.integers(0, 3, (150, 1, 2))
    codes = np.where(rng.random((150, 2, 2)) < 0.75, truth, rng.integers(0, 3, (150, 2, 2)))
    codes[:, 1][rng.random((150, 2)) < 0.15] = -2
    ds = dataset(codes, ["human", "judge"], xj.Scale.ordinal([1, 2, 3]))
    protocol = xj.Protocol(aggregate=aggregate)
    options: dict[str, Any] = {"weights": "quadratic", "protocol": protocol}
    curve = quiet(xj.coverage_bounds, ds, statistic="kappa", max_share=[0.3], interval=None, **options)
    cut = float(curve["kappa_range"].sel(bound="lower").item())
    fallen = quiet(xj.breakdown, ds, "kappa", cut, **options)
    assert fallen["breakdown"].item() == pytest.approx(0.3, abs=1e-5)
    plain = quiet(xj.breakdown, ds, "kappa", cut, protocol=protocol)
    assert plain["breakdown"].item() != pytest.approx(0.3, abs=1e-2)
    same = quiet(xj.breakdown, ds, "kappa", cut, costs="quadratic", protocol=protocol)
    assert same["breakdown"].item() == pytest.approx(fallen["breakdown"].item(), abs=1e-12)
    assert quiet(xj.rebuild, fallen, ds).identical(fallen)


def slow_open(codes: Any) -> Any:
    table = np.zeros((4, 4), dtype=int)
    for a, b in codes.tolist():
        table[3 if a < 0 else a, 3 if b < 0 else b] += 1
    return table


@pytest.mark.parametrize("threshold", [np.nan, [], [[0.5]]])
def test_breakdown_refuses_thresholds_that_are_no_numbers(ds: xr.Dataset, threshold: Any) -> None:
    with pytest.raises(xj.ProtocolError, match="`threshold` is a number"):
        xj.breakdown(ds, "accuracy", threshold)
    with pytest.raises(xj.ProtocolError, match=r"`statistic` is a name or word; got \['accuracy'\]"):
        xj.breakdown(ds, ["accuracy"], 0.5)  # type: ignore[arg-type]


# --------------------------------------------------------------------------------------------- awkward inputs


def test_many_humans_are_bounded_from_outside() -> None:
    codes = random_codes(2, (30, 22), 2)
    ds = dataset(codes, ["human"] * 21 + ["judge"])
    found = ranges(ds, reference="pooled")
    assert found["accuracy_range_kind"].values.tolist() == ["outer"]
    few = ranges(ds, reference="pooled", humans=[f"h{n}" for n in range(1, 21)])
    assert few["accuracy_range_kind"].values.tolist() == ["sharp"]


def test_all_open_and_one_item() -> None:
    for reference in ("each", "pooled", "majority"):
        found = ranges(dataset([[-2, -2]], ["human", "judge"]), reference=reference)
        assert ends(found) == [0.0, 1.0]
        assert np.isnan(found["accuracy"]).all()
    empty = dataset(np.zeros((0, 2)), ["human", "judge"])
    assert np.isnan(ends(ranges(empty))).all()

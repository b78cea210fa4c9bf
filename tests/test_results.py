"""Results: tidy frames, files, concatenation."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from labels import dataset, random_codes

import xjudge as xj

MICRO = xj.Protocol(aggregate="micro")


@pytest.fixture
def ds() -> xr.Dataset:
    codes = random_codes(3, (120, 4, 2), 2)
    return dataset(codes, ["human", "human", "judge", "judge"], system=["a", "b", "c"] * 40)


def quiet(verb: Any, *arguments: Any, **options: Any) -> xr.Dataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XJudgeWarning)
        return verb(*arguments, **options)


def sure(ds: xr.Dataset) -> xr.Dataset:
    """With a confidence for every verdict."""
    rng = np.random.default_rng(0)
    return ds.assign(confidence=(ds["label"].dims, rng.uniform(0.5, 1, ds["label"].shape)))


def three(ds: xr.Dataset) -> xr.Dataset:
    """Three categories."""
    return dataset(
        random_codes(4, (60, 5), 3), ["human"] * 3 + ["judge"] * 2, xj.Scale.nominal(["a", "b", "c"])
    )


def repeated(ds: xr.Dataset) -> xr.Dataset:
    """Judges asked twice."""
    return ds.rename(criterion="replicate")


RESULTS: dict[str, Any] = {
    "agreement": lambda ds: quiet(xj.agreement, ds),
    "resampled": lambda ds: quiet(xj.agreement, ds, interval="bca", n_resamples=50, protocol=MICRO),
    "sweep": lambda ds: quiet(xj.sweep, ds, xj.Protocol.grid(ca=["exclude", "category"], aggregate="macro")),
    "tables": lambda ds: quiet(xj.tables, ds, by="system"),
    "rates": lambda ds: quiet(xj.rates, ds),
    "compare": lambda ds: quiet(xj.compare, ds, "j1", "j2"),
    "rank": lambda ds: quiet(xj.rank, ds, n_resamples=50),
    "spread": lambda ds: xj.spread(RESULTS["sweep"](ds)),
    "pair_agreement": lambda ds: quiet(xj.pair_agreement, ds, tables=True),
    "rater_agreement": lambda ds: quiet(xj.rater_agreement, ds, reference="majority", protocol=MICRO),
    "mean_pairwise": lambda ds: quiet(xj.mean_pairwise, quiet(xj.agreement, ds, raters="humans")),
    "coverage_bounds": lambda ds: quiet(xj.coverage_bounds, ds, n_resamples=50),
    "breakdown": lambda ds: quiet(xj.breakdown, ds, "accuracy", 0.3),
    "adjust": lambda ds: quiet(xj.adjust, ds, ["system"], protocol=MICRO),
    "prevalence": lambda ds: quiet(xj.prevalence, ds.isel(criterion=0, drop=True), "j1"),
    "risk_coverage": lambda ds: quiet(xj.risk_coverage, sure(ds)),
    "selective_threshold": lambda ds: quiet(xj.selective_threshold, sure(ds), [0.3, 0.6], by="system"),
    "split_stability": lambda ds: quiet(xj.split_stability, sure(ds), 0.6, n_splits=5),
    "cascade": lambda ds: quiet(xj.cascade, sure(ds), 0.6, order=["j2", "j1"]),
    "reliability_bounds": lambda ds: quiet(xj.reliability_bounds, ds, statistic=["alpha", "gwet_ac"]),
    "reliability": lambda ds: quiet(xj.reliability, ds, statistic=["alpha", "icc(A,1)"], raters="all"),
    "loo_validate": lambda ds: quiet(xj.loo_validate, ds),
    "alt_test": lambda ds: quiet(xj.alt_test, ds, min_humans=2),
    "plan_overlap": lambda ds: quiet(xj.plan_overlap, n_humans=3, human_accuracy=0.8, n_items=300),
    "allocate": lambda ds: quiet(xj.allocate, ds.isel(criterion=0), 20),
    "wrong_top_probability": lambda ds: quiet(xj.wrong_top_probability, ds, overlap=[0.2, 0.5]),
    "effective_size": lambda ds: quiet(xj.effective_size, ds, n_resamples=50),
    "panel_curve": lambda ds: quiet(xj.panel_curve, ds, n_draws=20),
    "select_panel": lambda ds: quiet(xj.select_panel, ds, 1),
    "panel_vote": lambda ds: quiet(xj.panel_vote, ds, protocol=MICRO),
    "panel_votes": lambda ds: quiet(
        xj.panel_vote, ds, votes=True, interval=None, aggregate=["soft", "signed"]
    ),
    "panel_dependence": lambda ds: quiet(xj.panel_dependence, ds, by="system"),
    "panel_geometry": lambda ds: quiet(xj.panel_geometry, three(ds), n_simulated=20),
    "stability": lambda ds: quiet(xj.stability, repeated(ds), n_resamples=20, n_draws=5),
    "compare_panels": lambda ds: quiet(xj.compare_panels, ds, ["j1"], ["j1", "j2"], n_resamples=50),
}


@pytest.mark.parametrize("name", RESULTS)
def test_every_result_goes_through_netcdf(ds: xr.Dataset, name: str, tmp_path: Path) -> None:
    result = RESULTS[name](ds)
    result.to_netcdf(tmp_path / "result.nc", engine="h5netcdf")
    with xr.open_dataset(tmp_path / "result.nc", engine="h5netcdf") as read:
        xr.testing.assert_equal(read.load(), result)
        assert read.attrs == result.attrs


@pytest.mark.filterwarnings("ignore:The data type")
@pytest.mark.filterwarnings("ignore:.*Zarr format 3 specification:FutureWarning")
@pytest.mark.filterwarnings("ignore:Consolidated metadata")
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("name", RESULTS)
def test_every_result_goes_through_zarr(ds: xr.Dataset, name: str, zarr_format: Any, tmp_path: Path) -> None:
    result = RESULTS[name](ds)
    result.to_zarr(tmp_path / "result.zarr", zarr_format=zarr_format)
    read = xr.open_zarr(tmp_path / "result.zarr").load()
    xr.testing.assert_equal(read, result)
    assert read.attrs == result.attrs


@pytest.mark.parametrize("name", RESULTS)
def test_attributes_are_flat(ds: xr.Dataset, name: str) -> None:
    result = RESULTS[name](ds)
    assert all(isinstance(value, str | int | float) for value in result.attrs.values())
    assert result.attrs["verb"]


def test_results_of_two_datasets_concatenate(ds: xr.Dataset) -> None:
    parts = [quiet(xj.agreement, ds.isel(item=slice(a, a + 60)), protocol=MICRO) for a in (0, 60)]
    both = xr.concat(parts, "part", coords="different", compat="equals")
    assert both["kappa"].dims == ("part", "reference", "rater")
    assert both["kappa_reason"].dtype.kind == "U"


# ------------------------------------------------------------------------------------------------------ tidy


def test_one_row_per_estimate(ds: xr.Dataset) -> None:
    result = quiet(xj.agreement, ds, statistic=["accuracy", "kappa"])
    frame = xj.tidy(result)
    assert len(frame) == 2 * 2 * 2
    assert frame.columns[:3].tolist() == ["human", "rater", "criterion"]
    expected = {
        "accuracy",
        "accuracy_reason",
        "accuracy_se",
        "accuracy_lower",
        "accuracy_upper",
        "kappa_lower",
    }
    assert expected | {"n", "n_items", "n_eligible", "coverage", "rate_reference"} <= set(frame.columns)
    row = frame[(frame["human"] == "h2") & (frame["rater"] == "j1") & (frame["criterion"] == "c1")].iloc[0]
    one = result.sel(reference="h2", rater="j1", criterion="c1")
    assert row["kappa"] == float(one["kappa"])
    assert row["kappa_lower"] == float(one["kappa_interval"].sel(bound="lower"))
    assert row["n"] == int(one["n"])


def test_a_reference_without_a_dim_is_a_column(ds: xr.Dataset) -> None:
    assert set(xj.tidy(quiet(xj.agreement, ds, reference="pooled"))["human"]) == {"pooled"}
    assert set(xj.tidy(quiet(xj.agreement, ds, reference="h1"))["human"]) == {"h1"}


def test_criteria_included_get_a_column_per_statistic(ds: xr.Dataset) -> None:
    result = quiet(xj.agreement, ds, statistic=["accuracy", "kappa"], protocol=xj.Protocol(aggregate="macro"))
    frame = result.judge.tidy()
    assert len(frame) == 4
    assert {"accuracy_n_criteria_included", "kappa_n_criteria_included", "n_criteria"} <= set(frame.columns)


def test_a_single_estimate_is_one_row(ds: xr.Dataset) -> None:
    result = quiet(xj.compare, ds, "j1", "j2", reference="pooled", protocol=MICRO)
    frame = xj.tidy(result)
    assert len(frame) == 1
    assert frame["rater_a"].tolist() == ["j1"]
    assert np.isfinite(frame["accuracy_difference_lower"]).all()


def test_what_lives_on_other_dims_is_named(ds: xr.Dataset) -> None:
    frame = xj.tidy(xj.rates(ds))
    assert len(frame) == 4 * 2
    assert {"n_overlap", "n_joint", "joint_coverage"} <= set(frame.attrs["left_out"])


def test_tidy_takes_results_only(ds: xr.Dataset) -> None:
    with pytest.raises(xj.StructureError, match="what a verb returned"):
        xj.tidy(ds)


# ------------------------------------------------------------------------------------------------- rebuilding

MADE_FROM: dict[str, Any] = {
    "prevalence": lambda ds: ds.isel(criterion=0, drop=True),
    "risk_coverage": lambda ds: sure(ds),
    "selective_threshold": lambda ds: sure(ds),
    "split_stability": lambda ds: sure(ds),
    "cascade": lambda ds: sure(ds),
    "allocate": lambda ds: ds.isel(criterion=0),
    "panel_geometry": three,
    "stability": repeated,
}
"""What a result was computed from, where that is not the dataset itself."""

WITHOUT = ("spread", "plan_overlap")
"""Results that do not hold what they were made from."""


@pytest.mark.parametrize("name", [name for name in RESULTS if name not in WITHOUT])
def test_every_result_is_rebuilt_from_its_attributes(ds: xr.Dataset, name: str, tmp_path: Path) -> None:
    data = MADE_FROM.get(name, lambda ds: ds)(ds)
    result = RESULTS[name](ds)
    again = quiet(xj.rebuild, result, data)
    assert again.identical(result)
    result.to_netcdf(tmp_path / "result.nc", engine="h5netcdf")
    with xr.open_dataset(tmp_path / "result.nc", engine="h5netcdf") as file:
        assert quiet(xj.rebuild, file.load(), data).equals(result)


@pytest.mark.parametrize("name", WITHOUT)
def test_results_that_do_not_say_what_they_were_made_from(ds: xr.Dataset, name: str) -> None:
    with pytest.raises(xj.StructureError, match=f"cannot recompute `{name}`"):
        xj.rebuild(RESULTS[name](ds), ds)


OPTIONS: list[tuple[Any, dict[str, Any]]] = [
    (xj.compare, {"a": ["j1", "j2"], "b": [xj.constant("MET"), "j2"], "statistic": "kappa"}),
    (xj.compare, {"a": "j1", "b": xj.constant("UNMET"), "reference": "pooled", "by": "system"}),
    (xj.panel_curve, {"sizes": [1, 2], "quantiles": [0.1, 0.9], "n_draws": 9, "by": "system", "seed": 3}),
    (
        xj.select_panel,
        {"k": 1, "rule": ["D", "E"], "search": "all", "exclude": "j2", "folds": 3, "protocol": MICRO},
    ),
    (xj.select_panel, {"k": 1, "rule": "A", "search": "bounded", "max_nodes": 7, "folds": "system"}),
    (xj.compare_panels, {"a": ["j1"], "b": ["j1", "j2"], "interval": None, "protocol": MICRO}),
    (xj.effective_size, {"resample": "clusters", "n_resamples": 20, "interval": "percentile"}),
    (xj.panel_vote, {"aggregate": "majority", "ties": "hash", "votes": True, "interval": None}),
    (xj.panel_dependence, {"gold": "h1", "judges": ["j2"], "protocol": MICRO}),
]


@pytest.mark.parametrize(("verb", "options"), OPTIONS)
def test_options_are_in_the_attributes(ds: xr.Dataset, verb: Any, options: dict[str, Any]) -> None:
    data = ds.assign_coords(cluster=("item", np.arange(120) // 4))
    result = quiet(verb, data, **options)
    assert quiet(xj.rebuild, result, data).identical(result)


def test_repeats_without_humans_and_of_another_original(ds: xr.Dataset) -> None:
    data = repeated(ds).assign_coords(replicate=[10, 20])
    for options in ({"human": None}, {"original": 20, "n_draws": 3, "resample": "decisions"}):
        result = quiet(xj.stability, data, n_resamples=20, **options)
        assert quiet(xj.rebuild, result, data).identical(result)


def test_functions_and_folds_that_only_the_caller_has(ds: xr.Dataset) -> None:
    ruled = quiet(xj.select_panel, ds, 1, rule=["D", lambda panels: -panels.mean_energy])
    with pytest.raises(xj.StructureError, match="a result of a function: 'rule' was given as one"):
        xj.rebuild(ruled, ds)
    folded = quiet(xj.select_panel, ds, 1, folds=[0, 1, 2] * 40)
    with pytest.raises(xj.StructureError, match="keep them in a coordinate"):
        xj.rebuild(folded, ds)

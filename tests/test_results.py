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

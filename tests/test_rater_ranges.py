"""Ranges of reliability: completions one by one, other verbs, backends, files, refusals."""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from labels import dataset, random_codes

import xjudge as xj

MICRO = xj.Protocol(aggregate="micro")
NAMES = ["alpha", "fleiss_kappa", "gwet_ac", "brennan_prediger", "percent_agreement"]
THREE = xj.Scale.ordinal([1, 2, 3])


def quiet(verb: Any, *arguments: Any, **options: Any) -> xr.Dataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XJudgeWarning)
        return verb(*arguments, **options)


def few_open(seed: int, shape: tuple[int, ...], n_categories: int, most: int) -> Any:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, n_categories, shape)
    codes[rng.random(shape) < 0.1] = -1
    places = rng.permutation(codes.size)[:most]
    codes.ravel()[places] = rng.choice([-2, -3], most)
    return codes


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("scale", [None, THREE])
def test_every_completion_of_the_labels(seed: int, scale: Any) -> None:
    n_categories = 2 if scale is None else 3
    codes = few_open(seed, (5, 4), n_categories, 5 if scale is None else 3)
    kinds: dict[str, Any] = {} if scale is None else {"scale": scale}
    roles = ["human"] * 4
    found = quiet(xj.reliability_bounds, dataset(codes, roles, **kinds), statistic=NAMES)
    places = np.argwhere(codes < -1)
    reached: dict[str, list[float]] = {name: [] for name in NAMES}
    for chosen in itertools.product(range(n_categories), repeat=len(places)):
        whole = codes.copy()
        whole[tuple(places.T)] = chosen
        one = quiet(xj.reliability, dataset(whole, roles, **kinds), statistic=NAMES, interval=None)
        for name in NAMES:
            reached[name].append(float(one[name]))
    for name in NAMES:
        ends = [np.nanmin(reached[name]), np.nanmax(reached[name])]
        assert str(found[f"{name}_range_kind"].values) == "sharp"
        assert found[f"{name}_range"].values.tolist() == pytest.approx(ends, abs=1e-12), name
    covered = quiet(xj.reliability, dataset(codes, roles, **kinds), statistic=NAMES, interval=None)
    for name in NAMES:
        np.testing.assert_allclose(found[name], covered[name], atol=1e-12)
    for name in ("n", "n_labels"):
        assert int(found[name]) == int(covered[name])
    assert int(found["n_unresolved"]) == len(places)


@pytest.mark.parametrize("protocol", [None, MICRO, xj.Protocol(aggregate="macro")])
def test_values_are_those_of_reliability(backend: Any, protocol: Any) -> None:
    ds = dataset(random_codes(2, (60, 3, 2), 2), ["human"] * 3, system=["a", "b"] * 30)
    options: dict[str, Any] = {"statistic": ["alpha", "gwet_ac"], "protocol": protocol, "by": "system"}
    found = quiet(xj.reliability_bounds, backend(ds), **options)
    usual = quiet(xj.reliability, ds, interval=None, **options)
    for name in ("alpha", "gwet_ac", "n", "n_labels"):
        assert found[name].dims == usual[name].dims
        np.testing.assert_allclose(found[name], usual[name], atol=1e-12)
    for name in ("alpha", "gwet_ac"):
        lower, upper = (found[f"{name}_range"].sel(bound=bound) for bound in ("lower", "upper"))
        assert bool(((lower <= found[name]) & (found[name] <= upper)).all())
    if protocol is not None and protocol.aggregate == "macro":
        apart = quiet(xj.reliability_bounds, ds, **(options | {"protocol": None}))
        np.testing.assert_allclose(found["alpha_range"], apart["alpha_range"].mean("criterion"), atol=1e-12)
        assert found["n_criteria_included"].sel(statistic="alpha").values.tolist() == [2, 2]
    xr.testing.assert_identical(found, quiet(xj.reliability_bounds, ds, **options))


def test_weights_metrics_and_outcomes_that_are_not_unresolved() -> None:
    ds = dataset(random_codes(3, (40, 3), 3), ["human"] * 3, THREE)
    plain = quiet(xj.reliability_bounds, ds, unresolved="ca", metric="interval")
    wide = quiet(xj.reliability_bounds, ds, metric="interval")
    assert plain["alpha_range"].diff("bound").item() < wide["alpha_range"].diff("bound").item()
    own = quiet(xj.reliability_bounds, ds, metric=(np.subtract.outer([1, 2, 3], [1, 2, 3]) ** 2.0).tolist())
    np.testing.assert_allclose(own["alpha_range"], wide["alpha_range"], atol=1e-9)
    weighted = quiet(xj.reliability_bounds, ds, statistic="gwet_ac", weights="quadratic")
    usual = quiet(xj.reliability, ds, statistic="gwet_ac", weights="quadratic", interval=None)
    np.testing.assert_allclose(weighted["gwet_ac"], usual["gwet_ac"], atol=1e-12)
    shares = quiet(xj.reliability_bounds, ds, statistic="fleiss_kappa", shares="item_mean")
    usual = quiet(xj.reliability, ds, statistic="fleiss_kappa", shares="item_mean", interval=None)
    np.testing.assert_allclose(shares["fleiss_kappa"], usual["fleiss_kappa"], atol=1e-12)


def test_lazy_results_files_and_degenerate_panels(tmp_path: Path) -> None:
    ds = dataset(random_codes(4, (30, 3), 2), ["human"] * 3)
    lazy = quiet(xj.reliability_bounds, ds.chunk(item=7), compute=False)
    assert lazy["alpha_range"].chunks is not None
    whole = quiet(xj.reliability_bounds, ds)
    xr.testing.assert_identical(lazy.compute(), whole)
    whole.to_netcdf(tmp_path / "ranges.nc", engine="h5netcdf")
    with xr.open_dataset(tmp_path / "ranges.nc", engine="h5netcdf") as read:
        xr.testing.assert_equal(read.load(), whole)
        assert read.attrs == whole.attrs
    assert set(xj.tidy(whole)) >= {"alpha", "alpha_range_lower", "alpha_range_upper", "alpha_range_kind"}
    empty = dataset(np.full((4, 2), -2), ["human"] * 2)
    found = quiet(xj.reliability_bounds, empty)
    assert np.isnan(found["alpha"])
    assert str(found["alpha_reason"].values) == "no item with two labels"
    assert found["alpha_range"].values.max() == 1
    with pytest.warns(xj.UndefinedWarning, match="alpha_range"):
        found = xj.reliability_bounds(dataset(np.full((4, 2), -1), ["human"] * 2))
    assert np.isnan(found["alpha_range"]).all()


def test_what_makes_no_sense_is_refused() -> None:
    ds = dataset(random_codes(5, (9, 3), 2), ["human"] * 3)
    with pytest.raises(xj.ProtocolError, match="not of 'conger_kappa'"):
        xj.reliability_bounds(ds, statistic="conger_kappa")
    with pytest.raises(xj.ProtocolError, match="names one or both"):
        xj.reliability_bounds(ds, unresolved="missing")
    with pytest.raises(xj.OverlapError, match="no rater"):
        xj.reliability_bounds(ds, raters="judges")

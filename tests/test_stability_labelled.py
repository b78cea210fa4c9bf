"""Repeats: flip rates of each judge, and what a judge's second answers do to the panel."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import xarray as xr
from labels import dataset, random_codes

import xjudge as xj
from xjudge.statistics import panel

NOMINAL = xj.Scale.nominal(["a", "b", "c"])
MICRO = xj.Protocol(aggregate="micro")


def quiet(data: xr.Dataset, **options: Any) -> xr.Dataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XJudgeWarning)
        return xj.stability(data, **options)


@pytest.fixture(scope="module")
def ds() -> xr.Dataset:
    """Two humans, three judges, two criteria, three repeats; humans answer in the first repeat only."""
    rng = np.random.default_rng(0)
    first = random_codes(1, (70, 5, 2), 3, outcomes=False)
    first[rng.random(first.shape) < 0.03] = -2
    repeats = []
    for number in range(3):
        again = np.where(
            rng.random(first.shape) < 0.2 * number, random_codes(9 + number, first.shape, 3), first
        )
        again[:, :2] = first[:, :2] if number == 0 else -1
        repeats.append(dataset(again, ["human"] * 2 + ["judge"] * 3, scale=NOMINAL, half=["x", "y"] * 35))
    together = xr.concat(repeats, dim="replicate", data_vars="all", coords="minimal", compat="override")
    return together.assign_coords(replicate=["base", "turned", "mixed"]).transpose("item", "rater", ...)


def codes(ds: xr.Dataset, criterion: int) -> Any:
    """Codes (replicate, item, rater)."""
    found = ds["label"].isel(criterion=criterion).transpose("replicate", "item", "rater").values.astype(int)
    return np.where(found >= 0, found, -1)


def test_flip_rates_by_plain_loops(ds: xr.Dataset) -> None:
    found = quiet(ds, interval=None)
    assert found["flip_rate"].dims == ("rater", "replicate", "criterion")
    assert found["replicate"].values.tolist() == ["turned", "mixed"]
    for criterion in range(2):
        said = codes(ds, criterion)
        for judge in range(3):
            for repeat in (1, 2):
                pairs = [
                    (a, b) for a, b in zip(said[0, :, 2 + judge], said[repeat, :, 2 + judge], strict=True)
                ]
                pairs = [(a, b) for a, b in pairs if a >= 0 and b >= 0]
                cell = found.isel(rater=judge, replicate=repeat - 1, criterion=criterion)
                assert int(cell["n"]) == len(pairs)
                assert float(cell["flip_rate"]) == pytest.approx(sum(a != b for a, b in pairs) / len(pairs))


def test_changes_of_the_panel_are_those_of_the_room(ds: xr.Dataset) -> None:
    shown = np.array(["a", "b", "c"])[np.arange(70) % 3]
    found = quiet(ds.assign(shown=("item", shown)), interval=None, first_option="shown")
    said = codes(ds, 1)
    counts = (said[0, :, :2, None] == np.arange(3)).sum(1)
    h, n_humans = panel.human_distribution(counts)
    gold = np.where(n_humans > 0, panel.gold_mode(counts)[0], -1)
    right = panel.presentation_effects(
        said[0, :, 2:], said[2, :, 2:], h, gold, first_option=np.arange(70) % 3
    )
    one = found.sel(replicate="mixed").isel(criterion=1)
    np.testing.assert_array_equal(one["squared_correlation_change"], right.change)
    np.testing.assert_array_equal(one["nu_h_change"], right.change_nu_h)
    np.testing.assert_array_equal(one["reference_change"], right.reference_mean)
    np.testing.assert_array_equal(one["reference_change_band"], right.reference_band)
    np.testing.assert_array_equal(one["n_flips_first"], right.counts.to_first)
    np.testing.assert_array_equal(one["n_flips_supported"], right.counts.to_supported)
    assert int(one["n_items"]) == right.n_items
    assert int(one["n_dropped"]) == right.n_dropped
    # replacing a judge, measured by the verb that measures panels
    base, again = (ds.isel(criterion=1, replicate=r, drop=True) for r in (0, 2))
    keep = ((said[0, :, 2:] >= 0) & (said[2, :, 2:] >= 0)).all(1) & (n_humans > 0)
    replaced = base["label"].where(base["rater"] != "j2", again["label"])
    replaced = base.assign(label=replaced.astype(np.int8).assign_attrs(base["label"].attrs))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XJudgeWarning)
        before, after = (xj.effective_size(d.isel(item=keep), interval=None) for d in (base, replaced))
    change = float(after["mean_squared_correlation"] - before["mean_squared_correlation"])
    assert float(one["squared_correlation_change"].sel(rater="j2")) == pytest.approx(change, abs=1e-12)
    assert float(one["nu_h_change"].sel(rater="j2")) == pytest.approx(
        float(after["nu_h"] - before["nu_h"]), abs=1e-10
    )


def test_another_original_and_no_humans(ds: xr.Dataset) -> None:
    found = quiet(ds, original="mixed", human=None, interval=None)
    assert found["replicate"].values.tolist() == ["base", "turned"]
    assert "n_items" not in found
    right = quiet(ds, interval=None)["flip_rate"].sel(replicate="mixed", drop=True)
    xr.testing.assert_equal(found["flip_rate"].sel(replicate="base", drop=True), right)


def test_criteria_pooled_and_slices(ds: xr.Dataset) -> None:
    pooled = quiet(ds, protocol=MICRO, interval=None)
    apart = quiet(ds, interval=None)
    assert pooled["flip_rate"].dims == ("rater", "replicate")
    np.testing.assert_array_equal(pooled["n"], apart["n"].sum("criterion"))
    sliced = quiet(ds, protocol=MICRO, by="half", interval=None)
    assert sliced["flip_rate"].dims == ("half", "rater", "replicate")
    alone = quiet(ds.isel(item=slice(0, None, 2)), protocol=MICRO, interval=None)
    xr.testing.assert_equal(sliced.sel(half="x", drop=True), alone)


def test_interval_of_a_flip_rate(ds: xr.Dataset) -> None:
    found = quiet(ds, n_resamples=4000).isel(criterion=0, replicate=1)
    p, n = found["flip_rate"].values, found["n"].values
    np.testing.assert_allclose(found["flip_rate_se"], np.sqrt(p * (1 - p) / n), rtol=0.08)
    assert (found["flip_rate_interval"].sel(bound="lower") < p).all()
    assert found["flip_rate_interval"].dims == ("rater", "bound")


def test_every_backend_gives_the_same_bits(ds: xr.Dataset, backend: Any, count_computes: Any) -> None:
    options: dict[str, Any] = {"n_resamples": 30, "n_draws": 5}
    xr.testing.assert_identical(quiet(backend(ds), **options), quiet(ds, **options))


def test_one_compute(ds: xr.Dataset, count_computes: Any) -> None:
    lazy = ds.chunk(item=(20, 43, 7))
    lazy = lazy.assign_coords({name: c.compute() for name, c in lazy.coords.items()})
    with count_computes() as computes:
        now = quiet(lazy, n_resamples=9, n_draws=5)
        assert computes.n == 1
        later = quiet(lazy, n_resamples=9, n_draws=5, compute=False)
        assert computes.n == 1
    xr.testing.assert_identical(later.compute(), now)


def test_a_judge_that_never_changes_and_one_that_answered_once(ds: xr.Dataset) -> None:
    rows = [[[0, 0], [1, 1], [0, -1]], [[1, -1], [0, 0], [1, -1]], [[1, -1], [1, 1], [1, -1]]]
    array = np.array(rows, dtype=np.int8)  # (item, rater, replicate)
    one = dataset(array[..., 0], ["human", "judge", "judge"])
    two = one.assign(label=(("item", "rater", "replicate"), array, one["label"].attrs))
    with pytest.warns(xj.UndefinedWarning, match="no overlap"):
        found = xj.stability(two, human=None)
    assert found["flip_rate"].values.ravel()[0] == 0.0
    assert found["flip_rate_reason"].values.ravel().tolist() == ["ok", "no overlap"]
    assert np.isnan(found["flip_rate"].values.ravel()[1])
    everything = quiet(two)
    assert everything["n_items"].values.tolist() == [0]
    assert np.isnan(everything["squared_correlation_change"]).all()
    assert (everything["nu_h_change_reason"] == "no items").all()


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda ds: ds.isel(replicate=0), {}, "does not have it"),
        (lambda ds: ds.isel(replicate=[0]), {}, "has 1"),
        (lambda ds: ds, {"original": "last"}, "`replicate` has"),
        (lambda ds: ds, {"first_option": "shown"}, "`first_option` is a variable"),
        (lambda ds: ds, {"n_draws": 0}, "`n_draws` must be"),
        (lambda ds: ds, {"interval": "bca"}, "resampled intervals"),
        (lambda ds: ds.isel(rater=[2, 3]), {}, "needs identified humans"),
    ],
)
def test_impossible_requests(ds: xr.Dataset, change: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(xj.XJudgeError, match=message):
        xj.stability(change(ds), **options)

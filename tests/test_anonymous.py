"""Reliability of anonymous label counts, alone and beside raters with names; circles of numbers."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from labels import dataset, random_codes

import xjudge as xj
from xjudge.statistics.raters import alpha, alpha_of_scores, count_vectors, fleiss_kappa

COUNTED = ["alpha", "fleiss_kappa", "gwet_ac", "brennan_prediger", "percent_agreement", "scott_pi"]
ORDINAL, BINARY = xj.Scale.ordinal([1, 2, 3]), xj.Scale.binary("no", "yes")


def quiet(data: Any, **options: Any) -> xr.Dataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XJudgeWarning)
        return xj.reliability(data, **options)


def counted(codes: Any, scale: xj.Scale, n_named: int = 0) -> xr.Dataset:
    """A dataset whose first raters have names, and whose others are counted."""
    codes = np.asarray(codes)
    ds = dataset(codes[:, : max(n_named, 1)], ["human"] * max(n_named, 1), scale)
    counts = np.stack([(codes[:, n_named:] == c).sum(1) for c in range(scale.n_categories)], axis=-1)
    ds = ds.assign(count=(("item", *ds["label"].dims[2:], "category"), counts))
    return ds if n_named else ds.isel(rater=slice(0, 0))


@pytest.mark.parametrize("n_named", [0, 2])
@pytest.mark.parametrize(
    "options",
    [
        {"interval": "percentile", "n_resamples": 20},
        {"protocol": xj.Protocol(aggregate="micro")},
        {"protocol": xj.Protocol(aggregate="macro"), "interval": "bca", "n_resamples": 20},
        {"protocol": xj.Protocol(scale_map=xj.at_least(3)), "by": "system"},
        {"protocol": xj.Protocol(aggregate="micro"), "resample": "clusters", "raters": "all"},
    ],
    ids=["apart", "micro", "macro", "mapped", "clusters"],
)
def test_counted_labels_are_labels_of_nobody_in_particular(n_named: int, options: dict[str, Any]) -> None:
    codes = random_codes(4, (40, 5, 2), 3)
    codes[codes < 0] = -1
    further = {"cluster": ("item", np.arange(40) // 4), "system": ("item", ["a", "b"] * 20)}
    right = quiet(dataset(codes, ["human"] * 5, ORDINAL).assign_coords(further), statistic=COUNTED, **options)
    anonymous = counted(codes, ORDINAL, n_named).assign_coords(further)
    found = quiet(anonymous, statistic=COUNTED, **options)
    lazy = quiet(anonymous.chunk(item=7), statistic=COUNTED, **options)
    for name in [*COUNTED, *(f"{n}_interval" for n in COUNTED), "n", "n_labels", "n_items", "n_eligible"]:
        np.testing.assert_allclose(found[name], right[name], rtol=1e-9, atol=1e-9, err_msg=name)
        np.testing.assert_array_equal(lazy[name], found[name])


def test_counts_as_they_are_read() -> None:
    frame = pd.DataFrame({"item": list("abcd"), "no": [3, 0, 2, 1], "yes": [0, 4, 1, 1]})
    result = quiet(xj.from_counts(frame, item="item", scale=BINARY), statistic=["alpha", "fleiss_kappa"])
    counts = np.array([[3, 0], [0, 4], [2, 1], [1, 1]])
    assert float(result["alpha"]) == pytest.approx(float(alpha(counts)))
    assert float(result["fleiss_kappa"]) == pytest.approx(float(fleiss_kappa(counts)))
    assert int(result["n_labels"]) == 12
    assert int(result["n"]) == 4
    assert result.attrs["raters"] == "humans"


def test_a_result_of_counts_is_rebuilt() -> None:
    ds = counted(random_codes(5, (30, 4), 2), BINARY, 2)
    found = quiet(ds, statistic="fleiss_kappa")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XJudgeWarning)
        xr.testing.assert_identical(xj.rebuild(found, ds), found)


def test_who_asks_for_names_gets_no_counts() -> None:
    ds = counted(random_codes(5, (30, 4), 2), BINARY, 2)
    without = float(quiet(ds.drop_vars("count"))["alpha"])
    assert float(quiet(ds, raters=["h1", "h2"])["alpha"]) == without
    assert float(quiet(ds, humans=["h1", "h2"])["alpha"]) == without
    assert float(quiet(ds)["alpha"]) != without
    assert int(quiet(ds, statistic="conger_kappa", raters=["h1", "h2"])["n"]) > 0


@pytest.mark.parametrize("name", ["conger_kappa", "light_kappa", "mean_pairwise_kappa", "icc(A,1)"])
def test_counts_do_not_tell_raters_apart(name: str) -> None:
    with pytest.raises(xj.StructureError, match="nobody's in particular"):
        quiet(counted(random_codes(5, (30, 4), 2), BINARY, 2), statistic=name)


def test_counts_that_cannot_be() -> None:
    ds = counted(random_codes(5, (30, 4), 2), BINARY, 2)
    for wrong, words in (
        (ds["count"] * 2 - 1, "negative or not whole"),
        (ds["count"] + 0.5, "negative or not whole"),
        (ds["count"] + 10**12, "not laid out"),
        (ds["count"].isel(category=[0]), "the 2 categories"),
        (ds["count"].astype(str), "whole numbers"),
    ):
        with pytest.raises(xj.StructureError, match=words):
            quiet(ds.drop_vars("count").assign(count=wrong))
    pair = counted(random_codes(5, (30, 4, 2), 2), BINARY, 2)
    rule = xj.Protocol(aggregate="item", item_rule=xj.all_positive())
    with pytest.raises(xj.ProtocolError, match="does not say whose"):
        quiet(pair, protocol=rule)


def test_no_counts_at_all_are_nobody() -> None:
    ds = counted(random_codes(5, (30, 4), 2), BINARY)
    with pytest.raises(xj.OverlapError, match="no rater to compare"):
        quiet(ds.assign(count=0 * ds["count"]))
    beside = counted(random_codes(5, (30, 4), 2), BINARY, 2)
    nulls = quiet(beside.assign(count=beside["count"].where(beside["count"] < 0)))
    assert float(nulls["alpha"]) == float(quiet(beside.drop_vars("count"))["alpha"])


# ------------------------------------------------------------------------------------------------- circles


def hours(seed: int, n_items: int = 30) -> Any:
    rng = np.random.default_rng(seed)
    return (rng.uniform(0, 24, (n_items, 1)) + rng.normal(0, 2, (n_items, 3))) % 24


def in_numbers(scores: Any) -> xr.Dataset:
    ds = dataset(np.zeros(scores.shape, dtype=int), ["human"] * scores.shape[1], xj.Scale.continuous())
    return ds.assign(score=(("item", "rater"), scores))


@pytest.mark.parametrize("interval", ["delta", "percentile", "bca", "studentized"])
def test_alpha_on_a_circle(interval: str) -> None:
    scores = hours(0)
    result = quiet(in_numbers(scores), metric="circular", period=24, interval=interval, n_resamples=50)
    assert float(result["alpha"]) == pytest.approx(float(alpha_of_scores(scores, "circular", period=24)))
    assert np.isfinite(result["alpha_interval"]).all()
    assert result.attrs["period"] == 24
    turned = quiet(
        in_numbers((scores + 7.5) % 24), metric="circular", period=24, interval=interval, n_resamples=50
    )
    assert float(turned["alpha"]) == pytest.approx(float(result["alpha"]), abs=1e-12)


def test_a_circle_of_declared_numbers() -> None:
    """Hours of which only some are offered lie on the same circle as all of them."""
    scale = xj.Scale.interval([0, 3, 6, 12, 21])
    codes = random_codes(3, (40, 3), 5)
    codes[codes < 0] = -1
    ds = dataset(codes, ["human"] * 3, scale)
    turn = np.subtract.outer(scale.scores, scale.scores) / 24
    right = alpha(count_vectors(codes, 5), metric=np.sin(np.pi * turn) ** 2)
    found = quiet(ds, metric="circular", period=24)
    assert float(found["alpha"]) == pytest.approx(float(right), abs=1e-12)
    assert found.attrs["metric"] == "circular"
    assert float(quiet(ds, metric="circular")["alpha"]) == pytest.approx(float(right), abs=1e-12)  # 21 + 3


def test_circles_that_cannot_be() -> None:
    numbers = in_numbers(hours(1))
    for options, words in (
        ({"metric": "circular"}, "length of the circle"),
        ({"period": 24}, "goes with metric='circular'"),
        ({"metric": "interval", "period": 24}, "goes with metric='circular'"),
        ({"metric": "circular", "period": 0}, "positive and finite"),
        ({"metric": "circular", "period": float("nan")}, "positive and finite"),
    ):
        with pytest.raises(xj.ProtocolError, match=words):
            quiet(numbers, **options)
    ordinal = dataset(np.ones((4, 2), dtype=int), ["human"] * 2, ORDINAL)
    with pytest.raises(xj.ProtocolError, match="interval or continuous"):
        quiet(ordinal, metric="circular", period=3)
    twice = dataset(np.ones((4, 2), dtype=int), ["human"] * 2, xj.Scale.interval([0, 90, 360]))
    with pytest.raises(xj.ProtocolError, match="one place on a circle"):
        quiet(twice, metric="circular", period=360)

"""What holds of effective sizes, whatever the labels."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from labels import dataset

import xjudge as xj

NOMINAL = xj.Scale.nominal(["a", "b", "c"])
SIZES = ("participation_ratio", "nu_h", "nu_mse", "nu_mse_limit", "n_eff", "gamma_co")
PROTOCOLS = st.sampled_from([xj.Protocol(), xj.Protocol(aggregate="micro")])
CODES = st.builds(
    lambda seed, n_items, n_judges, low: np.random.default_rng(seed).integers(
        low, 3, (n_items, 2 + n_judges, 2)
    ),
    st.integers(0, 10**6),
    st.integers(1, 15),
    st.integers(1, 4),
    st.sampled_from([-3, -1, 0]),
)


def panel(codes: Any) -> xr.Dataset:
    return dataset(codes, ["human"] * 2 + ["judge"] * (codes.shape[1] - 2), scale=NOMINAL)


def size(data: xr.Dataset, **options: Any) -> xr.Dataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XJudgeWarning)
        return xj.effective_size(data, **{"interval": None, **options})


def same(one: xr.Dataset, other: xr.Dataset) -> None:
    for name in (*SIZES, "distributional_error", "human_variance", "finite_n_delta"):
        np.testing.assert_allclose(one[name], other[name], rtol=1e-8, atol=1e-10, err_msg=name)
        np.testing.assert_array_equal(one[f"{name}_reason"], other[f"{name}_reason"])


@given(CODES, PROTOCOLS, st.randoms(use_true_random=False))
@settings(max_examples=25)
def test_the_order_of_items_judges_humans_and_categories(codes: Any, protocol: Any, random: Any) -> None:
    one = size(panel(codes), protocol=protocol, gold="tie_free")
    n_items, n_raters = codes.shape[:2]
    items, judges = list(range(n_items)), list(range(2, n_raters))
    random.shuffle(items)
    random.shuffle(judges)
    turned = codes[items][:, [1, 0, *judges]]
    same(size(panel(turned), protocol=protocol, gold="tie_free"), one)
    renamed = np.where(codes >= 0, 2 - codes, codes)
    same(size(panel(renamed), protocol=protocol, gold="tie_free"), one)


@given(CODES, st.integers(1, 5))
@settings(max_examples=15)
def test_chunks_do_not_matter(codes: Any, chunk: int) -> None:
    same(size(panel(codes).chunk(item=chunk)), size(panel(codes)))


@given(CODES, PROTOCOLS)
@settings(max_examples=25)
def test_ranges_and_reasons(codes: Any, protocol: Any) -> None:
    found = size(panel(codes), protocol=protocol)
    k = codes.shape[1] - 2
    for name in SIZES:
        undefined = np.isnan(found[name].values)
        np.testing.assert_array_equal(undefined, found[f"{name}_reason"].values != "ok")
    ratio, share = found["participation_ratio"], found["gamma_co"]
    assert ((ratio >= 1 - 1e-9) & (ratio <= k + 1e-9) | ratio.isnull()).all()
    assert ((share >= -1e-9) & (share <= 1 + 1e-9) | share.isnull()).all()
    assert (found["n_items"] + found["n_dropped"]).sum() == codes.shape[0] * 2
    assert (
        (found["mean_residual_sq"] <= found["distributional_error"] + 1e-9)
        .where(found["n_items"] > 0, True)
        .all()
    )


@given(CODES)
@settings(max_examples=15)
def test_an_item_twice_leaves_the_errors_and_halves_delta(codes: Any) -> None:
    one, two = size(panel(codes)), size(panel(np.concatenate([codes, codes])))
    for name in ("participation_ratio", "nu_mse", "n_eff", "gamma_co"):
        np.testing.assert_allclose(two[name], one[name], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(two["finite_n_delta"] * 2, one["finite_n_delta"], rtol=1e-9)


# -------------------------------------------------------------------------------------------------- intervals

RANGES = {
    "participation_ratio": (1.0, np.inf),
    "mean_squared_correlation": (0.0, 1.0),
    "mean_error_correlation": (-1.0, 1.0),
    "gamma_co": (0.0, 1.0),
    "nu_h": (0.0, np.inf),
    "nu_mse": (0.0, np.inf),
    "nu_mse_limit": (0.0, np.inf),
    "n_eff": (0.0, np.inf),
    "distributional_error": (0.0, np.inf),
    "human_variance": (0.0, np.inf),
}
UNITS = st.sampled_from(["items", "clusters", "decisions"])
METHODS = st.sampled_from(["studentized", "percentile"])


def grouped(codes: Any) -> xr.Dataset:
    return panel(codes).assign_coords(cluster=("item", np.arange(len(codes)) // 2))


@given(CODES, PROTOCOLS, UNITS, METHODS)
@settings(max_examples=30)
def test_ends_are_in_order_and_within_range(codes: Any, protocol: Any, resample: Any, method: Any) -> None:
    found = size(grouped(codes), protocol=protocol, resample=resample, interval=method, n_resamples=25)
    for name, (least, most) in RANGES.items():
        lower, upper = (found[f"{name}_interval"].sel(bound=b).values for b in ("lower", "upper"))
        known = ~np.isnan(lower)
        np.testing.assert_array_equal(known, ~np.isnan(upper))
        assert (lower[known] <= upper[known]).all()
        assert (lower[known] >= least).all()
        assert (upper[known] <= most).all()
        assert not (known & np.isnan(found[name].values)).any()


@given(CODES, PROTOCOLS, UNITS, METHODS, st.randoms(use_true_random=False), st.integers(1, 4))
@settings(max_examples=20)
def test_no_bit_of_an_interval_depends_on_order_or_chunks(
    codes: Any, protocol: Any, resample: Any, method: Any, random: Any, chunk: int
) -> None:
    options = {"protocol": protocol, "resample": resample, "interval": method, "n_resamples": 15}
    data = grouped(codes)
    order = list(range(len(codes)))
    random.shuffle(order)
    one, other = size(data, **options), size(data.isel(item=order).chunk(item=chunk), **options)
    for name in RANGES:
        xr.testing.assert_equal(one[f"{name}_interval"], other[f"{name}_interval"].compute())


@given(CODES, METHODS)
@settings(max_examples=15)
def test_a_difference_changes_its_sign_with_its_sides(codes: Any, method: Any) -> None:
    data = panel(np.concatenate([codes, codes[:, 2:]], axis=1))
    data = data.assign_coords(rater=[f"r{place}" for place in range(data.sizes["rater"])])
    judges = data["rater"].values[2:].tolist()
    a, b = judges[:1], judges[-2:]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XJudgeWarning)
        options = {"interval": method, "n_resamples": 15}
        one, other = xj.compare_panels(data, a, b, **options), xj.compare_panels(data, b, a, **options)
    for name in SIZES:
        np.testing.assert_allclose(
            one[f"{name}_difference"], -other[f"{name}_difference"], rtol=1e-9, atol=1e-12
        )
        ends = one[f"{name}_difference_interval"].values
        turned = -other[f"{name}_difference_interval"].values[..., ::-1]
        np.testing.assert_allclose(ends, turned, rtol=1e-6, atol=1e-9)


# ------------------------------------------------------------------------------------- dependence and votes


@given(CODES, PROTOCOLS, st.randoms(use_true_random=False))
@settings(max_examples=25)
def test_the_spectral_identity_and_joint_errors(codes: Any, protocol: Any, random: Any) -> None:
    judges = list(range(2, codes.shape[1]))
    random.shuffle(judges)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XJudgeWarning)
        found = xj.panel_dependence(panel(codes), protocol=protocol)
        turned = xj.panel_dependence(panel(codes[:, [0, 1, *judges]]), protocol=protocol)
    k = len(judges)
    spectral = found["energy"] / k**2 * (found["eigenvalue"] * found["alignment"]).sum("component")
    error = found["distributional_error"].where(found["energy_reason"] == "ok")
    np.testing.assert_allclose(spectral.where(found["energy_reason"] == "ok"), error, atol=1e-10)
    np.testing.assert_array_equal(np.isnan(found["energy"].values), found["energy_reason"].values != "ok")
    assert (found["n_all_wrong"] <= found["n_scored"]).all()
    assert (found["n_scored"] <= found["n_items"]).all()
    for name in ("n_all_wrong", "expected_all_wrong", "eigenvalue", "crossed_size", "crossed_mean"):
        np.testing.assert_allclose(found[name], turned[name], rtol=1e-8, atol=1e-9)


@given(CODES, PROTOCOLS, st.randoms(use_true_random=False))
@settings(max_examples=15)
def test_votes_go_with_their_items(codes: Any, protocol: Any, random: Any) -> None:
    order = list(range(len(codes)))
    random.shuffle(order)
    options: dict[str, Any] = {
        "aggregate": ["majority", "soft", "dawid_skene"],
        "ties": "hash",
        "votes": True,
        "interval": None,
        "protocol": protocol,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XJudgeWarning)
        one = xj.panel_vote(panel(codes), **options)
        other = xj.panel_vote(panel(codes).isel(item=order), **options)
    xr.testing.assert_allclose(one["share"].isel(item=order), other["share"], rtol=1e-6, atol=1e-9)
    votes = ["majority", "soft"]
    xr.testing.assert_equal(
        one["vote"].isel(item=order).sel(aggregate=votes), other["vote"].sel(aggregate=votes)
    )
    some = (codes[:, 2:] >= 0).any(1)
    np.testing.assert_array_equal(one["vote"].sel(aggregate="soft").values != "", some)

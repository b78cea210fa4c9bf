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

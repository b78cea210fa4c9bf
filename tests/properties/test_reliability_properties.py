"""What holds of reliability and of agreement in numbers, whatever the labels."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from labels import dataset

import xjudge as xj

OF_COUNTS = ["alpha", "fleiss_kappa", "gwet_ac", "brennan_prediger", "percent_agreement"]
OF_LABELS = ["conger_kappa", "light_kappa", "mean_pairwise_kappa"]
ICCS = ["icc(1)", "icc(A,1)", "icc(C,k)"]
EVERY = [*OF_COUNTS, *OF_LABELS, *ICCS]
ORDINAL = xj.Scale.ordinal([1, 2, 3])
PROTOCOLS = st.sampled_from([xj.Protocol(), xj.Protocol(aggregate="micro"), xj.Protocol(aggregate="macro")])
CODES = st.builds(
    lambda seed, n_items, n_raters, low: np.random.default_rng(seed).integers(low, 3, (n_items, n_raters, 2)),
    st.integers(0, 10**6),
    st.integers(1, 12),
    st.integers(2, 4),
    st.sampled_from([-3, -1, 0]),
)


def quiet(verb: Any, *arguments: Any, **options: Any) -> xr.Dataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XJudgeWarning)
        return verb(*arguments, **options)


def same(one: xr.Dataset, other: xr.Dataset, names: list[str], *, exact_reasons: bool = True) -> None:
    for name in names:
        np.testing.assert_allclose(one[name], other[name], rtol=1e-9, atol=1e-9)
        if f"{name}_se" in one:
            np.testing.assert_allclose(one[f"{name}_se"], other[f"{name}_se"], rtol=1e-6, atol=1e-7)
        if exact_reasons:
            np.testing.assert_array_equal(one[f"{name}_reason"], other[f"{name}_reason"])


def built(codes: Any, scale: xj.Scale = ORDINAL) -> xr.Dataset:
    return dataset(codes, ["human"] * codes.shape[1], scale)


@settings(max_examples=20)
@given(codes=CODES, protocol=PROTOCOLS, seed=st.integers(0, 100))
def test_order_of_items_and_raters(codes: Any, protocol: xj.Protocol, seed: int) -> None:
    rng = np.random.default_rng(seed)
    items, raters = rng.permutation(codes.shape[0]), rng.permutation(codes.shape[1])
    options = {"statistic": EVERY, "protocol": protocol, "interval": "delta"}
    whole = quiet(xj.reliability, built(codes), **options)
    same(whole, quiet(xj.reliability, built(codes[items]), **options), EVERY)
    same(whole, quiet(xj.reliability, built(codes[:, raters]), **options), EVERY)


@given(codes=CODES, seed=st.integers(0, 5))
def test_order_of_items_does_not_move_resampled_ends(codes: Any, seed: int) -> None:
    items = np.random.default_rng(seed).permutation(codes.shape[0])
    options = {
        "statistic": ["alpha", "conger_kappa"],
        "protocol": xj.Protocol(aggregate="micro"),
        "interval": "percentile",
        "n_resamples": 15,
        "seed": seed,
    }
    one = quiet(xj.reliability, built(codes), **options)
    other = quiet(xj.reliability, built(codes[items]), **options)
    xr.testing.assert_allclose(one, other, rtol=1e-12)


@given(codes=CODES, protocol=PROTOCOLS, permutation=st.permutations([0, 1, 2]))
def test_names_of_nominal_categories(codes: Any, protocol: xj.Protocol, permutation: list[int]) -> None:
    names = [*OF_COUNTS, *OF_LABELS]
    scale = xj.Scale.nominal(["a", "b", "c"])
    renamed = np.where(codes >= 0, np.array(permutation)[np.maximum(codes, 0)], codes)
    options = {"statistic": names, "protocol": protocol}
    one, other = (quiet(xj.reliability, built(c, scale), **options) for c in (codes, renamed))
    same(one, other, names)


@given(codes=CODES, protocol=PROTOCOLS)
def test_turning_an_ordered_scale_round(codes: Any, protocol: xj.Protocol) -> None:
    turned = np.where(codes >= 0, 2 - codes, codes)
    for options in ({"metric": "ordinal"}, {"metric": "interval"}, {"statistic": ICCS}):
        one, other = (
            quiet(xj.reliability, built(c), protocol=protocol, interval="delta", **options)
            for c in (codes, turned)
        )
        same(one, other, options.get("statistic", ["alpha"]))


@settings(max_examples=20)
@given(codes=CODES, protocol=PROTOCOLS, cuts=st.lists(st.integers(1, 11), max_size=3))
def test_chunks_change_nothing(codes: Any, protocol: xj.Protocol, cuts: list[int]) -> None:
    n = codes.shape[0]
    edges = sorted({0, n, *(min(cut, n) for cut in cuts)})
    ds = built(codes)
    options = {"statistic": EVERY, "protocol": protocol, "n_resamples": 5}
    lazy = quiet(xj.reliability, ds.chunk(item=tuple(np.diff(edges).tolist())), **options)
    xr.testing.assert_identical(lazy, quiet(xj.reliability, ds, **options))


@given(codes=CODES, protocol=PROTOCOLS)
def test_items_that_nobody_labelled_and_raters_who_labelled_nothing(
    codes: Any, protocol: xj.Protocol
) -> None:
    nobody = np.concatenate([codes, np.full((2, *codes.shape[1:]), -1)])
    nothing = np.concatenate([codes, np.full((codes.shape[0], 1, 2), -1)], axis=1)
    options = {"statistic": [*OF_COUNTS, "conger_kappa", "mean_pairwise_kappa"], "protocol": protocol}
    whole = quiet(xj.reliability, built(codes), **options)
    for codes_of_more in (nobody, nothing):
        more = quiet(xj.reliability, built(codes_of_more), **options)
        same(whole, more, options["statistic"])
        for count in ("n", "n_labels", "n_single", "n_items", "n_eligible"):
            np.testing.assert_array_equal(whole[count], more[count])


@given(codes=CODES, protocol=PROTOCOLS)
def test_limits_and_counts(codes: Any, protocol: xj.Protocol) -> None:
    result = quiet(xj.reliability, built(codes), statistic=EVERY, protocol=protocol, n_resamples=5)
    for name in EVERY:
        values = np.atleast_1d(result[name].values)
        assert (np.isnan(values) == (np.atleast_1d(result[f"{name}_reason"].values) != "ok")).all()
        assert (values[~np.isnan(values)] <= 1 + 1e-12).all()
        ends = result[f"{name}_interval"].values
        ordered = (ends[..., 0] <= ends[..., 1] + 1e-12) | np.isnan(ends).any(-1)
        assert np.all(ordered)
    assert (result["n"] <= result["n_eligible"]).all()
    assert (result["n_labels"] >= 2 * result["n"]).all()
    assert (result["n_items"] <= result["n"]).all()


@given(codes=CODES)
def test_two_raters_are_the_coefficients_of_their_table(codes: Any) -> None:
    pair = codes[:, :2]
    ds = built(pair)
    many = quiet(
        xj.reliability,
        ds,
        statistic=["scott_pi", "conger_kappa", "light_kappa", "brennan_prediger", "percent_agreement"],
        weights="quadratic",
        interval=None,
    )
    two = quiet(
        xj.agreement,
        ds,
        raters="all",
        statistic=["scott_pi", "kappa", "brennan_prediger", "accuracy"],
        weights="quadratic",
        interval=None,
    ).isel(rater_a=0, rater_b=1)
    np.testing.assert_allclose(many["scott_pi"], two["scott_pi"], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(many["light_kappa"], two["kappa"], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(many["brennan_prediger"], two["brennan_prediger"], rtol=1e-9, atol=1e-9)
    complete = quiet(xj.reliability, built(np.maximum(pair, 0)), statistic="conger_kappa", interval=None)
    table = quiet(xj.agreement, built(np.maximum(pair, 0)), raters="all", statistic="kappa", interval=None)
    np.testing.assert_allclose(
        complete["conger_kappa"], table["kappa"].isel(rater_a=0, rater_b=1), rtol=1e-9, atol=1e-9
    )


@settings(max_examples=20)
@given(codes=CODES, protocol=PROTOCOLS)
def test_integers_as_categories_and_as_numbers(codes: Any, protocol: xj.Protocol) -> None:
    ordinal = built(codes, xj.Scale.interval([0, 1, 2]))
    numbers = built(np.where(codes >= 0, 0, codes), xj.Scale.continuous())
    numbers = numbers.assign(score=(numbers["label"].dims, np.where(codes >= 0, codes, np.nan)))
    names = ["alpha", *ICCS]
    for metric in ("nominal", "interval", "ordinal"):
        one, other = (
            quiet(xj.reliability, ds, statistic=names, metric=metric, protocol=protocol, interval="delta")
            for ds in (ordinal, numbers)
        )
        same(one, other, names, exact_reasons=False)
    statistics = [
        "pearson",
        "concordance",
        "mean_error",
        "mean_absolute_error",
        "rmse",
        "limits_of_agreement",
    ]
    options = {"raters": "all", "statistic": [*statistics, "spearman", "kendall_tau_b"], "protocol": protocol}
    one, other = (quiet(xj.agreement, ds, **options) for ds in (ordinal, numbers))
    names = [str(n) for n in one.data_vars if f"{n}_reason" in one and not str(n).endswith("_interval")]
    same(one, other, names, exact_reasons=False)

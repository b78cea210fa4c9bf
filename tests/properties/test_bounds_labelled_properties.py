"""Ranges on labelled data: every completion lies inside, and nothing but the labels matters."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from labels import BINARY, dataset

import xjudge as xj

ROLES = ["human", "human", "human", "judge", "judge"]
STATISTICS = ["accuracy", "kappa", "f1", "phi", "balanced_accuracy"]
PROTOCOLS = [
    xj.Protocol(),
    xj.Protocol(aggregate="micro"),
    xj.Protocol(aggregate="item", item_rule=xj.weighted_share(0.5)),
]
CODES = hnp.arrays(np.int8, st.tuples(st.integers(1, 8), st.just(5), st.just(2)), elements=st.integers(-3, 1))


def bounds(ds: xr.Dataset, **options: Any) -> xr.Dataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XJudgeWarning)
        return xj.coverage_bounds(ds, **({"interval": None} | options))


def agreement(ds: xr.Dataset, **options: Any) -> xr.Dataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XJudgeWarning)
        return xj.agreement(ds, interval=None, **options)


@settings(max_examples=25)
@given(
    CODES, st.randoms(use_true_random=False), st.sampled_from(PROTOCOLS), st.sampled_from(["each", "pooled"])
)
def test_every_completion_of_the_labels_lies_inside(
    codes: Any, random: Any, protocol: xj.Protocol, reference: str
) -> None:
    # at item level a missing criterion keeps a case out of the range that a completion may bring in
    codes = np.where(codes == -1, 0, codes) if protocol.aggregate == "item" else codes
    found = bounds(dataset(codes, ROLES), statistic=STATISTICS, reference=reference, protocol=protocol)
    whole = np.where(
        codes < -1,
        np.array([[[random.randint(0, 1) for _ in range(2)] for _ in range(5)] for _ in codes]),
        codes,
    )
    value = agreement(dataset(whole, ROLES), statistic=STATISTICS, reference=reference, protocol=protocol)
    for name in STATISTICS:
        lower, upper = (found[f"{name}_range"].sel(bound=bound).values for bound in ("lower", "upper"))
        one = value[name].values
        assert (np.isnan(one) | ((lower <= one + 1e-9) & (one <= upper + 1e-9))).all(), name


@settings(max_examples=25)
@given(CODES, st.randoms(use_true_random=False), st.sampled_from(PROTOCOLS[:2]))
def test_every_completion_lies_inside_under_a_vote(codes: Any, random: Any, protocol: xj.Protocol) -> None:
    found = bounds(dataset(codes, ROLES), reference="majority", protocol=protocol)
    whole = np.where(
        codes < -1,
        np.array([[[random.randint(0, 1) for _ in range(2)] for _ in range(5)] for _ in codes]),
        codes,
    )
    value = agreement(dataset(whole, ROLES), statistic="accuracy", reference="majority", protocol=protocol)
    lower, upper = (found["accuracy_range"].sel(bound=bound).values for bound in ("lower", "upper"))
    one = value["accuracy"].values
    assert (np.isnan(one) | ((lower <= one + 1e-12) & (one <= upper + 1e-12))).all()


@settings(max_examples=15)
@given(CODES, st.randoms(use_true_random=False), st.sampled_from(["each", "pooled", "majority"]))
def test_order_of_items_and_humans_does_not_matter(codes: Any, random: Any, reference: str) -> None:
    ds = dataset(codes, ROLES)
    items = list(range(len(codes)))
    random.shuffle(items)
    turned = ds.isel(item=items, rater=[2, 0, 1, 4, 3])
    options: dict[str, Any] = {
        "reference": reference,
        "protocol": PROTOCOLS[1],
        "interval": "auto",
        "n_resamples": 30,
    }
    there = bounds(ds, **options)
    back = bounds(turned, **options).sel(rater=["j1", "j2"])
    if reference == "each":
        back = back.sel(reference=["h1", "h2", "h3"])
    xr.testing.assert_equal(there, back)  # resamples included: units are drawn in an order of their own


@settings(max_examples=15)
@given(CODES, st.sampled_from(["each", "pooled", "majority"]))
def test_relabelling_the_categories_leaves_accuracy(codes: Any, reference: str) -> None:
    swapped = np.where(codes >= 0, 1 - codes, codes)
    one = bounds(dataset(codes, ROLES), reference=reference)
    other = bounds(dataset(swapped, ROLES), reference=reference)
    rates = ["rate_reference", "rate_rater"]
    xr.testing.assert_equal(one.drop_vars(rates), other.drop_vars(rates))
    xr.testing.assert_allclose(one[rates], 1 - other[rates])


@settings(max_examples=15)
@given(CODES, st.sampled_from(["each", "pooled", "majority"]), st.integers(1, 4))
def test_chunks_do_not_matter(codes: Any, reference: str, size: int) -> None:
    ds = dataset(codes, ROLES)
    options: dict[str, Any] = {"reference": reference, "interval": "auto", "n_resamples": 20}
    xr.testing.assert_identical(bounds(ds.chunk(item=size), **options), bounds(ds, **options))


@settings(max_examples=15)
@given(CODES, st.sampled_from(["each", "pooled"]))
def test_invalid_outputs_leave_the_table_where_only_ca_is_unresolved(codes: Any, reference: str) -> None:
    """With CA alone unresolved, invalid outputs leave the table: the range is that of labels without them."""
    without = np.where(codes == -3, -1, codes)
    one = bounds(dataset(codes, ROLES), reference=reference, unresolved="ca")
    other = bounds(dataset(without, ROLES), reference=reference)
    for name in ("accuracy", "accuracy_range", "n", "n_unresolved"):
        xr.testing.assert_equal(one[name], other[name])


@settings(max_examples=20)
@given(CODES, st.floats(0, 1), st.sampled_from(["accuracy", "kappa", "f1"]))
def test_breakdown_says_where_the_lower_end_crosses(codes: Any, threshold: float, statistic: str) -> None:
    ds = dataset(codes, ROLES, BINARY)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XJudgeWarning)
        found = xj.breakdown(ds, statistic, threshold, protocol=PROTOCOLS[1])
    for human in ("h1", "h2", "h3"):
        one = found.sel(reference=human, rater="j1")
        share, reason = float(one["breakdown"]), str(one["breakdown_reason"].values)
        if reason == "ok":
            reached = bounds(ds, statistic=statistic, max_share=min(share, 0.999999), protocol=PROTOCOLS[1])
            end = float(reached[f"{statistic}_range"].sel(reference=human, rater="j1", bound="lower"))
            assert end == pytest.approx(threshold, abs=1e-4)

"""Masks, rates, joint coverage, the overlap graph, and validation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import xarray as xr
from labels import dataset, random_codes

import xjudge as xj

MISSING, CA, INVALID = -1, -2, -3


@pytest.fixture
def ds() -> xr.Dataset:
    return dataset(
        random_codes(7, (50, 4, 2), 2), ["human", "judge", "human", "judge"], system=["a", "b"] * 25
    )


# ----------------------------------------------------------------------------------------------------- masks


def test_the_four_masks_partition_the_labels(
    ds: xr.Dataset, backend: Callable[[xr.Dataset], xr.Dataset]
) -> None:
    lazy = backend(ds)
    masks = [lazy.judge.mask(outcome) for outcome in ("answered", "ca", "invalid", "missing")]
    assert all(mask.dtype == bool and mask.dims == ds["label"].dims for mask in masks)
    assert all((mask.chunks is None) == (lazy["label"].chunks is None) for mask in masks)
    assert (sum(mask.astype(int) for mask in masks) == 1).all()
    assert (masks[1].values == (ds["label"].values == CA)).all()
    assert "flag_values" not in masks[0].attrs


def test_a_hole_is_missing_and_nothing_else(ds: xr.Dataset) -> None:
    holes = ds.assign(label=ds["label"].where(ds["label"] != CA).assign_attrs(ds["label"].attrs))
    missing = holes.judge.mask("missing").values
    assert (missing == np.isin(ds["label"].values, [MISSING, CA])).all()
    assert not holes.judge.mask("ca").any()


def test_unknown_masks_are_refused(ds: xr.Dataset) -> None:
    with pytest.raises(xj.ProtocolError, match="'abstained'"):
        xj.mask(ds, "abstained")  # type: ignore[arg-type]


# ----------------------------------------------------------------------------------------------------- rates


def test_rates_against_plain_counting(ds: xr.Dataset) -> None:
    result = xj.rates(ds)
    assert result["ca"].dims == ("rater", "criterion")
    for rater in ds["rater"].values:
        for criterion in ds["criterion"].values:
            labels = ds["label"].sel(rater=rater, criterion=criterion).values
            one = result.sel(rater=rater, criterion=criterion)
            asked = (labels != MISSING).sum()
            assert int(one["n_asked"]) == asked
            assert int(one["n_answered"]) == (labels >= 0).sum()
            assert float(one["answered"]) == (labels >= 0).sum() / asked
            assert float(one["ca"]) == (labels == CA).sum() / asked
            assert float(one["invalid"]) == (labels == INVALID).sum() / asked
            assert float(one["missing"]) == (labels == MISSING).sum() / 50
            assert float(one["positive"]) == (labels == 1).sum() / (labels >= 0).sum()


def test_joint_coverage_against_plain_counting(ds: xr.Dataset) -> None:
    result = xj.rates(ds)
    assert result["joint_coverage"].dims == ("rater_a", "rater_b", "criterion")
    a, b = (ds["label"].sel(rater=name, criterion="c1").values for name in ("h1", "j2"))
    one = result.sel(rater_a="h1", rater_b="j2", criterion="c1")
    both_asked = (a != MISSING) & (b != MISSING)
    both_answered = (a >= 0) & (b >= 0)
    assert int(one["n_overlap"]) == both_asked.sum()
    assert int(one["n_joint"]) == both_answered.sum()
    assert float(one["joint_coverage"]) == both_answered.sum() / both_asked.sum()


def test_pooled_and_sliced_rates(ds: xr.Dataset) -> None:
    pooled = xj.rates(ds, protocol=xj.Protocol(aggregate="micro"))
    assert pooled["ca"].dims == ("rater",)
    labels = ds["label"].sel(rater="j1").values
    assert float(pooled["ca"].sel(rater="j1")) == (labels == CA).sum() / (labels != MISSING).sum()
    sliced = xj.rates(ds, by="system")
    part = xj.rates(ds.isel(item=slice(0, None, 2)))
    for name in ("answered", "positive", "n_joint"):
        xr.testing.assert_equal(sliced[name].sel(system="a", drop=True), part[name])


def test_positive_needs_a_binary_protocol_and_ties_a_pairwise_scale() -> None:
    ordinal = dataset(random_codes(1, (30, 2), 4), ["human", "judge"], xj.Scale.ordinal([1, 2, 3, 4]))
    assert "positive" not in xj.rates(ordinal)
    mapped = xj.rates(ordinal, protocol=xj.Protocol(scale_map=xj.at_least(3)))
    labels = ordinal["label"].values[:, 1]
    assert float(mapped["positive"].sel(rater="j1")) == (labels >= 2).sum() / (labels >= 0).sum()
    pairwise = dataset([[0, 2], [1, 2], [2, -2]], ["human", "judge"], xj.Scale.pairwise("A", "B", tie="tie"))
    assert xj.rates(pairwise)["tie"].values.tolist() == [1 / 3, 1.0]


def test_a_rater_who_was_never_asked_has_no_rates() -> None:
    result = xj.rates(dataset([[0, -1], [1, -1]], ["human", "judge"]))
    assert np.isnan(result["ca"].sel(rater="j1"))
    assert float(result["missing"].sel(rater="j1")) == 1.0
    assert int(result["n_overlap"].sel(rater_a="h1", rater_b="j1")) == 0


def test_parts_of_the_overlap_graph() -> None:
    codes = np.full((6, 5), MISSING)
    codes[0, [0, 1]] = codes[1, [1, 2]] = 0  # a chain of three, of whom the ends never meet
    codes[2, [3, 4]] = CA  # asked together is overlap, answered or not
    ds = dataset(codes, ["human", "human", "judge", "human", "judge"])
    result = xj.rates(ds)
    assert result["component"].values.tolist() == [0, 0, 0, 1, 1]
    assert int(result["n_overlap"].sel(rater_a="h1", rater_b="j1")) == 0


def test_rates_are_rebuilt_and_refuse_unknown_codes(ds: xr.Dataset) -> None:
    xr.testing.assert_identical(xj.rebuild(xj.rates(ds), ds), xj.rates(ds))
    wrong = ds.copy(deep=True)
    wrong["label"].values[0, 0, 0] = 5
    with pytest.raises(xj.VocabularyError, match="rater h1, criterion c0: 1"):
        xj.rates(wrong)


# -------------------------------------------------------------------------------------------------- validate


def test_validate_returns_the_dataset_itself(ds: xr.Dataset, count_computes: Any) -> None:
    assert xj.validate(ds) is ds
    lazy = ds.chunk(item=9)
    with count_computes() as computes:
        assert lazy.judge.validate() is lazy
    assert computes.n == 1


def test_validate_names_what_is_wrong(ds: xr.Dataset) -> None:
    with pytest.raises(xj.StructureError, match="role"):
        xj.validate(ds.drop_vars("role"))
    wrong = ds.copy(deep=True)
    wrong["label"].values[:, 1, 0] = 9
    wrong["label"].values[:, 2, 1] = -7
    with pytest.raises(xj.VocabularyError) as error:
        xj.validate(wrong)
    assert "code 9 (rater j1, criterion c0: 50 labels)" in str(error.value)
    assert "code -7 (rater h2, criterion c1: 50 labels)" in str(error.value)


def test_a_population_of_single_cases_narrows_the_rates(ds: xr.Dataset) -> None:
    kept = np.arange(100).reshape(50, 2) % 3 == 0
    whole = ds.assign(kept=(("item", "criterion"), kept))
    result = xj.rates(whole, protocol=xj.Protocol(population="kept"))
    labels = ds["label"].sel(rater="h2", criterion="c0").values[kept[:, 0]]
    assert int(result["n_asked"].sel(rater="h2", criterion="c0")) == (labels != MISSING).sum()
    assert float(result["missing"].sel(rater="h2", criterion="c0")) == (labels == MISSING).mean()

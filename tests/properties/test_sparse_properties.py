"""What holds of crowds on any answers: no number depends on layout, chunks, or who sits in a place."""

from __future__ import annotations

import warnings
from typing import Any
from unittest import mock

import numpy as np
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

import xjudge as xj

SCALE = xj.Scale.ordinal(["low", "middle", "high"])
N_ITEMS, N_RATERS = 7, 6
CALLS: list[tuple[Any, dict[str, Any]]] = [
    (xj.reliability, {"statistic": ["alpha", "fleiss_kappa", "gwet_ac"], "metric": "ordinal"}),
    (xj.reliability, {"protocol": xj.Protocol(ca="category", aggregate="micro")}),
    (xj.agreement, {"reference": "pooled"}),
    (xj.agreement, {"reference": "majority", "protocol": xj.Protocol(aggregate="macro")}),
    (xj.tables, {"reference": "pooled"}),
    (xj.effective_size, {"interval": None}),
]
calls = st.sampled_from(range(len(CALLS)))


@st.composite
def cubes(draw: st.DrawFn) -> xr.Dataset:
    """Four humans and two judges, two criteria, every outcome, most labels missing."""
    said = st.sampled_from([-1] * 6 + [-2, -3, 0, 0, 1, 2])
    shape = (N_ITEMS, N_RATERS, 2)
    size = int(np.prod(shape))
    codes = np.array(draw(st.lists(said, min_size=size, max_size=size)), dtype=np.int8).reshape(shape)
    roles = ["human", "judge", "human", "human", "judge", "human"]
    return xr.Dataset(
        {"label": (("item", "rater", "criterion"), codes, SCALE.to_attrs())},
        coords={
            "item": [f"i{n}" for n in range(N_ITEMS)],
            "rater": [f"r{n}" for n in range(N_RATERS)],
            "criterion": ["Q1", "Q2"],
            "role": ("rater", roles),
        },
    )


def crowd(call: int, ds: xr.Dataset) -> xr.Dataset:
    """A verb that gives columns to the judges alone, so that the humans share places."""
    verb, options = CALLS[call]
    with mock.patch("xjudge.view.FEW_RATERS", 3), warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XJudgeWarning)
        return verb(ds, **options)


def same(found: xr.Dataset, expected: xr.Dataset) -> None:
    xr.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-13)


@given(cubes(), calls, st.lists(st.integers(1, 9), max_size=4), st.booleans())
def test_layout_and_chunks_change_no_number(
    ds: xr.Dataset, call: int, sizes: list[int], lazy_codes: bool
) -> None:
    sparse = xj.to_sparse(ds)
    xr.testing.assert_identical(xj.to_dense(sparse)["label"], ds["label"])
    xj.validate(sparse)
    expected = crowd(call, ds)
    same(crowd(call, sparse), expected)
    n = sparse.sizes["answer"]
    ends = [end for end in np.cumsum(sizes).tolist() if end < n]
    chunks = tuple(np.diff([0, *ends, n]).tolist())
    chunked = sparse.assign(label=sparse["label"].chunk(answer=chunks)) if n else sparse
    same(crowd(call, chunked.chunk(answer=chunks) if lazy_codes and n else chunked), expected)


@given(cubes(), calls, st.permutations(range(N_RATERS)), st.permutations(range(N_ITEMS)))
def test_order_of_raters_and_items(ds: xr.Dataset, call: int, raters: list[int], items: list[int]) -> None:
    mixed = xj.to_sparse(ds.isel(rater=raters, item=items))
    expected = crowd(call, xj.to_sparse(ds))
    found = crowd(call, mixed)
    same(found.sel(rater=expected["rater"]) if "rater" in expected.dims else found, expected)


@given(cubes(), calls, st.randoms(use_true_random=False))
def test_who_sits_in_a_place_does_not_matter(ds: xr.Dataset, call: int, random: Any) -> None:
    """Humans exchanged with each other item by item, with all that they said of it."""
    humans = np.flatnonzero(ds["role"] == "human")
    codes = ds["label"].values.copy()
    for item in range(N_ITEMS):
        order = humans.tolist()
        random.shuffle(order)
        codes[item, humans] = codes[item, order]
    same(crowd(call, xj.to_sparse(ds.copy(data={"label": codes}))), crowd(call, xj.to_sparse(ds)))


@given(cubes(), st.sampled_from([None, "micro"]))
def test_pairs_are_those_of_the_matrix(ds: xr.Dataset, aggregate: Any) -> None:
    protocol = xj.Protocol(aggregate=aggregate)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XJudgeWarning)
        found = xj.pair_agreement(ds, statistic=["accuracy", "kappa"], protocol=protocol, interval=None)
        matrix = xj.agreement(
            ds, raters="all", statistic=["accuracy", "kappa"], protocol=protocol, interval=None
        )
    n = matrix["n"].max([dim for dim in matrix["n"].dims if dim == "criterion"])
    assert found.sizes["pair"] == int((np.triu(n.values, 1) > 0).sum())
    each = matrix.sel(rater_a=found["rater_a"], rater_b=found["rater_b"])
    for name in ("accuracy", "kappa", "n", "n_items", "n_eligible"):
        expected = each[name].transpose(*found[name].dims)
        np.testing.assert_allclose(found[name].values, expected.values, rtol=1e-12)

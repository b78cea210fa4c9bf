"""Verbs that count every item once say so where the items stand for unequal numbers of others."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import verbs
import xarray as xr

import xjudge as xj

MESSAGE = "Items were drawn at unequal rates"

HONOURED = ("loo_validate",)
"""Where the weights are taken."""
REFUSED = ("loo_validate, micro", "loo_validate, kappa")
"""Where the weights would have to be taken and cannot be."""
NO_ESTIMATES = ("validate", "tables", "disagreements", "allocate", "to_long", "to_sparse", "join")
"""Where nothing is estimated."""


def weighted(ds: xr.Dataset) -> xr.Dataset:
    """Two strata, from one of which only one item in five was drawn."""
    stratum = np.arange(ds.sizes["item"]) % 4 == 0
    return ds.assign_coords(
        stratum=("item", stratum.astype(int)), sampling_weight=("item", np.where(stratum, 5.0, 1.0))
    )


def told(call: Callable[[], Any]) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    return [str(one.message) for one in found if str(one.message).startswith(MESSAGE)]


@pytest.mark.parametrize("name", list(verbs.CASES))
def test_every_verb(name: str) -> None:
    case = verbs.CASES[name]
    ds = weighted(verbs.DATASETS[case.data]())
    if name in REFUSED:
        with pytest.raises(xj.ProtocolError, match="strata=False"):
            case.call(ds)
        return
    messages = told(lambda: case.call(ds))
    silent = name.startswith((*HONOURED, *NO_ESTIMATES))
    assert len(messages) == (0 if silent else 1)


def _agreement(ds: xr.Dataset, **options: Any) -> Callable[[], xr.Dataset]:
    return lambda: xj.agreement(ds, reference="pooled", **options)


def test_what_it_says() -> None:
    (message,) = told(_agreement(weighted(verbs.cube())))
    assert "`sampling_weight` from 1 to 5" in message
    assert "by='stratum'" in message
    assert "xj.loo_validate" in message
    assert "drop_vars('sampling_weight')" in message
    with pytest.warns(xj.XJudgeWarning, match=MESSAGE) as found:
        xj.agreement(weighted(verbs.cube()), reference="pooled")
    assert {one.filename for one in found} == {__file__}


@pytest.mark.parametrize(
    "weight",
    [
        np.full(verbs.N_ITEMS, 4.2),
        np.where(np.arange(verbs.N_ITEMS) % 2, 4.2, 0.0),
        np.where(np.arange(verbs.N_ITEMS) % 2, 7.0, np.nan),
        np.zeros(verbs.N_ITEMS),
        np.full(verbs.N_ITEMS, 3),
        np.full(verbs.N_ITEMS, "much"),
        0.1 * np.where(np.arange(verbs.N_ITEMS) % 2, 3, 0.3 / 0.1),
    ],
)
def test_nothing_where_all_that_were_drawn_weigh_alike(weight: np.ndarray) -> None:
    assert told(_agreement(verbs.cube().assign_coords(sampling_weight=("item", weight)))) == []


@pytest.mark.parametrize(
    "weight",
    [
        pd.array([1, 2, None, *[1] * (verbs.N_ITEMS - 3)], dtype="Int64"),
        np.array([1, None, 2.5, *[1] * (verbs.N_ITEMS - 3)], dtype=object),
        np.array([2, -1, np.inf, 3, *[2] * (verbs.N_ITEMS - 4)], dtype=np.float32),
    ],
)
def test_weights_of_any_dtype(weight: Any) -> None:
    assert len(told(_agreement(verbs.cube().assign_coords(sampling_weight=("item", weight))))) == 1


def test_strata_apart_are_counted_right() -> None:
    ds = weighted(verbs.cube())
    assert told(_agreement(ds, by="stratum")) == []
    assert told(_agreement(ds.isel(item=ds["stratum"].values == 1))) == []
    assert len(told(_agreement(ds, by="system"))) == 1


def test_two_verbs_say_it_twice_and_lazily_too() -> None:
    ds = weighted(verbs.cube())
    call = _agreement(ds)
    assert len(told(lambda: (call(), call()))) == 2
    chunked = verbs.chunked(verbs.cube()).assign_coords(
        sampling_weight=ds["sampling_weight"], stratum=ds["stratum"]
    )
    assert len(told(_agreement(chunked))) == 1
    assert len(told(_agreement(chunked, compute=False))) == 1


def test_loo_validate_decides() -> None:
    ds = weighted(verbs.flat())
    assert told(lambda: xj.loo_validate(ds)) == []
    assert told(lambda: xj.loo_validate(ds, strata=False)) == []
    assert len(told(lambda: xj.loo_validate(ds.drop_vars("stratum")))) == 1


def test_a_sheet_of_allocate() -> None:
    ds = verbs.flat()
    ds = ds.assign(label=ds["label"].where(ds["label"] >= 0, 0).astype(np.int8))
    sheet = xj.allocate(ds, 10, design="strat")
    joined = xj.join(ds, sheet)
    drawn = joined["sampling_weight"].values
    unequal = len(np.unique(drawn[drawn > 0])) > 1
    assert unequal
    assert len(told(_agreement(joined))) == 1


def test_crowds_too() -> None:
    sparse = xj.to_sparse(weighted(verbs.flat()))
    assert len(told(lambda: xj.agreement(sparse, reference="pooled"))) == 1
    assert len(told(lambda: xj.pair_agreement(sparse))) == 1

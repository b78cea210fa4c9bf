"""A lazy long table read by separate processes gives what threads give, with and without a shuffle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import xjudge as xj
from xjudge.errors import StructureError

distributed = pytest.importorskip("distributed")

OPTIONS: dict[str, Any] = {"judges": ["r3"], "scale": xj.Scale.binary("no", "yes"), "ca": "CA"}


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def frame(spread: bool) -> pd.DataFrame:
    """Labels of four raters for 60 items, sorted by item, or a part for each rater."""
    rng = np.random.default_rng(0)
    item = np.repeat([f"i{k}" for k in range(60)], 4)
    rater = np.tile(["r0", "r1", "r2", "r3"], 60)
    table = pd.DataFrame({"item": item, "rater": rater, "label": rng.choice(["yes", "no", "CA"], 240)})
    table["length"] = table["item"].str.len() * 1.5
    return table.sort_values("rater", kind="stable", ignore_index=True) if spread else table


@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_processes_give_what_threads_give(client: Any, spread: bool) -> None:
    table = frame(spread)
    source = dd.from_pandas(table, npartitions=4, sort=False)
    ds = xj.from_long(source, **OPTIONS)
    there = xj.from_long(table, **OPTIONS)
    held = ds.compute()
    assert (held["item"].values.tolist() == there["item"].values.tolist()) is not spread
    xr.testing.assert_identical(held.sel(item=there["item"]), there)
    xr.testing.assert_equal(xj.agreement(ds, interval=None), xj.agreement(there, interval=None))
    twice = dd.from_pandas(pd.concat([table, table.iloc[[0, 7]]]), npartitions=4, sort=False)
    with pytest.raises(StructureError, match=r"2 cells have more than one label \(4 rows\): item 'i"):
        xj.from_long(twice, **OPTIONS)

"""Labels that ``where`` made floats: every verb reads them as it reads the integers they stand for."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import xarray as xr
from verbs import CASES, CHUNKS, DATASETS, N_ITEMS, chunked, quiet, same

from xjudge.codes import MISSING

KEPT = xr.DataArray(np.arange(N_ITEMS) % 7 != 2, dims="item")


@functools.cache
def expected(case: str) -> object:
    ds = DATASETS[CASES[case].data]()
    return quiet(CASES[case].call, ds.assign(label=ds["label"].where(KEPT, MISSING)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", CASES)
def test_floats_with_nan_are_the_codes_they_were(case: str, dtype: type[np.floating]) -> None:
    ds = DATASETS[CASES[case].data]()
    same(quiet(CASES[case].call, ds.assign(label=ds["label"].astype(dtype).where(KEPT))), expected(case))


@pytest.mark.parametrize("case", CASES)
def test_lazy_ones_too(case: str) -> None:
    ds = DATASETS[CASES[case].data]()
    floats = ds.assign(label=ds["label"].where(KEPT))
    found = quiet(CASES[case].call, chunked(floats, CHUNKS))
    same(found.compute() if isinstance(found, xr.Dataset) else found, expected(case))

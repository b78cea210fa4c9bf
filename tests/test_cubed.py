"""Arrays of another engine: what is lazy by xarray's own doing works, and a count says where to go."""

from __future__ import annotations

from pathlib import Path

import pytest
import xarray as xr
from labels import dataset, random_codes

import xjudge as xj

cubed = pytest.importorskip("cubed", reason="cubed is not installed")
pytest.importorskip("cubed_xarray", reason="cubed-xarray is not installed")

pytestmark = pytest.mark.filterwarnings("ignore:The data type:UserWarning")


@pytest.fixture
def ds(tmp_path: Path) -> tuple[xr.Dataset, xr.Dataset]:
    """A dataset in memory, and with its labels in chunks of cubed."""
    ds = dataset(random_codes(0, (50, 4), 2), ["human", "human", "judge", "judge"])
    spec = cubed.Spec(work_dir=str(tmp_path), allowed_mem="200MB")
    label = ds["label"].chunk({"item": 20}, chunked_array_type="cubed", from_array_kwargs={"spec": spec})
    return ds, ds.assign(label=label)


def test_masks_are_lazy(ds: tuple[xr.Dataset, xr.Dataset]) -> None:
    found = xj.mask(ds[1], "answered")
    assert isinstance(found.data, cubed.Array)
    xr.testing.assert_identical(found.compute(), xj.mask(ds[0], "answered"))


@pytest.mark.parametrize("verb", [xj.tables, xj.agreement, xj.reliability, xj.rates, xj.effective_size])
def test_counts_say_where_to_go(ds: tuple[xr.Dataset, xr.Dataset], verb: object) -> None:
    with pytest.raises(xj.StructureError, match=r"a cubed\.Array.*open_zarr.*\.compute\(\)"):
        verb(ds[1])  # type: ignore[operator]


def test_once_computed_they_are_counted(ds: tuple[xr.Dataset, xr.Dataset]) -> None:
    xr.testing.assert_identical(xj.tables(ds[1].compute()), xj.tables(ds[0]))

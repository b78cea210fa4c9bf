"""In from parquet, out to zarr and netCDF, and the verbs on what was opened lazily."""

from __future__ import annotations

import shutil
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from dask.diagnostics import ProgressBar
from labels import dataset, random_codes

import xjudge as xj
from xjudge.errors import DependencyError, StructureError

YES_NO = xj.Scale.binary("no", "yes")


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    """Without what zarr 3 says of the metadata of every store."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Consolidated metadata is currently not part")
        warnings.filterwarnings("ignore", message="Failed to open Zarr store with consolidated metadata")
        warnings.filterwarnings("ignore", message="The inplace keyword")  # in dask's reading of parquet
        yield


def frame(start: int, stop: int, raters: tuple[str, ...] = ("ann", "bob", "gpt")) -> pd.DataFrame:
    """Labels of items with numbers in a range, every outcome among them; the same for the same items."""
    words = ["yes", "no", "CA", "error", "yes", "no", "no"]
    rows = [
        (f"item {k}", rater, words[np.random.default_rng([k, r]).integers(7)])
        for k in range(start, stop)
        for r, rater in enumerate(raters)
    ]
    table = pd.DataFrame(rows, columns=["item", "rater", "label"])
    table["system"] = np.where(table["item"].str[-1].isin(list("13579")), "odd", "even")
    table["length"] = table["item"].str.len() + 0.5
    return table


def built(start: int, stop: int, *, lazy: int = 0, **options: Any) -> xr.Dataset:
    """A judge dataset of these labels, of ``lazy`` partitions."""
    raters = options.pop("raters", ("ann", "bob", "gpt"))
    table: Any = frame(start, stop, raters)
    if lazy:
        step = -(-(stop - start) // lazy)
        pieces = [frame(k, min(k + step, stop), raters) for k in range(start, stop, step)]
        table = dd.from_map(lambda k: pieces[k], range(len(pieces)), meta=pieces[0].iloc[:0])
    options = {"judges": ["gpt"], "scale": YES_NO, "ca": "CA", "invalid": "error"} | options
    return xj.from_long(table, **options)


def assert_same(again: xr.Dataset, ds: xr.Dataset) -> None:
    """Equal values, dtypes, scale and attributes, but for the container of text."""
    again, ds = again.compute(), ds.compute()
    assert xj.Scale.from_attrs(again["label"].attrs) == xj.Scale.from_attrs(ds["label"].attrs)
    assert again.attrs == ds.attrs
    assert again["label"].dtype == ds["label"].dtype == np.int8
    xr.testing.assert_equal(again, ds)


# -------------------------------------------------------------------------------------------- there and back


def open_zarr(ds: xr.Dataset, path: Path) -> xr.Dataset:
    ds.to_zarr(path / "ds.zarr")
    return xr.open_zarr(path / "ds.zarr")


def open_zip(ds: xr.Dataset, path: Path) -> xr.Dataset:
    from zarr.storage import ZipStore

    ds.to_zarr(path / "ds.zarr")
    packed = shutil.make_archive(str(path / "ds"), "zip", path / "ds.zarr")
    return xr.open_zarr(ZipStore(packed, mode="r"))


def open_netcdf(ds: xr.Dataset, path: Path) -> xr.Dataset:
    ds.to_netcdf(path / "ds.nc", engine="h5netcdf")
    return xr.open_dataset(path / "ds.nc", engine="h5netcdf", chunks={"item": 7})


STORES: dict[str, Callable[[xr.Dataset, Path], xr.Dataset]] = {
    "zarr": open_zarr,
    "zip": open_zip,
    "netcdf": open_netcdf,
}


@pytest.mark.parametrize("store", list(STORES))
def test_parquet_to_a_store_to_verbs(store: str, tmp_path: Path) -> None:
    folder = tmp_path / "labels"
    folder.mkdir()
    for number, start in enumerate(range(0, 60, 20)):
        frame(start, start + 20).to_parquet(folder / f"part-{number}.parquet", index=False)
    options: dict[str, Any] = {"judges": ["gpt"], "scale": YES_NO, "ca": "CA", "invalid": "error"}
    lazy = xj.from_long(dd.read_parquet(folder), **options)
    there = built(0, 60)
    again = STORES[store](lazy, tmp_path)
    assert_same(again, there)
    assert again["label"].chunks is not None
    statistics: list[Callable[[xr.Dataset], xr.Dataset]] = [
        lambda ds: xj.agreement(ds, interval=None),
        lambda ds: xj.reliability(ds, raters="all", interval=None),
        lambda ds: xj.rates(ds),
        lambda ds: xj.agreement(ds, by="system", interval=None),
    ]
    for statistic in statistics:
        xr.testing.assert_equal(statistic(again), statistic(there))


def test_a_lazy_dataset_is_written_as_it_stands(tmp_path: Path) -> None:
    lazy = built(0, 50, lazy=3)
    assert lazy["label"].chunks == ((50,), (3,))  # small partitions make one chunk
    lazy.to_zarr(tmp_path / "a.zarr")
    assert xr.open_zarr(tmp_path / "a.zarr")["label"].encoding["chunks"] == (50, 3)
    pieces = [pd.DataFrame({"item": np.arange(k, k + n), "rater": 1, "label": "no"}) for k, n in _UNEVEN]
    table = dd.from_map(lambda k: pieces[k], range(len(pieces)), meta=pieces[0].iloc[:0])
    uneven = xj.from_long(table, humans=[1], scale=YES_NO)
    sizes = uneven["label"].chunks[0]
    assert len(sizes) == 3
    assert len(set(sizes[:-1])) == 1
    assert max(sizes) == 1 << 20
    uneven.to_zarr(tmp_path / "b.zarr")
    again = xr.open_zarr(tmp_path / "b.zarr")
    assert again["label"].sizes == {"item": sum(n for _, n in _UNEVEN), "rater": 1}
    assert not again["label"].any()


_UNEVEN = [(0, 700_000), (700_000, 1_000_000), (1_700_000, 500_000)]


# ------------------------------------------------------------------------------------------------ appending


@pytest.mark.parametrize("lazy", [0, 2, 3])
def test_items_are_appended(lazy: int, tmp_path: Path) -> None:
    path = tmp_path / "grows.zarr"
    ds = xj.append_to_zarr(built(0, 10, lazy=lazy), path)
    assert_same(ds, built(0, 10))
    for start, stop in [(10, 17), (17, 18), (18, 49)]:
        ds = built(start, stop, lazy=lazy).judge.append_to_zarr(path)
        assert_same(ds, built(0, stop))
    assert ds["label"].chunks is not None
    assert ds["label"].encoding["chunks"] == (10, 3)
    xr.testing.assert_equal(xj.agreement(ds, interval=None), xj.agreement(built(0, 49), interval=None))


@pytest.mark.parametrize("chunks", [1, 3, (1, 4, 2, 12, 1), 20])
def test_any_chunks_are_appended_to_any_chunks(chunks: Any, tmp_path: Path) -> None:
    path = tmp_path / "grows.zarr"
    xj.append_to_zarr(built(0, 9).chunk({"item": 4}), path)
    ds = xj.append_to_zarr(built(9, 29).chunk({"item": chunks}), path)
    assert_same(ds, built(0, 29))
    assert ds["label"].encoding["chunks"] == (4, 3)
    ragged = xj.append_to_zarr(built(0, 20).chunk({"item": chunks}), tmp_path / "other.zarr")
    assert_same(ragged, built(0, 20))


def test_raters_in_another_order_are_put_in_order(tmp_path: Path) -> None:
    xj.append_to_zarr(built(0, 5), tmp_path / "ds.zarr")
    other = built(5, 9).isel(rater=[2, 0, 1])
    ds = xj.append_to_zarr(other, tmp_path / "ds.zarr")
    assert_same(ds, built(0, 9))


def test_criteria_scores_and_integer_ids_are_appended(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"item": np.repeat(np.arange(8), 4), "rater": [1, 1, 2, 2] * 8, "criterion": [1, 2] * 16}
    )
    table["label"] = rng.random(32)
    table["weight"] = table["criterion"] * 0.5
    options: dict[str, Any] = {"criterion": "criterion", "judges": [2], "scale": xj.Scale.continuous()}
    for rows in (slice(0, 12), slice(12, 32)):
        ds = xj.append_to_zarr(xj.from_long(table[rows], **options), tmp_path / "ds.zarr")
    assert_same(ds, xj.from_long(table, **options))
    assert ds["score"].dtype == np.float64


def other_datasets() -> dict[str, tuple[Callable[[], xr.Dataset], str]]:
    return {
        "scale": (
            lambda: built(9, 12, scale=xj.Scale.nominal(["no", "yes", "maybe"])),
            r"Its scale is Scale\.nominal.* that of the store is Scale\.binary",
        ),
        "rater": (
            lambda: built(9, 12, raters=("ann", "eve", "gpt")),
            r"Along `rater` it has 'eve', whom the store does not know and lacks 'bob', whom the store has\.",
        ),
        "fewer": (
            lambda: built(9, 12, raters=("ann", "gpt")),
            r"Along `rater` it lacks 'bob'.* `ds\.reindex\(rater=",
        ),
        "role": (lambda: built(9, 12, judges=["bob", "gpt"]), r"`role` is 'human', 'judge', 'judge'"),
        "items": (
            lambda: built(3, 12),
            r"stand in the store already: 'item 3', 'item 4', 'item 5' and",
        ),
        "covariate": (lambda: built(9, 12).drop_vars("system"), "It lacks 'system', which the store has"),
        "variable": (lambda: built(9, 12).assign(extra=1), "It has 'extra', which the store has not"),
        "dtype": (
            lambda: built(9, 12).assign_coords(length=("item", ["a", "b", "c"])),
            "`length` holds .*, and in the store float64",
        ),
        "ids": (lambda: built(9, 12).assign_coords(item=[9, 10, 11]), "`item` holds int64, and in the store"),
        "dims": (
            lambda: built(9, 12).expand_dims(criterion=["q"], axis=-1),
            r"`label` lives on \(item, rater, criterion\), and in the store on \(item, rater\)",
        ),
        "repeated": (lambda: built(9, 12).isel(item=[0, 1, 1]), "Items are repeated: 'item 10'"),
        "sparse": (lambda: built(9, 12, layout="sparse"), "has the sparse one"),
        "none": (lambda: xr.Dataset({"x": 1}), "no variable `label`"),
    }


@pytest.mark.parametrize("kind", list(other_datasets()))
def test_what_does_not_go_on_is_refused_before_anything_is_written(kind: str, tmp_path: Path) -> None:
    xj.append_to_zarr(built(0, 9), tmp_path / "ds.zarr")
    make, message = other_datasets()[kind]
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(StructureError, match=message):
        xj.append_to_zarr(make(), tmp_path / "ds.zarr")
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert_same(xr.open_zarr(tmp_path / "ds.zarr"), built(0, 9))


def test_a_zip_and_a_store_of_something_else_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StructureError, match="Nothing is appended to a zip file"):
        xj.append_to_zarr(built(0, 3), tmp_path / "ds.zip")
    xr.Dataset({"x": ("item", [1])}).to_zarr(tmp_path / "ds.zarr")
    with pytest.raises(StructureError, match="no variable `label`; it has 'x'"):
        xj.append_to_zarr(built(0, 3), tmp_path / "ds.zarr")


def text_of_fixed_length(start: int, stop: int) -> xr.Dataset:
    """Ids, names and covariates as numpy's texts, just as long as they need to be."""
    ds = built(start, stop)
    return ds.assign_coords(
        {
            name: (one.dims, one.values.astype(str))
            for name, one in ds.coords.items()
            if one.dtype.kind in "OT"
        }
    )


@pytest.mark.parametrize("chunks", [None, 2])
def test_shorter_texts_are_appended(chunks: int | None, tmp_path: Path) -> None:
    store, first, more = tmp_path / "labels.zarr", text_of_fixed_length(10, 14), text_of_fixed_length(0, 5)
    assert more["item"].dtype.itemsize < first["item"].dtype.itemsize
    xj.append_to_zarr(first, store)
    got = xj.append_to_zarr(more if chunks is None else more.chunk(item=chunks), store)
    assert got["item"].values.tolist() == [*first["item"].values, *more["item"].values]
    for name in ("label", "system", "length"):
        expected = np.concatenate([first[name].values, more[name].values])
        np.testing.assert_array_equal(got[name].values, expected)
    # names as objects where the store has texts of one length
    named = text_of_fixed_length(20, 22)
    got = xj.append_to_zarr(named.assign_coords(rater=named["rater"].values.astype(object)), store)
    assert got.sizes["item"] == 11
    assert got["rater"].values.tolist() == ["ann", "bob", "gpt"]


def test_items_without_ids_are_appended(tmp_path: Path) -> None:
    ds = built(0, 4).drop_vars("item")
    xj.append_to_zarr(ds, tmp_path / "labels.zarr")
    got = xj.append_to_zarr(ds, tmp_path / "labels.zarr")
    assert got["label"].values.tolist() == [*ds["label"].values.tolist(), *ds["label"].values.tolist()]
    with pytest.raises(StructureError, match="It has 'item', which the store has not"):
        xj.append_to_zarr(built(0, 4), tmp_path / "labels.zarr")


def test_ids_of_two_types_are_refused(tmp_path: Path) -> None:
    mixed = built(0, 4).assign_coords(item=np.array(["a", 1, "b", 2], dtype=object))
    with pytest.raises(StructureError, match=r"'item' holds values of different types.*astype\(str\)"):
        xj.append_to_zarr(mixed, tmp_path / "labels.zarr")
    assert not (tmp_path / "labels.zarr").exists()
    # a covariate that some items lack is of one type
    some = built(0, 4).assign_coords(system=("item", np.array(["x", None, "y", "x"], dtype=object)))
    assert xj.append_to_zarr(some, tmp_path / "labels.zarr").sizes["item"] == 4


def test_without_zarr_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(DependencyError, match=r'pip install "xjudge\[io\]"'):
        xj.append_to_zarr(built(0, 4), tmp_path / "labels.zarr")


def test_longer_texts_than_the_store_was_made_for_are_refused(tmp_path: Path) -> None:
    short = built(0, 3).assign_coords(system=("item", np.array(["a", "b", "c"], dtype="<U1")))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The data type .* does not have a Zarr V3 specification")
        xj.append_to_zarr(short, tmp_path / "ds.zarr")
        long = built(3, 6).assign_coords(system=("item", ["a", "bbb", "c"]))
        with pytest.raises(StructureError, match="texts of up to 3 characters, and the store was made for 1"):
            xj.append_to_zarr(long, tmp_path / "ds.zarr")


# ------------------------------------------------------------------------------------------------- progress


def test_progress_is_seen_by_the_callbacks_of_dask(capsys: pytest.CaptureFixture[str]) -> None:
    ds = dataset(random_codes(0, (40, 3), 2), ["human", "human", "judge"]).chunk({"item": 10})
    with ProgressBar(minimum=0, dt=0.01):
        xj.agreement(ds, interval=None)
    assert "100% Completed" in capsys.readouterr().out
    with ProgressBar(minimum=0, dt=0.01):
        built(0, 30, lazy=3)
    assert "100% Completed" in capsys.readouterr().out


def test_progress_in_tqdm_counts_every_task(capsys: pytest.CaptureFixture[str]) -> None:
    callback = pytest.importorskip("tqdm.dask").TqdmCallback
    ds = dataset(random_codes(0, (40, 3), 2), ["human", "human", "judge"]).chunk({"item": 10})
    with callback(desc="labels") as bar:
        xj.agreement(ds, interval=None)
    told = capsys.readouterr().err
    assert "labels: 100%" in told
    assert bar.pbar.n == bar.pbar.total

"""Judge datasets go to long frames and to files and come back as they were."""

from __future__ import annotations

import importlib.metadata
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from shared import SHARED, needs_shared

from xjudge.build import from_counts, from_long, join, to_long
from xjudge.errors import DependencyError, StructureError, VocabularyError
from xjudge.scale import Scale
from xjudge.schema import check_dataset

YES_NO = Scale.binary("no", "yes")
ONE_TO_FOUR = Scale.ordinal([1, 2, 3, 4])


def example(scale: Scale = ONE_TO_FOUR, **options: Any) -> xr.Dataset:
    """Every outcome, covariates of every kind, two criteria."""
    values = [*scale.categories, *scale.categories] if scale.categories else [0.5, 1.25, 2.0, -1.5]
    rows = [
        (item, rater, criterion)
        for item in ("b", "a", "c")
        for rater in ("ann", "bob", "gpt")
        for criterion in ("Q1", "Q2")
    ]
    frame = pd.DataFrame(rows, columns=["item", "rater", "criterion"])
    frame["label"] = pd.Series([values[k % len(values)] for k in range(len(rows))], dtype=object)
    frame.loc[[1, 8], "label"] = "CA"
    frame.loc[[5], "label"] = "error"
    frame.loc[[3, 17], "label"] = None
    frame["system"] = frame["item"].map({"a": "x", "b": None, "c": "z"})
    frame["length"] = frame["item"].map({"a": 1, "b": 2, "c": 3})
    frame["difficulty"] = frame["item"].map({"a": 0.5, "b": np.nan, "c": 0.25})
    frame["hard"] = frame["item"].map({"a": True, "b": False, "c": True})
    frame["when"] = frame["item"].map(
        dict(zip("abc", pd.to_datetime(["2024-01-01", None, "2024-03-01"]), strict=True))
    )
    frame["family"] = frame["rater"].map({"ann": "", "bob": "", "gpt": "open"})
    frame["weight"] = frame["criterion"].map({"Q1": 1.0, "Q2": 2.5})
    frame["sure"] = np.where(frame["rater"] == "gpt", np.arange(len(rows)) / 10, np.nan)
    return from_long(
        frame,
        criterion="criterion",
        judges=["gpt"],
        scale=scale,
        ca="CA",
        invalid="error",
        confidence="sure",
        **options,
    )


def bare(ds: xr.Dataset) -> xr.Dataset:
    """Return the dataset without the account of what was read."""
    out = ds.copy()
    out.attrs = {}
    return out


SCALES = [
    ONE_TO_FOUR,
    YES_NO,
    Scale.binary(False, True),
    Scale.nominal(["red herring", "blue", "CÄ", ""]),
    Scale.interval([0.5, 1, 2.25]),
    Scale.pairwise("A", "B", tie="tie"),
    Scale.nominal([1, "1", True]),
    Scale.continuous(),
]


# ------------------------------------------------------------------------------------------------ long frames


@pytest.mark.parametrize("scale", SCALES, ids=repr)
def test_dataset_to_long_and_back_is_identical(
    scale: Scale, backend: Callable[[xr.Dataset], xr.Dataset]
) -> None:
    ds = example(scale)
    frame = to_long(backend(ds), missing=True)
    again = from_long(
        frame, criterion="criterion", role="role", status="status", scale=scale, confidence="confidence"
    )
    xr.testing.assert_identical(bare(again), bare(ds))
    assert {n: v.dtype for n, v in again.variables.items()} == {n: v.dtype for n, v in ds.variables.items()}
    twice = to_long(again, missing=True)
    pd.testing.assert_frame_equal(twice, frame)
    options = {"criterion": "criterion", "role": "role", "status": "status", "confidence": "confidence"}
    xr.testing.assert_identical(from_long(twice, scale=scale, **options), again)


def test_long_to_dataset_and_back_is_identical() -> None:
    frame = pd.DataFrame(
        {
            "item": [3, 3, 1, 1, 2, 2],
            "rater": ["ann", "gpt"] * 3,
            "label": pd.array([1, 2, None, 4, None, 3], dtype="Int64"),
            "status": ["answered", "answered", "ca", "answered", "invalid", "answered"],
            "role": ["human", "judge"] * 3,
            "system": ["x", "x", "y", "y", None, None],
            "length": [1.5, 1.5, 2.0, 2.0, np.nan, np.nan],
        }
    )
    ds = from_long(frame, role="role", status="status", scale=ONE_TO_FOUR)
    pd.testing.assert_frame_equal(to_long(ds), frame)
    shuffled = frame.sample(frac=1, random_state=0)
    again = to_long(from_long(shuffled, role="role", status="status", scale=ONE_TO_FOUR))
    pd.testing.assert_frame_equal(
        again.sort_values(["item", "rater"], ignore_index=True),
        frame.sort_values(["item", "rater"], ignore_index=True),
        check_dtype=True,
    )


def test_columns_of_a_long_frame() -> None:
    frame = to_long(example())
    assert list(frame.columns) == [
        *("item", "rater", "criterion", "label", "status", "role"),
        *(
            name
            for name in frame.columns
            if name in {"system", "length", "difficulty", "hard", "when", "family", "weight", "confidence"}
        ),
    ]
    assert len(frame) == 16
    assert frame["status"].value_counts().to_dict() == {"answered": 13, "ca": 2, "invalid": 1}
    assert frame["label"].dtype == "Int64"
    assert frame["item"].dtype == frame["rater"].dtype == pd.Series(["a"]).dtype
    assert frame["length"].dtype == np.int64
    assert frame["hard"].dtype == bool
    assert frame["when"].dtype.kind == "M"
    assert frame["system"].isna().sum() == 5
    assert isinstance(frame.index, pd.RangeIndex)
    everything = to_long(example(), missing=True)
    assert len(everything) == 18
    assert (everything["status"] == "missing").sum() == 2


@pytest.mark.parametrize(
    ("scale", "dtype"),
    [
        (YES_NO, pd.Series(["a"]).dtype),
        (ONE_TO_FOUR, np.int64),
        (Scale.binary(False, True), np.bool_),
        (Scale.interval([0.5, 1.5]), np.float64),
        (Scale.nominal([1, "1"]), object),
        (Scale.continuous(), np.float64),
    ],
)
def test_labels_without_holes_keep_their_type(scale: Scale, dtype: Any) -> None:
    values = list(scale.categories[:2]) or [0.5, 1.5]
    frame = pd.DataFrame({"item": [1, 2], "rater": "ann", "label": pd.Series(values, dtype=object)})
    long = to_long(from_long(frame, humans=["ann"], scale=scale))
    assert long["label"].dtype == dtype
    assert long["label"].tolist() == values
    assert [type(value) for value in long["label"].tolist()] == [type(value) for value in values]


def test_replicates_probabilities_and_identity_go_along() -> None:
    frame = pd.DataFrame(
        {
            "item": ["a", "a", "b"],
            "rater": "gpt",
            "label": ["yes", "no", "yes"],
            "p": [0.25, 0.5, 0.125],
            "q": [0.75, 0.5, 0.875],
        }
    )
    prob = {"no": "p", "yes": "q"}
    ds = from_long(
        frame, judges=["gpt"], scale=YES_NO, prob=prob, duplicates="replicate", identity="positional"
    )
    long = to_long(ds, missing=True)
    assert long["replicate"].tolist() == [0, 1, 0, 1]
    again = from_long(
        long,
        role="role",
        status="status",
        scale=YES_NO,
        replicate="replicate",
        prob={value: f"prob_{value}" for value in YES_NO.categories},
        identity="identity",
    )
    xr.testing.assert_identical(bare(again), bare(ds))


def test_the_sparse_layout_gives_the_same_rows() -> None:
    dense, sparse = example(), example(layout="sparse")
    pd.testing.assert_frame_equal(to_long(sparse), to_long(dense)[list(to_long(sparse).columns)])
    options = {"criterion": "criterion", "role": "role", "status": "status", "confidence": "confidence"}
    again = from_long(to_long(sparse), scale=ONE_TO_FOUR, layout="sparse", **options)
    xr.testing.assert_identical(bare(again), bare(sparse))
    with pytest.raises(StructureError, match="`missing=True` needs the dense one"):
        to_long(sparse, missing=True)


def test_one_compute(count_computes: Any) -> None:
    ds = example().chunk({"item": 1})
    with count_computes() as computes:
        frame = to_long(ds)
    assert computes.n == 1
    pd.testing.assert_frame_equal(frame, to_long(example()))


@pytest.mark.parametrize("layout", ["dense", "sparse"])
@pytest.mark.parametrize("scale", SCALES, ids=repr)
def test_a_lazy_long_frame_has_the_same_rows(scale: Scale, layout: Any) -> None:
    ds = example(scale, layout=layout)
    everything = layout == "dense"
    frame = to_long(ds, missing=everything)
    options = {"criterion": "criterion", "role": "role", "status": "status", "confidence": "confidence"}
    for chunks in (
        (None, {"item": 1}, {"item": 2, "rater": 2}) if layout == "dense" else (None, {"answer": 6})
    ):
        lazy = to_long(ds if chunks is None else ds.chunk(chunks), missing=everything, lazy=True)
        with dask.config.set({"dataframe.convert-string": False}):  # dask 2024.11 reads it as late as this
            held = lazy.compute()
        assert lazy.dtypes.to_dict() == held.dtypes.to_dict()
        pd.testing.assert_frame_equal(held.reset_index(drop=True), frame, check_dtype=False)
        with dask.config.set({"dataframe.convert-string": False}):
            again = from_long(lazy, scale=scale, layout=layout, **options).compute()
        if layout == "dense":
            xr.testing.assert_identical(bare(again), bare(ds))
        else:
            ordered = to_long(again).sort_values(["item", "rater", "criterion"], ignore_index=True)
            pd.testing.assert_frame_equal(
                ordered, frame.sort_values(["item", "rater", "criterion"], ignore_index=True)
            )


def test_lazy_rows_are_those_of_one_chunk_and_nothing_is_computed_early(count_computes: Any) -> None:
    ds = xr.concat([example().assign_coords(item=[f"{k}{n}" for n in "abc"]) for k in range(20)], "item")
    chunked = ds.assign(label=ds["label"].chunk({"item": 12}), confidence=ds["confidence"].chunk({"item": 7}))
    with count_computes() as computes:
        lazy = to_long(chunked, missing=True, lazy=True)
    assert computes.n == 0
    assert lazy.map_partitions(len).compute().tolist() == [12 * 6] * 5
    pd.testing.assert_frame_equal(
        lazy.compute().reset_index(drop=True), to_long(ds, missing=True), check_dtype=False
    )


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # in dask's reading of parquet
def test_out_to_parquet_and_in_again(tmp_path: Path) -> None:
    ds = example().chunk({"item": 2})
    to_long(ds, missing=True, lazy=True).to_parquet(tmp_path / "labels")
    options = {"criterion": "criterion", "role": "role", "status": "status", "confidence": "confidence"}
    again = from_long(dd.read_parquet(tmp_path / "labels"), scale=ONE_TO_FOUR, **options)
    xr.testing.assert_identical(bare(again.compute()), bare(example()))


def test_a_lazy_frame_without_dataframes_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dask.dataframe", None)
    with pytest.raises(DependencyError, match=r'pip install "xjudge\[io\]"'):
        to_long(example(), lazy=True)


def test_items_without_names_are_numbered_through_all_chunks() -> None:
    ds = example().drop_vars("item").chunk({"item": 2})
    assert to_long(ds, missing=True, lazy=True).compute()["item"].tolist() == sorted([0, 1, 2] * 6)


def test_what_cannot_be_a_long_frame() -> None:
    ds = example()
    with pytest.raises(StructureError, match="no variable `label`"):
        to_long(ds.drop_vars("label"))
    with pytest.raises(StructureError, match="carries no scale"):
        to_long(ds.drop_attrs())
    strange = ds.assign(label=ds["label"].where(ds["label"] != 0, 9).assign_attrs(ds["label"].attrs))
    with pytest.raises(VocabularyError, match=r"codes that Scale\.ordinal.* does not have: 9 \(\d times\)"):
        to_long(strange)


def test_floats_with_holes_and_a_bare_label_array() -> None:
    ds = example()
    holed = ds["label"].where(ds["label"] != -1).assign_attrs(ds["label"].attrs)
    assert holed.dtype.kind == "f"
    with_holes = ds.assign(label=holed)
    pd.testing.assert_frame_equal(to_long(with_holes), to_long(ds))
    label_alone = to_long(ds["label"])
    pd.testing.assert_frame_equal(label_alone, to_long(ds).drop(columns="confidence"))


@needs_shared
def test_the_rubric_goes_around() -> None:
    frame = pd.read_csv(SHARED / "data" / "llm_rubric_real.csv", dtype={"item": str, "rater": str})
    options: dict[str, Any] = {"criterion": "criterion", "scale": ONE_TO_FOUR}
    ds = from_long(frame, role="rater_kind", role_names={"llm": "judge"}, ca=[0], **options)
    long = to_long(ds)
    again = from_long(long, role="role", status="status", **options)
    xr.testing.assert_identical(bare(again), bare(ds))
    key = ["item", "criterion", "rater"]
    ours = long.set_index(key)["label"].fillna(0).astype(int)
    theirs = frame.set_index(key)["label"].astype(int)
    pd.testing.assert_series_equal(ours.sort_index(), theirs.sort_index(), check_dtype=False)


# ------------------------------------------------------------------------------------------------------ files


def netcdf(ds: xr.Dataset, path: Path) -> xr.Dataset:
    ds.to_netcdf(path / "ds.nc", engine="h5netcdf")
    return xr.load_dataset(path / "ds.nc", engine="h5netcdf")


def zarr(ds: xr.Dataset, path: Path, version: int) -> xr.Dataset:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Consolidated metadata is currently not part")
        ds.to_zarr(path / f"ds{version}.zarr", zarr_format=version)  # type: ignore[call-overload]
    return xr.load_dataset(path / f"ds{version}.zarr", engine="zarr")


STORES: dict[str, Callable[[xr.Dataset, Path], xr.Dataset]] = {
    "netcdf": netcdf,
    "zarr 2": lambda ds, path: zarr(ds, path, 2),
}
if int(importlib.metadata.version("zarr").partition(".")[0]) >= 3:
    STORES["zarr 3"] = lambda ds, path: zarr(ds, path, 3)


def assert_same(again: xr.Dataset, ds: xr.Dataset) -> None:
    """Identical but for the container of text and of ``flag_values``, which every store has its own for."""
    check_dataset(again)
    assert Scale.from_attrs(again["label"].attrs) == Scale.from_attrs(ds["label"].attrs)
    assert again["label"].dtype == ds["label"].dtype
    assert again.attrs == ds.attrs
    assert set(again["label"].attrs) == set(ds["label"].attrs)
    for name, held in ds.variables.items():
        text = held.dtype.kind in "OUT"
        assert text == (again[name].dtype.kind in "OUT"), name
        assert text or again[name].dtype.kind == held.dtype.kind, name
    xr.testing.assert_identical(again.drop_attrs(), ds.drop_attrs())


@pytest.mark.parametrize("store", list(STORES))
@pytest.mark.parametrize("scale", SCALES, ids=repr)
def test_files_keep_everything(store: str, scale: Scale, tmp_path: Path) -> None:
    ds = example(scale)
    before = ds.copy(deep=True)
    again = STORES[store](ds, tmp_path)
    xr.testing.assert_identical(ds, before)  # writing changes nothing in memory
    assert_same(again, ds)
    pd.testing.assert_frame_equal(to_long(again)[list(to_long(ds).columns)], to_long(ds), check_dtype=False)


@pytest.mark.parametrize("store", list(STORES))
def test_files_keep_sparse_replicated_counted_and_joined_datasets(store: str, tmp_path: Path) -> None:
    counts = from_counts(pd.DataFrame({"item": ["a", "b"], "no": [3, 0], "yes": [1, 5]}), scale=YES_NO)
    judged = pd.DataFrame({"item": ["b", "a"], "rater": "gpt", "label": ["yes", "no"], "runs": [1, 2]})
    repeated = pd.DataFrame({"item": [1, 1, 2], "rater": 7, "label": [1, 2, 3]})
    for number, ds in enumerate(
        [
            example(layout="sparse"),
            from_long(repeated, humans=[7], scale=ONE_TO_FOUR, duplicates="replicate"),
            join(counts, judged, judges=["gpt"]),
        ]
    ):
        (tmp_path / str(number)).mkdir()
        assert_same(STORES[store](ds, tmp_path / str(number)), ds)


@pytest.mark.parametrize("store", list(STORES))
@pytest.mark.filterwarnings("ignore:The data type .* does not have a Zarr V3 specification")
def test_counts_without_any_rater_go_to_files(store: str, tmp_path: Path) -> None:
    counts = from_counts(pd.DataFrame({"item": ["a", "b"], "no": [3, 0], "yes": [1, 5]}), scale=YES_NO)
    again = STORES[store](counts, tmp_path)
    check_dataset(again)
    assert again["rater"].dtype.kind == "U"
    assert Scale.from_attrs(again["label"].attrs) == YES_NO
    np.testing.assert_array_equal(again["count"].values, counts["count"].values)
    assert again["count"].dtype == np.int64


def test_a_lazy_dataset_writes_the_same(tmp_path: Path) -> None:
    ds = example()
    labels = ds["label"].chunk({"item": 2})
    assert_same(netcdf(ds.assign(label=labels), tmp_path), ds)

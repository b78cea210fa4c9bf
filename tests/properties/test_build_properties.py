"""What holds of builders on any table: a slow oracle agrees, and guise, order and layout change nothing."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray as xr
from hypothesis import assume, given
from hypothesis import strategies as st

from xjudge.build import from_long, from_wide, join, to_long
from xjudge.errors import DroppedWarning, OverlapError, StructureError
from xjudge.scale import Scale
from xjudge.schema import check_dataset

SCALE = Scale.nominal(["x", "y", 0, 1.5, True])
CODES = {"ca": ["CA", -1], "invalid": ["bad", False]}
LABELS = [*SCALE.categories, "CA", -1, "bad", False, None]
EXPECTED = [0, 1, 2, 3, 4, -2, -2, -3, -3, -1]

labels = st.sampled_from(range(len(LABELS)))
items = st.sampled_from(["i1", "i2", "i3", "i4", "", "i 5", "Ü"])
raters = st.sampled_from(["ann", "bob", "gpt", "llama"])
criteria = st.sampled_from(["Q1", "Q2"])
cells = st.tuples(items, raters, criteria)


@st.composite
def tables(draw: st.DrawFn, *, repeats: bool = False) -> pd.DataFrame:
    """A long table with labels of every type and outcome, each cell once unless ``repeats``."""
    rows = draw(st.lists(st.tuples(cells, labels), min_size=1, max_size=40))
    if not repeats:
        rows = list({cell: (cell, label) for cell, label in rows}.values())
    frame = pd.DataFrame([cell for cell, _ in rows], columns=["item", "rater", "criterion"])
    frame["label"] = pd.Series([LABELS[label] for _, label in rows], dtype=object)
    return frame


def read(frame: Any, **options: Any) -> xr.Dataset:
    given_options = {"criterion": "criterion", "role": role_of, "scale": SCALE} | CODES | options
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DroppedWarning)
        return from_long(frame, **given_options)


def role_of(rater: str) -> str:
    return "judge" if rater in ("gpt", "llama") else "human"


def code_of(value: Any) -> int:
    """Code of a raw value, by type and value."""
    for raw, code in zip(LABELS, EXPECTED, strict=True):
        if raw is value or (type(raw) is type(value) and raw == value):
            return code
    raise AssertionError(value)


def oracle(frame: pd.DataFrame) -> dict[tuple[str, str, str], list[int]]:
    """Codes of every cell that is not missing, in the order of rows."""
    found: dict[tuple[str, str, str], list[int]] = {}
    for item, rater, criterion, label in frame.itertuples(index=False):
        if (code := code_of(label)) != -1:
            found.setdefault((item, rater, criterion), []).append(code)
    return found


def cells_of(ds: xr.Dataset) -> dict[tuple[str, str, str], int]:
    """Codes of every cell that is not missing, from either layout."""
    ids = {dim: ds[dim].values.tolist() for dim in ("item", "rater", "criterion")}
    if ds["label"].dims == ("answer",):
        places = zip(*(ds[f"{dim}_code"].values.tolist() for dim in ids), strict=True)
        codes = ds["label"].values.tolist()
    else:
        places = list(np.ndindex(*ds["label"].shape))
        codes = ds["label"].values.ravel().tolist()
    named = [tuple(ids[dim][at] for dim, at in zip(ids, place, strict=True)) for place in places]
    return {cell: code for cell, code in zip(named, codes, strict=True) if code != -1}


def rows_add_up(ds: xr.Dataset) -> bool:
    parts = ("answered", "ca", "invalid", "missing", "duplicate_dropped")
    return bool(ds.attrs["rows_read"] == sum(ds.attrs[f"rows_{part}"] for part in parts))


@given(frame=tables(), layout=st.sampled_from(["dense", "sparse"]))
def test_a_slow_reader_agrees(frame: pd.DataFrame, layout: str) -> None:
    ds = read(frame, layout=layout)
    check_dataset(ds)
    assert cells_of(ds) == {cell: codes[0] for cell, codes in oracle(frame).items()}
    for dim in ("item", "rater", "criterion"):
        assert ds[dim].values.tolist() == list(dict.fromkeys(frame[dim]))
    assert ds["role"].values.tolist() == [role_of(rater) for rater in ds["rater"].values]
    assert rows_add_up(ds)
    assert ds.attrs["rows_read"] == len(frame)


@given(frame=tables(repeats=True), layout=st.sampled_from(["dense", "sparse"]))
def test_every_rule_for_duplicates(frame: pd.DataFrame, layout: str) -> None:
    found = oracle(frame)
    repeated = {cell for cell, codes in found.items() if len(codes) > 1}
    if repeated:
        with pytest.raises(StructureError, match=f"{len(repeated)} cells? ha.* more than one label"):
            read(frame, layout=layout)
    for rule, place in (("first", 0), ("last", -1)):
        ds = read(frame, layout=layout, duplicates=rule)
        assert cells_of(ds) == {cell: codes[place] for cell, codes in found.items()}
        assert rows_add_up(ds)
    leaders = {cell: Counter(codes).most_common() for cell, codes in found.items()}
    tied = [cell for cell, votes in leaders.items() if len(votes) > 1 and votes[0][1] == votes[1][1]]
    if tied:
        with pytest.raises(StructureError, match=rf"no winner in {len(tied)} cells?: item {tied[0][0]!r}"):
            read(frame, layout=layout, duplicates="majority")
    else:
        ds = read(frame, layout=layout, duplicates="majority")
        assert cells_of(ds) == {cell: votes[0][0] for cell, votes in leaders.items()}
    ds = read(frame, duplicates="replicate")
    kept: dict[tuple[str, str, str], list[int]] = {}
    for place in np.ndindex(*ds["label"].shape):
        if (code := int(ds["label"].values[place])) != -1:
            names = (
                str(ds[d].values[p]) for d, p in zip(("item", "rater", "criterion"), place[:3], strict=True)
            )
            kept.setdefault(tuple(names), []).append(code)  # type: ignore[arg-type]
    assert kept == found


@given(frame=tables(), seed=st.integers(0, 99))
def test_row_order_moves_coordinates_alone(frame: pd.DataFrame, seed: int) -> None:
    ds = read(frame)
    shuffled = read(frame.sample(frac=1, random_state=seed))
    order = {dim: ds[dim] for dim in ("item", "rater", "criterion")}
    xr.testing.assert_identical(shuffled.sel(order), ds)


GUISES = {
    "object": lambda frame: frame,
    "category": lambda frame: frame.assign(
        **{name: frame[name].astype("category") for name in ("item", "rater", "criterion")}
    ),
    "sorted levels": lambda frame: frame.assign(
        item=pd.Categorical(frame["item"], sorted({*frame["item"], "zz"}))
    ),
    "str": lambda frame: frame.astype(dict.fromkeys(["item", "rater", "criterion"], "str")),
    "arrow": lambda frame: frame.astype(dict.fromkeys(["item", "rater"], pd.ArrowDtype(pa.string()))),
    "index": lambda frame: frame.set_index(["criterion", "item"]),
    "columns": lambda frame: frame[["label", "criterion", "rater", "item"]],
}


@given(frame=tables(), guise=st.sampled_from(sorted(GUISES)))
def test_guises_of_ids_change_nothing(frame: pd.DataFrame, guise: str) -> None:
    xr.testing.assert_identical(read(GUISES[guise](frame)), read(frame))


@given(
    values=st.lists(st.sampled_from([1, 2, 3, 4, None]), min_size=1, max_size=20),
    dtype=st.sampled_from(
        ["object", "float64", "float32", "Int64", "Float64", "int64[pyarrow]", "category", "polars"]
    ),
)
def test_guises_of_labels_change_nothing(values: list[int | None], dtype: str) -> None:
    table = {"item": list(range(len(values))), "rater": "ann", "label": pd.Series(values, dtype=object)}
    options: dict[str, Any] = {"humans": ["ann"], "scale": Scale.ordinal([1, 2, 3]), "ca": 4}
    expected = from_long(pd.DataFrame(table), **options)
    other: Any = pl.DataFrame({**table, "rater": ["ann"] * len(values), "label": values})
    if dtype != "polars":
        label = pd.Series(values, dtype="float64" if dtype in ("float64", "float32") else object)
        other = pd.DataFrame({**table, "label": label.astype(dtype)})
    assert expected.attrs["rows_ca"] == values.count(4)
    xr.testing.assert_identical(from_long(other, **options), expected)


@given(frame=tables())
def test_relabelling_changes_attributes_alone(frame: pd.DataFrame) -> None:
    names = [f"name {k}" for k in range(SCALE.n_categories)]
    codes = [code_of(value) for value in frame["label"]]
    renamed = frame.assign(
        label=pd.Series(
            [names[c] if c >= 0 else value for c, value in zip(codes, frame["label"], strict=True)],
            dtype=object,
        )
    )
    ds, other = read(frame), read(renamed, scale=Scale.nominal(names))
    np.testing.assert_array_equal(ds["label"].values, other["label"].values)


@given(frame=tables(), layout=st.sampled_from(["dense", "sparse"]))
def test_to_long_and_back(frame: pd.DataFrame, layout: Any) -> None:
    ds = read(frame, layout=layout)
    long = to_long(ds, missing=layout == "dense")
    assume(len(long))
    again = read(long, role="role", status="status", layout=layout, ca=(), invalid=())
    assert cells_of(again) == cells_of(ds)
    if layout == "dense":
        ds.attrs = again.attrs = {}
        xr.testing.assert_identical(again, ds)


@given(frame=tables())
def test_wide_is_long(frame: pd.DataFrame) -> None:
    one = frame[frame["criterion"] == frame["criterion"].iloc[0]]
    names = list(dict.fromkeys(one["rater"]))
    held = {(item, rater): label for item, rater, _, label in one.itertuples(index=False)}
    ids = list(dict.fromkeys(one["item"]))
    wide = pd.DataFrame(
        {"id": ids} | {n: pd.Series([held.get((i, n)) for i in ids], dtype=object) for n in names}
    )
    ds = from_wide(wide, raters=names, role=role_of, scale=SCALE, **CODES)
    long = read(one, criterion=None).sel(rater=names)
    np.testing.assert_array_equal(ds["label"].values, long["label"].values)
    assert rows_add_up(ds)


@given(frame=tables(), how=st.sampled_from(["left", "inner", "outer", "right"]), lazy=st.booleans())
def test_join_is_reading_both_at_once(frame: pd.DataFrame, how: Any, lazy: bool) -> None:
    is_judge = frame["rater"].isin(["gpt", "llama"])
    people, judged = frame[~is_judge], frame[is_judge]
    assume(len(people) and len(judged))
    left, right = read(people), read(judged)
    here, there = set(people["item"]), set(judged["item"])
    if lazy:
        left = left.assign(label=left["label"].chunk({"item": 1}))
    shared = set(people["criterion"]) & set(judged["criterion"])
    options: dict[str, Any] = {"on": ["item", "criterion"], "how": how}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DroppedWarning)
        if not here & there or not shared:
            with pytest.raises(OverlapError):
                join(left, right, **options)
            return
        joined = join(left, right, **options)
    check_dataset(joined)
    assert (joined["label"].chunks is not None) == lazy
    assert joined["label"].dtype == left["label"].dtype
    kept = {"left": here, "right": there, "inner": here & there, "outer": here | there}[how]
    assert set(joined["item"].values.tolist()) == kept
    assert joined.attrs["join_matched"] == len(here & there)
    assert joined.attrs["join_left_only"] == len(here - there)
    assert joined.attrs["join_right_only"] == len(there - here)
    everything = {cell: codes[0] for cell, codes in oracle(frame).items()}
    criteria_kept = set(joined["criterion"].values.tolist())
    assert cells_of(joined.compute()) == {
        cell: code for cell, code in everything.items() if cell[0] in kept and cell[2] in criteria_kept
    }

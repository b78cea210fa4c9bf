"""Structure is checked by pandera and told in our words, all of it at once and without computing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from xjudge.build import from_counts, from_long
from xjudge.errors import StructureError
from xjudge.scale import Scale
from xjudge.schema import check_dataset, check_long

SCALE = Scale.ordinal([1, 2, 3])


def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "item": ["a", "a", "b", "b"],
            "rater": ["ann", "gpt"] * 2,
            "criterion": "tone",
            "label": [1, 2, 3, None],
            "sure": [0.5, 0.6, 0.7, 0.8],
        }
    )


def dataset(**options: Any) -> xr.Dataset:
    return from_long(
        frame(), criterion="criterion", judges=["gpt"], scale=SCALE, confidence="sure", **options
    )


# ------------------------------------------------------------------------------------------------ long tables


def test_a_sound_table_passes_as_it_is() -> None:
    table = frame()
    assert check_long(table, criterion="criterion") is table
    assert check_long(table.set_index(["item", "rater"]))["label"].tolist()[:3] == [1, 2, 3]
    assert check_long(table, item=["item", "criterion"]) is table


@pytest.mark.parametrize(
    ("table", "messages"),
    [
        (frame().iloc[:0], ["has no rows"]),
        (
            pd.concat([frame(), frame()], axis=1),
            ["Column names are repeated: 'item', 'rater', 'criterion' and 2 more"],
        ),
        (
            frame()
            .rename(columns={"label": "Label"})
            .assign(item=["a", None, "b", "c"], rater=["x", 1, "x", 1]),
            [
                "`label`: there is no column 'label'; the frame has 'item', 'rater', 'criterion', 'Label', "
                "'sure'. Did you mean 'Label'?",
                "Column 'item' (item) has no id in 1 of 4 rows: row 1 (counted from 0).",
                "Column 'rater' (rater) mixes ids of different types, 'x', 1.",
            ],
        ),
        (frame().assign(item=pd.Categorical([None, "a", "b", "c"])), ["has no id in 1 of 4 rows: row 0"]),
        (frame().assign(item=pd.array([1, None, 2, 3], dtype="Int64")), ["has no id in 1 of 4 rows: row 1"]),
        (
            frame().assign(item=[["a"], ["b"], ["c"], ["d"]]),
            ["holds values of type list, which cannot be ids"],
        ),
    ],
)
def test_problems_of_a_table_are_told_together(table: pd.DataFrame, messages: list[str]) -> None:
    with pytest.raises(StructureError) as error:
        check_long(table)
    text = str(error.value)
    for message in messages:
        assert message in text
    assert "pandera" not in text.lower()


# --------------------------------------------------------------------------------------------------- datasets


@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_sound_datasets_pass(
    layout: Any, backend: Callable[[xr.Dataset], xr.Dataset], count_computes: Any
) -> None:
    ds = backend(dataset(layout=layout))
    with count_computes() as computes:
        assert check_dataset(ds) is ds
    assert computes.n == 0


def test_chunked_coordinates_are_not_computed(count_computes: Any) -> None:
    ds = dataset().chunk()
    ds["role"] = ("rater", ds["role"].data if hasattr(ds["role"].data, "dask") else ds["role"].values)
    with count_computes() as computes:
        check_dataset(ds)
    assert computes.n == 0


def test_other_orders_and_further_dims_pass_through() -> None:
    ds = dataset()
    check_dataset(ds.transpose())
    check_dataset(ds.expand_dims(run=3))
    check_dataset(ds.isel(item=slice(0, 0)))
    check_dataset(ds.drop_vars("identity"))
    check_dataset(from_counts(pd.DataFrame({"item": ["a"], "1": [2], "2": [0], "3": [1]}), scale=SCALE))


def test_unsigned_codes_and_floats_with_holes_are_read() -> None:
    ds = dataset()
    check_dataset(ds.assign(label=ds["label"].where(ds["label"] >= 0)))
    check_dataset(ds.assign(label=ds["label"].clip(0).astype(np.uint8)))


def broken(change: Callable[[xr.Dataset], xr.Dataset], **options: Any) -> str:
    """Return what is said about a dataset after a change."""
    with pytest.raises(StructureError) as error:
        check_dataset(change(dataset(**options)))
    return str(error.value)


def with_label(ds: xr.Dataset, values: Any) -> xr.Dataset:
    return ds.assign(label=(ds["label"].dims, values, ds["label"].attrs))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda ds: ds.drop_vars("label"), "The dataset has no variable `label`; it has 'confidence'."),
        (
            lambda ds: with_label(ds, ds["label"].values.astype(str)),
            "`label` holds <U4, not integer codes. After a join, `where` or reindex pass `fill_value=",
        ),
        (lambda ds: with_label(ds, ds["label"].values > 0), "`label` holds bool, not integer codes."),
        (lambda ds: ds.isel(item=0), "`label` lives on (rater, criterion); it needs item and rater."),
        (
            lambda ds: ds.rename(rater="judge"),
            "`label` lives on (item, judge, criterion); it needs item and rater.",
        ),
        (lambda ds: ds.drop_vars("role"), "The dataset has no coordinate `role`"),
        (
            lambda ds: ds.assign_coords(role=("rater", ["human", "llm"])),
            """The coordinate `role` is "human" or "judge"; not so for 'gpt': 'llm'.""",
        ),
        (
            lambda ds: ds.assign_coords(identity=("rater", ["named", "who"])),
            'The coordinate `identity` is "named" or "positional" or "file" or "unknown"; not so for',
        ),
        (
            lambda ds: ds.assign_coords(role=("item", ["human", "judge"])),
            "The coordinate `role` lives on (item); it belongs on `rater`.",
        ),
        (lambda ds: ds.drop_vars("rater"), "The dataset has no coordinate `rater`: the rater ids are needed"),
        (lambda ds: ds.drop_vars("criterion"), "The dataset has no coordinate `criterion`"),
        (
            lambda ds: ds.assign_coords(item=["a", "a"]),
            "Ids are repeated along `item`: 'a'; each stands once.",
        ),
        (
            lambda ds: ds.drop_attrs(),
            "The variable `label` carries no scale: its attributes were lost on the way.",
        ),
        (
            lambda ds: ds.assign(confidence=ds["confidence"].isel(criterion=0, drop=True)),
            "`confidence` lives on (item, rater), which does not go with `label` on (item, rater,",
        ),
        (
            lambda ds: ds.assign(confidence=ds["confidence"].astype(str)),
            "`confidence` holds <U32, not floats.",
        ),
        (
            lambda ds: ds.assign(count=(("item", "category"), np.ones((2, 3), dtype=int))),
            "The dim `category` has no coordinate that names the categories.",
        ),
        (
            lambda ds: ds.assign(count=(("item", "category"), np.ones((2, 2), dtype=int))).assign_coords(
                category=[1, 2]
            ),
            "The coordinate `category` is 1, 2, and the scale is Scale.ordinal([1, 2, 3]).",
        ),
        (
            lambda ds: ds.assign(label=ds["label"].assign_attrs(Scale.continuous().to_attrs())),
            "A continuous scale keeps its numbers in a variable `score` beside `label`; there is none.",
        ),
    ],
)
@pytest.mark.parametrize("lazy", [False, True])
def test_what_is_wrong_with_a_dense_dataset(
    change: Any, message: str, lazy: bool, count_computes: Any
) -> None:
    with count_computes() as computes:
        text = broken(lambda ds: change(ds).chunk() if lazy else change(ds))
    assert message in text
    assert "pandera" not in text.lower()
    assert "Schema" not in text
    assert computes.n == 0


@pytest.mark.parametrize("strange", [0.5, np.inf, -np.inf])
def test_floats_in_memory_are_codes_or_holes(strange: float, count_computes: Any) -> None:
    def change(ds: xr.Dataset) -> xr.Dataset:
        return with_label(ds, np.where(ds["label"] == 1, strange, ds["label"].where(ds["label"] >= 0)))

    text = broken(change)
    assert f"`label` holds floats that are no codes, e.g. {strange}." in text
    assert "fill_value" in text
    with count_computes() as computes:
        check_dataset(change(dataset()).chunk())  # the values of lazy labels are for the counting pass
    assert computes.n == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda ds: ds.drop_vars("item_code"), "The sparse layout needs `item_code(answer)`; there is none."),
        (lambda ds: ds.drop_vars("criterion_code"), "The sparse layout needs `criterion_code(answer)`"),
        (
            lambda ds: ds.assign_coords(rater_code=("answer", np.array(["x", "y", "z"]))),
            "`rater_code` holds <U1, not integers.",
        ),
        (
            lambda ds: ds.assign_coords(rater_code=("answer", [0, 1, 2])),
            "`rater_code` points outside the table of 2 ids along `rater`: it goes from 0 to 2.",
        ),
        (
            lambda ds: ds.isel(answer=[2, 0, 1]),
            'The answers are not sorted by item: use `ds.sortby("item_code")`.',
        ),
        (lambda ds: ds.drop_vars("rater"), "The dataset has no coordinate `rater`"),
        (lambda ds: ds.drop_vars("role"), "The dataset has no coordinate `role`"),
    ],
)
def test_what_is_wrong_with_a_sparse_dataset(change: Any, message: str) -> None:
    assert message in broken(change, layout="sparse")


def test_every_problem_is_told_once() -> None:
    def ruin(ds: xr.Dataset) -> xr.Dataset:
        ds = with_label(ds, ds["label"].values.astype(str)).drop_attrs()
        return ds.assign_coords(item=["a", "a"], role=("rater", ["human", "robot"])).drop_vars("criterion")

    text = broken(ruin)
    for part in ("not integer codes", "carries no scale", "repeated along `item`", "`role`", "`criterion`"):
        assert text.count(part) == 1, (part, text)


def test_item_ids_may_be_a_method_name() -> None:
    ds = dataset()
    assert callable(ds["label"].item)  # DataArray.item is a method: code writes ds["item"]
    assert ds["item"].values.tolist() == ["a", "b"]

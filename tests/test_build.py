"""Builders: the same labels give the same dataset, no row is lost silently, errors say what to do."""

from __future__ import annotations

import enum
import json
import warnings
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray as xr
from shared import SHARED, needs_shared

from xjudge.build import from_counts, from_criteria_wide, from_long, from_wide, to_long
from xjudge.errors import DependencyError, DroppedWarning, ProtocolWarning, StructureError, VocabularyError
from xjudge.scale import Scale
from xjudge.schema import check_dataset

YES_NO = Scale.binary("no", "yes")
ONE_TO_FOUR = Scale.ordinal([1, 2, 3, 4])

ITEMS = ["b", "a", "c", "b", "a", "c"]
RATERS = ["ann", "ann", "ann", "gpt", "gpt", "gpt"]


def long(**columns: Any) -> pd.DataFrame:
    """Six labels of two raters on three items."""
    return pd.DataFrame({"item": ITEMS, "rater": RATERS, "label": [1, 2, 3, 4, 1, 2], **columns})


def rows_add_up(ds: xr.Dataset) -> bool:
    """Whether the attributes account for every row that was read."""
    parts = ("answered", "ca", "invalid", "missing", "duplicate_dropped")
    return bool(ds.attrs["rows_read"] == sum(ds.attrs[f"rows_{part}"] for part in parts))


# ---------------------------------------------------------------------------------------------- what is built


def test_a_long_table_becomes_a_cube_in_order_of_first_appearance() -> None:
    ds = from_long(long(), judges=["gpt"], scale=ONE_TO_FOUR)
    assert ds["label"].dims == ("item", "rater")
    assert ds["label"].dtype == np.int8
    assert ds["item"].values.tolist() == ["b", "a", "c"]
    assert ds["rater"].values.tolist() == ["ann", "gpt"]
    assert ds["label"].values.tolist() == [[0, 3], [1, 0], [2, 1]]
    assert ds["role"].values.tolist() == ["human", "judge"]
    assert ds["identity"].values.tolist() == ["named", "named"]
    assert Scale.from_attrs(ds["label"].attrs) == ONE_TO_FOUR
    assert ds["label"].attrs["flag_meanings"] == "1 2 3 4"
    assert "_FillValue" not in ds["label"].attrs
    check_dataset(ds)


def test_attributes_are_flat_and_say_what_was_read() -> None:
    frame = long().assign(label=[1, 2, 0, -1, None, 2], criterion="tone")
    ds = from_long(
        frame, criterion="criterion", judges=["gpt"], scale=ONE_TO_FOUR, ca=[0], invalid=-1, normalise="strip"
    )
    assert all(isinstance(value, str | int | float) for value in ds.attrs.values())
    assert json.loads(ds.attrs["codes"]) == {"ca": [0], "invalid": [-1], "missing": []}
    assert json.loads(ds.attrs["columns"])["criterion"] == "criterion"
    assert ds.attrs["normalise"] == "strip"
    counts = {name: ds.attrs[f"rows_{name}"] for name in ("read", "answered", "ca", "invalid", "missing")}
    assert counts == {"read": 6, "answered": 3, "ca": 1, "invalid": 1, "missing": 1}
    assert rows_add_up(ds)
    assert ds["label"].dims == ("item", "rater", "criterion")


def test_a_rater_column_called_judge_works() -> None:
    ds = from_long(
        long().rename(columns={"rater": "judge"}), rater="judge", judges=["gpt"], scale=ONE_TO_FOUR
    )
    assert ds["label"].dims == ("item", "rater")


def test_many_categories_get_a_wider_code() -> None:
    scale = Scale.nominal([f"c{k}" for k in range(200)])
    frame = pd.DataFrame({"item": range(200), "rater": "ann", "label": [f"c{k}" for k in range(200)]})
    ds = from_long(frame, humans=["ann"], scale=scale)
    assert ds["label"].dtype == np.int16
    assert ds["label"].values[:, 0].tolist() == list(range(200))


def test_a_continuous_scale_keeps_scores_beside_the_outcome() -> None:
    frame = long(label=[0.5, 1.25, "error", None, 2, -1.0])
    ds = from_long(frame, judges=["gpt"], scale=Scale.continuous(), invalid="error", ca=-1)
    assert ds["label"].values.tolist() == [[0, -1], [0, 0], [-3, -2]]
    np.testing.assert_array_equal(ds["score"].values, [[0.5, np.nan], [1.25, 2.0], [np.nan, np.nan]])
    assert ds["label"].dtype == np.int8
    check_dataset(ds)


def test_probabilities_and_confidence_come_along() -> None:
    frame = long(label=["no", "yes", "no", "yes", "no", "yes"]).assign(
        p=[0.5, 0.25, 1, 0, 0.75, 0.5], q=[0.5, 0.75, 0, 1, 0.25, None], sure=[1, 2, 3, 4, 5, 6]
    )
    for layout in ("dense", "sparse"):
        ds = from_long(
            frame,
            judges=["gpt"],
            scale=YES_NO,
            prob={"yes": "q", "no": "p"},
            confidence="sure",
            layout=layout,
        )
        assert ds["prob"].dims[-1] == "category"
        assert ds["category"].values.tolist() == ["no", "yes"]
        check_dataset(ds)
    dense = from_long(frame, judges=["gpt"], scale=YES_NO, prob={"yes": "q", "no": "p"}, confidence="sure")
    np.testing.assert_array_equal(dense["prob"].sel(item="a", rater="gpt"), [0.75, 0.25])
    assert dense["confidence"].sel(item="c", rater="gpt") == 6
    with pytest.raises(StructureError, match=r"`prob`.*names 'maybe' and leaves out 'yes'"):
        from_long(frame, judges=["gpt"], scale=YES_NO, prob={"maybe": "q", "no": "p"})
    with pytest.raises(StructureError, match=r"'item' \(prob\) does not hold numbers"):
        from_long(frame, judges=["gpt"], scale=YES_NO, prob={"yes": "item", "no": "p"})


@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_probabilities_without_a_label_are_kept(layout: Any) -> None:
    frame = long(label=[None] * 6).assign(p=[0.5, None, 1, 0, 0.75, 0.5], q=[0.5, None, 0, 1, 0.25, 0.5])
    prob = {"no": "p", "yes": "q"}
    ds = from_long(frame, judges=["gpt"], scale=YES_NO, prob=prob, layout=layout)
    assert (ds["label"] == -1).all()
    assert ds.attrs["rows_missing"] == 6
    assert rows_add_up(ds)
    held = ds["prob"].sel(category="no").values
    if layout == "dense":
        np.testing.assert_array_equal(held, [[0.5, 0], [np.nan, 0.75], [1, 0.5]])
    else:
        np.testing.assert_array_equal(held, [0.5, 0, 0.75, 1, 0.5])
    frame = to_long(ds)
    assert frame["status"].tolist() == ["missing"] * 5
    assert frame["prob_no"].tolist() == [0.5, 0, 0.75, 1, 0.5]
    twice = pd.concat([frame, frame]).assign(label=None)
    options: dict[str, Any] = {"scale": YES_NO, "prob": {"no": "prob_no", "yes": "prob_yes"}}
    with pytest.raises(StructureError, match="more than one label"):
        from_long(twice, judges=["gpt"], **options)


def test_the_sparse_layout_lists_answers_sorted_by_item() -> None:
    frame = long(label=[1, None, 3, 4, 1, 2]).sample(frac=1, random_state=1)
    dense = from_long(frame, judges=["gpt"], scale=ONE_TO_FOUR)
    sparse = from_long(frame, judges=["gpt"], scale=ONE_TO_FOUR, layout="sparse")
    check_dataset(sparse)
    assert sparse["label"].dims == ("answer",)
    assert sparse.sizes["answer"] == 5
    assert sparse["item_code"].dtype == np.int32
    assert (np.diff(sparse["item_code"]) >= 0).all()
    assert sparse["item"].values.tolist() == dense["item"].values.tolist()
    cube = np.full(dense["label"].shape, -1)
    cube[sparse["item_code"].values, sparse["rater_code"].values] = sparse["label"].values
    np.testing.assert_array_equal(cube, dense["label"].values)
    assert sparse.attrs == dense.attrs


def test_auto_is_dense_unless_the_cube_would_be_large_and_empty() -> None:
    frame = pd.DataFrame({"item": np.arange(6000), "rater": np.arange(6000), "label": 1})
    ds = from_long(frame, humans=frame["rater"], scale=ONE_TO_FOUR, layout="auto")
    assert ds["label"].dims == ("answer",)
    assert from_long(long(), judges=["gpt"], scale=ONE_TO_FOUR, layout="auto")["label"].ndim == 2
    frame = pd.DataFrame({"item": np.arange(70_000), "rater": np.arange(70_000), "label": 1})
    with pytest.raises(StructureError, match=r"4,900,000,000 cells for 70,000 labels.*layout='sparse'"):
        from_long(frame, humans=frame["rater"], scale=ONE_TO_FOUR)


# ----------------------------------------------------------------------------- every frame, the same dataset


def every_frame(items: list[Any], raters: list[Any], labels: list[Any]) -> Iterator[tuple[str, Any]]:
    """One table in every guise pandas, polars and Arrow know."""
    held = {"item": items, "rater": raters, "label": labels}
    objects = pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in held.items()})
    inferred = objects.infer_objects()
    yield "object", objects
    yield "inferred", inferred
    yield "nullable", objects.convert_dtypes()
    yield "arrow", objects.convert_dtypes(dtype_backend="pyarrow")
    yield "string[python]", inferred.assign(rater=inferred["rater"].astype("string[python]"))
    categorical = inferred.copy()
    for name in held:
        levels = list(pd.unique(inferred[name].dropna()))[::-1]
        unused = ["unused"] if isinstance(levels[0], str) else []
        categorical[name] = pd.Categorical(inferred[name], categories=levels + unused)
    yield "category", categorical
    yield "index levels", inferred.set_index(["item", "rater"])
    yield "one index level", inferred.set_index("item")
    yield "repeated index", inferred.set_index(pd.Index([0] * len(items)))
    yield "further columns order", inferred[["label", "rater", "item"]]
    yield "polars", pl.DataFrame(held, strict=False)
    yield (
        "polars categorical",
        pl.DataFrame(held, strict=False).with_columns(pl.col("rater").cast(pl.Categorical)),
    )
    yield "pyarrow", pa.table(held)
    encoded = {name: pa.array(values).dictionary_encode() for name, values in held.items()}
    yield "pyarrow dictionary", pa.table(encoded)
    yield (
        "pandas of Arrow dictionaries",
        pd.DataFrame(
            {
                name: pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([values])))
                for name, values in encoded.items()
            }
        ),
    )


@pytest.mark.parametrize(
    ("labels", "scale", "codes"),
    [
        ([1, 2, None, 3, 1, 2], Scale.ordinal([1, 2, 3]), [[0, 2], [1, 0], [-1, 1]]),
        ([1, 2, 3, 3, 1, 2], Scale.ordinal([1, 2, 3]), [[0, 2], [1, 0], [2, 1]]),
        (["no", "yes", None, "yes", "no", "yes"], None, [[0, 1], [1, 0], [-1, 1]]),
        ([True, False, None, True, True, False], None, [[1, 1], [0, 1], [-1, 0]]),
        ([True, False, True, True, True, False], Scale.binary(0, 1), [[1, 1], [0, 1], [1, 0]]),
        ([1, 0, None, 1, 1, 0], Scale.binary(False, True), [[1, 1], [0, 1], [-1, 0]]),
        ([1.5, 2.0, None, 2.0, 1.5, 0.5], Scale.interval([0.5, 1.5, 2]), [[1, 2], [2, 1], [-1, 0]]),
        ([0.25, 2.0, None, 2.5, 1.5, 0.5], Scale.continuous(), [[0, 0], [0, 0], [-1, 0]]),
    ],
)
@pytest.mark.parametrize("ids", ["text", "numbers"])
def test_every_frame_gives_the_same_dataset(labels: Any, scale: Any, codes: Any, ids: str) -> None:
    items = ITEMS if ids == "text" else [30, 20, 10, 30, 20, 10]
    first = None
    names = []
    for name, frame in every_frame(items, RATERS, labels):
        ds = from_long(frame, judges=["gpt"], scale=scale)
        assert ds["label"].values.tolist() == codes, name
        first = ds if first is None else first
        xr.testing.assert_identical(ds, first)
        assert {n: v.dtype for n, v in ds.variables.items()} == {
            n: v.dtype for n, v in first.variables.items()
        }
        names.append(name)
    assert len(names) == 15


def test_float_ids_that_are_whole_are_integers() -> None:
    frame = long(item=[3.0, 2.0, 1.0, 3.0, 2.0, 1.0])
    ds = from_long(frame, judges=["gpt"], scale=ONE_TO_FOUR)
    assert ds["item"].dtype == np.int64
    assert ds["item"].values.tolist() == [3, 2, 1]


def test_single_precision_matches_the_decimal_that_was_written() -> None:
    frame = long(label=np.array([0.1, 0.2, 0.1, 0.2, 0.1, 0.2], dtype=np.float32))
    ds = from_long(frame, judges=["gpt"], scale=Scale.interval([0.1, 0.2]))
    assert ds["label"].values.tolist() == [[0, 1], [1, 0], [0, 1]]


def test_text_enums_and_decimals_are_what_they_stand_for() -> None:
    class Verdict(str, enum.Enum):  # noqa: UP042 - the older kind, whose str() is not its value
        NO = "no"
        YES = "yes"

    frame = long(label=[Verdict.NO, Verdict.YES, "no", "yes", Verdict.NO, None])
    assert from_long(frame, judges=["gpt"])["label"].values.tolist() == [[0, 1], [1, 0], [0, -1]]
    frame = long(label=[Decimal("1.0"), Decimal(2), 3, 4.0, Decimal(1), None])
    assert from_long(frame, judges=["gpt"], scale=ONE_TO_FOUR)["label"].values.tolist() == [
        [0, 3],
        [1, 0],
        [2, -1],
    ]


def test_times_can_be_ids() -> None:
    stamps = pd.to_datetime(["2024-01-02", "2024-01-01", "2024-01-03"] * 2)
    plain = from_long(long(item=stamps), judges=["gpt"], scale=ONE_TO_FOUR)
    objects = from_long(long(item=pd.Series(stamps, dtype=object)), judges=["gpt"], scale=ONE_TO_FOUR)
    xr.testing.assert_identical(plain, objects)
    assert plain["item"].dtype == "M8[ns]"


def test_the_input_is_left_alone() -> None:
    frame = long(label=["no", " yes", "no", "yes", "no", None]).set_index("item")
    before = frame.copy(deep=True)
    from_long(frame, judges=["gpt"], scale=YES_NO, normalise="strip")
    pd.testing.assert_frame_equal(frame, before)


# -------------------------------------------------------------------------------------------------------- ids


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"item": ["a", None, "c", "b", None, "c"]}, r"'item' \(item\) has no id in 2 of 6 rows: row 1, 4"),
        ({"rater": [*RATERS[:5], np.nan]}, r"'rater' \(rater\) has no id in 1 of 6 rows: row 5"),
        ({"item": ["1", 1, "2", 2, "1", 1]}, r"mixes ids of different types, '1', 1"),
        ({"item": [True, 1, 2, 3, 4, 5]}, r"mixes ids of different types, True, 1"),
        ({"item": [["a"], ["b"], ["c"], ["b"], ["a"], ["c"]]}, r"holds values of type list"),
        ({"item": [b"a", b"b", b"c", b"b", b"a", b"c"]}, r"holds values of type bytes"),
        ({"item": [np.inf, 1, 2, 1, 2, 3]}, r"holds infinite numbers"),
    ],
)
def test_ids_that_can_be_none_are_one_clear_error(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(StructureError, match=message):
        from_long(long(**columns), judges=["gpt"], scale=ONE_TO_FOUR)


def test_compound_ids_keep_their_parts() -> None:
    frame = long().assign(doc=[2, 1, 2] * 2, turn=["x", "x", "y"] * 2).drop(columns="item")
    ds = from_long(frame, item=["doc", "turn"], judges=["gpt"], scale=ONE_TO_FOUR)
    assert ds["item"].values.tolist() == ["2|x", "1|x", "2|y"]
    assert ds["doc"].values.tolist() == [2, 1, 2]
    assert ds["turn"].values.tolist() == ["x", "x", "y"]
    assert ds["doc"].dims == ("item",)
    assert from_long(long().assign(turn=1), item=["item", "turn"], judges=["gpt"], scale=ONE_TO_FOUR)[
        "item_part"
    ].values.tolist() == ["b", "a", "c"]


def test_every_part_of_a_compound_id_is_needed() -> None:
    frame = long(turn=["x", None, "y"] * 2)
    with pytest.raises(StructureError, match=r"Column 'turn' \(item\) has no id in 2 of 6 rows"):
        from_long(frame, item=["item", "turn"], judges=["gpt"], scale=ONE_TO_FOUR)


def test_raters_can_be_compound_and_named_by_it() -> None:
    frame = long(prompt=["p", "p", "p", "q", "q", "q"])
    ds = from_long(frame, rater=["rater", "prompt"], judges=["gpt|q"], scale=ONE_TO_FOUR)
    assert ds["rater"].values.tolist() == ["ann|p", "gpt|q"]
    assert ds["prompt"].dims == ("rater",)
    assert ds["role"].values.tolist() == ["human", "judge"]


def test_ids_beyond_64_bits_are_text() -> None:
    with pytest.raises(StructureError, match=r"beyond 64 bits"):
        from_long(long(item=[10**30, 1, 2, 10**30, 1, 2]), judges=["gpt"], scale=ONE_TO_FOUR)
    ds = from_long(long(item=[2**63 + 1, 1, 2, 2**63 + 1, 1, 2]), judges=["gpt"], scale=ONE_TO_FOUR)
    assert ds["item"].values.tolist() == [2**63 + 1, 1, 2]


def test_parts_that_join_to_one_id_are_an_error() -> None:
    frame = pd.DataFrame({"p": ["a|b", "a"], "q": ["c", "b|c"], "rater": "gpt", "label": [1, 2]})
    with pytest.raises(StructureError, match=r"different values join to one id 'a\|b\|c'"):
        from_long(frame, item=["p", "q"], judges=["gpt"], scale=ONE_TO_FOUR)


# ------------------------------------------------------------------------------------------------------ roles


def test_roles_can_be_said_in_every_way() -> None:
    frame = long(kind=["human"] * 3 + ["llm"] * 3)
    ways: list[dict[str, Any]] = [
        {"judges": ["gpt"]},
        {"judges": "gpt"},
        {"humans": np.array(["ann"])},
        {"judges": ["gpt"], "humans": ["ann"]},
        {"role": "kind", "role_names": {"llm": "judge"}},
        {"role": {"ann": "human", "gpt": "judge", "absent": "judge"}},
        {"role": lambda name: "judge" if name == "gpt" else "human"},
    ]
    for way in ways:
        ds = from_long(
            frame if way.get("role") == "kind" else frame.drop(columns="kind"), scale=ONE_TO_FOUR, **way
        )
        assert ds["role"].values.tolist() == ["human", "judge"], way
    assert from_long(long(), judges=[], scale=ONE_TO_FOUR)["role"].values.tolist() == ["human", "human"]
    assert from_long(long(rater=[1, 1, 1, 2, 2, 2]), judges=[2], scale=ONE_TO_FOUR)[
        "role"
    ].values.tolist() == [
        "human",
        "judge",
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"Nobody said who is human and who is judge among 'ann', 'gpt'.*judges=\[\.\.\.\]"),
        ({"judges": ["gtp"]}, r"`judges` names 'gtp', who rated nothing here; the raters are 'ann', 'gpt'"),
        ({"judges": ["gpt"], "humans": []}, r"leave out 'ann'; name every rater"),
        ({"judges": ["gpt"], "humans": ["gpt", "ann"]}, r"'gpt' stand in `judges` and in `humans`"),
        ({"role": {"ann": "human"}}, r"`role` says nothing about 'gpt'"),
        (
            {"role": {"ann": "human", "gpt": "llm"}},
            r"says 'llm' \(rater 'gpt'\).*role_names=\{'llm': 'judge'\}",
        ),
        ({"role": "kind"}, r"A rater has one role, and these have several: 'gpt' \('judge', 'human'\)"),
        ({"role": "holed"}, r"these have several: 'ann' \('human', None\)"),
        ({"role": "knd"}, r"`role`: there is no column 'knd'.*Did you mean 'kind'\?"),
        ({"role": "kind", "judges": ["gpt"]}, r"Say the roles once: .*got role and judges"),
        ({"role": "kind", "role_names": {"llm": "robot"}}, r"`role_names` maps words to 'human' or 'judge'"),
        ({"role": lambda name: None}, r"`role` says nothing about 'ann', 'gpt'"),
        ({"judges": ["gpt"], "identity": "vague"}, r"`identity`: there is no column 'vague'"),
        ({"judges": ["gpt"], "identity": {"ann": "named"}}, r"`identity` is one of .*got None"),
    ],
)
def test_roles_that_are_not_clear_are_one_clear_error(options: dict[str, Any], message: str) -> None:
    frame = long(
        kind=["human"] * 3 + ["judge", "judge", "human"], holed=["human", None, "human"] + ["judge"] * 3
    )
    with pytest.raises(StructureError, match=message):
        from_long(frame, scale=ONE_TO_FOUR, **options)


def test_rater_ids_are_matched_by_type() -> None:
    with pytest.raises(StructureError, match=r"names '2'.*matched by type: 1 is not '1'"):
        from_long(long(rater=[1, 1, 1, 2, 2, 2]), judges=["2"], scale=ONE_TO_FOUR)


def test_a_column_called_role_is_pointed_at_but_not_guessed() -> None:
    with pytest.raises(StructureError, match=r"The frame has a column 'role': `role='role'`"):
        from_long(long(role=["human"] * 3 + ["judge"] * 3), scale=ONE_TO_FOUR)


def test_identity_is_recorded() -> None:
    ds = from_long(long(), judges=["gpt"], scale=ONE_TO_FOUR, identity="positional")
    assert ds["identity"].values.tolist() == ["positional", "positional"]
    ds = from_long(
        long(known=["positional"] * 3 + ["named"] * 3), judges=["gpt"], scale=ONE_TO_FOUR, identity="known"
    )
    assert ds["identity"].values.tolist() == ["positional", "named"]


# ------------------------------------------------------------------------------------------------- duplicates


def repeated() -> pd.DataFrame:
    """Ann rates b three times and a twice; a null row of c is no label."""
    items = ["b", "a", "c", "b", "a", "c", "b"]
    labels = [1, 2, None, 3, 4, 3, 1]
    return pd.DataFrame({"item": items, "rater": "ann", "label": labels})


def test_duplicates_raise_with_places_labels_and_count() -> None:
    with pytest.raises(StructureError) as error:
        from_long(repeated(), humans=["ann"], scale=ONE_TO_FOUR)
    text = str(error.value)
    assert "2 cells have more than one label (5 rows)" in text
    assert "item 'b', rater 'ann': 1.0, 3.0, 1.0; item 'a', rater 'ann': 2.0, 4.0" in text
    assert "`duplicates='first'`" in text


def test_exact_repeats_are_duplicates_too_and_five_are_shown() -> None:
    frame = pd.concat([pd.DataFrame({"item": range(9), "rater": "ann", "criterion": "tone", "label": 2})] * 2)
    with pytest.raises(
        StructureError, match=r"9 cells .*item 4, rater 'ann', criterion 'tone': 2, 2; and 4 more"
    ):
        from_long(frame, humans=["ann"], criterion="criterion", scale=ONE_TO_FOUR)


@pytest.mark.parametrize(("rule", "codes"), [("first", [[0], [1], [2]]), ("last", [[0], [3], [2]])])
def test_first_and_last_follow_the_rows(rule: Any, codes: Any) -> None:
    with pytest.warns(DroppedWarning, match=r"left out 3 of 7 rows: 2 cells had several labels"):
        ds = from_long(repeated(), humans=["ann"], scale=ONE_TO_FOUR, duplicates=rule)
    assert ds["label"].values.tolist() == codes
    assert ds.attrs["rows_duplicate_dropped"] == 3
    assert ds.attrs["rows_missing"] == 1
    assert rows_add_up(ds)


def test_majority_needs_a_winner() -> None:
    with pytest.raises(StructureError, match=r"no winner in 1 cell: item 'a', rater 'ann': 2.0, 4.0"):
        from_long(repeated(), humans=["ann"], scale=ONE_TO_FOUR, duplicates="majority")
    frame = repeated().drop(index=4)
    with pytest.warns(DroppedWarning):
        ds = from_long(frame, humans=["ann"], scale=ONE_TO_FOUR, duplicates="majority")
    assert ds["label"].values.tolist() == [[0], [1], [2]]
    with pytest.raises(StructureError, match="a continuous scale has scores"):
        from_long(frame, humans=["ann"], scale=Scale.continuous(), duplicates="majority")


def test_majority_counts_outcomes_as_what_they_are() -> None:
    frame = pd.DataFrame({"item": "a", "rater": "ann", "label": [0, 3, 0]})
    with pytest.warns(DroppedWarning):
        ds = from_long(frame, humans=["ann"], scale=ONE_TO_FOUR, ca=0, duplicates="majority")
    assert ds["label"].values.tolist() == [[-2]]


@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_replicates_keep_every_label(layout: Any) -> None:
    ds = from_long(repeated(), humans=["ann"], scale=ONE_TO_FOUR, duplicates="replicate", layout=layout)
    assert ds["replicate"].values.tolist() == [0, 1, 2]
    assert ds.attrs["rows_duplicate_dropped"] == 0
    if layout == "dense":
        assert ds["label"].dims == ("item", "rater", "replicate")
        assert ds["label"].values[:, 0].tolist() == [[0, 2, 0], [1, 3, -1], [2, -1, -1]]
    else:
        assert ds["label"].values.tolist() == [0, 2, 0, 1, 3, 2]
        assert ds["replicate_code"].values.tolist() == [0, 1, 2, 0, 1, 0]


def test_a_replicate_column_names_the_replicates() -> None:
    frame = repeated().assign(run=["x", "y", "x", "y", "x", "y", "z"])
    ds = from_long(frame, humans=["ann"], scale=ONE_TO_FOUR, replicate="run")
    assert ds["replicate"].values.tolist() == ["x", "y", "z"]
    assert ds["label"].values[:, 0].tolist() == [[0, 2, 0], [3, 1, -1], [-1, 2, -1]]
    with pytest.raises(StructureError, match=r"item 'b', rater 'ann', replicate 'x': 1.0, 1.0"):
        from_long(
            frame.assign(run="x").drop(index=[3, 4]), humans=["ann"], scale=ONE_TO_FOUR, replicate="run"
        )


def test_one_replicate_is_a_dim_as_well() -> None:
    ds = from_long(long(), judges=["gpt"], scale=ONE_TO_FOUR, duplicates="replicate")
    assert ds["label"].shape == (3, 2, 1)


# -------------------------------------------------------------------------------------------- further columns


def test_further_columns_find_their_dim() -> None:
    frame = long(
        system=["x", "y", "x"] * 2,
        family=["", "", ""] + ["open"] * 3,
        length=[10, 20, 30] * 2,
        hard=[True, False, True] * 2,
        only_one=["u", None, "v", None, None, "v"],
        when=pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-03"] * 2, utc=True),
    )
    ds = from_long(frame, judges=["gpt"], scale=ONE_TO_FOUR)
    assert {name: ds[name].dims for name in ("system", "family", "length", "hard", "only_one", "when")} == {
        "system": ("item",),
        "family": ("rater",),
        "length": ("item",),
        "hard": ("item",),
        "only_one": ("item",),
        "when": ("item",),
    }
    assert ds["length"].dtype == np.int64
    assert ds["hard"].dtype == bool
    assert ds["only_one"].values.tolist() == ["u", "", "v"]
    assert ds["family"].values.tolist() == ["", "open"]
    assert ds["when"].dtype == "M8[ns]"


def test_criterion_columns_and_names_with_a_home() -> None:
    frame = pd.DataFrame(
        {
            "item": ["a", "a", "a", "a"],
            "rater": ["ann", "ann", "gpt", "gpt"],
            "criterion": ["Q1", "Q2"] * 2,
            "label": [1, 2, 3, 4],
            "weight": [0.5, 2.0] * 2,
            "family": ["f", "f", "f", "f"],
        }
    )
    ds = from_long(frame, criterion="criterion", judges=["gpt"], scale=ONE_TO_FOUR)
    assert ds["weight"].dims == ("criterion",)
    assert ds["family"].dims == ("rater",)  # constant everywhere, but its home is the rater


def test_columns_without_a_place_are_named() -> None:
    frame = long(note=list("uvwxyz"), score=1.0, judgement=[["l"]] * 6, mixed=[1, "a", 2, 3, "b", 4])
    with pytest.warns(DroppedWarning) as caught:
        ds = from_long(frame, judges=["gpt"], scale=ONE_TO_FOUR)
    (warning,) = caught
    text = str(warning.message)
    assert "Column 'note' is not constant within an item, within a rater" in text
    assert "Columns 'judgement', 'mixed' are not of one plain type" in text
    assert "Column 'score' is named like a part of the judge dataset" in text
    assert warning.filename == __file__
    assert not {"note", "score", "judgement", "mixed"} & set(ds.variables)


# ----------------------------------------------------------------------------------------- frames as a whole


class _Dask:
    columns = ("item",)

    def __dask_graph__(self) -> None: ...


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (long().iloc[:0], "The frame has no rows"),
        (pd.DataFrame(), "The frame has no rows"),
        (pd.concat([long(), long()[["label"]]], axis=1), "Column names are repeated: 'label'"),
        (pd.concat({"x": long()}, axis=1), "The columns have several levels"),
        ({"item": [1]}, "A frame of labels is needed .* got dict"),
        (_Dask(), r"This is a dask dataframe.*`\.compute\(\)`"),
        (
            long().rename(columns={"label": "verdict"}),
            r"`label`: there is no column 'label'; the frame has 'item'",
        ),
        (long(label=[["a"]] * 6), r"Column 'label' \(label\) holds containers, e\.g\. \['a'\]"),
        (long(label=[{"v": 1}] * 6), r"Column 'label' \(label\) holds containers"),
    ],
)
def test_frames_that_cannot_be_read_are_one_clear_error(frame: Any, message: str) -> None:
    with pytest.raises(StructureError, match=message):
        from_long(frame, judges=["gpt"], scale=ONE_TO_FOUR)


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"item": None}, "`item` names a column, or a list of them; got None"),
        ({"rater": {}}, "`rater` names a column, or a list of them; got {}"),
        ({"criterion": ["c", []]}, "`criterion` names a column, or a list of them"),
        ({"label": None}, "`label` names a column; got None"),
        ({"label": ["label"]}, r"`label` names a column; got \['label'\]"),
        ({"role": []}, r"`role` names a column; got \[\]"),
        ({"status": np.arange(3)}, "`status` names a column; got array"),
        ({"confidence": []}, "`confidence` names a column"),
        ({"identity": np.arange(3)}, "`identity` names a column"),
        ({"role_names": ["human"]}, r"`role_names` maps words to 'human' or 'judge'; got \['human'\]"),
    ],
)
def test_what_cannot_name_a_column(options: dict[str, Any], message: str, lazy: bool) -> None:
    frame: Any = pd.DataFrame({"item": [1, 1], "rater": ["ann", "gpt"], "label": [1, 2]})
    if lazy:
        frame = pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=1)
    with pytest.raises(StructureError, match=message):
        from_long(frame, **({"judges": ["gpt"], "scale": ONE_TO_FOUR} | options))


def test_an_arrow_stream_without_pyarrow_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DependencyError, match=r"needs pyarrow: `pip install \"xjudge\[io\]\"`"):
        from_long(pl.DataFrame({"item": ["a"]}), judges=[])


def test_every_problem_is_in_one_error() -> None:
    frame = long(kind=["human"] * 3 + ["llm"] * 3, label=[1, 2, 9, 4, 1, 2]).assign(item=["a"] * 5 + [None])
    with pytest.raises(StructureError) as error:
        from_long(
            frame,
            criterion="critrion",
            role="kind",
            scale=ONE_TO_FOUR,
            ca=[1],
            missing=[1],
            duplicates="frist",  # type: ignore[arg-type]
            normalise="stripp",
        )
    text = str(error.value)
    for part in (
        "no column 'critrion'",
        "has no id in 1 of 6 rows",
        "`role` says 'llm'",
        "1 is declared both as `ca` and as `missing`",
        "`duplicates` is one of",
        "`normalise` takes",
        "9 (1 time)",
    ):
        assert part in text
    assert "Traceback" not in text


def test_vocabulary_alone_is_a_vocabulary_error() -> None:
    with pytest.raises(VocabularyError):
        from_long(long(label=[1, 2, 9, 4, 1, 2]), judges=["gpt"], scale=ONE_TO_FOUR)


# ------------------------------------------------------------------------------------------------ wide tables


def test_a_wide_table_equals_its_long_form() -> None:
    wide = pd.DataFrame(
        {"id": ["b", "a", "c"], "ann": [1, 2, 3], "gpt": [4.0, np.nan, 2.0], "system": list("xyx")}
    )
    ds = from_wide(wide, raters=["ann", "gpt"], judges=["gpt"], scale=ONE_TO_FOUR)
    melted = wide.melt(["id", "system"], var_name="rater", value_name="label")
    other = from_long(melted, item="id", judges=["gpt"], scale=ONE_TO_FOUR)
    xr.testing.assert_identical(ds.drop_attrs(deep=False), other.drop_attrs(deep=False))
    assert {k: v for k, v in ds.attrs.items() if k.startswith("rows")} == {
        k: v for k, v in other.attrs.items() if k.startswith("rows")
    }
    assert ds["system"].dims == ("item",)
    named = from_wide(wide, raters={"ann": "A", "gpt": "B"}, judges=["B"], scale=ONE_TO_FOUR)
    assert named["rater"].values.tolist() == ["A", "B"]


def test_wide_columns_of_different_dtypes_are_matched_column_by_column() -> None:
    wide = pd.DataFrame(
        {"id": [1, 2], "ann": [True, False], "bob": [1, 0], "cem": [1.0, np.nan], "gpt": ["error", 1]}
    )
    ds = from_wide(
        wide, raters=["ann", "bob", "cem", "gpt"], judges=["gpt"], scale=Scale.binary(0, 1), invalid="error"
    )
    assert ds["label"].values.tolist() == [[1, 1, 1, -3], [0, 0, -1, 1]]


def test_wide_errors_name_columns() -> None:
    wide = pd.DataFrame({"id": ["b", "b"], "ann": [1, 2], "gpt": [7, 2]})
    for options, message in (
        ({"raters": ["ann", "gtp"]}, r"`raters`: there is no column 'gtp'"),
        ({"raters": "ann"}, r"`raters` is a list of column names"),
        ({"raters": []}, r"`raters` is a list of column names"),
        ({"raters": ["id", "ann"]}, r"`raters` names 'id', which holds ids"),
        ({"raters": {"ann": "x", "gpt": "x"}, "judges": ["x"]}, r"The raters are given as distinct names"),
        ({"raters": ["ann", "gpt"], "role": "kind"}, r"`role` of a wide table is a mapping or a callable"),
        ({"raters": ["ann", "gpt"]}, r"item 'b', rater 'ann': 1, 2"),
        ({"raters": ["ann", "gpt"]}, r"7 \(1 time\); the first at item 'b', rater 'gpt'"),
    ):
        defaults = {} if {"role", "judges"} & options.keys() else {"judges": ["gpt"]}
        with pytest.raises(StructureError, match=message):
            from_wide(wide, scale=ONE_TO_FOUR, **defaults, **options)  # type: ignore[arg-type]


def test_half_empty_rows_of_one_item_are_no_duplicates() -> None:
    wide = pd.DataFrame({"id": ["a", "a"], "ann": [1, None], "gpt": [None, 2]})
    ds = from_wide(wide, raters=["ann", "gpt"], judges=["gpt"], scale=ONE_TO_FOUR)
    assert ds["label"].values.tolist() == [[0, 1]]
    assert ds.attrs["rows_missing"] == 2
    assert rows_add_up(ds)


def test_criteria_wide_equals_its_long_form() -> None:
    wide = pd.DataFrame(
        {
            "id": [1, 1, 2, 2],
            "who": ["ann", "gpt"] * 2,
            "kind": ["human", "judge"] * 2,
            "Q1": [1, 2, 3, 0],
            "Q2": [4.0, np.nan, 1.0, 2.0],
            "system": [7, 7, 8, 8],
        }
    )
    ds = from_criteria_wide(wide, criteria=["Q1", "Q2"], rater="who", role="kind", scale=ONE_TO_FOUR, ca=0)
    melted = wide.melt(["id", "who", "kind", "system"], var_name="criterion", value_name="label")
    other = from_long(
        melted, item="id", rater="who", criterion="criterion", role="kind", scale=ONE_TO_FOUR, ca=0
    )
    xr.testing.assert_identical(ds.drop_attrs(deep=False), other.drop_attrs(deep=False))
    assert ds["label"].dims == ("item", "rater", "criterion")
    assert rows_add_up(ds)
    with pytest.raises(StructureError, match=r"`criteria`: there is no column 'Q3'"):
        from_criteria_wide(wide, criteria=["Q1", "Q3"], rater="who", role="kind", scale=ONE_TO_FOUR)


# ----------------------------------------------------------------------------------------------------- counts


def test_counts_come_wide_and_long() -> None:
    wide = pd.DataFrame({"item": ["b", "a"], "no": [3, 0], "yes": [1, None], "system": ["x", "y"]})
    ds = from_counts(wide, scale=YES_NO)
    assert ds["count"].dims == ("item", "category")
    assert ds["count"].dtype == np.int64
    assert ds["count"].values.tolist() == [[3, 1], [0, 0]]
    assert ds["label"].shape == (2, 0)
    assert Scale.from_attrs(ds["label"].attrs) == YES_NO
    assert ds["system"].dims == ("item",)
    assert ds.attrs["count_total"] == 4
    check_dataset(ds)
    tall = pd.DataFrame({"item": ["b", "b", "a"], "what": ["yes", "no ", "no"], "n": [1, 3, 0]})
    other = from_counts(tall, category="what", count="n", scale=YES_NO, normalise="strip")
    xr.testing.assert_identical(ds["count"].drop_vars("system"), other["count"])


def test_counts_of_numbers_and_criteria() -> None:
    frame = pl.DataFrame({"item": ["a", "a"], "criterion": ["Q1", "Q2"], "1": [1, 2], "2": [0, 5]})
    ds = from_counts(frame, criterion="criterion", scale=Scale.ordinal([1, 2]))
    assert ds["count"].dims == ("item", "criterion", "category")
    assert ds["count"].values.tolist() == [[[1, 0], [2, 5]]]
    with pytest.warns(ProtocolWarning, match=r"Scale.ordinal\(\[1, 2, 3\]\)"):
        ds = from_counts(pd.DataFrame({"item": ["a"], 3: [1], 1: [2], 2: [0]}))
    assert ds["count"].values.tolist() == [[2, 0, 1]]


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        ({"no": [1, -2], "yes": [1, 0.5]}, {}, r"got -2 \(row 1, 'no'\), 0.5 \(row 1, 'yes'\)"),
        ({"no": [1, 1]}, {}, r"No column counts 'yes'"),
        ({"no": ["x", "y"], "yes": [1, 1]}, {}, r"'no' \(count\) does not hold numbers"),
        ({"item": ["a", "a"], "no": [1, 1], "yes": [1, 1]}, {}, r"repeat a cell: item 'a', category 'no'"),
        (
            {"c": ["no", "maybe"], "count": [1, 1]},
            {"category": "c"},
            r"'maybe' \(1 time\); the first at row 1",
        ),
        ({"c": ["no", None], "count": [1, 1]}, {"category": "c"}, r"category is null in 1 row"),
        ({"no": [1, 1], "yes": [1, 1]}, {"scale": Scale.continuous()}, r"an xj.Scale with categories"),
        ({"category": ["no", "yes"], "count": [1, 1]}, {"scale": None}, r"say `category=`"),
    ],
)
def test_counts_that_cannot_be_read(frame: dict[str, Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises((StructureError, VocabularyError), match=message):
        from_counts(pd.DataFrame({"item": ["a", "b"], **frame}), **{"scale": YES_NO, **options})


# ---------------------------------------------------------------------------------------------- shared labels


def read_rubric(**options: Any) -> xr.Dataset:
    frame = pd.read_csv(SHARED / "data" / "llm_rubric_real.csv", dtype={"item": str, "rater": str})
    return from_long(
        frame,
        criterion="criterion",
        role="rater_kind",
        role_names={"llm": "judge"},
        scale=ONE_TO_FOUR,
        **options,
    )


@needs_shared
def test_llm_rubric_real() -> None:
    ds = read_rubric(ca=[0])
    assert dict(ds.sizes) == {"item": 223, "rater": 3, "criterion": 9}
    assert ds.attrs["rows_read"] == 6021
    assert ds.attrs["rows_ca"] == 306  # data/README.md
    assert rows_add_up(ds)
    assert int((ds["label"] == -2).sel(rater="human").sum()) == 306
    assert not (ds["label"] == -1).any()
    assert ds["annotator"].dims == ("item",)
    assert ds["system"].dims == ("item",)
    assert ds["role"].values.tolist() == ["human", "judge", "judge"]
    check_dataset(ds)


@needs_shared
def test_llm_rubric_without_its_code_is_refused() -> None:
    with pytest.raises(
        VocabularyError, match=r"306 labels.*0 \(306 times\).*rater 'human'.*0 looks like a code"
    ):
        read_rubric()


@needs_shared
@pytest.mark.parametrize(
    ("name", "options", "n_rows", "sizes"),
    [
        ("wax", {}, 2856, {}),
        ("mtbench", {}, 966, {}),
        ("10k_prompts", {"scale": Scale.ordinal([1, 2, 3, 4, 5])}, 14_032, {}),
        ("cebab_aspects", {"criterion": "criterion", "ca": "unknown"}, 10_080, {}),
        ("cebab_stars", {"criterion": "criterion", "scale": Scale.ordinal([1, 2, 3, 4, 5])}, 6_459, {}),
        (
            "summeval",
            {"criterion": "criterion", "scale": Scale.ordinal([1, 2, 3, 4, 5])},
            57_600,
            {"criterion": 4},
        ),
        ("framing", {"criterion": "criterion", "ca": "n/a: problem is resolved"}, 22_968, {"criterion": 22}),
    ],
)
def test_alttest_labels(name: str, options: dict[str, Any], n_rows: int, sizes: dict[str, int]) -> None:
    frame = pd.read_csv(
        SHARED / "data" / f"alttest_{name}.csv.gz",
        dtype={"item": str, "rater": str},
        keep_default_na=False,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ProtocolWarning)
        ds = from_long(frame, role="rater_kind", role_names={"llm": "judge"}, **options)
        sparse = from_long(frame, role="rater_kind", role_names={"llm": "judge"}, layout="sparse", **options)
    assert ds.attrs["rows_read"] == n_rows
    assert rows_add_up(ds)
    assert int((ds["label"] != -1).sum()) == n_rows == sparse.sizes["answer"]
    assert {dim: ds.sizes[dim] for dim in sizes} == sizes
    order = frame[["item", "rater"]].drop_duplicates()
    assert ds["item"].values.tolist() == order["item"].drop_duplicates().tolist()
    words = {raw: code for code, raw in enumerate(Scale.from_attrs(ds["label"].attrs).categories)}
    expected = [words.get(raw, -2) for raw in frame["label"].tolist()]
    index = [
        frame[column].tolist() for column in ("item", "rater", *(["criterion"] * ("criterion" in options)))
    ]
    dims = ds["label"].dims
    places = tuple(
        pd.Index(ds[dim].values).get_indexer(pd.Index(values))
        for dim, values in zip(dims, index, strict=True)
    )
    assert ds["label"].values[places].tolist() == expected
    check_dataset(ds)
    check_dataset(sparse)


def expected_rows(name: str) -> pd.DataFrame:
    return pd.read_csv(SHARED / "formats" / name / "expected.csv", dtype=str, keep_default_na=False)


@needs_shared
@pytest.mark.parametrize(
    "name",
    [
        *(
            "alpaca_eval",
            "autorubric_items",
            "crowd_task_worker_label",
            "doccano_export",
            "inspect_eval_epochs",
        ),
        *("inspect_json_modelgraded", "inspect_json_unscored", "judgebench_dices", "judgebench_newsroom"),
        *(
            "label_studio_composed",
            "label_studio_fixture",
            "llm_rubric_wide",
            "mtbench_pair",
            "mtbench_single",
        ),
    ],
)
def test_rows_of_every_format(name: str) -> None:
    frame = expected_rows(name)
    words = sorted(set(frame["label"]) - {"<CA>", "<INVALID>"})
    options = {
        "criterion": "criterion",
        "judges": [],
        "scale": Scale.nominal([*words, "another"]),
        "ca": "<CA>",
        "invalid": "<INVALID>",
    }
    repeats = int(frame.duplicated(["item", "rater", "criterion"]).sum())
    if repeats:
        with pytest.raises(StructureError, match="more than one label"):
            from_long(frame, **options)
        ds = from_long(frame, duplicates="replicate", **options)
        with pytest.warns(DroppedWarning, match=f"left out {repeats} of {len(frame)} rows"):
            last = from_long(frame, duplicates="last", **options)
        kept = frame.drop_duplicates(["item", "rater", "criterion"], keep="last")
        assert last.attrs["rows_invalid"] == int((kept["label"] == "<INVALID>").sum())
        assert rows_add_up(last)
    else:
        ds = from_long(frame, **options)
    assert rows_add_up(ds)
    assert int((ds["label"] >= 0).sum()) == int((~frame["label"].isin(["<CA>", "<INVALID>"])).sum())
    assert ds.attrs["rows_ca"] == int((frame["label"] == "<CA>").sum())
    assert ds.attrs["rows_invalid"] == int((frame["label"] == "<INVALID>").sum())
    check_dataset(ds)


@needs_shared
def test_criteria_wide_file_of_llm_rubric() -> None:
    human = pd.read_csv(
        SHARED / "formats" / "llm_rubric_wide" / "human.tsv", sep="\t", dtype={"text_id": str}
    )
    criteria = [f"Q{k}" for k in range(1, 9)]
    criteria = [name for name in human.columns if name in {"Q0", *criteria}]
    wide = human[["text_id", "annotator_id", *criteria]].assign(
        annotator_id="human_" + human["annotator_id"].astype(str)
    )
    ds = from_criteria_wide(
        wide,
        criteria=criteria,
        item="text_id",
        rater="annotator_id",
        judges=[],
        scale=ONE_TO_FOUR,
        ca=0,
    )
    rows = expected_rows("llm_rubric_wide")
    rows = rows[rows["rater"].str.startswith("human") & rows["criterion"].isin(criteria)]
    assert ds.attrs["rows_ca"] == int((rows["label"] == "<CA>").sum())
    assert ds.attrs["rows_answered"] + ds.attrs["rows_ca"] == len(rows)
    for row in rows.itertuples():
        code = int(ds["label"].sel(item=row.item, rater=row.rater, criterion=row.criterion))
        assert code == (-2 if row.label == "<CA>" else int(float(row.label)) - 1)

"""Joins: what matched is counted, what is left out is said, and codes stay integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import xarray as xr

from xjudge.build import from_counts, from_long, join
from xjudge.errors import DroppedWarning, OverlapError, ProtocolError, StructureError
from xjudge.scale import Scale
from xjudge.schema import check_dataset

SCALE = Scale.ordinal([1, 2, 3, 4])


def people() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "item": ["a", "b", "c", "a", "b"],
            "rater": ["ann", "ann", "ann", "bob", "bob"],
            "label": [1, 2, 0, 4, None],
            "system": ["x", "y", "x", "x", "y"],
        }
    )


def judged() -> pd.DataFrame:
    return pd.DataFrame(
        {"item": ["z", "b", "a"], "rater": "gpt", "label": [1, 4, 3], "family": "open", "length": [9, 8, 7]}
    )


def humans() -> xr.Dataset:
    return from_long(people(), humans=["ann", "bob"], scale=SCALE, ca=0)


def counts(ds: xr.Dataset) -> tuple[int, int, int]:
    return tuple(ds.attrs[f"join_{name}"] for name in ("matched", "left_only", "right_only"))  # type: ignore[return-value]


# ------------------------------------------------------------------------------------------ labels of a table

MISSING, CA = -1, -2
ROWS = {"a": [0, 3, 2], "b": [1, MISSING, 3], "c": [CA, MISSING, MISSING], "z": [MISSING, MISSING, 0]}


@pytest.mark.parametrize(
    ("how", "items", "dropped"),
    [
        ("left", ["a", "b", "c"], "1 item id of the other alone, 'z'"),
        ("inner", ["a", "b"], "1 item id of the dataset alone, 'c'; 1 item id of the other alone, 'z'"),
        ("outer", ["a", "b", "c", "z"], None),
        ("right", ["z", "b", "a"], "1 item id of the dataset alone, 'c'"),
    ],
)
@pytest.mark.parametrize("kind", ["pandas", "polars", "dataset"])
def test_every_how(how: Any, items: list[str], dropped: str | None, kind: str, backend: Any) -> None:
    ds = backend(humans())
    other: Any = judged() if kind == "pandas" else pl.from_pandas(judged())
    options: dict[str, Any] = {"judges": ["gpt"]}
    if kind == "dataset":
        other, options = from_long(other, scale=SCALE, judges=["gpt"]), {}
    if dropped is None:
        joined = join(ds, other, how=how, **options)
    else:
        with pytest.warns(DroppedWarning, match=dropped) as caught:
            joined = join(ds, other, how=how, **options)
        assert len(caught) == 1
        assert "2 matched" in str(caught[0].message)
    assert (joined["label"].chunks is None) == (ds["label"].chunks is None)
    assert joined["label"].dtype == np.int8
    assert joined["item"].values.tolist() == items
    assert joined["rater"].values.tolist() == ["ann", "bob", "gpt"]
    assert joined["label"].values.tolist() == [ROWS[item] for item in items]
    assert joined["role"].values.tolist() == ["human", "human", "judge"]
    assert joined["family"].values.tolist() == ["", "", "open"]
    assert counts(joined) == (2, 1, 1)
    assert joined.attrs["join_how"] == how
    system = {"a": "x", "b": "y", "c": "x", "z": ""}
    assert joined["system"].values.tolist() == [system[item] for item in items]
    length = {"a": 7, "b": 8, "c": np.nan, "z": 9}
    np.testing.assert_array_equal(joined["length"].values, [length[item] for item in items])
    assert Scale.from_attrs(joined["label"].attrs) == SCALE
    check_dataset(joined)


def test_lazy_labels_are_not_computed(count_computes: Any) -> None:
    ds = humans().chunk({"item": 1})
    with count_computes() as computes, pytest.warns(DroppedWarning):
        joined = join(ds, judged(), judges=["gpt"])
    assert computes.n == 0
    assert joined["label"].chunks is not None
    with pytest.warns(DroppedWarning):
        expected = join(humans(), judged(), judges=["gpt"])
    xr.testing.assert_identical(joined.compute(), expected)


def test_left_with_all_items_keeps_order_and_types() -> None:
    other = judged().iloc[1:].assign(item=["b", "a"])
    both = pd.concat(
        [other, pd.DataFrame({"item": ["c"], "rater": "gpt", "label": [2], "family": "open", "length": 6})]
    )
    joined = join(humans(), both, judges=["gpt"])
    assert joined["length"].dtype == np.int64
    assert joined["length"].values.tolist() == [7, 8, 6]


def test_labels_after_where_are_read_as_codes() -> None:
    ds = humans()
    holed = ds.where(ds["item"] != "b")
    holed["role"] = ds["role"]
    holed["label"].attrs = ds["label"].attrs
    assert holed["label"].dtype.kind == "f"
    with pytest.warns(DroppedWarning):
        joined = join(holed, judged(), judges=["gpt"])
    assert joined["label"].dtype.kind == "i"
    assert joined["label"].values.tolist() == [[0, 3, 2], [-1, -1, 3], [-2, -1, -1]]


def test_roles_of_known_raters_need_not_be_repeated() -> None:
    more = pd.DataFrame({"item": ["c", "b"], "rater": "bob", "label": [2, 3]})
    joined = join(humans(), more)
    assert joined["label"].values.tolist() == [[0, 3], [1, 2], [-2, 1]]
    with pytest.raises(StructureError, match=r"'bob'.*'human' and 'judge'"):
        join(humans(), more, judges=["bob"])
    with pytest.raises(StructureError, match=r"Nobody said who is human"):
        join(humans(), more.assign(rater="eve"))


@pytest.mark.parametrize("lazy", [False, True])
def test_two_answers_for_one_cell(lazy: bool) -> None:
    ds = humans().chunk() if lazy else humans()
    again = pd.DataFrame({"item": ["a", "b", "c"], "rater": "ann", "label": [1, 3, 4]})
    with pytest.raises(StructureError) as error:
        join(ds, again)
    assert str(error.value).startswith(
        "3 cells have a label in the dataset and in the other: item 'a', rater 'ann': 1, 1; "
        "item 'b', rater 'ann': 2, 3; item 'c', rater 'ann': ca, 4."
    )
    assert join(ds, again, duplicates="first")["label"].values[:, 0].tolist() == [0, 1, -2]
    assert join(ds, again, duplicates="last")["label"].values[:, 0].tolist() == [0, 2, 3]
    with pytest.raises(StructureError, match=r"no majority in 2 cells: item 'b', rater 'ann': 2, 3"):
        join(ds, again, duplicates="majority")
    assert join(ds, again.iloc[:1], duplicates="majority", how="left", on="item")["label"].values[0, 0] == 0


def test_duplicates_within_the_other_are_its_own_matter() -> None:
    twice = pd.DataFrame({"item": ["a", "a", "b", "c"], "rater": "gpt", "label": [1, 2, 3, 4]})
    with pytest.raises(StructureError, match=r"item 'a', rater 'gpt': 1, 2"):
        join(humans(), twice, judges=["gpt"])
    with pytest.warns(DroppedWarning, match="left out 1 of 4 rows"):
        assert join(humans(), twice, judges=["gpt"], duplicates="last")["label"].values[:, 2].tolist() == [
            1,
            2,
            3,
        ]


def test_scores_probabilities_and_confidence_are_joined() -> None:
    scale = Scale.continuous()
    left = from_long(
        pd.DataFrame({"item": ["a", "b"], "rater": "ann", "label": [0.5, 1.5], "sure": [1, 2]}),
        humans=["ann"],
        scale=scale,
        confidence="sure",
    )
    other = pd.DataFrame({"item": ["b", "a"], "rater": "gpt", "label": [2.5, 3.5]})
    joined = join(left, other, judges=["gpt"])
    np.testing.assert_array_equal(joined["score"].values, [[0.5, 3.5], [1.5, 2.5]])
    np.testing.assert_array_equal(joined["confidence"].values, [[1, np.nan], [2, np.nan]])
    check_dataset(joined)
    known = from_long(people(), humans=["ann", "bob"], scale=SCALE, ca=0)
    probs = {value: f"p{value}" for value in SCALE.categories}
    given = judged().iloc[1:].assign(**{f"p{value}": value / 10 for value in SCALE.categories})
    joined = join(known, given, judges=["gpt"], prob=probs)
    np.testing.assert_allclose(joined["prob"].sel(item="a", rater="gpt"), [0.1, 0.2, 0.3, 0.4])
    assert np.isnan(joined["prob"].sel(rater="ann")).all()
    assert joined["category"].values.tolist() == [1, 2, 3, 4]
    check_dataset(joined)


def test_probabilities_without_a_label_survive_a_join() -> None:
    prob = {value: f"p{value}" for value in SCALE.categories}
    given = judged().iloc[1:].assign(label=None, **{f"p{value}": value / 10 for value in SCALE.categories})
    left = from_long(given, judges=["gpt"], scale=SCALE, prob=prob)
    joined = join(left, people().drop(columns="system"), humans=["ann", "bob"], ca=0, how="outer")
    np.testing.assert_allclose(joined["prob"].sel(item="a", rater="gpt"), [0.1, 0.2, 0.3, 0.4])
    assert joined["prob"].sel(rater="ann").isnull().all()  # noqa: PD003 - xarray
    labelled = pd.DataFrame({"item": ["a"], "rater": "gpt", "label": [2]})
    joined = join(left, labelled, judges=["gpt"])
    assert joined["label"].sel(item="a").values.tolist() == [1]
    np.testing.assert_allclose(joined["prob"].sel(item="a", rater="gpt"), [0.1, 0.2, 0.3, 0.4])


def test_judges_join_anonymous_counts() -> None:
    ds = from_counts(
        pd.DataFrame({"item": ["a", "b"], "1": [3, 0], "2": [1, 5], "3": 0, "4": 0}), scale=SCALE
    )
    with pytest.warns(DroppedWarning):
        joined = join(ds, judged(), judges=["gpt"])
    assert joined["label"].dtype == np.int8
    assert joined["label"].values.tolist() == [[2], [3]]
    assert joined["count"].values.tolist() == [[3, 1, 0, 0], [0, 5, 0, 0]]
    assert joined["rater"].values.tolist() == ["gpt"]
    check_dataset(joined)
    outer = join(ds, judged(), judges=["gpt"], how="outer")
    assert outer["count"].dtype == np.int64
    assert outer["count"].values.tolist() == [[3, 1, 0, 0], [0, 5, 0, 0], [0, 0, 0, 0]]


# --------------------------------------------------------------------------------------------------- criteria


def rated(criteria: list[str], rater: str, items: tuple[str, ...] = ("a", "b")) -> pd.DataFrame:
    rows = [(item, rater, criterion) for item in items for criterion in criteria]
    frame = pd.DataFrame(rows, columns=["item", "rater", "criterion"])
    return frame.assign(label=[1 + k % 4 for k in range(len(rows))])


def test_criteria_of_the_other_are_among_those_of_the_dataset() -> None:
    ds = from_long(rated(["Q1", "Q2", "Q3"], "ann"), criterion="criterion", humans=["ann"], scale=SCALE)
    joined = join(ds, rated(["Q3", "Q1"], "gpt"), judges=["gpt"])
    assert joined["criterion"].values.tolist() == ["Q1", "Q2", "Q3"]
    assert joined["label"].sel(rater="gpt").values.tolist() == [[1, -1, 0], [3, -1, 2]]
    with pytest.raises(StructureError, match=r"criteria that the dataset has not: 'Q9'.*how='outer'"):
        join(ds, rated(["Q1", "Q9"], "gpt"), judges=["gpt"])
    with pytest.raises(OverlapError, match=r"No criterion is in both"):
        join(ds, rated(["Q8", "Q9"], "gpt"), judges=["gpt"])


@pytest.mark.parametrize(
    ("how", "criteria"),
    [("left", ["Q1", "Q2"]), ("inner", ["Q2"]), ("outer", ["Q1", "Q2", "Q3"]), ("right", ["Q3", "Q2"])],
)
@pytest.mark.filterwarnings("ignore::xjudge.errors.DroppedWarning")
def test_criteria_can_be_matched_as_items_are(how: Any, criteria: list[str]) -> None:
    ds = from_long(rated(["Q1", "Q2"], "ann"), criterion="criterion", humans=["ann"], scale=SCALE)
    joined = join(ds, rated(["Q3", "Q2"], "gpt"), on=["item", "criterion"], how=how, judges=["gpt"])
    assert joined["criterion"].values.tolist() == criteria
    assert joined.attrs["join_matched_criterion"] == 1
    assert joined.attrs["join_left_only_criterion"] == 1
    assert joined.attrs["join_right_only_criterion"] == 1
    values = {"Q1": [-1, -1], "Q2": [1, 3], "Q3": [0, 2]}
    assert joined["label"].sel(rater="gpt").values.T.tolist() == [values[name] for name in criteria]


def test_a_criterion_on_one_side_alone_is_an_error() -> None:
    ds = from_long(rated(["Q1"], "ann"), criterion="criterion", humans=["ann"], scale=SCALE)
    with pytest.raises(
        StructureError, match=r"live on \(item, rater, criterion\).*\(item, rater\).*`criterion=`"
    ):
        join(ds, judged(), judges=["gpt"])
    with pytest.raises(StructureError, match=r"names 'criterion', and the dataset has no such dim"):
        join(humans(), judged(), judges=["gpt"], on=["item", "criterion"])


# --------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("how", ["left", "inner", "outer", "right"])
def test_an_empty_match_shows_ids_of_both_sides(how: Any) -> None:
    other = judged().assign(item=["p", "q", "r"])
    with pytest.raises(OverlapError, match=r"the dataset has 'a', 'b', 'c', the other 'p', 'q', 'r'"):
        join(humans(), other, judges=["gpt"], how=how)


def test_ids_of_two_types_never_match() -> None:
    with pytest.raises(
        StructureError, match=r"different types, 'a' in the dataset and 1 in the other.*astype\(str\)"
    ):
        join(humans(), judged().assign(item=[1, 2, 3]), judges=["gpt"])
    numbered = from_long(people().assign(item=[1, 2, 3, 1, 2]), humans=["ann", "bob"], scale=SCALE, ca=0)
    with pytest.raises(StructureError, match=r"different types, 1 in the dataset and '1' in the other"):
        join(numbered, judged().assign(item=["1", "2", "3"]), judges=["gpt"])
    with pytest.raises(StructureError, match=r"rater ids are of different types"):
        join(humans(), judged().assign(rater=7), judges=[7])
    assert counts(join(numbered, judged().assign(item=[3.0, 2.0, 1.0]), judges=["gpt"])) == (3, 0, 0)


def test_different_scales_are_a_protocol_error() -> None:
    with pytest.raises(
        ProtocolError, match=r"The scales differ: Scale\.ordinal\(\[1, 2, 3, 4\]\).*Scale\.nominal"
    ):
        join(humans(), judged(), judges=["gpt"], scale=Scale.nominal([1, 3, 4]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on": "id"}, r"`on` is 'item', 'rater', 'criterion' or a list of these; got 'id'"),
        ({"on": []}, r"`on` is"),
        ({"how": "cross"}, r"`how` is one of 'left', 'inner', 'outer', 'right'; got 'cross'"),
        ({"on": "rater"}, r"Labels are joined on 'item'.*this table has labels"),
        ({"layout": "sparse"}, r"The other has the sparse layout"),
    ],
)
def test_arguments_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(StructureError, match=message):
        join(humans(), judged(), judges=["gpt"], **options)


def test_a_dataset_is_not_read_again() -> None:
    other = from_long(judged(), scale=SCALE, judges=["gpt"])
    with pytest.raises(StructureError, match=r"'judges' are for reading a table"):
        join(humans(), other, judges=["gpt"])
    with pytest.raises(StructureError, match="no `label`"):
        join(humans(), xr.Dataset({"x": ("item", [1])}))
    with pytest.raises(StructureError, match="no variable `label`"):
        join(xr.Dataset({"x": ("item", [1])}), other)


def test_coordinates_that_contradict_each_other() -> None:
    with pytest.raises(StructureError, match=r"'system' differs between the two: item 'b': 'y' and 'w'"):
        join(humans(), judged().assign(system=["v", "w", "x"]), judges=["gpt"])
    with pytest.raises(StructureError, match=r"'system' holds text on one side alone"):
        join(humans(), judged().assign(system=[1, 2, 3]), judges=["gpt"])
    with pytest.warns(DroppedWarning):
        joined = join(humans(), judged().assign(system=["v", None, "x"]), judges=["gpt"])
    assert joined["system"].values.tolist() == ["x", "y", "x"]


# ------------------------------------------------------------------------------------------------- covariates


def test_covariates_of_items(backend: Any) -> None:
    covariates = pd.DataFrame(
        {"item": ["b", "a", "q"], "length": [8, 7, 1], "topic": ["s", None, "t"], "hard": [True, False, True]}
    )
    with pytest.warns(DroppedWarning, match="1 item id of the other alone, 'q'"):
        joined = join(backend(humans()), covariates)
    np.testing.assert_array_equal(joined["length"].values, [7, 8, np.nan])
    assert joined["topic"].values.tolist() == ["", "s", ""]
    np.testing.assert_array_equal(joined["hard"].values, [0, 1, np.nan])
    assert counts(joined) == (2, 1, 1)
    np.testing.assert_array_equal(joined["label"].values, humans()["label"].values)
    outer = join(backend(humans()), covariates, how="outer")
    assert outer["label"].values[3].tolist() == [-1, -1]
    assert outer["label"].dtype == np.int8
    assert outer["hard"].values.tolist()[3] == 1
    check_dataset(outer)


def test_covariates_that_cover_all_keep_their_types() -> None:
    covariates = pl.DataFrame({"id": ["c", "b", "a"], "length": [6, 8, 7], "hard": [True, True, False]})
    joined = join(humans(), covariates, item="id")
    assert joined["length"].dtype == np.int64
    assert joined["hard"].dtype == bool
    assert joined["length"].values.tolist() == [7, 8, 6]


def test_covariates_of_raters_criteria_and_pairs() -> None:
    ds = from_long(rated(["Q1", "Q2"], "ann"), criterion="criterion", humans=["ann"], scale=SCALE)
    ds = join(ds, pd.DataFrame({"rater": ["ann"], "cost": [0.5]}), on="rater")
    ds = join(ds, pd.DataFrame({"criterion": ["Q2", "Q1"], "weight": [2, 1]}), on="criterion")
    pairs = pd.DataFrame({"criterion": ["Q2", "Q1"], "item": ["a", "b"], "applies": [1, 2]})
    ds = join(ds, pairs, on=["criterion", "item"])
    assert ds["cost"].dims == ("rater",)
    assert ds["weight"].values.tolist() == [1, 2]
    assert ds["applies"].dims == ("item", "criterion")
    np.testing.assert_array_equal(ds["applies"].values, [[np.nan, 1], [2, np.nan]])
    check_dataset(ds)


def test_covariates_go_with_the_sparse_layout() -> None:
    ds = from_long(people(), humans=["ann", "bob"], scale=SCALE, ca=0, layout="sparse")
    joined = join(ds, pd.DataFrame({"item": ["c", "b", "a"], "length": [6, 8, 7]}))
    assert joined["length"].values.tolist() == [7, 8, 6]
    with pytest.raises(StructureError, match="sparse layout"):
        join(ds, judged(), judges=["gpt"])
    with pytest.raises(StructureError, match=r"`how='left'`"):
        join(ds, pd.DataFrame({"item": ["c"], "length": [6]}), how="inner")


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        ({"item": ["a", "a"], "n": [1, 1]}, {}, r"one row per item; 1 row too many: item 'a'"),
        ({"item": ["a", None], "n": [1, 1]}, {}, r"has no id in 1 of 2 rows"),
        (
            {"item": ["a"], "system": ["x"]},
            {},
            r"The dataset has 'system' already, or gives the name a meaning",
        ),
        ({"item": ["a"], "count": [1]}, {}, r"'count' already, or gives the name a meaning"),
        ({"item": ["a"], "n": [[1]]}, {}, r"Column 'n' is not of one plain type"),
        ({"item": ["a"], "n": [1]}, {"scale": SCALE}, r"Options for labels are given \('scale'\)"),
        ({"item": ["a"]}, {}, r"nothing to join beside 'item'"),
        ({"id": ["a"], "n": [1]}, {}, r"`item`: there is no column 'item'"),
        (
            {"item": ["a"], "n": [1]},
            {"on": ["item", "criterion"]},
            r"names 'criterion', and the dataset has no such",
        ),
        ({"item": [1], "n": [1]}, {}, r"ids are of different types"),
        (
            {"item": ["a"], "label": [1]},
            {},
            r"has a column 'label' and none called 'rater': for labels say `rater=`",
        ),
        ({"item": ["a"], "rater": [1]}, {}, r"has a column 'rater' and none called 'label'"),
    ],
)
def test_covariates_that_cannot_be_joined(
    frame: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(StructureError, match=message):
        join(humans(), pd.DataFrame(frame), **options)


def test_hand_made_datasets_are_joined_or_told_what_they_lack() -> None:
    ds = humans()
    other = from_long(judged(), scale=SCALE, judges=["gpt"])
    with pytest.raises(StructureError, match="The dataset has no coordinate `role`"):
        join(ds.drop_vars("role"), other)
    with pytest.raises(StructureError, match="'run' has no coordinate and is 2 long here and 3 there"):
        join(ds.expand_dims(run=2), other.expand_dims(run=3))
    with pytest.warns(DroppedWarning):
        joined = join(ds.drop_vars("identity"), other)
    assert joined["identity"].values.tolist() == ["named"] * 3
    check_dataset(joined)


def test_replicates_of_both_sides_are_kept() -> None:
    twice = pd.DataFrame(
        {"item": ["a", "a", "b", "b"], "rater": "gpt", "run": [1, 2, 1, 3], "label": [1, 2, 3, 4]}
    )
    once = pd.DataFrame({"item": ["b", "a"], "rater": "ann", "run": [2, 1], "label": [4, 3]})
    ds = from_long(once, humans=["ann"], scale=SCALE, replicate="run")
    joined = join(ds, twice, judges=["gpt"], replicate="run")
    assert joined["replicate"].values.tolist() == [2, 1, 3]
    assert joined["label"].sel(item="b").values.tolist() == [[3, -1, -1], [-1, 2, 3]]


def test_lazy_floats_are_joined_lazily(count_computes: Any) -> None:
    ds = humans()
    holed = ds.assign(label=ds["label"].where(ds["label"] != -1).assign_attrs(ds["label"].attrs).chunk())
    with count_computes() as computes, pytest.warns(DroppedWarning):
        joined = join(holed, judged(), judges=["gpt"])
    assert computes.n == 0
    assert joined["label"].dtype.kind == "i"
    assert joined["label"].values.tolist() == [[0, 3, 2], [1, -1, 3], [-2, -1, -1]]


def test_joining_twice_and_to_a_label_array() -> None:
    with pytest.warns(DroppedWarning):
        joined = join(humans()["label"], judged(), judges=["gpt"])
    more = pd.DataFrame({"item": ["a", "b", "c"], "rater": "llama", "label": [1, 1, 1]})
    again = join(joined, more, judges=["llama"])
    assert again["rater"].values.tolist() == ["ann", "bob", "gpt", "llama"]
    assert again["family"].values.tolist() == ["", "", "open", ""]
    assert counts(again) == (3, 0, 0)

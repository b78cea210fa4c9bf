"""A lazy long table gives the dataset, the errors and the warnings of the same table in memory."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from dask import delayed
from hypothesis import given
from hypothesis import strategies as st

import xjudge as xj
from xjudge.errors import DroppedWarning, StructureError
from xjudge.schema import check_dataset

YES_NO = xj.Scale.binary("no", "yes")
ONE_TO_FOUR = xj.Scale.ordinal([1, 2, 3, 4])


def lazy(frame: pd.DataFrame, cuts: Sequence[int] = ()) -> Any:
    """The frame as a dask dataframe with partitions that end at the given rows."""
    ends = [0, *sorted(min(cut, len(frame)) for cut in cuts), len(frame)]
    pieces = [frame.iloc[a:b] for a, b in itertools.pairwise(ends)]
    return dd.from_map(lambda place: pieces[place], range(len(pieces)), meta=frame.iloc[:0])


@pytest.fixture(autouse=True)
def _objects_stay_objects() -> Iterator[None]:
    """Keep dask from turning columns of objects, lists among them, into text before they are read."""
    with dask.config.set({"dataframe.convert-string": False}):
        yield


def outcome(build: Callable[[], xr.Dataset]) -> tuple[xr.Dataset | None, list[tuple[type, str]]]:
    """The dataset, or the error, and all warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            ds = build()
        except ValueError as error:
            return None, [(type(error), str(error))]
    return ds, [(w.category, str(w.message)) for w in caught]


def assert_same(frame: pd.DataFrame, cuts: Sequence[int], *, ordered: bool = False, **options: Any) -> None:
    """The lazy frame gives what the frame gives: to the order of the items where they are spread."""
    source = lazy(frame, cuts)
    there, told = outcome(lambda: xj.from_long(source.compute(), **options))
    held, told_lazily = outcome(lambda: xj.from_long(source, **options))
    assert told_lazily == told
    if there is None or held is None:
        assert held is None
        assert there is None
        return
    check_dataset(held)
    assert hasattr(held["label"].data, "dask")
    again = held.compute()
    if again["item"].values.tolist() != there["item"].values.tolist():
        assert not ordered
        if "answer" in there.dims:
            order = ["item", "rater", *(["criterion"] if "criterion" in options else [])]
            left, right = (xj.to_long(ds).sort_values(order, ignore_index=True) for ds in (again, there))
            pd.testing.assert_frame_equal(left, right)
            assert again.attrs == there.attrs
            return
        again = again.sel(item=there["item"])
    xr.testing.assert_identical(again, there)
    assert {n: v.dtype for n, v in again.variables.items()} == {
        n: v.dtype for n, v in there.variables.items()
    }
    assert {n: v.attrs.keys() for n, v in again.variables.items()} == {
        n: v.attrs.keys() for n, v in there.variables.items()
    }


def small(n: int = 12, **columns: Any) -> pd.DataFrame:
    """Labels of three raters on ``n`` items, every rater of an item beside the others."""
    values = ["yes", "no", "no", "CA", "yes", None, "error"]
    frame = pd.DataFrame(
        {
            "item": np.repeat([f"i{k}" for k in range(n)], 3),
            "rater": ["ann", "bob", "gpt"] * n,
            "label": [values[k % 7] for k in range(3 * n)],
        }
    )
    return frame.assign(**columns)


BASIC: dict[str, Any] = {"judges": ["gpt"], "scale": YES_NO, "ca": "CA", "invalid": "error"}


# ---------------------------------------------------------------------------------------------- by hand


def test_a_lazy_frame_becomes_a_lazy_cube(count_computes: Any) -> None:
    frame = small()
    with count_computes() as computes:
        ds = xj.from_long(lazy(frame, [9, 18]), **BASIC)
    assert computes.n == 1
    assert ds["label"].dtype == np.int8
    assert ds["label"].dims == ("item", "rater")
    assert ds["label"].chunks is not None
    assert ds["item"].values.tolist() == [f"i{k}" for k in range(12)]
    assert ds["label"].values[:3].tolist() == [[1, 0, 0], [-2, 1, -1], [-3, 1, 0]]
    rows = {name: n for name, n in ds.attrs.items() if name.startswith("rows_")}
    assert rows == {
        "rows_read": 36,
        "rows_answered": 21,
        "rows_ca": 5,
        "rows_invalid": 5,
        "rows_missing": 5,
        "rows_duplicate_dropped": 0,
    }


def test_items_in_several_partitions_cost_one_compute_more(count_computes: Any) -> None:
    frame = small().sample(frac=1, random_state=0)
    with count_computes() as computes:
        ds = xj.from_long(lazy(frame, [9, 18]), **BASIC)
    assert computes.n == 2
    there = xj.from_long(frame, **BASIC)
    assert sorted(ds["item"].values.tolist()) == sorted(there["item"].values.tolist())
    xr.testing.assert_identical(ds.compute().sel(item=there["item"]), there)
    again = xj.from_long(lazy(frame, [9, 18]), **BASIC)
    assert again["item"].values.tolist() == ds["item"].values.tolist()


@pytest.mark.parametrize("cuts", [(), (18,), (9, 9, 18), (0, 36), (1, 2, 3), (7, 20)])
@pytest.mark.parametrize("layout", ["dense", "sparse", "auto"])
@pytest.mark.parametrize("shuffled", [False, True])
def test_every_partitioning_gives_the_same(cuts: Sequence[int], layout: str, shuffled: bool) -> None:
    frame = small(system=np.repeat(["x", None, "z"], 12), length=np.repeat(range(12), 3))
    frame["family"] = frame["rater"].map({"gpt": "open", "ann": "", "bob": None})
    frame["note"] = [f"note {k}" for k in range(36)]
    if shuffled:
        frame = frame.sample(frac=1, random_state=3)
    aligned = not shuffled and all(cut % 3 == 0 for cut in cuts)
    assert_same(frame, cuts, layout=layout, ordered=aligned, **BASIC)


GUISES: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "arrow": lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
    "nullable": lambda frame: frame.convert_dtypes(),
    "objects": lambda frame: frame.astype(object),
    "categorical": lambda frame: frame.astype({"item": "category", "rater": "category", "label": "category"}),
    "index levels": lambda frame: frame.set_index(["item"]),
    "repeated index": lambda frame: frame.set_index(pd.Index([0] * len(frame))),
}


@pytest.mark.parametrize("guise", list(GUISES))
@pytest.mark.parametrize("cuts", [(9, 18), (7, 7, 20)])
def test_the_dtypes_of_the_columns_do_not_matter(guise: str, cuts: Sequence[int]) -> None:
    assert_same(GUISES[guise](small()), cuts, **BASIC)
    numbers = small(label=[1, 2, 3, 4, None, 0] * 6, item=np.repeat(np.arange(12) * 7, 3))
    numbers["label"] = numbers["label"].astype("Int64")
    options: dict[str, Any] = {"judges": ["gpt"], "scale": ONE_TO_FOUR, "ca": 0}
    assert_same(GUISES[guise](numbers), cuts, **options)


def test_categories_and_dtypes_may_differ_between_partitions() -> None:
    pieces = [small(4), small(8).iloc[12:], small(9).iloc[24:]]
    pieces[0] = pieces[0].astype({"rater": "category", "label": "category"})
    pieces[1:] = [piece.astype({"rater": "category", "label": "category"}) for piece in pieces[1:]]
    frame = dd.from_delayed([delayed(piece) for piece in pieces], meta=pieces[2].iloc[:0], verify_meta=False)
    ds = xj.from_long(frame, **BASIC)
    xr.testing.assert_identical(ds.compute(), xj.from_long(small(9), **BASIC))
    pieces = [small(4).astype({"rater": "category"}), small(8).iloc[12:], small(9).iloc[24:].astype(object)]
    frame = dd.from_delayed([delayed(piece) for piece in pieces], meta=pieces[1].iloc[:0], verify_meta=False)
    xr.testing.assert_identical(xj.from_long(frame, **BASIC).compute(), xj.from_long(small(9), **BASIC))
    whole = small(4, item=np.repeat([1, 2, 3, 4], 3))
    pieces = [whole.iloc[:6], whole.iloc[6:].astype({"item": float})]
    frame = dd.from_delayed([delayed(piece) for piece in pieces], meta=whole.iloc[:0], verify_meta=False)
    ds = xj.from_long(frame, **BASIC)
    assert ds["item"].dtype == np.int64
    xr.testing.assert_identical(ds.compute(), xj.from_long(whole, **BASIC))


def test_compound_ids_and_criteria() -> None:
    frame = small(criterion=["q1", "q2", "q3"] * 12, part=np.repeat([1, 2.5, 3, 4], 9), batch=1)
    frame["who"] = frame["rater"].map({"ann": 1, "bob": 1.5, "gpt": 2})
    options = BASIC | {"item": ["part", "item"], "rater": ["batch", "who"], "criterion": "criterion"}
    for cuts in [(9, 27), (4, 17)]:
        assert_same(frame, cuts, **options | {"judges": ["1|2.0"]})
        assert_same(frame.sample(frac=1, random_state=1), cuts, **options | {"judges": ["1|2.0"]})


@pytest.mark.parametrize("cuts", [(18, 24), (5, 17)])
@pytest.mark.parametrize("rule", ["raise", "first", "last", "majority", "replicate"])
def test_duplicates(rule: str, cuts: Sequence[int]) -> None:
    frame = small()
    repeated = pd.concat([frame, frame.iloc[[0, 0, 1, 4, 9, 9, 13, 20]].assign(label="yes")])
    for layout in ("dense", "sparse"):
        assert_same(repeated, cuts, duplicates=rule, layout=layout, **BASIC)
    near = repeated.sort_values("item", kind="stable")
    counts = near.groupby("item", sort=False).size().cumsum().tolist()
    assert_same(near, counts[3:8:2], duplicates=rule, ordered=True, **BASIC)
    many = pd.concat([frame] * 7)
    assert_same(many, cuts, duplicates=rule, **BASIC)


def test_many_repeated_labels_are_told_once() -> None:
    frame = pd.concat([small(30)] * 3)
    assert_same(frame, (10, 95, 190), **BASIC)
    with pytest.raises(StructureError, match=r"have more than one label \(\d+ rows\).*and \d+ more\. Say"):
        xj.from_long(lazy(frame, [50]), **BASIC)


@pytest.mark.parametrize("shuffled", [False, True])
def test_scores_probabilities_and_confidence(shuffled: bool) -> None:
    rng = np.random.default_rng(0)
    frame = small(sure=rng.random(36), p=rng.random(36), q=rng.random(36))
    frame.loc[frame["label"].isna(), "p"] = np.nan
    frame.loc[[5], ["p", "q"]] = np.nan
    if shuffled:
        frame = frame.sample(frac=1, random_state=2)
    for layout in ("dense", "sparse"):
        extra: dict[str, Any] = {"prob": {"yes": "p", "no": "q"}, "confidence": "sure", "layout": layout}
        assert_same(frame, (9, 18), **BASIC, **extra)
    scores = frame.assign(label=rng.random(36))
    scores.loc[[3, 4], "label"] = [-1, np.nan]
    for scale in (xj.Scale.continuous(), None):
        assert_same(scores, (9, 18), judges=["gpt"], scale=scale, ca=-1)


def test_very_many_scores_are_not_all_held() -> None:
    rng = np.random.default_rng(1)
    frame = small(4000)
    frame["label"] = rng.random(12_000).round(6)
    frame.loc[:5000, "label"] = frame.loc[:5000, "label"].round(0)
    frame.loc[[7, 9000], "label"] = [np.inf, np.nan]
    assert_same(frame, (3000, 6000), judges=["gpt"], invalid=np.inf)
    assert_same(frame, (3000, 6000), judges=["gpt"], scale=xj.Scale.continuous(), invalid="coerce")
    assert_same(frame, (3000, 6000), judges=["gpt"], scale=xj.Scale.continuous())


def test_statuses_roles_and_identities_from_columns() -> None:
    frame = small()
    long = xj.to_long(
        xj.from_long(frame, identity={"ann": "file", "bob": "named", "gpt": "unknown"}, **BASIC), missing=True
    )
    options: dict[str, Any] = {"role": "role", "status": "status", "identity": "identity", "scale": YES_NO}
    assert_same(long, (12, 20), ordered=False, **options)
    assert_same(long, (12, 21), ordered=True, **options)
    wrong = long.copy()
    wrong.loc[wrong["label"].isna(), "status"] = "answered"
    assert_same(wrong, (12, 20), **options)
    wrong = long.assign(status=["maybe", *long["status"][1:]])
    assert_same(wrong, (12, 20), **options)
    wrong = long.assign(role=["judge", *long["role"][1:]])
    assert_same(wrong, (12, 20), **options)
    assert_same(long.assign(identity="strange"), (12, 20), **options)


def bad_frames() -> dict[str, tuple[pd.DataFrame, dict[str, Any]]]:
    """Tables with every kind of fault, and the arguments they are read with."""
    frame = small()
    null = frame.copy()
    null.loc[[2, 11, 12, 13, 30], "item"] = None
    null.loc[[33], "rater"] = None
    mixed = small().astype({"item": object})
    mixed.loc[[20, 31], "item"] = [7, 3.5]
    lists = small(label=[*frame["label"][:30], ["yes"], *frame["label"][31:]])
    list_ids = small(rater=[*frame["rater"][:30], ["ann"], *frame["rater"][31:]])
    return {
        "unknown labels": (frame.assign(label=[*["maybe", "Yes", " no"] * 11, "maybe", "9", 9]), BASIC),
        "undeclared codes": (frame, {"judges": ["gpt"], "scale": YES_NO}),
        "no scale": (frame, {"judges": ["gpt"], "ca": "CA"}),
        "one label": (frame.assign(label="yes"), {"judges": ["gpt"]}),
        "no roles": (frame, {"scale": YES_NO, "ca": "CA", "invalid": "error"}),
        "unknown judges": (frame, BASIC | {"judges": ["claude", 1]}),
        "null ids": (null, BASIC),
        "mixed ids": (mixed, BASIC),
        "infinite ids": (small(item=[np.inf, *range(35)]), BASIC),
        "lists as labels": (lists, BASIC),
        "lists as ids": (list_ids, BASIC),
        "no such column": (frame, BASIC | {"rater": "rator", "label": "lable"}),
        "no numbers": (frame, BASIC | {"confidence": "rater", "prob": {"yes": "label", "no": "item"}}),
        "prob of others": (frame.assign(p=0.5), BASIC | {"prob": {"maybe": "p"}}),
        "several at once": (null, BASIC | {"ca": (), "duplicates": "some", "label": "lable"}),
        "wrong options": (frame, BASIC | {"layout": "flat", "scale": "binary", "normalise": "upper"}),
        "coerced": (frame.assign(label=[*["maybe", "yes", 3] * 12]), BASIC | {"invalid": "coerce", "ca": ()}),
        "coerced booleans": (
            frame.assign(label=pd.Series([True] * 18 + [0, 1, 5] * 6, dtype=object)),
            {"judges": ["gpt"], "scale": xj.Scale.binary(0, 1), "invalid": "coerce"},
        ),
        "covariates without a place": (
            frame.assign(note=range(36), status="answered", both=[1, "a", 2.5] * 12, held=[[1]] * 36),
            BASIC,
        ),
        "joined ids": (
            pd.DataFrame({"a": ["x|y", "x"], "b": ["z", "y|z"], "rater": "ann", "label": ["yes", "no"]}),
            {"item": ["a", "b"], "humans": ["ann"], "scale": YES_NO},
        ),
        "many texts": (small(600, label=[f"text {k}" for k in range(1800)]), {"judges": ["gpt"]}),
        "nulls declared": (frame, BASIC | {"ca": ["CA", None]}),
        "missing declared": (frame, BASIC | {"missing": "yes", "scale": xj.Scale.binary("no", "si")}),
        "ints beyond": (small(item=[2**70, *range(35)]).astype({"item": object}), BASIC),
    }


@pytest.mark.parametrize("fault", list(bad_frames()))
@pytest.mark.parametrize("cuts", [(18,), (10, 19, 19, 31), ()])
def test_errors_and_warnings_are_those_of_the_frame_in_memory(fault: str, cuts: Sequence[int]) -> None:
    frame, options = bad_frames()[fault]
    assert_same(frame, cuts, **options)


def awkward() -> dict[str, tuple[pd.DataFrame, dict[str, Any]]]:
    """Tables whose ids, labels or covariates are unusual, and the arguments they are read with."""
    number = np.repeat(np.arange(12), 3)
    frame = small()
    judged: dict[str, Any] = {"judges": ["gpt"]}
    binary = judged | {"scale": YES_NO}
    twice = pd.concat([small(rep="a"), small(rep="b")])
    objects = [0.5, 1, 2.25, None, "err", 7]
    levels = ["lo", "mid", "hi", "top"]
    return {
        "columns that are numbers": (
            frame.set_axis([0, 1, 2], axis=1),
            BASIC | {"item": 0, "rater": 1, "label": 2},
        ),
        "times with a zone": (
            small(item=pd.Timestamp("2024-01-01", tz="Europe/Paris") + pd.to_timedelta(number, unit="h")),
            BASIC,
        ),
        "booleans": (
            small(rater=[True, False, True] * 12),
            BASIC | {"judges": [True], "duplicates": "first"},
        ),
        "large unsigned ids": (small(item=np.uint64(2**63) + number.astype(np.uint64)), BASIC),
        "fractions": (small(item=number + 0.5), BASIC),
        "decimals": (small(item=[Decimal(int(k)) / 4 for k in number]), BASIC),
        "an empty id": (small(item=np.where(number == 3, "", number.astype(str))), BASIC),
        "single precision": (
            small(label=np.resize([0.1, 0.5, 0.7], 36).astype(np.float32)),
            judged | {"scale": xj.Scale.interval([0.1, 0.5, 0.7])},
        ),
        "ordered levels": (
            small(label=pd.Categorical(np.resize(levels[:3], 36), categories=levels, ordered=True)),
            judged,
        ),
        "a replicate column": (twice, BASIC | {"replicate": "rep", "layout": "sparse"}),
        "repeats of replicates": (
            pd.concat([twice, twice.iloc[-4:]]),
            BASIC | {"replicate": "rep", "duplicates": "replicate"},
        ),
        "booleans for numbers": (
            small(label=np.resize([True, False], 36)),
            judged | {"scale": xj.Scale.binary(0, 1)},
        ),
        "text for booleans": (
            small(label=np.resize(["True", "false", " yes"], 36)),
            judged | {"normalise": ["strip", "bool_text"], "missing": "yes"},
        ),
        "whole partitions missing": (small(label=["yes"] * 18 + [None] * 18), binary),
        "nothing but missing": (small(label=[None] * 36), binary),
        "one label": (small(1).iloc[:1], {"humans": ["ann"], "scale": YES_NO}),
        "many categories": (
            small(200, label=[f"c{k % 300}" for k in range(600)]),
            judged | {"scale": xj.Scale.nominal([f"c{k}" for k in range(300)])},
        ),
        "scores among objects": (
            small(label=pd.Series(objects * 6, dtype=object)),
            judged | {"scale": xj.Scale.continuous(), "invalid": "err"},
        ),
        "covariates of two kinds": (
            small(mix=pd.Series([1] * 18 + [2] * 9 + ["x"] * 9, dtype=object)),
            BASIC,
        ),
        "covariates that part late": (small(c=[None] * 30 + ["a", "b", "a", None, "a", "a"]), BASIC),
        "covariates with holes": (
            small(
                hard=np.where(number % 3 == 0, None, number % 2 == 0), big=np.repeat(2**62 + np.arange(12), 3)
            ),
            BASIC,
        ),
        "covariates that cannot be compared": (small(c=[{"a": 1}] * 36), BASIC),
    }


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("table", list(awkward()))
def test_awkward_tables(table: str, shuffled: bool) -> None:
    frame, options = awkward()[table]
    assert_same(frame.sample(frac=1, random_state=4) if shuffled else frame, (5, 17, 30), **options)


def test_what_is_no_table() -> None:
    frame = small()
    for empty in (lazy(frame.iloc[:0]), lazy(frame.iloc[:0], [0])):
        with pytest.raises(StructureError, match="has no rows"):
            xj.from_long(empty, **BASIC)
    with pytest.raises(StructureError, match=r"only xj\.from_long reads part by part"):
        xj.from_wide(lazy(frame), raters=["ann"], item="item", humans=["ann"])


def test_a_frame_that_changes_is_refused() -> None:
    held = {"frame": small()}
    source = dd.from_map(lambda k: held["frame"].iloc[18 * k : 18 * k + 18], [0, 1], meta=small().iloc[:0])
    ds = xj.from_long(source, **BASIC)
    for changed in (small(label="maybe"), small(rater="eve"), small(item="i0")):
        held["frame"] = changed
        with pytest.raises(StructureError, match="Build the dataset again"):
            ds["label"].compute()


def test_covariates_go_to_items_raters_and_criteria_across_partitions() -> None:
    frame = small(criterion=["q1", "q2", "q3"] * 12)
    frame["weight"] = frame["criterion"].map({"q1": 1.0, "q2": np.nan, "q3": 3.0})
    frame["cost"] = [1.0, 2.0, 3.0] * 12
    frame["late"] = [1] * 30 + [2] * 6  # constant within each partition's raters, not across
    frame["seen"] = pd.to_datetime("2024-01-01") + pd.to_timedelta(np.repeat(range(12), 3), unit="D")
    assert_same(frame, (15, 30), criterion="criterion", **BASIC)
    assert_same(frame.assign(late=[1] * 31 + [2] * 5), (15, 30), criterion="criterion", **BASIC)
    with pytest.warns(DroppedWarning, match="Column 'late' is not constant"):
        ds = xj.from_long(
            lazy(frame.assign(late=[1] * 31 + [2] * 5), (15, 30)), criterion="criterion", **BASIC
        )
    assert ds["weight"].dims == ("criterion",)
    assert ds["cost"].dims == ("rater",)
    assert ds["seen"].dims == ("item",)


# --------------------------------------------------------------------------------------------- any table


@st.composite
def tables(draw: st.DrawFn) -> tuple[pd.DataFrame, list[int], dict[str, Any]]:
    n = draw(st.integers(1, 24))
    column = lambda values: draw(st.lists(st.sampled_from(values), min_size=n, max_size=n))  # noqa: E731
    frame = pd.DataFrame(
        {
            "item": column(["a", "b", "c", "d", "e"]) if draw(st.booleans()) else column([1, 2, 3, 4, 50]),
            "rater": column(["ann", "bob", "gpt"]),
            "label": pd.Series(column(["yes", "no", "CA", None]), dtype=object),
            "size": column([1, 2]),
            "kind": pd.Series(column(["x", "", None]), dtype=object),
        }
    )
    if draw(st.booleans()):
        frame["size"] = frame["item"].map(hash) % 3
    if draw(st.booleans()):
        frame["kind"] = frame["rater"].map({"ann": "p", "bob": None, "gpt": ""})
    if draw(st.booleans()):
        frame = frame.sort_values("item", kind="stable", ignore_index=True)
    cuts = draw(st.lists(st.integers(0, n), max_size=4))
    options = {
        "role": lambda name: "judge" if name == "gpt" else "human",
        "scale": draw(st.sampled_from([YES_NO, None])),
        "ca": "CA",
        "duplicates": draw(st.sampled_from(["raise", "first", "last", "majority", "replicate"])),
        "layout": draw(st.sampled_from(["dense", "sparse"])),
    }
    return frame, cuts, options


@given(tables())
def test_any_table_and_any_partitioning(case: tuple[pd.DataFrame, list[int], dict[str, Any]]) -> None:
    frame, cuts, options = case
    assert_same(frame, cuts, **options)

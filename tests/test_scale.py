"""Scales: construction and its errors, typed matching, JSON, and the attributes of a label array."""

import dataclasses
import enum
import json
import pickle
import re

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from xjudge.errors import StructureError
from xjudge.scale import Scale, category_key, plain_category

BINARY = Scale.binary(negative="UNMET", positive="MET")
SCALES = [
    BINARY,
    Scale.binary(False, True),
    Scale.nominal(["red", "green", "blue"]),
    Scale.nominal(["1", 1, True, 1.5]),
    Scale.ordinal([1, 2, 3, 4, 5]),
    Scale.ordinal(["poor", "fair", "good"]),
    Scale.interval([-1.5, 0, 2]),
    Scale.continuous(),
    Scale.pairwise(),
    Scale.pairwise("left", "right", tie="both the same"),
    Scale.ordinal(list(range(200))),
]
named = pytest.mark.parametrize("scale", SCALES, ids=lambda scale: f"{scale!r:.40}")

# ----------------------------------------------------------------------------------------- what a scale knows


@pytest.mark.parametrize(
    ("scale", "categories", "negative", "positive", "ordered", "scores"),
    [
        (BINARY, ("UNMET", "MET"), "UNMET", "MET", True, [0, 1]),
        (Scale.nominal(["a", "b", "c"]), ("a", "b", "c"), None, None, False, [0, 1, 2]),
        (Scale.nominal(["a", "b"]), ("a", "b"), None, None, True, [0, 1]),
        (Scale.ordinal([3, 1, 2]), (3, 1, 2), None, None, True, [0, 1, 2]),
        (Scale.interval([0.5, 1, 10]), (0.5, 1, 10), None, None, True, [0.5, 1, 10]),
        (Scale.continuous(), (), None, None, True, []),
        (Scale.pairwise(), ("A", "B"), None, None, True, [0, 1]),
        (Scale.pairwise("x", "y", tie="="), ("x", "y", "="), None, None, False, [0, 1, 2]),
    ],
)
def test_what_each_kind_knows(scale, categories, negative, positive, ordered, scores):
    assert scale.categories == categories
    assert (scale.negative, scale.positive, scale.ordered) == (negative, positive, ordered)
    assert scale.scores.tolist() == scores
    assert scale.scores.dtype == np.float64
    assert scale.n_categories == (len(categories) or 1)


def test_binary_takes_the_negative_category_first():
    assert Scale.binary("no", "yes") == Scale.binary(negative="no", positive="yes")
    assert Scale.binary("no", "yes") != Scale.binary("yes", "no")
    assert [BINARY.index("UNMET"), BINARY.index("MET")] == [0, 1]


def test_the_tie_is_the_last_category_and_known_as_one():
    scale = Scale.pairwise("A", "B", tie="tie")
    assert (scale.tie, scale.index("tie"), scale.n_categories) == ("tie", 2, 3)
    assert Scale.pairwise("A", "B").tie is None


@pytest.mark.parametrize(("n", "dtype"), [(2, "int8"), (128, "int8"), (129, "int16"), (32769, "int32")])
def test_codes_take_the_smallest_dtype(n, dtype):
    scale = Scale.ordinal(list(range(n)))
    assert scale.dtype == np.dtype(dtype)
    assert scale.to_attrs()["flag_values"].dtype == np.dtype(dtype)
    assert [scale.find(n - 1), scale.find(n)] == [n - 1, None]


# ------------------------------------------------------------------------------------------- frozen, hashable


@named
def test_a_scale_is_frozen(scale):
    with pytest.raises(dataclasses.FrozenInstanceError):
        scale.kind = "nominal"
    with pytest.raises(dataclasses.FrozenInstanceError):
        scale.categories = ("a", "b")


@named
def test_a_scale_is_a_key_and_survives_pickling(scale):
    again = pickle.loads(pickle.dumps(scale))
    assert again == scale
    assert hash(again) == hash(scale)
    assert len({scale, again}) == 1


def test_all_these_scales_differ():
    assert len(set(SCALES)) == len(SCALES)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Scale.nominal([0, 1]), Scale.nominal(["0", "1"])),
        (Scale.nominal([0, 1]), Scale.nominal([False, True])),
        (Scale.nominal(["a", "b"]), Scale.nominal(["b", "a"])),
        (Scale.nominal(["a", "b"]), Scale.ordinal(["a", "b"])),
        (Scale.ordinal([1, 2]), Scale.interval([1, 2])),
        (Scale.pairwise("a", "b"), Scale.nominal(["a", "b"])),
        (Scale.pairwise("a", "b", tie="c"), Scale.nominal(["a", "b", "c"])),
        (Scale.continuous(), "continuous"),
    ],
)
def test_scales_that_are_not_equal(one, other):
    assert one != other
    assert not one == other  # noqa: SIM201 - both operators are asked


def test_whole_floats_and_integers_make_one_scale():
    assert Scale.ordinal([1.0, 2.0]) == Scale.ordinal([1, 2])
    assert hash(Scale.ordinal([1.0, 2.0])) == hash(Scale.ordinal([1, 2]))


# ------------------------------------------------------------------------------------------------------- repr


@pytest.mark.parametrize(
    ("scale", "text"),
    [
        (BINARY, "Scale.binary(negative='UNMET', positive='MET')"),
        (Scale.nominal(["a", 1, True]), "Scale.nominal(['a', 1, True])"),
        (Scale.ordinal([1, 2.0, 2.5]), "Scale.ordinal([1, 2, 2.5])"),
        (Scale.interval([-1, 0.25]), "Scale.interval([-1, 0.25])"),
        (Scale.continuous(), "Scale.continuous()"),
        (Scale.pairwise(), "Scale.pairwise('A', 'B')"),
        (Scale.pairwise("x", "y", tie="="), "Scale.pairwise('x', 'y', tie='=')"),
        (Scale.ordinal(list(range(15))), "Scale.ordinal([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 3 more])"),
    ],
)
def test_repr(scale, text):
    assert repr(scale) == text


@named
def test_repr_is_one_line_and_evaluates_where_it_lists_everything(scale):
    assert "\n" not in repr(scale)
    if "more]" not in repr(scale):
        assert eval(repr(scale)) == scale


def test_repr_is_one_line_whatever_the_categories():
    scale = Scale.nominal(["two\nlines", "a\ttab"])
    assert "\n" not in repr(scale)
    assert eval(repr(scale)) == scale


# --------------------------------------------------------------------------------------------- typed matching


@pytest.mark.parametrize(
    ("categories", "value", "code"),
    [
        ([0, 1], "0", None),
        (["0", "1"], 0, None),
        ([0, 1], True, None),
        ([False, True], 1, None),
        ([False, True], True, 1),
        ([0, 1], np.True_, None),
        ([0, 1], 1.0, 1),
        ([0.0, 1.0], 1, 1),
        ([0, 1], np.int8(1), 1),
        ([0, 1], np.float32(1), 1),
        ([0, 1], np.uint64(1), 1),
        (["a", "b"], np.str_("b"), 1),
        ([0, 0.5], 0.5, 1),
        ([0, 0.5], np.float64(0.5), 1),
        ([0, 1], -0.0, 0),
        ([1, "1", True], 1, 0),
        ([1, "1", True], "1", 1),
        ([1, "1", True], True, 2),
        (["a", "A"], "A", 1),
        (["a", "b"], "a ", None),
        (
            ["\u00e9", "e"],
            "e\u0301",
            None,
        ),  # the decomposed form is another text; `normalise="nfc"` makes them one
        ([0, 1], float("nan"), None),
        ([0, 1], float("inf"), None),
        (["nan", "b"], float("nan"), None),
        (["None", "b"], None, None),
        ([0, 1], pd.NA, None),
        ([0, 1], pd.NaT, None),
        ([0, 1], [0], None),
        ([0, 1], b"0", None),
        ([0, 1], 0j, None),
        ([0, 1], np.datetime64("2024-01-01"), None),
        ([2**53, 2**53 + 1], 2**53 + 1, 1),
    ],
)
def test_labels_are_matched_by_type_and_value(categories, value, code):
    scale = Scale.nominal(categories)
    assert scale.find(value) == code
    if code is not None:
        assert scale.index(value) == code


@pytest.mark.parametrize("value", ["0", True, None, float("nan"), [0]])
def test_index_refuses_what_is_no_category_and_names_it(value):
    scale = Scale.ordinal([0, 1])
    with pytest.raises(StructureError, match=re.escape(repr(value))) as caught:
        scale.index(value)
    assert repr(scale) in str(caught.value)
    assert "type and value" in str(caught.value)


class Verdict(str, enum.Enum):  # noqa: UP042 - the older way to write an enumeration of text
    NO = "UNMET"
    YES = "MET"


class Modern(enum.StrEnum):
    NO = "UNMET"
    YES = "MET"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@pytest.mark.parametrize("words", [Verdict, Modern])
def test_an_enumeration_of_text_is_its_text(words):
    scale = Scale.binary(words.NO, words.YES)
    assert scale == BINARY
    assert scale.find("MET") == BINARY.find(words.YES) == 1
    assert [type(category) for category in scale.categories] == [str, str]


def test_an_enumeration_of_integers_is_its_integers():
    assert Scale.ordinal(list(Level)) == Scale.ordinal([1, 2])


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (np.int64(3), 3),
        (np.float64(3.0), 3),
        (3.5, 3.5),
        (np.bool_(False), False),
        (np.str_("x"), "x"),
        ("", ""),
        (-0.0, 0),
        (10**30, 10**30),
    ],
)
def test_plain_category_is_a_plain_object(value, plain):
    out = plain_category(value)
    assert out == plain
    assert type(out) is type(plain)


@pytest.mark.parametrize(
    "value",
    [
        None,
        float("nan"),
        float("inf"),
        np.float32("nan"),
        pd.NA,
        pd.NaT,
        ("a",),
        ["a"],
        {"a"},
        b"a",
        1j,
        object(),
    ],
)
def test_plain_category_refuses_what_has_no_value(value):
    with pytest.raises(StructureError, match="text, a finite number or a boolean") as caught:
        plain_category(value)
    shown = value.item() if isinstance(value, np.generic) else value
    assert type(shown).__name__ in str(caught.value)


def test_the_key_tells_the_types_apart():
    keys = [category_key(value) for value in ("1", 1, True)]
    assert len(set(keys)) == 3
    assert category_key(1) == category_key(1.0) == category_key(np.int8(1))


# --------------------------------------------------------------------------------------- construction refused


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: Scale.binary("a", "a"), ["declared once", "'a'"]),
        (lambda: Scale.ordinal([1, 1.0]), ["declared once", "1"]),
        (lambda: Scale.nominal(["a", "b", "a", "b"]), ["declared once", "'a', 'b'"]),
        (lambda: Scale.pairwise("A", "B", tie="A"), ["declared once", "'A'"]),
        (lambda: Scale.nominal([]), ["at least two", "none", "Declare"]),
        (lambda: Scale.nominal(["only"]), ["at least two", "'only'", "Declare"]),
        (lambda: Scale.ordinal([]), ["at least two"]),
        (lambda: Scale.interval([3]), ["at least two", "3"]),
        (lambda: Scale.nominal("abc"), ["as a list", "'abc'"]),
        (lambda: Scale.ordinal("12345"), ["as a list", "'12345'"]),
        (lambda: Scale.interval("123"), ["as a list"]),
        (lambda: Scale.nominal(b"abc"), ["as a list", "b'abc'"]),
        (lambda: Scale.nominal(3), ["as a list", "3"]),
        (lambda: Scale.nominal(None), ["as a list", "None"]),
        (lambda: Scale.nominal(np.array(3)), ["as a list"]),
        (lambda: Scale("nominal", "ab"), ["as a list", "'ab'"]),
        (lambda: Scale("nominal", None), ["as a list", "None"]),
        (lambda: Scale.nominal({"a"}), ["order", "list"]),
        (lambda: Scale.ordinal(frozenset(["a"])), ["order", "list"]),
        (lambda: Scale.binary(None, "a"), ["None", "NoneType", "`missing`"]),
        (lambda: Scale.ordinal([1, float("nan")]), ["nan", "float"]),
        (lambda: Scale.ordinal([1, float("inf")]), ["inf"]),
        (lambda: Scale.nominal([("a",), "b"]), ["('a',)", "tuple"]),
        (lambda: Scale.nominal([["a"], "b"]), ["['a']", "list"]),
        (lambda: Scale.interval(["low", "high"]), ["'low', 'high'", "Scale.ordinal"]),
        (lambda: Scale.interval([1, "2"]), ["'2'", "Scale.ordinal"]),
        (lambda: Scale.interval([False, True]), ["numbers", "False, True"]),
        (lambda: Scale.interval([3, 1, 2]), ["increasing order"]),
        (lambda: Scale("binary", ("a", "b", "c")), ["two categories", "'a', 'b', 'c'"]),
        (lambda: Scale("binary", ("a",)), ["at least two"]),
        (lambda: Scale("continuous", ("a", "b")), ["no categories", "Scale.interval"]),
        (lambda: Scale("binary", ("a", "b"), "a"), ["pairwise", "tie"]),
        (lambda: Scale("continuous", (), "a"), ["pairwise", "tie"]),
        (lambda: Scale("pairwise", ("A", "B"), "tie"), ["'tie'", "'A', 'B'"]),
        (lambda: Scale("pairwise", ("A", "B", "C")), ["pairwise", "'A', 'B', 'C'", "tie=None"]),
        (lambda: Scale("pairwise", ("A", "B", "C", "D"), "D"), ["pairwise", "tie='D'"]),
        (lambda: Scale("pairwise", ("A", "tie", "B"), "tie"), ["last", "tie='tie'"]),
        (lambda: Scale("pairwise", ("A", "B"), "B"), ["pairwise", "tie='B'"]),
        (lambda: Scale.pairwise("A", "B", tie=float("nan")), ["nan"]),
        (lambda: Scale("likert", (1, 2)), ["`kind`", "'likert'", "'ordinal'"]),
        (lambda: Scale(["binary"], ("a", "b")), ["`kind`", "['binary']"]),
    ],
)
def test_construction_refused(build, says):
    with pytest.raises(StructureError) as caught:
        build()
    message = str(caught.value)
    assert [part for part in says if part not in message] == []
    assert "\n" not in message


def test_a_set_is_refused_because_its_order_would_change_from_run_to_run():
    with pytest.raises(StructureError, match="order"):
        Scale.nominal({"a", "b", "c"})


@pytest.mark.parametrize(
    "categories",
    [
        ["a", "b"],
        ("a", "b"),
        np.array(["a", "b"]),
        np.array(["a", "b"], dtype=object),
        pd.Series(["a", "b"]),
        pd.Index(["a", "b"]),
        pd.Categorical(["a", "b"]),
        {"a": 1, "b": 2},
        {"a": 1, "b": 2}.keys(),
        (letter for letter in "ab"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_categories_come_in_any_ordered_collection(categories):
    assert Scale.nominal(categories) == Scale.nominal(["a", "b"])


def test_numpy_categories_become_plain():
    scale = Scale.interval(np.array([1, 2.5]))
    assert scale.categories == (1, 2.5)
    assert [type(value) for value in scale.categories] == [int, float]


# ------------------------------------------------------------------------------------------------------- JSON


@named
def test_json_round_trip(scale):
    again = Scale.from_json(scale.to_json())
    assert again == scale
    assert [type(value) for value in again.categories] == [type(value) for value in scale.categories]
    assert again.tie == scale.tie
    assert "\n" not in scale.to_json()


@pytest.mark.parametrize(
    ("scale", "content"),
    [
        (BINARY, {"kind": "binary", "categories": ["UNMET", "MET"]}),
        (Scale.nominal(["1", 1, True]), {"kind": "nominal", "categories": ["1", 1, True]}),
        (Scale.continuous(), {"kind": "continuous", "categories": []}),
        (Scale.pairwise(tie="="), {"kind": "pairwise", "categories": ["A", "B", "="], "tie": "="}),
    ],
)
def test_json_content(scale, content):
    # the text is compared: == of Python takes 1 and True for the same
    assert json.dumps(json.loads(scale.to_json())) == json.dumps(content)


def test_json_keeps_text_readable():
    assert "gut – sehr gut" in Scale.ordinal(["schlecht", "gut – sehr gut"]).to_json()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "{}",
        "[]",
        "3",
        "null",
        '"binary"',
        '{"kind": "binary"}',
        '{"kind": "binary", "categories": 3}',
    ],
)
def test_json_of_something_else_is_refused(text):
    with pytest.raises(StructureError) as caught:
        Scale.from_json(text)
    assert repr(text) in str(caught.value)


def test_json_of_a_scale_that_cannot_be_is_refused_for_its_own_reason():
    with pytest.raises(StructureError, match="declared once"):
        Scale.from_json('{"kind": "nominal", "categories": ["a", "a"]}')
    with pytest.raises(StructureError, match="`kind`"):
        Scale.from_json('{"kind": "likert", "categories": ["a", "b"]}')


plain_values = st.one_of(
    st.text(max_size=6),
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
)
category_lists = st.lists(plain_values, min_size=2, max_size=8, unique_by=category_key)


@given(category_lists, st.sampled_from(["nominal", "ordinal"]))
def test_any_categories_round_trip_through_json_and_attributes(categories, kind):
    scale = Scale(kind, tuple(categories))
    assert Scale.from_json(scale.to_json()) == scale
    assert Scale.from_attrs(scale.to_attrs()) == scale
    assert [scale.find(value) for value in categories] == list(range(len(categories)))


# ------------------------------------------------------------------------------------------------- attributes


def test_attributes_are_cf_flags_and_the_json():
    attrs = Scale.ordinal(["very bad", "bad", "good"]).to_attrs()
    assert set(attrs) == {"flag_values", "flag_meanings", "judge_scale"}
    assert attrs["flag_values"].tolist() == [0, 1, 2]
    assert attrs["flag_values"].dtype == np.int8
    assert attrs["flag_meanings"] == "very_bad bad good"
    assert json.loads(attrs["judge_scale"])["categories"] == ["very bad", "bad", "good"]


@named
def test_attributes_set_no_fill_value(scale):
    assert "_FillValue" not in scale.to_attrs()
    assert "missing_value" not in scale.to_attrs()


def test_a_continuous_scale_has_no_flags():
    assert set(Scale.continuous().to_attrs()) == {"judge_scale"}


@pytest.mark.parametrize(
    ("categories", "slugs"),
    [
        (["a b", "c\td", "e\n f"], ["a_b", "c_d", "e_f"]),
        (["a b", "a_b", "a  b"], ["a_b", "a_b_2", "a_b_3"]),
        (["x_2", "x", "x "], ["x_2", "x", "x_"]),
        (["a b", "a_b_2", "a_b"], ["a_b", "a_b_2", "a_b_3"]),
        (["1", 1, True, "True"], ["1", "1_2", "True", "True_2"]),
        (["", " ", "é"], ["_", "__2", "__3"]),
        ([-1, 0.5, 1e-7], ["-1", "0.5", "1e-07"]),
        (["A+", "A-", "a@b.c"], ["A+", "A-", "a@b.c"]),
        ([">=3", "<3"], ["_3", "_3_2"]),
    ],
)
def test_meanings_are_words_without_blanks_each_once(categories, slugs):
    assert Scale.nominal(categories).to_attrs()["flag_meanings"].split(" ") == slugs


@given(category_lists)
def test_meanings_are_as_many_as_categories_and_of_the_letters_that_cf_allows(categories):
    words = Scale.nominal(categories).to_attrs()["flag_meanings"].split(" ")
    assert len(words) == len(set(words)) == len(categories)
    assert all(re.fullmatch(r"[A-Za-z0-9_\-.+@]+", word) for word in words)


@named
@pytest.mark.parametrize("as_read", [list, tuple, np.array, lambda values: np.array(values, dtype=np.int64)])
def test_attributes_round_trip_as_file_formats_hand_them_back(scale, as_read):
    attrs = scale.to_attrs()
    if "flag_values" in attrs:
        attrs["flag_values"] = as_read(attrs["flag_values"].tolist())
    assert Scale.from_attrs(attrs) == scale
    for text in (np.str_(attrs["judge_scale"]), np.array([attrs["judge_scale"]]), [attrs["judge_scale"]]):
        assert Scale.from_attrs({**attrs, "judge_scale": text}) == scale
    assert Scale.from_attrs({**attrs, "judge_scale": attrs["judge_scale"].encode()}) == scale
    assert Scale.from_attrs({**attrs, "judge_scale": np.bytes_(attrs["judge_scale"].encode())}) == scale


@pytest.mark.parametrize(
    "flags",
    [
        {"flag_values": [0, 1, 2], "flag_meanings": "no maybe yes"},
        {"flag_values": np.array([0, 1, 2], dtype=np.int8), "flag_meanings": "no maybe yes"},
        {"flag_values": (0.0, 1.0, 2.0), "flag_meanings": np.str_("no maybe yes")},
        {"flag_values": [0, 1, 2], "flag_meanings": "no  maybe\tyes "},
        {"flag_values": [0, 1, 2], "flag_meanings": ["no", "maybe", "yes"]},
        {"flag_values": [0, 1, 2], "flag_meanings": np.array(["no", "maybe", "yes"])},
        {"flag_values": [0, 1, 2], "flag_meanings": b"no maybe yes"},
        {
            "flag_values": np.array([0, 1, 2]),
            "flag_meanings": np.array(["no maybe yes"]),
            "long_name": "verdict",
        },
    ],
)
def test_flags_alone_are_a_nominal_scale(flags):
    assert Scale.from_attrs(flags) == Scale.nominal(["no", "maybe", "yes"])


@pytest.mark.parametrize(
    "attrs",
    [
        {},
        {"long_name": "label"},
        {"flag_meanings": "a b"},
        {"flag_values": [0, 1]},
        {"flag_values": [1, 2], "flag_meanings": "a b"},
        {"flag_values": [0, 1, 2], "flag_meanings": "a b"},
        {"flag_values": [0, 1], "flag_meanings": "a b c"},
        {"flag_values": [1, 0], "flag_meanings": "a b"},
        {"flag_values": 1, "flag_meanings": "a"},
    ],
)
def test_attributes_without_a_scale_are_refused_with_the_way_to_mend_them(attrs):
    with pytest.raises(StructureError, match=r"scale.to_attrs\(\)"):
        Scale.from_attrs(attrs)


def test_a_single_flag_is_one_category_and_so_no_scale():
    # what is left of `flag_values=[0]` after netCDF
    with pytest.raises(StructureError, match="at least two"):
        Scale.from_attrs({"flag_values": np.int8(0), "flag_meanings": "only"})


def test_broken_json_in_the_attributes_is_refused():
    with pytest.raises(StructureError, match="not the JSON of a scale"):
        Scale.from_attrs({"judge_scale": '{"kind": "bin'})


@named
@pytest.mark.parametrize("engine", ["h5netcdf", "zarr2", "zarr3"])
def test_a_scale_survives_files_and_codes_stay_integers(scale, engine, tmp_path):
    label = xr.DataArray(
        np.array([[0, -1], [-2, -3]], dtype=scale.dtype), dims=("item", "rater"), attrs=scale.to_attrs()
    )
    ds = xr.Dataset({"label": label})
    if engine == "h5netcdf":
        ds.to_netcdf(tmp_path / "labels.nc", engine="h5netcdf")
        again = xr.load_dataset(tmp_path / "labels.nc", engine="h5netcdf")
    else:
        ds.to_zarr(tmp_path / "labels.zarr", zarr_format=int(engine[-1]), consolidated=False)
        again = xr.load_dataset(tmp_path / "labels.zarr", engine="zarr", consolidated=False)
    assert Scale.from_attrs(again["label"].attrs) == scale
    assert again["label"].dtype == scale.dtype
    assert again["label"].values.tolist() == label.values.tolist()

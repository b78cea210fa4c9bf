"""Protocols: parts, grids, labels, JSON, and what becomes of every raw place under every handling."""

import dataclasses
import json
import pickle
import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from xjudge.codes import EXCLUDED
from xjudge.errors import ProtocolError, StructureError
from xjudge.protocol import (
    Protocol,
    all_positive,
    at_least,
    cut,
    decimal,
    merge,
    one_of,
    recode_to,
    weighted_share,
)
from xjudge.scale import Scale

BINARY = Scale.binary(negative="UNMET", positive="MET")
NOMINAL = Scale.nominal(["a", "b", "c"])
ORDINAL = Scale.ordinal([1, 2, 3, 4])
WORDS = Scale.ordinal(["awful", "poor", "good"])
INTERVAL = Scale.interval([0, 0.5, 2])
PAIRWISE = Scale.pairwise("A", "B", tie="tie")
NO_TIE = Scale.pairwise("A", "B")
CONTINUOUS = Scale.continuous()

PROTOCOLS = [
    Protocol(),
    Protocol(scale_map=at_least(3), ca="negative", aggregate="micro"),
    Protocol(scale_map=one_of("a", 1, True), invalid=recode_to("a")),
    Protocol(scale_map=merge({"a": "x", 1: "x"}), tie="exclude"),
    Protocol(scale_map=merge({"a": "x", "b": "y"}, positive="y"), extraction=cut(0.3)),
    Protocol(population="hard", ca="category", invalid="category"),
    Protocol(population={"turn": [1, 2], "language": "de"}, extraction="expected"),
    Protocol(aggregate="macro", criterion_weights={"clear": 2, "kind": 0.5}),
    Protocol(aggregate="item", item_rule=weighted_share(0.6), criterion_weights={1: 1}),
    Protocol(aggregate="item", item_rule=all_positive(), tie=recode_to("A")),
    Protocol(aggregate="item", item_rule="sum", extraction="sample"),
]
named = pytest.mark.parametrize("protocol", PROTOCOLS, ids=range(len(PROTOCOLS)))


def refused(build):
    """Message of the ProtocolError that ``build`` raises: one line."""
    with pytest.raises(ProtocolError) as caught:
        build()
    message = str(caught.value)
    assert message
    assert "\n" not in message
    return message


# ------------------------------------------------------------------------------------------------------ parts


@pytest.mark.parametrize(
    ("written", "value"),
    [
        (0.05, Fraction(1, 20)),
        (0.1, Fraction(1, 10)),
        (1e-7, Fraction(1, 10**7)),
        (1, Fraction(1)),
        ("0.6", Fraction(3, 5)),
        ("1/3", Fraction(1, 3)),
        (Fraction(2, 3), Fraction(2, 3)),
        (Decimal("0.15"), Fraction(3, 20)),
        (np.float64(0.05), Fraction(1, 20)),
        (np.float32(0.05), Fraction(1, 20)),
        (np.int64(2), Fraction(2)),
    ],
)
def test_thresholds_are_the_decimals_that_are_written(written, value):
    assert decimal(written) == value
    assert isinstance(decimal(written), Fraction)


@pytest.mark.parametrize("written", [float("nan"), float("inf"), "high", "", "1/0", None, [0.5], True])
def test_a_threshold_that_is_no_number_is_refused(written):
    for read in (decimal, weighted_share, cut):
        assert repr(written) in refused(lambda read=read: read(written))


@pytest.mark.parametrize("read", [weighted_share, cut])
@pytest.mark.parametrize("outside", [0, -0.1, 1.0000001, "3/2", "0.0"])
def test_cuts_lie_in_zero_to_one(read, outside):
    message = refused(lambda: read(outside))
    assert "(0, 1]" in message
    assert str(outside) in message


@pytest.mark.parametrize("inside", [1, 1.0, "1", 1e-9, Fraction(1, 3)])
def test_cuts_include_one_and_exclude_zero(inside):
    assert decimal(weighted_share(inside).cut) == decimal(inside)
    assert decimal(cut(inside).at) == decimal(inside)


def test_a_share_of_exactly_the_cut_reaches_it():
    one_in_twenty = Fraction(1, 20)
    assert one_in_twenty >= decimal(weighted_share(0.05).cut)
    assert one_in_twenty < Fraction(0.05)  # the binary neighbour lies above: a float cut would miss it


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (at_least(3), "at_least(3)"),
        (at_least(np.float64(2.0)), "at_least(2)"),
        (at_least("good"), "at_least('good')"),
        (one_of("a", 1), "one_of('a', 1)"),
        (one_of("a", "b", "a"), "one_of('a', 'b')"),
        (merge({"a": "x", 1: 2}), "merge({'a': 'x', 1: 2})"),
        (merge({"a": "x", "b": "y"}, positive="x"), "merge({'a': 'x', 'b': 'y'}, positive='x')"),
        (recode_to("MET"), "recode_to('MET')"),
        (recode_to(np.int8(1)), "recode_to(1)"),
        (weighted_share(0.6), "weighted_share(0.6)"),
        (weighted_share(1), "weighted_share(1)"),
        (weighted_share("1/3"), "weighted_share('1/3')"),
        (weighted_share(Fraction(1, 3)), "weighted_share('1/3')"),
        (weighted_share("0.60"), "weighted_share('0.60')"),
        (all_positive(), "all_positive()"),
        (cut(0.25), "cut(0.25)"),
        (cut("1/7"), "cut('1/7')"),
        (cut(1e-7), "cut(1e-07)"),
    ],
)
def test_parts_print_as_they_are_written(part, text):
    assert repr(part) == text
    assert eval(text) == part
    assert hash(eval(text)) == hash(part)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (at_least(1), at_least(True)),
        (at_least(1), at_least("1")),
        (at_least(1), one_of(1)),
        (one_of(0), one_of(False)),
        (one_of("a", "b"), one_of("a")),
        (merge({1: "x"}), merge({True: "x"})),
        (merge({"a": 1}), merge({"a": True})),
        (merge({"a": "x", "b": "y"}), merge({"a": "x", "b": "y"}, positive="x")),
        (merge({"a": "x", "b": "y"}, positive="y"), merge({"a": "x", "b": "y"}, positive="x")),
        (recode_to(1), recode_to(True)),
        (recode_to(1), recode_to("1")),
        (recode_to("1"), "1"),
        (Protocol(ca=recode_to(1)), Protocol(ca=recode_to(True))),
        (Protocol(population={"x": 1}), Protocol(population={"x": True})),
        (Protocol(population={"x": 1}), Protocol(population={"x": "1"})),
        (Protocol(population={"x": 1}), Protocol(population="x")),
        (Protocol(population={"x": [1, 2]}), Protocol(population={"x": [2, 1]})),
        (Protocol(ca="negative"), Protocol(invalid="negative")),
        (Protocol(extraction=cut(0.5)), Protocol(extraction="sample")),
        (Protocol(), Protocol().to_json()),
    ],
)
def test_parts_that_differ_by_type_or_value_are_not_equal(one, other):
    assert one != other
    assert len({one, other}) == 2


def test_whole_floats_and_integers_are_one_number():
    assert at_least(3.0) == at_least(3)
    assert recode_to(np.float32(1)) == recode_to(1)
    assert Protocol(population={"turn": 1.0}) == Protocol(population={"turn": [1]})


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (one_of, ["`one_of`", "at least one"]),
        (lambda: merge({}), ["`merge`", "at least one"]),
        (lambda: merge([("a", "b")]), ["`merge`", "mapping", "[('a', 'b')]"]),
        (lambda: merge("ab"), ["`merge`", "mapping", "'ab'"]),
        (lambda: merge({"a": "x", "b": "y", "c": "z"}, positive="x"), ["positive='x'", "'x', 'y', 'z'"]),
        (lambda: merge({"a": "x", "b": "y"}, positive="z"), ["positive='z'", "two categories"]),
        (lambda: merge({"a": 1, "b": 2}, positive="1"), ["positive='1'", "two categories"]),
    ],
)
def test_scale_maps_that_cannot_be(build, says):
    message = refused(build)
    assert [part for part in says if part not in message] == []


@pytest.mark.parametrize(
    "build",
    [
        lambda: at_least(None),
        lambda: at_least(float("nan")),
        lambda: one_of("a", None),
        lambda: one_of(["a", "b"]),
        lambda: recode_to(None),
        lambda: recode_to(("a",)),
        lambda: merge({"a": None}),
        lambda: merge({None: "a"}),
        lambda: merge({"a": "x", "b": "y"}, positive=float("nan")),
    ],
)
def test_parts_of_what_is_no_category(build):
    with pytest.raises(StructureError, match="text, a finite number or a boolean"):
        build()


# ----------------------------------------------------------------------------------------------- construction


def test_the_default_is_per_criterion_by_exclusion():
    default = Protocol()
    assert {field.name: getattr(default, field.name) for field in dataclasses.fields(default)} == {
        "scale_map": None,
        "population": None,
        "ca": "exclude",
        "invalid": "exclude",
        "tie": "category",
        "aggregate": None,
        "criterion_weights": None,
        "item_rule": None,
        "extraction": None,
    }


@named
def test_a_protocol_is_frozen_and_a_key(protocol):
    with pytest.raises(dataclasses.FrozenInstanceError):
        protocol.ca = "negative"
    again = pickle.loads(pickle.dumps(protocol))
    assert again == protocol
    assert hash(again) == hash(protocol)
    assert {protocol: 1}[again] == 1


def test_all_these_protocols_differ():
    assert len(set(PROTOCOLS)) == len(PROTOCOLS)
    assert len({protocol.to_json() for protocol in PROTOCOLS}) == len(PROTOCOLS)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"scale_map": "at_least(3)"}, ["`scale_map`", "'at_least(3)'", "xj.at_least"]),
        ({"scale_map": 3}, ["`scale_map`", "3"]),
        ({"scale_map": {"a": "b"}}, ["`scale_map`", "xj.merge"]),
        ({"ca": "drop"}, ["`ca`", "'drop'", "'exclude', 'category', 'negative'", "xj.recode_to"]),
        ({"ca": None}, ["`ca`", "None"]),
        ({"ca": "Exclude"}, ["`ca`", "'Exclude'"]),
        ({"ca": ["exclude"]}, ["`ca`", "['exclude']"]),
        ({"invalid": "coerce"}, ["`invalid`", "'coerce'"]),
        ({"tie": "half"}, ["`tie`", "'half'"]),
        ({"aggregate": "mean"}, ["`aggregate`", "'mean'", "'macro'"]),
        ({"aggregate": ["micro"]}, ["`aggregate`", "['micro']"]),
        ({"item_rule": "sum"}, ["`aggregate='item'`", "`item_rule`"]),
        ({"item_rule": all_positive(), "aggregate": "micro"}, ["`aggregate='item'`", "`item_rule`"]),
        ({"aggregate": "item"}, ["`aggregate='item'`", "`item_rule`"]),
        ({"aggregate": "item", "item_rule": "mean"}, ["`item_rule`", "'mean'", "xj.weighted_share"]),
        ({"aggregate": "item", "item_rule": 0.6}, ["`item_rule`", "0.6"]),
        ({"criterion_weights": {"a": 1}}, ["`criterion_weights`", "aggregate=None", "macro"]),
        ({"criterion_weights": {"a": 1}, "aggregate": "micro"}, ["`criterion_weights`", "'micro'"]),
        ({"extraction": "mode"}, ["`extraction`", "'mode'", "'argmax', 'expected', 'sample'", "xj.cut"]),
        ({"extraction": 0.5}, ["`extraction`", "0.5", "xj.cut"]),
    ],
)
def test_parts_that_contradict_each_other(fields, says):
    message = refused(lambda: Protocol(**fields))
    assert [part for part in says if part not in message] == []


# ------------------------------------------------------------------------------------- population and weights


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("hard", "hard"),
        ({"turn": 1}, (("turn", (1,)),)),
        ({"turn": np.int64(1)}, (("turn", (1,)),)),
        ({"turn": np.array([1, 2])}, (("turn", (1, 2)),)),
        ({"turn": np.array(3)}, (("turn", (3,)),)),
        ({"turn": pd.Series([1.0, 2.5])}, (("turn", (1, 2.5)),)),
        ({"turn": range(3)}, (("turn", (0, 1, 2)),)),
        ({"language": "de"}, (("language", ("de",)),)),
        ({"language": ("de", np.str_("fr"))}, (("language", ("de", "fr")),)),
        ({"hard": np.True_, "turn": 1}, (("hard", (True,)), ("turn", (1,)))),
    ],
)
def test_population(given, kept):
    population = Protocol(population=given).population
    assert json.dumps(population) == json.dumps(kept)  # 1 and True are told apart
    assert hash(Protocol(population=given)) == hash(Protocol(population=population))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, ["no coordinate", "None"]),
        ([], ["no coordinate"]),
        ({"turn": []}, ["'turn'", "no case would remain"]),
        ({"turn": np.array([])}, ["'turn'", "no case would remain"]),
        ({"turn": None}, ["'turn'", "None"]),
        ({"turn": [1, float("nan")]}, ["'turn'", "nan"]),
        ({"day": np.datetime64("2024-01-01")}, ["'day'", "2024"]),
        ({"turn": slice(0, 3)}, ["'turn'", "slice"]),
        ({"turn": b"1"}, ["'turn'", "b'1'"]),
        (5, ["5", "{coordinate: values}"]),
        (True, ["True", "{coordinate: values}"]),
        (["turn"], ["['turn']", "{coordinate: values}"]),
    ],
)
def test_population_refused(given, says):
    message = refused(lambda: Protocol(population=given))
    assert [part for part in ["`population`", *says] if part not in message] == []


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"a": 1}, (("a", 1.0),)),
        ({"a": np.int64(2), "b": np.float32(0.5)}, (("a", 2.0), ("b", 0.5))),
        ({"a": 0, "b": 1}, (("a", 0.0), ("b", 1.0))),
        ({np.int64(1): 1, "1": 2}, ((1, 1.0), ("1", 2.0))),
        (pd.Series({"a": 1.0, "b": 3.0}), (("a", 1.0), ("b", 3.0))),
        ({"a": Fraction(1, 4)}, (("a", 0.25),)),
    ],
)
def test_criterion_weights(given, kept):
    weights = Protocol(aggregate="macro", criterion_weights=given).criterion_weights
    assert json.dumps(weights) == json.dumps(kept)
    assert all(type(weight) is float for _, weight in weights)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, ["all of them"]),
        ({"a": 0, "b": 0.0}, ["all of them"]),
        ({"a": -1, "b": 1}, ["'a'"]),
        ({"a": 1, "b": float("nan")}, ["'b'"]),
        ({"a": 1, "b": float("inf")}, ["'b'"]),
        ({"a": "x"}, ["'x'"]),
        ({"a": None}, ["None"]),
        ({"a": [1, 2]}, ["[1, 2]"]),
        ({("a", "b"): 1}, ["('a', 'b')"]),
        ({None: 1}, ["None"]),
        ([1, 2], ["[1, 2]", "{criterion: weight}"]),
        (3, ["3", "{criterion: weight}"]),
        ("abc", ["'abc'", "{criterion: weight}"]),
    ],
)
@pytest.mark.parametrize("fields", [{"aggregate": "macro"}, {"aggregate": "item", "item_rule": "sum"}])
def test_criterion_weights_refused(given, says, fields):
    message = refused(lambda: Protocol(criterion_weights=given, **fields))
    assert [part for part in ["`criterion_weights`", *says] if part not in message] == []


# --------------------------------------------------------------------------------------------- repr and label


@pytest.mark.parametrize(
    ("protocol", "text"),
    [
        (Protocol(), "Protocol()"),
        (PROTOCOLS[1], "Protocol(scale_map=at_least(3), ca='negative', aggregate='micro')"),
        (PROTOCOLS[2], "Protocol(scale_map=one_of('a', 1, True), invalid=recode_to('a'))"),
        (PROTOCOLS[5], "Protocol(population='hard', ca='category', invalid='category')"),
        (PROTOCOLS[6], "Protocol(population={'turn': [1, 2], 'language': ['de']}, extraction='expected')"),
        (PROTOCOLS[7], "Protocol(aggregate='macro', criterion_weights={'clear': 2.0, 'kind': 0.5})"),
        (
            PROTOCOLS[8],
            "Protocol(aggregate='item', criterion_weights={1: 1.0}, item_rule=weighted_share(0.6))",
        ),
        (PROTOCOLS[10], "Protocol(aggregate='item', item_rule='sum', extraction='sample')"),
    ],
)
def test_repr_shows_what_is_not_the_default(protocol, text):
    assert repr(protocol) == text


@named
def test_repr_evaluates(protocol):
    assert eval(repr(protocol)) == protocol


@pytest.mark.parametrize(
    ("protocol", "label"),
    [
        (Protocol(), "CA excluded"),
        (Protocol(ca="negative"), "CA negative"),
        (Protocol(ca="category", invalid="category"), "CA category · invalid category"),
        (Protocol(scale_map=at_least(3), ca="negative", aggregate="micro"), "≥ 3 · CA negative · micro"),
        (Protocol(scale_map=one_of("a", "b"), ca=recode_to("a")), "one_of(a, b) · CA → a"),
        (Protocol(tie="exclude", population="hard"), "CA excluded · tie excluded · population hard"),
        (Protocol(population={"turn": [1, 2]}), "CA excluded · population turn=1|2"),
        (Protocol(aggregate="macro", criterion_weights={"a": 1}), "CA excluded · macro · weighted"),
        (Protocol(aggregate="item", item_rule="sum"), "CA excluded · item sum"),
        (Protocol(aggregate="item", item_rule=weighted_share(0.6)), "CA excluded · item weighted_share(0.6)"),
        (Protocol(extraction=cut(0.3)), "cut(0.3) · CA excluded"),
        (Protocol(extraction="argmax"), "argmax · CA excluded"),
    ],
)
def test_label(protocol, label):
    assert protocol.label == label


def test_labels_tell_a_usual_grid_apart():
    grid = Protocol.grid(
        scale_map=[at_least(2), at_least(3), one_of(1), merge({1: 2})],
        ca=["exclude", "negative", "category", recode_to(1)],
        invalid=["exclude", "negative"],
        tie=["category", "exclude"],
        aggregate=["micro", "macro"],
        extraction=["argmax", "sample", cut(0.5)],
        population=["hard", {"turn": 1}],
    )
    assert len({protocol.label for protocol in grid}) == len(grid)
    assert all("\n" not in protocol.label for protocol in grid)


# ------------------------------------------------------------------------------------------------------- grid


def test_grid_of_the_interface_page():
    maps = [at_least(2), at_least(3), at_least(4)]
    grid = Protocol.grid(scale_map=maps, ca=["exclude", "negative"], aggregate=["micro", "macro"])
    assert grid == [
        Protocol(scale_map=scale_map, ca=ca, aggregate=aggregate)
        for scale_map in maps
        for ca in ("exclude", "negative")
        for aggregate in ("micro", "macro")
    ]


def test_grid_varies_the_last_named_fastest():
    assert [p.ca for p in Protocol.grid(invalid=["exclude", "negative"], ca=["exclude", "category"])] == [
        "exclude",
        "category",
        "exclude",
        "category",
    ]
    assert [p.ca for p in Protocol.grid(ca=["exclude", "category"], invalid=["exclude", "negative"])] == [
        "exclude",
        "exclude",
        "category",
        "category",
    ]


def test_grid_of_nothing_is_the_default():
    assert Protocol.grid() == [Protocol()]


def test_grid_takes_single_values():
    assert Protocol.grid(ca="negative", scale_map=at_least(3), population={"turn": [1, 2]}) == [
        Protocol(ca="negative", scale_map=at_least(3), population={"turn": [1, 2]})
    ]


def test_grid_takes_none_among_the_values():
    assert Protocol.grid(scale_map=(None, at_least(2))) == [Protocol(), Protocol(scale_map=at_least(2))]


@pytest.mark.parametrize(
    ("choices", "says"),
    [
        ({"ca": []}, ["`ca`", "empty"]),
        ({"scale_map": (), "ca": "exclude"}, ["`scale_map`", "empty"]),
        ({"handling": ["exclude"]}, ["'handling'", "scale_map", "extraction"]),
        ({"handling": 1, "weights": 2}, ["'handling', 'weights'"]),
        ({"aggregate": [None, "micro"]}, ["aggregate=None", "Sweep them apart"]),
        ({"aggregate": ["macro", None]}, ["aggregate=None"]),
        ({"ca": ["exclude", "drop"]}, ["`ca`", "'drop'"]),
        ({"aggregate": ["macro", "item"], "item_rule": "sum"}, ["`aggregate='item'`"]),
    ],
)
def test_grid_refused(choices, says):
    message = refused(lambda: Protocol.grid(**choices))
    assert [part for part in says if part not in message] == []


def test_protocols_of_one_sweep_are_all_or_none_per_criterion():
    Protocol.check_together([])
    Protocol.check_together([Protocol(), Protocol(ca="negative")])
    Protocol.check_together([Protocol(aggregate="micro"), Protocol(aggregate="item", item_rule="sum")])
    assert "aggregate=None" in refused(
        lambda: Protocol.check_together([Protocol(), Protocol(aggregate="micro")])
    )


# ------------------------------------------------------------------------------------------------------- JSON


@named
def test_json_round_trip(protocol):
    text = protocol.to_json()
    again = Protocol.from_json(text)
    assert again == protocol
    assert again.to_json() == text
    assert repr(again) == repr(protocol)
    assert "\n" not in text


@named
def test_json_holds_every_field(protocol):
    assert set(json.loads(protocol.to_json())) == {field.name for field in dataclasses.fields(Protocol)}


def test_json_content():
    protocol = Protocol(
        scale_map=merge({"a": "x", 1: "y"}, positive="y"),
        population={"turn": [1, 2]},
        ca=recode_to("x"),
        aggregate="item",
        criterion_weights={"clear": 2, 1: 1},
        item_rule=weighted_share(0.6),
        extraction=cut(0.25),
    )
    assert json.loads(protocol.to_json()) == {
        "scale_map": {"merge": [["a", "x"], [1, "y"]], "positive": "y"},
        "population": {"turn": [1, 2]},
        "ca": {"recode_to": "x"},
        "invalid": "exclude",
        "tie": "category",
        "aggregate": "item",
        "criterion_weights": [["clear", 2.0], [1, 1.0]],
        "item_rule": ["weighted_share", "0.6"],
        "extraction": {"cut": "0.25"},
    }


@pytest.mark.parametrize(
    "text", ["", "nonsense", "{}", "[]", "3", "null", '"Protocol()"', '{"ca": "exclude"}']
)
def test_json_of_something_else_is_refused(text):
    assert repr(text) in refused(lambda: Protocol.from_json(text))


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("ca", "drop", "`ca`"),
        ("aggregate", "mean", "`aggregate`"),
        ("population", {}, "`population`"),
        ("criterion_weights", [["a", -1]], "`criterion_weights`"),
        ("scale_map", {"at_most": [3]}, "not the JSON"),
        ("scale_map", {"merge": [["a"]]}, "not the JSON"),
        ("scale_map", {}, "not the JSON"),
        ("item_rule", ["weighted_share", "0.6", 1], "not the JSON"),
        ("extraction", {"at": 0.5}, "not the JSON"),
        ("ca", {"recode": 1}, "not the JSON"),
    ],
)
def test_json_that_was_changed_by_hand_is_refused(field, value, says):
    aggregate = {"aggregate": "macro"} if field == "criterion_weights" else {}
    content = json.loads(Protocol().to_json()) | aggregate | {field: value}
    assert says in refused(lambda: Protocol.from_json(json.dumps(content)))


# --------------------------------------------------------------------------------------------------- collapse

# Rows of each literal matrix: the categories of the scale in their order, then missing, CA, invalid.


@pytest.mark.parametrize(
    ("scale", "protocol", "categories", "matrix"),
    [
        # binary
        (BINARY, Protocol(), ["UNMET", "MET"], [[1, 0], [0, 1], [0, 0], [0, 0], [0, 0]]),
        (BINARY, Protocol(ca="negative"), ["UNMET", "MET"], [[1, 0], [0, 1], [0, 0], [1, 0], [0, 0]]),
        (BINARY, Protocol(invalid="negative"), ["UNMET", "MET"], [[1, 0], [0, 1], [0, 0], [0, 0], [1, 0]]),
        (BINARY, Protocol(ca=recode_to("MET")), ["UNMET", "MET"], [[1, 0], [0, 1], [0, 0], [0, 1], [0, 0]]),
        (
            BINARY,
            Protocol(ca="category"),
            ["UNMET", "MET", "CA"],
            [[1, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 1], [0, 0, 0]],
        ),
        (
            BINARY,
            Protocol(invalid="category"),
            ["UNMET", "MET", "invalid"],
            [[1, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 0], [0, 0, 1]],
        ),
        (
            BINARY,
            Protocol(ca="category", invalid="category"),
            ["UNMET", "MET", "CA", "invalid"],
            [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]],
        ),
        (
            BINARY,
            Protocol(ca="negative", invalid=recode_to("MET")),
            ["UNMET", "MET"],
            [[1, 0], [0, 1], [0, 0], [1, 0], [0, 1]],
        ),
        (
            BINARY,
            Protocol(scale_map=merge({"MET": "pass"}), ca="negative"),
            ["UNMET", "pass"],
            [[1, 0], [0, 1], [0, 0], [1, 0], [0, 0]],
        ),
        (
            BINARY,
            Protocol(scale_map=one_of("UNMET"), ca="negative"),
            ["not UNMET", "UNMET"],
            [[0, 1], [1, 0], [0, 0], [1, 0], [0, 0]],
        ),
        # nominal
        (
            NOMINAL,
            Protocol(),
            ["a", "b", "c"],
            [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0], [0, 0, 0]],
        ),
        (
            NOMINAL,
            Protocol(scale_map=one_of("a", "c"), ca="negative"),
            ["not a|c", "a|c"],
            [[0, 1], [1, 0], [0, 1], [0, 0], [1, 0], [0, 0]],
        ),
        (
            NOMINAL,
            Protocol(scale_map=merge({"a": "x", "c": "x"}), ca=recode_to("c"), invalid="category"),
            ["x", "b", "invalid"],
            [[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 0], [1, 0, 0], [0, 0, 1]],
        ),
        (
            NOMINAL,
            Protocol(scale_map=merge({"a": "good", "b": "bad", "c": "bad"}, positive="good"), ca="negative"),
            ["bad", "good"],
            [[0, 1], [1, 0], [1, 0], [0, 0], [1, 0], [0, 0]],
        ),
        # ordinal and interval
        (
            ORDINAL,
            Protocol(scale_map=at_least(3), ca="negative"),
            ["<3", ">=3"],
            [[1, 0], [1, 0], [0, 1], [0, 1], [0, 0], [1, 0], [0, 0]],
        ),
        (
            ORDINAL,
            Protocol(scale_map=at_least(3), ca=recode_to(">=3"), invalid=recode_to(2)),
            ["<3", ">=3"],
            [[1, 0], [1, 0], [0, 1], [0, 1], [0, 0], [0, 1], [1, 0]],
        ),
        (
            ORDINAL,
            Protocol(scale_map=merge({1: 2, 4: 3}), ca="category"),
            [2, 3, "CA"],
            [[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 0], [0, 0, 1], [0, 0, 0]],
        ),
        (
            INTERVAL,
            Protocol(scale_map=at_least(0.25), ca="category"),
            ["<0.25", ">=0.25", "CA"],
            [[1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 0], [0, 0, 1], [0, 0, 0]],
        ),
        (
            INTERVAL,
            Protocol(ca=recode_to(0.5)),
            [0, 0.5, 2],
            [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0], [0, 1, 0], [0, 0, 0]],
        ),
        # pairwise
        (
            PAIRWISE,
            Protocol(),
            ["A", "B", "tie"],
            [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0], [0, 0, 0]],
        ),
        (PAIRWISE, Protocol(tie="exclude"), ["A", "B"], [[1, 0], [0, 1], [0, 0], [0, 0], [0, 0], [0, 0]]),
        (
            PAIRWISE,
            Protocol(tie=recode_to("B")),
            ["A", "B"],
            [[1, 0], [0, 1], [0, 1], [0, 0], [0, 0], [0, 0]],
        ),
        (
            PAIRWISE,
            Protocol(tie="exclude", ca="category", invalid="category"),
            ["A", "B", "CA", "invalid"],
            [
                [1, 0, 0, 0],
                [0, 1, 0, 0],
                [0, 0, 0, 0],
                [0, 0, 0, 0],
                [0, 0, 1, 0],
                [0, 0, 0, 1],
            ],
        ),
        (
            PAIRWISE,
            Protocol(tie="exclude", ca=recode_to("tie")),  # CA still makes ties, so they stay a category
            ["A", "B", "tie"],
            [[1, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 0], [0, 0, 1], [0, 0, 0]],
        ),
        (
            PAIRWISE,
            Protocol(tie=recode_to("tie")),
            ["A", "B", "tie"],
            [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0], [0, 0, 0]],
        ),
        (
            PAIRWISE,
            Protocol(scale_map=one_of("A")),
            ["not A", "A"],
            [[0, 1], [1, 0], [1, 0], [0, 0], [0, 0], [0, 0]],
        ),
        (
            PAIRWISE,
            Protocol(scale_map=one_of("A"), tie="exclude", ca="negative"),
            ["not A", "A"],
            [[0, 1], [1, 0], [0, 0], [0, 0], [1, 0], [0, 0]],
        ),
        (
            PAIRWISE,
            Protocol(scale_map=one_of("A"), tie="negative"),
            ["not A", "A"],
            [[0, 1], [1, 0], [1, 0], [0, 0], [0, 0], [0, 0]],
        ),
        (
            PAIRWISE,
            Protocol(scale_map=one_of("A"), tie=recode_to("A")),
            ["not A", "A"],
            [[0, 1], [1, 0], [0, 1], [0, 0], [0, 0], [0, 0]],
        ),
        (
            PAIRWISE,
            Protocol(scale_map=one_of("A", "B"), tie="exclude", ca="negative"),  # CA is the only negative
            ["not A|B", "A|B"],
            [[0, 1], [0, 1], [0, 0], [0, 0], [1, 0], [0, 0]],
        ),
        (
            PAIRWISE,
            Protocol(scale_map=merge({"A": "first"}), tie="exclude", ca="category"),
            ["first", "B", "CA"],
            [[1, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 0], [0, 0, 1], [0, 0, 0]],
        ),
        (NO_TIE, Protocol(), ["A", "B"], [[1, 0], [0, 1], [0, 0], [0, 0], [0, 0]]),
        # continuous: one place, answered
        (CONTINUOUS, Protocol(), [], [[1], [0], [0], [0]]),
    ],
)
def test_collapse_matrix(scale, protocol, categories, matrix):
    resolved = protocol.resolve(scale)
    assert list(resolved.scale.categories) == categories
    assert resolved.matrix.tolist() == matrix
    assert resolved.matrix.dtype == np.int64
    assert (resolved.protocol, resolved.raw) == (protocol, scale)


@pytest.mark.parametrize(
    ("protocol", "targets"),
    [
        (Protocol(), (0, 1, 2, -1, -2, -3)),
        (Protocol(tie="exclude"), (0, 1, EXCLUDED, -1, -2, -3)),
        (Protocol(tie="exclude", ca="category", invalid="category"), (0, 1, EXCLUDED, -1, 2, 3)),
        (Protocol(ca="category"), (0, 1, 2, -1, 3, -3)),
        (Protocol(invalid="category"), (0, 1, 2, -1, -2, 3)),
        (Protocol(scale_map=one_of("B"), tie="exclude", invalid="negative"), (0, 1, EXCLUDED, -1, -2, 0)),
    ],
)
def test_targets_keep_apart_what_a_protocol_leaves_out(protocol, targets):
    assert protocol.resolve(PAIRWISE).targets == targets


def test_missing_is_never_recoded():
    for ca in ("exclude", "category", "negative", recode_to("MET")):
        for invalid in ("exclude", "category", "negative", recode_to("MET")):
            resolved = Protocol(ca=ca, invalid=invalid).resolve(BINARY)
            assert resolved.targets[2] == -1
            assert not resolved.matrix[2].any()


@pytest.mark.parametrize(
    ("scale", "protocol", "kind"),
    [
        (BINARY, Protocol(), "binary"),
        (BINARY, Protocol(ca="category"), "nominal"),
        (ORDINAL, Protocol(), "ordinal"),
        (ORDINAL, Protocol(ca="category"), "nominal"),  # CA has no place in the order
        (INTERVAL, Protocol(), "interval"),
        (INTERVAL, Protocol(scale_map=at_least(1)), "binary"),
        (PAIRWISE, Protocol(), "pairwise"),
        (PAIRWISE, Protocol(tie="exclude"), "pairwise"),
        (CONTINUOUS, Protocol(), "continuous"),
    ],
)
def test_kind_of_the_protocols_own_scale(scale, protocol, kind):
    assert protocol.resolve(scale).scale.kind == kind


def test_a_pairwise_scale_without_its_ties_has_two_categories():
    # binary coefficients apply "only after excluding or collapsing ties"; chance is uniform over two
    for tie in ("exclude", recode_to("A"), recode_to("B")):
        resolved = Protocol(tie=tie).resolve(PAIRWISE)
        assert resolved.scale == resolved.mapped == NO_TIE
    assert Protocol(tie="category").resolve(PAIRWISE).scale == PAIRWISE


@pytest.mark.parametrize(
    ("scale", "protocol", "outcomes"),
    [
        (BINARY, Protocol(), ()),
        (BINARY, Protocol(ca="negative"), ()),
        (BINARY, Protocol(ca="category"), ("CA",)),
        (ORDINAL, Protocol(invalid="category", ca="category"), ("CA", "invalid")),
        (PAIRWISE, Protocol(tie="exclude", invalid="category"), ("invalid",)),
    ],
)
def test_outcomes_that_are_categories(scale, protocol, outcomes):
    assert protocol.resolve(scale).outcome_categories == outcomes


@pytest.mark.parametrize(
    ("categories", "added"),
    [
        (["yes", "no"], ["CA", "invalid"]),
        (["CA", "no"], ["<CA>", "invalid"]),
        (["CA", "invalid"], ["<CA>", "<invalid>"]),
        (["CA", "<CA>", "<<CA>>"], ["<<<CA>>>", "invalid"]),
        (["ca", "Invalid"], ["CA", "invalid"]),
        (["<CA>", "<invalid>"], ["CA", "invalid"]),
    ],
)
def test_a_category_that_is_called_like_an_outcome_keeps_its_name(categories, added):
    resolved = Protocol(ca="category", invalid="category").resolve(Scale.nominal(categories))
    assert list(resolved.scale.categories) == categories + added
    assert resolved.outcome_categories == tuple(added)


def test_recode_to_looks_among_the_protocols_categories_first():
    # after the map "b" is the new name of a; the old b is called c
    protocol = Protocol(scale_map=merge({"a": "b", "b": "c"}), ca=recode_to("b"), invalid=recode_to("a"))
    resolved = protocol.resolve(Scale.nominal(["a", "b", "d"]))
    assert resolved.scale.categories == ("b", "c", "d")
    assert resolved.targets[-2:] == (0, 0)


def test_recode_to_matches_by_type():
    scale = Scale.nominal([1, "1", True])
    assert [Protocol(ca=recode_to(v)).resolve(scale).targets[4] for v in (1, 1.0, "1", True)] == [0, 0, 1, 2]


@pytest.mark.parametrize(
    ("protocol", "recoded"),
    [
        (Protocol(), []),
        (Protocol(ca="negative"), []),  # the canonical recoding
        (Protocol(scale_map=one_of("A"), invalid="negative"), ["invalid"]),
        (Protocol(scale_map=one_of("A"), tie="negative", invalid=recode_to("A")), ["invalid", "tie"]),
        (Protocol(tie=recode_to("A")), ["tie"]),
        (Protocol(tie="exclude", invalid="category"), []),
    ],
)
def test_what_is_recoded_without_a_canonical_form(protocol, recoded):
    scale = PAIRWISE if protocol.ca != "negative" else BINARY
    assert protocol.resolve(scale).recoded() == recoded


def test_at_the_item_level_a_category_acts_on_the_item_verdict():
    protocol = Protocol(ca="category", invalid="category", aggregate="item", item_rule=all_positive())
    resolved = protocol.resolve(BINARY)
    assert resolved.scale == BINARY
    assert resolved.targets == (0, 1, -1, -2, -3)


def test_at_the_item_level_recoding_acts_on_the_criteria():
    protocol = Protocol(ca="negative", invalid=recode_to("MET"), aggregate="item", item_rule=all_positive())
    assert protocol.resolve(BINARY).targets == (0, 1, -1, 0, 1)


# ------------------------------------------------------------------------------------------------- scale maps


@pytest.mark.parametrize(
    ("scale", "value", "codes"),
    [
        (ORDINAL, 2, (0, 1, 1, 1)),
        (ORDINAL, 4, (0, 0, 0, 1)),
        (ORDINAL, 2.5, (0, 0, 1, 1)),
        (ORDINAL, 3.0, (0, 0, 1, 1)),
        (ORDINAL, 1.0001, (0, 1, 1, 1)),
        (ORDINAL, np.float64(3.9), (0, 0, 0, 1)),
        (INTERVAL, 0.5, (0, 1, 1)),
        (INTERVAL, 0.6, (0, 0, 1)),
        (WORDS, "poor", (0, 1, 1)),
        (WORDS, "good", (0, 0, 1)),
        (Scale.ordinal([3, 2, 1]), 2, (0, 1, 1)),  # an order that is declared so: 1 is the best
        (Scale.ordinal([False, True]), True, (0, 1)),
        (BINARY, "MET", (0, 1)),
        (Scale.binary(0, 1), 1, (0, 1)),
        (Scale.binary(0, 1), 0.5, (0, 1)),
    ],
)
def test_at_least(scale, value, codes):
    mapped, new = at_least(value).apply(scale)
    assert new == codes
    assert mapped.kind == "binary"


@pytest.mark.parametrize(
    ("value", "names"), [(3, ("<3", ">=3")), (2.5, ("<2.5", ">=2.5")), (3.0, ("<3", ">=3"))]
)
def test_at_least_names_its_categories_after_the_threshold(value, names):
    assert at_least(value).apply(ORDINAL)[0].categories == names


@pytest.mark.parametrize(
    ("scale_map", "scale", "says"),
    [
        (at_least(3), NOMINAL, ["at_least(3)", "no order", "xj.one_of"]),
        (at_least("A"), PAIRWISE, ["at_least('A')", "no order"]),
        (at_least("A"), NO_TIE, ["at_least('A')", "no order"]),
        (at_least(3), CONTINUOUS, ["at_least(3)", "continuous"]),
        (one_of(3), CONTINUOUS, ["one_of(3)", "continuous"]),
        (merge({1: 2}), CONTINUOUS, ["merge({1: 2})", "continuous"]),
        (at_least(1), ORDINAL, ["positive", "inside"]),
        (at_least(0.5), ORDINAL, ["positive", "inside"]),
        (at_least(-7), ORDINAL, ["positive", "inside"]),
        (at_least(4.5), ORDINAL, ["negative", "inside"]),
        (at_least("3"), ORDINAL, ["'3' is not a category"]),
        (at_least(True), ORDINAL, ["True is not a category"]),
        (at_least("fine"), WORDS, ["'fine' is not a category"]),
        (at_least(1), WORDS, ["1 is not a category"]),
        (at_least(2.5), Scale.ordinal([3, 2, 1]), ["2.5 is not a category"]),
        (at_least(2.5), Scale.ordinal([1, 2, "many"]), ["2.5 is not a category"]),
        (at_least(0.5), Scale.ordinal([False, True]), ["0.5 is not a category"]),
        (one_of("z"), NOMINAL, ["'z' is not a category"]),
        (one_of("a", "z"), NOMINAL, ["'z' is not a category"]),
        (one_of("1"), ORDINAL, ["'1' is not a category"]),
        (one_of("c", "a", "b"), NOMINAL, ["every category", "leave one out"]),
        (merge({"z": "a"}), NOMINAL, ["'z' is not a category"]),
        (merge({"a": "x", "b": "x", "c": "x"}), NOMINAL, ["one category", "two"]),
        (merge({"a": "c", "b": "c"}), NOMINAL, ["one category", "two"]),
        (merge({"a": "x", "b": "y"}, positive="y"), NOMINAL, ["two categories", "'x', 'y', 'c'", "one_of"]),
        (merge({"a": "b"}, positive="x"), NOMINAL, ["one of them 'x'", "'b', 'c'"]),
    ],
)
def test_scale_maps_that_the_scale_cannot_carry(scale_map, scale, says):
    message = refused(lambda: Protocol(scale_map=scale_map).resolve(scale))
    assert [part for part in says if part not in message] == []


@pytest.mark.parametrize(
    ("scale", "scale_map", "mapped", "codes"),
    [
        (NOMINAL, merge({"a": "x"}), Scale.nominal(["x", "b", "c"]), (0, 1, 2)),
        (NOMINAL, merge({"a": "c"}), Scale.nominal(["c", "b"]), (0, 1, 0)),
        (NOMINAL, merge({"a": "b", "b": "a"}), Scale.nominal(["b", "a", "c"]), (0, 1, 2)),
        (NOMINAL, merge({"a": 1, "b": "1"}), Scale.nominal([1, "1", "c"]), (0, 1, 2)),
        (NOMINAL, merge({"b": "a"}, positive="a"), Scale.binary("c", "a"), (1, 1, 0)),
        (NOMINAL, merge({"b": "a"}, positive="c"), Scale.binary("a", "c"), (0, 0, 1)),
        (ORDINAL, merge({1: "low", 2: "low"}), Scale.ordinal(["low", 3, 4]), (0, 0, 1, 2)),
        (ORDINAL, merge({1: 4}), Scale.nominal([4, 2, 3]), (0, 1, 2, 0)),  # the order is lost
        (ORDINAL, merge({2: 3}), Scale.ordinal([1, 3, 4]), (0, 1, 1, 2)),
        (INTERVAL, merge({0: 0.5}), Scale.ordinal([0.5, 2]), (0, 0, 1)),
        (WORDS, merge({"poor": "bad", "awful": "bad"}), Scale.ordinal(["bad", "good"]), (0, 0, 1)),
        (
            WORDS,
            merge({"poor": "bad", "awful": "bad"}, positive="good"),
            Scale.binary("bad", "good"),
            (0, 0, 1),
        ),
        (BINARY, merge({"MET": "pass", "UNMET": "fail"}), Scale.binary("fail", "pass"), (0, 1)),
        (BINARY, merge({"MET": "UNMET", "UNMET": "MET"}), Scale.binary("MET", "UNMET"), (0, 1)),
        (BINARY, merge({"MET": "pass"}, positive="UNMET"), Scale.binary("pass", "UNMET"), (1, 0)),
        (PAIRWISE, merge({"tie": "B"}), Scale.nominal(["A", "B"]), (0, 1, 1)),
        (PAIRWISE, merge({"A": "one", "B": "one"}), Scale.nominal(["one", "tie"]), (0, 0, 1)),
        (
            PAIRWISE,
            merge({"A": "one", "B": "one"}, positive="one"),
            Scale.binary("tie", "one"),
            (1, 1, 0),
        ),
    ],
)
def test_merge(scale, scale_map, mapped, codes):
    assert scale_map.apply(scale) == (mapped, codes)


# ---------------------------------------------------------------------------- what the scale cannot carry


@pytest.mark.parametrize(
    ("scale", "protocol", "says"),
    [
        (NOMINAL, Protocol(ca="negative"), ["`ca='negative'`", "negative category", "`scale_map`"]),
        (ORDINAL, Protocol(invalid="negative"), ["`invalid='negative'`", "xj.recode_to"]),
        (PAIRWISE, Protocol(tie="negative"), ["`tie='negative'`", "negative category"]),
        (NO_TIE, Protocol(tie="exclude"), ["`tie='exclude'`", "pairwise scale with a tie", "'A', 'B'"]),
        (BINARY, Protocol(tie="exclude"), ["`tie='exclude'`", "pairwise"]),
        (ORDINAL, Protocol(tie=recode_to(1)), ["`tie=recode_to(1)`", "pairwise"]),
        (BINARY, Protocol(ca=recode_to("yes")), ["`ca=recode_to('yes')`", "'yes' is not a category"]),
        (Scale.binary(0, 1), Protocol(ca=recode_to("0")), ["'0' is not a category"]),
        (Scale.binary(0, 1), Protocol(ca=recode_to(False)), ["False is not a category"]),
        (PAIRWISE, Protocol(scale_map=one_of("tie"), tie="exclude"), ["`tie='exclude'`", "one category"]),
        (PAIRWISE, Protocol(scale_map=one_of("A", "B"), tie="exclude"), ["`tie='exclude'`", "one category"]),
        (
            PAIRWISE,
            Protocol(scale_map=merge({"A": "won", "B": "won"}), tie="exclude"),
            ["`tie='exclude'`", "one category"],
        ),
        (CONTINUOUS, Protocol(ca="category"), ["`ca='category'`", "continuous"]),
        (CONTINUOUS, Protocol(ca="negative"), ["`ca='negative'`", "continuous"]),
        (CONTINUOUS, Protocol(invalid=recode_to(0)), ["`invalid=recode_to(0)`", "continuous"]),
        (CONTINUOUS, Protocol(extraction="argmax"), ["extraction='argmax'", "continuous"]),
        (CONTINUOUS, Protocol(extraction=cut(0.5)), ["extraction=cut(0.5)", "continuous"]),
        (
            CONTINUOUS,
            Protocol(aggregate="item", item_rule=all_positive()),
            ["item_rule=all_positive()", "positive and negative"],
        ),
        (NOMINAL, Protocol(extraction="expected"), ["extraction='expected'", "no order"]),
        (PAIRWISE, Protocol(extraction="expected"), ["extraction='expected'", "no order"]),
        (ORDINAL, Protocol(extraction=cut(0.5)), ["extraction=cut(0.5)", "positive category"]),
        (
            ORDINAL,
            Protocol(aggregate="item", item_rule=weighted_share(0.6)),
            ["item_rule=weighted_share(0.6)", "positive and negative", "`scale_map`"],
        ),
        (NOMINAL, Protocol(aggregate="item", item_rule="sum"), ["item_rule='sum'", "no order"]),
        (PAIRWISE, Protocol(aggregate="item", item_rule="sum"), ["item_rule='sum'", "no order"]),
    ],
)
def test_what_a_scale_cannot_carry(scale, protocol, says):
    message = refused(lambda: protocol.resolve(scale))
    assert [part for part in says if part not in message] == []


@pytest.mark.parametrize(
    ("scale", "protocol"),
    [
        (ORDINAL, Protocol(extraction="expected")),
        (INTERVAL, Protocol(extraction="expected", scale_map=at_least(1))),
        (BINARY, Protocol(extraction=cut(0.3))),
        (ORDINAL, Protocol(extraction=cut(0.3), scale_map=at_least(3))),
        (PAIRWISE, Protocol(extraction="argmax", tie="exclude")),
        (NOMINAL, Protocol(extraction="sample")),
        (ORDINAL, Protocol(aggregate="item", item_rule="sum")),
        (INTERVAL, Protocol(aggregate="item", item_rule="sum")),
        (CONTINUOUS, Protocol(aggregate="item", item_rule="sum")),
        (PAIRWISE, Protocol(aggregate="item", item_rule="sum", tie="exclude")),
        (ORDINAL, Protocol(aggregate="item", item_rule=all_positive(), scale_map=at_least(2))),
        (CONTINUOUS, Protocol(aggregate="macro")),
    ],
)
def test_what_a_scale_can_carry(scale, protocol):
    assert protocol.resolve(scale).raw == scale


def test_all_problems_stand_in_one_message():
    protocol = Protocol(
        ca=recode_to("zzz"),
        invalid="negative",
        tie="exclude",
        aggregate="item",
        item_rule=all_positive(),
        extraction=cut(0.5),
    )
    message = refused(lambda: protocol.resolve(NOMINAL))
    for part in (
        "`tie='exclude'`",
        "`ca=recode_to('zzz')`",
        "`invalid='negative'`",
        "item_rule=",
        "extraction=",
    ):
        assert message.count(part) == 1, part


def test_a_scale_map_that_fails_raises_no_false_alarm_about_the_rest():
    # with a threshold inside the scale these two would be right
    protocol = Protocol(
        scale_map=at_least(9),
        ca="negative",
        invalid=recode_to("<9"),
        aggregate="item",
        item_rule=all_positive(),
        extraction=cut(0.5),
    )
    message = refused(lambda: protocol.resolve(ORDINAL))
    assert "at_least(9)" in message
    assert not re.search(r"`ca|`invalid|item_rule|extraction", message)


def test_a_scale_map_that_fails_does_not_hide_what_is_wrong_whatever_the_map():
    protocol = Protocol(scale_map=at_least("a"), tie="exclude", extraction="expected")
    message = refused(lambda: protocol.resolve(NOMINAL))
    for part in ("at_least('a')", "`tie='exclude'`", "extraction='expected'"):
        assert message.count(part) == 1, part


def test_a_continuous_scale_names_each_problem_once():
    protocol = Protocol(scale_map=at_least(1), ca="category", invalid="negative", extraction="argmax")
    message = refused(lambda: protocol.resolve(CONTINUOUS))
    for part in ("at_least(1)", "`ca='category'`", "`invalid='negative'`", "extraction='argmax'"):
        assert message.count(part) == 1, part


# --------------------------------------------------------------------------------------------- tables by hand


def test_the_three_protocols_of_one_three_class_table():
    # llm_rubric.json, table5: humans 0, 1, C in rows and the judge's 0, 1, C in columns
    counts = [[97, 420, 0], [181, 1003, 0], [64, 242, 0]]
    raw = np.zeros((5, 5), dtype=np.int64)
    raw[np.ix_([0, 1, 3], [0, 1, 3])] = counts

    def table(**handling):
        matrix = Protocol(**handling).resolve(BINARY).matrix
        return (matrix.T @ raw @ matrix).tolist()

    assert table() == [[97, 420], [181, 1003]]
    assert table(ca="negative") == [[161, 662], [181, 1003]]
    assert table(ca="category") == counts
    assert table(ca=recode_to("MET")) == [[97, 420], [245, 1245]]


@pytest.mark.parametrize(
    ("counts", "merged"),
    # closed_form.json, f1_recode_invariance: tn, fp, fn, tp after recoding CA as negative
    [
        ([[7, 2, 1], [3, 9, 2], [1, 2, 1]], [[10, 4], [5, 9]]),
        ([[9, 0, 4], [2, 6, 3], [5, 1, 2]], [[20, 1], [5, 6]]),
    ],
)
def test_recoding_both_sides(counts, merged):
    raw = np.zeros((5, 5), dtype=np.int64)
    raw[np.ix_([0, 1, 3], [0, 1, 3])] = counts
    matrix = Protocol(ca="negative").resolve(BINARY).matrix
    assert (matrix.T @ raw @ matrix).tolist() == merged

"""Labels are matched by type and value; what is not declared is never guessed."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from shared import SHARED, needs_shared

from xjudge.build import from_long
from xjudge.errors import ProtocolWarning, StructureError, VocabularyError
from xjudge.scale import Scale

YES_NO = Scale.binary("no", "yes")
ONE_TO_FOUR = Scale.ordinal([1, 2, 3, 4])


def column(values: list[Any], dtype: Any = object) -> pd.DataFrame:
    """One rater, as many items as values."""
    return pd.DataFrame({"item": range(len(values)), "rater": "ann", "label": pd.Series(values, dtype=dtype)})


def codes(values: list[Any], dtype: Any = object, **options: Any) -> list[int]:
    """Codes of one rater's labels."""
    found: list[int] = (
        from_long(column(values, dtype), humans=["ann"], **options)["label"].values[:, 0].tolist()
    )
    return found


# ------------------------------------------------------------------------------------------- types and values


def test_text_is_no_number_and_true_is_not_one() -> None:
    scale = Scale.nominal(["0", 0, True, 2, "x"])
    assert codes(["0", 0, True, 0.0, np.int64(2), np.bool_(True), "x"], scale=scale) == [0, 1, 2, 1, 3, 2, 4]
    with pytest.raises(VocabularyError, match=r"1 \(1 time\)"):
        codes([1, True, "x"], scale=scale)
    with pytest.raises(VocabularyError, match=r"False \(1 time\)"):
        codes([0, False, "x"], scale=scale)


@pytest.mark.parametrize("mixed", list(itertools.permutations([True, 1, False, 0, "a"])))
def test_booleans_in_a_mixed_column_stay_apart_whatever_comes_first(mixed: tuple[Any, ...]) -> None:
    scale = Scale.nominal([1, 0, True, False, "a"])
    expected = [
        next(k for k, c in enumerate(scale.categories) if type(c) is type(v) and c == v) for v in mixed
    ]
    assert codes(list(mixed), scale=scale) == expected


def test_a_column_of_booleans_matches_zero_and_one_only_where_no_boolean_is_declared() -> None:
    zero_one, booleans = Scale.binary(0, 1), Scale.binary(False, True)
    for dtype in (object, bool, "boolean", "bool[pyarrow]", "category"):
        assert codes([True, False, True], dtype, scale=zero_one) == [1, 0, 1]
        assert codes([True, False, True], dtype, scale=booleans) == [1, 0, 1]
    for dtype in (object, int, float, "Int64", "Float32", "int8[pyarrow]", "category"):
        assert codes([1, 0, 1], dtype, scale=booleans) == [1, 0, 1]
    assert codes([1.0, None, 0.0], float, scale=booleans) == [1, -1, 0]
    assert codes([True, None, False], "boolean", scale=zero_one) == [1, -1, 0]
    assert codes([1, -1, 0], int, scale=booleans, invalid=-1) == [1, -3, 0]
    with pytest.raises(VocabularyError):
        codes([True, False], bool, scale=Scale.nominal([0, 1, False]))
    with pytest.raises(VocabularyError):
        codes([True, False], bool, scale=Scale.nominal([1, 2]))
    with pytest.raises(VocabularyError):
        codes([1, 2], int, scale=booleans)
    with pytest.raises(VocabularyError, match=r"True \(1 time\)"):
        codes([True, 0], scale=zero_one)


def test_floats_with_holes_match_integers() -> None:
    assert codes([1.0, 2.0, np.nan], float, scale=ONE_TO_FOUR) == [0, 1, -1]


# ------------------------------------------------------------------------------------------------------ codes


@pytest.mark.parametrize("null", [None, np.nan, pd.NA, pd.NaT])
@pytest.mark.parametrize(
    "declared", [[None], [float("nan")], float("nan"), [pd.NA], pd.NaT, np.array([np.nan])]
)
def test_nulls_are_missing_unless_they_are_declared(null: Any, declared: Any) -> None:
    labels = ["yes", null, "no"]
    assert codes(labels, scale=YES_NO) == [1, -1, 0]
    assert codes(labels, scale=YES_NO, ca=declared) == [1, -2, 0]
    assert codes(labels, scale=YES_NO, invalid=declared) == [1, -3, 0]
    assert codes(labels, scale=YES_NO, missing=declared) == [1, -1, 0]


def test_none_given_is_nothing_declared() -> None:
    assert codes(["yes", None], scale=YES_NO, ca=None, invalid=None, missing=None) == [1, -1]


def test_codes_are_one_value_or_many_of_any_type() -> None:
    labels = [1, 0, -1, "N/A", "", True, float("inf"), None, b"x"]
    options = {"ca": (0, "N/A"), "invalid": {-1, "", float("inf")}, "missing": [True, b"x"]}
    assert codes(labels, scale=ONE_TO_FOUR, **options) == [0, -2, -3, -2, -3, -1, -3, -1, -1]
    assert codes(["coerce", 1], scale=ONE_TO_FOUR, invalid=["coerce"]) == [-3, 0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ca": [0], "invalid": [0.0]}, r"0\.0 is declared both as `ca` and as `invalid`"),
        ({"ca": [0, 0]}, r"0 is declared twice in `ca`"),
        ({"ca": [0, np.int64(0)]}, r"declared twice in `ca`"),
        ({"ca": [1]}, r"1 is a category of Scale\.ordinal\(\[1, 2, 3, 4\]\) and is declared as `ca` too"),
        ({"missing": [None], "ca": float("nan")}, r"declared both as `ca` and as `missing`"),
        ({"normalise": "trim"}, r"`normalise` takes 'strip', 'casefold', 'nfc', 'bool_text'; got 'trim'"),
    ],
)
def test_contradictions_are_errors(options: dict[str, Any], message: str) -> None:
    with pytest.raises(StructureError, match=message):
        codes([1, 2], scale=ONE_TO_FOUR, **options)


def test_a_null_may_be_spelled_twice() -> None:
    assert codes([1, None], scale=ONE_TO_FOUR, ca=[None, float("nan"), pd.NA]) == [0, -2]


def test_zero_and_false_are_different_codes() -> None:
    assert codes([0, False, 1], scale=ONE_TO_FOUR, ca=[0], invalid=[False]) == [-2, -3, 0]


def test_coerce_makes_the_rest_invalid_and_counts_it() -> None:
    frame = column(["yes", "maybe", "no", "maybe", None, "N/A", 7])
    ds = from_long(frame, humans=["ann"], scale=YES_NO, invalid="coerce", ca="N/A")
    assert ds["label"].values[:, 0].tolist() == [1, -3, 0, -3, -1, -2, -3]
    assert ds.attrs["rows_invalid"] == ds.attrs["rows_coerced"] == 3
    assert json.loads(ds.attrs["coerced"]) == [["'maybe'", 2], ["7", 1]]
    assert json.loads(ds.attrs["codes"])["invalid"] == "coerce"


def test_coerce_on_a_continuous_scale() -> None:
    assert codes([0.5, "x", np.inf, None], scale=Scale.continuous(), invalid="coerce") == [0, -3, -3, -1]
    assert codes([0.5, np.inf, None], float, scale=Scale.continuous(), invalid=np.inf) == [0, -3, -1]
    with pytest.raises(VocabularyError, match=r"inf \(1 time\)"):
        codes([0.5, np.inf], float, scale=Scale.continuous())
    with pytest.raises(VocabularyError, match=r"'0\.5' is text and the scale has another type"):
        codes([0.5, "0.5"], scale=Scale.continuous())


# ----------------------------------------------------------------------------------------------------- status


def test_the_status_column_decides_over_the_label() -> None:
    frame = column(["yes", "no", "rubbish", None, "yes"]).assign(
        status=["answered", "ca", "invalid", "missing", None]
    )
    ds = from_long(frame, humans=["ann"], scale=YES_NO, status="status")
    assert ds["label"].values[:, 0].tolist() == [1, -2, -3, -1, 1]
    with pytest.raises(StructureError, match=r"`status` is one of .*got 'skipped'"):
        from_long(frame.assign(status="skipped"), humans=["ann"], scale=YES_NO, status="status")
    with pytest.raises(StructureError, match=r"says 'answered' in 1 row without a category: row 3"):
        from_long(
            frame.assign(status="answered", label=["yes", "no", "no", None, "yes"]),
            humans=["ann"],
            scale=YES_NO,
            status="status",
        )


def test_labels_beside_another_status_do_not_shape_an_inferred_scale() -> None:
    frame = column(["yes", "no", "rubbish"]).assign(status=["answered", "answered", "invalid"])
    ds = from_long(frame, humans=["ann"], status="status")
    assert Scale.from_attrs(ds["label"].attrs) == YES_NO


# --------------------------------------------------------------------------------------------- unknown values


def test_unknown_labels_are_listed_as_written_with_counts_and_place() -> None:
    with pytest.raises(VocabularyError) as error:
        codes([1, "x", 2, "y", "x", "7 out of 10"], scale=ONE_TO_FOUR)
    text = str(error.value)
    assert text.startswith(
        "4 labels are neither a category of Scale.ordinal([1, 2, 3, 4]) nor a declared code: "
        "'x' (2 times), 'y' (1 time), '7 out of 10' (1 time); the first at item 1, rater 'ann'."
    )
    assert "invalid='coerce'" in text


def test_long_labels_are_cut_short() -> None:
    essay = "The answer is good because " + "very " * 200
    with pytest.raises(VocabularyError) as error:
        codes(["yes", essay], scale=YES_NO)
    assert "'The answer is good because very" in str(error.value)
    assert f"({len(repr(essay))} characters) (1 time)" in str(error.value)
    assert len(str(error.value)) < 500


def test_at_most_ten_unknown_labels_are_listed() -> None:
    with pytest.raises(VocabularyError, match=r"'u9' \(1 time\) and 20 more"):
        codes([f"u{k}" for k in range(30)], scale=YES_NO)


@pytest.mark.parametrize(
    ("scale", "unknown", "hint"),
    [
        (ONE_TO_FOUR, 0, "0 looks like a code"),
        (ONE_TO_FOUR, -1, "-1 looks like a code"),
        (ONE_TO_FOUR, 99, "99 looks like a code"),
        (ONE_TO_FOUR, "N/A", "'N/A' looks like a code"),
        (YES_NO, "", "'' looks like a code"),
        (YES_NO, "$ERROR$", r"'\$ERROR\$' looks like a code"),
        (YES_NO, "Unsure", "'Unsure' looks like a code"),
        (YES_NO, -1, "-1 looks like a code"),
        (YES_NO, "Yes", r"use normalise=\('casefold',\)"),
        (YES_NO, " yes\n", r"use normalise=\('strip',\)"),
        (YES_NO, " YES", r"use normalise=\('strip', 'casefold'\)"),
        (Scale.binary("non", "déjà"), "de\u0301ja\u0300", r"use normalise=\('nfc',\)"),
        (Scale.binary(False, True), "TRUE", r"use normalise=\('bool_text',\)"),
        (ONE_TO_FOUR, "3", "'3' is text and the scale has another type"),
        (ONE_TO_FOUR, "3.0", "'3.0' is text and the scale has another type"),
        (Scale.binary("0", "1"), 1, "1 is a number and the scale has another type"),
        (ONE_TO_FOUR, 2.5, "Numbers between the categories"),
        (YES_NO, "perhaps", "Add the value to the scale"),
    ],
)
def test_hints_say_what_to_do(scale: Scale, unknown: Any, hint: str) -> None:
    with pytest.raises(VocabularyError, match=hint):
        codes([scale.categories[0], unknown], scale=scale)


# ---------------------------------------------------------------------------------------------- normalisation


def test_steps_run_in_the_stated_order_on_text_alone() -> None:
    assert codes(["yes", "Yes\n", " no", "NO", None], scale=YES_NO, normalise=["strip", "casefold"]) == [
        1,
        1,
        0,
        0,
        -1,
    ]
    assert codes(
        [" TRUE ", "false", True], scale=Scale.binary(False, True), normalise=["strip", "bool_text"]
    ) == [
        1,
        0,
        1,
    ]
    with pytest.raises(VocabularyError, match="' TRUE '"):
        codes([" TRUE ", "false"], scale=Scale.binary(False, True), normalise=["bool_text", "strip"])
    assert codes([1, "x"], scale=Scale.nominal([1, "X"]), normalise="casefold") == [0, 1]


def test_categories_keep_their_spelling_and_codes_are_normalised_as_well() -> None:
    frame = column(["met", " UNMET", "n/a"])
    scale = Scale.binary("UnMet", "MET")
    ds = from_long(frame, humans=["ann"], scale=scale, normalise=["strip", "casefold"], ca="N/A")
    assert ds["label"].values[:, 0].tolist() == [1, 0, -2]
    assert Scale.from_attrs(ds["label"].attrs) == scale
    assert ds.attrs["normalise"] == "strip,casefold"
    with pytest.raises(StructureError, match=r"makes the categories 'a' and 'A' one"):
        codes(["a"], scale=Scale.nominal(["a", "A"]), normalise="casefold")
    assert codes(["a", "N/A"], scale=Scale.nominal(["a", "b"]), normalise="casefold", ca=["n/a", "N/A"]) == [
        0,
        -2,
    ]


def test_words_of_truth_match_zero_and_one() -> None:
    assert codes(["True", "false"], scale=Scale.binary(0, 1), normalise="bool_text") == [1, 0]


# -------------------------------------------------------------------------------------------------- inference


@pytest.mark.parametrize(
    ("labels", "dtype", "scale"),
    [
        ([True, False, None], object, Scale.binary(False, True)),
        ([True, True], bool, Scale.binary(False, True)),
        (["yes", "no"], object, Scale.binary("no", "yes")),
        (["Yes", "No"], object, Scale.binary("No", "Yes")),
        (["MET", "UNMET"], "category", Scale.binary("UNMET", "MET")),
        (["PASS", "FAIL"], object, Scale.binary("FAIL", "PASS")),
        (["1", "0"], object, Scale.binary("0", "1")),
        ([1, 0], int, Scale.binary(0, 1)),
        ([1.0, 0.0, None], float, Scale.binary(0, 1)),
        (
            ["hi", "lo"],
            pd.CategoricalDtype(["lo", "mid", "hi"], ordered=True),
            Scale.ordinal(["lo", "mid", "hi"]),
        ),
        (["hi", "hi"], pd.CategoricalDtype(["lo", "hi"], ordered=True), Scale.ordinal(["lo", "hi"])),
        (["no", "yes"], pd.CategoricalDtype(["no", "yes"], ordered=True), Scale.binary("no", "yes")),
        (["no", "yes"], pd.CategoricalDtype(["yes", "no"], ordered=True), Scale.ordinal(["yes", "no"])),
        (
            ["no", "yes"],
            pd.CategoricalDtype(["no", "maybe", "yes"], ordered=True),
            Scale.ordinal(["no", "maybe", "yes"]),
        ),
        ([3, 1], pd.CategoricalDtype([3, 2, 1], ordered=True), Scale.ordinal([3, 2, 1])),
    ],
)
def test_what_is_obvious_is_inferred_without_a_word(labels: Any, dtype: Any, scale: Scale) -> None:
    ds = from_long(column(labels, dtype), humans=["ann"])
    assert Scale.from_attrs(ds["label"].attrs) == scale


@pytest.mark.parametrize(
    ("labels", "dtype", "scale"),
    [
        ([3, 1, 5], int, Scale.ordinal([1, 3, 5])),
        ([3.0, 1.0, None], float, Scale.ordinal([1, 3])),
        (["b", "a"], object, Scale.nominal(["a", "b"])),
        (["b", "c"], pd.CategoricalDtype(["c", "b", "a"]), Scale.nominal(["b", "c"])),
        (["Yes", "No", "yes"], object, Scale.nominal(["No", "Yes", "yes"])),
        ([0.5, 2], float, Scale.continuous()),
    ],
)
def test_what_is_not_obvious_is_inferred_with_a_warning(labels: Any, dtype: Any, scale: Scale) -> None:
    with pytest.warns(ProtocolWarning, match="No `scale` was given") as caught:
        ds = from_long(column(labels, dtype), humans=["ann"])
    assert Scale.from_attrs(ds["label"].attrs) == scale
    assert repr(scale) in str(caught[0].message)
    assert caught[0].filename == __file__


def test_what_looks_like_a_code_is_pointed_out_when_a_scale_is_inferred() -> None:
    with pytest.warns(ProtocolWarning, match=r"-1 may be a code"):
        codes([1, 2, -1], int)
    with pytest.warns(ProtocolWarning, match=r"'N/A' may be a code"):
        codes(["a", "b", "N/A"])


def test_codes_are_left_out_of_an_inferred_scale() -> None:
    assert codes(["yes", "no", "N/A", -1], ca="N/A", invalid=-1) == [1, 0, -2, -3]
    levels = pd.CategoricalDtype(["N/A", "lo", "hi"], ordered=True)
    ds = from_long(column(["hi", "lo", "N/A"], levels), humans=["ann"], ca="N/A")
    assert Scale.from_attrs(ds["label"].attrs) == Scale.ordinal(["lo", "hi"])


def test_an_inferred_scale_has_normalised_categories() -> None:
    ds = from_long(column(["Yes", "yes ", "NO"]), humans=["ann"], normalise=["strip", "casefold"])
    assert Scale.from_attrs(ds["label"].attrs) == YES_NO


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        (["yes", "yes"], {}, r"All labels are 'yes', so no scale can be inferred.*`scale=xj\.Scale"),
        ([None, None], {}, r"No label is left to infer a scale from"),
        (["N/A"], {"ca": "N/A"}, r"No label is left to infer a scale from"),
        ([1, "1"], {}, r"of different types, 1, '1'"),
        ([True, 1], {}, r"of different types, True, 1"),
        ([pd.Timestamp("2024-01-01")], {}, r"neither text, numbers nor booleans"),
        (["yes", "no"], {"invalid": "coerce"}, r"needs a declared `scale`"),
        ([f"essay {k}" for k in range(1001)], {}, r"1001 different texts"),
    ],
)
def test_what_cannot_be_inferred_asks_for_a_scale(labels: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(StructureError, match=message):
        codes(labels, **options)


def test_a_scale_that_is_none_is_refused() -> None:
    with pytest.raises(StructureError, match=r"`scale` is an xj\.Scale"):
        codes([1, 2], scale=[1, 2, 3])


# ------------------------------------------------------------------------------------------- the shared cases


def cases() -> Iterator[tuple[str, dict[str, Any]]]:
    """Cases given as rows, variants included."""
    if not SHARED.is_dir():
        return
    for case in json.loads((SHARED / "cases" / "cases.json").read_text())["cases"]:
        for number, variant in enumerate([{}, *case.get("variants", [])]):
            merged = case | variant
            if "rows" in merged:
                yield f"{case['id']}{'abc'[number]}", merged


def scale_of(content: dict[str, Any]) -> Scale:
    kind, values = content["type"], content["categories"]
    if kind == "binary":
        positive = content["positive"]
        return Scale.binary(next(v for v in values if v != positive), positive)
    if kind == "pairwise":
        tie = content.get("tie")
        first, second = (value for value in values if value != tie)
        return Scale.pairwise(first, second, tie=tie)
    return {"nominal": Scale.nominal, "ordinal": Scale.ordinal, "interval": Scale.interval}[kind](values)


def dataset_of(case: dict[str, Any], normalise: list[str], dtype: Any = object) -> Any:
    frame = pd.DataFrame(case["rows"], columns=case["columns"], dtype=object)
    frame["label"] = frame["label"].astype(dtype)
    names = list(dict.fromkeys(frame["rater"]))
    humans = case.get("humans", names)
    return from_long(
        frame,
        criterion="criterion",
        humans=[name for name in names if name in humans],
        scale=scale_of(case["scale"]),
        normalise=normalise,
        **case["codes"],
    )


def counted(ds: Any, ask: dict[str, Any]) -> float | None:
    """Plain counts of cases/README.md, by loops over units; ``None`` where the question is no count."""
    labels = ds["label"].transpose("item", "criterion", "rater").values
    raters = ds["rater"].values.tolist()
    criteria = ds["criterion"].values.tolist()
    units = [
        labels[i, k].tolist()
        for i in range(labels.shape[0])
        for k in range(labels.shape[1])
        if ask.get("criterion") in (None, criteria[k])
    ]
    stat = ask["stat"]
    if stat == "n_pairable_items":
        return sum(sum(code >= 0 for code in unit) >= 2 for unit in units)
    if stat == "mean_item_agreement":
        shares = []
        for unit in units:
            usable = [code for code in unit if code >= 0]
            if len(usable) >= 2:
                pairs = list(itertools.combinations(usable, 2))
                shares.append(sum(a == b for a, b in pairs) / len(pairs))
        return sum(shares) / len(shares)
    if stat in ("abstain_rate", "invalid_rate"):
        own = [unit[raters.index(ask["rater"])] for unit in units]
        asked = [code for code in own if code != -1]
        return sum(code == (-2 if stat == "abstain_rate" else -3) for code in asked) / len(asked)
    if stat not in ("n_pairs", "coverage", "accuracy") or ask.get("handling", "exclude") != "exclude":
        return None
    if ask.get("aggregate") == "macro" or "ties" in ask:
        return None
    first, second = (raters.index(name) for name in ask["raters"])
    pairs = [(unit[first], unit[second]) for unit in units]
    usable = [pair for pair in pairs if min(pair) >= 0]
    if stat == "n_pairs":
        return len(usable)
    if stat == "coverage":
        return len(usable) / sum(-1 not in pair for pair in pairs)
    return sum(a == b for a, b in usable) / len(usable)


@needs_shared
@pytest.mark.parametrize(
    ("name", "case"), list(cases()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_shared_cases(name: str, case: dict[str, Any]) -> None:
    looked_at = 0
    for ask in case["ask"]:
        expect = ask["expect"]
        normalise = ask.get("normalise", [])
        refused = expect.get("error") and not expect.get("because")
        if refused:
            with pytest.raises((StructureError, VocabularyError)) as error:
                dataset_of(case, normalise)
            assert all(part in str(error.value) for part in expect.get("must_name", []))
            some = expect.get("must_name_any", [])
            assert not some or any(part in str(error.value) for part in some)
            looked_at += 1
            continue
        ds = dataset_of(case, normalise)
        value = counted(ds, ask)
        if value is not None and "value" in expect:
            assert value == pytest.approx(expect["value"], abs=expect["tol"]), (name, ask["id"])
            looked_at += 1
    assert looked_at or not {"n_pairs", "coverage", "accuracy"} & {ask["stat"] for ask in case["ask"]}


@needs_shared
def test_shared_cases_are_all_there() -> None:
    assert [name for name, _ in cases()] == [
        *(f"s{k:02d}a" for k in range(1, 12)),
        "s11b",
        *(f"s{k:02d}a" for k in range(12, 15)),
    ]


@needs_shared
def test_shared_ordinal_words_as_every_dtype() -> None:
    case = dict(cases())["s05a"]
    levels = case["scale"]["categories"]
    first = dataset_of(case, [])
    for dtype in (
        "str",
        "string[python]",
        "category",
        pd.CategoricalDtype(sorted(levels)),
        "string[pyarrow]",
    ):
        assert first.identical(dataset_of(case, [], dtype)), dtype

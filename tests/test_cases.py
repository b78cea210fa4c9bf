"""Small inputs from real trouble, with their right answers: every question that a verb answers.

The data are read from ``../shared/cases``; the right answers stand here as literals, so that a changed file
cannot move them.
"""

from __future__ import annotations

import json
import warnings
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from shared import SHARED, needs_shared

import xjudge as xj

pytestmark = needs_shared


@cache
def _cases() -> dict[str, Any]:
    return {case["id"]: case for case in json.loads((SHARED / "cases" / "cases.json").read_text())["cases"]}


def _scale(spec: dict[str, Any]) -> xj.Scale:
    categories = spec["categories"]
    if spec["type"] == "binary":
        (negative,) = [c for c in categories if c != spec["positive"]]
        return xj.Scale.binary(negative=negative, positive=spec["positive"])
    if spec["type"] == "pairwise":
        return xj.Scale.pairwise(*[c for c in categories if c != spec["tie"]], tie=spec["tie"])
    return xj.Scale.ordinal(categories) if spec["type"] == "ordinal" else xj.Scale.nominal(categories)


def _dataset(case: str, normalise: tuple[str, ...] = (), rows: Any = None) -> xr.Dataset:
    content = _cases()[case]
    frame = pd.DataFrame(content["rows"] if rows is None else rows, columns=content["columns"], dtype=object)
    return xj.from_long(
        frame,
        criterion="criterion",
        humans=content["humans"],
        judges=content["judges"],
        scale=_scale(content["scale"]),
        normalise=normalise,
        **content["codes"],
    )


def _agreement(ds: xr.Dataset, statistic: str, protocol: xj.Protocol, **options: Any) -> xr.Dataset:
    raters = [str(name) for name in ds["rater"].values]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XJudgeWarning)
        return xj.agreement(ds, statistic=statistic, raters=raters[:2], protocol=protocol, **options)


def _value(case: str, statistic: str, normalise: tuple[str, ...] = (), **options: Any) -> float:
    choices = {k: options.pop(k) for k in ("ca", "aggregate") if k in options}
    protocol = xj.Protocol(**{"aggregate": "micro", **choices})
    result = _agreement(_dataset(case, normalise), statistic, protocol, **options)
    return float(result[statistic][0, 1])


DEFINED = [
    ("s01", "accuracy", {}, 1.0),
    ("s01", "brennan_prediger", {}, 1.0),
    ("s01", "gwet_ac1", {}, 1.0),
    ("s02", "accuracy", {}, 9 / 10),
    ("s02", "kappa", {}, 0.0),
    ("s02", "f1", {}, 18 / 19),
    ("s03", "kappa", {}, 1 / 3),
    ("s03", "kappa", {"weights": "linear"}, 3 / 7),
    ("s03", "kappa", {"weights": "quadratic"}, 79 / 159),
    ("s06", "accuracy", {}, 4 / 7),
    ("s06", "kappa", {}, 4 / 25),
    ("s09", "accuracy", {"ca": "exclude"}, 4 / 5),
    ("s09", "accuracy", {"ca": "negative"}, 11 / 16),
    ("s09", "accuracy", {"ca": "category"}, 9 / 16),
    ("s09", "kappa", {"ca": "exclude"}, 7 / 12),
    ("s09", "kappa", {"ca": "negative"}, 3 / 8),
    ("s09", "kappa", {"ca": "category"}, 27 / 83),
    ("s09", "f1", {"ca": "negative"}, 2 / 3),
    ("s09", "accuracy", {"ca": "exclude", "aggregate": "macro"}, 4 / 5),
    ("s10", "accuracy", {}, 6 / 7),
    ("s10", "kappa", {}, 23 / 30),
    ("s12", "kappa", {"weights": "quadratic"}, 38 / 45),
    ("s12", "kappa", {"weights": "linear"}, 23 / 37),
    ("s14", "kappa", {"aggregate": "macro"}, 1 / 3),
    ("s14", "phi", {"aggregate": "macro"}, 0.5202200572599405),
    ("s14", "kappa", {"aggregate": "micro"}, 61 / 109),
    ("s14", "phi", {"aggregate": "micro"}, 0.5737128161373645),
    ("s14", "accuracy", {"aggregate": "micro"}, 5 / 6),
]


@pytest.mark.parametrize(("case", "statistic", "options", "expected"), DEFINED)
def test_value(case: str, statistic: str, options: dict[str, Any], expected: float) -> None:
    assert _value(case, statistic, **options) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("statistic", "expected"), [("accuracy", 3 / 4), ("kappa", 1 / 2), ("phi", 1 / 2)])
def test_stray_blanks_and_capitals_are_normalised_on_request(statistic: str, expected: float) -> None:
    assert _value("s13", statistic, ("strip", "casefold")) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("case", "statistic", "reason"),
    [
        ("s01", "kappa", "only one category in use"),
        ("s01", "phi", "both raters are constant"),
        ("s02", "phi", "rater is constant"),
    ],
)
def test_undefined_has_a_reason(case: str, statistic: str, reason: str) -> None:
    result = _agreement(_dataset(case), statistic, xj.Protocol(aggregate="micro"))
    assert np.isnan(result[statistic][0, 1])
    assert str(result[f"{statistic}_reason"].values[0, 1]) == reason


@pytest.mark.parametrize(
    ("criterion", "kappa", "phi"),
    [
        ("clear", 1 / 3, 1 / 3),
        ("saved", None, None),
        ("polite", 0.0, None),
        ("complete", 2 / 3, 0.7071067811865476),
    ],
)
def test_one_criterion_without_variation(criterion: str, kappa: float | None, phi: float | None) -> None:
    for statistic, expected in (("kappa", kappa), ("phi", phi)):
        found = _agreement(_dataset("s14"), statistic, xj.Protocol())[statistic].sel(criterion=criterion)[
            0, 1
        ]
        if expected is None:
            assert np.isnan(found)
        else:
            assert float(found) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("statistic", "included"), [("kappa", 3), ("phi", 2)])
def test_macro_says_how_many_criteria_it_includes(statistic: str, included: int) -> None:
    result = _agreement(_dataset("s14"), statistic, xj.Protocol(aggregate="macro"))
    assert int(result["n_criteria"][0, 1]) == 4
    assert int(result["n_criteria_included"].sel(statistic=statistic)[0, 1]) == included


@pytest.mark.parametrize(("case", "n"), [("s06", 7), ("s10", 7), ("s12", 7)])
def test_number_of_pairs(case: str, n: int) -> None:
    result = _agreement(_dataset(case), "accuracy", xj.Protocol(aggregate="micro"))
    assert int(result["n"][0, 1]) == n


@pytest.mark.parametrize(("case", "coverage"), [("s09", 5 / 8), ("s10", 7 / 10), ("s12", 7 / 10)])
def test_coverage(case: str, coverage: float) -> None:
    result = _agreement(_dataset(case), "accuracy", xj.Protocol(aggregate="micro"))
    assert float(result["coverage"][0, 1]) == coverage


def test_rates_of_abstention_and_failure() -> None:
    abstained = xj.rates(_dataset("s09"), protocol=xj.Protocol(aggregate="micro"))["ca"]
    assert abstained.sel(rater=["human", "judge"]).values.tolist() == [1 / 8, 5 / 16]
    failed = xj.rates(_dataset("s10"), protocol=xj.Protocol(aggregate="micro"))["invalid"]
    assert float(failed.sel(rater="judge")) == 3 / 10


def test_joint_coverage_of_the_pair() -> None:
    found = xj.rates(_dataset("s09"), protocol=xj.Protocol(aggregate="micro"))["joint_coverage"]
    assert float(found.sel(rater_a="human", rater_b="judge")) == 5 / 8


def test_four_spellings_of_nobody_rated_this_are_missing() -> None:
    result = xj.rates(_dataset("s04"), protocol=xj.Protocol(aggregate="micro"))
    assert result["n_answered"].values.tolist() == [5, 5, 4]
    assert result["n_asked"].values.tolist() == [5, 5, 4]


def test_a_distance_has_no_place_for_cannot_assess() -> None:
    with pytest.raises(xj.ProtocolError, match="CA"):
        _value("s12", "kappa", ca="category", weights="quadratic")


@pytest.mark.parametrize(("variant", "names"), [(None, ("i02", "human")), (0, ("i03", "judge"))])
def test_a_label_given_twice_is_an_error(variant: int | None, names: tuple[str, ...]) -> None:
    rows = None if variant is None else _cases()["s11"]["variants"][variant]["rows"]
    with pytest.raises(xj.StructureError) as error:
        _dataset("s11", rows=rows)
    assert all(name in str(error.value) for name in names)


def test_unnormalised_spellings_are_an_error_that_shows_them() -> None:
    with pytest.raises(xj.VocabularyError) as error:
        _dataset("s13")
    assert any(text in str(error.value) for text in ("Yes", "NO", "No", " yes", "no "))

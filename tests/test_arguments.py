"""Arguments of the wrong kind: one sentence of ours from every verb, whatever the argument."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from labels import dataset, random_codes

import xjudge as xj
from xjudge._arguments import check_arguments

SUBJECTS: dict[str, dict[str, Any]] = {
    "adjust": {"features": []},
    "agreement": {},
    "allocate": {"n": 5},
    "alt_test": {},
    "breakdown": {"statistic": "accuracy", "threshold": 0.5},
    "cascade": {"thresholds": 0.5},
    "compare": {"a": "j1", "b": "j2"},
    "compare_panels": {"a": ["j1"], "b": ["j2"]},
    "coverage_bounds": {},
    "disagreements": {"judge": "j1"},
    "effective_size": {},
    "loo_validate": {},
    "pair_agreement": {},
    "panel_curve": {},
    "panel_dependence": {},
    "panel_geometry": {},
    "panel_vote": {},
    "plan_overlap": {},
    "prevalence": {"judge": "j1"},
    "rank": {},
    "rates": {},
    "rater_agreement": {},
    "reliability": {},
    "reliability_bounds": {},
    "risk_coverage": {},
    "select_panel": {"k": 1},
    "selective_threshold": {"target": 0.1},
    "split_stability": {"target": 0.1},
    "stability": {},
    "sweep": {"protocols": [xj.Protocol()]},
    "tables": {},
    "wrong_top_probability": {},
}

NO_KIND: tuple[Any, ...] = (object(), 1j, b"x", {"a": 1}, [[0.5], [1, 2]], np.eye(2), np.datetime64("2020"))


@pytest.fixture(scope="module")
def ds() -> xr.Dataset:
    return dataset(random_codes(0, (20, 4), 2), ["human", "human", "judge", "judge"])


def test_every_verb_with_a_protocol_is_here() -> None:
    verbs = {
        name
        for name in xj.__all__
        if inspect.isfunction(getattr(xj, name))
        and {"protocol", "protocols"} & set(inspect.signature(getattr(xj, name)).parameters)
    }
    assert verbs == set(SUBJECTS)


def plain(hint: Any) -> bool:
    kinds = typing.get_args(hint) if type(None) in typing.get_args(hint) else (hint,)
    known = (int, float, str, bool, xj.Protocol, type(None), Sequence[str], Sequence[float], Sequence[int])
    return all(kind in known for kind in kinds)


@pytest.mark.parametrize("verb", SUBJECTS)
def test_no_kind_of_value_gets_past_the_door(ds: xr.Dataset, verb: str) -> None:
    function = getattr(xj, verb)
    hints = typing.get_type_hints(function)
    names = [name for name in inspect.signature(function).parameters if plain(hints[name])]
    assert "protocol" in names or "protocols" in inspect.signature(function).parameters
    for name in names:
        for value in NO_KIND:
            if name == "reference" and not isinstance(value, dict | list | np.ndarray | bytes):
                continue
            with pytest.raises(xj.ProtocolError, match=f"^`{name}` is .*; got "):
                function(ds, **SUBJECTS[verb] | {name: value})


@pytest.mark.parametrize(
    ("argument", "sentence"),
    [
        ({"protocol": "micro"}, "`protocol` is an xj.Protocol or None; got 'micro'."),
        ({"by": ["system"]}, r"`by` is a name or word or None; got \['system'\]."),
        ({"level": "0.95"}, "`level` is a number; got '0.95'."),
        ({"n_resamples": 1e3}, "`n_resamples` is a whole number; got 1000.0."),
        ({"seed": None}, "`seed` is a whole number; got None."),
        ({"seed": -1}, "`seed` is 0 or a positive whole number; got -1."),
        ({"statistic": None}, "`statistic` is a name or word or a list of names or words; got None."),
        ({"unresolved": None}, "`unresolved` is a name or word or a list of names or words; got None."),
        ({"max_share": ["a"]}, r"`max_share` is a number or a list of numbers; got \['a'\]."),
    ],
)
def test_what_it_says(ds: xr.Dataset, argument: dict[str, Any], sentence: str) -> None:
    with pytest.raises(xj.ProtocolError, match=f"^{sentence}$"):
        xj.coverage_bounds(ds, **argument)


def test_what_numpy_and_pandas_hold_is_what_it_is(ds: xr.Dataset) -> None:
    found = xj.coverage_bounds(
        ds,
        statistic=pd.Index(["accuracy", "kappa"]),  # type: ignore[arg-type]
        max_share=np.array([np.float32(0.5), 1]),  # type: ignore[arg-type]
        level=np.float64(0.9),
        n_resamples=np.int64(10),  # type: ignore[arg-type]
        seed=np.uint8(1),  # type: ignore[arg-type]
    )
    assert found["kappa_range"].sizes["max_share"] == 2


def test_kinds_it_does_not_know_are_left_to_the_verb() -> None:
    def verb(share: float, own: dict[str, int], strict: bool = False) -> None:
        check_arguments(verb, locals())

    verb(Fraction(1, 2), 5, np.True_)  # type: ignore[arg-type]
    with pytest.raises(xj.ProtocolError, match=r"^`strict` is True or False; got 1\.$"):
        verb(0.5, {}, 1)  # type: ignore[arg-type]
    with pytest.raises(xj.ProtocolError, match=r"^`share` is a number; got True\.$"):
        verb(True, {})


@pytest.mark.parametrize(
    ("verb", "argument", "sentence"),
    [
        ("allocate", {"judge": np.eye(2)}, "^`judges`: there is no rater array"),
        ("breakdown", {"threshold": np.inf}, "^`threshold` is a number"),
        ("cascade", {"order": None}, "^`order` is a name or word or a list of names; got None"),
        (
            "cascade",
            {"thresholds": {"j1": "x"}},
            "^`thresholds` is a number or a list of numbers or a map",
        ),
        ("coverage_bounds", {"humans": np.eye(2)}, "^`humans` is a list of raters or a boolean array"),
        ("loo_validate", {"pooling": np.eye(2)}, "^`pooling` is a name or word"),
        ("loo_validate", {"strata": ["system"]}, "^`strata` is a name or word or True or False or None"),
        ("loo_validate", {"strata": "nothing"}, "^`strata='nothing'` has no value on any item"),
        ("panel_curve", {"n_starts": -1}, "^`n_starts` is a number of random starts"),
        ("select_panel", {"must_include": 1.5}, "^`must_include`: there is no rater 1.5"),
        ("split_stability", {"n_calibration": np.inf}, "^`n_calibration` is a number of cases or a share"),
        ("split_stability", {"n_calibration": np.nan}, "^`n_calibration` is a number of cases or a share"),
        ("wrong_top_probability", {"mask": "nope"}, "^`mask` must be 'bernoulli' or 'exact'; got 'nope'"),
    ],
)
def test_values_that_no_verb_takes(
    ds: xr.Dataset, verb: str, argument: dict[str, Any], sentence: str
) -> None:
    sure = ds.assign(confidence=(ds["label"].dims, np.full(ds["label"].shape, 0.7)))
    sure = sure.assign_coords(nothing=("item", np.full(ds.sizes["item"], np.nan)))
    with pytest.raises((xj.ProtocolError, xj.StructureError), match=sentence):
        getattr(xj, verb)(sure, **one_human(verb) | argument)


def one_human(verb: str) -> dict[str, Any]:
    takes = "reference" in inspect.signature(getattr(xj, verb)).parameters
    return SUBJECTS[verb] | ({"reference": "h1"} if takes else {})


@pytest.mark.filterwarnings("ignore::xjudge.DroppedWarning")
def test_no_constraint_is_none(ds: xr.Dataset) -> None:
    free, none = (xj.select_panel(ds, 1, must_include=word, exclude=word) for word in ((), None))
    xr.testing.assert_equal(free, none)


def test_too_few_raters_of_a_role_says_where_they_come_from(ds: xr.Dataset) -> None:
    with pytest.raises(xj.OverlapError, match=r"^This needs at least 2 humans; there are 1 by .*`humans=`"):
        xj.loo_validate(ds, humans=["h1"])

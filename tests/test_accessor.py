"""The accessor: one signature with the functions, no state, and a clear answer where it hides a column."""

from __future__ import annotations

import inspect
import operator
from typing import Any

import pandas as pd
import pytest
import xarray as xr
from labels import dataset, random_codes

import xjudge as xj

VERBS = (
    "adjust",
    "agreement",
    "allocate",
    "alt_test",
    "append_to_zarr",
    "breakdown",
    "cascade",
    "compare",
    "compare_panels",
    "coverage_bounds",
    "disagreements",
    "effective_size",
    "join",
    "loo_validate",
    "mask",
    "mean_pairwise",
    "pair_agreement",
    "panel_curve",
    "panel_dependence",
    "panel_geometry",
    "panel_vote",
    "plan_overlap",
    "prevalence",
    "rank",
    "rater_agreement",
    "rates",
    "reliability_bounds",
    "risk_coverage",
    "select_panel",
    "selective_threshold",
    "split_stability",
    "spread",
    "stability",
    "sweep",
    "tables",
    "tidy",
    "to_dense",
    "to_long",
    "to_sparse",
    "validate",
    "wrong_top_probability",
)


@pytest.fixture
def ds() -> xr.Dataset:
    return dataset(random_codes(0, (20, 3), 2), ["human", "judge", "judge"])


@pytest.mark.parametrize("verb", VERBS)
def test_methods_have_the_signature_of_the_functions(ds: xr.Dataset, verb: str) -> None:
    function, method = getattr(xj, verb), getattr(ds.judge, verb)
    parameters = list(inspect.signature(function).parameters.values())[1:]
    assert list(inspect.signature(method).parameters.values()) == parameters
    assert method.__doc__ == function.__doc__


def test_frames_have_the_signature_of_from_long() -> None:
    method = pd.DataFrame({"a": [1]}).judge.to_dataset
    parameters = list(inspect.signature(xj.from_long).parameters.values())[1:]
    assert list(inspect.signature(method).parameters.values()) == parameters


def test_it_keeps_nothing_but_the_object(ds: xr.Dataset) -> None:
    accessor = ds.judge
    before = accessor.rates()["answered"].values
    ds["label"].values[:] = -2
    assert vars(accessor) == {"_obj": ds} or list(vars(accessor)) == ["_obj"]
    assert (accessor.rates()["answered"].values == 0).all()
    assert not (before == 0).all()


def test_objects_that_are_no_judge_dataset_have_it_without_harm() -> None:
    empty = xr.Dataset()
    assert hasattr(empty, "judge")
    with pytest.raises(xj.StructureError, match="no variable `label`"):
        empty.judge.agreement()


HIDDEN: list[Any] = [
    lambda obj: obj.judge == "gpt",
    lambda obj: obj.judge != "gpt",
    lambda obj: obj.judge > 3,
    lambda obj: obj.judge.isin(["gpt"]),
    lambda obj: obj.judge.values,
    lambda obj: obj.judge.unique(),
    lambda obj: obj.judge.value_counts(),
    lambda obj: list(obj.judge),
    lambda obj: len(obj.judge),
    lambda obj: obj.judge[0],
    lambda obj: "gpt" in obj.judge,
    lambda obj: bool(obj.judge),
    lambda obj: obj.judge.str,
    lambda obj: operator.and_(obj.judge, True),
    lambda obj: operator.invert(obj.judge),
    lambda obj: obj.judge.map({"gpt": 1}),
]


@pytest.mark.parametrize("use", HIDDEN)
@pytest.mark.parametrize(
    "obj",
    [pd.DataFrame({"judge": ["gpt", "claude"]}), xr.Dataset({"judge": ("item", ["gpt", "claude"])})],
    ids=["DataFrame", "Dataset"],
)
def test_a_hidden_column_gets_one_sentence(obj: Any, use: Any) -> None:
    with pytest.raises(xj.StructureError, match=r'use `\["judge"\]`'):
        use(obj)
    assert list(obj["judge"].values) == ["gpt", "claude"]


def test_trees_map_over_nodes_with_labels(ds: xr.Dataset) -> None:
    other = dataset(random_codes(1, (9, 2), 3), ["human", "judge"], xj.Scale.nominal(["a", "b", "c"]))
    tree = xr.DataTree.from_dict({"/first": ds, "/group/second": other, "/empty": xr.Dataset()})
    result = tree.judge.agreement(statistic="accuracy")
    xr.testing.assert_identical(result["/first"].to_dataset(), xj.agreement(ds, statistic="accuracy"))
    assert result["/group/second"]["accuracy"].dims == ("reference", "rater")
    assert not result["/empty"].has_data


NO_TREE = {"mask", "disagreements", "mean_pairwise", "spread", "to_long", "append_to_zarr", "join", "tidy"}
"""What gives no dataset, is a step beyond one, or takes a second thing of the same kind."""


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in NO_TREE])
def test_trees_have_the_verbs_of_datasets(ds: xr.Dataset, verb: str) -> None:
    method = getattr(xr.DataTree(ds).judge, verb)
    assert inspect.signature(method) == inspect.signature(getattr(ds.judge, verb))
    assert method.__doc__ == getattr(xj, verb).__doc__


def test_a_tree_passes_positional_arguments_on(ds: xr.Dataset) -> None:
    names = ds["rater"].values.tolist()
    found = xr.DataTree(ds).judge.compare(names[1], names[2], interval=None)
    xr.testing.assert_identical(found.to_dataset(), xj.compare(ds, names[1], names[2], interval=None))


def test_its_repr_says_what_it_is(ds: xr.Dataset) -> None:
    assert repr(ds.judge) == "<xjudge accessor of a Dataset: verbs such as .agreement(), .rates()>"

"""The `.judge` accessor on Dataset, DataArray, DataTree and DataFrame: one line a method, no logic, no state.

The accessor hides a variable, coordinate or column called ``judge`` from attribute access, so it answers
comparison, iteration and the like with one sentence instead of comparing itself.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from typing import Any, Concatenate, NoReturn, ParamSpec, TypeVar, cast

import numpy.typing as npt
import pandas as pd
import xarray as xr

from xjudge import build, outcomes
from xjudge.errors import StructureError
from xjudge.labelled import _common
from xjudge.scale import Scale
from xjudge.view import View, names_of_role

__all__ = ["DataFrameJudge", "DatasetJudge", "TreeJudge"]


class _NotData:
    """Answers what one does with data by a sentence: this is the accessor, not a column."""

    _obj: Any

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        kind = type(self._obj).__name__
        raise StructureError(
            f'`.judge` is the xjudge accessor and hides what is called "judge" in this {kind}; use '
            '`["judge"]` for the data.'
        )

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = cast(Any, _refuse)
    __iter__ = __len__ = __contains__ = __getitem__ = __array__ = __bool__ = cast(Any, _refuse)
    __add__ = __radd__ = __and__ = __or__ = __invert__ = cast(Any, _refuse)
    __hash__ = object.__hash__

    isin = unique = value_counts = map = apply = astype = isna = notna = cast(Any, _refuse)
    fillna = replace = to_numpy = tolist = groupby = cast(Any, _refuse)
    values = data = dtype = str = cat = iloc = loc = shape = property(cast(Any, _refuse))

    def __repr__(self) -> str:  # type: ignore[valid-type]
        return f"<xjudge accessor of a {type(self._obj).__name__}: verbs such as .agreement(), .rates()>"


P = ParamSpec("P")
R = TypeVar("R")


def _method(function: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """A function of a dataset as a method of its accessor, with the function's signature and docstring."""

    @functools.wraps(function)
    def method(self: Any, *args: P.args, **kwargs: P.kwargs) -> R:
        return function(self._obj, *args, **kwargs)

    signature = inspect.signature(function)
    first, *others = signature.parameters.values()
    me = first.replace(name="self", annotation=inspect.Parameter.empty)
    method.__signature__ = signature.replace(parameters=[me, *others])  # type: ignore[attr-defined]
    return method


class _Later:
    """A method whose room is opened by its first use; then it is the method itself.

    The room has a function of the same name. What :func:`_method` makes of it takes this object's place.
    """

    def __init__(self, module: str) -> None:
        self.module = module

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, obj: Any, owner: type) -> Any:
        method = _method(getattr(importlib.import_module(self.module), self.name))
        setattr(owner, self.name, method)
        return method if obj is None else getattr(obj, self.name)


class DatasetJudge(_NotData):
    """`ds.judge` and `da.judge`: the verbs on a judge dataset, or on its label array.

    Every method is the function of the same name in :mod:`xjudge` with the dataset as first argument, and
    has its signature; see there for parameters and results.
    """

    def __init__(self, obj: xr.Dataset | xr.DataArray) -> None:
        self._obj = obj

    @property
    def scale(self) -> Scale:
        """The scale of the labels."""
        return View.of(self._obj, own={}).scale

    @property
    def humans(self) -> npt.NDArray[Any]:
        """Names of the humans."""
        return names_of_role(self._obj, "human")

    @property
    def judges(self) -> npt.NDArray[Any]:
        """Names of the judges."""
        return names_of_role(self._obj, "judge")

    validate = _method(outcomes.validate)
    mask = _method(outcomes.mask)
    rates = _method(outcomes.rates)
    tables = _Later("xjudge.labelled.agreement")
    agreement = _Later("xjudge.labelled.agreement")
    sweep = _Later("xjudge.labelled.agreement")
    spread = _Later("xjudge.labelled.spread")
    mean_pairwise = _Later("xjudge.labelled.spread")
    coverage_bounds = _Later("xjudge.labelled.bounds")
    breakdown = _Later("xjudge.labelled.bounds")
    adjust = _Later("xjudge.labelled.adjust")
    prevalence = _Later("xjudge.labelled.adjust")
    risk_coverage = _Later("xjudge.labelled.selective")
    selective_threshold = _Later("xjudge.labelled.selective")
    split_stability = _Later("xjudge.labelled.selective")
    cascade = _Later("xjudge.labelled.selective")
    reliability = _Later("xjudge.labelled.reliability")
    reliability_bounds = _Later("xjudge.labelled.rater_ranges")
    compare = _Later("xjudge.labelled.compare")
    rank = _Later("xjudge.labelled.ranking")
    loo_validate = _Later("xjudge.labelled.loo")
    alt_test = _Later("xjudge.labelled.loo")
    plan_overlap = _Later("xjudge.labelled.planning")
    allocate = _Later("xjudge.labelled.planning")
    wrong_top_probability = _Later("xjudge.labelled.planning")
    disagreements = _Later("xjudge.labelled.disagreements")
    effective_size = _Later("xjudge.labelled.panel")
    compare_panels = _Later("xjudge.labelled.rivals")
    panel_curve = _Later("xjudge.labelled.subpanels")
    panel_dependence = _Later("xjudge.labelled.dependence")
    panel_geometry = _Later("xjudge.labelled.geometry")
    panel_vote = _Later("xjudge.labelled.voting")
    select_panel = _Later("xjudge.labelled.selection")
    stability = _Later("xjudge.labelled.stability")
    pair_agreement = _Later("xjudge.labelled.crowds")
    rater_agreement = _Later("xjudge.labelled.crowds")
    to_dense = _Later("xjudge._layouts")
    to_sparse = _Later("xjudge._layouts")
    to_long = _method(build.to_long)
    append_to_zarr = _Later("xjudge._stores")
    join = _method(build.join)
    tidy = _method(_common.tidy)


class _OfNodes:
    """A verb on every node of a DataTree that holds labels; it has the verb's signature and docstring."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, obj: Any, owner: type) -> Any:
        verb = getattr(DatasetJudge, self.name)
        name = self.name

        @functools.wraps(verb)
        def method(self: TreeJudge, *args: Any, **options: Any) -> xr.DataTree:
            def one(node: xr.Dataset) -> xr.Dataset:
                if "label" not in node.variables:
                    return node
                return cast(xr.Dataset, getattr(DatasetJudge(node), name)(*args, **options))

            return self._obj.map_over_datasets(one)

        setattr(owner, name, method)
        return method if obj is None else getattr(obj, name)


class TreeJudge(_NotData):
    """`dt.judge`: the verbs on every node of a DataTree that holds labels.

    Nodes without labels are passed through; the answer is a DataTree of results. Every method takes what the
    function of the same name in :mod:`xjudge` takes after the dataset.
    """

    def __init__(self, obj: xr.DataTree) -> None:
        self._obj = obj

    validate = _OfNodes()
    rates = _OfNodes()
    tables = _OfNodes()
    agreement = _OfNodes()
    sweep = _OfNodes()
    coverage_bounds = _OfNodes()
    breakdown = _OfNodes()
    adjust = _OfNodes()
    prevalence = _OfNodes()
    risk_coverage = _OfNodes()
    selective_threshold = _OfNodes()
    split_stability = _OfNodes()
    cascade = _OfNodes()
    reliability = _OfNodes()
    reliability_bounds = _OfNodes()
    compare = _OfNodes()
    rank = _OfNodes()
    loo_validate = _OfNodes()
    alt_test = _OfNodes()
    plan_overlap = _OfNodes()
    allocate = _OfNodes()
    wrong_top_probability = _OfNodes()
    effective_size = _OfNodes()
    compare_panels = _OfNodes()
    panel_curve = _OfNodes()
    panel_dependence = _OfNodes()
    panel_geometry = _OfNodes()
    panel_vote = _OfNodes()
    select_panel = _OfNodes()
    stability = _OfNodes()
    pair_agreement = _OfNodes()
    rater_agreement = _OfNodes()
    to_dense = _OfNodes()
    to_sparse = _OfNodes()


class DataFrameJudge(_NotData):
    """`df.judge`: from a data frame to a judge dataset."""

    def __init__(self, obj: pd.DataFrame) -> None:
        self._obj = obj

    to_dataset = _method(build.from_long)


def register() -> None:
    """Register the accessors; importing xjudge does."""
    xr.register_dataset_accessor("judge")(DatasetJudge)
    xr.register_dataarray_accessor("judge")(DatasetJudge)
    xr.register_datatree_accessor("judge")(TreeJudge)
    pd.api.extensions.register_dataframe_accessor("judge")(DataFrameJudge)

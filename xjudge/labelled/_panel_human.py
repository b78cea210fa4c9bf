"""The human side of a panel: label counts or given shares of each unit, and its gold label."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from xjudge.codes import MISSING, N_OUTCOMES
from xjudge.errors import OverlapError, ProtocolError, StructureError, VocabularyError, listing
from xjudge.labelled._pass import Columns, Labels
from xjudge.lazy import map_items, one_chunk_beside_items
from xjudge.scale import Category, Scale
from xjudge.view import View

__all__ = ["Gold", "HumanSide", "Partial", "gold_side", "human_side", "partial"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Partial:
    """An anchor of a few human labels of each item; see :func:`partial`."""

    n_labels: int
    n_replicates: int = 200

    def __post_init__(self) -> None:
        values: tuple[object, ...] = (self.n_labels, self.n_replicates)
        for value in values:
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ProtocolError(f"`{self!r}` takes whole numbers of at least 1.")

    def __repr__(self) -> str:
        return f"partial({self.n_labels}, n_replicates={self.n_replicates})"

    @classmethod
    def from_text(cls, text: str) -> Partial | str:
        """Anchor from the attribute of a result: a partial one from its repr, any other as it is."""
        found = re.fullmatch(r"partial\((\d+), n_replicates=(\d+)\)", text)
        return text if found is None else cls(int(found[1]), int(found[2]))


def partial(m: int, n_replicates: int = 200) -> Partial:
    """Anchor residuals at ``m`` human labels of each item, drawn without replacement.

    Parameters
    ----------
    m : int
        Labels drawn from each item; every item needs as many.
    n_replicates : int
        Independent draws; the size is their median, and its interval spans them.

    Returns
    -------
    Partial
        For ``xj.effective_size(anchor=...)``.

    Raises
    ------
    ProtocolError
        A number that is not whole, or below 1.

    Examples
    --------
    >>> partial(3)
    partial(3, n_replicates=200)
    """
    return Partial(m, n_replicates)


class HumanSide(NamedTuple):
    """Where the counts of human labels come from.

    Parameters
    ----------
    array : str, optional
        Name of the array (item, category, cell) of counts or shares; identified humans have none.
    columns : tuple of int
        Identified humans.
    shares : bool
        Whether the numbers are shares, whose number of human labels is not known.
    """

    array: str | None
    columns: tuple[int, ...]
    shares: bool


class Gold(NamedTuple):
    """Where gold labels come from: the human mode, a rater's column, or an array of codes.

    Parameters
    ----------
    ties : {"first", "drop", ""}
        What becomes of ties of the mode; empty for given labels.
    column : int, optional
    array : str, optional
    """

    ties: str
    column: int | None = None
    array: str | None = None


# ------------------------------------------------------------------------------------------------ human side


def human_side(labels: Labels, columns: Columns, human: str | None, aggregate: str | None) -> HumanSide:
    """Open the human side; an array of counts or shares joins the pass.

    Raises
    ------
    StructureError, ProtocolError, OverlapError
        No such variable, or not on the categories; no identified human.
    """
    view = labels.view
    if human == "observed":
        if not len(view.humans):
            there = "human='count'" if "count" in view.data.variables else "a variable of probabilities"
            raise OverlapError(
                f"`human='observed'` needs identified humans and the dataset has none; give {there}."
            )
        return HumanSide(None, tuple(view.humans.tolist()), shares=False)
    if human is None or human not in view.data.data_vars:
        raise StructureError(
            f"`human` is 'observed', 'count' or a variable of shares (item, category); the dataset has no "
            f"variable {human!r}."
        )
    variable = view.data[human]
    shares = human != "count" and variable.dtype.kind == "f"
    item_level = aggregate == "item"
    if item_level and "criterion" in view.rest and not (shares and "criterion" not in variable.dims):
        raise ProtocolError(
            f"`human={human!r}` says nothing about item verdicts, which combine the criteria of one rater; "
            "give identified humans, or shares of item verdicts (item, category)."
        )
    cells = list(view.others) if item_level else list(view.rest)
    scale = columns.scale if item_level and "criterion" in view.rest else view.scale
    targets = tuple(range(scale.n_categories)) if scale is columns.scale else columns.targets
    n = scale.n_categories
    if not {"item", "category"} <= set(variable.dims) or not set(variable.dims) <= {
        "item",
        "category",
        *cells,
    }:
        raise StructureError(
            f"`human={human!r}` lives on {variable.dims}; it should be item, category"
            f"{', '.join(['', *cells])}."
        )
    if variable.dtype.kind not in "iuf" or variable.sizes["category"] != n:
        raise StructureError(
            f"`human={human!r}` holds {variable.dtype} for {variable.sizes['category']} categories; it "
            f"should be numbers for the {n} categories of {scale!r}."
        )
    array = _beside(variable, view, cells, "category")
    matrix = np.zeros((n, columns.scale.n_categories))
    for place, target in enumerate(targets[:n]):
        if target >= 0:
            matrix[place, target] = 1.0
    shape = (columns.scale.n_categories, array.shape[1])
    name = "score human"  # arrays of numbers have names that begin so
    labels.arrays[name] = map_items(
        _Mapped(matrix, human, shares), [array], shape=shape, dtype=np.dtype(np.float64)
    )
    return HumanSide(name, (), shares)


def _beside(variable: xr.DataArray, view: View, cells: Sequence[str], last: str | None) -> Any:
    """Values (item, cell[, last]), repeated over the cells that the variable does not have."""
    wide = variable.variable.set_dims(
        {dim: view.data["label"].sizes[dim] for dim in cells if dim not in variable.dims}
        | {str(dim): size for dim, size in variable.sizes.items()}
    )
    ends = [] if last is None else [last]
    array = one_chunk_beside_items(wide.transpose("item", *cells, *ends).data)
    n_cells = int(np.prod([view.data["label"].sizes[dim] for dim in cells]))
    return array.reshape((array.shape[0], n_cells, *array.shape[1 + len(cells) :]))


class _Mapped:
    """Counts or shares (item, cell, raw category) as (item, category, cell) of the protocol."""

    def __init__(self, matrix: Floats, name: str, shares: bool) -> None:
        self.matrix, self.name, self.shares = matrix, name, shares

    def __call__(self, block: npt.NDArray[Any]) -> Floats:
        numbers = block.astype(np.float64)
        if not self.shares:
            numbers = np.nan_to_num(numbers, nan=0.0)
        else:
            self._check(numbers)
        mapped = np.moveaxis(numbers @ self.matrix, -1, -2)
        if not self.shares:
            return mapped
        total = mapped.sum(-2, keepdims=True)
        # a category that the protocol leaves out takes its share with it
        return np.divide(mapped, total, out=np.full(mapped.shape, np.nan), where=total > 0)

    def _check(self, shares: Floats) -> None:
        known = ~np.isnan(shares).any(-1)
        rows = shares[known]
        wrong = (np.abs(rows.sum(-1) - 1.0) > 1e-6) | (rows < 0).any(-1)
        if wrong.any():
            raise StructureError(
                f"`human={self.name!r}` should hold shares that sum to 1 on each item (NaN where there are "
                f"none); {int(wrong.sum())} of {len(rows)} do not, the first sums to "
                f"{rows[wrong][0].sum():.6g}. Counts are whole numbers, in integers."
            )


# ------------------------------------------------------------------------------------------------------- gold


def gold_side(labels: Labels, columns: Columns, gold: str, aggregate: str | None, what: str = "gold") -> Gold:
    """Open the gold labels, or other categories on items; an array of codes named ``what`` joins the pass.

    Raises
    ------
    StructureError, VocabularyError
        No such variable or rater; values that are no category.
    """
    if gold in ("mode", "tie_free"):
        return Gold("first" if gold == "mode" else "drop")
    view = labels.view
    if gold not in view.data.variables:
        if gold in view.raters.tolist():
            return Gold("", column=view.position(gold, what))
        words = "'mode', 'tie_free', " if what == "gold" else ""
        raise StructureError(
            f"`{what}` is {words}a variable of categories on item, or a rater; the dataset has no {gold!r}."
        )
    variable = view.data[gold]
    item_level = aggregate == "item"
    cells = list(view.others) if item_level else list(view.rest)
    if "item" not in variable.dims or not set(variable.dims) <= {"item", *cells}:
        raise StructureError(
            f"`{what}={gold!r}` lives on {variable.dims}; it should be item{', '.join(['', *cells])}."
        )
    scale = columns.scale if item_level else view.scale
    targets = tuple(range(scale.n_categories)) if item_level else columns.targets[: scale.n_categories]
    array = _beside(variable, view, cells, None)
    coded = _Coded(scale, targets, f"{what}={gold!r}")
    labels.arrays[what] = map_items(coded, [array], shape=array.shape[1:], dtype=np.dtype(np.int32))
    return Gold("", array=what)


class _Coded:
    """Category values of a block as codes of the protocol; a null is no gold label."""

    def __init__(self, scale: Scale, targets: Sequence[int], name: str) -> None:
        self.scale, self.targets, self.name = scale, tuple(targets), name

    def __call__(self, block: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
        places, values = pd.factorize(block.ravel())
        codes = [self.scale.find(value) for value in values]
        unknown: list[Category] = [v for v, code in zip(values, codes, strict=True) if code is None]
        if unknown:
            raise VocabularyError(
                f"`{self.name}` holds {listing(unknown)}, which is no category of {self.scale!r}; it should "
                "hold category values, null where there is none."
            )
        table = [*(self.targets[code] for code in codes if code is not None), MISSING]
        found = np.maximum(np.array(table, dtype=np.int32), -1 - N_OUTCOMES)[places]
        return found.reshape(block.shape)

"""A judge dataset as a tidy long frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from xjudge._ids import DIMS
from xjudge.codes import MISSING, OUTCOMES, to_codes
from xjudge.errors import StructureError, VocabularyError, listing
from xjudge.lazy import materialise
from xjudge.scale import Category, Scale
from xjudge.view import as_dataset

__all__ = ["to_long"]

_FIRST: Final = ("role", "identity")
_CODES: Final = tuple(f"{dim}_code" for dim in DIMS)

Positions = dict[str, npt.NDArray[np.intp]]


def to_long(ds: xr.Dataset | xr.DataArray, *, missing: bool = False) -> pd.DataFrame:
    """Tidy frame of a judge dataset: one row per label, its outcome in words.

    Parameters
    ----------
    ds : Dataset or DataArray
        A judge dataset in either layout.
    missing : bool
        Whether labels that were never asked for get a row too (dense layout).

    Returns
    -------
    pandas.DataFrame
        Columns ``item``, ``rater`` [, ``criterion``] [, ``replicate``]; ``label`` (the category, or the
        score on a continuous scale; null where there is none); ``status`` (``answered``, ``ca``,
        ``invalid``, ``missing``); ``role``; ``identity`` where it is not ``named`` throughout; then every
        coordinate and variable that lives on these dims (an empty text is null), and ``prob_<category>``.
        Rows go through items, raters, criteria, replicates, the last one fastest.

    Raises
    ------
    StructureError
        No labels, no scale.
    VocabularyError
        Codes that the scale does not have.

    Notes
    -----
    Lazy data are computed once. Read back with ``from_long(frame, status="status", role="role",
    scale=scale)``: after ``missing=True`` the dataset is the same; without, as long as every rater and
    criterion comes up in the same order.

    Examples
    --------
    >>> scale = Scale.binary("UNMET", "MET")
    >>> ds = xr.Dataset(
    ...     {"label": (("item", "rater"), np.array([[1, -2]], dtype=np.int8), scale.to_attrs())},
    ...     coords={"item": ["a"], "rater": ["ann", "gpt"], "role": ("rater", ["human", "judge"])},
    ... )
    >>> print(to_long(ds).fillna("-").to_string(index=False))
    item rater label   status  role
       a   ann   MET answered human
       a   gpt     -       ca judge
    """
    data = as_dataset(ds)
    if "label" not in data.variables:
        raise StructureError(
            f"The dataset has no variable `label`; it has {listing(list(data.data_vars), most=9) or 'none'}."
        )
    scale = Scale.from_attrs(data["label"].attrs)
    sparse = "answer" in data["label"].dims
    if sparse and missing:
        raise StructureError(
            "The sparse layout lists what was asked alone; `missing=True` needs the dense one."
        )
    variables = _in_memory(data)
    codes, positions = (_sparse_rows if sparse else _dense_rows)(variables, missing)
    _check_codes(codes, scale)
    frame: dict[str, Any] = {}
    for dim, at in positions.items():
        frame[dim] = _column(_ids(variables, dim, int(data.sizes[dim]))).take(at)
    rows = _Rows(variables, positions, sparse)
    frame["label"] = _label_column(codes, scale, rows)
    frame["status"] = pd.Index(["answered", *OUTCOMES]).take(np.where(codes >= 0, 0, -codes.astype(np.intp)))
    further = [str(name) for name in variables if name not in {*positions, "label", "score", "prob", *_CODES}]
    for name in sorted(further, key=lambda name: name not in _FIRST):
        held = variables[name]
        if name == "identity" and set(held.values.tolist()) <= {"named"}:
            continue
        if held.dims and set(map(str, held.dims)) <= {*positions, *(["answer"] if sparse else [])}:
            frame[name] = rows.values(name)
    if "prob" in variables:
        for place, category in enumerate(_ids(variables, "category", variables["prob"].sizes["category"])):
            frame[f"prob_{category}"] = rows.values("prob", place)
    return pd.DataFrame(frame)


class _Rows:
    """Values of a variable at the rows of the frame."""

    def __init__(self, variables: dict[str, xr.Variable], positions: Positions, sparse: bool) -> None:
        self.variables = variables
        self.positions = positions
        self.kept = variables["label"].dims if sparse else ()

    def values(self, name: str, category: int | None = None) -> Any:
        """Column of a variable, taken along its dims."""
        held = self.variables[name]
        if category is not None:
            held = held.isel(category=category)
        if held.dims == self.kept:
            return _column(held.values)
        dims = [str(dim) for dim in held.dims]
        if len(dims) == 1:
            return _column(held.values, empty_is_null=True).take(self.positions[dims[0]])
        return _column(held.values[tuple(self.positions[dim] for dim in dims)], empty_is_null=True)


def _in_memory(data: xr.Dataset) -> dict[str, xr.Variable]:
    """All variables, lazy ones computed together."""
    names = [str(name) for name in data.variables]
    arrays = materialise(*(data.variables[name].data for name in names))
    return {
        name: xr.Variable(data.variables[name].dims, array) for name, array in zip(names, arrays, strict=True)
    }


def _dense_rows(
    variables: dict[str, xr.Variable], missing: bool
) -> tuple[npt.NDArray[np.signedinteger], Positions]:
    label = variables["label"]
    dims: list[str] = [dim for dim in DIMS if dim in label.dims]
    dims += [str(dim) for dim in label.dims if dim not in dims]
    codes = to_codes(label.transpose(*dims).values).ravel()
    stated = codes != MISSING
    if "prob" in variables:  # probabilities without a label say something too
        stated |= ~np.isnan(variables["prob"].transpose(*dims, "category").values).all(axis=-1).ravel()
    rows = np.arange(codes.size) if missing else np.flatnonzero(stated)
    at = np.unravel_index(rows, [label.sizes[dim] for dim in dims])
    return codes[rows], dict(zip(dims, at, strict=True))


def _sparse_rows(
    variables: dict[str, xr.Variable], missing: bool
) -> tuple[npt.NDArray[np.signedinteger], Positions]:
    dims = [dim for dim in DIMS if f"{dim}_code" in variables]
    positions = {dim: variables[f"{dim}_code"].values.astype(np.intp) for dim in dims}
    return to_codes(variables["label"].values), positions


def _check_codes(codes: npt.NDArray[np.signedinteger], scale: Scale) -> None:
    outside = codes[(codes >= scale.n_categories) | (codes < min(OUTCOMES.values()))]
    if outside.size:
        values, counts = np.unique(outside, return_counts=True)
        shown = [
            f"{value} ({count} times)" for value, count in zip(values.tolist(), counts.tolist(), strict=True)
        ]
        raise VocabularyError(
            f"`label` holds codes that {scale!r} does not have: {listing(shown, show='str')}."
        )


def _ids(variables: dict[str, xr.Variable], dim: str, size: int) -> npt.NDArray[Any]:
    return variables[dim].values if dim in variables else np.arange(size)


def _column(values: npt.NDArray[Any], *, empty_is_null: bool = False) -> pd.Index[Any]:
    """Values with the dtype that pandas gives them: text as text, whatever array held it."""
    if values.dtype.kind in "iufbMm":
        return pd.Index(values)
    listed: Sequence[Any] = values.tolist()
    if empty_is_null:
        listed = [None if value == "" else value for value in listed]
    return pd.Index(listed, tupleize_cols=False)


def _label_column(codes: npt.NDArray[np.signedinteger], scale: Scale, rows: _Rows) -> Any:
    answered = codes >= 0
    if scale.kind == "continuous":
        return np.where(answered, rows.values("score"), np.nan)
    return _category_column(np.where(answered, codes, -1), scale.categories)


def _category_column(codes: npt.NDArray[Any], categories: Sequence[Category]) -> Any:
    """Category per code, null where the code is -1; integers and booleans stay what they are."""
    holes = bool((codes < 0).any())
    kinds = {type(category) for category in categories}
    if kinds == {str}:
        return pd.Index([*categories, None]).take(codes)
    if kinds in ({int}, {bool}):
        values = np.array(categories)[np.maximum(codes, 0)]
        if not holes:
            return values
        column: Any = pd.array(values, dtype=pd.Int64Dtype() if kinds == {int} else pd.BooleanDtype())
        column[codes < 0] = pd.NA
        return column
    if kinds <= {int, float}:
        return np.append(np.array(categories, dtype=np.float64), np.nan)[codes]
    mixed = np.empty(len(categories) + 1, dtype=object)
    mixed[:-1] = categories
    return mixed[codes]

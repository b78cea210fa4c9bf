"""A judge dataset as a tidy long frame."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from xjudge._ids import DIMS
from xjudge._lazy_frames import frame_of
from xjudge._sparse import answer_problems, check_within
from xjudge.codes import MISSING, OUTCOMES, to_codes
from xjudge.errors import StructureError, VocabularyError, listing
from xjudge.lazy import materialise
from xjudge.scale import Category, Scale
from xjudge.view import as_dataset

__all__ = ["to_long"]

_FIRST: Final = ("role", "identity")
_CELLS: Final = 1 << 20
_CODES: Final = tuple(f"{dim}_code" for dim in DIMS)

Positions = dict[str, npt.NDArray[np.intp]]


def to_long(ds: xr.Dataset | xr.DataArray, *, missing: bool = False, lazy: bool = False) -> Any:
    """Tidy frame of a judge dataset: one row per label, its outcome in words.

    Parameters
    ----------
    ds : Dataset or DataArray
        A judge dataset in either layout.
    missing : bool
        Whether labels that were never asked for get a row too (dense layout).
    lazy : bool
        Whether to return a dask dataframe, with one partition for each chunk of items (or of answers).

    Returns
    -------
    pandas.DataFrame or dask.dataframe.DataFrame
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
        Codes that the scale does not have; of a lazy frame when it is computed.
    DependencyError
        ``lazy=True`` without dask's dataframes (extra ``io``).

    Notes
    -----
    Lazy data are computed once, and the frame holds a row for every label, about 50 bytes and more: 1e8
    labels take several GB. With ``lazy=True`` nothing is computed but the coordinates, and nothing ever holds
    more than the rows of the chunks at work: ``to_long(ds, lazy=True).to_parquet(folder)``. Integer and
    boolean labels are nullable then, whether or not they have holes.

    Read back with ``from_long(frame, status="status", role="role", scale=scale)``: after ``missing=True``
    the dataset is the same; without, as long as every rater and criterion comes up in the same order.

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
    if sparse and (problems := answer_problems(data)):
        raise StructureError(" ".join(problems))
    if sparse and missing:
        raise StructureError(
            "The sparse layout lists what was asked alone; `missing=True` needs the dense one."
        )
    if lazy:
        return _lazy_frame(data, scale, sparse, missing)
    return _frame(_in_memory(data), scale, sparse, missing, nullable=False)


def _frame(
    variables: Mapping[str, xr.Variable], scale: Scale, sparse: bool, missing: bool, nullable: bool
) -> pd.DataFrame:
    """Rows of the labels, or of one block of them."""
    codes, positions = (_sparse_rows if sparse else _dense_rows)(variables, missing)
    _check_codes(codes, scale)
    frame: dict[str, Any] = {}
    for dim, at in positions.items():
        frame[dim] = _column(_ids(variables, dim)).take(at)
    rows = _Rows(variables, positions, sparse)
    frame["label"] = _label_column(codes, scale, rows, nullable)
    frame["status"] = pd.Index(["answered", *OUTCOMES]).take(np.where(codes >= 0, 0, -codes.astype(np.intp)))
    further = [str(name) for name in variables if name not in {*positions, "label", "score", "prob", *_CODES}]
    for name in sorted(further, key=lambda name: name not in _FIRST):
        held = variables[name]
        if name == "identity" and set(held.values.tolist()) <= {"named"}:
            continue
        if held.dims and set(map(str, held.dims)) <= {*positions, *(["answer"] if sparse else [])}:
            frame[name] = rows.values(name)
    if "prob" in variables:
        for place, category in enumerate(_ids(variables, "category")):
            frame[f"prob_{category}"] = rows.values("prob", place)
    return pd.DataFrame(frame)


# ----------------------------------------------------------------------------------------- block by block


def _lazy_frame(data: xr.Dataset, scale: Scale, sparse: bool, missing: bool) -> Any:
    """Lazy frame with a partition for each chunk of the labels along items or answers."""
    along = "answer" if sparse else "item"
    if not sparse and along not in data.coords:
        data = data.assign_coords({along: np.arange(data.sizes[along])})
    moving = {str(name): held for name, held in data.variables.items() if along in held.dims}
    beside = data.drop_vars(list(moving))
    shared = {name: (held.dims, held.values) for name, held in _in_memory(beside).items()}
    dims = {name: moving[name].dims if name in moving else None for name in map(str, data.variables)}
    label = data["label"]
    sizes = label.chunksizes.get(along) or _sizes(label, along)
    ends = np.cumsum([0, *sizes]).tolist()

    def pieces(start: int, stop: int) -> list[Any]:
        return [held.isel({along: slice(start, stop)}).data for held in moving.values()]

    block = _Block(shared, dims, scale, sparse, missing)
    nothing = block(*(np.empty(array.shape, dtype=array.dtype) for array in pieces(0, 0)))
    return frame_of(block, [pieces(start, stop) for start, stop in itertools.pairwise(ends)], nothing)


def _sizes(label: xr.DataArray, along: str) -> list[int]:
    """Blocks of labels in memory."""
    n = label.sizes[along]
    step = max(_CELLS * n // max(label.size, 1), 1)
    return [min(step, n - start) for start in range(0, n, step)] or [0]


@dataclass(frozen=True)
class _Block:
    """Makes the rows of one block.

    Parameters
    ----------
    shared : dict of name to (dims, values)
        Variables that all blocks have in common.
    dims : dict of name to dims
        Of all variables in their order; ``None`` for those in common.
    scale, sparse, missing
    """

    shared: Mapping[str, tuple[Any, Any]]
    dims: Mapping[str, Any]
    scale: Scale
    sparse: bool
    missing: bool

    def __call__(self, *arrays: Any) -> pd.DataFrame:
        here = iter(arrays)
        held = {
            name: xr.Variable(*self.shared[name]) if dims is None else xr.Variable(dims, next(here))
            for name, dims in self.dims.items()
        }
        return _frame(held, self.scale, self.sparse, self.missing, nullable=True)


class _Rows:
    """Values of a variable at the rows of the frame."""

    def __init__(self, variables: Mapping[str, xr.Variable], positions: Positions, sparse: bool) -> None:
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
    variables: Mapping[str, xr.Variable], missing: bool
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
    variables: Mapping[str, xr.Variable], missing: bool
) -> tuple[npt.NDArray[np.signedinteger], Positions]:
    dims = [dim for dim in DIMS if f"{dim}_code" in variables]
    positions = {dim: variables[f"{dim}_code"].values.astype(np.intp) for dim in dims}
    for dim, at in positions.items():
        check_within(dim, at, 0, variables[dim].size if dim in variables else int(at.max(initial=-1)) + 1)
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


def _ids(variables: Mapping[str, xr.Variable], dim: str) -> npt.NDArray[Any]:
    if dim in variables:
        return variables[dim].values
    return np.arange(next(held.sizes[dim] for held in variables.values() if dim in held.dims))


def _column(values: npt.NDArray[Any], *, empty_is_null: bool = False) -> pd.Index[Any]:
    """Values with the dtype that pandas gives them: text as text, whatever array held it."""
    if values.dtype.kind in "iufbMm":
        return pd.Index(values)
    listed: Sequence[Any] = values.tolist()
    if empty_is_null:
        listed = [None if value == "" else value for value in listed]
    if all(value is None or isinstance(value, str) for value in listed):
        return pd.Index(listed, dtype=pd.Series(["text"]).dtype)
    return pd.Index(listed, tupleize_cols=False)


def _label_column(codes: npt.NDArray[np.signedinteger], scale: Scale, rows: _Rows, nullable: bool) -> Any:
    answered = codes >= 0
    if scale.kind == "continuous":
        return np.where(answered, rows.values("score"), np.nan)
    return _category_column(np.where(answered, codes, -1), scale.categories, nullable)


def _category_column(codes: npt.NDArray[Any], categories: Sequence[Category], nullable: bool) -> Any:
    """Category per code, null where the code is -1; without holes, integers and booleans stay plain ones."""
    holes = nullable or bool((codes < 0).any())
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

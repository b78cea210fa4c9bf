"""Structure of long tables and of judge datasets, checked by pandera; the only room that imports it.

Pandera collects what is wrong; its errors are told in sentences of ours, all of them in one
:class:`~xjudge.errors.StructureError`. Values are not looked at here: the vocabulary of a table is matched
by the builder, and that of a dataset by the counting pass.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from xjudge.errors import StructureError, listing
from xjudge.scale import Scale

__all__ = [
    "Nulls",
    "check_dataset",
    "check_long",
    "column_names",
    "column_problems",
    "frame_problems",
    "long_problems",
    "named_columns",
    "row_listing",
]

Nulls = Mapping[Hashable, tuple[int, int, Sequence[int]]]
"""Per id column with nulls, where the frame at hand is a part of a larger one: how many nulls the whole
column has, how many rows, and the first rows of them."""

_SHOWN_ROWS = 3
_ID_KINDS = {
    **dict.fromkeys(["string", "empty"], "text"),
    **dict.fromkeys(["integer", "floating", "mixed-integer-float", "decimal"], "number"),
    "boolean": "boolean",
    **dict.fromkeys(["datetime64", "datetime", "date"], "time"),
}


def check_long(
    df: pd.DataFrame,
    *,
    item: Hashable | Sequence[Hashable] = "item",
    rater: Hashable | Sequence[Hashable] = "rater",
    criterion: Hashable | Sequence[Hashable] | None = None,
    label: Hashable = "label",
    replicate: Hashable | None = None,
) -> pd.DataFrame:
    """Check the structure of a long table: its columns exist, and its ids can be ids.

    Parameters
    ----------
    df : pandas.DataFrame
        One row per label. Index levels count as columns.
    item, rater, criterion : column name or list of column names
        Where the ids stand; several columns make one compound id.
    label, replicate : column name

    Returns
    -------
    pandas.DataFrame
        The frame itself.

    Raises
    ------
    StructureError
        Every problem found, in one message: no rows, repeated or missing columns, ids that are null, of
        two types, infinite, or containers.

    Notes
    -----
    Cost: one look at each id column; labels are not read.

    Examples
    --------
    >>> frame = pd.DataFrame({"item": ["a", "b"], "rater": ["ann", "ann"], "label": [1, 0]})
    >>> check_long(frame) is frame
    True
    """
    problems = frame_problems(df)
    if not problems:
        ids = {"item": item, "rater": rater, "criterion": criterion, "replicate": replicate}
        named = {argument: name for argument, name in ids.items() if name is not None}
        found = long_problems(df, ids=named, others={"label": label})
        problems = [sentence for sentences in found.values() for sentence in sentences]
    if problems:
        raise StructureError(" ".join(problems))
    return df


def frame_problems(df: pd.DataFrame) -> list[str]:
    """Return what makes a frame unreadable as a whole: column levels, repeated names, no rows."""
    problems = column_problems(df.columns)
    return problems if problems or len(df) else ["The frame has no rows, so there are no labels to read."]


def column_problems(columns: pd.Index[Any]) -> list[str]:
    """Return what makes columns unreadable as a whole: several levels, repeated names."""
    if columns.nlevels > 1:
        return [
            "The columns have several levels; give them one, e.g. "
            '`df.columns = ["_".join(map(str, name)) for name in df.columns]`.'
        ]
    repeated = columns[columns.duplicated()].unique().tolist()
    if repeated:
        return [f"Column names are repeated: {listing(repeated)}. Give each column a name of its own."]
    return []


def long_problems(
    df: pd.DataFrame, *, ids: Mapping[str, Any], others: Mapping[str, Any], nulls: Nulls | None = None
) -> dict[Hashable, list[str]]:
    """Return the problems of the columns that are named, per column.

    Parameters
    ----------
    df : pandas.DataFrame
        With at least one row and distinct column names.
    ids : mapping of argument to column name or list of column names
        Columns that hold ids.
    others : mapping of argument to column name
        Columns that only have to exist.
    nulls : mapping, optional
        The nulls of the whole table, where ``df`` is a part of it.
    """
    import pandera.pandas as pa
    from pandera.errors import SchemaErrors

    roles: dict[Hashable, str] = {}
    for argument, names in [*ids.items(), *others.items()]:
        for name in column_names(names):
            roles.setdefault(name, argument)
    id_columns = {name for names in ids.values() for name in column_names(names)}
    looked_at = named_columns(df, roles)
    one_kind = pa.Check(lambda series: not _kind_problem(series), name="ids", ignore_na=False)
    schema = pa.DataFrameSchema(
        {
            name: pa.Column(nullable=False, checks=one_kind)
            if name in id_columns
            else pa.Column(nullable=True)
            for name in roles
        }
    )
    problems: dict[Hashable, list[str]] = {}
    try:
        with warnings.catch_warnings():  # of pandera about how it collects failures
            warnings.simplefilter("ignore", FutureWarning)
            schema.validate(looked_at, lazy=True, inplace=True)
    except SchemaErrors as error:
        for failure in error.schema_errors:
            absent = failure.reason_code.name == "COLUMN_NOT_IN_DATAFRAME"
            name = failure.failure_cases if absent else failure.schema.name
            sentence = _long_sentence(df, looked_at, name, roles, failure.reason_code.name, nulls)
            if sentence not in problems.setdefault(name, []):
                problems[name].append(sentence)
    return problems


def column_names(names: Any) -> tuple[Hashable, ...]:
    """One column name or a list of them, as a tuple."""
    return tuple(names) if isinstance(names, (list, tuple)) else (names,)


def named_columns(df: pd.DataFrame, names: Mapping[Hashable, Any]) -> pd.DataFrame:
    """Those of the named columns that exist, index levels included, on a plain index."""
    columns = [name for name in names if name in df.columns]
    frame = df[columns].reset_index(drop=True)
    for name in names:
        if name not in df.columns and name in df.index.names:
            level = df.index.get_level_values(df.index.names.index(name))
            frame[name] = pd.Series(level, name=name).reset_index(drop=True)
    return frame


def row_listing(rows: Iterable[Any], total: int) -> str:
    """The first row numbers of several, where not all of them may be at hand, and how many more there are."""
    shown = list(rows)[:_SHOWN_ROWS]
    return listing([*shown, *[""] * (total - len(shown))], show="str")


def _long_sentence(
    df: pd.DataFrame,
    looked_at: pd.DataFrame,
    name: Hashable,
    roles: Mapping[Hashable, str],
    code: str,
    nulls: Nulls | None,
) -> str:
    if code == "COLUMN_NOT_IN_DATAFRAME":
        known = [*df.columns, *(level for level in df.index.names if level is not None)]
        near = difflib.get_close_matches(str(name), [str(other) for other in known], n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        return f"`{roles[name]}`: there is no column {name!r}; the frame has {listing(known, most=12)}.{hint}"
    series = looked_at[name]
    if code == "SERIES_CONTAINS_NULLS":
        null = series.isna().to_numpy()
        rows: Sequence[int] = null.nonzero()[0].tolist()
        total, length = len(rows), len(null)
        if nulls is not None:
            total, length, rows = nulls[name]
        return (
            f"Column {name!r} ({roles[name]}) has no id in {total} of {length} rows: row "
            f"{row_listing(rows, total)} (counted from 0). Fill the ids or drop those rows."
        )
    return f"Column {name!r} ({roles[name]}) {_kind_problem(series)}"


def _kind_problem(series: pd.Series[Any]) -> str:
    """Why the values of a column cannot be ids; empty where they can. Nulls are not looked at."""
    convert = f"e.g. `df[{series.name!r}].astype(str)`"
    if isinstance(series.dtype, pd.CategoricalDtype):
        series = pd.Series(series.cat.remove_unused_categories().cat.categories)
    if isinstance(series.dtype, pd.StringDtype) or series.dtype.kind in "iubUM":
        return ""
    if series.dtype.kind == "f":
        infinite = series.isin([float("inf"), float("-inf")]).any()
        return "holds infinite numbers, which cannot be ids." if infinite else ""
    values = series.dropna().to_numpy(dtype=object)
    kind = pd.api.types.infer_dtype(values)
    if kind in _ID_KINDS:
        return ""
    samples = {type(value).__name__: value for value in values[::-1]}
    first = next(iter(reversed(samples.values())), None)
    plain = (str, int, float)
    if kind.startswith("mixed") and all(isinstance(value, plain) for value in samples.values()):
        mixed = listing(reversed(samples.values()))
        return f"mixes ids of different types, {mixed}. Make them one type, {convert}."
    return (
        f"holds values of type {type(first).__name__}, which cannot be ids; use text or numbers, {convert}."
    )


# -------------------------------------------------------------------------------------------------- datasets

_WORDS = {"role": ("human", "judge"), "identity": ("named", "positional", "file", "unknown")}
_FILL = (
    'After a join, `where` or reindex pass `fill_value={"label": -1}`; to build codes from raw labels use '
    "xj.from_long."
)


def check_dataset(ds: xr.Dataset) -> xr.Dataset:
    """Check the structure of a judge dataset: dims, dtypes, coordinates and attributes.

    Values of labels are not looked at (the counting pass does that), and no lazy labels are computed.

    Parameters
    ----------
    ds : Dataset
        With ``label(item, rater[, criterion][, ...])``, or in the sparse layout ``label(answer)``.

    Returns
    -------
    Dataset
        The dataset itself.

    Raises
    ------
    StructureError
        Every problem found, in one message.

    Notes
    -----
    Labels are signed or unsigned integers, or integral floats with NaN as missing (what ``where`` and outer
    joins leave behind). Cost: independent of the number of labels, but for the uniqueness of the item ids;
    labels held as floats in memory are looked at once, as are the codes of a sparse layout.

    Examples
    --------
    >>> ds = xr.Dataset(
    ...     {"label": (("item", "rater"), [[0, 1]], Scale.binary("no", "yes").to_attrs())},
    ...     coords={"item": ["a"], "rater": ["ann", "gpt"], "role": ("rater", ["human", "judge"])},
    ... )
    >>> check_dataset(ds) is ds
    True
    """
    problems = _dataset_problems(ds)
    if problems:
        raise StructureError(" ".join(dict.fromkeys(problems)))
    return ds


def _dataset_problems(ds: xr.Dataset) -> list[str]:
    from pandera.errors import SchemaErrors

    if "label" not in ds.variables:
        there = listing(list(ds.data_vars), most=9) or "none"
        return [
            f"The dataset has no variable `label`; it has {there}. Build a judge dataset with "
            "xj.from_long(df, ...)."
        ]
    label = ds["label"]
    problems: list[str] = []
    scale: Scale | None = None
    try:
        scale = Scale.from_attrs(label.attrs)
    except (StructureError, ValueError) as error:
        problems.append(str(error))
    sparse = "answer" in label.dims
    data = ds.reset_coords("label") if "label" in ds.coords else ds
    try:
        _dataset_schema(data, scale, sparse).validate(data, lazy=True)
    except SchemaErrors as error:
        problems += [_dataset_sentence(ds, failure, sparse) for failure in error.schema_errors]
    problems += _id_problems(ds) + _word_problems(ds)
    problems += _sparse_problems(ds) if sparse else _float_problems(label)
    return problems + _category_problems(ds, scale)


def _dataset_schema(ds: xr.Dataset, scale: Scale | None, sparse: bool) -> Any:
    """Pandera's schema for the dims, dtypes and presence of everything the data model names."""
    import pandera.xarray as px

    label = ds["label"]
    needed = ("answer",) if sparse else ("item", "rater")
    dims = (*needed, *(str(dim) for dim in label.dims if dim not in needed))

    def variable(kinds: str, dtype: Any, dims: tuple[str, ...], name: str, required: bool = True) -> Any:
        have = ds[name].dtype if name in ds.variables else None
        wanted = have if have is not None and have.kind in kinds else np.dtype(dtype)
        return px.DataVar(dtype=wanted, dims=dims, ordered_dims=False, nullable=True, required=required)

    variables = {"label": variable("iuf", np.int8, dims, "label")}
    if scale is not None and scale.kind == "continuous":
        variables["score"] = variable("f", np.float64, dims, "score")
    for name, extra in (("confidence", ()), ("prob", ("category",))):
        variables[name] = variable("f", np.float64, (*dims, *extra), name, required=False)
    if "count" in ds.data_vars:
        within = [dim for dim in ("criterion",) if dim in ds["count"].dims]
        variables["count"] = variable("iuf", np.int64, ("item", *within, "category"), "count")
    coords = {name: px.Coordinate(nullable=True) for name in ("item", "rater")}
    if "criterion" in label.dims:
        coords["criterion"] = px.Coordinate(nullable=True)
    coords["role"] = px.Coordinate(dims=("rater",), nullable=True)
    coords["identity"] = px.Coordinate(dims=("rater",), nullable=True, required=False)
    if not sparse:
        return px.DatasetSchema(data_vars=variables, coords=coords)
    for dim in ("item", "rater", *(["criterion"] if "criterion" in ds.dims else [])):
        code = f"{dim}_code"
        held = ds.variables.get(code)
        wanted = held.dtype if held is not None and held.dtype.kind in "iu" else np.dtype(np.int32)
        part = px.Coordinate if code not in ds.data_vars else px.DataVar
        (coords if code not in ds.data_vars else variables)[code] = part(
            dims=("answer",), dtype=wanted, nullable=True
        )
    return px.DatasetSchema(data_vars=variables, coords=coords)


def _dataset_sentence(ds: xr.Dataset, failure: Any, sparse: bool) -> str:
    """One pandera failure as a sentence of ours."""
    code = failure.reason_code.name
    name = failure.failure_cases if code == "COLUMN_NOT_IN_DATAFRAME" else failure.schema.name
    if code == "COLUMN_NOT_IN_DATAFRAME":
        if name == "role":
            return (
                'The dataset has no coordinate `role`: say who is "human" and who is "judge" with '
                '`ds.assign_coords(role=("rater", [...]))`.'
            )
        if name == "score":
            return "A continuous scale keeps its numbers in a variable `score` beside `label`; there is none."
        if name in ("item", "rater", "criterion"):
            return f"The dataset has no coordinate `{name}`: the {name} ids are needed by name."
        return f"The sparse layout needs `{name}(answer)`; there is none."
    variable = ds.variables[name]
    if code == "WRONG_DATATYPE":
        kinds = {"label": "integer codes", "count": "numbers", "score": "floats", "prob": "floats"}
        told = kinds.get(name, "floats" if name == "confidence" else "integers")
        end = f" {_FILL}" if name == "label" else ""
        return f"`{name}` holds {variable.dtype}, not {told}.{end}"
    if code == "MISMATCH_INDEX":
        have = f"({', '.join(map(str, variable.dims))})"
        if name == "label":
            need = "answer" if sparse else "item and rater"
            return f"`label` lives on {have}; it needs {need}."
        if name in ("role", "identity"):
            return f"The coordinate `{name}` lives on {have}; it belongs on `rater`."
        dims = ", ".join(map(str, ds["label"].dims))
        return f"`{name}` lives on {have}, which does not go with `label` on ({dims})."
    return f"`{name}`: {failure}"


def _in_memory(variable: Any) -> bool:
    return not hasattr(variable.data, "dask")


def _small(variable: Any) -> Any:
    """Values of a coordinate of names, read in the calling thread where chunking made it lazy."""
    data = variable.data
    return np.asarray(data if _in_memory(variable) else data.compute(scheduler="synchronous"))


def _id_problems(ds: xr.Dataset) -> list[str]:
    problems = []
    for dim in ("item", "rater", "criterion"):
        if dim in ds.indexes and not ds.indexes[dim].is_unique:
            index = ds.indexes[dim]
            repeated = index[index.duplicated()].unique().tolist()
            problems.append(f"Ids are repeated along `{dim}`: {listing(repeated)}; each stands once.")
    return problems


def _word_problems(ds: xr.Dataset) -> list[str]:
    problems = []
    for name, words in _WORDS.items():
        if name not in ds.variables or ds[name].dims != ("rater",):
            continue
        raters = ds["rater"].values if "rater" in ds.coords else np.arange(ds.sizes["rater"])
        told = zip(raters.tolist(), _small(ds[name]).tolist(), strict=True)
        wrong = [f"{rater!r}: {word!r}" for rater, word in told if word not in words]
        if wrong:
            allowed = " or ".join(f'"{word}"' for word in words)
            problems.append(f"The coordinate `{name}` is {allowed}; not so for {listing(wrong, show='str')}.")
    return problems


def _float_problems(label: xr.DataArray) -> list[str]:
    if label.dtype.kind != "f" or not _in_memory(label):
        return []
    values = label.values
    strange = values[~np.isnan(values) & (values != np.rint(values))]
    strange = np.append(strange, values[np.isinf(values)])
    if not strange.size:
        return []
    return [f"`label` holds floats that are no codes, e.g. {listing(strange.tolist())}. {_FILL}"]


def _sparse_problems(ds: xr.Dataset) -> list[str]:
    problems = []
    for dim in ("item", "rater", "criterion"):
        code = ds.variables.get(f"{dim}_code")
        if code is None or dim not in ds.sizes or code.dtype.kind not in "iu" or not _in_memory(code):
            continue
        values = code.values
        if values.size and (values.min() < 0 or values.max() >= ds.sizes[dim]):
            problems.append(
                f"`{dim}_code` points outside the table of {ds.sizes[dim]} ids along `{dim}`: it goes from "
                f"{values.min()} to {values.max()}."
            )
        if dim == "item" and (np.diff(values) < 0).any():
            problems.append('The answers are not sorted by item: use `ds.sortby("item_code")`.')
    return problems


def _category_problems(ds: xr.Dataset, scale: Scale | None) -> list[str]:
    if "category" not in ds.dims or scale is None or scale.kind == "continuous":
        return []
    if "category" not in ds.coords:
        return ["The dim `category` has no coordinate that names the categories."]
    have = ds["category"].values.tolist()
    if list(map(str, have)) == list(map(str, scale.categories)):
        return []
    return [f"The coordinate `category` is {listing(have, most=6)}, and the scale is {scale!r}."]

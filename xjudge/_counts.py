"""Anonymous label counts: how many of an item's raters chose each category, and nobody's name."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from xjudge._assemble import category_values, id_coords
from xjudge._covariates import covariates
from xjudge._ids import Ids
from xjudge._infer import infer_scale
from xjudge._ingest import NULL, Problems, encode, plain, read_frame, text_array
from xjudge._labels import UNKNOWN, Declared, Vocabulary, declare
from xjudge._table import Table
from xjudge._unknown import Strange, unknown_problem
from xjudge.codes import MISSING
from xjudge.errors import DroppedWarning, ProtocolWarning, listing, warn
from xjudge.scale import Scale
from xjudge.schema import column_names

__all__ = ["from_counts"]


def from_counts(
    counts: Any,
    *,
    item: Hashable | Sequence[Hashable] = "item",
    criterion: Hashable | Sequence[Hashable] | None = None,
    category: Hashable | None = None,
    count: Hashable = "count",
    scale: Scale | None = None,
    normalise: str | Sequence[str] = (),
) -> xr.Dataset:
    """Judge dataset from anonymous label counts; identified raters are joined later.

    Parameters
    ----------
    counts : DataFrame
        pandas, polars, or anything with an Arrow stream: a row per item (and criterion) with a column of
        counts for each category, or, with ``category``, a row per item and category.
    item, criterion : column name or list of column names
    category, count : column name, optional
        Columns of the second form.
    scale : Scale, optional
        Categories; a column belongs to the category whose text is its name. ``None`` infers them from the
        numeric columns that are no ids.
    normalise : {"strip", "casefold", "nfc", "bool_text"} or list of these
        Steps for the categories of the second form.

    Returns
    -------
    Dataset
        ``count(item[, criterion], category)``, int64, and a ``label`` without raters that carries the
        scale; raters come by :func:`join`. Nulls and absent rows count 0. Further columns are coordinates
        as in :func:`from_long`.

    Raises
    ------
    StructureError
        Missing columns, repeated items, counts that are negative or not whole: all in one message.
    VocabularyError
        Categories that the scale does not have.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"item": ["a", "b"], "no": [3, 0], "yes": [1, 5]})
    >>> from_counts(frame)["count"].values
    array([[3, 1],
           [0, 5]])
    """
    problems = Problems()
    frame = read_frame(counts)
    if scale is not None and getattr(scale, "kind", "continuous") == "continuous":
        problems.add(f"`scale` is an xj.Scale with categories; got {scale!r}.")
        problems.fail()
    declared = declare((), (), (), normalise, problems)
    ids = {"item": item} | ({} if criterion is None else {"criterion": criterion})
    if category is None:
        read = _by_column(frame, ids, scale, declared, problems)
    else:
        read = _by_row(frame, ids, category, count, scale, declared, problems)
    numbers = _numbers(read.table, read.columns, problems)
    if read.scale is None or not read.table.complete:
        problems.fail()
    problems.raise_if_any()

    along = read.table.ids
    shape = (*(len(one) for one in along.values()), read.scale.n_categories)
    rows = np.zeros(len(frame), dtype=np.int64)
    for one in along.values():
        rows = rows * len(one) + one.codes
    cells = (rows[:, None] * shape[-1] + read.codes).ravel()
    _check_repeated(read.table, cells, read.scale, problems)
    problems.raise_if_any()
    cube = np.zeros(math.prod(shape), dtype=np.int64)
    cube[cells] = numbers.ravel()
    further = [name for name in frame.columns if name not in read.table.used]
    placed, dropped = covariates(frame, further, along)
    ds = _dataset(cube.reshape(shape), along, read.scale).assign_coords(placed)
    ds.attrs = {
        "source": "counts",
        "columns": json.dumps(read.table.arguments, ensure_ascii=False, default=str),
        "normalise": ",".join(declared.steps),
        "rows_read": len(frame),
        "count_total": int(numbers.sum()),
    }
    if read.warning:
        warn(read.warning, ProtocolWarning)
    if dropped:
        warn(f"Left out while reading. {' '.join(dropped)}", DroppedWarning)
    return ds


@dataclass(frozen=True)
class _Read:
    """What was read: the category of each number, by column or by row, and where the numbers stand."""

    table: Table
    scale: Scale | None
    codes: npt.NDArray[np.int64]  # one row of codes for all rows of the frame, or one code per row
    columns: list[Hashable]
    warning: str


def _by_column(
    frame: pd.DataFrame, ids: dict[str, Any], scale: Scale | None, declared: Declared, problems: Problems
) -> _Read:
    """One column of counts for each category."""
    held = {name for names in ids.values() for name in column_names(names)}
    scale, places, warning = _category_columns(frame, held, scale, declared, problems)
    table = Table(frame, ids, {"count": list(places)}, problems)
    return _Read(table, scale, np.array([list(places.values())], dtype=np.int64), list(places), warning)


def _by_row(
    frame: pd.DataFrame,
    ids: dict[str, Any],
    category: Hashable,
    count: Hashable,
    scale: Scale | None,
    declared: Declared,
    problems: Problems,
) -> _Read:
    """One row for each item and category."""
    table = Table(frame, ids, {"category": category, "count": count}, problems)
    scale, codes, warning = _category_column(table, scale, declared, problems)
    return _Read(table, scale, codes[:, None], [count], warning)


def _dataset(cube: npt.NDArray[np.int64], ids: Mapping[str, Ids], scale: Scale) -> xr.Dataset:
    dims = tuple(ids)
    nobody = (*cube.shape[:1], 0, *cube.shape[1:-1])
    coords = id_coords(ids) | {"category": category_values(scale)}
    coords |= {"rater": text_array([])} | {name: ("rater", text_array([])) for name in ("role", "identity")}
    return xr.Dataset(
        {
            "label": (
                ("item", "rater", *dims[1:]),
                np.full(nobody, MISSING, dtype=scale.dtype),
                scale.to_attrs(),
            ),
            "count": ((*dims, "category"), cube),
        },
        coords=coords,
    )


def _category_columns(
    frame: pd.DataFrame, held: set[Hashable], scale: Scale | None, declared: Declared, problems: Problems
) -> tuple[Scale | None, dict[Hashable, int], str]:
    """The columns that count a category, each with its code."""
    free = [name for name in frame.columns if name not in held]
    numeric = [name for name in free if pd.api.types.is_numeric_dtype(frame[name].dtype)]
    warning = ""
    if scale is None:
        names = pd.Series([*numeric, None], dtype=object)[:-1]
        scale, warning = infer_scale([encode(names)], declared, problems)
        if scale is None or scale.kind == "continuous":
            hint = " For a row per item and category, say `category=`." if len(numeric) < 2 else ""
            problems.add(f"The numeric columns {listing(numeric)} do not name the categories.{hint}")
            return None, {}, ""
    places: dict[Hashable, int] = {}
    absent = []
    for code, value in enumerate(scale.categories):
        exact = [name for name in free if scale.find(name) == code]
        found = exact or [name for name in free if str(name) == str(value)]
        if found:
            places[found[0]] = code
        else:
            absent.append(value)
    if absent:
        problems.add(
            f"No column counts {listing(absent)} of {scale!r}; the frame has "
            f"{listing(frame.columns, most=12)}."
        )
    return scale, places, warning


def _category_column(
    table: Table, scale: Scale | None, declared: Declared, problems: Problems
) -> tuple[Scale | None, npt.NDArray[np.int64], str]:
    """Code of the category of each row, from a column of categories."""
    column = table.encoded("category")
    none = np.zeros(0, dtype=np.int64)
    if column is None:
        return None, none, ""
    null = column.codes == NULL
    if null.any():
        rows = listing(np.flatnonzero(null), show="str")
        problems.add(f"The category is null in {int(null.sum())} rows: row {rows} (counted from 0).")
    warning = ""
    if scale is None:
        scale, warning = infer_scale([column], declared, problems)
        if scale is None:
            return None, none, ""
    vocabulary = Vocabulary(scale, declared, problems)
    targets = vocabulary.match(column)
    strange = np.flatnonzero(targets[:-1] == UNKNOWN)
    if strange.size:
        sizes = np.bincount(column.codes[~null], minlength=len(column.values))[strange].tolist()
        row = int(np.argmax(np.isin(column.codes, strange)))
        values = [plain(column.values[code]) for code in strange]
        unknown = Strange(values, sizes, sum(sizes), len(values), row)
        problems.vocabulary.append(unknown_problem(unknown, vocabulary, f"row {row}"))
    return scale, targets[column.codes], warning


def _numbers(table: Table, names: Sequence[Hashable], problems: Problems) -> npt.NDArray[np.int64]:
    """Counts, rows x columns; nulls are 0."""
    read = [table.numbers("count", name) for name in names]
    columns = [column for column in read if column is not None]
    if len(columns) < max(len(names), 1):
        return np.zeros((0, 0), dtype=np.int64)
    values = np.stack(columns, axis=1)
    values = np.where(np.isnan(values), 0.0, values)
    wrong = ~((values >= 0) & (values == np.rint(values)) & np.isfinite(values))
    if wrong.any():
        shown = [f"{values[row, at]:g} (row {row}, {names[at]!r})" for row, at in np.argwhere(wrong).tolist()]
        problems.add(f"Counts are whole and not negative; got {listing(shown, show='str')}.")
        return np.zeros((0, 0), dtype=np.int64)
    return np.rint(values).astype(np.int64)


def _check_repeated(table: Table, cells: npt.NDArray[np.int64], scale: Scale, problems: Problems) -> None:
    """One row per item, criterion and category."""
    repeated = pd.Index(cells).duplicated()
    if not repeated.any():
        return
    shown = []
    for cell in pd.unique(cells[repeated])[:3]:
        place, code = divmod(int(cell), scale.n_categories)
        parts = [f"category {scale.categories[code]!r}"]
        for dim, one in reversed(table.ids.items()):
            place, at = divmod(place, len(one))
            parts.insert(0, f"{dim} {plain(one.values[at])!r}")
        shown.append(", ".join(parts))
    problems.add(
        f"{int(repeated.sum())} counts repeat a cell: {'; '.join(shown)}. Add them up first, e.g. "
        "`df.groupby(...).sum()`."
    )

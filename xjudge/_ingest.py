"""Read any frame into columns of codes: the ground of every builder.

A column becomes integer codes into its distinct values, in order of first appearance and whatever its
dtype, so that the same labels give the same dataset from an object, text, categorical, nullable or
Arrow-backed column. Nulls (``None``, NaN, NaT, ``pd.NA``) have the code -1.
"""

from __future__ import annotations

import datetime
import numbers
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pandas as pd

from xjudge.errors import DependencyError, StructureError, VocabularyError
from xjudge.schema import frame_problems

__all__ = [
    "Encoded",
    "Problems",
    "counted",
    "encode",
    "factorized_pairs",
    "is_null",
    "kind_of",
    "plain",
    "read_frame",
    "shown",
    "text_array",
]

NULL = -1
_LONGEST = 80
_KINDS_OF_OBJECTS = {
    "string": "text",
    "integer": "number",
    "floating": "number",
    "mixed-integer-float": "number",
    "decimal": "number",
    "boolean": "boolean",
    "datetime64": "time",
    "datetime": "time",
    "date": "time",
    "empty": "empty",
}
_KINDS_OF_DTYPES = {"i": "number", "u": "number", "f": "number", "b": "boolean", "U": "text", "M": "time"}


class Problems:
    """Everything that is wrong with an input, so that one error says it all."""

    def __init__(self) -> None:
        self.structure: list[str] = []
        self.vocabulary: list[str] = []

    def __bool__(self) -> bool:
        return bool(self.structure or self.vocabulary)

    def add(self, sentence: str) -> None:
        """Add a problem of structure."""
        if sentence not in self.structure:
            self.structure.append(sentence)

    def raise_if_any(self) -> None:
        """Raise one error that holds every problem."""
        if self:
            self.fail()

    def fail(self) -> NoReturn:
        """Raise what was collected."""
        error = StructureError if self.structure else VocabularyError
        raise error(" ".join([*self.structure, *self.vocabulary]))


@dataclass(frozen=True)
class Encoded:
    """One column as codes into its distinct values.

    Parameters
    ----------
    kind : {"text", "number", "boolean", "time", "mixed", "other", "empty"}
        What the values are, nulls aside; ``"mixed"`` where there are several kinds.
    codes : ndarray of int32 or int64
        Per row the place in ``values``; -1 for a null.
    values : ndarray
        Distinct values in order of first appearance.
    levels : tuple, optional
        All levels of an ordered categorical, in their order.
    """

    kind: str
    codes: npt.NDArray[np.signedinteger]
    values: npt.NDArray[Any]
    levels: tuple[Any, ...] | None = None

    def only(self, rows: npt.NDArray[np.bool_]) -> Encoded:
        """Return the column with nulls in all other rows, and the values that are left."""
        codes, values = _by_appearance(np.where(rows, self.codes, NULL), self.values)
        return Encoded(self.kind, codes, values, self.levels)


def read_frame(df: Any) -> pd.DataFrame:
    """Read pandas frames as they are, and anything with an Arrow stream (polars, pyarrow, ...).

    Raises
    ------
    StructureError
        Not a frame, a dask dataframe, no rows, repeated column names, columns of several levels.
    DependencyError
        An Arrow stream without pyarrow to read it.
    """
    if hasattr(df, "__dask_graph__") and hasattr(df, "columns"):
        raise StructureError(
            "This is a dask dataframe, which only xj.from_long reads part by part; call `.compute()` on it "
            "first."
        )
    if not isinstance(df, pd.DataFrame):
        if not hasattr(df, "__arrow_c_stream__") or isinstance(df, pd.Series):
            raise StructureError(
                f"A frame of labels is needed (pandas, polars or anything with an Arrow stream); got "
                f"{type(df).__name__}."
            )
        df = _from_arrow(df)
    problems = frame_problems(df)
    if problems:
        raise StructureError(" ".join(problems))
    return df


def _from_arrow(df: Any) -> pd.DataFrame:
    try:
        import pyarrow as pa
    except ImportError:
        raise DependencyError(
            f"Reading a frame of type {type(df).__module__}.{type(df).__name__} needs pyarrow: "
            '`pip install "xjudge[io]"`, or hand over `df.to_pandas()`.'
        ) from None
    try:
        table = pa.table(df)
    except (pa.ArrowInvalid, TypeError, ValueError) as error:
        raise StructureError(
            f"A frame with columns is needed, and this {type(df).__name__} is not one: {error}."
        ) from None
    nullable = {
        getattr(pa, f"{sign}int{bits}")(): getattr(pd, f"{sign.upper()}Int{bits}Dtype")()
        for sign in ("", "u")
        for bits in (8, 16, 32, 64)
    }
    series = []
    for column in table.columns:
        if pa.types.is_dictionary(column.type):
            series.append(_from_dictionary(column))
            continue
        mapper = nullable.get if column.null_count else None
        series.append(column.to_pandas(types_mapper=mapper).reset_index(drop=True))
    frame = pd.DataFrame(dict(enumerate(series)))
    frame.columns = pd.Index(table.column_names, dtype=object)
    return frame


def _from_dictionary(column: Any) -> pd.Series[Any]:
    """Read an Arrow dictionary column, of whatever index type, as a categorical."""
    array = column.unify_dictionaries().combine_chunks()
    levels = pd.Index(array.dictionary.to_pandas())
    codes = array.indices.to_pandas()
    codes = codes.fillna(NULL).astype(np.int64)
    if not levels.is_unique or levels.hasnans:
        values = np.append(levels.to_numpy(dtype=object), np.array([None], dtype=object))
        return pd.Series(values[codes.to_numpy()])
    return pd.Series(pd.Categorical.from_codes(codes, levels, ordered=array.type.ordered))


# ------------------------------------------------------------------------------------------------- encoding


def encode(series: pd.Series[Any]) -> Encoded:
    """Codes into the distinct values of a column, in order of first appearance.

    Raises
    ------
    TypeError
        Where values cannot be compared (lists, dicts, arrays).
    """
    dtype: Any = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return _encode_categorical(series, dtype)
    kind = "U" if isinstance(dtype, pd.StringDtype) else dtype.kind
    if kind == "f":
        floats = series.to_numpy(dtype=np.float32 if dtype.itemsize <= 4 else np.float64, na_value=np.nan)
        codes, uniques = pd.factorize(floats)
        return Encoded("number", _narrow(codes), _shortest(np.asarray(uniques)))
    if kind in _KINDS_OF_DTYPES:
        codes, found = pd.factorize(series)
        return Encoded(_KINDS_OF_DTYPES[kind], _narrow(codes), _plain_uniques(found, kind))
    return _encode_objects(series.to_numpy(dtype=object))


def _encode_categorical(series: pd.Series[Any], dtype: pd.CategoricalDtype) -> Encoded:
    levels = encode(pd.Series(dtype.categories))  # levels are distinct, so they keep their places
    values = levels.values[levels.codes]
    codes, values = _by_appearance(series.cat.codes.to_numpy(), values)
    ordered = tuple(plain(value) for value in levels.values[levels.codes]) if dtype.ordered else None
    kind = levels.kind if levels.kind != "mixed" else _joint_kind(values)
    return Encoded(kind if len(values) else "empty", codes, values, ordered)


def _by_appearance(
    codes: npt.NDArray[Any], values: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.signedinteger], npt.NDArray[Any]]:
    """Codes and values without what does not occur, in order of first appearance."""
    recoded, used = pd.factorize(codes)
    null = used == NULL
    place = np.where(null, NULL, np.cumsum(~null) - 1)
    return _narrow(place[recoded] if len(used) else recoded), values[used[~null]]


def _encode_objects(values: npt.NDArray[np.object_]) -> Encoded:
    inferred = pd.api.types.infer_dtype(values, skipna=True)
    kind = _KINDS_OF_OBJECTS.get(inferred)
    if kind in ("text", "boolean", "number", "empty"):
        codes, found = pd.factorize(values)
        exact = set(map(type, found)) <= {str, int, float, bool}  # the usual case: nothing to make plain
        return Encoded(kind, _narrow(codes), found if exact else _objects([plain(value) for value in found]))
    if kind == "time":
        return encode(pd.to_datetime(pd.Series(values), utc=True))
    # 1, 1.0 and True are one key to a hash table; booleans are set apart, since True is not 1
    is_bool = np.fromiter((isinstance(v, (bool, np.bool_)) for v in values), dtype=bool, count=len(values))
    codes = np.full(len(values), NULL, dtype=np.int64)
    uniques: list[Any] = []
    for part in (~is_bool, is_bool):
        place, distinct = pd.factorize(values[part])
        codes[part] = np.where(place == NULL, NULL, place + len(uniques))
        uniques += [plain(value) for value in distinct]
    codes, array = _by_appearance(codes, _objects(uniques))
    return Encoded(_joint_kind(array), codes, array)


def _plain_uniques(found: Any, kind: str) -> npt.NDArray[Any]:
    if kind == "M":
        times = pd.DatetimeIndex(found)
        return np.asarray(times.tz_convert(None) if times.tz is not None else times, dtype="M8[ns]")
    if kind == "U":
        return np.asarray(found, dtype=object)
    uniques = np.asarray(found.to_numpy() if hasattr(found, "to_numpy") else found)
    return uniques if uniques.dtype != object else _objects([plain(value) for value in uniques])


def _shortest(uniques: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.float64]:
    """Single-precision numbers as the decimals that were written: 0.1, not 0.10000000149."""
    if uniques.dtype == np.float64:
        return uniques.astype(np.float64, copy=False)
    return np.array([float(str(value)) for value in uniques], dtype=np.float64)


def _narrow(codes: npt.NDArray[Any]) -> npt.NDArray[np.signedinteger]:
    return codes.astype(np.int32 if len(codes) < 2**31 else np.int64, copy=False)


def _objects(values: Sequence[Any]) -> npt.NDArray[np.object_]:
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


def _joint_kind(values: Iterable[Any]) -> str:
    kinds = {kind_of(value) for value in values}
    if not kinds:
        return "empty"
    return kinds.pop() if len(kinds) == 1 else "mixed"


def kind_of(value: object) -> str:
    """Kind of one value: ``text``, ``number``, ``boolean``, ``time`` or ``other``."""
    if isinstance(value, (bool, np.bool_)):
        return "boolean"
    if isinstance(value, str):
        return "text"
    if isinstance(value, (numbers.Real, Decimal)):
        return "number"
    if isinstance(value, (datetime.date, np.datetime64)):
        return "time"
    return "other"


def plain(value: Any) -> Any:
    """Return a value as a plain Python object: no numpy scalars, decimals, or subclasses of text and int."""
    if isinstance(value, np.datetime64):
        return pd.Timestamp(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, (numbers.Real, Decimal)) and not isinstance(value, float):
        number = float(value)
        return int(number) if number.is_integer() and int(number) == value else number
    return float(value) if isinstance(value, float) else value


def is_null(value: Any) -> bool:
    """Whether a single value is a null: ``None``, NaN, NaT or ``pd.NA``."""
    return value is None or (pd.api.types.is_scalar(value) and bool(pd.isna(value)))


def factorized_pairs(
    first: npt.NDArray[Any], second: npt.NDArray[Any], n_second: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Codes of pairs in order of first appearance, and the pairs as ``first * n_second + second``."""
    joint = first.astype(np.int64) * max(n_second, 1) + second
    codes, uniques = pd.factorize(joint)
    return codes.astype(np.int64, copy=False), np.asarray(uniques)


def shown(value: Any) -> str:
    """A raw value as it is written, cut where it goes on for long: a judge's whole reasoning, say."""
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 12]}... ({len(text)} characters)"


def counted(n: int, noun: str) -> str:
    """How many of something: ``1 row``, ``2 rows``."""
    return f"{n} {noun}{'s' * (n != 1)}"


def text_array(values: Iterable[str]) -> npt.NDArray[Any]:
    """Text as coordinates hold it: objects, which every store writes; no length at all is fixed width."""
    out = _objects(list(values))
    return out if len(out) else np.array([], dtype="<U1")

"""Rows of a column that show something: where values come up, change, differ or are none of theirs."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from xjudge._ingest import NULL, Encoded, encode
from xjudge._labels import Declared
from xjudge.codes import MISSING

__all__ = [
    "Codes",
    "Rows",
    "as_numbers",
    "changes",
    "contradiction",
    "declared_numbers",
    "encoded_or_none",
    "firsts",
    "missing_labels",
    "not_numbers",
    "of_every_type",
]

Codes = npt.NDArray[np.signedinteger]
Rows = npt.NDArray[np.intp]


def firsts(codes: Codes) -> Rows:
    """First row of every code, of codes that count up in order of first appearance."""
    return changes(np.maximum.accumulate(codes))


def changes(values: npt.NDArray[Any]) -> Rows:
    """Places of the first value and of every value that is not the one before it."""
    return np.flatnonzero(np.append(True, values[1:] != values[:-1])[: len(values)])


def encoded_or_none(series: pd.Series[Any]) -> Encoded | None:
    try:
        return encode(series)
    except (TypeError, pd.errors.OutOfBoundsDatetime):
        return None


def of_every_type(series: pd.Series[Any], encoded: Encoded | None) -> Rows:
    """First and last row of every type of value, and of infinite numbers."""
    if encoded is None:
        types = np.array([_hashable_type(type(value)) for value in series], dtype=object)
        codes = pd.factorize(types)[0]
    elif encoded.kind in ("mixed", "other"):
        types = np.array([_hashable_type(type(value)) for value in encoded.values], dtype=object)
        codes = np.append(pd.factorize(types)[0], NULL)[encoded.codes]
    elif encoded.values.dtype.kind == "f":
        codes = np.append(np.isinf(encoded.values).astype(np.int64), NULL)[encoded.codes]
    else:
        codes = np.minimum(encoded.codes, 0)
    ends = []
    for one in range(int(codes.max(initial=-1)) + 1):
        is_one = codes == one
        if is_one.any():
            ends += [int(np.argmax(is_one)), len(codes) - 1 - int(np.argmax(is_one[::-1]))]
    return np.array(sorted(set(ends)), dtype=np.intp)


def _hashable_type(one: type) -> str:
    return f"{one.__module__}.{one.__qualname__}"


def as_numbers(series: pd.Series[Any]) -> npt.NDArray[np.float64] | None:
    try:
        return series.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        return None


def not_numbers(series: pd.Series[Any]) -> Rows:
    """The first row whose value is no number."""
    for row in range(len(series)):
        if as_numbers(series.iloc[row : row + 1]) is None:
            return np.array([row])
    return np.array([], dtype=np.intp)


def declared_numbers(declared: Declared) -> list[float]:
    return [float(value) for kind, value in declared.codes if kind == "number"]


def missing_labels(label: Encoded, declared: Declared) -> npt.NDArray[np.bool_]:
    """Per distinct label whether it means missing, and then whether a null does."""
    null = declared.codes.get(("null", None), MISSING) == MISSING
    missing = {key for key, code in declared.codes.items() if code == MISSING}
    if not missing or (label.kind == "number" and not {kind for kind, _ in missing} - {"null"}):
        told = np.zeros(len(label.values), dtype=bool)
    else:
        told = np.array([declared.key(value) in missing for value in label.values], dtype=bool)
    return np.append(told, null)


def contradiction(ids: Codes, codes: Codes) -> Rows:
    """Two rows of one id with different values, nulls (code 0) aside; none where every id has one value."""
    there = np.flatnonzero(codes > 0)
    group, value = ids[there], codes[there]
    first = np.zeros(int(ids.max(initial=-1)) + 1, dtype=np.intp)
    first[group[::-1]] = np.arange(len(there))[::-1]
    differs = np.flatnonzero(value != value[first[group]])
    if not len(differs):
        return differs
    return np.sort(there[[first[group[differs[0]]], differs[0]]])

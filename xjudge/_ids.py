"""Ids of items, raters, criteria and replicates: one column or several, checked and made canonical."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from xjudge._ingest import Encoded, Problems, encode, factorized_pairs, plain, text_array
from xjudge.errors import listing
from xjudge.schema import column_names

__all__ = ["DIMS", "RESERVED", "Ids", "fixed_ids", "index_values", "read_ids"]

DIMS = ("item", "rater", "criterion", "replicate")
"""The dims of a label, in their order."""

RESERVED = frozenset(
    [
        *(*DIMS, "answer", "category"),
        *("label", "score", "prob", "confidence", "count", "role", "identity", "status"),
        *("item_code", "rater_code", "criterion_code", "replicate_code"),
    ]
)
"""Names that a judge dataset or its long frame gives a meaning; no covariate may have them."""


@dataclass(frozen=True)
class Ids:
    """The ids along one dim.

    Parameters
    ----------
    dim : str
    codes : ndarray of int
        Per row of the frame, the place in ``values``.
    values : ndarray
        Distinct ids in order of first appearance.
    kind : {"text", "number", "boolean", "time"}
    parts : mapping of str to ndarray
        For compound ids, the columns they were joined from, along ``values``.
    columns : tuple
        The columns that were read.
    """

    dim: str
    codes: npt.NDArray[np.signedinteger]
    values: npt.NDArray[Any]
    kind: str
    parts: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    columns: tuple[Hashable, ...] = ()

    def __len__(self) -> int:
        return len(self.values)

    @property
    def names(self) -> list[Any]:
        """The ids as plain Python objects."""
        return [plain(value) for value in self.values]


def read_ids(looked_at: pd.DataFrame, names: Any, dim: str, problems: Problems) -> Ids | None:
    """Ids from one checked column, or joined with ``|`` from several.

    Parameters
    ----------
    looked_at : pandas.DataFrame
        Columns that :func:`xjudge.schema.long_problems` found fit for ids.
    names : column name or list of column names
    dim : str
    problems : Problems
        Gets a sentence where different parts join to one text; then there are no ids to return.
    """
    columns = column_names(names)
    if not columns:
        problems.add(f"`{dim}` names no column.")
        return None
    parts = [encode(looked_at[name]) for name in columns]
    if len(columns) > 1:
        return _joined(parts, columns, dim, problems)
    values = index_values(parts[0].values, parts[0].kind)
    if parts[0].kind == "number" and values.dtype == object:
        problems.add(
            f"Column {columns[0]!r} ({dim}) holds integers beyond 64 bits; use text, "
            f"`df[{columns[0]!r}].astype(str)`."
        )
        return None
    return Ids(dim, parts[0].codes, values, parts[0].kind, columns=columns)


def fixed_ids(names: Sequence[Any], dim: str, problems: Problems) -> Ids | None:
    """Ids that are given as a list: the column names of a wide frame."""
    encoded = encode(pd.Series(np.array([*names, None], dtype=object)[:-1]))
    if encoded.kind not in ("text", "number") or len(encoded.values) != len(names):
        problems.add(f"The {_PLURALS[dim]} are given as distinct names of one type; got {listing(names)}.")
        return None
    return Ids(dim, encoded.codes, index_values(encoded.values, encoded.kind), encoded.kind)


def index_values(values: npt.NDArray[Any], kind: str) -> npt.NDArray[Any]:
    """Values as a coordinate holds them: text as objects, integral numbers as integers."""
    if kind == "text":
        return text_array(values)
    if kind == "number":
        if values.dtype.kind == "i":
            return values.astype(np.int64)
        exact = values.tolist()
        if all(isinstance(value, int) or float(value).is_integer() for value in exact):
            whole = [int(value) for value in exact]
            for dtype in (np.int64, np.uint64):
                if all(np.iinfo(dtype).min <= value <= np.iinfo(dtype).max for value in whole):
                    return np.array(whole, dtype=dtype)
            return np.array(whole, dtype=object)
        return values.astype(np.float64)
    if kind == "boolean":
        return values.astype(bool)
    return values


_PLURALS = {"item": "items", "rater": "raters", "criterion": "criteria", "replicate": "replicates"}


def _joined(parts: list[Encoded], columns: tuple[Hashable, ...], dim: str, problems: Problems) -> Ids | None:
    """Compound ids: the distinct combinations that occur, their parts joined with ``|``."""
    values = [index_values(part.values, part.kind) for part in parts]
    codes: npt.NDArray[np.signedinteger] = parts[0].codes
    places = [np.arange(len(parts[0].values))]
    for part in parts[1:]:
        codes, pairs = factorized_pairs(codes, part.codes, len(part.values))
        left, right = np.divmod(pairs, max(len(part.values), 1))
        places = [*(place[left] for place in places), right]
    pieces = [value[place] for value, place in zip(values, places, strict=True)]
    names = ["|".join(map(str, row)) for row in zip(*pieces, strict=True)]
    joined = text_array(names)
    doubled = pd.Index(joined).duplicated()
    if doubled.any():
        problems.add(
            f"`{dim}={list(columns)}`: different values join to one id {joined[doubled][0]!r}, because they "
            f"contain '|' themselves. Replace it in the columns, or build one id column."
        )
        return None
    parts_named = {
        (f"{name}_part" if name in RESERVED else str(name)): piece
        for name, piece in zip(columns, pieces, strict=True)
    }
    return Ids(dim, codes, joined, "text", parts_named, columns)

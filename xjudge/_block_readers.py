"""Reads the rows of one block of items of a lazy long table: a partition, or what a shuffle brought together.

Everything here runs within the tasks of a scheduler, and holds what the whole table decided: the ids beside
the items, the scale, where every block begins.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from xjudge._assemble import Decided
from xjudge._from_long import LongColumns
from xjudge._ids import Ids, index_values
from xjudge._ingest import Encoded, Problems, encode, factorized_pairs
from xjudge._reading import Matched, Reading, match
from xjudge._unknown import Strange
from xjudge.errors import StructureError
from xjudge.schema import column_names, named_columns

__all__ = ["Lookup", "PartitionReader", "Regroup", "RegroupedReader", "block_of"]


Codes = npt.NDArray[np.signedinteger]


def changed() -> StructureError:
    """The error about a lazy frame that is another one when it is read again."""
    return StructureError(
        "The lazy frame holds other rows than when the dataset was built of it: its files were changed, or "
        "it is not the same on every reading. Build the dataset again."
    )


@dataclass(frozen=True)
class Lookup:
    """The ids along a dim, to be found in any part of the table.

    Parameters
    ----------
    columns : tuple of column names
    parts : tuple of ndarray
        For every column its values, along the ids.
    """

    columns: tuple[Hashable, ...]
    parts: tuple[npt.NDArray[Any], ...]
    distinct: list[pd.Index[Any]] = field(init=False)
    joint: pd.Index[Any] = field(init=False)

    def __post_init__(self) -> None:
        pairs = [pd.factorize(part) for part in self.parts]
        object.__setattr__(self, "distinct", [pd.Index(values) for _, values in pairs])
        object.__setattr__(self, "joint", pd.Index(self._radix([codes for codes, _ in pairs])))

    @classmethod
    def of(cls, ids: Ids) -> Lookup:
        """Dictionary of the ids along one dim."""
        return cls(ids.columns, tuple(ids.parts.values()) or (ids.values,))

    def _radix(self, codes: Sequence[npt.NDArray[Any]]) -> npt.NDArray[np.int64]:
        total = np.zeros(len(codes[0]), dtype=np.int64)
        for one, values in zip(codes, self.distinct, strict=True):
            total = total * len(values) + one
        return total

    def codes(self, frame: pd.DataFrame) -> Codes:
        """Place of every row's id among the ids."""
        found = []
        for name, like, values in zip(self.columns, self.parts, self.distinct, strict=True):
            column = encode(frame[name])
            found.append(values.get_indexer(pd.Index(_alike(column, like)))[column.codes])
        if any((codes < 0).any() for codes in found):
            raise changed()
        place = self.joint.get_indexer(pd.Index(self._radix(found)))
        if (place < 0).any():
            raise changed()
        return place.astype(np.int32 if len(self.joint) < 2**31 else np.int64)


def _alike(column: Encoded, like: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Distinct ids of a part of a column, as the whole column holds them."""
    values = index_values(column.values, column.kind)
    return values if like.dtype.kind in "OU" else values.astype(like.dtype)


# ---------------------------------------------------------------------------------------------- reading rows


@dataclass(frozen=True)
class PartitionReader:
    """Reads a partition of the table whose items stand in no other one.

    Parameters
    ----------
    columns : LongColumns
    lookups : mapping of dim to Lookup
        Of the dims beside ``item``, in their order.
    decided : Decided
    kinds : set of str
        Of the labels of the whole table.
    n_items, first_row : sequence of int
        For each partition.
    faulty : bool
        Whether the table has faults that were told already.
    """

    columns: LongColumns
    lookups: Mapping[str, Lookup]
    decided: Decided
    kinds: set[str]
    n_items: Sequence[int]
    first_row: Sequence[int]
    faulty: bool

    def __call__(self, frame: pd.DataFrame, place: int) -> tuple[Reading, Matched]:
        """Codes of every row; the items in order of first appearance."""
        named = self._named(frame)
        codes, n_items = item_codes([encode(named[name]) for name in column_names(self.columns.ids["item"])])
        if n_items != self.n_items[place]:
            raise changed()
        return self.with_items(named, codes, n_items, self.first_row[place] + np.arange(len(frame)))

    def _named(self, frame: pd.DataFrame) -> pd.DataFrame:
        named = [
            name
            for value in [*self.columns.ids.values(), *self.columns.others.values()]
            for name in column_names(value)
        ]
        return named_columns(frame, dict.fromkeys(named))

    def with_items(
        self, named: pd.DataFrame, codes: Codes, n_items: int, rows: npt.NDArray[np.int64]
    ) -> tuple[Reading, Matched]:
        """Codes of every row whose item is known."""
        others = self.columns.others
        ids = {"item": Ids("item", codes, np.arange(n_items), "number")}
        for dim, lookup in self.lookups.items():
            ids[dim] = Ids(dim, lookup.codes(named), np.arange(len(lookup.joint)), "number")
        reading = Reading(
            source="long",
            frame=named,
            ids=ids,
            spread=None,
            labels=[encode(named[others["label"]])],
            used=set(),
            columns={},
            status=encode(named[others["status"]]) if "status" in others else None,
            confidence=self._numbers(named, others["confidence"]) if "confidence" in others else None,
            prob={key: self._numbers(named, name) for key, name in (self.columns.prob or {}).items()} or None,
            rows=rows,
        )
        problems = Problems()
        matched = match(reading, self.decided.scale, self.decided.declared, problems, self.kinds)
        if matched is None or (problems and not self.faulty):
            raise changed()
        return reading, matched

    def _numbers(self, frame: pd.DataFrame, name: Hashable) -> npt.NDArray[np.float64]:
        try:
            return frame[name].to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError):
            if not self.faulty:
                raise changed() from None
            return np.full(len(frame), np.nan)


def item_codes(parts: Sequence[Encoded]) -> tuple[Codes, int]:
    """Items of the rows in order of first appearance, and how many there are."""
    codes: Codes = parts[0].codes
    n_items = len(parts[0].values)
    for part in parts[1:]:
        codes, pairs = factorized_pairs(codes, part.codes, len(part.values))
        n_items = len(pairs)
    return codes, n_items


# ------------------------------------------------------------------------------ rows brought together by item


@dataclass(frozen=True)
class Regroup:
    """Reads a partition into narrow columns of codes, each row with the block of its item.

    Parameters
    ----------
    reader : PartitionReader
    item : tuple of ndarray
        For every column of the item its values in the whole table; only their dtypes are looked at.
    n_blocks : int
    """

    reader: PartitionReader
    item: tuple[npt.NDArray[Any], ...]
    n_blocks: int

    def __call__(self, frame: pd.DataFrame, place: int) -> pd.DataFrame:
        """Columns ``block``, ``row``, ``item_<k>``, codes of the other dims, and what each answer carries."""
        reading, matched = self.reader(frame, place)
        names = column_names(self.reader.columns.ids["item"])
        parts = [encode(reading.frame[name]) for name in names]
        values = [_alike(part, like)[part.codes] for part, like in zip(parts, self.item, strict=True)]
        item = reading.ids["item"]
        first = np.zeros(len(item), dtype=np.intp)
        first[item.codes[::-1]] = np.arange(len(item.codes))[::-1]
        block = block_of([value[first] for value in values], self.n_blocks)[item.codes]
        out: dict[str, Any] = {"block": block, "row": reading.rows}
        for k, value in enumerate(values):
            out[f"item_{k}"] = pd.array(value, dtype="string[pyarrow]") if value.dtype.kind in "OU" else value
        for dim in self.reader.lookups:
            out[f"{dim}_code"] = reading.codes(dim)
        out["label"] = matched.labels
        if matched.scores is not None:
            out["score"] = matched.scores
        for k, category in enumerate(self.reader.decided.prob or ()):
            assert reading.prob is not None
            out[f"prob_{k}"] = reading.prob[category]
        if reading.confidence is not None:
            out["confidence"] = reading.confidence
        return pd.DataFrame(out)


def block_of(parts: Sequence[npt.NDArray[Any]], n_blocks: int) -> npt.NDArray[np.int64]:
    """Block of every item, by a hash of its id that is the same on every machine."""
    hashes = [
        pd.util.hash_array(part.astype(object) if part.dtype.kind in "OU" else part, categorize=False)
        for part in parts
    ]
    joint = reduce(lambda left, right: left * np.uint64(1_000_003) ^ right, hashes)
    return (joint % np.uint64(n_blocks)).astype(np.int64)


@dataclass(frozen=True)
class RegroupedReader:
    """Reads a block of what :class:`Regroup` brought together; the items in order of first appearance."""

    decided: Decided
    sizes: Mapping[str, int]
    n_items: Sequence[int]
    n_parts: int

    def __call__(self, frame: pd.DataFrame, place: int) -> tuple[Reading, Matched]:
        """Codes of every row, in the order of the table."""
        frame = frame.sort_values("row").reset_index(drop=True)
        codes, n_items = item_codes([encode(frame[f"item_{k}"]) for k in range(self.n_parts)])
        if n_items != self.n_items[place]:
            raise changed()
        ids = {"item": Ids("item", codes, np.arange(n_items), "number")}
        for dim, size in self.sizes.items():
            ids[dim] = Ids(dim, frame[f"{dim}_code"].to_numpy(), np.arange(size), "number")
        prob = {category: frame[f"prob_{k}"].to_numpy() for k, category in enumerate(self.decided.prob or ())}
        reading = Reading(
            source="long",
            frame=frame,
            ids=ids,
            spread=None,
            labels=[],
            used=set(),
            columns={},
            confidence=frame["confidence"].to_numpy() if "confidence" in frame else None,
            prob=prob or None,
            rows=frame["row"].to_numpy(),
        )
        scores = frame["score"].to_numpy() if "score" in frame else None
        matched = Matched(self.decided.matched.vocabulary, frame["label"].to_numpy(), scores, Strange(), "")
        return reading, matched

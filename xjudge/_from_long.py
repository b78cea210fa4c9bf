"""A long table, one row per label, as the builder reads it."""

from __future__ import annotations

import reprlib
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from xjudge._ingest import Problems
from xjudge._reading import Reading
from xjudge._table import Table
from xjudge.errors import StructureError

if TYPE_CHECKING:
    from xjudge._thin import Thinned

__all__ = ["LongColumns", "check_columns", "read_long"]


@dataclass(frozen=True)
class LongColumns:
    """The columns that the arguments of :func:`xjudge.build.from_long` name.

    Parameters
    ----------
    ids : dict of dim to column names
    others : dict of argument to column names
    prob : mapping of category to column name, optional
    """

    ids: dict[str, Any]
    others: dict[str, Any]
    prob: Mapping[Any, Any] | None


def check_columns(ids: Mapping[str, Any], others: Mapping[str, Any]) -> None:
    """Raise where an argument cannot be the name of a column; ids may be joined from several.

    Raises
    ------
    StructureError
        Naming the arguments, before anything is read.
    """
    problems = []
    for argument, value in {**ids, **others}.items():
        several = isinstance(value, list | tuple) and argument in ids
        if value is None or not all(isinstance(name, Hashable) for name in (value if several else [value])):
            words = "a column, or a list of them" if argument in ids else "a column"
            problems.append(f"`{argument}` names {words}; got {reprlib.repr(value)}.")
    if problems:
        raise StructureError(" ".join(problems))


def read_long(
    frame: pd.DataFrame, columns: LongColumns, problems: Problems, whole: Thinned | None
) -> Reading:
    """Read the named columns of a frame, or of the rows that a lazy frame was thinned to."""
    nulls = None if whole is None else whole.nulls
    table = Table(frame, columns.ids, columns.others, problems, nulls)
    labels = table.encoded("label")
    return Reading(
        source="long",
        frame=frame,
        ids=table.ids,
        spread=None,
        labels=[] if labels is None else [labels],
        used=table.used,
        columns=columns.ids | columns.others,
        role=table.encoded("role"),
        identity=table.encoded("identity"),
        status=table.encoded("status"),
        confidence=table.numbers("confidence", columns.others.get("confidence")),
        prob=table.number_columns("prob", columns.prob),
        complete=table.complete,
        rows=None if whole is None else whole.rows,
        weights=None if whole is None else whole.weights,
    )

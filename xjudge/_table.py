"""The columns of a frame that a builder's arguments name."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from xjudge._ids import Ids, read_ids
from xjudge._ingest import Encoded, Problems, encode
from xjudge.schema import Nulls, column_names, long_problems, named_columns

__all__ = ["Table"]


class Table:
    """The columns of a frame that arguments name: checked, then read as ids, codes or numbers.

    Parameters
    ----------
    frame : pandas.DataFrame
    ids : dict of dim to column names
    others : dict of argument to column names
    problems : Problems
    nulls : mapping, optional
        The nulls of the whole table, where ``frame`` is a part of it.
    """

    def __init__(
        self,
        frame: pd.DataFrame,
        ids: dict[str, Any],
        others: dict[str, Any],
        problems: Problems,
        nulls: Nulls | None = None,
    ) -> None:
        arguments = ids | others
        names = {argument: column_names(value) for argument, value in arguments.items()}
        found = long_problems(frame, ids=ids, others=others, nulls=nulls)
        for sentence in (sentence for sentences in found.values() for sentence in sentences):
            problems.add(sentence)
        self.problems = problems
        self.arguments = arguments
        self.used: set[Hashable] = {name for several in names.values() for name in several}
        self.columns = named_columns(
            frame, dict.fromkeys(name for several in names.values() for name in several)
        )
        self.sound = {argument for argument, several in names.items() if not found.keys() & set(several)}
        read = {dim: read_ids(self.columns, ids[dim], dim, problems) for dim in ids if dim in self.sound}
        self.ids: dict[str, Ids] = {dim: one for dim, one in read.items() if one is not None}
        self.complete = self.sound == set(arguments) and len(self.ids) == len(ids)

    def encoded(self, argument: str, name: Hashable = None) -> Encoded | None:
        """Codes of the column that an argument names; ``None`` where it names none or an unfit one."""
        if argument not in self.sound:
            return None
        series = self.columns[self.arguments[argument] if name is None else name]
        try:
            return encode(series)
        except TypeError:
            held = next(value for value in series if not _is_plain(value))
            self.problems.add(
                f"Column {series.name!r} ({argument}) holds containers, e.g. {held!r}, where one value per "
                "row is needed; take the value out first."
            )
            return None

    def numbers(self, argument: str, name: Hashable) -> npt.NDArray[np.float64] | None:
        """Numbers of a column, null as NaN; a problem where they are none."""
        if argument not in self.sound:
            return None
        try:
            return self.columns[name].to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError):
            self.problems.add(f"Column {name!r} ({argument}) does not hold numbers.")
            return None

    def number_columns(
        self, argument: str, names: Mapping[Any, Hashable] | None
    ) -> dict[Any, npt.NDArray[np.float64]] | None:
        """Numbers of several columns, under the keys that name them."""
        if names is None:
            return None
        read = {key: self.numbers(argument, name) for key, name in names.items()}
        return {key: values for key, values in read.items() if values is not None}


def _is_plain(value: Any) -> bool:
    """Whether a value can be compared with others: lists, dicts and arrays cannot."""
    try:
        hash(value)
    except TypeError:
        return False
    return True

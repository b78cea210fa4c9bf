"""Tables where one dim, raters or criteria, is spread over columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import xarray as xr

from xjudge._assemble import build
from xjudge._ids import DIMS, fixed_ids
from xjudge._ingest import Problems, read_frame
from xjudge._reading import Options, Reading
from xjudge._table import Table
from xjudge.errors import listing
from xjudge.schema import column_names

__all__ = ["from_spread"]


def from_spread(
    df: Any,
    dim: str,
    spread: Any,
    columns: dict[str, Any],
    others: dict[str, Any],
    source: str,
    options: Options,
    problems: Problems,
) -> xr.Dataset:
    """Read a frame where one dim, raters or criteria, is spread over columns."""
    frame = read_frame(df)
    argument = {"rater": "raters", "criterion": "criteria"}[dim]
    spread = (
        spread if isinstance(spread, (Mapping, str)) or not isinstance(spread, Iterable) else list(spread)
    )
    if isinstance(spread, str) or not isinstance(spread, Iterable) or not spread:
        problems.add(
            f"`{argument}` is a list of column names, or a mapping of them to names; got {spread!r}."
        )
        problems.fail()
    held = list(spread)
    names = list(spread.values()) if isinstance(spread, Mapping) else held
    table = Table(frame, columns, others | {argument: held}, problems)
    also = [name for name in held if name in {n for value in columns.values() for n in column_names(value)}]
    if also:
        problems.add(f"`{argument}` names {listing(also)}, which holds ids.")
    along = fixed_ids(names, dim, problems)
    labels = [table.encoded(argument, name) for name in held] if argument in table.sound else []
    ids = table.ids if along is None or argument not in table.sound else table.ids | {dim: along}
    reading = Reading(
        source=source,
        frame=frame,
        ids={name: ids[name] for name in DIMS if name in ids},
        spread=dim,
        labels=[column for column in labels if column is not None],
        used=table.used,
        columns=columns | others | {argument: held},
        role=table.encoded("role"),
        identity=table.encoded("identity"),
        complete=table.complete and along is not None and None not in labels,
    )
    return build(reading, options, problems)

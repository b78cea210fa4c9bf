"""What a builder read, and the match of its raw labels to codes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from xjudge._duplicates import RULES
from xjudge._ids import Ids
from xjudge._infer import infer_scale
from xjudge._ingest import NULL, Encoded, Problems, counted, plain
from xjudge._labels import UNKNOWN, Declared, Vocabulary
from xjudge._unknown import Strange, unknown_problem
from xjudge.codes import OUTCOMES
from xjudge.errors import listing
from xjudge.scale import Scale
from xjudge.schema import row_listing

__all__ = ["Matched", "Options", "Reading", "label_kinds", "match"]

_LISTED: Final = 1000
_LAYOUTS: Final = ("dense", "sparse", "auto")
_STATUS: Final = {"answered": 0, **OUTCOMES}


@dataclass(frozen=True)
class Options:
    """What every builder takes; see :func:`xjudge.build.from_long`."""

    role: Any = None
    judges: Any = None
    humans: Any = None
    role_names: Mapping[Any, str] | None = None
    scale: Scale | None = None
    ca: Any = ()
    invalid: Any = ()
    missing: Any = ()
    normalise: Any = ()
    duplicates: str = "raise"
    layout: str = "dense"
    identity: Any = "named"

    def check(self, problems: Problems) -> None:
        """Add a problem for every option that is none of its values."""
        for name, value, values in (
            ("duplicates", self.duplicates, RULES),
            ("layout", self.layout, _LAYOUTS),
        ):
            if value not in values:
                problems.add(f"`{name}` is one of {listing(values, most=9)}; got {value!r}.")
        if self.scale is not None and not isinstance(self.scale, Scale):
            problems.add(f"`scale` is an xj.Scale, e.g. xj.Scale.ordinal([1, 2, 3]); got {self.scale!r}.")


@dataclass
class Reading:
    """What was read from a frame, before labels are matched.

    Parameters
    ----------
    source : str
        ``"long"``, ``"wide"`` or ``"criteria_wide"``.
    frame : pandas.DataFrame
    ids : dict of dim to Ids
        Along the rows of the frame; for the dim that is spread over columns, along the columns.
    spread : str or None
        The dim that is spread over columns; an answer then is a row and a column of the frame.
    labels : list of Encoded
        The label column or columns; ``None`` where they could not be read.
    used : set of column names
        Columns that are no covariates.
    columns : dict of argument to column names, for attrs
    role, identity, status : Encoded, optional
        Columns along the rows of the frame.
    confidence : ndarray of float, optional
        Along the rows.
    prob : dict of category to ndarray of float, optional
        Along the rows.
    complete : bool
        Whether every column that was asked for could be read.
    rows : ndarray of int, optional
        Where the rows of the frame stand in the whole table, where they are a part of it.
    weights : ndarray of int, optional
        How many rows of the whole table each row stands for with its label.
    """

    source: str
    frame: pd.DataFrame
    ids: dict[str, Ids]
    spread: str | None
    labels: list[Encoded]
    used: set[Hashable]
    columns: dict[str, Any]
    role: Encoded | None = None
    identity: Encoded | None = None
    status: Encoded | None = None
    confidence: npt.NDArray[np.float64] | None = None
    prob: dict[Any, npt.NDArray[np.float64]] | None = None
    complete: bool = True
    rows: npt.NDArray[np.int64] | None = None
    weights: npt.NDArray[np.int64] | None = None

    @property
    def width(self) -> int:
        """Answers per row of the frame."""
        return max(len(self.labels), 1)

    def codes(self, dim: str) -> npt.NDArray[np.signedinteger]:
        """Place of every answer along a dim."""
        codes = self.ids[dim].codes
        if self.spread is None:
            return codes
        return np.tile(codes, len(self.frame)) if dim == self.spread else np.repeat(codes, self.width)

    def written(self, answer: int) -> Any:
        """Label of an answer as it is written in the frame."""
        column = self.labels[answer % self.width]
        code = column.codes[answer // self.width]
        return None if code == NULL else plain(column.values[code])

    def row_numbers(self, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.integer[Any]]:
        """Numbers of rows in the whole table, for messages."""
        return rows if self.rows is None else self.rows[rows]

    def place(self, answer: int) -> str:
        """Item, rater and criterion of an answer, for messages."""
        row, column = divmod(answer, self.width)
        parts = []
        for dim, ids in self.ids.items():
            value = ids.values[ids.codes[column if dim == self.spread else row]]
            parts.append(f"{dim} {plain(value)!r}")
        return ", ".join(parts)


# ------------------------------------------------------------------------------------------------- matching


@dataclass(frozen=True)
class Matched:
    """Codes per answer, and what happened on the way.

    Parameters
    ----------
    vocabulary : Vocabulary
    labels : ndarray of signed int
        Code per answer.
    scores : ndarray of float, optional
        Score per answer on a continuous scale.
    coerced : Strange
        Values that became invalid under ``invalid="coerce"``.
    warning : str
        About a scale that was inferred.
    """

    vocabulary: Vocabulary
    labels: npt.NDArray[np.signedinteger]
    scores: npt.NDArray[np.float64] | None
    coerced: Strange
    warning: str


def match(
    reading: Reading,
    scale: Scale | None,
    declared: Declared,
    problems: Problems,
    kinds: set[str] | None = None,
) -> Matched | None:
    """Match the labels of every column; ``None`` where they or the scale could not be read.

    ``kinds`` are those of the whole column, where the reading is a part of it.
    """
    if not reading.labels or not isinstance(scale, Scale | None):
        return None
    override = _override(reading, problems)
    columns = reading.labels
    if override is not None:  # labels beside another outcome are not read
        columns = [columns[0].only(override == 0)]
    warning = ""
    if scale is None:
        scale, warning = infer_scale(columns, declared, problems)
        if scale is None:
            return None
    vocabulary = Vocabulary(scale, declared, problems)
    targets = [vocabulary.match(column, kinds) for column in columns]
    dtype = np.promote_types(scale.dtype, np.int8)
    codes = [
        target.astype(dtype, copy=False)[column.codes]
        for target, column in zip(targets, columns, strict=True)
    ]
    labels = codes[0] if len(codes) == 1 else np.stack(codes, axis=1).ravel()
    if override is not None:
        labels = np.where(override == 0, labels, override.astype(dtype))
        _check_answered(reading, labels, problems)
    unknown = _strange(columns, targets, UNKNOWN, reading.weights)
    if unknown.total:
        row = reading.row_numbers(np.array([unknown.first // reading.width]))[0]
        where = reading.place(unknown.first) if reading.complete else f"row {row}"
        problems.vocabulary.append(unknown_problem(unknown, vocabulary, where))
    invalid = OUTCOMES["invalid"]
    coerced = _strange(columns, targets, invalid, reading.weights) if declared.coerce else Strange()
    scores = None
    if scale.kind == "continuous":
        parts = [vocabulary.scores(column) for column in columns]
        scores = parts[0] if len(parts) == 1 else np.stack(parts, axis=1).ravel()
    return Matched(vocabulary, labels, scores, coerced, warning)


def label_kinds(reading: Reading, vocabulary: Vocabulary) -> set[str]:
    """Kinds of the labels that are read and not declared, of a table with one column of labels."""
    override = _override(reading, Problems())
    column = reading.labels[0] if override is None else reading.labels[0].only(override == 0)
    return vocabulary.kinds_of(map(vocabulary.declared.key, column.values))


def _strange(
    columns: list[Encoded],
    targets: list[npt.NDArray[np.int64]],
    code: int,
    weights: npt.NDArray[np.int64] | None,
) -> Strange:
    """Values that were matched to a code no declaration leads to: unknown, or coerced to invalid."""
    found: dict[tuple[str, str], tuple[Any, int]] = {}
    n_distinct = total = 0
    first = len(columns) * len(columns[0].codes)
    for place, (column, target) in enumerate(zip(columns, targets, strict=True)):
        strange = np.flatnonzero(target[:-1] == code)
        if not len(strange):
            continue
        there = column.codes >= 0
        each = None if weights is None else weights[there]
        counts = np.bincount(column.codes[there], weights=each, minlength=len(column.values))[strange]
        first = min(first, int(np.argmax(np.isin(column.codes, strange))) * len(columns) + place)
        total += int(counts.sum())
        n_distinct += len(strange)
        for k in np.argsort(-counts, kind="stable")[:_LISTED]:
            value = plain(column.values[strange[k]])
            key = (type(value).__name__, repr(value))
            n_distinct -= key in found
            _, before = found.get(key, (value, 0))
            found[key] = (value, before + int(counts[k]))
    listed = sorted(found.values(), key=lambda pair: -pair[1])
    return Strange([value for value, _ in listed], [count for _, count in listed], total, n_distinct, first)


def _override(reading: Reading, problems: Problems) -> npt.NDArray[np.int8] | None:
    """Outcome code per row where the status column states one, 0 where the label is to be read."""
    status = reading.status
    if status is None or len(reading.labels) != 1:
        return None
    words = [plain(value) for value in status.values]
    unknown = [word for word in words if word not in _STATUS]
    if unknown:
        problems.add(f"`status` is one of {listing(_STATUS, most=4)}; got {listing(unknown)}.")
        return None
    codes = np.array([*(_STATUS[word] for word in words), 0], dtype=np.int8)
    return codes[status.codes]


def _check_answered(reading: Reading, labels: npt.NDArray[np.signedinteger], problems: Problems) -> None:
    """Status ``answered`` needs a label that is one."""
    status = reading.status
    assert status is not None
    answered = [code for code, value in enumerate(status.values) if value == "answered"]
    lacking = np.flatnonzero(np.isin(status.codes, answered) & (labels < 0) & (labels != UNKNOWN))
    total = len(lacking) if reading.weights is None else int(reading.weights[lacking].sum())
    if total:
        rows = row_listing(reading.row_numbers(lacking), total)
        problems.add(
            f"`status` says 'answered' in {counted(total, 'row')} without a category: row "
            f"{rows} (counted from 0)."
        )

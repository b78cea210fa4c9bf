"""The rows of a long table that decide everything but the labels of single cells.

A lazy frame is read through a small part of itself: the first row of every id, of every label, of every pair
of a rater and a role, of every value that a covariate has within an item, and rows that show what is wrong.
These rows in their order, each with the number of rows that it stands for, give the same ids in the same
order, the same scale, roles, covariates and messages as the whole table: so the builder reads them and no
second builder is needed. Parts of a table are thinned apart, put together, and thinned again.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from xjudge._covariates import covariate
from xjudge._duplicates import all_distinct
from xjudge._ids import RESERVED
from xjudge._ingest import NULL, Encoded, Problems, factorized_pairs, plain
from xjudge._labels import UNKNOWN, Declared, Vocabulary
from xjudge._lazy_frames import concat_frames
from xjudge._sparse import ranks
from xjudge._telling_rows import (
    Codes,
    Rows,
    as_numbers,
    changes,
    contradiction,
    declared_numbers,
    encoded_or_none,
    firsts,
    missing_labels,
    not_numbers,
    of_every_type,
)
from xjudge.codes import OUTCOMES
from xjudge.scale import Scale
from xjudge.schema import column_names, named_columns

__all__ = ["Part", "Thinned", "Thinner", "most_raters"]

_SHOWN: Final = 4  # rows that a message may show, and one to stand for the others
_FEW: Final = 1000
_MANY: Final = 100_000
_NUMBERS: Final = ("prob", "confidence")


@dataclass(frozen=True)
class Part:
    """What one partition holds: its rows, distinct items, and rows whose label is not missing.

    ``n_raters`` is the most raters that one of its items has, where the layout may need it.
    """

    n_rows: int
    n_items: int
    n_present: int
    n_raters: int = 0


@dataclass(frozen=True)
class Thinned:
    """Rows of a table that decide what is built of it.

    Parameters
    ----------
    frame : pandas.DataFrame
        The rows, in their order.
    rows : ndarray of int
        Their numbers in the whole table.
    weights : ndarray of int
        How many rows of the table each stands for with its label; they add up to all rows.
    parts : list of Part
        The partitions.
    nulls : mapping of column to (nulls, rows, first row numbers)
        Of the id columns that have any.
    spread : bool
        Whether an item stands in several partitions.
    repeated : bool
        Whether a partition holds several labels of one cell.
    """

    frame: pd.DataFrame
    rows: npt.NDArray[np.int64]
    weights: npt.NDArray[np.int64]
    parts: list[Part]
    nulls: Mapping[Hashable, tuple[int, int, list[int]]] = field(default_factory=dict)
    spread: bool = False
    repeated: bool = False

    @property
    def n_rows(self) -> int:
        """Rows of the whole table."""
        return sum(part.n_rows for part in self.parts)


@dataclass(frozen=True)
class Thinner:
    """Thins partitions, and what several of them left.

    Parameters
    ----------
    ids, others : dict of argument to column names
        As the builder reads them.
    declared : Declared
    scale : Scale, optional
    layout : str
    """

    ids: Mapping[str, Any]
    others: Mapping[str, Any]
    declared: Declared
    scale: Scale | None
    layout: str = "dense"

    def __call__(self, frame: pd.DataFrame, place: int) -> Thinned:
        """Thin one partition."""
        n = len(frame)
        look = _Look(frame, self)
        chosen, weights, blank = look.deciding(np.ones(n, dtype=np.int64))
        present = look.present()
        part = Part(
            n, look.n_items, int(present.sum()), 0 if self.layout == "dense" else look.n_raters(present)
        )
        return Thinned(
            look.narrowed(_blanked(frame.iloc[chosen], blank, chosen)),
            chosen.astype(np.int64),
            weights[chosen],
            [part],
            look.nulls(np.arange(n)),
            repeated=not look.cells_distinct(present),
        )

    def together(self, several: Sequence[Thinned]) -> Thinned:
        """Thin what neighbouring parts left, as one table."""
        if len(several) == 1:
            return several[0]
        starts = np.cumsum([0, *(one.n_rows for one in several[:-1])])
        frame = concat_frames([one.frame for one in several])
        source = np.repeat(np.arange(len(several)), [len(one.rows) for one in several])
        spread = any(one.spread for one in several) or self._is_spread(frame, source)
        out = Thinned(
            frame,
            np.concatenate([one.rows + start for one, start in zip(several, starts, strict=True)]),
            np.concatenate([one.weights for one in several]),
            [part for one in several for part in one.parts],
            _nulls_together(several, starts),
            spread,
            repeated=any(one.repeated for one in several),
        )
        items = sum(part.n_items for part in out.parts)
        if not spread and len(out.rows) < 2 * items + _FEW:  # a row for each item is needed anyway
            return out
        chosen, weights, blank = _Look(frame, self).deciding(out.weights)
        kept = _blanked(frame.iloc[chosen], blank, chosen)
        return replace(out, frame=kept, rows=out.rows[chosen], weights=weights[chosen])

    def _is_spread(self, frame: pd.DataFrame, source: npt.NDArray[np.intp]) -> bool:
        """Whether an item comes from several sources."""
        item = _Look(frame, replace(self, ids={"item": self.ids["item"]}, others={})).dims.get("item")
        if item is None:
            return False
        first = np.zeros(int(item.max(initial=-1)) + 1, dtype=source.dtype)
        first[item[::-1]] = source[::-1]
        return bool((first[item] != source).any())


class _Look:
    """One frame as the thinner sees it: every column that an argument names, as codes."""

    def __init__(self, frame: pd.DataFrame, thinner: Thinner) -> None:
        self.frame, self.thinner = frame, thinner
        self.roles = {
            argument: column_names(names)
            for argument, names in [*thinner.ids.items(), *thinner.others.items()]
        }
        named = [name for names in self.roles.values() for name in names]
        self.columns = named_columns(frame, dict.fromkeys(named))
        numbers = {name for argument in _NUMBERS for name in self.roles.get(argument, ())}
        read = {name for argument in self.roles if argument not in _NUMBERS for name in self.roles[argument]}
        there = set(self.columns)
        self.encoded = {name: encoded_or_none(self.columns[name]) for name in read & there}
        self.numbers = {name: as_numbers(self.columns[name]) for name in numbers & there}
        self.dims = {dim: codes for dim in thinner.ids if (codes := self._dim(dim)) is not None}

    def _dim(self, dim: str) -> Codes | None:
        """Codes of the ids along a dim by first appearance; ``None`` where there are none to read."""
        parts = [self.encoded.get(name) for name in self.roles[dim]]
        if not parts or any(part is None or (part.codes == NULL).any() for part in parts):
            return None
        codes: Codes = parts[0].codes  # type: ignore[union-attr]
        for part in parts[1:]:
            codes, _ = factorized_pairs(codes, part.codes, len(part.values))  # type: ignore[union-attr]
        return codes

    def _null(self, name: Hashable) -> npt.NDArray[np.bool_]:
        encoded = self.encoded[name]
        return self.columns[name].isna().to_numpy() if encoded is None else encoded.codes == NULL

    def _only(self, argument: str) -> Encoded | None:
        names = self.roles.get(argument, ())
        return self.encoded.get(names[0]) if len(names) == 1 else None

    @property
    def n_items(self) -> int:
        """Distinct items; none where they cannot be read."""
        return int(self.dims["item"].max(initial=-1)) + 1 if "item" in self.dims else 0

    def n_raters(self, present: npt.NDArray[np.bool_]) -> int:
        """The most raters that an item has among some rows."""
        if not {"item", "rater"} <= self.dims.keys():
            return 0
        return most_raters(self.dims["item"][present], self.dims["rater"][present])

    # ------------------------------------------------------------------------------------------ which rows

    def deciding(
        self, weights: npt.NDArray[np.int64]
    ) -> tuple[Rows, npt.NDArray[np.int64], dict[Hashable, Rows]]:
        """Rows to keep, the weight of every row, and the rows that keep columns which have no place."""
        keep = np.zeros(len(self.frame), dtype=bool)
        for codes in self.dims.values():
            keep[firsts(codes)] = True
        for name in {name for argument in self.thinner.ids for name in self.roles[argument]}:
            if name in self.columns:
                keep[of_every_type(self.columns[name], self.encoded[name])] = True
                keep[np.flatnonzero(self._null(name))[:_SHOWN]] = True
        for argument in self.thinner.others:
            for name in self.roles[argument]:
                if name in self.numbers and self.numbers[name] is None:
                    keep[not_numbers(self.columns[name])] = True
                elif name in self.encoded and self.encoded[name] is None:
                    keep[of_every_type(self.columns[name], None)] = True
        for argument in ("role", "identity"):
            column = self._only(argument)
            if column is not None:
                rater = self.dims.get("rater", np.zeros_like(column.codes))
                keep[firsts(factorized_pairs(rater, column.codes + 1, len(column.values) + 1)[0])] = True
        chosen, weights = self._labels(weights)
        keep[chosen] = True
        blank = self._covariates(keep)
        return np.flatnonzero(keep), weights, blank

    def _labels(self, weights: npt.NDArray[np.int64]) -> tuple[Rows, npt.NDArray[np.int64]]:
        """The first rows of every label and status; the last of them takes the weight of all that follow."""
        label, status = self._only("label"), self._only("status")
        if label is None:
            return np.array([], dtype=np.intp), weights
        classes = self._classes(label)
        if status is not None:
            classes, _ = factorized_pairs(classes, status.codes + 1, len(status.values) + 1)
        small = classes.astype(np.int16) if classes.max(initial=0) < 1 << 15 else classes
        order = np.argsort(small, kind="stable")  # of 16 bits, a radix sort
        starts = changes(small[order])
        sizes = np.diff(np.append(starts, len(order)))
        place = np.arange(len(order)) - np.repeat(starts, sizes)
        first = order[place < _SHOWN]
        out = np.zeros_like(weights)
        out[first] = weights[first]
        full = starts[sizes > _SHOWN]
        if len(full):
            beyond = np.where(place >= _SHOWN, weights[order], 0)
            out[order[full + _SHOWN - 1]] += np.add.reduceat(beyond, starts)[sizes > _SHOWN]
        return first, out

    def _classes(self, label: Encoded) -> Codes:
        """Labels that have to be told apart; of very many numbers only what their kind is."""
        codes, n = label.codes, len(label.values)
        scale, declared = self.thinner.scale, self.thinner.declared
        apart = np.arange(n + 1)  # the last place is that of nulls
        if label.kind == "number" and n > _FEW and (scale is None or scale.kind == "continuous"):
            values = label.values.astype(np.float64)
            plain_number = np.isfinite(values) & ~np.isin(values, declared_numbers(declared))
            plain_number[:_FEW] = False
            whole = values == np.rint(values)
            if scale is not None or (np.isfinite(values) & ~whole).any():
                apart[:-1][plain_number & whole] = n + 1
                apart[:-1][plain_number & ~whole] = n + 2
        elif n > _MANY and not (scale is None and label.kind == "number"):
            known = np.zeros(n, dtype=bool)
            if scale is not None:
                targets = Vocabulary(scale, declared, Problems()).match(label)[:-1]
                known = ~np.isin(targets, [UNKNOWN, OUTCOMES["invalid"]])
            strange = np.flatnonzero(~known)
            if len(strange) > _MANY:
                apart[strange[_MANY:]] = strange[_MANY - 1]
        return apart[codes]

    def _covariates(self, keep: npt.NDArray[np.bool_]) -> dict[Hashable, Rows]:
        """Mark the rows that place further columns; return the rows that show that one has no place."""
        used = {name for names in self.roles.values() for name in names}
        blank: dict[Hashable, Rows] = {}
        for name in self.frame.columns:
            if name in used:
                continue
            series = self.frame[name].reset_index(drop=True)
            column = None if str(name) in RESERVED else covariate(series)
            if column is None:
                kept = of_every_type(series, None)
                keep[kept] = True
                blank[name] = kept
                continue
            codes = column.codes + 1
            if column.kind == "text":
                codes = np.where(np.append(False, column.values == "")[codes], 0, codes)
            along = [self.dims[dim] for dim in self.dims if dim != "replicate"]
            shown = [contradiction(ids, codes) for ids in along]
            if along and all(len(rows) for rows in shown):
                blank[name] = np.unique(np.concatenate([*shown, of_every_type(series, column)]))
                keep[blank[name]] = True
                continue
            keep[of_every_type(series, column)] = True
            for ids, rows in zip(along, shown, strict=True):
                if len(rows):
                    keep[rows] = True
                else:
                    keep[firsts(factorized_pairs(ids, codes, len(column.values) + 1)[0])] = True
        return blank

    # ------------------------------------------------------------------------------------ whole partitions

    def narrowed(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Text beside the items as categoricals: there are few of them, and a row for every item."""
        names = {name for argument in self.roles for name in self.roles[argument] if argument not in _NUMBERS}
        text = [
            name
            for name in names - set(self.roles["item"])
            if name in frame.columns and isinstance(frame[name].dtype, pd.StringDtype)
        ]
        return frame.astype(dict.fromkeys(text, "category")) if text else frame

    def nulls(self, rows: npt.NDArray[Any]) -> dict[Hashable, tuple[int, int, list[int]]]:
        """The nulls of every id column."""
        out = {}
        for name in {name for argument in self.thinner.ids for name in self.roles[argument]}:
            if name in self.columns and (null := self._null(name)).any():
                out[name] = (int(null.sum()), len(null), rows[np.flatnonzero(null)[:_SHOWN]].tolist())
        return out

    def present(self) -> npt.NDArray[np.bool_]:
        """Rows that say something: a label or an outcome that is not missing, or a probability."""
        label, status = self._only("label"), self._only("status")
        if label is None:
            return np.ones(len(self.frame), dtype=bool)
        absent = missing_labels(label, self.thinner.declared)[label.codes]
        if status is not None:
            words = [plain(value) for value in status.values]
            read = np.array([*(word == "answered" for word in words), True])[status.codes]
            absent = np.where(read, absent, np.array([*(w == "missing" for w in words), False])[status.codes])
        stated = ~absent
        for name in self.roles.get("prob", ()):
            numbers = self.numbers.get(name)
            if numbers is not None:
                stated |= ~np.isnan(numbers)
        return stated

    def cells_distinct(self, present: npt.NDArray[np.bool_]) -> bool:
        """Whether no cell has several labels; so too where the ids cannot be read."""
        if len(self.dims) != len(self.thinner.ids):
            return True
        cells, n_cells = np.zeros(int(present.sum()), dtype=np.int64), 1
        for codes in self.dims.values():
            size = int(codes.max(initial=-1)) + 1
            cells = cells * size + codes[present]
            n_cells *= size
        return all_distinct(cells, n_cells)


# -------------------------------------------------------------------------------------------------- helpers


def most_raters(item: Codes, rater: Codes) -> int:
    """The most raters that one item has."""
    return int(ranks(item, rater)[0].max(initial=-1)) + 1


def _blanked(frame: pd.DataFrame, blank: Mapping[Hashable, Rows], chosen: Rows) -> pd.DataFrame:
    """Without the values of columns that have no place, but for the rows that show it."""
    if not blank:
        return frame
    out = frame.copy(deep=False)
    for name, rows in blank.items():
        out[name] = frame[name].where(np.isin(chosen, rows))
    return out


def _nulls_together(
    several: Sequence[Thinned], starts: npt.NDArray[Any]
) -> dict[Hashable, tuple[int, int, list[int]]]:
    n_rows = sum(one.n_rows for one in several)
    out: dict[Hashable, tuple[int, int, list[int]]] = {}
    for one, start in zip(several, starts.tolist(), strict=True):
        for name, (count, _, rows) in one.nulls.items():
            before, _, shown = out.get(name, (0, 0, []))
            out[name] = (before + count, n_rows, [*shown, *(row + start for row in rows)][:_SHOWN])
    return out

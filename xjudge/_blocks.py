"""What the tasks of a scheduler make of one block of items of a lazy long table: tallied, scattered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from xjudge._assemble import answer_list, answers, cube, keep, outcome_counts, stacked_prob
from xjudge._block_readers import PartitionReader, RegroupedReader
from xjudge._duplicates import Kept, Repeated
from xjudge._ids import Ids
from xjudge._thin import most_raters

__all__ = ["Reader", "Scatter", "Tallied", "TallyBlock"]

Reader = PartitionReader | RegroupedReader


@dataclass(frozen=True)
class Tallied:
    """Which rows of one block or several count.

    Parameters
    ----------
    n_present : int
        Rows that are not missing.
    kept : list of int
        For each block, rows that were kept.
    counts : mapping of outcome to int
        Of the rows that were kept.
    repeated, tied : Repeated
        Cells with several labels, by the numbers of their rows in the table.
    n_replicates : int, optional
        Under the rule ``"replicate"``.
    n_raters : int
        The most raters that an item has.
    """

    n_present: int
    kept: list[int]
    counts: Mapping[str, int]
    repeated: Repeated = field(default_factory=Repeated)
    tied: Repeated = field(default_factory=Repeated)
    n_replicates: int | None = None
    n_raters: int = 0

    @property
    def n_kept(self) -> int:
        """Rows that were kept."""
        return sum(self.kept)

    @classmethod
    def together(cls, several: Sequence[Tallied]) -> Tallied:
        """Several blocks in their order."""
        replicates = [one.n_replicates for one in several if one.n_replicates is not None]
        return cls(
            sum(one.n_present for one in several),
            [n for one in several for n in one.kept],
            {name: sum(one.counts[name] for one in several) for name in several[0].counts},
            Repeated.together(one.repeated for one in several),
            Repeated.together(one.tied for one in several),
            max(replicates, default=None),
            max(one.n_raters for one in several),
        )


@dataclass(frozen=True)
class TallyBlock:
    """Says which rows of a block count."""

    reader: Reader
    duplicates: str

    def __call__(self, frame: pd.DataFrame, place: int) -> Tallied:
        """Tally one block."""
        reading, matched = self.reader(frame, place)
        kept = keep(reading, matched, stacked_prob(reading, self.reader.decided), self.duplicates)
        assert reading.rows is not None
        replicates = None if kept.replicate is None else int(kept.replicate.max(initial=0)) + 1
        return Tallied(
            kept.n_present,
            [len(kept.rows)],
            outcome_counts(matched.labels[kept.rows]),
            kept.repeated.at(reading.rows),
            kept.tied.at(reading.rows),
            replicates,
            most_raters(reading.codes("item")[kept.rows], reading.codes("rater")[kept.rows]),
        )


@dataclass(frozen=True)
class Scatter:
    """Makes the variables of a block: its part of the cube, or of the list of answers.

    Parameters
    ----------
    reader : PartitionReader or RegroupedReader
    duplicates : str
    n_replicates : int, optional
    dense : bool
    first_item : sequence of int
        For each block, the items before it.
    templates : mapping of str to array
        For every variable an array of no length.
    """

    reader: Reader
    duplicates: str
    n_replicates: int | None
    dense: bool
    first_item: Sequence[int]
    templates: Mapping[str, npt.NDArray[Any]]

    def __call__(self, frame: pd.DataFrame, place: int) -> dict[str, npt.NDArray[Any]]:
        """Arrays by the names of the variables."""
        reading, matched = self.reader(frame, place)
        prob = stacked_prob(reading, self.reader.decided)
        kept = keep(reading, matched, prob, self.duplicates)
        ids = dict(reading.ids)
        if kept.replicate is not None:
            assert self.n_replicates is not None
            ids["replicate"] = Ids("replicate", kept.replicate, np.arange(self.n_replicates), "number")
            kept = _restrided(kept, self.n_replicates)
        data = answers(reading, matched, kept, prob)
        variables, codes = (cube if self.dense else answer_list)(data, kept, ids, self.reader.decided.scale)
        out = {name: variable[1] for name, variable in (variables | codes).items()}
        if not self.dense:
            out["item_code"] = out["item_code"].astype(np.int64) + self.first_item[place]
        return {name: out[name].astype(like.dtype, copy=False) for name, like in self.templates.items()}


def _restrided(kept: Kept, n_replicates: int) -> Kept:
    """Cells with the replicate as their last part, where another block has more replicates of a cell."""
    assert kept.replicate is not None
    here = int(kept.replicate.max(initial=0)) + 1
    cells = (kept.cells - kept.replicate) // here * n_replicates + kept.replicate
    return replace(kept, cells=cells)

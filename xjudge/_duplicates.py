"""Which row counts where an item, rater and criterion has several."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from xjudge._ingest import counted

__all__ = ["RULES", "Kept", "Repeated", "all_distinct", "keep_rows", "repeat_problem"]

RULES: Final = ("raise", "first", "last", "majority", "replicate")
_SHOWN: Final = 5


@dataclass(frozen=True)
class Repeated:
    """Cells with several answers: how many, and the first of them.

    Parameters
    ----------
    n_cells, n_rows : int
    first : tuple of (rows, n)
        Of the first five cells, in the order of their first rows: some row numbers, and how many there are.
    """

    n_cells: int = 0
    n_rows: int = 0
    first: tuple[tuple[tuple[int, ...], int], ...] = ()

    def at(self, numbers: npt.NDArray[Any]) -> Repeated:
        """Return the same cells with other numbers for their rows."""
        first = tuple((tuple(numbers[list(rows)].tolist()), n) for rows, n in self.first)
        return Repeated(self.n_cells, self.n_rows, first)

    @classmethod
    def together(cls, parts: Iterable[Repeated]) -> Repeated:
        """Return the cells of several parts of a table."""
        listed = list(parts)
        first = sorted(cell for part in listed for cell in part.first)[:_SHOWN]
        return cls(sum(part.n_cells for part in listed), sum(part.n_rows for part in listed), tuple(first))


@dataclass(frozen=True)
class Kept:
    """The rows that remain.

    Parameters
    ----------
    rows : ndarray of int
        Row numbers; in increasing order where nothing was repeated.
    cells : ndarray of int
        The cell of each such row; under the rule ``"replicate"`` with the replicate as its last part.
    n_present : int
        Rows before the rule.
    replicate : ndarray of int, optional
        Under the rule ``"replicate"``, per kept row the how-manieth answer of its cell it is.
    repeated, tied : Repeated
        Cells with several answers, and those of them where the majority is not unique.
    """

    rows: npt.NDArray[np.intp]
    cells: npt.NDArray[np.int64]
    n_present: int
    replicate: npt.NDArray[np.intp] | None = None
    repeated: Repeated = field(default_factory=Repeated)
    tied: Repeated = field(default_factory=Repeated)


def keep_rows(
    present: npt.NDArray[np.intp],
    cells: npt.NDArray[np.int64],
    labels: npt.NDArray[np.integer[Any]],
    *,
    n_cells: int,
    rule: str,
    continuous: bool,
) -> Kept:
    """Apply the rule to rows that are not missing.

    Parameters
    ----------
    present : ndarray of int
        Rows with an answer or an outcome that is not missing.
    cells : ndarray of int
        Per such row, its cell: one number for item, rater, criterion and replicate.
    labels : ndarray of int
        Per such row, the code of its label.
    n_cells : int
        Number of cells there could be.
    rule : {"raise", "first", "last", "majority", "replicate"}
    continuous : bool
        Whether labels stand for scores, which have no majority.
    """
    if rule != "replicate" and all_distinct(cells, n_cells):
        return Kept(present, cells, len(present))
    order = np.argsort(cells, kind="stable")
    ordered = cells[order]
    is_first = np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]
    starts = np.flatnonzero(is_first)
    sizes = np.diff(np.append(starts, len(ordered)))

    def told(groups: npt.NDArray[np.intp]) -> Repeated:
        by_row = groups[np.argsort(order[starts[groups]])][:_SHOWN]
        some = [order[starts[group] : starts[group] + min(sizes[group], _SHOWN)] for group in by_row]
        first = tuple(
            (tuple(present[rows].tolist()), int(sizes[group]))
            for rows, group in zip(some, by_row, strict=True)
        )
        return Repeated(len(groups), int(sizes[groups].sum()), first)

    repeated = told(np.flatnonzero(sizes > 1))
    if rule == "replicate":
        position = np.arange(len(ordered)) - np.repeat(starts, sizes)
        replicate = np.empty(len(ordered), dtype=np.intp)
        replicate[order] = position
        cells = cells * (int(position.max(initial=0)) + 1) + replicate
        return Kept(present, cells, len(present), replicate, repeated)
    chosen = order[starts + sizes - 1 if rule == "last" else starts]
    tied = Repeated()
    if rule == "majority" and not continuous:
        leading, undecided = _majority(np.repeat(np.arange(len(starts)), sizes), labels[order])
        chosen = order[leading]
        tied = told(undecided)
    chosen = np.sort(chosen)
    return Kept(present[chosen], cells[chosen], len(present), None, repeated, tied)


def repeat_problem(
    repeated: Repeated,
    tied: Repeated,
    *,
    rule: str,
    continuous: bool,
    describe: Callable[[tuple[int, ...], int], str],
) -> str:
    """Sentence about cells with several answers that the rule does not settle; empty where it does.

    Parameters
    ----------
    repeated, tied : Repeated
    rule : {"raise", "first", "last", "majority", "replicate"}
    continuous : bool
    describe : callable
        Sentence part about the rows of one cell and how many there are: item, rater, criterion and labels
        as written.
    """

    def told(cells: Repeated) -> str:
        more = f"; and {cells.n_cells - _SHOWN} more" if cells.n_cells > _SHOWN else ""
        return "; ".join(describe(rows, n) for rows, n in cells.first) + more

    if rule == "raise" and repeated.n_cells:
        return (
            f"{counted(repeated.n_cells, 'cell')} {'has' if repeated.n_cells == 1 else 'have'} more than one "
            f"label ({repeated.n_rows} rows): {told(repeated)}. Say which counts: "
            "`duplicates='first'`, 'last', 'majority' or 'replicate'."
        )
    if rule == "majority" and continuous and repeated.n_cells:
        return (
            "`duplicates='majority'` counts equal labels, and a continuous scale has scores; use 'first', "
            f"'last' or 'replicate'. See {told(repeated)}."
        )
    if rule == "majority" and tied.n_cells:
        return (
            f"`duplicates='majority'` has no winner in {counted(tied.n_cells, 'cell')}: "
            f"{told(tied)}. Use 'first', 'last' or 'replicate'."
        )
    return ""


def all_distinct(cells: npt.NDArray[np.int64], n_cells: int) -> bool:
    """Whether no cell, of ``n_cells`` that there could be, stands twice."""
    if len(cells) > n_cells:
        return False
    if n_cells <= max(1 << 24, 8 * len(cells)):
        seen = np.zeros(n_cells, dtype=bool)
        seen[cells] = True
        return int(np.count_nonzero(seen)) == len(cells)
    return len(pd.unique(cells)) == len(cells)


def _majority(
    group: npt.NDArray[np.intp], labels: npt.NDArray[np.integer[Any]]
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """First row of the most frequent label of each group, and the groups where two labels lead."""
    low = int(labels.min()) if len(labels) else 0
    width = int(labels.max()) - low + 1 if len(labels) else 1
    _, first, votes = np.unique(
        group * width + (labels.astype(np.int64) - low), return_index=True, return_counts=True
    )
    of_group = group[first]
    most = np.zeros(int(group[-1]) + 1, dtype=np.int64)
    np.maximum.at(most, of_group, votes)
    leads = votes == most[of_group]
    n_leaders = np.bincount(of_group[leads], minlength=len(most))
    winner = np.empty(len(most), dtype=np.intp)
    winner[of_group[leads][::-1]] = first[leads][::-1]
    return winner, np.flatnonzero(n_leaders > 1)

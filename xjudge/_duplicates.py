"""Which row counts where an item, rater and criterion has several."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from xjudge._ingest import Problems, counted

__all__ = ["RULES", "Kept", "keep_rows"]

RULES: Final = ("raise", "first", "last", "majority", "replicate")
_SHOWN: Final = 5


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
    n_cells : int
        Cells with several answers.
    replicate : ndarray of int, optional
        Under the rule ``"replicate"``, per kept row the how-manieth answer of its cell it is.
    """

    rows: npt.NDArray[np.intp]
    cells: npt.NDArray[np.int64]
    n_present: int
    n_cells: int
    replicate: npt.NDArray[np.intp] | None = None


def keep_rows(
    present: npt.NDArray[np.intp],
    cells: npt.NDArray[np.int64],
    labels: npt.NDArray[np.integer[Any]],
    *,
    n_cells: int,
    rule: str,
    continuous: bool,
    describe: Callable[[npt.NDArray[np.intp]], str],
    problems: Problems,
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
    describe : callable
        Sentence part about the rows of one cell: item, rater, criterion and labels as written.
    problems : Problems
    """
    if rule != "replicate" and _all_distinct(cells, n_cells):
        return Kept(present, cells, len(present), 0)
    order = np.argsort(cells, kind="stable")
    ordered = cells[order]
    is_first = np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]
    starts = np.flatnonzero(is_first)
    sizes = np.diff(np.append(starts, len(ordered)))
    several = np.flatnonzero(sizes > 1)

    def told(groups: npt.NDArray[np.intp]) -> str:
        by_row = groups[np.argsort(order[starts[groups]])]
        parts = []
        for group in by_row[:_SHOWN]:
            rows = order[starts[group] : starts[group] + sizes[group]]
            parts.append(describe(present[rows]))
        more = f"; and {len(groups) - _SHOWN} more" if len(groups) > _SHOWN else ""
        return "; ".join(parts) + more

    if rule == "replicate":
        position = np.arange(len(ordered)) - np.repeat(starts, sizes)
        replicate = np.empty(len(ordered), dtype=np.intp)
        replicate[order] = position
        cells = cells * (int(position.max(initial=0)) + 1) + replicate
        return Kept(present, cells, len(present), len(several), replicate)
    if rule == "raise":
        problems.add(
            f"{counted(len(several), 'cell')} {'has' if len(several) == 1 else 'have'} more than one label "
            f"({int(sizes[several].sum())} rows): {told(several)}. Say which counts: "
            "`duplicates='first'`, 'last', 'majority' or 'replicate'."
        )
    chosen = order[starts + sizes - 1 if rule == "last" else starts]
    if rule == "majority" and continuous:
        problems.add(
            "`duplicates='majority'` counts equal labels, and a continuous scale has scores; use 'first', "
            f"'last' or 'replicate'. See {told(several)}."
        )
    elif rule == "majority":
        leading, tied = _majority(np.repeat(np.arange(len(starts)), sizes), labels[order])
        chosen = order[leading]
        if len(tied):
            problems.add(
                f"`duplicates='majority'` has no winner in {counted(len(tied), 'cell')}: "
                f"{told(tied)}. Use 'first', 'last' or 'replicate'."
            )
    chosen = np.sort(chosen)
    return Kept(present[chosen], cells[chosen], len(present), len(several))


def _all_distinct(cells: npt.NDArray[np.int64], n_cells: int) -> bool:
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

"""What each rater of a crowd was asked and said, and who meets whom, counted from answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from xjudge._sparse import Answers
from xjudge.codes import raw_index
from xjudge.errors import ProtocolError
from xjudge.lazy import metadata_values
from xjudge.statistics.answers import parts, rater_counts, unknown
from xjudge.statistics.counts import Request

__all__ = ["CrowdCounts"]

Ints = npt.NDArray[np.int64]


class CrowdCounts:
    """Requests to the pass over answers, and what they come to.

    Parameters
    ----------
    answers : Answers
    members : ndarray of int
        Positions of the raters that count.
    n_categories : int
    population : array of bool, optional
        Items that count (item,); lazy ones are read here.
    group : ndarray of int, optional
        Slice of each item, -1 for none.
    n_groups : int
        0 where there are no slices.
    """

    def __init__(
        self,
        answers: Answers,
        members: npt.NDArray[np.intp],
        n_categories: int,
        population: Any = None,
        group: npt.NDArray[np.int64] | None = None,
        n_groups: int = 0,
    ) -> None:
        self.members, self.n_categories, self.n_groups = members, n_categories, n_groups
        self.n_raters, self.n_cells = answers.n_raters, answers.n_cells
        kept = np.ones(answers.n_items, dtype=bool) if population is None else metadata_values(population)
        if kept.ndim > 1:
            raise ProtocolError("On the sparse layout a population is of items, without criteria.")
        slots = np.zeros(answers.n_items, dtype=np.int64) if group is None else group
        inside = kept & (slots >= 0)
        self.n_items = np.bincount(slots[inside], minlength=max(n_groups, 1))
        among = np.zeros(answers.n_raters, dtype=bool)
        among[members] = True
        self.arrays = answers.listed(
            None if inside.all() else inside, among, None if group is None else slots
        )
        n = self.n_raters * max(n_groups, 1)
        self.requests: list[Request] = [
            unknown(n_categories),
            rater_counts(n, self.n_cells, n_categories),
            parts(n, self.n_cells),
        ]

    def of(self, counted: list[Any]) -> tuple[Ints, Ints]:
        """Counts ([group,] cell, rater, place), and the connected part ([group,] rater) of each member."""
        groups = max(self.n_groups, 1)
        single = counted[1].reshape((self.n_cells, groups, self.n_raters, -1))
        single = np.moveaxis(single[:, :, self.members], 0, 1).copy()
        missing = raw_index("missing", self.n_categories)
        single[..., missing] = 0
        single[..., missing] = self.n_items[:, None, None] - single.sum(-1)
        part = counted[2].reshape((groups, self.n_raters))[:, self.members]
        component = np.stack([_renumbered(row) for row in part])
        return (single, component) if self.n_groups else (single[0], component[0])


def _renumbered(part: Ints) -> Ints:
    """Numbers from 0 in order of first appearance."""
    first, where = np.unique(part, return_index=True, return_inverse=True)[1:]
    return np.asarray(np.argsort(np.argsort(first))[where], dtype=np.int64)

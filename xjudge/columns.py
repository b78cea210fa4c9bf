"""Columns that a protocol adds to the pass: extracted labels, item verdicts, majority references.

Each is computed block by block from the labels, so the pass stays one pass. The callables are classes and
not closures, so that schedulers can send them to other processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from xjudge._extraction import extracted
from xjudge._item_verdicts import ItemLevel, criterion_weights, item_level, scored
from xjudge.codes import CA, INVALID, MISSING, smallest_dtype, to_codes, translate
from xjudge.lazy import map_items

__all__ = [
    "NO_VOTE",
    "TIED",
    "ItemLevel",
    "criterion_weights",
    "extracted",
    "item_level",
    "majority",
    "paired",
    "scored",
]

Codes = npt.NDArray[np.signedinteger]

NO_VOTE = CA
"""Code of a majority column where somebody was asked and nobody gave a vote that counts."""

TIED = INVALID
"""Code of a majority column where the vote is tied."""


# -------------------------------------------------------------------------------------------------- majority


def majority(
    codes: Any, targets: tuple[int, ...], humans: Sequence[int], left_out: Sequence[int | None]
) -> Any:
    """Columns of the humans' plurality vote, in protocol codes.

    Parameters
    ----------
    codes : array, shape (item, rater, cell)
    targets : tuple of int
        Per raw place the category that is voted for, negative where there is no vote.
    humans : sequence of int
        Who votes.
    left_out : sequence of int or None
        One column each: with that rater's own vote left out, or with all votes.

    Returns
    -------
    array of signed int, shape (item, column, cell)
        The category with the most votes; :data:`TIED` where several have; :data:`NO_VOTE` where
        somebody was asked but nobody voted; missing where nobody was asked.
    """
    dtype = smallest_dtype(max(targets) + 1)
    vote = _Vote(targets, tuple(humans), tuple(left_out), dtype)
    return map_items(vote, [codes], shape=(len(left_out), codes.shape[2]), dtype=dtype)


class _Vote:
    def __init__(
        self,
        targets: tuple[int, ...],
        humans: tuple[int, ...],
        left_out: tuple[int | None, ...],
        dtype: np.dtype[np.signedinteger],
    ) -> None:
        self.targets, self.humans, self.left_out, self.dtype = targets, humans, left_out, dtype

    def __call__(self, codes: npt.NDArray[Any]) -> Codes:
        n_items, _, n_cells = codes.shape
        out = np.empty((n_items, len(self.left_out), n_cells), dtype=self.dtype)
        voters = translate(to_codes(codes[:, list(self.humans)]), self.targets)
        for column, absent in enumerate(self.left_out):
            present = [position for position, human in enumerate(self.humans) if human != absent]
            out[:, column] = self._winner(voters[:, present])
        return out

    def _winner(self, voters: Codes) -> Codes:
        n_categories = max(self.targets) + 1
        winner = np.full((voters.shape[0], voters.shape[2]), MISSING, dtype=self.dtype)
        winner[(voters != MISSING).any(1)] = NO_VOTE
        most = np.zeros(winner.shape, dtype=np.int32)
        for category in range(n_categories):
            votes = (voters == category).sum(1, dtype=np.int32)
            ahead = votes > most
            level = (votes == most) & (votes > 0)
            winner[level] = TIED
            winner[ahead] = category
            most = np.maximum(most, votes)
        return winner


# ----------------------------------------------------------------------------------------------------- pairs


def paired(
    codes: Any, targets: tuple[int, ...], n_categories: int, pairs: Sequence[tuple[int, int | None, int]]
) -> Any:
    """Columns of two raters judged together: what one says and what the other says, in one code.

    Parameters
    ----------
    codes : array, shape (item, rater, cell)
    targets : tuple of int
        Per raw place the category of the protocol, negative where there is none.
    n_categories : int
        Categories L of the protocol.
    pairs : sequence of (int, int or None, int)
        Positions of the two raters; ``None`` for one who always says the category that follows.

    Returns
    -------
    array of signed int, shape (item, pair, cell)
        ``x L + y`` where both raters have a category; missing where either is missing, otherwise CA.
    """
    dtype = smallest_dtype(n_categories**2)
    pair = _Pair(targets, n_categories, tuple(pairs), dtype)
    return map_items(pair, [codes], shape=(len(pairs), codes.shape[2]), dtype=dtype)


class _Pair:
    def __init__(
        self,
        targets: tuple[int, ...],
        n_categories: int,
        pairs: tuple[tuple[int, int | None, int], ...],
        dtype: np.dtype[np.signedinteger],
    ) -> None:
        self.targets, self.n_categories, self.pairs, self.dtype = targets, n_categories, pairs, dtype

    def __call__(self, codes: npt.NDArray[Any]) -> Codes:
        out = np.empty((codes.shape[0], len(self.pairs), codes.shape[2]), dtype=self.dtype)
        known = translate(to_codes(codes), self.targets)
        for column, (first, second, constant) in enumerate(self.pairs):
            a = known[:, first].astype(np.int64)
            b = np.full_like(a, constant) if second is None else known[:, second].astype(np.int64)
            neither = (a < 0) | (b < 0)
            missing = (a == MISSING) | (b == MISSING)
            both = a * self.n_categories + b
            out[:, column] = np.where(missing, MISSING, np.where(neither, CA, both))
        return out

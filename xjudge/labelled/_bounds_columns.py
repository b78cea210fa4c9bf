"""What one judge's verdict on an item can be worth, where several humans stand behind the reference.

A verdict that meets K humans sits in K cells of the pooled table, and completing it moves all of them
together; a vote is open as long as some completion of the humans' open labels changes it. Both are settled
item by item, here, and carried through the pass as one small code per item, judge and cell.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from xjudge.codes import MISSING, smallest_dtype, to_codes, translate
from xjudge.lazy import map_items
from xjudge.statistics.bounds import VOTE_KINDS

__all__ = ["AGREE", "DISAGREE", "LEAVE", "MOST_HUMANS", "OPEN", "VOTES", "coded", "triples"]

Codes = npt.NDArray[np.signedinteger]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

MOST_HUMANS = 20
"""Humans up to which the extremes of an item are coded (1,770 codes)."""

AGREE, DISAGREE, LEAVE, OPEN = 1, 2, 4, 8
"""What completions of a case can come to under a vote, and whether any of it is open; codes are sums."""

VOTES = 16
"""Codes of a case under a vote."""


def triples(n_humans: int) -> Ints:
    """Least and most agreements of a verdict with the humans it meets, and how many it meets, by code."""
    return np.array(
        [
            (least, most, pairs)
            for pairs in range(1, n_humans + 1)
            for most in range(pairs + 1)
            for least in range(most + 1)
        ],
        dtype=np.int64,
    ).reshape(-1, 3)


def coded(
    labels: Any,
    targets: tuple[int, ...],
    n_categories: int,
    humans: tuple[int, ...],
    judges: tuple[int, ...],
    kind: Literal["extremes", "votes", "kinds"],
) -> tuple[Any, int]:
    """Columns of codes: one that is always 0, then one for each judge.

    Parameters
    ----------
    labels : array, shape (item, rater, cell)
    targets : tuple of int
        Per raw place the category, ``n_categories`` where the verdict is unresolved, otherwise negative.
    n_categories : int
    humans, judges : tuple of int
        Positions of the raters.
    kind : {"extremes", "votes", "kinds"}
        Places in :func:`triples`; codes of a case under the humans' vote, by what it does to accuracy
        (:data:`AGREE` and the like) or, for two categories, by the cells that it may come to
        (:func:`xjudge.statistics.bounds.vote_bounds`).

    Returns
    -------
    codes : array of signed int, shape (item, 1 + judge, cell)
        Missing where no completion puts the case into a table. Lazy where the labels are.
    n_codes : int
    """
    how: type[_Columns] = {"extremes": _Extremes, "votes": _Votes, "kinds": _Kinds}[kind]
    n_codes = {"extremes": len(triples(len(humans))), "votes": VOTES, "kinds": VOTE_KINDS}[kind]
    dtype = smallest_dtype(n_codes)
    function: Callable[..., Any] = how(targets, n_categories, humans, judges, dtype)
    return map_items(function, [labels], shape=(1 + len(judges), labels.shape[2]), dtype=dtype), n_codes


class _Columns:
    """Counts the humans' labels of a block, and codes judge by judge what a subclass makes of them."""

    def __init__(
        self,
        targets: tuple[int, ...],
        n_categories: int,
        humans: tuple[int, ...],
        judges: tuple[int, ...],
        dtype: np.dtype[np.signedinteger],
    ) -> None:
        self.targets, self.n_categories, self.dtype = targets, n_categories, dtype
        self.humans, self.judges = list(humans), list(judges)

    def __call__(self, labels: npt.NDArray[Any]) -> Codes:
        known = translate(to_codes(labels), self.targets)
        humans = known[:, self.humans]
        votes = np.stack([(humans == y).sum(1, dtype=np.int64) for y in range(self.n_categories)])
        open_ = (humans == self.n_categories).sum(1, dtype=np.int64)
        prepared = self._prepared(votes, open_)
        out = np.zeros((len(labels), 1 + len(self.judges), labels.shape[2]), dtype=self.dtype)
        for column, judge in enumerate(self.judges, start=1):
            said = known[:, judge].astype(np.int64)
            code = self._code(prepared, said)
            out[:, column] = np.where(said < 0, MISSING, code)
        return out

    def _prepared(self, votes: Ints, open_: Ints) -> tuple[Ints, ...]:
        raise TypeError("a kind of column says how")

    def _code(self, prepared: tuple[Ints, ...], said: Ints) -> Ints:
        raise TypeError("a kind of column says how")

    def _of_said(self, by_category: Ints, said: Ints) -> Ints:
        """Of arrays (category, item, cell) the entry of the category that was said."""
        place = np.clip(said, 0, self.n_categories - 1)
        return np.take_along_axis(by_category, place[None], 0)[0]


class _Extremes(_Columns):
    """Places in :func:`triples`."""

    def _prepared(self, votes: Ints, open_: Ints) -> tuple[Ints, ...]:
        n = len(self.humans)
        place = np.full((n + 1, n + 1, n + 1), MISSING, dtype=np.int64)
        all_ = triples(n)
        place[tuple(all_.T)] = np.arange(len(all_))
        return votes, open_, votes.min(0), votes.max(0), votes.sum(0) + open_, place

    def _code(self, prepared: tuple[Ints, ...], said: Ints) -> Ints:
        votes, open_, fewest, most, pairs, place = prepared
        own = self._of_said(votes, said)
        unresolved = said == self.n_categories
        return place[np.where(unresolved, fewest, own), np.where(unresolved, most, own) + open_, pairs]


class _Votes(_Columns):
    """Sums of :data:`AGREE`, :data:`DISAGREE`, :data:`LEAVE` and :data:`OPEN`.

    With ``u`` open labels, a category wins in some completion iff it does when it gets all of them. Two tie
    at the top at some height t iff t is at least the highest count, the two can be raised to it, and the
    rest has room below: ``2t - a1 - a2 <= u`` and ``u + N <= L t``.
    """

    def _prepared(self, votes: Ints, open_: Ints) -> tuple[Ints, ...]:
        ordered = np.sort(votes, axis=0)
        first, second, total = ordered[-1], ordered[-2], votes.sum(0) + open_
        rivals = np.where(votes == first, second, first)
        wins = (votes + open_ > rivals).astype(np.int64)
        least_height = np.maximum(first, -(-total // self.n_categories))
        tie = ((least_height <= (open_ + first + second) // 2) & (total > 0)).astype(np.int64)
        return wins, wins.sum(0), tie

    def _code(self, prepared: tuple[Ints, ...], said: Ints) -> Ints:
        wins, n_wins, tie = prepared
        unresolved = said == self.n_categories
        own = self._of_said(wins, said)
        agree = np.where(unresolved, n_wins > 0, own > 0)
        disagree = np.where(unresolved, n_wins > 0, n_wins > own)
        is_open = (unresolved | (n_wins + tie > 1)) & (agree | disagree)
        code = AGREE * agree + DISAGREE * disagree + LEAVE * (tie > 0) + OPEN * is_open
        return np.where(code > 0, code, MISSING)


class _Kinds(_Votes):
    """Kinds of cases under a vote on two categories: what may win, whether it may tie, the verdict."""

    def _code(self, prepared: tuple[Ints, ...], said: Ints) -> Ints:
        wins, n_wins, tie = prepared
        bits = wins[0] + 2 * wins[1] + 4 * (tie > 0)
        return np.where(n_wins > 0, 3 * bits + said, MISSING)

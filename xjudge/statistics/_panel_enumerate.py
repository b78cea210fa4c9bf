"""The enumeration of all panels of a size: exact scores and matrix sums, chunk by chunk.

Panels that share their first members share vote counters and running sums of matrix rows. In numpy, batches
of prefixes are completed by every later judge at once; with the ``fast`` extra the loop is compiled and goes
depth-first.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.errors import DependencyError, ProtocolError, StructureError
from xjudge.statistics._panel_inputs import Floats
from xjudge.statistics._panel_score import (
    BATCH_WORDS,
    Plan,
    Votes,
    batch_scores,
    gold_outcomes,
    panel_subsets,
    score_plan,
    vote_counters,
)

__all__ = ["PanelChunk", "enumerate_panels"]

CHUNK_PANELS = 4_000_000
"""Panels held at a time; their scores and two sums take 100 MB."""

FEW_PANELS = 100_000
"""Below this many panels numpy is done before compiled code is loaded."""


class PanelChunk(NamedTuple):
    """Consecutive panels of an enumeration; see :func:`enumerate_panels`.

    Attributes
    ----------
    start : int
        Lexicographic rank of the first; :func:`panel_members` gives members of ranks.
    scores : ndarray of int32 or int64 (p,)
        Exact scores.
    sums : ndarray (M, p)
        For each matrix, the sum of its entries over the panel's pairs, diagonal included.
    """

    start: int
    scores: npt.NDArray[np.signedinteger]
    sums: Floats


def enumerate_panels(
    votes: Votes, matrices: npt.ArrayLike, k: int, *, n_fixed: int = 0, fast: bool | None = None
) -> Iterator[PanelChunk]:
    """Score every panel of size k of the pool, chunk by chunk in lexicographic order.

    Parameters
    ----------
    votes : Votes
        From :func:`vote_planes`.
    matrices : array-like (M, N, N)
        Symmetric matrices whose sums over a panel are wanted, such as the squared scaled Gram matrix and
        the Gram matrix; NaN rows make the sums of their panels NaN.
    k : int
        Size, from 1 to N.
    n_fixed : int
        Only panels with the first ``n_fixed`` judges of the pool; those come first in the order.
    fast : bool or None
        Compiled (``True``), numpy (``False``), or compiled where numba is present and it pays (``None``).

    Yields
    ------
    PanelChunk
        Of at most about four million panels.

    Raises
    ------
    ProtocolError
        For a size outside the pool.
    DependencyError
        For ``fast=True`` without numba.
    """
    stack = np.ascontiguousarray(matrices, dtype=np.float64)
    n_judges = votes.n_judges
    if not 1 <= k <= n_judges:
        raise ProtocolError(
            f"k={k}: a panel takes from 1 to {n_judges} of the {n_judges} judges of the pool."
        )
    if stack.ndim != 3 or stack.shape[1:] != (n_judges, n_judges):
        raise StructureError(f"matrices have shape {stack.shape}; the pool has {n_judges} judges.")
    if not 0 <= n_fixed <= k:
        raise ProtocolError(f"A panel of {k} cannot have {n_fixed} fixed members.")
    plan = score_plan(votes, k)
    compiled = _use_numba(fast, math.comb(n_judges - n_fixed, k - n_fixed))
    # The loop completes prefixes of k - 1 members, so the last member is never part of the head.
    fixed = tuple(range(min(n_fixed, k - 1)))
    start = 0
    for head in _heads(fixed, n_judges, k):
        low = head[-1] + 1 if head else 0
        n_panels = math.comb(n_judges - low, k - len(head))
        if compiled:
            scores, sums = _compiled_chunk(votes, stack, head, k, plan, n_panels)
        else:
            scores, sums = _numpy_chunk(votes, stack, head, k, plan, n_panels)
        if n_fixed == k:
            scores, sums = scores[:1], sums[:, :1]
        yield PanelChunk(start, scores, sums)
        start += n_panels


def _use_numba(fast: bool | None, n_panels: int) -> bool:
    """Whether to run the compiled loop."""
    present = importlib.util.find_spec("numba") is not None
    if fast and not present:
        raise DependencyError(
            "The compiled enumeration needs numba: install `xjudge[fast]`, or use fast=None."
        )
    return present and (fast or (fast is None and n_panels > FEW_PANELS))


def _heads(head: tuple[int, ...], n_judges: int, k: int) -> Iterator[tuple[int, ...]]:
    """First members that split all panels into chunks of bounded size, in lexicographic order."""
    low = head[-1] + 1 if head else 0
    if math.comb(n_judges - low, k - len(head)) <= CHUNK_PANELS or k - len(head) <= 1:
        yield head
        return
    for member in range(low, n_judges - (k - len(head)) + 1):
        yield from _heads((*head, member), n_judges, k)


def _empty_scores(votes: Votes, plan: Plan, n_panels: int) -> npt.NDArray[np.signedinteger]:
    """Room for scores, in 32 bits where they fit."""
    largest = max(plan.credit) * votes.n_items
    return np.empty(n_panels, dtype=np.int32 if largest < 2**31 else np.int64)


def _compiled_chunk(
    votes: Votes, matrices: Floats, head: tuple[int, ...], k: int, plan: Plan, n_panels: int
) -> tuple[npt.NDArray[np.signedinteger], Floats]:
    """One chunk by the compiled loop."""
    from xjudge.statistics._panel_fast import enumerate_chunk

    scores = _empty_scores(votes, plan, n_panels)
    sums = np.empty((len(matrices), n_panels))
    diagonals = np.ascontiguousarray(np.diagonal(matrices, axis1=1, axis2=2))
    # The lengths of these tuples are compile-time constants of the loop.
    labels, bits, most = (0,) * votes.planes.shape[1], (0,) * plan.n_bits, (0,) * plan.sizes[-1]
    enumerate_chunk(
        votes.planes,
        votes.valid,
        np.array(head, dtype=np.int64),
        k,
        labels,
        bits,
        plan.sizes,
        plan.credit,
        most,
        matrices,
        diagonals,
        scores,
        sums,
    )
    return scores, sums


def _numpy_chunk(
    votes: Votes, matrices: Floats, head: tuple[int, ...], k: int, plan: Plan, n_panels: int
) -> tuple[npt.NDArray[np.signedinteger], Floats]:
    """One chunk in numpy: batches of prefixes of k - 1 members, each completed by every later judge."""
    n_judges = votes.n_judges
    planes = np.ascontiguousarray(votes.planes.transpose(1, 2, 0))
    scores = _empty_scores(votes, plan, n_panels)
    sums = np.empty((len(matrices), n_panels))
    diagonals = np.diagonal(matrices, axis1=1, axis2=2)
    low = head[-1] + 1 if head else 0
    prefixes = panel_subsets(low, n_judges - 1, k - 1 - len(head))
    prefixes = np.concatenate([np.broadcast_to(head, (len(prefixes), len(head))), prefixes], axis=1)
    prefixes = prefixes.astype(np.int64)
    last = prefixes[:, -1] if k > 1 else np.full(len(prefixes), -1)
    start = np.concatenate([[0], np.cumsum(n_judges - 1 - last)])[:-1]
    step = max(1, BATCH_WORDS // planes.shape[1])
    # Prefixes with the same last member are completed by the same judges.
    order = np.argsort(last, kind="stable")
    for group in np.split(order, np.flatnonzero(np.diff(last[order])) + 1):
        for begin in range(0, len(group), step):
            part = group[begin : begin + step]
            first = int(last[part[0]]) + 1
            outcome = gold_outcomes(
                vote_counters(planes, prefixes[part], plan.n_bits), votes.valid, plan.sizes
            )
            for judge in range(first, n_judges):
                scores[start[part] + judge - first] = batch_scores(
                    outcome, list(planes[:, :, judge, None]), plan.credit
                )
            where = start[part][:, None] + np.arange(n_judges - first)
            for m, matrix in enumerate(matrices):
                rows = matrix[prefixes[part]].sum(1)
                base = np.take_along_axis(rows, prefixes[part], axis=1).sum(1)
                sums[m, where] = base[:, None] + 2.0 * rows[:, first:] + diagonals[m, first:]
    return scores, sums

"""All panels of a size: the best under each rule, what beats S0, and the Pareto front."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from xjudge.errors import ProtocolError, XJudgeWarning
from xjudge.statistics._panel_enumerate import enumerate_panels
from xjudge.statistics._panel_inputs import Flags, Floats
from xjudge.statistics._panel_pool import PanelQuantities, quantities_of, quantities_of_sums
from xjudge.statistics._panel_rules import TIE, Best, Front
from xjudge.statistics._panel_score import Integers, panel_members, panel_rank
from xjudge.statistics._panel_task import Task, larger_size, member_flags

__all__ = ["Enumeration", "all_panels", "check_number"]

MANY_PANELS = 1_000_000_000
"""Above this many panels an enumeration takes minutes to hours, and says so."""

SLICE_PANELS = 1 << 18
"""Panels of an enumeration that are judged at a time."""


class Enumeration(NamedTuple):
    """Results over all allowed panels of the size, S0 among them.

    ``percentile_*``: percentage of panels strictly below S0. ``front_member`` (F, N) are the panels that no
    other beats in accuracy and nu_H at once, the most accurate first, with their ``front`` quantities.
    """

    n_panels: int
    n_more_accurate: int
    n_dominating: int
    percentile_accuracy: float
    percentile_nu_h: float
    baseline_on_front: bool
    front_member: Flags
    front: PanelQuantities


def check_number(task: Task) -> None:
    """Say so where an enumeration will take long, and refuse it where it has no end."""
    n_fixed = len(task.constraints.must)
    n_panels = math.comb(task.pool.votes.n_judges - n_fixed, task.k - n_fixed)
    if n_panels >= 2**62:
        raise ProtocolError(f"search='all': {n_panels} panels cannot be enumerated; use search='bounded'.")
    if n_panels > MANY_PANELS:
        warnings.warn(
            f"search='all' goes through {n_panels} panels; search='bounded' goes through few of them.",
            XJudgeWarning,
            stacklevel=4,
        )


def all_panels(
    task: Task, base: PanelQuantities, best: list[Best], fast: bool | None
) -> tuple[Enumeration, list[Integers]]:
    """Go through all allowed panels of the size."""
    pool, k, constraints = task.pool, task.k, task.constraints
    own = any(callable(rule) for rule in task.rules)
    loads = np.array([np.diag(row) for row in constraints.weights]).reshape(-1, *pool.matrices.shape[1:])
    # Only own objectives look at more than C squared and K: sums that nobody reads are not made.
    read = pool.matrices if own else pool.matrices[:2]
    s0 = int(panel_rank(task.baseline, pool.votes.n_judges))
    front, counts = Front(), np.zeros(5, dtype=np.int64)
    ratio0 = float(base.participation_ratio[0])
    for ranks, scores, sums in _slices(task, np.concatenate([read, loads]), fast):
        allowed = constraints.within(sums[len(read) :])
        ranks, scores, sums = ranks[allowed], scores[allowed], sums[: len(read), allowed]
        unread = np.full((len(pool.matrices) - len(read), len(scores)), np.nan)
        quantities = quantities_of_sums(pool, k, scores, np.concatenate([sums, unread]))
        ratio, better = quantities.participation_ratio, scores > base.score[0]
        counts += [
            len(ranks),
            better.sum(),
            (better & larger_size(ratio, ratio0)).sum(),
            (scores < base.score[0]).sum(),
            (ratio < ratio0 * (1 - TIE)).sum(),
        ]
        front.see(quantities, ranks)
        if len(ranks) and ranks[0] <= s0 <= ranks[-1]:
            others = ranks != s0
            ranks, quantities = ranks[others], PanelQuantities(*(field[others] for field in quantities))
        for one in best:
            one.see(quantities, ranks)
    on_front = front.members()
    chosen = [_first_edit(task, panel_members(one.tied(), pool.votes.n_judges, k)) for one in best]
    front_members = panel_members(on_front, pool.votes.n_judges, k)
    n_panels = int(counts[0])
    return (
        Enumeration(
            n_panels,
            int(counts[1]),
            int(counts[2]),
            100.0 * int(counts[3]) / n_panels,
            100.0 * int(counts[4]) / n_panels if not np.isnan(ratio0) else float("nan"),
            bool((on_front == s0).any()),
            member_flags(front_members, task.source, task.n_judges),
            quantities_of(pool, front_members),
        ),
        chosen,
    )


def _slices(task: Task, matrices: Floats, fast: bool | None) -> Iterator[tuple[Integers, Integers, Floats]]:
    """Ranks, scores and matrix sums of all panels, some at a time: temporary arrays stay small."""
    n_fixed = len(task.constraints.must)
    for chunk in enumerate_panels(task.pool.votes, matrices, task.k, n_fixed=n_fixed, fast=fast):
        for low in range(0, len(chunk.scores), SLICE_PANELS):
            part = slice(low, low + SLICE_PANELS)
            scores = chunk.scores[part].astype(np.int64)
            yield chunk.start + low + np.arange(len(scores)), scores, chunk.sums[:, part]


def _first_edit(task: Task, members: Integers) -> Integers:
    """Return the first of tied panels: fewer swaps, then by the members removed, then by those added."""
    base = set(task.baseline.tolist())

    def edit(panel: list[int]) -> tuple[int, list[int], list[int]]:
        removed = sorted(int(task.position[judge]) for judge in base - set(panel))
        added = sorted(int(task.position[judge]) for judge in set(panel) - base)
        return len(removed), removed, added

    if len(members) < 2:
        return members
    return np.array([min(members.tolist(), key=edit)], dtype=np.int64)

"""Search for a panel where the pool is too large to enumerate, with a statement of what is guaranteed.

A beam over sizes and swaps until none improves give a panel under any rule. Where the rule minimises a sum
over pairs (A: squared correlations, E: Gram entries), branch and bound then proves it optimal or finds a
better one, as far as the node limit allows.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from xjudge.statistics._panel_inputs import Floats
from xjudge.statistics._panel_pool import (
    Constraints,
    PanelQuantities,
    Pool,
    candidate_counts,
    quantities_of,
    swap_candidates,
)
from xjudge.statistics._panel_rules import TIE, Best, Rule
from xjudge.statistics._panel_score import Integers, score_panels

__all__ = ["Found", "bounded_search"]

BEAM_WIDTH = 200
"""Partial panels kept at each size of the beam."""

LOCAL_STARTS = 5
"""Panels of the beam that are improved by swaps."""


MANY_SWAPS = 30_000
"""Up to so many panels within two swaps, pairs of swaps are tried as well."""


class Found(NamedTuple):
    """A panel (1, k), or none (0, k), and what is known about it."""

    members: Integers
    guarantee: str


def bounded_search(
    pool: Pool,
    k: int,
    constraints: Constraints,
    rule: Rule,
    baseline: Integers,
    near: Integers,
    *,
    max_nodes: int = 200_000,
) -> Found:
    """Take a panel under a rule without enumerating all of them.

    Parameters
    ----------
    pool : Pool
    k : int
    constraints : Constraints
    rule : "A", "D", "E" or callable
    baseline : ndarray of int (k,)
        S0.
    near : ndarray of int (p, k)
        Panels that must be considered in any case: those within two swaps of S0.
    max_nodes : int
        Partial panels that branch and bound may bound (rules A and E).

    Returns
    -------
    Found
        ``guarantee`` says one of: optimal (branch and bound ran to its end); best found, with the bound that
        no panel can pass; best found by beam and swaps.
    """
    score = int(quantities_of(pool, baseline[None]).score[0])
    starts = _beam(pool, k, constraints, rule)
    panels = [_improve(pool, constraints, rule, score, panel) for panel in starts[:LOCAL_STARTS]]
    panels.append(_best(pool, rule, score, near))
    best = _best(pool, rule, score, np.concatenate([panel for panel in panels if len(panel)] or [near[:0]]))
    pairs = sum(candidate_counts(pool.votes.n_judges, k)) <= MANY_SWAPS
    if len(best):
        best = _improve(pool, constraints, rule, score, best[0], sizes=(1, 2) if pairs else (1,))
    if rule not in ("A", "E"):
        swaps = "one swap or two improve" if pairs else "single swap improves"
        return Found(best, f"best found by beam search; no {swaps} it, and nothing more is known")
    matrix = pool.matrices[0] if rule == "A" else pool.matrices[1]
    # A member without residual energy makes the ratio undefined: no panel of rule A has it.
    usable = np.flatnonzero(~np.isnan(np.diagonal(matrix)))
    return _branch_and_bound(pool, k, constraints, str(rule), score, best, (matrix, usable), max_nodes)


def _best(pool: Pool, rule: Rule, baseline_score: int, members: Integers) -> Integers:
    """Return the best of given panels, shape (1, k) or (0, k)."""
    if not len(members):
        return members
    best = Best(rule, baseline_score, float(np.trace(pool.matrices[1])) / pool.votes.n_judges)
    best.see(quantities_of(pool, members), np.arange(len(members)))
    return members[best.tied()[:1]]


def _improve(
    pool: Pool,
    constraints: Constraints,
    rule: Rule,
    baseline_score: int,
    panel: Integers,
    sizes: tuple[int, ...] = (1,),
) -> Integers:
    """Swap one member (or two) while that improves the panel under the rule; (1, k), or (0, k)."""
    current = panel
    while True:
        members, _ = swap_candidates(current, pool.votes.n_judges, constraints, sizes=sizes)
        # The current panel goes first, so that ties stay.
        candidates = np.concatenate([current[None], members])
        best = _best(pool, rule, baseline_score, candidates)
        if not len(best) or (best[0] == current).all():
            return best
        current = best[0]


def _beam(pool: Pool, k: int, constraints: Constraints, rule: Rule) -> Integers:
    """Panels grown one member at a time, the best partial panels kept at each size; (p, k), best first."""
    n_judges = pool.votes.n_judges
    partial = np.sort(constraints.must)[None]
    for size in range(partial.shape[1] + 1, k + 1):
        grown = np.concatenate(
            [np.repeat(partial, n_judges, 0), np.tile(np.arange(n_judges), len(partial))[:, None]], 1
        )
        grown = grown[(grown[:, :-1] != grown[:, -1:]).all(1)]
        grown = np.unique(np.sort(grown, axis=1), axis=0)
        if size == k:
            grown = grown[constraints.allows(grown)]
        else:
            grown = grown[constraints.within(constraints.weights[:, grown].sum(-1))]
        order = _ranking(quantities_of(pool, grown), rule)
        partial = grown[order[:BEAM_WIDTH]]
    return partial


def _ranking(quantities: PanelQuantities, rule: Rule) -> Integers:
    """Order of partial panels under a rule, without its comparison to S0."""
    ratio = np.nan_to_num(quantities.participation_ratio, nan=-np.inf)
    if rule == "A":
        return np.argsort(-ratio, kind="stable")
    if rule == "D":
        return np.lexsort((-ratio, -quantities.score))
    if rule == "E":
        return np.argsort(quantities.distributional_error, kind="stable")
    assert callable(rule)
    value = np.asarray(rule(quantities), dtype=np.float64)
    return np.argsort(-np.nan_to_num(value, nan=-np.inf), kind="stable")


# ------------------------------------------------------------------------------------------ branch and bound


class _Node(NamedTuple):
    """A partial panel: its members (in the order of the search), sum, marginal sums, and lower bound."""

    bound: float
    members: tuple[int, ...]
    total: float
    marginal: Floats


def _branch_and_bound(
    pool: Pool,
    k: int,
    constraints: Constraints,
    rule: str,
    baseline_score: int,
    incumbent: Integers,
    objective: tuple[Floats, Integers],
    max_nodes: int,
) -> Found:
    """Minimise the sum of a matrix over a panel that is more accurate than S0."""
    matrix, usable = objective
    must = [int(judge) for judge in constraints.must]
    if not set(must) <= set(usable.tolist()):
        return Found(incumbent[:0], "a fixed member has no residual energy")
    free = np.array([judge for judge in usable if judge not in must], dtype=np.int64)
    # Judges with small sums first: good panels early, and tight bounds on the rest.
    free = free[np.argsort(matrix[np.ix_(free, usable)].sum(1), kind="stable")]
    order = np.concatenate([np.array(must, dtype=np.int64), free])
    M = matrix[np.ix_(order, order)]
    smallest = _smallest_sums(M, k)
    slack = TIE * max(float(np.trace(M)), 1e-300)
    best = float(matrix[np.ix_(incumbent[0], incumbent[0])].sum()) if len(incumbent) else np.inf
    diagonal = np.diagonal(M)
    head = tuple(range(len(must)))
    root = _Node(
        -np.inf, head, float(M[: len(must), : len(must)].sum()), diagonal + 2.0 * M[list(head)].sum(0)
    )
    stack, n_nodes, open_bound = [root], 0, np.inf
    while stack:
        node = stack.pop()
        if node.bound >= best - slack:
            continue
        if n_nodes >= max_nodes:
            open_bound = min(open_bound, node.bound)
            continue
        children = _children(node, M, k, smallest, best - slack)
        n_nodes += len(order) - (node.members[-1] + 1 if node.members else 0)
        panels = _placed(order, children, len(node.members) + 1)
        allowed = np.flatnonzero(constraints.within(constraints.weights[:, panels].sum(-1)))
        children = [children[place] for place in allowed]
        if len(node.members) + 1 < k:
            stack.extend(sorted(children, key=lambda child: -child.bound))
            continue
        leaves = panels[allowed]
        accurate = np.flatnonzero(score_panels(pool.votes, leaves) > baseline_score)
        if len(accurate):
            first = min(accurate, key=lambda leaf: children[leaf].total)
            best, incumbent = children[first].total, np.sort(leaves[first])[None]
    return Found(incumbent, _statement(rule, k, len(incumbent) > 0, open_bound, best, n_nodes))


def _placed(order: Integers, nodes: list[_Node], size: int) -> Integers:
    """Members of partial panels as positions in the pool, shape (p, size)."""
    places = [node.members for node in nodes]
    return order[np.array(places, dtype=np.int64).reshape(len(nodes), size)]


def _statement(rule: str, k: int, found: bool, open_bound: float, best: float, n_nodes: int) -> str:
    """Say what the search proved."""
    what = "larger nu_H" if rule == "A" else "smaller distributional error"
    if math.isinf(open_bound):
        if not found:
            return f"no panel of {k} is more accurate than S0 (branch and bound, {n_nodes} nodes)"
        return (
            f"optimal: no panel of {k} more accurate than S0 has a {what} (branch and bound, {n_nodes} nodes)"
        )
    limit = min(open_bound, best)
    if rule == "A":
        # A sum over pairs is at least its diagonal, so PR is at most k.
        bound = f"participation ratio above {k * k / max(limit, k):.6g}"
    else:
        bound = f"distributional error below {max(limit, 0.0) / k**2:.6g}"
    return f"best found; branch and bound stopped after {n_nodes} nodes, but no panel of {k} has a {bound}"


def _smallest_sums(M: Floats, k: int) -> Floats:
    """Sum of the r smallest off-diagonal entries of a row behind a place: ``[place, r, row]``.

    ``place`` p means columns p .. N - 1; infinite where there are fewer than r.
    """
    n = len(M)
    off = np.where(np.eye(n, dtype=bool), np.inf, M)
    sums = np.full((n + 1, k + 1, n), np.inf)
    for place in range(n + 1):
        ordered = np.sort(off[:, place:], axis=1)[:, :k]
        sums[place, 0] = 0.0
        sums[place, 1 : 1 + ordered.shape[1]] = np.cumsum(ordered, axis=1).T
    return sums


def _children(node: _Node, M: Floats, k: int, smallest: Floats, below: float) -> list[_Node]:
    """Partial panels with one member more whose lower bound is below a value.

    What ``more`` further members T add to a sum is ``sum_T (marginal_j + sum_{i in T, i != j} M_ij)``; the
    inner sum is at least the ``more - 1`` smallest entries of the row, and T at least the smallest such.
    """
    n = len(M)
    first = node.members[-1] + 1 if node.members else 0
    more = k - len(node.members) - 1
    places = np.arange(first, n - more)
    totals = node.total + node.marginal[places]
    marginals = node.marginal + 2.0 * M[places]
    bounds = totals
    if more:
        rest = marginals + smallest[places + 1, more - 1]
        rest = np.where(np.arange(n) > places[:, None], rest, np.inf)
        bounds = totals + np.sort(np.partition(rest, more - 1, axis=1)[:, :more], axis=1).sum(1)
    return [
        _Node(float(bounds[row]), (*node.members, int(places[row])), float(totals[row]), marginals[row])
        for row in np.flatnonzero(bounds < below)
    ]

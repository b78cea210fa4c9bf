"""Which tables carry the range of which statistic, for each kind of reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.codes import CA, INVALID, N_OUTCOMES, unused_name
from xjudge.errors import ProtocolError, Reason, listing
from xjudge.labelled._bounds_columns import AGREE, DISAGREE, LEAVE, MOST_HUMANS, OPEN, VOTES, coded, triples
from xjudge.labelled._estimate import OfTable, coefficient
from xjudge.labelled._pass import Pass, Plan
from xjudge.labelled._sides import Sides
from xjudge.scale import Scale
from xjudge.statistics.bounds import (
    STATISTICS,
    VOTE_KINDS,
    category_bounds,
    category_range_at_share,
    range_at_share_with_reason,
    sharp_bounds_with_reason,
    vote_bounds,
)

__all__ = ["Ends", "Route", "bounded_statistics", "covered", "n_open", "open_plan", "outcome_codes", "routes"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_POSITIVE = ("precision", "recall", "specificity", "f1", "rate_reference", "rate_rater")
"""Statistics that need to know which category is positive."""


class Ends(NamedTuple):
    """Both ends of ranges, whether completions attain them, and the reason where they are NaN."""

    lower: Floats
    upper: Floats
    sharp: npt.NDArray[np.bool_]
    reason: npt.NDArray[np.int8]


@dataclass(frozen=True)
class Route:
    """Where the range of a statistic comes from.

    Parameters
    ----------
    counting : Pass
        Whose sides the plan's arrays have.
    plan : Plan
        Collapses the counts to the tables that ``ends`` takes.
    ends : callable
        From tables (..., L, R) and a share to :class:`Ends`.
    open_codes : ndarray of int, optional
        Where the plan counts codes of cases: 1 for those that a completion may change, 0 for others.
    """

    counting: Pass
    plan: Plan
    ends: Callable[[npt.NDArray[Any], float], Ends]
    open_codes: Ints | None = None

    def end(self, share: float, *, upper: bool) -> OfTable:
        """One end as a statistic of tables, for resamples."""

        def value(table: npt.ArrayLike) -> tuple[Floats, npt.NDArray[np.int8]]:
            found = self.ends(np.asarray(table), share)
            return found.upper if upper else found.lower, found.reason

        return OfTable(value, lambda table: np.full(np.shape(table), np.nan))


def outcome_codes(unresolved: str | Sequence[str]) -> tuple[int, ...]:
    """Reserved codes of the outcomes that count as unresolved."""
    names = (unresolved,) if isinstance(unresolved, str) else tuple(unresolved)
    known = {"ca": CA, "invalid": INVALID}
    wrong = [name for name in names if name not in known]
    if wrong or not names:
        raise ProtocolError(
            '`unresolved` names one or both of "ca" and "invalid" (a missing label never is unresolved); '
            f"got {listing(names)}."
        )
    return tuple(known[name] for name in names)


def bounded_statistics(statistic: str | Sequence[str], scale: Scale, reference: str) -> list[str]:
    """Names of the statistics, checked against the scale and the reference.

    Raises
    ------
    ProtocolError
        Unknown names, and statistics for which a scale or a reference carries no range.
    """
    names = [statistic] if isinstance(statistic, str) else list(statistic)
    unknown = [name for name in names if name not in STATISTICS]
    if unknown or not names or len(set(names)) != len(names):
        raise ProtocolError(
            f"`statistic` names one or more of {', '.join(STATISTICS)}, each once; got {listing(names)}."
        )
    if scale.kind == "continuous":
        raise ProtocolError("A range over completions needs categories, and a continuous scale has none.")
    if scale.n_categories > 2:
        fit: tuple[str, ...] = ("accuracy", "kappa")
    else:
        fit = tuple(name for name in STATISTICS if scale.kind == "binary" or name not in _POSITIVE)
    wrong = [name for name in names if name not in fit]
    if wrong:
        raise ProtocolError(
            f"{scale!r} carries ranges of {', '.join(fit)}, not of {listing(wrong)}. Map it to a negative "
            "and a positive category (xj.at_least, xj.one_of: one against the rest)."
        )
    if reference == "majority" and names != ["accuracy"] and scale.n_categories > 2:
        raise ProtocolError(
            f"On {scale.n_categories} categories reference='majority' has a range for accuracy only, not for "
            f"{listing(names)}: map the scale (xj.at_least, xj.one_of: one against the rest), or take "
            "reference='each', a human's name, or (as an outer range) 'pooled'."
        )
    return names


def open_plan(plan: Plan, unresolved: Sequence[int]) -> Plan:
    """Return the plan with one more category, last, for the outcomes that are unresolved."""
    n = plan.scale.n_categories
    last = unused_name("unresolved", plan.scale.categories)

    def opened(targets: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(n if target in unresolved else target for target in targets)

    scale = Scale.nominal([*plan.scale.categories, last])
    right = opened(plan.right_targets)
    left = plan.left_targets if plan.left.startswith("majority") else opened(plan.left_targets)
    return replace(plan, scale=scale, left_targets=left, right_targets=right)


def routes(
    counting: Pass,
    plan: Plan,
    opened: Plan,
    names: Sequence[str],
    weights: Floats | None,
    *,
    whole: bool,
) -> dict[str, Route]:
    """Where each statistic's range comes from.

    Parameters
    ----------
    counting : Pass
        Requests and columns are added to it.
    plan, opened : Plan
        By exclusion, and with the unresolved cases.
    names : sequence of str
    weights : ndarray, optional
        Agreement weights of kappa.
    whole : bool
        Whether every unresolved case is adversarial (share 1).
    """
    kind, n = counting.sides.kind, plan.scale.n_categories
    rule = plan.resolved.protocol.item_rule
    loose = kind == "pooled" or (rule is not None and rule.kind == "sum")
    tables = _beside(counting)
    tables.plans = [opened]
    out = {}
    for name in names:
        by_item = kind == "majority" or (kind == "pooled" and len(counting.sides.left) <= MOST_HUMANS)
        if name == "accuracy" and by_item and whole:
            out[name] = _by_item(counting, plan, opened, "votes" if kind == "majority" else "extremes")
        elif kind == "majority":
            out[name] = _by_item(counting, plan, opened, "kinds", name)
        elif n == 2:
            out[name] = Route(tables, opened, _binary(name, sharp=not loose))
        else:
            out[name] = Route(tables, opened, _categories(name, weights, sharp=not loose))
    return out


def _binary(name: str, *, sharp: bool) -> Callable[[npt.NDArray[Any], float], Ends]:
    def ends(table: npt.NDArray[Any], share: float) -> Ends:
        found = (
            sharp_bounds_with_reason(table, name)
            if share == 1
            else range_at_share_with_reason(table, name, share)
        )
        return Ends(found.lower, found.upper, np.full(found.lower.shape, sharp), found.reason)

    return ends


def _categories(
    name: str, weights: Floats | None, *, sharp: bool
) -> Callable[[npt.NDArray[Any], float], Ends]:
    def ends(table: npt.NDArray[Any], share: float) -> Ends:
        w = weights if name == "kappa" else None
        if share == 1:
            found = category_bounds(table, name, weights=w)
        else:
            found = category_range_at_share(table, name, share, weights=w)
        return Ends(found.lower, found.upper, (found.kind == "sharp") & sharp, found.reason)

    return ends


# ----------------------------------------------------------------------------------------------- item by item


class _CodePlan(Plan):
    """One code per case on the right, and one category that everything is in on the left."""

    @property
    def n_left(self) -> int:
        """The left side says nothing."""
        return 1

    @property
    def n_right(self) -> int:
        """Codes."""
        return len(self.right_targets) - N_OUTCOMES


def _by_item(
    counting: Pass,
    plan: Plan,
    opened: Plan,
    kind: Literal["extremes", "votes", "kinds"],
    statistic: str = "accuracy",
) -> Route:
    """A statistic from what completions of single items can come to."""
    sides = counting.sides
    name = f"{kind}:{plan.right}"
    counting.arrays[name], n_codes = coded(
        counting.arrays[plan.right],
        opened.right_targets,
        plan.scale.n_categories,
        sides.left,
        sides.right,
        kind,
    )
    apart = _beside(counting)
    apart.sides = Sides((0,), tuple(range(1, 1 + len(sides.right))), "one", ("rater",))
    plan = _CodePlan(
        plan.resolved,
        plan.scale,
        name,
        name,
        (0, -1, -2, -3),
        (*range(n_codes), -1, -2, -3),
        plan.n_criteria,
        plan.dims,
        plan.outcomes,
        plan.right,
    )
    apart.plans = [plan]
    apart._ask(plan)
    if kind == "extremes":
        return Route(apart, plan, _pooled_ends(len(sides.left)))
    if kind == "votes":
        return Route(apart, plan, _vote_ends, (_CODES & OPEN > 0).astype(np.int64))
    return Route(apart, plan, _kind_ends(statistic), _OPEN_KINDS)


def _beside(counting: Pass) -> Pass:
    """Return the pass, with the very same requests and arrays, for plans and sides of its own."""
    apart = Pass.__new__(Pass)
    vars(apart).update(vars(counting))
    return apart


def _share(part: Ints, whole: Ints) -> Floats:
    return np.divide(part, whole, out=np.full(np.shape(whole), np.nan), where=np.asarray(whole) > 0)


def _pooled_ends(n_humans: int) -> Callable[[npt.NDArray[Any], float], Ends]:
    values = triples(n_humans)

    def ends(table: npt.NDArray[Any], share: float) -> Ends:
        least, most, pairs = np.moveaxis(table[..., 0, :] @ values, -1, 0)
        reason = np.where(pairs > 0, 0, Reason.NO_OVERLAP).astype(np.int8)
        return Ends(_share(least, pairs), _share(most, pairs), np.ones(pairs.shape, dtype=bool), reason)

    return ends


_CODES = np.arange(VOTES)
_AGREES, _DISAGREES, _LEAVES = (_CODES & bit > 0 for bit in (AGREE, DISAGREE, LEAVE))


def _vote_ends(table: npt.NDArray[Any], share: float) -> Ends:
    """Each case comes to what suits the end best; a case that can leave does so before it does harm."""
    counts = table[..., 0, :]

    def total(which: npt.NDArray[np.bool_]) -> Ints:
        return np.asarray(counts @ which.astype(np.int64))

    agree, disagree = total(_AGREES), total(_DISAGREES)
    forced_miss = total(_DISAGREES & ~_AGREES & ~_LEAVES)
    forced_hit = total(_AGREES & ~_DISAGREES & ~_LEAVES)
    upper, lower = _share(agree, agree + forced_miss), _share(forced_hit, forced_hit + disagree)
    # where nothing stays that suits the end, one case that must be kept for a value decides
    upper = np.where((agree + forced_miss == 0) & (disagree > 0), 0.0, upper)
    lower = np.where((disagree + forced_hit == 0) & (agree > 0), 1.0, lower)
    reason = np.where(agree + disagree > 0, 0, Reason.NO_OVERLAP).astype(np.int8)
    return Ends(lower, upper, np.zeros(lower.shape, dtype=bool), reason)


def _kind_ends(statistic: str) -> Callable[[npt.NDArray[Any], float], Ends]:
    def ends(table: npt.NDArray[Any], share: float) -> Ends:
        found = vote_bounds(table[..., 0, :], statistic)
        return Ends(found.lower, found.upper, np.zeros(found.lower.shape, dtype=bool), found.reason)

    return ends


def _is_open(kind: int) -> bool:
    """Whether a case of a kind may come to more than one thing, one of them in the table."""
    bits, said = divmod(kind, 3)
    return (bits & 3) > 0 and (said == 2 or bits not in (1, 2))


_OPEN_KINDS = np.array([_is_open(kind) for kind in range(VOTE_KINDS)], dtype=np.int64)


# ---------------------------------------------------------------------------------------------------- counts


def n_open(route: Route, counted: list[Any]) -> Ints:
    """Cases (..., criterion, other, A, B) that a completion may change."""
    table = route.plan.collapse(route.counting.raw(route.plan, counted))
    if route.open_codes is not None:
        return np.asarray(table[..., 0, :] @ route.open_codes)
    return np.asarray(table.sum((-2, -1)) - table[..., :-1, :-1].sum((-2, -1)))


def covered(name: str, weights: Floats | None) -> OfTable:
    """The statistic of the cases where both sides have an answer."""
    if name not in ("rate_reference", "rate_rater"):
        return coefficient(name, weights)
    axis = -1 if name == "rate_reference" else -2

    def value(table: npt.ArrayLike) -> tuple[Floats, npt.NDArray[np.int8]]:
        counts = np.asarray(table)
        total = counts.sum((-2, -1))
        reason = np.where(total > 0, 0, Reason.NO_JOINT_ANSWERS).astype(np.int8)
        return _share(counts.sum(axis)[..., 1], total), reason

    return OfTable(value, lambda table: np.full(np.shape(table), np.nan))

"""The pass behind tables, agreement and sweeps: which columns meet, what is counted, how it is collapsed.

For every protocol a :class:`Plan` says which arrays stand on the two sides and how their raw axes collapse
to the protocol's categories; :class:`Pass` counts for all plans in one pass over items.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from xjudge.codes import N_OUTCOMES, raw_index
from xjudge.columns import majority, paired
from xjudge.errors import ProtocolError
from xjudge.labelled._labels import Columns, Labels
from xjudge.labelled._sides import Sides
from xjudge.protocol import Resolved
from xjudge.scale import Category, Scale
from xjudge.statistics.counts import item_support, pairs
from xjudge.view import View

__all__ = ["Columns", "Labels", "Pass", "Plan"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Plan:
    """What one protocol needs of the pass, and how its counts collapse.

    Parameters
    ----------
    resolved : Resolved
    scale : Scale
        Of the protocol's tables.
    left, right : str
        Names of the arrays on the two sides.
    left_targets, right_targets : tuple of int
        Per place of their raw axes the category of the table, or a negative outcome.
    n_criteria : int
        Criteria that the arrays still have: 1 at item level.
    dims : tuple of str
        Dims of the labels beyond item and rater.
    outcomes : tuple
        Categories of the table that are outcomes (CA, invalid) and have no place in an order.
    labels : str
        Name of the array of raw labels: ``codes``, or what an extraction rule read.
    paired : bool
        Whether the right columns are pairs of raters.
    scores : str, optional
        Name of the array of numbers beside the labels, on a continuous scale.
    """

    resolved: Resolved
    scale: Scale
    left: str
    right: str
    left_targets: tuple[int, ...]
    right_targets: tuple[int, ...]
    n_criteria: int
    dims: tuple[str, ...]
    outcomes: tuple[Category, ...]
    labels: str
    paired: bool = False
    scores: str | None = None

    @property
    def aggregate(self) -> str | None:
        """The protocol's aggregation."""
        return self.resolved.protocol.aggregate

    def collapse(self, raw: Ints) -> Ints:
        """Tables over the protocol's categories from raw tables: ``T_p = M' T M``."""
        left, right = _matrix(self.left_targets, self.n_left), _matrix(self.right_targets, self.n_right)
        return left.T @ raw @ right

    @property
    def n_left(self) -> int:
        """Categories of the table's rows."""
        return self.scale.n_categories

    @property
    def n_right(self) -> int:
        """Categories of the table's columns: pairs of categories where two raters are judged together."""
        return self.scale.n_categories ** (2 if self.paired else 1)

    def eligible(self, raw: Ints) -> Ints:
        """Pairs where neither side is missing (a tied vote counts as missing)."""
        asked = [np.ones(len(t), dtype=bool) for t in (self.left_targets, self.right_targets)]
        for side in asked:
            side[raw_index("missing", len(side) - N_OUTCOMES)] = False
        if self.left.startswith("majority"):
            asked[0][self.tied] = False
        return raw[..., asked[0], :][..., asked[1]].sum((-2, -1))

    @property
    def per_criterion(self) -> bool:
        """Whether results have the dim ``criterion``."""
        return self.aggregate is None and "criterion" in self.dims

    @property
    def tied(self) -> int:
        """Place of a tied vote on the left raw axis of a majority reference."""
        return raw_index("invalid", len(self.left_targets) - N_OUTCOMES)


def _own_axis(n_categories: int) -> tuple[int, ...]:
    """The raw axis of columns that are in the table's own categories already."""
    return (*range(n_categories), *(-1 - outcome for outcome in range(N_OUTCOMES)))


def _category(said: Category, resolved: Resolved, scale: Scale) -> int:
    """Code of a category of the protocol, or of the data through the scale map; 0 of a number (answered)."""
    if scale.kind == "continuous":
        if isinstance(said, str) or not np.isfinite(said):
            raise ProtocolError(f"`xj.constant({said!r})`: on {scale!r} a baseline says a finite number.")
        return 0
    code = scale.find(said)
    if code is None and (place := resolved.raw.find(said)) is not None:
        code = resolved.targets[place]
    if code is None or code < 0:
        raise ProtocolError(f"`xj.constant({said!r})`: {said!r} is not a category of {scale!r}.")
    return code


def _matrix(targets: Sequence[int], n_categories: int) -> Ints:
    out = np.zeros((len(targets), n_categories), dtype=np.int64)
    for place, target in enumerate(targets):
        if target >= 0:
            out[place, target] = 1
    return out


class Pass(Labels):
    """The counts of two raters that any number of protocols need, from one pass.

    Parameters
    ----------
    view : View
    protocols : sequence of Resolved
    sides : Sides
    by : str, optional
        An item coordinate to slice on.
    seed : int
        For labels that a protocol samples from probabilities.
    """

    def __init__(
        self, view: View, protocols: Sequence[Resolved], sides: Sides, by: str | None = None, seed: int = 0
    ) -> None:
        super().__init__(view, protocols, by, seed)
        self.sides = sides
        self._asked: dict[Any, int] = {}
        self.plans = [self._plan(resolved) for resolved in protocols]
        for plan in self.plans:
            self._ask(plan)

    def _plan(self, resolved: Resolved) -> Plan:
        columns = self.columns_of(resolved)
        name, scale, targets = columns.name, columns.scale, columns.targets
        left, left_targets, right, right_targets = name, targets, name, targets
        if columns.scores is not None and self.sides.kind == "majority":
            raise ProtocolError(
                f"A majority reference needs categories, and under {resolved.protocol!r} the scale is "
                f"{scale!r}. Take reference='each' or 'pooled'."
            )
        if self.sides.kind == "majority":
            left = self._once(("majority", name, targets), self._majority(name, targets))
            left_targets = _own_axis(scale.n_categories)
        if self.sides.pairs:
            right = self._once(("paired", name, targets), self._paired(name, resolved, scale, targets))
            right_targets = _own_axis(scale.n_categories**2)
        return Plan(
            resolved,
            scale,
            left,
            right,
            left_targets,
            right_targets,
            columns.n_criteria,
            tuple(self.view.rest),
            columns.outcomes,
            columns.labels,
            paired=bool(self.sides.pairs),
            scores=columns.scores,
        )

    def _majority(self, voters: str, targets: tuple[int, ...]) -> Callable[[str], str]:
        def make(name: str) -> str:
            columns = self.sides.references()
            self.arrays[name] = majority(self.arrays[voters], targets, self.sides.left, columns)
            return name

        return make

    def _paired(
        self, labels: str, resolved: Resolved, scale: Scale, targets: tuple[int, ...]
    ) -> Callable[[str], str]:
        def make(name: str) -> str:
            pairs = [
                (a, b, 0 if said is None else _category(said, resolved, scale))
                for a, b, said in self.sides.pairs
            ]
            self.arrays[name] = paired(self.arrays[labels], targets, scale.n_categories, pairs)
            return name

        return make

    def _ask(self, plan: Plan) -> None:
        columns = self.columns()
        n = [len(t) - N_OUTCOMES for t in (plan.left_targets, plan.right_targets)]
        if (plan.left, plan.right) not in self._asked:
            self._asked[plan.left, plan.right] = len(self.requests)
            if self.sides.kind == "raters":
                request = pairs(n[0], left=plan.left, left_columns=self.sides.left, right=None)
            else:
                request = pairs(n[0], left=plan.left, right=plan.right, n_right_categories=n[1], **columns)
            self.requests.append(request)
        if plan.labels != "codes" and not plan.paired and ("changed", plan.labels) not in self._asked:
            self._asked["changed", plan.labels] = len(self.requests)
            n_raw_categories, right = self.view.scale.n_categories, self.sides.right
            self.requests.append(
                pairs(n_raw_categories, left_columns=right, right=plan.labels, right_columns=right)
            )
        support = self._support_key(plan)
        if support is not None and support not in self._asked:
            self._asked[support] = len(self.requests)
            usable = [tuple(target >= 0 for target in t) for t in (plan.left_targets, plan.right_targets)]
            self.requests.append(
                item_support(
                    usable[0],
                    usable[1],
                    left=plan.left,
                    right=plan.right,
                    pooled=self.sides.kind == "pooled",
                    join=support[-1],
                    **columns,
                )
            )

    def columns(self) -> dict[str, Any]:
        """Columns of the arrays on the two sides, as requests take them."""
        left = None if self.sides.kind == "majority" else self.sides.left
        return {"left_columns": left, "right_columns": self.sides.right}

    def _support_key(self, plan: Plan) -> tuple[Any, ...] | None:
        """What the number of items depends on; ``None`` where it is the number of pairs."""
        join = plan.n_criteria if plan.aggregate in ("micro", "macro") else 1
        if join == 1 and self.sides.kind != "pooled":
            return None
        usable = [tuple(target >= 0 for target in t) for t in (plan.left_targets, plan.right_targets)]
        return "items", plan.left, plan.right, *usable, join

    def raw(self, plan: Plan, counted: list[Any]) -> Ints:
        """Raw tables ``(..., criterion, other, A, B, place, place)``; A is 1 unless it is a dim."""
        raw = self.cases.of(plan.resolved.protocol, counted[self._asked[plan.left, plan.right]])
        if self.sides.kind == "pooled":
            raw = self._pooled(plan, raw)
        elif self.sides.kind == "majority":
            columns = self.sides.column_of()
            raw = raw[..., columns, np.arange(len(columns)), :, :][..., None, :, :, :]
        return _criteria_apart(raw, plan.n_criteria, raw.ndim - 5)

    def _pooled(self, plan: Plan, raw: Ints) -> Ints:
        """Tables summed over the humans; whoever of a crowd has no place on an item is missing there."""
        total = raw.sum(-4, keepdims=True)
        if self.view.n_hidden:
            missing = raw_index("missing", len(plan.left_targets) - N_OUTCOMES)
            total[..., missing, :] += total.sum(-2) // len(self.sides.left) * self.view.n_hidden
        return total

    def items(self, plan: Plan, counted: list[Any]) -> Ints | None:
        """Items with a pair ``(..., criterion or 1, other, A, B)``; ``None`` where the pairs tell."""
        key = self._support_key(plan)
        if key is None:
            return None
        found = self.cases.of(plan.resolved.protocol, counted[self._asked[key]])
        if self.sides.kind == "majority":
            columns = self.sides.column_of()
            found = found[..., columns, np.arange(len(columns))][..., None, :]
        return _criteria_apart(found, plan.n_criteria // key[-1], found.ndim - 3)

    def changed(self, plan: Plan, counted: list[Any]) -> Ints | None:
        """Verdicts that the extraction changed ``(..., criterion, other, 1, B)``; ``None`` without one."""
        if plan.labels == "codes":
            return None
        both = self.cases.of(plan.resolved.protocol, counted[self._asked["changed", plan.labels]])
        own = np.arange(len(self.sides.right))
        matrix = plan.resolved.matrix
        table = matrix.T @ both[..., own, own, :, :] @ matrix
        differ = table.sum((-2, -1)) - np.trace(table, axis1=-2, axis2=-1)
        return _criteria_apart(differ[..., None, :], self.view.n_criteria, differ.ndim - 2)


def _criteria_apart(array: Ints, n_criteria: int, axis: int) -> Ints:
    shape = array.shape
    return array.reshape((*shape[:axis], n_criteria, shape[axis] // n_criteria, *shape[axis + 1 :]))

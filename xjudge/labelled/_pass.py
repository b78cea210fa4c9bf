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
import xarray as xr

from xjudge.codes import N_OUTCOMES, raw_index
from xjudge.columns import extracted, item_level, majority
from xjudge.errors import ProtocolError, StructureError
from xjudge.labelled._common import flat_attrs, version
from xjudge.lazy import reduce_items
from xjudge.outcomes import Cases, check_values
from xjudge.protocol import Cut, Resolved
from xjudge.scale import Category, Scale
from xjudge.statistics.counts import Request, item_support, outside, pairs
from xjudge.view import View

__all__ = ["Pass", "Plan", "Sides", "named_result", "placed", "result_attrs", "share"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Sides:
    """Which raters stand on the two sides of the tables, and how results name them.

    Parameters
    ----------
    left, right : tuple of int
        Positions of the references (or voters) and of the judged raters.
    kind : {"each", "one", "pooled", "majority", "raters"}
    dims : tuple of str
        Names of the result's dims for the sides that are dims.
    """

    left: tuple[int, ...]
    right: tuple[int, ...]
    kind: str
    dims: tuple[str, ...]

    @classmethod
    def of(cls, view: View, reference: str, raters: Any) -> Sides:
        """Read `reference` and `raters`.

        Raises
        ------
        StructureError, OverlapError
            Unknown raters; no human or no judge to compare.
        """
        if reference == "majority":
            view.need(humans=1, judges=0 if raters is not None else 1)
            judged = tuple(view.judges.tolist()) if raters is None else _members(view, raters)
            return cls(tuple(view.humans.tolist()), judged, "majority", ("rater",))
        if raters is not None:
            if reference != "each":
                raise ProtocolError(
                    "`raters` compares raters with each other; with it `reference` is 'each' (the default) "
                    f"or 'majority'; got {reference!r}."
                )
            members = _members(view, raters)
            if len(members) < 2:
                raise StructureError("`raters` needs at least two raters to compare.")
            return cls(members, members, "raters", ("rater_a", "rater_b"))
        if reference in ("each", "pooled"):
            view.need(humans=1, judges=1)
            dims = ("reference", "rater") if reference == "each" else ("rater",)
            return cls(tuple(view.humans.tolist()), tuple(view.judges.tolist()), reference, dims)
        position = view.position(reference, "reference")
        view.need(judges=1)
        others = tuple(p for p in view.judges.tolist() if p != position)
        if not others:
            raise StructureError(f"`reference={reference!r}` is the only judge; there is nobody to compare.")
        return cls((position,), others, "one", ("rater",))

    def references(self) -> list[int | None]:
        """Columns of a majority reference: the whole vote, then the vote without each judged human."""
        return [None, *(rater for rater in self.right if rater in self.left)]

    def column_of(self) -> list[int]:
        """Per judged rater, its column among :meth:`references`."""
        columns = self.references()
        return [columns.index(rater) if rater in columns else 0 for rater in self.right]


def _members(view: View, raters: Any) -> tuple[int, ...]:
    everyone = np.sort(np.concatenate([view.humans, view.judges]))
    groups = {"humans": view.humans, "judges": view.judges, "all": everyone}
    if isinstance(raters, str) and raters in groups:
        return tuple(groups[raters].tolist())
    return tuple(view.select(raters, np.arange(len(view.raters)), "raters").tolist())


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

    @property
    def aggregate(self) -> str | None:
        """The protocol's aggregation."""
        return self.resolved.protocol.aggregate

    def collapse(self, raw: Ints) -> Ints:
        """Tables over the protocol's categories from raw tables: ``T_p = M' T M``."""
        left, right = (_matrix(t, self.scale.n_categories) for t in (self.left_targets, self.right_targets))
        return left.T @ raw @ right

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


def _matrix(targets: Sequence[int], n_categories: int) -> Ints:
    out = np.zeros((len(targets), n_categories), dtype=np.int64)
    for place, target in enumerate(targets):
        if target >= 0:
            out[place, target] = 1
    return out


class Pass:
    """The counts that any number of protocols need, from one pass.

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
        self.view, self.sides, self.seed = view, sides, seed
        self.cases = Cases(view, [p.protocol for p in protocols], by)
        self.requests: list[Request] = [outside(view.scale.n_categories)]
        self.arrays: dict[str, Any] = {"codes": view.codes}
        self._names: dict[Any, Any] = {}
        self._asked: dict[Any, int] = {}
        self.plans = [self._plan(resolved) for resolved in protocols]
        for plan in self.plans:
            self._ask(plan)

    def _once(self, key: Any, make: Callable[[str], Any]) -> Any:
        """A column family, made once for all the protocols that share it."""
        if key not in self._names:
            self._names[key] = make(f"{key[0]}:{len(self._names)}")
        return self._names[key]

    def _plan(self, resolved: Resolved) -> Plan:
        protocol = resolved.protocol
        name, scale, targets, n_criteria = "codes", resolved.scale, resolved.targets, self.view.n_criteria
        outcomes = resolved.outcome_categories
        if protocol.extraction is not None:
            # a cut is read on the protocol's own categories, the other rules on those of the data
            read_on = resolved.targets if isinstance(protocol.extraction, Cut) else ()
            name = self._once(("extracted", protocol.extraction, read_on), self._extracted(resolved))
        labels = name
        if protocol.aggregate == "item":
            key = "item", name, protocol.item_rule, protocol.criterion_weights, resolved.targets, protocol.ca
            name, scale, targets, outcomes = self._once((*key, protocol.invalid), self._item(resolved, name))
            n_criteria = 1
        dims = tuple(self.view.rest)
        if self.sides.kind != "majority":
            return Plan(resolved, scale, name, name, targets, targets, n_criteria, dims, outcomes, labels)
        votes = self._once(("majority", name, targets), self._majority(name, targets))
        own = (*range(scale.n_categories), *(-1 - outcome for outcome in range(N_OUTCOMES)))
        return Plan(resolved, scale, votes, name, own, targets, n_criteria, dims, outcomes, labels)

    def _extracted(self, resolved: Resolved) -> Callable[[str], str]:
        def make(name: str) -> str:
            self.arrays[name] = extracted(self.view, resolved, self.seed)
            return name

        return make

    def _item(self, resolved: Resolved, labels: str) -> Callable[[str], tuple[Any, ...]]:
        def make(name: str) -> tuple[Any, ...]:
            made = item_level(self.view, resolved, self.arrays[labels])
            self.arrays[name] = made.codes
            return name, made.scale, made.targets, made.scale.categories[made.n_categories :]

        return make

    def _majority(self, voters: str, targets: tuple[int, ...]) -> Callable[[str], str]:
        def make(name: str) -> str:
            columns = self.sides.references()
            self.arrays[name] = majority(self.arrays[voters], targets, self.sides.left, columns)
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
        if plan.labels != "codes" and ("changed", plan.labels) not in self._asked:
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

    def run(self, finish: Callable[[list[Any]], dict[str, Any]], compute: bool) -> dict[str, Any]:
        """Count and finish; see :func:`xjudge.lazy.reduce_items`."""

        def checked(counted: list[Any]) -> dict[str, Any]:
            check_values(self.view, counted[0])
            return finish(counted)

        needed = {request.options.get(side) for request in self.requests for side in ("left", "right")}
        arrays = {
            name: a for name, a in self.arrays.items() if name in needed or name in ("codes", "cluster")
        }
        out = reduce_items(
            self.requests, arrays | self.cases.arrays, checked, axes=self.cases.axes, compute=compute
        )
        self.cases.warn()
        return out

    def raw(self, plan: Plan, counted: list[Any]) -> Ints:
        """Raw tables ``(..., criterion, other, A, B, place, place)``; A is 1 unless it is a dim."""
        raw = self.cases.of(plan.resolved.protocol, counted[self._asked[plan.left, plan.right]])
        if self.sides.kind == "pooled":
            raw = raw.sum(-4, keepdims=True)
        elif self.sides.kind == "majority":
            columns = self.sides.column_of()
            raw = raw[..., columns, np.arange(len(columns)), :, :][..., None, :, :, :]
        return _criteria_apart(raw, plan.n_criteria, raw.ndim - 5)

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


# --------------------------------------------------------------------------------------------------- results


def share(part: npt.NDArray[Any], whole: npt.NDArray[Any]) -> Floats:
    """Quotient, NaN where the denominator is 0."""
    shape = np.broadcast_shapes(np.shape(part), np.shape(whole))
    return np.divide(part, whole, out=np.full(shape, np.nan), where=np.asarray(whole) > 0)


def placed(
    view: View, sides: Sides, array: npt.NDArray[Any], *, criterion: bool, trailing: int = 0
) -> npt.NDArray[Any]:
    """From (..., criterion, other, A, B, *trailing) to (..., *sides[, criterion], *others, *trailing)."""
    axis = array.ndim - trailing - 4
    array = np.moveaxis(array, (axis, axis + 1), (axis + 2, axis + 3))
    shape = array.shape
    array = array.reshape((*shape[: axis + 3], *view.others.values(), *shape[axis + 4 :]))
    drop = ([] if criterion else [axis + 2]) + ([axis] if len(sides.dims) == 1 else [])
    return array.squeeze(tuple(drop)) if drop else array


def named_result(
    view: View,
    sides: Sides,
    cases: Cases,
    arrays: dict[str, Any],
    *,
    lead: Sequence[str] = (),
    criterion: bool,
    trailing: dict[str, tuple[str, ...]] | None = None,
) -> xr.Dataset:
    """Name the axes of finished arrays.

    Parameters
    ----------
    lead : sequence of str
        Dims before all others.
    criterion : bool
        Whether the results are per criterion.
    trailing : dict, optional
        Dims after all others, by variable; ``""`` stands for every other variable.
    """
    rest = [dim for dim in view.rest if criterion or dim != "criterion"]
    slices = [] if cases.by is None else [cases.by]
    dims = [*lead, *slices, *sides.dims, *rest]
    ends = {"": ()} if trailing is None else {"": (), **trailing}
    variables = {name: ([*dims, *ends.get(name, ends[""])], array) for name, array in arrays.items()}
    coords: dict[str, Any] = dict(view.coordinates(*rest))
    if cases.by is not None:
        coords[cases.by] = (cases.by, cases.slices)
    left, right = np.array(sides.left, dtype=np.intp), np.array(sides.right, dtype=np.intp)
    if "rater" in sides.dims:
        for name, variable in view.coordinates("rater").items():
            coords[name] = variable.isel(rater=right) if variable.dims else variable
        coords["rater"] = ("rater", view.named(right))
    else:
        coords |= {"rater_a": ("rater_a", view.named(left)), "rater_b": ("rater_b", view.named(right))}
    if sides.kind == "each":
        coords["reference"] = ("reference", view.named(left))
    elif sides.kind != "raters":
        coords["reference"] = view.named(left)[0] if sides.kind == "one" else sides.kind
    return xr.Dataset(variables, coords=coords)


def result_attrs(verb: str, view: View, sides: Sides, **more: Any) -> dict[str, str | int | float]:
    """Attributes that suffice to recompute the result from the dataset; ``None`` is left out."""
    known: dict[str, Any] = {"verb": verb, "scale": view.scale}
    left, right = (view.named(np.array(side, dtype=np.intp)) for side in (sides.left, sides.right))
    if sides.kind == "raters":
        known["raters"] = left
    else:
        known["reference"] = left[0] if sides.kind == "one" else sides.kind
        if sides.kind == "majority" and set(sides.right) & set(sides.left):
            known["raters"] = right
        else:
            known["judges"] = right
        if sides.kind != "one":
            known["humans"] = left
    known |= {name: value for name, value in more.items() if value is not None}
    return flat_attrs(known | {"xjudge_version": version()})

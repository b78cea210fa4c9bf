"""Cases of selective judges: how many thresholds a verdict's confidence reaches, and whether it is right."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from xjudge.codes import MISSING, smallest_dtype, to_codes, translate
from xjudge.errors import ProtocolError, StructureError, listing
from xjudge.labelled._pass import Pass, Plan
from xjudge.labelled._results import named_result, placed, result_attrs
from xjudge.labelled._sides import Sides
from xjudge.lazy import map_items, materialise, metadata_values, one_chunk_beside_items
from xjudge.protocol import Protocol
from xjudge.statistics.selective import GRID, Steps, steps_of
from xjudge.view import View

__all__ = ["Asked", "Judged", "judged", "own_thresholds", "step_grid"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Slot = tuple[int, int, int, int, int]


@dataclass(frozen=True)
class Asked:
    """What the caller asks of selective judges, the same for all verbs.

    Parameters
    ----------
    data : Dataset or DataArray
    reference, confidence, cascade, protocol, by, judges, humans, seed
        As in :func:`xjudge.risk_coverage`.
    compute : bool
    """

    data: xr.Dataset | xr.DataArray
    reference: str
    confidence: str | None
    cascade: str | Sequence[Any] | None
    protocol: Protocol | None
    by: str | None
    judges: Any
    humans: Any
    seed: int
    compute: bool


@dataclass(frozen=True)
class Judged:
    """Codes of all cases in memory, and how results of them are named.

    Parameters
    ----------
    view : View
        Its judges in the order of asking, for a cascade.
    sides : Sides
    counting : Pass
    plan : Plan
    codes : ndarray of int, shape (item, A, B, cell)
        ``2 r + (1 if right else 0)`` with the number ``r`` of thresholds reached; missing where the case does
        not count; ``2 T + 2`` for a verdict without a confidence.
    n_steps : int
        T, the number of thresholds.
    group : ndarray of int, shape (item,)
        Slice of each item, -1 for none.
    source : str
        Where confidences come from.
    joint : bool
        Whether the judges are a cascade.
    """

    view: View
    sides: Sides
    counting: Pass
    plan: Plan
    codes: npt.NDArray[Any]
    n_steps: int
    group: Ints
    source: str
    joint: bool

    @property
    def shape(self) -> tuple[int, int, int, int, int]:
        """Sizes (slice, criterion, other, A, B); B is 1 for a cascade."""
        slices = self.counting.cases.slices
        n_criteria = self.plan.n_criteria
        _, n_left, n_right, n_cells = self.codes.shape
        n_slices = 1 if slices is None else len(slices)
        return n_slices, n_criteria, n_cells // n_criteria, n_left, 1 if self.joint else n_right

    def slots(self) -> Iterator[tuple[Slot, Steps, int]]:
        """Kinds of cases of every estimate, and its verdicts without a confidence."""
        for slice_, criterion, other, a, b in product(*map(range, self.shape)):
            judges = slice(None) if self.joint else slice(b, b + 1)
            rows = self.codes[self.group == slice_, a, judges, criterion * self.shape[2] + other]
            rows = rows[(rows != MISSING).all(1)]
            unsure = rows == 2 * self.n_steps + 2
            reached = np.where(unsure, 0, rows // 2)
            kinds = steps_of(reached, rows % 2 == 1, self.n_steps)
            yield (slice_, criterion, other, a, b), kinds, int(unsure.sum())

    def named(self, arrays: dict[str, npt.NDArray[Any]], trailing: dict[str, tuple[str, ...]]) -> xr.Dataset:
        """Name the axes of arrays (slice, criterion, other, A, B, ...)."""
        if self.counting.cases.by is None:
            arrays = {name: array[0] for name, array in arrays.items()}
        per_criterion = self.plan.per_criterion
        made = {
            name: placed(
                self.view, self.sides, array, criterion=per_criterion, trailing=len(trailing.get(name, ()))
            )
            for name, array in arrays.items()
        }
        sides = self.sides
        if self.joint:
            sides = Sides(sides.left, sides.right[:1], sides.kind, sides.dims)
        found = named_result(
            self.view, sides, self.counting.cases, made, criterion=per_criterion, trailing=trailing
        )
        if not self.joint:
            return found
        alone = found.isel(rater=0, drop=True)
        return alone.drop_vars(
            [name for name, c in found.coords.items() if c.dims == ("rater",)], errors="ignore"
        )

    def attrs(self, verb: str, asked: Asked, **more: Any) -> dict[str, str | int | float]:
        """What recomputes the result."""
        chosen = Protocol() if asked.protocol is None else asked.protocol
        judges = [str(name) for name in self.view.named(np.array(self.sides.right))]
        return result_attrs(
            verb,
            self.view,
            self.sides,
            protocol=chosen,
            by=asked.by,
            seed=asked.seed,
            confidence=self.source,
            cascade=judges if self.joint else None,
            **more,
        )


def step_grid(thresholds: Any) -> Floats:
    """Thresholds, the highest first; by default 0.99, 0.98, ... 0.

    Raises
    ------
    ProtocolError
        None, one given twice, one that is not a number.
    """
    if thresholds is None:
        return np.array(GRID)
    given = np.atleast_1d(np.asarray(thresholds, dtype=np.float64))
    if given.ndim != 1 or not len(given) or np.isnan(given).any() or len(np.unique(given)) != len(given):
        raise ProtocolError(f"`thresholds` is a list of different numbers; got {thresholds!r}.")
    return np.sort(given)[::-1].copy()


def own_thresholds(names: list[Any], thresholds: Any) -> list[float]:
    """One threshold for each judge, in the order of asking."""
    if isinstance(thresholds, Mapping):
        if set(thresholds) != set(names):
            raise ProtocolError(
                f"`thresholds` has one number for each judge, {listing(names, most=9)}; got "
                f"{listing(thresholds, most=9)}."
            )
        given = np.array([thresholds[name] for name in names], dtype=np.float64)
    else:
        given = np.asarray(thresholds, dtype=np.float64)
        given = np.full(len(names), given) if given.ndim == 0 else given
    if given.shape != (len(names),) or np.isnan(given).any():
        raise ProtocolError(
            f"`thresholds` has one number for each of {len(names)} judges in the order of asking; got "
            f"{thresholds!r}."
        )
    return [float(one) for one in given]


def judged(asked: Asked, steps: Floats | Callable[[list[Any]], list[Floats]], *, share: bool) -> Judged:
    """Open the data and code every case.

    Parameters
    ----------
    asked : Asked
    steps : ndarray, shape (T,), or callable
        Falling thresholds; a callable says those of each judge, from their names in the order of asking.
    share : bool
        Whether confidences have to lie in [0, 1], as the default thresholds take them.

    Raises
    ------
    ProtocolError
        A reference or an aggregation that does not go with it; lazy labels without ``compute``; confidences
        beyond the default thresholds.
    StructureError
        No confidences, no costs, unknown raters.
    """
    view = View.of(asked.data, humans=asked.humans, judges=asked.judges)
    if view.lazy and not asked.compute:
        raise ProtocolError("Selective judges are evaluated in memory, which is not lazy: compute=True.")
    chosen = Protocol() if asked.protocol is None else asked.protocol
    if asked.reference == "pooled":
        raise ProtocolError("A verdict is right or wrong once: `reference` is 'each', 'majority' or a rater.")
    if chosen.aggregate in ("micro", "macro"):
        raise ProtocolError(
            "Selective judges are evaluated per criterion (aggregate=None) or on item verdicts ('item'): the "
            "guarantee needs independent cases, and criteria of one item are not."
        )
    joint = asked.cascade is not None
    if asked.cascade is not None:
        view = View.of(asked.data, humans=asked.humans, judges=_order(view, asked.cascade))
    sides = Sides.of(view, asked.reference, None)
    resolved = chosen.resolve(view.scale)
    counting = Pass(view, [resolved], sides, asked.by, asked.seed)
    del counting.requests[1:]  # cases are held; of the pass only its check of the values is needed
    (plan,) = counting.plans
    if plan.scale.kind == "continuous":
        raise ProtocolError("A verdict is right or wrong on categories; a continuous scale has none.")
    source, numbers = _confidences(view, asked.confidence, plan)
    names = view.named(np.array(sides.right)).tolist()
    each = steps(names) if callable(steps) else [steps] * len(names)
    kind = _Coder(plan, sides, each, share=share)
    codes = _held(counting, plan, kind, numbers)
    if (codes == kind.beyond).any():
        raise ProtocolError(
            f"`{source}` leaves [0, 1], where the default thresholds lie; give `thresholds` on its scale, "
            "chosen without a look at the labels."
        )
    group = np.asarray(counting.cases.arrays.get("group", np.zeros(view.n_items, dtype=np.int64)))
    counting.cases.warn()
    return Judged(view, sides, counting, plan, codes, kind.n_steps, group, source, joint)


def _order(view: View, cascade: str | Sequence[Any]) -> list[Any]:
    """Judges in the order of asking."""
    names = view.named(view.judges).tolist()
    if isinstance(cascade, str) and cascade == "cost":
        if "cost" not in view.data.coords or view.data["cost"].dims != ("rater",):
            raise StructureError(
                "`cascade='cost'` needs a coordinate `cost(rater)`: `ds.assign_coords(cost=('rater', ...))`; "
                "or name the judges in the order of asking."
            )
        cost = np.asarray(metadata_values(view.data["cost"].data), dtype=np.float64)[view.judges]
        if np.isnan(cost).any():
            raise StructureError("`cascade='cost'`: a judge has no cost.")
        return [names[k] for k in np.argsort(cost, kind="stable")]
    if isinstance(cascade, str):
        raise ProtocolError(
            f"`cascade` is 'cost' or a list of judges in the order of asking; got {cascade!r}."
        )
    return list(cascade)


def _confidences(view: View, name: str | None, plan: Plan) -> tuple[str, Any]:
    """Name and array (item, rater, cell) of confidences, with a last axis category of probabilities."""
    there = [known for known in ("confidence", "prob") if known in view.data.variables]
    if name is None and not there:
        raise StructureError(
            "A selective judge needs a variable `confidence` (or `prob`) beside `label`; give `confidence=` "
            "or `prob=` to xj.from_long."
        )
    source = there[0] if name is None else name
    if source not in view.data.variables:
        raise StructureError(f"`confidence`: the dataset has no variable {source!r}.")
    variable = view.data[source].variable
    cells = {dim: size for dim, size in view.rest.items() if plan.aggregate != "item" or dim != "criterion"}
    wide = {"category": view.scale.n_categories} if "category" in variable.dims else {}
    allowed = {"item": view.n_items, "rater": len(view.raters), **cells, **wide}
    if not {"item", "rater"} <= set(variable.dims) <= set(allowed) or variable.dtype.kind not in "iuf":
        raise StructureError(
            f"`{source}` holds {variable.dtype} on {variable.dims}; confidences are numbers on "
            f"{tuple(allowed)}, one for each verdict that is compared."
        )
    if wide and (plan.aggregate == "item" or variable.sizes["category"] != view.scale.n_categories):
        raise StructureError(
            f"`{source}` has probabilities of a criterion's categories; an item verdict, or another scale, "
            "needs a confidence of its own."
        )
    spread = variable.set_dims(allowed).transpose(*allowed)
    array = one_chunk_beside_items(spread.data)
    shape = (view.n_items, len(view.raters), int(np.prod(list(cells.values()))), *wide.values())
    return source, array.reshape(shape)


def _held(counting: Pass, plan: Plan, kind: _Coder, numbers: Any) -> npt.NDArray[Any]:
    """Codes of all cases, in one compute with the check of the values."""
    arrays, population = counting.arrays, counting.cases.arrays.get("population")
    operands = [arrays[plan.left], arrays[plan.right], numbers]
    n_cells = int(arrays[plan.right].shape[2])
    shape = (kind.n_left, len(kind.right), n_cells)
    lazily = map_items(kind, operands, shape=shape, dtype=kind.dtype)
    wanted = [lazily, arrays["codes"], *([] if population is None else [population])]
    codes, counting.arrays["codes"], *mask = materialise(*wanted)
    codes = np.asarray(codes)
    if mask:
        counting.cases.arrays["population"] = np.asarray(mask[0])
        within = counting.cases.arrays["population"][:, 0]
        keep = within[:, None, None, None] if within.ndim == 1 else within[:, None, None, :]
        codes = np.where(keep, codes, np.array(MISSING, dtype=codes.dtype))
    counting.run(lambda counted: {}, compute=True)
    return codes


class _Coder:
    """Codes of a block of items, as :class:`Judged` has them."""

    def __init__(self, plan: Plan, sides: Sides, steps: Sequence[Floats], *, share: bool) -> None:
        self.left_targets, self.right_targets = plan.left_targets, plan.right_targets
        self.right, self.share = list(sides.right), share
        self.majority = sides.kind == "majority"
        self.left = sides.column_of() if self.majority else list(sides.left)
        self.n_left = 1 if self.majority else len(self.left)
        self.rising = [np.asarray(grid)[::-1] for grid in steps]
        self.n_steps = len(self.rising[0])
        self.unsure, self.beyond = 2 * self.n_steps + 2, 2 * self.n_steps + 3
        self.dtype = smallest_dtype(self.beyond + 1)

    def __call__(
        self, left: npt.NDArray[Any], right: npt.NDArray[Any], numbers: npt.NDArray[Any]
    ) -> npt.NDArray[np.signedinteger]:
        reference = translate(to_codes(left[:, self.left]), self.left_targets)
        reference = reference[:, None] if self.majority else reference[:, :, None]
        said = translate(to_codes(right[:, self.right]), self.right_targets)
        sure = self._of_verdicts(said, numbers[:, self.right])
        none = np.isnan(sure)
        reached = np.zeros(said.shape, dtype=np.int64)
        for judge, rising in enumerate(self.rising):
            # thresholds are read as the decimals that the confidences are stored in
            steps = rising.astype(sure.dtype) if sure.dtype.kind == "f" else rising
            reached[:, judge] = np.searchsorted(steps, sure[:, judge], side="right")
        code = 2 * np.where(none, 0, reached)[:, None] + (reference == said[:, None])
        answered = said >= 0
        code = np.where((answered & none)[:, None], self.unsure, code)
        if self.share:
            code = np.where((answered & ((sure < 0) | (sure > 1)))[:, None], self.beyond, code)
        code = np.where(answered[:, None], code, 0)
        counts = (reference >= 0) & (said != MISSING)[:, None]
        return np.where(counts, code, MISSING).astype(self.dtype)

    def _of_verdicts(self, said: npt.NDArray[Any], numbers: npt.NDArray[Any]) -> npt.NDArray[np.floating]:
        """Confidence (item, judge, cell) of each verdict; NaN where there is none."""
        if numbers.ndim == said.ndim:
            return np.asarray(numbers if numbers.dtype.kind == "f" else numbers.astype(np.float64))
        # the probability of what the protocol makes of the verdict: the sum over the categories mapped to it
        sums = np.zeros(said.shape, dtype=numbers.dtype if numbers.dtype.kind == "f" else np.float64)
        for category in range(numbers.shape[-1]):
            alike = said == self.right_targets[category]
            sums = np.where(alike, sums + numbers[..., category], sums)
        # so that .2 and .7 reach .9
        sums = np.round(sums, np.finfo(sums.dtype).precision - 1)
        return np.where(said >= 0, np.minimum(sums, 1.0), np.nan).astype(sums.dtype)

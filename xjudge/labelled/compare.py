"""Two judges, or a judge and a baseline, on the same cases, paired."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from xjudge.columns import criterion_weights
from xjudge.errors import ProtocolError, Reason, StructureError, listing
from xjudge.labelled._common import agreement_weights, chosen_statistics, texts, warn_recoded, warn_undefined
from xjudge.labelled._estimate import OfTable, coefficient
from xjudge.labelled._evaluation import averaged, sampling_attrs
from xjudge.labelled._intervals import Intervals
from xjudge.labelled._pass import Pass, Plan
from xjudge.labelled._results import named_result, placed, result_attrs, share
from xjudge.labelled._sampling import Sampling
from xjudge.labelled._sides import Sides, told_apart
from xjudge.protocol import Protocol
from xjudge.scale import Category, Scale, plain_category
from xjudge.statistics.resample import benjamini_yekutieli, holm, mcnemar_exact
from xjudge.view import View

__all__ = ["Constant", "compare", "constant"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, repr=False)
class Constant:
    """A baseline that says one category whatever it sees; see :func:`constant`."""

    category: Category

    def __repr__(self) -> str:
        return f"constant({self.category!r})"


def constant(category: Category) -> Constant:
    """Baseline for :func:`compare`: a judge that always says ``category``.

    Parameters
    ----------
    category : str, int, float or bool
        A category of the protocol, or of the data through the scale map.

    Examples
    --------
    >>> constant("MET")
    constant('MET')
    """
    return Constant(plain_category(category))


def compare(
    data: xr.Dataset | xr.DataArray,
    a: Any,
    b: Any,
    *,
    statistic: str | Sequence[str] = "accuracy",
    reference: str = "each",
    weights: Any = None,
    costs: Any = None,
    protocol: Protocol | None = None,
    by: str | None = None,
    humans: Any = None,
    interval: str | None = "auto",
    resample: str = "items",
    level: float = 0.95,
    n_resamples: int = 2000,
    seed: int = 0,
    compute: bool = True,
) -> xr.Dataset:
    """Compare judges on the cases that the reference and both of them answered.

    Parameters
    ----------
    data : Dataset or DataArray
        A judge dataset.
    a, b : name or list of names
        Whom to compare; ``b`` may be (or contain) ``xj.constant(category)``. Lists make a dim ``pair``
        of every different two.
    statistic : str or list of str
        Coefficients of two raters.
    reference : {"each", "pooled", "majority"} or name
        As in :func:`xjudge.agreement`.
    weights, costs : str or matrix, optional
        As in :func:`xjudge.agreement`.
    protocol, by, humans
        As in :func:`xjudge.agreement`.
    interval, resample, level, n_resamples, seed
        As in :func:`xjudge.agreement`; ``"auto"`` is the paired delta interval. Resamples are shared by
        the two judges.
    compute : bool
        On lazy labels, whether to compute now.

    Returns
    -------
    Dataset
        Per statistic ``x``: ``x_a``, ``x_b`` and ``x_difference = x_a - x_b`` on the same ``n`` pairs, each
        with ``_reason``, ``_se`` and ``_interval(bound)``. For accuracy ``n_only_a``, ``n_only_b`` (pairs
        where only one agrees with the reference) and the exact ``mcnemar_p``; with several pairs of raters
        also ``mcnemar_p_holm`` and ``mcnemar_p_by`` over all p-values of the result.

    Raises
    ------
    ProtocolError
        A rater compared with itself; what the scale cannot carry.

    Notes
    -----
    One pass (sums) for delta intervals. McNemar's test takes pairs as independent: where criteria or
    humans are pooled it is a description, and the interval of the difference is the inference.

    Examples
    --------
    >>> import xjudge as xj
    >>> ds = xj.load_example()
    >>> protocol = xj.Protocol(aggregate="micro")
    >>> result = ds.judge.compare("orion-large", "vela-large", reference="pooled", protocol=protocol)
    >>> result["accuracy_difference"].dims
    ()
    """
    view = View.of(data, humans=humans, **told_apart(reference))
    chosen = Protocol() if protocol is None else protocol
    resolved = chosen.resolve(view.scale)
    pairs, named = _pairs(view, a, b)
    one = not isinstance(a, list | tuple) and not isinstance(b, list | tuple)
    sides = _sides(view, reference, pairs, one=one)
    sampling = Sampling(interval, resample, level, n_resamples, seed)
    counting = Pass(view, [resolved], sides, by, seed)
    (plan,) = counting.plans
    names = chosen_statistics(statistic, [(chosen, plan.scale)])
    if sampling.method == "wilson":
        raise ProtocolError(
            "`interval='wilson'` is for single shares; a comparison takes 'delta' or resamples."
        )
    sampling.check(names, [plan.aggregate])
    intervals = Intervals(counting, sampling)
    matrix = agreement_weights(weights, costs, plan.scale, plan.outcomes)
    statistics = _statistics(names, matrix, plan.scale)

    def finish(counted: list[Any]) -> dict[str, Any]:
        return _compared(intervals, plan, counted, names, statistics, many=len(pairs) > 1)

    arrays = counting.run(finish, compute)
    ends: dict[str, tuple[str, ...]] = {f"{name}_interval": ("bound",) for name in statistics}
    result = named_result(view, sides, counting.cases, arrays, criterion=plan.per_criterion, trailing=ends)
    dims = () if one else ("pair",)
    coords: dict[str, Any] = {
        word: (dims, np.array(values[0] if one else values))
        for word, values in zip(("rater_a", "rater_b"), zip(*named, strict=True), strict=True)
    }
    if sampling.method is not None:
        coords["bound"] = ("bound", np.array(["lower", "upper"]))
    result = result.assign_coords(coords)
    result.attrs = result_attrs(
        "compare",
        view,
        sides,
        protocol=chosen,
        by=by,
        pairs=[list(pair) for pair in named],
        statistic=names,
        weights=weights,
        costs=costs,
        **sampling_attrs(sampling, list(statistics)),
    )
    warn_recoded([resolved])
    if compute or not view.lazy:
        warn_undefined(result, list(statistics))
    return result


Pair = tuple[int, int | None, Category | None]


def _pairs(view: View, a: Any, b: Any) -> tuple[list[Pair], list[tuple[str, str]]]:
    """Positions of the pairs, and their names for the result."""
    first = list(a) if isinstance(a, list | tuple) else [a]
    second = list(b) if isinstance(b, list | tuple) else [b]
    if any(isinstance(rater, Constant) for rater in first):
        raise ProtocolError("`a` is a rater of the dataset; only `b` may be xj.constant(...).")
    pairs: list[Pair] = []
    named: list[tuple[str, str]] = []
    for left in first:
        position = view.position(left, "a")
        for right in second:
            if isinstance(right, Constant):
                pairs.append((position, None, right.category))
            else:
                other = view.position(right, "b")
                reverse = (other, position, None)
                if other == position or reverse in pairs or (position, other, None) in pairs:
                    continue
                pairs.append((position, other, None))
            named.append((str(left), repr(right) if isinstance(right, Constant) else str(right)))
    if not pairs:
        raise ProtocolError(
            f"`compare` needs two different raters; got {listing(first)} and {listing(second)}."
        )
    return pairs, named


def _sides(view: View, reference: str, pairs: list[Pair], *, one: bool) -> Sides:
    """The references, and the pairs on the other side."""
    if reference in ("each", "pooled", "majority"):
        view.need(humans=1)
        left = tuple(view.humans.tolist())
        kind = reference
    else:
        left, kind = (view.position(reference, "reference"),), "one"
    judged = {position for pair in pairs for position in pair[:2] if position is not None}
    if judged & set(left):
        wrong = [view.raters[position] for position in sorted(judged & set(left))]
        raise StructureError(
            f"{listing(wrong)} is both compared and the reference; restrict the humans with `humans=`."
        )
    dims = (("reference",) if kind == "each" else ()) + (() if one else ("pair",))
    return Sides(left, tuple(range(len(pairs))), kind, dims, tuple(pairs))


def _statistics(names: Sequence[str], matrix: Floats | None, scale: Scale) -> dict[str, OfTable]:
    """The two judges' statistics and their difference, of tables (..., L, L L)."""
    out: dict[str, OfTable] = {}
    n = scale.n_categories
    for name in names:
        own = coefficient(name, matrix, scale.scores)

        def of(axis: int, own: OfTable = own) -> OfTable:
            def value(table: npt.ArrayLike) -> tuple[Floats, npt.NDArray[np.int8]]:
                return own.value(_apart(table, n).sum(axis))

            def slope(table: npt.ArrayLike) -> Floats:
                alone = np.expand_dims(own.slope(_apart(table, n).sum(axis)), axis)
                whole = np.broadcast_to(alone, _apart(table, n).shape)
                return whole.reshape(np.shape(table))

            return OfTable(value, slope)

        first, second = of(-1), of(-2)

        def value(
            table: npt.ArrayLike, first: OfTable = first, second: OfTable = second
        ) -> tuple[Floats, npt.NDArray[np.int8]]:
            (x, x_reason), (y, y_reason) = first.value(table), second.value(table)
            return x - y, np.where(x_reason != 0, x_reason, y_reason)

        def slope(table: npt.ArrayLike, first: OfTable = first, second: OfTable = second) -> Floats:
            return first.slope(table) - second.slope(table)

        out |= {f"{name}_a": first, f"{name}_b": second, f"{name}_difference": OfTable(value, slope)}
    return out


def _apart(table: npt.ArrayLike, n: int) -> npt.NDArray[Any]:
    counts = np.asarray(table)
    return counts.reshape((*counts.shape[:-1], n, n))


def _compared(
    intervals: Intervals,
    plan: Plan,
    counted: list[Any],
    names: Sequence[str],
    statistics: Mapping[str, OfTable],
    *,
    many: bool,
) -> dict[str, Any]:
    counting = intervals.counting
    view, sides = counting.view, counting.sides
    raw, items = counting.raw(plan, counted), counting.items(plan, counted)
    apart = plan.collapse(raw)
    macro = plan.aggregate == "macro"
    if plan.aggregate == "micro":
        raw = raw.sum(-6, keepdims=True)
    table, eligible = plan.collapse(raw), plan.eligible(raw)
    used = table.sum((-2, -1))

    def over_criteria(counts: Ints) -> Ints:
        return counts.sum(-4, keepdims=True) if macro else counts

    def on_dims(array: npt.NDArray[Any], trailing: int = 0) -> npt.NDArray[Any]:
        return placed(view, sides, array, criterion=plan.per_criterion, trailing=trailing)

    out: dict[str, npt.NDArray[Any]] = {}
    values: dict[str, Floats] = {}
    for name, statistic in statistics.items():
        value, reason = statistic.value(table)
        reason = np.where(eligible == 0, np.int8(Reason.NO_OVERLAP), reason)
        if macro:
            value, reason, _ = averaged(criterion_weights(view, plan.resolved.protocol), value, reason)
        values[name] = np.where(reason == 0, value, np.nan)
        out[name] = on_dims(values[name])
        out[f"{name}_reason"] = texts(on_dims(reason))
    n_items = over_criteria(used) if items is None else items
    if intervals.sampling.method is not None:
        totals = over_criteria(raw.sum((-2, -1)))
        found = intervals.of(plan, counted, values, apart, statistics, n_items, totals)
        out |= {name: on_dims(array, int(name.endswith("_interval"))) for name, array in found.items()}
    out["n"] = on_dims(over_criteria(used))
    out["n_items"] = on_dims(n_items)
    out["n_eligible"] = on_dims(over_criteria(eligible))
    out["coverage"] = share(out["n"], out["n_eligible"])
    if "accuracy" in names:
        out |= _discordant(over_criteria, on_dims, table, plan.scale.n_categories, many=many)
    return out


def _discordant(over_criteria: Any, on_dims: Any, table: Ints, n: int, *, many: bool) -> dict[str, Any]:
    """Pairs where one judge alone agrees with the reference, and the exact McNemar test."""
    cells = _apart(table, n)
    right = np.eye(n, dtype=bool)
    hit_a, hit_b = right[:, :, None], right[:, None, :]
    only_a = over_criteria((cells * (hit_a & ~hit_b)).sum((-3, -2, -1)))
    only_b = over_criteria((cells * (~hit_a & hit_b)).sum((-3, -2, -1)))
    p = on_dims(np.where(over_criteria(table.sum((-2, -1))) > 0, mcnemar_exact(only_a, only_b), np.nan))
    out = {"n_only_a": on_dims(only_a), "n_only_b": on_dims(only_b), "mcnemar_p": p}
    if many:
        flat = p.ravel()
        out["mcnemar_p_holm"] = holm(flat).reshape(p.shape)
        out["mcnemar_p_by"] = benjamini_yekutieli(flat).reshape(p.shape)
    return out

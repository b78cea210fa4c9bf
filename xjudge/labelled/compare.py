"""Two judges, or a judge and a baseline, on the same cases, paired."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from xjudge._arguments import check_arguments
from xjudge.errors import ProtocolError, StructureError, listing
from xjudge.labelled._common import chosen_statistics, texts, warn_recoded, warn_undefined
from xjudge.labelled._evaluation import Tables, check_weights, matrix_of, sampling_attrs
from xjudge.labelled._intervals import Intervals
from xjudge.labelled._level import warn_intervals
from xjudge.labelled._numbers import Numbers
from xjudge.labelled._pass import Pass
from xjudge.labelled._results import named_result, result_attrs
from xjudge.labelled._sampling import Sampling
from xjudge.labelled._sides import Sides, told_apart
from xjudge.labelled._two_judges import discordant, statistics_of_two
from xjudge.protocol import Protocol
from xjudge.scale import Category, plain_category
from xjudge.view import View

__all__ = ["Constant", "compare", "constant"]


@dataclass(frozen=True, repr=False)
class Constant:
    """A baseline that says one thing whatever it sees; see :func:`constant`."""

    category: Category

    def __repr__(self) -> str:
        return f"constant({self.category!r})"


def constant(category: Category) -> Constant:
    """Baseline for :func:`compare`: a judge that always says ``category``.

    Parameters
    ----------
    category : str, int, float or bool
        A category of the protocol, or of the data through the scale map; a number on a continuous scale.

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
    statistic: str | Sequence[str] | None = None,
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
    statistic : str or list of str, optional
        Coefficients of two raters; statistics of numbers (``"pearson"``, ``"mean_absolute_error"``, ...) on
        scales that have them. By default accuracy, on a continuous scale the mean absolute error.
    reference : {"each", "pooled", "majority"} or name
        As in :func:`xjudge.agreement`.
    weights, costs : str or matrix, optional
        As in :func:`xjudge.agreement`.
    protocol, by, humans
        As in :func:`xjudge.agreement`.
    interval, resample, level, n_resamples, seed
        As in :func:`xjudge.agreement`; ``"auto"`` is the paired delta interval. Resamples are shared by
        the two judges. Where the judges never differ, the interval of the difference bounds what units not
        seen could do on which one of them alone is wrong.
    compute : bool
        On lazy labels, whether to compute now.

    Returns
    -------
    Dataset
        Per statistic ``x``: ``x_a``, ``x_b`` and ``x_difference = x_a - x_b`` on the same ``n`` pairs, each
        with ``_reason``, ``_se``, ``_interval(bound)`` and ``_interval_reason``. For accuracy ``n_only_a``,
        ``n_only_b`` (pairs where only one agrees with the reference) and the exact ``mcnemar_p``; with
        several pairs of raters also ``mcnemar_p_holm`` and ``mcnemar_p_by`` over all p-values of the result.

    Raises
    ------
    ProtocolError
        A rater compared with itself; what the scale cannot carry.

    Warns
    -----
    UndefinedWarning, IntervalWarning
        As :func:`xjudge.agreement`.

    Notes
    -----
    One pass (sums) for delta intervals; on a continuous scale it holds the numbers. McNemar's test takes
    pairs as independent: where criteria or humans are pooled it is a description, and the interval of the
    difference is the inference.

    Examples
    --------
    >>> import xjudge as xj
    >>> ds = xj.load_example()
    >>> protocol = xj.Protocol(aggregate="micro")
    >>> result = ds.judge.compare("orion-large", "vela-large", reference="pooled", protocol=protocol)
    >>> result["accuracy_difference"].dims
    ()
    """
    check_arguments(compare, locals())
    view = View.of(data, humans=humans, **told_apart(reference))
    chosen = Protocol() if protocol is None else protocol
    resolved = chosen.resolve(view.scale)
    pairs, named = _pairs(view, a, b)
    one = not isinstance(a, list | tuple) and not isinstance(b, list | tuple)
    sides = _sides(view, reference, pairs, one=one)
    sampling = Sampling(interval, resample, level, n_resamples, seed)
    counting = Pass(view, [resolved], sides, by, seed)
    (plan,) = counting.plans
    if statistic is None:
        statistic = "accuracy" if plan.scores is None else "mean_absolute_error"
    names = chosen_statistics(statistic, [(chosen, plan.scale)])
    if sampling.method == "wilson":
        raise ProtocolError(
            "`interval='wilson'` is for single shares; a comparison takes 'delta' or resamples."
        )
    sampling.check(names, [plan.aggregate])
    intervals = Intervals(counting, sampling)
    statistics = statistics_of_two(names, matrix_of(weights, costs, plan), plan.scale)
    check_weights(names, weights, costs)
    numbers = None if plan.scores is None else Numbers(counting, plan, sampling, list(statistics))

    def finish(counted: list[Any]) -> dict[str, Any]:
        tables = Tables(counting, plan, counted)
        found = {} if numbers is None else numbers.evaluated(counted)
        out: dict[str, Any] = {}
        values, reasons = {}, {}
        for name, of_two in statistics.items():
            value, reason = found[name] if found else of_two.value(tables.table)
            values[name], reasons[name], _ = tables.settled(value, reason)
            out[name] = tables.on_dims(values[name])
            out[f"{name}_reason"] = texts(tables.on_dims(reasons[name]))
        if sampling.method is not None:
            out |= tables.named(tables.sampled(intervals, values, reasons, statistics, numbers))
        out |= tables.counts()
        return out | (discordant(tables, many=len(pairs) > 1) if "accuracy" in names else {})

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
        **sampling_attrs(sampling, list(statistics), intervals.law),
    )
    warn_recoded([resolved])
    if compute or not view.lazy:
        warn_undefined(result, list(statistics))
        warn_intervals(result, list(statistics))
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

"""All judges ranked by a statistic, with the probability that each is best."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from xjudge.columns import criterion_weights
from xjudge.errors import ProtocolError, Reason
from xjudge.labelled._common import agreement_weights, chosen_statistics, texts, warn_undefined
from xjudge.labelled._estimate import OfTable, coefficient
from xjudge.labelled._evaluation import averaged
from xjudge.labelled._intervals import Intervals
from xjudge.labelled._pass import Pass, Plan
from xjudge.labelled._results import named_result, placed, result_attrs
from xjudge.labelled._sampling import Sampling
from xjudge.labelled._sides import Sides, told_apart
from xjudge.protocol import Protocol
from xjudge.statistics.resample import probability_best
from xjudge.view import View

__all__ = ["rank"]


def rank(
    data: xr.Dataset | xr.DataArray,
    *,
    statistic: str = "accuracy",
    reference: str = "pooled",
    weights: Any = None,
    costs: Any = None,
    protocol: Protocol | None = None,
    by: str | None = None,
    judges: Any = None,
    humans: Any = None,
    resample: str = "items",
    n_resamples: int = 2000,
    seed: int = 0,
    compute: bool = True,
) -> xr.Dataset:
    """Rank judges by a statistic, with the probability that each is best.

    Parameters
    ----------
    data : Dataset or DataArray
        A judge dataset.
    statistic : str
        A coefficient of two raters; the greatest value is best.
    reference : {"pooled", "each", "majority"} or name
        As in :func:`xjudge.agreement`.
    weights, costs, protocol, by, judges, humans
        As in :func:`xjudge.agreement`.
    resample : {"items", "clusters"}
        The sampling unit; all judges share the resamples.
    n_resamples, seed : int
        Of the resamples.
    compute : bool
        On lazy labels, whether to compute now.

    Returns
    -------
    Dataset
        ``x`` with ``x_reason``, ``rank`` (1 is best; equal values share the best rank; 0 where undefined),
        ``p_best``: the share of resamples in which the judge has the greatest value, ties shared equally.

    Raises
    ------
    ProtocolError
        More than one statistic; too many distinct items to resample.

    Notes
    -----
    Judges are compared on the cases that each answered, which may differ; :func:`xjudge.compare` compares
    two on the cases both answered. Needs the label patterns of whole items, or clusters.

    Examples
    --------
    >>> import xjudge as xj
    >>> protocol = xj.Protocol(aggregate="micro")
    >>> ranked = xj.rank(xj.load_example(), protocol=protocol, n_resamples=200)
    >>> str(ranked["rater"].values[ranked["rank"] == 1][0])
    'orion-large'
    """
    if not isinstance(statistic, str):
        raise ProtocolError(f"`rank` takes one statistic; got {statistic!r}.")
    if resample not in ("items", "clusters"):
        raise ProtocolError(f"`rank` resamples 'items' or 'clusters'; got {resample!r}.")
    view = View.of(data, humans=humans, judges=judges, **told_apart(reference))
    chosen = Protocol() if protocol is None else protocol
    resolved = chosen.resolve(view.scale)
    sides = Sides.of(view, reference, None)
    sampling = Sampling("percentile", resample, 0.95, n_resamples, seed)
    counting = Pass(view, [resolved], sides, by, seed)
    (plan,) = counting.plans
    if plan.scores is not None:
        raise ProtocolError(
            f"`rank` needs categories, and under {chosen!r} the scale is {plan.scale!r}; see xj.agreement."
        )
    (name,) = chosen_statistics(statistic, [(chosen, plan.scale)])
    intervals = Intervals(counting, sampling, joint=True)
    matrix = agreement_weights(weights, costs, plan.scale, plan.outcomes)
    known = {name: coefficient(name, matrix, plan.scale.scores)}

    def finish(counted: list[Any]) -> dict[str, Any]:
        return _ranked(intervals, plan, counted, name, known)

    arrays = counting.run(finish, compute)
    result = named_result(view, sides, counting.cases, arrays, criterion=plan.per_criterion)
    result.attrs = result_attrs(
        "rank",
        view,
        sides,
        protocol=chosen,
        by=by,
        statistic=name,
        weights=weights,
        costs=costs,
        resample=resample,
        n_resamples=n_resamples,
        seed=seed,
        law="multinomial",
    )
    if compute or not view.lazy:
        warn_undefined(result, [name])
    return result


def _ranked(
    intervals: Intervals, plan: Plan, counted: list[Any], name: str, known: Mapping[str, OfTable]
) -> dict[str, Any]:
    counting = intervals.counting
    raw = counting.raw(plan, counted)
    apart = plan.collapse(raw)
    macro = plan.aggregate == "macro"
    if plan.aggregate == "micro":
        raw = raw.sum(-6, keepdims=True)
    table = plan.collapse(raw)
    value, reason = known[name].value(table)
    reason = np.where(plan.eligible(raw) == 0, np.int8(Reason.NO_OVERLAP), reason)
    totals = raw.sum((-2, -1))
    used = table.sum((-2, -1))
    if macro:
        weights = criterion_weights(counting.view, plan.resolved.protocol)
        value, reason, _ = averaged(weights, value, reason)
        totals, used = totals.sum(-4, keepdims=True), used.sum(-4, keepdims=True)
    values = {name: np.where(reason == 0, value, np.nan)}
    drawn = intervals.replicates(plan, counted, values, apart, known, totals)[name]
    never = np.isnan(drawn).all(0)
    best = probability_best(np.where(never, -np.inf, drawn), axis=-1)
    greater = values[name][..., None, :] > values[name][..., :, None]

    def on_dims(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return placed(counting.view, counting.sides, array, criterion=plan.per_criterion)

    return {
        name: on_dims(values[name]),
        f"{name}_reason": texts(on_dims(reason)),
        "rank": on_dims(np.where(reason == 0, 1 + greater.sum(-1), 0)),
        "p_best": on_dims(np.where(never, np.nan, best)),
        "n": on_dims(used),
    }

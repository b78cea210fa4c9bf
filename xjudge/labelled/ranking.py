"""All judges ranked by a statistic, with the probability that each is best."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import xarray as xr

from xjudge._arguments import check_arguments
from xjudge.errors import ProtocolError
from xjudge.labelled._common import chosen_statistics, texts, warn_undefined
from xjudge.labelled._estimate import coefficient
from xjudge.labelled._evaluation import Tables, check_weights, matrix_of
from xjudge.labelled._intervals import Intervals
from xjudge.labelled._numbers import Numbers
from xjudge.labelled._pass import Pass
from xjudge.labelled._results import named_result, result_attrs
from xjudge.labelled._sampling import Sampling
from xjudge.labelled._sides import Sides, told_apart
from xjudge.protocol import Protocol
from xjudge.statistics.resample import probability_best
from xjudge.view import View

__all__ = ["rank"]

BEST: Final = {
    "mean_absolute_error": "least",
    "rmse": "least",
    "mean_error": "nearest 0",
    "class_recall_gap": "nearest 0",
}
"""Which value of a statistic is best, where it is not the greatest."""

_OF_NOBODY = ("lower_limit_of_agreement", "upper_limit_of_agreement")


def rank(
    data: xr.Dataset | xr.DataArray,
    *,
    statistic: str | None = None,
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
    statistic : str, optional
        A coefficient of two raters, or a statistic of numbers on scales that have them. By default accuracy,
        on a continuous scale the mean absolute error. The greatest value is best; of
        ``"mean_absolute_error"`` and ``"rmse"`` the least, of ``"mean_error"`` and ``"class_recall_gap"`` the
        one nearest 0. The attribute ``best`` says which.
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
        ``p_best``: the share of resamples in which the judge has the best value, ties shared equally; ``n``
        pairs used.

    Raises
    ------
    ProtocolError
        More than one statistic, or one that ranks nobody (limits of agreement); with ``compute=False`` too
        many distinct items to resample, which takes a second pass.

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
    check_arguments(rank, locals())
    if not isinstance(statistic, str | None):
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
    if statistic is None:
        statistic = "accuracy" if plan.scores is None else "mean_absolute_error"
    name, *more = chosen_statistics(statistic, [(chosen, plan.scale)])
    if more or name in _OF_NOBODY:
        raise ProtocolError(f"`rank` needs a statistic with a best value; {statistic!r} has none.")
    intervals = Intervals(counting, sampling, joint=True)
    known = {name: coefficient(name, matrix_of(weights, costs, plan), plan.scale.scores)}
    check_weights([name], weights, costs)
    numbers = None if plan.scores is None else Numbers(counting, plan, sampling, [name])

    def finish(counted: list[Any]) -> dict[str, Any]:
        tables = Tables(counting, plan, counted)
        found = known[name].value(tables.table) if numbers is None else numbers.evaluated(counted)[name]
        value, reason, _ = tables.settled(*found)
        if numbers is None:
            drawn = intervals.replicates(plan, counted, {name: value}, tables.apart, known, tables.totals)
        else:
            drawn = numbers.replicates(counted, {name: value})
        goodness, replicates = _goodness(name, value), _goodness(name, drawn[name])
        never = np.isnan(replicates).all(0)
        best = probability_best(np.where(never, -np.inf, replicates), axis=-1)
        greater = goodness[..., None, :] > goodness[..., :, None]
        out = {
            name: value,
            "rank": np.where(reason == 0, 1 + greater.sum(-1), 0),
            "p_best": np.where(never, np.nan, best),
            "n": tables.n,
        }
        placed = {word: tables.on_dims(array) for word, array in out.items()}
        return placed | {f"{name}_reason": texts(tables.on_dims(reason))}

    arrays = counting.run(finish, compute)
    result = named_result(view, sides, counting.cases, arrays, criterion=plan.per_criterion)
    result.attrs = result_attrs(
        "rank",
        view,
        sides,
        protocol=chosen,
        by=by,
        statistic=name,
        best=BEST.get(name, "greatest"),
        weights=weights,
        costs=costs,
        resample=resample,
        n_resamples=n_resamples,
        seed=seed,
        law=intervals.law,
    )
    if compute or not view.lazy:
        warn_undefined(result, [name])
    return result


def _goodness(name: str, value: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Values so turned that the greatest is best."""
    best = BEST.get(name, "greatest")
    if best == "greatest":
        return value
    return -value if best == "least" else -np.abs(value)

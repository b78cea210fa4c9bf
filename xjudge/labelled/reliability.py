"""Agreement among any number of raters, with missing labels: `reliability`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from xjudge._arguments import check_arguments
from xjudge.errors import OverlapError, ProtocolError, StructureError, listing
from xjudge.labelled._anonymous import with_counted_labels
from xjudge.labelled._common import flat_attrs, version, warn_recoded, warn_undefined
from xjudge.labelled._labels import Labels
from xjudge.labelled._level import warn_intervals
from xjudge.labelled._rater_estimates import Estimates
from xjudge.labelled._rater_measures import Choices, Measure, measures
from xjudge.labelled._rater_units import Asked
from xjudge.labelled._sampling import Sampling
from xjudge.protocol import Protocol
from xjudge.view import FEW_RATERS, View

__all__ = ["reliability"]


def reliability(
    data: xr.Dataset | xr.DataArray,
    *,
    statistic: str | Sequence[str] = "alpha",
    raters: Any = "humans",
    metric: Any = None,
    weights: Any = None,
    shares: str = "pooled",
    period: float | None = None,
    protocol: Protocol | None = None,
    by: str | None = None,
    judges: Any = None,
    humans: Any = None,
    interval: str | None = "auto",
    resample: str = "items",
    level: float = 0.95,
    n_resamples: int = 2000,
    seed: int = 0,
    convention: str = "delta",
    compute: bool = True,
) -> xr.Dataset:
    """Reliability of any number of raters; labels may be missing.

    A *unit* is an item under a criterion (an item, where verdicts are combined); a unit is pairable where
    two raters gave it a usable label.

    Parameters
    ----------
    data : Dataset or DataArray
        A judge dataset.
    statistic : str or list of str
        ``"alpha"`` (Krippendorff), ``"fleiss_kappa"``, ``"scott_pi"`` (Fleiss with pooled shares),
        ``"conger_kappa"``, ``"light_kappa"``, ``"mean_pairwise_kappa"``, ``"gwet_ac"`` (also
        ``"gwet_ac1"``, ``"gwet_ac2"``), ``"brennan_prediger"``, ``"percent_agreement"``; intraclass
        correlations ``"icc(1)"``, ``"icc(A,1)"``, ``"icc(C,1)"``, ``"icc(1,k)"``, ``"icc(A,k)"``,
        ``"icc(C,k)"`` of the scores of the categories. On a continuous scale alpha and the intraclass
        correlations.
    raters : "humans", "judges", "all" or list of names
        Whose reliability. Labels of a variable ``count(item[, criterion], category)`` are humans' too, of
        people other than those with a name: they take part under ``"humans"`` and ``"all"``, unless
        ``humans`` restricts them, in coefficients that do not ask who said what.
    metric : str or (L, L) matrix, optional
        Of alpha: ``"nominal"`` (the default), ``"ordinal"``, ``"interval"``, ``"ratio"``, ``"circular"``
        or own distances; on a continuous scale ``"interval"`` (the default there), ``"ordinal"``,
        ``"nominal"``, ``"ratio"`` or, with a ``period``, ``"circular"``.
    weights : str or (L, L) matrix, optional
        Agreement weights, as in :func:`xjudge.agreement`; of alpha too, where there is no ``metric``.
    shares : {"pooled", "item_mean"}
        Category shares of Fleiss' kappa: over all labels of the pairable units, or the mean over units of
        the shares within the unit, units with one label included (irrCAC).
    period : float, optional
        Length of the circle of ``metric="circular"`` where categories are numbers: 24 for hours, 360 for
        degrees. Needed on a continuous scale; an interval scale closes one smallest step after its last
        value without it.
    protocol : Protocol, optional
        By default per criterion, by exclusion. With ``"micro"`` the units of all criteria are one sample,
        and items with all their units are what is drawn; ``"macro"`` averages over the criteria where the
        coefficient is defined.
    by : str, optional
        An item coordinate to slice on.
    judges, humans : list of names or boolean array, optional
        Restrict whom ``raters="humans"``, ``"judges"`` and ``"all"`` mean.
    interval : {"auto", "delta", "percentile", "bca", "studentized"} or None
        ``"auto"`` is the delta method; for intraclass correlations F distributions, and percentiles where
        criteria are pooled. Where all labels agree the interval bounds what was not seen
        (:func:`xjudge.statistics.raters.unseen_units`); of numbers there is none.
    resample : {"items", "clusters", "items+criteria", "criteria", "decisions"}
        The sampling unit, as in :func:`xjudge.agreement`; ``"decisions"`` takes every unit as independent.
    level, n_resamples, seed
        As in :func:`xjudge.agreement`.
    convention : {"delta", "gwet"}
        Of delta-method standard errors: the derivative, or the linearisation that Gwet prints and irrCAC
        computes, which counts the share of units with one label as noise.
    compute : bool
        On lazy labels, whether to compute now.

    Returns
    -------
    Dataset
        Per statistic ``x``, of dims ([by,] [criterion,] further dims): ``x``, ``x_reason``, ``x_se``,
        ``x_interval(bound)``, ``x_interval_reason`` and, where resampled, ``x_undefined``. ``n`` pairable
        units, ``n_labels`` their labels, ``n_single`` units with one label, ``n_items`` items with a pairable
        unit, ``n_eligible`` units that two raters were asked for, ``coverage = n / n_eligible``; under
        ``"macro"`` also ``n_criteria`` and ``n_criteria_included(statistic)``; for the mean kappas
        ``n_rater_pairs`` and ``n_rater_pairs_included``. Attributes say which conventions were used.

    Raises
    ------
    ProtocolError
        Unknown coefficients, and what the scale cannot carry: distances without an order, numbers of
        categories that have none.
    OverlapError
        No rater of the kind that was asked for.
    StructureError
        Coefficients that tell raters apart, of more than 64 raters in the sparse layout.
    StructureError
        Counts or crowds together with coefficients that tell raters apart; counts that are no counts.

    Warns
    -----
    UndefinedWarning
        Values that are NaN, with their reasons.
    IntervalWarning
        Intervals that may miss their level, as in :func:`xjudge.agreement`.

    Notes
    -----
    One pass. Coefficients of counts come from the histogram of count vectors, which is small whatever the
    number of items; Conger's and the mean kappas and intraclass correlations from the distinct rows of
    labels; alpha of numbers from the numbers themselves. Items without a label of every rater do not enter
    an intraclass correlation. Where criteria are pooled and distinct items too many to be drawn, a second
    pass sums under Poisson weights by position, with ``compute=True`` (the attribute ``law`` says so); not on
    continuous scales. Formulas: :mod:`xjudge.statistics.raters`.

    Examples
    --------
    >>> import xjudge as xj
    >>> ds = xj.load_example()
    >>> result = ds.judge.reliability(statistic=["alpha", "gwet_ac"], protocol=xj.Protocol(aggregate="micro"))
    >>> result["alpha"].dims, result["alpha_interval"].dims
    ((), ('bound',))
    """
    check_arguments(reliability, locals())
    view = View.of(data, humans=humans, judges=judges, own={}, pool=raters)
    chosen = Protocol() if protocol is None else protocol
    if humans is None:
        view = with_counted_labels(view, raters, chosen)
    resolved = chosen.resolve(view.scale)
    positions = view.members(raters) if view.pool is None else view.pool
    if not positions:
        raise OverlapError(f"There is no rater to compare: `raters={raters!r}` is empty in this dataset.")
    labels = Labels(view, [resolved], by, seed)
    columns = labels.columns_of(resolved)
    choices = Choices(metric, weights, shares, period)
    asked_for = measures(statistic, choices, columns, chosen, len(positions))
    names = [measure.name for measure in asked_for]
    _refuse_places(view, asked_for)
    sampling = Sampling(interval, resample, level, n_resamples, seed)
    sampling.check(names, [chosen.aggregate])
    if convention not in ("delta", "gwet"):
        raise ProtocolError(f"`convention` is 'delta' or 'gwet'; got {convention!r}.")
    pooled = chosen.aggregate == "macro" or (chosen.aggregate == "micro" and columns.n_criteria > 1)
    methods = {measure.name: _method(measure, sampling, chosen, pooled) for measure in asked_for}
    asked = Asked(labels, columns, positions, chosen, sampling, asked_for, methods)
    estimates = Estimates(asked, asked_for, methods, convention, len(positions))

    def finish(counted: list[Any]) -> dict[str, Any]:
        return estimates.of(counted)

    arrays = labels.run(finish, compute)
    result = _named(view, labels, arrays, names, per_criterion=estimates.per_criterion)
    coords: dict[str, Any] = {}
    if sampling.method is not None:
        coords["bound"] = ("bound", np.array(["lower", "upper"]))
    if chosen.aggregate == "macro":
        coords["statistic"] = ("statistic", np.array(names))
    result = result.assign_coords(coords)
    stated: dict[str, Any] = {
        "protocol": chosen,
        "by": by,
        "statistic": names,
        "metric": _stated_metric(asked_for, metric),
        "weights": weights,
        "shares": shares,
        "period": period,
        "convention": convention,
    }
    known = {"verb": "reliability", "scale": view.scale, "raters": view.stated(np.array(positions), "pool")}
    known |= {name: value for name, value in stated.items() if value is not None}
    result.attrs = flat_attrs(
        known | _sampling_attrs(sampling, methods, asked.law) | {"xjudge_version": version()}
    )
    warn_recoded([resolved])
    if compute or not view.lazy:
        warn_undefined(result, names)
        warn_intervals(result, names)
    return result


def _refuse_places(view: View, asked: Sequence[Measure]) -> None:
    """Coefficients that know who said what have nothing to go by where a crowd shares its columns."""
    wrong = [measure.name for measure in asked if measure.data == "labels" or measure.form is not None]
    if not (view.n_places and wrong):
        return
    if not view.sparse:
        raise StructureError(
            f"{listing(wrong)} tells raters apart, and the labels in `count` are nobody's in particular. "
            "Name the raters, `raters=[...]`, or take alpha, fleiss_kappa, gwet_ac or percent_agreement, "
            "which do not ask who said what."
        )
    raise StructureError(
        f"{listing(wrong)} tells raters apart, as in a dense cube label(item, rater), and of a crowd "
        f"(sparse layout) at most {FEW_RATERS} raters get columns. Name them, `raters=[...]`, or take "
        "alpha, fleiss_kappa, gwet_ac or percent_agreement, which do not ask who said what."
    )


def _method(measure: Measure, sampling: Sampling, protocol: Protocol, pooled: bool) -> str | None:
    """The interval method of a coefficient: ``"f"`` is that of F distributions."""
    method = sampling.of(measure.name)
    if measure.form is None or sampling.method != "auto" or method == "percentile":
        return method
    simple = not pooled or (sampling.resample == "decisions" and protocol.aggregate != "macro")
    return "f" if simple and sampling.resample != "clusters" else "percentile"


def _stated_metric(asked: Sequence[Measure], metric: Any) -> Any:
    """The metric that alpha took; ``None`` where weights stood in its place, or alpha was not asked for."""
    if metric is not None:
        return metric
    return next((measure.metric for measure in asked if measure.metric is not None), None)


def _sampling_attrs(sampling: Sampling, methods: dict[str, str | None], law: str) -> dict[str, Any]:
    out: dict[str, Any] = {"interval": sampling.method or "none", "seed": sampling.seed}
    if sampling.method is None:
        return out
    out |= {"interval_methods": methods, "resample": sampling.resample, "level": sampling.level}
    if any(method not in ("delta", "f") for method in methods.values()):
        out |= {"n_resamples": sampling.n_resamples, "law": law}
    return out


def _named(
    view: View, labels: Labels, arrays: dict[str, Any], names: Sequence[str], *, per_criterion: bool
) -> xr.Dataset:
    """Finished arrays with their dims and coordinates."""
    rest = [dim for dim in view.rest if per_criterion or dim != "criterion"]
    by = [] if labels.cases.by is None else [labels.cases.by]
    ends = {f"{name}_interval": ("bound",) for name in names}
    ends["n_criteria_included"] = ("statistic",)
    variables = {name: ([*by, *rest, *ends.get(name, ())], array) for name, array in arrays.items()}
    coords: dict[str, Any] = dict(view.coordinates(*rest))
    if by:
        coords[by[0]] = (by[0], labels.cases.slices)
    return xr.Dataset(variables, coords=coords)

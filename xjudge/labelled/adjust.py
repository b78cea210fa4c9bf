"""What follows under stated assumptions: adjustment for abstention, and corrected positive rates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from xjudge._arguments import check_arguments
from xjudge.codes import MISSING
from xjudge.errors import ProtocolError, XJudgeWarning, listing, warn
from xjudge.labelled._adjust_features import feature_columns
from xjudge.labelled._adjust_pairs import Asked, estimated_pairs, votes
from xjudge.labelled._adjust_rates import prevalence
from xjudge.labelled._common import agreement_weights, chosen_statistics, warn_recoded, warn_undefined
from xjudge.labelled._pass import Pass, Plan
from xjudge.labelled._results import named_result, placed, result_attrs
from xjudge.labelled._sampling import transform
from xjudge.labelled._sides import Sides
from xjudge.protocol import Protocol
from xjudge.statistics import adjust as models
from xjudge.statistics.coefficients import COEFFICIENTS
from xjudge.statistics.resample import delta_interval
from xjudge.view import View

__all__ = ["adjust", "prevalence"]

Floats = npt.NDArray[np.float64]

_THIN = 0.05
"""Fitted coverage below which a case has next to no covered cases like it."""


def adjust(
    data: xr.Dataset | xr.DataArray,
    features: str | Sequence[str],
    *,
    statistic: str | Sequence[str] = "accuracy",
    reference: str = "each",
    method: str = "doubly_robust",
    weights: Any = None,
    costs: Any = None,
    protocol: Protocol | None = None,
    by: str | None = None,
    judges: Any = None,
    humans: Any = None,
    interval: str | None = "auto",
    resample: str = "items",
    level: float = 0.95,
    seed: int = 0,
    compute: bool = True,
) -> xr.Dataset:
    """Statistics of all cases, if abstention is ignorable given features of the items.

    The assumption: among items with the same features, whether both sides answered is independent of what
    they would have said. No data can check it. The sharp range stands beside the estimate: it holds without.

    Parameters
    ----------
    data : Dataset or DataArray
        A judge dataset.
    features : str or list of str
        Coordinates along ``item``: numbers and booleans as they are, text as an indicator of each level but
        the first. An empty list takes covered cases to be like all others.
    statistic : str or list of str
        As in :func:`xjudge.agreement`, of those that are a function of the table.
    reference : {"each"} or name
        Each human (dim ``reference``), or one rater.
    method : {"doubly_robust", "weighting", "standardised"}
        Covered cases weighted by 1 over the fitted coverage; the table's cells predicted for all cases; or
        both, which is right if either model is.
    weights, costs : str or matrix, optional
        Agreement weights or disagreement costs, as in :func:`xjudge.agreement`.
    protocol, by, judges, humans
        As in :func:`xjudge.agreement`. In each slice of ``by`` the models are fitted anew.
    interval : {"auto", "delta"}, optional
        From the standard error, on the scale on which :func:`xjudge.agreement` takes it; ``None`` gives none.
    resample : {"items", "clusters"}
        The unit over which standard errors are taken.
    level : float
        Of the interval.
    seed : int
        For labels that a protocol samples from probabilities.
    compute : bool
        Lazy labels are computed here (one compute); ``False`` is refused on them.

    Returns
    -------
    Dataset
        Per statistic ``x``: ``x`` and ``x_reason`` on the covered cases; ``x_adjusted`` with
        ``x_adjusted_reason``, ``x_adjusted_se`` and ``x_adjusted_interval(bound)``; ``x_range(bound)`` and
        ``x_range_kind`` over all completions (NaN and ``"none"`` for statistics without a range). ``n``
        covered cases on ``n_items`` items, ``n_eligible`` (covered or open), ``coverage``.

        Positivity: ``least_coverage``, the least fitted probability of being covered; ``effective_n``, how
        many covered cases of equal weight tell as much; ``largest_weight`` as a multiple of the mean one.

        Association of open cases with each feature given the others, on dim ``feature``:
        ``abstention_coefficient`` (log odds per unit), ``abstention_odds_ratio``, ``abstention_se``,
        ``abstention_p_value``, ``abstention_reason``.

        Under ``"macro"`` the values, adjusted values and ends are means over the criteria in which they are
        defined, standard errors those of the mean, ``least_coverage`` and ``largest_weight`` of the worst
        criterion and ``effective_n`` the sum; the association pools the criteria. Also ``n_criteria`` and
        ``n_criteria_included(statistic)``.

    Raises
    ------
    ProtocolError
        A statistic, reference or aggregation that does not go with it.
    StructureError
        A feature that is not there, or has no value on an item that needs one.

    Warns
    -----
    XJudgeWarning
        Cases with a fitted coverage below 0.05: nothing like them is covered, and the estimate there rests on
        the form of the model.

    Notes
    -----
    Open are "cannot assess" and invalid verdicts that the protocol excludes; missing ones leave the case out.
    Coverage is fitted by logistic regression, the cells of the table by multinomial regression, both by
    maximum likelihood with a ridge of 0.01 on standardised slopes, which keeps them finite where a feature
    separates the cases. Standard errors are the sandwich of all these equations over items
    (:func:`xjudge.statistics.adjust.adjusted_coefficient`).

    P-values of associations are those of the score, which holds where a feature separates the cases and
    the coefficient is only kept finite by the ridge.

    Holds the labels and features in memory; two regressions for each pair of raters and table, and one more
    for each column of features.

    Examples
    --------
    >>> import xjudge as xj
    >>> found = xj.load_example().judge.adjust(
    ...     "difficulty_band", judges=["orion-large"], humans=["ann"], protocol=xj.Protocol(aggregate="micro")
    ... )
    >>> inside = (found["accuracy_range"].sel(bound="lower") <= found["accuracy_adjusted"]) & (
    ...     found["accuracy_adjusted"] <= found["accuracy_range"].sel(bound="upper")
    ... )
    >>> bool(inside.all()), found["abstention_p_value"].dims
    (True, ('reference', 'rater', 'feature'))
    """
    check_arguments(adjust, locals())
    _check_options(method, interval, resample, level)
    view = View.of(data, humans=humans, judges=judges)
    if view.lazy and not compute:
        raise ProtocolError("`adjust` fits models to the labels in memory and is not lazy: compute=True.")
    chosen = Protocol() if protocol is None else protocol
    sides = _each_or_one(view, reference)
    resolved = chosen.resolve(view.scale)
    counting = Pass(view, [resolved], sides, by, seed)
    (plan,) = counting.plans
    names = chosen_statistics(statistic, [(chosen, plan.scale)])
    wrong = [name for name in names if name not in COEFFICIENTS]
    if wrong:
        raise ProtocolError(f"`adjust` takes statistics of a table of categories, not {listing(wrong)}.")
    matrix = agreement_weights(weights, costs, plan.scale, plan.outcomes)
    left, right = votes(counting, plan)
    asked = ((left != MISSING).any((1, 2))) & ((right != MISSING).any((1, 2)))
    columns, numbers = feature_columns(view, features, asked)
    items = np.arange(view.n_items)
    if resample == "clusters":
        counting.clusters()
        items = np.asarray(counting.arrays["cluster"])
    found = estimated_pairs(counting, plan, left, right, numbers, items, Asked(names, method, matrix))
    for name in names:
        ends = _interval(name, found, interval, level)
        if ends is not None:
            found[f"{name}_adjusted_interval"] = ends
    result = _named(view, sides, counting, plan, found, columns, names)
    result.attrs = result_attrs(
        "adjust",
        view,
        sides,
        protocol=chosen,
        by=by,
        statistic=names,
        features=[features] if isinstance(features, str) else list(features),
        method=method,
        weights=weights,
        costs=costs,
        interval="none" if interval is None else "delta",
        resample=resample,
        level=level,
        seed=seed,
        ridge=models.RIDGE,
    )
    warn_recoded([resolved])
    warn_undefined(result, [word for name in names for word in (name, f"{name}_adjusted")])
    thin = int((result["least_coverage"] < _THIN).sum())
    if thin:
        warn(
            f"Positivity: {thin} of {result['least_coverage'].size} comparisons have cases with a fitted "
            f"coverage below {_THIN} (`least_coverage`); there the estimate rests on the model's form.",
            XJudgeWarning,
        )
    return result


def _check_options(method: str, interval: str | None, resample: str, level: float) -> None:
    if method not in models.METHODS:
        raise ProtocolError(f"`method` is one of {listing(models.METHODS)}; got {method!r}.")
    if interval not in (None, "auto", "delta"):
        raise ProtocolError(f"`interval` of `adjust` is None, 'auto' or 'delta'; got {interval!r}.")
    if resample not in ("items", "clusters"):
        raise ProtocolError(f"`resample` of `adjust` is 'items' or 'clusters'; got {resample!r}.")
    if not 0 < level < 1:
        raise ProtocolError(f"`level` must lie between 0 and 1; got {level!r}.")


def _each_or_one(view: View, reference: str) -> Sides:
    if reference in ("pooled", "majority"):
        raise ProtocolError(
            "`adjust` models whether two raters answered: `reference` is 'each' or a rater; got "
            f"{reference!r}."
        )
    return Sides.of(view, reference, None)


def _interval(
    name: str, found: dict[str, npt.NDArray[Any]], interval: str | None, level: float
) -> Floats | None:
    if interval is None:
        return None
    ends = delta_interval(
        found[f"{name}_adjusted"], found[f"{name}_adjusted_se"], level, transform=transform(name)
    )
    return np.stack([ends.lower, ends.upper], axis=-1)


def _named(
    view: View,
    sides: Sides,
    counting: Pass,
    plan: Plan,
    found: dict[str, npt.NDArray[Any]],
    columns: Sequence[str],
    names: Sequence[str],
) -> xr.Dataset:
    per_criterion = plan.per_criterion
    trailing: dict[str, tuple[str, ...]] = {
        name: ("feature",) if name.startswith("abstention_") else ("bound",) if array.ndim > 5 else ()
        for name, array in found.items()
    }
    if plan.aggregate == "macro":
        trailing["n_criteria_included"] = ("statistic",)
    if counting.cases.by is None:
        found = {name: array[0] for name, array in found.items()}
    arrays = {
        name: placed(view, sides, array, criterion=per_criterion, trailing=len(trailing[name]))
        for name, array in found.items()
    }
    result = named_result(view, sides, counting.cases, arrays, criterion=per_criterion, trailing=trailing)
    feature = np.array(columns, dtype=str) if columns else np.array([], dtype="<U1")
    if plan.aggregate == "macro":
        result = result.assign_coords(statistic=("statistic", np.array(names)))
    counting.cases.warn()
    return result.assign_coords(bound=("bound", np.array(["lower", "upper"])), feature=("feature", feature))

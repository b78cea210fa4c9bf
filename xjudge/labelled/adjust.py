"""What follows under stated assumptions: adjustment for abstention, and corrected positive rates."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from xjudge.codes import MISSING, N_OUTCOMES
from xjudge.errors import ProtocolError, XJudgeWarning, listing, warn
from xjudge.labelled._adjust_features import feature_columns
from xjudge.labelled._adjust_pairs import estimated_pairs, votes
from xjudge.labelled._common import chosen_statistics, texts, warn_recoded, warn_undefined
from xjudge.labelled._pass import Pass, Plan
from xjudge.labelled._results import named_result, placed, result_attrs
from xjudge.labelled._results import share as _share
from xjudge.labelled._sampling import transform
from xjudge.labelled._sides import Sides, told_apart
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
    protocol: Protocol | None = None,
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
    protocol : Protocol, optional
        ``None``, ``"micro"`` and ``"item"`` aggregation.
    judges, humans
        As in :func:`xjudge.agreement`.
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
    _check_options(method, interval, resample, level)
    view = View.of(data, humans=humans, judges=judges)
    if view.lazy and not compute:
        raise ProtocolError("`adjust` fits models to the labels in memory and is not lazy: compute=True.")
    chosen = Protocol() if protocol is None else protocol
    sides = _each_or_one(view, reference, chosen)
    resolved = chosen.resolve(view.scale)
    counting = Pass(view, [resolved], sides, None, seed)
    (plan,) = counting.plans
    names = chosen_statistics(statistic, [(chosen, plan.scale)])
    wrong = [name for name in names if name not in COEFFICIENTS]
    if wrong:
        raise ProtocolError(f"`adjust` takes statistics of a table of categories, not {listing(wrong)}.")
    left, right = votes(counting, plan)
    asked = ((left != MISSING).any((1, 2))) & ((right != MISSING).any((1, 2)))
    columns, numbers = feature_columns(view, features, asked)
    items = np.arange(view.n_items)
    if resample == "clusters":
        counting.clusters()
        items = np.asarray(counting.arrays["cluster"])
    found = estimated_pairs(plan, left, right, numbers, items, names, method)
    for name in names:
        ends = _interval(name, found, interval, level)
        if ends is not None:
            found[f"{name}_adjusted_interval"] = ends
    result = _named(view, sides, counting, plan, found, columns)
    result.attrs = result_attrs(
        "adjust",
        view,
        sides,
        protocol=chosen,
        statistic=names,
        features=[features] if isinstance(features, str) else list(features),
        method=method,
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


def _each_or_one(view: View, reference: str, protocol: Protocol) -> Sides:
    if reference in ("pooled", "majority"):
        raise ProtocolError(
            "`adjust` models whether two raters answered: `reference` is 'each' or a rater; got "
            f"{reference!r}."
        )
    if protocol.aggregate == "macro":
        raise ProtocolError("`adjust` pools criteria under 'micro' or 'item', or keeps them apart (None).")
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
) -> xr.Dataset:
    per_criterion = plan.per_criterion
    trailing: dict[str, tuple[str, ...]] = {
        name: ("feature",) if name.startswith("abstention_") else ("bound",) if array.ndim > 4 else ()
        for name, array in found.items()
    }
    arrays = {
        name: placed(view, sides, array, criterion=per_criterion, trailing=array.ndim - 4)
        for name, array in found.items()
    }
    result = named_result(view, sides, counting.cases, arrays, criterion=per_criterion, trailing=trailing)
    feature = np.array(columns, dtype=str) if columns else np.array([], dtype="<U1")
    return result.assign_coords(bound=("bound", np.array(["lower", "upper"])), feature=("feature", feature))


# ------------------------------------------------------------------------------------------------- prevalence

_METHODS: dict[str, Callable[..., models.Prevalence]] = {
    "naive": models.naive,
    "rogan_gladen": models.rogan_gladen,
    "ppi": models.ppi,
    "ppi++": models.ppi_plus_plus,
    "stratified": models.stratified,
}


def prevalence(
    data: xr.Dataset | xr.DataArray,
    judge: Any,
    *,
    method: str = "ppi++",
    reference: str = "majority",
    strata: str | None = None,
    protocol: Protocol | None = None,
    humans: Any = None,
    level: float = 0.95,
    seed: int = 0,
    compute: bool = True,
) -> xr.Dataset:
    """How many cases are positive, from a judge's verdicts on all and human labels on some.

    The labelled cases are taken to be a random sample of those the judge answered (within strata, for
    ``"stratified"``; given the human's label, for ``"rogan_gladen"``).

    Parameters
    ----------
    data : Dataset or DataArray
        A judge dataset.
    judge : name or list of names
        Whose verdicts; a list keeps dim ``rater``.
    method : {"ppi++", "ppi", "rogan_gladen", "stratified", "naive"}
        Power-tuned prediction-powered inference, the plain one, the correction by sensitivity and
        specificity, the power-tuned one within strata, or the judge's uncorrected rate.
    reference : {"majority", "each"} or name
        The human label: the humans' vote, each human (dim ``reference``), or one rater.
    strata : str, optional
        A coordinate along ``item``, for ``method="stratified"``.
    protocol : Protocol, optional
        Of two categories, one of them positive; aggregation ``None`` or ``"item"``.
    humans
        As in :func:`xjudge.agreement`.
    level : float
        Of the intervals.
    seed : int
        For labels that a protocol samples from probabilities.
    compute : bool
        On lazy labels, whether to compute now (one compute).

    Returns
    -------
    Dataset
        ``prevalence`` in [0, 1] with ``prevalence_reason``, ``prevalence_se`` and
        ``prevalence_interval(bound)``; ``labelled_only`` and ``labelled_only_interval(bound)``, from the
        labelled cases without the judge; ``hurts``, whether the corrected interval is the wider of the two
        (within strata on both sides, for ``"stratified"``);
        ``clipped``, whether the formula left [0, 1]; ``tuning``, the weight lambda of the judge's verdicts
        (dim ``strata`` by its own name, for ``"stratified"``). ``judge_rate`` over all its verdicts,
        ``sensitivity`` and ``specificity`` on the labelled cases; ``n_labelled``, ``n_unlabelled``.

    Raises
    ------
    ProtocolError
        A protocol without a positive category, pooled criteria, strata without ``method="stratified"``.
    StructureError
        An unknown rater or coordinate.

    Notes
    -----
    A case is labelled where the reference has a category, unlabelled where it is missing, CA, invalid or
    tied; the judge needs a category in both. One pass (sums). Formulas, intervals and sources are with the
    functions of :mod:`xjudge.statistics.adjust`.

    Examples
    --------
    >>> import xjudge as xj
    >>> found = xj.load_example().judge.prevalence("orion-large", reference="ann")
    >>> found["prevalence"].dims
    ('criterion',)
    >>> wider = found["hurts"].sel(criterion="correct")
    >>> bool(wider)
    False
    """
    _check_prevalence(method, strata, protocol, reference, level)
    many = not isinstance(judge, str | int | np.generic)
    view = View.of(data, humans=humans, judges=judge, **told_apart(reference))
    chosen = Protocol() if protocol is None else protocol
    sides = Sides.of(view, reference, None)
    resolved = chosen.resolve(view.scale)
    counting = Pass(view, [resolved], sides, strata, seed)
    (plan,) = counting.plans
    if plan.scale.kind != "binary":
        raise ProtocolError(
            "`prevalence` needs a negative and a positive category, and under this protocol the scale is "
            f"{plan.scale!r}. Map the scale (xj.at_least, xj.one_of)."
        )

    def finish(counted: list[Any]) -> dict[str, Any]:
        labelled, rest = _labelled_and_rest(counting, plan, counted)
        found = _rates(labelled, rest, method, level)
        return {
            name: placed(view, sides, array, criterion=plan.per_criterion, trailing=array.ndim - 4)
            for name, array in found.items()
        }

    arrays = counting.run(finish, compute)
    ends: dict[str, tuple[str, ...]] = {}
    ends |= dict.fromkeys(("prevalence_interval", "labelled_only_interval"), ("bound",))
    cases = copy.copy(counting.cases)
    cases.by = None  # the slices are strata, and are joined
    if strata is not None:
        ends["tuning"] = (strata,)
    result = named_result(view, sides, cases, arrays, criterion=plan.per_criterion, trailing=ends)
    result = result.assign_coords(bound=("bound", np.array(["lower", "upper"])))
    if strata is not None:
        result = result.assign_coords({strata: (strata, cases.slices)})
    result.attrs = result_attrs(
        "prevalence", view, sides, protocol=chosen, method=method, strata=strata, level=level, seed=seed
    )
    warn_recoded([resolved])
    if compute or not view.lazy:
        warn_undefined(result, ["prevalence"])
    return result if many else result.isel(rater=0)


def _check_prevalence(
    method: str, strata: str | None, protocol: Protocol | None, reference: str, level: float
) -> None:
    if method not in _METHODS:
        raise ProtocolError(f"`method` is one of {listing(_METHODS, most=9)}; got {method!r}.")
    if (method == "stratified") != (strata is not None):
        raise ProtocolError("`strata` names an item coordinate for method='stratified', and only for it.")
    if reference == "pooled":
        raise ProtocolError("A case has one human label here: `reference` is 'majority', 'each' or a name.")
    if protocol is not None and protocol.aggregate in ("micro", "macro"):
        raise ProtocolError(
            "`prevalence` is per criterion (aggregate=None) or of item verdicts ('item'): criteria of one "
            "item are not a random sample of cases."
        )
    if not 0 < level < 1:
        raise ProtocolError(f"`level` must lie between 0 and 1; got {level!r}.")


def _labelled_and_rest(counting: Pass, plan: Plan, counted: list[Any]) -> tuple[Any, Any]:
    """Labelled tables (criterion, other, A, B[, stratum], 2, 2), and verdicts on other cases (..., 2)."""
    raw = counting.raw(plan, counted)
    columns = np.zeros((len(plan.right_targets), 2), dtype=np.int64)
    for place, target in enumerate(plan.right_targets):
        if target >= 0:
            columns[place, target] = 1
    n_raw = len(plan.left_targets) - N_OUTCOMES
    unlabelled = np.array([place >= n_raw and target < 0 for place, target in enumerate(plan.left_targets)])
    labelled = plan.collapse(raw)
    rest = raw[..., unlabelled, :].sum(-2) @ columns
    if counting.cases.by is not None:
        labelled, rest = np.moveaxis(labelled, 0, -3), np.moveaxis(rest, 0, -2)
    return labelled, rest


def _rates(labelled: npt.NDArray[Any], rest: npt.NDArray[Any], method: str, level: float) -> dict[str, Any]:
    """Everything about each table; arrays (criterion, other, A, B, ...)."""
    found = _METHODS[method](labelled, rest, level=level)
    if method == "stratified":
        labelled, rest = labelled.sum(-3), rest.sum(-2)
    own = models.labelled_only(labelled, level=level)
    human, verdicts = labelled.sum(-1), labelled.sum(-2) + rest
    right = _share(labelled[..., [0, 1], [0, 1]], human)
    return {
        "prevalence": found.estimate,
        "prevalence_reason": texts(found.reason),
        "prevalence_se": found.standard_error,
        "prevalence_interval": np.stack([found.lower, found.upper], axis=-1),
        "labelled_only": own.estimate,
        "labelled_only_interval": np.stack([own.lower, own.upper], axis=-1),
        "hurts": np.asarray(found.hurts),
        "clipped": np.asarray(found.clipped),
        "tuning": found.tuning,
        "judge_rate": _share(verdicts[..., 1], verdicts.sum(-1)),
        "sensitivity": right[..., 1],
        "specificity": right[..., 0],
        "n_labelled": labelled.sum((-2, -1)),
        "n_unlabelled": rest.sum(-1),
    }

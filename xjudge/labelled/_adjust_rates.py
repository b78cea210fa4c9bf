"""Corrected positive rates: from a judge's verdicts on all cases and human labels on some."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from xjudge._arguments import check_arguments
from xjudge.codes import N_OUTCOMES
from xjudge.errors import ProtocolError, listing
from xjudge.labelled._common import texts, warn_recoded, warn_undefined
from xjudge.labelled._pass import Pass, Plan
from xjudge.labelled._results import named_result, placed, result_attrs
from xjudge.labelled._results import share as _share
from xjudge.labelled._sides import Sides, told_apart
from xjudge.protocol import Protocol
from xjudge.statistics import adjust as models
from xjudge.view import View

__all__ = ["prevalence"]

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
    check_arguments(prevalence, locals())
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

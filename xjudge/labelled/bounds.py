"""What the cases without an answer could do to a statistic: identification ranges and breakdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from xjudge._arguments import check_arguments
from xjudge.errors import ProtocolError, Reason
from xjudge.labelled._bounds_ranges import bounded_statistics, open_plan, outcome_codes, routes
from xjudge.labelled._bounds_values import Bounds, overturned
from xjudge.labelled._common import agreement_weights, warn_recoded, warn_undefined
from xjudge.labelled._pass import Pass
from xjudge.labelled._results import named_result, result_attrs
from xjudge.labelled._sampling import Sampling
from xjudge.labelled._sides import Sides, told_apart
from xjudge.protocol import Protocol
from xjudge.view import View

__all__ = ["breakdown", "coverage_bounds"]

Floats = npt.NDArray[np.float64]


def coverage_bounds(
    data: xr.Dataset | xr.DataArray,
    *,
    statistic: str | Sequence[str] = "accuracy",
    reference: str = "each",
    unresolved: str | Sequence[str] = ("ca", "invalid"),
    max_share: float | Sequence[float] = 1.0,
    weights: Any = None,
    costs: Any = None,
    protocol: Protocol | None = None,
    by: str | None = None,
    judges: Any = None,
    humans: Any = None,
    interval: str | None = "auto",
    resample: str = "items",
    level: float = 0.95,
    n_resamples: int = 2000,
    seed: int = 0,
    compute: bool = True,
) -> xr.Dataset:
    """Ranges of a statistic over everything the unresolved cases could have been.

    A *completion* gives every unresolved verdict a category of the protocol. The range of a statistic over
    the completions that define it is its identification range: what the labels cannot pin down, however many
    items there are.

    Parameters
    ----------
    data : Dataset or DataArray
        A judge dataset.
    statistic : str or list of str
        ``"accuracy"``, ``"kappa"``, ``"phi"``, ``"balanced_accuracy"`` on two categories; with a positive one
        also ``"precision"``, ``"recall"``, ``"specificity"``, ``"f1"``, ``"rate_reference"`` and
        ``"rate_rater"`` (the positive rates). On more categories accuracy and kappa.
    reference : {"each", "pooled", "majority"} or name
        Each human (dim ``reference``), all humans pooled, the humans' vote (on more than two categories for
        accuracy only), or one rater.
    unresolved : {"ca", "invalid"} or both
        The outcomes that stand for a verdict not given. Missing never does, nor a tie that is left out; what
        the protocol recodes to a category is resolved.
    max_share : float or sequence of float
        The share of every unresolved cell that is adversarial, in [0, 1]; the rest follows the covered cases
        given the side that answered. A sequence gives a dim ``max_share``. Below 1 not for a majority.
    weights, costs : str or matrix, optional
        Agreement weights or disagreement costs of kappa, as in :func:`xjudge.agreement`.
    protocol, by, judges, humans
        As in :func:`xjudge.agreement`.
    interval : {"auto", "percentile"}, optional
        Sampling intervals of the ends, from multinomial resamples of whole items that both ends share;
        ``"auto"`` leaves out kappa on more than two categories, whose ends take a search; ``None`` gives
        none.
    resample : {"items", "clusters", "criteria", "items+criteria", "decisions"}
        The sampling unit.
    level, n_resamples, seed
        Of the intervals.
    compute : bool
        On lazy labels, whether to compute now (one compute).

    Returns
    -------
    Dataset
        Per statistic ``x``: ``x`` and ``x_reason``, on the cases that are covered (both sides answered);
        ``x_range(bound)``, ``x_range_reason`` and ``x_range_kind``: ``"sharp"`` where completions attain both
        ends, ``"outer"`` where the range holds all of them and may be wider than need be. From resamples
        ``x_range_interval(bound)`` (the lower quantile of the lower end, the upper quantile of the upper
        end: covers the range), ``x_value_interval(bound)`` (Imbens and Manski, Stoye: covers the value,
        wherever in its range it lies; not beyond what the statistic can reach), both from quantiles that are
        corrected for small samples (:func:`xjudge.statistics.identified.resampled_intervals`), and
        ``x_undefined``, the share of resamples without a range. ``n`` covered pairs on ``n_items`` items,
        ``n_eligible`` pairs where neither label is missing, ``n_unresolved`` pairs that a completion may
        change, and ``coverage = n / n_eligible``. Where they exist ``rate_reference`` and ``rate_rater``, the
        positive rates of the covered pairs, and of a majority ``n_reference_ties``. Under ``"macro"`` also
        ``n_criteria`` and ``n_criteria_included(statistic)``, those with a range.

    Raises
    ------
    ProtocolError
        What a scale or a reference carries no range for.

    Notes
    -----
    *Each human, or a name*: every verdict enters one cell once, so the range is sharp; under ``"micro"`` too,
    and under ``"macro"``, whose criteria are those with at least one defined completion. Item verdicts of a
    share are unresolved iff completing the item's criteria could change them (sharp); sums have more
    categories than an item can reach (outer).

    *Pooled*: a judge's verdict sits in the cells of all humans. Accuracy takes the extremes item by item
    (sharp, up to 20 humans); other statistics, and shares below 1, take the pooled table as if its pairs
    were independent (outer).

    *Majority*: an item is open as long as some completion of the humans' labels changes the vote; it then
    becomes what the end likes best of what completions reach, a tie (it leaves the table) included.
    ``n_unresolved`` counts such cases, also where the answers so far make a vote.

    One pass (sums); resamples need the label patterns of whole items once criteria or humans are pooled.
    Where distinct items are too many, a second pass draws Poisson weights by position, with
    ``compute=True``; the attribute ``law`` says so.

    Examples
    --------
    >>> import xjudge as xj
    >>> ds = xj.load_example()
    >>> protocol = xj.Protocol(aggregate="micro")
    >>> found = ds.judge.coverage_bounds(reference="pooled", protocol=protocol, interval=None)
    >>> found["accuracy_range"].dims, set(found["accuracy_range_kind"].values.tolist())
    (('rater', 'bound'), {'sharp'})
    >>> inside = (found["accuracy_range"].sel(bound="lower") <= found["accuracy"]) & (
    ...     found["accuracy"] <= found["accuracy_range"].sel(bound="upper")
    ... )
    >>> bool(inside.all())
    True
    """
    check_arguments(coverage_bounds, locals())
    view = View.of(data, humans=humans, judges=judges, **told_apart(reference))
    chosen = Protocol() if protocol is None else protocol
    resolved = chosen.resolve(view.scale)
    sides = Sides.of(view, reference, None)
    codes = outcome_codes(unresolved)
    shares = _shares(max_share)
    sampling = _sampling(interval, resample, level, n_resamples, seed)
    counting = Pass(view, [resolved], sides, by, seed)
    (plan,) = counting.plans
    names = bounded_statistics(statistic, plan.scale, sides.kind)
    sampling.check(names, [plan.aggregate])
    _check_shares(shares, sides.kind)
    matrix = agreement_weights(weights, costs, plan.scale, plan.outcomes)
    opened = open_plan(plan, codes)
    known = routes(counting, plan, opened, names, matrix, whole=min(shares) == 1)
    drawn = [name for name in names if interval == "percentile" or _is_fast(name, plan.scale.n_categories)]
    many = not isinstance(max_share, int | float | np.number)
    bounds = Bounds(counting, plan, opened, known, matrix, shares, sampling, drawn, many=many)
    arrays = counting.run(bounds.made, compute)
    result = named_result(
        view, sides, counting.cases, arrays, criterion=plan.per_criterion, trailing=bounds.trailing(names)
    )
    coords: dict[str, Any] = {"bound": ("bound", np.array(["lower", "upper"]))}
    if many:
        coords["max_share"] = ("max_share", np.array(shares))
    if plan.aggregate == "macro":
        coords["statistic"] = ("statistic", np.array(names))
    result = result.assign_coords(coords)
    result.attrs = result_attrs(
        "coverage_bounds",
        view,
        sides,
        protocol=chosen,
        by=by,
        statistic=names,
        unresolved=_words(unresolved),
        max_share=list(shares) if many else shares[0],
        weights=weights,
        costs=costs,
        **_sampling_attrs(interval, sampling, drawn, bounds.law),
    )
    warn_recoded([resolved])
    if compute or not view.lazy:
        warn_undefined(result, [word for name in names for word in (name, f"{name}_range")])
    return result


def breakdown(
    data: xr.Dataset | xr.DataArray,
    statistic: str,
    threshold: float | Sequence[float],
    *,
    reference: str = "each",
    unresolved: str | Sequence[str] = ("ca", "invalid"),
    weights: Any = None,
    costs: Any = None,
    protocol: Protocol | None = None,
    by: str | None = None,
    judges: Any = None,
    humans: Any = None,
    compute: bool = True,
) -> xr.Dataset:
    """Least adverse share of the unresolved cases that overturns ``statistic >= threshold``.

    Parameters
    ----------
    data : Dataset or DataArray
        A judge dataset.
    statistic : str
        As in :func:`xjudge.coverage_bounds`: on more than two categories accuracy or kappa.
    threshold : float or sequence of float
        The claim is ``statistic >= threshold``; read as the decimal that is written. A sequence gives a dim
        ``threshold``.
    reference : {"each", "pooled"} or name
        Each human, all humans pooled, or one rater.
    unresolved, weights, costs, protocol, by, judges, humans, compute
        As in :func:`xjudge.coverage_bounds`.

    Returns
    -------
    Dataset
        ``breakdown`` in [0, 1] with ``breakdown_reason``: NaN with ``already false`` where the claim does not
        hold with no case adversarial, ``inf`` with ``cannot be overturned`` where it holds with all of them;
        the statistic on the covered cases with its reason, and the counts of
        :func:`xjudge.coverage_bounds`.

    Raises
    ------
    ProtocolError
        A majority; a statistic that a scale carries no range for.

    Notes
    -----
    One pass (sums). At share ``s`` a part ``s`` of every unresolved cell is free and the rest follows the
    covered cases given the side that answered (:func:`xjudge.statistics.bounds.breakdown`). For pooled
    humans the pairs of one verdict are taken as independent, so that the claim may hold longer than it says;
    so it may for kappa on more than two categories where cases are open on both sides, whose range below
    share 1 is an outer one (:func:`xjudge.statistics.bounds.category_breakdown`).
    Under ``"macro"`` all criteria have the same share; they are those with a value where no case is
    adversarial.

    Examples
    --------
    >>> import xjudge as xj
    >>> found = xj.load_example().judge.breakdown(
    ...     "accuracy", 0.7, reference="pooled", protocol=xj.Protocol(aggregate="micro")
    ... )
    >>> found["breakdown"].dims
    ('rater',)
    """
    check_arguments(breakdown, locals())
    view = View.of(data, humans=humans, judges=judges, **told_apart(reference))
    chosen = Protocol() if protocol is None else protocol
    resolved = chosen.resolve(view.scale)
    sides = Sides.of(view, reference, None)
    codes = outcome_codes(unresolved)
    counting = Pass(view, [resolved], sides, by)
    (plan,) = counting.plans
    bounded_statistics(statistic, plan.scale, sides.kind)
    if sides.kind == "majority":
        raise ProtocolError(
            "`breakdown` has no meaning for a majority, where cases change as a whole; take "
            "reference='each', 'pooled' or a name."
        )
    many = not isinstance(threshold, int | float | np.number)
    thresholds = np.atleast_1d(np.asarray(threshold, dtype=np.float64))
    if thresholds.ndim != 1 or not len(thresholds) or not np.isfinite(thresholds).all():
        raise ProtocolError(f"`threshold` is a number or a list of numbers; got {threshold!r}.")
    matrix = agreement_weights(weights, costs, plan.scale, plan.outcomes)
    opened = open_plan(plan, codes)

    def finish(counted: list[Any]) -> dict[str, Any]:
        return overturned(counting, plan, opened, counted, statistic, matrix, thresholds, many=many)

    arrays = counting.run(finish, compute)
    ends: dict[str, tuple[str, ...]] = {}
    if many:
        ends = dict.fromkeys(("breakdown", "breakdown_reason"), ("threshold",))
    result = named_result(
        view, sides, counting.cases, arrays, criterion=plan.per_criterion, trailing=ends
    ).assign_coords(threshold=("threshold", thresholds) if many else thresholds[0])
    result.attrs = result_attrs(
        "breakdown",
        view,
        sides,
        protocol=chosen,
        by=by,
        statistic=statistic,
        threshold=thresholds.tolist() if many else float(thresholds[0]),
        unresolved=_words(unresolved),
        weights=weights,
        costs=costs,
    )
    warn_recoded([resolved])
    if compute or not view.lazy:
        answers = [Reason.ALREADY_FALSE.text, Reason.CANNOT_BE_OVERTURNED.text]
        reason = result["breakdown_reason"]
        told = result.assign(breakdown_reason=reason.where(~reason.isin(answers), Reason.OK.text))
        warn_undefined(told, [statistic, "breakdown"])
    return result


# ---------------------------------------------------------------------------------------------------- helpers


def _words(unresolved: str | Sequence[str]) -> list[str]:
    return [unresolved] if isinstance(unresolved, str) else list(unresolved)


def _shares(max_share: Any) -> tuple[float, ...]:
    """Shares in [0, 1]."""
    given = np.atleast_1d(np.asarray(max_share, dtype=np.float64))
    if given.ndim != 1 or not len(given) or not ((given >= 0) & (given <= 1)).all():
        raise ProtocolError(
            f"`max_share` is the part of the unresolved cases that is adversarial, in [0, 1]; got "
            f"{max_share!r}."
        )
    return tuple(given.tolist())


def _check_shares(shares: Sequence[float], kind: str) -> None:
    if min(shares) < 1 and kind == "majority":
        raise ProtocolError(
            "`max_share` below 1 has no meaning for a majority, where cases change as a whole; take "
            "reference='each', 'pooled' or a name."
        )


def _is_fast(name: str, n_categories: int) -> bool:
    return name != "kappa" or n_categories == 2


def _sampling(interval: str | None, resample: str, level: float, n_resamples: int, seed: int) -> Sampling:
    if interval not in (None, "auto", "percentile"):
        raise ProtocolError(
            "The ends of ranges have intervals from resamples only: `interval` is None, 'auto' or "
            f"'percentile'; got {interval!r}."
        )
    return Sampling(None if interval is None else "percentile", resample, level, n_resamples, seed)


def _sampling_attrs(
    interval: str | None, sampling: Sampling, drawn: Sequence[str], law: str
) -> Mapping[str, Any]:
    """What was asked of intervals, and the law of the resamples."""
    if interval is None:
        return {"interval": "none", "seed": sampling.seed}
    return {
        "interval": interval,
        "interval_methods": dict.fromkeys(drawn, "percentile"),
        "seed": sampling.seed,
        "resample": sampling.resample,
        "level": sampling.level,
        "n_resamples": sampling.n_resamples,
        "law": law,
    }

"""Judges that answer only where they are confident: curves, certified thresholds, cascades, splits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from xjudge._arguments import check_arguments
from xjudge.errors import ProtocolError
from xjudge.labelled._common import warn_undefined
from xjudge.labelled._results import share
from xjudge.labelled._selective_cases import Asked, judged, own_thresholds, step_grid
from xjudge.labelled._selective_values import Kept, calibration_size, certified, curve, parts, splits
from xjudge.protocol import Protocol
from xjudge.statistics.selective import by_step, check_test, clopper_pearson, clopper_pearson_limit

__all__ = ["cascade", "risk_coverage", "selective_threshold", "split_stability"]

Floats = npt.NDArray[np.float64]

_N_STARTS = 10


def risk_coverage(
    data: xr.Dataset | xr.DataArray,
    *,
    confidence: str | None = None,
    thresholds: Sequence[float] | None = None,
    cascade: str | Sequence[Any] | None = None,
    reference: str = "each",
    protocol: Protocol | None = None,
    by: str | None = None,
    judges: Any = None,
    humans: Any = None,
    level: float = 0.95,
    seed: int = 0,
    compute: bool = True,
) -> xr.Dataset:
    """Error against coverage of judges that answer only above a threshold of their confidence.

    Parameters
    ----------
    data : Dataset or DataArray
        A judge dataset with ``confidence(item, rater[, criterion])`` or ``prob``.
    confidence : str, optional
        The variable with a number for each verdict, higher is surer; by default ``confidence``, else
        ``prob``, of which the confidence is the probability of what the protocol makes of the verdict.
    thresholds : sequence of float, optional
        By default 0.99, 0.98, ... 0.
    cascade : "cost" or list of names, optional
        Take the judges as one cascade: they are asked in this order (``"cost"``: by the coordinate
        ``cost(rater)``, the cheapest first), and the first whose confidence reaches the threshold answers. By
        default every judge stands alone.
    reference : {"each", "majority"} or name
        Each human (dim ``reference``), the humans' vote, or one rater.
    protocol : Protocol, optional
        ``None`` and ``"item"`` aggregation.
    by, judges, humans
        As in :func:`xjudge.agreement`.
    level : float
        Of the intervals.
    seed : int
        For labels that a protocol samples from probabilities.
    compute : bool
        Lazy labels are computed here (one compute); ``False`` is refused on them.

    Returns
    -------
    Dataset
        On dim ``threshold``, falling: ``error`` among the answered cases with ``error_reason`` and
        ``error_interval(bound)`` (Clopper and Pearson's, at each threshold by itself), ``coverage``, the
        share of cases answered, and ``n`` answered cases. ``area``: the mean over answered cases of the error
        at the threshold at which they enter. ``n_eligible`` cases, where the reference has a category and
        every judge compared was asked; ``n_no_confidence`` verdicts without one, which are never answered.
        "Cannot assess" and invalid verdicts are never answered either. Of a cascade also
        ``answered(rater)``, the cases each judge answers, and ``mean_cost`` per case where ``cost(rater)`` is
        known.

    Raises
    ------
    StructureError
        No confidences; unknown raters.
    ProtocolError
        Pooled humans or criteria; confidences outside [0, 1] without ``thresholds`` of their own.

    Notes
    -----
    Holds one small code per human, judge and case in memory. The threshold of least error on these very cases
    has no guarantee: see :func:`xjudge.selective_threshold`.

    Examples
    --------
    >>> import numpy as np
    >>> import xjudge as xj
    >>> ds = xj.load_example().isel(criterion=0)
    >>> rng = np.random.default_rng(0)
    >>> ds["confidence"] = ds["label"].dims, rng.uniform(0.5, 1, ds["label"].shape)
    >>> curve = ds.judge.risk_coverage(reference="majority", thresholds=[0.9, 0.7, 0.5])
    >>> curve["error"].dims, curve["coverage"].isel(rater=0).values.round(2).tolist()[-1] <= 1
    (('rater', 'threshold'), True)
    """
    check_arguments(risk_coverage, locals())
    asked = Asked(data, reference, confidence, cascade, protocol, by, judges, humans, seed, compute)
    _check_level(level)
    grid = step_grid(thresholds)
    found = judged(asked, grid, share=thresholds is None)
    kept = Kept(found)
    for place, steps, unsure in found.slots():
        n, wrong = by_step(steps)
        kept.put(place, **curve(n, wrong, steps, level), **parts(found, n, steps))
        kept.put(place, n_eligible=steps.multiplicity.sum(), n_no_confidence=unsure)
    result = kept.named("threshold").assign_coords(threshold=("threshold", grid))
    result.attrs = found.attrs("risk_coverage", asked, level=level, thresholds=thresholds)
    warn_undefined(result.isel(threshold=[-1]), ["error"])
    return result


def selective_threshold(
    data: xr.Dataset | xr.DataArray,
    target: float | Sequence[float],
    *,
    confidence: str | None = None,
    thresholds: Sequence[float] | None = None,
    cascade: str | Sequence[Any] | None = None,
    reference: str = "each",
    protocol: Protocol | None = None,
    by: str | None = None,
    judges: Any = None,
    humans: Any = None,
    level: float = 0.95,
    n_starts: int | None = None,
    seed: int = 0,
    compute: bool = True,
) -> xr.Dataset:
    """Lowest threshold of each judge, or of a cascade, whose error is certified to be at most a target.

    Parameters
    ----------
    data : Dataset or DataArray
        A judge dataset with confidences; its items are a random sample of those to come.
    target : float or sequence of float
        Error allowed among answered cases, in (0, 1); a sequence gives a dim ``target``.
    confidence, cascade, reference, protocol, by, judges, humans, seed, compute
        As in :func:`xjudge.risk_coverage`. A cascade is certified as a whole, with one threshold for all of
        its judges.
    thresholds : sequence of float, optional
        Thresholds to consider, chosen without a look at the labels; by default 0.99, 0.98, ... 0.
    level : float
        The guarantee: with at least this probability over samples the error of future cases at or above the
        threshold is at most ``target``. It holds for each estimate by itself, whatever the number of cases.
    n_starts : int, optional
        Places of the thresholds, evenly spaced, where testing starts; by default 10, or as many as there are
        thresholds.

    Returns
    -------
    Dataset
        ``threshold`` with ``threshold_reason``, NaN where none is certified; ``coverage``, ``error`` and
        ``n`` answered cases at it, on the cases it was found on; ``n_eligible`` and ``n_no_confidence`` as in
        :func:`xjudge.risk_coverage`; of a cascade also ``answered(rater)`` and ``mean_cost``.

    Raises
    ------
    StructureError, ProtocolError
        As :func:`xjudge.risk_coverage`; a target or level outside (0, 1).

    Notes
    -----
    Fixed-sequence testing with exact binomial tests
    (:func:`xjudge.statistics.selective.selective_threshold`). For several judges, criteria or targets at
    once, divide ``1 - level`` by their number. To see what a threshold does on other cases, give it to
    :func:`xjudge.risk_coverage` or :func:`xjudge.cascade` there.

    Examples
    --------
    >>> import numpy as np
    >>> import xjudge as xj
    >>> ds = xj.load_example().isel(criterion=0)
    >>> ds["confidence"] = ds["label"].dims, np.full(ds["label"].shape, 0.8)
    >>> found = ds.judge.selective_threshold(0.5, reference="majority")
    >>> found["threshold"].dims, float(found["threshold"].max())
    (('rater',), 0.0)
    """
    check_arguments(selective_threshold, locals())
    asked = Asked(data, reference, confidence, cascade, protocol, by, judges, humans, seed, compute)
    grid = step_grid(thresholds)
    starts = min(_N_STARTS, len(grid)) if n_starts is None else n_starts
    many = not isinstance(target, int | float | np.number)
    targets = _targets(target)
    for one in targets:
        check_test(one, level, len(grid), starts)
    found = judged(asked, grid, share=thresholds is None)
    kept = Kept(found)
    for place, steps, unsure in found.slots():
        every = [certified(found, grid, steps, one, level=level, n_starts=starts) for one in targets]
        kept.put(place, **{name: np.stack([one[name] for one in every]) for name in every[0]})
        kept.put(place, n_eligible=steps.multiplicity.sum(), n_no_confidence=unsure)
    result = kept.named("target").assign_coords(target=("target", targets))
    result = result if many else result.isel(target=0)
    result.attrs = found.attrs(
        "selective_threshold",
        asked,
        target=list(targets) if many else targets[0],
        level=level,
        n_starts=starts,
        thresholds=thresholds,
    )
    warn_undefined(result, ["threshold"])
    return result


def split_stability(
    data: xr.Dataset | xr.DataArray,
    target: float,
    *,
    n_calibration: int | float = 0.5,
    n_splits: int = 1000,
    confidence: str | None = None,
    thresholds: Sequence[float] | None = None,
    cascade: str | Sequence[Any] | None = None,
    reference: str = "each",
    protocol: Protocol | None = None,
    by: str | None = None,
    judges: Any = None,
    humans: Any = None,
    level: float = 0.95,
    n_starts: int | None = None,
    seed: int = 0,
    compute: bool = True,
) -> xr.Dataset:
    """How far a published pair of coverage and error depends on the split into calibration and test.

    Parameters
    ----------
    data : Dataset or DataArray
        A judge dataset with confidences, calibration and test cases together.
    target : float
        Error allowed among answered cases, in (0, 1).
    n_calibration : int or float
        Cases to find the threshold on, or their share in (0, 1); the others are the test.
    n_splits : int
        Random splits.
    confidence, thresholds, cascade, reference, protocol, by, judges, humans, level, n_starts, compute
        As in :func:`xjudge.selective_threshold`.
    seed : int
        Of the splits, and of labels that a protocol samples.

    Returns
    -------
    Dataset
        On dim ``split``: the certified ``threshold`` with ``threshold_reason``, and on the test part
        ``coverage`` (0 where no threshold was certified and nothing is answered), ``error`` with
        ``error_reason``, and ``n`` answered cases. ``above_target``: the share of splits whose test error is
        above the target. ``n_eligible``, ``n_no_confidence``.

    Raises
    ------
    StructureError, ProtocolError
        As :func:`xjudge.selective_threshold`; a part without cases.

    Notes
    -----
    Splits are drawn from the counts of the kinds of cases (multivariate hypergeometric), which is the law of
    a random split of the cases, in an order that does not depend on that of the items.

    Examples
    --------
    >>> import numpy as np
    >>> import xjudge as xj
    >>> ds = xj.load_example().isel(criterion=0)
    >>> rng = np.random.default_rng(0)
    >>> ds["confidence"] = ds["label"].dims, rng.uniform(0.5, 1, ds["label"].shape)
    >>> found = ds.judge.split_stability(0.4, reference="majority", n_splits=20)
    >>> found["coverage"].dims
    ('rater', 'split')
    """
    check_arguments(split_stability, locals())
    asked = Asked(data, reference, confidence, cascade, protocol, by, judges, humans, seed, compute)
    grid = step_grid(thresholds)
    starts = min(_N_STARTS, len(grid)) if n_starts is None else n_starts
    check_test(target, level, len(grid), starts)
    if n_splits < 1:
        raise ProtocolError(f"`n_splits` is at least 1; got {n_splits!r}.")
    found = judged(asked, grid, share=thresholds is None)
    kept = Kept(found)
    for number, (place, steps, unsure) in enumerate(found.slots()):
        total = steps.multiplicity.sum()
        sizes = calibration_size(n_calibration, int(total)), n_splits
        rng = np.random.default_rng([seed, number])
        one = splits(rng, steps, grid, sizes, target, level=level, n_starts=starts)
        kept.put(place, **one, n_eligible=total, n_no_confidence=unsure)
    result = kept.named("split").assign_coords(split=("split", np.arange(n_splits)))
    result.attrs = found.attrs(
        "split_stability",
        asked,
        target=target,
        n_calibration=n_calibration,
        n_splits=n_splits,
        level=level,
        n_starts=starts,
        thresholds=thresholds,
    )
    return result


def cascade(
    data: xr.Dataset | xr.DataArray,
    thresholds: float | Sequence[float] | Mapping[Any, float],
    *,
    order: str | Sequence[Any] = "cost",
    confidence: str | None = None,
    reference: str = "each",
    protocol: Protocol | None = None,
    by: str | None = None,
    judges: Any = None,
    humans: Any = None,
    level: float = 0.95,
    seed: int = 0,
    compute: bool = True,
) -> xr.Dataset:
    """What a cascade of judges does at given thresholds, with an exact limit of its error.

    Parameters
    ----------
    data : Dataset or DataArray
        A judge dataset with confidences; cases that the thresholds were not chosen on.
    thresholds : float, sequence or mapping of float
        One for all judges, one for each in the order of asking, or by name.
    order : "cost" or list of names
        The order of asking: by the coordinate ``cost(rater)``, the cheapest first, or as named.
    confidence, reference, protocol, by, judges, humans, seed, compute
        As in :func:`xjudge.risk_coverage`.
    level : float
        Of interval and limit.

    Returns
    -------
    Dataset
        Of the cascade as a whole: ``error`` among the answered cases with ``error_reason``,
        ``error_interval(bound)`` and ``error_limit``, the certificate: with probability ``level`` over
        samples the error of future cases is at most that; ``coverage`` with ``coverage_interval(bound)`` (all
        exact, Clopper and Pearson's), ``n``, ``n_eligible``, ``n_no_confidence``, and ``mean_cost`` per case
        where ``cost(rater)`` is known. By ``rater``, in the order of asking: ``answered`` cases and
        ``error_of_answered``, ``threshold_of``.

    Raises
    ------
    StructureError, ProtocolError
        As :func:`xjudge.risk_coverage`; thresholds that do not go with the judges.

    Notes
    -----
    Thresholds that are certified for each judge by itself are not for the cases that reach it, so the cascade
    is certified as a whole: by this limit on cases of its own, or, with one threshold for all judges, by
    :func:`xjudge.selective_threshold` with ``cascade``.

    Examples
    --------
    >>> import numpy as np
    >>> import xjudge as xj
    >>> ds = xj.load_example().isel(criterion=0)
    >>> rng = np.random.default_rng(0)
    >>> ds["confidence"] = ds["label"].dims, rng.uniform(0.5, 1, ds["label"].shape)
    >>> names = ds.judge.judges[:2].tolist()
    >>> found = ds.judge.cascade([0.9, 0.7], order=names, reference="majority")
    >>> int(found["answered"].sum() - found["n"]), bool(found["error"] <= found["error_limit"])
    (0, True)
    """
    check_arguments(cascade, locals())
    asked = Asked(data, reference, confidence, order, protocol, by, judges, humans, seed, compute)
    _check_level(level)

    def own(names: list[Any]) -> list[Floats]:
        return [np.array([one]) for one in own_thresholds(names, thresholds)]

    found = judged(asked, own, share=False)
    names = found.view.named(np.array(found.sides.right)).tolist()
    kept = Kept(found)
    for place, steps, unsure in found.slots():
        n, wrong = by_step(steps)
        one = curve(n, wrong, steps, level) | parts(found, n, steps)
        one |= {"error_of_answered": share(wrong, n).T}
        one |= {"error_limit": clopper_pearson_limit(wrong.sum(0), n.sum(0), level)}
        total = steps.multiplicity.sum()
        one |= {"coverage_interval": np.stack(clopper_pearson(n.sum(0), total, level), axis=-1)}
        del one["area"]
        kept.put(place, **{name: value[0] for name, value in one.items()})
        kept.put(place, n_eligible=total, n_no_confidence=unsure)
    result = kept.named()
    given = own_thresholds(names, thresholds)
    result = result.assign(threshold_of=("rater", np.array(given)))
    result.attrs = found.attrs("cascade", asked, thresholds=given, level=level)
    warn_undefined(result, ["error"])
    return result


# ---------------------------------------------------------------------------------------------------- helpers


def _targets(target: Any) -> list[float]:
    given = np.atleast_1d(np.asarray(target, dtype=np.float64))
    if given.ndim != 1 or not len(given):
        raise ProtocolError(f"`target` is a number or a list of numbers; got {target!r}.")
    return [float(one) for one in given]


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise ProtocolError(f"`level` must lie between 0 and 1; got {level!r}.")

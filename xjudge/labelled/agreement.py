"""Agreement of raters under protocols, from one pass over items: `tables`, `agreement` and `sweep`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from xjudge._arguments import check_arguments
from xjudge.codes import MISSING, raw_names
from xjudge.errors import ProtocolError
from xjudge.labelled._agreed import agreed
from xjudge.labelled._common import warn_recoded
from xjudge.labelled._pass import Pass, Plan
from xjudge.labelled._results import named_result, placed, result_attrs
from xjudge.labelled._sampling import Sampling
from xjudge.labelled._sides import Sides, told_apart
from xjudge.protocol import Protocol
from xjudge.view import View

__all__ = ["agreement", "sweep", "tables"]

Ints = npt.NDArray[np.int64]

# -------------------------------------------------------------------------------------------------- tables


def tables(
    data: xr.Dataset | xr.DataArray,
    *,
    reference: str = "each",
    raters: Any = None,
    protocol: Protocol | None = None,
    by: str | None = None,
    judges: Any = None,
    humans: Any = None,
    compute: bool = True,
) -> xr.Dataset:
    """Confusion tables, with CA, invalid and missing on both sides.

    Parameters
    ----------
    data : Dataset or DataArray
        A judge dataset.
    reference : {"each", "pooled", "majority"} or name
        Each human, the sum over humans, the humans' vote, or one rater.
    raters : list of names, "humans", "judges" or "all", optional
        Compare raters with each other instead: dims ``rater_a`` (rows), ``rater_b`` (columns). With
        ``reference="majority"``, whom to judge by the vote; a human's own vote is then left out.
    protocol : Protocol, optional
        Its scale map, handling and population are applied; ``"micro"`` sums over criteria, ``"item"``
        counts item verdicts. Without one the tables are raw.
    by : str, optional
        An item coordinate to slice on.
    judges, humans : list of names or boolean array, optional
        Restrict the raters.
    compute : bool
        On lazy labels, whether to compute now.

    Returns
    -------
    Dataset
        ``count`` of dims (reference, rater[, criterion], reference_label, rater_label), int64. Labels are
        the categories, then ``missing``, ``ca``, ``invalid`` (and ``excluded``, where a protocol leaves
        out ties); of a majority also ``no vote`` and ``tied``. Every case is in one cell, so a table sums
        to the number of cases.

    Notes
    -----
    One pass (sums).

    Examples
    --------
    >>> import xjudge as xj
    >>> t = xj.tables(xj.load_example(), reference="pooled", protocol=xj.Protocol(aggregate="micro"))
    >>> t["count"].dims
    ('rater', 'reference_label', 'rater_label')
    """
    check_arguments(tables, locals())
    view = View.of(data, humans=humans, judges=judges, **told_apart(reference, raters))
    chosen = Protocol() if protocol is None else protocol
    if chosen.aggregate == "macro":
        raise ProtocolError(
            "`tables` are counts, and 'macro' averages statistics; use None, 'micro' or 'item'."
        )
    resolved = chosen.resolve(view.scale)
    sides = Sides.of(view, reference, raters)
    counting = Pass(view, [resolved], sides, by)
    counting.cases.counts_alike = False  # counts are no estimates
    (plan,) = counting.plans
    left, right = _whole_axis(plan, plan.left_targets), _whole_axis(plan, plan.right_targets)
    if sides.kind == "majority":
        left = left[0], [*raw_names(plan.scale.categories)[:-2], "no vote", "tied"]

    def finish(counted: list[Any]) -> dict[str, Any]:
        raw = counting.raw(plan, counted)
        if plan.aggregate is not None:
            raw = raw.sum(-6, keepdims=True)
        whole = left[0].T @ raw @ right[0]
        return {"count": placed(view, sides, whole, criterion=plan.per_criterion, trailing=2)}

    arrays = counting.run(finish, compute)
    crossed = sides.kind == "raters"
    ends = ("label_a", "label_b") if crossed else ("reference_label", "rater_label")
    result = named_result(
        view, sides, counting.cases, arrays, criterion=plan.per_criterion, trailing={"": ends}
    )
    labels = {end: (end, np.array(names)) for end, (_, names) in zip(ends, (left, right), strict=True)}
    result = result.assign_coords(labels)
    result.attrs = result_attrs("tables", view, sides, protocol=chosen, by=by)
    warn_recoded([resolved])
    return result


def _whole_axis(plan: Plan, targets: Sequence[int]) -> tuple[Ints, list[str]]:
    """The collapse that keeps every case: categories of the table, then the outcomes that remain."""
    names = raw_names(plan.scale.categories)
    places = [target if target >= 0 else plan.scale.n_categories + MISSING - target for target in targets]
    if max(places) >= len(names):
        names.append("excluded")
    matrix = np.zeros((len(places), len(names)), dtype=np.int64)
    matrix[np.arange(len(places)), places] = 1
    return matrix, names


# ----------------------------------------------------------------------------------------------- agreement


def agreement(
    data: xr.Dataset | xr.DataArray,
    *,
    statistic: str | Sequence[str] | None = None,
    reference: str = "each",
    raters: Any = None,
    weights: Any = None,
    costs: Any = None,
    min_overlap: int = 1,
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
    """Agreement of judges with a reference under a stated protocol.

    Parameters
    ----------
    data : Dataset or DataArray
        A judge dataset.
    statistic : str or list of str, optional
        Names of :data:`xjudge.statistics.COEFFICIENTS`; on binary, ordinal and interval scales also of
        :data:`xjudge.statistics.SCORE_STATISTICS` (correlations, concordance, errors of the scores) and
        ``"limits_of_agreement"``; on continuous scales those alone. By default accuracy, kappa, and phi
        (two categories) or mcc; on a continuous scale pearson, concordance and mean_absolute_error.
    reference : {"each", "pooled", "majority"} or name
        Each human (dim ``reference``), the sum over humans, the humans' vote (mapped and handled first;
        ties leave the table and are counted; CA votes only where it is a category), or one rater.
    raters : list of names, "humans", "judges" or "all", optional
        Compare raters with each other instead: dims ``rater_a`` (rows), ``rater_b`` (columns). With
        ``reference="majority"``, whom to judge by the vote; a human's own vote is then left out.
    weights, costs : str or matrix, optional
        Agreement weights (diagonal 1) or disagreement costs (diagonal 0) over the protocol's categories,
        for the statistics that take them; one of the two. A mapping of costs by name gives a dim
        ``costs`` (see :func:`xjudge.costs_from_scores`).
    min_overlap : int
        Pairs below which a value is NaN, with the reason ``below min_overlap``; also the least support
        of a slice.
    protocol : Protocol, optional
        ``Protocol()``: per criterion, by exclusion.
    by : str, optional
        An item coordinate to slice on; a dim of that name in the result.
    judges, humans : list of names or boolean array, optional
        Restrict the raters.
    interval : {"auto", "delta", "percentile", "bca", "studentized", "wilson"}, optional
        Sampling interval: ``"delta"`` on a scale without limits, with a t quantile at ``n_items - 1``;
        ``"wilson"`` for shares, at the effective number of pairs; the others from multinomial resamples.
        ``"auto"`` is Wilson for shares and delta for the rest; ``None`` gives none. Where nobody disagrees
        the delta method has no standard error: the interval then bounds what was not seen, as Wilson's does
        (:func:`xjudge.statistics.raters.unseen_units`).
    resample : {"items", "clusters", "criteria", "items+criteria", "decisions"}
        The sampling unit. Items with all their criteria and references by default; ``"clusters"`` by the
        coordinate ``cluster``; ``"criteria"`` for micro and macro; ``"items+criteria"`` in two stages;
        ``"decisions"`` ignores that pairs of one item belong together.
    level : float
        Confidence level.
    n_resamples, seed : int
        Of resampled intervals; same seed, same interval, whatever the chunks.
    compute : bool
        On lazy labels, whether to compute now (one compute) or return lazy values.

    Returns
    -------
    Dataset
        Per statistic ``x``: the value ``x``, ``x_reason``, ``x_se``, ``x_interval(bound)``,
        ``x_interval_reason`` (``ok``, why there is no interval, or why it is to be read with care) and, from
        resamples, ``x_undefined``, the share of resamples in which it is undefined. ``n`` pairs used,
        ``n_items`` items they come from, ``n_eligible`` pairs where neither label is missing,
        ``coverage = n / n_eligible``. Where they exist: ``rate_reference`` and ``rate_rater``, the positive
        rates on the pairs used; under ``"macro"`` ``n_criteria`` and ``n_criteria_included(statistic)``; of
        a majority ``n_reference_ties``; under an extraction rule ``n_extraction_changed``, verdicts that
        differ from those of the label in the data. Attributes suffice to recompute
        (:func:`xjudge.rebuild`).

    Raises
    ------
    ProtocolError
        What the scale cannot carry.
    StructureError, OverlapError
        Data that are no judge dataset; nobody to compare.
    VocabularyError
        Labels outside the scale.

    Warns
    -----
    UndefinedWarning
        Values that are NaN, with their reasons.
    IntervalWarning
        Intervals that may miss their level by the coverage study: fewer than 8 sampling units with a label
        beside the commonest category (kappa and its kin), or disagreements worth fewer than 5 where pairs are
        pooled (shares).

    Notes
    -----
    One pass (sums); its cost grows with items x raters, everything after it does not. Formulas: the
    functions of :mod:`xjudge.statistics`. On a continuous scale the pass adds up moments; rank correlations
    and resamples take the numbers themselves. Errors are the rater's score less the reference's.

    Examples
    --------
    >>> import xjudge as xj
    >>> ds = xj.load_example()
    >>> protocol = xj.Protocol(ca="negative", aggregate="micro")
    >>> result = ds.judge.agreement(statistic="kappa", reference="pooled", protocol=protocol)
    >>> result["kappa"].dims
    ('rater',)
    """
    check_arguments(agreement, locals())
    chosen = Protocol() if protocol is None else protocol
    return agreed(
        "agreement",
        data,
        [chosen],
        statistic=statistic,
        reference=reference,
        raters=raters,
        weights=weights,
        costs=costs,
        min_overlap=min_overlap,
        by=by,
        judges=judges,
        humans=humans,
        sampling=Sampling(interval, resample, level, n_resamples, seed),
        compute=compute,
    )


def sweep(
    data: xr.Dataset | xr.DataArray,
    protocols: Sequence[Protocol],
    *,
    statistic: str | Sequence[str] | None = None,
    reference: str = "each",
    raters: Any = None,
    weights: Any = None,
    costs: Any = None,
    min_overlap: int = 1,
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
    """Agreement under many protocols, from one pass.

    Parameters
    ----------
    data : Dataset or DataArray
        A judge dataset.
    protocols : sequence of Protocol
        For instance ``Protocol.grid(...)``; all with ``aggregate=None``, or none.
    statistic, reference, raters, weights, costs, min_overlap, by, judges, humans
        As in :func:`xjudge.agreement`.
    interval, resample, level, n_resamples, seed
        As in :func:`xjudge.agreement`.
    compute : bool
        On lazy labels, whether to compute now (one compute for all protocols).

    Returns
    -------
    Dataset
        What :func:`xjudge.agreement` gives for each protocol, along dim ``protocol``, whose labels are
        short and readable, with the coordinates ``scale_map``, ``ca``, ``invalid``, ``tie``,
        ``aggregate``, ``population`` and ``extraction``. Where any protocol is ``"macro"``, the others
        count as one criterion. :func:`xjudge.spread` says how far each statistic moves, and by what.

    Raises
    ------
    ProtocolError
        No protocol, the same one twice, per-criterion ones mixed with aggregated ones, or what a scale
        cannot carry.

    Notes
    -----
    One pass (sums), whatever the number of protocols: raw tables are counted once and collapsed.

    Examples
    --------
    >>> import xjudge as xj
    >>> grid = xj.Protocol.grid(ca=["exclude", "negative", "category"], aggregate=["micro", "macro"])
    >>> result = xj.load_example().judge.sweep(grid, statistic="accuracy", reference="pooled")
    >>> result["accuracy"].dims, result.sizes["protocol"]
    (('protocol', 'rater'), 6)
    """
    check_arguments(sweep, locals())
    chosen = [protocols] if isinstance(protocols, Protocol) else list(protocols)
    if not chosen:
        raise ProtocolError("`sweep` needs at least one protocol; see xj.Protocol.grid.")
    repeated = [p for n, p in enumerate(chosen) if p in chosen[:n]]
    if repeated:
        raise ProtocolError(f"`sweep` got the same protocol twice: {repeated[0]!r}.")
    Protocol.check_together(chosen)
    return agreed(
        "sweep",
        data,
        chosen,
        statistic=statistic,
        reference=reference,
        raters=raters,
        weights=weights,
        costs=costs,
        min_overlap=min_overlap,
        by=by,
        judges=judges,
        humans=humans,
        sampling=Sampling(interval, resample, level, n_resamples, seed),
        compute=compute,
    )

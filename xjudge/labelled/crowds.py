"""What crowds add: agreement of all pairs that meet, and of each rater with the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import xarray as xr

from xjudge._arguments import check_arguments
from xjudge.errors import OverlapError, ProtocolError, Reason, StructureError
from xjudge.labelled._common import agreement_weights, chosen_statistics, texts, warn_undefined
from xjudge.labelled._crowd_pass import Crowd, Pairs, pair_targets
from xjudge.labelled._estimate import OfTable, coefficient, from_standard_error
from xjudge.labelled._level import few, interval_reasons, rare_and_apart, warn_intervals
from xjudge.labelled._results import share
from xjudge.labelled._sampling import Sampling
from xjudge.protocol import Protocol
from xjudge.statistics.answers import meetings, rest_tables
from xjudge.statistics.shrinkage import BetaPrior, beta_prior, shrink

__all__ = ["pair_agreement", "rater_agreement"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


# ----------------------------------------------------------------------------------------------------- pairs


def pair_agreement(
    data: xr.Dataset | xr.DataArray,
    *,
    statistic: str | Sequence[str] | None = None,
    raters: Any = "all",
    min_overlap: int = 1,
    weights: Any = None,
    costs: Any = None,
    tables: bool = False,
    protocol: Protocol | None = None,
    judges: Any = None,
    humans: Any = None,
    interval: str | None = "auto",
    level: float = 0.95,
) -> xr.Dataset:
    """Agreement of all pairs of raters that meet, as a list of pairs: for crowds.

    :func:`xjudge.agreement` with ``raters=`` gives a matrix of raters by raters. Of thousands of raters who
    label a few items each, few pairs meet, and this lists those alone.

    Parameters
    ----------
    data : Dataset or DataArray
        A judge dataset in either layout.
    statistic : str or list of str, optional
        As in :func:`xjudge.agreement`.
    raters : "all", "humans", "judges" or list of names
        Whose pairs.
    min_overlap : int
        Cases that both labelled (under the protocol) below which a pair is left out, and counted in the
        attribute ``n_pairs_below``; with several criteria, below which in all of them.
    weights, costs : str or matrix, optional
        As in :func:`xjudge.agreement`.
    tables : bool
        Whether the tables themselves come along, as ``count(pair, ..., label_a, label_b)``.
    protocol : Protocol, optional
        Per criterion (the default) or ``"micro"``; by exclusion. A population is one of items.
    judges, humans : list of names or boolean array, optional
        Restrict whom ``raters`` means.
    interval : {"auto", "delta", "wilson"} or None
        As in :func:`xjudge.agreement`, cases being independent; none where criteria are pooled, whose cases
        are not.
    level : float
        Confidence level.

    Returns
    -------
    Dataset
        On dim ``pair`` with the coordinates ``rater_a`` and ``rater_b`` (in the order of the raters in the
        data) [, ``criterion``]: per statistic ``x``, ``x_reason``, ``x_se``, ``x_interval(bound)``,
        ``x_interval_reason``; ``n`` cases, ``n_items``, ``n_eligible`` cases both were asked for,
        ``coverage``. Attributes ``n_pairs_met`` and ``n_pairs_below`` say how many pairs share a usable case,
        and how many of them are left out. As a frame: ``xj.tidy(result)``.

    Raises
    ------
    StructureError
        Data that are no judge dataset; answers that repeat each other or are not sorted by item; fewer than
        two raters named.
    ProtocolError
        What the scale cannot carry; aggregates beyond ``"micro"``.
    VocabularyError
        Labels outside the scale.

    Notes
    -----
    One pass. Cost grows with the pairs of labels that meet on an item, memory with the distinct pairs of
    raters; never with raters times raters. How many pairs meet is known only afterwards, so the result is
    never lazy. A dense dataset is listed first, in memory.

    Examples
    --------
    >>> import xjudge as xj
    >>> ds = xj.load_example()
    >>> found = xj.pair_agreement(ds, statistic="kappa", protocol=xj.Protocol(aggregate="micro"))
    >>> found["kappa"].dims, str(found["rater_a"].values[0]), found.attrs["n_pairs_met"]
    (('pair',), 'ann', 21)
    """
    check_arguments(pair_agreement, locals())
    crowd = Crowd("pair_agreement", data, humans, judges, protocol)
    sampling = Sampling(None if crowd.pooled and interval == "auto" else interval, "items", level, 1, 0)
    if sampling.method is not None and (sampling.resamples or crowd.pooled):
        raise ProtocolError(
            "`pair_agreement` has intervals by 'delta' and 'wilson', from cases that are independent"
            f"{'; pooled criteria are not: interval=None' if crowd.pooled else ''}; got {interval!r}."
        )
    scale = crowd.resolved.scale
    names = chosen_statistics(statistic, [(crowd.protocol, scale)])
    sampling.check(names, [crowd.protocol.aggregate])
    matrix = agreement_weights(weights, costs, scale, crowd.resolved.outcome_categories)
    chosen = crowd.view.members(raters)
    if not isinstance(raters, str) and len(chosen) < 2:
        raise StructureError("`raters` needs at least two raters to compare.")
    found = crowd.counted(
        meetings(
            crowd.answers.n_raters,
            crowd.answers.n_cells,
            pair_targets(crowd.resolved),
            n_tables=crowd.n_criteria * crowd.n_others,
            by_item=crowd.pooled,
        )
    )
    pairs = Pairs.of(found, crowd, crowd.mask(chosen), min_overlap)
    table = pairs.tables[..., None, : scale.n_categories, : scale.n_categories]
    used, eligible = table.sum((-2, -1))[..., 0], pairs.tables.sum((-2, -1))
    n_items = used if pairs.n_items is None else pairs.n_items
    variables: dict[str, Any] = {}
    dims = ("pair", *crowd.dims)
    for name in names:
        one = coefficient(name, matrix, scale.scores)
        value, reason = one.value(table)
        reason = np.where(used[..., None] < min_overlap, np.int8(Reason.BELOW_MIN_OVERLAP), reason)
        reason = np.where(used[..., None] == 0, np.int8(Reason.NO_JOINT_ANSWERS), reason)
        value = np.where(reason == 0, value, np.nan)
        variables[name] = crowd.placed(value[..., 0])
        variables[f"{name}_reason"] = texts(crowd.placed(reason[..., 0]))
        if sampling.method is None:
            continue
        found_ends = _ends(sampling, name, one, value, reason, table, n_items[..., None])
        for key, array in found_ends.items():
            bound = int(key.endswith("_interval"))
            held = crowd.placed(array[..., 0, :] if bound else array[..., 0], bound)
            variables[key] = ((*dims, "bound"), held) if bound else held
    counts = {"n": used, "n_items": n_items, "n_eligible": eligible}
    variables |= {name: crowd.placed(count) for name, count in counts.items()}
    variables["coverage"] = share(variables["n"], variables["n_eligible"])
    coords = _pair_coords(crowd, pairs)
    if tables:
        labels = np.array([str(category) for category in scale.categories])
        variables["count"] = ((*dims, "label_a", "label_b"), crowd.placed(table[..., 0, :, :], 2))
        coords |= {"label_a": labels, "label_b": labels}
    if sampling.method is not None:
        coords["bound"] = np.array(["lower", "upper"])
    result = crowd.result(
        "pair_agreement",
        "pair",
        variables,
        coords,
        raters=raters if isinstance(raters, str) else crowd.view.named(np.array(chosen)),
        humans=None if humans is None else crowd.view.named(crowd.view.humans),
        judges=None if judges is None else crowd.view.named(crowd.view.judges),
        statistic=names,
        weights=weights,
        costs=costs,
        min_overlap=min_overlap,
        interval=sampling.method or "none",
        level=level,
        tables=tables,
        n_pairs_met=pairs.n_met,
        n_pairs_below=pairs.n_met - len(pairs.first),
    )
    warn_undefined(result, names)
    warn_intervals(result, names)
    return result


def _ends(
    sampling: Sampling, name: str, one: OfTable, value: Floats, reason: Any, table: Ints, n_units: Ints
) -> dict[str, Any]:
    """Standard error, interval and what is to be said of it, of one statistic."""
    se = np.where(np.isnan(value), np.nan, np.sqrt((table * one.slope(table) ** 2).sum((-2, -1))))
    ends = from_standard_error(sampling, name, one, value, se, table, n_units, None)
    rare, apart = rare_and_apart([table[..., None, :, :]], n_units)
    close = few(name, rare, apart, pooled=np.zeros(rare.shape, dtype=bool))
    unseen = ends.pop(f"{name}_unseen")
    told = interval_reasons(reason, ends[f"{name}_interval"], n_units, close, unseen)
    return ends | {f"{name}_interval_reason": texts(told)}


def _pair_coords(crowd: Crowd, pairs: Pairs) -> dict[str, Any]:
    sides = {"rater_a": pairs.first, "rater_b": pairs.second}
    return {name: ("pair", crowd.view.named(side)) for name, side in sides.items()}


# ---------------------------------------------------------------------------------------------------- raters


def rater_agreement(
    data: xr.Dataset | xr.DataArray,
    *,
    statistic: str | Sequence[str] = "accuracy",
    reference: Literal["pooled", "majority"] = "pooled",
    raters: Any = "humans",
    min_overlap: int = 1,
    weights: Any = None,
    costs: Any = None,
    protocol: Protocol | None = None,
    judges: Any = None,
    humans: Any = None,
    level: float = 0.95,
) -> xr.Dataset:
    """Agreement of each rater with the other humans, and that agreement drawn towards the common mean.

    In a crowd most raters have few labels, so the best and the worst raw shares are those of raters with the
    fewest. The shrunken share weighs what a rater did against what raters do on the whole.

    Parameters
    ----------
    data : Dataset or DataArray
        A judge dataset in either layout, of any number of raters.
    statistic : str or list of str
        As in :func:`xjudge.agreement`; of accuracy there is a shrunken value too.
    reference : {"pooled", "majority"}
        Each of the other humans, or their vote (ties are left out and counted). A rater is never compared
        with his own label.
    raters : "humans", "judges", "all" or list of names
        Who is compared; they are also who has a common mean.
    min_overlap : int
        Units below which a value is NaN, with the reason ``below min_overlap``; shrunken values need none.
    weights, costs : str or matrix, optional
        As in :func:`xjudge.agreement`.
    protocol : Protocol, optional
        Per criterion (the default) or ``"micro"``; by exclusion. A population is one of items.
    judges, humans : list of names or boolean array, optional
        Restrict the raters; ``humans`` also those with whom one is compared.
    level : float
        Of the interval of the shrunken share.

    Returns
    -------
    Dataset
        On dim ``rater`` [, ``criterion``]: per statistic ``x`` and ``x_reason``; ``n`` pairs (of votes:
        units), ``n_units`` units with somebody to compare with, ``n_reference_ties`` under a vote. Where
        accuracy is asked for: ``accuracy_shrunk``, ``accuracy_shrunk_reason``,
        ``accuracy_shrunk_interval(bound)``, and of all raters ``prior_mean`` and ``prior_strength``, how
        many units the common mean is worth (inf where raters differ no more than chance explains).

    Raises
    ------
    StructureError
        Data that are no judge dataset; answers that repeat each other or are not sorted by item.
    OverlapError
        No human to compare with, or nobody to compare.
    ProtocolError
        What the scale cannot carry; aggregates beyond ``"micro"``.
    VocabularyError
        Labels outside the scale.

    Notes
    -----
    One pass; memory is that of a table for each rater. A judge's accuracy is that of
    ``agreement(reference="pooled")``. Shrinkage is empirical Bayes in the beta-binomial model, the prior by
    moments (Kleinman 1973): with ``p`` the raw share on ``n`` units, mean ``mu`` and strength ``s``,
    ``(s mu + n p) / (s + n)``, and the interval has the quantiles of a beta distribution with parameters
    ``s mu + n p`` and ``s (1 - mu) + n (1 - p)``; see :mod:`xjudge.statistics.shrinkage`. A unit counts as
    one trial, however many others labelled it: where these are several, the share of them who agree varies
    less than a single trial, and the interval is too long rather than too short. It takes the prior as
    known, which is too short where raters are few.

    Examples
    --------
    >>> import xjudge as xj
    >>> found = xj.rater_agreement(xj.load_example(), protocol=xj.Protocol(aggregate="micro"))
    >>> found["accuracy_shrunk"].dims, found["accuracy_shrunk_interval"].dims
    (('rater',), ('rater', 'bound'))
    """
    check_arguments(rater_agreement, locals())
    crowd = Crowd("rater_agreement", data, humans, judges, protocol)
    if reference not in ("pooled", "majority"):
        raise ProtocolError(
            f"`rater_agreement` compares with 'pooled' or 'majority', the other humans; got {reference!r}. "
            "A single reference is one of xj.agreement."
        )
    if not 0 < level < 1:
        raise ProtocolError(f"`level` must lie between 0 and 1; got {level!r}.")
    scale = crowd.resolved.scale
    names = chosen_statistics(statistic, [(crowd.protocol, scale)])
    matrix = agreement_weights(weights, costs, scale, crowd.resolved.outcome_categories)
    positions = crowd.view.members(raters)
    if not positions or not len(crowd.view.humans):
        raise OverlapError(
            f"There is nobody to compare: `raters={raters!r}` has {len(positions)} raters, and "
            f"{len(crowd.view.humans)} humans are there to compare them with (coordinate `role`)."
        )
    counted = crowd.counted(
        rest_tables(
            crowd.answers.n_raters,
            crowd.answers.n_cells,
            crowd.resolved.targets,
            judged=crowd.mask(positions),
            voters=crowd.mask(crowd.view.humans.tolist()),
            majority=reference == "majority",
        )
    )[:, list(positions)]
    n = scale.n_categories
    counted = counted.reshape((crowd.view.n_criteria, crowd.n_others, *counted.shape[1:]))
    counted = counted.sum(0, keepdims=True) if crowd.pooled else counted
    table = counted[..., :-2].reshape((*counted.shape[:-1], n, n))
    units, ties = counted[..., -2], counted[..., -1]
    variables: dict[str, Any] = {}
    for name in names:
        value, reason = coefficient(name, matrix, scale.scores).value(table)
        reason = np.where(units < min_overlap, np.int8(Reason.BELOW_MIN_OVERLAP), reason)
        reason = np.where(units == 0, np.int8(Reason.NO_OVERLAP), reason)
        variables[name] = crowd.placed(np.where(reason == 0, value, np.nan))
        variables[f"{name}_reason"] = texts(crowd.placed(reason))
    if "accuracy" in names:
        variables |= _shrunken(crowd, table, units, level)
    variables |= {"n": crowd.placed(table.sum((-2, -1))), "n_units": crowd.placed(units)}
    if reference == "majority":
        variables["n_reference_ties"] = crowd.placed(ties)
    where = np.array(positions, dtype=np.intp)
    coords: dict[str, Any] = {
        name: variable.isel(rater=where) if variable.dims else variable
        for name, variable in crowd.view.coordinates("rater").items()
    }
    coords |= {"rater": ("rater", crowd.view.named(where)), "reference": reference}
    if "accuracy" in names:
        coords["bound"] = np.array(["lower", "upper"])
    result = crowd.result(
        "rater_agreement",
        "rater",
        variables,
        coords,
        reference=reference,
        raters=raters if isinstance(raters, str) else crowd.view.named(where),
        humans=None if humans is None else crowd.view.named(crowd.view.humans),
        judges=None if judges is None else crowd.view.named(crowd.view.judges),
        statistic=names,
        weights=weights,
        costs=costs,
        min_overlap=min_overlap,
        level=level,
        shrinkage="beta-binomial, moments (Kleinman 1973)" if "accuracy" in names else None,
    )
    warn_undefined(result, names)
    return result


def _shrunken(crowd: Crowd, table: Ints, units: Ints, level: float) -> dict[str, Any]:
    """Shrunken accuracy, table by table, and what the raters have in common."""
    raw = share(np.trace(table, axis1=-2, axis2=-1), table.sum((-2, -1)))
    value, ends = np.full(raw.shape, np.nan), np.full((*raw.shape, 2), np.nan)
    reason = np.zeros(raw.shape, dtype=np.int8)
    mean, strength = np.full(raw.shape[:2], np.nan), np.full(raw.shape[:2], np.nan)
    for at in np.ndindex(raw.shape[:2]):
        trials = units[at].astype(np.float64)
        successes = np.where(trials > 0, raw[at], 0) * trials
        prior: BetaPrior = beta_prior(successes, trials)
        mean[at], strength[at] = prior
        found = shrink(successes, trials, prior, level=level)
        value[at], ends[at] = found.value, np.stack([found.lower, found.upper], axis=-1)
        few = int(np.count_nonzero(trials)) < 2
        why = Reason.ONE_RATER if few else Reason.SPREAD_UNKNOWN
        reason[at] = np.where(np.isnan(found.value), np.int8(why), np.int8(0))
    shape = tuple(crowd.view.rest[dim] for dim in crowd.dims)
    return {
        "accuracy_shrunk": crowd.placed(value),
        "accuracy_shrunk_reason": texts(crowd.placed(reason)),
        "accuracy_shrunk_interval": (("rater", *crowd.dims, "bound"), crowd.placed(ends, 1)),
        "prior_mean": (crowd.dims, mean.reshape(shape)),
        "prior_strength": (crowd.dims, strength.reshape(shape)),
    }

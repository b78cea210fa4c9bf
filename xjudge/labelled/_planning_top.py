"""Whether the best judge still looks best on sparse labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import xarray as xr

from xjudge._arguments import check_arguments
from xjudge.errors import ProtocolError, Reason
from xjudge.labelled._common import flat_attrs, texts, version
from xjudge.labelled._loo_pass import Opened
from xjudge.protocol import Protocol
from xjudge.statistics import loo

__all__ = ["wrong_top_probability"]


def wrong_top_probability(
    data: xr.Dataset | xr.DataArray,
    *,
    overlap: float | Sequence[float] = 0.25,
    design: str = "random",
    method: Literal["auto", "gaussian", "monte_carlo"] = "auto",
    rank_by: Literal["score", "omega"] = "score",
    eps: float = 0.05,
    mask: loo.Mask = "bernoulli",
    n_trials: int = 2000,
    protocol: Protocol | None = None,
    judges: Any = None,
    humans: Any = None,
    seed: int = 0,
) -> xr.Dataset:
    """Probability that the best judge of sparse labels is not the best of all labels.

    Parameters
    ----------
    data : Dataset or DataArray
        A judge dataset with two or more humans and judges, or a pilot of it: its labels are masked. The first
        human (in the order of the data) keeps every label.
    overlap : float or sequence of float
        In (0, 1]: share of the items that each further human keeps. A sequence adds the dim ``overlap``.
    design : {"random", "shared", "strat"}
        Independent subsets; one for all; the latter in proportion from strata of the first human's label.
    method : {"auto", "gaussian", "monte_carlo"}
        Without simulation, within 0.07 of it; from ``n_trials`` masks; ``"auto"`` simulates where there is no
        other way: strata, and ranking by omega.
    rank_by : {"score", "omega"}
        Mean over the held-out humans of the judge's agreement with the others; or the share of comparisons
        won with tolerance ``eps``, and then the score.
    eps : float
        Of the comparisons.
    mask : {"bernoulli", "exact"}
        Whether under ``"random"`` each label is kept with probability ``overlap`` or exactly that share.
    n_trials : int
        Masks, where simulated.
    protocol : Protocol, optional
        How labels are read; ``"micro"`` pools the criteria of an item, which are masked together, ``"item"``
        compares item verdicts, ``None`` ranks under each criterion.
    judges, humans : list of names or boolean array, optional
    seed : int

    Returns
    -------
    Dataset
        ``wrong_top`` with ``wrong_top_reason`` and ``wrong_top_se`` (of the simulation), ``p_best(rater)``
        (how often each judge comes first), ``score(rater)`` and ``top``, the best judge of all labels (the
        first of equal ones).

    Raises
    ------
    OverlapError
        Fewer than two humans.
    ProtocolError
        Fewer than two judges; options that are none or do not go together.

    Notes
    -----
    LOO.md section 7. Judges whose scores differ by less than their standard errors change places however
    many items there are: ranking takes far more overlap than a verdict on one judge. Holds the labels in
    memory.

    Examples
    --------
    >>> import xjudge as xj
    >>> ds = xj.load_example()
    >>> found = xj.wrong_top_probability(ds, overlap=0.5, protocol=xj.Protocol(aggregate="micro"))
    >>> found["top"].item(), bool(found["wrong_top"] < 0.1)
    ('orion-large', True)
    """
    check_arguments(wrong_top_probability, locals())
    if method not in ("auto", "gaussian", "monte_carlo"):
        raise ProtocolError(f"`method` must be 'auto', 'gaussian' or 'monte_carlo'; got {method!r}.")
    if design not in ("random", "shared", "strat"):
        raise ProtocolError(f"`design` must be 'random', 'shared' or 'strat'; got {design!r}.")
    if mask not in ("bernoulli", "exact"):
        raise ProtocolError(f"`mask` must be 'bernoulli' or 'exact'; got {mask!r}.")
    plain = design != "strat" and rank_by == "score"
    if method == "gaussian" and not plain:
        raise ProtocolError(
            "There is no normal form for strata, nor for ranking by omega: method='monte_carlo' or 'auto'."
        )
    used = ("gaussian" if plain else "monte_carlo") if method == "auto" else method
    shares = np.atleast_1d(np.asarray(overlap, dtype=np.float64))
    if shares.ndim != 1 or not len(shares):
        raise ProtocolError(f"`overlap` is one share of the items or a list of them; got {overlap!r}.")
    opened = Opened(data, "wrong_top_probability", protocol, judges=judges, humans=humans)
    a, b = opened.codes()
    opened.counting.cases.warn()
    plan = opened.plan
    pooled = plan.aggregate == "micro" or plan.n_criteria == 1
    if design == "strat" and pooled and a.shape[2] > 1:
        raise ProtocolError(
            "design='strat' makes strata of the first human's label, and an item has several here: "
            "aggregate=None or 'item', or design='shared'."
        )
    options: dict[str, Any] = {"design": design, "method": used, "by": rank_by, "eps": eps}
    options |= {"mask": mask, "n_trials": n_trials, "seed": seed}
    tables = [
        (h, j) if pooled else (h[:, [g]], j[:, [g]])
        for h, j in zip(a, b, strict=True)
        for g in range(1 if pooled else a.shape[2])
    ]
    found = [
        [loo.wrong_top_probability(h, j, share, **options) for h, j in tables] for share in shares.tolist()
    ]
    return _named(opened, found, shares, np.ndim(overlap) == 1, options)


def _named(
    opened: Opened, found: list[list[loo.TopJudge]], shares: Any, several: bool, options: dict[str, Any]
) -> xr.Dataset:
    """Tables (share; other, criterion) as a dataset."""
    view, plan = opened.view, opened.plan
    dims = ["overlap", *view.others, "criterion"]
    sizes = [len(shares), *view.others.values(), plan.n_criteria if plan.per_criterion else 1]

    def placed(values: list[list[Any]], *more: str) -> xr.Variable:
        array = np.array(values)
        variable = xr.Variable([*dims, *more], array.reshape((*sizes, *array.shape[2:])))
        if not plan.per_criterion:
            variable = variable.isel(criterion=0)
        return variable if several else variable.isel(overlap=0)

    positions = np.array(opened.sides.right, dtype=np.intp)
    names = view.named(positions)
    score = placed([[one.score for one in row] for row in found], "rater")
    reason = [[Reason.NO_OVERLAP if np.isnan(one.probability) else Reason.OK for one in row] for row in found]
    variables = {
        "wrong_top": placed([[one.probability for one in row] for row in found]),
        "wrong_top_reason": placed(texts(np.array(reason, dtype=np.int8)).tolist()),
        "wrong_top_se": placed([[one.se for one in row] for row in found]),
        "p_best": placed([[one.p_best for one in row] for row in found], "rater"),
        "score": score if not several else score.isel(overlap=0),
        "top": placed([[names[one.top] for one in row] for row in found]),
    }
    if several:
        variables["top"] = variables["top"].isel(overlap=0)
    rest = [dim for dim in view.rest if plan.per_criterion or dim != "criterion"]
    coords: dict[str, Any] = dict(view.coordinates(*rest))
    for name, variable in view.coordinates("rater").items():
        coords[name] = variable.isel(rater=positions) if variable.dims else variable
    coords |= {"rater": names, "overlap": shares if several else float(shares[0])}
    stated = {"rank_by" if name == "by" else name: value for name, value in options.items()}
    attrs = {"verb": "wrong_top_probability", "scale": view.scale, "protocol": opened.protocol, **stated}
    attrs |= {"judges": names, "humans": view.named(np.array(opened.sides.left, dtype=np.intp))}
    return xr.Dataset(variables, coords=coords, attrs=flat_attrs(attrs | {"xjudge_version": version()}))

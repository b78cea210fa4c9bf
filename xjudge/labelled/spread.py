"""How far a statistic moves over a sweep of protocols, and which choice moves it most."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from xjudge.errors import StructureError
from xjudge.labelled._common import flat_attrs, version

__all__ = ["mean_pairwise", "spread"]

CHOICES = ("scale_map", "ca", "invalid", "tie", "aggregate", "population", "extraction")
"""Coordinates of a sweep that say what a protocol chose."""


def spread(result: xr.Dataset) -> xr.Dataset:
    """Summarise a sweep: the range of each statistic over protocols, and the main effect of each choice.

    Parameters
    ----------
    result : Dataset
        What :func:`xjudge.sweep` returned.

    Returns
    -------
    Dataset
        Per statistic ``x``, on the result's dims without ``protocol``: ``x_min``, ``x_max`` and
        ``x_spread = x_max - x_min`` over the protocols that define it, ``x_n_defined`` how many do;
        ``x_effect(choice)``: the mean of ``x`` at each level of a choice (over all other choices), largest
        less smallest; ``x_most`` the choice with the largest effect (``none`` where nothing moves).
        Choices are those that vary in the sweep.

    Raises
    ------
    StructureError
        Where the dataset is not a sweep.

    Notes
    -----
    A main effect is a plain difference of means. It is free of the other choices only in a full grid.

    Examples
    --------
    >>> import xjudge as xj
    >>> grid = xj.Protocol.grid(ca=["exclude", "negative"], aggregate=["micro", "macro"])
    >>> swept = xj.load_example().judge.sweep(grid, statistic="accuracy", reference="pooled")
    >>> set(xj.spread(swept)["accuracy_most"].values.tolist())
    {'ca'}
    """
    if getattr(result, "attrs", {}).get("verb") != "sweep" or "protocol" not in result.dims:
        raise StructureError("`spread` takes what xj.sweep returned (dim `protocol`).")
    choices = [name for name in CHOICES if len(set(result[name].values.tolist())) > 1]
    variables: dict[str, Any] = {}
    for name in _estimates(result):
        array = result[name].transpose("protocol", ...)
        dims = array.dims[1:]
        values = np.asarray(array.values, dtype=np.float64)
        low, high = _ends(values)
        effects = [_effect(values, result[choice].values) for choice in choices]
        effect = np.stack(effects, axis=-1) if choices else np.empty((*values.shape[1:], 0))
        variables |= {
            f"{name}_min": (dims, low),
            f"{name}_max": (dims, high),
            f"{name}_spread": (dims, high - low),
            f"{name}_n_defined": (dims, np.isfinite(values).sum(0)),
            f"{name}_effect": ((*dims, "choice"), effect),
            f"{name}_most": (dims, _most(effect, choices)),
        }
    coords = {str(n): c.variable for n, c in result.coords.items() if "protocol" not in c.dims}
    coords["choice"] = xr.Variable("choice", np.array(choices, dtype=str))
    kept = {n: v for n, v in coords.items() if n != "statistic"}
    attrs = {"verb": "spread", "protocols": result.attrs["protocols"], "xjudge_version": version()}
    return xr.Dataset(variables, coords=kept, attrs=flat_attrs(attrs))


def _estimates(result: xr.Dataset) -> list[str]:
    """Names of the estimates: what has a reason and is not the interval of another."""
    named = [str(name) for name in result.data_vars if f"{name}_reason" in result]
    return [name for name in named if not name.endswith("_interval")]


def _ends(values: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Least and greatest defined value along the first axis; NaN where there is none."""
    defined = np.isfinite(values)
    low = np.where(defined, values, np.inf).min(0)
    high = np.where(defined, values, -np.inf).max(0)
    none = ~defined.any(0)
    return np.where(none, np.nan, low), np.where(none, np.nan, high)


def _effect(values: npt.NDArray[np.float64], levels: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Largest less smallest mean over the levels of a choice; NaN where fewer than two have a mean."""
    means = []
    for level in dict.fromkeys(levels.tolist()):
        chosen = values[levels == level]
        defined = np.isfinite(chosen)
        n = defined.sum(0)
        total = np.where(defined, chosen, 0).sum(0)
        means.append(np.divide(total, n, out=np.full(n.shape, np.nan), where=n > 0))
    low, high = _ends(np.stack(means))
    return np.where(np.isfinite(np.stack(means)).sum(0) < 2, np.nan, high - low)


def _most(effect: npt.NDArray[np.float64], choices: list[str]) -> npt.NDArray[np.str_]:
    names = np.array(["none", *choices])
    if not choices:
        return np.full(effect.shape[:-1], "none", dtype=names.dtype)
    known = np.where(np.isfinite(effect), effect, 0.0)
    return np.where(known.max(-1) > 0, names[1:][known.argmax(-1)], names[0])


def mean_pairwise(result: xr.Dataset) -> xr.Dataset:
    """Mean of each statistic over pairs of raters, with the number of pairs that define it.

    Parameters
    ----------
    result : Dataset
        What :func:`xjudge.agreement` returned with ``raters=...`` (dims ``rater_a``, ``rater_b``).

    Returns
    -------
    Dataset
        Per statistic ``x``: ``x`` the mean over unordered pairs of different raters where it is defined
        (NaN where none is), ``x_n_pairs_included`` and ``n_pairs``.

    Raises
    ------
    StructureError
        Where the result has no pairs of raters.

    Examples
    --------
    >>> import xjudge as xj
    >>> pairs = xj.agreement(
    ...     xj.load_example(), raters="judges", statistic="kappa", protocol=xj.Protocol(aggregate="micro")
    ... )
    >>> int(xj.mean_pairwise(pairs)["n_pairs"])
    6
    """
    if "rater_a" not in result.dims or "verb" not in result.attrs:
        raise StructureError("`mean_pairwise` takes a result with pairs: xj.agreement(ds, raters=...).")
    n = result.sizes["rater_a"]
    upper = xr.DataArray(np.triu(np.ones((n, n), dtype=bool), 1), dims=("rater_a", "rater_b"))
    variables: dict[str, Any] = {}
    for name in _estimates(result):
        values = result[name].where(upper)
        variables[name] = values.mean(("rater_a", "rater_b"), skipna=True)
        variables[f"{name}_n_pairs_included"] = values.notnull().sum(("rater_a", "rater_b"))
    variables["n_pairs"] = xr.DataArray(n * (n - 1) // 2)
    out = xr.Dataset(variables)
    for variable in out.variables.values():
        variable.attrs = {}
    out.attrs = {**result.attrs, "verb": "mean_pairwise"}
    return out

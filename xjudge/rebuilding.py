"""Recompute a result from its attributes, and say where it differs."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from xjudge.errors import StructureError, listing
from xjudge.labelled._common import version
from xjudge.labelled._panel_human import Partial
from xjudge.labelled.adjust import adjust
from xjudge.labelled.agreement import agreement, sweep, tables
from xjudge.labelled.bounds import breakdown, coverage_bounds
from xjudge.labelled.crowds import pair_agreement, rater_agreement
from xjudge.labelled.loo import alt_test, loo_validate
from xjudge.labelled.panel import effective_size
from xjudge.labelled.ranking import rank
from xjudge.labelled.reliability import reliability
from xjudge.labelled.voting import panel_vote
from xjudge.outcomes import rates
from xjudge.protocol import Protocol
from xjudge.view import View

__all__ = ["rebuild"]

_VERBS: dict[str, Callable[..., xr.Dataset]] = {
    "adjust": adjust,
    "agreement": agreement,
    "alt_test": alt_test,
    "breakdown": breakdown,
    "coverage_bounds": coverage_bounds,
    "effective_size": effective_size,
    "loo_validate": loo_validate,
    "pair_agreement": pair_agreement,
    "panel_vote": panel_vote,
    "rank": rank,
    "rater_agreement": rater_agreement,
    "rates": rates,
    "reliability": reliability,
    "sweep": sweep,
    "tables": tables,
}
_PLAIN = (
    "reference",
    "by",
    "min_overlap",
    "seed",
    "resample",
    "level",
    "n_resamples",
    "shares",
    "convention",
    "human",
    "gold",
    "incomplete",
    "method",
    "n_curves",
    "ties",
    "folds",
    "eps",
    "q",
    "score",
    "min_items",
    "min_humans",
    "pooling",
    "at_margin",
    "target",
    "combine",
)
_NUMBERS = ("max_share", "threshold")
_JSON = (
    "features",
    "strict",
    "tables",
    "control",
    "judges",
    "humans",
    "raters",
    "statistic",
    "weights",
    "costs",
    "metric",
    "unresolved",
    "grid",
    "aggregate",
)


def rebuild(result: xr.Dataset, data: xr.Dataset | xr.DataArray) -> xr.Dataset:
    """Recompute a result from its attributes and compare it, value by value.

    Parameters
    ----------
    result : Dataset
        What a verb returned, or what came back of it from a file.
    data : Dataset or DataArray
        The judge dataset it was computed from.

    Returns
    -------
    Dataset
        The recomputed result, equal to the given one.

    Raises
    ------
    StructureError
        Attributes that do not suffice; data of another scale; any value, reason, count or coordinate that
        differs, with the variable, the number of cells and the largest difference.

    Examples
    --------
    >>> import xjudge as xj
    >>> ds = xj.load_example()
    >>> result = ds.judge.agreement(statistic="accuracy")
    >>> xj.rebuild(result, ds).identical(result)
    True
    """
    attrs = getattr(result, "attrs", {})
    verb = attrs.get("verb")
    if verb not in _VERBS:
        raise StructureError(
            f"`rebuild` recomputes results of {listing(list(_VERBS), most=len(_VERBS))}; this has "
            f"verb={verb!r}."
        )
    scale = View.of(data, own={}).scale.to_json()
    if str(attrs.get("scale")) != scale:
        raise StructureError(
            f"The result was computed on the scale {attrs.get('scale')}, and the data have {scale}."
        )
    taken = inspect.signature(_VERBS[verb]).parameters
    told = [name for name in attrs if name in taken]
    options: dict[str, Any] = {name: _plain(attrs[name]) for name in told if name in _PLAIN}
    options |= {name: _read(attrs[name]) for name in told if name in (*_JSON, *_NUMBERS)}
    if "anchor" in attrs:
        options["anchor"] = Partial.from_text(attrs["anchor"])
    if "interval" in attrs:
        options["interval"] = None if attrs["interval"] == "none" else str(attrs["interval"])
    if verb == "sweep":
        listed = [Protocol.from_json(text) for text in json.loads(attrs["protocols"])]
        again = sweep(data, listed, **options)
    else:
        again = _VERBS[verb](data, protocol=Protocol.from_json(attrs["protocol"]), **options)
    differences = _differences(result, again)
    if differences:
        made = attrs.get("xjudge_version")
        hint = "" if made == version() else f" It was made by xjudge {made}; this is {version()}."
        raise StructureError(f"The result cannot be rebuilt from these data: {'; '.join(differences)}.{hint}")
    return again


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _read(value: Any) -> Any:
    """A list, mapping or name as it was before it became an attribute."""
    written = isinstance(value, str) and (value[:1] in "[{" or value in ("true", "false"))
    return json.loads(value) if written else _plain(value)


def _differences(result: xr.Dataset, again: xr.Dataset) -> list[str]:
    out = []
    gone, new = set(result.variables) - set(again.variables), set(again.variables) - set(result.variables)
    if gone or new:
        out.append(f"variables differ ({listing(sorted(map(str, gone | new)), most=5)})")
    for name in again.variables:
        if name not in result.variables:
            continue
        before, after = result[name], again[name]
        if before.dims != after.dims or before.shape != after.shape:
            out.append(f"`{name}` has {before.sizes} and now {after.sizes}")
            continue
        old, now = np.asarray(before.values), np.asarray(after.values)
        if now.dtype.kind == "f":
            old = old.astype(np.float64)
            same = (old == now) | (np.isnan(old) & np.isnan(now))
            largest = np.abs(old[~same] - now[~same])
            finite = largest[np.isfinite(largest)]
            size = f", by up to {finite.max():.3g}" if finite.size else ""
        else:
            same, size = old.astype(str) == now.astype(str), ""
        if not np.all(same):
            out.append(f"`{name}` differs in {int((~same).sum())} of {now.size} cells{size}")
    return out

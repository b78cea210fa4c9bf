"""Recompute a result from its attributes, and say where it differs."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from xjudge.errors import StructureError, XJudgeWarning, listing
from xjudge.labelled._common import version
from xjudge.labelled._panel_human import Partial
from xjudge.labelled.compare import constant
from xjudge.protocol import Protocol
from xjudge.view import View

__all__ = ["rebuild"]

_VERBS = {
    "adjust": "xjudge.labelled.adjust",
    "agreement": "xjudge.labelled.agreement",
    "allocate": "xjudge.labelled.planning",
    "alt_test": "xjudge.labelled.loo",
    "breakdown": "xjudge.labelled.bounds",
    "cascade": "xjudge.labelled.selective",
    "compare": "xjudge.labelled.compare",
    "compare_panels": "xjudge.labelled.rivals",
    "coverage_bounds": "xjudge.labelled.bounds",
    "effective_size": "xjudge.labelled.panel",
    "loo_validate": "xjudge.labelled.loo",
    "mean_pairwise": "xjudge.labelled.agreement",
    "pair_agreement": "xjudge.labelled.crowds",
    "panel_curve": "xjudge.labelled.subpanels",
    "panel_dependence": "xjudge.labelled.dependence",
    "panel_geometry": "xjudge.labelled.geometry",
    "panel_vote": "xjudge.labelled.voting",
    "prevalence": "xjudge.labelled.adjust",
    "rank": "xjudge.labelled.ranking",
    "rater_agreement": "xjudge.labelled.crowds",
    "rates": "xjudge.outcomes",
    "reliability": "xjudge.labelled.reliability",
    "reliability_bounds": "xjudge.labelled.rater_ranges",
    "risk_coverage": "xjudge.labelled.selective",
    "select_panel": "xjudge.labelled.selection",
    "selective_threshold": "xjudge.labelled.selective",
    "split_stability": "xjudge.labelled.selective",
    "stability": "xjudge.labelled.stability",
    "sweep": "xjudge.labelled.agreement",
    "tables": "xjudge.labelled.agreement",
    "wrong_top_probability": "xjudge.labelled.planning",
}
"""Verbs and their rooms, which are read when a result of theirs is rebuilt."""

_TEXT = (
    "anchor",
    "by",
    "confidence",
    "dim",
    "first_option",
    "gold",
    "human",
    "interval",
    "original",
    "reference",
    "strata",
)
"""Options that are names, or have a reading of their own: text that is never JSON."""

_WITHOUT = {
    "plan_overlap": "a plan does not say which pilot or parameters it was made from; plan again and compare",
    "spread": "the spread of a sweep is made from the sweep: rebuild that, and take its spread again",
}
"""Results that do not hold what they were made from."""


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
        The recomputed result, equal to the given one. Warnings that came with it are not given again.

    Raises
    ------
    StructureError
        Attributes that do not suffice (functions given as options, folds given item by item); data of
        another scale; any value, reason, count or coordinate that
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
    if verb in _WITHOUT:
        raise StructureError(f"`rebuild` cannot recompute `{verb}`: {_WITHOUT[verb]}.")
    if verb not in _VERBS:
        raise StructureError(
            f"`rebuild` recomputes results of {listing(list(_VERBS), most=len(_VERBS))}; this has "
            f"verb={verb!r}."
        )
    scale = View.of(data, own={}).scale.to_json()
    if str(attrs.get("scale", scale)) != scale:
        raise StructureError(
            f"The result was computed on the scale {attrs.get('scale')}, and the data have {scale}."
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", XJudgeWarning)  # they came with the result
        again = _again(str(verb), result, data)
    differences = _differences(result, again)
    if differences:
        made = attrs.get("xjudge_version")
        hint = "" if made == version() else f" It was made by xjudge {made}; this is {version()}."
        raise StructureError(f"The result cannot be rebuilt from these data: {'; '.join(differences)}.{hint}")
    return again


def _again(verb: str, result: xr.Dataset, data: xr.Dataset | xr.DataArray) -> xr.Dataset:
    """Call the verb again, with the options that the result tells."""
    room = importlib.import_module(_VERBS[verb])
    if verb == "mean_pairwise":
        from xjudge.labelled.spread import mean_pairwise

        return mean_pairwise(room.agreement(data, **_options(room.agreement, result)))
    call = getattr(room, verb)
    options = _options(call, result)
    if verb == "sweep":
        options.pop("protocols", None)
        listed = [Protocol.from_json(text) for text in json.loads(result.attrs["protocols"])]
        return call(data, listed, **options)
    if verb in _MORE:
        options |= _MORE[verb](result, data)
    found: xr.Dataset = call(data, **options)
    return found


def _options(call: Callable[..., Any], result: xr.Dataset) -> dict[str, Any]:
    """Options of a verb as the attributes tell them.

    Raises
    ------
    StructureError
        Where an attribute stands for something that is not in the result.
    """
    attrs = result.attrs
    taken = inspect.signature(call).parameters
    told = {str(name): attrs[name] for name in attrs if name in taken}
    options = {name: _plain(value) if name in _TEXT else _read(value) for name, value in told.items()}
    gone = [
        name
        for name, value in options.items()
        if "callable" in (value if isinstance(value, list) else [value])
    ]
    if gone:
        raise StructureError(
            f"`rebuild` cannot recompute a result of a function: {listing(gone)} was given as one. Call the "
            "verb again with it, and compare."
        )
    if options.get("folds") == "given":
        raise StructureError(
            "`rebuild` cannot recompute folds that were given item by item; keep them in a coordinate of the "
            "items and name it, `folds='fold'`."
        )
    if "anchor" in options:
        options["anchor"] = Partial.from_text(options["anchor"])
    if options.get("interval") == "none":
        options["interval"] = None
    if "protocol" in options:
        options["protocol"] = Protocol.from_json(attrs["protocol"])
    return options


def _of_compare(result: xr.Dataset, data: xr.Dataset | xr.DataArray) -> dict[str, Any]:
    """Both sides of the pairs; a baseline stands as it is written."""
    names = {str(name): name for name in View.of(data, own={}).raters.tolist()}

    def side(text: str) -> Any:
        written = re.fullmatch(r"constant\((.*)\)", text)
        return names.get(text, text) if written is None else constant(ast.literal_eval(written[1]))

    pairs = json.loads(result.attrs["pairs"])
    a, b = (list(dict.fromkeys(pair[place] for pair in pairs)) for place in range(2))
    if "rater_a" in result and result["rater_a"].ndim == 0:
        return {"a": side(a[0]), "b": side(b[0])}
    return {"a": [side(text) for text in a], "b": [side(text) for text in b]}


def _of_prevalence(result: xr.Dataset, data: xr.Dataset | xr.DataArray) -> dict[str, Any]:
    judges = json.loads(result.attrs["judges"])
    return {"judge": judges if "rater" in result.dims else judges[0]}


def _of_curve(result: xr.Dataset, data: xr.Dataset | xr.DataArray) -> dict[str, Any]:
    return {"sizes": result["size"].values.tolist(), "quantiles": result["quantile"].values.tolist()}


def _of_cascade(result: xr.Dataset, data: xr.Dataset | xr.DataArray) -> dict[str, Any]:
    return {"order": json.loads(result.attrs["cascade"])}


def _of_top(result: xr.Dataset, data: xr.Dataset | xr.DataArray) -> dict[str, Any]:
    return {"overlap": result["overlap"].values.tolist()}


def _of_stability(result: xr.Dataset, data: xr.Dataset | xr.DataArray) -> dict[str, Any]:
    """Without a human side the attribute is not there."""
    return {} if "human" in result.attrs else {"human": None}


_MORE: dict[str, Callable[[xr.Dataset, xr.Dataset | xr.DataArray], dict[str, Any]]] = {
    "cascade": _of_cascade,
    "compare": _of_compare,
    "panel_curve": _of_curve,
    "prevalence": _of_prevalence,
    "stability": _of_stability,
    "wrong_top_probability": _of_top,
}
"""Options that a result tells in its coordinates, or by another name."""


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _read(value: Any) -> Any:
    """A list, mapping or truth value as it was before it became an attribute."""
    written = isinstance(value, str) and (value[:1] in ("[", "{") or value in ("true", "false", "null"))
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

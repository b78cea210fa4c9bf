"""From columns of codes to a judge dataset: duplicates, scatter into a cube or a sparse list, attrs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import xarray as xr

from xjudge._covariates import covariates
from xjudge._duplicates import Kept, keep_rows
from xjudge._ids import Ids
from xjudge._ingest import Problems, counted, shown, text_array
from xjudge._labels import Declared, declare
from xjudge._reading import Matched, Options, Reading, match
from xjudge._roles import resolve_identity, resolve_roles
from xjudge.codes import MISSING, OUTCOMES
from xjudge.errors import DroppedWarning, ProtocolWarning, listing, warn
from xjudge.scale import Scale

__all__ = ["build", "category_values", "id_coords"]

_LARGEST_DENSE: Final = 1 << 32
_DENSE_ANYWAY: Final = 1 << 24


def build(reading: Reading, options: Options, problems: Problems) -> xr.Dataset:
    """Judge dataset from what was read; every problem found so far and here is raised together."""
    options.check(problems)
    raters = reading.ids.get("rater")
    roles = resolve_roles(
        raters,
        role=options.role,
        column=reading.role,
        judges=options.judges,
        humans=options.humans,
        role_names=options.role_names,
        hint=" The frame has a column 'role': `role='role'`." if "role" in reading.frame.columns else "",
        problems=problems,
    )
    identity = resolve_identity(raters, options.identity, reading.identity, problems)
    declared = declare(options.ca, options.invalid, options.missing, options.normalise, problems)
    matched = match(reading, options.scale, declared, problems)
    if matched is None or roles is None or identity is None or not reading.complete:
        problems.fail()
    prob = _ordered_prob(reading.prob, matched.vocabulary.scale, problems)
    kept = _keep(reading, matched, prob, options, problems)
    problems.raise_if_any()

    ids = dict(reading.ids)
    if kept.replicate is not None:
        count = int(kept.replicate.max(initial=0)) + 1
        ids["replicate"] = Ids("replicate", kept.replicate, np.arange(count), "number")
    dense = _is_dense(ids, len(kept.rows), options.layout, problems)
    further = [name for name in reading.frame.columns if name not in reading.used]
    along = {dim: one for dim, one in reading.ids.items() if dim != reading.spread}
    placed, dropped = covariates(reading.frame, further, along)
    coords = id_coords(ids) | {"role": ("rater", roles), "identity": ("rater", identity)} | placed
    data = _values(reading, matched, kept, prob)
    variables, codes = (_dense if dense else _sparse)(data, kept, ids, matched.vocabulary.scale)
    if prob is not None:
        coords["category"] = ("category", category_values(matched.vocabulary.scale))
    ds = xr.Dataset(variables, coords=coords | codes)
    ds.attrs = _attrs(reading, options, declared, matched, kept)
    _warn(reading, matched, kept, options, dropped)
    return ds


def id_coords(ids: Mapping[str, Ids]) -> dict[str, Any]:
    """Coordinates of the ids, and of the columns that compound ids were joined from."""
    coords: dict[str, Any] = {}
    for dim, one in ids.items():
        coords[dim] = (dim, one.values)
        coords |= {name: (dim, values) for name, values in one.parts.items()}
    return coords


def category_values(scale: Scale) -> npt.NDArray[Any]:
    """The categories as a coordinate: of their own type where they share one, else as text."""
    kinds = {type(value) for value in scale.categories}
    if kinds == {bool} or (kinds and kinds <= {int, float}):
        return np.array(scale.categories)
    return text_array(str(value) for value in scale.categories)


# ---------------------------------------------------------------------------------------------- which rows


def _keep(
    reading: Reading,
    matched: Matched,
    prob: npt.NDArray[np.float64] | None,
    options: Options,
    problems: Problems,
) -> Kept:
    stated = matched.labels != MISSING
    if prob is not None:  # probabilities without a label say something too
        stated |= ~np.isnan(prob).all(axis=1)
    present = np.flatnonzero(stated)
    cells = np.zeros(len(present), dtype=np.int64)
    for dim, ids in reading.ids.items():
        cells *= len(ids)
        cells += reading.codes(dim) if stated.all() else reading.codes(dim)[present]

    def describe(answers: npt.NDArray[np.intp]) -> str:
        written = [shown(reading.written(answer)) for answer in answers.tolist()]
        return f"{reading.place(int(answers[0]))}: {listing(written, most=4, show='str')}"

    rule = options.duplicates
    if "replicate" in reading.ids and rule == "replicate":
        rule = "raise"  # the column says which replicate it is
    return keep_rows(
        present,
        cells,
        matched.labels[present],
        n_cells=math.prod(len(ids) for ids in reading.ids.values()),
        rule=rule,
        continuous=matched.scores is not None,
        describe=describe,
        problems=problems,
    )


def _is_dense(ids: Mapping[str, Ids], n_answers: int, layout: str, problems: Problems) -> bool:
    n_cells = math.prod(len(one) for one in ids.values())
    if layout == "auto":
        return n_cells <= _DENSE_ANYWAY or (n_cells <= _LARGEST_DENSE and 20 * n_answers >= n_cells)
    if layout == "dense" and n_cells > _LARGEST_DENSE:
        sizes = " x ".join(f"{len(one):,} ({dim})" for dim, one in ids.items())
        problems.add(
            f"A cube of {sizes} has {n_cells:,} cells for {n_answers:,} labels; use `layout='sparse'`."
        )
        problems.fail()
    return layout == "dense"


# -------------------------------------------------------------------------------------------------- layouts


def _values(
    reading: Reading, matched: Matched, kept: Kept, prob: npt.NDArray[np.float64] | None
) -> dict[str, npt.NDArray[Any]]:
    """What every answer carries, along the rows that were kept."""
    rows = kept.rows
    data: dict[str, npt.NDArray[Any]] = {"label": matched.labels[rows]}
    if matched.scores is not None:
        data["score"] = np.where(data["label"] == 0, matched.scores[rows], np.nan)
    if prob is not None:
        data["prob"] = prob[rows]
    if reading.confidence is not None:
        data["confidence"] = reading.confidence[rows]
    return data


def _ordered_prob(
    prob: dict[Any, npt.NDArray[np.float64]] | None, scale: Scale, problems: Problems
) -> npt.NDArray[np.float64] | None:
    """Probabilities along the categories of the scale: rows x categories."""
    if prob is None:
        return None
    codes = {category: scale.find(category) for category in prob}
    unknown = [category for category, code in codes.items() if code is None]
    absent = [value for code, value in enumerate(scale.categories) if code not in codes.values()]
    if unknown or absent:
        what = [f"names {listing(unknown)}"] if unknown else []
        what += [f"leaves out {listing(absent)}"] if absent else []
        problems.add(f"`prob` needs one column for each category of {scale!r}; it {' and '.join(what)}.")
        return None
    return np.stack([prob[category] for category in sorted(codes, key=lambda c: codes[c] or 0)], axis=1)


def _dense(
    data: Mapping[str, npt.NDArray[Any]],
    kept: Kept,
    ids: Mapping[str, Ids],
    scale: Scale,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Variables of the cube, and no coordinates beside the ids."""
    shape = tuple(len(one) for one in ids.values())
    variables = {}
    for name, values in data.items():
        further = values.shape[1:]
        fill, dtype = (MISSING, scale.dtype) if name == "label" else (np.nan, values.dtype)
        cube = np.full((math.prod(shape), *further), fill, dtype=dtype)
        cube[kept.cells] = values
        dims = (*ids, "category") if further else tuple(ids)
        variables[name] = (dims, cube.reshape(*shape, *further), _variable_attrs(name, scale))
    return variables, {}


def _sparse(
    data: Mapping[str, npt.NDArray[Any]],
    kept: Kept,
    ids: Mapping[str, Ids],
    scale: Scale,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Variables along answers, sorted by item, and the codes of their ids."""
    order = np.argsort(kept.cells, kind="stable")  # the item is the slowest part of a cell
    codes = np.unravel_index(kept.cells[order], [len(one) for one in ids.values()])
    variables = {}
    for name, values in data.items():
        taken = values[order].astype(scale.dtype if name == "label" else values.dtype, copy=False)
        dims = ("answer", "category") if values.ndim > 1 else ("answer",)
        variables[name] = (dims, taken, _variable_attrs(name, scale))
    coords = {}
    for (dim, one), code in zip(ids.items(), codes, strict=True):
        dtype = np.int32 if len(one) < 2**31 else np.int64
        coords[f"{dim}_code"] = ("answer", code.astype(dtype, copy=False))
    return variables, coords


def _variable_attrs(name: str, scale: Scale) -> dict[str, Any]:
    return scale.to_attrs() if name == "label" else {}


# ------------------------------------------------------------------------------------------ what is reported


def _attrs(
    reading: Reading, options: Options, declared: Declared, matched: Matched, kept: Kept
) -> dict[str, Any]:
    """Flat attributes: what was read, and where every row went."""
    labels = matched.labels
    final = labels[kept.rows]
    counts = {name: int(np.count_nonzero(final == code)) for name, code in OUTCOMES.items()}
    attrs: dict[str, Any] = {
        "source": reading.source,
        "columns": json.dumps(reading.columns, ensure_ascii=False, default=str),
        "codes": declared.to_json(),
        "normalise": ",".join(declared.steps),
        "duplicates": options.duplicates,
        "rows_read": len(labels),
        "rows_answered": int(np.count_nonzero(final >= 0)),
        "rows_ca": counts["ca"],
        "rows_invalid": counts["invalid"],
        "rows_missing": len(labels) - kept.n_present + counts["missing"],
        "rows_duplicate_dropped": kept.n_present - len(kept.rows),
    }
    if declared.coerce:
        attrs["rows_coerced"] = matched.coerced.total
        listed = zip(matched.coerced.values[:20], matched.coerced.counts, strict=False)
        told = [[shown(value), count] for value, count in listed]
        attrs["coerced"] = json.dumps(told, ensure_ascii=False)
    return attrs


def _warn(reading: Reading, matched: Matched, kept: Kept, options: Options, dropped: list[str]) -> None:
    n_dropped = kept.n_present - len(kept.rows)
    if n_dropped:
        cells = counted(kept.n_cells, "cell")
        dropped = [
            f"`duplicates={options.duplicates!r}` left out {n_dropped} of {len(matched.labels)} rows: "
            f"{cells} had several labels.",
            *dropped,
        ]
    if matched.warning:
        warn(matched.warning, ProtocolWarning)
    if dropped:
        warn(f"Left out while reading. {' '.join(dropped)}", DroppedWarning)

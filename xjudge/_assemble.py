"""From columns of codes to a judge dataset: duplicates, scatter into a cube or a sparse list, attrs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import xarray as xr

from xjudge._covariates import covariates
from xjudge._duplicates import Kept, keep_rows, repeat_problem
from xjudge._ids import Ids
from xjudge._ingest import Problems, counted, shown, text_array
from xjudge._labels import Declared, declare
from xjudge._reading import Matched, Options, Reading, match
from xjudge._roles import resolve_identity, resolve_roles
from xjudge._sparse import code_attrs, ranks, sealed
from xjudge._unknown import Strange
from xjudge.codes import MISSING, OUTCOMES
from xjudge.errors import DroppedWarning, ProtocolWarning, listing, warn
from xjudge.scale import Scale

__all__ = [
    "Decided",
    "Tally",
    "answer_list",
    "answers",
    "attributes",
    "build",
    "category_values",
    "coordinates",
    "cube",
    "decide",
    "described",
    "id_coords",
    "is_dense",
    "keep",
    "outcome_counts",
    "rule_within",
    "stacked_prob",
    "warn_of",
]

_LARGEST_DENSE: Final = 1 << 32
_DENSE_ANYWAY: Final = 1 << 24


@dataclass(frozen=True)
class Decided:
    """What the raters, the scale and the categories of a table turned out to be.

    Parameters
    ----------
    roles, identity : ndarray of text
        Per rater.
    declared : Declared
    matched : Matched
    prob : list
        The categories of the columns of probabilities, in the order of the scale.
    """

    roles: npt.NDArray[Any]
    identity: npt.NDArray[Any]
    declared: Declared
    matched: Matched
    prob: list[Any] | None

    @property
    def scale(self) -> Scale:
        """The scale of the labels."""
        return self.matched.vocabulary.scale

    def bare(self) -> Decided:
        """Return the same without what is along rows, to be sent elsewhere."""
        none = np.array([], dtype=self.matched.labels.dtype)
        return replace(self, matched=replace(self.matched, labels=none, scores=None, coerced=Strange()))


@dataclass(frozen=True)
class Tally:
    """Where every row went.

    Parameters
    ----------
    read, present : int
        Rows, and those of them that are not missing.
    counts : mapping of outcome to int
        Rows that were kept, by outcome; ``"answered"`` among them.
    kept : int
    cells : int
        Cells with several answers.
    """

    read: int
    present: int
    counts: Mapping[str, int]
    kept: int
    cells: int = 0

    @property
    def attrs(self) -> dict[str, int]:
        """The account of the rows, which adds up."""
        return {
            "rows_read": self.read,
            "rows_answered": self.counts["answered"],
            "rows_ca": self.counts["ca"],
            "rows_invalid": self.counts["invalid"],
            "rows_missing": self.read - self.present + self.counts["missing"],
            "rows_duplicate_dropped": self.present - self.kept,
        }


def build(reading: Reading, options: Options, problems: Problems) -> xr.Dataset:
    """Judge dataset from what was read; every problem found so far and here is raised together."""
    decided = decide(reading, options, problems)
    matched = decided.matched
    prob = stacked_prob(reading, decided)
    kept = keep(reading, matched, prob, options.duplicates)
    problem = repeat_problem(
        kept.repeated,
        kept.tied,
        rule=rule_within(reading, options.duplicates),
        continuous=matched.scores is not None,
        describe=lambda rows, n: described(reading, rows, n),
    )
    if problem:
        problems.add(problem)
    problems.raise_if_any()

    ids = dict(reading.ids)
    if kept.replicate is not None:
        count = int(kept.replicate.max(initial=0)) + 1
        ids["replicate"] = Ids("replicate", kept.replicate, np.arange(count), "number")
    dense = is_dense(ids, len(kept.rows), options.layout, problems)
    coords, dropped = coordinates(reading, ids, decided)
    data = answers(reading, matched, kept, prob)
    variables, codes = (cube if dense else answer_list)(data, kept, ids, decided.scale)
    ds = sealed(xr.Dataset(variables, coords=coords | codes))
    final = matched.labels[kept.rows]
    tally = Tally(
        len(matched.labels), kept.n_present, outcome_counts(final), len(kept.rows), kept.repeated.n_cells
    )
    ds.attrs = attributes(reading, options, decided, tally)
    warn_of(matched, tally, options, dropped)
    return ds


def decide(reading: Reading, options: Options, problems: Problems) -> Decided:
    """Roles, identities and labels; raises every problem where one of them could not be read."""
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
    prob = _ordered(reading.prob, matched.vocabulary.scale, problems)
    return Decided(roles, identity, declared, matched, prob)


def coordinates(
    reading: Reading, ids: Mapping[str, Ids], decided: Decided
) -> tuple[dict[str, Any], list[str]]:
    """Ids, roles, covariates and categories, and sentences about the columns that have no place."""
    further = [name for name in reading.frame.columns if name not in reading.used]
    along = {dim: one for dim, one in reading.ids.items() if dim != reading.spread}
    placed, dropped = covariates(reading.frame, further, along)
    coords = id_coords(ids) | {"role": ("rater", decided.roles), "identity": ("rater", decided.identity)}
    coords |= placed
    if decided.prob is not None:
        coords["category"] = ("category", category_values(decided.scale))
    return coords, dropped


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


def keep(reading: Reading, matched: Matched, prob: npt.NDArray[np.float64] | None, duplicates: str) -> Kept:
    """Which rows count, of those that are not missing."""
    stated = matched.labels != MISSING
    if prob is not None:  # probabilities without a label say something too
        stated |= ~np.isnan(prob).all(axis=1)
    present = np.flatnonzero(stated)
    cells = np.zeros(len(present), dtype=np.int64)
    for dim, ids in reading.ids.items():
        cells *= len(ids)
        cells += reading.codes(dim) if stated.all() else reading.codes(dim)[present]
    return keep_rows(
        present,
        cells,
        matched.labels[present],
        n_cells=math.prod(len(ids) for ids in reading.ids.values()),
        rule=rule_within(reading, duplicates),
        continuous=matched.scores is not None,
    )


def rule_within(reading: Reading, duplicates: str) -> str:
    """The rule for several answers of one cell; where a column says the replicate, there are none."""
    return "raise" if "replicate" in reading.ids and duplicates == "replicate" else duplicates


def described(reading: Reading, rows: Sequence[int], n: int) -> str:
    """Sentence part about the answers of one cell, of which some are at hand."""
    written = [shown(reading.written(row)) for row in rows]
    return f"{reading.place(rows[0])}: {listing([*written, *[''] * (n - len(rows))], most=4, show='str')}"


def is_dense(ids: Mapping[str, Ids], n_answers: int, layout: str, problems: Problems) -> bool:
    """Whether a cube is built, and not a list of answers."""
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


def answers(
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


def stacked_prob(reading: Reading, decided: Decided) -> npt.NDArray[np.float64] | None:
    """Probabilities along the categories of the scale: rows x categories."""
    if reading.prob is None or decided.prob is None:
        return None
    return np.stack([reading.prob[category] for category in decided.prob], axis=1)


def _ordered(
    prob: dict[Any, npt.NDArray[np.float64]] | None, scale: Scale, problems: Problems
) -> list[Any] | None:
    """The columns of probabilities in the order of the scale."""
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
    return sorted(prob, key=lambda category: codes[category] or 0)


def cube(
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


def answer_list(
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
        most = int(ranks(*codes[:2])[0].max(initial=-1)) + 1 if dim == "item" else None
        coords[f"{dim}_code"] = ("answer", code.astype(dtype, copy=False), code_attrs(dim, len(one), most))
    return variables, coords


def _variable_attrs(name: str, scale: Scale) -> dict[str, Any]:
    return scale.to_attrs() if name == "label" else {}


# ------------------------------------------------------------------------------------------ what is reported


def outcome_counts(labels: npt.NDArray[Any], weights: npt.NDArray[np.int64] | None = None) -> dict[str, int]:
    """How many labels are answered, and how many have each outcome."""
    each = np.ones(len(labels), dtype=np.int64) if weights is None else weights
    counts = {name: int(each[labels == code].sum()) for name, code in OUTCOMES.items()}
    return {"answered": int(each[labels >= 0].sum()), **counts}


def attributes(reading: Reading, options: Options, decided: Decided, tally: Tally) -> dict[str, Any]:
    """Flat attributes: what was read, and where every row went."""
    declared, coerced = decided.declared, decided.matched.coerced
    attrs: dict[str, Any] = {
        "source": reading.source,
        "columns": json.dumps(reading.columns, ensure_ascii=False, default=str),
        "codes": declared.to_json(),
        "normalise": ",".join(declared.steps),
        "duplicates": options.duplicates,
        **tally.attrs,
    }
    if declared.coerce:
        attrs["rows_coerced"] = coerced.total
        listed = zip(coerced.values[:20], coerced.counts, strict=False)
        told = [[shown(value), count] for value, count in listed]
        attrs["coerced"] = json.dumps(told, ensure_ascii=False)
    return attrs


def warn_of(matched: Matched, tally: Tally, options: Options, dropped: list[str]) -> None:
    """Warn of a scale that was inferred, and of what was left out."""
    n_dropped = tally.present - tally.kept
    if n_dropped:
        dropped = [
            f"`duplicates={options.duplicates!r}` left out {n_dropped} of {tally.read} rows: "
            f"{counted(tally.cells, 'cell')} had several labels.",
            *dropped,
        ]
    if matched.warning:
        warn(matched.warning, ProtocolWarning)
    if dropped:
        warn(f"Left out while reading. {' '.join(dropped)}", DroppedWarning)

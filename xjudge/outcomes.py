"""Outcomes handled in one place: masks, populations, rates, joint coverage, validation of values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import xarray as xr

from xjudge._arguments import check_arguments
from xjudge._sampling_weights import unequal, warn_unequal
from xjudge._sparse import Answers
from xjudge.codes import LARGEST_SCORE, MISSING, OUTCOMES, raw_index
from xjudge.errors import DroppedWarning, ProtocolError, StructureError, VocabularyError, listing, warn
from xjudge.lazy import one_chunk_beside_items, reduce_items, reshape_beside_items
from xjudge.protocol import Protocol, Resolved
from xjudge.schema import check_dataset
from xjudge.statistics.counts import Axes, Request, margins, outside, pairs
from xjudge.view import View, as_dataset, checked_dataset

__all__ = ["Cases", "check_numbers", "check_values", "mask", "rates", "validate"]

Outcome = Literal["answered", "ca", "invalid", "missing"]


def mask(data: xr.Dataset | xr.DataArray, outcome: Outcome) -> xr.DataArray:
    """Where labels have an outcome.

    Parameters
    ----------
    data : Dataset or DataArray
        A judge dataset.
    outcome : {"answered", "ca", "invalid", "missing"}

    Returns
    -------
    DataArray of bool
        With the dims of ``label``; lazy where the labels are. The four masks partition the labels.

    Raises
    ------
    ProtocolError
        For another word.

    Examples
    --------
    >>> import xjudge as xj
    >>> ds = xj.load_example()
    >>> int(xj.mask(ds, "ca").sum()) > 0
    True
    """
    label = checked_dataset(data)["label"]
    names = ("answered", *OUTCOMES)
    if outcome not in names:
        raise ProtocolError(f"`mask` takes one of {listing(names, most=4)}; got {outcome!r}.")
    if outcome == "answered":
        found = label >= 0
    elif outcome == "missing":
        found = (label == MISSING) | label.isnull() if label.dtype.kind == "f" else label == MISSING
    else:
        found = label == OUTCOMES[outcome]
    found.attrs = {"long_name": f"label is {outcome}"}
    return found.rename(outcome)


class Cases:
    """The leading axes of a pass: populations of the protocols, and slices by a coordinate.

    Parameters
    ----------
    view : View
    protocols : sequence of Protocol
    by : str, optional
        An item coordinate to slice on.

    Attributes
    ----------
    counts_alike : bool
        Whether the result is an estimate that counts every item once, whatever the item stands for.
    """

    def __init__(self, view: View, protocols: Sequence[Protocol], by: str | None = None) -> None:
        distinct = list(dict.fromkeys(protocol.population for protocol in protocols))
        self.by = by
        self.slices: npt.NDArray[Any] | None = None
        self.n_without_slice = 0
        self.counts_alike, self._warned = True, False
        self.arrays: dict[str, Any] = {}
        self._slot = {population: slot for slot, population in enumerate(distinct)}
        self._only_everything = distinct in ([None], [])
        n_groups = 0
        if not self._only_everything:
            self.arrays["population"] = _populations(view, distinct)
        if by is not None:
            codes, values, self.n_without_slice = view.groups(by)
            self.arrays["group"], self.slices, n_groups = codes, values, len(values)
        self.axes = Axes(0 if self._only_everything else len(distinct), n_groups)
        self._unequal = unequal(view, self.arrays.get("group"))

    def __getstate__(self) -> dict[str, Any]:
        """What finishing a lazy result needs elsewhere: slots, not masks."""
        return {**self.__dict__, "arrays": {}}

    def of(self, protocol: Protocol, counted: Any) -> Any:
        """The counts of a protocol's population."""
        # the ellipsis keeps an array of objects an array, where no other axis is left
        return counted if self._only_everything else counted[self._slot[protocol.population], ...]

    def warn(self) -> None:
        """Warn, once, of items in no slice, and of items that are counted alike and should not be."""
        if self._warned:
            return
        self._warned = True
        if self.counts_alike:
            warn_unequal(self._unequal)
        if self.n_without_slice:
            warn(
                f"{self.n_without_slice} items have no value of {self.by!r} and are in no slice.",
                DroppedWarning,
            )


def _populations(view: View, populations: Sequence[Any]) -> Any:
    """Which cases each population keeps: boolean (item, P), or (item, P, cell)."""
    masks = [_population(view, population) for population in populations]
    if all(m.ndim == 1 for m in masks):
        return np.stack(masks, axis=1)
    n_cells = int(view.codes.shape[2])
    wide = [np.broadcast_to(m if m.ndim == 2 else m[:, None], (view.n_items, n_cells)) for m in masks]
    return np.stack(wide, axis=1)


def _population(view: View, population: Any) -> Any:
    if population is None:
        return np.ones(view.n_items, dtype=bool)
    if isinstance(population, str):
        return _named_population(view, population)
    keep = np.ones(view.n_items, dtype=bool)
    for name, values in population:
        found = view.item_values(name, "population")
        keep &= np.isin(found.astype(object), np.array(values, dtype=object))
    if not keep.any():
        raise ProtocolError(f"`population={dict(population)!r}` keeps no item.")
    return keep


def _named_population(view: View, name: str) -> Any:
    if name not in view.data.variables:
        raise StructureError(f"`population`: the dataset has no variable {name!r}.")
    variable = view.data[name]
    if variable.dtype.kind != "b" or not set(variable.dims) <= {"item", *view.rest}:
        raise StructureError(
            f"`population`: {name!r} is {variable.dtype} on {variable.dims}; it should be boolean on item "
            "(and criterion)."
        )
    if variable.dims == ("item",):
        return variable.data
    wide = variable.broadcast_like(view.data["label"].isel(rater=0, drop=True))
    return reshape_beside_items(
        one_chunk_beside_items(wide.transpose("item", *view.rest).data), view.codes.shape[2:]
    )


def check_values(view: View, rows: npt.NDArray[np.int64]) -> None:
    """Raise for codes outside the scale, naming rater, criterion, code and count.

    Parameters
    ----------
    view : View
    rows : ndarray of int, shape (found, 4)
        Rater, cell, code, count, as :data:`xjudge.statistics.counts.OUTSIDE` gives them.
    """
    if not len(rows):
        return
    parts = []
    for rater, cell, code, count in rows[:3].tolist():
        place = _place(view, rater, cell)
        shown = "a number that is not integral" if code == np.iinfo(np.int32).min else f"code {code}"
        parts.append(f"{shown} ({place}: {count} labels)")
    more = f" and {len(rows) - 3} more" if len(rows) > 3 else ""
    raise VocabularyError(
        f"`label` holds codes that are neither a category of {view.scale!r} (0 to "
        f"{view.scale.n_categories - 1}) nor missing (-1), CA (-2) or invalid (-3): {'; '.join(parts)}{more}."
    )


def check_numbers(view: View, rows: npt.NDArray[np.int64]) -> None:
    """Raise where an answer on a continuous scale has no finite number, naming rater, criterion and count.

    Parameters
    ----------
    view : View
    rows : ndarray of int, shape (found, 3)
        Rater, cell, count, as :data:`xjudge.statistics.score_counts.NOT_FINITE` gives them.
    """
    if not len(rows):
        return
    parts = [f"{_place(view, rater, cell)}: {count} answers" for rater, cell, count in rows[:3].tolist()]
    more = f" and {len(rows) - 3} more" if len(rows) > 3 else ""
    raise VocabularyError(
        f"`score` has no finite number, or one beyond {LARGEST_SCORE:g} in size, where `label` says that "
        f"there is an answer ({'; '.join(parts)}{more}); set `label` to missing (-1), CA (-2) or invalid "
        "(-3) there, or rescale the scores."
    )


def _place(view: View, rater: int, cell: int) -> str:
    """Rater and criterion in words."""
    place = f"rater {view.raters[rater]!s}"
    if view.rest:
        position = np.unravel_index(cell, tuple(view.rest.values()))
        place += "".join(
            f", {dim} {view.names(dim)[index]!s}" for dim, index in zip(view.rest, position, strict=True)
        )
    return place


def validate(data: xr.Dataset | xr.DataArray) -> xr.Dataset:
    """Check structure and values; every problem in one error.

    Structure is checked by schema and computes nothing; values are checked by one counting pass.

    Parameters
    ----------
    data : Dataset or DataArray
        A judge dataset.

    Returns
    -------
    Dataset
        The dataset itself, so that the call can be chained.

    Raises
    ------
    StructureError
        What is wrong with dims, dtypes, coordinates or attributes.
    VocabularyError
        Labels outside the scale.

    Examples
    --------
    >>> import xjudge as xj
    >>> ds = xj.load_example()
    >>> xj.validate(ds) is ds
    True
    """
    ds = as_dataset(data)
    sparse = "label" in ds.variables and "answer" in ds["label"].dims
    check_dataset(checked_dataset(ds) if sparse else ds)
    if sparse:
        from xjudge.statistics.answers import unknown  # a room for crowds alone

        answers = Answers.of(ds)
        view = View.of_crowd(answers)
        request, arrays = unknown(view.scale.n_categories), answers.listed()
    else:
        view = View.of(ds)
        request, arrays = outside(view.scale.n_categories), {"codes": view.codes}

    def finish(counted: list[Any]) -> dict[str, Any]:
        check_values(view, counted[0])
        return {}

    reduce_items([request], arrays, finish)
    return ds


def rates(
    data: xr.Dataset | xr.DataArray,
    *,
    protocol: Protocol | None = None,
    by: str | None = None,
    judges: Any = None,
    humans: Any = None,
    compute: bool = True,
) -> xr.Dataset:
    """How often each rater answered, declined or failed, and what each pair covers together.

    Parameters
    ----------
    data : Dataset or DataArray
        A judge dataset.
    protocol : Protocol, optional
        Its scale map says which labels are positive, its population which cases count; with an
        ``aggregate`` the counts are pooled over criteria.
    by : str, optional
        An item coordinate to slice on.
    judges, humans : list of names or boolean array, optional
        Restrict the raters.
    compute : bool
        On lazy labels, whether to compute now.

    Returns
    -------
    Dataset
        Per rater [, criterion], as shares: ``answered``, ``ca``, ``invalid`` of the labels asked for (all
        but missing); ``missing`` of all cases; ``tie`` (pairwise scales) and ``positive`` (where the
        protocol's scale is binary) of the answered labels. ``n_asked`` and ``n_answered`` are the
        denominators. Per pair (``rater_a``, ``rater_b``): ``n_overlap`` cases both were asked, ``n_joint``
        both answered, ``joint_coverage`` their ratio; not on the sparse layout, where few pairs meet (see
        :func:`xjudge.pair_agreement`). ``component(rater)`` numbers the connected parts of
        the overlap graph: raters of different parts share no case and cannot be compared, even indirectly.

    Notes
    -----
    One pass (sums). Shares without a denominator are NaN.

    Examples
    --------
    >>> import xjudge as xj
    >>> r = xj.rates(xj.load_example())
    >>> sorted(r.data_vars)[:4]
    ['answered', 'ca', 'component', 'invalid']
    """
    check_arguments(rates, locals())
    ds = checked_dataset(data)
    answers = Answers.of(ds) if "answer" in ds["label"].dims else None
    if answers is None:
        view = View.of(ds, humans=humans, judges=judges)
    else:
        view = View.of_crowd(answers, humans=humans, judges=judges)
    chosen = Protocol() if protocol is None else protocol
    resolved = chosen.resolve(view.scale)
    cases = Cases(view, [chosen], by)
    members = np.sort(np.concatenate([view.humans, view.judges]))
    pooled = chosen.aggregate in ("micro", "item", "macro")
    if answers is None:
        arrays = _rates_of_cube(view, resolved, cases, members, pooled=pooled, compute=compute)
    else:
        arrays = _rates_of_crowd(answers, view, resolved, cases, members, pooled=pooled, compute=compute)
    cases.warn()
    group = [] if by is None else [by]
    rest = [] if pooled else list(view.rest)
    dims = {name: [*group, "rater", *rest] for name in arrays}
    dims |= {name: [*group, "rater_a", "rater_b", *rest] for name in _OF_PAIRS}
    dims["component"] = [*group, "rater"]
    coords: dict[str, Any] = {
        name: variable.isel(rater=members) if "rater" in variable.dims else variable
        for name, variable in view.coordinates("rater", *rest).items()
    }
    coords["rater"] = ("rater", view.named(members))
    if answers is None:
        coords |= {name: (name, view.named(members)) for name in ("rater_a", "rater_b")}
    if by is not None:
        coords[by] = (by, cases.slices)
    return xr.Dataset(
        {name: (dims[name], array) for name, array in arrays.items()},
        coords=coords,
        attrs=_attrs(view, chosen, by),
    )


def _rates_of_cube(
    view: View,
    resolved: Resolved,
    cases: Cases,
    members: npt.NDArray[np.intp],
    *,
    pooled: bool,
    compute: bool,
) -> dict[str, Any]:
    n = view.scale.n_categories
    # answered 0, asked without an answer 1, missing 2
    coarse = [0] * n + [2, 1, 1]
    requests: list[Request] = [
        outside(n),
        margins(n, columns=members.tolist()),
        pairs(n, left_columns=members.tolist(), left_targets=coarse, right=None),
    ]

    def finish(counted: list[Any]) -> dict[str, Any]:
        check_values(view, counted[0])
        single, joint = (cases.of(resolved.protocol, counts) for counts in counted[1:])
        return _rates(view, resolved, single, pooled=pooled) | _meetings(view, joint, pooled=pooled)

    return reduce_items(
        requests, {"codes": view.codes, **cases.arrays}, finish, axes=cases.axes, compute=compute
    )


def _rates_of_crowd(
    answers: Answers,
    view: View,
    resolved: Resolved,
    cases: Cases,
    members: npt.NDArray[np.intp],
    *,
    pooled: bool,
    compute: bool,
) -> dict[str, Any]:
    from xjudge._crowd_rates import CrowdCounts  # a room for crowds alone

    population = cases.arrays.get("population")
    counts = CrowdCounts(
        answers,
        members,
        view.scale.n_categories,
        None if population is None else population[:, 0],
        cases.arrays.get("group"),
        cases.axes.n_groups,
    )

    def finish(counted: list[Any]) -> dict[str, Any]:
        check_values(view, counted[0])
        single, component = counts.of(counted)
        return _rates(view, resolved, single, pooled=pooled) | {"component": component}

    return reduce_items(counts.requests, counts.arrays, finish, compute=compute)


def _attrs(view: View, protocol: Protocol, by: str | None) -> dict[str, str]:
    """Enough to recompute the rates; a crowd is not named, unless it was restricted."""
    stated = view.given if view.sparse else {name: view.named(getattr(view, name)) for name in _ROLES}
    names = {name: json.dumps(stated[name].tolist(), ensure_ascii=False) for name in _ROLES if name in stated}
    by_attr = {} if by is None else {"by": by}
    return {
        "verb": "rates",
        "scale": view.scale.to_json(),
        "protocol": protocol.to_json(),
        **names,
        **by_attr,
    }


_ROLES = ("humans", "judges")
_OF_PAIRS = ("n_overlap", "n_joint", "joint_coverage")


def _rates(
    view: View,
    resolved: Resolved,
    single: npt.NDArray[np.int64],
    *,
    pooled: bool,
) -> dict[str, Any]:
    """Shares from counts ``single(..., cell, rater, place)``."""
    n = view.scale.n_categories
    if pooled:
        single = single.sum(-3)
    else:  # cells go last, and apart
        single = view.cells_apart(np.moveaxis(single, -3, -1), -1)
        single = np.moveaxis(single, -1 - len(view.rest), -1)
    total = single.sum(-1)
    missing = single[..., raw_index("missing", n)]
    answered = single[..., :n].sum(-1)
    asked = total - missing
    out = {
        "answered": _share(answered, asked),
        "ca": _share(single[..., raw_index("ca", n)], asked),
        "invalid": _share(single[..., raw_index("invalid", n)], asked),
        "missing": _share(missing, total),
        "n_asked": asked,
        "n_answered": answered,
    }
    if view.scale.tie is not None:
        out["tie"] = _share(single[..., view.scale.index(view.scale.tie)], answered)
    if resolved.mapped.kind == "binary":
        positive = [place for place in range(n) if resolved.targets[place] == 1]
        counted = [place for place in range(n) if resolved.targets[place] >= 0]
        out["positive"] = _share(single[..., positive].sum(-1), single[..., counted].sum(-1))
    return out


def _meetings(view: View, joint: npt.NDArray[np.int64], *, pooled: bool) -> dict[str, Any]:
    """What pairs cover together, from counts ``joint(..., cell, a, b, coarse place, coarse place)``."""
    overlap = joint[..., :2, :2].sum((-2, -1))
    both = joint[..., 0, 0]
    component = _components(overlap.sum(-3))
    if pooled:
        overlap, both = overlap.sum(-3), both.sum(-3)
    else:
        overlap, both = (view.cells_apart(np.moveaxis(x, -3, -1), -1) for x in (overlap, both))
    return {
        "n_overlap": overlap,
        "n_joint": both,
        "joint_coverage": _share(both, overlap),
        "component": component,
    }


def _share(part: npt.NDArray[np.int64], whole: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    return np.divide(part, whole, out=np.full(np.shape(whole), np.nan), where=whole > 0)


def _components(overlap: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Number of the connected part of the overlap graph that each rater belongs to, by first member."""
    met = overlap > 0
    n = met.shape[-1]
    reach = met | np.eye(n, dtype=bool)
    for _ in range(max(1, int(n).bit_length())):  # paths double in length each time
        reach = reach.astype(np.float32) @ reach.astype(np.float32) > 0
    first = reach.argmax(-1)
    flat = first.reshape(-1, n)
    numbered = np.stack([np.unique(row, return_inverse=True)[1] for row in flat]) if n else flat
    return numbered.reshape(first.shape).astype(np.int64)

"""Which items each further human is asked to label, as an empty sheet that joins back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from xjudge._arguments import check_arguments
from xjudge.codes import MISSING
from xjudge.errors import DroppedWarning, ProtocolError, StructureError, listing, warn
from xjudge.labelled._common import flat_attrs, version
from xjudge.labelled._loo_pass import Codes, Opened
from xjudge.protocol import Protocol
from xjudge.statistics import loo

__all__ = ["allocate"]

_DESIGNS = ("shared", "random", "strat", "strat_judge", "neyman")


def allocate(
    data: xr.Dataset | xr.DataArray,
    n: int,
    *,
    design: str = "shared",
    judge: Any = None,
    pilot: xr.Dataset | xr.DataArray | None = None,
    target: loo.Target = "population",
    protocol: Protocol | None = None,
    humans: Any = None,
    seed: int = 0,
) -> xr.Dataset:
    """Assign items to the further humans, as an empty sheet that joins back.

    Parameters
    ----------
    data : Dataset or DataArray
        A judge dataset; the first human (in the order of the data) labels every item.
    n : int
        Items for each further human, as :func:`xjudge.plan_overlap` recommends.
    design : {"shared", "random", "strat", "strat_judge", "neyman"}
        One random subset for all; independent subsets; the subset in proportion from strata of the first
        human's label, or of that and of the judge agreeing; from the latter in proportion to size times
        standard deviation of the margins, at least two items a stratum.
    judge : name, optional
        For ``"strat_judge"`` and ``"neyman"``.
    pilot : Dataset or DataArray, optional
        Labels from which ``"neyman"`` takes the deviations: items that the judge and two or more humans
        labelled, in strata of the first of these humans; by default those of ``data``. A stratum with fewer
        than two of them has the deviation of all.
    target : {"population", "matrix"}
        With ``"matrix"`` the ``n`` planned for statements about future items is brought down to the smaller
        number that is as good for the items at hand, ``1 / (1 / n + 1 / n_items)``.
    protocol : Protocol, optional
        How labels are read; per item, so with criteria ``aggregate="item"``.
    humans : list of names or boolean array, optional
        Who is asked.
    seed : int

    Returns
    -------
    Dataset
        ``label(item, rater)`` of the humans, all missing: the sheet to fill, with coordinates
        ``assigned(item, rater)`` and, with strata, ``stratum(item)`` and ``sampling_weight(item)`` (items
        that a drawn one stands for, 0 where not drawn). ``ds.judge.join(sheet)`` puts the coordinates onto
        the data, where :func:`xjudge.loo_validate` honours the weights.

    Raises
    ------
    ProtocolError
        Sizes that are impossible; a design that needs a judge, or a pilot that says nothing.
    StructureError
        More than one label per item.

    Warns
    -----
    DroppedWarning
        Strata that get no item.

    Notes
    -----
    LOO.md section 8. Labels of the first human and the judge are held in memory. Labels that further humans
    have given already do not count towards ``n``.

    Examples
    --------
    >>> import xjudge as xj
    >>> ds = xj.load_example().isel(criterion=0, drop=True)
    >>> sheet = xj.allocate(ds, 40, design="strat")
    >>> sheet["assigned"].sum("item").values.tolist()
    [200, 40, 40]
    >>> ds.judge.join(sheet)["sampling_weight"].dims
    ('item',)
    """
    check_arguments(allocate, locals())
    if design not in _DESIGNS:
        raise ProtocolError(f"`design` is one of {listing(_DESIGNS, most=5)}; got {design!r}.")
    if design in ("strat_judge", "neyman") and judge is None:
        raise ProtocolError(f"design={design!r} stratifies by the judge agreeing; name it with `judge=`.")
    if pilot is not None and design != "neyman":
        raise ProtocolError(f"A pilot gives deviations to design='neyman'; design={design!r} takes none.")
    if target not in ("population", "matrix"):
        raise ProtocolError(f"`target` must be 'population' or 'matrix'; got {target!r}.")
    stratified = design not in ("shared", "random")
    judges = None if judge is None else [judge]
    opened = Opened(data, "allocate", protocol, judges=judges, humans=humans, categories=stratified)
    labels, verdicts = _one_label(opened)
    n_items, n_humans = labels.shape
    size = _drawn(n, n_items, target)
    keys = _keys(labels, None if design == "strat" else verdicts)
    deviations = None
    if design == "neyman":
        other = opened if pilot is None else Opened(pilot, "allocate", protocol, judges=[judge], humans=None)
        deviations = _deviations(np.unique(keys), *_one_label(other))
    strata = keys if stratified else None
    found = loo.allocate(
        n_items, n_humans, size, design=design, strata=strata, deviations=deviations, seed=seed
    )
    empty = found.drawn == 0
    if stratified and empty.any():
        warn(
            f"{int(empty.sum())} of {len(empty)} strata ({int(found.sizes[empty].sum())} items) get none of "
            f"the {size} items, and nothing will stand for them: take a larger `n`, or design='shared'.",
            DroppedWarning,
        )
    attrs = {"verb": "allocate", "scale": opened.view.scale, "protocol": opened.protocol, "design": design}
    attrs |= {"n": int(n), "n_drawn": size, "target": target, "seed": seed}
    attrs |= {"humans": opened.view.named(np.array(opened.sides.left, dtype=np.intp))}
    attrs |= {} if judge is None else {"judge": judge}
    if design == "neyman":
        attrs["deviations"] = "of the data" if pilot is None else "of a pilot"
    return _sheet(opened, found, stratified).assign_attrs(flat_attrs(attrs | {"xjudge_version": version()}))


def _drawn(n: Any, n_items: int, target: str) -> int:
    """Items to draw."""
    whole = isinstance(n, int | np.integer | float | np.floating) and not isinstance(n, bool)
    if not whole or not math.isfinite(n) or int(n) != n or n < 1:
        raise ProtocolError(f"`n` is a whole number of items per further human; got {n!r}.")
    if target == "matrix" and n_items:
        return math.ceil(loo.finite_population_size(int(n), n_items) - 1e-9)
    if n > n_items:
        raise ProtocolError(
            f"There are {n_items} items, and each further human is to label n={int(n)} of them. Label all, "
            "or plan for these items alone with target='matrix'."
        )
    return int(n)


def _one_label(opened: Opened) -> tuple[Codes, Codes]:
    """Labels (item, human) and verdicts (item,), of the first judge."""
    a, b = opened.codes()
    if a.shape[0] != 1 or a.shape[2] != 1:
        raise StructureError(
            "`allocate` assigns items, and these labels have criteria or further dims: combine criteria with "
            "aggregate='item', or select one with `.isel`."
        )
    return a[0, :, 0], b[0, :, 0, 0]


def _keys(labels: Codes, verdicts: Codes | None) -> npt.NDArray[np.int64]:
    """Strata by number: two to each label of the first human where there are verdicts, one for no label."""
    first = np.where(labels[:, 0] < 0, -1, labels[:, 0]).astype(np.int64)
    return first if verdicts is None else np.where(first < 0, -1, 2 * first + (first == verdicts))


def _deviations(keys: npt.NDArray[np.int64], labels: Codes, verdicts: Codes) -> npt.NDArray[np.float64]:
    """Standard deviation of the margins within each of some strata."""
    met = (verdicts >= 0) & ((labels >= 0).sum(axis=1) >= 2)
    if met.sum() < 2:
        raise ProtocolError(
            "design='neyman' takes deviations from items that the judge and two or more humans labelled, and "
            f"there are {int(met.sum())}: give a pilot (`pilot=`), or use design='strat_judge'."
        )
    labels, verdicts = labels[met], verdicts[met]
    own = _keys(labels, verdicts)
    whole = loo.loo_counts(labels, verdicts)
    parts = [loo.loo_counts(labels[own == key], verdicts[own == key]) for key in keys]
    found, _, total = loo.stratum_deviations([*parts, whole])
    del total  # of every item twice
    known = np.array([np.count_nonzero(own == key) for key in keys]) >= 2
    return np.where(known, found[:-1], found[-1])


def _sheet(opened: Opened, found: loo.Allocation, stratified: bool) -> xr.Dataset:
    """The labels to be given, all missing."""
    view, positions = opened.view, np.array(opened.sides.left, dtype=np.intp)
    label = view.data["label"]
    dims = ["item", "rater", *view.rest]
    shape = (view.n_items, len(positions), *view.rest.values())
    coords: dict[str, Any] = dict(view.coordinates(*view.rest))
    for name, variable in view.coordinates("rater").items():
        coords[name] = variable.isel(rater=positions) if variable.dims else variable
    coords |= {"item": view.names("item"), "rater": view.named(positions)}
    coords["assigned"] = (("item", "rater"), found.assigned)
    if stratified:
        coords |= {"stratum": ("item", found.stratum), "sampling_weight": ("item", found.weight)}
    dtype = label.dtype if label.dtype.kind == "i" else np.dtype(np.int8)
    return xr.Dataset({"label": (dims, np.full(shape, MISSING, dtype), dict(label.attrs))}, coords=coords)

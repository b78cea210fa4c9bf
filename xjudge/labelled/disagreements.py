"""The items behind the number: where a judge and the reference differ, as a frame to look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from xjudge._arguments import check_arguments
from xjudge.codes import raw_names, to_codes, translate
from xjudge.errors import ProtocolError, StructureError, listing
from xjudge.labelled._common import agreement_weights
from xjudge.labelled._pass import Pass, Plan
from xjudge.labelled._sides import Sides, told_apart
from xjudge.lazy import materialise
from xjudge.protocol import Protocol
from xjudge.statistics.weights import cost_matrix
from xjudge.view import View

__all__ = ["disagreements"]


def disagreements(
    data: xr.Dataset | xr.DataArray,
    judge: Any,
    *,
    reference: str = "majority",
    protocol: Protocol | None = None,
    costs: Any = None,
    cell: Sequence[Any] | None = None,
    include_agreements: bool = False,
    n: int | None = None,
    seed: int = 0,
    humans: Any = None,
) -> pd.DataFrame:
    """List the cases where a judge and the reference differ, the costliest first.

    Parameters
    ----------
    data : Dataset or DataArray
        A judge dataset.
    judge : name
        The rater to look at.
    reference : {"majority", "each"} or name
        The humans' vote, every human (a row each), or one rater.
    protocol : Protocol, optional
        Its scale map, handling and population are applied; ``aggregate="item"`` compares item verdicts,
        otherwise cases are listed per criterion.
    costs : str or matrix, optional
        Disagreement costs over the protocol's categories: the ``severity``. By default the distance on
        ordered scales, and 1 on others.
    cell : pair, optional
        Only this cell of the table: (reference label, judge label) as :func:`xjudge.tables` names them,
        outcomes (``"ca"``, ``"invalid"``, ``"missing"``, of a majority ``"no vote"``, ``"tied"``)
        included; ``None`` in a place means any.
    include_agreements : bool
        List agreeing cases too (severity 0).
    n : int, optional
        A review set of this size, drawn evenly over the cells of the table that remain; all of them where
        there are fewer.
    seed : int
        Of that draw, and of labels that a protocol samples.
    humans : list of names or boolean array, optional
        Restrict the humans.

    Returns
    -------
    DataFrame
        ``item`` [, ``criterion``, further dims], ``human`` (the reference), ``rater``,
        ``reference_label``, ``rater_label``, ``severity`` and the item coordinates; by falling severity,
        then in the order of the items.

    Raises
    ------
    StructureError
        An unknown rater or cell.
    ProtocolError
        Costs that do not fit the scale; ``reference="pooled"``.

    Notes
    -----
    Holds the votes of two raters in memory; one compute on lazy labels.

    Examples
    --------
    >>> import xjudge as xj
    >>> rows = xj.disagreements(xj.load_example(), "orion-large", cell=("UNMET", "MET"))
    >>> set(rows["rater_label"])
    {'MET'}
    """
    check_arguments(disagreements, locals())
    view = View.of(data, humans=humans, **told_apart(reference, [judge] if reference == "majority" else None))
    chosen = Protocol() if protocol is None else protocol
    if reference == "pooled":
        raise ProtocolError("`disagreements` lists cases: use reference='each' for one row per human.")
    resolved = chosen.resolve(view.scale)
    position = view.position(judge, "judge")
    sides = Sides.of(view, reference, [judge] if reference == "majority" else None)
    if reference != "majority":
        sides = Sides(tuple(p for p in sides.left if p != position), (position,), sides.kind, sides.dims)
    counting = Pass(view, [resolved], sides, None, seed)
    (plan,) = counting.plans
    severity = _severity(plan, costs)
    left, right, keep = _codes(counting, plan)
    names = _names(plan, majority=sides.kind == "majority")
    rows = _chosen(left, right, keep, names, cell, include_agreements, plan.scale.n_categories)
    if n is not None:
        rows = _balanced(rows, left, right, n, seed)
    return _frame(view, plan, sides, rows, left, right, names, severity, judge)


def _codes(counting: Pass, plan: Plan) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Codes of the tables (item, reference, cell), outcomes negative, and which cases count."""
    arrays, sides = counting.arrays, counting.sides
    columns = [sides.column_of()[0]] if sides.kind == "majority" else list(sides.left)
    population = counting.cases.arrays.get("population")
    lazily = [arrays[plan.left][:, columns], arrays[plan.right][:, list(sides.right)]]
    left, right, *mask = materialise(*lazily, *([] if population is None else [population]))
    left = translate(to_codes(np.asarray(left)), plan.left_targets)
    right = translate(to_codes(np.asarray(right)), plan.right_targets)
    keep = np.ones(left.shape, dtype=bool)
    if mask:
        within = np.asarray(mask[0])[:, 0]
        keep &= within[:, None, None] if within.ndim == 1 else within[:, None, :]
    return left, np.broadcast_to(right, left.shape), keep


def _names(plan: Plan, *, majority: bool) -> tuple[list[Any], list[Any]]:
    """What each code is called on the two sides; outcomes are indexed from the end."""
    outcomes = raw_names(plan.scale.categories)[plan.scale.n_categories :]
    right: list[Any] = [*plan.scale.categories, "excluded", *reversed(outcomes)]
    left = right if not majority else [*plan.scale.categories, "excluded", "tied", "no vote", outcomes[0]]
    return left, right


def _severity(plan: Plan, costs: Any) -> npt.NDArray[np.float64]:
    if costs is not None:
        agreement_weights(None, costs, plan.scale, plan.outcomes)
        scores = plan.scale.scores if plan.scale.kind == "interval" else None
        return cost_matrix(costs, plan.scale.n_categories, scores)
    if plan.outcomes or not plan.scale.ordered:
        return 1.0 - np.eye(plan.scale.n_categories)
    scores = plan.scale.scores
    return np.abs(scores[:, None] - scores)


def _chosen(
    left: npt.NDArray[Any],
    right: npt.NDArray[Any],
    keep: npt.NDArray[np.bool_],
    names: tuple[list[Any], list[Any]],
    cell: Sequence[Any] | None,
    include_agreements: bool,
    n_categories: int,
) -> npt.NDArray[np.intp]:
    """Rows (item, reference, cell) to list."""
    if cell is None:
        found = keep & (left >= 0) & (right >= 0)
        if not include_agreements:
            found &= left != right
        return np.argwhere(found)
    if len(cell) != 2:
        raise StructureError(f"`cell` is a pair (reference label, judge label); got {cell!r}.")
    found = keep.copy()
    for codes, known, wanted in zip((left, right), names, cell, strict=True):
        if wanted is None:
            continue
        places = [p for p, name in enumerate(known) if name == wanted and type(name) is type(wanted)]
        if not places:
            raise StructureError(
                f"`cell`: there is no label {wanted!r}; there are {listing(known, most=12)}."
            )
        code = places[0] if places[0] < n_categories else places[0] - len(known)
        found &= codes == code
    return np.argwhere(found)


def _balanced(
    rows: npt.NDArray[np.intp], left: npt.NDArray[Any], right: npt.NDArray[Any], n: int, seed: int
) -> npt.NDArray[np.intp]:
    """Draw ``n`` rows evenly over the cells of the table: from every cell in turn until it is empty."""
    if n < 1:
        raise ProtocolError(f"`n` is the size of a review set, at least 1; got {n}.")
    if len(rows) <= n:
        return rows
    where = tuple(rows.T)
    cells = np.unique(np.column_stack([left[where], right[where]]), axis=0, return_inverse=True)[1].ravel()
    order = np.random.default_rng(seed).permutation(len(rows))
    # the rank of each row within its cell, in random order: rank 0 of every cell comes first
    by_cell = order[np.argsort(cells[order], kind="stable")]
    sizes = np.bincount(cells)
    rank = np.empty(len(rows), dtype=np.intp)
    rank[by_cell] = np.concatenate([np.arange(size) for size in sizes])
    drawn = order[np.argsort(rank[order], kind="stable")][:n]
    return rows[np.sort(drawn)]


def _frame(
    view: View,
    plan: Plan,
    sides: Sides,
    rows: npt.NDArray[np.intp],
    left: npt.NDArray[Any],
    right: npt.NDArray[Any],
    names: tuple[list[Any], list[Any]],
    severity: npt.NDArray[np.float64],
    judge: Any,
) -> pd.DataFrame:
    item, reference, cell = rows.T
    where = tuple(rows.T)
    columns: dict[str, Any] = {"item": view.names("item")[item]}
    rest = {d: s for d, s in view.rest.items() if d != "criterion" or plan.n_criteria == view.n_criteria}
    if plan.aggregate == "item":
        rest.pop("criterion", None)
    for dim, index in zip(rest, np.unravel_index(cell, tuple(rest.values()) or (1,)), strict=False):
        columns[dim] = view.names(dim)[index]
    voters = (
        np.array(["majority"], dtype=object) if sides.kind == "majority" else view.named(np.array(sides.left))
    )
    columns["human"] = voters[reference]
    columns["rater"] = np.full(len(rows), judge, dtype=object)
    for side, (codes, known) in {"reference": (left, names[0]), "rater": (right, names[1])}.items():
        columns[f"{side}_label"] = [known[code] for code in codes[where].tolist()]
    a, b = left[where], right[where]
    both = (a >= 0) & (b >= 0)
    columns["severity"] = np.where(both, severity[np.maximum(a, 0), np.maximum(b, 0)], np.nan)
    for name, variable in view.coordinates("item").items():
        if name not in columns and variable.dims == ("item",):
            columns[name] = np.asarray(variable.values)[item]
    frame = pd.DataFrame(columns)
    return frame.sort_values("severity", ascending=False, kind="stable", ignore_index=True)

"""What unresolved labels could do to the reliability of any number of raters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from xjudge._arguments import check_arguments
from xjudge.columns import criterion_weights
from xjudge.errors import OverlapError, ProtocolError, Reason, listing
from xjudge.labelled._bounds_ranges import outcome_codes
from xjudge.labelled._common import flat_attrs, texts, version, warn_recoded, warn_undefined
from xjudge.labelled._evaluation import averaged
from xjudge.labelled._labels import Columns, Labels
from xjudge.labelled._rater_measures import Choices, Measure, measures
from xjudge.labelled._results import share
from xjudge.protocol import Protocol
from xjudge.statistics.bounds import RATER_STATISTICS, rater_bounds
from xjudge.statistics.rater_counts import UnitRows, unit_rows
from xjudge.view import View

__all__ = ["reliability_bounds"]

Ints = npt.NDArray[np.int64]


def reliability_bounds(
    data: xr.Dataset | xr.DataArray,
    *,
    statistic: str | Sequence[str] = "alpha",
    raters: Any = "humans",
    unresolved: str | Sequence[str] = ("ca", "invalid"),
    metric: Any = None,
    weights: Any = None,
    shares: str = "pooled",
    protocol: Protocol | None = None,
    by: str | None = None,
    judges: Any = None,
    humans: Any = None,
    seed: int = 0,
    compute: bool = True,
) -> xr.Dataset:
    """Ranges of the reliability of raters over everything the unresolved labels could have been.

    Parameters
    ----------
    data : Dataset or DataArray
        A judge dataset.
    statistic : str or list of str
        ``"alpha"``, ``"fleiss_kappa"``, ``"gwet_ac"``, ``"brennan_prediger"``, ``"percent_agreement"``.
    raters : "humans", "judges", "all" or list of names
    unresolved : {"ca", "invalid"} or both
        The outcomes that stand for a label not given; missing never does.
    metric, weights, shares
        As in :func:`xjudge.reliability`.
    protocol, by, judges, humans
        As in :func:`xjudge.agreement`.
    seed : int
        For labels that a protocol samples from probabilities.
    compute : bool
        On lazy labels, whether to compute now (one compute).

    Returns
    -------
    Dataset
        Per statistic ``x``: ``x`` and ``x_reason`` on the labels that were given; ``x_range(bound)`` with
        ``x_range_reason`` and ``x_range_kind``: ``"sharp"`` where completions attain both ends, ``"outer"``
        where the range holds all and may be wider than need be. ``n`` pairable units with ``n_labels``
        labels, ``n_unresolved`` labels on all units, ``n_eligible`` units that are pairable once every label
        is given, ``coverage = n / n_eligible``. Under ``"macro"`` the mean over the criteria that have a
        range, with ``n_criteria`` and ``n_criteria_included(statistic)``.

    Raises
    ------
    ProtocolError
        Coefficients without a range; as :func:`xjudge.reliability`.
    OverlapError
        No rater.

    Notes
    -----
    One pass (merged count vectors). Two categories are sharp for some 2,500 unresolved labels, three for
    some 150; beyond the range is a certified outer one
    (:func:`xjudge.statistics.bounds.rater_bounds`): below a second for 10,000 items with five raters.

    Examples
    --------
    >>> import xjudge as xj
    >>> found = xj.load_example().judge.reliability_bounds(protocol=xj.Protocol(aggregate="micro"))
    >>> lower, upper = found["alpha_range"].values
    >>> bool(lower < found["alpha"] < upper), found["alpha_range_kind"].item()
    (True, 'sharp')
    """
    check_arguments(reliability_bounds, locals())
    view = View.of(data, humans=humans, judges=judges, own={}, pool=raters)
    chosen = Protocol() if protocol is None else protocol
    resolved = chosen.resolve(view.scale)
    positions = view.members(raters) if view.pool is None else view.pool
    if not positions:
        raise OverlapError(f"There is no rater to compare: `raters={raters!r}` is empty in this dataset.")
    labels = Labels(view, [resolved], by, seed)
    columns = labels.columns_of(resolved)
    if columns.scale.kind == "continuous":
        raise ProtocolError("A range over completions needs categories, and a continuous scale has none.")
    asked = measures(statistic, Choices(metric, weights, shares), columns, chosen, len(positions))
    wrong = [one.name for one in asked if one.name not in RATER_STATISTICS]
    if wrong:
        raise ProtocolError(f"There are ranges of {', '.join(RATER_STATISTICS)}, not of {listing(wrong)}.")
    opened = _opened(columns, outcome_codes(unresolved))
    place = len(labels.requests)
    labels.requests.append(
        unit_rows(
            array=columns.name,
            columns=positions,
            targets=opened,
            n_categories=columns.scale.n_categories + 1,
            n_criteria=columns.n_criteria,
            counts=True,
        )
    )
    ranges = _Ranges(view, columns, chosen, asked, Choices(metric, weights, shares))

    def finish(counted: list[Any]) -> dict[str, Any]:
        found = labels.cases.of(chosen, counted[place])
        return ranges.of(found if isinstance(found, np.ndarray) else _alone(found))

    arrays = labels.run(finish, compute)
    result = _named(view, labels, arrays, per_criterion=ranges.per_criterion)
    if ranges.macro:
        result = result.assign_coords(statistic=("statistic", np.array([one.name for one in asked])))
    known: dict[str, Any] = {
        "verb": "reliability_bounds",
        "scale": view.scale,
        "raters": view.stated(np.array(positions), "pool"),
        "protocol": chosen,
        "by": by,
        "statistic": [one.name for one in asked],
        "unresolved": [unresolved] if isinstance(unresolved, str) else list(unresolved),
        "metric": metric,
        "weights": weights,
        "shares": shares,
        "seed": seed,
    }
    known = {name: value for name, value in known.items() if value is not None}
    result.attrs = flat_attrs(known | {"xjudge_version": version()})
    warn_recoded([resolved])
    if compute or not view.lazy:
        warn_undefined(result, [word for one in asked for word in (one.name, f"{one.name}_range")])
    return result


def _opened(columns: Columns, codes: tuple[int, ...]) -> tuple[int, ...]:
    """Targets with one more category, last, for the outcomes that are unresolved."""
    n = columns.scale.n_categories
    return tuple(n if target in codes else target for target in columns.targets)


def _alone(content: Any) -> npt.NDArray[np.object_]:
    out = np.empty((), dtype=object)
    out[()] = content
    return out


class _Ranges:
    """Coefficients and their ranges from the distinct count vectors of every cell."""

    def __init__(
        self, view: View, columns: Columns, protocol: Protocol, asked: Sequence[Measure], choices: Choices
    ) -> None:
        self.view, self.columns, self.protocol, self.asked = view, columns, protocol, asked
        self.choices = choices
        self.macro = protocol.aggregate == "macro"
        self.per_criterion = protocol.aggregate is None and "criterion" in view.rest

    def of(self, slots: npt.NDArray[np.object_]) -> dict[str, Any]:
        """Arrays (slice, criterion, other dims, ...) by variable, axes that are no dims left out."""
        others = tuple(self.view.others.values())
        shape = (max(slots.size, 1), self.columns.n_criteria, int(np.prod(others)))
        parts: dict[str, npt.NDArray[Any]] = {}
        for k, every in enumerate(slots.ravel()):
            for other in range(shape[2]):
                cells = [_counts(every[g * shape[2] + other]) for g in range(shape[1])]
                if self.protocol.aggregate == "micro":
                    cells = [np.concatenate(cells)]
                for g, cell in enumerate(cells):
                    for name, value in self._one(cell).items():
                        array = np.asarray(value)
                        if name not in parts:
                            size = (shape[0], len(cells), shape[2], *array.shape)
                            parts[name] = np.zeros(size, dtype=array.dtype)
                        parts[name][k, g, other] = array
        if self.macro:
            parts = self._mean(parts)
        parts["coverage"] = share(parts["n"], parts["n_eligible"])
        lead = slots.shape + ((shape[1],) if self.per_criterion else ()) + others
        out = {name: array.reshape((*lead, *array.shape[3:])) for name, array in parts.items()}
        return {name: texts(array) if name.endswith("_reason") else array for name, array in out.items()}

    def _one(self, counts: Ints) -> dict[str, Any]:
        given, open_ = counts[:, :-1], counts[:, -1]
        size = given.sum(1)
        out: dict[str, Any] = {
            "n": (size > 1).sum(),
            "n_labels": size[size > 1].sum(),
            "n_unresolved": open_.sum(),
            "n_eligible": (size + open_ > 1).sum(),
        }
        for one in self.asked:
            options = self._options(one)
            value = rater_bounds(given, np.zeros_like(open_), one.name, **options)
            ends = rater_bounds(given, open_, one.name, **options)
            out |= {
                one.name: value.lower,
                f"{one.name}_reason": value.reason,
                f"{one.name}_range": np.stack([ends.lower, ends.upper], axis=-1),
                f"{one.name}_range_reason": ends.reason,
                f"{one.name}_range_kind": ends.kind.astype("<U5"),
            }
        return out

    def _options(self, one: Measure) -> dict[str, Any]:
        """Choices of a coefficient as the statistics room takes them."""
        scale = self.columns.scale
        out: dict[str, Any] = {"scores": scale.scores if scale.kind == "interval" else None}
        if one.name == "fleiss_kappa":
            out["shares"] = self.choices.shares
        if one.name == "alpha" and one.metric is not None:
            return out | {"metric": one.metric}
        if one.name == "alpha" and self.choices.metric is not None:
            return out | {"metric": np.asarray(self.choices.metric, dtype=np.float64)}
        return out | {"weights": self.choices.weights}

    def _mean(self, parts: dict[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
        """Means over criteria of what is defined, sums of counts."""
        weights = criterion_weights(self.view, self.protocol)
        out: dict[str, npt.NDArray[Any]] = {
            name: parts[name].sum(1, keepdims=True)
            for name in ("n", "n_labels", "n_unresolved", "n_eligible")
        }

        def mean(values: npt.NDArray[Any], reason: npt.NDArray[Any]) -> Any:
            """`averaged` takes criteria on the fourth axis from the end."""
            return averaged(weights, values[:, :, :, None, None], reason[:, :, :, None, None])

        included = []
        for one in self.asked:
            for word in ("", "_range"):
                values, reason = parts[one.name + word], parts[f"{one.name}{word}_reason"]
                columns = [values] if word == "" else [values[..., end] for end in (0, 1)]
                means = [mean(column, reason) for column in columns]
                ends = [found[0][..., 0, 0] for found in means]
                out[one.name + word] = ends[0] if word == "" else np.stack(ends, axis=-1)
                out[f"{one.name}{word}_reason"] = means[0][1][..., 0, 0]
            included.append(means[0][2][..., 0, 0])
            sharp = (parts[f"{one.name}_range_kind"] == "sharp") | (
                parts[f"{one.name}_range_reason"] != Reason.OK
            )
            out[f"{one.name}_range_kind"] = np.where(sharp.all(1, keepdims=True), "sharp", "outer")
        out["n_criteria"] = np.full_like(out["n"], self.columns.n_criteria)
        out["n_criteria_included"] = np.stack(included, axis=-1)
        return out


def _counts(rows: UnitRows) -> Ints:
    """Count vectors of all units, the unresolved last."""
    return np.repeat(rows.data[:, 0].astype(np.int64), rows.multiplicities, axis=0)


def _named(view: View, labels: Labels, arrays: dict[str, Any], *, per_criterion: bool) -> xr.Dataset:
    rest = [dim for dim in view.rest if per_criterion or dim != "criterion"]
    by = [] if labels.cases.by is None else [labels.cases.by]
    variables = {}
    for name, array in arrays.items():
        own = ("bound",) if name.endswith("_range") else ()
        own = ("statistic",) if name == "n_criteria_included" else own
        variables[name] = ([*by, *rest, *own], array)
    coords: dict[str, Any] = dict(view.coordinates(*rest))
    if by:
        coords[by[0]] = (by[0], labels.cases.slices)
    result = xr.Dataset(variables, coords=coords)
    return result.assign_coords(bound=("bound", np.array(["lower", "upper"])))

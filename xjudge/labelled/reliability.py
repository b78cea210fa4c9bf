"""Agreement among any number of raters, with missing labels: `reliability`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from xjudge.columns import criterion_weights
from xjudge.errors import OverlapError, ProtocolError, Reason, StructureError, listing
from xjudge.labelled._common import flat_attrs, texts, version, warn_recoded, warn_undefined
from xjudge.labelled._ends import from_standard_error
from xjudge.labelled._evaluation import averaged
from xjudge.labelled._labels import Labels
from xjudge.labelled._rater_intervals import Spread, f_interval, shared_error, value_of
from xjudge.labelled._rater_measures import Measure, measures
from xjudge.labelled._rater_units import Asked
from xjudge.labelled._results import share
from xjudge.labelled._sampling import Sampling
from xjudge.protocol import Protocol
from xjudge.statistics.raters import PairKappas, sizes, summed_terms
from xjudge.view import FEW_RATERS, View

__all__ = ["reliability"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def reliability(
    data: xr.Dataset | xr.DataArray,
    *,
    statistic: str | Sequence[str] = "alpha",
    raters: Any = "humans",
    metric: Any = None,
    weights: Any = None,
    shares: str = "pooled",
    protocol: Protocol | None = None,
    by: str | None = None,
    judges: Any = None,
    humans: Any = None,
    interval: str | None = "auto",
    resample: str = "items",
    level: float = 0.95,
    n_resamples: int = 2000,
    seed: int = 0,
    convention: str = "delta",
    compute: bool = True,
) -> xr.Dataset:
    """Reliability of any number of raters; labels may be missing.

    A *unit* is an item under a criterion (an item, where verdicts are combined); a unit is pairable where
    two raters gave it a usable label.

    Parameters
    ----------
    data : Dataset or DataArray
        A judge dataset.
    statistic : str or list of str
        ``"alpha"`` (Krippendorff), ``"fleiss_kappa"``, ``"scott_pi"`` (Fleiss with pooled shares),
        ``"conger_kappa"``, ``"light_kappa"``, ``"mean_pairwise_kappa"``, ``"gwet_ac"`` (also
        ``"gwet_ac1"``, ``"gwet_ac2"``), ``"brennan_prediger"``, ``"percent_agreement"``; intraclass
        correlations ``"icc(1)"``, ``"icc(A,1)"``, ``"icc(C,1)"``, ``"icc(1,k)"``, ``"icc(A,k)"``,
        ``"icc(C,k)"`` of the scores of the categories. On a continuous scale alpha and the intraclass
        correlations.
    raters : "humans", "judges", "all" or list of names
        Whose reliability.
    metric : str or (L, L) matrix, optional
        Of alpha: ``"nominal"`` (the default), ``"ordinal"``, ``"interval"``, ``"ratio"``, ``"circular"``
        or own distances; on a continuous scale ``"interval"`` (the default there), ``"ordinal"``,
        ``"nominal"``, ``"ratio"``.
    weights : str or (L, L) matrix, optional
        Agreement weights, as in :func:`xjudge.agreement`; of alpha too, where there is no ``metric``.
    shares : {"pooled", "item_mean"}
        Category shares of Fleiss' kappa: over all labels of the pairable units, or the mean over units of
        the shares within the unit, units with one label included (irrCAC).
    protocol : Protocol, optional
        By default per criterion, by exclusion. With ``"micro"`` the units of all criteria are one sample,
        and items with all their units are what is drawn; ``"macro"`` averages over the criteria where the
        coefficient is defined.
    by : str, optional
        An item coordinate to slice on.
    judges, humans : list of names or boolean array, optional
        Restrict whom ``raters="humans"``, ``"judges"`` and ``"all"`` mean.
    interval : {"auto", "delta", "percentile", "bca", "studentized"} or None
        ``"auto"`` is the delta method; for intraclass correlations F distributions, and percentiles where
        criteria are pooled.
    resample : {"items", "clusters", "items+criteria", "criteria", "decisions"}
        The sampling unit, as in :func:`xjudge.agreement`; ``"decisions"`` takes every unit as independent.
    level, n_resamples, seed
        As in :func:`xjudge.agreement`.
    convention : {"delta", "gwet"}
        Of delta-method standard errors: the derivative, or the linearisation that Gwet prints and irrCAC
        computes, which counts the share of units with one label as noise.
    compute : bool
        On lazy labels, whether to compute now.

    Returns
    -------
    Dataset
        Per statistic ``x``, of dims ([by,] [criterion,] further dims): ``x``, ``x_reason``, ``x_se``,
        ``x_interval(bound)`` and, where resampled, ``x_undefined``. ``n`` pairable units, ``n_labels``
        their labels, ``n_single`` units with one label, ``n_items`` items with a pairable unit,
        ``n_eligible`` units that two raters were asked for, ``coverage = n / n_eligible``; under
        ``"macro"`` also ``n_criteria`` and ``n_criteria_included(statistic)``; for the mean kappas
        ``n_rater_pairs`` and ``n_rater_pairs_included``. Attributes say which conventions were used.

    Raises
    ------
    ProtocolError
        Unknown coefficients, and what the scale cannot carry: distances without an order, numbers of
        categories that have none.
    OverlapError
        No rater of the kind that was asked for.

    Notes
    -----
    One pass. Coefficients of counts come from the histogram of count vectors, which is small whatever the
    number of items; Conger's and the mean kappas and intraclass correlations from the distinct rows of
    labels; alpha of numbers from the numbers themselves. Items without a label of every rater do not enter
    an intraclass correlation. Formulas: :mod:`xjudge.statistics.raters`.

    Examples
    --------
    >>> import xjudge as xj
    >>> ds = xj.load_example()
    >>> result = ds.judge.reliability(statistic=["alpha", "gwet_ac"], protocol=xj.Protocol(aggregate="micro"))
    >>> result["alpha"].dims, result["alpha_interval"].dims
    ((), ('bound',))
    """
    view = View.of(data, humans=humans, judges=judges, own={}, pool=raters)
    chosen = Protocol() if protocol is None else protocol
    resolved = chosen.resolve(view.scale)
    positions = view.members(raters) if view.pool is None else view.pool
    if not positions:
        raise OverlapError(f"There is no rater to compare: `raters={raters!r}` is empty in this dataset.")
    labels = Labels(view, [resolved], by, seed)
    columns = labels.columns_of(resolved)
    asked_for = measures(statistic, metric, weights, shares, columns, chosen, len(positions))
    names = [measure.name for measure in asked_for]
    _refuse_places(view, asked_for)
    sampling = Sampling(interval, resample, level, n_resamples, seed)
    sampling.check(names, [chosen.aggregate])
    if convention not in ("delta", "gwet"):
        raise ProtocolError(f"`convention` is 'delta' or 'gwet'; got {convention!r}.")
    pooled = chosen.aggregate == "macro" or (chosen.aggregate == "micro" and columns.n_criteria > 1)
    methods = {measure.name: _method(measure, sampling, chosen, pooled) for measure in asked_for}
    asked = Asked(labels, columns, positions, chosen, sampling, asked_for, methods)
    estimates = _Estimates(asked, asked_for, methods, convention, len(positions))

    def finish(counted: list[Any]) -> dict[str, Any]:
        return estimates.of(counted)

    arrays = labels.run(finish, compute)
    result = _named(view, labels, arrays, names, per_criterion=estimates.per_criterion)
    coords: dict[str, Any] = {}
    if sampling.method is not None:
        coords["bound"] = ("bound", np.array(["lower", "upper"]))
    if chosen.aggregate == "macro":
        coords["statistic"] = ("statistic", np.array(names))
    result = result.assign_coords(coords)
    stated: dict[str, Any] = {
        "protocol": chosen,
        "by": by,
        "statistic": names,
        "metric": _stated_metric(asked_for, metric),
        "weights": weights,
        "shares": shares,
        "convention": convention,
    }
    known = {"verb": "reliability", "scale": view.scale, "raters": view.stated(np.array(positions), "pool")}
    known |= {name: value for name, value in stated.items() if value is not None}
    result.attrs = flat_attrs(known | _sampling_attrs(sampling, methods) | {"xjudge_version": version()})
    warn_recoded([resolved])
    if compute or not view.lazy:
        warn_undefined(result, names)
    return result


def _refuse_places(view: View, asked: Sequence[Measure]) -> None:
    """Coefficients that know who said what have nothing to go by where a crowd shares its columns."""
    wrong = [measure.name for measure in asked if measure.data == "labels" or measure.form is not None]
    if view.n_places and wrong:
        raise StructureError(
            f"{listing(wrong)} tells raters apart, as in a dense cube label(item, rater), and of a crowd "
            f"(sparse layout) at most {FEW_RATERS} raters get columns. Name them, `raters=[...]`, or take "
            "alpha, fleiss_kappa, gwet_ac or percent_agreement, which do not ask who said what."
        )


def _method(measure: Measure, sampling: Sampling, protocol: Protocol, pooled: bool) -> str | None:
    """The interval method of a coefficient: ``"f"`` is that of F distributions."""
    method = sampling.of(measure.name)
    if measure.form is None or sampling.method != "auto" or method == "percentile":
        return method
    simple = not pooled or (sampling.resample == "decisions" and protocol.aggregate != "macro")
    return "f" if simple and sampling.resample != "clusters" else "percentile"


def _stated_metric(asked: Sequence[Measure], metric: Any) -> Any:
    """The metric that alpha took; ``None`` where weights stood in its place, or alpha was not asked for."""
    if metric is not None:
        return metric
    return next((measure.metric for measure in asked if measure.metric is not None), None)


def _sampling_attrs(sampling: Sampling, methods: dict[str, str | None]) -> dict[str, Any]:
    out: dict[str, Any] = {"interval": sampling.method or "none", "seed": sampling.seed}
    if sampling.method is None:
        return out
    out |= {"interval_methods": methods, "resample": sampling.resample, "level": sampling.level}
    if any(method not in ("delta", "f") for method in methods.values()):
        out |= {"n_resamples": sampling.n_resamples, "law": "multinomial"}
    return out


class _Estimates:
    """Every estimate of the call, from what the pass counted."""

    def __init__(
        self,
        asked: Asked,
        measures: Sequence[Measure],
        methods: dict[str, str | None],
        convention: str,
        n_raters: int,
    ) -> None:
        self.asked, self.measures, self.methods, self.convention = asked, measures, methods, convention
        self.n_raters = n_raters
        view = asked.labels.view
        self.n_others = int(np.prod(list(view.others.values())))
        self.aggregate = asked.protocol.aggregate
        self.per_criterion = self.aggregate is None and "criterion" in view.rest
        self.apart = asked.columns.n_criteria if self.aggregate in (None, "macro") else 1
        self.weights = criterion_weights(view, asked.protocol) if self.aggregate == "macro" else np.ones(1)

    def of(self, counted: list[Any]) -> dict[str, Any]:
        """Values, reasons, intervals and counts, on the dims of the result."""
        slots = self.asked.slots(counted).shape
        shape = (*slots, self.apart, self.n_others)
        sized = {name: np.zeros(shape, dtype=np.int64) for name in _COUNTS}
        values = {m.name: np.full(shape, np.nan) for m in self.measures}
        reasons = {m.name: np.zeros(shape, dtype=np.int8) for m in self.measures}
        pairs = np.zeros(shape, dtype=np.int64)
        for index in np.ndindex(slots):
            for criterion, other in np.ndindex(shape[-2:]):
                at = (*index, criterion, other)
                self._count(counted, at, sized)
                for measure in self.measures:
                    cells = self._chosen(self.asked.rows(measure, counted, index, other), criterion)
                    value, reason = value_of(measure, cells)
                    if self.n_raters < 2:
                        reason = int(Reason.ONE_RATER)
                    elif sized["n_eligible"][at] == 0:
                        reason = int(Reason.NO_OVERLAP)
                    values[measure.name][at] = value if reason == 0 else np.nan
                    reasons[measure.name][at] = reason
                    if isinstance(measure.coefficient, PairKappas):
                        pairs[at] = _included(measure.coefficient, cells)
        return self._assembled(counted, slots, values, reasons, sized, pairs)

    def _chosen(self, cells: list[Any], criterion: int) -> list[Any]:
        """Rows behind an estimate: of one criterion, or of all."""
        return cells[criterion : criterion + 1] if self.apart > 1 or self.aggregate is None else cells

    def _count(self, counted: list[Any], at: tuple[int, ...], sized: dict[str, Ints]) -> None:
        *index, criterion, other = at
        for rows in self._chosen(self.asked.units(counted, tuple(index), other), criterion):
            size = sizes(rows.data[:, 0], rows.multiplicities)
            sized["n"][at] += size.n
            sized["n_labels"][at] += size.n_labels
            sized["n_single"][at] += size.n_single
            sized["n_eligible"][at] += rows.n_eligible

    def _assembled(
        self,
        counted: list[Any],
        slots: tuple[int, ...],
        values: dict[str, Floats],
        reasons: dict[str, npt.NDArray[np.int8]],
        sized: dict[str, Ints],
        pairs: Ints,
    ) -> dict[str, Any]:
        macro = self.aggregate == "macro"
        out: dict[str, Any] = {}
        included = []
        for name, value in values.items():
            reason = reasons[name]
            if macro:
                mean, why, n_included = averaged(
                    self.weights, value[..., None, None], reason[..., None, None]
                )
                reason = why[..., 0, 0]
                value = np.where(reason == 0, mean[..., 0, 0], np.nan)
                included.append(self._placed(n_included[..., 0, 0]))
            out[name], out[f"{name}_reason"] = self._placed(value), texts(self._placed(reason))
            if self.asked.sampling.method is not None:
                measure = next(m for m in self.measures if m.name == name)
                ends = self._intervals(measure, counted, slots, value, values[name])
                out |= {
                    f"{name}_{end}": self._placed(array, int(end == "interval"))
                    for end, array in ends.items()
                }
        counts = {name: count.sum(-2, keepdims=True) if macro else count for name, count in sized.items()}
        out |= {name: self._placed(count) for name, count in counts.items()}
        out["n_items"] = self._placed(self._items(counted, slots, counts["n"]))
        out["coverage"] = share(out["n"], out["n_eligible"])
        if any(isinstance(measure.coefficient, PairKappas) for measure in self.measures):
            n_pairs = self.n_raters * (self.n_raters - 1) // 2
            every = np.full(pairs.shape, n_pairs, dtype=np.int64)
            for name, array in (("n_rater_pairs", every), ("n_rater_pairs_included", pairs)):
                out[name] = self._placed(array.sum(-2, keepdims=True) if macro else array)
        if macro:
            out["n_criteria"] = np.full_like(out["n"], self.apart)
            out["n_criteria_included"] = np.stack(included, axis=-1)
        return out

    def _items(self, counted: list[Any], slots: tuple[int, ...], n: Ints) -> Ints:
        """Items with a pairable unit; where nothing is pooled, the pairable units."""
        if not self.asked.pooled:
            return n
        out = np.zeros(n.shape, dtype=np.int64)
        for index in np.ndindex(slots):
            for other in range(self.n_others):
                out[(*index, 0, other)] = self.asked.support(counted, index, other)[1]
        return out

    # ---------------------------------------------------------------------------------------------- intervals

    def _intervals(
        self,
        measure: Measure,
        counted: list[Any],
        slots: tuple[int, ...],
        value: Floats,
        by_criterion: Floats,
    ) -> dict[str, Floats]:
        """Standard errors, ends and undefined shares (..., criterion or 1, other) of one coefficient."""
        method = str(self.methods[measure.name])
        ends = ("se",) if method in ("delta", "f") else ("se", "undefined")
        out = {end: np.full(value.shape, np.nan) for end in ends}
        out["interval"] = np.full((*value.shape, 2), np.nan)
        for index in np.ndindex(slots):
            for criterion, other in np.ndindex(value.shape[-2:]):
                at = (*index, criterion, other)
                if np.isnan(value[at]):
                    continue
                found = self._of_one(measure, method, counted, at, float(value[at]), by_criterion[index])
                for key, array in found.items():
                    out[key.removeprefix(f"{measure.name}_")][at] = array
        return out

    def _of_one(
        self,
        measure: Measure,
        method: str,
        counted: list[Any],
        at: tuple[int, ...],
        value: float,
        by_criterion: Floats,
    ) -> dict[str, Any]:
        asked = self.asked
        *slot, criterion, other = at
        index = tuple(slot)
        one = criterion if self.aggregate is None else None
        if method == "f":
            cells = self._chosen(asked.rows(measure, counted, index, other), criterion)
            return f_interval(measure, cells, value, asked.sampling.level)
        source = asked.source(measure, method)
        if source == "shared":
            portion = np.empty(0)
            if asked.macro:
                portion = self.weights * ~np.isnan(by_criterion[:, other])
                portion = portion / portion.sum()
            n_items = asked.support(counted, index, other)
            se, n = shared_error(
                measure,
                asked.shared(counted, index, other),
                (int(n_items[0]), int(n_items[1])),
                portion,
                self.convention,
            )
            return from_standard_error(measure.name, np.array(value), np.array(se), n, asked.sampling)
        sample = asked.sample(measure, source, counted, index, other, one)
        weights = self.weights if asked.macro else np.ones(1)
        return Spread(measure, sample, weights, asked.sampling, self.convention).ends(value, method)

    def _placed(self, array: npt.NDArray[Any], trailing: int = 0) -> npt.NDArray[Any]:
        """From (..., criterion or 1, other, *trailing) to the dims of the result."""
        axis = array.ndim - trailing - 1
        others = tuple(self.asked.labels.view.others.values())
        array = array.reshape((*array.shape[:axis], *others, *array.shape[axis + 1 :]))
        return array if self.per_criterion else array.squeeze(axis - 1)


_COUNTS = ("n", "n_labels", "n_single", "n_eligible")


def _included(coefficient: PairKappas, cells: list[tuple[npt.NDArray[Any], Ints]]) -> int:
    """Pairs of raters with a defined kappa."""
    data = np.concatenate([rows for rows, _ in cells])
    counts = np.concatenate([count for _, count in cells])
    return int(coefficient.included(summed_terms(coefficient, data, counts)))


def _named(
    view: View, labels: Labels, arrays: dict[str, Any], names: Sequence[str], *, per_criterion: bool
) -> xr.Dataset:
    """Finished arrays with their dims and coordinates."""
    rest = [dim for dim in view.rest if per_criterion or dim != "criterion"]
    by = [] if labels.cases.by is None else [labels.cases.by]
    ends = {f"{name}_interval": ("bound",) for name in names}
    ends["n_criteria_included"] = ("statistic",)
    variables = {name: ([*by, *rest, *ends.get(name, ())], array) for name, array in arrays.items()}
    coords: dict[str, Any] = dict(view.coordinates(*rest))
    if by:
        coords[by[0]] = (by[0], labels.cases.slices)
    return xr.Dataset(variables, coords=coords)

"""How much is a panel of judges worth? Effective sizes of the panel against the human side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from xjudge._arguments import check_arguments
from xjudge.errors import ProtocolError, ProtocolWarning, Reason, XJudgeWarning, warn
from xjudge.labelled._common import warn_undefined
from xjudge.labelled._panel_human import Partial, partial
from xjudge.labelled._panel_pass import SUMS, VOTES, OpenedPanel, Units, flat_units
from xjudge.labelled._panel_resample import checked_sampling, sampled
from xjudge.labelled._sampling import Sampling
from xjudge.protocol import Protocol
from xjudge.statistics import panel

__all__ = ["effective_size", "partial"]

Floats = npt.NDArray[np.float64]

_SIZES = ("participation_ratio", "nu_h", "nu_mse", "nu_mse_limit", "n_eff", "gamma_co")
_CORRECTED = ("distributional_error_corrected", "human_variance_corrected", "nu_mse_corrected")
_SCALARS = (
    *_SIZES,
    "mean_squared_correlation",
    "mean_error_correlation",
    "distributional_error",
    "human_variance",
    "finite_n_delta",
    *_CORRECTED,
)
"""Values that have a reason."""

_PLAIN = ("mean_residual_sq", "mean_residual_share", "mean_member_variance", "mean_member_correlation")
_PER_RATER = ("member_energy", "member_accuracy")
_ANCHORS = ("distribution", "mode", "uniform")


def effective_size(
    data: xr.Dataset | xr.DataArray,
    *,
    human: str = "observed",
    gold: str = "mode",
    incomplete: str = "drop",
    method: str = "analytic",
    anchor: str | Partial = "distribution",
    grid: Sequence[int] | None = None,
    n_curves: int = 12,
    protocol: Protocol | None = None,
    by: str | None = None,
    judges: Any = None,
    humans: Any = None,
    interval: str | None = "auto",
    resample: str = "items",
    level: float = 0.95,
    n_resamples: int = 2000,
    seed: int = 0,
    compute: bool = True,
) -> xr.Dataset:
    """Measure how many independent humans, or independent judges, the panel of all judges is worth.

    Parameters
    ----------
    data : Dataset or DataArray
        A judge dataset; ``judges`` says who is on the panel.
    human : {"observed", "count"} or variable name
        The human label distribution of each item: shares of the identified humans' labels (any number an
        item), the variable ``count(item[, criterion], category)``, or a variable of counts (integers) or
        shares (floats) with those dims.
    gold : {"mode", "tie_free"}, variable name or rater
        The label that binary errors are against: the human mode, the first category among ties; the mode of
        items without a tie; category values of a variable on items, null where there is none; a rater's
        labels. Only ``n_eff`` and accuracies use it.
    incomplete : {"drop", "pairwise"}
        Items that some member did not answer are left out, or used for the pairs of members that did.
        Items without a human label are always left out.
    method : {"analytic", "monte_carlo"}
        How ``nu_h`` is read: in closed form, or off the curve of simulated humans. Other anchors than the
        distribution have no closed form and take the curve.
    anchor : {"distribution", "mode", "uniform"} or :func:`xjudge.partial`
        What residuals subtract; ``participation_ratio``, ``mean_squared_correlation`` and ``nu_h`` change.
    grid : sequence of int, optional
        Sizes of the simulated panels; by default 2 to ``max(2 k, 8)``.
    n_curves : int
        Simulated populations of the curve.
    protocol : Protocol, optional
        Labels are its categories; ``"micro"`` pools criteria (a unit is an item under a criterion),
        ``"item"`` takes item verdicts, ``None`` measures each criterion.
    by, judges, humans
        As in :func:`xjudge.agreement`; ``judges`` may be a boolean DataArray on ``rater``.
    interval : {"auto", "studentized", "percentile"} or None
        Bootstrap-t intervals from resampled items, or percentiles. ``"auto"`` is bootstrap-t, leaves the
        intervals out, with a warning, where they would take more than about half a minute, and takes
        percentiles under ``incomplete="pairwise"``. An end of ``nu_h`` is infinite where no size is excluded.
    resample : {"items", "decisions", "clusters"}
        Items with all their criteria, units, or all items of a ``cluster(item)``. Items that do not count
        are not resampled.
    level, n_resamples, seed
        Of the intervals; ``seed`` also of simulated humans and drawn labels.
    compute : bool
        On lazy labels, whether to compute now.

    Returns
    -------
    Dataset
        With ``_reason``, and ``_se``, ``_interval(bound)``, ``_undefined`` where asked:
        ``participation_ratio`` in [1, k], ``nu_h`` (independent humans with that ratio), ``nu_mse``
        (independent humans with that error), ``nu_mse_limit`` (of an endless panel like this), ``n_eff``
        (Kish), ``gamma_co`` (consensus share), ``mean_squared_correlation``, ``mean_error_correlation``,
        ``distributional_error`` and ``human_variance`` (both also ``_corrected`` for few humans an item,
        with ``nu_mse_corrected``), ``finite_n_delta``. Without: ``gamma_co_channel(channel)``,
        ``mean_residual_sq``, ``mean_residual_share`` (of the error), ``mean_member_variance``,
        ``mean_member_correlation``, ``member_energy(rater)``, ``member_accuracy(rater)``, ``n_items``,
        ``n_dropped``, ``n_gold_ties``. From simulated humans: ``nu_h_simulation_sd``,
        ``reference_ratio(size)`` (the mean curve) and ``nu_h_anchor_interval(bound)`` (central 90% over the
        draws of a partial anchor).

    Raises
    ------
    ProtocolError, StructureError, VocabularyError, OverlapError
        Options that do not go together; a human side, gold or panel that is not there.

    Warns
    -----
    DroppedWarning
        Units left out.
    UndefinedWarning
        Sizes that are undefined, with their reasons.
    ProtocolWarning
        ``incomplete="pairwise"``: pairs of judges rest on different items.

    Notes
    -----
    MATH.md section 7. Sizes are functions of sums over items: one pass. Intervals and simulated humans hold
    the votes (one to four bytes a label); equal items are counted together, in an order of their own, so
    that resamples do not depend on the order or the chunks of the items. ``nu_h`` takes the chance
    correlations of humans for granted; where humans rarely disagree and judges err on other items, it is too
    large. Its interval, like that of ``participation_ratio`` and ``mean_squared_correlation``, is for
    endless items and takes the judges' own chance correlations out, so that with few items it may lie beside
    the value. Coverage is studied in ``benchmarks/panel_coverage.py``.

    Examples
    --------
    >>> import warnings
    >>> import xjudge as xj
    >>> ds = xj.load_example()
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", xj.DroppedWarning)
    ...     found = xj.effective_size(ds, protocol=xj.Protocol(aggregate="micro"), interval=None)
    >>> found["participation_ratio"].item() < found.sizes["rater"]
    True
    """
    check_arguments(effective_size, locals())
    if method not in ("analytic", "monte_carlo"):
        raise ProtocolError(f"`method` is 'analytic' or 'monte_carlo'; got {method!r}.")
    if not isinstance(anchor, Partial) and anchor not in _ANCHORS:
        raise ProtocolError(
            f"`anchor` is 'distribution', 'mode', 'uniform' or xj.partial(m); got {anchor!r}."
        )
    methods = ("studentized", "percentile")
    sampling = checked_sampling(interval, resample, level, n_resamples, seed, "effective_size", methods)
    opened = OpenedPanel(
        data,
        "effective_size",
        protocol,
        human=human,
        gold=gold,
        incomplete=incomplete,
        by=by,
        judges=judges,
        humans=humans,
        seed=seed,
        resample=None if interval is None else resample,
    )
    simulate = None
    if method == "monte_carlo" or anchor != "distribution":
        simulate = _Simulated(opened, anchor, grid, n_curves, seed)
    held = simulate is not None or sampling.method is not None
    opened.request(SUMS, *([VOTES] if held else []))
    names = [name for name in _SCALARS if simulate is None or name not in _Simulated.names]

    def finish(counted: list[Any]) -> dict[str, Any]:
        tables = []
        votes = opened.slots(counted, 2) if held else None
        for slot, sums in enumerate(opened.slots(counted, 1)):
            found = [_values(*one) for one in sums]
            if votes is not None and sampling.method is not None:
                more = sampled(votes[slot], incomplete, sampling, names)
                found = [one | two for one, two in zip(found, more, strict=True)]
            if votes is not None and simulate is not None:
                found = [one | simulate.of(two) for one, two in zip(found, votes[slot], strict=True)]
            tables.append(found)
        return opened.stacked(tables)

    arrays = opened.counting.run(finish, compute)
    stated = {"incomplete": incomplete, **_stated(sampling, simulate)}
    result = opened.result("effective_size", *_named(opened, arrays, simulate), **stated)
    _warn(opened, result, incomplete, compute)
    return result


def _values(sums: panel.PanelSums, ties: int) -> dict[str, npt.NDArray[Any]]:
    """Values of one table, in the order of the result."""
    values, reasons = panel.effective_size(sums)
    out: dict[str, npt.NDArray[Any]] = {}
    for name in _SCALARS:
        out[name] = values[name]
        out[f"{name}_reason"] = reasons[name]
    out |= {name: values[name] for name in (*_PLAIN, "gamma_co_channel", *_PER_RATER)}
    counts = {"n_items": values["n_items"], "n_dropped": values["n_dropped"], "n_gold_ties": ties}
    return out | {name: np.asarray(value, dtype=np.int64) for name, value in counts.items()}


class _Simulated:
    """What is read off simulated humans."""

    names = ("participation_ratio", "mean_squared_correlation", "nu_h")

    def __init__(
        self,
        opened: OpenedPanel,
        anchor: str | Partial,
        grid: Sequence[int] | None,
        n_curves: int,
        seed: int,
    ) -> None:
        if opened.incomplete != "drop":
            raise ProtocolError(
                "Simulated humans and other anchors are compared with a panel on the items that every "
                "member answered: incomplete='drop'."
            )
        if isinstance(anchor, Partial) and opened.options["human"].shares:
            raise ProtocolError(
                f"`anchor={anchor!r}` draws human labels, and human={opened.human!r} is shares."
            )
        n_judges = len(opened.judges)
        sizes = range(2, max(2 * n_judges, 8) + 1) if grid is None else grid
        self.grid = np.asarray(sizes, dtype=np.int64)
        if self.grid.ndim != 1 or not len(self.grid) or self.grid[0] < 1 or (np.diff(self.grid) <= 0).any():
            raise ProtocolError(f"`grid` holds increasing sizes of at least 1; got {grid!r}.")
        if n_curves < 1:
            raise ProtocolError(f"`n_curves` must be at least 1; got {n_curves!r}.")
        self.anchor, self.n_curves, self.seed, self.n_judges = anchor, n_curves, seed, n_judges

    def of(self, units: Units) -> dict[str, Any]:
        """Values of one table that take the place of the analytic ones."""
        keep = units.used("drop")
        judges, h, _, _ = flat_units(units, keep)
        anchor: Any = None
        if isinstance(self.anchor, Partial):
            anchor = panel.anchor_partial(
                units.human[keep], self.anchor.n_labels, self.anchor.n_replicates, seed=self.seed
            )
        elif self.anchor != "distribution":
            anchor = panel.anchor_mode(h) if self.anchor == "mode" else panel.anchor_uniform(h)
        found = panel.anchored_size(
            judges, h, anchor=anchor, grid=self.grid, n_replicates=self.n_curves, seed=self.seed
        )
        ratio = np.median(found.participation_ratio) if found.participation_ratio.size else np.nan
        k = self.n_judges
        alike = (k / ratio - 1) / (k - 1) if k > 1 else np.nan
        curve = found.curve.values.reshape(-1, len(self.grid)).mean(0)
        sd = found.inverted.spread if found.inverted.value.ndim == 0 else np.nan
        undefined = Reason.NO_RESIDUAL_ENERGY if len(judges) else Reason.NO_ITEMS
        reason = np.asarray(undefined if np.isnan(ratio) else Reason.OK)
        alone = np.asarray(Reason.ONE_JUDGE) if k == 1 and len(judges) else reason
        out = {
            "participation_ratio": np.asarray(ratio),
            "participation_ratio_reason": reason,
            "mean_squared_correlation": np.asarray(alike),
            "mean_squared_correlation_reason": alone,
            "nu_h": np.asarray(found.value),
            "nu_h_reason": found.reason,
            "nu_h_simulation_sd": np.asarray(sd, dtype=np.float64),
            "reference_ratio": curve,
        }
        if isinstance(self.anchor, Partial):
            out["nu_h_anchor_interval"] = found.interval
        return out


def _named(
    opened: OpenedPanel, arrays: dict[str, Any], simulate: _Simulated | None
) -> tuple[dict[str, Any], dict[str, tuple[str, ...]], dict[str, Any]]:
    """Arrays with the dims that they have beyond those of the data, and the coordinates of these."""
    trailing: dict[str, tuple[str, ...]] = dict.fromkeys(_PER_RATER, ("rater",))
    trailing |= {name: ("bound",) for name in arrays if name.endswith("_interval")}
    trailing["gamma_co_channel"] = ("channel",)
    categories = [str(category) for category in opened.scale.categories]
    channels = [
        f"{', '.join(categories[:place])} | {categories[place]}" for place in range(1, len(categories))
    ]
    coords: dict[str, Any] = {"channel": ("channel", np.array(channels, dtype=str))}
    if any("bound" in ends for ends in trailing.values()):
        coords["bound"] = ("bound", ["lower", "upper"])
    if simulate is not None:
        trailing["reference_ratio"] = ("size",)
        coords["size"] = ("size", simulate.grid)
    return arrays, trailing, coords


def _stated(sampling: Sampling, simulate: _Simulated | None) -> dict[str, Any]:
    """What was asked, for the attributes."""
    out: dict[str, Any] = {"method": "analytic", "anchor": "distribution"}
    if simulate is not None:
        anchor = simulate.anchor if isinstance(simulate.anchor, str) else repr(simulate.anchor)
        out = {"method": "monte_carlo", "anchor": anchor, "n_curves": simulate.n_curves}
        out["grid"] = simulate.grid
    out |= {"interval": sampling.method or "none", "seed": sampling.seed}
    if sampling.method is not None:
        out |= {"resample": sampling.resample, "level": sampling.level}
        out |= {"n_resamples": sampling.n_resamples, "law": "multinomial"}
    return out


def _warn(opened: OpenedPanel, result: xr.Dataset, incomplete: str, compute: bool) -> None:
    """Say once what was left out, what is undefined, and what rests on different items."""
    if incomplete == "pairwise":
        warn(
            "incomplete='pairwise': pairs of judges rest on different items, so the Gram matrix may not be "
            "positive semidefinite and sizes may leave their ranges; report them beside incomplete='drop'.",
            ProtocolWarning,
        )
    gap = "a member" if incomplete == "drop" else "any member"
    if not opened.told(result, f"no human label, or no answer of {gap} that is a category", compute):
        return
    if result.attrs["interval"] == "auto":
        unknown = np.isnan(result["gamma_co_undefined"].values) & (result["n_items"].values > 0)
        if unknown.any():
            warn(
                f"{int(unknown.sum())} panels have no intervals: resampling their items would take long (ask "
                "for interval='studentized', or fewer `n_resamples`), or there is one unit to resample.",
                XJudgeWarning,
            )
    warn_undefined(result, _SIZES)

"""Which of two panels is worth more? Both measured on the same items and the same resamples."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from xjudge.errors import ProtocolError, Reason
from xjudge.labelled._common import warn_undefined
from xjudge.labelled._panel_pass import VOTES, OpenedPanel, Units, flat_units
from xjudge.labelled._panel_resample import checked_sampling, resampled_panels
from xjudge.labelled._sampling import Sampling
from xjudge.protocol import Protocol
from xjudge.statistics import panel
from xjudge.statistics.resample import percentile_interval, undefined_share
from xjudge.view import View

__all__ = ["compare_panels"]

Floats = npt.NDArray[np.float64]

_SIZES = (
    "participation_ratio",
    "nu_h",
    "nu_mse",
    "nu_mse_limit",
    "n_eff",
    "gamma_co",
    "distributional_error",
)


def compare_panels(
    data: xr.Dataset | xr.DataArray,
    a: Any,
    b: Any,
    *,
    human: str = "observed",
    gold: str = "mode",
    protocol: Protocol | None = None,
    by: str | None = None,
    humans: Any = None,
    interval: str | None = "auto",
    resample: str = "items",
    level: float = 0.95,
    n_resamples: int = 2000,
    seed: int = 0,
    compute: bool = True,
) -> xr.Dataset:
    """Compare the effective sizes of two panels of judges.

    Parameters
    ----------
    data : Dataset or DataArray
        A judge dataset.
    a, b : names or boolean DataArray on ``rater``
        The members of each panel; panels may share judges.
    human, gold, protocol, by, humans
        As in :func:`xjudge.effective_size`.
    interval, resample, level, n_resamples, seed
        As in :func:`xjudge.effective_size`; both panels share the resamples.
    compute : bool
        On lazy labels, whether to compute now; the votes are held in one task.

    Returns
    -------
    Dataset
        For ``participation_ratio``, ``nu_h``, ``nu_mse``, ``nu_mse_limit``, ``n_eff``, ``gamma_co`` and
        ``distributional_error``: ``x_a``, ``x_b`` and ``x_difference = x_a - x_b``, each with ``_reason``,
        the difference with ``_se``, ``_interval(bound)`` and ``_undefined``. ``n_items``, ``n_dropped``.

    Raises
    ------
    ProtocolError, StructureError, OverlapError
        As :func:`xjudge.effective_size`.

    Warns
    -----
    DroppedWarning
        Units left out: both panels are measured on the units that every judge of either answered.

    Notes
    -----
    Resamples of ``nu_h`` are reflected on the scale of its reciprocal, as in
    :func:`xjudge.effective_size`. Holds the votes in memory.

    Examples
    --------
    >>> import warnings
    >>> import xjudge as xj
    >>> ds = xj.load_example()
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", xj.DroppedWarning)
    ...     found = xj.compare_panels(
    ...         ds,
    ...         ["orion-large", "vela-large"],
    ...         ["orion-small", "vela-small"],
    ...         protocol=xj.Protocol(aggregate="micro"),
    ...     )
    >>> bool((found["distributional_error_difference_interval"] < 0).all())  # large ones err less
    True
    """
    sampling = checked_sampling(interval, resample, level, n_resamples, seed, "compare_panels")
    view = View.of(data, humans=humans)
    sides = [view.select(side, view.judges, "judges") for side in (a, b)]
    if not all(len(side) for side in sides):
        raise ProtocolError("`compare_panels` needs at least one judge in each panel.")
    both = np.unique(np.concatenate(sides))
    opened = OpenedPanel(
        data,
        "compare_panels",
        protocol,
        human=human,
        gold=gold,
        by=by,
        judges=[view.raters[position] for position in both],
        humans=humans,
        seed=seed,
        resample=None if interval is None else resample,
    )
    members = [np.searchsorted(both, side) for side in sides]
    opened.request(VOTES)

    def finish(counted: list[Any]) -> dict[str, Any]:
        slots = opened.slots(counted, 1)
        found = [[_compared(units, members, sampling) for units in tables] for tables in slots]
        return opened.stacked(found)

    arrays = opened.counting.run(finish, compute)
    trailing: dict[str, tuple[str, ...]] = {n: ("bound",) for n in arrays if n.endswith("_interval")}
    coords = {"bound": ("bound", ["lower", "upper"])} if trailing else {}
    stated: dict[str, Any] = {word: view.named(side) for word, side in zip("ab", sides, strict=True)}
    stated |= {"interval": sampling.method or "none", "seed": seed}
    if sampling.method is not None:
        stated |= {"resample": resample, "level": level, "n_resamples": n_resamples, "law": "multinomial"}
    result = opened.result("compare_panels", arrays, trailing, coords, **stated)
    gap = "no human label, or no answer of a member of either panel that is a category"
    if not opened.told(result, gap, compute):
        return result
    warn_undefined(result, [f"{name}_difference" for name in _SIZES])
    return result


def _compared(units: Units, members: list[npt.NDArray[Any]], sampling: Sampling) -> dict[str, Any]:
    """Sizes of both panels on one table, and their differences."""
    judges, h, gold, n_humans = flat_units(units, units.inside)
    sums = panel.panel_sums(judges, h, gold, n_humans=n_humans)
    found = [panel.effective_size(panel.subpanel_sums(sums, chosen)) for chosen in members]
    drawn: list[dict[str, Floats]] = [{}, {}]
    if sampling.method is not None:
        drawn = resampled_panels(units, "drop", sampling, members)
    for one, replicates in zip(found, drawn, strict=True):
        if replicates:
            turned = 2.0 / one.values["participation_ratio"] - 1.0 / replicates["participation_ratio"]
            sizes = np.divide(1.0, turned, out=np.full(turned.shape, np.nan), where=turned > 0)
            replicates["nu_h"] = sizes
    out: dict[str, Any] = {}
    for name in _SIZES:
        for word, one in zip("ab", found, strict=True):
            out |= {f"{name}_{word}": one.values[name], f"{name}_{word}_reason": one.reasons[name]}
        difference = found[0].values[name] - found[1].values[name]
        first, second = (int(one.reasons[name]) for one in found)
        out[f"{name}_difference"] = difference
        out[f"{name}_difference_reason"] = first if first != Reason.OK else second
        if sampling.method is not None:
            replicates_of = np.full(1, np.nan)
            if drawn[0]:
                replicates_of = drawn[0][name] - drawn[1][name]
            out |= _ends(f"{name}_difference", replicates_of, sampling.level)
    return out | {
        "n_items": np.int64(sums.n_items),
        "n_dropped": np.int64(sums.n_dropped),
    }


def _ends(name: str, replicates: Floats, level: float) -> dict[str, Any]:
    """Standard error, interval and undefined share of a difference."""
    defined = replicates[~np.isnan(replicates)]
    ends = percentile_interval(replicates, level)
    return {
        f"{name}_se": defined.std(ddof=1) if len(defined) > 1 else np.nan,
        f"{name}_interval": np.stack([ends.lower, ends.upper], axis=-1),
        f"{name}_undefined": undefined_share(replicates),
    }

"""Which of two panels is worth more? Both measured on the same items and the same resamples."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from xjudge._arguments import check_arguments
from xjudge.errors import ProtocolError, Reason
from xjudge.labelled._common import warn_undefined
from xjudge.labelled._panel_differences import compared
from xjudge.labelled._panel_pass import VOTES, OpenedPanel, Units, flat_units
from xjudge.labelled._panel_resample import checked_sampling
from xjudge.labelled._sampling import Sampling
from xjudge.protocol import Protocol
from xjudge.statistics import panel
from xjudge.view import View

__all__ = ["compare_panels"]

Ints = npt.NDArray[np.int64]

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
    Bootstrap-t, each difference in its own standard error; percentiles for ``nu_mse_limit``. The interval of
    a difference of ``nu_h`` or ``participation_ratio`` is for endless items, as in
    :func:`xjudge.effective_size`. Holds the votes.

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
    check_arguments(compare_panels, locals())
    methods = ("studentized", "percentile")
    sampling = checked_sampling(interval, resample, level, n_resamples, seed, "compare_panels", methods)
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
    members = np.searchsorted(both, sides[0]), np.searchsorted(both, sides[1])
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


def _compared(units: Units, members: tuple[Ints, Ints], sampling: Sampling) -> dict[str, Any]:
    """Sizes of both panels on one table, and their differences."""
    judges, h, gold, n_humans = flat_units(units, units.inside)
    sums = panel.panel_sums(judges, h, gold, n_humans=n_humans)
    found = [panel.effective_size(panel.subpanel_sums(sums, chosen)) for chosen in members]
    out: dict[str, Any] = {}
    for name in _SIZES:
        for word, one in zip("ab", found, strict=True):
            out |= {f"{name}_{word}": one.values[name], f"{name}_{word}_reason": one.reasons[name]}
        difference = found[0].values[name] - found[1].values[name]
        first, second = (int(one.reasons[name]) for one in found)
        out[f"{name}_difference"] = difference
        out[f"{name}_difference_reason"] = first if first != Reason.OK else second
    if sampling.method is not None:
        for name, ends in compared(units, sampling, members, _SIZES).items():
            out |= {f"{name}_difference_{word}": value for word, value in ends.items()}
    return out | {
        "n_items": np.int64(sums.n_items),
        "n_dropped": np.int64(sums.n_dropped),
    }

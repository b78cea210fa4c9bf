"""Does a judge say the same again? Flip rates between repeats, and what re-ordered options do to a panel."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from xjudge._arguments import check_arguments
from xjudge.errors import ProtocolError, Reason, StructureError
from xjudge.labelled._common import warn_undefined
from xjudge.labelled._panel_human import Gold, gold_side
from xjudge.labelled._panel_pass import VOTES, OpenedPanel, Units, flat_units
from xjudge.labelled._panel_resample import (
    checked_sampling,
    resampled_ratios,
    sums_of_units,
    units_of_items,
)
from xjudge.labelled._sampling import Sampling
from xjudge.protocol import Protocol
from xjudge.statistics import panel
from xjudge.statistics.counts import Request

__all__ = ["stability"]

_PANEL = (
    "squared_correlation_change",
    "squared_correlation_change_reason",
    "nu_h_change",
    "nu_h_change_reason",
    "reference_change",
    "change_ratio",
    "wrong_ratio",
    "first_option_rate",
    "n_flips",
    "n_flips_wrong",
    "n_flips_supported",
    "n_flips_supported_wrong",
    "n_flips_first",
    "n_wrong",
)


def stability(
    data: xr.Dataset | xr.DataArray,
    *,
    dim: str = "replicate",
    original: Any = None,
    first_option: str | None = None,
    human: str | None = "observed",
    gold: str = "mode",
    n_draws: int = 200,
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
    """Compare the judges' answers with their answers when asked again, or with options in another order.

    Parameters
    ----------
    data : Dataset or DataArray
        A judge dataset with a dim of repeats, see ``duplicates="replicate"`` of :func:`xjudge.from_long`;
        options are mapped back to the same categories.
    dim : str
        The dim of repeats.
    original : coordinate value, optional
        Which repeat the others are compared with; by default the first. Human labels are those of it.
    first_option : variable name, optional
        The category presented first in each repeat, on item [, ``dim``] [, criterion].
    human : {"observed", "count"} or variable name, or None
        As in :func:`xjudge.effective_size`; ``None`` for flip rates alone.
    gold : str
        As in :func:`xjudge.effective_size`.
    n_draws : int
        Draws of the reference in which answers move independently.
    protocol, by, judges, humans
        As in :func:`xjudge.effective_size`.
    interval, resample, level, n_resamples, seed
        Of the flip rates, from resampled items; ``seed`` also of the reference.
    compute : bool
        On lazy labels, whether to compute now; the votes are held in one task.

    Returns
    -------
    Dataset
        Per ``rater`` and ``dim`` (the other repeats): ``flip_rate``, the share of units answered twice with
        another category, with ``_reason``, ``_se``, ``_interval(bound)`` and ``n`` such units.

        With a human side, on the ``n_items`` units (by ``dim``; ``n_dropped``) that every judge answered
        twice: ``squared_correlation_change`` and ``nu_h_change`` (each with ``_reason``) of the panel when
        this judge's answers are replaced; ``reference_change`` and ``reference_change_band(bound)`` (central
        95%) if each answer moved independently with the judge's own transition rates; ``change_ratio`` of
        reference to change; ``n_flips``, of which ``n_flips_wrong`` from a wrong answer,
        ``n_flips_supported`` to the label that most humans give beside the original,
        ``n_flips_supported_wrong`` of both kinds, ``n_flips_first`` to the option presented first (-1 where
        not known); ``n_wrong`` original answers; ``wrong_ratio`` of the share of wrong answers among flips to
        that among all; ``first_option_rate`` among flips. ``mean_squared_correlation`` of the original panel.

    Raises
    ------
    StructureError, ProtocolError
        No such dim, or one repeat only.

    Warns
    -----
    DroppedWarning
        Units left out of the panel's measures.
    UndefinedWarning
        Judges that answered nothing twice.

    Notes
    -----
    Changes hold the order and whatever else varies between two calls. Holds the votes in memory.

    Examples
    --------
    >>> import pandas as pd
    >>> import xjudge as xj
    >>> frame = pd.DataFrame(
    ...     {"item": list("aabbcc"), "rater": ["j"] * 6, "label": ["no", "no", "no", "yes", "yes", "yes"]}
    ... )
    >>> ds = xj.from_long(
    ...     frame, judges=["j"], scale=xj.Scale.binary("no", "yes"), duplicates="replicate"
    ... )
    >>> round(xj.stability(ds, human=None)["flip_rate"].item(), 3)
    0.333
    """
    check_arguments(stability, locals())
    if isinstance(n_draws, bool) or n_draws < 1:
        raise ProtocolError(f"`n_draws` must be at least 1; got {n_draws!r}.")
    sampling = checked_sampling(interval, resample, level, n_resamples, seed, "stability")
    opened = OpenedPanel(
        data,
        "stability",
        protocol,
        human=human,
        gold=gold,
        by=by,
        judges=judges,
        humans=humans,
        seed=seed,
        without_humans=True,
        resample=None if interval is None else resample,
    )
    place = _original(opened, dim, original)
    opened.request(VOTES)
    if first_option is not None:
        _request_first(opened, first_option)
    repeats = _Repeats(opened, dim, place, n_draws, sampling)

    def finish(counted: list[Any]) -> dict[str, Any]:
        slots = opened.slots(counted, 1)
        shown = opened.slots(counted, 2) if first_option is not None else [None] * len(slots)
        found = [repeats.of(tables, first) for tables, first in zip(slots, shown, strict=True)]
        return opened.stacked(found)

    arrays = opened.counting.run(finish, compute)
    trailing: dict[str, tuple[str, ...]] = dict.fromkeys(
        [name for name in arrays if name in _PANEL or name.startswith("flip_rate") or name == "n"], ("rater",)
    )
    trailing |= {name: ("rater", "bound") for name in arrays if name.endswith(("_interval", "_band"))}
    coords = {"bound": ("bound", ["lower", "upper"])} if any("bound" in t for t in trailing.values()) else {}
    stated: dict[str, Any] = {"dim": dim, "original": opened.view.names(dim)[place], "n_draws": n_draws}
    stated |= {"first_option": first_option, "interval": sampling.method or "none", "seed": seed}
    if sampling.method is not None:
        stated |= {"resample": resample, "level": level, "n_resamples": n_resamples, "law": "multinomial"}
    result = opened.result("stability", arrays, trailing, coords, **stated)
    result = result.isel({dim: [n for n in range(result.sizes[dim]) if n != place]})
    result = result.transpose(
        *([] if by is None else [by]), "rater", dim, ..., "bound", missing_dims="ignore"
    )
    gap = "no human or gold label, or a judge that did not answer twice, for the panel's measures"
    known = compute or not opened.view.lazy
    if human is not None:
        opened.told(result, gap, compute)
    if known:
        warn_undefined(result, ["flip_rate"])
    return result


def _original(opened: OpenedPanel, dim: str, original: Any) -> int:
    """Place of the original on the dim of repeats.

    Raises
    ------
    StructureError
        No such dim, one repeat only, or no such repeat.
    """
    n = opened.view.others.get(dim, 0)
    if n < 2:
        there = f"has {n}" if n else "does not have it"
        raise StructureError(
            f"`stability` compares repeats along `{dim}`, of which it needs two, and the dataset {there}. "
            "Rows that repeat an item and rater become repeats with xj.from_long(duplicates='replicate')."
        )
    names = opened.view.names(dim).tolist()
    if original is None:
        return 0
    if original not in names:
        raise StructureError(f"`original={original!r}`: `{dim}` has {names}.")
    return int(names.index(original))


def _request_first(opened: OpenedPanel, first_option: str) -> None:
    """Ask for the options presented first, in the place of gold labels."""
    resolved = opened.protocol.resolve(opened.view.scale)
    columns = opened.counting.columns_of(resolved)
    shown: Gold = gold_side(opened.counting, columns, first_option, opened.protocol.aggregate, "first_option")
    options = {**opened.options, "gold": shown, "scores": shown.array or columns.name}
    opened.counting.requests.append(Request(VOTES, options))


class _Repeats:
    """Comparison of every repeat with the original."""

    def __init__(self, opened: OpenedPanel, dim: str, place: int, n_draws: int, sampling: Sampling) -> None:
        self.sizes = tuple(opened.view.others.values())
        self.axis = list(opened.view.others).index(dim)
        self.place, self.n_draws, self.sampling = place, n_draws, sampling
        self.with_humans = opened.human is not None

    def of(self, tables: list[Units], shown: list[Units] | None) -> list[dict[str, Any]]:
        """Values by name, table by table; the original is compared with itself."""
        found = []
        for position, units in enumerate(tables):
            at = np.unravel_index(position, (*self.sizes, len(tables) // int(np.prod(self.sizes))))
            base = list(at)
            base[self.axis] = np.intp(self.place)
            origin = int(np.ravel_multi_index(base, (*self.sizes, len(tables) // int(np.prod(self.sizes)))))
            one = self._flips(tables[origin], units)
            if self.with_humans:
                one |= self._panel(tables[origin], units, None if shown is None else shown[position])
            found.append(one)
        return found

    def _flips(self, before: Units, after: Units) -> dict[str, Any]:
        """Flip rates of every judge on what it answered twice."""
        twice = (before.judges >= 0) & (after.judges >= 0) & before.inside[..., None]
        flipped = twice & (before.judges != after.judges)
        n = twice.sum((0, 1))
        rate = np.divide(flipped.sum((0, 1)), n, out=np.full(n.shape, np.nan), where=n > 0)
        out: dict[str, Any] = {"flip_rate": rate}
        out["flip_rate_reason"] = np.where(n > 0, int(Reason.OK), int(Reason.NO_OVERLAP))
        if self.sampling.method is not None:
            some = twice.any(2)
            unit = units_of_items(before, self.sampling.resample)[some]
            part, whole = (sums_of_units(array[some].astype(np.float64), unit) for array in (flipped, twice))
            se, ends = resampled_ratios(part, whole, self.sampling)
            out |= {"flip_rate_se": se, "flip_rate_interval": ends}
        return out | {"n": n.astype(np.int64)}

    def _panel(self, before: Units, after: Units, shown: Units | None) -> dict[str, Any]:
        """What the panel's shared error does when one judge is replaced by its repeat."""
        judges, h, gold, _ = flat_units(before, before.inside)
        found = panel.presentation_effects(
            judges,
            after.judges[before.inside],
            h,
            gold,
            first_option=None if shown is None else shown.gold[before.inside],
            n_replicates=self.n_draws,
            seed=self.sampling.seed,
        )
        counts = found.counts
        why = Reason.NO_RESIDUAL_ENERGY if found.n_items else Reason.NO_ITEMS
        why = Reason.ONE_JUDGE if found.n_items and judges.shape[1] == 1 else why
        undefined = np.isnan(found.change)
        reason = np.where(undefined, int(why), int(Reason.OK))
        size = np.where(
            np.isnan(found.change_nu_h) & ~undefined, int(Reason.NON_POSITIVE_DENOMINATOR), reason
        )
        return {
            "squared_correlation_change": found.change,
            "squared_correlation_change_reason": reason,
            "nu_h_change": found.change_nu_h,
            "nu_h_change_reason": size,
            "reference_change": found.reference_mean,
            "reference_change_band": found.reference_band,
            "change_ratio": found.change_ratio,
            "wrong_ratio": found.wrong_ratio,
            "first_option_rate": found.first_option_rate,
            "n_flips": counts.flips,
            "n_flips_wrong": counts.originally_wrong,
            "n_flips_supported": counts.to_supported,
            "n_flips_supported_wrong": counts.to_supported_wrong,
            "n_flips_first": counts.to_first,
            "n_wrong": counts.wrong,
            "mean_squared_correlation": np.asarray(found.mean_squared_correlation),
            "n_items": np.asarray(found.n_items, dtype=np.int64),
            "n_dropped": np.asarray(found.n_dropped, dtype=np.int64),
        }

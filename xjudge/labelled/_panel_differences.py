"""Differences of two panels on shared resamples: each in its own standard error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from xjudge.labelled._panel_pass import Units
from xjudge.labelled._panel_resample import Sample, collect, joined, resamples
from xjudge.labelled._sampling import Sampling
from xjudge.statistics import panel
from xjudge.statistics.resample import percentile_interval, studentized_interval, undefined_share

__all__ = ["compared"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def compared(
    units: Units, sampling: Sampling, members: tuple[Ints, Ints], names: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Standard error, interval and undefined share of the differences of two panels, on shared resamples.

    Bootstrap-t, each difference in the standard error of the difference, but for ``nu_mse_limit``, which has
    percentiles; sizes of ``sum_ab C_ab^2`` after the panels' own chance correlations are taken out, see
    :class:`xjudge.labelled._panel_ends.Ends`.
    """
    sample = Sample(units, "drop", sampling.resample)
    studentized = sampling.method != "percentile"
    drawn: dict[str, list[Floats]] = {}
    errors: dict[str, list[Floats]] = {}
    whole = sample.multiplicity[None]
    shift = np.zeros(2)
    for weights, sums in resamples(sample, sampling):
        if not drawn:
            shift = _noises(sample, members)
        collect(drawn, _differences(sums, members, 2.0 * shift))
        if studentized:
            collect(errors, _errors(sample, sums, weights, members, 2.0 * shift))
    if not drawn:
        none = {"se": np.nan, "interval": np.full(2, np.nan), "undefined": np.nan}
        return dict.fromkeys(names, none)
    replicates, spread = joined(drawn), joined(errors)
    own = sample.sums(whole)
    centre = _differences(own, members, shift)
    error = _errors(sample, own, whole, members, shift) if studentized else {}
    out = {}
    for name in names:
        these = replicates[name]
        ends = percentile_interval(these, sampling.level)
        if name in error and error[name][0] > 0:
            ends = studentized_interval(centre[name][0], error[name][0], these, spread[name], sampling.level)
        defined = these[~np.isnan(these)]
        out[name] = {
            "se": defined.std(ddof=1) if len(defined) > 1 else np.nan,
            "interval": np.stack(ends, axis=-1),
            "undefined": undefined_share(these),
        }
    return out


def _sizes(sums: panel.PanelSums, chosen: Ints) -> tuple[panel.PanelSums, dict[str, Floats]]:
    """Sums of some of the judges, and their values."""
    part = panel.subpanel_sums(sums, chosen)
    return part, panel.effective_size(part).values


def _differences(
    sums: panel.PanelSums, members: tuple[Ints, Ints], shift: npt.NDArray[np.float64]
) -> dict[str, Floats]:
    """Differences (b,) of all values; sizes of correlations without their chance part."""
    sides = []
    for chosen, chance in zip(members, shift.tolist(), strict=True):
        values = _sizes(sums, chosen)[1]
        squared = 1.0 / values["participation_ratio"] - chance
        size = np.divide(1.0, squared, out=np.full(squared.shape, np.nan), where=squared > 0)
        sides.append(values | {"participation_ratio": size, "nu_h": size})
    return {name: sides[0][name] - sides[1][name] for name in sides[0] if sides[0][name].ndim == 1}


def _errors(
    sample: Sample,
    sums: panel.PanelSums,
    weights: npt.NDArray[Any],
    members: tuple[Ints, Ints],
    shift: Floats,
) -> dict[str, Floats]:
    """Standard errors (b,) of the differences at weights."""
    sides = [_sizes(sums, chosen) for chosen in members]
    total: dict[str, Floats] = {}
    for some, terms in sample.terms():
        a, b = (
            panel.size_influences(panel.subpanel_sums(terms, chosen), part, values, chance)
            for chosen, (part, values), chance in zip(members, sides, shift.tolist(), strict=True)
        )
        w = weights[:, some].astype(np.float64)
        for name in a:
            squares = np.einsum("bn,bn,bn->b", w, a[name] - b[name], a[name] - b[name])
            total[name] = total[name] + squares if name in total else squares
    return {name: np.sqrt(squares) for name, squares in total.items()}


def _noises(sample: Sample, members: tuple[Ints, Ints]) -> Floats:
    """Chance part of the mean squared correlation of each panel."""
    sums = panel.PanelSums(*(field[0] for field in sample.sums(sample.multiplicity[None])))
    found = np.zeros(2)
    for place, chosen in enumerate(members):
        part = panel.subpanel_sums(sums, chosen)
        for some, terms in sample.terms():
            own = panel.subpanel_sums(terms, chosen)
            found[place] += panel.correlation_noise(own, part, sample.multiplicity[some])
    return found

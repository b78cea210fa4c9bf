"""Resampled items of a panel: replicates of every size from weighted sums over distinct items."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError
from xjudge.labelled._panel_pass import Units
from xjudge.labelled._sampling import Sampling
from xjudge.statistics import panel
from xjudge.statistics.resample import multinomial_blocks, percentile_interval, undefined_share

__all__ = [
    "checked_sampling",
    "reciprocal",
    "resampled_panels",
    "resampled_ratios",
    "resampled_sizes",
    "sampled",
]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_WEIGHTS_AT_A_TIME = 1 << 23

_MOST_PRODUCTS = 1e11
"""Products of a weight and a pair of judges that ``interval="auto"`` spends: about half a minute."""


def checked_sampling(
    interval: str | None, resample: str, level: float, n_resamples: int, seed: int, verb: str
) -> Sampling:
    """Read what is asked of intervals.

    Raises
    ------
    ProtocolError
        Methods and units that panels do not have.
    """
    sampling = Sampling(interval, resample, level, n_resamples, seed)
    if interval not in (None, "auto", "percentile"):
        raise ProtocolError(
            f"`{verb}` has percentile intervals (interval='auto' or 'percentile') or none; got {interval!r}."
        )
    if interval is not None and resample not in ("items", "decisions"):
        raise ProtocolError(f"`{verb}` resamples 'items' or 'decisions'; got {resample!r}.")
    return sampling


class _Distinct:
    """Items that count, with equal ones counted together, in an order of their own."""

    def __init__(self, units: Units, incomplete: str, resample: str) -> None:
        used = units.used(incomplete)
        parts = [
            np.where(used[..., None], units.judges, -1),
            np.where(used, units.gold, -1)[..., None],
            used[..., None],
            np.where(used[..., None], units.human, 0),
        ]
        rows = np.concatenate(parts, axis=2)  # (item, criterion, what)
        if resample == "decisions":
            rows = rows.reshape(-1, 1, rows.shape[2])
            used = used.reshape(-1, 1)
        rows = rows[used.any(1)]
        flat, self.multiplicity = np.unique(
            rows.reshape(len(rows), rows.shape[1] * rows.shape[2]), axis=0, return_counts=True
        )
        apart = flat.reshape(len(flat), *rows.shape[1:])
        k = units.judges.shape[2]
        self.units = Units(
            apart[..., :k].astype(np.int64),
            apart[..., k + 2 :],
            apart[..., k].astype(np.int64),
            apart[..., k + 1] > 0,
            units.shares,
        )

    @property
    def n_products(self) -> float:
        """Products that one resample takes."""
        n, n_criteria, k = self.units.judges.shape
        return float(n) * n_criteria * k * k * (self.units.human.shape[2] + 2)


def _weighted_sums(units: Units, incomplete: str, sampling: Sampling) -> Iterator[panel.PanelSums]:
    """Sums of resampled items, some resamples at a time.

    Items that do not count are not resampled. There is no resample where none counts, and where
    ``interval="auto"`` would take too long.

    Notes
    -----
    The chance that two simulated humans agree depends on how often an item is drawn: an item drawn w times
    adds w^2 terms. Of M equal items drawn W times together, the expected sum of squares given W is
    ``W + W (W - 1) / M``, which takes its place.
    """
    distinct = _Distinct(units, incomplete, sampling.resample)
    too_long = distinct.n_products * sampling.n_resamples > _MOST_PRODUCTS
    if not len(distinct.multiplicity) or (sampling.method == "auto" and too_long):
        return
    inside = distinct.units.inside
    h, n_humans = distinct.units.distribution
    n, n_criteria, n_judges = distinct.units.judges.shape
    flat = (
        distinct.units.judges.reshape(-1, n_judges),
        np.where(inside[..., None], h, np.nan).reshape(n * n_criteria, -1),
        distinct.units.gold.reshape(-1),
    )
    humans = None if n_humans is None else n_humans.reshape(-1)
    shares = np.where(inside.reshape(-1, 1), np.nan_to_num(flat[1]), 0.0)
    s2, s3 = (shares**2).sum(-1), (shares**3).sum(-1)
    excess = np.maximum(s2 - 2.0 * s3 + s2**2, 0.0).reshape(n, n_criteria).sum(1)
    size = max(1, _WEIGHTS_AT_A_TIME // max(1, n * n_criteria))
    for weights in multinomial_blocks(distinct.multiplicity, sampling.n_resamples, sampling.seed, block=size):
        sums = panel.panel_sums(
            *flat,
            n_humans=humans,
            weights=np.repeat(weights, n_criteria, axis=1),
            incomplete=incomplete,
        )
        squares = weights + weights * (weights - 1) / distinct.multiplicity
        human = sums.human.copy()
        human[..., 2] = squares @ excess
        yield sums._replace(human=human)


def resampled_sizes(units: Units, incomplete: str, sampling: Sampling) -> dict[str, Floats]:
    """Replicates (B, ...) of every value of :func:`xjudge.statistics.panel.effective_size`; may be empty."""
    (found,) = resampled_panels(units, incomplete, sampling, [slice(None)])
    return found


def resampled_panels(
    units: Units, incomplete: str, sampling: Sampling, members: Sequence[Any]
) -> list[dict[str, Floats]]:
    """Replicates of the sizes of several panels of the judges, from the same resamples."""
    found: list[dict[str, list[Floats]]] = [{} for _ in members]
    n_judges = np.arange(units.judges.shape[2])
    for sums in _weighted_sums(units, incomplete, sampling):
        for chosen, values in zip(members, found, strict=True):
            sizes = panel.effective_size(panel.subpanel_sums(sums, n_judges[chosen])).values
            for name, value in sizes.items():
                values.setdefault(name, []).append(value)
    return [{name: np.concatenate(parts) for name, parts in values.items()} for values in found]


def sampled(
    units: Sequence[Units],
    incomplete: str,
    sampling: Sampling,
    names: Sequence[str],
    estimates: Sequence[Mapping[str, Any]],
) -> list[dict[str, Any]]:
    """Standard errors, intervals and undefined shares of named values, table by table.

    NaN throughout where nothing was resampled.
    """
    out = []
    for one, values in zip(units, estimates, strict=True):
        drawn = resampled_sizes(one, incomplete, sampling)
        table: dict[str, Any] = {}
        for name in names:
            replicates = drawn.get(name, np.full(1, np.nan))
            defined = replicates[~np.isnan(replicates)]
            if name == "nu_h" and drawn:
                ends = _reflected(reciprocal(values), reciprocal(drawn), sampling.level)
            else:
                found = percentile_interval(replicates, sampling.level)
                ends = np.stack([found.lower, found.upper], axis=-1)
            table[f"{name}_se"] = np.asarray(defined.std(ddof=1) if len(defined) > 1 else np.nan)
            table[f"{name}_interval"] = ends
            table[f"{name}_undefined"] = undefined_share(replicates) if drawn else np.asarray(np.nan)
        out.append(table)
    return out


def reciprocal(values: Mapping[str, Any]) -> Floats:
    """``1 / nu_h = (1 / PR - delta) / (1 - delta)``, which is not positive where ``PR delta >= 1``."""
    ratio, delta = (
        np.asarray(values[name], dtype=np.float64) for name in ("participation_ratio", "finite_n_delta")
    )
    return np.divide(1.0 / ratio - delta, 1.0 - delta, out=np.full(ratio.shape, np.nan), where=delta < 1)


def _reflected(estimate: Floats, replicates: Floats, level: float) -> Floats:
    """Interval of a size from quantiles of its reciprocal, reflected about the estimate.

    Delta takes simulated humans for granted: the noise of a panel that errs on other items than humans is
    not delta, and a resample has twice the noise and twice the delta. On the scale of the reciprocal both
    add, so reflecting takes the shift out; percentiles would count it twice (with rare human disagreement
    they covered 54% at a level of 95%, these 92%). An end whose reciprocal is not positive is infinite.
    """
    found = percentile_interval(replicates, level)
    # reflecting turns the order round, and so does the reciprocal
    ends = 2.0 * estimate - np.stack([found.lower, found.upper], axis=-1)
    sizes = np.where(ends > 0, 1.0 / np.where(ends > 0, ends, 1.0), np.inf)
    return np.where(np.isnan(ends).any() | (estimate <= 0), np.nan, sizes)


def resampled_ratios(part: Floats, whole: Floats, sampling: Sampling) -> tuple[Floats, Floats]:
    """Standard errors (m,) and intervals (m, 2) of ratios of sums over items, from resampled items.

    Parameters
    ----------
    part, whole : ndarray (item, m)
        What each item adds above and below.
    sampling : Sampling
    """
    drawn = [np.full((1, part.shape[1]), np.nan)]
    if len(part):
        every = np.ones(len(part), dtype=np.int64)
        drawn = []
        for weights in multinomial_blocks(every, sampling.n_resamples, sampling.seed):
            above, below = weights @ part, weights @ whole
            drawn.append(np.divide(above, below, out=np.full(above.shape, np.nan), where=below > 0))
    replicates = np.concatenate(drawn)
    ends = percentile_interval(replicates, sampling.level)
    known = ~np.isnan(replicates)
    n = known.sum(0)
    mean = np.where(known, replicates, 0.0).sum(0) / np.maximum(n, 1)
    squares = np.where(known, (replicates - mean) ** 2, 0.0).sum(0)
    spread = np.sqrt(np.divide(squares, n - 1, out=np.full(n.shape, np.nan), where=n > 1))
    return spread, np.stack([ends.lower, ends.upper], axis=-1)

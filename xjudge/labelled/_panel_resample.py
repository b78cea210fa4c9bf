"""Resampled items of a panel: replicates of every size, and their intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError, listing
from xjudge.labelled._panel_ends import Ends, Estimate, Products
from xjudge.labelled._panel_pass import Units
from xjudge.labelled._sampling import Sampling
from xjudge.statistics import panel
from xjudge.statistics.resample import (
    multinomial_blocks,
    percentile_interval,
    undefined_share,
)

__all__ = [
    "Sample",
    "checked_sampling",
    "collect",
    "joined",
    "resampled_ratios",
    "resamples",
    "sampled",
    "sums_of_units",
    "units_of_items",
]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_WEIGHTS_AT_A_TIME = 1 << 20

_BLOCK = 1 << 21
"""Numbers that units add to sums at a time."""

_TERMS_HELD = 1 << 25
"""Numbers of what units add to sums that are kept between resamples; beyond, they are made again."""

_MOST_PRODUCTS = 2e11
"""Products of a weight and a pair of judges that ``interval="auto"`` spends: about half a minute."""

_PRODUCTS_BESIDE = 1500
"""What a weighted unit costs beside its pairs, in products: its influence on every value."""

_UNITS = ("items", "decisions", "clusters")


def checked_sampling(
    interval: str | None,
    resample: str,
    level: float,
    n_resamples: int,
    seed: int,
    verb: str,
    methods: Sequence[str] = ("percentile",),
) -> Sampling:
    """Read what is asked of intervals.

    Raises
    ------
    ProtocolError
        Methods and units that panels do not have.
    """
    sampling = Sampling(interval, resample, level, n_resamples, seed)
    if interval not in (None, "auto", *methods):
        raise ProtocolError(
            f"`{verb}` has resampled intervals (interval='auto', {listing(methods)}) or none; "
            f"got {interval!r}."
        )
    if interval is not None and resample not in _UNITS:
        raise ProtocolError(f"`{verb}` resamples {listing(_UNITS)}; got {resample!r}.")
    return sampling


def units_of_items(units: Units, resample: str) -> Ints:
    """Number of the sampling unit of each item and criterion (item, criterion)."""
    n, n_criteria = units.gold.shape
    if resample == "decisions":
        return np.arange(n * n_criteria).reshape(n, n_criteria)
    of_item = np.arange(n) if resample == "items" or units.cluster is None else units.cluster
    return np.broadcast_to(np.asarray(of_item, dtype=np.int64)[:, None], (n, n_criteria))


class Sample:
    """Sampling units with equal items counted together, in an order of their own.

    Attributes
    ----------
    units : Units
        Distinct items that count.
    start : ndarray of int (n,)
        First item of each sampling unit: items and decisions are units of their own, clusters have several.
    times : ndarray of int (item,)
        How often a unit has the item.
    multiplicity : ndarray of int (n,)
        How often the unit is there.
    """

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
        some = used.any(1)
        rows = rows[some]
        width = rows.shape[1] * rows.shape[2]
        flat = rows.reshape(len(rows), width)
        self.incomplete, self.clustered = incomplete, resample == "clusters"
        if self.clustered:
            assert units.cluster is not None
            flat = np.concatenate([units.cluster[some][:, None], flat], axis=1)
        flat, counts = np.unique(flat, axis=0, return_counts=True)
        apart = flat[:, flat.shape[1] - width :].reshape(len(flat), *rows.shape[1:])
        k = units.judges.shape[2]
        self.units = Units(
            apart[..., :k].astype(np.int64),
            apart[..., k + 2 :],
            apart[..., k].astype(np.int64),
            apart[..., k + 1] > 0,
            units.shares,
        )
        self.start, self.times, self.multiplicity = np.arange(len(flat)), np.ones_like(counts), counts
        if self.clustered:
            self.start = np.unique(flat[:, 0], return_index=True)[1]
            self.times, self.multiplicity = counts, np.ones(len(self.start), dtype=np.int64)
        self._held: list[tuple[slice, panel.PanelSums]] | None = None

    @property
    def n_terms(self) -> int:
        """Numbers that items add to sums."""
        n, n_criteria, k = self.units.judges.shape
        return n * n_criteria * k * k * (self.units.human.shape[2] + 2)

    @property
    def n_products(self) -> float:
        """Products that one resample takes."""
        n, n_criteria, _ = self.units.judges.shape
        return float(self.n_terms) + n * n_criteria * _PRODUCTS_BESIDE

    def terms(self) -> Iterator[tuple[slice, panel.PanelSums]]:
        """What sampling units add to the sums, some units at a time."""
        if self._held is None and self.n_terms <= _TERMS_HELD:
            self._held = list(self._made())
        yield from self._made() if self._held is None else self._held

    def _made(self) -> Iterator[tuple[slice, panel.PanelSums]]:
        h, n_humans = self.units.distribution
        n, n_criteria, k = self.units.judges.shape
        size = max(1, _BLOCK // max(1, n_criteria * k * (k + 2) * (h.shape[2] + 1)))
        ends = np.append(self.start, n)
        first = 0
        while first < len(self.start):
            last = max(first + 1, int(np.searchsorted(ends, ends[first] + size, side="right")) - 1)
            rows = slice(int(ends[first]), int(ends[last]))
            sums = panel.panel_sums(
                self.units.judges[rows],
                np.where(self.units.inside[rows][..., None], h[rows], np.nan),
                self.units.gold[rows],
                n_humans=None if n_humans is None else n_humans[rows],
                incomplete=self.incomplete,
            )
            if self.clustered:
                inside, times = self.start[first:last] - self.start[first], self.times[rows]
                sums = panel.PanelSums(*(_added(field, times, inside) for field in sums))
            yield slice(first, last), sums
            first = last

    def sums(self, weights: npt.NDArray[Any]) -> panel.PanelSums:
        """Sums at weights (b, n) of the sampling units."""
        parts = [
            panel.PanelSums(*(np.tensordot(weights[:, some].astype(np.float64), f, axes=1) for f in terms))
            for some, terms in self.terms()
        ]
        return panel.combine_sums(*parts)

    def products(self, sums: panel.PanelSums, weights: npt.NDArray[Any]) -> Products:
        """Variances and covariances (b,) of values at weights; see ``panel.influence_products``."""
        total: Products = {}
        for some, terms in self.terms():
            for pair, part in panel.influence_products(terms, sums, weights[:, some]).items():
                total[pair] = total[pair] + part if pair in total else part
        return total

    def estimate(self, studentized: bool) -> Estimate:
        """Values of the whole sample: from the distinct units, so that no digit depends on chunks."""
        whole = self.multiplicity[None]
        sums = self.sums(whole)
        one = panel.PanelSums(*(field[0] for field in sums))
        products: Products = {}
        noise = 0.0
        if studentized:
            products = {pair: found[0] for pair, found in self.products(sums, whole).items()}
            parts = self.terms()
            noise = sum(panel.correlation_noise(terms, one, self.multiplicity[some]) for some, terms in parts)
        return Estimate(panel.effective_size(one).values, products, noise, self.units.judges.shape[2])


def _added(field: Floats, times: Ints, start: Ints) -> Floats:
    """Items of each cluster added, each as often as it is there."""
    shaped = times.reshape(-1, *[1] * (field.ndim - 1))
    return np.add.reduceat(field * shaped, start, axis=0)


def resamples(sample: Sample, sampling: Sampling) -> Iterator[tuple[npt.NDArray[Any], panel.PanelSums]]:
    """Weights and sums of resampled units, some resamples at a time.

    Items that do not count are not resampled. There is no resample of fewer than two units, and where
    ``interval="auto"`` would take too long.
    """
    too_long = sample.n_products * sampling.n_resamples > _MOST_PRODUCTS
    n = len(sample.multiplicity)
    if sample.multiplicity.sum() < 2 or (sampling.method == "auto" and too_long):
        return
    size = max(1, _WEIGHTS_AT_A_TIME // n)
    for weights in multinomial_blocks(sample.multiplicity, sampling.n_resamples, sampling.seed, block=size):
        yield weights, sample.sums(weights)


def sums_of_units(values: Floats, unit: Ints) -> Floats:
    """Values (m, ...) added up within the sampling units that they belong to (m,)."""
    place = np.unique(unit, return_inverse=True)[1].reshape(-1)
    out = np.zeros((int(place.max(initial=-1)) + 1, *values.shape[1:]))
    np.add.at(out, place, values)
    return out


def collect(into: dict[Any, list[Floats]], values: Mapping[Any, Floats]) -> None:
    """Keep the values of some resamples."""
    for name, value in values.items():
        into.setdefault(name, []).append(value)


def joined(parts: Mapping[Any, list[Floats]]) -> dict[Any, Floats]:
    """Values of all resamples."""
    return {name: np.concatenate(blocks) for name, blocks in parts.items()}


def sampled(
    units: Sequence[Units],
    incomplete: str,
    sampling: Sampling,
    names: Sequence[str],
) -> list[dict[str, Any]]:
    """Standard errors, intervals and undefined shares of named values, table by table.

    NaN throughout where nothing was resampled.
    """
    studentized = incomplete == "drop" and sampling.method != "percentile"
    out = []
    for one in units:
        sample = Sample(one, incomplete, sampling.resample)
        drawn: dict[str, list[Floats]] = {}
        products: dict[tuple[str, str], list[Floats]] = {}
        for weights, sums in resamples(sample, sampling):
            collect(drawn, panel.effective_size(sums).values)
            if studentized:
                collect(products, sample.products(sums, weights))
        replicates = joined(drawn)
        ends = None
        if drawn:
            ends = Ends(sample.estimate(studentized), replicates, joined(products), sampling.level)
        table: dict[str, Any] = {}
        for name in names:
            these = replicates.get(name, np.full(1, np.nan))
            defined = these[~np.isnan(these)]
            table[f"{name}_se"] = np.asarray(defined.std(ddof=1) if len(defined) > 1 else np.nan)
            table[f"{name}_interval"] = np.full(2, np.nan) if ends is None else ends.of(name)
            table[f"{name}_undefined"] = undefined_share(these) if drawn else np.asarray(np.nan)
        out.append(table)
    return out


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

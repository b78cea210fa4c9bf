"""True coverage of nominal 95 % intervals, by statistic and method: what `interval="auto"` is chosen from.

    OMP_NUM_THREADS=1 python benchmarks/coverage.py [--replicates 4000] [--resamples 999] [--minutes 20]

Samples are drawn from known probabilities, so the true value is known; an interval covers or it does not.
Every finished setting is added to `docs/data/coverage.csv`, which the documentation reads; a second run goes
on where the first one stopped, and prints the table where nothing is left. Three designs:

* two raters, one pair an item: tables are multinomial, and so are their resamples;
* five raters: items are multinomial over the count vectors (how many positive, how many negative labels);
* two raters and nine correlated criteria an item: items are drawn, and intervals are made twice, with items
  as sampling units and (wrongly) with single decisions.

Both raters have the stated prevalence and the stated kappa. `missing` is the share of pairs (two raters;
with nine criteria, of decisions) or of labels (five raters) that are not there, at random. Samples that
agree in every count are one sample with a multiplicity: the library, too, gives equal data equal resamples.
`undefined` is the share of samples in which the statistic is undefined; `none_*` the share of the others in
which a method gives no interval.
Coverage is among the intervals that are given.

`auto` is the interval that the library gives: the method chosen for the statistic, and where nobody disagrees
the bound on what was not seen. `warned` is the share of intervals that it would warn of. Both need no
resamples and are filled in for stored settings that lack them (`--again` computes them anew for all).
"""

from __future__ import annotations

import argparse
import csv
import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.labelled._level import few
from xjudge.labelled._sampling import transform
from xjudge.statistics.coefficients import evaluate
from xjudge.statistics.gradients import gradient
from xjudge.statistics.raters import (
    ItemStatistic,
    disagreeing_item,
    disagreeing_pair,
    item_statistic,
    unseen_units,
)
from xjudge.statistics.resample import (
    Interval,
    acceleration,
    bca_interval,
    delta_interval,
    percentile_interval,
    studentized_interval,
    wilson_interval,
)

Array = npt.NDArray[Any]

FILE = Path(__file__).resolve().parents[1] / "docs" / "data" / "coverage.csv"
SHARES = ("accuracy", "f1")
SCALES = ("identity", "fisher", "logit", "complement")
DELTA = tuple(f"{scale}{quantile}" for scale in SCALES for quantile in ("", "_t"))
METHODS = (*DELTA, "wilson", "percentile", "bca", "studentized")
KEY = ("raters", "criteria", "kappa", "missing", "n", "prevalence", "statistic", "unit")
NONE = ("none_delta", "none_bca", "none_studentized")
AUTO = ("auto", "none_auto", "warned")
COLUMNS = (*KEY, "truth", "replicates", "resamples", "undefined", *NONE, *METHODS, *AUTO)

AT_ONCE = 100_000
"""Resampled tables held at a time."""

CRITERIA = 9
COPIED = 0.3**0.5
"""Chance that a decision repeats what all criteria of its item share: correlation 0.3 between decisions."""


class Setting(NamedTuple):
    """What is drawn."""

    raters: int
    criteria: int
    kappa: float
    missing: float
    n: int
    prevalence: float

    def generator(self) -> np.random.Generator:
        """A stream of its own, so that the order of settings does not matter."""
        return np.random.default_rng([round(1000 * x) for x in self])

    def joint(self) -> Array:
        """Probabilities (2, 2) of a pair."""
        p, q = self.prevalence, 1 - self.prevalence
        apart = (1 - self.kappa) * p * q
        return np.array([[q * q + self.kappa * p * q, apart], [apart, p * p + self.kappa * p * q]])


def settings() -> Iterator[Setting]:
    """Every setting, the most wanted first."""
    sizes, prevalences = (50, 100, 500, 20), (0.5, 0.8, 0.95)
    for raters, criteria, kappa, missing in (
        (2, 1, 0.6, 0.0),
        (5, 1, 0.6, 0.0),
        (2, CRITERIA, 0.6, 0.0),
        (2, 1, 0.6, 0.5),
        (2, 1, 0.9, 0.0),
        (5, 1, 0.6, 0.5),
        (5, 1, 0.9, 0.0),
        (2, CRITERIA, 0.6, 0.5),
    ):
        for n, prevalence in itertools.product(sizes, prevalences):
            yield Setting(raters, criteria, kappa, missing, n, prevalence)


class Statistic(NamedTuple):
    """A statistic of sums over units, as intervals need it.

    Values and slopes are of sums (..., D); a unit of a kind adds its row of ``rows`` (kind, D).
    ``small`` says whether the delta-method variance takes the factor n / (n - 1).
    """

    name: str
    rows: Array
    value: Callable[[Array], Array]
    slope: Callable[[Array], Array]
    enters: Array
    small: bool

    def error(self, sums: Array, weights: Array) -> Array:
        """Standard errors from how often each kind of unit occurs, weights (..., kind)."""
        psi = self.slope(sums) @ self.rows.T
        square = (weights * np.where(np.isnan(psi), 0.0, psi) ** 2).sum(-1)
        if self.small:
            n = (weights * self.enters).sum(-1)
            square = square * n / np.maximum(n - 1, 1)
        return np.sqrt(square)


def of_pairs(name: str, rows: Array) -> Statistic:
    """A coefficient of two raters; rows are the cells that a unit adds to the table."""

    def tables(sums: Array) -> Array:
        return sums.reshape((*sums.shape[:-1], 2, 2))

    def slope(sums: Array) -> Array:
        return gradient(name, tables(sums)).reshape(sums.shape)

    return Statistic(
        name, rows, lambda sums: evaluate(name, tables(sums)).value, slope, rows.sum(1) > 0, False
    )


def of_raters(name: str, counts: Array) -> Statistic:
    """A coefficient of many raters; units are count vectors."""
    made: ItemStatistic = item_statistic(name, 2)
    enters = made.n_labels(counts) >= (1 if made.singletons else 2)
    return Statistic(name, made.terms(counts), lambda sums: made.value(sums)[0], made.gradient, enters, True)


# --------------------------------------------------------------------------------------------- intervals


class Tally:
    """Of one statistic: how often each method covered, weighted by the multiplicity of samples."""

    def __init__(self, truth: float) -> None:
        self.truth = truth
        self.samples = self.undefined = 0.0
        self.given: dict[str, float] = {}
        self.covered: dict[str, float] = {}

    def estimates(self, value: Array, times: Array) -> None:
        """Take note of the samples themselves."""
        self.samples += times.sum()
        self.undefined += times[np.isnan(value)].sum()

    def add(self, method: str, ends: Interval, value: Array, times: Array) -> None:
        """Take note of the intervals of a method."""
        given = ~np.isnan(ends.lower) & ~np.isnan(ends.upper) & ~np.isnan(value)
        # the ends may be exact where the truth is: rounding does not decide
        inside = (ends.lower <= self.truth + 1e-12) & (self.truth <= ends.upper + 1e-12)
        self.given[method] = self.given.get(method, 0.0) + times[given].sum()
        self.covered[method] = self.covered.get(method, 0.0) + times[given & inside].sum()

    def row(self) -> dict[str, str]:
        """Shares as they are stored."""
        defined = self.samples - self.undefined
        out = {"undefined": f"{self.undefined / self.samples:.4f}", "truth": f"{self.truth:.6g}"}
        for method, given in self.given.items():
            out[method] = f"{self.covered[method] / given:.4f}" if given else ""
        for column, method in zip(NONE, ("identity", "bca", "studentized"), strict=True):
            if method in self.given:
                out[column] = f"{1 - self.given[method] / defined:.4f}" if defined else ""
        return out


def linear(tally: Tally, name: str, value: Array, se: Array, n: Array, times: Array) -> None:
    """Delta intervals on every scale that fits, and Wilson's at the effective number of pairs."""
    known = np.where(se > 0, se, np.nan)
    for scale in SCALES:
        if scale == "logit" and name not in SHARES:
            continue
        for suffix, degrees in (("", None), ("_t", n - 1)):
            ends = delta_interval(value, known, transform=scale, degrees=degrees)
            tally.add(scale + suffix, ends, value, times)


def wilson(tally: Tally, value: Array, se: Array, pairs: Array, times: Array) -> None:
    """Wilson's interval as the library makes it: at as many pairs as the standard error is worth."""
    spread = value * (1 - value)
    size = np.divide(spread, se**2, out=pairs.astype(np.float64), where=(se > 0) & (spread > 0))
    usable = ~np.isnan(value)
    size = np.where(usable, size, 0.0)
    hits = np.minimum(np.where(usable, value, 0.0) * size, size)
    tally.add("wilson", wilson_interval(hits, size), value, times)


def of_samples(
    rng: np.random.Generator,
    statistics: list[Statistic],
    truths: list[float],
    samples: Array,
    n_resamples: int,
) -> list[Tally]:
    """Every method on samples (sample, kind): how often each kind of unit was drawn."""
    tallies = [Tally(truth) for truth in truths]
    distinct, times = np.unique(samples, axis=0, return_counts=True)
    for start in range(0, len(distinct), max(1, AT_ONCE // n_resamples)):
        own = distinct[start : start + max(1, AT_ONCE // n_resamples)]
        often = times[start : start + len(own)]
        total = own.sum(1)
        drawn = rng.multinomial(total, own / total[:, None], size=(n_resamples, len(own)))
        for statistic, tally in zip(statistics, tallies, strict=True):
            sums, drawn_sums = own @ statistic.rows, drawn @ statistic.rows
            value, se = statistic.value(sums), statistic.error(sums, own)
            tally.estimates(value, often)
            n = (own * statistic.enters).sum(1)
            linear(tally, statistic.name, value, se, n, often)
            if statistic.name == "accuracy":
                wilson(tally, value, se, sums.sum(1), often)
            replicates, errors = statistic.value(drawn_sums), statistic.error(drawn_sums, drawn)
            psi = statistic.slope(sums) @ statistic.rows.T
            accelerate = acceleration(np.where(np.isnan(psi), 0.0, psi), own)
            tally.add("percentile", percentile_interval(replicates), value, often)
            tally.add("bca", bca_interval(value, replicates, accelerate), value, often)
            ends = studentized_interval(value, se, replicates, errors)
            tally.add("studentized", ends, value, often)
    return tallies


# ----------------------------------------------------------------------------------------------- designs


def two_raters(setting: Setting, n_replicates: int, n_resamples: int) -> Iterator[dict[str, Any]]:
    """One pair an item: a table, and the items without a pair."""
    rng = setting.generator()
    cells = np.append(setting.joint().ravel() * (1 - setting.missing), setting.missing)
    rows = np.concatenate([np.eye(4), np.zeros((1, 4))])
    names = ("kappa", "phi", "accuracy", "gwet_ac1", "f1")
    truths = [float(evaluate(name, setting.joint()).value) for name in names]
    samples = rng.multinomial(setting.n, cells, size=n_replicates)
    statistics = [of_pairs(name, rows) for name in names]
    tallies = of_samples(rng, statistics, truths, samples, n_resamples)
    for name, tally in zip(names, tallies, strict=True):
        yield {"statistic": name, "unit": "items", **tally.row()}


def count_vectors_of(setting: Setting) -> tuple[Array, Array]:
    """Count vectors (vector, 2) of an item, and their probabilities."""
    size = setting.raters
    counts = np.array([(m - k, k) for m in range(size + 1) for k in range(m + 1)])
    copied, p = setting.kappa**0.5, setting.prevalence
    labels, positive = counts.sum(1), counts[:, 1]
    there = binomial(size, 1 - setting.missing, labels)
    cells = np.zeros(len(counts))
    for share, chance in ((p, copied + (1 - copied) * p), (1 - p, (1 - copied) * p)):
        cells += share * there * binomial(labels, chance, positive)
    used = cells > 0
    return counts[used], cells[used] / cells[used].sum()


def many_raters(setting: Setting, n_replicates: int, n_resamples: int) -> Iterator[dict[str, Any]]:
    """Raters who copy the item's class with probability sqrt(kappa), and otherwise guess by the prevalence.

    Their kappa, Fleiss kappa and alpha are then all the stated one.
    """
    rng = setting.generator()
    counts, cells = count_vectors_of(setting)
    names = ("alpha", "fleiss_kappa")
    samples = rng.multinomial(setting.n, cells, size=n_replicates)
    statistics = [of_raters(name, counts) for name in names]
    tallies = of_samples(rng, statistics, [setting.kappa] * len(names), samples, n_resamples)
    for name, tally in zip(names, tallies, strict=True):
        yield {"statistic": name, "unit": "items", **tally.row()}


def binomial(n: Array | int, p: float, k: Array) -> Array:
    """Binomial probabilities."""
    from scipy.stats import binom

    return np.asarray(binom.pmf(k, n, p))


def many_criteria(setting: Setting, n_replicates: int, n_resamples: int) -> Iterator[dict[str, Any]]:
    """Nine decisions an item, pooled: intervals from items, and from decisions as if they were apart."""
    rng, n = setting.generator(), setting.n
    joint = setting.joint()
    names = ("kappa", "accuracy")
    statistics = [of_pairs(name, np.eye(4)) for name in names]
    truths = [float(evaluate(name, joint).value) for name in names]
    tallies = {(name, unit): Tally(t) for name, t in zip(names, truths, strict=True) for unit in UNITS}
    edges = joint.ravel().cumsum()[:-1]
    step = max(1, 4 * AT_ONCE // (n * CRITERIA))
    for start in range(0, n_replicates, step):
        items = thinned(rng, correlated(rng, edges, (min(step, n_replicates - start), n)), setting.missing)
        for sample in items:
            table = sample.sum(0)
            picked = rng.integers(0, n, (n_resamples, n)) + n * np.arange(n_resamples)[:, None]
            weights = np.bincount(picked.ravel(), minlength=n * n_resamples).reshape(n_resamples, n)
            drawn = {
                "items": weights @ sample,
                "decisions": rng.multinomial(int(table.sum()), table / table.sum(), size=n_resamples),
            }
            for statistic, unit in itertools.product(statistics, UNITS):
                clustered(statistic, unit, tallies[statistic.name, unit], sample, drawn[unit])
    for (name, unit), tally in tallies.items():
        yield {"statistic": name, "unit": unit, **tally.row()}


UNITS = ("items", "decisions")


def clustered(statistic: Statistic, unit: str, tally: Tally, items: Array, drawn: Array) -> None:
    """Delta, Wilson and percentile intervals of one sample."""
    table, once = items.sum(0), np.ones(1)
    value = statistic.value(table[None])
    slope = statistic.slope(table)
    psi, times = (items @ slope, np.ones(len(items))) if unit == "items" else (slope, table)
    se = np.sqrt((times * np.where(np.isnan(psi), 0.0, psi) ** 2).sum(keepdims=True))
    tally.estimates(value, once)
    linear(tally, statistic.name, value, se, np.array([times.sum()]), once)
    if statistic.name == "accuracy":
        wilson(tally, value, se, table.sum(keepdims=True), once)
    replicates = statistic.value(drawn.astype(np.float64))[:, None]
    tally.add("percentile", percentile_interval(replicates), value, once)


# ------------------------------------------------------------------------------------ as the library does it


class Automatic(NamedTuple):
    """Samples of one statistic, as much as the library's interval needs of them; each (sample,)."""

    name: str
    truth: float
    value: Array
    se: Array
    units: Array
    """Sampling units that enter."""
    bound: Array
    """Lower end where nobody disagrees."""
    rare: Array
    """Units with a label beside the commonest category."""
    apart: Array
    """Units with a disagreement."""
    pooled: bool
    times: Array

    def row(self) -> dict[str, str]:
        """Coverage, missing intervals and warnings."""
        if self.name == "accuracy":
            spread = self.value * (1 - self.value)
            size = self.units.astype(np.float64)
            np.divide(spread, self.se**2, out=size, where=(self.se > 0) & (spread > 0))
            lower, upper = wilson_interval(np.minimum(self.value * size, size), size)
        else:
            known = np.where(self.se > 0, self.se, np.nan)
            found = delta_interval(self.value, known, transform=transform(self.name), degrees=self.units - 1)
            nobody = ~(self.se > 0) & (self.value == 1)
            lower, upper = np.where(nobody, self.bound, found.lower), np.where(nobody, 1.0, found.upper)
        defined = ~np.isnan(self.value)
        given = defined & ~np.isnan(lower)
        inside = given & (lower <= self.truth + 1e-12) & (self.truth <= upper + 1e-12)
        warned = given & (few(self.name, self.rare, self.apart, pooled=self.pooled) != 0)
        n = [float(self.times[which].sum()) for which in (defined, given, inside, warned)]
        return {
            "auto": f"{n[2] / n[1]:.4f}" if n[1] else "",
            "none_auto": f"{1 - n[1] / n[0]:.4f}" if n[0] else "",
            "warned": f"{n[3] / n[1]:.4f}" if n[1] else "",
        }


def of_tables(
    statistic: Statistic, truth: float, items: Array, table: Array, n: Array, se: Array
) -> Automatic:
    """Of tables (sample, 4) of two raters, from so many items (sample,), each sample once."""
    tables = table.reshape(-1, 2, 2).astype(np.float64)
    pairs = np.maximum(table.sum(1), 1)
    more = tables + (unseen_units() * pairs / np.maximum(n, 1))[:, None, None] * disagreeing_pair(tables)
    rare = np.minimum(tables.sum(2).min(1), tables.sum(1).min(1)) * n / pairs
    apart = (tables[:, 0, 1] + tables[:, 1, 0]) * n / pairs
    bound = evaluate(statistic.name, more).value
    value = statistic.value(table)
    pooled = bool((table.sum(1) > n).any())
    return Automatic(statistic.name, truth, value, se, n, bound, rare, apart, pooled, items)


def automatic(setting: Setting, n_replicates: int) -> dict[tuple[str, str], dict[str, str]]:
    """What the library gives in a setting, by statistic and unit; on the samples of the study itself.

    Only where criteria are pooled the samples are others, since resamples are drawn between them there.
    """
    rng = setting.generator()
    found: list[Automatic] = []
    if setting.raters > 2:
        counts, cells = count_vectors_of(setting)
        samples, times = np.unique(
            rng.multinomial(setting.n, cells, size=n_replicates), axis=0, return_counts=True
        )
        pairable = counts.sum(1) >= 2
        labels, units = samples @ (counts * pairable[:, None]), samples @ pairable
        rare = labels.min(1) * units / np.maximum(labels.sum(1), 1)
        apart = samples @ (counts.min(1) > 0)
        for name in ("alpha", "fleiss_kappa"):
            statistic, made = of_raters(name, counts), item_statistic(name, 2)
            sums = (samples @ statistic.rows).astype(np.float64)
            value, se = statistic.value(sums), statistic.error(sums, samples)
            bound = np.full(len(samples), np.nan)
            for place in np.flatnonzero((value == 1) & ~(se > 0)):
                once = disagreeing_item(made, counts, samples[place])
                bound[place] = made.value(sums[place] + unseen_units() * once)[0]
            n = (samples * statistic.enters).sum(1)
            found.append(Automatic(name, setting.kappa, value, se, n, bound, rare, apart, False, times))
        return {(one.name, "items"): one.row() for one in found}
    joint = setting.joint()
    if setting.criteria > 1:
        tables, n, errors = pooled_samples(setting, n_replicates, rng)
        for name, se in errors.items():
            statistic = of_pairs(name, np.eye(4))
            truth = float(evaluate(name, joint).value)
            found.append(of_tables(statistic, truth, np.ones(n_replicates), tables, n, se))
        return {(one.name, "items"): one.row() for one in found}
    cells = np.append(joint.ravel() * (1 - setting.missing), setting.missing)
    samples, times = np.unique(
        rng.multinomial(setting.n, cells, size=n_replicates), axis=0, return_counts=True
    )
    rows = np.concatenate([np.eye(4), np.zeros((1, 4))])
    for name in ("kappa", "phi", "accuracy", "gwet_ac1", "f1"):
        statistic = of_pairs(name, rows)
        table = samples @ rows
        se = statistic.error(table, samples)
        truth = float(evaluate(name, joint).value)
        found.append(of_tables(statistic, truth, times, table, table.sum(1), se))
    return {(one.name, "items"): one.row() for one in found}


def pooled_samples(
    setting: Setting, n_replicates: int, rng: np.random.Generator
) -> tuple[Array, Array, dict[str, Array]]:
    """Tables (sample, 4) of nine decisions an item, items with one, and standard errors from items."""
    edges, n = setting.joint().ravel().cumsum()[:-1], setting.n
    step = max(1, 4 * AT_ONCE // (n * CRITERIA))
    tables, units, errors = [], [], {"kappa": [], "accuracy": []}
    for start in range(0, n_replicates, step):
        items = thinned(rng, correlated(rng, edges, (min(step, n_replicates - start), n)), setting.missing)
        tables.append(items.sum(1))
        units.append((items.sum(2) > 0).sum(1))
        for name, parts in errors.items():
            slope = of_pairs(name, np.eye(4)).slope(tables[-1])
            psi = np.einsum("sic,sc->si", items, np.where(np.isnan(slope), 0.0, slope))
            parts.append(np.sqrt((psi**2).sum(1)))
    found = {name: np.concatenate(parts) for name, parts in errors.items()}
    return np.concatenate(tables), np.concatenate(units), found


def correlated(rng: np.random.Generator, edges: Array, shape: tuple[int, int]) -> Array:
    """Cells (sample, item, 4) of nine decisions an item that resemble each other."""
    shared = np.searchsorted(edges, rng.random((*shape, 1)), side="right")
    single = np.searchsorted(edges, rng.random((*shape, CRITERIA)), side="right")
    cell = np.where(rng.random((*shape, CRITERIA)) < COPIED, shared, single)
    return np.stack([(cell == c).sum(2) for c in range(4)], axis=2).astype(np.float64)


def thinned(rng: np.random.Generator, cells: Array, missing: float) -> Array:
    """Decisions that are left where each is missing with some probability."""
    return rng.binomial(cells.astype(np.int64), 1 - missing).astype(np.float64) if missing else cells


# ------------------------------------------------------------------------------------------------- study


def finished(file: Path, n_replicates: int) -> tuple[list[dict[str, str]], set[tuple[float, ...]]]:
    """Rows that are stored, and the settings that they complete."""
    if not file.exists():
        return [], set()
    with file.open(newline="", encoding="utf-8") as opened:
        rows = [row for row in csv.DictReader(opened) if int(row["replicates"]) >= n_replicates]
    return rows, {tuple(float(row[name]) for name in Setting._fields) for row in rows}


def store(file: Path, rows: list[dict[str, Any]]) -> None:
    """Write all rows anew; the file is never half written."""
    file.parent.mkdir(exist_ok=True)
    part = file.with_suffix(".part")
    with part.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.DictWriter(opened, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    part.replace(file)


def fill_in(rows: list[dict[str, Any]], found: dict[tuple[str, str], dict[str, str]]) -> None:
    """What the library gives, in the rows of a setting."""
    for row in rows:
        row |= found.get((row["statistic"], row["unit"]), {})


def show(rows: list[dict[str, Any]]) -> None:
    """Print coverage in percent."""
    shown = ("identity_t", "fisher_t", "logit_t", "complement_t", *METHODS[len(DELTA) :], "auto", "warned")
    print(" ".join(f"{name[:9]:>9}" for name in (*KEY, *shown)))
    for row in rows:
        key = [f"{str(row[name])[:9]:>9}" for name in KEY]
        print(" ".join(key + [f"{100 * float(row[m]):9.1f}" if row.get(m) else 9 * " " for m in shown]))


def main() -> None:
    """Go through the settings that are not stored yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--replicates", type=int, default=4000)
    parser.add_argument("--resamples", type=int, default=999)
    parser.add_argument("--minutes", type=float, default=20, help="CPU minutes after which none is begun")
    parser.add_argument("--again", action="store_true", help="compute `auto` and `warned` anew")
    parser.add_argument("--file", type=Path, default=FILE)
    chosen = parser.parse_args()
    rows, done = finished(chosen.file, chosen.replicates)
    stored: list[dict[str, Any]] = list(rows)
    for setting in settings():
        key = tuple(map(float, setting))
        if key in done:
            own = [row for row in stored if tuple(float(row[name]) for name in Setting._fields) == key]
            if chosen.again or not all(row.get("auto") for row in own if row["unit"] == "items"):
                fill_in(own, automatic(setting, chosen.replicates))
                store(chosen.file, stored)
            continue
        if time.process_time() > 60 * chosen.minutes:
            break
        start = time.process_time()
        design, resamples = two_raters, chosen.resamples
        if setting.raters > 2:
            design = many_raters
        elif setting.criteria > 1:
            design, resamples = many_criteria, min(chosen.resamples, 299)
        known = {**setting._asdict(), "replicates": chosen.replicates, "resamples": resamples}
        new = [{**known, **row} for row in design(setting, chosen.replicates, resamples)]
        fill_in(new, automatic(setting, chosen.replicates))
        stored += new
        store(chosen.file, stored)
        print(setting, f"{time.process_time() - start:.1f} s", flush=True)
    show(stored)


if __name__ == "__main__":
    main()

"""xjudge beside what people use today: CPU seconds, ratios, floors and goals, peak memory.

    python benchmarks/peers.py [--rows 1,4] [--repeats 5] [--without-numba] [--irrcac PYTHON]

Both sides run in one process on one thread, taking turns, through their public functions; figures are the
median CPU time, and values are compared before anything is timed. What each side starts from is ready before
the clock starts: a judge dataset here, floats with NaN (krippendorff) or columns of labels (scikit-learn)
there. Peers that would take minutes run a few resamples, and their time is scaled: those are marked ``~``.
Memory is the most that Python's allocators held at once beyond the start (compiled code adds some 2 MB).

irrCAC needs an old scipy and so an interpreter of its own: ``--irrcac`` or the variable ``IRRCAC_PYTHON``.
Rows are numbered as the goals are: 1 to 3 alpha, 4 all pairs, 5 against reading memory, 6 to 9 resampling.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import gc
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.remove(str(Path(__file__).parent))  # numba would take coverage.py for the package of that name
if "--without-numba" in sys.argv:
    sys.modules["numba"] = None  # type: ignore[assignment]

import krippendorff
import numpy as np
import numpy.typing as npt
import xarray as xr
from scipy.stats import bootstrap
from sklearn.metrics import cohen_kappa_score

import xjudge as xj
from xjudge.statistics import alpha, alpha_of_scores, count_vectors
from xjudge.statistics.raters import count_vector_histogram, histogram_of_counts

Labels = npt.NDArray[np.int8]
Call = Callable[[], Any]
LEVELS = ("nominal", "ordinal", "interval")
RESAMPLES, PART = 1_000, 5  # of row 8 and 9, and those that the peer makes


@dataclass(frozen=True)
class Case:
    """One line of the output: two calls whose values agree, and how much faster ours has to be.

    Parameters
    ----------
    row : int
    name : str
    ours, peer : callable
        Return values to compare; ``peer=None`` where there is nothing beside it.
    floor, goal : float or None
        Least ratio, and the one that is hoped for; ``None`` where none was set.
    calls : int
        Calls of each side behind one figure.
    scaled : float
        What the peer's time is multiplied by, where it does a part of the work.
    compared : bool
        Whether both return the same values (resamples are not the same).
    """

    row: int
    name: str
    ours: Call
    peer: Call | None
    floor: float | None = None
    goal: float | None = None
    calls: int = 1
    scaled: float = 1.0
    compared: bool = True


def labels_of(n_items: int, n_raters: int, n_categories: int, missing: float) -> Labels:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, n_categories, size=(n_items, 1), dtype=np.int8)
    noise = rng.integers(0, n_categories, size=(n_items, n_raters), dtype=np.int8)
    labels = np.where(rng.random((n_items, n_raters), dtype=np.float32) < 0.6, truth, noise)
    labels[rng.random((n_items, n_raters), dtype=np.float32) < missing] = -1
    return labels


def dataset(labels: Labels, scale: xj.Scale) -> xr.Dataset:
    n_items, n_raters = labels.shape
    return xr.Dataset(
        {"label": (("item", "rater"), labels, scale.to_attrs())},
        coords={
            "item": np.arange(n_items),
            "rater": [f"r{place}" for place in range(n_raters)],
            "role": ("rater", ["human"] * n_raters),
            "identity": ("rater", ["named"] * n_raters),
        },
    )


def floats_of(labels: Labels) -> npt.NDArray[np.float64]:
    return np.where(labels < 0, np.nan, labels.astype(np.float64)).T.copy()


# ----------------------------------------------------------------------------------------------------- alpha


def reliability(ds: xr.Dataset, **choices: Any) -> Any:
    choices = {"statistic": "alpha", "interval": None, **choices}
    return ds.judge.reliability(**choices)[choices["statistic"]].item()


def krippendorff_alpha(data: Any, level: str = "nominal") -> float:
    return float(krippendorff.alpha(data, level_of_measurement=level))


def every_level(labels: Labels, n_categories: int) -> list[float]:
    patterns, multiplicities = count_vector_histogram(labels, n_categories)
    return [float(alpha(patterns, level, item_weights=multiplicities)) for level in LEVELS]


def from_counts(counts: npt.NDArray[np.int64]) -> float:
    patterns, multiplicities = histogram_of_counts(counts)
    return float(alpha(patterns, item_weights=multiplicities))


def rows_of_alpha(n_items: int) -> Iterator[Case]:
    labels = labels_of(n_items, 8, 5, 0.5)
    floats, counts = floats_of(labels), count_vectors(labels, 5)
    scale = xj.Scale.interval([0.0, 1.0, 2.0, 3.0, 4.0])
    ds = dataset(labels, scale)
    size = f"{n_items:.0e} x 8, L=5, half missing"
    for level in LEVELS:
        yield Case(
            1,
            f"alpha, {size}, {level}",
            lambda level=level: reliability(ds, metric=level),
            lambda level=level: krippendorff_alpha(floats, level),
            40,
            100,
        )
    yield Case(
        1,
        "the same, three levels from one pass",
        lambda: every_level(labels, 5),
        lambda: [krippendorff_alpha(floats, level) for level in LEVELS],
        40,
        100,
    )
    yield Case(
        2,
        "the same, nominal, counts given to the peer",
        lambda: reliability(ds, metric="nominal"),
        lambda: float(krippendorff.alpha(value_counts=counts, level_of_measurement="nominal")),
        15,
        30,
    )
    yield Case(
        2,
        "the same, counts given to both",
        lambda: from_counts(counts),
        lambda: float(krippendorff.alpha(value_counts=counts, level_of_measurement="nominal")),
    )


def rows_of_small(_: int) -> Iterator[Case]:
    labels = labels_of(1000, 3, 5, 0.0)
    floats = floats_of(labels)
    ds = dataset(labels, xj.Scale.interval([0.0, 1.0, 2.0, 3.0, 4.0]))
    for level in LEVELS:
        yield Case(
            3,
            f"alpha, 1e3 x 3, L=5, {level}, statistics",
            lambda level=level: float(alpha(count_vectors(labels, 5), level)),
            lambda level=level: krippendorff_alpha(floats, level),
            1,
            2,
            calls=200,
        )
    yield Case(
        3,
        "the same, nominal, accessor",
        lambda: reliability(ds, metric="nominal"),
        lambda: krippendorff_alpha(floats),
        calls=50,
    )
    numbers = np.random.default_rng(1).normal(size=(60, 2))
    yield Case(
        3,
        "alpha of 60 x 2 distinct numbers, interval",
        lambda: float(alpha_of_scores(numbers)),
        lambda: krippendorff_alpha(numbers.T, "interval"),
        1,
        calls=20,
    )


# -------------------------------------------------------------------------------------------- pairs of raters


def all_kappas(ds: xr.Dataset, **choices: Any) -> npt.NDArray[np.float64]:
    found = ds.judge.agreement(statistic="kappa", raters="all", **{"interval": None, **choices})
    return found["kappa"].transpose("rater_a", "rater_b").values[np.triu_indices(ds.sizes["rater"], 1)]


def scikit_learn(labels: Labels) -> list[float]:
    out = []
    for a, b in itertools.combinations(labels.T, 2):
        both = (a >= 0) & (b >= 0)
        out.append(cohen_kappa_score(a[both], b[both]))
    return out


def rows_of_pairs(n_items: int) -> Iterator[Case]:
    labels = labels_of(n_items, 8, 5, 0.5)
    ds = dataset(labels, xj.Scale.nominal(["a", "b", "c", "d", "e"]))
    compiled = sys.modules.get("numba", True) is not None
    yield Case(
        4,
        f"all 28 kappas, {n_items:.0e} x 8, L=5, half missing",
        lambda: all_kappas(ds),
        lambda: scikit_learn(labels),
        30 if compiled else 12,
        100,
    )


def rows_of_reading(n_items: int) -> Iterator[Case]:
    """Here the ratio is the share: seconds of reading every label once over seconds of the tables."""
    for order, floor, goal in (("item", 0.05, None), ("rater", None, 0.20)):
        labels = labels_of(10 * n_items, 8, 2, 0.5)
        labels = np.ascontiguousarray(labels.T).T if order == "rater" else labels
        ds = dataset(labels, xj.Scale.binary("no", "yes"))
        yield Case(
            5,
            f"all pair tables, {10 * n_items:.0e} x 8, L=2, {order}-major, over reading",
            lambda ds=ds: ds.judge.tables(raters="all"),
            lambda labels=labels: labels.max(),
            floor,
            goal,
            compared=False,
        )


# ------------------------------------------------------------------------------------------------- resampling


def scipy_bootstrap(
    function: Callable[..., Any], n_items: int, n_resamples: int, **choices: Any
) -> npt.NDArray[np.float64]:
    """Percentile interval by scipy of a statistic of the positions of items."""
    found = bootstrap(
        (np.arange(n_items),), function, n_resamples=n_resamples, method="percentile", rng=0, **choices
    )
    return np.asarray(found.confidence_interval)


def rows_of_resampled_alpha(n_items: int) -> Iterator[Case]:
    for row, n, n_resamples, part, floor, goal in (
        (6, n_items, 1_000, 2, 2_000, 10_000),
        (6, n_items, 10_000, 2, None, None),
        (7, n_items // 100, 10_000, 100, 75, 150),
    ):
        labels = labels_of(n, 8, 5, 0.5)
        floats = floats_of(labels)
        ds = dataset(labels, xj.Scale.nominal(["a", "b", "c", "d", "e"]))
        np.testing.assert_allclose(reliability(ds), krippendorff_alpha(floats), atol=1e-9)

        def plain(items: Any, floats: Any = floats) -> float:
            return krippendorff_alpha(floats[:, items])

        yield Case(
            row,
            f"bootstrap of alpha, {n:.0e} x 8, L=5, B={n_resamples:,}",
            lambda ds=ds, b=n_resamples: reliability(ds, interval="percentile", n_resamples=b),
            lambda plain=plain, n=n, part=part: scipy_bootstrap(plain, n, part, vectorized=False),
            floor,
            goal,
            scaled=n_resamples / part,
            compared=False,
        )


def resampled_kappas(labels: Labels) -> Callable[..., npt.NDArray[np.float64]]:
    """All kappas of resamples (..., item) of two categories, as one would write them for scipy."""

    def kappas(items: Any, axis: int = -1) -> npt.NDArray[np.float64]:
        drawn = labels.T[:, items]
        out = []
        for a, b in itertools.combinations(drawn, 2):
            both = (a >= 0) & (b >= 0)
            n = both.sum(axis)
            yes_a, yes_b = ((a == 1) & both).sum(axis) / n, ((b == 1) & both).sum(axis) / n
            chance = yes_a * yes_b + (1 - yes_a) * (1 - yes_b)
            out.append((((a == b) & both).sum(axis) / n - chance) / (1 - chance))
        return np.stack(out)

    return kappas


def rows_of_resampled_pairs(n_items: int) -> Iterator[Case]:
    for n in (n_items // 10, n_items):
        labels = labels_of(n, 8, 2, 0.5)
        ds = dataset(labels, xj.Scale.binary("no", "yes"))
        kappas = resampled_kappas(labels)
        np.testing.assert_allclose(all_kappas(ds), kappas(np.arange(n)), atol=1e-12)

        def peer(kappas: Any = kappas, n: int = n) -> Any:
            return scipy_bootstrap(kappas, n, PART, vectorized=True, batch=1)

        size = f"{n:.0e} x 8, L=2, half missing, B=1,000"
        large = n == n_items
        yield Case(
            8,
            f"joint bootstrap of 28 kappas, {size}",
            lambda ds=ds: reliability(
                ds, statistic="mean_pairwise_kappa", interval="percentile", n_resamples=RESAMPLES
            ),
            peer,
            None if large else 12,
            200 if large else 40,
            scaled=RESAMPLES / PART,
            compared=False,
        )
        yield Case(
            9,
            f"intervals of each of 28 kappas, {size}",
            lambda ds=ds: all_kappas(ds, interval="percentile", n_resamples=RESAMPLES),
            peer,
            None if large else 200,
            500,
            scaled=RESAMPLES / PART,
            compared=False,
        )


# ----------------------------------------------------------------------------------------------------- timing


def seconds(call: Call, calls: int) -> float:
    gc.collect()
    start = time.process_time()
    for _ in range(calls):
        call()
    return (time.process_time() - start) / calls


def peak(call: Call) -> float:
    """Most memory held at once beyond what was there, in MB."""
    gc.collect()
    tracemalloc.start()
    call()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most / 1e6


def timed(case: Case, repeats: int) -> tuple[float, float]:
    """Median CPU seconds of both sides, taking turns; a peer that takes long is not repeated as often."""
    assert case.peer is not None
    ours, theirs, spent = [], [], 0.0
    for _ in range(repeats):
        ours.append(seconds(case.ours, case.calls))
        if spent < 10.0:
            theirs.append(seconds(case.peer, case.calls))
            spent += theirs[-1] * case.calls
    return statistics.median(ours), statistics.median(theirs) * case.scaled


def verdict(ratio: float, case: Case) -> str:
    if case.floor is not None and ratio < case.floor:
        return "below the floor"
    if case.goal is not None:
        return "goal met" if ratio >= case.goal else "goal not met"
    return "floor met" if case.floor is not None else ""


def figure(value: float | None) -> str:
    return "-" if value is None else f"{value:,.2f}" if value < 1 else f"{value:,.0f}"


HEADER = (
    f"{'row':>3} {'case':68}{'ours ms':>10}{'peer ms':>13}{'ratio':>9}{'floor':>7}{'goal':>8}"
    f"{'ours MB':>9}{'peer MB':>9}"
)


def report(case: Case, repeats: int) -> None:
    assert case.peer is not None
    mine, theirs = case.ours(), case.peer()  # compiles and warms up, and is compared
    if case.compared:
        np.testing.assert_allclose(mine, theirs, atol=1e-9)
    ours, peer = timed(case, repeats)
    ratio = peer / ours
    mark = "~" if case.scaled != 1 else " "
    shown = f"{ratio:.2f}" if ratio < 10 else f"{ratio:,.0f}"
    print(
        f"{case.row:>3} {case.name:68}{ours * 1e3:10.3f}{mark}{peer * 1e3:12,.2f}{shown:>9}"
        f"{figure(case.floor):>7}{figure(case.goal):>8}{peak(case.ours):9.2f}{peak(case.peer):9.1f}"
        f"  {verdict(ratio, case)}",
        flush=True,
    )


# ----------------------------------------------------------------------------------------------------- irrCAC

IRRCAC = """
import json, statistics, sys, time, tracemalloc
import numpy as np, pandas as pd
from irrCAC.raw import CAC
labels = np.load(sys.argv[1])
frame = pd.DataFrame(np.where(labels < 0, np.nan, labels.astype(float)))
times = []
for _ in range(int(sys.argv[2])):
    start = time.process_time()
    found = CAC(frame).krippendorff()
    times.append(time.process_time() - start)
tracemalloc.start()
CAC(frame).krippendorff()
value, most = found["est"]["coefficient_value"], tracemalloc.get_traced_memory()[1]
print(json.dumps([statistics.median(times), float(value), most / 1e6]))
"""


def beside_irrcac(python: str | None, n_items: int, repeats: int, rows: set[int]) -> None:
    for row, n, n_raters, missing, calls, floor in (
        (1, n_items, 8, 0.5, 3, 40),
        (3, 1_000, 3, 0.0, 50, None),
    ):
        if row not in rows:
            continue
        name = f"alpha, {n:.0e} x {n_raters}, L=5, nominal, irrCAC in its own process"
        if python is None:
            print(f"{row:>3} {name:68}{'no interpreter with irrCAC: --irrcac or IRRCAC_PYTHON':>20}")
            continue
        labels = labels_of(n, n_raters, 5, missing)
        ds = dataset(labels, xj.Scale.nominal(["a", "b", "c", "d", "e"]))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "labels.npy"
            np.save(path, labels)
            run = subprocess.run(
                [python, "-c", IRRCAC, str(path), str(calls)], capture_output=True, text=True, check=True
            )
        peer, value, megabytes = json.loads(run.stdout)
        np.testing.assert_allclose(reliability(ds), value, atol=1e-5)  # irrCAC rounds
        ours = statistics.median(seconds(lambda: reliability(ds), 1) for _ in range(repeats))  # noqa: B023
        case = Case(row, name, lambda: None, None, floor)
        print(
            f"{row:>3} {name:68}{ours * 1e3:10.3f} {peer * 1e3:12,.2f}{peer / ours:>9,.0f}{figure(floor):>7}"
            f"{'-':>8}{peak(lambda: reliability(ds)):9.2f}{megabytes:9.1f}  {verdict(peer / ours, case)}"  # noqa: B023
        )


ROWS = {
    (1, 2): rows_of_alpha,
    (3,): rows_of_small,
    (4,): rows_of_pairs,
    (5,): rows_of_reading,
    (6, 7): rows_of_resampled_alpha,
    (8, 9): rows_of_resampled_pairs,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", help="numbers with commas between; all by default")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--items", type=int, default=10**6, help="of the large cases")
    parser.add_argument("--without-numba", action="store_true")
    parser.add_argument("--irrcac", default=os.environ.get("IRRCAC_PYTHON"), metavar="PYTHON")
    options = parser.parse_args()
    rows = set(range(1, 10)) if options.rows is None else {int(row) for row in options.rows.split(",")}
    warnings.simplefilter("ignore", xj.errors.XJudgeWarning)
    numba = "absent" if options.without_numba or not _has_numba() else "present"
    print(f"numba {numba}; ~ a part of the peer's work, scaled")
    print(HEADER)
    for numbers, cases in ROWS.items():
        if rows & set(numbers):
            for case in cases(options.items):
                if case.row in rows:
                    report(case, options.repeats)
    beside_irrcac(options.irrcac, options.items, options.repeats, rows)


def _has_numba() -> bool:
    from importlib.util import find_spec

    return find_spec("numba") is not None


if __name__ == "__main__":
    main()

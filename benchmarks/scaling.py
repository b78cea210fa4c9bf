"""How throughput depends on chunks, raters, categories and missing labels, and cost on the number of items.

    OMP_NUM_THREADS=1 python -P benchmarks/scaling.py [--labels 8e6] [--repeats 3] [--json]

Labels are uniform over the categories, a share of them missing, in dask chunks along the items; one thread,
CPU seconds, the median of the repeats. Every row changes one thing of 8 raters (3 humans), 2 categories, half
of the labels missing, 250,000 items a chunk. Columns are M labels/s (items x raters over seconds): of all
pair tables, of alpha of all raters, of leave-one-out, and of effective sizes. The last table has seconds by
items, and the slope of the logarithms of what they exceed a call on 1,000 items by: 1 where cost is
proportional. `read` is numpy's maximum over labels, the speed of reading in this run; `--json` prints the
figures beside it for benchmarks/history.py.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import dask
import dask.array as da
import numpy as np
import xarray as xr

import xjudge as xj


@dataclass(frozen=True)
class Cell:
    """What is measured.

    Parameters
    ----------
    n_raters, n_categories : int
    missing : float
        Share of labels.
    chunk : int
        Items.
    """

    n_raters: int = 8
    n_categories: int = 2
    missing: float = 0.5
    chunk: int = 250_000

    @property
    def name(self) -> str:
        """In words."""
        return (
            f"{self.n_raters} raters, {self.n_categories} categories, {self.missing:.0%} missing, "
            f"{self.chunk:,} items a chunk"
        )


BASE = Cell()
ROWS = [
    *(replace(BASE, chunk=chunk) for chunk in (10_000, 50_000, 250_000, 1_000_000)),
    *(replace(BASE, n_raters=n) for n in (4, 16, 32, 64)),
    *(replace(BASE, n_categories=n) for n in (3, 5, 10)),
    *(replace(BASE, missing=share) for share in (0.0, 0.9)),
]
N_ITEMS = (500_000, 1_000_000, 2_000_000, 4_000_000)
READ = 1 << 26
"""Labels that are read for comparison, more than a cache holds."""

VERBS: dict[str, Callable[[xr.Dataset], Any]] = {
    "tables": lambda ds: xj.agreement(ds, raters="all", statistic="accuracy", interval=None),
    "alpha": lambda ds: xj.reliability(ds, raters="all", interval=None),
    "leave-one-out": lambda ds: xj.loo_validate(ds),
    "size": lambda ds: xj.effective_size(ds, incomplete="pairwise", interval=None),
}


def dataset(cell: Cell, n_items: int) -> xr.Dataset:
    """Random labels in dask chunks."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, cell.n_categories, (n_items, cell.n_raters), dtype=np.int8)
    labels[rng.random(labels.shape, dtype=np.float32) < cell.missing] = -1
    n_humans = min(3, cell.n_raters // 2)
    roles = ["human"] * n_humans + ["judge"] * (cell.n_raters - n_humans)
    scale = xj.Scale.nominal([f"c{n}" for n in range(cell.n_categories)])
    return xr.Dataset(
        {"label": (("item", "rater"), da.from_array(labels, chunks=(cell.chunk, -1)), scale.to_attrs())},
        coords={"rater": np.arange(cell.n_raters), "role": ("rater", roles)},
    )


def seconds(call: Callable[[], Any], repeats: int) -> float:
    """Median CPU seconds, after once for kernels to be compiled."""
    call()
    taken = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        taken.append(time.process_time() - start)
    return median(taken)


def throughput(cell: Cell, n_labels: int, repeats: int) -> dict[str, float]:
    """M labels/s of each verb."""
    ds = dataset(cell, n_labels // cell.n_raters)
    return {
        name: ds["label"].size / seconds(lambda: verb(ds), repeats) / 1e6  # noqa: B023 (called here)
        for name, verb in VERBS.items()
    }


def reading(repeats: int) -> float:
    """M labels/s of numpy's maximum."""
    labels = np.random.default_rng(0).integers(-1, 2, READ, dtype=np.int8)
    return 10 * READ / seconds(lambda: [labels.max() for _ in range(10)], repeats) / 1e6


def slopes(repeats: int) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Seconds by the number of items, and the slope of their logarithms."""
    taken: dict[str, list[float]] = {name: [] for name in VERBS}
    for n_items in (1000, *N_ITEMS):
        ds = dataset(BASE, n_items)
        for name, verb in VERBS.items():
            taken[name].append(seconds(lambda: verb(ds), repeats))  # noqa: B023 (called here)
    slope = {}
    for name, (fixed, *times) in taken.items():
        slope[name] = float(np.polyfit(np.log(N_ITEMS), np.log(np.array(times) - fixed), 1)[0])
    return taken, slope


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--labels", type=float, default=8e6, help="labels of a row")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="figures for benchmarks/history.py")
    options = parser.parse_args()
    n_labels = int(options.labels)
    warnings.simplefilter("ignore", xj.XJudgeWarning)
    dask.config.set(scheduler="synchronous")
    read = reading(options.repeats)
    if options.json:
        rows = {cell.name: throughput(cell, n_labels, options.repeats) for cell in dict.fromkeys(ROWS)}
        figures = {f"{verb}: {name}": speed for name, row in rows.items() for verb, speed in row.items()}
        print(json.dumps({"read": read, "figures": figures}))
        return
    print(f"read: {read:,.0f} M labels/s")
    print(f"{'M labels/s':66}" + "".join(f"{name:>15}" for name in VERBS))
    for cell in ROWS:
        row = throughput(cell, n_labels, options.repeats)
        print(f"{cell.name:66}" + "".join(f"{speed:>15,.0f}" for speed in row.values()), flush=True)
    taken, slope = slopes(options.repeats)
    print(f"\n{'seconds, by items':66}" + "".join(f"{name:>15}" for name in VERBS))
    for place, n_items in enumerate((1000, *N_ITEMS)):
        print(f"{n_items:<66,}" + "".join(f"{times[place]:>15.3f}" for times in taken.values()))
    print(f"{'slope':66}" + "".join(f"{value:>15.2f}" for value in slope.values()))


if __name__ == "__main__":
    main()

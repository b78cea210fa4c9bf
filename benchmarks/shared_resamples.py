"""Judges that share their resamples: weights drawn once, beside weights drawn again for each of them.

    python benchmarks/shared_resamples.py [--items 100000] [--repeats 5]

CPU seconds of `rank` with 1,000 resamples of items, 8 raters on two categories, half of the labels missing.
Both ways take turns in one process on one thread, and their results are compared; the second holds one
estimate at a time, so that its weights are its own. Figures are medians.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.remove(str(Path(__file__).parent))  # numba would take coverage.py for the package of that name

import numpy as np
import xarray as xr

import xjudge as xj
from xjudge.labelled import _together

RESAMPLES = 1_000


def dataset(n_items: int) -> xr.Dataset:
    """One human and seven judges, who are right four times in five."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, n_items)
    labels = np.where(rng.random((n_items, 8)) < 0.8, truth[:, None], 1 - truth[:, None])
    labels[rng.random(labels.shape) < 0.5] = -1
    return xr.Dataset(
        {"label": (("item", "rater"), labels.astype(np.int8), xj.Scale.binary("no", "yes").to_attrs())},
        coords={
            "item": np.arange(n_items),
            "rater": ["human", *(f"judge {k}" for k in range(1, 8))],
            "role": ("rater", ["human"] + ["judge"] * 7),
        },
    )


def seconds(call: Callable[[], xr.Dataset], rows: int) -> tuple[float, xr.Dataset]:
    """CPU time with so many bytes of contributions side by side, and the result."""
    _together._ROWS = rows
    start = time.process_time()
    found = call()
    return time.process_time() - start, found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    ds = dataset(asked.items)
    whole = _together._ROWS
    for name in ("accuracy", "kappa"):

        def call(name: str = name) -> xr.Dataset:
            return xj.rank(ds, statistic=name, n_resamples=RESAMPLES)

        times: dict[int, list[float]] = {whole: [], 1: []}
        for _ in range(asked.repeats):
            results = []
            for rows, taken in times.items():
                used, found = seconds(call, rows)
                taken.append(used)
                results.append(found)
            xr.testing.assert_identical(*results)
        once, again = (statistics.median(taken) for taken in times.values())
        print(
            f"rank, {name:8s} 7 judges, {asked.items:.0e} items, B={RESAMPLES:,}: together {once * 1e3:7.0f} "
            f"ms, one after the other {again * 1e3:7.0f} ms, ratio {again / once:.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()

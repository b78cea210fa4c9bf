"""Labels out of core, beside reading them and doing nothing: CPU seconds, wall seconds, peak memory.

    python benchmarks/out_of_core.py FOLDER --make                # writes the labels there, 1e8 of them
    python benchmarks/out_of_core.py FOLDER                       # fresh processes taking turns, then ratios
    python benchmarks/out_of_core.py FOLDER --labels 1e9 --make   # 1 GB of labels, 0.25 GB stored
    python benchmarks/out_of_core.py FOLDER --labels 1e9 --only raw2,dask,tables,all

The labels are 32 raters (4 humans, 28 judges) by items, two categories, half of them missing, int8, in zarr
with its default compression (zstd), the same in every run. What is compared:

* raw1, raw2: every chunk read by zarr, in one thread or in two, and its maximum taken;
* dask: the maximum through dask.array, two threads;
* tables: all pair tables (`xj.agreement` of all raters with each other, no intervals);
* reliability: Krippendorff's alpha of the humans, with its interval;
* loo: the judges validated with each human left out in turn (`xj.loo_validate`, accuracy);
* size: effective sizes of the panel of judges, pairs of judges on the items both answered;
* all: pair tables, alpha, leave-one-out and effective sizes of the judges in one `dask.compute`.

Each figure is of a fresh process whose BLAS has one thread; imports and the compilation of kernels (on other
labels) are left out of the seconds and not of the memory. Shares are of raw reading over ours: the floors are
50 % of raw dask and 40 % of the raw two-thread read under 1 GiB, the goals 80 % and 70 % under 600 MB.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import dask
import dask.array as da
import numpy as np
import xarray as xr
import zarr

import xjudge as xj

N_RATERS, N_HUMANS = 32, 4
SCALE = xj.Scale.binary("no", "yes")
PEER = {"tables": "dask", "reliability": "dask", "all": "raw2"}
FLOORS = {"dask": (0.5, 0.8), "raw2": (0.4, 0.7)}
MEMORY_FLOOR, MEMORY_GOAL = 1024, 600


# ------------------------------------------------------------------------------------------------- the labels


def block(positions: np.ndarray, *, size: int) -> np.ndarray:
    """Labels of a block of items, from its own generator: the same whatever else is made."""
    generator = np.random.default_rng([0, int(positions[0]) // size])
    bits = generator.integers(0, 4, (len(positions), N_RATERS), dtype=np.int8)
    return np.where(bits & 1, np.int8(-1), bits >> 1)


def make(store: Path, n_items: int, chunk: int) -> None:
    """Write the labels, chunk by chunk."""
    needed = n_items * N_RATERS * 0.3
    free = shutil.disk_usage(store.parent).free
    if free < needed * 1.2:
        raise SystemExit(
            f"{store.parent} has {free / 1e9:.1f} GB free; the labels take {needed / 1e9:.1f} GB."
        )
    labels = da.arange(n_items, chunks=chunk)[:, None].map_blocks(
        lambda p: block(p[:, 0], size=chunk),
        dtype=np.int8,
        chunks=((*labels_chunks(n_items, chunk),), (N_RATERS,)),
    )
    roles = ["human"] * N_HUMANS + ["judge"] * (N_RATERS - N_HUMANS)
    ds = xr.Dataset(
        {"label": (("item", "rater"), labels, SCALE.to_attrs())},
        coords={
            "rater": np.arange(N_RATERS),
            "role_code": ("rater", np.array([r == "judge" for r in roles])),
        },
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zarr has no word on consolidated metadata yet
        ds.to_zarr(store, mode="w")


def labels_chunks(n_items: int, chunk: int) -> list[int]:
    return [min(chunk, n_items - start) for start in range(0, n_items, chunk)]


def opened(store: Path) -> xr.Dataset:
    """The judge dataset, lazy."""
    ds = xr.open_zarr(store)
    role = np.where(ds["role_code"].values, "judge", "human")
    return ds.drop_vars("role_code").assign_coords(role=("rater", role))


# ---------------------------------------------------------------------------------------------- what is timed


def read(store: Path, n_threads: int) -> int:
    array = zarr.open_array(store / "label", mode="r")
    size = array.chunks[0]
    starts = range(0, array.shape[0], size)

    def largest(start: int) -> int:
        return int(array[start : start + size].max())

    if n_threads == 1:
        return max(map(largest, starts))
    with ThreadPoolExecutor(n_threads) as pool:
        return max(pool.map(largest, starts))


def through_dask(store: Path) -> int:
    return int(xr.open_zarr(store)["label"].data.max().compute())


def pair_tables(ds: xr.Dataset) -> xr.Dataset:
    return xj.agreement(ds, raters="all", statistic="accuracy", interval=None, compute=False)


def everything(ds: xr.Dataset) -> list[xr.Dataset]:
    return [
        pair_tables(ds),
        xj.reliability(ds, compute=False),
        xj.loo_validate(ds, compute=False),
        xj.effective_size(ds, incomplete="pairwise", interval=None, compute=False),
    ]


VERBS: dict[str, Callable[[xr.Dataset], Any]] = {
    "tables": pair_tables,
    "reliability": lambda ds: xj.reliability(ds, compute=False),
    "loo": lambda ds: xj.loo_validate(ds, compute=False),
    "size": lambda ds: xj.effective_size(ds, incomplete="pairwise", interval=None, compute=False),
    "all": everything,
}
RAW: dict[str, Callable[[Path], int]] = {
    "raw1": lambda store: read(store, 1),
    "raw2": lambda store: read(store, 2),
    "dask": through_dask,
}


def small() -> xr.Dataset:
    """Enough labels for the kernels that are compiled to be chosen."""
    labels = da.from_array(block(np.arange(1 << 18), size=1 << 18), chunks=(1 << 17, -1))
    roles = ["human"] * N_HUMANS + ["judge"] * (N_RATERS - N_HUMANS)
    return xr.Dataset(
        {"label": (("item", "rater"), labels, SCALE.to_attrs())},
        coords={"rater": np.arange(N_RATERS), "role": ("rater", roles)},
    )


def once(cell: str, store: Path) -> dict[str, float]:
    """Figures of one cell in this process."""
    dask.config.set(scheduler="threads", num_workers=2)
    warnings.simplefilter("ignore")
    if cell in VERBS:
        dask.compute(VERBS[cell](small()))
    cpu, wall = time.process_time(), time.perf_counter()
    if cell in VERBS:
        dask.compute(VERBS[cell](opened(store)))
    else:
        RAW[cell](store)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return {"cpu": cpu, "wall": wall, "peak": peak_memory()}


def peak_memory() -> float:
    """Largest resident memory of this process in MB; on Linux without what it had of its parent."""
    status = Path("/proc/self/status")
    if status.exists():
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


# ---------------------------------------------------------------------------------------------- side by side


def fresh(cell: str, store: Path) -> dict[str, float]:
    """Figures of one cell in a fresh process."""
    # -P: a neighbour of this file has the name of a package that compiled kernels look for
    command = [sys.executable, "-P", __file__, str(store.parent), "--store", store.name, "--cell", cell]
    environment = os.environ | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def side_by_side(store: Path, cells: list[str], repeats: int) -> dict[str, dict[str, float]]:
    """Medians of fresh processes, the cells taking turns."""
    fresh(cells[0], store)  # the files are in the page cache after this
    runs: dict[str, list[dict[str, float]]] = {cell: [] for cell in cells}
    for _ in range(repeats):
        for cell in cells:
            runs[cell].append(fresh(cell, store))
    return {cell: {name: median(r[name] for r in found) for name in found[0]} for cell, found in runs.items()}


def report(figures: dict[str, dict[str, float]], n_labels: int) -> None:
    print(f"{'':12} {'CPU s':>7} {'wall s':>7} {'peak MB':>8} {'M labels/s':>11}")
    for cell, one in figures.items():
        speed = n_labels / one["wall"] / 1e6
        print(f"{cell:12} {one['cpu']:>7.2f} {one['wall']:>7.2f} {one['peak']:>8.0f} {speed:>11.0f}")
    for cell, peer in PEER.items():
        if cell in figures and peer in figures:
            cpu, wall = (figures[peer][name] / figures[cell][name] for name in ("cpu", "wall"))
            floor, goal = FLOORS[peer]
            wanted = f"floor {floor:.0%}, goal {goal:.0%}"
            print(f"{cell} reaches {cpu:.0%} of {peer} by CPU, {wall:.0%} by wall ({wanted})")
    ours = [one["peak"] for cell, one in figures.items() if cell in VERBS]
    if ours:
        print(f"peak {max(ours):.0f} MB (floor {MEMORY_FLOOR}, goal {MEMORY_GOAL})")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--make", action="store_true", help="write the labels first")
    parser.add_argument("--labels", type=float, default=1e8)
    parser.add_argument("--chunk", type=int, default=250_000, help="items of a chunk")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="raw1,raw2,dask,tables,reliability,loo,size,all")
    parser.add_argument("--store", help=argparse.SUPPRESS)
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        print(json.dumps(once(options.cell, options.folder / options.store)))
        return
    n_items = int(options.labels) // N_RATERS
    store = options.folder / f"labels-{n_items}x{N_RATERS}-{options.chunk}.zarr"
    if options.make:
        make(store, n_items, options.chunk)
    if not store.exists():
        raise SystemExit(f"{store} is not there; make it with --make.")
    figures = side_by_side(store, options.only.split(","), options.repeats)
    report(figures, n_items * N_RATERS)


if __name__ == "__main__":
    main()

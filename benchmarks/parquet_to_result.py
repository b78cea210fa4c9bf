"""Long rows in parquet to a zarr store to agreement and alpha: time and peak memory of every step.

    python benchmarks/parquet_to_result.py [--rows 1e7] [--text-ids] [--spread] [--keep FOLDER]

The rows are made by a formula (the same for every run): items x 8 raters, seven people and a judge, labels
of two categories with some "cannot assess", each row answered. A file holds 1e6 rows: all labels of 125,000
items, or with ``--spread`` the labels of one rater for 1,000,000 items, so that every item stands in eight
files and the rows have to be brought together. Ids are integers, or with ``--text-ids`` text of eight
characters.

Every step runs in a process of its own with two threads, which prints wall seconds, CPU seconds, rows a CPU
second, and its peak memory (``ru_maxrss``, the interpreter and all imports within it; the line ``imports``
gives those alone). The steps: ``make`` writes the parquet files, ``zarr`` is
``dask.dataframe.read_parquet -> xj.from_long -> to_zarr``, ``result`` opens the store and computes agreement
with every person and alpha, without intervals. Everything is written to a temporary folder and removed,
unless ``--keep`` names one.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RATERS = [f"person {k}" for k in range(7)] + ["judge"]
ROWS_OF_A_FILE = 1_000_000
LABELS = ["no", "yes", "cannot assess"]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=float, default=2e6)
    parser.add_argument("--text-ids", action="store_true")
    parser.add_argument("--spread", action="store_true")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--step", help=argparse.SUPPRESS)
    return parser.parse_args()


def make(folder, options):
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    n_items = max(int(options.rows) // len(RATERS), 1)
    items_of_a_file = ROWS_OF_A_FILE if options.spread else ROWS_OF_A_FILE // len(RATERS)
    files = [
        (start, rater)
        for start in range(0, n_items, items_of_a_file)
        for rater in (range(len(RATERS)) if options.spread else [None])
    ]
    (folder / "labels").mkdir(parents=True)
    for number, (start, only) in enumerate(files):
        ids = np.arange(start, min(start + items_of_a_file, n_items))
        rater = np.arange(len(RATERS)) if only is None else np.array([only])
        item = np.repeat(ids, len(rater))
        rater = np.tile(rater, len(ids)).astype(np.int8)
        label = labels_of(item, rater)
        named = pa.array(item) if not options.text_ids else pa.array([f"i{k:07d}" for k in item.tolist()])
        table = pa.table(
            {
                "item": named,
                "rater": pa.DictionaryArray.from_arrays(rater, RATERS).cast(pa.string()),
                "label": pa.DictionaryArray.from_arrays(label, LABELS).cast(pa.string()),
            }
        )
        pq.write_table(table, folder / "labels" / f"part-{number:05d}.parquet")


def labels_of(item, rater):
    """Labels by a hash of the item and the rater: a truth that 85 % see, one of 50 cannot be assessed."""
    import numpy as np

    def mixed(values):
        values = (values ^ (values >> np.uint64(31))) * np.uint64(0x9E3779B97F4A7C15)
        values = (values ^ (values >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
        return (values ^ (values >> np.uint64(32))) % np.uint64(1000)

    truth = mixed(item.astype(np.uint64) + np.uint64(1)) < 400
    noise = mixed(item.astype(np.uint64) * np.uint64(16) + rater.astype(np.uint64) + np.uint64(1 << 40))
    label = (truth ^ (noise >= 850)).astype(np.int8)
    label[noise % 50 == 7] = 2
    return label


def zarr(folder, options):
    import dask.dataframe as dd

    import xjudge as xj

    scale = xj.Scale.binary("no", "yes")
    frame = dd.read_parquet(folder / "labels")
    ds = xj.from_long(frame, judges=["judge"], scale=scale, ca="cannot assess")
    if ds.attrs["rows_read"] != ds.sizes["item"] * len(RATERS):
        raise SystemExit("Rows were lost.")
    ds.to_zarr(folder / "labels.zarr", zarr_format=2)


def result(folder, options):
    import xarray as xr

    import xjudge as xj

    ds = xr.open_zarr(folder / "labels.zarr")
    agreement = xj.agreement(ds, interval=None)
    alpha = xj.reliability(ds, interval=None)
    accuracy = float(agreement["accuracy"].mean())
    print(f"accuracy {accuracy:.6f}, kappa {float(agreement['kappa'].mean()):.6f}, ", end="", file=sys.stderr)
    print(f"alpha of the people {float(alpha['alpha']):.6f}", file=sys.stderr)


def imports(folder, options):
    import dask.dataframe
    import xarray

    import xjudge

    for module in (dask.dataframe, xarray, xjudge):
        print(module.__name__, end=" ", file=sys.stderr)
    print(file=sys.stderr)


STEPS = {"imports": imports, "make": make, "zarr": zarr, "result": result}


def run_step(options, folder):
    """One step in this process; prints its figures as JSON."""
    if options.step != "make":
        import dask

        dask.config.set(scheduler="threads", num_workers=2)
    start = time.perf_counter()
    STEPS[options.step](folder, options)
    wall = time.perf_counter() - start
    usage = resource.getrusage(resource.RUSAGE_SELF)
    cpu = usage.ru_utime + usage.ru_stime
    print(json.dumps({"wall": wall, "cpu": cpu, "peak": usage.ru_maxrss / 1024}))


def size(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def run(options, folder):
    print(f"{int(options.rows):,} rows, {int(options.rows) // len(RATERS):,} items, 8 raters")
    print(f"{'step':8} {'wall s':>8} {'CPU s':>8} {'M rows / CPU s':>15} {'peak MiB':>9} {'written MB':>11}")
    for step in STEPS:
        command = [
            sys.executable,
            "-P",  # benchmarks/coverage.py is not the package of that name
            __file__,
            "--step",
            step,
            "--keep",
            str(folder),
            "--rows",
            str(options.rows),
        ]
        command += ["--text-ids"] * options.text_ids + ["--spread"] * options.spread
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        told = json.loads(done.stdout)
        rate = "" if step == "imports" else f"{options.rows / told['cpu'] / 1e6:.2f}"
        written = {"make": "labels", "zarr": "labels.zarr"}.get(step)
        stored = f"{size(folder / written):.0f}" if written else ""
        figures = f"{told['wall']:8.1f} {told['cpu']:8.1f} {rate:>15} {told['peak']:9.0f} {stored:>11}"
        print(f"{step:8} {figures}", flush=True)


def main():
    options = arguments()
    if options.step:
        run_step(options, options.keep)
    elif options.keep:
        run(options, options.keep)
    else:
        with tempfile.TemporaryDirectory() as folder:
            run(options, Path(folder))


if __name__ == "__main__":
    main()

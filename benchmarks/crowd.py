"""Crowds: all pair tables side by side with a pandas merge, and ten million labels in bounded memory.

    python benchmarks/crowd.py [labels]             # both parts; the second with that many labels
    python -P benchmarks/crowd.py --large labels    # the second part alone, in this process

First part: 1,000,000 triplets, 500 raters, 5 labels an item, 5 categories; the tables of all 124,750 pairs:
from triplets in no order (what sorting costs is in it), from the sparse layout (which is sorted), and through
the verb with accuracy and kappa of every pair. The peer is ``pandas.merge`` of the triplets with themselves
on the item, then ``groupby``. CPU seconds, one thread, the median of five repeats taken in turns; the tables
are compared before anything is timed. Floor 4, goal 8 (PERFORMANCE.md, row 17).

Second part: 10,000,000 labels by 100,000 raters, five an item, two judges on every item, in a process of its
own: time and peak resident memory of each step, and the memory that the data take.
"""

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import subprocess
import sys
import time
import warnings
from pathlib import Path
from statistics import median

import numpy as np
import pandas as pd
import xarray as xr

import xjudge as xj
from xjudge.statistics.answers import pair_meetings

REPEATS = 5
N_ITEMS, N_RATERS, PER_ITEM, N_CATEGORIES = 200_000, 500, 5, 5


def triplets(n_items, n_raters, per_item, n_categories, seed=0):
    """Items in order, raters of an item in order, labels that agree with a truth two times in three."""
    rng = np.random.default_rng(seed)
    rater = np.sort(rng.integers(0, n_raters, (n_items, per_item), dtype=np.int32), axis=1)
    while (same := (rater[:, 1:] == rater[:, :-1]).any(1)).any():
        rater[same] = np.sort(rng.integers(0, n_raters, (int(same.sum()), per_item), dtype=np.int32), axis=1)
    truth = rng.integers(0, n_categories, (n_items, 1), dtype=np.int8)
    other = rng.integers(0, n_categories, rater.shape, dtype=np.int8)
    label = np.where(rng.random(rater.shape, dtype=np.float32) < 0.67, truth, other)
    item = np.repeat(np.arange(n_items, dtype=np.int32), per_item)
    return item, rater.ravel(), label.ravel()


def sparse_dataset(item, rater, label, n_items, n_raters, n_judges=0):
    """The sparse layout from codes, without a table of text in between."""
    scale = xj.Scale.nominal(list("ABCDE"))
    role = np.array(["human"] * n_raters + ["judge"] * n_judges, dtype=object)
    return xr.Dataset(
        {"label": ("answer", label, scale.to_attrs())},
        coords={
            "item": np.arange(n_items),
            "rater": np.arange(n_raters + n_judges),
            "role": ("rater", role),
            "item_code": ("answer", item),
            "rater_code": ("answer", rater),
        },
    )


def pandas_tables(frame):
    both = frame.merge(frame, on="item")
    both = both[both["rater_x"] < both["rater_y"]]
    return both.groupby(["rater_x", "rater_y", "label_x", "label_y"]).size()


def cpu_seconds(functions):
    times = {name: [] for name in functions}
    for _ in range(REPEATS):
        for name, function in functions.items():
            start = time.process_time()
            function()
            times[name].append(time.process_time() - start)
    return {name: median(values) for name, values in times.items()}


def pair_tables():
    item, rater, label = triplets(N_ITEMS, N_RATERS, PER_ITEM, N_CATEGORIES)
    mixed = np.random.default_rng(1).permutation(len(item))
    frame = pd.DataFrame({"item": item[mixed], "rater": rater[mixed], "label": label[mixed]})
    ds = sparse_dataset(item, rater, label, N_ITEMS, N_RATERS)
    columns = [frame[name].to_numpy() for name in ("item", "rater", "label")]

    def from_triplets():
        return pair_meetings(*columns, N_RATERS, N_CATEGORIES)

    def from_layout():
        return pair_meetings(item, rater, label, N_RATERS, N_CATEGORIES)

    def verb():
        return xj.pair_agreement(ds, statistic=["accuracy", "kappa"], interval=None, tables=True)

    expected = pandas_tables(frame)
    index = [expected.index.get_level_values(level).to_numpy().astype(np.int64) for level in range(4)]
    key = ((index[0] * N_RATERS + index[1]) * N_CATEGORIES + index[2]) * N_CATEGORIES + index[3]
    for found in (from_triplets(), from_layout()):
        assert (found[0] == key).all()
        assert (found[1] == expected.to_numpy()).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        named = verb()
        assert int(named["count"].sum()) == int(expected.sum())
        peer = "pandas merge + groupby"
        times = cpu_seconds(
            {
                peer: lambda: pandas_tables(frame),
                "triplets in no order": from_triplets,
                "sparse layout": from_layout,
                "xj.pair_agreement, two statistics": verb,
            }
        )
    print(f"{len(item):,} triplets, {N_RATERS} raters, {named.sizes['pair']:,} pairs")
    for name, seconds in times.items():
        print(f"  {name:36} {1000 * seconds:7.0f} ms   {times[peer] / seconds:5.1f} x")


def peak():
    """Peak resident memory since the last call, in MB (Linux)."""
    status = Path("/proc/self/status").read_text()
    highest = int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])
    Path("/proc/self/clear_refs").write_text("5")
    return highest / 1024


def large(n_labels):
    n_items, n_raters = n_labels // 5, max(100, n_labels // 100)
    item, rater, label = triplets(n_items, n_raters, 5, N_CATEGORIES)
    rng = np.random.default_rng(2)
    both = np.empty((n_items, 7), dtype=np.int32)
    both[:, :5], both[:, 5], both[:, 6] = rater.reshape(-1, 5), n_raters, n_raters + 1
    said = np.empty((n_items, 7), dtype=np.int8)
    said[:, :5] = label.reshape(-1, 5)
    said[:, 5:] = np.where(rng.random((n_items, 2)) < 0.6, said[:, :1], 0)
    item = np.repeat(np.arange(n_items, dtype=np.int32), 7)
    ds = sparse_dataset(item, both.ravel(), said.ravel(), n_items, n_raters, 2)
    del rater, label, both, said, item
    peak()
    start = peak()
    print(f"{ds.sizes['answer']:,} labels of {n_items:,} items by {n_raters:,} raters and two judges")
    print(f"  {'the data, in memory':44} {ds.nbytes / 2**20:7.0f} MB   resident {start:6.0f} MB")
    steps = {
        "reliability: alpha, Fleiss, Gwet AC": lambda: xj.reliability(
            ds, statistic=["alpha", "fleiss_kappa", "gwet_ac"]
        ),
        "agreement with the pooled crowd": lambda: xj.agreement(ds, reference="pooled"),
        "agreement with the majority": lambda: xj.agreement(ds, reference="majority"),
        "rates": lambda: xj.rates(ds),
        "rater_agreement, shrunken": lambda: xj.rater_agreement(ds),
        "effective_size": lambda: xj.effective_size(ds),
        "pair_agreement, at least 5 in common": lambda: xj.pair_agreement(
            ds, raters="humans", statistic="accuracy", min_overlap=5, interval=None
        ),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, step in steps.items():
            before, clock = time.process_time(), time.perf_counter()
            step()
            cpu, wall = time.process_time() - before, time.perf_counter() - clock
            print(f"  {name:44} {cpu:6.2f} CPU s {wall:6.2f} s   peak {peak():6.0f} MB", flush=True)
    cells = n_items * (n_raters + 2)
    print(f"  a dense cube would have {cells:,} cells ({cells / 2**30:,.0f} GB)")


def main():
    if sys.argv[1:2] == ["--large"]:
        large(int(sys.argv[2]))
        return
    pair_tables()
    n_labels = sys.argv[1] if len(sys.argv) > 1 else "10000000"
    subprocess.run([sys.executable, "-P", __file__, "--large", n_labels], check=True)


if __name__ == "__main__":
    main()

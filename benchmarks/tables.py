"""Speed of the pair tables, kernel by kernel and side by side with a loop of scikit-learn's confusion_matrix.

    python benchmarks/tables.py [items] [items beside the peer]

Labels are uniform over the categories, a share of them missing; all pairs of raters. One thread, CPU seconds,
the median of three repeats, ours and the peer's taking turns in one process; results are compared before
anything is timed. Columns of M labels/s (items x raters over seconds): each kernel forced (groups of raters,
numpy bit planes, compiled bit planes, sparse columns from 64 raters on), the one that the rule takes, the
pass of a verb (values checked too), and the pass from dask in chunks of 100,000 items. The ratio is the
peer's time over that of our pass. A last line gives the cost of a small pass. Cells of 100 raters or more
have a twentieth of the items, and no peer.
"""

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import itertools
import sys
import time
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median

sys.path.remove(str(Path(__file__).parent))  # numba would take coverage.py for the package of that name

import dask
import dask.array as da
import numpy as np
from sklearn.metrics import confusion_matrix

from xjudge.lazy import reduce_items
from xjudge.statistics._planes import by_compiled_planes, by_planes, by_sparse_columns, common_codes
from xjudge.statistics._tables import Columns, _by_groups, pair_tables
from xjudge.statistics.counts import outside, pairs

CELLS = [  # raters, categories, share of missing labels, order in memory
    (2, 2, 0.0, "C"),
    (8, 2, 0.5, "C"),
    (8, 2, 0.5, "F"),
    (8, 5, 0.5, "C"),
    (8, 5, 0.5, "F"),
    (12, 5, 0.5, "C"),
    (32, 2, 0.5, "C"),
    (32, 2, 0.5, "F"),
    (32, 5, 0.5, "C"),
    (32, 2, 0.95, "C"),
    (3, 100, 0.1, "C"),
    (100, 2, 0.95, "C"),
    (300, 2, 0.5, "C"),
    (300, 5, 0.98, "C"),
]
MANY = 64
REPEATS = 3


def random_labels(n_items, n_raters, n_categories, missing, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_categories, size=(n_items, n_raters), dtype=np.int8)
    labels[rng.random((n_items, n_raters), dtype=np.float32) < missing] = -1
    return labels


def kernel(labels, n_categories):
    n_places = n_categories + 3
    return pair_tables(Columns(labels[:, :, None], range(n_places), n_places))[0]


def forced(labels, n_categories, name):
    """Counts within the codes that occur, by one kernel."""
    n_places = n_categories + 3
    columns = Columns(labels[:, :, None], range(n_places), n_places)
    kernels = {"groups": _by_groups, "planes": by_planes}
    if name == "compiled":
        from xjudge.statistics import _fast

        kernels[name] = partial(by_compiled_planes, fast=_fast)
    if name == "sparse":
        common = common_codes(columns)[0]
        kernels[name] = partial(by_sparse_columns, common=(common, common))
    n_raters, radix = labels.shape[1], columns.radix
    counts = np.zeros((1, n_raters, n_raters, radix, radix), dtype=np.int64)
    kernels[name](counts, columns, None)
    return counts[0]


def kernels_of(n_raters):
    names = ["groups", "planes"]
    names += ["compiled"] if find_spec("numba") else []
    return names + (["sparse"] if n_raters >= MANY else [])


def whole_pass(labels, n_categories):
    requests = [outside(n_categories), pairs(n_categories, right=None)]
    return reduce_items(requests, {"codes": labels[:, :, None]}, lambda counted: {"tables": counted[1][0]})[
        "tables"
    ]


def scikit_learn(labels, n_categories):
    tables = {}
    for a, b in itertools.combinations(range(labels.shape[1]), 2):
        both = (labels[:, a] >= 0) & (labels[:, b] >= 0)
        tables[a, b] = confusion_matrix(labels[both, a], labels[both, b], labels=range(n_categories))
    return tables


def seconds(*functions):
    """Median CPU seconds of each, taking turns."""
    taken = [[] for _ in functions]
    for _ in range(REPEATS):
        for function, times in zip(functions, taken, strict=True):
            start = time.process_time()
            function()
            times.append(time.process_time() - start)
    return [median(times) for times in taken]


def compare(labels, n_categories):
    ours, theirs = whole_pass(labels, n_categories), scikit_learn(labels, n_categories)
    for (a, b), table in theirs.items():
        np.testing.assert_array_equal(ours[a, b, :n_categories, :n_categories], table)
    mine, peer = seconds(lambda: whole_pass(labels, n_categories), lambda: scikit_learn(labels, n_categories))
    return peer / mine


def small():
    """Microseconds of the pass over 1,000 items and 3 raters, a thousand at a time."""
    labels = random_labels(1000, 3, 2, 0.1)
    (taken,) = seconds(lambda: [whole_pass(labels, 2) for _ in range(1000)])
    return taken * 1e3


def main(n_items=1_000_000, n_beside=100_000):
    print(f"{n_items:,} items; beside scikit-learn {n_beside:,}; M labels/s")
    print(
        f"{'raters':>6} {'categories':>10} {'missing':>7} {'order':>5} {'groups':>7} {'planes':>7}"
        f" {'compiled':>8} {'sparse':>7} {'chosen':>7} {'pass':>6} {'dask':>6} {'ratio':>7}"
    )
    for n_raters, n_categories, missing, order in CELLS:
        few = n_items // 20 if n_raters >= MANY else n_items
        labels = np.asarray(random_labels(few, n_raters, n_categories, missing), order=order)
        lazy = da.from_array(labels, chunks=(100_000, -1))
        whole = whole_pass(labels, n_categories)
        np.testing.assert_array_equal(kernel(labels, n_categories), whole)
        names = kernels_of(n_raters)
        every = [forced(labels, n_categories, name) for name in names]
        for one in every[1:]:
            np.testing.assert_array_equal(one, every[0])
        with dask.config.set(scheduler="synchronous"):
            np.testing.assert_array_equal(whole_pass(lazy, n_categories), whole)
            taken = seconds(
                *(partial(forced, labels, n_categories, name) for name in names),
                partial(kernel, labels, n_categories),
                partial(whole_pass, labels, n_categories),
                partial(whole_pass, lazy, n_categories),
            )
        speeds = dict(zip([*names, "chosen", "pass", "dask"], taken, strict=True))
        shown = {name: f"{labels.size / s / 1e6:.0f}" for name, s in speeds.items()}
        ratio = f"{compare(labels[:n_beside], n_categories):.1f}x" if n_raters < MANY else "-"
        print(
            f"{n_raters:>6} {n_categories:>10} {missing:>7.0%} {'item' if order == 'C' else 'rater':>5}"
            f" {shown['groups']:>7} {shown['planes']:>7} {shown.get('compiled', '-'):>8}"
            f" {shown.get('sparse', '-'):>7} {shown['chosen']:>7} {shown['pass']:>6} {shown['dask']:>6}"
            f" {ratio:>7}",
            flush=True,
        )
    print(f"1,000 items, 3 raters, 2 categories: {small():.0f} microseconds a pass")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

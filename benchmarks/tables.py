"""Speed of the pair tables, alone and side by side with a loop of scikit-learn's confusion_matrix.

    python benchmarks/tables.py [items] [items beside the peer]

Labels are uniform over the categories, a share of them missing; all pairs of raters. One thread, CPU seconds,
the median of five repeats, ours and the peer's taking turns in one process; results are compared before
anything is timed. Three columns of M labels/s (items x raters over seconds): the kernel, the pass of a verb
(values checked too), and the pass from dask in chunks of 100,000 items. The ratio is the peer's time over
that of our pass. A last line gives the cost of a small pass.
"""

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import itertools
import sys
import time
from statistics import median

import dask
import dask.array as da
import numpy as np
from sklearn.metrics import confusion_matrix

from xjudge.lazy import reduce_items
from xjudge.statistics._tables import Columns, pair_tables
from xjudge.statistics.counts import outside, pairs

CELLS = [  # raters, categories, share of missing labels
    (2, 2, 0.0),
    (8, 2, 0.5),
    (8, 5, 0.5),
    (32, 2, 0.5),
    (32, 5, 0.5),
    (32, 2, 0.95),
]
REPEATS = 5


def random_labels(n_items, n_raters, n_categories, missing, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_categories, size=(n_items, n_raters), dtype=np.int8)
    labels[rng.random((n_items, n_raters), dtype=np.float32) < missing] = -1
    return labels


def kernel(labels, n_categories):
    n_places = n_categories + 3
    return pair_tables(Columns(labels[:, :, None], range(n_places), n_places))[0]


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
        f"{'raters':>6} {'categories':>10} {'missing':>7} {'kernel':>7} {'pass':>6} {'dask':>6} {'ratio':>7}"
    )
    for n_raters, n_categories, missing in CELLS:
        labels = random_labels(n_items, n_raters, n_categories, missing)
        lazy = da.from_array(labels, chunks=(100_000, -1))
        whole = whole_pass(labels, n_categories)
        np.testing.assert_array_equal(kernel(labels, n_categories), whole)
        with dask.config.set(scheduler="synchronous"):
            np.testing.assert_array_equal(whole_pass(lazy, n_categories), whole)
            taken = seconds(
                lambda: kernel(labels, n_categories),  # noqa: B023 (called here)
                lambda: whole_pass(labels, n_categories),  # noqa: B023
                lambda: whole_pass(lazy, n_categories),  # noqa: B023
            )
        speeds = " ".join(f"{labels.size / s / 1e6:>6.0f}" for s in taken)
        ratio = compare(labels[:n_beside], n_categories)
        print(f"{n_raters:>6} {n_categories:>10} {missing:>7.0%}  {speeds} {ratio:>6.1f}x", flush=True)
    print(f"1,000 items, 3 raters, 2 categories: {small():.0f} microseconds a pass")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

"""Krippendorff's alpha beside the `krippendorff` package: CPU seconds, ratios, peak memory.

    OMP_NUM_THREADS=1 python benchmarks/alpha.py [--repeats 5] [--quick]

Both sides run in one process, alternated, one thread, through their public functions; figures are the median
process CPU time. What each side starts from is ready before the clock starts: small integer codes here,
floats with NaN (or counts of values) there. Values are compared before anything is timed.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
import tracemalloc
from collections.abc import Callable
from typing import NamedTuple

import krippendorff
import numpy as np

from xjudge.statistics.raters import (
    alpha,
    alpha_of_scores,
    count_vector_histogram,
    count_vectors,
    evaluate_raters,
    histogram_of_counts,
)

LEVELS = ("nominal", "ordinal", "interval")


class Row(NamedTuple):
    """A case, both sides of it, and the ratio that must hold."""

    name: str
    ours: Callable[[], object]
    peer: Callable[[], object]
    floor: float
    calls: int = 1


def seconds(call: Callable[[], object], calls: int) -> float:
    gc.collect()
    start = time.process_time()
    for _ in range(calls):
        call()
    return (time.process_time() - start) / calls


def peak(call: Callable[[], object]) -> float:
    """Most memory held at once beyond what was there, in MB."""
    gc.collect()
    tracemalloc.start()
    call()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most / 1e6


def labels_of(n_items: int, n_raters: int, n_categories: int, missing: float) -> np.ndarray:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, n_categories, size=(n_items, 1), dtype=np.int8)
    noise = rng.integers(0, n_categories, size=(n_items, n_raters), dtype=np.int8)
    labels = np.where(rng.random((n_items, n_raters)) < 0.6, truth, noise)
    labels[rng.random((n_items, n_raters)) < missing] = -1
    return labels


def from_labels(labels: np.ndarray, n_categories: int, metric: str) -> float:
    patterns, multiplicities = count_vector_histogram(labels, n_categories)
    return float(alpha(patterns, metric, item_weights=multiplicities))


def from_counts(counts: np.ndarray) -> float:
    patterns, multiplicities = histogram_of_counts(counts)
    return float(alpha(patterns, item_weights=multiplicities))


def every_level(labels: np.ndarray, n_categories: int) -> list[float]:
    patterns, multiplicities = count_vector_histogram(labels, n_categories)
    return [float(alpha(patterns, metric, item_weights=multiplicities)) for metric in LEVELS]


def rows(n_items: int) -> list[Row]:
    big = labels_of(n_items, 8, 5, 0.5)
    big_float = np.where(big < 0, np.nan, big.astype(np.float64)).T.copy()
    big_counts = count_vectors(big, 5)
    small = labels_of(1000, 3, 5, 0.0)
    small_float = small.T.astype(np.float64).copy()
    reals = np.random.default_rng(1).normal(size=(60, 2))

    def peer(data: np.ndarray, level: str) -> float:
        return float(krippendorff.alpha(data, level_of_measurement=level))

    def peer_counts(level: str) -> float:
        return float(krippendorff.alpha(value_counts=big_counts, level_of_measurement=level))

    out = []
    for level in LEVELS:
        out.append(
            Row(
                f"1  {n_items:.0e} x 8, L=5, 50 % missing, {level}",
                lambda level=level: from_labels(big, 5, level),
                lambda level=level: peer(big_float, level),
                40,
            )
        )
    out.append(
        Row(
            "1  the same, all three levels",
            lambda: every_level(big, 5),
            lambda: [peer(big_float, level) for level in LEVELS],
            40,
        )
    )
    out.append(
        Row(
            "2  labels here, counts of values given there",
            lambda: from_labels(big, 5, "nominal"),
            lambda: peer_counts("nominal"),
            15,
        )
    )
    out.append(
        Row(
            "2b counts of values on both sides",
            lambda: from_counts(big_counts),
            lambda: peer_counts("nominal"),
            1,
        )
    )
    for level in LEVELS:
        out.append(
            Row(
                f"3  1e3 x 3, L=5, {level}",
                lambda level=level: float(alpha(count_vectors(small, 5), level)),
                lambda level=level: peer(small_float, level),
                1,
                200,
            )
        )
    out.append(
        Row(
            "   60 x 2 distinct numbers, interval",
            lambda: float(alpha_of_scores(reals)),
            lambda: peer(reals.T, "interval"),
            1,
            20,
        )
    )
    return out


def bootstrap(n_items: int, n_replicates: int) -> None:
    """Cost of a replicate of alpha: multinomial over count vectors, then one product."""
    patterns, multiplicities = count_vector_histogram(labels_of(n_items, 8, 5, 0.5), 5)
    rng = np.random.default_rng(0)

    def replicates() -> None:
        step = 500
        for start in range(0, n_replicates, step):
            size = min(step, n_replicates - start)
            weights = rng.multinomial(n_items, multiplicities / n_items, size=size)
            evaluate_raters("alpha", patterns, item_weights=weights)

    each = statistics.median(seconds(replicates, 1) for _ in range(3)) / n_replicates
    what = f"bootstrap of alpha, {n_items:.0e} x 8, {len(patterns)} count vectors"
    print(f"{what}: {each * 1e6:.0f} us a replicate")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="1e5 items in place of 1e6")
    options = parser.parse_args()
    n_items = 10**5 if options.quick else 10**6
    print(f"{'case':52}{'ours ms':>10}{'peer ms':>10}{'ratio':>8}{'floor':>7}{'ours MB':>9}{'peer MB':>9}")
    for row in rows(n_items):
        np.testing.assert_allclose(row.ours(), row.peer(), atol=1e-9)
        ours, theirs = [], []
        for _ in range(options.repeats):
            ours.append(seconds(row.ours, row.calls))
            theirs.append(seconds(row.peer, row.calls))
        mine, other = statistics.median(ours), statistics.median(theirs)
        verdict = "" if other / mine >= row.floor else "  below the floor"
        print(
            f"{row.name:52}{mine * 1e3:10.3f}{other * 1e3:10.3f}{other / mine:8.1f}{row.floor:7.0f}"
            f"{peak(row.ours):9.2f}{peak(row.peer):9.1f}{verdict}"
        )
    bootstrap(10**4, 10_000)
    bootstrap(n_items, 1_000)


if __name__ == "__main__":
    main()

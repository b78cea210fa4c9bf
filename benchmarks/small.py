"""Small data is quick: kappa of 1,000 items by 3 raters, side by side with scikit-learn.

    python benchmarks/small.py

Prints the CPU time of one call (median of alternated repeats, one process): all three pair tables and their
kappas through `xjudge.statistics`, scikit-learn's function pair by pair, and the accessor with and without
intervals.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable

import numpy as np
from sklearn.metrics import cohen_kappa_score

import xjudge as xj
from xjudge.statistics.counts import Axes, count_block, finish_block, pairs

REPEATS, CALLS = 7, 30


def cpu_seconds(call: Callable[[], object]) -> float:
    start = time.process_time()
    for _ in range(CALLS):
        call()
    return (time.process_time() - start) / CALLS


def main() -> None:
    ds = xj.simulate(n_items=1000, n_humans=1, n_judges=2, seed=0)
    labels = np.ascontiguousarray(ds["label"].values.reshape(1000, 3))
    requests = [pairs(2, right=None)]

    def ours() -> object:
        (tables,) = finish_block(
            requests, Axes(), count_block(requests, Axes(), {"codes": labels[:, :, None]})
        )
        return xj.statistics.kappa(tables[0][..., :2, :2])

    def sklearn() -> object:
        return [cohen_kappa_score(labels[:, a], labels[:, b]) for a, b in itertools.combinations(range(3), 2)]

    calls = {
        "xjudge.statistics, 3 pairs counted": ours,
        "scikit-learn, 3 pairs": sklearn,
        "ds.judge.agreement, interval=None": lambda: ds.judge.agreement(statistic="kappa", interval=None),
        "ds.judge.agreement": lambda: ds.judge.agreement(statistic="kappa"),
    }
    mine, theirs = ours(), sklearn()
    np.testing.assert_allclose(np.asarray(mine)[np.triu_indices(3, 1)], theirs, rtol=1e-12)
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(REPEATS):
        for name, call in calls.items():
            times[name].append(cpu_seconds(call))
    median = {name: statistics.median(values) for name, values in times.items()}
    for name, seconds in median.items():
        print(f"{name:40s} {1e3 * seconds:8.3f} ms")
    ratio = median["scikit-learn, 3 pairs"] / median["xjudge.statistics, 3 pairs counted"]
    print(f"scikit-learn / xjudge.statistics: {ratio:.1f}")


if __name__ == "__main__":
    main()

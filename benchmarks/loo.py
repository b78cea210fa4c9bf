"""Leave-one-out decisions and the alternative-annotator test beside plain loops: CPU seconds and ratios.

    OMP_NUM_THREADS=1 python benchmarks/loo.py [--repeats 5] [--quick]

Rows 11 and 12 are shown with compiled draws (the `fast` extra, loaded before anything is timed) and with
numpy alone, which decides the same from the same random numbers. The baselines are our own plain
re-implementations of published code, written here: the decision loop of the sparse-overlap note (labels drawn
item by item, whole arrays per pair of humans) and the item-by-item loop of the alternative-annotator test.
Both sides run in one process, alternated, one thread; figures are the median process CPU time. Error rates
must agree within four standard errors, test results to 1e-12, before anything is timed.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import stats

from xjudge.statistics import _loo_cells
from xjudge.statistics.loo import alt_test, loo_counts, plan_overlap, wrong_decision_rate

Answer = float | tuple[float, float]


class Row(NamedTuple):
    """A case, both sides of it, the ratio that must hold and the one aimed at; and ours without numba."""

    name: str
    ours: Callable[[], Answer]
    peer: Callable[[], Answer]
    floor: float
    goal: float
    plain: Callable[[], Answer] | None = None


def without_numba(call: Callable[[], Answer]) -> Callable[[], Answer]:
    """The same call with numpy's kernels."""

    def plain() -> Answer:
        chosen = _loo_cells._compiled
        _loo_cells._compiled = lambda n_items: None
        try:
            return call()
        finally:
            _loo_cells._compiled = chosen

    return plain


# ------------------------------------------------------------------------------------------- plain loops


def plain_decisions(labels: np.ndarray, shown: np.ndarray, eps: float = 0.05) -> np.ndarray:
    """Accept or not, for every trial: labels (T, n, K + 1), the judge last, and masks (T, n, K)."""
    K = shown.shape[2]
    votes = 0
    for k in range(K):
        ours = theirs = pairs = 0
        for q in range(K):
            if q == k:
                continue
            both = shown[:, :, k] * shown[:, :, q]
            pairs = pairs + both.sum(axis=1)
            ours = ours + (both * (labels[:, :, K] == labels[:, :, q])).sum(axis=1)
            theirs = theirs + (both * (labels[:, :, k] == labels[:, :, q])).sum(axis=1)
        pairs = np.maximum(pairs, 1)
        votes = votes + (ours / pairs >= theirs / pairs - eps)
    return votes / K >= 0.5


def plain_labels(rng: np.random.Generator, T: int, n: int, judge: float) -> np.ndarray:
    truth = rng.integers(0, 2, (T, n))
    right = rng.random((T, n, 5)) < np.array([0.85] * 4 + [judge])
    return np.where(right, truth[..., None], 1 - truth[..., None])


def plain_wrong_rate(judge: float, share: float, *, n: int, T: int, dense: bool) -> float:
    rng = np.random.default_rng(0)
    labels = plain_labels(rng, T, n, judge)
    shown = np.ones((T, n, 4))
    reference = plain_decisions(labels, shown) if dense else 0.7 * judge - 0.545 >= 0
    shown[:, :, 1:] = rng.random((T, n, 3)) < share
    return float(np.mean(plain_decisions(labels, shown) != reference))


def plain_exact_rate(judge: float, m: int, *, n: int, T: int) -> float:
    rng = np.random.default_rng(0)
    labels = plain_labels(rng, T, n, judge)
    shown = np.ones((T, n, 4))
    for k in range(1, 4):
        chosen = np.argpartition(rng.random((T, n)), m, axis=1)[:, :m]
        shown[:, :, k] = 0
        np.put_along_axis(shown[:, :, k], chosen, 1, axis=1)
    return float(np.mean(plain_decisions(labels, shown) != (0.7 * judge - 0.545 >= 0)))


def plain_alt_test(humans: list[list[int]], judge: list[int], eps: float) -> tuple[float, float]:
    """Winning rate and advantage probability, item by item and human by human."""
    p_values, advantages = [], []
    for k in range(len(humans[0])):
        ours, theirs = [], []
        for labels, verdict in zip(humans, judge, strict=True):
            others = [label for q, label in enumerate(labels) if q != k and label >= 0]
            if labels[k] < 0 or not others:
                continue
            by_judge = float(np.mean([verdict == other for other in others]))
            by_human = float(np.mean([labels[k] == other for other in others]))
            ours.append(1 if by_judge >= by_human else 0)
            theirs.append(1 if by_human >= by_judge else 0)
        if len(ours) < 30:
            continue
        advantages.append(float(np.mean(ours)))
        differences = [b - a for a, b in zip(ours, theirs, strict=True)]
        p_values.append(stats.ttest_1samp(differences, eps, alternative="less").pvalue)
    won = stats.false_discovery_control(p_values, method="by") <= 0.05
    return float(np.mean(won)), float(np.mean(advantages))


# ------------------------------------------------------------------------------------------------- running


def seconds(call: Callable[[], Answer]) -> float:
    gc.collect()
    start = time.process_time()
    call()
    return time.process_time() - start


def rows(T: int) -> list[Row]:
    def cell(target: str) -> Callable[[], Answer]:
        return lambda: (
            wrong_decision_rate(
                judge_accuracy=0.7, overlap=0.05, method="monte_carlo", n_trials=T, target=target
            ).rate
        )

    def planned(m: int) -> Callable[[], Answer]:
        return lambda: (
            wrong_decision_rate(
                judge_accuracy=0.72,
                n_items=2000,
                overlap=m / 2000,
                mask="exact",
                method="monte_carlo",
                n_trials=T,
            ).rate
        )

    out = [
        Row(
            "11 cell n=500, against the matrix of the trial",
            cell("matrix"),
            lambda: plain_wrong_rate(0.7, 0.05, n=500, T=T, dense=True),
            15,
            80,
            without_numba(cell("matrix")),
        ),
        Row(
            "11 cell n=500, against the population",
            cell("population"),
            lambda: plain_wrong_rate(0.7, 0.05, n=500, T=T, dense=False),
            15,
            80,
            without_numba(cell("population")),
        ),
    ]
    for m in (75, 800):
        out.append(
            Row(
                f"12 planning cell n=2000, m={m}",
                planned(m),
                lambda m=m: plain_exact_rate(0.72, m, n=2000, T=T),
                50,
                100,
                without_numba(planned(m)),
            )
        )
    rng = np.random.default_rng(1)
    humans = np.where(rng.random((5000, 5)) < 0.6, rng.integers(0, 3, (5000, 5)), -1).astype(np.int8)
    judge = rng.integers(0, 3, 5000).astype(np.int8)
    as_lists = humans.tolist(), judge.tolist()

    def tested() -> Answer:
        found = alt_test(humans, judge, eps=0.1)
        return float(found.omega), float(found.advantage_probability)

    out.append(
        Row("16 alt-test 5000 x 5, 40 % missing", tested, lambda: plain_alt_test(*as_lists, 0.1), 25, 50)
    )
    return out


def check(row: Row, T: int) -> None:
    ours, theirs = row.ours(), row.peer()
    assert row.plain is None or row.plain() == ours, (row.name, "numba and numpy differ")
    if isinstance(ours, float) and isinstance(theirs, float):
        limit = 4 * np.sqrt(2 * theirs * (1 - theirs) / T) + 1e-9
        assert abs(ours - theirs) <= limit, (row.name, ours, theirs)
        print(f"{row.name:50s} ours {ours:.4f}   plain loops {theirs:.4f}")
    else:
        np.testing.assert_allclose(ours, theirs, atol=1e-12)
        print(f"{row.name:50s} equal: {ours}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="500 trials instead of 2000")
    options = parser.parse_args()
    T = 500 if options.quick else 2000
    # A neighbour of this file is called as a package that numba asks for.
    sys.path[:] = [
        path for path in sys.path if Path(path or ".").resolve() != Path(__file__).resolve().parent
    ]
    if importlib.util.find_spec("numba") is not None:
        importlib.import_module("xjudge.statistics._loo_fast")
    table = rows(T)
    for row in table:
        check(row, T)
    print(f"\n{'case':50s} {'ours':>9s} {'loops':>9s} {'ratio':>7s} {'floor':>6s} {'goal':>5s} {'met':>5s}")
    missed = []
    for row in table:
        calls = {"ours": row.ours, "loops": row.peer} | ({"plain": row.plain} if row.plain else {})
        taken: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(options.repeats):
            for name, call in calls.items():
                taken[name].append(seconds(call))
        found = {name: statistics.median(times) for name, times in taken.items()}
        ratio = found["loops"] / found["ours"]
        met = "goal" if ratio >= row.goal else "floor" if ratio >= row.floor else "no"
        print(
            f"{row.name:50s} {found['ours'] * 1e3:7.2f}ms {found['loops'] * 1e3:7.0f}ms {ratio:6.0f}x "
            f"{row.floor:5.0f}x {row.goal:4.0f}x {met:>5s}"
        )
        if "plain" in found:
            print(
                f"{'   numpy alone':50s} {found['plain'] * 1e3:7.2f}ms {'':9s} "
                f"{found['loops'] / found['plain']:6.0f}x"
            )
        if met == "no":
            missed.append(row.name)
    for name, call in (
        ("planning answer, 4 humans, both errors", lambda: plan_overlap(n_humans=4, human_accuracy=0.85).m),
        ("planning answer, 10 humans", lambda: plan_overlap(n_humans=10, human_accuracy=0.85).m),
        ("wrong-decision rate without simulation", lambda: wrong_decision_rate().rate),
    ):
        call()
        middle = statistics.median(seconds(call) for _ in range(max(5, options.repeats)))
        print(f"{name:50s} {middle * 1e3:7.2f}ms")
    rng = np.random.default_rng(2)
    humans = rng.integers(-1, 5, (1_000_000, 8)).astype(np.int8)
    judge = rng.integers(0, 5, 1_000_000).astype(np.int8)
    middle = statistics.median(seconds(lambda: float(loo_counts(humans, judge).n_items[0])) for _ in range(3))
    print(f"{'counting 1e6 items x 8 humans, one judge':50s} {middle * 1e3:7.1f}ms")
    if missed:
        raise SystemExit(f"below the floor: {', '.join(missed)}")


if __name__ == "__main__":
    main()

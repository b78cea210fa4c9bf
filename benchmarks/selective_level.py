"""Whether certified thresholds keep their error level: one judge, and a cascade as a whole.

    OMP_NUM_THREADS=1 python benchmarks/selective_level.py [--trials 2000]

Per setting: the share of trials in which a threshold was certified although the true error above it is over
the target (at most 1 - level = 5 %), the share in which any was certified, and the mean coverage found.
Judges are calibrated (right as often as they are confident), overconfident (right less often), or just bad
everywhere: a hair over the target at every threshold, so that whatever is certified is a miss. Beside it what
choosing the lowest threshold whose error looks low enough on the sample would do.
"""

from __future__ import annotations

import argparse

import numpy as np

from xjudge.statistics.selective import GRID, by_step, certified_step, steps_of

TARGET = 0.15
POPULATION = 400_000

ACCURACY = {
    "calibrated": lambda sure: sure,
    "overconfident": lambda sure: 0.5 + 0.8 * (sure - 0.5),
    "just bad": lambda sure: np.full(sure.shape, 1 - TARGET - 0.001),
}


def drawn(rng: np.random.Generator, n: int, judges: int, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Thresholds reached and right verdicts (n, K) of judges that are surer one after the other."""
    top = np.linspace(0.9, 1.0, judges) if judges > 1 else np.array([1.0])
    sure = rng.uniform(0.5, top, (n, judges))
    right = rng.random((n, judges)) < ACCURACY[kind](sure)
    return np.searchsorted(np.sort(GRID), sure, side="right"), right


def main() -> None:
    """Print a row per setting."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=2000)
    chosen = parser.parse_args()
    rng = np.random.default_rng(1)
    heads = {"judges": 6, "n": 6, "kind": 14, "miss": 7, "certified": 9, "coverage": 9, "by eye: miss": 13}
    print(" ".join(f"{head:>{width}}" for head, width in heads.items()))
    for judges in (1, 3):
        for kind in ACCURACY:
            n, wrong = (x.sum(0) for x in by_step(steps_of(*drawn(rng, POPULATION, judges, kind), len(GRID))))
            true = np.divide(wrong, n, out=np.zeros(len(GRID)), where=n > 0)
            for size in (200, 1000):
                miss = any_ = eye = 0
                coverage = 0.0
                for _ in range(chosen.trials):
                    steps = steps_of(*drawn(rng, size, judges, kind), len(GRID))
                    kept, errors = (x.sum(0) for x in by_step(steps))
                    step = int(certified_step(kept, errors, TARGET))
                    if step >= 0:
                        any_ += 1
                        miss += true[step] > TARGET
                        coverage += kept[step] / size
                    good = np.flatnonzero((errors <= TARGET * kept) & (kept > 0))
                    eye += len(good) > 0 and true[good[-1]] > TARGET
                print(
                    f"{judges:>6} {size:>6} {kind:>14} {miss / chosen.trials:>7.4f} "
                    f"{any_ / chosen.trials:>9.3f} {coverage / max(any_, 1):>9.3f} "
                    f"{eye / chosen.trials:>13.3f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()

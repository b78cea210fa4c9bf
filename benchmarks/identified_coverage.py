"""Coverage of the intervals of partially identified values, by simulation.

    OMP_NUM_THREADS=1 python benchmarks/identified_coverage.py [--trials 1000] [--resamples 200]

Two raters agree on 80 % of cases; each verdict is left open with a stated probability, the judge's twice as
often where the two would disagree. Per setting: how often the interval of Imbens and Manski covers each end
of the true range (inside it covers more), and how often the interval of the range covers all of it. Nominal:
95 %.
"""

from __future__ import annotations

import argparse

import numpy as np

from xjudge.statistics.bounds import sharp_bounds
from xjudge.statistics.identified import identified_interval
from xjudge.statistics.resample import percentile_interval

JOINT = np.array([[0.25, 0.10], [0.10, 0.55]])
COUNTS = 10**9  # of the population's table, in whole cases


def population(open_share: float) -> np.ndarray:
    """Probabilities (3, 3) of negative, positive and open on the two sides."""
    judge = np.where(np.eye(2) > 0, open_share, 2 * open_share)
    human = open_share / 2
    out = np.zeros((3, 3))
    out[:2, :2] = JOINT * (1 - judge) * (1 - human)
    out[:2, 2] = (JOINT * judge * (1 - human)).sum(1)
    out[2, :2] = (JOINT * (1 - judge) * human).sum(0)
    out[2, 2] = (JOINT * judge * human).sum()
    return out


def covered(
    rng: np.random.Generator, n: int, open_share: float, statistic: str, trials: int, resamples: int
) -> np.ndarray:
    """Shares of trials in which the lower end, the upper end, and the range are covered."""
    cells = population(open_share)
    least, most = map(float, sharp_bounds(np.rint(cells * COUNTS).astype(np.int64), statistic))
    tables = rng.multinomial(n, cells.ravel(), size=trials).reshape(-1, 3, 3)
    lower, upper = sharp_bounds(tables, statistic)
    hits = np.zeros(3)
    for trial in range(trials):
        drawn = rng.multinomial(n, tables[trial].ravel() / n, size=resamples).reshape(-1, 3, 3)
        low, high = sharp_bounds(drawn, statistic)
        value = identified_interval(lower[trial], upper[trial], low.std(ddof=1), high.std(ddof=1))
        hits[:2] += [value.lower <= end <= value.upper for end in (least, most)]
        hits[2] += percentile_interval(low).lower <= least and most <= percentile_interval(high).upper
    return hits / trials


def main() -> None:
    """Print a row per setting."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--resamples", type=int, default=200)
    chosen = parser.parse_args()
    rng = np.random.default_rng(1)
    print(f"{'n':>6} {'open':>5} {'statistic':>10} {'lower end':>10} {'upper end':>10} {'range':>7}")
    for n in (200, 1000):
        for open_share in (0.0, 0.01, 0.1):
            for statistic in ("accuracy", "kappa", "f1"):
                rates = covered(rng, n, open_share, statistic, chosen.trials, chosen.resamples)
                print(
                    f"{n:>6} {open_share:>5} {statistic:>10} " + " ".join(f"{rate:>9.3f}" for rate in rates)
                )


if __name__ == "__main__":
    main()

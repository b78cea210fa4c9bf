"""Coverage of the intervals of partially identified values, by simulation.

    OMP_NUM_THREADS=1 python benchmarks/identified_coverage.py [--trials 2000] [--resamples 600]

Two raters agree on 80 % of cases; each verdict is left open with a stated probability, the judge's twice as
often where the two would disagree. Per setting: how often the interval of Imbens and Manski from resamples
(``x_value_interval``, :func:`xjudge.statistics.identified.resampled_intervals`) covers each end of the true
range (inside it covers more), how often the interval of the range (``x_range_interval``) covers all of it,
and beside them what normal ends and plain quantiles would. Nominal: at least 95 %; the standard error of a
rate is 0.005 at 2,000 trials.
"""

from __future__ import annotations

import argparse

import numpy as np

from xjudge.statistics.bounds import sharp_bounds
from xjudge.statistics.identified import identified_interval, resampled_intervals
from xjudge.statistics.resample import percentile_interval

BLOCK = 50  # trials whose resamples are held at a time

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
    """Shares of trials that cover the lower end, the upper end and the range, and the same of plain ends."""
    cells = population(open_share)
    least, most = map(float, sharp_bounds(np.rint(cells * COUNTS).astype(np.int64), statistic))
    tables = rng.multinomial(n, cells.ravel(), size=trials)
    hits = np.zeros(6)
    for start in range(0, trials, BLOCK):
        some = tables[start : start + BLOCK]
        lower, upper = sharp_bounds(some.reshape(-1, 3, 3), statistic)
        drawn = rng.multinomial(n, some / n, size=(resamples, len(some))).reshape(resamples, -1, 3, 3)
        low, high = sharp_bounds(drawn, statistic)
        found = resampled_intervals(lower, upper, low, high, n)
        plain = identified_interval(lower, upper, np.nanstd(low, 0, ddof=1), np.nanstd(high, 0, ddof=1))
        ends = percentile_interval(low).lower, percentile_interval(high).upper
        for place, value, whole in ((0, found.of_value, found.of_range), (3, plain, ends)):
            lower_end, upper_end = whole[0], whole[1]
            hits[place] += ((value.lower <= least) & (least <= value.upper)).sum()
            hits[place + 1] += ((value.lower <= most) & (most <= value.upper)).sum()
            hits[place + 2] += ((lower_end <= least) & (most <= upper_end)).sum()
    return hits / trials


def main() -> None:
    """Print a row per setting, and the least rates."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--resamples", type=int, default=600)
    chosen = parser.parse_args()
    rng = np.random.default_rng(1)
    heads = ("lower end", "upper end", "range", "plain low", "plain up", "plain rng")
    print(f"{'n':>6} {'open':>5} {'statistic':>10} " + " ".join(f"{head:>9}" for head in heads))
    least = np.ones(6)
    total, n_settings = np.zeros(6), 0
    for n in (50, 200, 1000):
        for open_share in (0.0, 0.01, 0.1, 0.3):
            for statistic in ("accuracy", "kappa", "f1", "recall"):
                rates = covered(rng, n, open_share, statistic, chosen.trials, chosen.resamples)
                least, total, n_settings = np.minimum(least, rates), total + rates, n_settings + 1
                print(
                    f"{n:>6} {open_share:>5} {statistic:>10} " + " ".join(f"{rate:>9.3f}" for rate in rates),
                    flush=True,
                )
    print(f"{'least':>23} " + " ".join(f"{rate:>9.3f}" for rate in least))
    print(f"{'mean':>23} " + " ".join(f"{rate:>9.3f}" for rate in total / n_settings))


if __name__ == "__main__":
    main()

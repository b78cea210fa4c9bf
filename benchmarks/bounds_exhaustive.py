"""Sharp bounds against plain enumeration of every completion, at scale.

    python benchmarks/bounds_exhaustive.py [tables] [seed]

Each random table (cells 0 to 6, many of them 0) is completed in every way, the ten binary statistics are
evaluated on every distinct completion, and both ends are compared. The enumeration shares no code with the
library. Prints the mismatches by statistic (none are expected) and exits with 1 where there are any.
"""

import sys
import time

import numpy as np

from xjudge.statistics import bounds

STATISTICS = bounds.STATISTICS


def random_table(rng):
    share_of_zeros = rng.choice([0.2, 0.5, 0.7])
    table = rng.integers(1, rng.choice([3, 5, 8]), size=(3, 3)).clip(max=6)
    table[rng.random((3, 3)) < share_of_zeros] = 0
    return table


def completions(t):
    """Every distinct (n00, n01, n10, n11) that some completion reaches."""
    grids = np.meshgrid(*(np.arange(t[c] + 1) for c in [(0, 2), (1, 2), (2, 0), (2, 1)]), indexing="ij")
    x0, x1, y0, y1 = (g.ravel() for g in grids)  # how many of each go to the rater's / the reference's 1
    n00 = t[0, 0] + t[0, 2] - x0 + t[2, 0] - y0
    n01 = t[0, 1] + x0 + t[2, 1] - y1
    n10 = t[1, 0] + t[1, 2] - x1 + y0
    n11 = t[1, 1] + x1 + y1
    single = np.unique(np.stack([n00, n01, n10, n11]), axis=1)
    m = t[2, 2]
    splits = np.array(
        [
            (i, j, k, m - i - j - k)
            for i in range(m + 1)
            for j in range(m + 1 - i)
            for k in range(m + 1 - i - j)
        ]
    ).T
    return (single[:, :, None] + splits[:, None, :]).reshape(4, -1).astype(float)


def values(completed):
    a, b, c, d = completed
    total = a + b + c + d
    with np.errstate(divide="ignore", invalid="ignore"):
        chance = ((c + d) * (b + d) + (a + b) * (a + c)) / total**2
        observed = (a + d) / total
        return {
            "accuracy": observed,
            "precision": d / (d + b),
            "recall": d / (d + c),
            "specificity": a / (a + b),
            "balanced_accuracy": 0.5 * (d / (d + c) + a / (a + b)),
            "f1": 2 * d / (2 * d + b + c),
            "kappa": np.where(chance == 1, np.nan, (observed - chance) / (1 - chance)),
            "phi": (a * d - b * c) / np.sqrt((d + b) * (d + c) * (a + b) * (a + c)),
            "rate_reference": (c + d) / total,
            "rate_rater": (b + d) / total,
        }


def main(n_tables=20_000, seed=0):
    rng = np.random.default_rng(seed)
    tables = np.array([random_table(rng) for _ in range(n_tables)])
    found = {name: bounds.sharp_bounds(tables, name) for name in STATISTICS}
    at = {
        (name, end): bounds.sharp_allocation(tables, name, end)
        for name in STATISTICS
        for end in ("lower", "upper")
    }
    wrong = dict.fromkeys(STATISTICS, 0)
    undefined = dict.fromkeys(STATISTICS, 0)
    n_completions = 0
    spent = time.process_time()
    for i, table in enumerate(tables):
        every = completions(table)
        n_completions += every.shape[1]
        reached = {tuple(column) for column in every.T.astype(int)}
        for name, value in values(every).items():
            value = value[~np.isnan(value)]
            lower, upper = found[name][0][i], found[name][1][i]
            undefined[name] += value.size == 0
            if value.size == 0:
                good = np.isnan(lower) and np.isnan(upper)
            else:
                good = abs(lower - value.min()) < 1e-12 and abs(upper - value.max()) < 1e-12
            good = good and all(tuple(at[name, end][i].ravel()) in reached for end in ("lower", "upper"))
            wrong[name] += not good
    spent = time.process_time() - spent
    print(f"{n_tables} tables, {n_completions} completions, {spent:.0f} s of enumeration")
    for name in STATISTICS:
        print(f"{name:20s} mismatches {wrong[name]:5d}   undefined {undefined[name]:6d}")
    return sum(wrong.values())


if __name__ == "__main__":
    sys.exit(main(*(int(argument) for argument in sys.argv[1:])) > 0)

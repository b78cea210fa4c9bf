"""Identification ranges against plain enumeration of every completion, at scale.

    python benchmarks/bounds_exhaustive.py [binary tables] [three categories] [panels] [votes] [seed]

Random tables (many cells 0) and small panels are completed in every way; the statistics are evaluated on
every completion, and both ends are compared. The enumeration shares no code with the library. Prints the
mismatches by statistic (none are expected) and exits with 1 where there are any.
"""

import itertools
import sys
import time

import numpy as np

from xjudge.statistics import bounds
from xjudge.statistics.weights import distance_matrix, weight_matrix

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


def binary(n_tables, rng):
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
    print(f"binary: {n_tables} tables, {n_completions} completions, {spent:.0f} s of enumeration")
    for name in STATISTICS:
        print(f"  {name:20s} mismatches {wrong[name]:5d}   undefined {undefined[name]:6d}")
    return sum(wrong.values())


def spread(start, free):
    """Distinct count vectors after each ``(amount, places)`` is sent to its places in every way."""
    reached = {tuple(start)}
    for amount, places in free:
        for _ in range(amount):  # case by case: duplicates fall together at once
            reached = {(*vector[:k], vector[k] + 1, *vector[k + 1 :]) for vector in reached for k in places}
    return np.array(sorted(reached))


def categories(n_tables, rng, n=3):
    """Accuracy and kappa for three categories, four weightings; and the outer ranges of less work."""
    own = np.array([[1, 0.3, 0.9], [0.3, 1, 0.0], [0.9, 0.0, 1]])
    weightings = {name: weight_matrix(name, n) for name in ("identity", "linear", "quadratic")} | {"own": own}
    names = [(s, w) for s in ("accuracy", "kappa") for w in weightings]
    wrong = dict.fromkeys(names, 0)
    outer_wrong, n_outer, n_completions, spent = 0, 0, 0, time.process_time()
    for _ in range(n_tables):
        table = rng.integers(1, 7, size=(n + 1, n + 1))
        table[rng.random(table.shape) < rng.choice([0.4, 0.6])] = 0
        table[:n, n] = table[:n, n].clip(max=2)
        table[n, :n] = table[n, :n].clip(max=2)
        table[n, n] = min(table[n, n], 2)
        rows = [(table[i, n], [i * n + j for j in range(n)]) for i in range(n)]
        columns = [(table[n, j], [i * n + j for i in range(n)]) for j in range(n)]
        every = spread(table[:n, :n].ravel(), [*rows, *columns, (table[n, n], range(n * n))]).reshape(
            -1, n, n
        )
        n_completions += len(every)
        total = max(table.sum(), 1)
        observed_cells, expected_cells = (
            every / total,
            every.sum(2)[:, :, None] * every.sum(1)[:, None] / total**2,
        )
        for name, w in weightings.items():
            observed, expected = (observed_cells * w).sum((1, 2)), (expected_cells * w).sum((1, 2))
            room = (expected < 1 - 1e-12) & table.any()
            kappa = (observed[room] - expected[room]) / (1 - expected[room])
            for statistic, value in (("accuracy", observed[: len(observed) * table.any()]), ("kappa", kappa)):
                found = bounds.category_bounds(table, statistic, weights=w, max_work=10**7)
                wrong[statistic, name] += found.kind != "sharp" or not matches(found, value)
            for work in (0, 300, 3000):
                found = bounds.category_bounds(table, "kappa", weights=w, max_work=work)
                n_outer += found.kind == "outer"
                outer_wrong += not contains(found, kappa)
    spent = time.process_time() - spent
    print(f"{n} categories: {n_tables} tables, {n_completions} completions, {spent:.0f} s")
    for name in names:
        print(f"  {' '.join(name):20s} mismatches {wrong[name]:5d}")
    print(f"  outer ranges         {n_outer}, of which do not hold every completion {outer_wrong}")
    return sum(wrong.values()) + outer_wrong


def matches(found, value):
    if not value.size:
        return np.isnan(found.lower) and np.isnan(found.upper)
    return abs(found.lower - value.min()) < 1e-10 and abs(found.upper - value.max()) < 1e-10


def contains(found, value):
    if not value.size:
        return np.isnan(found.lower) and np.isnan(found.upper)
    return found.lower <= value.min() + 1e-12 and found.upper >= value.max() - 1e-12


def within_items(done, d):
    """Disagreeing ordered pairs of labels within each item, ``(completions, item)``."""
    return ((done @ d) * done).sum(-1)


def rater_values(done, d, statistic, shares):
    """Coefficients of panels ``(completions, item, L)``, NaN where undefined."""
    size = done[0].sum(-1)
    pairable, labelled = size >= 2, size >= 1
    n_categories = done.shape[-1]
    if not pairable.any():
        return np.full(len(done), np.nan)
    if statistic == "alpha":
        marginal = done[:, pairable].sum(1)
        n = marginal.sum(-1)[0]
        observed = (within_items(done, d)[:, pairable] / (size[pairable] - 1)).sum(1) * (n - 1)
        expected = ((marginal @ d) * marginal).sum(-1)
    else:
        observed = (within_items(done, d)[:, pairable] / (size * (size - 1))[pairable]).mean(1)
        pooled = done[:, pairable].sum(1) / size[pairable].sum()
        mean = (done[:, labelled] / size[labelled, None]).mean(1)
        share = mean if shares == "item_mean" or statistic == "gwet_ac" else pooled
        expected = ((share @ d) * share).sum(-1)
        if statistic == "gwet_ac":
            heavy = (1 - d).sum()
            expected = 1 - heavy / (n_categories * (n_categories - 1)) * (share * (1 - share)).sum(-1)
    out = np.full(len(done), np.nan)
    np.divide(observed, expected, out=out, where=expected > 1e-12)
    return 1 - out


def panels(n_panels, rng):
    cases = [
        ("alpha", "nominal", "pooled"),
        ("alpha", "interval", "pooled"),
        ("alpha", "ordinal", "pooled"),
        ("fleiss_kappa", "identity", "pooled"),
        ("fleiss_kappa", "quadratic", "item_mean"),
        ("gwet_ac", "identity", "pooled"),
    ]
    wrong = dict.fromkeys(cases, 0)
    outer_wrong, n_completions, spent = 0, 0, time.process_time()
    for _ in range(n_panels):
        n_categories, n_items = rng.choice([2, 3]), rng.integers(1, 6)
        counts = rng.integers(0, 3, size=(n_items, n_categories))
        unresolved = rng.integers(0, 3, size=n_items)
        unresolved[rng.random(n_items) < 0.4] = 0
        ways = [spread([0] * n_categories, [(u, range(n_categories))]) for u in unresolved]
        every = np.array([counts + np.array(way) for way in itertools.product(*ways)], dtype=float)
        n_completions += len(every)
        for statistic, name, shares in cases:
            options = {"metric": name} if statistic == "alpha" else {"weights": name, "shares": shares}
            if name == "ordinal":
                value = np.concatenate([ordinal_alpha(one) for one in every])
            else:
                d = (
                    distance_matrix(name, n_categories)
                    if statistic == "alpha"
                    else 1 - weight_matrix(name, n_categories)
                )
                value = rater_values(every, d, statistic, shares)
            value = value[~np.isnan(value)]
            found = bounds.rater_bounds(counts, unresolved, statistic, max_work=10**8, **options)
            wrong[statistic, name, shares] += found.kind != "sharp" or not matches(found, value)
            found = bounds.rater_bounds(counts, unresolved, statistic, max_work=0, **options)
            outer_wrong += not contains(found, value)
    spent = time.process_time() - spent
    print(f"panels: {n_panels}, {n_completions} completions, {spent:.0f} s")
    for case in cases:
        print(f"  {' '.join(case):32s} mismatches {wrong[case]:5d}")
    print(f"  outer ranges that do not hold every completion {outer_wrong}")
    return sum(wrong.values()) + outer_wrong


def ordinal_alpha(done):
    marginal = done[done.sum(-1) >= 2].sum(0)
    rank = marginal.cumsum() - marginal / 2
    return rater_values(done[None], (rank[:, None] - rank) ** 2, "alpha", "pooled")


def vote_options(kind):
    """Cells of (n00, n01, n10, n11) that a case may come to; ``None`` where it leaves the table."""
    bits, said = divmod(kind, 3)
    cells = [2 * a + b for a in (0, 1) if bits & (1, 2)[a] for b in ((0, 1) if said == 2 else (said,))]
    return [*cells, None] if bits & 4 else cells


def reached_by_votes(kinds):
    """Every table that the cases of each kind may come to, one case after the other."""
    tables = np.zeros((1, 4), dtype=np.int64)
    for kind in np.flatnonzero(kinds):
        steps = np.array(
            [np.eye(4, dtype=np.int64)[c] if c is not None else [0] * 4 for c in vote_options(kind)]
        )
        for _ in range(kinds[kind]):
            tables = np.unique((tables[:, None] + steps).reshape(-1, 4), axis=0)
    return tables


def votes(n_tables, rng):
    kinds = np.zeros((n_tables, bounds.VOTE_KINDS), dtype=np.int64)
    possible = np.array([k for k in range(3, bounds.VOTE_KINDS) if k // 3 != 4])  # only leaving is no case
    for row in kinds:
        some = rng.choice(possible, size=rng.integers(1, 8), replace=False)
        row[some] = rng.integers(1, 5, len(some))
    found = {name: bounds.vote_bounds(kinds, name) for name in STATISTICS}
    wrong, n_completions, spent = dict.fromkeys(STATISTICS, 0), 0, time.process_time()
    for i, row in enumerate(kinds):
        every = reached_by_votes(row)
        n_completions += len(every)
        for name, value in values(every.T.astype(float)).items():
            one = bounds.Range(*(part[i] for part in found[name]))
            wrong[name] += not matches(one, value[~np.isnan(value)])
    spent = time.process_time() - spent
    print(f"votes: {n_tables} tables, {n_completions} distinct completions, {spent:.0f} s")
    for name in STATISTICS:
        print(f"  {name:20s} mismatches {wrong[name]:5d}")
    return sum(wrong.values())


def main(n_binary=20_000, n_categories=2_000, n_panels=1_000, n_votes=5_000, seed=0):
    rng = np.random.default_rng(seed)
    small = binary(n_binary, rng) + categories(n_categories, rng)
    return small + panels(n_panels, rng) + votes(n_votes, rng)


if __name__ == "__main__":
    sys.exit(main(*(int(argument) for argument in sys.argv[1:])) > 0)

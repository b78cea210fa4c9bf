"""What identification ranges cost, beside enumeration of completions.

    OMP_NUM_THREADS=1 python benchmarks/bounds.py

CPU seconds of this process, the best of five. Enumeration is vectorised numpy over the completions of a
table of moderate size, scaled by the number of completions of the real-size table: nobody waits for it.
"""

import math
import time

import numpy as np

from xjudge.statistics import bounds

FOUR = ("accuracy", "f1", "kappa", "phi")
REAL_SIZE = np.array([[900, 250, 400], [300, 1100, 300], [500, 200, 150]])
MODERATE = np.array([[90, 25, 12], [30, 110, 10], [14, 9, 6]])


def best(call, repeats=5):
    times = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def n_allocations(table):
    one_sided = math.prod(int(n) + 1 for n in (*table[:2, 2], *table[2, :2]))
    return one_sided * math.comb(int(table[2, 2]) + 3, 3)


def enumerate_all(table):
    """All four statistics at every allocation of one table, in numpy; both ends of each."""
    grids = [np.arange(n + 1) for n in (*table[:2, 2], *table[2, :2])]
    x0, x1, y0, y1 = (g.ravel() for g in np.meshgrid(*grids, indexing="ij"))
    m = int(table[2, 2])
    cc = [
        (i, j, k, m - i - j - k) for i in range(m + 1) for j in range(m + 1 - i) for k in range(m + 1 - i - j)
    ]
    lower, upper = np.full(4, np.inf), np.full(4, -np.inf)
    for z00, z01, z10, z11 in cc:
        a = table[0, 0] + table[0, 2] - x0 + table[2, 0] - y0 + z00
        b = table[0, 1] + x0 + table[2, 1] - y1 + z01
        c = table[1, 0] + table[1, 2] - x1 + y0 + z10
        d = table[1, 1] + x1 + y1 + z11
        n = a + b + c + d
        agreed, excess = a + d, a * d - b * c
        h, j = c + d, b + d
        found = (
            agreed / n,
            2 * d / (2 * d + b + c),
            2 * excess / (h * (n - j) + j * (n - h)),
            excess / np.sqrt((h * (n - h)).astype(float) * (j * (n - j))),
        )
        lower = np.minimum(lower, [value.min() for value in found])
        upper = np.maximum(upper, [value.max() for value in found])
    return lower, upper


def binary():
    count = n_allocations(MODERATE)
    enumerated = enumerate_all(MODERATE)
    closed = np.array([bounds.sharp_bounds(MODERATE, name) for name in FOUR]).T
    assert np.allclose(enumerated, closed, rtol=1e-13)
    each = best(lambda: enumerate_all(MODERATE), 3) / count
    years = each * n_allocations(REAL_SIZE) / (365.25 * 86400)
    print(
        f"enumeration: {1 / each:.3g} allocations/s; the real-size table has {n_allocations(REAL_SIZE):.4g}"
    )
    rng = np.random.default_rng(0)
    for n in (1, 100, 10_000, 1_000_000):
        tables = rng.multinomial(REAL_SIZE.sum(), (REAL_SIZE / REAL_SIZE.sum()).ravel(), n).reshape(n, 3, 3)
        spent = best(lambda: [bounds.sharp_bounds(tables, name) for name in FOUR])  # noqa: B023
        ratio = years * 365.25 * 86400 / (spent / n)
        print(
            f"all ends of {', '.join(FOUR)}: {n:9,d} tables {spent * 1e3:9.3f} ms, {spent / n * 1e6:8.3f} us "
            f"a table; enumeration (extrapolated) {years:.0f} years a table, ratio {ratio:.1e}"
        )
    tables = rng.multinomial(REAL_SIZE.sum(), (REAL_SIZE / REAL_SIZE.sum()).ravel(), 10_000).reshape(-1, 3, 3)
    for name in bounds.STATISTICS:
        spent = best(lambda: bounds.sharp_bounds(tables, name))  # noqa: B023
        at_half = best(lambda: bounds.range_at_share(tables, name, 0.5))  # noqa: B023
        threshold = bounds.range_at_share(tables, name, 0.5)[0]
        down = best(lambda: bounds.breakdown(tables, name, threshold), 2)  # noqa: B023
        print(
            f"  {name:18s} 10,000 tables: range {spent * 1e3:6.2f} ms, at share 0.5 {at_half * 1e3:6.2f} ms, "
            f"breakdown {down * 1e3:7.2f} ms"
        )
    large = rng.integers(0, 10**9, size=(10_000, 3, 3))
    spent = best(lambda: [bounds.sharp_bounds(large, name) for name in FOUR])
    print(f"  counts of 1e9, 10,000 tables, all ends of four: {spent * 1e3:.2f} ms")


def categories():
    rng = np.random.default_rng(1)
    for n, both in ((3, 0), (3, 60), (3, 1500), (4, 0), (4, 12), (4, 500), (5, 0), (5, 100), (7, 200)):
        table = rng.multinomial(2000, np.ones((n + 1) ** 2) / (n + 1) ** 2).reshape(n + 1, n + 1)
        table[:n, :n] += 200 * np.eye(n, dtype=int)
        table[:n, n] //= 4
        table[n, :n] //= 4
        table[n, n] = both
        for work in (0, 2_000_000):
            found = bounds.category_bounds(table, "kappa", weights="linear", max_work=work)
            spent = best(
                lambda: bounds.category_bounds(table, "kappa", weights="linear", max_work=work),  # noqa: B023
                2,
            )
            print(
                f"  kappa, {n} categories, {both:4d} open on both sides, work {work:9,d}: "
                f"[{found.lower:.5f}, {found.upper:.5f}] {found.kind} {spent * 1e3:8.1f} ms"
            )


def raters():
    rng = np.random.default_rng(2)
    for n, items, share in ((2, 500, 0.1), (2, 5000, 0.1), (3, 100, 0.1), (3, 5000, 0.3), (5, 500, 0.1)):
        truth = rng.integers(0, n, items)
        labels = np.where(rng.random((items, 4)) < 0.75, truth[:, None], rng.integers(0, n, (items, 4)))
        open_ = rng.random((items, 4)) < share
        counts = np.stack([((labels == a) & ~open_).sum(1) for a in range(n)], axis=1)
        for metric in ("nominal", "ordinal"):
            found = bounds.rater_bounds(counts, open_.sum(1), metric=metric)
            spent = best(lambda: bounds.rater_bounds(counts, open_.sum(1), metric=metric), 2)  # noqa: B023
            print(
                f"  alpha {metric:8s} {n} categories, {items:5d} items x 4, {open_.sum():5d} open: "
                f"[{found.lower:.4f}, {found.upper:.4f}] {found.kind} {spent * 1e3:8.1f} ms"
            )


if __name__ == "__main__":
    binary()
    categories()
    raters()

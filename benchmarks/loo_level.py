"""Level and power of the leave-one-out verdict, and accuracy of the probabilities without simulation.

    OMP_NUM_THREADS=1 python benchmarks/loo_level.py [--trials 4000] [--part level power accuracy]
    nice python benchmarks/loo_level.py --part level --trials 20000 --store docs/data/loo_level.csv

`level`: false accepts at the boundary over configurations with one or more humans easily beaten and the rest
exactly at the bar (LOO.md section 6), full pipeline from labels, Bonferroni and max-T. `power`: accept and
reject rates of the verdict, the point rule and the alternative-annotator test at margins off the bar; with
`--oracle FILE` (a `loo.json`) beside the stored figures. `accuracy`: the corrected Gaussian against
simulation in random settings where it claims to be trusted.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from scipy.optimize import brentq

from xjudge.statistics.loo import (
    LooCounts,
    accept_probability,
    accuracy_population,
    alt_test_counts,
    design_margins,
    judge_accuracy_at,
    loo_margins,
    max_t,
    one_sided_p,
    partial_conjunction,
    wrong_decision_rate,
)

HALF = np.array([0.5, 0.5])


def draw(
    rng: np.random.Generator, T: int, humans: list[float], judge: float, design: str, m: int, n: int
) -> tuple[np.ndarray, np.ndarray]:
    """Labels (T, items, K) and verdicts (T, items) where a further human labelled, exactly m items each."""
    K = len(humans)
    if design == "shared":
        size = m
        shown = np.ones((T, size, K), dtype=bool)
    else:
        keys = rng.random((T, K - 1, n), dtype=np.float32)
        chosen = np.argpartition(keys, m - 1, axis=2)[:, :, :m]
        full = np.zeros((T, K - 1, n), dtype=bool)
        np.put_along_axis(full, chosen, True, axis=2)
        any_one = full.any(axis=1)
        size = int(any_one.sum(axis=1).max())
        first = np.argsort(~any_one, axis=1, kind="stable")[:, :size]
        further = np.take_along_axis(full, first[:, None], axis=2)
        shown = np.concatenate([further.any(axis=1)[:, None], further], axis=1).transpose(0, 2, 1)
    truth = rng.integers(0, 2, (T, size), dtype=np.int8)
    right = rng.random((T, size, K + 1), dtype=np.float32) < np.array([*humans, judge], dtype=np.float32)
    labels = np.where(right, truth[..., None], 1 - truth[..., None]).astype(np.int8)
    return np.where(shown, labels[..., :K], -1).astype(np.int8), labels[..., K]


def batch_counts(humans: np.ndarray, judge: np.ndarray) -> tuple[LooCounts, np.ndarray, np.ndarray]:
    """Counts of every trial at once, and on how many items the judge is ahead and behind."""
    T, _, K = humans.shape
    there = humans >= 0
    agreed = there & (humans == judge[..., None])
    same = np.stack(
        [((humans == humans[..., [k]]) & there & there[..., [k]]).sum(axis=2) for k in range(K)], axis=2
    )
    w = np.where(there, there.sum(axis=2, keepdims=True) - 1, 0)
    z = np.where(there, agreed.sum(axis=2, keepdims=True) - agreed - (same - 1), 0)
    vectors = np.concatenate([np.ones_like(z[..., :1]), z, w], axis=2).astype(np.float32)
    moments = np.rint(np.einsum("tiv,tiw->tvw", vectors, vectors, optimize=True)).astype(np.int64)
    hits, pairs = np.zeros((T, K, K), np.int64), np.zeros((T, K, K), np.int64)
    # only the sums over the other humans matter here: put them on one place
    hits[:, np.arange(K), (np.arange(K) + 1) % K] = z.sum(axis=1)
    pairs[:, np.arange(K), (np.arange(K) + 1) % K] = w.sum(axis=1)
    counts = LooCounts(hits, np.zeros_like(hits), pairs, (w > 0).sum(axis=1), moments)
    used = w > 0
    ahead = np.stack([((z > 0) & used).sum(axis=1), ((z < 0) & used).sum(axis=1)], axis=-1)
    return counts, ahead, used.sum(axis=1)


def rates(
    rng: np.random.Generator,
    T: int,
    humans: list[float],
    judge: float,
    design: str,
    m: int,
    n: int,
    c: int,
    *,
    with_max_t: bool = False,
    normal: bool = False,
) -> dict[str, float]:
    K = len(humans)
    found: dict[str, list[np.ndarray]] = {}
    block = max(1, 3_000_000 // (n * K))
    for start in range(0, T, block):
        counts, ahead, n_items = batch_counts(*draw(rng, min(block, T - start), humans, judge, design, m, n))
        margins = loo_margins(counts)
        if normal:
            # the stored figures judge small samples by the normal distribution, the library by t
            margins = margins._replace(
                n_items=np.where(margins.se > 0, np.maximum(margins.n_items, 50), margins.n_items)
            )
        above, below = one_sided_p(margins, 0.05)
        needed = np.full(len(above), c)
        accept, reject = partial_conjunction(above, needed), partial_conjunction(below, K - needed + 1)
        stability = accept_probability(margins.margin, margins.covariance, needed, log2_points=8)
        alt = alt_test_counts(ahead, n_items, eps=0.05, min_items=0)
        parts = {
            "plain": margins.votes.wins >= c,
            "accept": accept <= 0.05,
            "reject": reject <= 0.05,
            "stable": stability >= 0.95,
            "unstable": stability <= 0.05,
            "single": np.sort(above, axis=1)[:, c - 1] <= 0.05,
            "alt_test": np.nansum(alt.significant, axis=1) >= c,
        }
        if with_max_t:
            parts["max_t"] = parts["accept"].copy()
            # Never above Bonferroni's p-value nor below the single one: only between them is it to be found.
            for t in np.nonzero(parts["single"] & ~parts["accept"] & (margins.se > 0).all(axis=1))[0]:
                least = int(margins.n_items[t].min())
                df = least - 1.0 if least < 50 else np.inf
                z = margins.margin[t] / margins.se[t]
                parts["max_t"][t] = max_t(z, margins.covariance[t], c, df=df, log2_points=10) <= 0.05
        for name, values in parts.items():
            found.setdefault(name, []).append(values)
    return {name: float(np.mean(np.concatenate(values))) for name, values in found.items()}


def boundary_judge(humans: list[float], design: str, m: int, n: int, place: int) -> float:
    """Accuracy that puts the margin of one comparison exactly on the bar, in the design."""

    def margin(p: float) -> float:
        population = accuracy_population(humans, p, HALF)
        return float(design_margins(population, design, m / n, n, 0.05).mu[place])

    return float(brentq(margin, 0.3, 1.0))


SETTINGS = [(3, 2), (4, 2), (4, 3), (5, 3), (8, 4), (10, 5)]
DESIGNS = ("shared", "random")

# Of one cell of the level: humans, wins needed, items per further human, humans easily beaten; the largest
# margin of the others; and how often the point rule, a stability of 95 %, the c-th smallest p-value alone,
# the verdict and its max-T version accept.
COLUMNS = ["humans", "needed", "design", "items", "easy", "trials"]
COLUMNS += ["margin", "plain", "stable", "single", "verdict", "max_t"]


def level(T: int, only: str | None, store: Path | None) -> None:
    """Print the false accepts of every cell; with ``store``, add each as it is found and skip those there."""
    se = np.sqrt(0.05 * 0.95 / T)
    print(f"false accepts at the boundary, {T} trials (se {se:.4f}); at most .05, .06 below 50 items")
    print(",".join(COLUMNS))
    rows = [] if store is None or not store.exists() else store.read_text().splitlines()[1:]
    done = {",".join(row.split(",")[:6]): row for row in rows}
    cells = [
        (K, c, design, m, easy)
        for K, c in SETTINGS
        for easy in (0, c - 1)
        for design in DESIGNS
        for m in (25, 75, 200)
    ]
    worst: dict[str, float] = {}
    for cell in cells:
        key = ",".join(map(str, (*cell, T)))
        if only is not None and not key.startswith(only):
            continue
        row = done.get(key) or f"{key},{level_cell(T, *cell)}"
        print(row, flush=True)
        if store is not None and key not in done:
            if not store.exists():
                store.write_text(",".join(COLUMNS) + "\n")
            with store.open("a") as file:
                file.write(row + "\n")
        found = dict(zip(COLUMNS, row.split(","), strict=True))
        for rule in ("verdict", "max_t"):
            name = f"{rule}, {'below' if cell[3] < 50 else 'from'} 50 items"
            worst[name] = max(worst.get(name, 0.0), float(found[rule] or 0))
    print(f"largest: {worst}")


def level_cell(T: int, K: int, c: int, design: str, m: int, easy: int) -> str:
    """Largest margin of the humans at the bar and rates of acceptance, as text; its own stream of numbers."""
    rng = np.random.default_rng((0, K, c, DESIGNS.index(design), m, easy))
    humans = [0.85] * (K - easy) + [0.6] * easy
    # Under random the first comparison has the largest margin of those at the bar: put it there.
    judge = boundary_judge(humans, design, m, 2000, 0)
    population = accuracy_population(humans, judge, HALF)
    null = design_margins(population, design, m / 2000, 2000, 0.05).mu[: K - easy]
    found = rates(rng, T, humans, judge, design, m, 2000, c, with_max_t=K - c + 1 >= 4)
    shown = [
        null.max(),
        *(found.get(name, np.nan) for name in ("plain", "stable", "single", "accept", "max_t")),
    ]
    return ",".join("" if np.isnan(value) else f"{value + 0.0:.5g}" for value in shown)


def power(T: int, oracle: Path | None) -> None:
    rng = np.random.default_rng(1)
    if oracle is None:
        settings = [
            {"K": K, "c": c, "design": design, "margin": margin, "m": m}
            for K, c in ((3, 2), (4, 2), (4, 3), (5, 3))
            for design in ("random", "shared")
            for margin in (-0.1, -0.05, 0.0, 0.05, 0.1)
            for m in (25, 75, 200, 600)
        ]
    else:
        settings = json.loads(oracle.read_text())["three_way_operating_characteristics"]
    names = {"plain": "plain_accept", "alt_test": "alt_test_accept"}
    beyond = []
    for one in settings:
        judge = judge_accuracy_at(one["margin"], [0.85] * one["K"], HALF, 0.05)
        found = rates(
            rng,
            T,
            [0.85] * one["K"],
            judge,
            one["design"],
            one["m"],
            2000,
            one["c"],
            normal=oracle is not None,
        )
        text = f"{one['K']} {one['c']} {one['design']:7s} {one['margin']:+.2f} {one['m']:4d} "
        text += " ".join(f"{name} {value:.3f}" for name, value in found.items())
        if oracle is not None:
            pairs = [(found[a], one[b]) for a, b in names.items()]
            pairs += [(found["accept"], one["pc05"][0]), (found["reject"], one["pc05"][1])]
            pairs += [(found["stable"], one["pstar95"][0]), (found["unstable"], one["pstar95"][1])]
            pairs += [(found["single"], one["iu05"][0])]
            limits = [max(0.015, 4 * np.sqrt(b * (1 - b) / one["T"] + a * (1 - a) / T)) for a, b in pairs]
            off = [abs(a - b) / limit for (a, b), limit in zip(pairs, limits, strict=True)]
            text += f"   {max(off):.2f} of the tolerance"
            if max(off) > 1:
                text += f" at {pairs[int(np.argmax(off))]}"
                beyond.append(text)
        print(text, flush=True)
    if oracle is not None:
        finite(T, rng, json.loads(oracle.read_text())["boundary_null_finite"])
        print(f"{len(settings)} settings, {len(beyond)} beyond the tolerance")


def finite(T: int, rng: np.random.Generator, entries: list) -> None:
    """The stored boundary figures with real samples, one human easily beaten."""
    for one in entries:
        found = rates(
            rng, T, one["p_h"], one["p_j"], one["design"], one["m"], one["n"], one["c"], normal=True
        )
        pairs = [
            (found[a], one[b])
            for a, b in (("plain", "plain"), ("stable", "pstar95"), ("single", "iu05"), ("accept", "pc05"))
        ]
        limits = [max(0.015, 4 * np.sqrt(b * (1 - b) / one["T"] + a * (1 - a) / T)) for a, b in pairs]
        off = max(abs(a - b) / limit for (a, b), limit in zip(pairs, limits, strict=True))
        print(f"boundary {one['design']:7s} {one['m']:4d} {pairs}   {off:.2f} of the tolerance", flush=True)


def accuracy(T: int, n_settings: int) -> None:
    rng = np.random.default_rng(2)
    differences = []
    while len(differences) < n_settings:
        K, L = int(rng.integers(2, 7)), int(rng.integers(2, 4))
        n = int(rng.choice([100, 200, 500, 2000]))
        options = {
            "human_accuracy": rng.uniform(0.55, 0.98, K),
            "judge_accuracy": float(rng.uniform(0.5, 0.98)),
            "prevalence": rng.dirichlet(np.full(L, 1.5)),
            "n_items": n,
            "overlap": float(min(1.0, rng.choice([15, 30, 50, 75, 100, 150]) / n)),
            "design": str(rng.choice(["random", "shared", "strat"])),
            "mask": str(rng.choice(["bernoulli", "exact"])),
            "strict": bool(rng.integers(2)),
        }
        fast = wrong_decision_rate(**options)
        if not fast.trusted or not 0.005 < fast.p_accept < 0.995:
            continue
        slow = wrong_decision_rate(**options, method="monte_carlo", n_trials=10 * T)
        differences.append(abs(fast.p_accept - slow.p_accept))
    found = np.array(differences)
    print(
        f"{n_settings} trusted settings, {10 * T} trials each: mean difference {found.mean():.4f}, largest "
        f"{found.max():.4f}, beyond 1.5 points {np.count_nonzero(found > 0.015)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=4000)
    parser.add_argument("--settings", type=int, default=300)
    parser.add_argument("--part", nargs="*", default=["level", "power", "accuracy"])
    parser.add_argument("--oracle", type=Path)
    parser.add_argument("--only", help="of the level, rows that start like this")
    parser.add_argument("--store", type=Path, help="of the level, a table to add to and to go on from")
    options = parser.parse_args()
    if "level" in options.part:
        level(options.trials, options.only, options.store)
    if "power" in options.part:
        power(options.trials, options.oracle)
    if "accuracy" in options.part:
        accuracy(options.trials, options.settings)


if __name__ == "__main__":
    main()

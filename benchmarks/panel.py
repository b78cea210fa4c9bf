"""Exhaustive panels beside plain numpy, in CPU seconds of one process and one thread.

    OMP_NUM_THREADS=1 python benchmarks/panel.py [--repeats 5] [--sample 20000]

All panels of a size from a pool: tie-aware exact accuracy and mean squared correlation. Plain numpy gathers
one-hot votes of blocks of 2,000 panels and adds them; it is timed on a sample of panels and scaled to all of
them ("extrapolated"), since the whole would take minutes. The sides alternate; medians are printed. Equality
on the sample is asserted before anything is timed. `peak` is the resident memory of a fresh process that
enumerates once.
"""

from __future__ import annotations

import argparse
import functools
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from xjudge.statistics import panel

# a benchmark beside this one is called `coverage`, and numba looks for the package of that name
sys.path[:] = [place for place in sys.path if place != str(Path(__file__).resolve().parent)]

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

N_ITEMS, N_JUDGES = 1000, 32
CASES = [(3, 7), (3, 5), (2, 7), (5, 6)]  # categories, size; the first is the one with goals
FLOORS = {"compiled": 300, "numpy": 15}
GOALS = {"compiled": 1500, "numpy": 15}


def pool(n_categories: int) -> tuple[Integers, Integers, Floats]:
    """Judges of mixed skill, gold, and the squared scaled Gram matrix, with 100 human labels an item."""
    generator = np.random.default_rng(0)
    truth = generator.dirichlet(np.full(n_categories, 0.5), N_ITEMS)
    counts = generator.multinomial(100, truth)
    h, _ = panel.human_distribution(counts)
    gold, _ = panel.gold_mode(h)
    skill = generator.uniform(0.55, 0.8, N_JUDGES)
    guess = generator.integers(0, n_categories, (N_ITEMS, N_JUDGES))
    judges = np.where(generator.random((N_ITEMS, N_JUDGES)) < skill, gold[:, None], guess)
    return judges, gold, panel.normalised_gram(panel.residual_gram(judges, h)) ** 2


def plain_numpy(
    judges: Integers, gold: Integers, squares: Floats, members: Integers, n_categories: int
) -> tuple[Integers, Floats]:
    """What a user writes: one-hot votes gathered and added, in blocks of 2,000 panels."""
    k, scale = members.shape[1], panel.score_scale(n_categories, members.shape[1])
    onehot = (judges.T[:, :, None] == np.arange(n_categories)).astype(np.uint8)
    items = np.arange(len(gold))
    scores, ratio = np.empty(len(members), dtype=np.int64), np.empty(len(members))
    for start in range(0, len(members), 2000):
        part = members[start : start + 2000]
        votes = onehot[part].sum(1, dtype=np.uint8)
        most = votes.max(2)
        n_modes = (votes == most[:, :, None]).sum(2)
        right = votes[:, items, gold] == most
        scores[start : start + 2000] = np.where(right, scale // np.maximum(n_modes, 1), 0).sum(1)
        total = squares[part[:, :, None], part[:, None, :]].sum((1, 2))
        ratio[start : start + 2000] = (total - k) / (k * (k - 1))
    return scores, ratio


def ours(
    judges: Integers, gold: Integers, squares: Floats, k: int, n_categories: int, *, fast: bool
) -> tuple[Integers, Floats]:
    """The same for every panel of the size, packing included."""
    votes = panel.vote_planes(judges, gold, n_categories)
    (whole,) = panel.enumerate_panels(votes, squares[None], k, fast=fast)  # these cases fit one chunk
    total = whole.sums[0]
    total -= k
    total /= k * (k - 1)
    return whole.scores, total


def cpu(call: Callable[[], object]) -> float:
    """CPU seconds of one call."""
    start = time.process_time()
    call()
    return time.process_time() - start


def peak_of_fresh_process(n_categories: int, k: int, *, fast: bool) -> float:
    """MiB resident at most in a process that enumerates once, imports and compiled code included (Linux)."""
    code = (
        "import runpy, sys; bench = runpy.run_path(sys.argv[1]); "
        f"j, g, s = bench['pool']({n_categories}); bench['ours'](j, g, s, {k}, {n_categories}, fast={fast}); "
        "print([line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')][0])"
    )
    done = subprocess.run([sys.executable, "-c", code, __file__], capture_output=True, text=True, check=True)
    return int(done.stdout) / 1024


def compare(n_categories: int, k: int, repeats: int, n_sample: int) -> None:
    """Time one case and print it."""
    judges, gold, squares = pool(n_categories)
    n_panels = math.comb(N_JUDGES, k)
    ranks = np.sort(np.random.default_rng(1).choice(n_panels, min(n_sample, n_panels), replace=False))
    members = panel.panel_members(ranks, N_JUDGES, k)
    expected = plain_numpy(judges, gold, squares, members, n_categories)
    for fast in (True, False):
        scores, ratio = ours(judges, gold, squares, k, n_categories, fast=fast)
        assert np.array_equal(scores[ranks], expected[0])
        assert np.allclose(ratio[ranks], expected[1], rtol=1e-12)
    times: dict[str, list[float]] = {"plain": [], "compiled": [], "numpy": []}
    for _ in range(repeats):
        times["plain"].append(cpu(lambda: plain_numpy(judges, gold, squares, members, n_categories)))
        times["compiled"].append(cpu(lambda: ours(judges, gold, squares, k, n_categories, fast=True)))
        times["numpy"].append(cpu(lambda: ours(judges, gold, squares, k, n_categories, fast=False)))
    plain = statistics.median(times["plain"]) * n_panels / len(ranks)
    print(f"C({N_JUDGES},{k}) = {n_panels} panels, n = {N_ITEMS}, L = {n_categories}; equal to plain numpy")
    print(f"  plain numpy       {plain:9.2f} s   extrapolated from {len(ranks)} panels")
    for name in ("compiled", "numpy"):
        seconds = statistics.median(times[name])
        peak = peak_of_fresh_process(n_categories, k, fast=name == "compiled")
        goals = f"   (floor {FLOORS[name]}x, goal {GOALS[name]}x)" if (n_categories, k) == CASES[0] else ""
        print(f"  xjudge, {name:9s} {seconds:9.3f} s   {plain / seconds:7.0f}x   peak {peak:4.0f} MiB{goals}")


def selection(repeats: int) -> None:
    """Time the whole selection: all rules, the Pareto front and the counts over all panels."""
    generator = np.random.default_rng(0)
    judges, gold, _ = pool(3)
    h, _ = panel.human_distribution(generator.multinomial(100, 0.1 / 3 + 0.9 * np.eye(3)[gold]))
    for search in ("swaps", "all"):
        call = functools.partial(panel.select_panel, judges, h, gold, 7, rule=["A", "D", "E"], search=search)
        call()
        seconds = statistics.median(cpu(call) for _ in range(repeats))
        print(f"select_panel(k=7, rules A, D, E, search={search!r}): {seconds:.3f} s")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--sample", type=int, default=20_000)
    arguments = parser.parse_args()
    for n_categories, k in CASES:
        compare(n_categories, k, arguments.repeats, arguments.sample)
    selection(arguments.repeats)


if __name__ == "__main__":
    main()

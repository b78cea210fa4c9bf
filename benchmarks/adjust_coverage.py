"""Coverage of the intervals for a positive rate, by simulation.

    OMP_NUM_THREADS=1 python benchmarks/adjust_coverage.py [--trials 4000] [--labelled 200] [--cases 10000]

A random sample of the cases is labelled; the judge has a stated sensitivity and specificity. Per setting: how
often each interval covers the positive rate, its mean width against that of the labelled cases alone, and how
often the correction hurts. Nominal: 95 %.
"""

from __future__ import annotations

import argparse
import itertools

import numpy as np

from xjudge.statistics.adjust import labelled_only, naive, ppi, ppi_plus_plus, rogan_gladen

METHODS = {
    "labelled": lambda table, rest: labelled_only(table),
    "naive": naive,
    "rogan_gladen": rogan_gladen,
    "lang_reiczigel": lambda table, rest: rogan_gladen(table, rest, interval="lang_reiczigel"),
    "ppi": ppi,
    "ppi++": ppi_plus_plus,
}


def drawn(
    rng: np.random.Generator,
    trials: int,
    n: int,
    rest: int,
    rate: float,
    sensitivity: float,
    specificity: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Labelled tables (trial, 2, 2) and unlabelled verdicts (trial, 2)."""
    cells = np.array(
        [
            [(1 - rate) * specificity, (1 - rate) * (1 - specificity)],
            [rate * (1 - sensitivity), rate * sensitivity],
        ]
    )
    labelled = rng.multinomial(n, cells.ravel(), size=trials).reshape(-1, 2, 2)
    return labelled, rng.multinomial(rest, cells.sum(0), size=trials)


def main() -> None:
    """Print a row per setting."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=4000)
    parser.add_argument("--labelled", type=int, default=200)
    parser.add_argument("--cases", type=int, default=10_000)
    chosen = parser.parse_args()
    rng = np.random.default_rng(1)
    print(f"{'rate':>5} {'sens':>5} {'spec':>5} " + " ".join(f"{name:>22}" for name in METHODS))
    found: dict[str, list[float]] = {name: [] for name in METHODS}
    for rate, sensitivity, specificity in itertools.product(
        (0.1, 0.3, 0.5), (0.7, 0.85, 0.95), (0.7, 0.85, 0.95)
    ):
        rest = chosen.cases - chosen.labelled
        data = drawn(rng, chosen.trials, chosen.labelled, rest, rate, sensitivity, specificity)
        own = labelled_only(data[0])
        cells = []
        for name, method in METHODS.items():
            said = method(*data)
            covers = float(((said.lower <= rate) & (rate <= said.upper)).mean())
            width = float(np.nanmean(said.upper - said.lower) / (own.upper - own.lower).mean())
            found[name].append(covers)
            cells.append(f"{covers:>8.4f} {width:>6.2f} {said.hurts.mean():>6.2f}")
        print(f"{rate:>5} {sensitivity:>5} {specificity:>5} " + " ".join(cells), flush=True)
    for name, rates in found.items():
        print(f"{name:>13}: {min(rates):.4f} to {max(rates):.4f}")


if __name__ == "__main__":
    main()

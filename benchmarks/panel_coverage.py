"""How often the intervals of effective sizes hold the value of endless items.

    OMP_NUM_THREADS=1 python benchmarks/panel_coverage.py [--repeats 200] [--resamples 400] [--designs m2,...]

Designs:

* `dense`: 100 humans an item, judges near the human distribution (n = 200, k = 5, 3 labels);
* `sparse`: humans agree on 95% of the items, judges err on others too (n = 200 and 600, k = 5, 2 labels);
* `three`: 3 humans an item who are right 9 times in 10, judges with shared errors (n = 150 and 400);
* `m2` to `m64`: m simulated humans in the place of judges, which are worth m (n = 300, 100 humans an item);
* `f3`, `f5`, `f10`: 3, 5, 10 humans an item drawn from known distributions; the mean of the corrected J and E
  beside the true and the plug-in ones, with the Monte Carlo error.

The truth of a design is the value on 400,000 items. The Monte Carlo error of a coverage of 0.95 is 0.015 at
200 repeats.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import xarray as xr

import xjudge as xj
from xjudge.statistics import panel

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

SIZES = ("nu_h", "nu_mse", "nu_mse_limit", "n_eff", "gamma_co", "distributional_error", "participation_ratio")
N_TRUTH = 400_000
CASES = {
    "dense": (200, 5),
    "sparse": (200, 5),
    "sparse600": (600, 5),
    "three": (150, 5),
    "three400": (400, 7),
    **{f"m{m}": (300, m) for m in (2, 4, 8, 16, 32, 64)},
}


def labels(generator: np.random.Generator, p: Floats) -> Integers:
    """Labels drawn from distributions on the last axis."""
    return (generator.random(p.shape[:-1])[..., None] >= np.cumsum(p, axis=-1)[..., :-1]).sum(-1)


def draw(generator: np.random.Generator, design: str, n: int, k: int) -> tuple[Floats, Integers]:
    """Human distributions (n, L) and the labels of the judges (n, k)."""
    if design == "dense":
        h = generator.multinomial(100, generator.dirichlet(np.ones(3), n)) / 100
        near = 0.6 * h + 0.4 * generator.dirichlet(np.ones(3), n)
        return h, labels(generator, np.repeat(near[:, None], k, axis=1))
    if design.startswith("sparse"):
        truth = generator.integers(0, 2, n)
        h = np.eye(2)[truth]
        h[generator.random(n) < 0.05] = 0.5
        error = np.where(generator.random(n) < 0.3, 0.35, 0.05)[:, None]
        return h, np.where(generator.random((n, k)) < error, 1 - truth[:, None], truth[:, None])
    if design.startswith("three"):
        truth = generator.integers(0, 3, n)

        def noisy(m: int) -> Integers:
            other = (truth[:, None] + generator.integers(1, 3, (n, m))) % 3
            return np.where(generator.random((n, m)) < 0.9, truth[:, None], other)

        h = (noisy(3)[:, :, None] == np.arange(3)).mean(1)
        shared = (generator.random(n) < 0.2)[:, None] & (generator.random((n, k)) < 0.6)
        return h, np.where(shared, (truth[:, None] + 1) % 3, noisy(k))
    h = generator.multinomial(100, generator.dirichlet(np.full(3, 0.7), n)) / 100
    return h, labels(generator, np.repeat(h[:, None], k, axis=1))


def as_dataset(h: Floats, judges: Integers) -> xr.Dataset:
    """Judge dataset with given human shares."""
    k = judges.shape[1]
    ds = xr.Dataset(
        {"label": (("item", "rater"), judges.astype(np.int8)), "crowd": (("item", "category"), h)},
        coords={"rater": [f"j{place}" for place in range(k)], "role": ("rater", ["judge"] * k)},
    )
    ds["label"].attrs.update(xj.Scale.nominal([f"c{place}" for place in range(h.shape[1])]).to_attrs())
    return ds


def true_values(design: str, k: int) -> dict[str, float]:
    """Values on endless items: those of m simulated humans are known."""
    if design.startswith("m"):
        h, _ = draw(np.random.default_rng(0), design, N_TRUTH, 1)
        variance = float(panel.human_variance(h))
        known = dict.fromkeys(("nu_h", "nu_mse", "participation_ratio"), float(k))
        return known | {"gamma_co": 1.0 / k, "distributional_error": variance / k}
    h, judges = draw(np.random.default_rng(0), design, N_TRUTH, k)
    found = panel.effective_size(panel.panel_sums(judges, h, panel.gold_mode(h)[0])).values
    values = {name: float(found[name]) for name in SIZES}
    return values | {"nu_h": values["participation_ratio"]}


def study(design: str, repeats: int, n_resamples: int) -> None:
    """Print how often each interval holds the truth, and on which side it misses."""
    n, k = CASES[design]
    truth = true_values(design, k)
    held = {name: [0, 0, 0] for name in truth}
    estimates = []
    for repeat in range(repeats):
        h, judges = draw(np.random.default_rng((1, repeat)), design, n, k)
        found = xj.effective_size(as_dataset(h, judges), human="crowd", n_resamples=n_resamples, seed=repeat)
        estimates.append(float(found["nu_h"]))
        for name, value in truth.items():
            lower, upper = found[f"{name}_interval"].values
            held[name][0 if lower <= value <= upper else 1 if value < lower else 2] += 1
    known = np.array([value for value in estimates if not math.isnan(value)])
    error = known.std(ddof=1) / math.sqrt(len(known))
    print(f"{design}: n = {n}, k = {k}; nu_h {known.mean():.3f} +- {error:.3f}, truth {truth['nu_h']:.3f}")
    for name, (inside, above, below) in held.items():
        print(
            f"  {name:22s} held {inside / repeats:.3f}   "
            f"interval above {above / repeats:.3f}   below {below / repeats:.3f}",
            flush=True,
        )


def few_humans(m: int, repeats: int) -> None:
    """Print the mean of the corrected values with m humans an item."""
    generator = np.random.default_rng(m)
    truth = generator.dirichlet(np.full(3, 0.7), 150)
    judges = labels(
        generator, np.repeat((0.5 * truth + 0.5 * np.eye(3)[truth.argmax(1)])[:, None], 4, axis=1)
    )
    draws = np.stack([generator.multinomial(m, truth) for _ in range(repeats)])
    h, n_humans = panel.human_distribution(draws)
    codes = np.broadcast_to(judges, (repeats, *judges.shape))
    found = panel.effective_size(panel.panel_sums(codes, h, n_humans=n_humans)).values
    exact = panel.human_variance(truth), panel.distributional_error(panel.residual_gram(judges, truth))
    for name, value in zip(("human_variance", "distributional_error"), exact, strict=True):
        corrected = found[f"{name}_corrected"]
        error = corrected.std() / math.sqrt(repeats)
        print(
            f"f{m}: {name:22s} true {float(value):.5f}   corrected {corrected.mean():.5f} +- {error:.5f}   "
            f"plug-in {found[name].mean():.5f}",
            flush=True,
        )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--resamples", type=int, default=400)
    parser.add_argument("--designs", default=",".join([*CASES, "f3", "f5", "f10"]))
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore", xj.XJudgeWarning)
    for design in given.designs.split(","):
        if design in CASES:
            k = CASES[design][1]  # a resample costs k^2
            study(design, given.repeats if k <= 16 else given.repeats * 16 // k, given.resamples)
        else:
            few_humans(int(design[1:]), 10 * given.repeats)


if __name__ == "__main__":
    main()

"""Labels beyond the memory that a pass may take: the peak of a fresh process, by its own figures."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

LABELS = 600_000_000
"""Labels of the corpus, a byte each."""

SCRIPT = """
import json, sys, warnings
from pathlib import Path

import dask, dask.array as da, numpy as np, xarray as xr
import xjudge as xj
from xjudge.lazy import map_items

N_RATERS, N_IN_CHUNK, N_HUMANS = 16, 250_000, 3
BASE = np.random.default_rng(0).integers(-1, 2, (N_IN_CHUNK, N_RATERS), dtype=np.int8)


def made(positions):
    return np.roll(BASE[: len(positions)], int(positions[0]) // N_IN_CHUNK, axis=1)


def dataset(n_items):
    positions = da.arange(n_items, chunks=N_IN_CHUNK)
    labels = map_items(made, [positions], shape=(N_RATERS,), dtype=np.dtype(np.int8))
    roles = ["human"] * N_HUMANS + ["judge"] * (N_RATERS - N_HUMANS)
    return xr.Dataset(
        {"label": (("item", "rater"), labels, xj.Scale.binary("no", "yes").to_attrs())},
        coords={"rater": np.arange(N_RATERS), "role": ("rater", roles)},
    )


def report(ds):
    return [
        xj.rates(ds, compute=False),
        xj.tables(ds, compute=False),
        xj.reliability(ds, compute=False),
    ]


def peak():
    (line,) = (l for l in Path("/proc/self/status").read_text().splitlines() if l.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


dask.config.set(scheduler="threads", num_workers=2)
warnings.simplefilter("ignore")
dask.compute(report(dataset(2 * N_IN_CHUNK)))
before = peak()
rates, tables, reliability = dask.compute(*report(dataset(int(sys.argv[1]) // N_RATERS)))
print(json.dumps({
    "grown": peak() - before,
    "peak": peak(),
    "labels": int(rates["n_asked"].sum() / (1 - rates["missing"].mean())),
    "alpha": float(reliability["alpha"]),
}))
"""


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    if not Path("/proc/self/status").exists():
        pytest.skip("peak memory is read from /proc")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(LABELS)], check=True, capture_output=True, text=True, timeout=300
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_pass_takes_a_fraction_of_the_labels(figures: dict[str, Any]) -> None:
    """Beyond a corpus of two chunks, one of a hundred takes next to nothing more."""
    assert figures["labels"] == pytest.approx(LABELS, rel=1e-3)
    assert figures["grown"] < LABELS / 8
    assert figures["peak"] < LABELS * 0.75  # imports and compiled kernels included
    assert abs(figures["alpha"]) < 0.01

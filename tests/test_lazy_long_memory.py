"""A frame that does not fit: read, written and counted in a process that may hold a fraction of it."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

SCRIPT = """
    import resource, sys, warnings

    import dask, dask.dataframe as dd, numpy as np, pandas as pd
    import xarray as xr
    import xjudge as xj

    PARTS, ITEMS, RATERS = 60, 2_500, 8

    def part(number):
        item = np.repeat(np.arange(ITEMS) + ITEMS * number, RATERS)
        rater = np.tile([f"rater {k}" for k in range(RATERS)], ITEMS)
        label = np.where((item * 7 + np.tile(np.arange(RATERS), ITEMS) * item) % 5 < 2, "yes", "no")
        frame = pd.DataFrame({"item": item, "rater": rater, "label": label})
        frame["note"] = [f"{k:0600d}" for k in range(len(frame))]
        return frame

    def peak():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    dask.config.set(scheduler="threads", num_workers=2)
    scale = xj.Scale.binary("no", "yes")
    small = xj.from_long(dd.from_map(part, [0], meta=part(0).iloc[:0]), judges=["rater 7"], scale=scale)
    small.to_zarr(sys.argv[1] + "/small.zarr", zarr_format=2)
    xj.agreement(small, interval=None)
    before, one = peak(), part(0).memory_usage(deep=True).sum() / 2**20

    ds = xj.from_long(dd.from_map(part, range(PARTS), meta=part(0).iloc[:0]), judges=["rater 7"], scale=scale)
    ds.to_zarr(sys.argv[1] + "/large.zarr", zarr_format=2)
    ds = xr.open_zarr(sys.argv[1] + "/large.zarr")
    n = int(xj.agreement(ds, interval=None)["n"][0, 0])
    print(n, peak() - before, one * PARTS)
"""


def test_the_frame_is_never_held(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(SCRIPT), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    n, grown, whole = map(float, done.stdout.split())
    assert n == 150_000
    assert whole > 700
    assert grown < whole / 4

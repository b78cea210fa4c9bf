"""Judge datasets for tests, built by hand and not by the code under test, and slow counting oracles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

import xjudge as xj

BINARY = xj.Scale.binary(negative="UNMET", positive="MET")


def dataset(
    codes: Any,
    roles: Sequence[str],
    scale: xj.Scale = BINARY,
    *,
    criterion: bool = True,
    raters: Sequence[Any] | None = None,
    **coordinates: Any,
) -> xr.Dataset:
    """Judge dataset of raw codes (item, rater[, criterion])."""
    array = np.asarray(codes, dtype=scale.dtype)
    dims = ("item", "rater", "criterion")[: array.ndim]
    if not criterion and array.ndim == 3:
        raise ValueError("three dims need a criterion")
    names = list(raters) if raters is not None else _names(roles)
    coords: dict[str, Any] = {
        "item": [f"i{n}" for n in range(array.shape[0])],
        "rater": names,
        "role": ("rater", list(roles)),
        "identity": ("rater", ["named"] * len(roles)),
    }
    if array.ndim == 3:
        coords["criterion"] = [f"c{n}" for n in range(array.shape[2])]
    ds = xr.Dataset({"label": (dims, array, scale.to_attrs())}, coords=coords)
    return ds.assign_coords({name: ("item", values) for name, values in coordinates.items()})


def _names(roles: Sequence[str]) -> list[str]:
    counts = {"human": 0, "judge": 0}
    out = []
    for role in roles:
        counts[role] += 1
        out.append(f"{role[0]}{counts[role]}")
    return out


def random_codes(seed: int, shape: tuple[int, ...], n_categories: int, outcomes: bool = True) -> Any:
    """Random raw codes, with missing, CA and invalid among them."""
    rng = np.random.default_rng(seed)
    low = -3 if outcomes else 0
    return rng.integers(low, n_categories, shape).astype(np.int8)


def slow_table(
    left: npt.NDArray[Any], right: npt.NDArray[Any], categories: dict[int, int], n: int
) -> npt.NDArray[np.int64]:
    """Count pairs label by label; ``categories`` maps raw codes to categories, others are left out."""
    out = np.zeros((n, n), dtype=np.int64)
    for a, b in zip(left.ravel().tolist(), right.ravel().tolist(), strict=True):
        if a in categories and b in categories:
            out[categories[a], categories[b]] += 1
    return out

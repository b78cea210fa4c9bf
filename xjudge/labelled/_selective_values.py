"""What selective judges come to, estimate by estimate: curves, certified thresholds, splits."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from xjudge.errors import ProtocolError, Reason
from xjudge.labelled._common import texts
from xjudge.labelled._results import share
from xjudge.labelled._selective_cases import Judged
from xjudge.lazy import metadata_values
from xjudge.statistics.selective import Steps, by_step, certified_step, clopper_pearson

__all__ = ["Kept", "calibration_size", "certified", "curve", "parts", "splits"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_BY_JUDGE = ("answered", "error_of_answered")


class Kept:
    """Arrays (slice, criterion, other, A, B, ...) filled estimate by estimate."""

    def __init__(self, found: Judged) -> None:
        self.found = found
        self.arrays: dict[str, npt.NDArray[Any]] = {}

    def put(self, place: tuple[int, ...], **values: Any) -> None:
        """Keep the values of one estimate."""
        for name, value in values.items():
            array = np.asarray(value)
            if name not in self.arrays:
                self.arrays[name] = np.zeros((*self.found.shape, *array.shape), dtype=array.dtype)
            self.arrays[name][place] = array

    def named(self, lead: str = "") -> xr.Dataset:
        """The result; ``lead`` is the dim of arrays that have one of their own."""
        trailing: dict[str, tuple[str, ...]] = {}
        arrays = {}
        for name, array in self.arrays.items():
            own = ("position",) if name in _BY_JUDGE else ("bound",) if name.endswith("_interval") else ()
            own = (lead, *own) if array.ndim > 5 + len(own) else own
            trailing[name] = own
            arrays[name] = texts(array) if name.endswith("_reason") else array
        result = self.found.named(arrays, trailing)
        if any("bound" in own for own in trailing.values()):
            result = result.assign_coords(bound=("bound", np.array(["lower", "upper"])))
        if "position" in result.dims:
            names = self.found.view.named(np.array(self.found.sides.right))
            result = result.rename(position="rater").assign_coords(rater=("rater", names))
        return result


def curve(n: Ints, wrong: Ints, steps: Steps, level: float) -> dict[str, Any]:
    """What the curve is at each step, all judges together, from counts (K, T)."""
    kept, errors, total = n.sum(0), wrong.sum(0), int(steps.multiplicity.sum())
    error = share(errors, kept)
    entered = np.diff(kept, prepend=0)
    reason = Reason.NOTHING_ANSWERED if total else Reason.NO_OVERLAP
    return {
        "error": error,
        "error_reason": np.where(kept > 0, Reason.OK, reason).astype(np.int8),
        "error_interval": np.stack(clopper_pearson(errors, kept, level), axis=-1),
        "coverage": share(kept, np.full(kept.shape, total)),
        "n": kept,
        "area": float(np.where(entered > 0, entered * error, 0.0).sum() / kept[-1]) if kept[-1] else np.nan,
    }


def parts(found: Judged, n: Ints, steps: Steps) -> dict[str, Any]:
    """Of a cascade, by step: the cases each judge answers, and the mean cost of a case."""
    if not found.joint:
        return {}
    out: dict[str, Any] = {"answered": n.T}
    coords = found.view.data.coords
    if "cost" in coords and coords["cost"].dims == ("rater",):
        cost = np.asarray(metadata_values(coords["cost"].data), dtype=np.float64)[list(found.sides.right)]
        so_far, total = cost.cumsum(), steps.multiplicity.sum()
        spent = so_far @ n + so_far[-1] * (total - n.sum(0))
        out["mean_cost"] = share(spent, np.full(spent.shape, total))
    return out


def certified(
    found: Judged, grid: Floats, steps: Steps, target: float, *, level: float, n_starts: int
) -> dict[str, Any]:
    """The certified threshold, and what is answered at it."""
    n, wrong = by_step(steps)
    step = int(certified_step(n.sum(0), wrong.sum(0), target, level=level, n_starts=n_starts))
    total = int(steps.multiplicity.sum())
    none = Reason.NOT_CERTIFIED if total else Reason.NO_OVERLAP
    at = {name: np.asarray(value)[step] for name, value in parts(found, n, steps).items()}
    if step < 0:  # nothing is answered, and what is spent brings nothing
        return {
            "threshold": np.nan,
            "threshold_reason": np.int8(none),
            "coverage": 0.0 if total else np.nan,
            "error": np.nan,
            "n": np.int64(0),
        } | {name: np.zeros_like(value) if name == "answered" else np.nan for name, value in at.items()}
    kept = n.sum(0)[step]
    return {
        "threshold": grid[step],
        "threshold_reason": np.int8(Reason.OK),
        "coverage": float(kept / total),
        "error": float(wrong.sum(0)[step] / kept),
        "n": kept,
    } | at


def splits(
    rng: np.random.Generator,
    steps: Steps,
    grid: Floats,
    sizes: tuple[int, int],
    target: float,
    *,
    level: float,
    n_starts: int,
) -> dict[str, Any]:
    """Thresholds of random calibration parts of a size, and what they do on the other cases."""
    size, n_splits = sizes
    total = int(steps.multiplicity.sum())
    if total < 2:
        size = 0
    every = by_step(steps)
    first = np.zeros((2, n_splits, steps.n_steps), dtype=np.int64)
    for split in range(n_splits if size else 0):
        drawn = rng.multivariate_hypergeometric(steps.multiplicity, size, method="marginals")
        first[:, split] = [part.sum(0) for part in by_step(steps, drawn)]
    step = certified_step(first[0], first[1], target, level=level, n_starts=n_starts)
    rest = np.stack([part.sum(0) for part in every])[:, None] - first
    kept, wrong = (np.where(step >= 0, part[np.arange(n_splits), step], 0) for part in rest)
    error = share(wrong, kept)
    missing = Reason.NO_OVERLAP if not size else Reason.NOT_CERTIFIED
    found = np.where(step >= 0, Reason.OK, missing).astype(np.int8)
    return {
        "threshold": np.where(step >= 0, grid[step], np.nan),
        "threshold_reason": found,
        "coverage": share(kept, np.full(kept.shape, total - size)) if size else np.full(n_splits, np.nan),
        "error": error,
        "error_reason": np.where(kept > 0, Reason.OK, np.where(found > 0, found, Reason.NOTHING_ANSWERED)),
        "n": kept,
        "above_target": float((error > target).mean()) if size else np.nan,
    }


def calibration_size(n_calibration: float, total: int) -> int:
    """Cases of the calibration part; 0 where there are too few to split."""
    whole = isinstance(n_calibration, int | np.integer) and not isinstance(n_calibration, bool)
    if not whole and not 0 < n_calibration < 1:
        raise ProtocolError(
            f"`n_calibration` is a number of cases or a share in (0, 1); got {n_calibration!r}."
        )
    size = int(n_calibration) if whole else round(float(n_calibration) * total)
    if total < 2:
        return 0
    if whole and not 0 < size < total:
        raise ProtocolError(
            f"`n_calibration` leaves cases on both sides, 1 to {total - 1}; got {n_calibration!r}."
        )
    return min(max(size, 1), total - 1)

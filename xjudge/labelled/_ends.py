"""Standard errors, ends of intervals and shares of undefined resamples of single estimates, by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from xjudge.labelled._sampling import Sampling, transform
from xjudge.statistics.resample import (
    Interval,
    acceleration,
    bca_interval,
    delta_interval,
    percentile_interval,
    studentized_interval,
    undefined_share,
)

__all__ = ["bounds", "from_standard_error", "resampled_ends"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def bounds(ends: Interval) -> Floats:
    """The two ends along a last axis."""
    return np.stack([np.asarray(ends.lower), np.asarray(ends.upper)], axis=-1)


def from_standard_error(
    name: str, value: Floats, se: Floats, n_units: npt.ArrayLike, sampling: Sampling
) -> dict[str, Floats]:
    """Ends by the delta method; NaN where the standard error is 0 and there is nothing to go on.

    Parameters
    ----------
    name : str
        Of the statistic: says on which scale the interval is symmetric.
    value, se : ndarray, shape (...)
    n_units : array-like, shape (...)
        Sampling units; the t distribution has one degree of freedom less.
    sampling : Sampling
    """
    ends = delta_interval(
        value,
        np.where(se > 0, se, np.nan),
        sampling.level,
        transform=transform(name),
        degrees=np.asarray(n_units) - 1,
    )
    return {f"{name}_se": np.asarray(se), f"{name}_interval": bounds(ends)}


def resampled_ends(
    name: str,
    method: str | None,
    value: float,
    replicates: Floats,
    errors: Floats | None,
    influence: Floats | None,
    multiplicities: Ints,
    sampling: Sampling,
) -> dict[str, Any]:
    """Ends of one estimate from its resamples.

    Parameters
    ----------
    name : str
    method : {"percentile", "bca", "studentized"}
    value : float
    replicates : ndarray, shape (B,)
        NaN where undefined.
    errors : ndarray, shape (B,), optional
        Standard errors of the replicates, for ``"studentized"``.
    influence : ndarray, shape (unit,), optional
        Of the sampling units, for all but ``"percentile"``.
    multiplicities : ndarray of int64, shape (unit,)
    sampling : Sampling
    """
    defined = replicates[~np.isnan(replicates)]
    se = float(defined.std(ddof=1)) if len(defined) > 1 else np.nan
    if method == "bca":
        assert influence is not None
        accelerate = acceleration(influence, multiplicities)
        ends = bca_interval(value, replicates, accelerate, sampling.level)
    elif method == "studentized":
        assert influence is not None
        assert errors is not None
        se = float(np.sqrt((multiplicities * influence**2).sum()))
        ends = studentized_interval(value, se, replicates, errors, sampling.level)
    else:
        ends = percentile_interval(replicates, sampling.level)
    return {
        f"{name}_se": np.asarray(se),
        f"{name}_interval": bounds(ends),
        f"{name}_undefined": undefined_share(replicates),
    }

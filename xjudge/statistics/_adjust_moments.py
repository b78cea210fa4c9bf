"""Moments of labelled pairs and judge verdicts behind the estimates of a positive rate."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError, StructureError

__all__ = [
    "best_tuning",
    "check_level",
    "counts",
    "fieller",
    "imputed",
    "lang_reiczigel",
    "middle_and_spread",
    "moments",
    "quantile",
    "ratio",
    "variance_of_ratio",
]

Float = npt.NDArray[np.float64]

_PRIOR = 0.5  # pseudo-pairs in each labelled cell, for intervals only


def counts(labelled: npt.ArrayLike | None, unlabelled: npt.ArrayLike | None) -> tuple[Float, Float]:
    """Counts as floats, with common leading dims."""
    rest = np.zeros(2) if unlabelled is None else np.asarray(unlabelled, dtype=np.float64)
    table = np.zeros((2, 2)) if labelled is None else np.asarray(labelled, dtype=np.float64)
    if table.ndim < 2 or table.shape[-2:] != (2, 2) or rest.ndim < 1 or rest.shape[-1] != 2:
        raise StructureError(
            "Prevalence takes labelled pairs (..., 2, 2), human by judge, and unlabelled verdicts "
            f"(..., 2); got {table.shape} and {rest.shape}."
        )
    for array in (table, rest):
        if not (np.isfinite(array) & (array >= 0)).all():
            raise StructureError("Counts are finite and not negative.")
    lead = np.broadcast_shapes(table.shape[:-2], rest.shape[:-1])
    return np.broadcast_to(table, (*lead, 2, 2)), np.broadcast_to(rest, (*lead, 2))


def check_level(level: float) -> None:
    if not 0 < level < 1:
        raise ProtocolError(f"`level` must lie between 0 and 1; got {level!r}.")


def quantile(level: float) -> float:
    from scipy.special import ndtri

    check_level(level)
    return float(ndtri((1 + level) / 2))


def ratio(part: npt.ArrayLike, whole: npt.ArrayLike) -> Float:
    """Quotient, NaN where the denominator is not positive."""
    top, bottom = np.broadcast_arrays(np.asarray(part, dtype=np.float64), np.asarray(whole, dtype=np.float64))
    return np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom > 0)


def variance_of_ratio(rate: Float, total: Float, rates: Float, human: Float, value: Float) -> Float:
    """Delta-method variance of the numerator of Rogan and Gladen's estimate, at a value of it."""
    noise = ratio(rates * (1 - rates), human)
    return np.asarray(
        ratio(rate * (1 - rate), total) + (1 - value) ** 2 * noise[..., 0] + value**2 * noise[..., 1]
    )


def fieller(table: Float, rest: Float, z: float) -> tuple[Float, Float]:
    """Rates that a test of Rogan and Gladen's equation does not reject: the roots of a quadratic."""
    human, total = table.sum(-1) + 2 * _PRIOR, rest.sum(-1) + 2 * _PRIOR
    rates = (table[..., [0, 1], [0, 1]] + _PRIOR) / human
    rate = (rest[..., 1] + _PRIOR) / total
    power, above = rates.sum(-1) - 1, rate + rates[..., 0] - 1
    of_negatives, of_positives = np.moveaxis(rates * (1 - rates) / human, -1, 0)
    # (above - x power)^2 <= z^2 (rate (1 - rate) / total + x^2 of_positives + (1 - x)^2 of_negatives)
    square = power**2 - z * z * (of_positives + of_negatives)
    half = above * power - z * z * of_negatives
    free = above**2 - z * z * (rate * (1 - rate) / total + of_negatives)
    bounded = (square > 0) & (power > 0)
    safe = np.where(bounded, square, 1.0)
    spread = np.sqrt(np.maximum(half * half - safe * free, 0.0))
    lower, upper = np.clip((half - spread) / safe, 0, 1), np.clip((half + spread) / safe, 0, 1)
    return np.where(bounded, lower, 0.0), np.where(bounded, upper, 1.0)


def lang_reiczigel(table: Float, rest: Float, z: float) -> tuple[Float, Float]:
    """Interval for Rogan and Gladen's estimate; [0, 1] where the pseudo-counts leave no information."""
    human, total = table.sum(-1) + 2, rest.sum(-1) + z * z
    rates = (table[..., [0, 1], [0, 1]] + 1) / human
    rate = (rest[..., 1] + z * z / 2) / total
    power = rates.sum(-1) - 1
    safe = np.where(power > 0, power, np.nan)
    value = (rate + rates[..., 0] - 1) / safe  # not cut to [0, 1]: the interval is
    noise = rates * (1 - rates) / human
    shift = 2 * z * z * (value * noise[..., 1] - (1 - value) * noise[..., 0])
    half = z * np.sqrt(variance_of_ratio(rate, total, rates, human, value)) / safe
    lower, upper = np.clip(value + shift - half, 0, 1), np.clip(value + shift + half, 0, 1)
    return np.where(power > 0, lower, 0.0), np.where(power > 0, upper, 1.0)


def best_tuning(table: Float, rest: Float) -> Float:
    """Lambda that minimises the variance, cut to [0, 1]."""
    n, total = table.sum((-2, -1)), rest.sum(-1)
    covariance = ratio(table[..., 1, 1], n) - ratio(
        table[..., 1, :].sum(-1) * table[..., :, 1].sum(-1), n * n
    )
    verdicts = table.sum(-2) + rest
    rate = ratio(verdicts[..., 1], verdicts.sum(-1))
    # 1 / (1 + n / N), which is 0 without unlabelled verdicts
    best = ratio(covariance * total, (total + n) * rate * (1 - rate))
    return np.clip(np.where(np.isnan(best), 0.0, best), 0.0, 1.0)


def moments(table: Float, weight: Float) -> tuple[Float, Float]:
    """Mean of ``h - lambda j`` over labelled pairs, and its variance with divisor n."""
    shape = weight[..., None, None]
    values = np.array([[0.0, 0.0], [1.0, 1.0]]) - shape * np.array([[0.0, 1.0], [0.0, 1.0]])
    n = table.sum((-2, -1))
    mean = ratio((table * values).sum((-2, -1)), n)
    apart = (table * (values - mean[..., None, None]) ** 2).sum((-2, -1))
    return mean, ratio(apart, n)


def imputed(rest: Float, weight: Float) -> tuple[Float, Float]:
    """``lambda`` times the judge's rate on unlabelled cases, and its variance; 0 where lambda is."""
    total = rest.sum(-1)
    rate = ratio(rest[..., 1], total)
    part = np.where(weight == 0, 0.0, weight * rate)
    return part, np.where(weight == 0, 0.0, weight**2 * ratio(rate * (1 - rate), total))


def middle_and_spread(table: Float, rest: Float, weight: Float) -> tuple[Float, Float]:
    """Middle of the interval and its standard error: pseudo-pairs added to the labelled ones."""
    more = table + _PRIOR
    mean, variance = moments(more, weight)
    part, noise = imputed(rest, weight)
    return part + mean, np.sqrt(noise + variance / more.sum((-2, -1)))

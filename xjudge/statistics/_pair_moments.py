"""Statistics of pairs of numbers that are functions of additive moments: values, gradients, merging.

A pair (x, y) adds eight numbers: ``1, x', y', x'^2, y'^2, x'y', d'^2, |y - x|`` with ``x' = x - s``,
``y' = y - t`` and ``d' = y' - x'``. The shifts s and t lie near the means, so that no digits are lost when
the squares of the sums are taken off again; sums with other shifts follow by a linear map, and so sums of
parts of the data merge. Whether a side is constant is told by its least and greatest number, never by a
variance that rounding may leave.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.errors import Reason

__all__ = [
    "LIMIT_FACTOR",
    "N_FEATURES",
    "OF_MOMENTS",
    "PairMoments",
    "evaluate_moments",
    "merge_moments",
    "moment_gradient",
    "moments_of_pairs",
    "near",
    "pair_features",
    "shift_matrix",
    "table_gradient",
    "table_moments",
]

Float = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int8]
Bools = npt.NDArray[np.bool_]

N_FEATURES: Final = 8

LIMIT_FACTOR: Final = 1.96
"""Standard deviations from the mean difference to a limit of agreement (Bland and Altman)."""

OF_MOMENTS: Final = (
    "pearson",
    "concordance",
    "mean_error",
    "mean_absolute_error",
    "rmse",
    "lower_limit_of_agreement",
    "upper_limit_of_agreement",
)
"""Names of the statistics of this room."""

_N, _X, _Y, _XX, _YY, _XY, _DD, _ABS = range(N_FEATURES)


class PairMoments(NamedTuple):
    """Moments of pairs (x, y): reference and rater."""

    sums: Float
    """Shape (..., 8): the features summed over pairs."""
    shift: Float
    """Shape (..., 2): what was taken off x and y."""
    low: Float
    """Shape (..., 2): least x and y; infinite without a pair."""
    high: Float
    """Shape (..., 2): greatest x and y."""


def near(mean: Float, low: Float, high: Float) -> Float:
    """A number near the mean with so few binary digits that taking it off whole numbers is exact.

    Within a sixteenth of the range of the mean; the value itself where all are equal.
    """
    width = high - low
    some = np.isfinite(width) & (width > 0)
    step = np.ldexp(1.0, np.frexp(np.where(some, width, 1.0))[1] - 4)
    rounded = np.rint(np.where(some, mean, 0.0) / step) * step
    return np.where(some, rounded, np.where(np.isfinite(low), low, 0.0))


def pair_features(x: npt.ArrayLike, y: npt.ArrayLike, shift: npt.ArrayLike = (0.0, 0.0)) -> Float:
    """What each pair adds to the moments.

    Parameters
    ----------
    x, y : array-like of float, shape (...)
        Reference and rater.
    shift : array-like of float, shape (..., 2)
        Taken off x and y.

    Returns
    -------
    ndarray, shape (..., 8)
    """
    x, y = np.broadcast_arrays(np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64))
    off = np.asarray(shift, dtype=np.float64)
    a, b = x - off[..., 0], y - off[..., 1]
    out = np.empty((*np.broadcast_shapes(a.shape, b.shape), N_FEATURES))
    parts = (1.0, a, b, a * a, b * b, a * b, (b - a) ** 2, np.abs(y - x))
    for place, part in enumerate(parts):
        out[..., place] = part
    return out


def moments_of_pairs(x: npt.ArrayLike, y: npt.ArrayLike) -> PairMoments:
    """Moments of pairs along the last axis; pairs with a NaN are left out.

    Parameters
    ----------
    x, y : array-like of float, shape (..., pair)

    Returns
    -------
    PairMoments
        With leading dims (...).
    """
    x, y = np.broadcast_arrays(np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64))
    used = ~(np.isnan(x) | np.isnan(y))
    n = used.sum(-1)
    low = np.stack([np.where(used, v, np.inf).min(-1, initial=np.inf) for v in (x, y)], axis=-1)
    high = np.stack([np.where(used, v, -np.inf).max(-1, initial=-np.inf) for v in (x, y)], axis=-1)
    total = np.stack([np.where(used, v, 0.0).sum(-1) for v in (x, y)], axis=-1)
    shift = near(total / np.maximum(n, 1)[..., None], low, high)
    features = pair_features(x, y, shift[..., None, :])
    return PairMoments(np.where(used[..., None], features, 0.0).sum(-2), shift, low, high)


def shift_matrix(move: npt.ArrayLike) -> Float:
    """Map of sums when shifts are lowered by ``move`` (..., 2): shape (..., 8, 8), to act from the left."""
    a, b = np.moveaxis(np.asarray(move, dtype=np.float64), -1, 0)
    out = np.zeros((*a.shape, N_FEATURES, N_FEATURES))
    out[..., range(N_FEATURES), range(N_FEATURES)] = 1.0
    out[..., _X, _N], out[..., _Y, _N] = a, b
    out[..., _XX, _X], out[..., _XX, _N] = 2 * a, a * a
    out[..., _YY, _Y], out[..., _YY, _N] = 2 * b, b * b
    out[..., _XY, _Y], out[..., _XY, _X], out[..., _XY, _N] = a, b, a * b
    gap = b - a
    out[..., _DD, _Y], out[..., _DD, _X], out[..., _DD, _N] = 2 * gap, -2 * gap, gap * gap
    return out


def merge_moments(parts: Sequence[PairMoments]) -> PairMoments:
    """Moments of all pairs together from moments of parts of them.

    Parameters
    ----------
    parts : sequence of PairMoments
        At least one, of one shape; order matters to rounding only.

    Returns
    -------
    PairMoments
        With shifts near the means of all pairs.
    """
    low = np.min([part.low for part in parts], axis=0)
    high = np.max([part.high for part in parts], axis=0)
    n = np.sum([part.sums[..., _N] for part in parts], axis=0)
    total = np.sum([p.sums[..., _X : _Y + 1] + p.sums[..., :1] * p.shift for p in parts], axis=0)
    shift = near(total / np.maximum(n, 1.0)[..., None], low, high)
    sums = np.sum(
        [np.einsum("...st,...t->...s", shift_matrix(part.shift - shift), part.sums) for part in parts], axis=0
    )
    return PairMoments(sums, shift, low, high)


def table_moments(table: Float, scores: Float) -> PairMoments:
    """Moments of the pairs of a table (..., L, L) with a number for each category."""
    row, column = table.sum(-1), table.sum(-2)
    n = row.sum(-1)
    low, high, mean = [], [], []
    for margin in (row, column):
        low.append(np.where(margin > 0, scores, np.inf).min(-1))
        high.append(np.where(margin > 0, scores, -np.inf).max(-1))
        # of the deviations from the first number in use, so that large numbers do not drown small counts
        start = np.where(np.isfinite(low[-1]), low[-1], 0.0)
        deviation = (margin * (scores - start[..., None])).sum(-1)
        mean.append(start + np.divide(deviation, n, out=np.zeros_like(n), where=n > 0))
    ends = np.stack(low, -1), np.stack(high, -1)
    shift = near(np.stack(mean, -1), *ends)
    a, b = scores - shift[..., :1], scores - shift[..., 1:]
    sums = np.empty((*n.shape, N_FEATURES))
    sums[..., _N] = n
    for place, square, margin, number in ((_X, _XX, row, a), (_Y, _YY, column, b)):
        sums[..., place] = (margin * number).sum(-1)
        sums[..., square] = (margin * number * number).sum(-1)
    sums[..., _XY] = np.einsum("...ab,...a,...b->...", table, a, b)
    sums[..., _DD] = (table * (b[..., None, :] - a[..., :, None]) ** 2).sum((-2, -1))
    sums[..., _ABS] = (table * np.abs(scores[:, None] - scores)).sum((-2, -1))
    return PairMoments(sums, shift, *ends)


def table_gradient(slope: Float, scores: Float, shift: Float) -> Float:
    """Gradient by the cells (..., L, L) from that by the moments (..., 8)."""
    features = pair_features(scores[:, None], scores, shift[..., None, None, :])
    return np.einsum("...abs,...s->...ab", features, slope)


# ----------------------------------------------------------------------------------------------------- values


class _Parts:
    """Centred sums in units in which whole numbers stay whole: variances times ``n^2`` and the like."""

    def __init__(self, moments: PairMoments) -> None:
        s = np.moveaxis(moments.sums, -1, 0)
        self.n, self.x, self.y, self.xx, self.yy, self.xy, self.dd, self.abs = s
        self.shape = self.n.shape
        self.offset = moments.shift[..., 1] - moments.shift[..., 0]
        self.gap = self.y - self.x + self.n * self.offset  # n times the mean difference
        self.var_x = np.maximum(self.n * self.xx - self.x**2, 0.0)
        self.var_y = np.maximum(self.n * self.yy - self.y**2, 0.0)
        self.cov = self.n * self.xy - self.x * self.y
        self.var_d = np.maximum(self.n * self.dd - (self.y - self.x) ** 2, 0.0)
        # never below the square of the mean difference, which rounding could leave it
        self.squares = np.maximum(
            self.dd + 2 * self.offset * (self.y - self.x) + self.n * self.offset**2, 0.0
        )
        # a side is constant where all its numbers are one, or differ by less than floats can tell
        constant = moments.low == moments.high
        self.constant_x = constant[..., 0] | (self.var_x == 0)
        self.constant_y = constant[..., 1] | (self.var_y == 0)
        self.same = constant.all(-1) & (moments.low[..., 0] == moments.low[..., 1])

    def unit(self, place: int, amount: npt.ArrayLike = 1.0) -> Float:
        out = np.zeros((*self.shape, N_FEATURES))
        out[..., place] = amount
        return out


def evaluate_moments(name: str, moments: PairMoments) -> tuple[Float, Codes]:
    """Value and reason of a statistic from moments."""
    p = _Parts(moments)
    reason = _reasons(name, p)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # undefined ones are blanked
        value = _VALUES[name](p)
    return np.where(reason == 0, value, np.nan), reason


def moment_gradient(name: str, moments: PairMoments) -> Float:
    """Gradient (..., 8) of a statistic by the summed features; NaN where it is undefined.

    The factor ``n / (n - 1)`` of the limits of agreement is held fixed, so that the gradient is orthogonal to
    the sums and the influence of a pair is ``gradient . features``. Where a standard deviation or a root mean
    square is 0 it has no slope, and 0 is given: nothing varies.
    """
    p = _Parts(moments)
    reason = _reasons(name, p)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        out = _SLOPES[name](p)
    return np.where((reason == 0)[..., None], out, np.nan)


def _reasons(name: str, p: _Parts) -> Codes:
    pairs: list[tuple[Bools, Reason]] = [(p.n == 0, Reason.NO_JOINT_ANSWERS)]
    if name == "pearson":
        pairs += [
            (p.constant_x & p.constant_y, Reason.CONSTANT_BOTH),
            (p.constant_x, Reason.CONSTANT_REFERENCE),
            (p.constant_y, Reason.CONSTANT_RATER),
        ]
    elif name == "concordance":
        pairs.append((p.same, Reason.NO_VARIATION))
    elif name.endswith("limit_of_agreement"):
        pairs.append((p.n < 2, Reason.FEW_PAIRS))
    out = np.zeros(p.shape, dtype=np.int8)
    for holds, reason in reversed(pairs):
        out = np.where(holds, np.int8(reason), out)
    return out


def _geometric_mean(one: Float, other: Float) -> Float:
    return np.where(one == other, one, np.sqrt(one) * np.sqrt(other))


def _pearson(p: _Parts) -> Float:
    return np.clip(p.cov / _geometric_mean(p.var_x, p.var_y), -1.0, 1.0)  # but for rounding it is inside


def _concordance(p: _Parts) -> Float:
    return np.where(p.constant_x | p.constant_y, 0.0, 2 * p.cov / (p.var_x + p.var_y + p.gap**2))


def _deviation(p: _Parts) -> Float:
    return np.sqrt(p.var_d / p.n / (p.n - 1))


def _mean_error(p: _Parts) -> Float:
    return p.gap / p.n


_VALUES: dict[str, Callable[[_Parts], Float]] = {
    "pearson": _pearson,
    "concordance": _concordance,
    "mean_error": _mean_error,
    "mean_absolute_error": lambda p: p.abs / p.n,
    "rmse": lambda p: np.sqrt(p.squares / p.n),
    "lower_limit_of_agreement": lambda p: _mean_error(p) - LIMIT_FACTOR * _deviation(p),
    "upper_limit_of_agreement": lambda p: _mean_error(p) + LIMIT_FACTOR * _deviation(p),
}


# -------------------------------------------------------------------------------------------------- gradients


def _by(p: _Parts, amount: Float) -> Float:
    """An array (...) that multiplies vectors (..., 8)."""
    return np.broadcast_to(amount, p.shape)[..., None]


def _slope_var_x(p: _Parts) -> Float:
    return p.unit(_XX, p.n) + p.unit(_N, p.xx) - p.unit(_X, 2 * p.x)


def _slope_var_y(p: _Parts) -> Float:
    return p.unit(_YY, p.n) + p.unit(_N, p.yy) - p.unit(_Y, 2 * p.y)


def _slope_cov(p: _Parts) -> Float:
    return p.unit(_XY, p.n) + p.unit(_N, p.xy) - p.unit(_X, p.y) - p.unit(_Y, p.x)


def _slope_gap(p: _Parts) -> Float:
    return p.unit(_Y) - p.unit(_X) + p.unit(_N, p.offset)


def _slope_pearson(p: _Parts) -> Float:
    relative = _slope_var_x(p) / _by(p, p.var_x) + _slope_var_y(p) / _by(p, p.var_y)
    return _slope_cov(p) / _by(p, _geometric_mean(p.var_x, p.var_y)) - _by(p, _pearson(p)) * relative / 2


def _slope_concordance(p: _Parts) -> Float:
    bottom = p.var_x + p.var_y + p.gap**2
    slope = _slope_var_x(p) + _slope_var_y(p) + _by(p, 2 * p.gap) * _slope_gap(p)
    return (2 * _slope_cov(p) - _by(p, _concordance(p)) * slope) / _by(p, bottom)


def _slope_mean(p: _Parts) -> Float:
    return (_slope_gap(p) - p.unit(_N, p.gap / p.n)) / _by(p, p.n)


def _slope_absolute(p: _Parts) -> Float:
    return (p.unit(_ABS) - p.unit(_N, p.abs / p.n)) / _by(p, p.n)


def _slope_rmse(p: _Parts) -> Float:
    square = p.squares / p.n
    slope = p.unit(_DD) + _by(p, 2 * p.offset) * (p.unit(_Y) - p.unit(_X)) + p.unit(_N, p.offset**2 - square)
    return np.where(_by(p, square) > 0, slope / _by(p, 2 * p.n * np.sqrt(square)), 0.0)


def _slope_deviation(p: _Parts) -> Float:
    root = np.sqrt(p.var_d) / p.n  # of degree 0 in the sums
    slope = p.unit(_DD, p.n) + p.unit(_N, p.dd) - _by(p, 2 * (p.y - p.x)) * (p.unit(_Y) - p.unit(_X))
    own = slope / _by(p, 2 * np.sqrt(p.var_d) * p.n) - p.unit(_N, root / p.n)
    return np.where(_by(p, p.var_d) > 0, own * _by(p, np.sqrt(p.n / (p.n - 1))), 0.0)


_SLOPES: dict[str, Callable[[_Parts], Float]] = {
    "pearson": _slope_pearson,
    "concordance": _slope_concordance,
    "mean_error": _slope_mean,
    "mean_absolute_error": _slope_absolute,
    "rmse": _slope_rmse,
    "lower_limit_of_agreement": lambda p: _slope_mean(p) - LIMIT_FACTOR * _slope_deviation(p),
    "upper_limit_of_agreement": lambda p: _slope_mean(p) + LIMIT_FACTOR * _slope_deviation(p),
}

"""Intraclass correlations of an item-by-rater matrix of numbers, with intervals from F distributions."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError, Reason, StructureError, listing
from xjudge.statistics._items import checked_item_weights
from xjudge.statistics._terms import Float, first_reason, safe_divide

__all__ = ["ICC_FORMS", "IntraclassCorrelation", "icc"]

ICC_FORMS: Final = ("1", "A,1", "C,1", "1,k", "A,k", "C,k")
"""Forms of :func:`icc`, named as by McGraw and Wong."""

_ROUNDING: Final = 32 * np.finfo(np.float64).eps


class IntraclassCorrelation(NamedTuple):
    """An intraclass correlation with its interval; each field of shape (...)."""

    value: Float
    reason: npt.NDArray[np.int8]
    lower: Float
    upper: Float
    n_items: Float
    """Complete items used (a sum of weights)."""


class _MeanSquares(NamedTuple):
    rows: Float  # between items
    columns: Float  # between raters
    error: Float
    within: Float  # within items
    n: Float
    k: int


def icc(
    scores: npt.ArrayLike,
    form: str = "A,1",
    *,
    level: float = 0.95,
    item_weights: npt.ArrayLike | None = None,
) -> IntraclassCorrelation:
    r"""Intraclass correlation of McGraw and Wong, with the interval from F distributions.

    With mean squares between items MSR, between raters MSC, of error MSE, within items MSW, for n items and
    k raters:

    ===== ======================================================= ===============================
    form  value                                                   Shrout and Fleiss
    ===== ======================================================= ===============================
    1     :math:`(MSR - MSW) / (MSR + (k-1) MSW)`                 ICC(1,1)
    C,1   :math:`(MSR - MSE) / (MSR + (k-1) MSE)`                 ICC(3,1), consistency
    A,1   :math:`(MSR - MSE) / (MSR + (k-1) MSE + k(MSC-MSE)/n)`  ICC(2,1), absolute agreement
    1,k   :math:`(MSR - MSW) / MSR`                               ICC(1,k), mean of the k raters
    C,k   :math:`(MSR - MSE) / MSR`                               ICC(3,k)
    A,k   :math:`(MSR - MSE) / (MSR + (MSC-MSE)/n)`               ICC(2,k)
    ===== ======================================================= ===============================

    Parameters
    ----------
    scores : array-like of float, shape (..., item, rater)
        NaN where a rater gave none. **Items without a score of every rater are left out**: the intervals
        need complete data. ``n_items`` says how many stayed. Choose raters that share items first.
    form : {"A,1", "C,1", "1", "A,k", "C,k", "1,k"}
    level : float
        Confidence level of the interval, in (0, 1).
    item_weights : array-like, shape (..., item), optional
        Multiplicities, or one row per resample.

    Returns
    -------
    IntraclassCorrelation
        ``value``, ``reason``, ``lower``, ``upper``, ``n_items``, each of shape (...). Values are at most 1
        and may be negative. NaN with fewer than two raters or complete items, where all scores are equal,
        and where items do not differ at all in a form that divides by their variance.

    Raises
    ------
    ProtocolError
        An unknown form, a level outside (0, 1), weights that do not fit.
    StructureError
        Scores that are not numbers, are infinite, or not of that shape.

    References
    ----------
    .. [1] K. O. McGraw and S. P. Wong, "Forming inferences about some intraclass correlation coefficients",
       1996.
    .. [2] P. E. Shrout and J. L. Fleiss, "Intraclass correlations: uses in assessing rater reliability",
       1979.

    Examples
    --------
    The six targets and four judges of Shrout and Fleiss:

    >>> ratings = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]
    >>> [icc(ratings, form).value.round(2).item() for form in ("1", "A,1", "C,1")]
    [0.17, 0.29, 0.71]
    """
    if form not in ICC_FORMS:
        raise ProtocolError(f"`form` must be one of {listing(ICC_FORMS, most=6)}; got {form!r}.")
    if not 0 < level < 1:
        raise ProtocolError(f"`level` must lie between 0 and 1; got {level!r}.")
    values, weights = _checked(scores, item_weights)
    squares = _mean_squares(values, weights)
    value, reason = _value(squares, form, _varies(values, weights))
    lower, upper = _interval(squares, form, value, reason, level)
    return IntraclassCorrelation(value, reason, lower, upper, squares.n)


def _checked(scores: npt.ArrayLike, item_weights: npt.ArrayLike | None) -> tuple[Float, Float]:
    """Scores, zero in incomplete items, and the weights of the complete ones, of one shape."""
    values = np.asarray(scores)
    if values.ndim < 2 or values.dtype.kind not in "iuf":
        raise StructureError(
            f"Scores are numbers of shape (..., item, rater); got {values.dtype} of shape {values.shape}."
        )
    values = values.astype(np.float64)
    if np.isinf(values).any():
        raise StructureError("Scores must be finite; NaN means that there is none.")
    complete = ~np.isnan(values).any(-1)
    checked = checked_item_weights(item_weights, values)
    one = np.ones(values.shape[-2]) if checked is None else checked.astype(np.float64)
    return np.where(complete[..., None], values, 0.0), one * complete


def _varies(values: Float, weights: Float) -> npt.NDArray[np.bool_]:
    """Whether the scores in use are not all equal."""
    low = np.where(weights > 0, values.min(-1, initial=np.inf), np.inf).min(-1, initial=np.inf)
    high = np.where(weights > 0, values.max(-1, initial=-np.inf), -np.inf).max(-1, initial=-np.inf)
    return low < high


def _mean_squares(values: Float, weights: Float) -> _MeanSquares:
    k = values.shape[-1]
    n = weights.sum(-1)
    some = n > 0
    w = weights[..., None]
    column = safe_divide((w * values).sum(-2), n[..., None], some[..., None])
    grand = column.mean(-1) if k else np.zeros_like(n)
    row = values.mean(-1) if k else np.zeros(values.shape[:-1])
    row_effect = row - grand[..., None]
    column_effect = column - grand[..., None]
    error = values - row[..., None] - column_effect[..., None, :]
    within = values - row[..., None]
    # what rounding alone leaves of a sum of squares that is zero
    largest = np.where(weights > 0, np.abs(values).max(-1, initial=0.0), 0.0).max(-1, initial=0.0)
    floor = (4 * np.finfo(np.float64).eps * largest) ** 2 * n * k

    def mean_square(total: Float, degrees: Float) -> Float:
        return safe_divide(np.where(total > floor, total, 0.0), degrees, degrees > 0)

    return _MeanSquares(
        rows=mean_square(k * (weights * row_effect**2).sum(-1), n - 1),
        columns=mean_square(n * (column_effect**2).sum(-1), np.full_like(n, k - 1)),
        error=mean_square((w * error**2).sum((-2, -1)), (n - 1) * (k - 1)),
        within=mean_square((w * within**2).sum((-2, -1)), n * (k - 1)),
        n=n,
        k=k,
    )


def _value(
    squares: _MeanSquares, form: str, varies: npt.NDArray[np.bool_]
) -> tuple[Float, npt.NDArray[np.int8]]:
    rows, columns, _, _, n, k = squares
    noise = squares.within if form.startswith("1") else squares.error
    between = safe_divide(columns - noise, n, n > 0) if form.startswith("A") else np.zeros_like(n)
    single = form.endswith("1")
    numerator = rows - noise
    denominator = rows + (k - 1) * noise + k * between if single else rows + between
    # the parts of a variance that is zero may cancel but for rounding
    rounding = _ROUNDING * (rows + k * noise + k * safe_divide(columns + noise, n, n > 0))
    reason = first_reason(
        (np.full(n.shape, k < 2), Reason.ONE_RATER),
        (n < 2, Reason.FEW_COMPLETE_ITEMS),
        (~varies, Reason.NO_VARIATION),
        (denominator <= rounding, Reason.NO_VARIANCE),
    )
    value = np.full(n.shape, np.nan)
    np.divide(numerator, denominator, out=value, where=reason == 0)
    return value, reason


def _interval(
    squares: _MeanSquares, form: str, value: Float, reason: npt.NDArray[np.int8], level: float
) -> tuple[Float, Float]:
    noise = squares.within if form.startswith("1") else squares.error
    perfect = (reason == 0) & (noise == 0) & (value == 1)
    open_ = (reason == 0) & ~perfect
    lower = np.where(perfect, 1.0, np.nan)
    upper = lower.copy()
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ends = (
            _absolute(squares, form, value, level) if form.startswith("A") else _ratio(squares, form, level)
        )
    for out, end in ((lower, ends[0]), (upper, ends[1])):
        out[open_] = end[open_]
    return lower, upper


def _ratio(squares: _MeanSquares, form: str, level: float) -> tuple[Float, Float]:
    """One-way and consistency forms: functions of ``MSR / noise`` alone."""
    n, k = squares.n, squares.k
    one_way = form.startswith("1")
    ratio = squares.rows / (squares.within if one_way else squares.error)
    above, below = n - 1, n * (k - 1) if one_way else (n - 1) * (k - 1)
    low = ratio / _f_quantile(above, below, level)
    high = ratio * _f_quantile(below, above, level)
    if form.endswith("k"):
        return 1 - 1 / low, 1 - 1 / high
    return (low - 1) / (low + k - 1), (high - 1) / (high + k - 1)


def _absolute(squares: _MeanSquares, form: str, value: Float, level: float) -> tuple[Float, Float]:
    """Absolute agreement: Satterthwaite's degrees of freedom for the mix of rater and error variance."""
    rows, columns, error, _, n, k = squares
    odds = value / (1 - value)  # that of the mean of k raters is k times that of one
    a = (k if form.endswith("1") else 1) * odds / n
    b = 1 + (n - 1) * a
    mixed = (a * columns + b * error) ** 2
    degrees = mixed / ((a * columns) ** 2 / (k - 1) + (b * error) ** 2 / ((n - 1) * (k - 1)))
    f_low = _f_quantile(n - 1, degrees, level)
    f_high = _f_quantile(degrees, n - 1, level)
    noise = k * columns + (k * n - k - n) * error if form.endswith("1") else columns - error
    lower = n * (rows - f_low * error) / (f_low * noise + n * rows)
    upper = n * (f_high * rows - error) / (noise + n * f_high * rows)
    return lower, upper


def _f_quantile(above: Float, below: Float, level: float) -> Float:
    from scipy.special import fdtri

    return np.asarray(fdtri(above, below, (1 + level) / 2), dtype=np.float64)

"""Gradients of the coefficients of two raters with respect to the counts of the table.

Every coefficient is unchanged when all counts are multiplied by one number, so its gradient is orthogonal to
the counts: ``sum_ab n_ab dT/dn_ab = 0``. The influence of an item (or a cluster of items) that contributes
counts ``c`` is therefore ``sum_ab c_ab dT/dn_ab`` as it stands, and the delta-method variance is the sum of
its squares: over single pairs ``sum_ab n_ab (dT/dn_ab)^2``, the multinomial formula
``g' (diag(p) - p p') g / N``; over items the same with the pairs of an item summed first.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from xjudge.errors import StructureError
from xjudge.statistics._margins import along_last, column_sums, row_sums, table_sums
from xjudge.statistics.coefficients import COEFFICIENTS, evaluate

__all__ = ["delta_variance", "gradient"]

Float = npt.NDArray[np.float64]


def gradient(name: str, table: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> Float:
    """Gradient of a coefficient with respect to each count.

    Parameters
    ----------
    name : str
        A key of :data:`xjudge.statistics.COEFFICIENTS`.
    table : array-like, shape (..., L, L)
        Counts; rows reference, columns rater.
    weights : array-like, shape (L, L), optional
        Agreement weights, for weighted coefficients.

    Returns
    -------
    ndarray, shape (..., L, L)
        NaN where the coefficient is undefined.

    Raises
    ------
    ProtocolError, StructureError
        As :func:`xjudge.statistics.evaluate`.

    Notes
    -----
    For kappa the result is the linearisation of Fleiss, Cohen and Everitt (1969).

    Examples
    --------
    >>> g = gradient("accuracy", [[3, 1], [0, 4]])
    >>> g.round(6).tolist()
    [[0.015625, -0.109375], [-0.109375, 0.015625]]
    """
    matrix = None if weights is None else np.asarray(weights, dtype=np.float64)
    value, reason = evaluate(name, table, matrix)
    counts = np.asarray(table, dtype=np.float64)
    n_categories = counts.shape[-1]
    if matrix is None or not COEFFICIENTS[name].weighted:
        matrix = np.eye(n_categories)
    with np.errstate(divide="ignore", invalid="ignore"):  # undefined tables are blanked below
        out = _GRADIENTS[name](counts, value[..., None, None], matrix)
    return np.where((reason == 0)[..., None, None], out, np.nan)


def delta_variance(name: str, table: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> Float:
    """Delta-method variance of a coefficient under multinomial sampling of single pairs.

    Parameters
    ----------
    name, table, weights
        As :func:`gradient`.

    Returns
    -------
    ndarray, shape (...)
        ``sum_ab n_ab (dT/dn_ab)^2``; NaN where the coefficient is undefined.

    Examples
    --------
    >>> round(float(10 * delta_variance("kappa", [[4, 1], [1, 4]])), 12)
    0.64
    """
    counts = np.asarray(table, dtype=np.float64)
    if counts.ndim < 2:
        raise StructureError(f"A table has shape (..., L, L); got {counts.shape}.")
    slope = gradient(name, counts, weights)
    return table_sums(counts * np.square(slope))


# ------------------------------------------------------------------------------------------------ formulas


def _total(table: Float) -> Float:
    return table_sums(table)[..., None, None]


def _quotient(value: Float, top: Float, bottom: Float, denominator: Float) -> Float:
    """Gradient of ``X / Y`` from those of ``X`` and ``Y`` and the value."""
    return (top - value * bottom) / denominator


def _accuracy(table: Float, value: Float, _: Float) -> Float:
    return _quotient(value, np.eye(table.shape[-1]), np.ones_like(table), _total(table))


def _kappa(table: Float, value: Float, weights: Float) -> Float:
    # kappa = 1 - N D / E with D the weighted disagreements and E the same of the margins' product
    apart = 1.0 - weights
    row, column, total = row_sums(table), column_sums(table), _total(table)
    expected = along_last((row @ apart) * column)[..., None, None]
    observed = table_sums(table * apart)[..., None, None]
    slope_observed = observed + total * apart
    slope_expected = (column @ apart.T)[..., :, None] + (row @ apart)[..., None, :]
    return -_quotient(1.0 - value, slope_observed, slope_expected, expected)


def _scott_pi(table: Float, value: Float, weights: Float) -> Float:
    # kappa of the table added to its transpose: each count enters two cells
    twice = _kappa(table + np.swapaxes(table, -1, -2), value, (weights + weights.T) / 2)
    return twice + np.swapaxes(twice, -1, -2)


def _fixed_chance(table: Float, value: Float, weights: Float, expected: Float, slope: Float) -> Float:
    """Gradient of ``1 - N D / (N^2 - E)`` from ``E`` (in units of ``N^2``) and its gradient."""
    apart, total = 1.0 - weights, _total(table)
    observed = table_sums(table * apart)[..., None, None]
    bottom = total * total - expected
    return -_quotient(1.0 - value, observed + total * apart, 2 * total - slope, bottom)


def _gwet_ac1(table: Float, value: Float, weights: Float) -> Float:
    n_categories, total = table.shape[-1], _total(table)
    factor = weights.sum() / (n_categories * (n_categories - 1))
    pooled = (row_sums(table) + column_sums(table)) / 2
    expected = factor * along_last(pooled * (total[..., 0] - pooled))[..., None, None]
    slope = factor * (2 * total - pooled[..., :, None] - pooled[..., None, :])
    return _fixed_chance(table, value, weights, expected, slope)


def _brennan_prediger(table: Float, value: Float, weights: Float) -> Float:
    factor, total = weights.sum() / table.shape[-1] ** 2, _total(table)
    return _fixed_chance(table, value, weights, factor * total * total, 2 * factor * total)


def _mcc(table: Float, value: Float, _: Float) -> Float:
    n_categories = table.shape[-1]
    row, column, total = row_sums(table), column_sums(table), _total(table)
    if n_categories == 2:
        spread = np.sqrt(row.prod(-1) * column.prod(-1))[..., None, None]
        top = np.array([[1.0, -1.0], [-1.0, 1.0]]) * table[..., ::-1, ::-1]
        relative = (1 / row[..., :, None] + 1 / column[..., None, :]) / 2
        return top / spread - value * relative
    hits = np.trace(table, axis1=-2, axis2=-1)[..., None, None]
    left = total * total - along_last(row * row)[..., None, None]
    right = total * total - along_last(column * column)[..., None, None]
    top = hits + total * np.eye(n_categories) - column[..., :, None] - row[..., None, :]
    relative = (total - row[..., :, None]) / left + (total - column[..., None, :]) / right
    return top / np.sqrt(left * right) - value * relative


def _of_cells(top: npt.ArrayLike, bottom: npt.ArrayLike) -> Callable[[Float, Float, Float], Float]:
    """Gradient of a quotient of weighted sums of cells."""
    weights_top, weights_bottom = np.array(top, dtype=np.float64), np.array(bottom, dtype=np.float64)

    def slope(table: Float, value: Float, _: Float) -> Float:
        denominator = table_sums(table * weights_bottom)[..., None, None]
        return _quotient(value, weights_top, weights_bottom, denominator)

    return slope


_recall = _of_cells([[0, 0], [0, 1]], [[0, 0], [1, 1]])
_specificity = _of_cells([[1, 0], [0, 0]], [[1, 1], [0, 0]])
_precision = _of_cells([[0, 0], [0, 1]], [[0, 1], [0, 1]])
_f1 = _of_cells([[0, 0], [0, 2]], [[0, 1], [1, 2]])


def _balanced_accuracy(table: Float, value: Float, _: Float) -> Float:
    row = row_sums(table)
    used = row > 0
    share = np.diagonal(table, axis1=-2, axis2=-1) / np.where(used, row, 1.0)
    slope = (np.eye(table.shape[-1]) - share[..., :, None]) / np.where(used, row, np.inf)[..., :, None]
    return slope / along_last(used.astype(np.float64))[..., None, None]


def _class_recall_gap(table: Float, value: Float, weights: Float) -> Float:
    found = evaluate("recall", table).value[..., None, None]
    missed = evaluate("specificity", table).value[..., None, None]
    return _recall(table, found, weights) - _specificity(table, missed, weights)


def _marginal_mismatch(table: Float, value: Float, _: Float) -> Float:
    row, column = row_sums(table), column_sums(table)
    one = (row[..., 1] * column[..., 0])[..., None, None]
    other = (column[..., 1] * row[..., 0])[..., None, None]
    of_row, of_column = np.eye(2)[:, :, None], np.eye(2)[:, None, :]
    slope_one = of_row[1] * column[..., 0, None, None] + row[..., 1, None, None] * of_column[0]
    slope_other = of_column[1] * row[..., 0, None, None] + column[..., 1, None, None] * of_row[0]
    relative = (slope_one / one + slope_other / other) / 2
    return value * (relative - (slope_one + slope_other) / (one + other))


_GRADIENTS: dict[str, Callable[[Float, Float, Float], Float]] = {
    "accuracy": _accuracy,
    "kappa": _kappa,
    "phi": _mcc,
    "mcc": _mcc,
    "f1": _f1,
    "precision": _precision,
    "recall": _recall,
    "specificity": _specificity,
    "balanced_accuracy": _balanced_accuracy,
    "class_recall_gap": _class_recall_gap,
    "marginal_mismatch": _marginal_mismatch,
    "scott_pi": _scott_pi,
    "gwet_ac1": _gwet_ac1,
    "brennan_prediger": _brennan_prediger,
}

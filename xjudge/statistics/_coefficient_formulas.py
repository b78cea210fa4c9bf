"""Formulas of the coefficients of two raters, on checked tables of float64, with reasons where undefined.

Sums are formed from the counts (not from shares), so that tables of integers give the correctly rounded
ratio and a numerator of zero is exactly zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.errors import Reason, StructureError
from xjudge.statistics._margins import along_last, column_sums, row_sums, table_sums

__all__ = ["COEFFICIENTS", "Coefficient", "Evaluated", "checked_table"]

Float = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int8]


class Evaluated(NamedTuple):
    """A value and, where it is NaN, the reason (member of :class:`xjudge.errors.Reason`)."""

    value: Float
    reason: Codes


@dataclass(frozen=True)
class Coefficient:
    """What the labelled rooms need to know of a coefficient.

    Parameters
    ----------
    name : str
    compute : callable
        ``(table, weights) -> Evaluated``; the table is float64 and checked.
    needs : {"categories", "two", "positive"}
        Any number of categories, exactly two, or two of which one is positive.
    weighted : bool
        Whether agreement weights act on it.
    """

    name: str
    compute: Callable[[Float, Float | None], Evaluated]
    needs: Literal["categories", "two", "positive"]
    weighted: bool = False


def checked_table(table: npt.ArrayLike) -> Float:
    """Counts as float64, refused where they are no counts."""
    try:
        counts = np.asarray(table)
    except ValueError:
        raise StructureError("A table has shape (..., L, L); got rows of different lengths.") from None
    if counts.ndim < 2 or counts.shape[-1] != counts.shape[-2] or counts.shape[-1] < 1:
        raise StructureError(f"A table has shape (..., L, L); got {counts.shape}.")
    if counts.dtype.kind not in "iufb":
        raise StructureError(f"A table holds counts; got dtype {counts.dtype}.")
    if counts.size and not (counts.min() >= 0 and counts.max() < np.inf):
        raise StructureError("A table holds counts: no cell is negative, infinite or NaN.")
    whole = counts.dtype.kind != "f"
    counts = counts.astype(np.float64)
    return counts if whole else _scaled(counts)


def _scaled(table: Float) -> Float:
    """Each table brought to a largest cell in [1/2, 1) by a power of two.

    Every coefficient is a ratio of sums of one degree and a power of two changes no digit, so the values
    stay, and products of margins of very small or large shares neither underflow nor overflow.
    """
    exponent = np.frexp(table.max((-2, -1), keepdims=True))[1]
    return np.ldexp(table, -exponent)


def _ratio(numerator: Float, denominator: Float, reason: Codes) -> Evaluated:
    """Divide where there is no reason against it."""
    value = np.full(np.shape(reason), np.nan)
    np.divide(numerator, denominator, out=value, where=reason == 0)
    return Evaluated(value, reason)


def _reasons(*pairs: tuple[npt.NDArray[np.bool_], Reason]) -> Codes:
    """The first reason that holds, in the order given."""
    out = np.zeros(np.shape(pairs[0][0]), dtype=np.int8)
    for holds, reason in reversed(pairs):
        out = np.where(holds, np.int8(reason), out)
    return out


def _categories_used(margin: Float) -> Float:
    return along_last((margin > 0).astype(np.float64))


def _empty(total: Float) -> tuple[npt.NDArray[np.bool_], Reason]:
    return total == 0, Reason.NO_JOINT_ANSWERS


def _accuracy(table: Float, _: Float | None) -> Evaluated:
    hits = np.trace(table, axis1=-2, axis2=-1)
    total = hits + _apart(table, _others(table))  # so that no rounding of shares takes the ratio beyond 1
    return _ratio(hits, total, _reasons(_empty(total)))


def _others(table: Float) -> Float:
    """1 off the diagonal, 0 on it: disagreement without weights."""
    return 1.0 - np.eye(table.shape[-1])


def _disagreement(table: Float, weights: Float | None) -> Float:
    """``1 - w_ab``, exactly 0 on the diagonal.

    Coefficients are formed from disagreements: their sums have no negative terms, so nothing cancels even
    where one cell holds nearly everything.
    """
    return _others(table) if weights is None else np.maximum(1.0 - weights, 0.0) * _others(table)


def _apart(table: Float, disagreement: Float) -> Float:
    """Weighted number of disagreements, ``N D_o``."""
    return np.einsum("...ab,ab->...", table, disagreement)


def _corrected(observed: Float, expected: Float, reason: Codes) -> Evaluated:
    """``(p_o - p_e) / (1 - p_e)`` as ``(D_e - D_o) / D_e``, of disagreements in one unit."""
    return _ratio(expected - observed, expected, reason)


def _kappa(table: Float, weights: Float | None) -> Evaluated:
    row, column, total = row_sums(table), column_sums(table), table_sums(table)
    distance = _disagreement(table, weights)
    expected = along_last((row @ distance) * column)
    one = _categories_used(row + column) < 2
    reason = _reasons(
        _empty(total),
        (one, Reason.ONE_CATEGORY),
        (expected == 0, Reason.NO_POSSIBLE_DISAGREEMENT),
    )
    return _corrected(total * _apart(table, distance), expected, reason)


def _scott_pi(table: Float, weights: Float | None) -> Evaluated:
    # the pooled margin on both sides: the same coefficient as kappa of the symmetrised table
    return _kappa(table + np.swapaxes(table, -1, -2), weights)


def _gwet_ac1(table: Float, weights: Float | None) -> Evaluated:
    n_categories = table.shape[-1]
    total = table_sums(table)
    pooled = row_sums(table) + column_sums(table)  # 2 N pibar
    spread = along_last(pooled * (2 * total[..., None] - pooled))
    distance = _disagreement(table, weights)
    pairs = n_categories * (n_categories - 1)
    agreement = n_categories**2 - distance.sum()  # T_w
    # in units of 4 N^2 L (L - 1), where tables of integers stay integers
    expected = 4 * pairs * total * total - agreement * spread
    observed = 4 * pairs * total * _apart(table, distance)
    return _corrected(observed, expected, _fixed_reasons(total, distance))


def _brennan_prediger(table: Float, weights: Float | None) -> Evaluated:
    total = table_sums(table)
    distance = _disagreement(table, weights)
    observed = table.shape[-1] ** 2 * _apart(table, distance)
    return _corrected(observed, distance.sum() * total, _fixed_reasons(total, distance))


def _fixed_reasons(total: Float, distance: Float) -> Codes:
    """Reasons where chance is below 1 whatever the margins, unless no two categories can disagree."""
    why = Reason.ONE_CATEGORY if len(distance) == 1 else Reason.NO_POSSIBLE_DISAGREEMENT
    return _reasons(_empty(total), (np.broadcast_to(not distance.any(), total.shape), why))


def _constant(row: Float, column: Float) -> tuple[tuple[npt.NDArray[np.bool_], Reason], ...]:
    reference, rater = _categories_used(row) < 2, _categories_used(column) < 2
    return (
        _empty(along_last(row)),
        (reference & rater, Reason.CONSTANT_BOTH),
        (reference, Reason.CONSTANT_REFERENCE),
        (rater, Reason.CONSTANT_RATER),
    )


def _mcc(table: Float, _: Float | None) -> Evaluated:
    row, column = row_sums(table), column_sums(table)
    if table.shape[-1] == 2:
        numerator = table[..., 0, 0] * table[..., 1, 1] - table[..., 0, 1] * table[..., 1, 0]
        one, other = row[..., 0] * row[..., 1], column[..., 0] * column[..., 1]
    else:
        others = _others(table)
        hits = np.diagonal(table, axis1=-2, axis2=-1)
        # one category against the rest, summed over categories:
        # sum (TP TN - FP FN) = N sum n_aa - sum n_a. n_.a
        true_negative = np.diagonal(others @ table @ others, axis1=-2, axis2=-1)
        false_negative, false_positive = row_sums(table * others), column_sums(table * others)
        numerator = along_last(hits * true_negative - false_positive * false_negative)
        one, other = along_last((row @ others) * row), along_last((column @ others) * column)
    evaluated = _ratio(numerator, _geometric_mean(one, other), _reasons(*_constant(row, column)))
    return Evaluated(np.clip(evaluated.value, -1.0, 1.0), evaluated.reason)  # but for rounding it is inside


def _geometric_mean(one: Float, other: Float) -> Float:
    """``sqrt(one other)``, exact where the two are equal."""
    return np.where(one == other, one, np.sqrt(one) * np.sqrt(other))


def _f1(table: Float, _: Float | None) -> Evaluated:
    twice = 2 * table[..., 1, 1]
    denominator = twice + table[..., 0, 1] + table[..., 1, 0]
    total = table_sums(table)
    return _ratio(twice, denominator, _reasons(_empty(total), (denominator == 0, Reason.NO_POSITIVE_EITHER)))


def _share_of(line: Float, place: int, total: Float, reason: Reason) -> Evaluated:
    denominator = along_last(line)
    return _ratio(line[..., place], denominator, _reasons(_empty(total), (denominator == 0, reason)))


def _precision(table: Float, _: Float | None) -> Evaluated:
    return _share_of(table[..., :, 1], 1, table_sums(table), Reason.NO_POSITIVE_RATER)


def _recall(table: Float, _: Float | None) -> Evaluated:
    return _share_of(table[..., 1, :], 1, table_sums(table), Reason.NO_POSITIVE_REFERENCE)


def _specificity(table: Float, _: Float | None) -> Evaluated:
    return _share_of(table[..., 0, :], 0, table_sums(table), Reason.NO_NEGATIVE_REFERENCE)


def _balanced_accuracy(table: Float, _: Float | None) -> Evaluated:
    row, column, total = row_sums(table), column_sums(table), table_sums(table)
    hits = np.diagonal(table, axis1=-2, axis2=-1)
    if table.shape[-1] == 2:
        found, missed = _recall(table, None), _specificity(table, None)
        reason = np.where(found.reason != 0, found.reason, missed.reason).astype(np.int8)
        return Evaluated((found.value + missed.value) / 2, reason)
    used = row > 0
    shares = np.divide(hits, row, out=np.zeros_like(row), where=used)
    unanswered = np.asarray((~used & (column > 0)).any(-1))
    reason = _reasons(_empty(total), (unanswered, Reason.CLASS_WITHOUT_REFERENCE))
    return _ratio(along_last(shares), along_last(used.astype(np.float64)), reason)


def _class_recall_gap(table: Float, _: Float | None) -> Evaluated:
    found, missed = _recall(table, None), _specificity(table, None)
    reason = np.where(found.reason != 0, found.reason, missed.reason).astype(np.int8)
    return Evaluated(found.value - missed.value, reason)


def _marginal_mismatch(table: Float, _: Float | None) -> Evaluated:
    row, column = row_sums(table), column_sums(table)
    one, other = row[..., 1] * column[..., 0], column[..., 1] * row[..., 0]
    certain = (one + other) == 0
    reason = _reasons(_empty(table_sums(table)), (certain, Reason.ONE_CATEGORY))
    evaluated = _ratio(2 * _geometric_mean(one, other), one + other, reason)
    return Evaluated(np.minimum(evaluated.value, 1.0), evaluated.reason)  # but for rounding it is at most 1


COEFFICIENTS: dict[str, Coefficient] = {
    c.name: c
    for c in (
        Coefficient("accuracy", _accuracy, "categories"),
        Coefficient("kappa", _kappa, "categories", weighted=True),
        Coefficient("phi", _mcc, "two"),
        Coefficient("mcc", _mcc, "categories"),
        Coefficient("f1", _f1, "positive"),
        Coefficient("precision", _precision, "positive"),
        Coefficient("recall", _recall, "positive"),
        Coefficient("specificity", _specificity, "positive"),
        Coefficient("balanced_accuracy", _balanced_accuracy, "categories"),
        Coefficient("class_recall_gap", _class_recall_gap, "positive"),
        Coefficient("marginal_mismatch", _marginal_mismatch, "two"),
        Coefficient("scott_pi", _scott_pi, "categories", weighted=True),
        Coefficient("gwet_ac1", _gwet_ac1, "categories", weighted=True),
        Coefficient("brennan_prediger", _brennan_prediger, "categories", weighted=True),
    )
}
"""The coefficients of two raters, by name."""

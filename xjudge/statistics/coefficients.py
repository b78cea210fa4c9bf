"""Coefficients of two raters from count tables ``(..., L, L)``: rows reference, columns rater.

Binary tables are ordered negative, positive: ``TN, FP`` above ``FN, TP``. Every function is vectorised over
leading dims and gives NaN where the coefficient is undefined; :func:`evaluate` also gives the reason.
Sums are formed from the counts (not from shares), so that tables of integers give the correctly rounded
ratio and a numerator of zero is exactly zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError, Reason, StructureError, listing
from xjudge.statistics.weights import Matrix, cost_matrix, weight_matrix, weights_from_costs

__all__ = [
    "COEFFICIENTS",
    "Coefficient",
    "accuracy",
    "balanced_accuracy",
    "brennan_prediger",
    "class_recall_gap",
    "evaluate",
    "f1",
    "gwet_ac1",
    "kappa",
    "marginal_mismatch",
    "mcc",
    "phi",
    "precision",
    "recall",
    "scott_pi",
    "specificity",
]

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


def evaluate(
    name: str, table: npt.ArrayLike, weights: str | Matrix | None = None, costs: str | Matrix | None = None
) -> Evaluated:
    """Evaluate a coefficient by name, with the reason where it is undefined.

    Parameters
    ----------
    name : str
        A key of :data:`COEFFICIENTS`.
    table : array-like, shape (..., L, L)
        Counts; rows reference, columns rater.
    weights, costs : str or (L, L) array, optional
        Agreement weights (diagonal 1) or disagreement costs (diagonal 0), for weighted coefficients.

    Returns
    -------
    value : ndarray, shape (...)
    reason : ndarray of int8, shape (...)
        Members of :class:`xjudge.errors.Reason`.

    Raises
    ------
    ProtocolError
        An unknown name, a table the coefficient is not defined for, weights and costs together.
    StructureError
        A table that is not square, or has negative or non-finite counts.
    """
    coefficient = COEFFICIENTS.get(name)
    if coefficient is None:
        raise ProtocolError(f"There is no coefficient {name!r}; there are {', '.join(COEFFICIENTS)}.")
    counts = _checked(table)
    n_categories = counts.shape[-1]
    if coefficient.needs != "categories" and n_categories != 2:
        raise ProtocolError(
            f"`{name}` is defined for two categories; the table has {n_categories}. Map the scale to two, "
            "or use accuracy, kappa or mcc."
        )
    if weights is not None and costs is not None:
        raise ProtocolError("Give `weights` (agreement, diagonal 1) or `costs` (disagreement, diagonal 0).")
    matrix: Float | None = None
    if coefficient.weighted and weights is not None:
        matrix = weight_matrix(weights, n_categories)
    elif coefficient.weighted and costs is not None:
        matrix = weights_from_costs(cost_matrix(costs, n_categories))
    return coefficient.compute(counts, matrix)


# ---------------------------------------------------------------------------------------------- the public


def accuracy(table: npt.ArrayLike) -> Float:
    """Share of pairs with equal labels, ``p_o = sum_a n_aa / N``.

    Parameters
    ----------
    table : array-like, shape (..., L, L)
        Counts; rows reference, columns rater.

    Returns
    -------
    ndarray, shape (...)
        In [0, 1]; NaN for an empty table.

    Examples
    --------
    >>> float(accuracy([[97, 420], [181, 1003]]).round(3))
    0.647
    """
    return evaluate("accuracy", table).value


def kappa(
    table: npt.ArrayLike, weights: str | Matrix | None = None, costs: str | Matrix | None = None
) -> Float:
    """Cohen's kappa, unweighted or weighted (Cohen 1960, 1968).

    ``(p_o - p_e) / (1 - p_e)`` with ``p_o = sum w_ab p_ab`` and ``p_e = sum w_ab p_a. p_.b``.

    Parameters
    ----------
    table : array-like, shape (..., L, L)
        Counts; rows reference, columns rater.
    weights : str or (L, L) array, optional
        Agreement weights, diagonal 1: a name (see :func:`xjudge.statistics.weight_matrix`) or a matrix.
    costs : str or (L, L) array, optional
        Disagreement costs, diagonal 0; the same coefficient as weights ``1 - costs / max``.

    Returns
    -------
    ndarray, shape (...)
        At most 1; 0 where agreement is what the margins would give by chance. NaN where chance agreement
        is certain (only one category is in use, or the weights of all that are in use are 1) or the table
        is empty.

    Examples
    --------
    >>> float(kappa([[97, 420], [181, 1003]]).round(3))
    0.04
    >>> shift = [[0, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1], [0, 0, 0, 0, 0]]
    >>> kappa(shift, weights="quadratic").round(6).item() == round(5 / 7, 6)
    True
    """
    return evaluate("kappa", table, weights, costs).value


def phi(table: npt.ArrayLike) -> Float:
    """Phi coefficient of a 2 x 2 table: Pearson = Spearman = Kendall tau-b = Matthews.

    ``(TP TN - FP FN) / sqrt((TP+FP)(TP+FN)(TN+FP)(TN+FN))``.

    Parameters
    ----------
    table : array-like, shape (..., 2, 2)
        Counts; rows reference, columns rater.

    Returns
    -------
    ndarray, shape (...)
        In [-1, 1]; NaN where a margin is constant.

    Raises
    ------
    ProtocolError
        For more than two categories (use :func:`mcc`).

    Examples
    --------
    >>> float(phi([[118, 160], [108, 1852]]).round(3))
    0.404
    """
    return evaluate("phi", table).value


def mcc(table: npt.ArrayLike) -> Float:
    """Matthews correlation coefficient for any number of categories (Gorodkin 2004).

    ``(N sum_a n_aa - sum_a n_a. n_.a) / sqrt((N^2 - sum n_a.^2)(N^2 - sum n_.a^2))``; phi for two.

    Parameters
    ----------
    table : array-like, shape (..., L, L)
        Counts; rows reference, columns rater.

    Returns
    -------
    ndarray, shape (...)
        In [-1, 1]; NaN where a rater uses one category only.

    Examples
    --------
    >>> mcc([[118, 160], [108, 1852]]) == phi([[118, 160], [108, 1852]])
    np.True_
    """
    return evaluate("mcc", table).value


def f1(table: npt.ArrayLike) -> Float:
    """F1 of the positive category, ``2 TP / (2 TP + FP + FN)``.

    Parameters
    ----------
    table : array-like, shape (..., 2, 2)
        Counts ordered negative, positive.

    Returns
    -------
    ndarray, shape (...)
        In [0, 1]; NaN where neither side has a positive label.

    Examples
    --------
    >>> float(f1([[97, 420], [181, 1003]]).round(3))
    0.769
    """
    return evaluate("f1", table).value


def precision(table: npt.ArrayLike) -> Float:
    """Share of the rater's positives that the reference calls positive, ``TP / (TP + FP)``.

    Parameters
    ----------
    table : array-like, shape (..., 2, 2)
        Counts ordered negative, positive.

    Returns
    -------
    ndarray, shape (...)
        In [0, 1]; NaN where the rater has no positive.

    Examples
    --------
    >>> precision([[1, 1], [0, 3]]).item()
    0.75
    """
    return evaluate("precision", table).value


def recall(table: npt.ArrayLike) -> Float:
    """Share of the reference's positives that the rater finds (sensitivity), ``TP / (TP + FN)``.

    Parameters
    ----------
    table : array-like, shape (..., 2, 2)
        Counts ordered negative, positive.

    Returns
    -------
    ndarray, shape (...)
        In [0, 1]; NaN where the reference has no positive.

    Examples
    --------
    >>> recall([[1, 1], [0, 3]]).item()
    1.0
    """
    return evaluate("recall", table).value


def specificity(table: npt.ArrayLike) -> Float:
    """Share of the reference's negatives that the rater finds, ``TN / (TN + FP)``.

    Parameters
    ----------
    table : array-like, shape (..., 2, 2)
        Counts ordered negative, positive.

    Returns
    -------
    ndarray, shape (...)
        In [0, 1]; NaN where the reference has no negative.

    Examples
    --------
    >>> specificity([[1, 1], [0, 3]]).item()
    0.5
    """
    return evaluate("specificity", table).value


def balanced_accuracy(table: npt.ArrayLike) -> Float:
    """Mean over categories of the share of the reference's labels that the rater finds.

    For two categories ``(recall + specificity) / 2``. With more, categories that neither side uses are
    left out; a category that only the rater uses has no recall and makes the value undefined.

    Parameters
    ----------
    table : array-like, shape (..., L, L)
        Counts; rows reference, columns rater.

    Returns
    -------
    ndarray, shape (...)
        In [0, 1], or NaN.

    Examples
    --------
    >>> balanced_accuracy([[1, 1], [0, 3]]).item()
    0.75
    """
    return evaluate("balanced_accuracy", table).value


def class_recall_gap(table: npt.ArrayLike) -> Float:
    """Recall of the positive class less that of the negative class, ``recall - specificity``.

    Parameters
    ----------
    table : array-like, shape (..., 2, 2)
        Counts ordered negative, positive.

    Returns
    -------
    ndarray, shape (...)
        In [-1, 1]; NaN where the reference lacks a class.

    Examples
    --------
    >>> float(class_recall_gap([[118, 160], [108, 1852]]).round(3))
    0.52
    """
    return evaluate("class_recall_gap", table).value


def marginal_mismatch(table: npt.ArrayLike) -> Float:
    """Factor ``q`` between kappa and phi, ``kappa = q phi``: 1 where the margins agree.

    ``q = 2 sqrt(A B) / (A + B)`` with ``A = (TP+FN)(FN+TN)`` and ``B = (TP+FP)(FP+TN)``; 0 where one rater
    is constant and the other is not (kappa is 0 and phi undefined).

    Parameters
    ----------
    table : array-like, shape (..., 2, 2)
        Counts; rows reference, columns rater.

    Returns
    -------
    ndarray, shape (...)
        In [0, 1]; NaN where only one category is in use.

    Examples
    --------
    >>> float(marginal_mismatch([[118, 160], [108, 1852]]).round(4))
    0.9932
    """
    return evaluate("marginal_mismatch", table).value


def scott_pi(
    table: npt.ArrayLike, weights: str | Matrix | None = None, costs: str | Matrix | None = None
) -> Float:
    """Scott's pi: chance from the pooled margins, ``p_e = sum w_ab pibar_a pibar_b`` (Scott 1955).

    Parameters and undefined cases are those of :func:`kappa`.

    Examples
    --------
    >>> float(scott_pi([[118, 160], [108, 1852]]).round(4))
    0.4008
    """
    return evaluate("scott_pi", table, weights, costs).value


def gwet_ac1(
    table: npt.ArrayLike, weights: str | Matrix | None = None, costs: str | Matrix | None = None
) -> Float:
    """Gwet's AC1, and AC2 with weights (Gwet 2008).

    ``p_e = T_w / (L (L-1)) sum_a pibar_a (1 - pibar_a)`` with ``T_w`` the sum of the weights and ``L`` the
    number of declared categories. Parameters are those of :func:`kappa`; NaN for an empty table, and where
    every weight is 1.

    Examples
    --------
    >>> float(gwet_ac1([[118, 160], [108, 1852]]).round(4))
    0.8503
    """
    return evaluate("gwet_ac1", table, weights, costs).value


def brennan_prediger(
    table: npt.ArrayLike, weights: str | Matrix | None = None, costs: str | Matrix | None = None
) -> Float:
    """Brennan and Prediger's coefficient: chance is uniform over the declared categories.

    ``p_e = sum w_ab / L^2`` (1 / L unweighted). Parameters are those of :func:`kappa`; NaN for an empty
    table, and where every weight is 1.

    Examples
    --------
    >>> brennan_prediger([[4, 1], [1, 4]]).round(6).item()
    0.6
    """
    return evaluate("brennan_prediger", table, weights, costs).value


# ------------------------------------------------------------------------------------------------ formulas


def _checked(table: npt.ArrayLike) -> Float:
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
    row, column, total = table.sum(-1), table.sum(-2), table.sum((-2, -1))
    distance = _disagreement(table, weights)
    expected = ((row @ distance) * column).sum(-1)
    one = ((row + column) > 0).sum(-1) < 2
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
    total = table.sum((-2, -1))
    pooled = table.sum(-1) + table.sum(-2)  # 2 N pibar
    spread = (pooled * (2 * total[..., None] - pooled)).sum(-1)
    distance = _disagreement(table, weights)
    pairs = n_categories * (n_categories - 1)
    agreement = n_categories**2 - distance.sum()  # T_w
    # in units of 4 N^2 L (L - 1), where tables of integers stay integers
    expected = 4 * pairs * total * total - agreement * spread
    observed = 4 * pairs * total * _apart(table, distance)
    return _corrected(observed, expected, _fixed_reasons(total, distance))


def _brennan_prediger(table: Float, weights: Float | None) -> Evaluated:
    total = table.sum((-2, -1))
    distance = _disagreement(table, weights)
    observed = table.shape[-1] ** 2 * _apart(table, distance)
    return _corrected(observed, distance.sum() * total, _fixed_reasons(total, distance))


def _fixed_reasons(total: Float, distance: Float) -> Codes:
    """Reasons where chance is below 1 whatever the margins, unless no two categories can disagree."""
    why = Reason.ONE_CATEGORY if len(distance) == 1 else Reason.NO_POSSIBLE_DISAGREEMENT
    return _reasons(_empty(total), (np.broadcast_to(not distance.any(), total.shape), why))


def _constant(table: Float) -> tuple[tuple[npt.NDArray[np.bool_], Reason], ...]:
    reference = (table.sum(-1) > 0).sum(-1) < 2
    rater = (table.sum(-2) > 0).sum(-1) < 2
    return (
        _empty(table.sum((-2, -1))),
        (reference & rater, Reason.CONSTANT_BOTH),
        (reference, Reason.CONSTANT_REFERENCE),
        (rater, Reason.CONSTANT_RATER),
    )


def _mcc(table: Float, _: Float | None) -> Evaluated:
    row, column = table.sum(-1), table.sum(-2)
    others = _others(table)
    hits = np.diagonal(table, axis1=-2, axis2=-1)
    # one category against the rest, summed over categories: sum (TP TN - FP FN) = N sum n_aa - sum n_a. n_.a
    true_negative = np.diagonal(others @ table @ others, axis1=-2, axis2=-1)
    false_negative, false_positive = (table * others).sum(-1), (table * others).sum(-2)
    numerator = (hits * true_negative - false_positive * false_negative).sum(-1)
    one, other = ((row @ others) * row).sum(-1), ((column @ others) * column).sum(-1)
    evaluated = _ratio(numerator, _geometric_mean(one, other), _reasons(*_constant(table)))
    return Evaluated(np.clip(evaluated.value, -1.0, 1.0), evaluated.reason)  # but for rounding it is inside


def _geometric_mean(one: Float, other: Float) -> Float:
    """``sqrt(one other)``, exact where the two are equal."""
    return np.where(one == other, one, np.sqrt(one) * np.sqrt(other))


def _f1(table: Float, _: Float | None) -> Evaluated:
    twice = 2 * table[..., 1, 1]
    denominator = twice + table[..., 0, 1] + table[..., 1, 0]
    total = table.sum((-2, -1))
    return _ratio(twice, denominator, _reasons(_empty(total), (denominator == 0, Reason.NO_POSITIVE_EITHER)))


def _share_of(line: Float, place: int, total: Float, reason: Reason) -> Evaluated:
    denominator = line.sum(-1)
    return _ratio(line[..., place], denominator, _reasons(_empty(total), (denominator == 0, reason)))


def _precision(table: Float, _: Float | None) -> Evaluated:
    return _share_of(table[..., :, 1], 1, table.sum((-2, -1)), Reason.NO_POSITIVE_RATER)


def _recall(table: Float, _: Float | None) -> Evaluated:
    return _share_of(table[..., 1, :], 1, table.sum((-2, -1)), Reason.NO_POSITIVE_REFERENCE)


def _specificity(table: Float, _: Float | None) -> Evaluated:
    return _share_of(table[..., 0, :], 0, table.sum((-2, -1)), Reason.NO_NEGATIVE_REFERENCE)


def _balanced_accuracy(table: Float, _: Float | None) -> Evaluated:
    row, column, total = table.sum(-1), table.sum(-2), table.sum((-2, -1))
    hits = np.diagonal(table, axis1=-2, axis2=-1)
    if table.shape[-1] == 2:
        found, missed = _recall(table, None), _specificity(table, None)
        reason = np.where(found.reason != 0, found.reason, missed.reason).astype(np.int8)
        return Evaluated((found.value + missed.value) / 2, reason)
    used = row > 0
    shares = np.divide(hits, row, out=np.zeros_like(row), where=used)
    unanswered = (~used & (column > 0)).any(-1)
    reason = _reasons(_empty(total), (unanswered, Reason.CLASS_WITHOUT_REFERENCE))
    return _ratio(shares.sum(-1), used.sum(-1).astype(np.float64), reason)


def _class_recall_gap(table: Float, _: Float | None) -> Evaluated:
    found, missed = _recall(table, None), _specificity(table, None)
    reason = np.where(found.reason != 0, found.reason, missed.reason).astype(np.int8)
    return Evaluated(found.value - missed.value, reason)


def _marginal_mismatch(table: Float, _: Float | None) -> Evaluated:
    row, column = table.sum(-1), table.sum(-2)
    one, other = row[..., 1] * column[..., 0], column[..., 1] * row[..., 0]
    certain = (one + other) == 0
    reason = _reasons(_empty(table.sum((-2, -1))), (certain, Reason.ONE_CATEGORY))
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


def check_names(names: list[str]) -> None:
    """Refuse names that are no coefficient of two raters, all of them in one message."""
    unknown = [name for name in names if name not in COEFFICIENTS]
    if unknown:
        raise ProtocolError(f"There is no statistic {listing(unknown)}; there are {', '.join(COEFFICIENTS)}.")

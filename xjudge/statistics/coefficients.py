"""Coefficients of two raters from count tables ``(..., L, L)``: rows reference, columns rater.

Binary tables are ordered negative, positive: ``TN, FP`` above ``FN, TP``. Every function is vectorised over
leading dims and gives NaN where the coefficient is undefined; :func:`evaluate` also gives the reason.
Sums are formed from the counts (not from shares), so that tables of integers give the correctly rounded
ratio and a numerator of zero is exactly zero.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError, listing
from xjudge.statistics._coefficient_formulas import COEFFICIENTS, Coefficient, Evaluated, checked_table
from xjudge.statistics.weights import Matrix, cost_matrix, weight_matrix, weights_from_costs

__all__ = [
    "COEFFICIENTS",
    "Coefficient",
    "Evaluated",
    "accuracy",
    "balanced_accuracy",
    "brennan_prediger",
    "check_names",
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
    counts = checked_table(table)
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


def check_names(names: list[str]) -> None:
    """Refuse names that are no coefficient of two raters, all of them in one message."""
    unknown = [name for name in names if name not in COEFFICIENTS]
    if unknown:
        raise ProtocolError(f"There is no statistic {listing(unknown)}; there are {', '.join(COEFFICIENTS)}.")

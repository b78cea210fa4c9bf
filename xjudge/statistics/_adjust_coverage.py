"""Which cases are covered: the coverage model, positivity, and the association with features."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.errors import Reason, StructureError
from xjudge.statistics._adjust_logistic import Design, Logistic, designed, fitted

__all__ = [
    "RIDGE",
    "Association",
    "Positivity",
    "association",
    "coverage_model",
    "feature_matrix",
    "fitted_coverage",
    "group_labels",
    "grouped",
    "positivity",
]

Float = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

RIDGE = 0.01
"""Ridge on the slopes of standardised features: a prior of standard deviation 10 on each.

It moves ordinary estimates by less than their rounding in print and keeps slopes finite where a feature
separates covered from open cases.
"""


class Positivity(NamedTuple):
    """How far the covered cases can stand for all.

    Parameters
    ----------
    least_coverage : float
        Least fitted probability of being covered among all cases, in [0, 1].
    effective_n : float
        ``(sum w)^2 / sum w^2`` over covered cases with ``w = 1 / fitted coverage``: how many cases of equal
        weight tell as much.
    largest_weight : float
        Largest weight, as a multiple of the mean weight of covered cases.
    """

    least_coverage: float
    effective_n: float
    largest_weight: float


class Association(NamedTuple):
    """Association of open cases with each feature, given the other features; shape (F,).

    Parameters
    ----------
    coefficient : ndarray
        Change of the log odds of being open per unit of the feature.
    standard_error : ndarray
        Over groups (items), at least the model's own.
    p_value : ndarray
        Two-sided, of no association.
    reason : ndarray of int8
        Members of :class:`xjudge.errors.Reason`.
    """

    coefficient: Float
    standard_error: Float
    p_value: Float
    reason: npt.NDArray[np.int8]


def fitted_coverage(features: npt.ArrayLike, covered: npt.ArrayLike, *, ridge: float = RIDGE) -> Float:
    """Probability of being covered given features, by logistic regression.

    Parameters
    ----------
    features : array-like, shape (n, F)
    covered : array-like of bool, shape (n,)
    ridge : float
        Half of this times the sum of squared slopes (of standardised features) is added to minus the log
        likelihood; 0 is plain maximum likelihood.

    Returns
    -------
    ndarray, shape (n,)
        In (0, 1]; the share of covered cases without features, 1 where all are covered and 0 where none is.

    Raises
    ------
    StructureError
        Features that are not finite numbers, one row a case.

    Examples
    --------
    Two groups with coverage 3/4 and 1/2:

    >>> fitted_coverage([[0]] * 4 + [[1]] * 4, [1, 1, 1, 0, 1, 1, 0, 0], ridge=0).round(6).tolist()
    [0.75, 0.75, 0.75, 0.75, 0.5, 0.5, 0.5, 0.5]
    """
    known = np.asarray(covered, dtype=bool)
    design = designed(feature_matrix(features, len(known)))
    return coverage_model(design, known, ridge)[0]


def positivity(coverage: npt.ArrayLike, covered: npt.ArrayLike) -> Positivity:
    """Least coverage, effective sample size and largest weight.

    Parameters
    ----------
    coverage : array-like, shape (n,)
        Fitted probabilities of being covered.
    covered : array-like of bool, shape (n,)

    Returns
    -------
    Positivity
        NaN where nothing is covered.

    Examples
    --------
    >>> positivity([0.5, 0.5, 0.25, 0.25], [True, True, True, False])
    Positivity(least_coverage=0.25, effective_n=2.6666666666666665, largest_weight=1.5)
    """
    share, known = np.asarray(coverage, dtype=np.float64), np.asarray(covered, dtype=bool)
    if not known.any():
        return Positivity(np.nan, 0.0, np.nan)
    weight = 1 / share[known]
    total = weight.sum()
    return Positivity(
        float(share.min()),
        float(total * total / (weight * weight).sum()),
        float(weight.max() / weight.mean()),
    )


def association(
    features: npt.ArrayLike,
    covered: npt.ArrayLike,
    *,
    groups: npt.ArrayLike | None = None,
    ridge: float = RIDGE,
) -> Association:
    """Association of being open with each feature: one logistic regression on all of them.

    Parameters
    ----------
    features : array-like, shape (n, F)
    covered : array-like of bool, shape (n,)
    groups : array-like of int, shape (n,), optional
        The item of each case, over which standard errors are taken.
    ridge : float
        As in :func:`fitted_coverage`; a feature that separates covered from open cases has a large
        coefficient with a large standard error instead of an infinite one.

    Returns
    -------
    Association
        NaN with a reason where all cases, or none, are covered, and for a feature that does not vary once the
        others are given. The p-value is that of the score over groups, which needs the model without the
        feature only and so holds under separation too; the standard error is the greater of the sandwich over
        groups and the model's own.

    Examples
    --------
    Odds of being open 1/3 and 1:

    >>> x, covered = [[0]] * 4 + [[1]] * 4, [1, 1, 1, 0, 1, 1, 0, 0]
    >>> found = association(x, covered, ridge=0)
    >>> found.coefficient.round(4).tolist()
    [1.0986]
    """
    known = np.asarray(covered, dtype=bool)
    design = designed(feature_matrix(features, len(known)))
    labels = group_labels(groups, len(known))
    n_features = len(design.scale)
    nothing = np.full(n_features, np.nan)
    varies = design.scale > 0
    reason = np.where(varies, Reason.OK, Reason.CONSTANT_FEATURE).astype(np.int8)
    if known.all() or not known.any():
        why = Reason.NO_OVERLAP if not len(known) else Reason.NO_OPEN_CASE
        reason[:] = why if known.all() else Reason.NO_JOINT_ANSWERS
        return Association(nothing, nothing, nothing, reason)
    share, model = coverage_model(design, known, ridge)
    assert model is not None
    sums = grouped((known - share)[:, None] * design.matrix @ model.inverse, labels)
    n_groups = len(sums)
    correction = n_groups / (n_groups - 1) if n_groups > 1 else np.nan
    sandwich = np.sqrt(correction * (sums * sums).sum(0)) / len(known)
    # residuals vanish under separation, and the sandwich with them
    spread = np.maximum(sandwich, np.sqrt(np.diag(model.inverse) / len(known)))[1:]
    p_value = np.array(
        [_score_test(design.matrix, known, labels, f, ridge) for f in range(1, n_features + 1)]
    )
    p_value = p_value.reshape(n_features)
    reason[np.isnan(p_value) & (n_groups > 1)] = Reason.CONSTANT_FEATURE
    safe = np.where(reason == Reason.OK, design.scale, np.nan)
    safe = np.where(safe > 0, safe, np.nan)
    return Association(-model.slopes[0, 1:] / safe, spread / safe, p_value, reason)


def _score_test(
    matrix: Float, known: npt.NDArray[np.bool_], labels: Ints, column: int, ridge: float
) -> float:
    """Two-sided p-value of a column given the others, by the score over groups; NaN where they explain it."""
    from scipy.special import chdtrc

    others = np.delete(matrix, column, axis=1)
    share = fitted(others, known.astype(np.int64), 2, ridge).shares[:, 1]
    weight = share * (1 - share)
    moments = np.linalg.pinv((others * weight[:, None]).T @ others, hermitian=True)
    rest = matrix[:, column] - others @ (moments @ (others.T @ (weight * matrix[:, column])))
    if not (weight @ rest**2) > 1e-12 * weight.sum():
        return np.nan
    sums = grouped(((known - share) * rest)[:, None], labels)[:, 0]
    squares = float((sums * sums).sum())
    return float(chdtrc(1.0, sums.sum() ** 2 / squares)) if len(sums) > 1 and squares > 0 else np.nan


# ---------------------------------------------------------------------------------------------------- helpers


def feature_matrix(features: npt.ArrayLike, n: int) -> Float:
    numbers = np.asarray(features, dtype=np.float64)
    if numbers.ndim != 2 or len(numbers) != n:
        raise StructureError(
            f"Features have shape (n, F) with a row for each of {n} cases; got {numbers.shape}."
        )
    if not np.isfinite(numbers).all():
        raise StructureError("Features are finite numbers; fill or drop what is missing first.")
    return numbers


def group_labels(groups: npt.ArrayLike | None, n: int) -> Ints:
    labels = np.arange(n) if groups is None else np.asarray(groups)
    if labels.shape != (n,):
        raise StructureError(f"`groups` has one label for each of {n} cases; got {labels.shape}.")
    return np.asarray(labels)


def grouped(values: Float, groups: Ints) -> Float:
    """Sums (group, column) of rows."""
    _, place = np.unique(groups, return_inverse=True)
    out = np.zeros((place.max(initial=-1) + 1, values.shape[1]))
    np.add.at(out, place, values)
    return out


def coverage_model(
    design: Design, covered: npt.NDArray[np.bool_], ridge: float
) -> tuple[Float, Logistic | None]:
    if covered.all() or not covered.any():
        return covered.astype(np.float64), None
    model = fitted(design.matrix, covered.astype(np.int64), 2, ridge)
    return model.shares[:, 1], model

"""The table of all cases from the covered ones, if abstention is ignorable given features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.codes import MISSING
from xjudge.errors import ProtocolError, Reason, StructureError, listing
from xjudge.statistics._adjust_coverage import (
    RIDGE,
    Positivity,
    coverage_model,
    feature_matrix,
    group_labels,
    grouped,
    positivity,
)
from xjudge.statistics._adjust_logistic import Design, Logistic, designed, fitted
from xjudge.statistics.coefficients import evaluate
from xjudge.statistics.gradients import gradient

__all__ = [
    "METHODS",
    "Adjusted",
    "adjusted_coefficient",
    "adjusted_table",
    "error_over_groups",
]

Float = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

METHODS = ("doubly_robust", "weighting", "standardised")


class Adjusted(NamedTuple):
    """Coefficients of all cases, one per statistic asked for.

    Parameters
    ----------
    value, standard_error : ndarray, shape (S,)
    reason : ndarray of int8, shape (S,)
        Members of :class:`xjudge.errors.Reason`.
    table : ndarray, shape (L, L)
        Estimated shares of all cases.
    positivity : Positivity
    influence : ndarray, shape (S, n)
        What each case adds to the coefficient's error, to first order: the standard error is the root of the
        sum of squares over groups (times ``G / (G - 1)`` for G groups). 0 for cases left out, NaN where the
        coefficient is undefined.
    """

    value: Float
    standard_error: Float
    reason: npt.NDArray[np.int8]
    table: Float
    positivity: Positivity
    influence: Float


# ------------------------------------------------------------------------------------------------- the public


def adjusted_table(
    features: npt.ArrayLike,
    reference: npt.ArrayLike,
    rater: npt.ArrayLike,
    n_categories: int,
    *,
    method: str = "doubly_robust",
    ridge: float = RIDGE,
) -> Float:
    r"""Table of all cases, if being covered is independent of both labels given the features.

    Parameters
    ----------
    features : array-like, shape (n, F)
        F may be 0: then covered cases are taken to be like all others.
    reference, rater : array-like of int, shape (n,)
        Categories 0 to L - 1; -1 (missing) leaves the case out; another negative code is an open verdict. A
        case is covered where both are categories.
    n_categories : int
        L.
    method : {"doubly_robust", "weighting", "standardised"}
        Covered cases weighted by 1 over their fitted coverage; the mean over all cases of a multinomial
        regression of the table's cell on the features; or that mean plus the weighted residuals, which is
        right if either model is.
    ridge : float
        As in :func:`fitted_coverage`, for both models.

    Returns
    -------
    ndarray, shape (L, L)
        Shares that add to 1, rows reference; NaN where nothing is covered. The doubly robust estimate of a
        rare cell may fall below 0; it is then 0 and the others are scaled.

    Raises
    ------
    ProtocolError
        An unknown method.
    StructureError
        Arrays that do not fit together.

    Notes
    -----
    With :math:`D` for covered, :math:`e(x)` the fitted coverage and :math:`m_c(x)` the fitted probability of
    cell c: :math:`\sum D 1_c / e / \sum D / e`, :math:`\mathrm{mean}\, m_c`, and
    :math:`\mathrm{mean}\, (m_c + D (1_c - m_c) / e)`.

    Cost: two regressions by Newton steps, :math:`O(n F^2 L^4)` each.

    Examples
    --------
    In the first group all four cases are covered, in the second two of four, and only there does the rater
    err:

    >>> x = [[0]] * 4 + [[1]] * 4
    >>> table = adjusted_table(x, [0, 0, 1, 1, 0, 1, -2, -2], [0, 0, 1, 1, 1, 1, 0, 1], 2, method="weighting")
    >>> table.round(3).tolist()
    [[0.251, 0.249], [0.0, 0.5]]
    """
    model = _Model.of(features, reference, rater, n_categories, None, ridge)
    return model.table(_checked(method))


def adjusted_coefficient(
    statistic: str | Sequence[str],
    features: npt.ArrayLike,
    reference: npt.ArrayLike,
    rater: npt.ArrayLike,
    n_categories: int,
    *,
    method: str = "doubly_robust",
    groups: npt.ArrayLike | None = None,
    weights: npt.ArrayLike | None = None,
    ridge: float = RIDGE,
) -> Adjusted:
    """Coefficients of the table of all cases, with standard errors over groups of cases.

    Parameters
    ----------
    statistic : str or sequence of str
        Keys of :data:`xjudge.statistics.COEFFICIENTS`.
    features, reference, rater, n_categories, method, ridge
        As in :func:`adjusted_table`.
    groups : array-like of int, shape (n,), optional
        The item of each case; without it each case stands alone.
    weights : array-like, shape (L, L), optional
        Agreement weights, for weighted coefficients.

    Returns
    -------
    Adjusted
        NaN with a reason where the table or the coefficient is undefined.

    Raises
    ------
    ProtocolError, StructureError
        As :func:`adjusted_table` and :func:`xjudge.statistics.evaluate`.

    Notes
    -----
    The standard error is the sandwich of all estimating equations stacked: the coefficient through its
    gradient (:mod:`xjudge.statistics.gradients`), the coverage model and the cell model. It holds for the
    doubly robust estimate if either model does.

    Examples
    --------
    >>> x = [[0]] * 4 + [[1]] * 4
    >>> found = adjusted_coefficient("accuracy", x, [0, 0, 1, 1, 0, 1, -2, -2], [0, 0, 1, 1, 1, 1, 0, 1], 2)
    >>> found.value.round(2).tolist(), round(found.positivity.effective_n, 1)
    ([0.75], 5.4)
    """
    names = [statistic] if isinstance(statistic, str) else list(statistic)
    how = _checked(method)
    model = _Model.of(features, reference, rater, n_categories, groups, ridge)
    table = model.table(how)
    n = len(names)
    value, se = np.full(n, np.nan), np.full(n, np.nan)
    influence = np.zeros((n, len(model.kept)))
    reason = np.full(n, model.reason, dtype=np.int8)
    if model.reason == Reason.OK:
        matrix = None if weights is None else np.asarray(weights, dtype=np.float64)
        for place, name in enumerate(names):
            found = evaluate(name, table, matrix)
            value[place], reason[place] = found.value, found.reason
            if found.reason == 0:
                own = model.influence(how, gradient(name, table, matrix))
                influence[place, model.kept] = own
                se[place] = error_over_groups(own, model.groups)
    influence[np.isnan(value)] = np.nan
    return Adjusted(value, se, reason, table, positivity(model.coverage, model.covered), influence)


# ------------------------------------------------------------------------------------------------- the models


@dataclass(frozen=True)
class _Model:
    """The two fitted models of one pair of raters on its eligible cases."""

    n_categories: int
    design: Design
    covered: npt.NDArray[np.bool_]
    cell: Ints  # of covered cases, place among `cells`
    cells: Ints  # the table's cells that occur, the most frequent first
    groups: Ints
    kept: npt.NDArray[np.bool_]  # of the cases given, those that are not left out
    coverage: Float
    fitted_coverage: Logistic | None
    cell_model: Logistic | None
    reason: Reason

    @classmethod
    def of(
        cls,
        features: npt.ArrayLike,
        reference: npt.ArrayLike,
        rater: npt.ArrayLike,
        n_categories: int,
        groups: npt.ArrayLike | None,
        ridge: float,
    ) -> _Model:
        a, b = np.asarray(reference, dtype=np.int64), np.asarray(rater, dtype=np.int64)
        if a.ndim != 1 or a.shape != b.shape or (a >= n_categories).any() or (b >= n_categories).any():
            raise StructureError(
                f"The labels of both sides are codes below {n_categories}, one per case; got {a.shape} and "
                f"{b.shape}."
            )
        numbers, items = feature_matrix(features, len(a)), group_labels(groups, len(a))
        keep = (a != MISSING) & (b != MISSING)
        a, b, items = a[keep], b[keep], items[keep]
        design = designed(numbers[keep])
        covered = (a >= 0) & (b >= 0)
        found, cell, counts = np.unique(
            a[covered] * n_categories + b[covered], return_inverse=True, return_counts=True
        )
        order = np.argsort(-counts, kind="stable")
        cells, cell = found[order], np.argsort(order)[cell]
        coverage, of_coverage = coverage_model(design, covered, ridge)
        cell_model = None
        if len(cells) > 1:
            cell_model = fitted(design.matrix[covered], cell, len(cells), ridge)
        reason = Reason.OK if covered.any() else Reason.NO_JOINT_ANSWERS
        if not len(a):
            reason = Reason.NO_OVERLAP
        return cls(
            n_categories,
            design,
            covered,
            cell,
            cells,
            items,
            keep,
            coverage,
            of_coverage,
            cell_model,
            reason,
        )

    def predicted(self) -> Float:
        """Fitted shares (n, cell) of the cells that occur, at every case."""
        if self.cell_model is None:
            return np.ones((len(self.covered), 1))
        scores = self.design.matrix @ self.cell_model.slopes.T
        scores = np.hstack([np.zeros((len(scores), 1)), scores])
        raised = np.exp(scores - scores.max(1, keepdims=True))
        return np.asarray(raised / raised.sum(1, keepdims=True))

    def table(self, method: str) -> Float:
        """Shares (L, L) of all cases."""
        size = self.n_categories
        if self.reason != Reason.OK:
            return np.full((size, size), np.nan)
        hit = np.eye(len(self.cells))[self.cell]
        weight = 1 / self.coverage[self.covered]
        if method == "weighting":
            share = weight @ hit / weight.sum()
        else:
            cells = self.predicted()
            share = cells.mean(0)
            if method == "doubly_robust":
                share = share + weight @ (hit - cells[self.covered]) / len(cells)
                share = np.maximum(share, 0.0)
                share = share / share.sum()
        out = np.zeros(size * size)
        out[self.cells] = share
        return out.reshape(size, size)

    def influence(self, method: str, slope: Float) -> Float:
        """What each case adds to the error of a coefficient with this gradient at the table."""
        worth = slope.ravel()[self.cells]
        n, known = len(self.covered), self.covered
        value = np.zeros(n)
        value[known] = worth[self.cell]
        weight = np.where(known, 1 / self.coverage, 0.0)
        cells = self.predicted()
        expected = cells @ worth
        if method == "weighting":
            scale = weight.mean()
            rest = value - (weight @ value) / weight.sum()
            own, through, towards = weight * rest / scale, rest / scale, np.zeros(n)
        elif method == "standardised":
            own, through, towards = expected - expected.mean(), np.zeros(n), np.ones(n)
        else:
            rest = value - expected
            own = expected + weight * rest
            own, through, towards = own - own.mean(), rest, 1 - weight
        if self.fitted_coverage is not None:
            x = self.design.matrix
            pull = -((weight * (1 - self.coverage) * through) @ x) / n
            own = own + ((known - self.coverage)[:, None] * x) @ (self.fitted_coverage.inverse @ pull)
        if self.cell_model is not None:
            own = own + self._through_cells(cells, worth, expected, towards)
        return np.asarray(own / n)

    def _through_cells(self, cells: Float, worth: Float, expected: Float, towards: Float) -> Float:
        """What each covered case adds through the fitted cell model."""
        assert self.cell_model is not None
        x, n = self.design.matrix, len(self.covered)
        bend = cells[:, 1:] * (worth[1:] - expected[:, None]) * towards[:, None]
        pull = (bend.T @ x).ravel() / n
        hit = np.zeros((n, len(self.cells)))
        hit[self.covered] = np.eye(len(self.cells))[self.cell]
        rest = np.where(self.covered[:, None], hit - cells, 0.0)[:, 1:]
        # the model's loss is a mean over covered cases only
        turned = (self.cell_model.inverse @ pull).reshape(rest.shape[1], x.shape[1])
        return np.asarray((rest * (x @ turned.T)).sum(1) * n / self.covered.sum())


# ---------------------------------------------------------------------------------------------------- helpers


def error_over_groups(influence: Float, groups: Ints) -> float:
    """Standard error from what each case adds, summed over groups; NaN for fewer than two groups."""
    sums = grouped(influence[:, None], groups)[:, 0]
    if len(sums) < 2:
        return np.nan
    return float(np.sqrt(len(sums) / (len(sums) - 1) * (sums * sums).sum()))


def _checked(method: str) -> str:
    if method not in METHODS:
        raise ProtocolError(f"`method` is one of {listing(METHODS)}; got {method!r}.")
    return method

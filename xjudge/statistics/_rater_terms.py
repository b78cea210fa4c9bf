"""Statistics of raters told apart as functions of sums over items: mean kappas, intraclass correlations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError, Reason, listing
from xjudge.statistics._icc import ICC_FORMS
from xjudge.statistics._items import Weights
from xjudge.statistics._terms import Codes, Float, ItemStatistic, first_reason, safe_divide
from xjudge.statistics.coefficients import Evaluated, evaluate
from xjudge.statistics.gradients import gradient
from xjudge.statistics.weights import weight_matrix

__all__ = ["Intraclass", "PairKappas", "icc_statistic", "pair_statistic"]

_ROUNDING: Final = 32 * np.finfo(np.float64).eps


@dataclass(frozen=True, eq=False)
class PairKappas(ItemStatistic):
    """Mean over pairs of raters of Cohen's kappa; terms are the cells of the pairs' tables.

    Parameters
    ----------
    n_raters : int
    every : bool
        Whether one pair without a value leaves the mean undefined (Light's kappa).
    """

    n_raters: int
    every: bool

    needs: ClassVar[Literal["counts", "labels"]] = "labels"

    @property
    def n_pairs(self) -> int:
        """Pairs of raters."""
        return self.n_raters * (self.n_raters - 1) // 2

    def width(self, n_columns: int) -> int:
        return self.n_pairs * self.n_categories**2

    def n_labels(self, data: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return (data >= 0).sum(-1)

    def terms(self, counts: npt.NDArray[Any]) -> Float:
        first, second = np.triu_indices(self.n_raters, k=1)
        a, b = counts[..., first].astype(np.intp), counts[..., second].astype(np.intp)
        L = self.n_categories
        cell = np.where((a >= 0) & (b >= 0), a * L + b, -1)
        given = cell[..., None] == np.arange(L * L)
        return given.reshape((*given.shape[:-2], self.n_pairs * L * L)).astype(np.float64)

    def _kappas(self, sums: Float) -> tuple[Float, Evaluated]:
        tables = sums.reshape((*sums.shape[:-1], self.n_pairs, self.n_categories, self.n_categories))
        return tables, evaluate("kappa", tables, self._weights)

    @property
    def _weights(self) -> Float | None:
        return None if self.disagreement is None else 1.0 - self.disagreement

    def included(self, sums: Float) -> npt.NDArray[np.int64]:
        """Pairs of raters (...) with a defined kappa."""
        return np.asarray((self._kappas(sums)[1].reason == 0).sum(-1), dtype=np.int64)

    def value(self, sums: Float) -> tuple[Float, Codes]:
        _, kappas = self._kappas(sums)
        defined = kappas.reason == 0
        included = np.asarray(defined.sum(-1))
        few = included < self.n_pairs if self.every else included == 0
        reason = first_reason(
            (np.full(included.shape, self.n_pairs == 0), Reason.ONE_RATER),
            (included == 0, Reason.NO_RATER_PAIR),
            (few, Reason.UNDEFINED_PAIR),
        )
        total = np.where(defined, kappas.value, 0.0).sum(-1)
        value = np.full(included.shape, np.nan)
        np.divide(total, included, out=value, where=reason == 0)
        return value, reason

    def gradient(self, sums: Float) -> Float:
        tables, kappas = self._kappas(sums)
        slope = gradient("kappa", tables, self._weights)
        defined = kappas.reason == 0
        share = safe_divide(defined.astype(np.float64), defined.sum(-1, keepdims=True), defined)
        out = np.where(defined[..., None, None], slope, 0.0) * share[..., None, None]
        out = out.reshape(sums.shape)
        return np.where((self.value(sums)[1] == 0)[..., None], out, np.nan)


@dataclass(frozen=True, eq=False)
class Intraclass(ItemStatistic):
    """An intraclass correlation of complete items; terms are 1, the numbers, and their products.

    Parameters
    ----------
    n_raters : int
        k.
    form : str
        As in :func:`xjudge.statistics.raters.icc`.
    scores : ndarray of float64, shape (L,), or None
        The number each category stands for; ``None`` where the data are numbers, NaN where missing.
    center : float
        Taken off every number, so that squares do not drown what differs.
    """

    n_raters: int
    form: str
    scores: Float | None
    center: float

    needs: ClassVar[Literal["counts", "labels"]] = "labels"

    def width(self, n_columns: int) -> int:
        return 1 + self.n_raters + self.n_raters * (self.n_raters + 1) // 2

    def n_labels(self, data: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Labels of complete items, 0 for the others: those do not enter."""
        return np.where(self._given(data).all(-1), self.n_raters, 0)

    @staticmethod
    def _given(data: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        return ~np.isnan(data) if data.dtype.kind == "f" else data >= 0

    def terms(self, counts: npt.NDArray[Any]) -> Float:
        complete = self._given(counts).all(-1, keepdims=True)
        numbers = counts if self.scores is None else self.scores[np.maximum(counts, 0)]
        x = np.where(complete, numbers - self.center, 0.0)
        first, second = np.triu_indices(self.n_raters)
        return np.concatenate([complete, x, x[..., first] * x[..., second]], axis=-1, dtype=np.float64)

    def value(self, sums: Float) -> tuple[Float, Codes]:
        n, k = sums[..., 0], self.n_raters
        top, bottom, total = self._parts(sums)
        reason = first_reason(
            (np.full(n.shape, k < 2), Reason.ONE_RATER),
            (n < 2, Reason.FEW_COMPLETE_ITEMS),
            (total.value <= 0, Reason.NO_VARIATION),
            (bottom.value <= self._rounding(sums), Reason.NO_VARIANCE),
        )
        value = np.full(n.shape, np.nan)
        np.divide(top.value, bottom.value, out=value, where=reason == 0)
        return value, reason

    def _rounding(self, sums: Float) -> Float:
        """What rounding may leave of a denominator whose parts cancel."""
        n, k = sums[..., 0], self.n_raters
        rows, columns, total = (part.value for part in self._squares(sums))
        noise = safe_divide(k * total, n - 1, n > 1)
        between = safe_divide(rows, n - 1, n > 1)
        return _ROUNDING * (between + noise + safe_divide(k * columns + noise, n, n > 0))

    def gradient(self, sums: Float) -> Float:
        value, reason = self.value(sums)
        top, bottom, _ = self._parts(sums)
        defined = (reason == 0)[..., None]
        slope = top.by_sums - value[..., None] * bottom.by_sums
        out = safe_divide(slope, bottom.value[..., None], defined)
        return np.where(defined, out, np.nan)

    def _parts(self, sums: Float) -> tuple[_Slope, _Slope, _Slope]:
        """Numerator, denominator and total sum of squares, each with its gradient by the sums."""
        k = self.n_raters
        n = sums[..., 0]
        rows, columns, total = self._squares(sums)
        by_n = np.zeros(sums.shape)
        by_n[..., 0] = 1.0
        between = rows.over(n - 1, by_n)
        raters = columns.over(np.full_like(n, k - 1), 0 * by_n)
        error = total.plus(rows, -1).plus(columns, -1).without_rounding(sums, k)
        error = error.over((n - 1) * (k - 1), (k - 1) * by_n)
        within = total.plus(rows, -1).without_rounding(sums, k).over(n * (k - 1), (k - 1) * by_n)
        noise = within if self.form.startswith("1") else error
        single = self.form.endswith("1")
        bottom = between.plus(noise, k - 1) if single else between
        if self.form.startswith("A"):
            bottom = bottom.plus(raters.plus(error, -1).over(n, by_n), k if single else 1)
        return between.plus(noise, -1), bottom, total

    def _squares(self, sums: Float) -> tuple[_Slope, _Slope, _Slope]:
        """Sums of squares between items, between raters, and in all."""
        k = max(self.n_raters, 1)
        n, column, product = sums[..., 0], sums[..., 1 : 1 + self.n_raters], sums[..., 1 + self.n_raters :]
        first, second = np.triu_indices(self.n_raters)
        double = np.where(first == second, 1.0, 2.0)
        diagonal = (first == second).astype(np.float64)
        one = safe_divide(np.ones_like(n), n, n > 0)
        grand = column.sum(-1)
        common = grand * grand * one / k

        def slope(value: Float, by_n: Float, by_column: Float, by_product: Float) -> _Slope:
            out = np.empty(sums.shape)
            out[..., 0] = by_n + common * one
            out[..., 1 : 1 + self.n_raters] = by_column - (2 * grand * one / k)[..., None]
            out[..., 1 + self.n_raters :] = by_product
            return _Slope(value - common, out).without_rounding(sums, self.n_raters)

        none, of_columns = np.zeros_like(n), (column * column).sum(-1) * one
        return (
            slope(product @ double / k, none, 0 * column, double / k),
            slope(of_columns, -of_columns * one, 2 * column * one[..., None], 0 * double),
            slope(product @ diagonal, none, 0 * column, diagonal),
        )


class _Slope(NamedTuple):
    """A value (...) with its gradient (..., T)."""

    value: Float
    by_sums: Float

    def plus(self, other: _Slope, times: float) -> _Slope:
        return _Slope(self.value + times * other.value, self.by_sums + times * other.by_sums)

    def over(self, denominator: Float, by_sums: Float) -> _Slope:
        some = denominator > 0
        value = safe_divide(self.value, denominator, some)
        top = self.by_sums - value[..., None] * by_sums
        return _Slope(value, safe_divide(top, denominator[..., None], some[..., None]))

    def without_rounding(self, sums: Float, k: int) -> _Slope:
        """A sum of squares, 0 where it is no more than what rounding leaves of one."""
        first, second = np.triu_indices(k)
        largest = sums[..., 1 + k :][..., first == second].sum(-1)
        return self._replace(value=np.where(self.value > _ROUNDING * largest, self.value, 0.0))


def pair_statistic(
    name: str,
    n_categories: int,
    n_raters: int,
    weights: Weights = None,
    *,
    scores: npt.ArrayLike | None = None,
) -> ItemStatistic:
    """Return a mean of Cohen's kappas over pairs of raters as its two halves, terms and value.

    The same numbers as :func:`xjudge.statistics.raters.light_kappa` and
    :func:`xjudge.statistics.raters.mean_pairwise_kappa` of the pairs' tables, but with influences of items:
    for standard errors, resamples and clusters.

    Parameters
    ----------
    name : {"light_kappa", "mean_pairwise_kappa"}
    n_categories, n_raters : int
    weights : str or (L, L) array, optional
        Agreement weights, diagonal 1.
    scores : array-like of float, optional
        Numbers the categories stand for.

    Returns
    -------
    ItemStatistic
        Of label codes (..., item, rater), negative where missing.

    Raises
    ------
    ProtocolError
        Another name, weights that do not fit.

    Examples
    --------
    >>> from xjudge.statistics.raters import evaluate_raters
    >>> statistic = pair_statistic("light_kappa", 2, 3)
    >>> evaluate_raters(statistic, [[0, 0, 0], [1, 1, 1], [0, 1, 1], [1, 0, 1]]).value.round(4).item()
    0.3333
    """
    known = ("light_kappa", "mean_pairwise_kappa")
    if name not in known:
        raise ProtocolError(f"A mean over pairs of raters is one of {listing(known)}; got {name!r}.")
    plain = weights is None or (isinstance(weights, str) and weights == "identity")
    apart = None if plain else 1.0 - weight_matrix(weights, n_categories, scores)
    return PairKappas(n_categories, apart, n_raters, name == "light_kappa")


def icc_statistic(
    form: str, n_raters: int, scores: npt.ArrayLike | None = None, *, center: float = 0.0
) -> ItemStatistic:
    """Return an intraclass correlation as its two halves, terms and value.

    The same numbers as :func:`xjudge.statistics.raters.icc`, but with influences of items, and evaluated
    together for many resamples.

    Parameters
    ----------
    form : str
        As in :func:`xjudge.statistics.raters.icc`.
    n_raters : int
    scores : array-like of float, shape (L,), optional
        The number each category stands for: the data are then label codes. Without, they are numbers, NaN
        where missing.
    center : float
        A number among the scores, taken off them: where all are equal, nothing is left.

    Returns
    -------
    ItemStatistic
        Of label codes or numbers (..., item, rater); items without a label of every rater are left out.

    Raises
    ------
    ProtocolError
        An unknown form.

    Examples
    --------
    >>> from xjudge.statistics.raters import evaluate_raters
    >>> ratings = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]
    >>> statistic = icc_statistic("A,1", 4, center=5.0)
    >>> evaluate_raters(statistic, np.array(ratings, dtype=np.float64)).value.round(2).item()
    0.29
    """
    if form not in ICC_FORMS:
        raise ProtocolError(f"`form` must be one of {listing(ICC_FORMS, most=6)}; got {form!r}.")
    numbers = None if scores is None else np.asarray(scores, dtype=np.float64)
    return Intraclass(0 if numbers is None else len(numbers), None, n_raters, form, numbers, center)

"""Leave-one-out margins of other statistics: their influence functions and variance constants (LOO.md 2).

Everything is a function of two pooled ``L x L`` tables per comparison, the judge against the other humans
and the held-out human against them. The influence of an item depends on those tables, so labels are passed
over twice. The tolerance then lives on the scale of the statistic, where 0.05 is another tolerance.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError, Reason, VocabularyError
from xjudge.statistics._loo_counts import Counts, units_of
from xjudge.statistics._loo_design import DesignMargins, design_margins
from xjudge.statistics._loo_margin import LooMargins, finish_margins
from xjudge.statistics._loo_model import Patterns
from xjudge.statistics._loo_population import pattern_population
from xjudge.statistics._loo_votes import Decimal, Float, count_votes, read_decimal
from xjudge.statistics.coefficients import evaluate

__all__ = [
    "LOO_STATISTICS",
    "LooTables",
    "gamma_constant",
    "influence",
    "influence_moments",
    "loo_tables",
    "pattern_margins",
    "statistic_margins",
    "statistic_value",
]

Statistic = Literal["accuracy", "kappa", "alpha", "scott_pi", "gwet_ac1", "mcc", "neg_mae", "neg_rmse"]

LOO_STATISTICS = ("accuracy", "kappa", "alpha", "scott_pi", "gwet_ac1", "mcc", "neg_mae", "neg_rmse")
"""What :func:`statistic_margins` knows; the last two need the values of the categories."""


class LooTables(NamedTuple):
    """Pooled tables of each comparison; additive over items.

    Attributes
    ----------
    judge : ndarray of int64, shape (..., K, L, L)
        Rows the judge's label, columns the other humans'.
    human : ndarray of int64, shape (..., K, L, L)
        Rows the held-out human's label, columns the other humans'.
    n_items : ndarray of int64, shape (..., K)
    """

    judge: Counts
    human: Counts
    n_items: Counts


def statistic_value(
    table: npt.ArrayLike, statistic: str, scores: npt.ArrayLike | None = None
) -> tuple[Float, npt.NDArray[np.int8]]:
    """Value of the statistic on count tables, with the reason where it is undefined.

    Parameters
    ----------
    table : array-like, shape (..., L, L)
    statistic : str
        One of :data:`LOO_STATISTICS`. ``alpha`` is Krippendorff's with ``m`` units,
        ``pi + (1 - pi) / (2 m)``; ``neg_mae`` and ``neg_rmse`` are minus the mean absolute and the root mean
        squared difference of values, so that more is better.
    scores : array-like of float, shape (L,), optional
        Values of the categories; needed for the last two.

    Returns
    -------
    value : ndarray of float, shape (...)
    reason : ndarray of int8, shape (...)
    """
    counts = np.asarray(table, dtype=np.float64)
    _check_statistic(statistic, scores)
    if statistic in ("neg_mae", "neg_rmse"):
        total = counts.sum(axis=(-2, -1))
        distance = _distances(statistic, scores, counts.shape[-1])
        mean = np.divide(
            (counts * distance).sum(axis=(-2, -1)), total, out=np.full(total.shape, np.nan), where=total > 0
        )
        reason = np.where(total > 0, np.int8(Reason.OK), np.int8(Reason.NO_OVERLAP))
        return -(np.sqrt(mean) if statistic == "neg_rmse" else mean), reason
    value, reason = evaluate("scott_pi" if statistic == "alpha" else statistic, counts)
    if statistic == "alpha":
        total = counts.sum(axis=(-2, -1))
        value = value + (1 - value) / (2 * np.where(total > 0, total, 1.0))
    return value, reason


def influence(table: npt.ArrayLike, statistic: str, scores: npt.ArrayLike | None = None) -> Float:
    """Influence function ``phi(a, b)`` of the statistic at a table of counts or shares.

    Parameters
    ----------
    table : array-like, shape (..., L, L)
    statistic, scores
        As in :func:`statistic_value`.

    Returns
    -------
    ndarray of float, shape (..., L, L)
        Mean zero under the table; NaN where the statistic is undefined there. See :func:`gamma_constant`.

    Notes
    -----
    For ``F = (p_o - p_e) / (1 - p_e)``: ``{([a = b] - p_o)(1 - p_e) - (1 - p_o) e(a, b)} / (1 - p_e)^2`` with
    ``e`` the influence of ``p_e`` (LOO.md section 2).
    """
    counts = np.asarray(table, dtype=np.float64)
    _check_statistic(statistic, scores)
    total = counts.sum(axis=(-2, -1), keepdims=True)
    P = np.divide(counts, total, out=np.full(counts.shape, np.nan), where=total > 0)
    L = P.shape[-1]
    if statistic in ("neg_mae", "neg_rmse"):
        distance = _distances(statistic, scores, L)
        mean = (P * distance).sum(axis=(-2, -1), keepdims=True)
        if statistic == "neg_mae":
            return mean - distance
        return np.divide(mean - distance, 2 * np.sqrt(mean), out=np.zeros(P.shape), where=mean != 0)
    observed = np.trace(P, axis1=-2, axis2=-1)[..., None, None]
    agree = np.eye(L) - observed
    if statistic == "accuracy":
        return np.asarray(agree)
    rows, columns = P.sum(axis=-1)[..., :, None], P.sum(axis=-2)[..., None, :]
    if statistic == "mcc":
        return _influence_mcc(agree, observed, rows, columns)
    expected, change = _chance(statistic, rows, columns)
    rest = 1 - expected
    top = agree * rest - (1 - observed) * change
    return np.divide(top, rest**2, out=np.full(P.shape, np.nan), where=rest > 0)


def gamma_constant(table: npt.ArrayLike, statistic: str, scores: npt.ArrayLike | None = None) -> Float:
    """Variance constant: ``Var(F) = gamma / m + O(1 / m^2)`` for ``m`` independent paired items.

    Parameters
    ----------
    table, statistic, scores
        As in :func:`influence`.

    Returns
    -------
    ndarray of float, shape (...)

    Examples
    --------
    >>> round(float(gamma_constant([[0.3725, 0.1275], [0.1275, 0.3725]], "kappa")), 4)
    0.7599
    """
    counts = np.asarray(table, dtype=np.float64)
    total = counts.sum(axis=(-2, -1), keepdims=True)
    P = np.divide(counts, total, out=np.full(counts.shape, np.nan), where=total > 0)
    return np.asarray((P * influence(P, statistic, scores) ** 2).sum(axis=(-2, -1)))


def loo_tables(humans: npt.ArrayLike, judge: npt.ArrayLike, n_categories: int) -> LooTables:
    """Count the pooled tables of every comparison.

    Parameters
    ----------
    humans, judge : array-like of int
        As for :func:`xjudge.statistics.loo.loo_counts`.
    n_categories : int

    Returns
    -------
    LooTables
        With a leading judge axis where ``judge`` has one.

    Raises
    ------
    VocabularyError
        Where a label is beyond the categories.
    """
    units, verdicts = units_of(humans, judge)
    K, J, L = units.shape[-1], verdicts.shape[-1], n_categories
    _check_labels(units, verdicts, L)
    judges, people = np.zeros((J, K, L, L), np.int64), np.zeros((J, K, L, L), np.int64)
    n_items = np.zeros((J, K), np.int64)
    for j in range(J):
        verdict = verdicts[..., j]
        for k in range(K):
            met = np.zeros(verdict.shape, dtype=bool)
            for q in range(K):
                if q == k:
                    continue
                both = (units[..., k] >= 0) & (units[..., q] >= 0) & (verdict >= 0)
                other = units[..., q][both].astype(np.int64)
                for table, rows in ((judges, verdict), (people, units[..., k])):
                    places = rows[both].astype(np.int64) * L + other
                    table[j, k] += np.bincount(places, minlength=L * L).reshape(L, L)
                met |= both
            n_items[j, k] = np.count_nonzero(met.any(axis=1))
    tables = LooTables(judges, people, n_items)
    one = np.ndim(judge) == np.ndim(humans) - 1
    return LooTables(*(field[0] for field in tables)) if one else tables


def influence_moments(
    humans: npt.ArrayLike,
    judge: npt.ArrayLike,
    tables: LooTables,
    statistic: str,
    scores: npt.ArrayLike | None = None,
) -> Float:
    """Sums over items of products of influences, ``sum_i psi_ik psi_il`` before division by ``W_k W_l``.

    Parameters
    ----------
    humans, judge : array-like of int
        As for :func:`loo_tables`; a block of the items will do, the sums add.
    tables : LooTables
        Of all items.
    statistic, scores
        As in :func:`statistic_value`.

    Returns
    -------
    ndarray of float, shape (..., K, K)
    """
    units, verdicts = units_of(humans, judge)
    K, J = units.shape[-1], verdicts.shape[-1]
    _check_labels(units, verdicts, tables.judge.shape[-1])
    shape = (J, *tables.judge.shape[-3:])
    ours = influence(tables.judge, statistic, scores).reshape(shape)
    theirs = influence(tables.human, statistic, scores).reshape(shape)
    out = np.zeros((J, K, K))
    for j in range(J):
        verdict = verdicts[..., j]
        item = np.zeros((K, len(units)))
        for k in range(K):
            for q in range(K):
                if q == k:
                    continue
                both = (units[..., k] >= 0) & (units[..., q] >= 0) & (verdict >= 0)
                a, b, c = (np.where(both, x, 0) for x in (verdict, units[..., q], units[..., k]))
                gain = np.where(both, ours[j, k][a, b] - theirs[j, k][c, b], 0.0)
                item[k] += gain.sum(axis=1)
        out[j] = item @ item.T
    one = np.ndim(judge) == np.ndim(humans) - 1
    return out[0] if one else out


def statistic_margins(
    tables: LooTables,
    moments: Float,
    statistic: str,
    *,
    eps: Decimal = 0.05,
    threshold: Decimal = 0.5,
    strict: bool = False,
    scores: npt.ArrayLike | None = None,
) -> LooMargins:
    """Margins of a statistic from its tables and influence moments.

    Parameters
    ----------
    tables : LooTables
    moments : ndarray of float, shape (..., K, K)
        From :func:`influence_moments`.
    statistic, scores
        As in :func:`statistic_value`.
    eps : float
        On the scale of the statistic.
    threshold, strict
        As in :func:`xjudge.statistics.loo.loo_margins`.

    Returns
    -------
    LooMargins
        ``judge_agreement`` and ``human_agreement`` hold the statistic. Wins are decided in doubles, except
        for accuracy, which has integer counts.
    """
    judge, judge_reason = statistic_value(tables.judge, statistic, scores)
    human, human_reason = statistic_value(tables.human, statistic, scores)
    overlap = tables.judge.sum(axis=(-2, -1))
    tolerance = float(read_decimal(eps, "eps"))
    margin = judge - human + tolerance
    tie = margin == 0
    win = np.where(np.isfinite(margin), (margin >= 0).astype(np.float64), np.nan)
    scale = np.where(overlap > 0, overlap, 1).astype(np.float64)
    undefined = ~np.isfinite(margin)
    covariance = moments / (scale[..., :, None] * scale[..., None, :])
    covariance = np.where(undefined[..., :, None] | undefined[..., None, :], np.nan, covariance)
    votes = count_votes(win, threshold, strict=strict)
    done = finish_margins(margin, covariance, win, tie, judge, human, overlap, tables.n_items, votes)
    reason = np.where(judge_reason != Reason.OK, judge_reason, human_reason)
    reason = np.where(overlap > 0, reason, np.int8(Reason.NO_OVERLAP)).astype(np.int8)
    return done._replace(
        reason=reason, se_reason=np.where(reason != Reason.OK, reason, done.se_reason).astype(np.int8)
    )


def pattern_margins(
    patterns: Patterns,
    statistic: str,
    design: str,
    share: float,
    n_items: int,
    eps: Decimal,
    *,
    scores: npt.ArrayLike | None = None,
) -> DesignMargins:
    """Mean and covariance of the margins of a statistic in a design, from a joint distribution of labels.

    Parameters
    ----------
    patterns : Patterns
    statistic, scores
        As in :func:`statistic_value`; ``alpha`` without its small-sample term.
    design, share, n_items, eps
        As in :func:`xjudge.statistics.loo.design_margins`.

    Returns
    -------
    DesignMargins
    """
    codes, probability = patterns
    K, L = codes.shape[1] - 1, int(codes.max()) + 1
    further = np.arange(K) > 0
    degree = further[:, None].astype(int) + further
    weight = float(share) ** (degree if design == "random" else np.minimum(degree, 1))
    weight = np.where(np.eye(K, dtype=bool), 0.0, weight)
    name = "scott_pi" if statistic == "alpha" else statistic
    gains, mu = np.zeros((len(codes), K, K)), np.zeros(K)
    for k in range(K):
        tables = np.zeros((2, L, L))
        for q in range(K):
            for table, rows in zip(tables, (codes[:, K], codes[:, k]), strict=True):
                np.add.at(table, (rows, codes[:, q]), probability * weight[k, q])
        values, (ours, theirs) = statistic_value(tables, name, scores)[0], influence(tables, name, scores)
        mu[k] = values[0] - values[1] + float(read_decimal(eps, "eps"))
        gains[:, k] = ours[codes[:, [K]], codes[:, :K]] - theirs[codes[:, [k]], codes[:, :K]]
    population = pattern_population(patterns, design=design, gains=gains)
    found = design_margins(population, design, share, n_items, 0.0)
    return found._replace(mu=mu)


# ---------------------------------------------------------------------------------------------- private


def _check_statistic(statistic: str, scores: npt.ArrayLike | None) -> None:
    if statistic not in LOO_STATISTICS:
        names = ", ".join(repr(name) for name in LOO_STATISTICS)
        raise ProtocolError(f"`statistic` must be one of {names}; got {statistic!r}.")
    if statistic in ("neg_mae", "neg_rmse") and scores is None:
        raise ProtocolError(f"statistic={statistic!r} needs the values of the categories (`scores`).")


def _check_labels(units: npt.NDArray[np.integer], verdicts: npt.NDArray[np.integer], L: int) -> None:
    largest = max(int(units.max(initial=-1)), int(verdicts.max(initial=-1)))
    if largest >= L:
        raise VocabularyError(f"A label has code {largest}, but with {L} categories codes end at {L - 1}.")


def _distances(statistic: str, scores: npt.ArrayLike | None, L: int) -> Float:
    values = np.asarray(scores, dtype=np.float64)
    if values.shape != (L,) or not np.isfinite(values).all():
        raise ProtocolError(
            f"`scores` must be a finite value for each of the {L} categories; got {scores!r}."
        )
    distance = np.abs(values[:, None] - values)
    return distance**2 if statistic == "neg_rmse" else distance


def _chance(statistic: str, rows: Float, columns: Float) -> tuple[Float, Float]:
    """Expected agreement ``p_e`` and its influence ``e(a, b)``; rows (..., L, 1), columns (..., 1, L)."""
    L = rows.shape[-2]
    by_label = np.swapaxes(columns, -1, -2)
    if statistic == "kappa":
        expected = (rows * by_label).sum(axis=(-2, -1), keepdims=True)
        return expected, by_label + np.swapaxes(rows, -1, -2) - 2 * expected
    shared = (rows + by_label) / 2
    squares = (shared**2).sum(axis=(-2, -1), keepdims=True)
    change = shared + np.swapaxes(shared, -1, -2) - 2 * squares
    if statistic == "gwet_ac1":
        return (1 - squares) / max(L - 1, 1), -change / max(L - 1, 1)
    return squares, change


def _influence_mcc(agree: Float, observed: Float, rows: Float, columns: Float) -> Float:
    expected, change = _chance("kappa", rows, columns)
    X = 1 - (rows**2).sum(axis=(-2, -1), keepdims=True)
    Y = 1 - (columns**2).sum(axis=(-2, -1), keepdims=True)
    defined = (X > 0) & (Y > 0)
    X, Y = np.where(defined, X, 1.0), np.where(defined, Y, 1.0)
    root = np.sqrt(X * Y)
    value = (observed - expected) / root
    phi = (agree - change) / root + value * ((rows - (1 - X)) / X + (columns - (1 - Y)) / Y)
    return np.where(defined, phi, np.nan)

"""From margins to a verdict: one-sided tests joined by partial conjunction (LOO.md section 6)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from math import comb
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError, Reason
from xjudge.statistics._loo_gaussian import accept_probability, gaussian_root, normal_scores, principal_axes
from xjudge.statistics._loo_margin import LooMargins
from xjudge.statistics._loo_votes import Decimal, Float, read_decimal, votes_needed

__all__ = ["Combine", "LooVerdict", "loo_verdict", "max_t", "one_sided_p", "partial_conjunction"]

Combine = Literal["bonferroni", "max_t"]

# Below so many items a comparison is judged by t, not by the normal distribution (LOO.md section 6).
_SMALL_SAMPLE = 50

# Subsets tried one by one by the max-T version; beyond, it takes the bound over all comparisons.
_MOST_SUBSETS = 300


# Comparisons tested together from which max-T is used: with fewer it does not hold its level.
_FEWEST_MAX_T = 4


class LooVerdict(NamedTuple):
    """What the margins say about the judge; every shape (...).

    Attributes
    ----------
    verdict : ndarray of str
        ``"accept"``, ``"reject"`` or ``"inconclusive"``.
    p_value_accept, p_value_reject : ndarray of float
        Of the claims that the judge has enough true wins, and too few. NaN without any comparison that
        has a standard error.
    p_accept : ndarray of float
        Stability, not error: would a redraw of the items accept, were the estimates the truth?
    fr_at_margin, fa_at_margin : ndarray of float
        What this design does to a judge ``at_margin`` above the bar in every comparison (share rejected by
        the point rule) and below it (share accepted).
    """

    verdict: npt.NDArray[np.str_]
    p_value_accept: Float
    p_value_reject: Float
    p_accept: Float
    fr_at_margin: Float
    fa_at_margin: Float


def one_sided_p(margins: LooMargins, eps: Decimal) -> tuple[Float, Float]:
    """One-sided p-values of each comparison: for the judge being above the bar, and below it.

    Parameters
    ----------
    margins : LooMargins
    eps : float
        The tolerance in them.

    Returns
    -------
    p_above, p_below : ndarray of float, shape (..., K)
        NaN without a standard error (no overlap, one item). By t with ``items - 1`` degrees of freedom
        below 50 items, else normal.

    Notes
    -----
    Where no item varies, the t statistic is infinite and would say ``p = 0``. If the mean gain per pair is
    at most ``-eps`` and gains lie in [-1, 1], a share of at most ``(1 - eps) / (1 + delta)`` of the items
    can show the one value ``delta > -eps`` that all ``N`` items show; so the p-value is that to the power
    ``N``, and likewise below. Where the whole matrix is known, the sign is known: 0 or 1.
    """
    from scipy.special import ndtr, stdtr

    tolerance = float(read_decimal(eps, "eps"))
    delta, se = margins.margin - tolerance, margins.se
    varies = np.isfinite(se) & (se > 0)
    z = np.divide(margins.margin, se, out=np.full(se.shape, np.nan), where=varies)
    small = margins.n_items < _SMALL_SAMPLE
    df = np.maximum(margins.n_items - 1.0, 1.0)
    above, below = (np.where(small, stdtr(df, sign * z), ndtr(sign * z)) for sign in (-1, 1))
    known = (se == 0) & (margins.se_reason == Reason.OK)
    constant = (se == 0) & ~known
    for p, sign in ((above, 1.0), (below, -1.0)):
        ahead = sign * margins.margin > 0
        share = (1 - sign * tolerance) / np.where(ahead, 1 + sign * delta, 1.0)
        bound = np.where(ahead, np.clip(share, 0.0, 1.0) ** margins.n_items, 1.0)
        p[constant] = bound[constant]
        p[known] = np.where(ahead | ((sign > 0) & (margins.win > 0)), 0.0, 1.0)[known]
    return above, below


def partial_conjunction(p: npt.ArrayLike, needed: npt.ArrayLike) -> Any:
    """P-value of the claim that at least ``needed`` of the comparisons are true.

    Parameters
    ----------
    p : array-like of float, shape (..., K)
        One-sided p-values; NaN has no vote.
    needed : array-like of int, shape (...)

    Returns
    -------
    ndarray of float, shape (...)
        ``min(1, (n - needed + 1) p_(needed))`` with ``n`` the p-values that are defined; NaN with fewer
        than ``needed``.

    Notes
    -----
    Benjamini and Heller (2008), combined by Bonferroni: valid under any dependence.

    Examples
    --------
    >>> partial_conjunction([0.01, 0.02, 0.5, 0.9], 2)
    array(0.06)
    """
    values = np.sort(np.asarray(p, dtype=np.float64), axis=-1)
    c = np.asarray(needed, dtype=np.int64)
    n = np.count_nonzero(np.isfinite(values), axis=-1)
    place = np.clip(c - 1, 0, values.shape[-1] - 1)
    chosen = np.take_along_axis(values, place[..., None], axis=-1)[..., 0]
    return np.where((c >= 1) & (c <= n), np.minimum(1.0, (n - c + 1) * chosen), np.nan)


def max_t(
    z: npt.ArrayLike,
    covariance: npt.ArrayLike,
    needed: int,
    *,
    df: float = np.inf,
    log2_points: int = 12,
    seed: int = 0,
) -> float:
    """Partial-conjunction p-value that uses the correlation of the comparisons (max-T).

    Parameters
    ----------
    z : array-like of float, shape (K,)
        Studentised margins, large for the claim; finite.
    covariance : array-like of float, shape (K, K)
        Of the margins.
    needed : int
        In 1..K.
    df : float
        Degrees of freedom; infinite = normal.

    Returns
    -------
    float
        The largest, over sets of ``K - needed + 1`` comparisons, of ``P(max Z >= max z)``; never above the
        Bonferroni form.

    Notes
    -----
    Sets are tried one by one up to 300 of them; beyond, the probability that any of the ``K`` exceeds the
    ``needed``-th largest statistic bounds all of them.

    Examples
    --------
    >>> correlated = 0.9 + 0.1 * np.eye(3)
    >>> float(partial_conjunction([0.02, 0.03, 0.5], 2)), round(max_t([2.05, 1.88, 0.0], correlated, 2), 2)
    (0.06, 0.04)
    """
    from scipy.special import ndtr, stdtr

    statistic = np.asarray(z, dtype=np.float64)
    K = len(statistic)
    tail = float(np.sort(ndtr(-statistic) if np.isinf(df) else stdtr(df, -statistic))[needed - 1])
    bonferroni = min(1.0, (K - needed + 1) * tail)
    matrix = np.asarray(covariance, dtype=np.float64)
    sd = np.sqrt(np.diagonal(matrix))
    exceeds = _largest_exceeds(matrix / sd[:, None] / sd, df, log2_points, seed)
    size = K - needed + 1
    if comb(K, size) <= _MOST_SUBSETS:
        sets = (list(chosen) for chosen in combinations(range(K), size))
        largest = max(exceeds(some, float(statistic[some].max())) for some in sets)
    else:
        largest = exceeds(list(range(K)), float(np.sort(statistic)[K - needed]))
    # One comparison alone is a lower bound: so p is not zero where the points are too few to tell.
    return min(bonferroni, max(largest, tail))


def loo_verdict(
    margins: LooMargins,
    *,
    eps: Decimal = 0.05,
    threshold: Decimal = 0.5,
    strict: bool = False,
    level: float = 0.95,
    at_margin: float = 0.05,
    combine: Combine = "bonferroni",
    log2_points: int = 13,
) -> LooVerdict:
    """Accept, reject or neither, with the error rates that the point rule has in this design.

    Parameters
    ----------
    margins : LooMargins
    eps, threshold, strict
        As they were for the margins.
    level : float
        In (0, 1); a verdict needs a p-value of at most ``1 - level``.
    at_margin : float
        How far above and below the bar the error rates are evaluated.
    combine : {"bonferroni", "max_t"}
        How the p-values of the comparisons are joined; ``"max_t"`` uses their correlation, for power, where
        at least four of them have to be tested together. With fewer it would falsely accept up to 5.4 % at
        a level of 95 %, and gain little: Bonferroni is used.
    log2_points : int
        Of the Gaussian probabilities.

    Returns
    -------
    LooVerdict

    Notes
    -----
    Accept needs ``(n - c + 1) p_(c) <= alpha`` and reject ``c p'_(n - c + 1) <= alpha`` with ``c`` the wins
    needed of ``n`` available: the only one of the usual rules that keeps its level (LOO.md section 6). See
    :func:`loo_validate` for an example.

    Raises
    ------
    ProtocolError
        For a level outside (0, 1), a negative ``at_margin`` or an unknown option.
    """
    if not 0 < level < 1 or not at_margin >= 0:
        raise ProtocolError(
            f"`level` must lie in (0, 1) and `at_margin` be >= 0; got {level!r}, {at_margin!r}."
        )
    if combine not in ("bonferroni", "max_t"):
        raise ProtocolError(f"`combine` must be 'bonferroni' or 'max_t'; got {combine!r}.")
    above, below = one_sided_p(margins, eps)
    n = np.count_nonzero(np.isfinite(above), axis=-1)
    needed = votes_needed(n, threshold, strict=strict)
    accept = partial_conjunction(above, needed)
    reject = partial_conjunction(below, n - needed + 1)
    if combine == "max_t":
        accept, reject = _max_t_pair(margins, needed, accept, reject)
    alpha = 1 - level
    verdict = np.where(accept <= alpha, "accept", np.where(reject <= alpha, "reject", "inconclusive"))
    known = np.where(np.isfinite(margins.se), margins.margin, np.nan)
    shifted = [np.where(np.isfinite(known), shift, np.nan) for shift in (at_margin, -at_margin)]
    stable, good, bad = (
        accept_probability(mu, margins.covariance, needed, log2_points=log2_points)
        for mu in (known, *shifted)
    )
    return LooVerdict(verdict, accept, reject, stable, 1 - good, bad)


# ---------------------------------------------------------------------------------------------- private


def _largest_exceeds(
    correlation: Float, df: float, log2_points: int, seed: int
) -> Callable[[list[int], float], float]:
    """Probability that the largest of some statistics is at least a bar, as a function of both."""
    from scipy.special import ndtr

    K = len(correlation)
    axes = principal_axes(correlation)
    scores = normal_scores(K + 1, log2_points if axes else log2_points + 3, seed)
    scale = np.sqrt(_chi_square(scores[K], df) / df) if np.isfinite(df) else np.ones(scores.shape[1])
    if axes is None:
        draws = gaussian_root(correlation) @ scores[:K] / scale
        return lambda some, bar: float(np.mean(draws[some].max(axis=0) >= bar))
    first, rest = axes[0][:, None], axes[1] @ scores[: K - 1]
    # Given the other axes, the first has to reach the lowest of the cuts.
    return lambda some, bar: float(np.mean(ndtr(-((bar * scale - rest[some]) / first[some]).min(axis=0))))


def _chi_square(scores: Float, df: float) -> Float:
    from scipy.special import gammaincinv, ndtr

    return np.asarray(2.0 * gammaincinv(df / 2.0, ndtr(scores)), dtype=np.float64)


def _max_t_pair(
    margins: LooMargins, needed: npt.NDArray[np.int64], accept: Float, reject: Float
) -> tuple[Float, Float]:
    """Replace Bonferroni by max-T where every comparison used has a positive standard error."""
    accept, reject = np.array(accept), np.array(reject)
    for place in np.ndindex(*accept.shape):
        se = margins.se[place]
        used = np.isfinite(se)
        if not used.any() or (se[used] == 0).any():
            continue
        n_items = int(margins.n_items[place][used].min())
        df = n_items - 1.0 if n_items < _SMALL_SAMPLE else np.inf
        covariance = margins.covariance[place][np.ix_(used, used)]
        z = margins.margin[place][used] / se[used]
        c, n = int(needed[place]), int(used.sum())
        if n - c + 1 >= _FEWEST_MAX_T:
            accept[place] = max_t(z, covariance, c, df=df)
        if c >= _FEWEST_MAX_T:
            reject[place] = max_t(-z, covariance, n - c + 1, df=df)
    return accept, reject

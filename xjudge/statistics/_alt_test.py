"""The alternative-annotator test (Calderon, Reichart and Dror, ACL 2025): may a judge replace a human.

For held-out human ``k`` and an item it labelled with others, judge and human are scored against those
others. The judge has the advantage where it scores at least as well, and so may the human: a tie counts for
both. The judge wins against ``k`` where a one-sided t test finds the human's advantage less than ``eps``
above the judge's, after Benjamini and Yekutieli; it passes with at least half of the wins.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError, Reason, StructureError
from xjudge.statistics._loo_counts import units_of
from xjudge.statistics._loo_votes import Decimal, Float, read_decimal

__all__ = ["AltTest", "advantage_counts", "alt_test", "alt_test_counts", "alt_test_scores", "step_up"]

Counts = npt.NDArray[np.int64]
Score = Literal["accuracy", "neg_rmse"]


class AltTest(NamedTuple):
    """Result of the test; ``...`` is ``(judge,)``, or nothing for one judge.

    Attributes
    ----------
    advantage_judge, advantage_human : ndarray of float, shape (..., K)
        Shares of the items on which each scores at least as well as the other, in [0, 1].
    difference : ndarray of float, shape (..., K)
        Mean of the human's indicator minus the judge's.
    p_value : ndarray of float, shape (..., K)
        Of ``difference >= eps``; NaN where it cannot be tested.
    significant : ndarray of float, shape (..., K)
        1, 0, or NaN where it could not be tested (no vote).
    n_items : ndarray of int64, shape (..., K)
    reason : ndarray of int8, shape (..., K)
        Why a p-value is NaN (:class:`xjudge.errors.Reason`).
    advantage_probability : ndarray of float, shape (...)
        Mean of ``advantage_judge`` over humans with enough items (the paper's rho).
    omega : ndarray of float, shape (...)
        Winning rate over humans that could be tested.
    n_tested : ndarray of int64, shape (...)
    passes : ndarray of float, shape (...)
        1 where ``omega >= 0.5``, else 0; NaN where nobody could be tested.
    passes_reason : ndarray of int8, shape (...)
    """

    advantage_judge: Float
    advantage_human: Float
    difference: Float
    p_value: Float
    significant: Float
    n_items: Counts
    reason: npt.NDArray[np.int8]
    advantage_probability: Float
    omega: Float
    n_tested: Counts
    passes: Float
    passes_reason: npt.NDArray[np.int8]


def alt_test(
    humans: npt.ArrayLike,
    judge: npt.ArrayLike,
    *,
    eps: Decimal = 0.1,
    q: float = 0.05,
    score: Score = "accuracy",
    scores: npt.ArrayLike | None = None,
    min_items: int = 30,
    min_humans: int = 2,
) -> AltTest:
    """Run the test on labels.

    Parameters
    ----------
    humans : array-like of int, shape (n, K) or (n, C, K)
        Negative = not answered. Every (item, criterion) is an item of the test.
    judge : array-like of int, shape (n,) or (n, J); with criteria (n, C) or (n, C, J)
    eps : float
        How much less often than the human the judge may be ahead: the price of a human.
    q : float
        False discovery rate, in (0, 1).
    score : {"accuracy", "neg_rmse"}
        Share of the others agreed with, or minus the root mean squared difference from them.
    scores : array-like of float, shape (L,), optional
        Values of the categories, for ``"neg_rmse"``; default the codes themselves.
    min_items, min_humans : int
        A human is tested on at least so many items; an item counts with at least so many humans, and never
        with fewer than two.

    Returns
    -------
    AltTest

    Raises
    ------
    ProtocolError
        For options out of range.

    Notes
    -----
    Scores against the same others are compared by their sums, in integers for ``"accuracy"``. Cost
    ``K^2 n`` comparisons.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.integers(0, 2, 200)
    >>> noisy = lambda p: np.where(rng.random(200) < p, truth, 1 - truth)
    >>> found = alt_test(np.stack([noisy(0.8) for _ in range(3)], axis=1), noisy(0.95))
    >>> found.omega, found.passes
    (array(1.), array(1.))
    """
    counts, n_items = advantage_counts(humans, judge, score=score, scores=scores, min_humans=min_humans)
    return alt_test_counts(counts, n_items, eps=eps, q=q, min_items=min_items)


def alt_test_scores(
    judge_score: npt.ArrayLike,
    human_score: npt.ArrayLike,
    *,
    eps: Decimal = 0.1,
    q: float = 0.05,
    min_items: int = 30,
) -> AltTest:
    """Run the test on scores of one's own.

    Parameters
    ----------
    judge_score, human_score : array-like of float, shape (n, K)
        Score of the judge, and of human ``k``, on item ``i`` against the other humans; higher is better,
        NaN where the human did not label the item.
    eps, q, min_items
        As in :func:`alt_test`.

    Returns
    -------
    AltTest

    Raises
    ------
    StructureError
        Where the shapes differ.
    """
    ours, theirs = np.asarray(judge_score, dtype=np.float64), np.asarray(human_score, dtype=np.float64)
    if ours.ndim != 2 or ours.shape != theirs.shape:
        raise StructureError(
            f"`judge_score` and `human_score` must both be (item, human); "
            f"got shapes {ours.shape} and {theirs.shape}."
        )
    used = np.isfinite(ours) & np.isfinite(theirs)
    counts = np.stack([((ours > theirs) & used).sum(axis=0), ((ours < theirs) & used).sum(axis=0)], axis=-1)
    return alt_test_counts(counts.astype(np.int64), used.sum(axis=0), eps=eps, q=q, min_items=min_items)


def advantage_counts(
    humans: npt.ArrayLike,
    judge: npt.ArrayLike,
    *,
    score: Score = "accuracy",
    scores: npt.ArrayLike | None = None,
    min_humans: int = 2,
) -> tuple[Counts, Counts]:
    """Count on how many items the judge, and the human, scores strictly better; additive over items.

    Parameters
    ----------
    humans, judge, score, scores, min_humans
        As in :func:`alt_test`.

    Returns
    -------
    ahead : ndarray of int64, shape (..., K, 2)
        Items on which the judge is ahead of human ``k``, and behind; the rest are ties.
    n_items : ndarray of int64, shape (..., K)
    """
    if score not in ("accuracy", "neg_rmse"):
        raise ProtocolError(
            f"`score` must be 'accuracy' or 'neg_rmse'; got {score!r}. For a score of one's own "
            f"compute it per item and human and use `alt_test_scores`."
        )
    units, verdicts = units_of(humans, judge)
    K, J = units.shape[-1], verdicts.shape[-1]
    labels = np.ascontiguousarray(units.reshape(-1, K).T)
    answers = np.ascontiguousarray(verdicts.reshape(-1, J).T)
    answered = labels >= 0
    n_humans = answered.sum(axis=0, dtype=np.int16)
    enough = answered & (n_humans >= max(2, min_humans))
    out, n_items = np.zeros((J, K, 2), np.int64), np.zeros((J, K), np.int64)
    if score == "accuracy":
        same = np.zeros(labels.shape, np.int16)
        for k in range(K):
            for p in range(k):
                equal = (labels[k] == labels[p]) & answered[k]
                same[k] += equal
                same[p] += equal
    else:
        values = _values(labels, answered, scores)
    for j in range(J):
        judged = enough & (answers[j] >= 0)
        if score == "accuracy":
            agreed = (labels == answers[j]) & answered
            ours: npt.NDArray[np.number] = agreed.sum(axis=0, dtype=np.int16) - agreed
            theirs: npt.NDArray[np.number] = same
        else:
            own = _values(np.maximum(answers[j], 0)[None], (answers[j] >= 0)[None], scores)[0]
            theirs, ours = _closeness(values, own, answered)
        out[j, :, 0] = np.count_nonzero((ours > theirs) & judged, axis=1)
        out[j, :, 1] = np.count_nonzero((ours < theirs) & judged, axis=1)
        n_items[j] = np.count_nonzero(judged, axis=1)
    one = np.ndim(judge) == np.ndim(humans) - 1
    return (out[0], n_items[0]) if one else (out, n_items)


def alt_test_counts(
    ahead: npt.ArrayLike, n_items: npt.ArrayLike, *, eps: Decimal = 0.1, q: float = 0.05, min_items: int = 30
) -> AltTest:
    """Finish the test from the counts of :func:`advantage_counts`.

    Parameters
    ----------
    ahead : array-like of int, shape (..., K, 2)
    n_items : array-like of int, shape (..., K)
    eps, q, min_items
        As in :func:`alt_test`.

    Returns
    -------
    AltTest

    Notes
    -----
    The difference of indicators is 1, 0 or -1, so its mean and variance follow from the counts:
    ``t = (d - eps) / (s / sqrt(n))`` with ``s`` the standard deviation with ``n - 1``. Where it never varies
    there is no t test: NaN, reason ``no variance between items``, no vote.
    """
    from scipy.special import stdtr

    tolerance = float(read_decimal(eps, "eps"))
    if not 0 < q < 1 or min_items < 0:
        raise ProtocolError(
            f"`q` must lie in (0, 1) and `min_items` be at least 0; got {q!r} and {min_items!r}."
        )
    wins, n = np.asarray(ahead, dtype=np.float64), np.asarray(n_items, dtype=np.int64)
    better, worse = wins[..., 0], wins[..., 1]
    size = np.where(n > 0, n, 1).astype(np.float64)
    some = n > 0
    judge_share, human_share, difference = (
        np.where(some, x / size, np.nan) for x in (n - worse, n - better, worse - better)
    )
    # n times the sum of squares about the mean, exact in integers: zero only where nothing varies.
    spread = n * (better + worse) - (worse - better) ** 2
    reason = np.full(n.shape, Reason.OK, dtype=np.int8)
    reason[spread <= 0] = Reason.NO_VARIANCE
    reason[n == 1] = Reason.ONE_ITEM
    reason[n < min_items] = Reason.BELOW_MIN_ITEMS
    reason[n == 0] = Reason.NO_OVERLAP
    tested = reason == Reason.OK
    sd = np.sqrt(np.where(tested, spread, 1.0) / (size * np.maximum(size - 1, 1)))
    t = (difference - tolerance) / (sd / np.sqrt(size))
    p = np.where(tested, stdtr(np.maximum(size - 1, 1), np.where(tested, t, 0.0)), np.nan)
    significant = step_up(p, q)
    n_tested = np.count_nonzero(tested, axis=-1).astype(np.int64)
    enough = some & (n >= min_items)
    none = np.full(n_tested.shape, np.nan)
    won = np.nansum(significant, axis=-1)
    omega = np.divide(won, n_tested, out=none.copy(), where=n_tested > 0)
    shares = np.where(enough, judge_share, 0.0).sum(axis=-1)
    n_enough = np.count_nonzero(enough, axis=-1)
    advantage = np.divide(shares, n_enough, out=none.copy(), where=n_enough > 0)
    passes = np.where(n_tested > 0, (2 * won >= n_tested).astype(np.float64), np.nan)
    return AltTest(
        judge_share,
        human_share,
        difference,
        p,
        significant,
        n,
        reason,
        advantage,
        omega,
        n_tested,
        passes,
        _passes_reason(reason, n_tested),
    )


def step_up(p: npt.ArrayLike, q: float = 0.05) -> Float:
    """Benjamini-Yekutieli step-up: which p-values are significant at false discovery rate ``q``.

    Parameters
    ----------
    p : array-like of float, shape (..., K)
        NaN is not among the tests.
    q : float

    Returns
    -------
    ndarray of float, shape (..., K)
        1 or 0; NaN where ``p`` is.

    Notes
    -----
    With ``n`` tests, the largest ``i`` with ``p_(i) <= i q / (n H_n)``, ``H_n = 1 + 1/2 + ... + 1/n``.

    Examples
    --------
    >>> step_up([0.001, 0.02, 0.9, float("nan")])
    array([ 1.,  0.,  0., nan])
    """
    values = np.asarray(p, dtype=np.float64)
    K = values.shape[-1]
    order = np.argsort(values, axis=-1, kind="stable")
    ranked = np.take_along_axis(values, order, axis=-1)
    n = np.count_nonzero(np.isfinite(values), axis=-1)
    harmonic = np.concatenate([[1.0], np.cumsum(1 / np.arange(1, K + 1))])[n]
    steps = np.arange(1, K + 1)
    level = steps * q / (np.maximum(n, 1) * harmonic)[..., None]
    below = np.where(np.isfinite(ranked), ranked, np.inf) <= level
    last = np.max(np.where(below, steps, 0), axis=-1, initial=0)
    out = np.empty(values.shape)
    np.put_along_axis(out, order, (steps <= last[..., None]).astype(np.float64), axis=-1)
    return np.where(np.isfinite(values), out, np.nan)


# ---------------------------------------------------------------------------------------------- private


def _passes_reason(reason: npt.NDArray[np.int8], n_tested: Counts) -> npt.NDArray[np.int8]:
    """The common reason where nobody could be tested, if there is one."""
    first = (
        reason[..., :1] if reason.shape[-1] else np.full((*reason.shape[:-1], 1), Reason.NO_OVERLAP, np.int8)
    )
    alike = (reason == first).all(axis=-1)
    why = np.where(alike, first[..., 0], np.int8(Reason.NOTHING_TO_COMPARE))
    return np.where(n_tested > 0, np.int8(Reason.OK), why).astype(np.int8)


def _values(
    labels: npt.NDArray[np.integer], answered: npt.NDArray[np.bool_], scores: npt.ArrayLike | None
) -> Float:
    codes = np.where(answered, labels, 0)
    if scores is None:
        return codes.astype(np.float64)
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1 or not np.isfinite(values).all() or int(codes.max(initial=0)) >= max(len(values), 1):
        raise ProtocolError(
            f"`scores` must be a finite value for every category; got {scores!r} and a label of code "
            f"{int(codes.max(initial=0))}."
        )
    return values[codes] if len(values) else codes.astype(np.float64)


def _closeness(values: Float, judge: Float, answered: npt.NDArray[np.bool_]) -> tuple[Float, Float]:
    """Minus the sums of squared differences from the other humans: of each human, and of the judge."""
    own = np.where(answered, values, 0.0)
    n, first, second = answered.sum(axis=0), own.sum(axis=0), (own**2).sum(axis=0)
    others, rest, squares = n - answered, first - own, second - own**2
    theirs = -(others * values**2 - 2 * values * rest + squares)
    ours = -(others * judge**2 - 2 * judge * rest + squares)
    return theirs, ours

"""Ranking judges from sparse labels: will the best judge still look best? (LOO.md section 7)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError
from xjudge.statistics._loo_counts import loo_counts, panel_of
from xjudge.statistics._loo_design import check_design, pair_degrees
from xjudge.statistics._loo_gaussian import gaussian_draws
from xjudge.statistics._loo_margin import ratio
from xjudge.statistics._loo_mask import Mask, masked_counts
from xjudge.statistics._loo_votes import Decimal, Float, count_votes, exact_wins

__all__ = ["TopJudge", "judge_scores", "score_covariance", "wrong_top_probability"]


# Influences of pairs held at a time.
_BLOCK = 1 << 22


class TopJudge(NamedTuple):
    """How reliable the first place is.

    Attributes
    ----------
    probability : float
        That the judge with the best score on the masked matrix is not the best on the full one; NaN where
        no judge has a score there.
    se : float
        Monte Carlo standard error; NaN where nothing was simulated.
    p_best : ndarray of float, shape (J,)
        How often each judge comes first.
    score : ndarray of float, shape (J,)
        On the full matrix.
    method : str
    top : int
        The best judge of the full matrix.
    """

    probability: float
    se: float
    p_best: Float
    score: Float
    method: str
    top: int


def judge_scores(judge_hits: npt.ArrayLike, overlap: npt.ArrayLike) -> Float:
    """Score of a judge: its leave-one-out agreement, averaged over the held-out humans.

    Parameters
    ----------
    judge_hits, overlap : array-like of int, shape (..., K)
        Pooled counts of each comparison.

    Returns
    -------
    ndarray of float, shape (...)
        In [0, 1]; NaN without any overlap.

    Examples
    --------
    >>> judge_scores([[8, 3], [0, 0]], [[10, 4], [0, 0]])
    array([0.775,   nan])
    """
    shares = ratio(judge_hits, overlap)
    known = np.isfinite(shares)
    return ratio(np.where(known, shares, 0.0).sum(axis=-1), known.sum(axis=-1))


def score_covariance(
    humans: npt.ArrayLike, judges: npt.ArrayLike, design: str, share: float
) -> tuple[Float, Float]:
    """Mean and covariance of the scores of all judges when a given matrix is masked.

    Parameters
    ----------
    humans : array-like of int, shape (n, K) or (n, C, K)
        Negative = not answered; the first human keeps every label. With criteria, those of an item are
        masked together and pairs are pooled over them.
    judges : array-like of int, shape (n, J) or (n, C, J)
    design : {"random", "shared"}
    share : float
        In (0, 1].

    Returns
    -------
    mu : ndarray of float, shape (J,)
    covariance : ndarray of float, shape (J, J)

    Notes
    -----
    Design-based: ``sum (pi_kqlr - pi_kq pi_lr) X_kq X_lr`` over pairs of pairs of every item, with
    ``X_kq = d_kq ([judge = q] - S_k)``, for each pair of judges. Cost ``n (J K^2)^2``, in blocks of items.
    """
    check_design(design, ("random", "shared"))
    labels, verdicts = panel_of(humans, judges)
    (n, C, K), J = labels.shape, verdicts.shape[2]
    off = ~np.eye(K, dtype=bool)
    own, joint = pair_degrees(K, design)
    weight = share**own
    excess = np.where(off[:, :, None, None] & off, share**joint - weight[:, :, None, None] * weight, 0.0)
    full = loo_counts(labels, verdicts)
    total = (weight * full.overlap).sum(axis=-1)
    score = ratio((weight * full.judge_hits).sum(axis=-1), total)
    known = np.isfinite(score)
    n_known = known.sum(axis=-1)
    mu = ratio(np.where(known, score, 0.0).sum(axis=-1), n_known)
    scale = np.nan_to_num(ratio(1.0, total)) / np.maximum(n_known, 1)[:, None]
    products = np.zeros((J * K * K, J * K * K))
    block = max(1, _BLOCK // (J * K * K))
    for start in range(0, n, block):
        flat: Any = 0.0
        for c in range(C):
            some, judged = labels[start : start + block, c], verdicts[start : start + block, c]
            both = (some[:, :, None] >= 0) & (some[:, None, :] >= 0) & off
            pairs = both[:, None] & (judged >= 0)[:, :, None, None]
            agreed = pairs & (some[:, None] == judged[:, :, None])[:, :, None, :]
            influence = (agreed - np.nan_to_num(score)[..., None] * pairs) * scale[..., None]
            flat = flat + influence.reshape(len(some), J * K * K)
        products += flat.T @ flat
    covariance = np.einsum("akqblr,kqlr->ab", products.reshape(J, K, K, J, K, K), excess)
    return mu, covariance * (n / max(n - 1, 1) if design == "shared" else 1.0)


def wrong_top_probability(
    humans: npt.ArrayLike,
    judges: npt.ArrayLike,
    share: float,
    *,
    design: str = "random",
    method: str = "gaussian",
    by: str = "score",
    eps: Decimal = 0.05,
    mask: Mask = "bernoulli",
    n_trials: int = 2000,
    seed: int = 0,
) -> TopJudge:
    """Probability that the top judge of a masked matrix is not the top judge of the full one.

    Parameters
    ----------
    humans : array-like of int, shape (n, K) or (n, C, K)
        With criteria, those of an item are masked together and pairs are pooled over them.
    judges : array-like of int, shape (n, J) or (n, C, J)
        At least two.
    share : float
        In (0, 1]: share of the items that every further human keeps.
    design : {"random", "shared", "strat"}
        ``"strat"`` can only be simulated.
    method : {"gaussian", "monte_carlo"}
    by : {"score", "omega"}
        Rank by :func:`judge_scores`, or by the share of comparisons won with tolerance ``eps`` and then by
        score; the latter can only be simulated.
    eps : float
    mask : {"bernoulli", "exact"}
    n_trials, seed : int
        Of the simulation.

    Returns
    -------
    TopJudge

    Raises
    ------
    ProtocolError
        With fewer than two judges, or an option that does not exist.

    Notes
    -----
    Of equal judges the first is the top. The Gaussian centres on the expected masked scores and is within
    about 0.07 of simulation.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> humans, judges = rng.integers(0, 2, (300, 3)), rng.integers(0, 2, (300, 2))
    >>> judges[:, 0] = humans[:, 1]
    >>> wrong_top_probability(humans, judges, 0.5).probability < 0.01
    True
    """
    labels, verdicts = panel_of(humans, judges)
    if verdicts.shape[2] < 2:
        raise ProtocolError("A ranking needs two or more judges.")
    if method not in ("gaussian", "monte_carlo") or by not in ("score", "omega") or not 0 < share <= 1:
        raise ProtocolError(
            f"`method` must be 'gaussian' or 'monte_carlo', `by` 'score' or 'omega' and `share` in (0, 1]; "
            f"got {method!r}, {by!r} and {share!r}."
        )
    if method == "gaussian" and by == "omega":
        raise ProtocolError("Ranking by omega has no Gaussian form: use method='monte_carlo'.")
    full = loo_counts(labels, verdicts)
    hits, same, pairs = (counts.sum(axis=-1) for counts in full[:3])
    score = judge_scores(hits, pairs)
    top = _best(hits, same, pairs, by, eps)
    if method == "gaussian":
        mu, covariance = score_covariance(labels, verdicts, design, share)
        draws = gaussian_draws(mu, covariance, log2_points=14, seed=seed)
        best = np.argmax(np.nan_to_num(draws, nan=-np.inf), axis=0)
    else:
        counts = masked_counts(labels, verdicts, design, share, n_trials, mask=mask, seed=seed)
        best = _best(*counts, by, eps)
    p_best = np.bincount(best, minlength=verdicts.shape[2]) / len(best)
    wrong = float(1 - p_best[int(top)]) if np.isfinite(score).any() else float("nan")
    se = float(np.sqrt(wrong * (1 - wrong) / n_trials)) if method == "monte_carlo" else float("nan")
    return TopJudge(wrong, se, p_best, score, method, int(top))


# ---------------------------------------------------------------------------------------------- private


def _best(
    hits: npt.NDArray[np.int64],
    same: npt.NDArray[np.int64],
    pairs: npt.NDArray[np.int64],
    by: str,
    eps: Decimal,
) -> npt.NDArray[np.intp]:
    """First judge of the highest value; judges without overlap come last."""
    value = np.nan_to_num(judge_scores(hits, pairs), nan=-1.0)
    if by == "omega":
        omega = count_votes(exact_wins(hits - same, pairs, eps)[0]).omega
        # Shares of at most K comparisons differ by more than any score, once scaled by K squared and more.
        value = np.nan_to_num(omega, nan=-1.0) * (4.0 * pairs.shape[-1] ** 2) + value
    return np.asarray(np.argmax(value, axis=-1))

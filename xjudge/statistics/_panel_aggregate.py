"""From the answers of a panel to one answer: votes, label frequencies, weights, and their scores."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.codes import to_codes
from xjudge.errors import ProtocolError, StructureError, VocabularyError
from xjudge.statistics._panel_inputs import Codes, Floats, known_rows
from xjudge.statistics._panel_size import square_matrix

__all__ = [
    "AggregateScore",
    "MajorityVote",
    "MinimumErrorWeights",
    "majority_vote",
    "minimum_error_weights",
    "score_aggregate",
    "soft_distribution",
]


class MajorityVote(NamedTuple):
    """Label of each item (-1: no answer), and how many items had tied modes."""

    label: npt.NDArray[np.int64]
    n_ties: int


def checked_codes(judges: npt.ArrayLike, n_categories: int) -> Codes:
    """Return codes (n, k) inside the categories."""
    codes = to_codes(np.asarray(judges))
    if codes.ndim != 2:
        raise StructureError(f"An aggregate is of one panel (item, judge); got shape {codes.shape}.")
    if codes.size and codes.max() >= n_categories:
        raise VocabularyError(f"A judge's code {codes.max()} is outside the {n_categories} categories.")
    return codes


def soft_distribution(
    judges: npt.ArrayLike, n_categories: int, weights: npt.ArrayLike | None = None
) -> Floats:
    """Label frequencies of the panel on each item.

    Parameters
    ----------
    judges : array-like of int (n, k)
        Category codes; negative codes have no vote.
    n_categories : int
    weights : array-like (k,), optional
        Weights of the judges, default equal; renormalised over the judges that answered. Negative weights
        may give frequencies outside [0, 1].

    Returns
    -------
    ndarray (n, n_categories)
        Rows sum to 1; NaN where nobody answered or the answering weights sum to zero.

    Examples
    --------
    >>> soft_distribution([[0, 0, 1, 1], [1, -1, 1, 1]], 2)
    array([[0.5, 0.5],
           [0. , 1. ]])
    """
    codes = checked_codes(judges, n_categories)
    share = np.ones(codes.shape[1]) if weights is None else np.asarray(weights, dtype=np.float64)
    if share.shape != codes.shape[1:]:
        raise StructureError(f"weights has shape {share.shape}; the panel has {codes.shape[1]} judges.")
    votes = np.stack([((codes == label) * share).sum(1) for label in range(n_categories)], axis=1)
    total = ((codes >= 0) * share).sum(1)[:, None]
    return np.divide(votes, total, out=np.full(votes.shape, np.nan), where=np.abs(total) > 1e-12)


def majority_vote(
    judges: npt.ArrayLike,
    n_categories: int,
    *,
    ties: str = "first",
    keys: Sequence[object] | npt.ArrayLike | None = None,
    seed: int | None = 0,
) -> MajorityVote:
    """Most frequent label of each item under a stated rule for ties.

    Parameters
    ----------
    judges : array-like of int (n, k)
        Category codes; negative codes have no vote.
    n_categories : int
    ties : {"first", "uniform", "hash"}
        The first tied category; a uniformly random one; or one picked by a hash of the item's key and its
        complete answers, the same wherever and whenever it is computed.
    keys : sequence (n,), optional
        Item keys for ``"hash"``, read as text; without them items with the same answers share their pick.
    seed : int or None
        For ``"uniform"``.

    Returns
    -------
    MajorityVote

    Examples
    --------
    >>> majority_vote([[0, 1], [2, 2]], 3)
    MajorityVote(label=array([0, 2]), n_ties=1)
    """
    if ties not in ("first", "uniform", "hash"):
        raise ProtocolError(f"ties={ties!r}: use 'first', 'uniform' or 'hash'.")
    codes = checked_codes(judges, n_categories)
    counts = np.stack([(codes == label).sum(1) for label in range(n_categories)], axis=1)
    modal = (counts == counts.max(1, keepdims=True)) & (counts > 0)
    n_modes = modal.sum(1)
    pick = np.zeros(len(codes), dtype=np.int64)
    tied = np.flatnonzero(n_modes > 1)
    if ties == "uniform":
        draw = np.random.default_rng(seed).random(len(codes))
        pick[tied] = (draw[tied] * n_modes[tied]).astype(np.int64)
    elif ties == "hash":
        names = [""] * len(codes) if keys is None else [str(key) for key in np.asarray(keys, dtype=object)]
        if len(names) != len(codes):
            raise StructureError(f"{len(names)} keys for {len(codes)} items.")
        pick[tied] = [_hash(names[item], codes[item]) % int(n_modes[item]) for item in tied]
    # The pick-th modal category, in category order.
    place = modal & (np.cumsum(modal, axis=1) == pick[:, None] + 1)
    label = np.where(n_modes > 0, place.argmax(1), -1) if n_categories else np.full(len(codes), -1)
    return MajorityVote(label.astype(np.int64), len(tied))


def _hash(key: str, answers: npt.NDArray[np.signedinteger]) -> int:
    """64-bit hash of an item's key and its answers, the same on every machine."""
    text = key + "\x1f" + ",".join(str(int(answer)) for answer in answers)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


class MinimumErrorWeights(NamedTuple):
    """Weights (k,) that sum to one, and the distributional error ``w' K w`` that they reach."""

    weights: Floats
    distributional_error: float


def minimum_error_weights(gram: npt.ArrayLike, *, nonnegative: bool = False) -> MinimumErrorWeights:
    """Weights that minimise the error of the weighted label frequencies, ``w' K w`` with ``sum w = 1``.

    Parameters
    ----------
    gram : array-like (k, k)
        Positive semidefinite residual Gram matrix.
    nonnegative : bool
        Whether weights must not be negative.

    Returns
    -------
    MinimumErrorWeights
        The weights of least norm where several are optimal (without the constraint of sign). The error is
        that of the items that the Gram matrix was made of: use held-out items to judge it.

    Examples
    --------
    >>> minimum_error_weights([[1.0, 0.0], [0.0, 3.0]]).weights.round(6)
    array([0.75, 0.25])
    """
    K = square_matrix(gram)
    k = K.shape[-1]
    if K.ndim != 2 or k < 1 or np.isnan(K).any():
        raise StructureError(f"Weights need one complete Gram matrix of at least one judge; got {K.shape}.")
    scale = float(np.trace(K)) / k or 1.0
    if nonnegative:
        from scipy.optimize import nnls

        # With K = R'R: min |R u|^2 + (1 - sum u)^2 over u >= 0 is min f / (1 + f) along each direction, f the
        # error of its normalised weights, so the direction of u is the optimal w.
        values, vectors = np.linalg.eigh(K / scale)
        root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
        u, _ = nnls(np.vstack([root, np.ones((1, k))]), np.append(np.zeros(k), 1.0))
        weights = u / u.sum()
    else:
        # Lagrange conditions; least squares where the Gram matrix is singular.
        system = np.block([[K / scale, np.ones((k, 1))], [np.ones((1, k)), np.zeros((1, 1))]])
        weights = np.linalg.lstsq(system, np.append(np.zeros(k), 1.0), rcond=None)[0][:k]
        weights = weights / weights.sum()
    return MinimumErrorWeights(weights, max(float(weights @ K @ weights), 0.0))


class AggregateScore(NamedTuple):
    """How an aggregate compares with the human side; see :func:`score_aggregate`.

    Attributes
    ----------
    accuracy, distributional_error : float
        Means over scored items; NaN without any.
    hit : ndarray (n,)
        Per item: 1 / |modes| if gold is among the aggregate's modes, else 0; NaN where not scored.
    squared_error : ndarray (n,)
        Per item: squared distance from the human distribution; NaN where not scored.
    """

    accuracy: float
    distributional_error: float
    hit: Floats
    squared_error: Floats


def score_aggregate(
    distribution: npt.ArrayLike, h: npt.ArrayLike, gold: npt.ArrayLike | None = None
) -> AggregateScore:
    """Score label frequencies (or one-hot labels) against the human side, item by item.

    Parameters
    ----------
    distribution : array-like (n, L)
        From :func:`soft_distribution` or another aggregate; NaN rows are not scored.
    h : array-like (n, L)
        Human distributions; NaN rows are not scored.
    gold : array-like of int (n,), optional
        Negative where there is none; without it accuracy is NaN.

    Returns
    -------
    AggregateScore
        The per-item values are what an interval resamples.

    Examples
    --------
    >>> score_aggregate([[0.5, 0.5]], [[1.0, 0.0]], [0]).accuracy
    0.5
    """
    p, shares = np.asarray(distribution, dtype=np.float64), np.asarray(h, dtype=np.float64)
    if p.ndim != 2 or p.shape != shares.shape:
        raise StructureError(f"Aggregate {p.shape} and human distributions {shares.shape} must match.")
    labels = np.full(len(p), -1) if gold is None else to_codes(np.asarray(gold))
    if labels.shape != (len(p),):
        raise StructureError(f"gold has shape {labels.shape}; there are {len(p)} items.")
    scored = known_rows(p)
    both = scored & known_rows(shares)
    error = np.where(both, (np.where(both[:, None], p - shares, 0.0) ** 2).sum(1), np.nan)
    votes = np.where(scored[:, None], p, 0.0)
    # Frequencies of a weighted panel are sums of floats: a tie is one up to their rounding.
    modal = votes >= votes.max(1, keepdims=True, initial=0.0) - 1e-12
    judged = scored & (labels >= 0)
    inside = modal[np.arange(len(p)), np.where(judged, labels, 0)] if p.shape[1] else np.zeros(len(p), bool)
    hit = np.where(judged, inside / np.maximum(modal.sum(1), 1), np.nan)
    return AggregateScore(_mean(hit), _mean(error), hit, error)


def _mean(values: Floats) -> float:
    """Mean of the defined values; NaN without any."""
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else float("nan")

"""Moments of pairs that margins need, from a distribution of labels or from a pilot (LOO.md section 3)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError
from xjudge.statistics._loo_counts import PairMoments, loo_counts, loo_pair_moments, units_of
from xjudge.statistics._loo_model import NoiseModel, Patterns, noise_patterns
from xjudge.statistics._loo_votes import Decimal, Float, read_decimal

__all__ = [
    "Population",
    "accuracy_population",
    "judge_accuracy_at",
    "pattern_population",
    "pilot_population",
    "population_margin",
    "population_of",
    "strata_of",
]


class Population(NamedTuple):
    """Moments of pairs for one item labelled by everybody, and what strata know of them.

    Attributes
    ----------
    pairs : PairMoments
        Expectations per item.
    strata_share : ndarray of float, shape (S,)
        Sums to 1; one stratum where there are none.
    strata_gain : ndarray of float, shape (S, K)
        Mean over the other humans of ``E[e_kq]`` within the stratum.
    """

    pairs: PairMoments
    strata_share: Float
    strata_gain: Float


def population_of(model: Patterns | NoiseModel, design: str) -> Population:
    """Moments of a model; strata that depend on the judge need its label patterns."""
    if isinstance(model, NoiseModel):
        if design != "strat_judge":
            return accuracy_population(*model)
        return pattern_population(noise_patterns(*model), design=design)
    return pattern_population(model, design=design)


def accuracy_population(
    human_accuracy: npt.ArrayLike, judge_accuracy: float, prevalence: npt.ArrayLike
) -> Population:
    """Moments under symmetric noise in closed form, for any number of humans and categories.

    Parameters
    ----------
    human_accuracy, judge_accuracy, prevalence
        As in :func:`noise_patterns`. Strata are the first human's labels.

    Returns
    -------
    Population

    Notes
    -----
    Given the truth raters are independent, so a product of two agreements needs the agreement of two pairs
    or, where they share a rater, of three raters. Cost ``K^4 + L^2 K^3``.
    """
    accuracy = np.append(np.asarray(human_accuracy, dtype=np.float64), judge_accuracy)
    shares = np.asarray(prevalence, dtype=np.float64)
    L, R = len(shares), len(accuracy)
    wrong = (1 - accuracy) / max(L - 1, 1)
    emission = np.where(np.eye(L, dtype=bool), accuracy[:, None, None], wrong[:, None, None])
    two = np.einsum("ayx,byx->aby", emission, emission)
    pair = two @ shares
    # Three raters: products of two over (truth, label), times the third; two pairs: over the truth.
    flat = emission.reshape(R, L * L)
    three = (flat[:, None] * flat).reshape(R * R, L * L) @ (flat * np.repeat(shares, L)).T
    three = three.reshape(R, R, R)
    product = ((two * shares).reshape(R * R, L) @ two.reshape(R * R, L).T).reshape(R, R, R, R)
    a, b, c, d = np.ogrid[:R, :R, :R, :R]
    for same, rest in ((a == c, (a, b, d)), (a == d, (a, b, c)), (b == c, (a, b, d)), (b == d, (a, b, c))):
        product = np.where(same, three[rest], product)
    both = ((a == c) & (b == d)) | ((a == d) & (b == c))
    product = np.where(both, pair[:, :, None, None], product)
    h, j = np.arange(R - 1), R - 1
    k, q, k2, r = np.ix_(h, h, h, h)
    second = product[j, q, j, r] - product[j, q, k2, r] - product[k, q, j, r] + product[k, q, k2, r]
    difference = pair[j, h][None, :] - pair[np.ix_(h, h)]
    # E[e_kq; first human says x]: the first human is k, q, or a third rater.
    first = emission[0]
    gain = np.einsum("y,yx,kqy->xkq", shares, first, two[j, h][None] - two[np.ix_(h, h)])
    with_first = np.einsum("y,yx,ryx->xr", shares, first, emission)
    gain[:, 1:, 0] = with_first[:, j, None] - with_first[:, 1:j]
    gain[:, 0, 1:] = np.einsum("y,yx,qy->xq", shares, first, two[j, 1:j]) - with_first[:, 1:j]
    return _population(difference, second, shares @ first, gain)


def pattern_population(
    patterns: Patterns, *, design: str = "strat", gains: npt.NDArray[np.floating] | None = None
) -> Population:
    """Moments from a joint distribution of labels.

    Parameters
    ----------
    patterns : Patterns
    design : str
        ``"strat_judge"`` makes strata of the first human's label and of the judge agreeing with it, any
        other of the label.
    gains : ndarray of float, shape (P, K, K), optional
        What a pair contributes instead of ``[judge = q] - [k = q]`` (influences of another coefficient).

    Returns
    -------
    Population
    """
    codes, probability = patterns
    K = codes.shape[1] - 1
    if gains is None:
        humans, judge = codes[:, :K], codes[:, K]
        agreed = (humans == judge[:, None]).astype(np.float64)[:, None, :]
        gains = agreed - (humans[:, :, None] == humans[:, None, :])
    gains = np.where(np.eye(K, dtype=bool), 0.0, gains)
    flat = gains.reshape(len(codes), K * K)
    second = (flat * probability[:, None]).T @ flat
    strata = strata_of(codes[:, 0], codes[:, K] if design == "strat_judge" else None)
    onehot = np.eye(int(strata.max()) + 1)[strata] * probability[:, None]
    gain = (onehot.T @ flat).reshape(-1, K, K)
    return _population(probability @ flat, second.reshape(K, K, K, K), onehot.sum(axis=0), gain)


def pilot_population(humans: npt.ArrayLike, judge: npt.ArrayLike, *, design: str = "strat") -> Population:
    """Moments estimated from labels at hand.

    Parameters
    ----------
    humans : array-like of int, shape (n, K) or (n, C, K)
        Negative = not answered. With criteria the item is the unit, and a pair its mean over them.
    judge : array-like of int, shape (n,) or (n, C)
    design : str
        As in :func:`pattern_population`; several criteria have no strata.

    Returns
    -------
    Population
        Means over the items on which the raters concerned met; products of pairs that never met together
        are taken as uncorrelated.

    Raises
    ------
    ProtocolError
        Where two humans never met, so that their agreement is unknown; strata with several criteria.
    """
    units, judged = units_of(humans, judge)
    labels, verdicts = units[:, 0], judged[:, 0, 0]
    pairs = loo_pair_moments(units, judged[..., 0])
    K = pairs.overlap.shape[-1]
    off = ~np.eye(K, dtype=bool)
    if (pairs.overlap[off] == 0).any() or K < 2:
        lonely = int((pairs.overlap[off] == 0).sum()) // 2
        raise ProtocolError(
            f"Planning from a pilot needs two or more humans who all share items with each other and the "
            f"judge; {lonely} pairs share none. Leave humans out, or plan from accuracies."
        )
    difference = np.where(off, pairs.difference / np.maximum(pairs.overlap, 1), 0.0)
    products = difference[:, :, None, None] * difference
    met = pairs.joint > 0
    second = np.where(met, pairs.second / np.maximum(pairs.joint, 1), products)
    if units.shape[1] > 1:
        if design.startswith("strat"):
            raise ProtocolError(
                f"design={design!r} makes strata of the first human's label, and these items have "
                f"{units.shape[1]}: plan for one criterion, or for design='shared'."
            )
        return _population(difference, second, np.ones(1), difference[None])
    known = (labels[:, 0] >= 0) & (verdicts >= 0)
    strata = strata_of(labels[known, 0], verdicts[known] if design == "strat_judge" else None)
    share = np.bincount(strata) / max(len(strata), 1)
    gain = np.zeros((len(share), K, K))
    for s in range(len(share)):
        some = loo_counts(labels[known][strata == s], verdicts[known][strata == s])
        inside = (some.judge_hits - some.human_hits) / np.maximum(some.overlap, 1)
        gain[s] = np.where(some.overlap > 0, inside, difference) * share[s]
    return _population(difference, second, share, gain)


def strata_of(
    primary: npt.NDArray[np.integer], judge: npt.NDArray[np.integer] | None = None
) -> npt.NDArray[np.intp]:
    """Number strata of the first human's label, and of the judge's agreement with it where given.

    Parameters
    ----------
    primary : ndarray of int, shape (n,)
        Negative = not answered: a stratum of its own.
    judge : ndarray of int, shape (n,), optional

    Returns
    -------
    ndarray of int, shape (n,)
        From 0, in the order of the codes.

    Examples
    --------
    >>> strata_of(np.array([0, 1, 1, -1])), strata_of(np.array([0, 1, 1, 1]), np.array([0, 0, 1, 1]))
    (array([1, 2, 2, 0]), array([0, 1, 2, 2]))
    """
    labels = np.where(primary < 0, -1, primary).astype(np.int64)
    if judge is not None:
        labels = 2 * labels + (labels == judge)
    return np.unique(labels, return_inverse=True)[1].reshape(labels.shape)


def population_margin(population: Population, eps: Decimal) -> Float:
    """Dense margins ``D_k`` of the population: equal weight for every other human.

    Parameters
    ----------
    population : Population
    eps : float

    Returns
    -------
    ndarray of float, shape (K,)
    """
    K = population.pairs.difference.shape[-1]
    return population.pairs.difference.sum(axis=-1) / max(K - 1, 1) + float(read_decimal(eps, "eps"))


def judge_accuracy_at(
    margin: float, human_accuracy: npt.ArrayLike, prevalence: npt.ArrayLike, eps: Decimal
) -> float:
    """Accuracy of the judge whose mean dense margin is the given one (it is linear in the accuracy).

    Parameters
    ----------
    margin : float
        Tolerance included.
    human_accuracy : array-like of float, shape (K,)
    prevalence : array-like of float, shape (L,)
    eps : float

    Returns
    -------
    float

    Raises
    ------
    ProtocolError
        Where no accuracy in [0, 1] gives it.

    Examples
    --------
    >>> round(judge_accuracy_at(0.05, [0.85] * 4, [0.5, 0.5], 0.05), 4)
    0.85
    """
    ends = [
        float(population_margin(accuracy_population(human_accuracy, p, prevalence), eps).mean())
        for p in (0, 1)
    ]
    if ends[1] == ends[0]:
        raise ProtocolError(
            "With humans who guess, the judge's accuracy does not move its margin: nothing to plan."
        )
    accuracy = (margin - ends[0]) / (ends[1] - ends[0])
    if not -1e-9 <= accuracy <= 1 + 1e-9:
        raise ProtocolError(
            f"No judge has a mean margin of {margin:g} against these humans; the margin of a perfect one is "
            f"{max(ends):.3g}. Choose a smaller `at_margin`."
        )
    return float(np.clip(accuracy, 0.0, 1.0))


# ---------------------------------------------------------------------------------------------- private


def _population(
    difference: npt.NDArray[np.floating],
    second: npt.NDArray[np.floating],
    share: npt.NDArray[np.floating],
    gain: npt.NDArray[np.floating],
) -> Population:
    """Complete moments: ``gain`` is ``E[e_kq; stratum]``, everything else an expectation per item."""
    K = second.shape[0]
    off = (~np.eye(K, dtype=bool)).astype(np.float64)
    joint = off[:, :, None, None] * off
    mean = difference.reshape(K, K) * off
    mixed = mean[:, :, None, None] * off
    pairs = PairMoments(mean, off, second * joint, mixed, joint, np.asarray(1.0))
    inside = np.divide(
        gain * off, share[:, None, None], out=np.zeros_like(gain), where=share[:, None, None] > 0
    )
    return Population(pairs, np.asarray(share, dtype=np.float64), inside.sum(axis=-1) / max(K - 1, 1))

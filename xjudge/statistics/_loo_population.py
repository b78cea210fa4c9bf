"""Joint distributions of labels, and the moments of pairs that margins need (LOO.md section 3)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError
from xjudge.statistics._loo_counts import PairMoments, codes_of, loo_counts, loo_pair_moments
from xjudge.statistics._loo_votes import Decimal, Float, read_decimal

__all__ = [
    "NoiseModel",
    "Patterns",
    "Population",
    "accuracy_population",
    "joint_patterns",
    "judge_accuracy_at",
    "noise_model",
    "noise_patterns",
    "pattern_population",
    "pilot_population",
    "population_margin",
    "population_of",
    "strata_of",
]


class Patterns(NamedTuple):
    """A joint distribution of labels: ``codes`` (P, K + 1), the judge last, and ``probability`` (P,)."""

    codes: npt.NDArray[np.int64]
    probability: Float


class NoiseModel(NamedTuple):
    """Symmetric noise: ``human_accuracy`` (K,), ``judge_accuracy``, ``prevalence`` (L,) of the truth."""

    human_accuracy: Float
    judge_accuracy: float
    prevalence: Float


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


def noise_model(
    n_humans: int | None,
    human_accuracy: npt.ArrayLike,
    judge_accuracy: float,
    n_categories: int,
    prevalence: npt.ArrayLike | None,
) -> NoiseModel:
    """Check the parameters of symmetric noise.

    Parameters
    ----------
    n_humans : int, optional
        Default as many as accuracies.
    human_accuracy : float or array-like of float, shape (K,)
    judge_accuracy : float
    n_categories : int
        Ignored where ``prevalence`` is given.
    prevalence : array-like of float, shape (L,), optional
        Sums to 1, up to the rounding of printed shares.

    Returns
    -------
    NoiseModel

    Raises
    ------
    ProtocolError
        For values out of range, or fewer than two humans or categories.
    """
    accuracy = np.atleast_1d(np.asarray(human_accuracy, dtype=np.float64))
    K = len(accuracy) if n_humans is None else int(n_humans)
    if accuracy.ndim != 1 or len(accuracy) not in (1, K) or K < 2:
        raise ProtocolError(
            f"Leave-one-out needs two or more humans and one accuracy for all or one for each; "
            f"got n_humans={n_humans!r} and {accuracy.size} accuracies."
        )
    accuracy = np.broadcast_to(accuracy, (K,))
    shares = (
        np.full(n_categories, 1 / max(n_categories, 1))
        if prevalence is None
        else np.asarray(prevalence, float)
    )
    for name, values in (("human_accuracy", accuracy), ("judge_accuracy", np.asarray(judge_accuracy))):
        if not np.all((values >= 0) & (values <= 1)):
            raise ProtocolError(f"`{name}` must lie in [0, 1]; got {np.asarray(values).tolist()!r}.")
    if shares.ndim != 1 or len(shares) < 2 or not (shares >= 0).all() or abs(shares.sum() - 1) > 1e-4:
        raise ProtocolError(
            f"`prevalence` must be two or more shares that sum to 1; got {np.asarray(shares).tolist()!r}."
        )
    return NoiseModel(accuracy, float(judge_accuracy), shares / shares.sum())


def joint_patterns(joint: npt.ArrayLike) -> Patterns:
    """Read a joint distribution of labels.

    Parameters
    ----------
    joint : array-like of float, shape (L,) * (K + 1)
        The judge on the last axis; sums to 1.

    Returns
    -------
    Patterns

    Raises
    ------
    ProtocolError
        Where the shape or the sum is not that of a distribution of three or more raters.
    """
    table = np.asarray(joint, dtype=np.float64)
    if table.ndim < 3 or len(set(table.shape)) != 1 or not (table >= 0).all() or abs(table.sum() - 1) > 1e-9:
        raise ProtocolError(
            f"`joint` must be non-negative, sum to 1 and have axes of one length, one for each of several "
            f"humans and a last for the judge; got shape {table.shape} and sum {float(table.sum()):.6g}."
        )
    codes = np.stack(np.nonzero(table), axis=1).astype(np.int64)
    return Patterns(codes, table[table > 0])


def noise_patterns(
    human_accuracy: npt.ArrayLike, judge_accuracy: float, prevalence: npt.ArrayLike, *, most: int = 1 << 14
) -> Patterns:
    """Joint distribution of labels under symmetric noise, independent between raters given the truth.

    Parameters
    ----------
    human_accuracy : array-like of float, shape (K,)
        In [0, 1]: probability of the true label; a wrong label is any other with equal probability.
    judge_accuracy : float
    prevalence : array-like of float, shape (L,)
        Of the true label.
    most : int
        Refuse beyond so many patterns.

    Returns
    -------
    Patterns
        ``L ** (K + 1)`` of them.

    Raises
    ------
    ProtocolError
        With more patterns than ``most``.
    """
    accuracy = np.append(np.asarray(human_accuracy, dtype=np.float64), judge_accuracy)
    shares = np.asarray(prevalence, dtype=np.float64)
    L, R = len(shares), len(accuracy)
    n_patterns = L**R
    if n_patterns > most:
        raise ProtocolError(
            f"{L} categories and {R} raters have {n_patterns} label patterns, more than {most}."
        )
    codes = np.indices((L,) * R).reshape(R, -1).T
    probability = np.zeros(len(codes))
    for truth in range(L):
        right = codes == truth
        probability += shares[truth] * np.where(right, accuracy, (1 - accuracy) / max(L - 1, 1)).prod(axis=1)
    return Patterns(codes, probability)


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
    humans : array-like of int, shape (n, K)
        Negative = not answered.
    judge : array-like of int, shape (n,)
    design : str
        As in :func:`pattern_population`.

    Returns
    -------
    Population
        Means over the items on which the raters concerned met; products of pairs that never met together
        are taken as uncorrelated.

    Raises
    ------
    ProtocolError
        Where two humans never met, so that their agreement is unknown.
    """
    labels, verdicts = codes_of(humans, "humans"), codes_of(judge, "judge")
    pairs = loo_pair_moments(labels, verdicts)
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

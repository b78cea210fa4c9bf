"""Joint distributions of an item's labels: given, or from accuracies under symmetric noise."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError
from xjudge.statistics._loo_votes import Float

__all__ = ["NoiseModel", "Patterns", "joint_patterns", "noise_model", "noise_patterns"]


class Patterns(NamedTuple):
    """A joint distribution of labels: ``codes`` (P, K + 1), the judge last, and ``probability`` (P,)."""

    codes: npt.NDArray[np.int64]
    probability: Float


class NoiseModel(NamedTuple):
    """Symmetric noise: ``human_accuracy`` (K,), ``judge_accuracy``, ``prevalence`` (L,) of the truth."""

    human_accuracy: Float
    judge_accuracy: float
    prevalence: Float


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
    given: Any = n_humans
    if given is not None and (not isinstance(given, int | np.integer) or isinstance(given, bool)):
        raise ProtocolError(f"`n_humans` must be a whole number; got {given!r}.")
    K = len(accuracy) if given is None else int(given)
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

"""Selective judges and cascades as counts by threshold, and the exact binomial tests of those counts.

Thresholds fall: at step ``i`` a judge answers the cases where it is at least ``thresholds[i]`` confident, so
what it answers grows from step to step. A judge is a cascade of one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError

__all__ = [
    "Steps",
    "by_step",
    "certified_step",
    "check_test",
    "clopper_pearson",
    "clopper_pearson_limit",
    "steps_of",
]

Float = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Steps(NamedTuple):
    """Kinds of cases, and between which steps which judge of a cascade answers them.

    Parameters
    ----------
    multiplicity : ndarray of int64, shape (C,)
        Cases of each kind.
    start, stop : ndarray of int64, shape (C, K)
        The judge answers at the steps ``start <= i < stop``; none where they are equal.
    wrong : ndarray of bool, shape (C, K)
        Whether its verdict differs from the reference.
    n_steps : int
    """

    multiplicity: Ints
    start: Ints
    stop: Ints
    wrong: npt.NDArray[np.bool_]
    n_steps: int


def steps_of(reached: npt.ArrayLike, right: npt.ArrayLike, n_steps: int) -> Steps:
    """Kinds of cases of a cascade in which the first judge that is confident enough answers.

    Parameters
    ----------
    reached : array-like of int, shape (n, K)
        How many of the thresholds each judge's confidence reaches, judges in the order of asking; 0 where it
        says nothing.
    right : array-like of bool, shape (n, K)
        Whether its verdict equals the reference.
    n_steps : int

    Returns
    -------
    Steps
        In an order that does not depend on that of the cases.

    Examples
    --------
    The second judge answers from the first threshold on, until the first judge is asked enough to answer:

    >>> found = steps_of([[1, 3]], [[True, False]], 3)
    >>> found.start.tolist(), found.stop.tolist(), found.wrong.tolist()
    ([[2, 0]], [[3, 2]], [[False, True]])
    """
    codes = 2 * np.asarray(reached, dtype=np.int64) + np.asarray(right, dtype=bool)
    kinds, multiplicity = np.unique(codes, axis=0, return_counts=True)
    start = n_steps - kinds // 2
    sooner = np.minimum.accumulate(start, axis=1)
    stop = np.column_stack([np.full(len(kinds), n_steps), sooner[:, :-1]])
    return Steps(multiplicity.astype(np.int64), np.minimum(start, stop), stop, kinds % 2 == 0, n_steps)


def by_step(steps: Steps, weight: npt.NDArray[np.integer] | None = None) -> tuple[Ints, Ints]:
    """Cases each judge answers at each step, and how many of them wrongly; shape (K, T).

    Parameters
    ----------
    steps : Steps
    weight : ndarray of int, shape (C,), optional
        Cases of each kind, in place of all.
    """
    amount = steps.multiplicity if weight is None else weight
    found = []
    for portion in (np.broadcast_to(amount[:, None], steps.start.shape), amount[:, None] * steps.wrong):
        sums = np.zeros((steps.start.shape[1], steps.n_steps + 1), dtype=np.int64)
        for judge in range(len(sums)):
            np.add.at(sums[judge], steps.start[:, judge], portion[:, judge])
            np.subtract.at(sums[judge], steps.stop[:, judge], portion[:, judge])
        found.append(sums.cumsum(1)[:, :-1])
    return found[0], found[1]


def check_test(target: float, level: float, n_steps: int, n_starts: int) -> None:
    """Refuse targets, levels and starts that make no test."""
    if not 0 < target < 1 or not 0 < level < 1:
        raise ProtocolError(f"`target` and `level` lie between 0 and 1; got {target!r} and {level!r}.")
    if not 1 <= n_starts <= n_steps:
        raise ProtocolError(
            f"`n_starts` lies between 1 and {n_steps}, the number of thresholds; got {n_starts!r}."
        )


def certified_step(
    n: npt.ArrayLike, wrong: npt.ArrayLike, target: float, *, level: float = 0.95, n_starts: int = 10
) -> Ints:
    """Last step whose error is certified to be at most a target, by fixed sequences of exact tests.

    Parameters
    ----------
    n, wrong : array-like of int, shape (..., T)
        Cases answered at each step, and how many of them wrongly. The thresholds behind the steps are chosen
        without a look at the labels.
    target, level, n_starts
        As in :func:`xjudge.statistics.selective.selective_threshold`.

    Returns
    -------
    ndarray of int64, shape (...)
        -1 where no step is certified.

    Raises
    ------
    ProtocolError
        A target or level outside (0, 1), no start or more starts than steps.

    Notes
    -----
    A step is certified iff it and all before it, from one of the starts on, are rejected; the sequence that
    begins at the latest start before it is the shortest such.

    Examples
    --------
    >>> certified_step([[40, 80, 120], [40, 80, 120]], [[0, 1, 30], [9, 1, 2]], 0.1, n_starts=1).tolist()
    [1, -1]
    """
    from scipy.special import bdtr

    kept, errors = np.asarray(n, dtype=np.int64), np.asarray(wrong, dtype=np.int64)
    n_steps = kept.shape[-1]
    check_test(target, level, n_steps, n_starts)
    p_value = np.where(kept > 0, bdtr(errors, np.maximum(kept, 1), target), 1.0)
    rejected = p_value <= (1 - level) / n_starts
    step = np.arange(n_steps)
    starts = np.arange(n_starts) * n_steps // n_starts
    latest = starts[np.searchsorted(starts, step, side="right") - 1]
    stopped = np.maximum.accumulate(np.where(rejected, -1, step), axis=-1)
    return np.asarray(np.where(rejected & (latest > stopped), step, -1).max(-1), dtype=np.int64)


def clopper_pearson(wrong: npt.ArrayLike, n: npt.ArrayLike, level: float = 0.95) -> tuple[Float, Float]:
    """Exact two-sided interval of a binomial share; NaN where ``n`` is 0.

    Parameters
    ----------
    wrong, n : array-like of int
    level : float

    Returns
    -------
    lower, upper : ndarray

    References
    ----------
    .. [1] C. J. Clopper and E. S. Pearson, "The use of confidence or fiducial limits illustrated in the case
       of the binomial", 1934.

    Examples
    --------
    >>> [end.round(4).item() for end in clopper_pearson(3, 20)]
    [0.0321, 0.3789]
    """
    k, total = np.asarray(wrong, dtype=np.float64), np.asarray(n, dtype=np.float64)
    lower = 1 - clopper_pearson_limit(total - k, total, (1 + level) / 2)
    return lower, clopper_pearson_limit(k, total, (1 + level) / 2)


def clopper_pearson_limit(wrong: npt.ArrayLike, n: npt.ArrayLike, level: float = 0.95) -> Float:
    """Exact upper limit of a binomial share, one-sided; NaN where ``n`` is 0.

    Examples
    --------
    No error in 59 cases: below 5 % with 95 % confidence.

    >>> clopper_pearson_limit(0, 59).round(4).item()
    0.0495
    """
    from scipy.special import betaincinv

    k, total = np.broadcast_arrays(np.asarray(wrong, dtype=np.float64), np.asarray(n, dtype=np.float64))
    inner = (total > 0) & (k < total)
    found = betaincinv(np.where(inner, k + 1, 1.0), np.where(inner, total - k, 1.0), level)
    return np.asarray(np.where(total > 0, np.where(inner, found, 1.0), np.nan))

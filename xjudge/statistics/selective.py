"""Judges that answer only where they are confident: risk against coverage, thresholds with a guarantee."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError, StructureError
from xjudge.statistics._selective_steps import (
    Steps,
    by_step,
    certified_step,
    check_test,
    clopper_pearson,
    clopper_pearson_limit,
    steps_of,
)

__all__ = [
    "GRID",
    "RiskCoverage",
    "SelectiveThreshold",
    "Splits",
    "Steps",
    "by_step",
    "cascade",
    "certified_step",
    "check_test",
    "clopper_pearson",
    "clopper_pearson_limit",
    "risk_coverage",
    "selective_threshold",
    "split_stability",
    "steps_of",
]

Float = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

GRID = tuple(i / 100 for i in range(99, -1, -1))
"""Thresholds for confidences in [0, 1], falling by one hundredth."""


class RiskCoverage(NamedTuple):
    """Error against coverage as the threshold falls.

    Parameters
    ----------
    threshold : ndarray, shape (T,)
        Distinct confidences, the greatest first.
    coverage : ndarray, shape (T,)
        Share of cases with at least that confidence.
    error : ndarray, shape (T,)
        Share of wrong verdicts among them.
    area : float
        Under the curve, in [0, 1]; NaN without cases.
    """

    threshold: Float
    coverage: Float
    error: Float
    area: float


class SelectiveThreshold(NamedTuple):
    """A threshold whose error is certified.

    Parameters
    ----------
    threshold : float
        NaN where none could be certified.
    coverage, error : float
        At the threshold, on the cases it was found on.
    n : int
        Cases at or above it.
    """

    threshold: float
    coverage: float
    error: float
    n: int


class Splits(NamedTuple):
    """What redrawn calibration and test parts report; shape (S,), NaN where no threshold was certified."""

    threshold: Float
    coverage: Float
    error: Float


def risk_coverage(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> RiskCoverage:
    """Error of a judge on the cases it is most confident about, for every number of them.

    Parameters
    ----------
    confidence : array-like, shape (n,)
        Higher is surer.
    correct : array-like of bool, shape (n,)
        Whether the verdict equals the reference.

    Returns
    -------
    RiskCoverage
        Cases of equal confidence enter together; the area takes their common error for each.

    Raises
    ------
    StructureError
        Arrays of different lengths; a confidence that is NaN.

    Examples
    --------
    >>> found = risk_coverage([0.9, 0.8, 0.8, 0.6], [True, True, False, False])
    >>> found.coverage.tolist(), found.error.round(3).tolist(), round(found.area, 4)
    ([0.25, 0.75, 1.0], [0.0, 0.333, 0.5], 0.2917)
    """
    sure, right = _cases(confidence, correct)
    levels, counts = np.unique(-sure, return_counts=True)
    order = np.argsort(-sure, kind="stable")
    n = np.cumsum(counts)
    wrong = np.cumsum(~right[order])[n - 1] if len(n) else np.zeros(0)
    error = wrong / n
    area = float((counts * error).sum() / len(sure)) if len(sure) else np.nan
    return RiskCoverage(-levels, n / max(len(sure), 1), error, area)


def selective_threshold(
    confidence: npt.ArrayLike,
    correct: npt.ArrayLike,
    target: float,
    *,
    level: float = 0.95,
    grid: Sequence[float] = GRID,
    n_starts: int = 10,
) -> SelectiveThreshold:
    r"""Lowest threshold above which the error is at most a target, with a finite-sample guarantee.

    Parameters
    ----------
    confidence : array-like, shape (n,)
        Of a random sample of cases.
    correct : array-like of bool, shape (n,)
    target : float
        Error allowed among answered cases, in (0, 1).
    level : float
        With at least this probability over samples the error of future cases at or above the threshold is at
        most ``target``.
    grid : sequence of float
        Thresholds to consider, falling, chosen without a look at the labels.
    n_starts : int
        Places of the grid, evenly spaced, where testing starts.

    Returns
    -------
    SelectiveThreshold

    Raises
    ------
    ProtocolError
        A target or level outside (0, 1), a grid that does not fall, no start.

    Notes
    -----
    From each start thresholds are tested in falling order by the exact binomial test of "error above target"
    (Clopper and Pearson's bound) at ``(1 - level) / n_starts``, until one is not rejected; every rejected one
    is certified. One start alone would often end at once: few cases are above the highest thresholds.

    References
    ----------
    .. [1] A. N. Angelopoulos et al., "Learn then test", 2021.
    .. [2] J. Jung, F. Brahman and Y. Choi, "Trust or escalate", ICLR 2025.

    Examples
    --------
    >>> confidence = [0.95] * 60 + [0.7] * 40
    >>> correct = [True] * 60 + [True, False] * 20
    >>> selective_threshold(confidence, correct, 0.1)
    SelectiveThreshold(threshold=0.71, coverage=0.6, error=0.0, n=60)
    """
    sure, right = _cases(confidence, correct)
    steps = np.asarray(grid, dtype=np.float64)
    if steps.ndim != 1 or not len(steps) or not (np.diff(steps) < 0).all():
        raise ProtocolError("`grid` is a list of falling thresholds.")
    n = _above(sure, steps)
    wrong = _above(sure[~right], steps)
    certified = int(certified_step(n, wrong, target, level=level, n_starts=n_starts))
    if certified < 0:
        return SelectiveThreshold(np.nan, np.nan, np.nan, 0)
    kept = int(n[certified])
    share = float(wrong[certified] / kept)
    return SelectiveThreshold(float(steps[certified]), kept / len(sure), share, kept)


def split_stability(
    confidence: npt.ArrayLike,
    correct: npt.ArrayLike,
    target: float,
    n_calibration: int,
    *,
    n_splits: int = 1000,
    seed: int = 0,
    level: float = 0.95,
    grid: Sequence[float] = GRID,
    n_starts: int = 10,
) -> Splits:
    """How far a published pair of coverage and error depends on the split into calibration and test.

    Parameters
    ----------
    confidence, correct, target, level, grid, n_starts
        As in :func:`selective_threshold`.
    n_calibration : int
        Cases to find the threshold on; the others are the test.
    n_splits : int
    seed : int

    Returns
    -------
    Splits
        Per split the threshold, and coverage and error on its test part (error NaN where nothing is
        answered).

    Raises
    ------
    ProtocolError
        Parts without cases; as :func:`selective_threshold`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> confidence = rng.uniform(0.5, 1, 600)
    >>> found = split_stability(confidence, rng.random(600) < confidence, 0.25, 400, n_splits=50)
    >>> bool(np.nanmin(found.coverage) < np.nanmax(found.coverage))
    True
    """
    sure, right = _cases(confidence, correct)
    if not 0 < n_calibration < len(sure) or n_splits < 1:
        raise ProtocolError(
            f"`n_calibration` leaves cases on both sides, 1 to {len(sure) - 1}, and `n_splits` is at least "
            f"1; got {n_calibration!r} and {n_splits!r}."
        )
    rng = np.random.default_rng(seed)
    out = np.full((3, n_splits), np.nan)
    for split in range(n_splits):
        order = rng.permutation(len(sure))
        first, rest = order[:n_calibration], order[n_calibration:]
        options = {"level": level, "grid": grid, "n_starts": n_starts}
        found = selective_threshold(sure[first], right[first], target, **options)  # type: ignore[arg-type]
        if np.isnan(found.threshold):
            continue
        kept = sure[rest] >= found.threshold
        error = float((~right[rest][kept]).mean()) if kept.any() else np.nan
        out[:, split] = found.threshold, kept.mean(), error
    return Splits(*out)


def cascade(confidence: npt.ArrayLike, thresholds: npt.ArrayLike) -> Ints:
    """Which judge of a cascade answers each case: the first that is confident enough.

    Parameters
    ----------
    confidence : array-like, shape (..., K)
        Of each judge, in the order in which they are asked; NaN where one says nothing.
    thresholds : array-like, shape (K,)

    Returns
    -------
    ndarray of int, shape (...)
        Position of the judge, -1 where none answers.

    Raises
    ------
    StructureError
        Not one threshold per judge.

    Notes
    -----
    Thresholds that are certified for each judge by itself are not for the cases that reach it; certify the
    cascade as a whole, on cases of its own, by giving :func:`selective_threshold` its joint confidence.

    Examples
    --------
    >>> cascade([[0.9, 0.2], [0.5, 0.8], [0.5, 0.5]], [0.8, 0.7]).tolist()
    [0, 1, -1]
    """
    sure, least = np.asarray(confidence, dtype=np.float64), np.asarray(thresholds, dtype=np.float64)
    if sure.ndim < 1 or least.ndim != 1 or sure.shape[-1] != len(least) or not len(least):
        raise StructureError(
            f"`thresholds` has one number for each judge on the last axis; got {least.shape} for "
            f"{sure.shape}."
        )
    answers = sure >= least
    return np.where(answers.any(-1), answers.argmax(-1), -1).astype(np.int64)


# ---------------------------------------------------------------------------------------------------- helpers


def _cases(confidence: npt.ArrayLike, correct: npt.ArrayLike) -> tuple[Float, npt.NDArray[np.bool_]]:
    sure, right = np.asarray(confidence, dtype=np.float64), np.asarray(correct, dtype=bool)
    if sure.ndim != 1 or sure.shape != right.shape:
        raise StructureError(
            f"A confidence and a correct or wrong verdict per case; got {sure.shape} and {right.shape}."
        )
    if np.isnan(sure).any():
        raise StructureError("A confidence is NaN; leave cases without a verdict out first.")
    return sure, right


def _above(values: Float, steps: Float) -> Ints:
    """How many values are at least each step."""
    return np.asarray(len(values) - np.searchsorted(np.sort(values), steps, side="left"), dtype=np.int64)

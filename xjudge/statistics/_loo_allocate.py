"""Who labels what: allocation of items to humans, and what strata are worth (LOO.md section 8.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError, StructureError
from xjudge.statistics._loo_cells import largest_remainder
from xjudge.statistics._loo_counts import LooCounts, add_counts
from xjudge.statistics._loo_design import check_design
from xjudge.statistics._loo_votes import Float

__all__ = [
    "Allocation",
    "allocate",
    "finite_population_size",
    "neyman_sizes",
    "stratified_variance_ratio",
    "stratum_deviations",
]

ALLOCATIONS = ("shared", "random", "strat", "strat_judge", "neyman")

# A stratum needs two sampled items for a variance.
_FLOOR = 2


class Allocation(NamedTuple):
    """Items assigned to humans.

    Attributes
    ----------
    assigned : ndarray of bool, shape (n, K)
        The first human has every item.
    weight : ndarray of float, shape (n,)
        What a sampled item stands for, ``N_s / n_s``, for :func:`stratified_margins`; 0 for items that only
        the first human labels. Independent subsets (``"random"``) have no weights: 1.
    stratum : ndarray of int, shape (n,)
    sizes, drawn : ndarray of int64, shape (S,)
        Items of each stratum, and those drawn; under ``"random"`` what each further human labels.
    """

    assigned: npt.NDArray[np.bool_]
    weight: Float
    stratum: npt.NDArray[np.intp]
    sizes: npt.NDArray[np.int64]
    drawn: npt.NDArray[np.int64]


def allocate(
    n_items: int,
    n_humans: int,
    n: int,
    *,
    design: str = "shared",
    strata: npt.ArrayLike | None = None,
    deviations: npt.ArrayLike | None = None,
    seed: int | np.random.Generator = 0,
) -> Allocation:
    """Assign ``n`` items to each further human; the first labels all of them.

    Parameters
    ----------
    n_items, n_humans : int
    n : int
        From 1 to ``n_items``.
    design : {"shared", "random", "strat", "strat_judge", "neyman"}
        One random subset for all; independent subsets; the subset in proportion from strata (of the first
        human's label, or of that and of the judge agreeing: the strata are given); the subset in proportion
        to size times standard deviation.
    strata : array-like of int, shape (n_items,), optional
        Codes of strata; needed for the last three.
    deviations : array-like of float, shape (S,), optional
        Standard deviation within each stratum, from a pilot (:func:`stratum_deviations`), in the order of
        the codes; needed for ``"neyman"``.
    seed : int or Generator

    Returns
    -------
    Allocation

    Raises
    ------
    ProtocolError
        For impossible sizes: ``n`` outside 1..``n_items``, or too small for two items in every stratum.
    StructureError
        Where strata or deviations are missing or do not fit.

    Examples
    --------
    >>> plan = allocate(10, 3, 4, design="strat", strata=[0, 0, 0, 0, 0, 1, 1, 1, 1, 1])
    >>> plan.drawn, plan.assigned.sum(axis=0), plan.weight.max()
    (array([2, 2]), array([10,  4,  4]), np.float64(2.5))
    """
    check_design(design, ALLOCATIONS)
    if n_items < 1 or n_humans < 2:
        raise ProtocolError(
            f"Allocation needs at least one item and two humans; got {n_items} items and {n_humans} humans."
        )
    if int(n) != n or not 1 <= n <= n_items:
        raise ProtocolError(f"Each further human can label from 1 to {n_items} items; got n={n!r}.")
    rng = np.random.default_rng(seed)
    stratum = np.zeros(n_items, np.intp)
    if design in ("strat", "strat_judge", "neyman"):
        given = np.asarray(strata)
        if strata is None or given.shape != (n_items,):
            raise StructureError(
                f"design={design!r} needs one stratum for each of the {n_items} items (`strata`); "
                f"got {'none' if strata is None else f'shape {given.shape}'}."
            )
        stratum = np.unique(given, return_inverse=True)[1].reshape(n_items)
    sizes = np.bincount(stratum).astype(np.int64)
    drawn = largest_remainder(int(n), sizes)
    if design == "neyman":
        if deviations is None or np.shape(deviations) != sizes.shape:
            raise StructureError(
                f"design='neyman' needs a standard deviation for each of the {len(sizes)} strata "
                f"(`deviations`), from a pilot."
            )
        drawn = neyman_sizes(int(n), sizes, deviations)
    assigned = np.zeros((n_items, n_humans), dtype=bool)
    assigned[:, 0] = True
    for k in range(1, n_humans):
        if design == "random" or k == 1:
            chosen = [rng.permutation(np.nonzero(stratum == s)[0])[: drawn[s]] for s in range(len(sizes))]
        assigned[np.concatenate(chosen), k] = True
    weight = np.where(drawn > 0, sizes / np.maximum(drawn, 1), 0.0)[stratum]
    if design == "random":
        weight = np.ones(n_items)
    return Allocation(assigned, np.where(assigned[:, 1:].any(axis=1), weight, 0.0), stratum, sizes, drawn)


def neyman_sizes(
    n: int, sizes: npt.ArrayLike, deviations: npt.ArrayLike, *, floor: int = _FLOOR
) -> npt.NDArray[np.int64]:
    """Sample sizes in proportion to ``N_s sigma_s``, at least ``floor`` and at most ``N_s`` of each stratum.

    Parameters
    ----------
    n : int
        In all.
    sizes : array-like of int, shape (S,)
    deviations : array-like of float, shape (S,)
        Non-negative; where all are zero, in proportion to the sizes.
    floor : int
        Or the whole stratum where it is smaller.

    Returns
    -------
    ndarray of int64, shape (S,)
        Sums to ``n``.

    Raises
    ------
    ProtocolError
        Where ``n`` is below the floors or above the sizes, or a deviation is negative or NaN.

    Examples
    --------
    >>> neyman_sizes(20, [100, 100, 4], [0.1, 0.3, 0.0])
    array([ 5, 13,  2])
    """
    N = np.asarray(sizes, dtype=np.int64)
    sigma = np.asarray(deviations, dtype=np.float64)
    if not (sigma >= 0).all():
        raise ProtocolError(f"Standard deviations must be 0 or more; got {sigma.tolist()!r}.")
    least = np.minimum(N, floor)
    if not least.sum() <= n <= N.sum():
        raise ProtocolError(
            f"{n} items cannot be drawn with at least {floor} from each of {len(N)} strata out of "
            f"{int(N.sum())}; possible are {int(least.sum())} to {int(N.sum())}."
        )
    out = least.astype(np.float64)
    free = np.ones(len(N), dtype=bool)
    while free.any():
        want = np.where(free, N * sigma, 0.0)
        if want.sum() == 0:
            want = np.where(free, N, 0.0)
        share = (n - out[~free].sum()) * want / want.sum()
        # Strata that hit a bound are fixed there, those below their floor first: that only lowers the rest.
        low, high = free & (share < least), free & (share > N)
        if not (low.any() or high.any()):
            out[free] = share[free]
            break
        fixed = low if low.any() and (low * (least - share)).sum() >= (high * (share - N)).sum() else high
        out[fixed] = np.where(share < least, least, N)[fixed]
        free &= ~fixed
    whole = np.floor(out + 1e-9).astype(np.int64)
    rest = np.where(whole < N, out - whole, -1.0)
    for place in np.argsort(-rest, kind="stable")[: n - int(whole.sum())]:
        whole[place] += 1
    return whole


def stratum_deviations(strata: Sequence[LooCounts]) -> tuple[Float, Float, float]:
    """Spread of the margins within strata, from the counts of a pilot.

    Parameters
    ----------
    strata : sequence of LooCounts, length S
        One judge.

    Returns
    -------
    deviations : ndarray of float, shape (S,)
        Root of the variance within the stratum of an item's contribution, averaged over comparisons.
    share : ndarray of float, shape (S,)
        Of the items.
    total : float
        Variance of the contributions over all items, averaged over comparisons.

    Notes
    -----
    Contributions are ``Z_k = (z_k - delta_k w_k) / mean(w_k)``; variances divide by the number of items.
    """
    whole = add_counts(strata)
    K = whole.n_items.shape[-1]
    overlap = whole.overlap.sum(axis=-1).astype(np.float64)
    used = overlap > 0
    scale = np.where(used, whole.moments[0, 0] / np.where(used, overlap, 1), 0.0)
    delta = (whole.judge_hits - whole.human_hits).sum(axis=-1) / np.where(used, overlap, 1)
    change = np.zeros((K, 1 + 2 * K))
    k = np.arange(K)
    change[k, 1 + k], change[k, 1 + K + k] = scale, -scale * delta

    def variance(part: LooCounts) -> float:
        n = float(part.moments[0, 0])
        if n == 0 or not used.any():
            return 0.0
        moments = part.moments[: 1 + 2 * K, : 1 + 2 * K]
        mean = change @ moments[0] / n
        square = np.einsum("kv,vw,kw->k", change, moments, change) / n
        return float(np.maximum(square - mean**2, 0.0)[used].mean())

    share = np.array([part.moments[0, 0] for part in strata], dtype=np.float64)
    deviations = np.sqrt([variance(part) for part in strata])
    return deviations, share / max(share.sum(), 1.0), variance(whole)


def stratified_variance_ratio(
    deviations: npt.ArrayLike, share: npt.ArrayLike, total: float
) -> tuple[float, float]:
    """Variance under proportional and under Neyman allocation, relative to simple random sampling.

    Parameters
    ----------
    deviations, share, total
        From :func:`stratum_deviations`.

    Returns
    -------
    proportional, neyman : float
        In [0, 1]; NaN where nothing varies.

    Examples
    --------
    >>> stratified_variance_ratio([1.0, 3.0], [0.5, 0.5], 6.0)
    (0.8333333333333334, 0.6666666666666666)
    """
    sigma, P = np.asarray(deviations, dtype=np.float64), np.asarray(share, dtype=np.float64)
    if not total > 0:
        return float("nan"), float("nan")
    return float(P @ sigma**2 / total), float((P @ sigma) ** 2 / total)


def finite_population_size(m: float, n_items: int) -> float:
    """Sample size that is as good for the matrix of ``n_items`` as ``m`` would be for future items.

    Parameters
    ----------
    m : float
    n_items : int

    Returns
    -------
    float
        ``1 / (1 / m + 1 / n_items)``.

    Examples
    --------
    >>> finite_population_size(300, 600)
    200.0
    """
    return m * n_items / (m + n_items)

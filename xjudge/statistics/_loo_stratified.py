"""Margins from samples that are not simple random: strata with weights, and control variates (LOO.md 8)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError, Reason, StructureError
from xjudge.statistics._loo_counts import LooCounts, add_counts
from xjudge.statistics._loo_margin import LooMargins, Target, finish_margins, loo_margins, mean_ratio, ratio
from xjudge.statistics._loo_votes import Decimal, Float, count_votes, read_decimal

__all__ = [
    "ControlledMargins",
    "control_margins",
    "control_variance",
    "equal_human_agreement",
    "stratified_margins",
]


class ControlledMargins(NamedTuple):
    """Margins with a control variate.

    Attributes
    ----------
    margins : LooMargins
        Win and margin after the control; decided in doubles.
    coefficient : ndarray of float, shape (..., K)
        What was taken off per unit of difference between the judge's agreement with the first human on the
        comparison's pairs and on all items; 0 where the control cannot move.
    reason : ndarray of int8, shape (..., K)
    """

    margins: LooMargins
    coefficient: Float
    reason: npt.NDArray[np.int8]


def stratified_margins(
    strata: Sequence[LooCounts],
    sizes: npt.ArrayLike,
    *,
    eps: Decimal = 0.05,
    threshold: Decimal = 0.5,
    strict: bool = False,
    target: Target = "population",
    unsampled: Literal["raise", "drop"] = "raise",
) -> LooMargins:
    """Margins of a stratified sample, every sum weighted by ``N_s / n_s``.

    Parameters
    ----------
    strata : sequence of LooCounts, length S
        Counts of the items of each stratum. The items that anybody beside the first human labelled are the
        sample, and all further humans labelled the same ones.
    sizes : array-like of int, shape (S,)
        Items ``N_s`` of each stratum in the corpus.
    eps, threshold, strict, target
        As in :func:`xjudge.statistics.loo.loo_margins`.
    unsampled : {"raise", "drop"}
        Of a stratum without any sampled item: an error, or nothing stands for it.

    Returns
    -------
    LooMargins
        Wins by exact fractions.

    Raises
    ------
    StructureError
        Where there are not as many sizes as strata, or a size is below its sample.
    ProtocolError
        Where a stratum of the corpus has no sampled item.

    Notes
    -----
    ``Var = sum_s N_s^2 (1 / n_s - 1 / N_s) S_s / W^2`` for the matrix at hand; for future items the spread
    between all items is added. A stratum with one sampled item of several says nothing about its variance:
    for the standard error such strata are taken together, and with the smallest other one where there is only
    one of them.

    Examples
    --------
    >>> from xjudge.statistics.loo import loo_counts
    >>> one, two = loo_counts([[0, 0], [0, 1]], [0, 0]), loo_counts([[1, 1], [1, 1]], [0, 1])
    >>> stratified_margins([one, two], [30, 10]).judge_agreement
    array([0.5  , 0.875])
    """
    N = np.asarray(sizes, dtype=np.int64)
    if len(strata) != len(N) or not len(N):
        raise StructureError(
            f"There must be a size for each stratum; got {len(strata)} strata and {len(N)} sizes."
        )
    total = add_counts(strata)
    place_shape, K = total.n_items.shape[:-1], total.n_items.shape[-1]
    sampled = np.stack([part.n_items.max(axis=-1) for part in strata])
    if (sampled > N.reshape(-1, *(1,) * len(place_shape))).any():
        raise StructureError("A stratum has more sampled items than its size says it has items.")
    lost = (sampled == 0) & (N > 0).reshape(-1, *(1,) * len(place_shape))
    if unsampled == "raise" and lost.any():
        raise ProtocolError(
            "A stratum has no sampled item, so nothing stands for it: merge it with another, or sample it."
        )
    tolerance = read_decimal(eps, "eps")
    margin, judge, human, win = (np.full((*place_shape, K), np.nan) for _ in range(4))
    tie = np.zeros((*place_shape, K), dtype=bool)
    for place in np.ndindex(*place_shape):
        weights = [Fraction(int(size), int(n[place]) or 1) for size, n in zip(N, sampled, strict=True)]
        for k in range(K):
            hits, same, pairs = (
                sum(
                    (
                        w * int(getattr(part, name)[place][k].sum())
                        for w, part in zip(weights, strata, strict=True)
                    ),
                    Fraction(0),
                )
                for name in ("judge_hits", "human_hits", "overlap")
            )
            if pairs:
                exact = (hits - same) / pairs + tolerance
                at = (*place, k)
                margin[at], win[at], tie[at] = float(exact), float(exact >= 0), exact == 0
                judge[at], human[at] = float(hits / pairs), float(same / pairs)
    covariance = _stratified_covariance(strata, N, sampled, margin - float(tolerance), target)
    overlap = total.overlap.sum(axis=-1)
    complete = np.full(overlap.shape, target == "matrix") & (sampled.sum(axis=0) == N.sum())[..., None]
    return finish_margins(
        margin,
        covariance,
        win,
        tie,
        judge,
        human,
        overlap,
        total.n_items,
        count_votes(win, threshold, strict=strict),
        complete,
    )


def equal_human_agreement(strata: Sequence[LooCounts], sizes: npt.ArrayLike) -> Float:
    """Human agreement of a stratified sample with every other human weighed equally.

    Parameters
    ----------
    strata, sizes
        As for :func:`stratified_margins`.

    Returns
    -------
    ndarray of float, shape (..., K)
        NaN without any overlap.
    """
    same, pairs = (np.zeros(strata[0].overlap.shape) for _ in range(2))
    for part, size in zip(strata, np.asarray(sizes, dtype=np.int64), strict=True):
        weight = np.nan_to_num(ratio(size, part.n_items.max(axis=-1)))[..., None, None]
        same += weight * part.human_hits
        pairs += weight * part.overlap
    return mean_ratio(same, pairs)


def control_margins(
    counts: LooCounts,
    *,
    eps: Decimal = 0.05,
    threshold: Decimal = 0.5,
    strict: bool = False,
) -> ControlledMargins:
    """Margins that use what is known of every item: whether the judge agrees with the first human.

    Parameters
    ----------
    counts : LooCounts
        Counted with ``control=True``.
    eps, threshold, strict
        As in :func:`xjudge.statistics.loo.loo_margins`.

    Returns
    -------
    ControlledMargins

    Raises
    ------
    StructureError
        Where the counts were made without the control.

    Notes
    -----
    ``D_k - lambda_k (f_k - f)`` with ``f`` the judge's agreement with the first human on all items, ``f_k``
    the same weighted by the pairs of comparison ``k``, and ``lambda_k = Cov(D_k, f_k - f) / Var(f_k - f)``
    from the influences of items. Aims at the population; wins are decided in doubles.

    Examples
    --------
    >>> from xjudge.statistics.loo import loo_counts
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.integers(0, 2, 300)
    >>> second = np.where(np.arange(300) < 60, truth ^ (rng.random(300) < 0.2), -1)
    >>> judge = truth ^ (rng.random(300) < 0.3)
    >>> counts = loo_counts(np.stack([truth, second], axis=1), judge, control=True)
    >>> loo_margins(counts).se.round(3), control_margins(counts).margins.se.round(3)
    (array([0.06 , 0.082]), array([0.048, 0.06 ]))
    """
    K = counts.n_items.shape[-1]
    if counts.moments.shape[-1] != 3 * K + 3:
        raise StructureError("These counts have no control: count them with `control=True`.")
    plain = loo_margins(counts, eps=eps, threshold=threshold, strict=strict)
    moments = counts.moments.astype(np.float64)
    z, w, wf = (np.arange(start, start + K) for start in (1, 1 + K, 1 + 2 * K))
    f, u = 1 + 3 * K, 2 + 3 * K
    overlap, units = counts.overlap.sum(axis=-1).astype(np.float64), moments[..., 0, u]
    on_pairs, on_all = ratio(moments[..., 0, wf], overlap), ratio(moments[..., 0, f], units)
    k = np.arange(K)
    psi, control = (np.zeros((*overlap.shape, moments.shape[-1])) for _ in range(2))
    inverse = np.nan_to_num(ratio(1.0, overlap))
    psi[..., k, z] = inverse
    psi[..., k, w] = -np.nan_to_num(plain.margin - float(read_decimal(eps, "eps"))) * inverse
    control[..., k, wf] = inverse
    control[..., k, w] = -np.nan_to_num(on_pairs) * inverse
    per_unit = np.nan_to_num(ratio(1.0, units))[..., None]
    control[..., f] -= per_unit
    control[..., u] += np.nan_to_num(on_all)[..., None] * per_unit
    variance = np.einsum("...kv,...vw,...kw->...k", control, moments, control)
    cross = np.einsum("...kv,...vw,...kw->...k", psi, moments, control)
    scale = np.einsum("...kv,...vv,...kv->...k", control, moments, control)
    moves = (overlap > 0) & (variance > 1e-12 * scale)
    coefficient = np.divide(cross, variance, out=np.zeros(variance.shape), where=moves)
    shift = np.nan_to_num(coefficient * (on_pairs - on_all[..., None]))
    margin = plain.margin - shift
    influence = psi - coefficient[..., None] * control
    covariance = np.einsum("...kv,...vw,...lw->...kl", influence, moments, influence)
    none = counts.overlap.sum(axis=-1) == 0
    covariance = np.where(none[..., :, None] | none[..., None, :], np.nan, covariance)
    win = np.where(moves, np.where(margin >= 0, 1.0, 0.0), plain.win)
    done = finish_margins(
        margin,
        covariance,
        win,
        plain.margin_tie & ~moves,
        plain.judge_agreement,
        plain.human_agreement,
        plain.overlap,
        plain.n_items,
        count_votes(win, threshold, strict=strict),
    )
    reason = np.where(none, np.int8(Reason.NO_OVERLAP), np.int8(Reason.CONSTANT_CONTROL))
    return ControlledMargins(done, coefficient, np.where(moves, np.int8(Reason.OK), reason).astype(np.int8))


def control_variance(
    variance: float,
    covariance: float,
    control_variance: float,
    m: float,
    n: float,
    *,
    coefficient: float | None = None,
) -> tuple[float, float]:
    """Variance of a mean over ``m`` sampled items with a control known on all ``n``.

    Parameters
    ----------
    variance : float
        Per item, of what is averaged.
    covariance, control_variance : float
        Per item, with and of the control.
    m, n : float
    coefficient : float, optional
        Default the best one, ``covariance / control_variance``; 1 is plain prediction-powered inference.

    Returns
    -------
    variance, coefficient : float

    Notes
    -----
    ``variance / m - (2 lambda cov - lambda^2 var) (1 / m - 1 / n)``.

    Examples
    --------
    >>> value, best = control_variance(0.21, 0.05, 0.2, 100, 1000)
    >>> round(value, 6), best
    (0.001987, 0.25)
    """
    best = covariance / control_variance if control_variance > 0 else 0.0
    used = best if coefficient is None else coefficient
    gain = (2 * used * covariance - used**2 * control_variance) * (1 / m - 1 / n)
    return variance / m - gain, used


# ---------------------------------------------------------------------------------------------- private


def _stratified_covariance(
    strata: Sequence[LooCounts],
    N: npt.NDArray[np.int64],
    sampled: npt.NDArray[np.int64],
    delta: Float,
    target: str,
) -> Float:
    """Covariance of the weighted ratio; ``u = z - delta w`` is linear in the moment vector of an item."""
    K = delta.shape[-1]
    out = np.full((*delta.shape, K), np.nan)
    k = np.arange(K)
    for place in np.ndindex(*delta.shape[:-1]):
        change = np.zeros((K, 1 + 2 * K))
        change[k, 1 + k] = 1.0
        change[k, 1 + K + k] = -np.nan_to_num(delta[place])
        parts = [
            _Part(part.moments[place][: 1 + 2 * K, : 1 + 2 * K].astype(np.float64), int(whole), int(n[place]))
            for part, whole, n in zip(strata, N, sampled, strict=True)
            if n[place] > 0
        ]
        total, weighted = np.zeros((K, K)), np.zeros(K)
        for part in parts:
            weighted += part.items * part.moments[0, 1 + K :] / part.drawn
        for moments, items, drawn in _collapsed(parts):
            mean = change @ moments[0] / drawn
            outer = np.outer(mean, mean)
            spread = ratio(change @ moments @ change.T - drawn * outer, drawn - 1)
            if items == 1:
                spread = np.zeros((K, K))
            total += items**2 * (1 / drawn - 1 / items) * spread
            if target == "population":
                total += items * (spread * (1 - 1 / drawn) + outer)
        out[place] = ratio(total, np.outer(weighted, weighted))
    return out


class _Part(NamedTuple):
    """Moments of the sampled items of a stratum, its items in all, and how many are sampled."""

    moments: Float
    items: int
    drawn: int


def _collapsed(parts: Sequence[_Part]) -> list[_Part]:
    """Strata of which a variance can be taken: those with one item of several put together."""
    single = [part for part in parts if part.drawn == 1 and part.items > 1]
    rest = sorted((part for part in parts if not (part.drawn == 1 and part.items > 1)), key=lambda p: p.drawn)
    if len(single) == 1 and rest:
        single.append(rest.pop(0))
    if not single:
        return rest
    moments, items, drawn = zip(*single, strict=True)
    return [_Part(np.sum(moments, axis=0), sum(items), sum(drawn)), *rest]

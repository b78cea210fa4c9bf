"""Random masks over a given matrix of labels, counted in packed bits."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError
from xjudge.statistics._loo_cells import largest_remainder
from xjudge.statistics._loo_counts import panel_of, planes
from xjudge.statistics._loo_design import check_design
from xjudge.statistics._loo_population import strata_of

__all__ = ["Mask", "MaskedCounts", "bernoulli_planes", "masked_counts"]

Counts = npt.NDArray[np.int64]

Mask = Literal["bernoulli", "exact"]

# Labels held at a time where trials are simulated one by one.
_LABELS = 1 << 22


class MaskedCounts(NamedTuple):
    """Pooled counts of a masked matrix, shapes (T, J, K): ``judge_hits``, ``human_hits``, ``overlap``."""

    judge_hits: Counts
    human_hits: Counts
    overlap: Counts


def bernoulli_planes(
    rng: np.random.Generator, shape: tuple[int, ...], probability: float
) -> npt.NDArray[np.uint64]:
    """Words of 64 independent bits, each set with the given probability (to 53 binary digits).

    Parameters
    ----------
    rng : Generator
    shape : tuple of int
        Of the words.
    probability : float
        In [0, 1].

    Returns
    -------
    ndarray of uint64

    Notes
    -----
    A bit compares a uniform number with the probability digit by digit; words whose 64 bits are all decided
    drop out, so about eleven random words are used for one.
    """
    full = np.uint64(2**64 - 1)
    if probability >= 1:
        return np.full(shape, full)
    out = np.zeros(int(np.prod(shape)), np.uint64)
    open_bits = np.full(out.shape, full)
    active = np.arange(len(out))
    digits: list[bool] = []
    rest = probability
    while rest > 0 and len(digits) < 53:
        rest *= 2
        digits.append(rest >= 1)
        rest -= digits[-1]
    for level, digit in enumerate(digits):
        if not len(active):
            break
        random = rng.integers(0, 2**64, len(active), dtype=np.uint64)
        undecided = open_bits[active] if len(active) < len(out) else open_bits
        if digit:
            out[active] |= undecided & ~random
            undecided = undecided & random
        else:
            undecided = undecided & ~random
        open_bits[active] = undecided
        if level >= 5:
            active = active[undecided != 0]
    return out.reshape(shape)


def masked_counts(
    humans: npt.ArrayLike,
    judges: npt.ArrayLike,
    design: str,
    share: float,
    n_trials: int,
    *,
    mask: Mask = "bernoulli",
    strata: npt.ArrayLike | None = None,
    seed: int | np.random.Generator = 0,
) -> MaskedCounts:
    """Mask a given matrix of labels at random and count every trial.

    Parameters
    ----------
    humans : array-like of int, shape (n, K) or (n, C, K)
        Negative = not answered; the first human keeps every label. With criteria, those of an item are
        masked together and pairs are pooled over them.
    judges : array-like of int, shape (n, J) or (n, C, J)
    design, share, n_trials, mask, seed
        As in :func:`simulate_trials`.
    strata : array-like of int, shape (n,), optional
        For the stratified designs; default the first human's label, items without one together. With
        ``strat_judge`` they depend on the judge, and with criteria on several labels, and have to be given.

    Returns
    -------
    MaskedCounts

    Notes
    -----
    Packed bits: ``K^2 J n / 128`` words per trial.
    """
    check_design(design)
    units, judged_units = panel_of(humans, judges)
    n, C, K = units.shape
    J = judged_units.shape[2]
    labels, verdicts = units.reshape(n * C, K), judged_units.reshape(n * C, J)
    if strata is None and (design == "strat_judge" or (design == "strat" and C > 1)):
        raise ProtocolError(
            f"design={design!r} depends on {'the judge' if design == 'strat_judge' else 'several labels'}: "
            "give its strata (`strata`)."
        )
    rng = np.random.default_rng(seed)
    groups = None
    if design.startswith("strat"):
        groups = (
            strata_of(units[:, 0, 0])
            if strata is None
            else np.unique(np.asarray(strata), return_inverse=True)[1]
        )
    answered = [planes(labels[:, k] >= 0) for k in range(K)]
    judged = [planes(verdicts[:, j] >= 0) for j in range(J)]
    agreed = [
        [planes((labels[:, k] == verdicts[:, j]) & (labels[:, k] >= 0)) for k in range(K)] for j in range(J)
    ]
    out = MaskedCounts(*(np.zeros((n_trials, J, K), np.int64) for _ in range(3)))
    block = max(1, _LABELS // max(1, n * C))
    for start in range(0, n_trials, block):
        size = min(block, n_trials - start)
        part = MaskedCounts(*(field[start : start + size] for field in out))
        shown = _masks(rng, design, share, mask, size, n, K, groups, C)
        for k in range(K):
            for q in range(k):
                # Under a shared subset one mask stands for all, and the first human has none of his own.
                joint = shown[k] if q == 0 else shown[k] & shown[q]
                both = answered[k] & answered[q]
                same = planes(labels[:, k] == labels[:, q]) & both
                for j in range(J):
                    met, alike = _popcount(joint & (both & judged[j])), _popcount(joint & (same & judged[j]))
                    for a, b in ((k, q), (q, k)):
                        part.overlap[:, j, a] += met
                        part.human_hits[:, j, a] += alike
                        part.judge_hits[:, j, a] += _popcount(joint & (answered[a] & agreed[j][b]))
    return out


def subsets(
    rng: np.random.Generator, n_trials: int, n: int, m: int, groups: npt.NDArray[np.intp] | None
) -> npt.NDArray[np.bool_]:
    """Random subsets of exactly ``m`` items, in proportion from groups where given."""
    chosen = np.zeros((n_trials, n), dtype=bool)
    groups = np.zeros(n, np.intp) if groups is None else groups
    sizes = np.bincount(groups)
    for s, take in enumerate(largest_remainder(m, sizes)):
        places = np.nonzero(groups == s)[0]
        if take == 0:
            continue
        keys = rng.random((n_trials, len(places)), dtype=np.float32)
        if take < len(places):
            picked = np.argpartition(keys, take - 1, axis=1)[:, :take]
        else:
            picked = np.broadcast_to(np.arange(len(places)), keys.shape)
        np.put_along_axis(chosen, places[picked], True, axis=1)
    return chosen


# ---------------------------------------------------------------------------------------------- private


def _masks(
    rng: np.random.Generator,
    design: str,
    share: float,
    mask: Mask,
    n_trials: int,
    n: int,
    K: int,
    groups: npt.NDArray[np.intp] | None,
    n_criteria: int,
) -> list[npt.NDArray[np.uint64]]:
    """Packed masks (T, words), one per human; the first, who labels everything, has an empty one."""
    nothing = np.zeros((0, 0), np.uint64)

    def drawn() -> npt.NDArray[np.uint64]:
        if mask == "exact" or design != "random":
            chosen = subsets(rng, n_trials, n, round(share * n), groups)
        elif n_criteria == 1:
            return bernoulli_planes(rng, (n_trials, -(-n // 64)), share)
        else:
            chosen = rng.random((n_trials, n)) < share
        return planes(chosen if n_criteria == 1 else np.repeat(chosen, n_criteria, axis=1))

    if design == "random":
        return [nothing] + [drawn() for _ in range(K - 1)]
    return [nothing] + [drawn()] * (K - 1)


def _popcount(words: npt.NDArray[np.uint64]) -> Counts:
    return np.bitwise_count(words).sum(axis=-1, dtype=np.int64)

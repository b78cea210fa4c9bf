"""Integer counts of the leave-one-out comparisons: additive over items, so a chunked pass can sum them.

For held-out human ``k`` and another human ``q`` (LOO.md section 1): ``w_kq`` items both labelled, ``a_kq``
of them on which the judge agrees with ``q``, ``h_kq`` on which ``k`` agrees with ``q``. The judge is scored
only on items that ``k`` labelled too, and an item that the judge did not label counts nowhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from xjudge.codes import to_codes
from xjudge.errors import OverlapError, StructureError
from xjudge.statistics._loo_merged import merged_counts

__all__ = [
    "LooCounts",
    "PairMoments",
    "add_counts",
    "codes_of",
    "loo_counts",
    "loo_pair_counts",
    "loo_pair_moments",
    "panel_of",
    "planes",
    "units_of",
]

Counts = npt.NDArray[np.int64]
Codes = npt.NDArray[np.signedinteger]
_T = TypeVar("_T", "LooCounts", "PairMoments")

# Items whose moment vectors are multiplied at a time: the sums of a block stay exact in double precision.
_BLOCK = 1 << 15

# Beyond, the second moments of pairs do not fit: 1 GiB per judge at 76 humans.
_MOST_HUMANS = 32


class LooCounts(NamedTuple):
    """Sums over items that the leave-one-out rule needs; ``...`` is ``(judge,)``, or nothing for one judge.

    Attributes
    ----------
    judge_hits, human_hits, overlap : ndarray of int64, shape (..., K, K)
        ``a_kq``, ``h_kq``, ``w_kq``; the first axis is the held-out human. Diagonals are zero.
    n_items : ndarray of int64, shape (..., K)
        Items on which comparison ``k`` has at least one pair.
    moments : ndarray of int64, shape (..., V, V)
        Sums over items of ``v v'`` with ``v = (1, z_1..z_K, w_1..w_K)``, where ``z_k`` is the item's
        ``sum_q [judge = q] - [k = q]`` and ``w_k`` its number of pairs. With a control, ``v`` goes on with
        ``(w_1 f..w_K f, f, u)``: ``f`` says that the judge agrees with the first human, ``u`` counts units.
    """

    judge_hits: Counts
    human_hits: Counts
    overlap: Counts
    n_items: Counts
    moments: Counts


class PairMoments(NamedTuple):
    """First and second moments of single pairs ``e_kq = [judge = q] - [k = q]``; additive over items.

    Attributes
    ----------
    difference, overlap : ndarray, shape (..., K, K)
        Sums of ``e_kq`` and of the indicator ``d_kq`` that both labelled the item.
    second, mixed, joint : ndarray, shape (..., K, K, K, K)
        Sums of ``e_kq e_lr``, ``e_kq d_lr`` and ``d_kq d_lr``.
    n_items : ndarray, shape (...)
        Items that the judge labelled.
    """

    difference: npt.NDArray[np.number]
    overlap: npt.NDArray[np.number]
    second: npt.NDArray[np.number]
    mixed: npt.NDArray[np.number]
    joint: npt.NDArray[np.number]
    n_items: npt.NDArray[np.number]


def add_counts(parts: Iterable[_T]) -> _T:
    """Sum the counts of disjoint sets of items.

    Parameters
    ----------
    parts : iterable of LooCounts or of PairMoments
        At least one, all of one shape.

    Returns
    -------
    LooCounts or PairMoments

    Examples
    --------
    >>> parts = [loo_counts([[0, 0]], [0]), loo_counts([[1, 0]], [1])]
    >>> add_counts(parts).judge_hits
    array([[0, 1],
           [2, 0]])
    """
    parts = list(parts)
    return type(parts[0])(*(sum(fields[1:], start=fields[0]) for fields in zip(*parts, strict=True)))


def planes(flags: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint64]:
    """Pack flags along the last axis into words of 64, zeros at the end."""
    packed = np.packbits(flags, axis=-1)
    short = -packed.shape[-1] % 8
    if short:
        packed = np.concatenate([packed, np.zeros((*packed.shape[:-1], short), np.uint8)], axis=-1)
    return np.ascontiguousarray(packed).view(np.uint64)


def loo_pair_counts(humans: npt.ArrayLike, judge: npt.ArrayLike) -> tuple[Counts, Counts, Counts]:
    """Count pairs for whole batches of label matrices: one judge each, leading dims broadcast.

    Parameters
    ----------
    humans : array-like of int, shape (..., n, K)
        Codes; negative = not answered.
    judge : array-like of int, shape (..., n)

    Returns
    -------
    judge_hits, human_hits, overlap : ndarray of int64, shape (..., K, K)
        ``a_kq``, ``h_kq``, ``w_kq`` with the held-out human on the first axis.

    Notes
    -----
    Packed bits, ``K^2`` population counts: cost ``K^2 n / 64`` words per matrix.

    Examples
    --------
    >>> a, h, w = loo_pair_counts([[0, 0], [1, 0], [1, -1]], [0, 0, 1])
    >>> a[0, 1], h[0, 1], w[0, 1]
    (np.int64(2), np.int64(1), np.int64(2))
    """
    labels, verdicts = codes_of(humans, "humans"), codes_of(judge, "judge")
    if labels.ndim < 2 or verdicts.ndim < 1 or labels.shape[-2] != verdicts.shape[-1]:
        raise StructureError(
            f"`humans` must be (..., item, human) and `judge` (..., item) with the same items; "
            f"got shapes {labels.shape} and {verdicts.shape}."
        )
    K = labels.shape[-1]
    columns = [labels[..., k] for k in range(K)]
    judged = planes(verdicts >= 0)
    answered = [planes(column >= 0) for column in columns]
    agreed = [planes((column == verdicts) & (column >= 0)) for column in columns]
    shape = np.broadcast_shapes(labels.shape[:-2], verdicts.shape[:-1])
    hits, human_hits, overlap = (np.zeros((*shape, K, K), np.int64) for _ in range(3))
    for k in range(K):
        for q in range(K):
            if q != k:
                hits[..., k, q] = _popcount(answered[k] & agreed[q])
        for q in range(k):
            both = answered[k] & answered[q] & judged
            overlap[..., k, q] = overlap[..., q, k] = _popcount(both)
            same = planes(columns[k] == columns[q]) & both
            human_hits[..., k, q] = human_hits[..., q, k] = _popcount(same)
    return hits, human_hits, overlap


def loo_counts(humans: npt.ArrayLike, judge: npt.ArrayLike, *, control: bool = False) -> LooCounts:
    """Count the leave-one-out comparisons of one judge, or of several at once.

    Parameters
    ----------
    humans : array-like of int, shape (n, K) or (n, C, K)
        Codes; negative = not answered. With an axis of criteria the pairs are pooled over it, and the
        item, not the decision, stays the unit of the second moments.
    judge : array-like of int, shape (n,) or (n, J); with criteria (n, C) or (n, C, J)
    control : bool
        Also count what the control-variate margin needs: agreement of the judge with the first human,
        which must then be known wherever the judge answered.

    Returns
    -------
    LooCounts
        With a leading judge axis where ``judge`` has one. Sums of counts of disjoint items are the counts
        of their union (:func:`add_counts`).

    Raises
    ------
    StructureError
        Where the shapes do not fit or there is no human.
    OverlapError
        With ``control``, where the first human left out an item that the judge labelled.

    Notes
    -----
    One pass over the items. Without criteria, and where label rows are few beside the items, equal items are
    counted together: one joint count per judge. Otherwise ``K^2`` comparisons per item and judge.

    Examples
    --------
    >>> counts = loo_counts([[0, 0, 1], [1, 1, -1]], [0, 1])
    >>> counts.overlap.sum(axis=-1)
    array([3, 3, 2])
    """
    units, verdicts = units_of(humans, judge)
    n, C, K = units.shape[:3]
    J = verdicts.shape[-1]
    one = np.ndim(judge) == np.ndim(humans) - 1
    merged = None if control or C > 1 else merged_counts(units[:, 0], verdicts[:, 0])
    if merged is not None:
        return LooCounts(*(field[0] for field in merged)) if one else LooCounts(*merged)
    flat = units.reshape(n * C, K)
    hits, human_hits, overlap = loo_pair_counts(flat[None], verdicts.reshape(n * C, J).T)
    size = 3 * K + 3 if control else 2 * K + 1
    n_items, moments = np.zeros((J, K), np.int64), np.zeros((J, size, size), np.int64)
    for start in range(0, n, _BLOCK):
        block = slice(start, start + _BLOCK)
        same, answered = _human_agreement(units[block])
        for j in range(J):
            vectors = _item_vectors(units[block], verdicts[block, :, j], same, answered, control=control)
            n_items[j] += np.count_nonzero(vectors[1 + K : 1 + 2 * K], axis=1)
            moments[j] += np.rint(vectors @ vectors.T).astype(np.int64)
    counts = LooCounts(hits, human_hits, overlap, n_items, moments)
    return LooCounts(*(field[0] for field in counts)) if one else counts


def loo_pair_moments(humans: npt.ArrayLike, judge: npt.ArrayLike) -> PairMoments:
    """Second moments of single pairs: for the other pooling, for targets and for designs.

    Parameters
    ----------
    humans, judge : array-like of int
        As for :func:`loo_counts`.

    Returns
    -------
    PairMoments
        Integers; with a leading judge axis where ``judge`` has one.

    Raises
    ------
    StructureError
        With more than 32 humans: there are ``K^4`` numbers per judge.

    Notes
    -----
    ``K^4`` multiplications per item.
    """
    units, verdicts = units_of(humans, judge)
    n, C, K = units.shape[:3]
    J = verdicts.shape[-1]
    if K > _MOST_HUMANS:
        raise StructureError(
            f"Second moments of pairs are counted for at most {_MOST_HUMANS} humans (they are K^4 numbers); "
            f"got {K}. Use pooling='items' and target='population', or fewer humans."
        )
    size = K * K
    first = np.zeros((J, 2 * size), np.int64)
    second = np.zeros((J, 2 * size, 2 * size), np.int64)
    n_items = np.zeros(J, np.int64)
    block_size = max(1, _BLOCK // max(1, size * C))
    for start in range(0, n, block_size):
        block = units[start : start + block_size]
        both = (block[..., :, None] >= 0) & (block[..., None, :] >= 0) & ~np.eye(K, dtype=bool)
        same = (block[..., :, None] == block[..., None, :]).astype(np.int8)
        for j in range(J):
            judged = verdicts[start : start + block_size, :, j]
            agreed = (block == judged[..., None]).astype(np.int8)[..., None, :]
            pairs = both & (judged >= 0)[..., None, None]
            difference = np.where(pairs, agreed - same, 0).sum(axis=1).reshape(len(block), size)
            vectors = np.concatenate([difference, pairs.sum(axis=1).reshape(len(block), size)], axis=1)
            doubles = vectors.astype(np.float64)
            first[j] += vectors.sum(axis=0)
            second[j] += np.rint(doubles.T @ doubles).astype(np.int64)
            n_items[j] += np.count_nonzero((judged >= 0).any(axis=1))
    square = (J, K, K)
    fields = (
        first[:, :size].reshape(square),
        first[:, size:].reshape(square),
        second[:, :size, :size].reshape(J, K, K, K, K),
        second[:, :size, size:].reshape(J, K, K, K, K),
        second[:, size:, size:].reshape(J, K, K, K, K),
        n_items,
    )
    one = np.ndim(judge) == np.ndim(humans) - 1
    return PairMoments(*(field[0] for field in fields)) if one else PairMoments(*fields)


def codes_of(labels: npt.ArrayLike, name: str) -> Codes:
    """Read labels as integer codes; NaN is no answer.

    Raises
    ------
    StructureError
        Where they are not numbers; ``name`` is the argument.
    """
    array = np.asarray(labels)
    if array.dtype.kind not in "biuf":
        raise StructureError(f"`{name}` must hold integer codes; got dtype {array.dtype}.")
    return to_codes(array)


def panel_of(humans: npt.ArrayLike, judges: npt.ArrayLike) -> tuple[Codes, Codes]:
    """Read labels (n, K) or (n, C, K) and verdicts of several judges (n, J) or (n, C, J), with criteria.

    Raises
    ------
    StructureError
    """
    if np.ndim(judges) != np.ndim(humans):
        raise StructureError(
            f"`humans` must be (item, human) and `judges` (item, judge) with the same items, both with "
            f"criteria between or neither; got shapes {np.shape(humans)} and {np.shape(judges)}."
        )
    return units_of(humans, judges)


def units_of(humans: npt.ArrayLike, judge: npt.ArrayLike) -> tuple[Codes, Codes]:
    """Read labels as (item, criterion, human) and verdicts as (item, criterion, judge).

    Raises
    ------
    StructureError
    """
    labels, verdicts = codes_of(humans, "humans"), codes_of(judge, "judge")
    if labels.ndim not in (2, 3) or verdicts.ndim not in (labels.ndim - 1, labels.ndim):
        raise StructureError(
            f"`humans` must be (item, human) or (item, criterion, human), and `judge` the same without, "
            f"or with, a last axis of judges; got shapes {labels.shape} and {verdicts.shape}."
        )
    if verdicts.ndim < labels.ndim:
        verdicts = verdicts[..., None]
    if labels.shape[:-1] != verdicts.shape[:-1] or labels.shape[-1] == 0:
        raise StructureError(
            f"`humans` and `judge` must have the same items (and criteria) and at least one human; "
            f"got shapes {labels.shape} and {verdicts.shape}."
        )
    if labels.ndim == 2:
        labels, verdicts = labels[:, None], verdicts[:, None]
    return labels, verdicts


# ---------------------------------------------------------------------------------------------- private


def _small(K: int) -> type[np.signedinteger]:
    """Integers that hold numbers of humans."""
    return np.int16 if K < 2**14 else np.int64


def _human_agreement(units: Codes) -> tuple[npt.NDArray[np.signedinteger], npt.NDArray[np.bool_]]:
    """Per human, item and criterion: with how many others it agrees, and whether it answered."""
    K = units.shape[-1]
    columns = [np.ascontiguousarray(units[..., k]) for k in range(K)]
    answered = np.stack([column >= 0 for column in columns])
    same = np.zeros((K, *units.shape[:2]), _small(K))
    for k in range(K):
        for q in range(k):
            equal = (columns[k] == columns[q]) & answered[k]
            same[k] += equal
            same[q] += equal
    return same, answered


def _item_vectors(
    units: Codes,
    verdicts: Codes,
    same: npt.NDArray[np.signedinteger],
    answered: npt.NDArray[np.bool_],
    *,
    control: bool,
) -> npt.NDArray[np.floating]:
    """Moment vectors ``v`` of the items of a block, one column each (see :class:`LooCounts`)."""
    judged = np.asarray(verdicts >= 0)
    present = np.asarray(answered & judged)
    agreed = np.asarray((np.moveaxis(units, -1, 0) == verdicts) & present)
    small = same.dtype
    pairs = (present.sum(axis=0, dtype=small) - small.type(1)) * present
    z = (agreed.sum(axis=0, dtype=small) - agreed - same) * present
    # `same` counts humans only; where the judge did not answer, `present` has already removed the unit.
    rows = [np.asarray(judged.any(axis=1))[None], _over_criteria(z), _over_criteria(pairs)]
    if control:
        n_unknown = int(np.count_nonzero(np.any(judged & ~answered[0], axis=1)))
        if n_unknown:
            raise OverlapError(
                f"The control variate needs the first human's label on every item that the judge labelled; "
                f"{n_unknown} items have none. "
                f"Put the human who labelled everything first, or do without the control."
            )
        first = np.stack([agreed[0], judged])
        rows += [_over_criteria(pairs * agreed[0]), _over_criteria(first)]
    # Sums of products over a block have to stay exact; in single precision they are twice as fast.
    largest = units.shape[1] * units.shape[2]
    exact = len(units) * largest**2 < 2**24
    return np.concatenate(rows, dtype=np.float32 if exact else np.float64)


def _over_criteria(values: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """Sum over the last axis, which most often has one place."""
    return values[..., 0] if values.shape[-1] == 1 else np.asarray(values.sum(axis=-1))


def _popcount(words: npt.NDArray[np.uint64]) -> Counts:
    return np.bitwise_count(words).sum(axis=-1, dtype=np.int64)

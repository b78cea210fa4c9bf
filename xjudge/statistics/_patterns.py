"""From label codes to item-by-category counts, and from those to the few distinct count vectors.

A coefficient of many raters sees of an item only how many of its labels fall in each category. With R
raters and L categories there are at most ``C(R + L, L)`` such count vectors (1,287 for 8 raters and 5
categories), however many items there are. So one pass over the labels leaves a small histogram, *patterns
with multiplicities*, from which every coefficient, every weighting, analytic variances, the jackknife and
the item bootstrap follow exactly. Histograms of chunks merge into the histogram of the whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.errors import StructureError
from xjudge.statistics._kernels import compiled, side_of

__all__ = ["Histogram", "count_vector_histogram", "count_vectors", "histogram_of_counts", "merge_histograms"]

Integers = npt.NDArray[np.int64]

_BLOCK = 1 << 16
"""Items counted at a time."""

_LARGEST_TABLE = 1 << 22
"""Bins up to which count vectors are counted in a table; above, they are sorted."""

_LARGEST_CODE = 1 << 62


class Histogram(NamedTuple):
    """Distinct count vectors in lexicographic order, and how many items have each."""

    patterns: Integers
    """Shape (pattern, L): labels of an item in each category."""
    multiplicities: Integers
    """Shape (pattern,): items with that count vector, at least 1."""


def count_vectors(labels: npt.ArrayLike, n_categories: int) -> Integers:
    """Labels of each item in each category.

    Parameters
    ----------
    labels : array-like of int, shape (..., item, rater)
        Category codes ``0 .. L-1``; any negative code means no label.
    n_categories : int
        L, the number of declared categories, used or not.

    Returns
    -------
    ndarray of int64, shape (..., item, L)

    Raises
    ------
    StructureError
        Labels that are not integers, or a code of L or above.

    Examples
    --------
    >>> count_vectors([[0, 1, 1], [2, -1, -1]], 3)
    array([[1, 2, 0],
           [0, 0, 1]])
    """
    codes = _checked_labels(labels, n_categories)
    rater_major = np.moveaxis(codes, -1, 0).reshape(codes.shape[-1], -1)
    counts = _count_block(rater_major, n_categories)
    return counts.T.astype(np.int64, order="C").reshape(*codes.shape[:-1], n_categories)


def count_vector_histogram(labels: npt.ArrayLike, n_categories: int) -> Histogram:
    """Distinct count vectors of the items and how often each occurs, in one pass.

    Parameters
    ----------
    labels : array-like of int, shape (item, rater)
        Category codes ``0 .. L-1``; any negative code means no label.
    n_categories : int
        L, the number of declared categories, used or not.

    Returns
    -------
    Histogram
        ``patterns`` (pattern, L) in lexicographic order and ``multiplicities`` (pattern,). Items without a
        label are a pattern too (all zeros), so multiplicities sum to the number of items.

    Raises
    ------
    StructureError
        Labels that are not integers or not two-dimensional, or a code of L or above.

    Notes
    -----
    Where ``(R + 1)^L`` is at most about 4 million, each block of items is compared with each category, the
    matches are added up as small integers, the sums become one mixed-radix number and those are counted in
    a table: 1 to 2 G labels/s on one core, and a few megabytes whatever the number of items; 4 G labels/s
    with numba (the ``fast`` extra) from half a million labels on. Otherwise the numbers are sorted, block by
    block.

    Examples
    --------
    >>> count_vector_histogram([[0, 1, 1], [1, 0, 1], [2, -1, -1]], 3)
    Histogram(patterns=array([[0, 0, 1],
           [1, 2, 0]]), multiplicities=array([1, 2]))
    """
    codes = _checked_labels(labels, n_categories, check_range=False)
    if codes.ndim != 2:
        raise StructureError(f"`labels` needs shape (item, rater); got {codes.shape}.")
    n_items, n_raters = codes.shape
    # exact integers: the number of bins soon exceeds 64 bits
    table = (n_raters + 1) ** n_categories <= _LARGEST_TABLE
    totals = np.zeros((n_raters + 1) ** n_categories if table else 0, dtype=np.int64)
    parts: list[Histogram] = []
    counted = table and _count_compiled(codes, n_categories, totals)
    for start in range(0, 0 if counted else n_items, _BLOCK):
        block = np.ascontiguousarray(codes[start : start + _BLOCK].T)
        _check_range(block, n_categories)
        counts = _count_block(block, n_categories)
        if table:
            found = np.bincount(_radix_codes(counts, n_raters + 1))
            totals[: len(found)] += found
        else:
            parts.append(_distinct(counts.T, np.ones(counts.shape[1], dtype=np.int64), n_raters + 1))
    if not table:
        return merge_histograms(parts, n_categories=n_categories)
    present = np.flatnonzero(totals)
    return Histogram(_digits(present, n_raters + 1, n_categories), totals[present])


def histogram_of_counts(counts: npt.ArrayLike) -> Histogram:
    """Distinct count vectors of items whose counts are given, as of anonymous labels.

    Parameters
    ----------
    counts : array-like of int, shape (item, L)
        Labels of each item in each category.

    Returns
    -------
    Histogram
        As :func:`count_vector_histogram`.

    Raises
    ------
    StructureError
        Counts that are not integers, negative, or not of that shape.

    Notes
    -----
    Where ``(largest count + 1)^L`` is at most about 4 million, vectors are counted in a table; otherwise they
    are sorted. Blocks of items at a time, so the extra memory depends on the distinct vectors only.

    Examples
    --------
    >>> histogram_of_counts([[1, 2], [0, 3], [1, 2]])
    Histogram(patterns=array([[0, 3],
           [1, 2]]), multiplicities=array([1, 2]))
    """
    values = np.asarray(counts)
    if values.ndim != 2 or values.dtype.kind not in "iu" or values.shape[1] < 1:
        raise StructureError(
            f"Counts are integers of shape (item, L); got {values.dtype} of shape {values.shape}."
        )
    if values.size and values.min() < 0:
        raise StructureError("Counts are not negative; use `count_vector_histogram` for label codes.")
    n_categories = values.shape[1]
    radix = int(values.max(initial=0)) + 1
    table = radix**n_categories <= _LARGEST_TABLE
    totals = np.zeros(radix**n_categories if table else 0, dtype=np.int64)
    parts: list[Histogram] = []
    for start in range(0, len(values), _BLOCK):
        block = values[start : start + _BLOCK].astype(np.int64)
        if table:
            found = np.bincount(_radix_codes(block.T, radix))
            totals[: len(found)] += found
        else:
            parts.append(_distinct(block, np.ones(len(block), dtype=np.int64), radix))
    if not table:
        return merge_histograms(parts, n_categories=n_categories)
    present = np.flatnonzero(totals)
    return Histogram(_digits(present, radix, n_categories), totals[present])


def merge_histograms(histograms: Iterable[Histogram], n_categories: int | None = None) -> Histogram:
    """Histogram of all items together from histograms of parts of them.

    Parameters
    ----------
    histograms : iterable of Histogram
        Of the same categories. The result does not depend on how the items were divided.
    n_categories : int, optional
        L; needed only where there may be no histogram at all.

    Returns
    -------
    Histogram

    Raises
    ------
    StructureError
        No histogram and no ``n_categories``, or histograms of different numbers of categories.

    Examples
    --------
    >>> one = count_vector_histogram([[0, 1], [1, 1]], 2)
    >>> other = count_vector_histogram([[1, 0]], 2)
    >>> merge_histograms([one, other])
    Histogram(patterns=array([[0, 2],
           [1, 1]]), multiplicities=array([1, 2]))
    """
    parts = list(histograms)
    widths = {part.patterns.shape[1] for part in parts} | ({n_categories} if n_categories else set())
    if len(widths) != 1:
        raise StructureError(f"Histograms to merge need one number of categories; got {sorted(widths)}.")
    if not parts:
        return Histogram(np.empty((0, widths.pop()), dtype=np.int64), np.empty(0, dtype=np.int64))
    patterns = np.concatenate([part.patterns for part in parts])
    multiplicities = np.concatenate([part.multiplicities for part in parts])
    return _distinct(patterns, multiplicities, int(patterns.max(initial=0)) + 1)


def _checked_labels(
    labels: npt.ArrayLike, n_categories: int, *, check_range: bool = True
) -> npt.NDArray[np.integer]:
    codes = np.asarray(labels)
    if codes.dtype.kind not in "iu" or codes.ndim < 2:
        raise StructureError(
            f"`labels` must be integer codes of shape (..., item, rater); got {codes.dtype} of shape "
            f"{codes.shape}."
        )
    if n_categories < 1:
        raise StructureError(f"`n_categories` must be at least 1; got {n_categories}.")
    if check_range:
        _check_range(codes, n_categories)
    return codes


def _check_range(codes: npt.NDArray[np.integer], n_categories: int) -> None:
    largest = int(codes.max(initial=-1)) if codes.dtype.kind == "i" else int(codes.max(initial=0))
    if codes.size:
        _check_largest(largest, n_categories)


def _check_largest(largest: int, n_categories: int) -> None:
    if largest >= n_categories:
        raise StructureError(
            f"Code {largest} is outside the {n_categories} declared categories 0 to {n_categories - 1}."
        )


def _count_compiled(codes: npt.NDArray[np.integer], n_categories: int, totals: Integers) -> bool:
    """Count the vectors of items in a table by the compiled kernel; whether there is one for these labels."""
    if codes.dtype.kind != "i" or codes.shape[1] > np.iinfo(np.int8).max:
        return False
    side, fast = side_of(codes[:, :, None]), compiled(codes.size)
    if side is None or fast is None:
        return False
    _check_largest(
        fast.count_vectors(side.layout, side.columns, len(codes), n_categories, totals), n_categories
    )
    return True


def _count_block(block: npt.NDArray[np.integer], n_categories: int) -> npt.NDArray[np.unsignedinteger]:
    """Counts (L, item) of a rater-major block, in the smallest integer that holds the raters."""
    n_raters, n_items = block.shape
    dtype = np.min_scalar_type(n_raters)
    counts = np.zeros((n_categories, n_items), dtype=dtype)
    match = np.empty(n_items, dtype=np.bool_)
    one = match.view(np.uint8)
    for category, total in enumerate(counts):
        for row in block:
            np.equal(row, category, out=match)
            np.add(total, one, out=total)
    return counts


def _radix_codes(counts: npt.NDArray[np.integer], radix: int) -> npt.NDArray[np.unsignedinteger]:
    """Count vectors as one number each; the first category is the most significant digit."""
    dtype = np.min_scalar_type(radix ** len(counts) - 1)
    codes = counts[0].astype(dtype)
    for digit in counts[1:]:
        codes *= dtype.type(radix)
        codes += digit.astype(dtype, copy=False)
    return codes


def _digits(codes: Integers, radix: int, n_digits: int) -> Integers:
    out = np.empty((len(codes), n_digits), dtype=np.int64)
    rest = codes
    for place in reversed(range(n_digits)):
        rest, out[:, place] = np.divmod(rest, radix)
    return out


def _distinct(patterns: npt.NDArray[np.integer], weights: Integers, radix: int) -> Histogram:
    """Merge equal rows; rows come out in lexicographic order.

    As many digits as fit are folded into one 64-bit number; where more follow, the numbers so far are first
    replaced by their rank, which keeps their order.
    """
    if not len(patterns):
        return Histogram(patterns.astype(np.int64), weights)
    codes = np.zeros(len(patterns), dtype=np.int64)
    bound = 1
    for place in range(patterns.shape[1]):
        if bound * radix > _LARGEST_CODE:
            distinct, codes = np.unique(codes, return_inverse=True)
            bound = len(distinct)
        codes = codes * radix + patterns[:, place]
        bound *= radix
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    return Histogram(
        patterns[order[starts]].astype(np.int64), np.add.reduceat(weights[order], starts).astype(np.int64)
    )

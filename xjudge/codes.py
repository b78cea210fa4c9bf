"""The reserved codes of a label array, and the raw axis on which labels are counted.

A label is one small signed integer, so outcomes cannot contradict each other: ``0 .. L-1`` is a category
of the scale, and three negative codes say why there is none. The *raw axis* of a count table has ``L + 3``
places: the categories, then missing, cannot assess, invalid. Codes outside both are kept in a bucket of
their own (:data:`xjudge.statistics.counts.OUTSIDE`) and end in an error, never in a table.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final, cast

import numpy as np
import numpy.typing as npt

MISSING: Final = -1
"""The rater was never asked; carries no information. Also the fill value of every alignment."""

CA: Final = -2
"""Cannot assess: the rater looked and declined."""

INVALID: Final = -3
"""An output was produced that cannot be read as any category."""

EXCLUDED: Final = -4
"""An answer that a protocol leaves out (a tie); only in columns of protocol codes, never in labels."""

OUTCOMES: Final = {"missing": MISSING, "ca": CA, "invalid": INVALID}
"""The outcomes without a category, by name, in the order of the raw axis."""

N_OUTCOMES: Final = len(OUTCOMES)

LARGEST_SCORE: Final = 1e70
"""Size of a score on a continuous scale, beyond which the fourth powers in variances overflow."""


def n_raw(n_categories: int) -> int:
    """Length of the raw axis for a scale of ``n_categories``."""
    return n_categories + N_OUTCOMES


def raw_index(outcome: str, n_categories: int) -> int:
    """Place of an outcome (``"missing"``, ``"ca"``, ``"invalid"``) on the raw axis."""
    return n_categories - 1 - OUTCOMES[outcome]


def raw_names(categories: tuple[object, ...]) -> list[str]:
    """Names along the raw axis: the categories as text, then the outcomes.

    An outcome whose name a category already has is put in angle brackets.
    """
    names = [str(category) for category in categories]
    for outcome in OUTCOMES:
        names.append(unused_name(outcome, names))
    return names


def unused_name(name: str, taken: Container[object]) -> str:
    """``name``, in as many angle brackets as it takes to differ from every name that is taken."""
    while name in taken:
        name = f"<{name}>"
    return name


def smallest_dtype(n_categories: int) -> np.dtype[np.signedinteger]:
    """Return the smallest signed integer that holds ``n_categories`` codes and the reserved ones."""
    for dtype in (np.int8, np.int16, np.int32):
        if n_categories - 1 <= np.iinfo(dtype).max:
            return np.dtype(dtype)
    return np.dtype(np.int64)


def to_codes(labels: npt.NDArray[np.generic]) -> npt.NDArray[np.signedinteger]:
    """Labels as integer codes: integral floats become integers, NaN becomes missing.

    ``where`` and outer joins leave floats with NaN behind; those are read as what they were. A float that
    is not integral becomes the least code of its dtype, which is outside every scale and so is reported by
    the counting pass.

    Parameters
    ----------
    labels : ndarray of int or float, any shape

    Returns
    -------
    ndarray of signed int, same shape; the input itself where it is a signed integer already.
    """
    if labels.dtype.kind == "i":
        return cast("npt.NDArray[np.signedinteger]", labels)
    if labels.dtype.kind == "u":
        if labels.dtype.itemsize < 8:
            return labels.astype(np.result_type(labels.dtype, np.int8))
        return np.minimum(labels, np.uint64(np.iinfo(np.int64).max)).astype(np.int64)
    if labels.dtype.itemsize < 4:  # half precision does not hold the least code
        labels = labels.astype(np.float32)
    out = np.full(labels.shape, MISSING, dtype=np.int32)
    finite = np.isfinite(labels)
    values = labels[finite]
    whole = np.rint(values)
    bounds = np.iinfo(np.int32)
    readable = (values == whole) & (np.abs(values) < bounds.max)
    out[finite] = np.where(readable, whole, bounds.min).astype(np.int32)
    out[np.isinf(labels)] = bounds.min
    return out


def translate(
    codes: npt.NDArray[np.signedinteger], targets: tuple[int, ...]
) -> npt.NDArray[np.signedinteger]:
    """Raw codes as the codes of a protocol.

    Parameters
    ----------
    codes : ndarray of signed int, any shape
    targets : tuple of int
        Per place of the raw axis the new code; see :attr:`xjudge.protocol.Resolved.targets`.

    Returns
    -------
    ndarray of signed int, same shape
        Codes outside the raw axis (masked, or unknown) become missing.
    """
    n_categories = len(targets) - N_OUTCOMES
    dtype = smallest_dtype(max(targets) + 1)
    table = np.array([*targets, MISSING], dtype=dtype)
    if codes.dtype.itemsize == 1:
        wide = np.full(256, MISSING, dtype=dtype)
        reachable = min(n_categories, 128)  # int8 labels of a longer scale
        wide[:reachable] = table[:reachable]
        wide[[code % 256 for code in OUTCOMES.values()]] = table[n_categories:-1]
        return wide[codes.view(np.uint8)]
    inside = (codes < n_categories) & (codes >= -N_OUTCOMES)
    place = np.where(codes >= 0, codes, n_categories - 1 - codes.astype(np.int64))
    return table[np.where(inside, place, len(targets))]

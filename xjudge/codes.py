"""The reserved codes of a label array, and the raw axis on which labels are counted.

A label is one small signed integer, so outcomes cannot contradict each other: ``0 .. L-1`` is a category
of the scale, and three negative codes say why there is none. The *raw axis* of a count table has ``L + 3``
places: the categories, then missing, cannot assess, invalid. Codes outside both are kept in a bucket of
their own (:data:`xjudge.statistics.counts.OUTSIDE`) and end in an error, never in a table.
"""

from __future__ import annotations

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
    return names + [f"<{name}>" if name in names else name for name in OUTCOMES]


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
        return labels.astype(np.result_type(labels.dtype, np.int8) if labels.dtype.itemsize < 8 else np.int64)
    out = np.full(labels.shape, MISSING, dtype=np.int32)
    finite = np.isfinite(labels)
    values = labels[finite]
    whole = np.rint(values)
    bounds = np.iinfo(np.int32)
    readable = (values == whole) & (np.abs(values) < bounds.max)
    out[finite] = np.where(readable, whole, bounds.min).astype(np.int32)
    out[np.isinf(labels)] = bounds.min
    return out

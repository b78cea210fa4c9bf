"""Cells of tables with unresolved cases, completed 2 x 2 tables, and binary statistics of them.

Every function works on flat arrays, one entry a table: int64 for whole cases, float64 for masses.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError, Reason, StructureError

__all__ = [
    "STATISTICS",
    "Cells",
    "CertifiedRange",
    "Completed",
    "Range",
    "as_cells",
    "binary_counts",
    "cells_of",
    "check_statistic",
    "checked_counts",
    "denominator_is_zero",
    "evaluate_completed",
    "reason_of",
]

Array = npt.NDArray[Any]
Float = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

STATISTICS: Final = (
    "accuracy",
    "precision",
    "recall",
    "specificity",
    "balanced_accuracy",
    "f1",
    "kappa",
    "phi",
    "rate_reference",
    "rate_rater",
)

_LARGEST_CELL: Final = 2**49  # nine of them stay below 2**53, where float64 still holds every integer
_LARGEST_PLAIN_TOTAL: Final = 6_074_000_999  # |n00 n11 - n01 n10| <= N^2 / 4 < 2**63


class Range(NamedTuple):
    """Both ends of an identification range and, where they are NaN, the reason."""

    lower: Float
    upper: Float
    reason: npt.NDArray[np.int8]


class CertifiedRange(NamedTuple):
    """Both ends of an identification range, whether they are sharp, and the reason where they are NaN.

    ``kind`` is ``"sharp"`` where completions attain both ends, ``"outer"`` where the range holds every
    completion and may be wider than need be.
    """

    lower: Float
    upper: Float
    kind: npt.NDArray[np.str_]
    reason: npt.NDArray[np.int8]


class Cells(NamedTuple):
    """The nine cells of tables ordered negative, positive, CA; rows reference, columns rater."""

    n00: Array
    n01: Array
    n0c: Array
    n10: Array
    n11: Array
    n1c: Array
    nc0: Array
    nc1: Array
    ncc: Array


class Completed(NamedTuple):
    """The four cells of completed tables: TN, FP, FN, TP."""

    n00: Array
    n01: Array
    n10: Array
    n11: Array


def check_statistic(statistic: str) -> str:
    """Return the name where there is a closed form for it; a :class:`ProtocolError` otherwise."""
    if statistic not in STATISTICS:
        raise ProtocolError(
            f"There are no sharp bounds for {statistic!r}; there are bounds for {', '.join(STATISTICS)}."
        )
    return statistic


def checked_counts(table: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Counts as int64 ``(..., K, K)``: whole, none negative, none above ``2**49``."""
    counts = np.asarray(table)
    if counts.ndim < 2 or counts.shape[-1] != counts.shape[-2] or counts.shape[-1] < 2:
        raise StructureError(
            "A table with unresolved cases has shape (..., L+1, L+1), the categories and then CA; "
            f"got {counts.shape}."
        )
    if counts.dtype.kind not in "iufb":
        raise StructureError(f"A table holds counts; got dtype {counts.dtype}.")
    if counts.size and not (counts.min() >= 0 and counts.max() <= _LARGEST_CELL):
        raise StructureError("A table holds counts: no cell is negative, NaN or above 2**49.")
    whole = counts.astype(np.int64, copy=False)
    if counts.dtype.kind == "f" and not (whole == counts).all():
        raise StructureError("Sharp bounds need whole counts; the table has a cell that is not.")
    return whole


def binary_counts(table: npt.ArrayLike) -> tuple[npt.NDArray[np.int64], tuple[int, ...]]:
    """Counts of ``(..., 3, 3)`` tables, one row of nine a table, and the leading shape.

    Raises
    ------
    StructureError
        Another shape, or cells that are not counts.
    """
    counts = checked_counts(table)
    if counts.shape[-1] != 3:
        raise StructureError(
            f"A binary table with unresolved cases has shape (..., 3, 3): negative, positive, CA; got "
            f"{counts.shape}. For more categories use `category_bounds`."
        )
    return counts.reshape(-1, 9), counts.shape[:-2]


def as_cells(rows: npt.NDArray[np.int64]) -> Cells:
    """Cells of tables given as rows of nine counts."""
    return Cells(*np.ascontiguousarray(rows.T))


def cells_of(table: npt.ArrayLike) -> tuple[Cells, tuple[int, ...]]:
    """Cells of ``(..., 3, 3)`` tables as flat int64 arrays, and the leading shape; errors as above."""
    rows, shape = binary_counts(table)
    return as_cells(rows), shape


def denominator_is_zero(statistic: str, done: Completed) -> Bool:
    """Whether completed tables leave a statistic undefined."""
    n00, n01, n10, n11 = done
    if statistic in ("precision", "recall", "specificity", "f1"):
        return cast("Bool", _denominator(statistic, done) == 0)
    if statistic == "kappa":
        return cast("Bool", ((n01 == 0) & (n10 == 0)) & ((n00 == 0) | (n11 == 0)))
    row0, row1 = n00 + n01 == 0, n10 + n11 == 0
    if statistic == "balanced_accuracy":
        return cast("Bool", row0 | row1)
    if statistic == "phi":
        return cast("Bool", row0 | row1 | (n00 + n10 == 0) | (n01 + n11 == 0))
    return cast("Bool", n00 + n01 + n10 + n11 == 0)


def _denominator(statistic: str, done: Completed) -> Array:
    n00, n01, n10, n11 = done
    if statistic == "precision":
        return n01 + n11
    if statistic == "recall":
        return n10 + n11
    if statistic == "specificity":
        return n00 + n01
    return 2 * n11 + n01 + n10


def evaluate_completed(statistic: str, done: Completed) -> Float:
    """Value of a statistic at completed tables, NaN where undefined; whole counts are exact to a few ulp."""
    n00, n01, n10, n11 = done
    if statistic in ("kappa", "phi"):
        return _chance_corrected(statistic, done)
    if statistic == "balanced_accuracy":
        found = _ratio(n11, n10 + n11)
        return (found + _ratio(n00, n00 + n01)) / 2
    if statistic in ("precision", "recall", "f1"):
        return _ratio(2 * n11 if statistic == "f1" else n11, _denominator(statistic, done))
    if statistic == "specificity":
        return _ratio(n00, n00 + n01)
    total = n00 + n01 + n10 + n11
    if statistic == "accuracy":
        return _ratio(n00 + n11, total)
    return _ratio((n10 if statistic == "rate_reference" else n01) + n11, total)


def _ratio(numerator: Array, denominator: Array) -> Float:
    below = denominator.astype(np.float64)
    return np.divide(numerator, below, out=np.full(below.shape, np.nan), where=below > 0)


def _chance_corrected(statistic: str, done: Completed) -> Float:
    """Evaluate kappa or phi from the determinant, which is exact for whole counts, and the margins.

    Kappa is ``2 det / (h (N-j) + j (N-h))``, phi is ``det / sqrt(h (N-h) j (N-j))``.
    """
    n00, n01, n10, n11 = done
    h, g = (n10 + n11).astype(np.float64), (n00 + n01).astype(np.float64)
    j, i = (n01 + n11).astype(np.float64), (n00 + n10).astype(np.float64)
    determinant = _determinant(done, h + g)
    if statistic == "kappa":
        numerator, below = 2 * determinant, h * i + j * g
    else:
        numerator, below = determinant, np.sqrt((h * g) * (j * i))
    value = np.divide(numerator, below, out=np.full(below.shape, np.nan), where=below > 0)
    return cast("Float", np.clip(value, -1.0, 1.0, out=value))  # rounding alone can leave the interval


def _determinant(done: Completed, total: Float) -> Float:
    """``n00 n11 - n01 n10``, rounded once: int64 wraps but comes back, Python integers where it would not."""
    n00, n01, n10, n11 = done
    determinant = (n00 * n11 - n01 * n10).astype(np.float64)
    if np.issubdtype(n00.dtype, np.integer):
        for k in np.flatnonzero(total > _LARGEST_PLAIN_TOTAL):
            determinant[k] = float(int(n00[k]) * int(n11[k]) - int(n01[k]) * int(n10[k]))
    return determinant


def reason_of(statistic: str, done: Completed) -> npt.NDArray[np.int8]:
    """Why completed tables leave a statistic undefined (members of :class:`xjudge.errors.Reason`)."""
    n00, n01, n10, n11 = done
    reason = np.zeros(n00.shape, dtype=np.int8)
    undefined = denominator_is_zero(statistic, done)
    simple = {
        "precision": Reason.NO_POSITIVE_RATER,
        "recall": Reason.NO_POSITIVE_REFERENCE,
        "specificity": Reason.NO_NEGATIVE_REFERENCE,
        "f1": Reason.NO_POSITIVE_EITHER,
        "kappa": Reason.ONE_CATEGORY,
    }
    if statistic in simple:
        reason[undefined] = simple[statistic]
    elif statistic == "balanced_accuracy":
        reason[n00 + n01 == 0] = Reason.NO_NEGATIVE_REFERENCE
        reason[n10 + n11 == 0] = Reason.NO_POSITIVE_REFERENCE
    elif statistic == "phi":
        reference = (n00 + n01 == 0) | (n10 + n11 == 0)
        rater = (n00 + n10 == 0) | (n01 + n11 == 0)
        reason[reference] = Reason.CONSTANT_REFERENCE
        reason[rater] = Reason.CONSTANT_RATER
        reason[reference & rater] = Reason.CONSTANT_BOTH
    reason[n00 + n01 + n10 + n11 == 0] = Reason.NO_OVERLAP
    return reason

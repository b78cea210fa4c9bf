"""What unresolved cases can do to a statistic: sharp ranges, without enumerating completions.

Tables have a last row and column for cases a side left open ("cannot assess", and by default unreadable
outputs). A *completion* gives every open verdict a category. The range of a statistic over the completions
that define it is its identification range: what the table cannot pin down, whatever the sample size. It is
not a sampling interval; resample whole items and recompute both ends for that.

Each verdict is taken to enter one cell once. For tables pooled over several references it does not, and the
ranges here are then outer ranges.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from xjudge.codes import N_OUTCOMES, OUTCOMES, raw_index
from xjudge.errors import ProtocolError, StructureError, listing
from xjudge.statistics._bounds_binary import complete
from xjudge.statistics._bounds_breakdown import Breakdown, breakdown, breakdown_with_reason
from xjudge.statistics._bounds_categories import category_bounds, one_versus_rest
from xjudge.statistics._bounds_category_share import category_breakdown, category_range_at_share
from xjudge.statistics._bounds_cells import (
    STATISTICS,
    CertifiedRange,
    Range,
    as_cells,
    binary_counts,
    cells_of,
    check_statistic,
    evaluate_completed,
    reason_of,
)
from xjudge.statistics._bounds_raters import RATER_STATISTICS, rater_bounds
from xjudge.statistics._bounds_share import range_at_share, range_at_share_with_reason
from xjudge.statistics._bounds_votes import VOTE_KINDS, vote_bounds

__all__ = [
    "RATER_STATISTICS",
    "STATISTICS",
    "VOTE_KINDS",
    "Breakdown",
    "CertifiedRange",
    "Range",
    "breakdown",
    "breakdown_with_reason",
    "category_bounds",
    "category_breakdown",
    "category_range_at_share",
    "one_versus_rest",
    "range_at_share",
    "range_at_share_with_reason",
    "rater_bounds",
    "sharp_allocation",
    "sharp_bounds",
    "sharp_bounds_with_reason",
    "unresolved_table",
    "vote_bounds",
]

Float = npt.NDArray[np.float64]

_BLOCK = 1 << 13  # tables at a time: the working arrays of a block stay in cache


def sharp_bounds(table: npt.ArrayLike, statistic: str = "accuracy") -> tuple[Float, Float]:
    r"""Sharp identification range of a binary statistic under unresolved cases.

    The least and the greatest value over all completions that define the statistic. One completion per end
    is written down and evaluated (:func:`sharp_allocation` returns it), so both ends are attained.

    Parameters
    ----------
    table : array-like of int, shape (..., 3, 3)
        Counts; rows reference, columns rater, both ordered negative, positive, CA.
    statistic : str
        ``"accuracy"``, ``"precision"``, ``"recall"``, ``"specificity"``, ``"balanced_accuracy"``, ``"f1"``,
        ``"kappa"``, ``"phi"``, ``"rate_reference"``, ``"rate_rater"`` (the positive rates of the sides).

    Returns
    -------
    lower, upper : ndarray, shape (...)
        NaN where no completion defines the statistic (:func:`sharp_bounds_with_reason` says why). Correct to
        a few units in the last place for counts up to 2**49.

    Raises
    ------
    ProtocolError
        An unknown statistic.
    StructureError
        A table of another shape, or cells that are not counts.

    Notes
    -----
    Why the ends are sharp. A case with one side unresolved can be sent to agreement or to disagreement.

    * *Accuracy, precision, recall, specificity, F1* do not fall with :math:`n_{00}, n_{11}` and do not rise
      with :math:`n_{01}, n_{10}`: everything to agreement is the upper end, everything to disagreement the
      lower; (CA, CA) goes to the one cell the statistic likes best or least.
    * *Both positive rates* have a fixed denominator; the side's open verdicts are all positive or all
      negative.
    * *Kappa* :math:`= 1 - N D / E` is monotone along every single move from agreement to disagreement, since
      with :math:`h` and :math:`j` the positives of reference and rater
      :math:`E - D (N - 2h) = 2 (h^2 - 2 h n_{11} + N n_{11}) \ge 2h(h - n_{11}) \ge 0`. *Phi* is too: the
      derivative along the move has the sign of :math:`j (2 n_{11} - h) - N n_{11} \le 0`. (CA, CA) goes to
      the two cells of agreement as evenly as possible for the upper end, to the two cells of disagreement
      for the lower: both statistics rise with :math:`n_{00} n_{11}` at fixed sum, kappa falls with
      :math:`n_{01} n_{10}`, and phi is antisymmetric under reading the rater's labels the other way round.
    * *Balanced accuracy* rises along every move to agreement, a change of row included; (CA, CA) is split to
      minimise :math:`n_{01}/u + n_{10}/(N - u)`, convex in the number of negatives :math:`u`. The lower end
      is the mirror image.

    Where the completion so found leaves the statistic undefined, the best defined one differs from it by one
    case a side, and is again written down. The room ``_bounds_binary`` has the arguments in full.

    Cost: some 30 passes over arrays of one number a table; no enumeration.

    Examples
    --------
    Only the human abstains, on 306 of 2,007 decisions:

    >>> table = [[97, 420, 0], [181, 1003, 0], [64, 242, 0]]
    >>> [end.round(4).item() for end in sharp_bounds(table)]
    [0.5481, 0.7005]
    >>> [end.round(4).item() for end in sharp_bounds(table, "kappa")]
    [-0.0768, 0.171]
    """
    lower, upper, _ = _sharp(table, statistic, with_reason=False)
    return lower, upper


def sharp_bounds_with_reason(table: npt.ArrayLike, statistic: str = "accuracy") -> Range:
    """Sharp identification range as :func:`sharp_bounds`, with the reason where it is NaN.

    Parameters
    ----------
    table : array-like of int, shape (..., 3, 3)
        Counts; rows reference, columns rater, both ordered negative, positive, CA.
    statistic : str
        As in :func:`sharp_bounds`.

    Returns
    -------
    lower, upper : ndarray, shape (...)
    reason : ndarray of int8, shape (...)
        Members of :class:`xjudge.errors.Reason`: what holds in every completion.

    Examples
    --------
    >>> from xjudge.errors import reason_text
    >>> found = sharp_bounds_with_reason([[3, 0, 0], [2, 0, 0], [1, 0, 0]], "phi")
    >>> str(reason_text(found.reason))
    'rater is constant'
    """
    return _sharp(table, statistic, with_reason=True)


def _sharp(table: npt.ArrayLike, statistic: str, *, with_reason: bool) -> Range:
    check_statistic(statistic)
    rows, shape = binary_counts(table)
    lower, upper = np.empty(len(rows)), np.empty(len(rows))
    reason = np.zeros(len(rows), dtype=np.int8)
    for start in range(0, len(rows), _BLOCK):
        part = slice(start, start + _BLOCK)
        block = as_cells(rows[part])
        lower[part] = evaluate_completed(statistic, complete(block, statistic, upper=False))
        done = complete(block, statistic, upper=True)
        upper[part] = evaluate_completed(statistic, done)
        if with_reason:
            reason[part] = reason_of(statistic, done)
    return Range(lower.reshape(shape), upper.reshape(shape), reason.reshape(shape))


def sharp_allocation(
    table: npt.ArrayLike, statistic: str = "accuracy", end: Literal["lower", "upper"] = "lower"
) -> npt.NDArray[np.int64]:
    """Completed tables that attain an end of the sharp range.

    Parameters
    ----------
    table : array-like of int, shape (..., 3, 3)
        Counts; rows reference, columns rater, both ordered negative, positive, CA.
    statistic : str
        As in :func:`sharp_bounds`.
    end : {"lower", "upper"}

    Returns
    -------
    ndarray of int64, shape (..., 2, 2)
        A completion of each table (not the only one) whose value is the end; where no completion defines
        the statistic, one that leaves it undefined like all others.

    Raises
    ------
    ProtocolError
        An unknown statistic or end.
    StructureError
        A table of another shape, or cells that are not counts.

    Examples
    --------
    >>> sharp_allocation([[97, 420, 0], [181, 1003, 0], [64, 242, 0]], "f1", "upper")
    array([[ 161,  420],
           [ 181, 1245]])
    """
    check_statistic(statistic)
    if end not in ("lower", "upper"):
        raise ProtocolError(f'`end` must be "lower" or "upper"; got {end!r}.')
    cells, shape = cells_of(table)
    return np.stack(complete(cells, statistic, upper=end == "upper"), axis=-1).reshape(*shape, 2, 2)


def unresolved_table(
    raw: npt.ArrayLike, unresolved: Sequence[str] = ("ca", "invalid")
) -> npt.NDArray[np.integer]:
    """Tables on the raw axis with the unresolved outcomes merged into one last row and column.

    Parameters
    ----------
    raw : array-like of int, shape (..., L + 3, L + 3)
        Counts on the raw axis: the categories, then missing, cannot assess, invalid.
    unresolved : sequence of {"ca", "invalid"}
        The outcomes that stand for a verdict not given. Cases with any other outcome on a side are left
        out; a missing label never is unresolved.

    Returns
    -------
    ndarray, shape (..., L + 1, L + 1)
        As :func:`sharp_bounds` and :func:`category_bounds` take them.

    Raises
    ------
    ProtocolError
        An outcome that cannot be unresolved.
    StructureError
        A table without the three outcomes.

    Examples
    --------
    >>> import numpy as np
    >>> raw = np.arange(25).reshape(5, 5)
    >>> unresolved_table(raw)
    array([[ 0,  1,  7],
           [ 5,  6, 17],
           [35, 37, 84]])
    >>> unresolved_table(raw, ["ca"])
    array([[ 0,  1,  3],
           [ 5,  6,  8],
           [15, 16, 18]])
    """
    counts = np.asarray(raw)
    if counts.ndim < 2 or counts.shape[-1] != counts.shape[-2] or counts.shape[-1] <= N_OUTCOMES:
        raise StructureError(
            f"A raw table has shape (..., L+3, L+3): categories, missing, CA, invalid; got {counts.shape}."
        )
    names = (unresolved,) if isinstance(unresolved, str) else tuple(unresolved)
    wrong = [name for name in names if name not in OUTCOMES or name == "missing"]
    if wrong:
        raise ProtocolError(f'`unresolved` may name "ca" and "invalid"; got {listing(wrong)}.')
    n_categories = counts.shape[-1] - N_OUTCOMES
    merge = np.zeros((counts.shape[-1], n_categories + 1), dtype=counts.dtype)
    merge[np.arange(n_categories), np.arange(n_categories)] = 1
    for name in names:
        merge[raw_index(name, n_categories), n_categories] = 1
    merged: npt.NDArray[np.integer] = merge.T @ counts @ merge
    return merged

"""Identification ranges of coefficients of many raters, some of whose verdicts are open."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError, Reason, StructureError
from xjudge.statistics._bounds_cells import CertifiedRange
from xjudge.statistics._bounds_forms import Int, form_of, ordinal_alpha_range, range_of_form
from xjudge.statistics.weights import Matrix, distance_matrix, weight_matrix

__all__ = ["RATER_STATISTICS", "rater_bounds"]

RATER_STATISTICS: Final = (
    "alpha",
    "fleiss_kappa",
    "gwet_ac",
    "brennan_prediger",
    "percent_agreement",
)


def rater_bounds(
    counts: npt.ArrayLike,
    unresolved: npt.ArrayLike,
    statistic: str = "alpha",
    *,
    metric: str | npt.ArrayLike = "nominal",
    weights: str | Matrix | None = None,
    shares: str = "pooled",
    scores: npt.ArrayLike | None = None,
    max_work: int = 20_000_000,
) -> CertifiedRange:
    """Identification range of a coefficient of many raters when some verdicts on some items are open.

    Parameters
    ----------
    counts : array-like of int, shape (..., item, L)
        Labels of each item in each category.
    unresolved : array-like of int, shape (..., item)
        Verdicts of each item that were not given (CA, invalid); missing ones do not count.
    statistic : {"alpha", "fleiss_kappa", "gwet_ac", "brennan_prediger", "percent_agreement"}
    metric : {"nominal", "ordinal", "interval", "ratio", "circular"} or (L, L) array
        Distances of alpha.
    weights : str or (L, L) array, optional
        Agreement weights; for alpha in place of a metric.
    shares : {"pooled", "item_mean"}
        The convention of Fleiss' kappa, as in :func:`xjudge.statistics.fleiss_kappa`.
    scores : array-like of float, optional
        Numbers the categories stand for.
    max_work : int
        Up to how many steps the search takes: about 0.1 s per ten million. Decides where the range goes from
        sharp to outer.

    Returns
    -------
    lower, upper : ndarray, shape (...)
        NaN where no completion defines the coefficient. An outer lower end may be ``-inf``.
    kind : ndarray of str, shape (...)
        ``"sharp"`` or ``"outer"``, as in :func:`category_bounds`.
    reason : ndarray of int8, shape (...)
        Members of :class:`xjudge.errors.Reason`.

    Raises
    ------
    ProtocolError
        An unknown statistic or convention, a metric or matrix that does not fit.
    StructureError
        Counts that are not whole, or of shapes that do not go together.

    Notes
    -----
    With open verdicts closed in every way, an item keeps its number of labels; the coefficient is one less a
    sum over items, over a quadratic form of the totals by category. For each reachable vector of totals the
    extremes of the sum follow by adding item after item. With ``m`` open verdicts on ``i`` items that takes
    about ``i m^(L-1)`` steps times the options of an item: by default the range is sharp for some 2,500 open
    verdicts with two categories and 150 with three. Beyond, affine bounds of the sum over cells of the totals
    give an outer range, wider by up to 0.01 where that was compared. The ordinal metric, whose distances
    depend on the totals, is sharp for two categories and for few open verdicts only. Percent agreement and
    Brennan-Prediger are always sharp.

    Examples
    --------
    >>> found = rater_bounds([[3, 0], [1, 1], [0, 3], [2, 0]], [0, 1, 0, 1], "fleiss_kappa")
    >>> found.lower.round(4).item(), found.upper.round(4).item(), str(found.kind)
    (0.3143, 0.6571, 'sharp')
    """
    labels, open_ = _checked(counts, unresolved)
    L = labels.shape[-1]
    if statistic not in RATER_STATISTICS:
        raise ProtocolError(f"`statistic` must be one of {', '.join(RATER_STATISTICS)}; got {statistic!r}.")
    if shares not in ("pooled", "item_mean"):
        raise ProtocolError(f'`shares` must be "pooled" or "item_mean"; got {shares!r}.')
    ordinal = statistic == "alpha" and weights is None and isinstance(metric, str) and metric == "ordinal"
    if statistic == "alpha" and weights is None:
        d = 1.0 - np.eye(L) if ordinal else distance_matrix(metric, L, scores)
    else:
        d = 1.0 - weight_matrix(weights, L, scores)
    leading, n_sets = labels.shape[:-2], math.prod(labels.shape[:-2])
    ends, sharp = np.full((2, n_sets), np.nan), np.ones(n_sets, dtype=np.bool_)
    reason = np.zeros(n_sets, dtype=np.int8)
    labels, open_ = labels.reshape(n_sets, *labels.shape[-2:]), open_.reshape(n_sets, labels.shape[-2])
    for i, (some, left) in enumerate(zip(labels, open_, strict=True)):
        if not (some.sum(-1) + left >= 2).any():
            reason[i] = Reason.NO_PAIRABLE_ITEM
            continue
        if ordinal:
            found = ordinal_alpha_range(some, left, max_work)
        else:
            found = range_of_form(form_of(some, left, statistic, d, shares), max_work)
        ends[0, i], ends[1, i], sharp[i] = found
        reason[i] = Reason.ONE_CATEGORY if math.isnan(found[0]) else Reason.OK
    return CertifiedRange(
        ends[0].reshape(leading),
        ends[1].reshape(leading),
        np.where(sharp, "sharp", "outer").reshape(leading),
        reason.reshape(leading),
    )


def _checked(counts: npt.ArrayLike, unresolved: npt.ArrayLike) -> tuple[Int, Int]:
    labels, open_ = np.asarray(counts), np.asarray(unresolved)
    if labels.ndim < 2 or labels.shape[:-1] != open_.shape or labels.shape[-1] < 1:
        raise StructureError(
            "Counts have shape (..., item, L) and unresolved verdicts (..., item); got "
            f"{labels.shape} and {open_.shape}."
        )
    for values in (labels, open_):
        if values.dtype.kind not in "iufb" or not ((values >= 0) & (values == np.floor(values))).all():
            raise StructureError("Labels and unresolved verdicts are counted: whole numbers, none negative.")
    return labels.astype(np.int64), open_.astype(np.int64)

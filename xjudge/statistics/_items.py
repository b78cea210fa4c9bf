"""The mechanism of the many-rater room: coefficients by name, their terms, and values from summed terms."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError, StructureError, listing
from xjudge.statistics._alpha_terms import Alpha, OrdinalAlpha
from xjudge.statistics._terms import (
    BrennanPrediger,
    CongerKappa,
    FleissKappa,
    Float,
    GwetAC,
    ItemStatistic,
    PercentAgreement,
)
from xjudge.statistics.coefficients import Evaluated
from xjudge.statistics.weights import Matrix, distance_matrix, weight_matrix

__all__ = [
    "RATER_COEFFICIENTS",
    "RaterCoefficient",
    "Sizes",
    "checked_item_weights",
    "evaluate_raters",
    "from_terms",
    "item_blocks",
    "item_statistic",
    "item_terms",
    "resolved_statistic",
    "sizes",
    "summed_terms",
]

Weights = str | npt.ArrayLike | None

_SMALL_PRODUCT: Final = 1 << 18
"""Multiplications up to which a matrix product stays on one thread: more threads spin on skinny ones."""


@dataclass(frozen=True)
class RaterCoefficient:
    """What the labelled rooms need to know of a coefficient of many raters.

    Parameters
    ----------
    name : str
    choices : tuple of str
        Which of ``weights``, ``metric``, ``shares`` act on it.
    needs : {"counts", "labels", "pair_tables"}
        What it is computed from.
    """

    name: str
    choices: tuple[str, ...] = ()
    needs: str = "counts"


RATER_COEFFICIENTS: Final[dict[str, RaterCoefficient]] = {
    c.name: c
    for c in (
        RaterCoefficient("alpha", ("metric", "weights")),
        RaterCoefficient("fleiss_kappa", ("weights", "shares")),
        RaterCoefficient("scott_pi", ("weights",)),
        RaterCoefficient("gwet_ac", ("weights",)),
        RaterCoefficient("brennan_prediger", ("weights",)),
        RaterCoefficient("percent_agreement", ("weights",)),
        RaterCoefficient("conger_kappa", ("weights",), "labels"),
        RaterCoefficient("light_kappa", ("weights",), "pair_tables"),
        RaterCoefficient("mean_pairwise_kappa", ("weights",), "pair_tables"),
    )
}
"""Coefficients of many raters by name. ``scott_pi`` of many raters is ``fleiss_kappa`` with pooled shares."""


class Sizes(NamedTuple):
    """How much there is to compute from."""

    n: npt.NDArray[Any]
    """Pairable items: at least two labels."""
    n_labels: npt.NDArray[Any]
    """Labels of the pairable items."""
    n_single: npt.NDArray[Any]
    """Items with exactly one label."""


def item_statistic(
    name: str,
    n_categories: int,
    *,
    weights: Weights = None,
    metric: str | npt.ArrayLike = "nominal",
    shares: str = "pooled",
    scores: npt.ArrayLike | None = None,
) -> ItemStatistic:
    """Return a coefficient as its two halves: terms of items, and the value of their sum.

    Parameters
    ----------
    name : str
        A key of :data:`RATER_COEFFICIENTS` that needs counts or labels.
    n_categories : int
        L, the number of declared categories, used or not.
    weights : str or (L, L) array, optional
        Agreement weights, see :func:`xjudge.statistics.weights.weight_matrix`. For alpha they stand in
        place of the metric: distances ``1 - w``.
    metric : str or (L, L) array
        Alpha only: ``"nominal"``, ``"ordinal"``, ``"interval"``, ``"ratio"``, ``"circular"`` or own
        distances.
    shares : {"pooled", "item_mean"}
        Fleiss only: category shares over all labels of the pairable items, or averaged over the items
        with a label.
    scores : array-like of float, optional
        Numbers the categories stand for; by default their positions.

    Returns
    -------
    ItemStatistic

    Raises
    ------
    ProtocolError
        An unknown name, a choice the coefficient does not know, weights or distances that do not fit.

    Examples
    --------
    >>> fleiss = item_statistic("fleiss_kappa", 2)
    >>> counts = np.array([[3.0, 0], [1, 2], [0, 3], [2, 1]])
    >>> value, reason = fleiss.value(fleiss.terms(counts).sum(0))
    >>> value.round(6).item()
    0.333333
    """
    known = RATER_COEFFICIENTS.get(name)
    if known is None or known.needs == "pair_tables":
        names = [c.name for c in RATER_COEFFICIENTS.values() if c.needs != "pair_tables"]
        raise ProtocolError(
            f"There is no coefficient {name!r} of counts or labels; there are {listing(names, most=9)}."
        )
    nominal = isinstance(metric, str) and metric == "nominal"
    if not nominal and "metric" not in known.choices:
        raise ProtocolError(f"`metric` is a choice of alpha; `{name}` takes `weights`.")
    if shares not in ("pooled", "item_mean"):
        raise ProtocolError(f"`shares` must be 'pooled' or 'item_mean'; got {shares!r}.")
    if shares != "pooled" and "shares" not in known.choices:
        raise ProtocolError(f"`shares` is a choice of fleiss_kappa; `{name}` has one convention.")
    if name == "alpha":
        return _alpha(n_categories, weights, metric, scores, nominal=nominal)
    apart: Matrix | None = None
    if not (weights is None or (isinstance(weights, str) and weights == "identity")):
        apart = 1.0 - weight_matrix(weights, n_categories, scores)
    if name in ("fleiss_kappa", "scott_pi"):
        return FleissKappa(n_categories, apart, item_mean=shares == "item_mean")
    simple: dict[str, Callable[[int, Matrix | None], ItemStatistic]] = {
        "gwet_ac": GwetAC,
        "brennan_prediger": BrennanPrediger,
        "percent_agreement": PercentAgreement,
        "conger_kappa": CongerKappa,
    }
    return simple[name](n_categories, apart)


def item_terms(statistic: str | ItemStatistic, data: npt.ArrayLike, **choices: Any) -> Float:
    """What each item adds to the sums of which a coefficient is a function.

    Parameters
    ----------
    statistic : str or ItemStatistic
        A name for :func:`item_statistic`, or what that returned.
    data : array-like
        Counts (..., item, L); label codes (..., item, rater) for Conger's kappa, which then also needs
        ``n_categories``.
    **choices
        As :func:`item_statistic` takes them.

    Returns
    -------
    ndarray of float64, shape (..., item, T)
        T is L + 1 for alpha (``L (L + 1) / 2`` ordinal), 2 for percent agreement and Brennan-Prediger,
        L + 2 for Fleiss and Gwet, R L + 2 for Conger.

    Raises
    ------
    ProtocolError, StructureError
        As :func:`evaluate_raters`.

    Examples
    --------
    >>> item_terms("alpha", [[2, 1], [0, 2], [1, 0]])
    array([[2., 2., 1.],
           [0., 0., 2.],
           [0., 0., 0.]])
    """
    resolved, values = resolved_statistic(statistic, data, choices)
    return resolved.terms(values)


def from_terms(
    statistic: str | ItemStatistic, sums: npt.ArrayLike, n_categories: int | None = None, **choices: Any
) -> Evaluated:
    """Value of a coefficient from terms summed over items.

    Parameters
    ----------
    statistic : str or ItemStatistic
    sums : array-like of float, shape (..., T)
        Sums of what :func:`item_terms` gave, over all items, chunks or resamples.
    n_categories : int, optional
        L; needed where ``statistic`` is a name.
    **choices
        As :func:`item_statistic` takes them.

    Returns
    -------
    value : ndarray, shape (...)
    reason : ndarray of int8, shape (...)

    Raises
    ------
    ProtocolError
        As :func:`item_statistic`; also a name without ``n_categories``.

    Examples
    --------
    >>> terms = item_terms("alpha", [[2, 1], [0, 2], [3, 0]])
    >>> from_terms("alpha", terms.sum(0), n_categories=2).value.round(6).item()
    0.533333
    """
    if isinstance(statistic, str):
        if n_categories is None:
            raise ProtocolError("`from_terms` needs `n_categories` where the statistic is given by name.")
        statistic = item_statistic(statistic, n_categories, **choices)
    return Evaluated(*statistic.value(np.asarray(sums, dtype=np.float64)))


def evaluate_raters(
    statistic: str | ItemStatistic,
    data: npt.ArrayLike,
    *,
    item_weights: npt.ArrayLike | None = None,
    **choices: Any,
) -> Evaluated:
    """Evaluate a coefficient of many raters, with the reason where it is undefined.

    Parameters
    ----------
    statistic : str or ItemStatistic
        A key of :data:`RATER_COEFFICIENTS` that needs counts or labels, or what :func:`item_statistic`
        returned.
    data : array-like
        Counts (..., item, L); label codes (..., item, rater), negative where missing, for Conger's kappa,
        with ``n_categories`` among the choices.
    item_weights : array-like, shape (..., item), optional
        How often each item counts, not negative: multiplicities, or one row per resample. Leading dims are
        broadcast against those of the data.
    **choices
        As :func:`item_statistic` takes them.

    Returns
    -------
    value : ndarray, shape (...)
    reason : ndarray of int8, shape (...)
        Members of :class:`xjudge.errors.Reason`.

    Raises
    ------
    ProtocolError
        As :func:`item_statistic`; weights that are negative or do not fit the items.
    StructureError
        Data that are not counts or not codes.

    Notes
    -----
    Items are gone through in blocks, so the extra memory does not grow with their number. With weights the
    cost of a replicate is one product of its weights with the terms, ``T`` multiplications per pattern.

    Examples
    --------
    Two resamples of three items at once:

    >>> evaluate_raters("alpha", [[2, 0], [1, 1], [0, 2]], item_weights=[[1, 1, 1], [2, 1, 0]]).value.round(4)
    array([0.4444, 0.    ])
    """
    resolved, values = resolved_statistic(statistic, data, choices)
    weights = checked_item_weights(item_weights, values)
    return Evaluated(*resolved.value(summed_terms(resolved, values, weights)))


def sizes(counts: npt.ArrayLike, item_weights: npt.ArrayLike | None = None) -> Sizes:
    """How many items are pairable, how many labels those have, and how many items have one label only.

    Parameters
    ----------
    counts : array-like, shape (..., item, L)
    item_weights : array-like, shape (..., item), optional
        Multiplicities.

    Returns
    -------
    Sizes
        ``n``, ``n_labels`` and ``n_single``, each of shape (...); integers where the input is.

    Examples
    --------
    >>> sizes([[2, 1], [1, 0], [0, 0]])
    Sizes(n=array(1), n_labels=array(3), n_single=array(1))
    """
    size = np.asarray(counts).sum(-1)
    weights = np.ones_like(size) if item_weights is None else np.asarray(item_weights)
    pairable = weights * (size >= 2)
    return Sizes(
        np.asarray(pairable.sum(-1)),
        np.asarray((pairable * size).sum(-1)),
        np.asarray((weights * (size == 1)).sum(-1)),
    )


def _alpha(
    n_categories: int,
    weights: Weights,
    metric: str | npt.ArrayLike,
    scores: npt.ArrayLike | None,
    *,
    nominal: bool,
) -> ItemStatistic:
    if weights is not None:
        if not nominal:
            raise ProtocolError("Alpha takes a `metric` or `weights`, not both.")
        identity = isinstance(weights, str) and weights == "identity"
        return Alpha(n_categories, None if identity else 1.0 - weight_matrix(weights, n_categories, scores))
    if isinstance(metric, str) and metric == "ordinal":
        return OrdinalAlpha(n_categories, None)
    return Alpha(n_categories, None if nominal else distance_matrix(metric, n_categories, scores))


def resolved_statistic(
    statistic: str | ItemStatistic, data: npt.ArrayLike, choices: dict[str, Any]
) -> tuple[ItemStatistic, npt.NDArray[Any]]:
    values = np.asarray(data)
    if isinstance(statistic, ItemStatistic):
        resolved = statistic
    elif statistic == "conger_kappa":
        if "n_categories" not in choices:
            raise ProtocolError("Conger's kappa is computed from label codes and needs `n_categories`.")
        resolved = item_statistic(statistic, **choices)
    else:
        if values.ndim < 2:
            raise StructureError(f"Counts have shape (..., item, L); got {values.shape}.")
        choices = {"n_categories": values.shape[-1], **choices}
        resolved = item_statistic(statistic, **choices)
    if resolved.needs == "labels":
        return resolved, _checked_codes(values, resolved.n_categories)
    return resolved, _checked_counts(values, resolved.n_categories)


def _checked_counts(counts: npt.NDArray[Any], n_categories: int) -> npt.NDArray[Any]:
    if counts.ndim < 2 or counts.shape[-1] != n_categories:
        raise StructureError(
            f"Counts have shape (..., item, {n_categories}), a column for each category; got {counts.shape}."
        )
    if counts.dtype.kind not in "iufb":
        raise StructureError(f"Counts are numbers; got dtype {counts.dtype}.")
    if counts.size and not (counts.min() >= 0 and (counts.dtype.kind != "f" or counts.max() < np.inf)):
        raise StructureError("Counts are finite and not negative; use `count_vectors` for label codes.")
    return counts


def _checked_codes(labels: npt.NDArray[Any], n_categories: int) -> npt.NDArray[Any]:
    if labels.ndim >= 2 and labels.dtype.kind == "f" and n_categories == 0:
        return labels  # numbers, of which there are no categories
    if labels.ndim < 2 or labels.dtype.kind not in "iu":
        raise StructureError(
            f"Labels are integer codes of shape (..., item, rater); got {labels.dtype} of shape "
            f"{labels.shape}."
        )
    if labels.size and int(labels.max()) >= n_categories:
        raise StructureError(f"Code {labels.max()} is outside the {n_categories} declared categories.")
    return labels


def checked_item_weights(item_weights: npt.ArrayLike | None, values: npt.NDArray[Any]) -> Float | None:
    if item_weights is None:
        return None
    weights = np.asarray(item_weights)
    if weights.dtype.kind not in "iufb":
        raise ProtocolError(f"`item_weights` must be numbers; got dtype {weights.dtype}.")
    if weights.ndim < 1 or weights.shape[-1] != values.shape[-2]:
        raise ProtocolError(
            f"`item_weights` needs one weight for each of the {values.shape[-2]} items; got shape "
            f"{weights.shape}."
        )
    if weights.size and not (weights.min() >= 0 and weights.max() < np.inf):
        raise ProtocolError("`item_weights` must be finite and not negative.")
    return weights


def summed_terms(statistic: ItemStatistic, values: npt.NDArray[Any], weights: Float | None) -> Float:
    """Terms summed over items (..., T), a block of items at a time."""
    total: Float | None = None
    for block in item_blocks(statistic, values):
        terms = statistic.terms(values[..., block, :])
        part = np.ones(terms.shape[-2]) @ terms if weights is None else _weighted(weights[..., block], terms)
        total = part if total is None else total + part
    assert total is not None
    return total


def item_blocks(statistic: ItemStatistic, values: npt.NDArray[Any]) -> Iterator[slice]:
    """Blocks of items, at least one, whose terms are few enough to be held."""
    n_items, width = values.shape[-2:]
    n_lead = math.prod(values.shape[:-2])
    size = max(64, _SMALL_PRODUCT // max(1, n_lead * statistic.width(width)))
    for start in range(0, max(n_items, 1), size):
        yield slice(start, start + size)


def _weighted(weights: npt.NDArray[Any], terms: Float) -> Float:
    """``sum_i w_i t_i`` (..., T), in products small enough to stay on one thread."""
    if terms.ndim > 2:
        return (weights[..., None, :].astype(np.float64) @ terms)[..., 0, :]
    n_items, n_terms = terms.shape
    rows = weights.reshape(math.prod(weights.shape[:-1]), n_items)
    step = max(1, _SMALL_PRODUCT // max(1, n_items * n_terms))
    out = np.empty((len(rows), n_terms))
    for start in range(0, len(rows), step):
        out[start : start + step] = rows[start : start + step].astype(np.float64) @ terms
    return out.reshape(*weights.shape[:-1], n_terms)

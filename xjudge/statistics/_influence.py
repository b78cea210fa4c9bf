"""How much each item matters to a coefficient of many raters: influence, jackknife, standard errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError
from xjudge.statistics._items import (
    checked_item_weights,
    item_blocks,
    resolved_statistic,
    summed_terms,
)
from xjudge.statistics._terms import Float, ItemStatistic, PairMean, safe_divide
from xjudge.statistics.coefficients import Evaluated

__all__ = ["entering", "influence", "jackknife", "standard_error", "standard_error_from_moments"]


def influence(
    statistic: str | ItemStatistic,
    data: npt.ArrayLike,
    *,
    item_weights: npt.ArrayLike | None = None,
    convention: str = "delta",
    **choices: Any,
) -> Float:
    r"""Influence of every item on a coefficient.

    The derivative of the value by the item's weight. Influences sum to about 0 over the items (exactly 0
    where the coefficient does not depend on the number of labels), and the variance of the value is
    :math:`\frac{n}{n-1} \sum_i \psi_i^2`; where several rows belong to one sampling unit, add theirs first.

    Parameters
    ----------
    statistic, data, **choices
        As for :func:`evaluate_raters`.
    item_weights : array-like, shape (..., item), optional
        Multiplicities. The result is per single occurrence of an item.
    convention : {"delta", "gwet"}
        ``"delta"`` is the derivative. ``"gwet"`` is the linearisation printed by Gwet and used by irrCAC:
        it gives items with one label an agreement term of 0, which makes variances larger where there are
        many such items, and agrees without them (for alpha, up to terms of order ``1/n``).

    Returns
    -------
    ndarray of float64, shape (..., item)
        NaN throughout where the value is undefined.

    Raises
    ------
    ProtocolError
        As :func:`evaluate_raters`; ``"gwet"`` for a coefficient that has no printed form (ordinal alpha,
        Fleiss with pooled shares).

    Examples
    --------
    >>> influence("percent_agreement", [[2, 0], [1, 1], [0, 2], [2, 0]])
    array([ 0.0625, -0.1875,  0.0625,  0.0625])
    """
    resolved, values = resolved_statistic(statistic, data, choices)
    weights = checked_item_weights(item_weights, values)
    if convention == "gwet":
        return _published(resolved, values, weights)
    if convention != "delta":
        raise ProtocolError(f"`convention` must be 'delta' or 'gwet'; got {convention!r}.")
    gradient = resolved.gradient(summed_terms(resolved, values, weights))
    blocks = item_blocks(resolved, values)
    parts = [(resolved.terms(values[..., b, :]) @ gradient[..., None])[..., 0] for b in blocks]
    return np.concatenate(parts, axis=-1)


def jackknife(
    statistic: str | ItemStatistic,
    data: npt.ArrayLike,
    *,
    item_weights: npt.ArrayLike | None = None,
    **choices: Any,
) -> Evaluated:
    """Values with each item left out in turn.

    Parameters
    ----------
    statistic, data, item_weights, **choices
        As for :func:`evaluate_raters`. With multiplicities, one occurrence of the item is left out; where
        there is none, the value is that of all items.

    Returns
    -------
    value, reason : ndarray, shape (..., item)

    Raises
    ------
    ProtocolError, StructureError
        As :func:`evaluate_raters`.

    Examples
    --------
    >>> jackknife("percent_agreement", [[2, 0], [1, 1], [0, 2]]).value
    array([0.5, 1. , 0.5])
    """
    resolved, values = resolved_statistic(statistic, data, choices)
    weights = checked_item_weights(item_weights, values)
    total = summed_terms(resolved, values, weights)[..., None, :]
    parts = []
    for block in item_blocks(resolved, values):
        terms = resolved.terms(values[..., block, :])
        if weights is not None:
            terms = terms * np.minimum(weights[..., block], 1)[..., None]
        parts.append(resolved.value(total - terms))
    values_left, reasons = (np.concatenate(part, axis=-1) for part in zip(*parts, strict=True))
    return Evaluated(values_left, reasons)


def standard_error(
    statistic: str | ItemStatistic,
    data: npt.ArrayLike,
    *,
    item_weights: npt.ArrayLike | None = None,
    convention: str = "delta",
    clusters: npt.ArrayLike | None = None,
    **choices: Any,
) -> Float:
    r"""Large-sample standard error of a coefficient, items drawn independently.

    :math:`\sqrt{\frac{n}{n-1} \sum \psi_i^2}` over the n items that enter the coefficient (those with two
    labels; with one, where the chance term uses them), or with :math:`\psi` first summed in each cluster.

    Parameters
    ----------
    statistic, data, **choices
        As for :func:`evaluate_raters`.
    item_weights : array-like, shape (..., item), optional
        Multiplicities.
    convention : {"delta", "gwet", "jackknife"}
        ``"delta"`` and ``"gwet"`` as in :func:`influence`; ``"jackknife"`` is the delete-one jackknife over
        all items with a label.
    clusters : array-like of int, shape (item,), optional
        Which sampling unit each row belongs to, e.g. the item of an item-by-criterion unit. Not together
        with ``item_weights`` or ``"jackknife"``.

    Returns
    -------
    ndarray of float64, shape (...)
        NaN where the value is undefined or there are fewer than two sampling units.

    Raises
    ------
    ProtocolError
        As :func:`influence`; clusters together with what they do not combine with.

    Examples
    --------
    >>> standard_error("percent_agreement", [[2, 0], [1, 1], [0, 2], [2, 0]]).round(4).item()
    0.25
    """
    resolved, values = resolved_statistic(statistic, data, choices)
    weights = checked_item_weights(item_weights, values)
    entered = entering(resolved, values, convention)
    if clusters is not None:
        if item_weights is not None or convention == "jackknife":
            raise ProtocolError("`clusters` do not combine with `item_weights` or the jackknife.")
        return _clustered(influence(resolved, values, convention=convention), entered, clusters)
    one = np.ones(values.shape[:-1]) if weights is None else weights
    if convention == "jackknife":
        labelled = one * (resolved.n_labels(values) >= 1)
        n = labelled.sum(-1)
        left = jackknife(resolved, values, item_weights=weights).value
        left = np.where(labelled > 0, left, 0.0)
        mean = safe_divide((labelled * left).sum(-1), n, n > 0)
        squares = (labelled * (left - mean[..., None]) ** 2).sum(-1)
        factor = safe_divide(n - 1, n, n > 0)
    else:
        psi = influence(resolved, values, item_weights=weights, convention=convention)
        n = (one * entered).sum(-1)
        squares = (one * psi**2).sum(-1)
        factor = safe_divide(n, n - 1, n > 1)
    return np.sqrt(np.where(n > 1, squares * factor, np.nan))


def standard_error_from_moments(
    statistic: ItemStatistic, sums: npt.ArrayLike, moments: npt.ArrayLike, n_units: npt.ArrayLike
) -> Float:
    r"""Delta-method standard error from sums alone, for data that pass by once.

    With the gradient g at the summed terms, :math:`\sum_i \psi_i^2 = g' (\sum_i t_i t_i') g`, so second
    moments of the terms can be added up in the same pass as the terms, before the value is known. Where
    several rows belong to one sampling unit, add their terms before squaring.

    Parameters
    ----------
    statistic : ItemStatistic
        From :func:`item_statistic`.
    sums : array-like of float, shape (..., T)
        Terms summed over sampling units.
    moments : array-like of float, shape (..., T, T)
        Products of the terms of a unit, summed over units.
    n_units : array-like, shape (...)
        Sampling units that enter the coefficient.

    Returns
    -------
    ndarray of float64, shape (...)
        As :func:`standard_error`; NaN where the value is undefined or there are fewer than two units.

    Examples
    --------
    >>> from xjudge.statistics.raters import item_statistic, item_terms
    >>> counts = [[2, 0], [1, 1], [0, 2], [2, 0]]
    >>> fleiss = item_statistic("fleiss_kappa", 2)
    >>> terms = item_terms(fleiss, counts)
    >>> se = standard_error_from_moments(fleiss, terms.sum(0), terms.T @ terms, n_units=4)
    >>> bool(np.isclose(se, standard_error(fleiss, counts)))
    True
    """
    gradient = statistic.gradient(np.asarray(sums, dtype=np.float64))
    products = np.asarray(moments, dtype=np.float64)
    n = np.asarray(n_units, dtype=np.float64)
    squares = np.einsum("...s,...st,...t->...", gradient, products, gradient)
    # a sum of squares; rounding may leave it below 0 where it is 0
    return np.sqrt(np.where(n > 1, np.maximum(squares, 0.0) * safe_divide(n, n - 1, n > 1), np.nan))


def entering(
    statistic: ItemStatistic, data: npt.NDArray[Any], convention: str = "delta"
) -> npt.NDArray[np.bool_]:
    """Which items count as sampled: those whose labels enter the coefficient.

    Parameters
    ----------
    statistic : ItemStatistic
    data : ndarray
        Counts (..., item, L), or label codes (..., item, rater) where the statistic needs them.
    convention : {"delta", "gwet", "jackknife"}
        As in :func:`standard_error`.

    Returns
    -------
    ndarray of bool, shape (..., item)
        Items with two labels; with one, where the chance term uses them, and in Gwet's printed form.
    """
    single = statistic.singletons or (convention == "gwet" and isinstance(statistic, PairMean))
    return np.asarray(statistic.n_labels(data) >= (1 if single else 2))


def _published(statistic: ItemStatistic, values: npt.NDArray[Any], weights: npt.NDArray[Any] | None) -> Float:
    n_items = values.shape[-2]
    one = np.ones(n_items) if weights is None else weights.astype(np.float64)
    lead = np.broadcast_shapes(values.shape[:-2], one.shape[:-1])
    n_sets = math.prod(lead)
    data = np.broadcast_to(values, (*lead, *values.shape[-2:])).reshape(n_sets, *values.shape[-2:])
    multiplicities = np.broadcast_to(one, (*lead, n_items)).reshape(n_sets, n_items)
    out = np.empty((len(data), n_items))
    for position, (block, multiplicity) in enumerate(zip(data, multiplicities, strict=True)):
        printed = statistic.published_influence(block, multiplicity)
        if printed is None:
            raise ProtocolError(
                "convention='gwet' has no printed form for ordinal alpha and for Fleiss with pooled shares; "
                "use 'delta'."
            )
        out[position] = printed
    return out.reshape(*lead, n_items)


def _clustered(psi: Float, entered: npt.NDArray[np.bool_], clusters: npt.ArrayLike) -> Float:
    members = np.asarray(clusters)
    if members.shape != (psi.shape[-1],):
        raise ProtocolError(
            f"`clusters` needs one cluster for each of the {psi.shape[-1]} rows; got shape {members.shape}."
        )
    distinct, place = np.unique(members, return_inverse=True)
    indicator = np.zeros((len(distinct), psi.shape[-1]))
    indicator[place, np.arange(psi.shape[-1])] = 1.0
    sums = psi @ indicator.T
    n = (entered.astype(np.float64) @ indicator.T > 0).sum(-1)
    squares = (sums**2).sum(-1)
    return np.sqrt(np.where(n > 1, squares * safe_divide(n, n - 1, n > 1), np.nan))

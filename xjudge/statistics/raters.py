"""Agreement among any number of raters, from item-by-category counts ``(..., item, L)``.

``counts[..., i, a]`` is how many raters gave item ``i`` category ``a``; raters may be missing, so items have
unequal numbers of labels. Every function is vectorised over leading dims and gives NaN where a coefficient is
undefined; :func:`evaluate_raters` also gives the reason.

**The mechanism.** A coefficient is a function of sums over items: :func:`item_terms` gives what each item
adds, :func:`from_terms` the value of the sum, and nothing else touches the items. Hence ``item_weights``
everywhere: weights ``(item,)`` are multiplicities, so a histogram of count vectors
(:func:`count_vector_histogram`) gives the value of the data it came from; weights ``(replicate, item)`` are
resamples, evaluated together by one product with the terms. :func:`influence` and :func:`jackknife` use the
same two halves. :class:`ItemStatistic` holds both, for callers that come back many times.

Conger's kappa needs the raters told apart: label codes ``(..., item, rater)`` in place of counts. Light's
kappa and the mean pairwise kappa need tables of pairs. Numbers that are no categories, ``(..., item, rater)``
with NaN where missing, go to :func:`alpha_of_scores` and :func:`icc`.
"""

from __future__ import annotations

import numpy.typing as npt

from xjudge.statistics._icc import ICC_FORMS, IntraclassCorrelation, icc
from xjudge.statistics._influence import (
    entering,
    influence,
    jackknife,
    standard_error,
    standard_error_from_moments,
)
from xjudge.statistics._items import (
    RATER_COEFFICIENTS,
    RaterCoefficient,
    Sizes,
    Weights,
    evaluate_raters,
    from_terms,
    item_statistic,
    item_terms,
    sizes,
    summed_terms,
)
from xjudge.statistics._pair_average import PairAverage, light_kappa, mean_pairwise_kappa
from xjudge.statistics._patterns import (
    Histogram,
    count_vector_histogram,
    count_vectors,
    histogram_of_counts,
    merge_histograms,
)
from xjudge.statistics._rater_terms import PairKappas, icc_statistic, pair_statistic
from xjudge.statistics._score_alpha import (
    alpha_of_scores,
    evaluate_alpha_of_scores,
    influence_of_scores,
)
from xjudge.statistics._terms import Float, ItemStatistic
from xjudge.statistics._unanimous import disagreeing_item, disagreeing_pair, unseen_units

__all__ = [
    "ICC_FORMS",
    "RATER_COEFFICIENTS",
    "Histogram",
    "IntraclassCorrelation",
    "ItemStatistic",
    "PairAverage",
    "PairKappas",
    "RaterCoefficient",
    "Sizes",
    "alpha",
    "alpha_of_scores",
    "brennan_prediger",
    "conger_kappa",
    "count_vector_histogram",
    "count_vectors",
    "disagreeing_item",
    "disagreeing_pair",
    "entering",
    "evaluate_alpha_of_scores",
    "evaluate_raters",
    "fleiss_kappa",
    "from_terms",
    "gwet_ac",
    "histogram_of_counts",
    "icc",
    "icc_statistic",
    "influence",
    "influence_of_scores",
    "item_statistic",
    "item_terms",
    "jackknife",
    "light_kappa",
    "mean_pairwise_kappa",
    "merge_histograms",
    "pair_statistic",
    "percent_agreement",
    "sizes",
    "standard_error",
    "standard_error_from_moments",
    "summed_terms",
    "unseen_units",
]


def alpha(
    counts: npt.ArrayLike,
    metric: str | npt.ArrayLike = "nominal",
    *,
    weights: Weights = None,
    scores: npt.ArrayLike | None = None,
    item_weights: npt.ArrayLike | None = None,
) -> Float:
    r"""Krippendorff's alpha.

    :math:`\alpha = 1 - (n - 1) \sum_{ab} o_{ab} d_{ab} / \sum_{ab} n_a n_b d_{ab}` with coincidences
    :math:`o_{ab} = \sum_i n_{ia} (n_{ib} - [a = b]) / (m_i - 1)` over items with :math:`m_i \ge 2` labels.

    Parameters
    ----------
    counts : array-like, shape (..., item, L)
        Labels of each item in each category.
    metric : {"nominal", "ordinal", "interval", "ratio", "circular"} or (L, L) array
        Squared differences between categories, or own distances (symmetric, diagonal 0).
    weights : str or (L, L) array, optional
        Agreement weights in place of a metric: distances ``1 - w``.
    scores : array-like of float, optional
        Numbers the categories stand for; by default their positions (from 1 for ratios).
    item_weights : array-like, shape (..., item), optional
        Multiplicities, or one row per resample.

    Returns
    -------
    ndarray, shape (...)
        At most 1. NaN where no item has two labels or only one category is in use.

    Raises
    ------
    ProtocolError
        An unknown metric, a matrix or scores that do not fit.
    StructureError
        Counts that are negative or not of that shape.

    References
    ----------
    .. [1] K. Krippendorff, *Content Analysis*, 4th ed., 2018, ch. 12.

    Examples
    --------
    >>> labels = [[0, 0, 0], [0, 1, 0], [1, 1, -1], [2, 2, 1], [2, -1, -1]]
    >>> alpha(count_vectors(labels, 3), "ordinal").round(4).item()
    0.7186
    """
    return evaluate_raters(
        "alpha", counts, metric=metric, weights=weights, scores=scores, item_weights=item_weights
    ).value


def fleiss_kappa(
    counts: npt.ArrayLike,
    weights: Weights = None,
    *,
    shares: str = "pooled",
    scores: npt.ArrayLike | None = None,
    item_weights: npt.ArrayLike | None = None,
) -> Float:
    r"""Fleiss' kappa, Scott's pi of many raters; raters may be missing.

    :math:`(p_o - p_e)/(1 - p_e)`, with :math:`p_o` the mean over pairable items of the weighted share of
    agreeing pairs and :math:`p_e = \sum_{ab} w_{ab} \bar\pi_a \bar\pi_b`.

    Parameters
    ----------
    counts : array-like, shape (..., item, L)
        Labels of each item in each category.
    weights : str or (L, L) array, optional
        Agreement weights, diagonal 1.
    shares : {"pooled", "item_mean"}
        The two published conventions for :math:`\bar\pi`: over all labels of the pairable items, or the
        mean over items with a label of the shares within the item (irrCAC). Equal with equal numbers of
        labels.
    scores : array-like of float, optional
        Numbers the categories stand for.
    item_weights : array-like, shape (..., item), optional
        Multiplicities, or one row per resample.

    Returns
    -------
    ndarray, shape (...)
        At most 1. NaN where no item has two labels or only one category is in use.

    Raises
    ------
    ProtocolError, StructureError
        As :func:`alpha`.

    References
    ----------
    .. [1] J. L. Fleiss, "Measuring nominal scale agreement among many raters", 1971.

    Examples
    --------
    >>> fleiss_kappa([[3, 0], [1, 2], [0, 3], [2, 1]]).round(4).item()
    0.3333
    """
    return evaluate_raters(
        "fleiss_kappa", counts, weights=weights, shares=shares, scores=scores, item_weights=item_weights
    ).value


def gwet_ac(
    counts: npt.ArrayLike,
    weights: Weights = None,
    *,
    scores: npt.ArrayLike | None = None,
    item_weights: npt.ArrayLike | None = None,
) -> Float:
    r"""Gwet's AC1, and AC2 with weights.

    :math:`p_e = \frac{T_w}{L (L-1)} \sum_a \bar\pi_a (1 - \bar\pi_a)`, with :math:`T_w` the sum of all
    weights and :math:`\bar\pi` the mean over items with a label of the shares within the item.

    Parameters
    ----------
    counts : array-like, shape (..., item, L)
        Labels of each item in each category; L counts the declared categories, used or not.
    weights : str or (L, L) array, optional
        Agreement weights, diagonal 1.
    scores : array-like of float, optional
        Numbers the categories stand for.
    item_weights : array-like, shape (..., item), optional
        Multiplicities, or one row per resample.

    Returns
    -------
    ndarray, shape (...)
        At most 1. NaN where no item has two labels. Defined where only one category is in use: then 1.

    Raises
    ------
    ProtocolError, StructureError
        As :func:`alpha`.

    References
    ----------
    .. [1] K. L. Gwet, "Computing inter-rater reliability and its variance in the presence of high
       agreement", 2008.

    Examples
    --------
    >>> gwet_ac([[2, 0], [2, 0], [2, 0], [1, 1]]).round(4).item()
    0.68
    """
    return evaluate_raters("gwet_ac", counts, weights=weights, scores=scores, item_weights=item_weights).value


def brennan_prediger(
    counts: npt.ArrayLike,
    weights: Weights = None,
    *,
    scores: npt.ArrayLike | None = None,
    item_weights: npt.ArrayLike | None = None,
) -> Float:
    r"""Brennan and Prediger's coefficient of many raters: chance is uniform, :math:`p_e = \sum w_{ab} / L^2`.

    Parameters
    ----------
    counts : array-like, shape (..., item, L)
        Labels of each item in each category; L counts the declared categories, used or not.
    weights : str or (L, L) array, optional
        Agreement weights, diagonal 1.
    scores : array-like of float, optional
        Numbers the categories stand for.
    item_weights : array-like, shape (..., item), optional
        Multiplicities, or one row per resample.

    Returns
    -------
    ndarray, shape (...)
        At most 1. NaN where no item has two labels.

    Raises
    ------
    ProtocolError, StructureError
        As :func:`alpha`.

    Examples
    --------
    >>> brennan_prediger([[2, 0, 0], [0, 2, 0], [1, 0, 1]]).round(4).item()
    0.5
    """
    return evaluate_raters(
        "brennan_prediger", counts, weights=weights, scores=scores, item_weights=item_weights
    ).value


def percent_agreement(
    counts: npt.ArrayLike,
    weights: Weights = None,
    *,
    scores: npt.ArrayLike | None = None,
    item_weights: npt.ArrayLike | None = None,
) -> Float:
    """Mean over items with two or more labels of the (weighted) share of agreeing pairs in the item.

    Parameters
    ----------
    counts : array-like, shape (..., item, L)
        Labels of each item in each category.
    weights : str or (L, L) array, optional
        Agreement weights, diagonal 1.
    scores : array-like of float, optional
        Numbers the categories stand for.
    item_weights : array-like, shape (..., item), optional
        Multiplicities, or one row per resample.

    Returns
    -------
    ndarray, shape (...)
        In [0, 1]. NaN where no item has two labels.

    Raises
    ------
    ProtocolError, StructureError
        As :func:`alpha`.

    Examples
    --------
    >>> percent_agreement([[3, 0], [1, 2], [1, 0]]).round(4).item()
    0.6667
    """
    return evaluate_raters(
        "percent_agreement", counts, weights=weights, scores=scores, item_weights=item_weights
    ).value


def conger_kappa(
    labels: npt.ArrayLike,
    n_categories: int,
    weights: Weights = None,
    *,
    scores: npt.ArrayLike | None = None,
    item_weights: npt.ArrayLike | None = None,
) -> Float:
    r"""Conger's kappa: Cohen's for many raters, chance from each rater's own category shares.

    :math:`p_e` is the mean over pairs of raters g, h of :math:`\sum_{ab} w_{ab} p_{ga} p_{hb}`, with
    :math:`p_{ga}` the share of a among all that rater g labelled; :math:`p_o` as in :func:`fleiss_kappa`.

    Parameters
    ----------
    labels : array-like of int, shape (..., item, rater)
        Category codes ``0 .. L-1``; negative where missing. A rater without a label is not counted.
    n_categories : int
        L, the number of declared categories.
    weights : str or (L, L) array, optional
        Agreement weights, diagonal 1.
    scores : array-like of float, optional
        Numbers the categories stand for.
    item_weights : array-like, shape (..., item), optional
        Multiplicities, or one row per resample.

    Returns
    -------
    ndarray, shape (...)
        At most 1. NaN where no item has two labels or only one category is in use.

    Raises
    ------
    ProtocolError, StructureError
        As :func:`alpha`; codes of L or above.

    References
    ----------
    .. [1] A. J. Conger, "Integration and generalization of kappas for multiple raters", 1980.

    Examples
    --------
    >>> conger_kappa([[0, 0], [0, 1], [1, 1], [1, 1]], 2).round(4).item()
    0.5
    """
    return evaluate_raters(
        "conger_kappa",
        labels,
        n_categories=n_categories,
        weights=weights,
        scores=scores,
        item_weights=item_weights,
    ).value

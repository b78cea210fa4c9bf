"""Agreement weights, disagreement costs and Krippendorff's metrics: small matrices over the categories.

Three kinds of ``(L, L)`` matrix say how near two categories are. *Agreement weights* have 1 on the diagonal
and entries in [0, 1]; *costs* have 0 on the diagonal and entries of any size from 0 up; a *metric* of alpha
is a cost matrix too, except that the ordinal one depends on how often each category was used. Weights and
costs say the same thing: ``w = 1 - d / max d``.

Categories that are declared but unused keep their place, so a matrix depends on the declared scale alone.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError, listing

__all__ = [
    "COST_NAMES",
    "METRICS",
    "ORDERED_METRICS",
    "ORDERED_WEIGHTS",
    "WEIGHT_NAMES",
    "cost_matrix",
    "distance_matrix",
    "ordinal_distances",
    "weight_matrix",
    "weights_from_costs",
]

Matrix = npt.NDArray[np.float64]

WEIGHT_NAMES: Final = (
    "identity",
    "linear",
    "quadratic",
    "ordinal",
    "radical",
    "ratio",
    "circular",
    "bipolar",
)
"""Names that :func:`weight_matrix` knows."""

ORDERED_WEIGHTS: Final = frozenset(WEIGHT_NAMES) - {"identity"}
"""Names of agreement weights that mean something only on an ordered scale."""

COST_NAMES: Final = ("nominal", "linear", "quadratic")
"""Names that :func:`cost_matrix` knows."""

METRICS: Final = ("nominal", "ordinal", "interval", "ratio", "circular")
"""Names that :func:`distance_matrix` (and :func:`ordinal_distances`) know: the metrics of alpha."""

ORDERED_METRICS: Final = frozenset(METRICS) - {"nominal"}
"""Names of metrics that mean something only on an ordered scale."""

_ROUNDING = 1e-12


def weight_matrix(
    weights: str | npt.ArrayLike | None, n_categories: int, scores: npt.ArrayLike | None = None
) -> Matrix:
    r"""Agreement weights as an ``(L, L)`` matrix, by name or checked as given.

    With :math:`x_a` the score of category ``a``, :math:`R = x_{max} - x_{min}` and the definitions of
    Gwet [1]_ (each matrix has 1 on the diagonal, 0 for the pair furthest apart):

    ========= =====================================================================================
    identity  1 on the diagonal, 0 elsewhere
    linear    :math:`1 - |x_a - x_b| / R`
    quadratic :math:`1 - (x_a - x_b)^2 / R^2`
    radical   :math:`1 - \sqrt{|x_a - x_b| / R}`
    ratio     :math:`1 - [(x_a - x_b)/(x_a + x_b)]^2 / [R / (x_{max} + x_{min})]^2`
    circular  :math:`1 - d_{ab} / \max d`, :math:`d = \sin^2(\pi (x_a - x_b) / U)`
    bipolar   :math:`1 - d_{ab} / \max d`,
              :math:`d = (x_a - x_b)^2 / [(x_a + x_b - 2 x_{min})(2 x_{max} - x_a - x_b)]`
    ordinal   :math:`1 - \binom{n_{ab}}{2} / \binom{L}{2}`, :math:`n_{ab}` the number of categories from
              ``a`` to ``b``, both included; depends on positions only
    ========= =====================================================================================

    The circle closes one smallest step after its last score: :math:`U = R + \min_{a \ne b} |x_a - x_b|`,
    which is Gwet's :math:`R + 1` for scores one apart, and does not depend on the unit of the scores.

    Parameters
    ----------
    weights : str, array-like or None
        One of :data:`WEIGHT_NAMES`, or an own ``(L, L)`` matrix: symmetric, diagonal 1, entries in [0, 1].
        ``None`` is identity.
    n_categories : int
        L, the number of declared categories, used or not; at least 1.
    scores : array-like of float, optional
        The number each category stands for: L distinct finite numbers, for ``"ratio"`` none below 0. By
        default the positions ``0 .. L-1``; for ``"ratio"`` the positions from one, ``1 .. L``, since the
        distance of any two numbers from zero is the same there.

    Returns
    -------
    ndarray of float64, shape (L, L)

    Raises
    ------
    ProtocolError
        Unknown name, an own matrix that is not an agreement matrix, scores that do not fit.

    References
    ----------
    .. [1] K. L. Gwet, *Handbook of Inter-Rater Reliability*, 5th ed., 2021, vol. 1, ch. 3.

    Examples
    --------
    >>> weight_matrix("linear", 3)
    array([[1. , 0.5, 0. ],
           [0.5, 1. , 0.5],
           [0. , 0.5, 1. ]])
    >>> weight_matrix("quadratic", 3, scores=[0, 1, 4])[0]
    array([1.    , 0.9375, 0.    ])
    """
    L = _n_categories(n_categories)
    if weights is None:
        weights = "identity"
    if not isinstance(weights, str):
        return _own_weights(weights, L)
    if weights not in WEIGHT_NAMES:
        raise ProtocolError(
            f"`weights` must be one of {listing(WEIGHT_NAMES, most=8)} or an own matrix; got {weights!r}."
        )
    if weights == "identity" or L == 1:
        return np.eye(L)
    if weights == "ordinal":
        position = np.arange(L, dtype=np.float64)
        between = np.abs(position[:, None] - position) + 1
        return weights_from_costs(between * (between - 1) / 2)
    x = _scores(scores, L, first=1.0 if weights == "ratio" else 0.0)
    gap = np.abs(x[:, None] - x)
    if weights == "linear":
        return weights_from_costs(gap)
    if weights == "quadratic":
        return weights_from_costs(gap**2)
    if weights == "radical":
        return weights_from_costs(np.sqrt(gap))
    if weights == "ratio":
        return weights_from_costs(_ratio_distances(x))
    if weights == "circular":
        return weights_from_costs(_circular_distances(x))
    return weights_from_costs(_bipolar_distances(x))


def cost_matrix(costs: str | npt.ArrayLike, n_categories: int, scores: npt.ArrayLike | None = None) -> Matrix:
    """Disagreement costs as an ``(L, L)`` matrix, by name or checked as given.

    Parameters
    ----------
    costs : str or array-like
        ``"nominal"`` (1 off the diagonal), ``"linear"`` (absolute difference of scores), ``"quadratic"``
        (its square), or an own ``(L, L)`` matrix: symmetric, diagonal 0, finite, no entry below 0, not all
        zero.
    n_categories : int
        L, the number of declared categories, used or not; at least 1.
    scores : array-like of float, optional
        L distinct finite numbers; by default the positions ``0 .. L-1``.

    Returns
    -------
    ndarray of float64, shape (L, L)
        Not rescaled: a chance-corrected coefficient does not depend on the unit of the costs.

    Raises
    ------
    ProtocolError
        Unknown name, an own matrix that is not a cost matrix, scores that do not fit.

    Examples
    --------
    "Cannot assess" put half way between the two categories of a binary scale:

    >>> cost_matrix("quadratic", 3, scores=[0, 1, 0.5])
    array([[0.  , 1.  , 0.25],
           [1.  , 0.  , 0.25],
           [0.25, 0.25, 0.  ]])
    """
    L = _n_categories(n_categories)
    if not isinstance(costs, str):
        return _own_costs(costs, L, "costs")
    if costs not in COST_NAMES:
        raise ProtocolError(f"`costs` must be one of {listing(COST_NAMES)} or an own matrix; got {costs!r}.")
    if costs == "nominal":
        return 1.0 - np.eye(L)
    x = _scores(scores, L)
    gap = np.abs(x[:, None] - x)
    return gap if costs == "linear" else gap**2


def weights_from_costs(costs: npt.ArrayLike) -> Matrix:
    """Agreement weights that say the same as costs: ``w = 1 - d / max d``.

    Parameters
    ----------
    costs : array-like of float, shape (L, L)
        As :func:`cost_matrix` returns them.

    Returns
    -------
    ndarray of float64, shape (L, L)
        All ones where every cost is 0 (a single category).

    Examples
    --------
    >>> weights_from_costs([[0, 2], [2, 0]])
    array([[1., 0.],
           [0., 1.]])
    """
    d = np.asarray(costs, dtype=np.float64)
    largest = d.max(initial=0.0)
    return np.ones_like(d) if largest == 0 else 1.0 - d / largest


def distance_matrix(
    metric: str | npt.ArrayLike, n_categories: int, scores: npt.ArrayLike | None = None
) -> Matrix:
    r"""Squared differences of Krippendorff's alpha between categories, for metrics that do not need the data.

    ========= =================================================================
    nominal   :math:`[a \ne b]`
    interval  :math:`(x_a - x_b)^2`
    ratio     :math:`[(x_a - x_b)/(x_a + x_b)]^2`
    circular  :math:`\sin^2(\pi (x_a - x_b) / U)`, ``U`` as in :func:`weight_matrix`
    ========= =================================================================

    The ordinal metric depends on the labels: :func:`ordinal_distances`.

    Parameters
    ----------
    metric : str or array-like
        One of :data:`METRICS` but ``"ordinal"``, or an own ``(L, L)`` matrix: symmetric, diagonal 0, finite,
        no entry below 0, not all zero.
    n_categories : int
        L, the number of declared categories, used or not; at least 1.
    scores : array-like of float, optional
        L distinct finite numbers, for ``"ratio"`` none below 0; by default the positions ``0 .. L-1``, for
        ``"ratio"`` ``1 .. L``.

    Returns
    -------
    ndarray of float64, shape (L, L)

    Raises
    ------
    ProtocolError
        Unknown name, ``"ordinal"``, an own matrix that is not one of distances, scores that do not fit.

    Examples
    --------
    >>> distance_matrix("interval", 3)
    array([[0., 1., 4.],
           [1., 0., 1.],
           [4., 1., 0.]])
    """
    L = _n_categories(n_categories)
    if not isinstance(metric, str):
        return _own_costs(metric, L, "metric")
    if metric not in METRICS:
        raise ProtocolError(
            f"`metric` must be one of {listing(METRICS, most=5)} or an own matrix; got {metric!r}."
        )
    if metric == "nominal":
        return 1.0 - np.eye(L)
    if metric == "ordinal":
        raise ProtocolError("The ordinal metric depends on the labels; use `ordinal_distances`.")
    x = _scores(scores, L, first=1.0 if metric == "ratio" else 0.0)
    if metric == "interval":
        return (x[:, None] - x) ** 2
    return _ratio_distances(x) if metric == "ratio" else _circular_distances(x)


def ordinal_distances(shares: npt.ArrayLike) -> Matrix:
    r"""Krippendorff's ordinal metric: squared difference of mid-ranks.

    :math:`d_{ab} = \left(\sum_{c=a}^{b} n_c - (n_a + n_b)/2\right)^2` for ``a < b``, which is the squared
    difference of the mid-ranks of the two categories.

    Parameters
    ----------
    shares : array-like, shape (..., L)
        How often each category was used, as counts or as shares, in the order of the categories. The unit
        of the distances follows; alpha does not depend on it.

    Returns
    -------
    ndarray of float64, shape (..., L, L)

    Examples
    --------
    >>> ordinal_distances([4, 2, 2])
    array([[ 0.,  9., 25.],
           [ 9.,  0.,  4.],
           [25.,  4.,  0.]])
    """
    n = np.asarray(shares, dtype=np.float64)
    rank = np.cumsum(n, axis=-1) - n / 2
    return (rank[..., :, None] - rank[..., None, :]) ** 2


def _ratio_distances(x: Matrix) -> Matrix:
    if x.min() < 0:
        raise ProtocolError(f"Ratio distances need scores that are not negative; got {x.min():g}.")
    total = x[:, None] + x
    gap = x[:, None] - x
    return np.divide(gap, total, out=np.zeros_like(gap), where=total > 0) ** 2


def _circular_distances(x: Matrix) -> Matrix:
    if len(x) == 1:
        return np.zeros((1, 1))
    ordered = np.sort(x)
    circumference = ordered[-1] - ordered[0] + np.diff(ordered).min()
    return np.sin(np.pi * (x[:, None] - x) / circumference) ** 2


def _bipolar_distances(x: Matrix) -> Matrix:
    gap = x[:, None] - x
    total = x[:, None] + x
    room = (total - 2 * x.min()) * (2 * x.max() - total)
    return np.divide(gap**2, room, out=np.zeros_like(gap), where=gap != 0)


def _n_categories(n_categories: int) -> int:
    if n_categories < 1:
        raise ProtocolError(f"`n_categories` must be at least 1; got {n_categories}.")
    return int(n_categories)


def _scores(scores: npt.ArrayLike | None, L: int, first: float = 0.0) -> Matrix:
    if scores is None:
        return np.arange(L, dtype=np.float64) + first
    x = _as_floats(scores, "scores")
    if x.shape != (L,):
        raise ProtocolError(f"`scores` needs one number for each of the {L} categories; got shape {x.shape}.")
    if not np.isfinite(x).all() or len(np.unique(x)) != L:
        raise ProtocolError(f"`scores` must be distinct finite numbers; got {listing(x.tolist(), most=9)}.")
    return x


def _as_floats(values: Any, name: str) -> Matrix:
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ProtocolError(f"`{name}` must hold numbers only, in a regular shape.") from None


def _square(matrix: Any, L: int, name: str) -> Matrix:
    m = _as_floats(matrix, name)
    if m.shape != (L, L):
        raise ProtocolError(
            f"`{name}` must be a {L} x {L} matrix, one row and one column for each declared category; "
            f"got shape {m.shape}."
        )
    if not np.isfinite(m).all():
        raise ProtocolError(f"`{name}` must be finite; row {_first_row(~np.isfinite(m))} is not.")
    uneven = np.abs(m - m.T) > _ROUNDING * np.abs(m).max()
    if uneven.any():
        raise ProtocolError(f"`{name}` must be symmetric; row {_first_row(uneven)} differs from its column.")
    return m


def _own_weights(matrix: Any, L: int) -> Matrix:
    w = _square(matrix, L, "weights")
    if (np.abs(np.diag(w) - 1) > _ROUNDING).any():
        raise ProtocolError("`weights` must have 1 on the diagonal; disagreement costs go to `costs`.")
    outside = (w < 0) | (w > 1 + _ROUNDING)
    if outside.any():
        raise ProtocolError(f"`weights` must lie in [0, 1]; row {_first_row(outside)} does not.")
    return w


def _own_costs(matrix: Any, L: int, name: str) -> Matrix:
    d = _square(matrix, L, name)
    if np.diag(d).any():
        raise ProtocolError(
            f"`{name}` must have 0 on the diagonal; agreement weights (1 on the diagonal) go to `weights`."
        )
    if (d < 0).any():
        raise ProtocolError(f"`{name}` must not be negative; row {_first_row(d < 0)} is.")
    if L > 1 and not d.any():
        raise ProtocolError(f"`{name}` must not be zero throughout: nothing would ever disagree.")
    return d


def _first_row(where: npt.NDArray[np.bool_]) -> int:
    return int(np.argmax(where.any(axis=1)))

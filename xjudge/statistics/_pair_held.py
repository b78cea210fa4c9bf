"""Real-valued pairs held in memory: every statistic of numbers, for any number of weightings."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError, StructureError, listing
from xjudge.statistics._pair_moments import (
    OF_MOMENTS,
    PairMoments,
    evaluate_moments,
    moment_gradient,
    moments_of_pairs,
    pair_features,
)
from xjudge.statistics._pair_ranks import OF_RANKS, RankedPairs
from xjudge.statistics.coefficients import Evaluated

__all__ = ["HeldPairs"]

Float = npt.NDArray[np.float64]


class HeldPairs:
    """Real-valued pairs held in memory: every statistic, for any number of weightings.

    Parameters
    ----------
    x, y : array-like of float, shape (pair,)
        Reference and rater, finite.

    Raises
    ------
    StructureError
        Numbers that are not finite, or not as many of one as of the other.

    Notes
    -----
    Sorted once. A weighting then costs one product with the pairs, for Kendall O(n log n); the extra memory
    is a few times the weights.

    Examples
    --------
    >>> pairs = HeldPairs([1.0, 2.0, 3.5, 4.0], [1.1, 2.5, 2.4, 4.2])
    >>> pairs.evaluate("kendall_tau_b").value.round(4).item()
    0.6667
    >>> pairs.evaluate("mean_error", [[1, 1, 1, 1], [2, 0, 0, 2]]).value.round(4)
    array([-0.075,  0.15 ])
    """

    def __init__(self, x: npt.ArrayLike, y: npt.ArrayLike) -> None:
        self._x, self._y = (np.asarray(side, dtype=np.float64) for side in (x, y))
        if self._x.ndim != 1 or self._x.shape != self._y.shape:
            raise StructureError(
                f"Held pairs are two arrays of one length; got shapes {self._x.shape} and {self._y.shape}."
            )
        if not (np.isfinite(self._x).all() and np.isfinite(self._y).all()):
            raise StructureError("Held pairs are finite numbers; leave out the others.")
        self._whole = moments_of_pairs(self._x, self._y)
        self._features = pair_features(self._x, self._y, self._whole.shift)
        self._ranked: RankedPairs | None = None

    @property
    def n_pairs(self) -> int:
        """Number of pairs."""
        return len(self._x)

    def evaluate(self, name: str, weights: npt.ArrayLike | None = None) -> Evaluated:
        """Value and reason of a statistic.

        Parameters
        ----------
        name : str
            A key of :data:`SCORE_STATISTICS`.
        weights : array-like, shape (..., pair), optional
            How often each pair counts; one row per resample.

        Returns
        -------
        value, reason : ndarray, shape (...)

        Raises
        ------
        ProtocolError
            An unknown name, weights that do not fit.
        """
        _known(name)
        counts = self._weights(weights)
        if name in OF_RANKS:
            return Evaluated(*self._ranks().evaluate(name, counts))
        return Evaluated(*evaluate_moments(name, self._moments(counts)))

    def influence(self, name: str, weights: npt.ArrayLike | None = None) -> Float:
        """Derivative of a statistic by each pair's weight.

        Parameters
        ----------
        name, weights
            As :meth:`evaluate`.

        Returns
        -------
        ndarray, shape (..., pair)
            NaN where the statistic is undefined. Times the weights they sum to 0, and the delta-method
            variance is the sum of their squares (of their sums over the pairs of an item).

        Raises
        ------
        ProtocolError
            As :meth:`evaluate`.
        """
        _known(name)
        counts = self._weights(weights)
        if name in OF_RANKS:
            return self._ranks().influence(name, counts)
        return moment_gradient(name, self._moments(counts)) @ self._features.T

    def _weights(self, weights: npt.ArrayLike | None) -> Float:
        counts = np.ones(self.n_pairs) if weights is None else np.asarray(weights, dtype=np.float64)
        if counts.ndim < 1 or counts.shape[-1] != self.n_pairs:
            raise ProtocolError(
                f"`weights` needs one weight for each of the {self.n_pairs} pairs; got shape {counts.shape}."
            )
        if counts.size and not (counts.min() >= 0 and counts.max() < np.inf):
            raise ProtocolError("`weights` must be finite and not negative.")
        return counts

    def _moments(self, weights: Float) -> PairMoments:
        sides = (self._x, self._y)
        used = weights > 0
        low = [np.where(used, side, np.inf).min(-1, initial=np.inf) for side in sides]
        high = [np.where(used, side, -np.inf).max(-1, initial=-np.inf) for side in sides]
        sums = weights @ self._features
        shift = np.broadcast_to(self._whole.shift, (*sums.shape[:-1], 2))
        return PairMoments(sums, shift, np.stack(low, -1), np.stack(high, -1))

    def _ranks(self) -> RankedPairs:
        if self._ranked is None:
            self._ranked = RankedPairs(self._x, self._y)
        return self._ranked


def _known(name: str) -> None:
    names = (*OF_MOMENTS, *OF_RANKS)
    if name not in names:
        raise ProtocolError(f"There is no statistic of numbers {name!r}; there are {listing(names, most=9)}.")

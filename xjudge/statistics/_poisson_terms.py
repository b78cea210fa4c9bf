"""Terms of coefficients of many raters under Poisson weights, where distinct items are too many to be merged.

A coefficient of many raters is a function of a sum over units
(:class:`xjudge.statistics.raters.ItemStatistic`). What the units of items add is summed with a weight of its
own for each item, drawn by its position.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from xjudge.codes import MISSING
from xjudge.statistics._poisson_sums import add_weighted, added, as_counted, weighted_items
from xjudge.statistics._rater_codes import codes_of, options_of
from xjudge.statistics.counts import Block, Count, Options, Request
from xjudge.statistics.raters import ItemStatistic, count_vectors

__all__ = ["POISSON_TERMS", "poisson_terms"]

Floats = npt.NDArray[np.float64]

_TERMS = 1 << 22
"""Numbers that units add which are held at a time."""


def _count(options: Options, block: Block) -> Floats:
    statistic: ItemStatistic = options["statistic"]
    codes = codes_of(options, block)
    n_criteria, n_others = codes.shape[2:]
    out = np.zeros((n_others, n_criteria, options["n_resamples"], _width(options)))
    step = max(1, _TERMS // out.shape[-1])
    for rows, weights in weighted_items(block["position"], options["n_resamples"], options["seed"]):
        for other, criterion in np.ndindex(out.shape[:2]):
            for start in range(0, len(rows), step):
                part = slice(start, start + step)
                own = statistic.terms(_data(options, codes[rows[part], :, criterion, other]))
                add_weighted(out[other, criterion], weights[:, part], own)
    return out


def _data(options: Options, codes: npt.NDArray[np.signedinteger]) -> npt.NDArray[np.integer]:
    """What a statistic takes of codes (item, rater): count vectors, or labels."""
    statistic: ItemStatistic = options["statistic"]
    if statistic.needs == "labels":
        return np.maximum(codes, MISSING)
    return count_vectors(codes, options["n_categories"])


def _width(options: Options) -> int:
    """Numbers that one unit adds."""
    columns = options["n_raters"]
    nothing = np.full((1, columns), MISSING, dtype=np.int8)
    statistic: ItemStatistic = options["statistic"]
    return int(statistic.terms(_data(options, nothing)).shape[-1])


POISSON_TERMS = Count("terms under Poisson weights", _count, added, as_counted)
"""Weighted terms (other, criterion, resample, T); see :func:`poisson_terms`."""


def poisson_terms(
    statistic: ItemStatistic,
    n_resamples: int,
    seed: int,
    *,
    array: str,
    columns: Sequence[int],
    targets: Sequence[int],
    n_categories: int,
    n_criteria: int,
) -> Request:
    """Ask for the summed terms of one coefficient under Poisson weights of the items.

    Parameters
    ----------
    statistic : ItemStatistic
        Of count vectors, or of labels.
    n_resamples : int
        B.
    seed : int
    array, columns, targets, n_categories, n_criteria
        As for :func:`xjudge.statistics.rater_counts.unit_rows`.

    Returns
    -------
    Request
        Sums of shape (other, criterion, resample, T), float64. The pass has an array ``position`` (item,).

    Notes
    -----
    ``n B`` draws, and ``n B T`` products for each criterion. The weights are the same whatever the blocks;
    terms are not whole numbers, so that the last digits of their sums may depend on the blocks.
    """
    options = options_of(array, columns, targets, n_categories, n_criteria)
    drawn = {"statistic": statistic, "n_resamples": n_resamples, "seed": seed, "n_raters": len(columns)}
    return Request(POISSON_TERMS, options | drawn)

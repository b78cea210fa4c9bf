"""Strata from which the co-labelled items were drawn, and margins that weigh them by what they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from xjudge._sampling_weights import WEIGHT
from xjudge.errors import StructureError
from xjudge.labelled._loo_pass import Opened
from xjudge.statistics import loo

__all__ = ["Strata"]

STRATUM = "stratum"


class Strata(NamedTuple):
    """Strata of items.

    Parameters
    ----------
    name : str
        Of the coordinate.
    factor : ndarray of float, shape (S,)
        Items of the corpus that an item here stands for: 1 where the items that were not drawn are here too.
    """

    name: str
    factor: npt.NDArray[np.float64]

    @classmethod
    def of(cls, opened: Opened, strata: str | Literal[False] | None) -> Strata | None:
        """Read the strata, and have them counted apart; ``None`` where all items weigh alike.

        Raises
        ------
        StructureError
            No such coordinate, or no value in it; sampling weights that differ within a stratum or are
            negative.
        """
        view = opened.view
        there = {name for name in (STRATUM, WEIGHT) if name in view.data.variables}
        decided = strata is not None or there == {STRATUM, WEIGHT}
        opened.counting.cases.counts_alike = not decided
        if strata is False or strata == "none" or not decided:
            return None
        name = STRATUM if strata is None else strata
        codes, unique = pd.factorize(view.item_values(name, "strata"))
        if not len(unique):
            raise StructureError(f"`strata={name!r}` has no value on any item.")
        factor = np.ones(len(unique))
        if WEIGHT in there:
            factor = _factors(np.asarray(view.item_values(WEIGHT, "strata")), codes, unique, name)
        opened.stratify(codes, len(unique))
        return cls(name, factor)

    def margins(
        self, parts: Sequence[loo.LooCounts], **rule: Any
    ) -> tuple[loo.LooCounts, loo.LooMargins, dict[str, Any]]:
        """Counts of all strata, weighted margins, and what else the weights change of the result."""
        sizes = [
            int(np.rint(factor * np.asarray(part.moments)[..., 0, 0].max(initial=0)))
            for factor, part in zip(self.factor, parts, strict=True)
        ]
        # a stratum that these items leave out of the sample by missing answers keeps its size
        sizes = [max(size, int(part.n_items.max(initial=0))) for size, part in zip(sizes, parts, strict=True)]
        margins = loo.stratified_margins(parts, sizes, unsampled="drop", **rule)
        drawn = np.stack([part.n_items.max(axis=-1) for part in parts])
        equal = loo.equal_human_agreement(parts, sizes)
        lost = np.where(drawn == 0, np.array(sizes)[:, None], 0).sum(axis=0)
        return loo.add_counts(parts), margins, {"human_agreement_equal": equal, "n_unsampled": lost}


def _factors(
    weight: npt.NDArray[Any], codes: npt.NDArray[np.intp], unique: Any, name: str
) -> npt.NDArray[np.float64]:
    """Items that an item stands for, by stratum."""
    weight = np.nan_to_num(weight.astype(np.float64))
    if (weight < 0).any():
        raise StructureError(f"`{WEIGHT}` is an item's stratum over its drawn items, and never negative.")
    drawn = (weight > 0) & (codes >= 0)
    least, most = np.full(len(unique), np.inf), np.zeros(len(unique))
    np.minimum.at(least, codes[drawn], weight[drawn])
    np.maximum.at(most, codes[drawn], weight[drawn])
    varies = most - least > 1e-9 * most
    if varies.any():
        raise StructureError(
            f"`{WEIGHT}` is one number a stratum, its items over those drawn; it varies where {name!r} is "
            f"{unique[int(np.argmax(varies))]!r}. Take the strata by which items were drawn, or strata=False."
        )
    # where the items that were not drawn are here too, they are counted
    return np.where(most > 0, most, 1.0) if (weight > 0).all() else np.ones(len(unique))

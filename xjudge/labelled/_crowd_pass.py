"""A dataset as a list of answers, for the verbs of crowds; pairs of raters with enough in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import xarray as xr

from xjudge._layouts import to_sparse
from xjudge._sparse import Answers
from xjudge.codes import MISSING, N_OUTCOMES
from xjudge.errors import ProtocolError
from xjudge.labelled._common import flat_attrs, version, warn_recoded
from xjudge.lazy import metadata_values, reduce_items
from xjudge.outcomes import Cases, check_values
from xjudge.protocol import Protocol, Resolved
from xjudge.statistics.answers import Meetings, unknown
from xjudge.view import View, checked_dataset

__all__ = ["Crowd", "Pairs", "pair_targets"]

Ints = npt.NDArray[np.int64]


class Crowd:
    """A dataset as a list of answers, for one protocol; what is counted of it, in one pass.

    Parameters
    ----------
    verb : str
        For messages.
    data, humans, judges, protocol
        As the verbs take them.
    """

    def __init__(self, verb: str, data: Any, humans: Any, judges: Any, protocol: Protocol | None) -> None:
        self.answers = Answers.of(to_sparse(checked_dataset(data)))
        self.view = View.of_crowd(self.answers, humans=humans, judges=judges)
        self.protocol = Protocol() if protocol is None else protocol
        self.resolved: Resolved = self.protocol.resolve(self.view.scale)
        if self.protocol.aggregate not in (None, "micro"):
            raise ProtocolError(
                f"`{verb}` keeps criteria apart (aggregate=None) or pools them ('micro'); got "
                f"{self.protocol.aggregate!r}."
            )
        if self.protocol.extraction is not None:
            raise ProtocolError(f"`{verb}` takes labels as they are, without an extraction rule.")
        if self.view.scale.kind == "continuous":
            raise ProtocolError(f"`{verb}` needs categories, and the scale is {self.view.scale!r}.")
        self.n_others = int(np.prod(list(self.view.others.values())))
        self.pooled = self.protocol.aggregate == "micro" and self.view.n_criteria > 1
        self.per_criterion = self.protocol.aggregate is None and "criterion" in self.view.rest
        self.n_criteria = 1 if self.pooled else self.view.n_criteria

    def counted(self, request: Any) -> Any:
        """What a request counts; the codes outside the scale are counted along, and refused."""
        cases = Cases(self.view, [self.protocol])
        population = None
        if "population" in cases.arrays:
            population = metadata_values(cases.arrays["population"])
            if population.ndim > 2:
                raise ProtocolError("On the sparse layout a population is of items, without criteria.")
            population = population[:, 0]
        requests = [unknown(self.view.scale.n_categories), request]
        held: list[Any] = []

        def finish(found: list[Any]) -> dict[str, Any]:
            check_values(self.view, found[0])
            held.append(found[1])
            return {}

        reduce_items(requests, self.answers.listed(population), finish)
        counted = held[0]
        return counted.item() if isinstance(counted, np.ndarray) and counted.dtype == object else counted

    def mask(self, positions: Sequence[int]) -> npt.NDArray[np.bool_]:
        """Raters as a boolean array."""
        out = np.zeros(self.answers.n_raters, dtype=bool)
        out[list(positions)] = True
        return out

    def placed(self, array: npt.NDArray[Any], trailing: int = 0) -> npt.NDArray[Any]:
        """From (criterion, other, subject, *trailing) to (subject[, criterion], *others, *trailing)."""
        array = np.moveaxis(array, 2, 0)
        array = array.reshape((*array.shape[:2], *self.view.others.values(), *array.shape[3:]))
        return array if self.per_criterion else array.squeeze(1)

    @property
    def dims(self) -> list[str]:
        """Dims of the result after its first."""
        return [dim for dim in self.view.rest if self.per_criterion or dim != "criterion"]

    def result(
        self, verb: str, first: str, variables: dict[str, Any], coords: dict[str, Any], **stated: Any
    ) -> xr.Dataset:
        """Named result; variables are arrays on the dims of the result, or pairs of dims and array."""
        dims = (first, *self.dims)
        named = {name: held if isinstance(held, tuple) else (dims, held) for name, held in variables.items()}
        out = xr.Dataset(named, coords={**self.view.coordinates(*self.dims), **coords})
        known = {"verb": verb, "scale": self.view.scale, "protocol": self.protocol}
        known |= {name: value for name, value in stated.items() if value is not None}
        out.attrs = flat_attrs(known | {"xjudge_version": version()})
        warn_recoded([self.resolved])
        return out


def pair_targets(resolved: Resolved) -> list[int]:
    """Places of the tables of pairs: categories, then one for whoever was asked and gave none."""
    n = resolved.scale.n_categories
    missing = len(resolved.targets) - N_OUTCOMES
    return [
        target if target >= 0 else (MISSING if place == missing else n)
        for place, target in enumerate(resolved.targets)
    ]


class Pairs(NamedTuple):
    """Pairs with enough in common: positions of the raters, tables, items.

    ``tables`` has shape (criterion, other, pair, L + 1, L + 1), ``n_items`` (criterion, other, pair) where it
    differs from the number of cases; ``n_met`` pairs share a usable case.
    """

    first: npt.NDArray[np.intp]
    second: npt.NDArray[np.intp]
    tables: Ints
    n_items: Ints | None
    n_met: int

    @classmethod
    def of(cls, found: Meetings, crowd: Crowd, members: npt.NDArray[np.bool_], min_overlap: int) -> Pairs:
        n_raters, n_tables = crowd.answers.n_raters, crowd.n_criteria * crowd.n_others
        n_places = crowd.resolved.scale.n_categories + 1
        size = n_places**2
        both = found.key // (size * n_tables)
        inside = members[both // n_raters] & members[both % n_raters]
        both, key, n_cases = both[inside], found.key[inside], found.n_cases[inside]
        place = key % size
        usable = np.where((place // n_places < n_places - 1) & (place % n_places < n_places - 1), n_cases, 0)
        ids, of_pair = np.unique(both, return_inverse=True)
        if n_tables == 1:
            most = np.bincount(of_pair, weights=usable, minlength=len(ids)).astype(np.float64)
        else:  # enough in any of the tables will do
            cells, of_cell = np.unique(key // size, return_inverse=True)
            most = np.zeros(len(ids))
            sums = np.bincount(of_cell, weights=usable, minlength=len(cells))
            np.maximum.at(most, np.searchsorted(ids, cells // n_tables), sums)
        kept = most >= max(min_overlap, 1)
        new = np.cumsum(kept) - 1
        taken = kept[of_pair]
        shape = (int(kept.sum()), crowd.n_criteria, crowd.n_others, n_places, n_places)
        tables = np.zeros(int(np.prod(shape)), dtype=np.int64)
        at = (new[of_pair[taken]] * n_tables + key[taken] // size % n_tables) * size + place[taken]
        tables[at] = n_cases[taken]
        n_items = None
        if crowd.pooled:
            n_items = np.zeros((shape[0], 1, crowd.n_others), dtype=np.int64)
            listed = np.searchsorted(ids, found.pair // n_tables)
            listed = np.minimum(listed, max(len(ids) - 1, 0))
            known = (ids[listed] == found.pair // n_tables) & kept[listed] if len(ids) else listed < 0
            n_items[new[listed[known]], 0, found.pair[known] % n_tables] = found.n_items[known]
            n_items = np.moveaxis(n_items, 0, -1)
        ids = ids[kept]
        return cls(
            (ids // n_raters).astype(np.intp),
            (ids % n_raters).astype(np.intp),
            np.moveaxis(tables.reshape(shape), 0, 2),
            n_items,
            int((most > 0).sum()),
        )

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
        cases.warn()
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
        taken, sums = _enough(found, n_places, n_tables, members, n_raters, max(min_overlap, 1))
        key, n_cases = found.key[taken], found.n_cases[taken]
        ids, of_pair = np.unique(key // (size * n_tables), return_inverse=True)
        shape = (len(ids), crowd.n_criteria, crowd.n_others, n_places, n_places)
        tables = np.zeros(int(np.prod(shape)), dtype=np.int64)
        tables[of_pair * (n_tables * size) + key % (n_tables * size)] = n_cases
        n_items = None
        if crowd.pooled:
            n_items = np.zeros((len(ids), 1, crowd.n_others), dtype=np.int64)
            known = np.isin(found.pair // n_tables, ids)
            row = np.searchsorted(ids, found.pair[known] // n_tables)
            n_items[row, 0, found.pair[known] % n_tables] = found.n_items[known]
            n_items = np.moveaxis(n_items, 0, -1)
        return cls(
            (ids // n_raters).astype(np.intp),
            (ids % n_raters).astype(np.intp),
            np.moveaxis(tables.reshape(shape), 0, 2),
            n_items,
            int((sums > 0).sum()),
        )


def _enough(
    found: Meetings, n_places: int, n_tables: int, members: npt.NDArray[np.bool_], n_raters: int, least: int
) -> tuple[npt.NDArray[np.bool_], Ints]:
    """Which keys are of pairs with enough cases in some table, and the most that each pair has."""
    size = n_places**2
    table = found.key // size
    starts = np.flatnonzero(np.append(True, table[1:] != table[:-1])[: len(table)])  # keys are in order
    if not len(starts):
        return np.zeros(0, dtype=bool), np.zeros(0, dtype=np.int64)
    usable = np.zeros((n_places, n_places), dtype=bool)
    usable[:-1, :-1] = True
    place = found.key - table * size
    counts = np.where(usable.ravel()[place], found.n_cases, 0)
    del place
    most = np.add.reduceat(counts, starts)
    del counts
    pair = table[starts] // n_tables
    del table
    lengths = np.diff(np.append(starts, len(found.key)))
    if n_tables > 1:
        first = np.flatnonzero(np.append(True, pair[1:] != pair[:-1]))
        pair, most = pair[first], np.maximum.reduceat(most, first)
        lengths = np.add.reduceat(lengths, first)
    most[~(members[pair // n_raters] & members[pair % n_raters])] = 0
    return np.repeat(most >= least, lengths), most

"""The pass behind comparisons that leave one human out: units, sums over items, and their places."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from xjudge.codes import N_OUTCOMES, to_codes, translate
from xjudge.errors import ProtocolError, StructureError, listing
from xjudge.labelled._common import of_raters, warn_recoded
from xjudge.labelled._pass import Pass
from xjudge.labelled._results import named_result, placed, result_attrs
from xjudge.labelled._sides import Sides
from xjudge.lazy import materialise, metadata_values
from xjudge.protocol import Protocol
from xjudge.statistics.counts import Block, Count, Options, Request, extent_of
from xjudge.view import View

__all__ = ["Codes", "Opened"]

Codes = npt.NDArray[np.signedinteger]
Labelled = npt.NDArray[Any]
"""Codes, or numbers on a continuous scale."""


def _units(options: Options, block: Block) -> tuple[Labelled, Labelled]:
    """Protocol codes of humans (other, item, criterion, human) and judges of a block; below 0 no answer.

    On a continuous scale the numbers, NaN where there is no answer.
    """
    n_criteria, raw = options["n_criteria"], to_codes(block[options["left"]])
    own = _are_own(options["targets"], extent_of(block, options["left"])[1])
    sides = []
    for columns in (options["left_columns"], options["right_columns"]):
        codes = of_raters(raw, columns)
        codes = codes if own else translate(codes, options["targets"])
        if options["scores"] is not None:
            codes = np.where(codes >= 0, of_raters(block[options["scores"]], columns), np.nan)
        apart = codes.reshape((*codes.shape[:2], n_criteria, codes.shape[2] // n_criteria))
        sides.append(apart.transpose(3, 0, 2, 1))
    return sides[0], sides[1]


def _are_own(targets: Sequence[int], greatest: int) -> bool:
    """Whether raw codes say under the protocol what they say as they are, where they are answers at all."""
    n = len(targets) - N_OUTCOMES
    return greatest < n and list(targets[:n]) == list(range(n)) and max(targets[n:]) < 0


def _tables(options: Options, block: Block) -> list[Any]:
    """One set of counts per table: per other dim, and per criterion unless they are pooled.

    With strata each is a tuple of such sets, one a stratum.
    """
    humans, judges = _units(options, block)
    count: Callable[[Labelled, Labelled], Any] = options["count"]
    rows: list[Any] = []
    if options["n_strata"]:
        stratum = block["strata"].max(axis=1)  # an item is in a population where a cell of it is
        rows = [np.flatnonzero(stratum == s) for s in range(options["n_strata"])]
    out = []
    for h, j in zip(humans, judges, strict=True):
        pooled = [(h, j)] if options["pooled"] else [(h[:, g], j[:, g]) for g in range(h.shape[1])]
        out += [tuple(count(a[row], b[row]) for row in rows) if rows else count(a, b) for a, b in pooled]
    return out


def _sum(partials: Sequence[list[Any]]) -> list[Any]:
    return [_added([partial[table] for partial in partials]) for table in range(len(partials[0]))]


def _added(parts: Sequence[tuple[Any, ...]]) -> Any:
    """Counts are tuples of arrays, and of such tuples, that add up over disjoint items."""
    first = parts[0]
    fields: list[Any] = []
    for values in zip(*parts, strict=True):
        if values[0] is None:
            fields.append(None)
        elif isinstance(values[0], tuple):
            fields.append(_added(values))
        else:
            fields.append(sum(values[1:], start=values[0]))
    return type(first)(*fields) if hasattr(first, "_fields") else tuple(fields)


def _as_counted(_: Options, partial: list[Any]) -> list[Any]:
    return partial


SUMS = Count("leave-one-out sums", _tables, _sum, _as_counted, stacked=False)
"""Per table what a counting function of :mod:`xjudge.statistics.loo` gives, added over items."""


class Opened:
    """A dataset opened for comparisons that leave one human out."""

    def __init__(
        self,
        data: Any,
        verb: str,
        protocol: Protocol | None,
        *,
        by: str | None = None,
        judges: Any = None,
        humans: Any = None,
        categories: bool = True,
    ) -> None:
        self.view = View.of(data, humans=humans, judges=judges)
        self.protocol = Protocol() if protocol is None else protocol
        if self.protocol.aggregate == "macro":
            raise ProtocolError(
                f"`{verb}` pools criteria under 'micro' or 'item', or keeps them apart (None)."
            )
        self.view.need(humans=2, judges=1)
        self._refuse_positional(verb)
        resolved = self.protocol.resolve(self.view.scale)
        self.sides = Sides(
            tuple(self.view.humans.tolist()), tuple(self.view.judges.tolist()), "each", ("reference", "rater")
        )
        self.counting = Pass(self.view, [resolved], self.sides, by)
        (self.plan,) = self.counting.plans
        if self.plan.scores is not None and categories:
            raise ProtocolError(
                f"`{verb}` compares categories, and here the scale is {self.plan.scale!r}: put the numbers "
                "into classes and build the dataset on `xj.Scale.ordinal(...)`."
            )
        self.by = by
        self.n_strata = 0
        warn_recoded([resolved])

    def _refuse_positional(self, verb: str) -> None:
        if "identity" not in self.view.data.coords:
            return
        identity = metadata_values(self.view.data["identity"].data).astype(object)
        chosen = np.concatenate([self.view.humans, self.view.judges])
        wrong = [self.view.raters[p] for p in chosen if identity[p] == "positional"]
        if wrong:
            raise StructureError(
                f"`{verb}` compares raters as persons, and {listing(wrong)} is a position in a list "
                '(coordinate `identity`). Say who they are: `ds.assign_coords(identity=("rater", ...))`.'
            )

    def stratify(self, codes: npt.NDArray[np.integer], n_strata: int) -> None:
        """Count every stratum apart; codes (item,), -1 for items of none."""
        self.n_strata = n_strata
        self.counting.cases.arrays["strata"] = np.asarray(codes, dtype=np.int32)[:, None]

    def request(self, count: Callable[[Labelled, Labelled], Any]) -> None:
        """Ask for the sums, in place of the pair tables that this verb does not need."""
        plan = self.plan
        options = {
            "left": plan.right,
            "right": plan.right,
            "left_columns": self.sides.left,
            "right_columns": self.sides.right,
            "targets": plan.right_targets,
            "scores": plan.scores,
            "n_criteria": plan.n_criteria,
            "pooled": plan.aggregate == "micro" or plan.n_criteria == 1,
            "count": count,
            "n_strata": self.n_strata,
        }
        self.counting.drop_requests()
        self.counting.requests.append(Request(SUMS, options))

    def slots(self, counted: list[Any]) -> npt.NDArray[np.object_]:
        """Counts of each slice, as an array of objects: (slice?, table)."""
        held = self.counting.cases.of(self.protocol, counted[-1])
        held = np.asarray(held, dtype=object) if isinstance(held, np.ndarray) else held
        lists = held.ravel().tolist() if isinstance(held, np.ndarray) and held.dtype == object else [held]
        out = np.empty((len(lists), len(lists[0])), dtype=object)
        for row, tables in enumerate(lists):
            for column, table in enumerate(tables):
                out[row, column] = table
        return out

    def on_dims(self, values: npt.NDArray[Any], per_human: bool) -> npt.NDArray[Any]:
        """From (slice, table, judge[, human]) to (..., [human,] judge, criterion, others)."""
        n_others = int(np.prod(list(self.view.others.values())))
        n_criteria = values.shape[1] // n_others
        apart = values.reshape((values.shape[0], n_others, n_criteria, *values.shape[2:]))
        apart = np.moveaxis(apart, 1, 2)  # (slice, criterion, other, judge[, human])
        if self.by is None:
            apart = apart[0]
        if per_human:
            apart = np.swapaxes(apart, -1, -2)
            return placed(self.view, self.sides, apart, criterion=self.plan.per_criterion)
        one = Sides(self.sides.left[:1], self.sides.right, "pooled", ("rater",))
        return placed(self.view, one, apart[..., None, :], criterion=self.plan.per_criterion)

    def arranged(
        self, found: Sequence[Mapping[str, Any]], n_slices: int, per_human: Sequence[str]
    ) -> dict[str, Any]:
        """Named arrays (judge[, human]) of the tables, stacked and put on the result's dims."""
        out = {}
        for name in found[0]:
            stacked = np.stack([np.asarray(one[name]) for one in found])
            apart = stacked.reshape((n_slices, len(found) // n_slices, *stacked.shape[1:]))
            out[name] = self.on_dims(apart, name in per_human)
        return out

    def codes(self) -> tuple[Labelled, Labelled]:
        """Protocol codes (other, item, criterion, human) and (..., judge), in memory: one compute.

        On a continuous scale the numbers, NaN where there is no answer.
        """
        if self.by is not None or self.counting.cases.axes.n_populations:
            raise ProtocolError(
                "This needs the labels in memory and takes neither `by` nor a population; select with "
                "`.isel`, `.where` or `groupby` first."
            )
        names = [name for name in (self.plan.right, self.plan.scores) if name is not None]
        held = materialise(*(self.counting.arrays[name] for name in names))
        options = {
            "left": self.plan.right,
            "left_columns": self.sides.left,
            "right_columns": self.sides.right,
            "targets": self.plan.right_targets,
            "scores": self.plan.scores,
            "n_criteria": self.plan.n_criteria,
        }
        return _units(options, {name: np.asarray(array) for name, array in zip(names, held, strict=True)})

    def result(
        self, verb: str, arrays: Mapping[str, Any], per_human: Sequence[str], **stated: Any
    ) -> xr.Dataset:
        """Named result with the human on dim ``human`` and the judge on dim ``rater``."""
        first = {name: array for name, array in arrays.items() if name in per_human}
        view, sides, cases = self.view, self.sides, self.counting.cases
        criterion = self.plan.per_criterion
        out = named_result(view, sides, cases, first, criterion=criterion).rename(reference="human")
        one = Sides(sides.left[:1], sides.right, "pooled", ("rater",))
        rest = {name: array for name, array in arrays.items() if name not in per_human}
        named = named_result(view, one, cases, rest, criterion=criterion).drop_vars("reference")
        out = out.assign({str(name): variable.variable for name, variable in named.data_vars.items()})
        lead = [] if self.by is None else [self.by]
        out = out.transpose(*lead, "rater", "human", ..., missing_dims="ignore")
        out.attrs = result_attrs(verb, view, sides, protocol=self.protocol, by=self.by, **stated)
        return out

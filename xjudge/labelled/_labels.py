"""The columns that protocols ask for, and the one pass over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xjudge.columns import extracted, item_level, scored
from xjudge.errors import ProtocolError, StructureError
from xjudge.lazy import item_positions, reduce_items
from xjudge.outcomes import Cases, check_numbers, check_values
from xjudge.protocol import Cut, Resolved
from xjudge.scale import Category, Scale
from xjudge.statistics.counts import Request, outside
from xjudge.statistics.score_counts import not_finite
from xjudge.view import View

__all__ = ["Columns", "Labels", "TooManyItemsError"]


class TooManyItemsError(ProtocolError):
    """Raised by finishing where distinct items are too many to be drawn: another pass may draw otherwise."""

    @classmethod
    def saying(cls, instead: str) -> TooManyItemsError:
        """The error with what may be done instead of a second pass."""
        return cls(
            "There are too many distinct items to resample: interval='percentile' with compute=True draws "
            f"weights by position in a second pass, and {instead} needs sums only."
        )


class Columns(NamedTuple):
    """The columns of a protocol: one for each rater.

    Parameters
    ----------
    name : str
        Of the array of codes.
    scale : Scale
        What the codes come to: of the protocol, or the item scale.
    targets : tuple of int
        Per place of the raw axis the category, or a negative outcome.
    n_criteria : int
    outcomes : tuple
        Categories that are outcomes.
    labels : str
        Name of the array of raw labels: ``codes``, or what an extraction rule read.
    scores : str, optional
        Name of the array of numbers, on a continuous scale.
    """

    name: str
    scale: Scale
    targets: tuple[int, ...]
    n_criteria: int
    outcomes: tuple[Category, ...]
    labels: str
    scores: str | None


class Labels:
    """The columns that protocols ask for, and the one pass over them.

    Parameters
    ----------
    view : View
    protocols : sequence of Resolved
    by : str, optional
        An item coordinate to slice on.
    seed : int
        For labels that a protocol samples from probabilities.
    """

    def __init__(
        self, view: View, protocols: Sequence[Resolved], by: str | None = None, seed: int = 0
    ) -> None:
        self.view, self.seed = view, seed
        self.cases = Cases(view, [p.protocol for p in protocols], by)
        self.requests: list[Request] = [outside(view.scale.n_categories)]
        self.arrays: dict[str, Any] = {"codes": view.codes}
        self.if_too_many: list[Callable[[], None]] = []
        self._names: dict[Any, Any] = {}
        self._not_finite: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        """What finishing a lazy result needs elsewhere: plans, not labels."""
        return {**self.__dict__, "arrays": {}, "if_too_many": [], "_names": {}}

    def _once(self, key: Any, make: Callable[[str], Any]) -> Any:
        """A column family, made once for all the protocols that share it."""
        if key not in self._names:
            self._names[key] = make(f"{key[0]}:{len(self._names)}")
        return self._names[key]

    def columns_of(self, resolved: Resolved) -> Columns:
        """The columns of a protocol; the arrays are made where they are new."""
        protocol = resolved.protocol
        name, scale, targets, n_criteria = "codes", resolved.scale, resolved.targets, self.view.n_criteria
        outcomes = resolved.outcome_categories
        scores = None
        if self.view.scale.kind == "continuous":
            scores = self._once(("score",), self._scored)
        if protocol.extraction is not None:
            # a cut is read on the protocol's own categories, the other rules on those of the data
            read_on = resolved.targets if isinstance(protocol.extraction, Cut) else ()
            name = self._once(("extracted", protocol.extraction, read_on), self._extracted(resolved))
        labels = name
        if protocol.aggregate == "item":
            key = "item", name, protocol.item_rule, protocol.criterion_weights, resolved.targets, protocol.ca
            made = self._once((*key, protocol.invalid), self._item(resolved, name, scores))
            name, scale, targets, outcomes, scores = made
            n_criteria = 1
        return Columns(name, scale, targets, n_criteria, outcomes, labels, scores)

    def _scored(self, name: str) -> str:
        self.arrays[name] = scored(self.view.codes, self.view.scores)
        self.requests.append(not_finite(name))
        self._not_finite = len(self.requests) - 1
        return name

    def drop_requests(self) -> None:
        """Ask for nothing but whether the labels are on the scale."""
        checks = [0] if self._not_finite is None else [0, self._not_finite]
        self.requests = [self.requests[place] for place in checks]
        self._not_finite = None if self._not_finite is None else 1

    def _extracted(self, resolved: Resolved) -> Callable[[str], str]:
        def make(name: str) -> str:
            self.arrays[name] = extracted(self.view, resolved, self.seed)
            return name

        return make

    def _item(self, resolved: Resolved, labels: str, scores: str | None) -> Callable[[str], tuple[Any, ...]]:
        def make(name: str) -> tuple[Any, ...]:
            numbers = None if scores is None else self.arrays[scores]
            made = item_level(self.view, resolved, self.arrays[labels], numbers)
            self.arrays[name] = made.codes
            sums = None
            if made.scores is not None:
                sums = f"score of {name}"
                self.arrays[sums] = made.scores
            return name, made.scale, made.targets, made.scale.categories[made.n_categories :], sums

        return make

    def draw_by_position(self) -> None:
        """Put the positions of items beside the labels, for weights that are drawn by them."""
        self.arrays["position"] = item_positions(self.view.codes)

    def run(self, finish: Callable[[list[Any]], dict[str, Any]], compute: bool) -> dict[str, Any]:
        """Count and finish; see :func:`xjudge.lazy.reduce_items`.

        Where finishing finds too many distinct items, what ``if_too_many`` holds is called to ask for other
        counts, and there is a second pass. With ``compute=False`` nobody is there to make one.
        """
        try:
            out = self._run(finish, compute)
        except TooManyItemsError:
            if not self.if_too_many:
                raise
            for ask in self.if_too_many:
                ask()
            self.if_too_many = []
            out = self._run(finish, compute)
        self.cases.warn()
        return out

    def _run(self, finish: Callable[[list[Any]], dict[str, Any]], compute: bool) -> dict[str, Any]:
        def checked(counted: list[Any]) -> dict[str, Any]:
            check_values(self.view, counted[0])
            if self._not_finite is not None:
                check_numbers(self.view, counted[self._not_finite])
            return finish(counted)

        needed = {
            request.options.get(side) for request in self.requests for side in ("left", "right", "scores")
        }
        arrays = {
            name: a
            for name, a in self.arrays.items()
            if name in needed or name in ("codes", "cluster", "position")
        }
        return reduce_items(
            self.requests, arrays | self.cases.arrays, checked, axes=self.cases.axes, compute=compute
        )

    def clusters(self) -> int:
        """Number of clusters, of the coordinate ``cluster(item)``; their numbers join the pass.

        Raises
        ------
        StructureError
            Without the coordinate, and where an item has no cluster.
        """
        if "cluster" not in self.view.data.coords:
            raise StructureError(
                '`resample="clusters"` needs a coordinate `cluster(item)`: '
                '`ds.assign_coords(cluster=("item", ...))`.'
            )
        codes, values, dropped = self.view.groups("cluster")
        if dropped:
            raise StructureError(
                f"The coordinate `cluster` is null for {dropped} items; every item needs one."
            )
        self.arrays["cluster"] = codes
        return len(values)

"""Sampling units behind coefficients of many raters: what is asked of the pass, and each estimate's sample.

A *sample* says of every distinct row which sampling unit it belongs to and how often. The units are items,
items with all their criteria, clusters, criteria or single units, as asked; everything after that, values of
resamples and influences alike, is one computation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from xjudge.labelled._labels import Columns, Labels, TooManyItemsError
from xjudge.labelled._rater_measures import Measure
from xjudge.labelled._sampling import Sampling
from xjudge.protocol import Protocol
from xjudge.statistics._poisson_terms import poisson_terms
from xjudge.statistics.rater_counts import (
    SharedItems,
    UnitRows,
    shared_items,
    support,
    unit_rows,
)
from xjudge.statistics.score_counts import ScoreRows, score_rows

__all__ = ["Asked", "Part", "Sample"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Places = npt.NDArray[np.intp]

_MOST_ITEMS = 1 << 20
"""Distinct items up to which they are resampled; beyond, terms of all items are summed in a second pass.

Numbers are not: alpha of numbers is no sum over items, and the centre of an intraclass correlation is known
once all are there.
"""


@dataclass(frozen=True, eq=False)
class Part:
    """Rows of one table: of the pooled criteria, or of one criterion that is averaged with others.

    Parameters
    ----------
    data : ndarray, shape (row, F)
        Count vectors, label codes or numbers.
    unit : ndarray of int, shape (row,)
        Sampling unit of each row.
    count : ndarray of int64, shape (row,)
        How often the row stands in one such unit.
    """

    data: npt.NDArray[Any]
    unit: Places
    count: Ints


@dataclass(frozen=True, eq=False)
class Sample:
    """What one estimate was made of.

    Parameters
    ----------
    parts : list of Part
    multiplicities : ndarray of int64, shape (unit,)
        How many units there are of each kind.
    cells : tuple of int, optional
        Items and criteria, where both are drawn: the units are then single cells.
    sums : ndarray, shape (part, B, T), optional
        Terms of the parts in resamples that a pass has drawn; there are no rows then.
    """

    parts: list[Part]
    multiplicities: Ints
    cells: tuple[int, int] | None = None
    sums: Floats | None = None


class Asked:
    """Requests to the pass for one protocol, and what came back.

    Parameters
    ----------
    labels : Labels
        Requests are added to it.
    columns : Columns
    raters : sequence of int
    protocol : Protocol
    sampling : Sampling
    measures : sequence of Measure
    methods : mapping
        Interval method of each measure, by name.
    """

    def __init__(
        self,
        labels: Labels,
        columns: Columns,
        raters: Sequence[int],
        protocol: Protocol,
        sampling: Sampling,
        measures: Sequence[Measure],
        methods: dict[str, str | None],
    ) -> None:
        self.labels, self.columns, self.protocol, self.sampling = labels, columns, protocol, sampling
        self.macro = protocol.aggregate == "macro"
        self.pooled = self.macro or (protocol.aggregate == "micro" and columns.n_criteria > 1)
        self._places: dict[Any, int] = {}
        self._raters = tuple(raters)
        self._rows("counts")
        if self.pooled:
            self._ask("support", support(**self._options()))
        if sampling.method is not None and sampling.resample == "clusters":
            self.n_clusters = labels.clusters()
        self.law = "multinomial"
        for measure in measures:
            self._ask_for(measure, methods[measure.name])
        by_items = [
            measure
            for measure in measures
            if (method := methods[measure.name]) and self.source(measure, method) == "whole"
        ]
        as_sums = all(m.data != "scores" and methods[m.name] == "percentile" for m in by_items)
        if by_items and as_sums and sampling.resample == "items":
            labels.if_too_many.append(lambda: self._draw_by_position(by_items))

    # ----------------------------------------------------------------------------------------------- requests

    def _options(self) -> dict[str, Any]:
        columns = self.columns
        return {
            "array": columns.name,
            "columns": self._raters,
            "targets": columns.targets,
            "n_categories": columns.scale.n_categories,
            "n_criteria": columns.n_criteria,
        }

    def _ask(self, key: Any, request: Any) -> None:
        if key not in self._places:
            self._places[key] = len(self.labels.requests)
            self.labels.requests.append(request)

    def _rows(self, data: str, how: str = "units") -> None:
        key = data, how
        if key in self._places:
            return
        if data == "scores":
            assert self.columns.scores is not None
            request = score_rows(
                array=self.columns.scores,
                codes=self.columns.name,
                columns=self._raters,
                n_criteria=self.columns.n_criteria,
                clusters=how == "clusters",
            )
        else:
            request = unit_rows(
                **self._options(), counts=data == "counts", whole=how == "whole", clusters=how == "clusters"
            )
        self._ask(key, request)

    def source(self, measure: Measure, method: str | None) -> str:
        """Which sampling units an interval takes: a key of the samples."""
        resample = self.sampling.resample
        if resample == "clusters":
            return "clusters"
        if resample == "criteria" or (resample == "decisions" and self.pooled):
            return resample
        if not self.pooled:
            return "units"
        if method == "delta" and measure.data == "counts":
            return "shared"
        return "whole"

    def _ask_for(self, measure: Measure, method: str | None) -> None:
        if measure.data != "scores":
            self._rows(measure.data)
        elif self.sampling.method is None or self.sampling.resample != "clusters":
            self._rows("scores")
        if method is None:
            if measure.data == "scores":
                self._rows("scores")
            return
        source = self.source(measure, method)
        if source == "clusters":
            self._rows(measure.data, "clusters")
        elif source == "whole" and measure.data != "scores":
            self._rows(measure.data, "whole")
        elif source == "shared":
            joined = not self.macro
            self._ask("shared", shared_items(**self._options(), joined=joined))

    def _draw_by_position(self, measures: Sequence[Measure]) -> None:
        """Ask for terms under Poisson weights in the place of whole items."""
        self.law = "poisson"
        self.labels.draw_by_position()
        whole = [(data, "whole") for data in ("counts", "labels")]
        places = [self._places.pop(key) for key in whole if key in self._places]
        sampling = self.sampling
        for measure in measures:
            assert measure.coefficient is not None
            request = poisson_terms(
                measure.coefficient, sampling.n_resamples, sampling.seed, **self._options()
            )
            if places:  # whole items are not counted again
                self._places["poisson", measure.name] = places.pop()
                self.labels.requests[self._places["poisson", measure.name]] = request
            else:
                self._ask(("poisson", measure.name), request)

    # ---------------------------------------------------------------------------------------------- what came

    def slots(self, counted: list[Any]) -> npt.NDArray[np.object_]:
        """One entry for each slice by a coordinate, without value; ``()`` where there is none."""
        return np.asarray(self._of(counted, ("counts", "units")))

    def _of(self, counted: list[Any], key: Any) -> npt.NDArray[Any]:
        found = self.labels.cases.of(self.protocol, counted[self._places[key]])
        if isinstance(found, np.ndarray):
            return found
        out = np.empty((), dtype=object)
        out[()] = found
        return out

    def units(self, counted: list[Any], index: tuple[int, ...], other: int) -> list[UnitRows]:
        """Count vectors of the units of each criterion."""
        return self._cells(self._of(counted, ("counts", "units"))[index], other)

    def support(self, counted: list[Any], index: tuple[int, ...], other: int) -> Ints:
        """Items with a unit that has a label, and with one that has two."""
        return np.asarray(self._of(counted, "support")[(*index, other)])

    def shared(self, counted: list[Any], index: tuple[int, ...], other: int) -> SharedItems:
        """How often two count vectors stand in one item."""
        found: SharedItems = self._of(counted, "shared")[index][other]
        return found

    def rows(
        self, measure: Measure, counted: list[Any], index: tuple[int, ...], other: int
    ) -> list[tuple[npt.NDArray[Any], Ints]]:
        """Distinct rows of each criterion, and how many units have them: what values are made of."""
        if measure.data == "scores":
            how = "clusters" if ("scores", "units") not in self._places else "units"
            held: ScoreRows = self._of(counted, ("scores", how))[index]
            own = held.data[..., other]
            return [(own[:, :, g], np.ones(len(own), dtype=np.int64)) for g in range(own.shape[2])]
        cells = self._cells(self._of(counted, (measure.data, "units"))[index], other)
        return [(rows.data[:, 0], rows.multiplicities) for rows in cells]

    def _cells(self, every: list[UnitRows], other: int) -> list[UnitRows]:
        n_others = len(every) // max(1, self.columns.n_criteria)
        return [every[criterion * n_others + other] for criterion in range(self.columns.n_criteria)]

    def sample(
        self,
        measure: Measure,
        source: str,
        counted: list[Any],
        index: tuple[int, ...],
        other: int,
        criterion: int | None,
    ) -> Sample:
        """The sampling units of one estimate, of one criterion or of all."""
        if source == "clusters":
            return self._clustered(measure, counted, index, other, criterion)
        if source == "whole":
            return self._whole(measure, counted, index, other)
        cells = self.rows(measure, counted, index, other)
        cells = cells if criterion is None else cells[criterion : criterion + 1]
        if source == "criteria":
            parts = [
                Part(data, np.full(len(data), place, dtype=np.intp), count)
                for place, (data, count) in enumerate(cells)
            ]
            return Sample(self._joined(parts), np.ones(len(cells), dtype=np.int64))
        ends = np.cumsum([0, *(len(data) for data, _ in cells)])
        parts = [
            Part(data, np.arange(start, stop), np.ones(len(data), dtype=np.int64))
            for (data, _), start, stop in zip(cells, ends[:-1], ends[1:], strict=True)
        ]
        return Sample(self._joined(parts), np.concatenate([count for _, count in cells]))

    def _joined(self, parts: list[Part]) -> list[Part]:
        """Criteria apart where they are averaged, otherwise in one table."""
        if self.macro or len(parts) == 1:
            return parts
        return [
            Part(
                np.concatenate([part.data for part in parts]),
                np.concatenate([part.unit for part in parts]),
                np.concatenate([part.count for part in parts]),
            )
        ]

    def _clustered(
        self, measure: Measure, counted: list[Any], index: tuple[int, ...], other: int, criterion: int | None
    ) -> Sample:
        if measure.data == "scores":
            held: ScoreRows = self._of(counted, ("scores", "clusters"))[index]
            own, cluster = held.data[..., other], held.cluster
            assert cluster is not None
            cells = [
                Part(own[:, :, g], cluster.astype(np.intp), np.ones(len(own), dtype=np.int64))
                for g in range(own.shape[2])
            ]
        else:
            every = self._cells(self._of(counted, (measure.data, "clusters"))[index], other)
            cells = [
                Part(rows.data[:, 0], np.asarray(rows.cluster, dtype=np.intp), rows.multiplicities)
                for rows in every
            ]
        cells = cells if criterion is None else cells[criterion : criterion + 1]
        return Sample(self._joined(cells), np.ones(self.n_clusters, dtype=np.int64))

    def _whole(self, measure: Measure, counted: list[Any], index: tuple[int, ...], other: int) -> Sample:
        if self.law == "poisson":
            sums = self._of(counted, ("poisson", measure.name))[index][other]
            sums = sums if self.macro else sums.sum(0, keepdims=True)
            return Sample([], np.empty(0, dtype=np.int64), sums=sums)
        data: npt.NDArray[Any]
        if measure.data == "scores":
            held: ScoreRows = self._of(counted, ("scores", "units"))[index]
            data = held.data[..., other].transpose(0, 2, 1)
            multiplicities = np.ones(len(data), dtype=np.int64)
        else:
            rows: UnitRows = self._of(counted, (measure.data, "whole"))[index][other]
            data, multiplicities = rows.data, rows.multiplicities
        if len(data) > _MOST_ITEMS:
            raise TooManyItemsError.saying("interval='delta'")
        if self.sampling.resample == "items+criteria":
            data = np.repeat(data, multiplicities, axis=0)
            cells = data.shape[:2]
            unit = np.arange(cells[0] * cells[1]).reshape(cells)
            return Sample(
                self._joined(list(self._by_criterion(data, unit))),
                np.ones(unit.size, dtype=np.int64),
                (cells[0], cells[1]),
            )
        unit = np.broadcast_to(np.arange(len(data))[:, None], data.shape[:2])
        return Sample(self._joined(list(self._by_criterion(data, unit))), multiplicities)

    @staticmethod
    def _by_criterion(data: npt.NDArray[Any], unit: npt.NDArray[np.intp]) -> Iterator[Part]:
        one = np.ones(len(data), dtype=np.int64)
        for criterion in range(data.shape[1]):
            yield Part(data[:, criterion], unit[:, criterion], one)

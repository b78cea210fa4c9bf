"""The pass behind panels of judges: units, sums over items, held votes, and their places in results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import xarray as xr

from xjudge.codes import translate
from xjudge.errors import DroppedWarning, ProtocolError, StructureError, listing, warn
from xjudge.labelled._common import flat_attrs, of_raters, texts, version, warn_recoded
from xjudge.labelled._panel_human import HumanSide, gold_side, human_side
from xjudge.labelled._pass import Labels
from xjudge.lazy import metadata_values
from xjudge.protocol import Protocol
from xjudge.statistics import panel
from xjudge.statistics._panel_classes import (
    MOST_CELLS,
    ClassTables,
    Said,
    add_tables,
    class_sums,
    count_classes,
    n_cells,
)
from xjudge.statistics.counts import MASKED, Block, Count, Options, Request
from xjudge.view import View, as_dataset

__all__ = ["JOINT_ERRORS", "SUMS", "VOTES", "JointErrorCounts", "OpenedPanel", "Units", "flat_units"]

Codes = npt.NDArray[np.signedinteger]
Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


class Units(NamedTuple):
    """Votes of one table; a unit is an item, or an item under a criterion where criteria are pooled.

    Attributes
    ----------
    judges : ndarray of int (item, criterion, judge)
        Protocol codes.
    human : ndarray (item, criterion, category)
        Label counts, or shares.
    gold : ndarray of int (item, criterion)
        Protocol codes, negative where there is none.
    inside : ndarray of bool (item, criterion)
        Whether the unit is in the population.
    shares : bool
        Whether ``human`` holds shares.
    cluster : ndarray of int (item,), optional
        The cluster of each item, where clusters are resampled.
    """

    judges: Codes
    human: npt.NDArray[Any]
    gold: Codes
    inside: Flags
    shares: bool
    cluster: npt.NDArray[np.int64] | None = None

    @property
    def distribution(self) -> tuple[Floats, Floats | None]:
        """Human distributions (item, criterion, category), and the number of labels behind each."""
        if self.shares:
            return self.human, None
        return panel.human_distribution(self.human)

    def used(self, incomplete: str) -> Flags:
        """Which units count (item, criterion)."""
        known = np.asarray(~np.isnan(self.distribution[0]).any(-1))
        answered = self.judges >= 0
        return self.inside & known & (answered.all(-1) if incomplete == "drop" else answered.any(-1))


class JointErrorCounts(NamedTuple):
    """Items that every member answered and that have gold, items all miss, and those each misses (k,)."""

    n_items: npt.NDArray[np.int64]
    n_all_wrong: npt.NDArray[np.int64]
    n_wrong: npt.NDArray[np.int64]


_Sums = tuple[panel.PanelSums, int]


def _cells(options: Options, n_cells: int) -> list[npt.NDArray[np.intp]]:
    """Cells of each table: per other dim, and per criterion unless they are pooled."""
    n_criteria, out = options["n_criteria"], []
    for other in range(n_cells // n_criteria):
        cells = np.arange(n_criteria) * (n_cells // n_criteria) + other
        out += [cells] if options["pooled"] else list(cells[:, None])
    return out


def _units(options: Options, block: Block) -> list[Units]:
    """Units of each table."""
    raw, targets = block[options["left"]], options["targets"]
    members = list(options["judges"])
    judges = translate(raw[:, members], targets)
    inside = raw[:, members[0]] != MASKED
    side, gold = options["human"], options["gold"]
    if side.array is not None:
        human = block[side.array]
    else:
        said = translate(raw[:, list(side.columns)], targets)
        each = [(said == category).sum(1) for category in range(options["n_categories"])]
        human = np.stack(each, axis=1).astype(np.int32)
    if gold.ties:
        shares = np.moveaxis(np.asarray(human, dtype=np.float64), 1, 2)
        best = panel.gold_mode(shares, ties=gold.ties)[0]
        labels = np.where(np.nan_to_num(shares).sum(-1) > 0, best, -1).astype(np.int32)
    elif gold.column is not None:
        labels = translate(raw[:, gold.column], targets)
    else:
        labels = block[gold.array]
    cluster = block["cluster"].astype(np.int64) if options["clustered"] else None
    return [
        Units(
            judges[:, :, cells].transpose(0, 2, 1),
            human[:, :, cells].transpose(0, 2, 1),
            labels[:, cells],
            inside[:, cells],
            side.shares,
            cluster,
        )
        for cells in _cells(options, raw.shape[2])
    ]


def flat_units(units: Units, keep: Flags) -> tuple[Codes, Floats, Codes, Floats | None]:
    """Judges (n, k), distributions (n, L), gold (n,) and humans a label (n,) of the units kept."""
    h, n_humans = units.distribution
    return (
        units.judges[keep],
        h[keep],
        units.gold[keep],
        None if n_humans is None else n_humans[keep],
    )


def _count_sums(options: Options, block: Block) -> list[ClassTables] | list[_Sums]:
    said: Said | None = options["said"]
    if said is not None:
        return _count_classes(options, block, said)
    out = []
    for units in _units(options, block):
        judges, h, gold, n_humans = flat_units(units, units.inside)
        sums = panel.panel_sums(judges, h, gold, n_humans=n_humans, incomplete=options["incomplete"])
        ties = 0
        if options["gold"].ties:
            voted = units.human[units.used(options["incomplete"])]
            ties = int(panel.gold_mode(voted)[1])
        out.append((sums, ties))
    return out


def _count_classes(options: Options, block: Block, said: Said) -> list[ClassTables]:
    raw = block[options["left"]]
    gold = options["gold"].column
    humans = of_raters(raw, [*options["human"].columns, *([] if gold is None else [gold])])
    judges = of_raters(raw, options["judges"])
    complete = options["incomplete"] == "drop"
    return [
        add_tables([count_classes(said, humans[..., c], judges[..., c], complete=complete) for c in cells])
        for cells in _cells(options, raw.shape[2])
    ]


def _add_sums(partials: Sequence[Any]) -> list[Any]:
    return [
        add_tables(parts)
        if isinstance(parts[0], ClassTables)
        else (panel.combine_sums(*(sums for sums, _ in parts)), sum(ties for _, ties in parts))
        for parts in zip(*partials, strict=True)
    ]


def _finish_sums(options: Options, partial: Sequence[Any]) -> list[_Sums]:
    said: Said | None = options["said"]
    if said is None:
        return list(partial)
    return [class_sums(said, tables, pairwise=options["incomplete"] != "drop") for tables in partial]


def _count_joint_errors(options: Options, block: Block) -> list[JointErrorCounts]:
    out = []
    for units in _units(options, block):
        used = units.used("drop")
        out.append(JointErrorCounts(*panel.joint_error_counts(units.judges[used], units.gold[used])))
    return out


def _add_joint_errors(partials: Sequence[list[JointErrorCounts]]) -> list[JointErrorCounts]:
    return [
        JointErrorCounts(*(np.sum(counts, axis=0) for counts in zip(*parts, strict=True)))
        for parts in zip(*partials, strict=True)
    ]


def _join_units(partials: Sequence[list[Units]]) -> list[Units]:
    out = []
    for parts in zip(*partials, strict=True):
        judges, human, gold, inside = (np.concatenate([part[place] for part in parts]) for place in range(4))
        clusters = [part.cluster for part in parts if part.cluster is not None]
        cluster = np.concatenate(clusters) if clusters else None
        out.append(Units(judges, human, gold, inside, parts[0].shares, cluster))
    return out


def _as_counted(_: Options, partial: Any) -> Any:
    return partial


SUMS = Count("panel sums", _count_sums, _add_sums, _finish_sums, stacked=False)
"""Per table the sums of :func:`xjudge.statistics.panel.panel_sums` and the items with tied gold.

They are counted by class of items (:mod:`xjudge.statistics._panel_classes`) where the option ``said`` is
given, and item by item otherwise.
"""

JOINT_ERRORS = Count("panel joint errors", _count_joint_errors, _add_joint_errors, _as_counted, stacked=False)
"""Per table the :class:`JointErrorCounts`."""

VOTES = Count("panel votes", _units, _join_units, _as_counted, stacked=False)
"""Per table the votes of all items, in the order of the items: memory grows with them."""


class OpenedPanel:
    """A dataset opened for measures of the panel of its judges."""

    def __init__(
        self,
        data: Any,
        verb: str,
        protocol: Protocol | None,
        *,
        human: str | None,
        gold: str,
        incomplete: str = "drop",
        by: str | None = None,
        judges: Any = None,
        humans: Any = None,
        seed: int = 0,
        without_humans: bool = False,
        resample: str | None = None,
    ) -> None:
        if incomplete not in ("drop", "pairwise"):
            raise ProtocolError(f"`incomplete` is 'drop' or 'pairwise'; got {incomplete!r}.")
        given = gold in ("mode", "tie_free") or gold in as_dataset(data).variables
        named = {} if given else {"gold": [gold]}
        self.view = View.of(
            data, humans=humans, judges=judges, own={"raters": "judges"} | named, pool="humans"
        )
        self.protocol = Protocol() if protocol is None else protocol
        if self.protocol.aggregate == "macro":
            raise ProtocolError(
                f"`{verb}` pools criteria under 'micro' or 'item', or keeps them apart (None)."
            )
        self.view.need(judges=1)
        self._refuse_positional(verb)
        resolved = self.protocol.resolve(self.view.scale)
        self.counting = Labels(self.view, [resolved], by, seed)
        columns = self.counting.columns_of(resolved)
        self.scale = columns.scale
        if columns.scores is not None or self.scale.kind == "continuous":
            raise ProtocolError(
                f"`{verb}` needs categories, and under {self.protocol!r} the scale is {self.scale!r}."
            )
        aggregate = self.protocol.aggregate
        self.human, self.gold, self.incomplete, self.by = human, gold, incomplete, by
        self.per_criterion = aggregate is None and "criterion" in self.view.rest
        self.pooled_criteria = aggregate == "micro" and "criterion" in self.view.rest
        side = HumanSide(None, (), shares=False)
        if human is not None or not without_humans:
            side = human_side(self.counting, columns, human, aggregate)
        labels = gold_side(self.counting, columns, gold, aggregate)
        self.options: dict[str, Any] = {
            "left": columns.name,
            "right": side.array or columns.name,
            "scores": labels.array or columns.name,  # the names under which arrays join the pass
            "judges": tuple(self.view.judges.tolist()),
            "human": side,
            "gold": labels,
            "targets": columns.targets,
            "n_criteria": columns.n_criteria,
            "n_categories": self.scale.n_categories,
            "pooled": aggregate == "micro" or columns.n_criteria == 1,
            "incomplete": incomplete,
            "clustered": resample == "clusters",
        }
        if resample == "clusters":
            self.counting.clusters()
        warn_recoded([resolved])

    def _refuse_positional(self, verb: str) -> None:
        if "identity" not in self.view.data.coords:
            return
        identity = metadata_values(self.view.data["identity"].data).astype(object)
        wrong = [self.view.raters[p] for p in self.view.judges if identity[p] == "positional"]
        if wrong:
            raise StructureError(
                f"`{verb}` is about judges that are the same on every item, and {listing(wrong)} is a "
                "position in a list (coordinate `identity`). Say who they are: "
                '`ds.assign_coords(identity=("rater", ...))`.'
            )

    @property
    def judges(self) -> npt.NDArray[Any]:
        """Names of the members."""
        return self.view.named(self.view.judges)

    def rater_values(self, name: str, why: str) -> npt.NDArray[Any]:
        """A coordinate of the judges, in memory.

        Raises
        ------
        StructureError
            Without the coordinate.
        """
        if name not in self.view.data.coords or self.view.data[name].dims != ("rater",):
            raise StructureError(
                f'{why} needs a coordinate `{name}(rater)`: `ds.assign_coords({name}=("rater", ...))`.'
            )
        return metadata_values(self.view.data[name].data)[self.view.judges]

    def request(self, *counts: Count) -> None:
        """Ask for sums, votes or both."""
        options = self.options | {"said": self._said()}
        self.counting.requests += [Request(count, options) for count in counts]

    def _said(self) -> Said | None:
        """How items are counted by class: identified humans, their vote or a rater as gold, few classes."""
        human, gold, axes = self.options["human"], self.options["gold"], self.counting.cases.axes
        if human.array is not None or gold.array is not None:
            return None
        kind = gold.ties or "column"
        said = Said(len(human.columns), self.options["targets"], self.scale.n_categories, kind, MASKED)
        cells = n_cells(said, len(self.view.judges), self.view.n_items)
        tables = self.view.codes.shape[2] * max(1, axes.n_groups) * max(1, axes.n_populations)
        return None if cells is None or cells * tables > MOST_CELLS else said

    def slots(self, counted: list[Any], place: int) -> list[list[Any]]:
        """What was counted, per slice and table."""
        held = self.counting.cases.of(self.protocol, counted[place])
        if isinstance(held, np.ndarray):
            return [held.item()] if held.ndim == 0 else held.ravel().tolist()
        return [held]

    # ---------------------------------------------------------------------------------------------- results

    def stacked(self, found: Sequence[Sequence[Mapping[str, Any]]]) -> dict[str, npt.NDArray[Any]]:
        """Values by name, of every slice and table, on the dims of the data; reasons as text."""
        out = {}
        for name in found[0][0]:
            values = np.stack([np.stack([np.asarray(one[name]) for one in tables]) for tables in found])
            out[name] = self.on_dims(texts(values) if name.endswith("_reason") else values)
        return out

    def on_dims(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """From (slice, table, *trailing) to ([slice,] [criterion,] *others, *trailing)."""
        others = tuple(self.view.others.values())
        n_others = int(np.prod(others))
        n_criteria = values.shape[1] // n_others
        apart = values.reshape((values.shape[0], n_others, n_criteria, *values.shape[2:]))
        apart = np.moveaxis(apart, 2, 1)
        apart = apart.reshape((*apart.shape[:2], *others, *values.shape[2:]))
        drop = [axis for axis, gone in ((0, self.by is None), (1, not self.per_criterion)) if gone]
        return apart.squeeze(tuple(drop)) if drop else apart

    def told(self, result: xr.Dataset, gap: str, compute: bool) -> bool:
        """Say once what was left out, and whether values are there to look at: not on a lazy result."""
        if self.view.lazy and not compute:
            return False
        dropped = int(result["n_dropped"].sum())
        if dropped:
            total = dropped + int(result["n_items"].sum())
            warn(f"{dropped} of {total} units are left out: {gap} (`n_dropped`).", DroppedWarning)
        return True

    def result(
        self,
        verb: str,
        arrays: Mapping[str, Any],
        trailing: Mapping[str, tuple[str, ...]],
        coords: Mapping[str, Any],
        **stated: Any,
    ) -> xr.Dataset:
        """Named result; ``trailing`` says which dims a variable has after those of the data."""
        view, cases = self.view, self.counting.cases
        rest = [dim for dim in view.rest if self.per_criterion or dim != "criterion"]
        dims = [*([] if self.by is None else [self.by]), *rest]
        variables = {name: ([*dims, *trailing.get(name, ())], array) for name, array in arrays.items()}
        named: dict[str, Any] = dict(view.coordinates(*rest))
        if self.by is not None:
            named[self.by] = (self.by, cases.slices)
        if any("rater" in ends for ends in trailing.values()):
            for name, variable in view.coordinates("rater").items():
                named[name] = variable.isel(rater=view.judges) if variable.dims else variable
            named["rater"] = ("rater", self.judges)
        out = xr.Dataset(variables, coords={**named, **coords})
        lead = [] if self.by is None else [self.by]
        members = [name for name, ends in trailing.items() if ends == ("rater",)]
        out = out.assign({name: out[name].transpose(*lead, "rater", ...) for name in members})
        known: dict[str, Any] = {"verb": verb, "scale": view.scale, "protocol": self.protocol}
        known |= {"judges": self.judges, "humans": view.stated(view.humans, "humans")}
        known |= {"human": self.human, "gold": self.gold, "by": self.by}
        known |= stated
        out.attrs = flat_attrs(
            {name: value for name, value in known.items() if value is not None}
            | {"xjudge_version": version()}
        )
        return out

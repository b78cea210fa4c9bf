"""Measurement protocols: which cases count, what a label means, how abstentions are handled, what is pooled.

A protocol is a *collapse of raw tables*. Labels are counted once on the raw axis (categories, missing,
cannot assess, invalid); a protocol then is a map ``M`` from raw places to its own categories, and its
table is ``T_p = M' T M``. Everything here is small, frozen, hashable and goes through JSON.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from xjudge._protocol_parts import (
    HANDLINGS,
    Cut,
    Extraction,
    Handling,
    ItemRule,
    RecodeTo,
    all_positive,
    cut,
    decimal,
    frozen_population,
    frozen_weights,
    handling_from,
    handling_json,
    handling_word,
    map_words,
    recode_to,
    weighted_share,
)
from xjudge._scale_map import ScaleMap, at_least, merge, one_of, scale_map_from_json
from xjudge.codes import EXCLUDED, OUTCOMES, n_raw, raw_index, unused_name
from xjudge.errors import ProtocolError, listing
from xjudge.scale import Category, Scale

__all__ = [
    "Cut",
    "ItemRule",
    "Protocol",
    "RecodeTo",
    "Resolved",
    "ScaleMap",
    "all_positive",
    "at_least",
    "cut",
    "decimal",
    "merge",
    "one_of",
    "recode_to",
    "weighted_share",
]

Aggregate = Literal["micro", "macro", "item"]


# ------------------------------------------------------------------------------------------------- protocol


@dataclass(frozen=True, repr=False, eq=False)
class Protocol:
    """A measurement protocol: scale map, population, handling of outcomes, aggregation.

    ``Protocol()`` is per criterion, by exclusion. Frozen, hashable, prints as one line, round-trips
    through JSON.

    Parameters
    ----------
    scale_map : ScaleMap, optional
        :func:`at_least`, :func:`one_of` or :func:`merge`; ``None`` keeps the categories of the data.
    population : mapping or str, optional
        ``{coordinate: value or values}`` keeps matching cases; a text names a boolean variable.
    ca, invalid : {"exclude", "category", "negative"} or recode_to(category)
        What becomes of a cannot-assess answer and of an unreadable output.
    tie : {"category", "exclude", "negative"} or recode_to(category)
        What becomes of a tie of a pairwise scale. Left out or recoded it is no category any more: the scale
        has two, and the coefficients of two categories apply.
    aggregate : {None, "micro", "macro", "item"}
        ``None`` is one table per criterion; ``"micro"`` pools the tables; ``"macro"`` averages the
        statistic over criteria where it is defined; ``"item"`` combines an item's criteria first.
    criterion_weights : mapping, optional
        Weights of criteria by name, for ``"macro"`` and ``"item"``.
    item_rule : ItemRule or "sum", optional
        For ``aggregate="item"``: :func:`weighted_share`, :func:`all_positive` or ``"sum"``.
    extraction : {"argmax", "expected", "sample"} or cut(t), optional
        How a label is read from a judge's probabilities.

    Raises
    ------
    ProtocolError
        Parts that contradict each other. What only a scale can tell is checked by :meth:`resolve`.

    Examples
    --------
    >>> Protocol(scale_map=at_least(3), ca="negative", aggregate="micro")
    Protocol(scale_map=at_least(3), ca='negative', aggregate='micro')
    >>> Protocol.from_json(_.to_json()) == _
    True
    """

    scale_map: ScaleMap | None = None
    population: Any = None
    ca: Handling = "exclude"
    invalid: Handling = "exclude"
    tie: Handling = "category"
    aggregate: Aggregate | None = None
    criterion_weights: Any = None
    item_rule: Any = None
    extraction: Extraction | None = None

    def __post_init__(self) -> None:
        if self.scale_map is not None and not isinstance(self.scale_map, ScaleMap):
            raise ProtocolError(
                f"`scale_map` is xj.at_least(...), xj.one_of(...) or xj.merge(...); got {self.scale_map!r}."
            )
        for name in ("ca", "invalid", "tie"):
            value = getattr(self, name)
            if not isinstance(value, RecodeTo) and value not in HANDLINGS:
                raise ProtocolError(
                    f"`{name}` is one of {listing(HANDLINGS)} or xj.recode_to(category); got {value!r}."
                )
        if self.aggregate not in (None, "micro", "macro", "item"):
            raise ProtocolError(f"`aggregate` is None, 'micro', 'macro' or 'item'; got {self.aggregate!r}.")
        object.__setattr__(self, "population", frozen_population(self.population))
        object.__setattr__(self, "criterion_weights", frozen_weights(self.criterion_weights))
        if self.item_rule == "sum":
            object.__setattr__(self, "item_rule", ItemRule("sum"))
        if self.item_rule is not None and not isinstance(self.item_rule, ItemRule):
            raise ProtocolError(
                f"`item_rule` is xj.weighted_share(cut), xj.all_positive() or 'sum'; got {self.item_rule!r}."
            )
        if (self.aggregate == "item") != (self.item_rule is not None):
            raise ProtocolError(
                "`aggregate='item'` and `item_rule` go together: the rule says how an item's criteria "
                "make one verdict."
            )
        if self.criterion_weights is not None and self.aggregate not in ("macro", "item"):
            raise ProtocolError(
                "`criterion_weights` act under aggregate='macro' and aggregate='item'; "
                f"got aggregate={self.aggregate!r}."
            )
        if self.extraction is not None and not isinstance(self.extraction, Cut):
            known = ("argmax", "expected", "sample")
            if self.extraction not in known:
                raise ProtocolError(
                    f"`extraction` is one of {listing(known)} or xj.cut(t); got {self.extraction!r}."
                )

    # ------------------------------------------------------------------------------------------ many of them

    @classmethod
    def grid(cls, **choices: Any) -> list[Protocol]:
        """Every combination of the choices, the last named varying fastest.

        Parameters
        ----------
        **choices
            Per field of a protocol a list of values, or one value.

        Raises
        ------
        ProtocolError
            An unknown field, an empty list, or ``aggregate=None`` mixed with others (the results would
            not have the same dims).

        Examples
        --------
        >>> len(Protocol.grid(scale_map=[at_least(2), at_least(3)], ca=["exclude", "negative"]))
        4
        """
        known = [field.name for field in fields(cls)]
        unknown = [name for name in choices if name not in known]
        if unknown:
            raise ProtocolError(
                f"A protocol has no field {listing(unknown)}; its fields are {', '.join(known)}."
            )
        lists = {name: list(v) if isinstance(v, list | tuple) else [v] for name, v in choices.items()}
        empty = [name for name, values in lists.items() if not values]
        if empty:
            raise ProtocolError(f"The list of choices for `{empty[0]}` is empty.")
        protocols = [cls(**dict(zip(lists, c, strict=True))) for c in itertools.product(*lists.values())]
        cls.check_together(protocols)
        return protocols

    @staticmethod
    def check_together(protocols: Sequence[Protocol]) -> None:
        """Refuse protocols whose results would not have the same dims."""
        kinds = {protocol.aggregate is None for protocol in protocols}
        if len(kinds) > 1:
            raise ProtocolError(
                "These protocols mix aggregate=None (one value per criterion) with aggregated ones (one "
                "value); their results have different dims. Sweep them apart."
            )

    # ------------------------------------------------------------------------------------------------- words

    @property
    def label(self) -> str:
        """A short readable name, for the ``protocol`` coordinate of a sweep."""
        parts = [] if self.scale_map is None else [map_words(self.scale_map)]
        if self.extraction is not None:
            parts.append(str(self.extraction))
        parts += [f"CA {handling_word(self.ca)}"]
        if self.invalid != "exclude":
            parts.append(f"invalid {handling_word(self.invalid)}")
        if self.tie != "category":
            parts.append(f"tie {handling_word(self.tie)}")
        if self.population is not None:
            parts.append(f"population {self._population_words()}")
        if self.aggregate is not None:
            rule = "" if self.item_rule is None else f" {self.item_rule!r}".replace("'", "")
            parts.append(f"{self.aggregate}{rule}")
        if self.criterion_weights is not None:
            parts.append("weighted")
        return " · ".join(parts)

    def _population_words(self) -> str:
        if isinstance(self.population, str):
            return self.population
        return ", ".join(f"{name}={'|'.join(map(str, values))}" for name, values in self.population)

    def __repr__(self) -> str:
        shown = []
        for field in fields(self):
            value = getattr(self, field.name)
            if value != field.default:
                if field.name == "population" and not isinstance(value, str):
                    value = {name: list(values) for name, values in value}
                if field.name == "criterion_weights":
                    value = dict(value)
                shown.append(f"{field.name}={value!r}")
        return f"Protocol({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        # as labels are matched: a population {"turn": [1]} is not {"turn": [True]}
        return self.to_json() == other.to_json() if isinstance(other, Protocol) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.to_json())

    # -------------------------------------------------------------------------------------------------- JSON

    def to_json(self) -> str:
        """Return the protocol as a JSON object with every field."""
        population = self.population
        if population is not None and not isinstance(population, str):
            population = {name: list(values) for name, values in population}
        content = {
            "scale_map": None if self.scale_map is None else self.scale_map.to_json_object(),
            "population": population,
            **{name: handling_json(getattr(self, name)) for name in ("ca", "invalid", "tie")},
            "aggregate": self.aggregate,
            "criterion_weights": None
            if self.criterion_weights is None
            else [list(pair) for pair in self.criterion_weights],
            "item_rule": None if self.item_rule is None else [self.item_rule.kind, self.item_rule.cut],
            "extraction": {"cut": self.extraction.at}
            if isinstance(self.extraction, Cut)
            else self.extraction,
        }
        return json.dumps(content, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Protocol:
        """Protocol from what :meth:`to_json` wrote.

        Raises
        ------
        ProtocolError
            For any other text.
        """
        try:
            content = json.loads(text)
            extraction = content["extraction"]
            rule = content["item_rule"]
            return cls(
                scale_map=scale_map_from_json(content["scale_map"]),
                population=content["population"],
                **{name: handling_from(content[name]) for name in ("ca", "invalid", "tie")},
                aggregate=content["aggregate"],
                criterion_weights=content["criterion_weights"],
                item_rule=None if rule is None else ItemRule(*rule),
                extraction=Cut(extraction["cut"]) if isinstance(extraction, dict) else extraction,
            )
        except ProtocolError:
            raise
        except (ValueError, TypeError, KeyError, AttributeError):
            raise ProtocolError(
                f"{text!r} is not the JSON of a protocol; it is what `protocol.to_json()` returns."
            ) from None

    # ----------------------------------------------------------------------------------------------- resolve

    def resolve(self, scale: Scale) -> Resolved:
        """Fit the protocol to a scale.

        Parameters
        ----------
        scale : Scale
            The scale of the data.

        Returns
        -------
        Resolved
            The protocol's own scale and the map from raw places to its categories.

        Raises
        ------
        ProtocolError
            Whatever the scale cannot carry, with the reason; all of it in one message.
        """
        problems = _data_problems(self, scale)
        mapped, codes = scale, tuple(range(scale.n_categories))
        if self.scale_map is not None:
            try:
                mapped, codes = self.scale_map.apply(scale)
            except ProtocolError as error:  # what needs the mapped scale cannot be said
                raise ProtocolError(" ".join([str(error), *problems])) from None
        targets = dict(enumerate(codes))
        targets |= {raw_index(name, scale.n_categories): code for name, code in OUTCOMES.items()}
        added: list[Category] = []
        wrong: list[str] = []  # of the handlings
        places = {"tie": None if scale.tie is None else scale.index(scale.tie)}
        places |= {name: raw_index(name, scale.n_categories) for name in ("ca", "invalid")}
        for name, place in places.items():
            how = getattr(self, name)
            if place is None or (name == "tie" and how == "category"):
                continue
            if how == "category" and self.aggregate == "item":
                continue  # acts on the item verdict, once the criteria are combined
            remains = OUTCOMES.get(name, EXCLUDED)
            targets[place] = _handled(name, how, mapped, scale, codes, added, wrong, remains)
        tie = places["tie"]
        if tie is not None and codes[tie] not in targets.values():
            if mapped.n_categories > 2:
                mapped, targets = _without(codes[tie], mapped, targets)
            elif not wrong:  # a handling put right might reach it
                wrong.append(f"`tie={self.tie!r}` leaves one category of {mapped!r}; agreement needs two.")
        problems += wrong + _mapped_problems(self, mapped)
        if problems:
            raise ProtocolError(" ".join(problems))
        final = mapped if not added else Scale.nominal([*mapped.categories, *added])
        return Resolved(
            self, scale, mapped, final, tuple(targets[place] for place in range(n_raw(scale.n_categories)))
        )


@dataclass(frozen=True)
class Resolved:
    """A protocol fitted to a scale.

    Parameters
    ----------
    protocol : Protocol
    raw : Scale
        The scale of the data.
    mapped : Scale
        The scale after the scale map, before outcomes become categories; without the tie where the
        protocol leaves it out or counts it as another category.
    scale : Scale
        The scale of the protocol's tables: ``mapped`` and the outcomes that are categories.
    targets : tuple of int
        Per place of the raw axis, the category of the protocol, or the outcome code that remains.
    """

    protocol: Protocol
    raw: Scale
    mapped: Scale
    scale: Scale
    targets: tuple[int, ...]

    @property
    def matrix(self) -> npt.NDArray[np.int64]:
        """The collapse ``M`` (raw places x protocol categories), zeros and ones: ``T_p = M' T M``."""
        out = np.zeros((len(self.targets), self.scale.n_categories), dtype=np.int64)
        for place, target in enumerate(self.targets):
            if target >= 0:
                out[place, target] = 1
        return out

    @property
    def outcome_categories(self) -> tuple[Category, ...]:
        """Outcomes (CA, invalid) that this protocol counts as categories."""
        return self.scale.categories[self.mapped.n_categories :] if self.scale is not self.mapped else ()

    def recoded(self) -> list[str]:
        """Outcomes without a canonical recoding that this protocol recodes: invalid outputs and ties."""
        acts = {"invalid": self.protocol.invalid, "tie": self.protocol.tie}
        return [name for name, how in acts.items() if how == "negative" or isinstance(how, RecodeTo)]


# -------------------------------------------------------------------------------------------------- helpers


def _handled(
    name: str,
    how: Handling,
    mapped: Scale,
    raw: Scale,
    codes: tuple[int, ...],
    added: list[Category],
    problems: list[str],
    remains: int,
) -> int:
    """Where an outcome goes; problems are collected, so that one message names them all."""
    if how == "exclude":
        return remains
    if mapped.kind == "continuous":
        return remains  # a problem of the data, already told
    if how == "category":
        added.append(unused_name({"ca": "CA", "invalid": "invalid"}[name], [*mapped.categories, *added]))
        return mapped.n_categories + len(added) - 1
    if how == "negative":
        if mapped.kind != "binary":
            problems.append(
                f"`{name}='negative'` needs a negative category, and {mapped!r} has none. Add a `scale_map`, "
                "or say where it goes with xj.recode_to(category)."
            )
            return remains
        return 0
    assert isinstance(how, RecodeTo)
    code = mapped.find(how.category)
    if code is None and (place := raw.find(how.category)) is not None:
        code = codes[place]
    if code is None:
        problems.append(f"`{name}={how!r}`: {how.category!r} is not a category of {mapped!r}.")
        return remains
    return code


def _without(code: int, mapped: Scale, targets: dict[int, int]) -> tuple[Scale, dict[int, int]]:
    """Take out the category of the tie, which no label can reach any more.

    What cannot be said under a protocol is none of its categories: without ties a pairwise scale has two,
    and the coefficients of two categories apply.
    """
    rest = [category for place, category in enumerate(mapped.categories) if place != code]
    shifted = {place: target - (target > code) for place, target in targets.items()}
    return (Scale.pairwise(*rest) if mapped.kind == "pairwise" else Scale.nominal(rest)), shifted


def _data_problems(protocol: Protocol, scale: Scale) -> list[str]:
    """What the scale of the data cannot carry, whatever the scale map."""
    problems = []
    if protocol.tie != "category" and scale.tie is None:
        problems.append(f"`tie={protocol.tie!r}` needs a pairwise scale with a tie; this is {scale!r}.")
    extraction = protocol.extraction
    if scale.kind == "continuous":
        problems += [
            f"`{name}={how!r}` needs categories, and a continuous scale has none."
            for name, how in (("ca", protocol.ca), ("invalid", protocol.invalid))
            if how != "exclude"
        ]
        if extraction is not None:
            problems.append(f"extraction={extraction!r} reads categories, and a continuous scale has none.")
    elif extraction == "expected" and scale.kind not in ("ordinal", "interval", "binary"):
        problems.append(f"extraction='expected' needs an ordered scale, and {scale!r} has no order.")
    return problems


def _mapped_problems(protocol: Protocol, mapped: Scale) -> list[str]:
    """What the scale after the scale map cannot carry."""
    problems = []
    rule, extraction = protocol.item_rule, protocol.extraction
    if rule is not None and rule.kind != "sum" and mapped.kind != "binary":
        problems.append(
            f"item_rule={rule!r} needs positive and negative criteria, and {mapped!r} has none. Add a "
            "`scale_map`."
        )
    if rule is not None and rule.kind == "sum" and not mapped.ordered:
        problems.append(f"item_rule='sum' adds scores, and {mapped!r} has no order.")
    if isinstance(extraction, Cut) and mapped.kind not in ("binary", "continuous"):
        problems.append(f"extraction={extraction!r} needs a positive category, and {mapped!r} has none.")
    return problems

"""Parts of a protocol: recodings, item rules, cuts, and how populations and weights are frozen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from xjudge._scale_map import ScaleMap
from xjudge.errors import ProtocolError, StructureError, listing
from xjudge.scale import Category, category_key, plain_category

__all__ = [
    "HANDLINGS",
    "Cut",
    "Extraction",
    "Handling",
    "ItemRule",
    "RecodeTo",
    "all_positive",
    "cut",
    "decimal",
    "frozen_population",
    "frozen_weights",
    "handling_from",
    "handling_json",
    "handling_word",
    "map_words",
    "recode_to",
    "weighted_share",
]


def decimal(value: float | int | str | Fraction) -> Fraction:
    """Read a threshold as the decimal that is written: ``0.05`` is 1/20, not its binary neighbour.

    Raises
    ------
    ProtocolError
        For what is no finite number.
    """
    try:
        return value if isinstance(value, Fraction) else Fraction(str(value))
    except (ValueError, ZeroDivisionError):
        raise ProtocolError(f"A threshold must be a finite number such as 0.05; got {value!r}.") from None


def _as_written(threshold: str) -> str:
    """A threshold as an argument that is read as the same decimal: ``0.6``, but ``'1/3'`` as text."""
    try:
        as_number = threshold in (repr(float(threshold)), f"{float(threshold):.0f}")
    except ValueError:
        as_number = False
    return threshold if as_number else repr(threshold)


@dataclass(frozen=True, repr=False, eq=False)
class RecodeTo:
    """Recode an outcome to a category; see :func:`recode_to`."""

    category: Category

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RecodeTo):
            return NotImplemented
        return category_key(self.category) == category_key(other.category)

    def __hash__(self) -> int:
        return hash(category_key(self.category))

    def __repr__(self) -> str:
        return f"recode_to({self.category!r})"


def recode_to(category: Category) -> RecodeTo:
    """Count an outcome (CA, invalid, tie) as a category.

    Parameters
    ----------
    category : str, int, float or bool
        Looked up among the protocol's categories first (after ``scale_map``), then among those of the data.

    Returns
    -------
    RecodeTo
        For ``ca``, ``invalid`` or ``tie`` of a protocol. Recoding an invalid output or a tie has no
        canonical form and warns.

    Examples
    --------
    >>> import xjudge as xj
    >>> xj.Protocol(ca=xj.recode_to("A"), tie=xj.recode_to("B"))
    Protocol(ca=recode_to('A'), tie=recode_to('B'))
    """
    return RecodeTo(plain_category(category))


@dataclass(frozen=True, repr=False)
class ItemRule:
    """How the criterion verdicts of an item make one item verdict; see :func:`weighted_share`."""

    kind: Literal["weighted_share", "all_positive", "sum"]
    cut: str | None = None

    def __repr__(self) -> str:
        return {
            "weighted_share": f"weighted_share({_as_written(self.cut or '')})",
            "all_positive": "all_positive()",
            "sum": "'sum'",
        }[self.kind]


def weighted_share(cut: float | str) -> ItemRule:
    """Item verdict: positive iff the weighted share of positive criteria is at least ``cut``.

    Parameters
    ----------
    cut : float or str
        In (0, 1], read as the decimal that is written: a share of exactly 3/5 reaches ``0.6``.

    Returns
    -------
    ItemRule
        For ``item_rule`` of a protocol with ``aggregate="item"``; weights are its ``criterion_weights``.

    Raises
    ------
    ProtocolError
        A cut outside (0, 1].

    Examples
    --------
    >>> import xjudge as xj
    >>> xj.Protocol(aggregate="item", item_rule=xj.weighted_share(0.6))
    Protocol(aggregate='item', item_rule=weighted_share(0.6))
    """
    share = decimal(cut)
    if not 0 < share <= 1:
        raise ProtocolError(f"`weighted_share` needs a cut in (0, 1]; got {cut}.")
    return ItemRule("weighted_share", str(cut))


def all_positive() -> ItemRule:
    """Item verdict: positive iff every criterion is positive.

    Returns
    -------
    ItemRule
        For ``item_rule`` of a protocol with ``aggregate="item"``.

    Examples
    --------
    >>> import xjudge as xj
    >>> xj.Protocol(aggregate="item", item_rule=xj.all_positive())
    Protocol(aggregate='item', item_rule=all_positive())
    """
    return ItemRule("all_positive")


@dataclass(frozen=True, repr=False)
class Cut:
    """Read a label from probabilities by a threshold; see :func:`cut`."""

    at: str

    def __repr__(self) -> str:
        return f"cut({_as_written(self.at)})"


def cut(at: float | str) -> Cut:
    """Extraction rule: positive iff the probability of the positive category is at least ``at``.

    Parameters
    ----------
    at : float or str
        In (0, 1].

    Returns
    -------
    Cut
        For ``extraction`` of a protocol whose scale is binary after its ``scale_map``.

    Raises
    ------
    ProtocolError
        A probability outside (0, 1].

    Examples
    --------
    >>> import xjudge as xj
    >>> xj.Protocol(scale_map=xj.at_least(3), extraction=xj.cut(0.7))
    Protocol(scale_map=at_least(3), extraction=cut(0.7))
    """
    if not 0 < decimal(at) <= 1:
        raise ProtocolError(f"`cut` needs a probability in (0, 1]; got {at}.")
    return Cut(str(at))


Handling = Literal["exclude", "category", "negative"] | RecodeTo
Extraction = Literal["argmax", "expected", "sample"] | Cut

HANDLINGS = ("exclude", "category", "negative")


def frozen_population(population: Any) -> Any:
    """A population as nested tuples, so that a protocol is hashable; ProtocolError where it is none."""
    if population is None or isinstance(population, str):
        return population
    frozen = []
    for name, values in _pairs(population, "population", "{coordinate: values} or the name of a variable"):
        if isinstance(values, np.ndarray):
            values = values.ravel()
        many = isinstance(values, Iterable) and not isinstance(values, str | bytes)
        chosen = tuple(values) if many else (values,)
        if not chosen:
            raise ProtocolError(f"`population`: no value is given for {name!r}, so no case would remain.")
        try:
            frozen.append((str(name), tuple(plain_category(value) for value in chosen)))
        except StructureError:
            raise ProtocolError(
                f"`population`: the values of {name!r} must be text, finite numbers or booleans; "
                f"got {listing(chosen)}."
            ) from None
    if not frozen:
        raise ProtocolError("`population` names no coordinate; use None for all cases.")
    return tuple(frozen)


def _pairs(given: Any, field: str, what: str) -> list[tuple[Any, Any]]:
    """Items of a mapping (a dict, a Series, or the pairs of JSON)."""
    try:
        return [(name, value) for name, value in (given.items() if hasattr(given, "items") else given)]
    except (TypeError, ValueError):
        raise ProtocolError(f"`{field}` is {what}; got {given!r}.") from None


def frozen_weights(weights: Any) -> Any:
    """Criterion weights as pairs, so that a protocol is hashable; ProtocolError where they are none."""
    if weights is None:
        return None
    pairs = _pairs(weights, "criterion_weights", "{criterion: weight}")
    try:
        frozen = tuple((plain_category(name), float(weight)) for name, weight in pairs)
    except (TypeError, ValueError):  # StructureError, of a name that is none, included
        raise ProtocolError(
            f"`criterion_weights` are numbers by criterion name; got {listing(pairs)}."
        ) from None
    wrong = [name for name, weight in frozen if not (np.isfinite(weight) and weight >= 0)]
    if wrong or not any(weight > 0 for _, weight in frozen):
        raise ProtocolError(
            "`criterion_weights` are finite, not negative, and not all zero; "
            f"see {listing(wrong) if wrong else 'all of them'}."
        )
    return frozen


def handling_word(how: Handling) -> str:
    """One way of handling an outcome, as coordinates of a sweep spell it."""
    words = {"exclude": "excluded", "category": "category", "negative": "negative"}
    return f"→ {how.category}" if isinstance(how, RecodeTo) else words[how]


def map_words(scale_map: ScaleMap) -> str:
    """A scale map, as coordinates of a sweep spell it."""
    if scale_map.kind == "at_least":
        return f"≥ {scale_map.values[0]}"
    return repr(scale_map).replace("'", "")


def handling_json(how: Handling) -> Any:
    """One way of handling an outcome as JSON content; :func:`handling_from` reads it."""
    return {"recode_to": how.category} if isinstance(how, RecodeTo) else how


def handling_from(content: Any) -> Any:
    """One way of handling an outcome from JSON content."""
    return RecodeTo(content["recode_to"]) if isinstance(content, dict) else content

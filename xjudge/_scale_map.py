"""Scale maps: how the categories of the data become the categories of a protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from xjudge.errors import ProtocolError, listing
from xjudge.scale import Category, Scale, category_key, plain_category

__all__ = ["ScaleMap", "at_least", "merge", "one_of", "scale_map_from_json"]


@dataclass(frozen=True, repr=False, eq=False)
class ScaleMap:
    """How the categories of the data become the categories of the protocol; see :func:`at_least`,
    :func:`one_of` and :func:`merge`.
    """  # noqa: D205

    kind: Literal["at_least", "one_of", "merge"]
    values: tuple[Category, ...] = ()
    pairs: tuple[tuple[Category, Category], ...] = ()

    def __repr__(self) -> str:
        if self.kind == "merge":
            inner = ", ".join(f"{old!r}: {new!r}" for old, new in self.pairs)
            end = f", positive={self.values[0]!r}" if self.values else ""
            return f"merge({{{inner}}}{end})"
        return f"{self.kind}({', '.join(repr(value) for value in self.values)})"

    def _key(self) -> tuple[object, ...]:
        # as labels are matched: True is not 1
        pairs = tuple((category_key(old), category_key(new)) for old, new in self.pairs)
        return self.kind, tuple(category_key(value) for value in self.values), pairs

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, ScaleMap) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def to_json_object(self) -> dict[str, Any]:
        """Content for JSON."""
        if self.kind == "merge":
            positive = {"positive": self.values[0]} if self.values else {}
            return {"merge": [list(pair) for pair in self.pairs], **positive}
        return {self.kind: list(self.values)}

    def apply(self, scale: Scale) -> tuple[Scale, tuple[int, ...]]:
        """Return the mapped scale and, per category of ``scale``, its new code."""
        if scale.kind == "continuous":
            raise ProtocolError(f"{self!r} needs categories, and a continuous scale has none.")
        return {"at_least": self._at_least, "one_of": self._one_of, "merge": self._merge}[self.kind](scale)

    def _at_least(self, scale: Scale) -> tuple[Scale, tuple[int, ...]]:
        threshold = self.values[0]
        if scale.kind not in ("ordinal", "interval", "binary"):
            raise ProtocolError(
                f"{self!r} needs an ordered scale, and {scale!r} has no order. Use `xj.one_of(...)` to say "
                "which categories are positive, or declare the scale as ordinal."
            )
        place = scale.find(threshold)
        if place is None:
            numbers = all(category_key(value)[0] == "number" for value in scale.categories)
            increasing = numbers and list(scale.categories) == sorted(cast(Any, scale.categories))
            if not (increasing and category_key(threshold)[0] == "number"):
                raise ProtocolError(f"{self!r}: {threshold!r} is not a category of {scale!r}.")
            place = sum(value < cast(float, threshold) for value in cast(Any, scale.categories))
        if not 0 < place < scale.n_categories:
            side = "positive" if place == 0 else "negative"
            raise ProtocolError(f"{self!r} makes every category of {scale!r} {side}; choose a value inside.")
        mapped = Scale.binary(negative=f"<{threshold}", positive=f">={threshold}")
        return mapped, tuple(int(code >= place) for code in range(scale.n_categories))

    def _one_of(self, scale: Scale) -> tuple[Scale, tuple[int, ...]]:
        chosen = {_known(scale, value, self) for value in self.values}
        if len(chosen) == scale.n_categories:
            raise ProtocolError(f"{self!r} makes every category of {scale!r} positive; leave one out.")
        name = "|".join(str(value) for value in self.values)
        mapped = Scale.binary(negative=f"not {name}", positive=name)
        return mapped, tuple(int(code in chosen) for code in range(scale.n_categories))

    def _merge(self, scale: Scale) -> tuple[Scale, tuple[int, ...]]:
        renamed = {_known(scale, old, self): new for old, new in self.pairs}
        names = [renamed.get(code, value) for code, value in enumerate(scale.categories)]
        order = list({category_key(name): name for name in names}.values())
        if len(order) < 2:
            raise ProtocolError(f"{self!r} leaves one category of {scale!r}; agreement needs two.")
        new_codes = tuple([category_key(v) for v in order].index(category_key(name)) for name in names)
        if self.values:
            keys = [category_key(v) for v in order]
            if len(order) != 2 or category_key(self.values[0]) not in keys:
                raise ProtocolError(
                    f"{self!r} needs two categories, one of them {self.values[0]!r}, and makes of {scale!r} "
                    f"{listing(order, most=9)}. Name every category in the mapping, or use `xj.one_of(...)`."
                )
            positive = keys.index(category_key(self.values[0]))
            codes = tuple(int(code == positive) for code in new_codes)
            return Scale.binary(negative=order[1 - positive], positive=order[positive]), codes
        if scale.kind == "binary":  # new words for the two; negative stays negative
            return Scale.binary(*order), new_codes
        keeps_order = scale.kind in ("ordinal", "interval") and list(new_codes) == sorted(new_codes)
        return (Scale.ordinal(order) if keeps_order else Scale.nominal(order)), new_codes


def at_least(value: Category) -> ScaleMap:
    """Threshold an ordered scale: positive iff the label is at least ``value``.

    Parameters
    ----------
    value : str, int or float
        A category of the scale, or a number between two categories.

    Examples
    --------
    >>> import xjudge as xj
    >>> xj.Protocol(scale_map=xj.at_least(3)).resolve(xj.Scale.ordinal([1, 2, 3, 4])).scale
    Scale.binary(negative='<3', positive='>=3')
    """
    return ScaleMap("at_least", (plain_category(value),))


def one_of(*values: Category) -> ScaleMap:
    """One-versus-rest: positive iff the label is one of ``values``; every other category is negative.

    Examples
    --------
    >>> import xjudge as xj
    >>> scale = xj.Scale.pairwise("A", "B", tie="tie")
    >>> xj.Protocol(scale_map=xj.one_of("A")).resolve(scale).scale
    Scale.binary(negative='not A', positive='A')
    """
    if not values:
        raise ProtocolError("`one_of` needs at least one category.")
    once = {category_key(value): plain_category(value) for value in values}
    return ScaleMap("one_of", tuple(once.values()))


def merge(mapping: Mapping[Category, Category], positive: Category | None = None) -> ScaleMap:
    """Merge or rename categories; those not named stay as they are.

    Parameters
    ----------
    mapping : mapping
        From categories of the data to categories of the protocol.
    positive : str, int or float, optional
        With two categories left: which of them is positive (the protocol's scale is then binary).

    Raises
    ------
    ProtocolError
        Nothing to merge, or more than two new names and a ``positive`` one. What only a scale can tell
        (unknown categories, one category left) is told by :meth:`xjudge.Protocol.resolve`.

    Notes
    -----
    Without ``positive`` a binary scale stays binary, an ordinal or interval scale becomes ordinal where the
    mapping keeps the order, and every other scale is nominal.

    Examples
    --------
    >>> import xjudge as xj
    >>> bad = xj.merge({"poor": "bad", "awful": "bad"})
    >>> xj.Protocol(scale_map=bad).resolve(xj.Scale.ordinal(["awful", "poor", "good"])).scale
    Scale.ordinal(['bad', 'good'])
    """
    if not isinstance(mapping, Mapping):
        raise ProtocolError(f"`merge` needs a mapping from old to new categories; got {mapping!r}.")
    pairs = tuple((plain_category(old), plain_category(new)) for old, new in mapping.items())
    if not pairs:
        raise ProtocolError("`merge` needs at least one category to merge or rename.")
    if positive is None:
        return ScaleMap("merge", (), pairs)
    new_names = {category_key(new) for _, new in pairs} | {category_key(positive)}
    if len(new_names) > 2:
        raise ProtocolError(
            f"`merge` with `positive={positive!r}` needs a mapping onto two categories; it names "
            f"{listing([name for _, name in sorted(new_names, key=str)], most=9)}."
        )
    return ScaleMap("merge", (plain_category(positive),), pairs)


def _known(scale: Scale, value: Category, what: ScaleMap) -> int:
    code = scale.find(value)
    if code is None:
        raise ProtocolError(f"{what!r}: {value!r} is not a category of {scale!r}.")
    return code


def scale_map_from_json(content: Any) -> ScaleMap | None:
    """A scale map from the JSON content that its ``to_json_object`` gave."""
    if content is None:
        return None
    if "merge" in content:
        return merge(dict(map(tuple, content["merge"])), content.get("positive"))
    builders: dict[str, Callable[..., ScaleMap]] = {"at_least": at_least, "one_of": one_of}
    (kind, values), *_ = content.items()
    return builders[kind](*values)

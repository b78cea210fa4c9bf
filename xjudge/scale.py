"""What labels can mean: the declared categories, their order, and the kind of the scale."""

from __future__ import annotations

import functools
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from xjudge.codes import smallest_dtype
from xjudge.errors import StructureError, listing

__all__ = ["Category", "Scale", "category_key", "plain_category"]

Category = str | int | float | bool
Kind = Literal["binary", "nominal", "ordinal", "interval", "continuous", "pairwise"]

_KINDS: tuple[Kind, ...] = ("binary", "nominal", "ordinal", "interval", "continuous", "pairwise")
_ATTR = "judge_scale"


def plain_category(value: object) -> Category:
    """Return a category value as a plain Python object; integral floats become integers.

    Raises
    ------
    StructureError
        Where the value is not text, a finite number or a boolean.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)  # of an enum member of text its text, not its name
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return int(value) if value.is_integer() else float(value)
    raise StructureError(
        f"A category must be text, a finite number or a boolean; got {value!r} of type "
        f"{type(value).__name__}. Declare labels without a value through `ca`, `invalid` or `missing`."
    )


def category_key(value: object) -> tuple[str, Category]:
    """Return the key under which labels are matched: by kind of type and by value.

    The text ``"0"`` is not the number ``0``, and ``True`` is not ``1``; ``1`` and ``1.0`` are one number.
    """
    plain = plain_category(value)
    kind = "boolean" if isinstance(plain, bool) else "text" if isinstance(plain, str) else "number"
    return kind, plain


@dataclass(frozen=True, repr=False, eq=False)
class Scale:
    """Declared categories in their order, and the kind of comparison they allow.

    Use one of the constructors: :meth:`binary`, :meth:`nominal`, :meth:`ordinal`, :meth:`interval`,
    :meth:`continuous`, :meth:`pairwise`. A scale is frozen and hashable, prints as one line, and goes
    through JSON and the attributes of a label array unchanged. Categories that are declared but never
    used keep their place: only what is declared is a category.

    Parameters
    ----------
    kind : {"binary", "nominal", "ordinal", "interval", "continuous", "pairwise"}
    categories : tuple of str, int, float or bool
        In their order; the position is the code of the label. Empty for continuous scales.
    tie : str, int, float or bool, optional
        The category that means a tie (pairwise scales).

    Raises
    ------
    StructureError
        Repeated categories, fewer than two, a tie that is not a category, values that are no category.

    Examples
    --------
    >>> scale = Scale.binary(negative="UNMET", positive="MET")
    >>> scale
    Scale.binary(negative='UNMET', positive='MET')
    >>> scale.index("MET"), scale.n_categories
    (1, 2)
    >>> Scale.from_json(scale.to_json()) == scale
    True
    """

    kind: Kind
    categories: tuple[Category, ...]
    tie: Category | None = None

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise StructureError(f"`kind` must be one of {listing(_KINDS, most=9)}; got {self.kind!r}.")
        values = tuple(plain_category(value) for value in _sequence(self.categories))
        object.__setattr__(self, "categories", values)
        keys = [category_key(value) for value in values]
        times = Counter(keys)
        repeated = sorted({repr(v) for v, k in zip(values, keys, strict=True) if times[k] > 1})
        if repeated:
            raise StructureError(
                f"Each category is declared once; {listing(repeated, show='str')} stands more than once."
            )
        if self.kind == "continuous":
            if values:
                raise StructureError("A continuous scale has no categories; use `Scale.interval(values)`.")
        elif len(values) < 2:
            raise StructureError(
                f"A scale needs at least two categories; got {listing(values) or 'none'}. Declare the "
                "categories that could have been chosen, not only those that were."
            )
        if self.kind == "binary" and len(values) != 2:
            raise StructureError(f"A binary scale has two categories; got {listing(values)}.")
        words = [value for value, key in zip(values, keys, strict=True) if key[0] != "number"]
        if self.kind == "interval" and words:
            raise StructureError(
                f"An interval scale needs numbers; got {listing(words)}. Use `Scale.ordinal` for words."
            )
        if self.kind == "interval" and list(values) != sorted(values):
            raise StructureError("The values of an interval scale are declared in increasing order.")
        if self.tie is not None:
            object.__setattr__(self, "tie", plain_category(self.tie))
            if self.kind != "pairwise":
                raise StructureError("Only a pairwise scale has a tie.")
            if category_key(self.tie) not in keys:
                raise StructureError(f"The tie {self.tie!r} is not among the categories {listing(values)}.")
        if self.kind == "pairwise":
            self._check_pair(keys)

    def _check_pair(self, keys: Sequence[tuple[str, Category]]) -> None:
        ends_with_tie = self.tie is None or keys[-1] == category_key(self.tie)
        if len(keys) != 2 + (self.tie is not None) or not ends_with_tie:
            raise StructureError(
                "A pairwise scale has the two answers and, where there is one, the tie as its last category; "
                f"got {listing(self.categories)} with tie={self.tie!r}."
            )

    @classmethod
    def binary(cls, negative: Category, positive: Category) -> Scale:
        """Two categories; code 0 is the negative one and code 1 the positive one."""
        return cls("binary", (negative, positive))

    @classmethod
    def nominal(cls, categories: Sequence[Category]) -> Scale:
        """Two or more categories without an order."""
        return cls("nominal", _sequence(categories))

    @classmethod
    def ordinal(cls, categories: Sequence[Category]) -> Scale:
        """Two or more categories in increasing order; the distance is counted in positions."""
        return cls("ordinal", _sequence(categories))

    @classmethod
    def interval(cls, values: Sequence[float]) -> Scale:
        """Two or more numbers in increasing order; the distance is the difference of the numbers."""
        return cls("interval", _sequence(values))

    @classmethod
    def continuous(cls) -> Scale:
        """Real numbers, kept in a variable ``score`` beside the label."""
        return cls("continuous", ())

    @classmethod
    def pairwise(cls, first: Category = "A", second: Category = "B", tie: Category | None = None) -> Scale:
        """Which of two answers is better; ``tie`` is one more category with a convention attached."""
        return cls("pairwise", (first, second) if tie is None else (first, second, tie), tie)

    @property
    def n_categories(self) -> int:
        """Number of codes in use: declared categories, or 1 (answered) on a continuous scale."""
        return len(self.categories) if self.kind != "continuous" else 1

    @property
    def ordered(self) -> bool:
        """Whether distances between categories have a meaning (two categories always do)."""
        return self.kind in ("binary", "ordinal", "interval", "continuous") or self.n_categories == 2

    @property
    def negative(self) -> Category | None:
        """The negative category of a binary scale, otherwise ``None``."""
        return self.categories[0] if self.kind == "binary" else None

    @property
    def positive(self) -> Category | None:
        """The positive category of a binary scale, otherwise ``None``."""
        return self.categories[1] if self.kind == "binary" else None

    @property
    def scores(self) -> npt.NDArray[np.float64]:
        """The number each category stands for: its value on an interval scale, else its position."""
        if self.kind == "interval":
            return np.asarray(self.categories, dtype=np.float64)
        return np.arange(len(self.categories), dtype=np.float64)

    @property
    def dtype(self) -> np.dtype[np.signedinteger]:
        """The smallest signed integer that holds the codes of this scale."""
        return smallest_dtype(self.n_categories)

    def find(self, value: object) -> int | None:
        """Code of a category, matched by type and value; ``None`` where it is not declared."""
        try:
            key = category_key(value)
        except StructureError:
            return None
        return self._codes.get(key)

    @functools.cached_property
    def _codes(self) -> dict[tuple[str, Category], int]:
        return {category_key(category): code for code, category in enumerate(self.categories)}

    def index(self, value: object) -> int:
        """Code of a category, matched by type and value.

        Raises
        ------
        StructureError
            Where ``value`` is not a declared category.
        """
        code = self.find(value)
        if code is None:
            raise StructureError(
                f"{value!r} is not a category of {self!r}. Categories are matched by type and value."
            )
        return code

    def to_json(self) -> str:
        """Return the scale as a JSON object: ``kind``, ``categories`` and, where there is one, ``tie``."""
        content: dict[str, Any] = {"kind": self.kind, "categories": list(self.categories)}
        if self.tie is not None:
            content["tie"] = self.tie
        return json.dumps(content, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Scale:
        """Scale from what :meth:`to_json` wrote.

        Raises
        ------
        StructureError
            For any other text.
        """
        try:
            content = json.loads(text)
            kind, categories = content["kind"], tuple(content["categories"])
            tie = content.get("tie")
        except (ValueError, TypeError, KeyError, AttributeError):
            raise StructureError(
                f"{text!r} is not the JSON of a scale; it is what `scale.to_json()` returns."
            ) from None
        return cls(kind, categories, tie)

    def to_attrs(self) -> dict[str, Any]:
        """Attributes of a label array: CF ``flag_values`` and ``flag_meanings``, and the scale as JSON.

        Meanings are slugs without blanks; the true category values stand in the JSON. No ``_FillValue``:
        it would turn the codes into floats on reading.
        """
        if self.kind == "continuous":
            return {_ATTR: self.to_json()}
        return {
            "flag_values": np.arange(self.n_categories, dtype=self.dtype),
            "flag_meanings": " ".join(_slugs(self.categories)),
            _ATTR: self.to_json(),
        }

    @classmethod
    def from_attrs(cls, attrs: Mapping[Any, Any]) -> Scale:
        """Scale from the attributes of a label array.

        Reads the JSON that :meth:`to_attrs` wrote; without it, the CF flags as a nominal scale.

        Raises
        ------
        StructureError
            Where the attributes hold neither.
        """
        if _ATTR in attrs:
            return cls.from_json(" ".join(_texts(attrs[_ATTR])))
        if "flag_meanings" in attrs and "flag_values" in attrs:
            meanings = " ".join(_texts(attrs["flag_meanings"])).split()
            values = np.atleast_1d(np.asarray(attrs["flag_values"])).tolist()
            if values == list(range(len(meanings))):
                return cls.nominal(meanings)
        raise StructureError(
            "The variable `label` carries no scale: its attributes were lost on the way. Put it back with "
            '`ds["label"].attrs.update(scale.to_attrs())`.'
        )

    def __eq__(self, other: object) -> bool:
        return self.to_json() == other.to_json() if isinstance(other, Scale) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.to_json())

    def __repr__(self) -> str:
        if self.kind == "binary":
            return f"Scale.binary(negative={self.categories[0]!r}, positive={self.categories[1]!r})"
        if self.kind == "continuous":
            return "Scale.continuous()"
        if self.kind == "pairwise":
            pair = ", ".join(repr(value) for value in self.categories[:2])
            return (
                f"Scale.pairwise({pair})" if self.tie is None else f"Scale.pairwise({pair}, tie={self.tie!r})"
            )
        return f"Scale.{self.kind}([{listing(self.categories, most=12)}])"


def _sequence(values: Any) -> tuple[Any, ...]:
    single = isinstance(values, np.ndarray) and values.ndim == 0
    if isinstance(values, str | bytes) or not isinstance(values, Iterable) or single:
        raise StructureError(f"Categories are given as a list; got {values!r}.")
    if isinstance(values, set | frozenset):
        raise StructureError(
            f"Categories are given in their order, and {values!r} has none: give a list, or sort the set."
        )
    return tuple(values)


def _texts(value: Any) -> list[str]:
    """Text of an attribute, which file formats also hand back as bytes, as an array or as a list."""
    words = np.atleast_1d(np.asarray(value)).ravel().tolist()
    return [word.decode() if isinstance(word, bytes) else str(word) for word in words]


def _slugs(categories: Iterable[Category]) -> list[str]:
    """Category words without blanks, each once: what CF asks of ``flag_meanings``."""
    slugs: dict[str, None] = {}  # in order, and quick to search
    for category in categories:
        slug = re.sub(r"[^0-9A-Za-z_.@+-]+", "_", str(category)) or "_"
        candidate, n = slug, 2
        while candidate in slugs:
            candidate, n = f"{slug}_{n}", n + 1
        slugs[candidate] = None
    return list(slugs)

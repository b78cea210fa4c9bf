"""Match raw label values to the codes of a scale.

Values are matched by kind and value, never by spelling alone: the text ``"0"`` is not the number 0, and
``True`` is not 1. What the caller did not declare is never guessed to be a code; it is an error that lists
the values, how often they occur, and what they look like.
"""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from xjudge._ingest import Encoded, Problems, is_null, kind_of, plain
from xjudge.codes import MISSING, OUTCOMES
from xjudge.errors import StructureError, listing
from xjudge.scale import Scale, category_key

__all__ = ["STEPS", "UNKNOWN", "Declared", "Key", "Vocabulary", "declare"]

UNKNOWN: Final = -9
"""Code of a value that is neither a category nor declared; no dataset ever holds it."""

Key = tuple[str, Any]
_MANY: Final = 1000

STEPS: Final[dict[str, Callable[[str], str | bool]]] = {
    "strip": str.strip,
    "casefold": str.casefold,
    "nfc": lambda text: unicodedata.normalize("NFC", text),
    "bool_text": lambda text: {"true": True, "false": False}.get(text.casefold(), text),
}


@dataclass(frozen=True)
class Declared:
    """The raw values that stand for an outcome, and the steps text goes through first.

    Parameters
    ----------
    codes : mapping of key to int
        Outcome code per declared value.
    coerce : bool
        Whether every other value that is no category is invalid.
    steps : tuple of str
        Normalisation of text, in order.
    written : mapping of str to list
        The values per outcome as the user wrote them.
    """

    codes: Mapping[Key, int]
    coerce: bool
    steps: tuple[str, ...]
    written: Mapping[str, list[Any]]

    def to_json(self) -> str:
        """Return the declared values as a JSON object for attributes."""
        content: dict[str, Any] = {
            name: [_jsonable(v) for v in values] for name, values in self.written.items()
        }
        if self.coerce:
            content["invalid"] = "coerce"
        return json.dumps(content, ensure_ascii=False)

    def normal(self, value: Any) -> Any:
        """Return the value after the normalisation steps, which touch text alone."""
        for step in self.steps:
            if isinstance(value, str):
                value = STEPS[step](value)
        return value

    def key(self, value: Any) -> Key:
        """Key of a value after normalisation: its kind and the value."""
        if is_null(value):
            return "null", None
        value = self.normal(plain(value))
        try:
            return category_key(value)
        except StructureError:
            return "other", repr(value)


def declare(ca: Any, invalid: Any, missing: Any, normalise: Any, problems: Problems) -> Declared:
    """Collect the declared codes; a value declared twice is a problem."""
    steps = tuple(_many(normalise))
    unknown = [step for step in steps if step not in STEPS]
    if unknown:
        problems.add(f"`normalise` takes {listing(STEPS, most=9)}; got {listing(unknown)}.")
        steps = tuple(step for step in steps if step in STEPS)
    coerce = isinstance(invalid, str) and invalid == "coerce"
    written = {"ca": _many(ca), "invalid": [] if coerce else _many(invalid), "missing": _many(missing)}
    declared = Declared({}, coerce, steps, written)
    codes: dict[Key, int] = {}
    spelled: dict[Key, tuple[str, Any]] = {}
    for name, values in written.items():
        for value in values:
            key = declared.key(value)
            if key not in codes:
                codes[key], spelled[key] = OUTCOMES[name], (name, value)
                continue
            other, first = spelled[key]
            respelled = repr(first) != repr(value) and (key[0] == "null" or bool(steps))
            if other != name:
                problems.add(f"{value!r} is declared both as `{other}` and as `{name}`.")
            elif not respelled:
                problems.add(f"{value!r} is declared twice in `{name}`.")
    return Declared(codes, coerce, steps, written)


class Vocabulary:
    """A scale and the declared codes, ready to match distinct values.

    Parameters
    ----------
    scale : Scale
    declared : Declared
    problems : Problems
        Gets a sentence where a value is category and code, or two categories become one when normalised.
    """

    def __init__(self, scale: Scale, declared: Declared, problems: Problems) -> None:
        self.scale = scale
        self.declared = declared
        self.categories: dict[Key, int] = {}
        for code, category in enumerate(scale.categories):
            key = declared.key(category)
            if key in self.categories:
                problems.add(
                    f"`normalise={list(declared.steps)}` makes the categories "
                    f"{scale.categories[self.categories[key]]!r} and {category!r} one."
                )
            elif key in declared.codes:
                outcome = {code: name for name, code in OUTCOMES.items()}[declared.codes[key]]
                problems.add(f"{category!r} is a category of {scale!r} and is declared as `{outcome}` too.")
            self.categories[key] = code
        self.kinds = {kind for kind, _ in self.categories}

    def match(self, column: Encoded, kinds: set[str] | None = None) -> npt.NDArray[np.int64]:
        """Code per distinct value of a column, then the code of its nulls; ``UNKNOWN`` where there is none.

        Nulls are missing unless they are declared otherwise. On a continuous scale a finite number is
        answered, code 0. ``kinds`` are those of the whole column, where this is a part of it.
        """
        null = self.declared.codes.get(("null", None), MISSING)
        if self.scale.kind == "continuous":
            return np.append(self._continuous(column), null)
        if column.values.dtype.kind in "iuf" and len(column.values) > _MANY:
            return np.append(self._numbers(column.values), null)
        keys = [self.declared.key(value) for value in column.values]
        bridge = self._bridge(self.kinds_of(keys) if kinds is None else kinds)
        targets = [self._target(key, bridge) for key in keys]
        return np.array([*targets, null], dtype=np.int64)

    def _numbers(self, values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Code per number, one comparison for each category: many more numbers than categories."""
        targets = np.full(len(values), OUTCOMES["invalid"] if self.declared.coerce else UNKNOWN)
        for (kind, value), code in [*self.categories.items(), *self.declared.codes.items()]:
            if kind == "number":
                targets[values == value] = code
            elif kind == "other" and value in ("inf", "-inf"):
                targets[values == float(value)] = code
        return targets

    def _target(self, key: Key, bridge: Mapping[Key, Key]) -> int:
        if key in self.declared.codes:
            return self.declared.codes[key]
        code = self.categories.get(bridge.get(key, key))
        if code is None:
            return OUTCOMES["invalid"] if self.declared.coerce else UNKNOWN
        return code

    def kinds_of(self, keys: Iterable[Key]) -> set[str]:
        """Kinds of the values that are not declared."""
        return {kind for kind, value in keys if (kind, value) not in self.declared.codes}

    def _bridge(self, kinds: set[str]) -> dict[Key, Key]:
        """0 and 1 for False and True, for a column of one kind where the scale has the other kind alone."""
        numbers = [("number", 0), ("number", 1)]
        booleans = [("boolean", False), ("boolean", True)]
        for have, want in ((booleans, numbers), (numbers, booleans)):
            lacking = have[0][0] not in self.kinds
            if kinds == {have[0][0]} and lacking and all(key in self.categories for key in want):
                return dict(zip(have, want, strict=True))
        return {}

    def _continuous(self, column: Encoded) -> npt.NDArray[np.int64]:
        unknown = OUTCOMES["invalid"] if self.declared.coerce else UNKNOWN
        if column.values.dtype.kind in "iuf":
            targets = np.where(np.isfinite(column.values), 0, unknown).astype(np.int64)
            for (kind, value), code in self.declared.codes.items():
                if kind == "number":
                    targets[column.values == value] = code
                elif kind == "other" and value in ("inf", "-inf"):
                    targets[column.values == float(value)] = code
            return targets
        keys = [self.declared.key(value) for value in column.values]
        return np.array(
            [self.declared.codes.get(key, 0 if key[0] == "number" else unknown) for key in keys],
            dtype=np.int64,
        )

    def scores(self, column: Encoded) -> npt.NDArray[np.float64]:
        """Value per row of a continuous column; NaN where it is no number."""
        if column.values.dtype.kind in "iuf":
            values = column.values.astype(np.float64)
        else:
            numbers = [value if kind_of(value) == "number" else math.nan for value in column.values]
            values = np.array(numbers, dtype=np.float64)
        return cast("npt.NDArray[np.float64]", np.append(values, np.nan)[column.codes])


# -------------------------------------------------------------------------------------------------- helpers


def _many(value: Any) -> list[Any]:
    """One value or many, as a list; ``None`` is none, and a single null is one."""
    if value is None:
        return []
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        return [value]
    listed = list(value)
    return sorted(listed, key=repr) if isinstance(value, (set, frozenset)) else listed


def _jsonable(value: Any) -> Any:
    if is_null(value):
        return None
    value = plain(value)
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return value if isinstance(value, (str, bool, int, float)) else repr(value)

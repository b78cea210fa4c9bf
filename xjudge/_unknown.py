"""Labels that are neither category nor code: what they look like, and what to do about them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from xjudge._ingest import counted, kind_of, shown
from xjudge._labels import STEPS, Declared, Vocabulary
from xjudge.errors import listing
from xjudge.scale import Scale

__all__ = ["Strange", "looks_like_code", "unknown_problem"]

_CODE_WORDS: Final = frozenset(
    [
        *("", "-", "--", "?", ".", "n/a", "na", "n.a.", "nan", "none", "null", "nil", "<na>", "nat"),
        *("error", "$error$", "err", "failed to parse", "parse error", "parse_error", "parsing_error"),
        *("invalid", "__invalid__", "[invalid]", "not_parsable", "unparseable", "unparsable", "timeout"),
        *("refused", "refusal", "cannot assess", "cannot_assess", "can't assess", "ca", "unsure", "unknown"),
        *("skip", "skipped", "idk", "don't know", "dont know", "do not know", "not applicable"),
        *("not_applicable", "missing", "undefined", "not sure", "cannot judge", "abstain"),
    ]
)
_CODE_NUMBERS: Final = (0, 9, 99, 999, 9999)
_SHOWN: Final = 10


@dataclass(frozen=True)
class Strange:
    """Values that were not expected.

    Parameters
    ----------
    values, counts : list
        The most frequent ones, and how often each occurs.
    total : int
        How often any occurs.
    n_distinct : int
        How many there are.
    first : int
        The first answer that has one.
    """

    values: list[Any] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    total: int = 0
    n_distinct: int = 0
    first: int = 0


def unknown_problem(strange: Strange, vocabulary: Vocabulary, where: str) -> str:
    """Sentence about labels that are neither category nor code: values as written, counts, what to do.

    Parameters
    ----------
    strange : Strange
        The unknown values.
    vocabulary : Vocabulary
    where : str
        The first place where one stands.
    """
    listed = zip(strange.values[:_SHOWN], strange.counts, strict=False)
    told = ", ".join(f"{shown(value)} ({counted(count, 'time')})" for value, count in listed)
    more = f" and {strange.n_distinct - _SHOWN} more" if strange.n_distinct > _SHOWN else ""
    return (
        f"{counted(strange.total, 'label')} {'is' if strange.total == 1 else 'are'} neither a category of "
        f"{vocabulary.scale!r} nor a declared code: {told}{more}; the first at {where}. "
        f"{' '.join(_hints(strange.values, vocabulary))}"
    )


def _hints(values: Sequence[Any], vocabulary: Vocabulary) -> list[str]:
    scale, declared = vocabulary.scale, vocabulary.declared
    hints = []
    steps = _helping_steps(values, vocabulary)
    if steps:
        hints.append(f"Some differ in blanks or case alone: use normalise={(*declared.steps, *steps)}.")
    texts = {str(category) for category in scale.categories}
    retyped = [value for value in values if str(value) in texts or _number_as_text(value, scale)]
    if retyped:
        kinds = {"text": "text", "number": "a number", "boolean": "a boolean"}
        is_a = kinds.get(kind_of(retyped[0]), "of another type")
        hints.append(
            f"{shown(retyped[0])} is {is_a} and the scale has another type: values are matched by type; "
            "convert the column or declare the categories as they are written."
        )
    codes = [value for value in values if value not in retyped and looks_like_code(value, scale)]
    if codes:
        hints.append(
            f"{listing(codes)} look{'s' * (len(codes) == 1)} like a code: say what it means with "
            f"`ca=[...]`, `invalid=[...]` or `missing=[...]`."
        )
    if _between(values, scale):
        hints.append(
            "Numbers between the categories need `xj.Scale.continuous()` or categories of their own."
        )
    if not hints:
        hints.append(
            "Add the value to the scale, declare it through `ca`, `invalid` or `missing`, or use "
            "`invalid='coerce'` to count every such value as invalid."
        )
    return hints


def _helping_steps(values: Iterable[Any], vocabulary: Vocabulary) -> tuple[str, ...]:
    """The fewest further steps that turn at least one unknown text into a category."""
    texts = [value for value in values if isinstance(value, str)]
    needed: list[str] = []
    for steps in (("strip",), ("casefold",), ("nfc",), ("bool_text",), ("strip", "casefold")):
        declared = vocabulary.declared
        more = Declared({}, False, (*declared.steps, *steps), {})
        keys = {more.key(category) for category in vocabulary.scale.categories} | {
            more.key(value) for listed in declared.written.values() for value in listed
        }
        solved = [text for text in texts if more.key(text) in keys]
        if solved:
            needed += [step for step in steps if step not in needed]
            texts = [text for text in texts if text not in solved]
    order = list(STEPS)
    return tuple(sorted(needed, key=order.index))


def looks_like_code(value: Any, scale: Scale | None) -> bool:
    """Whether a value outside the scale reads like a code of a missing or unusable answer."""
    if isinstance(value, str):
        return value.strip().casefold() in _CODE_WORDS
    if kind_of(value) != "number":
        return False
    if scale is None:
        return bool(value < 0)
    numbers = [category for category in scale.categories if kind_of(category) == "number"]
    if not numbers:
        return value < 0 or value in _CODE_NUMBERS
    low, high = min(cast(Any, numbers)), max(cast(Any, numbers))
    return bool(value < low or (value > high and value in _CODE_NUMBERS))


def _number_as_text(value: Any, scale: Scale) -> bool:
    """Whether a text reads as a number that the scale would take."""
    if not isinstance(value, str):
        return False
    try:
        number = float(value)
    except ValueError:
        return False
    return math.isfinite(number) and (scale.kind == "continuous" or scale.find(number) is not None)


def _between(values: Iterable[Any], scale: Scale) -> bool:
    numbers = [category for category in scale.categories if kind_of(category) == "number"]
    if len(numbers) < 2:
        return False
    low, high = min(cast(Any, numbers)), max(cast(Any, numbers))
    return any(kind_of(value) == "number" and low < value < high for value in values)

"""Arguments of a verb against what its signature says they are, before anything is read."""

from __future__ import annotations

import functools
import inspect
import reprlib
import types
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from xjudge.errors import ProtocolError
from xjudge.protocol import Protocol

__all__ = ["check_arguments"]

_NAMES_OF_RATERS = ("reference",)
"""Words of ours or a rater's name, which need not be text."""

_NUMBERS = (int, float, Fraction, Decimal, np.integer, np.floating)

_WORDS: dict[Any, tuple[str, str]] = {
    type(None): ("None", ""),
    bool: ("True or False", ""),
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    str: ("a name or word", "names or words"),
    Protocol: ("an xj.Protocol", ""),
    Any: ("", "names"),
}


def check_arguments(verb: Callable[..., Any], given: Mapping[str, Any]) -> None:
    """Refuse arguments that are not what the verb's signature says: one sentence for all verbs.

    What a value may be beyond its type (a range, a known word) is for the verb to say, and so is whatever
    has a type of another kind.

    Parameters
    ----------
    verb : callable
        The public function.
    given : mapping
        Its ``locals()`` before anything else is bound.

    Raises
    ------
    ProtocolError
        With the argument, what it should be and what came.

    Examples
    --------
    >>> def verb(data, *, level: float = 0.95, by: str | None = None) -> None:
    ...     check_arguments(verb, locals())
    >>> verb(None, level="high")
    Traceback (most recent call last):
    xjudge.errors.ProtocolError: `level` is a number; got 'high'.
    """
    for name, kinds in _parameters(verb).items():
        value = given[name]
        if name in _NAMES_OF_RATERS and (isinstance(value, str) or not isinstance(value, Collection)):
            continue
        if not any(_is(value, kind) for kind in kinds):
            raise ProtocolError(f"`{name}` is {_words(kinds)}; got {reprlib.repr(value)}.")
        if name == "seed" and value < 0:
            raise ProtocolError(f"`seed` is 0 or a positive whole number; got {value!r}.")


@functools.cache
def _parameters(verb: Callable[..., Any]) -> dict[str, tuple[Any, ...]]:
    """Parameters whose annotations can be checked, with the kinds they may be."""
    hints = typing.get_type_hints(verb)
    found = {}
    for name in inspect.signature(verb).parameters:
        hint = hints.get(name)
        union = isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union
        kinds = tuple(map(_plain, typing.get_args(hint) if union else (hint,)))
        if all(_member(kind) in _WORDS and kind is not Any for kind in kinds):
            found[name] = kinds
    return found


def _plain(kind: Any) -> Any:
    """Words of a literal as text: which of them exist is for the verb to say."""
    literal = typing.get_origin(kind) is typing.Literal
    return type(typing.get_args(kind)[0]) if literal else kind


def _member(kind: Any) -> Any:
    """What a list or a mapping is of; other kinds as they are."""
    return typing.get_args(kind)[-1] if typing.get_origin(kind) in (Sequence, Mapping) else kind


def _is(value: Any, kind: Any) -> bool:
    member = _member(kind)
    if typing.get_origin(kind) is Mapping:
        return isinstance(value, Mapping) and all(_is(one, member) for one in value.values())
    if member is not kind:
        several = isinstance(value, Collection) and getattr(value, "ndim", 1) == 1
        several = several and not isinstance(value, str | bytes | Mapping)
        return several and all(_is(one, member) for one in value)
    if kind is Any:
        return True
    if kind is bool:
        return isinstance(value, bool | np.bool_)
    if kind in (int, float):
        numbers = (int, np.integer) if kind is int else _NUMBERS
        return isinstance(value, numbers) and not isinstance(value, bool)
    return isinstance(value, kind)


def _words(kinds: Sequence[Any]) -> str:
    found = []
    for kind in kinds:
        single, several = _WORDS[_member(kind)]
        shape = {Sequence: f"a list of {several}", Mapping: f"a mapping to {several}"}
        found.append(shape.get(typing.get_origin(kind), single))
    return " or ".join(found)

"""Infer a scale from labels that came without one; say so wherever it is not obvious."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from xjudge._ingest import Encoded, Problems, plain, shown
from xjudge._labels import Declared, Key
from xjudge._unknown import looks_like_code
from xjudge.errors import listing
from xjudge.scale import Category, Scale

__all__ = ["infer_scale"]

_KNOWN_PAIRS: Final = {
    *(("no", "yes"), ("n", "y"), ("false", "true"), ("f", "t"), ("fail", "pass"), ("failed", "passed")),
    *(("unmet", "met"), ("not met", "met"), ("not_met", "met"), ("incorrect", "correct"), ("wrong", "right")),
    *(("negative", "positive"), ("reject", "accept"), ("rejected", "accepted"), ("bad", "good")),
    *(("irrelevant", "relevant"), ("unfaithful", "faithful"), ("unsafe", "safe"), ("0", "1")),
    *(("unsatisfied", "satisfied"), ("unacceptable", "acceptable"), ("disagree", "agree")),
}
_MOST_TEXTS: Final = 1000


def infer_scale(
    columns: Sequence[Encoded], declared: Declared, problems: Problems
) -> tuple[Scale | None, str]:
    """Scale of labels that came without one, and a sentence to warn with (empty where it is obvious).

    Parameters
    ----------
    columns : sequence of Encoded
    declared : Declared
        Values that are codes are left out.
    problems : Problems
        Gets a sentence where nothing can be inferred; then the scale is ``None``.
    """
    values: dict[Key, Any] = {}
    for column in columns:
        for value in column.values:
            key = declared.key(value)
            if key not in declared.codes:
                values.setdefault(key, declared.normal(plain(value)))
    kinds = {kind for kind, _ in values}
    levels = _common_levels(values, columns, declared)
    ask = (
        "Declare the categories that could have been chosen: "
        "`scale=xj.Scale.binary(...)`, `.nominal(...)`, `.ordinal(...)`, ..."
    )
    if declared.coerce:
        problems.add("`invalid='coerce'` needs a declared `scale`: without one, every value is a category.")
    elif not values:
        problems.add(f"No label is left to infer a scale from. {ask}")
    elif kinds == {"boolean"}:
        return Scale.binary(False, True), ""
    elif len(kinds) > 1 or kinds & {"other", "null"}:
        firsts: dict[str, Any] = {}
        for (kind, _), value in values.items():
            firsts.setdefault(kind, value)
        samples = list(firsts.values())
        problems.add(
            f"The labels are of different types, {listing(samples)}, and no `scale` says which are "
            f"categories. {ask}; and the rest through `ca`, `invalid` or `missing`."
            if len(kinds) > 1
            else f"The labels {listing(samples)} are neither text, numbers nor booleans. {ask}"
        )
    elif levels is not None and len(levels) > 1:
        pair = _known_pair({declared.key(level): level for level in levels})
        return Scale.binary(*levels) if pair == tuple(levels) else Scale.ordinal(levels), ""
    elif len(values) == 1:
        problems.add(
            f"All labels are {shown(next(iter(values.values())))}, so no scale can be inferred. {ask}"
        )
    elif len(values) > _MOST_TEXTS and kinds == {"text"}:
        few = listing(map(shown, values.values()), show="str")
        problems.add(f"The labels are {len(values)} different texts ({few}): the wrong column? {ask}")
    else:
        return _inferred(values, columns, declared)
    return None, ""


def _inferred(values: Mapping[Key, Any], columns: Sequence[Encoded], declared: Declared) -> tuple[Scale, str]:
    pair = _known_pair(values)
    if pair is not None:
        return Scale.binary(*pair), ""
    levels = _common_levels(values, columns, declared)
    if levels is not None:
        return Scale.ordinal(levels), ""
    found = list(values.values())
    if isinstance(found[0], str):
        scale = Scale.nominal(sorted(found))
    elif all(float(value).is_integer() for value in found):
        scale = Scale.ordinal(sorted(int(value) for value in found))
    else:
        scale = Scale.continuous()
    odd = [value for value in scale.categories if looks_like_code(value, None)]
    code = (
        f" {listing(odd)} may be a code: if so, declare it through `ca`, `invalid` or `missing`."
        if odd
        else ""
    )
    warning = f"No `scale` was given; the labels were read as {scale!r}. Declare it to be sure.{code}"
    return scale, warning


def _known_pair(values: Mapping[Key, Any]) -> tuple[Category, Category] | None:
    """The two values as (negative, positive) where everyone would read them so."""
    if len(values) != 2:
        return None
    first, second = values.values()
    for negative, positive in ((first, second), (second, first)):
        if not isinstance(first, str) and (negative, positive) == (0, 1):
            return 0, 1
        words = tuple(str(value).strip().casefold() for value in (negative, positive))
        if isinstance(first, str) and words in _KNOWN_PAIRS:
            return negative, positive
    return None


def _common_levels(
    values: Mapping[Key, Any], columns: Sequence[Encoded], declared: Declared
) -> list[Category] | None:
    """Levels of ordered categoricals, where all columns have the same ones."""
    found: list[Category] | None = None
    for column in columns:
        if column.levels is None:
            return None
        levels = {declared.key(level): declared.normal(level) for level in column.levels}
        here = [level for key, level in levels.items() if key not in declared.codes]
        if found is not None and here != found:
            return None
        found = here
    return found if found is not None and len(found) >= len(values) else None

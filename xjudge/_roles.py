"""Who is human and who is judge, and how well a rater's identity is known; stated, never guessed."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from xjudge._ids import Ids
from xjudge._ingest import NULL, Encoded, Problems, is_null, kind_of, plain, text_array
from xjudge.errors import listing

__all__ = ["IDENTITIES", "ROLES", "resolve_identity", "resolve_roles"]

ROLES: Final = ("human", "judge")
IDENTITIES: Final = ("named", "positional", "file", "unknown")


def resolve_roles(
    raters: Ids | None,
    *,
    role: Any,
    column: Encoded | None,
    judges: Any,
    humans: Any,
    role_names: Mapping[Any, str] | None,
    hint: str,
    problems: Problems,
) -> npt.NDArray[Any] | None:
    """Role per rater, ``"human"`` or ``"judge"``.

    Parameters
    ----------
    raters : Ids or None
        ``None`` where the raters could not be read; then only the arguments are checked.
    role : column name, mapping or callable, optional
    column : Encoded, optional
        The role column, along ``raters.codes``.
    judges, humans : list of rater ids, optional
        The rest has the other role.
    role_names : mapping of word to role, optional
    hint : str
        What could be passed, said where nothing was.
    problems : Problems
    """
    given_names: Any = role_names
    if role_names is not None and not isinstance(given_names, Mapping):
        problems.add(f"`role_names` maps words to 'human' or 'judge'; got {reprlib.repr(role_names)}.")
        role_names = None
    names = dict(role_names or {})
    wrong = [word for word in names.values() if word not in ROLES]
    if wrong:
        problems.add(f"`role_names` maps words to 'human' or 'judge'; got {listing(wrong)}.")
        return None
    arguments = {"role": role, "judges": judges, "humans": humans}
    given = [name for name, value in arguments.items() if value is not None]
    if role is not None and len(given) > 1:
        problems.add(
            f"Say the roles once: by `role`, or by `judges` and `humans`; got {' and '.join(given)}."
        )
        return None
    if raters is None:
        return None
    if not given:
        problems.add(
            f"Nobody said who is human and who is judge among {listing(raters.names, most=6)}. "
            f"Pass `judges=[...]` or `humans=[...]` (the rest is the other), or `role=` a column, mapping or "
            f"callable.{hint}"
        )
        return None
    if role is None:
        return _from_names(raters, judges, humans, problems)
    words = _words(raters, role, column, problems)
    return None if words is None else _from_words(raters, words, names, problems)


def _from_names(raters: Ids, judges: Any, humans: Any, problems: Problems) -> npt.NDArray[Any] | None:
    index = pd.Index(raters.values)
    known = {_key(name) for name in raters.names}
    chosen: dict[str, npt.NDArray[np.bool_]] = {}
    failed = False
    for argument, names in (("judges", judges), ("humans", humans)):
        if names is None:
            continue
        listed = _as_list(names)
        unknown = [name for name in listed if _key(name) not in known]
        if unknown:
            retyped = [name for name in unknown if str(name) in set(map(str, raters.names))]
            types = " Ids are matched by type: 1 is not '1'." if retyped else ""
            problems.add(
                f"`{argument}` names {listing(unknown)}, who rated nothing here; the raters are "
                f"{listing(raters.names, most=6)}.{types}"
            )
            failed = True
        chosen[argument] = index.isin([plain(name) for name in listed if _key(name) in known])
    if failed:
        return None
    if len(chosen) == 2:
        both = raters.values[chosen["judges"] & chosen["humans"]]
        neither = raters.values[~(chosen["judges"] | chosen["humans"])]
        if len(both):
            problems.add(f"{listing(both.tolist())} stand in `judges` and in `humans`; a rater has one role.")
        if len(neither):
            problems.add(
                f"`judges` and `humans` are both given and leave out {listing(neither.tolist())}; name every "
                "rater, or give one list only."
            )
        if len(both) or len(neither):
            return None
    is_judge = chosen["judges"] if "judges" in chosen else ~chosen["humans"]
    return text_array("judge" if judge else "human" for judge in is_judge)


def _key(name: Any) -> tuple[str, Any]:
    """Ids are matched by kind and value: 1 is neither '1' nor True."""
    kind = kind_of(name)
    return kind, plain(name) if kind != "other" else repr(name)


def _as_list(names: Any) -> list[Any]:
    if hasattr(names, "values") and not callable(names.values):  # a DataArray or Series: its values
        names = names.values
    return [names] if isinstance(names, (str, bytes)) or not isinstance(names, Iterable) else list(names)


def _words(raters: Ids, role: Any, column: Encoded | None, problems: Problems) -> list[Any] | None:
    """The word for each rater, from a column, a mapping or a callable."""
    if column is not None:
        first = np.full(len(raters), NULL - 1, dtype=np.int64)
        first[raters.codes[::-1]] = column.codes[::-1]
        two = first[raters.codes] != column.codes
        if two.any():
            doubled = np.unique(raters.codes[two])
            shown = []
            for code in doubled[:3]:
                codes = pd.unique(column.codes[raters.codes == code])
                words = [None if c == NULL else plain(column.values[c]) for c in codes]
                shown.append(f"{plain(raters.values[code])!r} ({listing(words)})")
            more = f" and {len(doubled) - 3} more" if len(doubled) > 3 else ""
            problems.add(f"A rater has one role, and these have several: {', '.join(shown)}{more}.")
            return None
        return [None if code == NULL else plain(column.values[code]) for code in first]
    names = raters.names
    if isinstance(role, Mapping):
        return [role.get(name) for name in names]
    if callable(role):
        call: Callable[[Any], Any] = role
        return [call(name) for name in names]
    return None  # a column that could not be read is a problem already


def _from_words(
    raters: Ids, words: list[Any], names: Mapping[Any, str], problems: Problems
) -> npt.NDArray[Any] | None:
    known = {**{role: role for role in ROLES}, **names}
    without = [name for name, word in zip(raters.names, words, strict=True) if is_null(word)]
    if without:
        problems.add(f"`role` says nothing about {listing(without)}; every rater needs a role.")
    foreign: dict[Hashable, Any] = {}
    for name, word in zip(raters.names, words, strict=True):
        if not is_null(word) and not (isinstance(word, Hashable) and word in known):
            foreign.setdefault(repr(word), name)
    if foreign:
        first = next(iter(foreign))
        shown = [f"{word} (rater {name!r})" for word, name in foreign.items()]
        problems.add(
            f"`role` says {listing(shown, show='str')}, which is neither 'human' nor 'judge'; translate it, "
            f"e.g. `role_names={{{first}: 'judge'}}`."
        )
    if without or foreign:
        return None
    return text_array(known[word] for word in words)


def resolve_identity(
    raters: Ids | None, identity: Any, column: Encoded | None, problems: Problems
) -> npt.NDArray[Any] | None:
    """How each rater is known: one word for all, a mapping, or a column."""
    if raters is None:
        return None
    if column is not None:
        words = _words(raters, None, column, problems)
    elif isinstance(identity, Mapping):
        words = [identity.get(name) for name in raters.names]
    else:
        words = [identity] * len(raters)
    if words is None:
        return None
    wrong = [word for word in words if word not in IDENTITIES]
    if wrong:
        problems.add(
            f"`identity` is one of {listing(IDENTITIES, most=4)} for every rater; got {listing(wrong)}."
        )
        return None
    return text_array(words)

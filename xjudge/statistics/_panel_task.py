"""One selection to be made: judges renumbered, the pool measured, constraints checked, S0 found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError, StructureError
from xjudge.statistics._panel_inputs import Flags
from xjudge.statistics._panel_pool import Constraints, Pool, baseline_panel, constraints_of, prepare_pool
from xjudge.statistics._panel_rules import TIE, Rule
from xjudge.statistics._panel_score import Integers

__all__ = ["Options", "Task", "larger_size", "member_flags", "prepare_task"]


class Task(NamedTuple):
    """A selection with judges renumbered: fixed members first, then the others by name."""

    pool: Pool
    k: int
    constraints: Constraints
    position: Integers
    source: Integers
    baseline: Integers
    rules: list[Rule]
    n_judges: int


class Options(NamedTuple):
    """What a caller asks of a selection beside size and rules; see :func:`select_panel`."""

    names: Sequence[object] | npt.ArrayLike | None = None
    must_include: Sequence[int] = ()
    exclude: Sequence[int] = ()
    families: npt.ArrayLike | None = None
    family_cap: int | None = None
    costs: npt.ArrayLike | None = None
    budget: float | None = None


def prepare_task(
    judges: npt.ArrayLike, h: npt.ArrayLike, gold: npt.ArrayLike, k: int, rules: list[Rule], options: Options
) -> Task:
    """Renumber the judges, measure the pool, and find S0."""
    codes = np.asarray(judges)
    if codes.ndim != 2:
        raise StructureError(f"A pool has shape (item, judge); got {codes.shape}.")
    n_judges = codes.shape[1]
    order = np.arange(n_judges)
    if options.names is not None:
        order = np.argsort(np.asarray(options.names), kind="stable")
    if len(order) != n_judges:
        raise StructureError(f"{len(order)} names for {n_judges} judges.")
    must = _positions("must_include", options.must_include, n_judges)
    out = _positions("exclude", options.exclude, n_judges)
    if must & out:
        raise ProtocolError(f"Judges {sorted(must & out)} are both in must_include and in exclude.")
    by_name = [int(judge) for judge in order if judge not in out]
    source = np.array(
        [j for j in by_name if j in must] + [j for j in by_name if j not in must], dtype=np.int64
    )
    if not 1 <= k <= len(source):
        raise ProtocolError(f"k={k}: a panel takes from 1 to {len(source)} judges of the pool.")
    position = np.array([by_name.index(int(judge)) for judge in source], dtype=np.int64)
    price = _of_source("costs", options.costs, n_judges, source)
    group = _of_source("families", options.families, n_judges, source)
    constraints = constraints_of(
        len(source), k, range(len(must)), group, options.family_cap, price, options.budget
    )
    pool = prepare_pool(codes[:, source], h, gold, price)
    return Task(pool, k, constraints, position, source, baseline_panel(pool, k, constraints), rules, n_judges)


def _of_source(
    name: str, values: npt.ArrayLike | None, n_judges: int, source: Integers
) -> npt.NDArray[np.generic] | None:
    """Return a value of each judge in the order of the pool."""
    if values is None:
        return None
    array = np.asarray(values)
    if array.shape != (n_judges,):
        raise StructureError(f"{name} has shape {array.shape}; there are {n_judges} judges.")
    return array[source]


def _positions(name: str, judges: Sequence[int], n_judges: int) -> set[int]:
    """Return positions as a set, checked."""
    positions = {int(judge) for judge in judges}
    wrong = sorted(judge for judge in positions if not 0 <= judge < n_judges)
    if wrong:
        raise ProtocolError(f"{name}: {wrong} are not positions in a pool of {n_judges} judges.")
    return positions


def larger_size(ratio: npt.NDArray[np.float64], baseline: float) -> Flags:
    """Whether a size is above the baseline's by more than rounding; False where undefined."""
    return np.asarray(ratio > baseline * (1 + TIE))


def member_flags(members: Integers, source: Integers, n_judges: int) -> Flags:
    """Members (p, k) of the renumbered pool as flags (p, N) in the caller's order."""
    flags = np.zeros((len(members), n_judges), dtype=bool)
    np.put_along_axis(flags, source[members], True, axis=1)
    return flags

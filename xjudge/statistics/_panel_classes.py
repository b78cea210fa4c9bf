"""Panel sums from tables of judges, counted class by class of what the humans said.

With K identified humans and L categories an item has one of ``C(K + L, L)`` vectors of human label counts,
and its distribution, its number of humans and its vote follow from it. Whatever :class:`PanelSums` has is
then a sum over classes of integer joint counts of the judges times values of the class: exact counts first,
arithmetic once, so that the sums do not depend on the order or the chunks of the items.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.codes import N_OUTCOMES
from xjudge.statistics._class_tables import Classes, ClassTables, class_tables
from xjudge.statistics.panel import PanelSums, contrasts, gold_mode, human_distribution, panel_sums

Codes = npt.NDArray[np.signedinteger]
Floats = npt.NDArray[np.float64]

__all__ = ["MOST_CELLS", "ClassTables", "Said", "add_tables", "class_sums", "count_classes", "n_cells"]

MOST_CELLS = 1 << 20
"""Numbers in the tables of all classes up to which items are counted by class."""

_MOST_NUMBERS = 1 << 16
_MOST_CATEGORIES = 100
_ITEMS_A_CLASS = 64
"""Items for each class from which counting by class pays."""


class Said(NamedTuple):
    """What decides the class of an item.

    Attributes
    ----------
    n_humans : int
    targets : tuple of int
        Per place of the raw axis the category of the protocol, or a negative code.
    n_categories : int
        Categories of the protocol.
    gold : {"first", "drop", "column"}
        Gold labels are the humans' vote, with what becomes of its ties, or those of one more column.
    masked : int
        Raw code of whatever is outside the population.
    """

    n_humans: int
    targets: tuple[int, ...]
    n_categories: int
    gold: str
    masked: int


class _Plan(NamedTuple):
    """Classes, and what an item of each has: distribution, number of humans, gold label, tied vote."""

    classes: Classes
    h: Floats
    n_humans: Floats
    gold: Codes
    tied: npt.NDArray[np.int64]


def n_cells(said: Said, n_judges: int, n_items: int) -> int | None:
    """Numbers in the tables; ``None`` where classes are too many to tell apart, or for so few items."""
    K, L = said.n_humans, said.n_categories
    golds = L + 1 if said.gold == "column" else 1
    n_classes = math.comb(K + L, L) * golds
    if not K or len(said.targets) > _MOST_CATEGORIES or (K + 1) ** L * golds > _MOST_NUMBERS:
        return None
    if n_items < _ITEMS_A_CLASS * n_classes:
        return None
    return n_classes * n_judges**2 * len(_kept(said)) ** 2


def count_classes(said: Said, humans: Codes, judges: Codes, *, complete: bool) -> ClassTables:
    """Tables of raw codes of judges (item, k), by class of the raw codes (item, K) of humans.

    Under ``gold="column"`` the last column of ``humans`` has the gold labels.
    """
    classes, kept = _plan(said).classes, _kept(said)
    return class_tables(humans, judges, classes, kept, pairs=True, complete=complete)[0]


def add_tables(parts: Sequence[ClassTables]) -> ClassTables:
    """Tables of the union of disjoint items."""
    return ClassTables(*(sum(fields[1:], start=fields[0]) for fields in zip(*parts, strict=True)))


def class_sums(said: Said, tables: ClassTables, *, pairwise: bool) -> tuple[PanelSums, int]:
    """The sums of :func:`xjudge.statistics.panel.panel_sums`, and the used items whose vote is tied."""
    plan = _plan(said)
    h, used = plan.h, tables.used.astype(np.float64)
    joint, margins = (_of_categories(said, a) for a in (_each_other(tables), tables.margins))
    channels, same = contrasts(said.n_categories), np.eye(said.n_categories)
    residual = channels - (h @ channels)[:, None]  # (class, label, contrast)
    s2 = (h**2).sum(-1)
    inner = same - h[:, :, None] - h[:, None, :] + s2[:, None, None]
    scored = (plan.gold >= 0).astype(np.float64)
    errors = (np.arange(said.n_categories) != plan.gold[:, None]) * scored[:, None]
    if pairwise:
        label = joint.sum(-1)  # of judge a, where judge b has one too
        pairs = label.sum(-1)
        reach = np.einsum("cabx,cxt->tab", label, residual)
        error_reach = np.einsum("cabx,cx->ab", label, errors)
    else:
        pairs = used[:, None, None]
        reach = np.einsum("cax,cxt->ta", margins, residual)[..., None]
        error_reach = np.einsum("cax,cx->a", margins, errors)[..., None]
    answer = np.zeros((len(h), 1, 1), dtype=np.int8)  # by anybody: what is said of the humans is wanted
    terms = panel_sums(answer, h[:, None], n_humans=plan.n_humans[:, None]).human
    sums = PanelSums(
        n_items=used.sum(),
        n_dropped=tables.seen.sum() - used.sum(),
        joint=pairs.sum(0),
        gram=np.einsum("cabxy,cxy->ab", joint, inner),
        cross=np.stack([_quadratic(joint, one) for one in np.moveaxis(residual, -1, 0)])
        if channels.size
        else np.zeros((0, *joint.shape[1:3])),
        reach=reach,
        human=used @ terms,
        error_joint=np.einsum("c,cab->ab", scored, pairs),
        error_cross=_quadratic(joint, errors),
        error_reach=error_reach,
    )
    return sums, int(tables.used @ plan.tied)


def _quadratic(joint: Floats, values: Floats) -> Floats:
    """Sums of products of the values (class, label) of two judges' labels."""
    return np.asarray(np.einsum("cabxy,cxy->ab", joint, values[:, :, None] * values[:, None, :]))


def _each_other(tables: ClassTables) -> npt.NDArray[np.int64]:
    """Joint counts of every judge with every judge."""
    upper, own = tables.joint, np.arange(tables.joint.shape[1])
    joint = upper + upper.transpose(0, 2, 1, 4, 3)
    places = np.arange(upper.shape[-1])
    joint[:, own[:, None], own[:, None], places, places] = tables.margins
    return joint


def _kept(said: Said) -> tuple[int, ...]:
    """Raw codes that are a category of the protocol."""
    return tuple(code for code, target in _axis(said) if target >= 0)


def _axis(said: Said) -> list[tuple[int, int]]:
    """Raw codes and what they are under the protocol."""
    n = len(said.targets) - N_OUTCOMES
    codes = (*range(n), *(-1 - outcome for outcome in range(N_OUTCOMES)))
    return list(zip(codes, said.targets, strict=True))


def _of_categories(said: Said, counts: npt.NDArray[np.int64]) -> Floats:
    """Counts over raw codes, on the last axes, as counts over categories."""
    matrix = np.zeros((len(_kept(said)), said.n_categories))
    for row, code in enumerate(_kept(said)):
        matrix[row, dict(_axis(said))[code]] = 1.0
    found = counts.astype(np.float64) @ matrix
    return np.asarray(matrix.T @ found if counts.ndim == 5 else found)


@lru_cache(maxsize=64)
def _plan(said: Said) -> _Plan:
    """Classes of items: every vector of counts of humans, with every gold label; the last has no human."""
    K, L = said.n_humans, said.n_categories
    own_gold = said.gold == "column"
    base = (K + 1) ** L
    vectors = np.array([v for v in _vectors(L, K) if sum(v)], dtype=np.int64).reshape(-1, L)
    golds = np.arange(-1, L) if own_gold else np.array([-1])
    counts = np.repeat(vectors, len(golds), axis=0)
    digits = np.tile(np.arange(len(golds)), len(vectors))
    n_numbers = base * len(golds)
    classes = np.full(2 * n_numbers, -1, dtype=np.int32)
    n_tables = len(counts)
    classes[:n_numbers] = n_tables  # no human answered
    classes[counts @ (K + 1) ** np.arange(L) + base * digits] = np.arange(n_tables)
    weights = np.zeros((K + own_gold, 256), dtype=np.int32)
    for code, target in _axis(said):
        if target >= 0:
            weights[:K, code % 256] = (K + 1) ** target
            weights[K:, code % 256] = base * (target + 1)
    weights[:, said.masked % 256] = 0
    weights[0, said.masked % 256] = n_numbers
    h, n_humans = human_distribution(counts)
    gold, tied = golds[digits], np.zeros(n_tables, dtype=np.int64)
    if not own_gold:
        gold = gold_mode(counts, ties=said.gold)[0]
        tied = (counts == counts.max(1, initial=0)[:, None]).sum(1) > 1
    return _Plan(Classes(weights, classes, n_tables, n_tables + 1), h, n_humans, gold, tied.astype(np.int64))


def _vectors(n_categories: int, most: int) -> Iterator[tuple[int, ...]]:
    """All vectors of counts with at most so many in all."""
    if not n_categories:
        yield ()
        return
    for first in range(most + 1):
        for rest in _vectors(n_categories - 1, most - first):
            yield first, *rest

"""Statistics of two judges on the same cases, and of their difference: of tables, and of numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from xjudge.labelled._estimate import OfTable, Unseen, coefficient
from xjudge.labelled._evaluation import Tables
from xjudge.scale import Scale
from xjudge.statistics.raters import disagreeing_pair
from xjudge.statistics.resample import benjamini_yekutieli, holm, mcnemar_exact

__all__ = ["discordant", "statistics_of_two"]

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int8]
Table = npt.NDArray[Any]


def statistics_of_two(names: Sequence[str], matrix: Floats | None, scale: Scale) -> dict[str, OfTable]:
    """The two judges' statistics and their difference, of tables (..., L, L L).

    Parameters
    ----------
    names : sequence of str
    matrix : ndarray, optional
        Agreement weights.
    scale : Scale
        Of the protocol; its categories number the rows and, in pairs, the columns of the tables.
    """
    out: dict[str, OfTable] = {}
    n = scale.n_categories
    for name in names:
        own = coefficient(name, matrix, scale.scores)
        first, second = _of_one(own, n, -1), _of_one(own, n, -2)
        difference = _of_both(own, n, first, second)
        out |= {f"{name}_a": first, f"{name}_b": second, f"{name}_difference": difference}
    return out


def _of_one(own: OfTable, n: int, axis: int) -> OfTable:
    """The statistic of the judge that stays where an axis of (..., L, L, L) is summed."""

    def alone(table: npt.ArrayLike) -> Table:
        return np.asarray(_apart(table, n).sum(axis))

    def spread(table: npt.ArrayLike, cells: Floats) -> Floats:
        whole = np.broadcast_to(np.expand_dims(cells, axis), _apart(table, n).shape)
        return whole.reshape(np.shape(table))

    def unseen(table: Table) -> Unseen:
        assert own.unseen is not None
        found = own.unseen(alone(table))
        return Unseen(found.holds, lambda: tuple(spread(table, unit) / n for unit in found.units()))

    return OfTable(
        lambda table: own.value(alone(table)),
        lambda table: spread(table, own.slope(alone(table))),
        own.name,
        None if own.unseen is None else unseen,
        lambda table: [alone(table)],
    )


def _of_both(own: OfTable, n: int, first: OfTable, second: OfTable) -> OfTable:
    """The difference of two judges' statistics."""

    def value(table: npt.ArrayLike) -> tuple[Floats, Codes]:
        (x, x_reason), (y, y_reason) = first.value(table), second.value(table)
        return x - y, np.where(x_reason != 0, x_reason, y_reason)

    def unseen(table: Table) -> Unseen:
        """Where the judges never differ, a unit more is one on which one of them alone is wrong."""
        cells = _apart(table, n)
        holds = cells.sum((-3, -2, -1)) == np.einsum("...rxx->...", cells)

        def units() -> tuple[Floats, ...]:
            wrong, right = disagreeing_pair(cells.sum(-1)), np.eye(n)
            a_wrong, b_wrong = (
                wrong[..., :, None] * right[:, None, :],
                wrong[..., None, :] * right[:, :, None],
            )
            return a_wrong.reshape(np.shape(table)), b_wrong.reshape(np.shape(table))

        return Unseen(holds, units)

    return OfTable(
        value,
        lambda table: first.slope(table) - second.slope(table),
        own.name,
        None if own.unseen is None else unseen,
        lambda table: [*first.sides(table), *second.sides(table)],
    )


def _apart(table: npt.ArrayLike, n: int) -> Table:
    """Tables (..., L, L, L): reference, first judge, second judge."""
    counts = np.asarray(table)
    return counts.reshape((*counts.shape[:-1], n, n))


def discordant(tables: Tables, *, many: bool) -> dict[str, Any]:
    """Pairs where one judge alone agrees with the reference, and the exact McNemar test."""
    cells = _apart(tables.table, tables.plan.scale.n_categories)
    right = np.eye(cells.shape[-1], dtype=bool)
    hit_a, hit_b = right[:, :, None], right[:, None, :]

    def counted(cell: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        return tables.over_criteria((cells * cell).sum((-3, -2, -1)))

    only_a, only_b = counted(hit_a & ~hit_b), counted(~hit_a & hit_b)
    p = tables.on_dims(np.where(tables.n > 0, mcnemar_exact(only_a, only_b), np.nan))
    out = {"n_only_a": tables.on_dims(only_a), "n_only_b": tables.on_dims(only_b), "mcnemar_p": p}
    if many:
        adjusted: dict[str, Callable[[npt.ArrayLike], Floats]] = {"holm": holm, "by": benjamini_yekutieli}
        out |= {f"mcnemar_p_{word}": of(p.ravel()).reshape(p.shape) for word, of in adjusted.items()}
    return out

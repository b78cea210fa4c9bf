"""Coefficients of two raters written down from their definitions, in fractions and plain loops.

A table is a list of lists of integers (or fractions), rows reference, columns rater, negative first. Every
function returns a fraction (or the pair ``(sign, square)`` where the value is a root) or ``None`` where a
denominator is zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product

Table = Sequence[Sequence[int | Fraction]]
Weights = Callable[[int, int], Fraction]


def identity(a: int, b: int) -> Fraction:
    return Fraction(a == b)


def linear(L: int) -> Weights:
    return lambda a, b: 1 - Fraction(abs(a - b), L - 1)


def quadratic(L: int) -> Weights:
    return lambda a, b: 1 - Fraction((a - b) ** 2, (L - 1) ** 2)


def ordinal(L: int) -> Weights:
    return lambda a, b: 1 - Fraction(math.comb(abs(a - b) + 1, 2), math.comb(L, 2))


def own(matrix: Sequence[Sequence[int | Fraction | float]]) -> Weights:
    return lambda a, b: Fraction(matrix[a][b])


def shares(table: Table) -> list[list[Fraction]] | None:
    """Cell probabilities, or None for an empty table."""
    total = sum(Fraction(count) for row in table for count in row)
    return None if total == 0 else [[Fraction(count) / total for count in row] for row in table]


def margins(p: list[list[Fraction]]) -> tuple[list[Fraction], list[Fraction]]:
    """Reference and rater shares of each category."""
    return [sum(row) for row in p], [sum(column) for column in zip(*p, strict=True)]


def observed(p: list[list[Fraction]], w: Weights) -> Fraction:
    return sum((w(a, b) * p[a][b] for a, b in product(range(len(p)), repeat=2)), Fraction(0))


def corrected(p_o: Fraction, p_e: Fraction) -> Fraction | None:
    return None if p_e == 1 else (p_o - p_e) / (1 - p_e)


def accuracy(table: Table) -> Fraction | None:
    p = shares(table)
    return None if p is None else sum((p[a][a] for a in range(len(p))), Fraction(0))


def kappa(table: Table, w: Weights = identity) -> Fraction | None:
    p = shares(table)
    if p is None:
        return None
    row, column = margins(p)
    chance = sum(w(a, b) * row[a] * column[b] for a, b in product(range(len(p)), repeat=2))
    return corrected(observed(p, w), Fraction(chance))


def scott_pi(table: Table, w: Weights = identity) -> Fraction | None:
    p = shares(table)
    if p is None:
        return None
    pooled = [(r + c) / 2 for r, c in zip(*margins(p), strict=True)]
    chance = sum(w(a, b) * pooled[a] * pooled[b] for a, b in product(range(len(p)), repeat=2))
    return corrected(observed(p, w), Fraction(chance))


def gwet_ac1(table: Table, w: Weights = identity) -> Fraction | None:
    p = shares(table)
    L = len(table)
    if p is None or L == 1:
        return None
    pooled = [(r + c) / 2 for r, c in zip(*margins(p), strict=True)]
    heavy = sum(w(a, b) for a, b in product(range(L), repeat=2))
    chance = heavy / (L * (L - 1)) * sum(share * (1 - share) for share in pooled)
    return corrected(observed(p, w), Fraction(chance))


def brennan_prediger(table: Table, w: Weights = identity) -> Fraction | None:
    p = shares(table)
    L = len(table)
    if p is None:
        return None
    heavy = sum(w(a, b) for a, b in product(range(L), repeat=2))
    return corrected(observed(p, w), Fraction(heavy) / L**2)


def mcc(table: Table) -> tuple[int, Fraction] | None:
    """Sign and square of the correlation of the one-hot columns of the two raters."""
    p = shares(table)
    if p is None:
        return None
    row, column = margins(p)
    categories = range(len(p))
    cross = sum(p[a][a] - row[a] * column[a] for a in categories)
    spread = sum(r * (1 - r) for r in row) * sum(c * (1 - c) for c in column)
    return None if spread == 0 else ((cross > 0) - (cross < 0), Fraction(cross) ** 2 / spread)


def ratio(numerator: int | Fraction, denominator: int | Fraction) -> Fraction | None:
    return None if denominator == 0 else Fraction(numerator) / Fraction(denominator)


def f1(table: Table) -> Fraction | None:
    (_, fp), (fn, tp) = table
    return ratio(2 * tp, 2 * tp + fp + fn)


def precision(table: Table) -> Fraction | None:
    (_, fp), (_, tp) = table
    return ratio(tp, tp + fp)


def recall(table: Table) -> Fraction | None:
    _, (fn, tp) = table
    return ratio(tp, tp + fn)


def specificity(table: Table) -> Fraction | None:
    (tn, fp), _ = table
    return ratio(tn, tn + fp)


def class_recall_gap(table: Table) -> Fraction | None:
    found, left = recall(table), specificity(table)
    return None if found is None or left is None else found - left


def balanced_accuracy(table: Table) -> Fraction | None:
    """Mean recall; with more than two categories over those that somebody uses."""
    L = len(table)
    found = []
    for a in range(L):
        row, column = sum(table[a]), sum(table[b][a] for b in range(L))
        if row == 0 and (column > 0 or L == 2):
            return None
        if row > 0:
            found.append(Fraction(table[a][a]) / row)
    return sum(found, Fraction(0)) / len(found) if found else None


def marginal_mismatch(table: Table) -> tuple[int, Fraction] | None:
    """Sign and square of ``q = 2 sqrt(A B) / (A + B)``."""
    (tn, fp), (fn, tp) = table
    A, B = (tp + fn) * (fn + tn), (tp + fp) * (fp + tn)
    return None if A + B == 0 else (int(A * B > 0), Fraction(4 * A * B) / (A + B) ** 2)


def as_float(value: Fraction | tuple[int, Fraction] | None) -> float:
    """Value as a float, NaN where it is undefined."""
    if value is None:
        return math.nan
    if isinstance(value, tuple):
        sign, square = value
        return sign * math.sqrt(square)
    return float(value)


ANY_SIZE = {
    "accuracy": accuracy,
    "kappa": kappa,
    "mcc": mcc,
    "balanced_accuracy": balanced_accuracy,
    "scott_pi": scott_pi,
    "gwet_ac1": gwet_ac1,
    "brennan_prediger": brennan_prediger,
}
WEIGHTED = {name: ANY_SIZE[name] for name in ("kappa", "scott_pi", "gwet_ac1", "brennan_prediger")}
TWO_BY_TWO = ANY_SIZE | {
    "phi": mcc,
    "f1": f1,
    "precision": precision,
    "recall": recall,
    "specificity": specificity,
    "class_recall_gap": class_recall_gap,
    "marginal_mismatch": marginal_mismatch,
}

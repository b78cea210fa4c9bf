"""Selection rules: which of many panels is best, with the documented order of ties, and Pareto fronts.

Accuracies are integers and compare exactly. Sizes and errors are sums of floats whose last digits depend on
the order of summation: values within 1e-12 of each other (relative for sizes, in units of the pool's mean
energy for errors) are a tie, so that the choice does not depend on it.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from xjudge.errors import ProtocolError, StructureError
from xjudge.statistics._panel_inputs import Flags, Floats
from xjudge.statistics._panel_pool import PanelQuantities
from xjudge.statistics._panel_score import Integers

__all__ = ["TIE", "Best", "Front", "Rule", "checked_rules", "rule_name"]

Rule = str | Callable[[PanelQuantities], object]

TIE = 1e-12
"""Relative difference of two sizes below which they are equal."""

MANY_LEVELS = 1_000_000
"""Scores are sorted where they span more than this, and index a table where they do not."""


def checked_rules(rule: object) -> list[Rule]:
    """Return the rules as a list; each one of "A", "D", "E" or a callable."""
    rules: list[Rule] = []
    for one in rule if isinstance(rule, (list, tuple)) else [rule]:
        if callable(one) or (isinstance(one, str) and one in ("A", "D", "E")):
            rules.append(one)
        else:
            raise ProtocolError(
                f"rule={one!r}: a rule is 'A', 'D', 'E' or a function of the panel quantities."
            )
    if not rules:
        raise ProtocolError("rule is empty: name at least one of 'A', 'D', 'E' or give a function.")
    return rules


def rule_name(rule: Rule, place: int) -> str:
    """Label of a rule in results: its letter, the function's name, or ``rule_<place>``."""
    if isinstance(rule, str):
        return rule
    name = getattr(rule, "__name__", "")
    return name if name.isidentifier() else f"rule_{place}"


class _Keys(NamedTuple):
    """What a rule compares: feasibility, an exact integer key first, then a float key; both maximised."""

    feasible: Flags
    exact: Integers
    value: Floats
    scale: float


def _keys(rule: Rule, quantities: PanelQuantities, baseline_score: int, energy: float) -> _Keys:
    """Keys of panels under a rule."""
    score = quantities.score
    better = score > baseline_score
    none = np.zeros(len(score), dtype=np.int64)
    # nu_H rises with PR and may be undefined where PR * delta >= 1; PR orders panels in either case.
    ratio = quantities.participation_ratio
    if rule == "A":
        return _Keys(better & ~np.isnan(ratio), none, ratio, 0.0)
    if rule == "D":
        return _Keys(np.ones(len(score), dtype=bool), score, np.where(np.isnan(ratio), -np.inf, ratio), 0.0)
    if rule == "E":
        return _Keys(better, none, -quantities.distributional_error, energy)
    assert callable(rule)
    given = np.asarray(rule(quantities))
    if given.dtype.kind not in "biuf":
        raise StructureError(f"The objective returned {reprlib.repr(given)}; give one number a panel.")
    value = given.astype(np.float64)
    if value.shape != score.shape:
        raise StructureError(
            f"The objective returned shape {value.shape} for {len(score)} panels; give one number each."
        )
    return _Keys(~np.isnan(value), none, value, 0.0)


class Best:
    """The best panels under a rule as panels go by; ties are kept until the end.

    Parameters
    ----------
    rule : "A", "D", "E" or callable
        Highest nu_H of the panels more accurate than the baseline; highest accuracy, then nu_H; least error
        of the panels more accurate than the baseline; highest value (NaN: not allowed).
    baseline_score : int
    energy : float
        Mean member energy of the pool, the unit of ties between errors.
    """

    def __init__(self, rule: Rule, baseline_score: int, energy: float) -> None:
        self.rule, self.baseline_score, self.energy = rule, baseline_score, energy
        self._identity: list[Integers] = []
        self._exact: list[Integers] = []
        self._value: list[Floats] = []

    def see(self, quantities: PanelQuantities, identity: Integers) -> None:
        """Panels with an integer each by which the caller knows them."""
        keys = _keys(self.rule, quantities, self.baseline_score, self.energy)
        place = np.flatnonzero(keys.feasible)
        if len(place):
            place = place[_top(keys.exact[place], keys.value[place], keys.scale)]
            self._identity.append(identity[place])
            self._exact.append(keys.exact[place])
            self._value.append(keys.value[place])
            self._scale = keys.scale

    def tied(self) -> Integers:
        """Identities of the best panels in the order seen; empty if none was feasible."""
        if not self._identity:
            return np.zeros(0, dtype=np.int64)
        exact, value = np.concatenate(self._exact), np.concatenate(self._value)
        return np.concatenate(self._identity)[_top(exact, value, self._scale)]


def _top(exact: Integers, value: Floats, scale: float) -> Integers:
    """Places of the largest exact key and, among those, of the largest value up to ties."""
    place = np.flatnonzero(exact == exact.max())
    best = value[place].max()
    if np.isinf(best):
        return place[value[place] == best]
    return place[value[place] >= best - TIE * max(abs(best), scale)]


class Front:
    """Panels that no other panel beats in accuracy and size at once, as panels go by."""

    def __init__(self) -> None:
        self._score: Integers = np.zeros(0, dtype=np.int64)
        self._ratio: Floats = np.zeros(0)
        self._identity: Integers = np.zeros(0, dtype=np.int64)

    def see(self, quantities: PanelQuantities, identity: Integers) -> None:
        """Panels with an integer each by which the caller knows them."""
        defined = np.flatnonzero(~np.isnan(quantities.participation_ratio))
        keep = defined[self._front(quantities.score[defined], quantities.participation_ratio[defined])]
        score = np.concatenate([self._score, quantities.score[keep]])
        ratio = np.concatenate([self._ratio, quantities.participation_ratio[keep]])
        known = np.concatenate([self._identity, identity[keep]])
        keep = self._front(score, ratio)
        self._score, self._ratio, self._identity = score[keep], ratio[keep], known[keep]

    def members(self) -> Integers:
        """Identities on the front, the most accurate first, then in the order seen."""
        return self._identity[np.argsort(-self._score, kind="stable")]

    @staticmethod
    def _front(score: Integers, ratio: Floats) -> Integers:
        """Places on the front, in order."""
        if not len(score):
            return np.zeros(0, dtype=np.int64)
        level = score - score.min()
        if level.max() > MANY_LEVELS:
            level = np.unique(score, return_inverse=True)[1].reshape(-1)
        best = np.full(int(level.max()) + 1, -np.inf)
        np.maximum.at(best, level, ratio)
        # The largest size at any higher accuracy; a panel must exceed it by more than rounding.
        higher = np.append(np.maximum.accumulate(best[::-1])[::-1][1:], -np.inf)
        return np.flatnonzero((ratio >= best[level] * (1 - TIE)) & (ratio > higher[level] * (1 + TIE)))

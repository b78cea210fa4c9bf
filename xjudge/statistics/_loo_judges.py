"""The two judges that a plan is made for: one above the bar and one below (LOO.md sections 3 to 5)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError
from xjudge.statistics._loo_counts import units_of
from xjudge.statistics._loo_model import NoiseModel, Patterns, noise_patterns
from xjudge.statistics._loo_population import (
    judge_accuracy_at,
    pilot_population,
    population_margin,
    population_of,
)
from xjudge.statistics._loo_rules import PlannedJudge
from xjudge.statistics._loo_votes import Decimal

__all__ = ["joint_judges", "noise_judges", "pilot_judges"]

Codes = npt.NDArray[np.signedinteger]


def noise_judges(
    model: NoiseModel, design: str, eps: Decimal, at_margin: float, rule: str
) -> tuple[PlannedJudge, PlannedJudge]:
    """Two judges of the accuracy that has the margins wanted on average; exactly, in every comparison."""
    sides = []
    for margin in (at_margin, -at_margin):
        accuracy = judge_accuracy_at(margin, model.human_accuracy, model.prevalence, eps)
        own = model._replace(judge_accuracy=accuracy)
        population = population_of(own, design)
        simulated: Patterns | NoiseModel = noise_patterns(*own) if rule == "alt_test" else own
        sides.append(PlannedJudge(population, simulated, margin - population_margin(population, eps), None))
    return sides[0], sides[1]


def joint_judges(
    patterns: Patterns, design: str, eps: Decimal, at_margin: float
) -> tuple[PlannedJudge, PlannedJudge]:
    """The judge of a joint distribution, moved to the margins wanted."""
    population = population_of(patterns, design)
    dense = population_margin(population, eps)
    good, bad = (
        PlannedJudge(population, patterns, margin - dense, margin) for margin in (at_margin, -at_margin)
    )
    return good, bad


def pilot_judges(
    humans: npt.ArrayLike | None, judge: npt.ArrayLike | None, design: str, eps: Decimal, at_margin: float
) -> tuple[PlannedJudge, PlannedJudge]:
    """The judge of a pilot, moved to the margins wanted.

    Raises
    ------
    ProtocolError
        Half a pilot, or one that does not say how humans agree.
    """
    if humans is None or judge is None:
        raise ProtocolError("A pilot needs both `humans` and `judge`.")
    units, verdicts = units_of(humans, judge)
    population = pilot_population(units, verdicts[..., 0], design=design)
    patterns = None
    if units.shape[1] == 1:
        complete = np.concatenate([units[:, 0], verdicts[:, 0]], axis=1)
        complete = complete[(complete >= 0).all(axis=1)].astype(np.int64)
        if len(complete):
            codes, counts = np.unique(complete, axis=0, return_counts=True)
            patterns = Patterns(codes, counts / len(complete))
    dense = population_margin(population, eps)
    per_item = _labels_per_item(units, verdicts)
    good, bad = (
        PlannedJudge(population, patterns, margin - dense, margin, per_item)
        for margin in (at_margin, -at_margin)
    )
    return good, bad


def _labels_per_item(units: Codes, verdicts: Codes) -> float:
    """Criteria per item on which a pair of humans meets, where it meets at all."""
    both = (units >= 0) & (verdicts >= 0)
    met = both.sum(axis=2) >= 2
    return float(met.sum() / max(int(met.any(axis=1).sum()), 1))

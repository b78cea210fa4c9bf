"""How many items each further human has to label (LOO.md sections 4 to 6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError, listing
from xjudge.statistics._loo_counts import codes_of
from xjudge.statistics._loo_design import check_design, expected_pairs
from xjudge.statistics._loo_judges import joint_judges, noise_judges, pilot_judges
from xjudge.statistics._loo_model import joint_patterns, noise_model
from xjudge.statistics._loo_rules import RULES, PlannedJudge, Rule, acceptance, refusal, rule_margins
from xjudge.statistics._loo_trials import simulate_trials
from xjudge.statistics._loo_votes import Decimal, Float, read_decimal, votes_needed
from xjudge.statistics._loo_wrong import Method, gaussian_trusted, lattice_shift

__all__ = ["OverlapPlan", "plan_overlap"]

# Pairs of the thinnest comparison that do for a sketch.
_SKETCH_PAIRS = 10

# The search for a number of items starts here, and looks at so many points first.
_FEWEST = 4
_N_POINTS = 24

# Relative width at which the search for the continuous answer stops.
_NARROW = 0.003

# Quasi-Monte Carlo points, as powers of two: for differences, along the curve, and for the answer.
_MOVE, _CURVE, _ANSWER = 8, 11, 13

# What the lattice of the margins may move a probability by where the plan calls it trusted.
_TRUSTED_MOVE = 0.015

_TIE = 1e-9


class OverlapPlan(NamedTuple):
    """How many items each further human has to label.

    Attributes
    ----------
    m_fr, m_fa : float
        Smallest number of items from which on the error stays within its target: the good judge not
        accepted, the bad one not refused. The grid's answer where a grid was given, else the next whole
        number; inf where all items are not enough.
    m : float
        The larger of the two: the recommendation.
    m_fr_continuous, m_fa_continuous : float
        Before rounding; 4 where that is enough already.
    grid : ndarray of int64, shape (G,)
    fr, fa : ndarray of float, shape (G,)
        The two errors along the grid.
    p_accept : ndarray of float, shape (2, G)
        Probability of acceptance for the judge at ``+at_margin`` and at ``-at_margin``.
    smallest_overlap : ndarray of float, shape (G,)
        Expected pairs of the thinnest comparison.
    method : ndarray of str, shape (G,)
        ``"gaussian"`` or ``"monte_carlo"``: what was used.
    trusted : ndarray of bool, shape (G,)
        Whether the Gaussian is within 1.5 points there.
    needed : int
        Wins that accept.
    n_labels : float
        Labels by the further humans at ``m``, the cost; inf where ``m`` is.
    verdicts : ndarray of float, shape (2, 3)
        At ``m``, for the judge above and the one below the bar: probability of the verdicts accept, reject
        and inconclusive (partial conjunction at ``level``); NaN where ``m`` is inf.
    """

    m_fr: float
    m_fa: float
    m: float
    m_fr_continuous: float
    m_fa_continuous: float
    grid: npt.NDArray[np.int64]
    fr: Float
    fa: Float
    p_accept: Float
    smallest_overlap: Float
    method: npt.NDArray[np.str_]
    trusted: npt.NDArray[np.bool_]
    needed: int
    n_labels: float
    verdicts: Float


def plan_overlap(
    *,
    humans: npt.ArrayLike | None = None,
    judge: npt.ArrayLike | None = None,
    n_humans: int | None = None,
    human_accuracy: npt.ArrayLike | None = None,
    n_categories: int = 2,
    prevalence: npt.ArrayLike | None = None,
    joint: npt.ArrayLike | None = None,
    n_items: int = 2000,
    design: str = "random",
    eps: Decimal = 0.05,
    at_margin: float = 0.05,
    target_fr: float = 0.05,
    target_fa: float = 0.05,
    threshold: Decimal = 0.5,
    strict: bool = False,
    rule: Rule = "omega",
    level: float = 0.95,
    q: float = 0.05,
    grid: npt.ArrayLike | None = None,
    method: Method = "gaussian",
    n_trials: int = 2000,
    seed: int = 0,
) -> OverlapPlan:
    """How many items each further human must label for both errors to stay within their targets.

    Parameters
    ----------
    humans, judge : array-like of int, optional
        A pilot: labels (n, K), negative = not answered, and verdicts (n,); with criteria (n, C, K) and
        (n, C), pooled, the item being what is counted. Or ``joint``, or parameters:
    n_humans : int, optional
    human_accuracy : float or array-like of float, shape (K,), optional
        Default 0.85. The accuracies of the two judges follow from ``at_margin``.
    n_categories, prevalence, joint, n_items, design, eps, threshold, strict
        As in :func:`wrong_decision_rate`; under ``random`` each further human labels exactly ``m`` items.
    at_margin : float
        Distance of the two judges from the bar in every comparison; positive.
    target_fr, target_fa : float
        In (0, 1). The errors are refusing the good judge and accepting the bad one; under a partial
        conjunction not certifying the good judge and not rejecting the bad one (inconclusive is an error).
    rule : {"omega", "partial_conjunction", "alt_test"}
        The point rule; the verdict at ``level``; the alternative-annotator test at false discovery rate
        ``q``, for which, from a pilot or ``joint``, ``at_margin`` is on the scale of its advantages.
    level, q : float
        In (0, 1).
    grid : array-like of int, optional
        Numbers of items to consider; default 24 of them from 4 to ``n_items``.
    method : {"gaussian", "monte_carlo", "auto"}
        Of the point rule; ``"auto"`` simulates points at which a comparison has fewer than 10 pairs.
    n_trials, seed : int
        Of the simulation.

    Returns
    -------
    OverlapPlan

    Raises
    ------
    ProtocolError
        For arguments out of range, and unless exactly one of pilot, ``joint`` and parameters is given.

    Notes
    -----
    ``mu_k`` is ``+-at_margin`` plus what the design shifts (``random`` weighs the first human more). About
    60 Gaussian probabilities of less than a millisecond each.

    Examples
    --------
    >>> plan = plan_overlap(n_humans=4, human_accuracy=0.85)
    >>> plan.m_fr, plan.m_fa
    (52.0, 217.0)
    """
    check_design(design)
    _check_options(at_margin, target_fr, target_fa, level, q, rule, method, n_items)
    sources = {"pilot": humans is not None or judge is not None, "joint": joint is not None}
    sources["parameters"] = n_humans is not None or human_accuracy is not None
    if [name for name, given in sources.items() if given] not in (["pilot"], ["joint"], ["parameters"]):
        given = listing([name for name, found in sources.items() if found], show="str") or "nothing"
        raise ProtocolError(
            f"Plan from one of: a pilot (`humans` and `judge`), `joint`, or parameters (`n_humans`, "
            f"`human_accuracy`); got {given}."
        )
    n_labels = n_categories
    if sources["pilot"]:
        sides = pilot_judges(humans, judge, design, eps, at_margin)
        pilot = [codes_of(side, "pilot") for side in (humans, judge) if side is not None]
        n_labels = 1 + max(int(codes.max(initial=0)) for codes in pilot)
    elif sources["joint"]:
        n_labels = len(np.asarray(joint))
        sides = joint_judges(joint_patterns(np.asarray(joint)), design, eps, at_margin)
    else:
        accuracy = 0.85 if human_accuracy is None else human_accuracy
        sides = noise_judges(
            noise_model(n_humans, accuracy, 1.0, n_categories, prevalence), design, eps, at_margin, rule
        )
    K = len(sides[0].shift)
    needed = int(votes_needed(K, threshold, strict=strict))
    curves = _Curves(rule, design, n_items, eps, needed, level, q, method, n_trials, seed)
    points = _points(grid, n_items)
    p_accept = np.stack([curves.accepted(side, points) for side in sides])
    missed = curves.not_refused(sides[1], points) if rule == "partial_conjunction" else p_accept[1]
    targets, errors = (target_fr, target_fa), (1 - p_accept[0], missed)
    functions: tuple[Callable[[Float], Float], ...] = (
        lambda m: 1 - curves.accepted(sides[0], m, _ANSWER),
        lambda m: curves.not_refused(sides[1], m, _ANSWER),
    )
    continuous = [_smallest(points, *three) for three in zip(errors, targets, functions, strict=True)]
    if grid is None:
        answers = [float(np.ceil(m - 1e-9)) for m in continuous]
    else:
        answers = [_smallest_listed(points, *two) for two in zip(errors, targets, strict=True)]
    m = max(answers)
    overlap = expected_pairs(K, design, points / n_items, n_items)
    overlap = overlap * sides[0].labels_per_item
    simulated = curves.simulated(overlap)
    return OverlapPlan(
        answers[0],
        answers[1],
        m,
        continuous[0],
        continuous[1],
        points.astype(np.int64),
        errors[0],
        errors[1],
        p_accept,
        overlap.min(axis=-1),
        np.where(simulated, "monte_carlo", "gaussian"),
        curves.trusted(sides, points, overlap, n_labels),
        needed,
        m * (K - 1),
        curves.verdicts(sides, m),
    )


# ---------------------------------------------------------------------------------------------- private


class _Curves:
    """Probabilities of a rule as functions of the number of items per further human."""

    def __init__(
        self,
        rule: Rule,
        design: str,
        n_items: int,
        eps: Decimal,
        needed: int,
        level: float,
        q: float,
        method: Method,
        n_trials: int,
        seed: int,
    ) -> None:
        self.rule, self.design, self.n_items, self.eps, self.needed = rule, design, n_items, eps, needed
        self.level, self.q, self.method, self.n_trials, self.seed = level, q, method, n_trials, seed

    def simulated(self, overlap: Float) -> npt.NDArray[np.bool_]:
        thin = overlap.min(axis=-1) < _SKETCH_PAIRS
        chosen = {"gaussian": np.zeros_like(thin), "monte_carlo": np.ones_like(thin), "auto": thin}[
            self.method
        ]
        return chosen & (self.rule == "omega")

    def accepted(self, judge: PlannedJudge, points: Float, log2_points: int = _CURVE) -> Float:
        margins = rule_margins(judge, self.rule, self.design, points, self.n_items, self.eps)
        out = acceptance(
            self.rule, margins, self.needed, points, level=self.level, q=self.q, log2_points=log2_points
        )
        for place in np.nonzero(self.simulated(margins.overlap * judge.labels_per_item))[0]:
            out[place] = self._simulate(judge, float(points[place]))
        return out

    def not_refused(self, judge: PlannedJudge, points: Float, log2_points: int = _CURVE) -> Float:
        if self.rule == "partial_conjunction":
            margins = rule_margins(judge, self.rule, self.design, points, self.n_items, self.eps)
            return 1 - refusal(margins, self.needed, points, level=self.level, log2_points=log2_points)
        return self.accepted(judge, points, log2_points)

    def trusted(
        self, judges: tuple[PlannedJudge, PlannedJudge], points: Float, overlap: Float, n_categories: int
    ) -> npt.NDArray[np.bool_]:
        """Where the Gaussian is to be trusted: enough pairs, and the lattice of margins moves it little."""
        found = gaussian_trusted(overlap, self.design, points)
        if self.rule != "omega":
            return found
        K = overlap.shape[-1]
        units = round(self.n_items * judges[0].labels_per_item)
        # pairs of an item under several criteria move by single steps
        L = n_categories if units == self.n_items else 0
        steps = np.stack(
            [lattice_shift(K, self.design, m / self.n_items, units, self.eps, n_categories=L) for m in points]
        )
        for judge in judges:
            margins = rule_margins(judge, self.rule, self.design, points, self.n_items, self.eps)
            smooth, stepped = (
                acceptance(self.rule, at, self.needed, points, level=self.level, q=self.q, log2_points=_MOVE)
                for at in (margins, margins._replace(mu=margins.mu + steps))
            )
            found &= np.abs(stepped - smooth) <= _TRUSTED_MOVE
        return found

    def verdicts(self, judges: tuple[PlannedJudge, PlannedJudge], m: float) -> Float:
        out = np.full((2, 3), np.nan)
        if np.isfinite(m):
            points = np.array([m])
            for row, judge in zip(out, judges, strict=True):
                margins = rule_margins(judge, "omega", self.design, points, self.n_items, self.eps)
                row[0] = acceptance(
                    "partial_conjunction", margins, self.needed, points, level=self.level, q=self.q
                )[0]
                row[1] = refusal(margins, self.needed, points, level=self.level)[0]
                row[2] = max(0.0, 1 - row[0] - row[1])
        return out

    def _simulate(self, judge: PlannedJudge, m: float) -> float:
        if judge.model is None:
            raise ProtocolError(
                "Simulating needs items that every human and the judge labelled; the pilot has none. "
                "Use method='gaussian'."
            )
        share = min(1.0, round(m) / self.n_items)
        trials = simulate_trials(
            judge.model, self.design, share, self.n_items, self.n_trials, mask="exact", seed=self.seed
        )
        pairs = np.maximum(trials.overlap, 1)
        margin = trials.difference / pairs + float(read_decimal(self.eps, "eps")) + judge.shift
        available = trials.overlap > 0
        share_won = ((margin >= -_TIE) & available).sum(axis=1) / np.maximum(available.sum(axis=1), 1)
        return float(np.mean(share_won * len(judge.shift) >= self.needed - _TIE))


def _check_options(
    at_margin: float, fr: float, fa: float, level: float, q: float, rule: str, method: str, n_items: int
) -> None:
    for name, value in (("target_fr", fr), ("target_fa", fa), ("level", level), ("q", q)):
        if not 0 < value < 1:
            raise ProtocolError(f"`{name}` must lie in (0, 1); got {value!r}.")
    if not at_margin > 0:
        raise ProtocolError(
            f"`at_margin` must be positive: a judge on the bar is decided by chance; got {at_margin!r}."
        )
    if rule not in RULES or method not in ("gaussian", "monte_carlo", "auto"):
        raise ProtocolError(
            f"`rule` must be one of {', '.join(map(repr, RULES))} and `method` 'gaussian', 'monte_carlo' or "
            f"'auto'; got {rule!r} and {method!r}."
        )
    if n_items < _FEWEST or int(n_items) != n_items:
        raise ProtocolError(f"`n_items` must be at least {_FEWEST}, a whole number; got {n_items!r}.")


def _points(grid: npt.ArrayLike | None, n_items: int) -> Float:
    if grid is None:
        points = np.unique(np.rint(np.geomspace(_FEWEST, n_items, _N_POINTS)))
    else:
        points = np.unique(np.asarray(grid, dtype=np.float64))
        if not len(points) or points[0] < 1 or points[-1] > n_items or (points != np.rint(points)).any():
            raise ProtocolError(
                f"`grid` must hold whole numbers of items from 1 to n_items={n_items}; "
                f"got {listing(np.asarray(grid).ravel().tolist()) or 'none'}."
            )
    return points


def _smallest_listed(points: Float, error: Float, target: float) -> float:
    """First point of the grid from which on the error stays within its target; inf if there is none."""
    wrong = np.nonzero(error > target)[0]
    after = int(wrong[-1]) + 1 if len(wrong) else 0
    return float(points[after]) if after < len(points) else float("inf")


def _smallest(points: Float, error: Float, target: float, function: Callable[[Float], Float]) -> float:
    """Where the error falls below its target for good: between two points of the grid, by bisection."""
    wrong = np.nonzero(error > target)[0]
    if not len(wrong):
        return float(points[0])
    if wrong[-1] == len(points) - 1:
        return float("inf")
    low, high = float(points[wrong[-1]]), float(points[wrong[-1] + 1])
    while high - low > _NARROW * low:
        middle = (low * high) ** 0.5
        if function(np.array([middle]))[0] > target:
            low = middle
        else:
            high = middle
    return (low + high) / 2

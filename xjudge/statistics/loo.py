"""Leave-one-out validation of a judge under sparse overlap, and its planning (LOO.md).

May this judge replace a human? Hold out each human in turn, compare how often judge and human agree with the
others, grant a tolerance, and accept when the judge wins enough of the comparisons. This room counts the
comparisons exactly, says how sure the answer is, and says how many labels a sure answer takes.

In the order of a question: :func:`loo_validate` for labels in memory; its parts :func:`loo_counts` (additive
over items), :func:`loo_margins`, :func:`loo_verdict`; :func:`alt_test`; :func:`wrong_decision_rate` and
:func:`plan_overlap`; :func:`allocate`; :func:`wrong_top_probability`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError
from xjudge.statistics._alt_test import (
    AltTest,
    advantage_counts,
    alt_test,
    alt_test_counts,
    alt_test_scores,
    step_up,
)
from xjudge.statistics._loo_allocate import (
    Allocation,
    allocate,
    finite_population_size,
    neyman_sizes,
    stratified_variance_ratio,
    stratum_deviations,
)
from xjudge.statistics._loo_cells import largest_remainder
from xjudge.statistics._loo_counts import (
    LooCounts,
    PairMoments,
    add_counts,
    loo_counts,
    loo_pair_counts,
    loo_pair_moments,
)
from xjudge.statistics._loo_decision import (
    Combine,
    LooVerdict,
    loo_verdict,
    max_t,
    one_sided_p,
    partial_conjunction,
)
from xjudge.statistics._loo_design import DesignMargins, design_margins, joint_margins, matrix_margins
from xjudge.statistics._loo_gaussian import accept_probability, lattice_tolerance, win_distribution
from xjudge.statistics._loo_influence import (
    LOO_STATISTICS,
    LooTables,
    gamma_constant,
    influence,
    influence_moments,
    loo_tables,
    pattern_margins,
    statistic_margins,
    statistic_value,
)
from xjudge.statistics._loo_margin import (
    LooMargins,
    Pooling,
    Target,
    loo_margins,
    mean_ratio,
    pair_covariance,
)
from xjudge.statistics._loo_mask import Mask, MaskedCounts, masked_counts
from xjudge.statistics._loo_model import NoiseModel, Patterns, joint_patterns, noise_model, noise_patterns
from xjudge.statistics._loo_plan import OverlapPlan, plan_overlap
from xjudge.statistics._loo_population import (
    Population,
    accuracy_population,
    judge_accuracy_at,
    pattern_population,
    pilot_population,
    population_margin,
    strata_of,
)
from xjudge.statistics._loo_rank import TopJudge, judge_scores, score_covariance, wrong_top_probability
from xjudge.statistics._loo_rules import Rule, sign_margins
from xjudge.statistics._loo_stratified import (
    ControlledMargins,
    control_margins,
    control_variance,
    equal_human_agreement,
    stratified_margins,
)
from xjudge.statistics._loo_trials import Trials, simulate_trials
from xjudge.statistics._loo_votes import (
    Decimal,
    Float,
    Votes,
    count_votes,
    exact_wins,
    read_decimal,
    votes_needed,
)
from xjudge.statistics._loo_wrong import Method, WrongDecision, gaussian_trusted, wrong_decision_rate

__all__ = [
    "LOO_STATISTICS",
    "Allocation",
    "AltTest",
    "Combine",
    "ControlledMargins",
    "Decimal",
    "DesignMargins",
    "LooCautions",
    "LooCounts",
    "LooMargins",
    "LooTables",
    "LooValidation",
    "LooVerdict",
    "Mask",
    "MaskedCounts",
    "Method",
    "NoiseModel",
    "OverlapPlan",
    "PairMoments",
    "Patterns",
    "Pooling",
    "Population",
    "Rule",
    "Target",
    "TopJudge",
    "Trials",
    "Votes",
    "WrongDecision",
    "accept_probability",
    "accuracy_population",
    "add_counts",
    "advantage_counts",
    "allocate",
    "alt_test",
    "alt_test_counts",
    "alt_test_scores",
    "control_margins",
    "control_variance",
    "count_votes",
    "design_margins",
    "equal_human_agreement",
    "exact_wins",
    "finite_population_size",
    "gamma_constant",
    "gaussian_trusted",
    "influence",
    "influence_moments",
    "joint_margins",
    "joint_patterns",
    "judge_accuracy_at",
    "judge_scores",
    "largest_remainder",
    "lattice_tolerance",
    "loo_cautions",
    "loo_counts",
    "loo_margins",
    "loo_pair_counts",
    "loo_pair_moments",
    "loo_tables",
    "loo_validate",
    "loo_verdict",
    "masked_counts",
    "matrix_margins",
    "max_t",
    "neyman_sizes",
    "noise_model",
    "noise_patterns",
    "one_sided_p",
    "pair_covariance",
    "partial_conjunction",
    "pattern_margins",
    "pattern_population",
    "pilot_population",
    "plan_overlap",
    "population_margin",
    "read_decimal",
    "score_covariance",
    "sign_margins",
    "simulate_trials",
    "statistic_margins",
    "statistic_value",
    "step_up",
    "strata_of",
    "stratified_margins",
    "stratified_variance_ratio",
    "stratum_deviations",
    "votes_needed",
    "win_distribution",
    "wrong_decision_rate",
    "wrong_top_probability",
]

# Below so many pairs neither the normal approximation nor the standard error is reliable (LOO.md section 6).
_THIN = 30


class LooCautions(NamedTuple):
    """What to warn of beside a verdict.

    Attributes
    ----------
    thin : ndarray of bool, shape (..., K)
        Fewer than 30 pairs (but some): standard error and Gaussian unreliable.
    tie_accepts : ndarray of bool, shape (...)
        The rule accepts on exactly the threshold, which happens for this number of comparisons, and without a
        majority: it approves bad judges more easily than it refuses good ones (about four times the items at
        four humans).
    unequal_pairs : ndarray of bool, shape (...)
        In some comparison one pair has more than twice the items of another: pooled agreement weighs the
        humans by their overlap, and not equally.
    human_agreement_equal : ndarray of float, shape (..., K)
        Human agreement with every other human weighed equally, to print beside the pooled one.
    near_threshold : ndarray of bool, shape (...)
        One vote more or less would change the point decision.
    """

    thin: npt.NDArray[np.bool_]
    tie_accepts: npt.NDArray[np.bool_]
    unequal_pairs: npt.NDArray[np.bool_]
    human_agreement_equal: Float
    near_threshold: npt.NDArray[np.bool_]


class LooValidation(NamedTuple):
    """Margins, verdict and cautions of one judge, or of several along the leading dim."""

    margins: LooMargins
    verdict: LooVerdict
    cautions: LooCautions


def loo_cautions(
    counts: LooCounts, votes: Votes, *, threshold: Decimal = 0.5, strict: bool = False
) -> LooCautions:
    """Find what to warn of.

    Parameters
    ----------
    counts : LooCounts
    votes : Votes
    threshold, strict
        As in :func:`loo_margins`.

    Returns
    -------
    LooCautions
    """
    share = read_decimal(threshold, "threshold")
    overlap = counts.overlap
    K = overlap.shape[-1]
    pairs = overlap.sum(axis=-1)
    others = np.where(np.eye(K, dtype=bool), np.iinfo(np.int64).max, overlap).min(axis=-1, initial=2**62)
    unequal = (pairs > 0) & (overlap.max(axis=-1, initial=0) > 2 * others) & (K > 2)
    equal = mean_ratio(counts.human_hits, overlap)
    exact = np.array([(share * n).denominator == 1 and n > 0 for n in range(K + 1)])
    some = votes.n_available > 0
    near = some & ((votes.wins == votes.needed) | (votes.wins == votes.needed - 1))
    return LooCautions(
        (pairs > 0) & (pairs < _THIN),
        np.asarray(exact[votes.n_available] & (not strict) & (2 * votes.needed <= votes.n_available)),
        np.asarray(unequal.any(axis=-1)),
        equal,
        np.asarray(near),
    )


def loo_validate(
    humans: npt.ArrayLike,
    judge: npt.ArrayLike,
    *,
    eps: Decimal = 0.05,
    threshold: Decimal = 0.5,
    strict: bool = False,
    pooling: Pooling = "items",
    statistic: str = "accuracy",
    at_margin: float = 0.05,
    target: Target = "population",
    level: float = 0.95,
    combine: Combine = "bonferroni",
    control: bool = False,
    n_categories: int | None = None,
    scores: npt.ArrayLike | None = None,
) -> LooValidation:
    """Validate a judge against humans by leave-one-out, for labels in memory.

    Parameters
    ----------
    humans : array-like of int, shape (n, K) or (n, C, K)
        Codes; negative = not answered. With criteria, pairs are pooled over them.
    judge : array-like of int, shape (n,) or (n, J); with criteria (n, C) or (n, C, J)
    eps, threshold, strict, pooling, target
        As in :func:`loo_margins`.
    statistic : str
        One of :data:`LOO_STATISTICS`; other than accuracy they need ``n_categories``, pool the pairs of all
        items and aim at the population, and ``eps`` is on their scale.
    at_margin, level, combine
        As in :func:`loo_verdict`.
    control : bool
        Use the judge's agreement with the first human on all items as a control variate.
    n_categories : int, optional
    scores : array-like of float, shape (L,), optional
        Values of the categories, for ``"neg_mae"`` and ``"neg_rmse"``.

    Returns
    -------
    LooValidation

    Raises
    ------
    ProtocolError
        For an unknown option or a combination that is not defined.
    StructureError
        Where shapes do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.integers(0, 2, 400)
    >>> noisy = lambda p: np.where(rng.random(400) < p, truth, 1 - truth)
    >>> humans = np.stack([noisy(0.85) for _ in range(3)], axis=1)
    >>> found = loo_validate(humans, noisy(0.95))
    >>> found.margins.votes.omega, found.verdict.verdict
    (array(1.), array('accept', dtype='<U12'))
    """
    if statistic not in LOO_STATISTICS:
        names = ", ".join(repr(name) for name in LOO_STATISTICS)
        raise ProtocolError(f"`statistic` must be one of {names}; got {statistic!r}.")
    plain = pooling == "items" and target == "population"
    if (statistic != "accuracy" or control) and not plain:
        raise ProtocolError(
            "Statistics other than accuracy, and a control variate, are defined for pooling='items' and "
            "target='population' only."
        )
    if statistic != "accuracy" and (control or n_categories is None):
        raise ProtocolError(f"statistic={statistic!r} takes no control variate and needs `n_categories`.")
    counts = loo_counts(humans, judge, control=control)
    if statistic != "accuracy":
        tables = loo_tables(humans, judge, int(n_categories or 0))
        moments = influence_moments(humans, judge, tables, statistic, scores)
        margins = statistic_margins(
            tables, moments, statistic, eps=eps, threshold=threshold, strict=strict, scores=scores
        )
    elif control:
        margins = control_margins(counts, eps=eps, threshold=threshold, strict=strict).margins
    else:
        pairs = None if plain else loo_pair_moments(humans, judge)
        margins = loo_margins(
            counts, eps=eps, threshold=threshold, strict=strict, pooling=pooling, target=target, pairs=pairs
        )
    verdict = loo_verdict(
        margins,
        eps=eps,
        threshold=threshold,
        strict=strict,
        level=level,
        at_margin=at_margin,
        combine=combine,
    )
    return LooValidation(
        margins, verdict, loo_cautions(counts, margins.votes, threshold=threshold, strict=strict)
    )

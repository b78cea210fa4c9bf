"""Panels of judges: what a panel is worth against humans, how it grows, and which panel to take.

Plain numpy functions over category codes ``(item, judge)``, human label distributions ``(item, category)``
and gold codes ``(item,)``. Codes below zero are no answer. The definitions are those of "How Many Humans Are
32 LLM Judges Worth?"; each function names its section.

The rooms behind this page:

* ``_panel_inputs``, ``_panel_residuals``: human distributions, gold labels, residuals as sums over items;
* ``_panel_size``, ``_panel_errors``, ``_panel_effective``: sizes from those sums, with reasons;
* ``_panel_influence``: what each item adds to a size, for standard errors;
* ``_panel_anchor``: other anchors, reference curves of simulated humans;
* ``_panel_draws``, ``_panel_curve``: subpanels, growth, conflicts between diversity and error;
* ``_panel_score``, ``_panel_enumerate``, ``_panel_fast``: exact accuracies of many panels;
* ``_panel_pool``, ``_panel_rules``, ``_panel_task``, ``_panel_all``, ``_panel_search``, ``_panel_select``:
  selection;
* ``_panel_geometry``, ``_panel_presentation``, ``_panel_aggregate``, ``_panel_latent``.

A call reads sums from a pass over items, then sizes from the sums:

>>> judges = [[0, 0], [0, 1], [1, 0], [1, 1]]
>>> h = [[0.5, 0.5]] * 4
>>> found = effective_size(panel_sums(judges, h, gold=[0, 0, 0, 0]))
>>> float(found.values["participation_ratio"]), float(found.values["n_eff"])
(2.0, 2.0)

Sums of chunks add (:func:`combine_sums`). With item weights, such as the counts of a resample, the sums have
a leading axis and so have the sizes: intervals for every size, and comparisons of panels on shared resamples
(:func:`subpanel_sums`), come from the same two calls.
"""

from __future__ import annotations

from xjudge.statistics._panel_aggregate import (
    AggregateScore,
    MajorityVote,
    MinimumErrorWeights,
    majority_vote,
    minimum_error_weights,
    score_aggregate,
    soft_distribution,
)
from xjudge.statistics._panel_all import Enumeration
from xjudge.statistics._panel_anchor import (
    AnchoredSize,
    InvertedCurve,
    ReferenceCurve,
    anchor_mode,
    anchor_partial,
    anchor_uniform,
    anchored_size,
    invert_curve,
    reference_curve,
)
from xjudge.statistics._panel_curve import (
    AdditionConflicts,
    PanelCurve,
    addition_conflicts,
    leave_one_member_out,
    panel_curve,
    rank_correlation,
)
from xjudge.statistics._panel_draws import (
    SearchedPanels,
    SubpanelQuantities,
    draw_subpanels,
    grown_quantities,
    search_sizes,
    subpanel_quantities,
)
from xjudge.statistics._panel_effective import EffectiveSize, effective_size, panel_matrices
from xjudge.statistics._panel_enumerate import PanelChunk, enumerate_panels
from xjudge.statistics._panel_errors import (
    CrossedSummaries,
    JointErrors,
    crossed_summaries,
    error_correlation,
    expected_all_wrong,
    joint_error_counts,
    joint_errors,
    kish_n_eff,
)
from xjudge.statistics._panel_geometry import ResidualGeometry, residual_geometry
from xjudge.statistics._panel_influence import (
    INFLUENCES,
    RATIOS,
    RatioSide,
    correlation_noise,
    influence_products,
    ratio_interval,
    size_influences,
)
from xjudge.statistics._panel_inputs import (
    complete_items,
    contrasts,
    finite_n_delta,
    gold_mode,
    human_distribution,
    human_variance,
)
from xjudge.statistics._panel_latent import DawidSkene, cross_fitted_distribution, dawid_skene
from xjudge.statistics._panel_pool import PanelQuantities
from xjudge.statistics._panel_presentation import FlipCounts, PresentationEffects, presentation_effects
from xjudge.statistics._panel_residuals import (
    PanelSums,
    combine_sums,
    panel_sums,
    residual_gram,
    subpanel_sums,
)
from xjudge.statistics._panel_score import (
    Votes,
    mode_counts,
    panel_members,
    panel_rank,
    score_panels,
    score_scale,
    vote_planes,
)
from xjudge.statistics._panel_select import Candidates, HeldOut, Selection, select_panel
from xjudge.statistics._panel_size import (
    SpectralIdentity,
    distributional_error,
    mean_off_diagonal,
    mean_squared_correlation,
    normalised_gram,
    nu_h,
    nu_mse,
    nu_mse_limit,
    participation_ratio,
    spectral_identity,
)

__all__ = [
    "INFLUENCES",
    "RATIOS",
    "AdditionConflicts",
    "AggregateScore",
    "AnchoredSize",
    "Candidates",
    "CrossedSummaries",
    "DawidSkene",
    "EffectiveSize",
    "Enumeration",
    "FlipCounts",
    "HeldOut",
    "InvertedCurve",
    "JointErrors",
    "MajorityVote",
    "MinimumErrorWeights",
    "PanelChunk",
    "PanelCurve",
    "PanelQuantities",
    "PanelSums",
    "PresentationEffects",
    "RatioSide",
    "ReferenceCurve",
    "ResidualGeometry",
    "SearchedPanels",
    "Selection",
    "SpectralIdentity",
    "SubpanelQuantities",
    "Votes",
    "addition_conflicts",
    "anchor_mode",
    "anchor_partial",
    "anchor_uniform",
    "anchored_size",
    "combine_sums",
    "complete_items",
    "contrasts",
    "correlation_noise",
    "cross_fitted_distribution",
    "crossed_summaries",
    "dawid_skene",
    "distributional_error",
    "draw_subpanels",
    "effective_size",
    "enumerate_panels",
    "error_correlation",
    "expected_all_wrong",
    "finite_n_delta",
    "gold_mode",
    "grown_quantities",
    "human_distribution",
    "human_variance",
    "influence_products",
    "invert_curve",
    "joint_error_counts",
    "joint_errors",
    "kish_n_eff",
    "leave_one_member_out",
    "majority_vote",
    "mean_off_diagonal",
    "mean_squared_correlation",
    "minimum_error_weights",
    "mode_counts",
    "normalised_gram",
    "nu_h",
    "nu_mse",
    "nu_mse_limit",
    "panel_curve",
    "panel_matrices",
    "panel_members",
    "panel_rank",
    "panel_sums",
    "participation_ratio",
    "presentation_effects",
    "rank_correlation",
    "ratio_interval",
    "reference_curve",
    "residual_geometry",
    "residual_gram",
    "score_aggregate",
    "score_panels",
    "score_scale",
    "search_sizes",
    "select_panel",
    "size_influences",
    "soft_distribution",
    "spectral_identity",
    "subpanel_quantities",
    "subpanel_sums",
    "vote_planes",
]

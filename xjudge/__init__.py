"""May this LLM judge replace human labels, and how do we know? Agreement as a measurement protocol.

Importing xjudge registers the accessor ``.judge`` on xarray Dataset, DataArray and DataTree and on pandas
DataFrame. Every verb exists twice with one signature: ``xj.agreement(ds, ...)`` and
``ds.judge.agreement(...)``.
"""

import importlib
from typing import TYPE_CHECKING, Any

from xjudge import statistics
from xjudge.accessor import register as _register
from xjudge.build import (
    from_counts,
    from_criteria_wide,
    from_long,
    from_wide,
    join,
    to_long,
)
from xjudge.errors import (
    DependencyError,
    DroppedWarning,
    IntervalWarning,
    OverlapError,
    ProtocolError,
    ProtocolWarning,
    StructureError,
    UndefinedWarning,
    VocabularyError,
    XJudgeError,
    XJudgeWarning,
)
from xjudge.labelled._common import costs_from_scores, tidy
from xjudge.labelled._common import version as _version
from xjudge.outcomes import mask, rates, validate
from xjudge.protocol import (
    Protocol,
    all_positive,
    at_least,
    cut,
    merge,
    one_of,
    recode_to,
    weighted_share,
)
from xjudge.scale import Scale

if TYPE_CHECKING:
    from xjudge._layouts import to_dense, to_sparse
    from xjudge._stores import append_to_zarr
    from xjudge.labelled.adjust import adjust, prevalence
    from xjudge.labelled.agreement import agreement, sweep, tables
    from xjudge.labelled.bounds import breakdown, coverage_bounds
    from xjudge.labelled.compare import compare, constant
    from xjudge.labelled.crowds import pair_agreement, rater_agreement
    from xjudge.labelled.dependence import panel_dependence
    from xjudge.labelled.disagreements import disagreements
    from xjudge.labelled.geometry import panel_geometry
    from xjudge.labelled.loo import alt_test, loo_validate
    from xjudge.labelled.panel import effective_size, partial
    from xjudge.labelled.planning import allocate, plan_overlap, wrong_decision_rate, wrong_top_probability
    from xjudge.labelled.ranking import rank
    from xjudge.labelled.rater_ranges import reliability_bounds
    from xjudge.labelled.reliability import reliability
    from xjudge.labelled.rivals import compare_panels
    from xjudge.labelled.selection import select_panel
    from xjudge.labelled.selective import cascade, risk_coverage, selective_threshold, split_stability
    from xjudge.labelled.spread import mean_pairwise, spread
    from xjudge.labelled.stability import stability
    from xjudge.labelled.subpanels import panel_curve
    from xjudge.labelled.voting import panel_vote
    from xjudge.rebuilding import rebuild
    from xjudge.simulation import load_example, simulate

# Rooms that few calls need are opened by the first use of one of their names.
_LATER = {
    "adjust": "xjudge.labelled.adjust",
    "agreement": "xjudge.labelled.agreement",
    "allocate": "xjudge.labelled.planning",
    "alt_test": "xjudge.labelled.loo",
    "append_to_zarr": "xjudge._stores",
    "breakdown": "xjudge.labelled.bounds",
    "cascade": "xjudge.labelled.selective",
    "compare": "xjudge.labelled.compare",
    "compare_panels": "xjudge.labelled.rivals",
    "constant": "xjudge.labelled.compare",
    "coverage_bounds": "xjudge.labelled.bounds",
    "disagreements": "xjudge.labelled.disagreements",
    "effective_size": "xjudge.labelled.panel",
    "load_example": "xjudge.simulation",
    "loo_validate": "xjudge.labelled.loo",
    "mean_pairwise": "xjudge.labelled.spread",
    "pair_agreement": "xjudge.labelled.crowds",
    "panel_curve": "xjudge.labelled.subpanels",
    "panel_dependence": "xjudge.labelled.dependence",
    "panel_geometry": "xjudge.labelled.geometry",
    "panel_vote": "xjudge.labelled.voting",
    "partial": "xjudge.labelled.panel",
    "plan_overlap": "xjudge.labelled.planning",
    "prevalence": "xjudge.labelled.adjust",
    "rank": "xjudge.labelled.ranking",
    "rater_agreement": "xjudge.labelled.crowds",
    "rebuild": "xjudge.rebuilding",
    "reliability": "xjudge.labelled.reliability",
    "reliability_bounds": "xjudge.labelled.rater_ranges",
    "risk_coverage": "xjudge.labelled.selective",
    "select_panel": "xjudge.labelled.selection",
    "selective_threshold": "xjudge.labelled.selective",
    "simulate": "xjudge.simulation",
    "split_stability": "xjudge.labelled.selective",
    "spread": "xjudge.labelled.spread",
    "stability": "xjudge.labelled.stability",
    "sweep": "xjudge.labelled.agreement",
    "tables": "xjudge.labelled.agreement",
    "to_dense": "xjudge._layouts",
    "to_sparse": "xjudge._layouts",
    "wrong_decision_rate": "xjudge.labelled.planning",
    "wrong_top_probability": "xjudge.labelled.planning",
}

__all__ = [
    "DependencyError",
    "DroppedWarning",
    "IntervalWarning",
    "OverlapError",
    "Protocol",
    "ProtocolError",
    "ProtocolWarning",
    "Scale",
    "StructureError",
    "UndefinedWarning",
    "VocabularyError",
    "XJudgeError",
    "XJudgeWarning",
    "adjust",
    "agreement",
    "all_positive",
    "allocate",
    "alt_test",
    "append_to_zarr",
    "at_least",
    "breakdown",
    "cascade",
    "compare",
    "compare_panels",
    "constant",
    "costs_from_scores",
    "coverage_bounds",
    "cut",
    "disagreements",
    "effective_size",
    "from_counts",
    "from_criteria_wide",
    "from_long",
    "from_wide",
    "join",
    "load_example",
    "loo_validate",
    "mask",
    "mean_pairwise",
    "merge",
    "one_of",
    "pair_agreement",
    "panel_curve",
    "panel_dependence",
    "panel_geometry",
    "panel_vote",
    "partial",
    "plan_overlap",
    "prevalence",
    "rank",
    "rater_agreement",
    "rates",
    "rebuild",
    "recode_to",
    "reliability",
    "reliability_bounds",
    "risk_coverage",
    "select_panel",
    "selective_threshold",
    "simulate",
    "split_stability",
    "spread",
    "stability",
    "statistics",
    "sweep",
    "tables",
    "tidy",
    "to_dense",
    "to_long",
    "to_sparse",
    "validate",
    "weighted_share",
    "wrong_decision_rate",
    "wrong_top_probability",
]

_register()
__version__ = _version()


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'xjudge' has no attribute {name!r}")
    value = getattr(importlib.import_module(_LATER[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})

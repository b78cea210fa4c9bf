"""May this LLM judge replace human labels, and how do we know? Agreement as a measurement protocol.

Importing xjudge registers the accessor ``.judge`` on xarray Dataset, DataArray and DataTree and on pandas
DataFrame. Every verb exists twice with one signature: ``xj.agreement(ds, ...)`` and
``ds.judge.agreement(...)``.
"""

from xjudge import statistics
from xjudge.accessor import register as _register
from xjudge.build import from_counts, from_criteria_wide, from_long, from_wide, join, to_long
from xjudge.errors import (
    DependencyError,
    DroppedWarning,
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
from xjudge.labelled.agreement import agreement, sweep, tables
from xjudge.labelled.bounds import breakdown, coverage_bounds
from xjudge.labelled.compare import compare, constant, rank
from xjudge.labelled.disagreements import disagreements
from xjudge.labelled.loo import alt_test, loo_validate
from xjudge.labelled.planning import allocate, plan_overlap, wrong_decision_rate
from xjudge.labelled.spread import mean_pairwise, spread
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
from xjudge.rebuilding import rebuild
from xjudge.scale import Scale
from xjudge.simulation import load_example, simulate

__all__ = [
    "DependencyError",
    "DroppedWarning",
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
    "agreement",
    "all_positive",
    "allocate",
    "alt_test",
    "at_least",
    "breakdown",
    "compare",
    "constant",
    "costs_from_scores",
    "coverage_bounds",
    "cut",
    "disagreements",
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
    "plan_overlap",
    "rank",
    "rates",
    "rebuild",
    "recode_to",
    "simulate",
    "spread",
    "statistics",
    "sweep",
    "tables",
    "tidy",
    "to_long",
    "validate",
    "weighted_share",
    "wrong_decision_rate",
]

_register()
__version__ = _version()

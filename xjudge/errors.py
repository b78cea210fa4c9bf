"""Exceptions, warnings, and the reasons why a value is undefined.

Every exception of xjudge is an :class:`XJudgeError` and also the builtin a caller would already catch.
A message says what is wrong, where (names, not positions), and what to do.
"""

from __future__ import annotations

import enum
import sys
import warnings
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

__all__ = [
    "DependencyError",
    "DroppedWarning",
    "IntervalWarning",
    "OverlapError",
    "ProtocolError",
    "ProtocolWarning",
    "Reason",
    "StructureError",
    "UndefinedWarning",
    "VocabularyError",
    "XJudgeError",
    "XJudgeWarning",
    "listing",
    "reason_text",
    "warn",
]


class XJudgeError(Exception):
    """Base of every error that xjudge raises on purpose."""


class StructureError(XJudgeError, ValueError):
    """The data do not have the shape of a judge dataset: dims, dtypes, ids, roles, duplicates."""


class VocabularyError(XJudgeError, ValueError):
    """A label is neither a category of the scale nor a declared code."""


class ProtocolError(XJudgeError, ValueError):
    """A protocol asks for something that the scale, the data or the statistic cannot carry."""


class OverlapError(XJudgeError, ValueError):
    """Two sets that should share items, raters or criteria share none, or too few."""


class DependencyError(XJudgeError, ImportError):
    """An optional dependency is missing; the message names the extra that brings it."""


class XJudgeWarning(UserWarning):
    """Base of every warning that xjudge gives."""


class UndefinedWarning(XJudgeWarning):
    """Values of a result are undefined; the result holds the reasons."""


class DroppedWarning(XJudgeWarning):
    """Something of the input is not in the output; the message says what and how much."""


class IntervalWarning(XJudgeWarning):
    """Intervals may miss their level on data like these; the result says which, and why."""


class ProtocolWarning(XJudgeWarning):
    """A choice in the protocol has no canonical form, or something about it was inferred."""


class Reason(enum.IntEnum):
    """Why a value is undefined (NaN); ``OK`` where it is defined.

    The integers are internal and may change; results carry the text (:func:`reason_text`).
    """

    OK = 0
    NO_ITEMS = 1
    NO_OVERLAP = 2
    NO_JOINT_ANSWERS = 3
    BELOW_MIN_OVERLAP = 4
    ONE_CATEGORY = 5
    CONSTANT_REFERENCE = 6
    CONSTANT_RATER = 7
    CONSTANT_BOTH = 8
    NO_POSITIVE_REFERENCE = 9
    NO_NEGATIVE_REFERENCE = 10
    NO_POSITIVE_RATER = 11
    NO_POSITIVE_EITHER = 12
    CLASS_WITHOUT_REFERENCE = 13
    NO_CRITERION = 14
    SAME_RATER = 15
    FEW_PAIRS = 16
    ALREADY_FALSE = 30
    CANNOT_BE_OVERTURNED = 31
    NO_COVERED_CASE = 32
    FEW_RARE_LABELS = 33
    FEW_DISAGREEMENTS = 34
    NOBODY_DISAGREES = 35
    NO_SPREAD = 36
    ONE_UNIT = 37
    NO_PAIRABLE_ITEM = 20
    NO_POSSIBLE_DISAGREEMENT = 21
    ONE_RATER = 22
    FEW_COMPLETE_ITEMS = 23
    NO_VARIATION = 24
    NO_RATER_PAIR = 25
    UNDEFINED_PAIR = 26
    NO_VARIANCE = 40
    BELOW_MIN_ITEMS = 41
    NOTHING_TO_COMPARE = 42
    ONE_ITEM = 43
    NOT_REACHABLE = 44
    CONSTANT_CONTROL = 45
    NO_RESIDUAL_ENERGY = 50
    CONSTANT_ERRORS = 51
    NON_POSITIVE_DENOMINATOR = 52
    FEW_HUMAN_LABELS = 53
    BELOW_GRID = 54
    BEYOND_GRID = 55
    ONE_JUDGE = 56
    NO_CONSENSUS_VARIANCE = 57
    NON_POSITIVE_ERROR = 58
    NO_HUMAN_VARIANCE = 59
    NO_LABELLED_CASE = 60
    FEW_LABELLED_CASES = 61
    NO_UNLABELLED_VERDICT = 62
    NO_LABELLED_POSITIVE = 63
    NO_LABELLED_NEGATIVE = 64
    UNINFORMATIVE_JUDGE = 65
    STRATUM_WITHOUT_LABELS = 66
    NO_OPEN_CASE = 67
    CONSTANT_FEATURE = 68
    NOT_CERTIFIED = 80
    NOTHING_ANSWERED = 81
    NO_PRINCIPAL_AXIS = 90
    FLAT_CLOUD = 91
    NO_EXCESS = 92
    SPREAD_UNKNOWN = 100

    @property
    def text(self) -> str:
        """The reason as results show it."""
        return _REASON_TEXT[self]


_REASON_TEXT: dict[Reason, str] = {
    Reason.OK: "ok",
    Reason.NO_ITEMS: "no items",
    Reason.NO_OVERLAP: "no overlap",
    Reason.NO_JOINT_ANSWERS: "no joint answers",
    Reason.BELOW_MIN_OVERLAP: "below min_overlap",
    Reason.ONE_CATEGORY: "only one category in use",
    Reason.CONSTANT_REFERENCE: "reference is constant",
    Reason.CONSTANT_RATER: "rater is constant",
    Reason.CONSTANT_BOTH: "both raters are constant",
    Reason.NO_POSITIVE_REFERENCE: "reference never positive",
    Reason.NO_NEGATIVE_REFERENCE: "reference never negative",
    Reason.NO_POSITIVE_RATER: "rater never positive",
    Reason.NO_POSITIVE_EITHER: "no positive label on either side",
    Reason.CLASS_WITHOUT_REFERENCE: "a category that only the rater uses",
    Reason.NO_CRITERION: "no criterion with a defined value",
    Reason.SAME_RATER: "a rater against itself",
    Reason.FEW_PAIRS: "fewer than two pairs",
    Reason.ALREADY_FALSE: "already false",
    Reason.CANNOT_BE_OVERTURNED: "cannot be overturned",
    Reason.NO_COVERED_CASE: "an unresolved cell without a covered case to follow",
    Reason.FEW_RARE_LABELS: "few labels beside the commonest category",
    Reason.FEW_DISAGREEMENTS: "few disagreements, pooled within units",
    Reason.NOBODY_DISAGREES: "nobody disagrees: bound on what was not seen",
    Reason.NO_SPREAD: "no sampling unit moves the estimate",
    Reason.ONE_UNIT: "fewer than two sampling units",
    Reason.NO_PAIRABLE_ITEM: "no item with two labels",
    Reason.NO_POSSIBLE_DISAGREEMENT: "chance leaves no room for disagreement",
    Reason.ONE_RATER: "fewer than two raters",
    Reason.FEW_COMPLETE_ITEMS: "fewer than two complete items",
    Reason.NO_VARIATION: "all scores are equal",
    Reason.NO_RATER_PAIR: "no pair of raters with a defined value",
    Reason.UNDEFINED_PAIR: "a pair of raters without a defined value",
    Reason.NO_VARIANCE: "no variance between items",
    Reason.BELOW_MIN_ITEMS: "fewer than min_items items",
    Reason.NOTHING_TO_COMPARE: "no human could be compared",
    Reason.ONE_ITEM: "one item has no standard error",
    Reason.NOT_REACHABLE: "not reached with all items labelled",
    Reason.CONSTANT_CONTROL: "the control is constant",
    Reason.NO_RESIDUAL_ENERGY: "a member without residual energy",
    Reason.CONSTANT_ERRORS: "a judge with constant errors",
    Reason.NON_POSITIVE_DENOMINATOR: "denominator not positive",
    Reason.FEW_HUMAN_LABELS: "an item without two known human labels",
    Reason.BELOW_GRID: "<= first grid point",
    Reason.BEYOND_GRID: "beyond the last grid point",
    Reason.ONE_JUDGE: "a panel of one judge",
    Reason.NO_CONSENSUS_VARIANCE: "no variance along the consensus direction",
    Reason.NON_POSITIVE_ERROR: "distributional error not positive",
    Reason.NO_HUMAN_VARIANCE: "humans agree on every item",
    Reason.NO_LABELLED_CASE: "no labelled case",
    Reason.FEW_LABELLED_CASES: "fewer than two labelled cases",
    Reason.NO_UNLABELLED_VERDICT: "no unlabelled verdict",
    Reason.NO_LABELLED_POSITIVE: "no labelled positive",
    Reason.NO_LABELLED_NEGATIVE: "no labelled negative",
    Reason.UNINFORMATIVE_JUDGE: "sensitivity + specificity not above 1",
    Reason.STRATUM_WITHOUT_LABELS: "a stratum with fewer than two labelled cases",
    Reason.NO_OPEN_CASE: "no case is left open",
    Reason.CONSTANT_FEATURE: "feature does not vary given the others",
    Reason.NOT_CERTIFIED: "no threshold could be certified",
    Reason.NOTHING_ANSWERED: "nothing is answered",
    Reason.NO_PRINCIPAL_AXIS: "residuals without a principal axis",
    Reason.FLAT_CLOUD: "simulated humans do not spread",
    Reason.NO_EXCESS: "judges on average as elongated as simulated humans",
    Reason.SPREAD_UNKNOWN: "no rater has two units, so spread cannot be told from chance",
}

_REASON_TABLE = np.array([_REASON_TEXT.get(code, "") for code in range(max(Reason) + 1)])  # type: ignore[call-overload]


def reason_text(codes: npt.ArrayLike) -> npt.NDArray[np.str_]:
    """Reasons as text, of fixed width so that the dtype does not depend on which reasons occur.

    Parameters
    ----------
    codes : array-like of int
        Members of :class:`Reason`, any shape.

    Returns
    -------
    ndarray of str, same shape
    """
    return _REASON_TABLE[np.asarray(codes, dtype=np.intp)]


def listing(values: Iterable[object], *, most: int = 3, show: str = "repr") -> str:
    """Values as a reader wants them in a message: the first few, then how many more.

    Parameters
    ----------
    values : iterable
        What to list, in the order to show it.
    most : int
        How many are written out.
    show : {"repr", "str"}
        ``"repr"`` shows values as the user wrote them (``'0'`` is not ``0``).

    Examples
    --------
    >>> listing(["a", "b", "c", "d", "e"])
    "'a', 'b', 'c' and 2 more"
    """
    items = [value.item() if isinstance(value, np.generic) else value for value in values]
    text = ", ".join(repr(v) if show == "repr" else str(v) for v in items[:most])
    return text if len(items) <= most else f"{text} and {len(items) - most} more"


def warn(message: str, category: type[XJudgeWarning]) -> None:
    """Warn at the line of the caller's own code, however deep inside xjudge the cause was found."""
    level, frame = 2, sys._getframe(1)  # stack level 1 is this function, 2 its caller
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == "xjudge":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)

"""Where an interval may miss its level: the rule of the coverage study, reasons for results, one warning.

The study (docs/intervals.md, `benchmarks/coverage.py`) finds two causes, each a matter of how many sampling
units carry what an interval is made of:

* statistics whose chance term or denominator rests on how often each category is used cover too seldom where
  fewer than :data:`FEW_LABELS` units have a label beside the commonest category, on either side;
* shares of pairs and coefficients with a fixed chance term do so where pairs are pooled within units and the
  disagreements amount to fewer than :data:`FEW_APART` units.

Pairs (and labels) are counted in units: as many as the same share of the units would be.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import xarray as xr

from xjudge.errors import IntervalWarning, Reason, listing, warn
from xjudge.statistics.scores import SCORE_STATISTICS

__all__ = [
    "BY_MARGINS",
    "FEW_APART",
    "FEW_LABELS",
    "OF_PAIRS",
    "few",
    "interval_reasons",
    "rare_and_apart",
    "warn_intervals",
]

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int8]
Bools = npt.NDArray[np.bool_]

FEW_LABELS: Final = 8
"""Units with a label beside the commonest category, from which intervals of :data:`BY_MARGINS` hold."""

FEW_APART: Final = 5
"""Units of disagreement, from which intervals of :data:`OF_PAIRS` hold where units hold several pairs."""

BY_MARGINS: Final = frozenset(
    {
        "kappa",
        "scott_pi",
        "phi",
        "mcc",
        "balanced_accuracy",
        "class_recall_gap",
        "marginal_mismatch",
        "alpha",
        "fleiss_kappa",
        "conger_kappa",
        "light_kappa",
        "mean_pairwise_kappa",
    }
    | {name for name, known in SCORE_STATISTICS.items() if known.least == -1}
)
"""Statistics whose chance term or denominator rests on how often each category is used."""

OF_PAIRS: Final = frozenset(
    {
        "accuracy",
        "precision",
        "recall",
        "specificity",
        "f1",
        "gwet_ac1",
        "gwet_ac2",
        "gwet_ac",
        "brennan_prediger",
        "percent_agreement",
    }
)
"""Shares of pairs, and coefficients of them that stay defined where one category is all there is."""


def rare_and_apart(tables: Sequence[npt.NDArray[Any]], n_units: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Sampling units with a label beside the commonest category, and with a disagreement.

    Parameters
    ----------
    tables : sequence of ndarray, shape (..., criterion, L, L)
        All that an estimate is made of; of several the least counts.
    n_units : array-like, shape (...)
        Sampling units behind the estimate.

    Returns
    -------
    rare, apart : ndarray, shape (...)
        In units; NaN where there is no pair.
    """
    rare, apart = [], []
    for table in tables:
        pairs = table.sum((-3, -2, -1))
        sides = [(side.sum(-1) - side.max(-1)).sum(-1) for side in (table.sum(-1), table.sum(-2))]
        off = pairs - np.trace(table, axis1=-2, axis2=-1).sum(-1)
        each = np.divide(n_units, pairs, out=np.full(pairs.shape, np.nan), where=pairs > 0)
        rare.append(np.minimum(*sides) * each)
        apart.append(off * each)
    return np.min(rare, axis=0), np.min(apart, axis=0)


def few(name: str, rare: npt.ArrayLike, apart: npt.ArrayLike, *, pooled: npt.ArrayLike) -> Codes:
    """Reason (...) why intervals of a statistic may miss their level; 0 where they hold it.

    Parameters
    ----------
    name : str
    rare, apart : array-like, shape (...)
        In sampling units, as :func:`rare_and_apart` counts them.
    pooled : array-like of bool, shape (...)
        Whether units hold several pairs.

    Examples
    --------
    >>> Reason(int(few("kappa", 3.0, 1.0, pooled=False))).text
    'few labels beside the commonest category'
    >>> Reason(int(few("accuracy", 3.0, 1.0, pooled=False))).text
    'ok'
    """
    scarce = np.asarray(rare) < FEW_LABELS
    close = np.asarray(pooled) & (np.asarray(apart) < FEW_APART)
    if name in BY_MARGINS:
        return np.where(scarce, np.int8(Reason.FEW_RARE_LABELS), np.int8(Reason.OK))
    if name in OF_PAIRS:
        return np.where(close, np.int8(Reason.FEW_DISAGREEMENTS), np.int8(Reason.OK))
    return np.zeros(np.shape(scarce), dtype=np.int8)


def interval_reasons(
    reason: npt.ArrayLike, ends: Floats, n_units: npt.ArrayLike, level: npt.ArrayLike, unseen: npt.ArrayLike
) -> Codes:
    """Why an interval is missing or to be read with care, the gravest reason first.

    Parameters
    ----------
    reason : array-like of int, shape (...)
        Of the estimate: why it is undefined, 0 where it is not.
    ends : ndarray, shape (..., 2)
    n_units : array-like, shape (...)
        Sampling units behind the estimate.
    level : array-like of int, shape (...)
        What :func:`few` says.
    unseen : array-like of bool, shape (...)
        Where the interval is a bound on what was not seen.
    """
    lower, upper = ends[..., 0], ends[..., 1]
    out = np.where(np.asarray(unseen), np.int8(Reason.NOBODY_DISAGREES), np.int8(Reason.OK))
    out = np.where(np.asarray(level) != 0, np.asarray(level, dtype=np.int8), out)
    out = np.where(np.isnan(lower) | np.isnan(upper) | (lower == upper), np.int8(Reason.NO_SPREAD), out)
    out = np.where(np.isnan(lower) & (np.asarray(n_units) < 2), np.int8(Reason.ONE_UNIT), out)
    return np.where(np.asarray(reason) != 0, np.asarray(reason, dtype=np.int8), out).astype(np.int8)


_TOLD = {
    Reason.FEW_RARE_LABELS: f"fewer than {FEW_LABELS} sampling units have a label beside the commonest one",
    Reason.FEW_DISAGREEMENTS: f"the disagreements amount to fewer than {FEW_APART} sampling units",
}


def warn_intervals(result: xr.Dataset, names: Iterable[str]) -> None:
    """One warning per call where intervals may miss their level, with counts and the names of the cells."""
    told = {}
    given = [name for name in names if f"{name}_interval_reason" in result.variables]
    reasons = {name: np.asarray(result.variables[f"{name}_interval_reason"].values) for name in given}
    for reason, why in _TOLD.items():
        cells: dict[str, None] = {}
        counts = []
        for name, texts in reasons.items():
            found = np.argwhere(texts == reason.text)
            if len(found):
                counts.append(f"{name} {len(found)} of {texts.size}")
                of_name = result[f"{name}_interval_reason"]
                cells |= dict.fromkeys(_cell(of_name, place) for place in found[:_MOST])
        if counts:
            shown = [cell for cell in cells if cell]
            where = f" ({listing(shown, show='str')})" if shown else ""
            told[why] = f"{', '.join(counts)}{where}"
    if told:
        parts = "; ".join(f"{where}, since {why}" for why, where in told.items())
        warn(
            f"Intervals may miss their level (see `*_interval_reason`): {parts}. Ask for more such items, or "
            "read these intervals as rough.",
            IntervalWarning,
        )


_MOST = 50
"""Cells of a statistic that are looked at for their names."""


def _cell(reasons: xr.DataArray, place: npt.NDArray[np.intp]) -> str:
    """Name of one estimate, by the coordinates of its dims."""
    words = []
    for dim, position in zip(reasons.dims, place.tolist(), strict=True):
        label = reasons[dim].values[position] if dim in reasons.coords else position
        words.append(f"{dim} {label!s}")
    return " / ".join(words)

"""Coefficients of many raters as the verb asks for them: by name, and checked against the scale."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError, listing
from xjudge.labelled._common import agreement_weights
from xjudge.labelled._labels import Columns
from xjudge.protocol import Protocol
from xjudge.statistics.raters import (
    ICC_FORMS,
    RATER_COEFFICIENTS,
    ItemStatistic,
    icc_statistic,
    item_statistic,
    pair_statistic,
)
from xjudge.statistics.weights import METRICS, ORDERED_METRICS

__all__ = ["Choices", "Measure", "measures"]

Floats = npt.NDArray[np.float64]

_ALIASES = {"gwet_ac1": "gwet_ac", "gwet_ac2": "gwet_ac"}
_PAIRS = ("light_kappa", "mean_pairwise_kappa")
_KINDS_IN_NUMBERS = ("binary", "ordinal", "interval", "continuous")


class Choices(NamedTuple):
    """What the caller may choose for some coefficients."""

    metric: Any = None
    """Of alpha: a name, a matrix, or nothing."""
    weights: Any = None
    """Agreement weights; of alpha too, where there is no metric."""
    shares: str = "pooled"
    """Category shares of Fleiss' kappa."""
    period: float | None = None
    """Length of the circle of the circular metric."""


@dataclass(frozen=True, eq=False)
class Measure:
    """One coefficient of many raters, and what it is computed from.

    Parameters
    ----------
    name : str
        As results call it.
    data : {"counts", "labels", "scores"}
        Count vectors, label codes, or numbers (continuous scales).
    form : str or None
        Of an intraclass correlation.
    metric : str or None
        Of alpha, where it has a name.
    coefficient : ItemStatistic or None
        ``None`` where it can be made only once the numbers are known.
    scores : ndarray, shape (L,), or None
        The number each category stands for, for intraclass correlations of labels.
    period : float or None
        Length of the circle, where numbers lie on one.
    """

    name: str
    data: str
    form: str | None
    metric: str | None
    coefficient: ItemStatistic | None
    scores: Floats | None
    period: float | None = None

    def of(self, rows: npt.NDArray[Any]) -> ItemStatistic | None:
        """The statistic for some rows (..., rater); ``None`` for alpha of numbers, which needs them all."""
        if self.coefficient is not None or self.form is None:
            return self.coefficient
        known = rows[~np.isnan(rows)]
        # about a number that occurs, so that nothing is left where all are equal
        center = float(known[np.abs(known - known.mean()).argmin()]) if known.size else 0.0
        return icc_statistic(self.form, rows.shape[-1], center=center)


def measures(
    statistic: str | Sequence[str],
    choices: Choices,
    columns: Columns,
    protocol: Protocol,
    n_raters: int,
) -> list[Measure]:
    """Coefficients by name, checked against the scale.

    Parameters
    ----------
    statistic : str or sequence of str
    choices : Choices
    columns : Columns
    protocol : Protocol
    n_raters : int

    Raises
    ------
    ProtocolError
        Unknown names, and what the scale or the coefficient cannot carry.
    """
    names = [statistic] if isinstance(statistic, str) else list(statistic)
    if not names:
        raise ProtocolError("`statistic` is an empty list; name at least one coefficient.")
    names = [_plain_icc(name) for name in names]
    if len(set(names)) != len(names):
        raise ProtocolError(f"`statistic` names a coefficient twice: {listing(names, most=9)}.")
    unknown = [name for name in names if _known(name) is None]
    if unknown:
        known = [*RATER_COEFFICIENTS, *_ALIASES, *(f"icc({form})" for form in ICC_FORMS)]
        raise ProtocolError(
            f"There is no coefficient of many raters {listing(unknown)}; there are {', '.join(known)}."
        )
    if choices.shares not in ("pooled", "item_mean"):
        raise ProtocolError(f"`shares` is 'pooled' or 'item_mean'; got {choices.shares!r}.")
    problems = [p for name in names if (p := _unfit(name, columns, protocol)) is not None]
    if problems:
        raise ProtocolError(" ".join(problems))
    _check_choices(names, choices, columns)
    return [_measure(name, choices, columns, n_raters) for name in names]


def _plain_icc(name: Any) -> str:
    """``ICC(a, 1)`` as ``icc(A,1)``; other names as they are."""
    found = re.fullmatch(r"\s*icc\s*\((.+)\)\s*", str(name), flags=re.IGNORECASE)
    if not found:
        return str(name)
    parts = [part.strip() for part in found[1].split(",")]
    form = ",".join(part.upper() if place == 0 else part.lower() for place, part in enumerate(parts))
    return f"icc({'1' if form == '1,1' else form})"


def _known(name: str) -> str | None:
    """Name of the coefficient in the statistics rooms; ``None`` where there is none."""
    if name.startswith("icc("):
        return name if name[4:-1] in ICC_FORMS else None
    full = _ALIASES.get(name, name)
    return full if full in RATER_COEFFICIENTS else None


def _unfit(name: str, columns: Columns, protocol: Protocol) -> str | None:
    """Why the scale cannot carry a coefficient, and what it can; ``None`` where it fits."""
    scale = columns.scale
    if name.startswith("icc("):
        if scale.kind in _KINDS_IN_NUMBERS:
            return None
        return (
            f"`{name}` needs numbers, and under {protocol!r} the scale is {scale!r}. Ask for alpha, "
            "fleiss_kappa or gwet_ac, or declare the scale as ordinal or interval."
        )
    if scale.kind == "continuous" and name != "alpha":
        return (
            f"`{name}` needs categories, and under {protocol!r} the scale is {scale!r}. Ask for alpha or "
            "icc(A,1)."
        )
    return None


def _check_choices(names: Sequence[str], chosen: Choices, columns: Columns) -> None:
    """Refuse choices that no coefficient knows, and distances that the scale does not have."""
    scale = columns.scale
    metric, weights, shares, period = chosen
    choices = {
        choice
        for name in names
        if not name.startswith("icc(")
        for choice in RATER_COEFFICIENTS[str(_known(name))].choices
    }
    _check_period(metric, period, columns)
    if metric is not None and "metric" not in choices:
        raise ProtocolError(f"`metric` is a choice of alpha; {listing(names)} takes `weights`.")
    if weights is not None and "weights" not in choices:
        raise ProtocolError(f"`weights` do not act on {listing(names, most=9)}.")
    if shares != "pooled" and "shares" not in choices:
        raise ProtocolError(f"`shares` is a choice of fleiss_kappa; it does not act on {listing(names)}.")
    if metric is not None and weights is not None and list(names) == ["alpha"]:
        raise ProtocolError("Alpha takes a `metric` or `weights`, not both.")
    if scale.kind == "continuous":
        if weights is not None:
            raise ProtocolError(f"`weights` are of categories, and the scale is {scale!r}; use `metric`.")
        if metric is not None and (not isinstance(metric, str) or metric not in _METRICS_OF_NUMBERS):
            raise ProtocolError(
                f"`metric` of numbers is one of {listing(_METRICS_OF_NUMBERS, most=9)}; got {metric!r}."
            )
        return
    if isinstance(metric, str):
        if metric not in METRICS:
            raise ProtocolError(
                f"`metric` is one of {listing(METRICS, most=9)} or a matrix of {scale.n_categories} x "
                f"{scale.n_categories}; got {metric!r}."
            )
        if metric in ORDERED_METRICS and columns.outcomes:
            raise ProtocolError(
                f"`metric={metric!r}` needs an order, and {listing(columns.outcomes)} has no place in it. "
                f"Give distances as a matrix over {listing(scale.categories, most=9)} "
                "(see xj.costs_from_scores)."
            )
        if metric in ORDERED_METRICS and not scale.ordered:
            raise ProtocolError(
                f"`metric={metric!r}` needs an ordered scale, and {scale!r} has no order. Give a matrix, or "
                "declare the scale as ordinal."
            )


_METRICS_OF_NUMBERS = ("interval", "ordinal", "nominal", "ratio", "circular")


def _check_period(metric: Any, period: float | None, columns: Columns) -> None:
    """Refuse a circle without its length where numbers have any, and a length without a circle."""
    scale = columns.scale
    circular = isinstance(metric, str) and metric == "circular"
    if circular and scale.kind == "continuous" and period is None:
        raise ProtocolError(
            "`metric='circular'` of numbers needs the length of the circle, e.g. `period=24` for hours."
        )
    if period is None:
        return
    if not circular or scale.kind not in ("interval", "continuous"):
        raise ProtocolError(
            f"`period` goes with metric='circular' on an interval or continuous scale; got metric={metric!r} "
            f"and the scale {scale!r}."
        )
    if isinstance(period, bool | str) or not 0 < period < np.inf:
        raise ProtocolError(f"`period` must be positive and finite; got {period!r}.")


def _circular(scores: Floats, period: float) -> Floats:
    """Circular distances between the values of an interval scale."""
    turn = (scores[:, None] - scores) / period
    if (np.abs(turn - np.round(turn)) < _SAME_PLACE)[~np.eye(len(scores), dtype=bool)].any():
        raise ProtocolError(
            f"Two values of the scale {listing(scores.tolist(), most=9)} are one place on a circle of "
            f"`period={period!r}`."
        )
    return np.asarray(np.sin(np.pi * turn) ** 2)


_SAME_PLACE = 1e-9


def _measure(name: str, choices: Choices, columns: Columns, n_raters: int) -> Measure:
    metric, weights, shares, period = choices
    scale, full = columns.scale, str(_known(name))
    continuous = scale.kind == "continuous"
    if name.startswith("icc("):
        form = name[4:-1]
        if continuous:
            return Measure(name, "scores", form, None, None, None)
        center = float(scale.scores[scale.n_categories // 2])
        coefficient = icc_statistic(form, n_raters, scale.scores, center=center)
        return Measure(name, "labels", form, None, coefficient, scale.scores)
    if continuous:
        return Measure(name, "scores", None, metric or "interval", None, None, period)
    matrix = agreement_weights(weights, None, scale, columns.outcomes)
    if full in _PAIRS:
        return Measure(
            name, "labels", None, None, pair_statistic(full, scale.n_categories, n_raters, matrix), None
        )
    options: dict[str, Any] = {"weights": matrix}
    used = None
    if full == "alpha" and (metric is not None or matrix is None):
        used = "nominal" if metric is None else metric
        of_circle = period is not None and isinstance(used, str)
        distances = _circular(scale.scores, float(cast(float, period))) if of_circle else used
        options = {"metric": distances, "scores": scale.scores if scale.kind == "interval" else None}
    if full == "fleiss_kappa":
        options["shares"] = shares
    coefficient = item_statistic(full, scale.n_categories, **options)
    kind = "labels" if coefficient.needs == "labels" else "counts"
    return Measure(name, kind, None, used if isinstance(used, str) else None, coefficient, None)

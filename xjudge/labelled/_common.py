"""What the labelled rooms share: choice of statistics and matrices, assembling and flattening results."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from xjudge.errors import (
    ProtocolError,
    ProtocolWarning,
    Reason,
    StructureError,
    UndefinedWarning,
    listing,
    reason_text,
    warn,
)
from xjudge.protocol import Protocol, Resolved
from xjudge.scale import Category, Scale
from xjudge.statistics.coefficients import COEFFICIENTS
from xjudge.statistics.scores import SCORE_STATISTICS
from xjudge.statistics.weights import (
    COST_NAMES,
    ORDERED_WEIGHTS,
    WEIGHT_NAMES,
    cost_matrix,
    weight_matrix,
    weights_from_costs,
)

__all__ = [
    "REFERENCES",
    "agreement_weights",
    "chosen_statistics",
    "costs_from_scores",
    "flat_attrs",
    "of_raters",
    "texts",
    "tidy",
    "version",
    "warn_recoded",
    "warn_undefined",
]

REFERENCES = ("each", "pooled", "majority")
"""Words for `reference`; any other text is the name of a rater."""

_NEEDS = {
    "two": "needs exactly two categories",
    "positive": "needs a positive and a negative category",
}


@functools.cache
def version() -> str:
    """Version of the installed library, for the attributes of results."""
    return metadata.version("xjudge")


def of_raters(labels: npt.NDArray[Any], raters: Sequence[int]) -> npt.NDArray[Any]:
    """Labels (item, rater, ...) of some raters: where these stand side by side, without a copy."""
    first = raters[0] if len(raters) else 0
    if list(raters) == list(range(first, first + len(raters))):
        return labels[:, first : first + len(raters)]
    return labels[:, list(raters)]


def chosen_statistics(
    statistic: str | Sequence[str] | None, scales: Sequence[tuple[Protocol, Scale]]
) -> list[str]:
    """Names of the statistics to compute, checked against the scale of every protocol's tables.

    ``None`` is accuracy, kappa, and phi (two categories) or mcc; on a continuous scale pearson, concordance
    and mean_absolute_error. ``"limits_of_agreement"`` stands for the lower and the upper one. Of the
    coefficients that are one number on two categories (phi, mcc and the correlations) one is kept, with a
    warning.

    Raises
    ------
    ProtocolError
        Unknown names, and statistics that a scale cannot carry; all in one message.
    """
    if statistic is None:
        if all(scale.kind == "continuous" for _, scale in scales):
            return ["pearson", "concordance", "mean_absolute_error"]
        two = all(scale.n_categories == 2 for _, scale in scales)
        statistic = ["accuracy", "kappa", "phi" if two else "mcc"]
    names = [statistic] if isinstance(statistic, str) else list(statistic)
    if not names:
        raise ProtocolError("`statistic` is an empty list; name at least one statistic.")
    names = [full for name in names for full in _SHORT.get(name, (name,))]
    if len(set(names)) != len(names):
        raise ProtocolError(f"`statistic` names a statistic twice: {listing(names, most=9)}.")
    unknown = [name for name in names if name not in COEFFICIENTS and name not in SCORE_STATISTICS]
    if unknown:
        known = ", ".join([*COEFFICIENTS, *SCORE_STATISTICS])
        raise ProtocolError(f"There is no statistic {listing(unknown)}; there are {known}.")
    problems: dict[str, None] = {}
    hints: dict[str, None] = {}
    for protocol, scale in scales:
        for name in names:
            found = _unfit(name, scale)
            if found is not None:
                problems[f"`{name}` {found[0]}, and under {protocol!r} the scale is {scale!r}."] = None
                hints[found[1]] = None
    if problems:
        raise ProtocolError(" ".join([*problems, *hints]))
    return _one_of_identical(names, [scale for _, scale in scales])


_SHORT = {"limits_of_agreement": ("lower_limit_of_agreement", "upper_limit_of_agreement")}

_CONTINUOUS_HINT = (
    "Ask for pearson, spearman, kendall_tau_b, concordance, mean_error, mean_absolute_error, rmse."
)
_TWO_HINT = "Map the scale to two categories (xj.at_least, xj.one_of), or ask for accuracy, kappa or mcc."
_NUMBERS_HINT = "Ask for accuracy, kappa or mcc, or declare the scale as ordinal or interval."


def _unfit(name: str, scale: Scale) -> tuple[str, str] | None:
    """Why a scale cannot carry a statistic, and what to do; ``None`` where it can."""
    if name in SCORE_STATISTICS:
        if scale.kind in ("binary", "ordinal", "interval", "continuous"):
            return None
        return "needs categories in an order", _NUMBERS_HINT
    if scale.kind == "continuous":
        return "needs categories", _CONTINUOUS_HINT
    needs = COEFFICIENTS[name].needs
    binary = scale.kind == "binary"
    carried = needs == "categories" or (binary if needs == "positive" else scale.n_categories == 2)
    return None if carried else (_NEEDS[needs], _TWO_HINT)


IDENTICAL_ON_TWO = ("phi", "mcc", "pearson", "spearman", "kendall_tau_b")
"""On two categories these are one and the same number."""


def _one_of_identical(names: list[str], scales: Sequence[Scale]) -> list[str]:
    same = [name for name in names if name in IDENTICAL_ON_TWO]
    if len(same) < 2 or any(scale.n_categories != 2 for scale in scales):
        return names
    warn(
        f"On two categories {', '.join(same)} are one and the same number; the result has {same[0]} only.",
        ProtocolWarning,
    )
    return [name for name in names if name not in same[1:]]


def agreement_weights(
    weights: Any, costs: Any, scale: Scale, outcomes: Sequence[Category]
) -> npt.NDArray[np.float64] | None:
    """Agreement weights on the scale of the tables, from names or matrices; ``None`` for identity.

    ``outcomes`` are the categories that are outcomes (CA, invalid).

    Raises
    ------
    ProtocolError
        Both given; a distance on a scale without an order; a distance where an outcome (CA, invalid) is
        a category, which has no place in the order.
    """
    if weights is None and costs is None:
        return None
    if weights is not None and costs is not None:
        raise ProtocolError("Give `weights` (agreement, diagonal 1) or `costs` (disagreement, diagonal 0).")
    word, given = ("weights", weights) if weights is not None else ("costs", costs)
    if isinstance(given, str):
        needs_order = given in ORDERED_WEIGHTS if word == "weights" else given != "nominal"
        known = WEIGHT_NAMES if word == "weights" else COST_NAMES
        if given not in known:
            raise ProtocolError(
                f"`{word}` is one of {listing(known, most=9)} or a matrix of {scale.n_categories} x "
                f"{scale.n_categories}; got {given!r}."
            )
        if needs_order and outcomes:
            raise ProtocolError(
                f"`{word}={given!r}` needs an order, and {listing(outcomes)} has no place "
                "in it. Give disagreement `costs` as a matrix over "
                f"{listing(scale.categories, most=9)} (see xj.costs_from_scores)."
            )
        if needs_order and not scale.ordered:
            raise ProtocolError(
                f"`{word}={given!r}` needs an ordered scale, and {scale!r} has no order. Give a matrix, or "
                "declare the scale as ordinal."
            )
    # categories without numbers of their own stand at their positions, which each matrix counts its own way
    scores = scale.scores if scale.kind == "interval" else None
    if word == "weights":
        return weight_matrix(given, scale.n_categories, scores)
    return weights_from_costs(cost_matrix(given, scale.n_categories, scores))


def flat_attrs(values: Mapping[str, Any]) -> dict[str, str | int | float]:
    """Attributes as flat text and numbers, which every file format keeps; the rest as JSON."""
    out: dict[str, str | int | float] = {}
    for name, raw in values.items():
        value = raw.item() if isinstance(raw, np.generic) else raw
        if isinstance(value, Protocol | Scale):
            out[name] = value.to_json()
        elif isinstance(value, bool) or not isinstance(value, str | int | float):
            out[name] = json.dumps(_plain(value), ensure_ascii=False)
        else:
            out[name] = value
    return out


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return [_plain(v) for v in value.tolist()]
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    return value


def warn_undefined(result: xr.Dataset, names: Iterable[str]) -> None:
    """One warning per call with the number of undefined values and their reasons."""
    parts = []
    for name in names:
        reasons = np.asarray(result.variables[f"{name}_reason"].values, dtype=str).ravel()
        undefined = reasons[reasons != Reason.OK.text]
        if not len(undefined):
            continue
        words, counts = np.unique(undefined, return_counts=True)
        quiet = (Reason.SAME_RATER.text,)
        told = [f"{c} x {w}" for w, c in zip(words, counts, strict=True) if w not in quiet]
        if told:
            parts.append(f"{name}: {', '.join(told)}")
    if parts:
        warn(
            f"Undefined values are NaN, with the reason in `*_reason` ({'; '.join(parts)}).", UndefinedWarning
        )


def warn_recoded(resolved: Sequence[Resolved]) -> None:
    """One warning per call where a protocol recodes what has no canonical category."""
    recoded = sorted({name for r in resolved for name in r.recoded()})
    if recoded:
        kinds = {"invalid": "invalid outputs", "tie": "ties"}
        what = " and ".join(kinds[name] for name in recoded)
        warn(
            f"The protocol recodes {what} to a category; there is no canonical one, "
            "so report the result beside the one by exclusion.",
            ProtocolWarning,
        )


def texts(codes: npt.NDArray[np.int8]) -> npt.NDArray[np.str_]:
    """Reasons as results carry them."""
    return reason_text(codes)


def tidy(result: xr.Dataset) -> pd.DataFrame:
    """One row per estimate: coordinates, then values, intervals, ranges, reasons and counts.

    Parameters
    ----------
    result : Dataset
        What a verb returned.

    Returns
    -------
    DataFrame
        The human's column is named ``human`` everywhere. ``x_interval`` becomes ``x_lower`` and
        ``x_upper``; other intervals and ranges ``x_range_lower``, ``x_range_upper`` and the like. The
        dims are those of the estimates; a variable on other dims (the pairs of ``rates``) stays in the
        Dataset and is listed in ``frame.attrs["left_out"]``.

    Raises
    ------
    StructureError
        Where the dataset is not a result of a verb.

    Examples
    --------
    >>> import xjudge as xj
    >>> result = xj.agreement(xj.load_example(), reference="pooled", protocol=xj.Protocol(aggregate="micro"))
    >>> xj.tidy(result)[["rater", "accuracy", "kappa", "n"]].shape
    (4, 4)
    """
    if "verb" not in getattr(result, "attrs", {}):
        raise StructureError("`tidy` takes what a verb returned (a Dataset with the attribute `verb`).")
    wide: dict[str, xr.DataArray] = {}
    for raw, variable in result.data_vars.items():
        name = str(raw)
        if "bound" in variable.dims:
            stem = name.removesuffix("_interval") if name.endswith("_interval") else name
            if stem.endswith(("_range", "_value")) and name.endswith("_interval"):
                stem = name  # x_range_interval, x_value_interval keep their kind
            for bound in ("lower", "upper"):
                wide[f"{stem}_{bound}"] = variable.sel(bound=bound, drop=True)
        elif "statistic" in variable.dims:
            for statistic in variable["statistic"].values:
                wide[f"{statistic}_{name}"] = variable.sel(statistic=statistic, drop=True)
        else:
            wide[name] = variable
    main = _main_dims(wide)
    kept = {name: variable for name, variable in wide.items() if set(variable.dims) <= set(main)}
    flat = xr.Dataset({name: variable.drop_vars(_foreign(variable, main)) for name, variable in kept.items()})
    frame = flat.to_dataframe(dim_order=main).reset_index() if main else _one_row(flat)
    frame = frame.rename(columns={"reference": "human"})
    first = ["human" if dim == "reference" else dim for dim in main]
    if "human" not in first and "human" in frame.columns:
        first.append("human")
    values = [name for name in kept if name in frame.columns]
    rest = [c for c in frame.columns if c not in first and c not in values]
    frame = frame[[*first, *rest, *values]]
    frame.attrs["left_out"] = [name for name in wide if name not in kept]
    return frame


def _main_dims(wide: Mapping[str, xr.DataArray]) -> list[str]:
    """Dims of the estimates: of the variable with a reason that has the most of them, else of the first."""
    estimates = [variable for name, variable in wide.items() if f"{name}_reason" in wide]
    main = max(estimates or list(wide.values())[:1], key=lambda variable: variable.ndim, default=None)
    return [] if main is None else [str(dim) for dim in main.dims]


def _foreign(variable: xr.DataArray, dims: Sequence[str]) -> list[Any]:
    return [name for name, c in variable.coords.items() if not set(c.dims) <= set(dims)]


def _one_row(flat: xr.Dataset) -> pd.DataFrame:
    return pd.DataFrame([{str(name): flat[name].values[()] for name in [*flat.coords, *flat.data_vars]}])


def costs_from_scores(scores: Sequence[float]) -> dict[str, npt.NDArray[np.float64]]:
    """Disagreement costs from a score per category: nominal, linear and quadratic.

    Parameters
    ----------
    scores : sequence of float
        One per category of the protocol, in its order, outcomes last: ``[0, 1, 0.5]`` puts "cannot
        assess" half way between negative and positive.

    Returns
    -------
    dict of (L, L) ndarray
        ``nominal`` (0 or 1), ``linear`` (distance of the scores), ``quadratic`` (its square): give it to
        ``agreement(costs=...)`` to see how a weighted statistic depends on the choice.

    Raises
    ------
    ProtocolError
        Fewer than two scores, scores that are not finite, or all equal.

    Examples
    --------
    >>> costs_from_scores([0, 1, 0.5])["quadratic"].tolist()
    [[0.0, 1.0, 0.25], [1.0, 0.0, 0.25], [0.25, 0.25, 0.0]]
    """
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1 or len(values) < 2 or not np.isfinite(values).all() or np.ptp(values) == 0:
        raise ProtocolError(
            f"`costs_from_scores` takes at least two finite scores that are not all equal; got {scores!r}."
        )
    distance = np.abs(values[:, None] - values)
    return {"nominal": 1.0 - np.eye(len(values)), "linear": distance, "quadratic": distance**2}

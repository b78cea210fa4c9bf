"""Adjusted estimates of every pair of raters, table by table."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.codes import CA, INVALID, MISSING, to_codes, translate
from xjudge.columns import criterion_weights
from xjudge.labelled._common import texts
from xjudge.labelled._evaluation import averaged
from xjudge.labelled._pass import Pass, Plan
from xjudge.lazy import materialise
from xjudge.statistics import adjust as models
from xjudge.statistics import bounds
from xjudge.statistics.coefficients import evaluate

__all__ = ["Asked", "estimated_pairs", "votes"]

Floats = npt.NDArray[np.float64]


def votes(counting: Pass, plan: Plan) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Codes (item, rater, cell) of both sides in the table's categories, in one compute.

    Open is every CA and invalid; what is outside the population, or of no category, is missing.
    """
    population = counting.cases.arrays.get("population")
    wanted = [counting.arrays["codes"], counting.arrays[plan.right]]
    codes, votes, *mask = materialise(*wanted, *([] if population is None else [population]))
    counting.arrays |= {"codes": codes, plan.right: votes}
    if mask:
        counting.cases.arrays["population"] = np.asarray(mask[0])
    counting.run(lambda counted: {}, compute=True)  # for its checks of the values
    known = translate(to_codes(np.asarray(votes)), plan.right_targets)
    known = np.where((known >= 0) | np.isin(known, (CA, INVALID)), known, MISSING)
    if mask:
        within = np.asarray(mask[0])[:, 0]
        keep = within[:, None, None] if within.ndim == 1 else within[:, None, :]
        known = np.where(keep, known, MISSING)
    sides = counting.sides
    return known[:, list(sides.left)], known[:, list(sides.right)]


class Asked(NamedTuple):
    """What is asked of every pair of raters and table."""

    names: Sequence[str]
    """Statistics."""
    method: str
    weights: Floats | None
    """Agreement weights."""


def estimated_pairs(
    counting: Pass,
    plan: Plan,
    left: npt.NDArray[Any],
    right: npt.NDArray[Any],
    numbers: Floats,
    items: npt.NDArray[np.integer],
    asked: Asked,
) -> dict[str, npt.NDArray[Any]]:
    """Estimates of all pairs of raters and tables: arrays (slice, criterion, other, A, B, ...).

    ``items`` are the groups over which standard errors are taken. Without slices their axis has size 1.
    """
    n_criteria, n_other = plan.n_criteria, left.shape[2] // plan.n_criteria
    slices = counting.cases.slices
    group = np.asarray(counting.cases.arrays.get("group", np.zeros(len(items), dtype=np.int64)))
    lead = (1 if slices is None else len(slices), n_other, left.shape[1], right.shape[1])
    out: dict[str, npt.NDArray[Any]] = {}
    for place in product(*map(range, lead)):
        k, other, a, b = place

        def one(criteria: Sequence[int], k: int = k, other: int = other, a: int = a, b: int = b) -> _Cases:
            cells = [criterion * n_other + other for criterion in criteria]
            # the cases item by item, an item's criteria after each other
            sides = left[:, a, cells].ravel(), right[:, b, cells].ravel()
            each = np.repeat(np.arange(len(items)), len(cells))
            keep = (sides[0] != MISSING) & (sides[1] != MISSING) & (group[each] == k)
            return _Cases(sides[0][keep], sides[1][keep], numbers[each[keep]], each[keep], items[each[keep]])

        if plan.aggregate == "micro":
            found = [_pair(plan, one(range(n_criteria)), asked)]
        else:
            found = [_pair(plan, one([criterion]), asked) for criterion in range(n_criteria)]
        if plan.aggregate == "macro":
            weights = criterion_weights(counting.view, plan.resolved.protocol)
            cases = [one([criterion]) for criterion in range(n_criteria)]
            found = [_mean(found, cases, weights, asked) | _linked(one(range(n_criteria)))]
        for criterion, values in enumerate(found):
            for name, value in values.items():
                array = np.asarray(value)
                if name not in out:
                    shape = (lead[0], len(found), *lead[1:], *array.shape)
                    out[name] = np.empty(shape, dtype=array.dtype)
                out[name][k, criterion, other, a, b] = array
    out.pop("influence", None)
    return {name: texts(array) if name.endswith("_reason") else array for name, array in out.items()}


class _Cases(NamedTuple):
    """The cases of one table: codes of both sides, features, item and group of each."""

    a: npt.NDArray[Any]
    b: npt.NDArray[Any]
    numbers: Floats
    each: npt.NDArray[np.integer]
    groups: npt.NDArray[np.integer]


def _pair(plan: Plan, cases: _Cases, asked: Asked) -> dict[str, Any]:
    """Everything about one table."""
    a, b, size = cases.a, cases.b, plan.scale.n_categories
    known = (a >= 0) & (b >= 0)
    table = np.zeros((size + 1, size + 1), dtype=np.int64)
    np.add.at(table, (np.where(a >= 0, a, size), np.where(b >= 0, b, size)), 1)
    found = models.adjusted_coefficient(
        asked.names,
        cases.numbers,
        a,
        b,
        size,
        method=asked.method,
        groups=cases.groups,
        weights=asked.weights,
    )
    out: dict[str, Any] = {}
    for k, name in enumerate(asked.names):
        value = evaluate(name, table[:size, :size], asked.weights)
        lower, upper, kind = _range(plan, name, table, asked.weights)
        out |= {
            name: value.value,
            f"{name}_reason": value.reason,
            f"{name}_adjusted": found.value[k],
            f"{name}_adjusted_reason": found.reason[k],
            f"{name}_adjusted_se": found.standard_error[k],
            f"{name}_range": np.array([lower, upper], dtype=np.float64),
            f"{name}_range_kind": np.array(kind, dtype="<U5"),
        }
    n, total = int(known.sum()), len(known)
    out |= {
        "n": n,
        "n_items": len(np.unique(cases.each[known])),
        "n_eligible": total,
        "coverage": n / total if total else np.nan,
        **found.positivity._asdict(),
    }
    if plan.aggregate == "macro":
        return out | {"influence": found.influence}
    return out | _linked(cases)


def _linked(cases: _Cases) -> dict[str, Any]:
    """Association of open cases with the features."""
    linked = models.association(cases.numbers, (cases.a >= 0) & (cases.b >= 0), groups=cases.groups)
    return {
        "abstention_coefficient": linked.coefficient,
        "abstention_odds_ratio": np.exp(np.minimum(linked.coefficient, 700.0)),
        "abstention_se": linked.standard_error,
        "abstention_p_value": linked.p_value,
        "abstention_reason": linked.reason,
    }


def _mean(found: list[dict[str, Any]], cases: list[_Cases], weights: Floats, asked: Asked) -> dict[str, Any]:
    """Means over criteria of what is defined; standard errors of the mean over the same groups."""
    out: dict[str, Any] = {}
    included = []
    for k, name in enumerate(asked.names):
        for word in ("", "_adjusted"):
            value = np.array([one[name + word] for one in found], dtype=np.float64)
            reason = np.array([one[f"{name}{word}_reason"] for one in found], dtype=np.int8)
            mean, why, n_included = averaged(weights, _stood(value), _stood(reason))
            out |= {name + word: mean.item(), f"{name}{word}_reason": np.int8(why.item())}
        defined = reason == 0
        portion = np.where(defined, weights, 0.0)
        portion = portion / portion.sum() if portion.sum() > 0 else portion
        used = np.flatnonzero(portion)
        se = np.nan
        if len(used):
            own = np.concatenate([found[c]["influence"][k] * portion[c] for c in used])
            se = models.error_over_groups(own, np.concatenate([cases[c].groups for c in used]))
        ends = np.array([one[f"{name}_range"] for one in found])
        inside = ~np.isnan(ends[:, 0])
        share = np.where(inside, weights, 0.0)
        lower_upper = (share[:, None] * np.nan_to_num(ends)).sum(0) / share.sum() if inside.any() else ends[0]
        kinds = {str(one[f"{name}_range_kind"]) for one, there in zip(found, inside, strict=True) if there}
        kind = "none" if not kinds else "sharp" if kinds == {"sharp"} else "outer"
        out |= {
            f"{name}_adjusted_se": se,
            f"{name}_range": lower_upper,
            f"{name}_range_kind": np.array(kind, dtype="<U5"),
        }
        included.append(n_included.item())
    n, total = (sum(one[name] for one in found) for name in ("n", "n_eligible"))
    each = np.concatenate([one.each[(one.a >= 0) & (one.b >= 0)] for one in cases])
    positive = [one for one in found if one["n"]]
    return out | {
        "n": n,
        "n_items": len(np.unique(each)),
        "n_eligible": total,
        "coverage": n / total if total else np.nan,
        "least_coverage": min((one["least_coverage"] for one in positive), default=np.nan),
        "effective_n": float(sum(one["effective_n"] for one in positive)),
        "largest_weight": max((one["largest_weight"] for one in positive), default=np.nan),
        "n_criteria": len(found),
        "n_criteria_included": np.array(included, dtype=np.int64),
    }


def _stood(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Criteria on the axis on which they are averaged."""
    return values.reshape(-1, 1, 1, 1)


def _range(
    plan: Plan, name: str, table: npt.NDArray[np.int64], weights: Floats | None
) -> tuple[Any, Any, str]:
    """Range over completions, and whether it is sharp; NaN where the statistic has none."""
    rule = plan.resolved.protocol.item_rule
    loose = plan.aggregate == "item" and rule is not None and rule.kind == "sum"
    w = weights if name == "kappa" else None
    if name in ("accuracy", "kappa") and (w is not None or plan.scale.n_categories > 2):
        found = bounds.category_bounds(table, name, weights=w)
        return found.lower, found.upper, "outer" if loose else str(found.kind)
    if plan.scale.n_categories == 2:
        known = "phi" if name == "mcc" else name
        if known in bounds.STATISTICS:
            return *bounds.sharp_bounds(table, known), "outer" if loose else "sharp"
    return np.nan, np.nan, "none"

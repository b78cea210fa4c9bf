"""Adjusted estimates of every pair of raters, table by table."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from xjudge.codes import CA, INVALID, MISSING, to_codes, translate
from xjudge.labelled._common import texts
from xjudge.labelled._pass import Pass, Plan
from xjudge.lazy import materialise
from xjudge.statistics import adjust as models
from xjudge.statistics import bounds
from xjudge.statistics.coefficients import evaluate

__all__ = ["estimated_pairs", "votes"]

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


def estimated_pairs(
    plan: Plan,
    left: npt.NDArray[Any],
    right: npt.NDArray[Any],
    numbers: Floats,
    items: npt.NDArray[np.integer],
    names: Sequence[str],
    method: str,
) -> dict[str, npt.NDArray[Any]]:
    """Estimates of all pairs of raters and tables: arrays (criterion, other, A, B, ...)."""
    n_criteria, n_other = plan.n_criteria, left.shape[2] // plan.n_criteria
    pooled = plan.aggregate == "micro"
    lead = (1 if pooled else n_criteria, n_other, left.shape[1], right.shape[1])
    out: dict[str, npt.NDArray[Any]] = {}
    for place in product(*map(range, lead)):
        criterion, other, a, b = place
        first = range(n_criteria) if pooled else [criterion]
        cells = [c * n_other + other for c in first]
        # the cases item by item, an item's criteria after each other
        sides = left[:, a, cells].ravel(), right[:, b, cells].ravel()
        each = np.repeat(np.arange(len(items)), len(cells))
        keep = (sides[0] != MISSING) & (sides[1] != MISSING)
        each = each[keep]
        one = _pair(plan, sides[0][keep], sides[1][keep], numbers[each], each, items[each], names, method)
        for name, value in one.items():
            array = np.asarray(value)
            if name not in out:
                out[name] = np.empty((*lead, *array.shape), dtype=array.dtype)
            out[name][place] = array
    return {name: texts(array) if name.endswith("_reason") else array for name, array in out.items()}


def _pair(
    plan: Plan,
    a: npt.NDArray[Any],
    b: npt.NDArray[Any],
    numbers: Floats,
    each: npt.NDArray[np.integer],
    groups: npt.NDArray[np.integer],
    names: Sequence[str],
    method: str,
) -> dict[str, Any]:
    """Everything about one table."""
    size = plan.scale.n_categories
    known = (a >= 0) & (b >= 0)
    table = np.zeros((size + 1, size + 1), dtype=np.int64)
    np.add.at(table, (np.where(a >= 0, a, size), np.where(b >= 0, b, size)), 1)
    found = models.adjusted_coefficient(names, numbers, a, b, size, method=method, groups=groups)
    linked = models.association(numbers, known, groups=groups)
    out: dict[str, Any] = {}
    for k, name in enumerate(names):
        value = evaluate(name, table[:size, :size])
        lower, upper, kind = _range(plan, name, table)
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
        "n_items": len(np.unique(each[known])),
        "n_eligible": total,
        "coverage": n / total if total else np.nan,
        **found.positivity._asdict(),
        "abstention_coefficient": linked.coefficient,
        "abstention_odds_ratio": np.exp(np.minimum(linked.coefficient, 700.0)),
        "abstention_se": linked.standard_error,
        "abstention_p_value": linked.p_value,
        "abstention_reason": linked.reason,
    }
    return out


def _range(plan: Plan, name: str, table: npt.NDArray[np.int64]) -> tuple[Any, Any, str]:
    """Range over completions, and whether it is sharp; NaN where the statistic has none."""
    rule = plan.resolved.protocol.item_rule
    loose = plan.aggregate == "item" and rule is not None and rule.kind == "sum"
    if plan.scale.n_categories == 2:
        known = "phi" if name == "mcc" else name
        if known in bounds.STATISTICS:
            return *bounds.sharp_bounds(table, known), "outer" if loose else "sharp"
    elif name in ("accuracy", "kappa"):
        found = bounds.category_bounds(table, name)
        return found.lower, found.upper, "outer" if loose else str(found.kind)
    return np.nan, np.nan, "none"

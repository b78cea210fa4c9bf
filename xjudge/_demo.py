"""What `xjudge demo` shows: every part of the main job on the embedded example."""

from __future__ import annotations

import argparse
from typing import cast

import pandas as pd
import xarray as xr

from xjudge.labelled._common import tidy
from xjudge.labelled.adjust import adjust, prevalence
from xjudge.labelled.agreement import agreement, tables
from xjudge.labelled.bounds import breakdown, coverage_bounds
from xjudge.labelled.loo import loo_validate
from xjudge.labelled.panel import effective_size
from xjudge.outcomes import rates
from xjudge.protocol import Protocol
from xjudge.simulation import load_example

__all__ = ["Section", "demo"]

Section = tuple[str, str, pd.DataFrame]
"""Key for JSON, sentence above the table, table."""


_CLAIM = 0.8
"""The accuracy whose claim the demo puts to the test."""


def demo(chosen: argparse.Namespace) -> list[Section]:
    """Rates, tables, agreement under two protocols, ranges, verdicts and effective sizes of the example."""
    ds = load_example("rubric", seed=chosen.seed)
    outcomes = tidy(rates(ds, protocol=Protocol(aggregate="micro")))
    sections: list[Section] = [
        (
            "rates",
            "How often each rater answered, could not assess, or failed (pooled over criteria):",
            outcomes[["rater", "role", "answered", "ca", "invalid", "missing", "positive"]],
        )
    ]
    judge = str(ds["rater"].values[ds["role"].values == "judge"][0])
    counted = tables(ds, reference="pooled", judges=[judge], protocol=Protocol(aggregate="micro"))
    cells = cast(pd.DataFrame, counted["count"].sel(rater=judge).to_pandas())
    cells.index.name = "human"
    sections.append(
        ("table", f"Where {judge} meets the humans (rows human, columns judge):", cells.reset_index())
    )
    protocols = {
        "agreement_excluded": Protocol(aggregate="micro", ca="exclude"),
        "agreement_negative": Protocol(aggregate="micro", ca="negative"),
    }
    for key, protocol in protocols.items():
        found = tidy(agreement(ds, reference="pooled", protocol=protocol))
        columns = ["rater", "accuracy", "kappa", "phi", "n", "coverage", "rate_reference", "rate_rater"]
        sections.append((key, f"Agreement with the humans under {protocol!r}:", found[columns]))
    both = [section[2].set_index("rater")["accuracy"] for section in sections[-2:]]
    moved = pd.DataFrame({"rater": both[0].index, "accuracy_moves_by": (both[1] - both[0]).to_numpy()})
    sections.append(("moved", "The verdicts are the same; what the protocol alone does to accuracy:", moved))
    return sections + _unresolved(ds) + _assumed(ds, judge) + _verdicts(ds) + _worth(ds)


def _unresolved(ds: xr.Dataset) -> list[Section]:
    """What the cases without an answer could do, and how many of them it takes."""
    micro = Protocol(aggregate="micro")
    ranges = tidy(
        coverage_bounds(
            ds, statistic=["accuracy", "kappa"], reference="pooled", protocol=micro, interval=None
        )
    )
    ends = [f"{name}_range_{end}" for name in ("accuracy", "kappa") for end in ("lower", "upper")]
    fallen = tidy(breakdown(ds, "accuracy", _CLAIM, reference="pooled", protocol=micro))
    # infinity is no number in JSON; the reason says what it says
    fallen["breakdown"] = fallen["breakdown"].where(fallen["breakdown"] <= 1)
    return [
        (
            "ranges",
            "Whatever the unresolved answers would have been, the values lie in these ranges:",
            ranges[["rater", "n", "n_unresolved", *ends]],
        ),
        (
            "breakdown",
            f"Share of the unresolved answers that must be adverse to overturn `accuracy >= {_CLAIM}`:",
            fallen[["rater", "breakdown", "breakdown_reason"]],
        ),
    ]


def _assumed(ds: xr.Dataset, judge: str) -> list[Section]:
    """What follows if abstention is ignorable given a feature, and how many cases are positive."""
    human = str(ds["rater"].values[ds["role"].values == "human"][0])
    found = adjust(ds, "difficulty_band", reference=human, protocol=Protocol(aggregate="micro"))
    shown = tidy(found.drop_dims("feature"))
    columns = ["rater", "accuracy", "accuracy_adjusted", "accuracy_adjusted_lower", "accuracy_adjusted_upper"]
    columns += ["accuracy_range_lower", "accuracy_range_upper", "least_coverage", "effective_n"]
    first = ds.isel(criterion=[0])
    rows = []
    for method in ("naive", "rogan_gladen", "ppi++"):
        one = prevalence(first, judge, method=method, reference=human).isel(criterion=0)
        lower, upper = one["prevalence_interval"].values.tolist()
        rows.append((method, float(one["prevalence"]), lower, upper, bool(one["hurts"])))
    names = ["method", "prevalence", "prevalence_lower", "prevalence_upper", "hurts"]
    criterion = str(first["criterion"].values[0])
    return [
        (
            "adjusted",
            f"If whether an answer is given depends on the item's difficulty only, against {human} "
            "(the range holds without that):",
            shown[columns],
        ),
        (
            "prevalence",
            f"How many items are {criterion}, from the verdicts of {judge} and the labels of {human} "
            "(`hurts`: the labels alone tell more):",
            pd.DataFrame(rows, columns=names),
        ),
    ]


def _verdicts(ds: xr.Dataset) -> list[Section]:
    """Whether each judge may replace a human: every human held out in turn."""
    found = loo_validate(ds, protocol=Protocol(aggregate="micro"))
    shown = tidy(found.drop_dims("human"))
    shown["smallest_margin"] = found["margin"].min("human").to_numpy()
    shown["smallest_overlap"] = found["overlap"].min("human").to_numpy()
    return [
        (
            "verdicts",
            "May the judge replace a human? Each human held out in turn, a judge may be 0.05 worse:",
            shown[
                [
                    "rater",
                    "smallest_margin",
                    "smallest_overlap",
                    "omega",
                    "verdict",
                    "p_value_accept",
                    "p_value_reject",
                ]
            ],
        )
    ]


def _worth(ds: xr.Dataset) -> list[Section]:
    """How many humans the panel of all judges is worth, by what is asked of it."""
    found = effective_size(ds, protocol=Protocol(aggregate="micro"), interval=None)
    meant = {
        "participation_ratio": "independent judges, by the spread of their residuals",
        "nu_h": "independent humans with that spread",
        "n_eff": "independent judges, by their errors' correlation (Kish)",
        "nu_mse": "independent humans with the panel's error",
        "nu_mse_limit": "the same, of an endless panel like this",
    }
    sizes = pd.DataFrame(
        {
            "size": list(meant),
            "value": [float(found[name]) for name in meant],
            "meaning": list(meant.values()),
        }
    )
    return [("worth", f"What the panel of {found.sizes['rater']} judges is worth, by target:", sizes)]

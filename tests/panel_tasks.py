"""Published tasks as judge datasets, and calls without warnings, for tests."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import pandas as pd
import xarray as xr
from shared import SHARED

import xjudge as xj

TASKS = ("wax", "cebab_aspects", "cebab_stars", "summeval", "mtbench", "10k_prompts", "framing")
NUMERIC = ("cebab_stars", "summeval", "10k_prompts")


def quiet(verb: Any, *arguments: Any, **options: Any) -> xr.Dataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XJudgeWarning)
        return verb(*arguments, **options)


@cache
def published(task: str, ordered: bool = False) -> xr.Dataset:
    """Labels of a task; a unit is an item under a criterion, and numbers are names unless ``ordered``."""
    frame = pd.read_csv(
        SHARED / "data" / f"alttest_{task}.csv.gz",
        dtype={"item": str, "rater": str, "label": str},
        keep_default_na=False,
    )
    if "criterion" in frame:
        frame["item"] = frame["item"] + "__" + frame["criterion"]
        frame = frame.drop(columns="criterion")
    if task in NUMERIC:
        frame["label"] = frame["label"].astype(int)
    nominal = xj.Scale.nominal(sorted(set(frame["label"])))
    scale = xj.Scale.ordinal([1, 2, 3, 4, 5]) if ordered and task in NUMERIC else nominal
    return xj.from_long(frame, role="rater_kind", role_names={"llm": "judge"}, scale=scale)

"""Codes of a protocol in a block of items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from xjudge.codes import translate
from xjudge.statistics.counts import MASKED, Block, Options, extent_of

__all__ = ["Codes", "as_they_are", "codes_of", "inside_of", "options_of"]

Codes = npt.NDArray[np.signedinteger]


def codes_of(options: Options, block: Block) -> Codes:
    """Protocol codes (item, rater, criterion, other): categories, or negative where there is no label."""
    codes = block[options["left"]]
    columns = options["left_columns"]
    if columns is not None and tuple(columns) != tuple(range(codes.shape[1])):
        codes = codes[:, list(columns)]
    if not as_they_are(options) or extent_of(block, options["left"])[1] >= options["n_categories"]:
        codes = translate(codes, options["targets"])
    n_criteria = options["n_criteria"]
    return codes.reshape((*codes.shape[:2], n_criteria, codes.shape[2] // n_criteria))


def as_they_are(options: Options) -> bool:
    """Whether the codes are those of the protocol, its outcomes negative too."""
    targets, n_categories = options["targets"], options["n_categories"]
    same = targets[:n_categories] == tuple(range(n_categories))
    return same and all(target < 0 for target in targets[n_categories:])


def inside_of(options: Options, block: Block) -> npt.NDArray[np.bool_] | None:
    """Which units (item, criterion, other) are in the population; ``None`` where all are."""
    codes = block[options["left"]]
    if not codes.size or extent_of(block, options["left"])[0] > MASKED:
        return None
    n_criteria = options["n_criteria"]
    kept = np.asarray(codes[:, 0] != MASKED)  # a unit is masked for every rater, or for none
    return kept.reshape((len(codes), n_criteria, codes.shape[2] // n_criteria))


def options_of(
    array: str,
    columns: Sequence[int] | None,
    targets: Sequence[int],
    n_categories: int,
    n_criteria: int,
) -> dict[str, Any]:
    return {
        "left": array,
        "left_columns": None if columns is None else tuple(int(c) for c in columns),
        "targets": tuple(int(target) for target in targets),
        "n_categories": n_categories,
        "n_criteria": n_criteria,
    }

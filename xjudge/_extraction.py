"""Labels read from probabilities over the categories."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from xjudge.codes import MISSING, to_codes
from xjudge.errors import StructureError
from xjudge.lazy import item_positions, map_items, one_chunk_beside_items
from xjudge.protocol import Resolved
from xjudge.view import View

__all__ = ["extracted"]

Codes = npt.NDArray[np.signedinteger]


def extracted(view: View, resolved: Resolved, seed: int) -> Any:
    """Labels read from the judges' probabilities by the protocol's rule.

    Parameters
    ----------
    view : View
        With a variable ``prob(item, rater[, criterion], category)``.
    resolved : Resolved
        With an ``extraction``.
    seed : int
        For ``"sample"``: the draw of a label depends on the seed and on the label's place only.

    Returns
    -------
    array of signed int, shape (item, rater, cell)
        Raw codes. ``"argmax"``: the most probable category, the first of several; ``"expected"``: the
        category nearest to the expected score, halves upwards; ``"sample"``: a category drawn from the
        probabilities; ``cut(t)``: the most probable category of the side (positive or negative) that the
        probability of positive against ``t`` decides. Where there are no probabilities, and where the
        rater could not assess or failed, the label of the data stays.

    Raises
    ------
    StructureError
        No probabilities, or not over the categories of the scale.
    """
    prob = _probabilities(view)
    rule = resolved.protocol.extraction
    reader = _Reader(rule, resolved.targets, tuple(view.scale.scores.tolist()), seed)
    operands = [view.codes, prob] + ([item_positions(view.codes)] if rule == "sample" else [])
    return map_items(reader, operands, shape=view.codes.shape[1:], dtype=view.scale.dtype)


def _probabilities(view: View) -> Any:
    """Probabilities (item, rater, cell, category)."""
    if "prob" not in view.data.variables:
        raise StructureError(
            "`extraction` reads labels from probabilities, and the dataset has no variable `prob`; give "
            "`prob={category: column}` to xj.from_long."
        )
    variable = view.data["prob"]
    dims = ("item", "rater", *view.rest, "category")
    n = view.scale.n_categories
    if set(variable.dims) != set(dims) or variable.sizes["category"] != n:
        raise StructureError(f"`prob` lives on {variable.dims}; it should be {dims} with {n} categories.")
    array = one_chunk_beside_items(variable.variable.transpose(*dims).data)
    return array.reshape((*view.codes.shape, n))


class _Reader:
    """Reads raw codes from probabilities."""

    def __init__(self, rule: Any, targets: tuple[int, ...], scores: tuple[float, ...], seed: int) -> None:
        self.rule, self.targets, self.scores, self.seed = rule, np.array(targets), np.array(scores), seed

    def __call__(
        self,
        codes: npt.NDArray[Any],
        prob: npt.NDArray[np.float64],
        position: npt.NDArray[np.int64] | None = None,
    ) -> Codes:
        labels = to_codes(codes)
        readable = np.isfinite(prob).all(-1) & (prob.sum(-1) > 0) & ((labels >= 0) | (labels == MISSING))
        known = np.where(readable[..., None], prob, 1.0)
        return np.where(readable, self._read(known, position), labels)

    def _read(self, prob: npt.NDArray[np.float64], position: Any) -> npt.NDArray[np.intp]:
        if self.rule == "argmax":
            return prob.argmax(-1)
        if self.rule == "expected":
            mean = (prob * self.scores).sum(-1) / prob.sum(-1)
            return np.searchsorted((self.scores[1:] + self.scores[:-1]) / 2, mean, side="right")
        if self.rule == "sample":
            upto = np.cumsum(prob, axis=-1)
            drawn = _uniform(self.seed, position, prob.shape[1:-1]) * upto[..., -1]
            return (upto[..., :-1] <= drawn[..., None]).sum(-1)
        positive = self.targets[: len(self.scores)] == 1
        negative = self.targets[: len(self.scores)] == 0
        chosen = (prob * positive).sum(-1) >= float(self.rule.at)
        side = np.where(chosen[..., None], positive, negative)
        return np.where(side, prob, -1.0).argmax(-1)


def _uniform(seed: int, position: npt.NDArray[np.int64], shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """Uniform numbers that depend on seed and place only, so that chunking changes nothing (SplitMix64)."""
    n_places = int(np.prod(shape))
    place = position.astype(np.uint64)[:, None] * np.uint64(n_places) + np.arange(n_places, dtype=np.uint64)
    start = np.uint64(seed * 0xD1B54A32D192ED03 % 2**64)
    z: Any = (place + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + start
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return np.asarray((z >> np.uint64(11)) * 2.0**-53, dtype=np.float64).reshape((len(position), *shape))

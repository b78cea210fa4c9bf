"""Item verdicts: the criteria of an item combined by a protocol's rule, undecided ones in every way."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np
import numpy.typing as npt

from xjudge.codes import (
    CA,
    EXCLUDED,
    INVALID,
    LARGEST_SCORE,
    MISSING,
    OUTCOMES,
    to_codes,
    translate,
    unused_name,
)
from xjudge.errors import ProtocolError, StructureError, listing
from xjudge.lazy import map_items, metadata_values
from xjudge.protocol import Protocol, Resolved, decimal
from xjudge.scale import Scale
from xjudge.view import View

__all__ = ["ItemLevel", "criterion_weights", "item_level", "scored"]

Codes = npt.NDArray[np.signedinteger]


@dataclass(frozen=True)
class ItemLevel:
    """Item verdicts of every rater under a protocol.

    Parameters
    ----------
    codes : array, shape (item, rater, other)
        Codes of the item scale, lazy where the labels are.
    scale : Scale
        The scale of the tables: the item scale, and the outcomes that are categories.
    n_categories : int
        Categories of the item scale itself.
    targets : tuple of int
        Per place of the item scale's raw axis, the category of the tables or the outcome that remains.
    scores : array, shape (item, rater, other), optional
        Numbers of a continuous item scale, NaN where the item has none.
    """

    codes: Any
    scale: Scale
    n_categories: int
    targets: tuple[int, ...]
    scores: Any = None


def item_level(view: View, resolved: Resolved, codes: Any, scores: Any = None) -> ItemLevel:
    """Combine the criteria of each item by the protocol's rule.

    Parameters
    ----------
    view : View
    resolved : Resolved
        With ``aggregate="item"``.
    codes : array, shape (item, rater, cell)
        Raw codes (extracted ones, where the protocol extracts).
    scores : array, shape (item, rater, cell), optional
        Numbers of a continuous scale, see :func:`scored`.

    Returns
    -------
    ItemLevel
        A sum of integers has the possible sums as categories; any other sum is a continuous item scale.

    Raises
    ------
    ProtocolError
        Weights or polarities that do not fit the criteria; outcomes as categories of a continuous scale.
    """
    protocol = resolved.protocol
    weights = criterion_weights(view, protocol)
    flip = _polarity(view) < 0
    verdict: _Verdict
    if protocol.item_rule.kind == "sum":
        if scores is not None or not (_integral(weights) and _integral(resolved.mapped.scores)):
            return _real_sum(view, resolved, codes, scores, weights, flip)
        item_scale, verdict = _sum_rule(resolved, weights, flip)
    else:
        item_scale = resolved.mapped
        whole = _integers(weights)
        share = decimal(protocol.item_rule.cut) if protocol.item_rule.cut is not None else None
        verdict = _ShareVerdict(resolved.targets, tuple(whole), tuple(flip.tolist()), share)
    n_others = int(np.prod(list(view.others.values())))
    shape = (codes.shape[1], n_others)
    columns = map_items(verdict, [codes], shape=shape, dtype=item_scale.dtype)
    targets = list(range(item_scale.n_categories)) + list(OUTCOMES.values())
    added: list[str] = []
    for place, name in enumerate(OUTCOMES, start=item_scale.n_categories):
        if name != "missing" and getattr(protocol, name) == "category":
            targets[place] = item_scale.n_categories + len(added)
            label = {"ca": "CA", "invalid": "invalid"}[name]
            added.append(unused_name(label, [*item_scale.categories, *added]))
    scale = Scale.nominal([*item_scale.categories, *added]) if added else item_scale
    return ItemLevel(columns, scale, item_scale.n_categories, tuple(targets))


class _Verdict:
    """What item rules share: criterion codes of a block, and the outcome of an undecided item."""

    targets: tuple[int, ...]
    n_criteria: int

    def __call__(self, codes: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Item verdicts (item, rater, other) of a block."""
        raise TypeError("an item rule says how")

    def _criteria(self, codes: npt.NDArray[Any]) -> Codes:
        """Protocol codes (item, rater, criterion, other)."""
        known = translate(to_codes(codes), self.targets)
        n_others = codes.shape[2] // self.n_criteria
        return known.reshape((*codes.shape[:2], self.n_criteria, n_others))

    @staticmethod
    def _undecided(known: Codes, counts: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        """Outcome of items that completion could change: missing, else invalid, else CA."""
        codes = known[:, :, counts]
        missing = ((codes == MISSING) | (codes == EXCLUDED)).any(2)
        invalid = (codes == INVALID).any(2)
        return np.where(missing, MISSING, np.where(invalid, INVALID, CA))


class _ShareVerdict(_Verdict):
    """Positive iff the weighted share of positive criteria reaches a cut, or all are positive."""

    def __init__(
        self,
        targets: tuple[int, ...],
        weights: tuple[int, ...],
        flip: tuple[bool, ...],
        share: Fraction | None,
    ) -> None:
        self.targets, self.n_criteria = targets, len(weights)
        # "all positive" asks every criterion, whatever its weight
        self.weights = np.array(weights if share is not None else [1] * len(weights), dtype=np.int64)
        self.share = Fraction(1) if share is None else share
        self.flip = np.array(flip)

    def __call__(self, codes: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        known = self._criteria(codes)
        answered = known >= 0
        positive = answered & ((known == 1) != self.flip[:, None])
        weights = self.weights[:, None]
        least = (positive * weights).sum(2)
        most = least + (~answered * weights).sum(2)
        needed = self.share.numerator * int(self.weights.sum())
        reached, out_of_reach = (
            least * self.share.denominator >= needed,
            most * self.share.denominator < needed,
        )
        undecided = self._undecided(known, self.weights > 0)
        return np.where(reached, 1, np.where(out_of_reach, 0, undecided))


class _SumVerdict(_Verdict):
    """The weighted sum of the criteria's scores, as a code of the scale of possible sums."""

    def __init__(
        self, targets: tuple[int, ...], scores: npt.NDArray[np.int64], sums: npt.NDArray[np.int64]
    ) -> None:
        self.targets, self.n_criteria = targets, len(scores)
        self.scores, self.sums = scores, sums  # weighted score (criterion, category); possible sums

    def __call__(self, codes: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        known = self._criteria(codes)
        place = np.arange(self.n_criteria)[:, None]
        total = np.where(known >= 0, self.scores[place, np.maximum(known, 0)], 0).sum(2)
        matters = self.scores.max(1) > self.scores.min(1)
        decided = (known[:, :, matters] >= 0).all(2)
        # a criterion without weight adds the same whatever it says
        return np.where(decided, np.searchsorted(self.sums, total), self._undecided(known, matters))


def _weighted_scores(
    resolved: Resolved, weights: npt.NDArray[np.float64], flip: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float64]:
    """What each category (criterion, category) adds to a sum; polarity turns the scale round."""
    scores = resolved.mapped.scores
    turned = np.where(flip[:, None], scores.min() + scores.max() - scores, scores)
    return turned * weights[:, None]


class _RealSum:
    """The weighted sum of the criteria's numbers, NaN where a criterion that counts is undecided."""

    def __init__(
        self, targets: tuple[int, ...], weighted: npt.NDArray[np.float64], weights: npt.NDArray[np.float64]
    ) -> None:
        self.targets, self.weighted, self.weights = targets, weighted, weights

    def __call__(
        self, codes: npt.NDArray[Any], scores: npt.NDArray[np.float64] | None = None
    ) -> npt.NDArray[np.float64]:
        shape = (*codes.shape[:2], len(self.weights), codes.shape[2] // len(self.weights))
        if scores is None:
            known = translate(to_codes(codes), self.targets).reshape(shape)
            place = np.arange(len(self.weights))[:, None]
            matters = self.weighted.max(1) > self.weighted.min(1)
            numbers = np.where(known >= 0, self.weighted[place, np.maximum(known, 0)], np.nan)
        else:
            matters = self.weights != 0
            numbers = scores.reshape(shape) * np.where(matters, self.weights, 1.0)[:, None]
            numbers = np.where(matters[:, None], numbers, 0.0)
        # one criterion after the other, so that blocks of any size add up alike
        total = np.zeros((*shape[:2], shape[3]))
        with np.errstate(invalid="ignore"):  # infinite numbers are reported by the pass
            for criterion, counts in enumerate(matters):
                part = numbers[:, :, criterion]
                total += part if counts else np.nan_to_num(part, nan=0.0)
        return total


class _Decided(_Verdict):
    """0 where every criterion that counts is answered, else the outcome of the item."""

    def __init__(self, targets: tuple[int, ...], matters: npt.NDArray[np.bool_]) -> None:
        self.targets, self.n_criteria, self.matters = targets, len(matters), matters

    def __call__(self, codes: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        known = self._criteria(codes)
        decided = (known[:, :, self.matters] >= 0).all(2)
        return np.where(decided, 0, self._undecided(known, self.matters))


def _real_sum(
    view: View,
    resolved: Resolved,
    codes: Any,
    scores: Any,
    weights: npt.NDArray[np.float64],
    flip: npt.NDArray[np.bool_],
) -> ItemLevel:
    """Sums that are numbers and not categories: a continuous item scale."""
    protocol = resolved.protocol
    wrong = [name for name in ("ca", "invalid") if getattr(protocol, name) == "category"]
    if wrong:
        raise ProtocolError(
            f"`{wrong[0]}='category'` needs categories, and item_rule='sum' with these weights makes a "
            "continuous item scale; use 'exclude', or integer `criterion_weights`."
        )
    if scores is None:
        weighted = _weighted_scores(resolved, weights, flip)
        matters = weighted.max(1) > weighted.min(1)
        signed = weights
    else:
        weighted, matters = np.zeros((len(weights), 1)), weights != 0
        signed = np.where(flip, -weights, weights)
    shape = (codes.shape[1], int(np.prod(list(view.others.values()))))
    scale = Scale.continuous()
    verdicts = map_items(_Decided(resolved.targets, matters), [codes], shape=shape, dtype=scale.dtype)
    operands = [codes] if scores is None else [codes, scores]
    totals = map_items(
        _RealSum(resolved.targets, weighted, signed), operands, shape=shape, dtype=np.dtype(np.float64)
    )
    return ItemLevel(verdicts, scale, 1, (0, *OUTCOMES.values()), totals)


def scored(codes: Any, scores: Any) -> Any:
    """Numbers of a continuous scale where the label says that there is one.

    Parameters
    ----------
    codes, scores : array, shape (item, rater, cell)

    Returns
    -------
    array of float64, shape (item, rater, cell)
        NaN where there is no answer; infinite where there is an answer without a number, or with one whose
        powers no float holds, which the pass reports.
    """
    return map_items(_scored, [codes, scores], shape=codes.shape[1:], dtype=np.dtype(np.float64))


def _scored(codes: npt.NDArray[Any], scores: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    numbers = scores.astype(np.float64)
    return np.where(to_codes(codes) == 0, np.where(np.abs(numbers) <= LARGEST_SCORE, numbers, np.inf), np.nan)


def _sum_rule(
    resolved: Resolved, weights: npt.NDArray[np.float64], flip: npt.NDArray[np.bool_]
) -> tuple[Scale, _SumVerdict]:
    weighted = _weighted_scores(resolved, weights, flip).astype(np.int64)
    sums = {0}
    for row in weighted:
        sums = {total + int(score) for total in sums for score in set(row.tolist())}
        if len(sums) > np.iinfo(np.int16).max:
            raise ProtocolError(f"item_rule='sum' has more than {np.iinfo(np.int16).max} possible sums.")
    possible = sorted(sums)
    if len(possible) < 2:
        raise ProtocolError("item_rule='sum' has one possible sum: every weight is zero.")
    return Scale.interval(possible), _SumVerdict(resolved.targets, weighted, np.array(possible))


def criterion_weights(view: View, protocol: Protocol) -> npt.NDArray[np.float64]:
    """Weight of each criterion under a protocol: equal unless the protocol names them.

    Raises
    ------
    ProtocolError
        Names that are no criterion, and criteria without a weight.
    """
    given = protocol.criterion_weights
    if given is None:
        return np.ones(view.n_criteria)
    if "criterion" not in view.rest:
        raise ProtocolError("`criterion_weights` need a dim `criterion`, and the dataset has none.")
    names = [name.item() if isinstance(name, np.generic) else name for name in view.names("criterion")]
    weights = dict(given)
    unknown = [name for name in weights if name not in names]
    without = [name for name in names if name not in weights]
    if unknown or without:
        parts = [f"there is no criterion {listing(unknown)}"] if unknown else []
        parts += [f"{listing(without)} has no weight"] if without else []
        raise ProtocolError(f"`criterion_weights`: {'; '.join(parts)}.")
    return np.array([weights[name] for name in names], dtype=np.float64)


def _polarity(view: View) -> npt.NDArray[np.int64]:
    """The coordinate ``polarity(criterion)``; +1 where the dataset has none."""
    if "polarity" not in view.data.coords:
        return np.ones(view.n_criteria, dtype=np.int64)
    coordinate = view.data["polarity"]
    values = metadata_values(coordinate.data)
    if coordinate.dims != ("criterion",) or not np.isin(values, (1, -1)).all():
        raise StructureError(
            "The coordinate `polarity` is 1 or -1 per criterion; it is "
            f"{listing(np.unique(values).tolist())} on {coordinate.dims}."
        )
    return values.astype(np.int64)


def _integral(values: npt.NDArray[np.float64]) -> bool:
    return bool((values == np.rint(values)).all())


def _integers(weights: npt.NDArray[np.float64]) -> list[int]:
    """Weights as integers in the same proportions, read as the decimals that are written."""
    exact = [decimal(float(weight)) for weight in weights]
    common = lcm(*(weight.denominator for weight in exact))
    return [int(weight * common) for weight in exact]

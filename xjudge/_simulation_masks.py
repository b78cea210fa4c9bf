"""Who labels what in a simulation: random masks of the further humans' labels, drawn by blocks of items.

A mask depends on the seed and on the items' positions, never on chunks: a block of items has a stream of its
own, and how many of an exact number of items fall into each block is drawn beforehand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import xarray as xr

from xjudge.codes import MISSING
from xjudge.errors import StructureError, listing
from xjudge.lazy import item_positions, map_items, materialise
from xjudge.statistics.loo import largest_remainder, strata_of
from xjudge.view import View

__all__ = ["BLOCK", "Mask", "MaskDesign", "Masks", "dense_masks", "design_problems", "masked"]

MaskDesign = Literal["random", "shared", "strat", "strat_judge"]
Mask = Literal["exact", "bernoulli"]
BoolArray = npt.NDArray[np.bool_]
Strata = npt.NDArray[np.intp]

BLOCK: Final = 1 << 16
"""Items that share a stream of random numbers."""

_STREAM: Final = 8
"""Number of the stream of overlap among those of :mod:`xjudge._simulation_draw`."""

# numpy splits a sample over blocks for populations below this.
_MOST_SPLIT: Final = 10**9


def design_problems(design: Any, mask: Any, n_masks: Any) -> list[str]:
    """What is wrong with the options of a mask, one sentence each."""
    problems = []
    designs = ("random", "shared", "strat", "strat_judge")
    if design not in designs:
        problems.append(f"`design` is {', '.join(map(repr, designs[:-1]))} or 'strat_judge'; got {design!r}.")
    if mask not in ("exact", "bernoulli"):
        problems.append(f"`mask` is 'exact' or 'bernoulli'; got {mask!r}.")
    elif mask == "bernoulli" and design != "random":
        problems.append("mask='bernoulli' draws each label apart, which is design='random' only.")
    whole = isinstance(n_masks, int | np.integer) and not isinstance(n_masks, bool)
    if n_masks is not None and (not whole or n_masks < 1):
        problems.append(f"`n_masks` is a whole number of at least 1, or None; got {n_masks!r}.")
    return problems


@dataclass(frozen=True)
class Masks:
    """Masks of a matrix of labels.

    Parameters
    ----------
    n_items : int
    humans : tuple of int
        Positions of the humans on dim ``rater``; the first labels every item.
    n_raters : int
    share : float
        Of the items that each further human labels.
    design, mask : str
    strata : ndarray of int, shape (n_items,), or None
        From 0; None is one stratum.
    n_masks : int or None
        None is one mask without a dim for it.
    seed : int
    """

    n_items: int
    humans: tuple[int, ...]
    n_raters: int
    share: float
    design: str
    mask: str
    strata: Strata | None
    n_masks: int | None
    seed: int

    def __call__(self, positions: npt.NDArray[np.integer]) -> BoolArray:
        """Whether a label of these consecutive items is kept: (item, rater[, mask])."""
        count = 1 if self.n_masks is None else self.n_masks
        out = np.ones((len(positions), self.n_raters, count), dtype=bool)
        start, stop = (int(positions[0]), int(positions[-1]) + 1) if len(positions) else (0, 0)
        for block in range(start // BLOCK, -(-stop // BLOCK)):
            first = block * BLOCK
            low, high = max(start, first), min(stop, first + BLOCK)
            for t in range(count):
                kept = self._block(t, block)[low - first : high - first]
                out[low - start : high - start, list(self.humans[1:]), t] = kept
        return out[..., 0] if self.n_masks is None else out

    def _block(self, t: int, block: int) -> BoolArray:
        """Of all items of a block: (item, further human)."""
        size = min(BLOCK, self.n_items - block * BLOCK)
        apart = self.design == "random"
        columns = []
        for k in range(1, len(self.humans) if apart else min(2, len(self.humans))):
            rng = self._rng(k, t, block)
            if self.mask == "bernoulli":
                columns.append(rng.random(size) < self.share)
            else:
                columns.append(self._exact(rng, k, t, block, size))
        if not columns:
            return np.ones((size, 0), dtype=bool)
        kept = np.stack(columns, axis=1)
        return kept if apart else np.broadcast_to(kept, (size, len(self.humans) - 1))

    def _exact(self, rng: np.random.Generator, k: int, t: int, block: int, size: int) -> BoolArray:
        kept = np.zeros(size, dtype=bool)
        first = block * BLOCK
        inside = np.zeros(size, np.intp) if self.strata is None else self.strata[first : first + size]
        for s, take in enumerate(self._takes(k, t)[:, block]):
            places = np.flatnonzero(inside == s)
            kept[rng.permutation(places)[:take]] = True
        return kept

    def _takes(self, k: int, t: int) -> npt.NDArray[np.int64]:
        """Items to take: (stratum, block)."""
        sizes = self._sizes()
        totals = largest_remainder(round(self.share * self.n_items), sizes.sum(axis=1))
        if sizes.shape[1] == 1:
            return totals[:, None]
        rng = self._rng(k, t, sizes.shape[1])
        return np.stack(
            [rng.multivariate_hypergeometric(row, n) for row, n in zip(sizes, totals, strict=True)]
        )

    def _sizes(self) -> npt.NDArray[np.int64]:
        """Items of each stratum in each block."""
        n_blocks = -(-self.n_items // BLOCK)
        if self.strata is None:
            ends = np.minimum(np.arange(1, n_blocks + 1) * BLOCK, self.n_items)
            return np.diff(ends, prepend=0)[None].astype(np.int64)
        parts = [self.strata[b * BLOCK : (b + 1) * BLOCK] for b in range(n_blocks)]
        n_strata = int(self.strata.max(initial=0)) + 1
        return np.stack([np.bincount(part, minlength=n_strata) for part in parts], axis=1).astype(np.int64)

    def _rng(self, k: int, t: int, block: int) -> np.random.Generator:
        """Stream of a human, mask and block; one beyond the last block splits the sample over blocks."""
        number = t * (-(-self.n_items // BLOCK) + 1) + block
        return np.random.default_rng((self.seed, _STREAM, k, number) if number else (self.seed, _STREAM, k))


def masked(ds: xr.Dataset, masks: Masks) -> xr.Dataset:
    """Take from a dataset the labels that its masks do not keep, and what stands beside them."""
    label = ds["label"]
    positions = item_positions(label.variable.transpose("item", ...).data)
    dims = ("item", "rater") if masks.n_masks is None else ("item", "rater", "mask")
    sizes = [ds.sizes["rater"], *([] if masks.n_masks is None else [masks.n_masks])]
    shown = xr.DataArray(map_items(masks, [positions], shape=sizes, dtype=bool), dims=dims)
    if label.dtype.kind == "u":
        label = label.astype(np.promote_types(label.dtype, np.int8))
    found: dict[str, Any] = {}
    for name in ("label", "score", "prob", "confidence"):
        if name not in ds.data_vars or not {"item", "rater"} <= set(ds[name].dims):
            continue
        array = label if name == "label" else ds[name]
        other = array.dtype.type(MISSING) if name == "label" else np.nan
        kept = array.variable.where(shown.variable, other).transpose(*array.dims, *dims[2:])
        kept.attrs = dict(array.attrs)
        found[name] = kept
    out = ds.assign(found)
    return out if masks.n_masks is None else out.assign_coords(mask=np.arange(masks.n_masks))


def dense_masks(dense: Any, options: Mapping[str, Any]) -> tuple[xr.Dataset, Masks]:
    """Open a dense dataset and say how to mask it.

    Parameters
    ----------
    dense : Dataset or DataArray
    options : mapping
        ``overlap``, ``design``, ``mask``, ``judge``, ``n_masks`` and ``seed`` as given to ``simulate``.

    Raises
    ------
    StructureError
        Options that are none; a stratified design without one label per item.
    """
    overlap, design, mask, judge, n_masks, seed = (
        options[name] for name in ("overlap", "design", "mask", "judge", "n_masks", "seed")
    )
    view = View.of(dense)
    problems = design_problems(design, mask, n_masks)
    if not isinstance(overlap, int | float | np.integer | np.floating) or not 0 <= overlap <= 1:
        problems.append(f"`overlap` is a finite number in [0, 1]; got {overlap!r}.")
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        problems.append(f"`seed` is a whole number of at least 0; got {seed!r}.")
    if len(view.humans) < 2:
        problems.append(
            f"Masking keeps the first human whole and masks the others; there are {len(view.humans)} humans."
        )
    if n_masks is not None and "mask" in view.data.dims:
        problems.append("The dataset has a dim `mask` already; rename it.")
    if problems:
        raise StructureError(" ".join(problems))
    strata = None
    if design.startswith("strat"):
        if view.codes.shape[2] != 1:
            raise StructureError(
                f"design={design!r} needs one label of the first human per item, and these labels have "
                f"{listing(list(view.rest), show='str')}: select one with `.isel`, or mask by 'shared'."
            )
        chosen = [int(view.humans[0])]
        if design == "strat_judge":
            chosen.append(_one_judge(view, judge))
        (columns,) = materialise(view.codes[:, chosen, 0])
        strata = strata_from(np.asarray(columns))
    check_size(view.n_items, mask)
    humans = tuple(view.humans.tolist())
    masks = Masks(view.n_items, humans, len(view.raters), overlap, design, mask, strata, n_masks, int(seed))
    return view.data, masks


def strata_from(columns: npt.NDArray[Any]) -> Strata:
    """Strata by the labels of the first human, and of a judge where there is a second column."""
    codes = np.where(columns >= 0, columns, -1).astype(np.int64)  # NaN is no answer
    return strata_of(codes[:, 0], codes[:, 1] if codes.shape[1] > 1 else None)


def check_size(n_items: int, mask: str) -> None:
    """Refuse an exact number out of more items than a sample can be split over.

    Raises
    ------
    StructureError
    """
    if mask == "exact" and n_items >= _MOST_SPLIT:
        raise StructureError(
            f"An exact number of items is drawn from fewer than {_MOST_SPLIT:,}; there are {n_items:,}. "
            "Use mask='bernoulli'."
        )


def _one_judge(view: View, judge: Any) -> int:
    judges = view.judges if judge is None else view.select([judge], view.judges, "judges")
    if len(judges) != 1:
        names = listing(view.named(judges), most=9) or "none"
        raise StructureError(
            f"design='strat_judge' stratifies by one judge agreeing; name it with `judge=` ({names})."
        )
    return int(judges[0])

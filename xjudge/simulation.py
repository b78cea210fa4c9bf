"""Judge datasets from a stated model, and the example dataset.

One latent difficulty per item drives everything that goes wrong in practice: the truth is less often
positive on hard items, raters err on them, and raters decline to answer them. Whoever drops the declined
cases therefore keeps the easy ones; because the truth is known here, the size of that error is known too.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, Literal, Unpack, overload

import numpy as np
import numpy.typing as npt
import xarray as xr

from xjudge._simulation_draw import drawn
from xjudge._simulation_masks import Mask, MaskDesign, dense_masks, masked
from xjudge._simulation_model import Arguments, read_arguments
from xjudge.errors import StructureError, listing

__all__ = ["load_example", "simulate"]

Dense = xr.Dataset | xr.DataArray


@overload
def simulate(
    dense: Dense | None = ..., *, return_truth: Literal[False] = ..., **arguments: Unpack[Arguments]
) -> xr.Dataset: ...


@overload
def simulate(
    dense: Dense | None = ..., *, return_truth: Literal[True], **arguments: Unpack[Arguments]
) -> tuple[xr.Dataset, xr.Dataset]: ...


def simulate(
    dense: Dense | None = None,
    *,
    n_items: int = 200,
    n_humans: int = 3,
    n_judges: int = 2,
    criteria: int | Sequence[str] | None = None,
    n_categories: int = 2,
    prevalence: npt.ArrayLike | None = None,
    human_accuracy: npt.ArrayLike = 0.85,
    judge_accuracy: npt.ArrayLike = 0.8,
    unanimous: Sequence[str] = (),
    families: Sequence[str] | None = None,
    error_correlation: float = 0.0,
    ca_rate: float | Sequence[float] = 0.0,
    invalid_rate: float | Sequence[float] = 0.0,
    invalid_burst: float = 8.0,
    overlap: float = 1.0,
    design: MaskDesign = "random",
    mask: Mask = "exact",
    judge: Any = None,
    n_masks: int | None = None,
    n_systems: int = 1,
    system_difficulty: float = 0.0,
    truth_difficulty: float = 0.0,
    error_difficulty: float = 0.0,
    ca_difficulty: float = 0.0,
    ca_system: float = 0.0,
    chunks: int | None = None,
    seed: int = 0,
    return_truth: bool = False,
) -> xr.Dataset | tuple[xr.Dataset, xr.Dataset]:
    """Draw a judge dataset from a model whose truth is known, or mask a dense one.

    With ``dense`` the labels are those of a dataset, and only who labels what is drawn: how would it have
    been with sparser labels? Otherwise all is drawn.

    Items ``i``, raters ``r``, criteria ``g``; all noise is independent and standard normal:

    * item ``i`` comes from one of ``n_systems`` equally likely systems with an effect ``z`` (equally
      spaced, mean 0, variance 1; none where there is one system). Its difficulty is
      ``d_i = system_difficulty * z + sqrt(1 - system_difficulty**2) * noise``.
    * truth: the quality ``-truth_difficulty * d_i + sqrt(1 - truth_difficulty**2) * noise`` falls into
      categories by cuts that give each category its ``prevalence``.
    * error: rater ``r`` is wrong where ``error_difficulty * d_i + sqrt(error_correlation) * family +
      sqrt(1 - error_difficulty**2 - error_correlation) * noise`` exceeds a cut; ``family`` is shared by the
      judges of one family, on each item and criterion, and is each human's own. A wrong answer is any other
      category, all equally likely.
    * cannot assess: where ``ca_difficulty * d_i + ca_system * z + sqrt(1 - ca_difficulty**2) * noise``
      exceeds a cut. With ``ca_difficulty=0`` CA is ignorable given the system; otherwise it is not.
    * invalid: runs of consecutive items, on average ``invalid_burst`` long, in which nothing of a judge can
      be read.
    * missing: the first human labels every item, and so do judges; each other human labels some, drawn for
      each human apart (``design="random"``), once for all (``"shared"``), or once for all in proportion from
      strata of the first human's label (``"strat"``), or of that and of a judge agreeing with it
      (``"strat_judge"``). ``mask="exact"`` draws ``round(overlap * n_items)`` of them, ``"bernoulli"`` each
      with probability ``overlap``.

    The cuts are solved so that rates hold exactly in expectation, averaged over items: prevalence, the share
    of right answers (where it is one number per rater), the CA rate of what was asked, the share of invalid
    items in a long run of them.

    Parameters
    ----------
    dense : Dataset or DataArray, optional
        A judge dataset with two or more humans, to be masked; of the other arguments only ``overlap``,
        ``design``, ``mask``, ``judge``, ``n_masks``, ``seed`` and ``return_truth`` go with it. Its first
        human (in the order of the data) keeps every label; labels that are missing stay so.
    n_items, n_humans, n_judges : int
        At least 1, 0 and 0; at least one rater.
    criteria : int or sequence of str, optional
        Number of criteria or their names; ``None`` is a dataset without the dim ``criterion``.
    n_categories : int
        2 gives a binary scale (``UNMET``, ``MET``), more an ordinal one (1, 2, ...).
    prevalence : float or array-like, optional
        Two categories: share of positives, one number or one per criterion. More: the shares of the
        categories, ``(n_categories,)`` or ``(n_criteria, n_categories)``. ``None``: equal shares.
    human_accuracy, judge_accuracy : float or array-like
        Probability of the right answer: one number, one per rater, or ``(raters, n_categories)`` by true
        category (the class recalls).
    unanimous : sequence of str
        Criteria on which nobody errs.
    families : sequence of str, optional
        The family of each judge; ``None`` gives each judge its own.
    error_correlation : float
        Correlation, within a family, of the latent errors beyond what difficulty explains; in [0, 1].
    ca_rate : float or sequence of float
        Share of CA among what a rater was asked; one number or one per rater, humans first.
    invalid_rate : float or sequence of float
        Share of items in an invalid run; one number or one per judge. Below 1.
    invalid_burst : float
        Mean length of a run in items, at least 1.
    overlap : float
        Share of the items that each human but the first labels; in [0, 1].
    design : {"random", "shared", "strat", "strat_judge"}
        The last two need one label per item: no criteria.
    mask : {"exact", "bernoulli"}
        ``"bernoulli"`` with ``"random"`` only.
    judge : name, optional
        Whose agreement ``"strat_judge"`` stratifies by; needed where there are several.
    n_masks : int, optional
        Draw so many masks of the same labels, along a dim ``mask``; the first few are the same however many
        there are.
    n_systems : int
        Above 1 the dataset has a coordinate ``system``.
    system_difficulty, truth_difficulty, error_difficulty, ca_difficulty : float
        Loadings in [-1, 1].
    ca_system : float
        How much more often, on the latent scale, systems with a high effect draw a CA.
    chunks : int, optional
        Items per chunk of a lazy dataset, at best a multiple of 65,536 (what is drawn together); ``None``
        draws at once. The numbers are the same.
    seed : int
        Same arguments and seed, same dataset, whatever the chunks.
    return_truth : bool
        Whether the truth is returned too.

    Returns
    -------
    Dataset
        ``label(item, rater[, criterion])`` with coordinates ``role``, ``identity``, ``family``,
        ``difficulty_band`` (thirds of the difficulty) and, where there are several, ``system``. With
        ``dense``, that dataset with fewer labels (``score``, ``prob`` and ``confidence`` go with them), lazy
        where it is.
    Dataset, where ``return_truth``
        ``truth(item[, criterion])``, ``answer(item, rater[, criterion])`` (what each rater would have said,
        had it been asked and had it answered readably) and ``difficulty(item)``. With ``dense``:
        ``answer(item, rater[, criterion])``, its labels.

    Raises
    ------
    StructureError
        Arguments that are no model, or do not go together; all problems in one message.

    Notes
    -----
    Strata are held in memory, and take one pass over the first human's labels (and the judge's) where those
    are lazy; masks are drawn block by block. Beyond a million items ids are numbers. Invalid runs start anew
    every 65,536 items.

    Examples
    --------
    >>> ds, truth = simulate(n_items=500, n_judges=1, judge_accuracy=0.9, ca_rate=0.1, return_truth=True)
    >>> ds.label.shape, ds.label.dtype
    ((500, 4), dtype('int8'))
    >>> right = (truth.answer == truth.truth).mean("item").sel(rater="judge_1")
    >>> bool(abs(right - 0.9) < 0.04)
    True

    The same labels, but of the further humans only 25 each:

    >>> sparse = simulate(ds, overlap=0.05, design="shared")
    >>> (sparse.label != -1).sum("item").values.tolist()
    [500, 25, 25, 500]
    """
    given = {name: value for name, value in locals().items() if name not in ("dense", "return_truth")}
    if dense is not None:
        return _resampled(dense, given, return_truth)
    model = read_arguments(given)
    ds, truth = drawn(model)
    ds.attrs = {"source": "xjudge.simulate", "seed": int(seed), "model": model.to_json()}
    return (ds, truth) if return_truth else ds


_OF_MASKS: Final = ("overlap", "design", "mask", "judge", "n_masks", "seed")
"""Arguments that go with a dense dataset."""


def _resampled(
    dense: Dense, given: dict[str, Any], return_truth: bool
) -> xr.Dataset | tuple[xr.Dataset, xr.Dataset]:
    """A dense dataset under masks, and its labels."""
    default = simulate.__kwdefaults__ or {}
    wrong = [name for name, value in given.items() if name not in _OF_MASKS and value is not default[name]]
    if wrong:
        raise StructureError(
            f"Mask a dense dataset or draw from a model, not both: {listing(wrong, show='str', most=9)} "
            f"belong to a model. With a dataset go {listing(_OF_MASKS, show='str', most=9)}."
        )
    options = {name: given[name] for name in _OF_MASKS}
    ds, masks = dense_masks(dense, options)
    out = masked(ds, masks)
    kept = json.dumps(options, default=lambda value: np.asarray(value).tolist())
    out.attrs = {"source": "xjudge.simulate", "seed": masks.seed, "masks": kept}
    truth = ds[["label"]].rename(label="answer")
    truth.attrs = {}
    return (out, truth) if return_truth else out


@overload
def load_example(name: str = ..., *, seed: int = ..., return_truth: Literal[False] = ...) -> xr.Dataset: ...


@overload
def load_example(
    name: str = ..., *, seed: int = ..., return_truth: Literal[True]
) -> tuple[xr.Dataset, xr.Dataset]: ...


def load_example(
    name: str = "rubric", *, seed: int = 0, return_truth: bool = False
) -> xr.Dataset | tuple[xr.Dataset, xr.Dataset]:
    """Example data, made on the spot: deterministic, offline, in milliseconds.

    ``"rubric"``: 200 answers of three systems, graded on six criteria (``UNMET``, ``MET``) by three humans
    and four judges of two families. ``ann`` graded every answer, ``ben`` and ``cora`` about a third each.
    The judges were made to be told apart: ``orion-large`` is good; ``orion-small`` declines whatever is hard
    and looks better than it is; ``vela-large`` is fair and returns bursts of unreadable output;
    ``vela-small`` says ``MET`` to nearly everything, which most of these criteria reward. Everybody agrees on
    ``polite``, which is always met.

    Parameters
    ----------
    name : {"rubric"}
    seed : int
        Another seed is another sample from the same model.
    return_truth : bool
        Whether the truth is returned too, as by :func:`simulate`.

    Returns
    -------
    Dataset, or two Datasets where ``return_truth``
        ``label(item: 200, rater: 7, criterion: 6)``, with ``weight(criterion)`` and the item covariates
        ``system`` and ``difficulty_band``.

    Raises
    ------
    StructureError
        An example of another name, or a seed that is no whole number.

    Examples
    --------
    >>> ds = load_example()
    >>> dict(ds.sizes)
    {'item': 200, 'rater': 7, 'criterion': 6}
    >>> ds.rater.values.tolist()
    ['ann', 'ben', 'cora', 'orion-large', 'orion-small', 'vela-large', 'vela-small']
    """
    if name not in _EXAMPLES:
        raise StructureError(f"There is no example {name!r}; the examples are {listing(_EXAMPLES)}.")
    example = _EXAMPLES[name]
    ds, truth = simulate(**example["model"], seed=seed, return_truth=True)
    systems = np.array(example["systems"])
    place = np.char.rpartition(ds["system"].values.astype(str), "_")[:, 2].astype(int) - 1
    named = {
        "rater": np.array(example["raters"]),
        "system": ("item", systems[place]),
        "weight": ("criterion", np.array(example["weights"])),
    }
    ds, truth = ds.assign_coords(named), truth.assign_coords(named)
    ds.attrs = {"source": f"xjudge.load_example({name!r}, seed={seed})", "seed": seed}
    return (ds, truth) if return_truth else ds


_EXAMPLES: Final[dict[str, Any]] = {
    "rubric": {
        "raters": ["ann", "ben", "cora", "orion-large", "orion-small", "vela-large", "vela-small"],
        "systems": ["retrieval", "baseline", "distilled"],
        "weights": [3.0, 2.0, 2.0, 1.0, 1.0, 1.0],
        "model": {
            "n_items": 200,
            "n_humans": 3,
            "n_judges": 4,
            "criteria": ["correct", "complete", "cited", "concise", "safe", "polite"],
            "prevalence": [0.62, 0.50, 0.30, 0.75, 0.93, 1.0],
            "human_accuracy": [[0.90, 0.93], [0.88, 0.91], [0.85, 0.92]],
            "judge_accuracy": [[0.90, 0.94], [0.80, 0.86], [0.84, 0.90], [0.10, 0.90]],
            "unanimous": ["polite"],
            "families": ["orion", "orion", "vela", "vela"],
            "error_correlation": 0.35,
            "ca_rate": [0.10, 0.07, 0.12, 0.05, 0.28, 0.08, 0.0],
            "invalid_rate": [0.0, 0.0, 0.1, 0.0],
            "invalid_burst": 5.0,
            "overlap": 0.35,
            "n_systems": 3,
            "system_difficulty": 0.5,
            "truth_difficulty": 0.45,
            "error_difficulty": 0.6,
            "ca_difficulty": 0.6,
            "ca_system": 0.3,
        },
    }
}

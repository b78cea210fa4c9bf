"""Judge datasets from a stated model, and the example dataset.

One latent difficulty per item drives everything that goes wrong in practice: the truth is less often
positive on hard items, raters err on them, and raters decline to answer them. Whoever drops the declined
cases therefore keeps the easy ones; because the truth is known here, the size of that error is known too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Unpack, overload

import numpy as np
import numpy.typing as npt
import xarray as xr

from xjudge._simulation_model import Arguments, Design, FloatArray, Model, read_arguments
from xjudge.codes import CA, INVALID, MISSING
from xjudge.errors import StructureError, listing

__all__ = ["load_example", "simulate"]

IntArray = npt.NDArray[np.signedinteger]
BoolArray = npt.NDArray[np.bool_]

_BANDS: Final = ("easy", "medium", "hard")


@overload
def simulate(*, return_truth: Literal[False] = ..., **arguments: Unpack[Arguments]) -> xr.Dataset: ...


@overload
def simulate(
    *, return_truth: Literal[True], **arguments: Unpack[Arguments]
) -> tuple[xr.Dataset, xr.Dataset]: ...


def simulate(
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
    design: Design = "random",
    n_systems: int = 1,
    system_difficulty: float = 0.0,
    truth_difficulty: float = 0.0,
    error_difficulty: float = 0.0,
    ca_difficulty: float = 0.0,
    ca_system: float = 0.0,
    seed: int = 0,
    return_truth: bool = False,
) -> xr.Dataset | tuple[xr.Dataset, xr.Dataset]:
    """Draw a judge dataset from a model whose truth is known.

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
    * missing: the first human labels every item; each other human ``round(overlap * n_items)`` of them, drawn
      for each human apart (``design="random"``) or once for all (``"shared"``). Judges label every item.

    The cuts are solved so that rates hold exactly in expectation, averaged over items: prevalence, the share
    of right answers (where it is one number per rater), the CA rate of what was asked, the share of invalid
    items in a long run of them.

    Parameters
    ----------
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
    design : {"random", "shared"}
    n_systems : int
        Above 1 the dataset has a coordinate ``system``.
    system_difficulty, truth_difficulty, error_difficulty, ca_difficulty : float
        Loadings in [-1, 1].
    ca_system : float
        How much more often, on the latent scale, systems with a high effect draw a CA.
    seed : int
        Same arguments and seed, same dataset.
    return_truth : bool
        Whether the truth is returned too.

    Returns
    -------
    Dataset
        ``label(item, rater[, criterion])`` with coordinates ``role``, ``identity``, ``family``,
        ``difficulty_band`` (thirds of the difficulty) and, where there are several, ``system``.
    Dataset, where ``return_truth``
        ``truth(item[, criterion])``, ``answer(item, rater[, criterion])`` (what each rater would have said,
        had it been asked and had it answered readably) and ``difficulty(item)``.

    Raises
    ------
    StructureError
        Arguments that are no model; all problems in one message.

    Examples
    --------
    >>> ds, truth = simulate(n_items=500, n_judges=1, judge_accuracy=0.9, ca_rate=0.1, return_truth=True)
    >>> ds.label.shape, ds.label.dtype
    ((500, 4), dtype('int8'))
    >>> right = (truth.answer == truth.truth).mean("item").sel(rater="judge_1")
    >>> bool(abs(right - 0.9) < 0.04)
    True
    """
    given = {name: value for name, value in locals().items() if name != "return_truth"}
    model = read_arguments(given)
    ds, truth = _draw(model)
    ds.attrs = {"source": "xjudge.simulate", "seed": int(seed), "model": model.to_json()}
    return (ds, truth) if return_truth else ds


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


# ---------------------------------------------------------------------------------------------------- drawing

# One stream of random numbers per ingredient and rater: a further rater changes no draw of the others.
_STREAMS: Final = (
    "system", "difficulty", "truth", "family", "error", "wrong", "ca", "invalid", "overlap",
)  # fmt: skip


@dataclass(frozen=True)
class _Streams:
    seed: int

    def __call__(self, name: str, rater: int = 0) -> np.random.Generator:
        return np.random.default_rng((self.seed, _STREAMS.index(name), rater))


@dataclass(frozen=True)
class _Latents:
    """The item's system effect and difficulty, and the latents that load on them.

    A latent is ``on_difficulty * d + on_system * z + noise``, the noise of variance ``1 - on_difficulty**2``.
    Given the system it is normal, so its distribution is a mixture of one normal per system.
    """

    effects: FloatArray  # of the systems
    system: npt.NDArray[np.int64]  # of the items
    system_difficulty: float
    difficulty: FloatArray  # of the items

    def explained(self, on_difficulty: float, on_system: float = 0.0) -> FloatArray:
        """What difficulty and system contribute to a latent, per item (with an axis for criteria)."""
        return (on_difficulty * self.difficulty + on_system * self.effects[self.system])[:, None]

    def cuts(self, below: npt.ArrayLike, on_difficulty: float, on_system: float = 0.0) -> FloatArray:
        """Cuts below which a latent falls with the given probabilities (bisection of the mixture)."""
        p = np.asarray(below, dtype=np.float64)
        mean = (on_difficulty * self.system_difficulty + on_system) * self.effects
        # Loadings of 1 leave no noise, only steps at the means.
        spread = max(math.sqrt(max(1 - (on_difficulty * self.system_difficulty) ** 2, 0.0)), 1e-9)
        reach = 9.0 * spread + float(np.abs(mean).max())
        low, high = np.full(p.shape, -reach), np.full(p.shape, reach)
        for _ in range(60):
            middle = (low + high) / 2
            short = _normal_cdf((middle[..., None] - mean) / spread).mean(axis=-1) < p
            low, high = np.where(short, middle, low), np.where(short, high, middle)
        return np.where(p <= 0, -np.inf, np.where(p >= 1, np.inf, (low + high) / 2))


_erf = np.frompyfunc(math.erf, 1, 1)


def _normal_cdf(x: FloatArray) -> FloatArray:
    return 0.5 + 0.5 * np.asarray(_erf(x / math.sqrt(2)), dtype=np.float64)


def _draw(model: Model) -> tuple[xr.Dataset, xr.Dataset]:
    """Dataset and truth."""
    given = model.given
    n_items, n_humans = given["n_items"], given["n_humans"]
    rng = _Streams(int(given["seed"]))
    latents = _draw_items(rng, given)
    truth = _draw_truth(model, rng, latents)
    answer = _draw_answers(model, rng, latents, truth)
    label = answer.copy()
    loading, direct = given["ca_difficulty"], given["ca_system"]
    for r, cut in enumerate(latents.cuts(1 - model.ca_rate, loading, direct)):
        noise = rng("ca", r).standard_normal(truth.shape)
        label[:, r][latents.explained(loading, direct) + math.sqrt(1 - loading**2) * noise > cut] = CA
    for r, rate in enumerate(model.invalid_rate, start=n_humans):
        label[_bursts(rng("invalid", r), n_items, rate, given["invalid_burst"]), r] = INVALID
    n_asked = round(given["overlap"] * n_items)
    for r in range(1, n_humans):
        order = rng("overlap", r if given["design"] == "random" else 1).permutation(n_items)
        label[order[n_asked:], r] = MISSING

    coords = _coordinates(model, latents)
    ds = _dataset(model, coords, {"label": label})
    known = _dataset(model, coords, {"truth": truth, "answer": answer})
    known["difficulty"] = ("item", latents.difficulty)
    return ds, known


def _draw_items(rng: _Streams, given: Any) -> _Latents:
    n_items, n_systems, loading = given["n_items"], given["n_systems"], given["system_difficulty"]
    effects = np.arange(n_systems) - (n_systems - 1) / 2
    effects /= np.sqrt((effects**2).mean()) if n_systems > 1 else 1.0
    system = rng("system").integers(0, n_systems, n_items)
    noise = rng("difficulty").standard_normal(n_items)
    # A single system has no effect that could be shared out: all of the difficulty is the item's own.
    loading = loading if n_systems > 1 else 0.0
    difficulty = loading * effects[system] + math.sqrt(1 - loading**2) * noise
    return _Latents(effects, system, loading, difficulty)


def _draw_truth(model: Model, rng: _Streams, latents: _Latents) -> IntArray:
    loading = -model.given["truth_difficulty"]
    noise = rng("truth").standard_normal((latents.difficulty.size, model.n_criteria))
    quality = latents.explained(loading) + math.sqrt(1 - loading**2) * noise
    below = np.cumsum(model.shares, axis=1)[:, :-1]
    # A last category of share 0 must stay empty although the sum before it may miss 1 by rounding.
    below = np.where(np.abs(below - 1) < 1e-12, 1.0, below)
    truth = np.zeros(quality.shape, dtype=model.scale.dtype)
    for cut in latents.cuts(below, loading).T:
        truth += quality > cut
    return truth


def _draw_answers(model: Model, rng: _Streams, latents: _Latents, truth: IntArray) -> IntArray:
    loading, common = model.given["error_difficulty"], model.given["error_correlation"]
    n_raters, n_categories = model.accuracy.shape
    answer = np.empty((truth.shape[0], n_raters, truth.shape[1]), dtype=truth.dtype)
    cuts = latents.cuts(model.accuracy, loading)
    for r, number in enumerate(model.family_numbers):
        family = rng("family", number).standard_normal(truth.shape)
        noise = rng("error", r).standard_normal(truth.shape)
        latent = latents.explained(loading) + math.sqrt(common) * family
        latent += math.sqrt(max(1 - loading**2 - common, 0.0)) * noise
        latent[:, model.unanimous] = -np.inf
        other = (truth + rng("wrong", r).integers(1, n_categories, truth.shape)) % n_categories
        answer[:, r] = np.where(latent > cuts[r][truth], other, truth)
    return answer


def _bursts(rng: np.random.Generator, n_items: int, rate: float, mean_length: float) -> BoolArray:
    """Items in runs of geometric length, with gaps between them that leave ``rate`` of the items inside."""
    inside = np.zeros(n_items, dtype=bool)
    if rate == 0:
        return inside
    leave = min(1 / mean_length, (1 - rate) / rate)  # gaps cannot be shorter than one item
    enter = leave * rate / (1 - rate)
    at, now = 0, bool(rng.random() < rate)
    while at < n_items:
        length = int(rng.geometric(leave if now else enter))
        inside[at : at + length] = now
        at, now = at + length, not now
    return inside


def _coordinates(model: Model, latents: _Latents) -> dict[str, Any]:
    n_items, n_humans, n_judges = (model.given[name] for name in ("n_items", "n_humans", "n_judges"))
    width = max(len(str(n_items - 1)), 3)
    humans = [f"human_{r + 1}" for r in range(n_humans)]
    judges = [f"judge_{r + 1}" for r in range(n_judges)]
    edges = latents.cuts([1 / 3, 2 / 3], 1.0)
    coords: dict[str, Any] = {
        "item": np.array([f"item_{i:0{width}d}" for i in range(n_items)]),
        "rater": np.array(humans + judges),
        "role": ("rater", np.array(["human"] * n_humans + ["judge"] * n_judges)),
        "identity": ("rater", np.array(["named"] * (n_humans + n_judges))),
        "family": ("rater", np.array(["human"] * n_humans + (model.families or judges))),
        "difficulty_band": ("item", np.array(_BANDS)[np.searchsorted(edges, latents.difficulty)]),
    }
    if model.criteria is not None:
        coords["criterion"] = np.array(model.criteria)
    if len(latents.effects) > 1:
        names = np.array([f"system_{s + 1}" for s in range(len(latents.effects))])
        coords["system"] = ("item", names[latents.system])
    return coords


def _dataset(model: Model, coords: dict[str, Any], arrays: dict[str, IntArray]) -> xr.Dataset:
    variables: dict[str, Any] = {}
    for name, values in arrays.items():
        dims = ["item", "criterion"] if values.ndim == 2 else ["item", "rater", "criterion"]
        if model.criteria is None:
            dims, values = dims[:-1], np.ascontiguousarray(values[..., 0])
        variables[name] = (dims, values, model.scale.to_attrs())
    return xr.Dataset(variables, coords=coords)

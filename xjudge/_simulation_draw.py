"""Drawing from the model of a simulation, by blocks of items: the same numbers whatever is lazy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import xarray as xr

from xjudge._simulation_masks import BLOCK, Masks, check_size, masked, strata_from
from xjudge._simulation_model import FloatArray, Model
from xjudge.codes import CA, INVALID
from xjudge.lazy import item_positions, map_items, materialise

__all__ = ["drawn"]

IntArray = npt.NDArray[np.signedinteger]
BoolArray = npt.NDArray[np.bool_]

_BANDS: Final = ("easy", "medium", "hard")

# Beyond so many items their ids are numbers: text would outweigh the labels.
_MOST_NAMED: Final = 10**6

# One stream of random numbers per ingredient and rater: a further rater changes no draw of the others.
_STREAMS: Final = (
    "system", "difficulty", "truth", "family", "error", "wrong", "ca", "invalid", "overlap",
)  # fmt: skip


@dataclass(frozen=True)
class _Streams:
    seed: int
    block: int

    def __call__(self, name: str, rater: int = 0) -> np.random.Generator:
        key = (self.seed, _STREAMS.index(name), rater)
        return np.random.default_rng((*key, self.block) if self.block else key)


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


def drawn(model: Model) -> tuple[xr.Dataset, xr.Dataset]:
    """Dataset and truth, lazy where the model has chunks.

    Raises
    ------
    StructureError
        Where an exact number of too many items is to be masked.
    """
    given = model.given
    n_humans, design = given["n_humans"], given["design"]
    arrays = _arrays(model)
    coords = _coordinates(model) | {"difficulty_band": ("item", arrays["band"])}
    if given["n_systems"] > 1:
        coords["system"] = ("item", arrays["system"])
    ds = _dataset(model, coords, {"label": arrays["label"]})
    known = _dataset(model, coords, {"truth": arrays["truth"], "answer": arrays["answer"]})
    known["difficulty"] = ("item", arrays["difficulty"])
    strata = None
    if design.startswith("strat"):
        columns = [0] if design == "strat" else [0, n_humans + model.judge]
        (labels,) = materialise(ds["label"].data[:, columns])
        strata = strata_from(labels)
    check_size(given["n_items"], given["mask"])
    masks = Masks(
        given["n_items"],
        tuple(range(n_humans)),
        len(model.accuracy),
        given["overlap"],
        design,
        given["mask"],
        strata,
        given["n_masks"],
        int(given["seed"]),
    )
    return masked(ds, masks), known


def _arrays(model: Model) -> dict[str, Any]:
    """Every array of the draw over all items: in memory from one draw of each block, or lazy."""
    n_items, chunks = model.given["n_items"], model.given["chunks"]
    if chunks is None:
        blocks = [_draw_block(model, block) for block in range(-(-n_items // BLOCK))]
        return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
    # A placeholder without memory of its own gives the chunks; the graph keeps those alone.
    empty = xr.Variable("item", np.broadcast_to(np.int8(0), (n_items,)))
    positions = item_positions(empty.chunk({"item": chunks}).data)
    one = _draw_block(model, 0)
    return {
        name: map_items(_Field(model, name), [positions], shape=array.shape[1:], dtype=array.dtype)
        for name, array in one.items()
    }


@dataclass(frozen=True)
class _Field:
    """One array of the draw, for consecutive items at given positions."""

    model: Model
    name: str

    def __call__(self, positions: npt.NDArray[np.integer]) -> npt.NDArray[Any]:
        if not len(positions):
            return _draw_block(self.model, 0)[self.name][:0]
        start, stop = int(positions[0]), int(positions[-1]) + 1
        blocks = range(start // BLOCK, -(-stop // BLOCK))
        drawn = np.concatenate([_draw_block(self.model, block)[self.name] for block in blocks])
        first = blocks[0] * BLOCK
        return drawn[start - first : stop - first]


def _draw_block(model: Model, block: int) -> dict[str, npt.NDArray[Any]]:
    """Every array for the items of a block."""
    given = model.given
    rng = _Streams(int(given["seed"]), block)
    size = min(BLOCK, given["n_items"] - block * BLOCK)
    latents = _draw_items(rng, given, size)
    truth = _draw_truth(model, rng, latents)
    answer = _draw_answers(model, rng, latents, truth)
    label = answer.copy()
    loading, direct = given["ca_difficulty"], given["ca_system"]
    for r, cut in enumerate(latents.cuts(1 - model.ca_rate, loading, direct)):
        noise = rng("ca", r).standard_normal(truth.shape)
        label[:, r][latents.explained(loading, direct) + math.sqrt(1 - loading**2) * noise > cut] = CA
    for r, rate in enumerate(model.invalid_rate, start=given["n_humans"]):
        label[_bursts(rng("invalid", r), size, rate, given["invalid_burst"]), r] = INVALID
    edges = latents.cuts([1 / 3, 2 / 3], 1.0)
    names = np.array([f"system_{s + 1}" for s in range(len(latents.effects))])
    return {
        "label": label,
        "truth": truth,
        "answer": answer,
        "difficulty": latents.difficulty,
        "band": np.array(_BANDS)[np.searchsorted(edges, latents.difficulty)],
        "system": names[latents.system],
    }


def _draw_items(rng: _Streams, given: Any, n_items: int) -> _Latents:
    n_systems, loading = given["n_systems"], given["system_difficulty"]
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


def _coordinates(model: Model) -> dict[str, Any]:
    n_items, n_humans, n_judges = (model.given[name] for name in ("n_items", "n_humans", "n_judges"))
    width = max(len(str(n_items - 1)), 3)
    humans = [f"human_{r + 1}" for r in range(n_humans)]
    judges = [f"judge_{r + 1}" for r in range(n_judges)]
    named = n_items <= _MOST_NAMED
    coords: dict[str, Any] = {
        "item": np.array([f"item_{i:0{width}d}" for i in range(n_items)]) if named else np.arange(n_items),
        "rater": np.array(humans + judges),
        "role": ("rater", np.array(["human"] * n_humans + ["judge"] * n_judges)),
        "identity": ("rater", np.array(["named"] * (n_humans + n_judges))),
        "family": ("rater", np.array(["human"] * n_humans + (model.families or judges))),
    }
    if model.criteria is not None:
        coords["criterion"] = np.array(model.criteria)
    return coords


def _dataset(model: Model, coords: dict[str, Any], arrays: dict[str, Any]) -> xr.Dataset:
    variables: dict[str, Any] = {}
    for name, values in arrays.items():
        dims = ["item", "criterion"] if values.ndim == 2 else ["item", "rater", "criterion"]
        if model.criteria is None:
            dims, values = dims[:-1], values[..., 0]
        variables[name] = (dims, values, model.scale.to_attrs())
    return xr.Dataset(variables, coords=coords)

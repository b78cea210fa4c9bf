"""The arguments of a simulation, read and checked: below :mod:`xjudge.simulation`, which draws from them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypedDict

import numpy as np
import numpy.typing as npt

from xjudge._simulation_masks import Mask, MaskDesign, design_problems
from xjudge.errors import StructureError, listing
from xjudge.scale import Scale

FloatArray = npt.NDArray[np.float64]


class Arguments(TypedDict, total=False):
    """What :func:`xjudge.simulation.simulate` takes, the dense dataset and ``return_truth`` apart."""

    n_items: int
    n_humans: int
    n_judges: int
    criteria: int | Sequence[str] | None
    n_categories: int
    prevalence: npt.ArrayLike | None
    human_accuracy: npt.ArrayLike
    judge_accuracy: npt.ArrayLike
    unanimous: Sequence[str]
    families: Sequence[str] | None
    error_correlation: float
    ca_rate: float | Sequence[float]
    invalid_rate: float | Sequence[float]
    invalid_burst: float
    overlap: float
    design: MaskDesign
    mask: Mask
    judge: Any
    n_masks: int | None
    n_systems: int
    system_difficulty: float
    truth_difficulty: float
    error_difficulty: float
    ca_difficulty: float
    ca_system: float
    chunks: int | None
    seed: int


@dataclass(frozen=True)
class Model:
    """The arguments as arrays.

    Parameters
    ----------
    given : mapping
        The arguments as they came; those not named below are read from here.
    scale : Scale
    criteria : tuple of str, or None
    shares : ndarray (criterion, category)
    accuracy : ndarray (rater, category)
    unanimous : ndarray of bool (criterion,)
    families : list of str, or None
        Of the judges.
    ca_rate : ndarray (rater,)
    invalid_rate : ndarray (judge,)
    judge : int
        Which judge's agreement makes strata.
    """

    given: Mapping[str, Any]
    scale: Scale
    criteria: tuple[str, ...] | None
    shares: FloatArray
    accuracy: FloatArray
    unanimous: npt.NDArray[np.bool_]
    families: list[str] | None
    ca_rate: FloatArray
    invalid_rate: FloatArray
    judge: int

    @property
    def n_criteria(self) -> int:
        """Number of criteria; 1 where there is no such dim."""
        return 1 if self.criteria is None else len(self.criteria)

    @property
    def family_numbers(self) -> list[int]:
        """Which stream of shared errors each rater draws from.

        A family is numbered by its first judge; humans, and judges without a family, by themselves.
        """
        n_humans = self.given["n_humans"]
        own = list(range(len(self.accuracy)))
        if self.families is None:
            return own
        return own[:n_humans] + [n_humans + self.families.index(name) for name in self.families]

    def to_json(self) -> str:
        """Return the arguments as a JSON object; chunks are nothing of the model."""
        given = {name: value for name, value in self.given.items() if name != "chunks"}
        return json.dumps(given, default=lambda value: np.asarray(value).tolist())


def read_arguments(given: Mapping[str, Any]) -> Model:
    """Read and check the arguments of a simulation.

    Raises
    ------
    StructureError
        Every problem found, in one message.
    """
    problems = _number_problems(given)
    if problems:  # the shapes below depend on these numbers
        raise StructureError(" ".join(problems))
    n_humans, n_judges, n_categories = (given[name] for name in ("n_humans", "n_judges", "n_categories"))
    criteria = _criterion_names(given["criteria"], problems)
    n_criteria = 1 if criteria is None else len(criteria)
    families = None if given["families"] is None else [str(name) for name in given["families"]]
    if families is not None and len(families) != n_judges:
        problems.append(f"`families` names one family per judge: {n_judges}, not {len(families)}.")
    accuracy = np.concatenate(
        [
            _probabilities(given, name, n, (n_categories,), problems)
            for name, n in (("human_accuracy", n_humans), ("judge_accuracy", n_judges))
        ]
    )
    unanimous = _unanimous(given["unanimous"], criteria, problems)
    ca_rate = _probabilities(given, "ca_rate", n_humans + n_judges, (), problems)
    invalid_rate = _probabilities(given, "invalid_rate", n_judges, (), problems)
    if (invalid_rate >= 1).any():
        problems.append("`invalid_rate` is below 1; a judge of which nothing can be read has no runs.")
    shares = _shares(given["prevalence"], n_criteria, n_categories, problems)
    judge = _stratified_by(given, n_criteria, problems)
    if problems:
        raise StructureError(" ".join(problems))
    binary = n_categories == 2
    scale = Scale.binary("UNMET", "MET") if binary else Scale.ordinal(range(1, n_categories + 1))
    return Model(given, scale, criteria, shares, accuracy, unanimous, families, ca_rate, invalid_rate, judge)


_LEAST: Final = {"n_items": 1, "n_humans": 0, "n_judges": 0, "n_categories": 2, "n_systems": 1, "seed": 0}
_RANGES: Final = {
    **dict.fromkeys(
        ("system_difficulty", "truth_difficulty", "error_difficulty", "ca_difficulty"), (-1.0, 1.0)
    ),
    **dict.fromkeys(("overlap", "error_correlation"), (0.0, 1.0)),
    "invalid_burst": (1.0, math.inf),
    "ca_system": (-math.inf, math.inf),
}


def _number_problems(given: Mapping[str, Any]) -> list[str]:
    problems = []
    for name, least in _LEAST.items():
        value = given[name]
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            problems.append(f"`{name}` is a whole number of at least {least}; got {value!r}.")
    for name, (low, high) in _RANGES.items():
        value = given[name]
        number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
        if not number or not math.isfinite(value) or not low <= value <= high:
            within = f" in [{low:g}, {high:g}]" if high < math.inf else f" of at least {low:g}"
            problems.append(f"`{name}` is a finite number{within if low > -math.inf else ''}; got {value!r}.")
    problems += design_problems(given["design"], given["mask"], given["n_masks"])
    chunks = given["chunks"]
    if chunks is not None and (isinstance(chunks, bool) or not isinstance(chunks, int) or chunks < 1):
        problems.append(f"`chunks` is a whole number of items of at least 1, or None; got {chunks!r}.")
    if problems:
        return problems
    if given["n_humans"] + given["n_judges"] == 0:
        problems.append("`n_humans` and `n_judges` are both 0; a dataset needs a rater.")
    explained = given["error_difficulty"] ** 2 + given["error_correlation"]
    if explained > 1:
        problems.append(
            "`error_difficulty` squared and `error_correlation` share one variance of 1; they sum to "
            f"{explained:g}."
        )
    return problems


def _stratified_by(given: Mapping[str, Any], n_criteria: int, problems: list[str]) -> int:
    """Number of the judge whose agreement makes strata."""
    design, names = given["design"], [f"judge_{r + 1}" for r in range(given["n_judges"])]
    if design.startswith("strat") and n_criteria > 1:
        problems.append(f"design={design!r} needs one label per item, so at most one criterion.")
    if design.startswith("strat") and given["n_humans"] == 0:
        problems.append(f"design={design!r} makes strata of the first human's labels; there is no human.")
    if design != "strat_judge" or (given["judge"] is None and len(names) == 1):
        return 0
    if given["judge"] not in names:
        problems.append(
            f"design='strat_judge' stratifies by one judge agreeing; name it with `judge=` "
            f"({listing(names, most=9) or 'there is none'}); got {given['judge']!r}."
        )
        return 0
    return names.index(given["judge"])


def _criterion_names(criteria: Any, problems: list[str]) -> tuple[str, ...] | None:
    if criteria is None:
        return None
    names: tuple[str, ...] = ()
    if isinstance(criteria, int | np.integer) and not isinstance(criteria, bool):
        names = tuple(f"criterion_{g + 1}" for g in range(criteria))
    elif isinstance(criteria, Sequence | np.ndarray) and not isinstance(criteria, str):
        names = tuple(str(name) for name in criteria)
    if not names or len(set(names)) < len(names):
        problems.append(
            f"`criteria` is a number of at least 1, or names of which each stands once; got {criteria!r}."
        )
        return None
    return names


def _unanimous(names: Any, criteria: tuple[str, ...] | None, problems: list[str]) -> npt.NDArray[np.bool_]:
    known = criteria or ()
    if isinstance(names, str) or not isinstance(names, Sequence) or any(name not in known for name in names):
        among = listing(known, most=9) if known else "no criteria"
        problems.append(f"`unanimous` lists some of the criteria ({among}); got {names!r}.")
        names = ()
    return np.array([name in names for name in known] if known else [False])


def _probabilities(
    given: Mapping[str, Any], name: str, n: int, last: tuple[int, ...], problems: list[str]
) -> FloatArray:
    """Probabilities as ``(n, *last)`` from one number, one per rater, or all of them."""
    shape = (n, *last)
    values = _numbers(given[name])
    if values is not None and values.shape == (n,):
        values = values.reshape(n, *(1 for _ in last))
    elif values is None or values.shape not in ((), shape):
        ways = f"one number or {n}" + (f", or an array of shape {shape}" if last else "")
        problems.append(f"`{name}` is {ways}; got {given[name]!r}.")
        return np.zeros(shape)
    if not ((values >= 0) & (values <= 1)).all():
        problems.append(f"`{name}` holds probabilities in [0, 1]; got {given[name]!r}.")
        return np.zeros(shape)
    return np.broadcast_to(values, shape)


def _shares(prevalence: Any, n_criteria: int, n_categories: int, problems: list[str]) -> FloatArray:
    """Shares of the categories as ``(n_criteria, n_categories)``."""
    shape = (n_criteria, n_categories)
    if prevalence is None:
        return np.full(shape, 1 / n_categories)
    values = _numbers(prevalence)
    allowed: tuple[tuple[int, ...], ...]
    if n_categories == 2:
        allowed, ways = ((), (n_criteria,)), f"one number or {n_criteria}, a share of positives per criterion"
    else:
        allowed, ways = ((n_categories,), shape), f"an array of shape ({n_categories},) or {shape}"
    if values is None or values.shape not in allowed:
        problems.append(f"`prevalence` is {ways}; got {prevalence!r}.")
        return np.full(shape, 1 / n_categories)
    if n_categories == 2:
        positive = np.broadcast_to(values, (n_criteria,))
        values = np.stack([1 - positive, positive], axis=1)
    shares = np.broadcast_to(values, shape)
    if not ((shares >= 0) & (shares <= 1)).all() or not np.allclose(shares.sum(axis=1), 1, rtol=0, atol=1e-9):
        total = "" if n_categories == 2 else " that sum to 1"
        problems.append(f"`prevalence` holds shares in [0, 1]{total}; got {prevalence!r}.")
    return shares


def _numbers(values: Any) -> FloatArray | None:
    try:
        out = np.asarray(values)
    except ValueError:  # rows of different lengths
        return None
    return out.astype(np.float64) if out.dtype.kind in "iuf" else None

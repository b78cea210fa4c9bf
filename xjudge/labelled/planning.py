"""How many co-labelled items a sure decision takes, which, and whether judges keep their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import xarray as xr

from xjudge._arguments import check_arguments
from xjudge.errors import ProtocolError, listing
from xjudge.labelled._common import flat_attrs
from xjudge.labelled._loo_pass import Codes, Opened
from xjudge.labelled._planning_allocate import allocate
from xjudge.labelled._planning_top import wrong_top_probability
from xjudge.protocol import Protocol
from xjudge.statistics import loo

__all__ = ["allocate", "plan_overlap", "wrong_decision_rate", "wrong_top_probability"]

wrong_decision_rate = loo.wrong_decision_rate


def plan_overlap(
    data: xr.Dataset | xr.DataArray | None = None,
    *,
    judge: Any = None,
    n_humans: int | None = None,
    human_accuracy: float | Sequence[float] | None = None,
    n_categories: int = 2,
    prevalence: float | Sequence[float] | None = None,
    joint: npt.ArrayLike | None = None,
    n_items: int | None = None,
    design: str = "random",
    eps: float = 0.05,
    at_margin: float = 0.05,
    target_fr: float = 0.05,
    target_fa: float = 0.05,
    threshold: float = 0.5,
    strict: bool = False,
    rule: loo.Rule = "omega",
    level: float = 0.95,
    q: float = 0.05,
    grid: Sequence[int] | None = None,
    method: loo.Method = "gaussian",
    n_trials: int = 2000,
    unit: Literal["items", "decisions"] = "items",
    protocol: Protocol | None = None,
    humans: Any = None,
    seed: int = 0,
) -> xr.Dataset:
    """Find how many items each further human must label for both wrong decisions to be rare.

    Parameters
    ----------
    data : Dataset or DataArray, optional
        A pilot; otherwise parameters, not both.
    judge : name, optional
        The judge of the pilot; needed where it has several.
    n_humans, human_accuracy, n_categories, prevalence, joint
        Parameters instead of a pilot: humans and their accuracies on a common truth, or a joint
        distribution of all labels. ``prevalence`` is one share a category; of two categories, the share of
        the positive one will do.
    n_items : int, optional
        Items of the corpus: those of the pilot, or 2,000.
    design : {"random", "shared", "strat", "strat_judge"}
        How the items of the further humans are drawn; the first human labels all.
    eps, threshold, strict, level
        The rule, as in :func:`xjudge.loo_validate`.
    at_margin : float
        How far above the bar a judge is whose rejection is a false rejection, and below it one whose
        approval is a false approval.
    target_fr, target_fa : float
        Greatest tolerated rates of the two errors.
    rule : {"omega", "partial_conjunction", "alt_test"}
        The plain rule; the verdict of :func:`xjudge.loo_validate` at ``level``, of which an inconclusive
        answer is an error; the alternative-annotator test at false discovery rate ``q``.
    q : float
        Of the alternative-annotator test.
    grid : sequence of int, optional
        Numbers of items to consider; otherwise a grid of its own and a continuous answer.
    method : {"gaussian", "monte_carlo", "auto"}
        Of the plain rule: ``"auto"`` simulates where a comparison has fewer than 10 pairs.
    n_trials : int
        Of the simulation.
    unit : {"items", "decisions"}
        What is counted of a pilot with several criteria, which are pooled: items, whose criteria are labelled
        and vary together, or single decisions (an item under a criterion), as if they were independent.
    protocol, humans
        For a pilot: how its labels are read, and who counts as human.
    seed : int
        Where the masks are simulated.

    Returns
    -------
    Dataset
        ``m_fr``, ``m_fa`` (items per further human for each error; inf where all items are not enough),
        ``m`` the larger: the recommendation, ``m_fr_continuous``, ``m_fa_continuous``, ``n_labels`` (cost:
        single labels), ``n_needed`` wins; on dim ``m_items`` the curves ``fr``, ``fa``, ``p_accept(margin)``,
        ``smallest_overlap`` (pairs), ``method`` and ``trusted``; ``verdict_probability(margin, verdict)`` at
        ``m``. All numbers of items are in ``unit``, an attribute, beside ``n_pilot`` (such units of a pilot)
        and ``labels_per_item`` (criteria of each).

    Raises
    ------
    ProtocolError
        A dataset and parameters together, or neither and how to read it; a pilot with several judges and none
        named; shares that are none.

    Notes
    -----
    LOO.md sections 3 to 6. Without simulation, in less than 100 ms, unless ``method`` says otherwise;
    ``trusted`` says where the normal form is within 1.5 points.

    Examples
    --------
    >>> import xjudge as xj
    >>> plan = xj.plan_overlap(n_humans=3, human_accuracy=0.85, design="shared", rule="omega")
    >>> float(plan["m"]) == max(float(plan["m_fr"]), float(plan["m_fa"]))
    True
    """
    check_arguments(plan_overlap, locals())
    if isinstance(prevalence, int | float):
        if n_categories != 2:
            raise ProtocolError(
                f"`prevalence` is one share a category, {n_categories} in all; got {prevalence!r}."
            )
        prevalence = [1 - prevalence, prevalence]
    parameters = {
        "n_humans": n_humans,
        "human_accuracy": human_accuracy,
        "joint": joint,
        "prevalence": prevalence,
    }
    options: dict[str, Any] = {
        "design": design,
        "eps": eps,
        "at_margin": at_margin,
        "target_fr": target_fr,
        "target_fa": target_fa,
        "threshold": threshold,
        "strict": strict,
        "rule": rule,
        "level": level,
        "q": q,
        "method": method,
        "n_trials": n_trials,
        "seed": seed,
    }
    if unit not in ("items", "decisions"):
        raise ProtocolError(f"`unit` must be 'items' or 'decisions'; got {unit!r}.")
    stated: dict[str, Any] = {"unit": unit, "labels_per_item": 1}
    if data is None:
        given: dict[str, Any] = {name: value for name, value in parameters.items() if value is not None}
        read = {"judge": judge, "protocol": protocol, "humans": humans}
        wrong = [name for name, value in read.items() if value is not None]
        if wrong:
            raise ProtocolError(
                f"{listing(wrong)} say how a pilot is read, and there is none: give `data` too."
            )
        size = 2000 if n_items is None else n_items
        given |= {"n_categories": n_categories, "n_items": size, "grid": grid, **options}
        found = loo.plan_overlap(**given)
    else:
        wrong = [name for name, value in parameters.items() if value is not None]
        wrong += ["n_categories"] if n_categories != 2 else []
        if wrong:
            raise ProtocolError(f"Give a pilot dataset or parameters, not both; got {listing(wrong)} too.")
        pilot, verdicts = _pilot(data, judge, protocol, humans, unit)
        if rule == "alt_test" and pilot.shape[1] > 1:
            raise ProtocolError(
                f"The alternative-annotator test counts decisions, and an item of this pilot has "
                f"{pilot.shape[1]}: unit='decisions'."
            )
        size = len(pilot) if n_items is None else n_items
        stated |= {"n_pilot": len(pilot), "labels_per_item": pilot.shape[1]}
        found = loo.plan_overlap(humans=pilot, judge=verdicts, n_items=size, grid=grid, **options)
    margins = np.array([at_margin, -at_margin])
    return xr.Dataset(
        {
            "m": found.m,
            "m_fr": found.m_fr,
            "m_fa": found.m_fa,
            "m_fr_continuous": found.m_fr_continuous,
            "m_fa_continuous": found.m_fa_continuous,
            "n_labels": found.n_labels * stated["labels_per_item"],
            "n_needed": found.needed,
            "fr": ("m_items", found.fr),
            "fa": ("m_items", found.fa),
            "p_accept": (("margin", "m_items"), found.p_accept),
            "smallest_overlap": ("m_items", found.smallest_overlap),
            "method": ("m_items", found.method),
            "trusted": ("m_items", found.trusted),
            "verdict_probability": (("margin", "verdict"), found.verdicts),
        },
        coords={"m_items": found.grid, "margin": margins, "verdict": ["accept", "reject", "inconclusive"]},
        attrs=flat_attrs({"verb": "plan_overlap", "n_items": size, **options, **stated}),
    )


def _pilot(data: Any, judge: Any, protocol: Protocol | None, humans: Any, unit: str) -> tuple[Codes, Codes]:
    """Labels (unit, criterion, human) and verdicts (unit, criterion) of a pilot."""
    opened = Opened(data, "plan_overlap", protocol, judges=None if judge is None else [judge], humans=humans)
    if len(opened.sides.right) != 1:
        names = listing(opened.view.named(np.array(opened.sides.right)), most=9)
        raise ProtocolError(f"`plan_overlap` plans for one judge; name it with `judge=` ({names}).")
    a, b = opened.codes()
    opened.counting.cases.warn()
    _need_meetings(opened, a, b)
    n_criteria = a.shape[2] if unit == "items" else 1
    return a.reshape(-1, n_criteria, a.shape[-1]), b.reshape(-1, n_criteria)


def _need_meetings(opened: Opened, humans: Codes, judge: Codes) -> None:
    """Raise where two humans of a pilot share no label with each other and the judge, naming them."""
    answered = ((humans >= 0) & (judge >= 0)).reshape(-1, humans.shape[-1]).astype(np.float64)
    apart = np.argwhere(np.triu(answered.T @ answered == 0, 1))
    if len(apart):
        names = opened.view.raters[list(opened.sides.left)]
        pairs = listing([f"{names[a]} with {names[b]}" for a, b in apart.tolist()])
        raise ProtocolError(
            "Planning from a pilot needs humans who all share items with each other and the judge, and these "
            f"share none: {pairs}. Leave humans out with `humans=[...]`, or plan from accuracies."
        )

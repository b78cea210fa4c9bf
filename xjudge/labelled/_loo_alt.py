"""The alternative-annotator test on labelled data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import xarray as xr

from xjudge._arguments import check_arguments
from xjudge.errors import ProtocolError, listing
from xjudge.labelled._common import texts, warn_undefined
from xjudge.labelled._loo_pass import Codes, Labelled, Opened
from xjudge.protocol import Protocol
from xjudge.statistics import loo

__all__ = ["alt_test"]


class _Advantage:
    """Counts of the alternative-annotator test."""

    def __init__(self, score: Any, scores: Any, min_humans: int) -> None:
        self.options = {"score": score, "scores": scores, "min_humans": min_humans}

    def __call__(self, humans: Labelled, judges: Labelled) -> Any:
        if humans.dtype.kind != "f":
            return loo.advantage_counts(humans, judges, **self.options)
        humans, judges, numbers = _as_categories(humans, judges)
        return loo.advantage_counts(humans, judges, **(self.options | {"scores": numbers}))


def _as_categories(humans: Labelled, judges: Labelled) -> tuple[Codes, Codes, npt.NDArray[np.float64]]:
    """Numbers, NaN where there is none, as codes of the distinct ones; at least one, which none may have."""
    said = [side[~np.isnan(side)] for side in (humans, judges)]
    numbers = np.unique(np.concatenate([*said, [0.0]]))
    codes = [np.where(np.isnan(side), -1, np.searchsorted(numbers, side)) for side in (humans, judges)]
    return codes[0], codes[1], numbers


_PER_HUMAN = (
    "advantage_judge",
    "advantage_human",
    "advantage_difference",
    "p_value",
    "p_value_reason",
    "significant",
    "n_items",
)


def alt_test(
    data: xr.Dataset | xr.DataArray,
    *,
    eps: float = 0.1,
    q: float = 0.05,
    score: Literal["accuracy", "neg_rmse"] | Callable[..., Any] = "accuracy",
    min_items: int = 30,
    min_humans: int = 2,
    protocol: Protocol | None = None,
    by: str | None = None,
    judges: Any = None,
    humans: Any = None,
    compute: bool = True,
) -> xr.Dataset:
    """Alternative-annotator test (Calderon, Reichart and Dror 2025).

    Per human a one-sided t test that the judge is at most ``eps`` worse at predicting the others, joined by
    Benjamini-Yekutieli at ``q``; the judge passes where it wins at least half of the tests.

    Parameters
    ----------
    data : Dataset or DataArray
        A judge dataset with at least two humans.
    eps : float
        Tolerance; read as the decimal that is written.
    q : float
        False discovery rate.
    score : {"accuracy", "neg_rmse"} or callable
        How well a label fits the other humans' labels of the item: the share of equal ones, or minus the
        root mean squared difference of the scores (ordered and continuous scales). A callable takes one
        label and the others (category values, or numbers) and returns a number, greater is better; NaN
        does not count.
    min_items : int
        Items a human needs for a test.
    min_humans : int
        Humans an item needs.
    protocol, by, judges, humans
        As in :func:`xjudge.loo_validate`; under ``"micro"`` a unit is an item under a criterion.
    compute : bool
        On lazy labels, whether to compute now.

    Returns
    -------
    Dataset
        Per (rater, human): ``advantage_judge``, ``advantage_human`` (shares of units on which each scores
        at least as well), ``advantage_difference``, ``p_value`` with ``p_value_reason``, ``significant``
        (1, 0, NaN untested), ``n_items`` (units). Per rater: ``advantage_probability`` (the paper's rho),
        ``omega``, ``n_tested``, ``passes`` (1, 0, NaN) with ``passes_reason``.

    Raises
    ------
    ProtocolError
        ``"neg_rmse"`` on a scale without an order, ``"accuracy"`` on a continuous one; a callable with
        ``by`` or a population, or that gives no number.

    Warns
    -----
    UndefinedWarning
        Humans that could not be tested, judges without a test.

    Notes
    -----
    One pass (sums); a callable score holds the labels in memory. Where scores never vary between items
    there is no t test: NaN with the reason, no vote.

    Examples
    --------
    >>> import xjudge as xj
    >>> found = xj.alt_test(xj.load_example(), eps=0.15, protocol=xj.Protocol(aggregate="micro"))
    >>> found["passes"].sel(rater="orion-large").item()
    1.0
    """
    check_arguments(alt_test, locals())
    opened = Opened(data, "alt_test", protocol, by=by, judges=judges, humans=humans, categories=False)
    scale, numbers = opened.plan.scale, opened.plan.scores is not None
    scores = scale.scores if scale.ordered and not numbers else None
    if numbers and score == "accuracy":
        raise ProtocolError(
            f"score='accuracy' asks for equal labels, and here the scale is {scale!r}. Take "
            "score='neg_rmse', or a function of a number and those of the others."
        )
    if score == "neg_rmse" and not numbers and (scores is None or opened.plan.outcomes):
        raise ProtocolError(f"score='neg_rmse' needs an ordered scale; under this protocol it is {scale!r}.")
    if callable(score):
        arrays = _alt_by_callable(opened, score, eps, q, min_items, min_humans)
    else:
        opened.request(_Advantage(score, scores if score == "neg_rmse" else None, min_humans))

        def finish(counted: list[Any]) -> dict[str, Any]:
            slots = opened.slots(counted)
            found = [
                _flat_alt(loo.alt_test_counts(ahead, n, eps=eps, q=q, min_items=min_items))
                for ahead, n in slots.ravel().tolist()
            ]
            return opened.arranged(found, len(slots), _PER_HUMAN)

        arrays = opened.counting.run(finish, compute)
    result = opened.result(
        "alt_test",
        arrays,
        _PER_HUMAN,
        eps=eps,
        q=q,
        score=score if isinstance(score, str) else "callable",
        min_items=min_items,
        min_humans=min_humans,
    )
    if compute or not opened.view.lazy:
        warn_undefined(result, ["p_value", "passes"])
    return result


def _flat_alt(found: loo.AltTest) -> dict[str, npt.NDArray[Any]]:
    return {
        "advantage_judge": found.advantage_judge,
        "advantage_human": found.advantage_human,
        "advantage_difference": found.difference,
        "p_value": found.p_value,
        "p_value_reason": texts(found.reason),
        "significant": found.significant,
        "n_items": found.n_items,
        "advantage_probability": found.advantage_probability,
        "omega": found.omega,
        "n_tested": found.n_tested,
        "passes": found.passes,
        "passes_reason": texts(found.passes_reason),
    }


def _alt_by_callable(
    opened: Opened, score: Callable[..., Any], eps: float, q: float, min_items: int, min_humans: int
) -> dict[str, Any]:
    humans, judges = opened.codes()
    plan = opened.plan
    values: Sequence[Any] = plan.scale.categories
    if plan.scores is not None:
        humans, judges, distinct = _as_categories(humans, judges)
        values = distinct.tolist()
    pooled = plan.aggregate == "micro" or plan.n_criteria == 1
    found = []
    for h, j in zip(humans, judges, strict=True):
        tables = [(h, j)] if pooled else [(h[:, [g]], j[:, [g]]) for g in range(h.shape[1])]
        for a, b in tables:
            units, verdicts = a.reshape(-1, a.shape[-1]), b.reshape(-1, b.shape[-1])
            each = []
            for k in range(verdicts.shape[1]):
                ours, theirs = _scored(units, verdicts[:, k], values, score, min_humans)
                each.append(_flat_alt(loo.alt_test_scores(ours, theirs, eps=eps, q=q, min_items=min_items)))
            found.append({name: np.stack([one[name] for one in each]) for name in each[0]})
    return opened.arranged(found, 1, _PER_HUMAN)


def _scored(
    units: Codes, judge: Codes, values: Sequence[Any], score: Callable[..., Any], min_humans: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Scores (unit, human) of the judge and of each human against the other humans; NaN where none."""
    ours = np.full(units.shape, np.nan)
    theirs = np.full(units.shape, np.nan)
    for i, row in enumerate(units.tolist()):
        present = [k for k, code in enumerate(row) if code >= 0]
        if judge[i] < 0 or len(present) < max(2, min_humans):
            continue
        for k in present:
            others = [values[row[p]] for p in present if p != k]
            for scored, label in ((ours, values[int(judge[i])]), (theirs, values[row[k]])):
                number = score(label, others)
                if not isinstance(number, Real):
                    raise ProtocolError(
                        f"`score` gives a number for a label and a list of others; for {label!r} and "
                        f"{listing(others)} it gave {number!r}."
                    )
                scored[i, k] = number
    return ours, theirs

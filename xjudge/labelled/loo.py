"""May this judge replace a human? Leave-one-out validation and the alternative-annotator test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import xarray as xr

from xjudge.errors import ProtocolError, XJudgeWarning, warn
from xjudge.labelled._common import texts
from xjudge.labelled._loo_pass import Codes, Opened
from xjudge.protocol import Protocol
from xjudge.statistics import loo

__all__ = ["alt_test", "loo_validate"]


def _loo_count(humans: Codes, judges: Codes) -> Any:
    return loo.loo_counts(humans, judges), None


def _loo_count_with_pairs(humans: Codes, judges: Codes) -> Any:
    return loo.loo_counts(humans, judges), loo.loo_pair_moments(humans, judges)


class _Advantage:
    """Counts of the alternative-annotator test."""

    def __init__(self, score: Any, scores: Any, min_humans: int) -> None:
        self.options = {"score": score, "scores": scores, "min_humans": min_humans}

    def __call__(self, humans: Codes, judges: Codes) -> Any:
        return loo.advantage_counts(humans, judges, **self.options)


# -------------------------------------------------------------------------------------------- loo_validate


def loo_validate(
    data: xr.Dataset | xr.DataArray,
    *,
    eps: float = 0.05,
    threshold: float = 0.5,
    strict: bool = False,
    pooling: loo.Pooling = "items",
    statistic: str = "accuracy",
    at_margin: float = 0.05,
    target: loo.Target = "population",
    combine: loo.Combine = "bonferroni",
    control: bool = False,
    level: float = 0.95,
    protocol: Protocol | None = None,
    by: str | None = None,
    judges: Any = None,
    humans: Any = None,
    compute: bool = True,
) -> xr.Dataset:
    """Hold out each human in turn, and ask whether the judge agrees with the others as well, within ``eps``.

    Parameters
    ----------
    data : Dataset or DataArray
        A judge dataset with at least two humans.
    eps : float
        Tolerance on the scale of the statistic; read as the decimal that is written.
    threshold : float
        Share of the comparisons that the judge must win, read as a decimal.
    strict : bool
        Whether a share of exactly ``threshold`` is not enough.
    pooling : {"items", "pairs"}
        Ratio of sums over pairs, or mean of the agreements with each other human.
    statistic : str
        ``"accuracy"``, or one of ``xjudge.statistics.loo.LOO_STATISTICS`` (``eps`` is then on its scale).
    at_margin : float
        Distance from the bar at which ``fr_at_margin`` and ``fa_at_margin`` are evaluated.
    target : {"population", "matrix"}
        What standard errors are about: future items, or the labels of this corpus not yet given.
    combine : {"bonferroni", "max_t"}
        How the comparisons' p-values are joined.
    control : bool
        Use the judge's agreement with the first human on all items as a control variate.
    level : float
        A verdict needs a p-value of at most ``1 - level``.
    protocol : Protocol, optional
        Labels are compared as its categories; ``"micro"`` pools the criteria of an item, ``"item"``
        compares item verdicts, ``None`` validates each criterion.
    by, judges, humans
        As in :func:`xjudge.agreement`.
    compute : bool
        On lazy labels, whether to compute now.

    Returns
    -------
    Dataset
        Per (rater, human): ``margin`` (tolerance included), ``se``, ``overlap`` pairs, ``n_items``,
        ``judge_agreement``, ``human_agreement`` (``human_agreement_equal`` with every other human weighed
        equally), ``win`` (1, 0, NaN without overlap), ``margin_tie``, ``margin_reason``, ``se_reason``.
        Per rater: ``omega``, ``n_available``, ``n_needed``, ``tie``, ``accept_point`` (the plain rule),
        ``verdict`` (accept, reject, inconclusive), ``p_value_accept``, ``p_value_reject``, ``p_accept``
        (stability of the plain rule under a redraw, not an error rate), ``fr_at_margin``, ``fa_at_margin``,
        ``near_threshold``.

    Raises
    ------
    StructureError, OverlapError
        Fewer than two humans; raters known by position only.
    ProtocolError
        Options that do not go together.

    Warns
    -----
    XJudgeWarning
        Once per call: comparisons with fewer than 30 pairs, a rule that accepts on ties, unequal overlap.

    Notes
    -----
    LOO.md section 1. One pass (sums) for accuracy; other statistics and the control variate hold the
    labels in memory. Wins are decided on integer counts.

    Examples
    --------
    >>> import warnings
    >>> import xjudge as xj
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", xj.XJudgeWarning)
    ...     found = xj.load_example().judge.loo_validate(protocol=xj.Protocol(aggregate="micro"))
    >>> found["verdict"].sel(rater="orion-large").item()
    'accept'
    """
    opened = Opened(data, "loo_validate", protocol, by=by, judges=judges, humans=humans)
    rule: dict[str, Any] = {"eps": eps, "threshold": threshold, "strict": strict}
    decide: dict[str, Any] = {"level": level, "at_margin": at_margin, "combine": combine}
    if statistic != "accuracy" or control:
        if not compute and opened.view.lazy:
            raise ProtocolError("Statistics other than accuracy, and a control variate, are not lazy.")
        a, b = opened.codes()
        options = {**rule, **decide, "statistic": statistic, "control": control, "pooling": pooling}
        arrays = _in_memory(opened, a, b, target=target, **options)
    else:
        plain = pooling == "items" and target == "population"
        opened.request(_loo_count if plain else _loo_count_with_pairs)

        def finish(counted: list[Any]) -> dict[str, Any]:
            found = []
            for counts, pairs in opened.slots(counted).ravel().tolist():
                margins = loo.loo_margins(counts, pooling=pooling, target=target, pairs=pairs, **rule)
                verdict = loo.loo_verdict(margins, **rule, **decide)
                cautions = loo.loo_cautions(counts, margins.votes, threshold=threshold, strict=strict)
                found.append(_flat(loo.LooValidation(margins, verdict, cautions)))
            return _arranged(opened, found, len(opened.slots(counted)))

        arrays = opened.counting.run(finish, compute)
    stated = {
        **rule,
        **decide,
        "pooling": pooling,
        "statistic": statistic,
        "target": target,
        "control": control,
    }
    result = opened.result("loo_validate", arrays, _PER_HUMAN, **stated)
    if compute or not opened.view.lazy:
        _warn(result)
    return result


_PER_HUMAN = (
    "margin",
    "se",
    "overlap",
    "n_items",
    "judge_agreement",
    "human_agreement",
    "human_agreement_equal",
    "win",
    "margin_tie",
    "thin_overlap",
    "margin_reason",
    "se_reason",
)


def _flat(found: loo.LooValidation) -> dict[str, npt.NDArray[Any]]:
    """A validation as named arrays (judge, human) and (judge)."""
    margins, verdict, cautions = found
    votes = margins.votes
    return {
        "margin": margins.margin,
        "se": margins.se,
        "overlap": margins.overlap,
        "n_items": margins.n_items,
        "judge_agreement": margins.judge_agreement,
        "human_agreement": margins.human_agreement,
        "human_agreement_equal": cautions.human_agreement_equal,
        "win": margins.win,
        "margin_tie": margins.margin_tie,
        "thin_overlap": cautions.thin,
        "margin_reason": texts(margins.reason),
        "se_reason": texts(margins.se_reason),
        "omega": votes.omega,
        "n_available": votes.n_available,
        "n_needed": votes.needed,
        "tie": votes.tie,
        "accept_point": votes.accept_point,
        "verdict": verdict.verdict,
        "p_value_accept": verdict.p_value_accept,
        "p_value_reject": verdict.p_value_reject,
        "p_accept": verdict.p_accept,
        "fr_at_margin": verdict.fr_at_margin,
        "fa_at_margin": verdict.fa_at_margin,
        "tie_accepts": cautions.tie_accepts,
        "unequal_pairs": cautions.unequal_pairs,
        "near_threshold": cautions.near_threshold,
    }


def _arranged(opened: Opened, found: Sequence[dict[str, Any]], n_slices: int) -> dict[str, Any]:
    """Tables stacked and put on the result's dims."""
    out = {}
    for name in found[0]:
        stacked = np.stack([np.asarray(one[name]) for one in found])
        apart = stacked.reshape((n_slices, len(found) // n_slices, *stacked.shape[1:]))
        out[name] = opened.on_dims(apart, name in _PER_HUMAN or name in _ALT_PER_HUMAN)
    return out


def _in_memory(opened: Opened, humans: Codes, judges: Codes, **options: Any) -> dict[str, Any]:
    """Validation that needs the labels themselves: table by table, judge by judge."""
    plan = opened.plan
    pooled = plan.aggregate == "micro" or plan.n_criteria == 1
    scale = plan.scale
    if options["statistic"].startswith("neg_") and not scale.ordered:
        raise ProtocolError(f"statistic={options['statistic']!r} needs an ordered scale; this is {scale!r}.")
    more: dict[str, Any] = (
        {"n_categories": scale.n_categories, "scores": scale.scores} if not options["control"] else {}
    )
    found = []
    for h, j in zip(humans, judges, strict=True):
        tables = [(h, j)] if pooled else [(h[:, g], j[:, g]) for g in range(h.shape[1])]
        for a, b in tables:
            each = [_flat(loo.loo_validate(a, b[..., k], **options, **more)) for k in range(b.shape[-1])]
            found.append({name: np.stack([one[name] for one in each]) for name in each[0]})
    return _arranged(opened, found, 1)


def _warn(result: xr.Dataset) -> None:
    told = []
    thin = int(result["thin_overlap"].sum())
    if thin:
        told.append(f"{thin} comparisons rest on fewer than 30 pairs, where standard errors are unreliable")
    if bool(result["tie_accepts"].any()):
        told.append(
            "the rule accepts on a tie of votes and so approves bad judges more easily than it refuses good "
            "ones (strict=True, or an odd number of humans)"
        )
    if bool(result["unequal_pairs"].any()):
        told.append(
            "pairs of humans overlap unequally, so agreement weighs them by overlap (compare "
            "human_agreement_equal)"
        )
    near = int(result["near_threshold"].sum())
    if near:
        told.append(f"{near} plain decisions hang on one vote (see verdict and p_accept)")
    if told:
        warn(f"Leave-one-out: {'; '.join(told)}.", XJudgeWarning)


# ------------------------------------------------------------------------------------------------- alt-test

_ALT_PER_HUMAN = (
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
        root mean squared difference of the scores (ordered scales). A callable takes one label and the
        others (category values) and returns a number, greater is better.
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
        ``"neg_rmse"`` on a scale without an order; a callable with ``by`` or a population.

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
    opened = Opened(data, "alt_test", protocol, by=by, judges=judges, humans=humans)
    scale = opened.plan.scale
    scores = scale.scores if scale.ordered else None
    if score == "neg_rmse" and (scores is None or opened.plan.outcomes):
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
            return _arranged(opened, found, len(slots))

        arrays = opened.counting.run(finish, compute)
    return opened.result(
        "alt_test",
        arrays,
        _ALT_PER_HUMAN,
        eps=eps,
        q=q,
        score=score if isinstance(score, str) else "callable",
        min_items=min_items,
        min_humans=min_humans,
    )


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
    values = opened.plan.scale.categories
    plan = opened.plan
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
    return _arranged(opened, found, 1)


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
            ours[i, k] = score(values[int(judge[i])], others)
            theirs[i, k] = score(values[row[k]], others)
    return ours, theirs

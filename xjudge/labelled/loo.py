"""May this judge replace a human? Leave-one-out validation and the alternative-annotator test."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import xarray as xr

from xjudge._arguments import check_arguments
from xjudge.errors import ProtocolError, XJudgeWarning, warn
from xjudge.labelled._common import texts, warn_undefined
from xjudge.labelled._loo_alt import alt_test
from xjudge.labelled._loo_pass import Codes, Opened
from xjudge.labelled._loo_strata import Strata
from xjudge.protocol import Protocol
from xjudge.statistics import loo

__all__ = ["alt_test", "loo_validate"]


def _loo_count(humans: Codes, judges: Codes) -> Any:
    return loo.loo_counts(humans, judges), None


def _loo_count_with_pairs(humans: Codes, judges: Codes) -> Any:
    return loo.loo_counts(humans, judges), loo.loo_pair_moments(humans, judges)


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
    strata: str | Literal[False] | None = None,
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
    strata : str or False, optional
        Item coordinate of the strata from which the co-labelled items were drawn: sums are weighted by the
        stratum's items over those co-labelled, ``N_s / n_s``, and errors are those within strata. By default
        ``stratum`` where the data has ``sampling_weight`` too, as :func:`xjudge.allocate` gives them;
        ``False`` (in attributes ``none``) weighs all items alike.
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
        ``near_threshold``. With strata ``n_unsampled``: items of strata without a co-labelled item.

    Raises
    ------
    StructureError, OverlapError
        Fewer than two humans; raters known by position only.
    ProtocolError
        Options that do not go together.

    Warns
    -----
    XJudgeWarning
        Once per call: comparisons with fewer than 30 pairs, a rule that accepts on ties, unequal overlap,
        decisions that hang on one vote, a statistic on another scale. ``UndefinedWarning``: comparisons
        without a margin.

    Notes
    -----
    LOO.md section 1. One pass (sums) for accuracy; other statistics and the control variate hold the
    labels in memory. Wins are decided on integer counts, weighted ones in exact fractions.

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
    check_arguments(loo_validate, locals())
    opened = Opened(data, "loo_validate", protocol, by=by, judges=judges, humans=humans)
    rule: dict[str, Any] = {"eps": eps, "threshold": threshold, "strict": strict}
    decide: dict[str, Any] = {"level": level, "at_margin": at_margin, "combine": combine}
    drawn = Strata.of(opened, strata)
    if drawn is not None and (statistic != "accuracy" or control or pooling != "items"):
        raise ProtocolError(
            f"Items drawn from strata ({drawn.name!r}) are weighted for statistic='accuracy' with "
            "pooling='items' and without a control only; strata=False weighs all items alike."
        )
    if statistic != "accuracy" or control:
        if not compute and opened.view.lazy:
            raise ProtocolError("Statistics other than accuracy, and a control variate, are not lazy.")
        a, b = opened.codes()
        options = {**rule, **decide, "statistic": statistic, "control": control, "pooling": pooling}
        arrays = _in_memory(opened, a, b, target=target, **options)
    else:
        plain = drawn is not None or (pooling == "items" and target == "population")
        opened.request(_loo_count if plain else _loo_count_with_pairs)

        def finish(counted: list[Any]) -> dict[str, Any]:
            found = []
            slots = opened.slots(counted)
            for table in slots.ravel().tolist():
                more: dict[str, Any] = {}
                if drawn is None:
                    counts, pairs = table
                    margins = loo.loo_margins(counts, pooling=pooling, target=target, pairs=pairs, **rule)
                else:
                    counts, margins, more = drawn.margins([part for part, _ in table], target=target, **rule)
                verdict = loo.loo_verdict(margins, **rule, **decide)
                cautions = loo.loo_cautions(counts, margins.votes, threshold=threshold, strict=strict)
                found.append(_flat(loo.LooValidation(margins, verdict, cautions)) | more)
            return opened.arranged(found, len(slots), _PER_HUMAN)

        arrays = opened.counting.run(finish, compute)
    stated = {
        **rule,
        **decide,
        "pooling": pooling,
        "statistic": statistic,
        "target": target,
        "control": control,
        "strata": "none" if strata is False else strata,
    }
    result = opened.result("loo_validate", arrays, _PER_HUMAN, **stated)
    if compute or not opened.view.lazy:
        _warn(result, statistic)
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
    return opened.arranged(found, 1, _PER_HUMAN)


def _warn(result: xr.Dataset, statistic: str) -> None:
    warn_undefined(result, ["margin"])
    told = []
    if statistic != "accuracy":
        told.append(f"eps and at_margin are on the scale of {statistic}, not of shares of agreement")
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
    if "n_unsampled" in result and int(result["n_unsampled"].max()):
        told.append(
            f"{int(result['n_unsampled'].max())} items are of strata without a co-labelled item, and nothing "
            "stands for them"
        )
    near = int(result["near_threshold"].sum())
    if near:
        told.append(f"{near} plain decisions hang on one vote (see verdict and p_accept)")
    if told:
        warn(f"Leave-one-out: {'; '.join(told)}.", XJudgeWarning)

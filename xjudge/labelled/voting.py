"""One answer from a panel: votes, label frequencies and weights, scored against the human side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from xjudge._arguments import check_arguments
from xjudge.errors import ProtocolError, Reason, listing
from xjudge.labelled._panel_pass import VOTES, OpenedPanel, Units, flat_units
from xjudge.labelled._panel_resample import (
    checked_sampling,
    resampled_ratios,
    sums_of_units,
    units_of_items,
)
from xjudge.labelled._sampling import Sampling
from xjudge.protocol import Protocol
from xjudge.statistics import panel

__all__ = ["panel_vote"]

Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

_AGGREGATES = ("majority", "soft", "weighted", "signed", "dawid_skene")
_TIES = ("uniform", "first", "hash")
_SCORES = ("accuracy", "distributional_error")


def panel_vote(
    data: xr.Dataset | xr.DataArray,
    *,
    aggregate: str | Sequence[str] = ("majority", "soft", "weighted"),
    ties: str = "uniform",
    folds: int = 5,
    votes: bool = False,
    human: str = "observed",
    gold: str = "mode",
    protocol: Protocol | None = None,
    by: str | None = None,
    judges: Any = None,
    humans: Any = None,
    interval: str | None = "auto",
    resample: str = "items",
    level: float = 0.95,
    n_resamples: int = 2000,
    seed: int = 0,
    compute: bool = True,
) -> xr.Dataset:
    """Score what the panel says together: its vote, its label frequencies, weighted frequencies.

    Parameters
    ----------
    data : Dataset or DataArray
        A judge dataset.
    aggregate : str or list of str
        ``"majority"``: the most frequent label; ``"soft"``: the label frequencies; ``"weighted"``:
        frequencies under the nonnegative weights of least distributional error, ``"signed"`` without that
        constraint, each fitted without the item's own fold; ``"dawid_skene"``: the probabilities of a latent
        label with a confusion matrix for each judge (:func:`xjudge.statistics.panel.dawid_skene`), fitted to
        all answers, those on items that are not scored too; it sees no human label.
    ties : {"uniform", "first", "hash"}
        The most frequent label where several are: a random one, the first category, or one picked by a hash
        of the answers. The accuracy of frequencies counts a tie as the chance of a uniform pick.
    folds : int
        Random folds of the items, on which weights are judged.
    votes : bool
        Also say what the panel says of each item, whether a human did or not; not with ``by``.
    human, gold
        As in :func:`xjudge.effective_size`.
    protocol, by, judges, humans
        As in :func:`xjudge.effective_size`.
    interval, resample, level, n_resamples, seed
        Percentile intervals from resampled items, with weights and confusion matrices held as they are.
    compute : bool
        On lazy labels, whether to compute now; the votes are held in one task.

    Returns
    -------
    Dataset
        On dim ``aggregate``: ``accuracy`` against gold and ``distributional_error`` (squared distance from
        the human distribution), each with ``_reason``, ``_se`` and ``_interval(bound)``. ``weights`` on
        ``aggregate`` and ``rater``: fitted on all items, equal for votes, NaN for a latent label.
        ``n_items``, ``n_dropped``, ``n_ties`` of the vote. With ``votes``, on ``item``, the dims of the
        labels and ``aggregate``: ``vote``, a category as text, empty where no member answered, of a vote
        with ties a random mode or as ``ties`` says, otherwise the first of the largest shares; and ``share``
        on ``category``. Weights of an item that is scored are fitted without its fold, of others on all.

    Raises
    ------
    ProtocolError, StructureError, OverlapError
        As :func:`xjudge.effective_size`; unknown aggregates.

    Warns
    -----
    DroppedWarning
        Units left out: all aggregates are scored on the units that every member answered.

    Examples
    --------
    >>> import warnings
    >>> import xjudge as xj
    >>> ds = xj.load_example()
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", xj.DroppedWarning)
    ...     found = xj.panel_vote(ds, protocol=xj.Protocol(aggregate="micro"))
    >>> soft, vote = (found["distributional_error"].sel(aggregate=a).item() for a in ("soft", "majority"))
    >>> soft < vote
    True
    """
    check_arguments(panel_vote, locals())
    names = [aggregate] if isinstance(aggregate, str) else list(aggregate)
    unknown = [name for name in names if name not in _AGGREGATES]
    if unknown or not names:
        raise ProtocolError(f"`aggregate` holds {listing(_AGGREGATES, most=9)}; got {aggregate!r}.")
    if ties not in _TIES:
        raise ProtocolError(f"`ties` is one of {listing(_TIES)}; got {ties!r}.")
    if folds < 2 or folds != int(folds):
        raise ProtocolError(f"`folds` is a number of at least 2; got {folds!r}.")
    if votes and by is not None:
        raise ProtocolError(
            "`votes=True` is about items, and `by` cuts them into slices: select a slice first."
        )
    sampling = checked_sampling(interval, resample, level, n_resamples, seed, "panel_vote")
    opened = OpenedPanel(
        data,
        "panel_vote",
        protocol,
        human=human,
        gold=gold,
        by=by,
        judges=judges,
        humans=humans,
        seed=seed,
        resample=None if interval is None else resample,
    )
    opened.request(VOTES)
    categories = [str(category) for category in opened.scale.categories]

    def finish(counted: list[Any]) -> dict[str, Any]:
        n_items = opened.view.n_items if votes else None
        scored = _Scored(names, ties, folds, sampling, categories, n_items)
        found = [[scored.of(units) for units in tables] for tables in opened.slots(counted, 1)]
        return opened.stacked(found)

    arrays = opened.counting.run(finish, compute)
    trailing: dict[str, tuple[str, ...]] = {name: ("aggregate",) for name in arrays if name[:2] != "n_"}
    trailing |= {name: ("aggregate", "bound") for name in arrays if name.endswith("_interval")}
    trailing["weights"] = ("aggregate", "rater")
    coords: dict[str, Any] = {"aggregate": ("aggregate", np.array(names, dtype=str))}
    if sampling.method is not None:
        coords["bound"] = ("bound", ["lower", "upper"])
    if votes:
        _place_votes(opened, arrays, trailing, coords, categories)
    stated: dict[str, Any] = {"aggregate": names, "ties": ties, "folds": folds, "votes": votes, "seed": seed}
    stated["interval"] = sampling.method or "none"
    if sampling.method is not None:
        stated |= {"resample": resample, "level": level, "n_resamples": n_resamples, "law": "multinomial"}
    result = opened.result("panel_vote", arrays, trailing, coords, **stated)
    if votes:
        last = {"vote": ["aggregate"], "share": ["aggregate", "category"]}
        result = result.assign({n: result[n].transpose("item", ..., *dims) for n, dims in last.items()})
    opened.told(result, "no human label, or no answer of a member that is a category", compute)
    return result


def _place_votes(
    opened: OpenedPanel,
    arrays: dict[str, Any],
    trailing: dict[str, tuple[str, ...]],
    coords: dict[str, Any],
    categories: Sequence[str],
) -> None:
    """Say on which dims the votes of items are; of units under criteria that are pooled, on these too."""
    units = ("item", "criterion") if opened.pooled_criteria else ("item",)
    trailing["vote"] = ("aggregate", *units)
    trailing["share"] = ("aggregate", *units, "category")
    if not opened.pooled_criteria:
        axis = {"vote": -1, "share": -2}
        arrays.update({name: arrays[name].squeeze(place) for name, place in axis.items()})
    coords.update(opened.view.coordinates(*units))
    coords["category"] = ("category", np.array(categories, dtype=str))


class _Panels:
    """Label distributions of the aggregates on one table, on every unit that some member answered."""

    def __init__(self, units: Units, used: Flags, said: Flags, ties: str, folds: int, seed: int) -> None:
        self.judges, self.h, self.gold, _ = flat_units(units, used)
        self.answers, self.scored = units.judges[said], used[said]
        self.n_categories = units.human.shape[2]
        self.ties, self.folds, self.seed = ties, folds, seed
        item = np.broadcast_to(np.arange(len(used))[:, None], used.shape)[used]
        self.item = np.unique(item, return_inverse=True)[1].reshape(-1)

    def aggregate(self, name: str) -> tuple[Floats, Floats]:
        """Label distributions (unit, category) of an aggregate, and the weights of the judges."""
        n_categories, n_judges = self.n_categories, self.judges.shape[1]
        equal = np.full(n_judges, 1.0 / n_judges)
        if name == "majority":
            vote = panel.majority_vote(self.answers, n_categories, ties=self.ties, seed=self.seed)
            return np.eye(n_categories)[vote.label], equal
        if name == "soft":
            return panel.soft_distribution(self.answers, n_categories), equal
        if name == "dawid_skene":
            return panel.dawid_skene(self.answers, n_categories).posterior, np.full(n_judges, np.nan)
        n_items = int(self.item.max(initial=-1)) + 1
        if n_items < 2:
            return np.full((len(self.answers), n_categories), np.nan), np.full(n_judges, np.nan)
        fold = np.random.default_rng(self.seed).permutation(np.arange(n_items) % self.folds)[self.item]
        positive = name == "weighted"
        gram = panel.residual_gram(self.judges, self.h)
        weights = panel.minimum_error_weights(gram, nonnegative=positive).weights
        shares = panel.soft_distribution(self.answers, n_categories, weights)
        shares[self.scored] = panel.cross_fitted_distribution(self.judges, self.h, fold, nonnegative=positive)
        return shares, weights


class _Scored:
    """Scores of the aggregates on one table."""

    def __init__(
        self,
        names: Sequence[str],
        ties: str,
        folds: int,
        sampling: Sampling,
        categories: Sequence[str],
        n_items: int | None,
    ) -> None:
        self.names, self.ties, self.folds, self.sampling = names, ties, folds, sampling
        self.n_items = n_items  # where what is said of each item is asked for
        self.texts = np.array([*categories, ""], dtype=str)

    def of(self, units: Units) -> dict[str, Any]:
        """Values by name, aggregates on the first axis."""
        used = units.used("drop")
        said = units.inside & (units.judges >= 0).any(-1)
        panels = _Panels(units, used, said, self.ties, self.folds, self.sampling.seed)
        unit = units_of_items(units, self.sampling.resample)[used]
        made = [panels.aggregate(name) for name in self.names]
        hits, errors = [], []
        for name, (shares, _) in zip(self.names, made, strict=True):
            score = panel.score_aggregate(shares[panels.scored], panels.h, panels.gold)
            hits.append(score.hit)
            errors.append(score.squared_error)
            if name == "majority" and self.ties == "uniform":
                hits[-1], errors[-1] = _uniform(panels.judges, panels.h, panels.gold, panels.n_categories)
        out: dict[str, Any] = {"weights": np.stack([weights for _, weights in made])}
        for name, values in zip(_SCORES, (np.stack(hits), np.stack(errors)), strict=True):
            out |= self._summarised(name, values, unit)
        n_dropped = int(units.inside.sum() - used.sum())
        n_ties = panel.majority_vote(panels.judges, panels.n_categories).n_ties
        out |= {"n_items": len(panels.judges), "n_dropped": n_dropped, "n_ties": n_ties}
        if self.n_items is None:
            return out
        shares = np.full((len(made), *said.shape, panels.n_categories), np.nan)
        shares[:, said] = np.stack([distribution for distribution, _ in made])
        if not len(said):  # the shapes of a lazy result, which is known to have these items
            shares = np.full((len(made), self.n_items, *shares.shape[2:]), np.nan)
        none = np.isnan(shares).any(-1)
        label = np.where(none, -1, np.nan_to_num(shares).argmax(-1))
        return out | {"vote": self.texts[label], "share": shares}

    def _summarised(self, name: str, values: Floats, unit: npt.NDArray[np.int64]) -> dict[str, Any]:
        """Mean over units, with the interval of resampled items; values (aggregate, n)."""
        known = ~np.isnan(values)
        part = sums_of_units(np.where(known, values, 0.0).T, unit)
        whole = sums_of_units(known.T.astype(np.float64), unit)
        total, n = part.sum(0), whole.sum(0)
        mean = np.divide(total, n, out=np.full(total.shape, np.nan), where=n > 0)
        few = Reason.FEW_COMPLETE_ITEMS if len(unit) else Reason.NO_ITEMS
        out: dict[str, Any] = {name: mean, f"{name}_reason": np.where(n > 0, int(Reason.OK), int(few))}
        if self.sampling.method is None:
            return out
        out[f"{name}_se"], out[f"{name}_interval"] = resampled_ratios(part, whole, self.sampling)
        return out


def _uniform(
    judges: npt.NDArray[Any], h: Floats, gold: npt.NDArray[Any], n_categories: int
) -> tuple[Floats, Floats]:
    """Expected hit and squared error of a vote whose ties go to a random one of the modes."""
    counts = np.stack([(judges == label).sum(1) for label in range(n_categories)], axis=1)
    modal = (counts == counts.max(1, keepdims=True)) / 1.0
    chance = modal / modal.sum(1, keepdims=True)
    hit = np.where(gold >= 0, chance[np.arange(len(gold)), np.maximum(gold, 0)], np.nan)
    # |e_c - h|^2 = 1 - 2 h_c + |h|^2 on average over the modes c
    error = 1.0 - 2.0 * (chance * h).sum(1) + (h**2).sum(1)
    return hit, error

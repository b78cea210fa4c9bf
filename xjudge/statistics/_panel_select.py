"""Selection of a panel of a given size from a fixed pool, against the accuracy-top baseline.

The protocol is that of section 4.10 and appendix A.6 of the source: S0 takes the k most accurate judges;
candidates are the panels within two swaps of it, or all panels of the size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.errors import ProtocolError, StructureError
from xjudge.statistics._panel_all import Enumeration, all_panels, check_number
from xjudge.statistics._panel_inputs import Flags, Floats
from xjudge.statistics._panel_pool import PanelQuantities, prepare_pool, quantities_of, swap_candidates
from xjudge.statistics._panel_rules import Best, checked_rules, rule_name
from xjudge.statistics._panel_score import Integers
from xjudge.statistics._panel_search import bounded_search
from xjudge.statistics._panel_task import Options, Task, larger_size, member_flags, prepare_task

__all__ = ["Candidates", "HeldOut", "Selection", "select_panel"]


class Candidates(NamedTuple):
    """Counts over the candidate panels; S0 is not among them.

    ``n_more_accurate``: accuracy above S0's. ``n_dominating``: nu_H above S0's as well.
    """

    n_panels: int
    n_one_swap: int
    n_two_swaps: int
    n_more_accurate: int
    n_dominating: int
    n_dominating_one_swap: int


class HeldOut(NamedTuple):
    """Selection on training items, measurement on the held-out fold; F folds, P panels.

    Attributes
    ----------
    fold : ndarray of int (n,)
        Fold of each item.
    member : ndarray of bool (F, P, N)
        Panels chosen without the fold.
    found : ndarray of bool (F, P)
    training, held_out : PanelQuantities
        Arrays (F, P): on the items that the panels were chosen on, and on the fold.
    n_items : ndarray of int (F,)
        Items measured in each fold.
    """

    fold: Integers
    member: Flags
    found: Flags
    training: PanelQuantities
    held_out: PanelQuantities
    n_items: Integers


class Selection(NamedTuple):
    """S0 and the panel of each rule; see :func:`select_panel`.

    Attributes
    ----------
    panels : tuple of str
        ``"S0"`` and the names of the rules.
    member : ndarray of bool (P, N)
        In the caller's order of judges; a row without members where no candidate is feasible.
    found : ndarray of bool (P,)
    quantities : PanelQuantities
        Of each panel; NaN (score -1) where none was found.
    n_swaps : ndarray of int (P,)
        Members that differ from S0.
    n_items, n_dropped : int
    candidates : Candidates
    enumeration : Enumeration or None
    guarantee : tuple of str
        What is known about each panel, one sentence each.
    held_out : HeldOut or None
        With ``folds``: the same selection on training items, measured on held-out ones.
    """

    panels: tuple[str, ...]
    member: Flags
    found: Flags
    quantities: PanelQuantities
    n_swaps: Integers
    n_items: int
    n_dropped: int
    candidates: Candidates
    enumeration: Enumeration | None
    guarantee: tuple[str, ...]
    held_out: HeldOut | None


def select_panel(
    judges: npt.ArrayLike,
    h: npt.ArrayLike,
    gold: npt.ArrayLike,
    k: int,
    *,
    rule: object = "A",
    search: str = "swaps",
    names: Sequence[object] | npt.ArrayLike | None = None,
    must_include: Sequence[int] = (),
    exclude: Sequence[int] = (),
    families: npt.ArrayLike | None = None,
    family_cap: int | None = None,
    costs: npt.ArrayLike | None = None,
    budget: float | None = None,
    folds: int | npt.ArrayLike | None = None,
    seed: int | None = 0,
    fast: bool | None = None,
    max_nodes: int = 200_000,
) -> Selection:
    """Take the best panel of k judges from a pool under a rule.

    Parameters
    ----------
    judges : array-like of int (n, N)
        Category codes of the pool; items that some judge (not excluded) did not answer are left out.
    h : array-like (n, L)
        Human distributions; NaN rows are left out.
    gold : array-like of int (n,)
        Gold codes; items without one (negative) are left out.
    k : int
        Size of the panel.
    rule : {"A", "D", "E"}, callable, or a sequence of these
        A: largest nu_H among candidates more accurate than S0. D: largest accuracy, then nu_H. E: least
        distributional error among candidates more accurate than S0. A callable gets
        :class:`PanelQuantities` and returns a number for each panel, to be maximised; NaN is not allowed in.
    search : {"swaps", "all", "bounded"}
        Panels within two swaps of S0; all panels of the size; or, beyond enumeration, a search over all
        panels that states what it guarantees (:func:`bounded_search`).
    names : sequence, optional
        Sortable names of the judges: ties and the order of candidates go by name. Default: by position.
    must_include, exclude : sequence of int
        Positions of judges that must be in, or stay out.
    families, family_cap : array-like (N,), int
        At most ``family_cap`` members of a family.
    costs, budget : array-like (N,), float
        The members' costs add up to at most ``budget``.
    folds : int or array-like (n,), optional
        Number of folds, or the fold of each item: honest evaluation on items that were not selected on.
    seed : int or None
        Of the random folds.
    fast : bool or None
        Compiled enumeration: see :func:`enumerate_panels`.
    max_nodes : int
        Nodes that ``search="bounded"`` may visit for each rule.

    Returns
    -------
    Selection

    Raises
    ------
    ProtocolError
        Unknown rule or search, a size outside the pool, constraints that no panel satisfies.
    StructureError, VocabularyError, OverlapError
        Inputs that do not fit, or no complete item.

    Notes
    -----
    S0 is the panel of the k most accurate single judges, ties by name. A tie after a rule's comparisons goes
    to the first candidate: fewer swaps first, then by the members removed, then by those added. The result
    is selected and measured on the same items; ``held_out`` measures on others.

    Examples
    --------
    >>> import numpy as np
    >>> generator = np.random.default_rng(0)
    >>> gold = generator.integers(0, 2, 200)
    >>> judges = np.where(generator.random((200, 6)) < 0.7, gold[:, None], 1 - gold[:, None])
    >>> h = np.where(gold[:, None] == [0, 1], 0.8, 0.2)
    >>> select_panel(judges, h, gold, 3, rule="D").panels
    ('S0', 'D')
    """
    rules = checked_rules(rule)
    if search not in ("swaps", "all", "bounded"):
        raise ProtocolError(f"search={search!r}: candidates come from 'swaps', 'all' or 'bounded'.")
    options = Options(names, must_include, exclude, families, family_cap, costs, budget)
    how = _How(search, fast, max_nodes)
    chosen = _select(prepare_task(judges, h, gold, k, rules, options), how)
    if folds is None:
        return chosen
    codes, shares, labels = np.asarray(judges), np.asarray(h, dtype=np.float64), np.asarray(gold)
    fold = _fold_numbers(folds, len(codes), seed)
    parts = []
    for number in range(int(fold.max(initial=-1)) + 1):
        train, test = fold != number, fold == number
        inner = _select(prepare_task(codes[train], shares[train], labels[train], k, rules, options), how)
        parts.append((inner, _measure(inner, codes[test], shares[test], labels[test], options)))
    return chosen._replace(held_out=_held_out(fold, parts))


class _How(NamedTuple):
    """How candidates are searched."""

    search: str
    fast: bool | None
    max_nodes: int


def _select(task: Task, how: _How) -> Selection:
    """Choose a panel under each rule, on one set of items."""
    if how.search == "all":
        check_number(task)
    base = quantities_of(task.pool, task.baseline[None])
    members, n_swaps = swap_candidates(
        task.baseline, task.pool.votes.n_judges, task.constraints, task.position
    )
    near = quantities_of(task.pool, members)
    energy = float(task.pool.matrices[3].sum()) / len(task.source)
    best = [Best(one, int(base.score[0]), energy) for one in task.rules]
    enumeration = None
    sentences = [f"best of the {len(members)} panels within two swaps of S0"] * len(best)
    if how.search == "swaps":
        for one in best:
            one.see(near, np.arange(len(members)))
        chosen = [members[one.tied()[:1]] for one in best]
    elif how.search == "all":
        enumeration, chosen = all_panels(task, base, best, how.fast)
        sentences = [f"best of all {enumeration.n_panels} panels of the size"] * len(best)
    else:
        found = [
            bounded_search(
                task.pool, task.k, task.constraints, one, task.baseline, members, max_nodes=how.max_nodes
            )
            for one in task.rules
        ]
        chosen, sentences = [one.members for one in found], [one.guarantee for one in found]
    if how.search != "bounded":
        none = "no candidate is feasible under the rule"
        sentences = [text if len(panel) else none for text, panel in zip(sentences, chosen, strict=True)]
    return _selection(task, chosen, _count(near, n_swaps, base), enumeration, sentences)


def _count(near: PanelQuantities, n_swaps: Integers, base: PanelQuantities) -> Candidates:
    """Counts over the candidates within two swaps."""
    better = near.score > base.score[0]
    dominating = better & larger_size(near.participation_ratio, float(base.participation_ratio[0]))
    return Candidates(
        len(n_swaps),
        int((n_swaps == 1).sum()),
        int((n_swaps == 2).sum()),
        int(better.sum()),
        int(dominating.sum()),
        int((dominating & (n_swaps == 1)).sum()),
    )


def _selection(
    task: Task,
    chosen: list[Integers],
    counts: Candidates,
    enumeration: Enumeration | None,
    sentences: list[str],
) -> Selection:
    """Put S0 and the chosen panels together."""
    panels = [task.baseline[None], *chosen]
    found = np.array([len(panel) > 0 for panel in panels])
    filled = np.concatenate([panel if len(panel) else task.baseline[None] for panel in panels])
    member = member_flags(filled, task.source, task.n_judges) & found[:, None]
    return Selection(
        ("S0", *(rule_name(rule, place) for place, rule in enumerate(task.rules))),
        member,
        found,
        _where_found(found, quantities_of(task.pool, filled)),
        np.where(found, (member & ~member[0]).sum(1), -1),
        task.pool.n_items,
        task.pool.n_dropped,
        counts,
        enumeration,
        ("the most accurate single judges that the constraints allow", *sentences),
        None,
    )


def _where_found(found: Flags, quantities: PanelQuantities) -> PanelQuantities:
    """Quantities of the panels that were found; NaN (score -1) for the others."""
    return PanelQuantities._make(
        np.where(found, field, -1 if field.dtype.kind == "i" else np.nan).astype(field.dtype)
        for field in quantities
    )


# ------------------------------------------------------------------------------------------- held-out items


def _fold_numbers(folds: int | npt.ArrayLike, n: int, seed: int | None) -> Integers:
    """Fold of each item, from 0 on."""
    if isinstance(folds, (int, np.integer)):
        if not 2 <= folds <= max(n, 2):
            raise ProtocolError(f"folds={folds}: at least 2, and no more than the {n} items.")
        return np.random.default_rng(seed).permutation(np.arange(n) % int(folds))
    names = np.asarray(folds)
    if names.shape != (n,):
        raise StructureError(f"folds has shape {names.shape}; it names a fold for each of the {n} items.")
    numbers = np.unique(names, return_inverse=True)[1].reshape(-1)
    if numbers.max(initial=0) < 1:
        raise ProtocolError("folds names a single fold; held-out items need at least two.")
    return numbers.astype(np.int64)


def _measure(
    selection: Selection,
    codes: npt.NDArray[np.generic],
    h: Floats,
    gold: npt.NDArray[np.generic],
    options: Options,
) -> tuple[PanelQuantities, int]:
    """Quantities of selected panels on other items, and the number of those items."""
    kept = np.array([judge not in set(options.exclude) for judge in range(codes.shape[1])])
    costs = None if options.costs is None else np.asarray(options.costs, dtype=np.float64)[kept]
    pool = prepare_pool(codes[:, kept], h, gold, costs)
    flags = np.where(selection.found[:, None], selection.member, selection.member[:1])[:, kept]
    members = np.nonzero(flags)[1].reshape(len(flags), -1)
    return _where_found(selection.found, quantities_of(pool, members)), pool.n_items


def _held_out(fold: Integers, parts: list[tuple[Selection, tuple[PanelQuantities, int]]]) -> HeldOut:
    """Stack the folds."""

    def stack(all_quantities: list[PanelQuantities]) -> PanelQuantities:
        return PanelQuantities._make(np.stack(fields) for fields in zip(*all_quantities, strict=True))

    return HeldOut(
        fold,
        np.stack([selection.member for selection, _ in parts]),
        np.stack([selection.found for selection, _ in parts]),
        stack([selection.quantities for selection, _ in parts]),
        stack([measured for _, (measured, _) in parts]),
        np.array([n_items for _, (_, n_items) in parts], dtype=np.int64),
    )

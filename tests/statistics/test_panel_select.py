"""Selection: exact scores and enumeration against brute force, rules against exact rational loops."""

from __future__ import annotations

import importlib.util
import itertools
import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from slow_panel import (
    SlowPanel,
    slow_accuracy,
    slow_baseline,
    slow_candidates,
    slow_panel,
    slow_pool,
    slow_rule,
)

from xjudge.errors import DependencyError, OverlapError, ProtocolError, StructureError, XJudgeWarning
from xjudge.statistics import panel
from xjudge.statistics._panel_pool import constraints_of, prepare_pool
from xjudge.statistics._panel_search import _branch_and_bound

HAS_NUMBA = importlib.util.find_spec("numba") is not None
NEEDS_NUMBA = pytest.mark.skipif(not HAS_NUMBA, reason="numba is absent")
PATHS = [False, pytest.param(True, marks=NEEDS_NUMBA)]


def random_pool(seed: int, n: int = 15, N: int = 7, L: int = 3, m: int = 4):  # type: ignore[no-untyped-def]
    """Judges of mixed quality, some alike, and humans with m labels an item."""
    generator = np.random.default_rng(seed)
    counts = generator.multinomial(m, generator.dirichlet(np.ones(L)), size=n)
    gold = counts.argmax(1)
    skill = generator.uniform(0.2, 0.9, N)
    judges = np.where(generator.random((n, N)) < skill, gold[:, None], generator.integers(0, L, (n, N)))
    if seed % 5 == 0:
        judges[:, -1] = judges[:, 0]
    return judges, counts, gold


def shares(counts):  # type: ignore[no-untyped-def]
    return panel.human_distribution(counts)[0]


def members_of(selection: panel.Selection, rule: str) -> tuple[int, ...] | None:
    row = selection.panels.index(rule)
    return tuple(np.flatnonzero(selection.member[row]).tolist()) if selection.found[row] else None


# -------------------------------------------------------------------------------------------- exact scores


def test_mode_counts_by_enumeration() -> None:
    for L, k in itertools.product(range(1, 5), range(1, 9)):
        seen = set()
        for votes in itertools.product(range(k + 1), repeat=L):
            if sum(votes) == k:
                seen.add(votes.count(max(votes)))
        assert panel.mode_counts(L, k) == tuple(sorted(seen))
        assert panel.score_scale(L, k) == math.lcm(*seen)


SHAPES = [(1, 1, 2), (2, 1, 4), (2, 2, 5), (2, 4, 7), (3, 3, 6), (3, 6, 8), (4, 4, 6), (5, 6, 8), (3, 7, 7)]
# Each shape is compiled anew, which takes seconds: three of them cover ties of every kind.
COMPILED = [(2, 4, 7), (3, 6, 8), (3, 7, 7)]


@pytest.mark.parametrize(
    ("L", "k", "N", "fast"),
    [(*shape, False) for shape in SHAPES]
    + [pytest.param(*shape, True, marks=NEEDS_NUMBA) for shape in COMPILED],
)
@pytest.mark.parametrize("chunk", [4_000_000, 5])
def test_every_panel_against_brute_force(
    L: int, k: int, N: int, fast: bool, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xjudge.statistics._panel_enumerate.CHUNK_PANELS", chunk)
    generator = np.random.default_rng(L * 100 + k)
    n = 70
    gold = generator.integers(0, L, n)
    judges = np.where(generator.random((n, N)) < 0.4, gold[:, None], generator.integers(0, L, (n, N)))
    matrices = generator.random((2, N, N))
    matrices = matrices + matrices.transpose(0, 2, 1)
    votes = panel.vote_planes(judges, gold, L)
    chunks = list(panel.enumerate_panels(votes, matrices, k, fast=fast))
    panels = list(itertools.combinations(range(N), k))
    scores = np.concatenate([one.scores for one in chunks])
    expected = [slow_accuracy(judges, gold, members, L) * panel.score_scale(L, k) for members in panels]
    assert scores.tolist() == expected
    sums = np.concatenate([one.sums for one in chunks], axis=1)
    np.testing.assert_allclose(sums.T, [matrices[:, c][:, :, c].sum((1, 2)) for c in map(list, panels)])
    starts = np.cumsum([0] + [len(one.scores) for one in chunks])
    assert [one.start for one in chunks] == starts[:-1].tolist()
    np.testing.assert_array_equal(panel.panel_members(np.arange(len(panels)), N, k), panels)
    np.testing.assert_array_equal(panel.panel_rank(panels, N), np.arange(len(panels)))
    assert panel.score_panels(votes, np.array(panels)[:, ::-1]).tolist() == expected


@pytest.mark.parametrize("fast", PATHS)
def test_panels_with_fixed_members(fast: bool) -> None:
    judges, _, gold = random_pool(1, N=8)
    votes = panel.vote_planes(judges, gold, 3)
    whole = next(panel.enumerate_panels(votes, np.zeros((0, 8, 8)), 4, fast=fast))
    for n_fixed in range(5):
        part = next(panel.enumerate_panels(votes, np.zeros((0, 8, 8)), 4, n_fixed=n_fixed, fast=fast))
        np.testing.assert_array_equal(part.scores, whole.scores[: math.comb(8 - n_fixed, 4 - n_fixed)])


def test_more_than_64_judges_and_items_and_many_labels() -> None:
    generator = np.random.default_rng(0)
    gold = generator.integers(0, 20, 300)
    judges = np.where(generator.random((300, 70)) < 0.3, gold[:, None], generator.integers(0, 20, (300, 70)))
    votes = panel.vote_planes(judges, gold, 20)
    panels = np.stack([generator.permutation(70)[:15] for _ in range(20)])
    expected = [slow_accuracy(judges, gold, row.tolist(), 20) * panel.score_scale(20, 15) for row in panels]
    assert panel.score_panels(votes, panels).tolist() == expected


def test_scores_leave_out_incomplete_items() -> None:
    judges, _, gold = random_pool(3)
    holes, unknown = judges.copy(), gold.copy()
    holes[0, 2], unknown[1] = -2, -1
    votes = panel.vote_planes(holes, unknown, 3)
    assert votes.n_items == 13
    np.testing.assert_array_equal(
        panel.score_panels(votes, [[0, 1, 2]]),
        panel.score_panels(panel.vote_planes(judges[2:], gold[2:], 3), [[0, 1, 2]]),
    )


def test_enumeration_refuses_what_it_cannot_do() -> None:
    judges, _, gold = random_pool(3)
    votes = panel.vote_planes(judges, gold, 3)
    with pytest.raises(ProtocolError, match="from 1 to 7"):
        next(panel.enumerate_panels(votes, np.zeros((0, 7, 7)), 8))
    with pytest.raises(StructureError, match="7 judges"):
        next(panel.enumerate_panels(votes, np.zeros((1, 6, 6)), 3))
    with pytest.raises(StructureError, match="outside the 2"):
        panel.vote_planes([[2]], [0], 2)


def test_the_fast_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    judges, _, gold = random_pool(3)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    votes = panel.vote_planes(judges, gold, 3)
    with pytest.raises(DependencyError, match=r"xjudge\[fast\]"):
        next(panel.enumerate_panels(votes, np.zeros((0, 7, 7)), 3, fast=True))
    assert len(next(panel.enumerate_panels(votes, np.zeros((0, 7, 7)), 3)).scores) == 35


# -------------------------------------------------------------------------------- rules against exact loops


@pytest.mark.parametrize(("k", "one", "two"), [(5, 135, 3510), (7, 175, 6300)])
def test_candidate_counts_of_the_paper(k: int, one: int, two: int) -> None:
    judges, counts, gold = random_pool(0, n=40, N=32)
    found = panel.select_panel(judges, shares(counts), gold, k, rule=("A", "D", "E")).candidates
    assert (found.n_one_swap, found.n_two_swaps, found.n_panels) == (one, two, one + two)


def check_panel(selection: panel.Selection, row: int, expected: SlowPanel, n: int, m: int, k: int) -> None:
    found = panel.PanelQuantities._make(field[row] for field in selection.quantities)
    assert found.accuracy == pytest.approx(float(expected.accuracy / n), abs=1e-12)
    assert Fraction(int(found.score), panel.score_scale(3, k)) == expected.accuracy
    assert found.distributional_error == pytest.approx(expected.error / (n * m**2 * k**2), abs=1e-12)
    if expected.ratio is None:
        assert np.isnan(found.participation_ratio)
    else:
        assert found.participation_ratio == pytest.approx(float(expected.ratio), rel=1e-12)
    pairs = k * (k - 1)
    if expected.ratio is not None and pairs:
        assert found.mean_squared_correlation == pytest.approx(
            float((k * k / expected.ratio - k) / pairs), abs=1e-12
        )


@pytest.mark.parametrize("block", range(10))
def test_rules_against_exact_loops(block: int) -> None:
    """Rules A, D, E on 500 random pools (50 a block), tied panels included, against rational arithmetic."""
    for seed in range(50 * block, 50 * block + 50):
        generator = np.random.default_rng(seed)
        n, N, m = int(generator.integers(6, 18)), int(generator.integers(3, 8)), int(generator.integers(1, 6))
        k = int(generator.integers(1, N))
        judges, counts, gold = random_pool(seed, n=n, N=N, m=m)
        pool = slow_pool(judges, counts, gold)
        base = slow_panel(pool, slow_baseline(pool, k))
        panels = [slow_panel(pool, members) for members in slow_candidates(base.members, N)]
        found = panel.select_panel(judges, shares(counts), gold, k, rule=["A", "D", "E"])
        assert found.panels == ("S0", "A", "D", "E")
        assert members_of(found, "S0") == base.members
        check_panel(found, 0, base, n, m, k)
        assert found.candidates.n_more_accurate == sum(p.accuracy > base.accuracy for p in panels)
        dominating = [
            p
            for p in panels
            if p.accuracy > base.accuracy and None not in (p.ratio, base.ratio) and p.ratio > base.ratio  # type: ignore[operator]
        ]
        assert found.candidates.n_dominating == len(dominating)
        for row, rule in enumerate("ADE", start=1):
            expected = slow_rule(rule, panels, base)
            assert members_of(found, rule) == (expected.members if expected else None), (seed, rule)
            if expected is not None:
                check_panel(found, row, expected, n, m, k)
                assert found.n_swaps[row] == len(set(expected.members) - set(base.members))


def slow_all(pool, base: SlowPanel, k: int):  # type: ignore[no-untyped-def]
    """All panels but S0: fewer changes first, then by members removed, then added."""
    N = pool.judges.shape[1]

    def edit(members):  # type: ignore[no-untyped-def]
        removed = sorted(set(base.members) - set(members))
        return len(removed), removed, sorted(set(members) - set(base.members))

    order = sorted((c for c in itertools.combinations(range(N), k) if c != base.members), key=edit)
    return [slow_panel(pool, members) for members in order]


@pytest.mark.parametrize("seed", range(100))
def test_all_panels_against_exact_loops(seed: int) -> None:
    generator = np.random.default_rng(1000 + seed)
    N, m = int(generator.integers(3, 8)), int(generator.integers(1, 5))
    k = int(generator.integers(1, N + 1))
    # Pools of few items are full of ties, which the order of changes decides.
    judges, counts, gold = random_pool(seed, n=15 if seed % 2 else int(generator.integers(2, 6)), N=N, m=m)
    pool = slow_pool(judges, counts, gold)
    base = slow_panel(pool, slow_baseline(pool, k))
    panels = slow_all(pool, base, k)
    found = panel.select_panel(judges, shares(counts), gold, k, rule=["A", "D", "E"], search="all")
    for rule in "ADE":
        expected = slow_rule(rule, panels, base)
        assert members_of(found, rule) == (expected.members if expected else None)
    every = [base, *panels]
    all_found = found.enumeration
    assert all_found is not None
    assert all_found.n_panels == len(every) == math.comb(N, k)
    assert all_found.n_more_accurate == sum(p.accuracy > base.accuracy for p in panels)
    below = sum(p.accuracy < base.accuracy for p in panels)
    assert all_found.percentile_accuracy == pytest.approx(100 * below / len(every))
    if base.ratio is not None:
        smaller = sum(p.ratio is not None and p.ratio < base.ratio for p in panels)
        assert all_found.percentile_nu_h == pytest.approx(100 * smaller / len(every))
    front = {
        p.members
        for p in every
        if p.ratio is not None
        and not any(
            q.ratio is not None
            and (q.accuracy >= p.accuracy and q.ratio >= p.ratio)
            and (q.accuracy > p.accuracy or q.ratio > p.ratio)
            for q in every
        )
    }
    assert {tuple(np.flatnonzero(row).tolist()) for row in all_found.front_member} == front
    assert all_found.baseline_on_front == (base.members in front)
    assert (np.diff(all_found.front.accuracy) <= 0).all()


@NEEDS_NUMBA
def test_compiled_selection_is_the_same() -> None:
    judges, counts, gold = random_pool(5, n=40, N=12)
    slow, fast = (
        panel.select_panel(judges, shares(counts), gold, 6, rule=["A", "D", "E"], search="all", fast=path)
        for path in (False, True)
    )
    np.testing.assert_array_equal(fast.member, slow.member)
    assert slow.enumeration is not None
    assert fast.enumeration is not None
    assert fast.enumeration[:6] == slow.enumeration[:6]
    np.testing.assert_array_equal(fast.enumeration.front_member, slow.enumeration.front_member)


@pytest.mark.parametrize("seed", range(30))
def test_quantities_against_the_sizes_of_the_panel(seed: int) -> None:
    """Every per-panel quantity equals the size of that panel measured alone."""
    judges, counts, gold = random_pool(seed, n=40, N=6)
    found = panel.select_panel(judges, shares(counts), gold, 3, rule="D", costs=np.arange(6))
    for row in range(2):
        member = found.member[row]
        alone = panel.effective_size(panel.panel_sums(judges[:, member], shares(counts), gold)).values
        for name in (
            "participation_ratio",
            "mean_squared_correlation",
            "distributional_error",
            "nu_mse",
            "n_eff",
        ):
            np.testing.assert_allclose(
                getattr(found.quantities, name)[row], alone[name], rtol=1e-9, atol=1e-12
            )
        assert found.quantities.mean_energy[row] == pytest.approx(alone["member_energy"].mean())
        assert found.quantities.cost[row] == np.flatnonzero(member).sum()
        delta = float(panel.finite_n_delta(shares(counts)))
        expected = panel.nu_h(alone["participation_ratio"], delta)
        np.testing.assert_allclose(found.quantities.nu_h[row], expected)


# ----------------------------------------------------------------------------- names, constraints, objectives


@pytest.mark.parametrize("search", ["swaps", "all"])
@pytest.mark.parametrize("seed", range(8))
def test_names_decide_ties_whatever_the_order_of_judges(search: str, seed: int) -> None:
    judges, counts, gold = random_pool(5 * seed, n=8, N=7, m=2)
    names = np.array(list("ceagfbd"))
    found = panel.select_panel(
        judges, shares(counts), gold, 3, rule=("A", "D", "E"), names=names, search=search
    )
    order = np.random.default_rng(seed).permutation(7)
    again = panel.select_panel(
        judges[:, order], shares(counts), gold, 3, rule=("A", "D", "E"), names=names[order], search=search
    )
    for row in range(4):
        assert set(names[found.member[row]]) == set(names[order][again.member[row]])


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("search", ["swaps", "all"])
def test_constraints_against_brute_force(seed: int, search: str) -> None:
    judges, counts, gold = random_pool(seed, N=7)
    generator = np.random.default_rng(seed)
    families, costs = generator.integers(0, 3, 7), generator.integers(1, 6, 7).astype(float)
    must, out = [int(generator.integers(7))], []
    out = [int(j) for j in generator.permutation(7)[:1] if j not in must]
    k, cap, budget = 3, int(generator.integers(1, 4)), float(generator.integers(6, 14))
    pool = slow_pool(judges, counts, gold)

    def allowed(members) -> bool:  # type: ignore[no-untyped-def]
        return (
            set(must) <= set(members)
            and not set(out) & set(members)
            and max(np.bincount(families[list(members)])) <= cap
            and costs[list(members)].sum() <= budget
        )

    ranked = sorted(range(7), key=lambda a: (-(judges[:, a] == gold).sum(), a))
    possible = [c for c in itertools.combinations(range(7), k) if allowed(c)]
    options = {
        "must_include": must, "exclude": out, "families": families, "family_cap": cap,
        "costs": costs, "budget": budget, "search": search, "rule": ["A", "D", "E"],
    }  # fmt: skip
    if not possible:
        with pytest.raises(ProtocolError, match="satisfies the constraints"):
            panel.select_panel(judges, shares(counts), gold, k, **options)
        return
    found = panel.select_panel(judges, shares(counts), gold, k, **options)
    # S0: fixed members, then the judge of best rank that leaves a completion, and so on.
    chosen = list(must)
    for judge in ranked:
        if judge not in chosen and any(set(chosen) | {judge} <= set(c) for c in possible):
            chosen.append(judge)
    base = slow_panel(pool, sorted(chosen))
    assert members_of(found, "S0") == base.members
    if search == "swaps":
        panels = [c for c in slow_candidates(base.members, 7) if allowed(c)]
        assert found.candidates.n_panels == len(panels)
        measured = [slow_panel(pool, members) for members in panels]
    else:
        measured = [one for one in slow_all(pool, base, k) if allowed(one.members)]
        assert found.enumeration is not None
        assert found.enumeration.n_panels == len(possible)
    for rule in "ADE":
        expected = slow_rule(rule, measured, base)
        assert members_of(found, rule) == (expected.members if expected else None)


@pytest.mark.parametrize("search", ["swaps", "all"])
def test_own_objective(search: str) -> None:
    judges, counts, gold = random_pool(2, n=40, N=7)
    costs = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])

    def value(q: panel.PanelQuantities):  # type: ignore[no-untyped-def]
        return np.where(q.n_eff > 1.0, q.accuracy - 0.01 * q.cost + 0.1 * q.mean_energy, np.nan)

    found = panel.select_panel(judges, shares(counts), gold, 3, rule=["A", value], search=search, costs=costs)
    assert found.panels == ("S0", "A", "value")
    candidates = (
        slow_candidates(members_of(found, "S0"), 7)  # type: ignore[arg-type]
        if search == "swaps"
        else [c for c in itertools.combinations(range(7), 3) if c != members_of(found, "S0")]
    )
    values = []
    for members in candidates:
        alone = panel.effective_size(panel.panel_sums(judges[:, members], shares(counts), gold)).values
        accuracy = float(slow_accuracy(judges, gold, members, 3)) / 40
        better = accuracy - 0.01 * costs[list(members)].sum() + 0.1 * alone["member_energy"].mean()
        values.append(better if alone["n_eff"] > 1.0 else -np.inf)
    assert members_of(found, "value") == candidates[int(np.argmax(values))]
    with pytest.raises(StructureError, match="one number each"):
        panel.select_panel(judges, shares(counts), gold, 3, rule=lambda q: 1.0)


@pytest.mark.parametrize("search", ["swaps", "all"])
def test_a_tie_goes_by_the_members_removed_before_those_added(search: str) -> None:
    """S0 is {0, 1}; removing 0 for 3 and removing 1 for 2 cost the same, and the former is listed first."""
    gold = np.zeros(8, dtype=int)
    judges = np.ones((8, 4), dtype=int)
    for judge, hits in enumerate((7, 6, 3, 2)):
        judges[:hits, judge] = 0
    h = np.full((8, 2), 0.5)
    found = panel.select_panel(
        judges, h, gold, 2, rule=lambda q: -((q.cost - 6.0) ** 2), costs=[1.0, 2.0, 5.0, 4.0], search=search
    )
    assert np.flatnonzero(found.member[0]).tolist() == [0, 1]
    assert np.flatnonzero(found.member[1]).tolist() == [1, 3]


def test_nothing_feasible() -> None:
    judges = np.array([[0, 1, 1], [1, 0, 0], [0, 1, 1], [1, 1, 0]])
    gold = np.array([0, 1, 0, 1])
    h = np.full((4, 2), 0.5)
    found = panel.select_panel(judges, h, gold, 1, rule=["A", "E", lambda q: np.full(len(q.score), np.nan)])
    assert found.found.tolist() == [True, False, False, False]
    assert not found.member[1:].any()
    assert np.isnan(found.quantities.nu_mse[1:]).all()
    assert found.quantities.score[1:].tolist() == [-1, -1, -1]
    assert found.n_swaps.tolist() == [0, -1, -1, -1]
    assert found.guarantee[1] == "no candidate is feasible under the rule"


def test_member_without_energy_is_never_chosen_for_its_size() -> None:
    """Humans agree, and a judge that equals them has no residual: its PR is undefined, its error is not."""
    generator = np.random.default_rng(0)
    gold = generator.integers(0, 2, 30)
    h = np.eye(2)[gold]
    judges = np.where(generator.random((30, 5)) < 0.6, gold[:, None], 1 - gold[:, None])
    judges[:, 3] = gold
    for search in ("swaps", "all", "bounded"):
        found = panel.select_panel(judges, h, gold, 1, rule=["A", "D", "E"], search=search)
        assert members_of(found, "S0") == (3,)
        assert np.isnan(found.quantities.participation_ratio[0])
        assert np.isnan(found.quantities.nu_h).all()
        assert members_of(found, "A") is None
    found = panel.select_panel(judges, h, gold, 3, rule=["A", "D", "E"], search="all", exclude=[3])
    assert found.member[:, 3].sum() == 0


def test_whole_pool_and_single_judges() -> None:
    judges, counts, gold = random_pool(4)
    whole = panel.select_panel(judges, shares(counts), gold, 7, rule="D")
    assert whole.candidates.n_panels == 0
    assert not whole.found[1]
    single = panel.select_panel(judges, shares(counts), gold, 1, rule="D", search="all")
    hits = (judges == gold[:, None]).sum(0)
    assert single.quantities.accuracy[0] == hits.max() / 15


def test_a_large_enumeration_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    judges, counts, gold = random_pool(4)
    monkeypatch.setattr("xjudge.statistics._panel_all.MANY_PANELS", 10)
    with pytest.warns(XJudgeWarning, match="35 panels"):
        panel.select_panel(judges, shares(counts), gold, 3, search="all")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        panel.select_panel(judges, shares(counts), gold, 3, search="swaps")


def test_a_large_pool() -> None:
    """100 judges: 3e25 panels of 30 are refused; swaps in panels of 3 are not."""
    judges, counts, gold = random_pool(4, n=30, N=100)
    with pytest.raises(ProtocolError, match="cannot be enumerated"):
        panel.select_panel(judges, shares(counts), gold, 30, search="all")
    found = panel.select_panel(judges, shares(counts), gold, 3, rule="D")
    assert found.candidates.n_panels == 3 * 97 + 3 * (97 * 96 // 2)
    for row in range(2):
        alone = panel.effective_size(
            panel.panel_sums(judges[:, found.member[row]], shares(counts), gold)
        ).values
        assert found.quantities.nu_mse[row] == pytest.approx(float(alone["nu_mse"]))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"rule": "B"}, ProtocolError, "'A', 'D', 'E'"),
        ({"rule": []}, ProtocolError, "empty"),
        ({"search": "some"}, ProtocolError, "swaps"),
        ({"k": 8}, ProtocolError, "1 to 7"),
        ({"k": 0}, ProtocolError, "1 to 7"),
        ({"must_include": [9]}, ProtocolError, "must_include"),
        ({"must_include": [1], "exclude": [1]}, ProtocolError, "both"),
        ({"must_include": [0, 1, 2, 3]}, ProtocolError, "4 judges must"),
        ({"family_cap": 1}, ProtocolError, "families"),
        ({"budget": 1.0}, ProtocolError, "costs"),
        ({"costs": [1.0]}, StructureError, "costs"),
        ({"costs": [np.nan] * 7}, StructureError, "finite"),
        ({"families": [1], "family_cap": 1}, StructureError, "families"),
        ({"names": ["a"]}, StructureError, "names"),
        ({"folds": 1}, ProtocolError, "folds"),
        ({"folds": [0] * 15}, ProtocolError, "single fold"),
        ({"folds": [0, 1]}, StructureError, "folds"),
    ],
)
def test_selection_errors(options: dict[str, object], error: type[Exception], message: str) -> None:
    judges, counts, gold = random_pool(4)
    arguments: dict[str, object] = {"k": 3, **options}
    with pytest.raises(error, match=message):
        panel.select_panel(judges, shares(counts), gold, **arguments)  # type: ignore[arg-type]


def test_no_complete_item() -> None:
    with pytest.raises(OverlapError, match="No item"):
        panel.select_panel([[-1, 0, 0]], [[0.5, 0.5]], [0], 2)


def test_dropped_items_are_counted_and_excluded_judges_cost_none() -> None:
    judges, counts, gold = random_pool(4)
    holes = judges.copy()
    holes[:5, 6] = -1
    assert panel.select_panel(holes, shares(counts), gold, 3).n_dropped == 5
    without = panel.select_panel(holes, shares(counts), gold, 3, exclude=[6])
    assert (without.n_items, without.n_dropped) == (15, 0)


# -------------------------------------------------------------------------------------------- held-out items


def test_held_out_folds_by_hand() -> None:
    judges, counts, gold = random_pool(11, n=60, N=7)
    h, fold = shares(counts), np.arange(60) % 3
    found = panel.select_panel(judges, h, gold, 3, rule=["A", "D"], folds=fold)
    assert found.held_out is not None
    np.testing.assert_array_equal(found.held_out.fold, fold)
    np.testing.assert_array_equal(found.held_out.n_items, [20, 20, 20])
    for number in range(3):
        train, test = fold != number, fold == number
        alone = panel.select_panel(judges[train], h[train], gold[train], 3, rule=["A", "D"])
        np.testing.assert_array_equal(found.held_out.member[number], alone.member)
        np.testing.assert_array_equal(found.held_out.training.nu_h[number], alone.quantities.nu_h)
        for row in np.flatnonzero(alone.found):
            members = np.flatnonzero(alone.member[row]).tolist()
            accuracy = slow_accuracy(judges[test], gold[test], members, 3) / 20
            assert found.held_out.held_out.accuracy[number, row] == pytest.approx(float(accuracy))
            sizes = panel.effective_size(panel.panel_sums(judges[test][:, members], h[test])).values
            np.testing.assert_allclose(found.held_out.held_out.nu_mse[number, row], sizes["nu_mse"])
    random = panel.select_panel(judges, h, gold, 3, folds=4, seed=3)
    assert random.held_out is not None
    assert np.bincount(random.held_out.fold).tolist() == [15, 15, 15, 15]
    again = panel.select_panel(judges, h, gold, 3, folds=4, seed=3)
    assert again.held_out is not None
    np.testing.assert_array_equal(random.held_out.fold, again.held_out.fold)


def test_selection_is_optimistic_and_held_out_items_show_it() -> None:
    """Judges that differ by chance only: the chosen panel looks better than S0 where it was chosen."""
    generator = np.random.default_rng(0)
    gold = generator.integers(0, 2, 400)
    judges = np.where(generator.random((400, 12)) < 0.7, gold[:, None], 1 - gold[:, None])
    h = np.where(gold[:, None] == [0, 1], 0.75, 0.25)
    found = panel.select_panel(judges, h, gold, 3, rule="D", folds=5)
    assert found.held_out is not None
    gain = found.held_out.training.accuracy[:, 1] - found.held_out.training.accuracy[:, 0]
    honest = found.held_out.held_out.accuracy[:, 1] - found.held_out.held_out.accuracy[:, 0]
    assert gain.mean() > 0.005
    assert honest.mean() < gain.mean() - 0.005


# --------------------------------------------------------------------------------------------- bounded search


@pytest.mark.parametrize("seed", range(25))
def test_bounded_search_proves_the_optimum(seed: int) -> None:
    judges, counts, gold = random_pool(seed, n=40, N=10)
    h = shares(counts)
    options = {"rule": ["A", "E"], "must_include": [int(seed % 10)] if seed % 2 else []}
    every = panel.select_panel(judges, h, gold, 4, search="all", **options)
    found = panel.select_panel(judges, h, gold, 4, search="bounded", **options)
    for row in (1, 2):
        assert found.found[row] == every.found[row]
        assert ("optimal" if found.found[row] else "no panel") in found.guarantee[row]
    np.testing.assert_allclose(
        found.quantities.participation_ratio[1], every.quantities.participation_ratio[1]
    )
    np.testing.assert_allclose(
        found.quantities.distributional_error[2], every.quantities.distributional_error[2]
    )


@pytest.mark.parametrize("seed", range(6))
def test_bounded_search_with_caps_and_budget(seed: int) -> None:
    judges, counts, gold = random_pool(seed, n=40, N=10)
    generator = np.random.default_rng(seed)
    options = {
        "families": generator.permutation(np.arange(10) % 5), "family_cap": 1,
        "costs": generator.uniform(1, 3, 10), "budget": 9.0, "rule": ["A", "D", "E"],
    }  # fmt: skip
    every = panel.select_panel(judges, shares(counts), gold, 4, search="all", **options)
    found = panel.select_panel(judges, shares(counts), gold, 4, search="bounded", **options)
    np.testing.assert_allclose(
        found.quantities.participation_ratio[1], every.quantities.participation_ratio[1]
    )
    np.testing.assert_allclose(
        found.quantities.distributional_error[3], every.quantities.distributional_error[3]
    )
    assert found.quantities.cost[found.found].max() <= 9.0


@pytest.mark.parametrize("rule", ["A", "E"])
def test_bounded_search_that_stops_keeps_its_word(rule: str) -> None:
    judges, counts, gold = random_pool(7, n=40, N=12)
    h = shares(counts)
    every = panel.select_panel(judges, h, gold, 5, rule=rule, search="all")
    stopped = panel.select_panel(judges, h, gold, 5, rule=rule, search="bounded", max_nodes=60)
    sentence = stopped.guarantee[1]
    assert sentence.startswith("best found")
    bound = float(sentence.rsplit(" ", 1)[1])
    # Nothing is closed after so few nodes: the bound is beyond what was found.
    if rule == "A":
        assert every.quantities.participation_ratio[1] <= bound * (1 + 1e-5)
        assert stopped.quantities.participation_ratio[1] < bound * (1 - 1e-5)
    else:
        assert every.quantities.distributional_error[1] >= bound * (1 - 1e-5)
        assert stopped.quantities.distributional_error[1] > bound * (1 + 1e-5)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(("rule", "row"), [("A", 0), ("E", 1)])
def test_branch_and_bound_needs_no_head_start(seed: int, rule: str, row: int) -> None:
    """From no panel at all, and so by its bounds alone, it ends at the least sum of all panels beyond S0."""
    judges, counts, gold = random_pool(seed, n=40, N=10)
    h = shares(counts)
    every = panel.select_panel(judges, h, gold, 4, rule=rule, search="all")
    pool = prepare_pool(judges, h, gold)
    free = constraints_of(10, 4)
    matrix = pool.matrices[row]
    none = np.zeros((0, 4), dtype=np.int64)
    objective = (matrix, np.arange(10))
    found = _branch_and_bound(pool, 4, free, rule, int(every.quantities.score[0]), none, objective, 10**6)
    assert len(found.members) == every.found[1]
    if every.found[1]:
        members = np.flatnonzero(every.member[1])
        assert matrix[np.ix_(found.members[0], found.members[0])].sum() == pytest.approx(
            matrix[np.ix_(members, members)].sum()
        )


def test_bounded_search_beyond_enumeration() -> None:
    """40 judges, panels of 12: 5.6e9 panels. Rules D and own objectives say that they prove nothing."""
    generator = np.random.default_rng(9)
    counts = generator.multinomial(5, [0.3, 0.3, 0.4], size=80)
    gold = counts.argmax(1)
    skill = generator.uniform(0.1, 0.3, 40)
    judges = np.where(generator.random((80, 40)) < skill, gold[:, None], generator.integers(0, 3, (80, 40)))
    h = shares(counts)
    near = panel.select_panel(judges, h, gold, 12, rule=["A", "D", "E"])
    found = panel.select_panel(
        judges, h, gold, 12, rule=["A", "D", "E", lambda q: q.n_eff], search="bounded", max_nodes=2000
    )
    assert near.found.all()
    assert found.quantities.participation_ratio[1] >= near.quantities.participation_ratio[1]
    assert found.quantities.score[2] >= near.quantities.score[2]
    assert found.quantities.distributional_error[3] <= near.quantities.distributional_error[3]
    assert "nothing more is known" in found.guarantee[2]
    assert "nothing more is known" in found.guarantee[4]
    assert (found.member.sum(1) == 12).all()

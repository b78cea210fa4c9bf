"""What leave-one-out results must not depend on, and in which direction they move."""

from fractions import Fraction
from typing import Any

import loo_slow as slow
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from xjudge._simulation_masks import Masks
from xjudge.statistics.loo import (
    accept_probability,
    add_counts,
    allocate,
    alt_test,
    count_votes,
    exact_wins,
    loo_counts,
    loo_margins,
    loo_pair_moments,
    loo_validate,
    neyman_sizes,
    partial_conjunction,
    stratified_margins,
    votes_needed,
    win_distribution,
)

EPS = st.sampled_from([0, 0.05, 0.1, 0.15, 0.3, -0.05])


@st.composite
def panels(draw: st.DrawFn, most: int = 30, low: int = -3) -> tuple[np.ndarray, np.ndarray]:
    n, K = draw(st.integers(0, most)), draw(st.integers(1, 5))
    codes = st.integers(low, 2)
    humans = draw(hnp.arrays(np.int8, (n, K), elements=codes))
    return humans, draw(hnp.arrays(np.int8, n, elements=codes))


def same(one: Any, other: Any) -> None:
    for a, b in zip(one, other, strict=True):
        if isinstance(a, tuple):
            same(a, b)
        elif np.asarray(a).dtype.kind == "U":
            assert (np.asarray(a) == np.asarray(b)).all()
        else:
            np.testing.assert_allclose(a, b, atol=1e-9)


@given(panels(), EPS)
def test_counts_and_margins_are_those_of_plain_loops(panel: Any, eps: float) -> None:
    humans, judge = panel
    counts = loo_counts(humans, judge)
    a, h, w = (
        slow.counts(humans.tolist(), judge.tolist()) if len(humans) else [np.zeros_like(counts.overlap)] * 3
    )
    np.testing.assert_array_equal(counts.judge_hits, a)
    np.testing.assert_array_equal(counts.human_hits, h)
    np.testing.assert_array_equal(counts.overlap, w)
    found = loo_margins(counts, eps=eps)
    W = w.sum(axis=1)
    np.testing.assert_array_equal(np.isnan(found.margin), W == 0)
    assert (np.abs(found.margin[W > 0] - eps) <= 1).all()
    assert (found.se[found.n_items > 1] >= 0).all()
    assert found.votes.n_available == np.count_nonzero(W)


@given(panels(), st.randoms(use_true_random=False))
def test_order_of_items_is_nothing(panel: Any, random: Any) -> None:
    humans, judge = panel
    order = list(range(len(humans)))
    random.shuffle(order)
    same(loo_validate(humans, judge), loo_validate(humans[order], judge[order]))
    same(alt_test(humans, judge, min_items=0), alt_test(humans[order], judge[order], min_items=0))


@given(panels(), st.randoms(use_true_random=False))
def test_order_of_humans_moves_with_them(panel: Any, random: Any) -> None:
    humans, judge = panel
    order = list(range(humans.shape[1]))
    random.shuffle(order)
    one, other = loo_margins(loo_counts(humans, judge)), loo_margins(loo_counts(humans[:, order], judge))
    for name in ("margin", "se", "win", "overlap", "n_items"):
        np.testing.assert_allclose(getattr(other, name), getattr(one, name)[order], atol=1e-12)
    np.testing.assert_allclose(other.covariance, one.covariance[np.ix_(order, order)], atol=1e-12)
    same(one.votes, other.votes)


@given(panels(), st.permutations([0, 1, 2]))
def test_names_of_categories_are_nothing(panel: Any, names: list[int]) -> None:
    humans, judge = panel
    renamed = np.array([*names, 0, 0, 0])[humans], np.array([*names, 0, 0, 0])[judge]
    renamed = tuple(np.where(old < 0, old, new) for old, new in zip(panel, renamed, strict=True))
    same(loo_validate(humans, judge), loo_validate(*renamed))


@given(panels())
def test_kinds_of_no_answer_are_one(panel: Any) -> None:
    humans, judge = panel
    same(
        loo_validate(humans, judge),
        loo_validate(np.where(humans < 0, -1, humans), np.where(judge < 0, -2, judge)),
    )


@given(panels(), st.integers(0, 30), st.integers(0, 30))
def test_counts_add(panel: Any, one: int, two: int) -> None:
    humans, judge = panel
    low, high = sorted((min(one, len(humans)), min(two, len(humans))))
    blocks = [slice(0, low), slice(low, high), slice(high, None)]
    for count in (loo_counts, loo_pair_moments):
        whole = count(humans, judge)
        same(whole, add_counts(count(humans[block], judge[block]) for block in blocks))


@given(panels(), st.integers(0, 2))
def test_an_item_of_one_human_is_nothing(panel: Any, label: int) -> None:
    """What only one human labelled, or the judge left out, changes no margin."""
    humans, judge = panel
    alone = np.full((2, humans.shape[1]), -1, np.int8)
    alone[0, 0] = label
    alone[1] = label
    more = np.concatenate([humans, alone]), np.concatenate([judge, np.array([label, -1], np.int8)])
    same(loo_margins(loo_counts(humans, judge)), loo_margins(loo_counts(*more)))


@given(panels(), EPS, EPS)
def test_more_tolerance_wins_no_less(panel: Any, one: float, two: float) -> None:
    low, high = sorted((one, two))
    counts = loo_counts(*panel)
    less, more = loo_margins(counts, eps=low), loo_margins(counts, eps=high)
    assert (less.win <= more.win)[np.isfinite(less.win)].all()
    np.testing.assert_allclose(less.se, more.se)


@given(panels(low=0))
def test_complete_labels_pool_in_one_way(panel: Any) -> None:
    humans, judge = panel
    counts, pairs = loo_counts(humans, judge), loo_pair_moments(humans, judge)
    one, other = loo_margins(counts), loo_margins(counts, pooling="pairs", pairs=pairs)
    np.testing.assert_allclose(one.margin, other.margin, atol=1e-12)
    np.testing.assert_array_equal(one.win, other.win)
    np.testing.assert_allclose(one.covariance, other.covariance, atol=1e-12)
    census = loo_margins(counts, target="matrix", pairs=pairs)
    assert (census.se[census.n_items > 1] == 0).all()


@given(panels(low=0))
def test_a_judge_that_copies_a_human_equals_it(panel: Any) -> None:
    humans, _ = panel
    found = loo_margins(loo_counts(humans, humans[:, 0]), eps=0)
    if len(humans) and humans.shape[1] > 1:
        assert found.margin[0] == 0
        assert found.win[0] == 1
        assert found.margin_tie[0]
        assert (found.margin[1:] >= 0).all() or humans.shape[1] > 2


@given(panels())
def test_duplicated_items_halve_the_variance(panel: Any) -> None:
    humans, judge = panel
    one = loo_margins(loo_counts(humans, judge))
    two = loo_margins(loo_counts(np.repeat(humans, 2, axis=0), np.repeat(judge, 2)))
    np.testing.assert_allclose(two.margin, one.margin)
    several = one.n_items > 1
    np.testing.assert_allclose(two.se[several] ** 2, one.se[several] ** 2 / 2, atol=1e-12)


@given(
    st.lists(st.integers(-50, 50), min_size=1, max_size=8),
    st.integers(1, 200),
    st.decimals(-1, 1, places=3, allow_nan=False),
)
def test_wins_are_exact(differences: list[int], overlap: int, eps: Any) -> None:
    win, tie = exact_wins(differences, [overlap] * len(differences), float(eps))
    for d, won, tied in zip(differences, win, tie, strict=True):
        exact = Fraction(d, overlap) + Fraction(str(float(eps)))
        assert bool(won) == (exact >= 0)
        assert bool(tied) == (exact == 0)


@given(
    st.lists(st.sampled_from([0.0, 1.0, np.nan]), min_size=1, max_size=9), st.integers(1, 20), st.booleans()
)
def test_votes_follow_the_definition(win: list[float], twentieths: int, strict: bool) -> None:
    if strict and twentieths == 20:
        twentieths = 19
    share = Fraction(twentieths, 20)
    votes = count_votes(np.array(win), twentieths / 20, strict=strict)
    cast = [one for one in win if one == one]
    if not cast:
        assert np.isnan(votes.accept_point)
        return
    omega = Fraction(int(sum(cast)), len(cast))
    assert bool(votes.accept_point) == (omega > share if strict else omega >= share)
    assert bool(votes.tie) == (omega == share)
    assert votes.needed == votes_needed(len(cast), twentieths / 20, strict=strict)


@given(hnp.arrays(float, st.integers(1, 8), elements=st.floats(0, 1)), st.integers(1, 8))
def test_partial_conjunction_is_valid_and_monotone(p: np.ndarray, needed: int) -> None:
    c = min(needed, len(p))
    found = float(partial_conjunction(p, c))
    assert np.sort(p)[c - 1] <= found <= 1
    assert partial_conjunction(p * 0.5, c) <= found
    if c < len(p):
        # more claims need more evidence, up to the Bonferroni factor
        assert partial_conjunction(p, c + 1) >= np.sort(p)[c]


@given(
    hnp.arrays(float, 4, elements=st.floats(-2, 2)),
    hnp.arrays(float, (4, 4), elements=st.floats(-1, 1)),
    st.floats(0.01, 1),
)
def test_win_distributions(mu: np.ndarray, root: np.ndarray, step: float) -> None:
    covariance = root @ root.T + 0.05 * np.eye(4)
    shares = win_distribution(mu, covariance, log2_points=8)
    assert shares.min() >= -1e-12
    assert abs(shares.sum() - 1) < 1e-12
    for c in range(1, 5):
        low, high = (accept_probability(m, covariance, c, log2_points=8) for m in (mu, mu + step))
        assert low <= high + 1e-12


@given(panels(), EPS, EPS)
def test_alt_test_needs_less_for_a_cheaper_human(panel: Any, one: float, two: float) -> None:
    humans, judge = panel
    low, high = sorted((one, two))
    less, more = (alt_test(humans, judge, eps=eps, min_items=0) for eps in (low, high))
    tested = np.isfinite(less.p_value)
    assert (more.p_value[tested] <= less.p_value[tested] + 1e-12).all()
    assert ((less.p_value[tested] > 0) & (less.p_value[tested] <= 1)).all()
    level = less.advantage_judge + less.advantage_human
    assert (level[less.n_items > 0] >= 1 - 1e-12).all()


@given(st.lists(st.integers(1, 40), min_size=1, max_size=5), st.data())
def test_allocations_add_up(sizes: list[int], data: st.DataObject) -> None:
    total = sum(sizes)
    least = sum(min(size, 2) for size in sizes)
    n = data.draw(st.integers(least, total))
    sigma = data.draw(st.lists(st.floats(0, 5), min_size=len(sizes), max_size=len(sizes)))
    drawn = neyman_sizes(n, sizes, sigma)
    assert drawn.sum() == n
    assert ((drawn >= np.minimum(sizes, 2)) & (drawn <= sizes)).all()
    strata = np.repeat(np.arange(len(sizes)), sizes)
    plan = allocate(total, 3, n, design="neyman", strata=strata, deviations=sigma)
    assert np.isclose(plan.weight.sum(), total)
    assert (plan.drawn == drawn).all()


@given(panels(low=0), st.integers(1, 3))
def test_strata_of_a_census_are_nothing(panel: Any, parts: int) -> None:
    humans, judge = panel
    if humans.shape[1] < 2 or len(humans) < parts:
        return
    group = np.arange(len(humans)) % parts
    counts = [loo_counts(humans[group == s], judge[group == s]) for s in range(parts)]
    found = stratified_margins(counts, [int((group == s).sum()) for s in range(parts)], target="matrix")
    plain = loo_margins(loo_counts(humans, judge))
    np.testing.assert_allclose(found.margin, plain.margin, atol=1e-12)
    np.testing.assert_array_equal(found.win, plain.win)
    assert (found.se[found.n_items > 1] == 0).all()


# ----------------------------------------------------------------------------------------------- drawn items


@given(
    st.integers(1, 60),
    st.integers(2, 5),
    st.floats(0, 1),
    st.sampled_from(["random", "shared", "strat"]),
    st.integers(1, 20),
    st.integers(0, 5),
)
def test_masks_have_the_size_asked_for_whatever_the_block(
    n: int, K: int, share: float, design: str, parts: int, seed: int
) -> None:
    """Exactly round(share n) items per further human, from strata in proportion; the first keeps all."""
    strata = np.arange(n) % parts if design == "strat" else None
    masks = Masks(n, tuple(range(K)), K + 1, share, design, "exact", strata, 2, seed)
    kept = masks(np.arange(n))
    assert kept.shape == (n, K + 1, 2)
    assert kept[:, 0].all()
    assert kept[:, K].all()
    assert (kept[:, 1:K].sum(axis=0) == round(share * n)).all()
    if design != "random":
        assert (kept[:, 1:K] == kept[:, 1:2]).all()
    if strata is not None:
        sizes = np.bincount(strata)
        drawn = np.stack([np.bincount(strata, weights=kept[:, 1, t], minlength=len(sizes)) for t in range(2)])
        assert (np.abs(drawn - round(share * n) * sizes / n) < 1).all()
    np.testing.assert_array_equal(masks(np.arange(n // 2, n)), kept[n // 2 :])

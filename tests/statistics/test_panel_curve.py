"""Subpanels: draws uniform over what they allow, growth curves, conflicts, members left out, search."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from xjudge.errors import ProtocolError, Reason, StructureError
from xjudge.statistics import panel


def pool(seed: int = 0, n: int = 120, N: int = 8, L: int = 3):  # type: ignore[no-untyped-def]
    generator = np.random.default_rng(seed)
    h = generator.dirichlet(np.ones(L), n)
    gold = h.argmax(1)
    skill = generator.uniform(0.2, 0.9, N)
    judges = np.where(generator.random((n, N)) < skill, gold[:, None], generator.integers(0, L, (n, N)))
    return judges, h, gold


def halves(seed: int = 0):  # type: ignore[no-untyped-def]
    judges, h, gold = pool(seed)
    return tuple(panel.panel_sums(judges[s], h[s], gold[s]) for s in (slice(0, 60), slice(60, 120)))


def alone(judges, h, gold):  # type: ignore[no-untyped-def]
    return panel.effective_size(panel.panel_sums(judges, h, gold)).values


# ------------------------------------------------------------------------------------------------------ draws


def counted(draws) -> Counter[tuple[int, ...]]:  # type: ignore[no-untyped-def]
    return Counter(tuple(np.flatnonzero(row).tolist()) for row in draws)


def assert_uniform(counts: Counter[tuple[int, ...]], allowed: set[tuple[int, ...]]) -> None:
    """Every allowed panel and no other is drawn, with a chi-square far from the tail of its law."""
    assert set(counts) == allowed
    total = sum(counts.values())
    expected = total / len(allowed)
    chi_square = sum((seen - expected) ** 2 / expected for seen in counts.values())
    degrees = len(allowed) - 1
    assert chi_square < degrees + 5 * math.sqrt(2 * degrees) + 10


FAMILIES = np.array([0, 0, 0, 1, 1, 2, 3])


def test_random_draws_are_uniform() -> None:
    draws = panel.draw_subpanels(6, 3, 8000, unique=False)
    assert_uniform(counted(draws), set(itertools.combinations(range(6), 3)))


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_one_per_family_draws_are_uniform(size: int) -> None:
    draws = panel.draw_subpanels(7, size, 9000, design="one_per_family", families=FAMILIES, unique=False)
    allowed = {c for c in itertools.combinations(range(7), size) if len(set(FAMILIES[list(c)])) == size}
    assert_uniform(counted(draws), allowed)


@pytest.mark.parametrize("size", range(1, 8))
def test_balanced_draws_are_uniform_over_the_most_even_panels(size: int) -> None:
    draws = panel.draw_subpanels(7, size, 9000, design="balanced", families=FAMILIES, unique=False)

    def within(members: tuple[int, ...]) -> int:
        return sum(math.comb(int(b), 2) for b in np.bincount(FAMILIES[list(members)]))

    panels = list(itertools.combinations(range(7), size))
    least = min(map(within, panels))
    assert_uniform(counted(draws), {members for members in panels if within(members) == least})


def test_families_of_the_paper() -> None:
    """Ten families of 5, 4, 4, 4, 4, 3, 3, 2, 2, 1: 9 members leave one family out, 16 take two of most."""
    families = np.repeat(np.arange(10), [5, 4, 4, 4, 4, 3, 3, 2, 2, 1])
    nine = panel.draw_subpanels(32, 9, 500, design="one_per_family", families=families)
    assert (nine.sum(1) == 9).all()
    assert all(len(set(families[row])) == 9 for row in nine)
    sixteen = panel.draw_subpanels(32, 16, 500, design="balanced", families=families)
    for row in sixteen:
        sizes = np.bincount(families[row], minlength=10)
        assert sizes.min() >= 1
        assert (sizes * (sizes - 1) // 2).sum() == 6


def test_repeats_are_dropped() -> None:
    draws = panel.draw_subpanels(5, 4, 2000)
    assert draws.shape == (5, 5)
    assert len(panel.draw_subpanels(5, 5, 2000)) == 1
    np.testing.assert_array_equal(
        panel.draw_subpanels(9, 4, 50, seed=3), panel.draw_subpanels(9, 4, 50, seed=3)
    )


@pytest.mark.parametrize(
    "options",
    [
        {"size": 0},
        {"size": 8},
        {"size": 2, "n_draws": 0},
        {"size": 2, "design": "best"},
        {"size": 2, "design": "balanced"},
        {"size": 2, "design": "balanced", "families": [0, 1]},
        {"size": 5, "design": "one_per_family", "families": FAMILIES},
    ],
)
def test_draws_refuse(options: dict[str, object]) -> None:
    with pytest.raises(ProtocolError):
        panel.draw_subpanels(7, **options)  # type: ignore[arg-type]


# ----------------------------------------------------------------------------------- curves


def test_subpanel_quantities_are_those_of_the_panel() -> None:
    judges, h, gold = pool(1)
    gram = panel.residual_gram(judges, h)
    member = panel.draw_subpanels(8, 3, 30)
    found = panel.subpanel_quantities(gram, member)
    for row, flags in enumerate(member):
        one = alone(judges[:, flags], h, gold)
        assert found.size[row] == 3
        assert found.participation_ratio[row] == pytest.approx(float(one["participation_ratio"]))
        assert found.distributional_error[row] == pytest.approx(float(one["distributional_error"]))
        assert found.mean_energy[row] == pytest.approx(float(one["member_energy"].mean()))
    stacked = panel.subpanel_quantities(np.stack([gram, 2 * gram]), member)
    np.testing.assert_allclose(stacked.participation_ratio[1], found.participation_ratio)
    with pytest.raises(StructureError, match="fit"):
        panel.subpanel_quantities(gram, member[:, :5])


def test_a_judge_more_is_the_panel_with_the_judge() -> None:
    rng = np.random.default_rng(3)
    residual = rng.normal(size=(2, 6, 9))
    residual[1, 4] = 0.0  # a judge without energy on the second set of items
    gram = residual @ residual.swapaxes(-1, -2)
    member = panel.draw_subpanels(6, 3, 40)
    grown = panel.grown_quantities(gram, member)
    for judge in range(6):
        with_judge = member.copy()
        with_judge[:, judge] = True
        right = panel.subpanel_quantities(gram, with_judge)
        absent = ~member[:, judge]
        for name in ("participation_ratio", "distributional_error", "mean_energy"):
            ours, theirs = getattr(grown, name)[:, absent, judge], getattr(right, name)[:, absent]
            np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    assert grown.size.tolist() == [[4]] * len(member)


def test_subpanels_with_a_still_member_are_undefined() -> None:
    gram = np.diag([1.0, 0.0, 1.0])
    found = panel.subpanel_quantities(gram, [[True, False, True], [True, True, False], [False, False, False]])
    np.testing.assert_array_equal(found.participation_ratio, [2.0, np.nan, np.nan])
    np.testing.assert_array_equal(found.distributional_error, [0.5, 0.25, np.nan])


def test_curve_by_hand() -> None:
    judges, h, gold = pool(2)
    sums = panel.panel_sums(judges, h, gold)
    curve = panel.panel_curve(sums, [1, 3, 8], quantiles=[0.5])
    np.testing.assert_array_equal(curve.n_panels, [8, 56, 1])
    panels = [alone(judges[:, list(c)], h, gold) for c in itertools.combinations(range(8), 3)]
    for name in ("nu_h", "nu_mse", "participation_ratio", "distributional_error"):
        assert curve.values[name][1, 0] == pytest.approx(np.median([one[name] for one in panels])), name
    whole = alone(judges, h, gold)
    assert curve.values["nu_h"][2, 0] == pytest.approx(float(whole["nu_h"]))
    assert curve.nu_mse_limit == pytest.approx(float(whole["nu_mse_limit"]))
    from scipy.stats import spearmanr

    ratio = [one["participation_ratio"] for one in panels]
    error = [one["distributional_error"] for one in panels]
    scaled = [one["distributional_error"] / one["member_energy"].mean() for one in panels]
    assert curve.rank_correlation[1] == pytest.approx(spearmanr(ratio, np.negative(error)).statistic)
    assert curve.rank_correlation_scaled[1] == pytest.approx(spearmanr(ratio, np.negative(scaled)).statistic)
    assert np.isnan(curve.rank_correlation[[0, 2]]).all()  # PR of one judge is 1; one panel has no ranking
    assert np.isnan(curve.half_rank_correlation).all()


def test_curve_over_two_halves() -> None:
    judges, h, gold = pool(0)
    curve = panel.panel_curve(halves(0), [4])
    one = panel.panel_curve(panel.panel_sums(judges, h, gold), [4])
    np.testing.assert_allclose(curve.values["nu_h"], one.values["nu_h"])
    member = panel.draw_subpanels(8, 4)
    grams = [panel.residual_gram(judges[s], h[s]) for s in (slice(0, 60), slice(60, 120))]
    a, b = (panel.subpanel_quantities(gram, member) for gram in grams)
    expected = [
        panel.rank_correlation(a.participation_ratio, b.participation_ratio),
        panel.rank_correlation(a.distributional_error, b.distributional_error),
    ]
    np.testing.assert_allclose(curve.half_rank_correlation[0], expected)


def test_curve_sizes_by_default() -> None:
    sums = panel.panel_sums(*pool(3))
    assert panel.panel_curve(sums, n_draws=20).sizes.tolist() == list(range(1, 9))
    families = [0, 0, 1, 1, 2, 2, 2, 2]
    by_family = panel.panel_curve(sums, n_draws=20, design="one_per_family", families=families)
    assert by_family.sizes.tolist() == [1, 2, 3]
    with pytest.raises(StructureError, match="one pool"):
        panel.panel_curve(panel.panel_sums(*pool(3), weights=np.ones((2, 120))))


def test_asymptote_is_where_more_of_the_same_leads() -> None:
    """Judges that share one bias: replicate the pool and nu_MSE approaches the limit of the moments."""
    generator = np.random.default_rng(0)
    n = 4000
    h = generator.dirichlet(np.ones(3), n)
    common = (generator.random((n, 1)) >= np.cumsum(h, axis=1)[:, :-1]).sum(1)
    judges = np.where(generator.random((n, 150)) < 0.5, common[:, None], generator.integers(0, 3, (n, 150)))
    small = panel.effective_size(panel.panel_sums(judges[:, :8], h)).values
    large = panel.effective_size(panel.panel_sums(judges, h)).values
    assert small["nu_mse"] < 0.95 * large["nu_mse"]
    assert small["nu_mse_limit"] == pytest.approx(float(large["nu_mse_limit"]), rel=0.03)
    assert large["nu_mse"] < large["nu_mse_limit"]


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        ([1, 2, 3], [3, 2, 1], -1.0),
        ([1, 1, 2, 3], [1, 2, 2, 4], 5 / 6),
        ([0.3, 0.1 + 0.2, 2, 3], [1, 2, 2, 4], 5 / 6),  # the tie of two sums in another order
        ([1, 1], [1, 2], math.nan),
        ([1], [1], math.nan),
    ],
)
def test_rank_correlation(x: list[float], y: list[float], expected: float) -> None:
    np.testing.assert_allclose(panel.rank_correlation(x, y), expected, equal_nan=True)


def test_rank_correlation_refuses_different_lengths() -> None:
    with pytest.raises(StructureError):
        panel.rank_correlation([1.0, 2.0], [1.0])
    assert np.isnan(panel.rank_correlation([1.0, np.nan], [1.0, 2.0]))


# -------------------------------------------------------------------------------------------------- conflicts


@pytest.mark.parametrize("seed", range(4))
def test_conflicting_additions_by_hand(seed: int) -> None:
    """Two judges that are mostly wrong: they make a panel of like-minded ones more diverse, and worse."""
    judges, h, gold = pool(seed)
    h = 0.7 * np.eye(3)[gold] + 0.3 * h
    generator = np.random.default_rng(seed)
    judges[:, :6] = np.where(generator.random((120, 6)) < 0.8, gold[:, None], judges[:, :6])
    judges[:, 6:] = np.where(generator.random((120, 2)) < 0.9, (gold[:, None] + [1, 2]) % 3, gold[:, None])
    parts = tuple(panel.panel_sums(judges[s], h[s], gold[s]) for s in (slice(0, 60), slice(60, 120)))
    member = panel.draw_subpanels(8, 2, 40)
    counts = [0] * 5
    for flags in member:
        for judge in np.flatnonzero(~flags):
            counts[0] += 1
            directions = []
            for part in (slice(0, 120), slice(0, 60), slice(60, 120)):
                grown = flags.copy()
                grown[judge] = True
                old, new = (alone(judges[part][:, f], h[part], h[part].argmax(1)) for f in (flags, grown))
                ratio = float(new["participation_ratio"] - old["participation_ratio"])
                error = float(new["distributional_error"] - old["distributional_error"])
                large = (
                    abs(ratio) >= 0.01 * old["participation_ratio"]
                    and abs(error) >= 0.01 * old["distributional_error"]
                )
                directions.append(int(np.sign(ratio)) if large and ratio * error > 0 else 0)
            counts[1] += directions[0] != 0
            if directions[0] == directions[1] == directions[2] != 0:
                counts[2] += 1
                counts[3 if directions[0] > 0 else 4] += 1
    found = panel.addition_conflicts(parts, member)
    assert list(found) == counts
    assert counts[3] > 0


# ----------------------------------------------------------------------------------- leaving members out


def test_leaving_each_member_out() -> None:
    judges, h, gold = pool(4, N=5)
    found = panel.leave_one_member_out(panel.panel_sums(judges, h, gold))
    for member in range(5):
        rest = np.arange(5) != member
        for name, value in alone(judges[:, rest], h, gold).items():
            if value.ndim == 0:
                np.testing.assert_allclose(found.values[name][member], value, atol=1e-12, equal_nan=True)
    weighted = panel.leave_one_member_out(panel.panel_sums(judges, h, gold, weights=np.ones((3, 120))))
    assert weighted.values["nu_h"].shape == (3, 5)
    np.testing.assert_allclose(weighted.values["nu_h"][1], found.values["nu_h"])


def test_nothing_is_left_of_one_judge() -> None:
    judges, h, gold = pool(4, N=1)
    found = panel.leave_one_member_out(panel.panel_sums(judges, h, gold))
    for name in ("participation_ratio", "nu_h", "nu_mse", "n_eff", "distributional_error"):
        assert np.isnan(found.values[name]).all()
        assert (found.reasons[name] == Reason.ONE_JUDGE).all()


# ----------------------------------------------------------------------------------- search


@pytest.mark.parametrize("seed", range(8))
def test_search_reaches_the_best_panel_of_a_small_pool(seed: int) -> None:
    judges, h, _ = pool(seed)
    gram = panel.residual_gram(judges, h)
    found = panel.search_sizes(gram, [1, 2, 4, 6, 8])
    for row, size in enumerate((1, 2, 4, 6, 8)):
        members = np.array(list(itertools.combinations(range(8), size)))
        flags = np.zeros((len(members), 8), dtype=bool)
        np.put_along_axis(flags, members, True, axis=1)
        every = panel.subpanel_quantities(gram, flags).participation_ratio
        assert found.participation_ratio[row] == pytest.approx(every.max())
        own = panel.subpanel_quantities(gram, found.member[[row]]).participation_ratio[0]
        assert own == pytest.approx(found.participation_ratio[row])


def test_searched_panels_have_no_improving_swap() -> None:
    judges, h, _ = pool(2, N=24)
    gram = panel.residual_gram(judges, h)
    found = panel.search_sizes(gram, [7], n_starts=3)
    flags = found.member[0]
    for out in np.flatnonzero(flags):
        for into in np.flatnonzero(~flags):
            other = flags.copy()
            other[[out, into]] = False, True
            ratio = panel.subpanel_quantities(gram, other[None]).participation_ratio[0]
            assert ratio <= found.participation_ratio[0] * (1 + 1e-9)


def test_search_leaves_still_judges_out_and_checks_sizes() -> None:
    gram = np.diag([1.0, 0.0, 1.0, 1.0])
    found = panel.search_sizes(gram, [2, 3])
    assert not found.member[:, 1].any()
    np.testing.assert_allclose(found.participation_ratio, [2, 3])
    for sizes in ([4], [0]):
        with pytest.raises(ProtocolError, match="3 judges"):
            panel.search_sizes(gram, sizes)

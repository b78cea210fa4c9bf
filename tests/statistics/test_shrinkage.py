"""Shares drawn towards a common mean: hand numbers, an independent solution, limits, coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import beta

from xjudge.statistics.shrinkage import BetaPrior, beta_prior, shrink

COUNTS = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 12)).map(lambda pair: (min(pair), max(pair))),
    min_size=2,
    max_size=12,
)


def test_equal_trials_by_hand() -> None:
    """p = .9, .8, 1, .3, .9: mean .78, S = 10 x .308, A = 5 x .8, B = 50 x .8, rho = .38748."""
    prior = beta_prior([9, 8, 10, 3, 9], [10] * 5)
    assert prior.mean == pytest.approx(0.78, abs=1e-12)
    rho = (3.08 / (0.78 * 0.22) - 4) / (40 - 4)
    assert prior.strength == pytest.approx(1 / rho - 1, rel=1e-12)
    found = shrink([9, 8, 10, 3, 9], [10] * 5, BetaPrior(0.78, 10.0))
    assert found.value.tolist() == pytest.approx([0.84, 0.79, 0.89, 0.54, 0.84], abs=1e-12)
    assert found.lower[3] == pytest.approx(beta(10.8, 9.2).ppf(0.025), rel=1e-12)
    assert found.upper[3] == pytest.approx(beta(10.8, 9.2).ppf(0.975), rel=1e-12)


@given(COUNTS)
def test_the_prior_solves_its_equation(counts: list[tuple[int, int]]) -> None:
    """Kleinman's equation with the weights that its solution gives, solved by bisection."""
    prior = beta_prior(*np.array(counts).T)
    counts = [(x, n) for x, n in counts if n]
    if not 0 < prior.strength < math.inf:
        return
    rho = 1 / (prior.strength + 1)
    weights = [n / (1 + rho * (n - 1)) for _, n in counts]
    total = math.fsum(weights)
    mean = math.fsum(w * x / n for w, (x, n) in zip(weights, counts, strict=True)) / total
    assert prior.mean == pytest.approx(mean, abs=1e-9)

    def excess(r: float) -> float:
        spread = math.fsum(w * (x / n - mean) ** 2 for w, (x, n) in zip(weights, counts, strict=True))
        expected = math.fsum(
            w * (1 - w / total) * (r + (1 - r) / n) for w, (_, n) in zip(weights, counts, strict=True)
        )
        return spread - mean * (1 - mean) * expected

    assert brentq(excess, -1, 2, xtol=1e-13) == pytest.approx(rho, abs=1e-7)


@given(COUNTS, st.randoms())
def test_order_and_idle_raters_change_nothing(counts: list[tuple[int, int]], random: object) -> None:
    prior = beta_prior(*np.array(counts).T)
    mixed = [*counts, (0, 0)]
    random.shuffle(mixed)  # type: ignore[attr-defined]
    assert beta_prior(*np.array(mixed).T) == pytest.approx(prior, rel=1e-6, abs=1e-9, nan_ok=True)


@given(COUNTS)
def test_values_lie_between_the_share_and_the_mean(counts: list[tuple[int, int]]) -> None:
    x, n = np.array(counts, dtype=float).T
    prior = beta_prior(x, n)
    found = shrink(x, n, prior)
    if math.isnan(prior.strength):
        assert np.isnan(found.value).all()
        return
    share = np.divide(x, n, out=np.full(len(n), prior.mean), where=n > 0)
    low, high = np.minimum(share, prior.mean), np.maximum(share, prior.mean)
    known = ~np.isnan(found.value)
    assert (known | (n == 0)).all()
    assert (found.value[known] >= low[known] - 1e-9).all()
    assert (found.value[known] <= high[known] + 1e-9).all()
    assert (found.lower[known] <= found.value[known] + 1e-9).all()
    assert (found.upper[known] >= found.value[known] - 1e-9).all()


def test_raters_who_differ_by_chance_alone_share_one_value() -> None:
    prior = beta_prior([5, 5, 5, 5], [10, 10, 10, 10])
    assert prior == (0.5, math.inf)
    found = shrink([5, 5, 5, 5], [10, 10, 10, 10], prior)
    assert found.value.tolist() == [0.5] * 4
    # Wilson's interval of 20 of 40
    z2 = 1.959963984540054**2
    half = math.sqrt(z2 * (10 + z2 / 4)) / (40 + z2)
    assert found.lower.tolist() == pytest.approx([0.5 - half] * 4, rel=1e-12)
    assert found.upper.tolist() == pytest.approx([0.5 + half] * 4, rel=1e-12)


@pytest.mark.parametrize(
    ("successes", "trials", "expected"),
    [
        ([], [], (math.nan, math.nan)),
        ([0, 0], [0, 0], (math.nan, math.nan)),
        ([3], [4], (0.75, math.nan)),
        ([3, 0], [4, 0], (0.75, math.nan)),
        ([1, 0, 1], [1, 1, 1], (2 / 3, math.nan)),  # one trial each: spread and chance look alike
        ([4, 4], [4, 4], (1.0, math.inf)),
        ([0, 0], [4, 4], (0.0, math.inf)),
        ([4, 0], [4, 4], (0.5, 0.0)),
    ],
)
def test_the_edges(successes: list[int], trials: list[int], expected: tuple[float, float]) -> None:
    prior = beta_prior(successes, trials)
    assert prior == pytest.approx(expected, nan_ok=True)
    found = shrink(successes, trials, prior)
    assert found.value.shape == found.lower.shape == found.upper.shape == (len(trials),)
    if math.isnan(expected[1]):
        assert np.isnan(found).all()


def test_a_rater_without_trials_has_the_prior() -> None:
    found = shrink([0.0], [0.0], BetaPrior(0.7, 5.0))
    assert found.value.tolist() == pytest.approx([0.7])
    assert found.lower[0] == pytest.approx(beta(3.5, 1.5).ppf(0.025))


@pytest.mark.parametrize(("mean", "strength"), [(0.7, 8.0), (0.85, 20.0)])
def test_intervals_cover_and_values_are_nearer(mean: float, strength: float) -> None:
    """Four hundred raters with three to twelve trials; the average coverage over raters, ten crowds."""
    rng = np.random.default_rng(3)
    inside, error, plain = [], [], []
    for _ in range(10):
        truth = rng.beta(mean * strength, (1 - mean) * strength, 400)
        n = rng.integers(3, 13, 400)
        x = rng.binomial(n, truth)
        found = shrink(x, n, beta_prior(x, n))
        inside.append(((found.lower <= truth) & (truth <= found.upper)).mean())
        error.append(((found.value - truth) ** 2).mean())
        plain.append(((x / n - truth) ** 2).mean())
    assert np.mean(inside) == pytest.approx(0.95, abs=0.012)  # three standard errors of 4,000 raters are .010
    assert np.mean(error) < 0.62 * np.mean(plain)

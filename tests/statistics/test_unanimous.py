"""Bounds where nobody disagrees: Wilson's for shares, the goodness-of-fit interval's for kappa."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xjudge.errors import ProtocolError
from xjudge.statistics import evaluate, wilson_interval
from xjudge.statistics.raters import (
    disagreeing_item,
    disagreeing_pair,
    item_statistic,
    item_terms,
    pair_statistic,
    unseen_units,
)

Z2 = 3.841458820694124  # chi squared, 95 %, one degree of freedom


def bound(name: str, table: Any) -> float:
    counts = np.asarray(table, dtype=float)
    return float(evaluate(name, counts + unseen_units() * disagreeing_pair(counts)).value)


def test_the_number_of_unseen_units_is_a_chi_squared_quantile() -> None:
    assert unseen_units() == pytest.approx(Z2, abs=1e-12)
    assert unseen_units(0.9) == pytest.approx(2.7055434540954155, abs=1e-12)
    with pytest.raises(ProtocolError, match="level"):
        unseen_units(1.0)


@given(negative=st.integers(0, 400), positive=st.integers(1, 400), level=st.floats(0.5, 0.999))
def test_shares_have_the_lower_end_of_wilson(negative: int, positive: int, level: float) -> None:
    table = np.diag([negative, positive]).astype(float)
    more = table + unseen_units(level) * disagreeing_pair(table)
    n = negative + positive
    assert evaluate("accuracy", more).value == pytest.approx(wilson_interval(n, n, level).lower, rel=1e-9)
    # F1 = 2 J / (1 + J), and J is a share of the pairs with a positive label
    jaccard = wilson_interval(positive, positive, level).lower
    assert evaluate("f1", more).value == pytest.approx(2 * jaccard / (1 + jaccard), rel=1e-9)


def goodness_of_fit(negative: int, positive: int) -> float:
    """Lower end of Donner and Eliasziw (1992) without a discordant pair, by bisection."""
    n = negative + positive
    p, q = positive / n, negative / n

    def statistic(kappa: float) -> float:
        expected = (p * p + kappa * p * q, 2 * p * q * (1 - kappa), q * q + kappa * p * q)
        return sum((o - n * e) ** 2 / (n * e) for o, e in zip((positive, 0, negative), expected, strict=True))

    low, high = -min(p / q, q / p) + 1e-9, 1 - 1e-9
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if statistic(middle) > Z2 else (low, middle)
    return low


@pytest.mark.parametrize("n", [20, 50, 200])
def test_kappa_with_even_margins_has_the_goodness_of_fit_interval(n: int) -> None:
    assert bound("kappa", np.diag([n // 2, n // 2])) == pytest.approx(
        goodness_of_fit(n // 2, n // 2), abs=1e-6
    )


@pytest.mark.parametrize(("negative", "positive"), [(19, 1), (45, 5), (95, 5), (160, 40)])
def test_kappa_is_near_the_goodness_of_fit_interval(negative: int, positive: int) -> None:
    assert bound("kappa", np.diag([negative, positive])) == pytest.approx(
        goodness_of_fit(negative, positive), abs=0.05
    )


def test_unused_categories_may_be_what_was_not_seen() -> None:
    pair = disagreeing_pair([[9, 0, 0], [0, 0, 0], [0, 0, 0]])
    assert pair.sum() == pytest.approx(1)
    assert (pair[0, 1:] == pair[0, 1]).all()
    assert pair[0, 1] > pair[1, 2] > 0
    assert (np.diag(pair) == 0).all()


def test_cells_that_do_not_disagree_take_no_part() -> None:
    apart = np.array([[False, False, True], [False, False, True], [True, True, False]])
    pair = disagreeing_pair(np.diag([5, 5, 5]), apart)
    assert (pair[~apart] == 0).all()
    assert pair.sum() == pytest.approx(1)
    assert (disagreeing_pair(np.diag([5, 5]), np.zeros((2, 2), dtype=bool)) == 0).all()


@given(st.lists(st.integers(0, 30), min_size=3, max_size=3).filter(lambda x: sum(n > 0 for n in x) > 1))
def test_two_raters_have_one_bound_by_table_and_by_item(diagonal: list[int]) -> None:
    """Conger's kappa of two raters is Cohen's, Fleiss' is Scott's."""
    labels = np.repeat(np.arange(3), diagonal)[:, None] * np.ones(2, dtype=int)
    counts = (labels[..., None] == np.arange(3)).sum(1)
    for name, cohen, data in (
        ("conger_kappa", "kappa", labels),
        ("fleiss_kappa", "scott_pi", counts),
        ("gwet_ac", "gwet_ac1", counts),
        ("brennan_prediger", "brennan_prediger", counts),
        ("percent_agreement", "accuracy", counts),
    ):
        made = item_statistic(name, 3)
        once = disagreeing_item(made, data, np.ones(len(data)))
        assert once is not None
        value, _ = made.value(item_terms(made, data).sum(0) + unseen_units() * once)
        assert value == pytest.approx(bound(cohen, np.diag(diagonal)), abs=1e-12)


def test_many_raters_by_plain_loops() -> None:
    """Five raters, fleiss and alpha: every item that is added, written out."""
    counts = np.array([[5, 0], [5, 0], [5, 0], [0, 5]])
    shares = np.array([16.0, 6.0]) / 22  # with one label of each category more
    pairs = {(a, b): shares[a] * shares[b] for a, b in itertools.permutations(range(2), 2)}
    total = sum(pairs.values())
    rows = [list(map(float, row)) for row in counts]
    weights = [1.0] * 4
    for (a, b), chance in pairs.items():
        row = [0.0, 0.0]
        row[a] += 2
        row[b] += 3
        rows.append(row)
        weights.append(Z2 * chance / total)
    disagreement = sum(w * 2 * r[0] * r[1] / 20 for r, w in zip(rows, weights, strict=True)) / sum(weights)
    pooled = [sum(w * r[a] for r, w in zip(rows, weights, strict=True)) for a in range(2)]
    n = sum(pooled)
    expected = 2 * pooled[0] * pooled[1] / n**2
    made = item_statistic("fleiss_kappa", 2)
    once = disagreeing_item(made, counts, np.ones(4))
    value, _ = made.value(item_terms(made, counts).sum(0) + Z2 * once)
    assert value == pytest.approx(1 - disagreement / expected, abs=1e-12)


def test_raters_take_turns_on_the_two_sides() -> None:
    """Mean kappa of three raters: every pair disagrees in two of three turns."""
    labels = np.array([[0, 0, 0]] * 6 + [[1, 1, 1]] * 6)
    made = pair_statistic("mean_pairwise_kappa", 2, 3)
    once = disagreeing_item(made, labels, np.ones(12))
    assert once is not None
    tables = once.reshape(3, 2, 2)
    assert tables.sum((1, 2)) == pytest.approx([1, 1, 1])
    assert tables[:, 0, 1] + tables[:, 1, 0] == pytest.approx([2 / 3] * 3)


def test_a_rater_without_labels_stays_without() -> None:
    labels = np.array([[0, 0, -1], [1, 1, -1], [1, 1, -1]])
    made = item_statistic("conger_kappa", 2)
    once = disagreeing_item(made, labels, np.ones(3))
    assert once is not None
    assert (once[2:].reshape(3, 2)[2] == 0).all()
    assert once[0] == 1
    assert once[1] == 1

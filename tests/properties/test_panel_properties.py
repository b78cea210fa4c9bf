"""Invariances of panel sizes and selection, over generated panels with gaps, ties and degenerate cases."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from xjudge.errors import Reason
from xjudge.statistics import panel

Panel = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]


@st.composite
def panels(
    draw: st.DrawFn, max_items: int = 12, min_judges: int = 1, max_judges: int = 5, gaps: bool = True
) -> Panel:
    """Judges (n, k), human counts (n, L) and gold (n,): anything from no items to unanimous humans."""
    n = draw(st.integers(0, max_items))
    k, L = draw(st.integers(min_judges, max_judges)), draw(st.integers(1, 4))
    low = -3 if gaps and draw(st.booleans()) else 0
    judges = draw(st.lists(st.lists(st.integers(low, L - 1), min_size=k, max_size=k), min_size=n, max_size=n))
    counts = draw(st.lists(st.lists(st.integers(0, 4), min_size=L, max_size=L), min_size=n, max_size=n))
    table = np.array(counts, dtype=np.int64).reshape(n, L)
    if not gaps:
        table[table.sum(1) == 0, 0] = 1
    h, _ = panel.human_distribution(table)
    gold, _ = panel.gold_mode(h)
    return np.array(judges, dtype=np.int64).reshape(n, k), table, gold


def measured(judges: Any, counts: Any, gold: Any, **options: Any) -> panel.EffectiveSize:
    h, n_humans = panel.human_distribution(counts)
    return panel.effective_size(panel.panel_sums(judges, h, gold, n_humans=n_humans, **options))


def assert_same(one: panel.EffectiveSize, other: panel.EffectiveSize, skip: tuple[str, ...] = ()) -> None:
    assert set(one.values) == set(other.values)
    for name, value in one.values.items():
        if name not in skip:
            np.testing.assert_allclose(other.values[name], value, rtol=1e-7, atol=1e-9, err_msg=name)
    for name, reason in one.reasons.items():
        if name not in skip:
            np.testing.assert_array_equal(other.reasons[name], reason, err_msg=name)


@given(panels(), st.sampled_from(["drop", "pairwise"]))
def test_no_warning_and_a_reason_for_every_gap(data: Panel, incomplete: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = measured(*data, incomplete=incomplete)
        panel.spectral_identity(panel.residual_gram(data[0], panel.human_distribution(data[1])[0]))
    for name, reason in found.reasons.items():
        assert bool(np.isnan(found.values[name])) == (int(reason) != Reason.OK), name
        assert not np.isinf(found.values[name])


@given(panels(), st.randoms(use_true_random=False), st.sampled_from(["drop", "pairwise"]))
def test_order_of_items_and_judges(data: Panel, random: Any, incomplete: str) -> None:
    judges, counts, gold = data
    items, members = list(range(len(judges))), list(range(judges.shape[1]))
    random.shuffle(items)
    random.shuffle(members)
    one = measured(judges, counts, gold, incomplete=incomplete)
    other = measured(judges[items][:, members], counts[items], gold[items], incomplete=incomplete)
    by_member = ("member_energy", "member_accuracy")
    assert_same(one, other, skip=by_member)
    for name in by_member:
        np.testing.assert_allclose(other.values[name], one.values[name][members], atol=1e-12)


@given(panels(), st.randoms(use_true_random=False))
def test_names_of_categories(data: Panel, random: Any) -> None:
    """Relabelling changes no size; only the channels, which are contrasts of named categories."""
    judges, counts, gold = data
    new = list(range(counts.shape[1]))
    random.shuffle(new)
    mapped = np.array([*new, -3, -2, -1])
    renamed = np.empty_like(counts)
    renamed[:, new] = counts
    other = measured(mapped[judges], renamed, np.where(gold >= 0, mapped[gold], -1))
    assert_same(measured(*data), other, skip=("gamma_co_channel",))


@given(panels(), st.data(), st.sampled_from(["drop", "pairwise"]))
def test_chunks(data: Panel, choice: st.DataObject, incomplete: str) -> None:
    judges, counts, gold = data
    h, n_humans = panel.human_distribution(counts)
    cuts = sorted(choice.draw(st.lists(st.integers(0, len(judges)), max_size=3)))
    edges = [0, *cuts, len(judges)]
    parts = [
        panel.panel_sums(judges[a:b], h[a:b], gold[a:b], n_humans=n_humans[a:b], incomplete=incomplete)
        for a, b in itertools.pairwise(edges)
    ]
    assert_same(measured(*data, incomplete=incomplete), panel.effective_size(panel.combine_sums(*parts)))


@given(panels(max_items=8), st.data())
def test_weights_are_repeats(data: Panel, choice: st.DataObject) -> None:
    judges, counts, gold = data
    n = len(judges)
    weights = np.array(choice.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)), dtype=np.int64)
    repeated = np.repeat(np.arange(n), weights)
    found = measured(judges, counts, gold, weights=weights)
    expected = measured(judges[repeated], counts[repeated], gold[repeated])
    assert_same(expected, found, skip=("nu_h", "finite_n_delta"))
    assert_same(measured(judges, counts, gold), measured(judges, counts, gold, weights=np.ones(n)))


@given(panels(gaps=False))
def test_ranges(data: Panel) -> None:
    values = measured(*data).values
    k = data[0].shape[1]
    for name, low, high in (
        ("participation_ratio", 1.0, k),
        ("mean_squared_correlation", 0.0, 1.0),
        ("distributional_error", 0.0, 2.0),
        ("human_variance", 0.0, 1.0),
        ("gamma_co", 0.0, 1.0),
        ("mean_residual_share", 0.0, 1.0),
        ("mean_error_correlation", -1.0, 1.0),
    ):
        value = values[name]
        assert np.isnan(value) or low - 1e-9 <= value <= high + 1e-9, name
    energy = values["member_energy"]
    # Averaging can only lose: the panel errs at most as much as its mean member.
    assert np.isnan(values["distributional_error"]) or values["distributional_error"] <= energy.mean() + 1e-9


@given(panels(gaps=False, min_judges=2))
def test_identity_and_decomposition(data: Panel) -> None:
    judges, counts, _ = data
    h, _ = panel.human_distribution(counts)
    values = measured(*data).values
    parts = panel.spectral_identity(panel.residual_gram(judges, h))
    if not np.isnan(values["participation_ratio"]):
        np.testing.assert_allclose(parts.error, values["distributional_error"], atol=1e-9)
        np.testing.assert_allclose(
            len(parts.eigenvalues) ** 2 / (parts.eigenvalues**2).sum(), values["participation_ratio"]
        )
    if not np.isnan(values["gamma_co"]):
        shared = values["mean_residual_sq"] + values["gamma_co"] * values["mean_member_variance"]
        np.testing.assert_allclose(shared, values["distributional_error"], atol=1e-9)


@given(panels(gaps=False), st.integers(2, 3))
def test_copies_of_a_panel_add_nothing(data: Panel, times: int) -> None:
    """A panel repeated judge by judge has the same error, PR, consensus share, and so the same sizes."""
    judges, counts, gold = data
    one, many = measured(*data), measured(np.repeat(judges, times, axis=1), counts, gold)
    for name in (
        "participation_ratio",
        "distributional_error",
        "nu_h",
        "nu_mse",
        "gamma_co",
        "mean_residual_sq",
    ):
        np.testing.assert_allclose(many.values[name], one.values[name], rtol=1e-7, atol=1e-9, err_msg=name)


@given(panels(gaps=False, min_judges=2, max_items=8), st.data())
@settings(max_examples=60)
def test_selection_does_not_depend_on_order(data: Panel, choice: st.DataObject) -> None:
    judges, counts, gold = data
    n, N = judges.shape
    assume(n > 0)
    k = choice.draw(st.integers(1, N))
    search = choice.draw(st.sampled_from(["swaps", "all"]))
    names = np.array(list("dbeac"))[:N]
    order = np.array(choice.draw(st.permutations(range(N))))
    items = np.array(choice.draw(st.permutations(range(n))))
    h, _ = panel.human_distribution(counts)
    rules = ["A", "D", "E"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one = panel.select_panel(judges, h, gold, k, rule=rules, names=names, search=search)
    other = panel.select_panel(
        judges[items][:, order], h[items], gold[items], k, rule=rules, names=names[order], search=search
    )
    np.testing.assert_array_equal(other.found, one.found)
    np.testing.assert_array_equal(other.member, one.member[:, order])
    np.testing.assert_array_equal(other.quantities.score, one.quantities.score)
    np.testing.assert_allclose(other.quantities.nu_mse, one.quantities.nu_mse, rtol=1e-9)
    assert other.candidates == one.candidates
    # No rule returns S0, and A and E are more accurate than it.
    for row in np.flatnonzero(one.found)[1:]:
        assert not np.array_equal(one.member[row], one.member[0])
        assert one.member[row].sum() == k
        if one.panels[row] != "D":
            assert one.quantities.score[row] > one.quantities.score[0]


@given(panels(gaps=False, min_judges=2, max_items=8), st.data())
def test_scores_do_not_depend_on_category_names(data: Panel, choice: st.DataObject) -> None:
    judges, counts, gold = data
    L, N = counts.shape[1], judges.shape[1]
    new = np.array(choice.draw(st.permutations(range(L))))
    k = choice.draw(st.integers(1, N))
    members = np.array([choice.draw(st.permutations(range(N)))[:k]])
    one = panel.score_panels(panel.vote_planes(judges, gold, L), members)
    other = panel.score_panels(panel.vote_planes(new[judges], new[gold], L), members)
    np.testing.assert_array_equal(one, other)
    scale = panel.score_scale(L, k) * max(len(judges), 1)
    assert 0 <= one[0] <= scale


@given(panels(gaps=False), st.data())
def test_answers_do_not_depend_on_the_order_of_judges(data: Panel, choice: st.DataObject) -> None:
    judges, counts, _ = data
    order = list(choice.draw(st.permutations(range(judges.shape[1]))))
    L = counts.shape[1]
    one, other = panel.majority_vote(judges, L), panel.majority_vote(judges[:, order], L)
    np.testing.assert_array_equal(one.label, other.label)
    np.testing.assert_allclose(
        panel.soft_distribution(judges, L), panel.soft_distribution(judges[:, order], L)
    )
    if len(judges):
        fit, again = panel.dawid_skene(judges, L), panel.dawid_skene(judges[:, order], L)
        np.testing.assert_allclose(again.posterior, fit.posterior, atol=1e-6)

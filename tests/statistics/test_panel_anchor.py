"""Anchors, reference curves of simulated humans, and sizes read off them."""

from __future__ import annotations

import numpy as np
import pytest

from xjudge.errors import ProtocolError, Reason, StructureError
from xjudge.statistics import panel


def humans(seed: int, n: int = 200, m: int = 50, L: int = 3):  # type: ignore[no-untyped-def]
    generator = np.random.default_rng(seed)
    counts = generator.multinomial(m, generator.dirichlet(np.ones(L), n))
    return counts, panel.human_distribution(counts)[0]


def draw(seed: int, h, k: int):  # type: ignore[no-untyped-def]
    generator = np.random.default_rng(seed)
    return (generator.random((len(h), k, 1)) >= np.cumsum(h, axis=1)[:, None, :-1]).sum(-1)


# --------------------------------------------------------------------------------------------------- anchors


def test_anchors_are_distributions_where_humans_are_known() -> None:
    _, h = humans(0)
    h[3] = np.nan
    mode, uniform = panel.anchor_mode(h), panel.anchor_uniform(h)
    assert np.isnan(mode[3]).all()
    assert np.isnan(uniform[3]).all()
    known = np.arange(200) != 3
    gold, _ = panel.gold_mode(h)
    np.testing.assert_array_equal(mode[known].argmax(1), gold[known])
    np.testing.assert_array_equal(mode[known].sum(1), 1.0)
    np.testing.assert_array_equal(uniform[known], 1 / 3)
    np.testing.assert_array_equal(panel.anchor_mode([[0.5, 0.5]]), [[1.0, 0.0]])


def test_partial_anchor_draws_without_replacement() -> None:
    counts, h = humans(1, n=30, m=9)
    whole = panel.anchor_partial(counts, 9, 3)
    np.testing.assert_allclose(whole, np.broadcast_to(h, whole.shape))
    part = panel.anchor_partial(counts, 4, 4000, seed=2)
    drawn = np.rint(part * 4).astype(int)
    np.testing.assert_allclose(part * 4, drawn)
    assert (drawn.sum(-1) == 4).all()
    assert (drawn <= counts).all()
    # Multivariate hypergeometric: mean M h and variance M h (1 - h) (m - M) / (m - 1).
    variance = 4 * h * (1 - h) * (9 - 4) / (9 - 1)
    np.testing.assert_allclose(drawn.mean(0), 4 * h, atol=4 * np.sqrt(variance.max() / 4000))
    np.testing.assert_allclose(drawn.var(0), variance, atol=0.08)
    assert not np.array_equal(part[0], part[1])
    np.testing.assert_array_equal(part, panel.anchor_partial(counts, 4, 4000, seed=2))


def test_partial_anchor_errors_and_gaps() -> None:
    with pytest.raises(ProtocolError, match="1 of 2 items have fewer"):
        panel.anchor_partial([[3, 1], [1, 0]], 2)
    assert np.isnan(panel.anchor_partial([[3, 1], [0, 0]], 2, 1)[0, 1]).all()
    with pytest.raises(StructureError, match="whole counts"):
        panel.anchor_partial([[0.5, 0.5]], 1)
    with pytest.raises(ProtocolError, match="at least 1"):
        panel.anchor_partial([[3, 1]], 0)


def test_gram_under_an_anchor_subtracts_it() -> None:
    _, h = humans(2, n=20)
    judges = draw(0, h, 4)
    for anchor in (panel.anchor_mode(h), panel.anchor_uniform(h)):
        residual = (judges[:, :, None] == np.arange(3)) - anchor[:, None, :]
        expected = np.einsum("nal,nbl->ab", residual, residual) / 20
        np.testing.assert_allclose(panel.residual_gram(judges, h, anchor=anchor), expected, atol=1e-12)
        one = panel.anchored_size(judges, h, anchor=anchor)
        assert one.participation_ratio == pytest.approx(float(panel.participation_ratio(expected)))


# ------------------------------------------------------------------------------------------- reference curves


def test_curve_is_the_analytic_one_up_to_simulation() -> None:
    """PR_0(m) is near m / (1 + (m - 1) delta), whose inverse is the analytic nu_H."""
    _, h = humans(3, n=400)
    grid = np.array([1, 2, 5, 10, 30])
    curve = panel.reference_curve(h, grid, n_replicates=60)
    delta = float(panel.finite_n_delta(h))
    mean, error = curve.values.mean(0), curve.values.std(0, ddof=1) / np.sqrt(60)
    assert mean[0] == pytest.approx(1.0)
    np.testing.assert_allclose(
        mean[1:], (grid / (1 + (grid - 1) * delta))[1:], atol=float(5 * error.max() + 0.005)
    )
    assert curve.strictly_increasing
    np.testing.assert_allclose(panel.nu_h(grid / (1 + (grid - 1) * delta), delta), grid)


def test_curve_against_panels_of_simulated_humans() -> None:
    """A nested prefix of one simulated population, measured by the Gram matrix."""
    _, h = humans(4, n=50)
    curve = panel.reference_curve(h, [2, 3, 6], n_replicates=2, seed=5)
    for replicate in range(2):
        generator = np.random.default_rng((5, replicate))
        labels = (generator.random((6, 50)).T[:, :, None] >= np.cumsum(h, axis=1)[:, None, :-1]).sum(-1)
        for column, m in enumerate((2, 3, 6)):
            ratio = panel.participation_ratio(panel.residual_gram(labels[:, :m], h))
            assert curve.values[replicate, column] == pytest.approx(float(ratio))


def test_replicates_and_grid_do_not_disturb_each_other() -> None:
    _, h = humans(4, n=50)
    short = panel.reference_curve(h, [2, 4], n_replicates=2)
    more = panel.reference_curve(h, [2, 4], n_replicates=5)
    np.testing.assert_array_equal(more.values[:2], short.values)
    longer = panel.reference_curve(h, [2, 4, 9], n_replicates=2)
    np.testing.assert_allclose(longer.values[:, :2], short.values, atol=1e-12)
    anchors = np.stack([h, panel.anchor_mode(h)])
    both = panel.reference_curve(h, [2, 4], anchor=anchors, n_replicates=2)
    np.testing.assert_allclose(both.values[0], short.values, atol=1e-12)


def test_curve_of_humans_who_agree() -> None:
    h = np.array([[1.0, 0.0], [0.0, 1.0]])
    curve = panel.reference_curve(h, [2, 3], n_replicates=2)
    assert np.isnan(curve.values).all()
    found = panel.anchored_size([[0, 1], [0, 1]], h)
    assert np.isnan(found.value)
    assert found.reason == Reason.NO_HUMAN_VARIANCE


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"grid": [3, 2]}, ProtocolError),
        ({"grid": [0, 2]}, ProtocolError),
        ({"grid": []}, ProtocolError),
        ({"grid": [2, 3], "n_replicates": 0}, ProtocolError),
        ({"grid": [2, 3], "anchor": np.ones((3, 2)) / 2}, StructureError),
    ],
)
def test_curve_errors(options: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error):
        panel.reference_curve(humans(0)[1], **options)  # type: ignore[arg-type]
    with pytest.raises(StructureError, match="item, category"):
        panel.reference_curve([0.5, 0.5], [2])
    for call in (panel.residual_gram, panel.anchored_size):
        with pytest.raises(StructureError, match="anchor has shape"):
            call([[0, 1]] * 4, np.full((4, 2), 0.5), anchor=np.full((3, 2), 0.5))  # type: ignore[operator]


# ------------------------------------------------------------------------------------------------- inversion


def test_inversion_on_a_known_curve() -> None:
    values = np.array([[2.0, 3.0, 5.0], [2.0, 3.2, 4.8]])
    curve = panel.ReferenceCurve(np.array([2, 4, 8]), values, np.array(True))
    found = panel.invert_curve([1.9, 2.0, 3.1, 4.0, 4.9, 5.2, np.nan], curve)
    np.testing.assert_allclose(found.value, [np.nan, 2.0, 4.0, 4 + 4 * 0.9 / 1.8, 8.0, np.nan, np.nan])
    assert [Reason(int(code)).text for code in found.reason] == [
        "<= first grid point",
        "ok",
        "ok",
        "ok",
        "ok",
        "beyond the last grid point",
        "a member without residual energy",
    ]
    np.testing.assert_allclose(found.replicates[2], [4.2, 2 + 2 * 1.1 / 1.2])
    assert found.spread[2] == pytest.approx(np.std([4.2, 2 + 2 * 1.1 / 1.2], ddof=1))
    np.testing.assert_array_equal(found.replicates[0], [-np.inf, -np.inf])
    np.testing.assert_array_equal(found.replicates[5], [np.inf, np.inf])
    assert np.isnan(found.spread[0])
    # On one replicate 4.9 is beyond, so there is no spread; the mean curve ends exactly there.
    assert np.isinf(found.replicates[4, 1])
    assert np.isnan(found.spread[4])


def test_curve_that_dips_is_inverted_through_its_maximum() -> None:
    curve = panel.ReferenceCurve(np.array([2, 3, 4, 5]), np.array([[2.0, 3.0, 2.9, 4.0]]), np.array(False))
    found = panel.invert_curve(3.5, curve)
    assert found.value == pytest.approx(4.5)


def test_censored_ends_of_a_panel() -> None:
    _, h = humans(5)
    same = np.repeat(draw(1, h, 1), 3, axis=1)
    found = panel.anchored_size(same, h)
    assert found.participation_ratio == pytest.approx(1.0)
    assert np.isnan(found.value)
    assert found.reason == Reason.BELOW_GRID
    assert panel.anchored_size(same, h, grid=[1, 2, 4]).value == pytest.approx(1.0)
    beyond = panel.anchored_size(draw(1, h, 8), h, grid=[2, 4])
    assert np.isnan(beyond.value)
    assert beyond.reason == Reason.BEYOND_GRID


@pytest.mark.parametrize("m", [3, 8, 24, 64])
def test_humans_in_the_place_of_judges_are_worth_themselves(m: int) -> None:
    """nu_H by Monte Carlo of m simulated humans is m up to the noise of their own draw."""
    _, h = humans(m, n=300)
    values, spread = [], []
    for seed in range(8):
        found = panel.anchored_size(draw(seed, h, m), h, seed=seed)
        values.append(float(found.value))
        spread.append(float(found.inverted.spread))
    assert abs(np.mean(values) - m) < 4 * np.std(values, ddof=1) / np.sqrt(8)
    # The spread over replicates of the reference is of the size of that noise.
    assert 0.3 < np.mean(spread) / np.std(values, ddof=1) < 3


@pytest.mark.parametrize("name", ["mode", "uniform"])
def test_other_anchors_have_their_own_curve(name: str) -> None:
    """Simulated humans are worth m under every anchor, since judges and reference subtract the same."""
    _, h = humans(6, n=400)
    anchor = {"mode": panel.anchor_mode, "uniform": panel.anchor_uniform}[name](h)
    values = [
        float(panel.anchored_size(draw(seed, h, 6), h, anchor=anchor, seed=seed).value) for seed in range(10)
    ]
    assert abs(np.mean(values) - 6) < 4 * np.std(values, ddof=1) / np.sqrt(10)
    plain = panel.reference_curve(h, [6], n_replicates=4).values.mean()
    other = panel.reference_curve(h, [6], anchor=anchor, n_replicates=4).values.mean()
    assert other < plain - 1  # a shared displacement makes humans look alike


def test_partial_anchor_approaches_the_whole_reference() -> None:
    counts, h = humans(7, n=200, m=40)
    judges = draw(3, h, 6)
    full = float(panel.anchored_size(judges, h).value)
    medians = []
    for n_labels in (5, 20, 40):
        anchors = panel.anchor_partial(counts, n_labels, 12)
        found = panel.anchored_size(judges, h, anchor=anchors)
        assert found.participation_ratio.shape == (12,)
        assert found.curve.values.shape == (12, 12, 11)
        assert found.interval[0] <= found.value <= found.interval[1]
        medians.append(float(found.value))
    assert medians[2] == pytest.approx(full)
    np.testing.assert_allclose(found.interval, [full, full])
    # Judges who are humans stay worth 6 whatever the anchor; their participation ratio does not.
    np.testing.assert_allclose(medians, 6, atol=0.8)
    few = panel.anchored_size(judges, h, anchor=panel.anchor_partial(counts, 5, 12)).participation_ratio
    assert (few < panel.anchored_size(judges, h).participation_ratio).all()


def test_median_and_interval_over_censored_replicates() -> None:
    counts, h = humans(8, n=60, m=20)
    same = np.repeat(draw(1, h, 1), 3, axis=1)
    found = panel.anchored_size(same, h, anchor=panel.anchor_partial(counts, 5, 6))
    assert np.isnan(found.value)
    assert found.reason == Reason.BELOW_GRID
    assert np.isnan(found.interval).all()


def test_items_that_cannot_be_used_are_left_out() -> None:
    _, h = humans(9, n=80)
    judges = draw(2, h, 4)
    holes, unknown = judges.copy(), h.copy()
    holes[0, 1] = -1
    unknown[1] = np.nan
    expected = panel.anchored_size(judges[2:], h[2:])
    assert panel.anchored_size(holes, unknown).value == pytest.approx(float(expected.value))
    none = panel.anchored_size(np.full((3, 2), -1), np.full((3, 2), 0.5))
    assert np.isnan(none.value)
    assert none.reason == Reason.NO_ITEMS
    with pytest.raises(StructureError, match="one panel"):
        panel.anchored_size(judges[None], h[None])

"""Sizes of panels: the oracles, the paper's numbers and constructions, plain loops, and what is undefined."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from shared import SHARED, needs_shared, oracle
from slow_panel import slow_gram, slow_sizes

from xjudge.errors import ProtocolError, Reason, StructureError, VocabularyError
from xjudge.statistics import panel

TASKS = ("wax", "cebab_aspects", "cebab_stars", "summeval", "mtbench", "10k_prompts", "framing")


def random_panel(seed: int, n: int = 60, k: int = 5, L: int = 3, m: int = 7):  # type: ignore[no-untyped-def]
    """Judges that follow the humans half of the time, with human counts and gold."""
    generator = np.random.default_rng(seed)
    counts = generator.multinomial(m, generator.dirichlet(np.ones(L)), size=n)
    h, n_humans = panel.human_distribution(counts)
    gold, _ = panel.gold_mode(h)
    judges = np.where(generator.random((n, k)) < 0.5, gold[:, None], generator.integers(0, L, (n, k)))
    return judges, h, gold, n_humans


def sizes(*args, **kwargs) -> dict[str, npt.NDArray[np.float64]]:  # type: ignore[no-untyped-def]
    return panel.effective_size(panel.panel_sums(*args, **kwargs)).values


# -------------------------------------------------------------------------------- oracles, the paper


def labels_of(task: str, judges: list[str], categories: list[str]) -> tuple[npt.NDArray[np.int64], ...]:
    frame = pd.read_csv(
        SHARED / "data" / f"alttest_{task}.csv.gz",
        dtype={"item": str, "rater": str, "label": str},
        keep_default_na=False,
    )
    unit = frame["item"] + "|" + frame["criterion"] if "criterion" in frame else frame["item"]
    row = unit.map({name: i for i, name in enumerate(sorted(unit.unique()))}).to_numpy()
    code = frame["label"].map({name: i for i, name in enumerate(categories)}).to_numpy()
    human = (frame["rater_kind"] == "human").to_numpy()
    counts = np.zeros((row.max() + 1, len(categories)), dtype=np.int64)
    np.add.at(counts, (row[human], code[human]), 1)
    codes = np.full((row.max() + 1, len(judges)), -1)
    column = frame["rater"].map({name: i for i, name in enumerate(judges)})
    codes[row[~human], column[~human].astype(int).to_numpy()] = code[~human]
    return codes, counts


ORACLE_NAMES = {
    "PR": "participation_ratio",
    "q_bar": "mean_squared_correlation",
    "error": "distributional_error",
    "J": "human_variance",
    "nu_mse": "nu_mse",
    "delta": "finite_n_delta",
    "nu_h_analytic": "nu_h",
    "phi_bar": "mean_error_correlation",
    "n_eff": "n_eff",
    "gamma_co": "gamma_co",
    "mu2": "mean_residual_sq",
    "v_bar": "mean_member_variance",
    "rho_bar": "mean_member_correlation",
    "nu_inf": "nu_mse_limit",
    "member_energy": "member_energy",
    "judge_accuracy_vs_mode": "member_accuracy",
    "n_items": "n_items",
}


@needs_shared
@pytest.mark.parametrize("task", TASKS)
def test_effective_size_oracle(task: str) -> None:
    expected = oracle("effective_size")[task]
    codes, counts = labels_of(task, expected["judges"], [str(label) for label in expected["labels_sorted"]])
    h, n_humans = panel.human_distribution(counts)
    gold, n_ties = panel.gold_mode(h)
    sums = panel.panel_sums(codes, h, gold, n_humans=n_humans)
    found = panel.effective_size(sums)
    for name, ours in ORACLE_NAMES.items():
        np.testing.assert_allclose(found.values[ours], expected[name], rtol=0, atol=1e-10, err_msg=name)
    assert n_ties == expected["gold_ties"]
    assert found.values["n_dropped"] == 0
    few = expected["finite_human"]
    for name, ours in (
        ("J_unbiased", "human_variance_corrected"),
        ("error_corrected", "distributional_error_corrected"),
        ("nu_mse_corrected", "nu_mse_corrected"),
    ):
        np.testing.assert_allclose(found.values[ours], few[name], rtol=0, atol=1e-10)
    upper = panel.normalised_gram(panel.residual_gram(codes, h))[np.triu_indices(6, 1)]
    np.testing.assert_allclose(upper, expected["energy_normalised_gram_offdiag"], rtol=0, atol=1e-10)
    unique, _ = panel.gold_mode(h, ties="drop")
    assert (unique >= 0).sum() == expected["unique_mode_only"]["n_items"]
    again = sizes(codes, h, unique)
    np.testing.assert_allclose(again["n_eff"], expected["unique_mode_only"]["n_eff"], atol=1e-10)
    np.testing.assert_allclose(
        again["mean_error_correlation"], expected["unique_mode_only"]["phi_bar"], atol=1e-10
    )
    assert set(found.reasons) >= {
        "participation_ratio",
        "nu_h",
        "nu_mse",
        "nu_mse_limit",
        "n_eff",
        "gamma_co",
    }
    assert all(reason == Reason.OK for reason in found.reasons.values())


@pytest.mark.parametrize(
    ("delta", "ratio", "expected"),
    [  # from the paper's published moments; the four panels of 32
        (0.0007797693359029985, 4.228177055434585, 4.238855571369462),
        (0.001018121487416989, 6.421769339614792, 6.457450925184693),
        (0.0019315077744505027, 6.427160450996961, 6.495380713750669),
        (0.0011527547488988507, 2.834386643279229, 2.8403998787244342),
    ],
)
def test_nu_h_of_the_paper(delta: float, ratio: float, expected: float) -> None:
    assert panel.nu_h(ratio, delta) == pytest.approx(expected, rel=0, abs=1e-12)


@pytest.mark.parametrize(
    ("moments", "expected"),
    [
        ((0.4537506, 0.1969113531250003, 0.022278477462500036, 0.43846980952389825), 2.391975693560773),
        ((0.3400036, 0.09067655625, 0.004380273715625004, 0.3371990612658126), 3.990428010694085),
        ((0.1662098, 0.048253559375, 0.0000483390281250001, 0.35897844880574126), 3.6548253677035603),
    ],
)
def test_limits_of_the_paper(moments: tuple[float, ...], expected: float) -> None:
    assert panel.nu_mse_limit(*moments, 32) == pytest.approx(expected, rel=0, abs=1e-12)


HALF = np.full((4, 2), 0.5)
A, B = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])


@pytest.mark.parametrize(
    ("moments", "printed"),
    [
        ((0.4537506, 0.1969113531250003, 0.022278477462500036, 4.242), (2.304, 1.841, 11.3, 2.392, 96.3)),
        ((0.3400036, 0.09067655625, 0.004380273715625004, 6.459), (3.750, 1.723, 4.8, 3.990, 94.0)),
        ((0.1662098, 0.048253559375, 0.0000483390281250001, 6.499), (3.445, 1.887, 0.1, 3.655, 94.2)),
    ],
)
def test_printed_figures_follow_from_the_moments(
    moments: tuple[float, float, float, float], printed: tuple[float, ...]
) -> None:
    """Sections 4.2 to 4.6, 5: J / E, nu_H over it, mean residual in % of E, the limit, and its % reached."""
    J, E, mu2, spectral = moments
    gamma = {0.4537506: 0.43846980952389825, 0.3400036: 0.3371990612658126, 0.1662098: 0.35897844880574126}[J]
    size = float(panel.nu_mse(J, E))
    limit = float(panel.nu_mse_limit(J, E, mu2, gamma, 32))
    found = (round(size, 3), round(spectral / size, 3), round(100 * mu2 / E, 1), round(limit, 3))
    assert (*found, round(100 * size / limit, 1)) == printed


@pytest.mark.parametrize(
    ("delta", "ratio", "change"),
    [
        (0.0007797693359029985, 4.228177055434585, 0.3),
        (0.001018121487416989, 6.421769339614792, 0.6),
        (0.0019315077744505027, 6.427160450996961, 1.1),
        (0.0011527547488988507, 2.834386643279229, 0.2),
    ],
)
def test_human_units_change_the_ratio_little(delta: float, ratio: float, change: float) -> None:
    """Section 4.2: on these panels the conversion of PR to nu_H adds 0.3 to 1.1 %; on CC-1000 0.2 %."""
    assert round(100 * (float(panel.nu_h(ratio, delta)) / ratio - 1), 1) == change


def test_equal_spectra_with_different_errors() -> None:
    aligned = sizes(np.stack([A, A, B, B], axis=1), HALF)
    opposed = sizes(np.stack([A, 1 - A, B, 1 - B], axis=1), HALF)
    for found in (aligned, opposed):
        assert found["participation_ratio"] == 2.0
        np.testing.assert_array_equal(found["member_energy"], [0.5] * 4)
    assert aligned["distributional_error"] == 0.25
    assert opposed["distributional_error"] == 0.0
    for judges in ([A, A, B, B], [A, 1 - A, B, 1 - B]):
        parts = panel.spectral_identity(panel.residual_gram(np.stack(judges, axis=1), HALF))
        np.testing.assert_allclose(parts.eigenvalues, [2, 2, 0, 0], atol=1e-12)


def test_more_diverse_and_further_away() -> None:
    """Equal energies, no negative correlation: PR rises by 14.3 % and the error by 25 % (section 1)."""
    h = np.full((8, 2), 0.5)
    before = sizes(np.stack([np.tile(A, 2), np.tile(A, 2), np.tile(B, 2), np.tile(B, 2)], axis=1), h)
    # Each judge flips one item of its own: any two agree on 6 of 8, a correlation of 1/2.
    flipped = np.eye(8, dtype=int)[:, :4]
    after = sizes(flipped, h)
    assert (panel.residual_gram(flipped, h) >= 0).all()
    np.testing.assert_array_equal(after["member_energy"], before["member_energy"])
    assert (before["participation_ratio"], after["participation_ratio"]) == (
        2.0,
        pytest.approx(16 / 7, abs=1e-12),
    )
    assert (before["distributional_error"], after["distributional_error"]) == (
        0.25,
        pytest.approx(5 / 16, abs=1e-12),
    )


# --------------------------------------------------------------------------------------------- plain loops


@pytest.mark.parametrize("seed", range(12))
def test_sizes_against_plain_loops(seed: int) -> None:
    judges, h, gold, n_humans = random_panel(seed, n=25 + seed, k=2 + seed % 4, L=2 + seed % 3)
    judges, gold = judges.copy(), gold.copy()
    judges[0, 0], gold[1] = -2, -1
    h[2] = np.nan
    expected = slow_sizes(judges.tolist(), h.tolist(), gold.tolist(), n_humans.tolist())
    found = sizes(judges, h, gold, n_humans=n_humans)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-10, atol=1e-12, err_msg=name)
    assert found["n_dropped"] == 2
    assert found["n_items"] == len(judges) - 2
    np.testing.assert_allclose(
        found["n_eff"],
        panel.kish_n_eff(judges[np.arange(len(judges)) != 2], gold[np.arange(len(judges)) != 2]),
    )


@pytest.mark.parametrize("seed", range(4))
def test_pairwise_complete(seed: int) -> None:
    judges, h, gold, _ = random_panel(seed, n=40, k=4)
    holes = np.where(np.random.default_rng(seed).random(judges.shape) < 0.25, -1, judges)
    gram = panel.residual_gram(holes, h, incomplete="pairwise")
    np.testing.assert_allclose(gram, slow_gram(holes.tolist(), h.tolist(), pairwise=True), atol=1e-12)
    found = panel.effective_size(panel.panel_sums(holes, h, gold, incomplete="pairwise"))
    assert found.values["participation_ratio"] == pytest.approx(float(panel.participation_ratio(gram)))
    assert found.values["distributional_error"] == pytest.approx(gram.mean())
    # Error correlations pair by pair, from the items of the pair.
    phi = []
    for a, b in itertools.combinations(range(4), 2):
        both = (holes[:, a] >= 0) & (holes[:, b] >= 0)
        wrong = (holes[both][:, [a, b]] != gold[both, None]).astype(float)
        phi.append(np.corrcoef(wrong.T)[0, 1])
    assert found.values["mean_error_correlation"] == pytest.approx(np.mean(phi))
    # The decomposition of the error holds with pairwise means and covariances.
    v = found.values
    shared = v["mean_residual_sq"] + v["gamma_co"] * v["mean_member_variance"]
    assert shared == pytest.approx(float(v["distributional_error"]))
    # Where nothing is missing the two policies agree.
    one, other = (sizes(judges, h, gold, incomplete=policy) for policy in ("drop", "pairwise"))
    for name, value in one.items():
        np.testing.assert_allclose(other[name], value, atol=1e-12, equal_nan=True, err_msg=name)


def test_pair_without_a_common_item() -> None:
    judges = np.array([[0, -1, 1], [1, -1, 0], [-1, 0, 1], [-1, 1, 1]])
    found = panel.effective_size(panel.panel_sums(judges, HALF, incomplete="pairwise"))
    assert np.isnan(found.values["participation_ratio"])
    assert found.reasons["participation_ratio"] == Reason.NO_OVERLAP
    assert np.isnan(panel.residual_gram(judges, HALF, incomplete="pairwise")[0, 1])


def test_channels_add_up_to_the_total_share() -> None:
    judges, h, gold, _ = random_panel(3)
    contrast = sizes(judges, h, gold)
    onehot = sizes(judges, h, gold, basis=np.eye(3))
    assert contrast["gamma_co_channel"].shape == (2,)
    assert onehot["gamma_co_channel"].shape == (3,)
    for name, value in contrast.items():
        if name != "gamma_co_channel":
            np.testing.assert_allclose(onehot[name], value, atol=1e-12, equal_nan=True, err_msg=name)
    # By hand: centred coordinate by coordinate.
    residual = (judges[:, :, None] == np.arange(3)) - h[:, None, :]
    for basis, found in ((panel.contrasts(3), contrast), (np.eye(3), onehot)):
        c = residual @ basis
        c = c - c.mean(0)
        share = (c.sum(1) ** 2).sum(0) / (5 * (c**2).sum((0, 1)))
        np.testing.assert_allclose(found["gamma_co_channel"], share, atol=1e-12)


@pytest.mark.parametrize("L", [1, 2, 3, 7])
def test_contrasts_are_orthonormal(L: int) -> None:
    basis = panel.contrasts(L)
    np.testing.assert_allclose(basis.T @ basis, np.eye(L - 1), atol=1e-14)
    np.testing.assert_allclose(basis.sum(0), 0, atol=1e-14)


def test_identity_of_error_and_orientation() -> None:
    judges, h, _, _ = random_panel(8, k=6)
    gram = panel.residual_gram(judges, h)
    parts = panel.spectral_identity(gram)
    assert parts.error == pytest.approx(float(panel.distributional_error(gram)), abs=1e-14)
    assert parts.energy == pytest.approx(np.trace(gram))
    assert parts.alignment.sum() == pytest.approx(1.0)
    assert parts.eigenvalues.sum() == pytest.approx(6.0)
    assert (np.diff(parts.eigenvalues) <= 0).all()
    assert 36 / (parts.eigenvalues**2).sum() == pytest.approx(float(panel.participation_ratio(gram)))


def test_crossed_summaries() -> None:
    judges, h, gold, _ = random_panel(4)
    phi, gram = panel.error_correlation(judges, gold), panel.residual_gram(judges, h)
    found = panel.crossed_summaries(phi, gram)
    assert found.error_signed == pytest.approx(float(panel.kish_n_eff(judges, gold)))
    assert found.residual_squared == pytest.approx(float(panel.participation_ratio(gram)))
    upper = np.triu_indices(5, 1)
    assert found.error_squared == pytest.approx(5 / (1 + 4 * (phi[upper] ** 2).mean()))
    C = panel.normalised_gram(gram)
    assert found.residual_signed == pytest.approx(5 / (1 + 4 * C[upper].mean()))


def test_joint_errors() -> None:
    judges, _, gold, _ = random_panel(6)
    wrong = judges != gold[:, None]
    found = panel.joint_errors(judges, gold)
    assert found.n_all_wrong == wrong.all(1).sum()
    assert found.expected == pytest.approx(60 * wrong.mean(0).prod())
    gaps = gold.copy()
    gaps[:10] = -1
    assert panel.joint_errors(judges, gaps).n_items == 50


# -------------------------------------------------------------------------------- sums, chunks, weights


def test_chunks_add(monkeypatch: pytest.MonkeyPatch) -> None:
    judges, h, gold, n_humans = random_panel(1)
    whole = panel.panel_sums(judges, h, gold, n_humans=n_humans)
    parts = [
        panel.panel_sums(judges[s], h[s], gold[s], n_humans=n_humans[s])
        for s in (slice(0, 13), slice(13, 60))
    ]
    monkeypatch.setattr("xjudge.statistics._panel_residuals.BLOCK_ELEMENTS", 300)
    blocks = panel.panel_sums(judges, h, gold, n_humans=n_humans)
    for one, other, blocked in zip(whole, panel.combine_sums(*parts), blocks, strict=True):
        np.testing.assert_allclose(other, one, atol=1e-11)
        np.testing.assert_allclose(blocked, one, atol=1e-11)
    with pytest.raises(StructureError, match="same judges"):
        panel.combine_sums(whole, panel.panel_sums(judges[:, :2], h))
    with pytest.raises(StructureError, match="policy"):
        panel.combine_sums(whole, panel.panel_sums(judges, h, gold, incomplete="pairwise"))


@pytest.mark.parametrize("incomplete", ["drop", "pairwise"])
def test_weights_are_repeated_items(incomplete: str) -> None:
    judges, h, gold, n_humans = random_panel(2)
    judges = np.where(np.random.default_rng(0).random(judges.shape) < 0.1, -1, judges)
    weights = np.random.default_rng(1).multinomial(60, np.full(60, 1 / 60), size=3)
    found = sizes(judges, h, gold, n_humans=n_humans, weights=weights, incomplete=incomplete)
    for row, weight in enumerate(weights):
        repeated = np.repeat(np.arange(60), weight)
        expected = sizes(
            judges[repeated], h[repeated], gold[repeated], n_humans=n_humans[repeated], incomplete=incomplete
        )
        for name, value in expected.items():
            # Copies of an item are no new item: only the finite-sample delta, and so nu_h, see that.
            if name not in ("finite_n_delta", "nu_h"):
                np.testing.assert_allclose(found[name][row], value, atol=1e-11, equal_nan=True, err_msg=name)
        assert found["finite_n_delta"][row] > expected["finite_n_delta"]


def test_weights_of_one_are_no_weights_and_a_factor_cancels() -> None:
    judges, h, gold, n_humans = random_panel(5)
    plain = sizes(judges, h, gold, n_humans=n_humans)
    weighted = sizes(judges, h, gold, n_humans=n_humans, weights=np.array([[1.0] * 60, [3.0] * 60]))
    for name, value in plain.items():
        if name in ("n_items", "n_dropped"):
            continue
        np.testing.assert_allclose(weighted[name][0], value, atol=1e-12, err_msg=name)
        np.testing.assert_allclose(weighted[name][1], value, atol=1e-12, err_msg=name)
    one = sizes(judges, h, gold, weights=np.ones(60))
    assert one["nu_h"].shape == ()
    with pytest.raises(StructureError, match="60 items"):
        panel.panel_sums(judges, h, weights=np.ones(59))


def test_leading_dims() -> None:
    batch = [random_panel(seed) for seed in range(3)]
    judges, h, gold, n_humans = (np.stack(parts) for parts in zip(*batch, strict=True))
    found = panel.effective_size(panel.panel_sums(judges, h, gold, n_humans=n_humans))
    resampled = panel.effective_size(panel.panel_sums(judges, h, gold, weights=np.ones((2, 60))))
    for number, one in enumerate(batch):
        alone = sizes(*one[:3], n_humans=one[3])
        for name, value in alone.items():
            np.testing.assert_allclose(found.values[name][number], value, atol=1e-12, err_msg=name)
        assert resampled.values["nu_h"].shape == (2, 3)
        np.testing.assert_allclose(resampled.values["nu_h"][1, number], alone["nu_h"], atol=1e-12)
    np.testing.assert_allclose(panel.kish_n_eff(judges, gold), found.values["n_eff"])
    assert panel.spectral_identity(panel.residual_gram(judges, h)).alignment.shape == (3, 5)


def test_subpanels_from_the_sums_of_the_pool() -> None:
    judges, h, gold, n_humans = random_panel(9, k=6)
    for incomplete in ("drop", "pairwise"):
        pool = panel.panel_sums(judges, h, gold, n_humans=n_humans, incomplete=incomplete)
        members = [0, 2, 5]
        found = panel.effective_size(panel.subpanel_sums(pool, members)).values
        for name, value in sizes(judges[:, members], h, gold, n_humans=n_humans).items():
            np.testing.assert_allclose(found[name], value, atol=1e-12, err_msg=name)
        mask = panel.subpanel_sums(pool, np.isin(np.arange(6), members))
        np.testing.assert_array_equal(mask.gram, panel.subpanel_sums(pool, members).gram)


def test_inputs_may_be_read_only_floats_and_are_left_alone() -> None:
    judges, h, gold, _ = random_panel(1)
    floats = judges.astype(float)
    floats[3, 1] = np.nan
    copies = [floats.copy(), h.copy(), gold.copy()]
    for array in (floats, h, gold):
        array.setflags(write=False)
    found = sizes(floats, h, gold)
    assert found["n_dropped"] == 1
    for array, copy in zip((floats, h, gold), copies, strict=True):
        np.testing.assert_array_equal(array, copy)


# -------------------------------------------------------------------------------- what is undefined


def reason_and_value(name: str, *args, **kwargs) -> tuple[int, float]:  # type: ignore[no-untyped-def]
    found = panel.effective_size(panel.panel_sums(*args, **kwargs))
    return int(found.reasons[name]), float(found.values[name])


UNANIMOUS = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])


@pytest.mark.parametrize(
    ("name", "reason", "judges", "h", "gold"),
    [
        ("participation_ratio", Reason.NO_ITEMS, [[-1, 0]] * 4, HALF, [0] * 4),
        (
            "participation_ratio",
            Reason.NO_RESIDUAL_ENERGY,
            [[0, 1], [1, 1], [0, 1], [1, 0]],
            UNANIMOUS,
            [0, 1, 0, 1],
        ),
        ("nu_h", Reason.NO_RESIDUAL_ENERGY, [[0, 1], [1, 1], [0, 1], [1, 0]], UNANIMOUS, [0, 1, 0, 1]),
        ("nu_h", Reason.NO_HUMAN_VARIANCE, [[1, 1], [1, 0], [0, 1], [1, 0]], UNANIMOUS, [0, 1, 0, 1]),
        ("nu_h", Reason.NON_POSITIVE_DENOMINATOR, [[0, 0], [0, 1]], [[0.5, 0.5]] * 2, [0, 0]),
        ("nu_mse", Reason.NO_HUMAN_VARIANCE, [[1, 1], [1, 0], [0, 1], [1, 0]], UNANIMOUS, [0, 1, 0, 1]),
        ("nu_mse", Reason.NON_POSITIVE_ERROR, [[0, 1], [1, 0], [0, 1], [1, 0]], HALF, [0] * 4),
        (
            "finite_n_delta",
            Reason.NO_HUMAN_VARIANCE,
            [[1, 1], [1, 0], [0, 1], [1, 0]],
            UNANIMOUS,
            [0, 1, 0, 1],
        ),
        ("nu_mse_limit", Reason.ONE_JUDGE, [[0], [1], [0], [0]], HALF, [0] * 4),
        ("nu_mse_limit", Reason.NO_CONSENSUS_VARIANCE, [[0, 1], [1, 0], [0, 1], [1, 0]], HALF, [0] * 4),
        ("nu_mse_limit", Reason.NON_POSITIVE_ERROR, [[0, 0], [0, 1], [1, 0], [1, 1]], HALF, [0] * 4),
        ("gamma_co", Reason.NO_CONSENSUS_VARIANCE, [[0, 0]] * 4, HALF, [0] * 4),
        ("mean_squared_correlation", Reason.ONE_JUDGE, [[0], [1], [0], [0]], HALF, [0] * 4),
        ("n_eff", Reason.CONSTANT_ERRORS, [[0, 0], [0, 1], [0, 0], [0, 1]], HALF, [0] * 4),
        ("n_eff", Reason.NON_POSITIVE_DENOMINATOR, [[0, 1], [1, 0], [0, 1], [1, 0]], HALF, [0] * 4),
        ("n_eff", Reason.NO_ITEMS, [[0, 1], [1, 0], [0, 1], [1, 0]], HALF, [-1] * 4),
        (
            "human_variance_corrected",
            Reason.FEW_HUMAN_LABELS,
            [[0, 1], [1, 0], [0, 1], [1, 0]],
            HALF,
            [0] * 4,
        ),
        ("nu_mse_corrected", Reason.FEW_HUMAN_LABELS, [[0, 1], [1, 0], [0, 1], [1, 0]], HALF, [0] * 4),
    ],
)
def test_undefined_has_a_reason(name: str, reason: Reason, judges, h, gold) -> None:  # type: ignore[no-untyped-def]
    code, value = reason_and_value(name, judges, h, gold)
    assert np.isnan(value)
    assert Reason(code) == reason


def test_everything_defined_has_none() -> None:
    judges, h, gold, n_humans = random_panel(0)
    found = panel.effective_size(panel.panel_sums(judges, h, gold, n_humans=n_humans))
    for name, value in found.values.items():
        assert not np.isnan(value).any(), name
        assert found.reasons.get(name, Reason.OK) == Reason.OK


def test_a_reason_wherever_a_scalar_is_undefined() -> None:
    for judges, h, gold in (
        (np.zeros((0, 3), dtype=int), np.zeros((0, 2)), np.zeros(0, dtype=int)),
        (np.zeros((3, 1), dtype=int), np.ones((3, 1)), np.zeros(3, dtype=int)),
        (np.array([[0, 1]]), np.array([[0.5, 0.5]]), np.array([0])),
        (np.zeros((4, 2), dtype=int), UNANIMOUS, np.array([0, 1, 0, 1])),
    ):
        found = panel.effective_size(panel.panel_sums(judges, h, gold, n_humans=np.full(len(judges), 3)))
        for name, reason in found.reasons.items():
            assert np.isnan(found.values[name]) == (reason != Reason.OK), name


@pytest.mark.parametrize("incomplete", ["drop", "pairwise"])
def test_no_judge_has_no_size(incomplete: str) -> None:
    sums = panel.panel_sums(
        np.zeros((4, 0), dtype=int), HALF, [0] * 4, n_humans=[2] * 4, incomplete=incomplete
    )
    found = panel.effective_size(sums)
    for name in (
        "participation_ratio",
        "distributional_error",
        "nu_h",
        "nu_mse",
        "n_eff",
        "mean_residual_sq",
    ):
        assert np.isnan(found.values[name]), name
    for name, reason in found.reasons.items():
        assert np.isnan(found.values[name]) == (reason != Reason.OK), name
    assert np.isnan(panel.kish_n_eff(np.zeros((4, 0), dtype=int), [0] * 4))


def test_one_judge_is_worth_one_judge() -> None:
    judges, h, gold, _ = random_panel(7, k=1)
    found = sizes(judges, h, gold)
    assert found["participation_ratio"] == pytest.approx(1.0)
    assert found["n_eff"] == pytest.approx(1.0)
    assert found["gamma_co"] == pytest.approx(1.0)


def test_plain_functions_answer_undefined_with_nan() -> None:
    assert np.isnan(panel.nu_h(10.0, 0.1))
    assert np.isnan(panel.nu_h(np.nan, 0.1))
    np.testing.assert_array_equal(panel.nu_mse([1.0, 0.0, 1.0], [0.0, 1.0, 2.0]), [np.nan, np.nan, 0.5])
    assert np.isnan(panel.nu_mse_limit(0.5, 0.2, 0.0, 0.5, 1))
    assert np.isnan(panel.nu_mse_limit(0.5, 0.2, 0.0, 0.0, 4))
    assert np.isnan(
        panel.nu_mse_limit(0.5, 0.2, 0.0, 0.1, 4)
    )  # k gamma < 1: the limit of the error is negative
    # gamma .1 of four judges: the limit is 3 mu2 - 2 E, nothing but rounding where mu2 is two thirds of E
    assert np.isnan(panel.nu_mse_limit(0.5, 0.1, np.nextafter(0.1 / 1.5, 1.0), 0.1, 4))
    assert panel.nu_mse_limit(0.5, 0.1, 0.1, 0.1, 4) == pytest.approx(5.0)
    assert np.isnan(panel.nu_h(1 / 0.3 - 1e-15, 0.3))
    assert np.isnan(panel.participation_ratio([[0.0, 0.0], [0.0, 1.0]]))
    assert np.isnan(panel.human_variance(np.full((2, 3), np.nan)))
    assert np.isnan(panel.finite_n_delta([[1.0, 0.0]]))
    assert np.isnan(panel.spectral_identity([[0.0, 0.0], [0.0, 1.0]]).error)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: panel.panel_sums([0, 1], HALF), StructureError, "item, judge"),
        (lambda: panel.panel_sums([[0], [1]], HALF), StructureError, "same items"),
        (lambda: panel.panel_sums([[2]] * 4, HALF), VocabularyError, "2"),
        (lambda: panel.panel_sums([[0]] * 4, HALF, [2] * 4), VocabularyError, "gold"),
        (lambda: panel.panel_sums([[0]] * 4, HALF * 3), StructureError, "human_distribution"),
        (lambda: panel.panel_sums([[0]] * 4, HALF, [0]), StructureError, "gold"),
        (lambda: panel.panel_sums([[0]] * 4, HALF, incomplete="keep"), ProtocolError, "pairwise"),
        (lambda: panel.panel_sums([[0]] * 4, HALF, basis=[[1.0], [1.0]]), ProtocolError, "basis"),
        (lambda: panel.panel_sums([[0]] * 4, HALF, basis=[[1.0]]), StructureError, "basis"),
        (lambda: panel.human_distribution([[-1, 2]]), StructureError, "negative"),
        (lambda: panel.human_distribution([1, 2]), StructureError, "axes"),
        (lambda: panel.gold_mode(HALF, ties="last"), ProtocolError, "first"),
        (lambda: panel.participation_ratio([[1.0, 2.0]]), StructureError, "Gram"),
        (lambda: panel.kish_n_eff([[0, 1]], [0, 1]), StructureError, "gold"),
    ],
)
def test_errors_are_sentences(call, error: type[Exception], message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(error, match=message):
        call()


# ------------------------------------------------------------------------------------------------ the humans


def test_gold_mode_counts_ties() -> None:
    h, n_humans = panel.human_distribution([[2, 2, 1], [0, 1, 1], [3, 0, 0], [0, 0, 0]])
    gold, n_ties = panel.gold_mode(h)
    np.testing.assert_array_equal(gold, [0, 1, 0, -1])
    np.testing.assert_array_equal(n_humans, [5, 2, 3, 0])
    assert n_ties == 2
    np.testing.assert_array_equal(panel.gold_mode(h, ties="drop")[0], [-1, -1, 0, -1])


@pytest.mark.parametrize("m", [3, 5, 10])
def test_correction_for_few_humans_is_unbiased(m: int) -> None:
    """Humans drawn m an item from known distributions: corrected J and E average to the true ones."""
    generator = np.random.default_rng(m)
    truth = generator.dirichlet([0.7, 0.7, 0.7], 150)
    judges = np.where(
        generator.random((150, 4)) < 0.6, truth.argmax(1)[:, None], generator.integers(0, 3, (150, 4))
    )
    J, E = panel.human_variance(truth), panel.distributional_error(panel.residual_gram(judges, truth))
    draws = np.stack([generator.multinomial(m, truth) for _ in range(1500)])
    h, n_humans = panel.human_distribution(draws)
    found = panel.effective_size(
        panel.panel_sums(np.broadcast_to(judges, (1500, 150, 4)), h, n_humans=n_humans)
    ).values
    for name, target in (("human_variance", J), ("distributional_error", E)):
        corrected, plain = found[f"{name}_corrected"], found[name]
        error = corrected.std() / np.sqrt(1500)
        assert abs(corrected.mean() - target) < 4 * error
        assert abs(plain.mean() - target) > 20 * error  # the plug-in value is biased at these numbers


# ------------------------------------------------------------------------------------------------- resampling


@pytest.mark.parametrize("m", [2, 4, 16, 64])
def test_humans_in_the_place_of_judges_are_worth_themselves(m: int) -> None:
    """nu_H of m simulated humans is m, and its item-resampling interval covers m (m = 2 .. 64)."""
    generator = np.random.default_rng(m)
    covered, estimates = 0, []
    for _ in range(12):
        h = generator.dirichlet([1.0, 1.0, 1.0], 300)
        judges = (generator.random((300, m, 1)) >= np.cumsum(h, axis=1)[:, None, :-1]).sum(-1)
        weights = generator.multinomial(300, np.full(300, 1 / 300), size=150)
        replicates = sizes(judges, h, weights=weights)["nu_h"]
        low, high = np.quantile(replicates, [0.025, 0.975])
        estimates.append(float(sizes(judges, h)["nu_h"]))
        covered += low <= m <= high
    assert covered >= 11
    assert abs(np.mean(estimates) - m) < 4 * np.std(estimates, ddof=1) / np.sqrt(12)


# ------------------------------------------------------------------------------------------------ influences


def test_influences_are_derivatives() -> None:
    """What a little more weight of an item does to each value, by differences of the sizes themselves."""
    judges, h, gold, n_humans = random_panel(3, n=40, k=4, m=5)
    judges[3, 2], gold[5] = -1, -1
    step = 1e-5

    def values(weights):  # type: ignore[no-untyped-def]
        found = sizes(judges, h, gold, n_humans=n_humans, weights=weights)
        limit = found["mean_residual_sq"] + found["mean_member_variance"] * found["mean_member_correlation"]
        squared, signed = 1.0 / found["participation_ratio"], 1.0 / found["n_eff"]
        return found | {"squared_correlation": squared, "signed_correlation": signed, "error_limit": limit}

    up, down = values(1 + step * np.eye(40)), values(1 - step * np.eye(40))
    terms = panel.panel_sums(judges[:, None], h[:, None], gold[:, None], n_humans=n_humans[:, None])
    whole = panel.panel_sums(judges, h, gold, n_humans=n_humans, weights=np.ones((1, 40)))
    found = panel.influence_products(terms, whole, np.ones((1, 40)))
    assert set(found) == {(name, name) for name in panel.INFLUENCES} | set(panel.RATIOS.values())
    for (one, other), product in found.items():
        slopes = [(up[name] - down[name]) / (2 * step) for name in (one, other)]
        assert product[0] == pytest.approx(float(slopes[0] @ slopes[1]), rel=1e-6), (one, other)


def test_influences_of_parts_add_and_weights_are_repeats() -> None:
    judges, h, gold, n_humans = random_panel(4, n=30, k=3)
    weights = np.random.default_rng(0).integers(0, 4, (5, 30))
    terms = panel.panel_sums(judges[:, None], h[:, None], gold[:, None], n_humans=n_humans[:, None])
    sums = panel.panel_sums(judges, h, gold, n_humans=n_humans, weights=weights)
    whole = panel.influence_products(terms, sums, weights)
    cuts = (slice(0, 11), slice(11, 30))
    parts = [
        panel.influence_products(panel.PanelSums(*(field[cut] for field in terms)), sums, weights[:, cut])
        for cut in cuts
    ]
    for pair, product in whole.items():
        np.testing.assert_allclose(parts[0][pair] + parts[1][pair], product, rtol=1e-12)
    row = np.repeat(np.arange(30), weights[2])
    repeated = panel.panel_sums(
        judges[row, None], h[row, None], gold[row, None], n_humans=n_humans[row, None]
    )
    one = panel.PanelSums(*(field[2:3] for field in sums))
    again = panel.influence_products(repeated, one, np.ones((1, len(row))))
    for pair, product in whole.items():
        assert again[pair][0] == pytest.approx(product[2], rel=1e-10)


def test_chance_correlations_of_simulated_humans_are_delta() -> None:
    """The noise of a panel of m independent humans averages (1 - 1/m) delta."""
    rng = np.random.default_rng(0)
    h = rng.dirichlet([1.0, 1.0, 1.0], 400)
    judges = (rng.random((400, 12, 1)) >= np.cumsum(h, axis=1)[:, None, :-1]).sum(-1)
    terms = panel.panel_sums(judges[:, None], h[:, None])
    noise = panel.correlation_noise(terms, panel.panel_sums(judges, h), np.ones(400))
    assert noise == pytest.approx(11 / 12 * float(panel.finite_n_delta(h)), rel=0.05)


def test_the_interval_of_a_ratio() -> None:
    """Normal sides: Fieller's interval, from its quadratic equation; an uncertain denominator has no end."""
    rng = np.random.default_rng(1)
    covariance = np.array([[0.04, 0.01], [0.01, 0.02]])
    drawn = rng.multivariate_normal([2.0, 1.0], covariance, 200_000)
    fixed = [np.full(200_000, value) for value in (0.04, 0.02, 0.01)]
    own = panel.RatioSide(*(np.asarray(value) for value in (2.0, 1.0, 0.04, 0.02, 0.01)))
    lower, upper = panel.ratio_interval(own, panel.RatioSide(*drawn.T, *fixed))
    z2 = 1.959963984540054**2
    roots = np.sort(np.roots([1 - z2 * 0.02, -2 * (2 - z2 * 0.01), 4 - z2 * 0.04]).real)
    assert lower == pytest.approx(roots[0], abs=0.01)
    assert upper == pytest.approx(roots[1], abs=0.02)
    wide = panel.RatioSide(*(np.asarray(value) for value in (2.0, 0.1, 0.04, 0.02, 0.01)))
    low, high = panel.ratio_interval(wide, panel.RatioSide(drawn[:, 0], drawn[:, 1] - 0.9, *fixed))
    assert np.isfinite(low)
    assert high == np.inf
    nothing = panel.RatioSide(*(np.full(3, np.nan) for _ in range(5)))
    assert np.isnan(panel.ratio_interval(own, nothing)).all()


def test_influences_on_sizes_are_derivatives() -> None:
    judges, h, gold, n_humans = random_panel(6, n=35, k=3, m=5)
    step = 1e-5

    def values(weights):  # type: ignore[no-untyped-def]
        return sizes(judges, h, gold, n_humans=n_humans, weights=weights)

    up, down, at = (values(w) for w in (1 + step * np.eye(35), 1 - step * np.eye(35), np.ones((1, 35))))
    terms = panel.panel_sums(judges[:, None], h[:, None], gold[:, None], n_humans=n_humans[:, None])
    whole = panel.panel_sums(judges, h, gold, n_humans=n_humans, weights=np.ones((1, 35)))
    found = panel.size_influences(terms, whole, at)
    for name, influence in found.items():
        of = "participation_ratio" if name == "nu_h" else name
        np.testing.assert_allclose(influence[0], (up[of] - down[of]) / (2 * step), rtol=1e-5, atol=1e-9)
    shifted = panel.size_influences(terms, whole, at, shift=0.05)["nu_h"][0]
    ratio = at["participation_ratio"][0]
    factor = (1 / ratio) ** 2 / (1 / ratio - 0.05) ** 2
    np.testing.assert_allclose(shifted, found["nu_h"][0] * factor, rtol=1e-10)

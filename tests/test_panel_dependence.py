"""How members of a panel err together, and where their residuals lie."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import xarray as xr
from labels import dataset, random_codes
from panel_tasks import published, quiet
from shared import needs_shared, oracle

import xjudge as xj
from xjudge.statistics import panel

MICRO = xj.Protocol(aggregate="micro")
NOMINAL = xj.Scale.nominal(["a", "b", "c"])


@pytest.fixture
def ds() -> xr.Dataset:
    codes = random_codes(5, (80, 7, 2), 3)
    codes[::2, 5] = codes[::2, 4]
    return dataset(
        codes, ["human"] * 3 + ["judge"] * 4, scale=NOMINAL, system=["a", "b"] * 40, cluster=list("abcd") * 20
    )


# ------------------------------------------------------------------------------------------- published labels

# Items that all judges miss and the number that independence expects, Omega, the largest eigenvalue of C and
# its alignment, and k / (1 + (k - 1) mean) of error correlations, their squares, C and its squares: from
# numpy.corrcoef and numpy.linalg.eigh on a table of the labels, independently of the library.
DEPENDENCE: dict[str, tuple[Any, ...]] = {
    "wax": (
        97,
        31.42490840599337,
        5.671707317073169,
        2.9427352505823245,
        0.9875079964397612,
        [1.8888555481, 3.0051061888, 2.0453879964, 3.3478720076],
    ),
    "cebab_aspects": (
        54,
        0.004307580241878811,
        1.400793650793651,
        3.9623268247141707,
        0.9446589030068167,
        [1.4866859794, 2.0571186099, 1.5270469916, 2.1538115943],
    ),
    "cebab_stars": (
        104,
        3.1535394491159625,
        3.595874355368044,
        3.400583456906742,
        0.9679154487101161,
        [1.9848152954, 3.1067045606, 1.783073695, 2.7411601288],
    ),
    "summeval": (
        1494,
        755.8715177794148,
        6.895625000000139,
        3.3197233935964174,
        0.9776691196119773,
        [2.9358985023, 4.2649085828, 1.8648380446, 2.8344443951],
    ),
    "mtbench": (
        10,
        0.493836087962963,
        4.741666666666667,
        3.7545783887709154,
        0.9572036364988199,
        [1.9529227738, 2.8312582957, 1.6390174415, 2.3410900447],
    ),
    "10k_prompts": (
        363,
        144.51355327279194,
        5.725530035335691,
        2.887210997635476,
        0.989203280783022,
        [3.1184637187, 4.7082131025, 2.0874160028, 3.4348804647],
    ),
    "framing": (
        138,
        1.0248396677778833,
        2.673719958202706,
        3.2231398781247638,
        0.9911406092609497,
        [2.0375225247, 3.3599872053, 1.8669196683, 2.9870400121],
    ),
}


@needs_shared
@pytest.mark.parametrize("task", DEPENDENCE)
def test_dependence_on_published_labels(task: str) -> None:
    all_wrong, expected, energy, eigenvalue, alignment, sizes = DEPENDENCE[task]
    right = oracle("effective_size")[task]
    found = quiet(xj.panel_dependence, published(task))
    assert int(found["n_all_wrong"]) == all_wrong
    assert float(found["expected_all_wrong"]) == pytest.approx(expected, abs=1e-9)
    assert float(found["energy"]) == pytest.approx(energy, abs=1e-10)
    assert float(found["energy"]) == pytest.approx(sum(right["member_energy"]), abs=1e-10)
    assert float(found["eigenvalue"][0]) == pytest.approx(eigenvalue, abs=1e-10)
    assert float(found["alignment"][0]) == pytest.approx(alignment, abs=1e-10)
    crossed = found["crossed_size"]
    np.testing.assert_allclose(crossed.values.ravel(), sizes, atol=1e-9)
    signed, squared = crossed.sel(representation="error", summary="signed"), crossed[1, 1]
    assert float(signed) == pytest.approx(right["n_eff"], abs=1e-10)
    assert float(squared) == pytest.approx(right["PR"], abs=1e-10)
    means = found["crossed_mean"]
    assert float(means[0, 0]) == pytest.approx(right["phi_bar"], abs=1e-10)
    assert float(means[1, 1]) == pytest.approx(right["q_bar"], abs=1e-10)
    k = right["k"]
    spectral = energy / k**2 * float((found["eigenvalue"] * found["alignment"]).sum())
    assert spectral == pytest.approx(right["error"], abs=1e-9)
    assert float(found["eigenvalue"].sum()) == pytest.approx(k, abs=1e-10)
    assert float(found["alignment"].sum()) == pytest.approx(1.0, abs=1e-10)
    ordered = found["residual_correlation"].sel(rater_a=right["judges"], rater_b=right["judges"]).values
    np.testing.assert_allclose(
        ordered[np.triu_indices(k, 1)], right["energy_normalised_gram_offdiag"], atol=1e-10
    )
    accuracy = found["error_rate"].sel(rater=right["judges"])
    np.testing.assert_allclose(1 - accuracy, right["judge_accuracy_vs_mode"], atol=1e-10)
    assert int(found["n_items"]) == int(found["n_scored"]) == right["n_items"]
    assert int(found["n_gold_ties"]) == right["gold_ties"]


# Human anisotropy and axis, then anisotropy and angle of each judge, of the gold and of the majority judge:
# from numpy.linalg.eigh of second moments in contrast coordinates, independently of the library.
GEOMETRY: dict[str, tuple[float, float, list[tuple[float, float]]]] = {
    "cebab_aspects": (
        0.7138004351,
        -1.1013380182,
        [
            (0.1534722479, 0.4808330577),
            (0.3182539814, 0.3054652737),
            (0.3125458405, 0.2408487264),
            (0.1493545836, 0.2478952383),
            (0.3504814446, 0.191525677),
            (0.4736532137, 0.0703524875),
            (0.7185138701, 0.0150689508),
            (0.1888780966, 0.2149567087),
        ],
    ),
    "mtbench": (
        0.3626546116,
        -1.3821327768,
        [
            (0.176794631, 0.9905550702),
            (0.1904452289, 1.0296833411),
            (0.172635026, -0.8730899915),
            (0.2179764339, -1.3063008281),
            (0.1567158382, 1.1013181259),
            (0.2907317099, -0.6605656264),
            (0.363978774, -0.0367379949),
            (0.2003945927, -1.3271256189),
        ],
    ),
    "framing": (
        0.9870928089,
        -1.0471975512,
        [
            (0.9973772248, 0.0013683654),
            (0.9961641826, 0.0026777133),
            (0.9958694958, 0.0028851165),
            (0.9968362038, 0.0016520136),
            (0.9976514436, 0.0004077971),
            (0.9976476001, 0.0016373511),
            (0.9706601467, 0.0),
            (0.9963383415, 0.0025552531),
        ],
    ),
}


@needs_shared
@pytest.mark.parametrize("task", GEOMETRY)
def test_geometry_on_published_labels(task: str) -> None:
    anisotropy, axis, judges = GEOMETRY[task]
    found = quiet(xj.panel_geometry, published(task), n_simulated=300)
    assert float(found["human_anisotropy"]) == pytest.approx(anisotropy, abs=1e-9)
    assert math.remainder(float(found["human_axis"]) - axis, math.pi) == pytest.approx(0.0, abs=1e-9)
    ordered = found.sel(rater=oracle("effective_size")[task]["judges"])
    shape = [*ordered["anisotropy"].values, *found["constructed_anisotropy"].values]
    angle = [*ordered["angle"].values, *found["constructed_angle"].values]
    np.testing.assert_allclose(shape, [one for one, _ in judges], atol=1e-9)
    np.testing.assert_allclose(angle, [one for _, one in judges], atol=1e-9)
    # distances by hand from the centre and covariance of the cloud
    inverse = np.linalg.inv(found["cloud_covariance"].values)
    for place in range(len(judges) - 2):
        turned = math.remainder(angle[place] - float(found["cloud_angle"]), math.pi)
        offset = np.array([turned, shape[place] - float(found["cloud_anisotropy"])])
        right = math.sqrt(offset @ inverse @ offset)
        assert float(ordered["distance"][place]) == pytest.approx(right, rel=1e-9)
    excess = found["anisotropy"].mean() - found["cloud_anisotropy"]
    gold = found["constructed_anisotropy"].sel(constructed="gold") - found["cloud_anisotropy"]
    assert float(found["gold_excess"]) == pytest.approx(float(gold / excess), rel=1e-9)
    # labels drawn from the human distribution have the human second moment
    assert float(found["cloud_anisotropy"]) == pytest.approx(anisotropy, abs=0.06)
    above = found["anisotropy"] > found["cloud_anisotropy"]
    assert int(found["n_above"]) == int(above.sum())
    assert int(found["n_above_left"]) == int((above & (found["angle"] < found["cloud_angle"])).sum())


# ------------------------------------------------------------------------------------------------- hand cases


def test_constructions_of_the_paper() -> None:
    """Panels [a, a, b, b] and [a, -a, b, -b]: eigenvalues 2, 2, 0, 0 and energies 1/2; errors 1/4 and 0."""
    a, b = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    half = np.tile([0, 1], (4, 1))  # two humans who split on every item
    for members, error in (([a, a, b, b], 0.25), ([a, 1 - a, b, 1 - b], 0.0)):
        codes = np.concatenate([half, np.stack(members, axis=1)], axis=1)
        found = quiet(xj.panel_dependence, dataset(codes, ["human"] * 2 + ["judge"] * 4))
        np.testing.assert_allclose(found["eigenvalue"], [2, 2, 0, 0], atol=1e-12)
        assert float(found["energy"]) == 2.0
        aligned = found["alignment"].values
        assert aligned[:2].sum() == pytest.approx(
            1.0 if error else 0.0, abs=1e-12
        )  # 2 is a repeated eigenvalue
        assert float(found["distributional_error"]) == pytest.approx(error, abs=1e-12)


def test_joint_errors_by_hand() -> None:
    """Two judges who miss the same 2 of 4 items: independence expects 4 x 1/2 x 1/2 = 1."""
    codes = [[0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, -1, 1], [-1, -1, 1, 1]]
    found = quiet(xj.panel_dependence, dataset(codes, ["human", "human", "judge", "judge"]))
    assert int(found["n_all_wrong"]) == 2
    assert float(found["expected_all_wrong"]) == 1.0
    assert int(found["n_scored"]) == 4
    assert int(found["n_dropped"]) == 2
    assert found["error_rate"].values.tolist() == [0.5, 0.5]
    assert found["error_correlation"].values.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_gold_decides_what_an_error_is(ds: xr.Dataset) -> None:
    found = quiet(xj.panel_dependence, ds, gold="h1", protocol=MICRO)
    labels = ds["label"].transpose("item", "criterion", "rater").values.reshape(-1, 7)
    answered = (labels[:, 3:] >= 0).all(1) & (labels[:, :3] >= 0).any(1)
    scored = labels[answered & (labels[:, 0] >= 0)]
    assert int(found["n_scored"]) == len(scored)
    assert int(found["n_all_wrong"]) == int((scored[:, 3:] != scored[:, :1]).all(1).sum())
    assert int(found["n_items"]) == int(answered.sum())


def test_slices_are_the_data_of_the_slice(ds: xr.Dataset) -> None:
    for verb in (xj.panel_dependence, xj.panel_geometry):
        whole = quiet(verb, ds, by="system")
        assert whole.sizes["system"] == 2
        part = quiet(verb, ds.isel(item=np.flatnonzero(ds["system"].values == "b")))
        one = whole.sel(system="b", drop=True)
        for name in part.data_vars:
            if one[name].dtype.kind == "f":
                xr.testing.assert_allclose(one[name], part[name])
            else:
                xr.testing.assert_equal(one[name], part[name])


# --------------------------------------------------------------------------------------------------- backends


VERBS = [(xj.panel_dependence, {}), (xj.panel_geometry, {"n_simulated": 50})]


@pytest.mark.filterwarnings("ignore:Labels are chunked")
@pytest.mark.parametrize(("verb", "options"), VERBS)
def test_every_backend_gives_the_same(ds: xr.Dataset, backend: Any, verb: Any, options: Any) -> None:
    found = quiet(verb, backend(ds), protocol=MICRO, **options)
    right = quiet(verb, ds, protocol=MICRO, **options)
    assert found.attrs == right.attrs
    xr.testing.assert_allclose(found, right, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(("verb", "options"), VERBS)
def test_one_compute(ds: xr.Dataset, count_computes: Any, verb: Any, options: Any) -> None:
    lazy = ds.chunk(item=(50, 7, 23))
    lazy = lazy.assign_coords({name: c.compute() for name, c in lazy.coords.items()})
    with count_computes() as computes:
        later = quiet(verb, lazy, compute=False, **options)
        assert computes.n == 0
        now = quiet(verb, lazy, **options)
        assert computes.n == 1
    xr.testing.assert_identical(later.compute(), now)


@pytest.mark.parametrize(("verb", "options"), VERBS)
def test_the_order_of_items_and_judges_does_not_matter(ds: xr.Dataset, verb: Any, options: Any) -> None:
    rng = np.random.default_rng(0)
    moved = ds.isel(item=rng.permutation(80), rater=[6, 0, 3, 2, 5, 1, 4])
    one, other = quiet(verb, ds, **options), quiet(verb, moved, **options)
    names = {dim: ds["rater"].values[3:] for dim in ("rater", "rater_a", "rater_b") if dim in one.dims}
    one, other = (found.sel(names).drop_vars("alignment", errors="ignore") for found in (one, other))
    for name in one.data_vars:
        if one[name].dtype.kind == "f":
            xr.testing.assert_allclose(one[name], other[name], rtol=1e-9, atol=1e-12)
        else:
            xr.testing.assert_equal(one[name], other[name])


# ----------------------------------------------------------------------------------------------- awkward ones


def test_one_judge() -> None:
    codes = abs(random_codes(1, (60, 4), 3)) % 3
    one = dataset(codes, ["human"] * 3 + ["judge"], scale=NOMINAL)
    found = quiet(xj.panel_dependence, one)
    assert found["eigenvalue"].values.tolist() == [1.0]
    assert set(found["crossed_size_reason"].values.ravel()) == {"a panel of one judge"}
    assert np.isnan(found["crossed_mean"]).all()
    assert int(found["n_all_wrong"]) == round(float(found["expected_all_wrong"]))
    assert np.isfinite(quiet(xj.panel_geometry, one)["distance"]).all()


def test_judges_that_equal_the_humans_have_no_direction() -> None:
    human = np.arange(30) % 3
    codes = np.stack([human, human, human, (human + 1) % 3], axis=1)
    ds = dataset(codes, ["human", "human", "judge", "judge"], scale=NOMINAL)
    found = quiet(xj.panel_dependence, ds)
    assert str(found["energy_reason"].values) == "a member without residual energy"
    assert np.isnan(found["eigenvalue"]).all()
    assert str(found["crossed_size_reason"].sel(representation="error", summary="signed").values) == (
        "a judge with constant errors"
    )
    assert int(found["n_all_wrong"]) == 0
    placed = quiet(xj.panel_geometry, ds)
    assert placed["anisotropy_reason"].values.tolist() == ["a member without residual energy", "ok"]
    assert placed["distance_reason"].values.tolist()[1] in (
        "residuals without a principal axis",
        "simulated humans do not spread",
    )
    assert str(placed["gold_excess_reason"].values) == "a member without residual energy"


def test_nothing_is_left() -> None:
    rows = [[0, -1, 1], [-1, 1, 0], [1, -1, -1]]
    ds = dataset(rows, ["human", "judge", "judge"], scale=NOMINAL)
    found = quiet(xj.panel_dependence, ds)
    assert int(found["n_items"]) == int(found["n_all_wrong"]) == 0
    assert set(found["crossed_size_reason"].values.ravel()) == {"no items"}
    assert str(found["expected_all_wrong_reason"].values) == "no items"
    placed = quiet(xj.panel_geometry, ds)
    assert set(placed["distance_reason"].values) == {"no items"}
    assert np.isnan(placed["cloud_anisotropy"])


def test_geometry_is_of_three_categories(ds: xr.Dataset) -> None:
    two = xj.Protocol(scale_map=xj.one_of("a"), aggregate="micro")
    with pytest.raises(xj.ProtocolError, match="three categories"):
        xj.panel_geometry(ds, protocol=two)
    with pytest.raises(xj.ProtocolError, match="at least 3"):
        xj.panel_geometry(ds, n_simulated=2)


@pytest.mark.filterwarnings("ignore:Undefined values")
def test_what_is_left_out_is_told(ds: xr.Dataset) -> None:
    with pytest.warns(xj.DroppedWarning, match="units are left out"):
        xj.panel_dependence(ds)
    with pytest.warns(xj.DroppedWarning, match="units are left out"):
        xj.panel_geometry(ds)


def test_the_room_counts_chunks_alike() -> None:
    rng = np.random.default_rng(2)
    judges, gold = rng.integers(-1, 2, (50, 3)), rng.integers(-1, 2, 50)
    parts = [panel.joint_error_counts(judges[cut], gold[cut]) for cut in (slice(0, 20), slice(20, 50))]
    whole = panel.joint_errors(judges, gold)
    n, all_wrong, wrong = (np.sum(counts, axis=0) for counts in zip(*parts, strict=True))
    assert (int(n), int(all_wrong)) == (int(whole.n_items), int(whole.n_all_wrong))
    assert panel.expected_all_wrong(n, wrong) == pytest.approx(float(whole.expected), abs=1e-12)
    assert np.isnan(panel.expected_all_wrong(0, [0, 0]))

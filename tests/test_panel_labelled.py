"""Effective sizes, curves and selection of panels on labelled data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from labels import dataset, random_codes
from panel_tasks import TASKS, published, quiet
from shared import needs_shared, oracle

import xjudge as xj
from xjudge.statistics import panel

MICRO = xj.Protocol(aggregate="micro")
SIZES = ("participation_ratio", "nu_h", "nu_mse", "nu_mse_limit", "n_eff", "gamma_co")
NOMINAL = xj.Scale.nominal(["a", "b", "c"])


def size(data: xr.Dataset, **options: Any) -> xr.Dataset:
    return quiet(xj.effective_size, data, **{"interval": None, **options})


@pytest.fixture
def ds() -> xr.Dataset:
    codes = random_codes(3, (90, 6, 2), 3)
    codes[::2, 4] = codes[::2, 3]  # judges that share errors
    return dataset(
        codes, ["human"] * 3 + ["judge"] * 3, scale=NOMINAL, system=["a", "b", "c"] * 30, n=list(range(90))
    )


def units(ds: xr.Dataset) -> tuple[Any, Any]:
    """Codes of judges (item, criterion, judge) and human counts (item, criterion, category)."""
    labels = ds["label"].transpose("item", "criterion", "rater").values.astype(int)
    human = ds["role"].values == "human"
    counts = (labels[..., human, None] == np.arange(3)).sum(2)
    return np.where(labels >= 0, labels, -1)[..., ~human], counts


# ------------------------------------------------------------------------------------------- published labels


@needs_shared
@pytest.mark.parametrize("task", TASKS)
def test_effective_sizes_on_published_labels(task: str) -> None:
    right = oracle("effective_size")[task]
    found = size(published(task))
    names = {
        "participation_ratio": "PR",
        "mean_squared_correlation": "q_bar",
        "distributional_error": "error",
        "human_variance": "J",
        "nu_mse": "nu_mse",
        "finite_n_delta": "delta",
        "nu_h": "nu_h_analytic",
        "mean_error_correlation": "phi_bar",
        "n_eff": "n_eff",
        "gamma_co": "gamma_co",
        "mean_residual_sq": "mu2",
        "mean_member_variance": "v_bar",
        "mean_member_correlation": "rho_bar",
        "nu_mse_limit": "nu_inf",
    }
    for ours, theirs in names.items():
        assert float(found[ours]) == pytest.approx(right[theirs], abs=1e-10), ours
    assert int(found["n_items"]) == right["n_items"]
    assert int(found["n_gold_ties"]) == right["gold_ties"]
    ordered = found.sel(rater=right["judges"])
    np.testing.assert_allclose(ordered["member_energy"], right["member_energy"], atol=1e-10)
    np.testing.assert_allclose(ordered["member_accuracy"], right["judge_accuracy_vs_mode"], atol=1e-10)
    few = right["finite_human"]
    assert float(found["human_variance_corrected"]) == pytest.approx(few["J_unbiased"], abs=1e-10)
    assert float(found["distributional_error_corrected"]) == pytest.approx(few["error_corrected"], abs=1e-10)
    assert float(found["nu_mse_corrected"]) == pytest.approx(few["nu_mse_corrected"], abs=1e-10)


@needs_shared
@pytest.mark.parametrize("task", TASKS)
def test_gold_of_items_without_a_tie(task: str) -> None:
    right = oracle("effective_size")[task]["unique_mode_only"]
    found = size(published(task), gold="tie_free")
    assert float(found["mean_error_correlation"]) == pytest.approx(right["phi_bar"], abs=1e-10)
    assert float(found["n_eff"]) == pytest.approx(right["n_eff"], abs=1e-10)


# -------------------------------------------------------------------------------------- the twin and the room


def same(found: xr.Dataset, right: panel.EffectiveSize) -> None:
    for name, value in right.values.items():
        if name in ("n_items", "n_dropped"):
            assert int(found[name]) == value
        else:
            np.testing.assert_allclose(found[name], value, rtol=1e-12, atol=1e-14, err_msg=name)


def room(judges: Any, counts: Any, **options: Any) -> panel.EffectiveSize:
    h, n_humans = panel.human_distribution(counts)
    gold = np.where(n_humans > 0, panel.gold_mode(counts)[0], -1)
    return panel.effective_size(panel.panel_sums(judges, h, gold, n_humans=n_humans, **options))


def test_it_is_the_room_on_protocol_codes(ds: xr.Dataset) -> None:
    judges, counts = units(ds)
    found = size(ds)
    assert found["nu_h"].dims == ("criterion",)
    for place in range(2):
        same(found.isel(criterion=place), room(judges[:, place], counts[:, place]))
    same(size(ds, protocol=MICRO), room(judges.reshape(-1, 3), counts.reshape(-1, 3)))
    same(
        size(ds, protocol=MICRO, incomplete="pairwise"),
        room(judges.reshape(-1, 3), counts.reshape(-1, 3), incomplete="pairwise"),
    )


def test_from_plain_loops(ds: xr.Dataset) -> None:
    """The definitions of MATH.md section 7, item by item."""
    judges, counts = units(ds)
    gram, J, s, n = np.zeros((3, 3)), 0.0, 0.0, 0
    for item in range(90):
        codes, human = judges[item, 0], counts[item, 0]
        if human.sum() == 0 or (codes < 0).any():
            continue
        h = human / human.sum()
        r = np.eye(3)[codes] - h
        gram += r @ r.T
        J += 1 - (h**2).sum()
        s += (h**2).sum() - 2 * (h**3).sum() + (h**2).sum() ** 2
        n += 1
    root = np.sqrt(np.diag(gram))
    ratio = 9 / ((gram / np.outer(root, root)) ** 2).sum()
    delta = s / J**2
    found = size(ds).isel(criterion=0)
    assert int(found["n_items"]) == n
    assert int(found["n_dropped"]) == 90 - n
    assert float(found["participation_ratio"]) == pytest.approx(ratio, rel=1e-12)
    assert float(found["finite_n_delta"]) == pytest.approx(delta, rel=1e-12)
    assert float(found["nu_h"]) == pytest.approx(ratio * (1 - delta) / (1 - ratio * delta), rel=1e-12)
    assert float(found["nu_mse"]) == pytest.approx(J / (gram.sum() / 9), rel=1e-12)
    np.testing.assert_allclose(found["member_energy"], np.diag(gram) / n, rtol=1e-12)


def test_dims_and_names(ds: xr.Dataset) -> None:
    found = quiet(xj.effective_size, ds, by="system", n_resamples=50)
    assert found["nu_h"].dims == ("system", "criterion")
    assert found["member_energy"].dims == ("system", "rater", "criterion")
    assert found["nu_h_interval"].dims == ("system", "criterion", "bound")
    assert found["rater"].values.tolist() == ["j1", "j2", "j3"]
    assert found["channel"].values.tolist() == ["a | b", "a, b | c"]
    frame = xj.tidy(found)
    assert len(frame) == 3 * 2
    assert {"system", "criterion", "nu_h", "nu_h_lower", "nu_h_reason", "n_items"} <= set(frame.columns)


def test_slices_and_populations(ds: xr.Dataset) -> None:
    part = ds.isel(item=slice(1, None, 3))
    alone = size(part, protocol=MICRO, interval="percentile", n_resamples=40)
    options: dict[str, Any] = {"interval": "percentile", "n_resamples": 40}
    sliced = size(ds, protocol=MICRO, by="system", **options).sel(system="b", drop=True)
    chosen = xj.Protocol(population={"system": "b"}, aggregate="micro")
    for other in (sliced, size(ds, protocol=chosen, **options)):
        xr.testing.assert_equal(other, alone)


def test_protocols_map_labels_on_both_sides(ds: xr.Dataset) -> None:
    labels = ds["label"].transpose("item", "criterion", "rater").values.astype(int)
    retained = np.where(labels == -2, 3, np.where(labels >= 0, labels, -1))[:, 0]
    counts = (retained[:, :3, None] == np.arange(4)).sum(1)
    found = size(ds, protocol=xj.Protocol(ca="category")).isel(criterion=0)
    same(found, room(retained[:, 3:], counts))
    merged = np.where(labels == 2, 1, np.where(labels >= 0, labels, -1))[:, 0]
    counts = (merged[:, :3, None] == np.arange(2)).sum(1)
    protocol = xj.Protocol(scale_map=xj.merge({"a": "x", "b": "y", "c": "y"}))
    same(size(ds, protocol=protocol).isel(criterion=0), room(merged[:, 3:], counts))


def test_item_verdicts(ds: xr.Dataset) -> None:
    two = dataset(random_codes(2, (80, 5, 2), 2), ["human"] * 3 + ["judge"] * 2)
    labels = two["label"].transpose("item", "rater", "criterion").values
    verdicts = np.where((labels == 1).all(2), 1, np.where((labels == 0).any(2), 0, -1))
    found = size(two, protocol=xj.Protocol(aggregate="item", item_rule=xj.all_positive()))
    same(found, room(verdicts[:, 3:], (verdicts[:, :3, None] == np.arange(2)).sum(1)))


# --------------------------------------------------------------------------------------------- the human side


def test_counts_are_what_identified_humans_said(ds: xr.Dataset) -> None:
    _, counts = units(ds)
    anonymous = ds.isel(rater=slice(3, None)).assign(count=(("item", "criterion", "category"), counts))
    xr.testing.assert_equal(size(anonymous, human="count"), size(ds))
    with pytest.raises(xj.OverlapError, match="human='count'"):
        size(anonymous)
    protocol = xj.Protocol(scale_map=xj.one_of("b"))
    xr.testing.assert_equal(size(anonymous, human="count", protocol=protocol), size(ds, protocol=protocol))


def test_given_shares(ds: xr.Dataset) -> None:
    _, counts = units(ds)
    shares = panel.human_distribution(counts)[0]
    given = ds.assign(crowd=(("item", "criterion", "category"), shares))
    found, right = size(given, human="crowd"), size(ds)
    for name in (*SIZES, "distributional_error", "n_items", "n_dropped", "n_gold_ties", "member_accuracy"):
        xr.testing.assert_allclose(found[name], right[name], rtol=1e-12)
    assert (found["nu_mse_corrected_reason"] == "an item without two known human labels").all()
    every = given.assign(crowd=given["crowd"].isel(criterion=0, drop=True))  # the same for every criterion
    judges, _ = units(ds)
    sums = panel.panel_sums(judges[:, 1], shares[:, 0])
    assert float(size(every, human="crowd")["nu_mse"].isel(criterion=1)) == pytest.approx(
        float(panel.effective_size(sums).values["nu_mse"]), rel=1e-12
    )
    with pytest.raises(xj.StructureError, match="sum to 1"):
        size(given.assign(crowd=given["crowd"] * 2), human="crowd")


def test_counts_join_judges(ds: xr.Dataset) -> None:
    frame = pd.DataFrame({"item": ["p", "q", "r"], "no": [2, 0, 1], "yes": [1, 3, 2]})
    answers = pd.DataFrame(
        {
            "item": ["p", "q", "r"] * 2,
            "rater": ["m"] * 3 + ["n"] * 3,
            "label": ["no", "yes", "no", "yes", "yes", "yes"],
        }
    )
    scale = xj.Scale.binary("no", "yes")
    joined = xj.from_counts(frame, scale=scale).judge.join(answers, judges=["m", "n"], scale=scale)
    found = size(joined, human="count")
    same(found, room([[0, 1], [1, 1], [0, 1]], [[2, 1], [0, 3], [1, 2]]))


def test_gold_given_by_a_variable_and_by_a_rater(ds: xr.Dataset) -> None:
    one = ds.isel(criterion=0, drop=True)
    words = np.array(["a", "b", "c", None], dtype=object)
    codes = one["label"].sel(rater="h1").values
    said = words[np.where(codes >= 0, codes, 3)]
    by_rater, by_value = size(one, gold="h1"), size(one.assign(truth=("item", said)), gold="truth")
    xr.testing.assert_equal(by_rater, by_value)
    judges, counts = units(ds)
    h = panel.human_distribution(counts[:, 0])[0]
    right = panel.effective_size(panel.panel_sums(judges[:, 0], h, np.where(codes >= 0, codes, -1)))
    assert float(by_rater["n_eff"]) == pytest.approx(float(right.values["n_eff"]), rel=1e-12)
    assert int(by_rater["n_gold_ties"]) == 0
    with pytest.raises(xj.VocabularyError, match="'z'"):
        size(one.assign(truth=("item", ["z"] * 90)), gold="truth")


def test_ties_of_gold_go_to_the_first_category_or_are_left_out() -> None:
    # one item where two humans disagree: first category "UNMET" under "mode", no gold under "tie_free"
    ds = dataset(
        [[0, 1, 0, 1], [0, 0, 0, 1], [1, 1, 0, 1], [1, 1, 1, 0]],
        ["human"] * 2 + ["judge"] * 2,
        criterion=True,
    )
    mode, free = size(ds), size(ds, gold="tie_free")
    assert int(mode["n_gold_ties"]) == int(free["n_gold_ties"]) == 1
    assert mode["member_accuracy"].values.tolist() == [0.75, 0.25]
    np.testing.assert_allclose(free["member_accuracy"], [2 / 3, 1 / 3])
    assert int(free["n_items"]) == 4


# --------------------------------------------------------------------------------- choosing, backends, passes


def test_members_chosen_by_a_boolean_array(ds: xr.Dataset) -> None:
    member = xr.DataArray([True, False, True], dims="rater", coords={"rater": ["j1", "j2", "j3"]})
    chosen = size(ds, judges=member)
    assert chosen["rater"].values.tolist() == ["j1", "j3"]
    xr.testing.assert_equal(chosen, size(ds, judges=["j1", "j3"]))
    np.testing.assert_array_equal(chosen["nu_h"], quiet(ds.judge.effective_size, judges=member)["nu_h"])


CALLS: list[dict[str, Any]] = [
    {"interval": None},
    {"interval": None, "protocol": MICRO, "incomplete": "pairwise"},
    {"protocol": MICRO, "n_resamples": 30},
    {"by": "system", "n_resamples": 20},
    {"interval": None, "anchor": xj.partial(1, n_replicates=4), "n_curves": 2, "by": "system"},
    {"interval": None, "human": "count", "gold": "truth"},
]


def _with_counts(ds: xr.Dataset) -> xr.Dataset:
    _, counts = units(ds)
    truth = np.array(["a", "b", "c"])[np.arange(180).reshape(90, 2) % 3]
    return ds.assign(count=(("item", "criterion", "category"), counts), truth=(("item", "criterion"), truth))


@pytest.mark.filterwarnings("ignore:Labels are chunked")
@pytest.mark.parametrize("options", CALLS)
def test_every_backend_gives_the_same(ds: xr.Dataset, backend: Any, options: dict[str, Any]) -> None:
    data = _with_counts(ds)
    found = quiet(xj.effective_size, backend(data), **options)
    right = quiet(xj.effective_size, data, **options)
    assert found.attrs == right.attrs
    xr.testing.assert_allclose(found, right, rtol=1e-12, atol=1e-14)
    for name in right.data_vars:
        if str(name).endswith(("_reason", "_interval", "_se", "_undefined")) or name == "reference_ratio":
            xr.testing.assert_equal(found[name], right[name])


@pytest.mark.parametrize("options", CALLS)
def test_one_compute(ds: xr.Dataset, count_computes: Any, options: dict[str, Any]) -> None:
    lazy = _with_counts(ds).chunk(item=(50, 7, 33))
    lazy = lazy.assign_coords({name: c.compute() for name, c in lazy.coords.items()})
    with count_computes() as computes:
        later = quiet(xj.effective_size, lazy, compute=False, **options)
        assert computes.n == 0
        now = quiet(xj.effective_size, lazy, **options)
        assert computes.n == 1
    xr.testing.assert_identical(later.compute(), now)


REBUILT: list[tuple[Any, dict[str, Any]]] = [
    (xj.effective_size, {"interval": None, "protocol": MICRO, "incomplete": "pairwise"}),
    (xj.effective_size, {"n_resamples": 20, "by": "system", "judges": ["j1", "j3"]}),
    (xj.effective_size, {"interval": None, "anchor": xj.partial(1, n_replicates=3), "grid": [1, 2, 9]}),
    (xj.effective_size, {"interval": None, "human": "count", "gold": "truth"}),
    (xj.panel_vote, {"n_resamples": 20, "aggregate": ["soft", "weighted"], "folds": 3}),
]


@pytest.mark.parametrize(("verb", "options"), REBUILT)
def test_a_result_is_rebuilt_from_its_attributes(
    ds: xr.Dataset, tmp_path: Any, verb: Any, options: dict[str, Any]
) -> None:
    data = _with_counts(ds)
    found = quiet(verb, data, **options)
    xr.testing.assert_identical(quiet(xj.rebuild, found, data), found)
    found.to_netcdf(tmp_path / "result.nc", engine="h5netcdf")
    with xr.open_dataset(tmp_path / "result.nc", engine="h5netcdf") as file:
        again = file.load()
    assert quiet(xj.rebuild, again, data).equals(found)


def test_the_order_of_the_items_does_not_matter(ds: xr.Dataset) -> None:
    order = np.random.default_rng(0).permutation(90)
    options: dict[str, Any] = {"interval": "percentile", "n_resamples": 30, "protocol": MICRO}
    one, other = size(ds, **options), size(ds.isel(item=order), **options)
    xr.testing.assert_equal(one["nu_h_interval"], other["nu_h_interval"])


# -------------------------------------------------------------------------------------------------- intervals


def test_replicates_are_the_sizes_of_resampled_items(ds: xr.Dataset) -> None:
    """Items drawn one by one, each distinct: weights of the resample are the counts of the draw."""
    one = ds.isel(criterion=0, drop=True)
    judges, counts = units(ds)
    keep = (judges[:, 0] >= 0).all(1) & (counts[:, 0].sum(1) > 0)
    judges, counts = judges[keep, 0], counts[keep, 0]
    rng = np.random.default_rng(5)
    values = []
    for _ in range(500):
        drawn = rng.multinomial(len(judges), np.full(len(judges), 1 / len(judges)))
        h, n_humans = panel.human_distribution(counts)
        gold = panel.gold_mode(counts)[0]
        sums = panel.panel_sums(judges, h, gold, n_humans=n_humans, weights=drawn[None])
        values.append(panel.effective_size(sums).values["nu_mse"][0])
    found = size(one, interval="percentile", n_resamples=2000)
    assert float(found["nu_mse_se"]) == pytest.approx(np.std(values), rel=0.1)
    lower, upper = found["nu_mse_interval"].values
    assert lower == pytest.approx(np.quantile(values, 0.025), abs=0.25 * np.std(values))
    assert upper == pytest.approx(np.quantile(values, 0.975), abs=0.25 * np.std(values))
    assert lower < float(found["nu_mse"]) < upper
    assert float(found["nu_mse_undefined"]) < 0.001


def _rarely_split(rng: np.random.Generator, n: int) -> xr.Dataset:
    """Humans who seldom disagree, and judges who err on other items too, partly together."""
    truth, hard = rng.integers(0, 2, n), rng.random(n) < 0.08
    humans = np.where(rng.random((n, 3)) < np.where(hard, 0.35, 0.01)[:, None], 1, 0) ^ truth[:, None]
    shared = (rng.random(n) < 0.06)[:, None] & (rng.random((n, 4)) < 0.7)
    judges = ((rng.random((n, 4)) < 0.12) | shared).astype(int) ^ truth[:, None]
    return dataset(np.concatenate([humans, judges], axis=1), ["human"] * 3 + ["judge"] * 4)


def test_intervals_cover_where_humans_seldom_disagree() -> None:
    """Percentiles of nu_h covered 54% here: resamples double the delta but not the panel's noise.

    benchmarks/panel_coverage.py measures the coverage of more designs with less Monte Carlo error.
    """
    names = ("nu_h", "nu_mse", "nu_mse_limit", "gamma_co", "n_eff", "distributional_error")
    endless = size(_rarely_split(np.random.default_rng(99), 400_000))
    truth = {name: float(endless[name]) for name in names}
    rng = np.random.default_rng(1)
    covered: dict[str, list[bool]] = {name: [] for name in names}
    for _ in range(60):
        found = size(_rarely_split(rng, 600), interval="auto", n_resamples=200)
        for name in names:
            lower, upper = found[f"{name}_interval"].values.ravel()
            assert lower < upper
            covered[name].append(lower <= truth[name] <= upper)
    assert {name: bool(np.mean(held) > 0.86) for name, held in covered.items()} == dict.fromkeys(names, True)


@pytest.mark.parametrize("m", [2, 12])
def test_the_interval_of_simulated_humans_covers_their_number(m: int) -> None:
    rng = np.random.default_rng(m)
    covered, sizes = [], []
    for _ in range(20):
        h = rng.dirichlet([1.0, 1.0, 1.0], 200)
        judges = (rng.random((200, m, 1)) >= np.cumsum(h, axis=1)[:, None, :-1]).sum(-1)
        ds = dataset(judges, ["judge"] * m, scale=NOMINAL).assign(crowd=(("item", "category"), h))
        found = size(ds, human="crowd", interval="auto", n_resamples=150)
        sizes.append(float(found["nu_h"]))
        lower, upper = found["nu_h_interval"].values
        covered.append(lower <= m <= upper)
    assert np.mean(covered) >= 0.85
    assert abs(np.mean(sizes) - m) < 4 * np.std(sizes, ddof=1) / np.sqrt(20)


def test_clusters_are_units_of_their_own() -> None:
    """Standard errors from clusters drawn one by one; twins in a cluster are worth one of them."""
    rng = np.random.default_rng(4)
    codes = abs(random_codes(4, (120, 6), 3)) % 3
    codes[:, 3:] = np.where(rng.random((120, 3)) < 0.5, codes[:, :3], codes[:, 3:])
    roles = ["human"] * 3 + ["judge"] * 3
    cluster = np.repeat(np.arange(40), 3)
    ds = dataset(codes, roles, scale=NOMINAL, cluster=cluster)
    found = size(ds, interval="auto", resample="clusters", n_resamples=2000)
    judges, counts = units(ds.expand_dims("criterion", -1))
    values = []
    for _ in range(600):
        rows = (rng.integers(0, 40, 40)[:, None] * 3 + np.arange(3)).ravel()
        values.append(float(room(judges[rows, 0], counts[rows, 0]).values["nu_mse"]))
    assert float(found["nu_mse_se"]) == pytest.approx(np.std(values), rel=0.12)
    lower, upper = found["nu_mse_interval"].values
    assert lower < float(found["nu_mse"]) < upper

    twins = dataset(np.repeat(codes, 2, axis=0), roles, scale=NOMINAL, cluster=np.repeat(np.arange(120), 2))
    alone = size(dataset(codes, roles, scale=NOMINAL), interval="auto")
    together = size(twins, interval="auto", resample="clusters")
    for name in ("participation_ratio", "nu_mse", "n_eff", "gamma_co"):
        assert float(together[f"{name}_se"]) == pytest.approx(float(alone[f"{name}_se"]), rel=0.1)
        apart = size(twins, interval="auto")[f"{name}_se"]
        assert float(apart) == pytest.approx(float(alone[f"{name}_se"]) / np.sqrt(2), rel=0.1)


@pytest.mark.parametrize("resample", ["items", "clusters", "decisions"])
def test_the_order_of_items_does_not_move_an_interval(ds: xr.Dataset, resample: str) -> None:
    data = ds.assign_coords(cluster=("item", np.arange(90) % 13))
    order = np.random.default_rng(0).permutation(90)
    options: dict[str, Any] = {"interval": "auto", "resample": resample, "n_resamples": 40, "protocol": MICRO}
    one, other = size(data, **options), size(data.isel(item=order), **options)
    for name in (*SIZES, "nu_mse_corrected", "mean_squared_correlation"):
        xr.testing.assert_equal(one[f"{name}_interval"], other[f"{name}_interval"])


def test_one_unit_has_no_interval() -> None:
    codes = abs(random_codes(1, (30, 5), 2)) % 2
    ds = dataset(codes, ["human"] * 3 + ["judge"] * 2, cluster=["a"] * 30)
    found = size(ds, interval="studentized", resample="clusters", n_resamples=20)
    assert np.isnan(found["nu_mse_interval"]).all()
    assert np.isnan(size(ds.isel(item=[0]), interval="studentized")["nu_mse_interval"]).all()


def test_percentiles_on_request_and_where_items_differ(ds: xr.Dataset) -> None:
    options: dict[str, Any] = {"protocol": MICRO, "n_resamples": 60}
    auto = size(ds, interval="auto", **options)
    xr.testing.assert_equal(
        auto["nu_mse_interval"], size(ds, interval="studentized", **options)["nu_mse_interval"]
    )
    plain = size(ds, interval="percentile", **options)
    assert not plain["nu_mse_interval"].equals(auto["nu_mse_interval"])
    pairwise = size(ds, interval="auto", incomplete="pairwise", **options)
    xr.testing.assert_equal(
        pairwise["gamma_co_interval"],
        size(ds, interval="percentile", incomplete="pairwise", **options)["gamma_co_interval"],
    )


def test_an_end_that_no_size_is_beyond_is_infinite() -> None:
    rng = np.random.default_rng(0)
    p = rng.uniform(0.1, 0.9, 10)
    judges = (rng.random((10, 40)) < p[:, None]).astype(int)
    ds = dataset(judges, ["judge"] * 40).assign(crowd=(("item", "category"), np.stack([1 - p, p], axis=1)))
    found = size(ds, human="crowd", interval="percentile", n_resamples=200)
    lower, upper = found["nu_h_interval"].values.ravel()
    assert 0 < lower < 40
    assert upper == np.inf


def test_decisions_are_items_of_their_own(ds: xr.Dataset) -> None:
    flat = ds["label"].transpose("item", "criterion", "rater").values.reshape(-1, 6)
    alone = dataset(flat, ["human"] * 3 + ["judge"] * 3, scale=NOMINAL)
    options: dict[str, Any] = {"interval": "percentile", "n_resamples": 50}
    xr.testing.assert_equal(size(ds, protocol=MICRO, resample="decisions", **options), size(alone, **options))


def test_an_interval_that_takes_long_is_left_out_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xjudge.labelled._panel_resample._MOST_PRODUCTS", 1e3)
    ds = dataset(abs(random_codes(1, (40, 4), 2)) % 2, ["human"] * 2 + ["judge"] * 2)
    with pytest.warns(xj.XJudgeWarning, match="have no intervals"):
        found = xj.effective_size(ds)
    assert np.isnan(found["nu_h_interval"]).all()
    assert np.isfinite(size(ds, interval="percentile", n_resamples=9)["nu_mse_interval"]).all()


# --------------------------------------------------------------------------------------------- awkward inputs


def reasons(found: xr.Dataset) -> dict[str, str]:
    return {name: str(found[f"{name}_reason"].values.ravel()[0]) for name in SIZES}


def test_one_judge() -> None:
    ds = dataset(abs(random_codes(1, (60, 4), 2)) % 2, ["human"] * 3 + ["judge"])
    found = size(ds)
    assert float(found["participation_ratio"]) == 1.0
    assert float(found["n_eff"]) == 1.0
    assert reasons(found)["nu_mse_limit"] == "a panel of one judge"
    assert str(found["mean_squared_correlation_reason"].values) == "a panel of one judge"
    assert np.isnan(found["nu_mse_limit"])


def test_a_judge_identical_to_another_adds_nothing() -> None:
    codes = abs(random_codes(1, (60, 5), 2)) % 2
    codes[:, 4] = codes[:, 3]
    found = size(dataset(codes, ["human"] * 3 + ["judge"] * 2))
    assert float(found["participation_ratio"]) == pytest.approx(1.0, abs=1e-12)
    assert float(found["n_eff"]) == pytest.approx(1.0, abs=1e-12)
    assert float(found["gamma_co"]) == pytest.approx(1.0, abs=1e-12)


def test_constant_errors_and_a_judge_that_is_the_humans() -> None:
    rng = np.random.default_rng(0)
    human = rng.integers(0, 2, 50)
    codes = np.stack([human, human, 1 - human, rng.integers(0, 2, 50)], axis=1)
    always_wrong = size(dataset(codes, ["human", "human", "judge", "judge"]))
    assert reasons(always_wrong)["n_eff"] == "a judge with constant errors"
    assert reasons(always_wrong)["nu_mse"] == "humans agree on every item"
    exact = size(dataset(codes[:, [0, 1, 0, 3]], ["human", "human", "judge", "judge"]))
    assert reasons(exact)["participation_ratio"] == "a member without residual energy"
    assert np.isnan(exact["participation_ratio"])


def test_no_item_is_left() -> None:
    rows = [[0, -1, 1], [-1, 1, 0], [1, -1, -1]]  # the members never answer the same item with a human
    found = quiet(xj.effective_size, dataset(rows, ["human", "judge", "judge"]), n_resamples=5)
    assert int(found["n_items"]) == 0
    assert int(found["n_dropped"]) == 3
    assert set(reasons(found).values()) == {"no items"}
    assert np.isnan(found["nu_h_interval"]).all()
    curve = size(dataset(rows, ["human", "judge", "judge"]), method="monte_carlo", n_curves=2)
    assert reasons(curve)["nu_h"] == "no items"


@pytest.mark.filterwarnings("ignore:Undefined values", "ignore:1 of 4 units")
def test_an_item_without_a_human_label_is_dropped_and_counted() -> None:
    rows = [[0, 1, 0, 1], [-1, -1, 0, 1], [0, 0, 1, -2], [1, 0, 1, 1]]
    with pytest.warns(xj.DroppedWarning, match="2 of 4 units are left out"):
        found = xj.effective_size(dataset(rows, ["human", "human", "judge", "judge"]), interval=None)
    assert int(found["n_items"]) == 2
    with pytest.warns(xj.ProtocolWarning, match="rest on different items"):
        pairwise = xj.effective_size(
            dataset(rows, ["human", "human", "judge", "judge"]), interval=None, incomplete="pairwise"
        )
    assert int(pairwise["n_items"]) == 3
    assert int(pairwise["n_dropped"]) == 1


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda ds: ds.isel(rater=[0, 1, 2]), {}, "at least 1 judge"),
        (lambda ds: ds.isel(rater=[3, 4]), {}, "needs identified humans"),
        (lambda ds: ds, {"human": "count"}, "no variable 'count'"),
        (lambda ds: ds, {"human": "label"}, "it should be item, category, criterion"),
        (lambda ds: ds, {"gold": "truth"}, "the dataset has no 'truth'"),
        (lambda ds: ds, {"gold": "role"}, "it should be item, criterion"),
        (lambda ds: ds, {"incomplete": "ignore"}, "'drop' or 'pairwise'"),
        (lambda ds: ds, {"method": "exact"}, "'analytic' or 'monte_carlo'"),
        (lambda ds: ds, {"anchor": "median"}, r"xj.partial\(m\)"),
        (lambda ds: ds, {"anchor": xj.partial(9)}, "draws 9 human labels of each item"),
        (lambda ds: ds, {"anchor": "mode", "incomplete": "pairwise"}, "incomplete='drop'"),
        (lambda ds: ds, {"method": "monte_carlo", "grid": [4, 2]}, "increasing sizes"),
        (lambda ds: ds, {"method": "monte_carlo", "n_curves": 0}, "`n_curves` must be"),
        (lambda ds: ds, {"interval": "bca"}, "resampled intervals"),
        (lambda ds: ds, {"interval": "auto", "resample": "criteria"}, "resamples 'items', 'decisions'"),
        (
            lambda ds: ds,
            {"interval": "auto", "resample": "clusters"},
            "needs a coordinate `cluster",
        ),
        (lambda ds: ds, {"protocol": xj.Protocol(aggregate="macro")}, "pools criteria"),
        (
            lambda ds: _with_counts(ds),
            {
                "human": "count",
                "protocol": xj.Protocol(
                    scale_map=xj.one_of("a"), aggregate="item", item_rule=xj.all_positive()
                ),
            },
            "says nothing about item verdicts",
        ),
        (
            lambda ds: ds.assign_coords(identity=("rater", ["named"] * 5 + ["positional"])),
            {},
            "'j3' is a position in a list",
        ),
    ],
)
def test_impossible_requests(ds: xr.Dataset, change: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(xj.XJudgeError, match=message):
        size(change(ds), **options)


# ---------------------------------------------------------------------------------------------------- anchors


def test_partial_is_a_frozen_value() -> None:
    assert xj.partial(3) == xj.partial(3, n_replicates=200)
    assert len({xj.partial(3), xj.partial(3), xj.partial(4)}) == 2
    assert repr(xj.partial(2, n_replicates=7)) == "partial(2, n_replicates=7)"
    for wrong in (0, 1.5, True):
        with pytest.raises(xj.ProtocolError, match="whole numbers of at least 1"):
            xj.partial(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("anchor", ["distribution", "mode", "uniform", xj.partial(2, n_replicates=6)])
def test_anchors_are_those_of_the_room(anchor: Any) -> None:
    codes = abs(random_codes(7, (80, 8), 3)) % 3
    codes[:, 5:] = np.where(np.arange(80)[:, None] % 3 > 0, codes[:, :1], codes[:, 5:])
    ds = dataset(codes, ["human"] * 4 + ["judge"] * 4, scale=NOMINAL)
    found = size(ds, anchor=anchor, method="monte_carlo", n_curves=4, grid=range(1, 20))
    counts = (codes[:, :4, None] == np.arange(3)).sum(1)
    h = panel.human_distribution(counts)[0]
    given = {"mode": panel.anchor_mode(h), "uniform": panel.anchor_uniform(h)}.get(str(anchor))
    if not isinstance(anchor, str):
        given = panel.anchor_partial(counts, 2, 6)
    right = panel.anchored_size(codes[:, 4:], h, anchor=given, grid=range(1, 20), n_replicates=4)
    np.testing.assert_allclose(found["nu_h"], right.value, rtol=1e-12)
    ratio = np.median(right.participation_ratio)
    assert float(found["participation_ratio"]) == pytest.approx(ratio, rel=1e-12)
    assert 4 / (1 + 3 * float(found["mean_squared_correlation"])) == pytest.approx(ratio, rel=1e-12)
    assert found["reference_ratio"].dims == ("size",)
    if not isinstance(anchor, str):
        np.testing.assert_allclose(found["nu_h_anchor_interval"], right.interval, rtol=1e-12)
    # sizes that do not subtract the anchor stay
    np.testing.assert_array_equal(found["nu_mse"], size(ds)["nu_mse"])


def test_beyond_the_curve_is_a_reason() -> None:
    codes = abs(random_codes(1, (200, 7), 2)) % 2
    ds = dataset(codes, ["human"] * 3 + ["judge"] * 4)
    beyond = size(ds, method="monte_carlo", grid=[1, 2], n_curves=3)
    assert np.isnan(beyond["nu_h"])
    assert reasons(beyond)["nu_h"] == "beyond the last grid point"
    below = size(ds, method="monte_carlo", grid=[30, 40], n_curves=3)
    assert reasons(below)["nu_h"] == "<= first grid point"


# ------------------------------------------------------------------------------------------ published moments


def test_constructions_of_the_paper() -> None:
    """Panels [a, a, b, b] and [a, -a, b, -b]: PR 2, energies 1/2, errors 1/4 and 0."""
    a, b = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    half = np.tile([0, 1], (4, 1))  # two humans who split on every item
    for members, error in (([a, a, b, b], 0.25), ([a, 1 - a, b, 1 - b], 0.0)):
        codes = np.concatenate([half, np.stack(members, axis=1)], axis=1)
        found = size(dataset(codes, ["human"] * 2 + ["judge"] * 4))
        assert float(found["participation_ratio"]) == pytest.approx(2.0, abs=1e-12)
        assert found["member_energy"].values.tolist() == [0.5] * 4
        assert float(found["distributional_error"]) == pytest.approx(error, abs=1e-12)
        assert reasons(found)["nu_mse"] == ("ok" if error else "distributional error not positive")


def test_simulated_humans_are_worth_their_number() -> None:
    """m judges who draw their labels from the human distribution have nu_H near m."""
    rng = np.random.default_rng(1)
    n, m = 4000, 6
    p = rng.uniform(0.1, 0.9, n)
    judges = (rng.random((n, m)) < p[:, None]).astype(int)
    ds = dataset(judges, ["judge"] * m).assign(crowd=(("item", "category"), np.stack([1 - p, p], axis=1)))
    found = size(ds, human="crowd", interval="percentile", n_resamples=200)
    assert float(found["nu_h"]) == pytest.approx(m, rel=0.05)
    assert float(found["nu_mse"]) == pytest.approx(m, rel=0.1)
    lower, upper = found["nu_mse_interval"].values
    assert lower < m < upper

"""Curves and selection of panels on labelled data."""

from __future__ import annotations

import warnings
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import xarray as xr
from labels import dataset

import xjudge as xj
from xjudge.statistics import panel

MICRO = xj.Protocol(aggregate="micro")
NOMINAL = xj.Scale.nominal(["a", "b", "c"])


def quiet(verb: Any, *arguments: Any, **options: Any) -> xr.Dataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XJudgeWarning)
        return verb(*arguments, **options)


@pytest.fixture(scope="module")
def ds() -> xr.Dataset:
    """Three humans and seven judges of different skill who share errors, two criteria; a few gaps."""
    rng = np.random.default_rng(8)
    truth = rng.integers(0, 3, (90, 1, 2))
    shared = rng.integers(0, 3, (90, 1, 2))
    said = [np.where(rng.random((90, 3, 2)) < 0.8, truth, rng.integers(0, 3, (90, 3, 2)))]
    for place in range(7):
        wrong = np.where(rng.random((90, 1, 2)) < 0.6, shared, rng.integers(0, 3, (90, 1, 2)))
        said.append(np.where(rng.random((90, 1, 2)) < 0.5 + 0.04 * place, truth, wrong))
    codes = np.concatenate(said, axis=1)
    codes[:4, 5] = -2
    codes[4, :3, 0] = -1
    ds = dataset(codes, ["human"] * 3 + ["judge"] * 7, scale=NOMINAL, system=["a", "b"] * 45)
    family = ["", "", "", "f", "f", "g", "g", "h", "h", "i"]
    return ds.assign_coords(family=("rater", family), cost=("rater", [0.0] * 3 + [1, 2, 3, 4, 5, 6, 7]))


def inputs(ds: xr.Dataset, criterion: int) -> tuple[Any, Any, Any]:
    """Judges, human distributions and gold of one criterion, as the room takes them."""
    labels = ds["label"].isel(criterion=criterion).values.astype(int)
    counts = (labels[:, :3, None] == np.arange(3)).sum(1)
    h, n_humans = panel.human_distribution(counts)
    gold = np.where(n_humans > 0, panel.gold_mode(counts)[0], -1)
    return np.where(labels >= 0, labels, -1)[:, 3:], h, gold


# ----------------------------------------------------------------------------------------------- select_panel


def test_selection_is_that_of_the_room(ds: xr.Dataset) -> None:
    found = quiet(xj.select_panel, ds, 3, rule=["A", "D", "E"], search="all", folds=3)
    assert found["member"].dims == ("criterion", "panel", "rater")
    assert found["panel"].values.tolist() == ["S0", "A", "D", "E"]
    for criterion in range(2):
        judges, h, gold = inputs(ds, criterion)
        names = [f"j{n}" for n in range(1, 8)]
        right = panel.select_panel(
            judges, h, gold, 3, rule=["A", "D", "E"], search="all", names=names, folds=3
        )
        one = found.isel(criterion=criterion)
        np.testing.assert_array_equal(one["member"], right.member)
        for name in ("accuracy", "nu_h", "nu_mse", "mean_squared_correlation", "n_eff"):
            np.testing.assert_array_equal(one[name], getattr(right.quantities, name))
        assert int(one["n_panels"]) == right.enumeration.n_panels == 35
        assert int(one["n_panels_dominating"]) == right.enumeration.n_dominating
        front = one["front_member"].values[one["front_accuracy"].notnull().values]
        np.testing.assert_array_equal(front, right.enumeration.front_member)
        np.testing.assert_array_equal(one["fold_member"], right.held_out.member)
        np.testing.assert_array_equal(one["held_out_accuracy"], right.held_out.held_out.accuracy)
        assert int(one["fold_n_items"].sum()) == int(one["n_items"])


def test_front_and_rules_by_brute_force(ds: xr.Dataset) -> None:
    """All 35 panels measured by the verb `effective_size`, and their votes by plain loops."""
    one = ds.isel(criterion=0, drop=True)
    found = quiet(xj.select_panel, one, 3, rule=["A", "D", "E"], search="all")
    judges, _, gold = inputs(ds, 0)
    keep = (judges >= 0).all(1) & (gold >= 0)
    complete = one.isel(item=keep)
    judges, gold = judges[keep], gold[keep]
    measured = {}
    for members in combinations(range(7), 3):
        hits = 0.0
        for votes, right in zip(judges[:, members], gold, strict=True):
            counts = np.bincount(votes, minlength=3)
            best = np.flatnonzero(counts == counts.max())
            hits += (right in best) / len(best)
        size = quiet(xj.effective_size, complete, judges=[f"j{m + 1}" for m in members], interval=None)
        measured[members] = hits / len(gold), float(size["nu_h"]), float(size["distributional_error"])
    single = (judges == gold[:, None]).mean(0)
    s0 = tuple(sorted(np.lexsort((np.arange(7), -single))[:3].tolist()))
    chosen = {
        str(name): tuple(np.flatnonzero(found["member"].sel(panel=name)).tolist())
        for name in found["panel"].values
    }
    assert chosen["S0"] == s0
    better = {m: q for m, q in measured.items() if q[0] > measured[s0][0] + 1e-12}
    others = {m: q for m, q in measured.items() if m != s0}
    assert chosen["A"] == max(better, key=lambda m: better[m][1])
    assert chosen["E"] == min(better, key=lambda m: better[m][2])
    best = max(q[0] for q in others.values())
    assert chosen["D"] == max(
        (m for m, q in others.items() if q[0] > best - 1e-12), key=lambda m: others[m][1]
    )
    for name, members in chosen.items():
        one_panel = found.sel(panel=name)
        assert float(one_panel["accuracy"]) == pytest.approx(measured[members][0], rel=1e-12)
        assert float(one_panel["nu_h"]) == pytest.approx(measured[members][1], rel=1e-10)
        assert float(one_panel["distributional_error"]) == pytest.approx(measured[members][2], rel=1e-10)
    dominating = sum(q[0] > measured[s0][0] + 1e-12 and q[1] > measured[s0][1] for q in others.values())
    assert int(found["n_panels_dominating"]) == dominating
    assert int(found["n_panels_more_accurate"]) == len(better)


def test_the_chosen_panel_is_measured_by_its_members(ds: xr.Dataset) -> None:
    m = quiet(ds.judge.select_panel, 3, rule="D", protocol=MICRO)
    pool = panel.complete_items(*(np.concatenate([inputs(ds, c)[p] for c in range(2)]) for p in range(2)))
    assert int(m["n_items"]) == int(pool.sum())
    member = m["member"].sel(panel="D")
    found = quiet(ds.judge.effective_size, judges=member, protocol=MICRO, interval=None)
    assert found["rater"].values.tolist() == m["rater"].values[member.values].tolist()
    assert found.sizes["rater"] == 3


def test_candidates_within_two_swaps(ds: xr.Dataset) -> None:
    found = quiet(xj.select_panel, ds.isel(criterion=[0]), 3)
    assert found["n_candidates"].values.tolist() == [3 * 4 + 3 * 6]
    assert found["n_one_swap"].values.tolist() == [12]
    assert found["n_two_swaps"].values.tolist() == [18]
    assert int(found["n_swaps"].sel(panel="S0").squeeze()) == 0
    assert "front_member" not in found


def test_constraints_by_name_family_and_cost(ds: xr.Dataset) -> None:
    found = quiet(
        xj.select_panel, ds, 3, rule="D", must_include=["j1"], exclude=["j7"], family_cap=1, budget=11
    )
    member = found["member"].isel(panel=1)
    assert member.sel(rater="j1").all()
    assert not member.sel(rater="j7").any()
    for row in member.transpose("criterion", "rater").values:
        families = found["family"].values[row]
        assert len(set(families.tolist())) == 3
    assert (found["total_cost"].isel(panel=1) <= 11).all()


def test_own_objective(ds: xr.Dataset) -> None:
    def cheap(quantities: panel.PanelQuantities) -> Any:
        return -quantities.cost

    found = quiet(xj.select_panel, ds.isel(criterion=0), 2, rule=[cheap, "A"], search="all")
    assert found["panel"].values.tolist() == ["S0", "cheap", "A"]
    assert found["rater"].values[found["member"].sel(panel="cheap").values].tolist() == ["j1", "j2"]


def test_folds_are_of_items(ds: xr.Dataset) -> None:
    """With criteria pooled, the units of an item are in one fold; given folds are those of the coordinate."""
    folds = np.arange(90) % 3
    given = ds.assign_coords(fold_of=("item", folds))
    one = quiet(xj.select_panel, given, 3, folds="fold_of", protocol=MICRO)
    other = quiet(xj.select_panel, given, 3, folds=folds.tolist(), protocol=MICRO)
    xr.testing.assert_equal(one, other)
    judges, h, gold = (np.stack([inputs(ds, c)[place] for c in range(2)], axis=1) for place in range(3))
    right = panel.select_panel(
        judges.reshape(-1, 7),
        h.reshape(-1, 3),
        gold.ravel(),
        3,
        folds=np.repeat(folds, 2),
        names=[f"j{n}" for n in range(1, 8)],
    )
    np.testing.assert_array_equal(one["fold_member"], right.held_out.member)
    np.testing.assert_array_equal(one["held_out_nu_mse"], right.held_out.held_out.nu_mse)


SELECTIONS: list[tuple[Any, dict[str, Any]]] = [
    (xj.select_panel, {"k": 3, "rule": ["A", "E"], "search": "all"}),
    (xj.select_panel, {"k": 2, "by": "system", "folds": 2}),
    (xj.select_panel, {"k": 2, "rule": ["A", "D"], "search": "bounded", "folds": np.arange(90) // 30}),
    (xj.select_panel, {"k": 2, "must_include": "j3", "family_cap": 1, "budget": 9, "protocol": MICRO}),
    (xj.panel_curve, {"n_draws": 20}),
    (xj.panel_curve, {"n_draws": 20, "protocol": MICRO, "by": "system"}),
    (xj.panel_vote, {"n_resamples": 50, "aggregate": ["soft", "weighted", "dawid_skene"]}),
    (xj.compare_panels, {"a": ["j1", "j2"], "b": ["j2", "j5"], "n_resamples": 20, "protocol": MICRO}),
]


@pytest.mark.filterwarnings("ignore:Labels are chunked")
@pytest.mark.parametrize(("verb", "options"), SELECTIONS)
def test_every_backend_gives_the_same_bits(
    ds: xr.Dataset, backend: Any, verb: Any, options: dict[str, Any]
) -> None:
    xr.testing.assert_identical(quiet(verb, backend(ds), **options), quiet(verb, ds, **options))


@pytest.mark.parametrize(("verb", "options"), SELECTIONS)
def test_one_compute(ds: xr.Dataset, count_computes: Any, verb: Any, options: dict[str, Any]) -> None:
    lazy = ds.chunk(item=(50, 7, 33))
    lazy = lazy.assign_coords({name: c.compute() for name, c in lazy.coords.items()})
    with count_computes() as computes:
        now = quiet(verb, lazy, **options)
        assert computes.n == 1
        if options.get("search") == "all":
            with pytest.raises(xj.ProtocolError, match="whose length only the answers tell"):
                verb(lazy, compute=False, **options)
            return
        later = quiet(verb, lazy, compute=False, **options)
        assert computes.n == 1
        found = later.compute()
        assert computes.n == 2
    xr.testing.assert_identical(found, now)
    for name in now.data_vars:
        assert later[name].dtype == now[name].dtype


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 8}, "8"),
        ({"k": 3, "rule": "Z"}, "'A', 'D', 'E'"),
        ({"k": 3, "search": "some"}, "'swaps', 'all' or 'bounded'"),
        ({"k": 3, "must_include": ["nobody"]}, "there is no rater 'nobody'"),
        ({"k": 3, "exclude": ["h1"]}, "'h1' is not a judge of the pool"),
        ({"k": 3, "budget": 2.0}, "No panel of 3 judges"),
        ({"k": 3, "folds": 1}, "at least 2"),
        ({"k": 3, "folds": [0, 1]}, "a fold for each of the 90 items"),
        ({"k": 3, "folds": [0, 1], "by": "system"}, "`by` goes with a number of folds"),
    ],
)
def test_impossible_selections(ds: xr.Dataset, options: dict[str, Any], message: str) -> None:
    with pytest.raises(xj.XJudgeError, match=message):
        quiet(xj.select_panel, ds, **options)


def test_what_a_selection_needs_of_the_coordinates(ds: xr.Dataset) -> None:
    bare = ds.drop_vars(["family", "cost"])
    with pytest.raises(xj.StructureError, match=r"`family_cap` needs a coordinate `family\(rater\)`"):
        quiet(xj.select_panel, bare, 3, family_cap=1)
    with pytest.raises(xj.StructureError, match=r"`budget` needs a coordinate `cost\(rater\)`"):
        quiet(xj.select_panel, bare, 3, budget=1.0)
    with pytest.raises(xj.StructureError, match=r"needs a coordinate `family\(rater\)`"):
        quiet(xj.panel_curve, bare, design="balanced")
    found = quiet(xj.select_panel, bare, 3)
    assert (found["total_cost"].where(found["found"], 0) == 0).all()


@pytest.mark.parametrize("options", [{"search": "all"}, {"folds": 3}, {"search": "bounded"}])
def test_a_criterion_without_items_has_no_panel(ds: xr.Dataset, options: dict[str, Any]) -> None:
    data = ds.copy()
    data["label"] = data["label"].copy()
    data["label"][:, 3, 1] = -1  # a judge that answers the first criterion only
    found = quiet(xj.select_panel, data, 3, rule=["A", "D"], **options)
    right = quiet(xj.select_panel, ds, 3, rule=["A", "D"], **options)
    one, none = found.isel(criterion=0), found.isel(criterion=1)
    for name in one.data_vars:
        if not str(name).startswith("front"):
            xr.testing.assert_equal(one[name], right.isel(criterion=0)[name])
    assert not none["found"].any()
    assert not none["member"].any()
    assert np.isnan(none["accuracy"]).all()
    assert (int(none["n_items"]), int(none["n_candidates"])) == (0, 0)
    assert set(none["guarantee"].values) == {"no item that every judge answered"}
    if "folds" in options:
        assert not none["fold_member"].any()
        assert np.isnan(none["held_out_nu_h"]).all()
        assert none["fold_n_items"].values.tolist() == [0, 0, 0]
    without = quiet(xj.select_panel, data, 3, exclude="j1", **options)
    assert without["found"].isel(panel=0).all()
    data["label"][:, 3, 0] = -2
    with pytest.raises(xj.OverlapError, match="exclude judges with few answers"):
        xj.select_panel(data, 3, **options)


def test_a_fold_without_items_is_not_measured(ds: xr.Dataset) -> None:
    """One usable item in the second criterion: a panel, and no held-out item to judge it on."""
    data = ds.copy()
    data["label"] = data["label"].copy()
    data["label"][:, 3, 1] = -1
    data["label"][50, :, 1] = 0
    found = quiet(xj.select_panel, data, 3, rule=["D"], folds=3)
    right = quiet(xj.select_panel, data, 3, rule=["D"])
    for name in right.data_vars:
        xr.testing.assert_equal(found[name], right[name])
    assert found["held_out_accuracy"].isel(criterion=0).notnull().all()
    assert found["held_out_accuracy"].isel(criterion=1).isnull().all()
    assert not found["fold_member"].isel(criterion=1).any()


def test_units_left_out_are_told(ds: xr.Dataset) -> None:
    with pytest.warns(xj.DroppedWarning, match="9 of 180 units are left out"):
        found = xj.select_panel(ds, 3)
    assert found["n_dropped"].values.tolist() == [5, 4]


# ------------------------------------------------------------------------------------------------ panel_curve


def test_curve_is_that_of_the_room(ds: xr.Dataset) -> None:
    found = quiet(xj.panel_curve, ds, n_draws=30, quantiles=[0.0, 0.5, 1.0])
    assert found["nu_h"].dims == ("criterion", "size", "quantile")
    assert found["nu_mse_without"].dims == ("rater", "criterion")
    judges, h, gold = inputs(ds, 1)
    used = np.flatnonzero((judges >= 0).all(1) & ~np.isnan(h).any(1))
    first = np.isin(np.arange(90), np.random.default_rng(0).permutation(used)[: len(used) // 2])
    halves = tuple(panel.panel_sums(judges[part], h[part], gold[part]) for part in (first, ~first))
    right = panel.panel_curve(halves, n_draws=30, quantiles=[0.0, 0.5, 1.0])
    one = found.isel(criterion=1)
    for name in ("nu_h", "nu_mse", "participation_ratio", "distributional_error", "mean_energy"):
        np.testing.assert_allclose(one[name], right.values[name], rtol=1e-10, err_msg=name)
    np.testing.assert_array_equal(one["n_panels"], right.n_panels)
    np.testing.assert_array_equal(one["rank_correlation"], right.rank_correlation)
    np.testing.assert_array_equal(one["half_rank_correlation"], right.half_rank_correlation)
    assert float(one["nu_mse_limit"]) == pytest.approx(float(right.nu_mse_limit), rel=1e-10)
    assert int(one["n_items"]) + int(one["n_dropped"]) == 90


def test_the_whole_pool_and_the_pool_without_a_judge(ds: xr.Dataset) -> None:
    found = quiet(xj.panel_curve, ds, n_draws=20, protocol=MICRO)
    pool = quiet(xj.effective_size, ds, protocol=MICRO, interval=None)
    last = found.isel(size=-1, quantile=2)
    for name in ("nu_h", "nu_mse", "participation_ratio", "distributional_error"):
        assert float(last[name]) == pytest.approx(float(pool[name]), rel=1e-10)
    assert float(found["nu_mse_limit"]) == pytest.approx(float(pool["nu_mse_limit"]), rel=1e-10)
    complete = ds.where((ds["label"].isel(rater=slice(3, None)) >= 0).all("rater"), -1)
    complete = complete.assign(label=complete["label"].astype(np.int8).assign_attrs(ds["label"].attrs))
    others = [f"j{n}" for n in range(1, 8) if n != 4]
    without = quiet(xj.effective_size, complete, judges=others, protocol=MICRO, interval=None)
    for name in ("nu_h", "nu_mse", "n_eff"):
        one = float(found[f"{name}_without"].sel(rater="j4"))
        assert one == pytest.approx(float(without[name]), rel=1e-10)


def test_searched_panels_are_at_least_as_diverse_as_drawn_ones(ds: xr.Dataset) -> None:
    found = quiet(xj.panel_curve, ds, quantiles=[1.0])
    best = found["participation_ratio"].isel(quantile=0)
    assert (found["searched_participation_ratio"] >= best - 1e-9).all()
    assert (found["searched_member"].sum("rater") == found["size"]).all()
    assert (found["n_stable"] <= found["n_conflicts"]).all()
    assert (found["n_additions"] == found["n_panels"] * (7 - found["size"])).all()


def test_designs_by_family(ds: xr.Dataset) -> None:
    found = quiet(xj.panel_curve, ds, design="one_per_family")
    assert found["size"].values.tolist() == [1, 2, 3, 4]
    # two of families f, g, h and one of i: 8 panels with a member of every family
    assert found["n_panels"].isel(criterion=0).values.tolist() == [7, 18, 20, 8]


def test_curves_of_awkward_pools(ds: xr.Dataset) -> None:
    alone = quiet(xj.panel_curve, ds, judges=["j1"])
    assert alone["n_panels"].values.tolist() == [[1], [1]]
    assert np.isnan(alone["nu_mse_limit"]).all()
    nothing = ds.where(ds["rater"] != "j2", -1)
    nothing = nothing.assign(label=nothing["label"].astype(np.int8).assign_attrs(ds["label"].attrs))
    empty = quiet(xj.panel_curve, nothing, n_draws=5)
    assert (empty["n_items"] == 0).all()
    assert np.isnan(empty["nu_h"]).all()
    with pytest.raises(xj.OverlapError, match="answer of all 7 judges"):
        quiet(xj.select_panel, nothing, 3)
    for wrong, message in (([3, 2], "increasing"), ([0], "between 1 and the 7 judges"), ([8], "7 judges")):
        with pytest.raises(xj.ProtocolError, match=message):
            xj.panel_curve(ds, sizes=wrong)


# ------------------------------------------------------------------------------------------------- panel_vote


def test_votes_are_scored_by_plain_loops(ds: xr.Dataset) -> None:
    found = quiet(xj.panel_vote, ds, aggregate=["majority", "soft"], interval=None)
    assert found["accuracy"].dims == ("criterion", "aggregate")
    judges, h, gold = inputs(ds, 0)
    hits, vote_errors, soft_errors = [], [], []
    for codes, shares, right in zip(judges, h, gold, strict=True):
        if (codes < 0).any() or np.isnan(shares).any():
            continue
        counts = np.bincount(codes, minlength=3)
        modes = np.flatnonzero(counts == counts.max())
        hits.append((right in modes) / len(modes))
        vote_errors.append(np.mean([((np.eye(3)[mode] - shares) ** 2).sum() for mode in modes]))
        soft_errors.append(((counts / 7 - shares) ** 2).sum())
    one = found.isel(criterion=0)
    assert one["accuracy"].values == pytest.approx([np.mean(hits)] * 2, rel=1e-12)
    np.testing.assert_allclose(
        one["distributional_error"], [np.mean(vote_errors), np.mean(soft_errors)], rtol=1e-12
    )
    assert int(one["n_items"]) == len(hits)
    # label frequencies are what effective sizes measure
    size = quiet(xj.effective_size, ds, interval=None)
    np.testing.assert_allclose(
        found["distributional_error"].sel(aggregate="soft"), size["distributional_error"], rtol=1e-10
    )


@pytest.mark.parametrize("protocol", [None, MICRO])
def test_votes_of_items(ds: xr.Dataset, protocol: Any) -> None:
    """What a panel says of each item, in plain loops; items without a human label too."""
    data = ds.copy()
    data["label"] = data["label"].copy()
    data["label"][5, :3] = -1  # nobody among the humans
    data["label"][6, 3:] = -1  # nobody among the judges
    every = ["majority", "soft", "weighted", "signed", "dawid_skene"]
    options: dict[str, Any] = {"protocol": protocol, "interval": None, "ties": "first", "aggregate": every}
    found = quiet(xj.panel_vote, data, votes=True, **options)
    assert found["vote"].dims == ("item", "criterion", "aggregate")
    assert found["share"].dims == ("item", "criterion", "aggregate", "category")
    assert found["category"].values.tolist() == ["a", "b", "c"]
    labels = data["label"].transpose("item", "criterion", "rater").values.astype(int)[..., 3:]
    vote = found["vote"].sel(aggregate="majority").values
    soft = found["share"].sel(aggregate="soft").values
    for place in np.ndindex(90, 2):
        counts = np.bincount(labels[place][labels[place] >= 0], minlength=3)
        if not counts.sum():
            assert set(found["vote"].values[place]) == {""}
            assert np.isnan(found["share"].values[place]).all()
            continue
        assert vote[place] == "abc"[counts.argmax()]
        assert soft[place] == pytest.approx(counts / counts.sum())
    assert (found["vote"].values[5] != "").all()
    known = found["share"].dropna("item")
    np.testing.assert_allclose(known.sum("category"), 1.0, rtol=1e-12)
    alone = quiet(xj.panel_vote, data, **options)
    xr.testing.assert_equal(found[list(alone.data_vars)], alone[list(alone.data_vars)])
    # scored on the items that every judge answered, on what is said of them
    complete = (labels >= 0).all(-1) & (data["label"][:, :3] >= 0).any("rater").transpose("item", "criterion")
    gold = np.stack([inputs(data, place)[2] for place in range(2)], axis=1)
    right = np.array(["a", "b", "c", "-"])[gold] == vote
    if protocol is None:
        expected = [right[complete.values[:, c], c].mean() for c in range(2)]
    else:
        expected = right[complete.values].mean()
    np.testing.assert_allclose(found["accuracy"].sel(aggregate="majority"), expected, rtol=1e-12)


def test_votes_of_items_are_lazy_too(ds: xr.Dataset, count_computes: Any) -> None:
    lazy = ds.chunk(item=(50, 7, 33))
    lazy = lazy.assign_coords({name: c.compute() for name, c in lazy.coords.items()})
    options: dict[str, Any] = {"votes": True, "interval": None, "aggregate": ["majority", "weighted"]}
    with count_computes() as computes:
        later = quiet(xj.panel_vote, lazy, compute=False, **options)
        assert computes.n == 0
        assert later["vote"].shape == (90, 2, 2)
    xr.testing.assert_identical(later.compute(), quiet(xj.panel_vote, ds, **options))
    with pytest.raises(xj.ProtocolError, match="select a slice first"):
        xj.panel_vote(ds, votes=True, by="system")


def test_weights_are_judged_on_items_they_were_not_fitted_on(ds: xr.Dataset) -> None:
    found = quiet(xj.panel_vote, ds, aggregate=["weighted", "signed", "soft"], protocol=MICRO, folds=3)
    stacked = [np.stack([inputs(ds, c)[place] for c in range(2)], axis=1) for place in range(2)]
    keep = (stacked[0] >= 0).all(2) & ~np.isnan(stacked[1]).any(2)
    item = np.unique(np.nonzero(keep)[0], return_inverse=True)[1]
    fold = np.random.default_rng(0).permutation(np.arange(item.max() + 1) % 3)[item]
    judges, h = (array[keep] for array in stacked)
    for name, positive in (("weighted", True), ("signed", False)):
        shares = panel.cross_fitted_distribution(judges, h, fold, nonnegative=positive)
        right = panel.score_aggregate(shares, h).distributional_error
        one = found.sel(aggregate=name)
        assert float(one["distributional_error"]) == pytest.approx(right, rel=1e-10)
        assert float(one["weights"].sum()) == pytest.approx(1.0, abs=1e-9)
    assert (found["weights"].sel(aggregate="weighted") >= 0).all()
    lower, upper = (found["distributional_error_interval"].sel(bound=b) for b in ("lower", "upper"))
    assert (lower < found["distributional_error"]).all()
    assert (found["distributional_error"] < upper).all()


def test_the_interval_of_a_vote_is_that_of_resampled_items(ds: xr.Dataset) -> None:
    """For one criterion accuracy is a mean over items: its standard error is the textbook one."""
    found = quiet(xj.panel_vote, ds, aggregate="dawid_skene", n_resamples=4000).isel(criterion=0, aggregate=0)
    p, n = float(found["accuracy"]), int(found["n_items"])
    assert float(found["accuracy_se"]) == pytest.approx(np.sqrt(p * (1 - p) / n), rel=0.06)
    assert np.isnan(found["weights"]).all()


@pytest.mark.parametrize("ties", ["first", "hash"])
def test_ties_of_a_vote(ties: str) -> None:
    ds = dataset([[0, 0, 1], [0, 1, 0], [1, 1, 1], [1, 0, 0]], ["human", "judge", "judge"])
    found = quiet(xj.panel_vote, ds, aggregate="majority", ties=ties, interval=None)
    assert int(found["n_ties"]) == 2
    if ties == "first":
        assert float(found["accuracy"].squeeze()) == 0.75
    uniform = quiet(xj.panel_vote, ds, aggregate="majority", interval=None)
    assert float(uniform["accuracy"].squeeze()) == 0.5


def test_votes_of_nothing_and_impossible_votes(ds: xr.Dataset) -> None:
    nothing = dataset([[0, -1, 1], [-1, 1, 0]], ["human", "judge", "judge"])
    every = ["majority", "soft", "weighted", "signed", "dawid_skene"]
    found = quiet(xj.panel_vote, nothing, aggregate=every)
    assert np.isnan(found["accuracy"]).all()
    assert (found["accuracy_reason"] == "no items").all()
    single = quiet(xj.panel_vote, dataset([[0, 1, 1]], ["human", "judge", "judge"]), aggregate=["weighted"])
    assert single["accuracy_reason"].values.tolist() == ["fewer than two complete items"]
    for options, message in (
        ({"aggregate": "mean"}, "`aggregate` holds"),
        ({"ties": "last"}, "`ties` is one of"),
        ({"folds": 1}, "at least 2"),
        ({"interval": "wilson"}, "resampled intervals"),
    ):
        with pytest.raises(xj.ProtocolError, match=message):
            quiet(xj.panel_vote, ds, **options)


# --------------------------------------------------------------------------------------------- compare_panels


def test_two_panels_on_the_same_items(ds: xr.Dataset) -> None:
    found = quiet(xj.compare_panels, ds, ["j1", "j2", "j6"], ["j5", "j6", "j7"], n_resamples=300)
    assert found["nu_h_difference"].dims == ("criterion",)
    complete = ds["label"].sel(rater=["j1", "j2", "j5", "j6", "j7"]) >= 0
    same = ds.assign(
        label=ds["label"].where(complete.all("rater"), -1).astype(np.int8).assign_attrs(ds["label"].attrs)
    )
    for word, judges in (("a", ["j1", "j2", "j6"]), ("b", ["j5", "j6", "j7"])):
        right = quiet(xj.effective_size, same, judges=judges, interval=None)
        for name in ("nu_h", "nu_mse", "n_eff", "distributional_error"):
            np.testing.assert_allclose(found[f"{name}_{word}"], right[name], rtol=1e-12)
    for name in ("nu_h", "nu_mse"):
        np.testing.assert_array_equal(found[f"{name}_difference"], found[f"{name}_a"] - found[f"{name}_b"])
    lower, upper = (found["nu_mse_difference_interval"].sel(bound=bound) for bound in ("lower", "upper"))
    assert (lower < found["nu_mse_difference"]).all()
    assert (found["nu_mse_difference"] < upper).all()


def test_shared_resamples_narrow_a_difference(ds: xr.Dataset) -> None:
    """Panels with common judges move together: the difference varies less than two panels apart would."""
    a, b = ["j3", "j4", "j5", "j6"], ["j3", "j4", "j5", "j7"]
    found = quiet(xj.compare_panels, ds, a, b, protocol=MICRO, n_resamples=300)
    apart = [quiet(xj.effective_size, ds, judges=m, protocol=MICRO, n_resamples=300) for m in (a, b)]
    for name in ("nu_mse", "distributional_error"):
        alone = np.hypot(*(float(one[f"{name}_se"]) for one in apart))
        assert float(found[f"{name}_difference_se"]) < 0.8 * alone
    again = quiet(xj.compare_panels, ds, b, a, protocol=MICRO, n_resamples=300)
    np.testing.assert_allclose(again["nu_h_difference"], -found["nu_h_difference"], rtol=1e-12)
    turned = -found["nu_h_difference_interval"].values[::-1]
    np.testing.assert_allclose(again["nu_h_difference_interval"], turned, rtol=1e-9)


def test_differences_of_panels_cover() -> None:
    """A judge and its noisy copy beside two of their kind: the truth from many items."""
    scale = xj.Scale.nominal(["a", "b"])

    def made(n: int, seed: int) -> xr.Dataset:
        rng = np.random.default_rng(seed)
        truth = rng.integers(0, 2, (n, 1))
        said = np.where(rng.random((n, 7)) < 0.8, truth, 1 - truth)
        said[:, 4] = np.where(rng.random(n) < 0.8, said[:, 3], said[:, 4])
        return dataset(said, ["human"] * 3 + ["judge"] * 4, scale=scale)

    a, b, names = ["j1", "j2"], ["j3", "j4"], ("nu_mse", "nu_h", "gamma_co", "n_eff")
    endless = quiet(xj.compare_panels, made(300_000, 0), a, b, interval=None)
    truth = {name: float(endless[f"{name}_difference"]) for name in names}
    covered: dict[str, list[bool]] = {name: [] for name in names}
    for seed in range(1, 61):
        found = quiet(xj.compare_panels, made(250, seed), a, b, n_resamples=150)
        for name in names:
            lower, upper = found[f"{name}_difference_interval"].values
            covered[name].append(lower <= truth[name] <= upper)
    assert {name: bool(np.mean(held) > 0.86) for name, held in covered.items()} == dict.fromkeys(names, True)


def test_a_panel_against_itself_and_impossible_comparisons(ds: xr.Dataset) -> None:
    chosen = xr.DataArray([True, True, False], dims="rater", coords={"rater": ["j1", "j2", "j3"]})
    found = quiet(xj.compare_panels, ds, chosen, ["j1", "j2"], n_resamples=20)
    assert (found["nu_h_difference"] == 0).all()
    assert (found["nu_mse_difference_interval"] == 0).all()
    one = quiet(xj.compare_panels, ds, ["j1"], ["j1", "j2"], n_resamples=20)
    assert (one["nu_mse_limit_difference_reason"] == "a panel of one judge").all()
    for a, b, message in (([], ["j1"], "at least one judge"), (["h1"], ["j1"], "'h1' is not a judge")):
        with pytest.raises(xj.XJudgeError, match=message):
            quiet(xj.compare_panels, ds, a, b)


def test_candidate_counts_of_the_paper() -> None:
    """Of 32 judges: 135 one-swap and 3,510 two-swap panels at k = 5, 175 and 6,300 at k = 7."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, (40, 34))
    pool = dataset(codes, ["human"] * 2 + ["judge"] * 32)
    for k, counts in ((5, (135, 3510)), (7, (175, 6300))):
        found = quiet(xj.select_panel, pool, k, rule="D")
        assert (int(found["n_one_swap"]), int(found["n_two_swaps"])) == counts


@pytest.mark.parametrize("value", ["high", None, ["a", "b"]])
def test_an_objective_gives_numbers(ds: xr.Dataset, value: Any) -> None:
    with pytest.raises(xj.StructureError, match=r"^The objective returned .*; give one number a panel"):
        quiet(xj.select_panel, ds, 2, rule=lambda _: value)

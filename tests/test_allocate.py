"""Sheets that say who labels what, and estimates that honour how the items were drawn."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import xarray as xr
from labels import dataset, random_codes

import xjudge as xj

THREE = xj.Scale.nominal(["a", "b", "c"])
DESIGNS = ("shared", "random", "strat", "strat_judge", "neyman")


def quiet(verb: Any, *arguments: Any, **options: Any) -> xr.Dataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XJudgeWarning)
        return verb(*arguments, **options)


def corpus(seed: int = 0, n: int = 300) -> xr.Dataset:
    """Three humans and two judges; the judge errs where the first human says the rare "c"."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(3, n, p=[0.5, 0.35, 0.15])

    def rater(right: Any) -> Any:
        return np.where(rng.random(n) < right, truth, (truth + rng.integers(1, 3, n)) % 3)

    humans = [rater(p) for p in (0.9, 0.8, 0.8)]
    judges = [rater(np.where(truth == 2, 0.2, 0.9)), rater(0.7)]
    codes = np.stack([*humans, *judges], axis=1)
    return dataset(codes, ["human"] * 3 + ["judge"] * 2, THREE, system=["x", "y"] * (n // 2))


def filled(full: xr.Dataset, sheet: xr.Dataset) -> xr.Dataset:
    """What is known once the humans have filled in their sheets."""
    asked = sheet["assigned"].reindex(rater=full["rater"].values, fill_value=True)
    sparse = full.assign(label=full["label"].where(asked, -1).astype(np.int8))
    sparse["label"].attrs = full["label"].attrs
    return sparse.judge.join(sheet)


# ------------------------------------------------------------------------------------------------- the sheet


@pytest.mark.parametrize("design", DESIGNS)
def test_a_sheet_joins_back(design: Any) -> None:
    full = corpus()
    sheet = xj.allocate(full, 40, design=design, judge="j1", seed=3)
    assert sheet["assigned"].sum("item").values.tolist() == [300, 40, 40]
    assert sheet["rater"].values.tolist() == ["h1", "h2", "h3"]
    assert (sheet["label"] == -1).all()
    xr.testing.assert_identical(sheet, xj.allocate(full, 40, design=design, judge="j1", seed=3))
    joined = full.judge.join(sheet)
    np.testing.assert_array_equal(joined["label"], full["label"])
    assert joined["assigned"].dims == ("item", "rater")
    assert ("sampling_weight" in joined.coords) is (design not in ("shared", "random"))
    if design not in ("shared", "random"):
        weight, drawn = sheet["sampling_weight"].values, sheet["assigned"].values[:, 1]
        assert (weight[~drawn] == 0).all()
        assert float(weight.sum()) == pytest.approx(300)
        for s in np.unique(sheet["stratum"]):
            inside = sheet["stratum"].values == s
            np.testing.assert_allclose(weight[inside & drawn], inside.sum() / (inside & drawn).sum())


@pytest.mark.parametrize(
    "options",
    [
        {"design": "neyman", "judge": "j1"},
        {"design": "strat_judge", "judge": "j2", "humans": ["h1", "h3"]},
        {"target": "matrix", "seed": 5},
    ],
)
def test_a_sheet_is_rebuilt_from_its_attributes(options: dict[str, Any]) -> None:
    full = corpus()
    sheet = xj.allocate(full, 60, **options)
    xr.testing.assert_identical(xj.rebuild(sheet, full), sheet)


def test_weighted_results_are_rebuilt() -> None:
    known = filled(corpus(), xj.allocate(corpus(), 60, design="strat"))
    for strata in (None, False, "stratum"):
        found = quiet(xj.loo_validate, known, strata=strata)
        xr.testing.assert_identical(quiet(xj.rebuild, found, known), found)


def test_neyman_draws_where_margins_vary() -> None:
    full = corpus(n=2000)
    proportional = xj.allocate(full, 100, design="strat_judge", judge="j1")
    neyman = xj.allocate(full, 100, design="neyman", judge="j1")
    np.testing.assert_array_equal(proportional["stratum"], neyman["stratum"])
    first, verdict = (full["label"].sel(rater=name).values for name in ("h1", "j1"))
    disagrees = first != verdict
    drawn = [sheet["assigned"].values[:, 1] for sheet in (proportional, neyman)]
    assert (drawn[1] & disagrees).sum() > 1.3 * (drawn[0] & disagrees).sum()
    # every stratum has two
    assert min(np.bincount(neyman["stratum"].values[drawn[1]])) >= 2


def test_deviations_come_from_a_pilot() -> None:
    full = corpus(n=600)
    known = full.assign(label=full["label"].where(full["role"] != "human", full["label"]))
    known["label"].attrs = full["label"].attrs
    bare = filled(full, xj.allocate(full, 1, design="shared"))  # nobody but the first human, to speak of
    with pytest.raises(xj.ProtocolError, match="two or more humans labelled, and there are 1: give a pilot"):
        xj.allocate(bare, 60, design="neyman", judge="j1")
    pilot = corpus(seed=9, n=200)
    sheet = xj.allocate(bare, 60, design="neyman", judge="j1", pilot=pilot)
    assert int(sheet["assigned"].sel(rater="h2").sum()) == 60
    own = xj.allocate(full, 60, design="neyman", judge="j1", pilot=full)
    xr.testing.assert_equal(own, xj.allocate(full, 60, design="neyman", judge="j1"))
    assert own.attrs["deviations"] == "of a pilot"


def test_strata_that_the_pilot_lacks_have_the_deviation_of_all() -> None:
    full = corpus(n=600)
    pilot = full.isel(item=np.flatnonzero(full["label"].sel(rater="h1").values != 2))
    sheet = xj.allocate(full, 90, design="neyman", judge="j1", pilot=pilot)
    drawn = np.bincount(sheet["stratum"].values[sheet["assigned"].values[:, 1]])
    assert drawn.sum() == 90
    assert (drawn >= 2).all()


def test_planned_for_future_items_and_drawn_for_these() -> None:
    full = corpus(n=600)
    sheet = xj.allocate(full, 300, target="matrix")
    assert int(sheet["assigned"].sel(rater="h2").sum()) == 200  # 1 / (1 / 300 + 1 / 600)
    assert (sheet.attrs["n"], sheet.attrs["n_drawn"]) == (300, 200)
    more = xj.allocate(full, 10_000, target="matrix", design="neyman", judge="j1")
    assert int(more["assigned"].sel(rater="h2").sum()) == 567


def test_criteria_are_combined_first_and_the_sheet_has_them() -> None:
    ds = dataset(random_codes(11, (120, 5, 2), 2), ["human"] * 3 + ["judge"] * 2)
    protocol = xj.Protocol(aggregate="item", item_rule=xj.all_positive())
    sheet = xj.allocate(ds, 30, design="strat", protocol=protocol)
    assert sheet["label"].dims == ("item", "rater", "criterion")
    np.testing.assert_array_equal(ds.judge.join(sheet)["label"], ds["label"])
    with pytest.raises(xj.StructureError, match="assigns items"):
        xj.allocate(ds, 30)


@pytest.mark.parametrize(
    ("n", "options", "message"),
    [
        (0, {}, "`n` is a whole number of items per further human; got 0"),
        (2.5, {}, "got 2.5"),
        (True, {}, "got True"),
        (float("nan"), {}, "got nan"),
        ("ten", {}, "got 'ten'"),
        (301, {}, "There are 300 items, and each further human is to label n=301"),
        (30, {"design": "snowball"}, "`design` is one of 'shared', 'random'"),
        (30, {"design": "strat_judge"}, "name it with `judge=`"),
        (30, {"design": "neyman"}, "name it with `judge=`"),
        (11, {"design": "neyman", "judge": "j1"}, "possible are 12 to 300"),
        (30, {"design": "shared", "pilot": corpus()}, "takes none"),
        (30, {"target": "future"}, "`target` must be"),
    ],
)
def test_sheets_that_cannot_be(n: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(xj.ProtocolError, match=message):
        xj.allocate(corpus(), n, **options)


def test_strata_without_an_item_are_told_of() -> None:
    with pytest.warns(xj.DroppedWarning, match=r"[12] of 3 strata \(\d+ items\) get none of the 2 items"):
        sheet = xj.allocate(corpus(), 2, design="strat")
    with pytest.warns(xj.XJudgeWarning, match="strata without a co-labelled item"):
        found = xj.loo_validate(filled(corpus(), sheet))
    lost = np.isin(sheet["stratum"], np.unique(sheet["stratum"].values[sheet["assigned"].values[:, 1]]))
    assert found["n_unsampled"].values.tolist() == [int((~lost).sum())] * 2


# -------------------------------------------------------------------------------------------- the estimate


@pytest.mark.parametrize("design", ["strat", "neyman"])
def test_weights_remove_the_bias_of_how_items_were_drawn(design: Any) -> None:
    """Margins of the full matrix in expectation, and standard errors of the size of the scatter."""
    full = corpus(n=240)
    right = quiet(xj.loo_validate, full, judges=["j1"])["margin"].squeeze()
    weighted, plain, errors = [], [], []
    T = 80
    for seed in range(T):
        known = filled(full, xj.allocate(full, 48, design=design, judge="j1", seed=seed))
        found = quiet(xj.loo_validate, known, judges=["j1"], target="matrix")
        weighted.append(found["margin"].squeeze().values)
        errors.append(found["se"].squeeze().values)
        alike = quiet(xj.loo_validate, known, judges=["j1"], strata=False)
        plain.append(alike["margin"].squeeze().values)
    scatter = np.std(weighted, axis=0, ddof=1)
    # a ratio of sums is biased by about 1/m of its scatter, a tenth of the Monte Carlo error
    assert (np.abs(np.mean(weighted, axis=0) - right.values) < 4.5 * scatter / np.sqrt(T)).all()
    assert (np.mean(errors, axis=0) / scatter > 0.75).all()
    assert (np.mean(errors, axis=0) / scatter < 1.3).all()
    off = np.abs(np.mean(plain, axis=0) - right.values) / (np.std(plain, axis=0, ddof=1) / np.sqrt(T))
    assert bool(off.max() > 6) is (design == "neyman")


def test_the_weighted_margin_by_hand() -> None:
    """Two strata of 6 and 4 items, two of each drawn: weights 3 and 2."""
    rows = [[0, 0, 0], [0, 1, 0], *[[0, -1, 0]] * 4, [1, 1, 0], [1, 1, 1], *[[1, -1, 1]] * 2]
    ds = dataset(rows, ["human", "human", "judge"], stratum=["p"] * 6 + ["q"] * 4)
    found = quiet(xj.loo_validate, ds, strata="stratum").squeeze()
    # h1 held out, others are h2: the judge agrees on items 0, 7; h1 agrees on items 0, 6, 7
    assert float(found["judge_agreement"].sel(human="h1")) == pytest.approx((3 * 1 + 2 * 1) / 10)
    assert float(found["human_agreement"].sel(human="h1")) == pytest.approx((3 * 1 + 2 * 2) / 10)
    assert float(found["margin"].sel(human="h1")) == pytest.approx(-0.15)
    assert int(found["overlap"].sel(human="h1")) == 4
    alike = quiet(xj.loo_validate, ds).squeeze()
    assert float(alike["judge_agreement"].sel(human="h1")) == pytest.approx(0.5)
    assert "n_unsampled" not in alike


def test_weights_do_without_the_items_that_were_not_drawn() -> None:
    full = corpus()
    known = filled(full, xj.allocate(full, 60, design="neyman", judge="j1", seed=1))
    drawn = known.isel(item=np.flatnonzero(known["sampling_weight"].values > 0))
    for options in ({}, {"target": "matrix"}):
        whole, part = (quiet(xj.loo_validate, ds, **options) for ds in (known, drawn))
        for name in ("margin", "se", "human_agreement_equal", "omega", "verdict", "p_value_accept"):
            xr.testing.assert_allclose(part[name], whole[name])


def test_with_one_stratum_weights_say_nothing() -> None:
    full = corpus()
    known = filled(full, xj.allocate(full, 60, seed=1)).assign_coords(stratum=("item", ["all"] * 300))
    weighted = quiet(xj.loo_validate, known, strata="stratum", target="matrix")
    plain = quiet(xj.loo_validate, known, target="matrix")
    for name in ("margin", "win", "omega", "judge_agreement", "human_agreement_equal"):
        xr.testing.assert_allclose(weighted[name], plain[name])
    # the sample variance divides by 59, the sandwich by 60
    np.testing.assert_allclose(weighted["se"], plain["se"] * np.sqrt(60 / 59), rtol=1e-9)


@pytest.mark.filterwarnings("ignore:Labels are chunked")
@pytest.mark.parametrize(
    "options",
    [{}, {"by": "system"}, {"protocol": xj.Protocol(population={"system": "x"})}, {"target": "matrix"}],
)
def test_every_backend_weighs_alike(backend: Any, count_computes: Any, options: dict[str, Any]) -> None:
    full = corpus()
    known = filled(full, xj.allocate(full, 60, design="strat_judge", judge="j1", seed=2))
    with count_computes() as computes:
        found = quiet(xj.loo_validate, backend(known), **options)
        assert computes.n <= 1
    xr.testing.assert_identical(found, quiet(xj.loo_validate, known, **options))


def test_weighted_margins_later(count_computes: Any) -> None:
    full = corpus()
    known = filled(full, xj.allocate(full, 60, design="neyman", judge="j1")).chunk(item=(100, 7, 193))
    with count_computes() as computes:
        later = xj.loo_validate(known, compute=False)
        assert computes.n == 0
    xr.testing.assert_identical(later.compute(), quiet(xj.loo_validate, known))


def test_a_slice_is_that_slice_alone() -> None:
    full = corpus()
    known = filled(full, xj.allocate(full, 80, design="strat", seed=2))
    sliced = quiet(xj.loo_validate, known, by="system").sel(system="x", drop=True)
    narrow = quiet(xj.loo_validate, known, protocol=xj.Protocol(population={"system": "x"}))
    alone = quiet(xj.loo_validate, known.isel(item=slice(0, None, 2)))
    for other in (sliced, narrow):
        for name in ("margin", "se", "omega", "verdict"):
            xr.testing.assert_equal(other[name], alone[name])


def test_order_of_items_and_names_of_strata_are_nothing() -> None:
    full = corpus()
    known = filled(full, xj.allocate(full, 60, design="neyman", judge="j1", seed=1))
    found = quiet(xj.loo_validate, known)
    turned = known.isel(item=np.random.default_rng(0).permutation(300))
    named = known.assign_coords(stratum=("item", [f"s{9 - s}" for s in known["stratum"].values]))
    for other in (turned, named):
        again = quiet(xj.loo_validate, other)
        for name in ("margin", "se", "win", "p_value_accept", "verdict"):
            xr.testing.assert_allclose(again[name], found[name])


def test_what_weights_do_not_go_with() -> None:
    full = corpus()
    known = filled(full, xj.allocate(full, 60, design="strat"))
    for options in ({"statistic": "kappa"}, {"control": True}, {"pooling": "pairs"}):
        with pytest.raises(xj.ProtocolError, match="strata=False weighs all items alike"):
            xj.loo_validate(known, **options)
    assert np.isfinite(quiet(xj.loo_validate, known, statistic="kappa", strata=False)["margin"]).all()
    with pytest.raises(xj.StructureError, match="`strata`: the dataset has no 'layer'"):
        xj.loo_validate(known, strata="layer")
    with pytest.raises(xj.StructureError, match="it varies where 'system' is"):
        xj.loo_validate(known, strata="system")
    bad = known.assign_coords(sampling_weight=-known["sampling_weight"])
    with pytest.raises(xj.StructureError, match="never negative"):
        xj.loo_validate(bad)


def test_items_of_no_stratum_are_no_item_of_the_corpus() -> None:
    full = corpus()
    names = full["label"].sel(rater="h1").values.astype(object)
    names[:30] = None
    ds = full.assign_coords(layer=("item", names))
    found = quiet(xj.loo_validate, ds, strata="layer")
    alone = quiet(xj.loo_validate, ds.isel(item=slice(30, None)), strata="layer")
    for name in ("margin", "se", "overlap"):
        xr.testing.assert_equal(found[name], alone[name])

"""Who labels what in a simulation: the paper's designs, and masks of a dense dataset."""

from __future__ import annotations

import json
import math
import warnings
from collections import Counter
from typing import Any

import loo_slow as slow
import numpy as np
import pytest
import xarray as xr
from labels import BINARY, dataset, random_codes
from shared import needs_shared, oracle

import xjudge as xj
from xjudge import _simulation_draw, _simulation_masks
from xjudge._simulation_masks import Masks
from xjudge.statistics import loo

THREE = xj.Scale.ordinal([1, 2, 3])
ROLES = ["human", "human", "human", "judge", "judge"]


def dense(seed: int = 0, n: int = 90) -> xr.Dataset:
    """Five raters who all labelled everything, in three categories."""
    return dataset(random_codes(seed, (n, 5), 3, outcomes=False), ROLES, THREE)


def asked(ds: xr.Dataset) -> Any:
    return (ds["label"] != -1).values


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 16 items, so that a test has several."""
    monkeypatch.setattr(_simulation_masks, "BLOCK", 16)
    monkeypatch.setattr(_simulation_draw, "BLOCK", 16)


# ---------------------------------------------------------------------------------------------------- designs


@pytest.mark.parametrize("source", ["dense", "model"])
@pytest.mark.parametrize("design", ["random", "shared", "strat", "strat_judge"])
def test_an_exact_number_of_items(design: Any, source: str) -> None:
    options: dict[str, Any] = {"overlap": 0.3, "design": design, "seed": 2, "return_truth": True}
    if source == "dense":
        ds, truth = xj.simulate(dense(), judge="j2", **options)
    else:
        ds, truth = xj.simulate(n_items=90, n_categories=3, judge="judge_2", **options)
    kept = asked(ds)
    assert kept.sum(axis=0).tolist() == [90, 27, 27, 90, 90]
    assert bool((kept[:, 1] == kept[:, 2]).all()) is (design != "random")
    np.testing.assert_array_equal(ds["label"].values[kept], truth["answer"].values[kept])
    assert (truth["answer"] >= 0).all()


@pytest.mark.parametrize("design", ["strat", "strat_judge"])
def test_strata_are_drawn_in_proportion(design: Any) -> None:
    # 50, 30 and 10 items by the first human's label; 27 of 90 are 15, 9 and 3
    codes = random_codes(3, (90, 5), 3, outcomes=False)
    codes[:, 0] = [0] * 50 + [1] * 30 + [2] * 10
    codes[:, 4] = np.where(np.arange(90) % 2 == 0, codes[:, 0], (codes[:, 0] + 1) % 3)
    ds = xj.simulate(dataset(codes, ROLES, THREE), overlap=0.3, design=design, judge="j2", seed=5)
    kept = asked(ds)[:, 1]
    agrees = codes[:, 0] == codes[:, 4]
    both = [[int((kept & (codes[:, 0] == c) & (agrees == a)).sum()) for a in (False, True)] for c in range(3)]
    if design == "strat":
        assert [sum(two) for two in both] == [15, 9, 3]
    else:  # twice 25, 15 and 5 items: 7.5, 4.5 and 1.5 of them, the first rounded up until there are 27
        assert both == [[8, 8], [5, 4], [1, 1]]


def test_what_the_first_human_did_not_answer_is_a_stratum() -> None:
    codes = random_codes(4, (60, 5), 3, outcomes=False)
    codes[:20, 0], codes[20:, 0] = [-1, -2, -3, -1] * 5, 1
    ds = xj.simulate(dataset(codes, ROLES, THREE), overlap=0.3, design="strat", seed=0)
    assert (asked(ds)[:20, 1].sum(), asked(ds)[20:, 1].sum()) == (6, 12)


def test_bernoulli_labels_are_independent() -> None:
    ds = xj.simulate(n_items=40_000, overlap=0.25, mask="bernoulli", seed=1)
    first, second, third = (asked(ds)[:, k] for k in range(3))
    assert first.all()
    for share, expected in ((second.mean(), 0.25), (third.mean(), 0.25), ((second & third).mean(), 1 / 16)):
        assert abs(share - expected) < 4.5 * math.sqrt(expected * (1 - expected) / 40_000)


def test_every_subset_is_as_likely() -> None:
    """Two of five items: ten subsets, 2,000 masks; and over blocks of two items."""
    for block in (1 << 16, 2):
        masks = Masks(5, (0, 1), 2, 0.4, "shared", "exact", None, 2000, 0)
        old, _simulation_masks.BLOCK = _simulation_masks.BLOCK, block
        try:
            kept = masks(np.arange(5))[:, 1]
        finally:
            _simulation_masks.BLOCK = old
        assert (kept.sum(axis=0) == 2).all()
        counts = Counter(map(tuple, kept.T.tolist()))
        assert len(counts) == 10
        # chi-square with 9 degrees of freedom: beyond 27.9 once in a thousand; the seed is fixed
        assert sum((n - 200) ** 2 / 200 for n in counts.values()) < 27.9


# --------------------------------------------------------------------------------- the same whatever is lazy


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.filterwarnings("ignore:Labels are chunked")
@pytest.mark.parametrize(
    ("design", "mask"), [("random", "exact"), ("random", "bernoulli"), ("strat", "exact")]
)
def test_chunks_change_nothing(backend: Any, design: Any, mask: Any) -> None:
    options: dict[str, Any] = {"overlap": 0.4, "design": design, "mask": mask, "seed": 7}
    for n_masks in (None, 3):
        eager = xj.simulate(dense(1), n_masks=n_masks, **options)
        found = xj.simulate(backend(dense(1)), n_masks=n_masks, **options)
        xr.testing.assert_identical(found.compute(), eager)
        assert eager["label"].dims == ("item", "rater", "mask")[: 2 if n_masks is None else 3]


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("design", ["random", "shared", "strat"])
def test_a_lazy_model_is_the_same_model(count_computes: Any, design: Any) -> None:
    options: dict[str, Any] = {
        "n_items": 100,
        "overlap": 0.3,
        "design": design,
        "n_systems": 2,
        "ca_rate": 0.1,
        "invalid_rate": 0.1,
        "seed": 3,
        "return_truth": True,
    }
    eager = xj.simulate(**options)
    for chunks in (7, 16, 1000):
        with count_computes() as computes:
            lazy = xj.simulate(chunks=chunks, **options)
            assert computes.n == (design == "strat")  # the first human's labels make the strata
        assert lazy[0]["label"].chunks is not None
        for a, b in zip(lazy, eager, strict=True):
            xr.testing.assert_identical(a.compute(), b)
    assert asked(eager[0]).sum(axis=0).tolist() == [100, 30, 30, 100, 100]


def test_ten_million_items_cost_nothing_until_asked() -> None:
    ds = xj.simulate(n_items=10**7, overlap=0.01, mask="bernoulli", chunks=1 << 16)
    assert ds["item"].dtype.kind == "i"
    last = ds["label"].isel(item=slice(-1000, None)).compute()
    assert last.shape == (1000, 5)
    assert (last.values[:, [0, 3, 4]] >= 0).all()
    assert 0 < (last.values[:, 1] >= 0).sum() < 50


def test_more_masks_change_none_of_the_first() -> None:
    one = xj.simulate(dense(), overlap=0.2, seed=4)
    few = xj.simulate(dense(), overlap=0.2, seed=4, n_masks=2)
    many = xj.simulate(dense(), overlap=0.2, seed=4, n_masks=9)
    xr.testing.assert_equal(many["label"].isel(mask=slice(0, 2)), few["label"])
    np.testing.assert_array_equal(few["label"].isel(mask=0), one["label"])
    assert len({tuple(many["label"].values[:, 1, t]) for t in range(9)}) == 9
    other = xj.simulate(dense(), overlap=0.2, seed=5)
    assert (other["label"] != one["label"]).any()


# ------------------------------------------------------------------------------------------- a dense dataset


def test_what_is_kept_of_the_dataset() -> None:
    ds = dense().assign_coords(system=("item", ["a", "b"] * 45))
    ds["confidence"] = (("item", "rater"), np.full((90, 5), 0.5))
    ds["length"] = ("item", np.arange(90))
    found, truth = xj.simulate(ds, overlap=0.2, seed=1, return_truth=True)
    assert found["label"].attrs == ds["label"].attrs
    assert found["label"].dtype == np.int8
    xr.testing.assert_identical(found["length"], ds["length"])
    xr.testing.assert_identical(found["system"], ds["system"])
    np.testing.assert_array_equal(np.isnan(found["confidence"].values), ~asked(found))
    np.testing.assert_array_equal(truth["answer"], ds["label"])
    kept = json.loads(found.attrs["masks"])
    assert kept == {
        "overlap": 0.2, "design": "random", "mask": "exact", "judge": None, "n_masks": None, "seed": 1,
    }  # fmt: skip
    xr.testing.assert_identical(xj.simulate(ds, **kept), found)


@pytest.mark.parametrize("dtype", ["uint8", "float64", "int64"])
def test_labels_of_any_number_type(dtype: str) -> None:
    ds = dense()
    typed = ds.assign(label=ds["label"].astype(dtype).assign_attrs(ds["label"].attrs))
    found = xj.simulate(typed, overlap=0.5, seed=6)
    np.testing.assert_array_equal(found["label"].values, xj.simulate(ds, overlap=0.5, seed=6)["label"].values)
    xj.rates(found)


def test_missing_labels_stay_missing_and_criteria_go_together() -> None:
    codes = random_codes(5, (40, 5, 2), 2)
    found = asked(xj.simulate(dataset(codes, ROLES), overlap=0.5, seed=0))
    assert not (found & (codes == -1)).any()
    lost = (codes != -1) & ~found
    assert lost.any()
    masked = lost.any(axis=2)
    assert not (found & masked[..., None])[:, 1:3].any()


@needs_shared
@pytest.mark.parametrize("place", [0, 8, 11])
def test_masks_of_real_labels_decide_as_stored(place: int) -> None:
    """The public way, from masks to decisions, against 600 masks drawn by independent code."""
    data, one = slow.matrix("wax").by_count(), oracle("loo")["real_sparse"]["wax"][place]
    scale = xj.Scale.nominal(data.labels)
    roles = ["human"] * data.humans.shape[1] + ["judge"] * data.judges.shape[1]
    ds = dataset(np.concatenate([data.humans, data.judges], axis=1), roles, scale)
    T = 300
    mask = "bernoulli" if one["design"] == "random" else "exact"
    sparse = xj.simulate(ds, overlap=one["rho"], design=one["design"], mask=mask, n_masks=T)
    labels = sparse["label"].transpose("rater", "mask", "item", ...).values
    humans = np.moveaxis(labels[: data.humans.shape[1]], 0, -1)
    for j, expected in enumerate(one["p_accept"]):
        hits, same, pairs = (
            n.sum(axis=-1) for n in loo.loo_pair_counts(humans, labels[data.humans.shape[1] + j])
        )
        votes = loo.count_votes(loo.exact_wins(hits - same, pairs, 0.05)[0])
        found = float(np.mean(votes.accept_point))
        assert abs(found - expected) <= max(0.03, 4 * math.hypot(one["se"][j], math.sqrt(0.25 / T)))
        if j == 0:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", xj.XJudgeWarning)
                verb = xj.loo_validate(sparse.isel(mask=slice(0, 3)), judges=["j1"])
            np.testing.assert_array_equal(verb["omega"].squeeze(), votes.omega[:3])


# ----------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"design": "snowball"}, "`design` is 'random', 'shared', 'strat' or 'strat_judge'; got 'snowball'"),
        ({"mask": "poisson"}, "`mask` is 'exact' or 'bernoulli'; got 'poisson'"),
        ({"mask": "bernoulli", "design": "shared"}, "which is design='random' only"),
        ({"n_masks": 0}, "`n_masks` is a whole number of at least 1, or None; got 0"),
        ({"overlap": 1.5}, r"`overlap` is a finite number in \[0, 1\]; got 1.5"),
        ({"overlap": float("nan")}, "got nan"),
        ({"overlap": "half"}, "got 'half'"),
        ({"seed": -1}, "`seed` is a whole number of at least 0; got -1"),
        ({"n_items": 10, "ca_rate": 0.1}, "not both: n_items, ca_rate belong to a model"),
        ({"chunks": 10}, "chunks belong"),
        ({"design": "strat_judge"}, r"name it with `judge=` \('j1', 'j2'\)"),
        ({"design": "strat_judge", "judge": "h1"}, "'h1' is not a judge"),
    ],
)
def test_masks_that_are_none(options: dict[str, Any], message: str) -> None:
    with pytest.raises(xj.StructureError, match=message):
        xj.simulate(dense(), **options)


def test_datasets_that_cannot_be_masked() -> None:
    with pytest.raises(xj.StructureError, match="there are 1 humans"):
        xj.simulate(dense().isel(rater=[0, 3, 4]))
    with pytest.raises(xj.StructureError, match="per item, and these labels have criterion"):
        xj.simulate(dataset(random_codes(0, (9, 5, 2), 2), ROLES), design="strat")
    with pytest.raises(xj.StructureError, match="a dim `mask` already"):
        xj.simulate(xj.simulate(dense(), n_masks=2), n_masks=2)
    with pytest.raises(xj.StructureError, match="no variable `label`"):
        xj.simulate(xr.Dataset())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"design": "strat", "criteria": 2}, "needs one label per item"),
        ({"design": "strat", "n_humans": 0}, "there is no human"),
        ({"design": "strat_judge"}, r"name it with `judge=` \('judge_1', 'judge_2'\); got None"),
        ({"design": "strat_judge", "n_judges": 0}, "there is none"),
        ({"chunks": 0}, "`chunks` is a whole number of items of at least 1, or None; got 0"),
        ({"chunks": 2.5}, "got 2.5"),
    ],
)
def test_models_that_cannot_be_masked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(xj.StructureError, match=message):
        xj.simulate(**options)


@pytest.mark.parametrize("n_humans", [0, 1])
def test_nobody_to_mask(n_humans: int) -> None:
    plain = xj.simulate(n_items=30, n_humans=n_humans, overlap=0.5)
    assert (plain["label"] != -1).all()
    several = xj.simulate(n_items=30, n_humans=n_humans, overlap=0.5, n_masks=3)
    assert several["label"].sizes["mask"] == 3
    for t in range(3):
        np.testing.assert_array_equal(several["label"].isel(mask=t), plain["label"])


def test_an_exact_number_out_of_a_billion_is_refused() -> None:
    with pytest.raises(xj.StructureError, match="Use mask='bernoulli'"):
        _simulation_masks.check_size(10**9, "exact")
    _simulation_masks.check_size(10**9, "bernoulli")


@pytest.mark.parametrize("options", [{"overlap": 0.0}, {"overlap": 1.0}, {"design": "strat", "overlap": 1}])
def test_nothing_and_everything(options: dict[str, Any]) -> None:
    kept = asked(xj.simulate(dense(), **options))
    share = options["overlap"]
    assert kept.mean(axis=0).tolist() == [1, share, share, 1, 1]
    assert asked(xj.simulate(dataset(np.zeros((0, 5)), ROLES), **options)).shape == (0, 5)
    assert BINARY.n_categories == 2

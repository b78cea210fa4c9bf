"""The sparse layout: to the dense one and back, every verb on it, and what is refused."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import xjudge as xj
import xjudge._sparse as room

SCALE = xj.Scale.nominal(["A", "B", "C"])
JUDGES = ["gpt", "vela"]
MICRO = xj.Protocol(aggregate="micro")


def table(n_items: int = 120, n_raters: int = 150, criteria: int = 1, seed: int = 0) -> pd.DataFrame:
    """Up to six of many humans on each item, none on some, and two judges on most."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(n_items):
        crowd = [f"w{r}" for r in rng.choice(n_raters, rng.integers(0, 7), replace=False)]
        for rater in rng.permutation([*crowd, *(j for j in JUDGES if rng.random() < 0.9)]):
            for c in range(criteria):
                label = rng.choice(["A", "B", "C", "NA", "??"], p=[0.4, 0.25, 0.2, 0.1, 0.05])
                if rng.random() < 0.9:
                    rows.append((f"i{i}", str(rater), f"Q{c}", label, "xyz"[i % 3], i // 4))
    return pd.DataFrame(rows, columns=["item", "rater", "criterion", "label", "system", "cluster"])


def both(frame: pd.DataFrame, **options: Any) -> tuple[xr.Dataset, xr.Dataset]:
    """The same table in the dense and in the sparse layout."""
    known: dict[str, Any] = {"judges": JUDGES, "scale": SCALE, "ca": "NA", "invalid": "??"}
    if len(set(frame["criterion"])) > 1:
        known["criterion"] = "criterion"
    else:
        frame = frame.drop(columns="criterion")
    known |= options
    dense, sparse = (xj.from_long(frame, layout=layout, **known) for layout in ("dense", "sparse"))
    return dense, sparse


@pytest.fixture(scope="module")
def pair() -> tuple[xr.Dataset, xr.Dataset]:
    return both(table())


@pytest.fixture(scope="module")
def wide() -> tuple[xr.Dataset, xr.Dataset]:
    return both(table(criteria=2, seed=1))


def quiet(verb: Any, *arguments: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XJudgeWarning)
        return verb(*arguments, **options)


def same(found: Any, expected: Any, but: tuple[str, ...] = ()) -> None:
    """The same numbers, names and reasons; attributes may name a crowd otherwise."""
    if isinstance(expected, pd.DataFrame):
        pd.testing.assert_frame_equal(found, expected, check_dtype=False)
        return
    xr.testing.assert_allclose(found.drop_vars(but), expected.drop_vars(but), rtol=1e-12, atol=1e-14)
    for name in expected.data_vars:
        if expected[name].dtype.kind in "iub":
            assert found[name].dtype == expected[name].dtype
            np.testing.assert_array_equal(found[name], expected[name])


# --------------------------------------------------------------------------------------------------- layouts


def test_to_dense_and_back(wide: tuple[xr.Dataset, xr.Dataset]) -> None:
    dense, sparse = wide
    made = xj.to_dense(sparse)
    xr.testing.assert_identical(made, dense)
    assert made["label"].dtype == np.int8
    listed = xj.to_sparse(dense)
    xr.testing.assert_identical(listed, sparse)
    assert listed.attrs == sparse.attrs
    assert xj.to_dense(dense) is dense
    assert xj.to_sparse(sparse) is sparse
    pd.testing.assert_frame_equal(xj.to_long(made), xj.to_long(sparse)[list(xj.to_long(made).columns)])


def test_to_dense_of_some_in_the_order_they_are_named(pair: tuple[xr.Dataset, xr.Dataset]) -> None:
    dense, sparse = pair
    chosen = ["w7", "gpt", "w3"]
    for ds in pair:
        xr.testing.assert_identical(xj.to_dense(ds, raters=chosen), dense.sel(rater=chosen))
    xr.testing.assert_identical(xj.to_dense(sparse, raters="judges"), dense.sel(rater=dense.judge.judges))


def test_scores_probabilities_and_repeats_go_along() -> None:
    frame = pd.DataFrame(
        {
            "item": ["a", "a", "a", "b", "b", "c"],
            "rater": ["ann", "gpt", "gpt", "gpt", "ann", "ann"],
            "label": ["A", "B", "A", None, "C", "NA"],
            **{name: [np.nan, 0.2, 0.6, 0.3, np.nan, np.nan] for name in ("pA", "pB")},
            "pC": [np.nan, 0.6, -0.2 + 0.0, 0.4, np.nan, np.nan],
            "sure": [0.5, 0.9, 0.8, 0.7, np.nan, 0.1],
        }
    )
    options: dict[str, Any] = {
        "judges": ["gpt"],
        "scale": SCALE,
        "ca": "NA",
        "duplicates": "replicate",
        "prob": {"A": "pA", "B": "pB", "C": "pC"},
        "confidence": "sure",
    }
    dense, sparse = (xj.from_long(frame, layout=layout, **options) for layout in ("dense", "sparse"))
    assert sparse.sizes["answer"] == 6  # a probability without a label is an answer
    xr.testing.assert_identical(xj.to_dense(sparse), dense)
    xr.testing.assert_identical(xj.to_sparse(dense), sparse)
    numbers = frame.assign(label=[0.5, 1.5, 2.5, None, 3.5, None]).drop_duplicates(["item", "rater"])
    plain = numbers[["item", "rater", "label"]]
    dense, sparse = (
        xj.from_long(plain, judges=["gpt"], scale=xj.Scale.continuous(), layout=layout)
        for layout in ("dense", "sparse")
    )
    xr.testing.assert_identical(xj.to_dense(sparse), dense)
    xr.testing.assert_identical(xj.to_sparse(dense), sparse)


def test_answers_are_selected_and_tables_stay_whole(pair: tuple[xr.Dataset, xr.Dataset]) -> None:
    dense, sparse = pair
    keep = np.random.default_rng(2).random(sparse.sizes["answer"]) < 0.5
    some = sparse.isel(answer=keep)
    expected = dense.copy(deep=True)
    gone = ~keep
    expected["label"].values[sparse["item_code"].values[gone], sparse["rater_code"].values[gone]] = -1
    xr.testing.assert_identical(xj.to_dense(some), expected)
    for name, options in VERBS.values():
        same(quiet(getattr(xj, name), some, **options), quiet(getattr(xj, name), expected, **options))


@pytest.mark.parametrize("dim", ["item", "rater"])
def test_a_table_that_was_cut_is_found(pair: tuple[xr.Dataset, xr.Dataset], dim: str) -> None:
    cut = pair[1].isel({dim: slice(0, 100)})
    message = f"along `{dim}` has 100 entries, and `{dim}_code` points into one of .*select answers"
    for verb in (xj.reliability, xj.rates, xj.validate, xj.to_dense, xj.pair_agreement):
        with pytest.raises(xj.StructureError, match=message):
            verb(cut)


@pytest.mark.parametrize(("by", "dim"), [("rater", "rater"), ("role", "rater"), ("system", "item")])
@pytest.mark.parametrize("kept", ["memory", "netcdf", "lazy"])
def test_a_sorted_table_is_refused(
    pair: tuple[xr.Dataset, xr.Dataset], by: str, dim: str, kept: str, tmp_path: Path
) -> None:
    sparse = pair[1]
    if kept == "netcdf":
        sparse.to_netcdf(tmp_path / "crowd.nc", engine="h5netcdf")
        sparse = xr.load_dataset(tmp_path / "crowd.nc", engine="h5netcdf")
    elif kept == "lazy":
        sparse = xj.to_sparse(sparse, chunks=50)
    moved = sparse.sortby(by, ascending=False)
    assert not moved[dim].equals(sparse[dim])
    message = f"ids along `{dim}` stand in another order than those `{dim}_code` points into"
    for verb in (xj.rates, xj.reliability, xj.to_long, xj.to_dense, xj.validate, xj.pair_agreement):
        with pytest.raises(xj.StructureError, match=message):
            verb(moved)
    back = moved.isel({dim: moved.indexes[dim].get_indexer(sparse.indexes[dim])})
    assert quiet(xj.reliability, back)["alpha"].item() == quiet(xj.reliability, pair[1])["alpha"].item()


def test_ids_are_renamed_in_their_places(pair: tuple[xr.Dataset, xr.Dataset]) -> None:
    sparse = pair[1]
    names = [f"person {n}" for n in range(sparse.sizes["rater"])][::-1]
    renamed = sparse.assign_coords(rater=("rater", names))
    assert quiet(xj.reliability, renamed)["alpha"].item() == quiet(xj.reliability, sparse)["alpha"].item()
    named = dict(zip(sparse["rater"].values.tolist(), names, strict=True))
    assert xj.to_long(renamed)["rater"].tolist() == xj.to_long(sparse)["rater"].map(named).tolist()


def test_of_a_large_table_some_places_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    sparse = both(table())[1]
    monkeypatch.setattr(room, "_LOOKED_AT", 8)
    sparse = room.sealed(sparse)
    assert quiet(xj.reliability, sparse)["n"].item() > 0
    with pytest.raises(xj.StructureError, match="in another order"):
        xj.reliability(sparse.sortby("item"))


def test_files_keep_it(pair: tuple[xr.Dataset, xr.Dataset], tmp_path: Path) -> None:
    sparse = pair[1]
    sparse.to_netcdf(tmp_path / "crowd.nc", engine="h5netcdf")
    with xr.open_dataset(tmp_path / "crowd.nc", engine="h5netcdf") as read:
        assert read["item_code"].attrs == sparse["item_code"].attrs
        same(quiet(xj.reliability, read), quiet(xj.reliability, sparse))
        xr.testing.assert_equal(xj.to_dense(read)["label"], pair[0]["label"])


def test_chunks_end_where_items_do(pair: tuple[xr.Dataset, xr.Dataset]) -> None:
    dense, sparse = pair
    for chunked in (xj.to_sparse(sparse, chunks=50), xj.to_sparse(dense, chunks=50)):
        ends = np.cumsum(chunked["label"].chunks[0])[:-1]
        codes = sparse["item_code"].values
        assert len(ends) > 5
        assert (codes[ends] != codes[ends - 1]).all()
        xr.testing.assert_identical(chunked.compute(), sparse)
    assert xj.to_sparse(sparse, chunks=10**30)["label"].chunks == ((sparse.sizes["answer"],),)
    wrong: list[Any] = [0, -1, 1.5, float("nan"), "50", [50], True]
    for chunks in wrong:
        with pytest.raises(xj.StructureError, match="at least 1"):
            xj.to_sparse(sparse, chunks=chunks)


@pytest.mark.parametrize("raters", [[], ["w1"], {}])
def test_one_rater_makes_no_pair(pair: tuple[xr.Dataset, xr.Dataset], raters: Any) -> None:
    for ds in pair:
        with pytest.raises(xj.StructureError, match="at least two raters"):
            xj.pair_agreement(ds, raters=raters)


def test_dims_that_the_layout_does_not_have(pair: tuple[xr.Dataset, xr.Dataset]) -> None:
    further = pair[0].isel(rater=slice(0, 3)).expand_dims(prompt=2)
    with pytest.raises(xj.StructureError, match=r"dims 'prompt' too; select"):
        xj.to_sparse(further)


# ----------------------------------------------------------------------------------------------------- verbs

VERBS: dict[str, tuple[str, dict[str, Any]]] = {
    "reliability": (
        "reliability",
        {
            "statistic": ["alpha", "fleiss_kappa", "gwet_ac", "brennan_prediger", "percent_agreement"],
        },
    ),
    "reliability of all": ("reliability", {"raters": "all", "interval": None}),
    "reliability of judges": ("reliability", {"raters": "judges", "statistic": ["alpha", "conger_kappa"]}),
    "reliability by system": ("reliability", {"by": "system"}),
    "reliability, item means": ("reliability", {"statistic": "fleiss_kappa", "shares": "item_mean"}),
    "reliability, CA as category": ("reliability", {"protocol": xj.Protocol(ca="category")}),
    "pooled": ("agreement", {"reference": "pooled"}),
    "pooled, some": (
        "agreement",
        {
            "reference": "pooled",
            "protocol": xj.Protocol(population={"system": ["x", "y"]}),
            "min_overlap": 20,
        },
    ),
    "majority": ("agreement", {"reference": "majority"}),
    "majority on humans": ("agreement", {"reference": "majority", "raters": ["gpt", "w3", "w9"]}),
    "a rater": ("agreement", {"reference": "w3"}),
    "each of some": ("agreement", {"humans": ["w9", "w3"]}),
    "named": ("agreement", {"raters": ["w5", "gpt", "w3"]}),
    "tables": ("tables", {"reference": "pooled"}),
    "tables of a vote": ("tables", {"reference": "majority"}),
    "bounds": ("coverage_bounds", {"reference": "majority", "interval": None}),
    "effective_size": ("effective_size", {"interval": None}),
    "disagreements": ("disagreements", {"judge": "gpt", "reference": "majority"}),
    "compare": ("compare", {"a": "gpt", "b": "vela", "reference": "majority", "interval": None}),
    "loo_validate of some": ("loo_validate", {"humans": ["w3", "w9", "w11"]}),
}


@pytest.mark.parametrize("case", VERBS)
def test_the_layout_changes_no_number(pair: tuple[xr.Dataset, xr.Dataset], case: str) -> None:
    name, options = VERBS[case]
    dense, sparse = (quiet(getattr(xj, name), ds, **options) for ds in pair)
    same(sparse, dense)
    if not isinstance(dense, pd.DataFrame):
        named = {"humans", "raters"}
        assert {k: v for k, v in sparse.attrs.items() if k not in named} == {
            k: v for k, v in dense.attrs.items() if k not in named
        }
        if sparse.attrs["verb"] not in ("compare",):
            xr.testing.assert_identical(quiet(xj.rebuild, sparse, pair[1]), sparse)


@pytest.mark.parametrize("aggregate", [None, "micro", "macro", "item"])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("reliability", {"statistic": ["alpha", "gwet_ac"]}),
        ("reliability", {"resample": "clusters"}),
        ("agreement", {"reference": "pooled"}),
        ("agreement", {"reference": "majority"}),
        ("agreement", {"raters": ["w3", "gpt"]}),
        ("rates", {}),
    ],
)
def test_criteria(wide: tuple[xr.Dataset, xr.Dataset], aggregate: Any, name: str, options: Any) -> None:
    rule = {"item_rule": xj.weighted_share(0.5)} if aggregate == "item" else {}
    protocol = xj.Protocol(aggregate=aggregate, scale_map=xj.one_of("A", "B"), **rule)
    dense, sparse = (quiet(getattr(xj, name), ds, protocol=protocol, **options) for ds in wide)
    of_pairs = [n for n in dense.variables if n not in sparse.variables]
    assert set(of_pairs) == (
        {"n_overlap", "n_joint", "joint_coverage", "rater_a", "rater_b"} if name == "rates" else set()
    )
    same(sparse, dense.drop_vars(of_pairs))


@pytest.mark.parametrize("options", [{}, {"by": "system"}, {"humans": ["w3", "w5"], "judges": ["gpt"]}])
def test_rates_of_every_rater(pair: tuple[xr.Dataset, xr.Dataset], options: Any) -> None:
    dense, sparse = (xj.rates(ds, **options) for ds in pair)
    same(sparse, dense[list(sparse.data_vars)].drop_vars(["rater_a", "rater_b"], errors="ignore"))
    xr.testing.assert_identical(xj.rebuild(sparse, pair[1]), sparse)


def test_numbers_on_a_continuous_scale() -> None:
    frame = table(60, 100, seed=4).drop(columns="criterion")
    frame["label"] = np.where(
        frame["label"] == "NA", np.nan, np.random.default_rng(0).normal(size=len(frame))
    )
    dense, sparse = (
        xj.from_long(frame, judges=JUDGES, scale=xj.Scale.continuous(), layout=layout)
        for layout in ("dense", "sparse")
    )
    for verb, options in ((xj.reliability, {}), (xj.agreement, {"reference": "pooled"})):
        same(quiet(verb, sparse, interval=None, **options), quiet(verb, dense, interval=None, **options))
    for verb in (xj.pair_agreement, xj.rater_agreement):
        with pytest.raises(xj.ProtocolError, match="needs categories"):
            verb(sparse)


def test_ranges_of_a_pooled_crowd_are_no_wider(pair: tuple[xr.Dataset, xr.Dataset]) -> None:
    """Few places an item are completed item by item, where many columns are bounded from outside."""
    dense, sparse = (quiet(xj.coverage_bounds, ds, reference="pooled", interval=None) for ds in pair)
    np.testing.assert_allclose(sparse["accuracy"], dense["accuracy"], rtol=1e-12)
    for found in (sparse["accuracy_range"].values, dense["accuracy_range"].values):
        assert (found[:, 0] <= sparse["accuracy"].values).all()
        assert (sparse["accuracy"].values <= found[:, 1]).all()
    width = [np.ptp(ds["accuracy_range"].values, axis=1) for ds in (sparse, dense)]
    assert (width[0] < width[1]).all()


def test_resampled_intervals_follow_the_same_law(pair: tuple[xr.Dataset, xr.Dataset]) -> None:
    """Reliability draws count vectors, the same in both; pooled agreement draws patterns, which differ."""
    options = {"interval": "percentile", "n_resamples": 200}
    same(*(quiet(xj.reliability, ds, **options) for ds in pair))
    dense, sparse = (
        quiet(xj.agreement, ds, reference="pooled", n_resamples=4000, interval="percentile") for ds in pair
    )
    ends = [name for name in dense.data_vars if str(name).endswith(("_interval", "_se"))]
    same(sparse, dense, but=(*ends, "accuracy_undefined", "kappa_undefined", "mcc_undefined"))
    np.testing.assert_allclose(sparse["accuracy_interval"], dense["accuracy_interval"], atol=0.012)


def test_a_crowd_is_not_named_in_attributes(pair: tuple[xr.Dataset, xr.Dataset]) -> None:
    result = quiet(xj.agreement, pair[1], reference="pooled")
    assert "humans" not in result.attrs
    assert quiet(xj.reliability, pair[1]).attrs["raters"] == "humans"
    some = [f"w{n}" for n in range(100) if f"w{n}" in pair[1]["rater"].values]
    assert len(some) > room.FEW_RATERS
    for verb, options in ((xj.agreement, {"reference": "pooled"}), (xj.reliability, {})):
        dense, sparse = (quiet(verb, ds, humans=some, **options) for ds in pair)
        same(sparse, dense)
        assert sparse.attrs.get("humans", sparse.attrs.get("raters")) == dense.attrs.get(
            "humans", dense.attrs.get("raters")
        )
        xr.testing.assert_identical(quiet(xj.rebuild, sparse, pair[1]), sparse)
    named = quiet(xj.reliability, pair[1], raters=some)
    same(named, quiet(xj.reliability, pair[0], raters=some))


def test_the_accessor_knows_everybody(pair: tuple[xr.Dataset, xr.Dataset]) -> None:
    dense, sparse = pair
    assert sparse.judge.scale == SCALE
    assert sorted(sparse.judge.judges) == JUDGES
    assert sparse.judge.humans.tolist() == dense.judge.humans.tolist()
    assert len(sparse.judge.humans) > room.FEW_RATERS
    same(quiet(sparse.judge.reliability), quiet(dense.judge.reliability))


def test_numbers_as_names_keep_their_type() -> None:
    frame = table(60, 100, seed=5)
    frame["rater"] = [9000 + JUDGES.index(r) if r in JUDGES else int(r[1:]) for r in frame["rater"]]
    dense, sparse = both(frame, judges=[9000, 9001])
    found = [quiet(xj.agreement, ds, reference="pooled") for ds in (dense, sparse)]
    assert [result["rater"].dtype.kind for result in found] == ["i", "i"]
    same(found[1], found[0])
    assert quiet(xj.rater_agreement, sparse)["rater"].dtype.kind == "i"


# ---------------------------------------------------------------------------------------------------- crowds


def test_all_pairs_that_meet(pair: tuple[xr.Dataset, xr.Dataset]) -> None:
    dense, sparse = pair
    matrix = quiet(xj.agreement, dense, raters="all", min_overlap=1)
    found = quiet(xj.pair_agreement, sparse, min_overlap=3, tables=True)
    used = np.triu(matrix["n"].values, 1)
    assert found.attrs["n_pairs_met"] == int((used > 0).sum())
    assert found.attrs["n_pairs_below"] == int(((used > 0) & (used < 3)).sum())
    assert found.sizes["pair"] == int((used >= 3).sum()) > 20
    each = matrix.sel(rater_a=found["rater_a"], rater_b=found["rater_b"])
    for name in set(found.data_vars) - {"count"}:
        one, other = found[name].values, each[name].values
        if one.dtype.kind == "f":
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)
        else:
            np.testing.assert_array_equal(one, other)
    assert (found["count"].sum(["label_a", "label_b"]) == found["n"]).all()
    same(quiet(xj.pair_agreement, dense, min_overlap=3, tables=True), found)
    humans = quiet(xj.pair_agreement, sparse, raters="humans", statistic="kappa", min_overlap=2)
    assert not set(JUDGES) & {*humans["rater_a"].values, *humans["rater_b"].values}
    assert len(xj.tidy(found)) == found.sizes["pair"]


def test_pairs_under_several_criteria(wide: tuple[xr.Dataset, xr.Dataset]) -> None:
    dense, sparse = wide
    matrix = quiet(xj.agreement, dense, raters="all", protocol=MICRO, interval=None)
    found = quiet(xj.pair_agreement, sparse, protocol=MICRO, min_overlap=4)
    each = matrix.sel(rater_a=found["rater_a"], rater_b=found["rater_b"])
    for name in ("accuracy", "kappa", "mcc", "n", "n_items", "n_eligible", "coverage"):
        np.testing.assert_allclose(found[name], each[name], rtol=1e-12)
    assert "bound" not in found.dims
    assert (found["n_items"] < found["n"]).any()
    matrix = quiet(xj.agreement, dense, raters="all")
    found = quiet(xj.pair_agreement, sparse, min_overlap=3)
    assert found["accuracy"].dims == ("pair", "criterion")
    assert (found["n"].max("criterion") >= 3).all()
    each = matrix.sel(rater_a=found["rater_a"], rater_b=found["rater_b"])
    np.testing.assert_array_equal(found["n"], each["n"].transpose("pair", "criterion"))
    enough = found["n"].values >= 3
    np.testing.assert_allclose(
        found["kappa"].values[enough], each["kappa"].transpose("pair", "criterion").values[enough], rtol=1e-12
    )
    assert (found["kappa_reason"].values[~enough] != "ok").all()
    with pytest.raises(xj.ProtocolError, match="pooled criteria are not: interval=None"):
        xj.pair_agreement(sparse, protocol=MICRO, interval="delta")


def test_nobody_meets() -> None:
    frame = pd.DataFrame({"item": [1, 2, 3], "rater": ["a", "b", "c"], "label": ["A", "B", "C"]})
    sparse = xj.from_long(frame, judges=["c"], scale=SCALE, layout="sparse")
    found = xj.pair_agreement(sparse)
    assert found.sizes["pair"] == 0
    assert found.attrs["n_pairs_met"] == 0
    alone = quiet(xj.rater_agreement, sparse)
    assert alone["accuracy_reason"].values.tolist() == ["no overlap"] * 2
    assert np.isnan(alone["accuracy_shrunk"]).all()
    assert quiet(xj.reliability, sparse)["alpha_reason"].item() == "no overlap"


@pytest.mark.parametrize("reference", ["pooled", "majority"])
def test_each_rater_against_the_rest(pair: tuple[xr.Dataset, xr.Dataset], reference: Any) -> None:
    dense, sparse = pair
    judged = quiet(
        xj.rater_agreement, sparse, raters="judges", reference=reference, statistic=["accuracy", "kappa"]
    )
    usual = quiet(xj.agreement, dense, reference=reference)
    for name in ("accuracy", "kappa", "n"):
        np.testing.assert_allclose(judged[name], usual[name], rtol=1e-12)
    found = quiet(xj.rater_agreement, sparse, reference=reference)
    names = found["rater"].values.tolist()
    assert names == dense.judge.humans.tolist()
    for rater in names[::7]:  # left out of the reference and judged by it
        others = [name for name in names if name != rater]
        alone = dense.assign_coords(role=("rater", np.where(dense["rater"] == rater, "judge", "human")))
        one = quiet(xj.agreement, alone, humans=others, judges=[rater], reference=reference, interval=None)
        own = found.sel(rater=rater)
        np.testing.assert_allclose(own["accuracy"], one["accuracy"].item(), rtol=1e-12)
        assert own["n"].item() == one["n"].item()
    same(quiet(xj.rater_agreement, dense, reference=reference), found)
    raw, shrunk, mean = found["accuracy"], found["accuracy_shrunk"], found["prior_mean"]
    known = np.isfinite(raw)
    assert (abs(shrunk - mean) <= abs(raw - mean) + 1e-12).where(known, True).all()
    assert found["accuracy_shrunk_interval"].dims == ("rater", "bound")


def test_the_shrunken_share_by_its_formula(wide: tuple[xr.Dataset, xr.Dataset]) -> None:
    found = quiet(xj.rater_agreement, wide[1], reference="majority", level=0.9)
    assert found["prior_strength"].dims == ("criterion",)
    strength = found["prior_strength"].where(np.isfinite(found["prior_strength"]), drop=True)
    for criterion in strength["criterion"].values:
        one = found.sel(criterion=criterion)
        s, mean, n = float(one["prior_strength"]), float(one["prior_mean"]), one["n_units"]
        expected = (s * mean + n * one["accuracy"].fillna(0)) / (s + n)
        np.testing.assert_allclose(one["accuracy_shrunk"], expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("verb", "options", "error", "message"),
    [
        ("rater_agreement", {"reference": "w3"}, xj.ProtocolError, "'pooled' or 'majority'"),
        ("rater_agreement", {"humans": []}, xj.OverlapError, "nobody to compare"),
        ("rater_agreement", {"level": 1}, xj.ProtocolError, "between 0 and 1"),
        ("rater_agreement", {"protocol": xj.Protocol(aggregate="macro")}, xj.ProtocolError, "'micro'"),
        ("pair_agreement", {"protocol": xj.Protocol(aggregate="macro")}, xj.ProtocolError, "'micro'"),
        ("pair_agreement", {"interval": "percentile"}, xj.ProtocolError, "'delta' and 'wilson'"),
        ("pair_agreement", {"statistic": "f1"}, xj.ProtocolError, "positive"),
        ("pair_agreement", {"raters": ["nobody"]}, xj.StructureError, "no rater 'nobody'"),
    ],
)
def test_arguments_that_do_not_fit(
    pair: tuple[xr.Dataset, xr.Dataset], verb: str, options: Any, error: Any, message: str
) -> None:
    with pytest.raises(error, match=message):
        getattr(xj, verb)(pair[1], **options)


# -------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("agreement", {}),
        ("tables", {}),
        ("coverage_bounds", {}),
        ("loo_validate", {}),
        ("alt_test", {}),
        ("allocate", {"n": 10}),
        ("compare", {"a": "gpt", "b": "vela"}),
        ("adjust", {"features": ["system"]}),
    ],
)
def test_who_tells_humans_apart_refuses_a_crowd(
    pair: tuple[xr.Dataset, xr.Dataset], name: str, options: Any
) -> None:
    message = r"each rater apart.*dense cube.*sparse layout at most 64.*`humans=\[\.\.\.\]`.*to_dense"
    with pytest.raises(xj.StructureError, match=message):
        getattr(xj, name)(pair[1], **options)


@pytest.mark.parametrize("raters", ["all", "humans", "judges"])
def test_everybody_with_everybody_needs_names(raters: str) -> None:
    _, few = both(table(20, 8))
    for verb in (xj.agreement, xj.tables):
        with pytest.raises(xj.StructureError, match=r"few pairs of a crowd meet.*name whom.*pair_agreement"):
            verb(few, raters=raters)


def test_coefficients_that_know_who_said_what(pair: tuple[xr.Dataset, xr.Dataset]) -> None:
    message = r"'conger_kappa', 'light_kappa' tells raters apart.*take alpha"
    with pytest.raises(xj.StructureError, match=message):
        xj.reliability(pair[1], statistic=["alpha", "conger_kappa", "light_kappa"])
    dense, sparse = both(table(40, 8))
    options = {"statistic": ["conger_kappa", "light_kappa"]}
    same(quiet(xj.reliability, sparse, **options), quiet(xj.reliability, dense, **options))


def broken(sparse: xr.Dataset, name: str, **change: Any) -> xr.Dataset:
    ds = sparse.copy(deep=True)
    for at, value in change.items():
        ds[name].values[int(at[1:])] = value
    return ds


ALL = (
    lambda ds: xj.validate(ds),
    lambda ds: xj.reliability(ds),
    lambda ds: xj.agreement(ds, reference="pooled"),
    lambda ds: xj.rates(ds),
    lambda ds: xj.pair_agreement(ds),
    lambda ds: xj.rater_agreement(ds),
)


@pytest.mark.parametrize("call", ALL)
@pytest.mark.parametrize("chunks", [None, 60])
def test_what_is_wrong_is_said_once(pair: tuple[xr.Dataset, xr.Dataset], call: Any, chunks: Any) -> None:
    sparse = pair[1]
    lazily = (lambda ds: ds) if chunks is None else (lambda ds: ds.chunk(answer=chunks))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XJudgeWarning)
        with pytest.raises(xj.StructureError, match=r"sorted by item: use `ds.sortby"):
            call(lazily(sparse.isel(answer=np.random.default_rng(0).permutation(sparse.sizes["answer"]))))
        with pytest.raises(xj.StructureError, match=r"`rater_code` points outside"):
            call(lazily(broken(sparse, "rater_code", _30=999)))
        human = np.flatnonzero(np.isin(sparse["rater_code"], np.flatnonzero(sparse["role"] == "human")))
        item = sparse["item_code"].values[human]
        first = human[:-1][(np.diff(human) == 1) & (np.diff(item) == 0)][20]
        again = {f"_{first + 1}": int(sparse["rater_code"][first])}
        with pytest.raises(xj.StructureError, match=r"1 answers repeat an item.*`duplicates='first'`"):
            call(lazily(broken(sparse, "rater_code", **again)))
        with pytest.raises(xj.VocabularyError, match=r"code 7 \(rater .*: 1 labels\)"):
            call(lazily(broken(sparse, "label", **{f"_{human[40]}": 7})))


def test_a_dataset_without_codes_or_roles() -> None:
    bare = xr.Dataset({"label": ("answer", np.zeros(3, dtype=np.int8), SCALE.to_attrs())})
    with pytest.raises(xj.StructureError, match=r"`item_code\(answer\)`.*`rater_code\(answer\)`.*`role`"):
        xj.reliability(bare)


# ------------------------------------------------------------------------------------------------------ dask

CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    **{
        name: VERBS[name]
        for name in ("reliability", "pooled", "majority", "named", "effective_size", "tables")
    },
    "reliability by system": VERBS["reliability by system"],
    "rates": ("rates", {}),
    "rates by system": ("rates", {"by": "system"}),
    "pairs": ("pair_agreement", {"min_overlap": 3}),
    "each": ("rater_agreement", {"reference": "majority"}),
    "disagreements": VERBS["disagreements"],
}


@pytest.mark.parametrize("case", CALLS)
@pytest.mark.parametrize("codes", ["lazy", "in memory"])
@pytest.mark.parametrize("chunks", [(-1,), "aligned", (1, 40, 7), (3, 2, 1)])
def test_chunks_change_nothing(
    wide: tuple[xr.Dataset, xr.Dataset], case: str, codes: str, chunks: Any
) -> None:
    sparse = wide[1]
    name, options = CALLS[case]
    n = sparse.sizes["answer"]
    if chunks == "aligned":
        chunked, aligned = xj.to_sparse(sparse, chunks=90), True
        sizes = chunked["label"].chunks[0]
    else:
        sizes, aligned = ((n,) if chunks == (-1,) else (*chunks, n - sum(chunks))), chunks == (-1,)
        chunked = sparse.chunk(answer=sizes)
    if codes == "in memory":
        chunked = sparse.assign(label=sparse["label"].chunk(answer=sizes))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = getattr(xj, name)(chunked, **options)
    told = [str(w.message) for w in caught if "cut anew" in str(w.message)]
    assert bool(told) == (not aligned)
    expected = quiet(getattr(xj, name), sparse, **options)
    same(found, expected)
    if name not in ("pair_agreement", "rater_agreement", "disagreements"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            later = getattr(xj, name)(chunked, compute=False, **options)
        assert all(hasattr(later[v].data, "dask") for v in ("n", "n_asked") if v in later)
        same(later.compute(), expected)


@pytest.mark.parametrize("case", CALLS)
def test_crowds_that_are_not_held_at_once(
    wide: tuple[xr.Dataset, xr.Dataset], case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, options = CALLS[case]
    expected = quiet(getattr(xj, name), wide[1], **options)
    monkeypatch.setattr(room, "_HELD", 100)
    monkeypatch.setattr(room, "_BLOCK", 3000)
    monkeypatch.setattr(room, "_LISTED", 64)
    monkeypatch.setattr("xjudge.lazy._ANSWERS_AT_A_TIME", 32)
    same(quiet(getattr(xj, name), wide[1], **options), expected)
    monkeypatch.setattr(room, "_LARGEST", 1000)
    if case in ("reliability", "pooled", "majority"):
        with pytest.raises(xj.StructureError, match=r"are [\d,]+ cells, more than are counted"):
            getattr(xj, name)(wide[1], **options)


def test_places_that_attributes_promise(pair: tuple[xr.Dataset, xr.Dataset]) -> None:
    """What attributes say is believed of lazy codes; too little is found out."""
    sparse = pair[1].copy()
    most = sparse["item_code"].attrs["raters_per_item"]
    assert most == 8
    expected = quiet(xj.reliability, sparse)
    for told in (most, 30, None):
        sparse["item_code"].attrs.pop("raters_per_item", None)
        if told is not None:
            sparse["item_code"].attrs["raters_per_item"] = told
        same(quiet(xj.reliability, xj.to_sparse(sparse, chunks=100)), expected)
    sparse["item_code"].attrs["raters_per_item"] = 3
    with pytest.raises(xj.StructureError, match="says 3; remove the attribute"):
        xj.reliability(xj.to_sparse(sparse, chunks=100))


MEMORY = """
import warnings
import numpy as np, xarray as xr, xjudge as xj
from pathlib import Path

warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
n_items, n_raters = 200_000, 20_000
rater = (rng.integers(0, n_raters, (n_items, 1)) + 3_000 * np.arange(5)) % n_raters
code = lambda values, dim: (("answer",), values.ravel().astype(np.int32), {"instance_dimension": dim})
label = rng.integers(0, 3, n_items * 6).astype(np.int8)
ds = xr.Dataset(
    {"label": ("answer", label, xj.Scale.nominal(list("ABC")).to_attrs())},
    coords={
        "item": np.arange(n_items),
        "rater": np.arange(n_raters + 1),
        "role": ("rater", ["human"] * n_raters + ["judge"]),
        "item_code": code(np.repeat(np.arange(n_items), 6), "item"),
        "rater_code": code(np.column_stack([rater, np.full(n_items, n_raters)]), "rater"),
    },
)
lines = lambda: Path("/proc/self/status").read_text().splitlines()
resident = lambda: int(next(line for line in lines() if "VmHWM" in line).split()[1])
start = resident()
xj.reliability(ds), xj.agreement(ds, reference="pooled"), xj.agreement(ds, reference="majority")
xj.rates(ds), xj.rater_agreement(ds), xj.validate(ds)
print((resident() - start) // 1024)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read where Linux keeps it")
def test_a_crowd_takes_the_memory_of_its_labels() -> None:
    """1.2 million labels, whose cube has 4e9 cells (3.7 GiB); 100 MB are compiled kernels and imports."""
    run = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True)
    assert int(run.stdout) < 400


def test_items_without_answers_at_the_ends() -> None:
    dense = xj.to_dense(both(table(30, 90, seed=7))[1])
    blank = dense.copy(deep=True)
    blank["label"].values[[0, 1, 12, 28, 29]] = -1
    sparse = xj.to_sparse(blank)
    assert sparse.sizes["item"] == 30
    for ds in (sparse, xj.to_sparse(sparse, chunks=20)):
        same(quiet(xj.reliability, ds, by="system"), quiet(xj.reliability, blank, by="system"))
        same(quiet(xj.agreement, ds, reference="pooled"), quiet(xj.agreement, blank, reference="pooled"))
    nothing = sparse.isel(answer=slice(0))
    assert quiet(xj.reliability, nothing)["n_labels"].item() == 0
    assert quiet(xj.pair_agreement, nothing).sizes["pair"] == 0
    assert quiet(xj.rates, nothing)["n_asked"].sum() == 0
    assert np.isnan(quiet(xj.rater_agreement, nothing)["accuracy"]).all()

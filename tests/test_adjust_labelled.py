"""Adjustment for abstention and corrected positive rates on judge datasets."""

from __future__ import annotations

import warnings
from typing import Any

import dask
import numpy as np
import pytest
import xarray as xr
from labels import dataset, random_codes

import xjudge as xj
from xjudge.errors import ProtocolError, StructureError, UndefinedWarning, XJudgeWarning, reason_text
from xjudge.statistics import adjust as room

ROLES = ["human", "human", "judge", "judge"]
MICRO = xj.Protocol(aggregate="micro")


@pytest.fixture(autouse=True)
def quiet() -> Any:
    """Small random data are thin and now and then undefined; tests that ask for warnings catch their own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", XJudgeWarning)
        yield


def example(seed: int = 0, n: int = 120, criteria: int = 2) -> xr.Dataset:
    """Binary labels of two humans and two judges; the second judge abstains on long items."""
    rng = np.random.default_rng(seed)
    long = rng.random(n) < 0.5
    codes = rng.integers(0, 2, (n, 4, criteria))
    codes[:, 3] = np.where(rng.random((n, criteria)) < np.where(long, 0.6, 0.05)[:, None], -2, codes[:, 0])
    wrong = long[:, None] & (rng.random((n, criteria)) < 0.4) & (codes[:, 3] >= 0)
    codes[:, 3] = np.where(wrong, 1 - codes[:, 3], codes[:, 3])
    codes[:, 0] = np.where(rng.random((n, criteria)) < 0.1, -1, codes[:, 0])
    codes[:, 2] = np.where(rng.random((n, criteria)) < 0.1, -3, codes[:, 2])
    return dataset(
        codes,
        ROLES,
        long=long,
        words=rng.normal(size=n),
        kind=np.where(rng.random(n) < 0.3, "chat", "code"),
    )


def cases_of(ds: xr.Dataset, human: int, judge: int, criteria: list[int]) -> tuple[Any, Any, Any]:
    """Codes and items of the eligible cases, one by one."""
    codes, rows = ds["label"].values, []
    for i in range(ds.sizes["item"]):
        for c in criteria:
            if codes[i, human, c] != -1 and codes[i, judge, c] != -1:
                rows.append((int(codes[i, human, c]), int(codes[i, judge, c]), i))
    a, b, items = map(np.array, zip(*rows, strict=True))
    return a, b, items


def columns_of(ds: xr.Dataset) -> Any:
    return np.column_stack([ds["long"].values, ds["words"].values, ds["kind"].values == "code"]).astype(float)


# ------------------------------------------------------------------------------------------------- abstention


@pytest.mark.parametrize("method", room.METHODS)
@pytest.mark.parametrize("micro", [False, True])
def test_it_is_the_numpy_function_on_each_table(method: str, micro: bool) -> None:
    ds = example()
    found = xj.adjust(
        ds,
        ["long", "words", "kind"],
        statistic=["accuracy", "kappa"],
        method=method,
        protocol=MICRO if micro else None,
    )
    assert found["accuracy_adjusted"].dims == ("reference", "rater", *(() if micro else ("criterion",)))
    assert found["feature"].values.tolist() == ["long", "words", "kind=code"]
    for h, j in ((0, 2), (0, 3), (1, 3)):
        for criteria in [[0, 1]] if micro else [[0], [1]]:
            a, b, items = cases_of(ds, h, j, criteria)
            one = found.isel(reference=h, rater=j - 2)
            one = one if micro else one.isel(criterion=criteria[0])
            known = (a >= 0) & (b >= 0)
            slow = room.adjusted_coefficient(
                ["accuracy", "kappa"], columns_of(ds)[items], a, b, 2, method=method, groups=items
            )
            for k, name in enumerate(("accuracy", "kappa")):
                assert one[f"{name}_adjusted"] == pytest.approx(slow.value[k], abs=1e-12)
                assert one[f"{name}_adjusted_se"] == pytest.approx(slow.standard_error[k], abs=1e-12)
            assert one["accuracy"] == pytest.approx((a == b)[known].mean(), abs=1e-15)
            assert (one["n"], one["n_eligible"]) == (known.sum(), len(a))
            assert one["n_items"] == len(set(items[known]))
            assert one["coverage"] == pytest.approx(known.mean())
            for name, value in slow.positivity._asdict().items():
                assert one[name] == pytest.approx(value, abs=1e-12)
            linked = room.association(columns_of(ds)[items], known, groups=items)
            np.testing.assert_allclose(one["abstention_coefficient"], linked.coefficient, atol=1e-12)
            np.testing.assert_allclose(one["abstention_se"], linked.standard_error, atol=1e-12)
            np.testing.assert_allclose(one["abstention_p_value"], linked.p_value, atol=1e-12)
            np.testing.assert_allclose(one["abstention_odds_ratio"], np.exp(linked.coefficient))


@pytest.mark.parametrize("protocol", [None, MICRO])
def test_ranges_and_counts_are_those_of_the_bounds(protocol: Any) -> None:
    ds = example()
    found = xj.adjust(ds, "long", statistic=["accuracy", "kappa", "phi", "f1"], protocol=protocol)
    other = xj.coverage_bounds(
        ds, statistic=["accuracy", "kappa", "phi", "f1"], protocol=protocol, interval=None
    )
    for name in ("accuracy", "kappa", "phi", "f1"):
        np.testing.assert_allclose(found[f"{name}_range"], other[f"{name}_range"], atol=1e-12)
        assert (found[f"{name}_range_kind"] == other[f"{name}_range_kind"]).all()
        np.testing.assert_allclose(found[name], other[name], atol=1e-12)
    for name in ("n", "n_items", "n_eligible", "coverage"):
        np.testing.assert_allclose(found[name], other[name])


def test_the_adjusted_value_goes_where_the_open_cases_point() -> None:
    # on long items the second judge errs more and abstains more: the covered accuracy flatters it
    one = xj.adjust(example(3, n=600), "long", protocol=MICRO).sel(reference="h1", rater="j2")
    assert one["accuracy_adjusted"] < one["accuracy"] - 0.03
    assert one["accuracy_adjusted"] == pytest.approx(0.8, abs=0.05)
    assert one["abstention_odds_ratio"].item() > 10
    assert one["abstention_p_value"].item() < 1e-6
    lower, upper = one["accuracy_adjusted_interval"].values
    assert lower < one["accuracy_adjusted"] < upper
    lower, upper = one["accuracy_range"].values
    assert lower <= one["accuracy_adjusted"] <= upper


@pytest.mark.parametrize("method", room.METHODS)
def test_without_features_it_is_the_covered_value(method: str) -> None:
    found = xj.adjust(example(), [], statistic=["accuracy", "f1"], method=method)
    for name in ("accuracy", "f1"):
        np.testing.assert_allclose(found[f"{name}_adjusted"], found[name], atol=1e-8)
    np.testing.assert_allclose(found["least_coverage"], found["coverage"], atol=1e-8)
    assert found.sizes["feature"] == 0


@pytest.mark.parametrize("method", room.METHODS)
def test_nothing_changes_where_all_is_covered(method: str) -> None:
    ds = dataset(
        random_codes(1, (40, 4, 1), 2, outcomes=False),
        ROLES,
        size=np.linspace(-1, 1, 40),
        name=["a", "b"] * 20,
    )
    found = xj.adjust(ds, ["size", "name"], method=method)
    np.testing.assert_allclose(found["accuracy_adjusted"], found["accuracy"], atol=1e-8)
    np.testing.assert_allclose(found["accuracy_range"].sel(bound="lower"), found["accuracy"])
    assert (found["least_coverage"] == 1).all()
    assert (found["effective_n"] == 40).all()
    assert (found["abstention_reason"] == "no case is left open").all()


def test_three_categories_and_statistics_without_a_range() -> None:
    scale = xj.Scale.ordinal(["a", "b", "c"])
    ds = dataset(random_codes(4, (90, 4, 1), 3), ROLES, scale, size=np.arange(90) % 5)
    found = xj.adjust(ds, "size", statistic=["accuracy", "mcc"])
    other = xj.coverage_bounds(ds, interval=None)
    np.testing.assert_allclose(found["accuracy_range"], other["accuracy_range"])
    assert (found["mcc_range_kind"] == "none").all()
    assert found["mcc_range"].isnull().all()
    assert found["mcc_adjusted"].notnull().all()


def test_item_verdicts_a_population_and_one_reference() -> None:
    ds = example().assign_coords(polarity=("criterion", [1, 1]))
    protocol = xj.Protocol(aggregate="item", item_rule=xj.all_positive(), population={"kind": ["code"]})
    found = xj.adjust(ds, ["long", "words"], protocol=protocol, reference="h2")
    assert found["accuracy_adjusted"].dims == ("rater",)
    part = ds.isel(item=np.flatnonzero(ds["kind"].values == "code"))
    plain = xj.Protocol(aggregate="item", item_rule=xj.all_positive())
    same = xj.adjust(part, ["long", "words"], protocol=plain, humans=["h2"]).isel(reference=0)
    for name in ("accuracy", "accuracy_adjusted", "accuracy_adjusted_se", "least_coverage", "n_eligible"):
        np.testing.assert_allclose(found[name], same[name], atol=1e-9)


def test_order_of_items_and_feature_coding_do_not_matter() -> None:
    ds = example()
    expected = xj.adjust(ds, ["long", "words", "kind"])
    order = np.random.default_rng(0).permutation(ds.sizes["item"])
    other = ds.isel(item=order).assign_coords(
        long=("item", np.where(ds["long"].values[order], "no", "yes")),
        kind=("item", (ds["kind"].values[order] == "chat").astype(object)),
    )
    got = xj.adjust(other, ["kind", "long", "words"])
    np.testing.assert_allclose(got["accuracy_adjusted"], expected["accuracy_adjusted"], atol=1e-7)
    np.testing.assert_allclose(got["accuracy_adjusted_se"], expected["accuracy_adjusted_se"], atol=1e-7)


def test_clusters_are_a_unit() -> None:
    ds = example().assign_coords(cluster=("item", np.arange(120) // 4))
    items, clusters = xj.adjust(ds, "long"), xj.adjust(ds, "long", resample="clusters")
    np.testing.assert_array_equal(items["accuracy_adjusted"], clusters["accuracy_adjusted"])
    assert (items["accuracy_adjusted_se"] != clusters["accuracy_adjusted_se"]).all()
    a, b, rows = cases_of(ds, 1, 3, [0])
    slow = room.adjusted_coefficient("accuracy", columns_of(ds)[rows][:, :1], a, b, 2, groups=rows // 4)
    got = clusters["accuracy_adjusted_se"].isel(reference=1, rater=1, criterion=0)
    assert got == pytest.approx(slow.standard_error[0], abs=1e-12)


def test_lazy_labels_are_computed_once() -> None:
    ds = example()
    lazy = ds.chunk({"item": 30})
    computes = []
    with dask.config.set(scheduler=lambda *a, **k: computes.append(1) or dask.get(*a, **k)):
        got = xj.adjust(lazy, ["long", "kind"])
    assert len(computes) == 1
    xr.testing.assert_identical(got, xj.adjust(ds, ["long", "kind"]))
    with pytest.raises(ProtocolError, match="lazy"):
        xj.adjust(lazy, "long", compute=False)


def test_a_group_without_a_covered_case_is_told() -> None:
    ds = example()
    codes = ds["label"].values.copy()
    codes[ds["long"].values, 3] = -2
    ds = ds.assign(label=(ds["label"].dims, codes, ds["label"].attrs))
    with pytest.warns(XJudgeWarning, match=r"Positivity: 4 of 8"):
        found = xj.adjust(ds, "long")
    assert (found["least_coverage"].sel(rater="j2") < 0.05).all()
    assert found["accuracy_adjusted"].notnull().all()


def test_all_open_is_undefined_with_a_reason() -> None:
    ds = example()
    codes = ds["label"].values.copy()
    codes[:, 3], codes[:, 1] = -2, -1
    ds = ds.assign(label=(ds["label"].dims, codes, ds["label"].attrs))
    with pytest.warns(UndefinedWarning):
        found = xj.adjust(ds, "long")
    one = found.sel(reference="h1", rater="j2")
    assert (one["accuracy_adjusted_reason"] == "no joint answers").all()
    assert one["accuracy_adjusted"].isnull().all()
    assert one["least_coverage"].isnull().all()
    assert (one["n"] == 0).all()
    assert (one["accuracy_range"].values == [0, 1]).all()
    other = found.sel(reference="h2", rater="j1")
    assert (other["accuracy_adjusted_reason"] == "no overlap").all()
    assert (other["n_eligible"] == 0).all()


def test_features_that_do_not_serve() -> None:
    ds = example(n=30)
    holes = ds["words"].values.copy()
    holes[3] = np.nan
    ds = ds.assign_coords(
        holes=("item", holes),
        far=("item", np.where(np.arange(30) == 2, np.inf, 0.0)),
        name=("item", [f"n{i}" for i in range(30)]),
        when=("item", np.arange(30).astype("datetime64[D]")),
    )
    for feature, message in (
        ("holes", "missing on 1 items"),
        ("far", "infinite"),
        ("when", "datetime64"),
        ("nowhere", "no 'nowhere'"),
        ("role", "lives on"),
    ):
        with pytest.raises(StructureError, match=message):
            xj.adjust(ds, feature)
    with pytest.raises(ProtocolError, match="30 levels"):
        xj.adjust(ds, "name")
    with pytest.raises(ProtocolError, match="twice"):
        xj.adjust(ds, ["words", "words"])
    # an item without any label needs no value
    codes = ds["label"].values.copy()
    codes[3] = -1
    ds = ds.assign(label=(ds["label"].dims, codes, ds["label"].attrs))
    assert xj.adjust(ds, "holes")["accuracy_adjusted"].notnull().all()


def test_a_constant_feature_changes_nothing() -> None:
    ds = example().assign_coords(same=("item", ["x"] * 120))
    found, none = xj.adjust(ds, "same"), xj.adjust(ds, [])
    assert found["feature"].values.tolist() == ["same=x"]
    assert (found["abstention_reason"] == "feature does not vary given the others").all()
    np.testing.assert_allclose(found["accuracy_adjusted"], none["accuracy_adjusted"], atol=1e-9)
    np.testing.assert_allclose(found["accuracy_adjusted_se"], none["accuracy_adjusted_se"], atol=1e-9)


MACRO = xj.Protocol(aggregate="macro")


def test_slices_are_datasets_of_their_own() -> None:
    ds = example(11, 160)
    found = xj.adjust(ds, ["long", "words"], by="kind", statistic=["accuracy", "kappa"], protocol=MICRO)
    assert found["accuracy_adjusted"].dims == ("kind", "reference", "rater")
    for kind in ("chat", "code"):
        part = ds.isel(item=ds["kind"].values == kind)
        alone = xj.adjust(part, ["long", "words"], statistic=["accuracy", "kappa"], protocol=MICRO)
        one = found.sel(kind=kind, drop=True)
        for name in alone.data_vars:
            if alone[name].dtype.kind == "f":
                np.testing.assert_allclose(one[name], alone[name], atol=1e-9, err_msg=str(name))
            else:
                np.testing.assert_array_equal(one[name], alone[name])


def test_a_mean_over_criteria_and_its_error_over_items() -> None:
    ds = example(12, 140)
    names = ["accuracy", "kappa"]
    apart = xj.adjust(ds, ["long", "words"], statistic=names)
    found = xj.adjust(ds, ["long", "words"], statistic=names, protocol=MACRO)
    pooled = xj.adjust(ds, ["long", "words"], statistic=names, protocol=MICRO)
    for name in names:
        for word in ("", "_adjusted", "_range"):
            np.testing.assert_allclose(found[name + word], apart[name + word].mean("criterion"), atol=1e-12)
        assert (found[f"{name}_range_kind"] == "sharp").all()
        # between the error with independent criteria and that with equal ones
        each = apart[f"{name}_adjusted_se"]
        least, most = np.sqrt((each**2).sum("criterion")) / 2, each.sum("criterion") / 2
        assert bool((found[f"{name}_adjusted_se"] <= most + 1e-9).all())
        assert bool((found[f"{name}_adjusted_se"] >= 0.6 * least).all())
    np.testing.assert_allclose(found["abstention_p_value"], pooled["abstention_p_value"])
    np.testing.assert_array_equal(found["n"], apart["n"].sum("criterion"))
    np.testing.assert_allclose(found["least_coverage"], apart["least_coverage"].min("criterion"))
    assert found["n_criteria_included"].dims == ("reference", "rater", "statistic")
    # criteria that are copies of each other: as one criterion
    twin = xr.concat([ds.isel(criterion=0)] * 2, "criterion").assign_coords(criterion=["c0", "c1"])
    twin["label"].attrs = ds["label"].attrs
    twice = xj.adjust(twin, ["long"], protocol=MACRO)
    once = xj.adjust(ds.isel(criterion=[0]), ["long"], protocol=MACRO)
    for name in ("accuracy_adjusted", "accuracy_adjusted_se", "accuracy_range", "accuracy_adjusted_interval"):
        np.testing.assert_allclose(twice[name], once[name], atol=1e-9)


def test_a_criterion_without_value_is_left_out_of_the_mean() -> None:
    ds = example(13, 60)
    ds["label"][:, 3, 1] = -2
    found = xj.adjust(ds, "long", protocol=MACRO).sel(reference="h1", rater="j2")
    alone = xj.adjust(ds, "long").sel(reference="h1", rater="j2", criterion="c0")
    for name in ("accuracy", "accuracy_adjusted", "accuracy_adjusted_se"):
        assert float(found[name]) == pytest.approx(float(alone[name]), abs=1e-12)
    assert int(found["n_criteria_included"].sel(statistic="accuracy")) == 1
    nothing = ds.copy(deep=True)
    nothing["label"][:, 3] = -2
    found = xj.adjust(nothing, "long", protocol=MACRO).sel(reference="h1", rater="j2")
    assert str(found["accuracy_adjusted_reason"].values) != "ok"
    assert np.isnan(found["accuracy_adjusted"])
    assert found["accuracy_range"].values.tolist() == [0.0, 1.0]


@pytest.mark.parametrize("n", [0, 1])
@pytest.mark.parametrize("protocol", [None, MICRO, MACRO])
def test_one_item_or_none(n: int, protocol: Any) -> None:
    ds = dataset(np.ones((n, 2, 2), dtype=int), ["human", "judge"], size=np.arange(n) * 1.0)
    found = xj.adjust(ds, "size", protocol=protocol)
    assert np.isnan(found["accuracy_adjusted_se"]).all()
    assert (found["accuracy_adjusted"].fillna(-1) == (1 if n else -1)).all()
    assert (found["abstention_reason"] != "ok").all()


def test_agreement_weights_act_on_value_estimate_and_range() -> None:
    rng = np.random.default_rng(14)
    codes = rng.integers(0, 3, (90, 2))
    codes[:, 1] = np.where(rng.random(90) < 0.2, -2, codes[:, 1])
    ds = dataset(codes, ["human", "judge"], xj.Scale.ordinal([1, 2, 3]), size=rng.normal(size=90))
    found = xj.adjust(ds, "size", statistic="kappa", weights="quadratic").squeeze(drop=True)
    usual = xj.agreement(ds, statistic="kappa", weights="quadratic", interval=None).squeeze(drop=True)
    bounds = xj.coverage_bounds(ds, statistic="kappa", weights="quadratic", interval=None).squeeze(drop=True)
    assert float(found["kappa"]) == pytest.approx(float(usual["kappa"]), abs=1e-12)
    np.testing.assert_allclose(found["kappa_range"], bounds["kappa_range"], atol=1e-12)
    plain = xj.adjust(ds, "size", statistic="kappa").squeeze(drop=True)
    assert float(plain["kappa_adjusted"]) != float(found["kappa_adjusted"])
    known = codes[:, 1] >= 0
    slow = room.adjusted_coefficient(
        "kappa",
        ds["size"].values[:, None],
        codes[:, 0],
        codes[:, 1],
        3,
        weights=1 - (np.subtract.outer(range(3), range(3)) / 2) ** 2,
    )
    assert float(found["kappa_adjusted"]) == pytest.approx(slow.value[0], abs=1e-12)
    assert float(found["n"]) == known.sum()
    same = xj.adjust(ds, "size", statistic="kappa", costs="quadratic").squeeze(drop=True)
    assert float(same["kappa_adjusted"]) == pytest.approx(float(found["kappa_adjusted"]), abs=1e-12)


@pytest.mark.parametrize(
    "options",
    [
        {"reference": "pooled"},
        {"reference": "majority"},
        {"weights": "linear", "costs": "linear"},
        {"method": "magic"},
        {"interval": "bca"},
        {"resample": "decisions"},
        {"level": 0.0},
        {"statistic": "pearson"},
        {"statistic": "nothing"},
    ],
)
def test_adjust_refuses_what_it_has_no_answer_to(options: Any) -> None:
    with pytest.raises(ProtocolError):
        xj.adjust(example(), "long", **options)


def test_no_interval_on_request_and_tidy_rows() -> None:
    found = xj.adjust(example(), "long", interval=None)
    assert "accuracy_adjusted_interval" not in found
    rows = xj.tidy(xj.adjust(example(), "long"))
    assert len(rows) == 8
    assert {"human", "accuracy_adjusted_lower", "accuracy_range_upper", "effective_n"} <= set(rows.columns)


# ------------------------------------------------------------------------------------------------- prevalence


def slow_counts(ds: xr.Dataset, judge: int, criterion: int, reference: Any) -> tuple[Any, Any]:
    """Labelled table and unlabelled verdicts by going through the items."""
    codes = ds["label"].values
    table, rest = np.zeros((2, 2), dtype=int), np.zeros(2, dtype=int)
    for row in codes[:, :, criterion]:
        said = row[judge]
        if said < 0:
            continue
        if reference == "majority":
            votes = [v for v in row[:2] if v >= 0]
            label = -1 if not votes or (len(votes) == 2 and votes[0] != votes[1]) else votes[0]
        else:
            label = row[reference]
        if label >= 0:
            table[label, said] += 1
        else:
            rest[said] += 1
    return table, rest


METHODS = {
    "naive": room.naive,
    "rogan_gladen": room.rogan_gladen,
    "ppi": room.ppi,
    "ppi++": room.ppi_plus_plus,
}


def sparse(seed: int = 2, n: int = 300) -> xr.Dataset:
    """Humans label some items; missing, CA and invalid on all sides."""
    codes = random_codes(seed, (n, 4, 2), 2)
    rng = np.random.default_rng(seed)
    for judge in (2, 3):
        codes[:, judge] = np.where(
            (rng.random((n, 2)) < 0.8) & (codes[:, 0] >= 0), codes[:, 0], np.abs(codes[:, judge]) % 2
        )
    codes[:40, 2, 0] = -2
    return dataset(codes, ROLES, part=np.where(np.arange(n) < n // 3, "old", "new"))


@pytest.mark.parametrize("method", METHODS)
def test_prevalence_is_the_numpy_function_on_counts(method: str) -> None:
    ds = sparse()
    for reference in ("majority", "h1", "h2"):
        found = xj.prevalence(ds, ["j1", "j2"], method=method, reference=reference)
        assert found["prevalence"].dims == ("rater", "criterion")
        for judge, criterion in ((2, 0), (2, 1), (3, 0)):
            where = reference if reference == "majority" else int(reference[1]) - 1
            table, rest = slow_counts(ds, judge, criterion, where)
            one = found.isel(rater=judge - 2, criterion=criterion)
            slow = METHODS[method](table, rest)
            assert one["prevalence"] == pytest.approx(float(slow.estimate), abs=1e-15, nan_ok=True)
            assert one["prevalence_se"] == pytest.approx(float(slow.standard_error), abs=1e-15, nan_ok=True)
            assert one["prevalence_reason"] == reason_text(slow.reason)
            assert one["prevalence_interval"].values == pytest.approx(
                np.stack([slow.lower, slow.upper]), nan_ok=True
            )
            assert one["hurts"].item() == bool(slow.hurts)
            assert one["tuning"].item() == pytest.approx(float(slow.tuning), nan_ok=True)
            assert (one["n_labelled"], one["n_unlabelled"]) == (table.sum(), rest.sum())
            assert one["labelled_only"] == pytest.approx(table[1].sum() / table.sum())
            assert one["sensitivity"] == pytest.approx(table[1, 1] / table[1].sum())
            assert one["specificity"] == pytest.approx(table[0, 0] / table[0].sum())
            verdicts = table.sum(0) + rest
            assert one["judge_rate"] == pytest.approx(verdicts[1] / verdicts.sum())


def test_strata_are_slices() -> None:
    ds = sparse()
    found = xj.prevalence(ds, "j2", method="stratified", strata="part", reference="h1")
    assert found["prevalence"].dims == ("criterion",)
    assert found["tuning"].dims == ("criterion", "part")
    parts = [ds.isel(item=np.flatnonzero(ds["part"].values == p)) for p in found["part"].values]
    for criterion in (0, 1):
        counts = [slow_counts(part, 3, criterion, 0) for part in parts]
        slow = room.stratified([t for t, _ in counts], [r for _, r in counts])
        assert found["prevalence"][criterion] == pytest.approx(float(slow.estimate), abs=1e-15)
        assert found["prevalence_se"][criterion] == pytest.approx(float(slow.standard_error), abs=1e-15)
        np.testing.assert_allclose(found["tuning"][criterion], slow.tuning)


def test_one_judge_by_name_and_each_human() -> None:
    found = xj.prevalence(sparse(), "j1", reference="each")
    assert found["prevalence"].dims == ("reference", "criterion")
    assert found["rater"].item() == "j1"
    named = xj.prevalence(sparse(), "j1", reference="h2")
    np.testing.assert_array_equal(found["prevalence"].sel(reference="h2"), named["prevalence"])


@pytest.mark.parametrize(
    "options", [{}, {"method": "stratified", "strata": "part"}, {"method": "rogan_gladen"}]
)
def test_prevalence_on_lazy_labels(options: Any) -> None:
    ds = sparse()
    lazy = ds.chunk({"item": 70})
    expected = xj.prevalence(ds, ["j1", "j2"], reference="h1", **options)
    xr.testing.assert_identical(xj.prevalence(lazy, ["j1", "j2"], reference="h1", **options), expected)
    later = xj.prevalence(lazy, ["j1", "j2"], reference="h1", compute=False, **options)
    assert later["prevalence"].chunks is not None
    xr.testing.assert_identical(later.compute(), expected)


def test_item_verdicts_have_a_prevalence() -> None:
    ds = sparse().assign_coords(polarity=("criterion", [1, 1]))
    found = xj.prevalence(
        ds, "j2", reference="h1", protocol=xj.Protocol(aggregate="item", item_rule=xj.all_positive())
    )
    assert found["prevalence"].dims == ()
    assert 0 < found["prevalence"] < 1


def test_no_labels_a_constant_judge_and_all_ca() -> None:
    codes = np.zeros((30, 4, 1), dtype=np.int8)
    codes[:, 0], codes[:10, 1] = -2, 1
    codes[:, 3] = -2
    ds = dataset(codes, ROLES)
    with pytest.warns(UndefinedWarning):
        found = xj.prevalence(ds, ["j1", "j2"], reference="each").isel(criterion=0)
    assert found["prevalence_reason"].sel(reference="h1", rater="j1") == "no labelled case"
    assert found["prevalence_reason"].sel(reference="h2", rater="j2") == "no labelled case"
    constant = found.sel(reference="h2", rater="j1")
    assert constant["prevalence"] == pytest.approx(1 / 3)
    assert constant["tuning"] == 0
    assert not constant["hurts"]
    with pytest.warns(UndefinedWarning):
        found = xj.prevalence(ds, "j1", reference="h2", method="rogan_gladen")
    assert found["prevalence_reason"].item() == "no unlabelled verdict"


@pytest.mark.parametrize(
    "options",
    [
        {"method": "magic"},
        {"method": "stratified"},
        {"strata": "part"},
        {"reference": "pooled"},
        {"protocol": MICRO},
        {"protocol": xj.Protocol(aggregate="macro")},
        {"level": 1.0},
        {"protocol": xj.Protocol(ca="category")},
    ],
)
def test_prevalence_refuses_what_it_has_no_answer_to(options: Any) -> None:
    with pytest.raises(ProtocolError):
        xj.prevalence(sparse(), "j1", **options)


def test_prevalence_of_nobody() -> None:
    with pytest.raises(StructureError, match="j9"):
        xj.prevalence(sparse(), "j9")
    with pytest.raises(StructureError, match="not a judge"):
        xj.prevalence(sparse(), "h1")


def test_the_demo_shows_what_follows_under_assumptions() -> None:
    from argparse import Namespace

    from xjudge._demo import demo

    shown = {key: frame for key, _, frame in demo(Namespace(seed=0))}
    ds = xj.load_example()
    found = xj.adjust(ds, "difficulty_band", reference="ann", protocol=MICRO)
    np.testing.assert_array_equal(shown["adjusted"]["accuracy_adjusted"], found["accuracy_adjusted"])
    np.testing.assert_array_equal(
        shown["adjusted"]["accuracy_range_lower"], found["accuracy_range"].sel(bound="lower")
    )
    rates = shown["prevalence"].set_index("method")
    for method in ("naive", "rogan_gladen", "ppi++"):
        one = xj.prevalence(ds, "orion-large", method=method, reference="ann").sel(criterion="correct")
        assert rates.loc[method, "prevalence"] == float(one["prevalence"])
        assert rates.loc[method, "hurts"] == bool(one["hurts"])


@pytest.mark.parametrize("power", [-1000, -30, 30, 1000])
def test_the_unit_of_a_feature_does_not_matter(power: int) -> None:
    ds = example().assign_coords(size=("item", np.linspace(-3, 5, 120)))
    scaled = ds.assign_coords(size=("item", np.ldexp(ds["size"].values, power)))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        found, expected = xj.adjust(scaled, "size"), xj.adjust(ds, "size")
    for name in ("accuracy_adjusted", "accuracy_adjusted_se", "least_coverage", "abstention_p_value"):
        np.testing.assert_array_equal(found[name], expected[name])
    np.testing.assert_array_equal(
        np.ldexp(found["abstention_coefficient"], power), expected["abstention_coefficient"]
    )

"""Agreement and tables: dims, references, aggregation, reasons, messages, backends, laziness."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import cloudpickle
import dask.array as da
import numpy as np
import pytest
import xarray as xr
from labels import BINARY, dataset, random_codes, slow_table

import xjudge as xj

EXCLUDED = {0: 0, 1: 1}
NEGATIVE = {0: 0, 1: 1, -2: 0}


@pytest.fixture
def ds() -> xr.Dataset:
    codes = random_codes(1, (60, 5, 3), 2)
    return dataset(codes, ["human", "human", "judge", "human", "judge"], system=["a", "b", "c"] * 20)


def quiet(verb: Callable[..., xr.Dataset], *arguments: Any, **options: Any) -> xr.Dataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XJudgeWarning)
        return verb(*arguments, **options)


# ----------------------------------------------------------------------------------------------------- values


def test_each_human_is_a_reference(ds: xr.Dataset) -> None:
    result = quiet(xj.agreement, ds)
    assert result["kappa"].dims == ("reference", "rater", "criterion")
    assert result["reference"].values.tolist() == ["h1", "h2", "h3"]
    assert result["rater"].values.tolist() == ["j1", "j2"]
    for human in ("h1", "h2", "h3"):
        for judge in ("j1", "j2"):
            for criterion in ds["criterion"].values:
                cell = {"criterion": criterion}
                left = ds["label"].sel(rater=human, **cell).values
                right = ds["label"].sel(rater=judge, **cell).values
                table = slow_table(left, right, EXCLUDED, 2)
                one = result.sel(reference=human, rater=judge, **cell)
                assert int(one["n"]) == int(one["n_items"]) == table.sum()
                assert float(one["accuracy"]) == np.trace(table) / table.sum()
                assert int(one["n_eligible"]) == ((left != -1) & (right != -1)).sum()
                assert float(one["rate_reference"]) == table[1].sum() / table.sum()
                assert float(one["rate_rater"]) == table[:, 1].sum() / table.sum()
                assert str(one["kappa_reason"].values) == "ok"


def test_default_statistics_follow_the_scale(ds: xr.Dataset) -> None:
    two = quiet(xj.agreement, ds)
    three = quiet(xj.agreement, ds, protocol=xj.Protocol(ca="category"))
    assert {"accuracy", "kappa", "phi"} <= set(two.data_vars)
    assert {"accuracy", "kappa", "mcc"} <= set(three.data_vars)
    assert "phi" not in three
    assert "rate_rater" not in three


def test_pooled_sums_the_tables_of_all_humans(ds: xr.Dataset) -> None:
    result = quiet(xj.agreement, ds, reference="pooled", protocol=xj.Protocol(aggregate="micro"))
    assert result["accuracy"].dims == ("rater",)
    assert str(result["reference"].values) == "pooled"
    labels = ds["label"].transpose("item", "rater", "criterion").values
    table = sum(slow_table(labels[:, k], labels[:, 2], EXCLUDED, 2) for k in (0, 1, 3))
    assert float(result["accuracy"][0]) == np.trace(table) / table.sum()
    assert int(result["n"][0]) == table.sum()
    usable = labels >= 0
    some = (usable[:, [0, 1, 3]] & usable[:, [2]]).any((1, 2)).sum()
    assert int(result["n_items"][0]) == some


def test_a_named_reference(ds: xr.Dataset) -> None:
    by_name = quiet(xj.agreement, ds, reference="h2")
    each = quiet(xj.agreement, ds).sel(reference="h2")
    assert by_name["kappa"].dims == ("rater", "criterion")
    xr.testing.assert_equal(by_name["kappa"], each["kappa"])


def test_a_judge_as_reference_is_not_judged_by_itself(ds: xr.Dataset) -> None:
    result = quiet(xj.agreement, ds, reference="j1")
    assert result["rater"].values.tolist() == ["j2"]


def test_micro_counts_items_and_not_pairs(ds: xr.Dataset) -> None:
    result = quiet(xj.agreement, ds, protocol=xj.Protocol(aggregate="micro")).sel(reference="h1", rater="j1")
    usable = (ds["label"] >= 0).transpose("item", "rater", "criterion").values
    assert int(result["n_items"]) == (usable[:, 0] & usable[:, 2]).any(1).sum()
    assert int(result["n"]) == (usable[:, 0] & usable[:, 2]).sum()


def test_macro_is_the_weighted_mean_over_defined_criteria() -> None:
    codes = np.array([[[1, 1], [1, 1]], [[0, 1], [1, 1]], [[0, 1], [0, 1]], [[1, 1], [1, 1]]])
    ds = dataset(codes, ["human", "judge"])
    per = quiet(xj.agreement, ds, statistic=["accuracy", "kappa"])
    plain = quiet(xj.agreement, ds, statistic=["accuracy", "kappa"], protocol=xj.Protocol(aggregate="macro"))
    assert float(plain["accuracy"].squeeze()) == float(per["accuracy"].mean())
    assert float(plain["kappa"].squeeze()) == float(per["kappa"].sel(criterion="c0").squeeze())
    assert plain["n_criteria_included"].squeeze().values.tolist() == [2, 1]
    weights = xj.Protocol(aggregate="macro", criterion_weights={"c0": 3, "c1": 1})
    weighted = quiet(xj.agreement, ds, statistic="accuracy", protocol=weights)
    assert float(weighted["accuracy"].squeeze()) == (3 * 0.75 + 1 * 1.0) / 4


def test_recoding_counts_cannot_assess_as_negative(ds: xr.Dataset) -> None:
    result = quiet(xj.agreement, ds, protocol=xj.Protocol(ca="negative", aggregate="micro"))
    labels = ds["label"].transpose("item", "rater", "criterion").values
    table = slow_table(labels[:, 0], labels[:, 2], NEGATIVE, 2)
    assert float(result["accuracy"].sel(reference="h1", rater="j1")) == np.trace(table) / table.sum()


def test_raters_of_one_kind_against_each_other(ds: xr.Dataset) -> None:
    result = quiet(
        xj.agreement, ds, raters="humans", statistic="kappa", protocol=xj.Protocol(aggregate="micro")
    )
    assert result["kappa"].dims == ("rater_a", "rater_b")
    values = result["kappa"].values
    np.testing.assert_array_equal(values, values.T)
    assert np.isnan(np.diag(values)).all()
    assert set(np.diag(result["kappa_reason"].values)) == {"a rater against itself"}
    assert quiet(xj.agreement, ds, raters="all")["n"].sizes["rater_b"] == 5


def test_slices_by_a_coordinate(ds: xr.Dataset) -> None:
    protocol = xj.Protocol(aggregate="micro")
    result = quiet(xj.agreement, ds, by="system", protocol=protocol)
    assert result["kappa"].dims == ("system", "reference", "rater")
    for system in "abc":
        part = quiet(xj.agreement, ds.isel(item=ds["system"].values == system), protocol=protocol)
        xr.testing.assert_equal(result["kappa"].sel(system=system, drop=True), part["kappa"])
        xr.testing.assert_equal(result["n_items"].sel(system=system, drop=True), part["n_items"])


def test_thin_slices_are_undefined_with_the_reason() -> None:
    codes = [[0, 0], [1, 1], [1, 0], [0, 0]]
    ds = dataset(codes, ["human", "judge"], system=["a", "a", "a", "b"])
    result = quiet(xj.agreement, ds, by="system", statistic="accuracy", min_overlap=2)
    assert result["accuracy_reason"].squeeze().values.tolist() == ["ok", "below min_overlap"]
    assert np.isnan(result["accuracy"].sel(system="b")).all()
    assert result["n"].squeeze().values.tolist() == [3, 1]


def test_items_without_a_slice_are_reported() -> None:
    ds = dataset(
        [[0, 0], [1, 1], [1, 0]], ["human", "judge"], system=np.array(["a", None, "b"], dtype=object)
    )
    with pytest.warns(xj.DroppedWarning, match="1 items have no value of 'system'"):
        result = xj.agreement(ds, by="system", statistic="accuracy")
    assert result["system"].values.tolist() == ["a", "b"]


@pytest.mark.parametrize("population", [{"system": ["a", "c"]}, "kept"])
def test_population_keeps_the_cases_it_names(ds: xr.Dataset, population: Any) -> None:
    kept = np.isin(ds["system"].values, ["a", "c"])
    whole = ds.assign_coords(kept=("item", kept))
    result = quiet(xj.agreement, whole, protocol=xj.Protocol(population=population))
    part = quiet(xj.agreement, ds.isel(item=kept))
    for name in ("kappa", "n", "n_eligible", "coverage"):
        xr.testing.assert_equal(result[name], part[name])


def test_population_of_single_cases(ds: xr.Dataset) -> None:
    kept = np.random.default_rng(0).random((60, 3)) < 0.5
    whole = ds.assign(kept=(("item", "criterion"), kept))
    result = quiet(xj.agreement, whole, statistic="accuracy", protocol=xj.Protocol(population="kept"))
    labels = ds["label"].where(xr.DataArray(kept, dims=("item", "criterion")), -1)
    part = quiet(
        xj.agreement,
        ds.assign(label=labels.astype(np.int8).assign_attrs(ds["label"].attrs)),
        statistic="accuracy",
    )
    for name in ("accuracy", "n", "n_eligible"):
        xr.testing.assert_equal(result[name], part[name])


def test_further_dims_come_back() -> None:
    codes = random_codes(3, (40, 3, 2), 2)
    ds = dataset(codes, ["human", "judge", "judge"]).rename(criterion="replicate")
    result = quiet(xj.agreement, ds, protocol=xj.Protocol(aggregate="micro"))
    assert result["kappa"].dims == ("reference", "rater", "replicate")
    one = quiet(xj.agreement, ds.isel(replicate=1))
    xr.testing.assert_equal(result["kappa"].isel(replicate=1, drop=True), one["kappa"].drop_vars("replicate"))


def test_criterion_and_replicate_together() -> None:
    codes = random_codes(4, (50, 2, 3), 2)
    ds = dataset(codes, ["human", "judge"])
    twice = xr.concat(
        [ds, ds.isel(item=slice(None, None, -1)).assign_coords(item=ds["item"])],
        "replicate",
        coords="different",
        compat="equals",
    )
    twice["label"].attrs = ds["label"].attrs
    result = quiet(xj.agreement, twice, protocol=xj.Protocol(aggregate="micro"))
    single = quiet(xj.agreement, ds, protocol=xj.Protocol(aggregate="micro"))
    assert result["kappa"].dims == ("reference", "rater", "replicate")
    for replicate in (0, 1):
        xr.testing.assert_allclose(result["kappa"].isel(replicate=replicate), single["kappa"], rtol=0, atol=0)
        xr.testing.assert_equal(result["n_items"].isel(replicate=replicate), single["n_items"])


# -------------------------------------------------------------------------------------------- degenerate data


def test_no_overlap_is_undefined_and_not_zero() -> None:
    ds = dataset([[0, -1], [1, -1], [-1, 1]], ["human", "judge"])
    with pytest.warns(xj.UndefinedWarning, match="no overlap"):
        result = xj.agreement(ds)
    for name in ("accuracy", "kappa", "phi"):
        assert np.isnan(result[name]).all()
        assert str(result[f"{name}_reason"].values.squeeze()) == "no overlap"
    assert np.isnan(result["coverage"]).all()
    assert int(result["n_eligible"].squeeze()) == 0


def test_all_cannot_assess() -> None:
    ds = dataset([[-2, 1], [-2, 0]], ["human", "judge"])
    result = quiet(xj.agreement, ds)
    assert str(result["kappa_reason"].values.squeeze()) == "no joint answers"
    assert float(result["coverage"].squeeze()) == 0.0


def test_one_item_and_no_item() -> None:
    one = quiet(xj.agreement, dataset([[1, 1]], ["human", "judge"]))
    assert float(one["accuracy"].squeeze()) == 1.0
    assert str(one["kappa_reason"].values.squeeze()) == "only one category in use"
    none = quiet(xj.agreement, dataset(np.empty((0, 2)), ["human", "judge"]))
    assert int(none["n"].squeeze()) == 0
    assert np.isnan(none["accuracy"]).all()


def test_every_criterion_undefined_makes_the_macro_undefined() -> None:
    ds = dataset([[[1, 0], [1, 0]]], ["human", "judge"])
    result = quiet(xj.agreement, ds, statistic="kappa", protocol=xj.Protocol(aggregate="macro"))
    assert str(result["kappa_reason"].values.squeeze()) == "no criterion with a defined value"


# ------------------------------------------------------------------------------------------------ guard rails


def test_one_of_the_identical_coefficients_is_kept() -> None:
    ds = dataset(random_codes(0, (30, 2), 2, outcomes=False), ["human", "judge"])
    with pytest.warns(xj.ProtocolWarning, match="one and the same number"):
        result = xj.agreement(ds, statistic=["accuracy", "phi", "mcc"])
    assert "phi" in result
    assert "mcc" not in result


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"statistic": "kapa"}, "no statistic 'kapa'"),
        ({"statistic": []}, "empty list"),
        ({"statistic": ["kappa", "kappa"]}, "twice"),
        ({"statistic": "f1", "protocol": xj.Protocol(ca="category")}, "`f1` needs a positive"),
        ({"weights": "linear", "costs": "linear"}, "Give `weights`"),
        ({"weights": "linear", "protocol": xj.Protocol(ca="category")}, "'CA' has no place"),
        ({"weights": "steep"}, "'steep'"),
        ({"reference": "h9"}, "no rater 'h9'"),
        ({"judges": ["h1"]}, "'h1' is not a judge"),
        ({"judges": [True]}, "one value per rater"),
        ({"judges": ["j1", "j1"]}, "twice"),
        ({"raters": ["h1"]}, "at least two raters"),
        ({"raters": "all", "reference": "h1"}, "`raters` compares raters with each other"),
        ({"by": "nowhere"}, "no 'nowhere'"),
        ({"by": "role"}, "lives on"),
        ({"interval": "wald"}, "`interval` is None"),
        ({"interval": "wilson", "statistic": "kappa"}, "shares of pairs"),
        ({"resample": "raters"}, "`resample` is one of"),
        ({"resample": "criteria"}, "needs criteria to be pooled"),
        ({"resample": "clusters"}, "coordinate `cluster"),
        ({"level": 95}, "between 0 and 1"),
        ({"interval": "percentile", "n_resamples": 0}, "at least 1"),
        ({"protocol": xj.Protocol(aggregate="macro", criterion_weights={"c0": 1})}, "has no weight"),
        ({"protocol": xj.Protocol(population={"system": ["z"]})}, "keeps no item"),
        ({"protocol": xj.Protocol(population="absent")}, "no variable 'absent'"),
    ],
)
def test_impossible_requests_are_one_clear_error(
    ds: xr.Dataset, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(xj.XJudgeError, match=message) as error:
        xj.agreement(ds, **options)
    assert isinstance(error.value, ValueError)
    assert "\n" not in str(error.value)


def test_a_name_of_two_raters_names_nobody(ds: xr.Dataset) -> None:
    twice = ds.assign_coords(rater=["h1", "h1", "j1", "j2", "j2"])
    for options in ({"reference": "h1"}, {"raters": ["j1", "h1"]}, {"judges": ["j2"]}):
        with pytest.raises(xj.StructureError, match=r"2 raters are called '(h1|j2)'; give each a name"):
            xj.agreement(twice, **options)


def test_distances_need_an_order() -> None:
    ds = dataset([[0, 1], [1, 2]], ["human", "judge"], xj.Scale.nominal(["a", "b", "c"]))
    with pytest.raises(xj.ProtocolError, match="no order"):
        xj.agreement(ds, weights="quadratic")


def test_scores_of_an_interval_scale_are_its_distances() -> None:
    codes = [[0, 0], [1, 2], [2, 2], [2, 1], [0, 1], [1, 1]]
    even = quiet(
        xj.agreement, dataset(codes, ["human", "judge"], xj.Scale.interval([1, 2, 3])), weights="linear"
    )
    uneven = quiet(
        xj.agreement, dataset(codes, ["human", "judge"], xj.Scale.interval([1, 2, 9])), weights="linear"
    )
    ordinal = quiet(
        xj.agreement, dataset(codes, ["human", "judge"], xj.Scale.ordinal([1, 2, 9])), weights="linear"
    )
    assert float(even["kappa"].squeeze()) == float(ordinal["kappa"].squeeze())
    assert float(even["kappa"].squeeze()) != float(uneven["kappa"].squeeze())


def test_recoding_without_a_canonical_category_warns() -> None:
    ds = dataset(random_codes(0, (30, 2), 2, outcomes=False), ["human", "judge"])
    with pytest.warns(xj.ProtocolWarning, match="invalid outputs"):
        xj.agreement(ds, statistic="accuracy", protocol=xj.Protocol(invalid="negative"))


def test_codes_outside_the_scale_name_rater_criterion_and_count(
    ds: xr.Dataset, backend: Callable[[xr.Dataset], xr.Dataset]
) -> None:
    wrong = ds.copy(deep=True)
    wrong["label"].values[3, 2, 1] = 7
    wrong["label"].values[9, 2, 1] = 7
    with pytest.raises(xj.VocabularyError, match=r"code 7 \(rater j1, criterion c1: 2 labels\)"):
        quiet(xj.agreement, backend(wrong))
    with pytest.raises(xj.VocabularyError, match="code 7"):
        quiet(xj.validate, backend(wrong))


# ----------------------------------------------------------------------------------------- backends, laziness

CALLS: list[tuple[Callable[..., xr.Dataset], dict[str, Any]]] = [
    (xj.agreement, {}),
    (xj.agreement, {"reference": "pooled", "protocol": xj.Protocol(aggregate="micro")}),
    (xj.agreement, {"reference": "majority", "protocol": xj.Protocol(ca="category")}),
    (xj.agreement, {"by": "system", "protocol": xj.Protocol(aggregate="macro")}),
    (xj.agreement, {"protocol": xj.Protocol(aggregate="item", item_rule=xj.weighted_share(0.5))}),
    (xj.agreement, {"protocol": xj.Protocol(population={"system": ["a"]}), "raters": "all"}),
    (xj.tables, {}),
    (xj.tables, {"raters": "judges", "by": "system"}),
    (xj.rates, {}),
    (xj.rates, {"by": "system", "protocol": xj.Protocol(aggregate="micro")}),
    (xj.sweep, {"protocols": xj.Protocol.grid(ca=["exclude", "negative"], aggregate=["micro", "macro"])}),
]


@pytest.mark.filterwarnings("ignore:Labels are chunked")
@pytest.mark.parametrize(("verb", "options"), CALLS)
def test_every_backend_gives_the_same_bits(
    ds: xr.Dataset, backend: Callable[[xr.Dataset], xr.Dataset], verb: Any, options: dict[str, Any]
) -> None:
    xr.testing.assert_identical(quiet(verb, backend(ds), **options), quiet(verb, ds, **options))


@pytest.mark.parametrize(("verb", "options"), CALLS)
def test_one_compute_and_none_before(
    ds: xr.Dataset, count_computes: Any, verb: Any, options: dict[str, Any]
) -> None:
    lazy = ds.chunk(item=(20, 7, 33))  # coordinates become lazy too
    with count_computes() as computes:
        later = quiet(verb, lazy, compute=False, **options)
        assert computes.n == 0
        assert all(variable.chunks is not None for variable in later.data_vars.values())
        now = quiet(verb, lazy, **options)
        assert computes.n == 1
        done = later.compute()
        assert computes.n == 2
    xr.testing.assert_identical(done, now)


def test_lazy_results_carry_neither_labels_nor_item_ids() -> None:
    small = dataset(random_codes(0, (4, 3, 2), 2), ["human", "human", "judge"])
    labels = da.zeros((50_000, 3, 2), chunks=(10_000, 3, 2), dtype=np.int8)
    coords = {name: small[name] for name in ("rater", "role", "identity", "criterion")}
    ds = xr.Dataset({"label": (small["label"].dims, labels, small["label"].attrs)}, coords=coords)
    ds = ds.assign_coords(item=[f"a rather long item id {n}" for n in range(50_000)])
    for options in ({}, {"reference": "majority"}, {"protocol": xj.Protocol(aggregate="micro")}):
        later = quiet(xj.agreement, ds, compute=False, statistic="accuracy", **options)
        assert len(cloudpickle.dumps(dict(later.__dask_graph__()))) < 200_000


def test_lazy_results_raise_for_unknown_codes_when_computed(ds: xr.Dataset) -> None:
    wrong = ds.copy(deep=True)
    wrong["label"].values[3, 2, 1] = 7
    later = quiet(xj.agreement, wrong.chunk(item=10), compute=False)
    with pytest.raises(xj.VocabularyError, match="code 7"):
        later.compute()


# ---------------------------------------------------------------------------- after what users do to datasets


def test_floats_that_where_leaves_behind_are_read_as_codes(ds: xr.Dataset) -> None:
    first = ds["item"].isin(ds["item"][:30])
    kept = ds.where(first)
    assert kept["label"].dtype.kind == "f"
    kept = kept.assign_coords(role=ds["role"], identity=ds["identity"])
    result = quiet(xj.agreement, kept, statistic="kappa")
    part = quiet(xj.agreement, ds.isel(item=slice(30)), statistic="kappa")
    xr.testing.assert_equal(result["kappa"], part["kappa"])


def test_outer_concat_of_two_datasets(ds: xr.Dataset) -> None:
    other = ds.isel(rater=[4]).assign_coords(rater=["j9"]).isel(item=slice(10, 50))
    both = xr.concat(
        [ds.isel(rater=slice(4)), other], "rater", join="outer", coords="different", compat="equals"
    )
    result = quiet(xj.agreement, both, statistic="accuracy", reference="h1")
    assert result["rater"].values.tolist() == ["j1", "j9"]
    alone = quiet(xj.agreement, ds.isel(item=slice(10, 50)), statistic="accuracy", reference="h1")
    np.testing.assert_array_equal(result["accuracy"].sel(rater="j9"), alone["accuracy"].sel(rater="j2"))


def test_groupby_maps_the_verb(ds: xr.Dataset) -> None:
    protocol = xj.Protocol(aggregate="micro")
    mapped = ds.groupby("system").map(lambda part: quiet(xj.agreement, part, protocol=protocol))
    sliced = quiet(xj.agreement, ds, by="system", protocol=protocol)
    xr.testing.assert_equal(mapped["kappa"].transpose(*sliced["kappa"].dims), sliced["kappa"])


def test_a_float_that_is_no_code_is_an_error(ds: xr.Dataset) -> None:
    wrong = ds.assign(label=(ds["label"] * 0.5).assign_attrs(ds["label"].attrs))
    with pytest.raises(xj.VocabularyError, match="not integral"):
        quiet(xj.agreement, wrong)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda ds: ds.drop_vars("label"), "no variable `label`"),
        (lambda ds: ds.drop_vars("role"), "no coordinate `role`"),
        (lambda ds: ds.assign_coords(role=("rater", ["human"] * 4 + ["llm"])), "'llm'"),
        (lambda ds: ds.assign(label=ds["label"].assign_attrs(judge_scale="", flag_meanings="")), "scale"),
        (lambda ds: ds.assign(label=ds["label"].astype(str)), "fill_value"),
        (lambda ds: ds.rename(item="document"), "no dim 'item'"),
        (lambda ds: ds.isel(rater=[2, 4]), "at least 1 human"),
        (lambda ds: ds.isel(rater=[0, 1]), "at least 1 judge"),
        (lambda ds: ds.to_dataframe(), "DataFrame"),
    ],
)
def test_data_that_are_no_judge_dataset(ds: xr.Dataset, change: Any, message: str) -> None:
    with pytest.raises(xj.XJudgeError, match=message):
        xj.agreement(change(ds))


def test_a_label_array_carries_what_is_needed(ds: xr.Dataset) -> None:
    xr.testing.assert_identical(quiet(ds["label"].judge.agreement), quiet(ds.judge.agreement))


def test_results_do_not_inherit_attributes(ds: xr.Dataset) -> None:
    result = quiet(xj.agreement, ds)
    assert all(not variable.attrs for variable in result.data_vars.values())
    assert result.attrs["verb"] == "agreement"
    assert all(isinstance(value, str | int | float) for value in result.attrs.values())
    assert result.attrs["interval"] == "auto"
    assert quiet(xj.agreement, ds, interval=None).attrs["interval"] == "none"


# ----------------------------------------------------------------------------------------------------- tables


def test_tables_hold_every_case(ds: xr.Dataset) -> None:
    result = quiet(xj.tables, ds)
    assert result["count"].dims == ("reference", "rater", "criterion", "reference_label", "rater_label")
    assert result["count"].dtype == np.int64
    assert result["reference_label"].values.tolist() == ["UNMET", "MET", "missing", "ca", "invalid"]
    assert (result["count"].sum(("reference_label", "rater_label")) == 60).all()
    one = result["count"].sel(reference="h2", rater="j2", criterion="c1")
    left, right = (ds["label"].sel(rater=name, criterion="c1").values for name in ("h2", "j2"))
    assert int(one.sel(reference_label="ca", rater_label="MET")) == ((left == -2) & (right == 1)).sum()
    assert (
        int(one.sel(reference_label="missing", rater_label="invalid")) == ((left == -1) & (right == -3)).sum()
    )


def test_tables_of_a_protocol_name_what_it_leaves_out() -> None:
    scale = xj.Scale.pairwise("A", "B", tie="tie")
    ds = dataset([[0, 2], [1, 1], [2, 2], [0, -2]], ["human", "judge"], scale)
    result = xj.tables(ds, protocol=xj.Protocol(tie="exclude"))
    assert result["rater_label"].values.tolist() == ["A", "B", "missing", "ca", "invalid", "excluded"]
    assert int(result["count"].sel(reference_label="A", rater_label="excluded").squeeze()) == 1
    assert int(result["count"].sel(reference_label="excluded", rater_label="excluded").squeeze()) == 1
    assert int(result["count"].sum()) == 4


def test_tables_refuse_macro(ds: xr.Dataset) -> None:
    with pytest.raises(xj.ProtocolError, match="macro"):
        xj.tables(ds, protocol=xj.Protocol(aggregate="macro"))


def test_binary_scale_is_the_one_of_the_fixture(ds: xr.Dataset) -> None:
    assert ds.judge.scale == BINARY
    assert ds.judge.humans.tolist() == ["h1", "h2", "h3"]
    assert ds.judge.judges.tolist() == ["j1", "j2"]

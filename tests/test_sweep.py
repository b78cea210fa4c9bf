"""Sweeps: the same as one call after another, from one pass; their spread; costs; pairs; rebuilding."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from labels import dataset, random_codes

import xjudge as xj


def quiet(verb: Any, *arguments: Any, **options: Any) -> xr.Dataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XJudgeWarning)
        return verb(*arguments, **options)


@pytest.fixture
def ds() -> xr.Dataset:
    codes = random_codes(2, (50, 4, 3), 4)
    roles = ["human", "human", "judge", "judge"]
    return dataset(codes, roles, xj.Scale.ordinal([1, 2, 3, 4]), system=["a", "b"] * 25)


PROTOCOLS = st.lists(
    st.builds(
        xj.Protocol,
        scale_map=st.sampled_from([xj.at_least(2), xj.at_least(3), xj.one_of(1, 4)]),
        ca=st.sampled_from(["exclude", "negative", "category"]),
        invalid=st.sampled_from(["exclude", "category"]),
        population=st.sampled_from([None, {"system": "a"}, {"system": ["a", "b"]}]),
        aggregate=st.sampled_from(["micro", "macro"]),
    ),
    min_size=1,
    max_size=5,
    unique=True,
)


@given(
    protocols=PROTOCOLS,
    reference=st.sampled_from(["each", "pooled", "majority", "h1"]),
    interval=st.sampled_from([None, "auto"]),
    seed=st.integers(0, 1000),
)
def test_a_sweep_is_one_call_after_another(
    protocols: list[xj.Protocol], reference: str, interval: str | None, seed: int
) -> None:
    codes = random_codes(seed, (20, 4, 2), 4)
    roles = ["human", "human", "judge", "judge"]
    ds = dataset(codes, roles, xj.Scale.ordinal([1, 2, 3, 4]), system=["a", "b"] * 10)
    options = {"statistic": ["accuracy", "kappa", "mcc"], "reference": reference, "interval": interval}
    swept = quiet(xj.sweep, ds, protocols, **options)
    for position, protocol in enumerate(protocols):
        one = quiet(xj.agreement, ds, protocol=protocol, **options)
        found = swept.isel(protocol=position, drop=True)
        for name in one.data_vars:
            np.testing.assert_array_equal(found[name].values, one[name].values, err_msg=str(name))


def test_labels_and_coordinates_of_a_sweep(ds: xr.Dataset) -> None:
    grid = xj.Protocol.grid(
        scale_map=[xj.at_least(2), xj.at_least(3)], ca=["exclude", "negative"], aggregate="micro"
    )
    result = quiet(xj.sweep, ds, grid)
    assert result["protocol"].values.tolist() == [
        "≥ 2 · CA excluded · micro",
        "≥ 2 · CA negative · micro",
        "≥ 3 · CA excluded · micro",
        "≥ 3 · CA negative · micro",
    ]
    assert result["scale_map"].values.tolist() == ["at_least(2)"] * 2 + ["at_least(3)"] * 2
    assert result["ca"].values.tolist() == ["exclude", "negative"] * 2
    for name in ("invalid", "tie", "aggregate", "population", "extraction"):
        assert result[name].dims == ("protocol",)
    assert result["kappa"].dims == ("protocol", "reference", "rater")
    kept = result.where(result["ca"] == "negative", drop=True)
    assert kept.sizes["protocol"] == 2


def test_per_criterion_sweeps_keep_the_criterion(ds: xr.Dataset) -> None:
    result = quiet(xj.sweep, ds, xj.Protocol.grid(ca=["exclude", "category"]), statistic="accuracy")
    assert result["accuracy"].dims == ("protocol", "reference", "rater", "criterion")


@pytest.mark.parametrize(
    ("protocols", "message"),
    [
        ([], "at least one protocol"),
        ([xj.Protocol(), xj.Protocol()], "twice"),
        ([xj.Protocol(), xj.Protocol(aggregate="micro")], "mix aggregate=None"),
    ],
)
def test_sweeps_that_make_no_sense(ds: xr.Dataset, protocols: Any, message: str) -> None:
    with pytest.raises(xj.ProtocolError, match=message):
        xj.sweep(ds, protocols)


def test_both_directions_of_recoding_side_by_side() -> None:
    scale = xj.Scale.pairwise("A", "B", tie="tie")
    ds = dataset([[0, 0], [1, -2], [2, 2], [0, 2], [1, 1], [-2, 0]], ["human", "judge"], scale)
    grid = xj.Protocol.grid(ca=[xj.recode_to("A"), xj.recode_to("B")], tie=["category", xj.recode_to("A")])
    with pytest.warns(xj.ProtocolWarning, match="ties"):
        result = xj.sweep(ds, grid, statistic="accuracy", interval=None)
    # A A, B (A|B), tie (tie|A), A (tie|A), B B, (A|B) A
    assert result["accuracy"].squeeze().values.tolist() == [4 / 6, 5 / 6, 4 / 6, 5 / 6]


# -------------------------------------------------------------------------------------------------- spread


def test_spread_against_plain_means(ds: xr.Dataset) -> None:
    grid = xj.Protocol.grid(
        scale_map=[xj.at_least(2), xj.at_least(3)], ca=["exclude", "negative"], aggregate=["micro", "macro"]
    )
    swept = quiet(xj.sweep, ds, grid, statistic=["accuracy", "kappa"], reference="pooled")
    summary = xj.spread(swept)
    assert summary["choice"].values.tolist() == ["scale_map", "ca", "aggregate"]
    for rater in swept["rater"].values:
        values = swept["accuracy"].sel(rater=rater).values
        one = summary.sel(rater=rater)
        assert float(one["accuracy_min"]) == values.min()
        assert float(one["accuracy_spread"]) == values.max() - values.min()
        effects = {}
        for choice in ("scale_map", "ca", "aggregate"):
            means = [
                values[swept[choice].values == level].mean() for level in np.unique(swept[choice].values)
            ]
            effects[choice] = max(means) - min(means)
            assert float(one["accuracy_effect"].sel(choice=choice)) == pytest.approx(
                effects[choice], abs=1e-14
            )
        assert str(one["accuracy_most"].values) == max(effects, key=lambda choice: effects[choice])


def test_spread_leaves_undefined_values_out_and_counts_them() -> None:
    ds = dataset([[[1, 1], [1, 0]], [[-2, 0], [1, 0]]], ["human", "judge"])
    swept = quiet(
        xj.sweep, ds, xj.Protocol.grid(ca=["exclude", "negative"]), statistic="kappa", interval=None
    )
    summary = xj.spread(swept)
    defined = np.isfinite(swept["kappa"].values).sum(0)
    np.testing.assert_array_equal(summary["kappa_n_defined"].values, defined)
    assert not np.isnan(summary["kappa_min"].values[defined > 0]).any()


def test_spread_takes_sweeps_only(ds: xr.Dataset) -> None:
    with pytest.raises(xj.StructureError, match=r"xj\.sweep"):
        xj.spread(quiet(xj.agreement, ds))


# --------------------------------------------------------------------------------------------------- costs


def test_costs_by_name_make_a_dim(ds: xr.Dataset) -> None:
    protocol = xj.Protocol(scale_map=xj.at_least(3), ca="category", aggregate="micro")
    costs = xj.costs_from_scores([0, 1, 0.5])
    result = quiet(xj.agreement, ds, statistic=["accuracy", "kappa"], costs=costs, protocol=protocol)
    assert result["kappa"].dims == ("reference", "rater", "costs")
    assert result["kappa_interval"].dims == ("reference", "rater", "costs", "bound")
    for name, matrix in costs.items():
        one = quiet(xj.agreement, ds, statistic=["accuracy", "kappa"], costs=matrix, protocol=protocol)
        for variable in ("kappa", "kappa_se", "kappa_interval", "accuracy"):
            np.testing.assert_array_equal(result[variable].sel(costs=name).values, one[variable].values)


# --------------------------------------------------------------------------------------------------- pairs


def test_mean_over_pairs_counts_what_it_includes() -> None:
    codes = np.array([[0, 0, 1, 1], [1, 1, 1, 0], [0, 1, 1, 1], [1, 0, 1, -1]])
    ds = dataset(codes, ["judge"] * 4)
    pairs = quiet(xj.agreement, ds, raters="judges", statistic=["accuracy", "phi"], interval=None)
    means = xj.mean_pairwise(pairs)
    accuracy, phi = pairs["accuracy"].values, pairs["phi"].values
    above = np.triu_indices(4, 1)
    assert float(means["accuracy"]) == pytest.approx(accuracy[above].mean())
    defined = phi[above][np.isfinite(phi[above])]
    assert float(means["phi"]) == pytest.approx(defined.mean())
    assert int(means["phi_n_pairs_included"]) == len(defined) < 6
    assert int(means["n_pairs"]) == 6


# ---------------------------------------------------------------------------------------------- rebuilding

RESULTS: list[tuple[Any, dict[str, Any]]] = [
    (xj.agreement, {}),
    (xj.agreement, {"reference": "majority", "raters": "all", "weights": "linear"}),
    (xj.agreement, {"reference": "h2", "by": "system", "min_overlap": 5, "interval": None}),
    (xj.agreement, {"raters": ["h1", "j2"], "costs": xj.costs_from_scores([1, 2, 3, 4])}),
    (xj.agreement, {"interval": "percentile", "n_resamples": 50, "seed": 3, "level": 0.9, "judges": ["j2"]}),
    (xj.sweep, {"protocols": xj.Protocol.grid(ca=["exclude", "category"], aggregate=["micro", "macro"])}),
    (xj.tables, {"reference": "pooled", "humans": ["h1"]}),
    (xj.rates, {"by": "system", "judges": ["j1"]}),
    (xj.rank, {"n_resamples": 50, "seed": 2, "protocol": xj.Protocol(aggregate="micro")}),
    (xj.loo_validate, {"eps": 0.1, "strict": True, "combine": "max_t", "by": "system"}),
    (xj.alt_test, {"min_items": 10, "min_humans": 2, "q": 0.1, "judges": ["j1"]}),
    (xj.adjust, {"features": ["system"], "reference": "h1", "method": "weighting"}),
]


@pytest.mark.parametrize(("verb", "options"), RESULTS)
def test_results_are_rebuilt_from_their_attributes(
    ds: xr.Dataset, verb: Any, options: dict[str, Any]
) -> None:
    result = quiet(verb, ds, **options)
    again = quiet(xj.rebuild, result, ds)
    xr.testing.assert_identical(again, result)


def test_results_are_rebuilt_after_a_file(ds: xr.Dataset, tmp_path: Any) -> None:
    result = quiet(xj.agreement, ds)
    result.to_netcdf(tmp_path / "result.nc", engine="h5netcdf")
    with xr.open_dataset(tmp_path / "result.nc", engine="h5netcdf") as read:
        xr.testing.assert_identical(quiet(xj.rebuild, read, ds), result)


def test_a_changed_value_is_an_error_that_says_where(ds: xr.Dataset) -> None:
    result = quiet(xj.agreement, ds)
    result["kappa"].values[0, 0, 0] += 0.25
    with pytest.raises(xj.StructureError, match=r"`kappa` differs in 1 of 12 cells, by up to 0.25"):
        quiet(xj.rebuild, result, ds)


def test_changed_data_are_an_error(ds: xr.Dataset) -> None:
    result = quiet(xj.agreement, ds, statistic="accuracy")
    other = ds.copy(deep=True)
    other["label"].values[:, 2] = 0
    with pytest.raises(xj.StructureError, match="cannot be rebuilt"):
        quiet(xj.rebuild, result, other)


def test_what_cannot_be_rebuilt(ds: xr.Dataset) -> None:
    with pytest.raises(xj.StructureError, match="verb=None"):
        xj.rebuild(ds, ds)
    result = quiet(xj.agreement, ds)
    nominal = ds.assign(label=ds["label"].assign_attrs(xj.Scale.nominal([1, 2, 3, 4]).to_attrs()))
    with pytest.raises(xj.StructureError, match="scale"):
        xj.rebuild(result, nominal)

"""Standard errors and intervals of agreement and comparisons, against slow oracles and published figures."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from labels import dataset, random_codes
from shared import SHARED, needs_shared, oracle

import xjudge as xj
from xjudge.statistics.coefficients import COEFFICIENTS, evaluate
from xjudge.statistics.gradients import delta_variance, gradient
from xjudge.statistics.resample import multinomial_weights
from xjudge.statistics.weights import weight_matrix

MICRO = xj.Protocol(aggregate="micro")
WATAOKA = [[118, 160], [108, 1852]]


def quiet(verb: Any, *arguments: Any, **options: Any) -> xr.Dataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XJudgeWarning)
        return verb(*arguments, **options)


@pytest.fixture
def ds() -> xr.Dataset:
    codes = random_codes(21, (80, 4, 3), 2)
    return dataset(codes, ["human", "human", "judge", "judge"], cluster=np.arange(80) // 4)


def of_table(table: Any) -> xr.Dataset:
    """A dataset whose only pair table is the given one."""
    rows = [[a, b] for (a, b), n in np.ndenumerate(np.array(table)) for _ in range(n)]
    return dataset(rows, ["human", "judge"])


# -------------------------------------------------------------------------------------------------- gradients


@given(
    name=st.sampled_from(sorted(COEFFICIENTS)),
    cells=st.lists(st.integers(1, 30), min_size=9, max_size=9),
    weighted=st.booleans(),
)
def test_gradients_are_the_slopes(name: str, cells: list[int], weighted: bool) -> None:
    coefficient = COEFFICIENTS[name]
    size = 2 if coefficient.needs != "categories" else 3
    table = np.array(cells[: size * size], dtype=float).reshape(size, size)
    weights = weight_matrix("quadratic", size) if weighted and coefficient.weighted else None
    slope = gradient(name, table, weights)
    for place in np.ndindex(size, size):
        step = np.zeros((size, size))
        step[place] = 1e-4
        up, down = (evaluate(name, table + sign * step, weights).value for sign in (1, -1))
        assert slope[place] == pytest.approx((up - down) / 2e-4, abs=2e-6)
    assert (slope * table).sum() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("cells", "kappa", "phi"),
    [
        ((0.4, 0.1, 0.1, 0.4), 16 / 25, 16 / 25),
        ((0.4, 0.1, 0.2, 0.3), 504 / 625, 13 / 16),
        ((0.5, 0.2, 0.2, 0.1), 200600 / 194481, 200600 / 194481),
        ((0.6, 0.1, 0.2, 0.1), 140400 / 130321, 2675 / 2352),
        ((0.7, 0.2, 0.0, 0.1), 75600 / 83521, 400 / 729),
    ],
)
def test_delta_variances_by_rational_differentiation(
    cells: tuple[float, ...], kappa: float, phi: float
) -> None:
    p11, p10, p01, p00 = cells
    table = 10 * np.array([[p00, p01], [p10, p11]])
    assert 10 * delta_variance("kappa", table) == pytest.approx(kappa, abs=1e-12)
    assert 10 * delta_variance("phi", table) == pytest.approx(phi, abs=1e-12)


def test_gradients_of_undefined_tables_are_undefined() -> None:
    assert np.isnan(gradient("kappa", [[3, 0], [0, 0]])).all()
    assert np.isnan(gradient("phi", np.zeros((4, 2, 2)))).all()


# ------------------------------------------------------------------------------------------ published figures


@pytest.mark.parametrize(
    ("statistic", "se"),
    [("kappa", 0.029734447235132), ("phi", 0.029739974916019), ("accuracy", 0.0068629429197692)],
)
def test_delta_standard_errors_of_a_published_table(statistic: str, se: float) -> None:
    result = xj.agreement(of_table(WATAOKA), statistic=statistic)
    assert float(result[f"{statistic}_se"].squeeze()) == pytest.approx(se, abs=1e-14)


@pytest.mark.parametrize(
    ("statistic", "ends", "spread"),
    [
        ("phi", (0.34524219152622, 0.46194960840977), (0.0010048113151358, 0.00070441283723757)),
        ("kappa", (0.34231094879708, 0.45896340627713), (0.00097277229529452, 0.00069113551970348)),
    ],
)
def test_percentile_intervals_of_a_published_table(
    statistic: str, ends: tuple[float, float], spread: tuple[float, float]
) -> None:
    result = xj.agreement(of_table(WATAOKA), statistic=statistic, interval="percentile", n_resamples=10_000)
    for found, right, sd in zip(result[f"{statistic}_interval"].squeeze().values, ends, spread, strict=True):
        assert abs(found - right) < 4 * sd


def test_mcnemar_against_the_baseline_that_always_says_yes() -> None:
    result = xj.compare(of_table(WATAOKA), "j1", xj.constant("MET"))
    assert float(result["mcnemar_p"].squeeze()) == pytest.approx(0.549487657947, abs=1e-12)
    assert int(result["n_only_a"].squeeze()) == 118
    assert int(result["n_only_b"].squeeze()) == 108


@needs_shared
def test_clustered_by_dialogue() -> None:
    """Nine criteria of a dialogue are one sampling unit: published jackknife errors and intervals."""
    frame = pd.read_csv(SHARED / "data" / "llm_rubric_real.csv", dtype={"item": str, "rater": str})
    ds = xj.from_long(
        frame,
        criterion="criterion",
        role="rater_kind",
        role_names={"llm": "judge"},
        scale=xj.Scale.ordinal([1, 2, 3, 4]),
        ca=[0],
    )
    expected = oracle("llm_rubric")["cluster"]
    options: dict[str, Any] = {
        "statistic": ["accuracy", "kappa", "phi"],
        "reference": "human",
        "judges": ["gpt-3.5-turbo-16k_argmax"],
        "protocol": xj.Protocol(scale_map=xj.at_least(3), aggregate="micro"),
    }
    by_item = xj.agreement(ds, **options).isel(rater=0)
    for name, value in expected["jackknife_se"].items():
        assert float(by_item[f"{name}_se"]) == pytest.approx(value, rel=0.005)
    flat = xj.agreement(ds, resample="decisions", interval="delta", **options).isel(rater=0)
    for name, value in expected["flat_delta_se"].items():
        assert float(flat[f"{name}_se"]) == pytest.approx(value, abs=1e-13)
    drawn = xj.agreement(ds, interval="percentile", n_resamples=10_000, **options).isel(rater=0)
    for name in ("accuracy", "kappa"):
        right = expected["percentile_bootstrap_95"][name]
        for found, end, sd in zip(
            drawn[f"{name}_interval"].values,
            right["interval"],
            right["mc_sd_of_endpoint_at_10000_replicates"],
            strict=True,
        ):
            assert abs(found - end) < 4 * sd


# ----------------------------------------------------------------------------------------------- slow oracles


def item_tables(ds: xr.Dataset, humans: list[int], judge: int) -> npt.NDArray[np.int64]:
    """Counts (item, criterion, 2, 2) of pairs that both sides answered."""
    labels = ds["label"].transpose("item", "criterion", "rater").values
    out = np.zeros((*labels.shape[:2], 2, 2), dtype=np.int64)
    for i, g in np.ndindex(*labels.shape[:2]):
        for human in humans:
            a, b = labels[i, g, human], labels[i, g, judge]
            if a >= 0 and b >= 0:
                out[i, g, a, b] += 1
    return out


@pytest.mark.parametrize("statistic", ["accuracy", "kappa", "phi", "f1"])
@pytest.mark.parametrize("reference", ["h1", "pooled"])
def test_delta_is_the_sum_of_squared_influences_of_items(
    ds: xr.Dataset, statistic: str, reference: str
) -> None:
    tables = item_tables(ds, [0] if reference == "h1" else [0, 1], 2)
    result = quiet(
        xj.agreement, ds, statistic=statistic, reference=reference, protocol=MICRO, interval="delta"
    )
    slope = gradient(statistic, tables.sum((0, 1)))
    influence = (tables.sum(1) * slope).sum((1, 2))
    assert float(result[f"{statistic}_se"].sel(rater="j1")) == pytest.approx(
        np.sqrt((influence**2).sum()), rel=1e-12
    )
    per = quiet(xj.agreement, ds, statistic=statistic, reference=reference, interval="delta").sel(rater="j1")
    for g in range(3):
        own = gradient(statistic, tables[:, g].sum(0))
        square = ((tables[:, g] * own).sum((1, 2)) ** 2).sum()
        assert float(per[f"{statistic}_se"][g]) == pytest.approx(np.sqrt(square), rel=1e-12)


@pytest.mark.parametrize("reference", ["h1", "pooled"])
def test_delta_of_a_macro_average(ds: xr.Dataset, reference: str) -> None:
    tables = item_tables(ds, [0] if reference == "h1" else [0, 1], 2)
    protocol = xj.Protocol(aggregate="macro", criterion_weights={"c0": 3, "c1": 1, "c2": 2})
    result = quiet(xj.agreement, ds, statistic="kappa", reference=reference, protocol=protocol)
    influence = sum(
        weight / 6 * (tables[:, g] * gradient("kappa", tables[:, g].sum(0))).sum((1, 2))
        for g, weight in enumerate((3, 1, 2))
    )
    expected = float(np.sqrt((np.asarray(influence) ** 2).sum()))
    assert float(result["kappa_se"].sel(rater="j1")) == pytest.approx(expected, rel=1e-12)


def test_delta_by_clusters(ds: xr.Dataset) -> None:
    tables = item_tables(ds, [0, 1], 2)
    result = quiet(
        xj.agreement,
        ds,
        statistic="kappa",
        reference="pooled",
        protocol=MICRO,
        resample="clusters",
        interval="delta",
    )
    slope = gradient("kappa", tables.sum((0, 1)))
    influence = (tables.sum(1) * slope).sum((1, 2)).reshape(20, 4).sum(1)
    assert float(result["kappa_se"].sel(rater="j1")) == pytest.approx(
        np.sqrt((influence**2).sum()), rel=1e-12
    )


def test_percentile_is_the_quantile_of_item_resamples() -> None:
    """Items that are all different are patterns of their own: resample them by hand with the same draws."""
    codes = random_codes(5, (40, 2, 4), 2)
    codes = codes[np.unique(codes.reshape(40, -1), axis=0, return_index=True)[1]]
    order = np.lexsort(codes.reshape(len(codes), -1).T[::-1])
    ds = dataset(codes[order], ["human", "judge"])
    result = quiet(
        xj.agreement, ds, statistic="accuracy", protocol=MICRO, interval="percentile", n_resamples=300, seed=4
    )
    tables = item_tables(ds, [0], 1).sum(1)
    # patterns stand in their own order, which for these rows is the order of the items
    weights = multinomial_weights(np.ones(len(codes), dtype=int), 300, 4)
    drawn = np.einsum("bi,ixy->bxy", weights, tables)
    values = evaluate("accuracy", drawn).value
    ends = np.nanquantile(values, [0.025, 0.975])
    np.testing.assert_allclose(result["accuracy_interval"].squeeze().values, ends, rtol=1e-12)
    assert float(result["accuracy_undefined"].squeeze()) == np.isnan(values).mean()
    assert float(result["accuracy_se"].squeeze()) == pytest.approx(np.nanstd(values, ddof=1), rel=1e-12)


def test_the_paired_difference_uses_both_judges_on_the_same_items(ds: xr.Dataset) -> None:
    labels = ds["label"].transpose("item", "criterion", "rater").values
    usable = (labels[..., [0, 2, 3]] >= 0).all(-1)
    hits = [(labels[..., 0] == labels[..., judge]) & usable for judge in (2, 3)]
    n = usable.sum()
    result = quiet(xj.compare, ds, "j1", "j2", reference="h1", protocol=MICRO, humans=["h1"])
    assert int(result["n"]) == n
    difference = (hits[0].sum() - hits[1].sum()) / n
    assert float(result["accuracy_difference"]) == pytest.approx(difference, abs=1e-15)
    influence = (hits[0].astype(int) - hits[1] - difference * usable).sum(1) / n
    assert float(result["accuracy_difference_se"]) == pytest.approx(np.sqrt((influence**2).sum()), rel=1e-12)


@pytest.mark.parametrize("statistic", ["accuracy", "kappa", "phi", "f1"])
def test_ends_of_a_comparison_change_their_sign_with_its_sides(ds: xr.Dataset, statistic: str) -> None:
    options: dict[str, Any] = {"statistic": statistic, "reference": "h1", "protocol": MICRO, "humans": ["h1"]}
    forth = quiet(xj.compare, ds, "j1", "j2", **options)
    back = quiet(xj.compare, ds, "j2", "j1", **options)
    name = f"{statistic}_difference"
    ends = forth[f"{name}_interval"].values
    np.testing.assert_allclose(ends, -back[f"{name}_interval"].values[::-1], rtol=1e-12)
    np.testing.assert_allclose(ends.mean(), float(forth[name]), rtol=1e-12)  # t on the difference itself
    for side, other in (("a", "b"), ("b", "a")):
        np.testing.assert_array_equal(
            forth[f"{statistic}_{side}_interval"].values, back[f"{statistic}_{other}_interval"].values
        )


@pytest.mark.parametrize(
    ("name", "to", "back"),
    [
        ("kappa", np.arctanh, np.tanh),
        ("phi", np.arctanh, np.tanh),
        ("f1", lambda x: np.log(x / (1 - x)), lambda y: 1 / (1 + np.exp(-y))),
        ("gwet_ac1", lambda x: -np.log(1 - x), lambda y: 1 - np.exp(-y)),
    ],
)
def test_scales_of_delta_intervals(name: str, to: Any, back: Any) -> None:
    """Symmetric about the estimate on the scale that the coverage study chose, with t of n - 1 degrees."""
    table = np.array([[20, 4], [3, 13]])
    result = xj.agreement(of_table(table), statistic=name, interval="delta")
    value, se = (float(result[key].squeeze()) for key in (name, f"{name}_se"))
    slope = (to(value + 1e-6) - to(value - 1e-6)) / 2e-6
    half = 2.0226909200367595 * slope * se  # the 97.5 % quantile of t with 39 degrees of freedom
    ends = result[f"{name}_interval"].squeeze().values
    np.testing.assert_allclose(ends, [back(to(value) - half), back(to(value) + half)], rtol=1e-8)


# ------------------------------------------------------------------------------------------------ invariances

METHODS = ("delta", "percentile", "bca", "studentized")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("protocol", [xj.Protocol(), MICRO, xj.Protocol(aggregate="macro")])
def test_item_order_and_chunks_change_nothing(ds: xr.Dataset, method: str, protocol: xj.Protocol) -> None:
    options = {
        "interval": method,
        "protocol": protocol,
        "n_resamples": 60,
        "statistic": ["accuracy", "kappa"],
    }
    whole = quiet(xj.agreement, ds, **options)
    shuffled = quiet(xj.agreement, ds.isel(item=np.random.default_rng(0).permutation(80)), **options)
    xr.testing.assert_allclose(shuffled, whole, rtol=1e-12)
    xr.testing.assert_identical(quiet(xj.agreement, ds.chunk(item=(50, 1, 29)), **options), whole)


@settings(max_examples=15)
@given(seed=st.integers(0, 10**6))
def test_a_rater_who_says_nothing_changes_no_interval(seed: int) -> None:
    codes = random_codes(seed, (25, 3, 2), 2)
    ds = dataset(codes, ["human", "judge", "judge"])
    silent = dataset(
        np.concatenate([codes, np.full((25, 1, 2), -1)], axis=1), ["human", "judge", "judge", "human"]
    )
    for method in ("delta", "percentile"):
        options = {"interval": method, "protocol": MICRO, "n_resamples": 40, "statistic": "accuracy"}
        a = quiet(xj.agreement, ds, **options)
        b = quiet(xj.agreement, silent, **options).sel(reference=["h1"])
        np.testing.assert_array_equal(a["accuracy_interval"].values, b["accuracy_interval"].values)


@pytest.mark.parametrize("method", METHODS)
def test_wider_at_higher_levels_and_around_the_estimate(ds: xr.Dataset, method: str) -> None:
    options = {
        "interval": method,
        "protocol": MICRO,
        "reference": "pooled",
        "statistic": "kappa",
        "n_resamples": 400,
    }
    narrow, wide = (quiet(xj.agreement, ds, level=level, **options) for level in (0.8, 0.99))
    for result in (narrow, wide):
        low, high = (result["kappa_interval"].sel(bound=bound) for bound in ("lower", "upper"))
        assert (low <= result["kappa"]).all()
        assert (result["kappa"] <= high).all()
    assert (wide["kappa_interval"].sel(bound="upper") > narrow["kappa_interval"].sel(bound="upper")).all()
    assert (wide["kappa_interval"].sel(bound="lower") < narrow["kappa_interval"].sel(bound="lower")).all()


def test_wilson_at_the_limit_and_nothing_from_nothing() -> None:
    ds = dataset([[1, 1], [0, 0], [1, 1]], ["human", "judge"])
    result = quiet(xj.agreement, ds, statistic=["accuracy", "kappa"])
    low, high = result["accuracy_interval"].squeeze().values
    assert high == 1.0
    assert low == pytest.approx(3 / (3 + 1.959963984540054**2), abs=1e-12)
    # every influence is zero: the delta method has nothing to go on, and what was not seen bounds kappa
    assert float(result["kappa_se"].squeeze()) == 0.0
    low, high = result["kappa_interval"].squeeze().values
    assert high == 1.0
    more = np.diag([1.0, 2.0]) + 1.959963984540054**2 * np.array([[0, 0.5], [0.5, 0]])
    assert low == pytest.approx(float(evaluate("kappa", more).value), abs=1e-12)
    none = quiet(xj.agreement, dataset([[-1, 1]], ["human", "judge"]))
    assert np.isnan(none["accuracy_interval"]).all()
    assert np.isnan(none["accuracy_se"]).all()


@pytest.mark.parametrize("resample", ["criteria", "items+criteria"])
def test_criteria_as_units(ds: xr.Dataset, resample: str) -> None:
    for aggregate in ("micro", "macro"):
        protocol = xj.Protocol(aggregate=aggregate)
        result = quiet(
            xj.agreement, ds, statistic="accuracy", protocol=protocol, resample=resample, n_resamples=200
        )
        low, high = (result["accuracy_interval"].sel(bound=bound) for bound in ("lower", "upper"))
        assert (low <= high).all()
        assert result.attrs["law"] == "multinomial"
    alone = quiet(xj.agreement, ds, statistic="accuracy")
    spread = quiet(
        xj.agreement,
        ds,
        statistic="accuracy",
        protocol=xj.Protocol(aggregate="macro"),
        resample="criteria",
        n_resamples=4000,
    )
    # three criteria drawn with replacement: the interval cannot leave their range
    one = alone["accuracy"].sel(reference="h1", rater="j1").values
    low, high = spread["accuracy_interval"].sel(reference="h1", rater="j1").values
    assert one.min() - 1e-12 <= low <= high <= one.max() + 1e-12


# ---------------------------------------------------------------------------------------------------- ranking


def test_the_best_judge_is_best_and_probabilities_add_up(ds: xr.Dataset) -> None:
    codes = random_codes(8, (100, 4), 2, outcomes=False)
    codes[:, 1] = codes[:, 0]
    ranked = xj.rank(dataset(codes, ["human", "judge", "judge", "judge"]), n_resamples=200)
    assert ranked["rank"].values.tolist()[0] == 1
    assert float(ranked["p_best"][0]) == 1.0
    per = quiet(xj.rank, ds, n_resamples=200)
    np.testing.assert_allclose(per["p_best"].sum("rater").values, 1.0, rtol=1e-12)


def test_equal_judges_share_the_first_rank() -> None:
    codes = np.array([[0, 0, 0], [1, 1, 1], [1, 0, 0]])
    ranked = xj.rank(dataset(codes, ["human", "judge", "judge"]), n_resamples=50)
    assert ranked["rank"].values.tolist() == [1, 1]
    assert ranked["p_best"].values.tolist() == [0.5, 0.5]


def test_a_judge_who_met_nobody_has_no_rank() -> None:
    codes = np.array([[0, 0, -1], [1, 1, -1], [1, 0, -1]])
    ranked = quiet(xj.rank, dataset(codes, ["human", "judge", "judge"]), n_resamples=50)
    assert ranked["rank"].values.tolist() == [1, 0]
    assert ranked["p_best"].values[0] == 1.0
    assert np.isnan(ranked["p_best"].values[1])


# ------------------------------------------------------------------------------------------------ comparisons


def test_every_different_two_and_their_adjusted_p_values() -> None:
    ds = dataset(random_codes(3, (60, 5), 2, outcomes=False), ["human", "judge", "judge", "judge", "human"])
    judges = ["j1", "j2", "j3"]
    result = xj.compare(ds, judges, [*judges, xj.constant("MET")], reference="h1", humans=["h1"])
    assert result["accuracy_difference"].dims == ("pair",)
    pairs = list(zip(result["rater_a"].values.tolist(), result["rater_b"].values.tolist(), strict=True))
    assert pairs == [
        ("j1", "j2"),
        ("j1", "j3"),
        ("j1", "constant('MET')"),
        ("j2", "j3"),
        ("j2", "constant('MET')"),
        ("j3", "constant('MET')"),
    ]
    assert (result["mcnemar_p_holm"] >= result["mcnemar_p"]).all()
    assert (result["mcnemar_p_by"] >= result["mcnemar_p"]).all()
    base = (ds["label"].sel(rater="h1") == 1).mean()
    assert float(result["accuracy_b"][2]) == float(base)


@pytest.mark.parametrize(
    ("a", "b", "options", "message"),
    [
        ("j1", "j1", {}, "two different raters"),
        ("j1", "j9", {}, "no rater 'j9'"),
        (xj.constant("MET"), "j1", {}, "`a` is a rater"),
        ("j1", xj.constant("maybe"), {}, "not a category"),
        ("h1", "j1", {}, "both compared and the reference"),
        ("j1", "j2", {"interval": "wilson"}, "single shares"),
    ],
)
def test_impossible_comparisons(
    ds: xr.Dataset, a: Any, b: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(xj.XJudgeError, match=message):
        xj.compare(ds, a, b, **options)


# ------------------------------------------------------------------------------- humans judged by the vote


def vote_of(codes: npt.NDArray[Any], voters: list[int]) -> npt.NDArray[Any]:
    """Majority of two categories among some raters; missing where it ties."""
    given = codes[:, voters]
    balance = (given == 1).sum(1) - (given == 0).sum(1)
    return np.where(balance == 0, -1, (balance > 0).astype(int))


@pytest.mark.parametrize(
    "protocol", [None, MICRO, xj.Protocol(aggregate="macro")], ids=["apart", "micro", "macro"]
)
@pytest.mark.parametrize("resample", ["items", "clusters", "decisions"])
def test_the_vote_leaves_out_the_judged_human_in_intervals_too(
    protocol: xj.Protocol | None, resample: str
) -> None:
    codes = np.maximum(random_codes(3, (60, 5, 3), 2), -1)
    cluster = np.arange(60) // 4
    ds = dataset(codes, ["human"] * 3 + ["judge"] * 2, cluster=cluster)
    options: dict[str, Any] = {"statistic": "kappa", "protocol": protocol, "resample": resample}
    found = quiet(xj.agreement, ds, reference="majority", raters="all", interval="delta", **options)
    for place in range(5):
        vote = vote_of(codes, [voter for voter in range(3) if voter != place])
        alone = dataset(np.stack([vote, codes[:, place]], axis=1), ["human", "judge"], cluster=cluster)
        right = quiet(xj.agreement, alone, interval="delta", **options).squeeze(("reference", "rater"))
        for end in ("kappa", "kappa_se", "kappa_interval", "n"):
            one = found[end].isel(rater=place)
            np.testing.assert_allclose(one.values, right[end].values, atol=1e-12, err_msg=end)

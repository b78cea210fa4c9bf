"""Numbers instead of categories: agreement and reliability on continuous scales, sums as item scores."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pandas as pd
import pytest
import scipy.stats
import xarray as xr
from labels import dataset

import xjudge as xj
from xjudge.statistics.raters import alpha_of_scores, icc, influence_of_scores
from xjudge.statistics.resample import delta_interval, multinomial_weights, percentile_interval
from xjudge.statistics.scores import HeldPairs

SUMS = ["pearson", "concordance", "mean_error", "mean_absolute_error", "rmse", "limits_of_agreement"]
EVERY = [*SUMS, "spearman", "kendall_tau_b"]
NAMES = [
    "pearson",
    "spearman",
    "kendall_tau_b",
    "concordance",
    "mean_error",
    "mean_absolute_error",
    "rmse",
    "lower_limit_of_agreement",
    "upper_limit_of_agreement",
]
MICRO, MACRO = xj.Protocol(aggregate="micro"), xj.Protocol(aggregate="macro")


def quiet(verb: Any, *arguments: Any, **options: Any) -> xr.Dataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XJudgeWarning)
        return verb(*arguments, **options)


def numbers(scores: Any, roles: list[str], codes: Any = None, **coordinates: Any) -> xr.Dataset:
    """Judge dataset of numbers (item, rater[, criterion]); NaN is missing unless ``codes`` says otherwise."""
    values = np.asarray(scores, dtype=np.float64)
    labels = np.where(np.isnan(values), -1, 0) if codes is None else np.asarray(codes)
    ds = dataset(labels, roles, xj.Scale.continuous(), **coordinates)
    return ds.assign(score=(ds["label"].dims, np.where(labels == 0, values, np.nan)))


def drawn(seed: int = 0, n_items: int = 48, n_criteria: int = 3) -> xr.Dataset:
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(n_items, 1, n_criteria)) * 2 + 50 + rng.normal(size=(n_items, 1, 1))
    scores = truth + rng.normal(size=(n_items, 4, n_criteria)) + np.array([0, 0.3, -0.5, 1])[:, None]
    scores = scores.round(1)
    codes = np.where(rng.random(scores.shape) < 0.2, rng.integers(-3, 0, scores.shape), 0)
    return numbers(
        scores,
        ["human", "human", "judge", "judge"],
        codes,
        cluster=np.arange(n_items) // 4,
        system=(["a", "b", "c"] * n_items)[:n_items],
    )


@pytest.fixture
def ds() -> xr.Dataset:
    return drawn()


def pairs_of(
    ds: xr.Dataset, left: list[str], right: str, criteria: slice = slice(None)
) -> tuple[Any, Any, Any]:
    """Pairs of numbers, and the item of each."""
    x = ds["score"].sel(rater=left).values[:, :, criteria]
    y = np.broadcast_to(ds["score"].sel(rater=[right]).values[:, :, criteria], x.shape)
    used = ~(np.isnan(x) | np.isnan(y))
    item = np.broadcast_to(np.arange(len(x))[:, None, None], x.shape)
    return x[used], y[used], item[used]


# -------------------------------------------------------------------------------------------------- agreement


def test_default_statistics(ds: xr.Dataset) -> None:
    result = quiet(xj.agreement, ds)
    assert {"pearson", "concordance", "mean_absolute_error"} <= set(result.data_vars)
    assert result["pearson"].dims == ("reference", "rater", "criterion")
    assert "kappa" not in result


def test_values_against_scipy_and_plain_means(ds: xr.Dataset) -> None:
    result = quiet(xj.agreement, ds, statistic=EVERY, interval=None)
    for human in ("h1", "h2"):
        for judge in ("j1", "j2"):
            for g in range(3):
                x, y, _ = pairs_of(ds, [human], judge, slice(g, g + 1))
                one = result.sel(reference=human, rater=judge, criterion=f"c{g}")
                difference = y - x
                spread = 1.96 * difference.std(ddof=1)
                bias2 = (x.mean() - y.mean()) ** 2
                expected = {
                    "pearson": scipy.stats.pearsonr(x, y).statistic,
                    "spearman": scipy.stats.spearmanr(x, y).statistic,
                    "kendall_tau_b": scipy.stats.kendalltau(x, y).statistic,
                    "concordance": 2 * np.cov(x, y, ddof=0)[0, 1] / (x.var() + y.var() + bias2),
                    "mean_error": difference.mean(),
                    "mean_absolute_error": np.abs(difference).mean(),
                    "rmse": math.sqrt((difference**2).mean()),
                    "lower_limit_of_agreement": difference.mean() - spread,
                    "upper_limit_of_agreement": difference.mean() + spread,
                }
                assert sorted(expected) == sorted(NAMES)
                for name, value in expected.items():
                    assert float(one[name]) == pytest.approx(value, rel=1e-10, abs=1e-10), name
                assert int(one["n"]) == int(one["n_items"]) == len(x)


def test_counts_are_those_of_the_labels(ds: xr.Dataset) -> None:
    codes = ds["label"].values
    result = quiet(xj.agreement, ds, protocol=MICRO, reference="pooled")
    both = (codes[:, :2] == 0) & (codes[:, [2]] == 0)
    asked = (codes[:, :2] != -1) & (codes[:, [2]] != -1)
    assert int(result["n"][0]) == both.sum()
    assert int(result["n_eligible"][0]) == asked.sum()
    assert int(result["n_items"][0]) == both.any((1, 2)).sum()


@pytest.mark.parametrize("reference", ["each", "pooled", "h2"])
@pytest.mark.parametrize("aggregate", [None, "micro", "macro"])
@pytest.mark.parametrize("resample", ["items", "decisions"])
@pytest.mark.parametrize("by", [None, "system"])
def test_moments_and_held_numbers_agree(
    ds: xr.Dataset, reference: str, aggregate: Any, resample: str, by: str | None
) -> None:
    options = {"reference": reference, "protocol": xj.Protocol(aggregate=aggregate), "by": by}
    sums = quiet(xj.agreement, ds, statistic=SUMS, resample=resample, **options)
    held = quiet(xj.agreement, ds, statistic=EVERY, resample=resample, **options)
    for name in sums.data_vars:
        if name != "n_criteria_included":
            xr.testing.assert_allclose(sums[name], held[name], rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("statistic", NAMES)
def test_standard_errors_sum_the_influence_of_an_items_pairs(ds: xr.Dataset, statistic: str) -> None:
    result = quiet(xj.agreement, ds, statistic=statistic, reference="pooled", protocol=MICRO)
    clusters = quiet(
        xj.agreement, ds, statistic=statistic, reference="pooled", protocol=MICRO, resample="clusters"
    )
    x, y, item = pairs_of(ds, ["h1", "h2"], "j2")
    psi = HeldPairs(x, y).influence(statistic)
    by_item = np.bincount(item, weights=psi, minlength=48)
    by_cluster = by_item.reshape(12, 4).sum(1)
    assert float(result[f"{statistic}_se"][1]) == pytest.approx(math.sqrt((by_item**2).sum()), rel=1e-9)
    assert float(clusters[f"{statistic}_se"][1]) == pytest.approx(math.sqrt((by_cluster**2).sum()), rel=1e-9)


def test_macro_is_the_mean_over_criteria(ds: xr.Dataset) -> None:
    empty = ds.copy(deep=True)
    empty["label"].values[:, 0, 2] = -2
    empty["score"].values[:, 0, 2] = np.nan
    for statistic in (SUMS, EVERY):
        per = quiet(xj.agreement, empty, statistic=statistic, interval=None).sel(reference="h1", rater="j1")
        macro = quiet(xj.agreement, empty, statistic=statistic, protocol=MACRO).sel(
            reference="h1", rater="j1"
        )
        for name in ("pearson", "rmse"):
            assert float(macro[name]) == pytest.approx(float(per[name][:2].mean()), rel=1e-12)
            assert int(macro["n_criteria_included"].sel(statistic=name)) == 2
            assert np.isfinite(macro[f"{name}_se"])


@pytest.mark.parametrize("resample", ["items", "clusters", "decisions", "items+criteria", "criteria"])
@pytest.mark.parametrize("aggregate", ["micro", "macro"])
def test_methods_agree_where_there_is_much(resample: str, aggregate: str) -> None:
    ds = drawn(3, 400)
    options: dict[str, Any] = {
        "statistic": ["pearson", "kendall_tau_b", "rmse"],
        "reference": "pooled",
        "judges": ["j1"],
        "protocol": xj.Protocol(aggregate=aggregate),
        "resample": resample,
    }
    resampled = quiet(xj.agreement, ds, interval="percentile", n_resamples=300, **options)
    resampled = resampled.squeeze("rater")
    for name in options["statistic"]:
        assert float(resampled[f"{name}_undefined"]) == 0
        low, high = resampled[f"{name}_interval"].values
        assert low < float(resampled[name]) < high
    if resample in ("items", "clusters", "decisions"):
        delta = quiet(xj.agreement, ds, **options).squeeze("rater")
        for method in ("bca", "studentized"):
            other = quiet(xj.agreement, ds, interval=method, n_resamples=300, **options).squeeze("rater")
            for name in options["statistic"]:
                width = float(delta[f"{name}_se"])
                assert float(resampled[f"{name}_se"]) == pytest.approx(width, rel=0.2)
                ends = other[f"{name}_interval"] - delta[f"{name}_interval"]
                assert float(abs(ends).max()) < 0.8 * width


def test_criteria_drawn_twice_count_twice(ds: xr.Dataset) -> None:
    weights = np.array([2.0, 1.0, 1.0])
    macro = xj.Protocol(aggregate="macro", criterion_weights={"c0": 2, "c1": 1, "c2": 1})
    drawn = multinomial_weights([1, 1, 1], 200, 5) * weights
    options = {"statistic": ["rmse", "spearman"], "interval": None}
    per = quiet(xj.agreement, ds, **options).sel(reference="h1", rater="j1")
    options |= {"resample": "criteria", "interval": "auto", "n_resamples": 200, "seed": 5}
    result = quiet(xj.agreement, ds, protocol=macro, **options).sel(reference="h1", rater="j1")
    for name in ("rmse", "spearman"):
        expected = percentile_interval(drawn @ per[name].values / drawn.sum(1))
        np.testing.assert_allclose(result[f"{name}_interval"], [expected.lower, expected.upper], rtol=1e-9)


def test_ends_take_the_t_quantile_of_the_units(ds: xr.Dataset) -> None:
    for resample in ("items", "clusters"):
        result = quiet(
            xj.agreement, ds, statistic="mean_error", reference="pooled", protocol=MICRO, resample=resample
        ).isel(rater=0)
        degrees = int(result["n_items"]) - 1 if resample == "items" else 11
        expected = delta_interval(result["mean_error"], result["mean_error_se"], degrees=degrees)
        np.testing.assert_allclose(
            result["mean_error_interval"], [expected.lower, expected.upper], rtol=1e-12
        )


def test_the_seed_and_not_the_order_of_items_decides(ds: xr.Dataset) -> None:
    options = {"statistic": ["pearson", "spearman"], "interval": "percentile", "n_resamples": 50}
    one = quiet(xj.agreement, ds, seed=3, **options)
    shuffled = ds.isel(item=np.random.default_rng(0).permutation(48))
    other = quiet(xj.agreement, shuffled, seed=3, **options)
    xr.testing.assert_allclose(one, other, rtol=1e-12)
    assert not np.allclose(
        one["pearson_interval"], quiet(xj.agreement, ds, seed=4, **options)["pearson_interval"]
    )


def test_raters_against_each_other(ds: xr.Dataset) -> None:
    result = quiet(xj.agreement, ds, raters="all", statistic=["mean_error", "spearman"], protocol=MICRO)
    np.testing.assert_allclose(result["mean_error"], -result["mean_error"].values.T, rtol=1e-12)
    assert set(np.diag(result["spearman_reason"].values)) == {"a rater against itself"}


def test_population_and_further_dims(ds: xr.Dataset) -> None:
    kept = np.isin(ds["system"].values, ["a", "c"])
    protocol = xj.Protocol(population={"system": ["a", "c"]})
    for options in ({"statistic": SUMS}, {"statistic": EVERY, "interval": "percentile", "n_resamples": 30}):
        result = quiet(xj.agreement, ds, protocol=protocol, **options)
        part = quiet(xj.agreement, ds.isel(item=kept), **options)
        for name in part.data_vars:
            xr.testing.assert_allclose(result[name], part[name], rtol=1e-9)
    repeated = ds.rename(criterion="replicate")
    result = quiet(xj.agreement, repeated, statistic=EVERY, protocol=MICRO)
    assert result["pearson"].dims == ("reference", "rater", "replicate")


@pytest.mark.parametrize("verb", [xj.agreement, xj.reliability])
def test_numbers_that_are_not_finite_are_told_of_in_other_processes(ds: xr.Dataset, verb: Any) -> None:
    """What a lazy result holds is sent there, and asks for the check too."""
    score = ds["score"].copy()
    score[3] = np.inf
    lazy = verb(ds.assign(score=score).chunk(item=7), interval=None, compute=False)
    sent = cloudpickle.loads(cloudpickle.dumps(lazy))
    for result in (lazy, sent):
        with pytest.raises(xj.VocabularyError, match="finite"):
            result.compute(scheduler="synchronous")


def test_a_sweep_over_aggregations(ds: xr.Dataset) -> None:
    protocols = [MICRO, MACRO, xj.Protocol(aggregate="item", item_rule="sum")]
    swept = quiet(xj.sweep, ds, protocols, statistic=SUMS)
    for place, protocol in enumerate(protocols):
        alone = quiet(xj.agreement, ds, protocol=protocol, statistic=SUMS)
        for name in ("pearson", "rmse", "pearson_interval", "n"):
            xr.testing.assert_allclose(swept[name].isel(protocol=place, drop=True), alone[name], rtol=1e-12)


# ---------------------------------------------------------------------------------------- degenerate, refused


@pytest.mark.parametrize("statistic", [SUMS, EVERY])
@pytest.mark.parametrize("interval", ["auto", "percentile", None])
def test_degenerate_numbers(statistic: list[str], interval: Any) -> None:
    def found(scores: Any, codes: Any = None) -> dict[str, str]:
        ds = numbers(scores, ["human", "judge"], codes)
        result = quiet(xj.agreement, ds, statistic=statistic, interval=interval, n_resamples=20).squeeze()
        names = [name for name in NAMES if name in result]
        for name in names:
            assert np.isnan(result[name]) == (str(result[f"{name}_reason"].values) != "ok")
        return {name: str(result[f"{name}_reason"].values) for name in names}

    constant = found([[0.1, 1.0], [0.1, 2.0], [0.1, 3.0]])
    assert constant["pearson"] == "reference is constant"
    assert constant["concordance"] == "ok"
    same = found([[0.1, 0.1], [0.1, 0.1]])
    assert same["pearson"] == "both raters are constant"
    assert same["concordance"] == "all scores are equal"
    assert same["rmse"] == "ok"
    one = found([[1.0, 2.0]])
    assert one["lower_limit_of_agreement"] == "fewer than two pairs"
    assert one["mean_error"] == "ok"
    assert set(found([[1.0, np.nan], [np.nan, 2.0]]).values()) == {"no overlap"}
    assert set(found([[1.0, 1.0], [1.0, 1.0]], [[0, -2], [-2, 0]]).values()) == {"no joint answers"}
    assert set(found(np.empty((0, 2))).values()) == {"no overlap"}


def test_an_exact_judge() -> None:
    ds = numbers([[1.0, 1.0], [2.5, 2.5], [4.0, 4.0]], ["human", "judge"])
    result = quiet(xj.agreement, ds, statistic=EVERY).squeeze()
    assert float(result["concordance"]) == float(result["kendall_tau_b"]) == 1.0
    assert float(result["rmse"]) == float(result["rmse_se"]) == 0.0
    assert np.isnan(result["rmse_interval"]).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"statistic": "kappa"}, "`kappa` needs categories"),
        ({"statistic": ["pearson", "f1"]}, "`f1` needs categories"),
        ({"weights": "linear"}, "are of categories"),
        ({"costs": "linear"}, "are of categories"),
        ({"reference": "majority"}, "majority reference needs categories"),
        ({"interval": "wilson"}, "shares of pairs"),
        ({"protocol": xj.Protocol(ca="negative")}, "needs categories"),
        ({"protocol": xj.Protocol(scale_map=xj.at_least(3))}, "needs categories"),
        ({"statistic": ["rmse", "rmse"]}, "twice"),
    ],
)
def test_what_needs_categories_is_refused(ds: xr.Dataset, options: dict[str, Any], message: str) -> None:
    with pytest.raises(xj.ProtocolError, match=message) as error:
        quiet(xj.agreement, ds, **options)
    assert "\n" not in str(error.value)


# ---------------------------------------------------------------------------------- comparisons and ranks


def triples_of(ds: xr.Dataset, human: str, protocol: xj.Protocol | None = None) -> tuple[Any, ...]:
    """Numbers of a human, of j1 and of j2 where all three gave one, and the item of each."""
    x, a, b = (ds["score"].sel(rater=name).values for name in (human, "j1", "j2"))
    used = ~(np.isnan(x) | np.isnan(a) | np.isnan(b))
    item = np.broadcast_to(np.arange(len(x))[:, None], x.shape)
    return x[used], a[used], b[used], item[used]


@pytest.mark.parametrize("name", NAMES)
def test_a_comparison_on_the_cases_of_both(ds: xr.Dataset, name: str) -> None:
    result = quiet(xj.compare, ds, "j1", "j2", statistic=name, protocol=MICRO, humans=["h1"]).squeeze()
    x, a, b, item = triples_of(ds, "h1")
    of_a, of_b = HeldPairs(x, a), HeldPairs(x, b)
    assert float(result[f"{name}_a"]) == pytest.approx(float(of_a.evaluate(name).value), abs=1e-12)
    assert float(result[f"{name}_b"]) == pytest.approx(float(of_b.evaluate(name).value), abs=1e-12)
    difference = float(result[f"{name}_a"] - result[f"{name}_b"])
    assert float(result[f"{name}_difference"]) == pytest.approx(difference, abs=1e-12)
    psi = np.bincount(item, weights=of_a.influence(name) - of_b.influence(name))
    assert float(result[f"{name}_difference_se"]) == pytest.approx(math.sqrt((psi**2).sum()), abs=1e-12)
    assert int(result["n"]) == len(x)
    assert int(result["n_items"]) == len(set(item.tolist()))
    t = scipy.stats.t.ppf(0.975, int(result["n_items"]) - 1)
    ends = difference + t * math.sqrt((psi**2).sum()) * np.array([-1, 1])
    assert result[f"{name}_difference_interval"].values == pytest.approx(ends, abs=1e-10)
    assert str(result[f"{name}_difference_interval_reason"].values) == "ok"


def test_resamples_of_a_comparison_are_shared(ds: xr.Dataset) -> None:
    options: dict[str, Any] = {"protocol": MICRO, "humans": ["h1"], "n_resamples": 300, "seed": 5}
    result = quiet(
        xj.compare, ds, "j1", "j2", statistic="spearman", interval="percentile", **options
    ).squeeze()
    x, a, b, item = triples_of(ds, "h1")
    weights = multinomial_weights(np.ones(len(ds["item"]), dtype=int), 300, 5)
    order = _order_of_items(ds, ["h1", "j1", "j2"])
    drawn = weights[:, order][:, item]
    replicates = HeldPairs(x, a).evaluate("spearman", drawn).value
    replicates = replicates - HeldPairs(x, b).evaluate("spearman", drawn).value
    ends = percentile_interval(replicates)
    assert result["spearman_difference_interval"].values == pytest.approx(np.stack(ends), abs=1e-12)


def _order_of_items(ds: xr.Dataset, names: list[str]) -> Any:
    """Place of each item in the order in which items are drawn: by their numbers, NaN last."""
    rows = ds["score"].sel(rater=names).values.reshape(len(ds["item"]), -1)
    order = np.lexsort(rows.T[::-1])
    place = np.empty(len(order), dtype=int)
    place[order] = np.arange(len(order))
    return place


def test_comparisons_turn_round_and_ignore_order_and_chunks(ds: xr.Dataset, backend: Any) -> None:
    options: dict[str, Any] = {
        "statistic": ["rmse", "kendall_tau_b"],
        "reference": "pooled",
        "protocol": MACRO,
    }
    forth = quiet(xj.compare, ds, "j1", "j2", **options)
    back = quiet(xj.compare, backend(ds.isel(item=slice(None, None, -1))), "j2", "j1", **options)
    for name in ("rmse", "kendall_tau_b"):
        assert float(back[f"{name}_difference"]) == pytest.approx(
            -float(forth[f"{name}_difference"]), abs=1e-10
        )
        ends = -forth[f"{name}_difference_interval"].values[::-1]
        assert back[f"{name}_difference_interval"].values == pytest.approx(ends, abs=1e-9)


def test_a_judge_against_a_number(ds: xr.Dataset) -> None:
    result = quiet(
        xj.compare, ds, "j1", xj.constant(50), statistic=["rmse", "pearson"], humans=["h1"]
    ).squeeze()
    for g in range(3):
        x, a, _ = pairs_of(ds, ["h1"], "j1", slice(g, g + 1))
        one = result.isel(criterion=g)
        assert float(one["rmse_b"]) == pytest.approx(math.sqrt(((50 - x) ** 2).mean()), abs=1e-10)
        assert float(one["rmse_a"]) == pytest.approx(math.sqrt(((a - x) ** 2).mean()), abs=1e-10)
    assert (result["pearson_b_reason"] == "rater is constant").all()
    assert (result["pearson_difference_reason"] == "rater is constant").all()
    with pytest.raises(xj.ProtocolError, match="finite number"):
        xj.compare(ds, "j1", xj.constant("50"))


def test_what_a_comparison_of_numbers_refuses(ds: xr.Dataset) -> None:
    for options, words in (
        ({"statistic": "accuracy"}, "`accuracy` needs categories"),
        ({"reference": "majority"}, "majority reference needs categories"),
        ({"weights": "linear"}, "are of categories"),
    ):
        with pytest.raises(xj.ProtocolError, match=words):
            xj.compare(ds, "j1", "j2", **options)
    assert "mcnemar_p" not in quiet(xj.compare, ds, "j1", "j2")
    assert "mean_absolute_error_difference" in quiet(xj.compare, ds, "j1", "j2")


@pytest.mark.parametrize("name", [n for n in NAMES if "limit" not in n])
def test_ranks_of_numbers(ds: xr.Dataset, name: str) -> None:
    result = quiet(xj.rank, ds, statistic=name, protocol=MICRO, n_resamples=100)
    values = quiet(xj.agreement, ds, statistic=name, reference="pooled", protocol=MICRO, interval=None)[name]
    assert result[name].values == pytest.approx(values.values, abs=1e-12)
    goodness = {"mean_error": -abs(values), "mean_absolute_error": -values, "rmse": -values}.get(name, values)
    best = str(values["rater"].values[int(goodness.values.argmax())])
    assert int(result["rank"].sel(rater=best)) == 1
    assert sorted(result["rank"].values.tolist()) == [1, 2]
    assert float(result["p_best"].sum()) == pytest.approx(1)
    assert float(result["p_best"].sel(rater=best)) > 0.5


def test_who_is_right_to_the_last_digit_is_best() -> None:
    rng = np.random.default_rng(1)
    truth = rng.normal(size=40)
    ds = numbers(np.stack([truth, truth, truth + 0.5, truth - 2], axis=1), ["human", *["judge"] * 3])
    for name in ("rmse", "mean_absolute_error", "mean_error"):
        ranked = quiet(xj.rank, ds, statistic=name, n_resamples=50)
        assert ranked["rank"].values.tolist() == [1, 2, 3]
        assert ranked["p_best"].values.tolist() == [1, 0, 0]
        assert ranked.attrs["best"] == ("nearest 0" if name == "mean_error" else "least")
    same = quiet(xj.rank, ds, statistic="pearson", n_resamples=50)
    assert same["rank"].values.tolist() == [1, 1, 1]
    with pytest.raises(xj.ProtocolError, match="best value"):
        xj.rank(ds, statistic="upper_limit_of_agreement")
    with pytest.raises(xj.ProtocolError, match="best value"):
        xj.rank(ds, statistic="limits_of_agreement")
    with pytest.raises(xj.ProtocolError, match="majority reference"):
        xj.rank(ds, reference="majority")


@pytest.mark.parametrize("roles", [["human", "judge", "judge"]])
@pytest.mark.parametrize(
    "scores",
    [np.full((1, 3), 2.0), np.full((5, 3), 2.0), [[1, 2, np.nan], [3, np.nan, 4]], np.full((4, 3), np.nan)],
    ids=["one item", "all equal", "never together", "nothing"],
)
def test_comparisons_of_degenerate_numbers(scores: Any, roles: list[str]) -> None:
    ds = numbers(scores, roles)
    for interval in ("delta", "percentile", "bca", "studentized"):
        result = quiet(xj.compare, ds, "j1", "j2", statistic=EVERY, interval=interval, n_resamples=20)
        for name in NAMES:
            defined = np.isfinite(result[f"{name}_difference"].values)
            assert ((result[f"{name}_difference_reason"].values == "ok") == defined).all()
    for name in ("rmse", "spearman", "mean_error"):
        ranked = quiet(xj.rank, ds, statistic=name, n_resamples=20)
        assert ((ranked["rank"] > 0).values == np.isfinite(ranked[name].values)).all()


def test_sums_of_criteria_are_compared_in_numbers() -> None:
    """An item rule that gives numbers makes a continuous scale of categories."""
    codes = np.random.default_rng(3).integers(0, 2, (30, 3, 4))
    ds = dataset(codes, ["human", "judge", "judge"])
    protocol = xj.Protocol(
        aggregate="item", item_rule="sum", criterion_weights={"c0": 0.5, "c1": 1.5, "c2": 1, "c3": 2}
    )
    weights = np.array([0.5, 1.5, 1, 2])
    found = quiet(xj.compare, ds, "j1", "j2", protocol=protocol).squeeze()
    h, a, b = (codes @ weights).T
    assert float(found["mean_absolute_error_a"]) == pytest.approx(np.abs(a - h).mean())
    difference = np.abs(a - h).mean() - np.abs(b - h).mean()
    assert float(found["mean_absolute_error_difference"]) == pytest.approx(difference)


@pytest.mark.parametrize("resample", ["items", "clusters", "decisions", "items+criteria", "criteria"])
@pytest.mark.parametrize("by", [None, "system"])
def test_without_an_interval_nothing_is_drawn(ds: xr.Dataset, resample: str, by: str | None) -> None:
    """The values are the same whatever would be drawn."""
    for verb, arguments in ((xj.agreement, ()), (xj.compare, ("j1", "j2")), (xj.reliability, ())):
        options = {"interval": None, "protocol": MICRO, "by": by}
        found = quiet(verb, ds, *arguments, resample=resample, **options)
        xr.testing.assert_equal(found, quiet(verb, ds, *arguments, **options))


def test_answers_without_a_number(ds: xr.Dataset, backend: Any) -> None:
    for bad in (np.nan, np.inf, -np.inf, 1e71, -np.finfo(float).max):  # the powers of the last two overflow
        wrong = ds.copy(deep=True)
        wrong["label"].values[:2, 2, 1] = 0
        wrong["score"].values[:2, 2, 1] = bad
        for verb in (xj.agreement, xj.reliability):
            with pytest.raises(xj.VocabularyError, match=r"rater j1, criterion c1: 2 answers"):
                quiet(verb, backend(wrong), **({"raters": "all"} if verb is xj.reliability else {}))
    item = xj.Protocol(
        aggregate="item", item_rule="sum", criterion_weights={"c0": 1, "c1": 0, "c2": -0.0 + 2}
    )
    with pytest.raises(xj.VocabularyError, match="2 answers"):
        quiet(xj.agreement, backend(wrong), protocol=item)


def test_numbers_that_do_not_stand_beside_the_labels(ds: xr.Dataset) -> None:
    with pytest.raises(xj.StructureError, match="variable `score`"):
        quiet(xj.agreement, ds.drop_vars("score"))
    with pytest.raises(xj.StructureError, match="should be numbers on"):
        quiet(xj.agreement, ds.assign(score=ds["score"].isel(criterion=0, drop=True)))
    with pytest.raises(xj.StructureError, match="variable `score`"):
        quiet(ds["label"].judge.agreement)


# ------------------------------------------------------------------------------------------- sums of criteria


def binary(seed: int = 0) -> xr.Dataset:
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, (50, 1, 3))
    codes = np.where(rng.random((50, 3, 3)) < 0.75, truth, 1 - truth)
    codes = np.where(rng.random(codes.shape) < 0.1, rng.integers(-3, 0, codes.shape), codes)
    return dataset(codes, ["human", "judge", "judge"])


WEIGHTS = {"c0": 0.5, "c1": 1.25, "c2": 0}
SUM = xj.Protocol(aggregate="item", item_rule="sum", criterion_weights=WEIGHTS)


def slow_sums(codes: Any, polarity: list[int]) -> Any:
    """Weighted sums (item, rater); NaN where a criterion that counts has no answer."""
    out = np.zeros(codes.shape[:2])
    for i, r in np.ndindex(out.shape):
        for g, weight in enumerate(WEIGHTS.values()):
            if weight == 0:
                continue
            code = codes[i, r, g]
            value = code if polarity[g] > 0 else 1 - code
            out[i, r] += weight * value if code >= 0 else np.nan
    return out


@pytest.mark.parametrize("polarity", [[1, 1, 1], [-1, 1, -1]])
def test_sums_of_fractional_weights_are_numbers(polarity: list[int]) -> None:
    ds = binary().assign_coords(polarity=("criterion", polarity))
    sums = slow_sums(ds["label"].values, polarity)
    result = quiet(xj.agreement, ds, protocol=SUM, statistic=EVERY)
    assert result["pearson"].dims == ("reference", "rater")
    for r, judge in enumerate(("j1", "j2"), start=1):
        used = ~np.isnan(sums[:, [0, r]]).any(1)
        held = HeldPairs(sums[used, 0], sums[used, r])
        one = result.sel(reference="h1", rater=judge)
        assert int(one["n"]) == used.sum()
        for name in NAMES:
            assert float(one[name]) == pytest.approx(float(held.evaluate(name).value), abs=1e-12), name


def test_sums_of_integer_weights_stay_categories() -> None:
    ds = binary()
    whole = xj.Protocol(aggregate="item", item_rule="sum", criterion_weights={"c0": 2, "c1": 5, "c2": 0})
    integers = quiet(xj.agreement, ds, protocol=whole, statistic=["pearson", "rmse", "kappa"])
    real = quiet(xj.agreement, ds, protocol=SUM, statistic=["pearson", "rmse"])  # the same over four
    np.testing.assert_allclose(integers["pearson"], real["pearson"], rtol=1e-12)
    np.testing.assert_allclose(integers["rmse"], 4 * real["rmse"], rtol=1e-12)
    np.testing.assert_allclose(integers["rmse_se"], 4 * real["rmse_se"], rtol=1e-9)
    np.testing.assert_allclose(integers["pearson_interval"], real["pearson_interval"], rtol=1e-9)
    np.testing.assert_array_equal(integers["n_eligible"], real["n_eligible"])


def test_sums_of_numbers() -> None:
    ds = drawn(5).assign_coords(polarity=("criterion", [1, -1, 1]))
    weights = {"c0": 1, "c1": 2, "c2": 0.5}
    protocol = xj.Protocol(aggregate="item", item_rule="sum", criterion_weights=weights)
    result = quiet(xj.agreement, ds, protocol=protocol, statistic=EVERY).sel(reference="h1", rater="j1")
    sums = (ds["score"].values * np.array([1, -2, 0.5])).sum(2)  # NaN where any is missing
    used = ~np.isnan(sums[:, [0, 2]]).any(1)
    held = HeldPairs(sums[used, 0], sums[used, 2])
    for name in NAMES:
        assert float(result[name]) == pytest.approx(float(held.evaluate(name).value), rel=1e-10)
    reliable = quiet(xj.reliability, ds, protocol=protocol)
    expected = alpha_of_scores(sums[:, :2], "interval")
    assert float(reliable["alpha"]) == pytest.approx(float(expected), abs=1e-12)


# ------------------------------------------------------------------------------------------------ reliability


def test_alpha_of_numbers(ds: xr.Dataset) -> None:
    scores = ds["score"].values
    for metric in (None, "interval", "ordinal", "nominal", "ratio"):
        per = quiet(xj.reliability, ds, raters="all", metric=metric)
        micro = quiet(xj.reliability, ds, raters="all", metric=metric, protocol=MICRO)
        full = metric or "interval"
        assert per.attrs["metric"] == full
        for g in range(3):
            expected = alpha_of_scores(scores[:, :, g], full)
            assert float(per["alpha"][g]) == pytest.approx(float(expected), rel=1e-12)
            psi = influence_of_scores(scores[:, :, g], full)
            n = int(((~np.isnan(scores[:, :, g])).sum(1) >= 2).sum())
            assert float(per["alpha_se"][g]) == pytest.approx(
                math.sqrt(n / (n - 1) * (psi**2).sum()), rel=1e-9
            )
        units = scores.transpose(0, 2, 1).reshape(-1, 4)
        assert float(micro["alpha"]) == pytest.approx(float(alpha_of_scores(units, full)), rel=1e-12)
        psi = influence_of_scores(units, full).reshape(48, 3).sum(1)
        n = int(micro["n_items"])
        assert float(micro["alpha_se"]) == pytest.approx(math.sqrt(n / (n - 1) * (psi**2).sum()), rel=1e-9)


def test_counts_of_units_with_numbers(ds: xr.Dataset) -> None:
    size = (ds["label"].values[:, :2] == 0).sum(1)
    result = quiet(xj.reliability, ds)
    np.testing.assert_array_equal(result["n"], (size == 2).sum(0))
    np.testing.assert_array_equal(result["n_single"], (size == 1).sum(0))
    asked = (ds["label"].values[:, :2] != -1).sum(1)
    np.testing.assert_array_equal(result["n_eligible"], (asked == 2).sum(0))


def test_intraclass_correlations_of_numbers(ds: xr.Dataset) -> None:
    for form in ("1", "A,1", "C,k"):
        name = f"icc({form})"
        result = quiet(xj.reliability, ds, raters="all", statistic=name)
        for g in range(3):
            expected = icc(ds["score"].values[:, :, g], form)
            assert float(result[name][g]) == pytest.approx(float(expected.value), rel=1e-9)
            ends = result[f"{name}_interval"].values[g]
            np.testing.assert_allclose(ends, [expected.lower, expected.upper], rtol=1e-9)


@pytest.mark.parametrize("resample", ["items", "clusters", "decisions", "items+criteria", "criteria"])
@pytest.mark.parametrize("aggregate", ["micro", "macro"])
def test_intervals_of_reliability(resample: str, aggregate: str) -> None:
    ds = drawn(1, 400)
    options: dict[str, Any] = {
        "statistic": ["alpha", "icc(A,1)"],
        "raters": "all",
        "protocol": xj.Protocol(aggregate=aggregate),
        "resample": resample,
    }
    resampled = quiet(xj.reliability, ds, interval="percentile", n_resamples=200, **options)
    for name in options["statistic"]:
        low, high = resampled[f"{name}_interval"].values
        assert low < float(resampled[name]) < high
    if resample in ("items", "clusters", "decisions"):
        delta = quiet(xj.reliability, ds, interval="delta", **options)
        for method in ("bca", "studentized"):
            other = quiet(xj.reliability, ds, interval=method, n_resamples=200, **options)
            for name in options["statistic"]:
                width = float(delta[f"{name}_se"])
                assert float(resampled[f"{name}_se"]) == pytest.approx(width, rel=0.25)
                difference = other[f"{name}_interval"] - delta[f"{name}_interval"]
                assert float(abs(difference).max()) < 0.8 * width


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"statistic": "fleiss_kappa"}, "needs categories"),
        ({"metric": "hamming"}, "metric` of numbers"),
        ({"metric": [[0, 1], [1, 0]]}, "metric` of numbers"),
        ({"weights": "linear"}, "of categories"),
    ],
)
def test_coefficients_of_categories_are_refused(
    ds: xr.Dataset, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(xj.ProtocolError, match=message):
        quiet(xj.reliability, ds, **options)


def test_many_distinct_numbers_cost_little() -> None:
    import tracemalloc

    rng = np.random.default_rng(0)
    truth = rng.normal(size=(600, 1))
    ds = numbers(truth + rng.normal(size=(600, 2)), ["human", "human"])
    quiet(xj.reliability, ds, metric="ordinal")
    tracemalloc.start()
    result = quiet(xj.reliability, ds, metric="ordinal")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.isfinite(result["alpha"])
    assert peak < 4e6


# ---------------------------------------------------------------------------------- backends, laziness, files

CALLS: list[tuple[Any, dict[str, Any]]] = [
    (xj.agreement, {"statistic": SUMS}),
    (xj.agreement, {"statistic": EVERY, "protocol": MICRO, "reference": "pooled"}),
    (xj.agreement, {"statistic": SUMS, "protocol": MACRO, "by": "system"}),
    (xj.agreement, {"statistic": "rmse", "interval": "percentile", "n_resamples": 30}),
    (xj.agreement, {"statistic": EVERY, "protocol": xj.Protocol(aggregate="item", item_rule="sum")}),
    (xj.reliability, {"raters": "all", "statistic": ["alpha", "icc(A,1)"]}),
    (xj.reliability, {"raters": "all", "protocol": MICRO, "interval": "percentile", "n_resamples": 30}),
    (xj.reliability, {"raters": "all", "protocol": MICRO, "resample": "clusters"}),
    (xj.rates, {}),
]


@pytest.mark.filterwarnings("ignore:Labels are chunked")
@pytest.mark.parametrize(("verb", "options"), CALLS)
def test_every_backend_gives_the_same(
    ds: xr.Dataset, backend: Any, verb: Any, options: dict[str, Any]
) -> None:
    # sums of numbers depend on the blocks in the last bits
    found, expected = quiet(verb, backend(ds), **options), quiet(verb, ds, **options)
    xr.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    for name, variable in expected.data_vars.items():
        if variable.dtype.kind != "f":
            xr.testing.assert_identical(found[name], variable)


@pytest.mark.parametrize(("verb", "options"), CALLS)
def test_one_compute_and_none_before(
    ds: xr.Dataset, count_computes: Any, verb: Any, options: dict[str, Any]
) -> None:
    lazy = ds.chunk(item=(20, 7, 21))
    with count_computes() as computes:
        later = quiet(verb, lazy, compute=False, **options)
        assert computes.n == 0
        now = quiet(verb, lazy, **options)
        assert computes.n == 1
        done = later.compute()
        assert computes.n == 2
    xr.testing.assert_identical(done, now)


@pytest.mark.parametrize(("verb", "options"), CALLS)
def test_results_are_rebuilt_and_written(
    ds: xr.Dataset, tmp_path: Path, verb: Any, options: dict[str, Any]
) -> None:
    result = quiet(verb, ds, **options)
    xr.testing.assert_identical(quiet(xj.rebuild, result, ds), result)
    result.to_netcdf(tmp_path / "result.nc")
    with xr.open_dataset(tmp_path / "result.nc") as back:
        xr.testing.assert_equal(back.load(), result)


def test_from_a_frame_to_the_figures() -> None:
    frame = pd.DataFrame(
        {
            "item": [1, 1, 2, 2, 3, 3],
            "rater": ["ann", "gpt"] * 3,
            "label": [1.0, 1.5, 2.0, 2.25, 4.0, 3.0],
        }
    )
    ds = xj.from_long(frame, judges=["gpt"], scale=xj.Scale.continuous())
    result = quiet(ds.judge.agreement, statistic=["mean_error", "mean_absolute_error"])
    assert float(result["mean_error"].squeeze()) == pytest.approx((0.5 + 0.25 - 1.0) / 3)
    assert float(result["mean_absolute_error"].squeeze()) == pytest.approx(1.75 / 3)


# ----------------------------------------------------------------------- numbers of the categories of a scale


def test_statistics_of_scores_on_ordered_scales() -> None:
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 3, (40, 2))
    uneven = xj.Scale.interval([1, 2, 9])
    result = quiet(xj.agreement, dataset(codes, ["human", "judge"], uneven), statistic=EVERY).squeeze()
    held = HeldPairs(*np.array([1.0, 2, 9])[codes].T)
    for name in NAMES:
        assert float(result[name]) == pytest.approx(float(held.evaluate(name).value), abs=1e-12)
        psi = held.influence(name)
        assert float(result[f"{name}_se"]) == pytest.approx(math.sqrt((psi**2).sum()), rel=1e-9)
    positions = quiet(
        xj.agreement, dataset(codes, ["human", "judge"], xj.Scale.ordinal([1, 2, 9])), statistic="rmse"
    )
    assert float(positions["rmse"].squeeze()) == pytest.approx(
        math.sqrt(((codes[:, 1] - codes[:, 0]) ** 2).mean())
    )


def test_one_of_the_identical_coefficients_is_kept() -> None:
    ds = dataset(np.random.default_rng(0).integers(0, 2, (30, 2)), ["human", "judge"])
    with pytest.warns(xj.ProtocolWarning, match="one and the same number"):
        result = xj.agreement(ds, statistic=["spearman", "phi", "pearson", "rmse"])
    assert "spearman" in result
    assert not {"phi", "pearson"} & set(result.data_vars)
    phi = quiet(xj.agreement, ds, statistic="phi")
    assert float(result["spearman"].squeeze()) == pytest.approx(float(phi["phi"].squeeze()), abs=1e-14)


@pytest.mark.parametrize(
    ("scale", "protocol"),
    [
        (xj.Scale.nominal(["a", "b", "c"]), xj.Protocol()),
        (xj.Scale.pairwise("A", "B", tie="tie"), xj.Protocol()),
        (xj.Scale.pairwise("A", "B", tie="tie"), xj.Protocol(tie="exclude")),
        (xj.Scale.ordinal(["a", "b", "c"]), xj.Protocol(ca="category")),
    ],
)
def test_scales_without_an_order_have_no_correlation(scale: xj.Scale, protocol: xj.Protocol) -> None:
    ds = dataset([[0, 1], [1, 1], [0, 0]], ["human", "judge"], scale)
    with pytest.raises(xj.ProtocolError, match="`pearson` needs categories in an order"):
        quiet(xj.agreement, ds, statistic=["accuracy", "pearson"], protocol=protocol)


def test_differences_of_errors_are_compared() -> None:
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 5, (80, 1))
    codes = np.clip(truth + rng.integers(-1, 2, (80, 3)), 0, 4)
    ds = dataset(codes, ["human", "judge", "judge"], xj.Scale.ordinal([1, 2, 3, 4, 5]))
    result = quiet(xj.compare, ds, "j1", "j2", statistic=["rmse", "mean_error"])
    for name, function in (("rmse", lambda d: math.sqrt((d**2).mean())), ("mean_error", np.mean)):
        a, b = (function(codes[:, r] - codes[:, 0]) for r in (1, 2))
        assert float(result[f"{name}_a"].squeeze()) == pytest.approx(a)
        assert float(result[f"{name}_difference"].squeeze()) == pytest.approx(a - b)
        low, high = result[f"{name}_difference_interval"].squeeze().values
        assert low < a - b < high
        assert np.isfinite(result[f"{name}_a_interval"]).all()

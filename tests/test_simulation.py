"""The simulator against closed forms of its model, and the example against pinned numbers."""

import hashlib
import json
import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
import xarray as xr

from xjudge.errors import StructureError
from xjudge.scale import Scale
from xjudge.simulation import load_example, simulate

N = 40_000
PHI = NormalDist().cdf


def close(share: float, expected: float, n: int) -> bool:
    """Within 4.5 binomial standard errors; the seeds are fixed, so this either holds or does not."""
    return abs(share - expected) <= 4.5 * math.sqrt(max(expected * (1 - expected), 1e-9) / n)


# ------------------------------------------------------------------------------------------------ the example


# Per rater: UNMET, MET, missing, CA, invalid.
PINNED_COUNTS = {
    "ann": [316, 765, 0, 119, 0],
    "ben": [107, 260, 780, 53, 0],
    "cora": [93, 281, 780, 46, 0],
    "orion-large": [319, 805, 0, 76, 0],
    "orion-small": [227, 638, 0, 335, 0],
    "vela-large": [251, 675, 0, 82, 192],
    "vela-small": [77, 1123, 0, 0, 0],
}
PINNED_LABELS = "26b7a8d5b39f8fcb"
PINNED_TRUTH = [115, 102, 66, 150, 185, 200]


def test_the_example_is_pinned() -> None:
    ds, truth = load_example("rubric", seed=0, return_truth=True)
    label = ds["label"].transpose("rater", "item", "criterion").values
    assert label.dtype == np.int8
    counts = {
        name: [int((label[r] == code).sum()) for code in (0, 1, -1, -2, -3)]
        for r, name in enumerate(ds["rater"].values.tolist())
    }
    assert counts == PINNED_COUNTS
    assert hashlib.sha256(np.ascontiguousarray(label).tobytes()).hexdigest()[:16] == PINNED_LABELS
    assert truth["truth"].sum("item").values.tolist() == PINNED_TRUTH


def test_what_the_example_holds() -> None:
    ds = load_example()
    assert dict(ds.sizes) == {"item": 200, "rater": 7, "criterion": 6}
    assert Scale.from_attrs(ds["label"].attrs) == Scale.binary("UNMET", "MET")
    assert ds["role"].values.tolist() == ["human"] * 3 + ["judge"] * 4
    assert ds["family"].values.tolist()[3:] == ["orion", "orion", "vela", "vela"]
    assert set(ds["identity"].values.tolist()) == {"named"}
    assert set(ds["system"].values.tolist()) == {"retrieval", "baseline", "distilled"}
    assert set(ds["difficulty_band"].values.tolist()) == {"easy", "medium", "hard"}
    assert ds["weight"].dims == ("criterion",)
    asked = (ds["label"] != -1).all("criterion").sum("item")
    assert asked.values.tolist() == [200, 70, 70, 200, 200, 200, 200]
    assert not ((ds["label"] == -1).any("criterion") ^ (ds["label"] == -1).all("criterion")).any()
    assert all(isinstance(value, str | int | float) for value in ds.attrs.values())
    polite = ds["label"].sel(criterion="polite").values
    assert set(np.unique(polite)) == {-3, -2, -1, 1}
    assert all(c.dtype.kind != "O" for c in ds.coords.values())


def test_the_example_tells_its_story() -> None:
    # Plain loops over the labels of `ann` and each judge: the protocol moves the number, and the order.
    ds = load_example()
    label = ds["label"].transpose("rater", "item", "criterion").values.tolist()
    accuracy: dict[str, dict[str, float]] = {"exclude": {}, "negative": {}}
    for r, name in enumerate(ds["rater"].values.tolist()[3:], start=3):
        for handling, met in accuracy.items():
            right = n = 0
            for human_row, judge_row in zip(label[0], label[r], strict=True):
                for h, j in zip(human_row, judge_row, strict=True):
                    if handling == "negative":
                        h, j = (0 if h == -2 else h), (0 if j == -2 else j)
                    if h >= 0 and j >= 0:
                        n += 1
                        right += h == j
            met[name] = right / n
    exclude, negative = accuracy["exclude"], accuracy["negative"]
    assert exclude["orion-large"] > exclude["orion-small"] > exclude["vela-large"] > exclude["vela-small"]
    assert negative["orion-large"] > negative["vela-large"] > negative["orion-small"] > negative["vela-small"]
    assert exclude["orion-small"] - negative["orion-small"] > 0.1


@pytest.mark.parametrize("seed", range(5))
def test_every_seed_tells_the_same_story(seed: int) -> None:
    ds, truth = load_example(seed=seed, return_truth=True)
    right = (truth["answer"] == truth["truth"]).mean(["item", "criterion"])
    assert float(right.sel(rater="orion-large")) > float(right.sel(rater="orion-small"))
    assert float(right.sel(rater="vela-small")) < 0.72
    safe = (truth["answer"] == truth["truth"]).sel(rater="vela-small", criterion="safe").mean()
    assert float(safe) > 0.75  # a judge near chance that a skewed criterion flatters
    declined = (ds["label"] == -2).sel(rater="orion-small").groupby("difficulty_band").mean(...)
    assert float(declined.sel(difficulty_band="hard")) > 2 * float(declined.sel(difficulty_band="easy"))
    unreadable = (ds["label"] == -3).any(["item", "criterion"])
    assert set(ds["rater"].values[unreadable.values]) <= {"vela-large"}


def test_the_example_takes_milliseconds() -> None:
    load_example()  # the first dataset of a process pays for imports inside xarray
    times = []
    for _ in range(5):
        start = time.process_time()
        load_example()
        times.append(time.process_time() - start)
    assert min(times) < 0.050


def test_an_unknown_example_is_named() -> None:
    with pytest.raises(StructureError, match="no example 'rubrics'; the examples are 'rubric'"):
        load_example("rubrics")


# ----------------------------------------------------------------------------------------------- reproducible


def test_same_seed_same_numbers_and_the_truth_changes_nothing() -> None:
    first = load_example(seed=3)
    again, _ = load_example(seed=3, return_truth=True)
    xr.testing.assert_identical(first, again)
    assert not load_example(seed=4)["label"].identical(first["label"])


def test_a_further_rater_changes_no_draw_of_the_others() -> None:
    few = simulate(n_humans=2, n_judges=2, criteria=3, ca_rate=0.2, invalid_rate=0.1, overlap=0.5, seed=5)
    more = simulate(n_humans=2, n_judges=4, criteria=3, ca_rate=0.2, invalid_rate=0.1, overlap=0.5, seed=5)
    xr.testing.assert_equal(few["label"], more["label"].sel(rater=few["rater"]))


def test_the_arguments_are_kept() -> None:
    ds = simulate(n_items=7, criteria=["a", "b"], prevalence=np.array([0.2, 0.9]), seed=11)
    kept = json.loads(ds.attrs["model"])
    assert kept["prevalence"] == [0.2, 0.9]
    assert kept["seed"] == ds.attrs["seed"] == 11
    xr.testing.assert_identical(simulate(**kept), ds)


# ------------------------------------------------------------------------------------ the model, closed forms


def test_rates_hold_whatever_difficulty_explains() -> None:
    ds, truth = simulate(
        n_items=N,
        n_humans=2,
        n_judges=2,
        criteria=2,
        prevalence=[0.3, 0.9],
        human_accuracy=[0.9, 0.7],
        judge_accuracy=0.8,
        ca_rate=[0.1, 0.2, 0.3, 0.0],
        n_systems=3,
        system_difficulty=0.6,
        truth_difficulty=0.5,
        error_difficulty=0.7,
        ca_difficulty=0.6,
        ca_system=0.4,
        seed=1,
        return_truth=True,
    )
    # Decisions of an item share its difficulty, so the number of independent draws is at least N.
    positive = truth["truth"].mean("item").values
    assert close(positive[0], 0.3, N)
    assert close(positive[1], 0.9, N)
    right = (truth["answer"] == truth["truth"]).mean(["item", "criterion"]).values
    for share, expected in zip(right, (0.9, 0.7, 0.8, 0.8), strict=True):
        assert close(share, expected, N)
    declined = (ds["label"] == -2).mean(["item", "criterion"]).values
    for share, expected in zip(declined, (0.1, 0.2, 0.3, 0.0), strict=True):
        assert close(share, expected, N)
    assert close(float((ds["system"] == "system_2").mean()), 1 / 3, N)
    assert close(float((ds["difficulty_band"] == "hard").mean()), 1 / 3, N)
    assert abs(float(truth["difficulty"].mean())) < 4.5 / math.sqrt(N)
    assert abs(float(truth["difficulty"].var()) - 1) < 4.5 * math.sqrt(2 / N)


def test_recalls_by_true_category() -> None:
    _, truth = simulate(
        n_items=N, n_humans=0, n_judges=1, judge_accuracy=[[0.1, 0.95]], seed=2, return_truth=True
    )
    t, a = truth["truth"].values, truth["answer"].values[:, 0]
    assert close((a[t == 0] == 0).mean(), 0.1, int((t == 0).sum()))
    assert close((a[t == 1] == 1).mean(), 0.95, int((t == 1).sum()))


def test_wrong_answers_are_spread_over_the_other_categories() -> None:
    ds, truth = simulate(
        n_items=N, n_humans=1, n_judges=0, n_categories=4, human_accuracy=0.4, seed=3, return_truth=True
    )
    assert Scale.from_attrs(ds["label"].attrs) == Scale.ordinal([1, 2, 3, 4])
    t, a = truth["truth"].values, truth["answer"].values[:, 0]
    for true in range(4):
        n = int((t == true).sum())
        assert close(n / N, 0.25, N)
        for said in range(4):
            assert close((a[t == true] == said).mean(), 0.4 if said == true else 0.2, n)


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_errors_of_a_family_are_correlated(correlation: float) -> None:
    # Two errors of probability 1/2 each: P(both) = 1/4 + asin(rho) / (2 pi), the orthant of a binormal.
    _, truth = simulate(
        n_items=N,
        n_humans=1,
        n_judges=3,
        families=["a", "b", "a"],
        human_accuracy=0.5,
        judge_accuracy=0.5,
        error_correlation=correlation,
        seed=4,
        return_truth=True,
    )
    wrong = truth["answer"].values != truth["truth"].values[:, None]
    both = 0.25 + math.asin(correlation) / (2 * math.pi)
    assert close((wrong[:, 1] & wrong[:, 3]).mean(), both, N)
    for a, b in ((0, 1), (1, 2), (2, 3)):
        assert close((wrong[:, a] & wrong[:, b]).mean(), 0.25, N)


def test_difficulty_correlates_errors_of_everybody() -> None:
    _, truth = simulate(
        n_items=N,
        n_humans=2,
        n_judges=0,
        human_accuracy=0.5,
        error_difficulty=math.sqrt(0.5),
        seed=5,
        return_truth=True,
    )
    wrong = truth["answer"].values != truth["truth"].values[:, None]
    assert close((wrong[:, 0] & wrong[:, 1]).mean(), 1 / 3, N)  # 1/4 + asin(1/2) / (2 pi)


def test_ca_by_system_is_that_of_the_mixture() -> None:
    # Two systems have effects -1 and 1; with probability 1/2 in all the cut is 0, whence Phi(-1), Phi(1).
    ds = simulate(n_items=N, n_humans=1, n_judges=0, ca_rate=0.5, n_systems=2, ca_system=1.0, seed=6)
    declined = (ds["label"] == -2)[:, 0].groupby("system").mean()
    assert close(float(declined.sel(system="system_1")), PHI(-1), N // 2)
    assert close(float(declined.sel(system="system_2")), PHI(1), N // 2)


def test_truth_falls_with_difficulty() -> None:
    # Loading 1: the quality is minus the difficulty, so positive means easier than the median.
    _, truth = simulate(n_items=2000, n_humans=1, n_judges=0, truth_difficulty=1.0, seed=7, return_truth=True)
    assert ((truth["difficulty"].values < 0) == truth["truth"].values.astype(bool)).all()


def test_invalid_items_come_in_runs() -> None:
    ds = simulate(
        n_items=N, n_humans=1, n_judges=2, criteria=2, invalid_rate=[0.2, 0.0], invalid_burst=10, seed=8
    )
    bad = (ds["label"] == -3).values
    assert not bad[:, [0, 2]].any()
    assert (bad[:, 1, 0] == bad[:, 1, 1]).all()
    inside = bad[:, 1, 0].astype(int)
    starts = int((np.diff(inside, prepend=0) == 1).sum())
    # The number of runs has mean 0.2 N / 10 = 800; its variance is below that of geometric runs and gaps.
    assert abs(starts - 800) < 4.5 * math.sqrt(2 * 800)
    assert abs(inside.sum() / starts - 10) < 4.5 * 10 / math.sqrt(starts)


@pytest.mark.parametrize(("design", "same"), [("random", False), ("shared", True)])
def test_overlap(design: str, same: bool) -> None:
    ds = simulate(n_items=300, n_humans=3, n_judges=1, overlap=0.35, design=design, seed=9)
    asked = (ds["label"] != -1).values
    assert asked.sum(axis=0).tolist() == [300, 105, 105, 300]
    assert bool((asked[:, 1] == asked[:, 2]).all()) is same


def test_labels_are_the_answers_where_there_are_any() -> None:
    ds, truth = simulate(criteria=3, ca_rate=0.2, invalid_rate=0.2, overlap=0.5, seed=10, return_truth=True)
    answered = (ds["label"] >= 0).values
    assert 0 < answered.mean() < 1
    assert (ds["label"].values == truth["answer"].values)[answered].all()
    assert (truth["answer"] >= 0).all()


def test_nobody_errs_on_a_unanimous_criterion() -> None:
    _, truth = simulate(criteria=["a", "b"], unanimous=["b"], judge_accuracy=0.0, seed=11, return_truth=True)
    wrong = (truth["answer"] != truth["truth"]).any("item")
    assert wrong.sel(criterion="a").all()
    assert not wrong.sel(criterion="b").any()


# --------------------------------------------------------------------------------------------------- extremes


@pytest.mark.parametrize(
    "arguments",
    [
        {"n_items": 1},
        {"n_humans": 0},
        {"n_judges": 0},
        {"overlap": 0.0},
        {"prevalence": 0.0},
        {"prevalence": 1.0},
        {"human_accuracy": 1.0, "judge_accuracy": 0.0},
        {"ca_rate": 1.0},
        {"invalid_rate": 0.99, "invalid_burst": 1},
        {"n_categories": 200},
        {"system_difficulty": 1.0, "n_systems": 2, "error_difficulty": 1.0, "ca_difficulty": -1.0},
        {"error_difficulty": 0.6, "error_correlation": 0.64},
        {"criteria": 1},
        {"seed": 2**40},
    ],
)
def test_extremes_are_datasets(arguments: dict[str, object]) -> None:
    with np.errstate(all="raise"):
        ds, truth = simulate(**{"n_items": 20, **arguments}, return_truth=True)
    scale = Scale.from_attrs(ds["label"].attrs)
    assert ds["label"].dtype == truth["truth"].dtype == scale.dtype
    assert int(ds["label"].max()) < scale.n_categories
    assert int(ds["label"].min()) >= -3
    assert int(truth["answer"].min()) >= 0
    assert ("criterion" in ds["label"].dims) == ("criteria" in arguments)


def test_extreme_rates_are_met_exactly() -> None:
    _, truth = simulate(prevalence=1.0, human_accuracy=1.0, judge_accuracy=0.0, return_truth=True)
    assert truth["truth"].values.all()
    right = (truth["answer"] == truth["truth"]).mean("item").values
    assert right.tolist() == [1.0, 1.0, 1.0, 0.0, 0.0]
    assert (simulate(ca_rate=1.0)["label"] == -2).all()
    three = simulate(n_categories=3, prevalence=[0.1, 0.9, 0.0], human_accuracy=1.0, n_judges=0, n_items=3000)
    assert int(three["label"].max()) == 1


# ----------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_items": 0}, "`n_items` is a whole number of at least 1; got 0"),
        ({"n_items": 2.5}, "`n_items` is a whole number of at least 1; got 2.5"),
        ({"n_items": True}, "got True"),
        ({"n_humans": -1}, "`n_humans` is a whole number of at least 0; got -1"),
        ({"n_humans": 0, "n_judges": 0}, "`n_humans` and `n_judges` are both 0"),
        ({"n_categories": 1}, "`n_categories` is a whole number of at least 2; got 1"),
        ({"seed": -1}, "`seed` is a whole number of at least 0; got -1"),
        ({"seed": None}, "`seed` is a whole number of at least 0; got None"),
        ({"overlap": 1.5}, r"`overlap` is a finite number in \[0, 1\]; got 1.5"),
        ({"overlap": float("nan")}, r"`overlap` is a finite number in \[0, 1\]; got nan"),
        ({"ca_system": float("inf")}, "`ca_system` is a finite number; got inf"),
        ({"invalid_burst": 0.5}, "`invalid_burst` is a finite number of at least 1; got 0.5"),
        ({"ca_difficulty": "high"}, r"`ca_difficulty` is a finite number in \[-1, 1\]; got 'high'"),
        ({"design": "snow"}, "`design` is 'random', 'shared', 'strat' or 'strat_judge'; got 'snow'"),
        ({"error_difficulty": 0.8, "error_correlation": 0.5}, "share one variance of 1; they sum to 1.14"),
        ({"human_accuracy": 1.2}, r"`human_accuracy` holds probabilities in \[0, 1\]; got 1.2"),
        ({"human_accuracy": [0.9, float("nan"), 0.9]}, r"holds probabilities in \[0, 1\]"),
        (
            {"human_accuracy": [0.9, 0.8]},
            r"`human_accuracy` is one number or 3, or an array of shape \(3, 2\)",
        ),
        ({"judge_accuracy": [[0.9], [0.8, 0.7]]}, r"`judge_accuracy` is one number or 2, or an array"),
        ({"judge_accuracy": "good"}, "`judge_accuracy` is one number or 2"),
        ({"ca_rate": [0.1]}, "`ca_rate` is one number or 5; got"),
        ({"invalid_rate": 1.0}, "`invalid_rate` is below 1"),
        ({"families": ["a"]}, "`families` names one family per judge: 2, not 1"),
        ({"criteria": 0}, "`criteria` is a number of at least 1, or names"),
        ({"criteria": "abc"}, "`criteria` is a number of at least 1, or names"),
        ({"criteria": ["a", "a"]}, "of which each stands once"),
        (
            {"criteria": ["a"], "unanimous": ["b"]},
            r"`unanimous` lists some of the criteria \('a'\); got \['b'\]",
        ),
        ({"unanimous": ["b"]}, "no criteria"),
        ({"criteria": 2, "prevalence": [0.5]}, "`prevalence` is one number or 2, a share of positives"),
        ({"prevalence": 1.2}, r"`prevalence` holds shares in \[0, 1\]; got 1.2"),
        ({"n_categories": 3, "prevalence": 0.5}, r"`prevalence` is an array of shape \(3,\) or \(1, 3\)"),
        ({"n_categories": 3, "prevalence": [0.5, 0.2, 0.2]}, "that sum to 1"),
    ],
)
def test_arguments_that_are_no_model(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(StructureError, match=message):
        simulate(**arguments)


def test_all_problems_in_one_message() -> None:
    with pytest.raises(StructureError, match=r"`n_items`.*`seed`.*`overlap`"):
        simulate(n_items=0, overlap=2.0, seed=-1)
    with pytest.raises(StructureError, match=r"`families`.*`ca_rate`.*`prevalence`"):
        simulate(families=[], ca_rate=2.0, prevalence=-1.0)


# ---------------------------------------------------------------------------------- the fixtures of the suite


def test_a_backend_holds_the_same_labels(backend: Callable[[xr.Dataset], xr.Dataset]) -> None:
    ds = load_example()
    turned = backend(ds)
    xr.testing.assert_identical(turned.compute(), ds)
    assert (turned is ds) is (turned["label"].chunks is None)


def test_ragged_chunks_are_uneven(request: pytest.FixtureRequest) -> None:
    conftest = request.config.pluginmanager.get_plugin(str(Path(__file__).with_name("conftest.py")))
    assert conftest.ragged_chunks(load_example())["label"].chunks == ((56, 1, 143), (1, 1, 5), (1, 1, 4))
    assert [conftest.ragged(size) for size in range(5)] == [(0,), (1,), (1, 1), (1, 1, 1), (1, 1, 2)]


def test_the_counting_scheduler_counts(
    count_computes: Callable[[], AbstractContextManager[Any]],
) -> None:
    label = load_example()["label"].chunk()
    with count_computes() as computes:
        total = (label >= 0).sum()
        assert computes.n == 0
        total.compute()
        assert computes.n == 1
        assert int(total.compute()) == int((label >= 0).sum().values)
        assert computes.n == 3

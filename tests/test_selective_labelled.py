"""Selective judges of a dataset: every number by plain loops over cases, cascades, splits, refusals."""

from __future__ import annotations

import warnings
from math import comb
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from labels import dataset
from shared import SHARED, needs_shared, oracle

import xjudge as xj
from xjudge.statistics import selective as room

GRID = [0.95, 0.8, 0.6, 0.4, 0.0]
ROLES = ["human", "human", "judge", "judge", "judge"]


def example(seed: int = 0, n: int = 120, *, criteria: int = 0, missing: bool = True) -> xr.Dataset:
    """Judges that are right about as often as they are confident, with outcomes among the labels."""
    rng = np.random.default_rng(seed)
    shape = (n, 5, criteria) if criteria else (n, 5)
    truth = rng.integers(0, 2, (n, 1, *shape[2:]))
    sure = rng.uniform(0.4, 1, shape).round(2)
    right = rng.random(shape) < sure
    codes = np.where(right, truth, 1 - truth)
    if missing:
        codes = np.where(rng.random(shape) < 0.15, rng.integers(-3, 0, shape), codes)
        sure[rng.random(shape) < 0.05] = np.nan
    ds = dataset(codes, ROLES, part=["a", "b", "c"] * (n // 3))
    ds["confidence"] = ds["label"].dims, sure
    return ds.assign_coords(cost=("rater", [9.0, 9.0, 5.0, 1.0, 2.0]))


def quiet(verb: Any, *arguments: Any, **options: Any) -> xr.Dataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XJudgeWarning)
        return verb(*arguments, **options)


def vote(labels: list[int]) -> int:
    ones, zeros = labels.count(1), labels.count(0)
    return -1 if ones == zeros else int(ones > zeros)


def slow_cases(ds: xr.Dataset, reference: str, judges: list[str]) -> list[list[tuple[float | None, bool]]]:
    """Per counted case and judge in turn, its confidence (None: does not answer) and whether it is right."""
    label, sure = ds["label"].values, ds["confidence"].values
    column = {name: k for k, name in enumerate(ds["rater"].values.tolist())}
    out = []
    for one, conf in zip(label.tolist(), sure.tolist(), strict=True):
        votes = [one[column[h]] for h in ("h1", "h2")]
        truth = vote(votes) if reference == "majority" else one[column[reference]]
        said = [one[column[j]] for j in judges]
        if truth < 0 or -1 in said:
            continue
        case = []
        for j, verdict in zip(judges, said, strict=True):
            c = conf[column[j]]
            case.append((None if verdict < 0 or np.isnan(c) else c, verdict == truth))
        out.append(case)
    return out


def slow_step(cases: Any, thresholds: list[float]) -> tuple[list[int], list[int]]:
    """Cases each judge of a cascade answers at its threshold, and how many of them wrongly."""
    answered, wrong = [0] * len(thresholds), [0] * len(thresholds)
    for case in cases:
        for k, (sure, right) in enumerate(case):
            if sure is not None and sure >= thresholds[k]:
                answered[k] += 1
                wrong[k] += not right
                break
    return answered, wrong


def slow_certified(kept: list[int], wrong: list[int], target: float, level: float, n_starts: int) -> int:
    best = -1
    for s in range(n_starts):
        for i in range(s * len(kept) // n_starts, len(kept)):
            n, k = kept[i], wrong[i]
            tail = sum(comb(n, j) * target**j * (1 - target) ** (n - j) for j in range(k + 1))
            if n == 0 or tail > (1 - level) / n_starts:
                break
            best = max(best, i)
    return best


@pytest.mark.parametrize("reference", ["each", "majority", "h2"])
def test_the_curve_of_every_judge_by_counting(backend: Any, reference: str) -> None:
    ds = backend(example(1))
    found = quiet(xj.risk_coverage, ds, thresholds=GRID[::-1], reference=reference)
    assert found["threshold"].values.tolist() == GRID
    for human in ("h1", "h2") if reference == "each" else (reference,):
        for judge in ("j1", "j2", "j3"):
            where = {"rater": judge} | ({"reference": human} if reference == "each" else {})
            one = found.sel(where)
            cases = slow_cases(example(1), human, [judge])
            area = last = 0.0
            assert int(one["n_eligible"]) == len(cases)
            for i, t in enumerate(GRID):
                (n,), (wrong,) = slow_step(cases, [t])
                assert int(one["n"][i]) == n
                assert float(one["coverage"][i]) == pytest.approx(n / len(cases), abs=1e-15)
                assert float(one["error"][i]) == pytest.approx(wrong / n, abs=1e-15)
                low, high = room.clopper_pearson(wrong, n)
                assert one["error_interval"][i].values.tolist() == [low, high]
                area, last = area + (n - last) * wrong / n, n
            assert float(one["area"]) == pytest.approx(area / last)
            unsure = [
                int(np.isnan(c)) * (v >= 0)
                for c, v in zip(
                    example(1)["confidence"].sel(rater=judge).values,
                    example(1)["label"].sel(rater=judge).values,
                    strict=True,
                )
            ]
            truth = [
                vote([int(x) for x in row]) if human == "majority" else int(row[int(human[1]) - 1])
                for row in example(1)["label"].values[:, :2]
            ]
            assert int(one["n_no_confidence"]) == sum(u for u, y in zip(unsure, truth, strict=True) if y >= 0)


@pytest.mark.parametrize("target", [0.45, 0.6])
def test_thresholds_by_testing_one_after_the_other(backend: Any, target: float) -> None:
    found = quiet(
        xj.selective_threshold, backend(example(2, 300)), target, thresholds=GRID, level=0.9, n_starts=2
    )
    some = 0
    for human in ("h1", "h2"):
        for judge in ("j1", "j2", "j3"):
            one = found.sel(reference=human, rater=judge)
            steps = [slow_step(slow_cases(example(2, 300), human, [judge]), [t]) for t in GRID]
            kept, wrong = [n for (n,), _ in steps], [w for _, (w,) in steps]
            at = slow_certified(kept, wrong, target, 0.9, 2)
            if at < 0:
                assert str(one["threshold_reason"].values) == "no threshold could be certified"
                assert np.isnan(one["threshold"])
                assert (float(one["coverage"]), int(one["n"])) == (0, 0)
                continue
            some += 1
            assert float(one["threshold"]) == GRID[at]
            assert int(one["n"]) == kept[at]
            assert float(one["error"]) == pytest.approx(wrong[at] / kept[at], abs=1e-15)
            assert float(one["coverage"]) == pytest.approx(kept[at] / int(one["n_eligible"]), abs=1e-15)
    assert some


def test_a_cascade_asks_the_cheapest_first(backend: Any) -> None:
    ds = backend(example(3, 240))
    found = quiet(xj.risk_coverage, ds, thresholds=GRID, cascade="cost", reference="h1")
    order = ["j2", "j3", "j1"]
    assert found["rater"].values.tolist() == order
    assert found["error"].dims == ("threshold",)
    cases = slow_cases(example(3, 240), "h1", order)
    assert int(found["n_eligible"]) == len(cases)
    for i, t in enumerate(GRID):
        answered, wrong = slow_step(cases, [t] * 3)
        assert found["answered"].sel(threshold=t).values.tolist() == answered
        assert float(found["error"][i]) == pytest.approx(sum(wrong) / sum(answered), abs=1e-15)
        spent = answered[0] * 1 + answered[1] * 3 + (len(cases) - sum(answered[:2])) * 8
        assert float(found["mean_cost"][i]) == pytest.approx(spent / len(cases))
    same = quiet(xj.risk_coverage, ds, thresholds=GRID, cascade=order, reference="h1")
    xr.testing.assert_equal(found, same)


def test_a_cascade_is_certified_as_a_whole(backend: Any) -> None:
    ds = backend(example(4, 450, missing=False))
    found = quiet(
        xj.selective_threshold, ds, [0.3, 0.5], cascade="cost", reference="h1", thresholds=GRID, n_starts=1
    )
    cases = slow_cases(example(4, 450, missing=False), "h1", ["j2", "j3", "j1"])
    steps = [slow_step(cases, [t] * 3) for t in GRID]
    kept, wrong = [sum(n) for n, _ in steps], [sum(w) for _, w in steps]
    for target in (0.3, 0.5):
        at = slow_certified(kept, wrong, target, 0.95, 1)
        one = found.sel(target=target)
        assert (np.isnan(one["threshold"]) and at < 0) or float(one["threshold"]) == GRID[at]
        if at >= 0:
            assert one["answered"].values.tolist() == steps[at][0]
    assert not np.isnan(found["threshold"]).all()


@pytest.mark.parametrize("given", [[0.9, 0.8, 0.5], {"j1": 0.5, "j2": 0.9, "j3": 0.8}])
def test_a_cascade_at_thresholds_of_its_own(backend: Any, given: Any) -> None:
    found = quiet(xj.cascade, backend(example(5, 240)), given, reference="h2", level=0.9)
    cases = slow_cases(example(5, 240), "h2", ["j2", "j3", "j1"])
    answered, wrong = slow_step(cases, [0.9, 0.8, 0.5])
    n, k = sum(answered), sum(wrong)
    assert found["answered"].values.tolist() == answered
    np.testing.assert_allclose(found["error_of_answered"], np.array(wrong) / answered, rtol=1e-14)
    assert found["threshold_of"].values.tolist() == [0.9, 0.8, 0.5]
    assert (int(found["n"]), int(found["n_eligible"])) == (n, len(cases))
    assert float(found["error"]) == pytest.approx(k / n, abs=1e-15)
    # the limit solves: probability of at most k errors in n is 1 - level
    limit = float(found["error_limit"])
    tail = sum(comb(n, j) * limit**j * (1 - limit) ** (n - j) for j in range(k + 1))
    assert tail == pytest.approx(0.1, rel=1e-9)
    low, high = found["coverage_interval"].values
    total = len(cases)
    upper = sum(comb(total, j) * low**j * (1 - low) ** (total - j) for j in range(n, total + 1))
    assert upper == pytest.approx(0.05, rel=1e-9)
    assert low < float(found["coverage"]) < high


def test_one_judge_is_a_cascade_of_one() -> None:
    ds = example(6)
    alone = quiet(xj.risk_coverage, ds, judges=["j3"], reference="majority")
    joint = quiet(xj.risk_coverage, ds, cascade=["j3"], reference="majority")
    for name in ("error", "coverage", "n", "area", "error_interval", "n_no_confidence"):
        np.testing.assert_array_equal(alone[name].isel(rater=0), joint[name])


def test_slices_criteria_populations_and_items() -> None:
    ds = example(7, 60, criteria=2)
    found = quiet(xj.risk_coverage, ds, thresholds=GRID, by="part", reference="h1")
    assert found["error"].dims == ("part", "rater", "criterion", "threshold")
    for part in "abc":
        for criterion in ("c0", "c1"):
            one = ds.isel(item=ds["part"].values == part).sel(criterion=criterion, drop=True)
            for judge in ("j1", "j2"):
                steps = [slow_step(slow_cases(one, "h1", [judge]), [t])[0][0] for t in GRID]
                assert found["n"].sel(part=part, criterion=criterion, rater=judge).values.tolist() == steps
    # a population is a slice
    p = xj.Protocol(population={"part": ["b"]})
    other = quiet(xj.risk_coverage, ds, thresholds=GRID, protocol=p, reference="h1")
    np.testing.assert_array_equal(other["error"], found["error"].sel(part="b"))
    # item verdicts need a confidence of their own
    item = xj.Protocol(aggregate="item", item_rule=xj.all_positive())
    with pytest.raises(xj.StructureError, match="one for each verdict"):
        xj.risk_coverage(ds, protocol=item)
    whole = ds.assign(confidence=ds["confidence"].min("criterion"))
    found = quiet(xj.risk_coverage, whole, protocol=item, reference="h1")
    assert found["error"].dims == ("rater", "threshold")
    # one confidence for all criteria of an item is taken for each
    each = quiet(xj.risk_coverage, whole, reference="h1")
    wide = ds.assign(confidence=whole["confidence"].broadcast_like(ds["label"]))
    xr.testing.assert_equal(each, quiet(xj.risk_coverage, wide, reference="h1"))


def test_probabilities_are_summed_over_what_the_protocol_joins() -> None:
    scale = xj.Scale.ordinal([1, 2, 3])
    codes = np.array([[0, 0], [2, 1], [2, 2], [1, 2]])
    ds = dataset(codes, ["human", "judge"], scale)
    prob = np.zeros((4, 2, 3))
    prob[:, 1] = [[0.9, 0.1, 0.0], [0.3, 0.4, 0.3], [0.1, 0.2, 0.7], [0.05, 0.05, 0.9]]
    ds["prob"] = ("item", "rater", "category"), prob
    met = xj.Protocol(scale_map=xj.at_least(2))
    found = xj.risk_coverage(ds, protocol=met, thresholds=[0.95, 0.9, 0.7], reference="h1").isel(rater=0)
    assert found["n"].values.tolist() == [1, 3, 4]  # .9 as a sum; .9 below .95
    plain = xj.risk_coverage(ds, thresholds=[0.9, 0.7, 0.4], reference="h1").isel(rater=0)
    assert plain["n"].values.tolist() == [2, 3, 4]
    assert plain["error"].values.tolist() == [0.5, 1 / 3, 0.5]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_threshold_is_the_decimal_that_is_written(dtype: Any) -> None:
    ds = dataset(np.array([[1, 1], [0, 0]]), ["human", "judge"])
    ds["confidence"] = ds["label"].dims, np.full((2, 2), 0.7, dtype=dtype)
    found = xj.risk_coverage(ds, thresholds=[0.71, 0.7], reference="h1")
    assert found["n"].values.tolist() == [[0, 2]]


def test_whole_numbers_are_confidences_with_thresholds_of_their_own() -> None:
    ds = dataset(np.array([[1, 1], [0, 1], [1, 1]]), ["human", "judge"])
    ds["votes"] = ds["label"].dims, np.array([[0, 5], [0, 3], [0, 9]])
    found = xj.risk_coverage(ds, confidence="votes", thresholds=[9, 5, 1], reference="h1")
    assert found["n"].values.tolist() == [[1, 2, 3]]
    with pytest.raises(xj.ProtocolError, match=r"`votes` leaves \[0, 1\]"):
        xj.risk_coverage(ds, confidence="votes", reference="h1")


# ----------------------------------------------------------------------------------------------------- splits


def test_splits_follow_the_law_of_random_splits() -> None:
    ds = example(8, 90, missing=False)
    found = quiet(
        xj.split_stability,
        ds,
        0.5,
        n_calibration=45,
        n_splits=3000,
        thresholds=GRID,
        level=0.8,
        reference="h1",
    ).sel(rater="j1")
    cases = slow_cases(ds, "h1", ["j1"])
    sure, right = np.array([c[0][0] for c in cases]), np.array([c[0][1] for c in cases])
    slow = room.split_stability(sure, right, 0.5, 45, n_splits=3000, grid=GRID, level=0.8, n_starts=5, seed=9)
    for name, values in (("coverage", np.nan_to_num(slow.coverage)), ("error", slow.error)):
        fast = found[name].values
        spread = np.nanstd(values) / np.sqrt(3000)
        assert abs(np.nanmean(fast) - np.nanmean(values)) < 6 * spread
        assert np.nanstd(fast) == pytest.approx(np.nanstd(values), rel=0.1)
    assert float(found["above_target"]) == pytest.approx(np.mean(found["error"].values > 0.5))
    reasons = set(found["threshold_reason"].values.tolist())
    assert reasons <= {"ok", "no threshold could be certified"}
    none = np.isnan(found["threshold"].values)
    assert (found["coverage"].values[none] == 0).all()


def test_splits_of_a_cascade_and_shares_of_cases() -> None:
    ds = example(9, 300)
    found = quiet(
        xj.split_stability, ds, 0.4, n_calibration=0.5, n_splits=60, cascade="cost", reference="majority"
    )
    assert found["coverage"].dims == ("split",)
    assert 0 <= found["coverage"].min() < found["coverage"].max() <= 1
    again = quiet(xj.split_stability, ds, 0.4, n_splits=60, cascade="cost", reference="majority")
    xr.testing.assert_equal(found, again)
    turned = ds.isel(item=np.random.default_rng(0).permutation(300))
    xr.testing.assert_equal(
        found, quiet(xj.split_stability, turned, 0.4, n_splits=60, cascade="cost", reference="majority")
    )
    other = quiet(xj.split_stability, ds, 0.4, n_splits=60, cascade="cost", reference="majority", seed=1)
    assert not found["coverage"].equals(other["coverage"])


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.sampled_from(["each", "majority", "h1"]), st.booleans())
def test_order_of_items_raters_and_chunks_changes_nothing(seed: int, reference: str, joint: bool) -> None:
    ds = example(seed % 97, 45)
    cascade = ["j3", "j1"] if joint else None
    options = {"reference": reference, "cascade": cascade, "thresholds": GRID}
    expected = quiet(xj.risk_coverage, ds, **options)
    rng = np.random.default_rng(seed)
    turned = ds.isel(item=rng.permutation(45), rater=rng.permutation(5)).chunk(item=int(rng.integers(1, 45)))
    got = quiet(xj.risk_coverage, turned, **options)
    got = got.sel({dim: expected[dim].values for dim in expected.dims if dim in ("rater", "reference")})
    xr.testing.assert_allclose(
        expected.drop_vars("cost", errors="ignore"), got.drop_vars("cost", errors="ignore")
    )


# ------------------------------------------------------------------------------------------------- degenerate


def test_no_reference_no_answer_no_case() -> None:
    ds = dataset(np.array([[-2, 1, 1], [-1, 0, -1], [1, -2, 1], [1, -3, 1]]), ["human", "judge", "judge"])
    ds["confidence"] = ds["label"].dims, np.full((4, 3), 0.3)
    with pytest.warns(xj.UndefinedWarning, match="nothing is answered"):
        found = xj.risk_coverage(ds, thresholds=[0.5, 0.2], reference="h1")
    assert found["n_eligible"].values.tolist() == [2, 2]
    assert found["coverage"].values.tolist() == [[0, 0], [0, 1]]
    assert found["error_reason"].values.tolist() == [
        ["nothing is answered"] * 2,
        ["nothing is answered", "ok"],
    ]
    assert np.isnan(found["area"].values).tolist() == [True, False]
    nobody = ds.isel(item=[0, 1])
    with pytest.warns(xj.UndefinedWarning, match="no overlap"):
        found = xj.selective_threshold(nobody, 0.1, reference="h1")
    assert np.isnan(found["coverage"]).all()
    found = xj.split_stability(nobody, 0.1, reference="h1", n_splits=3)
    assert found["error_reason"].values.tolist() == [["no overlap"] * 3] * 2
    with pytest.warns(xj.UndefinedWarning, match="no overlap"):
        found = xj.cascade(nobody, 0.5, order=["j1", "j2"], reference="h1")
    assert np.isnan(found["error_limit"])
    one = ds.isel(item=[2])
    assert np.isnan(quiet(xj.split_stability, one, 0.1, reference="h1", n_splits=2)["threshold"]).all()


def test_results_do_not_hold_what_was_read_only() -> None:
    ds = example(10)
    for name in ("label", "confidence"):
        ds[name].values.flags.writeable = False
    before = ds.copy(deep=True)
    quiet(xj.cascade, ds, 0.7, reference="h1")
    xr.testing.assert_identical(ds, before)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reference": "pooled"}, "right or wrong once"),
        ({"protocol": xj.Protocol(aggregate="micro")}, "independent cases"),
        ({"protocol": xj.Protocol(aggregate="macro")}, "independent cases"),
        ({"thresholds": []}, "different numbers"),
        ({"thresholds": [0.5, 0.5]}, "different numbers"),
        ({"thresholds": [float("nan")]}, "different numbers"),
        ({"cascade": "price"}, "'cost' or a list"),
        ({"confidence": "mood"}, "no variable 'mood'"),
        ({"confidence": "part"}, "one for each verdict"),
        ({"level": 1.0}, "`level`"),
        ({"cascade": ["h1"]}, "not a judge"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        xj.risk_coverage(example(), **options)


def test_what_else_is_refused() -> None:
    ds = example()
    with pytest.raises(xj.StructureError, match="`confidence` \\(or `prob`\\)"):
        xj.risk_coverage(ds.drop_vars("confidence"))
    with pytest.raises(xj.StructureError, match="cost\\(rater\\)"):
        xj.cascade(ds.drop_vars("cost"), 0.5)
    with pytest.raises(xj.StructureError, match="a judge has no cost"):
        xj.cascade(ds.assign_coords(cost=("rater", [0, 0, np.nan, 1, 1])), 0.5)
    with pytest.raises(xj.ProtocolError, match="one number for each"):
        xj.cascade(ds, [0.5, 0.6])
    with pytest.raises(xj.ProtocolError, match="'j2', 'j3', 'j1'"):
        xj.cascade(ds, {"j1": 0.5})
    with pytest.raises(xj.ProtocolError, match="not lazy"):
        xj.risk_coverage(ds.chunk(item=10), compute=False)
    for bad in (0, 10**6, 1.5, True):
        with pytest.raises(xj.ProtocolError, match="`n_calibration`"):
            xj.split_stability(ds, 0.1, n_calibration=bad)
    with pytest.raises(xj.ProtocolError, match="`n_splits`"):
        xj.split_stability(ds, 0.1, n_splits=0)
    with pytest.raises(xj.ProtocolError, match="`target` is a number"):
        xj.selective_threshold(ds, [])
    with pytest.raises(xj.ProtocolError, match="`target` and `level`"):
        xj.selective_threshold(ds, 0.0)
    with pytest.raises(xj.ProtocolError, match="`n_starts` lies between 1 and 2"):
        xj.selective_threshold(ds, 0.1, thresholds=[0.5, 0.2], n_starts=3)
    bad = ds.copy()
    bad["label"] = ds["label"].copy(data=np.where(np.arange(5) == 2, 7, ds["label"].values))
    with pytest.raises(xj.VocabularyError, match="code 7"):
        xj.risk_coverage(bad)


# -------------------------------------------------------------------------------------------------- real data


@needs_shared
def test_the_published_cascade_at_its_operating_point() -> None:
    # 4,718 pairs, 2,886 answered, 2,521 of them right (closed_form.json, "cascade_interval")
    known = oracle("closed_form")["cascade_interval"]
    n, answered, right = known["n"], known["covered"], known["covered_correct_derived"]
    assert (n, answered, right) == (4718, 2886, 2521)
    codes = np.ones((n, 3), dtype=int)
    codes[right:answered, 1:] = 0
    ds = dataset(codes, ["human", "judge", "judge"])
    sure = np.zeros((n, 3))
    sure[: answered // 2, 1] = sure[answered // 2 : answered, 2] = 0.9
    ds["confidence"] = ("item", "rater"), sure
    found = xj.cascade(ds, 0.85, order=["j1", "j2"], reference="h1")
    assert float(found["coverage"]) == pytest.approx(known["coverage"], abs=1e-13)
    assert 1 - float(found["error"]) == pytest.approx(known["covered_accuracy"], abs=1e-13)
    assert found["answered"].values.tolist() == [1443, 1443]
    # what the cases it leaves open could do (eq. 10 of the paper)
    low, high = known["accuracy_bounds"]
    assert float(found["n"] * (1 - found["error"]) / found["n_eligible"]) == pytest.approx(low, abs=1e-13)
    assert float(1 - found["n"] * found["error"] / found["n_eligible"]) == pytest.approx(high, abs=1e-13)
    # 365 errors of 2,886: exact limits
    assert found["error_interval"].values.round(6).tolist() == [0.114556, 0.139152]
    assert round(float(found["error_limit"]), 6) == 0.137104


@needs_shared
def test_a_judge_with_released_probabilities() -> None:
    frame = pd.read_csv(SHARED / "data" / "llm_rubric_real.csv", dtype={"item": str, "annotator": str})
    frame = frame[frame["rater"] != "gpt-3.5-turbo-16k_sampled"]
    released = pd.read_csv(SHARED / "data" / "llm_rubric_real_probs.csv.gz", dtype={"item": str})
    frame = frame.merge(released.assign(rater="gpt-3.5-turbo-16k_argmax"), how="left")
    ds = xj.from_long(
        frame,
        item="item",
        rater="rater",
        criterion="criterion",
        label="label",
        humans=["human"],
        scale=xj.Scale.ordinal([1, 2, 3, 4]),
        ca=[0],
        prob={k: f"p{k}" for k in (1, 2, 3, 4)},
    )
    protocol = xj.Protocol(scale_map=xj.at_least(3))
    one = quiet(xj.risk_coverage, ds, reference="human", protocol=protocol, thresholds=[0.9, 0.8, 0.7, 0.5])
    wide = frame.pivot_table(index=["item", "criterion"], columns="rater", values="label").reset_index()
    wide = wide.merge(released)
    wide = wide[wide["human"] > 0]
    met = wide["p3"] + wide["p4"]
    verdict = wide["gpt-3.5-turbo-16k_argmax"] >= 3
    sure = np.where(verdict, met, wide["p1"] + wide["p2"])
    wrong = verdict != (wide["human"] >= 3)
    n_all = 0
    for criterion, rows in wide.groupby("criterion"):
        keep = wide["criterion"] == criterion
        for i, t in enumerate((0.9, 0.8, 0.7, 0.5)):
            kept = keep & (sure >= t)
            there = one.sel(criterion=criterion).isel(rater=0, threshold=i)
            assert int(there["n"]) == kept.sum()
            assert float(there["error"]) == pytest.approx(wrong[kept].mean()) or kept.sum() == 0
        assert int(there["n_eligible"]) == len(rows)
        n_all += len(rows)
    assert n_all == 1701  # 2,007 decisions less the 306 on which the human abstains

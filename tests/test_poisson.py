"""Resamples where distinct items are too many to be merged: weights by position, in a second pass."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import verbs
import xarray as xr
from verbs import CHUNKS, KEPT, MACRO, MICRO, REPEATED, chunked, quiet, same

import xjudge as xj
from xjudge.statistics import kappa, poisson_weights
from xjudge.statistics.identified import resampled_intervals

REPEATED_MICRO = xj.Protocol(population="kept", aggregate="micro")
DRAWS: dict[str, Any] = {"interval": "percentile", "n_resamples": 40}


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cap on distinct items that the datasets exceed."""
    lower(monkeypatch)


def lower(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xjudge.statistics.units._LARGEST", 20)
    monkeypatch.setattr("xjudge.labelled._rater_units._MOST_ITEMS", 20)


MANY = ["alpha", "gwet_ac", "fleiss_kappa", "conger_kappa", "light_kappa", "icc(A,1)"]
CALLS: dict[str, Callable[..., xr.Dataset]] = {
    "micro": lambda ds, **o: xj.agreement(ds, protocol=MICRO, **DRAWS, **o),
    "macro": lambda ds, **o: xj.agreement(ds, protocol=MACRO, **DRAWS, **o),
    "pooled": lambda ds, **o: xj.agreement(ds, reference="pooled", **DRAWS, **o),
    "majority": lambda ds, **o: xj.agreement(ds, reference="majority", protocol=MICRO, **DRAWS, **o),
    "by system": lambda ds, **o: xj.agreement(ds, by="system", protocol=MICRO, **DRAWS, **o),
    "a population": lambda ds, **o: xj.agreement(ds, reference="pooled", protocol=KEPT, **DRAWS, **o),
    "both": lambda ds, **o: xj.agreement(
        ds, by="system", reference="pooled", protocol=REPEATED, **DRAWS, **o
    ),
    "sweep": lambda ds, **o: xj.sweep(ds, verbs.GRID, **DRAWS, **o),
    "compare": lambda ds, **o: xj.compare(ds, "j1", "j2", protocol=MICRO, **DRAWS, **o),
    "rank": lambda ds, **o: xj.rank(ds, n_resamples=40, **o),
    "bounds": lambda ds, **o: xj.coverage_bounds(ds, protocol=MICRO, n_resamples=40, **o),
    "bounds, macro": lambda ds, **o: xj.coverage_bounds(ds, protocol=MACRO, n_resamples=40, **o),
    "bounds, pooled": lambda ds, **o: xj.coverage_bounds(
        ds, statistic="kappa", reference="pooled", n_resamples=40, **o
    ),
    "bounds, majority": lambda ds, **o: xj.coverage_bounds(
        ds,
        statistic=["accuracy", "kappa"],
        reference="majority",
        protocol=MICRO,
        n_resamples=40,
        **o,
    ),
    "reliability": lambda ds, **o: xj.reliability(
        ds, statistic=MANY, raters="all", protocol=MICRO, **DRAWS, **o
    ),
    "reliability, macro": lambda ds, **o: xj.reliability(ds, statistic=MANY, protocol=MACRO, **DRAWS, **o),
    "reliability, by system": lambda ds, **o: xj.reliability(
        ds, statistic="conger_kappa", raters="all", by="system", protocol=REPEATED_MICRO, **DRAWS, **o
    ),
}


@pytest.mark.usefixtures("lowered")
@pytest.mark.parametrize("name", list(CALLS))
def test_the_same_on_any_chunks_in_two_passes(name: str, count_computes: Any) -> None:
    ds = verbs.cube()
    expected = quiet(CALLS[name], ds)
    assert expected.attrs["law"] == "poisson"
    for chunks in (CHUNKS, (97,), (*(7,) * 13, 6)):
        with count_computes() as computes:
            found = quiet(CALLS[name], chunked(ds, chunks))
        assert computes.n == 2
        same(found, expected)


@pytest.mark.parametrize("name", list(CALLS))
def test_values_are_those_of_the_other_law(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ds = verbs.cube()
    merged = quiet(CALLS[name], ds)
    assert merged.attrs["law"] == "multinomial"
    lower(monkeypatch)
    drawn = quiet(CALLS[name], ds)
    for word, variable in merged.data_vars.items():
        if not str(word).endswith(("_se", "_interval", "_undefined", "_interval_reason", "p_best")):
            xr.testing.assert_equal(drawn[word], variable)


@pytest.mark.usefixtures("lowered")
def test_replicates_are_weighted_items() -> None:
    """Against every item repeated as often as its weight says, label by label."""
    ds = verbs.cube()
    found = quiet(xj.agreement, ds, statistic="kappa", protocol=MICRO, **DRAWS, seed=5)
    weights = poisson_weights(0, verbs.N_ITEMS, 40, seed=5)
    codes = ds["label"].values
    for human, judge in ((0, 3), (2, 5)):
        replicates = []
        for weight in weights:
            table = np.zeros((2, 2))
            for item, times in enumerate(weight.tolist()):
                for a, b in codes[item][[human, judge]].T.tolist():
                    if a >= 0 and b >= 0:
                        table[a, b] += times
            replicates.append(float(kappa(table)))
        one = found.isel(reference=human, rater=judge - 3)
        assert float(one["kappa_se"]) == pytest.approx(np.std(replicates, ddof=1), rel=1e-12)
        ends = np.quantile(replicates, [0.025, 0.975])
        np.testing.assert_allclose(one["kappa_interval"].values, ends, atol=0.02)


@pytest.mark.usefixtures("lowered")
def test_coefficients_of_many_raters_are_of_weighted_items() -> None:
    """Alpha from pairs of labels of one unit, in plain loops over the items as often as they are drawn."""
    ds = verbs.cube()
    codes = ds["label"].values
    replicates: dict[str, list[float]] = {"micro": [], "macro": []}
    for weight in poisson_weights(0, verbs.N_ITEMS, 40, seed=5):
        apart = [_alpha(codes, weight, [g]) for g in (0, 1)]
        replicates["macro"].append(float(np.mean(apart)))
        replicates["micro"].append(_alpha(codes, weight, [0, 1]))
    for protocol, drawn in ((MICRO, replicates["micro"]), (MACRO, replicates["macro"])):
        found = quiet(xj.reliability, ds, statistic="alpha", raters="all", protocol=protocol, seed=5, **DRAWS)
        assert found.attrs["law"] == "poisson"
        assert float(found["alpha_se"]) == pytest.approx(np.std(drawn, ddof=1), rel=1e-12)
        assert float(found["alpha_undefined"]) == 0


def _alpha(codes: np.ndarray, weight: np.ndarray, criteria: list[int]) -> float:
    """Krippendorff's nominal alpha by coincidences."""
    coincidences = np.zeros((2, 2))
    for item, times in enumerate(weight.tolist()):
        for g in criteria:
            said = [c for c in codes[item, :, g].tolist() if c >= 0]
            for i, a in enumerate(said):
                for j, b in enumerate(said):
                    if i != j:
                        coincidences[a, b] += times / (len(said) - 1)
    margin, n = coincidences.sum(0), coincidences.sum()
    expected = margin[0] * margin[1] * 2 / (n - 1)
    return 1 - (coincidences[0, 1] + coincidences[1, 0]) / expected


@pytest.mark.usefixtures("lowered")
def test_ends_of_ranges_are_of_weighted_items() -> None:
    """Accuracy at its ends: every open case wrong, or every open case right."""
    ds = verbs.cube()
    found = quiet(xj.coverage_bounds, ds, statistic="accuracy", protocol=MICRO, n_resamples=40, seed=5)
    assert found.attrs["law"] == "poisson"
    codes, human, judge = ds["label"].values, 0, 3
    ends = []
    for weight in poisson_weights(0, verbs.N_ITEMS, 40, seed=5):
        right = covered = undecided = 0
        for item, times in enumerate(weight.tolist()):
            for a, b in codes[item][[human, judge]].T.tolist():
                if a == -1 or b == -1:
                    continue
                if a >= 0 and b >= 0:
                    covered, right = covered + times, right + times * (a == b)
                else:
                    undecided += times
        n = covered + undecided
        ends.append((right / n, (right + undecided) / n))
    one = found.isel(reference=human, rater=judge - 3)
    lower, upper = np.array(ends).T
    expected = resampled_intervals(
        one["accuracy_range"].values[0],
        one["accuracy_range"].values[1],
        lower,
        upper,
        np.minimum(one["n_items"].values, one["n_eligible"].values),
        0.95,
    )
    np.testing.assert_allclose(one["accuracy_range_interval"].values, expected.of_range, rtol=1e-12)


@pytest.mark.usefixtures("lowered")
def test_errors_of_many_raters_are_those_of_the_multinomial_law(monkeypatch: pytest.MonkeyPatch) -> None:
    ds = verbs.cube()
    many: dict[str, Any] = {"interval": "percentile", "n_resamples": 4000, "protocol": MICRO}
    many["statistic"] = MANY
    drawn = quiet(xj.reliability, ds, **many)
    monkeypatch.undo()
    merged = quiet(xj.reliability, ds, **many)
    assert (drawn.attrs["law"], merged.attrs["law"]) == ("poisson", "multinomial")
    for name in MANY:
        assert float(abs(drawn[f"{name}_se"] / merged[f"{name}_se"] - 1)) < 0.08


@pytest.mark.usefixtures("lowered")
def test_methods_beside_each_other() -> None:
    """Correlations are drawn by default, coefficients of counts have sums: one call has both."""
    ds = verbs.cube()
    found = quiet(xj.reliability, ds, statistic=["alpha", "icc(A,1)"], protocol=MICRO)
    assert found.attrs["law"] == "poisson"
    alone = quiet(xj.reliability, ds, statistic="alpha", protocol=MICRO)
    xr.testing.assert_equal(found["alpha_interval"], alone["alpha_interval"])
    with pytest.raises(xj.ProtocolError, match="too many distinct items"):
        quiet(xj.reliability, ds, raters="all", protocol=MICRO, resample="items+criteria")


@pytest.mark.usefixtures("lowered")
def test_terms_some_items_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = quiet(CALLS["reliability"], verbs.cube())
    monkeypatch.setattr("xjudge.statistics._poisson_terms._TERMS", 50)
    same(quiet(CALLS["reliability"], verbs.cube()), whole)


@pytest.mark.usefixtures("lowered")
@pytest.mark.parametrize("name", ["reliability", "bounds, pooled", "rank"])
def test_crowds_have_the_numbers_of_the_cube(name: str) -> None:
    """In the sparse layout positions are those of the items, too."""
    cube = verbs.cube()
    call = CALLS[name]
    found, expected = quiet(call, xj.to_sparse(cube)), quiet(call, cube)
    assert found.attrs["law"] == "poisson"
    for word, variable in expected.data_vars.items():
        if variable.dtype.kind == "f":
            np.testing.assert_allclose(found[word].values, variable.values, rtol=1e-12, atol=1e-12)


@pytest.mark.usefixtures("lowered")
def test_numbers_are_refused() -> None:
    with pytest.raises(xj.ProtocolError, match="too many distinct items"):
        quiet(xj.reliability, verbs.numbers(), raters="all", protocol=MICRO, **DRAWS)


@pytest.mark.usefixtures("lowered")
def test_errors_are_those_of_the_multinomial_law(monkeypatch: pytest.MonkeyPatch) -> None:
    ds = verbs.cube()
    many: dict[str, Any] = {"interval": "percentile", "n_resamples": 4000, "protocol": MICRO}
    drawn = quiet(xj.agreement, ds, **many)
    monkeypatch.undo()
    merged = quiet(xj.agreement, ds, **many)
    for name in ("accuracy", "kappa"):
        ratio = drawn[f"{name}_se"] / merged[f"{name}_se"]
        assert float(abs(ratio - 1).max()) < 0.08


@pytest.mark.usefixtures("lowered")
@pytest.mark.parametrize("name", list(CALLS))
def test_lazily_there_is_no_second_pass(name: str) -> None:
    later = quiet(CALLS[name], chunked(verbs.cube()), compute=False)
    with pytest.raises(xj.ProtocolError, match=r"too many distinct items.*compute=True.*sums only"):
        later.compute()
    assert quiet(CALLS[name], verbs.cube(), compute=False).attrs["law"] == "poisson"


@pytest.mark.usefixtures("lowered")
@pytest.mark.parametrize(
    "options", [{"interval": "bca"}, {"interval": "studentized"}, {"resample": "items+criteria"}]
)
def test_other_methods_need_the_items(options: dict[str, Any]) -> None:
    with pytest.raises(xj.ProtocolError, match="too many distinct items"):
        quiet(xj.agreement, verbs.cube(), protocol=MICRO, n_resamples=40, **options)


@pytest.mark.usefixtures("lowered")
def test_few_items_are_merged_as_before() -> None:
    """The path is chosen by distinct items, and by no property of the blocks."""
    ds = verbs.cube().isel(item=[0, 1, 2] * 30)
    ds = ds.assign_coords(item=np.arange(90))
    whole = quiet(xj.agreement, ds, protocol=MICRO, **DRAWS)
    assert whole.attrs["law"] == "multinomial"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XJudgeWarning)
        same(xj.agreement(chunked(ds, (1, 44, 45)), protocol=MICRO, **DRAWS), whole)

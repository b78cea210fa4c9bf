"""Resamples that estimates share, and pairs of raters that stand for both of their orders."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import verbs
import xarray as xr
from labels import dataset, random_codes
from verbs import MACRO, MICRO, quiet

import xjudge as xj
from xjudge.labelled import _together
from xjudge.labelled._estimate import coefficient
from xjudge.statistics import kappa
from xjudge.statistics.coefficients import COEFFICIENTS
from xjudge.statistics.resample import multinomial_blocks
from xjudge.statistics.scores import SCORE_STATISTICS

METHODS = ("percentile", "bca", "studentized")
SAME = ["accuracy", "kappa", "phi", "f1"]
TURNED = {"precision": "recall", "recall": "precision"}


def _asymmetric(protocol: xj.Protocol, interval: str, **options: Any) -> xr.Dataset:
    names = [*SAME, *TURNED, "specificity"]
    return quiet(
        xj.agreement,
        verbs.cube(),
        statistic=names,
        raters="all",
        protocol=protocol,
        interval=interval,
        n_resamples=60,
        **options,
    )


@pytest.mark.parametrize("name", [*COEFFICIENTS, *SCORE_STATISTICS])
def test_which_coefficients_know_the_order(name: str) -> None:
    of_table = coefficient(name, None, np.array([0.0, 1.0]))
    tables = np.random.default_rng(0).integers(1, 40, (30, 2, 2))
    there, back = of_table.value(tables)[0], of_table.value(tables.swapaxes(-1, -2))[0]
    assert of_table.symmetric == bool(np.allclose(there, back, rtol=1e-12, atol=1e-12))


@pytest.mark.parametrize("interval", METHODS)
@pytest.mark.parametrize("protocol", [xj.Protocol(), MICRO, MACRO], ids=["apart", "micro", "macro"])
def test_a_pair_and_its_other_order_have_one_sample(protocol: xj.Protocol, interval: str) -> None:
    found = _asymmetric(protocol, interval)
    turned = found.rename(rater_a="rater_b", rater_b="rater_a")
    for end in ("se", "interval", "undefined"):
        for name, other in (*((name, name) for name in SAME), *TURNED.items()):
            one = turned[f"{other}_{end}"].transpose(*found[f"{name}_{end}"].dims)
            xr.testing.assert_allclose(found[f"{name}_{end}"], one, rtol=1e-9)
    for name in (*SAME, *TURNED):
        assert (np.isfinite(found[f"{name}_se"]) == np.isfinite(found[name])).all()


@pytest.mark.parametrize("options", [{"resample": "clusters"}, {"resample": "decisions"}, {"by": "system"}])
def test_other_units_and_slices(options: dict[str, Any]) -> None:
    found = _asymmetric(MICRO, "percentile", **options)
    turned = found.rename(rater_a="rater_b", rater_b="rater_a")
    one = turned["recall_interval"].transpose(*found["precision_interval"].dims)
    xr.testing.assert_allclose(found["precision_interval"], one, rtol=1e-9)
    alone = quiet(
        xj.agreement,
        verbs.cube(),
        statistic="specificity",
        raters=["h2", "j1"],
        protocol=MICRO,
        interval="percentile",
        n_resamples=60,
        **options,
    )
    for a, b in (("h2", "j1"), ("j1", "h2")):
        here = found["specificity_se"].sel(rater_a=a, rater_b=b)
        there = alone["specificity_se"].sel(rater_a=a, rater_b=b)
        if options == {"resample": "clusters"}:  # the same units, whoever is compared
            np.testing.assert_allclose(here, there, rtol=1e-12)
        assert np.isfinite(here).all() == np.isfinite(there).all()


def test_one_criterion_against_a_plain_loop() -> None:
    """Kappa of resampled pairs of h1 and j1, from the very weights, in both orders."""
    ds = verbs.flat()
    found = quiet(xj.agreement, ds, statistic="kappa", raters="all", interval="percentile", n_resamples=50)
    codes = ds["label"].values
    table = np.zeros((3, 3), dtype=np.int64)
    for a, b in codes[:, [0, 3]].tolist():
        if a >= 0 and b >= 0:
            table[a, b] += 1
    cells = np.append(table.ravel(), len(codes) - table.sum())
    drawn = np.concatenate(list(multinomial_blocks(cells, 50, 0)))[:, :-1]
    values = [float(kappa(one.reshape(3, 3))) for one in drawn]
    for a, b in ((0, 3), (3, 0)):
        assert float(found["kappa_se"][a, b]) == pytest.approx(np.std(values, ddof=1), rel=1e-12)


def test_signs_and_limits_change_places() -> None:
    scale = xj.Scale.interval([1, 2, 3])
    ds = dataset(np.maximum(random_codes(3, (60, 4), 3), 0), ["human", "human", "judge", "judge"], scale)
    names = ["mean_error", "lower_limit_of_agreement", "upper_limit_of_agreement", "rmse"]
    found = quiet(xj.agreement, ds, statistic=names, raters="all", interval="percentile", n_resamples=50)
    for name, other, sign in (
        ("mean_error", "mean_error", -1),
        ("lower_limit_of_agreement", "upper_limit_of_agreement", -1),
        ("rmse", "rmse", 1),
    ):
        one, two = found[f"{name}_interval"].values, found[f"{other}_interval"].values.swapaxes(0, 1)
        two = sign * (two[..., ::-1] if sign < 0 else two)
        np.testing.assert_allclose(one, two, rtol=1e-9)


CALLS: dict[str, Any] = {
    "rank": lambda: xj.rank(verbs.cube(), n_resamples=40),
    "rank, clusters": lambda: xj.rank(verbs.cube(), n_resamples=40, resample="clusters"),
    "compare": lambda: xj.compare(
        verbs.cube(), ["j1", "j2"], "j3", protocol=MICRO, interval="studentized", n_resamples=40
    ),
    **{
        interval: lambda interval=interval: xj.agreement(
            verbs.cube(), protocol=MICRO, interval=interval, n_resamples=40
        )
        for interval in METHODS
    },
    "both": lambda: xj.agreement(
        verbs.cube(), protocol=MICRO, interval="percentile", resample="items+criteria", n_resamples=40
    ),
    "macro": lambda: xj.agreement(verbs.cube(), protocol=MACRO, interval="bca", n_resamples=40),
    "ranges": lambda: xj.coverage_bounds(verbs.cube(), protocol=MICRO, n_resamples=40),
}


@pytest.mark.parametrize("name", list(CALLS))
def test_alone_and_together(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    together = quiet(lambda _: CALLS[name](), None)
    monkeypatch.setattr(_together, "_ROWS", 1)
    verbs.same(quiet(lambda _: CALLS[name](), None), together)
    monkeypatch.undo()
    monkeypatch.setattr(_together, "_UNITS", 3)
    verbs.same(quiet(lambda _: CALLS[name](), None), together)


@pytest.mark.parametrize("name", ["rank", "percentile"])
def test_weights_are_drawn_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    n = 0

    def counted(*arguments: Any, **options: Any) -> Any:
        nonlocal n
        n += 1
        return multinomial_blocks(*arguments, **options)

    monkeypatch.setattr(_together, "multinomial_blocks", counted)
    found = quiet(lambda _: CALLS[name](), None)
    assert n == 1 < found["n"].size

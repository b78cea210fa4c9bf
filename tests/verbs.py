"""Every verb with its options, on datasets that reach its branches: what the tests of laziness go through."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import xarray as xr
from labels import dataset, random_codes

import xjudge as xj

RATERS = ["human"] * 3 + ["judge"] * 3
MICRO = xj.Protocol(aggregate="micro")
MACRO = xj.Protocol(aggregate="macro")
ITEM = xj.Protocol(aggregate="item", item_rule=xj.weighted_share(0.5))
KEPT = xj.Protocol(population={"system": ["a", "b"]})
REPEATED = xj.Protocol(population="kept")
DRAWS = {"interval": "percentile", "n_resamples": 40}

N_ITEMS = 97
CHUNKS = (1, 30, 0, 2, 48, 16)
"""Items of the ragged chunks."""


def cube() -> xr.Dataset:
    """Two criteria, with groups and clusters of items and a population."""
    codes = random_codes(5, (N_ITEMS, 6, 2), 2)
    codes[:, 3] = np.where(np.random.default_rng(6).random((N_ITEMS, 2)) < 0.7, codes[:, 0], codes[:, 3])
    at = np.arange(N_ITEMS)
    return dataset(codes, RATERS, system=np.array(list("abc"))[at % 3], cluster=at // 4, kept=at % 5 != 0)


def flat() -> xr.Dataset:
    """One criterion, three ordered categories, and few labels missing."""
    codes = random_codes(7, (N_ITEMS, 6), 3)
    answers = np.random.default_rng(8).integers(0, 3, codes.shape)
    codes = np.where(np.random.default_rng(9).random(codes.shape) < 0.8, answers, codes)
    codes[:, 3] = np.where(np.random.default_rng(6).random(N_ITEMS) < 0.6, codes[:, 0], codes[:, 3])
    at = np.arange(N_ITEMS)
    return dataset(
        codes,
        RATERS,
        xj.Scale.ordinal(["low", "middle", "high"]),
        system=np.array(list("abc"))[at % 3],
        length=at.astype(float) % 11,
    )


def numbers() -> xr.Dataset:
    """A continuous scale."""
    codes = np.minimum(random_codes(10, (N_ITEMS, 6, 2), 4), 0)
    rng = np.random.default_rng(11)
    score = rng.normal(size=(N_ITEMS, 1, 2)) + rng.normal(size=codes.shape)
    ds = dataset(codes, RATERS, xj.Scale.continuous())
    return ds.assign(score=(("item", "rater", "criterion"), np.where(codes == 0, score, np.nan)))


def probable() -> xr.Dataset:
    """Judges that give probabilities."""
    ds = dataset(np.maximum(random_codes(12, (N_ITEMS, 6), 2), 0), RATERS)
    share = np.random.default_rng(13).random((N_ITEMS, 6))
    prob = xr.DataArray(np.stack([1 - share, share], -1), dims=("item", "rater", "category"))
    confidence = np.where(np.arange(6) > 2, np.maximum(share, 1 - share), np.nan)
    return ds.assign(prob=prob.where(ds["role"] == "judge"), confidence=(("item", "rater"), confidence))


def repeated() -> xr.Dataset:
    """Each judge asked twice."""
    codes = np.stack([random_codes(seed, (N_ITEMS, 6), 2) for seed in (14, 15)], axis=-1)
    codes = np.where(np.random.default_rng(16).random(codes.shape) < 0.5, codes[:, :, :1], codes)
    codes[:, :3, 1] = codes[:, :3, 0]
    return dataset(codes, RATERS).rename(criterion="replicate")


DATASETS: dict[str, Callable[[], xr.Dataset]] = {
    "cube": cube,
    "flat": flat,
    "numbers": numbers,
    "probable": probable,
    "repeated": repeated,
}


@dataclass(frozen=True)
class Case:
    """A call, and what laziness it has.

    Parameters
    ----------
    call : callable
        Of a dataset, and of ``compute=False`` where the verb takes it.
    data : str
        Which of :data:`DATASETS`.
    later : bool
        Whether ``compute=False`` gives lazy values; otherwise it is refused, or there is no such option.
    computes : int
        How often labels are computed.
    refused : bool
        Whether there is an option ``compute`` that is refused where it is False.
    """

    call: Callable[..., Any]
    data: str = "cube"
    later: bool = True
    computes: int = 1
    refused: bool = False


def held(call: Callable[..., Any], data: str = "cube") -> Case:
    """A verb that holds votes in memory and says so."""
    return Case(call, data, later=False, refused=True)


def plain(call: Callable[..., Any], data: str = "cube") -> Case:
    """A verb that has no option ``compute``."""
    return Case(call, data, later=False)


def _verb(name: str, *arguments: Any, **options: Any) -> Callable[..., Any]:
    def call(ds: xr.Dataset, **compute: Any) -> Any:
        return getattr(xj, name)(ds, *arguments, **options, **compute)

    return call


GRID = [
    *xj.Protocol.grid(ca=["exclude", "category"], aggregate=["micro", "macro"]),
    *xj.Protocol.grid(ca=["exclude", "category"], aggregate=["item"], item_rule=[xj.all_positive()]),
]

CASES: dict[str, Case] = {
    "validate": plain(lambda ds: xj.validate(ds).drop_vars("label")),
    "rates": Case(_verb("rates")),
    "rates by system": Case(_verb("rates", by="system", protocol=MICRO)),
    "tables": Case(_verb("tables")),
    "tables of the majority": Case(_verb("tables", reference="majority")),
    "tables of a population": Case(_verb("tables", protocol=KEPT)),
    "tables of a variable": Case(_verb("tables", protocol=REPEATED, by="system")),
    "agreement": Case(_verb("agreement")),
    "agreement by system": Case(_verb("agreement", by="system", protocol=MICRO)),
    "agreement, pooled": Case(_verb("agreement", reference="pooled", protocol=MICRO)),
    "agreement, item level": Case(_verb("agreement", protocol=ITEM)),
    "agreement, macro": Case(_verb("agreement", protocol=MACRO)),
    "agreement of judges": Case(_verb("agreement", raters="judges")),
    "agreement, percentile": Case(_verb("agreement", **DRAWS)),
    "agreement, percentile, micro": Case(_verb("agreement", protocol=MICRO, **DRAWS)),
    "agreement of a population, percentile": Case(
        _verb("agreement", reference="pooled", protocol=KEPT, **DRAWS)
    ),
    "agreement, bca, macro": Case(_verb("agreement", protocol=MACRO, interval="bca", n_resamples=40)),
    "agreement, studentized": Case(_verb("agreement", interval="studentized", n_resamples=40)),
    "agreement, clusters": Case(_verb("agreement", resample="clusters")),
    "agreement, clusters drawn": Case(_verb("agreement", resample="clusters", **DRAWS)),
    "agreement, both drawn": Case(
        _verb("agreement", resample="items+criteria", protocol=MICRO, n_resamples=40)
    ),
    "agreement, decisions": Case(_verb("agreement", resample="decisions", protocol=MICRO)),
    "agreement of orders": Case(
        _verb("agreement", statistic=["kappa", "spearman", "mcc"], weights="linear", min_overlap=2), "flat"
    ),
    "agreement of numbers": Case(_verb("agreement"), "numbers"),
    "agreement of numbers, drawn": Case(_verb("agreement", protocol=MICRO, **DRAWS), "numbers"),
    "agreement, extracted": Case(
        _verb("agreement", protocol=xj.Protocol(extraction=xj.cut(0.4))), "probable"
    ),
    "agreement, sampled": Case(
        _verb("agreement", protocol=xj.Protocol(extraction="sample"), seed=3), "probable"
    ),
    "sweep": Case(_verb("sweep", GRID)),
    "sweep, percentile": Case(_verb("sweep", GRID, reference="majority", **DRAWS)),
    "coverage_bounds": Case(_verb("coverage_bounds", n_resamples=40)),
    "coverage_bounds, shares": Case(
        _verb(
            "coverage_bounds",
            statistic=["accuracy", "kappa"],
            max_share=[0.5, 1.0],
            interval=None,
            protocol=MICRO,
        )
    ),
    "coverage_bounds, majority": Case(_verb("coverage_bounds", reference="majority", n_resamples=40)),
    "breakdown": Case(_verb("breakdown", "accuracy", [0.3, 0.4])),
    "compare": Case(_verb("compare", "j1", "j2")),
    "compare, percentile": Case(
        _verb("compare", "j1", xj.constant("MET"), reference="pooled", protocol=MICRO, **DRAWS)
    ),
    "rank": Case(_verb("rank", n_resamples=40)),
    "rank by system": Case(_verb("rank", statistic="kappa", by="system", protocol=MICRO, n_resamples=40)),
    "adjust": held(_verb("adjust", "length"), "flat"),
    "prevalence": Case(_verb("prevalence", "j1"), "probable"),
    "pair_agreement": plain(_verb("pair_agreement", protocol=MICRO, interval=None)),
    "rater_agreement": plain(_verb("rater_agreement", raters="all")),
    "to_sparse": plain(_verb("to_sparse")),
    "reliability": Case(_verb("reliability", statistic=["alpha", "gwet_ac", "conger_kappa"])),
    "reliability, micro": Case(_verb("reliability", protocol=MICRO)),
    "reliability, macro": Case(_verb("reliability", protocol=MACRO, raters="all", **DRAWS)),
    "reliability, percentile": Case(_verb("reliability", statistic=["alpha", "icc(A,1)"], **DRAWS), "flat"),
    "reliability by system": Case(_verb("reliability", by="system", metric="ordinal"), "flat"),
    "reliability, clusters": Case(_verb("reliability", resample="clusters")),
    "reliability of numbers": Case(_verb("reliability"), "numbers"),
    "disagreements": plain(_verb("disagreements", "j1")),
    "disagreements, each": plain(_verb("disagreements", "j1", reference="each", n=10)),
    "loo_validate": Case(_verb("loo_validate")),
    "loo_validate, micro": Case(_verb("loo_validate", protocol=MICRO, pooling="pairs", by="system")),
    "loo_validate, kappa": held(_verb("loo_validate", statistic="kappa"), "flat"),
    "alt_test": Case(_verb("alt_test", min_items=5)),
    "alt_test, numbers": Case(_verb("alt_test", min_items=5, score="neg_rmse"), "flat"),
    "plan_overlap": plain(_verb("plan_overlap", judge="j1", grid=[20, 40]), "flat"),
    "allocate": plain(_verb("allocate", 20, design="strat"), "flat"),
    "wrong_top_probability": plain(_verb("wrong_top_probability", overlap=0.5, protocol=MICRO)),
    "effective_size": Case(_verb("effective_size", interval=None)),
    "effective_size, micro": Case(_verb("effective_size", protocol=MICRO, n_resamples=40), "cube"),
    "effective_size, pairwise": Case(_verb("effective_size", interval=None, incomplete="pairwise"), "flat"),
    "effective_size, simulated": Case(
        _verb("effective_size", interval=None, method="monte_carlo", grid=[2, 4, 8], n_curves=2), "flat"
    ),
    "panel_curve": Case(_verb("panel_curve", n_draws=20), "flat"),
    "select_panel": Case(_verb("select_panel", 2), "flat"),
    "panel_vote": Case(_verb("panel_vote"), "flat"),
    "compare_panels": Case(_verb("compare_panels", ["j1"], ["j2", "j3"], n_resamples=40), "flat"),
    "panel_dependence": Case(_verb("panel_dependence", by="system")),
    "panel_geometry": Case(_verb("panel_geometry", n_simulated=20), "flat"),
    "effective_size, clusters": Case(
        _verb("effective_size", protocol=MICRO, resample="clusters", n_resamples=40)
    ),
    "stability": Case(_verb("stability", n_resamples=40), "repeated"),
    "risk_coverage": held(_verb("risk_coverage", thresholds=[0.6, 0.8]), "probable"),
    "selective_threshold": held(_verb("selective_threshold", 0.4, n_starts=5), "probable"),
    "split_stability": held(_verb("split_stability", 0.4, n_splits=10, n_starts=5), "probable"),
    "cascade": held(_verb("cascade", 0.7, order=["j1", "j2", "j3"]), "probable"),
    "to_long": plain(_verb("to_long")),
    "join": plain(
        lambda ds: xj.join(
            ds, pd.DataFrame({"item": ["i1", "i5"], "weight": [1.0, 2.0]}), how="left"
        ).drop_vars("label")
    ),
}
"""Name to case."""


def quiet(call: Callable[..., Any], ds: xr.Dataset, **compute: Any) -> Any:
    """Call without the warnings, which other tests look at."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XJudgeWarning)
        return call(ds, **compute)


def same(found: Any, expected: Any) -> None:
    """Identical whole numbers, flags and texts, floats to 1e-12; dims, coordinates and attributes alike."""
    if isinstance(expected, pd.DataFrame):
        pd.testing.assert_frame_equal(found, expected, check_exact=True)
        return
    assert found.attrs == expected.attrs
    assert list(found.variables) == list(expected.variables)
    for name, variable in expected.variables.items():
        other = found.variables[name]
        assert (other.dims, other.dtype.kind) == (variable.dims, variable.dtype.kind), name
        if variable.dtype.kind == "f":
            np.testing.assert_allclose(
                other.values, variable.values, rtol=1e-12, atol=1e-12, err_msg=str(name)
            )
        else:
            np.testing.assert_array_equal(other.values, variable.values, err_msg=str(name))


def chunked(ds: xr.Dataset, chunks: tuple[int, ...] = CHUNKS, array: Any = None) -> xr.Dataset:
    """Every variable of items in chunks along them; ``array`` makes the store that it is read from."""
    variables = {}
    for name, variable in ds.data_vars.items():
        at = variable.dims.index("item")
        sizes = tuple(chunks if axis == at else (size,) for axis, size in enumerate(variable.shape))
        store = variable.values if array is None else array(variable.values)
        meta = np.empty((0,) * variable.ndim, dtype=variable.dtype)
        variables[name] = (
            variable.dims,
            da.from_array(store, chunks=sizes, meta=meta, name=f"{name}-{id(store)}"),
            variable.attrs,
        )
    return ds.assign(variables)

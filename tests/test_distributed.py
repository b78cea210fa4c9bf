"""Verbs on a cluster of processes: the same numbers, also where a worker dies or has little memory."""

from __future__ import annotations

import functools
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr
from verbs import CASES, DATASETS, chunked, quiet, same

import xjudge as xj
from xjudge.lazy import map_items

distributed = pytest.importorskip("distributed", reason="distributed is not installed")

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:Sending large graph:UserWarning"),
]


def cluster(n_workers: int, **options: Any) -> Any:
    """Separate worker processes, and a client that dask takes up by itself."""
    return distributed.LocalCluster(
        n_workers=n_workers,
        threads_per_worker=1,
        processes=True,
        dashboard_address=":0",
        silence_logs=50,
        **options,
    )


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with cluster(2, memory_limit=0) as workers, distributed.Client(workers) as client:
        yield client


# ------------------------------------------------------------------------------------------- the same numbers


@pytest.mark.parametrize("name", list(CASES))
def test_a_cluster_gives_the_same(client: Any, name: str) -> None:
    case = CASES[name]
    ds = DATASETS[case.data]()
    same(quiet(case.call, chunked(ds)), quiet(case.call, ds))


@pytest.mark.parametrize(
    "name", [name for name in DATASETS if any(c.later for c in CASES.values() if c.data == name)]
)
def test_all_lazy_values_in_one_compute(client: Any, name: str) -> None:
    ds = DATASETS[name]()
    cases = {key: case for key, case in CASES.items() if case.later and case.data == name}
    lazy = chunked(ds)
    (found,) = dask.compute({key: quiet(case.call, lazy, compute=False) for key, case in cases.items()})
    for key, case in cases.items():
        same(found[key], quiet(case.call, ds))


def test_a_result_may_stay_on_the_cluster(client: Any) -> None:
    ds = DATASETS["cube"]()
    later = quiet(xj.agreement, chunked(ds), compute=False)
    kept = later.persist()
    assert all(variable.chunks is not None for variable in kept.data_vars.values())
    same(kept.compute(), quiet(xj.agreement, ds))


def test_values_outside_the_scale_are_told_of_where_the_call_is(client: Any) -> None:
    ds = DATASETS["cube"]()
    ds["label"].values[5, 1, 1] = 9
    with pytest.raises(xj.VocabularyError, match=r"code 9 \(rater h2, criterion c1: 1 labels"):
        xj.tables(chunked(ds))
    with pytest.raises(xj.VocabularyError, match=r"code 9 \(rater h2, criterion c1: 1 labels"):
        xj.tables(chunked(ds), compute=False).compute()


# ------------------------------------------------------------------------------------------------ bad weather

N_RATERS, SCALE = 6, xj.Scale.binary("no", "yes")


class Slowly:
    """Labels of a block, after a while; leaves a note of who made them."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self.folder, self.seconds = folder, seconds

    def __call__(self, positions: Any) -> Any:
        time.sleep(self.seconds)
        (self.folder / f"{int(positions[0])}-{os.getpid()}-{time.monotonic_ns()}").touch()
        return made(positions)


def made(positions: Any) -> Any:
    """Labels that depend on the position alone."""
    mixed = (positions[:, None] * 2654435761 + np.arange(N_RATERS) * 40503) % 65521
    return (mixed % 3 - 1).astype(np.int8)


@functools.cache
def first_block(size: int) -> Any:
    return made(np.arange(size))


def repeated(positions: Any) -> Any:
    """The same labels in every block, which are soon there."""
    return first_block(len(positions)).copy()


def dataset(labels: Any) -> xr.Dataset:
    roles = ["human"] * 3 + ["judge"] * (N_RATERS - 3)
    return xr.Dataset(
        {"label": (("item", "rater"), labels, SCALE.to_attrs())},
        coords={"rater": np.arange(N_RATERS), "role": ("rater", roles)},
    )


def report(ds: xr.Dataset) -> list[xr.Dataset]:
    verbs = (xj.tables, xj.agreement, xj.reliability, xj.loo_validate)
    return [quiet(verb, ds, compute=False) for verb in verbs]


def test_a_worker_that_is_killed_changes_nothing(tmp_path: Path) -> None:
    n_items, n_chunks = 6000, 60
    positions = da.arange(n_items, chunks=n_items // n_chunks)
    lazy = map_items(Slowly(tmp_path, 0.1), [positions], shape=(N_RATERS,), dtype=np.dtype(np.int8))
    with cluster(2, memory_limit=0) as workers, distributed.Client(workers) as client:
        victim, other = client.run(os.getpid).values()
        futures = client.compute(report(dataset(lazy)))
        deadline = time.monotonic() + 60
        while sum(f"-{victim}-" in note.name for note in tmp_path.iterdir()) < 5:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        os.kill(victim, signal.SIGKILL)
        killed = time.monotonic_ns()
        found = client.gather(futures)
        assert victim not in client.run(os.getpid).values()
    notes = [note.name.split("-") for note in tmp_path.iterdir()]
    assert {int(position) for position, _, _ in notes} == set(range(0, n_items, n_items // n_chunks))
    assert sum(int(pid) == victim for _, pid, _ in notes) < n_chunks  # it had not made everything
    assert any(int(pid) != victim and int(at) > killed for _, pid, at in notes)
    assert other != victim
    expected = report(dataset(made(np.arange(n_items))))
    for one, two in zip(found, expected, strict=True):
        same(one, two)


def test_workers_with_less_memory_than_the_labels() -> None:
    """A worker that exceeded its limit would be ended by its nanny, and the run with it."""
    n_items, size = 120_000_000, 250_000
    limit = 600_000_000
    assert limit < n_items * N_RATERS
    positions = da.arange(n_items, chunks=size)
    labels = map_items(repeated, [positions], shape=(N_RATERS,), dtype=np.dtype(np.int8))
    settings = {"distributed.worker.memory.terminate": 0.95, "distributed.scheduler.allowed-failures": 0}
    with (
        dask.config.set(settings),
        cluster(1, memory_limit=limit) as workers,
        distributed.Client(workers) as client,
    ):
        before = client.run(os.getpid)
        later = quiet(xj.tables, dataset(labels), compute=False)
        tables = client.compute(later).result(timeout=240)
        assert client.run(os.getpid) == before  # none was ended
    block = dataset(made(np.arange(size)))
    expected = quiet(xj.tables, block)["count"] * (n_items // size)
    np.testing.assert_array_equal(tables["count"], expected)

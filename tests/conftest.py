"""What every test may use: hypothesis profiles, backends, a scheduler that counts, and the skip report."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import dask
import dask.threaded
import pytest
import xarray as xr
from hypothesis import settings

settings.register_profile("default", max_examples=40, deadline=None)
settings.register_profile("ci", max_examples=100, deadline=None, derandomize=True, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "default"))

# --------------------------------------------------------------------------------------------------- backends

Backend = Callable[[xr.Dataset], xr.Dataset]


def one_chunk(ds: xr.Dataset) -> xr.Dataset:
    """Everything as one dask chunk, coordinates included, as files opened lazily have it."""
    return ds.chunk()


def ragged(size: int) -> tuple[int, ...]:
    """Uneven chunks: one of a single element, the rest in about 2 : 5."""
    if size < 3:
        return (1,) * size or (0,)
    first = max((size - 1) * 2 // 7, 1)
    return tuple(n for n in (first, 1, size - 1 - first) if n)


def ragged_chunks(ds: xr.Dataset) -> xr.Dataset:
    """Every variable in uneven dask chunks along all of its dims; coordinates stay in memory."""
    chunks = {str(dim): ragged(size) for dim, size in ds.sizes.items()}
    variables = {
        name: v.variable.chunk({dim: chunks[dim] for dim in v.dims}) for name, v in ds.data_vars.items()
    }
    return ds.assign({name: (v.dims, v.data, v.attrs) for name, v in variables.items()})


_BACKENDS: dict[str, Backend] = {
    "numpy": lambda ds: ds,
    "one dask chunk": one_chunk,
    "ragged dask chunks": ragged_chunks,
}


@pytest.fixture(params=list(_BACKENDS))
def backend(request: pytest.FixtureRequest) -> Backend:
    """Turn a dataset held in numpy into the same dataset on one backend after the other."""
    return _BACKENDS[request.param]


# -------------------------------------------------------------------------------------------------- computing


@dataclass
class Computes:
    """How often dask was asked to compute."""

    n: int = 0


@contextmanager
def _count_computes() -> Iterator[Computes]:
    computes = Computes()

    def scheduler(dsk: object, keys: object, **kwargs: object) -> object:
        computes.n += 1
        return dask.threaded.get(dsk, keys, num_workers=1, **kwargs)

    with dask.config.set(scheduler=scheduler):
        yield computes


@pytest.fixture
def count_computes() -> Callable[[], AbstractContextManager[Computes]]:
    """Count computes: ``with count_computes() as computes: ...``, then ``assert computes.n == 1``."""
    return _count_computes


# ----------------------------------------------------------------------------------------------------- report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests were not run because the shared figures are absent."""
    reasons = [
        report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        for report in terminalreporter.stats.get("skipped", [])
    ]
    absent = sum("../shared is absent" in reason for reason in reasons)
    if absent:
        terminalreporter.write_line(f"{absent} tests skipped because ../shared is absent")

"""Every verb on lazy labels: the numbers of numpy, one compute, each block read once; or lazy values."""

from __future__ import annotations

import functools
import threading
import warnings
from collections import Counter
from typing import Any

import cloudpickle
import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr
from verbs import CASES, CHUNKS, DATASETS, N_ITEMS, chunked, quiet, same

import xjudge as xj

NAMES = list(CASES)
LATER = [name for name, case in CASES.items() if case.later]
REFUSED = [name for name, case in CASES.items() if case.refused]
READ = [name for name in NAMES if name != "join"]
"""All but the one that does not look at labels."""


@functools.cache
def data(name: str) -> xr.Dataset:
    return DATASETS[name]()


@functools.cache
def expected(name: str) -> Any:
    return quiet(CASES[name].call, data(CASES[name].data))


class Store:
    """An array in a store that counts how often each stretch of items is read."""

    def __init__(self, array: Any) -> None:
        self.array, self.shape, self.dtype, self.ndim = array, array.shape, array.dtype, array.ndim
        self.loads: Counter[tuple[int, int]] = Counter()
        self._lock = threading.Lock()

    def __getitem__(self, index: Any) -> Any:
        with self._lock:
            self.loads[index[0].start, index[0].stop] += 1
        return self.array[index]


def stored(name: str, chunks: tuple[int, ...] = CHUNKS) -> tuple[xr.Dataset, list[Store]]:
    """A dataset of a case in counting stores, and the stores."""
    stores: list[Store] = []

    def store(array: Any) -> Store:
        stores.append(Store(array))
        return stores[-1]

    return chunked(data(name), chunks, store), stores


def times_read(stores: list[Store]) -> set[int]:
    return {n for store in stores for n in store.loads.values()}


# ------------------------------------------------------------------------------------------------ one by one


@pytest.mark.parametrize("name", NAMES)
def test_one_compute_reads_each_block_once(name: str, count_computes: Any) -> None:
    lazy, stores = stored(CASES[name].data)
    with count_computes() as computes:
        found = quiet(CASES[name].call, lazy)
    assert computes.n == (CASES[name].computes if name in READ else 0)
    assert times_read(stores) == ({1} if name in READ else set())
    same(found, expected(name))


@pytest.mark.parametrize("name", LATER)
def test_lazy_values_are_computed_when_asked(name: str, count_computes: Any) -> None:
    lazy, stores = stored(CASES[name].data)
    with count_computes() as computes:
        later = quiet(CASES[name].call, lazy, compute=False)
        assert computes.n == 0
        assert times_read(stores) == set()
        assert all(variable.chunks is not None for variable in later.data_vars.values())
        (found,) = dask.compute(later)
        assert computes.n == 1
    assert times_read(stores) == {1}
    same(found, expected(name))


@pytest.mark.parametrize("name", REFUSED)
def test_what_holds_votes_says_so(name: str, count_computes: Any) -> None:
    lazy, stores = stored(CASES[name].data)
    with count_computes() as computes, pytest.raises(xj.ProtocolError, match="not lazy"):
        quiet(CASES[name].call, lazy, compute=False)
    assert computes.n == 0
    assert times_read(stores) == set()


@pytest.mark.parametrize("name", [*LATER, *REFUSED])
def test_in_memory_there_is_nothing_to_put_off(name: str) -> None:
    same(quiet(CASES[name].call, data(CASES[name].data), compute=False), expected(name))


@pytest.mark.parametrize("name", READ)
def test_raters_and_criteria_in_chunks_are_merged_with_the_cost(name: str) -> None:
    ds = data(CASES[name].data)
    ends = {str(dim): 2 for dim in ds["label"].dims if dim != "item"}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = CASES[name].call(ds.assign(label=ds["label"].chunk({"item": 40, **ends})))
    told = {str(w.message) for w in caught if "Chunk along `item` only" in str(w.message)}
    n = int(np.prod([-(-ds.sizes[dim] // 2) for dim in ends]))
    listed = ("to_long", "to_sparse", "pair_agreement", "rater_agreement")  # held whole, whatever the chunks
    assert len(told) == (0 if name in listed else 1)
    assert all(f"reads {n} chunks at once" in message for message in told)
    same(found, expected(name))


# ---------------------------------------------------------------------------------------------------- graphs


def graph_sizes(call: Any) -> list[int]:
    """Sizes of the graphs that a call sends to the scheduler, pickled."""
    sizes = []

    def scheduler(graph: Any, keys: Any, **kwargs: Any) -> Any:
        sizes.append(len(cloudpickle.dumps(graph)))
        return dask.get(graph, keys)

    with dask.config.set(scheduler=scheduler):
        call()
    return sizes


def with_ids(name: str, length: int) -> xr.Dataset:
    """Labels made in their blocks, and item ids of a length."""
    ds = data(name).copy()
    ids = np.array([f"{n:0{length}}" for n in range(N_ITEMS)], dtype=object)
    return chunked(ds, array=Made).assign_coords(item=ids)


class Made:
    """An array that travels as the name of its dataset and variable."""

    def __init__(self, array: Any) -> None:
        self.array, self.shape, self.dtype, self.ndim = array, array.shape, array.dtype, array.ndim

    def __reduce__(self) -> tuple[Any, ...]:
        return Counter, ()

    def __getitem__(self, index: Any) -> Any:
        return self.array[index]


@pytest.mark.parametrize("name", READ)
def test_item_ids_are_in_no_graph(name: str) -> None:
    call = CASES[name].call
    short, long = (graph_sizes(lambda n=n: quiet(call, with_ids(CASES[name].data, n))) for n in (3, 3000))
    assert len(short) == len(long) == 1
    assert abs(long[0] - short[0]) < 100


@pytest.mark.parametrize("name", LATER)
def test_item_ids_are_in_no_graph_of_lazy_values(name: str) -> None:
    call = CASES[name].call
    short, long = (
        graph_sizes(lambda n=n: dask.compute(quiet(call, with_ids(CASES[name].data, n), compute=False)))
        for n in (3, 3000)
    )
    assert len(short) == len(long) == 1
    assert abs(long[0] - short[0]) < 100


# -------------------------------------------------------------------------------------------------- together

MANY_CHUNKS = {
    "one": (N_ITEMS,),
    "ragged": CHUNKS,
    "many": (*(3,) * 20, 0, 1, *(6,) * 6),
}


@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
@pytest.mark.parametrize("chunks", list(MANY_CHUNKS))
@pytest.mark.parametrize("name", ["cube", "flat", "numbers", "probable"])
def test_all_verbs_together_read_each_block_once(name: str, chunks: str, scheduler: str) -> None:
    lazy, stores = stored(name, MANY_CHUNKS[chunks])
    asked = {case: quiet(CASES[case].call, lazy, compute=False) for case in LATER if CASES[case].data == name}
    assert len(asked) > 2
    with dask.config.set(scheduler=scheduler):
        (found,) = dask.compute(asked)
    assert times_read(stores) == {1}
    for case, result in found.items():
        same(result, expected(case))


def test_a_report_is_one_pass(count_computes: Any) -> None:
    """Tables, reliability, leave-one-out and effective sizes of one dataset: one compute, one read."""
    lazy, stores = stored("cube")
    names = ["tables", "reliability", "loo_validate", "effective_size"]
    with count_computes() as computes:
        found = dask.compute(*(quiet(CASES[name].call, lazy, compute=False) for name in names))
    assert computes.n == 1
    assert times_read(stores) == {1}
    for name, result in zip(names, found, strict=True):
        same(result, expected(name))


def test_a_block_passes_through_one_task() -> None:
    """Reading, giving the axes another shape and counting are fused."""
    n_chunks = 60
    labels = da.zeros((n_chunks * 2, 6), chunks=(2, 6), dtype=np.int8)
    attrs = data("flat")["label"].attrs
    ds = data("flat").isel(item=[0] * n_chunks * 2).assign(label=(("item", "rater"), labels, attrs))
    sizes = []

    def scheduler(graph: Any, keys: Any, **kwargs: Any) -> Any:
        sizes.append(len(graph.__dask_graph__()))
        return dask.get(graph, keys)

    with dask.config.set(scheduler=scheduler):
        quiet(xj.tables, ds)
    n_merges = 8 + 1
    assert sizes == [2 * n_chunks + n_merges + 1]  # a task of each block has a second name


def test_the_cases_cover_the_verbs() -> None:
    """Of the public interface; what is of results, or lazy by itself, is left out."""
    verbs = (
        "validate rates tables agreement sweep coverage_bounds breakdown compare rank adjust prevalence "
        "reliability disagreements loo_validate alt_test plan_overlap allocate effective_size panel_curve "
        "select_panel stability to_long join"
    )
    called = {name.split(",")[0].split(" of ")[0].split(" by ")[0] for name in CASES}
    assert set(verbs.split()) <= called
    assert sum(CHUNKS) == N_ITEMS

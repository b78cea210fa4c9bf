"""The pass over items on numpy and dask: same numbers, one compute, one load of each block, small graphs."""

import functools
import multiprocessing
import threading
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

import cloudpickle
import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr

import xjudge as xj
from xjudge.errors import StructureError, VocabularyError, XJudgeWarning
from xjudge.lazy import (
    is_lazy,
    item_positions,
    map_items,
    materialise,
    metadata_values,
    one_chunk_beside_items,
    reduce_items,
)
from xjudge.statistics.counts import Axes, item_support, margins, outside, pairs

N_ITEMS = 103
CODES = np.random.default_rng(0).integers(-3, 3, size=(N_ITEMS, 4, 2)).astype(np.int8)
CODES[::20, 1, 1] = 7  # outside
GROUP = np.random.default_rng(1).integers(-1, 3, size=N_ITEMS)
POPULATION = np.random.default_rng(2).random((N_ITEMS, 2, 2)) < 0.6
ARRAYS = {"codes": CODES, "group": GROUP, "population": POPULATION}
AXES = Axes(2, 3)

REQUESTS = (
    outside(3),
    pairs(3, right=None),
    pairs(3, left_columns=[0], right_columns=[3, 1], right_targets=[0, 1, 1, -1, -1, -1]),
    margins(3),
    item_support([True] * 3 + [False] * 3, pooled=True, join=2),
)
NAMES = ("outside", "each_other", "across", "margins", "support")


def named(counted):
    """Finish without a change."""
    return dict(zip(NAMES, counted, strict=True))


def whole():
    return reduce_items(REQUESTS, ARRAYS, named, axes=AXES)


def same(found, expected):
    assert list(found) == list(expected)
    for name, array in found.items():
        assert array.dtype == expected[name].dtype
        assert array.shape == expected[name].shape
        np.testing.assert_array_equal(array, expected[name])


class Source:
    """Labels in a store that counts how often each stretch of items is read."""

    def __init__(self, array):
        self.array, self.shape, self.dtype, self.ndim = array, array.shape, array.dtype, array.ndim
        self.loads = Counter()
        self._lock = threading.Lock()

    def __getitem__(self, index):
        with self._lock:
            self.loads[index[0].start] += 1
        return self.array[index]

    def lazy(self, chunks):
        meta = np.empty((0,) * self.ndim, dtype=self.dtype)
        return da.from_array(self, chunks=chunks, meta=meta, name=f"source-{id(self)}")


# ---------------------------------------------------------------------------------------- the same numbers

CHUNKS = {
    "one chunk": (103,),
    "equal": (26, 26, 26, 25),
    "ragged": (1, 50, 2, 30, 20),
    "with empty ones": (0, 40, 0, 0, 63, 0),
    "an item each": (1,) * 103,
}


@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
@pytest.mark.parametrize("chunks", list(CHUNKS))
def test_same_numbers_on_any_chunks(chunks, scheduler):
    codes = da.from_array(CODES, chunks=(CHUNKS[chunks], 4, 2))
    with dask.config.set(scheduler=scheduler):
        same(reduce_items(REQUESTS, ARRAYS | {"codes": codes}, named, axes=AXES), whole())
        plain = reduce_items(REQUESTS, {"codes": codes}, named)
    same(plain, reduce_items(REQUESTS, {"codes": CODES}, named))


@pytest.fixture(scope="module")
def processes():
    """What sets the scheduler of processes, with one worker for all tests: it takes seconds to start."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield functools.partial(dask.config.set, scheduler="processes", pool=pool)


def test_same_numbers_from_other_processes(processes):
    """Everything in the graph can be sent; finishing stays here, or follows where nothing is computed yet."""
    offset = np.arange(3)  # a closure
    codes = da.from_array(CODES, chunks=(40, 4, 2))

    def finish(counted):
        return named(counted) | {"sum": counted[3].sum() + offset}

    expected = whole() | {"sum": whole()["margins"].sum() + offset}
    with processes():
        now = reduce_items(REQUESTS, ARRAYS | {"codes": codes}, finish, axes=AXES)
        later = reduce_items(REQUESTS[1:], ARRAYS | {"codes": codes}, finish_later, axes=AXES, compute=False)
        (later,) = dask.compute(later)
    same(now, expected)
    same(later, {name: array for name, array in whole().items() if name != "outside"})


def finish_later(counted):
    return dict(zip(NAMES[1:], counted, strict=True))


@pytest.mark.parametrize(
    "lazy", [["group"], ["population"], ["codes", "group"], ["group", "population"], ARRAYS]
)
def test_lazy_and_numpy_arrays_side_by_side(lazy):
    """Chunks that do not match are brought into line, with those of the labels where those are lazy."""
    sizes = {"codes": (30, 73), "group": (103,), "population": (1, 1, 101)}
    arrays = {
        name: da.from_array(array, chunks=(sizes[name], *array.shape[1:])) if name in lazy else array
        for name, array in ARRAYS.items()
    }
    same(reduce_items(REQUESTS, arrays, named, axes=AXES), whole())


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_labels_of_other_dtypes(dtype):
    codes = da.from_array(CODES, chunks=(40, 4, 2)).astype(dtype)
    same(reduce_items(REQUESTS, ARRAYS | {"codes": codes}, named, axes=AXES), whole())


@pytest.mark.parametrize("chunks", [(0,), (0, 0)])
def test_no_items(chunks):
    codes = da.from_array(CODES[:0], chunks=(chunks, 4, 2))
    empty = {name: array[:0] for name, array in ARRAYS.items()}
    expected = reduce_items(REQUESTS, empty, named, axes=AXES)
    same(reduce_items(REQUESTS, empty | {"codes": codes}, named, axes=AXES), expected)
    assert expected["each_other"].shape == (2, 3, 2, 4, 4, 6, 6)


def test_more_blocks_than_one_merge_takes():
    codes = np.tile(CODES, (5, 1, 1))
    lazy = da.from_array(codes, chunks=(3, 4, 2))
    assert lazy.numblocks[0] > 8**2
    same(reduce_items(REQUESTS, {"codes": lazy}, named), reduce_items(REQUESTS, {"codes": codes}, named))


def test_inputs_are_left_alone():
    codes = CODES.copy()
    codes.flags.writeable = False
    reduce_items(REQUESTS, ARRAYS | {"codes": codes}, named, axes=AXES)
    reduce_items(REQUESTS, ARRAYS | {"codes": da.from_array(codes, chunks=(50, 4, 2))}, named, axes=AXES)
    np.testing.assert_array_equal(codes, CODES)


# --------------------------------------------------------------------------------------- computes and loads


def test_one_compute_that_loads_each_block_once(count_computes):
    source = Source(CODES)
    codes = source.lazy((30, 4, 2))
    with count_computes() as computes:
        reduce_items(REQUESTS, ARRAYS | {"codes": codes}, named, axes=AXES)
    assert computes.n == 1
    assert source.loads == {0: 1, 30: 1, 60: 1, 90: 1}


def test_a_column_made_of_the_labels_shares_their_loads(count_computes):
    source = Source(CODES)
    codes = source.lazy((30, 4, 2))
    best = map_items(functools.partial(np.max, axis=1, keepdims=True), [codes], shape=(1, 2), dtype=np.int8)
    request = pairs(3, left="best", n_right_categories=3)
    with count_computes() as computes:
        found = reduce_items([request], {"codes": codes, "best": best}, first)
    assert computes.n == 1
    assert set(source.loads.values()) == {1}
    same(found, reduce_items([request], {"codes": CODES, "best": CODES.max(axis=1, keepdims=True)}, first))


def first(counted):
    return {"counts": counted[0]}


def test_nothing_is_computed_before_it_is_asked_for(count_computes):
    source = Source(CODES)
    arrays = ARRAYS | {"codes": source.lazy((30, 4, 2))}
    with count_computes() as computes:
        later = reduce_items(REQUESTS[1:], arrays, finish_later, axes=AXES, compute=False)
        assert computes.n == 0
        expected = whole()
        for name, array in later.items():
            assert is_lazy(array)
            assert (array.shape, array.dtype) == (expected[name].shape, expected[name].dtype)
        (found,) = dask.compute(later)
        assert computes.n == 1
    assert set(source.loads.values()) == {1}
    same(found, {name: expected[name] for name in found})


def test_several_results_share_the_loads_of_one_compute(count_computes):
    """Two passes and a dataset of both: each block is read once, finishing runs once for each pass."""
    source = Source(CODES)
    codes = source.lazy((30, 4, 2))
    finished = []

    def finish(counted):
        finished.append(None)
        return {"margins": counted[0], "total": counted[0].sum(keepdims=True)}

    one = reduce_items([margins(3)], {"codes": codes}, finish, compute=False)
    other = reduce_items([pairs(3, right=None)], {"codes": codes}, first, compute=False)
    del finished[:]  # the shapes are found by finishing no items
    with count_computes() as computes:
        found, both = dask.compute(one, xr.Dataset({"pairs": (list("cabxy"), other["counts"])}))
    assert computes.n == 1
    assert set(source.loads.values()) == {1}
    assert len(finished) == 1
    single, table = (
        reduce_items([request], {"codes": CODES}, first)["counts"]
        for request in (margins(3), pairs(3, right=None))
    )
    same(found, {"margins": single, "total": single.sum(keepdims=True)})
    np.testing.assert_array_equal(both["pairs"], table)


def test_numpy_needs_no_compute(count_computes):
    with count_computes() as computes:
        for compute in (True, False):
            found = reduce_items(REQUESTS, ARRAYS, named, axes=AXES, compute=compute)
            assert all(isinstance(array, np.ndarray) for array in found.values())
    assert computes.n == 0


def test_only_the_scheduler_of_the_caller_is_used():
    seen = []

    def scheduler(dsk, keys, **kwargs):
        seen.append(kwargs)
        return dask.get(dsk, keys)

    with dask.config.set(scheduler=scheduler):
        reduce_items(REQUESTS, {"codes": da.from_array(CODES, chunks=(30, 4, 2))}, named)
    assert seen == [{}]


# -------------------------------------------------------------------------------------------------- graphs


def graphs(call):
    """Sizes of the graphs that a call sends to the scheduler, pickled, in bytes."""
    sizes = []

    def scheduler(dsk, keys, **kwargs):
        sizes.append(len(cloudpickle.dumps(dsk)))
        return dask.get(dsk, keys)

    with dask.config.set(scheduler=scheduler):
        call()
    return sizes


def random_labels(n_items):
    """Lazy labels in ten blocks, made in the block."""
    positions = da.arange(n_items, chunks=-(-n_items // 10))
    return map_items(made_labels, [positions], shape=(4, 2), dtype=np.dtype(np.int8))


def made_labels(positions):
    return (positions[:, None] // np.arange(1, 9) % 2).astype(np.int8).reshape(-1, 4, 2)


def test_the_graph_does_not_grow_with_the_items():
    few, many = (
        graphs(lambda n=n: reduce_items(REQUESTS, {"codes": random_labels(n)}, named))
        for n in (1000, 1_000_000)
    )
    assert len(few) == len(many) == 1
    assert many[0] < few[0] + 500
    assert many[0] < 30_000


def test_what_the_caller_finishes_with_stays_with_the_caller():
    """Item ids in the closure, as a verb holds them, are not sent to the scheduler."""
    ids = np.array([f"item-{i:09d}" for i in range(100_000)])

    def finish(counted):
        return {"n": np.array(len(ids)), **named(counted)}

    (size,) = graphs(lambda: reduce_items(REQUESTS, {"codes": random_labels(1000)}, finish))
    assert size < 30_000


def test_groups_in_memory_cost_a_byte_an_item():
    n = 100_000
    group = np.arange(n) % 5
    arrays = {"codes": random_labels(n), "group": group}
    (size,) = graphs(lambda: reduce_items([margins(2)], arrays, first, axes=Axes(0, 5)))
    assert size < n + 30_000


@pytest.mark.parametrize("verb", ["agreement", "rates", "tables"])
def test_item_ids_are_in_no_graph_of_a_verb(verb):
    n = 20_000
    ds = xr.Dataset(
        {"label": (("item", "rater"), random_labels(n)[:, :, 0], xj.Scale.binary("no", "yes").to_attrs())},
        coords={
            "item": np.array([f"item-{i:09d}" for i in range(n)], dtype=object),
            "rater": ["a", "b", "c", "d"],
            "role": ("rater", ["human", "human", "judge", "judge"]),
        },
    )
    sizes = graphs(lambda: getattr(xj, verb)(ds))
    assert len(sizes) == 1
    assert sizes[0] < 60_000


# -------------------------------------------------------------------------------------------------- errors


def refuse(counted):
    if len(counted[0]):
        raise VocabularyError(f"{len(counted[0])} kinds of labels are outside the scale.")
    return {"margins": counted[1]}


@pytest.mark.parametrize("scheduler", ["synchronous", "threads", "processes"])
def test_what_finishing_finds_is_raised_by_the_compute(scheduler, processes):
    codes = da.from_array(CODES, chunks=(60, 4, 2))
    requests = [outside(3), margins(3)]
    with processes() if scheduler == "processes" else dask.config.set(scheduler=scheduler):
        with pytest.raises(VocabularyError, match="1 kinds of labels are outside"):
            reduce_items(requests, {"codes": codes}, refuse)
        later = reduce_items(requests, {"codes": codes}, refuse, compute=False)
        with pytest.raises(VocabularyError, match="1 kinds of labels are outside"):
            later["margins"].compute()
    with pytest.raises(VocabularyError, match="1 kinds of labels are outside"):
        reduce_items(requests, {"codes": CODES}, refuse)


def unknown_sizes():
    codes = da.from_array(CODES, chunks=(30, 4, 2))
    return codes[da.from_array(CODES[:, 0, 0] >= 0, chunks=30)]


@pytest.mark.parametrize(
    "call",
    [
        lambda codes: reduce_items([margins(3)], {"codes": codes}, first),
        lambda codes: reduce_items([margins(3)], {"codes": codes}, first, compute=False),
        lambda codes: reduce_items([margins(3)], {"group": codes[:, 0, 0], "codes": CODES}, first),
        lambda codes: map_items(np.abs, [codes], shape=(4, 2), dtype=np.int8),
        one_chunk_beside_items,
        item_positions,
    ],
    ids=["reduce", "reduce later", "beside numpy", "map", "merge chunks", "positions"],
)
def test_unknown_chunk_sizes_are_refused(call):
    with pytest.raises(StructureError, match=r"unknown sizes.*`\.compute_chunk_sizes\(\)`"):
        call(unknown_sizes())


def test_known_again():
    codes = unknown_sizes().compute_chunk_sizes()
    expected = reduce_items([margins(3)], {"codes": CODES[CODES[:, 0, 0] >= 0]}, first)
    same(reduce_items([margins(3)], {"codes": codes}, first), expected)


# ------------------------------------------------------------------------------------------- chunks aside


def test_chunks_beside_items_are_merged_with_a_warning():
    chunked = da.from_array(CODES, chunks=(50, 2, 1))
    with pytest.warns(XJudgeWarning, match=r"\(3, 2, 2\).*reads 4 chunks.*`item` only") as caught:
        merged = one_chunk_beside_items(chunked)
    assert caught[0].filename == __file__
    assert merged.chunks == ((50, 50, 3), (4,), (2,))
    np.testing.assert_array_equal(merged.compute(), CODES)
    same(
        reduce_items(REQUESTS, {"codes": chunked}, named),
        reduce_items(REQUESTS, {"codes": CODES}, named),
    )


@pytest.mark.parametrize("array", [CODES, da.from_array(CODES, chunks=(50, 4, 2))])
def test_no_warning_where_nothing_is_merged(array):
    assert one_chunk_beside_items(array) is array


@pytest.mark.parametrize("lazy", [False, True])
def test_labels_chunked_by_rater_in_a_verb(lazy):
    ds = xj.load_example()
    chunks = dict.fromkeys(ds["label"].dims, -1) | {"item": 40} | ({"rater": 3} if lazy else {})
    chunked = ds.assign(label=ds["label"].chunk(chunks))
    if lazy:
        with pytest.warns(XJudgeWarning, match="Chunk along `item` only"):
            found = xj.tables(chunked)
    else:
        found = xj.tables(chunked)
    xr.testing.assert_identical(found, xj.tables(ds))


# ------------------------------------------------------------------------------------------- mapping items


def doubled(codes, by):
    return (codes.sum(axis=(1, 2)) * by)[:, None]


@pytest.mark.parametrize("chunks", list(CHUNKS))
def test_mapping_is_the_same_in_any_blocks(chunks):
    expected = doubled(CODES.astype(np.int64), GROUP)
    mapped = map_items(
        doubled,
        [da.from_array(CODES.astype(np.int64), chunks=(CHUNKS[chunks], 2, 1)), GROUP],
        shape=(1,),
        dtype=np.dtype(np.int64),
    )
    assert is_lazy(mapped)
    assert (mapped.shape, mapped.dtype, mapped.chunks[0]) == ((103, 1), np.int64, CHUNKS[chunks])
    np.testing.assert_array_equal(mapped.compute(), expected)


def test_mapping_numpy_stays_numpy():
    mapped = map_items(doubled, [CODES.astype(np.int64), GROUP], shape=(1,), dtype=np.dtype(np.int64))
    assert isinstance(mapped, np.ndarray)
    np.testing.assert_array_equal(mapped, doubled(CODES.astype(np.int64), GROUP))


def test_mapping_calls_nothing_before_it_is_asked():
    called = []

    def function(codes):
        called.append(len(codes))
        return codes[:, 0, 0]

    mapped = map_items(function, [da.from_array(CODES, chunks=(60, 4, 2))], shape=(), dtype=np.int8)
    assert called == []
    np.testing.assert_array_equal(mapped.compute(scheduler="synchronous"), CODES[:, 0, 0])
    assert sorted(called) == [43, 60]


@pytest.mark.parametrize("n_items", [0, 1, (1 << 16) + 1])
def test_positions_of_items(n_items):
    labels = np.zeros((n_items, 2), dtype=np.int8)
    expected = np.arange(n_items)
    np.testing.assert_array_equal(item_positions(labels), expected)
    chunked = da.from_array(labels, chunks=(40_000, 2))
    lazy = item_positions(chunked)
    assert is_lazy(lazy)
    assert lazy.chunks[0] == chunked.chunks[0]
    np.testing.assert_array_equal(lazy.compute(), expected)


# ----------------------------------------------------------------------------------------------- in memory


def test_materialising_is_one_compute(count_computes):
    arrays = [da.ones(4, chunks=2), np.arange(3), da.zeros(2)]
    with count_computes() as computes:
        found = materialise(*arrays)
    assert computes.n == 1
    assert all(isinstance(array, np.ndarray) for array in found)
    assert [array.tolist() for array in found] == [[1, 1, 1, 1], [0, 1, 2], [0, 0]]
    with count_computes() as computes:
        assert materialise(arrays[1]) == (arrays[1],)
    assert computes.n == 0


def test_metadata_is_read_in_the_calling_thread(count_computes):
    seen = []
    block = da.from_array(np.array(["human", "judge"]), chunks=1)
    spied = block.map_blocks(lambda b: [seen.append(threading.current_thread()), b][1], dtype=block.dtype)
    del seen[:]
    with count_computes() as computes:
        assert metadata_values(spied).tolist() == ["human", "judge"]
    assert computes.n == 0
    assert set(seen) == {threading.current_thread()}
    assert metadata_values(["a"]).tolist() == ["a"]

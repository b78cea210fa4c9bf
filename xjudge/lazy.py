"""Runs count records over numpy or dask: the only room that touches every label, and imports dask.

On dask it is one blockwise map over item chunks and a tree combine, so the graph holds neither item ids nor
anything else that grows with the corpus. It never creates a client and never picks a scheduler.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from xjudge.codes import smallest_dtype
from xjudge.errors import StructureError, XJudgeWarning, warn
from xjudge.statistics.counts import Axes, Block, Request, combine_blocks, count_block, finish_block

__all__ = [
    "answers_to_items",
    "in_chunks",
    "is_lazy",
    "item_positions",
    "map_items",
    "materialise",
    "metadata_values",
    "one_chunk_beside_items",
    "reduce_items",
    "reshape_beside_items",
    "whole_items",
]

Finish = Callable[[list[Any]], dict[str, npt.NDArray[Any]]]

_SPLIT_EVERY = 8
_ITEMS_AT_A_TIME = 1 << 16
_ANSWERS_AT_A_TIME = 1 << 20


def is_lazy(array: Any) -> bool:
    """Whether an array is computed only when asked (chunked, like a dask array)."""
    return hasattr(array, "dask") and hasattr(array, "chunks")


def materialise(*arrays: Any) -> tuple[Any, ...]:
    """All arrays as numpy, in one compute for those that are lazy."""
    if not any(is_lazy(array) for array in arrays):
        return arrays
    import dask

    return dask.compute(*arrays)


def metadata_values(array: Any) -> npt.NDArray[Any]:
    """Values of a small lazy array (roles, names, a coordinate to slice on), read where the call is made.

    Chunking a dataset makes its coordinates lazy too, and what a verb counts depends on them. They are
    read in the calling thread: the scheduler, local or distributed, only ever sees the pass itself.
    """
    if not is_lazy(array):
        return np.asarray(array)
    return np.asarray(array.compute(scheduler="synchronous"))


def one_chunk_beside_items(array: Any) -> Any:
    """Merge chunks along every axis but the first, with a warning that names the cost.

    Raises
    ------
    StructureError
        Where the sizes of the chunks are unknown.
    """
    _check_chunks(array)
    if not is_lazy(array) or all(len(sizes) == 1 for sizes in array.chunks[1:]):
        return array
    warn(
        f"Labels are chunked {array.numblocks} along (item, rater, ...); all raters and criteria of an item "
        "are needed together, so each item block reads "
        f"{int(np.prod(array.numblocks[1:]))} chunks at once. Chunk along `item` only.",
        XJudgeWarning,
    )
    return array.rechunk(dict.fromkeys(range(1, array.ndim), -1))


def map_items(
    function: Callable[..., Any], arrays: Sequence[Any], *, shape: Sequence[int], dtype: Any
) -> Any:
    """Apply a function item block by item block.

    Parameters
    ----------
    function : callable
        Takes one block of each array and returns an array with the same items.
    arrays : sequence of array
        First axis the item; lazy ones share their item chunks.
    shape : sequence of int
        Sizes of the axes after the item.
    dtype : dtype
        Of the result.

    Returns
    -------
    array
        Lazy if any input is.
    """
    if not any(is_lazy(array) for array in arrays):
        n_items = arrays[0].shape[0]
        out = np.empty((n_items, *shape), dtype=dtype)
        for start in range(0, n_items, _ITEMS_AT_A_TIME):  # intermediates stay small
            block = slice(start, start + _ITEMS_AT_A_TIME)
            out[block] = function(*(array[block] for array in arrays))
        return out
    import dask.array as da

    new_axes = {axis + 1: size for axis, size in enumerate(shape)}
    return da.blockwise(
        _Whole(function),
        (0, *new_axes),
        *_operands(arrays),
        new_axes=new_axes,
        dtype=dtype,
        meta=np.empty((0,) * (1 + len(shape)), dtype=dtype),
    )


def reshape_beside_items(array: Any, shape: Sequence[int]) -> Any:
    """Give the axes after the item another shape, block by block where the array is lazy.

    Parameters
    ----------
    array : array
        First axis the item; lazy ones have one chunk along the others.
    shape : sequence of int
        Sizes of the axes after the item, with as many places as there are.

    Returns
    -------
    array
    """
    if tuple(array.shape[1:]) == tuple(shape):
        return array
    if not is_lazy(array):
        return array.reshape((array.shape[0], *shape))
    return map_items(_Reshaped(tuple(shape)), [array], shape=shape, dtype=array.dtype)


def item_positions(array: Any) -> Any:
    """Position of every item of an array, lazy and in its chunks where the array is lazy."""
    if not is_lazy(array):
        return np.arange(array.shape[0])
    import dask.array as da

    _check_chunks(array)
    return da.arange(array.shape[0], chunks=(array.chunks[0],))


def whole_items(arrays: Sequence[Any], item_code: Any) -> list[Any]:
    """Arrays along answers whose chunks end where an item ends; what is not lazy stays as it is.

    Parameters
    ----------
    arrays : sequence of array
        First axis the answer, sorted by item.
    item_code : array of int, shape (answer,)
        The item of each answer.

    Raises
    ------
    StructureError
        Where the sizes of the chunks are unknown, and where the answers are not sorted by item.

    Warns
    -----
    XJudgeWarning
        Where an item lies across chunks, so that they have to be cut anew.

    Notes
    -----
    The codes at the ends of the chunks are read in the calling thread, like other metadata.
    """
    chunked = [array for array in (*arrays, item_code) if is_lazy(array)]
    if not chunked:
        return list(arrays)
    for array in chunked:
        _check_chunks(array)
    sizes = tuple(size for size in chunked[0].chunks[0] if size) or (0,)
    starts = np.cumsum((0, *sizes))[:-1]
    inner = starts[1:]
    edges = metadata_values(item_code[np.sort(np.concatenate([inner - 1, inner]))]).reshape(-1, 2)
    cuts = inner.tolist()
    if (edges[:, 0] > edges[:, 1]).any():
        raise StructureError('The answers are not sorted by item: use `ds.sortby("item_code")`.')
    across = np.flatnonzero(edges[:, 0] == edges[:, 1])
    if len(across):
        warn(
            f"{len(across)} of {len(sizes)} chunks along `answer` end within an item. They are cut anew, "
            "which reads two chunks for one; chunk the answers where items end.",
            XJudgeWarning,
        )
    for place in across.tolist():
        before = metadata_values(item_code[starts[place] : inner[place]])
        into = int(np.searchsorted(before, edges[place, 1]))
        # an item that fills a whole chunk begins where the cut before it went
        cuts[place] = cuts[place - 1] if into == 0 and place else int(starts[place]) + into
    ends = np.unique([0, *cuts, int(sum(sizes))])
    new = tuple(np.diff(ends).tolist()) or (0,)
    return [
        array.rechunk({0: new, **dict.fromkeys(range(1, array.ndim), -1)}) if is_lazy(array) else array
        for array in arrays
    ]


def in_chunks(arrays: Sequence[Any], cuts: npt.NDArray[np.integer[Any]]) -> list[Any]:
    """Arrays in memory as lazy ones, cut along the first axis."""
    import dask.array as da

    n = len(arrays[0])
    sizes = tuple(np.diff(np.unique([0, *cuts.tolist(), n])).tolist()) or (0,)
    return [da.from_array(array, chunks=(sizes, *array.shape[1:]), name=False) for array in arrays]


def answers_to_items(
    function: Callable[..., Any], arrays: Sequence[Any], n_items: int, *, shape: Sequence[int], dtype: Any
) -> Any:
    """Apply a function to the answers of one block of items after the other.

    Parameters
    ----------
    function : callable
        Takes ``(start, stop, *blocks)``, the answers of the items from ``start`` to before ``stop``, and
        returns an array whose first axis are those items.
    arrays : sequence of array
        Along answers, as :func:`whole_items` gives them; the first is the item of each answer, sorted.
    n_items : int
    shape : sequence of int
        Sizes of the axes after the item.
    dtype : dtype
        Of the result.

    Returns
    -------
    array
        First axis all items, lazy if any input is. An item without answers goes with the one before it.
    """
    lazy = next((array for array in arrays if is_lazy(array)), None)
    if lazy is None:
        return _blocks_of_items(function, arrays, n_items, shape, dtype)
    import dask.array as da

    chunks = lazy.chunks[0]
    firsts = np.cumsum((0, *chunks))[1:-1]
    bounds = np.concatenate([[0], metadata_values(arrays[0][firsts]), [n_items]]).astype(np.int64)
    # codes that are not sorted are told of by the function; here they must not make chunks of negative size
    bounds = np.maximum.accumulate(np.clip(bounds, 0, n_items))
    ends = da.from_array(np.stack([bounds[:-1], bounds[1:]], axis=1), chunks=(1, 2), name=False)
    aligned = [
        array if is_lazy(array) else da.from_array(array, chunks=(chunks, *array.shape[1:]), name=False)
        for array in arrays
    ]
    operands: list[Any] = [ends, (0, 999)]
    for position, array in enumerate(aligned):
        operands += [array, (0, *(1000 * (position + 1) + axis for axis in range(1, array.ndim)))]
    return da.blockwise(
        _OfItems(function),
        (0, *range(1, 1 + len(shape))),
        *operands,
        new_axes=dict(zip(range(1, 1 + len(shape)), shape, strict=True)),
        adjust_chunks={0: tuple(np.diff(bounds).tolist())},
        align_arrays=False,
        dtype=dtype,
        meta=np.empty((0,) * (1 + len(shape)), dtype=dtype),
    )


def reduce_items(
    requests: Sequence[Request],
    arrays: Mapping[str, Any],
    finish: Finish,
    *,
    axes: Axes = Axes(),  # noqa: B008 (frozen)
    compute: bool = True,
) -> dict[str, Any]:
    """Count in one pass over items and finish.

    Parameters
    ----------
    requests : sequence of Request
        What to count.
    arrays : mapping
        Arrays with the item as first axis, by the names that the requests use.
    finish : callable
        From the list of counts (one per request) to named arrays. It raises what only the data can tell.
    axes : Axes
        Leading axes of the counts.
    compute : bool
        On lazy arrays: run the one compute now, or return lazy arrays that share one finishing task.

    Returns
    -------
    dict of array
        What ``finish`` returned; lazy with ``compute=False`` on lazy arrays.

    Raises
    ------
    StructureError
        Where the sizes of the chunks are unknown.

    Notes
    -----
    When computed now, ``finish`` runs in the calling thread, and nothing that it holds goes to the scheduler.
    With ``compute=False`` it is a task, so it should hold nothing that grows with the items.
    """
    if not any(is_lazy(array) for array in arrays.values()):
        counted = count_block(requests, axes, {name: np.asarray(a) for name, a in arrays.items()})
        return finish(finish_block(requests, axes, counted))
    total = _total(requests, arrays, axes)
    finished = _Finish(tuple(requests), axes, finish)
    if compute:
        return finished(total.compute())  # as an array: dask fuses what a block goes through into one task
    import dask.array as da
    from dask import delayed

    (block,) = total.to_delayed(optimize_graph=False).ravel()
    task = delayed(finished)(block)
    template = _template(requests, arrays, finish, axes)
    return {
        name: da.from_delayed(task[name], shape=value.shape, dtype=value.dtype, meta=value)
        for name, value in template.items()
    }


def _blocks_of_items(
    function: Callable[..., Any], arrays: Sequence[Any], n_items: int, shape: Sequence[int], dtype: Any
) -> npt.NDArray[Any]:
    """Blocks of whole items one after the other, in memory, so that intermediates stay small."""
    codes = arrays[0]
    if len(codes) <= _ANSWERS_AT_A_TIME or (codes[1:] < codes[:-1]).any():  # the function tells of disorder
        return np.asarray(function(0, n_items, *arrays))
    starts = np.arange(_ANSWERS_AT_A_TIME, len(codes), _ANSWERS_AT_A_TIME)
    cuts = np.unique(np.searchsorted(codes, codes[starts])).tolist()
    bounds = np.clip([0, *(int(codes[cut]) for cut in cuts if cut), n_items], 0, n_items).tolist()
    cuts = [0, *(cut for cut in cuts if cut), len(codes)]
    out = np.empty((n_items, *shape), dtype=dtype)
    for place, (start, stop) in enumerate(itertools.pairwise(bounds)):
        block = slice(cuts[place], cuts[place + 1])
        out[start:stop] = function(start, stop, *(array[block] for array in arrays))
    return out


def _aligned(arrays: Sequence[Any]) -> list[Any]:
    """Lazy arrays whose item chunks agree with the first lazy one, and one chunk along everything else."""
    import dask.array as da

    for array in arrays:
        _check_chunks(array)
    chunks = next(array.chunks[0] for array in arrays if is_lazy(array))
    out = []
    for array in arrays:
        others = dict.fromkeys(range(1, array.ndim), -1)
        if is_lazy(array):
            out.append(array.rechunk({0: chunks, **others}))
        else:
            out.append(da.from_array(array, chunks=(chunks, *others.values()), name=False))
    return out


def _check_chunks(array: Any) -> None:
    if hasattr(array, "chunks") and not is_lazy(array):
        kind = f"{type(array).__module__.split('.')[0]}.{type(array).__name__}"
        raise StructureError(
            f"The labels are a {kind}, which is chunked but not dask's: they are counted over numpy and dask "
            "arrays. Open the store they come from with dask (`xr.open_zarr(...)`), or `.compute()` them."
        )
    if is_lazy(array) and any(np.isnan(size) for sizes in array.chunks for size in sizes):
        raise StructureError(
            "A lazy array has chunks of unknown sizes, as selecting by a lazy condition leaves them, so that "
            "its items cannot be matched with others; call `.compute_chunk_sizes()` on the array first."
        )


def _total(requests: Sequence[Request], arrays: Mapping[str, Any], axes: Axes) -> Any:
    """An array of one block that holds the counts of all items: a blockwise map and a tree combine."""
    import dask.array as da

    if axes.n_groups and not is_lazy(arrays["group"]):  # it travels in the graph
        group = np.clip(arrays["group"], -1, axes.n_groups).astype(smallest_dtype(axes.n_groups + 1))
        arrays = {**arrays, "group": group}
    counted = da.blockwise(
        _Whole(_Chunk(tuple(requests), axes, tuple(arrays))),
        (0,),
        *_operands(list(arrays.values())),
        adjust_chunks={0: 1},
        dtype=object,
        meta=np.empty((0,), dtype=object),
    )
    merge = _Merge(tuple(requests))
    return da.reduction(
        counted,
        chunk=_unchanged,
        combine=merge,
        aggregate=merge,
        axis=0,
        dtype=object,
        keepdims=True,
        concatenate=False,
        split_every=_SPLIT_EVERY,
        meta=np.empty((0,), dtype=object),
    )


def _operands(arrays: Sequence[Any]) -> list[Any]:
    """Arrays and their indices for ``blockwise``: the item is shared, every other axis is an array's own."""
    out: list[Any] = []
    for position, array in enumerate(_aligned(arrays)):
        out += [array, (0, *(1000 * (position + 1) + axis for axis in range(1, array.ndim)))]
    return out


class _Whole:
    """Takes blocks out of the lists in which they come, one for each axis that is not in the result.

    ``blockwise(concatenate=True)`` would do it too, and copy every block.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *blocks: Any) -> Any:
        return self.function(*map(self._only, blocks))

    def _only(self, block: Any) -> Any:
        while isinstance(block, list):
            (block,) = block
        return block


class _Reshaped:
    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape

    def __call__(self, block: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return block.reshape((block.shape[0], *self.shape))


class _OfItems:
    """Gives a function the ends of its items, and its blocks as :class:`_Whole` does."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = _Whole(function)

    def __call__(self, ends: Any, *blocks: Any) -> Any:
        while isinstance(ends, list):
            (ends,) = ends
        return self.function(int(ends[0, 0]), int(ends[0, 1]), *blocks)


class _Chunk:
    """Counts one block; a class and not a closure, so that schedulers can send it to other processes."""

    def __init__(self, requests: tuple[Request, ...], axes: Axes, names: tuple[str, ...]) -> None:
        self.requests, self.axes, self.names = requests, axes, names

    def __call__(self, *blocks: npt.NDArray[Any]) -> npt.NDArray[Any]:
        out = np.empty(1, dtype=object)
        block: Block = dict(zip(self.names, blocks, strict=True))
        out[0] = count_block(self.requests, self.axes, block)
        return out


class _Merge:
    def __init__(self, requests: tuple[Request, ...]) -> None:
        self.requests = requests

    def __call__(self, blocks: Any, axis: Any = None, keepdims: bool = True) -> npt.NDArray[Any]:
        parts = [part for block in (blocks if isinstance(blocks, list) else [blocks]) for part in block]
        out = np.empty(1, dtype=object)
        out[0] = combine_blocks(self.requests, parts)
        return out


class _Finish:
    def __init__(self, requests: tuple[Request, ...], axes: Axes, finish: Finish) -> None:
        self.requests, self.axes, self.finish = requests, axes, finish

    def __call__(self, block: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
        return self.finish(finish_block(self.requests, self.axes, block[0]))


def _unchanged(block: npt.NDArray[Any], axis: Any = None, keepdims: bool = True) -> npt.NDArray[Any]:
    return block


def _template(
    requests: Sequence[Request], arrays: Mapping[str, Any], finish: Finish, axes: Axes
) -> dict[str, npt.NDArray[Any]]:
    """What ``finish`` makes of no items at all: the shapes and dtypes of the lazy result."""
    nothing = {name: np.empty((0, *array.shape[1:]), dtype=array.dtype) for name, array in arrays.items()}
    return finish(finish_block(requests, axes, count_block(requests, axes, nothing)))

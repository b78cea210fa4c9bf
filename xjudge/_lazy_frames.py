"""Lazy frames: runs functions over the partitions of dask dataframes, and makes arrays of them.

It stands beside ``lazy``, which does the same for arrays. It knows nothing of labels, never creates a client
and never picks a scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from xjudge.errors import DependencyError

__all__ = [
    "arrays_of",
    "by_block",
    "compute_blocks",
    "concat_frames",
    "empty_like",
    "frame_of",
    "is_lazy_frame",
    "partitions",
    "reduce_partitions",
]

_COMBINED_AT_ONCE = 8


def is_lazy_frame(df: Any) -> bool:
    """Whether a frame is a dask dataframe, or anything else that comes in lazy partitions."""
    return all(hasattr(df, name) for name in ("__dask_graph__", "columns", "to_delayed"))


def partitions(df: Any) -> list[Any]:
    """The partitions of a lazy frame, each a lazy pandas frame.

    Frames of ``dask.dataframe.from_delayed(..., verify_meta=False)`` hold aliases under other names than
    their own, which get lost when dask fuses tasks for arrays; they are named again here.
    """
    from dask.delayed import Delayed

    parts = list(df.to_delayed())
    graph = dict(parts[0].dask)
    wrong = {key: node for key, node in graph.items() if hasattr(node, "target") and node.key != key}
    if not wrong:
        return parts
    graph |= {key: type(node)(key, node.target) for key, node in wrong.items()}
    return [Delayed(part.key, graph) for part in parts]


def reduce_partitions(
    parts: Sequence[Any], function: Callable[..., Any], combine: Callable[[list[Any]], Any]
) -> Any:
    """``function`` of every partition, merged in a tree of ``combine``; one compute.

    Parameters
    ----------
    parts : sequence of lazy pandas frames
        At least one.
    function : callable
        Takes a partition and its place among the partitions.
    combine : callable
        Takes a list of neighbours, in their order.
    """
    from dask import delayed

    held = delayed(function, pure=False, traverse=False)
    merge = delayed(combine, pure=False, traverse=False)
    results = [delayed(_call)(held, part, place) for place, part in enumerate(parts)]
    while len(results) > 1:
        groups = [
            results[start : start + _COMBINED_AT_ONCE] for start in range(0, len(results), _COMBINED_AT_ONCE)
        ]
        results = [delayed(_call)(merge, group) for group in groups]
    return results[0].compute()


def compute_blocks(parts: Sequence[Any], function: Callable[..., Any], places: Sequence[int]) -> list[Any]:
    """``function`` of some partitions and their places, in one compute."""
    import dask
    from dask import delayed

    held = delayed(function, pure=False, traverse=False)
    return list(dask.compute(*(delayed(_call)(held, parts[place], place) for place in places)))


def concat_frames(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Frames one below the other, as computing a lazy frame joins them: categoricals become one.

    A column that is a categorical in some frames only becomes plain in all of them.
    """
    from dask.dataframe.dispatch import concat

    filled = [frame for frame in frames if len(frame)] or [frames[0]]
    if len(filled) == 1:
        return filled[0]
    categorical: list[set[Any]] = [set(frame.columns[frame.dtypes == "category"]) for frame in filled]
    mixed = set.union(*categorical) - set.intersection(*categorical)
    if mixed:
        filled = [
            frame.astype({name: frame[name].cat.categories.dtype for name in mixed & held})
            for frame, held in zip(filled, categorical, strict=True)
        ]
    return concat(filled)


def arrays_of(
    parts: Sequence[Any],
    function: Callable[..., Mapping[str, npt.NDArray[Any]]],
    templates: Mapping[str, npt.NDArray[Any]],
    lengths: Sequence[int],
) -> dict[str, Any]:
    """Lazy arrays with one chunk for each partition.

    Parameters
    ----------
    parts : sequence of lazy pandas frames
    function : callable
        Takes a partition and its place, and returns arrays by name.
    templates : mapping of str to array
        For every name an array of no length, with the dtype and the further axes.
    lengths : sequence of int
        How long the arrays of each partition are; partitions of no length are left out.
    """
    import dask.array as da
    from dask import delayed

    held = delayed(function, pure=False, traverse=False)
    blocks = [
        (length, delayed(_call)(held, part, place))
        for place, (part, length) in enumerate(zip(parts, lengths, strict=True))
        if length
    ]
    arrays = {}
    for name, like in templates.items():
        pieces = [
            da.from_delayed(block[name], shape=(length, *like.shape[1:]), dtype=like.dtype, meta=like)
            for length, block in blocks
        ]
        arrays[name] = da.concatenate(pieces) if pieces else da.from_array(like)
    return arrays


def by_block(df: Any, function: Callable[..., pd.DataFrame], meta: pd.DataFrame, n_blocks: int) -> list[Any]:
    """Bring the rows of every block together: one shuffle, by the method that dask is set to.

    Parameters
    ----------
    df : lazy frame
    function : callable
        Takes a partition and its place, and returns a frame with a column ``block``: a number below
        ``n_blocks``.
    meta : pandas.DataFrame
        What ``function`` returns for no rows.
    n_blocks : int

    Returns
    -------
    list of lazy pandas frames
        One for each block, rows in no particular order.
    """
    frame = df.map_partitions(_Placed(function), meta=meta)
    return partitions(frame.set_index("block", divisions=list(range(n_blocks + 1)), sort=True))


class _Placed:
    """Calls a function with a partition and its place, which dask tells under a name of its own."""

    def __init__(self, function: Callable[..., pd.DataFrame]) -> None:
        self.function = function

    def __call__(self, frame: pd.DataFrame, partition_info: dict[str, Any] | None = None) -> pd.DataFrame:
        return self.function(frame, 0 if partition_info is None else partition_info["number"])


def frame_of(
    function: Callable[..., pd.DataFrame], arguments: Sequence[Sequence[Any]], meta: pd.DataFrame
) -> Any:
    """Lazy frame with one partition for each list of arguments of a function; columns keep their dtypes.

    Raises
    ------
    DependencyError
        Without dask's dataframes.
    """
    import dask
    from dask import delayed

    try:
        import dask.dataframe as dd
    except ImportError:
        raise DependencyError(
            'A lazy frame is a dask dataframe, which needs more than dask alone: `pip install "xjudge[io]"`.'
        ) from None

    held = delayed(function, pure=False, traverse=False)
    with dask.config.set({"dataframe.convert-string": False}):
        return dd.from_delayed([delayed(_call)(held, *some) for some in arguments], meta=meta)


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function that stands in the graph once, and not in every task."""
    return function(*arguments)


def empty_like(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """An array of no length with the dtype and the further axes of another one."""
    return np.empty((0, *array.shape[1:]), dtype=array.dtype)

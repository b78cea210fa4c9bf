"""Compiled counting of codes (the ``fast`` extra); imported inside functions only.

Labels are bytes, read by address: whatever the strides of an array, and whether it may be written, there is
one compiled version of each kernel. Sixty-four labels of one rater are compared with a code at once, and the
answers are the bits of a word, so that two raters meet in one AND and one population count. The numpy kernels
give the same integers and are the oracles.

Everything here releases Python's lock, and is kept on disk once it is compiled.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

__all__ = ["count_joint", "count_vectors"]

_WORD = 64

_PLANES = 1 << 16
"""Words of all bit planes of a stretch of items: with its partner's they stay in the second-level cache."""

_STRETCH = 128
"""Words of items whose count vectors are made at a time."""

_BYTE, _PLACE = ir.IntType(8), ir.IntType(32)


def _bytes(n: int) -> ir.VectorType:
    return ir.VectorType(_BYTE, n)


def _picked(builder: Any, first: Any, second: Any, places: list[int]) -> Any:
    """Entries of two vectors one after the other, by their places."""
    mask = ir.Constant(ir.VectorType(_PLACE, len(places)), places)
    return builder.shuffle_vector(first, second, mask)


def _at(builder: Any, address: Any, n: int) -> Any:
    return builder.inttoptr(address, _bytes(n).as_pointer())


def _loaded(builder: Any, address: Any, n: int) -> Any:
    value = builder.load(_at(builder, address, n))
    value.align = 1
    return value


def _store(builder: Any, value: Any, address: Any) -> None:
    builder.store(value, _at(builder, address, value.type.count)).align = 1


def _everywhere(builder: Any, number: Any) -> Any:
    """A number in every place of a vector of 64."""
    nothing = ir.Constant(ir.VectorType(number.type, _WORD), ir.Undefined)
    one = builder.insert_element(nothing, number, ir.Constant(_PLACE, 0))
    return _picked(builder, one, nothing, [0] * _WORD)


def _same(builder: Any, address: Any, code: Any) -> Any:
    labels = _loaded(builder, address, _WORD)
    return builder.icmp_signed("==", labels, _everywhere(builder, code))


@intrinsic
def _ones(typing_context: Any, word: Any) -> Any:
    """Bits set in a word."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(*arguments)

    return types.int64(types.uint64), generate


@intrinsic
def _label(typing_context: Any, address: Any) -> Any:
    """The label at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(builder.inttoptr(arguments[0], _BYTE.as_pointer()))

    return types.int8(types.int64), generate


@intrinsic
def _equal(typing_context: Any, address: Any, code: Any) -> Any:
    """Which of the 64 labels from an address on are a code, the first in the lowest bit."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(_same(builder, *arguments), ir.IntType(_WORD))

    return types.uint64(types.int64, types.int8), generate


def _turned(builder: Any, rows: list[Any], target: Any, target_stride: Any) -> None:
    """Copy 8 bytes of each of 8 rows with rows and columns exchanged: three times halves are interleaved."""
    parts = [_loaded(builder, row, 8) for row in rows]
    while len(parts) > 1:
        width = 2 * parts[0].type.count
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [_picked(builder, a, b, list(range(width))) for a, b in pairs]
    (tile,) = parts
    interleaved = [place for k in range(32) for place in (k, 32 + k)]
    for _ in range(3):
        tile = _picked(builder, tile, tile, interleaved)
    for place in range(8):
        line = _picked(builder, tile, tile, list(range(8 * place, 8 * place + 8)))
        _store(builder, line, _further(builder, target, target_stride, place))


def _further(builder: Any, start: Any, step: Any, place: int) -> Any:
    return builder.add(start, builder.mul(step, ir.Constant(step.type, place)))


@intrinsic
def _turn(typing_context: Any, source: Any, stride: Any, target: Any, target_stride: Any) -> Any:
    """Copy 8 x 8 bytes with rows and columns exchanged."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, stride, *target = arguments
        _turned(builder, [_further(builder, source, stride, place) for place in range(8)], *target)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64, types.int64), generate


@intrinsic
def _turn_rows(typing_context: Any, rows: Any, place: Any, target: Any, target_stride: Any) -> Any:
    """Copy 8 bytes, from a place on, of each of 8 rows, with rows and columns exchanged."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows, place, *target = arguments
        starts = [builder.add(builder.extract_value(rows, row), place) for row in range(8)]
        _turned(builder, starts, *target)
        return context.get_dummy_value()

    return types.void(types.UniTuple(types.int64, 8), types.int64, types.int64, types.int64), generate


@intrinsic
def _count_equal(typing_context: Any, address: Any, code: Any, counts: Any) -> Any:
    """Add 1 to each of 64 counts whose label, of the 64 from an address on, is a code."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        same = _same(builder, arguments[0], arguments[1])
        added = builder.sub(_loaded(builder, arguments[2], _WORD), builder.sext(same, _bytes(_WORD)))
        _store(builder, added, arguments[2])
        return context.get_dummy_value()

    return types.void(types.int64, types.int8, types.int64), generate


@intrinsic
def _append_digits(typing_context: Any, numbers: Any, radix: Any, digits: Any) -> Any:
    """Append a digit to each of 64 numbers of 32 bits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = ir.VectorType(_PLACE, _WORD)
        place = builder.inttoptr(arguments[0], wide.as_pointer())
        old = builder.load(place)
        old.align = 1
        shifted = builder.mul(old, _everywhere(builder, arguments[1]))
        digit = builder.zext(_loaded(builder, arguments[2], _WORD), wide)
        builder.store(builder.add(shifted, digit), place).align = 1
        return context.get_dummy_value()

    return types.void(types.int64, types.int32, types.int64), generate


@intrinsic
def _raise(typing_context: Any, most: Any, address: Any) -> Any:
    """Raise each of 64 bytes to that of the 64 from an address on, where it is greater."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        old, new = (_loaded(builder, place, _WORD) for place in arguments)
        _store(builder, builder.select(builder.icmp_signed(">", new, old), new, old), arguments[0])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@njit(cache=True, nogil=True, inline="always")
def _stage(side: Any, start: int, stop: int, n_items: int, rows: Any) -> None:
    """Copy some items of a side (item, column) to rows (column, item) of a buffer of 8 rows or more."""
    base, stride, width, _ = side
    last = stop - start
    tiled = last // 8 * 8
    if width < 8:  # a tile reads beyond its rows, but never beyond the array
        tiled = max(0, min(tiled, (n_items - 16 - start) // 8 * 8))
    address, pitch = rows.ctypes.data, rows.shape[1]
    for i in range(0, tiled, 8):
        for place in range(0, width, 8):
            c = max(0, min(place, width - 8))
            _turn(base + (start + i) * stride + c, stride, address + c * pitch + i, pitch)
    for i in range(tiled, last):
        for c in range(width):
            rows[c, i] = _label(base + (start + i) * stride + c)


@njit(cache=True, nogil=True, inline="always")
def _place(side: Any, columns: Any, cell: int, start: int, rows: Any, out: Any) -> None:
    """Addresses of the labels of each column from an item on: in the buffer, or where they stand."""
    for i in range(len(columns)):
        offset = columns[i] + cell * side[3]
        if len(rows):
            out[i] = rows.ctypes.data + offset * rows.shape[1]
        else:
            out[i] = side[0] + offset + start


@njit(cache=True, nogil=True, inline="always")
def _pack(rows: Any, codes: Any, n_items: int, planes: Any, counts: Any) -> None:
    """Bit planes (column, code, word) of items from the addresses of rows, and how many bits they have."""
    whole = n_items // _WORD
    used = (n_items + _WORD - 1) // _WORD
    for i in range(len(rows)):
        for x in range(len(codes)):
            for word in range(whole):
                planes[i, x, word] = _equal(rows[i] + _WORD * word, codes[x])
            if whole < used:
                bits = np.uint64(0)
                for k in range(_WORD * whole, n_items):
                    same = _label(rows[i] + k) == codes[x]
                    bits |= np.uint64(same) << np.uint64(k - _WORD * whole)
                planes[i, x, whole] = bits
            total = 0
            for word in range(used):
                total += _ones(planes[i, x, word])
            counts[i, x] += total


@njit(cache=True, nogil=True)
def count_joint(
    left: Any,
    left_columns: npt.NDArray[np.int64],
    left_codes: npt.NDArray[np.int8],
    right: Any,
    right_columns: npt.NDArray[np.int64],
    right_codes: npt.NDArray[np.int8],
    each_other: bool,
    n_items: int,
    joint: npt.NDArray[np.int64],
    of_left: npt.NDArray[np.int64],
    of_right: npt.NDArray[np.int64],
) -> None:
    """Add up joint counts (cell, A, B, code, code) and counts (cell, A, code), (cell, B, code) of items.

    A side is the address of its first label, the bytes from an item to the next, the bytes that an item has
    side by side, and the bytes from a cell to the next; ``columns`` are the bytes from the first column to
    each. Where items are next to each other (1 byte apart) labels are read where they stand; otherwise they
    are first turned, a stretch of items at a time. With ``each_other`` the right side is the left one, and
    only pairs A < B are counted.
    """
    n_left, n_right = len(left_columns), len(right_columns)
    n_planes = n_left * len(left_codes) + (0 if each_other else n_right * len(right_codes))
    n_words = max(8, min(256, _PLANES // max(1, n_planes)))
    a = np.empty((n_left, len(left_codes), n_words), np.uint64)
    b = a if each_other else np.empty((n_right, len(right_codes), n_words), np.uint64)
    pitch = _WORD * (n_words + 1)  # no power of two: rows would share the lines of a cache
    left_rows = np.empty((0 if left[1] == 1 else max(8, left[2]), pitch), np.int8)
    right_rows = np.empty((0 if each_other or right[1] == 1 else max(8, right[2]), pitch), np.int8)
    left_at, right_at = np.empty(n_left, np.int64), np.empty(n_right, np.int64)
    for start in range(0, n_items, _WORD * n_words):
        stop = min(n_items, start + _WORD * n_words)
        if len(left_rows):
            _stage(left, start, stop, n_items, left_rows)
        if len(right_rows):
            _stage(right, start, stop, n_items, right_rows)
        used = (stop - start + _WORD - 1) // _WORD
        for cell in range(len(joint)):
            _place(left, left_columns, cell, start, left_rows, left_at)
            _pack(left_at, left_codes, stop - start, a, of_left[cell])
            if not each_other:
                _place(right, right_columns, cell, start, right_rows, right_at)
                _pack(right_at, right_codes, stop - start, b, of_right[cell])
            for i in range(n_left):
                for j in range(i + 1 if each_other else 0, n_right):
                    for x in range(len(left_codes)):
                        for y in range(len(right_codes)):
                            total = 0
                            for word in range(used):
                                total += _ones(a[i, x, word] & b[j, y, word])
                            joint[cell, i, j, x, y] += total


@njit(cache=True, nogil=True)
def count_vectors(
    side: Any, columns: npt.NDArray[np.int64], n_items: int, n_categories: int, totals: npt.NDArray[np.int64]
) -> int:
    """Add up how many items have each vector of label counts, and return the greatest code.

    A vector is a number whose digits, one for each category and the first the most significant, are counts;
    ``totals`` has a place for each. Sides and columns are those of :func:`count_joint`, of one cell and at
    most 127 columns.
    """
    n_rows = len(columns)
    length = _WORD * _STRETCH
    rows = np.full((max(8, side[2], n_rows), length + _WORD), -1, np.int8)
    at = np.empty(n_rows, np.int64)
    counts, greatest = np.empty(_WORD, np.int8), np.full(_WORD, -1, np.int8)
    vectors = np.empty(length, np.int32)
    for start in range(0, n_items, length):
        n = min(n_items, start + length) - start
        if side[1] != 1:
            _stage(side, start, start + n, n_items, rows)
        _place(side, columns, 0, start, rows if side[1] != 1 else rows[:0], at)
        if side[1] == 1 and n % _WORD:  # what follows the last items is not theirs
            for r in range(n_rows):
                for k in range(n):
                    rows[r, k] = _label(at[r] + k)
                at[r] = rows.ctypes.data + r * rows.shape[1]
        vectors[:] = 0
        for word in range(0, n, _WORD):
            for category in range(n_categories):
                counts[:] = 0
                for r in range(n_rows):
                    _count_equal(at[r] + word, np.int8(category), counts.ctypes.data)
                _append_digits(vectors.ctypes.data + 4 * word, np.int32(n_rows + 1), counts.ctypes.data)
            for r in range(n_rows):
                _raise(greatest.ctypes.data, at[r] + word)
        for k in range(n):
            totals[vectors[k]] += 1
    return greatest.max()

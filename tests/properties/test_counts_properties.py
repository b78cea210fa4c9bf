"""What holds of counts whatever the labels: order, relabelling, transposition, margins, splits, layouts."""

import contextlib
import itertools
from unittest import mock

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from xjudge.codes import n_raw
from xjudge.statistics import _tables
from xjudge.statistics.counts import (
    MASKED,
    Axes,
    combine_blocks,
    count_block,
    finish_block,
    item_support,
    margins,
    outside,
    pairs,
)


@st.composite
def labels(draw, max_items=25, max_raters=6, max_cells=3):
    """(number of categories, codes): now and then a code outside the scale."""
    n_categories = draw(st.sampled_from([1, 2, 3, 5, 17, 130]))
    dtype = draw(st.sampled_from([np.int8, np.int16, np.int32, np.int64]))
    shape = tuple(draw(st.integers(0, most)) for most in (max_items, max_raters, max_cells))
    most = min(n_categories - 1, np.iinfo(dtype).max)
    usual = st.one_of(st.integers(-3, min(1, most)), st.integers(-3, most))
    strange = st.sampled_from([MASKED, -4, min(most + 1, np.iinfo(dtype).max), int(np.iinfo(dtype).min)])
    element = st.one_of(usual, usual, usual, strange) if draw(st.booleans()) else usual
    return n_categories, draw(hnp.arrays(dtype, shape, elements=element))


@contextlib.contextmanager
def forced(kernel):
    with contextlib.ExitStack() as stack:
        for name, value in kernel.items():
            stack.enter_context(mock.patch.object(_tables, name, value))
        yield


kernels = st.sampled_from(
    [
        {},
        {"_SMALL_CELL": 0},
        {"_SMALL_CELL": 0, "_BLOCK_ITEMS": 4},
        {"_SMALL_CELL": 0, "_LARGEST_HISTOGRAM": 1},
        {"_SMALL_CELL": 0, "_LARGEST_HISTOGRAM": 40, "_BLOCK_LABELS": 9},
        {"_SMALL_CELL": 0, "_COST_CALL": 10**9, "_COST_MARGIN": 0, "_LANES": 2},
    ]
)


def run(requests, axes=Axes(), **arrays):  # noqa: B008 (frozen)
    return finish_block(requests, axes, count_block(requests, axes, arrays))


def same(counted, expected):
    assert counted.dtype == np.int64
    np.testing.assert_array_equal(counted, expected)


@given(labels(), kernels)
def test_kernels_give_the_same_integers(scale_and_codes, kernel):
    n, codes = scale_and_codes
    sides = {
        "left_columns": range(codes.shape[1] // 2),
        "right_columns": range(codes.shape[1] // 3, codes.shape[1]),
    }
    requests = [pairs(n, right=None), pairs(n), pairs(n, **sides), margins(n)]
    whole = run(requests, codes=codes)
    with forced(kernel):
        for counted, expected in zip(run(requests, codes=codes), whole, strict=True):
            same(counted, expected)


@given(labels(), kernels, st.randoms(use_true_random=False))
def test_order_of_raters_and_of_items(scale_and_codes, kernel, random):
    n, codes = scale_and_codes
    raters, items = ([*range(size)] for size in (codes.shape[1], codes.shape[0]))
    random.shuffle(raters)
    random.shuffle(items)
    with forced(kernel):
        table, single = run([pairs(n, right=None), margins(n)], codes=codes)
        turned, turned_single = run([pairs(n, right=None), margins(n)], codes=codes[items][:, raters])
    same(turned, table[:, raters][:, :, raters])
    same(turned_single, single[:, raters])


@given(labels(), kernels)
def test_transposition(scale_and_codes, kernel):
    """Swapping the sides transposes the tables; with each other, they are symmetric."""
    n, codes = scale_and_codes
    split = codes.shape[1] // 2
    a, b = range(split), range(split, codes.shape[1])
    with forced(kernel):
        forth, back, every = run(
            [
                pairs(n, left_columns=a, right_columns=b),
                pairs(n, left_columns=b, right_columns=a),
                pairs(n, right=None),
            ],
            codes=codes,
        )
    same(back, forth.transpose(0, 2, 1, 4, 3))
    same(every, every.transpose(0, 2, 1, 4, 3))
    same(every[:, :split, split:], forth)


@given(labels(), kernels)
def test_margins_of_tables(scale_and_codes, kernel):
    """The diagonal pairs hold the margins; where nothing is left out, so do the sums of every pair."""
    n, codes = scale_and_codes
    with forced(kernel):
        table, single, strange = run([pairs(n, right=None), margins(n), outside(n)], codes=codes)
    diagonal = table.diagonal(axis1=1, axis2=2).transpose(0, 3, 1, 2)
    for rater in range(codes.shape[1]):
        same(diagonal[:, rater], single[:, rater, :, None] * np.eye(n_raw(n), dtype=np.int64))
    if not len(strange):
        same(table.sum(-1), np.broadcast_to(single[:, :, None], table.shape[:-1]))
        same(table.sum(-2), np.broadcast_to(single[:, None], table.shape[:-1]))
        assert (table.sum((-2, -1)) == len(codes)).all()
    assert single.sum() + strange[:, 3].sum() == codes.size


@given(labels(), kernels, st.randoms(use_true_random=False))
def test_relabelling_moves_cells(scale_and_codes, kernel, random):
    n, codes = scale_and_codes
    targets = [*range(n_raw(n))]
    random.shuffle(targets)
    with forced(kernel):
        table, moved, moved_left = run(
            [
                pairs(n, right=None),
                pairs(n, left_targets=targets, right=None),
                pairs(n, left_targets=targets),
            ],
            codes=codes,
        )
    same(moved[..., targets, :][..., targets], table)
    same(moved_left[..., targets, :], table)


@given(labels(), kernels, st.data())
def test_merging_places_merges_cells(scale_and_codes, kernel, data):
    """Any targets count what collapsing the raw tables gives: a protocol is `M' T M`."""
    n, codes = scale_and_codes
    targets = data.draw(st.lists(st.integers(-1, 3), min_size=n_raw(n), max_size=n_raw(n)))
    matrix = np.zeros((n_raw(n), max(targets) + 1), dtype=np.int64)
    for code, target in enumerate(targets):
        if target >= 0:
            matrix[code, target] = 1
    with forced(kernel):
        table, merged = run([pairs(n, right=None), pairs(n, left_targets=targets, right=None)], codes=codes)
    same(merged, matrix.T @ table @ matrix)


@given(labels(), st.lists(st.integers(0, 25), max_size=6), st.data())
def test_splits_and_axes(scale_and_codes, cuts, data):
    """Any split counts the same; a population and its complement, and all groups, make the whole."""
    n, codes = scale_and_codes
    n_items, _, n_cells = codes.shape
    requests = [pairs(n, right=None), margins(n), outside(n)]
    keep = data.draw(hnp.arrays(np.bool_, (n_items, n_cells)))
    group = data.draw(hnp.arrays(np.int16, n_items, elements=st.integers(-1, 2)))
    arrays = {
        "codes": codes,
        "population": np.stack([keep, ~keep], axis=1),
        "group": np.where(group < 0, 2, group),
    }
    axes = Axes(2, 3)
    bounds = [0, *sorted(min(cut, n_items) for cut in cuts), n_items]
    parts = [
        count_block(requests, axes, {name: array[start:stop] for name, array in arrays.items()})
        for start, stop in itertools.pairwise(bounds)
    ]
    split = finish_block(requests, axes, combine_blocks(requests, parts))
    for part, whole in zip(split, run(requests, axes, **arrays), strict=True):
        same(part, whole)
    for part, whole in zip(split[:2], run(requests[:2], codes=codes), strict=True):
        same(part.sum((0, 1)), whole)


@given(labels(), st.lists(st.booleans(), min_size=200, max_size=200), st.booleans())
def test_item_support_bounds(scale_and_codes, flags, pooled):
    """Between what every cell gives and the sum over cells; symmetric where the sides are."""
    n, codes = scale_and_codes
    n_cells = codes.shape[2]
    usable = flags[: n_raw(n)]
    apart, joined = run(
        [item_support(usable, pooled=pooled), item_support(usable, pooled=pooled, join=max(1, n_cells))],
        codes=codes,
    )
    if n_cells:
        assert (joined[0] >= apart.max(0)).all()
        assert (joined[0] <= apart.sum(0)).all()
    assert (joined <= len(codes)).all()
    if not pooled:
        same(apart, apart.transpose(0, 2, 1))

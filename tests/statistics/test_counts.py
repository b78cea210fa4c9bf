"""Count records against loops over items; leading axes, several requests at once, and partial counts."""

import itertools
import pickle
import tracemalloc
from collections import Counter

import numpy as np
import pytest

from xjudge.codes import CA, EXCLUDED, INVALID, MISSING
from xjudge.statistics import counts
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


def run(requests, axes=Axes(), **arrays):  # noqa: B008 (frozen)
    """Count one block and finish."""
    return finish_block(requests, axes, count_block(requests, axes, arrays))


def one(request, axes=Axes(), **arrays):  # noqa: B008 (frozen)
    return run([request], axes, **arrays)[0]


def labels(shape, n_categories, seed=0):
    return np.random.default_rng(seed).integers(-3, n_categories, size=shape).astype(np.int8)


def place(code, n_categories):
    """Place of a code on the raw axis; None where it has none."""
    if 0 <= code < n_categories:
        return code
    return {MISSING: n_categories, CA: n_categories + 1, INVALID: n_categories + 2}.get(code)


def plain_pairs(left, right, n_left, n_right):
    """Tables (cell, A, B, n_left + 3, n_right + 3) by one loop over everything."""
    n_items, n_a, n_cells = left.shape
    out = np.zeros((n_cells, n_a, right.shape[1], n_left + 3, n_right + 3), dtype=np.int64)
    for i, a, b, cell in itertools.product(range(n_items), range(n_a), range(right.shape[1]), range(n_cells)):
        x, y = place(int(left[i, a, cell]), n_left), place(int(right[i, b, cell]), n_right)
        if x is not None and y is not None:
            out[cell, a, b, x, y] += 1
    return out


def same(counted, expected):
    assert counted.dtype == np.int64
    assert counted.shape == np.shape(expected)
    np.testing.assert_array_equal(counted, expected)


# -------------------------------------------------------------------------------------------------- pairs

# Three items, two raters, one criterion, by hand: (0, 1), (0, CA), (missing, 1).
THREE = np.array([[0, 1], [0, CA], [MISSING, 1]], dtype=np.int8)[:, :, None]


def test_pairs_by_hand():
    table = one(pairs(2, left_columns=[0], right_columns=[1]), codes=THREE)
    same(
        table[0, 0, 0],
        # 0, 1, missing, CA, invalid
        [[0, 1, 0, 1, 0], [0, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, 0, 0]],
    )


@pytest.mark.parametrize("n_cells", [1, 3])
@pytest.mark.parametrize(("columns_a", "columns_b"), [(None, None), ([0, 2], [1]), ([3], [3, 1, 0])])
def test_pairs_are_those_of_the_loop(n_cells, columns_a, columns_b):
    codes = labels((50, 4, n_cells), 3)
    a, b = (codes if c is None else codes[:, c] for c in (columns_a, columns_b))
    table = one(pairs(3, left_columns=columns_a, right_columns=columns_b), codes=codes)
    same(table, plain_pairs(a, b, 3, 3))


def test_pairs_of_two_arrays_with_scales_of_their_own():
    codes, majority = labels((40, 3, 2), 4), labels((40, 1, 2), 2, seed=1).astype(np.int32)
    request = pairs(2, left="majority", right="codes", n_right_categories=4)
    same(one(request, codes=codes, majority=majority), plain_pairs(majority, codes, 2, 4))


def test_pairs_with_each_other():
    codes = labels((60, 4, 2), 2)
    table = one(pairs(2, right=None), codes=codes)
    same(table, plain_pairs(codes, codes, 2, 2))
    chosen = one(pairs(2, left_columns=[3, 1], right=None), codes=codes)
    same(chosen, table[:, [3, 1]][:, :, [3, 1]])


def test_pairs_collapse_in_the_pass_as_they_do_after_it():
    """Targets count `M' T M`; negative ones leave a code out."""
    codes = labels((80, 3, 2), 3)
    targets = [0, 1, 1, -1, 0, 2]
    matrix = np.zeros((6, 3), dtype=np.int64)
    for code, target in enumerate(targets):
        if target >= 0:
            matrix[code, target] = 1
    table = plain_pairs(codes, codes, 3, 3)
    same(one(pairs(3, left_targets=targets, right=None), codes=codes), matrix.T @ table @ matrix)
    same(one(pairs(3, left_targets=targets), codes=codes), matrix.T @ table)
    same(one(pairs(3, right_targets=targets), codes=codes), table @ matrix)


def test_codes_that_are_counted_nowhere():
    codes = np.array([0, EXCLUDED, MASKED, 7, -9, 1], dtype=np.int8).reshape(-1, 1, 1)
    assert one(pairs(2, right=None), codes=codes).sum() == 2
    assert one(margins(2), codes=codes).sum() == 2


# --------------------------------------------------------------------------------------------------- margins


@pytest.mark.parametrize("columns", [None, [1], [2, 0]])
def test_margins_are_counts_of_single_columns(columns):
    codes = labels((70, 3, 2), 4)
    expected = np.zeros((2, 3, 7), dtype=np.int64)
    for _, r, cell in itertools.product(range(70), range(3), range(2)):
        expected[cell, r, place(int(codes[_, r, cell]), 4)] += 1
    same(one(margins(4, columns=columns), codes=codes), expected if columns is None else expected[:, columns])


def test_margins_of_another_array():
    same(one(margins(2, array="votes"), votes=THREE), [[[2, 0, 1, 0, 0], [0, 2, 0, 1, 0]]])


# ---------------------------------------------------------------------------------------------- item support


def plain_support(left, right, usable_left, usable_right, *, pooled, join):
    """Items on which some left column and the right column are usable in one of the joined cells."""
    n_items, n_a, n_cells = left.shape
    n_categories, apart = len(usable_left) - 3, n_cells // join
    out = np.zeros((apart, 1 if pooled else n_a, right.shape[1]), dtype=np.int64)

    def usable(code, flags):
        found = place(int(code), n_categories)
        return found is not None and flags[found]

    for i, cell, b in itertools.product(range(n_items), range(apart), range(right.shape[1])):
        # the criterion varies slowest: cells of one criterion stand together
        cells = [criterion * apart + cell for criterion in range(join)]
        for a, members in enumerate([range(n_a)] if pooled else [[a] for a in range(n_a)]):
            out[cell, a, b] += any(
                usable(left[i, m, c], usable_left) and usable(right[i, b, c], usable_right)
                for m in members
                for c in cells
            )
    return out


USABLE = {
    "answered": (True, True, True, False, False, False),
    "answered or CA": (True, True, True, False, True, False),
    "some categories": (True, False, True, False, False, True),
    "nothing": (False,) * 6,
    "everything": (True,) * 6,
}


@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize("join", [1, 2, 3, 6])
@pytest.mark.parametrize("usable", list(USABLE))
def test_item_support_is_that_of_the_loop(usable, join, pooled):
    codes = labels((130, 5, 6), 3)
    codes[3] = MASKED
    left, right = USABLE[usable], USABLE["answered"]
    request = item_support(
        left, right, left_columns=[0, 1, 2], right_columns=[4, 3], pooled=pooled, join=join
    )
    expected = plain_support(codes[:, :3], codes[:, [4, 3]], left, right, pooled=pooled, join=join)
    same(one(request, codes=codes), expected)


def test_item_support_takes_the_left_side_for_both():
    codes = labels((60, 2, 1), 3)
    flags = USABLE["some categories"]
    same(
        one(item_support(flags), codes=codes),
        plain_support(codes, codes, flags, flags, pooled=False, join=1),
    )


@pytest.mark.parametrize("n_items", [0, 1, 63, 64, 65, 1000])
def test_item_support_in_blocks(monkeypatch, n_items):
    monkeypatch.setattr(counts, "_SUPPORT_ITEMS", 64)
    codes = labels((n_items, 3, 2), 3)
    flags = USABLE["answered"]
    for pooled in (False, True):
        same(
            one(item_support(flags, pooled=pooled, join=2), codes=codes),
            plain_support(codes, codes, flags, flags, pooled=pooled, join=2),
        )


# ------------------------------------------------------------------------------------ codes outside the scale


def test_outside_names_rater_cell_code_and_count():
    codes = np.zeros((6, 2, 2), dtype=np.int8)
    codes[:3, 1, 0] = 5
    codes[4, 1, 0] = -4
    codes[2:4, 0, 1] = MASKED
    codes[5] = [[MISSING, CA], [INVALID, 1]]
    same(one(outside(2), codes=codes), [[0, 1, MASKED, 2], [1, 0, -4, 1], [1, 0, 5, 3]])


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_outside_is_exact_at_the_ends_of_the_dtype(dtype):
    info = np.iinfo(dtype)
    codes = np.array([info.min, info.max, info.max, 0], dtype=dtype).reshape(-1, 1, 1)
    same(one(outside(3), codes=codes), [[0, 0, info.min, 1], [0, 0, info.max, 2]])


@pytest.mark.parametrize("shape", [(0, 2, 1), (3, 0, 1), (3, 2, 0), (4, 2, 1)])
def test_nothing_is_outside(shape):
    assert one(outside(2), codes=np.zeros(shape, dtype=np.int8)).shape == (0, 4)


@pytest.mark.parametrize(("code", "is_outside"), [(-4, True), (-3, False), (2, False), (3, True)])
def test_the_first_code_beyond_an_end_is_outside(code, is_outside):
    found = one(outside(3), codes=np.full((2, 1, 1), code, dtype=np.int8))
    assert found.tolist() == ([[0, 0, code, 2]] if is_outside else [])


def test_outside_looks_at_every_item_once_whatever_the_axes():
    codes = np.full((4, 1, 1), 9, dtype=np.int8)
    axes = Axes(2, 3)
    found = one(
        outside(2),
        axes,
        codes=codes,
        population=np.zeros((4, 2), dtype=bool),
        group=np.full(4, -1, dtype=int),
    )
    same(found, [[0, 0, 9, 4]])


def test_a_number_that_is_not_integral_is_outside():
    codes = np.array([0.0, 1.5, np.nan, np.inf, -1e300, 1.0]).reshape(-1, 1, 1)
    least = np.iinfo(np.int32).min
    same(one(outside(2), codes=codes), [[0, 0, least, 3]])
    same(one(margins(2), codes=codes), [[[1, 1, 1, 0, 0]]])


# ------------------------------------------------------------------------------------------- leading axes

REQUESTS = (
    pairs(3, right=None),
    pairs(3, left_columns=[0], right_columns=[1, 2], right_targets=[0, 1, 1, -1, -1, -1]),
    margins(3),
    item_support(USABLE["answered"], pooled=True, join=2),
    outside(3),
)


def expected(keep, codes):
    """The requests on the items and cells that are kept, the others masked."""
    return run(REQUESTS, codes=np.where(keep, codes, np.int8(MASKED)))[:-1]


@pytest.fixture
def codes():
    return labels((90, 3, 2), 3, seed=4)


def test_groups_are_counts_of_their_items(codes):
    group = np.random.default_rng(1).integers(-1, 4, size=90)
    counted = run(REQUESTS, Axes(n_groups=4), codes=codes, group=group)
    for g in range(4):
        for part, whole in zip(expected((group == g)[:, None, None], codes), counted[:-1], strict=True):
            same(whole[g], part)
    assert (group == -1).any()


@pytest.mark.parametrize("dtype", [np.int8, np.int64])
def test_items_of_no_group_and_groups_of_no_item(codes, dtype):
    group = np.full(90, -1, dtype=dtype)
    group[:10] = 1
    tables, *_ = run(REQUESTS, Axes(n_groups=3), codes=codes, group=group)
    same(tables[1], one(REQUESTS[0], codes=codes[:10]))
    assert not tables[[0, 2]].any()


def test_many_groups_keep_their_order(codes):
    """More groups than 16 bits hold."""
    group = np.arange(90) * 400
    tables = one(margins(3, columns=[0]), Axes(n_groups=36_000), codes=codes[:, :, :1], group=group)
    assert tables.shape == (36_000, 1, 1, 6)
    for i in range(90):
        assert tables[i * 400, 0, 0, place(int(codes[i, 0, 0]), 3)] == 1
    assert tables.sum() == 90


def test_populations_of_items_and_of_cases(codes):
    rng = np.random.default_rng(2)
    by_item, by_case = rng.random((90, 3)) < 0.6, rng.random((90, 3, 2)) < 0.6
    by_item[:, 2] = False
    for population, keep in ((by_item, by_item[:, :, None, None]), (by_case, by_case[:, :, None, :])):
        counted = run(REQUESTS, Axes(n_populations=3), codes=codes, population=population)
        for p in range(3):
            for part, whole in zip(expected(keep[:, p], codes), counted[:-1], strict=True):
                same(whole[p], part)


def test_populations_and_groups_together(codes):
    rng = np.random.default_rng(3)
    group, population = rng.integers(-1, 2, size=90), rng.random((90, 2, 2)) < 0.5
    counted = run(REQUESTS, Axes(2, 2), codes=codes, population=population, group=group)
    for p, g in itertools.product(range(2), range(2)):
        keep = population[:, p, None] & (group == g)[:, None, None]
        for part, whole in zip(expected(keep, codes), counted[:-1], strict=True):
            same(whole[p, g], part)


@pytest.mark.parametrize(
    ("axes", "lead"), [(Axes(), ()), (Axes(1, 0), (1,)), (Axes(0, 1), (1,)), (Axes(1, 1), (1, 1))]
)
def test_an_axis_of_one_is_kept_and_no_axis_is_none(codes, axes, lead):
    arrays = {"population": np.ones((90, 1), dtype=bool), "group": np.zeros(90, dtype=int)}
    plain = run(REQUESTS, codes=codes)
    counted = run(REQUESTS, axes, codes=codes, **arrays)
    for part, whole in zip(plain[:-1], counted[:-1], strict=True):
        same(whole, part.reshape(*lead, *part.shape))


def test_axes_of_one_do_not_take_axes_of_length_one_with_them():
    counted = one(
        pairs(2, left_columns=[0], right_columns=[0]), Axes(1, 0), codes=THREE, population=ALL_THREE
    )
    assert counted.shape == (1, 1, 1, 1, 5, 5)


ALL_THREE = np.ones((3, 1), dtype=bool)


# ------------------------------------------------------------------------------------ several, in any blocks


def test_requests_of_one_pass_are_those_of_several(codes):
    together = run(REQUESTS, codes=codes)
    for request, counted in zip(REQUESTS, together, strict=True):
        same(counted, one(request, codes=codes))
    assert run([], codes=codes) == []


AXES_ARRAYS = {
    "population": np.random.default_rng(7).random((90, 2, 2)) < 0.7,
    "group": np.random.default_rng(8).integers(-1, 3, size=90),
}


@pytest.mark.parametrize("cuts", [[], [0], [90], [45], [1, 2, 3], [10, 10, 80], list(range(91))])
def test_any_split_of_the_items_counts_the_same(codes, cuts):
    codes[::17, 1, 1] = 8  # outside
    codes[::23, 0, 0] = -7
    arrays, axes = {"codes": codes, **AXES_ARRAYS}, Axes(2, 3)
    parts = [
        count_block(REQUESTS, axes, {name: array[start:stop] for name, array in arrays.items()})
        for start, stop in itertools.pairwise([0, *cuts, 90])
    ]
    whole = run(REQUESTS, axes, **arrays)
    for counted, expected_ in zip(
        finish_block(REQUESTS, axes, combine_blocks(REQUESTS, parts)), whole, strict=True
    ):
        same(counted, expected_)


def test_partial_counts_combine_in_any_order_and_nesting(codes):
    codes[::7, 2, 0] = 8
    axes = Axes(2, 3)
    a, b, c = (
        count_block(REQUESTS, axes, {k: v[i : i + 30] for k, v in {"codes": codes, **AXES_ARRAYS}.items()})
        for i in (0, 30, 60)
    )
    kept = pickle.dumps([a, b, c])

    def finished(*parts):
        return finish_block(REQUESTS, axes, combine_blocks(REQUESTS, parts))

    whole = finished(a, b, c)
    for other in (
        finished(combine_blocks(REQUESTS, [a, b]), c),
        finished(a, combine_blocks(REQUESTS, [b, c])),
        finished(c, a, b),
        finished(combine_blocks(REQUESTS, [combine_blocks(REQUESTS, [a]), b, c])),
    ):
        for x, y in zip(whole, other, strict=True):
            same(y, x)
    assert pickle.dumps([a, b, c]) == kept  # combining leaves the partial counts alone


def test_counts_beyond_two_to_the_53_are_exact():
    """Twice 2**61 + 1: doubles would lose the last unit."""
    codes = np.array([[[0]], [[9]]], dtype=np.int8)
    requests = [margins(1), outside(1), pairs(1, right=None)]
    partial = count_block(requests, Axes(), {"codes": codes})
    big = (1 << 61) + 1
    partial[0][0][0] *= big
    partial[1][:, 3] *= big
    partial[2][0][0] *= big
    single, strange, table = finish_block(requests, Axes(), combine_blocks(requests, [partial, partial]))
    assert single[0, 0, 0] == strange[0, 3] == table[0, 0, 0, 0, 0] == 2 * big


@pytest.mark.parametrize("labels_at_a_time", [1, 6, 50, 200])
@pytest.mark.parametrize("axes", [Axes(), Axes(2, 0), Axes(0, 3), Axes(2, 3)])
def test_copies_are_made_of_some_items_at_a_time(monkeypatch, codes, axes, labels_at_a_time):
    codes[::9, 0, 0] = 77
    arrays = {"codes": np.where(codes == MISSING, np.nan, codes), **AXES_ARRAYS}
    whole = run(REQUESTS, axes, **arrays)
    monkeypatch.setattr(counts, "_COPIED_LABELS", labels_at_a_time)
    for counted, expected_ in zip(run(REQUESTS, axes, **arrays), whole, strict=True):
        same(counted, expected_)


def test_memory_does_not_grow_with_the_items():
    codes = labels((3_000_000, 4, 1), 2)
    population = np.ones((len(codes), 8), dtype=bool)
    floats = codes.astype(np.float32)
    run([pairs(2, right=None)], codes=codes[:100_000])

    def peak(axes, **arrays):
        tracemalloc.start()
        run([outside(2), pairs(2, right=None), margins(2)], axes, **arrays)
        _, top = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return top

    assert peak(Axes(), codes=codes) < 8e6  # 12 MB of labels
    assert peak(Axes(8, 0), codes=codes, population=population) < 12e6
    assert peak(Axes(), codes=floats) < 120e6  # 260 MB, were all of them translated at once


# ------------------------------------------------------------------------------------------- what labels are


@pytest.mark.parametrize(
    "convert",
    [
        lambda codes: codes.astype(np.int64),
        lambda codes: np.where(codes == MISSING, np.nan, codes),
        lambda codes: np.where(codes == MISSING, np.nan, codes).astype(np.float32),
        lambda codes: np.where(codes == MISSING, np.nan, codes).astype(np.float16),
        lambda codes: codes.astype(np.float64),
        lambda codes: np.asfortranarray(codes),
    ],
    ids=["int64", "float64", "float32", "float16", "whole floats", "fortran"],
)
def test_labels_of_other_dtypes(codes, convert):
    converted = convert(codes)
    converted.flags.writeable = False
    before = converted.tobytes()
    for counted, expected_ in zip(run(REQUESTS, codes=converted), run(REQUESTS, codes=codes), strict=True):
        same(counted, expected_)
    assert converted.tobytes() == before


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint64])
def test_unsigned_labels(dtype):
    codes = np.array([0, 1, 1, np.iinfo(dtype).max], dtype=dtype).reshape(-1, 1, 1)
    single, strange = run([margins(2), outside(2)], codes=codes)
    same(single, [[[1, 2, 0, 0, 0]]])
    assert strange[:, [0, 1, 3]].tolist() == [[0, 0, 1]]


@pytest.mark.parametrize("shape", [(0, 3, 2), (5, 3, 0), (1, 3, 2)])
@pytest.mark.parametrize("axes", [Axes(), Axes(1, 2)])
def test_empty_axes_have_shapes(shape, axes):
    n_items, n_raters, n_cells = shape
    arrays = {
        "codes": np.zeros(shape, dtype=np.int8),
        "population": np.ones((n_items, 1), dtype=bool),
        "group": np.zeros(n_items, dtype=int),
    }
    requests = [pairs(2, right=None), margins(2), item_support([True] * 5)]
    lead = (1, 2) if axes.n_groups else ()
    tables, single, support = run(requests, axes, **arrays)
    assert tables.shape == (*lead, n_cells, n_raters, n_raters, 5, 5)
    assert single.shape == (*lead, n_cells, n_raters, 5)
    assert support.shape == (*lead, n_cells, n_raters, n_raters)
    n_labels = n_items * n_cells
    assert (tables.sum(), single.sum()) == (n_labels * n_raters**2, n_labels * n_raters)


def test_everything_can_be_sent_to_another_process(codes):
    requests, axes = pickle.loads(pickle.dumps((REQUESTS, Axes(0, 0))))
    for counted, expected_ in zip(run(requests, axes, codes=codes), run(REQUESTS, codes=codes), strict=True):
        same(counted, expected_)


def test_real_numbers_beside_labels_are_left_as_they_are():
    """`score` is no label: it reaches a record as it is, and NaN outside the population."""
    seen = []

    def chunk(options, block):
        seen.append({name: array.copy() for name, array in block.items()})
        return np.zeros(1, dtype=np.int64)

    spy = counts.Request(counts.Count("spy", chunk, counts._add, counts._as_counted))
    score = np.array([0.5, 1.5, 2.5])[:, None, None]
    run([spy], Axes(1, 0), codes=THREE, score=score, population=np.array([[True], [False], [True]]))
    (block,) = seen
    assert set(block) == {"codes", "score"}
    np.testing.assert_array_equal(block["score"].ravel(), [0.5, np.nan, 2.5])
    assert Counter(block["codes"].ravel().tolist()) == {0: 1, 1: 2, MASKED: 2, MISSING: 1}

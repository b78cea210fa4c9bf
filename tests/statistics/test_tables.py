"""Kernels of the counting pass, each forced, against loops over items and pairs of columns."""

import importlib
import importlib.util
import itertools
import sys
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xjudge.statistics import _kernels, _planes, _tables
from xjudge.statistics._tables import Columns, column_counts, pair_tables, places_of

NOWHERE = -1


def plain_place(code, targets, n_places):
    """Where a code is counted, from the definition of the raw axis."""
    n_categories = len(targets) - 3
    if 0 <= code < n_categories:
        place = targets[code]
    elif code in (-1, -2, -3):
        place = targets[n_categories - 1 - code]
    else:
        return NOWHERE
    return place if 0 <= place < n_places else NOWHERE


def plain_places(columns):
    """Places (item, column, cell) as nested lists."""
    chosen = range(columns.codes.shape[1]) if columns.chosen is None else columns.chosen
    return [
        [[plain_place(int(code), columns.targets, columns.n_places) for code in item[c]] for c in chosen]
        for item in columns.codes
    ]


def plain_pair_tables(left, right=None):
    other = left if right is None else right
    a, b = plain_places(left), plain_places(other)
    n_cells = left.codes.shape[2]
    out = np.zeros((n_cells, left.n_columns, other.n_columns, left.n_places, other.n_places), dtype=np.int64)
    for x, y in zip(a, b, strict=True):
        for cell, i, j in itertools.product(range(n_cells), range(left.n_columns), range(other.n_columns)):
            if x[i][cell] != NOWHERE and y[j][cell] != NOWHERE:
                out[cell, i, j, x[i][cell], y[j][cell]] += 1
    return out


def plain_column_counts(columns):
    n_cells = columns.codes.shape[2]
    out = np.zeros((n_cells, columns.n_columns, columns.n_places), dtype=np.int64)
    for item in plain_places(columns):
        for cell, i in itertools.product(range(n_cells), range(columns.n_columns)):
            if item[i][cell] != NOWHERE:
                out[cell, i, item[i][cell]] += 1
    return out


def raw(codes, n_categories, chosen=None):
    """Columns counted on the raw axis itself."""
    return Columns(codes, range(n_categories + 3), n_categories + 3, chosen)


def same(counts, expected):
    assert counts.dtype == np.int64
    assert counts.shape == expected.shape
    np.testing.assert_array_equal(counts, expected)


KERNELS = {
    "one bincount": {"_SMALL_CELL": 1 << 40, "_SMALL": 1 << 40},
    "one bincount a cell": {"_SMALL_CELL": 1 << 40, "_SMALL": 1},
    "groups": {},
    "groups in many blocks": {"_BLOCK_ITEMS": 16},
    "groups in blocks of few labels": {"_BLOCK_LABELS": 50},
    "groups as large as fit": {"_COST_CALL": 10**9, "_COST_MARGIN": 0},
    "groups of few patterns": {"_LARGEST_HISTOGRAM": 700},
    "groups of single columns, wide codes": {"_LARGEST_HISTOGRAM": 1},
    "groups with little room": {"_LARGEST_TOTAL": 2000},
    "groups without lanes": {"_LANES": 1},
    "groups of three lanes": {"_LANES": 3},
    "planes": {},
    "planes of one word": {"_PLANE_WORDS": 1},
    "compiled": {},
    "compiled from copies": {"_COPIED_ITEMS": 48, "_in_place": lambda columns, items: None},
    "sparse": {},
    "sparse in many blocks": {"SPARSE_ITEMS": 16},
    "sparse without the greatest": {},
}
HAS_NUMBA = importlib.util.find_spec("numba") is not None


def force(monkeypatch, name):
    """Take one kernel for whatever is counted; codes that no byte holds are counted in groups instead."""
    if name.startswith("one bincount"):
        return
    monkeypatch.setattr(_tables, "_SMALL_CELL", 0)
    fast = importlib.import_module("xjudge.statistics._fast") if name.startswith("compiled") else None
    monkeypatch.setattr(_tables, "compiled", lambda n_labels: fast)

    def chosen(left, right):
        other = left if right is None else right
        if name.startswith("planes"):
            return _planes.by_planes
        if name == "sparse without the greatest":
            return partial(_planes.by_sparse_columns, common=(left.bounds[1], other.bounds[1]))
        if name.startswith("sparse"):
            common = _planes.common_codes(left)[0], _planes.common_codes(other)[0]
            return partial(_planes.by_sparse_columns, common=common)
        if _tables._compiled_for(left, other) is not None:
            return partial(_planes.by_compiled_planes, fast=fast)
        return _tables._by_groups

    monkeypatch.setattr(_tables, "_kernel", chosen)


@pytest.fixture(
    params=[
        pytest.param(name, marks=pytest.mark.skipif("compiled" in name and not HAS_NUMBA, reason="no numba"))
        for name in KERNELS
    ]
)
def kernel(request, monkeypatch):
    """Force one kernel after the other, in every shape it can take."""
    for name, value in KERNELS[request.param].items():
        rooms = [room for room in (_tables, _planes) if hasattr(room, name)]
        assert rooms
        for room in rooms:
            monkeypatch.setattr(room, name, value)
    force(monkeypatch, request.param)
    if not request.param.startswith("one bincount"):
        one_bincount = _tables._one_bincount

        def only_where_there_is_no_pair(tables, left, *args):
            assert not len(left.codes) or not tables.size
            one_bincount(tables, left, *args)

        monkeypatch.setattr(_tables, "_one_bincount", only_where_there_is_no_pair)
    return request.param


def random_codes(rng, shape, n_categories, *, beyond=False, dtype=np.int8):
    """Labels with every outcome; ``beyond`` adds codes outside the scale and masked ones."""
    codes = rng.integers(-3, n_categories, size=shape)
    if beyond:
        info = np.iinfo(dtype)
        strange = [info.min, info.max, -4, -128, min(n_categories, info.max), min(n_categories + 1, info.max)]
        codes = np.where(rng.random(shape) < 0.2, rng.choice(strange, size=shape), codes)
    return codes.astype(dtype)


# ------------------------------------------------------------------------------------- against plain loops


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
@pytest.mark.parametrize("n_categories", [2, 3, 5, 17])
@pytest.mark.parametrize("n_columns", [1, 2, 3, 7])
def test_columns_with_each_other(kernel, n_columns, n_categories, dtype):
    rng = np.random.default_rng(n_columns * 100 + n_categories)
    codes = random_codes(rng, (90, n_columns, 1), n_categories, beyond=True, dtype=dtype)
    columns = raw(codes, n_categories)
    same(pair_tables(columns), plain_pair_tables(columns))
    same(column_counts(columns), plain_column_counts(columns))


@pytest.mark.parametrize(("n_left", "n_right"), [(1, 1), (1, 6), (5, 1), (2, 5), (4, 3)])
@pytest.mark.parametrize(("left_categories", "right_categories"), [(2, 2), (2, 9), (12, 3)])
def test_two_sides_of_different_codes(kernel, n_left, n_right, left_categories, right_categories):
    rng = np.random.default_rng(n_left * 10 + n_right)
    left = raw(random_codes(rng, (80, n_left, 2), left_categories, beyond=True), left_categories)
    codes = random_codes(rng, (80, n_right, 2), right_categories, beyond=True, dtype=np.int16)
    right = raw(codes, right_categories)
    same(pair_tables(left, right), plain_pair_tables(left, right))


@pytest.mark.parametrize("n_columns", [13, 24, 40])
def test_many_raters(kernel, n_columns):
    rng = np.random.default_rng(n_columns)
    columns = raw(random_codes(rng, (40, n_columns, 1), 2), 2)
    same(pair_tables(columns), plain_pair_tables(columns))
    same(column_counts(columns), plain_column_counts(columns))


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int64])
def test_two_hundred_categories(kernel, dtype):
    """int8 labels reach 128 categories of a longer scale; its negative codes are no categories."""
    rng = np.random.default_rng(200)
    codes = random_codes(rng, (60, 2, 1), min(200, np.iinfo(dtype).max), beyond=True, dtype=dtype)
    left, right = raw(codes, 200, [0]), raw(codes, 200, [1])
    same(pair_tables(left, right), plain_pair_tables(left, right))
    same(column_counts(left), plain_column_counts(left))


def test_more_cells_than_sixteen_bits_number(kernel):
    rng = np.random.default_rng(400)
    codes = random_codes(rng, (60, 2, 1), 400, beyond=True, dtype=np.int16)
    left, right = raw(codes, 400, [0]), raw(codes, 400, [1])
    same(pair_tables(left, right), plain_pair_tables(left, right))


def test_three_hundred_categories_of_int8_labels(kernel):
    columns = raw(np.array([-128, -100, -3, -1, 0, 127], dtype=np.int8).reshape(-1, 1, 1), 300)
    same(pair_tables(columns), plain_pair_tables(columns))
    assert column_counts(columns).sum() == 4


@pytest.mark.parametrize("chosen", [[0], [4, 1], [3, 3, 0], [1, 2, 3], []])
def test_chosen_columns_in_their_order(kernel, chosen):
    rng = np.random.default_rng(len(chosen))
    codes = random_codes(rng, (70, 5, 3), 3, beyond=True)
    columns, everyone = raw(codes, 3, chosen), raw(codes, 3)
    same(pair_tables(columns), plain_pair_tables(columns))
    same(pair_tables(columns, everyone), plain_pair_tables(columns, everyone))
    same(pair_tables(everyone, columns), plain_pair_tables(everyone, columns))
    same(column_counts(columns), plain_column_counts(columns))


@pytest.mark.parametrize(
    ("targets", "n_places"),
    [
        ((0, 0, 0, 2, 1, 1), 3),  # answered, asked, missing
        ((2, 1, 0, 3, 4, 5), 6),  # categories turned around
        ((0, 1, 1, -1, 0, -1), 2),  # CA is negative, the rest counted nowhere
        ((0, 9, 1, 9, 9, 9), 2),  # a place beyond the last is nowhere
        ((0, 1, 2, 3, 4, 5), 2),
        ((-1, -1, -1, -1, -1, -1), 2),  # everything nowhere
        ((-1, -1, -1, -1, -1, -1), 0),  # no place at all
    ],
)
def test_places_of_the_caller(kernel, targets, n_places):
    rng = np.random.default_rng(n_places)
    codes = random_codes(rng, (75, 4, 2), 3, beyond=True)
    mapped, plain = Columns(codes, targets, n_places), raw(codes, 3)
    same(pair_tables(mapped), plain_pair_tables(mapped))
    same(pair_tables(mapped, plain), plain_pair_tables(mapped, plain))
    same(column_counts(mapped), plain_column_counts(mapped))


@pytest.mark.parametrize("value", [0, 1, 4, -1, -2, -3, -4, -128, 127])
def test_constant_labels(kernel, value):
    """One code everywhere: in base one any number of columns makes the same joint code."""
    columns = raw(np.full((50, 5, 1), value, dtype=np.int8), 5)
    for sides in ([columns], [raw(columns.codes, 5, [0, 1]), raw(columns.codes, 5, [4])]):
        same(pair_tables(*sides), plain_pair_tables(*sides))
    same(column_counts(columns), plain_column_counts(columns))


def test_blocks_that_lack_some_codes(kernel):
    """Each stretch of 16 items uses codes of its own, one of them none that is counted."""
    rng = np.random.default_rng(5)
    used = [[0], [2, 3], [-1], [-128, 9], [-3, 0, 1, 2, 3, 4], [4, -2], [100]]
    codes = np.concatenate([rng.choice(codes, size=(16, 6, 1)) for codes in used]).astype(np.int8)
    columns = raw(codes, 5)
    same(pair_tables(columns), plain_pair_tables(columns))
    halves = raw(codes, 5, [0, 1, 2]), raw(codes, 5, [3, 4, 5])
    same(pair_tables(*halves), plain_pair_tables(*halves))
    same(column_counts(columns), plain_column_counts(columns))


# ------------------------------------------------------------------------------------------- awkward inputs


@pytest.mark.parametrize("shape", [(0, 3, 2), (5, 0, 2), (5, 3, 0), (0, 0, 0), (1, 1, 1)])
def test_empty_and_single(kernel, shape):
    columns = raw(np.zeros(shape, dtype=np.int8), 2)
    same(pair_tables(columns), plain_pair_tables(columns))
    same(column_counts(columns), plain_column_counts(columns))


def test_no_category_at_all(kernel):
    columns = raw(np.array([-3, -2, -1, 0, 1], dtype=np.int8).reshape(-1, 1, 1), 0)
    np.testing.assert_array_equal(pair_tables(columns)[0, 0, 0], np.eye(3, dtype=int))


@pytest.mark.parametrize(
    "layout",
    [
        lambda codes: np.asfortranarray(codes),
        lambda codes: np.ascontiguousarray(codes.transpose(2, 1, 0)).transpose(2, 1, 0),
        lambda codes: np.repeat(codes, 2, axis=0)[::2],
        lambda codes: codes[::-1, ::-1, ::-1],
        lambda codes: np.broadcast_to(codes[:1], codes.shape),
        lambda codes: codes.astype(codes.dtype.newbyteorder(">")),
    ],
    ids=["fortran", "rater-major", "strided", "negative strides", "broadcast", "foreign byte order"],
)
@pytest.mark.parametrize("dtype", [np.int8, np.int32])
def test_any_layout_read_only(kernel, layout, dtype):
    rng = np.random.default_rng(8)
    codes = layout(random_codes(rng, (60, 4, 3), 3, beyond=True, dtype=dtype))
    codes.flags.writeable = False
    before = codes.copy()
    for columns in (raw(codes, 3), raw(codes, 3, [2, 0])):
        same(pair_tables(columns), plain_pair_tables(columns))
        same(column_counts(columns), plain_column_counts(columns))
    np.testing.assert_array_equal(codes, before)


# --------------------------------------------------------------------------------------- as the library runs


@pytest.mark.parametrize(("n_columns", "n_categories"), [(2, 2), (5, 2), (12, 2), (3, 130), (6, 5)])
def test_more_items_than_a_block(n_columns, n_categories):
    """Unforced, with the codes changing at the boundary of the first block."""
    n_items = _tables._BLOCK_ITEMS + 70
    rng = np.random.default_rng(n_columns)
    codes = rng.integers(0, n_categories, size=(n_items, n_columns), dtype=np.int16)
    codes[_tables._BLOCK_ITEMS :] = rng.integers(-3, 1, size=(70, n_columns))
    assert n_items * n_columns**2 > _tables._SMALL_CELL
    tables = pair_tables(raw(codes[:, :, None], n_categories))[0]
    place = np.where(codes >= 0, codes, n_categories - 1 - codes).astype(np.int64)
    width = n_categories + 3
    for i, j in itertools.product(range(n_columns), repeat=2):
        pair = np.zeros(width * width, dtype=np.int64)
        np.add.at(pair, place[:, i] * width + place[:, j], 1)
        same(tables[i, j], pair.reshape(width, width))


@pytest.mark.parametrize(
    ("shape", "n_categories"), [((70_000, 2, 1), 2), ((9_000, 3, 1), 5), ((40, 60, 1), 2), ((700, 11, 3), 4)]
)
def test_kernels_agree_where_the_library_changes_over(monkeypatch, shape, n_categories):
    rng = np.random.default_rng(shape[0])
    columns = raw(random_codes(rng, shape, n_categories, beyond=True), n_categories)
    by_groups = pair_tables(columns)
    monkeypatch.setattr(_tables, "_SMALL_CELL", 1 << 40)
    same(pair_tables(columns), by_groups)


def test_patterns_that_fill_sixteen_bits(greedy):
    """Sixteen raters of two codes, all patterns once: every pair is balanced."""
    codes = (np.arange(1 << 16)[:, None] >> np.arange(16) & 1).astype(np.int8)
    columns = raw(codes[:, :, None], 2)
    same(column_counts(columns)[0, :, :2], np.full((16, 2), 1 << 15))
    tables = pair_tables(columns)[0, :, :, :2, :2]
    for i, j in itertools.product(range(16), repeat=2):
        same(tables[i, j], np.diag([1 << 15] * 2) if i == j else np.full((2, 2), 1 << 14))


@pytest.fixture
def greedy(monkeypatch):
    """Few histograms at any price, so that only their size keeps them small."""
    force(monkeypatch, "groups")
    monkeypatch.setattr(_tables, "_COST_CALL", 10**9)
    monkeypatch.setattr(_tables, "_COST_MARGIN", 0)


def histograms(monkeypatch, *calls):
    """Bins of each histogram, and of all that are held at once."""
    bins, held = [], []
    bincount, counted = np.bincount, _tables._histograms

    def spy(code, minlength):
        bins.append(minlength)
        return bincount(code, minlength=minlength)

    def spy_on_all(*args):
        out = counted(*args)
        held.append(out.size)
        return out

    monkeypatch.setattr(np, "bincount", spy)
    monkeypatch.setattr(_tables, "_histograms", spy_on_all)
    for call in calls:
        call()
    return bins, held


def test_histograms_stay_small_and_few(monkeypatch, greedy):
    codes = random_codes(np.random.default_rng(3), (70_000, 9, 1), 4)
    bins, held = histograms(
        monkeypatch,
        lambda: pair_tables(raw(codes, 4)),
        lambda: pair_tables(raw(codes, 4, [0, 1]), raw(codes, 4, range(2, 9))),
        lambda: column_counts(raw(codes, 4)),
    )
    assert max(bins) <= _tables._LARGEST_HISTOGRAM
    assert len(bins) < 9 * 8 / 2  # several pairs in one histogram
    assert len(held) == 3


def test_histograms_of_many_raters_share_a_limit(monkeypatch, greedy):
    codes = random_codes(np.random.default_rng(3), (4000, 30, 1), 2)
    monkeypatch.setattr(_tables, "_LARGEST_TOTAL", 1 << 16)
    _, held = histograms(
        monkeypatch, lambda: pair_tables(raw(codes, 2)), lambda: column_counts(raw(codes, 2))
    )
    assert len(held) == 2
    assert max(held) <= 1 << 16


# ------------------------------------------------------------------------------------ all kernels, one answer


@st.composite
def labels_in_memory(draw):
    """Codes (item, column, cell) of any kind in any layout, read-only, and which columns are chosen."""
    n_items = draw(st.sampled_from([0, 1, 7, 8, 9, 15, 16, 17, 63, 64, 65, 129]))
    n_columns, n_cells = draw(st.integers(1, 11)), draw(st.integers(1, 3))
    n_categories = draw(st.sampled_from([1, 2, 5, 30]))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    dtype = draw(st.sampled_from([np.int8, np.int16, np.int64]))
    shape = (n_items, n_columns, n_cells)
    codes = random_codes(rng, shape, n_categories, beyond=draw(st.booleans()), dtype=dtype)
    if draw(st.booleans()):
        codes[rng.random(codes.shape) < 0.9] = draw(st.sampled_from([-1, 0]))
    layouts = [
        np.asfortranarray,
        np.ascontiguousarray,
        lambda a: np.repeat(a, 2, axis=0)[::2],
        lambda a: np.repeat(a, 3, axis=1)[:, ::3],
        lambda a: np.concatenate([a, a[:, :1]], axis=1)[:, :-1],
        lambda a: np.ascontiguousarray(a.transpose(0, 2, 1)).transpose(0, 2, 1),
        lambda a: np.ascontiguousarray(a.transpose(2, 0, 1)).transpose(1, 2, 0),
        lambda a: a[::-1],
    ]
    codes = draw(st.sampled_from(layouts))(codes)
    codes.flags.writeable = False
    chosen = draw(st.none() | st.lists(st.integers(0, n_columns - 1), max_size=6))
    return codes, n_categories, chosen


@pytest.mark.parametrize("name", ["groups", "planes", "compiled", "sparse"])
@settings(deadline=None, max_examples=40)
@given(data=labels_in_memory())
def test_every_kernel_counts_the_same(name, data):
    if name == "compiled" and not HAS_NUMBA:
        pytest.skip("no numba")
    codes, n_categories, chosen = data
    columns, everyone = raw(codes, n_categories, chosen), raw(codes, n_categories)
    with pytest.MonkeyPatch.context() as monkeypatch:
        force(monkeypatch, name)
        found = pair_tables(columns), pair_tables(columns, everyone), column_counts(everyone)
    same(found[0], plain_pair_tables(columns))
    same(found[1], plain_pair_tables(columns, everyone))
    same(found[2], plain_column_counts(everyone))


@pytest.mark.skipif(not HAS_NUMBA, reason="no numba")
@pytest.mark.parametrize("n_columns", [2, 3, 8, 13, 70])
@pytest.mark.parametrize("order", ["C", "F"])
def test_compiled_planes_over_many_stretches(monkeypatch, n_columns, order):
    """More items than one stretch of planes holds, and a number of them that no word divides."""
    rng = np.random.default_rng(n_columns)
    codes = np.asarray(rng.integers(-2, 3, size=(40_003, n_columns, 1), dtype=np.int8), order=order)
    columns = raw(codes, 3)
    tables = []
    for name in ("compiled", "groups"):
        force(monkeypatch, name)
        tables.append((pair_tables(columns), column_counts(columns)))
    for compiled, plain in zip(*tables, strict=True):
        same(compiled, plain)


# -------------------------------------------------------------------------------------------------- the rule


def labels(n_items, n_columns, n_categories, missing, order="C"):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, n_categories, size=(n_items, n_columns), dtype=np.int8)
    codes[rng.random(codes.shape) < missing] = -1
    return raw(np.asarray(codes, order=order)[:, :, None], n_categories)


def chosen_kernel(columns):
    kernel = _tables._kernel(columns, None)
    return getattr(kernel, "func", kernel).__name__.removeprefix("_")


RULE = [  # items, columns, categories, missing, in numpy, with numba
    (300_000, 2, 2, 0.0, "by_planes", "by_compiled_planes"),
    (100_000, 8, 5, 0.5, "by_groups", "by_compiled_planes"),
    (50_000, 32, 5, 0.5, "by_groups", "by_compiled_planes"),
    (300_000, 3, 100, 0.0, "by_groups", "by_groups"),
    (10_000, 100, 2, 0.5, "by_planes", "by_compiled_planes"),
    (20_000, 200, 5, 0.985, "by_sparse_columns", "by_sparse_columns"),
]


@pytest.mark.parametrize(("n_items", "n_columns", "n_categories", "missing", "plain", "fast"), RULE)
def test_the_rule(monkeypatch, n_items, n_columns, n_categories, missing, plain, fast):
    columns = labels(n_items, n_columns, n_categories, missing)
    for present, expected in ((False, plain), (True, fast)):
        monkeypatch.setattr(_tables, "compiled", lambda n_labels: object() if present else None)  # noqa: B023
        assert chosen_kernel(columns) == expected


@pytest.fixture
def absent(monkeypatch):
    """The machine without numba."""
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "numba" else find_spec(name)
    )
    _kernels._loaded.cache_clear()
    yield
    monkeypatch.undo()
    _kernels._loaded.cache_clear()


def test_numba_is_not_needed(absent):
    columns = labels(200_000, 8, 2, 0.5)
    assert _kernels.compiled(1 << 40) is None
    same(pair_tables(columns)[..., 0, 1], pair_tables(columns)[..., 1, 0].swapaxes(1, 2))
    assert column_counts(columns).sum() == columns.codes.size


@pytest.mark.parametrize("error", [ImportError, RuntimeError])
def test_a_numba_that_does_not_load_is_not_needed(monkeypatch, error):
    """One for another version of numpy, or with nowhere to keep what it compiles."""

    class Finder:
        def find_spec(self, name, path=None, target=None):
            if name == "xjudge.statistics._fast":
                raise error("cannot load")

    monkeypatch.delitem(sys.modules, "xjudge.statistics._fast", raising=False)
    monkeypatch.delattr("xjudge.statistics._fast", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    _kernels._loaded.cache_clear()
    try:
        assert _kernels.compiled(1 << 40) is None
    finally:
        _kernels._loaded.cache_clear()


def test_few_labels_do_not_load_numba(monkeypatch):
    monkeypatch.delitem(sys.modules, "xjudge.statistics._fast", raising=False)
    assert _kernels.compiled(_kernels._FEW - 1) is None
    assert "xjudge.statistics._fast" not in sys.modules


@pytest.mark.skipif(not HAS_NUMBA, reason="no numba")
def test_compiled_kernels_read_labels_where_they_stand(monkeypatch):
    """Items next to each other (a transposed rater-major array) or columns next to each other: no copy."""

    def no_copy(self, *args):
        raise AssertionError("labels were copied")

    force(monkeypatch, "compiled")
    monkeypatch.setattr(Columns, "block", no_copy)
    rater_major = np.zeros((6, 5, 200), dtype=np.int8).transpose(2, 1, 0)
    assert _kernels.side_of(rater_major).layout[1] == 1
    for codes in (rater_major, np.ascontiguousarray(rater_major), np.zeros((200, 9, 1), np.int8)[:, :8]):
        codes.flags.writeable = False
        tables = pair_tables(raw(codes, 2, [0, 2, 1, 4]), raw(codes, 2))
        assert (tables[..., 0, 0] == 200).all()
    with pytest.raises(AssertionError, match="copied"):
        pair_tables(raw(rater_major.astype(np.int16), 2))


def test_what_compiled_kernels_cannot_read_in_place():
    codes = np.zeros((50, 8, 2), dtype=np.int8)
    assert _kernels.side_of(codes).columns.tolist() == [0, 2, 4, 6, 8, 10, 12, 14]
    for other in (codes[::-1], codes[:, ::2], codes[..., :1], codes.astype(np.int16), codes[:0]):
        assert _kernels.side_of(other) is None
    assert _kernels.side_of(np.broadcast_to(codes[:1], codes.shape)) is None
    assert _kernels.side_of(codes, [3]) is None  # one of eight columns is copied out
    assert _kernels.side_of(codes, [3, 4]) is not None


# ---------------------------------------------------------------------------------------------- translation


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
@pytest.mark.parametrize("n_categories", [0, 1, 2, 17, 127, 128, 129, 200, 253, 254, 300])
def test_places_of_every_code(n_categories, dtype):
    info = np.iinfo(dtype)
    codes = np.array([*range(-128, 128), 199, 254, 299, info.min, info.max])
    codes = codes[(codes >= info.min) & (codes <= info.max)].astype(dtype)
    targets = np.arange(n_categories + 3)
    places = places_of(codes, targets, n_categories + 3)
    expected = [plain_place(int(code), targets, n_categories + 3) for code in codes]
    np.testing.assert_array_equal(places, [n_categories + 3 if p == NOWHERE else p for p in expected])


def test_places_of_keeps_the_shape_and_the_input():
    codes = np.array([[0, -1], [-128, 1]], dtype=np.int8)
    codes.flags.writeable = False
    assert places_of(codes.T, np.array([1, 0, 2, 2, 2]), 2).tolist() == [[1, 2], [2, 0]]

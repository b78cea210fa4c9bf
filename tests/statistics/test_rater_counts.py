"""What a pass keeps of many raters: distinct units and items, shared items, against plain loops."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xjudge.errors import Reason, StructureError
from xjudge.statistics import _patterns, _rows
from xjudge.statistics._rows import row_histogram
from xjudge.statistics.counts import MASKED, Axes, Request, combine_blocks, count_block, finish_block
from xjudge.statistics.rater_counts import distinct_rows, shared_items, support, unit_rows
from xjudge.statistics.raters import (
    ICC_FORMS,
    count_vector_histogram,
    count_vectors,
    entering,
    evaluate_raters,
    icc,
    icc_statistic,
    influence,
    item_statistic,
    light_kappa,
    mean_pairwise_kappa,
    pair_statistic,
    standard_error,
)

IDENTITY = (0, 1, 2, -1, -2, -3)
NEGATIVE = (0, 1, 1, -1, 0, -3)


WHOLE = Axes()


def counted(request: Request, cuts: list[int], axes: Axes = WHOLE, **arrays: Any) -> Any:
    """The finished count of one request, from blocks of items."""
    n = len(next(iter(arrays.values())))
    edges = [0, *sorted(min(cut, n) for cut in cuts), n]
    parts = [
        count_block([request], axes, {name: a[start:stop] for name, a in arrays.items()})
        for start, stop in itertools.pairwise(edges)
    ]
    (found,) = finish_block([request], axes, combine_blocks([request], parts))
    return found


def options(targets: tuple[int, ...], columns: Any, n_criteria: int) -> dict[str, Any]:
    return {
        "array": "codes",
        "columns": columns,
        "targets": targets,
        "n_categories": max(targets) + 1,
        "n_criteria": n_criteria,
    }


def slow_codes(codes: Any, targets: tuple[int, ...], columns: Any) -> list[Any]:
    """Protocol codes [item][cell][rater], -1 where there is no label."""
    n_categories = len(targets) - 3
    chosen = range(codes.shape[1]) if columns is None else columns

    def one(code: int) -> int:
        if not -3 <= code < n_categories:
            return -1
        return max(targets[code if code >= 0 else n_categories - 1 - code], -1)

    return [[[one(int(item[r, c])) for r in chosen] for c in range(codes.shape[2])] for item in codes]


def slow_vector(labels: list[int], n: int) -> tuple[int, ...]:
    return tuple(labels.count(category) for category in range(n))


def as_counter(rows: Any) -> Counter[Any]:
    clusters = [None] * len(rows.data) if rows.cluster is None else rows.cluster.tolist()
    keys = [
        (cluster, tuple(map(tuple, row))) for cluster, row in zip(clusters, rows.data.tolist(), strict=True)
    ]
    assert len(set(keys)) == len(keys)
    return Counter(dict(zip(keys, rows.multiplicities.tolist(), strict=True)))


CASE = {
    "seed": st.integers(0, 10**6),
    "n_items": st.integers(0, 14),
    "n_raters": st.integers(1, 4),
    "cuts": st.lists(st.integers(0, 14), max_size=3),
    "targets": st.sampled_from([IDENTITY, NEGATIVE]),
}


def random_labels(seed: int, n_items: int, n_raters: int, n_cells: int) -> Any:
    return np.random.default_rng(seed).integers(-3, 3, (n_items, n_raters, n_cells)).astype(np.int8)


@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize("clusters", [True, False])
@given(**CASE)
def test_distinct_units(
    counts: bool,
    clusters: bool,
    seed: int,
    n_items: int,
    n_raters: int,
    cuts: list[int],
    targets: tuple[int, ...],
) -> None:
    codes = random_labels(seed, n_items, n_raters, 4)
    cluster = np.random.default_rng(seed).integers(0, 3, n_items)
    chosen = options(targets, None, 2)
    arrays = {"codes": codes} | ({"cluster": cluster} if clusters else {})
    request = unit_rows(**chosen, counts=counts, clusters=clusters)
    found = counted(request, cuts, **arrays)[()]
    slow = slow_codes(codes, targets, None)
    for cell in range(4):
        expected: Counter[Any] = Counter()
        for item in range(n_items):
            row = slow[item][cell]
            unit = slow_vector(row, chosen["n_categories"]) if counts else tuple(row)
            expected[int(cluster[item]) if clusters else None, (unit,)] += 1
        assert as_counter(found[cell]) == expected
        asked = ((codes[:, :, cell] != -1).sum(1) >= 2).sum() if counts and not clusters else 0
        assert found[cell].n_eligible == asked


@pytest.mark.parametrize("counts", [True, False])
@given(**CASE)
def test_distinct_items(
    counts: bool, seed: int, n_items: int, n_raters: int, cuts: list[int], targets: tuple[int, ...]
) -> None:
    codes = random_labels(seed, n_items, n_raters, 6)  # three criteria, two others
    columns = list(range(n_raters))[::-1]
    chosen = options(targets, columns, 3)
    found = counted(unit_rows(**chosen, counts=counts, whole=True), cuts, codes=codes)[()]
    slow = slow_codes(codes, targets, columns)
    for other in range(2):
        expected: Counter[Any] = Counter()
        for item in range(n_items):
            rows = [slow[item][2 * criterion + other] for criterion in range(3)]
            units = [slow_vector(row, chosen["n_categories"]) if counts else tuple(row) for row in rows]
            expected[None, tuple(units)] += 1
        assert as_counter(found[other]) == expected


@pytest.mark.parametrize("joined", [True, False])
@given(**CASE)
def test_shared_items(
    joined: bool, seed: int, n_items: int, n_raters: int, cuts: list[int], targets: tuple[int, ...]
) -> None:
    codes = random_labels(seed, n_items, n_raters, 6)
    chosen = options(targets, None, 3)
    found = counted(shared_items(**chosen, joined=joined), cuts, codes=codes)[()]
    slow = slow_codes(codes, targets, None)
    for other in range(2):
        units: Counter[Any] = Counter()
        pairs: Counter[Any] = Counter()
        for item in range(n_items):
            own = [
                (0 if joined else g, slow_vector(slow[item][2 * g + other], chosen["n_categories"]))
                for g in range(3)
            ]
            units.update(own)
            pairs.update((a, b) for a in own for b in own)
        shared = found[other]
        names = [
            (criterion, tuple(row))
            for criterion, row in zip(shared.criterion.tolist(), shared.data.tolist(), strict=True)
        ]
        assert dict(zip(names, shared.multiplicities.tolist(), strict=True)) == units
        found_pairs = zip(shared.first.tolist(), shared.second.tolist(), shared.n_pairs.tolist(), strict=True)
        assert {(names[a], names[b]): n for a, b, n in found_pairs} == pairs


def test_pairs_of_many_vectors_are_sorted_and_not_tabled(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = random_labels(3, 40, 4, 3)
    request = shared_items(**options(IDENTITY, None, 3), joined=True)
    tabled = counted(request, [], codes=codes)[()][0]
    monkeypatch.setattr("xjudge.statistics.rater_counts._LARGEST_TABLE", 1)
    sorted_ = counted(request, [], codes=codes)[()][0]
    for one, other in zip(tabled, sorted_, strict=True):
        np.testing.assert_array_equal(one, other)


@given(**CASE)
def test_support(seed: int, n_items: int, n_raters: int, cuts: list[int], targets: tuple[int, ...]) -> None:
    codes = random_labels(seed, n_items, n_raters, 6)
    found = counted(support(**options(targets, None, 3)), cuts, codes=codes)
    slow = slow_codes(codes, targets, None)
    for other in range(2):
        most = [
            max(sum(label >= 0 for label in slow[item][2 * g + other]) for g in range(3))
            for item in range(n_items)
        ]
        assert found[other].tolist() == [sum(m >= 1 for m in most), sum(m >= 2 for m in most)]


def test_units_outside_the_population_are_no_units() -> None:
    codes = np.array([[[0, 1], [0, -1]], [[-1, MASKED], [-1, MASKED]], [[MASKED, MASKED], [MASKED, MASKED]]])
    codes = codes.astype(np.int8)
    chosen = options(IDENTITY, None, 2)
    first, second = counted(unit_rows(**chosen, counts=True), [], codes=codes)[()]
    assert as_counter(first) == {(None, ((2, 0, 0),)): 1, (None, ((0, 0, 0),)): 1}
    assert as_counter(second) == {(None, ((0, 1, 0),)): 1}
    assert (first.n_eligible, second.n_eligible) == (1, 0)
    (whole,) = counted(unit_rows(**chosen, counts=False, whole=True), [], codes=codes)[()]
    assert as_counter(whole) == {(None, ((0, 0), (1, -1))): 1, (None, ((-1, -1), (-1, -1))): 1}


def test_populations_and_groups_are_leading_axes() -> None:
    codes = random_labels(1, 12, 3, 2)
    keep = np.arange(12)[:, None] % np.array([1, 2]) == 0
    group = np.arange(12) % 3 - 1
    request = unit_rows(**options(IDENTITY, None, 2), counts=True)
    found = counted(request, [5], Axes(2, 2), codes=codes, population=keep, group=group)
    assert found.shape == (2, 2)
    part = counted(request, [], codes=codes[(group == 1) & keep[:, 1]])[()]
    for one, other in zip(found[1, 1], part, strict=True):
        assert as_counter(one) == as_counter(other)


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(0, 30),
    width=st.integers(0, 90),
    high=st.sampled_from([1, 2, 300]),
)
def test_distinct_rows_are_those_of_numpy(seed: int, n: int, width: int, high: int) -> None:
    rng = np.random.default_rng(seed)
    few = rng.integers(-2, high, (4, width)).astype(np.int16)
    rows = few[rng.integers(0, 4, n)]
    weights = rng.integers(1, 5, n)
    distinct, totals, place = distinct_rows(rows, weights)
    np.testing.assert_array_equal(distinct[place], rows)
    assert int(totals.sum()) == int(weights.sum())
    if n and width:
        np.testing.assert_array_equal(distinct, np.unique(rows, axis=0))
        np.testing.assert_array_equal(totals, [weights[place == p].sum() for p in range(len(distinct))])


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(0, 40),
    width=st.integers(0, 12),
    low=st.sampled_from([-128, -3, 0, 100]),
    radix=st.sampled_from([1, 2, 5, 28]),
    dtype=st.sampled_from([np.int8, np.int16, np.int64]),
    order=st.sampled_from(["C", "F"]),
    largest=st.sampled_from([1, 1 << 16]),
)
def test_histogram_of_rows(
    seed: int, n: int, width: int, low: int, radix: int, dtype: Any, order: Any, largest: int
) -> None:
    """In a table and by sorting, the rows of numpy in numpy's order; the input is read only."""
    rng = np.random.default_rng(seed)
    rows = np.asarray(rng.integers(low, low + radix, (n, width)).astype(dtype), order=order)
    rows.flags.writeable = False
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(_rows, "_SMALL_TABLE", largest)
        monkeypatch.setattr(_rows, "_BLOCK", 16)
        distinct, counts = row_histogram(rows)
    assert distinct.dtype == dtype
    assert counts.dtype == np.int64
    assert int(counts.sum()) == n
    if n and width:
        expected, totals = np.unique(rows, axis=0, return_counts=True)
        np.testing.assert_array_equal(distinct, expected)
        np.testing.assert_array_equal(counts, totals)


@pytest.mark.skipif(importlib.util.find_spec("numba") is None, reason="no numba")
@pytest.mark.parametrize("order", ["C", "F", "columns", "items"])
@pytest.mark.parametrize(("n_raters", "n_categories"), [(1, 1), (3, 5), (8, 5), (13, 4), (100, 3)])
def test_compiled_histograms_are_those_of_numpy(
    n_raters: int, n_categories: int, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast = importlib.import_module("xjudge.statistics._fast")
    rng = np.random.default_rng(n_raters)
    codes = rng.integers(-3, n_categories, (20_011, 2 * n_raters), dtype=np.int8)
    if order in "CF":
        codes = np.asarray(codes, order="C" if order == "C" else "F")
    else:
        codes = codes[:, ::2] if order == "columns" else codes[::-1]
    codes = codes[:, :n_raters]
    codes.flags.writeable = False
    for n in (0, 1, 15, 16, 17, 63, 64, 65, 8191, 8192, 8193, 20_011):
        found = []
        for kernels in (fast, None):
            monkeypatch.setattr(_patterns, "compiled", lambda n_labels: kernels)  # noqa: B023
            found.append(count_vector_histogram(codes[:n], n_categories))
        for one, other in zip(*found, strict=True):
            np.testing.assert_array_equal(one, other)
    monkeypatch.setattr(_patterns, "compiled", lambda n_labels: fast)
    with pytest.raises(StructureError, match=f"Code {n_categories} is outside"):
        count_vector_histogram(
            np.append(codes, np.full((1, n_raters), n_categories, np.int8), 0), n_categories
        )


# ------------------------------------------------------------------- what is computed from labels of raters


@given(
    seed=st.integers(0, 10**6),
    n_items=st.integers(0, 20),
    n_raters=st.integers(1, 4),
    n_categories=st.integers(2, 4),
    weights=st.sampled_from([None, "linear", "identity"]),
)
def test_mean_kappas_of_labels_are_those_of_the_tables(
    seed: int, n_items: int, n_raters: int, n_categories: int, weights: Any
) -> None:
    labels = np.random.default_rng(seed).integers(-1, n_categories, (n_items, n_raters))
    tables = np.zeros((n_raters, n_raters, n_categories, n_categories), dtype=np.int64)
    for row in labels.tolist():
        for a in range(n_raters):
            for b in range(n_raters):
                if row[a] >= 0 and row[b] >= 0:
                    tables[a, b, row[a], row[b]] += 1
    for name, function in (("light_kappa", light_kappa), ("mean_pairwise_kappa", mean_pairwise_kappa)):
        statistic = pair_statistic(name, n_categories, n_raters, weights)
        found, expected = evaluate_raters(statistic, labels), function(tables, weights)
        assert found.reason == expected.reason
        np.testing.assert_allclose(found.value, expected.value, rtol=1e-13)


@given(
    seed=st.integers(0, 10**6),
    n_items=st.integers(0, 20),
    n_raters=st.integers(1, 4),
    scores=st.sampled_from([(0.0, 1.0, 2.0), (-50.0, 0.0, 1e4)]),
    complete=st.booleans(),
)
def test_intraclass_correlations_of_moments_are_those_of_the_scores(
    seed: int, n_items: int, n_raters: int, scores: tuple[float, ...], complete: bool
) -> None:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0 if complete else -1, 3, (n_items, n_raters))
    numbers = np.where(labels >= 0, np.array(scores)[np.maximum(labels, 0)], np.nan)
    weights = rng.integers(0, 3, (3, n_items))
    for form in ICC_FORMS:
        coded = icc_statistic(form, n_raters, scores)
        real = icc_statistic(form, n_raters, center=scores[0])
        for item_weights in (None, weights):
            expected = icc(numbers, form, item_weights=item_weights)
            for statistic, data in ((coded, labels), (real, numbers)):
                found = evaluate_raters(statistic, data, item_weights=item_weights)
                np.testing.assert_array_equal(found.reason, expected.reason)
                np.testing.assert_allclose(found.value, expected.value, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["light_kappa", "mean_pairwise_kappa", *ICC_FORMS])
def test_influence_is_the_slope_by_an_items_weight(name: str) -> None:
    rng = np.random.default_rng(2)
    truth = rng.integers(0, 3, 30)
    labels = np.where(rng.random((30, 3)) < 0.6, truth[:, None], rng.integers(0, 3, (30, 3)))
    labels[:4, 0] = -1
    scores = np.array([1.0, 2.0, 4.0])
    statistic = pair_statistic(name, 3, 3) if "kappa" in name else icc_statistic(name, 3, scores)
    psi = influence(statistic, labels)
    for item in (0, 7, 29):
        up, down = np.ones(30), np.ones(30)
        up[item] += 1e-5
        down[item] -= 1e-5
        ends = evaluate_raters(statistic, labels, item_weights=np.stack([up, down])).value
        assert float(ends[0] - ends[1]) / 2e-5 == pytest.approx(float(psi[item]), abs=1e-7)
    n = int(entering(statistic, labels).sum())
    assert n == (30 if "kappa" in name else 26)
    expected = np.sqrt(n / (n - 1) * (psi**2).sum())
    assert float(standard_error(statistic, labels)) == pytest.approx(float(expected), rel=1e-12)


def test_light_is_undefined_where_a_pair_is() -> None:
    labels = np.array([[0, 0, 0], [1, 1, 0], [0, 1, 0]])
    one, some = (pair_statistic(name, 2, 3) for name in ("light_kappa", "mean_pairwise_kappa"))
    never = np.array([[0, 0, -1], [1, 1, -1], [-1, -1, 0]])
    assert evaluate_raters(one, never).reason == Reason.UNDEFINED_PAIR
    assert float(evaluate_raters(some, never).value) == 1.0
    assert np.isnan(influence(one, never)).all()
    assert evaluate_raters(one, labels).reason == 0


def test_which_items_enter() -> None:
    counts = count_vectors([[0, 1, -1], [0, -1, -1], [-1, -1, -1]], 2)
    assert entering(item_statistic("alpha", 2), counts).tolist() == [True, False, False]
    assert entering(item_statistic("gwet_ac", 2), counts).tolist() == [True, True, False]
    assert entering(item_statistic("brennan_prediger", 2), counts, "gwet").tolist() == [True, True, False]

"""Ranges under a vote, against every choice of every case."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xjudge.errors import ProtocolError, Reason, StructureError
from xjudge.statistics import bounds
from xjudge.statistics.bounds import VOTE_KINDS, vote_bounds


def options(kind: int) -> list[tuple[int, int] | None]:
    bits, said = divmod(kind, 3)
    out: list[Any] = [(a, b) for a in (0, 1) if bits & (1, 2)[a] for b in ((0, 1) if said == 2 else (said,))]
    return [*out, None] if bits & 4 else out


def value(statistic: str, t: Any) -> float | None:
    """By the definitions, from counts ``t[reference][rater]``."""
    (n00, n01), (n10, n11) = t
    total, h, j = n00 + n01 + n10 + n11, n10 + n11, n01 + n11
    if statistic == "kappa":
        below = h * (total - j) + j * (total - h)
        return 2 * (n00 * n11 - n01 * n10) / below if below else None
    if statistic == "phi":
        below = h * (total - h) * j * (total - j)
        return (n00 * n11 - n01 * n10) / below**0.5 if below else None
    if statistic == "balanced_accuracy":
        return (n11 / h + n00 / (total - h)) / 2 if h and total - h else None
    above, below = {
        "accuracy": (n00 + n11, total),
        "precision": (n11, j),
        "recall": (n11, h),
        "specificity": (n00, total - h),
        "f1": (2 * n11, 2 * n11 + n01 + n10),
        "rate_reference": (h, total),
        "rate_rater": (j, total),
    }[statistic]
    return above / below if below else None


def reached(kinds: Any) -> set[tuple[int, int, int, int]]:
    """Every table that some choice of every case gives."""
    tables = {(0, 0, 0, 0)}
    for kind, n in enumerate(kinds):
        for chosen in [None] * int(n):
            del chosen
            new = set()
            for table in tables:
                for cell in options(kind):
                    one = list(table)
                    if cell is not None:
                        one[2 * cell[0] + cell[1]] += 1
                    new.add(tuple(one))
            tables = new  # type: ignore[assignment]
    return tables


@pytest.mark.parametrize("statistic", bounds.STATISTICS)
def test_every_choice_of_every_case(statistic: str) -> None:
    rng = np.random.default_rng(bounds.STATISTICS.index(statistic))
    kinds = np.zeros((1500, VOTE_KINDS), dtype=int)
    for row in kinds:
        some = rng.choice(np.arange(3, VOTE_KINDS), size=rng.integers(2, 8), replace=False)
        row[some] = rng.integers(1, 4, len(some))
    kinds[:, 12:15] = 0  # only leaving is no case of a table
    lower, upper, reason = vote_bounds(kinds, statistic)
    undefined = 0
    for k, row in enumerate(kinds):
        values = [value(statistic, (t[:2], t[2:])) for t in reached(row)]
        known = [v for v in values if v is not None]
        if not known:
            undefined += 1
            assert np.isnan([lower[k], upper[k]]).all()
            assert reason[k] != Reason.OK
            continue
        assert reason[k] == Reason.OK
        assert lower[k] == pytest.approx(min(known), abs=1e-12), row
        assert upper[k] == pytest.approx(max(known), abs=1e-12), row
    assert undefined < 400


def test_kappa_is_least_inside() -> None:
    # five errors of one kind that must stay; with a hundred of the other kind kappa would rise again
    kinds = np.zeros(VOTE_KINDS, dtype=int)
    kinds[3 * 1 + 1], kinds[3 * 6 + 0] = 5, 100
    lower, upper, _ = vote_bounds(kinds, "kappa")
    assert (float(lower), float(upper)) == (-1.0, 0.0)
    # and at the upper end all errors that may leave may have to stay
    kinds = np.zeros(VOTE_KINDS, dtype=int)
    kinds[3 * 1 + 1], kinds[3 * 2 + 0], kinds[3 * 5 + 1] = 5, 5, 100
    upper = vote_bounds(kinds, "kappa").upper
    assert float(upper) == pytest.approx(-1050 / (25 + 105**2), abs=1e-12)


@given(
    st.lists(st.integers(0, 10**6), min_size=9, max_size=9),
    st.sampled_from(bounds.STATISTICS),
)
def test_without_leaving_it_is_the_sharp_range(cells: list[int], statistic: str) -> None:
    table = np.array(cells).reshape(3, 3)
    kinds = np.zeros(VOTE_KINDS, dtype=np.int64)
    for row, bits in enumerate((1, 2, 3)):
        kinds[3 * bits : 3 * bits + 3] = table[row]
    expected = bounds.sharp_bounds_with_reason(table, statistic)
    found = vote_bounds(kinds, statistic)
    np.testing.assert_allclose(found.lower, expected.lower, atol=1e-12)
    np.testing.assert_allclose(found.upper, expected.upper, atol=1e-12)
    assert (found.reason == 0) == (expected.reason == 0)


@settings(deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(bounds.STATISTICS))
def test_random_choices_lie_inside_at_any_size(seed: int, statistic: str) -> None:
    rng = np.random.default_rng(seed)
    kinds = rng.integers(0, 10 ** rng.integers(1, 5), VOTE_KINDS)
    kinds[rng.random(VOTE_KINDS) < 0.4] = 0
    lower, upper, _ = vote_bounds(kinds, statistic)
    for _ in range(30):
        table = np.zeros((2, 2), dtype=int)
        for kind, n in itertools.islice(enumerate(kinds), 3, None):
            cells = options(kind)
            for cell, amount in zip(
                cells, rng.multinomial(n, rng.dirichlet([0.3] * len(cells))), strict=True
            ):
                if cell is not None:
                    table[cell] += amount
        got = value(statistic, table.tolist())
        if got is not None:
            assert lower - 1e-12 <= got <= upper + 1e-12


def test_empty_and_wrong_counts() -> None:
    found = vote_bounds(np.zeros((2, VOTE_KINDS), dtype=int), "phi")
    assert found.reason.tolist() == [Reason.NO_OVERLAP] * 2
    only_leaving = np.zeros(VOTE_KINDS, dtype=int)
    only_leaving[12] = 3
    assert vote_bounds(only_leaving, "accuracy").reason == Reason.NO_OVERLAP
    with pytest.raises(StructureError, match="24"):
        vote_bounds(np.zeros(16, dtype=int))
    with pytest.raises(StructureError, match="negative"):
        vote_bounds(np.full(VOTE_KINDS, -1))
    with pytest.raises(ProtocolError, match="no sharp bounds"):
        vote_bounds(np.zeros(VOTE_KINDS, dtype=int), "mcc")

"""The items behind the number: which cases, in which order, with which labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from labels import dataset, random_codes

import xjudge as xj


@pytest.fixture
def ds() -> xr.Dataset:
    codes = random_codes(4, (40, 4, 2), 3)
    roles = ["human", "human", "human", "judge"]
    return dataset(codes, roles, xj.Scale.ordinal(["low", "mid", "high"]), system=["a", "b"] * 20)


def test_every_disagreement_and_no_other(ds: xr.Dataset) -> None:
    rows = xj.disagreements(ds, "j1", reference="h1")
    labels = ds["label"].transpose("item", "rater", "criterion").values
    a, b = labels[:, 0], labels[:, 3]
    expected = {(i, c) for i, c in np.argwhere((a >= 0) & (b >= 0) & (a != b)).tolist()}
    found = {(int(i[1:]), int(c[1:])) for i, c in zip(rows["item"], rows["criterion"], strict=True)}
    assert found == expected
    assert len(rows) == len(expected)
    for row in rows.itertuples():
        i, c = int(row.item[1:]), int(row.criterion[1:])
        words = ["low", "mid", "high"]
        assert (row.reference_label, row.rater_label) == (words[a[i, c]], words[b[i, c]])
        assert row.severity == abs(int(a[i, c]) - int(b[i, c]))
        assert row.system == ["a", "b"][i % 2]
    assert set(rows["human"]) == {"h1"}
    assert set(rows["rater"]) == {"j1"}


def test_the_costliest_come_first_then_the_order_of_items(ds: xr.Dataset) -> None:
    rows = xj.disagreements(ds, "j1", reference="h1")
    assert (rows["severity"].diff().dropna() <= 0).all()
    for _, group in rows.groupby("severity"):
        assert group["item"].str[1:].astype(int).is_monotonic_increasing


def test_own_costs(ds: xr.Dataset) -> None:
    costs = [[0, 9, 1], [2, 0, 3], [4, 5, 0]]
    with pytest.raises(xj.ProtocolError, match="symmetric"):
        xj.disagreements(ds, "j1", reference="h1", costs=costs)
    rows = xj.disagreements(ds, "j1", reference="h1", costs="quadratic")
    assert set(rows["severity"]) <= {1.0, 4.0}
    nominal = dataset(random_codes(0, (20, 2), 3), ["human", "judge"], xj.Scale.nominal(["a", "b", "c"]))
    assert set(xj.disagreements(nominal, "j1", reference="h1")["severity"]) == {1.0}


def test_counts_agree_with_the_tables(ds: xr.Dataset) -> None:
    table = xj.tables(ds, reference="majority", protocol=xj.Protocol(aggregate="micro"))["count"].squeeze()
    for left in table["reference_label"].values:
        for right in table["rater_label"].values:
            rows = xj.disagreements(ds, "j1", cell=(str(left), str(right)))
            assert len(rows) == int(table.sel(reference_label=left, rater_label=right))
    everything = xj.disagreements(ds, "j1", cell=(None, None))
    assert len(everything) == int(table.sum())


def test_every_human_gets_a_row(ds: xr.Dataset) -> None:
    rows = xj.disagreements(ds, "j1", reference="each")
    parts = [xj.disagreements(ds, "j1", reference=human) for human in ("h1", "h2", "h3")]
    assert len(rows) == sum(map(len, parts))
    assert set(rows["human"]) == {"h1", "h2", "h3"}


def test_item_verdicts_have_no_criterion() -> None:
    ds = dataset(random_codes(1, (30, 2, 2), 2), ["human", "judge"])
    protocol = xj.Protocol(aggregate="item", item_rule=xj.all_positive())
    rows = xj.disagreements(ds, "j1", reference="h1", protocol=protocol)
    assert "criterion" not in rows
    assert rows["item"].is_unique


def test_population_and_chunks(ds: xr.Dataset) -> None:
    protocol = xj.Protocol(population={"system": "a"})
    rows = xj.disagreements(ds.chunk(item=7), "j1", protocol=protocol)
    assert set(rows["system"]) == {"a"}
    pd.testing.assert_frame_equal(rows, xj.disagreements(ds, "j1", protocol=protocol))


def test_a_review_set_is_spread_over_the_cells(ds: xr.Dataset) -> None:
    rows = xj.disagreements(ds, "j1", reference="h1", include_agreements=True, n=18)
    assert len(rows) == 18
    per_cell = rows.groupby(["reference_label", "rater_label"]).size()
    whole = xj.disagreements(ds, "j1", reference="h1", include_agreements=True)
    available = whole.groupby(["reference_label", "rater_label"]).size()
    short = per_cell[per_cell < per_cell.max() - 1]
    assert (short == available[short.index]).all()
    pd.testing.assert_frame_equal(
        rows, xj.disagreements(ds, "j1", reference="h1", include_agreements=True, n=18)
    )
    other = xj.disagreements(ds, "j1", reference="h1", include_agreements=True, n=18, seed=1)
    assert not rows.equals(other)
    everything = xj.disagreements(ds, "j1", reference="h1", n=10_000)
    assert len(everything) == len(xj.disagreements(ds, "j1", reference="h1"))


def test_no_disagreement_is_an_empty_frame() -> None:
    rows = xj.disagreements(dataset([[0, 0], [1, 1]], ["human", "judge"]), "j1", reference="h1")
    assert len(rows) == 0
    assert {"item", "human", "rater", "reference_label", "rater_label", "severity"} <= set(rows.columns)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"judge": "j9"}, "no rater 'j9'"),
        ({"judge": "j1", "reference": "pooled"}, "one row per human"),
        ({"judge": "j1", "cell": ("low",)}, "a pair"),
        ({"judge": "j1", "cell": ("tall", "low")}, "no label 'tall'"),
        ({"judge": "j1", "n": 0}, "at least 1"),
    ],
)
def test_impossible_requests(ds: xr.Dataset, options: dict[str, Any], message: str) -> None:
    with pytest.raises(xj.XJudgeError, match=message):
        xj.disagreements(ds, **options)

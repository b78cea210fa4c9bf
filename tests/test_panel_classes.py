"""Effective sizes from counts by class of items: those of items one by one, and to the bit in any chunks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xarray as xr
from labels import dataset, random_codes
from panel_tasks import quiet

import xjudge as xj
from xjudge.labelled import _panel_pass

SCALES = {2: xj.Scale.binary("no", "yes"), 3: xj.Scale.nominal(["a", "b", "c"])}
N_ITEMS = 6000


def labels(n_categories: int, n_criteria: int) -> xr.Dataset:
    codes = random_codes(n_categories, (N_ITEMS, 7, n_criteria), n_categories)
    codes[::3, 3:] = np.maximum(codes[::3, 3:], 0)  # items that all judges answered
    codes[::2, 4] = codes[::2, 3]
    return dataset(
        codes if n_criteria > 1 else codes[..., 0],
        ["human"] * 3 + ["judge"] * 4,
        scale=SCALES[n_categories],
        system=["a", "b"] * (N_ITEMS // 2),
    )


def size(ds: xr.Dataset, **options: Any) -> xr.Dataset:
    return quiet(xj.effective_size, ds, interval=None, **options)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The tables of classes that are counted from here on."""
    found: list[Any] = []
    count = _panel_pass.count_classes

    def counting(*arguments: Any, **options: Any) -> Any:
        found.append(count(*arguments, **options))
        return found[-1]

    monkeypatch.setattr(_panel_pass, "count_classes", counting)
    return found


@pytest.mark.parametrize("incomplete", ["drop", "pairwise"])
@pytest.mark.parametrize(
    ("n_categories", "n_criteria", "options"),
    [
        (2, 1, {}),
        (2, 1, {"gold": "tie_free"}),
        (3, 1, {"gold": "h1"}),
        (3, 1, {"gold": "j2"}),
        (3, 2, {"protocol": xj.Protocol(aggregate="micro")}),
        (3, 2, {}),
        (2, 2, {"protocol": xj.Protocol(aggregate="item", item_rule=xj.all_positive())}),
        (2, 1, {"by": "system"}),
        (3, 1, {"judges": ["j3", "j1"]}),
        (2, 1, {"protocol": xj.Protocol(ca="category", invalid="negative")}),
        (3, 1, {"protocol": xj.Protocol(population={"system": "b"})}),
    ],
)
def test_by_class_or_item_by_item(
    n_categories: int,
    n_criteria: int,
    options: dict[str, Any],
    incomplete: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ds = labels(n_categories, n_criteria)
    tables = counted(monkeypatch)
    found = size(ds, incomplete=incomplete, **options)
    assert tables
    lazy = ds.chunk(item=(1, 999, 3000, 2000))
    chunked = size(lazy, incomplete=incomplete, **options)
    n_tables = len(tables)
    monkeypatch.setattr(_panel_pass, "MOST_CELLS", 0)
    apart = size(ds, incomplete=incomplete, **options)
    assert len(tables) == n_tables
    xr.testing.assert_allclose(found, apart, rtol=1e-11, atol=1e-12)
    xr.testing.assert_identical(found, chunked)
    assert found["n_items"].max() > 0


def test_other_human_sides_go_item_by_item(monkeypatch: pytest.MonkeyPatch) -> None:
    ds = labels(2, 1)
    counts = np.random.default_rng(0).integers(0, 3, (N_ITEMS, 2))
    ds = ds.assign(count=(("item", "category"), counts))
    said = np.array(["no", "yes"], dtype=object)[counts.argmax(1)]
    ds = ds.assign(answer=("item", said))
    tables = counted(monkeypatch)
    size(ds, human="count")
    size(ds, gold="answer")
    size(ds.isel(item=slice(500)))  # few items for so many classes
    assert not tables
    size(ds)
    assert tables

"""Anonymous label counts as columns that nobody in particular fills: places that raters share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from xjudge.codes import MISSING
from xjudge.errors import ProtocolError, StructureError
from xjudge.lazy import map_items, metadata_values, one_chunk_beside_items, reshape_beside_items
from xjudge.protocol import Protocol
from xjudge.view import View

__all__ = ["with_counted_labels"]

MOST_LABELS: Final = 10_000
"""Anonymous labels of a unit up to which they are laid out as columns."""


def with_counted_labels(view: View, raters: Any, protocol: Protocol) -> View:
    """The view with the labels of ``count`` beside those of identified raters, where humans are asked for.

    A count of 3 in a category becomes three labels in columns that belong to nobody: coefficients that do not
    ask who said what see further raters, under every protocol and sampling unit.

    Parameters
    ----------
    view : View
        Of a dense dataset, humans not restricted.
    raters : "humans", "judges", "all" or list of names
    protocol : Protocol

    Returns
    -------
    View
        The same where there are no counts, or no humans were asked for as a group.

    Raises
    ------
    StructureError
        Counts that do not stand on items, criteria and the categories of the scale, or are more than
        :data:`MOST_LABELS` a unit.
    ProtocolError
        A protocol that needs to know which labels are of one person.
    """
    grouped = isinstance(raters, str) and raters in ("humans", "all")
    if view.sparse or not grouped or "count" not in view.data.data_vars:
        return view
    if protocol.extraction is not None or (protocol.aggregate == "item" and "criterion" in view.rest):
        raise ProtocolError(
            f"{protocol!r} reads or combines the labels of one person, and the variable `count` does not say "
            "whose they are; drop it (`ds.drop_vars('count')`), or keep criteria apart."
        )
    variable, n_categories = view.data["count"].variable, view.scale.n_categories
    if set(variable.dims) != {"item", "category", *view.rest} or variable.sizes["category"] != n_categories:
        raise StructureError(
            f"`count` stands on {dict(variable.sizes)}; it should be item, "
            f"{', '.join([*view.rest, 'category'])} with the {n_categories} categories of {view.scale!r}."
        )
    if variable.dtype.kind not in "iuf":
        raise StructureError(f"`count` holds {variable.dtype}; it should be whole numbers.")
    counts = one_chunk_beside_items(variable.transpose("item", "category", *view.rest).data)
    n_cells = view.codes.shape[2]
    counts = reshape_beside_items(counts, (n_categories, n_cells))
    total = counts.sum(1).max() if counts.shape[0] and n_cells else 0
    most = np.nan_to_num(np.asarray(metadata_values(total), dtype=np.float64))
    if most > MOST_LABELS:
        raise StructureError(
            f"`count` holds up to {most:.0f} labels of a unit; more than {MOST_LABELS} are not laid out. Use "
            "xjudge.statistics on the counts themselves."
        )
    n_places, n_raters = int(most), view.codes.shape[1]
    if not n_places:
        return view
    beside = _Beside(n_places, view.codes.dtype)
    codes = map_items(
        beside, [view.codes, counts], shape=(n_raters + n_places, n_cells), dtype=view.codes.dtype
    )
    names = np.empty(n_raters + n_places, dtype=object)
    names[:n_raters] = view.raters
    names[n_raters:] = [f"count {place + 1}" for place in range(n_places)]
    return replace(
        view,
        codes=codes,
        raters=names,
        humans=np.append(view.humans, np.arange(n_raters, n_raters + n_places)),
        n_places=n_places,
        given={**view.given, "pool": raters},
    )


class _Beside:
    """Codes (item, rater, cell), and those that counts (item, category, cell) stand for."""

    def __init__(self, n_places: int, dtype: Any) -> None:
        self.n_places, self.dtype = n_places, dtype

    def __call__(self, codes: npt.NDArray[Any], counts: npt.NDArray[Any]) -> npt.NDArray[Any]:
        numbers = np.nan_to_num(counts, nan=0.0) if counts.dtype.kind == "f" else counts
        whole = numbers.astype(np.int64)
        if (whole != numbers).any() or (whole < 0).any():
            raise StructureError("`count` holds numbers that are negative or not whole.")
        place = np.arange(self.n_places)[:, None]
        ends = whole.cumsum(1)
        out = np.zeros((len(whole), self.n_places, whole.shape[2]), dtype=self.dtype)
        for category in range(whole.shape[1]):
            out += (ends[:, category, None] <= place).astype(self.dtype)
        out = np.where(ends[:, -1, None] <= place, self.dtype.type(MISSING), out)
        return np.concatenate([codes, out.astype(codes.dtype)], axis=1)

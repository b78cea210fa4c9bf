"""Further columns of a frame: constant within an item, a rater or a criterion, or left out with a warning."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from xjudge._ids import RESERVED, Ids, index_values
from xjudge._ingest import NULL, Encoded, encode, text_array
from xjudge.errors import listing

__all__ = ["coordinate_values", "covariate", "covariates"]

_OWN_DIM: Final = {
    "family": "rater",
    "cost": "rater",
    "weight": "criterion",
    "polarity": "criterion",
    "stratum": "item",
    "cluster": "item",
}


def covariates(
    frame: pd.DataFrame, names: Sequence[Hashable], ids: Mapping[str, Ids]
) -> tuple[dict[str, tuple[str, npt.NDArray[Any]]], list[str]]:
    """Place every further column on the first dim within whose ids it is constant.

    Parameters
    ----------
    frame : pandas.DataFrame
        Rows as in ``ids``.
    names : list of column names
        The columns that nothing else reads.
    ids : mapping of dim to Ids
        Dims in the order in which they are tried.

    Returns
    -------
    placed : dict of name to (dim, values)
    dropped : list of str
        Sentences about the columns that have no place.

    Notes
    -----
    A null contradicts nothing, but a column is placed by its nulls as well where it can be. An empty text
    and a null are one: files do not keep them apart.
    """
    placed: dict[str, tuple[str, npt.NDArray[Any]]] = {}
    reserved: list[str] = []
    varying: list[str] = []
    unfit: list[str] = []
    taken = {part for one in ids.values() for part in one.parts}
    for name in names:
        if str(name) in RESERVED or str(name) in taken or str(name) in placed:
            reserved.append(str(name))
            continue
        encoded = covariate(frame[name])
        if encoded is None:
            unfit.append(str(name))
            continue
        found = _place(str(name), encoded, ids)
        if found is None:
            varying.append(str(name))
        else:
            placed[str(name)] = found
    sentences = []
    if varying:
        within = listing([f"within {_ARTICLE[dim]}" for dim in ids], most=9, show="str")
        sentences.append(f"{_columns(varying)} not constant {within}.")
    if unfit:
        sentences.append(f"{_columns(unfit)} not of one plain type (text, numbers, booleans, times).")
    if reserved:
        sentences.append(
            f"{_columns(reserved)} named like a part of the judge dataset and not read as one; rename it to "
            "keep it, or pass it as the argument of that name."
        )
    return placed, sentences


_ARTICLE = {
    "item": "an item",
    "rater": "a rater",
    "criterion": "a criterion",
    "replicate": "a replicate",
}


def _columns(names: list[str]) -> str:
    one = len(names) == 1
    return f"{'Column' if one else 'Columns'} {listing(names, most=6)} {'is' if one else 'are'}"


def covariate(series: pd.Series[Any]) -> Encoded | None:
    """Codes of a column that can be a coordinate; ``None`` where its values are of no plain type."""
    try:
        encoded = encode(series)
    except (TypeError, pd.errors.OutOfBoundsDatetime):
        return None
    return encoded if encoded.kind in ("text", "number", "boolean", "time", "empty") else None


def _place(name: str, encoded: Encoded, ids: Mapping[str, Ids]) -> tuple[str, npt.NDArray[Any]] | None:
    dims = [dim for dim in ids if dim != "replicate"]
    own = _OWN_DIM.get(name)
    if own in dims:
        dims = [own, *(dim for dim in dims if dim != own)]
    codes = encoded.codes
    if encoded.kind == "text" and (blank := np.flatnonzero(encoded.values == "")).size:
        codes = np.where(codes == blank[0], NULL, codes)
    for row in (slice(None), codes != NULL):
        for dim in dims:
            group = ids[dim].codes
            first = np.full(len(ids[dim]), NULL, dtype=codes.dtype)
            first[group[row][::-1]] = codes[row][::-1]
            if np.array_equal(first[group[row]], codes[row]):
                return dim, coordinate_values(Encoded(encoded.kind, first, encoded.values))
    return None


def coordinate_values(encoded: Encoded) -> npt.NDArray[Any]:
    """Values per row as a coordinate holds them; holes are empty text, NaN or NaT."""
    codes, holes = encoded.codes, bool((encoded.codes == NULL).any())
    if encoded.kind == "text":
        return text_array(np.append(encoded.values, "")[codes])
    if encoded.kind == "empty":
        return np.full(len(codes), np.nan)
    if encoded.kind == "time":
        return np.append(encoded.values, np.datetime64("NaT"))[codes]
    if not holes:
        if encoded.kind == "boolean":
            return encoded.values.astype(bool)[codes]
        values = encoded.values
        values = values if values.dtype.kind == "f" else index_values(values, encoded.kind)
        return (values.astype(np.float64) if values.dtype == object else values)[codes]
    return np.append(encoded.values.astype(np.float64), np.nan)[codes]

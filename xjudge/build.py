"""Judge datasets from long, wide and count tables.

Every builder ends in the same scatter of factor codes, so the same labels give the same dataset whatever
the shape of the table and the dtypes of its columns. No row is lost silently: the attributes
``rows_answered``, ``rows_ca``, ``rows_invalid``, ``rows_missing`` and ``rows_duplicate_dropped`` add up to
``rows_read``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from xjudge._assemble import build
from xjudge._ids import read_ids
from xjudge._ingest import Encoded, Problems, encode, read_frame
from xjudge._reading import Options, Reading
from xjudge._roles import IDENTITIES
from xjudge.scale import Scale
from xjudge.schema import column_names, long_problems, named_columns

__all__ = ["from_long"]

Names = Hashable | Sequence[Hashable]
Duplicates = Literal["raise", "first", "last", "majority", "replicate"]
Layout = Literal["dense", "sparse", "auto"]


def from_long(
    df: Any,
    *,
    item: Names = "item",
    rater: Names = "rater",
    criterion: Names | None = None,
    label: Hashable = "label",
    replicate: Hashable | None = None,
    role: Hashable | Mapping[Any, str] | Callable[[Any], str] | None = None,
    judges: Sequence[Any] | None = None,
    humans: Sequence[Any] | None = None,
    role_names: Mapping[Any, str] | None = None,
    scale: Scale | None = None,
    ca: Any = (),
    invalid: Any = (),
    missing: Any = (),
    normalise: str | Sequence[str] = (),
    duplicates: Duplicates = "raise",
    prob: Mapping[Any, Hashable] | None = None,
    confidence: Hashable | None = None,
    layout: Layout = "dense",
    status: Hashable | None = None,
    identity: Any = "named",
) -> xr.Dataset:
    """Judge dataset from a long table: one row per label.

    Parameters
    ----------
    df : DataFrame
        pandas, polars, or anything with an Arrow stream. Index levels count as columns.
    item, rater, criterion : column name or list of column names
        Where the ids stand. Several columns make one compound id, joined with ``|``; the columns are kept
        as coordinates. Without ``criterion`` the dataset has no such dim.
    label : column name
    replicate : column name, optional
        Which repetition a label is; makes a dim ``replicate``.
    role : column name, mapping or callable, optional
        Who is ``"human"`` and who is ``"judge"``: a column that is constant per rater, a mapping of every
        rater to a role, or a function of the rater's id.
    judges, humans : list of rater ids, optional
        In place of ``role``: those named have this role, the rest has the other.
    role_names : mapping, optional
        Translates other words, e.g. ``{"llm": "judge"}``.
    scale : Scale, optional
        The categories that could have been chosen. ``None`` infers them, and warns where what it inferred
        is not obvious.
    ca, invalid, missing : value or list of values
        Raw values that mean "cannot assess", "unreadable", "never asked", matched by type and value
        (``"0"`` is not ``0``). Nulls are missing unless they are declared here. ``invalid="coerce"`` makes
        every value that is neither category nor code invalid.
    normalise : {"strip", "casefold", "nfc", "bool_text"} or list of these
        Steps that text labels, and what is declared above, go through before they are matched.
    duplicates : {"raise", "first", "last", "majority", "replicate"}
        What happens to several labels of one rater for one item (and criterion). Labels that are missing
        contradict nothing and do not count.
    prob : mapping of category to column name, optional
        Probabilities that a judge gives, one column per category.
    confidence : column name, optional
    layout : {"dense", "sparse", "auto"}
        A cube ``label(item, rater[, criterion])``, or one entry per label, ``label(answer)``, for crowds.
    status : column name, optional
        A column of ``answered``, ``ca``, ``invalid``, ``missing`` as :func:`to_long` writes it; it decides
        over the label. Where it is null, the label is read as usual.
    identity : {"named", "positional", "file", "unknown"}, mapping or column name
        How well a rater's identity is known.

    Returns
    -------
    Dataset
        ``label`` (codes of the scale; -1 missing, -2 CA, -3 invalid), on a continuous scale ``score``
        beside it, ``prob`` and ``confidence`` where given. Ids, ``role``, ``identity`` and further columns
        are coordinates: a column that is constant within each item lives on ``item``, else within each
        rater on ``rater``, else within each criterion on ``criterion``. Order along every dim is that of
        first appearance. The attributes say what was read and where every row went.

    Raises
    ------
    StructureError
        Columns, ids, roles, duplicates: everything that is wrong, in one message.
    VocabularyError
        Labels that are neither category nor code, as written and with counts, where nothing else is wrong.

    Warns
    -----
    ProtocolWarning
        A scale was inferred and is not obvious.
    DroppedWarning
        Duplicates that were left out, and columns that have no place.

    Notes
    -----
    One scatter of factor codes; cost and memory are linear in the rows plus the cells of the cube.

    Examples
    --------
    >>> frame = pd.DataFrame(
    ...     {
    ...         "item": ["a", "a", "b", "b"],
    ...         "rater": ["ann", "gpt", "ann", "gpt"],
    ...         "label": ["MET", "UNMET", "N/A", "MET"],
    ...     }
    ... )
    >>> ds = from_long(frame, judges=["gpt"], scale=Scale.binary("UNMET", "MET"), ca="N/A")
    >>> ds["label"].values
    array([[ 1,  0],
           [-2,  1]], dtype=int8)
    """
    problems = Problems()
    frame = read_frame(df)
    ids = {"item": item, "rater": rater, "criterion": criterion, "replicate": replicate}
    columns = {dim: name for dim, name in ids.items() if name is not None}
    others: dict[str, Any] = {"label": label}
    others |= {k: v for k, v in {"status": status, "confidence": confidence}.items() if v is not None}
    if _is_column(role):
        others["role"] = role
    if _is_column(identity) and identity not in IDENTITIES:
        others["identity"] = identity
    if prob is not None:
        others["prob"] = list(prob.values())
    looked_at, good = _checked(frame, columns, others, problems)
    read = {dim: read_ids(looked_at, names, dim, problems) for dim, names in columns.items() if dim in good}
    encoded = {
        name: _encoded(looked_at[column], name, problems)
        for name, column in others.items()
        if name in good and name not in ("prob", "confidence")
    }
    known = {dim: one for dim, one in read.items() if one is not None}
    labels = encoded.get("label")
    reading = Reading(
        source="long",
        frame=frame,
        ids=known,
        spread=None,
        labels=[] if labels is None else [labels],
        used={name for names in [*columns.values(), *others.values()] for name in column_names(names)},
        columns=columns | others,
        role=encoded.get("role"),
        identity=encoded.get("identity"),
        status=encoded.get("status"),
        confidence=_numbers(looked_at, confidence, "confidence", problems) if "confidence" in good else None,
        prob={
            category: _numbers(looked_at, name, "prob", problems) for category, name in (prob or {}).items()
        }
        if "prob" in good
        else None,
        complete=len(good) == len(columns) + len(others) and len(known) == len(columns),
    )
    options = Options(
        role, judges, humans, role_names, scale, ca, invalid, missing, normalise, duplicates, layout, identity
    )
    return build(reading, options, problems)


# -------------------------------------------------------------------------------------------------- helpers


def _is_column(value: Any) -> bool:
    return value is not None and not isinstance(value, Mapping) and not callable(value)


def _checked(
    frame: pd.DataFrame, ids: Mapping[str, Any], others: Mapping[str, Any], problems: Problems
) -> tuple[pd.DataFrame, set[str]]:
    """Return the columns that are read, on a plain index, and the arguments whose columns are all sound."""
    found = long_problems(frame, ids=ids, others=others)
    for sentences in found.values():
        for sentence in sentences:
            problems.add(sentence)
    roles = {name: None for names in [*ids.values(), *others.values()] for name in column_names(names)}
    sound = {
        argument
        for argument, names in {**ids, **others}.items()
        if not any(name in found for name in column_names(names))
    }
    return named_columns(frame, roles), sound


def _encoded(series: pd.Series[Any], argument: str, problems: Problems) -> Encoded | None:
    try:
        return encode(series)
    except TypeError:
        held = next(value for value in series if isinstance(value, (list, dict, set, np.ndarray)))
        problems.add(
            f"Column {series.name!r} ({argument}) holds containers, e.g. {held!r}, where one value per row "
            "is needed; take the value out first."
        )
        return None


def _numbers(
    looked_at: pd.DataFrame, name: Hashable, argument: str, problems: Problems
) -> npt.NDArray[np.float64]:
    try:
        return looked_at[name].to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        problems.add(f"Column {name!r} ({argument}) is not made of numbers.")
        return np.full(len(looked_at), np.nan)

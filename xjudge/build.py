"""Judge datasets from long, wide and count tables.

Every builder ends in the same scatter of factor codes, so the same labels give the same dataset whatever
the shape of the table and the dtypes of its columns. No row is lost silently: the attributes
``rows_answered``, ``rows_ca``, ``rows_invalid``, ``rows_missing`` and ``rows_duplicate_dropped`` add up to
``rows_read``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Literal

import xarray as xr

from xjudge._assemble import build
from xjudge._counts import from_counts
from xjudge._from_long import LongColumns, check_columns, read_long
from xjudge._ingest import Problems, read_frame
from xjudge._join import HOWS, holds_labels, join_columns, join_datasets, joined_dims, options_from
from xjudge._lazy_frames import is_lazy_frame
from xjudge._long import to_long
from xjudge._reading import Options
from xjudge._roles import IDENTITIES
from xjudge._spread import from_spread
from xjudge.errors import StructureError, listing
from xjudge.scale import Scale
from xjudge.view import as_dataset

__all__ = [
    "from_counts",
    "from_criteria_wide",
    "from_long",
    "from_wide",
    "join",
    "to_long",
]

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
        pandas, polars, or anything with an Arrow stream. Index levels count as columns. A dask dataframe
        is read part by part and gives a lazy dataset (see Notes).
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
        ``"auto"`` is the cube up to 2^24 cells, or up to 2^32 where at least one in twenty is filled.
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
        first appearance (of a dask dataframe see Notes). The attributes say what was read and where every
        row went.

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

    Of a **dask dataframe** the same arguments give the same dataset, errors and warnings as
    ``from_long(df.compute())``, with lazy variables. Nothing ever holds the whole frame: the first of the
    computes below thins every partition to the rows that decide about ids, scale, roles and covariates
    (about one for each item), and ids and covariates are then in memory, as coordinates are.

    * Where every item stands in one partition alone, which is checked, nothing is shuffled: **one compute**,
      and later each partition scatters its own labels when they are asked for. Items stand in order of first
      appearance.
    * Where an item stands in several partitions, the rows go through one shuffle by a hash of their item, by
      the method that dask is set to: **two computes**, and a further shuffle when labels are asked for. Items
      then stand in the order of that hash, within one hash in order of first appearance; the order depends on
      the ids and the number of partitions alone. Every other dim has the order of first appearance.
    * Where a cell has several labels, a second compute says which rows count; an error about them reads the
      partitions that hold the first five such cells once more.

    A cube has chunks along ``item`` alone, all of one size but the last, about as large as a partition and
    between 1 and 64 MiB of codes; the chunks of the sparse layout are the partitions. A frame that gives
    other rows when it is read again is refused then. Write the dataset to a store once instead of asking for
    its labels several times: each time the frame is read anew.

    Examples
    --------
    >>> import pandas as pd
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
    ids = {"item": item, "rater": rater, **_given(criterion=criterion, replicate=replicate)}
    others = {"label": label, **_given(status=status, confidence=confidence)}
    if _is_column(role):
        others["role"] = role
    if _is_column(identity) and not (isinstance(identity, str) and identity in IDENTITIES):
        others["identity"] = identity
    check_columns(ids, others)
    if prob is not None and not isinstance(prob, Mapping):
        problems.add(f"`prob` is a mapping of category to column; got {prob!r}.")
        prob = None
    if prob is not None:
        others["prob"] = list(prob.values())
    columns = LongColumns(ids, others, prob)
    options = Options(
        role, judges, humans, role_names, scale, ca, invalid, missing, normalise, duplicates, layout, identity
    )
    if is_lazy_frame(df):
        from xjudge._long_lazy import from_lazy_long  # half of the builders' code, which few calls need

        return from_lazy_long(df, columns, options, problems)
    return build(read_long(read_frame(df), columns, problems, None), options, problems)


def from_wide(
    df: Any,
    *,
    raters: Sequence[Hashable] | Mapping[Hashable, Any],
    item: Names = "id",
    criterion: Names | None = None,
    replicate: Hashable | None = None,
    role: Mapping[Any, str] | Callable[[Any], str] | None = None,
    judges: Sequence[Any] | None = None,
    humans: Sequence[Any] | None = None,
    role_names: Mapping[Any, str] | None = None,
    scale: Scale | None = None,
    ca: Any = (),
    invalid: Any = (),
    missing: Any = (),
    normalise: str | Sequence[str] = (),
    duplicates: Duplicates = "raise",
    layout: Layout = "dense",
    identity: Any = "named",
) -> xr.Dataset:
    """Judge dataset from a wide table: one row per item (and criterion), one column per rater.

    Parameters
    ----------
    df : DataFrame
        pandas, polars, or anything with an Arrow stream. Index levels count as columns.
    raters : list of column names, or mapping of column name to rater
        The columns that hold labels.
    item, criterion : column name or list of column names
    role : mapping or callable, optional
        Of every rater to a role; a wide table has no column for it.
    replicate, judges, humans, role_names, scale, ca, invalid, missing, normalise, duplicates, layout
        As in :func:`from_long`.
    identity
        As in :func:`from_long`.

    Returns
    -------
    Dataset
        As from :func:`from_long`; ``rows_read`` counts cells of the table. An empty cell is missing unless
        nulls are declared otherwise.

    Raises
    ------
    StructureError, VocabularyError
        As :func:`from_long`.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"id": [1, 2], "ann": ["yes", "no"], "gpt": ["yes", None]})
    >>> from_wide(frame, raters=["ann", "gpt"], judges=["gpt"])["label"].values
    array([[ 1,  1],
           [ 0, -1]], dtype=int8)
    """
    problems = Problems()
    if _is_column(role):
        problems.add(f"`role` of a wide table is a mapping or a callable; got {role!r}.")
    columns = _given(item=item, criterion=criterion, replicate=replicate)
    options = Options(
        role, judges, humans, role_names, scale, ca, invalid, missing, normalise, duplicates, layout, identity
    )
    return from_spread(df, "rater", raters, columns, {}, "wide", options, problems)


def from_criteria_wide(
    df: Any,
    *,
    criteria: Sequence[Hashable] | Mapping[Hashable, Any],
    item: Names = "id",
    rater: Names = "rater",
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
    layout: Layout = "dense",
    identity: Any = "named",
) -> xr.Dataset:
    """Judge dataset from a table with one row per item and rater, and one column per criterion.

    Parameters
    ----------
    df : DataFrame
        pandas, polars, or anything with an Arrow stream. Index levels count as columns.
    criteria : list of column names, or mapping of column name to criterion
        The columns that hold labels, all on one scale.
    item, rater : column name or list of column names
    replicate, role, judges, humans, role_names, scale, ca, invalid, missing, normalise, duplicates, layout
        As in :func:`from_long`.
    identity
        As in :func:`from_long`.

    Returns
    -------
    Dataset
        As from :func:`from_long`; ``rows_read`` counts cells of the table.

    Raises
    ------
    StructureError, VocabularyError
        As :func:`from_long`.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"id": [1, 1], "who": ["ann", "gpt"], "Q1": [4, 3], "Q2": [0, 2]})
    >>> ds = from_criteria_wide(
    ...     frame, criteria=["Q1", "Q2"], rater="who", judges=["gpt"], scale=Scale.ordinal([1, 2, 3, 4]), ca=0
    ... )
    >>> ds["label"].sel(item=1, rater="ann").values
    array([ 3, -2], dtype=int8)
    """
    problems = Problems()
    columns = _given(item=item, rater=rater, replicate=replicate)
    others = {"role": role} if _is_column(role) else {}
    if _is_column(identity) and identity not in IDENTITIES:
        others["identity"] = identity
    options = Options(
        role, judges, humans, role_names, scale, ca, invalid, missing, normalise, duplicates, layout, identity
    )
    return from_spread(df, "criterion", criteria, columns, others, "criteria_wide", options, problems)


def join(
    ds: xr.Dataset | xr.DataArray,
    other: Any,
    *,
    on: str | Sequence[str] = "item",
    how: Literal["left", "inner", "outer", "right"] = "left",
    **options: Any,
) -> xr.Dataset:
    """Join labels of further raters, or covariates, to a judge dataset.

    Parameters
    ----------
    ds : Dataset or DataArray
        A judge dataset; may be lazy.
    other : DataFrame or Dataset
        A long table of labels (it has a rater and a label column), a table of covariates (one row per id),
        or another judge dataset.
    on : {"item", "rater", "criterion"} or list of these
        The dims whose ids are matched: ``"item"``, or ``["item", "criterion"]``; covariates also on
        ``"rater"`` or ``"criterion"``.
    how : {"left", "inner", "outer", "right"}
        Which ids remain; ``"left"`` those of ``ds``.
    **options
        As in :func:`from_long`, for a frame. Labels are read on the scale of ``ds`` unless another is given;
        roles of raters that ``ds`` knows need not be repeated. ``duplicates`` also decides over cells that
        both sides answer: ``"first"`` keeps those of ``ds``, ``"last"`` those of ``other``.

    Returns
    -------
    Dataset
        Raters of ``other`` stand after those of ``ds``. Labels keep their integer dtype: what one side does
        not have is missing (-1). The attributes ``join_matched``, ``join_left_only``, ``join_right_only``
        count ids.

    Raises
    ------
    OverlapError
        No id is in both.
    StructureError
        Ids of different types, different dims, cells that both answer, covariates with repeated ids or
        with names that are taken, coordinates that contradict each other.
    ProtocolError
        Different scales.

    Warns
    -----
    DroppedWarning
        What ``how`` leaves out.

    Notes
    -----
    Lazy labels stay lazy, unless both sides share a rater: whether they answer the same cell is then
    computed, once.

    Examples
    --------
    >>> import pandas as pd
    >>> people = pd.DataFrame({"item": [1, 2], "rater": ["ann", "ann"], "label": ["yes", "no"]})
    >>> judged = pd.DataFrame({"item": [2, 1], "rater": ["gpt", "gpt"], "label": ["no", "no"]})
    >>> ds = join(from_long(people, humans=["ann"]), judged, judges=["gpt"])
    >>> ds["label"].values
    array([[1, 0],
           [0, 0]], dtype=int8)
    >>> ds.attrs["join_matched"]
    2
    """
    data = as_dataset(ds)
    if "label" not in data.variables:
        raise StructureError("The dataset has no variable `label`; build it with xj.from_long(df, ...).")
    dims = joined_dims(on)
    if how not in HOWS:
        raise StructureError(f"`how` is one of {listing(HOWS, most=4)}; got {how!r}.")
    if isinstance(other, (xr.Dataset, xr.DataArray)):
        further = as_dataset(other)
        if "label" not in further.variables:
            raise StructureError("The other dataset has no `label`; give covariates as a table.")
        if options.keys() - {"duplicates"}:
            raise StructureError(f"{listing(options)} are for reading a table, and the other is a dataset.")
    else:
        frame = read_frame(other)
        if not holds_labels(frame, dims, options):
            return join_columns(data, frame, dims, how, options)
        further = from_long(frame, **options_from(data, frame, options))
    return join_datasets(data, further, on=dims, how=how, duplicates=options.get("duplicates", "raise"))


# -------------------------------------------------------------------------------------------------- helpers


def _given(**arguments: Any) -> dict[str, Any]:
    return {argument: value for argument, value in arguments.items() if value is not None}


def _is_column(value: Any) -> bool:
    return value is not None and not isinstance(value, Mapping) and not callable(value)

"""What a verb sees of a judge dataset: the cheap structure check, the scale, the codes, who is who.

Nothing here computes lazy data. Every problem of the structure is raised together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from xjudge._sparse import FEW_RATERS, Answers, answer_problems
from xjudge.codes import MISSING
from xjudge.errors import OverlapError, StructureError, listing
from xjudge.lazy import is_lazy, metadata_values, one_chunk_beside_items, reshape_beside_items
from xjudge.scale import Scale

__all__ = ["FEW_RATERS", "ROLES", "View", "as_dataset", "checked_dataset", "names_of_role"]

ROLES = ("human", "judge")

_EVERYONE: Mapping[str, Any] = {"raters": "all"}

_NAMES_OF_RESULTS = ("answer", "reference", "protocol", "statistic", "bound", "costs", "rater_a", "rater_b")
"""Names that results use for dims of their own; a coordinate of that name is not carried along."""


def as_dataset(data: xr.Dataset | xr.DataArray) -> xr.Dataset:
    """A judge dataset from a dataset or from its label array, which carries its coordinates along."""
    if isinstance(data, xr.DataArray):
        return data.to_dataset(name="label", promote_attrs=False)
    if isinstance(data, xr.Dataset):
        return data
    raise StructureError(
        f"A judge dataset is an xarray Dataset (or its label DataArray); got {type(data).__name__}. "
        "Build one with xj.from_long(df, ...)."
    )


def checked_dataset(data: xr.Dataset | xr.DataArray) -> xr.Dataset:
    """A judge dataset whose structure verbs can rely on; computes nothing.

    Raises
    ------
    StructureError
        Everything that is wrong with dims, dtype and roles, in one message.
    """
    ds = as_dataset(data)
    if "label" not in ds.variables:
        there = listing(list(ds.data_vars), most=9) or "none"
        raise StructureError(
            f"The dataset has no variable `label`; it has {there}. "
            "Build a judge dataset with xj.from_long(df, ...)."
        )
    problems = _problems(ds, ds["label"])
    if problems:
        raise StructureError(" ".join(problems))
    return ds


def names_of_role(data: xr.Dataset | xr.DataArray, role: str) -> npt.NDArray[Any]:
    """Names of the raters of a role, in either layout and however many."""
    ds = checked_dataset(data)
    return _names(ds, "rater")[metadata_values(ds["role"].data).astype(object) == role]


@dataclass(frozen=True)
class View:
    """A judge dataset as the verbs see it.

    Parameters
    ----------
    data : xr.Dataset
    scale : Scale
    codes : array, shape (item, rater, cell)
        Raw codes, lazy where the labels are; a cell is a criterion times any further dims, the criterion
        varying slowest.
    rest : dict
        Dims beyond item and rater, with their sizes, in the order of the cells.
    raters : ndarray
        Names along dim ``rater``.
    humans, judges : ndarray of int
        Positions of the selected humans and judges.
    sparse : bool
        Whether the columns were made from the sparse layout.
    n_places : int
        How many columns at the end are places that a crowd shares (sparse layout).
    n_hidden : int
        Raters beyond those places.
    pool : tuple of int, optional
        Of the sparse layout, columns and places of the raters who need not be told apart.
    given : mapping
        Of the sparse layout, names of ``humans``, ``judges`` and ``pool`` as far as they were restricted.
    """

    data: xr.Dataset
    scale: Scale
    codes: Any
    rest: dict[str, int]
    raters: npt.NDArray[Any]
    humans: npt.NDArray[np.intp]
    judges: npt.NDArray[np.intp]
    sparse: bool = False
    n_places: int = 0
    n_hidden: int = 0
    pool: tuple[int, ...] | None = None
    given: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        data: xr.Dataset | xr.DataArray,
        *,
        humans: Any = None,
        judges: Any = None,
        own: Mapping[str, Any] = _EVERYONE,
        pool: Any = None,
    ) -> View:
        """Check the structure and open the dataset.

        Parameters
        ----------
        data : Dataset or DataArray
        humans, judges : list of names or boolean array, optional
            Restrict who counts as human and who is judged.
        own, pool
            Of the sparse layout: raters who are told apart, by the argument that names them, and raters who
            need not be, where they are many; each as :meth:`members` takes them.

        Raises
        ------
        StructureError
            Everything that is wrong with the structure, in one message.
        """
        ds = checked_dataset(data)
        if "answer" in ds["label"].dims:
            return cls._of_answers(ds, humans, judges, own, pool)
        label = ds["label"]
        scale = Scale.from_attrs(label.attrs)
        rest = [str(dim) for dim in label.dims if dim not in ("item", "rater")]
        rest.sort(key=lambda dim: dim != "criterion")
        codes = one_chunk_beside_items(label.variable.transpose("item", "rater", *rest).data)
        sizes = {dim: int(label.sizes[dim]) for dim in rest}
        codes = reshape_beside_items(codes, (codes.shape[1], int(np.prod(list(sizes.values())))))
        raters = _names(ds, "rater")
        role = metadata_values(ds["role"].data).astype(object)
        view = cls(
            ds, scale, codes, sizes, raters, np.flatnonzero(role == "human"), np.flatnonzero(role == "judge")
        )
        return view._restricted(humans, judges)

    @classmethod
    def _of_answers(cls, ds: xr.Dataset, humans: Any, judges: Any, own: Mapping[str, Any], pool: Any) -> View:
        """Open the sparse layout: columns for raters who are told apart, places for the others."""
        answers = Answers.of(ds)
        role = metadata_values(ds["role"].data).astype(object)
        everyone = cls.of_crowd(answers, humans=humans, judges=judges)
        apart = {p for what, chosen in own.items() for p in everyone.members(chosen, what)}
        asked = () if pool is None else everyone.members(pool)
        shared = [p for p in asked if p not in apart]
        if len(apart) + len(shared) <= FEW_RATERS:
            apart, shared = apart.union(shared), []
        if len(apart) > FEW_RATERS:
            raise StructureError(_too_many(len(apart)))
        at = {p: column for column, p in enumerate(sorted(apart))}
        word = "judge" if shared and all(role[p] == "judge" for p in shared) else "human"
        columns, n_places = answers.columns(list(at), shared, word)
        places = list(range(len(at), len(at) + n_places))
        positions = {
            name: [at[p] for p in old.tolist() if p in at] + (places if word == name[:-1] else [])
            for name, old in (("humans", everyone.humans), ("judges", everyone.judges))
        }
        given = dict(everyone.given)
        if pool is not None:
            whole = isinstance(pool, str) and not given
            given["pool"] = pool if whole else everyone.named(np.array(asked, dtype=np.intp))
        return replace(
            cls.of(columns),
            humans=np.array(positions["humans"], dtype=np.intp),
            judges=np.array(positions["judges"], dtype=np.intp),
            sparse=True,
            n_places=n_places,
            n_hidden=len(shared) - n_places,
            pool=None if pool is None else tuple(at[p] for p in asked if p in at) + tuple(places),
            given=given,
        )

    @classmethod
    def of_crowd(cls, answers: Answers, *, humans: Any = None, judges: Any = None) -> View:
        """Everybody in a sparse layout, for what is counted from answers: names and sizes, without codes."""
        ds, shape = answers.data, (answers.n_items, answers.n_raters, answers.n_cells)
        role = metadata_values(ds["role"].data).astype(object)
        view = cls(
            ds,
            Scale.from_attrs(ds["label"].attrs),
            np.broadcast_to(np.int8(MISSING), shape),
            answers.cells,
            _names(ds, "rater"),
            np.flatnonzero(role == "human"),
            np.flatnonzero(role == "judge"),
            sparse=True,
        )
        view = view._restricted(humans, judges)
        given = {"humans": humans, "judges": judges}
        names = {
            word: view.named(getattr(view, word)) for word, chosen in given.items() if chosen is not None
        }
        return replace(view, given=names)

    def _restricted(self, humans: Any, judges: Any) -> View:
        view = self
        if humans is not None:
            view = replace(view, humans=view.select(humans, view.humans, "humans"))
        if judges is not None:
            view = replace(view, judges=view.select(judges, view.judges, "judges"))
        return view

    def __getstate__(self) -> dict[str, Any]:
        """What finishing a lazy result needs elsewhere: names and sizes, neither labels nor item ids."""
        kept = [name for name, variable in self.data.variables.items() if "item" not in variable.dims]
        shape = (0, *self.codes.shape[1:])
        codes = np.empty(shape, dtype=self.codes.dtype)
        return {**self.__dict__, "data": self.data[kept], "codes": codes}

    # --------------------------------------------------------------------------------------------- who is who

    def select(self, chosen: Any, among: npt.NDArray[np.intp], what: str) -> npt.NDArray[np.intp]:
        """Positions of chosen raters, by name or by a boolean array over raters."""
        if isinstance(chosen, xr.DataArray):
            if chosen.dims == ("rater",) and "rater" in chosen.coords:
                names = _plain(chosen["rater"].values)
                chosen = [
                    n for n, keep in zip(names, np.asarray(chosen.values, dtype=bool), strict=True) if keep
                ]
            else:
                chosen = chosen.values
        if isinstance(chosen, str | int) or not isinstance(chosen, Iterable):
            chosen = [chosen]
        if getattr(chosen, "ndim", 1) != 1:
            raise StructureError(f"`{what}` is a list of raters or a boolean array along `rater`.")
        values = _plain(np.asarray(list(chosen), dtype=object))
        if len(values) and all(isinstance(value, bool) for value in values):
            if len(values) != len(self.raters):
                raise StructureError(
                    f"`{what}` as a boolean array needs one value per rater ({len(self.raters)}); "
                    f"got {len(values)}."
                )
            positions = np.flatnonzero(np.array(values))
        else:
            positions = np.array([self.position(value, what) for value in values], dtype=np.intp)
        wrong = [self.raters[p] for p in positions if p not in among]
        if wrong:
            role = what.rstrip("s")
            raise StructureError(f"`{what}`: {listing(wrong)} is not a {role} by the coordinate `role`.")
        if len(set(positions.tolist())) != len(positions):
            raise StructureError(f"`{what}` names a rater twice: {listing(values, most=9)}.")
        return positions

    def position(self, name: Any, what: str) -> int:
        """Position of a rater on dim ``rater``.

        Raises
        ------
        StructureError
            Where no rater has that name, or several have.
        """
        name = name.item() if isinstance(name, np.generic) else name
        found = [
            p for p, rater in enumerate(_plain(self.raters)) if type(rater) is type(name) and rater == name
        ]
        if not found:
            raise StructureError(
                f"`{what}`: there is no rater {name!r}; there are {listing(_plain(self.raters), most=9)}."
            )
        if len(found) > 1:
            raise StructureError(
                f"`{what}`: {len(found)} raters are called {name!r}; give each a name of its own, "
                "`ds.assign_coords(rater=[...])`."
            )
        return found[0]

    def named(self, positions: npt.NDArray[np.intp]) -> npt.NDArray[Any]:
        """Names of raters."""
        found = self.raters[positions]
        if self.n_places and {type(name) for name in found} <= {int, float}:
            return np.array(found.tolist()) if len(found) else found
        return found

    def members(self, raters: Any, what: str = "raters") -> tuple[int, ...]:
        """Positions of raters, by names or by ``"humans"``, ``"judges"``, ``"all"``."""
        everyone = np.sort(np.concatenate([self.humans, self.judges]))
        groups = {"humans": self.humans, "judges": self.judges, "all": everyone}
        if isinstance(raters, str) and raters in groups:
            return tuple(groups[raters].tolist())
        return tuple(self.select(raters, np.arange(len(self.raters)), what).tolist())

    def stated(self, positions: npt.NDArray[np.intp], word: str) -> Any:
        """Raters as attributes of a result state them: names; of a crowd what was asked for, if anything."""
        return (
            self.given.get(word)
            if (positions >= len(self.raters) - self.n_places).any()
            else self.named(positions)
        )

    def need(self, *, humans: int = 0, judges: int = 0) -> None:
        """Refuse where there are too few humans or judges for what was asked."""
        for have, least, role in ((self.humans, humans, "human"), (self.judges, judges, "judge")):
            if len(have) < least:
                raise OverlapError(
                    f"This needs at least {least} {role}{'s' if least > 1 else ''}; there are {len(have)} "
                    "by the coordinate `role`, `humans=` and `judges=`; agreement and reliability compare "
                    "raters of one role with `raters=`."
                )

    # ------------------------------------------------------------------------------------------------- axes

    @property
    def n_items(self) -> int:
        """Number of items."""
        return int(self.codes.shape[0])

    @property
    def lazy(self) -> bool:
        """Whether the labels are computed only when asked."""
        return is_lazy(self.codes)

    @property
    def n_criteria(self) -> int:
        """Criteria; 1 where the labels have no dim ``criterion``."""
        return self.rest.get("criterion", 1)

    @property
    def others(self) -> dict[str, int]:
        """Dims that no verb consumes, with their sizes: beyond item, rater and criterion."""
        return {dim: size for dim, size in self.rest.items() if dim != "criterion"}

    @property
    def scores(self) -> Any:
        """Numbers (item, rater, cell) of a continuous scale, lazy where they are.

        Raises
        ------
        StructureError
            Where the dataset has none, or they do not stand beside the labels.
        """
        if "score" not in self.data.variables:
            raise StructureError(
                "A continuous scale keeps its numbers in a variable `score` beside `label`; there is none."
            )
        variable, label = self.data["score"].variable, self.data["label"].variable
        if set(variable.dims) != set(label.dims) or variable.dtype.kind not in "iuf":
            raise StructureError(
                f"`score` holds {variable.dtype} on {variable.dims}; it should be numbers on {label.dims}."
            )
        array = one_chunk_beside_items(variable.transpose("item", "rater", *self.rest).data)
        return reshape_beside_items(array, self.codes.shape[1:])

    def cells_apart(self, array: npt.NDArray[Any], axis: int) -> npt.NDArray[Any]:
        """Split the cell axis of an array into the dims it stands for."""
        shape = array.shape
        axis %= array.ndim
        return array.reshape((*shape[:axis], *self.rest.values(), *shape[axis + 1 :]))

    def coordinates(self, *dims: str) -> dict[str, xr.Variable]:
        """Coordinates of the data that live on the given dims only (scalar ones too), in memory."""
        out = {}
        for name, coordinate in self.data.coords.items():
            if set(coordinate.dims) <= set(dims) and name not in _NAMES_OF_RESULTS:
                out[str(name)] = xr.Variable(
                    coordinate.dims, metadata_values(coordinate.data), coordinate.attrs
                )
        return out

    def names(self, dim: str) -> npt.NDArray[Any]:
        """Names along a dim; positions where the dim has no coordinate."""
        return _names(self.data, dim)

    def groups(self, by: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any], int]:
        """Groups of items by a coordinate.

        Returns
        -------
        codes : ndarray of int, shape (item,)
            The group of each item, -1 where the coordinate is null.
        values : ndarray
            The values, sorted where they can be.
        n_dropped : int
            Items without a group.
        """
        values = self.item_values(by, "by")
        codes, unique = pd.factorize(values, sort=_sortable(values))
        if not len(unique):
            raise StructureError(f"`by={by!r}` has no value on any item.")
        return codes.astype(np.int64), np.asarray(unique), int((codes < 0).sum())

    def item_values(self, name: str, what: str) -> npt.NDArray[Any]:
        """Values of a coordinate or variable along items, in memory.

        Raises
        ------
        StructureError
            Where there is none, or it does not live on ``item`` alone.
        """
        if name not in self.data.variables:
            known = [str(n) for n, v in self.data.variables.items() if v.dims == ("item",) and n != "item"]
            there = listing(known, most=9) or "none"
            raise StructureError(f"`{what}`: the dataset has no {name!r}; item coordinates are {there}.")
        variable = self.data[name]
        if variable.dims != ("item",):
            raise StructureError(
                f"`{what}`: {name!r} lives on {variable.dims}; slices are taken along `item`. "
                "Select raters or criteria with `.sel(...)` first."
            )
        return metadata_values(variable.data)


def _too_many(n_raters: int) -> str:
    return (
        f"This needs each rater apart, as in a dense cube label(item, rater), and of {n_raters:,} raters in "
        f"the sparse layout at most {FEW_RATERS} get columns. Name whom to tell apart (`humans=[...]`, "
        "`judges=[...]`, `raters=[...]`), compare judges with the crowd as a whole (`reference='pooled'` or "
        "'majority'), or take xj.to_dense(ds, raters=[...])."
    )


def _problems(ds: xr.Dataset, label: xr.DataArray) -> list[str]:
    sparse = "answer" in label.dims
    problems = (
        answer_problems(ds)
        if sparse
        else [
            f"`label` has no dim {dim!r}; its dims are {tuple(map(str, label.dims))}."
            for dim in ("item", "rater")
            if dim not in label.dims
        ]
    )
    kind = label.dtype.kind
    if kind not in "iuf":
        problems.append(
            f"`label` holds {label.dtype}, not integer codes. After a join or a reindex pass "
            '`fill_value={"label": -1}`; to build codes from raw labels use xj.from_long.'
        )
    if "role" not in ds.variables:
        problems.append(
            'The dataset has no coordinate `role`: say who is "human" and who is "judge" with '
            '`ds.assign_coords(role=("rater", [...]))`.'
        )
    elif ds["role"].dims != ("rater",):
        problems.append(f"The coordinate `role` lives on {ds['role'].dims}; it belongs on `rater`.")
    elif "rater" in label.dims or sparse:
        role = metadata_values(ds["role"].data).astype(object)
        wrong = [f"{r!r}: {w!r}" for r, w in zip(_names(ds, "rater"), role, strict=True) if w not in ROLES]
        if wrong:
            problems.append(
                f'The coordinate `role` is "human" or "judge"; not so for {listing(wrong, show="str")}.'
            )
    return problems


def _names(ds: xr.Dataset, dim: str) -> npt.NDArray[Any]:
    if dim in ds.coords:
        return metadata_values(ds[dim].data)
    return np.arange(ds.sizes[dim])


def _plain(values: npt.NDArray[Any]) -> list[Any]:
    return [value.item() if isinstance(value, np.generic) else value for value in values]


def _sortable(values: npt.NDArray[Any]) -> bool:
    """Whether values have an order: object arrays of mixed types have none."""
    if values.dtype.kind != "O":
        return True
    kinds = {type(value) for value in values if not pd.isna(value)}
    return len(kinds) <= 1 or all(issubclass(kind, int | float) for kind in kinds)

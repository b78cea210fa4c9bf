"""Which raters stand on the two sides of the tables, and how results name them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xjudge.errors import ProtocolError, StructureError
from xjudge.scale import Category
from xjudge.view import View

__all__ = ["Sides", "told_apart"]


@dataclass(frozen=True)
class Sides:
    """Which raters stand on the two sides of the tables, and how results name them.

    Parameters
    ----------
    left, right : tuple of int
        Positions of the references (or voters) and of the judged raters.
    kind : {"each", "one", "pooled", "majority", "raters"}
    dims : tuple of str
        Names of the result's dims for the sides that are dims.
    pairs : tuple
        Of raters judged together (:func:`xjudge.compare`): two positions, or one and a category that is
        always said; ``right`` then numbers the pairs.
    """

    left: tuple[int, ...]
    right: tuple[int, ...]
    kind: str
    dims: tuple[str, ...]
    pairs: tuple[tuple[int, int | None, Category | None], ...] = ()

    @classmethod
    def of(cls, view: View, reference: str, raters: Any) -> Sides:
        """Read `reference` and `raters`.

        Raises
        ------
        StructureError, OverlapError
            Unknown raters; no human or no judge to compare.
        """
        if reference == "majority":
            view.need(humans=1, judges=0 if raters is not None else 1)
            judged = tuple(view.judges.tolist()) if raters is None else view.members(raters)
            return cls(tuple(view.humans.tolist()), judged, "majority", ("rater",))
        if raters is not None:
            if reference != "each":
                raise ProtocolError(
                    "`raters` compares raters with each other; with it `reference` is 'each' (the default) "
                    f"or 'majority'; got {reference!r}."
                )
            if view.sparse and isinstance(raters, str) and raters in ("humans", "judges", "all"):
                raise StructureError(
                    f"`raters={raters!r}` compares everybody with everybody, and few pairs of a crowd meet "
                    "(sparse layout): name whom to compare, `raters=[...]`, or take xj.pair_agreement for "
                    "those that do."
                )
            chosen = view.members(raters)
            if len(chosen) < 2:
                raise StructureError("`raters` needs at least two raters to compare.")
            return cls(chosen, chosen, "raters", ("rater_a", "rater_b"))
        if reference in ("each", "pooled"):
            view.need(humans=1, judges=1)
            dims = ("reference", "rater") if reference == "each" else ("rater",)
            return cls(tuple(view.humans.tolist()), tuple(view.judges.tolist()), reference, dims)
        position = view.position(reference, "reference")
        view.need(judges=1)
        others = tuple(p for p in view.judges.tolist() if p != position)
        if not others:
            raise StructureError(f"`reference={reference!r}` is the only judge; there is nobody to compare.")
        return cls((position,), others, "one", ("rater",))

    @property
    def left_is_dim(self) -> bool:
        """Whether results keep the references (or first raters) apart."""
        return bool({"reference", "rater_a"} & set(self.dims))

    @property
    def right_is_dim(self) -> bool:
        """Whether results keep the judged raters (or pairs) apart."""
        return bool({"rater", "rater_b", "pair"} & set(self.dims))

    def references(self) -> list[int | None]:
        """Columns of a majority reference: the whole vote, then the vote without each judged human."""
        if self.pairs:
            return [None]
        return [None, *(rater for rater in self.right if rater in self.left)]

    def column_of(self) -> list[int]:
        """Per judged rater, its column among :meth:`references`."""
        columns = self.references()
        if self.pairs:
            return [0] * len(self.right)
        return [columns.index(rater) if rater in columns else 0 for rater in self.right]


def told_apart(reference: str, raters: Any = None) -> dict[str, Any]:
    """Whom a verb tells apart, and whom not, for :meth:`xjudge.view.View.of` on the sparse layout."""
    judged: Any = "judges" if raters is None else raters
    if reference in ("pooled", "majority"):
        return {"own": {"raters": judged}, "pool": "humans"}
    if raters is not None or reference == "each":
        return {"own": {"raters": "all" if raters is None else raters}}
    return {"own": {"reference": [reference], "raters": "judges"}}

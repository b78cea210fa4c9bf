"""How far are judges from human sampling noise, and in which direction? Residuals on three labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from xjudge._arguments import check_arguments
from xjudge.errors import ProtocolError, Reason
from xjudge.labelled._common import warn_undefined
from xjudge.labelled._panel_pass import VOTES, OpenedPanel, Units, flat_units
from xjudge.protocol import Protocol
from xjudge.statistics import panel

__all__ = ["panel_geometry"]

_OF_JUDGES = ("anisotropy", "angle", "distance")


def panel_geometry(
    data: xr.Dataset | xr.DataArray,
    *,
    n_simulated: int = 1000,
    human: str = "observed",
    gold: str = "mode",
    protocol: Protocol | None = None,
    by: str | None = None,
    judges: Any = None,
    humans: Any = None,
    seed: int = 0,
    compute: bool = True,
) -> xr.Dataset:
    """Place each judge's residuals beside those of simulated humans, by shape and orientation.

    Parameters
    ----------
    data : Dataset or DataArray
        A judge dataset; the protocol leaves three categories.
    n_simulated : int
        Simulated humans, at least 3; each draws a label on every item from the human distribution.
    human, gold, protocol, by, judges, humans
        As in :func:`xjudge.effective_size`.
    seed : int
        Of simulated humans and drawn labels.
    compute : bool
        On lazy labels, whether to compute now; the votes are held in one task.

    Returns
    -------
    Dataset
        Per ``rater``, and with ``constructed_`` in front on dim ``constructed`` (``"gold"``: a judge that
        answers gold; ``"majority"``: one that answers the panel's most frequent label, the first category
        among ties): ``anisotropy`` in [0, 1], the difference of the two eigenvalues of the second moment of
        residuals over their sum; ``angle`` in (-pi/2, pi/2] radians, of the principal axis from the human
        one; ``distance`` (Mahalanobis) of both from the simulated humans. Each with ``_reason``.

        ``cloud_anisotropy`` and ``cloud_angle``, the centre of the simulated humans, and
        ``cloud_covariance(coordinate, coordinate_2)``; ``human_anisotropy`` and ``human_axis`` of the
        analytic human second moment; ``gold_excess`` (with ``_reason``): anisotropy of the gold judge above
        the cloud over the judges' mean above the cloud, a ratio of displacements and no share of error;
        ``n_above`` judges more elongated than the cloud's centre, ``n_above_left`` also turned to the
        negative side of it. ``n_items``, ``n_dropped``.

    Raises
    ------
    ProtocolError
        A protocol that does not leave three categories; too few simulated humans.
    StructureError, VocabularyError, OverlapError
        As :func:`xjudge.effective_size`.

    Warns
    -----
    DroppedWarning
        Units left out: some judge did not answer, no human or gold label.
    UndefinedWarning
        Judges without a shape, axis or distance.

    Notes
    -----
    Section 4.4 and appendix B of "How Many Humans Are 32 LLM Judges Worth?". Humans are simulated on items
    in the order of their distributions: the cloud does not depend on the order of items, nor on the judges.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> import pandas as pd
    >>> import xjudge as xj
    >>> rng = np.random.default_rng(0)
    >>> truth = np.repeat(rng.integers(0, 3, 200), 8)
    >>> said = np.where(rng.random(1600) < 0.7, truth, rng.integers(0, 3, 1600))
    >>> said[7::8] = np.minimum(said[7::8], 1)  # judge y never says 2
    >>> frame = pd.DataFrame(
    ...     {"item": np.repeat(np.arange(200), 8), "rater": np.tile(list("abcdefxy"), 200), "label": said}
    ... )
    >>> scale = xj.Scale.nominal([0, 1, 2])
    >>> found = xj.panel_geometry(xj.from_long(frame, judges=["x", "y"], scale=scale))
    >>> (found["distance"] > 3).values.tolist()
    [False, True]
    """
    check_arguments(panel_geometry, locals())
    if isinstance(n_simulated, bool) or n_simulated != int(n_simulated) or n_simulated < 3:
        raise ProtocolError(f"`n_simulated` is a number of at least 3; got {n_simulated!r}.")
    opened = OpenedPanel(
        data,
        "panel_geometry",
        protocol,
        human=human,
        gold=gold,
        by=by,
        judges=judges,
        humans=humans,
        seed=seed,
    )
    if opened.scale.n_categories != 3:
        raise ProtocolError(
            f"`panel_geometry` is about residuals on three labels, and under {opened.protocol!r} the "
            f"scale is {opened.scale!r}: map it to three categories (`scale_map`)."
        )
    opened.request(VOTES)

    def finish(counted: list[Any]) -> dict[str, Any]:
        slots = opened.slots(counted, 1)
        return opened.stacked([[_placed(units, n_simulated, seed) for units in tables] for tables in slots])

    arrays = opened.counting.run(finish, compute)
    trailing: dict[str, tuple[str, ...]] = {"cloud_covariance": ("coordinate", "coordinate_2")}
    for name in _OF_JUDGES:
        trailing |= {name: ("rater",), f"{name}_reason": ("rater",)}
        trailing |= dict.fromkeys((f"constructed_{name}", f"constructed_{name}_reason"), ("constructed",))
    coordinates = ["angle", "anisotropy"]
    result = opened.result(
        "panel_geometry",
        arrays,
        trailing,
        {
            "constructed": ("constructed", ["gold", "majority"]),
            "coordinate": ("coordinate", coordinates),
            "coordinate_2": ("coordinate_2", coordinates),
        },
        n_simulated=int(n_simulated),
        seed=seed,
    )
    gap = "no human or gold label, or no answer of a member that is a category"
    if not opened.told(result, gap, compute):
        return result
    warn_undefined(result, _OF_JUDGES)
    return result


def _placed(units: Units, n_simulated: int, seed: int) -> dict[str, Any]:
    """Geometry of one table."""
    judges, h, gold, _ = flat_units(units, units.used("drop"))
    order = np.lexsort(h.T)  # what simulated humans say depends on nothing else
    found = panel.residual_geometry(judges[order], h[order], gold[order], n_simulated=n_simulated, seed=seed)
    k = judges.shape[1]
    shape, angle, distance = (
        np.concatenate([own, made])
        for own, made in zip(
            (found.anisotropy, found.angle, found.distance), found.constructed.T, strict=True
        )
    )
    still = np.where(np.isnan(shape), int(Reason.NO_RESIDUAL_ENERGY), int(Reason.OK))
    still = still if found.n_items else np.full(k + 2, int(Reason.NO_ITEMS))
    axis = np.where(np.isnan(angle) & (still == Reason.OK), int(Reason.NO_PRINCIPAL_AXIS), still)
    away = np.where(np.isnan(distance) & (axis == Reason.OK), int(Reason.FLAT_CLOUD), axis)
    out: dict[str, Any] = {}
    for name, values, reasons in zip(_OF_JUDGES, (shape, angle, distance), (still, axis, away), strict=True):
        out |= {name: values[:k], f"{name}_reason": reasons[:k]}
        out |= {f"constructed_{name}": values[k:], f"constructed_{name}_reason": reasons[k:]}
    centre = found.cloud_centre
    above = shape[:k] > centre[1]
    excess = np.isnan(found.gold_excess)
    cloud = int(Reason.FLAT_CLOUD) if np.isnan(centre[1]) else int(Reason.NO_EXCESS)
    why = int(still[still != Reason.OK][0]) if (still != Reason.OK).any() else cloud
    return out | {
        "gold_excess": found.gold_excess,
        "gold_excess_reason": np.where(excess, why, int(Reason.OK)),
        "cloud_angle": centre[0],
        "cloud_anisotropy": centre[1],
        "cloud_covariance": found.cloud_covariance,
        "human_anisotropy": found.human_anisotropy,
        "human_axis": found.human_axis,
        "n_above": np.int64(above.sum()),
        "n_above_left": np.int64((above & (angle[:k] < centre[0])).sum()),
        "n_items": np.int64(found.n_items),
        "n_dropped": np.int64(units.inside.sum() - found.n_items),
    }

"""Geometry of residuals on three labels: how elongated a judge's residuals are, and along which axis.

Residuals live in the plane of vectors that sum to zero. The analytic second moment of human label noise sets
the origin of angles, and simulated humans the cloud against which a judge's displacement is measured
(section 4.4 and appendix B of the source).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xjudge.errors import StructureError
from xjudge.statistics._panel_aggregate import majority_vote
from xjudge.statistics._panel_inputs import Floats, checked_items, complete_items, contrasts, draw_labels
from xjudge.statistics._panel_residuals import residual_coordinates
from xjudge.statistics._panel_size import ROUNDING

__all__ = ["ResidualGeometry", "residual_geometry"]


class ResidualGeometry(NamedTuple):
    """Shape and orientation of residuals; see :func:`residual_geometry`.

    Attributes
    ----------
    anisotropy : ndarray (k,)
        Difference of the two eigenvalues of the second moment over their sum, in [0, 1].
    angle : ndarray (k,)
        Principal axis from the human one, radians in (-pi/2, pi/2].
    distance : ndarray (k,)
        Mahalanobis distance of (angle, anisotropy) to the cloud of simulated humans.
    constructed : ndarray (2, 3)
        Anisotropy, angle and distance of J_gold (answers gold) and J_maj (answers the panel's mode, the
        first in category order among ties).
    gold_excess : ndarray ()
        Anisotropy of J_gold above the cloud over the judges' mean above the cloud: a ratio of
        displacements, not a share of error.
    human_anisotropy, human_axis : ndarray ()
        Of the analytic second moment; the axis as an angle in the plane of the Helmert contrasts.
    cloud_centre : ndarray (2,)
        Axial mean angle and mean anisotropy of simulated humans.
    cloud_covariance : ndarray (2, 2)
    n_items : int
    """

    anisotropy: Floats
    angle: Floats
    distance: Floats
    constructed: Floats
    gold_excess: Floats
    human_anisotropy: Floats
    human_axis: Floats
    cloud_centre: Floats
    cloud_covariance: Floats
    n_items: int


def residual_geometry(
    judges: npt.ArrayLike,
    h: npt.ArrayLike,
    gold: npt.ArrayLike,
    *,
    n_simulated: int = 1000,
    seed: int | None = 0,
) -> ResidualGeometry:
    """Shape of each judge's residuals beside that of simulated humans, on three labels.

    Parameters
    ----------
    judges : array-like of int (n, k)
        Category codes; items that some judge did not answer are left out.
    h : array-like (n, 3)
        Human distributions; NaN rows are left out.
    gold : array-like of int (n,)
        For J_gold; items without gold (negative) are left out.
    n_simulated : int
        Simulated humans in the cloud.
    seed : int or None

    Returns
    -------
    ResidualGeometry
        NaN where there is no residual, where both eigenvalues are equal (no axis), or where the cloud is
        flat (distance).

    Raises
    ------
    StructureError
        For a scale without exactly three labels.
    """
    items = checked_items(judges, h, gold)
    if items.codes.ndim != 2 or items.gold is None or items.h.shape[-1] != 3:
        raise StructureError(
            "The geometry is of one panel on three labels; "
            f"got judges {items.codes.shape} and h {items.h.shape}."
        )
    keep = complete_items(items.codes, items.h) & (items.gold >= 0)
    codes, shares, labels = items.codes[keep], items.h[keep], items.gold[keep]
    n = len(codes)
    human_anisotropy, axis = _shape(_human_moment(shares)[None])
    constructed = np.stack([labels, majority_vote(codes, 3).label], axis=1).astype(codes.dtype)
    shape, angle = _shape(_moments(np.concatenate([codes, constructed], axis=1), shares))
    angle = _axial(angle - axis)
    generator = np.random.default_rng(seed)
    simulated = draw_labels(generator, shares, n_simulated)
    cloud_shape, cloud_angle = _shape(_moments(simulated, shares))
    cloud_angle = _axial(cloud_angle - axis)
    centre, covariance = _cloud(cloud_angle, cloud_shape)
    distance = _mahalanobis(angle, shape, centre, covariance)
    k = codes.shape[1]
    excess = shape[:k].mean() - centre[1] if k else np.nan
    ratio = (shape[k] - centre[1]) / excess if abs(excess) > 0 else np.nan
    return ResidualGeometry(
        shape[:k],
        angle[:k],
        distance[:k],
        np.stack([shape[k:], angle[k:], distance[k:]], axis=1),
        np.asarray(ratio),
        human_anisotropy[0],
        axis[0],
        centre,
        covariance,
        n,
    )


def _human_moment(h: Floats) -> Floats:
    """Mean covariance of one human label in contrast coordinates, (2, 2)."""
    basis = contrasts(3)
    inner = np.einsum("nl,nm->lm", h, h)
    moment = np.diag(h.sum(0)) - inner
    return basis.T @ moment @ basis / max(len(h), 1)


def _moments(codes: npt.NDArray[np.signedinteger], h: Floats) -> Floats:
    """Second moments (k, 2, 2) of residual contrasts, mean residual included."""
    residual = residual_coordinates(codes, h, contrasts(3))
    return np.einsum("snk,tnk->kst", residual, residual) / max(codes.shape[0], 1)


def _shape(moment: Floats) -> tuple[Floats, Floats]:
    """Anisotropy and principal axis (angle mod pi) of second moments (..., 2, 2)."""
    trace = moment[..., 0, 0] + moment[..., 1, 1]
    cosine, sine = moment[..., 0, 0] - moment[..., 1, 1], 2.0 * moment[..., 0, 1]
    spread = np.hypot(cosine, sine)
    anisotropy = np.divide(spread, trace, out=np.full(trace.shape, np.nan), where=trace > 0)
    angle = np.where(spread > ROUNDING * trace, 0.5 * np.arctan2(sine, cosine), np.nan)
    return anisotropy, angle


def _axial(angle: Floats) -> Floats:
    """Angles of axes brought to (-pi/2, pi/2]."""
    return -((-angle + np.pi / 2) % np.pi - np.pi / 2)


def _cloud(angle: Floats, anisotropy: Floats) -> tuple[Floats, Floats]:
    """Centre (axial mean angle, mean anisotropy) and covariance of the cloud; NaN if undefined."""
    if len(angle) < 2 or np.isnan(angle).any() or np.isnan(anisotropy).any():
        return np.full(2, np.nan), np.full((2, 2), np.nan)
    # The mean of axes: angles doubled, averaged on the circle, halved (Mardia and Jupp).
    mean = 0.5 * np.arctan2(np.sin(2 * angle).mean(), np.cos(2 * angle).mean())
    points = np.stack([_axial(angle - mean), anisotropy])
    return np.array([mean, anisotropy.mean()]), np.cov(points)


def _mahalanobis(angle: Floats, anisotropy: Floats, centre: Floats, covariance: Floats) -> Floats:
    """Distances to the cloud; NaN where it is flat or has no centre."""
    if np.isnan(covariance).any() or np.linalg.matrix_rank(covariance) < 2:
        return np.full(angle.shape, np.nan)
    offset = np.stack([_axial(angle - centre[0]), anisotropy - centre[1]], axis=-1)
    return np.sqrt(np.einsum("...i,ij,...j->...", offset, np.linalg.inv(covariance), offset))

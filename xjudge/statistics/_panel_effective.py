"""All sizes of a panel at once, each with the reason where it is undefined."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xjudge.errors import Reason
from xjudge.statistics._panel_errors import kish_of, phi_of
from xjudge.statistics._panel_inputs import Flags, Floats
from xjudge.statistics._panel_residuals import PanelSums, gram_of
from xjudge.statistics._panel_size import (
    ROUNDING,
    Reasons,
    distributional_error,
    mean_squared_correlation,
    nu_h,
    nu_mse,
    nu_mse_limit,
    participation_ratio,
    rho_bar,
)

__all__ = ["EffectiveSize", "effective_size", "panel_matrices"]


class EffectiveSize(NamedTuple):
    """Values and reasons by name; see :func:`effective_size`."""

    values: dict[str, Floats]
    reasons: dict[str, Reasons]


class _Consensus(NamedTuple):
    """Centred residual variation along the averaging direction."""

    channel: Floats
    total: Floats
    variance: Floats
    mean_sq: Floats


def effective_size(sums: PanelSums) -> EffectiveSize:
    """Every size of the panel from sums over items.

    Parameters
    ----------
    sums : PanelSums
        From :func:`panel_sums`, chunks added; leading dims pass through.

    Returns
    -------
    EffectiveSize
        ``values``, float arrays (...,) unless said: ``participation_ratio``, ``mean_squared_correlation``,
        ``nu_h``, ``nu_mse``, ``nu_mse_limit``, ``n_eff``, ``mean_error_correlation``, ``gamma_co``,
        ``gamma_co_channel`` (..., T), ``distributional_error``, ``human_variance``, ``mean_residual_sq``,
        ``mean_residual_share`` (of the error), ``mean_member_variance``, ``mean_member_correlation`` (vbar,
        rhobar of the asymptote), ``finite_n_delta``, ``member_energy`` and ``member_accuracy`` (..., k),
        ``n_items``, ``n_dropped``, and for few humans an item ``distributional_error_corrected``,
        ``human_variance_corrected``, ``nu_mse_corrected``.

        ``reasons``, members of :class:`xjudge.errors.Reason` for those values that can be undefined.

    Notes
    -----
    The corrected values take the ``m_i`` human labels of an item as exchangeable draws: the plug-in
    ``1 - s2`` is too small by the factor ``(m_i - 1) / m_i`` and the plug-in error too large by the
    variance of ``h_i``; they stand beside the plug-in values, never in their place. Cost ``k^2 T``.
    """
    gram, phi = panel_matrices(sums)
    k = gram.shape[-1]
    empty = np.asarray(np.isnan(gram).any((-1, -2)))
    values: dict[str, Floats] = {}
    values["participation_ratio"] = participation_ratio(gram)
    values["mean_squared_correlation"] = mean_squared_correlation(gram)
    values["distributional_error"] = error = distributional_error(gram)
    values["member_energy"] = np.diagonal(gram, axis1=-2, axis2=-1).copy()
    values |= _human_side(sums, error)
    values["nu_h"] = nu_h(values["participation_ratio"], values["finite_n_delta"])
    values["nu_mse"] = nu_mse(values["human_variance"], error)
    consensus = _consensus(sums, error)
    values["gamma_co"], values["gamma_co_channel"] = consensus.total, consensus.channel
    values["mean_residual_sq"] = consensus.mean_sq
    values["mean_residual_share"] = _ratio(consensus.mean_sq, error)
    values["mean_member_variance"] = consensus.variance
    values["mean_member_correlation"] = rho_bar(consensus.total, k)
    values["nu_mse_limit"] = nu_mse_limit(
        values["human_variance"], error, consensus.mean_sq, consensus.total, k
    )
    values["n_eff"], values["mean_error_correlation"] = kish_of(phi)
    values["member_accuracy"] = _member_accuracy(sums)
    values["n_items"], values["n_dropped"] = sums.n_items, sums.n_dropped
    return EffectiveSize(values, _reasons(values, sums, phi, empty))


def panel_matrices(sums: PanelSums) -> tuple[Floats, Floats]:
    """Residual Gram matrix and Pearson correlations of binary errors (..., k, k), from sums over items.

    NaN where a pair of judges shares no item, and in the correlations of a judge with constant errors.
    """
    return gram_of(sums), phi_of(sums.error_joint, sums.error_cross, sums.error_reach)


def _ratio(above: Floats, below: Floats) -> Floats:
    """Return ``above / below``, NaN where ``below`` is not positive."""
    return np.divide(above, below, out=np.full(np.shape(above), np.nan), where=below > 0)


def _human_side(sums: PanelSums, error: Floats) -> dict[str, Floats]:
    """Human variance, delta, and the finite-annotation correction."""
    n, spread, excess, spread_unbiased, excess_error, few = np.moveaxis(sums.human, -1, 0)
    known = (n > 0) & (few == 0)
    corrected = np.where(known, _ratio(spread_unbiased, n), np.nan)
    excess_mean = _ratio(excess_error, n)
    less = np.where(known, error - excess_mean, np.nan)
    less = np.where(np.abs(less) <= ROUNDING * np.maximum(error, excess_mean), 0.0, less)
    return {
        "human_variance": _ratio(spread, n),
        "finite_n_delta": _ratio(excess, spread**2),
        "human_variance_corrected": corrected,
        "distributional_error_corrected": less,
        "nu_mse_corrected": nu_mse(corrected, less),
    }


def _consensus(sums: PanelSums, error: Floats) -> _Consensus:
    """Consensus shares of variance, per channel and in total, and the squared mean residual."""
    joint = sums.joint[..., None, :, :]
    shape = np.broadcast_shapes(sums.cross.shape, joint.shape)
    second, mean = np.full(shape, np.nan), np.full(np.broadcast_shapes(sums.reach.shape, joint.shape), np.nan)
    np.divide(sums.cross, joint, out=second, where=joint > 0)
    np.divide(sums.reach, joint, out=mean, where=joint > 0)
    product = mean * np.swapaxes(mean, -1, -2)
    k = sums.cross.shape[-1]
    covariance = second - product
    energy = np.diagonal(second, axis1=-2, axis2=-1).sum(-1)
    own = np.diagonal(covariance, axis1=-2, axis2=-1).sum(-1)
    own = np.where(own <= ROUNDING * energy, 0.0, own)
    along = covariance.sum((-1, -2))
    # |along| is at most k times the members' variance; what rounding leaves of nothing is nothing.
    along = np.where(np.abs(along) <= ROUNDING * k * energy, 0.0, along)
    variance = own.sum(-1)
    mean_sq = product.sum(-3).sum((-1, -2)) / max(k, 1) ** 2
    mean_sq = np.where(np.abs(mean_sq) <= ROUNDING * energy.sum(-1) / max(k, 1), 0.0, mean_sq)
    if k < 1:
        mean_sq, variance = np.full(mean_sq.shape, np.nan), np.full(variance.shape, np.nan)
    return _Consensus(
        _ratio(along, k * own), _ratio(along.sum(-1), k * variance), variance / max(k, 1), mean_sq
    )


def _member_accuracy(sums: PanelSums) -> Floats:
    """Share of items on which a judge gives the gold label, among those that it is scored on."""
    wrong = np.diagonal(sums.error_cross, axis1=-2, axis2=-1)
    scored = np.broadcast_to(sums.error_joint, sums.error_cross.shape)
    scored = np.diagonal(scored, axis1=-2, axis2=-1)
    return 1.0 - _ratio(wrong, scored)


def _reasons(values: dict[str, Floats], sums: PanelSums, phi: Floats, empty: Flags) -> dict[str, Reasons]:
    """Why values are undefined: the first of the reasons that apply, in the order of the definitions."""
    k = sums.cross.shape[-1]
    none = sums.n_items <= 0
    still = np.asarray(~none & (values["member_energy"] <= 0).any(-1))
    no_variance = np.asarray(~none & (values["human_variance"] == 0))
    no_error = ~none & (values["distributional_error"] <= 0)
    nobody = np.broadcast_to(k < 1, none.shape)
    gap = [(none, Reason.NO_ITEMS), (nobody, Reason.NO_JOINT_ANSWERS), (empty, Reason.NO_OVERLAP)]
    ratio = [*gap, (still, Reason.NO_RESIDUAL_ENERGY)]
    few = [(none, Reason.NO_ITEMS), (sums.human[..., 5] > 0, Reason.FEW_HUMAN_LABELS)]
    corrected_error = values["distributional_error_corrected"]
    gamma = values["gamma_co"]
    one = np.broadcast_to(k < 2, none.shape)
    scored = sums.error_joint.min((-1, -2)) > 0 if k else np.zeros(none.shape, bool)
    constant = np.asarray(np.isnan(phi).any((-1, -2)))
    rules: dict[str, list[tuple[Flags, Reason]]] = {
        "participation_ratio": ratio,
        "mean_squared_correlation": [*ratio, (one, Reason.ONE_JUDGE)],
        "nu_h": [
            *ratio,
            (no_variance, Reason.NO_HUMAN_VARIANCE),
            (np.isnan(values["nu_h"]), Reason.NON_POSITIVE_DENOMINATOR),
        ],
        "nu_mse": [*gap, (no_variance, Reason.NO_HUMAN_VARIANCE), (no_error, Reason.NON_POSITIVE_ERROR)],
        "gamma_co": [*gap, (np.isnan(gamma), Reason.NO_CONSENSUS_VARIANCE)],
        "nu_mse_limit": [
            *gap,
            (one, Reason.ONE_JUDGE),
            (no_variance, Reason.NO_HUMAN_VARIANCE),
            (~(gamma > 0), Reason.NO_CONSENSUS_VARIANCE),
            (np.isnan(values["nu_mse_limit"]), Reason.NON_POSITIVE_ERROR),
        ],
        "n_eff": [
            (nobody, Reason.NO_JOINT_ANSWERS),
            (~scored, Reason.NO_ITEMS),
            (constant, Reason.CONSTANT_ERRORS),
            (np.isnan(values["n_eff"]), Reason.NON_POSITIVE_DENOMINATOR),
        ],
        "mean_error_correlation": [
            (nobody, Reason.NO_JOINT_ANSWERS),
            (~scored, Reason.NO_ITEMS),
            (one, Reason.ONE_JUDGE),
            (constant, Reason.CONSTANT_ERRORS),
        ],
        "distributional_error": gap,
        "human_variance": [(none, Reason.NO_ITEMS)],
        "finite_n_delta": [(none, Reason.NO_ITEMS), (no_variance, Reason.NO_HUMAN_VARIANCE)],
        "human_variance_corrected": few,
        "distributional_error_corrected": [*gap, *few],
        "nu_mse_corrected": [
            *gap,
            *few,
            (no_variance, Reason.NO_HUMAN_VARIANCE),
            (~(corrected_error > 0), Reason.NON_POSITIVE_ERROR),
        ],
    }
    return {name: _first_of(values[name], rule) for name, rule in rules.items()}


def _first_of(value: Floats, rules: list[tuple[Flags, Reason]]) -> Reasons:
    """Reason codes of a value: OK where it is defined, else the first that applies."""
    conditions = [np.broadcast_to(condition, value.shape) for condition, _ in rules]
    codes = np.select(conditions, [int(reason) for _, reason in rules], default=int(Reason.OK))
    return np.where(np.isnan(value), codes, int(Reason.OK)).astype(np.int64)

"""How do the members of a panel err together? Spectrum, orientation, correlations, joint errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from xjudge._arguments import check_arguments
from xjudge.errors import Reason
from xjudge.labelled._common import warn_undefined
from xjudge.labelled._panel_pass import JOINT_ERRORS, SUMS, JointErrorCounts, OpenedPanel
from xjudge.protocol import Protocol
from xjudge.statistics import panel

__all__ = ["panel_dependence"]

_UNDEFINED = ("alignment", "crossed_size", "expected_all_wrong")


def panel_dependence(
    data: xr.Dataset | xr.DataArray,
    *,
    human: str = "observed",
    gold: str = "mode",
    protocol: Protocol | None = None,
    by: str | None = None,
    judges: Any = None,
    humans: Any = None,
    seed: int = 0,
    compute: bool = True,
) -> xr.Dataset:
    """Describe how the members of a panel err together, and why diversity and error differ.

    Parameters
    ----------
    data : Dataset or DataArray
        A judge dataset.
    human, gold, protocol, by, judges, humans
        As in :func:`xjudge.effective_size`.
    seed : int
        Of drawn labels.
    compute : bool
        On lazy labels, whether to compute now.

    Returns
    -------
    Dataset
        The identity ``distributional_error = energy / k^2 * sum(eigenvalue * alignment)``: ``energy`` (Omega,
        the sum of the members' residual energies), on dim ``component``, the largest first, ``eigenvalue``
        (lambda, of the residual correlations; they sum to k) and ``alignment`` (b, squared cosine of the
        component with equal-weight averaging; they sum to 1).

        ``crossed_size`` and ``crossed_mean`` on dims ``representation`` (``"error"``: Pearson correlations of
        binary errors; ``"residual"``: correlations of residuals from the human distribution) and ``summary``
        (``"signed"``, ``"squared"``): the mean of the entries, or of their squares, and
        ``k / (1 + (k - 1) mean)``. Signed errors give Kish's ``n_eff``, squared residuals the
        ``participation_ratio``; signed residuals are descriptive. The matrices are
        ``error_correlation(rater_a, rater_b)`` and ``residual_correlation(rater_a, rater_b)``.

        ``n_all_wrong``: items that all members miss, ``expected_all_wrong``: how many independent members
        with these ``error_rate(rater)`` would, of ``n_scored``. ``n_items``, ``n_dropped``,
        ``n_gold_ties``. ``_reason`` beside ``energy``, ``eigenvalue``, ``alignment``,
        ``distributional_error``, ``crossed_mean``, ``crossed_size``, ``expected_all_wrong``.

    Raises
    ------
    ProtocolError, StructureError, VocabularyError, OverlapError
        As :func:`xjudge.effective_size`.

    Warns
    -----
    DroppedWarning
        Units left out: those that some member did not answer, or without a human label.
    UndefinedWarning
        Values that are undefined, with their reasons.

    Notes
    -----
    Section 3.4, appendices C.1 and D.1 of "How Many Humans Are 32 LLM Judges Worth?". Sums, one pass. The
    sizes stand with intervals in :func:`xjudge.effective_size`. More items that all miss than independence
    expects do not say why: hard items do the same.

    Examples
    --------
    >>> import warnings
    >>> import xjudge as xj
    >>> ds = xj.load_example()
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", xj.DroppedWarning)
    ...     found = xj.panel_dependence(ds, protocol=xj.Protocol(aggregate="micro"))
    >>> identity = found["energy"] / 4**2 * (found["eigenvalue"] * found["alignment"]).sum("component")
    >>> bool(abs(identity - found["distributional_error"]) < 1e-12)
    True
    >>> bool(found["n_all_wrong"] > 10 * found["expected_all_wrong"])
    True
    """
    check_arguments(panel_dependence, locals())
    opened = OpenedPanel(
        data,
        "panel_dependence",
        protocol,
        human=human,
        gold=gold,
        by=by,
        judges=judges,
        humans=humans,
        seed=seed,
    )
    opened.request(SUMS, JOINT_ERRORS)

    def finish(counted: list[Any]) -> dict[str, Any]:
        slots = zip(opened.slots(counted, 1), opened.slots(counted, 2), strict=True)
        return opened.stacked(
            [
                [_values(sums, ties, joint) for (sums, ties), joint in zip(*tables, strict=True)]
                for tables in slots
            ]
        )

    arrays = opened.counting.run(finish, compute)
    trailing: dict[str, tuple[str, ...]] = {"error_rate": ("rater",)}
    for names, dims in _DIMS:
        trailing |= dict.fromkeys([name for name in arrays if name.removesuffix("_reason") in names], dims)
    members = opened.judges
    result = opened.result(
        "panel_dependence",
        arrays,
        trailing,
        {
            "component": ("component", np.arange(1, len(members) + 1)),
            "representation": ("representation", ["error", "residual"]),
            "summary": ("summary", ["signed", "squared"]),
            "rater_a": ("rater_a", members),
            "rater_b": ("rater_b", members),
        },
        seed=seed,
    )
    gap = "no human label, or no answer of a member that is a category"
    if not opened.told(result, gap, compute):
        return result
    warn_undefined(result, _UNDEFINED)
    return result


_DIMS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("eigenvalue", "alignment"), ("component",)),
    (("crossed_mean", "crossed_size"), ("representation", "summary")),
    (("error_correlation", "residual_correlation"), ("rater_a", "rater_b")),
)


def _values(sums: panel.PanelSums, ties: int, joint: JointErrorCounts) -> dict[str, Any]:
    """Values of one table."""
    sizes = panel.effective_size(sums)
    gram, phi = panel.panel_matrices(sums)
    identity = panel.spectral_identity(gram)
    crossed = panel.crossed_summaries(phi, gram)
    size = np.array([crossed[:2], crossed[2:]], dtype=np.float64)
    C = panel.normalised_gram(gram)
    mean = panel.mean_off_diagonal(np.array([[phi, phi**2], [C, C**2]]))
    k = len(gram)
    reasons = sizes.reasons
    why = np.stack([reasons["mean_error_correlation"], reasons["mean_squared_correlation"]])[:, None]
    why = np.broadcast_to(why, (2, 2))
    less = np.isnan(size) & (why == Reason.OK)
    component = np.broadcast_to(reasons["participation_ratio"], (k,))
    expected = panel.expected_all_wrong(joint.n_items, joint.n_wrong)
    scored = np.full((k,), joint.n_items, dtype=np.float64)
    rate = np.divide(joint.n_wrong, scored, out=np.full(k, np.nan), where=scored > 0)
    out: dict[str, Any] = {
        "energy": identity.energy,
        "energy_reason": reasons["participation_ratio"],
        "eigenvalue": identity.eigenvalues,
        "eigenvalue_reason": component,
        "alignment": identity.alignment,
        "alignment_reason": component,
        "distributional_error": sizes.values["distributional_error"],
        "distributional_error_reason": reasons["distributional_error"],
        "crossed_mean": mean,
        "crossed_mean_reason": why,
        "crossed_size": size,
        "crossed_size_reason": np.where(less, int(Reason.NON_POSITIVE_DENOMINATOR), why),
        "error_correlation": phi,
        "residual_correlation": C,
        "error_rate": rate,
        "expected_all_wrong": expected,
        "expected_all_wrong_reason": np.where(np.isnan(expected), int(Reason.NO_ITEMS), int(Reason.OK)),
    }
    counts: dict[str, npt.ArrayLike] = {
        "n_all_wrong": joint.n_all_wrong,
        "n_scored": joint.n_items,
        "n_items": sizes.values["n_items"],
        "n_dropped": sizes.values["n_dropped"],
        "n_gold_ties": ties,
    }
    return out | {name: np.asarray(value, dtype=np.int64) for name, value in counts.items()}

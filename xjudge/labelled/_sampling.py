"""What a caller asks of sampling intervals: the method, the sampling unit, the numbers of the draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xjudge.errors import ProtocolError, listing

__all__ = ["METHODS", "PROPORTIONS", "RESAMPLE", "TRANSFORM", "Sampling", "transform"]

METHODS = ("delta", "percentile", "bca", "studentized", "wilson")
RESAMPLE = ("items", "items+criteria", "criteria", "clusters", "decisions")

PROPORTIONS = ("accuracy", "precision", "recall", "specificity")
"""Statistics that are a share of pairs, for which a Wilson interval exists."""

TRANSFORM = {
    "accuracy": "logit",
    "precision": "logit",
    "recall": "logit",
    "specificity": "logit",
    "balanced_accuracy": "logit",
    "f1": "logit",
    "marginal_mismatch": "logit",
    "kappa": "fisher",
    "scott_pi": "fisher",
    "alpha": "fisher",
    "fleiss_kappa": "fisher",
    "conger_kappa": "fisher",
    "light_kappa": "fisher",
    "mean_pairwise_kappa": "fisher",
    "phi": "fisher",
    "mcc": "fisher",
    "class_recall_gap": "fisher",
    "percent_agreement": "logit",
    "pearson": "fisher",
    "spearman": "fisher",
    "kendall_tau_b": "fisher",
    "concordance": "fisher",
    "mean_error": "identity",
    "mean_absolute_error": "log",
    "rmse": "log",
    "lower_limit_of_agreement": "identity",
    "upper_limit_of_agreement": "identity",
}
"""Scale on which the delta interval is symmetric, by the coverage study (docs/intervals.md).

Coefficients that are not here are at most 1 without a lower limit: ``-log(1 - x)``. Kappa and its kin are not
below -1 unless own weights make them so, and hold their level better on Fisher's scale.
"""


def transform(name: str) -> str:
    """Scale on which the delta interval of a statistic, or of one of a comparison, is symmetric.

    A difference has no limits that a transformation could keep and must change its sign with its sides: it is
    symmetric as it is. The two sides of a comparison have the scale of their statistic.
    """
    if name in TRANSFORM:
        return TRANSFORM[name]
    if name.endswith("_difference"):
        return "identity"
    return TRANSFORM.get(name[:-2] if name.endswith(("_a", "_b")) else name, "complement")


@dataclass(frozen=True)
class Sampling:
    """What the caller asked of intervals.

    Parameters
    ----------
    method : str or None
        One of :data:`METHODS`, ``"auto"``, or ``None`` for no intervals.
    resample : str
        One of :data:`RESAMPLE`: the sampling unit.
    level : float
    n_resamples : int
    seed : int
    """

    method: str | None
    resample: str
    level: float
    n_resamples: int
    seed: int

    def __post_init__(self) -> None:
        if self.method not in (None, "auto", *METHODS):
            raise ProtocolError(
                f"`interval` is None, 'auto' or one of {listing(METHODS, most=9)}; got {self.method!r}."
            )
        if self.resample not in RESAMPLE:
            raise ProtocolError(f"`resample` is one of {listing(RESAMPLE, most=9)}; got {self.resample!r}.")
        if not 0 < self.level < 1:
            raise ProtocolError(f"`level` must lie between 0 and 1; got {self.level!r}.")
        if self.n_resamples < 1:
            raise ProtocolError(f"`n_resamples` must be at least 1; got {self.n_resamples!r}.")

    def of(self, name: str) -> str | None:
        """The method for a statistic; ``"auto"`` is Wilson for shares and delta for the others."""
        if self.method is not None and self.resample in ("criteria", "items+criteria"):
            return "percentile"
        if self.method != "auto":
            return self.method
        return "wilson" if name in PROPORTIONS else "delta"

    def check(self, names: Sequence[str], aggregates: Sequence[str | None]) -> None:
        """Refuse methods and units that do not exist for what is asked."""
        if self.method is None:
            return
        wrong = [name for name in names if self.method == "wilson" and name not in PROPORTIONS]
        if wrong:
            raise ProtocolError(
                f"`interval='wilson'` is for shares of pairs ({', '.join(PROPORTIONS)}), not for "
                f"{listing(wrong)}; use 'delta' or a resampled method."
            )
        if self.resample in ("criteria", "items+criteria"):
            if not all(aggregate in ("micro", "macro") for aggregate in aggregates):
                raise ProtocolError(
                    f"`resample={self.resample!r}` needs criteria to be pooled: aggregate='micro' or 'macro'."
                )
            if self.method not in ("auto", "percentile"):
                raise ProtocolError(
                    f"`resample={self.resample!r}` goes with interval='percentile'; got {self.method!r}."
                )

    @property
    def resamples(self) -> bool:
        """Whether any statistic needs resampled replicates."""
        if self.method is None:
            return False
        by_method = self.method in ("percentile", "bca", "studentized")
        return by_method or self.resample in ("criteria", "items+criteria")

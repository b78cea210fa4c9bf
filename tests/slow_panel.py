"""Panels by plain loops, written from the definitions and not from the code under test.

Humans come as integer label counts with the same number of labels on every item where exact arithmetic is
wanted: residuals times that number are integers, so ties between panels are decided exactly.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt


def slow_gram(judges: Any, h: Any, *, pairwise: bool = False) -> list[list[float]]:
    """Gram matrix, item by item and pair by pair."""
    n, k = np.shape(judges)
    L = np.shape(h)[1]
    gram = [[math.nan] * k for _ in range(k)]
    for a in range(k):
        for b in range(k):
            total, count = 0.0, 0
            for i in range(n):
                if any(math.isnan(x) for x in h[i]):
                    continue
                needed = (a, b) if pairwise else range(k)
                if any(judges[i][c] < 0 for c in needed):
                    continue
                ra = [(judges[i][a] == t) - h[i][t] for t in range(L)]
                rb = [(judges[i][b] == t) - h[i][t] for t in range(L)]
                total += sum(x * y for x, y in zip(ra, rb, strict=True))
                count += 1
            if count:
                gram[a][b] = total / count
    return gram


def slow_sizes(judges: Any, h: Any, gold: Any, n_humans: Any = None) -> dict[str, float]:
    """Every size of a panel on its complete items (all values defined)."""
    items = [i for i in range(len(judges)) if min(judges[i]) >= 0 and not any(math.isnan(x) for x in h[i])]
    n, k, L = len(items), len(judges[0]), len(h[0])
    K = slow_gram([judges[i] for i in items], [h[i] for i in items])
    C2 = [[K[a][b] ** 2 / (K[a][a] * K[b][b]) for b in range(k)] for a in range(k)]
    out = {"participation_ratio": k * k / sum(map(sum, C2))}
    out["distributional_error"] = sum(map(sum, K)) / k**2
    s2 = [sum(x**2 for x in h[i]) for i in items]
    s3 = [sum(x**3 for x in h[i]) for i in items]
    J = sum(1 - x for x in s2) / n
    excess = sum(x - 2 * y + x * x for x, y in zip(s2, s3, strict=True))
    out["finite_n_delta"] = delta = excess / n / (n * J**2)
    out["human_variance"] = J
    out["nu_h"] = out["participation_ratio"] * (1 - delta) / (1 - out["participation_ratio"] * delta)
    out["nu_mse"] = J / out["distributional_error"]
    mean = [[sum((judges[i][a] == t) - h[i][t] for i in items) / n for t in range(L)] for a in range(k)]
    along = own = 0.0
    for i in items:
        for t in range(L):
            centred = [(judges[i][a] == t) - h[i][t] - mean[a][t] for a in range(k)]
            along += sum(centred) ** 2
            own += sum(x * x for x in centred)
    out["gamma_co"] = gamma = along / (k * own)
    out["mean_residual_sq"] = sum((sum(mean[a][t] for a in range(k)) / k) ** 2 for t in range(L))
    vbar = (out["distributional_error"] - out["mean_residual_sq"]) / gamma
    rho = (k * gamma - 1) / (k - 1)
    out["nu_mse_limit"] = J / (out["mean_residual_sq"] + vbar * rho)
    out["mean_member_variance"], out["mean_member_correlation"] = vbar, rho
    scored = [i for i in items if gold[i] >= 0]
    errors = np.array([[float(judges[i][a] != gold[i]) for a in range(k)] for i in scored])
    phi = [
        float(np.corrcoef(errors[:, a], errors[:, b])[0, 1]) for a, b in itertools.combinations(range(k), 2)
    ]
    out["n_eff"] = k / (1 + (k - 1) * sum(phi) / len(phi))
    if n_humans is not None:
        m = [n_humans[i] for i in items]
        out["human_variance_corrected"] = sum((1 - x) * y / (y - 1) for x, y in zip(s2, m, strict=True)) / n
        out["distributional_error_corrected"] = (
            out["distributional_error"] - sum((1 - x) / (y - 1) for x, y in zip(s2, m, strict=True)) / n
        )
    return out


def slow_accuracy(judges: Any, gold: Any, members: Iterable[int], n_categories: int) -> Fraction:
    """Sum over items of the chance that uniform tie-breaking gives gold."""
    total = Fraction(0)
    for row, label in zip(judges, gold, strict=True):
        votes = [sum(row[a] == t for a in members) for t in range(n_categories)]
        modes = [t for t in range(n_categories) if votes[t] == max(votes)]
        if label in modes:
            total += Fraction(1, len(modes))
    return total


class SlowPool(NamedTuple):
    """Exact per-pair quantities of a pool."""

    judges: npt.NDArray[np.int64]
    gold: npt.NDArray[np.int64]
    gram: list[list[int]]
    squares: list[list[Fraction | None]]
    n_categories: int


def slow_pool(
    judges: npt.NDArray[np.int64], counts: npt.NDArray[np.int64], gold: npt.NDArray[np.int64]
) -> SlowPool:
    """Exact Gram matrix (times n m^2) and squared scaled entries; None with a member without energy."""
    m = int(counts[0].sum())
    assert (counts.sum(1) == m).all()
    n, k = judges.shape
    gram = [[0] * k for _ in range(k)]
    for i in range(n):
        r = [
            [m * int(judges[i, a] == t) - int(counts[i, t]) for t in range(counts.shape[1])] for a in range(k)
        ]
        for a in range(k):
            for b in range(k):
                gram[a][b] += sum(x * y for x, y in zip(r[a], r[b], strict=True))
    squares: list[list[Fraction | None]] = [
        [
            Fraction(gram[a][b] ** 2, gram[a][a] * gram[b][b]) if gram[a][a] and gram[b][b] else None
            for b in range(k)
        ]
        for a in range(k)
    ]
    return SlowPool(judges, gold, gram, squares, counts.shape[1])


class SlowPanel(NamedTuple):
    """Exact quantities of one panel: accuracy, PR (None if undefined), error times n m^2 k^2."""

    members: tuple[int, ...]
    accuracy: Fraction
    ratio: Fraction | None
    error: int


def slow_panel(pool: SlowPool, members: Sequence[int]) -> SlowPanel:
    """Quantities of a panel, exactly."""
    entries = [pool.squares[a][b] for a in members for b in members]
    known = [entry for entry in entries if entry is not None]
    ratio = Fraction(len(members) ** 2) / sum(known, Fraction(0)) if len(known) == len(entries) else None
    return SlowPanel(
        tuple(sorted(members)),
        slow_accuracy(pool.judges, pool.gold, members, pool.n_categories),
        ratio,
        sum(pool.gram[a][b] for a in members for b in members),
    )


def slow_baseline(pool: SlowPool, k: int) -> tuple[int, ...]:
    """Top k single accuracies, ties by position."""
    hits = [int((pool.judges[:, a] == pool.gold).sum()) for a in range(pool.judges.shape[1])]
    return tuple(sorted(sorted(range(len(hits)), key=lambda a: (-hits[a], a))[:k]))


def slow_candidates(baseline: tuple[int, ...], n_judges: int) -> list[tuple[int, ...]]:
    """Panels within two swaps in the documented order."""
    outside = [a for a in range(n_judges) if a not in baseline]
    out = []
    for size in (1, 2):
        for removed in itertools.combinations(baseline, size):
            for added in itertools.combinations(outside, size):
                out.append(tuple(sorted((set(baseline) - set(removed)) | set(added))))
    return out


def slow_rule(rule: str, panels: list[SlowPanel], baseline: SlowPanel) -> SlowPanel | None:
    """First of the best panels under a rule; None where none is feasible."""
    if rule == "D":
        return max(
            panels, key=lambda p: (p.accuracy, Fraction(-1) if p.ratio is None else p.ratio), default=None
        )
    better = [panel for panel in panels if panel.accuracy > baseline.accuracy]
    if rule == "A":
        defined = [panel for panel in better if panel.ratio is not None]
        return max(defined, key=lambda p: p.ratio or Fraction(0), default=None)
    return min(better, key=lambda p: p.error, default=None)

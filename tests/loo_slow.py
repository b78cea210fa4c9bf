"""Leave-one-out and the alternative-annotator test in plain loops, and the real label matrices.

Written from the definitions, to share nothing with the rooms it checks.
"""

from __future__ import annotations

import csv
import gzip
import math
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from shared import SHARED

JUDGES = ("gemini_flash", "gemini_pro", "gpt-4o", "llama-31", "gpt-4o-mini", "mistral-v03")


class Matrix(NamedTuple):
    """Labels of a task: a unit is an (item, criterion); codes are the places of the sorted labels."""

    humans: npt.NDArray[np.int8]
    judges: npt.NDArray[np.int8]
    names: list[str]
    labels: list[str]

    def by_count(self) -> Matrix:
        """Humans by number of labels, file order on ties: the first is the primary."""
        order = sorted(range(len(self.names)), key=lambda k: -int((self.humans[:, k] >= 0).sum()))
        return self._replace(humans=self.humans[:, order], names=[self.names[k] for k in order])


@cache
def matrix(task: str) -> Matrix:
    """Labels of ``data/alttest_<task>.csv.gz``, judges in the order of ``JUDGES``."""
    with gzip.open(SHARED / "data" / f"alttest_{task}.csv.gz", "rt", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    units: dict[tuple[str, str], int] = {}
    humans: dict[str, int] = {}
    labels = sorted({row["label"] for row in rows})
    for row in rows:
        units.setdefault((row["item"], row.get("criterion", "")), len(units))
        if row["rater_kind"] == "human":
            humans.setdefault(row["rater"], len(humans))
    people = np.full((len(units), len(humans)), -1, np.int8)
    machines = np.full((len(units), len(JUDGES)), -1, np.int8)
    for row in rows:
        unit = units[row["item"], row.get("criterion", "")]
        if row["rater_kind"] == "human":
            people[unit, humans[row["rater"]]] = labels.index(row["label"])
        else:
            machines[unit, JUDGES.index(row["rater"])] = labels.index(row["label"])
    return Matrix(people, machines, list(humans), labels)


def met(humans: Any, judge: Any, i: int, k: int, q: int) -> bool:
    """Whether humans k and q and the judge all labelled item i."""
    return humans[i][k] >= 0 and humans[i][q] >= 0 and judge[i] >= 0


def counts(humans: Any, judge: Any) -> tuple[Any, Any, Any]:
    """``a_kq``, ``h_kq``, ``w_kq``."""
    n, K = len(humans), len(humans[0])
    a, h, w = (np.zeros((K, K), int) for _ in range(3))
    for i, k, q in product(range(n), range(K), range(K)):
        if k != q and met(humans, judge, i, k, q):
            w[k, q] += 1
            a[k, q] += int(judge[i] == humans[i][q])
            h[k, q] += int(humans[i][k] == humans[i][q])
    return a, h, w


def margin(humans: Any, judge: Any, k: int, eps: Fraction, pooling: str = "items") -> Fraction | None:
    """``D_k`` as a fraction, or None without overlap."""
    a, h, w = counts(humans, judge)
    if w[k].sum() == 0:
        return None
    if pooling == "items":
        return Fraction(int(a[k].sum() - h[k].sum()), int(w[k].sum())) + eps
    shares = [Fraction(int(a[k, q] - h[k, q]), int(w[k, q])) for q in range(len(w)) if w[k, q]]
    return sum(shares, Fraction(0)) / len(shares) + eps


def covariance(humans: Any, judge: Any, pooling: str = "items", target: str = "population") -> Any:
    """``Sigma_kl`` from the influences of items, pair by pair."""
    n, K = len(humans), len(humans[0])
    a, h, w = counts(humans, judge)
    n_judged = sum(int(j >= 0) for j in judge)
    met4: dict[tuple[int, int, int, int], int] = {}
    for k, q, m, r in product(range(K), repeat=4):
        met4[k, q, m, r] = sum(met(humans, judge, i, k, q) and met(humans, judge, i, m, r) for i in range(n))

    def influence(i: int, k: int, q: int) -> float:
        if k == q or not met(humans, judge, i, k, q):
            return 0.0
        gain = int(judge[i] == humans[i][q]) - int(humans[i][k] == humans[i][q])
        if pooling == "items":
            return (gain - (a[k].sum() - h[k].sum()) / w[k].sum()) / w[k].sum()
        return (gain - (a[k, q] - h[k, q]) / w[k, q]) / w[k, q] / np.count_nonzero(w[k])

    out = np.full((K, K), np.nan)
    for k, m in product(range(K), repeat=2):
        if w[k].sum() == 0 or w[m].sum() == 0:
            continue
        total = 0.0
        for q, r in product(range(K), repeat=2):
            if k == q or m == r or met4[k, q, m, r] == 0:
                continue
            share = 1.0
            if target == "matrix":
                share = 1 - w[k, q] * w[m, r] / (n_judged * met4[k, q, m, r])
            total += share * sum(influence(i, k, q) * influence(i, m, r) for i in range(n))
        out[k, m] = total
    return out


def advantages(humans: Any, judge: Any, k: int, score: str, values: Any = None) -> list[tuple[float, float]]:
    """Scores of judge and human k on every item k labelled with another: against the others."""

    def against(own: int, others: list[int]) -> float:
        if score == "accuracy":
            return sum(own == other for other in others) / len(others)
        return -math.sqrt(sum((values[own] - values[other]) ** 2 for other in others) / len(others))

    out = []
    for labels, verdict in zip(humans, judge, strict=True):
        others = [label for q, label in enumerate(labels) if q != k and label >= 0]
        if labels[k] >= 0 and verdict >= 0 and others:
            out.append((against(verdict, others), against(labels[k], others)))
    return out


def published_decisions(labels: Any, shown: Any, eps: float = 0.05) -> Any:
    """The rule as the note's second snippet computes it: doubles, at least one pair; the judge last.

    A plain re-implementation for comparison of results and of speed: labels (T, n, K + 1), shown (T, n, K).
    """
    K = shown.shape[2]
    votes: Any = 0
    for k in range(K):
        ours: Any = 0
        theirs: Any = 0
        pairs: Any = 0
        for q in range(K):
            if q != k:
                both = shown[:, :, k] * shown[:, :, q]
                pairs = pairs + both.sum(axis=1)
                ours = ours + (both * (labels[:, :, K] == labels[:, :, q])).sum(axis=1)
                theirs = theirs + (both * (labels[:, :, k] == labels[:, :, q])).sum(axis=1)
        pairs = np.maximum(pairs, 1)
        votes = votes + (ours / pairs >= theirs / pairs - eps)
    return votes / K >= 0.5

"""Completions of 3 x 3 tables at which a binary statistic is least and greatest, without enumeration.

The unresolved cells of a table are free: ``n0c`` goes to ``n00`` or ``n01``, ``n1c`` to ``n10`` or ``n11``,
``nc0`` to ``n00`` or ``n10``, ``nc1`` to ``n01`` or ``n11``, ``ncc`` anywhere. Whatever the split, ``N`` is
fixed. For every statistic one completion per end can be written down; the functions here say which and why.
The same formulas hold for real masses, which the ranges between ignorable and worst case need.
"""

from __future__ import annotations

from typing import Final, cast

import numpy as np

from xjudge.statistics._bounds_cells import Array, Bool, Cells, Completed, Float, denominator_is_zero

__all__ = ["complete", "limit_of"]


# ------------------------------------------------------------------------------------------ where they go


def complete(cells: Cells, statistic: str, *, upper: bool) -> Completed:
    """Completed tables that attain the upper or lower end over all completions that define the statistic.

    Where no completion defines it, the table returned leaves it undefined too, so the value of what comes
    back is the end in every case. Cells may be int64 (whole cases) or float64 (masses); with masses an end
    may be a limit that no completion attains, and :func:`limit_of` then gives it.
    """
    if statistic in ("rate_reference", "rate_rater"):
        return _complete_rate(cells, statistic, upper=upper)
    if statistic in ("phi", "balanced_accuracy") and not upper:
        # reading the rater's labels the other way round turns phi into -phi and balanced accuracy into
        # one less it, and turns the completions of a table into those of the mirrored one
        mirrored = _complete(_mirror(cells), statistic, upper=True)
        return Completed(mirrored.n01, mirrored.n00, mirrored.n11, mirrored.n10)
    return _complete(cells, statistic, upper=upper)


def _mirror(cells: Cells) -> Cells:
    return Cells(
        cells.n01, cells.n00, cells.n0c, cells.n11, cells.n10, cells.n1c, cells.nc1, cells.nc0, cells.ncc
    )


def _complete(cells: Cells, statistic: str, *, upper: bool) -> Completed:
    done = _toward(cells, agreement=upper)
    first, second = ("n00", "n11") if upper else ("n01", "n10")
    to_first = {
        "accuracy": _all_to_first,
        "precision": _all_to_second if upper else _all_to_first,
        "recall": _all_to_second,
        "specificity": _all_to_first,
        "f1": _all_to_second if upper else _all_to_first,
        "kappa": _evenly,
        "phi": _evenly,
        "balanced_accuracy": _least_error_rates,
    }[statistic](cells, done, upper)
    done = done._replace(
        **{first: getattr(done, first) + to_first, second: getattr(done, second) + (cells.ncc - to_first)}
    )
    if np.issubdtype(cells.ncc.dtype, np.integer):
        return _repair(cells, done, statistic, upper=upper)
    if statistic == "balanced_accuracy":
        return _open_empty_rows(cells, done)
    return done


def _toward(cells: Cells, *, agreement: bool) -> Completed:
    """Send every case with one side unresolved to agreement, or every one to disagreement; CC waits.

    Why that is where the ends lie. Write a move "x to y" for one case that leaves cell x for cell y, with
    ``h = n10 + n11``, ``j = n01 + n11`` and ``N`` as before the move:

    accuracy, precision, recall, specificity, F1
        These do not fall as ``n11`` and ``n00`` grow and do not rise as ``n01`` and ``n10`` grow, and all
        four extremes are reached at once.
    balanced accuracy
        ``n11/(n10+n11) + n00/(n00+n01)``: a move from disagreement to agreement within a row raises one
        share; ``n10`` to ``n00`` or ``n01`` to ``n11`` raises both.
    kappa
        Is ``1 - N D / E`` with ``D = n01 + n10``, ``E = N (h + j) - 2 h j``. On the move ``n00`` to ``n01``
        both are linear in the number moved, so ``D / E`` is monotone, in the direction of the sign of
        ``E - D (N - 2h) = 2 (h^2 - 2 h n11 + N n11) >= 2 h (h - n11) >= 0``: kappa does not rise. The other
        three moves follow by swapping the labels and by swapping the sides, under which kappa is the same.
    phi
        Is ``(N n11 - h j) / sqrt(h (N-h) j (N-j))``. On the same move ``h`` and ``n11`` stay and ``j``
        grows; the derivative has the sign of ``j (2 n11 - h) - N n11``, linear in ``j`` and not positive at
        ``j = 0`` and ``j = N``: phi does not rise. The other moves by the same symmetries.

    A move may be barred because it would leave the statistic undefined; see :data:`_REPAIRS`.
    """
    n00, n01, n0c, n10, n11, n1c, nc0, nc1, _ = cells
    if agreement:
        return Completed(n00 + n0c + nc0, n01, n10, n11 + n1c + nc1)
    return Completed(n00, n01 + n0c + nc1, n10 + n1c + nc0, n11)


def _all_to_first(cells: Cells, _done: Completed, _upper: bool) -> Array:
    """CC to ``n00`` (upper end) or ``n01`` (lower end).

    For accuracy either cell of the diagonal (upper) or off it (lower) is as good. Specificity is best with
    ``n00`` as large as can be and worst with ``n01`` as large as can be; precision and F1 are worst with
    ``n01`` as large as can be.
    """
    return cells.ncc


def _all_to_second(cells: Cells, _done: Completed, _upper: bool) -> Array:
    """CC to ``n11`` (upper end) or ``n10`` (lower end): best and worst for recall, best for precision, F1."""
    return np.zeros_like(cells.ncc)


def _evenly(cells: Cells, done: Completed, upper: bool) -> Array:
    """CC so that the two cells of agreement (upper end), or of disagreement (lower), are as equal as can be.

    By the moves of :func:`_toward`, CC ends in agreement for the upper end, in disagreement for the lower.

    Upper: with ``S = n00 + n11`` fixed and ``t = n00 n11``, kappa is ``1 - N D / E`` with ``D`` fixed and
    ``E = n10 (n10 + S) + n01 (n01 + S) + 2 t``, and phi is ``(t - n01 n10) / sqrt((t + u) (t + v))`` with
    ``u = n10 (n10 + S)``, ``v = n01 (n01 + S)``, whose derivative in ``t`` has the sign of
    ``t (u + v) + 2 u v + 2 n01 n10 t + n01 n10 (u + v) >= 0``: both rise with ``t``.

    Lower: with ``S = n01 + n10`` fixed, ``E = S (n00 + n11) + 2 n00 n11 + S^2 - 2 n01 n10`` is least, and
    kappa with it, where ``n01 n10`` is greatest; phi is mirrored and never comes here.
    """
    first, second = (done.n00, done.n11) if upper else (done.n01, done.n10)
    total = first + second + cells.ncc
    half = total // 2 if np.issubdtype(total.dtype, np.integer) else total / 2
    return cast("Array", np.minimum(np.maximum(half - first, 0), cells.ncc))


def _least_error_rates(cells: Cells, done: Completed, _upper: bool) -> Array:
    """CC for the greatest balanced accuracy: the split that minimises ``n01 / u + n10 / (N - u)``.

    ``u`` is the number of negatives of the reference. CC belongs in agreement (:func:`_toward`), where it
    changes nothing but ``u``, between ``u0`` (all to ``n11``) and ``u0 + ncc``; twice the balanced accuracy
    is two less the expression, which is convex in ``u`` and least at ``N r / (1 + r)``, where
    ``r = sqrt(n01/n10)``. Among whole numbers ``u + 1`` is better than ``u`` iff
    ``n10 u (u+1) < n01 (N-u-1) (N-u)``; this is decided exactly.

    No other completion does better: one whose ``u`` lies in the interval has no fewer errors at the same
    ``u``; one with ``u = u0 - k`` has ``k`` or more cases of (C, 0) in ``n10`` so its two error rates are at
    least ``n01 / u0`` and ``(n10 + k) / (N - u0 + k) >= n10 / (N - u0)``; likewise above.
    """
    n01, n10 = done.n01, done.n10
    low = done.n00 + n01
    total = low + n10 + done.n11 + cells.ncc
    root, other = np.sqrt(n01.astype(np.float64)), np.sqrt(n10.astype(np.float64))
    errors = root + other
    best = np.divide(total * root, errors, out=total / 2.0, where=errors > 0)
    if not np.issubdtype(total.dtype, np.integer):
        return cast("Array", np.minimum(np.maximum(best - low, 0), cells.ncc))
    first, last = np.maximum(low, 1), np.minimum(low + cells.ncc, total - 1)
    # start below the best whole number, whatever rounding did to `best`, and walk up while that is better
    u = np.clip(np.floor(best).astype(np.int64) - 1 - (total >> 49), first, np.maximum(first, last))
    step = (u < last) & _next_is_better(n01, n10, u, total)
    while step.any():
        u = u + step
        step = (u < last) & _next_is_better(n01, n10, u, total)
    return cast("Array", np.clip(u - low, 0, cells.ncc))


def _next_is_better(n01: Array, n10: Array, u: Array, total: Array) -> Bool:
    """Whether ``n10 u (u+1) < n01 (N-u-1) (N-u)``, exactly: in integers where floats are too near."""
    v = (total - u).astype(np.float64)
    w = u.astype(np.float64)
    left, right = n10 * (w * (w + 1)), n01 * ((v - 1) * v)
    better: Bool = left < right
    for i in np.flatnonzero((np.abs(left - right) <= 1e-14 * right) & (right > 2.0**52)):
        a, b, x, y = int(n01[i]), int(n10[i]), int(u[i]), int(total[i]) - int(u[i])
        better[i] = b * x * (x + 1) < a * (y - 1) * y
    return better


def _complete_rate(cells: Cells, statistic: str, *, upper: bool) -> Completed:
    """Positive rate of one side: what that side left open goes to positive (upper) or negative (lower).

    The denominator is ``N`` whatever the split, and the numerator is as large or as small as it can be. What
    the other side left open does not matter; it is sent to agreement.
    """
    n00, n01, n0c, n10, n11, n1c, nc0, nc1, ncc = cells
    if statistic == "rate_reference":
        if upper:
            return Completed(n00 + n0c, n01, n10 + nc0, n11 + n1c + nc1 + ncc)
        return Completed(n00 + n0c + nc0 + ncc, n01 + nc1, n10, n11 + n1c)
    if upper:
        return Completed(n00 + nc0, n01 + n0c, n10, n11 + n1c + nc1 + ncc)
    return Completed(n00 + n0c + nc0 + ncc, n01, n10 + n1c, n11 + nc1)


# ---------------------------------------------------------------------------------- where that is undefined

_Moves = tuple[tuple[str, str, str], ...]

_REPAIRS: Final[dict[tuple[str, bool], tuple[_Moves, ...]]] = {
    ("precision", True): ((("n0c", "n00", "n01"),),),
    ("precision", False): ((("n1c", "n10", "n11"),),),
    ("recall", True): ((("nc0", "n00", "n10"),),),
    ("recall", False): ((("nc1", "n01", "n11"),),),
    ("specificity", True): ((("nc1", "n11", "n01"),),),
    ("specificity", False): ((("nc0", "n10", "n00"),),),
    ("balanced_accuracy", True): ((("nc0", "n00", "n10"), ("nc1", "n11", "n01")),),
    ("f1", True): ((("n0c", "n00", "n01"), ("nc0", "n00", "n10")),),
    ("kappa", True): (
        (
            ("n0c", "n00", "n01"),
            ("nc0", "n00", "n10"),
            ("n1c", "n11", "n10"),
            ("nc1", "n11", "n01"),
            ("ncc", "n11", "n01"),
        ),
    ),
    ("phi", True): (
        (("n0c", "n00", "n01"), ("nc1", "n11", "n01"), ("ncc", "n11", "n01")),
        (("nc0", "n00", "n10"), ("n1c", "n11", "n10"), ("ncc", "n11", "n10")),
    ),
}
"""What to do where the completion above leaves the statistic undefined: (cell of the case, from, to).

One case moves: the first move of each group whose case exists. That gives the best *defined* completion:

* **precision, recall, specificity** are undefined at an end only if the cases that could give them a
  denominator at that end do not exist: then every defined completion has the one value 0 (upper end) or 1
  (lower end), and one case of the other kind gives it. **F1** likewise at the upper end (0); at the lower
  end it is undefined only for a table with nothing but resolved true negatives.
* **kappa** at the upper end: every case sits in one cell of agreement. If a defined completion exists,
  raise it by the moves of :func:`_toward` until one more would leave kappa undefined: a single case then
  is off that cell, where kappa is 0. So 0 is the best, and one case moved attains it. (An even split of CC
  is defined whenever any split is.) At the lower end a table is undefined only if nothing is unresolved.
* **phi**: a barred move starts from ``n00 n11 = 0``, so phi is not positive there. If ``n01, n10 > 0`` among
  the resolved, nothing is ever barred; otherwise a defined even split has phi >= 0, the best. The even split
  is undefined only if ``n00`` or ``n11`` cannot be had and (``ncc`` at most 1, and 1 only if neither can);
  then ``n00 n11 = 0`` throughout, phi is ``-sqrt(n01 n10 / ((N-n01) (N-n10)))`` or undefined, and best with
  ``n01`` and ``n10`` as small as they can be but not 0: one case each where there is none.
* **balanced accuracy**: no split of CC gives the reference both classes, so ``ncc = 0`` (or ``N = 1``) and
  one row is empty in agreement. Only a case of (C, 0), or (C, 1), can fill it, as an error; one does least
  harm.
"""


def _repair(cells: Cells, done: Completed, statistic: str, *, upper: bool) -> Completed:
    """Move single cases where the statistic is undefined, to the best completion that defines it."""
    groups = _REPAIRS.get((statistic, upper))
    if groups is None:
        return done
    where = np.flatnonzero(denominator_is_zero(statistic, done))
    if where.size == 0:
        return done
    source = {name: values[where] for name, values in cells._asdict().items()}
    parts = {name: values[where] for name, values in done._asdict().items()}
    for moves in groups:
        open_ = np.ones(where.size, dtype=np.bool_)
        if statistic == "phi":
            open_ = parts[moves[0][2]] == 0
        for cell, origin, target in moves:
            moved = open_ & (source[cell] > 0) & (parts[origin] > 0)
            parts[origin] = parts[origin] - moved
            parts[target] = parts[target] + moved
            open_ = open_ & ~moved
    whole = {name: values.copy() for name, values in done._asdict().items()}
    for name, values in parts.items():
        whole[name][where] = values
    return Completed(**whole)


def _open_empty_rows(cells: Cells, done: Completed) -> Completed:
    """With masses, leave a trace of CC in a row that would be empty: balanced accuracy is then its limit."""
    trace = np.where(cells.ncc > 0, cells.ncc * 2.0**-60, 0.0)
    n00 = np.where(done.n00 + done.n01 == 0, trace, done.n00)
    n11 = np.where(done.n10 + done.n11 == 0, trace, done.n11)
    return done._replace(n00=n00, n11=n11)


def limit_of(cells: Cells, done: Completed, statistic: str, *, upper: bool) -> Float:
    """Ends for masses where :func:`complete` leaves the statistic undefined; NaN where nothing defines it.

    The moves of :data:`_REPAIRS` with a mass that goes to zero: precision, recall, specificity, F1 and kappa
    have the value 0 (upper) or 1 (lower) at any mass, phi tends to 0, and balanced accuracy to half the
    share that is left.
    """
    if statistic in ("phi", "balanced_accuracy") and not upper:
        mirrored = Completed(done.n01, done.n00, done.n11, done.n10)
        end = limit_of(_mirror(cells), mirrored, statistic, upper=True)
        return -end if statistic == "phi" else 1.0 - end
    reachable = np.ones(done.n00.shape, dtype=np.bool_)
    for moves in _REPAIRS.get((statistic, upper), ((),)):
        some = np.zeros_like(reachable)
        for cell, origin, _ in moves:
            some = some | ((getattr(cells, cell) > 0) & (getattr(done, origin) > 0))
        if statistic == "phi":
            some = some | (getattr(done, moves[0][2]) > 0)
        reachable = reachable & some
    if statistic == "balanced_accuracy":
        total = done.n00 + done.n01 + done.n10 + done.n11
        value = np.divide((done.n00 + done.n11) / 2, total, out=np.zeros_like(total), where=total > 0)
    else:
        value = np.full(done.n00.shape, 0.0 if upper else 1.0)
    return np.where(reachable, value, np.nan)

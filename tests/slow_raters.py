"""Coefficients of many raters in plain loops over pairs of labels, written from MATH.md section 4.

Items are lists of labels, ``None`` where a rater gave none. Weights ``w[a][b]``, distances ``d[a][b]``. Exact
where weights are fractions. ``None`` comes back where a coefficient is undefined.
"""

from fractions import Fraction


def labels_of(item):
    return [x for x in item if x is not None]


def pairable(items):
    return [labels_of(item) for item in items if len(labels_of(item)) >= 2]


def identity(L):
    return [[Fraction(int(a == b)) for b in range(L)] for a in range(L)]


def percent_agreement(items, w):
    shares = []
    for given in pairable(items):
        pairs = [(j, k) for j in range(len(given)) for k in range(len(given)) if j != k]
        shares.append(sum(w[given[j]][given[k]] for j, k in pairs) / Fraction(len(pairs)))
    return sum(shares) / len(shares) if shares else None


def pooled_shares(items, L):
    every = [x for given in pairable(items) for x in given]
    return [Fraction(every.count(a), len(every)) for a in range(L)]


def item_mean_shares(items, L):
    labelled = [labels_of(item) for item in items if labels_of(item)]
    return [sum(Fraction(g.count(a), len(g)) for g in labelled) / len(labelled) for a in range(L)]


def corrected(observed, expected):
    if observed is None or expected is None or expected == 1:
        return None
    return (observed - expected) / (1 - expected)


def fleiss_kappa(items, w, shares="pooled"):
    L = len(w)
    observed = percent_agreement(items, w)
    if observed is None:
        return None
    pi = pooled_shares(items, L) if shares == "pooled" else item_mean_shares(items, L)
    return corrected(observed, sum(w[a][b] * pi[a] * pi[b] for a in range(L) for b in range(L)))


def gwet_ac(items, w):
    L = len(w)
    observed = percent_agreement(items, w)
    if observed is None:
        return None
    pi = item_mean_shares(items, L)
    total = sum(sum(row) for row in w)
    return corrected(observed, total / Fraction(L * (L - 1)) * sum(p * (1 - p) for p in pi))


def brennan_prediger(items, w):
    L = len(w)
    return corrected(percent_agreement(items, w), sum(sum(row) for row in w) / Fraction(L * L))


def conger_kappa(items, w):
    L = len(w)
    observed = percent_agreement(items, w)
    if observed is None:
        return None
    own = []
    for rater in range(len(items[0])):
        given = [item[rater] for item in items if item[rater] is not None]
        if given:
            own.append([Fraction(given.count(a), len(given)) for a in range(L)])
    chances = [
        sum(w[a][b] * own[g][a] * own[h][b] for a in range(L) for b in range(L))
        for g in range(len(own))
        for h in range(len(own))
        if g != h
    ]
    return corrected(observed, sum(chances) / len(chances))


def alpha(items, d):
    """Krippendorff's alpha from the coincidence matrix; ``d`` a matrix, or ``"ordinal"``."""
    L = len(d) if d != "ordinal" else 1 + max((x for g in pairable(items) for x in g), default=0)
    coincidence = [[Fraction(0)] * L for _ in range(L)]
    for given in pairable(items):
        for j in range(len(given)):
            for k in range(len(given)):
                if j != k:
                    coincidence[given[j]][given[k]] += Fraction(1, len(given) - 1)
    used = [sum(row) for row in coincidence]
    n = sum(used)
    if d == "ordinal":
        d = [
            [(sum(used[min(a, b) : max(a, b) + 1]) - (used[a] + used[b]) / 2) ** 2 for b in range(L)]
            for a in range(L)
        ]
    observed = sum(coincidence[a][b] * d[a][b] for a in range(L) for b in range(L))
    expected = sum(used[a] * used[b] * d[a][b] for a in range(L) for b in range(L))
    return None if expected == 0 else 1 - (n - 1) * observed / expected

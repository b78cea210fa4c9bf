"""Plain numpy functions: numbers from numbers. Knows no labels, no xarray, no dask."""

from xjudge.statistics.coefficients import (
    COEFFICIENTS,
    accuracy,
    balanced_accuracy,
    brennan_prediger,
    class_recall_gap,
    evaluate,
    f1,
    gwet_ac1,
    kappa,
    marginal_mismatch,
    mcc,
    phi,
    precision,
    recall,
    scott_pi,
    specificity,
)
from xjudge.statistics.weights import cost_matrix, weight_matrix, weights_from_costs

__all__ = [
    "COEFFICIENTS",
    "accuracy",
    "balanced_accuracy",
    "brennan_prediger",
    "class_recall_gap",
    "cost_matrix",
    "evaluate",
    "f1",
    "gwet_ac1",
    "kappa",
    "marginal_mismatch",
    "mcc",
    "phi",
    "precision",
    "recall",
    "scott_pi",
    "specificity",
    "weight_matrix",
    "weights_from_costs",
]

"""What labels on a part say about the whole, under assumptions that are stated.

*Prevalence*: how many cases are positive, from labelled (human, judge) pairs and the judge's verdicts on
further cases. The labelled cases are taken to be a random sample of all cases.

*Abstention*: the table of all cases from those where both sides answered, if whether they did is independent
of what they would have said, given features of the item. That is an assumption no data can check; the sharp
range (:mod:`xjudge.statistics.bounds`) is what holds without it.
"""

from __future__ import annotations

from xjudge.statistics._adjust_coverage import (
    RIDGE,
    Association,
    Positivity,
    association,
    fitted_coverage,
    positivity,
)
from xjudge.statistics._adjust_powered import Prevalence, labelled_only, ppi, ppi_plus_plus
from xjudge.statistics._adjust_prevalence import naive, rogan_gladen, stratified
from xjudge.statistics._adjust_table import (
    METHODS,
    Adjusted,
    adjusted_coefficient,
    adjusted_table,
    error_over_groups,
)

__all__ = [
    "METHODS",
    "RIDGE",
    "Adjusted",
    "Association",
    "Positivity",
    "Prevalence",
    "adjusted_coefficient",
    "adjusted_table",
    "association",
    "error_over_groups",
    "fitted_coverage",
    "labelled_only",
    "naive",
    "positivity",
    "ppi",
    "ppi_plus_plus",
    "rogan_gladen",
    "stratified",
]

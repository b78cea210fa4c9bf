"""From a CSV with one row per label to kappa per criterion.

python examples/own_table.py [labels.csv]
"""

import sys
from pathlib import Path

import pandas as pd

import xjudge as xj

path = sys.argv[1] if len(sys.argv) > 1 else Path(__file__).with_name("labels.csv")
df = pd.read_csv(path)

ds = df.judge.to_dataset(
    item="answer",
    rater="who",
    criterion="question",
    label="verdict",
    judges=["judge-a", "judge-b"],
    scale=xj.Scale.binary(negative="no", positive="yes"),
    ca=["cannot tell"],
    invalid=["unparsable"],
)
print(ds.judge.scale)

rates = xj.tidy(ds.judge.rates())
print(rates[["rater", "criterion", "answered", "ca", "invalid", "missing"]].round(2).to_string(index=False))

kappa = xj.tidy(ds.judge.agreement(statistic="kappa", reference="each", interval=None))
print(kappa[["rater", "human", "criterion", "kappa", "n", "coverage"]].round(2).to_string(index=False))

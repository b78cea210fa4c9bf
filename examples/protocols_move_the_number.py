"""The same verdicts under nine protocols: how far the number moves, and what it then speaks of.

python examples/protocols_move_the_number.py
"""

import xjudge as xj

ds = xj.load_example("rubric")
handlings = ("exclude", "category", "negative")
protocols = [
    *xj.Protocol.grid(ca=handlings, aggregate=["micro", "macro"]),
    *xj.Protocol.grid(ca=handlings, aggregate="item", item_rule=xj.weighted_share(0.6)),
]
swept = ds.judge.sweep(protocols, statistic=["accuracy", "kappa"], reference="ann", judges=["orion-small"])

print(f"{'orion-small against ann':40s} accuracy  kappa  coverage")
for row in xj.tidy(swept).itertuples():
    print(f"{row.protocol:40s} {row.accuracy:8.3f} {row.kappa:6.3f} {row.coverage:9.2f}")

moved = xj.spread(swept).sel(rater="orion-small")
print(f"\nkappa lies between {float(moved.kappa_min):.3f} and {float(moved.kappa_max):.3f}")
for choice in moved["choice"].values:
    print(f"  {choice:10s} moves it by {float(moved.kappa_effect.sel(choice=choice)):.3f} on average")

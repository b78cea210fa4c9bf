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

print(f"{'orion-small against ann':40s} accuracy  kappa  coverage")
for protocol in protocols:
    result = ds.judge.agreement(
        statistic=["accuracy", "kappa"], reference="ann", judges=["orion-small"], protocol=protocol
    )
    row = xj.tidy(result).iloc[0]
    print(f"{protocol.label:40s} {row['accuracy']:8.3f} {row['kappa']:6.3f} {row['coverage']:9.2f}")

"""What `import xjudge` costs beside `import xarray, pandas`: fresh processes, taken in turn.

    python benchmarks/import_time.py [repeats]

Prints the CPU seconds of both (least and median over the repeats) and their ratio; the goal is at most 1.3.
"""

from __future__ import annotations

import statistics
import subprocess
import sys

MEASURE = """
import time
start = time.process_time()
{imports}
print(time.process_time() - start)
"""
SIDES = {"import xarray, pandas": "import xarray, pandas", "import xjudge": "import xjudge"}


def seconds(imports: str) -> float:
    command = [sys.executable, "-c", MEASURE.format(imports=imports)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main(repeats: int) -> None:
    times: dict[str, list[float]] = {name: [] for name in SIDES}
    for imports in SIDES.values():
        seconds(imports)  # writes the bytecode, warms the file cache
    for _ in range(repeats):
        for name, imports in SIDES.items():
            times[name].append(seconds(imports))
    for name, taken in times.items():
        print(f"{name:24s} least {min(taken):.3f} s   median {statistics.median(taken):.3f} s")
    base, ours = times.values()
    print(
        f"ratio: of the least {min(ours) / min(base):.2f}, "
        f"of the medians {statistics.median(ours) / statistics.median(base):.2f} (goal: at most 1.3)"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)

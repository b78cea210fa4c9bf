"""A history of figures, so that a slowdown is seen.

    OMP_NUM_THREADS=1 python benchmarks/history.py record [--label TEXT]   # measures, and adds a line
    python benchmarks/history.py show                                      # the runs
    python benchmarks/history.py compare [OLD NEW] [--slower 1.25]         # the last two by default

A run is a line of benchmarks/history.jsonl: versions, the figures of `benchmarks/scaling.py --json` in M
labels/s, and the speed of reading the labels in the same run. Runs are compared by figures over reading, so
that a slower machine is no slowdown; `compare` lists what has changed, and its exit code is 1 where something
takes longer by the factor `--slower`. Nothing says which machine it was.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

HISTORY = Path(__file__).with_name("history.jsonl")
SCALING = Path(__file__).with_name("scaling.py")


def runs(path: Path) -> list[dict[str, Any]]:
    """The runs, the oldest first."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def record(path: Path, label: str, arguments: list[str]) -> dict[str, Any]:
    """Measure in a fresh process, and add a line."""
    # -P: a neighbour of that file has the name of a package that compiled kernels look for
    command = [sys.executable, "-P", str(SCALING), "--json", *arguments]
    measured = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    packages = ["xjudge", "numpy", "dask", "xarray"]
    if importlib.util.find_spec("numba"):
        packages.append("numba")
    run = {
        "label": label,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in packages},
        "read": round(measured["read"], 1),
        "figures": {name: float(f"{speed:.4g}") for name, speed in measured["figures"].items()},
    }
    with path.open("a") as file:
        file.write(json.dumps(run, ensure_ascii=False) + "\n")
    return run


def slowdowns(old: dict[str, Any], new: dict[str, Any]) -> dict[str, float]:
    """By what factor each figure takes longer, on machines of equal speed of reading."""
    return {
        name: (speed / old["read"]) / (new["figures"][name] / new["read"])
        for name, speed in old["figures"].items()
        if name in new["figures"]
    }


def compare(old: dict[str, Any], new: dict[str, Any], slower: float) -> bool:
    """Print what has changed; whether something has become slower by the factor."""
    factors = slowdowns(old, new)
    for name, factor in sorted(factors.items(), key=lambda found: -found[1]):
        if factor >= slower or factor <= 1 / slower:
            word = "slower" if factor > 1 else "faster"
            by = max(factor, 1 / factor)
            print(
                f"{by:5.2f}x {word}  {name}: {old['figures'][name]:,} to {new['figures'][name]:,} M labels/s"
            )
    for name in sorted(set(old["figures"]) ^ set(new["figures"])):
        print(f"only in one run: {name}")
    late = [name for name, factor in factors.items() if factor >= slower]
    print(f"{len(late)} of {len(factors)} figures take {slower} times as long or longer")
    return bool(late)


def chosen(path: Path, given: list[int]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two runs by their places, the last two by default."""
    known = runs(path)
    places = given or [len(known) - 2, len(known) - 1]
    if len(places) != 2 or not all(0 <= place < len(known) for place in places):
        raise SystemExit(f"{path.name} has {len(known)} runs, counted from 0; `compare` takes two of them.")
    return known[places[0]], known[places[1]]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=["record", "show", "compare"])
    parser.add_argument("runs", nargs="*", type=int, help="places of two runs, from 0")
    parser.add_argument("--file", type=Path, default=HISTORY)
    parser.add_argument("--label", default="", help="what to call the run")
    parser.add_argument("--slower", type=float, default=1.25)
    options, rest = parser.parse_known_args()
    if options.command == "record":
        run = record(options.file, options.label, rest)
        print(f"{len(run['figures'])} figures; reading {run['read']:,} M labels/s")
    elif options.command == "show":
        for place, run in enumerate(runs(options.file)):
            print(f"{place:3} {run['date']} xjudge {run['xjudge']}, reading {run['read']:,} {run['label']}")
    elif compare(*chosen(options.file, options.runs), options.slower):
        raise SystemExit(1)


if __name__ == "__main__":
    main()

"""The command `xjudge`: the main job from a terminal.

Exit codes: 0 done, 2 usage or data error. Errors are one clear line.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Sequence
from typing import Any, cast

import pandas as pd
import xarray as xr

from xjudge.errors import XJudgeError, XJudgeWarning
from xjudge.labelled._common import tidy, version
from xjudge.labelled.agreement import agreement, tables
from xjudge.labelled.bounds import breakdown, coverage_bounds
from xjudge.outcomes import rates
from xjudge.protocol import Protocol
from xjudge.simulation import load_example

__all__ = ["main"]

_CLAIM = 0.8
"""The accuracy whose claim the demo puts to the test."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    arguments : sequence of str, optional
        ``sys.argv[1:]`` by default.

    Returns
    -------
    int
        Exit code: 0 done, 2 usage or data error.
    """
    parser = argparse.ArgumentParser(
        prog="xjudge", description="May this LLM judge replace human labels, and how do we know?"
    )
    parser.add_argument("--version", action="version", version=f"xjudge {version()}")
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser("demo", help="the main job on embedded data")
    demo.add_argument("--seed", type=int, default=0, help="seed of the example data (default 0)")
    demo.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    demo.set_defaults(run=_demo)
    chosen = parser.parse_args(arguments)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", XJudgeWarning)
        try:
            sections = chosen.run(chosen)
        except XJudgeError as error:
            print(f"xjudge: {error}", file=sys.stderr)
            return 2
    notes = [str(warning.message) for warning in caught if issubclass(warning.category, XJudgeWarning)]
    print(_as_json(sections, notes) if chosen.json else _as_text(sections, notes))
    return 0


Section = tuple[str, str, pd.DataFrame]
"""Key for JSON, sentence above the table, table."""


def _demo(chosen: argparse.Namespace) -> list[Section]:
    """Rates, tables and agreement of the example, under two protocols."""
    ds = load_example("rubric", seed=chosen.seed)
    outcomes = tidy(rates(ds, protocol=Protocol(aggregate="micro")))
    sections: list[Section] = [
        (
            "rates",
            "How often each rater answered, could not assess, or failed (pooled over criteria):",
            outcomes[["rater", "role", "answered", "ca", "invalid", "missing", "positive"]],
        )
    ]
    judge = str(ds["rater"].values[ds["role"].values == "judge"][0])
    counted = tables(ds, reference="pooled", judges=[judge], protocol=Protocol(aggregate="micro"))
    cells = cast(pd.DataFrame, counted["count"].sel(rater=judge).to_pandas())
    cells.index.name = "human"
    sections.append(
        ("table", f"Where {judge} meets the humans (rows human, columns judge):", cells.reset_index())
    )
    protocols = {
        "agreement_excluded": Protocol(aggregate="micro", ca="exclude"),
        "agreement_negative": Protocol(aggregate="micro", ca="negative"),
    }
    for key, protocol in protocols.items():
        found = tidy(agreement(ds, reference="pooled", protocol=protocol))
        columns = ["rater", "accuracy", "kappa", "phi", "n", "coverage", "rate_reference", "rate_rater"]
        sections.append((key, f"Agreement with the humans under {protocol!r}:", found[columns]))
    both = [section[2].set_index("rater")["accuracy"] for section in sections[-2:]]
    moved = pd.DataFrame({"rater": both[0].index, "accuracy_moves_by": (both[1] - both[0]).to_numpy()})
    sections.append(("moved", "The verdicts are the same; what the protocol alone does to accuracy:", moved))
    return sections + _unresolved(ds)


def _unresolved(ds: xr.Dataset) -> list[Section]:
    """What the cases without an answer could do, and how many of them it takes."""
    micro = Protocol(aggregate="micro")
    ranges = tidy(
        coverage_bounds(
            ds, statistic=["accuracy", "kappa"], reference="pooled", protocol=micro, interval=None
        )
    )
    ends = [f"{name}_range_{end}" for name in ("accuracy", "kappa") for end in ("lower", "upper")]
    fallen = tidy(breakdown(ds, "accuracy", _CLAIM, reference="pooled", protocol=micro))
    # infinity is no number in JSON; the reason says what it says
    fallen["breakdown"] = fallen["breakdown"].where(fallen["breakdown"] <= 1)
    return [
        (
            "ranges",
            "Whatever the unresolved answers would have been, the values lie in these ranges:",
            ranges[["rater", "n", "n_unresolved", *ends]],
        ),
        (
            "breakdown",
            f"Share of the unresolved answers that must be adverse to overturn `accuracy >= {_CLAIM}`:",
            fallen[["rater", "breakdown", "breakdown_reason"]],
        ),
    ]


def _as_text(sections: Sequence[Section], notes: Sequence[str]) -> str:
    parts = []
    for _, sentence, table in sections:
        shown = table.to_string(index=False, float_format=lambda value: f"{value:.3f}", na_rep="-")
        parts.append(f"{sentence}\n\n{shown}\n")
    parts += [f"Note: {note}" for note in notes]
    return "\n".join(parts)


def _as_json(sections: Sequence[Section], notes: Sequence[str]) -> str:
    content: dict[str, Any] = {key: json.loads(table.to_json(orient="records")) for key, _, table in sections}
    return json.dumps(content | {"notes": list(notes)}, indent=2, ensure_ascii=False)

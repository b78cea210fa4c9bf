"""The command `xjudge`: the main job from a terminal.

Exit codes: 0 done, 2 usage or data error. Errors are one clear line.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import pandas as pd

from xjudge._demo import Section, demo
from xjudge.errors import XJudgeError, XJudgeWarning
from xjudge.labelled._common import tidy, version
from xjudge.labelled.planning import plan_overlap

__all__ = ["main"]


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
    shown = commands.add_parser("demo", help="the main job on embedded data")
    shown.add_argument("--seed", type=int, default=0, help="seed of the example data (default 0)")
    shown.set_defaults(run=demo)
    _add_plan(commands.add_parser("plan", help="how many items each further human must label"))
    for command in commands.choices.values():
        command.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    chosen = parser.parse_args(arguments)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", XJudgeWarning)
        try:
            sections = chosen.run(chosen)
        except XJudgeError as error:
            print(f"xjudge: {error}", file=sys.stderr)
            return 2
    notes = [str(warning.message) for warning in caught if issubclass(warning.category, XJudgeWarning)]
    try:
        print(_as_json(sections, notes) if chosen.json else _as_text(sections, notes), flush=True)
    except BrokenPipeError:  # the reader, `head` for instance, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _add_plan(plan: argparse.ArgumentParser) -> None:
    """Options of `xjudge plan`: the parameters of :func:`xjudge.plan_overlap`, under their names."""
    plan.description = (
        "How many items each further human must label so that leave-one-out validation seldom rejects a good "
        "judge or accepts a bad one. The first human labels all items."
    )
    numbers: dict[str, tuple[Any, Any, str]] = {
        "--n-humans": (int, 3, "humans, the first one included"),
        "--n-categories": (int, 2, "categories of the scale"),
        "--n-items": (int, 2000, "items of the corpus"),
        "--eps": (float, 0.05, "tolerance of the rule"),
        "--at-margin": (float, 0.05, "distance from the bar at which both errors are counted"),
        "--target-fr": (float, 0.05, "greatest rate of false rejections"),
        "--target-fa": (float, 0.05, "greatest rate of false approvals"),
        "--threshold": (float, 0.5, "share of the comparisons that the judge must win"),
        "--level": (float, 0.95, "of the partial conjunction"),
        "--q": (float, 0.05, "false discovery rate of the alternative-annotator test"),
        "--seed": (int, 0, "where masks are simulated"),
    }
    for option, (kind, default, text) in numbers.items():
        plan.add_argument(option, type=kind, default=default, help=f"{text} (default {default})")
    plan.add_argument(
        "--human-accuracy",
        type=float,
        nargs="+",
        default=[0.85],
        help="accuracy of the humans, one for all or one each (default 0.85)",
    )
    plan.add_argument(
        "--prevalence", type=float, nargs="+", help="share of the positive, or of each, category"
    )
    plan.add_argument("--grid", type=int, nargs="+", help="numbers of items to consider, and no others")
    plan.add_argument(
        "--method",
        choices=["gaussian", "monte_carlo", "auto"],
        default="gaussian",
        help="auto simulates where comparisons are thin (default gaussian)",
    )
    plan.add_argument("--design", choices=["random", "shared", "strat", "strat_judge"], default="random")
    plan.add_argument("--rule", choices=["omega", "partial_conjunction", "alt_test"], default="omega")
    plan.add_argument("--strict", action="store_true", help="a share of exactly the threshold is not enough")
    plan.set_defaults(run=_plan)


def _plan(chosen: argparse.Namespace) -> list[Section]:
    """The recommendation, the verdicts to expect with it, and both errors against the number of items."""
    options = {name: value for name, value in vars(chosen).items() if name not in ("command", "json", "run")}
    for name in ("human_accuracy", "prevalence"):
        if options[name] is not None and len(options[name]) == 1:
            (options[name],) = options[name]
    found = plan_overlap(**options)
    counts = {name: found[name].item() for name in ("m", "m_fr", "m_fa", "n_labels", "n_needed")}
    answer = pd.DataFrame({name: [int(n) if math.isfinite(n) else n] for name, n in counts.items()})
    curve = ["fr", "fa", "smallest_overlap", "method", "trusted"]
    return [
        (
            "plan",
            f"Items that each further human must label, for at most {chosen.target_fr:g} false rejections "
            f"(m_fr) and {chosen.target_fa:g} false approvals (m_fa), {chosen.at_margin:g} from the bar; inf "
            "where all items are not enough:",
            answer,
        ),
        (
            "verdicts",
            "Verdicts to expect with m items, by the judge's true distance from the bar:",
            tidy(found[["verdict_probability"]]),
        ),
        ("curve", "Both errors against the number of items:", tidy(found[curve])),
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

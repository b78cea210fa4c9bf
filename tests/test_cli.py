"""The command: the demo prints the main job, errors are one line, exit codes mean something."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import xjudge as xj
from xjudge import cli


def test_demo_prints_the_main_job(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["demo"]) == 0
    out = capsys.readouterr().out
    assert "Protocol(aggregate='micro')" in out
    assert "Protocol(ca='negative', aggregate='micro')" in out
    assert "what the protocol alone does to accuracy" in out


def test_demo_as_json_holds_the_numbers_of_the_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["demo", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    ds = xj.load_example("rubric")
    for key, ca in (("agreement_excluded", "exclude"), ("agreement_negative", "negative")):
        protocol = xj.Protocol(aggregate="micro", ca=ca)
        result = xj.agreement(ds, reference="pooled", protocol=protocol)
        found = {row["rater"]: row["kappa"] for row in content[key]}
        for rater, kappa in zip(result["rater"].values, result["kappa"].values, strict=True):
            assert found[str(rater)] == pytest.approx(float(kappa), abs=1e-9)


def test_demo_says_what_the_unresolved_answers_could_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["demo", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    ds, micro = xj.load_example("rubric"), xj.Protocol(aggregate="micro")
    result = xj.coverage_bounds(ds, reference="pooled", protocol=micro, interval=None)
    fallen = xj.breakdown(ds, "accuracy", 0.8, reference="pooled", protocol=micro)
    assert [row["rater"] for row in content["ranges"]] == result["rater"].values.tolist()
    for row, share, one in zip(content["ranges"], content["breakdown"], result["rater"].values, strict=True):
        ends = result["accuracy_range"].sel(rater=one).values
        assert [row["accuracy_range_lower"], row["accuracy_range_upper"]] == pytest.approx(ends, abs=1e-9)
        reason = str(fallen["breakdown_reason"].sel(rater=one).values)
        assert share["breakdown_reason"] == reason
        if reason == "ok":
            assert share["breakdown"] == pytest.approx(float(fallen["breakdown"].sel(rater=one)), abs=1e-9)
        else:
            assert share["breakdown"] is None


def test_demo_depends_on_its_seed_only(capsys: pytest.CaptureFixture[str]) -> None:
    outputs = []
    for arguments in (["demo"], ["demo", "--seed", "0"], ["demo", "--seed", "1"]):
        assert cli.main(arguments) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] != outputs[2]


def test_usage_errors_leave_with_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["dance"])
    assert stop.value.code == 2
    assert "invalid choice" in capsys.readouterr().err


def test_data_errors_are_one_line_and_code_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise xj.StructureError("The dataset has no variable `label`.")

    monkeypatch.setattr("xjudge._demo.load_example", broken)
    assert cli.main(["demo"]) == 2
    captured = capsys.readouterr()
    assert captured.err == "xjudge: The dataset has no variable `label`.\n"
    assert captured.out == ""


def test_python_dash_m_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "xjudge", "--version"], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.strip() == f"xjudge {xj.__version__}"


def test_demo_gives_the_verdicts_and_sizes_of_the_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["demo", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    ds, micro = xj.load_example("rubric"), xj.Protocol(aggregate="micro")
    with pytest.warns(xj.XJudgeWarning, match="overlap unequally"):
        found = xj.loo_validate(ds, protocol=micro)
    assert [row["rater"] for row in content["verdicts"]] == found["rater"].values.tolist()
    assert [row["verdict"] for row in content["verdicts"]] == found["verdict"].values.tolist()
    smallest = found["margin"].min("human").values
    assert [row["smallest_margin"] for row in content["verdicts"]] == pytest.approx(smallest, abs=1e-9)
    with pytest.warns(xj.DroppedWarning, match="left out"):
        worth = xj.effective_size(ds, protocol=micro, interval=None)
    for row in content["worth"]:
        assert row["value"] == pytest.approx(float(worth[row["size"]]), abs=1e-9)
    assert [row["size"] for row in content["worth"]][:2] == ["participation_ratio", "nu_h"]


def test_plan_answers_from_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--n-humans", "3", "--human-accuracy", "0.9", "0.8", "0.85", "--design", "shared"]
    assert cli.main(["plan", *options, "--prevalence", "0.3", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    found = xj.plan_overlap(n_humans=3, human_accuracy=[0.9, 0.8, 0.85], prevalence=0.3, design="shared")
    (answer,) = content["plan"]
    for name in ("m", "m_fr", "m_fa", "n_labels", "n_needed"):
        assert answer[name] == float(found[name])
    assert [row["m_items"] for row in content["curve"]] == found["m_items"].values.tolist()
    assert [row["fa"] for row in content["curve"]] == pytest.approx(found["fa"].values, abs=1e-9)
    assert len(content["verdicts"]) == found["verdict_probability"].size


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        (["--strict"], {"strict": True}),
        (["--threshold", "1"], {"threshold": 1.0}),
        (["--rule", "partial_conjunction", "--level", "0.9"], {"rule": "partial_conjunction", "level": 0.9}),
        (
            ["--rule", "alt_test", "--q", "0.2", "--grid", "50", "80"],
            {"rule": "alt_test", "q": 0.2, "grid": [50, 80]},
        ),
        (["--method", "auto", "--grid", "4", "60"], {"method": "auto", "grid": [4, 60]}),
        (
            ["--n-categories", "3", "--eps", "0.1", "--at-margin", "0.1"],
            {"n_categories": 3, "eps": 0.1, "at_margin": 0.1},
        ),
    ],
)
def test_every_rule_is_planned_from_the_command_line(
    capsys: pytest.CaptureFixture[str], options: list[str], arguments: dict[str, Any]
) -> None:
    assert cli.main(["plan", "--n-humans", "4", "--design", "shared", *options, "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    found = xj.plan_overlap(n_humans=4, human_accuracy=0.85, design="shared", **arguments)
    (answer,) = content["plan"]
    assert answer["m_fa"] == (float(found["m_fa"]) if np.isfinite(found["m_fa"]) else None)
    assert answer["n_needed"] == int(found["n_needed"])
    assert [row["method"] for row in content["curve"]] == found["method"].values.tolist()
    assert [row["fr"] for row in content["curve"]] == pytest.approx(found["fr"].values, abs=1e-9)


def test_a_plan_that_all_items_do_not_meet_is_infinite(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["plan", "--n-items", "20", "--at-margin", "0.01"]
    assert cli.main(arguments) == 0
    assert " inf " in capsys.readouterr().out
    assert cli.main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["plan"][0]["m"] is None


def test_a_plan_of_nonsense_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["plan", "--human-accuracy", "0.9", "0.8"]) == 2
    streams = capsys.readouterr()
    assert streams.out == ""
    assert streams.err.startswith("xjudge: ")
    assert streams.err.count("\n") == 1


def test_a_reader_that_has_had_enough_is_no_error() -> None:
    command = f"{sys.executable} -m xjudge plan --json | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.stdout.split() == ["{", "0"]
    assert done.stderr == ""

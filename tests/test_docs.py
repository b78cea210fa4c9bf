"""What the documentation says is run: doctests, the README's code and its demo command, the examples."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import xjudge

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
API = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
MODULES = sorted(
    [
        "xjudge",
        *(m.name for m in pkgutil.walk_packages(xjudge.__path__, "xjudge.") if "__main__" not in m.name),
    ]
)


def blocks(text: str, language: str) -> list[str]:
    """Code blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


# --------------------------------------------------------------------------------------------------- doctests


@pytest.mark.parametrize("name", [name for name in MODULES if not name.endswith("__main__")])
def test_doctests(name: str) -> None:
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failed == 0


@pytest.mark.parametrize("name", sorted(xjudge.__all__))
def test_every_public_function_has_an_example(name: str) -> None:
    public = getattr(xjudge, name)
    # Parts of a protocol are shown in the examples of Protocol, errors where they are raised.
    if callable(public) and not isinstance(public, type) and public.__module__ != "xjudge.protocol":
        assert ">>>" in (public.__doc__ or ""), f"xjudge.{name} shows no example"


# -------------------------------------------------------------------------------------------------- reference


@pytest.mark.parametrize("package", [xjudge, xjudge.statistics], ids=lambda package: package.__name__)
def test_the_reference_lists_every_public_name(package: ModuleType) -> None:
    listed = set(re.findall(r"^   ([\w.]+)$", API, flags=re.MULTILINE))
    public = {name for name in package.__all__ if callable(getattr(package, name))}
    assert public - listed == set()


# ----------------------------------------------------------------------------------------------------- README


def test_the_readme_has_two_commands() -> None:
    commands = [line for block in blocks(README, "bash") for line in block.splitlines()]
    assert len(commands) == 2
    assert commands[0].endswith("xjudge demo")
    assert "pytest" in commands[1]


def test_the_readme_runs_and_prints_what_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    shown = re.findall(r"^```(python|text)\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
    assert {"python", "text"} <= {kind for kind, _ in shown}
    names: dict[str, object] = {}
    printed = ""
    for kind, code in shown:
        if kind == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(code, "README.md", "exec"), names)
            printed = out.getvalue()
        else:
            assert printed.rstrip() == code.rstrip()


def run(*command: str) -> str:
    """Output of a command of this environment, warnings as errors; fails with what it wrote to stderr."""
    env = os.environ | {"PYTHONWARNINGS": "error"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_demo_command_of_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    command = blocks(README, "bash")[0].strip().split("&&")[-1].split()
    assert Path(command[0]).name == "xjudge"
    out = run(sys.executable, "-m", "xjudge", *command[1:])
    for rater in xjudge.load_example()["rater"].values.tolist():
        assert rater in out
    script = Path(sys.executable).with_name("xjudge")
    assert run(str(script), *command[1:]) == out


# --------------------------------------------------------------------------------------------------- examples


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 2


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_run(path: Path) -> None:
    assert run(sys.executable, str(path))

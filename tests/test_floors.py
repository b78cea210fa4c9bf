"""Imports go down only: every import of every room is read against one table.

A new room is declared here, in ``ROOMS``: nothing else in this file changes with it. A private room
(``_name``) that is not declared serves one room, the only one that imports it, and stands just below it.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

import xjudge

PACKAGE = Path(xjudge.__file__).parent

# -------------------------------------------------------------------------------------------------- the table


class Room(NamedTuple):
    """Where a module stands.

    Between rooms of different packages the ``floor`` decides, between rooms of one package the ``inner``
    floor: an import goes to a strictly lower one.
    """

    floor: float
    inner: float = 0


FRONT = 9  # the inner floor of a package's own __init__

ROOMS: dict[str, Room] = {
    "errors": Room(0),
    "codes": Room(0),
    "scale": Room(1),
    "statistics": Room(1, FRONT),
    "statistics._intervals": Room(1, -1),
    "statistics._fast": Room(1, -3),
    "statistics._kernels": Room(1, -2),
    "statistics._margins": Room(1, -2),
    "statistics._rows": Room(1, -1),
    "statistics._class_tables": Room(1, 1),
    "statistics._panel_classes": Room(1, 5),
    "statistics.weights": Room(1, 0),
    "statistics.counts": Room(1, 0),
    "statistics.units": Room(1, 1),
    "statistics._poisson_sums": Room(1, 2),
    "statistics._poisson_terms": Room(1, 4),
    "statistics._rater_codes": Room(1, 1),
    "statistics.resample": Room(1, 0),
    "statistics.identified": Room(1, 1),
    "statistics.coefficients": Room(1, 1),
    "statistics.gradients": Room(1, 2),
    "statistics.raters": Room(1, 3),
    "statistics.scores": Room(1, 2),
    "statistics.score_counts": Room(1, 3),
    "statistics.rater_counts": Room(1, 4),
    "statistics.bounds": Room(1, 4),
    "statistics.loo": Room(1, 4),
    "statistics.panel": Room(1, 4),
    "statistics._adjust_logistic": Room(1, 1),
    "statistics._adjust_coverage": Room(1, 2),
    "statistics.adjust": Room(1, 4),
    "statistics.selective": Room(1, 4),
    "statistics.answers": Room(1, 1),
    "statistics.shrinkage": Room(1, 1),
    "protocol": Room(2),
    "lazy": Room(2),
    "_lazy_frames": Room(2),
    "schema": Room(2),
    "_sparse": Room(2.4),
    "_arguments": Room(2.4),
    "view": Room(2.5),
    "_sampling_weights": Room(2.7),
    "_layouts": Room(3),
    "build": Room(3),
    "outcomes": Room(3),
    "columns": Room(3),
    "simulation": Room(4),
    "labelled": Room(4, FRONT),
    "labelled._common": Room(4, 0),
    "labelled._sampling": Room(4, 1),
    "labelled._sides": Room(4, 1),
    "labelled._labels": Room(4, 2),
    "labelled._results": Room(4, 2),
    "labelled._ends": Room(4, 2),
    "labelled._level": Room(4, 1),
    "labelled._pass": Room(4, 3),
    "labelled._estimate": Room(4, 3),
    "labelled._together": Room(4, 3.5),
    "labelled._intervals": Room(4, 4),
    "labelled._numbers": Room(4, 4),
    "labelled._evaluation": Room(4, 5),
    "labelled._loo_pass": Room(4, 5),
    "labelled._panel_human": Room(4, 4),
    "labelled._panel_pass": Room(4, 5),
    "labelled._panel_resample": Room(4, 5.5),
    "labelled.dependence": Room(4, 6),
    "labelled.geometry": Room(4, 6),
    "labelled.planning": Room(4, 6),
    "labelled.agreement": Room(4, 6),
    "labelled._rater_measures": Room(4, 5),
    "labelled._bounds_columns": Room(4, 4),
    "labelled._bounds_ranges": Room(4, 5),
    "labelled.rater_ranges": Room(4, 6),
    "labelled.reliability": Room(4, 6),
    "labelled.compare": Room(4, 6),
    "labelled.ranking": Room(4, 6),
    "labelled.bounds": Room(4, 6),
    "labelled.adjust": Room(4, 6),
    "labelled.selective": Room(4, 6),
    "labelled.loo": Room(4, 6),
    "labelled.panel": Room(4, 6),
    "labelled.selection": Room(4, 6),
    "labelled.subpanels": Room(4, 6),
    "labelled.voting": Room(4, 6),
    "labelled.rivals": Room(4, 6),
    "labelled.disagreements": Room(4, 6),
    "labelled.spread": Room(4, 6),
    "labelled.stability": Room(4, 6),
    "labelled.crowds": Room(4, 6),
    "labelled.slices": Room(4, 6),
    "rebuilding": Room(5),
    "gate": Room(5),
    "io": Room(5, FRONT),
    "plot": Room(5),
    "reporting": Room(6, FRONT),
    "accessor": Room(7),
    "cli": Room(7),
    "testing": Room(7),
    "": Room(8),  # xjudge/__init__.py, the front door
    "__main__": Room(9),
}

# Which rooms may import a third-party package, beside numpy, pandas and xarray. "*" is every room.
LENDERS: dict[str, tuple[str, ...]] = {
    "scipy": ("*",),
    "dask": ("lazy", "_lazy_frames"),
    "pandera": ("schema",),
    "numba": (
        "statistics._fast",
        "statistics._fast_classes",
        "statistics._loo_fast",
        "statistics._panel_fast",
    ),
    "llvmlite": ("statistics._fast",),
    "pyarrow": ("_ingest", "io"),
    "zarr": ("io",),
    "h5netcdf": ("io",),
    "matplotlib": ("plot",),
    "hypothesis": ("testing",),
}

# Rooms that import a package at their top, and so may themselves be imported only inside functions.
LOADED_APART: dict[str, tuple[str, ...]] = {
    "statistics._fast": ("numba", "llvmlite"),
    "statistics._fast_classes": ("numba",),
    "statistics._loo_fast": ("numba",),
    "statistics._panel_fast": ("numba",),
    "testing": ("hypothesis",),
}

# ------------------------------------------------------------------------------------------------ the checker


class Import(NamedTuple):
    """One import as it stands in a module: the dotted name, the line, and whether it waits for a call."""

    name: str
    line: int
    deferred: bool


def imports(source: str) -> Iterator[Import]:
    """Yield every import of a module: also inside functions, under TYPE_CHECKING, and ``import_module``."""
    pending: list[tuple[ast.AST, bool]] = [(ast.parse(source), False)]
    while pending:
        node, deferred = pending.pop()
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, node.lineno, deferred) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            yield from (Import(f"{base}.{alias.name}", node.lineno, deferred) for alias in node.names)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = ast.unparse(node.func)
            if called in ("importlib.import_module", "import_module", "__import__"):
                yield Import(str(node.args[0].value), node.lineno, deferred)
        inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        typing_only = isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        pending += [(child, deferred or inside or typing_only) for child in ast.iter_child_nodes(node)]


def room_of(name: str, modules: Iterable[str]) -> str:
    """Return the module within xjudge that an import reaches; a name out of a module is that module."""
    room = name.partition(".")[2]
    while room and room not in modules:
        room = room.rpartition(".")[0]
    return room


def is_private(module: str) -> bool:
    """Whether a module is a private room that serves another one (those in ROOMS stand on their own)."""
    return module.rpartition(".")[2].startswith("_") and module not in ROOMS


def served(private: str, importers: Mapping[str, set[str]]) -> set[str]:
    """Rooms that import a private room, through other private rooms too."""
    found, pending, seen = set(), [private], {private}
    while pending:
        for importer in importers.get(pending.pop(), ()):
            if not is_private(importer):
                found.add(importer)
            elif importer not in seen:
                seen.add(importer)
                pending.append(importer)
    return found


def may_import(here: str, there: str) -> bool:
    """Whether one room may import another, by the table."""
    if here.partition(".")[0] == there.partition(".")[0]:
        return ROOMS[there].inner < ROOMS[here].inner
    return ROOMS[there].floor < ROOMS[here].floor


def violations(sources: Mapping[str, str]) -> list[str]:
    """Every import that breaks the table, for modules given as ``{dotted name within xjudge: source}``."""
    undeclared = [module for module in sources if module not in ROOMS and not is_private(module)]
    found = [f"{module}: the room is not declared in ROOMS" for module in undeclared]
    read = {module: list(imports(source)) for module, source in sources.items() if module not in undeclared}
    importers: dict[str, set[str]] = {}
    for module, read_imports in read.items():
        for name, _, _ in read_imports:
            if name.partition(".")[0] == "xjudge":
                importers.setdefault(room_of(name, sources), set()).add(module)
    owners = {module: {module} if module in ROOMS else served(module, importers) for module in read}
    for module, owner in owners.items():
        package = module.rpartition(".")[0]
        if len(owner) != 1:
            names = ", ".join(sorted(room or "the front door" for room in owner)) or "no room"
            found.append(f"{module}: serves {names}, not one room")
        elif any(room.rpartition(".")[0] != package for room in owner):
            found.append(f"{module}: does not stand beside {', '.join(owner)}, which it serves")
    found += [f"{' and '.join(sorted(pair))} import each other" for pair in _circles(importers)]
    for module, read_imports in read.items():
        for name, line, deferred in read_imports:
            problem = _problem(module, name, deferred, owners, sources)
            if problem:
                found.append(f"{module}:{line}: {problem}")
    return found


def _circles(importers: Mapping[str, set[str]]) -> set[frozenset[str]]:
    """Pairs of private rooms each of which is reached from the other."""
    above: dict[str, set[str]] = {}
    for private in filter(is_private, importers):
        pending, seen = [private], set()
        while pending:
            new = {room for room in importers.get(pending.pop(), ()) if is_private(room)} - seen
            seen |= new
            pending += new
        above[private] = seen
    return {
        frozenset((a, b)) for a, rooms in above.items() for b in rooms if a != b and a in above.get(b, ())
    }


def _problem(
    module: str, name: str, deferred: bool, owners: Mapping[str, set[str]], sources: Mapping[str, str]
) -> str | None:
    top = name.partition(".")[0]
    if name.startswith("."):
        return f"relative import of {name}"
    if top == "xjudge":
        room = room_of(name, sources)
        if room not in owners:
            return None  # undeclared, and reported as such
        loads = LOADED_APART.get(room, ())[:1]  # unless who imports it is loaded apart with the same package
        if not deferred and not set(loads) <= set(LOADED_APART.get(module, ())):
            return f"imports {room} at its top, which loads {loads[0]}"
        if is_private(room):
            return None  # one room alone imports it, or that is reported
        allowed = all(may_import(owner, room) for owner in owners[module])
        return None if allowed else f"imports {room or 'the front door'}, which is not below it"
    if top in sys.stdlib_module_names or top == "numpy":
        return None
    in_statistics = module.partition(".")[0] == "statistics"
    if top in ("pandas", "xarray"):
        return f"statistics imports {top}" if in_statistics else None
    lenders = LENDERS.get(top, ())
    if "*" not in lenders and not any(module == room or module.startswith(f"{room}.") for room in lenders):
        return f"imports {top}, which {'only ' + ', '.join(lenders) if lenders else 'no room'} may"
    if not deferred and top not in LOADED_APART.get(module, ()):
        return f"imports {top} at its top, not inside a function"
    return None


def read_package() -> dict[str, str]:
    """Return the sources of xjudge by dotted name within it."""
    sources = {}
    for path in PACKAGE.rglob("*.py"):
        parts = list(path.relative_to(PACKAGE).with_suffix("").parts)
        if parts[-1] == "__init__":
            parts.pop()
        sources[".".join(parts)] = path.read_text(encoding="utf-8")
    return sources


def test_every_import_goes_down() -> None:
    sources = read_package()
    assert {"", "errors", "statistics.counts", "lazy"} <= set(sources)
    found = violations(sources)
    assert not found, "\n".join(found)


# ----------------------------------------------------------------------------- the checker catches violations

HOUSE = dict.fromkeys(ROOMS, "") | {
    "build": "from xjudge._ids import f",
    "_ids": "from xjudge._ingest import f",
    "_ingest": "",
    "statistics.counts": "from xjudge.statistics._tables import f",
    "statistics._tables": "",
    "statistics.panel": "from xjudge.statistics._panel_enumerate import f",
    "statistics._panel_enumerate": "def f():\n    from xjudge.statistics._panel_fast import g",
    "statistics._panel_fast": "import numba",
}


def house(module: str, source: str) -> dict[str, str]:
    """The house with something more in one room."""
    return {**HOUSE, module: f"{source}\n{HOUSE.get(module, '')}"}


def test_the_house_stands() -> None:
    assert violations(HOUSE) == []


@pytest.mark.parametrize(
    ("module", "source", "message"),
    [
        ("scale", "import xjudge.protocol", "imports protocol, which is not below"),
        ("scale", "from xjudge import protocol", "imports protocol, which is not below"),
        ("scale", "from xjudge.protocol import Protocol", "imports protocol, which is not below"),
        ("scale", "def f():\n    from xjudge.build import from_long", "scale:2: imports build"),
        ("scale", "class A:\n    def f(self):\n        import xjudge.build", "scale:3: imports build"),
        ("scale", "if TYPE_CHECKING:\n    from xjudge.build import x", "imports build"),
        ("scale", "try:\n    import xjudge.build\nexcept ImportError:\n    pass", "imports build"),
        ("scale", "import importlib\nimportlib.import_module('xjudge.build')", "scale:2: imports build"),
        ("scale", "from .protocol import Protocol", "relative import"),
        ("scale", "from . import protocol", "relative import"),
        ("build", "from xjudge.outcomes import mask", "imports outcomes, which is not below"),
        ("errors", "from xjudge.codes import CA", "imports codes, which is not below"),
        ("labelled.agreement", "from xjudge.labelled.compare import x", "imports labelled.compare"),
        ("labelled._common", "from xjudge.labelled import agreement", "imports labelled.agreement"),
        ("labelled.agreement", "from xjudge.simulation import simulate", "imports simulation"),
        ("labelled.agreement", "from xjudge import simulate", "imports the front door"),
        ("accessor", "import xjudge", "imports the front door"),
        ("statistics.counts", "from xjudge.scale import Scale", "imports scale, which is not below"),
        ("statistics.bounds", "from xjudge.scale import Scale", "imports scale, which is not below"),
        ("statistics.counts", "from xjudge.statistics.coefficients import kappa", "imports statistics.coef"),
        ("statistics.loo", "from xjudge.statistics.bounds import sharp_bounds", "imports statistics.bounds"),
        ("statistics.loo", "from xjudge.statistics import kappa", "imports statistics, which is not below"),
        (
            "statistics.raters",
            "from xjudge.statistics._tables import f",
            "_tables: serves statistics.counts, st",
        ),
        ("outcomes", "from xjudge._ingest import read", "_ingest: serves build, outcomes, not one room"),
        ("_ingest", "from xjudge._ids import f", "_ids and _ingest import each other"),
        ("_attic", "", "_attic: serves no room"),
        ("statistics._tables", "import xjudge.statistics.counts", "imports statistics.counts"),
        ("statistics._tables", "import xjudge.statistics.coefficients", "imports statistics.coefficients"),
        ("_ingest", "from xjudge.outcomes import mask", "imports outcomes, which is not below"),
        ("statistics.counts", "import pandas as pd", "statistics imports pandas"),
        ("statistics.counts", "def f():\n    import xarray", "statistics imports xarray"),
        (
            "statistics.counts",
            "def f():\n    import dask.array",
            "imports dask, which only lazy, _lazy_frames may",
        ),
        ("statistics.counts", "from scipy import sparse", "imports scipy at its top"),
        (
            "outcomes",
            "def f():\n    import dask.array as da",
            "imports dask, which only lazy, _lazy_frames may",
        ),
        ("lazy", "import dask", "imports dask at its top"),
        ("build", "def f():\n    import pandera", "imports pandera, which only schema may"),
        ("build", "def f():\n    import sklearn", "imports sklearn, which no room may"),
        ("schema", "import pandera.pandas as pa", "imports pandera at its top"),
        ("statistics._panel_enumerate", "import numba", "imports numba, which only"),
        ("statistics._panel_enumerate", "from xjudge.statistics import _panel_fast", "which loads numba"),
        ("plot", "import matplotlib.pyplot", "imports matplotlib at its top"),
        ("cellar", "", "not declared in ROOMS"),
    ],
)
def test_a_violation_is_caught(module: str, source: str, message: str) -> None:
    found = violations(house(module, source))
    assert len(found) == 1
    assert message in found[0]


def test_a_private_room_stands_beside_the_room_it_serves() -> None:
    found = violations({**house("view", "from xjudge.labelled._own import f"), "labelled._own": ""})
    assert found == ["labelled._own: does not stand beside view, which it serves"]


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("protocol", "from xjudge.scale import Scale"),
        ("build", "from xjudge._ingest import read\nfrom xjudge import lazy, _ids"),
        ("_ingest", "from xjudge.schema import check\ndef f():\n    import pyarrow"),
        (
            "statistics.bounds",
            "from xjudge.statistics.coefficients import kappa\nfrom xjudge.codes import CA",
        ),
        ("statistics.counts", "import numpy as np\ndef f():\n    from scipy import sparse"),
        ("statistics.counts", "from xjudge.statistics._tables import pair_tables"),
        ("statistics", "from xjudge.statistics.bounds import sharp_bounds"),
        (
            "labelled.agreement",
            "from xjudge.labelled._common import tidy\nfrom xjudge.statistics import kappa",
        ),
        ("lazy", "def f():\n    import dask.array as da"),
        ("schema", "def f():\n    import pandera.pandas as pa"),
        ("statistics._panel_fast", "import numba"),
        ("statistics._panel_enumerate", "def f():\n    from xjudge.statistics._panel_fast import x"),
        ("io.label_studio", "def f():\n    import pyarrow"),
        ("", "from xjudge.accessor import x\nfrom xjudge import statistics"),
        ("__main__", "from xjudge.cli import main"),
    ],
)
def test_what_the_house_allows_is_not_caught(
    module: str, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ROOMS, "io.label_studio", Room(5, 1))
    assert violations(house(module, source)) == []


# ------------------------------------------------------------------------------ no function hides a submodule


def hidden_submodules(package: ModuleType, submodules: set[str]) -> list[str]:
    """Public names of a package that are submodules of it and yet something else."""
    names = set(getattr(package, "__all__", ())) | {n for n in vars(package) if not n.startswith("_")}
    return sorted(
        name
        for name in names & submodules
        if not (isinstance(vars(package).get(name), ModuleType) or name not in vars(package))
    )


def packages() -> Iterator[ModuleType]:
    yield xjudge
    for found in pkgutil.walk_packages(xjudge.__path__, "xjudge."):
        if found.ispkg:
            yield importlib.import_module(found.name)


def test_no_public_name_is_that_of_a_submodule() -> None:
    seen = 0
    for package in packages():
        submodules = {found.name for found in pkgutil.iter_modules(package.__path__)}
        seen += len(submodules)
        assert hidden_submodules(package, submodules) == [], package.__name__
        declared = set(getattr(package, "__all__", ()))
        functions = {name for name in declared if callable(getattr(package, name))}
        assert functions & submodules == set(), package.__name__
    assert seen > 10


def test_a_hidden_submodule_is_caught() -> None:
    package = ModuleType("package")
    vars(package).update(rebuild=lambda: None, scale=ModuleType("package.scale"))
    assert hidden_submodules(package, {"rebuild", "scale", "codes"}) == ["rebuild"]


def test_labelled_exports_nothing() -> None:
    labelled = importlib.import_module("xjudge.labelled")
    public = {name for name, value in vars(labelled).items() if callable(value) and not name.startswith("_")}
    assert public == set()

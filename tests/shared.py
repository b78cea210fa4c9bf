"""Where the shared oracles, cases and labels lie; tests that need them skip where they are absent."""

import json
from pathlib import Path
from typing import Any

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"

needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="../shared is absent")


def oracle(name: str) -> Any:
    """Parsed content of ``oracles/<name>.json``."""
    return json.loads((SHARED / "oracles" / f"{name}.json").read_text())

"""``import xjudge`` is light: what it loads beyond ``import xarray, pandas`` is itself and little else."""

import json
import subprocess
import sys

LISTING = """
import json, sys
import xarray, pandas
before = set(sys.modules)
import xjudge
print(json.dumps(sorted(set(sys.modules) - before)))
"""

# Never at import, whatever else is installed: each costs more than all of xjudge.
HEAVY = {
    "pandera",
    "dask",
    "scipy",
    "matplotlib",
    "numba",
    "pyarrow",
    "polars",
    "zarr",
    "h5netcdf",
    "sklearn",
}


def loaded_beyond(code: str = LISTING) -> list[str]:
    """Names of modules, as a fresh interpreter lists them."""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names: list[str] = json.loads(run.stdout)
    return names


def test_import_loads_nothing_but_xjudge_and_the_standard_library() -> None:
    loaded = loaded_beyond()
    assert "xjudge" in loaded
    tops = {name.partition(".")[0] for name in loaded}
    assert tops & HEAVY == set()
    foreign = tops - {"xjudge"} - set(sys.stdlib_module_names)
    assert foreign == set(), f"import xjudge also loads {sorted(foreign)}"


def test_the_listing_sees_a_heavy_import() -> None:
    loaded = loaded_beyond(LISTING.replace("import xjudge", "import xjudge, scipy.sparse"))
    assert "scipy.sparse" in loaded

"""uv and the locks take one torch."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_uv_overrides_torch_by_that_of_the_locks():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (override,) = project["tool"]["uv"]["override-dependencies"]
    for lock in ("cpu", "cuda"):
        pins = re.findall(r"^torch==[\d.]+", (ROOT / f"requirements/{lock}.lock").read_text(), re.M)
        assert pins == [override]

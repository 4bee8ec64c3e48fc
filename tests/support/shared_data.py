"""Public data files that may lie beside the repository; tests skip where they do not."""

import json
from pathlib import Path
from typing import Any

import pytest

_DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


def data_file(name: str) -> Path:
    path = _DATA / name
    if not path.exists():
        pytest.skip(f"no development data at {path}")
    return path


def data_rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data_file(name).read_text().strip().split("\n")]

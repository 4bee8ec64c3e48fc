"""Installation: one torch for uv and the locks, and a wheel that needs no source."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_uv_overrides_torch_by_that_of_the_locks():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (override,) = project["tool"]["uv"]["override-dependencies"]
    for lock in ("cpu", "cuda"):
        pins = re.findall(r"^torch==[\d.]+", (ROOT / f"requirements/{lock}.lock").read_text(), re.M)
        assert pins == [override]


def test_a_wheel_has_all_that_the_commands_read(tmp_path):
    source, away = tmp_path / "source", tmp_path / "away"
    for name in ("vineppo", "analysis", "configs"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", source)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--no-index", "--wheel-dir", tmp_path, source], check=True)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        wheel.extractall(away)
    files = [
        {p.relative_to(root) for p in root.rglob("*") if p.is_file() and p.suffix != ".ipynb"}
        for root in (away, source)
    ]
    found, wanted = ({p for p in x if p.parts[0] in ("vineppo", "analysis")} for x in files)
    shipped = {path.relative_to(source) for path in source.glob("configs/**/*.*sonnet")}
    assert len(shipped) > 20
    assert found == wanted | {"vineppo" / path for path in shipped}
    (entry,) = away.glob("vineppo-*.dist-info/entry_points.txt")
    assert "vineppo = vineppo.cli:main" in entry.read_text()
    (tmp_path / "mine.jsonnet").write_text("(import 'demo_ppo.jsonnet') + { name: 'mine' }")
    code = "from vineppo.cli import main; main(['train', 'mine.jsonnet', '--dry-run'])"
    for command in (["-c", f"{code}; print(main.__code__)"], ["-m", "analysis", "--help"]):
        found = {"cwd": tmp_path, "env": {**os.environ, "PYTHONPATH": str(away)}}
        said = subprocess.check_output([sys.executable, *command], text=True, **found)
        assert f"{away}/vineppo/" in said or "value-accuracy" in said

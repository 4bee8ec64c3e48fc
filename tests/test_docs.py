"""The pages of the documentation: their links lead somewhere, the index's commands run."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import _jsonnet
import pytest

ROOT = Path(__file__).parents[1]
PATTERNS = ("*.md", "docs/*.md", "experiments/*/README.md", "vineppo/assets/README.md")
PAGES = sorted(page for pattern in PATTERNS for page in ROOT.glob(pattern))
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_COMMAND = re.compile(r"\| `([^`|]+)` \|$", re.MULTILINE)
INDEX = (ROOT / "docs/README.md").read_text()


def anchors(page: Path) -> set[str]:
    """Of the headings, as they are made on the web: lower case, no punctuation, hyphens."""
    prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "", title).lower()).replace(" ", "-")
        for title in titles
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    lost = []
    for target in _LINK.findall(_CODE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            lost.append(target)
    assert lost == []


def test_the_index_has_every_page():
    named = {target.partition("#")[0] for target in _LINK.findall(INDEX)}
    assert {page.name for page in ROOT.glob("docs/*.md")} - {"README.md"} == named


@pytest.mark.parametrize("command", _COMMAND.findall(INDEX))
def test_the_commands_of_the_index_run(command):
    program, *arguments = shlex.split(command)
    if program == "make":
        plan = ["make", "--dry-run", *arguments]
        assert subprocess.run(plan, cwd=ROOT, capture_output=True, check=False).returncode == 0
        return
    if program == "vineppo":
        arguments = ["-m", "vineppo.cli", *arguments]
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(shutil.which("hadolint") is None, reason="hadolint is not on PATH")
def test_the_container_recipe_is_clean():
    done = subprocess.run(["hadolint", "Dockerfile"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_table_of_algorithms_has_every_piece_and_its_config():
    path = ROOT / "configs/lib/algorithm.libsonnet"
    names = set(json.loads(_jsonnet.evaluate_snippet("", f"std.objectFields(import '{path}')")))
    page = (ROOT / "docs/baselines.md").read_text().partition("## Options")[0]
    pieces = re.findall(r"^\| `(\w+)`.*`(\w+)`[^|]*\|$", page, re.MULTILINE)
    of_values = {"yes_no", "generative", "learned"}
    assert {name for name, _ in pieces} == names - of_values - {"sft", "reward_model"}
    assert all((ROOT / f"configs/{config}.jsonnet").is_file() for _, config in pieces)

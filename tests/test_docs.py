"""The pages of the documentation: their links lead somewhere, the index's commands run."""

import argparse
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import _jsonnet
import pytest
from support.page import page_files

from analysis.__main__ import open_analysis
from benchmarks import harness
from vineppo.cli import build_parser, main
from vineppo.config.load import load_config
from vineppo.config.schema import SftConfig, TrainConfig
from vineppo.errors import UserError
from vineppo.tools.reward_model.config import RewardModelConfig

ROOT = Path(__file__).parents[1]
PATTERNS = ("*.md", "docs/*.md", "dev/*.md", "experiments/**/README.md", "benchmarks/README.md")
PATTERNS += ("vineppo/assets/README.md",)
PAGES = sorted(page for pattern in PATTERNS for page in ROOT.glob(pattern))
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_LEAF = re.compile(r"import '(\w+\.jsonnet)'")


def anchors(page: Path) -> set[str]:
    """The headings' anchors, as on the web: lower case, no punctuation, hyphens."""
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


def test_the_readme_links_every_page():
    linked = _LINK.findall((ROOT / "README.md").read_text())
    assert {f"docs/{page.name}" for page in ROOT.glob("docs/*.md")} <= set(linked)


@pytest.mark.slow
def test_the_program_of_continuations_tells_right_from_wrong(tmp_path):
    text = (ROOT / "docs/continuations.md").read_text()
    (program,) = re.findall(r"^```python\n(# continuations\.py\n.*?)^```", text, re.M | re.S)
    (tmp_path / "continuations.py").write_text(program)
    command = [sys.executable, str(tmp_path / "continuations.py")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    values = dict(re.findall(r"^V\((\w+)\) = ([\d.]+)$", done.stdout, re.M))
    assert float(values["wrong"]) < 0.3 < 0.7 < min(float(values[s]) for s in ("start", "right"))


def test_the_table_of_algorithms_has_every_piece_and_its_config():
    path = ROOT / "configs/lib/algorithm.libsonnet"
    names = set(json.loads(_jsonnet.evaluate_snippet("", f"std.objectFields(import '{path}')")))
    page = (ROOT / "docs/methods.md").read_text().partition("## Why bias")[0]
    pieces = re.findall(r"^\| `(\w+)`.*`([\w/]+)`[^|]*\|$", page, re.MULTILINE)
    of_values = {"yes_no", "generative", "learned"}
    assert {name for name, _ in pieces} == names - of_values - {"sft", "reward_model"}
    for name, config in pieces:
        if name not in ("reinforce_plus_plus_baseline", "remax"):  # "with this piece"
            folder = "" if config.startswith("experiments/") else "configs"
            path = ROOT / folder / f"{config}.jsonnet"
            texts = [path.read_text()]
            texts += [(path.parent / leaf).read_text() for leaf in _LEAF.findall(texts[0])]
            assert any(re.search(rf"algorithm\.{name}\b", text) for text in texts), (name, config)


CONFIGS_OF_PAGES = {
    f"{page.name} {name}": (name, page)
    for page in (ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")))
    for name in page_files(page)
    if name.startswith("configs/")
}


@pytest.mark.parametrize("block", CONFIGS_OF_PAGES)
def test_a_config_of_a_page_loads(block, tmp_path, monkeypatch):
    name, page = CONFIGS_OF_PAGES[block]
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    for other, text in page_files(page).items():  # a config may import another of its page
        if other.startswith("configs/"):
            (tmp_path / other).write_text(text)
    monkeypatch.chdir(tmp_path)
    assert load_config(TrainConfig, name, []).name == Path(name).stem


COMMANDED = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]
MAIN_CONFIGS = {"train": TrainConfig, "sft": SftConfig, "reward-model": RewardModelConfig}


def commands(page: Path) -> Iterator[list[str]]:
    """The words of each command line in a page's blocks of shell, without what launches it.

    "torchrun --nnodes 2 -m vineppo.cli train …  # all" is `["vineppo", "train", "…"]`.
    """
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(), re.M | re.S):
        if language in ("", "bash"):
            for line in re.sub(r"\s*\\\n\s*", " ", block).splitlines():
                line = re.sub(r"^(torchrun|deepspeed|srun) .* vineppo\.cli", "vineppo", line)
                if re.match(r"(\.venv/bin/)?(vineppo|python|make) ", line):
                    line = re.sub(r"[\[\]]", "", line.replace("[options]", ""))
                    program, *words = shlex.split(line, comments=True)
                    yield [program.rpartition("/")[2], *("1" if w == "N" else w for w in words)]


def fault(page: Path, program: str, words: list[str]) -> str | None:
    """The part of a command that is not there: option, config, key, file or target."""
    files = [word for word in words if word.startswith(("configs/", "experiments/"))]
    lost = [file for file in files if not re.search("mine|NN", file) and not any(ROOT.glob(file))]
    if lost:
        return f"no file {lost[0]}"
    try:
        if program == "make":
            targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
            return None if {w for w in words if "=" not in w} <= set(targets) else "no such target"
        if program == "vineppo":
            return fault_of_keys(build_parser().parse_args(words))
        if words[:2] == ["-m", "analysis"]:
            name = "report" if words[2] == "NAME" else words[2]
            open_analysis(name)[1].parse_args(words[3:])
        elif words[0] == "-m" and words[1].startswith("benchmarks."):
            name = words[1].partition(".")[2]
            if name != "NAME" and not (ROOT / f"benchmarks/{name}.py").is_file():
                return f"no benchmark {name}"
            harness.build_parser(name, "").parse_args(words[2:])
        elif words[0] == "-m":
            return None if find_spec(words[1]) else f"no module {words[1]}"
        elif not (ROOT / words[0]).is_file():
            return None if f"# {words[0]}\n" in page.read_text() else f"no file {words[0]}"
    except (SystemExit, KeyError, ModuleNotFoundError, UserError) as error:
        return f"does not parse: {error}"
    return None


def fault_of_keys(options: argparse.Namespace) -> str | None:
    """The fault of a config or of a key of `--set`; the demo's stands in for a missing config."""
    config = getattr(options, "config", "")
    is_there = (ROOT / config).is_file()
    path = ROOT / (config if is_there else "configs/demo_vineppo.jsonnet")
    left_out = ("key=", *(["task."] if getattr(options, "tasks", []) else []))  # of another task
    keys = [a for a in getattr(options, "assignments", []) if not a.startswith(left_out)]
    try:
        if keys or is_there:
            load_config(MAIN_CONFIGS.get(options.command, TrainConfig), str(path), keys)
    except UserError as error:
        return str(error)
    return None


def test_the_commands_of_the_pages_are_there():
    found = [(page, command) for page in COMMANDED for command in commands(page)]
    assert len(found) > 60
    faults = {
        f"{page.name}: {shlex.join(command)}": fault(page, command[0], command[1:])
        for page, command in found
    }
    assert {line: why for line, why in faults.items() if why} == {}


def is_short(words: list[str]) -> bool:
    """It ends in seconds, and its config is there."""
    files = [word for word in words if word.endswith(".jsonnet")]
    is_there = all((ROOT / file).is_file() for file in files)
    return is_there and bool(
        {"--dry-run", "--list", "doctor", "configs/demo_ppo.jsonnet"} & {*words}
    )


SHORT = {
    shlex.join(words): words
    for page in COMMANDED
    for program, *words in commands(page)
    if program == "vineppo" and is_short(words)
}


@pytest.mark.parametrize("line", SHORT)
def test_a_short_command_of_a_page_runs(line, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert main(SHORT[line]) == 0


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("vineppo train configs/demo_vineppo.jsonnet --dry-run", None),
        ("vineppo train configs/demo_vineppo.jsonnet --quick", "does not parse"),
        ("vineppo train configs/demo_vinepo.jsonnet", "no file configs/demo_vinepo"),
        ("vineppo train configs/demo_vineppo.jsonnet --set sampling.top=1", "sampling.top"),
        ("vineppo evaluate runs/mine --set evaluation.temperature=cold", "evaluation.temperature"),
        ("python -m analysis report runs/mine --of 3", "does not parse"),
        ("python -m analysis reports runs/mine", "does not parse"),
        ("python -m benchmarks.NAME --fast", "does not parse"),
        ("python -m benchmarks.trl_gpo", "no benchmark trl_gpo"),
        ("python -m benchmark.trl_grpo", "No module named 'benchmark'"),
        ("python -m analisys report runs/mine", "no module analisys"),
        ("python requirements/look.py", "no file requirements/look.py"),
        ("make tests", "no such target"),
    ],
)
def test_a_command_that_is_not_there_is_found(line, why):
    program, *words = shlex.split(line)
    found = fault(ROOT / "README.md", program, words)
    assert (found is None) if why is None else (why in (found or ""))

"""Imports go one way: recipes and tools, then the core's layers from the entry points down."""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from vineppo.plugins import CORE as CORE_KINDS

ROOT = Path(__file__).parents[1]
PACKAGES = "vineppo", "analysis", "benchmarks"
# From the top down; a module imports from its own layer and those below.
LAYERS = [
    ["cli", "run_command", "train"],
    ["session", "evaluate", "checkpoint", "experience", "update"],
    ["values"],
    ["rollouts", "encoding", "policy"],
    ["engine", "models", "token_scores"],
    ["tasks", "credit", "segment", "run_dir", "progress", "metrics"],
    ["config", "user_reward", "distributed", "parent_death", "batching"],
    ["losses"],
    ["types", "errors", "schema", "require", "plugins"],
]
LEVELS = {module: level for level, layer in enumerate(LAYERS) for module in layer}
# Interfaces and keys of packages, which belong to the types.
TYPES = {"vineppo.config.require"}
TYPES |= {f"vineppo.{name}" for name in ("credit", "engine", "segment", "tasks")}


def imports(file: Path) -> Iterator[str]:
    """The modules of vineppo that `file` imports, without those for the type checker alone."""

    def nodes(tree: ast.AST) -> Iterator[ast.AST]:
        for node in ast.iter_child_nodes(tree):
            if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
                yield node
                yield from nodes(node)

    for node in nodes(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("vineppo"):
            if node.module == "vineppo":
                yield from (f"vineppo.{alias.name}" for alias in node.names)
            else:
                yield node.module or ""
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("vineppo."))


def name_of(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


FILES = {name_of(file): file for file in sorted((ROOT / "vineppo").rglob("*.py"))}
CORE = [name for name in FILES if not name.startswith(("vineppo.recipes", "vineppo.tools"))]


@pytest.mark.parametrize("name", CORE)
def test_the_core_imports_neither_recipes_nor_tools(name):
    if name == "vineppo.cli":  # the entry of all commands, each imported when it is called
        return
    outside = ("vineppo.recipes", "vineppo.tools")
    assert [there for there in imports(FILES[name]) if there.startswith(outside)] == []


def test_vllm_is_imported_in_engine_alone():
    """A run on another engine needs none. The recipes are engines of vLLM."""
    allowed = ("vineppo/engine/", "vineppo/recipes/vllm_sharded_worker.py")
    found = [
        str(file.relative_to(ROOT))
        for file in FILES.values()
        if re.search(r"^\s*(from|import) vllm\b", file.read_text(), re.M)
    ]
    assert [path for path in found if not path.startswith(allowed)] == []


def test_recipes_import_what_the_page_on_extending_names():
    page = (ROOT / "docs/extending.md").read_text()
    public = set(
        re.findall(r"`(vineppo(?:\.\w+)+)`", page.partition("## What a plug-in may import")[2])
    )
    recipes = [name for name in FILES if name.startswith("vineppo.recipes.")]
    found = {
        f"{name}: {there}"
        for name in recipes
        for there in imports(FILES[name])
        if there not in public and there not in FILES.keys() & set(recipes)
    }
    assert found == set()


def test_the_analysis_names_no_kind_by_its_class():
    """What it must know of a plug-in, the plug-in declares; what it builds, the loader finds."""
    kinds = {place.partition(":")[2] for table in CORE_KINDS.values() for place in table.values()}
    kinds |= {"MonteCarloValues", "SeparateCritic"}  # their keys
    found = {
        f"{name_of(file)}: {there}"
        for file in (ROOT / "analysis").rglob("*.py")
        for there in [
            *(there for there in imports(file) if there.startswith("vineppo.recipes")),
            *kinds.intersection(re.findall(r"\w+", file.read_text())),
        ]
    }
    assert found == set()


def level(module: str) -> int:
    if module in TYPES or module.startswith("vineppo.config.schema"):
        return len(LAYERS) - 1
    return LEVELS[module.split(".")[1]]


@pytest.mark.parametrize(
    "name", [name for name in CORE if name not in {"vineppo", "vineppo.cli", *TYPES}]
)
def test_imports_go_down(name):
    up = [t for t in imports(FILES[name]) if t in CORE and level(t) < level(name)]
    assert up == []


def test_an_iteration_passes_few_files_and_none_is_long():
    """The page names them; what they are is not traced here."""
    page = (ROOT / "docs/architecture.md").read_text()
    table = page.partition("## An iteration")[2].partition("## Decisions")[0]
    passed = re.findall(r"`([\w/]+)`", "".join(re.findall(r"^\|.*", table, re.M)))
    assert len(set(passed)) == len(passed) <= 25
    assert [path for path in passed if not (ROOT / f"vineppo/{path}.py").is_file()] == []
    assert [name for name in CORE if len(FILES[name].read_text().splitlines()) > 450] == []


SCRIPTS = sorted((ROOT / "experiments").rglob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_scripts_of_experiments_import_what_exists(script):
    """Their runs are too long for tests: every name, and every attribute of a module, is there."""
    tree, modules = ast.parse(script.read_text()), {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGES):
            module = importlib.import_module(node.module)
            for alias in node.names:
                if not hasattr(module, alias.name):
                    importlib.import_module(f"{node.module}.{alias.name}")
                found = getattr(module, alias.name)
                if isinstance(found, ModuleType):
                    modules[alias.asname or alias.name] = found
    missing = [
        f"{node.value.id}.{node.attr}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in modules
        and not hasattr(modules[node.value.id], node.attr)
    ]
    assert missing == []

"""`make size` prints how large each part of the project is, and its longest functions."""

import ast
from collections.abc import Iterator
from dataclasses import is_dataclass
from importlib import import_module
from inspect import get_annotations
from pathlib import Path
from pkgutil import iter_modules
from signal import SIG_DFL, SIGPIPE, signal

from vineppo.config import schema
from vineppo.plugins import KINDS, config_class

ROOT = Path(__file__).parents[1]
# Name, folder, its folders that another part counts, suffixes.
PARTS = (
    ("core", "vineppo", ("recipes", "tools"), "*.py"),
    ("recipes", "vineppo/recipes", (), "*.py"),
    ("tools", "vineppo/tools", (), "*.py"),
    ("analysis", "analysis", (), "*.py"),
    ("tests", "tests", (), "*.py"),
    ("benchmarks", "benchmarks", (), "*.py"),
    ("configs", "configs", (), "*sonnet"),
)


def files(folder: str, without: tuple[str, ...], pattern: str) -> list[Path]:
    top = ROOT / folder
    return [p for p in sorted(top.rglob(pattern)) if p.relative_to(top).parts[0] not in without]


def num_lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def num_fields() -> int:
    """Keys of the core's config; tables that inherit a key share it."""
    modules = [import_module(f"{schema.__name__}.{m.name}") for m in iter_modules(schema.__path__)]
    plugins = [config_class(role, kind) for role in KINDS for kind in KINDS[role]]
    tables = [table for module in modules for table in vars(module).values()] + plugins
    owned = {
        (table, name)
        for top in tables
        if is_dataclass(top) and isinstance(top, type)
        for table in top.__mro__
        if not table.__module__.startswith("vineppo.recipes")
        for name, kind in get_annotations(table).items()
        if "ClassVar" not in str(kind)
    }
    return len(owned)


def functions(path: Path) -> Iterator[tuple[int, str]]:
    """(lines, file:name) of every function."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield node.end_lineno - node.lineno + 1, f"{path.relative_to(ROOT)}:{node.name}"


def main() -> None:
    signal(SIGPIPE, SIG_DFL)  # `make size | head` ends quietly
    print(f"{'part':12}{'lines':>8}{'files':>8}")
    for name, folder, without, pattern in PARTS:
        found = files(folder, without, pattern)
        print(f"{name:12}{sum(map(num_lines, found)):8,}{len(found):8,}")
    print(f"\nfields of the core's config: {num_fields()}")
    print("\nlongest functions of vineppo/ and analysis/")
    code = [*files("vineppo", (), "*.py"), *files("analysis", (), "*.py")]
    longest = sorted((f for path in code for f in functions(path)), reverse=True)[:10]
    for lines, where in longest:
        print(f"{lines:5}  {where}")


if __name__ == "__main__":
    main()

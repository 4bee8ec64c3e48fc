"""What a config names in a user's own files: a task, estimator or predictor."""

import hashlib
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from vineppo.errors import UserError


@dataclass(frozen=True)
class OwnFunction:
    """The function `name` of the Python file at `path`, loaded at its first call in a process.

    It can be pickled, and so be sent to a worker, though its file is no module of a package.
    `OwnFunction("my_mask.py", "trains")(rollout)` calls `trains(rollout)`.
    """

    path: str
    name: str

    def __call__(self, *args: Any) -> Any:
        return self.load()(*args)

    def load(self) -> Callable[..., Any]:
        """Raises `UserError` for a file that cannot be run, or has no such function."""
        attribute = getattr(load_module(self.path), self.name, None)
        if not callable(attribute):
            raise UserError(f"{self.path}: no function {self.name}")
        function: Callable[..., Any] = attribute
        return function


@dataclass(frozen=True)
class OwnEnvironment:
    """The class `Environment` of the file at `path`, with methods `reset` and `step`."""

    path: str

    def load(self) -> Callable[..., Any]:
        """Raises `UserError` for a file that cannot be run, or has no such class."""
        found = getattr(load_module(self.path), "Environment", None)
        has = [callable(getattr(found, name, None)) for name in ("reset", "step")]
        if not isinstance(found, type) or not all(has):
            raise UserError(f"{self.path}: no class Environment with methods reset and step")
        return found


def digest(path: str) -> str:
    """The SHA-256 of the file at `path` in hexadecimal: what it imports is not in it."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None


def load_module(path: str) -> ModuleType:
    """Run once a process, under a name of its own in `sys.modules`."""
    file = Path(path).resolve()
    name = f"vineppo.own_code:{file}"
    if name in sys.modules:
        return sys.modules[name]
    if not file.is_file():
        raise UserError(f"{path}: no such file")
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise UserError(f"{path}: must be a Python file (.py)")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses of the file look their module up
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        reason = (str(error).strip().splitlines() or [""])[0]
        raise UserError(f"{path}: {type(error).__name__}: {reason}") from error
    return module

"""Plug-ins: what `kind` names in a config, whether the core, a recipe or a user's file holds it.

    'vine'                          a short name of the core or of a recipe
    'mine/siblings.py:Siblings'     a class in a Python file
    'my_package.credit:Siblings'    a class in a module

All three are loaded here, by the same code. A plug-in's keys are the fields of a frozen dataclass:
the class itself where it has no state, else its nested `Config`.
"""

import hashlib
import importlib
import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, is_dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import GetCoreSchemaHandler, TypeAdapter
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from vineppo.errors import UserError

# The core's short names of each role: module:Class.
CORE: dict[str, dict[str, str]] = {
    "task": {
        "gsm8k": "vineppo.tasks.published:Gsm8kTask",
        "math": "vineppo.tasks.published:MathTask",
    },
    "credit": {
        "vine": "vineppo.credit.vine:VineCredit",
        "gae": "vineppo.credit.gae:GaeCredit",
        "grpo": "vineppo.credit.groups:GrpoCredit",
        "rloo": "vineppo.credit.groups:RlooCredit",
    },
    "engine": {"vllm": "vineppo.engine.vllm_config:VllmConfig"},
    "segmenter": {
        "lines": "vineppo.segment:LinesSegmenter",
        "math": "vineppo.segment.math:MathSegmenter",
        "tokens": "vineppo.segment:TokensSegmenter",
        "turns": "vineppo.segment:TurnsSegmenter",
    },
    "values": {
        "monte_carlo": "vineppo.values.sampled:MonteCarlo",
        "group_mean": "vineppo.values.group_mean:GroupMean",
        "separate": "vineppo.values.separate:SeparateValueModel",
    },
}
# The class that the plug-ins of a role derive from.
BASES: dict[str, str] = {
    "task": "vineppo.config.schema:Task",
    "environment": "vineppo.tasks.environments:Environment",
    "reward_form": "vineppo.user_reward:RewardForm",
    "scorer": "vineppo.config.schema:ScorerConfig",
    "fine_tuning": "vineppo.config.schema:FineTuning",
    "adapters": "vineppo.config.schema:Adapters",
    "credit": "vineppo.credit:Credit",
    "engine": "vineppo.config.schema.engine:EngineConfig",
    "segmenter": "vineppo.segment:Segmenter",
    "values": "vineppo.values:ValuePredictor",
    "states": "vineppo.config.schema.values:States",
}
# All short names; the package of the recipes lists theirs and imports none.
RECIPES = importlib.import_module("vineppo.recipes")
KINDS = {role: CORE.get(role, {}) | RECIPES.KINDS.get(role, {}) for role in BASES}


@dataclass(frozen=True)
class PluginConfig:
    """The keys of a plug-in's table."""

    kind: str

    def check(self, key: str, config: Any) -> None:
        """Raises `UserError` if the plug-in at the dotted `key` does not fit the whole config."""


@dataclass(frozen=True)
class Plugin:
    """Annotates a config's field: `Annotated[Base, Plugin("role")]` holds a plug-in's keys."""

    role: str

    def __get_pydantic_core_schema__(self, _: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.parse)

    def parse(self, table: Any) -> Any:
        """The validated keys of `table`; its `kind` names the plug-in."""
        if not isinstance(table, dict):
            raise PydanticCustomError("dataclass_type", "Input should be a table of keys")
        if not isinstance(kind := table.get("kind"), str):
            raise PydanticCustomError("union_tag_not_found", "must name a kind")
        if ":" not in kind and kind not in KINDS[self.role]:
            names = ", ".join(f"'{name}'" for name in KINDS[self.role])
            raise PydanticCustomError(
                "union_tag_invalid",
                "kind must be one of {expected_tags}, got '{tag}'",
                {"tag": kind, "expected_tags": f"{names}, or 'FILE.py:Class'"},
            )
        return validated(config_class(self.role, kind), table)


def config_class(role: str, kind: str) -> Any:
    plugin = find(role, kind)
    return getattr(plugin, "Config", plugin)


@cache
def find(role: str, kind: str) -> type[Any]:
    """The class that `kind` names for `role`, for example `find("credit", "vine")`."""
    where, _, name = KINDS[role].get(kind, kind).rpartition(":")
    plugin, base = getattr(load_module(where), name, None), BASES[role]
    in_module, _, base_name = base.partition(":")
    needed = getattr(importlib.import_module(in_module), base_name)
    if not isinstance(plugin, type) or not issubclass(plugin, needed):
        raise UserError(f"{where}: no class {name} derived from {base.replace(':', '.')}")
    return plugin


def load_module(where: str) -> ModuleType:
    """The Python file or the module that `where` names, as "mine/mask.py" or "my_package.mask"."""
    try:
        return load_file(where) if where.endswith(".py") else importlib.import_module(where)
    except (ImportError, TypeError) as error:  # TypeError: of a name that begins with a dot
        raise UserError(f"{where}: {error}") from error


def load_file(path: str) -> ModuleType:
    """The Python file at `path` as a module, run once a process."""
    file = Path(path).resolve()
    name = f"vineppo.plugins:{file}"
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


def load_function(path: str, name: str) -> Callable[..., Any]:
    """The function `name` of a file or module, for example "trains" of "mine/mask.py"."""
    function: Callable[..., Any] | None = getattr(load_module(path), name, None)
    if not callable(function):
        raise UserError(f"{path}: no function {name}")
    return function


def held(config: Any, key: str = "") -> Iterator[tuple[str, PluginConfig]]:
    """The plug-ins of a config, by dotted key: ("credit", …), ("credit.segmenter", …), …"""
    if isinstance(config, PluginConfig):
        yield key, config
    if is_dataclass(config):
        config = vars(config)
    if isinstance(config, dict):
        for name, value in config.items():
            yield from held(value, f"{key}.{name}" if key else name)


def files(config: Any) -> list[str]:
    """The Python files that the plug-ins of a config come from."""
    places = [plugin.kind.rpartition(":")[0] for _, plugin in held(config)]
    return [place for place in places if place.endswith(".py")]


def digest(path: str) -> str:
    """The SHA-256 of the file at `path` in hexadecimal, without the files that it imports."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def validated(keys: type, table: dict[str, Any]) -> Any:
    """The dataclass `keys` of a table, as strict JSON: true is no integer, "3" no number."""
    return _adapter(keys).validate_json(json.dumps(table), strict=True, extra="forbid")


@cache
def _adapter(keys: type) -> TypeAdapter[Any]:
    """Made once: it takes as long as a hundred configs."""
    return TypeAdapter(keys)

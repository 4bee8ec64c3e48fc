"""Plug-ins: what `kind` names in a config, whether the core, a recipe or a user's file holds it.

    'vine'                          a short name of `KINDS`
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

# The short names of each role: module:Class. Naming a recipe here does not import it.
KINDS: dict[str, dict[str, str]] = {
    "task": {
        "arithmetic": "vineppo.recipes.arithmetic:ArithmeticTask",
        "gsm8k": "vineppo.tasks.published:Gsm8kTask",
        "math": "vineppo.tasks.published:MathTask",
        "svamp": "vineppo.recipes.evaluation_sets:SvampTask",
        "olympiadbench": "vineppo.recipes.evaluation_sets:OlympiadBenchTask",
        "jsonl": "vineppo.recipes.jsonl:JsonlTask",
        "worded": "vineppo.recipes.worded:WordedTask",
        "verifiers": "vineppo.recipes.verifiers:VerifiersTask",
    },
    "environment": {
        "drill": "vineppo.recipes.drill:Drill",
        "verifiers": "vineppo.recipes.verifiers:VerifiersEnvironment",
    },
    "reward_form": {"any": "vineppo.recipes.reward_forms:AnyForm"},
    "scorer": {"reward_model": "vineppo.recipes.reward_scorer:RewardModelReward"},
    "fine_tuning": {"self_training": "vineppo.recipes.self_training:SelfTraining"},
    "adapters": {"lora": "vineppo.recipes.lora:Lora"},
    "credit": {
        "vine": "vineppo.credit.vine:VineCredit",
        "gae": "vineppo.credit.gae:GaeCredit",
        "grpo": "vineppo.credit.groups:GrpoCredit",
        "rloo": "vineppo.credit.groups:RlooCredit",
        "reinforce_plus_plus": "vineppo.recipes.reinforce_plus_plus:ReinforcePlusPlusCredit",
        "reinforce_plus_plus_baseline": (
            "vineppo.recipes.reinforce_plus_plus:ReinforcePlusPlusBaselineCredit"
        ),
        "remax": "vineppo.recipes.remax:RemaxCredit",
        "doubly_robust": "vineppo.recipes.doubly_robust:DoublyRobustCredit",
        "gae_bootstrapped": "vineppo.recipes.gae_bootstrapped:BootstrappedGae",
        "gigpo": "vineppo.recipes.gigpo:GigpoCredit",
        "joined": "vineppo.recipes.joined:JoinedCredit",
        "martingale": "vineppo.recipes.martingale:MartingaleCredit",
        "tree": "vineppo.recipes.tree:TreeCredit",
    },
    "engine": {
        "vllm": "vineppo.engine.vllm_config:VllmConfig",
        "transformers": "vineppo.recipes.transformers_engine:TransformersConfig",
        "vllm_processes": "vineppo.recipes.engine_processes:ProcessesConfig",
        "vllm_sharded": "vineppo.recipes.vllm_sharded:ShardedConfig",
    },
    "segmenter": {
        "lines": "vineppo.segment.kinds:LinesSegmenter",
        "math": "vineppo.segment.kinds:MathSegmenter",
        "tokens": "vineppo.segment.kinds:TokensSegmenter",
        "turns": "vineppo.segment.kinds:TurnsSegmenter",
        "cutpoints": "vineppo.recipes.cutpoints:CutpointsSegmenter",
        "merged": "vineppo.recipes.merged:MergedSegmenter",
    },
    "values": {
        "monte_carlo": "vineppo.values.monte_carlo:MonteCarlo",
        "group_mean": "vineppo.values.group_mean:GroupMean",
        "separate": "vineppo.values.separate:SeparateValueModel",
        "shared": "vineppo.recipes.shared:SharedValueHead",
        "ensemble": "vineppo.recipes.ensemble:Ensemble",
        "fused": "vineppo.recipes.fused:Fused",
        "generative": "vineppo.recipes.generated:Generative",
        "informed": "vineppo.recipes.informed:Informed",
        "oracle": "vineppo.recipes.oracle:Oracle",
        "pooled": "vineppo.recipes.pooled:Pooled",
        "posterior": "vineppo.recipes.posterior:Posterior",
        "privileged": "vineppo.recipes.privileged:Privileged",
        "probe": "vineppo.recipes.probe:Probe",
        "reward_model": "vineppo.recipes.reward_model:ScoredStates",
        "shrunk": "vineppo.recipes.shrunk:Shrunk",
        "shrunk_mean": "vineppo.recipes.shrunk_mean:ShrunkMean",
        "smoothed": "vineppo.recipes.smoothed:Smoothed",
        "yes_no": "vineppo.recipes.yes_no:YesNo",
    },
    "states": {
        "coin": "vineppo.recipes.cuts:CoinCuts",
        "expected": "vineppo.recipes.cuts:ExpectedCuts",
        "random": "vineppo.recipes.cuts:Cuts",
        "surprisal": "vineppo.recipes.cuts:Cuts",
        "uncertain": "vineppo.recipes.cuts:Cuts",
    },
}


# The functions that `optimization.policy_loss` names besides PPO's: module, function.
POLICY_LOSSES = {
    "gspo": ("vineppo.recipes.policy_losses", "sequence_surrogate"),
    "cispo": ("vineppo.recipes.policy_losses", "weighted_likelihood"),
}


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
        """The validated keys of `table`, whose `kind` names the plug-in."""
        if not isinstance(table, dict):
            raise PydanticCustomError("dataclass_type", "Input should be a table of keys")
        if not isinstance(kind := table.get("kind"), str):
            raise PydanticCustomError("union_tag_not_found", "must name a kind")
        if kind not in KINDS[self.role] and ":" not in kind:
            names = ", ".join(f"'{name}'" for name in KINDS[self.role])
            raise PydanticCustomError(
                "union_tag_invalid",
                "kind must be one of {expected_tags}, got '{tag}'",
                {"tag": kind, "expected_tags": f"{names}, or 'FILE.py:Class'"},
            )
        # As JSON, where strict means types and a table is still a table.
        return _adapter(config_class(self.role, kind)).validate_json(
            json.dumps(table), strict=True, extra="forbid"
        )


def config_class(role: str, kind: str) -> type:
    plugin = find(role, kind)
    keys: type = getattr(plugin, "Config", plugin)
    return keys


@cache
def find(role: str, kind: str) -> type[Any]:
    """The class that `kind` names for `role`, for example `find("credit", "vine")`.

    Raises `UserError` for a file or module that cannot be loaded, or that has no such class.
    """
    where, _, name = KINDS[role].get(kind, kind).rpartition(":")
    module = load_file(where) if where.endswith(".py") else _import(where)
    plugin = getattr(module, name, None)
    base = _base(role)
    if not isinstance(plugin, type) or not issubclass(plugin, base):
        raise UserError(f"{where}: no class {name} derived from {base.__module__}.{base.__name__}")
    return plugin


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
    module = load_file(path) if path.endswith(".py") else _import(path)
    function: Callable[..., Any] | None = getattr(module, name, None)
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
    """The SHA-256 of the file at `path` in hexadecimal; what it imports is not in it."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None


@cache
def _adapter(keys: type) -> TypeAdapter[Any]:
    return TypeAdapter(keys)


def _import(module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UserError(f"{module}: {error}") from error


def _base(role: str) -> type:
    module, _, name = BASES[role].partition(":")
    base: type = getattr(importlib.import_module(module), name)
    return base


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
    "values": "vineppo.values.predictor:ValuePredictor",
    "states": "vineppo.config.schema.values:States",
}

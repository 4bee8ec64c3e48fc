"""From a jsonnet file to a checked config: every mistake is one line that names the key."""

import json
import os
from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import _jsonnet
from pydantic import TypeAdapter, ValidationError

from vineppo import plugins
from vineppo.config.checks import check_sft, check_train
from vineppo.config.schema import (
    AnyConfig,
    SftConfig,
    Task,
    TrainConfig,
)
from vineppo.errors import UserError
from vineppo.user_reward import UserReward

Config = TypeVar("Config", bound=AnyConfig)

CHECKOUT = str(Path(__file__).parents[2])


def load_config(kind: type[Config], path: str, assignments: list[str]) -> Config:
    """The config in the jsonnet file `path` with the `dotted.key=value` `assignments` applied.

    A value is read as JSON where it is JSON and as a string elsewhere. Raises `UserError` for a
    missing file, a jsonnet error (with its line), an unknown or missing key, a wrong type, a
    combination that makes no sense, and a file of one's own code that cannot be used.
    """
    resolved = evaluate_jsonnet(path)
    for assignment in assignments:
        assign(resolved, assignment)
    config = parse_config(kind, resolved)
    load_functions(config)
    return config


def parse_config(kind: type[Config], resolved: dict[str, Any]) -> Config:
    """The typed config of a resolved one, such as the `config.json` of a run."""
    try:
        # Strict JSON: true is no integer, "3" is no number, and an unknown key is refused.
        config: Config = _adapter(kind).validate_json(  # type: ignore[arg-type]
            json.dumps(resolved), strict=True, extra="forbid"
        )
    except ValidationError as error:
        raise UserError(_of_the_other(kind, resolved) or _describe(error, resolved)) from None
    for key, plugin in plugins.held(config):
        plugin.check(key, config)
    if isinstance(config, TrainConfig):
        check_train(config)
    elif isinstance(config, SftConfig):
        check_sft(config)
    config.check()
    return config


@cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    """Made once: it takes as long as a hundred configs."""
    return TypeAdapter(kind)


def complete(resolved: dict[str, Any]) -> dict[str, Any]:
    """The same config with every default, unchecked; what the schema refuses stays as it is."""
    for kind in AnyConfig.__subclasses__():
        try:
            config = _adapter(kind).validate_json(  # type: ignore[arg-type]
                json.dumps(resolved), strict=True, extra="forbid"
            )
        except (ValidationError, UserError):
            continue
        completed: dict[str, Any] = json.loads(json.dumps(asdict(config)))
        return completed
    return resolved


def to_dict(config: AnyConfig) -> dict[str, Any]:
    """The plain nested dict that `parse_config` reads back."""
    return asdict(config)  # type: ignore[call-overload] # each command's is a dataclass


def evaluate_jsonnet(path: str) -> dict[str, Any]:
    if os.path.isdir(path):
        raise UserError(f"config must be a file, {path} is a directory")
    if not os.path.isfile(path):
        raise UserError(f"config file not found: {path}")
    try:
        resolved = json.loads(_jsonnet.evaluate_file(path, import_callback=_importer(path)))
    except RuntimeError as error:
        first, *trace = str(error).strip().splitlines()
        where = f" at {trace[0].split(chr(9))[1]}" if trace and chr(9) in trace[0] else ""
        raise UserError(f"jsonnet: {first}{where if path not in first else ''}") from None
    except UnicodeDecodeError:
        raise UserError(f"config file must be UTF-8 text: {path}") from None
    if not isinstance(resolved, dict):
        raise UserError(f"{path} must evaluate to a table of keys, got {_show(resolved)}")
    return resolved


def _importer(path: str) -> Callable[[str, str], tuple[str, bytes]]:
    """Jsonnet's callback for `import`, which refuses files outside of the config's folders.

    They are the config's own, the working directory, vineppo's checkout, and those that
    JSONNET_PATH names. Else somebody else's config could carry any file into a run (`importstr`).
    """
    own = os.path.dirname(path) or "."
    named = [folder for folder in os.environ.get("JSONNET_PATH", "").split(os.pathsep) if folder]
    folders = [Path(folder).resolve() for folder in (own, ".", CHECKOUT, *named)]

    def find(directory: str, name: str) -> tuple[str, bytes]:
        for candidate in (Path(directory, name), *(Path(folder, name) for folder in named)):
            if not candidate.is_file():
                continue
            if not any(candidate.resolve().is_relative_to(folder) for folder in folders):
                raise RuntimeError(
                    f"{candidate} lies outside of the config's folders; JSONNET_PATH may name more"
                )
            return str(candidate), candidate.read_bytes()
        raise RuntimeError(f"no such file: {name}")

    return find


def assign(resolved: dict[str, Any], assignment: str) -> None:
    """Applies one `dotted.key=value` in place."""
    dotted, equals, text = assignment.partition("=")
    if not equals or not dotted:
        raise UserError(f"--set must be dotted.key=value, got {assignment!r}")
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        value = text
    *parents, last = dotted.split(".")
    table: Any = resolved
    for depth, key in enumerate(parents, start=1):
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            at = ".".join(parents[:depth])
            raise UserError(f"--set {dotted}: {at} must be a table of keys, got {_show(table)}")
    table[last] = value


def _of_the_other(kind: type[Config], resolved: dict[str, Any]) -> str | None:
    """The line for a config that another command takes; None if it is none of those."""
    of: type[AnyConfig] | None = None
    if "pairs" in resolved:
        what, command = "a reward model", "reward-model"
    elif {"credit", "rollouts", "reference"} & resolved.keys():
        of, what, command = TrainConfig, "reinforcement learning", "train"
    elif "task" in resolved:
        of, what, command = SftConfig, "fine-tuning", "sft"
    else:
        return None
    if kind is not of and (of is not None or kind in (TrainConfig, SftConfig)):
        return f"config: it is one of {what}; `vineppo {command}` takes it"
    return None


def _describe(error: ValidationError, resolved: dict[str, Any]) -> str:
    """The most telling of pydantic's findings in one line: a misspelt key before a missing one."""
    rank = {"unexpected_keyword_argument": 0, "missing": 2}
    finding: Any = min(error.errors(), key=lambda e: rank.get(e["type"], 1))
    key = _dotted(finding["loc"], resolved)
    match finding["type"]:
        case "unexpected_keyword_argument":
            return f"config: unknown key {key}{_beside_kind(key, resolved)}"
        case "missing":
            return f"config: missing key {key}"
        case "union_tag_not_found":
            return f"config: missing key {key}.kind"
        case _:
            found = "" if isinstance(finding["input"], dict) else f", got {_show(finding['input'])}"
            return f"config: {key}: {finding['msg']}{found}"


def _dotted(location: tuple[str | int, ...], resolved: dict[str, Any]) -> str:
    """The key in the file's own terms: pydantic's union tags are no part of it."""
    parts: list[str] = []
    node: Any = resolved
    for i, part in enumerate(location):
        is_last = i == len(location) - 1
        if part == "[key]" or (isinstance(node, dict) and part not in node and not is_last):
            continue
        parts.append(str(part))
        node = node.get(part) if isinstance(node, dict) else None
    return ".".join(parts)


def _beside_kind(key: str, resolved: dict[str, Any]) -> str:
    """What `kind` the key's table has: after a change of kind its other keys are of the old one."""
    node: Any = resolved
    parent = key.rpartition(".")[0]
    for part in parent.split("."):
        node = node.get(part) if isinstance(node, dict) else None
    is_kind = isinstance(node, dict) and "kind" in node
    return f" ({parent}.kind is {_show(node['kind'])})" if is_kind else ""


def _show(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def load_functions(config: AnyConfig) -> None:
    """Loads the user's functions, so that a missing one is found before anything starts."""
    if isinstance(config, TrainConfig | SftConfig):
        load_reward(config.task)
    if isinstance(config, TrainConfig) and config.optimization.token_mask_path is not None:
        plugins.load_function(config.optimization.token_mask_path, "trains")


def load_reward(task: Task) -> None:
    """Loads the user's reward function, which is all that an evaluation calls."""
    if task.grading.reward_path is not None:
        UserReward.of(task.grading.reward_path).load()


def own_digests(config: AnyConfig) -> dict[str, str]:
    """The SHA-256 of every user's file that the config names, by its path."""
    paths = plugins.files(config)
    if isinstance(config, TrainConfig | SftConfig) and config.task.grading.reward_path is not None:
        paths.append(UserReward.of(config.task.grading.reward_path).path)
    if isinstance(config, TrainConfig) and config.optimization.token_mask_path is not None:
        paths.append(config.optimization.token_mask_path)
    return {path: plugins.digest(path) for path in paths}

"""From a jsonnet file to a checked config: every mistake is one line that names the key."""

import json
import os
from dataclasses import asdict
from typing import Any, TypeVar

import _jsonnet
from pydantic import ValidationError

from vineppo import plugins
from vineppo.config.checks import check_sft, check_train
from vineppo.config.schema import AnyConfig, SftConfig, Task, TrainConfig
from vineppo.errors import UserError
from vineppo.user_reward import UserReward

Config = TypeVar("Config", bound=AnyConfig)


def load_config(kind: type[Config], path: str, assignments: list[str]) -> Config:
    """The config in the jsonnet file `path` with the `dotted.key=value` `assignments` applied.

    A value is read as JSON where it is JSON and as a string elsewhere. Raises `UserError` for every
    mistake, in a user's file too.
    """
    resolved = evaluate_jsonnet(path)
    for assignment in assignments:
        assign(resolved, assignment)
    config = parse_config(kind, resolved)
    if isinstance(config, TrainConfig | SftConfig):
        load_reward(config.task)
    if mask := getattr(config.optimization, "token_mask_path", None):
        plugins.load_function(mask, "trains")
    return config


def parse_config(kind: type[Config], resolved: dict[str, Any]) -> Config:
    """The typed config of a resolved one, such as the `config.json` of a run."""
    try:
        config: Config = plugins.validated(kind, resolved)
    except ValidationError as error:
        raise UserError(_describe(error, resolved)) from None
    for key, plugin in plugins.held(config):
        plugin.check(key, config)
    if isinstance(config, TrainConfig):
        check_train(config)
    elif isinstance(config, SftConfig):
        check_sft(config)
    config.check()
    return config


def complete(resolved: dict[str, Any]) -> dict[str, Any]:
    """The same config with every default, unchecked; an invalid one stays as it is."""
    for kind in AnyConfig.__subclasses__():
        try:
            completed: dict[str, Any] = json.loads(
                json.dumps(to_dict(plugins.validated(kind, resolved)))
            )
        except (ValidationError, UserError):
            continue
        return completed
    return resolved


def to_dict(config: AnyConfig) -> dict[str, Any]:
    """The plain nested dict that `parse_config` reads back."""
    return asdict(config)  # type: ignore[call-overload] # each command's is a dataclass


def evaluate_jsonnet(path: str) -> dict[str, Any]:
    if not os.path.isfile(path):
        raise UserError(f"config file not found: {path}")
    try:
        shipped = f"{os.path.dirname(plugins.__file__)}/configs"  # where imports may be found, too
        resolved = json.loads(_jsonnet.evaluate_file(path, jpathdir=[shipped]))
    except RuntimeError as error:
        first, *trace = str(error).strip().splitlines()
        where = f" at {trace[0].split(chr(9))[1]}" if trace and chr(9) in trace[0] else ""
        raise UserError(f"jsonnet: {first}{where if path not in first else ''}") from None
    except UnicodeDecodeError:
        raise UserError(f"config file must be UTF-8 text: {path}") from None
    if not isinstance(resolved, dict):
        raise UserError(f"{path} must evaluate to a table of keys, got {_show(resolved)}")
    return resolved


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


def _describe(error: ValidationError, resolved: dict[str, Any]) -> str:
    """The most telling of pydantic's findings in one line: a misspelt key before a missing one."""
    rank = {"unexpected_keyword_argument": 0, "missing": 2}
    finding: Any = min(error.errors(), key=lambda e: rank.get(e["type"], 1))
    key, table = _place(finding["loc"], resolved)
    match finding["type"]:
        case "unexpected_keyword_argument":
            # After a change of kind, the other keys of its table belong to the old one.
            parent, kind = key.rpartition(".")[0], table.get("kind")
            return f"config: unknown key {key}" + (
                f" ({parent}.kind is {_show(kind)})" if kind else ""
            )
        case "missing":
            return f"config: missing key {key}"
        case "union_tag_not_found":
            return f"config: missing key {key}.kind"
    found = "" if isinstance(finding["input"], dict) else f", got {_show(finding['input'])}"
    return f"config: {key}: {finding['msg']}{found}"


def _place(location: tuple[str | int, ...], resolved: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The dotted key in the file's own terms, without pydantic's union tags, and its table."""
    parts: list[str] = []
    node: Any = resolved
    table = resolved
    for i, part in enumerate(location):
        is_last = i == len(location) - 1
        is_tag = isinstance(node, dict) and (part not in node or part == node.get("kind"))
        if part == "[key]" or isinstance(node, str | float | int) or (is_tag and not is_last):
            continue
        parts.append(str(part))
        table = node if isinstance(node, dict) else {}
        node = table.get(str(part))
    return ".".join(parts), table


def _show(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def load_reward(task: Task) -> None:
    """Loads the user's reward function, so that a mistake is found before anything starts."""
    if task.grading.reward_path is not None:
        UserReward.of(task.grading.reward_path).load()


def user_digests(config: AnyConfig) -> dict[str, str]:
    """The SHA-256 of every user's file that the config names, by its path."""
    paths = plugins.files(config)
    if isinstance(config, TrainConfig | SftConfig) and config.task.grading.reward_path is not None:
        paths.append(UserReward.of(config.task.grading.reward_path).path)
    if mask := getattr(config.optimization, "token_mask_path", None):
        paths.append(mask)
    return {path: plugins.digest(path) for path in paths if path.endswith(".py")}

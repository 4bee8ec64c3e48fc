"""The file of a sweep: jsonnet that evaluates to its runs, checked whole before any starts.

    {
      runs: [
        {
          name: 'demo_vineppo_t%g' % temperature,       // the run's `name`: what its seeds share
          seed: seed,                                   // its directory is NAME_seedSEED
          config: '../demo_vineppo.jsonnet',            // from this file on
          set: { 'sampling.temperature': temperature }, // as by --set of `vineppo train`
        }
        for temperature in [0.6, 1]
        for seed in [1, 2, 3]
      ],
      // Conditions under which every trained policy is evaluated besides; may be [].
      evaluations: [{ 'evaluation.temperature': 0.35 }],
    }

These are all its keys, and none has a default.
"""

import copy
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vineppo.config.load import assign, evaluate_jsonnet, own_digests, parse_config, to_dict
from vineppo.config.schema import TrainConfig
from vineppo.errors import UserError
from vineppo.run_dir import RunDir, first_difference
from vineppo.run_dir.config import check_own_files
from vineppo.sweep import SweepRun

SWEEP_KEYS = {"runs": list, "evaluations": list}
RUN_KEYS = {"name": str, "seed": int, "config": str, "set": dict}
NOUNS = {list: "a list", str: "a string", int: "a whole number", dict: "a table of keys"}


def load_sweep(path: str, runs_dir: Path, assignments: Sequence[str]) -> list[SweepRun]:
    """The runs of the sweep file `path`; `assignments` are made in each after its own `set`.

    Everything is checked before anything starts. Raises `UserError` naming the file and the run:
    for a config that is missing or wrong, also as an evaluation would change it, a key that is
    unknown or missing, two runs of one name and seed, and a directory with a run of another config.
    """
    sweep = evaluate_jsonnet(path)
    _check_keys(sweep, SWEEP_KEYS, path)
    if not sweep["runs"]:
        raise UserError(f"{path}: runs must not be empty")
    for number, table in enumerate(sweep["evaluations"]):
        _check_type(table, dict, f"{path}: evaluations[{number}]")
    evaluations = tuple(map(_assignments, sweep["evaluations"]))
    leaves: dict[str, dict[str, Any]] = {}  # evaluating jsonnet takes longer than all else
    runs: dict[Path, SweepRun] = {}
    for number, entry in enumerate(sweep["runs"]):
        place = f"{path}: runs[{number}]"
        _check_type(entry, dict, place)
        _check_keys(entry, RUN_KEYS, place)
        config_path = os.path.normpath(Path(path).parent / entry["config"])
        if config_path not in leaves:
            leaves[config_path] = _named(place, evaluate_jsonnet, config_path)
        own = _assignments({"name": entry["name"], "seed": entry["seed"], **entry["set"]})
        made = (*own, *assignments)
        config = _named(place, _config, leaves[config_path], made)
        if (config.name, config.seed) != (entry["name"], entry["seed"]):
            raise UserError(f"{place}: name and seed are keys of the run itself and cannot be set")
        for evaluation in evaluations:
            _named(f"{place} under evaluations", _config, to_dict(config), evaluation)
        directory = runs_dir / f"{config.name}_seed{config.seed}"
        if directory in runs:
            raise UserError(f"{place}: seed {config.seed} of {config.name} stands there twice")
        _named(place, _check_directory, directory, config)
        runs[directory] = SweepRun(directory, config.num_iterations, config_path, made, evaluations)
    return list(runs.values())


def _config(resolved: dict[str, Any], assignments: Sequence[str]) -> TrainConfig:
    changed = copy.deepcopy(resolved)
    for assignment in assignments:
        assign(changed, assignment)
    return parse_config(TrainConfig, changed)


def _check_directory(directory: Path, config: TrainConfig) -> None:
    """Refuses a directory that holds results of another config or own file, finished or not."""
    run_dir = RunDir(directory)
    if not run_dir.final_path.is_dir() and run_dir.last_logged_iteration() == 0:
        return
    difference = first_difference(run_dir.read_config(), json.loads(json.dumps(to_dict(config))))
    if difference is not None:
        key, there, here = difference
        raise UserError(
            f"{directory} holds a run of another config: {key} is {there} there, {here} here; "
            "give another --runs-dir"
        )
    check_own_files(directory, own_digests(config))


def _named(place: str, function: Any, *arguments: Any) -> Any:
    """`function(*arguments)`, its `UserError` told with the place that it is about."""
    try:
        return function(*arguments)
    except UserError as error:
        raise UserError(f"{place}: {error}") from None


def _check_keys(table: dict[str, Any], kinds: Mapping[str, type], place: str) -> None:
    for key in table:
        if key not in kinds:
            raise UserError(f"{place}: unknown key {key}; the keys are {', '.join(kinds)}")
    for key, kind in kinds.items():
        if key not in table:
            raise UserError(f"{place}: missing key {key}")
        _check_type(table[key], kind, f"{place}: {key}")


def _check_type(value: Any, kind: type, place: str) -> None:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise UserError(f"{place} must be {NOUNS[kind]}, got {json.dumps(value)}")


def _assignments(table: dict[str, Any]) -> tuple[str, ...]:
    return tuple(f"{key}={_text(value)}" for key, value in table.items())


def _text(value: Any) -> str:
    """As `--set` reads it back: a string that is no JSON stands for itself."""
    if isinstance(value, str):
        try:
            json.loads(value)
        except ValueError:
            return value
    return json.dumps(value)

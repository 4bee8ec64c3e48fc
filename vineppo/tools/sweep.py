"""`vineppo sweep`: executes what is missing of the runs that a file lists.

Each command is a process of its own, so that a run neither inherits an engine nor ends the others.
The file is jsonnet that evaluates to its runs, checked whole before any starts:

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
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from vineppo.config.load import assign, evaluate_jsonnet, own_digests, parse_config, to_dict
from vineppo.config.schema import TrainConfig
from vineppo.errors import UserError
from vineppo.interruption import interruptible, interruption, raise_if_any
from vineppo.run_dir import RunDir, first_difference
from vineppo.run_dir.config import check_own_files
from vineppo.run_dir.directory import folder_name

SWEEP_KEYS = {"runs": list, "evaluations": list}
RUN_KEYS = {"name": str, "seed": int, "config": str, "set": dict}
POLL_S = 0.5
NOUNS = {list: "a list", str: "a string", int: "a whole number", dict: "a table of keys"}


@dataclass(frozen=True)
class SweepRun:
    """A run of a sweep: what makes it, and where it is on the disk."""

    directory: Path
    num_iterations: int
    config_path: str
    assignments: tuple[str, ...]
    evaluations: tuple[tuple[str, ...], ...]  # the assignments of each

    @property
    def name(self) -> str:
        return self.directory.name

    @property
    def is_trained(self) -> bool:
        return RunDir(self.directory).final_path.is_dir()

    @property
    def missing_evaluations(self) -> list[tuple[str, ...]]:
        folder, file = self.directory / "evaluations", f"iter_{self.num_iterations:06d}.json"
        return [
            evaluation
            for evaluation in self.evaluations
            if not (folder / folder_name(evaluation) / file).exists()
        ]

    @property
    def state(self) -> str:
        """ "missing", "at iteration 3 of 20", "trained, 1 of 4 evaluations" or "finished"."""
        if not self.is_trained:
            done = RunDir(self.directory).last_logged_iteration()
            return f"at iteration {done} of {self.num_iterations}" if done else "missing"
        num_done = len(self.evaluations) - len(self.missing_evaluations)
        if num_done < len(self.evaluations):
            return f"trained, {num_done} of {len(self.evaluations)} evaluations"
        return "finished"

    def commands(self) -> Iterator[list[str]]:
        """What of `vineppo …` is left to do, asked anew after each."""
        if not self.is_trained:
            sets = _as_options(self.assignments)
            yield ["train", self.config_path, "--run-dir", str(self.directory), *sets]
        for evaluation in self.missing_evaluations:
            yield ["evaluate", str(self.directory), *_as_options(evaluation)]


def load_sweep(path: str, runs_dir: Path, assignments: Sequence[str]) -> list[SweepRun]:
    """The runs of the sweep file `path`; `assignments` are made in each after its own `set`.

    Everything is checked before anything starts. Raises `UserError` naming the file and the run:
    for a config that is missing or wrong, also as an evaluation would change it, a key that is
    unknown or missing, two runs of one name and seed, and a directory with a run of another config.
    """
    sweep = evaluate_jsonnet(path)
    evaluate_leaf = cache(evaluate_jsonnet)  # it takes longer than all else
    runs: dict[Path, SweepRun] = {}
    with _errors_in(path):
        _check_keys(sweep, SWEEP_KEYS)
        if not sweep["runs"]:
            raise UserError("runs must not be empty")
        for number, table in enumerate(sweep["evaluations"]):
            _check_type(table, dict, f"evaluations[{number}]")
        evaluations = tuple(map(_assignments, sweep["evaluations"]))
        for number, entry in enumerate(sweep["runs"]):
            _check_type(entry, dict, f"runs[{number}]")
            with _errors_in(f"runs[{number}]"):
                _check_keys(entry, RUN_KEYS)
                name, seed = entry["name"], entry["seed"]
                config_path = os.path.normpath(Path(path).parent / entry["config"])
                own = _assignments({"name": name, "seed": seed, **entry["set"]})
                made = (*own, *assignments)
                config = _config(evaluate_leaf(config_path), made)
                if (config.name, config.seed) != (name, seed):
                    raise UserError("name and seed are keys of the run itself and cannot be set")
                directory = runs_dir / f"{name}_seed{seed}"
                if directory in runs:
                    raise UserError(f"seed {seed} of {name} stands there twice")
                _check_directory(directory, config)
            with _errors_in(f"runs[{number}] under evaluations"):
                for evaluation in evaluations:
                    _config(to_dict(config), evaluation)
            runs[directory] = SweepRun(
                directory, config.num_iterations, config_path, made, evaluations
            )
    return list(runs.values())


def print_states(runs: Sequence[SweepRun]) -> None:
    """A line a run: the number for `--index`, the directory's name, the state."""
    width = max(len(run.name) for run in runs)
    lines = [f"{n:>4}  {run.name:{width}}  {run.state}" for n, run in enumerate(runs)]
    print("\n".join(lines))


def execute(runs: Sequence[SweepRun], index: int | None) -> int:
    """Executes what is missing of all runs, or of the run number `index` alone: an exit status.

    A run that fails does not keep the others from running; it makes the status 1.
    """
    if index is not None and not 0 <= index < len(runs):
        raise UserError(f"--index must be in 0..{len(runs) - 1}, got {index}")
    numbers = range(len(runs)) if index is None else [index]
    failures = []
    for number in numbers:
        run, head = runs[number], f"[{number} of 0..{len(runs) - 1}]"
        if run.state == "finished":
            print(f"{head} {run.name}: finished already", flush=True)
        for command in run.commands():
            print(f"{head} vineppo {shlex.join(command)}", flush=True)
            status = run_through([sys.executable, "-m", "vineppo.cli", *command])
            if status != 0:
                failures.append(f"{number} {run.name}: {command[0]} ended with status {status}")
                break
    if failures:
        print(f"vineppo: {len(failures)} of {len(numbers)} runs failed:", file=sys.stderr)
        print(*failures, sep="\n", file=sys.stderr)
    return 1 if failures else 0


def run_through(command: Sequence[str]) -> int:
    """The exit status of a process, which ends by itself where this one is asked to end.

    A terminal's Ctrl-C reaches it anyway, a SIGTERM is passed on. Raises `InterruptionError` then.
    """
    with interruptible(), subprocess.Popen(command) as process:
        is_told = False
        while process.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(POLL_S)
            if interruption() == "SIGTERM" and not is_told:
                process.terminate()
                is_told = True
        raise_if_any([interruption()])
    return process.returncode


def _as_options(assignments: Sequence[str]) -> list[str]:
    return [text for assignment in assignments for text in ("--set", assignment)]


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


@contextmanager
def _errors_in(place: str) -> Iterator[None]:
    """A `UserError` is told with the place that it is about."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{place}: {error}") from None


def _check_keys(table: dict[str, Any], kinds: Mapping[str, type]) -> None:
    for key in table:
        if key not in kinds:
            raise UserError(f"unknown key {key}; the keys are {', '.join(kinds)}")
    for key, kind in kinds.items():
        if key not in table:
            raise UserError(f"missing key {key}")
        _check_type(table[key], kind, key)


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

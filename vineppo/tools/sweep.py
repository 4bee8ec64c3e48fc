"""`vineppo sweep`: executes what is missing of the runs that a file lists.

Each command is a new process, so that a run neither inherits an engine nor ends the others.
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
"""

import copy
import hashlib
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from vineppo.config.load import assign, evaluate_jsonnet, parse_config, to_dict, user_digests
from vineppo.config.schema import TrainConfig
from vineppo.distributed import interruptible, interruption, raise_if_any
from vineppo.errors import UserError, naming
from vineppo.run_dir import RunDir

POLL_S = 0.5


def folder_name(assignments: Sequence[str]) -> str:
    """ "a=1,b=x_y" of `--set a=1 --set b=x/y`; hashed where a file system would refuse it."""
    name = ",".join(assignments).replace("/", "_")
    if len(name.encode()) <= 200:
        return name
    return name[:100] + "-" + hashlib.blake2b(name.encode(), digest_size=8).hexdigest()


@dataclass(frozen=True)
class Entry:
    """A run as the file lists it."""

    name: str
    seed: int
    config: str
    set: dict[str, Any]


@dataclass(frozen=True)
class Sweep:
    runs: list[Entry]
    evaluations: list[dict[str, Any]]


@dataclass(frozen=True)
class SweepRun:
    """A run of a sweep, with its settings and its place on the disk."""

    directory: Path
    num_iterations: int
    config_path: str
    assignments: tuple[str, ...]
    evaluations: tuple[tuple[str, ...], ...]  # the assignments of each

    @property
    def is_trained(self) -> bool:
        return RunDir(self.directory).final_path.is_dir()

    @property
    def missing_evaluations(self) -> list[tuple[str, ...]]:
        folder, file = self.directory / "evaluations", f"iter_{self.num_iterations:06d}.json"
        paths = {each: folder / folder_name(each) / file for each in self.evaluations}
        return [each for each, path in paths.items() if not path.exists()]

    @property
    def state(self) -> str:
        """ "missing", "at iteration 3 of 20", "trained, 1 of 4 evaluations" or "finished"."""
        if not self.is_trained:
            done = RunDir(self.directory).last_logged_iteration()
            return f"at iteration {done} of {self.num_iterations}" if done else "missing"
        number = len(self.evaluations)
        num_done = number - len(self.missing_evaluations)
        return "finished" if num_done == number else f"trained, {num_done} of {number} evaluations"

    def commands(self) -> Iterator[list[str]]:
        """The remaining `vineppo …` commands, asked anew after each."""
        if not self.is_trained:
            sets = _as_options(self.assignments)
            yield ["train", self.config_path, "--run-dir", str(self.directory), *sets]
        for evaluation in self.missing_evaluations:
            yield ["evaluate", str(self.directory), *_as_options(evaluation)]


def load_sweep(path: str, runs_dir: Path, assignments: Sequence[str]) -> list[SweepRun]:
    """The runs of the sweep file `path`; `assignments` are made in each after its own `set`.

    Checks all configs, also under `evaluations`, and all run directories before anything starts.
    Raises `UserError` naming the file and the run.
    """
    resolved = evaluate_jsonnet(path)
    evaluate_leaf = cache(evaluate_jsonnet)  # the slowest step
    runs: dict[Path, SweepRun] = {}
    with naming(path):
        sweep = _parse(resolved)
        evaluations = tuple(map(_assignments, sweep.evaluations))
        for number, entry in enumerate(sweep.runs):
            with naming(f"runs[{number}]"):
                config_path = os.path.normpath(Path(path).parent / entry.config)
                named = {"name": entry.name, "seed": entry.seed}
                made = (*_assignments(named | entry.set), *assignments)
                config = _config(evaluate_leaf(config_path), made)
                if (config.name, config.seed) != (entry.name, entry.seed):
                    raise UserError("name and seed are keys of the run itself and cannot be set")
                directory = runs_dir / f"{entry.name}_seed{entry.seed}"
                if directory in runs:
                    raise UserError(f"seed {entry.seed} of {entry.name} stands there twice")
                RunDir(directory).check(to_dict(config), user_digests(config))
            with naming(f"runs[{number}] under evaluations"):
                for evaluation in evaluations:
                    _config(to_dict(config), evaluation)
            runs[directory] = SweepRun(
                directory, config.num_iterations, config_path, made, evaluations
            )
    if not runs:
        raise UserError(f"{path}: runs must not be empty")
    return list(runs.values())


def print_states(runs: Sequence[SweepRun]) -> None:
    """A line a run: the number for `--index`, the directory's name, the state."""
    width = max(len(run.directory.name) for run in runs)
    for number, run in enumerate(runs):
        print(f"{number:>4}  {run.directory.name:{width}}  {run.state}")


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
            print(f"{head} {run.directory.name}: finished already", flush=True)
        for command in run.commands():
            print(f"{head} vineppo {shlex.join(command)}", flush=True)
            status = run_through([sys.executable, "-m", "vineppo.cli", *command])
            if status != 0:
                name = f"{number} {run.directory.name}"
                failures.append(f"{name}: {command[0]} ended with status {status}")
                break
    if failures:
        print(f"vineppo: {len(failures)} of {len(numbers)} runs failed:", file=sys.stderr)
        print(*failures, sep="\n", file=sys.stderr)
    return 1 if failures else 0


def run_through(command: Sequence[str]) -> int:
    """The exit status of a process. SIGTERM is passed on, a terminal's Ctrl-C reaches it anyway."""
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


def _parse(resolved: dict[str, Any]) -> Sweep:
    text = json.dumps(resolved)  # strict JSON checks types: "1" is no number
    try:
        return TypeAdapter(Sweep).validate_json(text, strict=True, extra="forbid")
    except ValidationError as error:
        first = error.errors()[0]
        raise UserError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _assignments(table: dict[str, Any]) -> tuple[str, ...]:
    return tuple(f"{key}={_text(value)}" for key, value in table.items())


def _text(value: Any) -> str:
    """As `--set` reads it back: a string that is no JSON stands for itself."""
    if isinstance(value, str):
        with suppress(ValueError):
            json.loads(value)
            return json.dumps(value)
        return value
    return json.dumps(value)

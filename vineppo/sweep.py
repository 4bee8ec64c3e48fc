"""`vineppo sweep`: executes what is missing of the runs that a file lists (`sweep_file`).

Each command is a process of its own, so that a run neither inherits an engine nor ends the others.
"""

import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from vineppo.errors import UserError
from vineppo.run_dir import RunDir
from vineppo.run_dir.directory import folder_name


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
            status = subprocess.run([sys.executable, "-m", "vineppo.cli", *command]).returncode
            if status != 0:
                failures.append(f"{number} {run.name}: {command[0]} ended with status {status}")
                break
    if failures:
        print(f"vineppo: {len(failures)} of {len(numbers)} runs failed:", file=sys.stderr)
        print(*failures, sep="\n", file=sys.stderr)
    return 1 if failures else 0


def _as_options(assignments: Sequence[str]) -> list[str]:
    return [text for assignment in assignments for text in ("--set", assignment)]

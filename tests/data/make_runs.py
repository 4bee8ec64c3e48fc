"""Makes `tests/data/runs/`: small cuts of real runs, with ground truth, KL and a temperature sweep.

    vineppo sweep tests/data/runs.jsonnet --runs-dir runs/tests
    python tests/data/make_runs.py runs/tests/* --checkpoints 0,8,20 --work runs/tests_work \\
        --sweep runs/temperature/*

The second command takes any runs that have these checkpoints and the rollouts of the iteration
after each. Of a run stay its config, its metrics and evaluations, and of `rollouts/` and `values/`
those iterations with the first few problems; what says on which machine it was made goes. The
analyses that sample then run in `--work` on the cuts, with links to the real policies, as
`python -m analysis` would; started again after a kill they go on. The temperatures' table is that
of `python -m analysis temperature` on the runs of configs/sweeps/temperature.jsonnet.
"""

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from analysis.sampling.rollouts import rollout_iteration
from vineppo.run_dir import RunDir
from vineppo.run_dir.files import strict_json

RUNS = Path(__file__).parent / "runs"
NUM_PROBLEMS = 8
TRUTH = ("--num-states", "48", "--num-samples", "64", "--num-draws", "16")
KL = ("--num-problems", "64", "--num-samples", "4")
POLICIES = ("checkpoints", "final")
MAX_BYTES = 600_000
TABLES = {
    "kl_efficiency": "kl_efficiency.csv",
    "temperature": "temperature_evaluations.csv",
}


def main(arguments: Sequence[str]) -> None:
    options = _parser().parse_args(arguments)
    runs = [path.resolve() for path in options.run_dirs]
    checkpoints = [int(number) for number in options.checkpoints.split(",")]
    work = options.work.resolve()
    for run in runs:
        cut(run, work / run.name, checkpoints, NUM_PROBLEMS)
        for name in POLICIES:
            link(run / name, work / run.name / name)
    sample(work, [run.name for run in runs], options.checkpoints)
    if options.sweep:
        compare_temperatures(work, [path.resolve() for path in options.sweep])
    collect(work, [run.name for run in runs], RUNS)
    check(RUNS)


def cut(run: Path, target: Path, checkpoints: Iterable[int], num_problems: int) -> None:
    """Writes what is kept of `run` to `target`.

    Of the rollouts and values on which the checkpoints are looked at: those of the first problems.
    """
    source, kept = RunDir(run), RunDir(target)
    target.mkdir(parents=True, exist_ok=True)
    for name in ("config.json", "metrics.jsonl"):
        shutil.copyfile(run / name, target / name)
    environment = neutral(source.read_environment())
    kept.environment_path.write_bytes(strict_json(environment, indent=2))
    for evaluated in source.iterations("evaluations"):
        file = target / "evaluations" / f"iter_{evaluated:06d}.json"
        file.parent.mkdir(exist_ok=True)
        evaluation = source.read_evaluation(evaluated)
        evaluation.pop("problem_ids", None)  # most of the file, and no analysis asks for them
        file.write_bytes(strict_json(evaluation))
    for checkpoint in checkpoints:
        iteration = rollout_iteration(run, checkpoint)
        if iteration is None:
            sys.exit(f"{run} has no rollouts of checkpoint {checkpoint}")
        rollouts = source.read_rollouts(iteration)
        problems = list(dict.fromkeys(row["problem_id"] for row in rollouts))[:num_problems]
        kept.write_rollouts(iteration, of_problems(rollouts, problems))
        if iteration in source.iterations("values"):
            kept.write_values(iteration, of_problems(source.read_values(iteration), problems))


def of_problems(rows: Iterable[dict[str, Any]], problems: Sequence[str]) -> list[dict[str, Any]]:
    return [row for row in rows if row["problem_id"] in problems]


def neutral(environment: dict[str, Any]) -> dict[str, Any]:
    """Without the places of this machine: the command becomes `vineppo train CONFIG --set …`."""
    _, *words = environment["command"]
    if "--run-dir" in words:
        place = words.index("--run-dir")
        del words[place : place + 2]
    resumed = [neutral(other) for other in environment.get("resumed", [])]
    return environment | {"command": ["vineppo", *words], "resumed": resumed}


def link(policies: Path, target: Path) -> None:
    target.unlink(missing_ok=True)
    if policies.exists():
        target.symlink_to(policies)


def sample(work: Path, names: Sequence[str], checkpoints: str) -> None:
    """Ground truth of every run, in it, and the KL of all together."""
    for name in names:
        analyse(work, "ground-truth", name, "--checkpoints", checkpoints, *TRUTH)
    analyse(work, "kl-efficiency", *names, *KL, "--out", "kl_efficiency")


def compare_temperatures(work: Path, sweep: Sequence[Path]) -> None:
    """By links, so that the table names the runs and not where they are."""
    (work / "sweep").mkdir(exist_ok=True)
    for run in sweep:
        link(run, work / "sweep" / run.name)
    names = [f"sweep/{run.name}" for run in sweep]
    analyse(work, "temperature", *names, "--out", "temperature")


def analyse(work: Path, *words: str) -> None:
    """`python -m analysis …` in `work`: tables hold the paths that they were given."""
    print("python -m analysis", *words, flush=True)
    subprocess.run([sys.executable, "-m", "analysis", *words], cwd=work, check=True)


def collect(work: Path, names: Sequence[str], target: Path) -> None:
    """Copies what is committed; the rest of an analysis is drawn again from its tables.

    A part that was not made this time stays as it is.
    """
    target.mkdir(exist_ok=True)
    for name in names:
        shutil.rmtree(target / name, ignore_errors=True)
        ignored = shutil.ignore_patterns(*POLICIES, "*.png", "*.svg", "summary.json", ".*")
        shutil.copytree(work / name, target / name, ignore=ignored)
    for folder, table in TABLES.items():
        if (work / folder / table).exists():
            (target / folder).mkdir(exist_ok=True)
            shutil.copyfile(work / folder / table, target / folder / table)


def check(folder: Path) -> None:
    """Small, and without a path of the machine that made it (exits with a line otherwise)."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    for path in files:
        if path.suffix != ".parquet":
            for text in texts(path):
                if text.startswith("/"):
                    sys.exit(f"{path} names a place of this machine: {text}")
    size = sum(path.stat().st_size for path in files)
    print(f"{folder}: {len(files)} files, {size:,} bytes")
    if size > MAX_BYTES:
        sys.exit(f"{folder} must not exceed {MAX_BYTES:,} bytes; leave out a run or a checkpoint")


def texts(path: Path) -> list[str]:
    """The strings of a JSON or JSON Lines file, the cells of a CSV file."""
    content = path.read_text()
    if path.suffix == ".csv":
        return [cell.strip('"') for line in content.splitlines() for cell in line.split(",")]
    documents = content.splitlines() if path.suffix == ".jsonl" else [content]
    return [text for document in documents for text in strings(json.loads(document))]


def strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for inner in value.values() for text in strings(inner)]
    if isinstance(value, list):
        return [text for inner in value for text in strings(inner)]
    return [value] if isinstance(value, str) else []


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Makes tests/data/runs/ from real runs.")
    parser.add_argument("run_dirs", nargs="+", type=Path, metavar="RUN_DIR")
    parser.add_argument("--checkpoints", required=True, metavar="N,N…", help="that truth is of")
    parser.add_argument("--work", required=True, type=Path, metavar="DIR", help="to sample in")
    parser.add_argument(
        "--sweep", nargs="+", type=Path, metavar="RUN_DIR", help="of configs/sweeps/temperature"
    )
    return parser


if __name__ == "__main__":
    main(sys.argv[1:])

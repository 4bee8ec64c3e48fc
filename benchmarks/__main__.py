"""Runs all benchmarks at one commit, one after another, and writes their page: `make bench`.

Results go to runs/bench/COMMIT. A benchmark that has its result there is not run again. Once all
have one they replace those of `results`, with the table, the chart and the pages' numbers.
`--quick` tries all of it, and leaves the pages alone.
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import add_before
from benchmarks.table import ROWS, busy, costs, draw, seconds, setting, table
from vineppo.run_dir.environment import describe_source

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent
BEFORE = "before_"  # opens the names of an earlier commit's files
BUSY, PHASES = "busy_machine", "phase_costs"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--model", type=Path, metavar="DIR", help="a causal LM of 0.1–0.5 B")
    parser.add_argument("--quick", action="store_true", help="one small run of each, to try it")
    add_before(parser)
    options = parser.parse_args()
    if options.model is not None and not (options.model / "config.json").is_file():
        parser.error(f"--model: must be a directory with a config.json, got {options.model}")
    source = describe_source(ROOT)
    if source is None or (source["is_dirty"] and not options.quick):
        parser.error("results belong to a commit: commit or stash your changes first")
    folder = ROOT / "runs/bench" / (source["commit"][:12] + "_quick" * options.quick)
    folder.mkdir(parents=True, exist_ok=True)
    done = [run(job, folder, options.quick) for job in jobs(options.model, options.before)]
    measured = [file for file in done if file is not None]
    if len(measured) < len(done):
        print("the same command runs what failed, and then writes the page")
        return 1
    write(measured, folder if options.quick else FOLDER)
    return 0


@dataclass(frozen=True)
class Job:
    """A benchmark's name, its further arguments, its file's name, and the checkout it is of."""

    name: str
    more: tuple[str, ...] = ()
    ending: str = "demo"
    root: Path | None = None  # None: this one

    @property
    def label(self) -> str:
        return f"{BEFORE * (self.root is not None)}{self.name}_{self.ending}"


def jobs(model: Path | None, before: Path | None) -> list[Job]:
    """This commit's benchmarks of the demo and the model, and of the demo those of `before`."""
    names = list(dict.fromkeys(row.benchmark for row in ROWS))
    beside = () if before is None else ("--before", str(before.resolve()))
    found = [Job(name, beside if name == BUSY else ()) for name in names]
    grpo = 'credit={"kind":"grpo","segmenter":{"kind":"lines"}}'
    found += [Job(PHASES), Job(PHASES, ("--set", grpo), "grpo")]
    if model is not None:
        real = dict.fromkeys(row.benchmark for row in ROWS if row.real is not None)
        found += [Job(name, ("--model", str(model)), model.name) for name in real]
    if before is not None:
        held = {path.stem for path in (before / "benchmarks").glob("*.py")} - {BUSY}
        found += [Job(name, root=before.resolve()) for name in names if name in held]
    return found


def run(job: Job, folder: Path, is_quick: bool) -> Path | None:
    """The file of the benchmark's result, None where it failed; prints one line."""
    label = job.label
    out, log, took = folder / f"{label}.json", folder / f"{label}.log", "measured before"
    if not out.exists() or out.stat().st_size == 0:
        command = [sys.executable, "-m", f"benchmarks.{job.name}", "--out", str(out), *job.more]
        command += ["--quick"] * is_quick
        started = time.perf_counter()
        with log.open("w") as file:
            done = subprocess.run(
                command, stdout=file, stderr=file, cwd=job.root or ROOT, check=False
            )
        if done.returncode:
            print(f"{label}: failed with status {done.returncode}, see {log}", flush=True)
            out.unlink(missing_ok=True)
            return None
        took = f"{time.perf_counter() - started:.0f} s"
    ratios = json.loads(out.read_text())["ratios"]
    found = "; ".join(f"{ratio} {values['median']:.2f}" for ratio, values in ratios.items())
    print(f"{label}: {took}{': ' * bool(found)}{found}", flush=True)
    return out


def read(files: Iterable[Path]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Results of this commit, and of an earlier one."""
    found: dict[bool, list[dict[str, Any]]] = {False: [], True: []}
    for file in sorted(files):
        found[file.name.startswith(BEFORE)].append(json.loads(file.read_text()))
    return found[False], found[True]


def write(measured: list[Path], folder: Path) -> None:
    """Table and chart; all results that are not `measured` leave the folder of the page."""
    results, before = read(measured)
    rows = table(results, before)
    for row in ROWS:
        if row.ratio not in set(rows["ratio"]):
            print(f"{row.benchmark} has no ratio {row.ratio!r}, which table.py names")
    tables = folder / "results"
    shutil.rmtree(tables, ignore_errors=True)
    tables.mkdir()
    for file in measured:
        shutil.copy(file, tables)
    rows.to_csv(tables / "table.csv", index=False)
    setting(results, before).to_csv(tables / "setting.csv", index=False)
    for made in (seconds, costs, busy):
        made(results).to_csv(tables / f"{made.__name__}.csv", index=False)
    draw(rows, folder / "speed.png")
    if folder == FOLDER:
        subprocess.run([sys.executable, "docs/pages.py"], cwd=ROOT, check=True)
    print(f"written: {folder}")


if __name__ == "__main__":
    sys.exit(main())

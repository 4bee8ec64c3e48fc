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
from pathlib import Path
from typing import Any

from benchmarks.harness import add_before
from benchmarks.table import ROWS, busy, costs, draw, seconds, setting, table
from vineppo.run_dir.environment import describe_source

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent
BEFORE = "before_"  # opens the names of an earlier commit's files


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
    jobs = dict.fromkeys((row.benchmark, None) for row in ROWS) | {("phase_costs", None): None}
    if options.model is not None:
        real = (row.benchmark for row in ROWS if row.real is not None)
        jobs |= dict.fromkeys((name, options.model) for name in real)
    before = [] if options.before is None else ["--before", str(options.before.resolve())]
    done = [
        run(name, model, folder, options.quick, before if name == "busy_machine" else [])
        for name, model in jobs
    ]
    if options.before is not None:
        there = {path.stem for path in (options.before / "benchmarks").glob("*.py")}
        names = [name for name in dict.fromkeys(row.benchmark for row in ROWS) if name in there]
        done += [
            run(name, None, folder, options.quick, [], options.before.resolve())
            for name in names
            if name != "busy_machine"
        ]
    measured = [file for file in done if file is not None]
    if len(measured) < len(done):
        print("the same command runs what failed, and then writes the page")
        return 1
    write(measured, folder if options.quick else FOLDER)
    return 0


def run(
    name: str,
    model: Path | None,
    folder: Path,
    is_quick: bool,
    more: list[str],
    before: Path | None = None,
) -> Path | None:
    """The file of the benchmark's result, None where it failed; prints one line.

    `before` is the checkout of an earlier commit, whose own benchmark runs.
    """
    label = BEFORE * (before is not None) + f"{name}_{'demo' if model is None else model.name}"
    out, log, took = folder / f"{label}.json", folder / f"{label}.log", "measured before"
    if not out.exists() or out.stat().st_size == 0:
        command = [sys.executable, "-m", f"benchmarks.{name}", "--out", str(out)]
        command += (
            more + ["--quick"] * is_quick + ([] if model is None else ["--model", str(model)])
        )
        started = time.perf_counter()
        with log.open("w") as file:
            done = subprocess.run(
                command, stdout=file, stderr=file, cwd=before or ROOT, check=False
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

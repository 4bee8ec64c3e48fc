"""`vineppo`, and what it does as rows of tables: timeline.py DIR ENGINES train CONFIG…

ENGINES ("4 of 768") and CONFIG name the run in three tables of DIR. sampling.csv has a row every
four seconds while an engine samples. gpu.csv has one every second, of the first GPU, if there is
nvidia-smi. iterations.csv has one an iteration. `second` is since the process began. `sampling`
says that an engine's phase runs and all of its places are taken.
"""

import csv
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from vineppo.cli import main
from vineppo.progress import Progress

EVERY_S = 4
ENGINE_PHASES = ("rollout", "values", "evaluate")
ASKED = "utilization.gpu,memory.used,power.draw"
QUERY = (
    f"nvidia-smi --id=0 --query-gpu={ASKED} --format=csv,noheader,nounits --loop-ms=1000".split()
)
KEPT = ("iteration", "time/", "tokens/", "memory/", "rollout/engine_logprob_gap", "reward/mean")


class Timeline:
    def __init__(self, folder, engines, _, config, *__):
        self.folder, self.run = Path(folder), {"engines": engines, "config": Path(config).stem}
        count, places = engines.split(" of ")
        self.places = int(places) * (int(count) if count.isdigit() else 1)
        self.began_s = time.perf_counter()
        self.shown_s = 0.0
        self.phase, self.num_unfinished = None, 0

    def append(self, table, **values):
        path, row = self.folder / table, {**self.run, **values}
        is_new = not path.exists()
        with path.open("a") as file:
            writer = csv.DictWriter(file, row, lineterminator="\n")
            if is_new:
                writer.writeheader()
            writer.writerow(row)

    @property
    def second(self):
        return round(time.perf_counter() - self.began_s, 1)

    def enter(self, phase):
        self.phase = phase

    def tick(self, engine):
        self.num_unfinished, counts = engine.num_unfinished, engine.counts
        if self.second - self.shown_s < EVERY_S:
            return
        self.shown_s = self.second
        self.append(
            "sampling.csv",
            second=self.second,
            phase=self.phase,
            finished_tokens=counts.sampled_tokens,
            finished_prompt_tokens=counts.prompt_tokens,
            cached_prompt_tokens=counts.cached_tokens,
            requests_left=self.num_unfinished,
        )

    def finish_iteration(self, _, __, metrics):
        kept = {name: value for name, value in metrics.items() if name.startswith(KEPT)}
        self.append("iterations.csv", **kept)

    def watch_gpu(self, lines):
        for line in lines:
            is_full = self.phase in ENGINE_PHASES and self.num_unfinished >= self.places
            found = [text.strip() for text in line.split(",")]  # a sensor may say "[N/A]"
            self.append(
                "gpu.csv",
                second=self.second,
                phase=self.phase,
                **dict(zip(("busy_percent", "memory_mib", "power_w"), found, strict=False)),
                sampling="yes" if is_full else "no",
            )


def observe(name, observer):
    """`observer` is called with what a method of `Progress` is, after it."""
    method = getattr(Progress, name)

    def observed(self, *given):
        method(self, *given)
        observer(*given)

    setattr(Progress, name, observed)


if __name__ == "__main__":
    timeline = Timeline(*sys.argv[1:])
    for name in ("enter", "tick", "finish_iteration"):
        observe(name, getattr(timeline, name))
    smi = None
    with suppress(FileNotFoundError):  # no GPU
        smi = subprocess.Popen(QUERY, stdout=subprocess.PIPE, text=True)
        threading.Thread(target=timeline.watch_gpu, args=(smi.stdout,), daemon=True).start()
    try:
        sys.exit(main(sys.argv[3:]))
    finally:
        if smi is not None:
            smi.kill()

"""`vineppo`, and what it does as rows of tables: timeline.py DIR ENGINES train CONFIG…

ENGINES ("4 of 768") names the run in DIR's sampling.csv (a row every four seconds of sampling),
gpu.csv (every second, of nvidia-smi where that is; sampling: all places of the engines are taken)
and iterations.csv.
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
ASKED = "utilization.gpu,memory.used,power.draw"
QUERY = ["nvidia-smi", f"--query-gpu={ASKED}", "--format=csv,noheader,nounits", "-lms", "1000"]
KEPT = ("iteration", "time/", "tokens/", "memory/", "rollout/engine_logprob_gap")

tick, finish_iteration = Progress.tick, Progress.finish_iteration
started_s = time.perf_counter()


class Timeline:
    def __init__(self, folder, engines):
        self.folder, self.engines = Path(folder), engines
        count, places = engines.split(" of ")
        self.places = int(count) * int(places)
        self.began_s = self.shown_s = self.num_unfinished = 0

    def append(self, table, **values):
        path, row = self.folder / table, {"engines": self.engines, **values}
        is_new = not path.exists()
        with path.open("a") as file:
            writer = csv.DictWriter(file, row, lineterminator="\n")
            if is_new:
                writer.writeheader()
            writer.writerow(row)

    def tick(self, progress, engine):
        tick(progress, engine)
        now, self.num_unfinished = time.perf_counter(), engine.num_unfinished
        self.began_s = self.began_s or now
        if now - self.shown_s < EVERY_S:
            return
        self.shown_s, counts = now, engine.counts
        self.append(
            "sampling.csv",
            second=round(now - self.began_s, 1),
            phase=progress._phase,
            finished_tokens=counts.sampled_tokens,
            finished_prompt_tokens=counts.prompt_tokens,
            cached_prompt_tokens=counts.cached_tokens,
            requests_left=self.num_unfinished,
        )

    def finish_iteration(self, progress, iteration, num_iterations, metrics):
        finish_iteration(progress, iteration, num_iterations, metrics)
        self.num_unfinished = 0
        kept = {name: value for name, value in metrics.items() if name.startswith(KEPT)}
        self.append("iterations.csv", config=Path(sys.argv[4]).stem, **kept)

    def watch_gpu(self, lines):
        for line in lines:
            busy, mib, power_w = map(float, line.split(","))
            self.append(
                "gpu.csv",
                second=round(time.perf_counter() - started_s),
                busy=busy / 100,
                memory_gib=round(mib / 1024, 2),
                power_w=power_w,
                sampling="yes" if self.num_unfinished >= self.places else "no",
            )


if __name__ == "__main__":
    timeline = Timeline(*sys.argv[1:3])
    Progress.tick = lambda *given: timeline.tick(*given)
    Progress.finish_iteration = lambda *given: timeline.finish_iteration(*given)
    smi = None
    with suppress(FileNotFoundError):  # no GPU
        smi = subprocess.Popen(QUERY, stdout=subprocess.PIPE, text=True)
        threading.Thread(target=timeline.watch_gpu, args=(smi.stdout,), daemon=True).start()
    try:
        sys.exit(main(sys.argv[3:]))
    finally:
        if smi is not None:
            smi.kill()

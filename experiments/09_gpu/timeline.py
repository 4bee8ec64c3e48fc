"""`vineppo` with a line of csv every four seconds of sampling: timeline.py CSV train CONFIG…"""

import csv
import sys
import time
from pathlib import Path

from vineppo.cli import main
from vineppo.progress import Progress

EVERY_S = 4
tick, began_s, shown_s = Progress.tick, 0.0, 0.0


def ticked(self, engine):
    global began_s, shown_s
    tick(self, engine)
    now = time.perf_counter()
    began_s = began_s or now
    if now - shown_s < EVERY_S:
        return
    shown_s, counts = now, engine.counts
    row = counts.sampled_tokens, counts.prompt_tokens, counts.cached_tokens, engine.num_unfinished
    with path.open("a") as file:
        csv.writer(file, lineterminator="\n").writerow((round(now - began_s, 1), *row))


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(
        "second,finished_tokens,finished_prompt_tokens,cached_prompt_tokens,requests_left\n"
    )
    Progress.tick = ticked
    sys.exit(main(sys.argv[2:]))

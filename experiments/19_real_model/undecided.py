"""undecided.py EVALUATION.json PROBLEMS.jsonl: the problems with right and with wrong answers."""

import json
import sys
from pathlib import Path

evaluation = json.loads(Path(sys.argv[1]).read_text())
counts = zip(Path(sys.argv[2]).read_text().splitlines(), evaluation["num_correct_P"], strict=True)
for problem, num_correct in counts:
    if 0 < num_correct < evaluation["samples_per_problem"]:
        print(problem)

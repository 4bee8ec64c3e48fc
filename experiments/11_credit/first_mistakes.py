"""Where rollouts of the starting policies first leave the track: `first_mistakes.csv`.

    python experiments/11_credit/first_mistakes.py RUN_DIR...

`hard` and `easy` are wrong results of a fact of that kind, `form` any other line that the answer
cannot come from, `answer` a wrong last line, `none` right answers and responses cut off.
"""

import csv
import sys
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq

from vineppo.recipes.arithmetic import Chain
from vineppo.recipes.worded import ChainDemonstrator
from vineppo.run_dir.config import read_config
from vineppo.tasks import load_split

KINDS = ("none", "hard", "easy", "form", "answer")


def first_mistake(demonstrator: ChainDemonstrator, question: str, text: str) -> str:
    chain = Chain.of_question(question)
    lines = text.split("\n")
    ahead = demonstrator.facts(chain)
    for number, line in enumerate(lines):
        state = demonstrator.steps_left(chain, "\n".join(lines[: number + 1]))
        if state is None or state[1]:
            if line.startswith("####"):
                return "answer"
            operation, left, right = ahead[0]
            if f" {left}{operation}{right}=" not in line:
                return "form"
            return "hard" if ahead[0] in demonstrator.wrong_results else "easy"
        ahead = state[0]
    return "none"


def main(runs: list[Path]) -> None:
    rows = []
    for run in runs:
        config = read_config(run)
        demonstrator = ChainDemonstrator(config.task)
        questions = {problem.id: problem.question for problem in load_split(config.task, "train")}
        table = pq.read_table(run / "rollouts" / "iter_000001.parquet").to_pylist()
        counts = Counter(
            first_mistake(demonstrator, questions[row["problem_id"]], row["text"]) for row in table
        )
        rows.append((config.model.path, len(table), *(counts[kind] for kind in KINDS)))
    with (Path(__file__).parent / "gates" / "first_mistakes.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([("policy", "num_rollouts", *KINDS), *rows])


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])

"""GSM8K (Cobbe et al. 2021, arXiv:2110.14168): grade-school word problems with number answers."""

import re
from collections.abc import Iterable

from vineppo.config.schema import Gsm8kTaskConfig
from vineppo.errors import UserError
from vineppo.tasks.jsonl_file import Row, read_rows, text_field
from vineppo.types import Problem

_CALCULATOR_ANNOTATION = re.compile(r"<<[^<>\n]*>>")
_NOT_OF_THE_NUMBER = str.maketrans("", "", "$, ")


def load(config: Gsm8kTaskConfig) -> tuple[list[Problem], list[Problem]]:
    """Train and test problems, each set from its local file where one is named, else from the hub.

    Raises UserError when a set cannot be had or a row is not of GSM8K's form.
    """
    return _split(config, config.train_path, "train"), _split(config, config.test_path, "test")


def _split(config: Gsm8kTaskConfig, path: str | None, split: str) -> list[Problem]:
    rows = _hub_rows(config, split) if path is None else read_rows(path)
    return [
        problem_of_row(row, where, f"gsm8k/{split}/{index}")
        for index, (where, row) in enumerate(rows)
    ]


def problem_of_row(row: Row, where: str, problem_id: str) -> Problem:
    """A row's problem: the answer stands after "####", the solution loses its <<…>> annotations.

    `{"question": "…", "answer": "She has 2*3=<<2*3=6>>6.\\n#### 6"}` gives the answer "6" and the
    solution "She has 2*3=6.\\n#### 6". Raises UserError, beginning with `where`, without "####".
    """
    question = text_field(row, "question", where)
    worked = text_field(row, "answer", where)
    _, separator, final = worked.rpartition("####")
    answer = final.strip().translate(_NOT_OF_THE_NUMBER)
    if not separator or not answer:
        raise UserError(f"{where}: answer must end with '#### <number>', got {worked[-40:]!r}")
    return Problem(problem_id, question, answer, _CALCULATOR_ANNOTATION.sub("", worked))


def _hub_rows(config: Gsm8kTaskConfig, split: str) -> Iterable[tuple[str, Row]]:
    from datasets import load_dataset  # a second's import that local files do not need

    source = f"{config.hub_path}/{config.hub_name} [{split}]"
    try:
        dataset = load_dataset(config.hub_path, config.hub_name, split=split)
    # The hub's failures have no common type: connection, not found, gated, offline, bad subset.
    except Exception as error:
        reason = (str(error).splitlines() or [""])[0]
        raise UserError(
            f"task.hub_path {source} cannot be loaded ({type(error).__name__}: {reason}); "
            f"give a local file as task.{split}_path"
        ) from error
    return ((f"{source}: row {number}", row) for number, row in enumerate(dataset, start=1))

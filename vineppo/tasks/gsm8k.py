"""GSM8K (Cobbe et al. 2021, arXiv:2110.14168): grade-school word problems with number answers."""

import re

from vineppo.config.schema import Gsm8kTaskConfig
from vineppo.errors import UserError
from vineppo.tasks.hub import load_published
from vineppo.tasks.jsonl_file import Row, text_field
from vineppo.types import Problem, Split

_CALCULATOR_ANNOTATION = re.compile(r"<<[^<>\n]*>>")
_NOT_OF_THE_NUMBER = str.maketrans("", "", "$, ")


def load(config: Gsm8kTaskConfig, split: Split) -> list[Problem]:
    """As `load_published`; raises UserError also for a row that is not of GSM8K's form."""
    return load_published(config, split, {"train": "train", "test": "test"}, problem_of_row)


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

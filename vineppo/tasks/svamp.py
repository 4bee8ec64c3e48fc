"""SVAMP (Patel et al. 2021, arXiv:2103.07191): simple word problems, varied; for evaluation.

The published figures are over all 1,000 problems. The hub's copy has them in two sets of 700 and
300, which are joined; the authors' SVAMP.json is one list.
"""

from vineppo.config.schema import SvampTaskConfig
from vineppo.tasks.hub import load_published
from vineppo.tasks.jsonl_file import Row, text_field, text_or_number_field
from vineppo.types import Problem, Split


def load(config: SvampTaskConfig, split: Split) -> list[Problem]:
    """As `load_published`; raises UserError also for a row that is not of SVAMP's form."""
    return load_published(config, split, {"test": "train+test"}, problem_of_row)


def problem_of_row(row: Row, where: str, problem_id: str) -> Problem:
    """Body and question with a blank between them, as published, also where the body ends amid a
    sentence; the answers are whole numbers written as 51.0.

    `{"Body": "He had 3 cats", "Question": "How many pets?", "Answer": 3.0}` asks "He had 3 cats How
    many pets?" and has the answer "3".
    """
    body = text_field(row, "Body", where).strip()
    question = text_field(row, "Question", where).strip()
    answer = text_or_number_field(row, "Answer", where).removesuffix(".0")
    return Problem(problem_id, f"{body} {question}", answer)

"""MATH (Hendrycks et al. 2021, arXiv:2103.03874): competition problems, the answer in a box.

The split is that of PRM800K (Lightman et al. 2023, arXiv:2305.20050) and of the VinePPO paper: 500
test problems, drawn from the original 5,000, and all other 12,000 to train on.
"""

from vineppo.config.schema import MathTaskConfig
from vineppo.errors import UserError
from vineppo.tasks.extraction import extract_boxed
from vineppo.tasks.hub import load_published
from vineppo.tasks.jsonl_file import Row, text_field, text_or_number_field
from vineppo.types import Problem, Split

# Two problems of the train set are published with an empty box. The answer of both is 0.
_EMPTY_BOX_OF_ZERO = (
    "For any integer $n>1$, the number of prime numbers greater than $n!+1$ and less than",
    "You are given a sequence of $58$ terms; each term has the form $P+n$ where $P$ stands for",
)


def load(config: MathTaskConfig, split: Split) -> list[Problem]:
    """As `load_published`; raises UserError also for a row that is not of MATH's form."""
    return load_published(config, split, {"train": "train", "test": "test"}, problem_of_row)


def problem_of_row(row: Row, where: str, problem_id: str) -> Problem:
    """A row's problem; without the field `answer`, as in the first release, it is the last box's.

    `{"problem": "…", "solution": "… so $\\\\boxed{0.5}$.", "answer": "0.5"}` has the answer "0.5".
    Raises UserError, beginning with `where`, for a missing field and for a solution without a
    boxed answer: it would demonstrate a response that is graded 0.
    """
    question = text_field(row, "problem", where)
    solution = text_field(row, "solution", where)
    if question.startswith(_EMPTY_BOX_OF_ZERO):
        row, solution = {**row, "answer": "0"}, solution.replace(r"\boxed{}", r"\boxed{0}")
    boxed = extract_boxed(solution)
    if boxed is None:
        raise UserError(
            f"{where}: solution must hold its answer in a \\boxed{{}}, got {solution[-40:]!r}"
        )
    answer = text_or_number_field(row, "answer", where) if "answer" in row else boxed
    return Problem(problem_id, question, answer, solution)

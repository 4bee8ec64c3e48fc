"""Published data sets, from the hub or a local file in its place: a function for each row's form.

GSM8K (Cobbe et al. 2021, arXiv:2110.14168): grade-school word problems with number answers.

MATH (Hendrycks et al. 2021, arXiv:2103.03874): competition problems, the answer in a box. The split
is that of PRM800K (Lightman et al. 2023, arXiv:2305.20050) and of the VinePPO paper: 500 test
problems, drawn from the original 5,000, and all other 12,000 to train on.

SVAMP (Patel et al. 2021, arXiv:2103.07191): simple word problems, varied; for evaluation. The
published figures are over all 1,000 problems. The hub's copy has them in two sets of 700 and 300,
which are joined; the authors' SVAMP.json is one list.

OlympiadBench (He et al. 2024, arXiv:2402.14008): olympiad problems with answers; for evaluation.
Meant for its English mathematics in text with a final answer (`OE_TO_maths_en_COMP`). Those answers
are exact: `error`, a tolerance, is set in one row of 675, whose question itself asks for one
decimal place, and `unit` in eight, where it is that of the question's own numbers; neither is
used. One answer (id 1965) is prose, whose grading means little. In the physics subsets tolerance
and unit matter, and exact grading would call right answers wrong.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from vineppo.config.schema import Task
from vineppo.config.schema.scalars import Name
from vineppo.errors import UserError
from vineppo.tasks.extraction import boxed_contents, extract_hash
from vineppo.tasks.notation import list_items
from vineppo.tasks.rows import Row, read_hub, read_rows, text_field, text_or_number_field
from vineppo.types import Problem, Split

_CALCULATOR_ANNOTATION = re.compile(r"<<[^<>\n]*>>")
# Two problems of the train set are published with an empty box. The answer of both is 0.
_EMPTY_BOX_OF_ZERO = (
    "For any integer $n>1$, the number of prime numbers greater than $n!+1$ and less than",
    "You are given a sequence of $58$ terms; each term has the form $P+n$ where $P$ stands for",
)
_SEVERAL_ANSWERS = re.compile(
    r"separated by (?:commas?|semicolons?)|find all possible|all (?:the )?possible values", re.I
)
_BARE_LIST = re.compile(r"-?[0-9]+(?:,-?[0-9]+)+")


@dataclass(frozen=True, kw_only=True)
class PublishedTask(Task):
    """A data set of the hub, and local files of the same fields that may stand in its place.

    SVAMP and OlympiadBench are for evaluation: they have no train set but a file of one's own.
    """

    hub_path: Name
    hub_name: Name | None = None  # the subset; null where there is only one

    def load(self, split: Split) -> list[Problem]:
        """Raises `UserError` when the set cannot be had or a row is not of its form."""
        problem_of_row, hub_splits = DATA_SETS[self.kind]
        path = self.train_path if split == "train" else self.test_path
        if path is None and split not in hub_splits:
            raise UserError(
                f"task.{split}_path must name a file for task.kind {self.kind!r}, which has no "
                f"{split} set on the hub (`vineppo evaluate --task` needs none), got null"
            )
        if path is not None:
            rows = read_rows(path)
        else:
            instead = f"a local file as task.{split}_path"
            name, hub_split = self.hub_name, hub_splits[split]
            rows = read_hub(self.hub_path, name, hub_split, "task.hub_path", instead)
        return [
            problem_of_row(row, where, f"{self.kind}/{split}/{index}")
            for index, (where, row) in enumerate(rows)
        ]


def gsm8k_problem(row: Row, where: str, problem_id: str) -> Problem:
    """A row's problem: the answer stands after "####", the solution loses its <<…>> annotations.

    `{"question": "…", "answer": "She has 2*3=<<2*3=6>>6.\\n#### 6"}` gives the answer "6" and the
    solution "She has 2*3=6.\\n#### 6". Raises UserError, beginning with `where`, without "####".
    """
    question = text_field(row, "question", where)
    worked = text_field(row, "answer", where)
    answer = extract_hash(worked)
    if answer is None:
        raise UserError(f"{where}: answer must end with '#### <number>', got {worked[-40:]!r}")
    return Problem(problem_id, question, answer, _CALCULATOR_ANNOTATION.sub("", worked))


def math_problem(row: Row, where: str, problem_id: str) -> Problem:
    """A row's problem; without the field `answer`, as in the first release, it is the last box's.

    Where the question asks for several answers, those of all boxes are one list: PRM800K's field
    has the last alone. `{"problem": "…", "solution": "… so $\\boxed{0.5}$.", "answer": "0.5"}` has
    the answer "0.5".
    Raises UserError, beginning with `where`, for a missing field and for a solution without a
    boxed answer: it would demonstrate a response that is graded 0.
    """
    question = text_field(row, "problem", where).strip()
    solution = text_field(row, "solution", where)
    if question.startswith(_EMPTY_BOX_OF_ZERO):
        row, solution = {**row, "answer": "0"}, solution.replace(r"\boxed{}", r"\boxed{0}")
    boxed = boxed_contents(solution)
    if not boxed or not boxed[-1]:
        raise UserError(
            f"{where}: solution must hold its answer in a \\boxed{{}}, got {solution[-40:]!r}"
        )
    answer = text_or_number_field(row, "answer", where) if "answer" in row else boxed[-1]
    if _SEVERAL_ANSWERS.search(question):
        if answer == boxed[-1]:
            answer = ", ".join(dict.fromkeys(boxed))
        elif _BARE_LIST.fullmatch(answer):
            answer = answer.replace(",", ", ")
    return Problem(problem_id, question, answer, solution)


def svamp_problem(row: Row, where: str, problem_id: str) -> Problem:
    """Body and question with a blank between them, as published, also where the body ends amid a
    sentence; the answers are whole numbers written as 51.0.

    `{"Body": "He had 3 cats", "Question": "How many pets?", "Answer": 3.0}` asks "He had 3 cats How
    many pets?" and has the answer "3".
    """
    body = text_field(row, "Body", where).strip()
    question = text_field(row, "Question", where).strip()
    answer = text_or_number_field(row, "Answer", where).removesuffix(".0")
    return Problem(problem_id, f"{body} {question}", answer)


def olympiadbench_problem(row: Row, where: str, problem_id: str) -> Problem:
    """A row's problem; several answers become the list "69, 84", which any order of them matches.

    `{"question": "…", "final_answer": ["$69$,$84$"], "is_multiple_answer": true, "context": null}`.
    Raises UserError, beginning with `where`, for a missing field and for other than one text in
    `final_answer`.
    """
    question = text_field(row, "question", where)
    if row.get("context"):
        question = f"{text_field(row, 'context', where)}\n{question}"
    texts = row.get("final_answer")
    if not isinstance(texts, list) or len(texts) != 1:
        raise UserError(f"{where}: final_answer must be a list of one text, got {texts!r}")
    answer = text_field({"final_answer": texts[0]}, "final_answer", where)
    # The data's own marks around a formula and behind a sentence are no part of the answer.
    answer = answer.replace("$", "").strip().removesuffix(".")
    if row.get("is_multiple_answer"):
        answer = ", ".join(item.strip() for item in list_items(answer))
    return Problem(problem_id, question, answer)


# What turns a row, where it stands, and the problem's id into the problem; and what the hub calls
# the sets. OlympiadBench's one set is its "train".
DATA_SETS: Mapping[str, tuple[Callable[[Row, str, str], Problem], Mapping[Split, str]]] = {
    "gsm8k": (gsm8k_problem, {"train": "train", "test": "test"}),
    "math": (math_problem, {"train": "train", "test": "test"}),
    "svamp": (svamp_problem, {"test": "train+test"}),
    "olympiadbench": (olympiadbench_problem, {"test": "train"}),
}

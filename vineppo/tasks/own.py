"""A user's own problems: JSONL files with one problem a row, or what the user's code makes."""

from vineppo.config.schema import JsonlTaskConfig, PythonTaskConfig
from vineppo.errors import UserError
from vineppo.own_code import OwnFunction
from vineppo.tasks.rows import Row, read_rows, text_field, text_or_number_field
from vineppo.types import Problem, Split


def load(config: JsonlTaskConfig | PythonTaskConfig, split: Split) -> list[Problem]:
    """The problems of a file of rows, or of a file with `load(options, split) -> list[Problem]`."""
    return _load_rows(config, split) if config.kind == "jsonl" else _load_made(config, split)


def _load_made(config: PythonTaskConfig, split: Split) -> list[Problem]:
    """Raises UserError for a file that cannot be run, or returns what is no problem."""
    problems_P = list(OwnFunction(config.path, "load")(config.options, split))
    for row, problem in enumerate(problems_P):
        if not isinstance(problem, Problem):
            raise UserError(
                f"{config.path}: load must return problems, got {problem!r} at row {row}"
            )
    return problems_P


def _load_rows(config: JsonlTaskConfig, split: Split) -> list[Problem]:
    """The problems of `task.train_path` or of `task.test_path`.

    Without `id_field`, the ids count the rows from 0: "jsonl/train/0". With `id_field="name"`, the
    row `{"name": "euler-7", …}` has the id "jsonl/train/euler-7".
    Raises UserError for a row that does not fit, an id that another row of the file has, and when
    no file is named.
    """
    path = config.train_path if split == "train" else config.test_path
    if path is None:
        raise UserError(
            f"task.{split}_path must name a file for task.kind 'jsonl' (null is for "
            "`vineppo evaluate --task`, which reads the test set alone), got null"
        )
    problems_P: list[Problem] = []
    where_of_id: dict[str, str] = {}
    for index, (where, row) in enumerate(read_rows(path)):
        name = str(index)
        if config.id_field is not None:
            name = text_or_number_field(row, config.id_field, where)
            if name in where_of_id:
                first = where_of_id[name]
                raise UserError(
                    f"{where}: {config.id_field} {name!r} must be unique, also at {first}"
                )
            where_of_id[name] = where
        problems_P.append(_problem(config, row, where, f"jsonl/{split}/{name}"))
    return problems_P


def _problem(config: JsonlTaskConfig, row: Row, where: str, problem_id: str) -> Problem:
    solution = None
    if config.solution_field is not None:
        solution = text_field(row, config.solution_field, where)
    return Problem(
        id=problem_id,
        question=text_field(row, config.question_field, where),
        answer=text_or_number_field(row, config.answer_field, where),
        solution=solution,
    )

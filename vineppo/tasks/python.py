"""Problems that a user's own file makes: `load(options, split) -> list[Problem]`."""

from vineppo.config.schema import PythonTaskConfig
from vineppo.errors import UserError
from vineppo.own_code import OwnFunction
from vineppo.types import Problem, Split


def load(config: PythonTaskConfig, split: Split) -> list[Problem]:
    """Raises UserError for a file that cannot be run, or returns what is no problem."""
    problems_P = list(OwnFunction(config.path, "load")(config.options, split))
    for row, problem in enumerate(problems_P):
        if not isinstance(problem, Problem):
            raise UserError(
                f"{config.path}: load must return problems, got {problem!r} at row {row}"
            )
    return problems_P

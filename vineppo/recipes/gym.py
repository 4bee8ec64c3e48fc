"""Families of the library reasoning-gym (https://github.com/open-thought/reasoning-gym).

Only families with one right answer a problem, such as leg_counting or gcd: `task.grading` compares
it with the response's. The graders of other families may accept several answers, and some of them
execute what the policy wrote.
"""

from dataclasses import dataclass, field
from typing import Any

from vineppo.config.schema import Task
from vineppo.config.schema.scalars import Count, Name, Seed
from vineppo.errors import UserError
from vineppo.types import Problem, Split


@dataclass(frozen=True, kw_only=True)
class GymTask(Task):
    """Problems of the family `name`, whose own keys are `options`."""

    name: Name
    options: dict[str, Any] = field(default_factory=dict)
    num_train_problems: Count = 10_000
    num_test_problems: Count = 256
    data_seed: Seed = 0

    def load(self, split: Split) -> list[Problem]:
        """Raises `UserError` for a family that is not there, or has several right answers."""
        try:
            from reasoning_gym.dataset import ProceduralDataset
            from reasoning_gym.factory import DATASETS, create_dataset
        except ImportError as error:
            missing = f"task.kind 'reasoning_gym' needs `pip install reasoning-gym`: {error}"
            raise UserError(missing) from error
        families = [
            name
            for name, (dataset, _) in sorted(DATASETS.items())
            if dataset.score_answer is ProceduralDataset.score_answer
        ]
        if self.name not in families:
            shown = ", ".join(families)
            raise UserError(f"task.name must be one of {shown}; got {self.name!r}")
        is_train = split == "train"
        size = self.num_train_problems if is_train else self.num_test_problems
        seed = 10**7 * (2 * self.data_seed + is_train)  # problem i has the seed + i
        try:
            data = create_dataset(self.name, size=size, seed=seed, **self.options)
        except (TypeError, ValueError, AssertionError) as error:
            raise UserError(f"task.options do not fit {self.name}: {error}") from error
        return [
            Problem(f"{self.name}/{split}/{index}", entry["question"].strip(), str(entry["answer"]))
            for index, entry in enumerate(data)
        ]

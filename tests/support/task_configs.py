"""Task configs for the tests of this folder."""

from functools import partial
from typing import Any

from vineppo.config.schema import GradingConfig, TemplatePrompt
from vineppo.plugins import find
from vineppo.recipes.arithmetic import ArithmeticTask, Demonstrations
from vineppo.recipes.jsonl import JsonlTask
from vineppo.recipes.worded import WordedTask
from vineppo.tasks.published import PublishedTask

GRADING = GradingConfig(
    extraction="hash", reward_path=None, num_workers=1, time_limit_s=5.0, truncated_reward=None,
    num_matching=None,
)  # fmt: skip
COMMON: dict[str, Any] = {
    "prompt": TemplatePrompt(kind="template", template="{question}"),
    "too_long": "refuse",
    "response_template": "{solution}",
    "grading": GRADING,
    "environment": None,
}
MISTAKES = Demonstrations(
    systematic_fraction=0.2, systematic_probability=0.7, random_probability=0.03
)
NO_MISTAKES = Demonstrations(systematic_fraction=0, systematic_probability=0, random_probability=0)


def arithmetic_config(**changes: Any) -> ArithmeticTask:
    values: dict[str, Any] = {
        "kind": "arithmetic",
        "train_path": None,
        "test_path": None,
        "num_train_problems": 300,
        "num_test_problems": 50,
        "min_operations": 4,
        "max_operations": 6,
        "modulus": 10,
        "data_seed": 7,
        "demonstrations": MISTAKES,
    }
    return ArithmeticTask(**{**COMMON, **values, **changes})


def worded_config(**changes: Any) -> WordedTask:
    values: dict[str, Any] = {
        "kind": "worded",
        "layout": "chain",
        "train_path": None,
        "test_path": None,
        "num_train_problems": 300,
        "num_test_problems": 50,
        "num_operations": 4,
        "num_hard_steps": 2,
        "num_hard_facts": 15,
        "wrong_probability": 0.5,
        "repair_probability": 0.0,
        "num_openers": 8,
        "num_remarks": 2,
        "modulus": 10,
        "data_seed": 7,
    }
    return WordedTask(**{**COMMON, **values, **changes})


def published_config(**values: Any) -> PublishedTask:
    nothing = dict.fromkeys(("hub_name", "train_path", "test_path", "num_test_problems"))
    task: PublishedTask = find("task", values["kind"])(**{**COMMON, **nothing, **values})
    return task


gsm8k_config = partial(published_config, kind="gsm8k", hub_path="openai/gsm8k", hub_name="main")
math_config = partial(published_config, kind="math", hub_path="nlile/hendrycks-MATH-benchmark")
svamp_config = partial(published_config, kind="svamp", hub_path="ChilleD/SVAMP")
olympiadbench_config = partial(
    published_config, kind="olympiadbench", hub_path="Hothan/OlympiadBench"
)


def jsonl_config(**changes: Any) -> JsonlTask:
    values: dict[str, Any] = {
        "kind": "jsonl",
        "num_test_problems": None,
        "question_field": "question",
        "answer_field": "answer",
        "solution_field": None,
        "id_field": None,
    }
    return JsonlTask(**{**COMMON, **values, **changes})

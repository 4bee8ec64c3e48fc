"""The files of a page of docs/, by the path that their first line names."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "extending.md"

# What makes a page's runs short.
SMALL = {
    "num_iterations": 2,
    "rollouts.num_prompts": 4,
    "rollouts.num_samples": 4,
    "optimization.batch_size": 16,
    "optimization.micro_batch_size": 16,
    "evaluation.num_samples": 1,
    "task.num_test_problems": 8,
    "logging.wandb_project": "null",
}


def page_files(page: Path = PAGE) -> dict[str, str]:
    blocks = re.findall(
        r"```(?:python|jsonnet)\n(?:#|//) (\S+)\n(.*?)```", page.read_text(), flags=re.S
    )
    return dict(blocks)


def page_predictors(directory: Path) -> dict[str, dict[str, object]]:
    """`values.predictors` with the page's probe and its generative value, put into `directory`."""
    keys: dict[str, dict[str, object]] = {"probe": {}, "asked": {"question": "####", "of": 9}}
    configs = {}
    for name, of_name in keys.items():
        file = directory / f"{name}.py"
        file.write_text(page_files()[f"mine/{name}.py"])
        configs[name] = {"kind": f"{file}:{name.capitalize()}", **of_name}
    return configs

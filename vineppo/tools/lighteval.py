"""A run's test problems as a task of the library lighteval, graded as the run grades them.

The file that lighteval's `--custom-tasks` names is two lines:

    from vineppo.tools.lighteval import lighteval_task
    TASKS_TABLE = [lighteval_task("runs/mine")]
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from transformers import GenerationConfig

from vineppo.errors import UserError, naming
from vineppo.models import find_stop_ids, load_tokenizer
from vineppo.run_dir import RunDir
from vineppo.run_dir.config import read_config
from vineppo.run_dir.files import write_atomic
from vineppo.segment.token_texts import response_text
from vineppo.tasks import load_split
from vineppo.tasks.grading import Grader
from vineppo.tasks.notation import literal, normalize
from vineppo.tasks.prompts import encode_prompt, fill, opened
from vineppo.tools.evaluate_run import choose_policies
from vineppo.types import Problem


def lighteval_task(run: str, task_path: str | None = None) -> Any:
    """A `LightevalTaskConfig` with the metric `reward`, by the name of the run's directory.

    `task_path` names other problems, as `vineppo evaluate --task` does: the task is then
    "mine_math" for `runs/mine` and `math.jsonnet`. lighteval reads them from a file under
    `RUN/lighteval`. Raises `UserError` if lighteval is missing or cannot grade as the run does.
    """
    try:
        from lighteval.metrics.metrics_sample import SampleLevelComputation
        from lighteval.metrics.utils.metric_utils import SampleLevelMetric
        from lighteval.tasks.lighteval_task import LightevalTaskConfig
        from lighteval.tasks.requests import Doc, SamplingMethod
    except ImportError as error:
        raise UserError(f"lighteval_task needs `pip install lighteval`: {error}") from None
    problems = Problems(Path(run), task_path)

    class Reward(SampleLevelComputation):
        def compute(self, responses: Sequence[Any], docs: Sequence[Any], **_: Any) -> list[float]:
            token_ids = [response.output_tokens[0] for response in responses]
            return problems.rewards([doc.specific["id"] for doc in docs], token_ids)

    def as_doc(row: Mapping[str, str], task_name: str) -> Any:
        return Doc(row["prompt"], [row["answer"]], 0, specific=row, task_name=task_name)

    reward = SampleLevelMetric(
        "reward", True, SamplingMethod.GENERATIVE, Reward(), fmean, batched_compute=True
    )
    return LightevalTaskConfig(
        name=problems.name,
        prompt_function=as_doc,
        hf_repo=str(problems.write_rows()),
        hf_subset="default",
        hf_avail_splits=["test"],
        evaluation_splits=["test"],
        metrics=[reward],
        stop_sequence=[],  # its default, a tuple, breaks its own transformers backend
        generation_size=problems.config.sampling.max_tokens,
    )


class Problems:
    """The test problems of a run, or of a task file in its place; knows nothing of lighteval."""

    def __init__(self, run: Path, task_path: str | None = None) -> None:
        self.name = "_".join([run.name, *([Path(task_path).stem] if task_path else [])])
        self.folder = run / "lighteval" / self.name
        self.config = read_config(run, task_path=task_path)
        task = self.config.task
        self._by_id: Mapping[str, Problem] = {p.id: p for p in load_split(task, "test")}
        if task.environment is not None or any(p.context for p in self._by_id.values()):
            raise UserError(f"{run}: lighteval_task must have tasks of one turn and message")
        if task.prompt.kind != "template":
            raise UserError(
                f"{run}: task.prompt.kind must be 'template' for lighteval_task, "
                f"got '{task.prompt.kind}'"
            )
        formula = next(
            (p for p in self._by_id.values() if literal(normalize(p.answer)) is None), None
        )
        if formula is not None and task.grading.reward_path is None:
            raise UserError(
                f"{formula.id}: lighteval_task must have numbers as answers, or "
                f"task.grading.reward_path, got {formula.answer} (lighteval's math-verify is older "
                "than the grader's, and takes equal formulas for different)"
            )
        ((_, policy), *_) = choose_policies(RunDir(run), "last")
        self._tokenizer = load_tokenizer(str(policy), "final or checkpoints")
        generation = GenerationConfig.from_pretrained(policy)
        self._stop_ids = set(find_stop_ids(generation, self._tokenizer))

    def write_rows(self) -> Path:
        """Writes a row with id, prompt and answer a problem; the folder of the file."""
        rows = [
            {"id": p.id, "prompt": self._prompt(p), "answer": p.answer}
            for p in self._by_id.values()
        ]
        lines = "".join(f"{json.dumps(row)}\n" for row in rows)
        write_atomic(self.folder / "test.jsonl", lines.encode())
        return self.folder

    def _prompt(self, problem: Problem) -> str:
        """lighteval has it tokenised, special tokens by their names."""
        config = self.config.task.prompt
        text = fill(config.template, "question", problem.question, key="task.prompt.template")
        text = opened(config, text)
        with naming(problem.id):
            ids = encode_prompt(config, self._tokenizer, problem.question)
        if tuple(self._tokenizer(text)["input_ids"]) != ids:
            raise UserError(
                f"{problem.id}: lighteval_task must have prompts that lighteval tokenises as the "
                f"run does, got {text[:80]!r}"
            )
        return text

    def rewards(self, ids: Sequence[str], token_ids: Sequence[Sequence[int]]) -> list[float]:
        """The reward of each response, by its token ids; without an end token it was cut off."""
        backend = self._tokenizer.backend_tokenizer
        task = self.config.task
        with Grader(task.grading, opening=task.prompt.response_prefix) as grader:
            pending = [
                grader.submit(
                    self._by_id[name],
                    response_text(self._tokenizer, tokens),
                    "length" if self._stop_ids.isdisjoint(tokens) else "stop",
                    tokens,
                    backend.decode(tokens, skip_special_tokens=False),
                )
                for name, tokens in zip(ids, token_ids, strict=True)
            ]
            return [reward.result() for reward in pending]

"""Run directories with rollouts that needed no training: worked solutions of the demo's task."""

from pathlib import Path

from vineppo.config.load import load_config, to_dict
from vineppo.config.schema import TrainConfig
from vineppo.metrics import rollout_rows, value_rows
from vineppo.models import load_tokenizer, resolve_model_path
from vineppo.run_dir import RunDir
from vineppo.segment import token_texts
from vineppo.tasks import load_task
from vineppo.tasks.prompts import encode_prompt
from vineppo.types import Rollout

CONFIGS = Path(__file__).parents[2] / "configs"
NUM_ROLLOUTS = 2  # of a problem: both of them its demonstration


def write_solved_run(path, num_problems=6, iterations=(1,), settings=()):
    """A run of the demo with demonstrations as rollouts, some of which have a slip and are wrong.

    Its only policy is the starting one, which learned from such.
    """
    assignments = ["task.num_train_problems=20", "task.num_test_problems=8", *settings]
    config = load_config(TrainConfig, str(CONFIGS / "demo_vineppo.jsonnet"), assignments)
    run_dir = RunDir.open(path, to_dict(config))
    tokenizer = load_tokenizer(resolve_model_path(config.model.path), "model.path")
    segmenter = config.credit.segmenter
    rollouts = []
    for problem in load_task(config.task).train_P[:num_problems]:
        text = problem.solution
        ids = (*tokenizer(text, add_special_tokens=False).input_ids, tokenizer.eos_token_id)
        prompt_ids = encode_prompt(config.task.prompt, tokenizer, problem.question)
        spans_S = segmenter.spans(token_texts(tokenizer, ids))
        rollouts += [
            Rollout(
                problem=problem,
                rollout_index=index,
                prompt_ids=prompt_ids,
                response_ids=ids,
                logprobs_T=(-0.1,) * len(ids),
                finish_reason="stop",
                text=text,
                reward=float(text.endswith(f"####{problem.answer}")),
                spans_S=spans_S,
                steps_S={"advantages": (0.0,) * len(spans_S)},
            )
            for index in range(NUM_ROLLOUTS)
        ]
    for iteration in iterations:
        run_dir.write_rollouts(iteration, rollout_rows(rollouts))
        run_dir.write_values(iteration, value_rows(rollouts, []))
        run_dir.append_metrics({"iteration": iteration})
    return path

"""The shipped policies solve what their README says, and fail by wrong single steps."""

import pytest

from vineppo.config.load import load_config
from vineppo.config.schema import EvaluationConfig, TrainConfig
from vineppo.distributed import init_distributed
from vineppo.evaluate import evaluate_policy
from vineppo.models import load_model
from vineppo.progress import Progress
from vineppo.rollouts import Prompt, Sampler
from vineppo.tasks import load_task
from vineppo.tasks.grading import Grader
from vineppo.tasks.prompts import encode_prompt

EXPERIMENTS = "../experiments"
SMALL = ["task.num_train_problems=32"]


@pytest.mark.slow
@pytest.mark.usefixtures("_lasting_process_group")
@pytest.mark.parametrize(
    ("leaf", "sampled", "greedy"),
    [
        ("demo_vineppo", (0.30, 0.60), (0.30, 0.70)),
        ("credit_short_vineppo", (0.16, 0.34), (0.24, 0.42)),
        (f"{EXPERIMENTS}/16_by_the_clock/credit_sheet_rloo", (0.14, 0.32), (0.37, 0.56)),
        (f"{EXPERIMENTS}/02_baselines/long_vineppo", (0.20, 0.45), (0.20, 0.55)),
    ],
)
def test_pass_at_1_of_the_start(configs, leaf, sampled, greedy):
    """The bounds leave 3 standard errors (0.028 over 256 problems) around the measured rates."""
    config = load_config(TrainConfig, str(configs / f"{leaf}.jsonnet"), SMALL)
    loaded = load_model(config.model.path, "float32", "sdpa")
    prompts_P = [
        Prompt(problem, encode_prompt(config.task.prompt, loaded.tokenizer, problem.question))
        for problem in load_task(config.task).test_P
    ]
    init_distributed()
    engine = config.engine.build(loaded.engine_model)
    with Grader(config.task.grading) as grader, Progress(1, 0, 0.0) as progress:
        sampler = Sampler(engine, grader, loaded.tokenizer, config.sampling, seed=0)
        scores = evaluate_policy(sampler, prompts_P, EvaluationConfig(0, 2, 1.0, 1.0), 0, progress)
        assert sampled[0] < scores["pass@1"] < sampled[1]
        scores = evaluate_policy(sampler, prompts_P, EvaluationConfig(0, 1, 0.0, 1.0), 0, progress)
        assert greedy[0] < scores["pass@1"] < greedy[1]
        assert scores["truncated_frac"] < 0.05

"""RestEM and DPO-positive: what they train on and towards, and that SIGKILL changes nothing."""

import json
import math
import signal
from dataclasses import replace

import pytest
import torch
from support.processes import run, run_cli
from support.training import CONFIGS, NO_WANDB, WITHOUT_VLLM, assert_same_runs, timeless

from vineppo.config.load import load_config
from vineppo.config.schema import SftConfig
from vineppo.recipes.self_training import DpoPositive, dpo_positive, examples_of, parting
from vineppo.types import Problem, Rollout, StepSpan

SMALL = {
    "self_training.num_iterations": 2,
    "self_training.num_prompts": 12,
    "self_training.num_samples": 6,
    "self_training.num_validation": 5,
    "optimization.num_epochs": 2,
    "optimization.batch_size": 8,
    "optimization.micro_batch_size": 5,
    "task.num_train_problems": 40,
    "task.num_test_problems": 6,
    "evaluation.num_samples": 2,
    **NO_WANDB,
    **WITHOUT_VLLM,
}


RESTEM = str(CONFIGS / "recipes/self_training.jsonnet")
DPO = {"kind": "dpo_positive", "beta": 0.3, "penalty": 50, "segmenter": None}
WITH_DPO = {"self_training.loss": json.dumps(DPO), "optimization.learning_rate": 5e-5}


def arguments(run_dir, own=(), **changes):
    settings = SMALL | dict(own) | {key.replace("__", "."): value for key, value in changes.items()}
    assignments = [f"--set={key}={value}" for key, value in settings.items()]
    return ["sft", RESTEM, f"--run-dir={run_dir}", *assignments]


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    run_dir = tmp_path_factory.mktemp("restem") / "run"
    done = run_cli(arguments(run_dir))
    assert done.returncode == 0, done.stdout + done.stderr
    return run_dir


def answer(problem, ids, reward, finish="stop"):
    return Rollout(
        problem=Problem(problem, "?", "1"),
        rollout_index=0,
        prompt_ids=(1,),
        response_ids=ids,
        logprobs_T=(0.0,) * len(ids),
        finish_reason=finish,
        text="",
        reward=reward,
    )


def examples(*assignments):
    config = load_config(SftConfig, RESTEM, ["self_training.most_right=2", *assignments])
    rollouts = [
        answer("p", (5, 6), 1.0),
        answer("p", (5, 7), 0.0),
        answer("p", (5, 6), 1.0),
        answer("p", (8,), 1.0, "length"),
        answer("p", (9,), 1.0),
        answer("p", (4,), 1.0),
        answer("q", (5, 6), 1.0),
        answer("r", (3,), 0.0),
    ]
    return [
        tuple(sequence.response_ids for sequence in example)
        for example in examples_of(rollouts, config.self_training)
    ]


def test_of_each_problem_some_right_answers_train_each_once():
    assert examples() == [((5, 6),), ((9,),), ((5, 6),)]


def test_pairs_are_of_one_problem():
    assert examples(f"self_training.loss={json.dumps(DPO)}") == [((5, 6), (5, 7)), ((9,), (5, 7))]


@pytest.mark.parametrize(
    ("right", "wrong", "pair"),
    [
        # Steps of two tokens; the longest common beginning is that of the second wrong answer.
        ((1, 2, 3, 4, 5), [(1, 9, 3), (1, 2, 3, 7, 5, 6)], ((7, 1, 2), (3, 4), (3, 7))),
        ((1, 2, 3), [(8, 2, 3)], ((7,), (1, 2), (8, 2))),
        ((1, 2, 3), [(1, 2)], ((7,), (1, 2, 3), (1, 2))),  # cut off where the other goes on
    ],
)
def test_a_pair_of_steps_is_where_two_answers_part(right, wrong, pair):
    def steps(rollout):
        count = len(rollout.response_ids)
        return [StepSpan(start, min(start + 2, count)) for start in range(0, count, 2)]

    found = parting(
        replace(answer("p", right, 1.0), prompt_ids=(7,)),
        [replace(answer("p", ids, 0.0), prompt_ids=(7,)) for ids in wrong],
        steps,
    )
    assert tuple(sequence.response_ids for sequence in found) == pair[1:]
    assert {sequence.prompt_ids for sequence in found} == {pair[0]}


@pytest.mark.parametrize("now", [(-2.0, -3.5), (-0.5, -2.0), (300.0, -900.0), (-900.0, 300.0)])
def test_the_slopes_are_the_losss(now):
    """DPO-positive written down once more, by autograd."""
    own, start = DpoPositive("dpo_positive", 0.3, 5.0, None), (-1.0, -3.0)
    logs = torch.tensor(now, dtype=torch.float64, requires_grad=True)
    right, wrong = logs - torch.tensor(start, dtype=torch.float64)
    z = own.beta * (right - wrong - own.penalty * torch.relu(-right))
    loss = -torch.nn.functional.logsigmoid(z)
    loss.backward()
    value, slopes = dpo_positive(own, now, start)
    assert value == pytest.approx(loss.item())
    assert slopes == pytest.approx(tuple(logs.grad.tolist()))


def test_pairs_train(tmp_path):
    """The loss of the first update is log 2; the second has the same pairs and a lower one."""
    done = run_cli(
        arguments(
            tmp_path, WITH_DPO, self_training__num_iterations=1, optimization__batch_size=1000
        )
    )
    assert done.returncode == 0, done.stderr
    row = timeless(tmp_path)[-1]
    assert row["self_training/grad_norm"] > 0
    assert 0.5 * math.log(2) < row["self_training/loss"] < math.log(2) - 5e-4


def test_what_a_run_leaves(whole_run):
    rows = timeless(whole_run)
    assert [row["iteration"] for row in rows] == [1, 2]
    for row in rows:
        assert 0 < row["self_training/examples"] <= 12 * 4
        assert row["self_training/examples"] <= round(row["reward/mean"] * 12 * 6)
        assert row["tokens/rollout"] > 12 * 6 * 20
        assert row["grading/num_graded"] == 12 * 6
        assert row["self_training/epoch"] in (1.0, 2.0)
    assert {path.name for path in (whole_run / "evaluations").iterdir()} == {
        f"iter_{iteration:06d}.json" for iteration in (0, 1, 2)
    }
    assert not {"start", "best"} & {path.name for path in whole_run.iterdir()}
    config = json.loads((whole_run / "config.json").read_text())
    assert config["self_training"]["restart"] is True


@pytest.mark.slow
def test_sigkill_changes_nothing(whole_run, tmp_path):
    """In the first iteration, and between the second one's epochs."""
    run_dir = tmp_path / "killed"
    for path in ("best", "checkpoints/iter_000001"):
        where = "support.training.main_killed_once"
        done = run(where, run_dir / path, arguments(run_dir))
        assert done.returncode == -signal.SIGKILL, done.stdout + done.stderr
    done = run_cli(arguments(run_dir))
    assert done.returncode == 0, done.stderr
    assert "resumed after iteration 1" in done.stdout
    assert_same_runs(run_dir, whole_run)


def test_too_many_validation_problems_are_one_line(tmp_path):
    changes = {"self_training__num_validation": 30, "model__path": "nowhere"}
    done = run_cli(arguments(tmp_path / "run", **changes))
    assert done.returncode == 2
    assert "must together be at most the 40 train problems" in done.stderr
    assert done.stderr.count("\n") == 1

"""Small runs on the disk, written through RunDir, whose every number is known."""

import random
import shutil

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from vineppo.metrics import rollout_rows, value_rows
from vineppo.run_dir import RunDir
from vineppo.types import MONTE_CARLO, Problem, Rollout, StateValue, StepSpan

NUM_ITERATIONS = 12
NUM_PROBLEMS = 100
NUM_SAMPLES = 4
PHASES = {"rollout": 2.0, "values": 5.0, "grading": 0.5, "update": 2.0, "sync": 0.25}


def write_tokenizer(path):
    alphabet = ["</s>", *"0123456789+-*=#? \n<&", "😀"]
    vocab = {char: index for index, char in enumerate(alphabet)}
    backend = Tokenizer(models.WordLevel(vocab, "</s>"))
    backend.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    backend.decoder = decoders.Fuse()
    path.mkdir(parents=True)
    backend.save(str(path / "tokenizer.json"))
    return vocab


def make_rollout(vocab, number, index):
    text = f"{number}+1={number + 1}\n<{number}&2\n#{number + 1}"
    ids = (*(vocab[char] for char in text), vocab["</s>"])
    return Rollout(
        problem=Problem(f"sum/{number}", f"{number}+1?", str(number + 1)),
        rollout_index=index,
        prompt_ids=tuple(vocab[char] for char in f"{number}+1?"),
        response_ids=ids,
        logprobs_T=(-0.1,) * len(ids),
        finish_reason="stop",
        text=text,
        reward=float(index % 2),
    )


def write_tables(run_dir, vocab, iteration):
    rollouts = [make_rollout(vocab, number, index) for number in range(3) for index in range(2)]
    for rollout in rollouts:
        rollout.spans_S = (
            StepSpan(0, 6),
            StepSpan(6, 11),
            StepSpan(11, len(rollout.response_ids)),
        )
        rollout.returns_S[MONTE_CARLO] = (
            StateValue((0.0, 1.0, 0.0, 1.0), 40),
            StateValue((1.0, 1.0, 1.0, 0.0), 30),
            StateValue((0.0, 0.0, 0.0, 0.0), 20),
        )
        rollout.steps_S["advantages"] = (0.25, -0.75, rollout.reward)
    run_dir.write_rollouts(iteration, rollout_rows(rollouts))
    run_dir.write_values(iteration, value_rows(rollouts, [MONTE_CARLO]))


def write_run(path, name="vine", seed=0, gain=0.04):
    """A run whose accuracy grows by `gain` an iteration and whose iteration takes 10 s."""
    generator = random.Random(f"{name} {seed}")
    config = {"name": name, "seed": seed, "credit": {"kind": name}, "model": {"path": "nowhere"}}
    run_dir = RunDir.open(path, config)
    vocab = write_tokenizer(path / "final" / "policy")
    for iteration in range(NUM_ITERATIONS + 1):
        accuracy = 0.3 + gain * iteration
        if iteration % 4 == 0:
            counts_P = [
                sum(generator.random() < accuracy for _ in range(NUM_SAMPLES))
                for _ in range(NUM_PROBLEMS)
            ]
            evaluation = {
                "pass@1": sum(counts_P) / NUM_PROBLEMS / NUM_SAMPLES,
                "num_problems": NUM_PROBLEMS,
                "samples_per_problem": NUM_SAMPLES,
                "num_correct_P": counts_P,
            }
            run_dir.write_evaluation(iteration, evaluation)
        if iteration > 0:
            run_dir.append_metrics(
                {
                    "iteration": iteration,
                    "reward/mean": accuracy + generator.gauss(0, 0.02),
                    "kl/ref": 0.002 * iteration,
                    "rollout/response_length_mean": 30 + generator.gauss(0, 1),
                    "tokens/rollout": 8_000,
                    "tokens/values": 40_000,
                    "time/total_s": 10.0,
                    "time/elapsed_s": 10.0 * iteration,
                    **{f"time/{phase}_s": seconds for phase, seconds in PHASES.items()},
                }
            )
    write_tables(run_dir, vocab, NUM_ITERATIONS)
    return path


@pytest.fixture
def run_path(tmp_path):
    return write_run(tmp_path / "run")


@pytest.fixture
def two_run_paths(run_path, tmp_path):
    return run_path, write_run(tmp_path / "gae", name="gae <b>", seed=1, gain=0.02)


def set_scores(path, scores):
    """Writes the run's pass@1 over, for the evaluations at 0, 4, 8 and 12; keeps their counts."""
    run_dir = RunDir(path)
    for iteration, score in zip((0, 4, 8, 12), scores, strict=True):
        run_dir.write_evaluation(iteration, run_dir.read_evaluation(iteration) | {"pass@1": score})
    return path


@pytest.fixture(scope="session")
def built_methods(tmp_path_factory):
    folder = tmp_path_factory.mktemp("methods")
    ends = {"vine": {3: 0.5, 1: 0.75, 5: 1.0, 2: 0.625, 4: 0.875}, "grpo": {7: 0.5}}
    for name, by_seed in ends.items():
        for seed, end in by_seed.items():
            middle = 0.5 if name == "vine" else 0.75
            set_scores(write_run(folder / f"{name}_{seed}", name, seed), (0.25, 0.5, middle, end))
    for seed, start, end in ((1, 0.25, 0.625), (2, 0.125, 0.75), (3, 0.375, 0.25)):
        set_scores(write_run(folder / f"ppo_{seed}", "ppo", seed), (start, 0.5, 0.5, end))
    return folder


@pytest.fixture
def methods_paths(built_methods, tmp_path):
    """Five seeds of `vine` in no order, three of `ppo`, one of `grpo`."""
    shutil.copytree(built_methods, tmp_path / "runs")
    names = [f"vine_{seed}" for seed in (3, 1, 5, 2, 4)] + ["ppo_1", "ppo_2", "ppo_3", "grpo_7"]
    return [tmp_path / "runs" / name for name in names]

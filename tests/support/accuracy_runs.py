"""Runs with ground truth whose every value, prediction and count is chosen, written to the disk."""

import json
from dataclasses import dataclass, replace

import numpy as np

from analysis.truth import TruthState, truth_path, write_truth
from analysis.value_accuracy import make_cells
from analysis.value_states import BOUNDARIES, read_states, strata
from vineppo.run_dir import RunDir

STEP = 10  # tokens of a step
CONFIG = {
    "name": "vine",
    "seed": 1,
    "task": {"kind": "arithmetic", "modulus": 10},
    "credit": {"kind": "vine", "num_continuations": 2},
}


@dataclass(frozen=True)
class Fact:
    """A state before a step, what the run believes of it and what its fresh continuations gave."""

    problem: str
    rollout: int
    step: int
    reward: float
    num_correct: int
    draws: tuple[int, ...] = ()
    returns: tuple[int, ...] = ()
    critic: float | None = None


def write_run(path, facts, num_steps, num_samples, config=CONFIG, checkpoint=0, iteration=1):
    """A run with the rollouts and values of an iteration, and its truth in its own folder."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(json.dumps(config))
    run_dir = RunDir(path)
    rollouts = {(fact.problem, fact.rollout): fact.reward for fact in facts}
    run_dir.write_rollouts(iteration, [rollout_row(*key, num_steps) for key in rollouts.items()])
    run_dir.write_values(iteration, [value_row(fact) for fact in facts])
    truth = [truth_state(fact, num_steps, num_samples, checkpoint, iteration) for fact in facts]
    write_truth(table_of(path, checkpoint), truth)
    return path


def table_of(path, checkpoint=0):
    return truth_path(path / "analysis" / "ground-truth", path, checkpoint)


def rollout_row(key, reward, num_steps):
    length = num_steps * STEP
    return {
        "problem_id": key[0],
        "rollout_index": key[1],
        "prompt_ids": [1],
        "response_ids": [2] * length,
        "logprobs": [-0.1] * length,
        "text": "",
        "reward": reward,
        "finish_reason": "stop",
        "step_starts": [STEP * step for step in range(num_steps)],
        "advantages_S": [0.0] * num_steps,
    }


def value_row(fact):
    return {
        "problem_id": fact.problem,
        "rollout_index": fact.rollout,
        "step_index": fact.step,
        "prefix_length": STEP * fact.step,
        "returns_K": fact.returns,
        "num_tokens": 0,
        "critic_value": fact.critic,
    }


def truth_state(fact, num_steps, num_samples, checkpoint, iteration):
    return TruthState(
        checkpoint=checkpoint, rollout_iteration=iteration, problem_id=fact.problem,
        rollout_index=fact.rollout, step_index=fact.step, num_steps=num_steps,
        prefix_length=STEP * fact.step, response_length=STEP * num_steps, reward=fact.reward,
        num_samples=num_samples, num_correct=fact.num_correct, num_truncated=0, num_tokens=40,
        draws_D=fact.draws,
    )  # fmt: skip


# Two problems of two rollouts of two steps: the query states, then the boundaries.
TINY = (
    Fact("a", 0, 0, 1.0, 2, (1, 0), (1, 1), 0.4),
    Fact("b", 0, 0, 1.0, 3, (0, 0), (0, 1), 0.8),
    Fact("a", 0, 1, 1.0, 1, (0, 1), (1, 0), 0.5),
    Fact("a", 1, 1, 0.0, 2, (1, 1), (0, 0), 0.5),
    Fact("b", 0, 1, 1.0, 4, (1, 1), (1, 1), 0.75),
    Fact("b", 1, 1, 1.0, 0, (0, 0), (0, 1), 0.25),
)
TINY_SAMPLES = 4


def write_tiny(path, facts=TINY, **changes):
    options = {key: changes.pop(key) for key in ("checkpoint", "iteration") if key in changes}
    return write_run(path, facts, 2, TINY_SAMPLES, CONFIG | changes, **options)


# A simulated run: values of problems and of the states of each, of which 16 returns are known.
NUM_SAMPLES = 16
NUM_PROBLEMS, NUM_ROLLOUTS, NUM_STEPS = 60, 4, 5
NUM_DRAWS = 9
BIAS, NOISE = 0.08, 0.1  # of the critic
SHIFT = 0.15  # of the policy that the training's returns are of


def simulate(seed):
    """The facts of a run, and the true values and critic's errors of its states."""
    generator = np.random.default_rng(seed)
    facts, values = [], []
    for problem in range(NUM_PROBLEMS):
        mean = generator.uniform(0.3, 0.7)
        for rollout in range(NUM_ROLLOUTS):
            reward = float(generator.random() < mean)
            for step in range(1, NUM_STEPS):
                value = mean + generator.uniform(-0.25, 0.25)
                critic = value + BIAS + NOISE * generator.normal()
                fact = Fact(
                    problem=f"p{problem}",
                    rollout=rollout,
                    step=step,
                    reward=reward,
                    num_correct=int(generator.binomial(NUM_SAMPLES, value)),
                    draws=tuple(map(int, generator.random(NUM_DRAWS) < value)),
                    returns=tuple(map(int, generator.random(NUM_DRAWS) < value + SHIFT)),
                    critic=float(np.float32(critic)),
                )
                facts.append(fact)
                values.append(value)
    return facts, np.array(values)


def write_simulated(path, facts, seed=1):
    config = CONFIG | {"seed": seed, "credit": {"kind": "vine", "num_continuations": NUM_DRAWS}}
    return write_run(path, facts, NUM_STEPS, NUM_SAMPLES, config)


def changed(facts, index, **changes):
    """The facts with one of them replaced."""
    facts = list(facts)
    facts[index] = replace(facts[index], **changes)
    return facts


QUICK = {"num_resamples": 50}


def states_of(*paths, predictors=None, continuations=(1,)):
    states = read_states(paths, paths[0] / "out", [], continuations)
    return states[states["predictor"].isin(predictors or states["predictor"])]


def cells_of(*paths, **wanted):
    """The step boundaries of runs as cells, by seeds and predictor."""
    cells = make_cells(states_of(*paths, **wanted))
    return {
        (cell.about["seeds"], cell.about["predictor"]): cell.where(strata(cell)[BOUNDARIES])
        for cell in cells
    }


def metric_of(scores, **wanted):
    """Rows of the long table by metric, of the one predictor and stratum that is wanted."""
    for column, value in wanted.items():
        scores = scores[scores[column] == value]
    assert scores["metric"].is_unique
    return scores.set_index("metric")["value"]

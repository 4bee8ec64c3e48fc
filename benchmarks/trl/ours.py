"""Our side of `benchmarks/trl_grpo.py`: one iteration on command, with the pieces of training.

`python -m benchmarks.trl.ours SPEC.json [shared]`, with the transformers engine where `shared`. An
iteration is what `run_iterations` in `vineppo/train.py` does, without its tables: sample and grade,
score, update, sync.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.trl.protocol import Channel, Message
from benchmarks.workload import with_shared_prefixes
from vineppo.cli import quiet_libraries
from vineppo.config.load import parse_config
from vineppo.config.schema import TrainConfig
from vineppo.distributed import init_distributed
from vineppo.experience import add_advantages, add_logprobs, sample
from vineppo.metrics import logprob_gap_metrics
from vineppo.models import load_model
from vineppo.policy import Policy, Reference
from vineppo.progress import Progress
from vineppo.rollouts import Prompt, Sampler
from vineppo.tasks.grading import Grader
from vineppo.train import build_reference_pass
from vineppo.types import Problem
from vineppo.update import update_policy


def main() -> None:
    channel = Channel()
    quiet_libraries()
    spec = json.loads(Path(sys.argv[1]).read_text())
    config = parse_config(TrainConfig, spec["config"])
    if sys.argv[2:] == ["shared"]:
        config = with_shared_prefixes(config)
    prompts_P = [
        Prompt(Problem(row["id"], row["question"], row["answer"]), tuple(row["token_ids"]))
        for row in spec["prompts"]
    ]
    with open_iterations(config) as iterations:
        channel.say({"ready": {p: version(p) for p in ("torch", "transformers", "deepspeed")}})
        size, iteration = config.rollouts.num_prompts, 0
        while channel.wait():
            iteration += 1
            chosen_P = prompts_P[(iteration - 1) * size : iteration * size]
            channel.say(iterations.run(chosen_P, iteration))


@dataclass(frozen=True)
class Iterations:
    """The parts that an iteration needs."""

    config: TrainConfig
    sampler: Sampler
    policy: Policy
    reference: Reference

    def run(self, prompts_P: list[Prompt], iteration: int) -> Message:
        """Seconds by phase, and numbers that compare the two sides."""
        config, engine, policy = self.config, self.sampler.engine, self.policy
        kl_coef, progress = config.reference.kl_coef, Progress(1, 0, 0.0)
        progress.restart()
        reference_pass = build_reference_pass(config, self.reference, policy.device)
        rollouts = sample(
            self.sampler, prompts_P, config, [], iteration, progress, reference_pass
        ).rollouts
        progress.enter("sync")
        engine.sleep()
        progress.enter("logprobs")
        add_logprobs(rollouts, policy, self.reference, [], config)
        add_advantages(rollouts, [], config, kl_coef)
        progress.enter("update")
        metrics = update_policy(policy, rollouts, [], self.reference, config, iteration, kl_coef)
        progress.enter("sync")
        engine.wake()
        engine.load_weights(policy.named_weights())
        times = progress.take_times()
        return {
            "seconds": times["time/total_s"],
            "phases": {
                "generation": times["time/rollout_s"],
                "scoring": times["time/logprobs_s"] + times["time/grading_s"],
                "update": times["time/update_s"],
                "sync": times["time/sync_s"],
            },
            "tokens": sum(len(rollout.response_ids) for rollout in rollouts),
            "reward": sum(rollout.reward for rollout in rollouts) / len(rollouts),
            "gap_mean": logprob_gap_metrics(rollouts)["rollout/engine_logprob_gap_mean"],
            "grad_norm": metrics["policy/grad_norm"],
        }


@contextmanager
def open_iterations(config: TrainConfig) -> Iterator[Iterations]:
    """Engine, policy, reference and grader, all with the starting weights."""
    loaded = load_model(config.model.path, config.model.dtype, config.model.attention)
    reference = Reference(config.reference, config.model, loaded)
    with Grader(config.task.grading) as grader:
        init_distributed()
        engine: Any = config.engine.build(loaded.engine_model)
        engine.sleep()
        policy = Policy(loaded, config.optimization, config.model.gradient_checkpointing)
        reference.to(policy.device)
        engine.wake()
        engine.load_weights(policy.named_weights())
        sampler = Sampler(engine, grader, loaded.tokenizer, config.sampling, config.seed)
        yield Iterations(config, sampler, policy, reference)


if __name__ == "__main__":
    main()

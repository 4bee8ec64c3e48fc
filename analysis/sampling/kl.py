"""Responses of a policy as it samples, and the exact KL to the starting policy along them."""

import random
from collections.abc import Sequence
from typing import Any

import torch

from analysis.sampling.journal import Journal
from analysis.sampling.policies import Checkpoint, Policies
from analysis.sampling.rollouts import sample_responses
from vineppo.config.schema import TrainConfig
from vineppo.forward_passes import Rows, token_columns
from vineppo.rollouts import Prompt
from vineppo.seeds import derive_seed
from vineppo.token_scores import ForwardOptions, Reference, TokenLogprobs
from vineppo.types import Rollout, TrainBatch

STREAM = "kl-efficiency"


def kl_rows(
    policies: Policies,
    checkpoint: Checkpoint,
    journal: Journal,  # noqa: ARG001
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """A row a response to a test problem, by the checkpoint's policy; nothing to note besides."""
    settings = checkpoint.settings
    model = policies.load(checkpoint.policy_path)
    prompts_P = choose_prompts(policies.test_P, settings["num_problems"], settings["seed"])
    rollouts = sample_responses(
        policies.sampler, prompts_P, settings["num_samples"], (checkpoint.iteration, STREAM),
        checkpoint.title,
    )  # fmt: skip
    with policies.engine_asleep():
        module = TokenLogprobs(model, policies.loaded.engine_model.num_token_ids)
        kl = exact_kl(module, policies.start, rollouts, policies.config)
    rows = [
        {
            "problem_id": rollout.problem.id,
            "sample_index": rollout.rollout_index,
            "num_tokens": len(kl_T),
            "kl": float(sum(kl_T)),
            "reward": rollout.reward,
            "is_truncated": rollout.finish_reason == "length",
        }
        for rollout, kl_T in zip(rollouts, kl, strict=True)
    ]
    return rows, {}


def exact_kl(
    module: TokenLogprobs, start: Reference, rollouts: Sequence[Rollout], config: TrainConfig
) -> Rows:
    """KL(π(· | s_t) ‖ π_start(· | s_t)) in nats at every token t of every response.

    Over the whole vocabulary, both at the training temperature; a top_p below 1 is left out of
    account, as beyond its cut the starting policy has no probability to compare with.
    """
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    start.to(device)
    module.to(device).eval()
    options = ForwardOptions(config.sampling.temperature, reference=start)

    def forward(batch: TrainBatch) -> tuple[torch.Tensor]:
        return (module(batch, options)[2],)

    size = config.optimization.logprobs_micro_batch_size
    (kl,) = token_columns(forward, rollouts, size, device)
    start.to(torch.device("cpu"))
    return kl


def choose_prompts(prompts_P: Sequence[Prompt], num_problems: int, seed: int) -> list[Prompt]:
    """A seeded sample of the problems, the same for every run and checkpoint; at most all."""
    count = min(num_problems, len(prompts_P))
    chosen = random.Random(derive_seed(seed, STREAM, "problems")).sample(
        range(len(prompts_P)), count
    )
    return [prompts_P[place] for place in sorted(chosen)]

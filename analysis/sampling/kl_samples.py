"""Responses of a policy as it samples, and the exact KL to the starting policy along them."""

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from vineppo.scoring import Rows, score_tokens

from analysis.kl_efficiency.samples import KlSample, write_samples
from analysis.sampling.fresh import sample_drafts
from analysis.sampling.policies import Policies
from analysis.sampling.settings_file import write_settings
from vineppo.config.schema import TrainConfig
from vineppo.models import LoadedModel
from vineppo.rollouts import Prompt
from vineppo.seeds import derive_seed
from vineppo.token_scores import ForwardOptions, Reference, TokenLogprobs
from vineppo.types import Rollout, TrainBatch

PHASE = "kl-efficiency"


def starting_policy(config: TrainConfig, loaded: LoadedModel) -> Reference:
    """The starting policy as a reference, whatever the run's own is."""
    start = Reference(replace(config.reference, path=None), config.model, loaded)
    start.to(_device())
    return start


def make_samples(
    policies: Policies, start: Reference, policy_path: str, target: Path, settings: dict[str, Any]
) -> None:
    """Writes the table `target` of the checkpoint that `settings` name."""
    checkpoint = settings["checkpoint"]
    model = policies.load(policy_path)
    prompts_P = choose_prompts(policies.test_P, settings["num_problems"], settings["seed"])
    drafts = sample_drafts(
        policies, prompts_P, settings["num_samples"], checkpoint, PHASE,
        f"{settings['run']}, checkpoint {checkpoint}",
    )  # fmt: skip
    rollouts = [draft.settle() for draft in drafts]
    module = TokenLogprobs(model, policies.loaded.engine_model.num_token_ids)
    kl = exact_kl(module.to(_device()).eval(), start, rollouts, policies.config)
    samples = [
        KlSample(
            problem_id=rollout.problem.id,
            sample_index=rollout.rollout_index,
            num_tokens=len(kl_T),
            kl=float(sum(kl_T)),
            reward=rollout.reward,
            is_truncated=rollout.finish_reason == "length",
        )
        for rollout, kl_T in zip(rollouts, kl, strict=True)
    ]
    write_samples(target, samples)
    write_settings(target, settings)


def exact_kl(
    module: TokenLogprobs, start: Reference, rollouts: Sequence[Rollout], config: TrainConfig
) -> Rows:
    """KL(π(· | s_t) ‖ π_start(· | s_t)) in nats at every token t of every response.

    Over the whole vocabulary, both at the training temperature; a top_p below 1 is left out of
    account, as beyond its cut the starting policy has no probability to compare with.
    """
    options = ForwardOptions(config.sampling.temperature, reference=start)

    def forward(batch: TrainBatch) -> tuple[torch.Tensor]:
        return (module(batch, options)[2],)

    size = config.optimization.logprobs_micro_batch_size
    (kl,) = score_tokens(forward, rollouts, size, _device())
    return kl


def choose_prompts(prompts_P: Sequence[Prompt], num_problems: int, seed: int) -> list[Prompt]:
    """A seeded sample of the problems, the same for every run and checkpoint; at most all."""
    count = min(num_problems, len(prompts_P))
    chosen = random.Random(derive_seed(seed, PHASE, "problems")).sample(
        range(len(prompts_P)), count
    )
    return [prompts_P[place] for place in sorted(chosen)]


def _device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")

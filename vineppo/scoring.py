"""The passes without gradient over an iteration's experience, and the credit that follows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, groupby

import torch

from vineppo.batching import collate, ranks_share, response_rows
from vineppo.config.schema import TrainConfig
from vineppo.credit import token_advantages
from vineppo.credit.gae import outcome_returns
from vineppo.credit.steps import step_means
from vineppo.critic import Critic, SharedValueHead
from vineppo.distributed import gather_lists, num_ranks, rank
from vineppo.experience import Experience
from vineppo.kl import KL_ESTIMATORS
from vineppo.metrics import explained_variance, kl_metrics, logprob_gap_metrics
from vineppo.policy import Policy
from vineppo.sequences import Rows, Scores, build_sequences, trajectories
from vineppo.token_scores import ForwardOptions, Reference
from vineppo.types import Rollout, TrainBatch, TrainSequence


@dataclass(frozen=True)
class Scored:
    """Everything the update and the tables need. Advantages are those before whitening."""

    sequences: list[TrainSequence]
    advantages_T: list[list[float]]
    advantages_S: list[list[float]]
    values: Rows | None
    returns_T: list[list[float]]  # the actual rewards to go
    metrics: dict[str, float]


def score_tokens(
    forward: Callable[[TrainBatch], Sequence[torch.Tensor]],
    rollouts: Sequence[Rollout],
    micro_batch_size: int,
    device: torch.device,
) -> list[Rows]:
    """What `forward` says of every response token, without gradient; one `Rows` a tensor.

    Every rank scores its share, and has all of them in the end.
    """
    sequences = [TrainSequence.blank(r.prompt_ids, r.response_ids) for r in rollouts]
    mine: list[tuple[int, tuple[tuple[float, ...], ...]]] = []
    for share in ranks_share([len(s) for s in sequences], micro_batch_size, rank(), num_ranks()):
        batch = collate([sequences[i] for i in share], device)
        with torch.no_grad():
            outputs = forward(batch)
        mine += zip(share, response_rows(outputs, batch), strict=False)  # an empty share has a row
    scored = [rows for _, rows in sorted(gather_lists(mine), key=lambda item: item[0])]
    return [list(column) for column in zip(*scored, strict=True)]


def score_rollouts(
    experience: Experience,
    policy: Policy,
    critic: Critic | None,
    reference: Reference,
    config: TrainConfig,
) -> Scores:
    """The passes without gradient: policy, critic, and the reference where nothing had it yet."""
    rollouts = experience.rollouts
    size = config.optimization.logprobs_micro_batch_size
    temperature = config.sampling.temperature
    is_exact = config.reference.kl_estimator == "full"
    is_shared = isinstance(critic, SharedValueHead)
    options = ForwardOptions(temperature, reference=reference if is_exact else None)

    def of_policy(batch: TrainBatch) -> list[torch.Tensor]:
        """Only what these options fill: every further tensor is brought to the host for nothing."""
        scores = policy.scores(batch, options)
        found = [scores.logprobs_BT]
        if is_exact:
            found += [scores.kl_BT, scores.ref_logprobs_BT]
        return [*found, scores.value_outputs_BT] if is_shared else found

    def of_reference(batch: TrainBatch) -> tuple[torch.Tensor]:
        return (reference.logprobs(batch, temperature),)

    trainer, *others = score_tokens(of_policy, rollouts, size, policy.device)
    if is_exact:
        kl, ref = others[:2]
    else:
        if experience.ref_logprobs is not None:
            ref = experience.ref_logprobs
        else:
            (ref,) = score_tokens(of_reference, rollouts, size, policy.device)
        estimate = KL_ESTIMATORS[config.reference.kl_estimator]
        kl = [
            tuple(estimate(torch.tensor(now), torch.tensor(then)).tolist())
            for now, then in zip(trainer, ref, strict=True)
        ]
    values = None
    if isinstance(critic, SharedValueHead):
        values = [critic.values_of_outputs(row) for row in others[-1]]
    elif critic is not None:
        value = critic.values
        (values,) = score_tokens(lambda batch: (value(batch),), rollouts, size, policy.device)
    return Scores(trainer, ref, kl, values)


def score(
    experience: Experience,
    policy: Policy,
    critic: Critic | None,
    reference: Reference,
    config: TrainConfig,
    kl_coef: float,
) -> Scored:
    """Training sequences, raw advantages, and the metrics of the passes without gradient."""
    rollouts = experience.rollouts
    scores = score_rollouts(experience, policy, critic, reference, config)
    found = trajectories(experience, scores, config, kl_coef)
    advantages_T: list[list[float]] = []
    pairs = zip(rollouts, found, strict=True)
    for _, group in groupby(pairs, key=lambda pair: pair[0].problem.id):
        advantages_T += token_advantages(config.credit, [trajectory for _, trajectory in group])
    engine = [rollout.logprobs_T for rollout in rollouts]
    returns_T = [outcome_returns(config.credit, trajectory) for trajectory in found]
    metrics = {**logprob_gap_metrics(engine, scores.trainer), **kl_metrics(scores.kl, kl_coef)}
    if scores.values is not None:
        flat_values, flat_returns = chain(*scores.values), chain(*returns_T)
        metrics["critic/explained_variance"] = explained_variance([*flat_values], [*flat_returns])
    return Scored(
        sequences=build_sequences(experience, scores, advantages_T, found, config),
        advantages_T=advantages_T,
        advantages_S=[
            step_means(advantages, spans)
            for advantages, spans in zip(advantages_T, experience.spans_S, strict=True)
        ],
        values=scores.values,
        returns_T=returns_T,
        metrics=metrics,
    )

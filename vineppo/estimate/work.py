"""The tokens of an iteration by kind, the operations they cost, and the seconds. Pure."""

from dataclasses import dataclass

from vineppo.config.schema import (
    EngineConfig,
    RemaxCredit,
    SftConfig,
    TrainConfig,
    TransformersConfig,
)


@dataclass(frozen=True)
class Lengths:
    """Means that no config fixes: tokens of a prompt and of a response, steps of a response."""

    prompt: float
    response: float
    steps: float

    @property
    def sequence(self) -> float:
        return self.prompt + self.response


@dataclass(frozen=True)
class SampledTokens:
    """What the engines of all ranks sample, and the prefixes that they are fed, in tokens.

    `rollouts` includes ReMax's greedy responses. `fed` is what is left to compute where prefixes
    are cached, `prefixes` what it would be without a cache. `num_requests` counts responses and
    continuations.
    """

    num_requests: float
    rollouts: float
    num_states: float
    num_continuations: float
    continuations: float
    prefixes: float
    fed: float


@dataclass(frozen=True)
class TrainedTokens:
    """Tokens, prompts included, that pass each model of the trainer in an iteration, all epochs."""

    scored: float
    reference: float
    critic_scored: float
    updated: float
    critic_updated: float


def sampled_tokens(config: TrainConfig, lengths: Lengths) -> SampledTokens:
    """Sampling of one iteration of reinforcement learning.

    A state at step i of S has i/S of the response behind it, and its continuations are as long as
    what was left of it. Of a cached prefix only what does not fill a block is computed, on average
    (block + 1)/2 tokens. With `credit.identical_prefixes` "share" the G rollouts of a prompt have
    one state s_0 together and no other; the rest of their states are taken to be distinct. Every
    Monte-Carlo predictor of the run samples its own.

    P = 2, G = 3, K = 5, S = 4, prompts of 10 and responses of 20 tokens, shared: 2 · (1 + 3 · 3) =
    20 states, 100 continuations of Σ = 5 · 2 · (20 + 3 · (15 + 10 + 5)) = 1,100 tokens.
    """
    num_prompts, num_samples = config.rollouts.num_prompts, config.rollouts.num_samples
    num_rollouts = num_prompts * num_samples
    greedy = num_prompts if isinstance(config.credit, RemaxCredit) else 0
    states, continuations, continued, behind = 0.0, 0.0, 0.0, 0.0
    for own in (config.credit, *config.values.predictors.values()):
        if (values := own.monte_carlo) is None:
            continue
        each = values.num_continuations
        is_shared = values.identical_prefixes == "share"
        first = num_prompts if is_shared else num_rollouts
        # Σ over i = 1 … S−1 of i/S, which is also that of 1 − i/S.
        later = num_rollouts * (lengths.steps - 1) / 2 * lengths.response
        num_states = first + num_rollouts * (lengths.steps - 1)
        states += num_states
        continuations += each * num_states
        continued += each * (first * lengths.response + later)
        behind += each * later
    num_requests = num_rollouts + greedy + continuations
    prefixes = num_requests * lengths.prompt + behind
    fed, block = prefixes, cached_block(config.engine)
    if block is not None:
        remainder = min(lengths.prompt, (block + 1) / 2)
        fed = num_prompts * lengths.prompt + (num_requests - num_prompts) * remainder
    return SampledTokens(
        num_requests=num_requests,
        rollouts=(num_rollouts + greedy) * lengths.response,
        num_states=states,
        num_continuations=continuations,
        continuations=continued,
        prefixes=prefixes,
        fed=fed,
    )


def cached_block(engine: EngineConfig) -> int | None:
    """Tokens that the prefix cache holds as one; None without a cache."""
    if isinstance(engine, TransformersConfig):
        return 1
    return engine.block_size if engine.prefix_caching else None


def trained_tokens(config: TrainConfig | SftConfig, lengths: Lengths) -> TrainedTokens:
    """Passes of the trainer in an iteration; for fine-tuning, in one update."""
    if isinstance(config, SftConfig):
        return TrainedTokens(0, 0, 0, config.optimization.batch_size * lengths.sequence, 0)
    tokens = config.rollouts.num_prompts * config.rollouts.num_samples * lengths.sequence
    critic = config.separate_critic
    is_exact = config.reference.kl_estimator == "full" and config.reference.kl_in == "loss"
    epochs = config.optimization.num_epochs
    return TrainedTokens(
        scored=tokens,
        reference=tokens * (1 + epochs * is_exact),
        critic_scored=tokens if critic is not None else 0,
        updated=tokens * epochs,
        critic_updated=tokens * critic.num_epochs if critic is not None else 0,
    )


def training_operations(
    parameters: int, num_tokens: float, is_checkpointed: bool, is_adapted: bool = False
) -> float:
    """Forward and backward, 6 operations a parameter and token.

    2 more where activations are recomputed, 2 fewer where the weights themselves do not train.
    Kaplan et al. 2020 (arXiv:2001.08361, section 2.1); attention's own products are left out.
    """
    return (6 + 2 * is_checkpointed - 2 * is_adapted) * parameters * num_tokens


def scoring_operations(parameters: int, num_tokens: float) -> float:
    """Forward alone: 2 operations a parameter and token."""
    return 2 * parameters * num_tokens


def operations(
    policy_parameters: int,
    critic_parameters: int,
    sampled: SampledTokens | None,
    trained: TrainedTokens,
    is_checkpointed: bool,
    is_adapted: bool,
) -> dict[str, float]:
    """Operations of an iteration by phase, over all ranks; the reference is as large as the policy.

    "prefixes" are those that the engine is fed.
    """
    by_phase: dict[str, float] = {}
    if sampled is not None:
        by_phase = {
            "rollouts": scoring_operations(policy_parameters, sampled.rollouts),
            "values": scoring_operations(policy_parameters, sampled.continuations),
            "prefixes": scoring_operations(policy_parameters, sampled.fed),
            "reference": scoring_operations(policy_parameters, trained.reference),
            "log-probabilities": scoring_operations(policy_parameters, trained.scored)
            + scoring_operations(critic_parameters, trained.critic_scored),
        }
    update = training_operations(policy_parameters, trained.updated, is_checkpointed, is_adapted)
    update += training_operations(critic_parameters, trained.critic_updated, is_checkpointed)
    return by_phase | {"update": update}


def seconds(
    work: dict[str, float],
    sampled: SampledTokens | None,
    num_ranks: int,
    num_engines: int,
    tokens_per_s: float | None,
    train_tflops: float | None,
) -> dict[str, float]:
    """Seconds of an iteration by phase, with evenly loaded ranks and nothing side by side.

    An engine samples `tokens_per_s`, and a rank computes `train_tflops` · 1e12 operations a second
    in all else; phases whose rate is None are left out. 1,000,000 continued tokens on 4 engines of
    10,000 tokens/s take 25 s.
    """
    by_phase: dict[str, float] = {}
    if sampled is not None and tokens_per_s is not None:
        by_phase["rollouts"] = sampled.rollouts / (tokens_per_s * num_engines)
        by_phase["values"] = sampled.continuations / (tokens_per_s * num_engines)
    if train_tflops is not None:
        rate = train_tflops * 1e12 * num_ranks
        by_phase |= {
            phase: count / rate
            for phase, count in work.items()
            if phase not in ("rollouts", "values")
        }
    return by_phase

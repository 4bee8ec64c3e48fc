"""The tokens of an iteration by kind, the operations they cost, and the seconds."""

from collections.abc import Sequence
from dataclasses import dataclass

from vineppo.config.schema import SftConfig, TrainConfig


@dataclass(frozen=True)
class Machine:
    """`num_gpus` ranks with a GPU of `gpu_gib` each; 0: one process on a CPU.

    `tokens_per_s`: what one rank's engine samples; `train_tflops`: what one rank computes in all
    else, in 1e12 operations a second. None: no seconds of what depends on it.
    """

    num_gpus: int
    gpu_gib: float
    tokens_per_s: float | None
    train_tflops: float | None

    @property
    def num_ranks(self) -> int:
        return max(self.num_gpus, 1)

    @property
    def device(self) -> str:
        return "cuda" if self.num_gpus else "cpu"


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
    """Tokens that the engines of all ranks sample, and the prefixes that they read.

    `fed` is the part of `prefixes` that no cache holds. `num_requests` counts responses and
    continuations, `num_states` the states that are continued.
    """

    rollouts: float
    continuations: float
    prefixes: float
    fed: float
    num_requests: float
    num_states: float
    num_continuations: float


@dataclass(frozen=True)
class TrainedTokens:
    """Tokens, prompts included, that pass each model of the trainer in an iteration, all epochs.

    Those of critics are the sum over all of them.
    """

    scored: float
    reference: float
    critic_scored: float
    updated: float
    critic_updated: float


def sampled_tokens(config: TrainConfig, lengths: Lengths) -> SampledTokens:
    """Sampling of one iteration of reinforcement learning.

    A state at step i of S has i/S of the response behind it, and its continuations are as long as
    the rest. A cached prefix leaves what does not fill a block, on average (block + 1)/2 tokens.
    With `identical_prefixes` "share" the G rollouts of a prompt share s_0; their other states are
    taken to be distinct. A predictor that chooses its `states` skips s_0.

    P = 2, G = 3, K = 5, S = 4, prompts of 10 and responses of 20 tokens, shared: 2 · (1 + 3 · 3) =
    20 states, 100 continuations of Σ = 5 · 2 · (20 + 3 · (15 + 10 + 5)) = 1,100 tokens.
    """
    num_prompts, num_samples = config.rollouts.num_prompts, config.rollouts.num_samples
    num_rollouts = num_prompts * num_samples
    num_states = num_continuations = continuations = behind = 0.0
    for values in config.continuations.values():
        each = values.num_continuations
        first = num_prompts if values.identical_prefixes == "share" else num_rollouts
        num_later = lengths.steps - 1  # of a rollout
        if values.states is not None:
            first, num_later = 0, values.states.expected(num_later)
        # The mean over i = 1 … S−1 of i/S, and that of 1 − i/S, is 1/2.
        later = num_rollouts * num_later / 2 * lengths.response
        num_distinct = first + num_rollouts * num_later
        num_states += num_distinct
        num_continuations += each * num_distinct
        continuations += each * (first * lengths.response + later)
        behind += each * later
    num_requests = num_rollouts + num_continuations
    prefixes = num_requests * lengths.prompt + behind
    remainder = min(lengths.prompt, (config.engine.cached_block + 1) / 2)
    fed = num_prompts * lengths.prompt + (num_requests - num_prompts) * remainder
    return SampledTokens(
        num_rollouts * lengths.response, continuations, prefixes, fed, num_requests, num_states,
        num_continuations,
    )  # fmt: skip


def has_exact_kl(config: TrainConfig | SftConfig) -> bool:
    """True if the update asks the reference for its logits."""
    return isinstance(config, TrainConfig) and (
        config.reference.kl_estimator == "full" and config.reference.kl_in == "loss"
    )


def trained_tokens(config: TrainConfig | SftConfig, lengths: Lengths) -> TrainedTokens:
    """Passes of the trainer in an iteration; for fine-tuning, in one update."""
    if isinstance(config, SftConfig):
        return TrainedTokens(0, 0, 0, config.optimization.batch_size * lengths.sequence, 0)
    tokens = rollout_tokens(config, lengths)
    epochs = config.optimization.num_epochs
    has_reference = config.reference.kl_estimator is not None
    critics = config.value_models.values()
    return TrainedTokens(
        scored=tokens * (1 + config.reads_entropies),
        reference=tokens * has_reference * (1 + epochs * has_exact_kl(config)),
        critic_scored=tokens * len(critics),
        updated=tokens * epochs,
        critic_updated=tokens * sum(critic.num_epochs for critic in critics),
    )


def rollout_tokens(config: TrainConfig, lengths: Lengths) -> float:
    """Tokens of an iteration's rollouts, prompts included."""
    return config.rollouts.num_prompts * config.rollouts.num_samples * lengths.sequence


def operations(
    policy_parameters: int,
    critics: Sequence[tuple[int, float, float]],
    sampled: SampledTokens | None,
    trained: TrainedTokens,
    is_checkpointed: bool,
    is_adapted: bool,
) -> dict[str, float]:
    """Operations of an iteration by phase, over all ranks; the reference is as large as the policy.

    `critics` are the parameters, the scored tokens and those updated on, of each critic and frozen
    reward model.

    2 a parameter and token forward and 4 backward: 2 more where activations are recomputed, 2 fewer
    where the weights themselves do not train. Kaplan et al. 2020 (arXiv:2001.08361, section 2.1);
    attention's own products are left out. "prefixes" are those that the engine is fed.
    """
    policy = 2 * policy_parameters  # forward, a token
    passes = 4 if is_checkpointed else 3
    update = (passes - is_adapted) * policy * trained.updated
    update += passes * sum(2 * size * updated for size, _, updated in critics)
    if sampled is None:
        return {"update": update}
    return {
        "rollouts": policy * sampled.rollouts,
        "values": policy * sampled.continuations,
        "prefixes": policy * sampled.fed,
        "reference": policy * trained.reference,
        "log-probabilities": policy * trained.scored
        + sum(2 * size * scored for size, scored, _ in critics),
        "update": update,
    }


def seconds(
    work: dict[str, float], sampled: SampledTokens | None, machine: Machine, num_engines: int
) -> dict[str, float]:
    """Seconds of an iteration by phase, with evenly loaded ranks and nothing side by side.

    An engine samples `tokens_per_s`, and a rank computes `train_tflops` · 1e12 operations a second
    in all else; phases whose rate is None are left out. 1,000,000 continued tokens on 4 engines of
    10,000 tokens/s take 25 s.
    """
    by_phase: dict[str, float] = {}
    if sampled is not None and machine.tokens_per_s is not None:
        rate = machine.tokens_per_s * num_engines
        by_phase = {
            "rollouts": sampled.rollouts / rate,
            "values": sampled.continuations / rate,
        }
    if machine.train_tflops is not None:
        rate = machine.train_tflops * 1e12 * machine.num_ranks
        sampling = ("rollouts", "values")
        by_phase |= {phase: n / rate for phase, n in work.items() if phase not in sampling}
    return by_phase

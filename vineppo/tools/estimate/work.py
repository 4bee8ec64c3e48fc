"""The tokens of an iteration by kind, the operations they cost, and the seconds."""

from collections.abc import Sequence
from dataclasses import dataclass

from vineppo.config.schema import TrainConfig


@dataclass(frozen=True)
class Assumptions:
    """Numbers that no config fixes; lengths are means.

    `num_gpus` ranks have a GPU of `gpu_gib` each; 0: one process on a CPU. `tokens_per_s` is what
    one engine samples, `train_tflops` what one rank computes in all else, in 1e12 operations a
    second. None: no seconds of phases that depend on it.
    """

    num_gpus: int
    gpu_gib: float
    tokens_per_s: float | None
    train_tflops: float | None
    prompt_tokens: float
    response_tokens: float
    steps: float

    @property
    def num_ranks(self) -> int:
        return max(self.num_gpus, 1)

    @property
    def sequence_tokens(self) -> float:
        return self.prompt_tokens + self.response_tokens


def sampled_tokens(config: TrainConfig, given: Assumptions) -> dict[str, float]:
    """Tokens that all engines sample (rollouts, continuations) and read, and their requests.

    A state at step i of S has i/S of the response behind it, and its continuations are as long as
    the rest. "fed" is the part of the prefixes that no cache holds: a cached prefix leaves what
    does not fill a block, on average (block + 1)/2 tokens. With `identical_prefixes` "share" the G
    rollouts of a prompt share s_0; their other states are taken to be distinct. A predictor that
    chooses its `states` skips s_0.

    P = 2, G = 3, K = 5, S = 4, prompts of 10 and responses of 20 tokens, shared: 2 · (1 + 3 · 3) =
    20 states, 100 continuations of Σ = 5 · 2 · (20 + 3 · (15 + 10 + 5)) = 1,100 tokens.
    """
    num_prompts = config.rollouts.num_prompts
    num_rollouts = num_prompts * config.rollouts.num_samples
    num_states = num_continuations = continuations = behind = 0.0
    for values in config.continuations.values():
        each = values.num_continuations
        first = num_prompts if values.identical_prefixes == "share" else num_rollouts
        num_later = given.steps - 1  # of a rollout
        if values.states is not None:
            first, num_later = 0, values.states.expected(num_later)
        # The mean over i = 1 … S−1 of i/S, and that of 1 − i/S, is 1/2.
        later = num_rollouts * num_later / 2 * given.response_tokens
        num_distinct = first + num_rollouts * num_later
        num_states += num_distinct
        num_continuations += each * num_distinct
        continuations += each * (first * given.response_tokens + later)
        behind += each * later
    num_requests = num_rollouts + num_continuations
    block = getattr(config.engine, "block_size", 1)  # tokens that the prefix cache holds as one
    remainder = min(given.prompt_tokens, (block + 1) / 2)
    return {
        "rollouts": num_rollouts * given.response_tokens,
        "continuations": continuations,
        "prefixes": num_requests * given.prompt_tokens + behind,
        "fed": num_prompts * given.prompt_tokens + (num_requests - num_prompts) * remainder,
        "num_requests": num_requests,
        "num_continuations": num_continuations,
        "num_states": num_states,
    }


def has_exact_kl(config: TrainConfig) -> bool:
    """True if the update asks the reference for its logits."""
    return config.reference.kl_estimator == "full" and config.reference.kl_in == "loss"


def trained_tokens(config: TrainConfig, given: Assumptions) -> dict[str, float]:
    """Tokens, prompts included, that pass each model of the trainer in an iteration."""
    num_rollouts = config.rollouts.num_prompts * config.rollouts.num_samples
    tokens = num_rollouts * given.sequence_tokens
    epochs = config.optimization.num_epochs
    has_reference = config.reference.kl_estimator is not None
    critics = config.value_models.values()
    return {
        "scored": tokens * (1 + config.reads_entropies),
        "reference": tokens * has_reference * (1 + epochs * has_exact_kl(config)),
        "updated": tokens * epochs,
        "critics_scored": tokens * len(critics),
        "critics_updated": tokens * sum(critic.num_epochs for critic in critics),
    }


def operations(
    policy_parameters: int,
    critics: Sequence[tuple[int, float, float]],
    sampled: dict[str, float],
    trained: dict[str, float],
    is_checkpointed: bool,
    is_adapted: bool,
) -> dict[str, float]:
    """Operations of an iteration by phase, over all ranks; the reference is as large as the policy.

    `critics` are the parameters, the scored tokens and those updated on, of each critic. A forward
    pass takes 2 operations a parameter and token, a backward pass 4: 2 more if activations are
    recomputed, 2 fewer if the weights themselves do not train. Kaplan et al. 2020
    (arXiv:2001.08361, section 2.1); attention's own products are left out.
    """
    policy = 2 * policy_parameters  # forward, a token
    passes = 4 if is_checkpointed else 3
    update = (passes - is_adapted) * policy * trained["updated"]
    return {
        "rollouts": policy * sampled["rollouts"],
        "values": policy * sampled["continuations"],
        "prefixes": policy * sampled["fed"],
        "reference": policy * trained["reference"],
        "log-probabilities": policy * trained["scored"]
        + sum(2 * size * scored for size, scored, _ in critics),
        "update": update + passes * sum(2 * size * updated for size, _, updated in critics),
    }


def seconds(
    work: dict[str, float], sampled: dict[str, float], given: Assumptions, num_engines: int
) -> dict[str, float]:
    """Seconds of an iteration by phase, with evenly loaded ranks and nothing side by side.

    1,000,000 continued tokens on 4 engines of 10,000 tokens/s take 25 s.
    """
    by_phase: dict[str, float] = {}
    if given.tokens_per_s is not None:
        rate = given.tokens_per_s * num_engines
        tokens = {"rollouts": sampled["rollouts"], "values": sampled["continuations"]}
        by_phase = {phase: number / rate for phase, number in tokens.items()}
    if given.train_tflops is not None:
        rate = given.train_tflops * 1e12 * given.num_ranks
        others = (phase for phase in work if phase not in ("rollouts", "values"))
        by_phase |= {phase: work[phase] / rate for phase in others}
    return by_phase

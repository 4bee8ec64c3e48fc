"""The tokens of an iteration by kind, the operations they cost, and the seconds."""

from collections.abc import Sequence
from dataclasses import dataclass

from vineppo.config.schema import (
    RemaxCredit,
    SeparateCritic,
    SftConfig,
    TrainConfig,
    TreeCredit,
    ViewConfig,
)
from vineppo.recipes.generated import Generative
from vineppo.types import predictor_key

CHARACTERS = 4  # of a token, about


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
    """What the engines of all ranks sample, and the prefixes that they are fed, in tokens.

    `rollouts` includes ReMax's greedy responses; `answers` are those of generative values, at their
    longest. `fed` is what is left to compute where prefixes are cached, `prefixes` what it would be
    without a cache. `num_requests` counts responses, continuations and the parts of answers,
    `num_states` what is continued.
    """

    rollouts: float
    continuations: float
    answers: float
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
    what was left of it. Of a cached prefix only what does not fill a block is computed, on average
    (block + 1)/2 tokens. With `credit.identical_prefixes` "share" the G rollouts of a prompt have
    one state s_0 together and no other; the rest of their states are taken to be distinct. Every
    Monte-Carlo predictor of the run samples its own; one with `states` no s_0, and the later ones
    that it chooses, which are taken to lie anywhere.

    P = 2, G = 3, K = 5, S = 4, prompts of 10 and responses of 20 tokens, shared: 2 · (1 + 3 · 3) =
    20 states, 100 continuations of Σ = 5 · 2 · (20 + 3 · (15 + 10 + 5)) = 1,100 tokens.
    """
    num_prompts, num_samples = config.rollouts.num_prompts, config.rollouts.num_samples
    num_rollouts = num_prompts * num_samples
    greedy = num_prompts if isinstance(config.credit, RemaxCredit) else 0
    num_states = num_continuations = continuations = behind = 0.0
    for values in config.continuations.values():
        each = values.num_continuations
        is_shared = values.identical_prefixes == "share"
        first = num_prompts if is_shared else num_rollouts
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
    answers = num_answers = 0.0
    for asked in config.values.predictors.values():
        if isinstance(asked, Generative.Config):
            each = asked.num_samples * (1 + (asked.think_tokens > 0))  # a request for each part
            answered = num_prompts + num_rollouts * (lengths.steps - 1)
            num_answers += each * answered
            answers += asked.num_samples * answered * (asked.think_tokens + asked.score_tokens)
            behind += each * num_rollouts * (lengths.steps - 1) / 2 * lengths.response
            behind += each * answered * len(asked.question) / CHARACTERS
    num_requests = num_rollouts + greedy + num_continuations + num_answers
    rollouts = (num_rollouts + greedy) * lengths.response
    if isinstance(config.credit, TreeCredit):
        rollouts, requests, before = tree_tokens(config.credit, lengths.response)
        rollouts, behind = num_prompts * rollouts, behind + num_prompts * before
        num_requests += num_prompts * requests - num_rollouts
    prefixes = num_requests * lengths.prompt + behind
    remainder = min(lengths.prompt, (config.engine.cached_block + 1) / 2)
    fed = num_prompts * lengths.prompt + (num_requests - num_prompts) * remainder
    return SampledTokens(
        rollouts, continuations, answers, prefixes, fed, num_requests, num_states,
        num_continuations,
    )  # fmt: skip


def tree_tokens(tree: TreeCredit, length: float) -> tuple[float, int, float]:
    """Of a tree whose responses all have `length` tokens: tokens, requests, and tokens before them.

    Branching [2, 2], 10 tokens a level, length 25: 2 · 10 + 4 · 15 = 80, 6 requests, 4 · 10 = 40.
    """
    tokens = behind = 0.0
    num_nodes, num_requests = 1, 0
    for level, num_children in enumerate(tree.branching):
        num_nodes *= num_children
        before = level * tree.tokens_per_level
        if before >= length:
            break
        is_last = level == len(tree.branching) - 1
        own = length - before if is_last else min(tree.tokens_per_level, length - before)
        num_requests += num_nodes
        tokens, behind = tokens + num_nodes * own, behind + num_nodes * before
    return tokens, num_requests, behind


def has_exact_kl(config: TrainConfig | SftConfig) -> bool:
    """Whether the update asks the reference for its logits."""
    return isinstance(config, TrainConfig) and (
        config.reference.kl_estimator == "full" and config.reference.kl_in == "loss"
    )


def critics_of(config: TrainConfig | SftConfig) -> dict[str, SeparateCritic]:
    """Value models of their own, by the key of their tables."""
    return config.value_models if isinstance(config, TrainConfig) else {}


def view_tokens(view: ViewConfig | None, lengths: Lengths) -> float:
    """What a critic's view adds to a prompt, about.

    Four characters of a template count as a token, and a solution is as long as a response. With
    responses of 100 tokens "{solution}\\n" adds 11/4 + 100.
    """
    if view is None:
        return 0.0
    tokens = len(view.template) / CHARACTERS + ("{solution}" in view.template) * lengths.response
    if (shown := view.rollouts) is not None:
        label = (len(shown.right) + len(shown.wrong)) / 2 / CHARACTERS
        tokens += shown.num * (label + min(shown.max_tokens, lengths.response))
    return tokens


def question_tokens(critic: SeparateCritic) -> float:
    """Behind a state, with the answer's one; 0 of a critic that is asked nothing."""
    return len(critic.asked) / CHARACTERS + 1 if critic.asked else 0.0


def critic_tokens(
    config: TrainConfig, critic: SeparateCritic, lengths: Lengths
) -> tuple[float, float]:
    """(scored, updated on) in an iteration, with all of its epochs.

    One that is asked passes a rollout with its questions where the attention takes a mask, and is
    updated on the states before the steps, each with its question. Every critic of an ensemble
    scores all rollouts, and is updated on its share of them.
    """
    num_rollouts = config.rollouts.num_prompts * config.rollouts.num_samples
    view = view_tokens(critic.view, lengths)
    tokens = num_rollouts * (lengths.sequence + view)
    if critic.asked:
        asked = lengths.steps * question_tokens(critic)
        before = (
            lengths.steps * (lengths.prompt + view) + (lengths.steps - 1) / 2 * lengths.response
        )
        states = num_rollouts * (before + asked)
        trees = tokens + num_rollouts * asked if config.model.attention == "sdpa" else states
        return trees, states * critic.num_epochs * critic.learns
    return tokens * critic.num_models, tokens * critic.num_epochs


def scoring_tokens(
    config: TrainConfig, sampled: SampledTokens, lengths: Lengths
) -> dict[str, float]:
    """Of the frozen reward models, by the keys of their tables.

    One that rewards reads every response, continuations' with what they continue.
    """
    num_rollouts = config.rollouts.num_prompts * config.rollouts.num_samples
    tokens = {
        predictor_key(name): num_rollouts * lengths.sequence
        for name, own in config.predictors.items()
        if own.frozen_path is not None
    }
    if config.reward_model is not None:
        num_responses = num_rollouts + sampled.num_continuations
        tokens["reward_model"] = num_responses * lengths.sequence
    return tokens


def answer_updates(config: TrainConfig, lengths: Lengths) -> float:
    """Tokens of the policy's updates on its answers, with the states before them."""
    num_rollouts = config.rollouts.num_prompts * config.rollouts.num_samples
    total = 0.0
    for own in config.values.predictors.values():
        if not isinstance(own, Generative.Config) or own.training is None:
            continue
        states = config.rollouts.num_prompts + num_rollouts * (lengths.steps - 1)
        whole = lengths.prompt + own.think_tokens + own.score_tokens
        whole += len(own.question + own.score_prompt) / CHARACTERS
        tokens = states * whole + num_rollouts * (lengths.steps - 1) / 2 * lengths.response
        each = own.num_samples * (1 + (own.training.regression_coef > 0))
        total += own.training.num_epochs * each * tokens
    return total


def trained_tokens(config: TrainConfig | SftConfig, lengths: Lengths) -> TrainedTokens:
    """Passes of the trainer in an iteration; for fine-tuning, in one update."""
    if isinstance(config, SftConfig):
        return TrainedTokens(0, 0, 0, config.optimization.batch_size * lengths.sequence, 0)
    tokens = config.rollouts.num_prompts * config.rollouts.num_samples * lengths.sequence
    epochs = config.optimization.num_epochs
    has_reference = config.reference.kl_estimator is not None
    critics = [critic_tokens(config, critic, lengths) for critic in critics_of(config).values()]
    return TrainedTokens(
        scored=tokens * (1 + config.reads_entropies),
        reference=tokens * has_reference * (1 + epochs * has_exact_kl(config)),
        critic_scored=sum(scored for scored, _ in critics),
        updated=tokens * epochs + answer_updates(config, lengths),
        critic_updated=sum(updated for _, updated in critics),
    )


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
        "values": policy * (sampled.continuations + sampled.answers),
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
        values = sampled.continuations + sampled.answers
        by_phase = {"rollouts": sampled.rollouts / rate, "values": values / rate}
    if machine.train_tflops is not None:
        rate = machine.train_tflops * 1e12 * machine.num_ranks
        sampling = ("rollouts", "values")
        by_phase |= {phase: n / rate for phase, n in work.items() if phase not in sampling}
    return by_phase

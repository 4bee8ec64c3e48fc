"""Rollouts of known numbers, and the demo's config with changes."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from vineppo.config.schema import TrainConfig
from vineppo.credit.vine import VineCredit
from vineppo.segment import LinesSegmenter
from vineppo.types import MONTE_CARLO, Problem, Rollout, StateValue, StepSpan, TokenSequence
from vineppo.update import POLICY_COLUMNS

LINES = LinesSegmenter("lines")
VINE = VineCredit("vine", LINES, 2, "share", None, False)
CPU = torch.device("cpu")
CRITIC_COLUMNS = ("values/critic", "targets/critic")


def rollout(
    rewards_T: Sequence[float],
    values_T: Sequence[float] | None = None,
    values_S: Sequence[float] | None = None,
    lengths_S: Sequence[int] | None = None,
    logprobs_T: Sequence[float] | None = None,
    greedy_reward: float | None = None,
) -> Rollout:
    """What an estimator looks at: steps of `lengths_S` tokens, one step if not given.

    The values that feed the estimator are of tokens or of steps.
    """
    length = len(rewards_T)
    found = Rollout(
        problem=Problem("p", "q", "a"),
        rollout_index=0,
        prompt_ids=(1,),
        response_ids=(2,) * length,
        logprobs_T=(-0.5,) * length if logprobs_T is None else tuple(logprobs_T),
        finish_reason="stop",
        text="",
        reward=sum(rewards_T),
        spans_S=spans(lengths_S if lengths_S is not None else [length]),
        tokens_T={"rewards": tuple(rewards_T)},
        greedy_reward=greedy_reward,
    )
    if values_T is not None:
        found.tokens_T["values/fed"] = tuple(values_T)
        found.values_from = "fed"
    if values_S is not None:
        found.steps_S["values/fed"] = tuple(values_S)
        found.values_from = "fed"
    return found


def spans(lengths_S: Sequence[int]) -> tuple[StepSpan, ...]:
    starts_S = [sum(lengths_S[:i]) for i in range(len(lengths_S))]
    return tuple(StepSpan(i, i + n) for i, n in zip(starts_S, lengths_S, strict=True))


def terminal(reward: float, length: int) -> list[float]:
    """The reward on the last of `length` tokens."""
    return [0.0] * (length - 1) + [reward]


def two_rollouts() -> list[Rollout]:
    """As sampled: steps of 2 and 1 tokens, rewarded; one step of 3 tokens, cut off."""

    def one(index, response_ids, logprobs_T, finish_reason, reward, lengths_S, returns_S):
        return Rollout(
            problem=Problem("p", "q", "a"),
            rollout_index=index,
            prompt_ids=(1, 12),
            response_ids=response_ids,
            logprobs_T=logprobs_T,
            finish_reason=finish_reason,
            text="",
            reward=reward,
            spans_S=spans(lengths_S),
            steps_S={f"values/{MONTE_CARLO}": tuple(value.mean for value in returns_S)},
            returns_S={MONTE_CARLO: returns_S},
            values_from=MONTE_CARLO,
        )

    first = StateValue((1.0, 0.0), 4), StateValue((0.0, 0.0), 4)
    second = (StateValue((1.0, 0.0), 0),)
    return [
        one(0, (7, 4, 5), (-0.25, -0.5, -1.5), "stop", 1.0, (2, 1), first),
        one(1, (6, 7, 8), (-1.0, -2.0, -0.125), "length", 0.0, (3,), second),
    ]


def with_logprobs(
    rollouts: Sequence[Rollout], kl: Sequence[Sequence[float]] = ((0.5, -0.25, 12.0), (1, 0, 2))
) -> Sequence[Rollout]:
    """`two_rollouts` with the columns of the passes; they are changed.

    The trainer's probability of the very first token is twice the engine's.
    """
    trainer = (-0.25 + 0.6931471805599453, -0.5, -1.5), (-1.0, -2.0, -0.125)
    reference = (-1.0, -2.0, -3.0), (-4.0, -5.0, -6.0)
    for one, *columns in zip(rollouts, trainer, reference, kl, strict=True):
        one.tokens_T |= dict(zip(("trainer_logprobs", "ref_logprobs", "kl"), columns, strict=True))
    return rollouts


def sequence(
    prompt_ids: Sequence[int], response_ids: Sequence[int], **columns: Sequence[float]
) -> TokenSequence:
    """One that an update could take: all tokens train, and what is not given has no effect."""
    length = len(response_ids)
    neutral = dict.fromkeys((*POLICY_COLUMNS, *CRITIC_COLUMNS), (0.0,) * length)
    neutral |= {"is_trained": (True,) * length, "importance": (1.0,) * length}
    neutral["is_positive"] = (False,) * length
    return TokenSequence(tuple(prompt_ids), tuple(response_ids), tokens_T=neutral | columns)


def random_sequences(count: int, seed: int = 0, num_ids: int = 15) -> list[TokenSequence]:
    """Random tokens of random lengths, off-policy enough for the clip to bite."""
    stream = random.Random(seed)
    found = []
    for _ in range(count):
        lengths = stream.randrange(3, 9), stream.randrange(4, 30)
        prompt, response = (tuple(stream.randrange(num_ids) for _ in range(n)) for n in lengths)
        old, ref = (tuple(stream.uniform(-4, 0) for _ in response) for _ in range(2))
        advantages = tuple(stream.gauss(0, 1) for _ in response)
        values, targets = (tuple(stream.gauss(0, 1) for _ in response) for _ in range(2))
        one = sequence(
            prompt,
            response,
            old_logprobs=old,
            ref_logprobs=ref,
            loss_advantages=advantages,
            is_trained=tuple(stream.random() < 0.8 for _ in response),
            importance=tuple(stream.uniform(0, 2) for _ in response),
            is_positive=(stream.random() < 0.5,) * len(response),
        )
        found.append(with_columns(one, {"values/critic": values, "targets/critic": targets}))
    return found


def with_columns(one: TokenSequence, columns: Mapping[str, Sequence[float]]) -> Any:
    """A copy with some numbers of its tokens changed."""
    return replace(one, tokens_T={**one.tokens_T, **columns})


def with_column(one: TokenSequence, name: str, number: float | bool) -> Any:
    """A copy with the same number on all tokens."""
    return with_columns(one, {name: (number,) * len(one.response_ids)})


def changed(config: TrainConfig, **tables: Any) -> TrainConfig:
    """`config` with keys of its tables changed: `changed(config, reference={"kl_coef": 1.0})`."""
    found = {
        name: replace(getattr(config, name), **value) if isinstance(value, dict) else value
        for name, value in tables.items()
    }
    return replace(config, **found)

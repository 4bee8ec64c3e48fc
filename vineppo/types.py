"""The data that flows through an iteration, and the legend of the suffixes.

    Problem → Rollout → StepSpan → StateValue → Trajectory → advantages → TrainSequence → TrainBatch

Every tensor and every parallel list carries its dimensions as a suffix:

    P  prompts of an iteration          K  continuations of a state
    G  rollouts per prompt              B  sequences
    S  steps of a rollout               T  tokens (of a response for a list, of a row for a tensor)
    V  vocabulary                       N  selected token positions of a batch

`num_*` counts, `is_*` is a boolean, a unit ends a name (`time_s`, `max_tokens`), `logprobs` are
natural logarithms, `old_` is the behaviour policy and `ref_` the reference policy.
"""

from dataclasses import dataclass
from typing import Literal

import torch

FinishReason = Literal["stop", "length"]
Split = Literal["train", "test"]


@dataclass(frozen=True)
class Problem:
    """A question with the answer it is graded against.

    `Problem("gsm8k/train/0", "Natalia sold clips to 48 …", "72", "Natalia sold 48/2 = 24 …")`.
    `solution` is a worked demonstration for supervised fine-tuning, None where there is none.
    """

    id: str
    question: str
    answer: str
    solution: str | None = None


@dataclass(frozen=True)
class StepSpan:
    """Half-open token span [start, end) of a response; the spans of a response partition it.

    A response of 7 tokens in 3 steps: `[StepSpan(0, 3), StepSpan(3, 5), StepSpan(5, 7)]`. State i
    is the prompt followed by `response_ids[:start_i]`, so state 0 is the prompt alone.
    """

    start: int
    end: int


@dataclass(frozen=True)
class Rollout:
    """One sampled response, the very token ids of the engine, and its terminal reward.

    `logprobs_T[t]` is the engine's log-probability of `response_ids[t]` after temperature and
    top_p. `finish_reason` is "stop" when the response ends with an end-of-sequence token (which is
    part of `response_ids`) and "length" when the token budget cut it off (nothing is appended).
    `rollout_index` counts the rollouts of one problem in an iteration, from 0.
    """

    problem: Problem
    rollout_index: int
    prompt_ids: tuple[int, ...]
    response_ids: tuple[int, ...]
    logprobs_T: tuple[float, ...]
    finish_reason: FinishReason
    text: str
    reward: float


@dataclass(frozen=True)
class StateValue:
    """The Monte-Carlo value of one state: the raw returns of its K continuations.

    `StateValue(returns_K=(1.0, 0.0, 1.0), num_tokens=41)` has the value 2/3. `num_tokens` counts
    the tokens that were sampled for this state, 0 when it shares another state's continuations.
    """

    returns_K: tuple[float, ...]
    num_tokens: int

    @property
    def mean(self) -> float:
        """V̂(s) = (1/K) Σ_k R_k."""
        return sum(self.returns_K) / len(self.returns_K)


@dataclass(frozen=True)
class Trajectory:
    """What a credit estimator may look at of one rollout: T response tokens in S steps.

    `rewards_T` holds the terminal reward on the last token, less what is shaped into the reward.
    `state_values_S` are the Monte-Carlo values of the states before the steps (vine);
    `critic_values_T[t]` is the critic's value of the state before token t; `greedy_reward` is that
    of the problem's greedy response (remax). Each is None where nothing provides it.
    """

    rewards_T: tuple[float, ...]
    logprobs_T: tuple[float, ...]
    spans_S: tuple[StepSpan, ...]
    state_values_S: tuple[float, ...] | None
    critic_values_T: tuple[float, ...] | None
    greedy_reward: float | None


@dataclass(frozen=True)
class TrainSequence:
    """One rollout as the update sees it; the parallel lists have the response's length T.

    `is_trained_T` are the tokens whose actions train the policy, `importance_T` the weights of
    their losses. `old_values_T` and `returns_T` are the critic's values before the update and its
    targets.
    """

    prompt_ids: tuple[int, ...]
    response_ids: tuple[int, ...]
    old_logprobs_T: tuple[float, ...]
    ref_logprobs_T: tuple[float, ...]
    advantages_T: tuple[float, ...]
    is_trained_T: tuple[bool, ...]
    importance_T: tuple[float, ...]
    old_values_T: tuple[float, ...]
    returns_T: tuple[float, ...]
    is_positive: bool  # whether the language-model loss on good rollouts takes it

    @classmethod
    def blank(cls, prompt_ids: tuple[int, ...], response_ids: tuple[int, ...]) -> "TrainSequence":
        """All zeros, every token trained with weight 1: the start of a scored one."""
        zeros_T = (0.0,) * len(response_ids)
        return cls(
            prompt_ids=prompt_ids,
            response_ids=response_ids,
            old_logprobs_T=zeros_T,
            ref_logprobs_T=zeros_T,
            advantages_T=zeros_T,
            is_trained_T=(True,) * len(response_ids),
            importance_T=(1.0,) * len(response_ids),
            old_values_T=zeros_T,
            returns_T=zeros_T,
            is_positive=False,
        )

    def __len__(self) -> int:
        return len(self.prompt_ids) + len(self.response_ids)


@dataclass(frozen=True)
class TrainBatch:
    """Sequences padded on the right to [B, T].

    Position t of every tensor belongs to *token* t: `old_logprobs_BT[b, t]` is the log-probability
    of `token_ids_BT[b, t]` given the tokens before it, and `old_values_BT[b, t]` the value of the
    state before it. Prompt and padding positions are 0, and False in `response_mask_BT` and
    `is_trained_BT`. `response_index_N` are the response tokens' places in the flattened [B, T], in
    order; `num_tokens` counts those of prompts and responses.
    """

    token_ids_BT: torch.Tensor
    response_mask_BT: torch.Tensor
    response_index_N: torch.Tensor
    old_logprobs_BT: torch.Tensor
    ref_logprobs_BT: torch.Tensor
    advantages_BT: torch.Tensor
    is_trained_BT: torch.Tensor
    importance_BT: torch.Tensor
    old_values_BT: torch.Tensor
    returns_BT: torch.Tensor
    is_positive_B: torch.Tensor
    num_tokens: int

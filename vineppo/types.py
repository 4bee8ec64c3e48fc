"""The data that flows through an iteration, and the legend of the suffixes.

A problem's response is one record from the engine to the update: `Rollout`. Every stage adds what
it found. `TrainBatch` is some of these records as tensors.

Every tensor and every parallel list carries its dimensions as a suffix:

    P  prompts of an iteration          K  continuations of a state
    G  rollouts per prompt              B  sequences
    S  steps of a rollout               T  tokens (of a response for a list, of a row for a tensor)
    V  vocabulary                       N  selected token positions of a batch
    H  hidden size

`num_*` counts, `is_*` is a boolean, a unit ends a name (`time_s`, `max_tokens`), `logprobs` are
natural logarithms, `old_` is the behaviour policy and `ref_` the reference policy.
"""

import hashlib
import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import compress, groupby
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import numpy as np
    import torch  # readers of a run directory do not need it

FinishReason = Literal["stop", "length"]
Split = Literal["train", "test"]

# Predictors that belong to an estimator; others are named in `values.predictors`.
MONTE_CARLO = "monte_carlo"
CRITIC = "critic"


def predictor_key(name: str) -> str:
    """The key of a predictor's table in the config."""
    return CRITIC if name == CRITIC else f"values.predictors.{name}"


@dataclass(frozen=True)
class Problem:
    """A question with the answer it is graded against.

    `Problem("gsm8k/train/0", "Natalia sold clips to 48 …", "72", "Natalia sold 48/2 = 24 …")`.
    `solution` is a demonstration for supervised fine-tuning. `context` are the messages before the
    question, as (role, content). `row` is the data set's, for reward functions that read columns.
    """

    id: str
    question: str
    answer: str
    solution: str | None = None
    context: tuple[tuple[str, str], ...] = ()
    row: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)


SAME_AS = " same as "


def question_of(problem_id: str) -> str:
    """The id of the set's first problem with its question and answer: statistics' clusters.

    `question_of("gsm8k/train/8 same as gsm8k/train/3") == question_of("gsm8k/train/3")`.
    """
    return problem_id.rpartition(SAME_AS)[2]


@dataclass(frozen=True)
class StepSpan:
    """Half-open token span [start, end) of a response; the spans of a response partition it.

    A response of 7 tokens in 3 steps: `[StepSpan(0, 3), StepSpan(3, 5), StepSpan(5, 7)]`. State i
    is the prompt followed by `response_ids[:start_i]`, so state 0 is the prompt alone.
    """

    start: int
    end: int


@dataclass(frozen=True)
class StateValue:
    """The Monte-Carlo value of one state: the raw returns of its K continuations.

    `StateValue(returns_K=(1.0, 0.0, 1.0), num_tokens=41)` has the value 2/3. `num_tokens` counts
    the tokens that were sampled for this state, 0 when it shares another state's continuations. A
    state that was not sampled has no returns.
    """

    returns_K: tuple[float, ...]
    num_tokens: int

    @property
    def mean(self) -> float:
        """V̂(s) = (1/K) Σ_k R_k; NaN of no returns."""
        return sum(self.returns_K) / len(self.returns_K) if self.returns_K else math.nan


@dataclass(frozen=True)
class Turn(StepSpan):
    """A span that the policy wrote at one go, and its reward. Between two stands the environment's.

    `state` names the state before; equal states of a problem have one name.
    """

    state: str
    reward: float


@dataclass
class TokenSequence:
    """A prompt and a response as token ids, with named numbers of the response's tokens.

    `tokens_T["advantages"][t]` belongs to `response_ids[t]`; a value is of the state before the
    token. Without `turns` the policy wrote all tokens.
    """

    prompt_ids: tuple[int, ...]
    response_ids: tuple[int, ...]
    tokens_T: dict[str, Sequence[float]] = field(default_factory=dict, kw_only=True)
    turns: tuple[Turn, ...] = field(default=(), kw_only=True)

    def __len__(self) -> int:
        return len(self.prompt_ids) + len(self.response_ids)

    @property
    def is_action_T(self) -> list[bool]:
        """True for the tokens of the response that the policy wrote."""
        turns = self.turns or (StepSpan(0, len(self.response_ids)),)
        written = {t for turn in turns for t in range(turn.start, turn.end)}
        return [t in written for t in range(len(self.response_ids))]

    def of_actions(self, numbers_T: Sequence[float]) -> Sequence[float]:
        """The numbers of the tokens that the policy wrote."""
        return [*compress(numbers_T, self.is_action_T)] if self.turns else numbers_T

    def over_response(self, numbers_N: Sequence[float]) -> tuple[float, ...]:
        """The inverse of `of_actions`, 0 where the environment wrote."""
        left = iter(numbers_N)
        return tuple(next(left) if is_action else 0.0 for is_action in self.is_action_T)


@dataclass(kw_only=True)
class Rollout(TokenSequence):
    """One sampled response, as the engine's token ids, and all that is found out about it.

    `logprobs_T` are the engine's, after temperature and cuts. `finish_reason` is "stop" when the
    response ends with an end-of-sequence token (part of `response_ids`) and "length" when the token
    budget cut it off. `rollout_index` counts the rollouts of a problem in an iteration, from 0.
    `reward` is the terminal one, NaN until it is graded. Columns that stages add, by name:

        tokens_T   "trainer_logprobs" "ref_logprobs" "kl"   passes without gradient (nats)
                   "entropies"                              where segmenter or predictor ask
                   "values/NAME"                            predictor NAME, where it values tokens
                   "differences/NAME"                       what the token changed, of a martingale
                   "rewards" "advantages"                   credit, before whitening
        steps_S    "values/NAME"                            predictor NAME, where it values steps;
                                                            NaN before those it did not sample
                   "tokens/NAME"                            what the engine wrote for them
        returns_S  NAME                                     raw returns of Monte-Carlo predictors

    `values_from` names the predictor that feeds credit, if any. `greedy_reward` is of the problem's
    greedy response (remax), `values_after` of the state after the last token, where credit
    bootstraps it. `hidden_SH` are the policy's hidden states before the steps (float32) and
    `choices` what it chose from, where a predictor reads them.
    """

    problem: Problem
    rollout_index: int
    logprobs_T: tuple[float, ...]
    finish_reason: FinishReason
    text: str
    reward: float = math.nan
    spans_S: tuple[StepSpan, ...] = ()
    steps_S: dict[str, Sequence[float]] = field(default_factory=dict)
    returns_S: dict[str, Sequence[StateValue]] = field(default_factory=dict)
    values_from: str | None = None
    greedy_reward: float | None = None
    values_after: dict[str, float] = field(default_factory=dict)
    hidden_SH: "np.ndarray | None" = field(default=None, repr=False, compare=False)
    choices: Any = field(default=None, repr=False, compare=False)

    @property
    def key(self) -> tuple[str, int]:
        """Problem and index, which name a rollout of an iteration."""
        return self.problem.id, self.rollout_index

    @property
    def rewards_T(self) -> Sequence[float]:
        """The terminal reward on the last token, less what is shaped into the reward."""
        return self.tokens_T["rewards"]

    @property
    def state_values_S(self) -> Sequence[float]:
        """The values that feed credit, of the states before the steps."""
        assert self.values_from is not None, "this estimator takes no values"
        return self.values_S(self.values_from)

    @property
    def state_values_T(self) -> Sequence[float]:
        """The values that feed credit, of the states before the tokens."""
        assert self.values_from is not None, "this estimator takes no values"
        return self.values_T(self.values_from)

    @property
    def differences_T(self) -> Sequence[float]:
        """Each token's change of the value, by the martingale that feeds credit."""
        return self.tokens_T[f"differences/{self.values_from}"]

    def values_S(self, predictor: str) -> Sequence[float]:
        """A predictor's values of the states before the steps."""
        name = f"values/{predictor}"
        if name in self.steps_S:
            return self.steps_S[name]
        values_T = self.tokens_T[name]
        return [values_T[span.start] for span in self.spans_S]

    def values_T(self, predictor: str) -> Sequence[float]:
        """A predictor's values of the states before the tokens; `KeyError` for one of steps."""
        return self.tokens_T[f"values/{predictor}"]

    def prefix_ids(self, step: int) -> tuple[int, ...]:
        """The response before a step: with the prompt, the state."""
        return self.response_ids[: self.spans_S[step].start]


def by_problem(rollouts: Iterable[Rollout]) -> list[list[Rollout]]:
    """The rollouts in groups of one problem; a group's rollouts must stand side by side."""
    return [list(group) for _, group in groupby(rollouts, key=lambda one: one.problem.id)]


@dataclass(frozen=True)
class PackedTokens:
    """The M tokens that pass a model for a batch, in one row without padding.

    For attention alone they lie on L cells, token m on cell `place_M[m]`; cell l has token
    `token_L[l]`, or nothing where that is M. P rows of Q cells hold whole sequences. Where each
    prompt passes once, they hold the distinct prompts, and B rows of R cells hold the responses:
    row b continues prompt `prompt_index_B[b]` of `prompt_lengths_B[b]` tokens. The state before the
    batch's n-th response token is the state at token `state_index_N[n]`.
    """

    token_ids_M: "torch.Tensor"
    position_ids_M: "torch.Tensor"
    place_M: "torch.Tensor"
    token_L: "torch.Tensor"
    state_index_N: "torch.Tensor"
    rows: tuple[int, int]  # P, Q
    responses: tuple[int, int] = (0, 0)  # B, R
    prompt_index_B: "torch.Tensor | None" = None
    prompt_lengths_B: "torch.Tensor | None" = None

    def to(self, device: "torch.device") -> "PackedTokens":
        moved = {f.name: getattr(self, f.name) for f in fields(self)}
        tensors = {n: x.to(device) for n, x in moved.items() if hasattr(x, "to")}
        return replace(self, **tensors)


@dataclass(frozen=True)
class TrainBatch:
    """Sequences padded on the right to [B, T].

    Position t of every tensor belongs to *token* t: `batch["old_logprobs"][b, t]` is the
    log-probability of `token_ids_BT[b, t]` given the tokens before it, and `batch["values/critic"]`
    the value of the state before it. Prompts and padding are 0 in `columns_BT` and False in
    `response_mask_BT`. `response_index_N` are the response tokens' places in the flattened [B, T];
    `num_tokens` counts the tokens that pass. `packed` are the same tokens for models that take them
    without padding.
    """

    token_ids_BT: "torch.Tensor"
    response_mask_BT: "torch.Tensor"
    response_index_N: "torch.Tensor"
    num_tokens: int
    columns_BT: "dict[str, torch.Tensor]"
    packed: "PackedTokens | None" = None

    @property
    def num_cells(self) -> int:
        """Tokens of a pass, with what padding it has."""
        return self.token_ids_BT.numel() if self.packed is None else self.num_tokens

    def __getitem__(self, column: str) -> "torch.Tensor":
        """A column, [B, T]."""
        return self.columns_BT[column]


def derive_seed(run_seed: int, *counter: int | str) -> int:
    """63-bit seed of the stream named by (run seed, iteration, phase, problem id, sample index, …).

    seed = BLAKE2b(canonical encoding of run_seed and counter) mod 2^63. The encoding is injective:
    `(1, "2")` and `("1", 2)` give different seeds, and so do `("ab",)` and `("a", "b")`.

    >>> derive_seed(1, 2, "rollouts", "gsm8k/train/7", 0)
    1093962790885644208
    """
    encoded = "".join(
        f"{type(part).__name__}{len(str(part))}:{part}" for part in (run_seed, *counter)
    )
    digest = hashlib.blake2b(encoded.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def prefix_digest(token_ids: Sequence[int]) -> str:
    """The name of a prefix in seeds and keys: 128 bits in hexadecimal."""
    return hashlib.blake2b(array("q", token_ids).tobytes(), digest_size=16).hexdigest()

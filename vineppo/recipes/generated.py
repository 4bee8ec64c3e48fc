"""Values that the policy writes: asked in words what a state is worth, it answers with a number."""

import math
import re
from abc import ABC, abstractmethod
from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean
from typing import Any

from vineppo.batching import is_sound, minibatches, summarize
from vineppo.config.require import require
from vineppo.config.schema import (
    Count,
    CountOrZero,
    Name,
    NonNegative,
    Positive,
    PositiveFraction,
    PredictorConfig,
    SamplingConfig,
    Share,
)
from vineppo.distributed import gather
from vineppo.engine import Completion
from vineppo.errors import UserError
from vineppo.policy import Policy, Summand
from vineppo.rollouts import Sampler, submit_samples
from vineppo.tasks.data_text import encode
from vineppo.token_scores import ForwardOptions, TokenScores
from vineppo.types import Rollout, StateValue, TokenSequence, TrainBatch
from vineppo.values import StateKey
from vineppo.values.sampled import Draws, SampledValues


class GeneratedValues(SampledValues, ABC):
    """V(s) = the mean number read from `num_samples` texts that the engine writes when asked.

    The answers are the sampling policy's and come with the rollouts, in the same stream. As they
    depend on the state alone, they are a baseline that leaves the gradient unbiased.
    """

    num_samples = 1
    answer_tokens: int  # of an answer, at most
    temperature: float | None = None  # None: the run's; 0: greedy

    @abstractmethod
    def ask(self, state_ids: tuple[int, ...], tokenizer: Any) -> Sequence[int]:
        """The token ids that the engine continues for a state: prompt and response."""

    @abstractmethod
    def read(self, text: str) -> float:
        """The number in an answer; of "" where the engine has no room for question and answer."""

    def max_tokens(self, sampler: Sampler, rollout: Rollout, step: int) -> int:  # noqa: ARG002
        return self.answer_tokens

    def sampling(self, sampling: SamplingConfig) -> SamplingConfig:
        if self.temperature is None:
            return replace(sampling, max_tokens=self.answer_tokens)
        return SamplingConfig(temperature=self.temperature, max_tokens=self.answer_tokens)

    def draw(self, sampler: Sampler, asked: Draws) -> None:
        asked_ids = tuple(self.ask(asked.state_ids, sampler.tokenizer))

        def finish(index: int, completion: Completion) -> None:
            asked.done(index, partial(self._number, sampler.text(completion.token_ids)), completion)

        numbers = range(self.num_samples)
        if len(asked_ids) + self.answer_tokens > self.config.engine.max_model_len:
            for index in numbers:
                finish(index, Completion((), (), "length"))
            return
        sampling = self.sampling(sampler.sampling)
        submit_samples(sampler, asked_ids, sampling, numbers, asked.stream, finish)

    def _number(self, text: str) -> float:
        number = float(self.read(text))
        if not math.isfinite(number):
            raise UserError(f"values of {self.name} must be finite, got {number} of {text!r}")
        return number


@dataclass(frozen=True)
class GenerativeTraining:
    """REINFORCE on the answers of an iteration, with the policy's optimizer, after its update."""

    learning_rate: PositiveFraction = 1e-6
    num_epochs: Count = 1
    batch_size: Count = 64  # answers of one update, over all ranks
    regression_coef: NonNegative = 0.0  # of the likelihood of the number that would have been right


@dataclass(frozen=True)
class Answer:
    """Text that was written about a state, behind it and the question (`asked_ids`).

    `is_sampled_T` is false at the tokens that were put in; the last `num_scored` are the score's,
    and `number` the value that they say, None where they say none.
    """

    asked_ids: tuple[int, ...]
    response_ids: tuple[int, ...]
    is_sampled_T: tuple[bool, ...]
    num_scored: int
    number: float | None

    def brier(self, reward: float) -> float:
        """(v − R)²; without a number 1, which no number exceeds."""
        return 1.0 if self.number is None else (self.number - reward) ** 2


class Generative(SampledValues):
    """V(s) = the mean score of several answers: reasons up to a budget, then a number.

        state · question · (reasons · think_end) · score_prompt · (number · score_end)

    The policy writes what is in brackets; where its reasons do not end within the budget, think_end
    is put in. An answer counts as the value `unread` where the engine has no room for it. It does
    too where the number is missing, out of [0, score_of] or not followed by score_end.

    Where `training` is given, the policy learns to answer, by REINFORCE on the Brier score, which
    is proper: its mean is best where v = E[R | s]. With R̄ the mean reward of the rollouts that
    pass the state, an answer's weight is

        w_k = −(v_k − R̄)² + 1/(K − 1) Σ_{j≠k} (v_j − R̄)²,   L = −mean_k w_k log π(answer_k)

    where an unread answer scores −1. With `regression_coef` c as many sequences join, of weight c:
    the answer's reasons, and R̄'s own number for a score, alone trained (arXiv:2501.19383). For
    R̄ of 0 or 1 their best policy writes 1 with the probability E[R | s]; the mean is the value.

    Policy and value model are one: no second model is held, none is loaded into the engine, and the
    answers are sampled among the rollouts. The price is that valuing moves the policy; it does so
    after the policy's own update, before the engine gets the weights. The value belongs to the
    state before a step and sees no token after it, so it is a fair baseline. As Q̂ it is biased as
    far as it is wrong. After GenAC (arXiv:2604.10701).
    """

    is_probability = True

    @dataclass(frozen=True)
    class Config(PredictorConfig):
        num_samples: Count = 2  # answers of a state, whose mean is the value
        question: Name = (  # behind the state
            "\n\nHow likely is this to end with the right answer? Think in <value_think>, then "
            "give a percentage in <value>.\n<value_think>"
        )
        think_tokens: CountOrZero = 256  # of the reasons, at most
        think_end: str = "</value_think>"  # put in where the policy has not written it
        score_prompt: str = "\n<value>"  # put in behind the reasons
        score_tokens: Count = 8  # of the score, at most
        score_end: str = "</value>"  # what must follow the number; "": anything may
        score_of: Positive = 100.0  # the number that means a value of 1
        unread: Share = 0.5  # the value of an answer without a number
        training: GenerativeTraining | None = None  # null: zero-shot

        def check(self, key: str, config: Any) -> None:  # noqa: ARG002
            require(
                self.num_samples >= 2 or self.training is None,
                f"{key}.num_samples must be at least 2 with {key}.training (an answer's baseline "
                f"is the other answers' score), got {self.num_samples}",
            )
            require(
                self.think_end != "" or self.think_tokens == 0,
                f"{key}.think_end must not be empty with {key}.think_tokens {self.think_tokens}",
            )

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.num_samples = self.options.num_samples
        self.trains_policy = self.options.training is not None
        self._answers: dict[tuple[StateKey, int], Answer] = {}

    def start(self, policy: Policy) -> None:
        self._policy = policy

    def max_tokens(self, sampler: Sampler, rollout: Rollout, step: int) -> int:  # noqa: ARG002
        return self.options.think_tokens + self.options.score_tokens

    def draw(self, sampler: Sampler, asked: Draws) -> None:
        options, key = self.options, self.state_key(asked.rollout, asked.step)
        question, end, prompt = (
            encode(sampler.tokenizer, text)
            for text in (options.question, options.think_end, options.score_prompt)
        )
        asked_ids = (*asked.state_ids, *question)

        def keep(index: int, answer: Answer, sampled: tuple[int, ...]) -> None:
            self._answers[key, index] = answer
            number = options.unread if answer.number is None else answer.number
            asked.done(index, lambda: number, Completion(sampled, (), "stop"))

        def thought(index: int, completion: Completion) -> None:
            reasons, has_ended = self._reasons(sampler, completion)
            forced = prompt if has_ended else (*end, *prompt)

            def scored(_: int, score: Completion) -> None:
                response_ids = (*reasons, *forced, *score.token_ids)
                is_sampled = [True] * len(reasons) + [False] * len(forced)
                is_sampled += [True] * len(score.token_ids)
                number = self._read(sampler.text(score.token_ids))
                count = len(score.token_ids)
                answer = Answer(asked_ids, response_ids, tuple(is_sampled), count, number)
                keep(index, answer, (*completion.token_ids, *score.token_ids))

            sampling = replace(sampler.sampling, max_tokens=options.score_tokens)
            place, one = (*asked.stream, "score"), range(index, index + 1)
            submit_samples(sampler, (*asked_ids, *reasons, *forced), sampling, one, place, scored)

        numbers = range(self.num_samples)
        longest = (
            len(asked_ids) + options.think_tokens + len(end) + len(prompt) + options.score_tokens
        )
        if longest > self.config.engine.max_model_len:
            for index in numbers:
                keep(index, Answer(asked_ids, (), (), 0, None), ())
        elif options.think_tokens == 0:
            for index in numbers:
                thought(index, Completion((), (), "length"))
        else:
            sampling = replace(sampler.sampling, max_tokens=options.think_tokens)
            submit_samples(sampler, asked_ids, sampling, numbers, (*asked.stream, "think"), thought)

    def _reasons(self, sampler: Sampler, completion: Completion) -> tuple[tuple[int, ...], bool]:
        """Up to the first think_end, and whether there is one; without the end of the text."""
        ids = completion.token_ids
        if completion.finish_reason == "stop":
            ids = ids[:-1]
        lengths = range(len(ids) + 1)
        cut = bisect(lengths, False, key=lambda n: self.options.think_end in sampler.text(ids[:n]))
        return ids[:cut], cut < len(lengths)

    def _read(self, text: str) -> float | None:
        """ "70%" of 100 and with score_end "%": 0.7."""
        found = re.match(r"\s*(\d+(?:\.\d+)?)" + re.escape(self.options.score_end), text)
        number = None if found is None else float(found[1]) / self.options.score_of
        return number if number is not None and number <= 1 else None

    def merge(
        self, rollouts: Sequence[Rollout], found_R: Sequence[dict[StateKey, StateValue]]
    ) -> None:
        super().merge(rollouts, found_R)
        shares = gather(self._answers)  # the first stands, as of a shared state's values
        self._answers = {key: answer for share in shares[::-1] for key, answer in share.items()}

    def update(self, rollouts: Sequence[Rollout], iteration: int) -> dict[str, float]:
        """`brier` and `unread_frac` of the answers, and what training says."""
        rewards_of: dict[StateKey, list[float]] = {}
        for rollout in rollouts:
            for step in range(len(rollout.spans_S)):
                rewards_of.setdefault(self.state_key(rollout, step), []).append(rollout.reward)
        sequences: list[TokenSequence] = []
        briers: list[float] = []
        unread: list[bool] = []
        for state, rewards in sorted(rewards_of.items()):
            answers_K = [self._answers[state, k] for k in range(self.num_samples)]
            briers += [answer.brier(fmean(rewards)) for answer in answers_K]
            if self.options.training is not None:
                sequences += self._sequences(answers_K, fmean(rewards), self.options.training)
            unread += [answer.number is None for answer in answers_K]
        self._answers = {}  # an iteration may draw several times
        metrics = {"brier": fmean(briers), "unread_frac": fmean(unread)}
        metrics = {f"{self.metrics_group}/{name}": x for name, x in metrics.items()}
        return metrics | self._train(sequences, iteration)

    def _sequences(
        self, answers_K: Sequence[Answer], reward: float, training: GenerativeTraining
    ) -> list[TokenSequence]:
        right = f"{round(reward * self.options.score_of)}{self.options.score_end}"
        right_ids = encode(self._policy.tokenizer, right)
        return trained_sequences(answers_K, reward, right_ids, training.regression_coef)

    def _train(self, sequences: Sequence[TokenSequence], iteration: int) -> dict[str, float]:
        training = self.options.training
        if training is None or not sequences:
            return {}
        policy = self._policy
        optimization = replace(
            self.config.optimization,
            learning_rate=training.learning_rate,
            num_epochs=training.num_epochs,
            batch_size=training.batch_size,
        )
        options = ForwardOptions(self.config.sampling.temperature)
        updates, rate = [], 0.0
        for part in minibatches(
            policy, sequences, ("weight",), optimization, self.config, iteration,
            f"{self.column} minibatches",
        ):  # fmt: skip
            num_sequences, rate = part.sizes.trained.num_sequences, part.learning_rate

            def loss(
                batch: TrainBatch, scores: TokenScores, num_sequences: int = num_sequences
            ) -> Summand:
                total = -(scores.logprobs_BT * batch["weight"]).sum() / num_sequences
                return total, {"loss": total}

            rates = [rate, *[0.0] * (policy.num_groups - 1)]  # a critic's head stays as it is
            updates.append(
                policy.update(part.micro_batches, loss, options, rates, partial(is_sound, None))
            )
        return summarize(updates, self.metrics_group, ("loss",), rate)


def trained_sequences(
    answers_K: Sequence[Answer], reward: float, right_ids: tuple[int, ...], regression_coef: float
) -> list[TokenSequence]:
    """A state's answers, and with a coefficient their reasons with the right number behind.

    The column "weight" weighs each token's log-probability. Numbers 0.5 and 1 where the reward
    is 1 score −0.25 and 0, and weigh −0.25 and 0.25.
    """
    briers_K = [answer.brier(reward) for answer in answers_K]
    found = []
    for answer, brier in zip(answers_K, briers_K, strict=True):
        if not answer.response_ids:  # there was no room for it
            continue
        weight = (sum(briers_K) - brier) / (len(briers_K) - 1) - brier
        weights_T = [weight * is_sampled for is_sampled in answer.is_sampled_T]
        both = [(answer.response_ids, weights_T)]
        if regression_coef > 0:
            before = answer.response_ids[: len(answer.response_ids) - answer.num_scored]
            weights_T = [0.0] * len(before) + [regression_coef] * len(right_ids)
            both.append(((*before, *right_ids), weights_T))
        found += [
            TokenSequence(answer.asked_ids, response_ids, tokens_T={"weight": weights_T})
            for response_ids, weights_T in both
        ]
    return found

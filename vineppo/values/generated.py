"""Values that the policy writes: asked in words what a state is worth, it answers with a number."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from vineppo.config.schema import SamplingConfig
from vineppo.engine import Completion
from vineppo.errors import UserError
from vineppo.rollouts import Sampler, submit_samples
from vineppo.types import Rollout
from vineppo.values.sampled import DrawDone, SampledValues


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
        """The token ids that the engine is to go on from, of a state: prompt and response."""

    @abstractmethod
    def read(self, text: str) -> float:
        """The number in an answer; of "" where the engine has no room for question and answer."""

    def max_tokens(self, sampler: Sampler, rollout: Rollout, step: int) -> int:  # noqa: ARG002
        return self.answer_tokens

    def sampling(self, sampling: SamplingConfig) -> SamplingConfig:
        if self.temperature is None:
            return replace(sampling, max_tokens=self.answer_tokens)
        return SamplingConfig(self.temperature, 1.0, self.answer_tokens)

    def draw(
        self,
        sampler: Sampler,
        rollout: Rollout,
        step: int,
        stream: tuple[int | str, ...],
        done: DrawDone,
    ) -> None:
        state_ids = (*rollout.prompt_ids, *rollout.prefix_ids(step))
        asked_ids = tuple(self.ask(state_ids, sampler.tokenizer))

        def finish(index: int, completion: Completion) -> None:
            done(index, partial(self._number, sampler.text(completion.token_ids)), completion)

        numbers = range(self.num_samples)
        if len(asked_ids) + self.answer_tokens > self.config.engine.max_model_len:
            for index in numbers:
                finish(index, Completion((), (), "length"))
            return
        submit_samples(sampler, asked_ids, self.sampling(sampler.sampling), numbers, stream, finish)

    def _number(self, text: str) -> float:
        number = float(self.read(text))
        if not math.isfinite(number):
            raise UserError(f"values of {self.name} must be finite, got {number} of {text!r}")
        return number

"""Sampling responses: prompts go to the engine, drafts come back while their grading goes on."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from vineppo.config.schema import SamplingConfig
from vineppo.engine import Completion, Engine, SampleRequest
from vineppo.seeds import derive_seed
from vineppo.tasks.grading import Grader
from vineppo.types import FinishReason, Problem, Rollout


@dataclass(frozen=True)
class Sampler:
    """What sampling is done with. `seed` is the run's."""

    engine: Engine
    grader: Grader
    tokenizer: Any
    sampling: SamplingConfig
    seed: int

    def submit(
        self,
        prefix_ids: tuple[int, ...],
        max_tokens: int,
        seed: int,
        with_logprobs: bool,
        done: Callable[[Completion], None],
    ) -> None:
        request = SampleRequest(
            prefix_ids=prefix_ids,
            max_tokens=max_tokens,
            temperature=self.sampling.temperature,
            top_p=self.sampling.top_p,
            seed=seed,
            with_logprobs=with_logprobs,
        )
        self.engine.submit(request, done)

    def text(self, response_ids: Sequence[int]) -> str:
        text: str = self.tokenizer.decode(
            response_ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text

    def reward(
        self, problem: Problem, response_ids: Sequence[int], finish_reason: FinishReason
    ) -> Future[float]:
        """That of a whole response, which is made text only where the grader reads it."""
        text = self.text(response_ids) if self.grader.reads(finish_reason) else ""
        return self.grader.submit(problem, text, finish_reason)


@dataclass(frozen=True)
class Prompt:
    """A problem as token ids."""

    problem: Problem
    token_ids: tuple[int, ...]


@dataclass(frozen=True)
class Draft:
    """A rollout whose reward may still be on its way."""

    prompt: Prompt
    rollout_index: int
    completion: Completion
    text: str
    reward: Future[float]

    @property
    def key(self) -> tuple[str, int]:
        """Problem and index, which name a rollout of an iteration."""
        return self.prompt.problem.id, self.rollout_index

    def settle(self) -> Rollout:
        """Waits for the reward."""
        return Rollout(
            problem=self.prompt.problem,
            rollout_index=self.rollout_index,
            prompt_ids=self.prompt.token_ids,
            response_ids=self.completion.token_ids,
            logprobs_T=self.completion.logprobs_T,
            finish_reason=self.completion.finish_reason,
            text=self.text,
            reward=self.reward.result(),
        )


def submit_rollouts(
    sampler: Sampler,
    prompts_P: Sequence[Prompt],
    num_samples: int,
    iteration: int,
    phase: str,
    done: Callable[[Draft], None],
) -> None:
    """Queues `num_samples` responses of every prompt; `done` is called as each one finishes.

    The stream of sample j of a problem is derive_seed(run, iteration, phase, problem id, j).
    """
    for prompt in prompts_P:
        for index in range(num_samples):

            def finish(completion: Completion, prompt: Prompt = prompt, index: int = index) -> None:
                text = sampler.text(completion.token_ids)
                reward = sampler.grader.submit(prompt.problem, text, completion.finish_reason)
                done(Draft(prompt, index, completion, text, reward))

            sampler.submit(
                prompt.token_ids,
                sampler.sampling.max_tokens,
                derive_seed(sampler.seed, iteration, phase, prompt.problem.id, index),
                phase == "rollouts",
                finish,
            )

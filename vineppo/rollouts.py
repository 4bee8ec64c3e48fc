"""The continuation loop: K continuations of any prefix of token ids, streamed, seeded, graded."""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from vineppo.config.schema import SamplingConfig
from vineppo.engine import Completion, Engine, SampleRequest
from vineppo.segment import response_text
from vineppo.tasks.environments import Environment, Episode
from vineppo.tasks.grading import Grader
from vineppo.types import Problem, Rollout, TokenSequence, Turn, derive_seed

LOOKAHEAD = 16_384  # requests that the engine has, running or not, while there are more


class Scorer(Protocol):
    """Joins the verifier's reward of a response; `recipes/reward_scorer.py` has one."""

    def submit(
        self, prompt_ids: Sequence[int], response_ids: Sequence[int], verdict: Future[float]
    ) -> Future[float]: ...


@dataclass(frozen=True)
class Sampler:
    """An engine with what it samples for; an `environment` rewards turns instead of the grader."""

    engine: Engine
    grader: Grader
    tokenizer: Any
    sampling: SamplingConfig
    seed: int
    scorer: Scorer | None = None
    environment: Environment | None = None
    held: deque[Callable[[], None]] = field(default_factory=deque, compare=False, repr=False)

    def hold(self, submit: Callable[[], None]) -> None:
        """Calls `submit` when the engine has room, because a request holds its whole prefix."""
        self.held.append(submit)
        self._feed()

    def _feed(self) -> None:
        while self.held and self.engine.num_unfinished < LOOKAHEAD:
            self.held.popleft()()

    @property
    def is_busy(self) -> bool:
        return bool(self.held or self.engine.num_unfinished)

    def step(self) -> None:
        """One step of the engine, after as many held requests as it has room for."""
        self._feed()
        self.engine.step()

    def finish(self, tick: Callable[[], None] = lambda: None) -> None:
        """Steps until nothing is left; `tick` is called after each."""
        while self.is_busy:
            self.step()
            tick()

    def text(self, response_ids: Sequence[int]) -> str:
        return response_text(self.tokenizer, response_ids)

    def full_text(self, response_ids: Sequence[int]) -> str:
        """With special tokens as the tokenizer writes them."""
        backend = self.tokenizer.backend_tokenizer
        text: str = backend.decode(response_ids, skip_special_tokens=False)
        return text


@dataclass(frozen=True)
class Prompt:
    """A problem as token ids."""

    problem: Problem
    token_ids: tuple[int, ...]


@dataclass(frozen=True)
class State:
    """A prompt and the first tokens of a response: what a value belongs to."""

    prompt: Prompt
    prefix_ids: tuple[int, ...] = ()


@dataclass(frozen=True)
class Continuation:
    """Number `index` of a state's continuations; the rest but `completion` is the whole response's.

    The reward may be pending. `text` is None where no grader read it.
    """

    index: int
    completion: Completion
    reward: Future[float]
    text: str | None
    turns: tuple[Turn, ...] = ()


def submit_samples(
    sampler: Sampler,
    prompt_ids: tuple[int, ...],
    sampling: SamplingConfig,
    numbers: range,
    stream: tuple[int | str, ...],
    done: Callable[[int, Completion], None],
    with_logprobs: bool = False,
    stop_ids: tuple[int, ...] = (),
) -> None:
    """Queues samples after any token ids; `done` gets the number of each as it finishes.

    Number k has the seed derive_seed(run seed, *stream, k). `stop_ids` end a sample as well.
    """
    for number in numbers:
        sampler.engine.submit(
            SampleRequest(
                prefix_ids=prompt_ids,
                max_tokens=sampling.max_tokens,
                temperature=sampling.temperature,
                top_p=sampling.top_p,
                top_k=sampling.top_k,
                min_p=sampling.min_p,
                seed=derive_seed(sampler.seed, *stream, number),
                with_logprobs=with_logprobs,
                stop_ids=stop_ids,
            ),
            partial(done, number),
        )


def submit_continuations(
    sampler: Sampler,
    state: State,
    numbers: range,
    stream: tuple[int | str, ...],
    done: Callable[[Continuation], None],
    with_logprobs: bool = False,
) -> None:
    """Queues a state's continuations; `done` is called as each one finishes, in any order.

    A continuation has the token budget that the response had left at the state. Number k has the
    seed derive_seed(run seed, *stream, k).
    """
    prompt, prefix_ids, sampling = state.prompt, state.prefix_ids, sampler.sampling
    if sampler.environment is not None:
        for number in numbers:
            episode = Episode(sampler.environment, prompt.problem, sampling.max_tokens, prefix_ids)
            _submit_turns(sampler, state, episode, number, stream, done, with_logprobs)
        return
    whole_ids = (*prompt.token_ids, *prefix_ids)

    def finish(index: int, completion: Completion) -> None:
        # Not `prefix_ids`: all that wait share one tuple.
        done(graded(sampler, prompt, whole_ids[len(prompt.token_ids) :], index, completion))

    left = replace(sampling, max_tokens=sampling.max_tokens - len(prefix_ids))
    submit_samples(sampler, whole_ids, left, numbers, stream, finish, with_logprobs)


def _submit_turns(
    sampler: Sampler, state: State, episode: Episode, number: int, stream: tuple[int | str, ...],
    done: Callable[[Continuation], None], with_logprobs: bool,
) -> None:  # fmt: skip
    """Queues a continuation by turns; the response's turn t has the stream (*stream, t)."""
    start, sampled_N = len(state.prefix_ids), list[float]()  # log-probabilities, if asked for

    def ask() -> None:
        submit_samples(
            sampler, (*state.prompt.token_ids, *episode.response_ids),
            replace(sampler.sampling, max_tokens=episode.room), range(number, number + 1),
            (*stream, len(episode.turns)), answer, with_logprobs, episode.stop_ids,
        )  # fmt: skip

    def answer(_: int, completion: Completion) -> None:
        sampled_N.extend(completion.logprobs_T)
        episode.act(completion.token_ids, completion.finish_reason)
        if episode.finish_reason is None:
            return ask()
        reward: Future[float] = Future()
        reward.set_result(episode.reward)
        whole = TokenSequence((), tuple(episode.response_ids), turns=tuple(episode.turns))
        num_sampled = sum(whole.is_action_T[start:])
        before_N = [0.0] * (sum(whole.is_action_T) - num_sampled)
        logprobs_T = whole.over_response(before_N + sampled_N)[start:] if with_logprobs else ()
        ids, finish_reason = whole.response_ids[start:], episode.finish_reason
        completion = Completion(ids, logprobs_T, finish_reason, len(ids) - num_sampled)
        return done(Continuation(number, completion, reward, None, whole.turns))

    ask()


def graded(
    sampler: Sampler,
    prompt: Prompt,
    prefix_ids: tuple[int, ...],
    index: int,
    completion: Completion,
) -> Continuation:
    """A completion of a prefix, on its way to a grader."""
    text, full_text, response_ids = None, "", (*prefix_ids, *completion.token_ids)
    if sampler.grader.reads(completion.finish_reason):
        text = sampler.text(response_ids)
        if sampler.grader.reads_special_tokens:
            full_text = sampler.full_text(response_ids)
    reward = sampler.grader.submit(
        prompt.problem, text or "", completion.finish_reason, response_ids, full_text
    )
    if sampler.scorer is not None and text is not None:
        reward = sampler.scorer.submit(prompt.token_ids, response_ids, reward)
    return Continuation(index, completion, reward, text)


class PendingRollouts:
    """Rollouts in the order they finish; their rewards may come later."""

    def __init__(self) -> None:
        self._items: dict[tuple[str, int], tuple[Rollout, Future[float]]] = {}

    def add(self, rollout: Rollout, reward: Future[float]) -> None:
        self._items[rollout.key] = rollout, reward

    def settle(
        self, result: Callable[[Future[float]], float] = Future.result
    ) -> dict[tuple[str, int], Rollout]:
        """Sets the rewards, awaited by `result`; gives the rollouts by problem and index."""
        for rollout, reward in self._items.values():
            rollout.reward = result(reward)
        return {key: rollout for key, (rollout, _) in self._items.items()}


def submit_rollouts(
    sampler: Sampler,
    prompts_P: Sequence[Prompt],
    num_samples: int,
    stream: tuple[int | str, ...],
    done: Callable[[Rollout], None] = lambda _: None,
    with_logprobs: bool = False,
) -> PendingRollouts:
    """Queues samples j of every prompt, with the random streams (*stream, problem id, j)."""
    pending = PendingRollouts()
    for prompt in prompts_P:

        def finish(continuation: Continuation, prompt: Prompt = prompt) -> None:
            rollout = finished_rollout(sampler, prompt, continuation)
            pending.add(rollout, continuation.reward)
            done(rollout)

        of_problem = (*stream, prompt.problem.id)
        numbers = range(num_samples)
        submit_continuations(sampler, State(prompt), numbers, of_problem, finish, with_logprobs)
    return pending


def finished_rollout(sampler: Sampler, prompt: Prompt, whole: Continuation) -> Rollout:
    """A continuation of an empty response."""
    completion, text = whole.completion, whole.text
    if text is None:  # special tokens say who speaks in a dialogue
        text = (sampler.full_text if whole.turns else sampler.text)(completion.token_ids)
    return Rollout(
        problem=prompt.problem,
        rollout_index=whole.index,
        prompt_ids=prompt.token_ids,
        response_ids=completion.token_ids,
        logprobs_T=completion.logprobs_T,
        finish_reason=completion.finish_reason,
        text=text,
        turns=whole.turns,
    )

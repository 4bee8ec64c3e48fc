"""Values that are means of what the engine samples at a state, while rollouts are sampled."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial

from vineppo.config.schema import IdenticalPrefixes
from vineppo.engine import Completion
from vineppo.rollouts import Sampler
from vineppo.seeds import prefix_digest
from vineppo.types import Rollout, StateValue
from vineppo.values.predictor import StateKey, ValuePredictor

NO_VALUE = StateValue((), 0)  # of a state that was not sampled


@dataclass(frozen=True)
class Draws:
    """What is asked for at the state before a step: a draw number k of the stream (*stream, k).

    `done` takes the index of a draw, what gives its number once the engine has finished, and the
    sample.
    """

    rollout: Rollout
    step: int
    stream: tuple[int | str, ...]
    done: Callable[[int, Callable[[], float], Completion], None]

    @property
    def state_ids(self) -> tuple[int, ...]:
        return (*self.rollout.prompt_ids, *self.rollout.prefix_ids(self.step))


class SampledValues(ValuePredictor):
    """V(s) = the mean number of `num_samples` draws of s; what a draw is, says `draw`.

    Each predictor of a run has random numbers of its own, `stream_name`.
    """

    is_sampled = True
    num_samples: int
    identical_prefixes: IdenticalPrefixes = "share"
    samples_all = True  # states; else those of `sampled_steps`

    def sampled_steps(self, rollout: Rollout, iteration: int) -> Collection[int]:  # noqa: ARG002
        """The steps of a rollout before which its states are sampled; sees no reward."""
        return range(len(rollout.spans_S))

    def draw(self, sampler: Sampler, asked: Draws) -> None:
        """Queues the draws of a state; `done` is called once for each."""
        raise NotImplementedError

    def max_tokens(self, sampler: Sampler, rollout: Rollout, step: int) -> int:
        """Of a draw."""
        raise NotImplementedError

    @property
    def stream_name(self) -> str:
        return f"values/{self.name}"

    def open_stream(self, sampler: Sampler, iteration: int) -> "SampledStream":
        return SampledStream(self, sampler, iteration)

    def state_key(self, rollout: Rollout, step: int) -> StateKey:
        """Problem and digest of the prefix, and rollout and step where these are kept apart."""
        prefix = prefix_digest(rollout.prefix_ids(step))
        is_separate = self.identical_prefixes == "separate"
        return rollout.problem.id, prefix, f"{rollout.rollout_index}/{step}" * is_separate

    def merge(
        self, rollouts: Sequence[Rollout], found_R: Sequence[dict[StateKey, StateValue]]
    ) -> None:
        """The tokens of a shared state are counted once, for the first of the rollouts given.

        A state that another rollout of the problem had sampled serves all that pass it; one that
        none had has no returns, and the value NaN.
        """
        value_of = self._of_replicas(found_R)
        counted: set[StateKey] = set()
        for rollout in rollouts:
            values_S = []
            for step in range(len(rollout.spans_S)):
                key = self.state_key(rollout, step)
                assert key in value_of or not self.samples_all, "a state is missing"
                value = value_of.get(key, NO_VALUE)
                values_S.append(replace(value, num_tokens=0) if key in counted else value)
                counted.add(key)
            self.keep(rollout, values_S)
            self.set_values([rollout], [[value.mean for value in values_S]])

    def keep(self, rollout: Rollout, values_S: Sequence[StateValue]) -> None:
        """What a rollout is to know besides the means: by default what they took."""
        rollout.steps_S[f"tokens/{self.name}"] = [value.num_tokens for value in values_S]

    def _of_replicas(
        self, found_R: Sequence[dict[StateKey, StateValue]]
    ) -> dict[StateKey, StateValue]:
        """The values that all replicas found.

        Where several sampled a state, their draws have the same seeds and count once. The tokens
        were sampled twice.
        """
        merged: dict[StateKey, StateValue] = {}
        for values in found_R:
            for key, value in values.items():
                there = merged.get(key, replace(value, num_tokens=0))
                merged[key] = replace(there, num_tokens=there.num_tokens + value.num_tokens)
        return merged


@dataclass
class _Distinct:
    """The draws of one distinct state, as they come in."""

    numbers_K: list[Callable[[], float] | None]
    num_tokens: int = 0


class SampledStream:
    """Collects the values of an iteration while its rollouts are still being sampled.

    How many draws a state gets is fixed before any number is seen, so the means are unbiased.
    Which rollout comes first changes neither seeds nor values.
    """

    def __init__(self, predictor: SampledValues, sampler: Sampler, iteration: int) -> None:
        self._predictor = predictor
        self._sampler = sampler
        self._iteration = iteration
        self._states: dict[StateKey, _Distinct] = {}
        self.budget_left = 0

    def budget(self, rollout: Rollout, first: int = 0) -> int:
        """Of continuations with K = 2, 10 tokens a response and steps from 0 and 4: 2 · (10 + 6)"""
        steps = self._steps(rollout, first)
        lengths = (self._predictor.max_tokens(self._sampler, rollout, step) for step in steps)
        return self._predictor.num_samples * sum(lengths)

    def submit(self, rollout: Rollout, first: int = 0, end: int | None = None) -> None:
        for step in self._steps(rollout, first, end):
            key = self._predictor.state_key(rollout, step)
            if key not in self._states:
                self._sample(rollout, step, key)

    def settle(self) -> dict[StateKey, StateValue]:
        values = {}
        for key, state in self._states.items():
            returns_K = tuple(number() for number in state.numbers_K if number is not None)
            assert len(returns_K) == len(state.numbers_K), "a draw is missing"
            values[key] = StateValue(returns_K, state.num_tokens)
        return values

    def _steps(self, rollout: Rollout, first: int, end: int | None = None) -> list[int]:
        chosen = self._predictor.sampled_steps(rollout, self._iteration)
        return [step for step in range(len(rollout.spans_S))[first:end] if step in chosen]

    def _sample(self, rollout: Rollout, step: int, key: StateKey) -> None:
        predictor = self._predictor
        distinct = self._states[key] = _Distinct([None] * predictor.num_samples)
        budget = predictor.max_tokens(self._sampler, rollout, step)
        problem_id, prefix, apart = key
        self.budget_left += predictor.num_samples * budget

        def finish(index: int, number: Callable[[], float], completion: Completion) -> None:
            distinct.numbers_K[index] = number
            distinct.num_tokens += completion.num_sampled
            self.budget_left -= budget

        stream = (self._iteration, predictor.stream_name, problem_id, apart or prefix)
        asked = Draws(rollout, step, stream, finish)
        self._sampler.hold(partial(predictor.draw, self._sampler, asked))

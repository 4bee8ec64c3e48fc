"""Values that are means of what the engine samples at states, while rollouts are sampled.

Monte-Carlo values are the mean return of K fresh, graded continuations from step boundaries:

    V̂(s_i) = (1/K) Σ_k R(prompt, response[:start_i] + continuation_k),  continuation_k ~ π(· | s_i)

as the policy samples, with the token budget that the rollout had left at s_i (VinePPO, arXiv:
2410.01679, eq. 5). Unbiased, and independent of the action that the rollout took at s_i.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any

from vineppo.config.schema import IdenticalPrefixes, MonteCarloValues, TrainConfig
from vineppo.distributed import awaited
from vineppo.engine import Completion
from vineppo.rollouts import Continuation, Prompt, Sampler, State, submit_continuations
from vineppo.types import MONTE_CARLO, Rollout, StateValue, derive_seed, prefix_digest
from vineppo.values import StateKey, ValuePredictor

NO_VALUE = StateValue((), 0)  # a state that was not sampled


@dataclass(frozen=True)
class Draws:
    """A request for draws at the state before a step; draw k has the random stream (*stream, k).

    `done` takes the index of a draw, a function that returns its number once the engine has
    finished, and the sample.
    """

    rollout: Rollout
    step: int
    stream: tuple[int | str, ...]
    done: Callable[[int, Callable[[], float], Completion], None]

    @property
    def state_ids(self) -> tuple[int, ...]:
        return (*self.rollout.prompt_ids, *self.rollout.prefix_ids(self.step))


class SampledValues(ValuePredictor):
    """V(s) = the mean number of `num_samples` draws at s; subclasses define `draw`.

    Each predictor of a run has its own random numbers, by `stream_name`.
    """

    is_sampled = True
    num_samples: int
    identical_prefixes: IdenticalPrefixes = "share"
    samples_all = True  # states; False: only those of `sampled_steps`

    def sampled_steps(self, rollout: Rollout, iteration: int) -> Collection[int]:  # noqa: ARG002
        """The steps with a sampled state before them; must not look at the reward."""
        return range(len(rollout.spans_S))

    def draw(self, sampler: Sampler, asked: Draws) -> None:
        """Queues the draws of a state; `done` is called once for each."""
        raise NotImplementedError

    def max_tokens(self, sampler: Sampler, rollout: Rollout, step: int) -> int:
        """The token budget of a draw."""
        raise NotImplementedError

    @property
    def stream_name(self) -> str:
        return f"values/{self.name}"

    def open_stream(self, sampler: Sampler, iteration: int) -> "SampledStream":
        return SampledStream(self, sampler, iteration)

    def state_key(self, rollout: Rollout, step: int) -> StateKey:
        """Problem, digest of the prefix, and rollout and step if identical prefixes are apart."""
        prefix = prefix_digest(rollout.prefix_ids(step))
        is_separate = self.identical_prefixes == "separate"
        return rollout.problem.id, prefix, f"{rollout.rollout_index}/{step}" * is_separate

    def merge(
        self, rollouts: Sequence[Rollout], found_R: Sequence[dict[StateKey, StateValue]]
    ) -> None:
        """A sampled state serves all rollouts that pass it; its tokens count for the first.

        The draws of several replicas at a state have the same seeds and count once.
        """
        value_of: dict[StateKey, StateValue] = {}
        for key, value in chain.from_iterable(values.items() for values in found_R):
            there = value_of.get(key, replace(value, num_tokens=0))
            value_of[key] = replace(there, num_tokens=there.num_tokens + value.num_tokens)
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
        """Keeps in the rollout more than the means: by default the number of sampled tokens."""
        rollout.steps_S[f"tokens/{self.name}"] = [value.num_tokens for value in values_S]


@dataclass
class _Drawn:
    """The draws of one distinct state, as they come in: their numbers, by index."""

    numbers: dict[int, Callable[[], float]] = field(default_factory=dict)
    num_tokens: int = 0


class SampledStream:
    """Collects the values of an iteration while its rollouts are being sampled.

    The number of draws of a state is fixed before any number is seen, so the means are unbiased.
    """

    def __init__(self, predictor: SampledValues, sampler: Sampler, iteration: int) -> None:
        self._predictor, self._sampler, self._iteration = predictor, sampler, iteration
        self._states: dict[StateKey, _Drawn] = {}
        self.budget_left = 0  # tokens that unfinished draws may have at most

    def budget(self, rollout: Rollout, first: int = 0) -> int:
        """The most tokens that the draws of the states from `first` on may have.

        With K = 2, 10 tokens a response and steps from 0 and 4: 2 · (10 + 6).
        """
        steps = self._steps(rollout, first)
        lengths = (self._predictor.max_tokens(self._sampler, rollout, step) for step in steps)
        return self._predictor.num_samples * sum(lengths)

    def submit(self, rollout: Rollout, first: int = 0, end: int | None = None) -> None:
        """Queues the draws of the states s_first … s_{end−1}, by default of all."""
        for step in self._steps(rollout, first, end):
            key = self._predictor.state_key(rollout, step)
            if key not in self._states:
                self._sample(rollout, step, key)

    def settle(self) -> dict[StateKey, StateValue]:
        """The value of every state, once the engine has finished; waits for graders."""
        indices = range(self._predictor.num_samples)
        return {
            key: StateValue(tuple(drawn.numbers[k]() for k in indices), drawn.num_tokens)
            for key, drawn in self._states.items()
        }

    def _steps(self, rollout: Rollout, first: int, end: int | None = None) -> list[int]:
        chosen = self._predictor.sampled_steps(rollout, self._iteration)
        return [step for step in range(len(rollout.spans_S))[first:end] if step in chosen]

    def _sample(self, rollout: Rollout, step: int, key: StateKey) -> None:
        predictor = self._predictor
        drawn = self._states[key] = _Drawn()
        budget = predictor.max_tokens(self._sampler, rollout, step)
        problem_id, prefix, apart = key
        self.budget_left += predictor.num_samples * budget

        def finish(index: int, number: Callable[[], float], completion: Completion) -> None:
            drawn.numbers[index] = number
            drawn.num_tokens += len(completion.token_ids) - completion.num_observed
            self.budget_left -= budget

        stream = (self._iteration, predictor.stream_name, problem_id, apart or prefix)
        asked = Draws(rollout, step, stream, finish)
        self._sampler.hold(partial(predictor.draw, self._sampler, asked))


class MonteCarlo(SampledValues):
    """The mean return of K continuations; with many, the ground truth for other predictors."""

    Config = MonteCarloValues
    takes_turns = True
    training_only = ("scale",)

    def __init__(
        self, name: str, config: TrainConfig, options: MonteCarloValues, *_: object
    ) -> None:
        super().__init__(name, config, options)
        self.num_samples = self.num_continuations = options.num_continuations
        self.identical_prefixes = options.identical_prefixes
        self._states = options.states
        self.samples_all = options.states is None
        self._scale: float | None = None  # from `States.next_scale`

    @property
    def stream_name(self) -> str:
        return "values" if self.name == MONTE_CARLO else super().stream_name

    def sampled_steps(self, rollout: Rollout, iteration: int) -> Collection[int]:
        if self._states is None:
            return super().sampled_steps(rollout, iteration)
        seed = derive_seed(self.config.seed, iteration, "cuts", *rollout.key)
        return self._states.chosen(rollout, seed, self._scale)

    def max_tokens(self, sampler: Sampler, rollout: Rollout, step: int) -> int:
        return sampler.sampling.max_tokens - rollout.spans_S[step].start

    def draw(self, sampler: Sampler, asked: Draws) -> None:
        rollout = asked.rollout
        state = State(Prompt(rollout.problem, rollout.prompt_ids), rollout.prefix_ids(asked.step))

        def finish(continuation: Continuation) -> None:
            asked.done(
                continuation.index, partial(awaited, continuation.reward), continuation.completion
            )

        submit_continuations(sampler, state, range(self.num_samples), asked.stream, finish)

    def keep(self, rollout: Rollout, values_S: Sequence[StateValue]) -> None:
        rollout.returns_S[self.name] = tuple(values_S)

    def update(self, rollouts: Sequence[Rollout], iteration: int) -> dict[str, float]:  # noqa: ARG002
        """Updates the scale that chooses some kinds of states."""
        if self._states is None:
            return {}
        mean = self._states.mean_chance(rollouts, self._scale)
        self._scale = self._states.next_scale(rollouts) or self._scale
        return {} if mean is None else {f"{self.metrics_group}/cut_probability": mean}

    def state(self) -> dict[str, Any]:
        return {} if self._states is None else {"scale": self._scale}

    def set_state(self, state: dict[str, Any]) -> None:
        self._scale = state["scale"]

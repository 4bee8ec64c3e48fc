"""Values that are means of what the engine samples at a state, while rollouts are sampled."""

from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import mean

from vineppo.config.schema import IdenticalPrefixes
from vineppo.distributed import gather_replicas, replica
from vineppo.engine import Completion
from vineppo.interruption import interruption, raise_if_any
from vineppo.rollouts import LOOKAHEAD, Sampler
from vineppo.seeds import prefix_digest
from vineppo.types import Rollout, StateValue
from vineppo.values.predictor import StateKey, ValuePredictor, ValueStream

STEPS_BETWEEN_EXCHANGES = 32
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
        """The values that several replicas found; a state may have been sampled by more than one.

        With "union" its draws add up, as they are of different rollouts. Otherwise they are the
        same ones, of the same seeds, and count once; the tokens were sampled twice.
        """
        merged: dict[StateKey, StateValue] = {}
        for values in found_R:
            for key, value in values.items():
                if key not in merged:
                    merged[key] = value
                    continue
                there = merged[key]
                is_union = self.identical_prefixes == "union"
                returns_K = there.returns_K + (value.returns_K if is_union else ())
                merged[key] = StateValue(returns_K, there.num_tokens + value.num_tokens)
        return merged


@dataclass
class _Distinct:
    """The draws of one distinct state, as they come in."""

    numbers_K: list[Callable[[], float] | None] = field(default_factory=list)
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
        self._held: deque[Callable[[], None]] = deque()  # draws that the engine has not got yet
        self.budget_left = 0

    def budget(self, rollout: Rollout, first: int = 0) -> int:
        """Of continuations with K = 2, 10 tokens a response and steps from 0 and 4: 2 · (10 + 6)"""
        steps = self._steps(rollout, first)
        lengths = (self._predictor.max_tokens(self._sampler, rollout, step) for step in steps)
        return self._predictor.num_samples * sum(lengths)

    def submit(self, rollout: Rollout, first: int = 0, end: int | None = None) -> None:
        for step in self._steps(rollout, first, end):
            key = self._predictor.state_key(rollout, step)
            if key not in self._states or self._predictor.identical_prefixes == "union":
                self._sample(rollout, step, key)

    def feed(self) -> None:
        """A request has its whole prefix: were all of long responses queued, memory would grow
        with the square of their steps."""
        while self._held and self._sampler.engine.num_unfinished < LOOKAHEAD:
            self._held.popleft()()

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
        distinct = self._states.setdefault(key, _Distinct())
        budget = predictor.max_tokens(self._sampler, rollout, step)
        is_shared = predictor.identical_prefixes == "share"
        owner = key[1] if is_shared else f"{rollout.rollout_index}/{step}"
        slot = len(distinct.numbers_K)
        distinct.numbers_K += [None] * predictor.num_samples
        self.budget_left += predictor.num_samples * budget

        def finish(index: int, number: Callable[[], float], completion: Completion) -> None:
            distinct.numbers_K[slot + index] = number
            distinct.num_tokens += completion.num_sampled
            self.budget_left -= budget

        stream = (self._iteration, predictor.stream_name, rollout.problem.id, owner)
        asked = Draws(rollout, step, stream, finish)
        self._held.append(partial(predictor.draw, self._sampler, asked))
        self.feed()


@dataclass(frozen=True)
class _Rest:
    """A rollout of which s_0 alone is sampled, and the budget of the other states' draws."""

    cost: int
    rollout: Rollout


@dataclass(frozen=True)
class _Report:
    """What a replica has left: tokens that its requests may have at most, and rollouts to deal."""

    budget: int
    interruption: str | None
    waiting: list[_Rest]


class WorkSharing:
    """Several replicas of the engine sample the values of all rollouts together.

    A replica samples the rollouts of its own problems, and what all of a problem's rollouts share:
    the values of s_0. The later states of a finished rollout go to one replica: its own while that
    has no more left to do than the others, else, at the next exchange, to the one that has least.
    Exchanges come after so many engine steps, never by the clock, so that a repeated run deals
    alike: a replica that has nothing left waits in an exchange until the others have made their
    steps.

    Samples depend on their seeds alone, not on who draws them. A lone replica is never behind: it
    samples all states when their rollout has finished, and its exchanges change nothing and cost no
    step.

    This is the part of one replica; all of them must meet in every exchange of `step`.
    `num_rollouts` are this replica's own. Without streams there is nothing to share or to exchange.
    """

    def __init__(self, sampler: Sampler, streams: Sequence[ValueStream], num_rollouts: int) -> None:
        self._engine = sampler.engine
        self._streams = streams
        self._rollouts_left = num_rollouts
        self._max_tokens = sampler.sampling.max_tokens
        self._waiting: list[_Rest] = []
        self._is_ahead = True  # has no more to do than the others
        self._num_steps = 0

    def add(self, rollout: Rollout) -> None:
        """A finished rollout of this replica's own."""
        self._rollouts_left -= 1
        for stream in self._streams:
            stream.submit(rollout, 0, 1)
        if self._is_ahead:
            self._submit_rest(rollout)
        elif cost := sum(stream.budget(rollout, 1) for stream in self._streams):
            self._waiting.append(_Rest(cost, rollout))

    def step(self) -> bool:
        """A step of the engine, or an exchange where one is due; False when all is done."""
        for stream in self._streams:
            stream.feed()
        is_due = self._num_steps == STEPS_BETWEEN_EXCHANGES and self._streams
        if self._engine.num_unfinished and not is_due:
            self._engine.step()
            self._num_steps += 1
            return bool(self._streams or self._engine.num_unfinished)
        return self._exchange() if self._streams else False

    def _submit_rest(self, rollout: Rollout) -> None:
        for stream in self._streams:
            stream.submit(rollout, 1)

    def _exchange(self) -> bool:
        self._num_steps = 0
        budget = self._rollouts_left * self._max_tokens
        budget += sum(stream.budget_left for stream in self._streams)
        ranks_a_replica = self._engine.ranks_a_replica
        mine = replica(ranks_a_replica)
        report = _Report(budget, interruption(), self._waiting)
        reports = gather_replicas(report, ranks_a_replica)
        raise_if_any([report.interruption for report in reports])
        budgets = [report.budget for report in reports]
        waiting = [item for report in reports for item in report.waiting]
        self._waiting = []
        owners = deal(budgets, [rest.cost for rest in waiting])
        for owner, rest in zip(owners, waiting, strict=True):
            budgets[owner] += rest.cost
            if owner == mine:
                self._submit_rest(rest.rollout)
        self._is_ahead = budgets[mine] <= mean(budgets)
        return sum(budgets) > 0


def deal(budgets_R: Sequence[int], costs: Sequence[int]) -> list[int]:
    """The replica of each item: the costliest first, each to the one that then has least.

    `deal([10, 0], [3, 8, 4])` is [0, 1, 1]: 8 goes to the idle one, which with 8 against 10 takes
    4 as well, and 3 to the other.
    """
    loads = list(budgets_R)
    owners = [0] * len(costs)
    for item in sorted(range(len(costs)), key=lambda i: -costs[i]):
        owners[item] = min(range(len(loads)), key=loads.__getitem__)
        loads[owners[item]] += costs[item]
    return owners

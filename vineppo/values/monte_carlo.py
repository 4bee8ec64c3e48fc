"""Monte-Carlo state values: K fresh continuations from step boundaries, all or some, graded.

V̂(s_i) = (1/K) Σ_k R(prompt, response[:start_i] + continuation_k), continuation_k ~ π(· | s_i) as
the policy samples, with the token budget that the rollout had left at s_i (VinePPO, arXiv:
2410.01679, eq. 5). Unbiased, and independent of the action that the rollout took at s_i.
"""

from collections.abc import Collection, Sequence

from vineppo.config.schema import MonteCarloValues, TrainConfig
from vineppo.rollouts import (
    Continuation,
    Prompt,
    Sampler,
    State,
    StateRequest,
    submit_continuations,
)
from vineppo.seeds import derive_seed
from vineppo.types import MONTE_CARLO, Rollout, StateValue
from vineppo.values.cuts import cuts_of
from vineppo.values.sampled import DrawDone, SampledValues


class MonteCarlo(SampledValues):
    """The mean return of K continuations; with many of them, the oracle that others face."""

    def __init__(self, name: str, config: TrainConfig, own: MonteCarloValues, *_: object) -> None:
        super().__init__(name, config)
        self.num_samples = self.num_continuations = own.num_continuations
        self.identical_prefixes = own.identical_prefixes
        self._states = own.states
        self.samples_all = own.states is None

    @property
    def stream_name(self) -> str:
        return "values" if self.name == MONTE_CARLO else super().stream_name

    def sampled_steps(self, rollout: Rollout, iteration: int) -> Collection[int]:
        if self._states is None:
            return super().sampled_steps(rollout, iteration)
        return cuts_of(
            self._states, rollout, derive_seed(self.config.seed, iteration, "cuts", *rollout.key)
        )

    def max_tokens(self, sampler: Sampler, rollout: Rollout, step: int) -> int:
        return sampler.sampling.max_tokens - rollout.spans_S[step].start

    def draw(
        self,
        sampler: Sampler,
        rollout: Rollout,
        step: int,
        stream: tuple[int | str, ...],
        done: DrawDone,
    ) -> None:
        state = State(Prompt(rollout.problem, rollout.prompt_ids), rollout.prefix_ids(step))

        def finish(continuation: Continuation) -> None:
            done(continuation.index, continuation.reward.result, continuation.completion)

        submit_continuations(sampler, StateRequest(state, self.num_samples, stream), finish)

    def keep(self, rollout: Rollout, values_S: Sequence[StateValue]) -> None:
        rollout.returns_S[self.name] = tuple(values_S)

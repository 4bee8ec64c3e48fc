"""Monte-Carlo values: K fresh, graded continuations from step boundaries.

V̂(s_i) = (1/K) Σ_k R(prompt, response[:start_i] + continuation_k), continuation_k ~ π(· | s_i) as
the policy samples, with the token budget that the rollout had left at s_i (VinePPO, arXiv:
2410.01679, eq. 5). Unbiased, and independent of the action that the rollout took at s_i.
"""

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

from vineppo.config.schema import MonteCarloValues, TrainConfig
from vineppo.distributed import awaited
from vineppo.rollouts import Continuation, Prompt, Sampler, State, submit_continuations
from vineppo.types import MONTE_CARLO, Rollout, StateValue, derive_seed
from vineppo.values.sampled import Draws, SampledValues


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

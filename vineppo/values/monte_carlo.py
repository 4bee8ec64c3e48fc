"""Monte-Carlo state values: K fresh continuations from step boundaries, all or some, graded.

V̂(s_i) = (1/K) Σ_k R(prompt, response[:start_i] + continuation_k), continuation_k ~ π(· | s_i) as
the policy samples, with the token budget that the rollout had left at s_i (VinePPO, arXiv:
2410.01679, eq. 5). Unbiased, and independent of the action that the rollout took at s_i.
"""

import json
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path

from vineppo.config.schema import ExpectedCuts, MonteCarloValues, TrainConfig
from vineppo.distributed import is_main
from vineppo.interruption import awaited
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
from vineppo.values.cuts import cuts_of, mean_chance, scale_of
from vineppo.values.sampled import Draws, SampledValues

SCALE = "cuts.json"


class MonteCarlo(SampledValues):
    """The mean return of K continuations; with many of them, the oracle that others face."""

    def __init__(self, name: str, config: TrainConfig, own: MonteCarloValues, *_: object) -> None:
        super().__init__(name, config)
        self.num_samples = self.num_continuations = own.num_continuations
        self.identical_prefixes = own.identical_prefixes
        self._states = own.states
        self.samples_all = own.states is None
        self._scale: float | None = None  # of the probabilities of states "expected"

    @property
    def stream_name(self) -> str:
        return "values" if self.name == MONTE_CARLO else super().stream_name

    def sampled_steps(self, rollout: Rollout, iteration: int) -> Collection[int]:
        if self._states is None:
            return super().sampled_steps(rollout, iteration)
        seed = derive_seed(self.config.seed, iteration, "cuts", *rollout.key)
        return cuts_of(self._states, rollout, seed, self._scale)

    def max_tokens(self, sampler: Sampler, rollout: Rollout, step: int) -> int:
        return sampler.sampling.max_tokens - rollout.spans_S[step].start

    def draw(self, sampler: Sampler, asked: Draws) -> None:
        rollout = asked.rollout
        state = State(Prompt(rollout.problem, rollout.prompt_ids), rollout.prefix_ids(asked.step))

        def finish(continuation: Continuation) -> None:
            asked.done(
                continuation.index, partial(awaited, continuation.reward), continuation.completion
            )

        submit_continuations(sampler, StateRequest(state, self.num_samples, asked.stream), finish)

    def keep(self, rollout: Rollout, values_S: Sequence[StateValue]) -> None:
        rollout.returns_S[self.name] = tuple(values_S)

    def update(self, rollouts: Sequence[Rollout], iteration: int) -> dict[str, float]:  # noqa: ARG002
        """For states "expected" the next iteration's scale."""
        if not isinstance(self._states, ExpectedCuts):
            return {}
        mean = mean_chance(self._states, rollouts, self._scale)
        self._scale = scale_of(self._states, rollouts) or self._scale
        return {} if mean is None else {f"{self.metrics_group}/cut_probability": mean}

    def save_state(self, directory: Path) -> None:
        if isinstance(self._states, ExpectedCuts) and is_main():
            directory.mkdir(parents=True, exist_ok=True)
            (directory / SCALE).write_text(json.dumps(self._scale))

    def load_state(self, directory: Path) -> None:
        if isinstance(self._states, ExpectedCuts):
            self._scale = json.loads((directory / SCALE).read_text())

"""Value predictors: plug-ins of the role "values", for training and for every analysis alike.

Here are their interface, how a run builds them, and what they read from a pass of the policy.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import torch
from torch import nn

from vineppo.batching import UpdateSizes, response_rows
from vineppo.config.schema import PredictorConfig, TrainConfig
from vineppo.distributed import is_main
from vineppo.errors import UserError
from vineppo.models import LoadedModel
from vineppo.token_scores import ForwardOptions, Rows, TokenScores, read_sequences
from vineppo.types import CRITIC, Rollout, StateValue, StepSpan, TrainBatch, predictor_key

if TYPE_CHECKING:
    from vineppo.policy import Policy, Summand
    from vineppo.rollouts import Prompt, Sampler
    from vineppo.values.sampled import SampledStream

STATE = "state.pt"
StateKey = tuple[str, ...]  # what keeps two states apart, the problem's id first


class ValuePredictor:
    """V(s) for the states before each step or each token of rollouts.

    `Config` holds its keys. A predictor overrides what it needs; the rest does nothing:

        its own pass            `estimate`, which ends in `set_values` or `set_by_rollout`
        returns of another      `estimate`, after those are sampled: `Config.returns_of` names it
        values of another       `estimate`, after it: `Config.values_of`
        sampled continuations   `is_sampled`, `open_stream`, `merge`: see `SampledValues`
        the policy's pass       `head` (trained with the policy), `from_policy`
        its hidden states       `reads_hidden`: `scores.hidden_BTH` there, and `rollout.hidden_SH`
        its entropies           `reads_entropies`: the column "entropies"
        its distributions       `num_candidates`, `choices_of`: `rollout.choices`
        training                `update`, or with a head `policy_loss`; `state`, `set_state`

    For an unbiased gradient a baseline must not depend on the action after its state.
    """

    Config: ClassVar[type[PredictorConfig]] = PredictorConfig

    # The values.
    gives: Literal["tokens", "steps"] = "steps"
    is_martingale = False  # under the policy, with the column "differences/NAME"
    is_exact = False  # the policy's value itself
    is_probability = False  # of success: rewards must be within [0, 1]
    takes_turns = False  # values states between turns, through the policy's mask
    # Inputs.
    is_sampled = False  # the engine is asked, by `open_stream`
    is_made_of_returns = False  # `estimate` takes those of `Config.returns_of`
    reads_hidden = False  # a pass of the policy sets `hidden_SH` and "trainer_logprobs"
    reads_entropies = False  # that pass sets "entropies" and "trainer_logprobs"
    num_candidates = 0  # likeliest tokens that `choices_of` gets, if above 0
    # Parts, and training.
    num_continuations = 0  # of every state, if the values are their mean return
    num_weights = 0  # of a separate model
    head: nn.Module | None = None  # on the policy's backbone, in its module and optimizer
    head_learning_rate = 0.0
    trains_policy = False  # `update` changes the policy's weights, and comes after its own
    training_only: tuple[str, ...] = ()  # keys of `state` that values do not depend on
    is_frozen = False  # loaded from a checkpoint, and trained no more

    def __init__(
        self,
        name: str,
        config: TrainConfig,
        options: Any = None,
        loaded: LoadedModel | None = None,  # noqa: ARG002
    ) -> None:
        """`options` are the keys of `name` in the config; `loaded` is the policy."""
        self.name, self.config, self.options = name, config, options

    @classmethod
    def build(
        cls, name: str, config: TrainConfig, options: Any, loaded: LoadedModel | None
    ) -> "ValuePredictor":
        """The predictor of a run that is about to train."""
        return cls(name, config, options, loaded)

    @classmethod
    def at_checkpoint(
        cls, name: str, config: TrainConfig, options: Any, directory: Path | None
    ) -> "ValuePredictor | None":
        """A frozen one from `directory / name`, if that is there; None: as training starts."""
        predictor = cls(name, config, options)
        predictor.is_frozen = True
        if directory is None:
            return predictor
        if (directory / name / STATE).is_file():
            predictor.load_state(directory / name)
        elif predictor._learned(predictor.state()):
            return None
        return predictor

    @property
    def column(self) -> str:
        return f"values/{self.name}"

    @property
    def metrics_group(self) -> str:
        """The prefix of its metrics' names."""
        return CRITIC if self.name == CRITIC else f"values/{self.name}"

    @property
    def key(self) -> str:
        """Its table in the config."""
        return predictor_key(self.name)

    def set_by_rollout(self, rollouts: Sequence[Rollout], values: Sequence[float]) -> None:
        """Gives every state of rollout i the value `values[i]`."""
        pairs = zip(rollouts, values, strict=True)
        self.set_values(rollouts, [[value] * len(rollout.spans_S) for rollout, value in pairs])

    def set_as_rollouts(self, branches: Sequence[Rollout], rollouts: Sequence[Rollout]) -> None:
        """Gives branches the value that all states of their rollout have."""
        value = {rollout.key: rollout.values_S(self.name)[0] for rollout in rollouts}
        self.set_by_rollout(branches, [value[branch.key] for branch in branches])

    def set_values(self, rollouts: Sequence[Rollout], values: Sequence[Sequence[float]]) -> None:
        """Gives rollout i the values `values[i]`, one a step or one a token, as `gives` says."""
        for rollout, values_i in zip(rollouts, values, strict=True):
            if self.gives == "tokens":
                assert len(values_i) == len(rollout.response_ids), "one value a token"
                rollout.tokens_T[self.column] = carried_back(values_i, rollout.turns)
            else:
                assert len(values_i) == len(rollout.spans_S), "one value a step"
                rollout.steps_S[self.column] = values_i

    def check_problems(self, prompts_P: Sequence["Prompt"]) -> None:
        """Raises `UserError` if it cannot value states of the run's problems."""

    def start(self, policy: "Policy") -> None:
        """Puts trained weights under an optimizer; called once, after the engine has started."""

    # While rollouts are sampled.

    def open_stream(self, sampler: "Sampler", iteration: int) -> "SampledStream":
        """The stream that samples for the values, if `is_sampled`."""
        raise NotImplementedError

    def merge(
        self, rollouts: Sequence[Rollout], found_R: Sequence[dict[StateKey, StateValue]]
    ) -> None:
        """Sets the values of all rollouts from what the replicas' streams found."""

    # After sampling, without a gradient.

    def from_policy(self, scores: TokenScores) -> torch.Tensor | None:  # noqa: ARG002
        """Values [B, T] from a pass of the policy, if it gives them."""
        return None

    def choices_of(self, scores: TokenScores, rollouts: Sequence[Rollout]) -> Sequence[Any]:
        """`rollout.choices` for each rollout of a pass, if `num_candidates` is above 0."""
        raise NotImplementedError

    def estimate(self, rollouts: Sequence[Rollout]) -> None:
        """Sets the values that neither a stream nor the policy's pass has set."""

    def estimate_branches(self, branches: Sequence[Rollout], rollouts: Sequence[Rollout]) -> None:  # noqa: ARG002
        """`estimate` for branches without a reward, which leave one of `rollouts` at a state."""
        self.estimate(branches)

    def estimate_after(self, rollouts: Sequence[Rollout]) -> None:
        """Sets `values_after` of responses that the budget cut off, if the credit bootstraps."""
        config = self.config
        if self.gives == "steps" or config.max_valued_tokens == config.sampling.max_tokens:
            return
        cut_off = [rollout for rollout in rollouts if rollout.finish_reason == "length"]
        # A value is of the tokens before it: one token more.
        longer = [replace(r, response_ids=(*r.response_ids, 0), tokens_T={}) for r in cut_off]
        if longer:
            self.estimate_branches(longer, rollouts)
        for rollout, branch in zip(cut_off, longer, strict=True):
            for name, values_T in branch.tokens_T.items():
                rollout.values_after[name.removeprefix("values/")] = values_T[-1]

    # Training.

    def prepare_update(self, rollouts: Sequence[Rollout]) -> None:
        """Adds the columns that training reads, such as targets."""

    @property
    def update_columns(self) -> tuple[str, ...]:
        """The columns that the policy's update must carry for `policy_loss`."""
        return ()

    def policy_loss(
        self,
        sizes: UpdateSizes,  # noqa: ARG002
        batch: TrainBatch,  # noqa: ARG002
        scores: TokenScores,  # noqa: ARG002
    ) -> "tuple[float, Summand] | None":
        """A coefficient, and the loss that joins the policy's; its numbers become `NAME/…`."""
        return None

    def update(self, rollouts: Sequence[Rollout], iteration: int) -> dict[str, float]:  # noqa: ARG002
        """Trains for an iteration on its own; returns metrics."""
        return {}

    # Persistence.

    def state(self) -> dict[str, Any]:
        """All that it learned: numbers, texts, tensors, lists and tables of these."""
        return {}

    def set_state(self, state: dict[str, Any]) -> None:
        """The inverse of `state`; a frozen predictor gets no `training_only` keys."""

    def save_hf(self, directory: Path) -> None:
        """Saves for use what was learned: a model in Hugging Face format."""
        _write(directory, self._learned(self.state()))

    def save_state(self, directory: Path) -> None:
        """Saves all that a resumed run needs."""
        _write(directory, self.state())

    def load_state(self, directory: Path) -> None:
        if not (directory / STATE).is_file():
            if self.state():
                raise UserError(f"{directory / STATE} is missing: another version wrote it")
            return
        self.set_state(torch.load(directory / STATE, map_location="cpu", weights_only=True))

    def _learned(self, state: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in state.items() if key not in self.training_only}


def _write(directory: Path, state: dict[str, Any]) -> None:
    if state and is_main():
        directory.mkdir(parents=True, exist_ok=True)
        torch.save(state, directory / STATE)


def carried_back(values_T: Sequence[float], turns: Sequence[StepSpan]) -> Sequence[float]:
    """Gives an environment's tokens the value of the turn after them: [1, 2, 0, 4] → 1, 2, 4, 4."""
    carried = list(values_T)
    for turn, after in pairwise(turns):  # no TD error there
        carried[turn.end : after.start] = [values_T[after.start]] * (after.start - turn.end)
    return carried if turns else values_T


def build_predictors(config: TrainConfig, loaded: LoadedModel | None) -> list[ValuePredictor]:
    """The estimator's continuations, the critic, and `values.predictors`."""
    held = config.predictors.items()
    return [keys.predictor.build(name, config, keys, loaded) for name, keys in held]


def predictors_at(config: TrainConfig, directory: Path | None) -> list[ValuePredictor]:
    """The same, frozen, from the checkpoint at `directory`; None: as training starts.

    A predictor that was not saved is left out.
    """
    loaded = [
        keys.predictor.at_checkpoint(name, config, keys, directory)
        for name, keys in config.predictors.items()
    ]
    return [predictor for predictor in loaded if predictor is not None]


def feeding_predictor(config: TrainConfig) -> str | None:
    """The name of the predictor that feeds the credit estimator, if any."""
    return config.values.credit or config.credit.fed_by


def read_policy(
    rollouts: Sequence[Rollout],
    predictors: Sequence[ValuePredictor],
    scores_of: Callable[[TrainBatch, ForwardOptions], TokenScores],
    options: ForwardOptions,
    columns_of: Callable[[TokenScores], Sequence[torch.Tensor]],
    micro_batch_size: int,
    device: torch.device,
    packs: bool = False,
) -> list[Rows]:
    """`columns_of` the scores of every response token, one `Rows` a tensor.

    Sets from the same pass the predictors' values, and `hidden_SH`, "entropies" and `choices` if
    one of the predictors reads them.
    """
    reads_entropies = any(predictor.reads_entropies for predictor in predictors)
    options = replace(
        options,
        has_entropy=options.has_entropy or reads_entropies,
        has_hidden=any(predictor.reads_hidden for predictor in predictors),
        num_candidates=max((predictor.num_candidates for predictor in predictors), default=0),
    )
    chooser = next((p for p in predictors if p.num_candidates), None)
    readers: list[ValuePredictor] = []

    def read(batch: TrainBatch, share: Sequence[Rollout]) -> list[tuple[Any, ...]]:
        scores = scores_of(batch, options)
        columns = [*columns_of(scores)]
        if reads_entropies:
            columns.append(scores.entropy_BT)
        readers.clear()
        for predictor in predictors:
            if (values_BT := predictor.from_policy(scores)) is not None:
                readers.append(predictor)
                columns.append(values_BT)
        hidden = hidden_before_steps(scores, share) if options.has_hidden else repeat(None)
        choices = chooser.choices_of(scores, share) if chooser is not None else repeat(None)
        rows = zip(response_rows(columns, batch, share), hidden, choices, strict=False)
        return [(*row, hidden_SH, choices_U) for row, hidden_SH, choices_U in rows]

    rows_B = read_sequences(read, rollouts, micro_batch_size, device, packs=packs)
    *columns, hidden, choices = map(list, zip(*rows_B, strict=True))
    for rollout, hidden_SH, choices_U in zip(rollouts, hidden, choices, strict=True):
        rollout.hidden_SH, rollout.choices = hidden_SH, choices_U
    for predictor in reversed(readers):
        predictor.set_values(rollouts, columns.pop())
    if reads_entropies:
        for rollout, entropies_T in zip(rollouts, columns.pop(), strict=True):
            rollout.tokens_T["entropies"] = entropies_T
    return columns


def hidden_before_steps(scores: TokenScores, rollouts: Sequence[Rollout]) -> list[np.ndarray]:
    """[S, H] of every rollout of a batch, in float32."""
    assert scores.hidden_BTH is not None, "asked for"
    found = []
    for hidden_TH, rollout in zip(scores.hidden_BTH, rollouts, strict=False):
        starts_S = [len(rollout.prompt_ids) + span.start for span in rollout.spans_S]
        found.append(hidden_TH[starts_S].float().cpu().numpy())
    return found

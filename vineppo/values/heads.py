"""Learned values: a scalar head, what its outputs mean, its loss, and value models on disk.

A value model is an HF sequence classifier with one label.
"""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from vineppo.config.schema import (
    CriticConfig,
    CrossEntropy,
    ModelConfig,
    SeparateCritic,
    SquaredError,
    TrainConfig,
)
from vineppo.credit.vine import broadcast, next_values
from vineppo.deepspeed_module import Summand
from vineppo.errors import UserError
from vineppo.forward_passes import token_columns
from vineppo.losses import cross_entropy, squared_error
from vineppo.minibatches import UpdateSizes
from vineppo.models import (
    adapt,
    load_tokenizer,
    resolve_model_path,
    safetensors_only,
    save_model,
)
from vineppo.policy import Policy
from vineppo.seeds import derive_seed
from vineppo.token_scores import hidden_before_tokens, spread
from vineppo.types import Rollout, TokenSequence, TrainBatch
from vineppo.values.predictor import ValuePredictor
from vineppo.values.view import View

ValueLoss = SquaredError | CrossEntropy
HEAD = "score"  # the name of the head in every decoder's *ForSequenceClassification


def values_of(outputs: torch.Tensor, loss: ValueLoss) -> torch.Tensor:
    """V = the head's output; for a loss with bounds V = low + (high − low) · sigmoid(output).

    Low 0, high 1 and an output of 0 give V = 0.5.
    """
    if loss.bounds is None:
        return outputs
    low, high = loss.bounds
    return low + (high - low) * torch.sigmoid(outputs)


def value_objective(
    loss: ValueLoss, name: str, sizes: UpdateSizes, batch: TrainBatch, outputs_BT: torch.Tensor
) -> Summand:
    """The mean value loss over all response tokens of the update, for predictor `name`."""
    mask_BT = batch.response_mask_BT
    old_BT, targets_BT = batch[f"values/{name}"], batch[f"targets/{name}"]
    if isinstance(loss, SquaredError):
        losses_BT, is_clipped_BT = squared_error(outputs_BT, old_BT, targets_BT, loss.clip)
    else:
        losses_BT = cross_entropy(outputs_BT, targets_BT, loss.low, loss.high)
        is_clipped_BT = torch.zeros_like(mask_BT)
    num_tokens = max(sizes.response_tokens, 1)
    total = losses_BT.masked_fill(~mask_BT, 0.0).sum() / num_tokens
    return total, {
        "loss": total,
        "clip_frac": (is_clipped_BT & mask_BT).sum() / num_tokens,
        "value_mean": (values_of(outputs_BT, loss) * mask_BT).sum() / num_tokens,
    }


VALUE_NUMBERS = ("loss", "clip_frac", "value_mean")


class ValueHead(nn.Linear):
    """h → wᵀh + offset, with the weights of an HF classifier's head of one label.

    They start by `critic.head_init`. "normal" is N(0, 1/√(H + 1)), VinePPO's code's, from a stream
    of its own, the same on every rank: behind a norm its values have a standard deviation near 1,
    which drowns a 0/1 reward until it is unlearned. "zero" and "mean" are zeros; "mean" sets the
    offset, before the first update, so that V is the mean reward of that iteration.
    """

    offset: torch.Tensor  # NaN until it is measured, when it counts as 0

    def __init__(self, hidden_size: int, dtype: torch.dtype, head_init: str, seed: int) -> None:
        super().__init__(hidden_size, 1, bias=False, dtype=dtype)
        self.register_buffer("offset", torch.tensor(math.nan if head_init == "mean" else 0.0))
        start = torch.zeros(self.weight.shape)
        if head_init == "normal":
            generator = torch.Generator().manual_seed(derive_seed(seed, "critic head"))
            start = torch.randn(start.shape, generator=generator) / math.sqrt(hidden_size + 1)
        with torch.no_grad():
            self.weight.copy_(start)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return super().forward(hidden) + self.offset.nan_to_num(0.0).to(hidden.dtype)

    def measure_offset(self, rollouts: Sequence[Rollout], loss: ValueLoss) -> None:
        """Makes V the mean reward where all weights are 0; nothing where the offset is known."""
        if self.offset.isnan():
            mean = sum(rollout.reward for rollout in rollouts) / len(rollouts)
            if loss.bounds is not None:
                low, high = loss.bounds
                mean = math.log(max(mean - low, 1e-3) / max(high - mean, 1e-3))
            self.offset.fill_(mean)


def set_targets(
    rollouts: Sequence[Rollout], name: str, config: TrainConfig, learns_from: str | None = None
) -> None:
    """The column "targets/NAME": what the values of predictor `name` are trained towards.

    Before a token of step i that is the return to go, or where it `learns_from` the continuations
    of another the mean return of the next state that has some, which has the mean V(s_t) as well
    and less variance, and after the last of them the reward.
    """
    for rollout in rollouts:
        if learns_from is None:
            targets_T = config.credit.critic_targets(rollout, name)
        else:
            reward = sum(rollout.rewards_T)
            next_S = next_values(rollout.returns_S[learns_from], reward)
            targets_T = broadcast(next_S, rollout.spans_S)
        rollout.tokens_T[f"targets/{name}"] = targets_T


class ValueOutputs(nn.Module):
    """The head's output for the state before every response token, [B, T] and 0 elsewhere."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: TrainBatch) -> torch.Tensor:
        hidden_NH = hidden_before_tokens(self.model.base_model, batch)
        return spread(self.model.score(hidden_NH).squeeze(-1).float(), batch)


class ValueModel(ValuePredictor):
    """V(s) by a pass of a model of its own, of what it sees of the rollouts."""

    gives: Literal["tokens", "steps"] = "tokens"
    view: View
    packs = False  # whether a pass may be packed

    @property
    def device(self) -> torch.device:
        raise NotImplementedError

    def values(self, batch: TrainBatch) -> torch.Tensor:
        """[B, T], 0 outside the response."""
        raise NotImplementedError

    def seen(
        self, branches: Sequence[Rollout], rollouts: Sequence[Rollout]
    ) -> Sequence[TokenSequence]:
        """What is passed, whose siblings are among the iteration's `rollouts`."""
        return self.view.of(branches, rollouts)

    def estimate(self, rollouts: Sequence[Rollout]) -> None:
        self.estimate_branches(rollouts, rollouts)

    def estimate_branches(self, branches: Sequence[Rollout], rollouts: Sequence[Rollout]) -> None:
        size = self.config.optimization.logprobs_micro_batch_size
        forward = lambda batch: (self.values(batch),)  # noqa: E731
        seen = self.seen(branches, rollouts)
        (values,) = token_columns(forward, seen, size, self.device, packs=self.packs)
        self.set_values(branches, values)


class FrozenValueModel(ValueModel):
    """A critic of either kind as a checkpoint has it, or as training starts: both are classifiers.

    At a checkpoint it is passed on the GPU, where there is one; in training it comes there by
    `start`, as the engine measures an empty GPU before.
    """

    def __init__(
        self, name: str, config: TrainConfig, critic: CriticConfig, path: str | None
    ) -> None:
        super().__init__(name, config, critic)
        self._loss = critic.loss
        model = load_value_model(critic, config.model, config.seed, path)
        self.num_weights = sum(weight.numel() for weight in model.parameters())
        self._device = torch.device("cpu")
        self._module = ValueOutputs(model).eval()
        view = critic.view if isinstance(critic, SeparateCritic) else None
        tokenizer = load_tokenizer(path or config.model.path, f"{self.key}.path") if view else None
        self.view = View(view, tokenizer, self.key)

    @classmethod
    def at_checkpoint(
        cls, name: str, config: TrainConfig, options: Any, directory: Path | None
    ) -> "FrozenValueModel | None":
        path = None if directory is None else directory / name
        if path is not None and not path.is_dir():
            return None
        model = cls(name, config, options, None if path is None else str(path))
        model._to(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
        return model

    def start(self, policy: Policy) -> None:
        self._to(policy.device)

    def _to(self, device: torch.device) -> None:
        self._device = device
        self._module.to(device)

    @property
    def device(self) -> torch.device:
        return self._device

    def values(self, batch: TrainBatch) -> torch.Tensor:
        return values_of(self._module(batch), self._loss)


def load_value_model(
    critic: CriticConfig, policy: ModelConfig, run_seed: int, path: str | None = None
) -> Any:
    """A classifier with one label: with its own head where it has one, else with a new one.

    `path` None: the config's, or else the starting policy. Precision and attention are the
    policy's. Raises `UserError` as `load_classifier` does, and for a saved critic whose outputs
    another loss reads.
    """
    of_config = critic.path if isinstance(critic, SeparateCritic) else None
    path = path or of_config or policy.path
    model = load_classifier(path, policy, critic.head_init, run_seed)
    _check_value_range(model.config, path, critic.loss)
    return model


def load_classifier(
    path: str, form: ModelConfig, head_init: str | None, run_seed: int, key: str = "critic.path"
) -> Any:
    """The model at `path` as a classifier with one label, its own head or else a new one.

    Precision and attention are those of `form`; `key` is the config's that names the path. Raises
    `UserError` for a classifier of several labels, for a model that has no classifier, and, where
    `head_init` is None, for one without a head of its own.
    """
    from safetensors import SafetensorError
    from transformers import AutoConfig, AutoModelForSequenceClassification

    resolved = resolve_model_path(path, key)
    try:
        config = AutoConfig.from_pretrained(resolved)
        has_head = (config.architectures or [""])[0].endswith("ForSequenceClassification")
        if has_head and config.num_labels != 1:
            raise UserError(f"{key} {path}: its head must have one label, got {config.num_labels}")
        if not has_head and head_init is None:
            raise UserError(f"{key} {path} must be a classifier with a head, got none")
        model, report = AutoModelForSequenceClassification.from_pretrained(
            resolved,
            num_labels=1,
            dtype=getattr(torch, form.dtype),
            attn_implementation=form.attention,
            output_loading_info=True,
            use_safetensors=safetensors_only() or None,  # None: either
        )
    except (OSError, ValueError, ImportError, RuntimeError, SafetensorError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(f"{key} {path} cannot be loaded: {reason}") from None
    missing = sorted(k for k in report["missing_keys"] if has_head or not k.startswith(HEAD))
    if missing or not hasattr(model, HEAD):
        raise UserError(f"{key} {path} lacks the weights {', '.join(missing) or HEAD}")
    head = ValueHead(model.score.in_features, model.dtype, head_init or "zero", run_seed)
    if has_head:
        head.load_state_dict({"weight": model.score.weight}, strict=False)
        head.offset.fill_(getattr(config, "value_offset", 0.0))
    setattr(model, HEAD, head)
    adapt(model)
    return model


def check_size(
    model: Any,
    num_token_ids: int,
    max_length: int,
    key: str = "critic.path",
    limit: str = "engine.max_model_len",
) -> None:
    """Raises `UserError` where a classifier is too small for the tokenizer or its sequences.

    `key` is the config's that names the model, `limit` the one that says the sequences' length.
    """
    rows = model.config.vocab_size
    if rows < num_token_ids:
        raise UserError(
            f"{key} {model.name_or_path}: its embedding must have at least the tokenizer's "
            f"{num_token_ids} rows, got {rows}"
        )
    positions = getattr(model.config, "max_position_embeddings", None)
    if positions is not None and positions < max_length:
        raise UserError(
            f"{key} {model.name_or_path}: its positions must be at least {limit} = {max_length}, "
            f"got {positions}"
        )


def save_value_model(
    model: Any,
    tokenizer: Any,
    weights: Iterable[tuple[str, torch.Tensor]],
    loss: ValueLoss,
    directory: Path,
) -> None:
    """`save_model`; its config.json says how the head's `output` is read.

    `value_range` [low, high]: V = low + (high − low) · sigmoid(output + `value_offset`); null: V is
    the sum.
    """
    model.config.value_range = loss.bounds and [*loss.bounds]
    model.config.value_offset = float(model.score.offset.nan_to_num(0.0))
    set_padding(model, tokenizer)
    save_model(model, tokenizer, weights, directory, left_out=f"{HEAD}.offset")


def set_padding(model: Any, tokenizer: Any) -> None:
    """Names the classifier's padding token where it has none: else transformers refuses batches."""
    if model.config.pad_token_id is None:
        padding = tokenizer.pad_token_id
        model.config.pad_token_id = tokenizer.eos_token_id if padding is None else padding


def _check_value_range(config: Any, path: str, loss: ValueLoss) -> None:
    """A reward model of others has no `value_range`: its head is taken as it is."""
    saved, expected = getattr(config, "value_range", ...), loss.bounds and [*loss.bounds]
    if saved is not ... and saved != expected:
        raise UserError(
            f"critic.path {path}: its value_range {saved} must be that of critic.loss, {expected}"
        )

"""Learned values: a scalar head, what its outputs mean, its loss, and value models on disk.

A value model is an HF sequence classifier with one label (`recipes/hl_gauss.py`: one a bin).
"""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from vineppo.batching import UpdateSizes
from vineppo.config.schema import CriticConfig, CrossEntropy, ModelConfig, SquaredError, TrainConfig
from vineppo.credit.vine import broadcast, next_values
from vineppo.errors import UserError
from vineppo.losses import cross_entropy, squared_error
from vineppo.models import adapt, loading, readable, resolve_model_path
from vineppo.policy import Summand, save_model
from vineppo.token_scores import hidden_before_tokens, spread
from vineppo.types import Rollout, TrainBatch, derive_seed

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
    """The mean value loss of predictor `name` over all response tokens of the update."""
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
    """h → wᵀh + offset, the head of an HF classifier with one label.

    `head_init` "normal" draws w from N(0, 1/(H + 1)) as VinePPO's code does, the same on every
    rank. Behind a norm such values have a standard deviation near 1, which drowns a 0/1 reward
    until it is unlearned. "zero" and "mean" are zeros; "mean" sets the offset before the first
    update, so that V is the mean reward of that iteration.
    """

    offset: torch.Tensor  # NaN until it is measured, when it counts as 0

    def __init__(
        self, hidden_size: int, dtype: torch.dtype, head_init: str, seed: int, num_labels: int = 1
    ) -> None:
        super().__init__(hidden_size, num_labels, bias=False, dtype=dtype)
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
        """Makes V the mean reward if all weights are 0; does nothing if the offset is known."""
        if self.offset.isnan():
            mean = sum(rollout.reward for rollout in rollouts) / len(rollouts)
            if loss.bounds is not None:
                low, high = loss.bounds
                mean = math.log(max(mean - low, 1e-3) / max(high - mean, 1e-3))
            self.offset.fill_(mean)


def set_targets(
    rollouts: Sequence[Rollout], name: str, config: TrainConfig, learns_from: str | None = None
) -> None:
    """Sets the column "targets/NAME", which the values of predictor `name` are trained towards.

    The target of a token is its return to go. With `learns_from` it is the mean return of that
    predictor's continuations at the next sampled state, and the reward after the last one. The
    expectation is V(s_t) as well, with less variance.
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

    @classmethod
    def load(cls, critic: Any, config: TrainConfig, path: str | None = None) -> "ValueOutputs":
        return cls(load_value_model(critic, config.model, config.seed, path))

    def forward(self, batch: TrainBatch) -> torch.Tensor:
        hidden_NH = hidden_before_tokens(self.model.base_model, batch)
        return spread(self.model.score(hidden_NH).squeeze(-1).float(), batch)


def load_value_model(
    critic: CriticConfig, policy: ModelConfig, run_seed: int, path: str | None = None
) -> Any:
    """`load_classifier` of `path`, by default the critic's, or else the starting policy.

    `UserError` if its `value_range` is another than the loss's; a foreign model has none.
    """
    path = path or getattr(critic, "path", None) or policy.path
    model = load_classifier(path, policy, critic.head_init, run_seed)
    expected = critic.loss.bounds and [*critic.loss.bounds]
    saved = getattr(model.config, "value_range", expected)
    if saved != expected:
        raise UserError(
            f"critic.path {path}: its value_range {saved} must be that of critic.loss, {expected}"
        )
    return model


def load_classifier(
    path: str,
    form: ModelConfig,
    head_init: str | None,
    run_seed: int,
    key: str = "critic.path",
    num_labels: int = 1,
) -> Any:
    """The model at `path` as a classifier of `num_labels`, with its own head or else a new one.

    Precision and attention come from `form`, and `key` is the path's. Raises `UserError` for
    another number of labels and, if `head_init` is None, for a model without a head.
    """
    from transformers import AutoConfig, AutoModelForSequenceClassification

    resolved = resolve_model_path(path, key)
    with readable(f"{key} {path}"):
        config = AutoConfig.from_pretrained(resolved)
        has_head = (config.architectures or [""])[0].endswith("ForSequenceClassification")
        if has_head and config.num_labels != num_labels:
            expected = "one label" if num_labels == 1 else f"{num_labels} labels"
            raise UserError(f"{key} {path}: its head must have {expected}, got {config.num_labels}")
        if not has_head and head_init is None:
            raise UserError(f"{key} {path} must be a classifier with a head, got none")
        model, report = AutoModelForSequenceClassification.from_pretrained(
            resolved, num_labels=num_labels, **loading(form.dtype, form.attention)
        )
    missing = sorted(k for k in report["missing_keys"] if has_head or not k.startswith(HEAD))
    if missing or not hasattr(model, HEAD):
        raise UserError(f"{key} {path} lacks the weights {', '.join(missing) or HEAD}")
    size, init = model.score.in_features, head_init or "zero"
    head = ValueHead(size, model.dtype, init, run_seed, num_labels)
    if has_head:
        head.load_state_dict({"weight": model.score.weight}, strict=False)
        head.offset.fill_(getattr(config, "value_offset", 0.0))
    model.set_submodule(HEAD, head)
    adapt(model)
    return model


def check_size(
    model: Any,
    num_token_ids: int,
    max_length: int,
    key: str = "critic.path",
    limit: str = "engine.max_model_len",
) -> None:
    """Raises `UserError` for a classifier too small for the tokenizer or for `max_length`."""
    rows = model.config.vocab_size
    positions = getattr(model.config, "max_position_embeddings", None)
    for must, least, found in (
        (f"embedding must have at least the tokenizer's {num_token_ids} rows", num_token_ids, rows),
        (f"positions must be at least {limit} = {max_length}", max_length, positions),
    ):
        if found is not None and found < least:
            raise UserError(f"{key} {model.name_or_path}: its {must}, got {found}")


def save_value_model(
    model: Any,
    tokenizer: Any,
    weights: Iterable[tuple[str, torch.Tensor]],
    loss: ValueLoss,
    directory: Path,
) -> None:
    """`save_model`; its config.json says how to read the head's `output`.

    `value_range` [low, high]: V = low + (high − low) · sigmoid(output + `value_offset`); null: V is
    the sum.
    """
    model.config.value_range = loss.bounds and [*loss.bounds]
    model.config.value_offset = float(model.score.offset.nan_to_num(0.0))
    set_padding(model, tokenizer)
    save_model(model, tokenizer, weights, directory, left_out=f"{HEAD}.offset")


def set_padding(model: Any, tokenizer: Any) -> None:
    """Names a classifier's padding token, without which transformers refuses batches."""
    if model.config.pad_token_id is None:
        padding = tokenizer.pad_token_id
        model.config.pad_token_id = tokenizer.eos_token_id if padding is None else padding

"""What the passes of a config's models hold, measured on models without memory."""

from vineppo.config.schema import (
    OptimizationConfig,
    ReferenceConfig,
    SftConfig,
    TrainConfig,
)
from vineppo.estimate.memory import CHUNK_TENSORS, Passes
from vineppo.estimate.shape import Skeleton
from vineppo.estimate.work import Lengths
from vineppo.vocabulary import CHUNK_LOGITS

BYTES = {"float32": 4, "bfloat16": 2}


def policy_passes(
    config: TrainConfig | SftConfig, policy: Skeleton, lengths: Lengths, device: str
) -> Passes:
    """Of micro-batches of the longest rows; `device` is "cpu" or "cuda"."""
    optimization, shape = config.optimization, policy.shape
    num_tokens = longest_row(config, lengths)
    rows = optimization.micro_batch_size
    positions = rows * min(num_tokens, longest_response(config))
    logits = positions * (shape.vocab_size + shape.hidden_size) * BYTES[config.model.dtype]
    if isinstance(config, TrainConfig) and has_exact_kl(config.reference):
        logits *= 2  # the reference's stand beside them
    cells = min(positions * shape.vocab_size, CHUNK_LOGITS[device])
    chunk = CHUNK_TENSORS * 4 * cells
    scoring = 0
    if isinstance(optimization, OptimizationConfig):
        scored = policy.saved_bytes(optimization.logprobs_micro_batch_size, num_tokens)
        scoring = scored // shape.num_layers + chunk
    return Passes(_saved(config, policy, rows, num_tokens), logits, chunk, scoring)


def critic_passes(config: TrainConfig, critic: Skeleton, lengths: Lengths) -> Passes:
    """Of a critic of its own, which has no logits."""
    assert config.separate_critic is not None
    num_tokens = longest_row(config, lengths)
    scored = critic.saved_bytes(config.optimization.logprobs_micro_batch_size, num_tokens)
    saved = _saved(config, critic, config.separate_critic.micro_batch_size, num_tokens)
    return Passes(saved, logits=0, chunk=0, scoring=scored // critic.shape.num_layers)


def longest_row(config: TrainConfig | SftConfig, lengths: Lengths) -> int:
    """Tokens of the longest sequence that trains: a prompt of mean length and a full response."""
    if isinstance(config, SftConfig):
        return config.optimization.max_tokens
    longest = round(lengths.prompt) + config.sampling.max_tokens
    return min(longest, config.engine.max_model_len)


def longest_response(config: TrainConfig | SftConfig) -> int:
    if isinstance(config, SftConfig):
        return config.optimization.max_tokens
    return config.sampling.max_tokens


def has_exact_kl(reference: ReferenceConfig) -> bool:
    """Whether the update asks the reference for its logits."""
    return reference.kl_estimator == "full" and reference.kl_in == "loss"


def layer_bytes(policy: Skeleton) -> float:
    """What a token takes while it passes one layer."""
    num_tokens = 16  # few, so that the square of the mask is nothing
    return policy.saved_bytes(1, num_tokens) / num_tokens / policy.shape.num_layers


def _saved(config: TrainConfig | SftConfig, model: Skeleton, rows: int, num_tokens: int) -> int:
    """With checkpointing, the input of every layer, and all of the one that is recomputed."""
    saved, shape = model.saved_bytes(rows, num_tokens), model.shape
    if not config.model.gradient_checkpointing:
        return saved
    inputs = rows * num_tokens * shape.hidden_size * BYTES[config.model.dtype]
    return saved // shape.num_layers + shape.num_layers * inputs

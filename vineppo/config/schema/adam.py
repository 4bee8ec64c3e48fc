"""What every optimizer is told."""

from dataclasses import dataclass
from typing import Literal

from vineppo.config.schema.scalars import (
    Count,
    Decay,
    Fraction,
    NonNegative,
    Positive,
    PositiveFraction,
)


@dataclass(frozen=True, kw_only=True)
class AdamConfig:
    """AdamW, and how an update is laid out on the machine."""

    learning_rate: PositiveFraction
    schedule: Literal["constant", "linear"] = "constant"  # after the warm-up; linear ends at 0
    warmup_fraction: Fraction = 0.03  # of all updates
    adam_beta1: Decay = 0.9
    adam_beta2: Decay = 0.999
    adam_eps: Positive = 1e-8
    weight_decay: NonNegative = 0.0
    max_grad_norm: Positive = 1.0
    num_epochs: Count = 2  # passes over an iteration's rollouts, or over the demonstrations
    batch_size: Count = 64  # sequences of one update, over all ranks
    # Of one forward-backward on one rank, in sequences of the longest: of shorter ones more.
    micro_batch_size: Count
    zero_stage: Literal[0, 1, 2, 3] = 0  # of bfloat16, 0 is for one rank
    offload: Literal["nothing", "optimizer"] = "nothing"  # the CPU holds and steps the optimizer


def sums_in_float32(zero_stage: int, offload: str) -> bool:
    """Whether a bfloat16 model's gradients are summed so over micro-batches.

    Stage 0 is DeepSpeed's optimizer for that, which offloads nothing and keeps the whole sum;
    stages 1 and 3 are for want of memory; with the optimizer on the CPU an update after a skipped
    one then changes nothing (DeepSpeed 0.19.8).
    """
    return zero_stage == 0 or (zero_stage == 2 and offload != "optimizer")

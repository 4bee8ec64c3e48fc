"""What stays of a model by the estimate, against the tensors that DeepSpeed holds of a real one."""

from itertools import product

import pytest
import torch

from vineppo.config.load import load_config
from vineppo.config.schema import TrainConfig
from vineppo.minibatches import micro_batches
from vineppo.models import load_model
from vineppo.policy import Policy
from vineppo.token_scores import ForwardOptions
from vineppo.tools.estimate.memory import PassBytes, Trainee
from vineppo.types import TokenSequence

SEQUENCE = TokenSequence((1, 2, 3), (4, 5, 6, 7))


def trained(configs, dtype, stage, offload="nothing"):
    """A policy after one update."""
    path = str(configs / "demo_vineppo.jsonnet")
    values = f"optimization.zero_stage={stage}", f"optimization.offload={offload}"
    config = load_config(TrainConfig, path, list(values))
    loaded = load_model(config.model.path, dtype, "sdpa")
    policy = Policy(loaded, config.optimization, gradient_checkpointing=False)
    batches = micro_batches([SEQUENCE], (), 1, policy.device)
    policy.update(batches, likelihood, ForwardOptions(1.0), [1e-3], lambda _: True)
    return policy


def likelihood(batch, scores):
    return -(scores.logprobs_BT * batch.response_mask_BT).sum(), {}


def num_bytes(tensors):
    return sum(x.nbytes for x in tensors)


def held(policy, stage):
    """Bytes by the names of the estimate's lines."""
    parameters = list(policy.hf_model.parameters())
    optimizer = policy.deepspeed._engine.optimizer
    moments = [
        x for state in optimizer.optimizer.state.values() for x in state.values() if x.ndim > 0
    ]
    if stage == 0:
        lines = {
            "float32 weights": optimizer.fp32_groups_flat_partition,
            "float32 gradients": optimizer.fp32_groups_gradients_flat,
        }
    elif stage < 3:
        lines = {"float32 weights": optimizer.single_partition_of_fp32_groups}
        buckets = [bucket.buffer for bucket in optimizer.ipg_buckets.values()]
        assert not any(buckets)  # let go after every pass
    else:
        parameters = [weight.ds_tensor for weight in parameters]
        lines = {
            "float32 weights": optimizer.fp32_partitioned_groups_flat,
            "gradients": [optimizer.grad_partitions_flat_buffer],
            "gradient bucket": [bucket.buffer for bucket in optimizer.ipg_buckets.values()],
        }
    own = {x.untyped_storage().data_ptr() for x in parameters}
    assert not any(x.untyped_storage().data_ptr() in own for x in lines["float32 weights"])
    lines |= {"weights": parameters, "Adam's moments": moments}
    return {f"policy: {line}": num_bytes(tensors) for line, tensors in lines.items()}


@pytest.mark.parametrize(
    ("dtype", "stage"),
    [("bfloat16", 0), *product(["float32", "bfloat16"], [1, 2, 3])],
)
def test_what_stays_is_what_deepspeed_holds(configs, dtype, stage):
    policy = trained(configs, dtype, stage)
    count = sum(getattr(w, "ds_numel", w.numel()) for w in policy.hf_model.parameters())
    size, passes = getattr(torch, dtype).itemsize, PassBytes(0, 0, 0, 0)
    # As on a GPU: on a CPU the bucket has memory for what is written to it alone.
    estimated = Trainee("policy", count, count, size, stage, 1, True, "nothing", passes).resident()
    assert held(policy, stage) == pytest.approx(estimated, rel=1e-4)  # shards are padded

"""Memory of a rank by hand: weights, states and gradients under every ZeRO stage, the engine."""

from dataclasses import replace
from itertools import product

import pytest
import torch

from vineppo.batching import micro_batches
from vineppo.config.load import load_config
from vineppo.config.schema import TrainConfig
from vineppo.engine.vllm_config import VllmConfig
from vineppo.models import load_model
from vineppo.policy import Policy
from vineppo.token_scores import ForwardOptions
from vineppo.tools.estimate.memory import (
    BUCKET,
    CACHE,
    EngineBytes,
    PassBytes,
    Trainee,
    engine_of,
    moments,
    peak,
)
from vineppo.tools.estimate.shape import ModelShape
from vineppo.tools.estimate.work import Assumptions
from vineppo.types import TokenSequence

GB = 10**9
NO_ENGINE = EngineBytes({}, {}, 1)
PASSES = PassBytes(saved=7, logits=5, chunk=3, scoring=2)


def trainee(stage, num_ranks=4, bytes_per_weight=2, is_on_gpu=False, billions=0.4):
    count = round(billions * GB)
    states = "nothing"
    return Trainee(
        "policy", count, count, bytes_per_weight, stage, num_ranks, is_on_gpu, states, PASSES
    )


# 0.4 billion parameters on 4 ranks, in units of 0.1 GB: bfloat16 weights take 8, float32 ones 16.
RESIDENT = {
    0: {"weights": 16, "Adam's moments": 32},  # float32, nothing sharded
    1: {"weights": 8, "float32 weights": 4, "Adam's moments": 8},
    2: {"weights": 8, "float32 weights": 4, "Adam's moments": 8},
    3: {  # and the gradients' shard and bucket, from the start on
        "weights": 2, "float32 weights": 4, "Adam's moments": 8,
        "gradients": 2, "gradient bucket": 8,
    },
}  # fmt: skip
# Stage 2 sums its share in float32, 4, beside that of a micro-batch, 2.
GRADIENTS = {0: 16, 1: 8, 2: 6, 3: 2}
# A share's gradients as they came, a flat copy of them, and one in float32: (2 + 2 + 4) · 0.1 GB,
# and (4 + 4 + 4) under stage 2; stage 1 has all gradients and its share's copy before that, stage 0
# a flat copy to reduce.
STEP = {0: 32, 1: 10, 2: 12, 3: 8}


@pytest.mark.parametrize("stage", range(4))
def test_states_under_every_stage(stage):
    policy = trainee(stage, bytes_per_weight=4 if stage == 0 else 2)
    unit = GB // 10
    assert policy.resident() == {f"policy: {k}": x * unit for k, x in RESIDENT[stage].items()}
    assert policy.in_backward()["policy: gradients"] == GRADIENTS[stage] * unit
    kept = {"policy: activations, kept by malloc": PASSES.saved}
    assert policy.in_step() == {"policy: gradients": STEP[stage] * unit, **kept}
    assert "activations" not in " ".join(replace(policy, is_on_gpu=True).in_step())


# What stays on a GPU whose optimizer is on the CPU, and its gradients while it trains: they
# accumulate on the CPU, and stage 2 has those of a micro-batch besides.
WITHOUT_OPTIMIZER = {2: {}, 3: {"policy: gradients": 0, "policy: gradient bucket": 2 * BUCKET}}
GRADIENTS_BESIDE_A_CPU = {2: 2, 3: 0}


@pytest.mark.parametrize("stage", [2, 3])
def test_an_optimizer_that_leaves_a_gpu(stage):
    on_gpu = trainee(stage, is_on_gpu=True)
    weights = {"policy: weights": on_gpu.resident()["policy: weights"]}
    for_good = replace(on_gpu, offload="optimizer")
    assert for_good.resident() == weights | WITHOUT_OPTIMIZER[stage]
    for lines in (for_good.in_backward(), for_good.in_step()):
        assert lines["policy: gradients"] == GRADIENTS_BESIDE_A_CPU[stage] * GB // 10
    on_cpu = replace(trainee(stage), offload="optimizer")
    assert on_cpu.resident() == trainee(stage).resident()


@pytest.mark.parametrize("stage", range(4))
def test_a_model_that_never_trains_is_its_weights_on_every_rank(stage):
    frozen = replace(trainee(stage, is_on_gpu=True), num_trained=0)
    weights = {"policy: weights": 8 * GB // 10}
    assert frozen.resident() == weights
    lines_by_moment = moments({}, [frozen], {}, NO_ENGINE)
    assert lines_by_moment == {
        "sampling": weights,
        "scoring, policy": weights | {"policy: activations": PASSES.scoring},
    }


def engine_config(**changes):
    values = {
        "kind": "vllm", "dtype": "bfloat16", "block_size": 16, "max_model_len": 100,
        "max_num_seqs": 10, "max_num_batched_tokens": 1000, "cpu_kv_cache_gib": 2,
    }  # fmt: skip
    return VllmConfig(**(values | changes))


def engine_on(num_gpus, gpu_gib=80, config=None):
    shape = ModelShape(
        num_parameters=GB,
        num_layers=10,
        hidden_size=100,
        vocab_size=5000,
        is_tied=True,
        cache_numbers=1024,
    )
    given = Assumptions(num_gpus, gpu_gib, None, None, 100, 100, 4)
    return engine_of(config or engine_config(), shape, 2, 8.0, given)


STEP_BYTES = 1000 * 8 + 4 * 4 * 10 * 5000  # tokens · bytes of a layer, float32 logits four times


def test_an_engine_on_a_gpu_takes_its_share_and_gives_it_back():
    engine = engine_on(1)
    assert sum(engine.awake.values()) == 40 * 2**30
    assert engine.awake["engine: weights"] == 2 * GB
    assert engine.awake["engine: a step"] == STEP_BYTES
    assert engine.beside == {}
    assert engine_on(1, gpu_gib=3).awake[CACHE] == 0
    awake = engine_on(1, config=engine_config(sleep_while_training=False))
    assert awake.beside == awake.awake == engine.awake


def test_an_engine_on_a_cpu_has_a_cache_of_its_own_and_packs_its_embeddings():
    engine = engine_on(0)
    assert engine.beside == {
        "engine: weights": 2 * GB,
        "engine: repacked embeddings": 2 * 2 * 5000 * 100,
        CACHE: 2 * 2**30,
    }
    assert engine.awake == {**engine.beside, "engine: a step": STEP_BYTES}


def test_every_moment_has_what_stays_and_what_is_its_own():
    policy = trainee(1)
    critic = Trainee("critic", GB // 10, GB // 10, 2, 1, 4, False, "nothing", PASSES)
    engine = EngineBytes(
        awake={"engine: weights": 11, CACHE: 13}, beside={"engine: weights": 11}, cache_bytes=1
    )
    resident = {"process": 17, "reference: weights": 19}
    lines_by_moment = moments(resident, [policy, critic], {"r": 23}, engine)
    stays = 17 + 19 + sum(policy.resident().values()) + sum(critic.resident().values())
    sums = {moment: sum(lines.values()) for moment, lines in lines_by_moment.items()}
    assert sums == {
        "sampling": stays + 11 + 13 + 23,
        "scoring, policy": stays + 11 + 2,
        "backward, policy": stays + 11 + 7 + 5 + 3 + 8 * GB // 10,
        "step, policy": stays + 11 + 7 + 10 * GB // 10,
        "scoring, critic": stays + 11 + 2,
        "backward, critic": stays + 11 + 7 + 5 + 3 + 2 * GB // 10,
        "step, critic": stays + 11 + 7 + 10 * GB // 40,
    }
    assert peak(lines_by_moment) == ("step, policy", stays + 11 + 7 + GB)


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

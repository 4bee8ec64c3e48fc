"""Memory of a rank by hand: weights, states and gradients under every ZeRO stage, the engine."""

import math
from dataclasses import replace

import pytest

from vineppo.engine.vllm_config import VllmConfig
from vineppo.recipes.engine_processes import ProcessesConfig
from vineppo.recipes.transformers_engine import TransformersConfig
from vineppo.tools.estimate.memory import (
    BUCKET,
    CACHE,
    ENGINE_PROCESS_BYTES,
    PROCESS_BYTES,
    EngineBytes,
    PassBytes,
    Sampled,
    Trainee,
    cache_of,
    engine_of,
    moments,
    peak,
)
from vineppo.tools.estimate.shape import ModelShape

GB = 10**9
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
    lines_by_moment = moments({}, [frozen], {}, EngineBytes(awake={}, beside={}))
    assert lines_by_moment == {
        "sampling": weights,
        "scoring, policy": weights | {"policy: activations": PASSES.scoring},
    }


def test_the_bucket_is_whole_on_a_gpu_and_as_full_as_it_is_on_a_cpu():
    line = "policy: gradient bucket"
    assert trainee(2, is_on_gpu=True).in_backward()[line] == 2 * BUCKET
    assert trainee(2).in_backward()[line] == 2 * 4 * GB // 10
    assert trainee(2, billions=2).in_backward()[line] == 2 * BUCKET
    assert trainee(1).in_backward()[line] == 0  # stage 1 fills it in the step
    assert line not in trainee(0).in_backward()


def test_stage_3_gathers_at_most_a_billion_weights():
    assert trainee(3, billions=7).in_scoring()["policy: gathered weights"] == 2 * GB
    assert trainee(3).in_backward()["policy: gathered weights"] == 2 * 4 * GB // 10
    assert not any("gathered" in line for line in trainee(2).in_backward())


def engine_config(**changes):
    values = {
        "kind": "vllm", "dtype": "bfloat16", "block_size": 16, "max_model_len": 100,
        "max_num_seqs": 10, "max_num_batched_tokens": 1000, "cpu_kv_cache_gib": 2,
    }  # fmt: skip
    kind = ProcessesConfig if "num_processes" in changes else VllmConfig
    return kind(**(values | changes))


SHAPE = ModelShape(
    num_parameters=GB,
    num_layers=10,
    hidden_size=100,
    vocab_size=5000,
    is_tied=True,
    cache_numbers=1024,
)
MODEL = Sampled(SHAPE, bytes_per_weight=2, layer_bytes=8.0, num_ranks=1)
STEP_BYTES = 1000 * 8 + 4 * 4 * 10 * 5000  # tokens · bytes of a layer, float32 logits four times


def test_an_engine_on_a_gpu_takes_its_share_and_gives_it_back():
    engine = engine_of(engine_config(), MODEL, num_gpus=1, gpu_gib=80)
    assert sum(engine.awake.values()) == 40 * 2**30
    assert engine.awake["engine: weights"] == 2 * GB
    assert engine.awake["engine: a step"] == STEP_BYTES
    assert engine.beside == {}
    assert engine_of(engine_config(), MODEL, 1, gpu_gib=3).awake[CACHE] == 0
    awake = engine_of(engine_config(sleep_while_training=False), MODEL, 1, 80)
    assert awake.beside == awake.awake == engine.awake


def test_an_engine_on_a_cpu_has_a_cache_of_its_own_and_packs_its_embeddings():
    engine = engine_of(engine_config(), MODEL, num_gpus=0, gpu_gib=80)
    assert engine.beside == {
        "engine: weights": 2 * GB,
        "engine: repacked embeddings": 2 * 2 * 5000 * 100,
        CACHE: 2 * 2**30,
    }
    assert engine.awake == {**engine.beside, "engine: a step": STEP_BYTES}


def test_processes_have_weights_and_steps_each_and_divide_the_share():
    engine = engine_of(engine_config(num_processes=3), MODEL, num_gpus=1, gpu_gib=80)
    assert engine.awake["engine: weights"] == 3 * 2 * GB
    assert engine.awake["engine: a step"] == 3 * STEP_BYTES
    own = {"engine: processes": 3 * ENGINE_PROCESS_BYTES}  # beside the share, and while they sleep
    assert engine.beside == own
    assert sum(engine.awake.values()) == 40 * 2**30 + sum(own.values())
    on_cpu = engine_of(engine_config(num_processes=3), MODEL, num_gpus=0, gpu_gib=80)
    assert on_cpu.beside[CACHE] == 3 * 2 * 2**30
    assert on_cpu.beside["engine: processes"] == 3 * PROCESS_BYTES
    config = engine_config(num_processes=3)
    assert cache_of(engine, config, 1, 200, math.inf).num_running == 3 * config.max_num_seqs


def test_the_transformers_engine_has_room_for_every_sequence_and_keeps_its_weights_asleep():
    config = TransformersConfig("transformers", "bfloat16", 100, 10, 1000)
    engine = engine_of(config, MODEL, num_gpus=0, gpu_gib=80)
    assert engine.beside == {"engine: weights": 2 * GB}
    cache = {CACHE: 2 * 10 * 100 * 2 * 1024}
    logits = 2 * 10 * 5000
    assert engine.awake == {**engine.beside, **cache, "engine: a step": logits + STEP_BYTES}


def test_the_transformers_engine_draws_from_a_chunk_of_its_logits():
    config = TransformersConfig("transformers", "bfloat16", 100, 20_000, 1000)
    drawn = {0: 2**20, 1: 2**26}  # by GPUs
    for num_gpus, numbers in drawn.items():
        step = engine_of(config, MODEL, num_gpus, gpu_gib=80).awake["engine: a step"]
        assert step == 8_000 + 2 * 20_000 * 5000 + 4 * 4 * numbers


def test_what_a_cache_holds():
    engine = EngineBytes(awake={CACHE: 2**30}, beside={})

    def cache_with(max_num_seqs, num_requests):
        return cache_of(engine, engine_config(max_num_seqs=max_num_seqs), 4096, 200, num_requests)

    cache = cache_with(10_000, math.inf)
    assert cache.num_tokens == 262_144
    assert cache.num_sequences == cache.num_running == pytest.approx(1310.72)
    assert [cache_with(256, count).num_running for count in (math.inf, 64)] == [256, 64]
    assert cache_with(256, 64).num_sequences == cache.num_sequences


def test_every_moment_has_what_stays_and_what_is_its_own():
    policy = trainee(1)
    critic = Trainee("critic", GB // 10, GB // 10, 2, 1, 4, False, "nothing", PASSES)
    engine = EngineBytes(awake={"engine: weights": 11, CACHE: 13}, beside={"engine: weights": 11})
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


def test_stage_3_counts_its_gradients_once():
    """Shard and bucket stay; the step adds the flat copy of the share and that in float32."""
    policy = trainee(3)
    lines_by_moment = moments({}, [policy], {}, EngineBytes(awake={}, beside={}))
    sums = {moment: sum(lines.values()) for moment, lines in lines_by_moment.items()}
    unit, stays = GB // 10, sum(RESIDENT[3].values()) * GB // 10
    assert sums == {
        "sampling": stays,
        "scoring, policy": stays + 8 * unit + 2,  # all weights, gathered
        "backward, policy": stays + 8 * unit + 7 + 5 + 3,
        "step, policy": stays + (2 + 4) * unit + 7,
    }

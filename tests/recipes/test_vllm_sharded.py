"""Replicas of several ranks; tests/test_ranks.py trains on one."""

from dataclasses import asdict

import pytest
from support.engines import engine_config
from transformers import LlamaConfig

from vineppo.engine import EngineModel
from vineppo.errors import UserError
from vineppo.recipes.vllm_sharded import ShardedConfig
from vineppo.run_dir.config import with_added_keys


@pytest.mark.parametrize(("num_ranks", "heads", "kv_heads"), [(2, 9, 3), (2, 14, 7), (4, 14, 2)])
def test_ranks_that_cannot_divide_the_heads_are_refused(
    configs, monkeypatch, tmp_path, num_ranks, heads, kv_heads
):
    sizes = {"num_attention_heads": heads, "num_key_value_heads": kv_heads}
    LlamaConfig(hidden_size=8 * heads, **sizes).save_pretrained(tmp_path)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(num_ranks))
    keys = asdict(engine_config(configs, "vllm")) | {"kind": "vllm_sharded"}
    config = ShardedConfig(**keys, tensor_parallel_size=num_ranks)
    with pytest.raises(UserError, match=rf"must divide the model's {heads} attention heads, "):
        config.build(EngineModel(str(tmp_path), 19, (1,)))


def test_older_runs_had_one_kind_of_vllm():
    for size, kind in ((1, "vllm"), (2, "vllm_sharded")):
        older = {"engine": {"kind": "vllm", "tensor_parallel_size": size}}
        engine = with_added_keys(older)["engine"]
        assert engine["kind"] == kind
        assert engine.get("tensor_parallel_size") == (None if size == 1 else size)

"""The transformers engine: joint passes, other architectures, strict weights."""

import random
import shutil
from dataclasses import replace

import pytest
import torch
from support.engines import (
    assert_alike,
    engine_config,
    finish,
    num_ids,
    request,
    run,
    start,
    trainer_logprobs,
)
from support.tiny_models import random_model

from vineppo.engine import Concurrency
from vineppo.errors import UserError
from vineppo.models import ASSETS, load_model, named_weights
from vineppo.recipes.transformers_engine import TransformersEngine


@pytest.fixture(scope="module")
def config(configs):
    return engine_config(configs, "transformers")


@pytest.fixture(scope="module")
def engine(config, loaded):
    return start(config, loaded)


def crowd(prompt, count):
    """Requests of many lengths and kinds, some of which begin alike."""
    stream = random.Random(0)
    return [
        request(
            prompt[: stream.randrange(1, len(prompt) + 1)] if stream.random() < 0.5 else
            tuple(stream.randrange(15) for _ in range(stream.randrange(1, 40))),
            seed,
            max_tokens=stream.randrange(1, 60),
            temperature=stream.choice([0.0, 0.7, 1.0, 1.6]),
            top_p=stream.choice([0.6, 0.9, 1.0]),
        )
        for seed in range(count)
    ]  # fmt: skip


@pytest.mark.parametrize("num_seqs", [5, pytest.param(24, marks=pytest.mark.slow)])
def test_a_sample_does_not_depend_on_who_else_runs(config, loaded, prompt, num_seqs):
    """Rows of any length join and leave; prefixes pass in pieces of at most 128 tokens."""
    requests = [request(prompt, seed, max_tokens=1 + 2 * seed) for seed in range(8)]
    requests += [*crowd(prompt, 14), request(prompt, 8, stop_ids=(14,))]
    narrow = start(replace(config, max_num_seqs=num_seqs, max_num_batched_tokens=128), loaded)
    together = run(narrow, requests)
    alone = start(replace(config, max_num_seqs=1), loaded)
    for one, completion in zip(requests, together, strict=True):
        assert_alike(completion, run(alone, [one])[0])
    assert {completion.finish_reason for completion in together} == {"stop", "length"}


def test_rows_that_join_together_share_the_pass_over_their_prefix(config, loaded, prompt):
    engine = start(replace(config, max_num_seqs=32), loaded)
    run(engine, [request(prompt, seed, max_tokens=3) for seed in range(32)])
    assert engine.counts.prompt_tokens == 32 * len(prompt)
    assert engine.counts.cached_tokens == 31 * (len(prompt) - 1)


def test_a_sequence_ends_at_the_longest_that_the_engine_holds(config, loaded, prompt):
    small = start(replace(config, max_model_len=len(prompt) + 3), loaded)
    whole, cut = run(small, [request(prompt, 1, max_tokens=n) for n in (2, 48)])
    assert len(cut.token_ids) == 3
    assert cut.finish_reason == "length"
    assert cut.token_ids[:2] == whole.token_ids
    full = start(config, loaded)
    assert_alike(cut, run(full, [request(prompt, 1, max_tokens=3)])[0])


def test_weights_must_be_all_and_none_but_the_models(engine, loaded, prompt):
    weights = dict(named_weights(loaded.model))
    before = run(engine, [request(prompt, 1)])[0]
    with pytest.raises(KeyError, match=r"model\.norm\.bias"):
        engine.load_weights([("model.norm.bias", torch.zeros(128))])
    without = [(name, weight) for name, weight in weights.items() if name != "model.norm.weight"]
    with pytest.raises(AssertionError, match=r"no weights for model\.norm\.weight$"):
        engine.load_weights(without)
    engine.load_weights(weights.items())
    assert_alike(run(engine, [request(prompt, 1)])[0], before)


def write_model(config_name, directory, **changes):
    """A random model of another architecture, with the arithmetic tokenizer."""
    random_model(config_name, **changes).save_pretrained(directory)
    for file in (ASSETS / "arithmetic_short").glob("tokenizer*"):
        shutil.copy(file, directory)
    return str(directory)


SHARED_LAYERS = {
    "layer_types": ["sliding_attention", "full_attention"] * 2, "num_hidden_layers": 4,
    "num_kv_shared_layers": 2, "sliding_window": 128, "head_dim": 8, "laurel_rank": 4,
    "vocab_size_per_layer_input": 21, "hidden_size_per_layer_input": 8,
    "intermediate_size": [64] * 4, "activation_sparsity_pattern": [0.0] * 4,
}  # fmt: skip
LATENTS = {
    "q_lora_rank": None, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8,
    "v_head_dim": 6, "num_key_value_heads": 4, "first_k_dense_replace": 3,
}  # fmt: skip


@pytest.mark.parametrize(
    ("config_name", "changes"),
    [
        ("LlamaConfig", {"tie_word_embeddings": False}),
        ("Qwen2Config", {"tie_word_embeddings": True}),
        ("MistralConfig", {"sliding_window": 128}),
        ("GPT2Config", {"n_positions": 128}),
        ("Gemma2Config", {"head_dim": 8, "sliding_window": 128, "attn_logit_softcapping": None}),
        ("Gemma3nTextConfig", SHARED_LAYERS),
        ("DeepseekV3Config", LATENTS),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_other_architectures(config, tmp_path, config_name, changes):
    """Grouped keys, biases, learned positions, windows, capped logits, layers that share keys,
    keys of another size than values: the trainer's numbers, up to the last position."""
    loaded = load_model(write_model(config_name, tmp_path, **changes), "float32", "sdpa")
    engine = start(replace(config, max_num_seqs=4), loaded)
    stream = random.Random(0)
    prefixes = [[stream.randrange(15) for _ in range(n)] for n in (1, 30, 7, 120, 7, 22)]
    requests = [request(ids, seed, max_tokens=40) for seed, ids in enumerate(prefixes)]
    for one, completion in zip(requests, run(engine, requests), strict=True):
        expected_T = trainer_logprobs(loaded, one.prefix_ids, completion, 1.0)
        found_T = torch.tensor(completion.logprobs_T)
        torch.testing.assert_close(found_T, expected_T, atol=1e-4, rtol=0)
        assert max(completion.token_ids) < num_ids(loaded)


def test_models_whose_layers_see_less_are_refused(config, tmp_path):
    windowed = write_model("MistralConfig", tmp_path / "window", sliding_window=100)
    loaded = load_model(windowed, "float32", "sdpa")
    with pytest.raises(
        UserError, match=r"engine\.max_model_len must be at most the model's attention window"
    ):
        TransformersEngine(config, loaded.engine_model)
    TransformersEngine(replace(config, max_model_len=100), loaded.engine_model)
    kinds = ["conv", "full_attention", "conv"]
    recurrent = write_model("Lfm2Config", tmp_path / "recurrent", layer_types=kinds)
    loaded = load_model(recurrent, "float32", "sdpa")
    with pytest.raises(UserError, match="every layer must attend to all tokens"):
        TransformersEngine(config, loaded.engine_model)


def test_an_engine_that_goes_on_failing_ends_the_run_with_its_error(config, loaded, monkeypatch):
    """At once where a lone request fails alone; else after five halvings."""
    engine = start(config, loaded)
    calls = []

    def broken(**_):
        calls.append(len(engine._running))
        raise RuntimeError("broken")

    monkeypatch.setattr(engine._model, "forward", broken)
    for seed in range(100):
        engine.submit(request((1, 2), seed), lambda _: None)
    with pytest.raises(RuntimeError, match="broken"):
        finish(engine)
    assert calls == [100, 50, 25, 12, 6, 3]
    alone = Concurrency(1, 128)
    with pytest.raises(ValueError, match="alone"):
        alone.lower(ValueError("alone"), 1)

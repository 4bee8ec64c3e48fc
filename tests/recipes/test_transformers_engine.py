"""What is the second engine's own: slots, sharing, other architectures, strict weights."""

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
from support.grids import grid
from support.tiny_models import random_model

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


@pytest.mark.parametrize("num_seqs", grid(5, slow=[24]))
def test_a_sample_does_not_depend_on_who_else_runs(config, loaded, prompt, num_seqs):
    """Rows of any length join and leave; prefixes pass in pieces of at most 128 tokens.

    One prefix has more rows than may lie side by side.
    """
    requests = [request(prompt, seed, max_tokens=1 + seed) for seed in range(20)]
    requests += crowd(prompt, 25)
    narrow = start(replace(config, max_num_seqs=num_seqs, max_num_batched_tokens=128), loaded)
    together = run(narrow, requests)
    alone = start(replace(config, max_num_seqs=1), loaded)
    for one, completion in zip(requests, together, strict=True):
        alone.clear_cache()
        assert_alike(completion, run(alone, [one])[0])
    assert {completion.finish_reason for completion in together} == {"stop", "length"}


def test_a_prefix_is_computed_once(config, loaded, prompt, monkeypatch):
    """Forty rows come one after the other, and some find no place beside the others."""
    engine, entered = start(replace(config, max_num_seqs=32), loaded), []
    enter = engine._cache.enter

    def counted(slots, token_ids, starts):
        entered.extend(token_ids)
        return enter(slots, token_ids, starts)

    monkeypatch.setattr(engine._cache, "enter", counted)
    run(engine, [request(prompt, seed) for seed in range(40)])
    assert entered == [prompt[:-1]]
    assert engine.counts.prompt_tokens == 40 * len(prompt)
    # The first copies it for whoever is not beside it.
    assert engine.counts.cached_tokens == 39 * (len(prompt) - 1)


def test_a_prefix_takes_over_what_an_earlier_one_begins_with(engine, prompt):
    engine.clear_cache()
    before = engine.counts
    (whole,) = run(engine, [request(prompt, 1)])
    states = [(*prompt, *whole.token_ids[:length]) for length in (4, 9, 13)]
    found = [run(engine, [request(state, len(state))])[0] for state in states]
    cached = engine.counts.cached_tokens - before.cached_tokens
    assert cached == len(prompt) - 1 + sum(len(state) - 1 for state in states[:2])
    for state, completion in zip(states, found, strict=True):
        engine.clear_cache()
        assert_alike(completion, run(engine, [request(state, len(state))])[0])


@pytest.mark.parametrize("num_steps", grid(3, slow=[16]))
def test_looking_at_tokens_now_and_then_changes_none(config, loaded, prompt, num_steps):
    """As on a GPU: ends and budgets fall between looks, and some before any."""
    requests = [request(prompt, seed, max_tokens=1 + seed) for seed in range(20)]
    requests += [*crowd(prompt, 30), request(prompt, 8, stop_ids=(14,))]
    often, seldom = (start(replace(config, max_num_seqs=8), loaded) for _ in range(2))
    seldom._steps_a_look = num_steps
    for one, other in zip(run(often, requests), run(seldom, requests), strict=True):
        assert_alike(one, other)


def test_the_cache_is_not_cleared_under_a_running_request(engine, prompt):
    engine.submit(request(prompt, 1), lambda _: None)
    engine.step()
    with pytest.raises(RuntimeError, match="in use"):
        engine.clear_cache()
    finish(engine)


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
    grid(
        ("Qwen2Config", {"tie_word_embeddings": True}),
        ("Gemma2Config", {"head_dim": 8, "sliding_window": 128}),
        slow=[
            ("LlamaConfig", {"tie_word_embeddings": False}),
            ("MistralConfig", {"sliding_window": 128}),
            ("GPT2Config", {"n_positions": 128}),
            ("Gemma3nTextConfig", SHARED_LAYERS),
            ("DeepseekV3Config", LATENTS),
        ],
    ),
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_other_architectures(config, tmp_path, config_name, changes):
    """Grouped keys, biases, learned positions, windows, capped logits, layers that share keys,
    keys of another size than values: the trainer's numbers, up to the last position."""
    loaded = load_model(write_model(config_name, tmp_path, **changes), "float32", "sdpa")
    engine = start(replace(config, max_num_seqs=4), loaded)
    engine._steps_a_look = 7
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
    own = write_model("StableLmConfig", tmp_path / "own")
    with pytest.raises(UserError, match="by transformers' own attention, got stablelm"):
        TransformersEngine(config, load_model(own, "float32", "sdpa").engine_model)

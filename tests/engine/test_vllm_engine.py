"""The invariants of sampling on real vLLM, with the embedded policy on this machine."""

from dataclasses import replace

import pytest
import torch

from vineppo.config.load import load_config
from vineppo.config.schema import TrainConfig
from vineppo.distributed import init_distributed
from vineppo.engine import EngineModel, SampleRequest, build_engine
from vineppo.errors import UserError
from vineppo.models import load_model, named_weights

MODEL = "embedded:arithmetic_short"
QUESTION = "4+6+6-5+2+7*3?\n"


@pytest.fixture(scope="module")
def loaded():
    return load_model(MODEL, "float32", "sdpa")


@pytest.fixture(scope="module")
def config(configs):
    return load_config(TrainConfig, str(configs / "demo_vineppo.jsonnet"), []).engine


@pytest.fixture(scope="module")
def engine(config, loaded):
    init_distributed()
    # Two ids fewer than the embedding has rows: stands for a padded vocabulary.
    model = replace(loaded.engine_model, num_token_ids=len(loaded.tokenizer) - 2)
    return build_engine(config, model)


@pytest.fixture
def prompt(loaded):
    return tuple(loaded.tokenizer(QUESTION)["input_ids"])


def request(prefix_ids, seed, **changes):
    plain = SampleRequest(tuple(prefix_ids), 48, 1.0, 1.0, seed, True)
    return replace(plain, **changes)


def run(engine, requests):
    """The completions in the order of the requests."""
    found = {}
    for index, one in enumerate(requests):
        engine.submit(one, lambda completion, index=index: found.__setitem__(index, completion))
    while engine.num_unfinished:
        engine.step()
    return [found[index] for index in range(len(requests))]


def trainer_logprobs(loaded, prefix_ids, completion, temperature, num_ids):
    ids = torch.tensor([*prefix_ids, *completion.token_ids])
    with torch.no_grad():
        logits_TV = loaded.model(ids[None]).logits[0, :-1, :num_ids] / temperature
    table_TV = torch.log_softmax(logits_TV, -1)[len(prefix_ids) - 1 :]
    return table_TV.gather(1, ids[len(prefix_ids) :, None]).squeeze(1)


@pytest.mark.parametrize("temperature", [0.6, 1.0, 1.5])
def test_logprobs_are_processed_and_agree_with_the_trainer(engine, loaded, prompt, temperature):
    (found,) = run(engine, [request(prompt, 1, temperature=temperature)])
    expected = trainer_logprobs(loaded, prompt, found, temperature, len(loaded.tokenizer) - 2)
    torch.testing.assert_close(torch.tensor(found.logprobs_T), expected, atol=1e-4, rtol=0)


def test_seeds_make_samples(engine, prompt):
    requests = [request(prompt, seed, temperature=1.5) for seed in (1, 2, 3, 1)]
    first = run(engine, requests)
    engine.clear_cache()
    assert run(engine, requests) == first
    assert first[0] == first[3]
    assert len({completion.token_ids for completion in first}) == 3


def test_end_token_is_part_of_the_response_and_truncation_adds_none(engine, loaded, prompt):
    whole, cut = run(engine, [request(prompt, 1), request(prompt, 1, max_tokens=5)])
    assert whole.finish_reason == "stop"
    assert whole.token_ids[-1] == loaded.tokenizer.eos_token_id
    assert cut.finish_reason == "length"
    assert cut.token_ids == whole.token_ids[:5]
    assert len(cut.logprobs_T) == 5


def test_padded_ids_are_never_sampled(engine, loaded, prompt):
    """The two ids that are cut off are the newline and `####`, which every answer has."""
    hot = [request(prompt, seed, temperature=2.0, max_tokens=64) for seed in range(40)]
    sampled = {i for completion in run(engine, hot) for i in completion.token_ids}
    assert len(sampled) > 10
    assert max(sampled) < len(loaded.tokenizer) - 2


def test_continuations_of_one_state_hit_the_prefix_cache(engine, prompt):
    engine.clear_cache()
    before = engine.counts
    state = (*prompt, *run(engine, [request(prompt, 1)])[0].token_ids[:24])
    run(engine, [request(state, seed, with_logprobs=False) for seed in range(8)])
    cached = engine.counts.cached_tokens - before.cached_tokens
    assert len(state) > 32
    assert cached >= 7 * 32  # all but the first find the first block


def test_requests_may_join_from_a_callback(engine, prompt):
    found = []
    engine.submit(request(prompt, 1), lambda _: engine.submit(request(prompt, 2), found.append))
    while engine.num_unfinished:
        engine.step()
    assert found == run(engine, [request(prompt, 2)])


def test_new_weights_are_sampled_from_at_once(engine, loaded, prompt):
    """Also where the old weights' prefix is cached: a stale block would show in the gap."""
    before = run(engine, [request(prompt, 1)])[0]
    original = {name: w.detach().clone() for name, w in loaded.model.named_parameters()}
    torch.manual_seed(0)
    with torch.no_grad():
        for weight in loaded.model.parameters():
            weight.add_(0.02 * torch.randn_like(weight))
    engine.load_weights(named_weights(loaded.model))
    after = run(engine, [request(prompt, 1)])[0]
    expected = trainer_logprobs(loaded, prompt, after, 1.0, len(loaded.tokenizer) - 2)
    torch.testing.assert_close(torch.tensor(after.logprobs_T), expected, atol=1e-4, rtol=0)
    assert after.logprobs_T != before.logprobs_T
    loaded.model.load_state_dict(original, strict=False)
    engine.load_weights(named_weights(loaded.model))
    assert run(engine, [request(prompt, 1)])[0].token_ids == before.token_ids


def test_more_prompt_tokens_than_a_step_holds(engine, config, prompt):
    """Seeded requests once failed on a CPU when a prompt was cut in two to fill a step."""
    count = config.max_num_batched_tokens // len(prompt) + 50
    found = run(engine, [request(prompt, seed, max_tokens=3) for seed in range(count)])
    alone = run(engine, [request(prompt, count - 1, max_tokens=3)])
    assert found[-1].token_ids == alone[0].token_ids


@pytest.mark.skipif(torch.cuda.is_available(), reason="the rule is the CPU backend's")
def test_block_size_that_the_cpu_cannot_use_is_refused(config):
    with pytest.raises(UserError, match=r"engine\.block_size must be a multiple of 32"):
        build_engine(replace(config, block_size=16), EngineModel("unused", 19, (1,)))

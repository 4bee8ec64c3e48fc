"""Both engines on the embedded policy, and what the trainer's model says of their samples."""

from dataclasses import replace

import torch

from vineppo.config.load import load_config
from vineppo.config.schema import TrainConfig
from vineppo.engine import SampleRequest

MODEL = "embedded:arithmetic_short"
QUESTION = "4+6+6-5+2+7*3?\n"
LEAVES = {"vllm": "demo_vineppo", "transformers": "recipes/transformers_engine"}
PROCESSES = ["engine.kind=vllm_processes", "engine.num_processes=2"]


def engine_config(configs, kind):
    path = str(configs / f"{LEAVES.get(kind, 'demo_vineppo')}.jsonnet")
    return load_config(TrainConfig, path, PROCESSES if kind == "vllm_processes" else []).engine


def start(config, loaded):
    """An engine that knows two ids fewer than the embedding has rows: a padded vocabulary."""
    return config.build(replace(loaded.engine_model, num_token_ids=num_ids(loaded)))


def num_ids(loaded):
    return len(loaded.tokenizer) - 2


def request(prefix_ids, seed, **changes):
    plain = SampleRequest(tuple(prefix_ids), 48, 1.0, 1.0, seed, True)
    return replace(plain, **changes)


def run(engine, requests):
    """The completions in the order of the requests."""
    found = {}
    for index, one in enumerate(requests):
        engine.submit(one, lambda completion, index=index: found.__setitem__(index, completion))
    finish(engine)
    return [found[index] for index in range(len(requests))]


def finish(engine):
    while engine.num_unfinished:
        engine.step()


@torch.no_grad()
def next_logits(loaded, ids):
    """[T, V]: what the trainer's model gives after every token, without padded ids."""
    return loaded.model(torch.tensor([ids])).logits[0, :, : num_ids(loaded)]


def trainer_logprobs(loaded, prefix_ids, completion, temperature):
    ids = [*prefix_ids, *completion.token_ids]
    table_TV = torch.log_softmax(next_logits(loaded, ids)[:-1] / temperature, -1)
    chosen_T = torch.tensor(completion.token_ids)
    return table_TV[len(prefix_ids) - 1 :].gather(1, chosen_T[:, None]).squeeze(1)


def assert_alike(one, other):
    """The same sample, up to the floating-point noise of batching."""
    assert one.token_ids == other.token_ids
    assert one.finish_reason == other.finish_reason
    logprobs = (torch.tensor(completion.logprobs_T) for completion in (one, other))
    torch.testing.assert_close(*logprobs, atol=1e-4, rtol=0)

"""vLLM and transformers sample from one distribution: greedily, in numbers, in frequencies."""

from collections import Counter
from dataclasses import dataclass, replace

import pytest
import torch
from scipy.stats import chisquare
from support.engines import LEAVES, assert_alike, engine_config, num_ids, request, run, start

from vineppo.config.load import load_config
from vineppo.config.schema import TrainConfig
from vineppo.distributed import init_distributed
from vineppo.tasks import load_task
from vineppo.tasks.prompts import encode_prompt

NUM_SAMPLES = 4000
MIN_EXPECTED = 5.0  # of a cell of a χ² test; what is rarer is left out


@pytest.fixture(scope="module")
def engines(configs, loaded):
    init_distributed()
    return {kind: start(engine_config(configs, kind), loaded) for kind in LEAVES}


@pytest.fixture(scope="module")
def prompts(configs, loaded):
    small = ["task.num_train_problems=32"]
    config = load_config(TrainConfig, str(configs / "demo_vineppo.jsonnet"), small)
    return [
        encode_prompt(config.task.prompt, loaded.tokenizer, problem.question)
        for problem in load_task(config.task).test_P[:32]
    ]


@dataclass(frozen=True)
class Setting:
    temperature: float
    top_p: float
    top_k: int | None = None
    min_p: float = 0.0


def test_greedy_samples_are_the_same(engines, prompts):
    requests = [request(ids, seed, temperature=0.0) for seed, ids in enumerate(prompts)]
    found = [run(engine, requests) for engine in engines.values()]
    for one, other in zip(*found, strict=True):
        assert_alike(one, other)


@pytest.mark.parametrize(
    "setting", [Setting(1.0, 1.0), Setting(1.5, 0.7), Setting(1.5, 0.9, 4, 0.02)]
)
def test_each_gives_the_logprobs_of_the_others_samples(engines, prompts, setting):
    """The next token of every state of a response: its number where the other samples the same."""
    first, second = engines.values()
    for ids in prompts[:2]:
        (whole,) = run(first, [request(ids, 7, **vars(setting))])
        states = [(*ids, *whole.token_ids[:t]) for t in range(len(whole.token_ids))]
        requests = [
            request(state, seed, max_tokens=1, **vars(setting))
            for state in states
            for seed in range(8)
        ]
        tables = [logprobs_by_token(requests, run(engine, requests)) for engine in (first, second)]
        shared = tables[0].keys() & tables[1].keys()
        assert len(shared) >= len(states) * 0.9
        for key in shared:
            assert tables[0][key] == pytest.approx(tables[1][key], abs=1e-4)


def logprobs_by_token(requests, completions):
    return {
        (one.prefix_ids, *completion.token_ids): completion.logprobs_T[0]
        for one, completion in zip(requests, completions, strict=True)
    }


# A state after which several tokens are likely: a fact that was demonstrated wrongly.
STATE = "4+6+6-5+2+7*3?\n4+6=0\n0+6=6\n6-5="


def p_value(counts, logits_V, setting):
    """The p-value of a χ² test of sampled tokens; 0 if one of them is cut."""
    probs_V = torch.softmax(logits_V / setting.temperature, -1)
    edge = probs_V.topk(setting.top_k or len(probs_V)).values[-1]
    probs_V[probs_V < max(edge, setting.min_p * probs_V.max())] = 0
    probs_V /= probs_V.sum()
    falling, order = probs_V.sort(descending=True)
    kept = order[(falling.cumsum(0) - falling < setting.top_p) & (falling > 0)].tolist()
    if not counts.keys() <= set(kept):
        return 0.0
    common = [v for v in kept if probs_V[v] * counts.total() >= MIN_EXPECTED]
    mass = probs_V[common].sum()
    expected = [(probs_V[v] / mass).item() * sum(counts[v] for v in common) for v in common]
    return float(chisquare([counts[v] for v in common], expected).pvalue)


@pytest.mark.parametrize(
    ("setting", "other_top_p"),
    [(Setting(1.5, 1.0), 0.9), (Setting(1.2, 0.97), 0.9), (Setting(1.5, 1.0, 4), 0.9),
     (Setting(1.5, 1.0, None, 0.01), 0.9)],
)  # fmt: skip
@pytest.mark.parametrize("kind", LEAVES)
def test_frequencies_are_those_of_the_policy(engines, loaded, kind, setting, other_top_p):
    """And so many samples would tell a temperature 15 % off, or another nucleus."""
    ids = tuple(loaded.tokenizer(STATE)["input_ids"])
    asked = [request(ids, seed, max_tokens=1, **vars(setting)) for seed in range(NUM_SAMPLES)]
    counts = Counter(found.token_ids[0] for found in run(engines[kind], asked))
    with torch.no_grad():
        logits_V = loaded.model(torch.tensor([ids])).logits[0, -1, : num_ids(loaded)].double()
    assert p_value(counts, logits_V, setting) > 0.005
    temperature, top_p = setting.temperature, setting.top_p
    wrong = [{"temperature": temperature * 1.15}, {"temperature": temperature / 1.15}]
    cuts = [{"top_k": 3}, {"min_p": 0.2}] if top_p == 1.0 else []
    for other in (replace(setting, **c) for c in (*wrong, *cuts, {"top_p": other_top_p})):
        assert p_value(counts, logits_V, other) < 1e-4, other
